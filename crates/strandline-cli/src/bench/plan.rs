//! What is to be measured.

use std::path::PathBuf;
use std::time::Duration;

use strandline::memory::WriteBackInstruction;
use strandline::{Concurrency, Domain};
use strandline_workloads::{Run, SchemeName, Selection, Sizes, WorkloadName};

/// Schemes × workloads × threads under one domain.
pub struct Plan {
    pub schemes: Vec<SchemeName>,
    pub workloads: Vec<WorkloadName>,
    pub threads: Vec<u64>,
    pub domain: Domain,
    pub instruction: Option<WriteBackInstruction>,
    pub sizes: Sizes,
    pub log_bytes: u64,
    /// Of each measurement.
    pub duration: Duration,
    pub repetitions: u64,
    /// Where the user wants the pool.
    pub pool: Option<PathBuf>,
    pub seed: u64,
}

impl Plan {
    /// Measurements, for showing progress.
    pub fn steps(&self) -> u64 {
        (self.schemes.len() * self.workloads.len() * self.threads.len()) as u64 * self.repetitions
    }

    /// One measurement with this many threads. The warm-up fetches what another scheme's run has evicted.
    pub fn run(&self, threads: u64, repetition: u64) -> Run {
        let warm_up = (self.duration / 5).clamp(Duration::from_millis(50), Duration::from_millis(500));
        Run { threads, warm_up, duration: self.duration, seed: self.seed.wrapping_add(repetition) }
    }

    /// The workloads, with their sizes.
    ///
    /// # Errors
    /// A size is impossible for one of them.
    pub fn selections(&self) -> strandline::Result<Vec<Selection>> {
        self.workloads.iter().map(|&name| Selection::new(name, &self.sizes)).collect()
    }

    /// The modes of the schemes that are to be measured, each once.
    pub fn modes(&self) -> Vec<Concurrency> {
        let mut modes = Vec::new();
        for scheme in &self.schemes {
            if !modes.contains(&scheme.concurrency) {
                modes.push(scheme.concurrency);
            }
        }
        modes
    }
}
