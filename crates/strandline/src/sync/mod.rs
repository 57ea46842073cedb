//! The `Sync` domain: durability on an ordinary file, by a log that all workers share.

mod device;
mod shared_log;

pub use device::Device;
pub use shared_log::SharedLog;
