//! The `Sync` domain: durability on an ordinary file, by a log that all workers share.
//!
//! The heap file is mapped *privately*: the mapping is a volatile cache of the file, and nothing that a transaction stores reaches the file by
//! itself. The [`SharedLog`], a ring of 4 KB blocks in a second file, makes transactions durable. A checkpoint writes their words to the heap file
//! and frees the ring's blocks. After a crash, recovery combines the two files.
//!
//! | file | holds |
//! |---|---|
//! | `memory/device.rs` | [`Device`](crate::memory::Device), the few operations on files that everything else is written over |
//! | `file_device.rs` | [`FileDevice`], the device of real files |
//! | `block.rs` | the format of a block, and of the log file's header |
//! | `runs.rs` | words that follow one another share a record |
//! | `parameters.rs` | [`SyncParameters`], sizes that are no part of a pool's layout |
//! | `slot.rs` | the format of a checkpoint slot |
//! | `shared_log.rs` | reservation and append |
//! | `group_flush.rs` | flushes, which make appended blocks durable |
//! | `ring.rs` | the size of the ring, and requests for checkpoints |
//! | `checkpoint.rs` | the checkpoint |
//! | `large_transactions.rs` | large transactions, which run alone and write the heap file themselves |
//! | `pages.rs` | dirty pages, private copies of pages, and releasing their memory |
//! | `past_log.rs` | writes to free pages past the log |
//! | `checksums.rs` | checksums of pages at rest, an option |
//! | `recovery.rs` | recovery, and making a new log |
//! | `damage.rs` | how blocks of the log prove that it was longer |
//! | `repair.rs` | damage in the log's header and slots, and its repair |
//!
//! All protocol state is in volatile words that are accessed through [`Memory`](crate::memory::Memory), so that a hosted world can interleave the
//! accesses and the crash checker can stop them anywhere.

mod block;
mod checkpoint;
mod checksums;
mod damage;
mod file_device;
mod group_flush;
mod large_transactions;
mod pages;
mod parameters;
mod past_log;
mod recovery;
mod repair;
mod ring;
mod runs;
mod shared_log;
mod slot;
#[cfg(test)]
mod tests;

pub use block::{BLOCK_BYTES, BlockHead, LogIdentity, RECORDS_PER_BLOCK};
pub use checkpoint::CheckpointReport;
pub use checksums::{Checksummed, Verifier, check_checksums_header, create_checksums};
pub use file_device::{DeviceCounters, FileDevice};
pub use parameters::SyncParameters;
pub(crate) use recovery::is_older_log;
pub use recovery::{LogHeader, SyncRecoveryReport, create, read_log_header};
pub use repair::log_blocks;
pub(crate) use repair::{
    OwnLog, damaged_log, damaged_slots, log_identity, log_of_heap, repair_log_header, was_used,
};
pub use shared_log::SharedLog;
