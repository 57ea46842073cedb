//! Plain programs: the same structures as a C programmer would have written them, with loads and stores in place. There is no write set, no log and
//! no validation. Locks are declared, and taken before a critical section begins.
//!
//! Without hardware such a program is `volatile`, the reference without transactions against which every scheme is measured. Beside hardware that
//! makes transactions atomic it is the kind of program that the papers about that hardware ran ([`Program`]): its critical sections are atomic
//! regions, from [`Event::Begin`] to [`Event::Commit`].
//!
//! *Abort.* A critical section that is given up ends with [`Event::Abort`] if the hardware has TxAbort, which undoes the stores. Otherwise the stores
//! stay, since the program keeps no old values ([`Runner::rolls_back`]), and the region ends like any other.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use strandline_core::Pool;
use strandline_core::engine::Control;
use strandline_core::error::{Error, Result};
use strandline_core::heap::{self, Access, Arenas};
use strandline_core::layout::{Layout, SharedLayout, View};
use strandline_core::memory::{Event, LINE_BYTES, Memory, Native, PersistentAddress, Step, VolatileAddress};
use strandline_core::transaction::{Abort, Lock, Read, Runner, Statistics, Transaction};

/// How the critical sections of a plain program are isolated, atomic and durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The locks that a thread takes before a critical section; `None`: none, since the program is alone.
    pub locking: Option<Locking>,
    /// True if critical sections are atomic regions of the hardware.
    pub in_regions: bool,
    /// True if all lines stored to are written back and fenced before a region ends, as ATOM requires before Atomic_End.
    pub flushes: bool,
}

/// The locks that a plain program takes before a critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Locking {
    /// One lock for everything.
    One,
    /// The declared locks, in order, or the one lock if none are declared. The program states what they guard; a bucket's lock guards its chain. A
    /// program that declares locks in one critical section must do so in all that store.
    Declared,
    /// The locks of the [parts](Transaction::section) of the program, each of which is a critical section; all stores must be in one.
    OfParts,
    /// No locks, since each thread has a structure [of its own](PlainWorker::under). Threads share only the heap's chunk table.
    OfThread,
}

impl Program {
    /// The reference: one lock, and nothing survives.
    pub const VOLATILE: Self = Self { locking: Some(Locking::One), in_regions: false, flushes: false };

    /// Returns a program of so many threads. A single thread takes no locks, unless locks also delimit its parts.
    pub fn of_threads(self, threads: usize) -> Self {
        let needed = |locking: &Locking| threads > 1 || *locking == Locking::OfParts;
        Self { locking: self.locking.filter(needed), ..self }
    }
}

/// One thread's use of a pool by plain loads and stores.
///
/// ```
/// # use strandline_core::example::*;
/// # let pool = pool();
/// let mut worker = strandline_schemes::PlainWorker::in_pool(&pool, 0)?;
/// let given_up: strandline_core::Result<()> = worker.run(|tx| {
///     tx.write(tx.root(0), 5)?;
///     Err(strandline_core::Abort::User)
/// });
/// assert!(given_up.is_err());
/// // There is no transaction that could be rolled back.
/// assert_eq!(worker.view(|tx| tx.read(tx.root(0)))?, 5);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct PlainWorker<M: Memory>(PlainTx<M>);

struct Direct<M> {
    view: View<M>,
    program: Program,
    /// True if the running critical section takes declared locks.
    is_declared: bool,
    /// True if work is needed before its stores.
    is_watched: bool,
    /// True if a critical section is running, so that stores are permitted.
    is_running: bool,
    /// True if it also holds the lock of the chunk table.
    has_heap: bool,
    has_stored: bool,
    /// The lines that it has stored to, in the order of their first stores, if it writes them back.
    stored: Vec<PersistentAddress>,
    error: Option<Error>,
    statistics: Statistics,
}

/// A critical section of plain loads and stores.
pub struct PlainTx<M: Memory> {
    direct: Direct<M>,
    arenas: Arenas,
    /// The numbers of the declared locks that are held.
    held: Vec<u32>,
    /// The region of the heap from which the section allocates: the one that it declared, or the thread's own.
    region: Option<u32>,
    /// The thread's own region and blocks.
    own: Own,
    /// The word in place of the pool's roots.
    root: Option<PersistentAddress>,
}

/// The memory of a thread whose critical section declares locks but no region. The thread keeps the blocks that it frees, like the per-thread lists
/// of a C allocator, so that threads share only the chunk table. Blocks are whole lines, since hardware undoes lines. After a power failure the free
/// blocks are unreachable and unused.
#[derive(Default)]
struct Own {
    /// The number of a region whose chunks belong only to this thread.
    region: u32,
    /// True if the running section allocates here.
    is_used: bool,
    /// Free blocks by their size in bytes.
    free: BTreeMap<u64, Vec<PersistentAddress>>,
    /// The blocks that the running section has allocated here.
    taken: Vec<(u64, PersistentAddress)>,
    /// The blocks that it has freed, which stay allocated until it ends.
    freed: Vec<(u64, PersistentAddress)>,
}

