//! The tables of `simulate`.

use comfy_table::{CellAlignment, Table, presets};
use strandline_sim::Statistics;
use strandline_sim::run;
use strandline_sim::statistics::{ByRegion, Energy, Stalls};
use strandline_sim::trace;

use super::Host;
use super::crashes::CrashReport;

/// Creates a table whose columns are numbers, except the first `words`.
fn table(header: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".into() } else { format!("{:.1}%", 100.0 * part as f64 / whole as f64) }
}

fn mean(sum: u64, count: u64) -> String {
    if count == 0 { "–".into() } else { format!("{:.1}", sum as f64 / count as f64) }
}

/// Returns the tables of a run: the head, then everything that the machine counted.
pub fn run(outcome: &run::Outcome, banks: bool) -> String {
    let hardware = match outcome.hardware.as_str() {
        "none" => String::new(),
        name => format!(" with {name}"),
    };
    let head = format!(
        "{} on {}{hardware}, machine {}: {}\n\
         {} × {} transactions, seed {}\n\n\
         {:.0} transactions per simulated second ({} cycles, {:.3} ms)\n\
         {:.4} aborts per attempt; per transaction {:.2} fences, {:.2} lines written back, {:.0} bytes of log; \
         {} bulk persists\n",
        outcome.scheme,
        outcome.workload,
        outcome.machine.name,
        outcome.machine.description,
        if outcome.threads == 1 { "1 thread".into() } else { format!("{} threads", outcome.threads) },
        outcome.transactions,
        outcome.seed,
        outcome.tx_per_s,
        outcome.statistics.cycles,
        outcome.seconds * 1e3,
        outcome.abort_ratio,
        outcome.fences_per_tx,
        outcome.lines_flushed_per_tx,
        outcome.log_bytes_per_tx,
        outcome.bulk_persists,
    );
    head + &statistics(&outcome.statistics, transactions(outcome), banks)
}

/// Returns the transactions of all threads.
fn transactions(outcome: &run::Outcome) -> u64 {
    outcome.transactions * outcome.threads as u64
}

/// Returns the tables of a trace's run.
pub fn trace(outcome: &trace::Outcome, banks: bool) -> String {
    let head = format!(
        "{} on machine {}, hardware {}: {}\n{} records, {} pages, {} transactions; {} cycles, {:.3} ms\n",
        outcome.trace,
        outcome.machine.name,
        outcome.hardware,
        outcome.machine.description,
        outcome.records,
        outcome.pages,
        outcome.transactions,
        outcome.statistics.cycles,
        outcome.seconds * 1e3,
    );
    head + &statistics(&outcome.statistics, outcome.transactions, banks)
}

/// Returns the tables of everything that the machine counted.
fn statistics(statistics: &Statistics, transactions: u64, with_banks: bool) -> String {
    let mut parts = vec![cores(statistics), stalls(statistics), levels(statistics), traffic(statistics)];
    parts.push(channels(statistics));
    if with_banks {
        parts.push(banks(statistics));
    }
    let network = &statistics.network;
    if network.messages > 0 {
        parts.push(format!(
            "network: {} messages, {} hops, {} cycles waited for links",
            network.messages, network.hops, network.wait_cycles
        ));
    }
    parts.extend(statistics.energy.as_ref().map(|energy| energy_of(energy, transactions)));
    if !statistics.scheme.is_empty() {
        let mut table = table(&["hardware scheme", "count"], 1);
        for (name, count) in &statistics.scheme {
            table.add_row([name.clone(), count.to_string()]);
        }
        table.add_row(["bytes written to its log".into(), statistics.hardware_log_bytes.to_string()]);
        parts.push(table.to_string());
    }
    parts.join("\n")
}

/// Returns the table of the energy of the run's accesses, for each part of the machine.
fn energy_of(energy: &Energy, transactions: u64) -> String {
    let mut table = table(&["energy of accesses", "nJ", "nJ/transaction"], 1);
    let total = energy.total_nj.map(|nj| ("all", nj));
    for (name, nj) in energy.parts.iter().map(|part| (part.name.as_str(), part.nj)).chain(total) {
        let each = match transactions {
            0 => "–".into(),
            transactions => format!("{:.2}", nj / transactions as f64),
        };
        table.add_row([name.into(), format!("{nj:.1}"), each]);
    }
    table.to_string()
}

fn cores(statistics: &Statistics) -> String {
    let header = [
        "core",
        "cycles",
        "instructions",
        "loads",
        "forwarded",
        "stores",
        "atomics",
        "non-temporal",
        "write-backs",
        "fences",
        "MSHRs full",
        "MSHR merges",
        "store queue",
    ];
    let mut table = table(&header, 1);
    for (number, core) in statistics.cores.iter().enumerate().filter(|(_, core)| core.cycles > 0) {
        let counts = [
            core.cycles,
            core.instructions,
            core.loads,
            core.forwarded,
            core.stores,
            core.atomics,
            core.non_temporal,
            core.write_backs,
            core.fences,
            core.mshr_full,
            core.mshr_merges,
        ];
        let mut row = vec![number.to_string()];
        row.extend(counts.map(|count| count.to_string()));
        row.push(format!("{:.1}", core.store_queue_occupancy.mean()));
        table.add_row(row);
    }
    table.to_string()
}

