//! Runs a program, and judges its crashes.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use strandline_core::memory::coroutines::{self, Thread};
use strandline_core::memory::recorder::{Observer, Recorded, Recorder};
use strandline_core::memory::{Event, Hosted, Operation, Step, World};
use strandline_persistency::{Model, PersistGraph, events};

use super::history;
use super::survivors::Survivors;
use crate::explore::oracle::{Expectation, Home};
use strandline_check::Session;
use strandline_check::x86::{Trace, panic_text};

/// The program to explore: its transactions store in place, and it has a recovery.
pub struct Program<'a> {
    /// The persistency model that orders persists.
    pub model: Model,
    /// The initial, durable contents of the pool.
    pub image: Vec<u64>,
    /// Bytes of synchronisation words, zero initially and after a crash.
    pub volatile_bytes: u64,
    /// Numbers of the words that belong to transactions.
    pub data: Range<usize>,
    /// The number of threads that the program has.
    pub threads: usize,
    /// Prepares a thread before any thread runs and before crashes are possible: recovery, leases. It is not recorded.
    pub prepare: &'a dyn Fn(&Hosted) -> Result<(), String>,
    /// Runs thread `n` in the history with this seed.
    pub thread: &'a dyn Fn(usize, u64, &Hosted) -> Result<(), String>,
    /// Runs on the words that survive.
    pub recover: &'a dyn Fn(&Hosted) -> Result<(), String>,
    /// The step that a mutant leaves out.
    pub omitted: Option<Step>,
    /// True if acknowledged transactions must survive. If not, only the order of persists is judged, so that an early acknowledgement alone is no
    /// violation.
    pub acknowledgements: bool,
}

/// How much is explored.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// The number of histories to explore. The seed determines the interleaving and what the threads do.
    pub histories: u64,
    /// The seed of the first history; each further one uses the next number.
    pub seed: u64,
    /// The number of states that are searched at one crash point. If there are more, as many again are drawn at random.
    pub states: u64,
    /// The time after which sampling stops.
    pub limit: Duration,
}

/// The counts of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Histories recorded.
    pub histories: u64,
    /// Crash points tried, of all histories.
    pub points: u64,
    /// Different crash states that were judged.
    pub states: u64,
    /// Crash points with more states than were searched.
    pub cut_short: u64,
    /// Persists in the largest history.
    pub persists: u64,
}

/// A state that recovery does not repair.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Violation {
    /// The property that does not hold, in a sentence.
    pub what: String,
    /// The history up to the crash.
    pub history: Vec<String>,
    /// Persists that did not survive.
    pub lost: Vec<String>,
    /// The seed of the history.
    pub seed: u64,
}

/// The result of an exploration.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Outcome {
    /// The counts of the exploration.
    pub counts: Counts,
    /// The first violation, reduced until as much as possible survives.
    pub violation: Option<Violation>,
    /// How long it took.
    pub seconds: f64,
}

/// The number of operations that a history may have before it counts as endless.
const PATIENCE: usize = 100_000;

/// A stream of operations that has a limit.
struct Stream(Vec<Recorded>);

impl Observer for Stream {
    fn observe(&mut self, recorded: Recorded) {
        self.0.push(recorded);
        assert!(self.0.len() < PATIENCE, "the program runs for ever");
    }
}

