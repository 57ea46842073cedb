//! Workers, which run transactions.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::heap::{self, Access, Arenas, HeapUsage};
use crate::layout::{SharedLayout, View};
use crate::memory::{Memory, PAGE_BYTES, PersistentAddress};
use crate::scheme::{self, BPPM, Erased, SchemeKind, SchemeMemory, SchemeObject};
use crate::sync::SharedLog;

use super::{Control, Engine, Over, RETRIES_AT_ONCE, SERIAL_AFTER, Setup, State, Stm, renew};
use crate::transaction::{
    Abort, Concurrency, Lock, OptimisticSearch, Plain, Read, Runner, Statistics, Tally, Transaction,
};

/// A worker: a leased log and an arena of the heap, with which one thread runs transactions on a pool. Dropping it returns both.
///
/// ```
/// # use strandline_core::example::*;
/// # let pool = pool();
/// // The pool has logs for two workers.
/// let (mut first, second) = (pool.worker()?, pool.worker()?);
/// assert!(matches!(pool.worker(), Err(strandline_core::Error::NoFreeLog { logs: 2 })));
/// first.run(|tx| tx.write(tx.root(0), 5))?;
/// // A dropped worker returns its log.
/// let index = second.log_index();
/// drop(second);
/// assert_eq!(pool.worker()?.log_index(), index);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Worker<C: Control = Stm> {
    pub(super) tx: Tx<C>,
    read_only: bool,
}

/// A running transaction. A worker has one at a time and lends it to the closure that it runs.
///
/// ```
/// # use strandline_core::example::*;
/// # let pool = pool();
/// use strandline_core::Abort;
/// use strandline_core::engine::Tx;
///
/// /// Returns the next number of a sequence. For the default kind of workers.
/// fn next(tx: &mut Tx) -> Result<u64, Abort> {
///     let next = tx.read(tx.root(0))? + 1;
///     tx.write(tx.root(0), next)?;
///     Ok(next)
/// }
///
/// let mut worker = pool.worker()?;
/// assert_eq!([worker.run(next)?, worker.run(next)?], [1, 2]);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Tx<C: Control = Stm> {
    pub(super) engine: Engine<C>,
    arenas: Arenas,
}

impl<M: SchemeMemory, C: Control<Scheme: SchemeObject<M>>> Worker<Over<C, M>> {
    /// Leases a free log of the pool behind `view`. The pool's logs become BPPM's if they are not yet. All workers of a pool have the same
    /// control.
    ///
    /// # Errors
    /// Returns [`Error::NoFreeLog`] if the pool has as many workers as logs, [`Error::Unsupported`] if there is a worker under another
    /// scheme, [`Error::Parameter`] if the scheme does not run under this control, and [`Error::Forked`].
    pub fn lease(view: View<M>, setup: impl Into<Setup<C>>, shared_log: Option<SharedLog>) -> Result<Self> {
        Self::lease_log(view, &BPPM, setup.into().over(), shared_log, SchemeObject::lease)
    }
}

impl<M: SchemeMemory> Worker<Over<Concurrency, M>>
where
    Erased: SchemeObject<M>,
{
    /// Leases a free log of the pool behind `view`, for the laboratory. The pool's logs become scheme `kind`'s if they are not yet.
    ///
    /// # Errors
    /// Returns the errors of [`Worker::lease`].
    pub fn lease_of(
        view: View<M>,
        kind: SchemeKind,
        setup: impl Into<Setup<Concurrency>>,
        shared_log: Option<SharedLog>,
    ) -> Result<Self> {
        let lease = |view: &View<M>, index| M::lease(kind, view, index);
        Self::lease_log(view, kind, setup.into().over(), shared_log, lease)
    }
}

