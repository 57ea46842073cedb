//! The two halves of Blurred Persistence, each combined with the conventional other half: BP(XIL), execution in the log, and BP(VCBP), volatile
//! checkpoints with bulk persistence (section V-A of the paper). A variant of the latter writes its log past the cache.
//!
//! The protocols are described with BPPM in `strandline-core`'s `scheme/blurred.rs`, with BASE in `write_ahead.rs`, and with MNE in `mnemosyne.rs`.

use crate::native;
use strandline_core::Concurrency;
use strandline_core::memory::Step;
use strandline_core::scheme::{BULK_LOG, BULK_STEPS};
use strandline_core::scheme::{BulkPersistence, Executing, PAPER, REDO_STEPS, RESTART_FENCE_RETRY, Redo};
use strandline_core::scheme::{Mode, Of, SchemeDescriptor};

use crate::mnemosyne::Streaming;
use crate::write_ahead::{
    COMMIT_FENCE, Copying, EachTransaction, EachTransactionUnmarked, PHASE_EARLY, RESTART_FENCE, SORT,
    TRUNCATION_FENCE, WATERMARK_LOW,
};

/// BP(XIL): only execution in the log.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::XIL, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // A line of the log, the data, the truncation mark.
/// assert_eq!((cost.lines_written_back, cost.fences), (3, 3));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static XIL: SchemeDescriptor = SchemeDescriptor {
    code: 5,
    modes: &[
        Mode { concurrency: Concurrency::Stm, name: "xil", redundant: &[SORT, PHASE_EARLY_EXECUTED] },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "xil+single-writer",
            redundant: &[SORT, PHASE_EARLY_EXECUTED, TRUNCATION_FENCE],
        },
    ],
    source: PAPER,
    description: "BP(XIL): execution in the log with torn bits, one fence; then data and truncation, a fence each",
    steps: &[
        &[
            Step::AbortRecord,
            Step::CommitWriteBack,
            Step::AbortRecordWriteBack,
            Step::CommitFence,
            Step::CommitWriteBackPartial,
            Step::CommitFenceEarly,
            Step::AbortRecordPartial,
            Step::RestartWriteBackPartial,
            Step::RecoveryLookAheadShort,
            Step::HomeWriteBack,
            Step::HomeFence,
            Step::TruncationWriteBack,
            Step::TruncationFence,
        ],
        REDO_STEPS,
    ],
    // The log lines, the home lines, the truncation mark, with a fence after each.
    commit_cost: Some(|home, _, log_lines| (log_lines + home + 1, 3, 0)),
    ..native(&Of::<Redo<Executing, EachTransaction>>::NEW)
};

/// BP(XIL) without a truncation mark. Section III-A: XIL "avoids the use of log head and tail pointers [...] To achieve this, the XIL technique has
/// to check the log from the beginning and detects the end by itself". Recovery replays everything in a log above the watermark. These values are
/// home already, and replaying them in the order of TxIDs changes nothing. Before a log restarts, the watermark is durably raised above its
/// transactions. Otherwise another log's older version would be replayed over a newer one that is no longer in any log.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::XIL_UNMARKED, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // A line of the log, the data.
/// assert_eq!((cost.lines_written_back, cost.fences), (2, 2));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static XIL_UNMARKED: SchemeDescriptor = SchemeDescriptor {
    code: 11,
    modes: &[Mode { concurrency: Concurrency::Stm, name: "xil-unmarked", redundant: &[] }],
    source: PAPER,
    description: "xil without a truncation mark: the watermark is raised when a log begins again",
    steps: &[
        &[
            Step::AbortRecord,
            Step::CommitWriteBack,
            Step::AbortRecordWriteBack,
            Step::CommitFence,
            Step::CommitWriteBackPartial,
            Step::CommitFenceEarly,
            Step::AbortRecordPartial,
            Step::RestartWriteBackPartial,
            Step::RecoveryLookAheadShort,
            Step::HomeWriteBack,
            Step::HomeFence,
            Step::BulkWait,
            Step::WatermarkWriteBack,
            Step::WatermarkFence,
            Step::WatermarkHigh,
            Step::WatermarkFenceLate,
        ],
        REDO_STEPS,
    ],
    // The log lines and the home lines, with a fence after each.
    commit_cost: Some(|home, _, log_lines| (log_lines + home, 2, 0)),
    ..native(&Of::<Redo<Executing, EachTransactionUnmarked>>::NEW)
};

