//! `bench --instructions`: the cost of transactions in instructions, which is the same on every machine, however busy it is.
//!
//! The command runs itself under valgrind, with one thread under `flush-on-fail`, twice for each figure, with different numbers of transactions. The
//! difference between the counts is the cost of the additional transactions alone.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;
use strandline_command::say;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use strandline_command::Place;
use strandline_core::Domain;
use strandline_workloads::{
    Client, Parameter, PoolSetting, Prepared, PreparedProduct, Selection, Sizes, System, TpccScale,
    UnknownName, WorkloadKind, Workloads,
};

use super::plan::Plan;
use strandline_command::output::print_json;
use strandline_command::{Failure, Outcome};
use strandline_command::{interrupt, progress};

/// The number of transactions that the shorter run has; the longer one has three times as many.
const TRANSACTIONS: u64 = 1000;
/// The number of operations in a transaction of the runs that measure the cost of a further operation, and the number of such transactions.
const OPERATIONS: u64 = 16;
const LONG_TRANSACTIONS: u64 = 100;

/// The hidden subcommand that runs under valgrind.
pub const CHILD: &str = "bench-child";

/// The arguments of the run under valgrind.
#[derive(clap::Args)]
pub struct ChildArguments {
    #[arg(long, value_parser = system)]
    scheme: System,
    #[arg(long)]
    workload: String,
    #[arg(long)]
    transactions: u64,
    #[arg(long)]
    operations: u64,
    #[arg(long)]
    value_size: u64,
    #[arg(long)]
    log_size: u64,
    #[arg(long)]
    seed: u64,
    /// The folder for its pool; the parent removes it.
    #[arg(long)]
    folder: PathBuf,
}

fn system(name: &str) -> Result<System, UnknownName> {
    name.parse()
}

/// One line of the table. The fields are those of `bench --instructions --json`.
#[derive(Serialize)]
struct Row {
    /// The scheme's name in `strandline-lab list`, or the name of another measured system.
    scheme: &'static str,
    /// The workload's name in `strandline-lab list`.
    workload: &'static str,
    /// Instructions of a transaction of one operation.
    instructions_per_tx: f64,
    /// Instructions that each further operation adds to a transaction; absent where a transaction is of one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions_per_operation: Option<f64>,
}

/// Returns sizes that can be filled quickly, even under valgrind.
fn sizes(value_bytes: u64, operations: u64) -> Sizes {
    const KEYS: u64 = 1 << 14;
    Sizes {
        array_words: KEYS,
        buckets: KEYS / 2,
        hash_keys: KEYS,
        rbtree_keys: KEYS,
        bplustree_keys: KEYS,
        queue_entries: KEYS,
        vertices: KEYS / 8,
        edges: KEYS / 2,
        subscribers: KEYS / 4,
        tpcc: TpccScale::small(),
        value_bytes,
        operations,
        ..Sizes::default()
    }
}

/// Runs the transactions of one run.
///
/// # Errors
/// Returns an error if there is no such workload, if it has no typed form, or if a transaction fails.
pub fn run_child(arguments: &ChildArguments, workloads: Workloads) -> Result<Outcome, Failure> {
    let workload = workloads.of_name(&arguments.workload).map_err(Failure::usage)?;
    let selection = Selection::new(workload, &sizes(arguments.value_size, arguments.operations))?;
    let place = Place::within(&arguments.folder).map_err(Failure::io("create a temporary folder"))?;
    let path = place.folder().join("pool");
    let setting = PoolSetting {
        logs: 1,
        log_bytes: arguments.log_size,
        domain: Domain::FlushOnFail,
        instruction: None,
        concurrency: arguments.scheme.concurrency(),
    };
    let go = |mut client: Box<dyn Client + '_>| -> strandline_core::Result<()> {
        for _ in 0..arguments.transactions {
            client.transaction()?;
        }
        client.drain()
    };
    match arguments.scheme {
        System::Scheme(scheme) => {
            let prepared = Prepared::new(&path, &selection, setting)?;
            go(selection.client(prepared.pool(), scheme, 0, arguments.seed)?)?;
        }
        system => {
            let prepared = PreparedProduct::new(&path, &selection, system, setting)?
                .ok_or_else(|| Failure::Usage(format!("{} has no types", workload.name)))?;
            go(prepared.product().client(arguments.seed)?)?;
        }
    }
    Ok(Outcome::Success)
}

