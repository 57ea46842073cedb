//! The schemes that are checked: the one place where a scheme is registered. A scheme that arrives later
//! adds an entry to [`ALL`]: its kind and mode, and its steps with
//! what is known of them.

use fastrand::Rng;
use strandline::Concurrency;
use strandline::log::{Record, undo_log_words};
use strandline::memory::{PersistentAddress, Step};
use strandline::pool::Layout;
use strandline::scheme::{SchemeKind, undo_record_words};

use crate::Setting;

/// Fills the place of a log.
pub type Leftover = fn(&Layout, &mut Rng, &mut [u64]);

/// A scheme in one of its modes.
#[derive(Clone, Copy)]
pub struct CheckedScheme {
    /// The name in `strandline list`.
    pub name: &'static str,
    /// Its mode.
    pub concurrency: Concurrency,
    /// The settings that it claims to survive.
    pub settings: &'static [Setting],
    /// Its steps, each of which makes a mutant.
    pub steps: &'static [Step],
    /// Steps that may be left out in this mode, and why. `docs/crash-checking.md` says more.
    pub redundant: &'static [(Step, &'static str)],
    /// What another life of this memory may have left where this pool has no log yet: logs are made when they are
    /// first needed.
    pub leftover: Leftover,
    /// The scheme in the library.
    pub kind: SchemeKind,
}

impl CheckedScheme {
    /// Whether its logs are written from begin to end, in one run after another.
    pub(super) fn has_runs(&self) -> bool {
        self.steps.contains(&Step::RestartPhase)
    }

    /// Whether it says only when a worker is drained that commits are durable: under persistency models whose barriers
    /// order and do not wait.
    pub(crate) fn acknowledges_when_drained(&self) -> bool {
        use SchemeKind::{
            DeferredEpoch, DeferredStrand, DeferredStrict, SynchronousEpoch, SynchronousStrand,
            SynchronousStrict,
        };
        matches!(
            self.kind,
            DeferredEpoch
                | DeferredStrand
                | DeferredStrict
                | SynchronousEpoch
                | SynchronousStrand
                | SynchronousStrict
        )
    }
}

/// Steps of the redo schemes: those given, and those that all of them have.
macro_rules! steps {
    ($($step:ident)*) => {
        &[
            $(Step::$step,)*
            Step::NewLogZero,
            Step::NewLogDirectory,
            Step::RestartInert,
            Step::RestartWriteBack,
            Step::RestartFence,
            Step::RestartPhase,
            Step::RecoveryWatermarkFilter,
            Step::RecoverySort,
            Step::RecoveryDataWriteBack,
            Step::RecoveryDataFence,
            Step::RecoveryWatermark,
            Step::RecoveryWatermarkWriteBack,
            Step::RecoveryWatermarkFence,
            Step::RecoveryZero,
            Step::RecoveryZeroWriteBack,
            Step::RecoveryZeroFence,
            Step::RestartPhaseEarly,
            Step::RecoveryDataFenceLate,
            Step::RecoveryWatermarkLow,
            Step::RecoveryZeroEarly,
        ]
    };
}

