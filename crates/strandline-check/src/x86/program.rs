//! The checker for code of one's own.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Hosted, World};

use super::crash::{CrashMemory, Decision};
use super::missing::{Trial, missing};
use super::panic_text;
use super::schedule::Policy;
use super::story;
use super::trace::Trace;
use super::world::X86World;
use crate::Setting;

/// How a program of one's own is checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of persistent memory, zero at the beginning.
    pub bytes: u64,
    /// Bytes of volatile memory, zero at the beginning and after a crash.
    pub volatile_bytes: u64,
    /// What may survive of a cache line.
    pub setting: Setting,
    /// How many threads the program has.
    pub threads: usize,
    /// Runs, each with another interleaving; one suffices for one thread.
    pub histories: u64,
    /// Seed of the first interleaving; the next one has the next number.
    pub seed: u64,
    /// States judged at one crash point, at most.
    pub states: u64,
}

impl Default for Options {
    /// A page of each memory, one thread, the setting `line`.
    fn default() -> Self {
        Self {
            bytes: 4096,
            volatile_bytes: 4096,
            setting: Setting::Line,
            threads: 1,
            histories: 1,
            seed: 1,
            states: 1 << 20,
        }
    }
}

/// What is known of a crash besides what memory holds.
#[derive(Clone, Debug)]
pub struct Crashed {
    /// The numbers with which the program has signalled
    /// [`Event::Acknowledged`](strandline_core::memory::Event::Acknowledged), in order.
    pub acknowledged: Vec<u64>,
}

/// What a check without violation has explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Runs of the program.
    pub histories: u64,
    /// Crash points at which states were tried.
    pub points: u64,
    /// Different crash states that were judged.
    pub states: u64,
    /// Crash points with more states than [`Options::states`].
    pub cut_short: u64,
    /// How long it took.
    pub time: Duration,
}

/// A crash state that the judge refuses.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What the judge says.
    pub what: String,
    /// The history up to the crash.
    pub history: Vec<String>,
    /// What was stored and did not survive.
    pub lost: Vec<String>,
    /// Which write-back and fence is missing in effect: the store, and what comes too early.
    pub missing: String,
    /// The seed of this history.
    pub seed: u64,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nhistory up to the crash (seed {}):", self.what, self.seed)?;
        self.history.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        writeln!(f, "stored, but lost:")?;
        self.lost.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        if self.missing.is_empty() { Ok(()) } else { writeln!(f, "missing: {}", self.missing) }
    }
}

impl std::error::Error for Refused {}

/// Runs `program` on checked memory (given the thread's number and its view), and `judge` on the memory that
/// every power failure during it can leave. The judge recovers, if there is something to recover, and looks;
/// what it loads decides which states are told apart.
///
/// All crash points that matter are tried, and at each of them all surviving states, up to
/// [`Options::states`]. A judge must not refuse after fewer acknowledgements what it accepts after more.
///
/// # Errors
/// A state that the judge refuses: the first one found, with as much surviving as the judge still refuses.
pub fn check(
    options: &Options,
    program: impl Fn(usize, &Hosted),
    judge: impl Fn(&Hosted, &Crashed) -> Result<(), String>,
) -> Result<Report, Box<Refused>> {
    let started = Instant::now();
    let words = options.bytes.next_multiple_of(64) as usize / 8;
    let memory = Rc::new(CrashMemory::new(words, options.volatile_bytes, 0..0));
    let hosted: Rc<dyn World> = memory.clone();
    let mut report = Report::default();
    for number in 0..options.histories {
        let seed = options.seed.wrapping_add(number);
        let trace = live(options, &program, seed);
        report.histories += 1;
        if let Some(fault) = trace.faults.first() {
            let history = story::history(&trace, 0, trace.time, name);
            let (what, missing) = (fault.clone(), String::new());
            return Err(Box::new(Refused { what, history, lost: Vec::new(), missing, seed }));
        }
        let mut fresh = true;
        for &time in &trace.points {
            memory.crash(&trace, time, options.setting, None, fresh);
            fresh = false;
            report.points += 1;
            let verdict_at = |trace: &Trace, time| {
                let crashed = Crashed { acknowledged: trace.acknowledged(time) };
                let view = Hosted::new(hosted.clone(), 0);
                catch_unwind(AssertUnwindSafe(|| judge(&view, &crashed)))
                    .unwrap_or_else(|panic| Err(format!("the judge panics: {}", panic_text(&*panic))))
            };
            let verdict = || verdict_at(&trace, time);
            let first = report.states;
            memory.search();
            loop {
                report.states += 1;
                if let Err(what) = verdict() {
                    let (what, lost) = smallest(&memory, what, verdict);
                    let history = story::history(&trace, 0, time, name);
                    let told = story::lost(&lost, name);
                    let mut trial = Trying { memory: &memory, options, verdict: verdict_at };
                    let missing = missing(&trace, time, &lost, &mut trial);
                    let missing = story::missing(&trace, missing.as_ref(), name);
                    return Err(Box::new(Refused { what, history, lost: told, missing, seed }));
                }
                if !memory.next() {
                    break;
                }
                if report.states - first >= options.states {
                    report.cut_short += 1;
                    break;
                }
            }
        }
    }
    report.time = started.elapsed();
    Ok(report)
}

