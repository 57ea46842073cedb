//! Whole explorations: exhaustive within bounds, and sampled.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use strandline_core::Result;

use super::explorer::{Counts, Depth, Explorer, Violation};
use super::life::{Case, Ground, Life, Recipe, Script, at_the_end, between_lives, in_recovery, style};
use super::workload::Plan;
use crate::Setting;
use crate::x86::panic_text;
use crate::x86::schedule::Policy;

/// What an exploration found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was explored.
    pub counts: Counts,
    /// The first violation, after which exploration has stopped.
    pub violation: Option<Violation>,
    /// The seed of the history that shows it; 0 for exhaustive ones.
    pub seed: u64,
    /// Most transactions of a thread in that history.
    pub transactions: u32,
    /// How long it took.
    pub seconds: f64,
    /// Seconds of processor time that it took.
    pub cpu_seconds: f64,
}

/// Seconds of processor time that this process has taken.
pub(crate) fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

impl Outcome {
    /// Crash states judged in a second of processor time.
    pub fn states_per_second(&self) -> f64 {
        self.counts.states as f64 / self.cpu_seconds.max(1e-9)
    }
}

/// How much is sampled.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Pools, each of which lives a few times.
    pub histories: u64,
    /// Seed of the first one; the next one has the next number.
    pub seed: u64,
    /// Most transactions of a thread in one life.
    pub transactions: u32,
    /// Stop after this time.
    pub limit: Duration,
}

/// How far an exhaustive exploration goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Preemptions in a schedule, at most.
    pub preemptions: u32,
    /// Transactions of each thread.
    pub transactions: u32,
    /// States judged at one crash point, at most.
    pub states: u64,
    /// Power failures in recovery, one in the recovery after the other, at most.
    pub recovery_crashes: usize,
    /// Whether a schedule that comes to a known state is cut off there; otherwise every schedule is run to its
    /// end, which checks the reduction.
    pub reduced: bool,
    /// Stop after this time.
    pub limit: Duration,
}

fn failure(what: String) -> Box<Violation> {
    Box::new(Violation { what, ..Violation::default() })
}

/// Lives once; a panic of the program is a violation too.
fn live(ground: &Ground, recipe: Recipe) -> Result<Life, Box<Violation>> {
    let lived = catch_unwind(AssertUnwindSafe(|| ground.live(recipe)));
    match lived {
        Ok(lived) => lived.map_err(failure),
        Err(panic) => Err(failure(format!("the program panics: {}", panic_text(&*panic)))),
    }
}