/// Explores `program`, and calls `progress` after each history.
pub fn explore(
    program: &Program<'_>,
    sampling: Sampling,
    session: &Session,
    mut progress: impl FnMut(&Counts),
) -> Outcome {
    let started = Instant::now();
    let mut outcome = Outcome { counts: Counts::default(), violation: None, seconds: 0.0 };
    for number in 0..sampling.histories {
        let seed = sampling.seed.wrapping_add(number);
        outcome.counts.histories += 1;
        if let Err(violation) = one(program, sampling, seed, &mut outcome.counts) {
            outcome.violation = Some(*violation);
            break;
        }
        progress(&outcome.counts);
        if started.elapsed() > sampling.limit || session.is_stopped() {
            break;
        }
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome
}

fn run(program: &Program<'_>, seed: u64) -> Result<(Vec<u64>, Vec<Recorded>), String> {
    let mut random = Rng::with_seed(seed);
    // One thread runs for long, or threads switch every few operations.
    let every = [0, 2, 5, 20, 80][random.usize(..5)];
    let recorder = Rc::new(Recorder::observed(
        program.image.clone(),
        program.volatile_bytes,
        every,
        random.u64(..),
        program.omitted,
        Stream(Vec::new()),
    ));
    let world: Rc<dyn World> = recorder.clone();
    recorder.set_recording(false);
    (program.prepare)(&Hosted::new(world.clone(), 0))?;
    recorder.set_recording(true);
    let initial = recorder.contents();
    let failure = std::cell::RefCell::new(None);
    let threads = (0..program.threads).map(|thread| {
        let failure = &failure;
        Box::new(move |memory: &Hosted| {
            if let Err(error) = (program.thread)(thread, seed, memory) {
                *failure.borrow_mut() = Some(format!("thread {thread} fails: {error:#}"));
            }
        }) as Thread<'_>
    });
    coroutines::run(&world, threads.collect(), |running| random.usize(..running.len()));
    match failure.take() {
        Some(failure) => Err(failure),
        None => Ok((initial, recorder.observer().0.clone())),
    }
}

/// Explores one history and its crashes.
fn one(
    program: &Program<'_>,
    sampling: Sampling,
    seed: u64,
    counts: &mut Counts,
) -> Result<(), Box<Violation>> {
    let failed = |what: String| Box::new(Violation { what, history: Vec::new(), lost: Vec::new(), seed });
    let ran = catch_unwind(AssertUnwindSafe(|| run(program, seed)));
    let ran = ran.unwrap_or_else(|panic| Err(format!("the program panics: {}", panic_text(&*panic))));
    let (initial, stream) = ran.map_err(failed)?;
    let is_data = |word: u32| program.data.contains(&(word as usize));
    let mut trace = history::trace(initial.clone(), &stream, program.threads, is_data);
    if !program.acknowledgements {
        trace.updates.iter_mut().for_each(|update| update.acknowledged = u32::MAX);
    }
    let home = Home::new(&trace, initial.clone(), &program.data);
    // Effects on structures are not judged here, only words.
    let effects = vec![Vec::new(); trace.updates.len()];
    let (list, first) = numbered_events(&stream);
    let graph = PersistGraph::new(program.model, &list);
    counts.persists = counts.persists.max(graph.persists().len() as u64);
    let points = crash_points(&graph, &first, &trace);
    let values = stream.iter().filter_map(history::persist).map(|(_, value)| value).collect();
    let mut survivors =
        Survivors::new(graph, values, initial, program.volatile_bytes, program.data.clone(), program.omitted);
    let mut random = Rng::with_seed(seed);
    for &point in &points {
        counts.points += 1;
        survivors.crash(first[point]);
        let expected = Expectation::at(&trace, &home, &effects, point as u32);
        let shared = Rc::new(survivors);
        let result = at_point(program, sampling, &shared, (&expected, &home), &mut random, counts);
        if let Err(what) = result {
            let what = smallest(program, &shared, (&expected, &home), what);
            let lost = shared.lost().into_iter().map(|node| tell_persist(&shared, node)).collect();
            let history = tell(&stream[..point], &shared, &first);
            return Err(Box::new(Violation { what, history, lost, seed }));
        }
        match Rc::try_unwrap(shared) {
            Ok(back) => survivors = back,
            Err(_) => unreachable!("recovery has given its view back"),
        }
    }
    Ok(())
}

/// Returns the events of `stream` with their threads; and the number of the first event of each operation, and of the end.
fn numbered_events(stream: &[Recorded]) -> (Vec<(usize, strandline_persistency::Event)>, Vec<usize>) {
    let (mut list, mut first) = (Vec::new(), Vec::with_capacity(stream.len() + 1));
    for recorded in stream {
        first.push(list.len());
        list.extend(events(recorded.operation).map(|event| (recorded.thread, event)));
    }
    first.push(list.len());
    (list, first)
}

/// Returns the crash points, as numbers of operations. `first` has the first event of each operation, and of the end.
fn crash_points(graph: &PersistGraph, first: &[usize], trace: &Trace) -> Vec<usize> {
    // Operations that make fewer states possible, or more states right, come just after a crash point.
    let mut points: Vec<usize> =
        graph.waits().map(|event| first.partition_point(|&f| f <= event) - 1).collect();
    points.extend(trace.updates.iter().map(|update| update.entered as usize - 1));
    points.push(first.len() - 1);
    points.sort_unstable();
    points.dedup();
    points
}

type Judged<'a> = (&'a Expectation, &'a Home);

/// Runs recovery and the oracle on the memory as it decides.
fn judge(program: &Program<'_>, survivors: &Rc<Survivors>, judged: Judged<'_>) -> Result<(), String> {
    let world: Rc<dyn World> = survivors.clone();
    let recovered = catch_unwind(AssertUnwindSafe(|| (program.recover)(&Hosted::new(world, 0))));
    match recovered {
        Err(panic) => return Err(format!("recovery panics: {}", panic_text(&*panic))),
        Ok(Err(error)) => return Err(format!("recovery fails: {error:#}")),
        Ok(Ok(())) => {}
    }
    judged.0.judge(judged.1, &**survivors).map(|_| ())
}

fn at_point(
    program: &Program<'_>,
    sampling: Sampling,
    survivors: &Rc<Survivors>,
    judged: Judged<'_>,
    random: &mut Rng,
    counts: &mut Counts,
) -> Result<(), String> {
    survivors.search();
    for number in 0.. {
        if number == sampling.states {
            counts.cut_short += 1;
            break;
        }
        counts.states += 1;
        judge(program, survivors, judged)?;
        if !survivors.next() {
            return Ok(());
        }
    }
    for _ in 0..sampling.states {
        survivors.random(random);
        counts.states += 1;
        judge(program, survivors, judged)?;
    }
    Ok(())
}

/// Lets as much survive as the oracle still refuses. Returns what is wrong then.
fn smallest(
    program: &Program<'_>,
    survivors: &Rc<Survivors>,
    judged: Judged<'_>,
    mut what: String,
) -> String {
    let mut kept: Vec<_> =
        survivors.decisions().into_iter().filter(|decision| decision.survive < decision.possible.1).collect();
    let mut at = 0;
    while at < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(at);
        survivors.given(fewer.clone());
        match judge(program, survivors, judged) {
            Err(still) => (kept, what) = (fewer, still),
            Ok(()) => at += 1,
        }
    }
    survivors.given(kept);
    judge(program, survivors, judged).err().unwrap_or(what)
}

