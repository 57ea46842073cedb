//! Compares the loop that docs/simulator.md explains cycle by cycle with the page.

use std::cell::RefCell;
use std::rc::Rc;

use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Hosted, Memory, PersistentAddress, Step};
use strandline_sim::controller::Regions;
use strandline_sim::numbers::Cycle;
use strandline_sim::{Contents, Machine, Statistics};

const ITERATIONS: u64 = 2;

/// The operations, each with the core's clock after it.
type Clocks = Vec<(String, u64)>;

/// Stores to two lines, writes them back and waits, in each iteration.
fn iterate(memory: &Hosted, clock: &dyn Fn() -> u64) -> Clocks {
    let mut clocks = Vec::new();
    let mut after = |what: String| clocks.push((what, clock()));
    for iteration in 0..ITERATIONS {
        let lines = [2 * iteration, 2 * iteration + 1];
        let address = |line| PersistentAddress::new(64 * line);
        for line in lines {
            memory.store(address(line), 1);
            after(format!("store {line}"));
        }
        for line in lines {
            memory.write_back(address(line), Step::HomeWriteBack);
            after(format!("clwb {line}"));
        }
        memory.fence(Step::HomeFence);
        after("fence".into());
    }
    clocks
}

/// Runs the loop on a core of `pcm`, alone and with a cycle of instructions for each operation. Also returns when memory accepts each line and knows
/// that it is written.
fn run(settings: &[&str]) -> (Clocks, Vec<u64>, Statistics) {
    let fixed = ["cores.count=1", "cores.instructions_per_access=2", "controllers.pages='in-order'"];
    let settings: Vec<&str> = fixed.iter().chain(settings).copied().collect();
    let machine = strandline_sim::file::load("pcm", &settings).unwrap();
    let contents =
        Contents { persistent: vec![0; 8 * 64], volatile_bytes: 4096, regions: Regions::default() };
    let machine = Rc::new(Machine::new(&machine, contents, None, None).unwrap());
    machine.record_write_times();
    let clocks = RefCell::new(Vec::new());
    let clock = || machine.clock(0).number();
    let body = |memory: &Hosted| *clocks.borrow_mut() = iterate(memory, &clock);
    machine.run(vec![Box::new(body) as Thread<'_>]);
    let mut memory: Vec<u64> = machine.take_write_times().into_iter().map(Cycle::number).collect();
    memory.sort_unstable();
    (clocks.into_inner(), memory, machine.statistics())
}

#[test]
fn the_page_has_what_the_loop_takes() {
    let runs = [
        run(&["cores.kind='in-order'", "cores.store_queue=0"]),
        run(&[]),
        run(&["cores.stores_in_flight=2"]),
    ];
    let mut table = format!("{:<14}{:>10}{:>14}{:>15}\n", "", "in order", "out of order", "two in flight");
    let mut row = |what: &str, cycles: [u64; 3]| {
        let [first, second, third] = cycles;
        table += &format!("{what:<14}{first:>10}{second:>14}{third:>15}\n");
    };
    for (at, (what, _)) in runs[0].0.iter().enumerate() {
        row(what, [0, 1, 2].map(|run| runs[run].0[at].1));
    }
    for at in 0..4 * ITERATIONS as usize {
        let (iteration, line) = (at / 4, 2 * (at / 4) + at % 2);
        let what = if at - 4 * iteration < 2 { "accepted" } else { "written" };
        row(&format!("{what} {line}"), [0, 1, 2].map(|run| runs[run].1[at]));
    }
    let stalls = [0, 1, 2].map(|run| runs[run].2.cores[0].stalls);
    row("stalls: store", stalls.map(|stalls| stalls.store));
    row("fence, drain", stalls.map(|stalls| stalls.fence_drain));
    row("fence, medium", stalls.map(|stalls| stalls.fence_persist));
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/simulator.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&table), "docs/simulator.md lacks this table:\n{table}");
}
