//! One life of a pool: recovery, then threads that run transactions, in an [`X86World`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use fastrand::Rng;
use strandline_core::engine::Worker;
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::{Hosted, Memory, Space, Step, World, coroutines};
use strandline_core::scheme::{SchemeMemory, recover};
use strandline_core::{Concurrency, Result, Runner};
use strandline_structures::model::Contents;

use super::oracle::{Home, MOST_IN_COMMIT};
use super::scheme::CheckedScheme;
use super::worker::AnyWorker;
use super::workload::{Effect, Plan, Workload};
use strandline_check::Setting;
use strandline_check::x86::Trace;
use strandline_check::x86::X86World;
use strandline_check::x86::{ChoicePoint, Policy};

/// A case to check: a scheme, a workload, a setting, threads and a mutant.
#[derive(Clone, Copy)]
pub struct Case {
    /// The scheme, in one of its modes.
    pub scheme: CheckedScheme,
    /// The workload.
    pub workload: Workload,
    /// Threads that run transactions.
    pub threads: usize,
    /// The parts of a line that may survive a power failure.
    pub setting: Setting,
    /// The step that a mutant leaves out.
    pub omitted: Option<Step>,
}

/// A case with the layout of its pools.
pub struct Ground {
    /// The case.
    pub case: Case,
    /// The layout of persistent memory.
    pub layout: Layout,
    /// The layout of the volatile words.
    pub shared: SharedLayout,
    /// Numbers of the words that transactions may write.
    pub data: Range<usize>,
    /// A pool with the workload's structure, and nothing in progress.
    pub image: Vec<u64>,
}

/// A finished life.
pub struct Life {
    /// The trace of the run.
    pub trace: Trace,
    /// The words that the oracle needs.
    pub home: Home,
    /// The effect of each of the trace's updates on the structure.
    pub effects: Vec<Vec<Effect>>,
    /// The last TxID that was taken, if TxIDs come from the clock.
    pub clock: Option<u64>,
    /// When recovery had ended and threads began.
    pub began: u32,
    /// Choice points of a guided run.
    pub choices: Vec<ChoicePoint>,
    /// Lines that turned out to be shared, if states are distinguished (`state.rs`).
    pub found_shared: BTreeSet<u32>,
}

/// Everything that determines a life.
pub struct Recipe {
    /// The pool that it begins with.
    pub image: Vec<u64>,
    /// The work of the threads.
    pub script: Rc<Script>,
    /// How the threads are scheduled.
    pub policy: Policy,
    /// The lines known to be shared, if states are distinguished (`state.rs`).
    pub shared: Option<BTreeSet<u32>>,
    /// True if stores wait in store buffers.
    pub delays: bool,
    /// The source of random choices.
    pub random: Rng,
}

/// The work of the threads of a life.
pub enum Script {
    /// These transactions, by thread.
    Fixed(Vec<Vec<Plan>>),
    /// Transactions shaped so that logs wrap, commits overlap and some transactions give up.
    Shaped {
        /// The number of transactions that each thread runs, at most.
        transactions: u32,
        /// The number of the life, which makes values unique.
        life: u64,
        /// The style of all threads ([`style`]); otherwise each has its own.
        together: Option<u8>,
    },
}

impl Ground {
    /// The default size of a pool's logs in bytes.
    pub const LOG_BYTES: u64 = 4096;
    /// The size of the shortest logs in bytes: twelve records, of which some schemes reserve four.
    pub const SHORT_LOG: u64 = 192;

    /// Prepares pools for `case`.
    ///
    /// # Errors
    /// Returns an error if the workload does not fit its pool.
    pub fn new(case: Case) -> Result<Self> {
        Self::with_logs(case, Self::log_bytes(&case))
    }

    /// Returns the size of the longest logs in bytes. It is twice the default if one transaction creates the typed collections in a log that keeps a
    /// word's old value beside its address.
    fn log_bytes(case: &Case) -> u64 {
        let twice = case.workload == Workload::Typed && !case.scheme.has_runs();
        Self::LOG_BYTES << u32::from(twice)
    }

