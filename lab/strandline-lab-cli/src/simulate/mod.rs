//! `strandline-lab simulate`: runs schemes and workloads, or a recorded trace, on a simulated machine.

mod crashes;
mod recording;
mod settings;
mod sweep;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use strandline_command::say;

use indicatif::ProgressBar;
use serde::Serialize;
use strandline_lab::Interval;
use strandline_lab::sweep::Shard;
use strandline_sim::numbers::Cycle;
use strandline_sim::run::{Finished, Prepared};
use strandline_sim::scheme::Entry;
use strandline_sim::{Description, Registry, file, trace};
use strandline_workloads::{Keys, Parameter, SchemeName, WorkloadKind};

use crate::options::unused;
use crashes::{CrashAt, CrashReport};
use recording::Recording;
pub use settings::LOG_SIZE;
use settings::Settings;
use strandline_command::arguments::number;
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome};
use strandline_command::{interrupt, progress};
pub use sweep::{ONE_SEED, finish, is_in, object, points, program, show};

/// Run a scheme and a workload on a simulated machine.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    strandline-lab simulate --machine atom --workload hash --threads 8\n  \
    strandline-lab simulate --machine loc --hardware loc-wal \\\n    \
    --set scheme.speculation=4 --set nvm.write_ns=500 --json\n  \
    strandline-lab simulate --crash-at 25%,50%,75%\n  \
    strandline-lab simulate --machine loc --scheme bppm,loc-wal \\\n    \
    --workload sps,hash --sweep nvm.write_ns=100,200,400 --csv\n  \
    strandline-lab simulate --sweep nvm.write_ns=100,200,400 --seeds 5 \\\n    \
    --shard 1/2 --out first\n  \
    valgrind --tool=lackey --trace-mem=yes --log-file=trace ls\n  \
    strandline-lab simulate --trace trace\n\n\
    Machines, schemes and workloads are those of `strandline-lab list`; with a name it shows the parameters of a scheme. \
    docs/machines.md says how to describe a machine.")]