impl<C: Control<Scheme = Erased>> Worker<C> {
    /// From now on runs a transaction again immediately after a conflict, without waiting for the lock that it met and without yielding the
    /// core: TinySTM's contention manager `CM_SUICIDE`. After very many conflicts of one transaction the worker waits after all, so that
    /// every transaction ends. For the STM only.
    pub fn retry_at_once(&mut self) {
        self.tx.engine.waits_after = RETRIES_AT_ONCE;
    }
}

impl<C: Control> Worker<C> {
    /// Leases a free log of the pool behind `view`. The pool's logs become scheme `kind`'s if they are not yet. `lease` creates the
    /// scheme's part of the worker. The errors are those of [`Worker::lease`].
    pub(crate) fn lease_log(
        view: View<C::Memory>,
        kind: SchemeKind,
        Setup { control, schemes }: Setup<C>,
        shared_log: Option<SharedLog>,
        lease: impl FnOnce(&View<C::Memory>, u64) -> C::Scheme,
    ) -> Result<Self>
    where
        C::Memory: SchemeMemory,
    {
        let logs = view.layout.geometry.logs;
        if view.memory.is_forked() {
            return Err(Error::Forked);
        }
        if kind.mode(control.concurrency()).is_none() {
            let modes: Vec<_> = kind.modes.iter().map(|mode| mode.name).collect();
            return Err(Error::Parameter(format!(
                "this scheme runs as {} only; open the pool in one of these modes",
                modes.join(", ")
            )));
        }
        view.memory.lock(SharedLayout::LEASES);
        let adopted = scheme::adopt(&view, kind, schemes);
        let free = (0..logs).find(|&index| view.memory.load(view.shared.slot(index).leased()) == 0);
        if let (Ok(()), Some(index)) = (&adopted, free) {
            view.memory.store(view.shared.slot(index).leased(), 1);
        }
        view.memory.unlock(SharedLayout::LEASES);
        adopted?;
        let index = free.ok_or(Error::NoFreeLog { logs })?;
        if let Err(error) = take_space_for_log(&view, index) {
            view.memory.store(view.shared.slot(index).leased(), 0);
            return Err(error);
        }
        let scheme = lease(&view, index);
        let engine = Engine::new(view, index, scheme, control, shared_log);
        Ok(Self { tx: Tx::over(engine, index), read_only: false })
    }

    /// Returns the number of the log that this worker leases.
    pub fn log_index(&self) -> u64 {
        self.tx.engine.slot_index
    }

    /// From now on a transaction that does not fit the log returns [`Error::TransactionTooLarge`], as under the laboratory's schemes. This
    /// is for tests that check every word against the transactions' writes: an interrupted large transaction leaves the contents of free
    /// chunks undefined.
    pub fn keep_to_log(&mut self) {
        self.tx.engine.takes_any_size = false;
    }

    /// Returns the TxID of the latest transaction from which the last one may have read.
    #[doc(hidden)]
    pub fn newest_read(&self) -> u64 {
        self.tx.engine.newest_read()
    }

    /// Returns the lines to which the last transaction stored, if it has committed and did [not exceed its log](Worker::keep_to_log).
    #[doc(hidden)]
    pub fn lines_stored(&self) -> Vec<PersistentAddress> {
        let mut lines = Vec::new();
        self.tx.engine.writes.for_each_line(|line| lines.push(line));
        lines
    }

    /// From now on every transaction is read-only.
    pub(crate) fn make_read_only(&mut self) {
        self.read_only = true;
    }

    /// Frees memory that a large read or write set has allocated; otherwise the next transaction would do so. The sets of the last
    /// transaction are forgotten.
    pub(crate) fn give_memory_back(&mut self) {
        self.tx.engine.give_memory_back();
    }

