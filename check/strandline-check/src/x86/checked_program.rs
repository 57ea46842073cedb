//! Runs checked programs that are not schemes, and judges their crashes.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Hosted, World};

use super::agenda::Agenda;
use super::crash::CrashMemory;
use super::exhaustion::{self, Bounds};
use super::explorer::{Broken, Counts, Depth, Explorer, Judge, Lived, TRIES, Tries, Violation};
use super::panics::{Stopped, catch_panic};
use super::races::Race;
use super::replay::Replay;
use super::schedule::{ChoicePoint, Policy};
use super::trace::Trace;
use super::world::X86World;
use super::{Crashed, mix, story};
use crate::{Session, Setting};

/// A program, its recovery and what must hold after it.
pub(crate) struct CheckedProgram<'p> {
    /// The initial persistent memory.
    pub image: Vec<u64>,
    pub volatile_bytes: u64,
    pub setting: Setting,
    pub threads: usize,
    /// Called when a run begins.
    pub begin: &'p dyn Fn(),
    /// Runs the thread of this number.
    pub program: &'p dyn Fn(usize, &Hosted),
    pub recovery: &'p dyn Fn(&Hosted),
    pub invariant: &'p dyn Fn(&Hosted, &Crashed) -> Result<(), String>,
    /// Returns the name of a word.
    pub name: &'p dyn Fn(u32) -> String,
    /// True if threads may switch at every access.
    pub every_access: bool,
}

/// How the threads of a run are interleaved.
#[derive(Clone, Debug)]
pub(crate) struct Interleaving {
    pub policy: Policy,
    pub seed: u64,
    /// The seed of the delays of stores, if stores are delayed.
    pub delays: Option<u64>,
    /// The lines that are known to be shared, if states are distinguished.
    pub shared: Option<BTreeSet<u32>>,
}

impl Interleaving {
    /// Returns the interleaving with these choices.
    pub fn guided(choices: &[(u32, usize)], delays: Option<u64>) -> Self {
        Self { policy: Policy::Guided(choices.to_vec()), seed: 0, delays, shared: None }
    }

    /// Returns the interleaving that follows from `seed` for so many threads: every other pair of seeds has store buffers, and the two policies
    /// alternate.
    pub fn of_seed(seed: u64, threads: usize) -> Self {
        let policy = match seed % 2 {
            1 => Policy::Priorities { every: 40, critical: 4, stalls: (seed / 4).is_multiple_of(4) },
            _ => Policy::Random { every: 5 },
        };
        let delays = (threads > 1 && seed / 2 % 2 == 1).then_some(seed);
        Self { policy, seed, delays, shared: None }
    }
}

/// A finished run.
pub(crate) struct Run {
    pub trace: Trace,
    pub choices: Vec<ChoicePoint>,
    pub found_shared: BTreeSet<u32>,
    /// The choices with which a guided run repeats this one.
    pub schedule: Vec<(u32, usize)>,
    /// The data races in the run.
    pub races: Vec<Race>,
    /// Why the run stopped early, if it did.
    pub stopped: Option<Stopped>,
}

impl Lived for Run {
    fn trace(&self) -> &Trace {
        &self.trace
    }

    fn began(&self) -> u32 {
        0
    }

    fn choices(&self) -> &[ChoicePoint] {
        &self.choices
    }

    fn found_shared(&self) -> &BTreeSet<u32> {
        &self.found_shared
    }
}

