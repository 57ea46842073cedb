//! More threads than cores.

use std::cell::RefCell;
use std::rc::Rc;

use super::support;
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress};
use strandline_sim::controller::Regions;
use strandline_sim::description::{CoreKind, Description, TimeSlices};
use strandline_sim::run::{Outcome, PoolSizes, Prepared, Run};
use strandline_sim::{Contents, Machine, scheme};
use strandline_workloads::{HASH, Sizes};

/// The length of a slice. A nanosecond is a cycle of these machines.
const SLICE: u64 = 10_000;
const SWITCH: u64 = 100;

fn sharing(cores: usize) -> Description {
    let mut description = support::small(cores);
    description.time_slices = Some(TimeSlices { slice_ns: SLICE as f64, switch_ns: SWITCH as f64 });
    description
}

type Body<'b> = Box<dyn Fn(&Hosted, &Machine) + 'b>;

/// Runs threads on so many cores. Returns when the last one ended.
fn run(description: &Description, bodies: Vec<Body<'_>>) -> (u64, Rc<Machine>) {
    let contents =
        Contents { persistent: vec![0; 8 * 4096], volatile_bytes: 4096, regions: Regions::default() };
    let machine = Rc::new(Machine::new(description, contents, None, None).unwrap());
    let count = bodies.len();
    let threads = bodies
        .into_iter()
        .map(|body| {
            let machine = &machine;
            Box::new(move |memory: &Hosted| body(memory, machine)) as Thread<'_>
        })
        .collect();
    machine.run(threads);
    let end = (0..count).map(|thread| machine.clock(thread).number()).max().unwrap();
    (end, machine)
}

#[test]
fn threads_beyond_the_cores_take_turns() {
    let turns = RefCell::new(Vec::new());
    let bodies = (0..3).map(|thread| {
        let turns = &turns;
        Box::new(move |memory: &Hosted, _: &Machine| {
            for _ in 0..50 {
                memory.work(1000);
                turns.borrow_mut().push(thread);
            }
        }) as Body<'_>
    });
    let (end, _) = run(&sharing(1), bodies.collect());
    let turns = turns.into_inner();
    let slices: Vec<_> = turns.chunk_by(|a, b| a == b).map(|slice| (slice[0], slice.len())).collect();
    let expected: Vec<_> = (0..15).map(|slice| (slice % 3, 10)).collect();
    assert_eq!(slices, expected);
    // Each slice but the first begins with a switch.
    assert_eq!(end, 3 * 50 * 1000 + 14 * SWITCH);
}

#[test]
fn a_thread_that_sleeps_or_waits_leaves_its_core() {
    let (word, slept, waited) = (VolatileAddress::new(64), RefCell::new(0), RefCell::new(Vec::new()));
    let (end, machine) = run(
        &sharing(1),
        vec![
            Box::new(|memory, machine| {
                let before = machine.clock(0);
                machine.sleep(0, 50_000, memory);
                *slept.borrow_mut() = machine.clock(0) - before;
                assert_eq!(machine.processor_time(0), 0);
                memory.store(word, 1);
                memory.wake(word);
            }),
            Box::new(|memory, _| (0..40).for_each(|_| memory.work(1000))),
            Box::new(|memory, machine| {
                let before = machine.clock(2);
                // No thread wakes it in time.
                assert!(memory.wait_briefly(word, 0, 20_000));
                waited.borrow_mut().push(machine.clock(2) - before);
                while memory.load(word) == 0 {
                    memory.wait(word, 0);
                }
                waited.borrow_mut().push(machine.clock(2).number());
                memory.wait(word, 0);
            }),
        ],
    );
    let (slept, waited) = (slept.into_inner(), waited.into_inner());
    // It waits at most for a slice of the working thread.
    assert!((50_000..50_000 + SLICE + 10 * SWITCH).contains(&slept), "{slept}");
    assert!((20_000..20_000 + SLICE + 10 * SWITCH).contains(&waited[0]), "{waited:?}");
    assert!(waited[1] >= 50_000, "{waited:?}");
    assert!(end < 40_000 + SLICE + 50 * SWITCH + 10_000, "while two waited one worked: {end}");
    assert!(machine.processor_time(2) < 2_000, "{}", machine.processor_time(2));
}

