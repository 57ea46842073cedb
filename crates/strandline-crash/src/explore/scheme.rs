//! The schemes that are checked: the one place where a scheme is registered. A scheme that arrives later
//! adds an entry to [`ALL`]: its name and mode, its type ([`Code::of`]), its recovery, and its steps with
//! what is known of them.

use fastrand::Rng;
use strandline::log::Record;
use strandline::memory::{Hosted, Step};
use strandline::pool::{Layout, View};
use strandline::scheme::{Blurred, DeferredEagerSync, SynchronousEagerSync, recover};
use strandline::{Concurrency, Result};

use super::life::Code;
use crate::Setting;

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
    /// Its recovery.
    pub recover: fn(&View<Hosted>) -> Result<()>,
    /// Two words of a log that another life of this memory may have left where this pool has no log yet, for
    /// schemes that make their logs when they first need them.
    pub leftover: Option<fn(&Layout, &mut Rng, bool) -> [u64; 2]>,
    /// What runs transactions under it.
    pub code: Code,
}

const BPPM_STEPS: &[Step] = &[
    Step::NewLogZero,
    Step::NewLogDirectory,
    Step::AbortRecord,
    Step::CommitWriteBack,
    Step::AbortRecordWriteBack,
    Step::CommitFence,
    Step::BulkWait,
    Step::BulkDataWriteBack,
    Step::BulkLogWriteBack,
    Step::BulkDataFence,
    Step::WatermarkWriteBack,
    Step::WatermarkFence,
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
    Step::CommitWriteBackPartial,
    Step::CommitFenceEarly,
    Step::AbortRecordPartial,
    Step::BulkDataWriteBackPartial,
    Step::BulkDataFenceLate,
    Step::WatermarkHigh,
    Step::WatermarkFenceLate,
    Step::RestartWriteBackPartial,
    Step::RestartPhaseEarly,
    Step::RecoveryLookAheadShort,
    Step::RecoveryDataFenceLate,
    Step::RecoveryWatermarkLow,
    Step::RecoveryZeroEarly,
];

const BULK_LOG: (Step, &str) = (
    Step::BulkLogWriteBack,
    "charges the paper's wbinvd for log lines under the emulated domain only; every log line that recovery \
     needs was fenced by its commit",
);

const SCT_STEPS: &[Step] = &[
    Step::NewLogDirectory,
    Step::UndoLogHeader,
    Step::PrepareWriteBack,
    Step::SynchronousPrepareBarrier,
    Step::MutateWriteBack,
    Step::SynchronousMutateBarrier,
    Step::CommitMarkWriteBack,
    Step::SynchronousCommitBarrier,
    Step::RecoveryChecksum,
    Step::RecoveryWatermarkFilter,
    Step::RecoverySort,
    Step::RecoveryDataWriteBack,
    Step::RecoveryDataFence,
    Step::RecoveryWatermark,
    Step::RecoveryWatermarkWriteBack,
    Step::RecoveryWatermarkFence,
];

const DCT_STEPS: &[Step] = &[
    Step::NewLogDirectory,
    Step::UndoLogHeader,
    Step::PrepareWriteBack,
    Step::DeferredPrepareBarrier,
    Step::MutateWriteBack,
    Step::DeferredMutateBarrier,
    Step::DeferredSpinOnConflicts,
    Step::CommitMarkWriteBack,
    Step::DeferredCommitBarrier,
    Step::RecoveryChecksum,
    Step::RecoveryWatermarkFilter,
    Step::RecoverySort,
    Step::RecoveryDataWriteBack,
    Step::RecoveryDataFence,
    Step::RecoveryWatermark,
    Step::RecoveryWatermarkWriteBack,
    Step::RecoveryWatermarkFence,
];

fn recovers(view: &View<Hosted>) -> Result<()> {
    recover(view, |_| ()).map(|_| ())
}

/// A record with the torn bit `torn`: a commit record, or data for a word near the roots.
fn leftover_record(layout: &Layout, random: &mut Rng, torn: bool) -> [u64; 2] {
    let address = layout.root(0).byte(256 + 32 * random.u64(..6)).offset();
    let record = match random.u8(..4) {
        0 => Record::Commit { transaction: random.u64(..40) },
        _ => Record::Data { address, value: random.u64(..), mask: 0xff },
    };
    record.encode(torn)
}

/// All schemes that promise durability.
pub const ALL: [CheckedScheme; 4] = [
    CheckedScheme {
        name: "bppm",
        concurrency: Concurrency::Stm,
        settings: &Setting::ALL,
        steps: BPPM_STEPS,
        redundant: &[BULK_LOG],
        recover: recovers,
        leftover: Some(leftover_record),
        code: Code::of::<Blurred>(),
    },
    CheckedScheme {
        name: "bppm+single-writer",
        concurrency: Concurrency::SingleWriter,
        settings: &Setting::ALL,
        steps: BPPM_STEPS,
        redundant: &[
            BULK_LOG,
            (
                Step::BulkWait,
                "bulk persistence holds the writer's lock, so no commit is under way while it runs",
            ),
            (Step::WatermarkFenceLate, "as WatermarkFence"),
            (
                Step::WatermarkFence,
                "the persisting thread releases the writer's lock by an atomic add, which on x86 completes the \
                 watermark's write-back, and nobody stores a record over an old one without that lock",
            ),
        ],
        recover: recovers,
        leftover: Some(leftover_record),
        code: Code::of::<Blurred>(),
    },
    CheckedScheme {
        name: "sct-eager-sync",
        concurrency: Concurrency::Locks,
        settings: &Setting::ALL,
        steps: SCT_STEPS,
        redundant: &[(
            Step::RecoverySort,
            "a commit is durable before its locks are released, so entries to be undone have no word in common",
        )],
        recover: recovers,
        leftover: None,
        code: Code::of::<SynchronousEagerSync>(),
    },
    CheckedScheme {
        name: "dct-eager-sync",
        concurrency: Concurrency::Locks,
        settings: &Setting::ALL,
        steps: DCT_STEPS,
        redundant: &[],
        recover: recovers,
        leftover: None,
        code: Code::of::<DeferredEagerSync>(),
    },
];