/// Samples histories of `case`; `progress` is told now and then, and after each history.
///
/// # Errors
/// The workload does not fit its pool.
pub fn sample(case: Case, sampling: Sampling, mut progress: impl FnMut(&Counts)) -> Result<Outcome> {
    let grounds = Ground::of_sizes(case)?;
    let mut explorers: Vec<_> = grounds.iter().map(Explorer::new).collect();
    let started = Instant::now();
    let mut outcome = Outcome {
        counts: Counts::default(),
        violation: None,
        seed: 0,
        transactions: sampling.transactions,
        seconds: 0.0,
        cpu_seconds: cpu_seconds(),
    };
    for number in 0..sampling.histories {
        let seed = sampling.seed.wrapping_add(number);
        let mut random = Rng::with_seed(seed);
        let which = random.usize(..grounds.len());
        if let Err(violation) =
            sample_one(&grounds[which], &mut explorers[which], &mut random, sampling.transactions)
        {
            (outcome.violation, outcome.seed) = (Some(*violation), seed);
        }
        outcome.counts += std::mem::take(&mut explorers[which].counts);
        if outcome.violation.is_some() {
            break;
        }
        progress(&outcome.counts);
        if started.elapsed() > sampling.limit || crate::is_stopped() {
            break;
        }
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome.cpu_seconds = cpu_seconds() - outcome.cpu_seconds;
    Ok(outcome)
}

/// Crash points tried in each life that is sampled.
const POINTS: u32 = 12;

/// Lives of a pool that hardly lives at all, and crash points looked at in each: those are tried at which records can be torn,
/// which takes so many words.
const SHORT_LIVES: u64 = 8;
const SHORT_POINTS: usize = 8;
const TORN_WORDS: usize = 3;

/// Lives that end after a few transactions, and leave torn records behind: each begins where the one before did, with the
/// same numbers and in the same places, so that what it stores meets what the other has left.
fn short_lives(ground: &Ground, explorer: &mut Explorer<'_>, random: &mut Rng) -> Result<(), Box<Violation>> {
    let mut image = ground.first_image(false, random);
    explorer.forget();
    let transactions = [1, 1, 1, 2, 3][random.usize(..5)];
    for life in 1..=SHORT_LIVES {
        let policy = match random.bool() {
            true => Policy::Random { every: [4, 20, 60][random.usize(..3)] },
            false => Policy::Priorities { every: 60, critical: 12, stalls: false },
        };
        let mut plan = |thread: u64, number: u64| Plan::short(life << 24 | thread << 16 | number, random);
        let plans = (0..ground.case.threads as u64)
            .map(|thread| (0..transactions).map(|number| plan(thread, number)).collect())
            .collect();
        let recipe = Recipe {
            image,
            script: Rc::new(Script::Fixed(plans)),
            policy,
            shared: None,
            delays: false,
            random: random.fork(),
        };
        let lived = live(ground, recipe)?;
        explorer.turn_to();
        let points = &lived.trace.points;
        let mut next = None;
        for pick in 1..=SHORT_POINTS {
            // In the end any point will do.
            let least = if pick == SHORT_POINTS && next.is_none() { 0 } else { TORN_WORDS };
            let point = points[random.usize(..points.len())];
            next = explorer.torn_states(&lived, point, least, random)?.or(next);
        }
        image = next.unwrap_or_default();
    }
    Ok(())
}

/// Some lives of one pool.
fn sample_one(
    ground: &Ground,
    explorer: &mut Explorer<'_>,
    random: &mut Rng,
    transactions: u32,
) -> Result<(), Box<Violation>> {
    let short = if ground.case.omitted.is_some_and(between_lives) { 7 } else { 2 };
    if random.u8(..8) < short {
        return short_lives(ground, explorer, random);
    }
    let used = random.bool();
    let mut image = ground.first_image(used, random);
    let lives = random.u64(1..4);
    explorer.forget();
    let mutant = ground.case.omitted.is_some();
    // What recovery leaves out often shows only where power fails in it.
    let seldom = if ground.case.omitted.is_some_and(in_recovery) { 2 } else { 32 };
    for life in 1..=lives {
        let policy = match random.u8(..4) {
            0 => Policy::Random { every: [3, 12, 40][random.usize(..3)] },
            _ => Policy::Priorities {
                every: [60, 300, 2000][random.usize(..3)],
                critical: if mutant { [2, 4, 15] } else { [4, 15, 60] }[random.usize(..3)],
                stalls: random.u8(..4) < if mutant { 2 } else { 1 },
            },
        };
        let together = random.bool().then(|| style(ground.case.omitted, random));
        let recipe = Recipe {
            image,
            script: Rc::new(Script::Shaped { transactions: 1 + random.u32(..transactions), life, together }),
            policy,
            shared: None,
            delays: ground.case.threads > 1 && random.u8(..4) == 0,
            random: random.fork(),
        };
        let lived = live(ground, recipe)?;
        explorer.turn_to();
        image = Vec::new();
        // Most points are just before a completion; the more interesting ones follow a step left out.
        let picks = if ground.case.setting == Setting::FlushOnFail { 8 * POINTS } else { POINTS };
        for pick in 1..=picks {
            let points = &lived.trace.points;
            // What is left out at a log's end shows in the run after the next.
            let near = if ground.case.omitted.is_some_and(at_the_end) { 2 } else { 3 };
            let hint = (!lived.trace.hints.is_empty() && random.u8(..4) < near)
                .then(|| lived.trace.hints[random.usize(..lived.trace.hints.len())]);
            let at = match hint {
                Some(hint) => {
                    let reach = if random.bool() { 3 } else { 10 };
                    let near = points.partition_point(|&point| point < hint) + random.usize(..reach);
                    near.min(points.len() - 1)
                }
                None => random.usize(..points.len()),
            };
            let last = pick == picks;
            let nested = if last || random.u8(..seldom) == 0 { random.usize(1..3) } else { 0 };
            if let Some(next) = explorer.some_states(&lived, points[at], nested, last, random)? {
                image = next;
            }
        }
    }
    Ok(())
}

/// Explores `case` exhaustively: all schedules with at most so many preemptions, all crash points that can
/// show a violation, all surviving states that recovery and oracle can tell apart, and likewise crashes in
/// recovery. With an abort among the transactions.
///
/// # Errors
/// The workload does not fit its pool.
pub fn exhaust(case: Case, bounds: Bounds, mut progress: impl FnMut(&Counts)) -> Result<Outcome> {
    let ground = Ground::new(case)?;
    let plans = Plan::conflicting(case.workload, case.threads, bounds.transactions);
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut explorer = Explorer::new(&ground);
    let mut shared = BTreeSet::new();
    let violation = exhaust_script(
        &ground,
        &mut explorer,
        plans,
        (bounds, started + bounds.limit),
        &mut shared,
        &mut progress,
    );
    Ok(exhausted(&explorer, violation, bounds, started, cpu))
}

/// Explores exhaustively what [`exhaust`] explores, for every history of `case` in a new pool with the shortest logs:
/// each transaction writes as many words as one of `words` says, always the same ones from the first on, and is committed
/// or given up.
///
/// # Errors
/// The workload does not fit its pool.
pub fn exhaust_histories(
    case: Case,
    words: &[u32],
    bounds: Bounds,
    mut progress: impl FnMut(&Counts),
) -> Result<Outcome> {
    let mut ground = Ground::with_logs(case, Ground::SHORT_LOG)?;
    ground.make_new();
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut explorer = Explorer::new(&ground);
    let mut shared = BTreeSet::new();
    let mut violation = None;
    let kinds = 2 * words.len() as u64;
    let count = case.threads as u32 * bounds.transactions;
    let histories = kinds.checked_pow(count).unwrap_or(u64::MAX);
    for number in 0..histories {
        let mut digits = number;
        let mut plan = |thread: usize, transaction: u32| {
            let kind = digits % kinds;
            digits /= kinds;
            let unique = (thread as u64) << 8 | u64::from(transaction);
            Plan::words(unique, words[(kind / 2) as usize], kind % 2 == 1)
        };
        let plans = (0..case.threads)
            .map(|thread| (0..bounds.transactions).map(|transaction| plan(thread, transaction)).collect())
            .collect();
        let until = started + bounds.limit;
        violation =
            exhaust_script(&ground, &mut explorer, plans, (bounds, until), &mut shared, &mut progress);
        if violation.is_some() || crate::is_stopped() || Instant::now() > until {
            break;
        }
    }
    Ok(exhausted(&explorer, violation, bounds, started, cpu))
}

fn exhausted(
    explorer: &Explorer<'_>,
    violation: Option<Box<Violation>>,
    bounds: Bounds,
    started: Instant,
    cpu: f64,
) -> Outcome {
    let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let (counts, violation) = (explorer.counts, violation.map(|violation| *violation));
    Outcome { counts, violation, seed: 0, transactions: bounds.transactions, seconds, cpu_seconds }
}

/// Explores one script: again and again, until no further lines turn out to be shared.
fn exhaust_script<'g>(
    ground: &'g Ground,
    explorer: &mut Explorer<'g>,
    plans: Vec<Vec<Plan>>,
    (bounds, until): (Bounds, Instant),
    shared: &mut BTreeSet<u32>,
    progress: &mut impl FnMut(&Counts),
) -> Option<Box<Violation>> {
    let script = Rc::new(Script::Fixed(plans));
    let before = explorer.counts;
    loop {
        let mut exhaustion = Exhaustion {
            script: &script,
            ground,
            explorer: &mut *explorer,
            bounds,
            until,
            shared: &*shared,
            found_shared: BTreeSet::new(),
            visited: HashMap::new(),
        };
        let explored = exhaustion.explore(progress);
        let (found, states) = (exhaustion.found_shared, exhaustion.visited.len() as u64);
        explorer.counts.schedule_states += states;
        match explored {
            Err(violation) => return Some(violation),
            Ok(false) => {
                explorer.counts.cut_short += 1;
                return None;
            }
            Ok(true) if found.is_empty() => return None,
            Ok(true) => {}
        }
        shared.extend(found);
        explorer.counts = before;
        explorer.forget();
    }
}

