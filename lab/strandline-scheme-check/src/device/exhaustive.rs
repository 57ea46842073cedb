//! Explores small histories exhaustively: every crash point and every choice of surviving sectors, also during recovery.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use strandline_check::Session;
use strandline_core::memory::coroutines::{Thread, run};
use strandline_core::memory::{Hosted, Memory, World};
use strandline_core::sync::SyncParameters;
use strandline_core::{Error, Runner, Transaction};

use super::faulty_device::Fault;
use super::journal::Journal;
use super::oracle::Oracle;
use super::transactions::{FIRST_VALUE, MIX_CHUNKS, cell};
use super::world::Pool;
use super::{Case, Counts, Outcome, Size, Violation, caught};

/// How far an exhaustive exploration goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of schedules to explore, each with its own seed.
    pub schedules: u64,
    /// The seed of the first schedule.
    pub seed: u64,
    /// The number of transactions that each of two threads runs.
    pub transactions: u32,
    /// The number of power failures that a history has: the one while the threads run, and those in recoveries from it.
    pub failures: u32,
    /// The number of states that are judged at one crash point, at most.
    pub states: u64,
    /// The time after which exploring stops.
    pub limit: Duration,
}

/// Enumerates all sequences of choices like a counter: each run repeats the choices up to the last that has a next alternative.
#[derive(Default)]
struct Choices {
    /// The choices so far, each with the number of alternatives.
    made: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    fn choose(&mut self, of: usize) -> usize {
        if self.at == self.made.len() {
            self.made.push((0, of));
        }
        self.at += 1;
        self.made[self.at - 1].0
    }