    /// Prepares pools with logs of this many bytes.
    ///
    /// # Errors
    /// Returns an error if the workload does not fit its pool.
    pub fn with_logs(case: Case, log_bytes: u64) -> Result<Self> {
        let logs = case.threads as u64;
        let pages = 8 + logs * log_bytes.div_ceil(4096) + case.workload.chunks(logs);
        let geometry = Geometry { size: pages << 12, logs, log_bytes, chunk_bytes: 4096 };
        let layout = Layout::with_short_logs(geometry)?;
        let shared = SharedLayout::new(&layout, 7, 0);
        let data = (layout.data.offset() / 8) as usize..(layout.end().offset() / 8) as usize;
        let mut ground = Self { case, layout, shared, data, image: vec![0; (geometry.size / 8) as usize] };
        let world = Rc::new(ground.world(ground.image.clone(), None));
        let hosted: Rc<dyn World> = world.clone();
        create(&ground, &Hosted::new(hosted, 0))?;
        // Begin with all words at home and empty logs.
        let world = Rc::new(ground.world(world.contents(), None));
        let hosted: Rc<dyn World> = world.clone();
        recover(&ground.view(&Hosted::new(hosted, 0)), case.scheme.known, |_| ())?;
        ground.image = world.contents();
        Ok(ground)
    }

    /// Prepares pools with several sizes of logs. Short ones, which a few transactions fill and which then restart, are used if the scheme's logs
    /// restart and the workload's structure fits.
    ///
    /// # Errors
    /// Returns an error if the workload does not fit its pool.
    pub fn of_sizes(case: Case) -> Result<Vec<Self>> {
        let bytes: &[u64] = match (case.scheme.has_runs(), case.workload) {
            (false, _) => &[Self::log_bytes(&case)],
            // Longer logs make recovery slower.
            (true, Workload::Sps) => &[Self::SHORT_LOG, 512, 1024, 2048],
            (true, _) => &[1024, Self::LOG_BYTES],
        };
        let (longest, shorter) = (bytes[bytes.len() - 1], &bytes[..bytes.len() - 1]);
        let shorter = shorter.iter().filter_map(|&bytes| Self::with_logs(case, bytes).ok());
        let longest = Self::with_logs(case, longest)?;
        Ok(shorter.chain([longest]).collect())
    }

    /// Prepares pools whose logs have room for so many transactions of a thread, and little more: recovery reads and zeroes the whole log, which
    /// takes most of an exploration's time.
    ///
    /// # Errors
    /// Returns an error if the workload does not fit its pool.
    pub fn of_few(case: Case, transactions: u32) -> Result<Self> {
        // A swap needs two words and a commit record.
        let is_short = case.scheme.has_runs() && case.workload == Workload::Sps && transactions <= 8;
        if is_short { Self::with_logs(case, 512) } else { Self::new(case) }
    }

    /// Returns a view over `memory`.
    pub fn view<M>(&self, memory: M) -> View<M> {
        View { memory, layout: self.layout, shared: self.shared }
    }

    fn world(&self, image: Vec<u64>, omitted: Option<Step>) -> X86World {
        // Recovery needs one more hardware thread.
        let threads = self.case.threads + 1;
        X86World::new(image, self.shared.bytes(), self.data.clone(), threads, self.case.setting, omitted)
    }

    /// Returns the initial image. With `used`, logs that the pool does not have yet hold the remains of the logs of another life of this memory. Redo
    /// logs are empty, so that the watermark may be that of a new pool, whose TxIDs begin at 1.
    pub fn first_image(&self, used: bool, random: &mut Rng) -> Vec<u64> {
        let mut image = self.image.clone();
        if self.case.scheme.concurrency != Concurrency::Locks && random.bool() {
            make_new(&mut image);
        }
        if used {
            for log in 0..self.layout.geometry.logs {
                if image[(Layout::LOG_DIRECTORY.word(log).offset() / 8) as usize] == 0 {
                    let (first, words) =
                        (self.layout.log(log).offset() / 8, self.layout.geometry.log_bytes / 8);
                    let place = &mut image[first as usize..][..words as usize];
                    (self.case.scheme.kind.leftover)(&self.layout, &mut |below| random.u64(..below), place);
                }
            }
        }
        image
    }

