//! Workers: who runs transactions.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::{Error, Result};
use crate::memory::{Memory, PersistentAddress};
use crate::pool::heap::{self, Access, Arenas};
use crate::pool::layout::{SharedLayout, View};
use crate::scheme::{self, Blurred, Erased, Scheme, SchemeKind, SchemeObject};
use crate::sync::SharedLog;

use super::engine::{Concurrency, Engine, Statistics};
use super::{Abort, Lock, Read, Transaction};

/// Whoever can run transactions of a certain kind; drivers and benchmarks are generic over it.
///
/// ```
/// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// # let options = Options { domain: Domain::Process, ..Options::default() };
/// // Runs on any scheme's worker.
/// fn count(runner: &mut impl Runner) -> strandline::Result<u64> {
///     runner.run(|tx| {
///         let count = tx.read(tx.root(0))? + 1;
///         tx.write(tx.root(0), count)?;
///         Ok(count)
///     })
/// }
///
/// let pool = Pool::create(&path, &options)?;
/// assert_eq!(count(&mut pool.worker()?)?, 1);
/// assert_eq!(count(&mut pool.worker_of(strandline::scheme::SchemeKind::Base)?)?, 2);
/// # Ok::<(), strandline::Error>(())
/// ```
pub trait Runner {
    /// The transactions that it runs, lent for a time.
    type Tx<'t>: Transaction;

    /// Runs `body` as a transaction, again after a conflict, until it commits and is durable as the domain
    /// promises. `body` may run several times; only its last run has an effect on the pool.
    ///
    /// # Errors
    /// [`Error::Aborted`] where `body` returned [`Abort::User`]; what made the transaction fail otherwise.
    /// The pool is unchanged then.
    fn run<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R>;

    /// Runs `body` as a transaction whose lock set is known before it begins. Where isolation is by locks
    /// ([`Concurrency::Locks`]) these are taken in order, before `body` runs, and a write to a word that none of
    /// them protects is an error; a read of such a word is allowed, and safe where nobody writes it. Elsewhere
    /// the set is not needed and is ignored.
    ///
    /// # Errors
    /// As [`Runner::run`]; [`Error::OutsideLockSet`] where `body` writes outside `locks`.
    fn run_locked<R>(
        &mut self,
        _locks: &[Lock],
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>,
    ) -> Result<R> {
        self.run(body)
    }

    /// A quiescent point: commits what this runner has deferred, and waits until all of it is durable. Only
    /// deferred commit ever has anything to do here.
    ///
    /// # Errors
    /// The pool has failed.
    fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    /// Runs `body` as a read-only transaction: it logs, writes back and fences nothing.
    ///
    /// # Errors
    /// As [`Runner::run`]; [`Error::ReadOnly`] where `body` writes.
    fn view<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R>;

    /// What it has done so far.
    fn statistics(&self) -> Statistics;

    /// Whether a transaction that gives up leaves nothing behind; not so for the `volatile` reference alone,
    /// which has no transactions.
    fn rolls_back(&self) -> bool {
        true
    }
}

/// One thread's means to run transactions on a pool: a leased log and an arena of the heap. Dropping it
/// gives both back.
///
/// ```
/// # use strandline::pool::Geometry;
/// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// # let geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 15, chunk_bytes: 1 << 12 };
/// # let options = Options { geometry, domain: Domain::Process, lock_bits: 10, ..Options::default() };
/// # let pool = Pool::create(&path, &options)?;
/// // Logs for two workers.
/// let (mut first, second) = (pool.worker()?, pool.worker()?);
/// assert!(matches!(pool.worker(), Err(strandline::Error::NoFreeLog(2))));
/// first.run(|tx| tx.write(tx.root(0), 5))?;
/// // A dropped one gives its log back.
/// let index = second.log_index();
/// drop(second);
/// assert_eq!(pool.worker()?.log_index(), index);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Worker<M: Memory, S: SchemeObject<M>> {
    tx: Tx<M, S>,
    read_only: bool,
}

/// A running transaction. A worker has one at a time and lends it to the closure that it runs.
///
/// ```
/// # use strandline::pool::Geometry;
/// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// # let geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 15, chunk_bytes: 1 << 12 };
/// # let options = Options { geometry, domain: Domain::Process, lock_bits: 10, ..Options::default() };
/// # let pool = Pool::create(&path, &options)?;
/// use strandline::{Abort, memory::Native, scheme::Blurred, transaction::Tx};
///
/// /// The next number of a sequence, for the workers of a program that uses one kind of them.
/// fn next(tx: &mut Tx<Native, Blurred>) -> Result<u64, Abort> {
///     let next = tx.read(tx.root(0))? + 1;
///     tx.write(tx.root(0), next)?;
///     Ok(next)
/// }
///
/// let mut worker = pool.worker()?;
/// assert_eq!([worker.run(next)?, worker.run(next)?], [1, 2]);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Tx<M: Memory, S: SchemeObject<M>> {
    engine: Engine<M, S>,
    arenas: Arenas,
}