    /// Returns the counters of this worker, for other threads to read.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        self.tx.engine.tally.clone()
    }

    /// Returns the worker's view of the pool's memory.
    pub fn memory(&self) -> &C::Memory {
        self.tx.engine.view.memory.admit_thread();
        &self.tx.engine.view.memory
    }

    /// Runs `body` as a transaction that is committed when this returns but, in the `Sync` domain, not yet durable. It is durable when all
    /// transactions up to the returned TxID are; 0 means that it is durable already.
    ///
    /// # Errors
    /// Returns the errors of [`Runner::run`].
    pub fn run_later<R>(&mut self, body: impl FnMut(&mut Tx<C>) -> Result<R, Abort>) -> Result<(R, u64)> {
        self.tx.engine.durable_at = 0;
        self.tx.engine.durable_later = true;
        let result = self.attempt(false, None, body)?;
        Ok((result, self.tx.engine.durable_at))
    }

    #[inline(always)]
    fn attempt<R>(
        &mut self,
        read_only: bool,
        locks: Option<&[Lock]>,
        body: impl FnMut(&mut Tx<C>) -> Result<R, Abort>,
    ) -> Result<R> {
        let memory = &self.tx.engine.view.memory;
        memory.admit_thread();
        memory.begin_transaction()?;
        let running = Running(&mut self.tx);
        let result = running.0.attempt(read_only || self.read_only, locks, body);
        running.0.engine.stop_wanting();
        running.0.engine.view.memory.end_transaction();
        std::mem::forget(running);
        result
    }
}

/// Allocates disk space for a log in a mapped file. A pool with a device needs none, since it does not store to these logs.
fn take_space_for_log<M: Memory>(view: &View<M>, index: u64) -> Result<()> {
    if view.memory.device().is_some() {
        return Ok(());
    }
    let bytes = view.layout.geometry.log_bytes;
    view.memory
        .make_space(view.layout.log(index), bytes)
        .map_err(|error| Error::io(format!("allocate disk space for a log of {bytes} bytes"), error))
}

/// The thread's running transaction. Dropped only by a panic.
struct Running<'w, C: Control>(&'w mut Tx<C>);

impl<C: Control> Drop for Running<'_, C> {
    #[cold]
    fn drop(&mut self) {
        self.0.engine.stop_wanting();
        if !self.0.engine.view.memory.is_forked() {
            self.0.engine.end_panicked();
        }
        self.0.engine.view.memory.end_transaction();
    }
}

impl<C: Control> Tx<C> {
    /// Returns the transactions of an engine that allocates from arena `arena`.
    pub(super) fn over(engine: Engine<C>, arena: u64) -> Self {
        Self { engine, arenas: Arenas::new(arena) }
    }

    /// Returns whether this is a large transaction, which runs alone and does not use the log.
    pub fn is_large(&self) -> bool {
        matches!(self.engine.state, State::Large)
    }

    /// Returns the bound of the pool's copies of pages in bytes; `None` if the pool is not in the domain `Sync` and has no copies.
    pub fn bound_of_copies(&self) -> Option<u64> {
        self.engine.shared_log.map(|log| log.private_bytes(&self.engine.view.memory).1)
    }

    /// Holds vacant chunks: [`heap::hold`].
    pub(crate) fn hold_chunks(&mut self, from: u64, most: u64) -> Result<(Vec<u64>, Option<u64>), Abort> {
        self.engine.locks.set_allocating(true);
        let held = heap::hold(&mut self.engine, from, most);
        self.engine.locks.set_allocating(false);
        held
    }

    /// Allocates under isolation by locks. The allocator takes the locks of its own words itself.
    fn alloc_under_locks(&mut self, bytes: u64) -> Result<PersistentAddress, Abort> {
        let region = self.engine.locks.region();
        self.engine.locks.set_allocating(true);
        let block = self.arenas.alloc(&mut self.engine, region, bytes);
        self.engine.locks.set_allocating(false);
        self.engine.locks.add_fresh(block?, bytes);
        self.engine.note_allocation(block?);
        block
    }

    /// Returns the usage of the heap, while other transactions run.
    pub(crate) fn usage(&mut self) -> Result<HeapUsage, Abort> {
        heap::usage_in(&mut self.engine)
    }

