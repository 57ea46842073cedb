//! `strandline-lab bench`: schemes × workloads on this machine's memory and disk.

mod durable;
mod instructions;
mod interfaces;
mod memory;
mod plan;
mod tables;

use std::time::Duration;
use strandline_command::say;

use strandline_cli::bench::{check_flags, check_sizes, print_rows, threads_or};
use strandline_core::Domain;
use strandline_workloads::{
    DEFAULT_WRITE_LATENCY_NS, Keys, Parameter, Row, Sizes, System, UnknownName, WorkloadKind, Workloads,
};

use crate::options::unused;
pub use instructions::{CHILD, ChildArguments, run_child};
use interfaces::{Interface, Page};
use plan::Plan;
use strandline_command::arguments::{
    DomainName, InstructionName, VALUE_SIZES, log_size, number, seconds, size,
};
use strandline_command::output::print_json;
use strandline_command::{Failure, Outcome};
use strandline_command::{interrupt, progress};

/// Measure schemes on workloads: transactions per second, aborts, fences, lines flushed and log bytes.
#[derive(Clone, clap::Args)]
#[command(after_help = "Examples:\n  \
    strandline-lab bench\n  \
    strandline-lab bench --scheme np,bppm --workload hash --threads 1,2 --json\n  \
    strandline-lab bench --instructions --workload sps,hash --scheme strandline\n  \
    strandline-lab bench --interface engine,types\n\n\
    Without flags: the paper's systems on its five workloads under emulated NVM latency, then the same transactions \
    durably on this machine's disk; about a minute. With --scheme, --workload, --threads or --domain, one measurement \
    runs instead. Those not given mean all schemes, all workloads, one thread, and emulated memory. Names are \
    those of `strandline-lab list`.")]
pub struct Arguments {
    /// Schemes, separated by commas [default: all that the domain supports]
    #[arg(long, value_delimiter = ',', value_parser = system)]
    scheme: Vec<System>,
    /// Workloads, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
    /// Numbers of threads, 1 to 256, separated by commas [default: 1]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = number(1..=256u64))]
    threads: Vec<u64>,
    /// The persistence domain [default: emulated]
    #[arg(long, value_enum)]
    domain: Option<DomainName>,
    /// Nanoseconds, at most 1000000, that the emulated domain adds to each line written back [default: 150]
    #[arg(long, value_name = "NS", value_parser = number(0..=1_000_000u64))]
    write_latency_ns: Option<u64>,
    /// Bytes in a value, 1 to 4K; most workloads require a multiple of 8 [default: 8]
    #[arg(long, value_name = "BYTES", value_parser = size(VALUE_SIZES, 1))]
    value_size: Option<u64>,
    /// Operations in a transaction, 1 to 100000 [default: 1]
    #[arg(long, value_name = "N", value_parser = number(1..=100_000u64))]
    ops_per_tx: Option<u64>,
    /// The percentage of transactions that only look up what the others change [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = number(0..=100u64))]
    read_share: Option<u64>,
    /// How threads choose the keys of maps: `even`, `zipfian` (popular ones more often, exponent 0.99) or `disjoint` (each of up to 64 threads has
    /// its own) [default: even]
    #[arg(long, value_parser = keys)]
    keys: Option<Keys>,
    /// Time each transaction, and show percentiles; this slows the transactions down a little
    #[arg(long)]
    latency: bool,
    /// Bytes in each thread's log, 4K to 1G, a multiple of 4K [default: 1M, as in the paper]
    #[arg(long, value_name = "BYTES", value_parser = log_size)]
    log_size: Option<u64>,
    /// Seconds of each measurement, 0.01 to 86400 [default: 1, less without any flags]
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// The path of the pool file, which must not exist and is removed afterwards
    #[arg(long)]
    pool: Option<std::path::PathBuf>,
    /// Repetitions of all measurements, interleaved, 1 to 1000; medians are shown [default: 3]
    #[arg(long, value_name = "N", value_parser = number(1..=1000u64))]
    repetitions: Option<u64>,
    /// The write-back instruction [default: the best that the processor has]
    #[arg(long, value_enum)]
    instruction: Option<InstructionName>,
    /// The seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Compare these interfaces instead, separated by commas, under STM and with a single writer: swaps, maps, a queue, large transactions and reads,
    /// per second of processor time, with the spread over the repetitions [default then: --domain flush --seconds 0.5 --repetitions 6]
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with_all = CHOSEN_FLAGS)]
    interface: Vec<Interface>,
    /// Also write the table of --interface into this page, between its comments `measured: interface` and `end of measurement`
    #[arg(long, requires = "interface")]
    page: Option<std::path::PathBuf>,
    /// Count instructions with valgrind instead, under flush-on-fail, on small structures [default schemes: strandline and
    /// strandline-types]
    #[arg(long, conflicts_with_all = TIMED_FLAGS)]
    instructions: bool,
    /// Print a JSON array of rows
    #[arg(long)]
    json: bool,
}

