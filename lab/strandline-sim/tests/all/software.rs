//! The software schemes on the machine.

use std::rc::Rc;

use super::support;
use strandline_core::Concurrency;
use strandline_core::engine::Worker;
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Event, Hosted, World};
use strandline_core::scheme::SchemeKind;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};
use strandline_schemes::{Locking, laboratory};
use strandline_sim::description::{
    Contention, HomeCopies, LogPointers, MnemosyneLog, PersistenceDomain, ProgramChoices, SoftwareLog,
    TimeSlices,
};
use strandline_sim::numbers::Cycle;
use strandline_sim::run::{PoolSizes, Prepared, Recovered, Run, recover};
use strandline_sim::scheme;
use strandline_structures::Array;
use strandline_workloads::{ALL, HASH, KVSTORE, SPS, SchemeName, Selection, Sizes};

fn sizes() -> PoolSizes {
    PoolSizes { log_bytes: 65536, chunk_bytes: 16384, lock_bits: 12 }
}

fn run(scheme: &str, threads: usize, transactions: u64) -> Run {
    Run { scheme: scheme.parse().unwrap(), threads, transactions, warm_up: 20, idle_percent: 0, seed: 7 }
}

#[test]
fn every_scheme_and_every_workload_runs_on_every_kind_of_machine() {
    let none = scheme::find("none").unwrap();
    for workload in ALL.iter() {
        let prepared = Prepared::new(workload, &Sizes::small(), sizes(), 4).unwrap();
        let shares = Selection::new(workload, &Sizes::small()).unwrap().allow(4).is_ok();
        // All combinations would take minutes.
        let all = workload == &SPS;
        // Only TPC-C has parts.
        let chosen =
            |scheme: &SchemeName| all && scheme.plain != Some(Locking::OfParts) || scheme.name() == "bppm";
        for scheme in SchemeName::all().filter(chosen) {
            for (mut machine, domain) in [
                (support::small(4), PersistenceDomain::Adr),
                (support::three_levels(), PersistenceDomain::Media),
                (support::mesh(4), PersistenceDomain::FlushOnFail),
            ] {
                machine.persistence.domain = if all { domain } else { PersistenceDomain::Adr };
                let threads = machine.cores.count.min(if shares { 4 } else { 1 });
                let run = Run { scheme, ..run("np", threads, 100) };
                let finished = prepared.run(&machine, none, &run, Vec::new()).unwrap();
                let outcome = finished.outcome;
                assert!(outcome.tx_per_s > 0.0);
                assert!(outcome.statistics.accesses > 100);
            }
        }
    }
}

/// Eight threads on the Opteron's four cores access a few hundred lines. With TinySTM's contention manager a thread that is not running keeps others
/// retrying, but all transactions of the slowest thread are still completed.
#[test]
fn threads_that_retry_at_once_on_shared_cores_end() {
    let none = scheme::find("none").unwrap();
    let prepared = Prepared::new(&SPS, &Sizes::small(), sizes(), 8).unwrap();
    let aborts = [Contention::Wait, Contention::Suicide].map(|contention| {
        let mut machine = strandline_sim::file::load("opteron", &[""; 0]).unwrap();
        machine.program.contention = contention;
        // Each thread has many slices.
        machine.time_slices = Some(TimeSlices { slice_ns: 20_000.0, ..TimeSlices::default() });
        let finished = prepared.run(&machine, none, &run("np", 8, 400), Vec::new()).unwrap();
        assert_eq!(finished.outcome.transactions, 400, "{contention:?}");
        finished.outcome.abort_ratio
    });
    assert!(aborts[1] > 2.0 * aborts[0], "{aborts:?}");
}

