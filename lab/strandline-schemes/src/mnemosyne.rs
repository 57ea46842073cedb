//! MNE, the version of Mnemosyne (Volos, Tack, Swift) with which Blurred Persistence compares (section V-A): a redo log written past the cache, with
//! torn bits; truncation by the committing thread or by a helper (section V-C-5, Fig. 14).
//!
//! # The protocol
//!
//! *Execution* in a volatile execution area, as in BASE (`write_ahead.rs`).
//!
//! *Commit.* Non-temporal stores write the execution area and the commit record to the worker's log, whole lines at a time. One fence follows, after
//! which the transaction is acknowledged. Every block carries a torn bit that differs from the one it overwrites. So a crash before the fence, which
//! may leave any of the blocks, leaves either the whole transaction or one that is recognisably incomplete.
//!
//! The paper says of MNE that it is "an optimized implementation of the baseline system, which uses write combing technique to bypass the CPU cache"
//! (section V-A), and of torn bits that they are "proposed in Mnemosyne" (III-A). The first sentence alone describes [`MNE_SYNC_FENCED`] and
//! [`MNE_ASYNC_FENCED`]: BASE's steps, past the cache, with a fence before the commit record.
//!
//! *Synchronous truncation* is that of BASE.
//!
//! *Asynchronous truncation.* The locks are released as soon as the values are stored home. A helper processes the transactions one by one, in the
//! order of their TxIDs across all logs. It writes the home lines back and fences; it stores the TxID as the watermark, writes it back and fences;
//! then it publishes the watermark. Recovery after a crash in between replays the transactions above the watermark. Because of the order, replayed
//! values are never older than values that are home and truncated. The helper processes a transaction when no commit with a TxID at or below it is in
//! progress, so that it skips none. A log whose transactions are all at or below the published watermark may restart; a worker whose log is full
//! waits for the helper, or does the helper's work itself if there is no helper.
//!
//! Recovery: `recovery.rs`.

use crate::execution_area::ExecutionArea;
use crate::native;
use crate::write_ahead::EachTransaction;
use crate::write_ahead::{PHASE_EARLY, RESTART_FENCE, SORT, TRUNCATION_FENCE, WATERMARK_LOW};
use strandline_core::Result;
use strandline_core::layout::{SharedLayout, View, pack, unpack};
use strandline_core::log::{LogFull, RECORD_BLOCKS, Record, ThreadLog};
use strandline_core::memory::latch::load_in_order;
use strandline_core::memory::{Memory, PersistentAddress, Step};
use strandline_core::scheme::Reading;
use strandline_core::scheme::{Checkpoint, Logging, Redo};
use strandline_core::scheme::{Mode, Of, SchemeDescriptor};
use strandline_core::scheme::{REDO_STEPS, RESTART_FENCE_RETRY};
use strandline_core::scheme::{raise_watermark, wait_for_commits, wake_helper};
use strandline_core::transaction::{Concurrency, Statistics, WriteSet};

/// MNE with synchronous truncation.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::MNE_SYNC, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // A line of the log past the cache, then data and truncation mark.
/// assert_eq!((cost.non_temporal_bytes, cost.fences), (64, 3));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static MNE_SYNC: SchemeDescriptor = SchemeDescriptor {
    code: 3,
    modes: &[
        Mode { concurrency: Concurrency::Stm, name: "mne-sync", redundant: &[SORT, RESTART_FENCE_RETRY] },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "mne-sync+single-writer",
            redundant: &[SORT, RESTART_FENCE_RETRY, TRUNCATION_FENCE],
        },
    ],
    source: MNEMOSYNE,
    description: "redo log by non-temporal stores with torn bits, one fence; then data and truncation, a fence each",
    steps: &[
        &[
            Step::CommitFence,
            Step::HomeWriteBack,
            Step::HomeFence,
            Step::TruncationWriteBack,
            Step::TruncationFence,
        ],
        REDO_STEPS,
    ],
    // All log lines past the cache, the home lines, the truncation mark, with a fence after each.
    commit_cost: Some(|home, _, log_lines| (log_lines + home + 1, 3, 64 * log_lines)),
    ..native(&Of::<Redo<Streaming, EachTransaction>>::NEW)
};

/// MNE with asynchronous truncation.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::MNE_ASYNC, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // A line of the log past the cache; a helper does the rest.
/// assert_eq!((cost.non_temporal_bytes, cost.fences), (64, 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static MNE_ASYNC: SchemeDescriptor = SchemeDescriptor {
    code: 4,
    modes: &[
        Mode {
            concurrency: Concurrency::Stm,
            name: "mne-async",
            redundant: &[WATERMARK_FENCE_EACH, RESTART_FENCE_RETRY],
        },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "mne-async+single-writer",
            redundant: &[HELPER_WAIT, WATERMARK_FENCE_EACH, RESTART_FENCE_RETRY],
        },
    ],
    source: MNEMOSYNE,
    description: "the same log, one fence; a helper thread persists data and truncates in the order of commits",
    steps: &[
        &[
            Step::CommitFence,
            Step::HelperWait,
            Step::HelperOrder,
            Step::HomeWriteBack,
            Step::HomeFence,
            Step::WatermarkWriteBack,
            Step::WatermarkFence,
            Step::WatermarkHigh,
        ],
        REDO_STEPS,
    ],
    // All log lines past the cache, and a fence.
    commit_cost: Some(|_, _, log_lines| (log_lines, 1, 64 * log_lines)),
    ..native(&Of::<Redo<Streaming, Helper>>::NEW)
};

