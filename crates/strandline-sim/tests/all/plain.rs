//! Plain programs on the machine: what they do is what their structures do, their locks isolate, and the hardware makes their
//! critical sections atomic.

use std::cell::RefCell;
use std::rc::Rc;

use super::support;
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, World};
use strandline_core::transaction::AnyRunner;
use strandline_schemes::{PlainWorker, Program};
use strandline_sim::Instructions;
use strandline_sim::description::Description;
use strandline_sim::run::{PoolSizes, Prepared, Run, recover};
use strandline_sim::scheme;
use strandline_workloads::{HASH, SPS, Selection, Sizes, TPCC_NEW_ORDER, WorkloadKind};

fn sizes() -> PoolSizes {
    PoolSizes { log_bytes: 4096, chunk_bytes: 16384, lock_bits: 12 }
}

fn run(program: &str, threads: usize, transactions: u64) -> Run {
    Run { scheme: program.parse().unwrap(), threads, transactions, warm_up: 0, seed: 7 }
}

/// Checks the workload's structure in these words of a pool.
fn check(workload: WorkloadKind, sizes: &Sizes, prepared: &Prepared, words: Vec<u64>) -> Result<(), String> {
    let view = prepared.view(());
    let world = Recorder::new(words, view.shared.bytes(), 0, 0, None);
    world.set_recording(false);
    let world: Rc<dyn World> = Rc::new(world);
    let memory = Hosted::new(world, 0);
    let mut runner = AnyRunner::new(PlainWorker::new(prepared.view(&memory), 0, Program::VOLATILE));
    let selection = Selection::new(workload, sizes).unwrap();
    selection.check(&mut runner).map_err(|error| error.to_string())
}

#[test]
fn a_program_alone_does_nothing_but_its_loads_and_stores() {
    let prepared = Prepared::new(&SPS, &Sizes::small(), sizes(), 1).unwrap();
    let mut machine = support::small(1);
    machine.cores.instructions_per_access = None;
    let hardware = scheme::find("wrap").unwrap();
    let transactions = 500;
    let of = |program| {
        let outcome =
            prepared.run(&machine, hardware, &run(program, 1, transactions), Vec::new()).unwrap().outcome;
        outcome.statistics.cores[0]
    };
    let plain = of("plain");
    // Two loads, and two stores but where an entry meets itself.
    assert_eq!(plain.loads, 2 * transactions);
    assert!(plain.stores > 19 * transactions / 10 && plain.stores <= 2 * transactions, "{plain:?}");
    assert_eq!((plain.atomics, plain.write_backs), (0, 0));
    // What is charged beside them was counted of this program.
    let counted = Instructions::of_plain("sps", 8).unwrap();
    let expected = (counted.access + 1.0) * plain.operations as f64;
    assert!((plain.instructions as f64 / expected - 1.0).abs() < 0.01, "{plain:?}, {expected}");
    assert_eq!(plain.private_stores, (counted.private_stores * plain.operations as f64).round() as u64);
    assert!(of("hardware+single-writer").instructions > plain.instructions);
}

#[test]
fn the_further_words_of_a_range_cost_less_than_its_first() {
    let sizes = Sizes { value_bytes: 512, ..Sizes::small() };
    let prepared = Prepared::new(&HASH, &sizes, self::sizes(), 1).unwrap();
    let mut machine = support::small(1);
    let none = scheme::find("none").unwrap();
    let mut instructions = |each| {
        machine.cores.instructions_per_access = each;
        let core = prepared
            .run(&machine, none, &run("volatile", 1, 200), Vec::new())
            .unwrap()
            .outcome
            .statistics
            .cores[0];
        (core.instructions as f64, core)
    };
    let (found, core) = instructions(None);
    let counted = Instructions::of_plain("hash", 512).unwrap();
    let words = (core.loads + core.stores + core.atomics + core.fences) as f64;
    let further = words - core.operations as f64;
    assert!(further > 2.0 * core.operations as f64, "{core:?}");
    let expected = words + counted.access * core.operations as f64 + counted.word * further;
    assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
    // A description that says how many has the last word, for each word.
    assert_eq!(instructions(Some(10.0)).0, 11.0 * words);
}

/// Power fails all over a run of several threads whose locks are those that they declare, and recovery leaves a whole array.
#[test]
fn declared_locks_isolate_and_the_hardware_makes_atomic() {
    let machine = |cores| Description { name: "plain".into(), ..support::mesh(cores) };
    let mut torn = 0;
    for (name, program) in [
        ("atom", "plain-flushed+locks"),
        ("atom-base", "plain-flushed+locks"),
        ("atom-redo", "plain+locks"),
        ("wrap", "plain+locks"),
        ("none", "plain-flushed+locks"),
    ] {
        for value_bytes in [8, 64] {
            let sizes = Sizes { array_words: 256, value_bytes, ..Sizes::small() };
            let prepared = Prepared::new(&SPS, &sizes, self::sizes(), 4).unwrap();
            let (run, hardware) = (run(program, 4, 60), scheme::find(name).unwrap());
            let machine = machine(4);
            let whole = prepared.run(&machine, hardware, &run, Vec::new()).unwrap().outcome;
            assert_eq!(whole.abort_ratio, 0.0);
            let end = whole.statistics.cycles;
            let crash_at = (1..60).map(|part| end * part / 60 + 37 * part).collect();
            let finished = prepared.run(&machine, hardware, &run, crash_at).unwrap();
            for crash in finished.crashes {
                let (words, _) = recover(&prepared, &machine, run.scheme, hardware, crash.image).unwrap();
                let found = check(&SPS, &sizes, &prepared, words);
                if name == "none" {
                    torn += u64::from(found.is_err());
                } else {
                    assert_eq!(found, Ok(()), "{name}, {value_bytes} bytes, cycle {}", crash.at);
                }
            }
        }
    }
    // Without the hardware there is nothing that would put it together again.
    assert!(torn > 0);
}

/// New Order under the lock of its district and the rows that it takes from, and with each use of a table a critical section of its
/// own: TPC-C's consistency conditions hold in the end.
#[test]
fn new_order_is_isolated_under_declared_locks_and_in_parts() {
    let sizes = Sizes::small();
    for program in ["plain+locks", "plain+parts", "plain"] {
        let pool = PoolSizes { chunk_bytes: 65536, ..self::sizes() };
        let prepared = Prepared::new(&TPCC_NEW_ORDER, &sizes, pool, 4).unwrap();
        let kept = RefCell::new(None);
        let hardware = scheme::find("none").unwrap();
        let machine = support::mesh(4);
        let run = run(program, 4, 60);
        let finished = prepared.run_with(&machine, hardware, &run, Vec::new(), |machine| {
            *kept.borrow_mut() = Some(machine.clone());
        });
        let outcome = finished.unwrap().outcome;
        let words = prepared.header(4).persistent_bytes as usize / 8;
        let machine = kept.into_inner().unwrap();
        let image = (0..words).map(|word| machine.newest_word(word)).collect();
        assert_eq!(check(&TPCC_NEW_ORDER, &sizes, &prepared, image), Ok(()), "{program}");
        assert!(outcome.statistics.cores.iter().all(|core| core.atomics > 0), "{program} takes no locks");
    }
}

#[test]
fn a_store_outside_of_any_part_is_refused() {
    let prepared = Prepared::new(&HASH, &Sizes::small(), sizes(), 2).unwrap();
    let none = scheme::find("none").unwrap();
    let refused = prepared.run(&support::small(2), none, &run("plain+parts", 2, 1), Vec::new());
    assert!(refused.err().unwrap().to_string().contains("critical section"));
}