impl Own {
    fn new(index: u64) -> Self {
        // Workloads number their regions from 0.
        Self { region: u32::MAX - index as u32, ..Self::default() }
    }

    /// Ends the section. Frees the blocks that it allocated unless it `is_done`.
    fn end(&mut self, is_done: bool) {
        let back = if is_done { &mut self.freed } else { &mut self.taken };
        for (bytes, at) in back.drain(..) {
            self.free.entry(bytes).or_default().push(at);
        }
        self.taken.clear();
        self.freed.clear();
    }
}

impl PlainWorker<Native> {
    /// Creates the reference program's worker, which allocates from arena `index` of an open pool. Marks the pool as used without persistence.
    ///
    /// # Errors
    /// As for [`Pool::unprotected_view`].
    pub fn in_pool<C: Control<Memory = Native>>(pool: &Pool<C>, index: u64) -> Result<Self> {
        Ok(Self::new(pool.unprotected_view()?, index, Program::VOLATILE))
    }
}

impl<M: Memory> PlainWorker<M> {
    /// Creates a worker that allocates from arena `index`.
    pub fn new(view: View<M>, index: u64, program: Program) -> Self {
        let is_watched = program.flushes
            || matches!(program.locking, Some(Locking::Declared | Locking::OfParts | Locking::OfThread));
        let direct = Direct {
            view,
            is_watched,
            program,
            is_declared: false,
            is_running: false,
            has_heap: false,
            has_stored: false,
            stored: Vec::new(),
            error: None,
            statistics: Statistics::default(),
        };
        Self(PlainTx {
            direct,
            arenas: Arenas::new(index),
            held: Vec::new(),
            region: None,
            own: Own::new(index),
            root: None,
        })
    }

    /// Returns this worker with the word `root` in place of the pool's roots, for one of several structures.
    pub fn under(mut self, root: PersistentAddress) -> Self {
        self.0.root = Some(root);
        self
    }

    fn section<R>(
        &mut self,
        locks: Option<&[Lock]>,
        mut body: impl FnMut(&mut PlainTx<M>) -> Result<R, Abort>,
    ) -> Result<R> {
        let tx = &mut self.0;
        tx.direct.view.memory.admit_thread();
        tx.direct.view.memory.begin_transaction()?;
        let in_parts = tx.direct.program.locking == Some(Locking::OfParts);
        tx.direct.has_stored = false;
        if !in_parts {
            tx.begin(locks);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| body(tx)));
        let is_done = matches!(outcome, Ok(Ok(_)));
        let has_stored = tx.direct.has_stored;
        if tx.direct.is_running {
            tx.end(is_done && !in_parts);
        }
        let statistics = &mut tx.direct.statistics;
        match (is_done, has_stored) {
            (false, _) => statistics.user_aborts += 1,
            (true, true) => statistics.commits += 1,
            (true, false) => statistics.read_only += 1,
        }
        statistics.acknowledged += u64::from(is_done);
        tx.direct.view.memory.end_transaction();
        let result = outcome.unwrap_or_else(|panic| resume_unwind(panic));
        if tx.direct.view.memory.is_forked() {
            // The closure has forked, and this is the child.
            return Err(Error::Forked);
        }
        result.map_err(|_| tx.direct.error.take().unwrap_or(Error::Aborted))
    }
}

impl<M: Memory> PlainTx<M> {
    /// Takes the locks, and begins the region.
    fn begin(&mut self, locks: Option<&[Lock]>) {
        self.region = locks.and_then(Lock::first_region);
        self.own.is_used = false;
        let Direct { view, program, is_declared, is_running, has_heap, has_stored, stored, .. } =
            &mut self.direct;
        (*is_declared, *is_running, *has_heap, *has_stored) = (false, true, false, false);
        match (program.locking, locks) {
            (None, _) => {}
            (Some(Locking::OfThread), _) => {
                (*is_declared, self.own.is_used) = (true, true);
                self.region = Some(self.own.region);
                self.held.clear();
            }
            (Some(Locking::Declared | Locking::OfParts), Some(locks)) => {
                *is_declared = true;
                self.own.is_used = self.region.is_none();
                if self.own.is_used {
                    self.region = Some(self.own.region);
                }
                let (of, of_line) = (|at| Lock::of_granule(view, at), |at| Lock::of_line(view, at));
                Lock::numbers(view, locks, of, of_line, &mut self.held);
                for &lock in &self.held {
                    view.memory.lock(view.shared.set_lock(lock.into()));
                }
            }
            (Some(_), _) => view.memory.lock(SharedLayout::WRITER),
        }
        if program.in_regions {
            stored.clear();
            view.memory.event(Event::Begin);
        }
    }

