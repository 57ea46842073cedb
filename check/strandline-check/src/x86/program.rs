//! Checks code that is written against Strandline's `Memory`.

use std::fmt;
use std::time::{Duration, Instant};

use strandline_core::memory::Hosted;

use super::checked_program::{self, CheckedProgram, Reach};
use super::explorer::{Counts, Violation};
use crate::{Session, Setting};

/// Options of [`check`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of persistent memory, initially zero.
    pub bytes: u64,
    /// Bytes of volatile memory, zero initially and after a crash.
    pub volatile_bytes: u64,
    /// The parts of a cache line that may survive.
    pub setting: Setting,
    /// The number of threads that the program has.
    pub threads: usize,
    /// The number of runs to make, each with another interleaving; one suffices for one thread.
    pub histories: u64,
    /// The seed of the first interleaving; each further one uses the next number.
    pub seed: u64,
    /// The number of states that are judged at one crash point, at most.
    pub states: u64,
}

impl Default for Options {
    /// Returns a page of each memory, one thread, and the setting `line`.
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

/// The knowledge that a judge has of a crash besides the memory's contents.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Crashed {
    /// The numbers that the program has [acknowledged](crate::Pmem::acknowledge), in ascending order. In [`check`]: those that it has signalled with
    /// [`Event::Acknowledged`](strandline_core::memory::Event::Acknowledged), in the order of time.
    pub acknowledged: Vec<u64>,
}

/// The result of a check without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Runs of the program.
    pub histories: u64,
    /// Crash points at which states were tried.
    pub points: u64,
    /// Different crash states that were judged.
    pub states: u64,
    /// Crash points some of whose states were skipped, since they have more than [`Options::states`].
    pub cut_short: u64,
    /// How long it took.
    pub time: Duration,
}

/// A crash state that the judge refuses.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refused {
    /// The judge's reason.
    pub what: String,
    /// The history up to the crash.
    pub history: Vec<String>,
    /// The stores that did not survive.
    pub lost: Vec<String>,
    /// The write-back and the fence whose lack has this effect: the store, and the operation that comes too early.
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

/// Samples runs of `program`, which is written against [`Memory`](strandline_core::memory::Memory), on checked memory, and passes `judge` the memory
/// that every power failure during a run can leave. `program` receives the thread's number and its view. The judge recovers, if there is something to
/// recover, and checks the memory. States that differ only in words that it does not load count as one.
///
/// All crash points that matter are tried, and at each of them all surviving states, up to [`Options::states`]. A judge must not refuse with fewer
/// acknowledgements what it accepts with more.
///
/// # Errors
/// Returns the first state found that the judge refuses, reduced until as much survives as the judge still refuses.
pub fn check(
    options: &Options,
    program: impl Fn(usize, &Hosted),
    judge: impl Fn(&Hosted, &Crashed) -> Result<(), String>,
) -> Result<Report, Box<Refused>> {
    let started = Instant::now();
    let checked = CheckedProgram {
        image: vec![0; options.bytes.next_multiple_of(64) as usize / 8],
        volatile_bytes: options.volatile_bytes,
        setting: options.setting,
        threads: options.threads,
        begin: &|| (),
        program: &program,
        recovery: &|_| (),
        invariant: &judge,
        name: &name,
        every_access: false,
    };
    let reach = Reach {
        states: options.states,
        total: u64::MAX,
        recovery_crashes: 0,
        limit: Duration::MAX,
        session: Session::default(),
    };
    let explored = checked_program::sample(&checked, &reach, (options.seed, options.histories), |_| ());
    match (explored.broken, explored.seed) {
        (Some(broken), seed) => {
            let Violation { what, history, lost, missing, .. } = broken.violation;
            Err(Box::new(Refused { what, history, lost, missing, seed: seed.unwrap_or(options.seed) }))
        }
        (None, _) => {
            let Counts { histories, points, states, cut_short, .. } = explored.counts;
            Ok(Report { histories, points, states, cut_short, time: started.elapsed() })
        }
    }
}

fn name(word: u32) -> String {
    format!("[{:#x}]", 8 * word)
}