/// One exhaustive exploration, under one list of shared lines.
struct Exhaustion<'a, 'g> {
    script: &'a Rc<Script>,
    ground: &'g Ground,
    explorer: &'a mut Explorer<'g>,
    bounds: Bounds,
    /// Stop then.
    until: Instant,
    shared: &'a BTreeSet<u32>,
    found_shared: BTreeSet<u32>,
    /// For each state, and who goes on in it, the most preemptions that were left there.
    visited: HashMap<(u64, usize), u32>,
}

/// A schedule to be run: its choices, and when the last of them was made.
struct Schedule {
    choices: Vec<(u32, usize)>,
    from: u32,
}

impl Exhaustion<'_, '_> {
    /// Whether `thread` has not yet gone on in `state` with `left` preemptions or more.
    fn is_new(&mut self, state: u64, thread: usize, left: u32) -> bool {
        if !self.bounds.reduced {
            return true;
        }
        match self.visited.entry((state, thread)) {
            Entry::Occupied(mut before) if *before.get() < left => {
                before.insert(left);
                true
            }
            Entry::Occupied(_) => false,
            Entry::Vacant(none) => {
                none.insert(left);
                true
            }
        }
    }

    /// Explores all schedules, those with fewer preemptions first, so that a state is first come to with as many
    /// left as possible; `false`: time is up.
    fn explore(&mut self, progress: &mut impl FnMut(&Counts)) -> Result<bool, Box<Violation>> {
        let begin =
            (0..self.ground.case.threads).map(|first| Schedule { choices: vec![(0, first)], from: 0 });
        let mut waiting: Vec<Vec<Schedule>> = vec![begin.collect()];
        waiting.resize_with(self.bounds.preemptions as usize + 1, Vec::new);
        for used in 0..waiting.len() {
            while let Some(schedule) = waiting[used].pop() {
                if crate::is_stopped() || Instant::now() > self.until {
                    return Ok(false);
                }
                self.run(&schedule, used, &mut waiting)?;
                progress(&self.explorer.counts);
            }
        }
        Ok(true)
    }

