//! What is to be measured.

use std::path::{Path, PathBuf};
use std::time::Duration;

use strandline_bench::{Length, PoolSetting, Run, Sizes, StoreControl, StoreWorkload};
use strandline_command::{Failure, Place};
use strandline_core::memory::WriteBackInstruction;
use strandline_core::{Concurrency, Domain};

/// Workloads × controls × threads under one domain.
pub struct Plan {
    pub workloads: Vec<StoreWorkload>,
    pub controls: Vec<StoreControl>,
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
        (self.workloads.len() * self.controls.len() * self.threads.len()) as u64 * self.repetitions
    }

    /// One measurement with this many threads. The warm-up fetches what another run has evicted.
    pub fn run(&self, threads: u64, repetition: u64) -> Run {
        Run {
            threads,
            length: Length::of(self.duration),
            seed: self.seed.wrapping_add(repetition),
            idle_percent: 0,
            latency: self.latency,
        }
    }

    /// The most threads of a measurement.
    pub fn most_threads(&self) -> u64 {
        self.threads.iter().max().copied().unwrap_or(1)
    }

    /// How the pools are made.
    pub fn setting(&self) -> PoolSetting {
        PoolSetting {
            logs: self.most_threads().max(16),
            log_bytes: self.log_bytes,
            domain: self.domain,
            instruction: self.instruction,
            concurrency: Concurrency::Stm,
        }
    }
}

/// Where pools for measuring under `domain` go: memory for every domain but `sync`, which needs a file system on a disk; or beside the
/// pool that the user named.
///
/// # Errors
/// There is nowhere to write, or a file of that name exists.
pub fn place(pool: Option<&Path>, domain: Domain) -> Result<Place, Failure> {
    let Some(path) = pool else {
        let place = if domain == Domain::Sync { Place::on_disk() } else { Place::in_memory() };
        return place.map_err(Failure::io("create a temporary folder"));
    };
    if path.exists() {
        return Err(Failure::Usage(format!(
            "{} exists; --pool names a file that bench creates and removes",
            path.display()
        )));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Place::within(parent.unwrap_or(Path::new(".")))
        .map_err(Failure::io(format!("create a pool at {}", path.display())))
}
