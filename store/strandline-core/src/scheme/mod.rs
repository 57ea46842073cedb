//! Software schemes: how they keep a transaction's writes until it commits, make them durable, and recover them.
//!
//! Each scheme's file begins with its protocol, the state that a crash at each step leaves, and an argument that recovery is correct.

mod blurred;
mod descriptor;
mod erased;
mod line_set;
mod pool_scheme;
mod product;
mod recovery;
mod redo;

pub(crate) use blurred::persist_in_bulk;
pub use blurred::{
    BPPM, BULK_LOG, BULK_STEPS, Blurred, BulkPersistence, Executing, PAPER, persist_everything,
    persist_up_to, raise_watermark, unless_covered, wait_for_commits,
};
pub use descriptor::{
    Barrier, CommitCost, Durability, Leftover, Mode, Persistency, SchemeDescriptor, SchemeKind, Schemes,
};
pub use erased::{AnyScheme, Erased, Of, OperationsOn, OperationsOnAll, SchemeMemory, SchemeObject};
pub use line_set::LineSet;
pub(crate) use pool_scheme::{adopt, current, drain, forget_logs, mark_unprotected};
pub use pool_scheme::{check_transaction, logs, recover, zero_logs};
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

/// A scheme's state for one worker. It does not control concurrency. The default implementations are for schemes without a redo log.
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
/// // It is durable: if it is never stored home, recovery does so.
/// recover(&view, Schemes::default(), |_| ())?;
/// assert_eq!(view.memory.load(layout.root(0)), 5);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub trait Scheme: Sized {
    /// True if a helper should run [`Scheme::help`] beside the workers.
    const HELPER: bool = false;
    /// True if [`Scheme::write`] stores home immediately. A commit then stores nothing home, readers take the writer's lock, and [`Scheme::abort`]
    /// undoes the stores.
    const IN_PLACE: bool = false;
    /// True if the engine passes each write to [`Scheme::write`]; if not, it passes all of them to [`Scheme::executed`].
    const TAKES_WRITES: bool = true;
    /// True if the scheme keeps the values that [`Scheme::write`] receives, for [`Scheme::value`]; if not, only the write set has them.
    const KEEPS_VALUES: bool = true;
    /// True if another thread may wait until a commit has stored its words home, so that a single writer has to show that its commit is in progress.
    const IS_AWAITED: bool = false;

    /// Leases the scheme for the worker of log `index`.
    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self;
    /// Returns the scheme for a reader at a snapshot, which leases no log. Returns `None` if the scheme cannot have snapshots, because it may store
    /// uncommitted words home.
    fn reader() -> Option<Self> {
        None
    }
    /// Ends the lease, outside any transaction.
    fn release<M: Memory>(&mut self, view: &View<M>);
    /// Begins a transaction.
    fn begin<M: Memory>(&mut self, view: &View<M>);
    /// Keeps the new value of a word, whose previous value was kept at `previous`. Returns the new value's location.
    ///
    /// # Errors
    /// Returns an error if there is no room.
    fn write<M: Memory>(
        &mut self,
        view: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full>;
    /// Returns the value at a location.
    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64;
    /// Returns the address and the number of the running transaction's records, two words each, for a log that all workers share.
    fn running_records(&self) -> (PersistentAddress, u64) {
        (PersistentAddress::NULL, 0)
    }
    /// Called before the commit of a transaction that has written. `writes` has all of its writes.
    ///
    /// # Errors
    /// Returns an error if there is not enough room.
    fn executed<M: Memory>(&mut self, _view: &View<M>, _writes: &WriteSet) -> Result<(), Full> {
        Ok(())
    }
    /// Returns the running transaction's TxID if only one transaction writes at a time.
    fn next_transaction<M: Memory>(&mut self, view: &View<M>) -> u64 {
        let transaction = view.memory.load(SharedLayout::CLOCK) + 1;
        view.memory.store(SharedLayout::CLOCK, transaction);
        transaction
    }
    /// Makes the running transaction durable under TxID `transaction`. `writes` has its writes. Returns the number of log records that it took,
    /// including its commit record.
    fn commit<M: Memory>(&mut self, _view: &View<M>, _writes: &WriteSet, _transaction: u64) -> u64 {
        0
    }
    /// Called after the words were stored home and before the locks are released. The scheme may truncate the log here.
    fn stored_home<M: Memory>(&mut self, _view: &View<M>, _writes: &WriteSet, _concurrency: Concurrency) {}
    /// Ends the running transaction without effect.
    fn abort<M: Memory>(&mut self, _view: &View<M>) {}
    /// Makes room after [`Full`] and the abort that followed it.
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

    /// With isolation by locks: called when the running transaction has taken its declared locks.
    fn locks_taken<M: Memory>(&mut self, _view: &View<M>) {}
    /// With isolation by locks: does all that follows the body, from making the transaction durable to releasing the locks. The worker has log `log`,
    /// and the words in `writes` are to be stored home. The default does this as the redo schemes do.
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
        // The timestamp must be above that of this log's last transaction too: transactions that share no lock need distinct TxIDs as well.
        let last = view.shared.slot(log).last_timestamp();
        let timestamp = locks.next_timestamp(view, view.memory.load(last));
        view.memory.store(last, timestamp);
        locks.stamp(view, timestamp);
        // The timestamp orders conflicting transactions without a counter that all of them would share.
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
    /// With isolation by locks: ends a transaction that has stored nothing. Releases the locks, and waits until all that it may have read is durable.
    fn end_locked<M: Memory>(&mut self, view: &View<M>, locks: &mut LockSet) {
        locks.release(view);
    }
    /// Completes deferred commits, and waits until all that was committed is durable. Called outside transactions.
    fn settle<M: Memory>(&mut self, _view: &View<M>, _statistics: &mut Statistics) {}

    /// Recovers a pool whose logs this scheme has written. [`recover`] determines the scheme.
    ///
    /// # Errors
    /// Returns an error if a log is damaged. Nothing has been changed then.
    fn recover<M: Memory>(
        view: &View<M>,
        begins: &mut dyn FnMut(RecoveryStep),
    ) -> Result<RecoveryReport, Error>;
    /// Makes all committed words durable in their home locations, before the pool is closed or changes to another scheme. No worker exists.
    fn drain<M: Memory>(view: &View<M>);
    /// Does the work of a helper until `stop` returns true. A helper runs on its own thread natively, and as a coroutine in hosted memory. Without
    /// one, workers do its work when they have to.
    fn help<M: Memory>(_: &View<M>, _: Concurrency, _: &dyn Fn() -> bool) {}
}

/// Wakes the helper of a pool's schemes if it waits for work.
pub fn wake_helper<M: Memory>(memory: &M) {
    memory.store(SharedLayout::HELPER_WAITS, 0);
    memory.wake(SharedLayout::HELPER_WAITS);
}