    /// Ends the region, and releases the locks.
    fn end(&mut self, is_done: bool) {
        let Direct { view, program, is_declared, is_running, has_heap, has_stored, stored, .. } =
            &mut self.direct;
        let memory = &view.memory;
        // True if its stores stay.
        let is_done = is_done || !(program.in_regions && memory.takes_stores_back());
        match (program.in_regions, is_done) {
            (true, true) if *has_stored => {
                for &line in &*stored {
                    memory.write_back(line, Step::HomeWriteBack);
                }
                if program.flushes {
                    memory.fence(Step::HomeFence);
                }
                let transaction = memory.number_transaction(SharedLayout::CLOCK);
                memory.event(Event::Executed(transaction));
                memory.event(Event::Commit(transaction));
                memory.event(Event::Acknowledged(transaction));
            }
            (true, true) => memory.event(Event::Commit(0)),
            (true, false) => memory.event(Event::Abort),
            (false, _) => {}
        }
        *is_running = false;
        self.own.end(is_done);
        match program.locking {
            None => {}
            Some(_) if *is_declared => {
                if *has_heap {
                    memory.unlock(HEAP);
                }
                for &lock in self.held.iter().rev() {
                    memory.unlock(view.shared.set_lock(lock.into()));
                }
            }
            Some(_) => memory.unlock(SharedLayout::WRITER),
        }
    }
}

/// The lock of the heap's chunk table if locks are declared. It is taken last, and held to the end.
const HEAP: VolatileAddress = SharedLayout::WRITER;

impl<M: Memory> Runner for PlainWorker<M> {
    type Tx<'t> = PlainTx<M>;

    fn run<R>(&mut self, body: impl FnMut(&mut PlainTx<M>) -> Result<R, Abort>) -> Result<R> {
        self.section(None, body)
    }

    fn run_locked<R>(
        &mut self,
        locks: &[Lock],
        body: impl FnMut(&mut PlainTx<M>) -> Result<R, Abort>,
    ) -> Result<R> {
        self.section(Some(locks), body)
    }

    fn view<R>(&mut self, body: impl FnMut(&mut PlainTx<M>) -> Result<R, Abort>) -> Result<R> {
        self.section(None, body)
    }

    fn takes_locks(&self) -> bool {
        self.0.direct.program.locking == Some(Locking::Declared)
    }

    fn trusts_locks(&self) -> bool {
        self.takes_locks()
    }

    /// Fences, which is Loose-Ordering's TxFlush: if commits are acknowledged later, it waits for them.
    fn drain(&mut self) -> Result<()> {
        if self.0.direct.program.in_regions {
            self.0.direct.view.memory.fence(Step::CommitFence);
        }
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        Statistics { total: self.0.direct.view.memory.counters(), ..self.0.direct.statistics }
    }

    fn rolls_back(&self) -> bool {
        let Direct { view, program, .. } = &self.0.direct;
        program.in_regions && program.locking != Some(Locking::OfParts) && view.memory.takes_stores_back()
    }
}

impl<M: Memory> Direct<M> {
    /// Checks that the `words` words at `at` are data.
    fn check(&mut self, at: PersistentAddress, words: u64) -> Result<(), Abort> {
        if self.view.layout.is_data(at, words) { Ok(()) } else { self.check_again(at, words) }
    }

    /// Checks the words again after the pool may have grown.
    #[cold]
    fn check_again(&mut self, at: PersistentAddress, words: u64) -> Result<(), Abort> {
        self.view.look_how_far();
        if self.view.layout.is_data(at, words) {
            return Ok(());
        }
        Err(self.fail(Error::InvalidAddress(at.offset())))
    }

    fn is_in_table(&self, at: PersistentAddress) -> bool {
        at >= self.view.layout.chunk_table && at < self.view.layout.chunks
    }

    /// Takes the lock of the chunk table and of the number of chunks, which a search for a free chunk needs.
    #[cold]
    fn lock_heap(&mut self) {
        if !self.has_heap {
            self.has_heap = true;
            self.view.memory.lock(HEAP);
        }
    }

    /// Does the work that is needed before a store to `words` words at `at`.
    #[inline(never)]
    fn watch(&mut self, at: PersistentAddress, words: usize, first: u64) -> Result<(), Abort> {
        if !self.is_running {
            return Err(self.fail(Error::Parameter(
                "a plain program stored outside of its critical sections: what it runs is not made of parts, so choose \
                 it without +parts"
                    .into(),
            )));
        }
        if self.is_declared && self.is_in_table(at) {
            self.lock_heap();
            if first == 0 {
                // Each chunk is guarded by the locks of its owner.
                return Err(self.fail(Error::Parameter(
                    "a plain program gave a chunk of the heap back under declared locks, which do not guard that: choose it \
                     without +locks"
                        .into(),
                )));
            }
        }
        if self.program.flushes {
            let mut line = at.line();
            while line < at.word(words as u64) {
                if !self.stored.contains(&line) {
                    self.stored.push(line);
                }
                line = line.byte(LINE_BYTES);
            }
        }
        Ok(())
    }
}

