//! The scheme that applications use: BPPM, except that transactions execute in their write sets and store to the log past the cache.
//!
//! # The protocol
//!
//! The log is BPPM's (`blurred.rs`), word for word, so that each can recover the other's pools. They differ in how records get there. A write is kept
//! in the write set only. When the transaction commits, its words' newest values, the commit record and the filling of its last line are stored
//! non-temporally, one line at a time, and one fence waits for them. So a word that is written twice takes one record, a transaction that aborts
//! leaves nothing in the log, and there are no abort records.
//!
//! A store through the cache must first fetch its line from memory, and the instruction that writes the line back then waits for the store. A line
//! that is stored past the cache is sent as soon as it is full, so the fence waits less for it. This does not hold for lines that are in a cache. A
//! log that restarts is therefore evicted first, because bulk persistence has read it.
//!
//! While a fence is pending, the processor executes the next transaction until it has no room for more stores. So the engine stores as little as
//! possible between two fences: it compares values that are mostly there already before it stores them (`engine::renew`), and updates counters before
//! the fence.
//!
//! If caches survive a power failure, lines need not leave them. The same records are then stored one after another without filling, and the next
//! transaction's records begin in the line in which this one's end.
//!
//! # Crashes
//!
//! The log behaves like MNE's: until the fence, lines and the words in them become durable in any order. The torn bit of each word shows whether it
//! did, and a commit record counts only if all words before it did. The home locations behave as under BPPM.
//!
//! In the `Sync` domain the shared log takes the words from the write set.

use super::blurred::{BULK_LOG, BULK_STEPS, BulkPersistence, PAPER};
use super::recovery::Reading;
use super::redo::{Logging, REDO_STEPS, RESTART_FENCE_RETRY, Redo, leave_records};
use super::{BPPM, Durability, Mode, Of, SchemeDescriptor};
use crate::log::ThreadLog;
use crate::memory::{Memory, Step};
use crate::transaction::{Concurrency, WriteSet};

/// BPPM as applications use it.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::engine::Stm;
///
/// let mut worker = Worker::lease(view, Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // One line of the log, past the cache; the data goes home when many transactions have.
/// assert_eq!((cost.non_temporal_bytes, cost.lines_written_back, cost.fences), (64, 1, 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub type Product = Redo<Streamed, BulkPersistence>;

/// The descriptor of [`Product`]. It is not a scheme of its own, because its pools are [`BPPM`]'s.
pub static PRODUCT: SchemeDescriptor = SchemeDescriptor {
    code: BPPM.code,
    modes: &[
        Mode {
            concurrency: Concurrency::Stm,
            name: "strandline",
            redundant: &[BULK_LOG, RESTART_FENCE_RETRY],
        },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "strandline+single-writer",
            redundant: &[BULK_LOG, RESTART_FENCE_RETRY],
        },
    ],
    source: PAPER,
    description: "bppm as applications have it: its log goes past the cache when a transaction commits",
    durability: Durability::Software,
    is_native: true,
    in_sync: true,
    persistency: None,
    steps: &[&[Step::CommitFence], BULK_STEPS, REDO_STEPS],
    barriers: &[],
    leftover: leave_records,
    // All log lines are stored past the cache, with one fence.
    commit_cost: Some(|_, _, log_lines| (log_lines, 1, 64 * log_lines)),
    scheme: &Of::<Product>::NEW,
};

/// Execution in the write set.
#[derive(Default)]
pub struct Streamed;

impl Logging for Streamed {
    const READING: Reading = Reading::TornBits;
    const TAKES_WRITES: bool = false;
    const KEEPS_VALUES: bool = false;
    const PAST_CACHE: bool = true;

    fn commit<M: Memory>(
        &mut self,
        memory: &M,
        log: &mut ThreadLog,
        writes: &WriteSet,
        transaction: u64,
    ) -> u64 {
        if memory.caches_survive() {
            return log.commit_stored(memory, writes.words(), transaction);
        }
        log.commit_streamed(memory, writes.words(), transaction)
    }
}
