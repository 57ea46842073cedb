//! The software schemes of the papers. Blurred Persistence itself is in `strandline-core`.
//!
//! Each scheme, or small group of similar schemes, has a file. It begins with the protocol, the states after a crash at each step, and the reason why
//! recovery is correct. It also contains the scheme's descriptor, which the command, the crash checker and the counts use. [`ALL`] lists the schemes.
//! Another program may use its own registry: [`Schemes`] is a value.
//!
//! # Adding a scheme
//!
//! A scheme is one file with a descriptor, and a line in [`ALL`]'s list. This example is complete, in a program of its own:
//!
//! ```
//! use strandline_core::Concurrency;
//! use strandline_core::layout::View;
//! use strandline_core::log::ThreadLog;
//! use strandline_core::memory::{Memory, Step};
//! use strandline_core::scheme::{
//!     BPPM, BulkPersistence, Checkpoint, Durability, Executing, Mode, Of, Redo, SchemeDescriptor, leave_records,
//! };
//! use strandline_core::transaction::{Statistics, WriteSet};
//!
//! /// BPPM that writes lines back home as soon as they are stored, and waits for them as late as BPPM does.
//! type Eager = Redo<Executing, EagerHome>;
//!
//! /// Stores its transactions home. They are logged as in BPPM (`Executing`).
//! struct EagerHome;
//!
//! impl Checkpoint for EagerHome {
//!     const RESERVED: u32 = 0;
//!
//!     fn stored_home<M: Memory>(view: &View<M>, _: &ThreadLog, writes: &WriteSet, _: Concurrency) {
//!         writes.for_each_line(|line| view.memory.write_back(line, Step::HomeWriteBack));
//!     }
//!
//!     fn release_log<M: Memory>(
//!         view: &View<M>,
//!         log: &ThreadLog,
//!         control: Concurrency,
//!         statistics: &mut Statistics,
//!     ) -> strandline_core::Result<()> {
//!         BulkPersistence::release_log(view, log, control, statistics)
//!     }
//!
//!     fn drain<M: Memory>(view: &View<M>) {
//!         BulkPersistence::drain(view);
//!     }
//! }
//!
//! static EAGER: SchemeDescriptor = SchemeDescriptor {
//!     code: 200, // in the pool's state word; never used for another scheme
//!     modes: &[Mode { concurrency: Concurrency::Stm, name: "eager", redundant: &[] }],
//!     source: "an example",
//!     description: "BPPM that writes home lines back early",
//!     durability: Durability::Software,
//!     is_native: true,
//!     in_sync: false,
//!     persistency: None,
//!     steps: BPPM.steps, // each becomes a mutant that the crash checker must find
//!     barriers: &[],
//!     leftover: leave_records,
//!     commit_cost: None,
//!     scheme: &Of::<Eager>::NEW,
//! };
//!
//! # use strandline_core::example::{Options, Read, Runner, Transaction, path_and_options};
//! # let (path, options) = path_and_options();
//! use strandline_core::engine::Setup;
//! use strandline_core::scheme::{SchemeKind, Schemes};
//!
//! static MINE: [SchemeKind; 2] = [&BPPM, &EAGER];
//! let setup = Setup { control: Concurrency::Stm, schemes: Schemes::new(&MINE) };
//! let pool = setup.create(&path, &options)?;
//! let mut worker = pool.worker_of(&EAGER)?;
//! worker.run(|tx| tx.write(tx.root(0), 5))?;
//! // Not closed: dropped while a worker exists, as a killed process would leave it.
//! drop(pool);
//! drop(worker);
//! let pool = setup.open(&path, &options)?;
//! assert_eq!(pool.recovery().replayed(), 1);
//! assert_eq!(pool.worker()?.view(|tx| tx.read(tx.root(0)))?, 5);
//! # Ok::<(), strandline_core::Error>(())
//! ```
//!
//! A scheme that is not a redo log implements [`Scheme`](strandline_core::scheme::Scheme) itself; `hardware.rs` is the shortest example.

mod blurred;
mod counted;
mod execution_area;
mod hardware;
mod mnemosyne;
mod no_persistence;
mod persistency;
mod plain;
mod software_wal;
mod undo;
mod undo_commit;
mod undo_log;
mod wrap;
mod write_ahead;

pub use blurred::{VCBP, VCBP_STREAMED, VCBP_TAIL, XIL, XIL_UNMARKED};
pub use counted::BPPM_COUNTED;
pub use hardware::{HARDWARE, HARDWARE_FLUSHED};
pub use mnemosyne::{MNE_ASYNC, MNE_ASYNC_FENCED, MNE_SYNC, MNE_SYNC_FENCED};
pub use no_persistence::NP;
pub use persistency::Persistency;
pub use plain::{Locking, PlainTx, PlainWorker, Program};
pub use software_wal::S_WAL;
pub use strandline_core::engine::Setup;
pub use strandline_core::scheme::{BPPM, SchemeKind, Schemes};
pub use undo::{ENTRIES as UNDO_LOG_ENTRIES, UndoEntry, UndoLog, recover_undo, undo_log_words};
pub use undo_commit::{
    DCT_EAGER_SYNC, DCT_EPOCH, DCT_STRAND, DCT_STRICT, SCT_EAGER_SYNC, SCT_EPOCH, SCT_STRAND, SCT_STRICT,
};
pub use undo_log::{UNDO_LOG, undo_record_words};
pub use wrap::WRAP;
pub use write_ahead::{BASE, BASE_TAIL};

use strandline_core::scheme::{AnyScheme, Durability, SchemeDescriptor, leave_records};

/// Returns the descriptor of a software scheme that runs on real memory and leaves records in its logs. Name, description, costs and steps have to be
/// added.
const fn native(scheme: &'static dyn AnyScheme) -> SchemeDescriptor {
    SchemeDescriptor {
        code: 0,
        modes: &[],
        source: "",
        description: "",
        durability: Durability::Software,
        is_native: true,
        in_sync: false,
        persistency: None,
        steps: &[],
        barriers: &[],
        leftover: leave_records,
        commit_cost: None,
        scheme,
    }
}

use strandline_core::Concurrency;

/// All schemes, in the order in which they are shown.
pub const ALL: Schemes = Schemes::new(&LIST);

static LIST: [SchemeKind; 27] = [
    &NP,
    &BASE,
    &BASE_TAIL,
    &MNE_SYNC,
    &MNE_SYNC_FENCED,
    &MNE_ASYNC,
    &MNE_ASYNC_FENCED,
    &XIL,
    &XIL_UNMARKED,
    &VCBP,
    &VCBP_TAIL,
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

/// Returns a setup for pools with this control that may use any of these schemes.
pub const fn laboratory(concurrency: Concurrency) -> Setup<Concurrency> {
    Setup { control: concurrency, schemes: ALL }
}
