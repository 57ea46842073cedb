//! The plan of a benchmark.

use std::path::{Path, PathBuf};
use std::time::Duration;

use strandline_bench::{Length, PoolSetting, Run};
use strandline_command::arguments::{DomainName, InstructionName, in_units};
use strandline_command::{Failure, Place};
use strandline_core::memory::WriteBackInstruction;
use strandline_core::{Concurrency, Domain};

/// The least number of logs in a pool.
const LOGS: u64 = 16;

/// A plan to measure each workload with each system and each number of threads, under one domain.
#[derive(Clone)]
pub struct Plan<Workload, System, Sizes> {
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The systems that run the transactions: schemes or concurrency controls.
    pub systems: Vec<System>,
    /// The numbers of threads, in ascending order.
    pub threads: Vec<u64>,
    /// The persistence domain.
    pub domain: Domain,
    /// The write-back instruction; `None` selects the best that the processor has.
    pub instruction: Option<WriteBackInstruction>,
    /// The sizes of transactions and structures.
    pub sizes: Sizes,
    /// Size of each thread's log, in bytes.
    pub log_bytes: u64,
    /// True to time each transaction.
    pub latency: bool,
    /// The duration of each measurement.
    pub duration: Duration,
    /// The number of times that everything is measured.
    pub repetitions: u64,
    /// The path of the pool, if the user has chosen one.
    pub pool: Option<PathBuf>,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl<Workload, System, Sizes> Plan<Workload, System, Sizes> {
    /// Returns the number of measurements, for the progress bar.
    pub fn steps(&self) -> u64 {
        (self.workloads.len() * self.systems.len() * self.threads.len()) as u64 * self.repetitions
    }

    /// Returns the run of one measurement. Its warm-up fetches data that another run has evicted from the caches.
    pub fn run(&self, threads: u64, repetition: u64) -> Run {
        Run {
            threads,
            length: Length::of(self.duration),
            seed: self.seed.wrapping_add(repetition),
            idle_percent: 0,
            latency: self.latency,
        }
    }

    /// Returns the highest number of threads.
    pub fn most_threads(&self) -> u64 {
        self.threads.iter().max().copied().unwrap_or(1)
    }

    /// Returns how to make the pools.
    pub fn setting(&self, concurrency: Concurrency) -> PoolSetting {
        PoolSetting {
            logs: self.most_threads().max(LOGS),
            log_bytes: self.log_bytes,
            domain: self.domain,
            instruction: self.instruction,
            concurrency,
        }
    }
}

/// Checks the flags that only some domains accept.
///
/// # Errors
/// Returns an error if a flag was given that `domain` does not accept.
pub fn check_flags(
    domain: DomainName,
    write_latency_ns: Option<u64>,
    instruction: Option<InstructionName>,
) -> Result<(), Failure> {
    if write_latency_ns.is_some() && domain != DomainName::Emulated {
        return Err(Failure::Usage(
            "--write-latency-ns goes with --domain emulated alone: leave it out, or choose that domain"
                .into(),
        ));
    }
    if instruction.is_some() && !matches!(domain, DomainName::Emulated | DomainName::Flush) {
        return Err(Failure::Usage(
            "--instruction goes with --domain flush or emulated alone: leave it out, or choose one of them"
                .into(),
        ));
    }
    Ok(())
}

/// The most bytes that a pool's logs may take, and that a transaction may write.
const MOST_LOG_BYTES: u64 = 16 << 30;
const MOST_TRANSACTION_BYTES: u64 = 256 << 20;

/// Checks that logs and transactions are not too large for a benchmark.
///
/// # Errors
/// Returns [`Failure::Usage`] with advice on what to choose instead.
pub fn check_sizes(
    threads: &[u64],
    log_bytes: u64,
    value_bytes: u64,
    operations: u64,
) -> Result<(), Failure> {
    let logs = threads.iter().max().copied().unwrap_or(1).max(LOGS);
    let all_logs = logs.saturating_mul(log_bytes);
    if all_logs > MOST_LOG_BYTES {
        return Err(Failure::Usage(format!(
            "{logs} logs of {} are more than {}: choose a smaller --log-size, or fewer --threads",
            in_units(log_bytes),
            in_units(MOST_LOG_BYTES)
        )));
    }
    if value_bytes.saturating_mul(operations) > MOST_TRANSACTION_BYTES {
        return Err(Failure::Usage(format!(
            "{operations} values of {} are more than {} in a transaction: choose a smaller --value-size or --ops-per-tx",
            in_units(value_bytes),
            in_units(MOST_TRANSACTION_BYTES)
        )));
    }
    Ok(())
}

/// Returns the given numbers of threads, or the default ones if none are given, sorted and without duplicates.
pub fn threads_or(given: &[u64], default: &[u64]) -> Vec<u64> {
    let mut threads = if given.is_empty() { default.to_vec() } else { given.to_vec() };
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// Returns the folder for pools under `domain`: in memory for each domain but `sync`, which needs a file system on disk. If the user has chosen a
/// path for the pool, the folder is beside it.
///
/// # Errors
/// Returns an error if no folder can be created, or if the user's file exists.
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
