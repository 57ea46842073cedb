//! What the command finds, for a program that is not the command: the objects that it prints with `--json`, asked for by its own flags.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory, Parser};
use serde_json::{Value, json};
use strandline_command::{progress, usage};
use strandline_lab::sweep::{Point, Row, Store, Swept, cells};
use strandline_sim::Registry;

use crate::{Command, What, check, list, merge, simulate};
use strandline_command::Failure;

/// The subcommand that these flags ask for; without progress and tables.
fn parse(arguments: &[String]) -> Result<What, Failure> {
    progress::hide();
    let name = std::iter::once("strandline-lab");
    let parsed = Command::try_parse_from(name.chain(arguments.iter().map(String::as_str)));
    parsed.map(|command| command.what).map_err(|error| usage(&error))
}

/// What `simulate`, `check`, `list` or `merge` prints, with these flags after the program's name and with `--json`; a run's and a sweep's rows
/// have `cells` too, which are their columns in a table, by name. When `stop` becomes
/// true a simulated workload ends, and what is returned means nothing; an exploration ends too, and returns what it has seen.
///
/// # Errors
/// As the command.
pub fn answer(arguments: &[String], registry: Registry, stop: &'static AtomicBool) -> Result<Value, Failure> {
    let mut arguments = arguments.to_vec();
    let flags = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.insert(flags, "--json".into());
    match parse(&arguments)? {
        What::Check(mut arguments) => {
            arguments.stopped_by(stop);
            check::answer(&arguments, registry)
        }
        What::List(arguments) => list::answer(&arguments, registry),
        What::Simulate(arguments) => {
            let mut found = simulate::answer(&arguments, registry, stop)?;
            let row = Row { result: found["result"].clone(), too_short: Vec::new() };
            if found.get("notes").is_some() {
                found["cells"] = json!(cells(&[], &row));
            }
            Ok(found)
        }
        What::Merge(arguments) => {
            merge::answer(&arguments, registry, |merged| swept(&merged.plan.points, &merged.swept))
        }
        _ => Err(Failure::Usage("only simulate, check, list and merge have an answer".into())),
    }
}

/// The points of the sweep that these flags of `simulate` ask for: one, if they ask for a single run. With one seed, unless `--seeds` says more.
///
/// # Errors
/// As the command.
pub fn points(arguments: &[String], registry: Registry) -> Result<Vec<Point>, Failure> {
    match parse(arguments)? {
        What::Simulate(arguments) => simulate::points(&arguments, registry, simulate::ONE_SEED),
        _ => Err(Failure::Usage("only simulate has points".into())),
    }
}

/// What tells this build from others: what one has found another does not take for its own.
///
/// # Errors
/// The file that has its code cannot be read.
pub fn program() -> Result<String, Failure> {
    simulate::program()
}

/// Says which file has this code, where it is a library and not the program: before anything else is asked for.
pub fn is_in(file: PathBuf) {
    simulate::is_in(file);
}

/// As `simulate --sweep --json`, and for each row its `cells`, pairs of name and value; `missing`: how many points are not there.
fn swept(points: &[Point], swept: &Swept) -> Value {
    let mut object = simulate::object(points, swept);
    let there = points.iter().zip(&swept.rows).filter_map(|(point, row)| Some((point, row.as_ref()?)));
    for (row, (point, found)) in object["rows"].as_array_mut().into_iter().flatten().zip(there) {
        row["cells"] = json!(cells(&point.keys, found));
    }
    object["missing"] = json!(swept.rows.iter().filter(|row| row.is_none()).count());
    object
}

/// Puts the points' lines in a sweep's folder in order, and writes the table and the plots; what was found, as [`answer`] has it of `merge`.
///
/// # Errors
/// The folder cannot be written.
pub fn finish_sweep(
    points: &[Point],
    store: &mut Store,
    folder: &Path,
    command: &str,
) -> Result<Value, Failure> {
    let failed = Failure::io(format!("write what the sweep finds into {}", folder.display()));
    store.arrange(points).map_err(failed)?;
    let rows: Vec<_> = points.iter().map(|point| store.find(point)).collect();
    let known = rows.iter().flatten().count();
    let found = Swept { rows, failed: Vec::new(), known, effort: None };
    simulate::finish(points, &found, folder, command)?;
    Ok(swept(points, &found))
}

/// The flags of a subcommand (`simulate`): name without dashes, help, and default.
///
/// # Errors
/// There is no such subcommand.
pub fn parameters(subcommand: &str) -> Result<Value, Failure> {
    strandline_command::manual::parameters(Command::command(), subcommand)
}
