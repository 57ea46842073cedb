//! Reads at a snapshot: of a [`Snapshot`], or of a read-only transaction that has met a conflict.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::layout::{SharedLayout, VersionLayout, View};
use crate::memory::{Memory, Native, PersistentAddress, Step};
use crate::sync::SharedLog;
use crate::transaction::{Abort, Concurrency, OptimisticSearch, Read};

use super::versions::{self, Registration};
use super::{Control, Engine, SERIAL_AFTER, State, Stm, Tx};
use crate::heap::Access;
use crate::scheme::SchemeObject;

/// Returns the horizon of a reader at a snapshot. With it every check of the fast way to read fails, so that the reader looks for old
/// versions: no lock's version is below it, and no sequence equals it.
const fn out_of_reach(concurrency: Concurrency) -> u64 {
    match concurrency {
        Concurrency::Stm => 0,
        Concurrency::SingleWriter | Concurrency::Locks => u64::MAX,
    }
}

impl<C: Control> Engine<C> {
    /// Returns whether transactions can read at a snapshot.
    pub(super) fn can_look_back(&self) -> bool {
        self.view.shared.versions().any()
            && !self.scheme.in_place()
            && self.concurrency() != Concurrency::Locks
    }

    /// Makes a read-only transaction that has met a conflict, or would wait for a large one, read at a snapshot, where there are no
    /// conflicts. Returns false if no snapshot can be registered; the transaction then runs as before.
    #[cold]
    pub(super) fn look_back(&mut self, attempt: u32) -> bool {
        if attempt >= SERIAL_AFTER || self.holds_lock || !self.can_look_back() {
            return false;
        }
        versions::register(&self.view).map(|past| self.look_at(past)).is_ok()
    }

    pub(super) fn look_at(&mut self, past: Registration) {
        self.state = State::LookingBack(past);
        self.newest_seen = past.time;
        self.horizon = out_of_reach(self.concurrency());
    }

    /// Ends the transaction's snapshot, if it reads at one.
    pub(super) fn look_ahead(&mut self) {
        if let State::LookingBack(past) = self.state {
            self.give_back_borrowed();
            self.state = State::Reading;
            versions::end(&self.view, past);
        }
    }

    /// Reads words of one line at a snapshot.
    #[inline(never)]
    pub(super) fn read_past(
        &mut self,
        past: Registration,
        at: PersistentAddress,
        into: &mut [u64],
    ) -> Result<(), Abort> {
        match versions::read_line(&self.view, past, at, into) {
            Ok(()) => Ok(()),
            Err(versions::Ended) => {
                if self.is_reader() {
                    let bytes = self.view.shared.versions().entries() * VersionLayout::entry_bytes();
                    return Err(self.fail(Error::SnapshotEnded { bytes }));
                }
                // A read-only transaction runs again.
                Err(self.doom(Abort::Conflict))
            }
        }
    }

    /// Returns whether there are snapshots, too early in a commit. For the checker only: natively it returns `None`.
    pub(super) fn count_snapshots_early(&self) -> Option<bool> {
        self.view.memory.omitted(Step::SnapshotCount).then(|| versions::are_wanted(&self.view))
    }

    /// Keeps the contents of the lines that the transaction is about to change, if there are snapshots.
    pub(super) fn keep_versions(&self, transaction: u64, counted: Option<bool>) {
        if counted.unwrap_or_else(|| versions::are_wanted(&self.view))
            && !self.view.memory.omitted(Step::SnapshotKeep)
        {
            versions::keep(&self.view, transaction, self.writes.words().iter().map(|(at, _)| at.line()));
        }
    }

    /// Like [`keep_versions`](Self::keep_versions), but too late. For the checker only: natively it does nothing.
    pub(super) fn keep_versions_late(&self, transaction: u64) {
        if self.view.memory.omitted(Step::SnapshotKeep) && versions::are_wanted(&self.view) {
            versions::keep(&self.view, transaction, self.writes.words().iter().map(|(at, _)| at.line()));
        }
    }
}

