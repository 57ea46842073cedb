//! Plain programs on the machine: they do what their structures do, their locks isolate, and the hardware makes their critical sections atomic.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::support;
use strandline_core::Error;
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, World};
use strandline_core::transaction::{Abort, AnyRunner, Lock, Runner, Statistics};
use strandline_schemes::{PlainWorker, Program};
use strandline_sim::Instructions;
use strandline_sim::Machine;
use strandline_sim::description::{Compiled, Description, LockScope, ProgramChoices};
use strandline_sim::instructions::copied_word;
use strandline_sim::numbers::Cycle;
use strandline_sim::run::{PoolSizes, Prepared, Run, recover};
use strandline_sim::scheme;
use strandline_sim::statistics::CoreStatistics;
use strandline_workloads::{
    HASH, KVSTORE, QUEUE, RBTREE, SDG, SPS, SchemeName, Selection, Sizes, TPCC_NEW_ORDER, WorkloadKind,
};

fn sizes() -> PoolSizes {
    PoolSizes { log_bytes: 4096, chunk_bytes: 16384, lock_bits: 12 }
}

fn run(program: &str, threads: usize, transactions: u64) -> Run {
    Run { scheme: program.parse().unwrap(), threads, transactions, warm_up: 0, idle_percent: 0, seed: 7 }
}

/// Checks the workload's structure, or each thread's, in these words of a pool.
fn check(workload: WorkloadKind, sizes: &Sizes, prepared: &Prepared, words: Vec<u64>) -> Result<(), String> {
    let view = prepared.view(());
    let world = Recorder::new(words, view.shared.bytes(), 0, 0, None);
    world.set_recording(false);
    let world: Rc<dyn World> = Rc::new(world);
    let memory = Hosted::new(world, 0);
    let selection = Selection::new(workload, sizes).unwrap();
    (0..prepared.structures()).try_for_each(|index| {
        let mut runner = AnyRunner::new(prepared.plain(&memory, index, Program::VOLATILE));
        selection.check(&mut runner).map_err(|error| error.to_string())
    })
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
    // There are two loads and two stores, except where an entry is swapped with itself.
    assert_eq!(plain.loads, 2 * transactions);
    assert!(plain.stores > 19 * transactions / 10 && plain.stores <= 2 * transactions, "{plain:?}");
    assert_eq!((plain.atomics, plain.write_backs), (0, 0));
    // The additional instructions were counted in this program.
    let counted = Instructions::of_plain("sps", 8).unwrap();
    let expected = (counted.access + 1.0) * plain.operations as f64;
    assert!((plain.instructions as f64 / expected - 1.0).abs() < 0.01, "{plain:?}, {expected}");
    assert_eq!(plain.private_stores, (counted.private_stores * plain.operations as f64).round() as u64);
    assert!(of("hardware+single-writer").instructions > plain.instructions);
}

/// If instructions are fetched in the core's own time, the program's private loads and stores take that time and a hit, like its other ones.
#[test]
fn private_accesses_take_a_hit_where_instructions_are_fetched() {
    // The array fits the first level.
    let small = Sizes { array_words: 64, ..Sizes::small() };
    let prepared = Prepared::new(&SPS, &small, sizes(), 1).unwrap();
    let mut machine = support::small(1);
    machine.cores.instructions_per_access = None;
    let none = scheme::find("none").unwrap();
    let long = Run { warm_up: 200, ..run("volatile", 1, 500) };
    let mut cycles = |fetch| {
        machine.cores.fetch_cycles = fetch;
        let outcome = prepared.run(&machine, none, &long, Vec::new()).unwrap().outcome;
        (outcome.statistics.cycles as f64, outcome.statistics.cores[0].operations as f64)
    };
    let ((ahead, operations), (fetched, _)) = (cycles(0), cycles(3));
    let counted = Instructions::of_plain("sps", 8).unwrap();
    // A hit takes a cycle, like each other instruction; sps has no ranges here.
    let expected = operations * (3.0 + 3.0 * (counted.private_loads + counted.private_stores));
    assert!(((fetched - ahead) / expected - 1.0).abs() < 0.01, "{ahead} {fetched} {expected}");
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
    // A number of instructions in the description overrides the counts, for each word.
    assert_eq!(instructions(Some(10.0)).0, 11.0 * words);
}

