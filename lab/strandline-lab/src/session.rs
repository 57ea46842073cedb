//! A run in progress: how thoroughly it measures, and on which machine.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use indicatif::ProgressBar;
use strandline_command::Place;
use strandline_core::memory::WriteBackInstruction;
use strandline_sim::{Description, Registry, file};
use strandline_workloads::{Length, Sizes};

use crate::error::Error;
use crate::memo::Memo;
use crate::venue::Site;
use crate::verdict::SEEDS;

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Every point of every figure, with both write-back instructions.
    Full,
    /// Fewer points, shorter and fewer repetitions, and one instruction if figures sweep a parameter: at most fifteen processor minutes for all
    /// papers.
    Quick,
    /// Tiny structures, to test the machinery: takes seconds, and yields meaningless figures.
    Trial,
}

/// How long one measurement takes, and how often it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long each run warms up caches and page tables before transactions count.
    pub warm_up: Duration,
    /// The part that counts.
    pub duration: Duration,
    /// The number of repetitions, interleaved with those of everything that is compared.
    pub repetitions: u64,
}

/// The number of repetitions of a measurement that judges no claim: enough for a median.
const BESIDE: u64 = 3;

impl Pace {
    /// Returns when a native run ends; with a duration of zero, after a few transactions.
    pub fn length(&self) -> Length {
        if self.duration.is_zero() {
            Length::Transactions(30)
        } else {
            Length::Time { warm_up: self.warm_up, timed: self.duration }
        }
    }
}

/// A run in progress.
#[derive(Clone, Debug)]
pub struct Session {
    /// How thoroughly it measures.
    pub effort: Effort,
    /// Seeds the workloads' random numbers.
    pub seed: u64,
    /// The number of transactions to record, if set.
    pub transactions: Option<u64>,
    /// Processors that threads can run on at the same time.
    pub cores: u64,
    /// The machine that is simulated beside native measurements, if there is one.
    pub machine: Option<Description>,
    /// True to measure natively all that can be.
    pub natively: bool,
    /// The number of the present round; a round is repeated if noise decided a verdict.
    pub round: u64,
    /// The figures by which the paper's claims are judged, each with its site; they are measured more often.
    pub judged: Vec<(&'static str, Site)>,
    /// Keys of the paper's own machine that differ (`key=value`).
    pub overrides: Vec<String>,
    /// The schemes and workloads that are compared besides the papers'.
    pub registry: Registry,
    /// Simulated and recorded runs that several points share.
    pub(crate) runs: Memo,
    /// Shows the progress.
    pub progress: ProgressBar,
}

impl Session {
    /// Loads the machine of this name or file, with the run's overrides and then `overrides`.
    ///
    /// # Errors
    /// Returns an error if there is no such machine, or if an override is impossible.
    pub fn load(&self, machine: &str, overrides: &[String]) -> Result<Description, Error> {
        let all: Vec<&String> = self.overrides.iter().chain(overrides).collect();
        file::load(machine, &all).map_err(|error| Error::Usage(error.to_string()))
    }

    /// Returns whether a claim is judged by this figure at this site.
    fn is_judged(&self, site: Site, figure: &str) -> bool {
        self.judged.contains(&(figure, site))
    }

    /// Creates a session with which a test judges claims.
    #[cfg(test)]
    pub(crate) fn for_tests(effort: Effort) -> Self {
        Self {
            effort,
            seed: 1,
            transactions: None,
            cores: 2,
            machine: None,
            natively: true,
            round: 0,
            judged: Vec::new(),
            overrides: Vec::new(),
            registry: Registry::default(),
            runs: Memo::default(),
            progress: ProgressBar::hidden(),
        }
    }

    /// Runs simulations in parallel, on all processors. Returns their results in order. Each counts as one step of progress.
    ///
    /// # Errors
    /// Returns the first error; no further simulations start then.
    pub fn simulate<J: Sync, R: Send>(
        &self,
        jobs: &[J],
        run: impl Fn(&J) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            while let Some((index, job)) =
                Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, jobs.get(i)?)))
            {
                let result = run(job);
                self.progress.inc(1);
                if result.is_err() {
                    next.store(jobs.len(), Relaxed);
                }
                found.push((index, result));
            }
            found
        };
        let mut found = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.cores).map(|_| scope.spawn(work)).collect();
            let each = workers.into_iter().map(|worker| worker.join());
            each.flat_map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<_>>()
        });
        found.sort_by_key(|(index, _)| *index);
        found.into_iter().map(|(_, result)| result).collect()
    }

    /// Returns how long and how often to measure.
    pub fn pace(&self) -> Pace {
        let (warm_up, duration, repetitions) = match self.effort {
            Effort::Full => (60, 240, 7),
            Effort::Quick => (30, 70, 3),
            Effort::Trial => (0, 0, 2),
        };
        let (warm_up, duration) = (Duration::from_millis(warm_up), Duration::from_millis(duration));
        Pace { warm_up, duration, repetitions }
    }

    /// Returns the numbers of this round's native repetitions of a figure. There are fewer if no claim is judged by them.
    pub fn repetitions(&self, figure: &str) -> std::ops::Range<u64> {
        let each = self.pace().repetitions;
        let each = if self.is_judged(Site::Native, figure) { each } else { each.min(BESIDE) };
        self.round * each..(self.round + 1) * each
    }

    /// Returns how many runs a point of a figure has on the simulated machine. They differ only in their seeds, by at most a third of a percent. So
    /// there are three runs if claims are judged by them, and one if they are shown beside a native figure.
    pub fn simulated_repetitions(&self, figure: &str) -> u64 {
        match (&self.machine, self.effort) {
            (None, _) => 0,
            (Some(_), Effort::Full) if self.is_judged(Site::Simulated, figure) => SEEDS,
            (Some(_), _) => 1,
        }
    }

    /// Returns the maximum of threads that can run at the same time, here or on the simulated machine.
    pub fn most_threads(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.cores.count as u64).max(self.cores)
    }

    /// Returns the workloads' sizes, before a figure changes one.
    pub fn sizes(&self) -> Sizes {
        if self.effort == Effort::Trial { Sizes::small() } else { Sizes::default() }
    }

    /// Returns the points of a figure that this effort measures: all, or the first, the middle and the last.
    pub fn points<T: Copy>(&self, all: &[T]) -> Vec<T> {
        if self.effort == Effort::Full || all.len() <= 3 {
            return all.to_vec();
        }
        vec![all[0], all[all.len() / 2], all[all.len() - 1]]
    }

    /// Returns the paper's instruction, and the best one if that is another; none if the processor cannot write lines back. A repeated round measures
    /// only the paper's, by which claims are judged.
    pub fn instructions(&self) -> Vec<WriteBackInstruction> {
        let mut all: Vec<_> = [Some(WriteBackInstruction::Clflush), WriteBackInstruction::best()]
            .into_iter()
            .flatten()
            .filter(|instruction| instruction.is_supported())
            .collect();
        all.dedup();
        if self.round > 0 {
            all.truncate(1);
        }
        all
    }

    /// Returns [`Session::instructions`] for figures that sweep a parameter: only the first, unless the effort is full.
    pub fn sweep_instructions(&self) -> Vec<WriteBackInstruction> {
        let mut all = self.instructions();
        if self.effort != Effort::Full {
            all.truncate(1);
        }
        all
    }

    /// Creates a folder for pools.
    ///
    /// # Errors
    /// Returns an error if there is no place to write to.
    pub fn place(&self) -> Result<Place, Error> {
        Place::in_memory().map_err(|error| Error::Io { what: "create a folder for pools".into(), error })
    }
}