/// Returns the instructions of a run, of all its threads, including a scheme's helper threads.
fn count(plan: &Plan, row: (System, &Selection), operations: u64, transactions: u64) -> Result<u64, Failure> {
    let (system, selection) = row;
    let this = std::env::current_exe().map_err(Failure::io("find this program"))?;
    let place = Place::in_memory().map_err(Failure::io("create a temporary folder"))?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(this)
        .arg(CHILD)
        .args(["--scheme", system.name(), "--workload", selection.name()])
        .args(["--transactions", &transactions.to_string(), "--operations", &operations.to_string()])
        .args(["--value-size", &plan.sizes.value_bytes.to_string()])
        .args(["--log-size", &plan.log_bytes.to_string(), "--seed", &plan.seed.to_string()])
        .arg("--folder")
        .arg(place.folder())
        .output()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::Other(
                "valgrind is not installed, or not in the PATH; --instructions counts with it".into(),
            ),
            _ => Failure::Other(format!("cannot run valgrind: {error}")),
        })?;
    let text = String::from_utf8_lossy(&output.stderr);
    instructions(&text).filter(|_| output.status.success()).ok_or_else(|| {
        Failure::Other(format!("{} on {} under valgrind:\n{text}", system.name(), selection.name()))
    })
}

/// Parses the count in cachegrind's output.
fn instructions(text: &str) -> Option<u64> {
    let digits = text.lines().find_map(|line| {
        let (before, after) = line.split_once("refs:")?;
        before.trim_end().ends_with('I').then_some(after)
    })?;
    digits.trim().replace(',', "").parse().ok()
}

/// Returns the instructions of one transaction.
fn per_transaction(
    plan: &Plan,
    row: (System, &Selection),
    operations: u64,
    transactions: u64,
) -> Result<f64, Failure> {
    let less = count(plan, row, operations, transactions)?;
    let more = count(plan, row, operations, 3 * transactions)?;
    Ok(more.saturating_sub(less) as f64 / (2 * transactions) as f64)
}

fn measure_row(plan: &Plan, system: System, workload: WorkloadKind) -> Result<Row, Failure> {
    let selection = Selection::new(workload, &sizes(plan.sizes.value_bytes, 1))?;
    let row = (system, &selection);
    let one = per_transaction(plan, row, 1, TRANSACTIONS)?;
    let further = if workload.takes.contains(&Parameter::Operations) {
        let many = per_transaction(plan, row, OPERATIONS, LONG_TRANSACTIONS)?;
        Some((many - one) / (OPERATIONS - 1) as f64)
    } else {
        None
    };
    Ok(Row {
        scheme: system.name(),
        workload: workload.name,
        instructions_per_tx: one,
        instructions_per_operation: further,
    })
}

/// Counts the plan's rows. A workload without a typed form has no row for types.
///
/// # Errors
/// Returns an error if valgrind is not installed, or if a run fails.
pub fn measure(plan: &Plan, json: bool) -> Result<Outcome, Failure> {
    let mut cells = Vec::new();
    for &workload in &plan.workloads {
        let selection = Selection::new(workload, &sizes(plan.sizes.value_bytes, 1))?;
        for &system in &plan.systems {
            if !system.is_typed() || selection.has_types() {
                cells.push((system, workload));
            }
        }
    }
    let progress = progress::bar(cells.len() as u64, "rows");
    interrupt::watch(interrupt::First::Ask)?;
    let mut rows = Vec::new();
    for (system, workload) in cells {
        progress.set_message(format!("{} on {}", system.name(), workload.name));
        match measure_row(plan, system, workload) {
            // Ctrl-C ends valgrind, too.
            _ if interrupt::is_asked() => break,
            row => rows.push(row?),
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    if json {
        print_json(&rows)?;
    } else {
        say!("{}", table(plan, &rows));
    }
    Ok(Outcome::Success)
}

fn table(plan: &Plan, rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "workload",
        "scheme",
        "instructions/tx",
        "each further operation",
    ]);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut last = "";
    for row in rows {
        let number = |value: f64| format!("{value:.0}");
        table.add_row([
            if row.workload == last { String::new() } else { row.workload.into() },
            row.scheme.into(),
            number(row.instructions_per_tx),
            row.instructions_per_operation.map_or("–".into(), number),
        ]);
        last = row.workload;
    }
    format!(
        "Instructions of transactions under flush-on-fail, one thread\n{table}\n\
         Counted by valgrind. instructions/tx: of one operation, the difference between runs of {TRANSACTIONS} and {} transactions;\n\
         each further operation: what transactions of {OPERATIONS} operations have more. Small structures (16,384 keys), values of {} bytes,\n\
         logs of {} KB, seed {}.\n",
        3 * TRANSACTIONS,
        plan.sizes.value_bytes,
        plan.log_bytes >> 10,
        plan.seed,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_old_and_new_valgrinds() {
        assert_eq!(instructions("==1== \n==1== I   refs:      1,234,567\n"), Some(1_234_567));
        assert_eq!(instructions("==1== I refs: 42\n"), Some(42));
        assert_eq!(instructions("==1== D   refs:      1\n"), None);
    }
}