/// A paper's statements about its systems determine which of the library's schemes runs under their names.
#[test]
fn a_papers_name_stands_for_the_scheme_that_its_text_describes() {
    let none = scheme::find("none").unwrap();
    let prepared = Prepared::new(&SPS, &Sizes::small(), sizes(), 1).unwrap();
    let cost = |scheme: &str, program: ProgramChoices| {
        let mut machine = support::small(1);
        machine.program = program;
        let outcome = prepared.run(&machine, none, &run(scheme, 1, 20), Vec::new()).unwrap().outcome;
        assert_eq!(outcome.scheme, scheme);
        outcome.fences_per_tx.round()
    };
    let default = ProgramChoices::default();
    let pointers = ProgramChoices { log_pointers: LogPointers::AllButXil, ..default };
    let fenced = ProgramChoices { mnemosyne_log: MnemosyneLog::Fenced, ..default };
    let fences = |program| ["base", "vcbp", "xil", "bppm", "mne-sync"].map(|scheme| cost(scheme, program));
    assert_eq!(fences(default), [4.0, 2.0, 3.0, 1.0, 3.0]);
    assert_eq!(fences(pointers), [5.0, 3.0, 2.0, 1.0, 3.0]);
    assert_eq!(fences(fenced), [4.0, 2.0, 3.0, 1.0, 4.0]);
    // A mode that a variant does not have stays unchanged.
    let single: SchemeName = "base+single-writer".parse().unwrap();
    assert_eq!(pointers.scheme(single), single);
}

/// S-WAL writes its blocks home and truncates its log, or leaves both in the caches.
#[test]
fn home_copies_may_stay_in_the_caches() {
    let none = scheme::find("none").unwrap();
    let prepared = Prepared::new(&SPS, &Sizes::small(), sizes(), 1).unwrap();
    let of = |scheme, home_copies, crash_at| {
        let mut machine = support::three_levels();
        machine.program.home_copies = home_copies;
        prepared.run(&machine, none, &run(scheme, 1, 100), crash_at).map(|finished| finished.outcome)
    };
    let counts = |scheme, home_copies| {
        let outcome = of(scheme, home_copies, Vec::new()).unwrap();
        let core = outcome.statistics.cores[0];
        (core.fences, core.write_backs, core.stores)
    };
    let (fences, write_backs, stores) = counts("s-wal+single-writer", HomeCopies::WrittenBack);
    let (cached_fences, cached_write_backs, cached_stores) =
        counts("s-wal+single-writer", HomeCopies::Cached);
    // The fences after the log and the record remain; the blocks with their addresses and the record are written back.
    assert_eq!((fences, cached_fences), (400, 200));
    // A swap writes back at least a block at home, and the log's truncation.
    assert!(write_backs >= cached_write_backs + 200, "{write_backs} {cached_write_backs}");
    assert_eq!(stores, cached_stores);
    assert_eq!(counts("bppm", HomeCopies::Cached), counts("bppm", HomeCopies::WrittenBack));
    // Its log cannot recover that.
    let crash = || vec![Cycle::new(1000)];
    assert!(of("s-wal+single-writer", HomeCopies::Cached, crash()).is_err());
    assert!(of("s-wal+single-writer", HomeCopies::WrittenBack, crash()).is_ok());
}

/// S-WAL's log is charged the library's instructions, or those of the benchmark; other schemes and the accesses do not change.
#[test]
fn a_software_log_may_be_the_benchmarks_own() {
    let none = scheme::find("none").unwrap();
    let counts = |workload, scheme, software_log| {
        let prepared = Prepared::new(workload, &Sizes::small(), sizes(), 1).unwrap();
        let mut machine = support::three_levels();
        machine.cores.instructions_per_access = None;
        machine.program.software_log = software_log;
        let outcome = prepared.run(&machine, none, &run(scheme, 1, 100), Vec::new()).unwrap().outcome;
        let core = outcome.statistics.cores[0];
        (core.instructions, (core.loads, core.stores, core.fences, core.write_backs))
    };
    let of = |workload, scheme| {
        [SoftwareLog::Library, SoftwareLog::CompiledIn].map(|log| counts(workload, scheme, log))
    };
    let [(library, accesses), (own, same)] = of(&SPS, "s-wal+single-writer");
    assert_eq!(accesses, same);
    assert!(3 * own < library, "13.75 instructions an access for 43.6: {own} {library}");
    let [bppm, the_same] = of(&SPS, "bppm");
    assert_eq!(bppm, the_same);
}

