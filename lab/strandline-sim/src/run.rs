//! Runs the library's schemes and workloads on a machine, unchanged.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use strandline_core::engine::Worker;
use strandline_core::error::Error;
use strandline_core::heap;
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, LINE_BYTES, Memory, PersistentAddress, Step, World};
use strandline_core::scheme::{RecoveryReport, SchemeMemory};
use strandline_core::transaction::{AnyRunner, Runner, Statistics as TransactionStatistics};
use strandline_core::{Concurrency, Result, Transaction};
use strandline_schemes::{Locking, PlainWorker, Program, S_WAL, laboratory};
use strandline_workloads::{
    AnyTransactions, SchemeName, Selection, Sizes, TPCC_NEW_ORDER, WorkloadKind, seed_of,
};

use crate::controller::Regions;
use crate::description::{Description, HomeCopies, LockScope, SoftwareLog};
use crate::instructions::Instructions;
use crate::machine::{Announced, Contents, Crash, Machine};
use crate::numbers::{Cycle, LineNumber};
use crate::scheme::{Entry, Exhausted, Setup};
use crate::statistics::Statistics;

/// A pool with a workload's structure, which can be used for any number of runs.
pub struct Prepared {
    selection: Selection,
    layout: Layout,
    shared: SharedLayout,
    image: Vec<u64>,
    /// The initial lines of the last cache level, the latest last.
    cached: Vec<Range<LineNumber>>,
    /// The root of each thread's structure, if each thread has its own.
    roots: Vec<PersistentAddress>,
}

/// The sizes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSizes {
    /// Bytes of each log, a multiple of 4096.
    pub log_bytes: u64,
    /// Bytes of a heap chunk, a power of two of at least 4096.
    pub chunk_bytes: u64,
    /// The binary logarithm of the number of the STM's stripe locks.
    pub lock_bits: u32,
}

impl Default for PoolSizes {
    /// Returns the sizes of native pools: logs of 1 MB, chunks of 256 KB, 2^20 locks.
    fn default() -> Self {
        Self { log_bytes: 1 << 20, chunk_bytes: 256 << 10, lock_bits: 20 }
    }
}

/// A run on a prepared pool.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The software scheme, in one of its modes.
    pub scheme: SchemeName,
    /// The number of threads. Each has a core of its own; if there are more threads than cores, they take turns.
    pub threads: usize,
    /// The number of transactions of each thread that count.
    pub transactions: u64,
    /// The number of transactions of each thread that precede those that count.
    pub warm_up: u64,
    /// The share of its time that a thread is idle after each transaction, in percent below 100 (Blurred Persistence, section V-C5). Other threads
    /// may use its core meanwhile.
    pub idle_percent: u64,
    /// Seed of the workload's random numbers.
    pub seed: u64,
}

/// The result of a run, which is the same to the byte for the same machine, run and seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The software scheme's name in `strandline-lab list`.
    pub scheme: String,
    /// The hardware scheme's name in `strandline-lab list`.
    pub hardware: String,
    /// The workload's name in `strandline-lab list`.
    pub workload: String,
    /// Threads, each on a core of its own.
    pub threads: usize,
    /// Transactions of each thread that counted.
    pub transactions: u64,
    /// The seed of the workload's random numbers.
    pub seed: u64,
    /// Transactions per second of simulated time, of all threads.
    pub tx_per_s: f64,
    /// Seconds of simulated time.
    pub seconds: f64,
    /// The share of attempts that met a conflict.
    pub abort_ratio: f64,
    /// Fences per transaction, bulk persistence and restarts included.
    pub fences_per_tx: f64,
    /// Write-backs of lines per transaction, bulk persistence and restarts included.
    pub lines_flushed_per_tx: f64,
    /// Bytes of log per transaction: the records of software's logs, and all that a hardware scheme writes to its own.
    pub log_bytes_per_tx: f64,
    /// How often a thread persisted in bulk.
    pub bulk_persists: u64,
    /// Everything that the machine counted.
    pub statistics: Statistics,
    /// The machine's description, with all defaults filled in.
    pub machine: Description,
}