const BASE: &[Step] = steps! {
    LogWriteBack LogFence CommitWriteBack CommitFence
    HomeWriteBack HomeFence TruncationWriteBack TruncationFence
};
const MNEMOSYNE_SYNCHRONOUS: &[Step] = steps! {
    CommitFence HomeWriteBack HomeFence TruncationWriteBack TruncationFence
};
const MNEMOSYNE_ASYNCHRONOUS: &[Step] = steps! {
    CommitFence HelperWait HelperOrder HomeWriteBack HomeFence WatermarkWriteBack WatermarkFence
};
const EXECUTION_IN_LOG: &[Step] = steps! {
    AbortRecord CommitWriteBack AbortRecordWriteBack CommitFence
    CommitWriteBackPartial CommitFenceEarly AbortRecordPartial RestartWriteBackPartial RecoveryLookAheadShort
    HomeWriteBack HomeFence TruncationWriteBack TruncationFence
};
const VOLATILE_CHECKPOINT: &[Step] = steps! {
    LogWriteBack LogFence CommitWriteBack CommitFence
    BulkWait BulkDataWriteBack BulkLogWriteBack BulkDataFence WatermarkWriteBack WatermarkFence
    BulkDataWriteBackPartial BulkDataFenceLate WatermarkHigh WatermarkFenceLate
};
const BLURRED: &[Step] = steps! {
    AbortRecord CommitWriteBack AbortRecordWriteBack CommitFence
    CommitWriteBackPartial CommitFenceEarly AbortRecordPartial RestartWriteBackPartial RecoveryLookAheadShort
    BulkWait BulkDataWriteBack BulkLogWriteBack BulkDataFence WatermarkWriteBack WatermarkFence
    BulkDataWriteBackPartial BulkDataFenceLate WatermarkHigh WatermarkFenceLate
};
const COUNTED: &[Step] = steps! {
    CommitWriteBack CommitFence CommitWriteBackPartial CommitFenceEarly RestartWriteBackPartial
    BulkWait BulkDataWriteBack BulkLogWriteBack BulkDataFence WatermarkWriteBack WatermarkFence
    BulkDataWriteBackPartial BulkDataFenceLate WatermarkHigh WatermarkFenceLate
};
const WRAP: &[Step] = steps! {
    CommitFence CommitFenceEarly AbortFence HelperWait RestartWriteBackPartial
    BulkDataWriteBack BulkDataFence WatermarkWriteBack WatermarkFence
    BulkDataWriteBackPartial BulkDataFenceLate WatermarkHigh WatermarkFenceLate
};

const BULK_LOG: (Step, &str) = (
    Step::BulkLogWriteBack,
    "charges the paper's wbinvd for log lines under the emulated domain only; every log line that recovery \
     needs was fenced by its commit",
);
const BULK_WAIT: (Step, &str) =
    (Step::BulkWait, "bulk persistence holds the writer's lock, so no commit is under way while it runs");
const WATERMARK_FENCE: (Step, &str) = (
    Step::WatermarkFence,
    "the persisting thread releases the writer's lock by an atomic add, which on x86 completes the watermark's \
     write-back, and nobody stores a record over an old one without that lock",
);
const SORT: (Step, &str) = (
    Step::RecoverySort,
    "a transaction that is not truncated holds its locks, so no two of those that are replayed wrote the same line",
);
const RESTART_FENCE: (Step, &str) = (
    Step::RestartFence,
    "the first transaction of the new run fences its records before its commit record is stored, which completes the \
     restart's write-backs; no other record is trusted by its bits",
);
const RESTART_FENCE_RETRY: (Step, &str) = (
    Step::RestartFence,
    "a log begins anew for a transaction that did not fit, and that takes its locks again, or the writer's, before its \
     first record is stored: an atomic operation, which on x86 completes the restart's write-backs; and nothing of an \
     aborted transaction waits for them",
);
const WATERMARK_LOW: (Step, &str) = (
    Step::RecoveryWatermarkLow,
    "records are fenced before their commit record is stored, so that an incomplete transaction has a torn commit \
     record; zeroing makes it one of TxID 0 or 1, in a second run, which truncated transactions precede",
);
const WATERMARK_FENCE_EACH: (Step, &str) = (
    Step::WatermarkFence,
    "the fence after the next transaction's home lines completes it, so the durable watermark is at most one \
     transaction behind the published one; that one is home durably, and nothing newer that is home is forgotten",
);
const TRUNCATION_FENCE: (Step, &str) = (
    Step::TruncationFence,
    "the writer's lock is released by an atomic add, which on x86 completes the mark's write-back",
);
const ABORT_MARK_FENCE: (Step, &str) = (
    Step::TruncationFence,
    "the locks are released by atomic adds, which on x86 complete the write-back of an aborted transaction's mark",
);
const PARTIAL_REST: (Step, &str) = (
    Step::RestartWriteBackPartial,
    "a log begins anew when a transaction has filled it, and its records leave in whole lines: what is left is one line \
     at most",
);
const HELPER_WAIT: (Step, &str) =
    (Step::HelperWait, "commits are one after another; the helper reads which one has stored home last");