/// MNE with synchronous truncation whose log differs from BASE's only in bypassing the cache.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::MNE_SYNC_FENCED, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // The line of the records, and once more with the commit record; then data and truncation mark.
/// assert_eq!((cost.non_temporal_bytes, cost.fences), (128, 4));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static MNE_SYNC_FENCED: SchemeDescriptor = SchemeDescriptor {
    code: 13,
    modes: &[Mode {
        concurrency: Concurrency::Stm,
        name: "mne-sync-fenced",
        redundant: &[SORT, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW],
    }],
    source: MNEMOSYNE,
    description: "mne-sync without torn bits: records past the cache, a fence, commit record, a fence; then as base",
    steps: &[
        &[
            Step::LogFence,
            Step::CommitFence,
            Step::HomeWriteBack,
            Step::HomeFence,
            Step::TruncationWriteBack,
            Step::TruncationFence,
        ],
        REDO_STEPS,
    ],
    commit_cost: Some(|home, data_lines, _| (data_lines + 1 + home + 1, 4, 64 * (data_lines + 1))),
    ..native(&Of::<Redo<Streaming<true>, EachTransaction>>::NEW)
};

/// MNE with asynchronous truncation and the log of [`MNE_SYNC_FENCED`].
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::MNE_ASYNC_FENCED, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// assert_eq!((cost.non_temporal_bytes, cost.fences), (128, 2));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static MNE_ASYNC_FENCED: SchemeDescriptor = SchemeDescriptor {
    code: 14,
    modes: &[Mode {
        concurrency: Concurrency::Stm,
        name: "mne-async-fenced",
        redundant: &[WATERMARK_FENCE_EACH, RESTART_FENCE],
    }],
    source: MNEMOSYNE,
    description: "the same log, two fences; a helper thread persists data and truncates in the order of commits",
    steps: &[
        &[
            Step::LogFence,
            Step::CommitFence,
            Step::HelperWait,
            Step::HelperOrder,
            Step::HomeWriteBack,
            Step::HomeFence,
            Step::WatermarkWriteBack,
            Step::WatermarkFence,
            Step::WatermarkHigh,
        ],
        REDO_STEPS,
    ],
    commit_cost: Some(|_, data_lines, _| (data_lines + 1, 2, 64 * (data_lines + 1))),
    ..native(&Of::<Redo<Streaming<true>, Helper>>::NEW)
};

const MNEMOSYNE: &str = "Lu, Shu, Sun: Blurred Persistence (from Mnemosyne)";
const WATERMARK_FENCE_EACH: (Step, &str) = (
    Step::WatermarkFence,
    "the fence after the next transaction's home lines completes it, so the durable watermark is at most one \
     transaction behind the published one; that one is home durably, and nothing newer that is home is forgotten",
);
/// The reason why [`Step::HelperWait`] is redundant with a single writer.
pub const HELPER_WAIT: (Step, &str) =
    (Step::HelperWait, "commits are one after another; the helper reads which one has stored home last");

/// Streams records from an execution area; the location of a value is its index in the area. `FENCED` uses a fence before the commit record instead
/// of torn bits.
#[derive(Default)]
pub struct Streaming<const FENCED: bool = false>(ExecutionArea);

impl<const FENCED: bool> Logging for Streaming<FENCED> {
    const READING: Reading = if FENCED { Reading::Fenced } else { Reading::TornBits };
    const PAST_CACHE: bool = true;

    fn begin(&mut self) {
        self.0.clear();
    }

    fn write<M: Memory>(
        &mut self,
        memory: &M,
        log: &mut ThreadLog,
        word: (PersistentAddress, u64),
        previous: Option<u32>,
    ) -> Result<u32, LogFull> {
        self.0.write_for(memory, log, word, previous)
    }

    fn value<M: Memory>(&self, memory: &M, _: &ThreadLog, place: u32) -> u64 {
        self.0.value(memory, place)
    }

    fn commit<M: Memory>(&mut self, memory: &M, log: &mut ThreadLog, _: &WriteSet, transaction: u64) -> u64 {
        let words = self.0.words(memory);
        if FENCED {
            log.commit_streamed_fenced(memory, words, transaction)
        } else {
            log.commit_streamed(memory, words, transaction)
        }
    }
}

/// Truncation by a helper, one transaction at a time, in the order of TxIDs.
pub struct Helper;

impl Checkpoint for Helper {
    const RESERVED: u32 = 0;
    const HELPER: bool = true;

    fn stored_home<M: Memory>(view: &View<M>, log: &ThreadLog, _: &WriteSet, concurrency: Concurrency) {
        let memory = &view.memory;
        if concurrency == Concurrency::SingleWriter {
            memory.store(SharedLayout::HOME, log.last_transaction());
        }
        if load_in_order(memory, SharedLayout::HELPER_WAITS) != 0 {
            wake_helper(memory);
        }
    }