/// A run's result and other data.
pub struct Finished {
    /// The results of the run.
    pub outcome: Outcome,
    /// The states that the requested power failures left.
    pub crashes: Vec<Crash>,
    /// The events that threads announced, if crashes were requested.
    pub events: Vec<Announced>,
    /// Word and line operations simulated, warm-up included.
    pub accesses: u64,
    /// How long the host took, in elapsed time.
    pub host_time: Duration,
    /// The cycles, from the threads' start, in which transactions counted.
    pub counted: Range<Cycle>,
    /// A sentence for each kind of work that the run was too short to reach: its cost is missing from the figures.
    pub too_short: Vec<String>,
}

impl Finished {
    /// Returns the simulated memory accesses per second of the host.
    pub fn accesses_per_second(&self) -> f64 {
        self.accesses as f64 / self.host_time.as_secs_f64().max(1e-9)
    }
}

impl Prepared {
    /// Creates a pool with logs for `threads` threads and fills it.
    ///
    /// # Errors
    /// Returns an error if a size is impossible.
    pub fn new(workload: WorkloadKind, sizes: &Sizes, pool: PoolSizes, threads: usize) -> Result<Self> {
        Self::filled(workload, sizes, pool, threads, 0)
    }

    /// Like [`Prepared::new`], for a run of `scheme` on `machine`. If each thread of a plain program has a structure of its own, the pool has one
    /// structure for each thread, with a share of the sizes.
    ///
    /// # Errors
    /// Returns the errors of [`Prepared::new`], and one if the workload is a single database.
    pub fn of_scope(
        workload: WorkloadKind,
        sizes: &Sizes,
        pool: PoolSizes,
        threads: usize,
        scheme: SchemeName,
        machine: &Description,
    ) -> Result<Self> {
        if scheme.plain != Some(Locking::Declared) || machine.program.lock_scope != LockScope::Thread {
            return Self::new(workload, sizes, pool, threads);
        }
        if workload == &TPCC_NEW_ORDER {
            return Err(Error::Parameter("tpcc-new-order is one database: choose another lock scope".into()));
        }
        Self::filled(workload, &sizes.share(threads as u64), pool, threads, threads)
    }

    /// Fills a pool with one structure for all threads, or with `own` structures, each of these sizes.
    fn filled(
        workload: WorkloadKind,
        sizes: &Sizes,
        pool: PoolSizes,
        threads: usize,
        own: usize,
    ) -> Result<Self> {
        let selection = Selection::new(workload, sizes)?;
        let logs = threads.max(1) as u64;
        // Reserve room for freed and reallocated memory, as native pools do: a quarter more, and chunks for each thread.
        let heap = own.max(1) as u64 * selection.heap_bytes() * 5 / 4 + (8 + 8 * logs) * pool.chunk_bytes;
        let size = (heap + logs * pool.log_bytes + (1 << 20)).next_multiple_of(4096);
        let geometry = Geometry { size, logs, log_bytes: pool.log_bytes, chunk_bytes: pool.chunk_bytes };
        let layout = Layout::new(geometry)?;
        let shared = SharedLayout::new(&layout, pool.lock_bits, 0);
        let mut prepared =
            Self { selection, layout, shared, image: Vec::new(), cached: Vec::new(), roots: Vec::new() };
        let world = plain(vec![0; (size / 8) as usize], &shared);
        let hosted: Rc<dyn World> = world.clone();
        let memory = Hosted::new(hosted, 0);
        // Uses borrowed memory like the threads' workers, for which alone schemes are compiled. No scheme's log is touched, so that each run begins
        // with an unused log.
        let view = prepared.view(&memory);
        let worker = Worker::lease_of(view, &strandline_schemes::NP, Concurrency::SingleWriter, None)?;
        if own == 0 {
            prepared.selection.prepare(&mut AnyRunner::new(worker))?;
        } else {
            let mut worker = worker;
            let lines = worker.run(|tx| tx.alloc(own as u64 * LINE_BYTES))?;
            prepared.roots = (0..own as u64).map(|index| lines.byte(index * LINE_BYTES)).collect();
            let program = Program { locking: Some(Locking::OfThread), ..Program::VOLATILE };
            for (index, &root) in prepared.roots.iter().enumerate() {
                worker.run(|tx| tx.write(root, 0))?;
                let mut own = AnyRunner::new(prepared.plain(&memory, index, program));
                prepared.selection.prepare(&mut own)?;
            }
        }
        prepared.image = world.contents();
        Ok(prepared)
    }

