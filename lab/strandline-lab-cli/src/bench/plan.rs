//! What is to be measured.

use std::path::PathBuf;
use std::time::Duration;

use strandline_command::Place;
use strandline_core::memory::WriteBackInstruction;
use strandline_core::{Concurrency, Domain};
use strandline_workloads::{Length, PoolSetting, Run, Selection, Sizes, System, WorkloadKind};

/// Schemes × workloads × threads under one domain.
pub struct Plan {
    pub systems: Vec<System>,
    pub workloads: Vec<WorkloadKind>,
    pub threads: Vec<u64>,
    pub domain: Domain,
    pub instruction: Option<WriteBackInstruction>,
    pub sizes: Sizes,
    pub log_bytes: u64,
    /// Whether each transaction is timed.
    pub latency: bool,
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
        (self.systems.len() * self.workloads.len() * self.threads.len()) as u64 * self.repetitions
    }

    /// One measurement with this many threads. The warm-up fetches what another scheme's run has evicted.
    pub fn run(&self, threads: u64, repetition: u64) -> Run {
        Run {
            threads,
            length: Length::of(self.duration),
            seed: self.seed.wrapping_add(repetition),
            idle_percent: 0,
            latency: self.latency,
        }
    }

    /// The workloads, with their sizes.
    ///
    /// # Errors
    /// A size is impossible for one of them.
    pub fn selections(&self) -> strandline_core::Result<Vec<Selection>> {
        self.workloads.iter().map(|&name| Selection::new(name, &self.sizes)).collect()
    }

    /// The modes of the schemes that are to be measured, each once. The product has pools of its own.
    pub fn modes(&self) -> Vec<Concurrency> {
        let mut modes = Vec::new();
        for system in self.systems.iter().filter(|system| matches!(system, System::Scheme(_))) {
            if !modes.contains(&system.concurrency()) {
                modes.push(system.concurrency());
            }
        }
        modes
    }

    /// The file of a workload's pool: `which` tells several of a workload apart.
    pub fn file(&self, place: &Place, selection: &Selection, which: &str) -> PathBuf {
        let name = self.pool.as_ref().and_then(|path| path.file_name()).unwrap_or("pool".as_ref());
        let mut name = name.to_os_string();
        name.push(format!("-{}-{which}", selection.name()));
        place.folder().join(name)
    }

    /// How the pools are made.
    pub fn setting(&self, concurrency: Concurrency) -> PoolSetting {
        PoolSetting {
            logs: self.threads.iter().max().copied().unwrap_or(1).max(16),
            log_bytes: self.log_bytes,
            domain: self.domain,
            instruction: self.instruction,
            concurrency,
        }
    }
}