impl CheckedProgram<'_> {
    /// Runs the threads to their end, or until one of them stops the run.
    pub fn run(&self, how: Interleaving) -> Run {
        (self.begin)();
        let (image, setting) = (self.image.clone(), self.setting);
        let world = X86World::new(image, self.volatile_bytes, 0..0, self.threads, setting, None);
        let world = Rc::new(world);
        if self.every_access {
            world.run_own();
        }
        if self.every_access && self.threads > 1 && how.delays.is_none() {
            world.watch_races();
        }
        if let Some(shared) = how.shared {
            world.tell_states(shared);
        }
        if let Some(seed) = how.delays {
            world.delay_stores(seed);
        }
        let guided = match &how.policy {
            Policy::Guided(choices) => Some(choices.clone()),
            _ => None,
        };
        let body = |thread| Box::new(move |memory: &Hosted| (self.program)(thread, memory)) as Thread<'_>;
        let bodies = (0..self.threads).map(body).collect();
        let ran = catch_panic(|| world.run(bodies, how.policy, how.seed));
        let (choices, stopped) = match ran {
            Ok(choices) => (choices, None),
            Err(stopped) => (Vec::new(), Some(stopped)),
        };
        let schedule = guided.unwrap_or_else(|| world.schedule());
        let (found_shared, races) = (world.found_shared(), world.races());
        Run { trace: world.finish(), choices, found_shared, schedule, races, stopped }
    }

    /// Runs the threads, and returns the run if it reached its end without a fault.
    ///
    /// # Errors
    /// Returns what went wrong, with the history.
    pub fn live(&self, how: Interleaving) -> Result<Run, Box<Broken>> {
        let run = self.run(how);
        let what = match &run.stopped {
            Some(stopped) => stopped.text().to_owned(),
            None => match run.trace.faults.first() {
                Some(fault) => fault.clone(),
                None => return Ok(run),
            },
        };
        let history = story::history(&run.trace, 0, run.trace.time, |word| (self.name)(word));
        let violation = Violation { what, length: history.len(), history, ..Violation::default() };
        let (schedule, stopped) = (run.schedule, run.stopped);
        Err(Box::new(Broken { violation, schedule, stopped, time: u32::MAX, ..Broken::default() }))
    }
}

/// Judges the crashes of a program.
pub(crate) struct ProgramJudge<'a, 'p>(pub &'a CheckedProgram<'p>);

impl Judge for ProgramJudge<'_, '_> {
    type Life = Run;
    type Expected = Crashed;

    fn memory(&self) -> CrashMemory {
        let words = self.0.image.len();
        CrashMemory::new(words, self.0.volatile_bytes, 0..words)
    }

    fn setting(&self) -> Setting {
        self.0.setting
    }

    fn tries(&self) -> &'static Tries {
        &TRIES
    }

    fn expected_of(&self, _: &Run, trace: &Trace, time: u32) -> Crashed {
        let mut acknowledged = trace.acknowledged(time);
        // Equal states of a schedule may have been reached in different orders.
        if self.0.every_access {
            acknowledged.sort_unstable();
        }
        Crashed { acknowledged }
    }

    fn fingerprint(expected: &Crashed) -> u64 {
        expected.acknowledged.iter().copied().fold(12, mix)
    }

    fn recover(&self, world: &Rc<dyn World>) -> Result<(), String> {
        let view = Hosted::new(world.clone(), 0);
        catch_panic(|| (self.0.recovery)(&view))
            .map_err(|stopped| format!("recovery stops: {}", stopped.text()))
    }

    fn verdict(
        &mut self,
        (_, world): &(Rc<CrashMemory>, Rc<dyn World>),
        _: &Run,
        crashed: &Crashed,
    ) -> Result<(), String> {
        let view = Hosted::new(world.clone(), 0);
        catch_panic(|| (self.0.invariant)(&view, crashed))
            .unwrap_or_else(|stopped| Err(format!("the judge panics: {}", stopped.text())))
    }

    fn describe(&self, word: u32) -> String {
        (self.0.name)(word)
    }

    fn fresh(&self) -> Self {
        Self(self.0)
    }
}

/// How far programs are explored.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// The number of states that are judged at one crash point, at most.
    pub states: u64,
    /// About how many states are judged in total, at most.
    pub total: u64,
    /// How often power may fail during recovery, at most; each further failure happens in the recovery from the one before.
    pub recovery_crashes: usize,
    /// How long exploring may take.
    pub limit: Duration,
    /// The session that can end exploring early.
    pub session: Session,
}

