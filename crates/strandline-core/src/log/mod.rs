//! Log record formats, the per-thread log, and the scan that recovery makes of it.

mod copying;
mod record;
mod scan;
mod thread_log;

pub use crate::layout::RECORD_BYTES;
pub use record::{ABORT_GROUP_RECORDS, RECORD_BLOCKS, Record, merge};
pub use scan::{Committed, Write, highest_transaction, scan, scan_counted, scan_fenced};
pub use thread_log::{LogFull, ThreadLog};
pub use thread_log::{make_log, zero};