pub struct Arguments {
    /// A machine of `strandline-lab list`, or the path of a TOML file
    #[arg(long, default_value = "opteron")]
    machine: String,
    /// Replace a value of the machine, such as nvm.write_ns=500, cache.L1.ways=4 or scheme.speculation=4; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Software schemes, hardware schemes, or pairs hardware/software, separated by commas [default: the hardware's own, or
    /// bppm]
    #[arg(long, value_delimiter = ',')]
    scheme: Vec<String>,
    /// Hardware schemes: what the machine adds for durability beyond caches and controllers, separated by commas [default: the one for which the
    /// software scheme was made, or none]
    #[arg(long, value_delimiter = ',')]
    hardware: Vec<String>,
    /// Workloads, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "hash")]
    workload: Vec<String>,
    #[command(flatten)]
    settings: Settings,
    /// Make a run for each of these values of a key of the machine, of --keys, or of one of the numbers above (threads=1,2,4), on all
    /// processors. May be repeated: all combinations run, with all schemes and workloads
    #[arg(long, value_name = "KEY=V1,V2,…")]
    sweep: Vec<Interval>,
    /// Make each run of a sweep with this number of seeds, 1 to 1000, from --seed on, and show the median, the lowest and the highest result
    /// [default: 3; 1 if seed is swept, or with --trace, which has no random numbers]
    #[arg(long, value_name = "N", value_parser = number(1..=1000u64))]
    seeds: Option<u64>,
    /// The folder for the results of a sweep: points.jsonl, to which each run is added when it ends, so that the same command can continue;
    /// points.csv; and index.html with plots
    #[arg(long, value_name = "FOLDER", default_value = "sweep")]
    out: PathBuf,
    /// Make only this part of a sweep's runs, such as 2/16, the second of sixteen, so that several machines share the work. Each needs a folder of
    /// its own (--out), and `strandline-lab merge` combines them
    #[arg(long, value_name = "N/OF")]
    shard: Option<Shard>,
    /// Print a sweep as comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Run a program's accesses instead: the output of `valgrind --tool=lackey --trace-mem=yes`, or a binary trace
    #[arg(long, value_name = "FILE", conflicts_with_all = WORKLOAD_FLAGS)]
    trace: Option<PathBuf>,
    /// Write the threads' operations, including the warm-up, to a binary trace; with --trace, convert that trace to this form
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The times at which power fails, separated by commas: cycles from the threads' start, including the warm-up, or a percentage of the part that
    /// counts, which then runs twice. Each time recovery runs on what survives, and the run continues
    #[arg(long, value_delimiter = ',', value_name = "CYCLE|PERCENT%")]
    crash_at: Vec<CrashAt>,
    /// Show every bank of the memory, too
    #[arg(long)]
    banks: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Flags that have no effect on a trace.
const WORKLOAD_FLAGS: [&str; 12] = [
    "scheme",
    "workload",
    "threads",
    "idle",
    "transactions",
    "warm_up",
    "value_size",
    "ops_per_tx",
    "keys",
    "log_size",
    "seed",
    "crash_at",
];

/// How fast the host simulated. Not part of the result, which is the same on every host.
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

/// The result of a run.
enum Found {
    /// The result of a workload's run.
    Run { finished: Box<Finished>, crashes: Vec<CrashReport>, notes: Vec<String>, host: Host },
    /// The result of a trace's run.
    Trace { outcome: Box<trace::Outcome>, host: Host },
}

impl Found {
    /// Returns what `--json` prints.
    fn object(&self) -> serde_json::Value {
        match self {
            Self::Run { finished, crashes, notes, host } => serde_json::json!({
                "schema": SCHEMA, "result": finished.outcome, "crashes": crashes, "notes": notes, "host": host,
            }),
            Self::Trace { outcome, host } => {
                serde_json::json!({ "schema": SCHEMA, "result": outcome, "host": host })
            }
        }
    }
}

/// Runs the simulation and prints the result.
///
/// # Errors
/// Returns an error if there is no such machine, workload or scheme, if scheme and hardware do not match, if a size is impossible, or if the machine
/// has too few cores.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Outcome, Failure> {
    if arguments.is_sweep() {
        return sweep::run(arguments, registry);
    }
    interrupt::watch(match arguments.trace {
        Some(_) => interrupt::First::End("ended; a trace has no figures before its end".into()),
        None => interrupt::First::Ask,
    })?;
    let progress = progress::spinner();
    let found = arguments.find(registry, interrupt::flag(), &progress);
    progress.finish_and_clear();
    let found = found?;
    if let Found::Run { notes, .. } = &found {
        notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
    if arguments.json {
        say!("{:#}", found.object());
    }
    match found {
        Found::Run { crashes, finished, host, .. } => {
            if !arguments.json {
                say!("{}", tables::run(&finished.outcome, arguments.banks));
                if !crashes.is_empty() {
                    say!("{}", tables::crashes(&crashes));
                }
                say!("{}", tables::host(&host));
            }
            let failed = crashes.iter().any(|crash| crash.error.is_some());
            Ok(if failed { Outcome::Finding } else { Outcome::Success })
        }
        Found::Trace { outcome, host } => {
            if !arguments.json {
                say!("{}\n{}", tables::trace(&outcome, arguments.banks), tables::host(&host));
            }
            Ok(Outcome::Success)
        }
    }
}

/// Like [`run`], but returns what `--json` prints. When `stop` becomes true, the run of a workload ends.
///
/// # Errors
/// As for [`run`], and an error for a sweep.
pub fn answer(
    arguments: &Arguments,
    registry: Registry,
    stop: &'static AtomicBool,
) -> Result<serde_json::Value, Failure> {
    if arguments.is_sweep() {
        return Err(Failure::Usage(
            "this is a sweep, of several runs: choose one scheme, hardware and workload, and no --sweep"
                .into(),
        ));
    }
    arguments.find(registry, stop, &ProgressBar::hidden()).map(|found| found.object())
}

impl Arguments {
    fn is_sweep(&self) -> bool {
        !self.sweep.is_empty()
            || self.seeds.is_some_and(|seeds| seeds > 1)
            || [&self.scheme, &self.hardware, &self.workload].iter().any(|names| names.len() > 1)
    }

    /// Makes one run.
    fn find(
        &self,
        registry: Registry,
        stop: &'static AtomicBool,
        progress: &ProgressBar,
    ) -> Result<Found, Failure> {
        let of_sweeps = [("--csv", self.csv), ("--shard", self.shard.is_some())];
        if let Some((flag, _)) = of_sweeps.iter().find(|(_, given)| *given) {
            return Err(Failure::Usage(format!(
                "{flag} is for sweeps: give several values (--sweep), schemes or workloads"
            )));
        }
        let machine =
            file::load(&self.machine, &self.set).map_err(|error| Failure::Usage(error.to_string()))?;
        let (scheme, hardware) = match (self.scheme.first(), self.hardware.first()) {
            (Some(name), None) => registry.system(name),
            (scheme, hardware) => registry.pair(scheme.map(String::as_str), hardware.map(String::as_str)),
        }
        .map_err(Failure::Usage)?;
        hardware.check_parameters(&machine.scheme).map_err(Failure::Usage)?;
        if let Some(path) = &self.trace {
            return self.run_trace(path, &machine, hardware, progress);
        }
        let name = self.workload.first().map_or("", String::as_str);
        let workload = registry.workloads.of_name(name).map_err(Failure::usage)?;
        let (finished, crashes) = self.simulate((&machine, scheme, hardware), workload, stop, progress)?;
        let notes = self.notes(workload, &finished, &crashes, stop.load(Relaxed));
        let host = Host::new(finished.accesses, finished.host_time);
        Ok(Found::Run { finished: Box::new(finished), crashes, notes, host })
    }

