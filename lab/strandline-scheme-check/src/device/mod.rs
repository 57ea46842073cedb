//! The device world: the `Sync` domain on a device that loses power and fails.
//!
//! The real protocol (log, checkpoint, recovery) runs on hosted memory over a [`FaultyDevice`]; a seed determines how its threads are interleaved. A
//! [`sample`]d history consists of several lives of a pool. A life ends because power fails during some operation of the device, because the
//! operation fails with `EIO` or `ENOSPC`, because the process is killed and leaves its page cache, or normally. The recovery that follows meets the
//! same faults. [`exhaust`] explores small histories: it tries a power failure during every operation with every choice of sectors that may survive,
//! and during every operation of every recovery from these failures.
//!
//! The oracle in `oracle.rs` requires a prefix of the TxID order that holds everything acknowledged.

mod exhaustive;
mod faulty_device;
mod history;
mod journal;
mod oracle;
#[cfg(test)]
mod tests;
mod transactions;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use strandline_core::Concurrency;
use strandline_core::memory::Step;

use crate::explore::Workload;
use strandline_check::Session;
use strandline_check::x86::panic_text;

pub use exhaustive::{Bounds, exhaust};
pub use faulty_device::{Fault, FaultyDevice};

use history::History;
use journal::Journal;

/// The schemes that the `Sync` domain supports, with their names in `strandline-lab list`.
pub const SCHEMES: [(&str, Concurrency); 2] =
    [("bppm", Concurrency::Stm), ("bppm+single-writer", Concurrency::SingleWriter)];

/// A case to check: a control, a workload and a mutant.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// How BPPM's transactions are isolated.
    pub concurrency: Concurrency,
    /// The structure that transactions work on. `None`: each pool's seed chooses a structure, or a mix of writes, transfers, reads and transactions
    /// that give up.
    pub workload: Option<Workload>,
    /// The step that a mutant leaves out.
    pub omitted: Option<Step>,
}

/// How long histories are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of lives that a pool has.
    pub lives: u32,
    /// The number of transactions that a thread runs in a life, at most.
    pub transactions: u32,
}

impl Default for Size {
    fn default() -> Self {
        Self { lives: 12, transactions: 10 }
    }
}

/// How much is sampled.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// The number of pools to sample, each with several lives.
    pub histories: u64,
    /// The seed of the first pool; each further one uses the next number.
    pub seed: u64,
    /// The size of each history.
    pub size: Size,
    /// The time after which sampling stops.
    pub limit: Duration,
}

/// The counts of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Pools, each of which lives several lives.
    pub histories: u64,
    /// Lives: recoveries that ended, and threads that ran after them.
    pub lives: u64,
    /// Power failures, those during recovery included.
    pub power_failures: u64,
    /// Processes that ended or were killed while the power stayed on, so that their page cache survived.
    pub kills: u64,
    /// Recoveries that failed or were interrupted, and were tried again.
    pub failed_recoveries: u64,
    /// States that a recovery left and the oracle judged.
    pub states: u64,
    /// Transactions that committed.
    pub transactions: u64,
    /// Checkpoints that ended.
    pub checkpoints: u64,
    /// Rings that became larger.
    pub enlarged: u64,
    /// Damaged blocks and slots that recovery reported.
    pub damage_found: u64,
    /// Files that became longer.
    pub grown: u64,
    /// The number of these that had a flush that failed or lost power.
    pub failed_growths: u64,
    /// Crash points with more states than the bound, of which only as many as the bound were judged.
    pub cut_short: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.histories += more.histories;
        self.lives += more.lives;
        self.power_failures += more.power_failures;
        self.kills += more.kills;
        self.failed_recoveries += more.failed_recoveries;
        self.states += more.states;
        self.transactions += more.transactions;
        self.checkpoints += more.checkpoints;
        self.enlarged += more.enlarged;
        self.damage_found += more.damage_found;
        self.grown += more.grown;
        self.failed_growths += more.failed_growths;
        self.cut_short += more.cut_short;
    }
}

/// A state that recovery does not repair.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// The property that does not hold, in a sentence.
    pub what: String,
    /// The history, one event per line.
    pub history: Vec<String>,
}

/// The result of an exploration.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The counts of the exploration.
    pub counts: Counts,
    /// The first violation.
    pub violation: Option<Violation>,
    /// The seed of the history that shows it.
    pub seed: u64,
    /// The size of the history that shows it.
    pub size: Size,
    /// How long it took.
    pub seconds: f64,
}

impl Outcome {
    /// Returns how many states were judged per second.
    pub fn states_per_second(&self) -> f64 {
        self.counts.states as f64 / self.seconds.max(1e-9)
    }
}

/// Returns the result of `run`; converts a panic into an error.
fn caught<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(panic_text(&*panic)))
}

/// Runs all lives of one pool.
fn live(case: &Case, seed: u64, size: Size, counts: &mut Counts, journal: &Journal) -> Result<(), String> {
    counts.histories += 1;
    // A mutant may also never end, or read nonsense and panic.
    let mut history = caught(|| History::new(case, seed, size, journal.clone()))?;
    let lived = caught(|| {
        (0..size.lives).try_for_each(|_| history.live())?;
        history.recover().map(|_| ())
    });
    *counts += history.counts;
    lived
}

/// Samples histories of `case`, and calls `progress` after each.
///
/// The seed of a violation's history reproduces it.
pub fn sample(
    case: &Case,
    sampling: Sampling,
    session: &Session,
    mut progress: impl FnMut(&Counts),
) -> Outcome {
    let started = Instant::now();
    let mut counts = Counts::default();
    let (mut violation, mut found) = (None, sampling.seed);
    for seed in (0..sampling.histories).map(|number| sampling.seed.wrapping_add(number)) {
        if let Err(what) = live(case, seed, sampling.size, &mut counts, &Journal::default()) {
            let journal = Journal::kept();
            let again = live(case, seed, sampling.size, &mut Counts::default(), &journal);
            debug_assert_eq!(again.as_ref(), Err(&what));
            (violation, found) = (Some(Violation { what, history: journal.take() }), seed);
            break;
        }
        progress(&counts);
        if started.elapsed() > sampling.limit || session.is_stopped() {
            break;
        }
    }
    Outcome { counts, violation, seed: found, size: sampling.size, seconds: started.elapsed().as_secs_f64() }
}