#[test]
fn two_runs_with_one_seed_are_equal_to_the_byte() {
    let none = scheme::find("none").unwrap();
    let machine = support::mesh(4);
    let prepared = Prepared::new(&HASH, &Sizes::small(), sizes(), 4).unwrap();
    let json = |seed| {
        let run = Run { seed, ..run("bppm", 4, 200) };
        serde_json::to_string(&prepared.run(&machine, none, &run, Vec::new()).unwrap().outcome).unwrap()
    };
    let first = json(1);
    assert_eq!(first, json(1));
    assert_ne!(first, json(2));
}

/// Software beside a hardware scheme's boundaries repeats none of the hardware's work. Without hardware, boundaries are free, so a plain program runs
/// as fast as without transactions; a single writer additionally takes and releases its lock.
#[test]
fn software_under_hardware_costs_nothing_of_its_own() {
    let none = scheme::find("none").unwrap();
    let prepared = Prepared::new(&SPS, &Sizes::small(), sizes(), 1).unwrap();
    let run = |scheme| {
        let finished = prepared.run(&support::three_levels(), none, &run(scheme, 1, 2000), Vec::new());
        let outcome = finished.unwrap().outcome;
        (outcome.tx_per_s, outcome.statistics.accesses)
    };
    let (bare, plain) = (run("volatile"), run("plain"));
    let share = plain.0 / bare.0;
    assert!((share - 1.0).abs() < 0.005, "{share}");
    assert_eq!(plain.1, bare.1);
    // It checks the lock, takes it, and releases it.
    let (_, with_lock) = run("hardware+single-writer");
    assert_eq!((with_lock - bare.1) / 2000, 3);
}

/// Under every scheme the data that a transaction has written is loaded back from memory: BASE keeps an entry of two words in its execution area, XIL
/// a record of two in its log.
#[test]
fn execution_areas_are_memory() {
    let prepared = Prepared::new(&SPS, &Sizes::small(), sizes(), 1).unwrap();
    let words = prepared.layout().geometry.size as usize / 8;
    let accesses = |kind: SchemeKind| {
        let none = scheme::find("none").unwrap();
        let machine = prepared.machine(&support::three_levels(), none, vec![0; words]).unwrap();
        let machine = Rc::new(machine);
        let found = std::cell::Cell::new([0; 3]);
        machine.run(vec![Box::new(|memory: &Hosted| {
            let isolation = laboratory(Concurrency::SingleWriter);
            let view = prepared.view(memory);
            let mut worker = Worker::lease_of(view, kind, isolation, None).unwrap();
            let loads = || machine.statistics().cores[0].loads;
            let stores = || machine.statistics().cores[0].stores;
            let mut in_body = [0; 3];
            worker
                .run(|tx| {
                    let before = stores();
                    tx.write(tx.root(0), 5)?;
                    let between = loads();
                    in_body[0] = stores() - before;
                    assert_eq!(tx.read(tx.root(0))?, 5);
                    in_body[1] = loads() - between;
                    in_body[2] = loads();
                    Ok(())
                })
                .unwrap();
            in_body[2] = loads() - in_body[2];
            found.set(in_body);
        })]);
        found.get()
    };
    let np = accesses(&strandline_schemes::NP);
    assert_eq!(np[..2], [2, 1], "an entry is stored, its value loaded");
    let base = accesses(&strandline_schemes::BASE);
    assert_eq!(base[..2], [2, 1]);
    assert_eq!(base[2], np[2] + 2, "and copied to the log");
    assert_eq!(accesses(&strandline_schemes::XIL)[..2], [2, 2], "a record's two blocks");
}