/// Steps of the schemes that store in place: those given, and those that all of them have.
macro_rules! undo_steps {
    ($($step:ident)*) => {
        &[
            Step::NewLogZero,
            Step::NewLogDirectory,
            Step::UndoLogHeader,
            Step::PrepareWriteBack,
            Step::MutateWriteBack,
            Step::CommitMarkWriteBack,
            $(Step::$step,)*
            Step::RecoveryChecksum,
            Step::RecoveryWatermarkFilter,
            Step::RecoverySort,
            Step::RecoveryDataWriteBack,
            Step::RecoveryDataFence,
            Step::RecoveryWatermark,
            Step::RecoveryWatermarkWriteBack,
            Step::RecoveryWatermarkFence,
            Step::RecoveryZero,
            Step::RecoveryZeroWriteBack,
            Step::RecoveryZeroFence,
            Step::RecoveryZeroEarly,
        ]
    };
}

const SCT_STEPS: &[Step] =
    undo_steps! { SynchronousPrepareBarrier SynchronousMutateBarrier SynchronousCommitBarrier };
const DCT_STEPS: &[Step] = undo_steps! {
    DeferredPrepareBarrier DeferredMutateBarrier DeferredSpinOnConflicts DeferredCommitBarrier
};

const UNDO_LOGGED: &[Step] = &[
    Step::NewLogZero,
    Step::NewLogDirectory,
    Step::UndoLogHeader,
    Step::LogWriteBack,
    Step::LogFence,
    Step::HomeWriteBack,
    Step::HomeFence,
    Step::CommitWriteBack,
    Step::CommitFence,
    Step::TruncationWriteBack,
    Step::TruncationFence,
    Step::RecoveryChecksum,
    Step::RecoveryDataWriteBack,
    Step::RecoveryDataFence,
    Step::RecoveryTruncation,
    Step::RecoveryTruncationWriteBack,
    Step::RecoveryTruncationFence,
    Step::RecoveryTruncationPartial,
];

const SOFTWARE_WRITE_AHEAD: &[Step] = &[
    Step::NewLogZero,
    Step::NewLogDirectory,
    Step::LogWriteBack,
    Step::LogFence,
    Step::CommitWriteBack,
    Step::CommitFence,
    Step::HomeWriteBack,
    Step::HomeFence,
    Step::TruncationWriteBack,
    Step::TruncationFence,
    Step::RecoveryWatermarkFilter,
    Step::RecoverySort,
    Step::RecoveryDataWriteBack,
    Step::RecoveryDataFence,
    Step::RecoveryWatermark,
    Step::RecoveryWatermarkWriteBack,
    Step::RecoveryWatermarkFence,
];

const PHASE_EARLY: (Step, &str) = (
    Step::RestartPhaseEarly,
    "inert records then carry the coming run's bit, and a commit record torn over one names TxID 0 or 1, which is \
     truncated; no other record is trusted by its bits",
);

const PHASE_EARLY_EXECUTED: (Step, &str) = (
    Step::RestartPhaseEarly,
    "a transaction fills the log before the log begins anew, so that one record at most is made inert, the last; a \
     commit record torn over it names TxID 0 or 1: truncated, or alone in not being so",
);

const UNDONE_APART: &str =
    "a commit is durable before its locks are released, so entries to be undone have no word in common";
const UNDONE_AGAIN: &str = "entries to be undone have no word in common, so that whichever of them a power failure in zeroing leaves may be undone \
     again; and what is zeroed is not undone in the next life, whatever its timestamp";

const STM: Concurrency = Concurrency::Stm;
const SINGLE_WRITER: Concurrency = Concurrency::SingleWriter;

