//! The software schemes of the papers, beside Blurred Persistence, which `strandline-core` has.
//!
//! One file per scheme, or for a few that differ in one thing, each opening with its protocol, what a crash at each step leaves, and
//! why recovery is right; and in the same file its descriptor, from which the command, the crash checker and the counts are
//! made. [`ALL`] lists them. A program of your own may have another list: [`Schemes`] is a value.

mod blurred;
mod counted;
mod deferred_commit;
mod execution_area;
mod hardware;
mod mnemosyne;
mod no_persistence;
mod persistency;
mod plain;
mod software_wal;
mod synchronous_commit;
mod undo;
mod undo_log;
mod undo_worker;
mod wrap;
mod write_ahead;

pub use blurred::{VCBP, VCBP_STREAMED, XIL};
pub use counted::BPPM_COUNTED;
pub use deferred_commit::{DCT_EAGER_SYNC, DCT_EPOCH, DCT_STRAND, DCT_STRICT};
pub use hardware::{HARDWARE, HARDWARE_FLUSHED};
pub use mnemosyne::{MNE_ASYNC, MNE_SYNC};
pub use no_persistence::NP;
pub use persistency::Persistency;
pub use plain::{Locking, PlainTx, PlainWorker, Program};
pub use software_wal::S_WAL;
pub use strandline_core::engine::Setup;
pub use strandline_core::scheme::{BPPM, SchemeKind, Schemes};
pub use synchronous_commit::{SCT_EAGER_SYNC, SCT_EPOCH, SCT_STRAND, SCT_STRICT};
pub use undo::{UndoEntry, UndoLog, recover_undo, undo_log_words};
pub use undo_log::{UNDO_LOG, undo_record_words};
pub use wrap::WRAP;
pub use write_ahead::BASE;

use strandline_core::Concurrency;

/// All schemes, in the order in which they are shown.
pub const ALL: Schemes = Schemes::new(&LIST);

static LIST: [SchemeKind; 22] = [
    &NP,
    &BASE,
    &MNE_SYNC,
    &MNE_ASYNC,
    &XIL,
    &VCBP,
    &VCBP_STREAMED,
    &BPPM,
    &BPPM_COUNTED,
    &S_WAL,
    &SCT_STRICT,
    &SCT_EPOCH,
    &SCT_EAGER_SYNC,
    &SCT_STRAND,
    &DCT_STRICT,
    &DCT_EPOCH,
    &DCT_EAGER_SYNC,
    &DCT_STRAND,
    &HARDWARE,
    &HARDWARE_FLUSHED,
    &UNDO_LOG,
    &WRAP,
];

/// A pool that is used with this control, and may be of any of these schemes.
pub const fn laboratory(concurrency: Concurrency) -> Setup<Concurrency> {
    Setup { control: concurrency, schemes: ALL }
}
