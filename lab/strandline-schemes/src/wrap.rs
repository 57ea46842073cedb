//! WrAP in software: write-aside persistence (Giles, Doshi, Varman; section 3) on memory that caches write back when they please and that has no
//! victim persistence cache.
//!
//! # The protocol
//!
//! *A wrapped write* has two effects, as in the paper. First, while the wrap is open, a log record of the word goes past the cache to the worker's
//! log (the wrap's bucket), by non-temporal stores for which no thread waits. They are issued when four records fill a line, as the paper suggests
//! (section 4.1). Second, the new value is stored where reads find it. In hardware that is the variable's own cache line, which a victim cache keeps
//! from going home too early. Here it is an *alias*: a word in volatile memory that the write set finds by the variable's address while the wrap is
//! open.
//!
//! *Closing a wrap.* A commit record with the number of the wrap's records (as in `counted.rs`) follows them past the cache. One fence covers all of
//! them, most of which left long ago, and the wrap is acknowledged. The commit record corresponds to the paper's tail pointer of the queue of closed
//! wraps, whose order is that of the TxIDs. From then on the variable's own cache line is its alias, since an eviction is harmless: the closing
//! worker stores the values home and waits for nothing.
//!
//! *Giving up.* The records stay where they are, no commit record includes them, and their places are not reused in this run. A fence precedes the
//! release of the locks, because stores past the cache are not ordered.
//!
//! *COPY* runs in a helper, in closing order. It writes back the home lines of all wraps that have closed since it last ran, and fences; stores the
//! highest of their TxIDs as the watermark, writes it back and fences; and publishes it. It runs whenever a worker has filled another quarter of its
//! log, and in the worker itself when its log is full. A log restarts when all its wraps are copied, as in `blurred.rs`.
//!
//! # Crashes
//!
//! Before the fence any of an open wrap's records may be there, and its home locations are untouched. A surviving commit record is valid only
//! together with all of the wrap's records. After the fence and before COPY any part of the wrap may be home; RESTORE (`recovery.rs`) redoes the
//! wraps above the watermark in closing order. The watermark is durable before any of their records is overwritten.

use crate::execution_area::ExecutionArea;
use crate::mnemosyne::{HELPER_WAIT, advance_past, last_home};
use crate::native;
use strandline_core::Result;
use strandline_core::layout::{SharedLayout, View};
use strandline_core::log::{LogFull, ThreadLog};
use strandline_core::memory::Step;
use strandline_core::memory::{Memory, PersistentAddress};
use strandline_core::scheme::Reading;
use strandline_core::scheme::persist_up_to;
use strandline_core::scheme::wake_helper;
use strandline_core::scheme::{Checkpoint, Logging, Redo};
use strandline_core::scheme::{Mode, Of, SchemeDescriptor};
use strandline_core::scheme::{REDO_STEPS, RESTART_FENCE_RETRY};
use strandline_core::transaction::{Concurrency, Statistics, WriteSet};

/// WrAP.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::WRAP, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // A line of the log past the cache; a helper copies home.
/// assert_eq!((cost.non_temporal_bytes, cost.fences), (64, 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static WRAP: SchemeDescriptor = SchemeDescriptor {
    code: 48,
    modes: &[
        Mode { concurrency: Concurrency::Stm, name: "wrap", redundant: &[RESTART_FENCE_RETRY, PARTIAL_REST] },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "wrap+single-writer",
            redundant: &[HELPER_WAIT, RESTART_FENCE_RETRY, PARTIAL_REST],
        },
    ],
    source: PAPER,
    description: "redo log by non-temporal stores during execution, one fence; a helper copies home in closing order",
    steps: &[
        &[
            Step::CommitFence,
            Step::CommitFenceEarly,
            Step::AbortFence,
            Step::HelperWait,
            Step::RestartWriteBackPartial,
            Step::BulkDataWriteBack,
            Step::BulkDataFence,
            Step::WatermarkWriteBack,
            Step::WatermarkFence,
            Step::BulkDataWriteBackPartial,
            Step::BulkDataFenceLate,
            Step::WatermarkHigh,
            Step::WatermarkFenceLate,
        ],
        REDO_STEPS,
    ],
    // All log lines past the cache, and a fence.
    commit_cost: Some(|_, _, log_lines| (log_lines, 1, 64 * log_lines)),
    ..native(&Of::<Redo<WriteAside, Copy>>::NEW)
};