    /// Sets the watermark to that of a new pool. The redo logs must be empty.
    pub fn make_new(&mut self) {
        if self.case.scheme.concurrency != Concurrency::Locks {
            make_new(&mut self.image);
        }
    }

    /// Runs a life: recovery on the recipe's image, then the threads.
    ///
    /// # Errors
    /// Returns an error if recovery or a transaction failed.
    pub fn live(&self, recipe: Recipe) -> Result<Life, String> {
        let case = &self.case;
        let Recipe { image, script, policy, shared, delays, mut random } = recipe;
        let script = &*script;
        let world = Rc::new(self.world(image, case.omitted));
        let hosted: Rc<dyn World> = world.clone();
        let recoverer = Hosted::new(hosted, case.threads);
        recover(&self.view(&recoverer), self.case.scheme.known, |_| ())
            .map_err(|error| format!("recovery fails: {error:#}"))?;
        let (settled, began) = (world.contents(), world.time());
        let cast = Cast::new(self);
        let bodies = cast.threads(self, script, &mut random);
        if let Some(shared) = shared {
            world.tell_states(shared);
        }
        if delays {
            world.delay_stores(random.u64(..));
        }
        let choices = world.run(bodies, policy, random.u64(..));
        let done = cast.done()?;
        let clock = (case.scheme.concurrency != Concurrency::Locks)
            .then(|| world.peek(0, Space::Volatile, SharedLayout::CLOCK.offset()));
        let found_shared = world.found_shared();
        let trace = world.finish();
        if let Some(fault) = trace.faults.first() {
            return Err(fault.clone());
        }
        let effects = effects(&trace, done);
        let home = Home::new(&trace, settled, &self.data);
        Ok(Life { trace, home, effects, clock, began, choices, found_shared })
    }
}

fn make_new(image: &mut [u64]) {
    image[(Layout::WATERMARK.offset() / 8) as usize] = 0;
}

/// The threads of a life, and what they have done.
pub(crate) struct Cast {
    done: Vec<RefCell<Vec<Vec<Effect>>>>,
    failure: RefCell<Option<String>>,
    working: Cell<usize>,
}

impl Cast {
    pub fn new(ground: &Ground) -> Self {
        let threads = ground.case.threads;
        Self {
            done: (0..threads).map(|_| RefCell::default()).collect(),
            failure: RefCell::default(),
            working: Cell::new(threads),
        }
    }

    /// Returns the threads, and a helper after them if the scheme has one.
    pub fn threads<'a>(
        &'a self,
        ground: &'a Ground,
        script: &'a Script,
        random: &mut Rng,
    ) -> Vec<coroutines::Thread<'a>> {
        let CheckedScheme { kind, concurrency, .. } = ground.case.scheme;
        let mut bodies: Vec<coroutines::Thread<'a>> = self
            .done
            .iter()
            .enumerate()
            .map(|(thread, done)| {
                let mut random = random.fork();
                Box::new(move |memory: &Hosted| {
                    if let Err(error) = run_thread(ground, memory, (thread, script), &mut random, done) {
                        *self.failure.borrow_mut() = Some(format!("thread {thread} fails: {error:#}"));
                    }
                    self.working.set(self.working.get() - 1);
                }) as coroutines::Thread<'a>
            })
            .collect();
        if kind.scheme.has_helper() {
            bodies.push(Box::new(move |memory: &Hosted| {
                SchemeMemory::help(kind, &ground.view(memory), concurrency, &|| self.working.get() == 0);
            }));
        }
        bodies
    }

    /// Returns what each thread's commits did to the structure, in order.
    ///
    /// # Errors
    /// Returns an error if a thread failed.
    pub fn done(self) -> Result<Vec<Vec<Vec<Effect>>>, String> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self.done.into_iter().map(RefCell::into_inner).collect()),
        }
    }
}

