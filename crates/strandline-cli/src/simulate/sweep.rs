//! `simulate --sweep`: a run for every combination of values, systems and workloads.

use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::Mutex;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use strandline_lab::machine::{self, Machine};
use strandline_lab::sweep::{self, Point, Store, Swept};
use strandline_sim::{Registry, file};
use strandline_workloads::{SchemeName, WorkloadKind};

use super::Arguments;
use crate::failure::{Failure, Outcome};
use crate::output::SCHEMA;
use crate::{interrupt, progress};

type System = (SchemeName, &'static strandline_sim::scheme::Entry);

/// Runs it.
///
/// # Errors
/// A combination cannot be; the folder cannot be written.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Outcome, Failure> {
    for (flag, given) in [
        ("--crash-at", !arguments.crash_at.is_empty()),
        ("--record", arguments.record.is_some()),
        ("--trace", arguments.trace.is_some()),
        ("--banks", arguments.banks),
    ] {
        if given {
            return Err(Failure::Usage(format!("{flag} is for one run: leave it out of a sweep")));
        }
    }
    let points = points(arguments, registry)?;
    let folder = &arguments.out;
    std::fs::create_dir_all(folder).map_err(Failure::io(format!("create {}", folder.display())))?;
    let path = folder.join("points.jsonl");
    let failed = |error| Failure::io(format!("write {}", path.display()))(error);
    let store = Mutex::new(Store::open(&path, &program()?).map_err(failed)?);
    interrupt::watch(interrupt::First::Ask)?;
    let (here, date) = (Machine::here(), machine::now());
    let bar = progress::bar(points.len() as u64, "{bar:30} {pos}/{len} runs, {msg}, {eta} to go");
    let swept = sweep::run(&points, &store, interrupt::flag(), &bar).map_err(failed)?;
    bar.finish_and_clear();
    let command: Vec<_> = std::env::args().collect();
    let commit = machine::commit();
    let run = strandline_lab::Run {
        machine: &here,
        commit: commit.as_deref(),
        command: &command.join(" "),
        date: &date,
    };
    let csv = sweep::csv(&points, &swept);
    write(&folder.join("points.csv"), &csv)?;
    write(&folder.join("index.html"), &sweep::page(&points, &swept, &run))?;
    if arguments.json {
        let rows = points.iter().zip(&swept.rows).filter_map(|(point, row)| {
            let keys: serde_json::Map<_, _> =
                point.keys.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            let row = row.as_ref()?;
            Some(json!({"keys": keys, "result": row.result, "notes": row.too_short}))
        });
        say!("{:#}", json!({"schema": SCHEMA, "rows": rows.collect::<Vec<_>>()}));
    } else if arguments.csv {
        csv.lines().for_each(|line| say!("{line}"));
    } else {
        say!("{}", table(&points, &swept));
        say!("The plots: {}", folder.join("index.html").display());
    }
    tell(&points, &swept);
    match swept.failed.first() {
        Some(_) => {
            Err(Failure::Other(format!("{} of {} runs could not be made", swept.failed.len(), points.len())))
        }
        None => Ok(Outcome::Success),
    }
}

/// What is not in the table.
fn tell(points: &[Point], swept: &Swept) {
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
    let there = swept.rows.iter().flatten().count();
    if there + swept.failed.len() < points.len() {
        eprintln!("note: {there} of {} runs were made; the same command goes on", points.len());
    }
    for (index, why) in &swept.failed {
        let point = &points[*index];
        let keys: Vec<_> = point.keys.iter().map(|(key, value)| format!(", {key}={value}")).collect();
        eprintln!("error: {} on {}{}: {why}", point.system(), point.workload.name, keys.concat());
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(Failure::io(format!("write {}", path.display())))
}

/// What tells this build of the program from others.
fn program() -> Result<String, Failure> {
    let path = std::env::current_exe().map_err(Failure::io("find this program"))?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&std::fs::read(path).map_err(Failure::io("read this program"))?);
    Ok(format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hasher.finish()))
}

/// What runs, by the names that were given.
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

/// Every combination: workloads, then the values of the first key and so on, then systems.
fn points(arguments: &Arguments, registry: Registry) -> Result<Vec<Point>, Failure> {
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
    for workload in workloads? {
        for keys in &combinations {
            let mut settings = arguments.settings;
            let mut overrides = arguments.set.clone();
            for (key, value) in keys {
                if !settings.set(key, value)? {
                    overrides.push(format!("{key}={value}"));
                }
            }
            let machine = file::load(&arguments.machine, &overrides)
                .map_err(|error| Failure::Usage(error.to_string()))?;
            for &(scheme, hardware) in &systems {
                hardware.check_parameters(&machine.scheme).map_err(Failure::Usage)?;
                points.push(Point {
                    keys: keys.clone(),
                    workload,
                    sizes: settings.sizes(),
                    pool: settings.pool(),
                    hardware,
                    machine: machine.clone(),
                    run: settings.run(scheme),
                });
            }
        }
    }
    Ok(points)
}

fn table(points: &[Point], swept: &Swept) -> Table {
    let keys = points.first().map_or(&[][..], |point| &point.keys);
    let mut table = Table::new();
    let mut header = vec!["workload", "system"];
    header.extend(keys.iter().map(|(key, _)| key.as_str()));
    header.extend(["tx/s", "lines written/tx", "log bytes/tx", "fences/tx"]);
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (point, row) in points.iter().zip(&swept.rows) {
        let Some(row) = row else { continue };
        let mut cells = vec![point.workload.name.to_owned(), point.system()];
        cells.extend(point.keys.iter().map(|(_, value)| value.clone()));
        cells.push(format!("{:.0}", row.quantity("tx_per_s")));
        cells.push(format!("{:.2}", row.quantity("lines_written_per_tx")));
        cells.push(format!("{:.0}", row.quantity("log_bytes_per_tx")));
        cells.push(format!("{:.2}", row.quantity("fences_per_tx")));
        table.add_row(cells);
    }
    table
}
