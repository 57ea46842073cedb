//! `strandline-check litmus`: explores or runs litmus tests from files, and those shipped with the command.

mod run;

use std::path::{Path, PathBuf};
use strandline_command::say;

use clap::Subcommand;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use strandline_check::Setting;
use strandline_check::litmus::{Answer, Limits, Row, Test, shipped};

use strandline_command::completion::{Names, names, names_and_files};
use strandline_command::output::Numbered;
use strandline_command::{Failure, Outcome};

use crate::setting_names;

/// Explore litmus tests: find the states that a crash at any point may leave, and whether the states that a test asks about are among them; or run
/// the tests.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example: strandline-check litmus nt_mp mine.litmus --setting line,word\n\n\
    A file:\n  \
      name: commit1\n  \
      line A: data          # locations by cache line; names on one line share it\n  \
      line B: commit\n  \
      thread:               # any number of threads\n    \
        store data 1\n    \
        clwb data\n    \
        sfence\n    \
        store commit 1\n  \
      thread:\n    \
        load r1 data\n    \
        if r1 == 1 then 2   # the next 2 operations run only if it holds\n    \
        clflushopt data\n    \
        mfence\n    \
        store-nt commit 1\n    \
        cas r2 data 1 2     # expects 1, writes 2; r2 gets the old value\n    \
        add r3 data 1       # r3 gets the old value\n  \
      ask: commit=1 data=0  # is there such a crash state? Any number of these\n  \
      answer: forbidden     # the answer of the publication in a line `source: …`\n  \
      final: 1:r1=1 data=1  # does some run end like this? Threads from 0\n\n\
    Operations: store store-nt load cas add clflush clflushopt clwb sfence mfence if. Locations and registers are 0 at \
    first; a value may be a register.\n\n\
    Exit code 1: an answer differs from the published one. Exit code 2: a file is malformed (its line is printed) or too \
    large to be explored exhaustively."
)]
pub struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    tests: Tests,
    /// The parts of a line that a power failure may separate. `line`: stores to one line persist in order, as x86 guarantees; `word`: each 8-byte location persists by
    /// itself; `flush-on-fail`: caches survive
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "line,word,flush-on-fail",
        add = names(setting_names)
    )]
    setting: Vec<Setting>,
    /// Print the questions that have a published answer, with the checker's answer, the published one and its source
    #[arg(long, conflicts_with = "setting")]
    sources: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    Run(run::Arguments),
}

/// The tests that a command explores or runs.
#[derive(clap::Args)]
pub struct Tests {
    /// Files, or names of shipped tests such as nt_mp
    #[arg(
        required_unless_present = "shipped",
        value_name = "FILE|NAME",
        add = names_and_files(shipped_names, "litmus")
    )]
    tests: Vec<PathBuf>,
    /// All tests that are shipped with the command
    #[arg(long, conflicts_with = "tests")]
    shipped: bool,
}

fn shipped_names() -> Names {
    shipped().map(|(name, _)| (name.to_owned(), String::new())).collect()
}

impl Tests {
    /// Reads all tests before the first is explored, so that a malformed one is reported early. Returns each test with its name in messages.
    fn read(&self) -> Result<Vec<(String, Test)>, Failure> {
        let parse = |name: String, text: &str| match Test::parse(text) {
            Ok(test) => Ok((name, test)),
            Err(malformed) => Err(Failure::Usage(format!("{name}: {malformed}"))),
        };
        if self.shipped {
            return shipped().map(|(name, text)| parse(name.to_owned(), text)).collect();
        }
        let read = |file: &PathBuf| {
            let name = file.display().to_string();
            match std::fs::read_to_string(file) {
                Ok(text) => parse(name, &text),
                Err(error) => match shipped().find(|&(shipped, _)| Path::new(shipped) == file) {
                    Some((_, text)) => parse(name, text),
                    None => {
                        let what = format!("cannot read {name}: {error}, and no shipped test has this name");
                        Err(Failure::Usage(what))
                    }
                },
            }
        };
        self.tests.iter().map(read).collect()
    }
}

/// Checks the litmus tests and prints the states that they allow, or runs them.
///
/// # Errors
/// Returns a failure if a file cannot be read, is malformed or too large, or if the tests cannot be run.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    if let Some(What::Run(arguments)) = &arguments.what {
        return run::run(arguments);
    }
    let rows = rows(arguments)?;
    if arguments.json {
        say!("{:#}", object(&rows));
    } else if arguments.sources {
        say!("{}", sources(&arguments.tests.read()?, &rows));
    } else {
        say!("{}", table(&rows));
    }
    let is_wrong = rows.iter().flat_map(|row| row.asks.iter().chain(&row.finals)).any(Answer::contradicts);
    Ok(if is_wrong { Outcome::Finding } else { Outcome::Success })
}

/// Like [`run`], but returns what `--json` prints.
///
/// # Errors
/// As for [`run`].
pub fn answer(arguments: &Arguments) -> Result<serde_json::Value, Failure> {
    match &arguments.what {
        Some(What::Run(arguments)) => run::answer(arguments),
        None => rows(arguments).map(|rows| object(&rows)),
    }
}