    /// Puts the structure into the last cache level, as far as it fits, together with the free chunks that `threads` threads will take next, four
    /// each, and the chunks with room: in a program that has run for a while, freed blocks have been touched, and an operating system clears new
    /// pages. Threads then open the structure without taking time.
    pub fn cached(mut self, threads: usize) -> Self {
        let last = self.image.iter().rposition(|&word| word != 0).unwrap_or(0);
        let used = 8 * last as u64 + 4 * threads as u64 * self.layout.geometry.chunk_bytes;
        let line = LineNumber::containing;
        let all = line(self.layout.data.offset())..line(used.min(8 * self.image.len() as u64));
        let hosted: Rc<dyn World> = plain(self.image.clone(), &self.shared);
        let rooms = heap::chunks_with_room(&self.view(Hosted::new(hosted, 0)));
        let chunk = self.layout.geometry.chunk_bytes;
        let rooms = rooms.into_iter().map(|at| line(at.offset())..line(at.offset() + chunk));
        self.cached = std::iter::once(all).chain(rooms).collect();
        self
    }

    /// Returns the layout of the pool.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns how many structures the pool has: one for all threads, or one for each.
    pub fn structures(&self) -> usize {
        self.roots.len().max(1)
    }

    /// Returns a plain program's worker for thread `index` over `memory`, on that thread's structure if each has its own.
    pub fn plain<M: Memory>(&self, memory: M, index: usize, program: Program) -> PlainWorker<M> {
        let worker = PlainWorker::new(self.view(memory), index as u64, program);
        match self.roots.get(index) {
            Some(&root) => worker.under(root),
            None => worker,
        }
    }

    /// Returns a view of such a pool over `memory`.
    pub fn view<M>(&self, memory: M) -> View<M> {
        View { memory, layout: self.layout, shared: self.shared }
    }

    /// Returns the header of a trace of this pool.
    pub fn header(&self, threads: usize) -> crate::trace::Header {
        crate::trace::Header {
            threads: threads as u64,
            persistent_bytes: 8 * self.image.len() as u64,
            volatile_bytes: self.shared.bytes(),
            logs: self.layout.logs.offset()..self.layout.data.offset(),
            pool_pages: Vec::new(),
            volatile_pages: Vec::new(),
        }
    }

    fn regions(&self) -> Regions {
        let line = |at: PersistentAddress| LineNumber::containing(at.offset());
        let logs = line(self.layout.logs)..line(self.layout.data);
        Regions { metadata: LineNumber::default()..logs.start, logs }
    }

    /// Creates a machine whose pool holds `image`.
    ///
    /// # Errors
    /// Returns an error if the description is impossible.
    pub fn machine(&self, description: &Description, hardware: &Entry, image: Vec<u64>) -> Result<Machine> {
        let contents =
            Contents { persistent: image, volatile_bytes: self.shared.bytes(), regions: self.regions() };
        let setup = Setup { machine: description, omitted: None };
        let scheme = hardware.build(&setup).map_err(|why| {
            Error::Parameter(format!(
                "{} cannot be built into the machine {}: {why}",
                hardware.name, description.name
            ))
        })?;
        Machine::new(description, contents, scheme, None)
            .map_err(|impossible| Error::Parameter(impossible.to_string()))
    }

    /// Runs on a machine, with power failures at the cycles `crash_at` (from 0, when the threads start).
    ///
    /// # Errors
    /// Returns an error if the machine is impossible or has too few cores, or if a transaction fails.
    pub fn run(
        &self,
        description: &Description,
        hardware: &Entry,
        run: &Run,
        crash_at: Vec<Cycle>,
    ) -> Result<Finished> {
        self.run_with(description, hardware, run, crash_at, |_| ())
    }