    /// Advances to the next run; returns `false` if there is none.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, of)) = self.made.pop() {
            if chosen + 1 < of {
                self.made.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

struct Exhaustion<'c> {
    case: &'c Case,
    bounds: Bounds,
    started: Instant,
    counts: Counts,
    journal: Journal,
    session: &'c Session,
    stopped: bool,
}

/// Explores `case` exhaustively, under several schedules of two threads that write the same words and one that takes a checkpoint. For each schedule
/// it tries a power failure during every operation of the device, every choice of sectors that survive, and as many further failures in recovery as
/// the bounds permit.
///
/// Each transaction writes two words of one line and one of another page; the workload of `case` is ignored.
pub fn exhaust(case: &Case, bounds: Bounds, session: &Session, mut progress: impl FnMut(&Counts)) -> Outcome {
    let mut exhaustion = Exhaustion {
        case,
        bounds,
        started: Instant::now(),
        counts: Counts::default(),
        journal: Journal::kept(),
        session,
        stopped: false,
    };
    let (mut violation, mut found) = (None, bounds.seed);
    for seed in (0..bounds.schedules).map(|number| bounds.seed.wrapping_add(number)) {
        if let Err(what) = caught(|| exhaustion.schedule(seed, &mut progress)) {
            (violation, found) = (Some(Violation { what, history: exhaustion.journal.take() }), seed);
            break;
        }
        if exhaustion.stopped {
            break;
        }
    }
    let mut counts = exhaustion.counts;
    counts.cut_short += u64::from(exhaustion.stopped);
    let size = Size { lives: 1, transactions: bounds.transactions };
    let seconds = exhaustion.started.elapsed().as_secs_f64();
    Outcome { counts, violation, seed: found, size, seconds }
}

impl Exhaustion<'_> {
    /// Explores one schedule: power fails during each operation in turn, until there are no more operations.
    fn schedule(&mut self, seed: u64, progress: &mut impl FnMut(&Counts)) -> Result<(), String> {
        self.counts.histories += 1;
        for operation in 0.. {
            let _ = self.journal.take();
            let parameters = SyncParameters {
                ring_blocks: 8,
                initial_ring_blocks: 4,
                dirty_pages: 1,
                most_dirty_pages: Some(2),
                memory_pages: Some(0),
                staging_blocks: 1,
                checksums: false,
                cut_damaged_log: false,
            };
            let case = self.case;
            let pool = Pool::create(
                seed,
                seed.is_multiple_of(2),
                (MIX_CHUNKS, 4096),
                parameters,
                case.concurrency,
                case.omitted,
                self.journal.clone(),
            )
            .map_err(|error| format!("no pool: {error:#}"))?;
            let mut oracle = Oracle::new(pool.layout);
            let failed = self.live(&pool, seed, operation, &mut oracle)?;
            self.failures(&pool, &oracle, self.bounds.failures)?;
            progress(&self.counts);
            if self.is_over() || !failed {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether the time is up.
    fn is_over(&mut self) -> bool {
        self.stopped |= self.session.is_stopped() || self.started.elapsed() > self.bounds.limit;
        self.stopped
    }

    /// Runs the threads. Power fails during `operation` of the device or, if there are fewer operations, at the end.
    fn live(&mut self, pool: &Pool, seed: u64, operation: u64, oracle: &mut Oracle) -> Result<bool, String> {
        let world = pool.open(seed);
        pool.recover(&world).map_err(|error| format!("recovery fails: {error:#}"))?;
        self.counts.lives += 1;
        pool.device.fail_after(operation, Fault::PowerOff);
        let life = &Life {
            pool,
            seed,
            transactions: self.bounds.transactions,
            finished: Cell::new(0),
            problem: RefCell::new(None),
        };
        let mut bodies: Vec<Thread<'_>> = Vec::new();
        for thread in 0..2 {
            bodies.push(Box::new(move |memory: &Hosted| life.transact(thread, memory)));
        }
        bodies.push(Box::new(|memory: &Hosted| life.take_checkpoints(memory)));
        let mut rng = Rng::with_seed(seed);
        let hosted: Rc<dyn World> = world.clone();
        run(&hosted, bodies, |running| rng.usize(..running.len()));
        if let Some(problem) = life.problem.take() {
            return Err(problem);
        }
        self.counts.transactions += oracle.lived(&world, Vec::new());
        Ok(pool.device.is_off())
    }

    /// Explores a power failure now: every choice of what survives, recovery from each and, if `failures` is above 1, power failures during every
    /// operation of that recovery.
    fn failures(&mut self, pool: &Pool, oracle: &Oracle, failures: u32) -> Result<(), String> {
        let mut choices = Choices::default();
        let first = self.counts.states;
        loop {
            self.counts.power_failures += 1;
            let before = self.journal.length();
            let crashed = pool.on((*pool.device).clone());
            crashed.device.power_cycle_choosing(|of| choices.choose(of));
            self.recover(&crashed, oracle)?;
            if failures > 1 {
                for operation in 0.. {
                    let middle = self.journal.length();
                    let again = pool.on((*crashed.device).clone());
                    again.device.fail_after(operation, Fault::PowerOff);
                    let world = again.open(1);
                    if again.recover(&world).is_ok() {
                        break;
                    }
                    self.counts.failed_recoveries += 1;
                    self.failures(&again, oracle, failures - 1)?;
                    self.journal.shorten(middle);
                    if self.is_over() {
                        return Ok(());
                    }
                }
            }
            self.journal.shorten(before);
            if !choices.next() || self.is_over() {
                return Ok(());
            }
            if self.counts.states - first >= self.bounds.states {
                self.counts.cut_short += 1;
                return Ok(());
            }
        }
    }

    /// Runs recovery without failure, and then the oracle.
    fn recover(&mut self, pool: &Pool, oracle: &Oracle) -> Result<(), String> {
        let before = self.journal.length();
        let pool = pool.on((*pool.device).clone());
        let world = pool.open(1);
        let report = pool.recover(&world).map_err(|error| format!("recovery fails: {error:#}"))?;
        self.counts.states += 1;
        oracle.clone().judge(&world, report.watermark)?;
        self.journal.shorten(before);
        Ok(())
    }
}

/// State that the threads of a life share: two run transactions, and one takes checkpoints.
struct Life<'a> {
    pool: &'a Pool,
    seed: u64,
    /// The number of transactions that each of the two threads runs.
    transactions: u32,
    /// The number of the two threads that have ended.
    finished: Cell<u32>,
    problem: RefCell<Option<String>>,
}

impl Life<'_> {
    fn transact(&self, thread: u64, memory: &Hosted) {
        let outcome = self.pool.worker(memory).and_then(|mut worker| {
            (0..u64::from(self.transactions)).try_for_each(|number| {
                let value = FIRST_VALUE + 16 * thread + number;
                worker.run(|tx| {
                    let cells = [0, 1, 6].map(|number| cell(&self.pool.layout, number));
                    cells.into_iter().try_for_each(|cell| tx.write(cell, value))
                })
            })
        });
        if let Err(error) = outcome {
            self.fail("a transaction", &error);
        }
        self.finished.set(self.finished.get() + 1);
    }

    fn take_checkpoints(&self, memory: &Hosted) {
        let (log, view) = (&self.pool.log, self.pool.view(memory));
        // The other threads may wait for room more than once.
        let mut is_last = false;
        while !is_last {
            while self.finished.get() < 2 && !log.checkpoint_wanted(&view) {
                memory.pause();
            }
            is_last = self.finished.get() == 2;
            // In every other schedule the first checkpoint switches to a larger ring.
            let larger = log.larger_ring(&view, self.seed % 2 == 1);
            let done = match larger.map(|blocks| log.enlarge_ring(&view, blocks)) {
                Some(Ok(true)) => Ok(()),
                Some(Err(error)) => Err(error),
                Some(Ok(false)) | None => log.checkpoint(&view).map(drop),
            };
            if let Err(error) = done {
                self.fail("a checkpoint", &error);
                return;
            }
        }
    }

    /// Keeps an error that the power failure did not cause.
    fn fail(&self, what: &str, error: &Error) {
        if !matches!(error, Error::Poisoned { .. }) {
            *self.problem.borrow_mut() = Some(format!("{what} fails: {error:#}"));
        }
    }
}