fn object(rows: &[Row]) -> serde_json::Value {
    json!(rows.iter().map(Numbered::new).collect::<Vec<_>>())
}

/// Explores each test under each setting.
fn rows(arguments: &Arguments) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (name, test) in &arguments.tests.read()? {
        let found = test.explore(Limits::default());
        let found = found.map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
        rows.extend(arguments.setting.iter().map(|&setting| found.row(test, setting)));
    }
    Ok(rows)
}

/// Compares the answers under the setting `line` with published ones. The published answers concern only this setting.
fn sources(tests: &[(String, Test)], rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "test",
        "question",
        "published",
        "checker",
        "source",
    ]);
    for ((_, test), row) in tests.iter().zip(rows.iter().filter(|row| row.setting == Setting::Line)) {
        for answer in row.asks.iter().chain(&row.finals) {
            if let Some(published) = answer.published {
                let source = test.source.clone().unwrap_or_default();
                let (published, verdict) = (published.to_string(), answer.verdict.to_string());
                table.add_row([row.name.clone(), answer.ask.clone(), published, verdict, source]);
            }
        }
    }
    table
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(["test", "setting", "states", "ask", "verdict"]);
    if let Some(states) = table.column_mut(2) {
        states.set_cell_alignment(CellAlignment::Right);
    }
    let mut last = "";
    for row in rows {
        // Print the name only in the first row of a test and setting, so that the groups stand out.
        let mut name = if row.name == last { "" } else { &row.name };
        let (mut setting, mut states) = (row.setting.name(), row.states.to_string());
        // Print the final values only once for each test: they do not depend on the setting.
        let finals = row.finals.iter().filter(|_| row.name != last);
        for answer in row.asks.iter().chain(finals) {
            table.add_row([name, setting, &states, &answer.ask, &answer.verdict.to_string()]);
            (name, setting) = ("", "");
            states.clear();
        }
        last = &row.name;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str =
        "name: t\nline A: x\nline B: y\nthread:\nstore x 1\nstore y 1\nask: y=1 x=0\nask: x=1\n";

    fn with_files(tests: Vec<PathBuf>) -> Arguments {
        let tests = Tests { tests, shipped: false };
        Arguments { what: None, tests, setting: Setting::ALL.to_vec(), sources: false, json: true }
    }

    fn arguments(texts: &[&str]) -> (tempfile::TempDir, Arguments) {
        let folder = tempfile::tempdir().unwrap();
        let write = |(index, text): (usize, &&str)| {
            let file = folder.path().join(format!("{index}.litmus"));
            std::fs::write(&file, text).unwrap();
            file
        };
        let files = texts.iter().enumerate().map(write).collect();
        (folder, with_files(files))
    }

    #[test]
    fn rows_as_documented() {
        let (_folder, mut arguments) = arguments(&[TEST, TEST]);
        let row = |setting: &str, states: usize, first: &str| {
            json!({"name": "t", "setting": setting, "states": states, "asks": [
                {"ask": "y=1 x=0", "verdict": first},
                {"ask": "x=1", "verdict": "allowed"},
            ]})
        };
        let one =
            [row("line", 4, "allowed"), row("word", 4, "allowed"), row("flush-on-fail", 3, "forbidden")];
        assert_eq!(json!(rows(&arguments).unwrap()), json!([one.clone(), one.clone()].concat()));
        arguments.setting = vec![Setting::Word];
        assert_eq!(json!(rows(&arguments).unwrap()), json!([one[1], one[1]]));
    }

    #[test]
    fn every_row_says_what_it_asks() {
        let (_folder, arguments) = arguments(&[TEST]);
        let table = table(&rows(&arguments).unwrap()).to_string();
        assert_eq!(table.matches("y=1 x=0").count(), 3, "{table}");
        assert_eq!((table.matches("allowed").count(), table.matches("forbidden").count()), (5, 1), "{table}");
    }

    #[test]
    fn a_malformed_file_is_wrong_usage() {
        let (_folder, arguments) = arguments(&[TEST, "name: t\nline A: x\nthread:\nclwb y\nask: x=1\n"]);
        let failure = rows(&arguments).unwrap_err();
        let message = failure.to_string();
        assert_eq!(failure.exit_code(), 2);
        assert!(
            message.contains("1.litmus: line 4: expected a location") && message.contains("`y`"),
            "{message}"
        );
    }

    #[test]
    fn so_are_missing_and_too_large_files() {
        let (folder, mut arguments) = arguments(&[]);
        arguments.tests.tests = vec![folder.path().join("none")];
        assert_eq!(rows(&arguments).unwrap_err().exit_code(), 2);
        let file = folder.path().join("large");
        let stores = "store x 1\n".repeat(201);
        std::fs::write(&file, format!("name: t\nline A: x\nthread:\n{stores}ask: x=1\n")).unwrap();
        arguments.tests.tests = vec![file];
        let failure = rows(&arguments).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains("large: the test is too large"), "{failure}");
    }
}