impl<M: Memory> Access for Direct<M> {
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.check(at, 1)?;
        let value = self.view.memory.load(at);
        if self.is_watched
            && self.is_declared
            && (value == 0 && self.is_in_table(at) || at == self.view.layout.reached())
        {
            self.lock_heap();
            return Ok(self.view.memory.load(at));
        }
        Ok(value)
    }

    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if !into.is_empty() {
            self.check(at, into.len() as u64)?;
            self.view.memory.load_range(at, into);
        }
        Ok(())
    }

    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.check(at, 1)?;
        self.has_stored = true;
        if self.is_watched {
            self.watch(at, 1, value)?;
        }
        self.view.memory.store(at, value);
        Ok(())
    }

    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        if from.is_empty() {
            return Ok(());
        }
        self.check(at, from.len() as u64)?;
        self.has_stored = true;
        if self.is_watched {
            self.watch(at, from.len(), from[0])?;
        }
        self.view.memory.store_range(at, from);
        Ok(())
    }

    fn hint(&self, at: PersistentAddress) -> u64 {
        self.view.memory.peek(at)
    }

    fn make_space(&mut self, at: PersistentAddress, bytes: u64) -> Result<(), Abort> {
        self.view.memory.make_space(at, bytes).map_err(|error| {
            self.fail(Error::io(format!("allocate disk space for {bytes} bytes of the pool"), error))
        })
    }

    fn grow(&mut self, least: u64, most: u64) -> std::io::Result<u64> {
        self.view.memory.grow(least, most)
    }

    fn fail(&mut self, error: Error) -> Abort {
        self.error.get_or_insert(error);
        Abort::Failed
    }

    fn layout(&self) -> &Layout {
        &self.view.layout
    }
}

impl<M: Memory> Read for PlainTx<M> {
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.direct.read(at)
    }
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.direct.read_range(at, into)
    }
    fn root(&self, index: u64) -> PersistentAddress {
        self.root.unwrap_or_else(|| self.direct.view.layout.root(index))
    }
    fn fail(&mut self, error: Error) -> Abort {
        self.direct.fail(error)
    }
    fn heap_words(&self) -> u64 {
        self.direct.view.layout.heap_words()
    }
    fn find_block(&mut self, at: PersistentAddress) -> Result<Option<u64>, Abort> {
        heap::find_block(&mut self.direct, at)
    }
    fn is_allocated(&mut self, at: PersistentAddress) -> Result<bool, Abort> {
        heap::is_allocated(&mut self.direct, at)
    }
    fn next_allocated(&mut self, from: PersistentAddress) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        heap::next_allocated(&mut self.direct, from)
    }
    fn tolerate(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>,
    ) -> Result<Option<Error>, Abort> {
        let before = self.direct.error.take();
        let outcome = body(self);
        let failed = std::mem::replace(&mut self.direct.error, before);
        match outcome {
            Ok(()) | Err(Abort::Failed) => Ok(failed),
            Err(abort) => Err(abort),
        }
    }
}

impl<M: Memory> Transaction for PlainTx<M> {
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.direct.write(at, value)
    }
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        self.direct.write_range(at, from)
    }
    fn alloc(&mut self, bytes: u64) -> Result<PersistentAddress, Abort> {
        if !self.own.is_used {
            return self.arenas.alloc(&mut self.direct, self.region, bytes);
        }
        let bytes = heap::block_bytes(&self.direct.view.layout, bytes.max(LINE_BYTES));
        let Some(at) = self.own.free.get_mut(&bytes).and_then(Vec::pop) else {
            return self.arenas.alloc(&mut self.direct, self.region, bytes);
        };
        self.own.taken.push((bytes, at));
        Ok(at)
    }
    fn free(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        if self.own.is_used {
            let bytes = heap::block(&mut self.direct, at)?;
            self.own.freed.push((bytes, at));
            return Ok(());
        }
        self.arenas.free(&mut self.direct, self.region, at)
    }
    fn block(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        heap::block(&mut self.direct, at)
    }
    fn begin_section(&mut self, lock: Lock) {
        if self.direct.program.locking == Some(Locking::OfParts) {
            self.begin(Some(&[lock]));
        }
    }
    fn end_section(&mut self, is_done: bool) {
        if self.direct.program.locking == Some(Locking::OfParts) {
            self.end(is_done);
        }
    }
}
