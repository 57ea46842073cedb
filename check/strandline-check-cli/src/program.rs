//! `strandline-check program`: programs in C, C++ and other languages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strandline_command::say;

use serde_json::json;
use strandline_check::recorded::{Program, Report, Unchecked};
use strandline_check::{Finding, PerformanceFinding, Session, Setting, Verdict};

use strandline_command::arguments::{number, seconds};
use strandline_command::completion::names;
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome, interrupt, progress};

use crate::setting_names;

/// The recording library's file name, as it is built.
const RECORDER: &str = "libstrandline_check_c.so";

/// Check a program in C, C++ or another language: record a run, and try its recovery on every state that a power failure can leave.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    strandline-check program --check './list check {pool}' -- ./list run {pool}\n\n\
    In commands {pool} stands for the path of a file, which the program maps. A command is split at spaces. \
    docs/checking-c-programs.md says what the checker sees of a program, and what it does not.\n\n\
    Exit code 1: a state was found that recovery does not repair. Exit code 4: nothing was found, but the time was up before \
    every crash point was visited.")]
pub struct Arguments {
    /// The program to record, and its arguments
    #[arg(required_unless_present = "recording", last = true, value_name = "PROGRAM")]
    run: Vec<OsString>,
    /// Explore this recording instead of a run: a file of the recorder's, or a log of valgrind's tool pmemcheck (--log-stores=yes)
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    recording: Option<PathBuf>,
    /// A command that creates the pool durably before the run [default: the file does not exist at first]
    #[arg(long, value_name = "COMMAND")]
    set_up: Option<String>,
    /// A file to copy as the pool before the run, instead of --set-up
    #[arg(long, value_name = "FILE", conflicts_with = "set_up")]
    pool: Option<PathBuf>,
    /// A command that recovers a pool, and exits with 0 if it succeeded. It is recorded, and power fails during it, too
    #[arg(long, value_name = "COMMAND", required_unless_present = "check")]
    recover: Option<String>,
    /// A command that exits with 0 if a pool is right after recovery. The environment variable STRANDLINE_ACKNOWLEDGED holds the numbers that the
    /// program has acknowledged
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Record only the stores that the header's macros and libpmem's functions make
    #[arg(long)]
    only_marked: bool,
    /// The parts of memory that a power failure may tear: `line`, `word` or `flush-on-fail`
    #[arg(long, default_value = "line", add = names(setting_names))]
    setting: Setting,
    /// Power failures during recovery, at most, each in the recovery from the one before; 0 to 10
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(0..=10usize))]
    recovery_crashes: usize,
    /// At most this many states are tried at one crash point; 1 to 1000000000
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = number(1..=1_000_000_000u64))]
    states: u64,
    /// Seconds that exploring may take, 0.01 to 86400
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    limit: f64,
    /// Seconds that one run of a command may take, 0.01 to 86400
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    time_limit: f64,
    /// Try again the state that the last line of a finding names
    #[arg(long, value_name = "LINE")]
    replay: Option<String>,
    /// Write the pool of the state that was found to this file, as recovery would find it
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// The recording library [default: beside this command, or in ../lib]
    #[arg(long, value_name = "FILE")]
    recorder: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Records the program, and checks every state that a power failure could have left.
///
/// # Errors
/// Returns an error if a command cannot be run, or nothing was recorded.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    interrupt::watch(interrupt::First::Ask)?;
    let report = find(arguments)?;
    if arguments.json {
        say!("{:#}", object(&report));
    } else {
        tell(arguments, &report);
    }
    Ok(match report.outcome.verdict() {
        Verdict::Found => Outcome::Finding,
        Verdict::NothingFound => Outcome::Success,
        Verdict::Unfinished { .. } => Outcome::Unfinished,
    })
}

/// Like [`run`], but returns what `--json` prints.
///
/// # Errors
/// As for [`run`].
pub fn answer(arguments: &Arguments) -> Result<serde_json::Value, Failure> {
    find(arguments).map(|report| object(&report))
}

