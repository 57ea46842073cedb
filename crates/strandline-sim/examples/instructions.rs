//! Calibrates `cores.instructions_per_access`: instructions that native code executes, counted by valgrind, for each
//! word or line operation that the same code gives the machine.
//!
//! ```console
//! $ cargo run --release -p strandline-sim --features calibration --example instructions
//! ```
//!
//! This program runs itself under valgrind with two numbers of transactions, so that what comes before them cancels out,
//! and the same transactions on the simulated machine. An operation is one instruction itself.

use std::process::Command;

use strandline_core::Domain;
use strandline_core::memory::WriteBackInstruction;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_workloads::{ALL, Place, PoolSetting, SchemeName, Selection, Sizes};

/// With how many transactions each; the native program runs once with as many and once with three times as many.
const WORKLOADS: [(&str, u64); 6] = [
    ("sps", 1000),
    ("hash", 1000),
    ("rbtree", 1000),
    ("bplustree", 1000),
    ("tatp-update-location", 1000),
    // Each stays in the heap.
    ("tpcc-new-order", 100),
];
/// Of those without a helper, whose instructions would be counted as well.
const SCHEMES: [&str; 6] = ["np", "base", "mne-sync", "bppm", "bppm+single-writer", "dct-eager-sync"];
const SEED: u64 = 1;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [workload, scheme, transactions] => native(workload, scheme.parse()?, transactions.parse()?),
        _ => calibrate(),
    }
}

/// Transactions of one thread on a pool of this machine's memory.
fn native(workload: &str, scheme: SchemeName, transactions: u64) -> Outcome<()> {
    let place = Place::in_memory()?;
    let selection = Selection::new(ALL.of_name(workload)?, &Sizes::small())?;
    let setting = PoolSetting {
        logs: 1,
        log_bytes: PoolSizes::default().log_bytes,
        domain: Domain::Flush,
        // Valgrind knows no other.
        instruction: Some(WriteBackInstruction::Clflush),
        concurrency: scheme.concurrency,
    };
    let prepared = strandline_workloads::Prepared::new(&place.folder().join("pool"), &selection, setting)?;
    let mut client = selection.client(prepared.pool(), scheme, 0, SEED)?;
    (0..transactions).try_for_each(|_| client.transaction())?;
    Ok(())
}

/// Instructions of a native run, by valgrind.
fn instructions(workload: &str, scheme: &str, transactions: u64) -> Outcome<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([workload, scheme, &transactions.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count =
        text.lines().find_map(|line| line.split("I   refs:").nth(1)).filter(|_| output.status.success());
    let count = count.ok_or_else(|| format!("valgrind counted nothing:\n{text}"))?;
    Ok(count.trim().replace(',', "").parse()?)
}

/// Word and line operations of the same transactions on the machine.
fn operations(workload: &str, scheme: &str, transactions: u64) -> Outcome<u64> {
    let scheme: SchemeName = scheme.parse()?;
    let machine = strandline_sim::file::load("opteron", &[""; 0])?;
    let prepared = Prepared::new(ALL.of_name(workload)?, &Sizes::small(), PoolSizes::default(), 1)?;
    let none = strandline_sim::scheme::find("none").ok_or("no plain hardware")?;
    let run = Run { scheme, threads: 1, transactions: 2 * transactions, warm_up: transactions, seed: SEED };
    let outcome = prepared.run(&machine, none, &run, Vec::new())?.outcome;
    let fences: u64 = outcome.statistics.cores.iter().map(|core| core.fences).sum();
    Ok(outcome.statistics.accesses + fences)
}

fn calibrate() -> Outcome<()> {
    println!(
        "{:22} {:20} {:>16} {:>14} {:>8}",
        "workload", "scheme", "instructions/tx", "operations/tx", "between"
    );
    let mut all = Vec::new();
    for (workload, transactions) in WORKLOADS {
        for scheme in SCHEMES {
            let count = |transactions| instructions(workload, scheme, transactions);
            let native = (count(3 * transactions)? - count(transactions)?) as f64;
            let operations = operations(workload, scheme, transactions)? as f64;
            let between = (native - operations) / operations;
            let each = 2.0 * transactions as f64;
            println!(
                "{workload:22} {scheme:20} {:16.0} {:14.1} {between:8.1}",
                native / each,
                operations / each
            );
            all.push(between);
        }
    }
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
    println!(
        "\nbetween two operations: median {:.1}, quartiles {:.1} and {:.1}",
        at(0.5),
        at(0.25),
        at(0.75)
    );
    Ok(())
}
