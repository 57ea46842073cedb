//! A table that prints each row as soon as it is complete, so that its reader sees findings immediately.

use indicatif::ProgressBar;
use serde_json::Value;
use strandline_command::say;

use super::campaign::{Asked, Column, Expected, Unit};

/// The gap between two columns.
const GAP: &str = "  ";

/// A table whose header is printed with the first row. The width of its last column is unlimited.
pub struct Rows<'a> {
    columns: &'static [Column],
    widths: Vec<usize>,
    has_begun: bool,
    asked: &'a Asked,
    /// The progress bar below the table.
    bar: &'a ProgressBar,
}

impl<'a> Rows<'a> {
    /// Creates a table of these units. A column is as wide as its header, or as the longest expected text. A longer text moves the rest of its row to
    /// the right.
    pub fn new(
        columns: &'static [Column],
        units: &[Unit<'_>],
        asked: &'a Asked,
        bar: &'a ProgressBar,
    ) -> Self {
        let length = |text: &str| text.chars().count();
        let width = |column: &Column| {
            let expected = match column.expected {
                Expected::Nothing => 0,
                Expected::Text(text) => length(text),
                Expected::Keys => {
                    let keys = units.iter().flat_map(|unit| keys(&unit.key));
                    keys.map(|key| length(&(column.cell)(key, asked))).max().unwrap_or(0)
                }
            };
            expected.max(length(column.header))
        };
        Self { columns, widths: columns.iter().map(width).collect(), has_begun: false, asked, bar }
    }

    /// Prints a row and the lines `below` it. Prints nothing if the output is JSON.
    pub fn add(&mut self, row: &Value, below: &[String]) {
        if self.asked.json {
            return;
        }
        let headers: Vec<_> = self.columns.iter().map(|column| column.header.to_owned()).collect();
        let header = (!self.has_begun).then(|| self.line(&headers));
        self.has_begun = true;
        let cells: Vec<_> = self.columns.iter().map(|column| (column.cell)(row, self.asked)).collect();
        let row = self.line(&cells);
        self.bar.suspend(|| {
            header.iter().chain([&row]).chain(below).for_each(|line| say!("{line}"));
        });
    }

    /// Prints the summary after the rows.
    pub fn end(&self, summary: &str) {
        if !self.asked.json {
            self.bar.suspend(|| say!("\n{summary}"));
        }
    }

    fn line(&self, cells: &[String]) -> String {
        let padded = cells.iter().zip(&self.widths).map(|(cell, &width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }
}

/// Returns the keys of a unit's attempts, or its own key.
fn keys(key: &Value) -> Vec<&Value> {
    key["attempts"].as_array().map_or_else(|| vec![key], |attempts| attempts.iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::campaign::text;
    use super::*;

    #[test]
    fn columns_stand_below_one_another() {
        static COLUMNS: [Column; 3] = [
            Column {
                header: "scheme",
                cell: |row, _| text(row, "scheme").to_owned(),
                expected: Expected::Keys,
            },
            Column { header: "states", cell: |_, _| String::new(), expected: Expected::Text("1234567") },
            Column { header: "verdict", cell: |_, _| String::new(), expected: Expected::Nothing },
        ];
        let bar = ProgressBar::hidden();
        let asked = Asked { mutants: false, seed: 1, one: false, json: false, session: Default::default() };
        let unit = |key: Value| Unit { row: 0, key, explore: None };
        let attempts = json!({ "attempts": [{ "scheme": "a-long-name" }, { "scheme": "a" }] });
        let units = [unit(json!({ "scheme": "bppm" })), unit(attempts)];
        let rows = Rows::new(&COLUMNS, &units, &asked, &bar);
        let line = |cells: [&str; 3]| rows.line(&cells.map(str::to_owned));
        assert_eq!(line(["scheme", "states", "verdict"]), "scheme       states   verdict");
        assert_eq!(line(["a-long-name", "7", ""]), "a-long-name  7");
        assert_eq!(line(["bppm", "1234567", "ok"]), "bppm         1234567  ok");
    }
}
