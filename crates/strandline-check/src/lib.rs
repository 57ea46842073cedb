//! The crash checker: every state that a power failure can leave.

pub mod device;
pub mod explore;
pub mod litmus;
pub mod machine;
pub mod persist_order;
mod setting;

pub use explore::{Crashed, Options, Refused, Report, check};
pub use setting::Setting;