    /// Adds the rest of the file to the heap, if the file is longer than the heap.
    pub(crate) fn reach_end(&mut self) -> Result<(), Abort> {
        self.engine.locks.set_allocating(true);
        let reached = heap::reach_end(&mut self.engine);
        self.engine.locks.set_allocating(false);
        reached
    }

    /// Frees chunks that are held.
    pub(super) fn release_chunks(&mut self, chunks: &[u64]) -> Result<(), Abort> {
        self.engine.locks.set_allocating(true);
        let released = heap::release(&mut self.engine, chunks);
        self.engine.locks.set_allocating(false);
        released
    }

    /// Rolls back a transaction whose closure has panicked with `panic`, and resumes the panic.
    #[cold]
    #[inline(never)]
    fn unwind(&mut self, panic: Box<dyn std::any::Any + Send>) -> ! {
        if !self.engine.view.memory.is_forked() {
            self.engine.roll_back(Abort::User);
        }
        resume_unwind(panic)
    }

    #[inline(always)]
    fn attempt<R>(
        &mut self,
        read_only: bool,
        locks: Option<&[Lock]>,
        mut body: impl FnMut(&mut Self) -> Result<R, Abort>,
    ) -> Result<R> {
        let mut attempt = 0;
        self.engine.declare(locks);
        renew(&mut self.engine.wants_large, false);
        loop {
            if let Err(why) = self.engine.begin(attempt, read_only) {
                return Err(self.engine.take_error(why));
            }
            let why = match catch_unwind(AssertUnwindSafe(|| body(self))) {
                Ok(Ok(value)) => match self.engine.commit() {
                    Ok(()) => return Ok(value),
                    // Dropped while the locks are still held, since the drop may panic, like the closure.
                    Err(why) => match dropped(value) {
                        Ok(()) => why,
                        Err(panic) => self.unwind(panic),
                    },
                },
                Ok(Err(why)) => self.engine.reason(why),
                Err(panic) => self.unwind(panic),
            };
            self.undo(why, &mut attempt, read_only)?;
        }
    }

    /// Rolls back an attempt, and waits for what the next one needs. Returns an error if there is to be no other. It is compiled once for all closures.
    fn undo(&mut self, why: Abort, attempt: &mut u32, read_only: bool) -> Result<()> {
        if self.engine.view.memory.is_forked() {
            // The closure has forked, and this is the child. The transaction belongs to the parent.
            return Err(Error::Forked);
        }
        self.engine.roll_back(why);
        match why {
            Abort::Conflict if self.engine.wait_for_chunks() => Ok(()),
            Abort::Conflict => {
                *attempt += 1;
                // Read-only retries run on a snapshot and cannot conflict, so they need not wait.
                if !read_only || *attempt >= SERIAL_AFTER || !self.engine.can_look_back() {
                    self.engine.back_off(*attempt)?;
                }
                Ok(())
            }
            Abort::LogFull => self.engine.make_room(),
            Abort::User | Abort::Failed => {
                let error = self.engine.take_error(why);
                self.engine.settle_reads()?;
                Err(error)
            }
        }
    }
}

/// Drops a value, and returns its panic. It is compiled once for each type.
#[cold]
fn dropped<T>(value: T) -> std::thread::Result<()> {
    catch_unwind(AssertUnwindSafe(|| drop(value)))
}

impl<C: Control> Runner for Worker<C> {
    type Tx<'t> = Tx<C>;

    #[inline(always)]
    fn run<R>(&mut self, body: impl FnMut(&mut Tx<C>) -> Result<R, Abort>) -> Result<R> {
        renew(&mut self.tx.engine.durable_later, false);
        self.attempt(false, None, body)
    }

    fn run_locked<R>(
        &mut self,
        locks: &[Lock],
        body: impl FnMut(&mut Tx<C>) -> Result<R, Abort>,
    ) -> Result<R> {
        renew(&mut self.tx.engine.durable_later, false);
        self.attempt(false, Some(locks), body)
    }