const WATERMARK_FENCE_LATE: (Step, &str) = (Step::WatermarkFenceLate, "as WatermarkFence");

/// A redo scheme.
const fn redo(
    kind: SchemeKind,
    concurrency: Concurrency,
    steps: &'static [Step],
    redundant: &'static [(Step, &'static str)],
) -> CheckedScheme {
    CheckedScheme {
        name: kind.name(concurrency),
        concurrency,
        settings: &Setting::ALL,
        steps,
        redundant,
        leftover: leftover_records,
        kind,
    }
}

/// A word near the roots.
fn any_word(layout: &Layout, random: &mut Rng) -> PersistentAddress {
    layout.root(0).byte(256 + 32 * random.u64(..6))
}

/// Commit records, and data for words near the roots, of one run.
fn leftover_records(layout: &Layout, random: &mut Rng, log: &mut [u64]) {
    let torn = random.bool();
    for record in log.as_chunks_mut::<2>().0 {
        let address = any_word(layout, random).offset();
        let left = match random.u8(..4) {
            0 => Record::Commit { transaction: random.u64(..40) },
            _ => Record::Data { address, value: random.u64(..), mask: 0xff },
        };
        *record = left.encode(torn);
    }
}

/// An undo log with an entry that is not committed.
fn leftover_entry(layout: &Layout, random: &mut Rng, log: &mut [u64]) {
    let pairs = [(any_word(layout, random), random.u64(..))];
    log.copy_from_slice(&undo_log_words(layout, 4, random.u64(..40), &pairs));
}

/// Such a log of [`SchemeKind::UndoLogged`].
fn leftover_record(layout: &Layout, random: &mut Rng, log: &mut [u64]) {
    log.copy_from_slice(&undo_record_words(layout, any_word(layout, random), random.u64(..)));
}

/// [`SchemeKind::UndoLogged`] in a mode.
const fn undo_logged(concurrency: Concurrency, redundant: &'static [(Step, &'static str)]) -> CheckedScheme {
    CheckedScheme {
        name: SchemeKind::UndoLogged.name(concurrency),
        concurrency,
        settings: &Setting::ALL,
        steps: UNDO_LOGGED,
        redundant,
        leftover: leftover_record,
        kind: SchemeKind::UndoLogged,
    }
}

/// A log of [`SchemeKind::SoftwareWriteAhead`] with a transaction that is not truncated: it stores one block, near the roots.
fn leftover_block(layout: &Layout, random: &mut Rng, log: &mut [u64]) {
    // The record; then the addresses of seven blocks, and the blocks.
    log[0] = random.u64(1..40) << 20 | 1;
    log[8] = any_word(layout, random).line().offset();
    log[16..24].iter_mut().for_each(|word| *word = random.u64(..));
}

/// [`SchemeKind::SoftwareWriteAhead`] in a mode.
const fn software_write_ahead(
    concurrency: Concurrency,
    redundant: &'static [(Step, &'static str)],
) -> CheckedScheme {
    CheckedScheme {
        name: SchemeKind::SoftwareWriteAhead.name(concurrency),
        concurrency,
        settings: &Setting::ALL,
        steps: SOFTWARE_WRITE_AHEAD,
        redundant,
        leftover: leftover_block,
        kind: SchemeKind::SoftwareWriteAhead,
    }
}

