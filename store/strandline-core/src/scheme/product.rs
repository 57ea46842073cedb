//! What applications run: BPPM, whose transactions execute in their write sets, and whose log they reach past the cache.
//!
//! # The protocol
//!
//! The log is BPPM's (`blurred.rs`), word for word: who recovers the one recovers the other. What differs is how records get there. A
//! write is kept in the write set alone. When the transaction commits, its words' newest values, the commit record and the
//! filling of its last line leave by non-temporal stores, a line at a time, and one fence waits for them. So a word that is written twice has
//! one record, nothing of a transaction that gives up is ever in the log, and there are no abort records.
//!
//! A line that was stored through the cache must first come from memory and is then written back by an instruction that waits for the store; one
//! that goes past the cache is on its way when it is full, and the fence waits less for it. That does not hold for lines that are in a cache, so a log
//! that restarts is evicted first: bulk persistence has read it.
//!
//! While a fence is pending a processor executes the next transaction, until it has no room for more stores. So little is stored between two fences:
//! values that are mostly there already are compared instead (`engine::renew`), and counters are updated before the fence.
//!
//! Where caches survive a power failure, nothing has to leave them: the same records are stored one after another, without filling, and
//! the next transaction's follow in the line where this one's end.
//!
//! # Crashes
//!
//! As of MNE's log: lines, and the words in them, arrive in any order until the fence. A torn bit tells of each whether it did, and a
//! commit record counts only where all before it did. Of home, a crash leaves what it leaves of BPPM's.
//!
//! In the `Sync` domain the shared log takes the words from the write set.

use super::blurred::{BULK_LOG, BULK_STEPS, BulkPersistence, PAPER};
use super::recovery::Reading;
use super::redo::{Logging, REDO_STEPS, RESTART_FENCE_RETRY, Redo, leave_records};
use super::{BPPM, Durability, Mode, Of, SchemeDescriptor};
use crate::log::ThreadLog;
use crate::memory::{Memory, Step};
use crate::transaction::{Concurrency, WriteSet};

/// BPPM as applications have it.
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

/// What is to be known of [`Product`]: not a scheme of its own, as its pools are [`BPPM`]'s.
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
    // All log lines past the cache, a fence.
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