/// Assigns the effects of each thread's commits to the trace's updates.
pub(crate) fn effects(trace: &Trace, done: Vec<Vec<Vec<Effect>>>) -> Vec<Vec<Effect>> {
    let mut done: Vec<_> = done.into_iter().map(Vec::into_iter).collect();
    // Sort the updates in the order in which each thread ran them.
    let mut order: Vec<usize> = (0..trace.updates.len()).collect();
    order.sort_by_key(|&index| trace.updates[index].began);
    let mut effects = vec![Vec::new(); order.len()];
    for index in order {
        effects[index] = done[trace.updates[index].thread as usize].next().unwrap_or_default();
    }
    effects
}

fn worker<'m>(ground: &Ground, memory: &'m Hosted) -> Result<AnyWorker<'m>> {
    let CheckedScheme { kind, concurrency, is_product, .. } = ground.case.scheme;
    let view = ground.view(memory);
    if is_product {
        AnyWorker::product(view, concurrency, None)
    } else {
        Worker::lease_of(view, kind, concurrency, None).map(AnyWorker::laboratory)
    }
}

/// Returns the worker that runs the transactions of thread `thread`.
fn runner<'m>(ground: &Ground, memory: &'m Hosted, thread: usize) -> Result<AnyWorker<'m>> {
    match ground.case.scheme.plain {
        Some(program) => {
            let program = program.of_threads(ground.case.threads);
            Ok(AnyWorker::plain(ground.view(memory), thread as u64, program))
        }
        None => worker(ground, memory),
    }
}

/// Creates the workload's structure.
fn create(ground: &Ground, memory: &Hosted) -> Result<()> {
    ground.case.workload.create(&mut worker(ground, memory)?)
}

/// Checks the structure, and returns its contents.
pub(crate) fn contents(ground: &Ground, memory: &Hosted) -> Result<Contents> {
    ground.case.workload.check(&mut worker(ground, memory)?)
}

fn run_thread(
    ground: &Ground,
    memory: &Hosted,
    (thread, script): (usize, &Script),
    random: &mut Rng,
    done: &RefCell<Vec<Vec<Effect>>>,
) -> Result<()> {
    let mut worker = runner(ground, memory, thread)?;
    let slot = ground.shared.slot(worker.log_index());
    // A truncation mark or a tail pointer occupies the last line.
    let marked =
        ground.case.scheme.steps().any(|step| matches!(step, Step::TruncationFence | Step::LogTailFence));
    let records = ground.layout.log_records() as u32 - if marked { 4 } else { 0 };
    // The number of records of aborted transactions since the last commit.
    let mut aborted = 0;
    // The number of commits before the last drain.
    let mut drained = 0;
    let own = style(ground.case.omitted, random);
    let style = match script {
        Script::Shaped { together: Some(style), .. } => *style,
        _ => own,
    };
    let count = script.transactions(thread, random);
    for number in 0..count {
        let plan = match script {
            Script::Fixed(plans) => plans[thread][number as usize],
            Script::Shaped { life, .. } => {
                let unique = life << 24 | (thread as u64) << 16 | u64::from(number);
                let position = memory.load(slot.committed()) as u32 + aborted;
                plan_in_style(style, unique, (position, records), random)
            }
        };
        let before = worker.statistics();
        let outcome = ground.case.workload.act(&mut worker, plan)?;
        let after = worker.statistics();
        // Programs that need to know drain the worker. Transactions that are never acknowledged would not constrain the oracle.
        let most = MOST_IN_COMMIT / ground.case.threads;
        if ground.case.scheme.acknowledges_when_drained()
            && ((after.commits - drained) as usize >= most || random.u8(..8) == 0)
        {
            worker.drain()?;
            drained = after.commits;
        }
        if after.log_restarts > before.log_restarts || after.commits > before.commits {
            aborted = 0;
        }
        if after.commits > before.commits {
            done.borrow_mut().push(outcome.unwrap_or_default());
        } else if plan.gives_up {
            aborted += plan.filler + 2 * plan.operations + 1;
        }
    }
    Ok(())
}