/// All schemes that promise durability.
pub const ALL: [CheckedScheme; 22] = [
    redo(SchemeKind::Base, STM, BASE, &[SORT, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW]),
    redo(
        SchemeKind::Base,
        SINGLE_WRITER,
        BASE,
        &[SORT, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW, TRUNCATION_FENCE],
    ),
    redo(SchemeKind::MnemosyneSynchronous, STM, MNEMOSYNE_SYNCHRONOUS, &[SORT, RESTART_FENCE_RETRY]),
    redo(
        SchemeKind::MnemosyneSynchronous,
        SINGLE_WRITER,
        MNEMOSYNE_SYNCHRONOUS,
        &[SORT, RESTART_FENCE_RETRY, TRUNCATION_FENCE],
    ),
    redo(
        SchemeKind::MnemosyneAsynchronous,
        STM,
        MNEMOSYNE_ASYNCHRONOUS,
        &[WATERMARK_FENCE_EACH, RESTART_FENCE_RETRY],
    ),
    redo(
        SchemeKind::MnemosyneAsynchronous,
        SINGLE_WRITER,
        MNEMOSYNE_ASYNCHRONOUS,
        &[HELPER_WAIT, WATERMARK_FENCE_EACH, RESTART_FENCE_RETRY],
    ),
    redo(SchemeKind::ExecutionInLog, STM, EXECUTION_IN_LOG, &[SORT, PHASE_EARLY_EXECUTED]),
    redo(
        SchemeKind::ExecutionInLog,
        SINGLE_WRITER,
        EXECUTION_IN_LOG,
        &[SORT, PHASE_EARLY_EXECUTED, TRUNCATION_FENCE],
    ),
    redo(
        SchemeKind::VolatileCheckpoint,
        STM,
        VOLATILE_CHECKPOINT,
        &[BULK_LOG, PHASE_EARLY, RESTART_FENCE, WATERMARK_LOW],
    ),
    redo(
        SchemeKind::VolatileCheckpoint,
        SINGLE_WRITER,
        VOLATILE_CHECKPOINT,
        &[
            BULK_LOG,
            PHASE_EARLY,
            RESTART_FENCE,
            WATERMARK_LOW,
            BULK_WAIT,
            WATERMARK_FENCE,
            WATERMARK_FENCE_LATE,
        ],
    ),
    redo(SchemeKind::Blurred, STM, BLURRED, &[BULK_LOG]),
    redo(
        SchemeKind::Blurred,
        SINGLE_WRITER,
        BLURRED,
        &[BULK_LOG, BULK_WAIT, WATERMARK_FENCE, WATERMARK_FENCE_LATE],
    ),
    redo(SchemeKind::Counted, STM, COUNTED, &[BULK_LOG]),
    redo(
        SchemeKind::Counted,
        SINGLE_WRITER,
        COUNTED,
        &[BULK_LOG, BULK_WAIT, WATERMARK_FENCE, WATERMARK_FENCE_LATE],
    ),
    redo(SchemeKind::Wrap, STM, WRAP, &[RESTART_FENCE_RETRY, PARTIAL_REST]),
    redo(SchemeKind::Wrap, SINGLE_WRITER, WRAP, &[HELPER_WAIT, RESTART_FENCE_RETRY, PARTIAL_REST]),
    software_write_ahead(STM, &[SORT]),
    software_write_ahead(SINGLE_WRITER, &[SORT, TRUNCATION_FENCE]),
    undo_logged(SINGLE_WRITER, &[ABORT_MARK_FENCE]),
    undo_logged(Concurrency::Locks, &[ABORT_MARK_FENCE]),
    CheckedScheme {
        name: "sct-eager-sync",
        concurrency: Concurrency::Locks,
        settings: &Setting::ALL,
        steps: SCT_STEPS,
        redundant: &[
            (Step::RecoverySort, UNDONE_APART),
            (Step::RecoveryWatermarkFilter, UNDONE_AGAIN),
            (Step::RecoveryWatermark, UNDONE_AGAIN),
            (Step::RecoveryWatermarkWriteBack, UNDONE_AGAIN),
            (Step::RecoveryWatermarkFence, UNDONE_AGAIN),
            (Step::RecoveryZeroEarly, UNDONE_AGAIN),
        ],
        leftover: leftover_entry,
        kind: SchemeKind::SynchronousEagerSync,
    },
    CheckedScheme {
        name: "dct-eager-sync",
        concurrency: Concurrency::Locks,
        settings: &Setting::ALL,
        steps: DCT_STEPS,
        redundant: &[],
        leftover: leftover_entry,
        kind: SchemeKind::DeferredEagerSync,
    },
];
