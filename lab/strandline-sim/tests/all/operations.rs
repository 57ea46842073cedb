//! Operations of containers, grouped to transactions.

use strandline_sim::Statistics;
use strandline_sim::file::load;
use strandline_sim::scheme::find;
use strandline_sim::trace::operations::{B_TREE, MULTISET, SET};
use strandline_sim::trace::{Grouping, Operations};

fn run(hardware: &str, operations: u64, instructions: Option<u64>) -> (u64, Statistics) {
    let machine = load("wrap", &[""; 0]).unwrap();
    let grouping = Grouping { operations, warm_up: 2, instructions };
    let set = Operations::read("set", SET).unwrap();
    set.run(&machine, find(hardware).unwrap(), &grouping).unwrap()
}

/// Returns the records of WrAP's log for each transaction.
fn records((transactions, statistics): &(u64, Statistics)) -> f64 {
    let records = statistics.scheme.iter().find(|(name, _)| name == "log records").unwrap();
    records.1 as f64 / *transactions as f64
}

#[test]
fn operations_are_transactions_of_any_size() {
    let (one, five) = (run("wrap-evaluated", 1, None), run("wrap-evaluated", 5, None));
    let count = Operations::read("set", SET).unwrap().count();
    assert_eq!((one.0, five.0), (count - 2, count / 5 - 2));
    let ratio = records(&five) / records(&one);
    assert!((4.0..6.0).contains(&ratio), "{ratio}");
}

#[test]
fn the_time_between_accesses_can_be_replaced() {
    let cycles = |instructions| run("none", 5, instructions).1.cycles;
    let (of_trace, none, many) = (cycles(None), cycles(Some(0)), cycles(Some(1000)));
    assert!(none < of_trace && of_trace < many, "{none}, {of_trace}, {many}");
}

#[test]
fn all_containers_can_be_read() {
    for trace in [SET, MULTISET, B_TREE] {
        assert!(Operations::read("a container", trace).unwrap().count() >= 100);
    }
    assert!(Operations::read("nothing", b"").is_err());
}

#[test]
fn too_few_operations_are_refused() {
    let set = Operations::read("set", SET).unwrap();
    let machine = load("wrap", &[""; 0]).unwrap();
    let grouping = Grouping { operations: set.count(), warm_up: 1, instructions: None };
    assert!(set.run(&machine, find("none").unwrap(), &grouping).is_err());
}