impl Script {
    /// Returns how many transactions thread `thread` runs.
    fn transactions(&self, thread: usize, random: &mut Rng) -> u32 {
        match self {
            Self::Fixed(plans) => plans[thread].len() as u32,
            Self::Shaped { transactions, .. } => random.u32(1..=*transactions),
        }
    }
}

/// Returns the next transaction of a thread with this [`style`], whose log has `records` records, of which `position` are used.
fn plan_in_style(style: u8, unique: u64, (position, records): (u32, u32), random: &mut Rng) -> Plan {
    let room = records.saturating_sub(position);
    match style {
        0 | 1 if random.bool() => large(unique, records, random),
        0 | 1 => edge(unique, room, random),
        2 => partly(unique, room, records, random),
        3 => by_turns(unique, position, records, random),
        FIRST_RUNS => first_runs(unique, position, records, random),
        _ => shaped(unique, room, records, random),
    }
}

/// Chooses the style of a thread's transactions. In some styles a few transactions fill the log, often to its last records. In others a run leaves a
/// part of the log free, and another run fills it with small transactions. These styles are more frequent if a step at a log's end is omitted; so are
/// [first runs](first_runs) if only they reveal the omitted step.
pub(super) fn style(omitted: Option<Step>, random: &mut Rng) -> u8 {
    match omitted {
        Some(Step::RestartPhaseEarly) if random.bool() => FIRST_RUNS,
        Some(step) if at_the_end(step) => random.u8(..6),
        _ => random.u8(..9),
    }
}

/// The style of [`first_runs`].
const FIRST_RUNS: u8 = 4;

/// Returns a transaction that takes a good part of the log, wherever it begins, so that runs are short and end well before the log does.
fn large(unique: u64, records: u32, random: &mut Rng) -> Plan {
    // Often write the same words as other such transactions.
    let seed = if random.bool() { Plan::SAME_WORDS } else { random.u64(..) | 2 << 3 };
    // Sometimes write so much that the next run's first transaction gets further than this whole run.
    let filler = if random.u8(..3) == 0 {
        random.u32(records / 2..=most(records))
    } else {
        random.u32(records / 6..records * 9 / 20)
    };
    let filler = filler.max(1);
    Plan { seed, unique, operations: 0, filler, reads_only: false, gives_up: false }
}

/// Returns whether a step matters where a log ends or restarts.
pub(super) fn at_the_end(step: Step) -> bool {
    use Step::*;
    matches!(
        step,
        RestartInert
            | RestartWriteBack
            | RestartFence
            | RestartPhase
            | RestartPhaseEarly
            | RestartWriteBackPartial
            | WatermarkFence
            | WatermarkFenceLate
    )
}

/// Returns whether a step is one of recovery.
pub(super) fn in_recovery(step: Step) -> bool {
    use Step::*;
    matches!(
        step,
        RecoveryWatermarkFilter
            | RecoverySort
            | RecoveryDataWriteBack
            | RecoveryDataFence
            | RecoveryWatermark
            | RecoveryWatermarkWriteBack
            | RecoveryWatermarkFence
            | RecoveryZero
            | RecoveryZeroWriteBack
            | RecoveryZeroFence
            | RecoveryDataFenceLate
            | RecoveryWatermarkLow
            | RecoveryZeroEarly
    )
}

/// Returns whether a step makes the remains of one life harmless to the next.
pub(super) fn between_lives(step: Step) -> bool {
    use Step::*;
    matches!(
        step,
        RecoveryWatermark
            | RecoveryWatermarkFilter
            | RecoveryZero
            | RecoveryZeroWriteBack
            | RecoveryZeroFence
            | RecoveryTruncation
            | RecoveryTruncationWriteBack
            | RecoveryTruncationFence
            | RecoveryTruncationPartial
    )
}