    fn takes_locks(&self) -> bool {
        self.tx.engine.concurrency() == Concurrency::Locks
    }

    fn drain(&mut self) -> Result<()> {
        let engine = &mut self.tx.engine;
        if engine.view.memory.is_forked() {
            return Err(Error::Forked);
        }
        engine.view.memory.admit_thread();
        engine.scheme.settle(&engine.view, &mut engine.statistics);
        Ok(())
    }

    fn view<R>(&mut self, body: impl FnMut(&mut Tx<C>) -> Result<R, Abort>) -> Result<R> {
        renew(&mut self.tx.engine.durable_later, false);
        self.attempt(true, None, body)
    }

    fn statistics(&self) -> Statistics {
        let Engine { tally, statistics, view, .. } = &self.tx.engine;
        Statistics {
            commits: tally.commits.get(),
            read_only: tally.read_only.get(),
            conflicts: tally.conflicts.get(),
            user_aborts: tally.user_aborts.get(),
            // Schemes that take locks count their log bytes themselves.
            log_bytes: statistics.log_bytes + tally.log_bytes.get(),
            total: view.memory.counters(),
            ..*statistics
        }
    }
}

impl<C: Control> Drop for Worker<C> {
    fn drop(&mut self) {
        let engine = &mut self.tx.engine;
        let memory = &engine.view.memory;
        if memory.is_forked() {
            // The log belongs to the parent.
            return;
        }
        memory.admit_thread();
        engine.scheme.release(&engine.view);
        memory.store(engine.slot.leased(), 0);
        memory.notify(SharedLayout::RETURNS);
    }
}

impl<C: Control> Read for Tx<C> {
    #[inline(always)]
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.engine.read(at)
    }
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.engine.read_range(at, into)
    }
    #[inline(always)]
    fn read_array<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort> {
        self.engine.read_array(at)
    }
    fn plain(&self) -> Option<Plain<'_>> {
        self.engine.plain()
    }
    fn search_optimistically<S: OptimisticSearch>(&mut self, search: &mut S) -> Option<S::Found> {
        self.engine.search_optimistically(search)
    }
    fn read_pages(
        &mut self,
        guard: PersistentAddress,
        at: PersistentAddress,
        into: &mut [u64],
    ) -> Result<(), Abort> {
        self.engine.read_pages(guard, at, into)
    }
    fn prepare_to_borrow(&mut self, at: PersistentAddress, pages: u64) -> Result<bool, Abort> {
        self.engine.prepare_to_borrow(at, pages)
    }
    unsafe fn borrow_pages(&self, at: PersistentAddress, bytes: u64) -> Option<&[u8]> {
        // SAFETY: as the caller promises.
        unsafe { self.engine.borrow_pages(at, bytes) }
    }
    fn prefetch(&self, at: PersistentAddress, words: usize) {
        self.engine.view.memory.prefetch(at, words);
    }
    fn read_ahead(&self, places: &mut [PersistentAddress], words: usize, further: u64) {
        self.engine.view.memory.read_ahead(places, words, further);
    }
    fn walk(&self, begins: bool) {
        self.engine.view.memory.walk(begins);
    }
    fn pages_waited_for(&self) -> u64 {
        self.engine.view.memory.pages_waited_for()
    }
    fn root(&self, index: u64) -> PersistentAddress {
        self.engine.view.layout.root(index)
    }
    fn fail(&mut self, error: Error) -> Abort {
        self.engine.fail(error)
    }
    fn heap_words(&self) -> u64 {
        self.engine.view.layout.heap_words()
    }
    #[inline(never)]
    fn find_block(&mut self, at: PersistentAddress) -> Result<Option<u64>, Abort> {
        heap::find_block(&mut self.engine, at)
    }
    fn is_allocated(&mut self, at: PersistentAddress) -> Result<bool, Abort> {
        heap::is_allocated(&mut self.engine, at)
    }
    fn next_allocated(&mut self, from: PersistentAddress) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        heap::next_allocated(&mut self.engine, from)
    }
    fn tolerate(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>,
    ) -> Result<Option<Error>, Abort> {
        self.engine.begin_tolerating()?;
        let outcome = body(self);
        self.engine.end_tolerating(outcome)
    }
}

