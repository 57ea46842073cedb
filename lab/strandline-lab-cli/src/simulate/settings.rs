//! How much a run does: the flags that are numbers, each of which can be swept.

use strandline_sim::run::{PoolSizes, Run};
use strandline_sim::scheme::Parameter;
use strandline_workloads::{SchemeName, Sizes};

use strandline_command::Failure;
use strandline_command::arguments::bytes;

/// What can be set of a software scheme that keeps logs. All else that its pools depend on is the form of what lies in them.
pub const LOG_SIZE: Parameter = Parameter {
    name: "log-size",
    unit: "bytes",
    range: 4096..=1 << 30,
    default: 1 << 20,
    description: "each thread's log, a multiple of 4096: how much is logged before a bulk persistence, or before the log begins anew",
};

/// The flags of a run that are numbers.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Settings {
    /// Threads, each on a core of its own, or taking turns where the machine has time slices
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: u64,
    /// The share of its time in percent that a thread is idle after each transaction; others may have its core meanwhile
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..100))]
    pub idle: u64,
    /// Transactions of each thread that count
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub transactions: u64,
    /// Transactions of each thread before anything counts
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub warm_up: u64,
    /// Bytes in a value (K allowed)
    #[arg(long, default_value = "8", value_parser = bytes)]
    pub value_size: u64,
    /// Operations in a transaction
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub ops_per_tx: u64,
    /// Bytes in each thread's log, a multiple of 4096 (K, M allowed)
    #[arg(long, default_value = "1M", value_parser = bytes)]
    pub log_size: u64,
    /// Seeds the random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Settings {
    /// Sets the flag of this name, without its dashes; whether there is one.
    ///
    /// # Errors
    /// It cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, Failure> {
        let (place, range) = match name {
            "threads" => (&mut self.threads, 1..=64),
            "idle" => (&mut self.idle, 0..=99),
            "transactions" => (&mut self.transactions, 1..=1_000_000_000),
            "warm-up" => (&mut self.warm_up, 0..=1_000_000_000),
            "value-size" => (&mut self.value_size, 1..=u64::MAX),
            "ops-per-tx" => (&mut self.ops_per_tx, 1..=100_000),
            "log-size" => (&mut self.log_size, LOG_SIZE.range),
            "seed" => (&mut self.seed, 0..=u64::MAX),
            _ => return Ok(false),
        };
        let number = bytes(value).ok().filter(|number| range.contains(number));
        *place = number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            let most = if *most == u64::MAX { "any number".into() } else { most.to_string() };
            Failure::Usage(format!("--sweep {name}={value}: must be {least} to {most}"))
        })?;
        Ok(true)
    }

    /// The workload's sizes.
    pub fn sizes(&self) -> Sizes {
        Sizes { value_bytes: self.value_size, operations: self.ops_per_tx, ..Sizes::default() }
    }

    /// The pool's.
    pub fn pool(&self) -> PoolSizes {
        PoolSizes { log_bytes: self.log_size, ..PoolSizes::default() }
    }

    /// A run of `scheme`.
    pub fn run(&self, scheme: SchemeName) -> Run {
        Run {
            scheme,
            threads: self.threads as usize,
            transactions: self.transactions,
            warm_up: self.warm_up,
            idle_percent: self.idle,
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        settings: Settings,
    }

    /// What the flag does is what is said of the parameter.
    #[test]
    fn the_size_of_logs_is_described_as_it_is() {
        let mut settings = Command::parse_from(["simulate"]).settings;
        assert_eq!((settings.log_size, PoolSizes::default().log_bytes), (LOG_SIZE.default, LOG_SIZE.default));
        assert!(settings.set(LOG_SIZE.name, "64K").unwrap());
        assert_eq!(settings.pool().log_bytes, 64 << 10);
        for wrong in ["0", "4095", "2000M"] {
            let refused = settings.set(LOG_SIZE.name, wrong).unwrap_err().to_string();
            assert!(refused.contains("4096 to 1073741824"), "{refused}");
        }
    }
}