const PHASE_EARLY_EXECUTED: (Step, &str) = (
    Step::RestartPhaseEarly,
    "a transaction fills the log before the log begins anew, so that one record at most is made inert, the last; a \
     commit record torn over it names TxID 0 or 1: truncated, or alone in not being so",
);

/// BP(VCBP): only volatile checkpoints with bulk persistence.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::VCBP, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // The records, and the commit record after them.
/// assert_eq!((cost.lines_written_back, cost.fences), (2, 2));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static VCBP: SchemeDescriptor = SchemeDescriptor {
    code: 6,
    modes: &[
        Mode {
            concurrency: Concurrency::Stm,
            name: "vcbp",
            redundant: &[BULK_LOG, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW],
        },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "vcbp+single-writer",
            redundant: &[BULK_LOG, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW],
        },
    ],
    source: PAPER,
    description: "BP(VCBP): redo log copied from an execution area, a fence, commit record, a fence; bulk persistence",
    steps: &[
        &[Step::LogWriteBack, Step::LogFence, Step::CommitWriteBack, Step::CommitFence],
        BULK_STEPS,
        REDO_STEPS,
    ],
    // Only BASE's log.
    commit_cost: Some(|_, data_lines, _| (data_lines + 1, 2, 0)),
    ..native(&Of::<Redo<Copying, BulkPersistence>>::NEW)
};

/// BP(VCBP) with the tail pointer of [`BASE_TAIL`](crate::BASE_TAIL).
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::VCBP_TAIL, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // The records, the commit record after them, the tail pointer.
/// assert_eq!((cost.lines_written_back, cost.fences), (3, 3));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static VCBP_TAIL: SchemeDescriptor = SchemeDescriptor {
    code: 12,
    modes: &[Mode {
        concurrency: Concurrency::Stm,
        name: "vcbp-tail",
        redundant: &[COMMIT_FENCE, BULK_LOG, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW],
    }],
    source: PAPER,
    description: "vcbp, and a tail pointer of the log, written back and fenced when the commit record is durable",
    steps: &[
        &[
            Step::LogWriteBack,
            Step::LogFence,
            Step::CommitWriteBack,
            Step::CommitFence,
            Step::LogTailWriteBack,
            Step::LogTailFence,
        ],
        BULK_STEPS,
        REDO_STEPS,
    ],
    commit_cost: Some(|_, data_lines, _| (data_lines + 1 + 1, 3, 0)),
    ..native(&Of::<Redo<Copying<true>, BulkPersistence>>::NEW)
};

/// BP(VCBP) with MNE's log, a variant that the paper does not have. It exists because the paper's BP(VCBP) gains more over BASE than flushing line by
/// line permits. The log is written past the cache, with torn bits and one fence; home locations are persisted in bulk. After a crash the log is as
/// under MNE, and home as under BPPM.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::VCBP_STREAMED, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // A line of the log past the cache.
/// assert_eq!((cost.non_temporal_bytes, cost.lines_written_back, cost.fences), (64, 1, 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static VCBP_STREAMED: SchemeDescriptor = SchemeDescriptor {
    code: 9,
    modes: &[
        Mode {
            concurrency: Concurrency::Stm,
            name: "vcbp-streamed",
            redundant: &[BULK_LOG, RESTART_FENCE_RETRY],
        },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "vcbp-streamed+single-writer",
            redundant: &[BULK_LOG, RESTART_FENCE_RETRY],
        },
    ],
    source: "ours, after Lu, Shu, Sun: Blurred Persistence",
    description: "BP(VCBP) with MNE's log: streamed past the cache with torn bits, one fence; bulk persistence",
    steps: &[&[Step::CommitFence], BULK_STEPS, REDO_STEPS],
    // All log lines past the cache, and a fence.
    commit_cost: Some(|_, _, log_lines| (log_lines, 1, 64 * log_lines)),
    ..native(&Of::<Redo<Streaming, BulkPersistence>>::NEW)
};