impl<C: Control> Transaction for Tx<C> {
    fn worker_number(&self) -> u64 {
        self.engine.slot_index
    }
    #[inline(always)]
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.engine.write(at, value)
    }
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        self.engine.write_range(at, from)
    }
    #[inline(always)]
    fn write_array<const N: usize>(&mut self, at: PersistentAddress, words: &[u64; N]) -> Result<(), Abort> {
        self.engine.write_array(at, words)
    }
    fn alloc(&mut self, bytes: u64) -> Result<PersistentAddress, Abort> {
        if self.engine.concurrency() == Concurrency::Locks {
            return self.alloc_under_locks(bytes);
        }
        let region = self.engine.locks.region();
        let block = self.arenas.alloc(&mut self.engine, region, bytes)?;
        self.engine.note_allocation(block);
        Ok(block)
    }
    fn free(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        let region = self.engine.locks.region();
        if self.engine.concurrency() != Concurrency::Locks {
            return self.arenas.free(&mut self.engine, region, at);
        }
        self.engine.locks.set_allocating(true);
        let freed = self.arenas.free(&mut self.engine, region, at);
        self.engine.locks.set_allocating(false);
        freed
    }
    fn alloc_pages(&mut self, most: u64) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        if self.engine.concurrency() == Concurrency::Locks {
            return Ok(None);
        }
        let region = self.engine.locks.region();
        let extent = self.arenas.alloc_pages(&mut self.engine, region, most)?;
        if let Some((at, pages)) = extent {
            self.engine.note_extent(at, pages);
        }
        Ok(extent)
    }
    fn fill_pages(&mut self, at: PersistentAddress, words: &[u64]) -> Result<(), Abort> {
        self.engine.fill_pages(at, words)
    }
    fn free_pages(&mut self, at: PersistentAddress, pages: u64) -> Result<(), Abort> {
        if self.engine.concurrency() == Concurrency::Locks {
            return (0..pages).try_for_each(|page| self.free(at.byte(page * PAGE_BYTES)));
        }
        let region = self.engine.locks.region();
        self.arenas.free_pages(&mut self.engine, region, at, pages)
    }
    fn block(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        heap::block(&mut self.engine, at)
    }
    fn has_room(&mut self, at: PersistentAddress, bytes: u64) -> Result<bool, Abort> {
        match heap::seen_block(&self.engine, at) {
            Some(seen) if seen >= bytes => Ok(true),
            _ => Ok(self.find_block(at)?.is_some_and(|found| found >= bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MOST_KEPT;
    use crate::{Options, Pool};

    #[test]
    fn memory_of_large_sets_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::create(folder.path().join("pool"), &Options::default()).unwrap();
        let mut worker = pool.borrow_worker().unwrap();
        let kept = |worker: &Worker<Stm>| {
            let engine = &worker.tx.engine;
            engine.reads.capacity().max(engine.held.capacity()).max(engine.writes.room())
        };
        let many = MOST_KEPT as u64 + 1;
        worker
            .run(|tx| {
                let block = tx.alloc(8 * many)?;
                (0..many).try_for_each(|word| tx.write(block.word(word), word))?;
                tx.free(block)
            })
            .unwrap();
        worker.view(|tx| (0..many).try_for_each(|_| tx.read(tx.root(0)).map(drop))).unwrap();
        assert!(kept(&worker) > MOST_KEPT);
        pool.return_worker(worker);
        assert!(kept(&pool.borrow_worker().unwrap()) <= MOST_KEPT);
    }
}
