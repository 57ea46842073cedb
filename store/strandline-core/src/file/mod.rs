//! Pools as files: creating, locking, opening, recovering, growing, backing up, checking and repairing them.
//!
//! Functions that few programs call are `#[inline]`, however long they are: backup, check, repair, tickets, the laboratory's workers. Such a function
//! is compiled only in crates that call it. So an application's build does not take time for what the application does not use, nor for a second
//! instantiation of the engine in this crate.

mod address_space;
mod backup;
mod check;
mod checkpointer;
mod checksums;
mod closed_copy;
mod compact;
mod create;
mod helper;
mod inspect;
mod leases;
mod lock;
mod new_file;
mod open;
mod options;
mod pool;
mod recovery;
mod repair;
mod resize;
mod restore;
mod shrink;
mod statistics;
mod ticket;

pub use crate::durations::Durations;
pub use backup::{BackupReport, compare_usage};
pub use check::{CheckReport, RootReport, check};
pub use checksums::{checksums_path, make_checksums};
pub use closed_copy::backup_files;
pub use compact::{CompactReport, SpaceUsage};
pub use inspect::{LogFile, PoolInfo, inspect, inspect_files};
pub use leases::BoxedWorker;
#[doc(hidden)]
pub use leases::{IdleWorkers, thread_number};
pub use new_file::rename_new;
pub use open::{check_name, log_path};
pub use options::Options;
pub use pool::Pool;
pub use recovery::Recovery;
pub use repair::{RepairReport, repair, repair_and_cut_log};
pub use resize::resize_log;
pub use restore::{OldFiles, RestoreReport, restore};
pub use statistics::PoolStatistics;
#[doc(hidden)]
pub use statistics::WriteObserver;
#[doc(hidden)]
pub use ticket::Durability;
pub use ticket::Ticket;