/// Small workloads whose critical sections declare locks of parts, with entries that are lines of their own.
fn of_parts() -> Vec<(WorkloadKind, Sizes)> {
    let words = Sizes { array_words: 256, ..Sizes::small() };
    let lines = Sizes { value_bytes: 64, ..words };
    let chains = Sizes { buckets: 16, hash_keys: 96, vertices: 32, edges: 96, ..lines };
    vec![(&SPS, words), (&SPS, lines), (&HASH, chains), (&KVSTORE, chains), (&SDG, chains)]
}

/// Power fails throughout a run of several threads whose locks are those that they declare, and recovery leaves a consistent structure.
#[test]
fn declared_locks_isolate_and_the_hardware_makes_atomic() {
    let machine = |cores| Description { name: "plain".into(), ..support::mesh(cores) };
    for (workload, sizes) in of_parts() {
        let mut torn = 0;
        for (name, program) in [
            ("atom", "plain-flushed+locks"),
            ("atom-base", "plain-flushed+locks"),
            ("atom-redo", "plain+locks"),
            ("wrap", "plain+locks"),
            ("none", "plain-flushed+locks"),
        ] {
            let prepared = Prepared::new(workload, &sizes, self::sizes(), 4).unwrap();
            let (run, hardware) = (run(program, 4, 60), scheme::find(name).unwrap());
            let machine = machine(4);
            let whole = prepared.run(&machine, hardware, &run, Vec::new()).unwrap().outcome;
            assert_eq!(whole.abort_ratio, 0.0);
            let end = whole.statistics.cycles;
            let crash_at = (1..30).map(|part| Cycle::new(end * part / 30 + 37 * part)).collect();
            let finished = prepared.run(&machine, hardware, &run, crash_at).unwrap();
            for crash in finished.crashes {
                let words = recover(&prepared, &machine, run.scheme, hardware, crash.image).unwrap().words;
                let found = check(workload, &sizes, &prepared, words);
                if name == "none" {
                    torn += u64::from(found.is_err());
                } else {
                    assert_eq!(found, Ok(()), "{workload:?}, {name}, {sizes:?}, cycle {}", crash.at);
                }
            }
        }
        // Without the hardware nothing would repair the structure. Only a chain is changed by a single word.
        assert!(torn > 0 || workload == &HASH || workload == &KVSTORE, "{workload:?}");
    }
}

/// If each thread has its own structure, threads share only the heap's table of chunks, and survive as well. Under one lock for everything the same
/// program waits.
#[test]
fn locks_guard_what_their_scope_says() {
    let hardware = scheme::find("atom").unwrap();
    for workload in [&HASH, &RBTREE, &QUEUE] {
        let sizes = Sizes { value_bytes: 64, ..Sizes::small() };
        let seconds = [LockScope::Structure, LockScope::Thread].map(|lock_scope| {
            let program = ProgramChoices { lock_scope, ..ProgramChoices::default() };
            let machine = Description { program, ..support::mesh(4) };
            let run = run("plain-flushed+locks", 4, 40);
            let prepared =
                Prepared::of_scope(workload, &sizes, self::sizes(), 4, run.scheme, &machine).unwrap();
            let outcome = prepared.run(&machine, hardware, &run, Vec::new()).unwrap().outcome;
            let crash_at = (1..20).map(|part| Cycle::new(outcome.statistics.cycles * part / 20)).collect();
            for crash in prepared.run(&machine, hardware, &run, crash_at).unwrap().crashes {
                let words = recover(&prepared, &machine, run.scheme, hardware, crash.image).unwrap().words;
                let found = check(workload, &sizes, &prepared, words);
                assert_eq!(found, Ok(()), "{workload:?}, {lock_scope:?}, cycle {}", crash.at);
            }
            if lock_scope == LockScope::Thread {
                assert_eq!(prepared.structures(), 4);
                // A pool filled for this scope does not fit other scopes.
                let shared = Prepared::new(workload, &sizes, self::sizes(), 4).unwrap();
                assert!(shared.run(&machine, hardware, &run, Vec::new()).is_err());
            }
            outcome.seconds
        });
        assert!(seconds[0] > 2.0 * seconds[1], "{workload:?}: {seconds:?}");
    }
}

