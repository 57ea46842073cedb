//! The sizes of a run: the numerical flags and the choice of keys, each of which can be swept.

use strandline_sim::run::{PoolSizes, Run};
use strandline_sim::scheme::Parameter;
use strandline_workloads::{Keys, SchemeName, Sizes, UnknownName};

use strandline_cli::bench::check_sizes;
use strandline_command::Failure;
use strandline_command::arguments::{LOG_SIZES, PAGE, VALUE_SIZES, log_size, number, size};

/// The parameter of software schemes that keep logs. Their pools depend on nothing else that could be varied; the rest is the format.
pub const LOG_SIZE: Parameter = Parameter {
    name: "log-size",
    unit: "bytes",
    range: LOG_SIZES,
    default: 1 << 20,
    description: "each thread's log, a multiple of 4096: how much is logged before a bulk persistence, or before the log restarts",
};

/// The maximum of `--transactions`.
const MOST_TRANSACTIONS: u64 = 1_000_000_000;

/// The maximum of `--ops-per-tx`.
const MOST_OPERATIONS: u64 = 100_000;

/// The flags of a run that can be swept.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Settings {
    /// Threads, 1 to 64, each on a core of its own; on a machine with time slices they may share cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=64u64))]
    pub threads: u64,
    /// The percentage of its time, 0 to 99, that a thread is idle after each transaction; others may use its core meanwhile
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = number(0..=99u64))]
    pub idle: u64,
    /// Transactions of each thread that count, 1 to 1000000000
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = number(1..=MOST_TRANSACTIONS))]
    pub transactions: u64,
    /// Transactions of each thread before anything counts, at most 1000000000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = number(0..=MOST_TRANSACTIONS))]
    pub warm_up: u64,
    /// Bytes in a value, 1 to 4K; most workloads require a multiple of 8
    #[arg(long, value_name = "BYTES", default_value = "8", value_parser = size(VALUE_SIZES, 1))]
    pub value_size: u64,
    /// Operations in a transaction, 1 to 100000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=MOST_OPERATIONS))]
    pub ops_per_tx: u64,
    /// How threads choose the keys of maps: `even`, `zipfian` (popular ones more often, exponent 0.99) or `disjoint` (each of up to 64 threads has
    /// its own)
    #[arg(long, default_value = "even", value_parser = keys)]
    pub keys: Keys,
    /// Bytes in each thread's log, 4K to 1G, a multiple of 4K
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = log_size)]
    pub log_size: u64,
    /// The seed of the random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

fn keys(name: &str) -> Result<Keys, UnknownName> {
    name.parse()
}

impl Settings {
    /// Sets the flag with this name, without its dashes. Returns whether there is such a flag.
    ///
    /// # Errors
    /// Returns an error if it cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, Failure> {
        if name == "keys" {
            self.keys =
                keys(value).map_err(|error| Failure::Usage(format!("--sweep keys={value}: {error}")))?;
            return Ok(true);
        }
        let (place, parsed) = match name {
            "threads" => (&mut self.threads, number(1..=64)(value)),
            "idle" => (&mut self.idle, number(0..=99)(value)),
            "transactions" => (&mut self.transactions, number(1..=MOST_TRANSACTIONS)(value)),
            "warm-up" => (&mut self.warm_up, number(0..=MOST_TRANSACTIONS)(value)),
            "value-size" => (&mut self.value_size, size(VALUE_SIZES, 1)(value)),
            "ops-per-tx" => (&mut self.ops_per_tx, number(1..=MOST_OPERATIONS)(value)),
            "log-size" => (&mut self.log_size, size(LOG_SIZES, PAGE)(value)),
            "seed" => (&mut self.seed, number(0..=u64::MAX)(value)),
            _ => return Ok(false),
        };
        *place = parsed.map_err(|expected| Failure::Usage(format!("--sweep {name}={value}: {expected}")))?;
        Ok(true)
    }

    /// Checks that the sizes are consistent.
    ///
    /// # Errors
    /// Returns [`Failure::Usage`] with what to choose instead.
    pub fn check(&self) -> Result<(), Failure> {
        check_sizes(&[self.threads], self.log_size, self.value_size, self.ops_per_tx)
    }

    /// Returns the workload's sizes.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            value_bytes: self.value_size,
            operations: self.ops_per_tx,
            keys: self.keys,
            ..Sizes::default()
        }
    }

    /// Returns the pool's sizes.
    pub fn pool(&self) -> PoolSizes {
        PoolSizes { log_bytes: self.log_size, ..PoolSizes::default() }
    }

    /// Returns a run of `scheme`.
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

    /// The flag has the default and the range of the parameter.
    #[test]
    fn the_size_of_logs_is_described_as_it_is() {
        let mut settings = Command::parse_from(["simulate"]).settings;
        assert_eq!((settings.log_size, PoolSizes::default().log_bytes), (LOG_SIZE.default, LOG_SIZE.default));
        assert!(settings.set(LOG_SIZE.name, "64K").unwrap());
        assert_eq!(settings.pool().log_bytes, 64 << 10);
        for wrong in ["0", "4095", "2000M"] {
            let refused = settings.set(LOG_SIZE.name, wrong).unwrap_err().to_string();
            assert!(refused.contains("4K to 1G"), "{refused}");
        }
    }
}
