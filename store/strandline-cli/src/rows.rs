//! Prints a pool's content as lines of JSON, and loads the rows of a database's tables from them.
//!
//! A table is one line that describes it, followed by a line for each row. A collection that a root of another type refers to has the same form. A
//! value that a pointer refers to is one line.

use std::io::{BufRead, Write};
use std::path::Path;

use indicatif::ProgressBar;
use serde_json::{Value, json};
use strandline::{
    Database, Dynamic, DynamicStore, Loaded, Persist, Schema, Shown, SingleWriter, TableDescription,
    TableKind, Tables, TypeDescription,
};
use strandline_core::error::compare_moved;
use strandline_core::file::Options;

use strandline_command::Failure;

/// Number of rows that are copied at a time.
const ROWS: usize = 10_000;

/// Writes all that the pool's root refers to: the tables if the pool is a database, otherwise first a description of the root. Leaves out what is
/// damaged, and returns descriptions of it.
///
/// # Errors
/// Returns an error if a value's type is one that only its program can read, or if the output fails.
pub fn dump(store: &DynamicStore, out: &mut impl Write, bar: &ProgressBar) -> Result<Vec<String>, Failure> {
    let Schema { root, types, .. } = store.schema()?;
    let mut lines = Output { out, failed: None };
    // The root of a database is the catalogue, whose own words mean nothing to the user.
    let is_database = root == Tables::NAME;
    let mut hidden = None;
    if !is_database {
        lines.put(&json!({"root": root, "types": types.to_json()})).map_err(|error| lines.failure(error))?;
    }
    let done = store.dump(|shown| match shown {
        Shown::Value { type_name, value: Dynamic::Record(fields), .. }
            if is_database && type_name == root =>
        {
            hidden = fields.iter().find_map(|(_, value)| match value {
                Dynamic::Handle(to, at) if **to == *"Ptr<u64>" => Some(*at),
                _ => None,
            });
            Ok(())
        }
        Shown::Value { at, .. } if hidden == Some(at) => Ok(()),
        Shown::Value { at, type_name, value } => {
            lines.put(&json!({"at": format!("{at:#x}"), "type": type_name, "value": value.to_json()}))
        }
        Shown::Collection { type_name, .. } if is_database && type_name == root => Ok(()),
        Shown::Collection { at, type_name } => {
            lines.put(&json!({"at": format!("{at:#x}"), "type": type_name}))
        }
        Shown::Table { table, rows } => {
            begin(bar, &table, rows.unwrap_or(0));
            lines.put(&table.to_json(rows))
        }
        Shown::Row { key: Some(key), value } => {
            bar.inc(1);
            lines.put(&json!({"key": key.to_json(), "value": value.to_json()}))
        }
        Shown::Row { key: None, value } => {
            bar.inc(1);
            lines.put(&json!({"value": value.to_json()}))
        }
        _ => Ok(()),
    });
    done.map_err(|error| lines.failure(error))
}

/// Starts the progress bar of a table with this number of rows.
fn begin(bar: &ProgressBar, table: &TableDescription, rows: u64) {
    bar.set_length(rows);
    bar.set_message(format!("of {} `{}`", table.kind, table.name));
    bar.reset();
}

/// Writes the table of this name.
///
/// # Errors
/// Returns an error if there is no such table, if a row is damaged, or if output fails.
pub fn dump_table(
    db: &Database<SingleWriter>,
    name: &str,
    out: &mut impl Write,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let tables = db.list()?;
    let Some(table) = tables.iter().find(|table| table.name == name) else {
        return Err(Failure::Usage(format!("there is no table `{name}`: there are {}", names(&tables))));
    };
    let mut lines = Output { out, failed: None };
    let done = db.count(name).and_then(|rows| {
        begin(bar, table, rows);
        lines.put(&table.to_json(Some(rows)))?;
        db.dump(name, |key, value| {
            bar.inc(1);
            lines.put(&match table.kind {
                TableKind::Queue => json!({"value": value.to_json()}),
                _ => json!({"key": key.to_json(), "value": value.to_json()}),
            })
        })
    });
    done.map(drop).map_err(|error| lines.failure(error))
}

/// The writer of the lines, and the error that it has reported.
struct Output<'w, W> {
    out: &'w mut W,
    failed: Option<std::io::Error>,
}

impl<W: Write> Output<'_, W> {
    fn put(&mut self, line: &Value) -> strandline::Result<()> {
        writeln!(self.out, "{line}").map_err(|error| {
            self.failed = Some(error);
            strandline::Error::Aborted
        })
    }

    /// Returns the failure behind `error`.
    fn failure(&mut self, error: strandline::Error) -> Failure {
        self.failed.take().map_or_else(|| error.into(), Failure::output)
    }
}