    /// Like [`Prepared::run`], but passes `with` the machine before anything runs on it, so that it can record the run.
    ///
    /// # Errors
    /// As for [`Prepared::run`].
    pub fn run_with(
        &self,
        description: &Description,
        hardware: &Entry,
        run: &Run,
        crash_at: Vec<Cycle>,
        with: impl FnOnce(&Rc<Machine>),
    ) -> Result<Finished> {
        let cores = description.cores.count;
        let named = run.scheme;
        let run = &Run { scheme: description.program.scheme(named), ..*run };
        self.check_run(description, run)?;
        if self.leaves_home_cached(description, run) && !crash_at.is_empty() {
            return Err(Error::Parameter(
                "program.home_copies = cached is for timing: a log that does not append cannot be recovered then".into(),
            ));
        }
        let machine = self.filled_machine(description, hardware, run, crash_at)?;
        with(&machine);
        let began = std::time::Instant::now();
        let scope = description.program.lock_scope;
        if run.scheme.plain == Some(Locking::Declared)
            && scope == LockScope::Thread
            && self.roots.len() < run.threads
        {
            return Err(Error::Parameter(
                "there is no structure for each thread: fill the pool for that scope".into(),
            ));
        }
        let (done, first_end) = (Cell::new(0), Cell::new(None));
        let driver =
            Driver { prepared: self, machine: &machine, run, scope, done: &done, first_end: &first_end };
        let threads = driver.run()?;
        let host_time = began.elapsed();
        let statistics = machine.statistics();
        // Threads that share cores finish at different times. As in a run limited by time, the transactions count that they have done together.
        let together = first_end.get().filter(|_| run.threads > cores);
        let named = &Run { scheme: named, ..*run };
        let outcome = self.outcome((description, hardware, named), &threads, together, statistics);
        let began = threads.iter().map(|thread| thread.began).min().unwrap_or_default();
        let ended = threads.iter().map(|thread| thread.ended).max().unwrap_or_default();
        Ok(Finished {
            too_short: self.too_short(run, &outcome, machine.unreached()),
            outcome,
            crashes: machine.take_crashes(),
            events: machine.take_events(),
            accesses: machine.accesses(),
            host_time,
            counted: began..ended,
        })
    }

    /// Creates a machine whose memory and caches are those of the filled pool.
    fn filled_machine(
        &self,
        description: &Description,
        hardware: &Entry,
        run: &Run,
        crash_at: Vec<Cycle>,
    ) -> Result<Rc<Machine>> {
        let cores = description.cores.count;
        let image = crate::host::copy(&self.image, (self.shared.bytes() / 8) as usize);
        let machine = Rc::new(self.machine(description, hardware, image)?);
        if run.threads > cores && !machine.shares_cores() {
            return Err(Error::Parameter(format!(
                "{} has a core for each thread, and here are more threads than cores: choose at most {cores} threads",
                hardware.name
            )));
        }
        if !crash_at.is_empty() {
            machine.record_events();
            machine.crash_at(crash_at);
        }
        if !self.cached.is_empty() {
            machine.fill_last_level(self.cached.iter().cloned().flat_map(LineNumber::all));
        }
        if self.leaves_home_cached(description, run) {
            machine.leave_home_copies_cached();
        }
        let name = self.selection.name();
        let counted = if run.scheme.program().is_some() {
            machine.set_plain();
            Instructions::of_plain(name, self.selection.sizes().value_bytes)
        } else if is_software_wal(run) && description.program.software_log == SoftwareLog::CompiledIn {
            // The instructions between a program's own accesses are not repeated between those of its log.
            let library = Instructions::TRANSACTIONS.access;
            Instructions::of_plain(name, 8).filter(|counted| counted.access < library)
        } else {
            Instructions::of_transactions(name, run.scheme.name())
        };
        if let Some(counted) = counted {
            machine.set_instructions(&counted);
        }
        Ok(machine)
    }

    /// Returns whether transactions leave the home copies of logged words in the caches.
    fn leaves_home_cached(&self, description: &Description, run: &Run) -> bool {
        description.program.home_copies == HomeCopies::Cached && is_software_wal(run)
    }

