//! `strandline simulate`: one run of a scheme and a workload, or of a recorded trace, on a simulated machine.

mod tables;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use indicatif::ProgressBar;
use serde::Serialize;
use strandline_core::memory::Event;
use strandline_sim::run::{Finished, PoolSizes, Prepared, Run, recover};
use strandline_sim::{Description, Machine, file, scheme, trace};
use strandline_workloads::{Parameter, SchemeName, Sizes, UnknownName, WorkloadKind, Workloads};

use crate::arguments::{bytes, takes};
use crate::failure::{Failure, Outcome};

/// Run a scheme and a workload on a simulated machine.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    strandline simulate --machine atom --scheme bppm --workload hash --threads 8\n  \
    strandline simulate --machine loc --set nvm.write_ns=500 --set cache.LLC.bytes=2_097_152 --json\n  \
    strandline simulate --crash-at 100000,200000\n  \
    valgrind --tool=lackey --trace-mem=yes --log-file=trace ls; strandline simulate --trace trace\n\n\
    Machines, schemes and workloads are those of `strandline list`; docs/machines.md says how to describe a machine.")]
pub struct Arguments {
    /// A machine of `strandline list`, or the path of a TOML file
    #[arg(long, default_value = "opteron")]
    machine: String,
    /// Replaces a value of the machine, such as nvm.write_ns=500 or cache.L1.ways=4; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The software scheme
    #[arg(long, default_value = "bppm", value_parser = software)]
    scheme: SchemeName,
    /// What the machine does for durability beyond caches and controllers
    #[arg(long, default_value = "none")]
    hardware: String,
    /// The workload
    #[arg(long, default_value = "hash")]
    workload: String,
    /// Threads, each on a core of its own, or taking turns where the machine has time slices
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// The share of its time in percent that a thread is idle after each transaction; others may have its core meanwhile
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..100))]
    idle: u64,
    /// Transactions of each thread that count
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    transactions: u64,
    /// Transactions of each thread before anything counts
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    warm_up: u64,
    /// Bytes in a value (K allowed)
    #[arg(long, default_value = "8", value_parser = bytes)]
    value_size: u64,
    /// Operations in a transaction
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    ops_per_tx: u64,
    /// Bytes in each thread's log, a multiple of 4096 (K, M allowed)
    #[arg(long, default_value = "1M", value_parser = bytes)]
    log_size: u64,
    /// Seeds the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs a program's accesses instead: what `valgrind --tool=lackey --trace-mem=yes` has printed, or a binary trace
    #[arg(long, value_name = "FILE", conflicts_with_all = WORKLOAD_FLAGS)]
    trace: Option<std::path::PathBuf>,
    /// Writes what the threads do to a binary trace, the warm-up included; with --trace what that says, in fewer bytes
    #[arg(long, value_name = "FILE")]
    record: Option<std::path::PathBuf>,
    /// Cycles (from the threads' start, warm-up included) at which power fails, separated by commas; each time recovery runs on
    /// what survives, and the run goes on
    #[arg(long, value_delimiter = ',', value_name = "CYCLE")]
    crash_at: Vec<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What means nothing to a trace.
const WORKLOAD_FLAGS: [&str; 11] = [
    "scheme",
    "workload",
    "threads",
    "idle",
    "transactions",
    "warm_up",
    "value_size",
    "ops_per_tx",
    "log_size",
    "seed",
    "crash_at",
];

fn software(name: &str) -> Result<SchemeName, UnknownName> {
    name.parse()
}

/// What a power failure left, and what recovery made of it.
#[derive(Serialize)]
struct CrashReport {
    /// The cycle.
    at: u64,
    /// Transactions that had entered commit.
    entered_commit: usize,
    /// Transactions that had been acknowledged as durable.
    acknowledged: usize,
    /// What recovery found; absent if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<Recovered>,
    /// Why recovery failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What recovery found and did.
#[derive(Serialize)]
struct Recovered {
    /// Log records read.
    records: u64,
    /// Committed transactions in the logs.
    committed: u64,
    /// Of these, replayed.
    replayed: u64,
    /// Words stored home.
    words: u64,
}

/// How fast the host simulated: no part of the result, which is the same on every host.
#[derive(Serialize)]
struct Host {
    accesses: u64,
    seconds: f64,
    accesses_per_s: f64,
}

impl Host {
    fn new(accesses: u64, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        Self { accesses, seconds, accesses_per_s: accesses as f64 / seconds.max(1e-9) }
    }
}

/// Runs it.
///
/// # Errors
/// There is no such machine, workload or hardware scheme; a size is impossible; the machine has too few cores.
pub fn run(arguments: &Arguments, workloads: Workloads) -> Result<Outcome, Failure> {
    let machine =
        file::load(&arguments.machine, &arguments.set).map_err(|error| Failure::Usage(error.to_string()))?;
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(200));
    if let Some(path) = &arguments.trace {
        progress.set_message("running the trace");
        let recording = Recording::default();
        let finished = trace::run_with(path, &machine, arguments.hardware()?, |machine, header| {
            if let Some(to) = &arguments.record {
                recording.begin(to, header, machine);
            }
        });
        progress.finish_and_clear();
        let finished = finished.map_err(|error| Failure::Usage(error.to_string()))?;
        recording.finish()?;
        let host = Host::new(finished.accesses, finished.host_time);
        if arguments.json {
            say!("{:#}", serde_json::json!({ "result": finished.outcome, "host": host }));
        } else {
            say!("{}\n{}", tables::trace(&finished.outcome), tables::host(&host));
        }
        return Ok(Outcome::Success);
    }
    let workload = workloads.of_name(&arguments.workload)?;
    if arguments.value_size != 8 {
        takes(&[workload], &[Parameter::ValueBytes]);
    }
    if arguments.ops_per_tx != 1 {
        takes(&[workload], &[Parameter::Operations]);
    }
    let outcome = arguments.simulate(&machine, workload, &progress);
    progress.finish_and_clear();
    let (finished, crashes) = outcome?;
    let host = Host::new(finished.accesses, finished.host_time);
    let missed = arguments.crash_at.len() - crashes.len();
    if missed > 0 {
        eprintln!("note: the run had ended before {missed} of the cycles of --crash-at");
    }
    if arguments.json {
        let object = serde_json::json!({ "result": finished.outcome, "crashes": crashes, "host": host });
        say!("{object:#}");
    } else {
        say!("{}", tables::run(&finished.outcome));
        if !crashes.is_empty() {
            say!("{}", tables::crashes(&crashes));
        }
        say!("{}", tables::host(&host));
    }
    let failed = crashes.iter().any(|crash| crash.error.is_some());
    Ok(if failed { Outcome::Finding } else { Outcome::Success })
}

