//! The command's results as values, for programs that call it as a library with its own flags: the objects that `--json` prints.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::{CommandFactory, Parser};
use serde_json::{Value, json};
use strandline_command::{progress, usage};
use strandline_lab::sweep::{Point, Row, Store, Swept, cells};
use strandline_sim::Registry;

use crate::{Command, What, check, list, merge, simulate};
use strandline_command::Failure;

/// Parses the flags into the subcommand; progress and tables are off.
fn parse(arguments: &[String]) -> Result<What, Failure> {
    progress::hide();
    let name = std::iter::once("strandline-lab");
    let parsed = Command::try_parse_from(name.chain(arguments.iter().map(String::as_str)));
    parsed.map(|command| command.what).map_err(|error| usage(&error))
}

/// Returns what `simulate`, `check`, `list` or `merge` prints with `--json`. `arguments` are those after the program's name. The rows of runs and
/// sweeps also have `cells`: their columns in a table, by name. When `stop` becomes true, a simulated workload ends, and its result is meaningless;
/// an exploration also ends, and returns what it has seen.
///
/// # Errors
/// Returns the command's failure.
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

/// Returns the points of the sweep that these flags of `simulate` describe, or the one point of a single run. Uses one seed unless `--seeds` is
/// given.
///
/// # Errors
/// Returns the command's failure.
pub fn points(arguments: &[String], registry: Registry) -> Result<Vec<Point>, Failure> {
    match parse(arguments)? {
        What::Simulate(arguments) => simulate::points(&arguments, registry, simulate::ONE_SEED),
        _ => Err(Failure::Usage("only simulate has points".into())),
    }
}

/// Returns an identifier of this build. Results of one build are not reused by another.
///
/// # Errors
/// Returns an error if the file that holds the code cannot be read.
pub fn program() -> Result<String, Failure> {
    simulate::program()
}

/// Sets the file that holds this code, if it is a library and not the program itself. Must be called before everything else.
pub fn is_in(file: PathBuf) {
    simulate::is_in(file);
}

/// Returns what `simulate --sweep --json` prints, with `cells` (pairs of name and value) for each row, and `missing`, the number of points without a
/// result.
fn swept(points: &[Point], swept: &Swept) -> Value {
    let mut object = simulate::object(points, swept);
    let there = points.iter().zip(&swept.rows).filter_map(|(point, row)| Some((point, row.as_ref()?)));
    for (row, (point, found)) in object["rows"].as_array_mut().into_iter().flatten().zip(there) {
        row["cells"] = json!(cells(&point.keys, found));
    }
    object["missing"] = json!(swept.rows.iter().filter(|row| row.is_none()).count());
    object
}

/// Puts the points' lines in a sweep's folder in order, and writes the table and the plots. Returns the results in the form of [`answer`] for
/// `merge`.
///
/// # Errors
/// Returns an error if the folder cannot be written.
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

/// Returns the flags of a subcommand (`simulate`): each flag's name without dashes, help text and default.
///
/// # Errors
/// Returns an error if there is no such subcommand.
pub fn parameters(subcommand: &str) -> Result<Value, Failure> {
    strandline_command::manual::parameters(Command::command(), subcommand)
}
