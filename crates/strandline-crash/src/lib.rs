//! The crash checker: every state that a power failure can leave.

pub mod explore;
pub mod litmus;

pub use explore::{Crashed, Options, Refused, Report, Setting, check};