/// Who writes a file, or why there is none.
type Written = io::Result<trace::Writer<BufWriter<File>>>;

/// A binary trace that is being written.
#[derive(Default)]
struct Recording {
    path: RefCell<PathBuf>,
    writer: Rc<RefCell<Option<Written>>>,
}

impl Recording {
    /// Writes what runs on `machine` to `path`.
    fn begin(&self, path: &Path, header: &trace::Header, machine: &Machine) {
        *self.path.borrow_mut() = path.into();
        let file = File::create(path).map(BufWriter::new);
        *self.writer.borrow_mut() = Some(file.and_then(|file| trace::Writer::new(file, header)));
        let tape = self.writer.clone();
        machine.record(Box::new(move |thread, taped| {
            if let Some(Ok(writer)) = tape.borrow_mut().as_mut() {
                writer.add(thread, taped);
            }
        }));
    }

    /// Ends the file, if there is one.
    fn finish(self) -> Result<(), Failure> {
        let written = match self.writer.take() {
            None => Ok(()),
            Some(writer) => writer.and_then(trace::Writer::finish),
        };
        written.map_err(Failure::io(format!("write the trace {}", self.path.borrow().display())))
    }
}

impl Arguments {
    fn hardware(&self) -> Result<&'static scheme::Entry, Failure> {
        scheme::find(&self.hardware).ok_or_else(|| {
            let names: Vec<_> = scheme::SCHEMES.iter().map(|entry| entry.name).collect();
            Failure::Usage(format!(
                "there is no hardware scheme {:?}; choose from {}",
                self.hardware,
                names.join(", ")
            ))
        })
    }

    fn simulate(
        &self,
        machine: &Description,
        workload: WorkloadKind,
        progress: &ProgressBar,
    ) -> Result<(Finished, Vec<CrashReport>), Failure> {
        let hardware = self.hardware()?;
        let run = Run {
            scheme: self.scheme,
            threads: self.threads as usize,
            transactions: self.transactions,
            warm_up: self.warm_up,
            idle_percent: self.idle,
            seed: self.seed,
        };
        // Before the pool is filled, which takes seconds.
        if run.threads > machine.cores.count && machine.time_slices.is_none() {
            return Err(Failure::Usage(format!(
                "--threads {}: the machine has {} cores (--set cores.count=N gives it more, --set time_slices.slice_ns=9e6 shares them)",
                run.threads, machine.cores.count
            )));
        }
        progress.set_message("filling the pool");
        let sizes = Sizes { value_bytes: self.value_size, operations: self.ops_per_tx, ..Sizes::default() };
        let pool = PoolSizes { log_bytes: self.log_size, ..PoolSizes::default() };
        let prepared = Prepared::of_scope(workload, &sizes, pool, run.threads, run.scheme, machine)?;
        progress.set_message("simulating");
        let crash_at = self.crash_at.clone();
        let mut finished = match &self.record {
            None => prepared.run(machine, hardware, &run, crash_at)?,
            Some(path) => {
                let recording = Recording::default();
                let header = prepared.header(machine.cores.count.min(run.threads + 1));
                let finished = prepared.run_with(machine, hardware, &run, crash_at, |machine| {
                    recording.begin(path, &header, machine);
                })?;
                recording.finish()?;
                finished
            }
        };
        progress.set_message("recovering");
        let crashes = std::mem::take(&mut finished.crashes);
        let crashes = crashes
            .into_iter()
            .map(|crash| {
                let before = &finished.events[..crash.events];
                let count = |of: fn(&Event) -> bool| before.iter().filter(|told| of(&told.event)).count();
                let recovered = recover(&prepared, machine, self.scheme, hardware, crash.image);
                CrashReport {
                    at: crash.at,
                    entered_commit: count(|event| matches!(event, Event::Commit(1..))),
                    acknowledged: count(|event| matches!(event, Event::Acknowledged(1..))),
                    error: recovered.as_ref().err().map(ToString::to_string),
                    recovered: recovered.ok().map(|(_, report)| Recovered {
                        records: report.records,
                        committed: report.committed,
                        replayed: report.replayed,
                        words: report.words,
                    }),
                }
            })
            .collect();
        Ok((finished, crashes))
    }
}
