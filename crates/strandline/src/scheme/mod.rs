//! Software schemes: how a transaction's writes are kept until it commits, made durable, and recovered.
//!
//! One file per scheme, each opening with its protocol, what a crash at each step leaves, and why recovery
//! is right.

mod blurred;
mod counted;
mod current;
mod line_set;
mod mnemosyne;
mod no_persistence;
mod recovery;
mod redo;
mod registry;
mod volatile;
mod write_ahead;

pub use blurred::{Blurred, ExecutionInLog, VolatileCheckpoint};
pub use counted::Counted;
pub use current::recover;
pub(crate) use current::{adopt, current, drain, forget_logs, mark_unprotected};
pub(crate) use mnemosyne::wake_helper;
pub use mnemosyne::{MnemosyneAsynchronous, MnemosyneSynchronous};
pub use no_persistence::NoPersistence;
pub use recovery::{RecoveryReport, RecoveryStep};
pub use registry::{SchemeKind, SchemeVisitor};
pub use volatile::{VolatileTx, VolatileWorker};
pub use write_ahead::Base;

use crate::error::Error;
use crate::memory::{Memory, PersistentAddress};
use crate::pool::layout::View;
use crate::transaction::{Concurrency, Statistics, WriteSet};

/// The scheme has no room for another write of the running transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A scheme's state for one worker. Concurrency control is not its business.
pub trait Scheme: Sized {
    /// The scheme's line in the table of all schemes.
    const KIND: SchemeKind;
    /// Whether a helper should run [`Scheme::help`] beside the workers.
    const HELPER: bool = false;

    /// Begins to serve the worker that leases log `index`.
    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self;
    /// Ends serving it, outside any transaction.
    fn release<M: Memory>(&mut self, view: &View<M>);
    /// A transaction begins.
    fn begin<M: Memory>(&mut self, view: &View<M>);
    /// Keeps the new value of a word, whose last one was kept at `previous`; returns its place.
    ///
    /// # Errors
    /// No room.
    fn write<M: Memory>(
        &mut self,
        view: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full>;
    /// The value at a place.
    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64;
    /// Where the running transaction's records lie, two words each, and how many they are, for a log shared by
    /// all workers.
    fn running_records(&self) -> (PersistentAddress, u64);
    /// Makes the running transaction durable under TxID `transaction`; returns the number of log records that it
    /// took, its commit record included.
    fn commit<M: Memory>(&mut self, view: &View<M>, transaction: u64) -> u64;
    /// After the home stores and before the locks are released: what the scheme does to forget the log.
    fn stored_home<M: Memory>(&mut self, view: &View<M>, writes: &WriteSet, concurrency: Concurrency);
    /// The running transaction ends without effect.
    fn abort<M: Memory>(&mut self, view: &View<M>);
    /// Makes room after [`Full`] and the abort that followed.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`]: the transaction had the whole log to itself.
    fn make_room<M: Memory>(
        &mut self,
        view: &View<M>,
        concurrency: Concurrency,
        statistics: &mut Statistics,
    ) -> Result<(), Error>;

    /// Recovers a pool whose logs this scheme has written; [`recover`] finds out whose they are.
    ///
    /// # Errors
    /// A log is damaged. Nothing has been changed then.
    fn recover<M: Memory>(
        view: &View<M>,
        begins: &mut dyn FnMut(RecoveryStep),
    ) -> Result<RecoveryReport, Error>;
    /// Brings everything that is committed home durably, before the pool is closed or goes over to another
    /// scheme; no worker exists.
    fn drain<M: Memory>(view: &View<M>);
    /// The work of a helper, until `stop` says so: a role that runs on a thread of its own natively, and on a
    /// coroutine where memory is hosted. Without one, workers do it when they must.
    fn help<M: Memory>(_: &View<M>, _: Concurrency, _: &dyn Fn() -> bool) {}
}