/// TxAbort undoes the stores; under other hardware the software restores the old values.
#[test]
fn hardware_that_can_takes_stores_back() {
    let prepared = Prepared::new(&SPS, &Sizes::small(), sizes(), 1).unwrap();
    let words = prepared.layout().geometry.size as usize / 8;
    // Counts the stores of a transaction of three words that is given up.
    let stores = |hardware: &str| {
        let hardware = scheme::find(hardware).unwrap();
        let machine = prepared.machine(&support::three_levels(), hardware, vec![0; words]).unwrap();
        let machine = Rc::new(machine);
        let stores = std::cell::Cell::new(0);
        machine.run(vec![Box::new(|memory: &Hosted| {
            let isolation = laboratory(Concurrency::SingleWriter);
            let view = prepared.view(memory);
            let mut worker = Worker::lease_of(view, &strandline_schemes::HARDWARE, isolation, None).unwrap();
            let before = machine.statistics().cores[0].stores;
            let given_up = worker.run(|tx| {
                for root in 0..3 {
                    tx.write(tx.root(root), 5)?;
                }
                Err::<(), _>(Abort::User)
            });
            assert!(given_up.is_err());
            stores.set(machine.statistics().cores[0].stores - before);
            let sum =
                worker.view(|tx| Ok(tx.read(tx.root(0))? + tx.read(tx.root(1))? + tx.read(tx.root(2))?));
            assert_eq!(sum.unwrap(), 0, "{}", hardware.name);
        })]);
        stores.get()
    };
    let without = stores("none");
    assert_eq!([stores("h-wal"), stores("loc-wal"), stores("loc-kiln")], [without - 3; 3]);
}

/// Swaps keep the array a permutation, so that half a swap is detected; and everything acknowledged is there.
#[test]
fn power_may_fail_at_any_cycle() {
    let none = scheme::find("none").unwrap();
    let sizes = Sizes { array_words: 64, ..Sizes::small() };
    let pool = PoolSizes { log_bytes: 4096, chunk_bytes: 4096, lock_bits: 8 };
    let prepared = Prepared::new(&SPS, &sizes, pool, 3).unwrap();
    let mut judged = 0;
    for scheme in ["bppm", "bppm+single-writer"] {
        for domain in [PersistenceDomain::Media, PersistenceDomain::Adr, PersistenceDomain::FlushOnFail] {
            for mut machine in [support::small(3), support::mesh(3)] {
                machine.persistence.domain = domain;
                // A small first level evicts uncommitted lines.
                machine.caches[0].bytes = 64 * 4 * machine.caches[0].ways as u64;
                let crash_at = (1..400).map(|i| Cycle::new(i * 997)).collect();
                let finished = prepared.run(&machine, none, &run(scheme, 3, 100), crash_at).unwrap();
                for crash in finished.crashes {
                    judged += 1;
                    let acknowledged = finished.events[..crash.events].iter().filter_map(|e| match e.event {
                        Event::Acknowledged(transaction) => Some(transaction),
                        _ => None,
                    });
                    let highest = acknowledged.max().unwrap_or(0);
                    let Recovered { words: image, report, .. } =
                        recover(&prepared, &machine, scheme.parse().unwrap(), none, crash.image).unwrap();
                    assert!(
                        report.watermark >= highest,
                        "{scheme} {domain:?} at {}: {highest} is lost",
                        crash.at
                    );
                    assert_eq!(
                        sorted_array(&prepared, image, 64),
                        (0..64).collect::<Vec<_>>(),
                        "at {}",
                        crash.at
                    );
                }
            }
        }
    }
    assert!(judged > 1000, "{judged}");
}

/// Without the commit's fence something must be lost, which shows that the machine can detect it.
#[test]
fn np_does_not_survive() {
    let none = scheme::find("none").unwrap();
    let sizes = Sizes { array_words: 64, ..Sizes::small() };
    let pool = PoolSizes { log_bytes: 4096, chunk_bytes: 4096, lock_bits: 8 };
    let prepared = Prepared::new(&SPS, &sizes, pool, 1).unwrap();
    let mut machine = support::small(1);
    machine.caches[0].bytes = 256;
    let crash_at = (1..400).map(|i| Cycle::new(i * 997)).collect();
    let finished = prepared.run(&machine, none, &run("np", 1, 400), crash_at).unwrap();
    let torn = finished
        .crashes
        .into_iter()
        .filter(|crash| sorted_array(&prepared, crash.image.clone(), 64) != (0..64).collect::<Vec<_>>());
    assert!(torn.count() > 0);
}

