//! BASE, the conventional transactional persistent memory of Blurred Persistence's Fig. 2 (b) (section II-C): write-ahead logging from an execution
//! area, and truncation after each transaction.
//!
//! # The protocol
//!
//! *Execution.* New values go to an execution area in volatile memory (steps 1 and 2 of the figure).
//!
//! *Commit.* The execution area is copied to the worker's log, and the log lines are written back and fenced (steps 3 and 4). Only then is the commit
//! record stored, written back and fenced, and the transaction is acknowledged. A crash before the first fence leaves any part of the records and no
//! commit record. A crash before the second may leave the commit record, and if it does, everything before it is there. The commit record's own two
//! blocks may persist separately; a phase bit in both, which differs from that of the log's previous run, reveals that. Nothing else uses that bit
//! here.
//!
//! *Checkpoint.* The new values are stored home, and their lines are written back and fenced (steps 5 and 6). A crash leaves any part of them home;
//! recovery replays all of them from the log.
//!
//! *Truncation.* The TxID is stored in the log's truncation mark (the first word of its last line), written back and fenced. Recovery ignores
//! transactions up to the mark. Only then are the locks released: a younger transaction that overwrites these words cannot be truncated before this
//! one, so an older version is never replayed over a newer one that is home and truncated.
//!
//! *Restart*, when the log is full and thus completely truncated: as in `blurred.rs`, inert records overwrite the rest, are written back and fenced,
//! and the phase flips, so that commit records of the new run differ from those that they overwrite.
//!
//! # A tail pointer
//!
//! Section III-A of the paper: XIL "also avoids the use of log head and tail pointers, so as to eliminate the ordering before their updates". So the
//! logs of the systems without XIL have them. The truncation mark is the head. [`BASE_TAIL`] has a tail as well: when the commit record is durable,
//! the number of records so far is stored beside the mark, written back and fenced. Only then is the transaction acknowledged. Recovery reads the log
//! up to the tail. A crash before that fence leaves either the old tail, without the transaction, or the new one, with it. A tail of the log's
//! previous run excludes nothing until the new run's first commit has stored its own.
//!
//! Recovery: `recovery.rs`.

use crate::execution_area::ExecutionArea;
use crate::native;
use strandline_core::Result;
use strandline_core::layout::{SharedLayout, View};
use strandline_core::log::{LogFull, ThreadLog};
use strandline_core::memory::{LINE_BYTES, Memory, PersistentAddress, Step};
use strandline_core::scheme::Reading;
use strandline_core::scheme::{Checkpoint, Logging, Redo, raise_watermark, unless_covered, wait_for_commits};
use strandline_core::scheme::{Mode, Of, SchemeDescriptor};
use strandline_core::scheme::{PAPER, REDO_STEPS};
use strandline_core::transaction::{Concurrency, Statistics, WriteSet};

/// BASE.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::BASE, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // The records, the commit record, the data, the truncation mark.
/// assert_eq!((cost.lines_written_back, cost.fences), (4, 4));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static BASE: SchemeDescriptor = SchemeDescriptor {
    code: 2,
    modes: &[
        Mode {
            concurrency: Concurrency::Stm,
            name: "base",
            redundant: &[SORT, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW],
        },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "base+single-writer",
            redundant: &[SORT, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW, TRUNCATION_FENCE],
        },
    ],
    source: PAPER,
    description: "redo log copied from an execution area, fences after log, commit record, data and truncation",
    steps: &[
        &[
            Step::LogWriteBack,
            Step::LogFence,
            Step::CommitWriteBack,
            Step::CommitFence,
            Step::HomeWriteBack,
            Step::HomeFence,
            Step::TruncationWriteBack,
            Step::TruncationFence,
        ],
        REDO_STEPS,
    ],
    // The records' lines; the line with the commit record, which may also hold the last records and is then written back a second time; the home
    // lines; the truncation mark; with a fence after each.
    commit_cost: Some(|home, data_lines, _| (data_lines + 1 + home + 1, 4, 0)),
    ..native(&Of::<Redo<Copying, EachTransaction>>::NEW)
};

/// BASE with a tail pointer, which the logs of systems without XIL have by the paper's section III-A.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::BASE_TAIL, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // BASE's, and the tail pointer.
/// assert_eq!((cost.lines_written_back, cost.fences), (5, 5));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static BASE_TAIL: SchemeDescriptor = SchemeDescriptor {
    code: 10,
    modes: &[Mode {
        concurrency: Concurrency::Stm,
        name: "base-tail",
        redundant: &[COMMIT_FENCE, SORT, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW],
    }],
    description: "base, and a tail pointer of the log, written back and fenced when the commit record is durable",
    steps: &[
        &[
            Step::LogWriteBack,
            Step::LogFence,
            Step::CommitWriteBack,
            Step::CommitFence,
            Step::LogTailWriteBack,
            Step::LogTailFence,
            Step::HomeWriteBack,
            Step::HomeFence,
            Step::TruncationWriteBack,
            Step::TruncationFence,
        ],
        REDO_STEPS,
    ],
    commit_cost: Some(|home, data_lines, _| (data_lines + 1 + 1 + home + 1, 5, 0)),
    source: PAPER,
    ..native(&Of::<Redo<Copying<true>, EachTransaction>>::NEW)
};