    /// Refuses a run that is impossible on this pool or machine.
    fn check_run(&self, description: &Description, run: &Run) -> Result<()> {
        let cores = description.cores.count;
        if run.threads == 0 || run.threads > cores && description.time_slices.is_none() {
            return Err(Error::Parameter(format!(
                "{} threads on a machine of {cores} cores: choose 1 to {cores}, or a machine with time_slices",
                run.threads
            )));
        }
        if run.idle_percent >= 100 {
            return Err(Error::Parameter(format!(
                "idle for {}% of the time: choose 0 to 99",
                run.idle_percent
            )));
        }
        self.selection.allow(run.threads as u64)?;
        if run.threads as u64 > self.layout.geometry.logs {
            return Err(Error::Parameter(format!(
                "{} threads on a pool with {} logs",
                run.threads, self.layout.geometry.logs
            )));
        }
        Ok(())
    }

    /// Computes the outcome from what `threads` did. `together` is how many transactions they had done when the first one ended, and after how many
    /// cycles, if that counts.
    fn outcome(
        &self,
        (description, hardware, run): (&Description, &Entry, &Run),
        threads: &[ThreadResult],
        together: Option<(u64, u64)>,
        statistics: Statistics,
    ) -> Outcome {
        let sum = |field: fn(&TransactionStatistics) -> u64| -> u64 {
            threads.iter().map(|thread| field(&thread.after) - field(&thread.before)).sum()
        };
        let done = sum(|s| s.commits) + sum(|s| s.read_only);
        let per_tx = |count: u64| count as f64 / done.max(1) as f64;
        let conflicts = sum(|s| s.conflicts);
        let rate =
            |count: u64, cycles: u64| count as f64 / description.seconds(cycles).max(f64::MIN_POSITIVE);
        let tx_per_s = match together {
            Some((done, cycles)) => rate(done, cycles),
            None => threads.iter().map(|t| rate(t.transactions, t.ended - t.began)).sum(),
        };
        Outcome {
            scheme: run.scheme.name().to_owned(),
            hardware: hardware.name.to_owned(),
            workload: self.selection.name().to_owned(),
            threads: run.threads,
            transactions: threads.iter().map(|thread| thread.transactions).min().unwrap_or(0),
            seed: run.seed,
            tx_per_s,
            seconds: description.seconds(statistics.cycles),
            abort_ratio: conflicts as f64 / (conflicts + done).max(1) as f64,
            fences_per_tx: per_tx(sum(|s| s.total.fences)),
            lines_flushed_per_tx: per_tx(sum(|s| s.total.lines_written_back)),
            log_bytes_per_tx: per_tx(sum(|s| s.log_bytes) + statistics.hardware_log_bytes),
            bulk_persists: sum(|s| s.bulk_persists),
            statistics,
            machine: description.clone(),
        }
    }

    /// Returns the work of the software and of the hardware that the run was too short to reach.
    fn too_short(&self, run: &Run, outcome: &Outcome, unreached: Vec<String>) -> Vec<String> {
        let log = self.layout.geometry.log_bytes;
        let persists_in_bulk =
            run.scheme.kind.is_some_and(|kind| kind.all_steps().any(|step| step == Step::BulkDataWriteBack));
        let bulk = (persists_in_bulk && outcome.bulk_persists == 0 && outcome.log_bytes_per_tx > 0.0).then(|| {
            let full = (log as f64 / outcome.log_bytes_per_tx).ceil();
            format!(
                "no thread persisted in bulk: a transaction takes {:.0} bytes of a log of {log}, which {full:.0} transactions \
                 of a thread fill",
                outcome.log_bytes_per_tx
            )
        });
        bulk.into_iter().chain(unreached).collect()
    }
}

/// The counts of one thread in the region of interest.
struct ThreadResult {
    transactions: u64,
    before: TransactionStatistics,
    after: TransactionStatistics,
    began: Cycle,
    ended: Cycle,
}

/// The state shared by the threads of a run.
struct Driver<'a> {
    prepared: &'a Prepared,
    machine: &'a Rc<Machine>,
    run: &'a Run,
    scope: LockScope,
    /// The number of transactions of all threads that count so far.
    done: &'a Cell<u64>,
    /// Their number when the first thread had finished, and the cycles until then.
    first_end: &'a Cell<Option<(u64, u64)>>,
}