    fn release_log<M: Memory>(
        view: &View<M>,
        log: &ThreadLog,
        concurrency: Concurrency,
        _: &mut Statistics,
    ) -> Result<()> {
        advance_past(view, log, || {
            truncate(view, last_home(view, concurrency));
        });
        Ok(())
    }

    fn drain<M: Memory>(view: &View<M>) {
        view.memory.lock(SharedLayout::BULK);
        truncate(view, view.memory.load(SharedLayout::CLOCK));
        view.memory.unlock(SharedLayout::BULK);
    }

    fn help<M: Memory>(view: &View<M>, concurrency: Concurrency, stop: &dyn Fn() -> bool) {
        let memory = &view.memory;
        while !stop() {
            memory.lock(SharedLayout::BULK);
            let advanced = truncate(view, last_home(view, concurrency));
            memory.unlock(SharedLayout::BULK);
            if advanced {
                continue;
            }
            // A later commit sees that the helper waits; the transaction of an earlier commit is visible now.
            let _ = memory.compare_exchange(SharedLayout::HELPER_WAITS, 0, 1);
            let behind =
                load_in_order(memory, SharedLayout::CLOCK) != memory.load(SharedLayout::PUBLISHED_WATERMARK);
            if behind || stop() {
                memory.store(SharedLayout::HELPER_WAITS, 0);
                memory.pause();
            } else {
                memory.wait(SharedLayout::HELPER_WAITS, 1);
            }
        }
    }
}

/// Does the helper's work, by `advance`, until the watermark covers all transactions of the log.
pub(crate) fn advance_past<M: Memory>(view: &View<M>, log: &ThreadLog, mut advance: impl FnMut()) {
    let memory = &view.memory;
    let covered = || log.last_transaction() <= memory.load(SharedLayout::PUBLISHED_WATERMARK);
    while !covered() {
        memory.lock(SharedLayout::BULK);
        if !covered() {
            advance();
        }
        memory.unlock(SharedLayout::BULK);
    }
}

/// Returns a TxID such that every transaction up to it has either stored home and is visible in its log, or has failed.
pub(crate) fn last_home<M: Memory>(view: &View<M>, concurrency: Concurrency) -> u64 {
    match concurrency {
        Concurrency::Stm | Concurrency::Locks => {
            let last = view.memory.load(SharedLayout::CLOCK);
            // Transactions of this scheme are never large, so there is no large one to wait for.
            let _ = wait_for_commits(view, last, Step::HelperWait);
            last
        }
        Concurrency::SingleWriter => view.memory.load(SharedLayout::HOME),
    }
}

/// Truncates all transactions up to `last`, all of which have stored home, one at a time in the order of their TxIDs. The caller holds
/// [`SharedLayout::BULK`]. Returns whether there was any, or a TxID that failed.
fn truncate<M: Memory>(view: &View<M>, last: u64) -> bool {
    let memory = &view.memory;
    if last <= memory.load(SharedLayout::PUBLISHED_WATERMARK) {
        return false;
    }
    let mut transactions = Vec::new();
    for index in 0..view.layout.geometry.logs {
        collect(view, index, last, &mut transactions);
    }
    if !memory.omitted(Step::HelperOrder) {
        transactions.sort_unstable_by_key(|(transaction, _)| *transaction);
    }
    for (transaction, lines) in transactions {
        for line in lines {
            memory.write_back(line, Step::HomeWriteBack);
        }
        memory.fence(Step::HomeFence);
        raise_watermark(memory, transaction);
    }
    // The TxIDs after the last of these up to `last` belong to commits that failed, which are in no log.
    memory.store(SharedLayout::PUBLISHED_WATERMARK, last);
    true
}

/// Collects the transactions of log `index` up to `last` that no helper has processed, with their home lines.
fn collect<M: Memory>(
    view: &View<M>,
    index: u64,
    last: u64,
    transactions: &mut Vec<(u64, Vec<PersistentAddress>)>,
) {
    let (memory, slot, log) = (&view.memory, view.shared.slot(index), view.layout.log(index));
    let (run, end) = unpack(memory.load(slot.committed()));
    let from = match unpack(memory.load(slot.persisted())) {
        (persisted_run, upto) if persisted_run == run => upto,
        _ => 0,
    };
    let (mut upto, mut lines) = (from, Vec::new());
    for at in from..end {
        let mut blocks = [0; RECORD_BLOCKS as usize];
        memory.load_range(log.word(u64::from(at) * RECORD_BLOCKS), &mut blocks);
        match Record::decode(blocks) {
            Record::Data { address, mask, .. } if mask != 0 => {
                lines.push(PersistentAddress::new(address).line());
            }
            Record::Commit { transaction } if transaction > last => break,
            Record::Commit { transaction } => {
                lines.sort_unstable();
                lines.dedup();
                transactions.push((transaction, std::mem::take(&mut lines)));
                upto = at + 1;
            }
            _ => {}
        }
    }
    memory.store(slot.persisted(), pack(run, upto));
}
