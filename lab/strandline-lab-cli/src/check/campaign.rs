//! A check divided into units, with its results kept in a folder, so that an interrupted check can continue and several machines can share one.
//!
//! A *unit* is explored in one go. A line of the table is one unit, or several that sample different seeds. Units are independent, so a line is the
//! same whichever machine explored it.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use strandline_check::Session;
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome};
use strandline_lab::ledger::{self, Ledger, Shard, common_plan};

use super::rows::Rows;
use super::{World, device, machine, persist_order, schemes};
use crate::simulate;

/// The version of the files' format.
const FORM: u32 = 1;
/// The file of the plan: every unit of the whole check.
pub const PLAN: &str = "check.json";
/// The file of the units' results.
const UNITS: &str = "units.jsonl";
/// The file with what `--json` prints, written when the check has ended.
const ROWS: &str = "rows.json";

/// The number of histories that a unit samples, unless a line would then have more than [`MOST_UNITS`].
const UNIT_HISTORIES: u64 = 100;
/// The number of units that a line has, at most.
const MOST_UNITS: u64 = 64;

/// Explores a unit, and shows its progress on the bar. Returns `None` if there is nothing to explore.
pub type Explore<'a> = Box<dyn Fn(&ProgressBar) -> Result<Option<Value>, Failure> + 'a>;

/// The part of a line that is explored in one go.
pub struct Unit<'a> {
    /// The line of the table to which it belongs. Units of a line are adjacent.
    pub row: usize,
    /// Everything except the program that determines the unit's result. It contains the line's columns that are known beforehand, by their names.
    pub key: Value,
    /// Absent if other machines have explored the unit.
    pub explore: Option<Explore<'a>>,
}

/// Divides so many histories, beginning with `seed`, into parts. Returns the first seed and the number of histories of each.
pub fn parts(seed: u64, histories: u64) -> Vec<(u64, u64)> {
    let each = UNIT_HISTORIES.max(histories.div_ceil(MOST_UNITS));
    let firsts = (0..histories).step_by(usize::try_from(each).unwrap_or(usize::MAX));
    firsts.map(|first| (seed.wrapping_add(first), each.min(histories - first))).collect()
}

/// The options of a check that affect its table.
#[derive(Clone, Debug)]
pub struct Asked {
    /// True if steps are left out, which the check must find.
    pub mutants: bool,
    /// Seed of the first history.
    pub seed: u64,
    /// True if the check replays a single history.
    pub one: bool,
    /// True if only JSON is printed.
    pub json: bool,
    /// The session that can end the check early.
    pub session: Session,
}

/// A column of a table.
pub struct Column {
    pub header: &'static str,
    pub cell: fn(&Value, &Asked) -> String,
    pub expected: Expected,
}

/// The known facts about the width of a column.
pub enum Expected {
    /// Nothing: the column is as wide as its header.
    Nothing,
    /// No text is longer than this one.
    Text(&'static str),
    /// The column's cells are those of the units' keys.
    Keys,
}

/// How a world's rows, in the form that `--json` prints, are displayed.
pub struct Table {
    pub columns: &'static [Column],
    /// Returns the lines below a row.
    pub below: fn(&Value, &Asked) -> Vec<String>,
    /// Returns whether a row is a finding.
    pub is_wrong: fn(&Value, &Asked) -> bool,
    /// Returns the last line.
    pub summary: fn(&[Value], &Asked) -> String,
}

/// Returns the table of the world that a unit's key or a row names.
fn table(of: &Value, asked: &Asked) -> Result<&'static Table, Failure> {
    let name = of["world"].as_str().unwrap_or_default();
    Ok(match World::of_name(name).ok_or_else(|| Failure::Usage(format!("there is no world {name:?}")))? {
        World::X86 if asked.mutants => &schemes::MUTANTS,
        World::X86 => &schemes::TABLE,
        World::PersistOrder => &persist_order::TABLE,
        World::Machine => &machine::TABLE,
        World::Device => &device::TABLE,
    })
}

/// Returns the number with this name among a row's counts.
pub fn count(row: &Value, name: &str) -> u64 {
    row["counts"][name].as_u64().unwrap_or(0)
}

/// Returns a text of a row or a key, empty if absent.
pub fn text<'v>(row: &'v Value, name: &str) -> &'v str {
    row[name].as_str().unwrap_or_default()
}

/// Returns a number of a row, 0 if absent.
pub fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(0.0)
}

/// Returns whether the row has a violation.
pub fn is_violated(row: &Value) -> bool {
    !row["violation"].is_null()
}

/// Returns the indented lines of a row's violation.
pub fn indented(row: &Value, name: &str) -> Vec<String> {
    let lines = row["violation"][name].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.map(|line| format!("  {line}")).collect()
}

