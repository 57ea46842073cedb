//! Pools: what lies where, the file that holds it, opening and recovering it.

mod backup;
mod check;
mod file;
pub mod header;
pub(crate) mod heap;
mod helper;
mod inspect;
pub mod layout;
mod leases;
mod repair;
mod sync_files;
mod ticket;

pub use backup::BackupReport;
pub use check::{CheckReport, RootReport, check};
pub use file::{Options, Pool, Recovery};
pub use header::Header;
pub use heap::{ClassUsage, HeapUsage};
pub use inspect::{PoolInfo, inspect};
pub use layout::{Geometry, Layout, PoolState, ROOTS, SharedLayout, View};
pub(crate) use leases::BoxedWorker;
pub use repair::{RepairReport, repair};
pub use sync_files::log_path;
pub use ticket::Ticket;
