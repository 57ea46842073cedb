//! Software schemes: how a transaction's writes are kept until it commits, made durable, and recovered.
//!
//! One file per scheme, each opening with its protocol, what a crash at each step leaves, and why recovery
//! is right.

mod blurred;
mod current;
mod line_set;
mod no_persistence;
mod registry;
mod volatile;

pub use blurred::{Blurred, RecoveryReport, RecoveryStep};
pub use current::recover;
pub(crate) use current::{adopt, current, drain, forget_logs, mark_unprotected};
pub use no_persistence::NoPersistence;
pub use registry::{SchemeKind, SchemeVisitor};
pub use volatile::{VolatileTx, VolatileWorker};

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

    /// Begins to serve the worker that leases log `index`.
    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self;
    /// Ends serving it, outside any transaction.
    fn release<M: Memory>(&mut self, view: &View<M>);
    /// A transaction begins.
    fn begin<M: Memory>(&mut self, view: &View<M>);
    /// Keeps the new value of a word; returns its place.
    ///
    /// # Errors
    /// No room.
    fn write<M: Memory>(&mut self, view: &View<M>, at: PersistentAddress, value: u64) -> Result<u32, Full>;
    /// The value at a place.
    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64;
    /// Log records that committing the running transaction takes, its commit record included.
    fn records(&self) -> u64;
    /// Where the running transaction's records lie, two words each, and how many they are, for a log shared by
    /// all workers.
    fn running_records(&self) -> (PersistentAddress, u64);
    /// Makes the running transaction durable under TxID `transaction`.
    fn commit<M: Memory>(&mut self, view: &View<M>, transaction: u64);
    /// After the home stores and before the locks are released: what the scheme does to forget the log.
    fn truncate<M: Memory>(&mut self, view: &View<M>, writes: &WriteSet);
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
}
