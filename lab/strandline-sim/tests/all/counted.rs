//! Compares the table of instructions charged to transactions in software with the present programs.

use serde::Deserialize;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::{file, scheme};
use strandline_workloads::{ALL, BPLUSTREE_SORTED_WORDS, Sizes};

#[derive(Debug, Deserialize)]
struct Row {
    workload: String,
    scheme: String,
    accesses: f64,
    words: f64,
}

#[derive(Deserialize)]
struct Table {
    transactions: Vec<Row>,
}

/// Returns the accesses and words of a transaction, with a range counted once and word by word, as `examples/instructions.rs` counts them.
fn counted(row: &Row, transactions: u64) -> (f64, f64) {
    let machine = file::load("opteron", &[""; 0]).unwrap();
    let workload = ALL.of_name(&row.workload).unwrap();
    let prepared = Prepared::new(workload, &Sizes::small(), PoolSizes::default(), 1).unwrap();
    let run = Run {
        scheme: row.scheme.parse().unwrap(),
        threads: 1,
        transactions: 2 * transactions,
        warm_up: transactions,
        idle_percent: 0,
        seed: 1,
    };
    let outcome = prepared.run(&machine, scheme::find("none").unwrap(), &run, Vec::new()).unwrap().outcome;
    let core = &outcome.statistics.cores[0];
    let each = run.transactions as f64;
    (core.operations as f64 / each, (outcome.statistics.accesses + core.fences) as f64 / each)
}

/// A transaction is charged its accesses times a row's instructions. If a program now makes more or fewer accesses, it is charged more or fewer
/// instructions than were counted. The tree that shifts pairs is left out, since it takes half a minute.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn transactions_make_the_accesses_that_the_table_was_made_of() {
    let table: Table = toml::from_str(include_str!("../../data/transactions.toml")).unwrap();
    let rows = table.transactions.iter().filter(|row| row.workload != BPLUSTREE_SORTED_WORDS.name);
    let differ = |row: &Row| {
        let transactions = if row.workload.starts_with("tpcc") { 200 } else { 1000 };
        let (accesses, words) = counted(row, transactions);
        let off = |now: f64, then: f64| (now / then - 1.0).abs() > 0.02;
        (off(accesses, row.accesses) || off(words, row.words))
            .then(|| format!("{row:?}: {accesses:.2}, {words:.2} now"))
    };
    let differ: Vec<_> = rows.filter_map(differ).collect();
    assert!(
        differ.is_empty(),
        "count anew (`--example instructions transactions`, docs/simulator.md): {differ:#?}"
    );
}