/// The pool as it was at one moment, for as long as this exists. A read runs once: it meets no conflict, waits for no writer, and makes no
/// writer wait.
///
/// The contents that transactions overwrite meanwhile are kept in memory, up to
/// [`Options::snapshot_bytes`](crate::Options::snapshot_bytes). Beyond that the oldest snapshot ends, and reads at it return
/// [`Error::SnapshotEnded`].
///
/// ```
/// # use strandline_core::example::*;
/// # let (pool, mut worker) = pool_and_worker();
/// worker.run(|tx| tx.write(tx.root(0), 5))?;
/// let mut snapshot = pool.snapshot()?;
/// worker.run(|tx| tx.write(tx.root(0), 6))?;
/// assert_eq!(snapshot.read(|tx| tx.read(tx.root(0)))?, 5);
/// // The snapshot also implements `Read` itself.
/// let root = snapshot.root(0);
/// let words = snapshot.read_array(root);
/// assert_eq!(words.map_err(|why| snapshot.error(why))?, [5]);
/// assert_eq!(worker.view(|tx| tx.read(tx.root(0)))?, 6);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Snapshot<C: Control = Stm> {
    tx: Tx<C>,
    /// Shared by the readers of one state. The last one to be dropped ends the registration. `None` only in `drop`.
    readers: Option<Arc<()>>,
}

impl<C: Control> Snapshot<C> {
    /// Begins a snapshot of the present state. In the `Sync` domain it waits until that state is durable.
    ///
    /// # Errors
    /// Returns [`Error::TooManySnapshots`]; [`Error::Parameter`] if the pool was opened without memory for versions; [`Error::Unsupported`]
    /// if the pool may be of any of the laboratory's schemes; [`Error::Poisoned`]; [`Error::Forked`].
    pub fn begin(view: View<C::Memory>, control: C, shared_log: Option<SharedLog>) -> Result<Self> {
        if view.memory.is_forked() {
            return Err(Error::Forked);
        }
        let scheme = C::Scheme::reader().ok_or_else(|| {
            Error::Unsupported("a snapshot of a pool that may be under a scheme of the laboratory".into())
        })?;
        view.memory.admit_thread();
        let registration = versions::register(&view)?;
        let readers = Arc::new(());
        let snapshot = Self::reading(view, scheme, control, shared_log, registration, readers);
        if let Some(log) = shared_log {
            log.wait_durable(&snapshot.tx.engine.view, registration.time)?;
        }
        Ok(snapshot)
    }

    fn reading(
        view: View<C::Memory>,
        scheme: C::Scheme,
        control: C,
        shared_log: Option<SharedLog>,
        registration: Registration,
        readers: Arc<()>,
    ) -> Self {
        let (slot, index) = view.shared.readers_slot();
        let mut engine = Engine::new(view, index, scheme, control, shared_log);
        engine.view.shared = engine.view.shared.without_locks();
        engine.slot = slot;
        engine.look_at(registration);
        Self { tx: Tx::over(engine, index), readers: Some(readers) }
    }

    /// Returns the TxID of the last transaction that the snapshot sees.
    pub fn time(&self) -> u64 {
        self.tx.engine.newest_seen
    }

    /// Returns the reader. After an [`Abort`], [`Snapshot::error`] returns the error.
    pub fn tx(&mut self) -> &mut Tx<C> {
        self.tx.engine.view.memory.admit_thread();
        &mut self.tx
    }

    /// Returns the error behind an abort. Reads of the snapshot may continue.
    #[cold]
    pub fn error(&mut self, why: Abort) -> Error {
        self.tx.engine.forgive(why)
    }

    /// Runs `body` once.
    ///
    /// # Errors
    /// Returns the error that `body` failed with: [`Error::SnapshotEnded`], damage, or [`Error::ReadOnly`] if it writes.
    pub fn read<R>(&mut self, body: impl FnOnce(&mut Tx<C>) -> Result<R, Abort>) -> Result<R> {
        body(self.tx()).map_err(|why| self.error(why))
    }
}

impl<C: Control<Memory = Native>> Snapshot<C> {
    /// Returns another reader of the same state, for another thread or for use beside this one. The snapshot lasts until the last of its
    /// readers is dropped.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// let first = pool.snapshot()?;
    /// let mut second = first.another();
    /// drop(first);
    /// worker.run(|tx| tx.write(tx.root(0), 6))?;
    /// assert_eq!(second.read(|tx| tx.read(tx.root(0)))?, 0);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    pub fn another(&self) -> Self {
        let engine = &self.tx.engine;
        let (State::LookingBack(registration), Some(readers), Some(scheme)) =
            (engine.state, &self.readers, C::Scheme::reader())
        else {
            unreachable!("a snapshot stays one until it is dropped, and its scheme can read")
        };
        let memory = engine.view.memory.fork();
        let view = View { memory, layout: engine.view.layout, shared: engine.guards };
        Self::reading(view, scheme, engine.control, engine.shared_log, registration, readers.clone())
    }

    /// Returns whether a thread must be admitted before it can read memory that this lends, as in a pool that is protected against stray
    /// writes.
    pub fn is_protected(&self) -> bool {
        self.tx.engine.view.memory.is_protected()
    }
}