/// Combines `row`, the results of a line's earlier units, with `more`, the next unit's. Counts add up; everything else comes from the next unit,
/// since a line ends with its first violation.
fn add(row: Option<Value>, mut more: Value) -> Value {
    let Some(row) = row else { return more };
    for (name, before) in row["counts"].as_object().into_iter().flatten() {
        let (before, now) = (before.as_u64().unwrap_or(0), count(&more, name));
        // The number of persists is that of the largest history, not a sum.
        more["counts"][name] = json!(if name == "persists" { before.max(now) } else { before + now });
    }
    for name in ["seconds", "cpu_seconds"] {
        if more.get(name).is_some() {
            more[name] = json!(number(&row, name) + number(&more, name));
        }
    }
    let seconds = if more.get("cpu_seconds").is_some() { "cpu_seconds" } else { "seconds" };
    for (rate, counted, seconds) in [("states_per_s", "states", seconds), ("lives_per_s", "lives", "seconds")]
    {
        if more.get(rate).is_some() {
            more[rate] = json!(count(&more, counted) as f64 / number(&more, seconds).max(1e-9));
        }
    }
    more
}

/// The folder of a check, and the part of the check that this process explores.
pub struct Kept {
    ledger: Ledger,
    folder: PathBuf,
    program: String,
    shard: Option<Shard>,
}

impl Kept {
    /// Opens a folder for a check of these units, and continues with its contents.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written, or if another process writes to it.
    pub fn open(
        folder: &Path,
        shard: Option<Shard>,
        units: &[Unit<'_>],
        asked: &Asked,
    ) -> Result<Self, Failure> {
        let program = simulate::program()?;
        let listed: Vec<_> = units.iter().map(|unit| json!({ "row": unit.row, "key": unit.key })).collect();
        let asked = json!({ "mutants": asked.mutants, "seed": asked.seed, "one": asked.one });
        let plan = json!({ "schema": FORM, "program": program, "asked": asked, "units": listed });
        Self::make(folder, program, shard, &plan)
    }

    fn make(folder: &Path, program: String, shard: Option<Shard>, plan: &Value) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(Failure::io(format!("create {}", folder.display())))?;
        let failed = || Failure::io(format!("write what the check finds into {}", folder.display()));
        let ledger = Ledger::open(&folder.join(UNITS)).map_err(failed())?;
        std::fs::write(folder.join(PLAN), format!("{plan}\n")).map_err(failed())?;
        Ok(Self { ledger, folder: folder.to_owned(), program, shard })
    }

    fn failed(&self) -> impl FnOnce(std::io::Error) -> Failure + use<> {
        Failure::io(format!("write what the check finds into {}", self.folder.display()))
    }

    fn is_of(line: &Value, program: &str, key: &Value) -> bool {
        line["unit"] == *key && line["program"] == *program && line["schema"] == FORM
    }

    fn find(&self, key: &Value) -> Option<Value> {
        let known = self.ledger.lines().iter().find(|line| Self::is_of(line, &self.program, key));
        known.map(|line| line["found"].clone())
    }

    fn add(&mut self, key: &Value, found: &Value) -> Result<(), Failure> {
        let line = json!({ "schema": FORM, "program": self.program, "unit": key, "found": found });
        self.ledger.add(line).map_err(self.failed())
    }