fn tell_persist(survivors: &Survivors, node: usize) -> String {
    let persist = survivors.graph().persists()[node];
    format!("thread {}: [{:#x}] = {:#x}", persist.thread, 8 * u64::from(persist.word), survivors.value(node))
}

/// Lists the persists, barriers and boundaries of a history.
fn tell(stream: &[Recorded], survivors: &Survivors, first: &[usize]) -> Vec<String> {
    let mut lines = Vec::new();
    for (recorded, &event) in stream.iter().zip(first) {
        let what = match recorded.operation {
            Operation::Event(Event::Lock(at)) => format!("lock {:#x}", at.offset()),
            Operation::Event(Event::Unlock(at)) => format!("unlock {:#x}", at.offset()),
            Operation::Event(event) => format!("{event:?}"),
            Operation::Fence(step) => format!("sync barrier ({step:?})"),
            Operation::WriteBack(at, step) => format!("write back {at:#x} ({step:?})"),
            _ => {
                let persists = survivors.graph().persists();
                let Ok(node) = persists.binary_search_by_key(&event, |persist| persist.event) else {
                    continue;
                };
                if history::persist(recorded).is_some() {
                    lines.push(tell_persist(survivors, node));
                }
                continue;
            }
        };
        lines.push(format!("thread {}: {what}", recorded.thread));
    }
    lines
}