impl<C: Control> Engine<C> {
    /// Clears the failure of an attempt that goes on, and returns its error.
    fn forgive(&mut self, why: Abort) -> Error {
        self.doomed = None;
        self.take_error(why)
    }

    /// Returns whether this engine belongs to a [`Snapshot`], and not to a worker.
    fn is_reader(&self) -> bool {
        self.slot_index == self.view.shared.readers_slot().1
    }
}

impl<C: Control> Tx<C> {
    /// Lets the calling thread read the memory of this reader, if that comes from another thread.
    #[doc(hidden)]
    pub fn admit_thread(&self) {
        self.engine.view.memory.admit_thread();
    }

    /// Returns the error behind an abort if this is the reader of a [`Snapshot`], which may go on reading.
    #[cold]
    pub fn snapshot_error(&mut self, why: Abort) -> Option<Error> {
        self.engine.is_reader().then(|| self.engine.forgive(why))
    }
}

impl<C: Control> Drop for Snapshot<C> {
    fn drop(&mut self) {
        let engine = &mut self.tx.engine;
        // In a forked child the words are the child's own copy, or not mapped.
        let is_forked = engine.view.memory.is_forked();
        if !is_forked {
            engine.view.memory.admit_thread();
            engine.give_back_borrowed();
        }
        // If several readers are dropped at the same time, exactly one of them is the last.
        if self.readers.take().and_then(Arc::into_inner).is_some() && !is_forked {
            self.tx.engine.look_ahead();
        }
    }
}

impl<C: Control> Read for Snapshot<C> {
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.tx().read(at)
    }
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.tx().read_range(at, into)
    }
    fn search_optimistically<S: OptimisticSearch>(&mut self, search: &mut S) -> Option<S::Found> {
        self.tx().search_optimistically(search)
    }
    fn read_pages(
        &mut self,
        guard: PersistentAddress,
        at: PersistentAddress,
        into: &mut [u64],
    ) -> Result<(), Abort> {
        self.tx().read_pages(guard, at, into)
    }
    fn prepare_to_borrow(&mut self, at: PersistentAddress, pages: u64) -> Result<bool, Abort> {
        self.tx().prepare_to_borrow(at, pages)
    }
    unsafe fn borrow_pages(&self, at: PersistentAddress, bytes: u64) -> Option<&[u8]> {
        // SAFETY: as the caller promises.
        unsafe { self.tx.borrow_pages(at, bytes) }
    }
    fn root(&self, index: u64) -> PersistentAddress {
        self.tx.root(index)
    }
    fn fail(&mut self, error: Error) -> Abort {
        self.tx.fail(error)
    }
    fn heap_words(&self) -> u64 {
        self.tx.heap_words()
    }
    fn find_block(&mut self, at: PersistentAddress) -> Result<Option<u64>, Abort> {
        self.tx().find_block(at)
    }
    fn is_allocated(&mut self, at: PersistentAddress) -> Result<bool, Abort> {
        self.tx().is_allocated(at)
    }
    fn next_allocated(&mut self, from: PersistentAddress) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        self.tx().next_allocated(from)
    }
    fn tolerate(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>,
    ) -> Result<Option<Error>, Abort> {
        self.tx().tolerate(body)
    }
}

/// The memory that a pool's snapshots use.
///
/// ```
/// # use strandline_core::example::*;
/// # let (db, mut worker) = pool_and_worker();
/// let snapshot = db.snapshot()?;
/// # worker.run(|tx| tx.write(tx.root(0), 6))?;
/// // Another thread changes one number meanwhile.
/// let usage = db.snapshot_usage()?;
/// assert_eq!((usage.snapshots, usage.versions, usage.ended), (1, 1, 0));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotUsage {
    /// The number of snapshots, including those of read-only transactions and of a large transaction.
    pub snapshots: u64,
    /// The number of old versions of lines for which memory was taken. The memory is reused, and released when the last snapshot ends.
    pub versions: u64,
    /// The number of versions for which memory may be taken.
    pub most_versions: u64,
    /// The number of snapshots that were ended because no more versions could be kept.
    pub ended: u64,
}

impl SnapshotUsage {
    /// Returns the usage of the pool behind `view`.
    pub(crate) fn of<M: Memory>(view: &View<M>) -> Self {
        let (memory, versions) = (&view.memory, view.shared.versions());
        let load = |at| if versions.any() { memory.load(at) } else { 0 };
        Self {
            snapshots: memory.load(SharedLayout::SNAPSHOTS) & !versions::GIVING_BACK,
            versions: load(versions.used()),
            most_versions: versions.entries(),
            ended: load(versions.ended()),
        }
    }
}
