//! Commands that work on a database that a program has open, if the program answers requests, and on one that no program has open.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use strandline::control::{Refusal, Request, ask};
use strandline_command::arguments::number;
use strandline_command::completion::pools;
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome, say};
use strandline_core::Error;
use strandline_core::file::{PoolInfo, backup_files};
use strandline_core::heap::HeapUsage;
use strandline_core::scheme::Schemes;

use super::described::database;
use super::{Opening, options_of};

/// List the tables of a database, also while a program has it open.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool list orders.db")]
pub(super) struct List {
    /// The database's file
    #[arg(add = pools())]
    path: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Print a JSON object for each table
    #[arg(long)]
    json: bool,
}

/// Print the row with a key as a line of JSON, also while a program has the database open. Exit code 1 if there is none.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool get orders.db people 7\n\n\
    The key is JSON, as `strandline pool range` prints it; what is no JSON is a text. Quote a text that looks like a number: \
    '\"7\"'. Of a multimap, all rows with the key are printed.")]
pub(super) struct Get {
    /// The database's file
    #[arg(add = pools())]
    path: PathBuf,
    /// The table's name
    table: String,
    /// The key
    key: String,
    #[command(flatten)]
    opening: Opening,
}

/// Print rows in the order of their keys, a line of JSON each, also while a program has the database open.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool range orders.db people --from 7 --limit 10\n\n\
    The rows are of one moment, whatever is written meanwhile.")]
pub(super) struct Range {
    /// The database's file
    #[arg(add = pools())]
    path: PathBuf,
    /// The table's name
    table: String,
    /// The least key, by default the first one
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The first key that is too great
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// The most rows
    #[arg(long, value_name = "ROWS", value_parser = number(1..=u64::MAX))]
    limit: Option<u64>,
    #[command(flatten)]
    opening: Opening,
}

/// Show what a program that has a database open has done with it: transactions, conflicts, writes, and how long they took.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool statistics orders.db --json\n\n\
    The program has to answer requests (`Database::serve_control`). Counts begin when it opens the database. Durations are \
    in seconds.")]
pub(super) struct Statistics {
    /// The database's file
    #[arg(add = pools())]
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Have a program that has a database open write everything committed to the pool's file, so that a restart has little to do.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool checkpoint orders.db\n\n\
    The program has to answer requests (`Database::serve_control`). A database that no program has open needs none.")]
pub(super) struct Checkpoint {
    /// The database's file
    #[arg(add = pools())]
    path: PathBuf,
}

/// Parses an argument as JSON. Text that is not JSON becomes a string.
fn key(argument: &str) -> Value {
    serde_json::from_str(argument).unwrap_or_else(|_| argument.into())
}

/// Returns whether the failure is that a program has the pool open.
pub(super) fn is_locked(failure: &Failure) -> bool {
    matches!(failure, Failure::Library(Error::Locked { .. }))
}

/// Sends a request to the program that has the pool at `path` open. `unanswered` is the failure to return if no program answers.
pub(super) fn ask_program(
    path: &Path,
    request: &Request,
    unanswered: Failure,
    mut line: impl FnMut(Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut failed = None;
    let put = |object| {
        line(object).map_err(|failure| {
            failed = Some(failure);
            io::Error::other("the output ends")
        })
    };
    let asked = ask(path, request, put);
    match (asked, failed) {
        (_, Some(failure)) => Err(failure),
        (Ok(()), None) => Ok(()),
        (Err(error), None) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Err(unanswered)
        }
        (Err(error), None) => Err(refused(&error)),
    }
}

/// Returns the failure for an error that the program has answered with. Its exit code is the one for a pool that is not open, if that can be told.
fn refused(error: &io::Error) -> Failure {
    let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>());
    match refusal.and_then(|refusal| refusal.kind.as_deref()) {
        Some("Parameter" | "Unsupported" | "NoTable") => Failure::Usage(error.to_string()),
        Some("Damaged") => Error::damaged(error.to_string()).into(),
        _ => Failure::Other(format!("the program that has the database open: {error}")),
    }
}

/// Returns `locked` with the reason why the program that has the pool open does not help.
pub(super) fn unanswered(locked: &Failure) -> Failure {
    Failure::Other(format!(
        "{locked}; and that program does not answer requests (it would have to call `Database::serve_control`)"
    ))
}