impl Reach {
    fn depth(&self) -> Depth {
        Depth { states: self.states, recovery_crashes: self.recovery_crashes, until: deadline(self.limit) }
    }

    /// Creates an explorer that obeys these bounds.
    fn explorer<'a, 'p>(&self, checked: &'a CheckedProgram<'p>) -> Explorer<ProgramJudge<'a, 'p>> {
        let mut explorer = Explorer::new(ProgramJudge(checked));
        (explorer.session, explorer.most) = (self.session.clone(), self.total);
        explorer
    }
}

/// The counts of an exploration, and the first violation.
pub(crate) struct Explored {
    pub counts: Counts,
    pub broken: Option<Box<Broken>>,
    /// The seed of the failing history, if histories have seeds.
    pub seed: Option<u64>,
    /// The seed of its delayed stores.
    pub delays: Option<u64>,
}

/// Returns the end of `limit` from now, or a time far away if that cannot be represented.
fn deadline(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + Duration::from_secs(1 << 32))
}

/// Explores every schedule with at most so many preemptions, and every crash of each; calls `each` with the runs.
pub(crate) fn exhaust(
    checked: &CheckedProgram<'_>,
    reach: &Reach,
    preemptions: u32,
    mut each: impl FnMut(&Run),
) -> Explored {
    let &Reach { states, recovery_crashes, limit, .. } = reach;
    let bounds = Bounds { preemptions, transactions: 0, states, recovery_crashes, reduced: true, limit };
    let mut explorer = reach.explorer(checked);
    // A schedule may run again: after lines turn out to be shared, and to explore the remaining states of crash points.
    let mut known = HashSet::new();
    let lives = |choices: &[(u32, usize)], shared: &BTreeSet<u32>| {
        let how = Interleaving { shared: Some(shared.clone()), ..Interleaving::guided(choices, None) };
        let run = checked.live(how)?;
        if known.insert(choices.to_vec()) {
            each(&run);
        }
        Ok(run)
    };
    let (shared, session) = (&mut BTreeSet::new(), &reach.session);
    let progress = &mut |counts: &Counts| session.progress(counts);
    let broken = exhaustion::exhaust(
        &mut explorer,
        checked.threads,
        lives,
        (bounds, deadline(limit)),
        shared,
        progress,
    );
    Explored { counts: explorer.counts, broken, seed: None, delays: None }
}

/// Explores so many runs, beginning with `seed`, and every crash of each.
pub(crate) fn sample(
    checked: &CheckedProgram<'_>,
    reach: &Reach,
    (seed, histories): (u64, u64),
    mut each: impl FnMut(&Run),
) -> Explored {
    let mut explorer = reach.explorer(checked);
    let (depth, mut agenda) = (reach.depth(), Agenda::new());
    let how = |seed| Interleaving::of_seed(seed, checked.threads);
    let mut found = None;
    for number in 0..histories {
        let seed = seed.wrapping_add(number);
        if explorer.is_over(depth) {
            explorer.counts.not_run += histories - number;
            break;
        }
        let crashes = crashes_of(checked, &mut explorer, (&seed, how(seed)), depth, &mut agenda, &mut each);
        if let Err(broken) = crashes {
            found = Some((seed, broken));
            break;
        }
        reach.session.progress(&explorer.counts);
    }
    if found.is_none() {
        let finished = agenda.finish(&mut explorer, |&seed| checked.live(how(seed)).ok(), depth);
        found = finished.err().map(|(seed, mut broken)| {
            broken.schedule = checked.run(how(seed)).schedule;
            (seed, broken)
        });
    }
    let (seed, broken) = found.map_or((None, None), |(seed, broken)| (Some(seed), Some(broken)));
    let delays = seed.and_then(|seed| how(seed).delays);
    Explored { counts: explorer.counts, broken, seed, delays }
}

