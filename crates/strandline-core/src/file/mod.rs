//! Pools as files: creating, locking, opening, recovering, growing, backing up, checking and repairing them.

mod backup;
mod check;
mod checkpointer;
mod create;
mod helper;
mod inspect;
mod leases;
mod lock;
mod new_file;
mod open;
mod options;
mod pool;
mod repair;
mod ticket;

pub use backup::BackupReport;
pub use check::{CheckReport, RootReport, check};
pub use inspect::{LogFile, PoolInfo, inspect};
pub use leases::BoxedWorker;
pub use open::log_path;
pub use options::Options;
pub use pool::{Pool, Recovery};
pub use repair::{RepairReport, repair};
pub use ticket::Ticket;