fn name(word: u32) -> String {
    format!("[{:#x}]", 8 * word)
}

/// Runs the program with the interleaving of `seed`.
fn live(options: &Options, program: &impl Fn(usize, &Hosted), seed: u64) -> Trace {
    let (words, threads) = (options.bytes.next_multiple_of(64) as usize / 8, options.threads);
    let (volatile, setting) = (options.volatile_bytes, options.setting);
    let world = Rc::new(X86World::new(vec![0; words], volatile, 0..0, threads, setting, None));
    let bodies =
        (0..threads).map(|thread| Box::new(move |memory: &Hosted| program(thread, memory)) as Thread<'_>);
    // Every other pair of seeds with store buffers; either policy. A seed alone says all, so that it can be replayed.
    if threads > 1 && seed / 2 % 2 == 1 {
        world.delay_stores(seed);
    }
    let policy = match seed % 2 {
        1 => Policy::Priorities { every: 40, critical: 4, stalls: (seed / 4).is_multiple_of(4) },
        _ => Policy::Random { every: 5 },
    };
    world.run(bodies.collect(), policy, seed);
    world.finish()
}

/// What of the refused state that `memory` has just come to must be lost so that it is still refused.
fn smallest(
    memory: &CrashMemory,
    mut what: String,
    verdict: impl Fn() -> Result<(), String>,
) -> (String, Vec<Decision>) {
    let mut kept: Vec<_> = memory.decisions().into_iter().filter(Decision::is_loss).collect();
    let mut at = 0;
    while at < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(at);
        memory.given(fewer.clone());
        match verdict() {
            Err(still) => (kept, what) = (fewer, still),
            Ok(()) => at += 1,
        }
    }
    memory.given(kept);
    // Decisions are those of the last run.
    let _ = verdict();
    (what, memory.decisions().into_iter().filter(Decision::is_loss).collect())
}

/// Tries out what a refused state lacks.
struct Trying<'a, V> {
    memory: &'a CrashMemory,
    options: &'a Options,
    verdict: V,
}

impl<V: Fn(&Trace, u32) -> Result<(), String>> Trial for Trying<'_, V> {
    fn violates(&mut self, trace: &Trace, time: u32, lost: &[Decision]) -> bool {
        self.memory.crash(trace, time, self.options.setting, None, true);
        self.memory.given(lost.to_vec());
        (self.verdict)(trace, time).is_err()
    }

    fn any_violates(&mut self, trace: &Trace, time: u32) -> bool {
        self.memory.crash(trace, time, self.options.setting, None, true);
        self.memory.search();
        for _ in 0..4000 {
            if (self.verdict)(trace, time).is_err() {
                return true;
            }
            if !self.memory.next() {
                break;
            }
        }
        false
    }
}