    /// Runs a schedule to its end or to a state that was there before, judges the crashes of what is new, and
    /// notes the schedules that branch off.
    fn run(
        &mut self,
        schedule: &Schedule,
        used: usize,
        waiting: &mut [Vec<Schedule>],
    ) -> Result<(), Box<Violation>> {
        let recipe = Recipe {
            image: self.ground.image.clone(),
            script: self.script.clone(),
            policy: Policy::Guided(schedule.choices.clone()),
            shared: Some(self.shared.clone()),
            delays: false,
            random: Rng::with_seed(1),
        };
        let life = live(self.ground, recipe)?;
        self.explorer.turn_to();
        self.found_shared.extend(&life.found_shared);
        let left = self.bounds.preemptions - used as u32;
        let mut until = u32::MAX;
        for choice in &life.choices {
            if !self.is_new(choice.state, choice.chosen, left) {
                until = choice.time;
                break;
            }
            let cost = u32::from(choice.preempts);
            if cost > left {
                continue;
            }
            for &other in &choice.others {
                if self.is_new(choice.state, other, left - cost) {
                    let mut choices = schedule.choices.clone();
                    choices.push((choice.number, other));
                    waiting[used + cost as usize].push(Schedule { choices, from: choice.time });
                }
            }
        }
        // What came before the last choice belongs to the schedule from which this one branches off, and what
        // comes after a known state to the schedule that was there first.
        let depth = Depth {
            states: self.bounds.states,
            recovery_crashes: self.bounds.recovery_crashes,
            until: self.until,
        };
        let from = schedule.from.max(life.began);
        for &point in life.trace.points.iter().filter(|&&point| (from..=until).contains(&point)) {
            self.explorer.all_states(&life, point, depth)?;
        }
        Ok(())
    }
}