    /// Runs a trace.
    fn run_trace(
        &self,
        path: &Path,
        machine: &Description,
        hardware: &Entry,
        progress: &ProgressBar,
    ) -> Result<Found, Failure> {
        progress.set_message("running the trace");
        let recording = Recording::default();
        let finished = trace::run_with(path, machine, hardware, |machine, header| {
            if let Some(to) = &self.record {
                recording.begin(to, header, machine);
            }
        });
        let finished = finished.map_err(|error| Failure::Usage(error.to_string()))?;
        recording.finish()?;
        let host = Host::new(finished.accesses, finished.host_time);
        Ok(Found::Trace { outcome: Box::new(finished.outcome), host })
    }

    fn simulate(
        &self,
        (machine, scheme, hardware): (&Description, SchemeName, &'static Entry),
        workload: WorkloadKind,
        stop: &'static AtomicBool,
        progress: &ProgressBar,
    ) -> Result<(Finished, Vec<CrashReport>), Failure> {
        let run = self.settings.run(scheme);
        // Check before the pool is filled, which takes seconds.
        self.settings.check()?;
        if run.threads > machine.cores.count && machine.time_slices.is_none() {
            return Err(Failure::Usage(format!(
                "--threads {}: the machine has {} cores (--set cores.count=N gives it more, --set time_slices.slice_ns=9e6 shares them)",
                run.threads, machine.cores.count
            )));
        }
        progress.set_message("filling the pool");
        let (sizes, pool) = (self.settings.sizes(), self.settings.pool());
        let prepared = Prepared::of_scope(workload, &sizes, pool, run.threads, run.scheme, machine)?;
        progress.set_message("simulating");
        let once = |crash_at| {
            prepared.run_with(machine, hardware, &run, crash_at, |machine| machine.stop_when(stop))
        };
        let crash_at = if self.crash_at.iter().any(CrashAt::is_share) {
            let counted = once(Vec::new())?.counted;
            self.crash_at.iter().map(|at| at.cycle(&counted)).collect()
        } else {
            self.crash_at.iter().map(|at| at.cycle(&(Cycle::ZERO..Cycle::ZERO))).collect()
        };
        let mut finished = match &self.record {
            None => once(crash_at)?,
            Some(path) => {
                let recording = Recording::default();
                let header = prepared.header(machine.cores.count.min(run.threads + 1));
                let finished = prepared.run_with(machine, hardware, &run, crash_at, |machine| {
                    machine.stop_when(stop);
                    recording.begin(path, &header, machine);
                })?;
                recording.finish()?;
                finished
            }
        };
        progress.set_message("recovering");
        let crashes = std::mem::take(&mut finished.crashes).into_iter();
        let crashes = crashes
            .map(|crash| CrashReport::of(crash, &finished.events, (&prepared, machine, scheme, hardware)))
            .collect();
        Ok((finished, crashes))
    }

    /// Returns notes for the reader of the figures: quantities for which the run was too short, and power failures that showed nothing.
    fn notes(
        &self,
        workload: WorkloadKind,
        finished: &Finished,
        crashes: &[CrashReport],
        is_stopped: bool,
    ) -> Vec<String> {
        let given = [
            (Parameter::ValueBytes, self.settings.value_size != 8),
            (Parameter::Operations, self.settings.ops_per_tx != 1),
            (Parameter::Keys, self.settings.keys != Keys::Even),
        ];
        let given: Vec<_> = given.into_iter().filter(|(_, given)| *given).map(|(what, _)| what).collect();
        let mut notes = unused(&[workload], &given);
        notes.extend(
            finished
                .too_short
                .iter()
                .map(|note| format!("{note}; its cost is not in these figures (--transactions, --log-size)")),
        );
        if is_stopped {
            notes.push("the run was ended early: rates and counts are those of what was done".into());
        }
        let counted = &finished.counted;
        let part = format!(
            "transactions count from cycle {} to {} (--crash-at 50% is in the middle)",
            counted.start, counted.end
        );
        let missed = self.crash_at.len() - crashes.len();
        if missed > 0 {
            notes.push(format!("the run had ended before {missed} of the cycles of --crash-at: {part}"));
        }
        let early = crashes.iter().filter(|crash| crash.entered_commit == 0).count();
        if early > 0 {
            notes.push(format!("no transaction had entered commit at {early} of the power failures: {part}"));
        }
        notes
    }
}