/// A thread that loses its core between a store and its fence continues on another core, and its write-backs are durable nevertheless.
#[test]
fn nothing_is_left_behind_on_a_core() {
    let mut description = sharing(2);
    description.cores.kind = CoreKind::OutOfOrder;
    description.cores.store_queue = 8;
    let latch = VolatileAddress::new(64);
    let counter = PersistentAddress::new(0);
    let bodies = (0..5).map(|thread: u64| {
        Box::new(move |memory: &Hosted, _: &Machine| {
            for i in 0..200 {
                let own = PersistentAddress::new(64 * (1 + thread));
                memory.store(own, i + 1);
                memory.work(90);
                assert_eq!(memory.load(own), i + 1);
                memory.write_back(own, Step::HomeWriteBack);
                memory.work(90);
                memory.fence(Step::HomeFence);
                memory.lock(latch);
                let value = memory.load(counter);
                memory.work(200);
                memory.store(counter, value + 1);
                memory.unlock(latch);
            }
        }) as Body<'_>
    });
    let (_, machine) = run(&description, bodies.collect());
    assert_eq!(machine.newest_word(0), 1000, "no increment is lost");
    let image = machine.survivors();
    assert!((1..6).all(|thread| image[8 * thread] == 200));
}

fn outcome(machine: &Description, scheme: &str, threads: usize, idle_percent: u64) -> Outcome {
    let pool = PoolSizes { log_bytes: 65536, chunk_bytes: 16384, lock_bits: 12 };
    let prepared = Prepared::new(&HASH, &Sizes::small(), pool, 8).unwrap();
    let scheme = scheme.parse().unwrap();
    let run = Run { scheme, threads, transactions: 300, warm_up: 20, idle_percent, seed: 7 };
    let none = scheme::find("none").unwrap();
    prepared.run(machine, none, &run, Vec::new()).unwrap().outcome
}

#[test]
fn nothing_changes_where_each_thread_has_a_core() {
    for scheme in ["bppm", "mne-async", "base"] {
        let (alone, sharing) =
            (outcome(&support::small(4), scheme, 3, 0), outcome(&sharing(4), scheme, 3, 0));
        assert_eq!(alone.statistics, sharing.statistics, "{scheme}");
        assert_eq!(alone.tx_per_s, sharing.tx_per_s);
    }
}

#[test]
fn schemes_run_on_shared_cores_the_same_each_time() {
    for scheme in ["bppm", "base", "np", "mne-async", "bppm+single-writer"] {
        let eight = outcome(&sharing(4), scheme, 8, 0);
        assert_eq!(eight, outcome(&sharing(4), scheme, 8, 0), "{scheme}");
        let four = outcome(&sharing(4), scheme, 4, 0);
        let ratio = eight.tx_per_s / four.tx_per_s;
        assert!((0.3..1.1).contains(&ratio), "{scheme}: {ratio}");
    }
    assert!(scheme::find("h-wal").is_some());
    let prepared = Prepared::new(&HASH, &Sizes::small(), PoolSizes::default(), 2).unwrap();
    let run = Run {
        scheme: "hardware+single-writer".parse().unwrap(),
        threads: 2,
        transactions: 1,
        warm_up: 0,
        idle_percent: 0,
        seed: 7,
    };
    assert!(prepared.run(&sharing(1), scheme::find("h-wal").unwrap(), &run, Vec::new()).is_err());
    assert!(prepared.run(&support::small(1), scheme::find("none").unwrap(), &run, Vec::new()).is_err());
}

/// On one core a helper takes the worker's time, which it does not on a core of its own; idle time lets the helper work.
#[test]
fn a_helper_competes_for_a_shared_core() {
    let share = |cores, idle_percent| {
        let rate = |scheme| outcome(&sharing(cores), scheme, 1, idle_percent).tx_per_s;
        rate("mne-async") / rate("mne-sync")
    };
    let (alone, shared) = (share(2, 0), share(1, 0));
    assert!(shared < 0.9 * alone, "{shared} and {alone}");
    assert!(share(1, 90) > shared, "{} and {shared}", share(1, 90));
    let idle = [90, 50, 0].map(|percent| outcome(&sharing(1), "np", 1, percent).tx_per_s);
    assert!(idle[0] < 0.15 * idle[2] && idle[1] < 0.55 * idle[2] && idle[1] > 0.45 * idle[2], "{idle:?}");
}