impl Driver<'_> {
    fn run(&self) -> Result<Vec<ThreadResult>> {
        let results: Vec<RefCell<Option<Result<ThreadResult>>>> =
            (0..self.run.threads).map(|_| RefCell::default()).collect();
        let (opened, arrived) = (Cell::new(0), Cell::new(0));
        let ended = Cell::new(0);
        let mut threads: Vec<Thread<'_>> = results
            .iter()
            .enumerate()
            .map(|(index, result)| {
                let (opened, arrived, ended) = (&opened, &arrived, &ended);
                Box::new(move |memory: &Hosted| {
                    *result.borrow_mut() = Some(self.thread(memory, index, opened, arrived));
                    ended.set(ended.get() + 1);
                }) as Thread<'_>
            })
            .collect();
        let SchemeName { kind, concurrency, .. } = self.run.scheme;
        let shares = kind.is_some_and(|kind| kind.scheme.has_helper()) && self.machine.shares_cores();
        if let Some(kind) = kind
            && (self.machine.cores() > self.run.threads || shares)
        {
            let (prepared, ended, all) = (self.prepared, &ended, self.run.threads);
            // The helper has a core of its own, or shares one; otherwise workers do its work when necessary.
            threads.push(Box::new(move |memory: &Hosted| {
                SchemeMemory::help(kind, &prepared.view(memory), concurrency, &|| ended.get() == all);
            }));
        }
        let run = AssertUnwindSafe(|| self.machine.run(threads));
        if let Err(panic) = catch_unwind(run) {
            match panic.downcast::<Exhausted>() {
                Ok(exhausted) => return Err(Error::Parameter(exhausted.0)),
                Err(panic) => resume_unwind(panic),
            }
        }
        results.into_iter().filter_map(RefCell::into_inner).collect()
    }

    fn lease<'m>(&self, memory: &'m Hosted, index: usize) -> Result<AnyRunner<'m>> {
        let (view, scheme) = (self.prepared.view(memory), self.run.scheme);
        match (scheme.program(), scheme.kind) {
            (Some(program), _) => {
                let locking = program.locking.map(|locking| match (locking, self.scope) {
                    (Locking::Declared, LockScope::Structure) => Locking::One,
                    (Locking::Declared, LockScope::Thread) => Locking::OfThread,
                    (locking, _) => locking,
                });
                let program = Program { locking, ..program }.of_threads(self.run.threads);
                Ok(AnyRunner::new(self.prepared.plain(memory, index, program)))
            }
            // The structure was filled under another scheme.
            (None, Some(kind)) => {
                let mut worker = Worker::lease_of(view, kind, laboratory(scheme.concurrency), None)?;
                if scheme.retries_at_once {
                    worker.retry_at_once();
                }
                Ok(AnyRunner::new(worker))
            }
            (None, None) => {
                Err(Error::Unsupported(format!("scheme {} on a simulated machine", scheme.name())))
            }
        }
    }

    /// Waits until the hardware has completed its work for this thread's transactions.
    fn wait_for_hardware(&self, memory: &Hosted, index: usize) {
        while self.machine.is_busy(index) {
            memory.work(100);
        }
    }

    /// Opens the structure.
    fn open<'m>(
        &self,
        memory: &'m Hosted,
        index: usize,
    ) -> Result<(AnyRunner<'m>, Box<dyn AnyTransactions>)> {
        let mut runner = self.lease(memory, index)?;
        let seed = seed_of(self.run.seed, index as u64);
        let part = self.prepared.selection.workload().thread(&mut runner, seed)?;
        Ok((runner, part))
    }

    /// Runs one transaction, and the idle time after it.
    fn transaction<'m>(
        &self,
        memory: &'m Hosted,
        index: usize,
        (runner, part): (&mut AnyRunner<'m>, &mut dyn AnyTransactions),
    ) -> Result<()> {
        let since = self.machine.processor_time(index);
        part.transaction(runner)?;
        if self.run.idle_percent > 0 {
            // An idle thread must not keep others waiting.
            runner.drain()?;
            let busy = self.machine.processor_time(index) - since;
            let cycles = busy * self.run.idle_percent / (100 - self.run.idle_percent);
            self.machine.sleep(index, cycles, memory);
        }
        Ok(())
    }

    fn thread(
        &self,
        memory: &Hosted,
        index: usize,
        opened: &Cell<usize>,
        arrived: &Cell<usize>,
    ) -> Result<ThreadResult> {
        let prepare = || {
            let (mut runner, mut part) = if self.prepared.cached.is_empty() {
                self.open(memory, index)?
            } else {
                self.machine.set_timed(false);
                let part = self.open(memory, index);
                self.machine.set_timed(true);
                // No thread runs on the caches before all have made their untimed stores.
                opened.set(opened.get() + 1);
                while opened.get() < self.run.threads {
                    memory.pause();
                }
                part?
            };
            for _ in 0..self.run.warm_up {
                if self.machine.is_stopped() {
                    break;
                }
                self.transaction(memory, index, (&mut runner, &mut *part))?;
            }
            self.wait_for_hardware(memory, index);
            Ok((runner, part))
        };
        let prepared = prepare();
        // All threads begin the counting part together; a thread that fails does not keep the others waiting.
        arrived.set(arrived.get() + 1);
        if arrived.get() == self.run.threads {
            self.machine.begin_region();
        }
        let (mut runner, mut part) = prepared?;
        while arrived.get() < self.run.threads {
            self.machine.wait_for_region(index, memory);
        }
        let (before, began) = (runner.statistics(), self.machine.region_began(index));
        let mut transactions = 0;
        while transactions < self.run.transactions && !self.machine.is_stopped() {
            self.transaction(memory, index, (&mut runner, &mut *part))?;
            transactions += 1;
            self.done.set(self.done.get() + 1);
        }
        runner.drain()?;
        self.wait_for_hardware(memory, index);
        let ended = self.machine.clock(index);
        if self.first_end.get().is_none() {
            self.first_end.set(Some((self.done.get(), ended - began)));
        }
        Ok(ThreadResult { transactions, before, after: runner.statistics(), began, ended })
    }
}