/// Flags that have no effect if instructions are counted.
const TIMED_FLAGS: [&str; 11] = [
    "latency",
    "threads",
    "domain",
    "write_latency_ns",
    "ops_per_tx",
    "read_share",
    "keys",
    "seconds",
    "pool",
    "repetitions",
    "instruction",
];

/// Flags that choose what --interface chooses.
const CHOSEN_FLAGS: [&str; 7] =
    ["scheme", "value_size", "ops_per_tx", "read_share", "keys", "latency", "instructions"];

/// The systems that are measured by default: those that Blurred Persistence compares, the reference, and the product.
const TOUR: [&str; 11] = [
    "volatile",
    "np",
    "base",
    "mne-sync",
    "mne-async",
    "xil",
    "vcbp",
    "bppm",
    "bppm+single-writer",
    "strandline",
    "strandline-types",
];

/// The systems whose instructions are counted by default.
const PRODUCT: [System; 2] = [System::Words, System::Types];

fn keys(name: &str) -> Result<Keys, UnknownName> {
    name.parse()
}

fn system(name: &str) -> Result<System, UnknownName> {
    name.parse()
}

/// Measures what the arguments choose, and prints tables or JSON.
///
/// # Errors
/// Returns an error if the flags contradict each other, or if a pool cannot be created.
pub fn run(arguments: &Arguments, workloads: Workloads) -> Result<Outcome, Failure> {
    let workloads = arguments.workloads(workloads)?;
    if arguments.instructions {
        return instructions::measure(&arguments.counted(&workloads)?, arguments.json);
    }
    if !arguments.interface.is_empty() {
        return arguments.compare(&workloads);
    }
    let plans = arguments.plans(&workloads)?;
    if let Some(plan) = plans.first() {
        let notes = unused(&plan.workloads, &arguments.given());
        notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
    let steps = plans.iter().map(Plan::steps).sum();
    let progress = progress::bar(steps, "measurements");
    interrupt::watch(interrupt::First::Ask)?;
    let mut rows: Vec<Row> = Vec::new();
    for plan in plans.iter().take_while(|_| !interrupt::is_asked()) {
        if plan.domain == Domain::Sync {
            let results = durable::measure(plan, &progress)?;
            if !arguments.json {
                progress.suspend(|| say!("{}", tables::durable(plan, &results)));
            }
            rows.extend(results.rows());
        } else {
            let results = memory::measure(plan, &progress)?;
            if !arguments.json {
                progress.suspend(|| say!("{}", tables::memory(plan, &results)));
            }
            rows.extend(results.rows());
        }
    }
    progress.finish_and_clear();
    print_rows(&rows, "scheme", arguments.json)?;
    Ok(Outcome::Success)
}

fn carries(domain: DomainName, system: &System) -> bool {
    domain != DomainName::Sync || system.in_sync()
}

impl Arguments {
    /// Measures the chosen interfaces, and prints the table or JSON.
    fn compare(&self, workloads: &[WorkloadKind]) -> Result<Outcome, Failure> {
        let domain = self.domain.unwrap_or(DomainName::Flush);
        if domain == DomainName::Sync {
            return Err(Failure::Usage(
                "--interface compares processor time, and a transaction on a disk waits: choose another --domain".into(),
            ));
        }
        let has_column = |name: &str| interfaces::workloads().any(|other| other == name);
        if let Some(name) = self.workload.iter().find(|name| !has_column(name)) {
            return Err(Failure::Usage(format!(
                "--interface has no column for {name}; choose from {}",
                interfaces::workloads().collect::<Vec<_>>().join(", ")
            )));
        }
        let page = self.page.as_deref().map(Page::find).transpose()?;
        let plan = self.plan(&[], domain, &[1], 0.5, 6)?;
        let plans = interfaces::plans(&self.interface, workloads, &plan);
        let progress = progress::bar(plans.iter().map(|(_, plan)| plan.steps()).sum(), "measurements");
        interrupt::watch(interrupt::First::Ask)?;
        let cells = interfaces::measure(&plans, &progress)?;
        progress.finish_and_clear();
        let table = interfaces::table(&plan, &cells);
        if self.json {
            print_json(&cells)?;
        } else {
            say!("{table}");
        }
        match page {
            Some(page) if interrupt::is_asked() => {
                eprintln!("note: interrupted; {} is unchanged", page.path().display());
            }
            Some(page) => page.write(&table)?,
            None => {}
        }
        Ok(Outcome::Success)
    }

    /// Returns whether the arguments choose no particular measurement.
    fn is_tour(&self) -> bool {
        self.scheme.is_empty() && self.workload.is_empty() && self.threads.is_empty() && self.domain.is_none()
    }

    /// Returns the given options that only some workloads use.
    fn given(&self) -> Vec<Parameter> {
        let all = [
            (self.value_size.is_some(), Parameter::ValueBytes),
            (self.ops_per_tx.is_some(), Parameter::Operations),
            (self.read_share.is_some(), Parameter::ReadShare),
            (self.keys.is_some(), Parameter::Keys),
        ];
        all.into_iter().filter_map(|(given, parameter)| given.then_some(parameter)).collect()
    }

    /// Returns the chosen workloads of `all`, or all of them if none is chosen.
    fn workloads(&self, all: Workloads) -> Result<Vec<WorkloadKind>, Failure> {
        for name in &self.workload {
            all.of_name(name).map_err(Failure::usage)?;
        }
        let is_chosen = |kind: &WorkloadKind| {
            self.workload.is_empty() || self.workload.iter().any(|name| name == kind.name)
        };
        Ok(all.iter().filter(is_chosen).collect())
    }

    /// Returns the plan of the systems whose instructions are counted.
    fn counted(&self, workloads: &[WorkloadKind]) -> Result<Plan, Failure> {
        let mut plan = self.plan(workloads, DomainName::FlushOnFail, &[1], 1.0, 1)?;
        if self.scheme.is_empty() {
            plan.systems = PRODUCT.to_vec();
        }
        let helped = |system: &System| match system {
            System::Scheme(scheme) => scheme.kind.is_some_and(|kind| kind.scheme.has_helper()),
            _ => false,
        };
        match plan.systems.iter().find(|system| helped(system)) {
            Some(system) => Err(Failure::Usage(format!(
                "{} has a thread that helps it, whose instructions are not the same in every run",
                system.name()
            ))),
            None => Ok(plan),
        }
    }

    fn plans(&self, workloads: &[WorkloadKind]) -> Result<Vec<Plan>, Failure> {
        if !self.is_tour() {
            return Ok(vec![self.plan(
                workloads,
                self.domain.unwrap_or(DomainName::Emulated),
                &[1],
                1.0,
                3,
            )?]);
        }
        let memory = self.plan(workloads, DomainName::Emulated, &[1], 0.25, 3)?;
        // The latency and the instruction have no effect on a disk.
        let durable = Self { write_latency_ns: None, instruction: None, pool: None, ..self.clone() };
        let mut plans = vec![memory, durable.plan(workloads, DomainName::Sync, &[1, 8], 0.4, 1)?];
        for plan in &mut plans {
            plan.workloads.retain(|kind| strandline_workloads::TOUR.contains(kind));
            plan.systems.retain(|system| TOUR.contains(&system.name()));
        }
        Ok(plans)
    }

    /// # Errors
    /// Returns an error if a chosen scheme does not run here, or not under this domain.
    fn check_schemes(&self, domain: DomainName) -> Result<(), Failure> {
        if let Some(scheme) = self.scheme.iter().find(|scheme| !carries(domain, scheme)) {
            return Err(Failure::Usage(format!(
                "the sync domain carries {}, not {}",
                System::all()
                    .filter(|other| other.in_sync())
                    .map(System::name)
                    .collect::<Vec<_>>()
                    .join(", "),
                scheme.name()
            )));
        }
        if let Some(scheme) = self.scheme.iter().find(|scheme| !scheme.is_native()) {
            return Err(Failure::Usage(format!(
                "{} cannot run on this processor: it needs persist barriers or a hardware scheme. Use `check` or \
                 `simulate`; `strandline-lab list` says what runs here",
                scheme.name()
            )));
        }
        Ok(())
    }

    fn plan(
        &self,
        workloads: &[WorkloadKind],
        domain: DomainName,
        threads: &[u64],
        seconds: f64,
        repetitions: u64,
    ) -> Result<Plan, Failure> {
        check_flags(domain, self.write_latency_ns, self.instruction)?;
        self.check_schemes(domain)?;
        let chosen = |given: &[System]| -> Vec<System> {
            let all = System::all().filter(|scheme| carries(domain, scheme) && scheme.is_native());
            all.filter(|scheme| given.is_empty() || given.contains(scheme)).collect()
        };
        let threads = threads_or(&self.threads, threads);
        let (value_bytes, operations) = (self.value_size.unwrap_or(8), self.ops_per_tx.unwrap_or(1));
        let log_bytes = self.log_size.unwrap_or(1 << 20);
        check_sizes(&threads, log_bytes, value_bytes, operations)?;
        let sizes = Sizes {
            value_bytes,
            operations,
            keys: self.keys.unwrap_or_default(),
            read_percent: self.read_share.unwrap_or(0),
            // Without optimisation the rates mean nothing, and filling large structures takes minutes.
            ..if cfg!(debug_assertions) { Sizes::small() } else { Sizes::default() }
        };
        Ok(Plan {
            systems: chosen(&self.scheme),
            workloads: workloads.to_vec(),
            threads,
            domain: domain.domain(self.write_latency_ns.unwrap_or(DEFAULT_WRITE_LATENCY_NS)),
            instruction: self.instruction.map(Into::into),
            sizes,
            log_bytes,
            latency: self.latency,
            duration: Duration::from_secs_f64(self.seconds.unwrap_or(seconds)),
            repetitions: self.repetitions.unwrap_or(repetitions),
            pool: self.pool.clone(),
            seed: self.seed,
        })
    }
}