/// Returns how many records the writes of a transaction may take, at most, in a log of `records`.
fn most(records: u32) -> u32 {
    records - records.div_ceil(16)
}

/// Returns a transaction of a shaped history, in a log of `records` with room for `room` more.
fn shaped(unique: u64, room: u32, records: u32, random: &mut Rng) -> Plan {
    let kind = random.u8(..20);
    let mut plan = Plan {
        seed: random.u64(..),
        unique,
        operations: random.u32(1..3),
        filler: 0,
        reads_only: kind == 0,
        gives_up: (1..6).contains(&kind),
    };
    plan.filler = match random.u8(..16) {
        0..5 => 0,
        5..8 => random.u32(..4),
        8..11 => random.u32(2..4 + records / 6),
        11 => random.u32(records / 6..records * 4 / 5),
        // Fill the log until just before its end.
        _ => {
            plan.operations = random.u32(..2);
            room.saturating_sub(2 * plan.operations + random.u32(..10))
        }
    };
    if plan.operations == 0 && plan.filler == 0 {
        plan.filler = 1;
    }
    plan.filler = plan.filler.min(most(records));
    plan
}

/// Returns a transaction that reaches the last part of the log, a small one in that part, or one that does not fit any more.
fn partly(unique: u64, room: u32, records: u32, random: &mut Rng) -> Plan {
    let end = random.u32(4..5 + records / 8);
    let filler = match room.saturating_sub(end) {
        0 if random.u8(..3) == 0 => room + random.u32(..16),
        0 => random.u32(1..5),
        upto => upto,
    };
    let (seed, filler) = (random.u64(..), filler.clamp(1, most(records)));
    Plan { seed, unique, operations: 0, filler, reads_only: false, gives_up: random.u8(..8) == 0 }
}

/// Returns transactions that make short and long runs of a log alternate: a small one, then one that does not fit after it, so that the log restarts.
/// The latter reaches beyond the end of the short run, over the remains of the run before it.
fn by_turns(unique: u64, position: u32, records: u32, random: &mut Rng) -> Plan {
    let room = records.saturating_sub(position);
    let filler = if (1..records / 2).contains(&position) {
        random.u32(room..records)
    } else {
        // After a long run, the transaction must not fit.
        let little = random.u32(1 + records / 16..2 + records / 4);
        little.max(if position == 0 { 0 } else { room.min(records * 2 / 5) })
    };
    // Write words that no other transaction writes.
    let seed = random.u64(..) | 2 << 3;
    Plan {
        seed,
        unique,
        operations: 0,
        filler: filler.min(most(records)),
        reads_only: false,
        gives_up: false,
    }
}

/// Returns the transactions of first runs. The first one gives up, and its records end just before the last record. Small transactions follow, and
/// one whose commit record is the last record. All of them write the same words.
fn first_runs(unique: u64, position: u32, records: u32, random: &mut Rng) -> Plan {
    let number = unique & 0xffff;
    let room = records.saturating_sub(position);
    let filler = match number {
        0 => records - 2,
        1..3 => random.u32(1..4),
        _ if room > 1 && (number == 3 || random.u8(..3) > 0) => room - 1,
        _ => random.u32(1..4),
    };
    Plan::words(unique, filler, number == 0)
}

/// Returns a transaction that ends at the end of the log: its commit or abort record is the last record, or its abort record is the one before, or
/// its commit record ends the line before the last line.
fn edge(unique: u64, room: u32, random: &mut Rng) -> Plan {
    let before_end = [1, 2, 5][random.usize(..3)];
    Plan {
        // Three times in four, write words that no other transaction writes: if a transaction is copied into the log, each word takes one record.
        seed: random.u64(..) | if random.u8(..4) > 0 { 2 << 3 } else { 0 },
        unique,
        operations: 0,
        filler: if room > before_end { room - before_end } else { random.u32(1..4) },
        reads_only: false,
        gives_up: match before_end {
            1 => random.bool(),
            2 => true,
            _ => false,
        },
    }
}
