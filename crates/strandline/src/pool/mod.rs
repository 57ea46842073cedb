//! Pools: what lies where, the file that holds it, opening and recovering it.

mod backup;
mod check;
mod checkpointer;
mod create;
mod file;
pub mod header;
pub(crate) mod heap;
mod helper;
mod inspect;
pub mod layout;
mod lock;
mod new_file;
mod open;
mod options;
mod repair;
mod ticket;

pub use backup::BackupReport;
pub use check::{CheckReport, RootReport, check};
pub use file::{Pool, Recovery};
pub use header::Header;
pub use heap::{ClassUsage, HeapUsage};
pub use inspect::{LogFile, PoolInfo, inspect};
pub use layout::{Geometry, Layout, PoolState, ROOTS, SharedLayout, View};
pub use open::log_path;
pub use options::Options;
pub use repair::{RepairReport, repair};
pub use ticket::Ticket;
