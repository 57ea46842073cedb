//! `strandline bench`: measures transactions on typed collections, in this machine's memory and on its disk.

mod measure;
mod plan;
mod tables;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use strandline_bench::{Row, STORE_WORKLOADS, Sizes, StoreControl, StoreWorkload};
use strandline_command::arguments::{
    ControlName, DomainName, InstructionName, log_size, number, seconds, size,
};
use strandline_command::completion::{Names, names};
use strandline_command::output::print_json;
use strandline_command::{Failure, Outcome, interrupt, progress, say};

pub use measure::{Cell, Results};
pub use plan::{Plan, check_flags, check_sizes, place, threads_or};
use tables::latencies;

/// Sizes of a value of `kv`, in bytes.
const VALUE_SIZES: RangeInclusive<u64> = 1..=1 << 20;

/// The most bytes of all values of `kv` together.
const MOST_VALUE_BYTES: u64 = 1 << 30;

/// Nanoseconds that the emulated domain adds to each line written back.
const WRITE_LATENCY_NS: u64 = 150;

type StorePlan = Plan<StoreWorkload, StoreControl, Sizes>;

/// Measure transactions: how many a second, aborts, fences, lines flushed and log bytes.
#[derive(Clone, clap::Args)]
#[command(after_help = help())]
pub struct Arguments {
    /// Workloads, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = workload, add = names(workload_names))]
    workload: Vec<StoreWorkload>,
    /// How transactions are isolated, separated by commas [default: both]
    #[arg(long, value_delimiter = ',', value_enum)]
    control: Vec<ControlName>,
    /// Numbers of threads, 1 to 256, separated by commas [default: 1, and 8 on the disk too]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = number(1..=256u64))]
    threads: Vec<u64>,
    /// The persistence domain [default: emulated, then sync]
    #[arg(long, value_enum)]
    domain: Option<DomainName>,
    /// Nanoseconds, at most 1000000, that the emulated domain adds to each line written back [default: 150]
    #[arg(long, value_name = "NS", value_parser = number(0..=1_000_000u64))]
    write_latency_ns: Option<u64>,
    /// Bytes in a value of `kv`, 1 to 1M; it has fewer records if all values would be more than 1G [default: 100]
    #[arg(long, value_name = "BYTES", value_parser = size(VALUE_SIZES, 1))]
    value_size: Option<u64>,
    /// Operations in a transaction, 1 to 100000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=100_000u64))]
    ops_per_tx: u64,
    /// The percentage of transactions that only read [default: 50 for `kv`, 0 for the others]
    #[arg(long, value_name = "PERCENT", value_parser = number(0..=100u64))]
    read_share: Option<u64>,
    /// Time each transaction, and show percentiles; timing takes some time itself
    #[arg(long)]
    latency: bool,
    /// Bytes in each thread's log, 4K to 1G, a multiple of 4K
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = log_size)]
    log_size: u64,
    /// Seconds of each measurement, 0.01 to 86400 [default: 1, less without --domain]
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Where to put the pool file, which must not exist and is removed afterwards
    #[arg(long)]
    pool: Option<PathBuf>,
    /// How often everything is measured, in turn, 1 to 1000; medians are shown [default: 3, or 1 on the disk without
    /// --domain]
    #[arg(long, value_name = "N", value_parser = number(1..=1000u64))]
    repetitions: Option<u64>,
    /// The write-back instruction [default: the best that the processor has]
    #[arg(long, value_enum)]
    instruction: Option<InstructionName>,
    /// The seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print a JSON array of rows
    #[arg(long)]
    json: bool,
}

/// Returns the end of `--help`.
fn help() -> String {
    let workloads = STORE_WORKLOADS.iter().map(|of| format!("  {:9} {}\n", of.name, of.description));
    format!(
        "Examples:\n  \
         strandline bench\n  \
         strandline bench --workload kv --domain sync --threads 1,8,32 --latency\n  \
         strandline bench --workload hash,ordered --domain flush --control stm --json\n\n\
         Without --domain: emulated persistent memory, then this machine's disk; about a minute.\n\n\
         Workloads, each on a typed collection:\n{}\n\
         `strandline-lab bench` measures the schemes of papers in the same way.",
        workloads.collect::<String>()
    )
}

