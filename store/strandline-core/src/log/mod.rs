//! The log record's format, the per-thread log and its scan during recovery, and the undo journal of large transactions.

mod copying;
mod journal;
mod record;
mod scan;
mod thread_log;

pub use crate::layout::RECORD_BYTES;
pub(crate) use journal::{GRANULE_BYTES, Journal, JournalHeader, roll_back_journal};
pub use record::{ABORT_GROUP_RECORDS, RECORD_BLOCKS, Record, home_address, merge};
pub use scan::{Committed, Write, highest_transaction, scan, scan_counted, scan_fenced};
pub use thread_log::{LogFull, ThreadLog};
pub use thread_log::{make_log, zero};