/// A word stored in parts counts as several stores, entries of the store queue and entries of a log that has one for each store. Copying it takes as
/// many more instructions as were counted.
#[test]
fn a_word_is_stored_in_parts_of_the_programs_width() {
    let sizes = Sizes { value_bytes: 64, ..Sizes::small() };
    let prepared = Prepared::new(&SPS, &sizes, self::sizes(), 1).unwrap();
    let run_of = |name, software, store_bytes, compiled| {
        let mut machine = support::mesh(1);
        machine.cores.instructions_per_access = None;
        machine.program = ProgramChoices { store_bytes, compiled, ..ProgramChoices::default() };
        let hardware = scheme::find(name).unwrap();
        let statistics =
            prepared.run(&machine, hardware, &run(software, 1, 100), Vec::new()).unwrap().outcome.statistics;
        let entries =
            statistics.scheme.iter().find(|(name, _)| name == "log entries").map(|(_, count)| *count);
        (statistics.cores[0], entries.unwrap_or(0))
    };
    let of = |name, software, bytes| run_of(name, software, bytes, Compiled::Optimised);
    let (redo, redo_entries) = of("atom-redo", "plain+locks", 8);
    let (atom, atom_entries) = of("atom", "plain-flushed+locks", 8);
    // Each update adds an entry for its commit.
    let commits = redo_entries - redo.stores;
    assert!(commits > 90 && commits <= 100, "{commits}");
    for (bytes, parts) in [(4, 2), (2, 4), (1, 8)] {
        let (narrow, entries) = of("atom-redo", "plain+locks", bytes);
        assert_eq!(narrow.stores, parts * redo.stores, "{bytes}");
        assert_eq!(entries, parts * redo.stores + commits, "{bytes}");
        // Each store is an entry of the queue.
        let samples = |core: CoreStatistics| core.store_queue_occupancy.samples;
        assert_eq!(samples(narrow) - samples(redo), narrow.stores - redo.stores, "{bytes}");
        // A log of lines does not change. All words here are copied.
        let (narrow, entries) = of("atom", "plain-flushed+locks", bytes);
        assert_eq!(entries, atom_entries, "{bytes}");
        let copied = |bytes| copied_word(bytes, Compiled::Optimised).unwrap();
        let expected = (copied(bytes) - copied(8)) / 2.0 * (atom.loads + atom.stores) as f64;
        let found = (narrow.instructions - atom.instructions) as f64;
        assert!((found / expected - 1.0).abs() < 0.02, "{bytes}: {found} {expected}");
        // Transactions in software do not change either.
        let software = |bytes| of("none", "bppm", bytes).0.stores;
        assert_eq!(software(bytes), software(8), "{bytes}");
    }
    assert!(atom.stores == redo.stores);
    let (unoptimised, _) = run_of("atom-redo", "plain+locks", 8, Compiled::Unoptimised);
    assert_eq!(unoptimised.stores, redo.stores);
    assert!(unoptimised.instructions > redo.instructions);
}

/// A program of narrow stores also survives power failures, including logs of words.
#[test]
fn programs_of_narrow_stores_are_recovered() {
    let sizes = Sizes { value_bytes: 64, ..Sizes::small() };
    for (name, software) in
        [("atom", "plain-flushed+locks"), ("atom-redo", "plain+locks"), ("wrap", "plain+locks")]
    {
        let mut machine = support::mesh(2);
        machine.program.store_bytes = 2;
        let hardware = scheme::find(name).unwrap();
        let prepared = Prepared::new(&RBTREE, &sizes, self::sizes(), 2).unwrap();
        let run = run(software, 2, 40);
        let outcome = prepared.run(&machine, hardware, &run, Vec::new()).unwrap().outcome;
        let crash_at = (1..30).map(|part| Cycle::new(outcome.statistics.cycles * part / 30)).collect();
        for crash in prepared.run(&machine, hardware, &run, crash_at).unwrap().crashes {
            let words = recover(&prepared, &machine, run.scheme, hardware, crash.image).unwrap().words;
            assert_eq!(check(&RBTREE, &sizes, &prepared, words), Ok(()), "{name}, cycle {}", crash.at);
        }
    }
}

