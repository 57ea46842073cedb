//! What a sweep has found so far: a file of JSON objects, a line each, which is only ever added to.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::{Point, Row};

/// The form of its lines.
const SCHEMA: u32 = 1;

/// The file, and what is in it.
pub struct Store {
    file: File,
    lines: Vec<Value>,
    program: String,
}

impl Store {
    /// Opens or makes it. `program` tells builds of the program apart: what another one has found is left alone, and not used.
    ///
    /// # Errors
    /// The file cannot be read or made.
    pub fn open(path: &Path, program: &str) -> io::Result<Self> {
        let mut text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        // A program that was killed may have left part of a line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let file = File::options().append(true).create(true).open(path)?;
        file.set_len(whole as u64)?;
        text.truncate(whole);
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { file, lines, program: program.to_owned() })
    }

    /// What a point's run found, if it is known.
    pub fn find(&self, point: &Point) -> Option<Row> {
        let machine = serde_json::to_value(&point.machine).ok()?;
        let identity = point.identity();
        let is = |line: &&Value| {
            line["run"] == identity
                && line["result"]["machine"] == machine
                && line["program"] == *self.program
                && line["schema"] == SCHEMA
        };
        let line = self.lines.iter().find(is)?;
        let too_short = line["too_short"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Some(Row { result: line["result"].clone(), too_short: too_short.map(str::to_owned).collect() })
    }

    /// Adds what a point's run found.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, point: &Point, row: &Row) -> io::Result<()> {
        let line = json!({
            "schema": SCHEMA,
            "program": self.program,
            "run": point.identity(),
            "result": row.result,
            "too_short": row.too_short,
        });
        self.file.write_all(format!("{line}\n").as_bytes())?;
        self.lines.push(line);
        Ok(())
    }
}