/// The reason why [`Step::CommitFence`] is redundant if a tail pointer follows.
pub const COMMIT_FENCE: (Step, &str) = (
    Step::CommitFence,
    "the tail pointer's fence completes the commit record's write-back before the transaction is acknowledged, and a tail without its commit \
     record adds nothing",
);
/// The reason why [`Step::RecoverySort`] is redundant if each transaction is truncated.
pub const SORT: (Step, &str) = (
    Step::RecoverySort,
    "a transaction that is not truncated holds its locks, so no two of those that are replayed wrote the same line",
);
/// The reason why [`Step::RestartFence`] is redundant if records are fenced before their commit record.
pub const RESTART_FENCE: (Step, &str) = (
    Step::RestartFence,
    "the first transaction of the new run fences its records before its commit record is stored, which completes the \
     restart's write-backs; no other record is trusted by its bits",
);
/// The reason why [`Step::RecoveryWatermarkLow`] is redundant if records are fenced before their commit record.
pub const WATERMARK_LOW: (Step, &str) = (
    Step::RecoveryWatermarkLow,
    "records are fenced before their commit record is stored, so that an incomplete transaction has a torn commit \
     record; zeroing makes it one of TxID 0 or 1, in a second run, which truncated transactions precede",
);
/// The reason why [`Step::TruncationFence`] is redundant with a single writer.
pub const TRUNCATION_FENCE: (Step, &str) = (
    Step::TruncationFence,
    "the writer's lock is released by an atomic add, which on x86 completes the mark's write-back",
);
/// The reason why [`Step::RestartPhaseEarly`] is redundant if records are fenced before their commit record.
pub const PHASE_EARLY: (Step, &str) = (
    Step::RestartPhaseEarly,
    "inert records then carry the coming run's bit, and a commit record torn over one names TxID 0 or 1, which is \
     truncated; no other record is trusted by its bits",
);

/// Copies records from an execution area, with two fences; the location of a value is its index in the area. `TAIL` adds a tail pointer.
#[derive(Default)]
pub struct Copying<const TAIL: bool = false>(ExecutionArea);

impl<const TAIL: bool> Logging for Copying<TAIL> {
    const READING: Reading = if TAIL { Reading::FencedToTail } else { Reading::Fenced };
    /// The line of the tail pointer, and of the truncation mark if there is one.
    const RESERVED: u32 = if TAIL { EachTransaction::RESERVED } else { 0 };

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
        let place = self.0.write_for(memory, log, word, previous)?;
        if previous.is_none() {
            // Like execution in the log: if clwb evicts, the line comes from memory.
            log.prefetch_copy(memory, place as usize);
        }
        Ok(place)
    }

    fn value<M: Memory>(&self, memory: &M, _: &ThreadLog, place: u32) -> u64 {
        self.0.value(memory, place)
    }

    fn commit<M: Memory>(&mut self, memory: &M, log: &mut ThreadLog, _: &WriteSet, transaction: u64) -> u64 {
        let records = log.commit_copied(memory, self.0.entries(memory), transaction);
        if TAIL {
            let tail = log.reserved().word(1);
            memory.store(tail, log.position().into());
            memory.write_back(tail, Step::LogTailWriteBack);
            memory.fence(Step::LogTailFence);
        }
        records
    }
}

/// Makes the values that are stored home durable.
fn persist_home<M: Memory>(memory: &M, writes: &WriteSet) {
    writes.for_each_line(|line| memory.write_back(line, Step::HomeWriteBack));
    memory.fence(Step::HomeFence);
}

/// Checkpoint and truncation after each transaction, before its locks are released.
pub struct EachTransaction;

impl Checkpoint for EachTransaction {
    /// The line of the truncation mark.
    const RESERVED: u32 = (LINE_BYTES / strandline_core::log::RECORD_BYTES) as u32;

    fn stored_home<M: Memory>(view: &View<M>, log: &ThreadLog, writes: &WriteSet, _: Concurrency) {
        let memory = &view.memory;
        persist_home(memory, writes);
        let mark = log.reserved();
        memory.store(mark, log.last_transaction());
        memory.write_back(mark, Step::TruncationWriteBack);
        memory.fence(Step::TruncationFence);
    }

    fn release_log<M: Memory>(_: &View<M>, _: &ThreadLog, _: Concurrency, _: &mut Statistics) -> Result<()> {
        Ok(())
    }

    fn drain<M: Memory>(_: &View<M>) {}
}

/// Raises the watermark above all transactions so far, each of which makes its home lines durable itself; waits for those in progress.
fn raise_over_all<M: Memory>(view: &View<M>) -> Result<()> {
    let watermark = view.memory.load(SharedLayout::CLOCK);
    if watermark > view.memory.load(SharedLayout::PUBLISHED_WATERMARK) {
        wait_for_commits(view, watermark, Step::BulkWait)?;
        raise_watermark(&view.memory, watermark);
    }
    Ok(())
}

/// Checkpoint after each transaction, before its locks are released, without a truncation mark: a log that restarts first raises the watermark.
pub struct EachTransactionUnmarked;

impl Checkpoint for EachTransactionUnmarked {
    const RESERVED: u32 = 0;
    const AWAITS: bool = true;

    fn stored_home<M: Memory>(view: &View<M>, _: &ThreadLog, writes: &WriteSet, _: Concurrency) {
        persist_home(&view.memory, writes);
    }

    fn release_log<M: Memory>(
        view: &View<M>,
        log: &ThreadLog,
        _: Concurrency,
        _: &mut Statistics,
    ) -> Result<()> {
        unless_covered(view, log, || raise_over_all(view))
    }

    fn drain<M: Memory>(view: &View<M>) {
        view.memory.lock(SharedLayout::BULK);
        // If no transaction runs there is nothing to wait for.
        let _ = raise_over_all(view);
        view.memory.unlock(SharedLayout::BULK);
    }
}