    /// Puts the units' lines in order, and writes what `--json` prints.
    fn finish(&mut self, units: &[Unit<'_>], object: &Value) -> Result<(), Failure> {
        let failed = self.failed();
        let program = &self.program;
        let arranged =
            self.ledger.arrange(units.len(), |at, line| Self::is_of(line, program, &units[at].key));
        let rows = self.folder.join(ROWS);
        arranged.and_then(|()| std::fs::write(rows, format!("{object:#}\n"))).map_err(failed)
    }
}

/// The results of a check.
pub struct Checked {
    pub outcome: Outcome,
    /// The objects that `--json` prints.
    pub object: Value,
    /// The number of units that are unexplored although others were explored elsewhere, and of all units.
    pub missing: (usize, usize),
    /// The number of units that were known already.
    pub known: usize,
}

/// Explores the units one after the other, except those that are known or belong to another machine, and prints each row when it is complete.
///
/// # Errors
/// Returns an error if a unit cannot be explored, or if the folder cannot be written.
pub fn explore(units: &[Unit<'_>], asked: &Asked, mut kept: Option<Kept>) -> Result<Checked, Failure> {
    // Panics of mutants, and of recoveries on impossible states, are caught and reported as violations.
    std::panic::set_hook(Box::new(|_| ()));
    let explored = explore_all(units, asked, kept.as_mut());
    let _ = std::panic::take_hook();
    let checked = explored?;
    if let Some(kept) = &mut kept {
        kept.finish(units, &checked.object)?;
    }
    Ok(checked)
}

fn explore_all(units: &[Unit<'_>], asked: &Asked, mut kept: Option<&mut Kept>) -> Result<Checked, Failure> {
    let bar = schemes::progress_bar();
    let (mut rows, mut outcome) = (Vec::new(), Outcome::Success);
    let (mut missing, mut known, mut index) = (0, 0, 0);
    for world in units.chunk_by(|one, other| one.key["world"] == other.key["world"]) {
        let shown = table(&world[0].key, asked)?;
        let mut printed = Rows::new(shown.columns, world, asked, &bar);
        let first = rows.len();
        for line in world.chunk_by(|one, other| one.row == other.row) {
            let mut row = None;
            for (unit, index) in line.iter().zip(index..) {
                // A line ends with its first violation, whichever machine found it.
                if row.as_ref().is_some_and(is_violated) {
                    break;
                }
                let there = kept.as_deref().and_then(|kept| kept.find(&unit.key));
                known += usize::from(there.is_some());
                let shard = kept.as_deref().and_then(|kept| kept.shard);
                let found = match (there, &unit.explore) {
                    (Some(there), _) => there,
                    (None, Some(explore))
                        if shard.is_none_or(|shard| shard.has(index)) && !asked.session.is_stopped() =>
                    {
                        let found = explore(&bar)?.unwrap_or_default();
                        // The result of an interrupted unit is incomplete, so it is not kept.
                        if let Some(kept) = kept.as_deref_mut().filter(|_| !asked.session.is_stopped()) {
                            kept.add(&unit.key, &found)?;
                        }
                        found
                    }
                    (None, Some(_)) => continue,
                    (None, None) => {
                        missing += 1;
                        continue;
                    }
                };
                if !found.is_null() {
                    row = Some(add(row, found));
                }
            }
            index += line.len();
            let Some(row) = row else { continue };
            if (shown.is_wrong)(&row, asked) {
                outcome = Outcome::Finding;
            }
            printed.add(&row, &(shown.below)(&row, asked));
            rows.push(row);
        }
        printed.end(&(shown.summary)(&rows[first..], asked));
    }
    if outcome == Outcome::Success && asked.session.is_stopped() {
        outcome = Outcome::Unfinished;
    }
    bar.finish_and_clear();
    let object = json!({ "schema": SCHEMA, "rows": rows, "seed": asked.seed });
    Ok(Checked { outcome, object, missing: (missing, units.len()), known })
}

/// Merges the results of a check's shards into the folder `out`, as if one machine had explored everything.
///
/// # Errors
/// Returns an error if a folder has no check or another one, or if a file cannot be read or written.
pub fn merge(out: &Path, folders: &[PathBuf], json: bool) -> Result<Checked, Failure> {
    let plan = common_plan(folders, PLAN, FORM).map_err(Failure::Usage)?;
    let asked = Asked {
        mutants: plan["asked"]["mutants"] == true,
        seed: plan["asked"]["seed"].as_u64().unwrap_or_default(),
        one: plan["asked"]["one"] == true,
        json,
        session: Session::new(),
    };
    let listed = plan["units"].as_array().into_iter().flatten();
    let listed = listed.map(|unit| Unit {
        row: unit["row"].as_u64().unwrap_or_default() as usize,
        key: unit["key"].clone(),
        explore: None,
    });
    let units: Vec<Unit<'_>> = listed.collect();
    let program = text(&plan, "program").to_owned();
    let lines = folders.iter().map(|folder| ledger::read(&folder.join(UNITS)));
    let lines = lines.collect::<Result<Vec<_>, _>>().map_err(Failure::Other)?;
    let mut kept = Kept::make(out, program, None, &plan)?;
    for unit in &units {
        let is_of = |line: &&Value| Kept::is_of(line, &kept.program, &unit.key);
        if let (None, Some(line)) = (kept.find(&unit.key), lines.iter().flatten().find(is_of)) {
            kept.add(&unit.key, &line["found"])?;
        }
    }
    explore(&units, &asked, Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_are_dealt_in_parts() {
        assert_eq!(parts(7, 1), [(7, 1)]);
        assert_eq!(parts(7, 250), [(7, 100), (107, 100), (207, 50)]);
        let many = parts(1, 1_000_001);
        assert_eq!(many.len(), 64);
        assert_eq!(many.iter().map(|part| part.1).sum::<u64>(), 1_000_001);
        assert_eq!(parts(u64::MAX, 101), [(u64::MAX, 100), (99, 1)]);
        // An unlimited number of histories is sampled until something is found.
        assert_eq!(
            parts(1, u64::MAX).iter().map(|part| u128::from(part.1)).sum::<u128>(),
            u128::from(u64::MAX)
        );
    }

    #[test]
    fn rows_add_up() {
        let row = |states: u64, violation: Value| {
            json!({
                "scheme": "bppm", "counts": { "states": states, "persists": states }, "seconds": 2.0,
                "cpu_seconds": 1.0, "states_per_s": states as f64, "violation": violation,
            })
        };
        let both = add(Some(row(10, Value::Null)), row(30, json!({"what": "lost"})));
        assert_eq!((count(&both, "states"), count(&both, "persists")), (40, 30));
        assert_eq!((number(&both, "seconds"), number(&both, "states_per_s")), (4.0, 20.0));
        assert!(is_violated(&both));
    }
}