impl<M: Memory> Worker<M, Blurred> {
    /// Leases a free log of the pool, whose logs become BPPM's if they are not yet.
    ///
    /// # Errors
    /// [`Error::NoFreeLog`]: as many workers exist as the pool has logs. [`Error::Unsupported`]: a worker under
    /// another scheme exists. [`Error::Forked`].
    pub fn lease(view: View<M>, concurrency: Concurrency, shared_log: Option<SharedLog>) -> Result<Self> {
        Self::lease_log(view, Blurred::KIND, concurrency, shared_log, Blurred::lease)
    }
}

impl<M: Memory> Worker<M, Erased<M>> {
    /// Leases a free log of the pool, whose logs become scheme `kind`'s if they are not yet, for the laboratory.
    ///
    /// # Errors
    /// As [`Worker::lease`]; [`Error::Parameter`]: the scheme does not run in this mode.
    pub fn lease_of(
        view: View<M>,
        kind: SchemeKind,
        concurrency: Concurrency,
        shared_log: Option<SharedLog>,
    ) -> Result<Self> {
        Self::lease_log(view, kind, concurrency, shared_log, |view, index| kind.lease(view, index))
    }
}

impl<M: Memory, S: SchemeObject<M>> Worker<M, S> {
    fn lease_log(
        view: View<M>,
        kind: SchemeKind,
        concurrency: Concurrency,
        shared_log: Option<SharedLog>,
        lease: impl FnOnce(&View<M>, u64) -> S,
    ) -> Result<Self> {
        let logs = view.layout.geometry.logs;
        if view.memory.is_forked() {
            return Err(Error::Forked);
        }
        if !kind.modes().contains(&concurrency) {
            let modes: Vec<_> = kind.modes().iter().map(|&mode| kind.name(mode)).collect();
            return Err(Error::Parameter(format!(
                "this scheme runs as {} only; open the pool in one of these modes",
                modes.join(", ")
            )));
        }
        view.memory.lock(SharedLayout::LEASES);
        let adopted = scheme::adopt(&view, kind);
        let free = (0..logs).find(|&index| view.memory.load(view.shared.slot(index).leased()) == 0);
        if let (Ok(()), Some(index)) = (&adopted, free) {
            view.memory.store(view.shared.slot(index).leased(), 1);
        }
        view.memory.unlock(SharedLayout::LEASES);
        adopted?;
        let index = free.ok_or(Error::NoFreeLog(logs))?;
        let scheme = lease(&view, index);
        let engine = Engine::new(view, index, scheme, concurrency, shared_log);
        Ok(Self { tx: Tx { engine, arenas: Arenas::new(index) }, read_only: false })
    }

    /// The number of the log that this worker leases.
    pub fn log_index(&self) -> u64 {
        self.tx.engine.slot_index
    }

    /// From now on every transaction is read-only.
    pub(crate) fn make_read_only(&mut self) {
        self.read_only = true;
    }

    /// The worker's view of the pool.
    pub fn memory(&self) -> &M {
        self.tx.engine.view.memory.admit_thread();
        &self.tx.engine.view.memory
    }

    /// Runs `body` as a transaction that is committed when this returns, but in the `Sync` domain not yet durable: it
    /// is when all transactions up to the number that is returned are. 0: it is durable already.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn run_later<R>(&mut self, body: impl FnMut(&mut Tx<M, S>) -> Result<R, Abort>) -> Result<(R, u64)> {
        self.tx.engine.durable_at = 0;
        self.tx.engine.durable_later = true;
        let result = self.attempt(self.read_only, None, body)?;
        Ok((result, self.tx.engine.durable_at))
    }

    fn attempt<R>(
        &mut self,
        read_only: bool,
        locks: Option<&[Lock]>,
        body: impl FnMut(&mut Tx<M, S>) -> Result<R, Abort>,
    ) -> Result<R> {
        let memory = &self.tx.engine.view.memory;
        memory.admit_thread();
        memory.begin_transaction()?;
        Running(&mut self.tx).0.attempt(read_only, locks, body)
    }
}

/// The thread's transaction, until this is dropped.
struct Running<'w, M: Memory, S: SchemeObject<M>>(&'w mut Tx<M, S>);

impl<M: Memory, S: SchemeObject<M>> Drop for Running<'_, M, S> {
    fn drop(&mut self) {
        self.0.engine.view.memory.end_transaction();
    }
}

