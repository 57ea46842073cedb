//! Complete explorations: exhaustive ones within bounds, and sampled ones.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use strandline_core::Result;

use super::judge::SchemeJudge;
use super::life::{Case, Ground, Life, Recipe, Script, at_the_end, between_lives, in_recovery, style};
use super::workload::Plan;
use strandline_check::x86::Policy;
pub use strandline_check::x86::explorer::Bounds;
use strandline_check::x86::explorer::{self, Counts, Explorer, Violation};
use strandline_check::x86::panic_text;
use strandline_check::{Session, Setting};

/// The result of an exploration.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The counts of a campaign.
    pub counts: Counts,
    /// The first violation. Exploration stops there.
    pub violation: Option<Violation>,
    /// The seed of the failing history; 0 in exhaustive explorations.
    pub seed: u64,
    /// The maximum of transactions of a thread in that history.
    pub transactions: u32,
    /// How long it took.
    pub seconds: f64,
    /// The processor time that it took, in seconds.
    pub cpu_seconds: f64,
}

/// Returns the processor time of this process, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

impl Outcome {
    /// Returns how many crash states were judged per second of processor time.
    pub fn states_per_second(&self) -> f64 {
        self.counts.states as f64 / self.cpu_seconds.max(1e-9)
    }
}

/// How much is sampled.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// The number of pools to sample, each with a few lives.
    pub histories: u64,
    /// The seed of the first pool; each further one uses the next number.
    pub seed: u64,
    /// The number of transactions that a thread runs in one life, at most.
    pub transactions: u32,
    /// The time after which sampling stops.
    pub limit: Duration,
}

fn failure(what: String) -> Box<Violation> {
    Box::new(Violation { what, ..Violation::default() })
}

/// Runs one life; a panic of the program is a violation, too.
fn live(ground: &Ground, recipe: Recipe) -> Result<Life, Box<Violation>> {
    let lived = catch_unwind(AssertUnwindSafe(|| ground.live(recipe)));
    match lived {
        Ok(lived) => lived.map_err(failure),
        Err(panic) => Err(failure(format!("the program panics: {}", panic_text(&*panic)))),
    }
}

/// Samples histories of `case`, and calls `progress` after each.
///
/// # Errors
/// Returns an error if the workload does not fit its pool.
pub fn sample(
    case: Case,
    sampling: Sampling,
    session: &Session,
    mut progress: impl FnMut(&Counts),
) -> Result<Outcome> {
    let grounds = Ground::of_sizes(case)?;
    let mut explorers: Vec<_> =
        grounds.iter().map(|ground| Explorer::new(SchemeJudge::new(ground))).collect();
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
        if started.elapsed() > sampling.limit || session.is_stopped() {
            break;
        }
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome.cpu_seconds = cpu_seconds() - outcome.cpu_seconds;
    Ok(outcome)
}

/// The number of crash points that are tried in each sampled life.
const POINTS: u32 = 12;

/// The number of a pool's short lives, of crash points tried in each, and of words that must be possibly lost at a point for a record to be
/// torn.
const SHORT_LIVES: u64 = 8;
const SHORT_POINTS: usize = 8;
const TORN_WORDS: usize = 3;

/// Runs lives that end after a few transactions and leave torn records. Each life begins with the same numbers in the same places as the one before,
/// so that its records meet what the previous life has left.
fn short_lives(
    ground: &Ground,
    explorer: &mut Explorer<SchemeJudge<'_>>,
    random: &mut Rng,
) -> Result<(), Box<Violation>> {
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
        explorer.begin_run();
        let points = &lived.trace.points;
        let mut next = None;
        for pick in 1..=SHORT_POINTS {
            // The last attempt accepts any point.
            let least = if pick == SHORT_POINTS && next.is_none() { 0 } else { TORN_WORDS };
            let point = points[random.usize(..points.len())];
            next = explorer.torn_states(&lived, point, least, random)?.or(next);
        }
        image = next.unwrap_or_default();
    }
    Ok(())
}

