//! The schemes that are checked, and their steps. A scheme that arrives later adds a line to [`ALL`].

use strandline::memory::{Hosted, Step};
use strandline::pool::View;
use strandline::scheme::recover;
use strandline::{Concurrency, Result};

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
];

const BULK_LOG: (Step, &str) = (
    Step::BulkLogWriteBack,
    "charges the paper's wbinvd for log lines under the emulated domain only; every log line that recovery \
     needs was fenced by its commit",
);
fn recover_blurred(view: &View<Hosted>) -> Result<()> {
    recover(view, |_| ()).map(|_| ())
}

/// All schemes that promise durability.
pub const ALL: [CheckedScheme; 2] = [
    CheckedScheme {
        name: "bppm",
        concurrency: Concurrency::Stm,
        settings: &Setting::ALL,
        steps: BPPM_STEPS,
        redundant: &[BULK_LOG],
        recover: recover_blurred,
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
            (
                Step::WatermarkFence,
                "the persisting thread releases the writer's lock by an atomic add, which on x86 completes the \
                 watermark's write-back, and nobody stores a record over an old one without that lock",
            ),
        ],
        recover: recover_blurred,
    },
];