impl<M: Memory, S: SchemeObject<M>> Tx<M, S> {
    fn attempt<R>(
        &mut self,
        read_only: bool,
        locks: Option<&[Lock]>,
        mut body: impl FnMut(&mut Self) -> Result<R, Abort>,
    ) -> Result<R> {
        let mut attempt = 0;
        self.engine.declare(locks);
        loop {
            self.engine.begin(attempt, read_only);
            let outcome = catch_unwind(AssertUnwindSafe(|| body(self)));
            let why = match outcome {
                Ok(Ok(value)) => match self.engine.commit() {
                    Ok(()) => return Ok(value),
                    Err(why) => why,
                },
                Ok(Err(why)) => self.engine.reason(why),
                Err(panic) => {
                    if !self.engine.view.memory.is_forked() {
                        self.engine.roll_back(Abort::User);
                    }
                    resume_unwind(panic);
                }
            };
            if self.engine.view.memory.is_forked() {
                // The closure forked, and this is the child: what has happened so far is its parent's.
                return Err(Error::Forked);
            }
            self.engine.roll_back(why);
            match why {
                Abort::Conflict => {
                    attempt += 1;
                    self.engine.back_off(attempt);
                }
                Abort::LogFull => self.engine.make_room()?,
                Abort::User | Abort::Failed => {
                    let error = self.engine.take_error(why);
                    self.engine.settle_reads()?;
                    return Err(error);
                }
            }
        }
    }
}

impl<M: Memory, S: SchemeObject<M>> Runner for Worker<M, S> {
    type Tx<'t> = Tx<M, S>;

    fn run<R>(&mut self, body: impl FnMut(&mut Tx<M, S>) -> Result<R, Abort>) -> Result<R> {
        self.tx.engine.durable_later = false;
        self.attempt(self.read_only, None, body)
    }

    fn run_locked<R>(
        &mut self,
        locks: &[Lock],
        body: impl FnMut(&mut Tx<M, S>) -> Result<R, Abort>,
    ) -> Result<R> {
        self.tx.engine.durable_later = false;
        self.attempt(self.read_only, Some(locks), body)
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

    fn view<R>(&mut self, body: impl FnMut(&mut Tx<M, S>) -> Result<R, Abort>) -> Result<R> {
        self.tx.engine.durable_later = false;
        self.attempt(true, None, body)
    }

    fn statistics(&self) -> Statistics {
        Statistics { total: self.tx.engine.view.memory.counters(), ..self.tx.engine.statistics }
    }
}

impl<M: Memory, S: SchemeObject<M>> Drop for Worker<M, S> {
    fn drop(&mut self) {
        let engine = &mut self.tx.engine;
        let memory = &engine.view.memory;
        if memory.is_forked() {
            // The log is the parent's.
            return;
        }
        memory.admit_thread();
        engine.scheme.release(&engine.view);
        memory.store(engine.slot.leased(), 0);
        memory.notify(SharedLayout::RETURNS);
    }
}

impl<M: Memory, S: SchemeObject<M>> Read for Tx<M, S> {
    #[inline(always)]
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.engine.read(at)
    }
    #[inline(always)]
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.engine.read_range(at, into)
    }
    fn root(&self, index: u64) -> PersistentAddress {
        self.engine.view.layout.root(index)
    }
    fn fail(&mut self, error: Error) -> Abort {
        self.engine.fail(error)
    }
    fn data_words(&self) -> u64 {
        self.engine.view.layout.data_words()
    }
    #[inline(never)]
    fn find_block(&mut self, at: PersistentAddress) -> Result<Option<u64>, Abort> {
        heap::find_block(&mut self.engine, at)
    }
    fn is_allocated(&mut self, at: PersistentAddress) -> Result<bool, Abort> {
        heap::is_allocated(&mut self.engine, at)
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

impl<M: Memory, S: SchemeObject<M>> Transaction for Tx<M, S> {
    #[inline(always)]
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.engine.write(at, value)
    }
    #[inline(always)]
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        self.engine.write_range(at, from)
    }
    fn alloc(&mut self, bytes: u64) -> Result<PersistentAddress, Abort> {
        let region = self.engine.locks.region();
        self.engine.locks.set_allocating(true);
        let block = self.arenas.alloc(&mut self.engine, region, bytes);
        self.engine.locks.set_allocating(false);
        if self.engine.concurrency == Concurrency::Locks {
            self.engine.locks.add_fresh(block?, bytes);
        }
        block
    }
    fn free(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        let region = self.engine.locks.region();
        self.engine.locks.set_allocating(true);
        let freed = self.arenas.free(&mut self.engine, region, at);
        self.engine.locks.set_allocating(false);
        freed
    }
    fn block(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        heap::block(&mut self.engine, at)
    }
}
