//! Software schemes: how a transaction's writes are kept until it commits, made durable, and recovered.
//!
//! One file per scheme, each opening with its protocol, what a crash at each step leaves, and why recovery
//! is right.

mod blurred;
mod current;
mod descriptor;
mod erased;
mod line_set;
mod product;
mod recovery;
mod redo;

pub(crate) use blurred::persist_in_bulk;
pub use blurred::{
    BPPM, BULK_LOG, BULK_STEPS, Blurred, BulkPersistence, Executing, PAPER, persist_everything,
    persist_up_to, raise_watermark, unless_covered, wait_for_commits,
};
pub(crate) use current::{adopt, current, drain, forget_logs, mark_unprotected};
pub use current::{check_transaction, logs, recover, zero_logs};
pub use descriptor::{
    Barrier, CommitCost, Durability, Leftover, Mode, Persistency, SchemeDescriptor, SchemeKind, Schemes,
};
pub use erased::{AnyScheme, Erased, Of, OperationsOn, OperationsOnAll, SchemeMemory, SchemeObject};
pub use line_set::LineSet;
pub use product::{PRODUCT, Product};
pub use recovery::{Reading, RecoveryReport, RecoveryStep};
pub use redo::{Checkpoint, Logging, REDO_STEPS, RESTART_FENCE_RETRY, Redo, leave_records};

use crate::error::Error;
use crate::layout::{SharedLayout, View};
use crate::memory::{Event, Memory, PersistentAddress};
use crate::transaction::{Concurrency, LockSet, Statistics, WriteSet};

/// The scheme has no room for another write of the running transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A scheme's state for one worker. Concurrency control is not its business. What is implemented here is what a
/// scheme does that has no redo log.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::scheme::{Blurred, Scheme, Schemes, recover};
/// use strandline_core::transaction::WriteSet;
///
/// // What a worker does with a scheme, without isolation.
/// let mut scheme = Blurred::lease(&view, 0);
/// scheme.begin(&view);
/// let place = scheme.write(&view, layout.root(0), 5, None).unwrap();
/// assert_eq!((scheme.value(&view, place), view.memory.load(layout.root(0))), (5, 0), "kept apart");
/// scheme.commit(&view, &WriteSet::default(), 1);
/// // It is durable: should nobody store it home, recovery does.
/// recover(&view, Schemes::default(), |_| ())?;
/// assert_eq!(view.memory.load(layout.root(0)), 5);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub trait Scheme: Sized {
    /// Whether a helper should run [`Scheme::help`] beside the workers.
    const HELPER: bool = false;
    /// Whether [`Scheme::write`] stores home at once. A commit stores nothing home then, readers take
    /// the writer's lock, and [`Scheme::abort`] takes the stores back.
    const IN_PLACE: bool = false;
    /// Whether it is told of each write by [`Scheme::write`]; otherwise of all of them by [`Scheme::executed`].
    const TAKES_WRITES: bool = true;
    /// Whether it keeps what [`Scheme::write`] is given, for [`Scheme::value`]; otherwise only the write set does.
    const KEEPS_VALUES: bool = true;
    /// Whether somebody else may wait for a commit to have stored home, so that a single writer's has to say that it is under way.
    const IS_AWAITED: bool = false;

    /// Begins to serve the worker that leases log `index`.
    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self;
    /// For somebody who only reads, at a snapshot, and leases no log. `None`: under this scheme there are no snapshots, since what
    /// it stores home may not be committed.
    fn reader() -> Option<Self> {
        None
    }
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
    fn running_records(&self) -> (PersistentAddress, u64) {
        (PersistentAddress::NULL, 0)
    }
    /// The running transaction, which has written, is about to commit; all that it wrote is in `writes`.
    ///
    /// # Errors
    /// No room for so much.
    fn executed<M: Memory>(&mut self, _view: &View<M>, _writes: &WriteSet) -> Result<(), Full> {
        Ok(())
    }
    /// The running transaction's TxID, where one writes at a time.
    fn next_transaction<M: Memory>(&mut self, view: &View<M>) -> u64 {
        let transaction = view.memory.load(SharedLayout::CLOCK) + 1;
        view.memory.store(SharedLayout::CLOCK, transaction);
        transaction
    }
    /// Makes the running transaction, which has written `writes`, durable under TxID `transaction`; returns the number of log
    /// records that it took, its commit record included.
    fn commit<M: Memory>(&mut self, _view: &View<M>, _writes: &WriteSet, _transaction: u64) -> u64 {
        0
    }
    /// After the home stores and before the locks are released: what the scheme does to forget the log.
    fn stored_home<M: Memory>(&mut self, _view: &View<M>, _writes: &WriteSet, _concurrency: Concurrency) {}
    /// The running transaction ends without effect.
    fn abort<M: Memory>(&mut self, _view: &View<M>) {}
    /// Makes room after [`Full`] and the abort that followed.
    ///
    /// # Errors
    /// Returns [`Error::TransactionTooLarge`] if the transaction had the whole log to itself.
    fn make_room<M: Memory>(
        &mut self,
        _view: &View<M>,
        _concurrency: Concurrency,
        _statistics: &mut Statistics,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Where isolation is by locks: the running transaction has taken those that it declared.
    fn locks_taken<M: Memory>(&mut self, _view: &View<M>) {}
    /// Where isolation is by locks: does all that comes after the body, from making the transaction durable to releasing the locks; the worker has
    /// log `log`, and the words of `writes` are to be stored home. Here: as the redo schemes do.
    ///
    /// # Errors
    /// Returns an error if the transaction is too large. Nothing has happened then, and the locks are still held.
    fn commit_locked<M: Memory>(
        &mut self,
        view: &View<M>,
        log: u64,
        locks: &mut LockSet,
        writes: &WriteSet,
        statistics: &mut Statistics,
    ) -> Result<(), Error> {
        // Above this log's last one too: those that share no lock have TxIDs of their own.
        let last = view.shared.slot(log).last_timestamp();
        let timestamp = locks.next_timestamp(view, view.memory.load(last));
        view.memory.store(last, timestamp);
        locks.stamp(view, timestamp);
        // Conflicting transactions have their order by it, and no counter that all of them share.
        let transaction = timestamp * view.layout.geometry.logs + log;
        if Self::IN_PLACE {
            view.memory.event(Event::Executed(transaction));
        }
        view.memory.event(Event::Commit(transaction));
        statistics.log_bytes += crate::log::RECORD_BYTES * self.commit(view, writes, transaction);
        view.memory.event(Event::Acknowledged(transaction));
        if !Self::IN_PLACE {
            view.memory.store_each(writes.words());
        }
        locks.release(view);
        statistics.acknowledged += 1;
        Ok(())
    }
    /// Where isolation is by locks: a transaction ends that has stored nothing. Releases the locks, and waits until
    /// what it may have read is durable.
    fn end_locked<M: Memory>(&mut self, view: &View<M>, locks: &mut LockSet) {
        locks.release(view);
    }
    /// Commits what is deferred, and waits until all that was committed is durable; outside any transaction.
    fn settle<M: Memory>(&mut self, _view: &View<M>, _statistics: &mut Statistics) {}

    /// Recovers a pool whose logs this scheme has written; [`recover`] finds out whose they are.
    ///
    /// # Errors
    /// Returns an error if a log is damaged. Nothing has been changed then.
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

/// Wakes the helper of a pool's schemes, where it waits for work.
pub fn wake_helper<M: Memory>(memory: &M) {
    memory.store(SharedLayout::HELPER_WAITS, 0);
    memory.wake(SharedLayout::HELPER_WAITS);
}
