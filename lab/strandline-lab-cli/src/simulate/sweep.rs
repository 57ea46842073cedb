//! `simulate --sweep`: a run for every combination of values, systems and workloads.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use strandline_command::say;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use strandline_lab::Spread;
use strandline_lab::machine::{self, Machine};
use strandline_lab::sweep::{self, Combination, Plan, Point, Swept, TraceFile, Work, WorkloadRun};
use strandline_sim::{Registry, file};
use strandline_workloads::{SchemeName, WorkloadKind};

use super::Arguments;
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome};
use strandline_command::{interrupt, progress};

/// The number of seeds that each run of a sweep has by default.
const SEEDS: u64 = 3;
/// The number of seeds that a point that runs alone has by default.
pub const ONE_SEED: u64 = 1;

type System = (SchemeName, &'static strandline_sim::scheme::Entry);

/// Runs the sweep and prints the table.
///
/// # Errors
/// Returns an error if a combination is impossible, or if the folder cannot be written.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Outcome, Failure> {
    for (flag, given) in [
        ("--crash-at", !arguments.crash_at.is_empty()),
        ("--record", arguments.record.is_some()),
        ("--banks", arguments.banks),
    ] {
        if given {
            return Err(Failure::Usage(format!("{flag} is for one run: leave it out of a sweep")));
        }
    }
    let all = points(arguments, registry, SEEDS)?;
    let folder = &arguments.out;
    std::fs::create_dir_all(folder).map_err(Failure::io(format!("create {}", folder.display())))?;
    let plan = Plan { program: program()?, points: all };
    let failed = |error| Failure::io(format!("write what the sweep finds into {}", folder.display()))(error);
    let store = Mutex::new(plan.store(folder).map_err(failed)?);
    plan.write(folder).map_err(failed)?;
    let of_shard = |index: &usize| arguments.shard.is_none_or(|shard| shard.has(*index));
    let points: Vec<Point> =
        (0..plan.points.len()).filter(of_shard).map(|at| plan.points[at].clone()).collect();
    interrupt::watch(interrupt::First::Ask)?;
    let bar = progress::bar(points.len() as u64, "runs");
    let swept = sweep::run(&points, &store, interrupt::flag(), &bar).map_err(failed)?;
    bar.finish_and_clear();
    let command: Vec<_> = std::env::args().collect();
    let csv = finish(&points, &swept, folder, &command.join(" "))?;
    if arguments.json {
        say!("{:#}", object(&points, &swept));
    } else if arguments.csv {
        csv.lines().for_each(|line| say!("{line}"));
    } else {
        show(&points, &swept, folder);
    }
    print_notes(&points, &swept);
    match swept.failed.first() {
        Some(_) => {
            Err(Failure::Other(format!("{} of {} runs could not be made", swept.failed.len(), points.len())))
        }
        None => Ok(Outcome::Success),
    }
}

/// Writes the table and the plots of a sweep into its folder. Returns the table.
///
/// # Errors
/// Returns an error if they cannot be written.
pub fn finish(points: &[Point], swept: &Swept, folder: &Path, command: &str) -> Result<String, Failure> {
    let commit = machine::commit();
    let run = strandline_lab::Run {
        machine: &Machine::here(),
        commit: commit.as_deref(),
        command,
        date: &machine::now(),
    };
    let csv = sweep::csv(points, swept);
    write(&folder.join("points.csv"), &csv)?;
    write(&folder.join("index.html"), &sweep::page(points, swept, &run))?;
    Ok(csv)
}

/// Returns the object that `--json` prints: a row for each run, and a row for each combination with its spread over the seeds.
pub fn object(points: &[Point], swept: &Swept) -> serde_json::Value {
    let rows = points.iter().zip(&swept.rows).filter_map(|(point, row)| {
        let keys: serde_json::Map<_, _> =
            point.keys.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let row = row.as_ref()?;
        Some(json!({"keys": keys, "result": row.result, "notes": row.too_short}))
    });
    let combinations = sweep::combinations(points, swept);
    let found = combinations.iter().filter(|one| !one.rows.is_empty());
    let found: Vec<_> = found.map(sweep::Combination::to_json).collect();
    json!({"schema": SCHEMA, "rows": rows.collect::<Vec<_>>(), "combinations": found})
}

/// Prints the table.
pub fn show(points: &[Point], swept: &Swept, folder: &Path) {
    say!("{}", table(points, swept));
    say!("The plots: {}", folder.join("index.html").display());
}

