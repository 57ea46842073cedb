//! The results of a sweep so far, kept in a [`Ledger`].

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::{Point, Row, Work};
use crate::ledger::{self, Ledger};

/// The version of its lines' format.
const SCHEMA: u32 = 1;

/// The file, and its contents.
pub struct Store {
    ledger: Ledger,
    program: String,
}

impl Store {
    /// Opens or creates the file. `program` identifies the build of the program; results of other builds are kept but not used.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or created, or if another sweep has it open.
    pub fn open(path: &Path, program: &str) -> io::Result<Self> {
        Ok(Self { ledger: Ledger::open(path)?, program: program.to_owned() })
    }

    /// Returns the result of a point's run, if known.
    pub fn find(&self, point: &Point) -> Option<Row> {
        row_among(self.ledger.lines(), &self.program, point)
    }

    /// Adds the result of a point's run.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn add(&mut self, point: &Point, row: &Row) -> io::Result<()> {
        self.ledger.add(line(&self.program, point, row))
    }

    /// Adds a result from elsewhere, in the form of [`Point::line`]. Returns false if it belongs to another point, or to another build of the
    /// program.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn add_line(&mut self, point: &Point, line: &str) -> io::Result<bool> {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return Ok(false) };
        let machine = serde_json::to_value(&point.machine)?;
        if !is_of(&line, &self.program, &point.identity(), &machine) {
            return Ok(false);
        }
        self.ledger.add(line)?;
        Ok(true)
    }

    /// Puts the lines of these points in order, each once, followed by all others ([`Ledger::arrange`]).
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn arrange(&mut self, points: &[Point]) -> io::Result<()> {
        let identities =
            points.iter().map(|point| Ok((point.identity(), serde_json::to_value(&point.machine)?)));
        let identities = identities.collect::<io::Result<Vec<_>>>()?;
        self.ledger.arrange(points.len(), |point, line| {
            let (identity, machine) = &identities[point];
            is_of(line, &self.program, identity, machine)
        })
    }
}

/// The contents of a file that another process may still be writing.
pub(super) struct Known {
    lines: Vec<Value>,
    program: String,
}

impl Known {
    /// Reads the file; a missing file counts as empty.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn read(path: &Path, program: &str) -> Result<Self, String> {
        Ok(Self { lines: ledger::read(path)?, program: program.to_owned() })
    }

    /// Returns the result of a point's run, if known.
    pub fn find(&self, point: &Point) -> Option<Row> {
        row_among(&self.lines, &self.program, point)
    }
}

/// Returns a line of the file.
pub(super) fn line(program: &str, point: &Point, row: &Row) -> Value {
    let mut line = json!({
        "schema": SCHEMA,
        "program": program,
        "run": point.identity(),
        "result": row.result,
        "too_short": row.too_short,
    });
    // If a trace names its instructions, the machine in the result charges no instructions itself.
    if let Work::Trace(_) = point.work {
        line["machine"] = json!(point.machine);
    }
    line
}

/// Returns the machine of a line's point.
fn machine_of(line: &Value) -> &Value {
    line.get("machine").unwrap_or(&line["result"]["machine"])
}

fn is_of(line: &Value, program: &str, identity: &Value, machine: &Value) -> bool {
    line["run"] == *identity
        && *machine_of(line) == *machine
        && line["program"] == *program
        && line["schema"] == SCHEMA
}

fn row_among(lines: &[Value], program: &str, point: &Point) -> Option<Row> {
    let machine = serde_json::to_value(&point.machine).ok()?;
    let identity = point.identity();
    lines.iter().find(|line| is_of(line, program, &identity, &machine)).map(row_of)
}

fn row_of(line: &Value) -> Row {
    let too_short = line["too_short"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Row { result: line["result"].clone(), too_short: too_short.map(str::to_owned).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::points;
    use super::*;

    fn row(number: u64) -> Row {
        Row { result: json!({"number": number}), too_short: Vec::new() }
    }

    /// Like `row`, for a point.
    fn of(point: &Point, number: u64) -> Row {
        let mut row = row(number);
        row.result["machine"] = serde_json::to_value(&point.machine).unwrap();
        row
    }

    #[test]
    fn lines_are_put_in_order_and_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let all = points(&[100, 200, 400]);
        let text = |order: &[usize]| {
            let path = folder.path().join("points.jsonl");
            let _ = std::fs::remove_file(&path);
            let mut another = Store::open(&path, "another").unwrap();
            another.add(&all[0], &of(&all[0], 7)).unwrap();
            drop(another);
            let mut store = Store::open(&path, "this").unwrap();
            order.iter().for_each(|&at| store.add(&all[at], &of(&all[at], at as u64)).unwrap());
            store.arrange(&all).unwrap();
            // Later lines follow.
            store.add(&all[0], &of(&all[0], 0)).unwrap();
            store.arrange(&all).unwrap();
            std::fs::read_to_string(&path).unwrap()
        };
        let ordered = text(&[0, 1, 2]);
        assert_eq!(ordered, text(&[2, 0, 1]));
        assert_eq!(ordered, text(&[2, 0, 2, 1]), "twice");
        let numbers = ordered
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["result"]["number"].as_u64().unwrap())
            .collect::<Vec<_>>();
        assert_eq!(numbers, [0, 1, 2, 7]);
    }

    #[test]
    fn one_sweep_has_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        let store = Store::open(&path, "").unwrap();
        let refused = Store::open(&path, "").err().unwrap().to_string();
        assert!(refused.contains("--out"), "{refused}");
        drop(store);
        let mut store = Store::open(&path, "").unwrap();
        let all = points(&[100, 200]);
        let found = all[0].line("", &of(&all[0], 1));
        assert!(store.add_line(&all[0], &found).unwrap());
        assert!(!store.add_line(&all[1], &found).unwrap(), "another point");
        assert!(!store.add_line(&all[0], &all[0].line("another", &of(&all[0], 1))).unwrap());
        assert!(!store.add_line(&all[0], "").unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), found + "\n");
    }
}
