//! The tables of `bench`, with the explanations that their readers need.

use strandline_command::tables::{number, ratio, table};
use strandline_core::Domain;
use strandline_core::memory::WriteBackInstruction;

use strandline_workloads::Row;

use super::memory;
use super::plan::Plan;
use strandline_cli::bench::{Cell, Results};

/// Columns of the table on memory.
const ON_MEMORY: [&str; 13] = [
    "workload",
    "scheme",
    "threads",
    "k tx/s",
    "k ack/s",
    "of volatile",
    "of np",
    "of floor",
    "aborts",
    "fences/tx",
    "lines/tx",
    "log B/tx",
    "bulk lines/tx",
];

/// The table for domains on memory.
pub fn memory(plan: &Plan, results: &memory::Results) -> String {
    let mut table = table(&ON_MEMORY, 2);
    let mut last = "";
    for (row, &floor) in results.rows.iter().zip(&results.floors) {
        let reference = |scheme: &str| {
            let same = |other: &&Row| {
                other.scheme == scheme && other.workload == row.workload && other.threads == row.threads
            };
            results.rows.iter().find(same).map(|other| other.tx_per_s)
        };
        // Print the workload's name only in its first row, so that the groups stand out.
        let workload = if row.workload == last { String::new() } else { row.workload.clone() };
        table.add_row(cells_on_memory(workload, row, floor, reference));
        last = &row.workload;
    }
    let (title, domain) = about_domain(plan);
    let assumed = if results.assumed_persistent || matches!(plan.domain, Domain::Emulated { .. }) {
        " It is taken to be persistent: nothing here survives a power failure."
    } else {
        ""
    };
    format!(
        "{title}\n{table}\n\
         Medians of {} runs of {} s, interleaved. {domain}\n\
         Pools in {}.{assumed}\n\
         tx: executed; ack: known to be durable. of volatile: relative to plain loads and stores under one lock. of np: relative to the same transactions\n\
         (in the same mode) without persistence. of floor: relative to swaps of two words of which only what makes them durable is\n\
         done: a line of log stored, written back and fenced, two words stored home. fences, lines: what commits wait for; bulk: persisted later, many\n\
         transactions at a time. strandline: bppm as applications have it, compiled into the workload, on words (with\n\
         STM, or one writer at a time) and on typed collections; all schemes run over one and the same dispatch.\n\
         {} operation(s) per transaction, values of {} bytes, logs of {} KB.\n",
        plan.repetitions,
        plan.duration.as_secs_f64(),
        results.place,
        plan.sizes.operations,
        plan.sizes.value_bytes,
        plan.log_bytes >> 10,
    )
}

/// Returns a row of the table on memory. `reference` holds the transactions per second of the reference scheme.
fn cells_on_memory(
    workload: String,
    row: &Row,
    floor: f64,
    reference: impl Fn(&str) -> Option<f64>,
) -> [String; ON_MEMORY.len()] {
    let np = if row.scheme.ends_with("+single-writer") { "np+single-writer" } else { "np" };
    [
        workload,
        row.scheme.clone(),
        row.threads.to_string(),
        number(row.tx_per_s / 1000.0),
        if row.acknowledged_per_s > 0.0 { number(row.acknowledged_per_s / 1000.0) } else { "–".into() },
        ratio(row.tx_per_s, reference("volatile")),
        if row.scheme == "volatile" { "–".into() } else { ratio(row.tx_per_s, reference(np)) },
        ratio(row.tx_per_s, Some(floor)),
        format!("{:.1} %", 100.0 * row.abort_ratio),
        number(row.fences_per_tx),
        number(row.lines_flushed_per_tx),
        number(row.log_bytes_per_tx),
        number(row.bulk_lines_flushed_per_tx),
    ]
}

/// Returns the title of the table on memory, and an explanation of its domain.
fn about_domain(plan: &Plan) -> (String, String) {
    let instruction = plan.instruction.or_else(WriteBackInstruction::best).map_or("none", |i| i.name());
    match plan.domain {
        Domain::Emulated { write_latency_ns } => (
            "Schemes under emulated NVM latency".to_owned(),
            format!(
                "Each line written back ({instruction}) takes {write_latency_ns} ns more, as the Blurred Persistence paper emulates NVM."
            ),
        ),
        Domain::Flush => {
            ("Schemes under domain flush".into(), format!("Lines are written back with {instruction}."))
        }
        domain => (format!("Schemes under domain {domain}"), "No lines are written back.".into()),
    }
}

/// The table for the disk.
pub fn durable(plan: &Plan, results: &Results) -> String {
    let header = [
        "workload",
        "scheme",
        "committers",
        "durable tx/s",
        "us per commit",
        "floor/s",
        "of floor",
        "log B/tx",
    ];
    let mut table = table(&header, 2);
    let mut last = "";
    for Cell { row, floor } in &results.cells {
        table.add_row([
            if row.workload == last { String::new() } else { row.workload.clone() },
            row.scheme.clone(),
            row.threads.to_string(),
            number(row.tx_per_s),
            number(row.threads as f64 * 1e6 / row.tx_per_s.max(f64::MIN_POSITIVE)),
            number(*floor),
            ratio(row.tx_per_s, Some(*floor)),
            number(row.log_bytes_per_tx),
        ]);
        last = &row.workload;
    }
    // A single committer waits for a flush each time, so it cannot be much faster than the floor. If it is, something did not wait, and the figures
    // are meaningless.
    let too_fast = |cell: &Cell| cell.row.threads == 1 && cell.row.tx_per_s > 1.5 * cell.floor;
    let warning = if results.cells.iter().any(too_fast) {
        "WARNING: a single committer was faster than this disk flushes: these commits were not durable, or the disk\n\
         was much slower while the floor was measured. Do not use these figures.\n"
    } else {
        ""
    };
    format!(
        "The same transactions, durable on this machine's disk (domain sync)\n{table}\n\
         Medians of {} run(s) of {} s. Pools in {}.\n\
         A transaction counts when the disk has its log. floor: 4 KB appends to a zero-filled file beside the pool,\n\
         one flush each, by the fastest way here ({}); for several committers: one of them writes what all have\n\
         brought, with one flush, and no transactions. It is measured just before each run.\n{warning}",
        plan.repetitions,
        plan.duration.as_secs_f64(),
        results.place,
        results.method.unwrap_or_default(),
    )
}