/// A cause of stalls: its name, and its count.
type Cause = (&'static str, fn(&Stalls) -> u64);

const CAUSES: [Cause; 11] = [
    ("load", |stalls| stalls.load),
    ("store", |stalls| stalls.store),
    ("store queue full", |stalls| stalls.store_queue_full),
    ("reorder buffer full", |stalls| stalls.reorder_buffer_full),
    ("atomic drain", |stalls| stalls.atomic_drain),
    ("fence drain", |stalls| stalls.fence_drain),
    ("fence persist", |stalls| stalls.fence_persist),
    ("wbinvd", |stalls| stalls.write_back_all),
    ("flush", |stalls| stalls.flush),
    ("pause", |stalls| stalls.pause),
    ("hardware scheme", |stalls| stalls.scheme),
];

/// Returns the stall cycles of all cores by cause, as shares of all their cycles.
fn stalls(statistics: &Statistics) -> String {
    let cycles = statistics.cores.iter().map(|core| core.cycles).sum();
    let mut table = table(&["stalls of all cores", "cycles", "of all"], 1);
    for (name, of) in CAUSES {
        let count: u64 = statistics.cores.iter().map(|core| of(&core.stalls)).sum();
        if count > 0 {
            table.add_row([name.into(), count.to_string(), percent(count, cycles)]);
        }
    }
    table.to_string()
}

fn levels(statistics: &Statistics) -> String {
    let header = ["level", "hits", "misses", "missed", "evictions", "dirty", "invalidations", "upgrades"];
    let mut table = table(&header, 1);
    for level in &statistics.levels {
        let of = &level.total;
        table.add_row([
            level.name.clone(),
            of.hits.to_string(),
            of.misses.to_string(),
            percent(of.misses, of.hits + of.misses),
            of.evictions.to_string(),
            of.dirty_evictions.to_string(),
            of.invalidations.to_string(),
            of.upgrades.to_string(),
        ]);
    }
    table.to_string()
}

fn traffic(statistics: &Statistics) -> String {
    let traffic = &statistics.traffic;
    let rows: [(&str, &ByRegion); 7] = [
        ("reads", &traffic.reads),
        ("writes: eviction", &traffic.eviction),
        ("writes: forced write-back", &traffic.forced_write_back),
        ("writes: wbinvd", &traffic.write_back_all),
        ("writes: non-temporal", &traffic.non_temporal),
        ("writes: downgrade", &traffic.downgrade),
        ("writes: hardware scheme", &traffic.scheme),
    ];
    let mut table = table(&["lines to and from memory", "data", "log", "metadata", "volatile", "all"], 1);
    for (name, of) in rows.into_iter().filter(|(_, of)| of.total() > 0) {
        let counts = [of.data, of.log, of.metadata, of.volatile, of.total()];
        let mut row = vec![name.to_owned()];
        row.extend(counts.map(|count| count.to_string()));
        table.add_row(row);
    }
    table.to_string()
}

fn channels(statistics: &Statistics) -> String {
    let header = [
        "channel",
        "reads",
        "forwarded",
        "cycles/read",
        "reads held",
        "writes",
        "coalesced",
        "writes held",
        "most",
        "queue full",
        "cycles",
        "drains",
    ];
    let mut table = table(&header, 1);
    for channel in &statistics.channels {
        table.add_row([
            channel.name.clone(),
            channel.reads.to_string(),
            channel.forwarded.to_string(),
            mean(channel.read_cycles, channel.reads),
            format!("{:.1}", channel.read_occupancy.mean()),
            channel.writes.to_string(),
            channel.coalesced.to_string(),
            format!("{:.1}", channel.write_occupancy.mean()),
            channel.write_occupancy.largest.to_string(),
            channel.write_queue_full.to_string(),
            channel.write_queue_full_cycles.to_string(),
            channel.drains.to_string(),
        ]);
    }
    table.to_string()
}

fn banks(statistics: &Statistics) -> String {
    let header = ["channel", "bank", "reads", "row hits", "writes", "busy", "cycles/read waited"];
    let mut table = table(&header, 1);
    for channel in &statistics.channels {
        for (number, bank) in channel.banks.iter().enumerate() {
            table.add_row([
                if number == 0 { channel.name.clone() } else { String::new() },
                number.to_string(),
                bank.reads.to_string(),
                bank.row_hits.to_string(),
                bank.writes.to_string(),
                percent(bank.busy_cycles, statistics.cycles),
                mean(bank.wait_cycles, bank.reads),
            ]);
        }
    }
    table.to_string()
}

/// Returns the table of what power failures left.
pub fn crashes(crashes: &[CrashReport]) -> String {
    let header = [
        "power failure at",
        "entered commit",
        "acknowledged",
        "log records",
        "committed in logs",
        "replayed",
        "words",
        "by hardware",
    ];
    let mut table = table(&header, 0);
    for crash in crashes {
        let mut row = vec![crash.at.to_string(), crash.entered_commit.to_string()];
        row.push(crash.acknowledged.to_string());
        match (&crash.recovered, &crash.error) {
            (Some(found), _) => {
                let counts = [found.records, found.committed, found.replayed, found.words];
                row.extend(counts.map(|count| count.to_string()));
                row.push(found.words_by_hardware.map_or("–".into(), |words| words.to_string()));
            }
            (None, error) => row.push(format!("recovery failed: {}", error.as_deref().unwrap_or_default())),
        }
        table.add_row(row);
    }
    table.to_string()
}

/// Returns a line about how fast the host was.
pub fn host(host: &Host) -> String {
    format!(
        "host: {} accesses simulated in {:.2} s: {:.2} million per second",
        host.accesses,
        host.seconds,
        host.accesses_per_s / 1e6
    )
}
