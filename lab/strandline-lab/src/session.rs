//! A run under way: how thoroughly it measures, and on what.

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
    /// Fewer points, shorter and fewer repetitions, one instruction where figures sweep a parameter: within
    /// fifteen processor minutes for all papers.
    Quick,
    /// The machinery on tiny structures: seconds, and figures that say nothing.
    Trial,
}

/// How long one measurement takes, and how often it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Before anything counts: caches and page tables get used to the pool.
    pub warm_up: Duration,
    /// The part that counts.
    pub duration: Duration,
    /// Repetitions, interleaved with those of everything that is compared.
    pub repetitions: u64,
}

/// Repetitions of what stands beside what is judged, and is judged by nothing: enough for a median.
const BESIDE: u64 = 3;

impl Pace {
    /// When a native run ends; where it has no time, after a few transactions.
    pub fn length(&self) -> Length {
        if self.duration.is_zero() {
            Length::Transactions(30)
        } else {
            Length::Time { warm_up: self.warm_up, timed: self.duration }
        }
    }
}

/// A run under way.
#[derive(Clone, Debug)]
pub struct Session {
    /// How thoroughly it measures.
    pub effort: Effort,
    /// Seeds the workloads' random numbers.
    pub seed: u64,
    /// Transactions to record, if somebody said so.
    pub transactions: Option<u64>,
    /// Processors that threads can run on at the same time.
    pub cores: u64,
    /// The machine that is simulated beside native measurements, if there is one.
    pub machine: Option<Description>,
    /// Whether what can be is measured on this processor.
    pub natively: bool,
    /// How often that has been repeated because noise decided a verdict.
    pub round: u64,
    /// The figures that the paper's claims are judged by, each with where: they are measured more often.
    pub judged: Vec<(&'static str, Site)>,
    /// Keys of the paper's own machine that differ (`key=value`).
    pub overrides: Vec<String>,
    /// The schemes and workloads that are compared beyond the papers.
    pub registry: Registry,
    /// Simulated and recorded runs that several points need.
    pub(crate) runs: Memo,
    /// Shows how far it is.
    pub progress: ProgressBar,
}

impl Session {
    /// Loads the machine of this name or file, with what the run varies and, over that, `overrides`.
    ///
    /// # Errors
    /// There is no such machine; an override is impossible.
    pub fn load(&self, machine: &str, overrides: &[String]) -> Result<Description, Error> {
        let all: Vec<&String> = self.overrides.iter().chain(overrides).collect();
        file::load(machine, &all).map_err(|error| Error::Usage(error.to_string()))
    }

    /// Returns whether a claim is judged at this site by a figure.
    fn is_judged(&self, site: Site, figure: &str) -> bool {
        self.judged.contains(&(figure, site))
    }

    /// One that a test judges claims with.
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

    /// Runs simulations side by side, as many as there are processors; what each found, in order. One step each.
    ///
    /// # Errors
    /// The first of theirs; no more are begun then.
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

    /// How long and how often to measure.
    pub fn pace(&self) -> Pace {
        let (warm_up, duration, repetitions) = match self.effort {
            Effort::Full => (60, 240, 7),
            Effort::Quick => (30, 70, 3),
            Effort::Trial => (0, 0, 2),
        };
        let (warm_up, duration) = (Duration::from_millis(warm_up), Duration::from_millis(duration));
        Pace { warm_up, duration, repetitions }
    }

    /// The numbers of this round's native repetitions of a figure: fewer where no claim is judged by them.
    pub fn repetitions(&self, figure: &str) -> std::ops::Range<u64> {
        let each = self.pace().repetitions;
        let each = if self.is_judged(Site::Native, figure) { each } else { each.min(BESIDE) };
        self.round * each..(self.round + 1) * each
    }

    /// Runs of a point of a figure on the simulated machine, which differ by their seeds alone: by a third of a percent at most.
    /// So three are made of what is judged there, and one of what stands beside a native figure.
    pub fn simulated_repetitions(&self, figure: &str) -> u64 {
        match (&self.machine, self.effort) {
            (None, _) => 0,
            (Some(_), Effort::Full) if self.is_judged(Site::Simulated, figure) => SEEDS,
            (Some(_), _) => 1,
        }
    }

    /// Threads that can run at the same time, here or on the simulated machine.
    pub fn most_threads(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.cores.count as u64).max(self.cores)
    }

    /// The workloads' sizes, before a figure changes one.
    pub fn sizes(&self) -> Sizes {
        if self.effort == Effort::Trial { Sizes::small() } else { Sizes::default() }
    }

    /// Those of a figure's points that this effort measures: all, or the first, the middle and the last.
    pub fn points<T: Copy>(&self, all: &[T]) -> Vec<T> {
        if self.effort == Effort::Full || all.len() <= 3 {
            return all.to_vec();
        }
        vec![all[0], all[all.len() / 2], all[all.len() - 1]]
    }

    /// The paper's instruction, and the best one if that is another; none where lines cannot be written back. What is repeated is
    /// what is judged: the paper's.
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

    /// [`Session::instructions`] for figures that sweep a parameter: the first alone, unless in full.
    pub fn sweep_instructions(&self) -> Vec<WriteBackInstruction> {
        let mut all = self.instructions();
        if self.effort != Effort::Full {
            all.truncate(1);
        }
        all
    }

    /// A folder for pools.
    ///
    /// # Errors
    /// There is nowhere to write.
    pub fn place(&self) -> Result<Place, Error> {
        Place::in_memory().map_err(|error| Error::Io { what: "create a folder for pools".into(), error })
    }
}