/// The result of recovery after a power failure.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The pool's words.
    pub words: Vec<u64>,
    /// The number of words of the pool that the hardware's recovery has changed.
    pub by_hardware: u64,
    /// The report of the software's recovery, which runs after the hardware's.
    pub report: RecoveryReport,
}

/// Recovers from a power failure: runs the hardware's recovery and then the software's.
///
/// # Errors
/// Returns an error if recovery failed.
pub fn recover(
    prepared: &Prepared,
    description: &Description,
    scheme: SchemeName,
    hardware: &Entry,
    mut image: Vec<u64>,
) -> Result<Recovered> {
    let left = image[..prepared.image.len()].to_vec();
    let (pool, reserved) = image.split_at_mut(prepared.image.len());
    let setup = Setup { machine: description, omitted: None };
    (hardware.recover)(&setup, pool, reserved).map_err(Error::damaged)?;
    image.truncate(prepared.image.len());
    let by_hardware = left.iter().zip(&image).filter(|(before, after)| before != after).count() as u64;
    let world = plain(image, &prepared.shared);
    let hosted: Rc<dyn World> = world.clone();
    let Some(kind) = description.program.scheme(scheme).kind else {
        return Err(Error::Parameter("volatile keeps nothing that could be recovered".into()));
    };
    // Does not use the pool's state word, which says that the pool was filled without persistence.
    let report = SchemeMemory::recover(kind, &prepared.view(&Hosted::new(hosted, 0)), &mut |_| ())?;
    Ok(Recovered { words: world.contents(), by_hardware, report })
}

/// Creates memory without time.
fn plain(image: Vec<u64>, shared: &SharedLayout) -> Rc<Recorder> {
    let world = Recorder::new(image, shared.bytes(), 0, 0, None);
    world.set_recording(false);
    Rc::new(world)
}

/// Returns whether the run is S-WAL, the write-ahead log in software with which hardware schemes are compared.
fn is_software_wal(run: &Run) -> bool {
    run.scheme.kind.is_some_and(|kind| *kind == S_WAL)
}