/// Visits the crash points of one run.
fn crashes_of<K: Clone + PartialEq>(
    checked: &CheckedProgram<'_>,
    explorer: &mut Explorer<ProgramJudge<'_, '_>>,
    (key, how): (&K, Interleaving),
    depth: Depth,
    agenda: &mut Agenda<K>,
    each: &mut impl FnMut(&Run),
) -> Result<(), Box<Broken>> {
    let run = checked.live(how)?;
    each(&run);
    explorer.begin_run();
    for &point in &run.trace.points {
        agenda.visit(explorer, (key, &run), point, depth).map_err(|mut broken| {
            broken.schedule.clone_from(&run.schedule);
            broken
        })?;
    }
    Ok(())
}

/// Explores every crash of the run with these choices.
///
/// # Errors
/// Returns a violation.
pub(crate) fn one_schedule(
    checked: &CheckedProgram<'_>,
    reach: &Reach,
    choices: &[(u32, usize)],
    delays: Option<u64>,
) -> Result<(), Box<Broken>> {
    let mut explorer = reach.explorer(checked);
    let (depth, mut agenda) = (reach.depth(), Agenda::new());
    let how = || Interleaving::guided(choices, delays);
    crashes_of(checked, &mut explorer, (&(), how()), depth, &mut agenda, &mut |_| ())?;
    agenda.finish(&mut explorer, |()| checked.live(how()).ok(), depth).map_err(|((), mut broken)| {
        broken.schedule = choices.to_vec();
        broken
    })
}

/// Repeats only the history of `replay`.
pub(crate) fn replay(checked: &CheckedProgram<'_>, replay: &Replay, mut each: impl FnMut(&Run)) -> Explored {
    let how = Interleaving::guided(&replay.schedule, replay.delays);
    let mut counts = Counts { histories: 1, ..Counts::default() };
    let broken = match checked.live(how) {
        Err(broken) => Some(broken),
        Ok(run) => {
            each(&run);
            let mut explorer = Explorer::new(ProgramJudge(checked));
            explorer.begin_run();
            let time = replay.time.filter(|&time| time <= run.trace.time);
            let found = time.map(|time| explorer.replay(&run, time, &replay.crashes));
            counts = explorer.counts;
            found.and_then(Result::err)
        }
    };
    let broken = broken.map(|mut broken| {
        broken.schedule.clone_from(&replay.schedule);
        broken
    });
    Explored { counts, broken, seed: None, delays: replay.delays }
}

/// The number of runs that may try to make a history smaller, and their time.
const SHRINKING_RUNS: usize = 400;
const SHRINKING_TIME: Duration = Duration::from_secs(10);

/// Makes the history of a violation smaller: as few power failures in recovery and as few thread switches as it needs, and no delayed stores if it
/// does not need them.
pub(crate) fn shrink(checked: &CheckedProgram<'_>, reach: &Reach, explored: &mut Explored) {
    let Some(mut broken) = explored.broken.take() else { return };
    let mut reach = Reach { limit: SHRINKING_TIME, ..reach.clone() };
    for recovery_crashes in 0..broken.crashes.len().saturating_sub(1) {
        let fewer = Reach { recovery_crashes, ..reach.clone() };
        if let Err(simpler) = one_schedule(checked, &fewer, &broken.schedule, explored.delays) {
            (broken, reach) = (simpler, fewer);
            break;
        }
    }
    let until = Instant::now() + SHRINKING_TIME;
    let mut runs = 0;
    let mut retry = |choices: &[(u32, usize)], delays| {
        runs += 1;
        let tired = runs > SHRINKING_RUNS || Instant::now() > until;
        if tired { None } else { one_schedule(checked, &reach, choices, delays).err() }
    };
    let mut delays = explored.delays;
    if delays.is_some()
        && let Some(without) = retry(&broken.schedule, None)
    {
        (broken, delays) = (without, None);
    }
    let mut at = 0;
    while at < broken.schedule.len() {
        let mut fewer = broken.schedule.clone();
        fewer.remove(at);
        match retry(&fewer, delays) {
            Some(smaller) => broken = smaller,
            None => at += 1,
        }
    }
    explored.delays = delays;
    explored.broken = Some(broken);
}