/// Lists the tables' names for an error message.
pub fn names(tables: &[TableDescription]) -> String {
    let names: Vec<_> = tables.iter().map(|table| format!("`{}`", table.name)).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Loads lines that [`dump`] has written into the database at `path`, which is created if it does not exist. Returns the numbers of tables and of
/// rows.
///
/// # Errors
/// Returns an error if a line is not a row of its table, if the number of a table's rows is not the one in its first line, if a table exists with
/// other types, or if the input fails. The rows before the error are then stored.
pub fn load(
    path: &Path,
    options: &Options,
    input: impl BufRead,
    bar: &ProgressBar,
) -> Result<(u64, u64), Failure> {
    let db = Database::open_single_writer(path, options)?;
    let (mut tables, mut rows) = (0, 0);
    let mut lines = Lines { lines: input.lines(), number: 0, next: None, failed: None };
    while let Some(line) = lines.take_line() {
        let number = lines.number;
        let wrong = |what: &str| Failure::Usage(format!("line {number}: {what}"));
        let table =
            TableDescription::from_json(&line).ok_or_else(|| wrong("expected the description of a table"))?;
        bar.set_message(format!("{} `{}`", table.kind, table.name));
        let is_queue = table.kind == TableKind::Queue;
        let target = Target::new(&db, &table)?;
        let loaded = db.load(&table, std::iter::from_fn(|| lines.take_row(is_queue)).map(Ok));
        if let Some(failed) = lines.failed.take() {
            return Err(failed);
        }
        let loaded = loaded.map_err(|error| match error {
            strandline::Error::Parameter(what) => {
                Failure::Usage(format!("near line {}: {what}", lines.number))
            }
            error => error.into(),
        })?;
        // Files that earlier versions wrote do not contain the number of rows.
        if let Some(there) = line.get("rows").and_then(Value::as_u64)
            && there != loaded.rows
        {
            return Err(wrong(&format!(
                "the table `{}` has {there} rows, and {} follow: the file is not complete",
                table.name, loaded.rows
            )));
        }
        target.compare(loaded)?;
        rows += loaded.rows;
        tables += 1;
    }
    match lines.failed {
        Some(failed) => Err(failed),
        None => {
            db.close()?;
            bar.finish_and_clear();
            Ok((tables, rows))
        }
    }
}

/// Copies the tables of a database to another one. The caller makes sure that nothing else writes to that. Returns the numbers of tables and of rows.
///
/// # Errors
/// Returns an error if a row is damaged, if the copy does not have the rows of the original, or if the other database fails.
pub fn copy(
    db: &Database<SingleWriter>,
    to: &Database<SingleWriter>,
    bar: &ProgressBar,
) -> Result<(u64, u64), Failure> {
    let (mut tables, mut rows) = (0, 0);
    for table in db.list()? {
        begin(bar, &table, db.count(&table.name)?);
        let target = Target::new(to, &table)?;
        let (mut some, mut loaded) = (Vec::new(), to.load(&table, [])?);
        let mut store = |some: &mut Vec<_>| {
            let more = to.load(&table, some.drain(..).map(Ok))?;
            loaded.rows += more.rows;
            loaded.replaced += more.replaced;
            Ok(())
        };
        let there = db.dump(&table.name, |key, value| {
            bar.inc(1);
            some.push((key, value));
            if some.len() == ROWS { store(&mut some) } else { Ok(()) }
        })?;
        store(&mut some)?;
        compare_moved(|| format!("rows of the table `{}`", table.name), there, loaded.rows)?;
        target.compare(loaded)?;
        tables += 1;
        rows += loaded.rows;
    }
    Ok((tables, rows))
}

/// A table into which rows are loaded, and the number of rows that it had before. Nothing else changes it, since this process has locked the pool.
struct Target<'d> {
    db: &'d Database<SingleWriter>,
    name: String,
    before: u64,
}

impl<'d> Target<'d> {
    fn new(db: &'d Database<SingleWriter>, table: &TableDescription) -> Result<Self, Failure> {
        Ok(Self { db, name: table.name.clone(), before: db.count(&table.name)? })
    }

    /// Compares the number of rows that the table has gained with the number that was loaded.
    fn compare(&self, loaded: Loaded) -> Result<(), Failure> {
        let there = self.before + loaded.rows - loaded.replaced;
        let what = || format!("rows of the table `{}` after it", self.name);
        Ok(compare_moved(what, there, self.db.count(&self.name)?)?)
    }
}

/// Lines of JSON, of which the next one can be peeked at.
struct Lines<B: BufRead> {
    lines: std::io::Lines<B>,
    number: u64,
    next: Option<Value>,
    failed: Option<Failure>,
}

impl<B: BufRead> Lines<B> {
    fn take_line(&mut self) -> Option<Value> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        loop {
            let line = self.lines.next()?;
            self.number += 1;
            let number = self.number;
            match line {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => match serde_json::from_str(&line) {
                    Ok(line) => return Some(line),
                    Err(error) => {
                        self.failed = Some(Failure::Usage(format!("line {number} is no JSON: {error}")));
                        return None;
                    }
                },
                Err(error) => {
                    self.failed = Some(Failure::io("read")(error));
                    return None;
                }
            }
        }
    }

    /// Returns the next row, or `None` if another table begins.
    fn take_row(&mut self, is_queue: bool) -> Option<(Dynamic, Dynamic)> {
        let line = self.take_line()?;
        if line.get("table").is_some() {
            self.next = Some(line);
            return None;
        }
        let key = if is_queue { Some(&Value::Null) } else { line.get("key") };
        let row = key
            .zip(line.get("value"))
            .and_then(|(key, value)| Dynamic::from_json(key).zip(Dynamic::from_json(value)));
        if row.is_none() {
            let what = format!("line {}: expected a row with a key and a value", self.number);
            self.failed = Some(Failure::Usage(what));
        }
        row
    }
}

/// Returns whether a type is one of the library's own, of which catalogues consist and which users need not know.
pub fn is_of_the_library(of: &TypeDescription) -> bool {
    of.name.starts_with("strandline::")
}
