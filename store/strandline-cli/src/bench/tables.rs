//! The tables of `bench`, with explanations.

use strandline_bench::{Latency, Row};
use strandline_command::tables::{number, ratio, table};
use strandline_core::Domain;
use strandline_core::memory::WriteBackInstruction;

use super::StorePlan;
use super::measure::{Cell, Results};

/// Returns the table of a plan's results.
pub fn table_of(plan: &StorePlan, results: &Results) -> String {
    match results.method {
        Some(method) => durable(plan, results, method),
        None => memory(plan, results),
    }
}

/// Returns the workload's name for its first row, and an empty text for the others, so that its rows are seen as a group.
fn once(row: &Row, last: &mut String) -> String {
    if row.workload == *last {
        return String::new();
    }
    last.clone_from(&row.workload);
    row.workload.clone()
}

fn memory(plan: &StorePlan, results: &Results) -> String {
    let header = [
        "workload",
        "control",
        "threads",
        "k tx/s",
        "of floor",
        "aborts",
        "fences/tx",
        "lines/tx",
        "log B/tx",
        "bulk lines/tx",
    ];
    let mut table = table(&header, 2);
    let mut last = String::new();
    for Cell { row, floor } in &results.cells {
        table.add_row([
            once(row, &mut last),
            row.scheme.clone(),
            row.threads.to_string(),
            number(row.tx_per_s / 1000.0),
            ratio(row.tx_per_s, Some(*floor)),
            format!("{:.1} %", 100.0 * row.abort_ratio),
            number(row.fences_per_tx),
            number(row.lines_flushed_per_tx),
            number(row.log_bytes_per_tx),
            number(row.bulk_lines_flushed_per_tx),
        ]);
    }
    let (title, domain) = about_domain(plan);
    let assumed = if results.assumed_persistent || matches!(plan.domain, Domain::Emulated { .. }) {
        " It is taken to be persistent: nothing here survives a power failure."
    } else {
        ""
    };
    format!(
        "{title}\n{table}\n\
         Medians of {} runs of {} s. {domain}\n\
         Pools in {}.{assumed}\n\
         of floor: relative to swaps of two words of which only what makes them durable is done: a line of log stored,\n\
         written back and fenced, two words stored in place. fences, lines: what commits wait for; bulk: persisted later,\n\
         many transactions at a time. {} operation(s) per transaction, logs of {} KB.\n",
        plan.repetitions,
        plan.duration.as_secs_f64(),
        results.place,
        plan.sizes.operations,
        plan.log_bytes >> 10,
    )
}

/// Returns the title of the table on memory, and an explanation of its domain.
fn about_domain(plan: &StorePlan) -> (String, String) {
    let instruction = plan.instruction.or_else(WriteBackInstruction::best).map_or("none", |i| i.name());
    match plan.domain {
        Domain::Emulated { write_latency_ns } => (
            "Transactions on emulated persistent memory".to_owned(),
            format!("Each line written back ({instruction}) takes {write_latency_ns} ns more."),
        ),
        Domain::Flush => {
            ("Transactions under domain flush".into(), format!("Lines are written back with {instruction}."))
        }
        domain => (format!("Transactions under domain {domain}"), "No lines are written back.".into()),
    }
}

fn durable(plan: &StorePlan, results: &Results, method: &str) -> String {
    let header = [
        "workload",
        "control",
        "committers",
        "durable tx/s",
        "us per commit",
        "floor/s",
        "of floor",
        "log B/tx",
    ];
    let mut table = table(&header, 2);
    let mut last = String::new();
    for Cell { row, floor } in &results.cells {
        table.add_row([
            once(row, &mut last),
            row.scheme.clone(),
            row.threads.to_string(),
            number(row.tx_per_s),
            number(row.threads as f64 * 1e6 / row.tx_per_s.max(f64::MIN_POSITIVE)),
            number(*floor),
            ratio(row.tx_per_s, Some(*floor).filter(|_| always_writes(plan, row))),
            number(row.log_bytes_per_tx),
        ]);
    }
    let warning = warning_if_too_fast(plan, results);
    format!(
        "Transactions that are durable on this machine's disk (domain sync)\n{table}\n\
         Medians of {} run(s) of {} s. Pools in {}.\n\
         A transaction that writes counts when the disk has its log; one that only reads waits for nothing (of kv: half). floor: 4 KB\n\
         appends to a zero-filled file beside the pool, one flush each, by the fastest way here ({method}); for several\n\
         committers: one of them writes what all have brought, with one flush, and no transactions. It is measured just before\n\
         each run.\n{warning}",
        plan.repetitions,
        plan.duration.as_secs_f64(),
        results.place,
    )
}

/// Returns whether each transaction of this row's workload writes. Transactions that only read do not wait for the disk, so their rate cannot be
/// compared with that of flushes.
fn always_writes(plan: &StorePlan, row: &Row) -> bool {
    let workload = plan.workloads.iter().find(|workload| workload.name == row.workload);
    let by_itself = workload.map_or(0, |workload| workload.read_percent);
    plan.sizes.read_percent.unwrap_or(by_itself) == 0
}

fn warning_if_too_fast(plan: &StorePlan, results: &Results) -> &'static str {
    // A single thread that commits waits for a flush each time, so it cannot be much faster than the floor. If it is, something did not wait, and the
    // figures mean nothing.
    let too_fast = |cell: &Cell| {
        cell.row.threads == 1 && always_writes(plan, &cell.row) && cell.row.tx_per_s > 1.5 * cell.floor
    };
    if results.cells.iter().any(too_fast) {
        "WARNING: a single committer was faster than this disk flushes: these commits were not durable, or the disk\n\
         was much slower while the floor was measured. Do not use these figures.\n"
    } else {
        ""
    }
}

/// Returns a table of the transactions' times, if they were timed. `what_ran` is the header of [`Row::scheme`].
pub fn latencies(rows: &[Row], what_ran: &str) -> Option<String> {
    let header = [
        "workload",
        what_ran,
        "threads",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "p99.99 us",
        "longest us",
        "slowest thread",
    ];
    let mut table = table(&header, 2);
    let timed: Vec<_> = rows.iter().filter_map(|row| Some((row, row.latency_ns?))).collect();
    let mut last = String::new();
    for (row, latency) in &timed {
        let Latency { p50, p99, p99_9, p99_99, max } = *latency;
        let mut cells = vec![once(row, &mut last), row.scheme.clone(), row.threads.to_string()];
        cells.extend([p50, p99, p99_9, p99_99, max].map(|ns| number(ns as f64 / 1000.0)));
        cells.push(number(row.slowest_thread));
        table.add_row(cells);
    }
    let text = format!(
        "How long transactions took\n{table}\n\
         Of each 10,000 transactions one takes longer than p99.99. slowest thread: its transactions per second, of the mean.\n"
    );
    (!timed.is_empty()).then_some(text)
}