/// Omits the first of the declared locks of each critical section.
struct Careless<'m>(PlainWorker<&'m Hosted>);

impl<'m> Runner for Careless<'m> {
    type Tx<'t> = <PlainWorker<&'m Hosted> as Runner>::Tx<'t>;

    fn run<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R, Error> {
        self.0.run(body)
    }

    fn run_locked<R>(
        &mut self,
        locks: &[Lock],
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>,
    ) -> Result<R, Error> {
        self.0.run_locked(locks.get(1..).unwrap_or_default(), body)
    }

    fn view<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R, Error> {
        self.0.view(body)
    }

    fn takes_locks(&self) -> bool {
        self.0.takes_locks()
    }

    fn trusts_locks(&self) -> bool {
        self.0.trusts_locks()
    }

    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }
}

/// Each lock that a part declares is necessary: without one, threads interfere in a structure, and its check or an operation reports it.
#[test]
fn a_declared_lock_that_is_left_out_is_missed() {
    for (workload, sizes) in of_parts() {
        // The heap's placement determines how soon threads interfere.
        let mut all = [16, 32, 8, 24, 12].into_iter().map(|buckets| Sizes { buckets, ..sizes });
        let is_missed = all.any(|sizes| [300, 1000].into_iter().any(|many| misses(workload, &sizes, many)));
        assert!(is_missed, "{workload:?}, {} bytes", sizes.value_bytes);
    }
}

/// Returns whether so many transactions of a workload reveal that a lock is left out.
fn misses(workload: WorkloadKind, sizes: &Sizes, transactions: u64) -> bool {
    let prepared = Prepared::new(workload, sizes, self::sizes(), 4).unwrap();
    let (machine, none) = (support::mesh(4), scheme::find("none").unwrap());
    let words = prepared.header(4).persistent_bytes as usize / 8;
    let image_of = |machine: &Machine| (0..words).map(|word| machine.newest_word(word)).collect::<Vec<_>>();
    let kept = RefCell::new(None);
    prepared
        .run_with(&machine, none, &run("plain", 1, 0), Vec::new(), |machine| {
            *kept.borrow_mut() = Some(machine.clone());
        })
        .unwrap();
    let image = image_of(&kept.into_inner().unwrap());
    let program = "plain-flushed+locks".parse::<SchemeName>().unwrap().program().unwrap();
    let selection = Selection::new(workload, sizes).unwrap();
    let is_whole = |is_careless: bool| {
        let machine = Rc::new(prepared.machine(&machine, none, image.clone()).unwrap());
        let failed = Cell::new(false);
        let threads = (0..4).map(|index| {
            let (failed, prepared, selection) = (&failed, &prepared, &selection);
            Box::new(move |memory: &Hosted| {
                let worker = PlainWorker::new(prepared.view(memory), index, program);
                let mut runner =
                    if is_careless { AnyRunner::new(Careless(worker)) } else { AnyRunner::new(worker) };
                let mut thread = selection.workload().thread(&mut runner, index).unwrap();
                let mut each = 0..transactions;
                failed.set(failed.get() | each.any(|_| thread.transaction(&mut runner).is_err()));
            }) as Thread<'_>
        });
        machine.run(threads.collect());
        !failed.get() && check(workload, sizes, &prepared, image_of(&machine)).is_ok()
    };
    assert!(is_whole(false), "{workload:?}");
    !is_whole(true)
}

/// New Order runs under the lock of its district and the rows from which it takes, and with each use of a table as a critical section of its own.
/// TPC-C's consistency conditions hold at the end.
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
