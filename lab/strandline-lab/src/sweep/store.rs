//! What a sweep has found so far: a file of JSON objects, a line each. Lines are only ever added to it, until they are put in order.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Point, Row, Work};

/// The form of its lines.
const SCHEMA: u32 = 1;

/// The file, and what is in it.
pub struct Store {
    path: PathBuf,
    file: File,
    lines: Vec<Value>,
    program: String,
}

impl Store {
    /// Opens or makes it. `program` tells builds of the program apart: what another one has found is left alone, and not used.
    ///
    /// # Errors
    /// The file cannot be read or made, or another sweep has it.
    pub fn open(path: &Path, program: &str) -> io::Result<Self> {
        let file = locked(path)?;
        let text = std::fs::read_to_string(path)?;
        let whole = whole(&text);
        file.set_len(whole.len() as u64)?;
        Ok(Self { path: path.to_owned(), file, lines: lines(whole), program: program.to_owned() })
    }

    /// What a point's run found, if it is known.
    pub fn find(&self, point: &Point) -> Option<Row> {
        row_among(&self.lines, &self.program, point)
    }

    /// Adds what a point's run found.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, point: &Point, row: &Row) -> io::Result<()> {
        let line = line(&self.program, point, row);
        self.file.write_all(format!("{line}\n").as_bytes())?;
        self.lines.push(line);
        Ok(())
    }

    /// Adds what somebody else has found, by [`Point::line`]; false if it is of another point, or of another build of the program.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add_line(&mut self, point: &Point, line: &str) -> io::Result<bool> {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return Ok(false) };
        let machine = serde_json::to_value(&point.machine)?;
        if !is_of(&line, &self.program, &point.identity(), &machine) {
            return Ok(false);
        }
        self.file.write_all(format!("{line}\n").as_bytes())?;
        self.lines.push(line);
        Ok(true)
    }

    /// Puts the lines of these points into their order, each once, and all others behind: so the file does not depend on what was run first, nor by
    /// whom. It is replaced as a whole.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn arrange(&mut self, points: &[Point]) -> io::Result<()> {
        let mut of_points: Vec<Option<usize>> = vec![None; points.len()];
        let mut is_taken = vec![false; self.lines.len()];
        for (point, place) in points.iter().zip(&mut of_points) {
            let machine = serde_json::to_value(&point.machine)?;
            let identity = point.identity();
            for (index, line) in self.lines.iter().enumerate() {
                if is_of(line, &self.program, &identity, &machine) {
                    if place.is_none() && !is_taken[index] {
                        *place = Some(index);
                    }
                    is_taken[index] = true;
                }
            }
        }
        let others = (0..self.lines.len()).filter(|&index| !is_taken[index]);
        let order: Vec<usize> = of_points.into_iter().flatten().chain(others).collect();
        if order.iter().copied().eq(0..self.lines.len()) {
            return Ok(());
        }
        let lines: Vec<Value> = order.iter().map(|&index| self.lines[index].clone()).collect();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let beside = self.path.with_extension("jsonl.new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        self.file = locked(&self.path)?;
        self.lines = lines;
        Ok(())
    }
}

impl Drop for Store {
    /// A forked child may have the file open still.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// What a file has, of which somebody may be writing still.
pub(super) struct Known {
    lines: Vec<Value>,
    program: String,
}

impl Known {
    /// Reads it; an empty one if there is no such file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path, program: &str) -> io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        Ok(Self { lines: lines(whole(&text)), program: program.to_owned() })
    }

    /// What a point's run found, if it is known.
    pub fn find(&self, point: &Point) -> Option<Row> {
        row_among(&self.lines, &self.program, point)
    }
}

/// Opens the file to add to it, for this process alone.
fn locked(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).append(true).create(true).open(path)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::other(
            "another sweep is writing to it: wait for that one, or choose another folder (--out); each shard needs one of its own",
        )),
        // Some network file systems have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Without what a program that was killed has left of a line.
fn whole(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |end| end + 1)]
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A line of the file.
pub(super) fn line(program: &str, point: &Point, row: &Row) -> Value {
    let mut line = json!({
        "schema": SCHEMA,
        "program": program,
        "run": point.identity(),
        "result": row.result,
        "too_short": row.too_short,
    });
    // Of a trace that names its instructions the result has a machine that charges none itself.
    if let Work::Trace(_) = point.work {
        line["machine"] = json!(point.machine);
    }
    line
}

/// The machine that a line's point describes.
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

    /// As `row`, of a point.
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
            // What comes later is behind.
            store.add(&all[0], &of(&all[0], 0)).unwrap();
            store.arrange(&all).unwrap();
            std::fs::read_to_string(&path).unwrap()
        };
        let ordered = text(&[0, 1, 2]);
        assert_eq!(ordered, text(&[2, 0, 1]));
        assert_eq!(ordered, text(&[2, 0, 2, 1]), "twice");
        let numbers =
            lines(&ordered).iter().map(|line| line["result"]["number"].as_u64().unwrap()).collect::<Vec<_>>();
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