/// Prints what the table does not contain.
fn print_notes(points: &[Point], swept: &Swept) {
    let mut notes: Vec<&String> = swept.rows.iter().flatten().flat_map(|row| &row.too_short).collect();
    let short = swept.rows.iter().flatten().filter(|row| !row.too_short.is_empty()).count();
    notes.sort_unstable();
    notes.dedup();
    if let Some(first) = notes.first() {
        eprintln!(
            "note: {short} of {} runs are too short for all that they claim (--transactions, --log-size), as in: {first}; the column \
             too_short of points.csv says which",
            points.len()
        );
    }
    if swept.known > 0 {
        eprintln!("note: {} runs were known already", swept.known);
    }
    if let Some(effort) = swept.effort.filter(|effort| effort.points > 0) {
        eprintln!("note: {effort}");
    }
    let there = swept.rows.iter().flatten().count();
    if there + swept.failed.len() < points.len() {
        eprintln!("note: {there} of {} runs were made; run the same command again to continue", points.len());
    }
    for (index, why) in &swept.failed {
        let point = &points[*index];
        let keys: Vec<_> = point.keys.iter().map(|(key, value)| format!(", {key}={value}")).collect();
        eprintln!("error: {} on {}{}: {why}", point.system(), point.work.name(), keys.concat());
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(Failure::io(format!("write {}", path.display())))
}

/// The file that holds this code, if it is not the program's.
static CODE: OnceLock<PathBuf> = OnceLock::new();

/// Sets the file that holds this code, if it is a library's.
pub fn is_in(file: PathBuf) {
    let _ = CODE.set(file);
}

/// Returns an identifier of this build of the program.
///
/// # Errors
/// Returns an error if the file that holds its code cannot be read.
pub fn program() -> Result<String, Failure> {
    static NAME: OnceLock<String> = OnceLock::new();
    if let Some(name) = NAME.get() {
        return Ok(name.clone());
    }
    let path = match CODE.get() {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(Failure::io("find this program"))?,
    };
    let mut hasher = DefaultHasher::new();
    hasher.write(&std::fs::read(path).map_err(Failure::io("read this program"))?);
    Ok(NAME.get_or_init(|| format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hasher.finish())).clone())
}

/// Returns the systems with the given names.
fn systems(arguments: &Arguments, registry: Registry) -> Result<Vec<System>, Failure> {
    let found: Result<Vec<System>, String> = match (&arguments.scheme[..], &arguments.hardware[..]) {
        ([], []) => registry.pair(None, None).map(|only| vec![only]),
        (schemes, []) => schemes.iter().map(|name| registry.system(name)).collect(),
        ([], hardware) => hardware.iter().map(|name| registry.pair(None, Some(name))).collect(),
        (schemes, hardware) => {
            let pairs = schemes.iter().flat_map(|name| hardware.iter().map(move |hardware| (name, hardware)));
            pairs.map(|(name, hardware)| registry.pair(Some(name), Some(hardware))).collect()
        }
    };
    found.map_err(Failure::Usage)
}

/// Returns how many seeds each combination has; `default` if the arguments do not say.
///
/// # Errors
/// Returns an error if the seed is swept itself.
fn seeds(arguments: &Arguments, default: u64) -> Result<u64, Failure> {
    let is_swept = arguments.sweep.iter().any(|swept| swept.key == "seed");
    match arguments.seeds {
        Some(_) if is_swept => Err(Failure::Usage(
            "--sweep seed=… makes a row of each seed, and --seeds one row of several: choose one of them"
                .into(),
        )),
        Some(seeds) => Ok(seeds),
        None if is_swept || !arguments.is_sweep() => Ok(1),
        None => Ok(default),
    }
}

/// Returns every combination: ordered by workloads, then the values of the first key and so on, then systems, then seeds.
///
/// # Errors
/// Returns an error if a name, a key or a value does not exist, if the scheme does not run on the hardware, or if `--seeds` or a setting of workloads
/// was given for a trace.
pub fn points(arguments: &Arguments, registry: Registry, default_seeds: u64) -> Result<Vec<Point>, Failure> {
    let seeds = seeds(arguments, default_seeds)?;
    let trace = match &arguments.trace {
        Some(_) if arguments.seeds.is_some() => {
            return Err(Failure::Usage(
                "a trace has no random numbers, so that each of its runs finds the same: leave --seeds out"
                    .into(),
            ));
        }
        Some(path) => {
            Some(TraceFile::open(path).map_err(Failure::io(format!("read the trace {}", path.display())))?)
        }
        None => None,
    };
    let workloads: Result<Vec<WorkloadKind>, _> =
        arguments.workload.iter().map(|name| registry.workloads.of_name(name)).collect();
    let systems = systems(arguments, registry)?;
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for swept in &arguments.sweep {
        combinations = combinations
            .iter()
            .flat_map(|keys| {
                swept
                    .values
                    .iter()
                    .map(move |value| [&keys[..], &[(swept.key.clone(), value.clone())]].concat())
            })
            .collect();
    }
    let mut points = Vec::new();
    for kind in workloads.map_err(Failure::usage)? {
        for keys in &combinations {
            let mut settings = arguments.settings;
            let mut overrides = arguments.set.clone();
            for (key, value) in keys {
                if !settings.set(key, value)? {
                    overrides.push(format!("{key}={value}"));
                } else if trace.is_some() {
                    return Err(Failure::Usage(format!(
                        "--sweep {key}: a trace says itself what runs; sweep keys of the machine, or --hardware"
                    )));
                }
            }
            settings.check()?;
            let machine = file::load(&arguments.machine, &overrides)
                .map_err(|error| Failure::Usage(error.to_string()))?;
            for &(scheme, hardware) in &systems {
                hardware.check_parameters(&machine.scheme).map_err(Failure::Usage)?;
                let point = |work| Point { keys: keys.clone(), work, hardware, machine: machine.clone() };
                if let Some(trace) = &trace {
                    points.push(point(Work::Trace(trace.clone())));
                    continue;
                }
                for number in 0..seeds {
                    let mut run = settings.run(scheme);
                    run.seed = run.seed.wrapping_add(number);
                    let (sizes, pool) = (settings.sizes(), settings.pool());
                    points.push(point(Work::Workload(WorkloadRun { kind, sizes, pool, run })));
                }
            }
        }
    }
    Ok(points)
}