/// The paper, for the descriptors of its schemes.
pub const PAPER: &str =
    "Giles, Doshi, Varman: Bridging the Programming Gap Between Persistent and Volatile Memory Using WrAP";
const PARTIAL_REST: (Step, &str) = (
    Step::RestartWriteBackPartial,
    "a log begins anew when a transaction has filled it, and its records leave in whole lines: what is left is one line \
     at most",
);

/// Writes records to the log while words are written, and values to aliases; the location of a value is its alias' index.
#[derive(Default)]
pub struct WriteAside {
    aliases: ExecutionArea,
}

impl Logging for WriteAside {
    const READING: Reading = Reading::Counted;
    const PAST_CACHE: bool = true;

    fn begin(&mut self) {
        self.aliases.clear();
    }

    fn write<M: Memory>(
        &mut self,
        memory: &M,
        log: &mut ThreadLog,
        (at, value): (PersistentAddress, u64),
        previous: Option<u32>,
    ) -> Result<u32, LogFull> {
        log.append_streamed(memory, at, value)?;
        Ok(self.aliases.write(memory, (at, value), previous))
    }

    fn value<M: Memory>(&self, memory: &M, _: &ThreadLog, place: u32) -> u64 {
        self.aliases.value(memory, place)
    }

    fn commit<M: Memory>(&mut self, memory: &M, log: &mut ThreadLog, _: &WriteSet, transaction: u64) -> u64 {
        log.close_streamed(memory, transaction)
    }

    fn abort<M: Memory>(&mut self, memory: &M, log: &mut ThreadLog) {
        log.abandon_streamed(memory);
    }
}

/// COPY: a helper, or a worker without room, copies several wraps home at a time, in closing order.
pub struct Copy;

/// How often the helper is called while a log is filled.
const CALLS_PER_RUN: u32 = 4;

impl Checkpoint for Copy {
    const RESERVED: u32 = 0;
    const HELPER: bool = true;

    fn stored_home<M: Memory>(view: &View<M>, log: &ThreadLog, _: &WriteSet, concurrency: Concurrency) {
        let memory = &view.memory;
        if concurrency == Concurrency::SingleWriter {
            memory.store(SharedLayout::HOME, log.last_transaction());
        }
        // A helper that is just about to wait misses this call, and receives the next one.
        if log.has_crossed(CALLS_PER_RUN) && memory.load(SharedLayout::HELPER_WAITS) != 0 {
            wake_helper(memory);
        }
    }

    fn release_log<M: Memory>(
        view: &View<M>,
        log: &ThreadLog,
        concurrency: Concurrency,
        statistics: &mut Statistics,
    ) -> Result<()> {
        advance_past(view, log, || {
            persist_up_to(view, last_home(view, concurrency));
            statistics.bulk_persists += 1;
        });
        Ok(())
    }

    fn drain<M: Memory>(view: &View<M>) {
        view.memory.lock(SharedLayout::BULK);
        persist_up_to(view, view.memory.load(SharedLayout::CLOCK));
        view.memory.unlock(SharedLayout::BULK);
    }

    fn help<M: Memory>(view: &View<M>, concurrency: Concurrency, stop: &dyn Fn() -> bool) {
        let memory = &view.memory;
        while !stop() {
            memory.lock(SharedLayout::BULK);
            persist_up_to(view, last_home(view, concurrency));
            memory.unlock(SharedLayout::BULK);
            let _ = memory.compare_exchange(SharedLayout::HELPER_WAITS, 0, 1);
            if !stop() {
                memory.wait(SharedLayout::HELPER_WAITS, 1);
            }
        }
    }
}