/// Answers `request` about the database at `path`: reads it if no program has it open for writing, and otherwise asks that program.
fn answer(
    path: &Path,
    (opening, schemes): (Opening, Schemes),
    request: &Request,
    mut line: impl FnMut(Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let opened = options_of(path, opening, schemes).and_then(|options| {
        if !path.exists() {
            return Err(Failure::Usage(format!("there is nothing at {}", path.display())));
        }
        database(path, &options)
    });
    match opened {
        Ok(database) => {
            let mut failed = None;
            let put = |object| {
                line(object).map_err(|failure| {
                    failed = Some(failure);
                    Error::Aborted
                })
            };
            let answered = database.answer(request, put);
            failed.map_or(Ok(()), Err).and(answered.map_err(Failure::from))
        }
        Err(locked) if is_locked(&locked) => ask_program(path, request, unanswered(&locked), line),
        Err(failure) => Err(failure),
    }
}

/// Prints the lines of an answer. Returns their number.
fn print(path: &Path, how: (Opening, Schemes), request: &Request) -> Result<u64, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut lines = 0;
    answer(path, how, request, |line| {
        lines += 1;
        writeln!(out, "{line}").map_err(Failure::output)
    })?;
    out.flush().map_err(Failure::output)?;
    Ok(lines)
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

impl List {
    pub(super) fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        answer(&self.path, (self.opening, schemes), &Request::List, |table| {
            if self.json {
                say!("{table}");
            } else {
                let rows = table.get("rows").and_then(Value::as_u64);
                let rows =
                    rows.map_or("a migration of it is under way".into(), |rows| format!("{rows} rows"));
                let (kind, name) = (text(&table, "kind"), text(&table, "table"));
                say!("{kind} {name:?}: {} -> {}, {rows}", text(&table, "key"), text(&table, "value"));
            }
            Ok(())
        })
    }
}

impl Get {
    pub(super) fn run(&self, schemes: Schemes) -> Result<Outcome, Failure> {
        let request = Request::Get { table: self.table.clone(), key: key(&self.key) };
        if print(&self.path, (self.opening, schemes), &request)? > 0 {
            return Ok(Outcome::Success);
        }
        eprintln!("the table `{}` has no row with the key {}", self.table, self.key);
        Ok(Outcome::Finding)
    }
}

impl Range {
    pub(super) fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        let Self { path, table, from, to, limit, opening } = self;
        let bound = |argument: &Option<String>| argument.as_deref().map(key);
        let request =
            Request::Range { table: table.clone(), from: bound(from), to: bound(to), limit: *limit };
        print(path, (*opening, schemes), &request).map(drop)
    }
}

impl Statistics {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut all = one(&self.path, &Request::Statistics)?;
        if self.json {
            if let Value::Object(fields) = &mut all {
                fields.insert("schema".into(), SCHEMA.into());
            }
            say!("{all:#}");
            return Ok(());
        }
        let Value::Object(fields) = all else { return Ok(()) };
        for (name, value) in &fields {
            match value {
                Value::Object(parts) => {
                    for (part, value) in parts {
                        say!("{:<32}  {value}", format!("{name} {part}"));
                    }
                }
                value => say!("{name:<32}  {value}"),
            }
        }
        Ok(())
    }
}

impl Checkpoint {
    pub(super) fn run(&self) -> Result<(), Failure> {
        ask_program(&self.path, &Request::Checkpoint, not_open(&self.path), |_| Ok(()))?;
        say!("everything that was committed is in the pool's file");
        Ok(())
    }
}

/// Returns the failure for a pool that no program has open, or none that answers.
fn not_open(path: &Path) -> Failure {
    if path.exists() {
        Failure::Other(format!("no program answers requests to {}", path.display()))
    } else {
        Failure::Usage(format!("there is nothing at {}", path.display()))
    }
}

/// Returns the one object with which the program that has the pool open answers.
fn one(path: &Path, request: &Request) -> Result<Value, Failure> {
    let mut answer = Value::Null;
    ask_program(path, request, not_open(path), |object| {
        answer = object;
        Ok(())
    })?;
    Ok(answer)
}

/// Adds how full the heap is, if the program that has the pool open tells it.
pub(super) fn add_usage(path: &Path, info: &mut PoolInfo) {
    if !info.open || info.usage.is_some() {
        return;
    }
    let Ok(answer) = one(path, &Request::Usage) else { return };
    let of_heap = |field: &str| answer["heap"][field].as_u64().unwrap_or_default();
    let usage = info.usage.insert(HeapUsage::default());
    usage.total_bytes = of_heap("total_bytes");
    usage.free_chunks = of_heap("free_chunks");
    usage.partial_chunks = of_heap("partial_chunks");
    usage.allocated_bytes = of_heap("allocated_bytes");
    usage.free_block_bytes = of_heap("free_block_bytes");
    usage.objects = of_heap("objects");
}

/// Prints the tables with their rows, which the program that has the database open sends.
pub(super) fn dump(path: &Path, table: Option<&String>, locked: Failure) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let request = Request::Dump { table: table.cloned() };
    ask_program(path, &request, unanswered(&locked), |line| {
        writeln!(out, "{line}").map_err(Failure::output)
    })?;
    out.flush().map_err(Failure::output)
}

/// Copies a pool's files, or has the program that has it open copy them. Returns as JSON what was copied.
pub(super) fn backup(path: &Path, to: &Path, schemes: Schemes) -> Result<Value, Failure> {
    match backup_files(path, to, schemes).map_err(Failure::from) {
        Ok(report) => Ok(json!({
            "heap_bytes": report.heap_bytes, "log_blocks": report.log_blocks, "replayed": report.replayed,
        })),
        Err(locked) if is_locked(&locked) => {
            // The program may have another working directory.
            let to = std::path::absolute(to).map_err(Failure::io("find the working directory"))?;
            let mut report = Value::Null;
            ask_program(path, &Request::Backup { to }, unanswered(&locked), |answer| {
                report = answer;
                Ok(())
            })?;
            Ok(report)
        }
        Err(failure) => Err(failure),
    }
}