/// A column of the table: its header, the quantity, and how many decimals it is shown with.
type Column = (&'static str, &'static str, usize);

const COLUMNS: [Column; 8] = [
    ("tx/s", "tx_per_s", 0),
    ("abort ratio", "abort_ratio", 4),
    ("lines written/tx", "lines_written_per_tx", 2),
    ("log bytes/tx", "log_bytes_per_tx", 0),
    ("fences/tx", "fences_per_tx", 2),
    ("invalidations/tx", "invalidations_per_tx", 2),
    ("nJ/tx", "energy_nj_per_tx", 1),
    ("cycles", "cycles", 0),
];

/// The key whose values are compared with one thread.
const THREADS: &str = "threads";

/// Returns how many times as fast the transactions of all threads were done as by one thread, if `found` has a run with one thread and the same in
/// all else. They are done when the last thread ends, while `tx_per_s` adds the rates that threads have until their own ends.
fn speed_up(one: &Combination<'_>, found: &[&Combination<'_>]) -> Option<f64> {
    let threads = |of: &Combination<'_>| -> Option<f64> {
        of.first.keys.iter().find(|(key, _)| key == THREADS)?.1.parse().ok()
    };
    let rate = |of: &Combination<'_>| Some(threads(of)? / of.spread("cycles")?.median);
    let others = |of: &Combination<'_>| {
        let keys: Vec<_> = of.first.keys.iter().filter(|(key, _)| key != THREADS).cloned().collect();
        (of.first.work.name(), of.first.system(), keys)
    };
    let single = found.iter().find(|of| threads(of) == Some(1.0) && others(of) == others(one))?;
    Some(rate(one)? / rate(single)?)
}

/// Formats the median and, if the runs differ, their range.
fn shown(spread: Spread, decimals: usize) -> String {
    let [low, median, high] =
        [spread.low, spread.median, spread.high].map(|value| format!("{value:.decimals$}"));
    if low == high { median } else { format!("{median} ({low} to {high})") }
}

fn table(points: &[Point], swept: &Swept) -> Table {
    let combinations = sweep::combinations(points, swept);
    let found: Vec<&Combination<'_>> = combinations.iter().filter(|one| !one.rows.is_empty()).collect();
    let has = |quantity: &str| found.iter().any(|one| one.spread(quantity).is_some());
    // Cycles are shown only if nothing is counted in transactions.
    let is_shown = |column: &Column| has(column.1) && (column.1 != "cycles" || !has("tx_per_s"));
    let columns: Vec<Column> = COLUMNS.into_iter().filter(is_shown).collect();
    let keys = points.first().map_or(&[][..], |point| &point.keys);
    let mut table = Table::new();
    let mut header = vec!["workload", "system"];
    header.extend(keys.iter().map(|(key, _)| key.as_str()));
    header.extend(columns.iter().map(|(name, ..)| name));
    let scales = found.iter().any(|one| speed_up(one, &found).is_some());
    if scales {
        header.push("speed-up");
    }
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for one in &found {
        let mut cells = vec![one.first.work.name(), one.first.system()];
        cells.extend(one.first.keys.iter().map(|(_, value)| value.clone()));
        let quantities = columns.iter().map(|&(_, quantity, decimals)| {
            one.spread(quantity).map_or("–".into(), |spread| shown(spread, decimals))
        });
        cells.extend(quantities);
        if scales {
            cells.push(speed_up(one, &found).map_or("–".into(), |times| format!("{times:.1}")));
        }
        table.add_row(cells);
    }
    table
}
