//! Whole explorations: exhaustive within bounds, and sampled.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fastrand::Rng;
use strandline::Result;

use super::explorer::{Counts, Explorer, Violation, panic_text};
use super::life::{Case, Ground, Life, Script};
use super::schedule::Policy;
use super::workload::{Plan, Workload};

/// What an exploration found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was explored.
    pub counts: Counts,
    /// The first violation.
    pub violation: Option<Violation>,
    /// The seed of the history that shows it; 0 for exhaustive ones.
    pub seed: u64,
    /// Most transactions of a thread in that history.
    pub transactions: u32,
    /// How long it took.
    pub seconds: f64,
}

impl Outcome {
    /// Crash states judged in a second.
    pub fn states_per_second(&self) -> f64 {
        self.counts.states as f64 / self.seconds.max(1e-9)
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
    /// Stop after this time.
    pub limit: Duration,
}

fn failure(what: String) -> Violation {
    Violation { what, history: Vec::new(), lost: Vec::new(), recovery: Vec::new(), length: 0 }
}

/// Lives once; a panic of the program is a violation too.
fn live(
    ground: &Ground,
    image: Vec<u64>,
    script: &Script,
    policy: Policy,
    random: &mut Rng,
) -> Result<Life, Violation> {
    let lived = catch_unwind(AssertUnwindSafe(|| ground.live(image, script, policy, random)));
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
    let ground = Ground::new(case)?;
    let mut explorer = Explorer::new(&ground);
    let started = Instant::now();
    let mut outcome = Outcome {
        counts: Counts::default(),
        violation: None,
        seed: 0,
        transactions: sampling.transactions,
        seconds: 0.0,
    };
    for number in 0..sampling.histories {
        let seed = sampling.seed.wrapping_add(number);
        if let Err(violation) = sample_one(&ground, &mut explorer, seed, sampling.transactions) {
            (outcome.violation, outcome.seed) = (Some(violation), seed);
            break;
        }
        progress(&explorer.counts);
        if started.elapsed() > sampling.limit {
            break;
        }
    }
    outcome.counts = explorer.counts;
    outcome.seconds = started.elapsed().as_secs_f64();
    Ok(outcome)
}

/// Some lives of one pool.
fn sample_one(
    ground: &Ground,
    explorer: &mut Explorer<'_>,
    seed: u64,
    transactions: u32,
) -> Result<(), Violation> {
    let mut random = Rng::with_seed(seed);
    let used = random.bool();
    let mut image = ground.first_image(used, &mut random);
    let lives = random.u64(1..4);
    for life in 1..=lives {
        let policy = match random.u8(..4) {
            0 => Policy::Random { every: [3, 12, 40][random.usize(..3)] },
            _ => Policy::Priorities {
                every: [60, 300, 2000][random.usize(..3)],
                critical: [4, 15, 60][random.usize(..3)],
            },
        };
        let script = Script::Shaped { transactions: 1 + random.u32(..transactions), life };
        let lived = live(ground, image, &script, policy, &mut random)?;
        explorer.turn_to();
        image = Vec::new();
        // Most points are just before a completion; the more interesting ones follow a step left out.
        for pick in 0..6 {
            let points = &lived.trace.points;
            let hint = (!lived.trace.hints.is_empty() && random.bool())
                .then(|| lived.trace.hints[random.usize(..lived.trace.hints.len())]);
            let at = match hint {
                Some(hint) => {
                    let near = points.partition_point(|&point| point < hint) + random.usize(..3);
                    near.min(points.len() - 1)
                }
                None => random.usize(..points.len()),
            };
            let nested = if pick == 5 || random.u8(..16) == 0 { random.u32(1..3) } else { 0 };
            image = explorer.some_states(&lived, points[at], 12, nested, &mut random)?;
        }
    }
    Ok(())
}

/// Explores `case` exhaustively: all schedules with at most so many preemptions, all crash points that can
/// show a violation, all surviving states that recovery and oracle can tell apart; and crashes in recovery by
/// sample. With an abort among the transactions.
///
/// # Errors
/// The workload does not fit its pool.
pub fn exhaust(case: Case, bounds: Bounds, mut progress: impl FnMut(&Counts)) -> Result<Outcome> {
    let ground = Ground::new(case)?;
    let plan = |thread: u64, number: u64| Plan {
        // The same seed for all threads: they take the same keys, and so conflict.
        seed: 7 + number,
        unique: thread << 8 | number,
        operations: 1,
        filler: 0,
        reads_only: false,
        gives_up: case.workload != Workload::Sps && thread == 1 && number == 0 && bounds.transactions > 1,
    };
    let plans = (0..case.threads as u64)
        .map(|thread| (0..u64::from(bounds.transactions)).map(|number| plan(thread, number)).collect());
    let mut exhaustion = Exhaustion {
        script: Script::Fixed(plans.collect()),
        ground: &ground,
        explorer: Explorer::new(&ground),
        bounds,
        started: Instant::now(),
        stopped: false,
    };
    let mut violation = None;
    for first in 0..case.threads {
        violation = exhaustion.schedules(first, &mut Vec::new(), 0, &mut progress).err();
        if violation.is_some() {
            break;
        }
    }
    let mut counts = exhaustion.explorer.counts;
    counts.cut_short += u64::from(exhaustion.stopped);
    let seconds = exhaustion.started.elapsed().as_secs_f64();
    Ok(Outcome { counts, violation, seed: 0, transactions: bounds.transactions, seconds })
}

struct Exhaustion<'a> {
    script: Script,
    ground: &'a Ground,
    explorer: Explorer<'a>,
    bounds: Bounds,
    started: Instant,
    stopped: bool,
}

impl Exhaustion<'_> {
    /// The schedule that thread `first` begins with these preemptions, and all that add further ones. Crash
    /// points before the last preemption belong to a schedule with fewer.
    fn schedules(
        &mut self,
        first: usize,
        preemptions: &mut Vec<(u32, usize)>,
        after: u32,
        progress: &mut impl FnMut(&Counts),
    ) -> Result<(), Violation> {
        if self.started.elapsed() > self.bounds.limit {
            self.stopped = true;
            return Ok(());
        }
        let policy = Policy::Listed { first, preemptions: preemptions.clone() };
        let image = self.ground.image.clone();
        let mut random = Rng::with_seed(1);
        let life = live(self.ground, image, &self.script, policy, &mut random)?;
        self.explorer.turn_to();
        for &point in life.trace.points.iter().filter(|&&point| point >= life.began) {
            self.explorer.all_states(&life, point, self.bounds.states)?;
        }
        progress(&self.explorer.counts);
        if preemptions.len() < self.bounds.preemptions as usize {
            for at in after + 1..=life.candidates {
                let threads = self.ground.case.threads + self.ground.case.scheme.code.helpers();
                for to in 0..threads {
                    // With two threads there is one to go on with.
                    if threads == 2 && to == 1 {
                        continue;
                    }
                    preemptions.push((at, if threads == 2 { usize::MAX } else { to }));
                    self.schedules(first, preemptions, at, progress)?;
                    preemptions.pop();
                }
            }
        }
        Ok(())
    }
}