/// Runs some lives of one pool.
fn sample_one(
    ground: &Ground,
    explorer: &mut Explorer<SchemeJudge<'_>>,
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
    // A step left out of recovery often shows only if power fails during recovery.
    let seldom = if ground.case.omitted.is_some_and(in_recovery) { 2 } else { 32 };
    for life in 1..=lives {
        let policy = draw_policy(mutant, random);
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
        explorer.begin_run();
        image = Vec::new();
        // Most points are just before a completion; those after an omitted step are more interesting.
        let picks = if ground.case.setting == Setting::FlushOnFail { 8 * POINTS } else { POINTS };
        for pick in 1..=picks {
            let point = interesting_point(ground, &lived, random);
            let last = pick == picks;
            let nested = if last || random.u8(..seldom) == 0 { random.usize(1..3) } else { 0 };
            if let Some(next) = explorer.some_states(&lived, point, nested, last, random)? {
                image = next;
            }
        }
    }
    Ok(())
}

/// Chooses how the threads of a life are interleaved; those of a mutant are disturbed more often.
fn draw_policy(mutant: bool, random: &mut Rng) -> Policy {
    match random.u8(..4) {
        0 => Policy::Random { every: [3, 12, 40][random.usize(..3)] },
        _ => Policy::Priorities {
            every: [60, 300, 2000][random.usize(..3)],
            critical: if mutant { [2, 4, 15] } else { [4, 15, 60] }[random.usize(..3)],
            stalls: random.u8(..4) < if mutant { 2 } else { 1 },
        },
    }
}

/// Chooses one of the crash points of a life, often one that soon follows a hint.
fn interesting_point(ground: &Ground, lived: &Life, random: &mut Rng) -> u32 {
    let points = &lived.trace.points;
    // A step left out at a log's end shows in the run after the next.
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
    points[at]
}

/// Explores `case` exhaustively: all schedules with at most so many preemptions, all crash points that can show a violation, all surviving states
/// that recovery and oracle can distinguish, and the same for crashes during recovery. One of the transactions aborts.
///
/// # Errors
/// Returns an error if the workload does not fit its pool.
pub fn exhaust(
    case: Case,
    bounds: Bounds,
    session: &Session,
    mut progress: impl FnMut(&Counts),
) -> Result<Outcome> {
    let ground = Ground::of_few(case, bounds.transactions)?;
    let plans = Plan::conflicting(case.workload, case.threads, bounds.transactions);
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut explorer = Explorer::new(SchemeJudge::new(&ground));
    explorer.session = session.clone();
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

/// Explores, like [`exhaust`], every history of `case` in a new pool with the shortest logs. Each transaction writes as many words as one of `words`
/// says, beginning with the same word each time, and commits or gives up.
///
/// # Errors
/// Returns an error if the workload does not fit its pool.
pub fn exhaust_histories(
    case: Case,
    words: &[u32],
    bounds: Bounds,
    session: &Session,
    mut progress: impl FnMut(&Counts),
) -> Result<Outcome> {
    let mut ground = Ground::with_logs(case, Ground::SHORT_LOG)?;
    ground.make_new();
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut explorer = Explorer::new(SchemeJudge::new(&ground));
    explorer.session = session.clone();
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
        if violation.is_some() || session.is_stopped() || Instant::now() > until {
            break;
        }
    }
    Ok(exhausted(&explorer, violation, bounds, started, cpu))
}

fn exhausted(
    explorer: &Explorer<SchemeJudge<'_>>,
    violation: Option<Box<Violation>>,
    bounds: Bounds,
    started: Instant,
    cpu: f64,
) -> Outcome {
    let (seconds, cpu_seconds) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let (counts, violation) = (explorer.counts, violation.map(|violation| *violation));
    Outcome { counts, violation, seed: 0, transactions: bounds.transactions, seconds, cpu_seconds }
}

/// Explores one script.
fn exhaust_script(
    ground: &Ground,
    explorer: &mut Explorer<SchemeJudge<'_>>,
    plans: Vec<Vec<Plan>>,
    limits: (Bounds, Instant),
    shared: &mut BTreeSet<u32>,
    progress: &mut impl FnMut(&Counts),
) -> Option<Box<Violation>> {
    let script = Rc::new(Script::Fixed(plans));
    let lives = |choices: &[(u32, usize)], shared: &BTreeSet<u32>| {
        let recipe = Recipe {
            image: ground.image.clone(),
            script: script.clone(),
            policy: Policy::Guided(choices.to_vec()),
            shared: Some(shared.clone()),
            delays: false,
            random: Rng::with_seed(1),
        };
        live(ground, recipe).map_err(Into::into)
    };
    explorer::exhaust(explorer, ground.case.threads, lives, limits, shared, progress).map(Into::into)
}