fn find(arguments: &Arguments) -> Result<Report, Failure> {
    let folder = folder().map_err(Failure::io("make a folder for the pool"))?;
    let split = |command: &Option<String>| {
        let split = |command: &String| command.split_whitespace().map(OsString::from).collect();
        command.as_ref().map(split)
    };
    let recorder = recorder(arguments.recorder.as_deref())?;
    let mut program = Program::new(arguments.run.clone(), recorder, folder.path());
    program.recording.clone_from(&arguments.recording);
    program.pool.clone_from(&arguments.pool);
    program.set_up = split(&arguments.set_up);
    program.recover = split(&arguments.recover);
    program.check = split(&arguments.check);
    program.only_marked = arguments.only_marked;
    program.process_limit = Duration::from_secs_f64(arguments.time_limit);
    program.setting = arguments.setting;
    program.crashes_in_recovery = arguments.recovery_crashes;
    program.states = arguments.states;
    program.limit = Duration::from_secs_f64(arguments.limit);
    program.session = session();
    let found = match &arguments.replay {
        None => program.check(),
        Some(line) => program.replay(line),
    };
    let report = found.map_err(|why| match why {
        Unchecked::Usage(text) => Failure::Usage(text),
        why => Failure::Other(why.to_string()),
    })?;
    if let (Some(file), Some(image)) = (&arguments.keep, &report.image) {
        std::fs::write(file, image).map_err(Failure::io(format!("write {}", file.display())))?;
    }
    Ok(report)
}

/// Starts a session that a signal ends and that shows its progress.
fn session() -> Session {
    let bar = progress::spinner();
    Session::stopped_by(interrupt::flag()).on_progress(move |counts| {
        bar.set_message(format!("{} crash points, {} states", counts.points, counts.states));
        bar.tick();
    })
}

/// Creates a temporary folder, in memory if the system has a file system for that.
fn folder() -> std::io::Result<tempfile::TempDir> {
    let builder = || tempfile::Builder::new();
    builder().prefix("strandline-check").tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

fn recorder(given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        let absolute = given.canonicalize();
        return absolute.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", given.display())));
    }
    let command = std::env::current_exe().map_err(Failure::io("find this command's own file"))?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(RECORDER), folder.join("../lib").join(RECORDER)];
    places.into_iter().find(|place| place.exists()).ok_or_else(|| {
        Failure::Usage(format!(
            "there is no {RECORDER} beside this command: build it with `cargo build --release -p strandline-check-c`, \
             or say where it is with --recorder"
        ))
    })
}

/// Returns the flushes and fences that were redundant each time.
fn wasted(report: &Report) -> impl Iterator<Item = &PerformanceFinding> {
    report.outcome.performance.iter().filter(|one| one.is_always())
}

fn tell(arguments: &Arguments, report: &Report) {
    say!("{}", report.outcome.explored());
    say!("recorded: {} operations; run: {} processes", report.operations, report.processes);
    if report.outcome.counts.cut_short > 0 {
        say!("note: crash points have more states than were tried: raise --states or --limit");
    }
    report.outcome.notes.iter().for_each(|note| say!("note: {note}"));
    wasted(report).for_each(|one| say!("for nothing: {one}"));
    match &report.outcome.finding {
        None => say!("{}", report.outcome.verdict()),
        Some(finding) => say_finding(arguments, finding),
    }
}

fn say_finding(arguments: &Arguments, finding: &Finding) {
    let story = finding.story();
    say!("{}", story.trim_end());
    if let Some(file) = &arguments.keep {
        say!("image: {}", file.display());
    }
    say!("replay: --replay '{}'", finding.replay);
}

fn object(report: &Report) -> serde_json::Value {
    let advice = |finding: &Finding| {
        finding.advice.as_ref().map(|advice| {
            json!({
                "behind": advice.behind.to_string(),
                "flush": advice.flush,
                "fence": advice.fence,
                "repairs": advice.repairs,
            })
        })
    };
    let finding = report.outcome.finding.as_ref().map(|finding| {
        json!({
            "kind": finding.kind.to_string(),
            "meaning": finding.kind.meaning(),
            "remedy": finding.kind.remedy(),
            "what": finding.what,
            "places": finding.places,
            "history": finding.history,
            "lost": finding.lost,
            "recovery": finding.recovery,
            "advice": advice(finding),
            "replay": finding.replay,
        })
    });
    json!({
        "schema": SCHEMA,
        "verdict": report.outcome.verdict().to_string(),
        "coverage": report.outcome.coverage,
        "seconds": report.outcome.time.as_secs_f64(),
        "operations": report.operations,
        "counts": report.outcome.counts,
        "processes": report.processes,
        "notes": report.outcome.notes,
        "wasted": wasted(report).map(ToString::to_string).collect::<Vec<_>>(),
        "finding": finding,
    })
}