/// Returns the workloads' names with their descriptions.
fn workload_names() -> Names {
    STORE_WORKLOADS.iter().map(|of| (of.name.to_owned(), of.description.to_owned())).collect()
}

fn workload(name: &str) -> Result<StoreWorkload, String> {
    let found = STORE_WORKLOADS.into_iter().find(|workload| workload.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = STORE_WORKLOADS.iter().map(|workload| workload.name).collect();
        format!("workloads are {}; `strandline-lab bench` has those of papers", names.join(", "))
    })
}

/// Runs the benchmark.
///
/// # Errors
/// Returns an error if the flags do not go together or if a pool cannot be created.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let plans = arguments.plans()?;
    let chosen = plans.first().map_or(&[][..], |plan| &plan.workloads);
    if arguments.value_size.is_some() && !chosen.iter().any(|workload| workload.takes_value_bytes) {
        eprintln!("note: no use for --value-size: kv alone has values of any size");
    }
    let progress = progress::bar(plans.iter().map(StorePlan::steps).sum(), "measurements");
    interrupt::watch(interrupt::First::Ask)?;
    let mut rows: Vec<Row> = Vec::new();
    for plan in plans.iter().take_while(|_| !interrupt::is_asked()) {
        let results = measure::measure(plan, &progress)?;
        if !arguments.json {
            progress.suspend(|| say!("{}", tables::table_of(plan, &results)));
        }
        rows.extend(results.rows());
    }
    progress.finish_and_clear();
    print_rows(&rows, "control", arguments.json)?;
    Ok(Outcome::Success)
}

/// Prints the end of the output. As JSON, these are all rows; otherwise the percentiles of the rows that have some. `what_ran` is the header of the
/// column that names what ran the transactions.
///
/// # Errors
/// Returns an error if standard output cannot be written.
pub fn print_rows(rows: &[Row], what_ran: &str, json: bool) -> Result<(), Failure> {
    if json {
        print_json(rows)?;
    } else if let Some(table) = latencies(rows, what_ran) {
        say!("{table}");
    }
    Ok(())
}

impl Arguments {
    fn plans(&self) -> Result<Vec<StorePlan>, Failure> {
        match self.domain {
            Some(domain) => Ok(vec![self.plan(domain, &[1], 1.0, 3)?]),
            None => {
                let memory = self.plan(DomainName::Emulated, &[1], 0.25, 3)?;
                // A pool on disk uses neither the latency nor the instruction.
                let durable = Self { write_latency_ns: None, instruction: None, pool: None, ..self.clone() };
                Ok(vec![memory, durable.plan(DomainName::Sync, &[1, 8], 0.4, 1)?])
            }
        }
    }

    fn plan(
        &self,
        domain: DomainName,
        threads: &[u64],
        seconds: f64,
        repetitions: u64,
    ) -> Result<StorePlan, Failure> {
        check_flags(domain, self.write_latency_ns, self.instruction)?;
        let is_chosen = |workload: &StoreWorkload| {
            self.workload.is_empty() || self.workload.iter().any(|other| other.name == workload.name)
        };
        let controls = StoreControl::ALL.into_iter().filter(|control| {
            self.control.is_empty() || self.control.iter().any(|other| other.name() == control.name())
        });
        // Without optimisation the rates mean nothing, and filling large structures takes minutes.
        let default = if cfg!(debug_assertions) { Sizes::small() } else { Sizes::default() };
        let value_bytes = self.value_size.unwrap_or(default.value_bytes);
        let threads = threads_or(&self.threads, threads);
        check_sizes(&threads, self.log_size, value_bytes, self.ops_per_tx)?;
        Ok(Plan {
            workloads: STORE_WORKLOADS.into_iter().filter(is_chosen).collect(),
            systems: controls.collect(),
            threads,
            domain: domain.domain(self.write_latency_ns.unwrap_or(WRITE_LATENCY_NS)),
            instruction: self.instruction.map(Into::into),
            sizes: Sizes {
                value_bytes,
                records: default.records.min(MOST_VALUE_BYTES / value_bytes),
                operations: self.ops_per_tx,
                read_percent: self.read_share,
                ..default
            },
            log_bytes: self.log_size,
            latency: self.latency,
            duration: Duration::from_secs_f64(self.seconds.unwrap_or(seconds)),
            repetitions: self.repetitions.unwrap_or(repetitions),
            pool: self.pool.clone(),
            seed: self.seed,
        })
    }
}