fn sorted_array(prepared: &Prepared, image: Vec<u64>, length: u64) -> Vec<u64> {
    let recorder = Rc::new(Recorder::new(image, 1 << 20, 0, 0, None));
    let world: Rc<dyn World> = recorder;
    let view = prepared.view(Hosted::new(world, 0));
    let mut worker =
        Worker::lease_of(view, &strandline_schemes::NP, laboratory(Concurrency::SingleWriter), None).unwrap();
    let mut words = worker
        .view(|tx| {
            let root = tx.root(0);
            let array = Array::<u64>::open(tx, root)?;
            (0..length).map(|i| array.get(tx, i)).collect::<Result<Vec<_>, _>>()
        })
        .unwrap();
    words.sort_unstable();
    words
}

/// With warm caches less is read from memory, and the state after a power failure is as good.
#[test]
fn a_structure_that_is_cached_is_read_from_there() {
    let none = scheme::find("none").unwrap();
    let machine = support::mesh(4);
    let words = 1 << 15;
    let sizes = Sizes { array_words: words, ..Sizes::small() };
    // The logs do not fill up, because bulk persistence empties the caches (wbinvd).
    let pool = PoolSizes { log_bytes: 1 << 16, chunk_bytes: 1 << 16, lock_bits: 8 };
    let run = Run { warm_up: 0, ..run("bppm", 4, 200) };
    let reads = |prepared: &Prepared| {
        let crash_at = (1..10).map(|i| Cycle::new(i * 9970)).collect();
        let finished = prepared.run(&machine, none, &run, crash_at).unwrap();
        for crash in finished.crashes {
            let image = recover(prepared, &machine, run.scheme, none, crash.image).unwrap().words;
            assert!(sorted_array(prepared, image, words).into_iter().eq(0..words), "at {}", crash.at);
        }
        finished.outcome.statistics.channels.iter().map(|channel| channel.reads).sum::<u64>()
    };
    let prepared = Prepared::new(&SPS, &sizes, pool, 4).unwrap();
    let cold = reads(&prepared);
    let warm = reads(&prepared.cached(4));
    // The remaining reads are of the logs' lines, each stored to for the first time.
    assert!(warm + 400 < cold, "{warm} and {cold} lines are read");
}

/// Threads of the hash table and the key-value store do not hinder each other under BPPM, even when logs fill up: 32 threads gain at least 0.7 of
/// what they gain without persistence.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn bppm_scales_as_programs_without_persistence_do() {
    let machine = strandline_sim::file::load("atom", &[""; 0]).unwrap();
    let none = scheme::find("none").unwrap();
    let pool = PoolSizes { log_bytes: 32768, chunk_bytes: 16384, lock_bits: 16 };
    let sizes = Sizes { buckets: 1 << 14, hash_keys: 1 << 15, ..Sizes::small() };
    for workload in [&HASH, &KVSTORE] {
        let prepared = Prepared::new(workload, &sizes, pool, 32).unwrap().cached(32);
        let of = |scheme: &str, threads| {
            let run = Run {
                scheme: scheme.parse().unwrap(),
                threads,
                transactions: 600,
                warm_up: 100,
                idle_percent: 0,
                seed: 3,
            };
            let outcome = prepared.run(&machine, none, &run, Vec::new()).unwrap().outcome;
            (threads as f64 / outcome.seconds, outcome.bulk_persists)
        };
        let gain = |scheme| of(scheme, 32).0 / of(scheme, 1).0;
        assert!(of("bppm", 32).1 > 0, "{workload:?}: no log came full");
        let (bppm, np) = (gain("bppm"), gain("np"));
        assert!(np > 10.0 && bppm >= 0.7 * np, "{workload:?}: {bppm} {np}");
    }
}
