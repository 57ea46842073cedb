//! Every workload runs under every scheme on one pool, and the row's numbers are consistent.

use strandline_core::Domain;
use strandline_core::file::Options;
use strandline_core::layout::Geometry;
use strandline_core::transaction::{AnyRunner, Concurrency, Read, Runner};
use strandline_schemes::laboratory;
use strandline_workloads::{
    ALL, BPLUSTREE, BPLUSTREE_SORTED, BPLUSTREE_SORTED_11, BTREE, BTREE_SORTED, HASH, HOT_COUNTER, KVSTORE,
    Length, MULTISET, Parameter, PoolSetting, PreparedProduct, QUEUE, RBTREE, Run, SDG, SET, SPS, SchemeName,
    Selection, Sizes, System, TATP_UPDATE_LOCATION, TPCC_NEW_ORDER, WorkloadKind,
};

/// The number of transactions that each thread runs: enough for some writes, and for some acknowledgements of deferred commits.
const TRANSACTIONS: u64 = 60;

/// The schemes to run. Sizes and schemes are independent: tests of sizes run one durable scheme for each kind of isolation.
#[derive(Clone, Copy)]
enum Schemes {
    All,
    OneDurable,
}

fn runs(schemes: Schemes, sizes: &Sizes, workloads: &[WorkloadKind]) {
    let folder = tempfile::tempdir().unwrap();
    for &name in workloads {
        let selection = Selection::new(name, sizes).unwrap();
        for concurrency in [Concurrency::Stm, Concurrency::SingleWriter, Concurrency::Locks] {
            let domain = Domain::Flush;
            let options = Options {
                geometry: Geometry { size: 32 << 20, logs: 2, log_bytes: 128 << 10, chunk_bytes: 64 << 10 },
                domain,
                assume_persistent: true,
                ..Options::default()
            };
            let path = folder.path().join(format!("{}-{concurrency:?}", name.name));
            let pool = laboratory(concurrency).create(path, &options).unwrap();
            if concurrency == Concurrency::Locks {
                selection
                    .prepare(&mut AnyRunner::new(
                        pool.worker_of(&strandline_schemes::DCT_EAGER_SYNC).unwrap(),
                    ))
                    .unwrap();
            } else {
                selection.prepare(&mut AnyRunner::new(pool.worker().unwrap())).unwrap();
            }
            let native =
                SchemeName::all().filter(|scheme| scheme.concurrency == concurrency && scheme.is_native());
            let chosen: Vec<_> = match schemes {
                Schemes::All => native.collect(),
                Schemes::OneDurable => native.filter(|scheme| scheme.is_durable()).take(1).collect(),
            };
            assert!(!chosen.is_empty(), "{concurrency:?}");
            let mut counted = 1;
            for scheme in chosen {
                let run = Run {
                    threads: if selection.allow(2).is_ok() { 2 } else { 1 },
                    length: Length::Transactions(TRANSACTIONS),
                    seed: 7,
                    idle_percent: 0,
                    latency: true,
                };
                let row = selection.measure(&pool, domain, scheme, &run).unwrap();
                assert_eq!((row.scheme.as_str(), row.workload.as_str()), (scheme.name(), name.name));
                let latency = row.latency_ns.unwrap();
                assert!(0 < latency.p50 && latency.p50 <= latency.p99_99 && latency.p99_99 <= latency.max);
                assert!(0.0 < row.slowest_thread && row.slowest_thread <= 1.0 + f64::EPSILON, "{row:?}");
                assert!(row.tx_per_s > 0.0 && row.tx_per_processor_s > 0.0 && row.seconds > 0.0, "{row:?}");
                selection
                    .check(&mut AnyRunner::new(strandline_schemes::PlainWorker::in_pool(&pool, 0).unwrap()))
                    .unwrap();
                if name == &HOT_COUNTER {
                    // An update that is lost is missing here.
                    counted += run.threads * TRANSACTIONS;
                    let mut runner =
                        AnyRunner::new(strandline_schemes::PlainWorker::in_pool(&pool, 0).unwrap());
                    assert_eq!(runner.view(|tx| tx.read(tx.root(0))).unwrap(), counted, "{}", scheme.name());
                }
                if scheme.kind == Some(&strandline_schemes::BPPM) {
                    // A swap of an entry with itself writes nothing and need not fence.
                    assert!(row.fences_per_tx <= 1.0, "{row:?}");
                }
                if scheme.is_durable() {
                    assert!(row.fences_per_tx > 0.0 && row.acknowledged_per_s > 0.0, "{row:?}");
                    assert!(row.log_bytes_per_tx >= 32.0, "{row:?}");
                } else {
                    assert_eq!((row.fences_per_tx, row.lines_flushed_per_tx), (0.0, 0.0), "{row:?}");
                }
            }
            pool.close().unwrap();
        }
    }
}

#[test]
fn every_workload_runs_under_every_scheme() {
    runs(Schemes::All, &Sizes::small(), &ALL.iter().collect::<Vec<_>>());
}

#[test]
fn larger_values_and_transactions() {
    let sizes = Sizes { value_bytes: 256, operations: 4, ..Sizes::small() };
    runs(Schemes::OneDurable, &sizes, &[&HASH, &KVSTORE, &SPS, &TATP_UPDATE_LOCATION, &TPCC_NEW_ORDER]);
}

/// The workloads for which ATOM's sizes are meant.
const ATOM: [WorkloadKind; 7] = [&HASH, &QUEUE, &RBTREE, &BTREE, &BPLUSTREE, &SDG, &SPS];

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn entries_of_512_bytes() {
    runs(Schemes::OneDurable, &Sizes::atom(512), &ATOM);
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn wrap_keeps_its_number_of_elements() {
    let sizes = Sizes { buckets: 500, hash_keys: 500, ..Sizes::wrap(5) };
    let structures = [
        &SET,
        &MULTISET,
        &BTREE,
        &BPLUSTREE,
        &RBTREE,
        &HASH,
        &KVSTORE,
        &BTREE_SORTED,
        &BPLUSTREE_SORTED,
        &BPLUSTREE_SORTED_11,
    ];
    runs(Schemes::OneDurable, &sizes, &structures);
    // There are so few keys that they recur.
    runs(Schemes::OneDurable, &Sizes { rbtree_keys: 150, bplustree_keys: 150, ..sizes }, &structures);
}

#[test]
fn impossible_sizes_are_refused() {
    let sizes = Sizes { value_bytes: 12, ..Sizes::small() };
    assert!(Selection::new(&HASH, &sizes).is_err());
    assert!(Selection::new(&KVSTORE, &sizes).is_ok());
}

const SETTING: PoolSetting = PoolSetting {
    logs: 2,
    log_bytes: 128 << 10,
    domain: Domain::FlushOnFail,
    instruction: None,
    concurrency: Concurrency::Stm,
};

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn several_operations_are_one_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run { threads: 1, length: Length::Transactions(200), seed: 7, idle_percent: 0, latency: false };
    for workload in ALL.iter().filter(|workload| workload.takes.contains(&Parameter::Operations)) {
        let log_bytes = |operations| {
            let selection = Selection::new(workload, &Sizes { operations, ..Sizes::small() }).unwrap();
            let path = folder.path().join(format!("{}-{operations}", workload.name));
            let product = PreparedProduct::new(&path, &selection, System::Words, SETTING).unwrap();
            let product = product.unwrap();
            let row =
                selection.measure_product(product.product(), SETTING.domain, System::Words, &run).unwrap();
            row.log_bytes_per_tx
        };
        let (one, eight) = (log_bytes(1), log_bytes(8));
        assert!(eight > 1.5 * one, "{}: {one} and {eight} bytes", workload.name);
    }
}

#[test]
fn a_read_share_of_100_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for workload in [&SPS, &HASH, &KVSTORE, &RBTREE, &BTREE, &BPLUSTREE, &BPLUSTREE_SORTED] {
        let row = |read_percent| {
            let sizes = Sizes { read_percent, ..Sizes::small() };
            let selection = Selection::new(workload, &sizes).unwrap();
            let setting = SETTING;
            let path = folder.path().join(format!("{}-{read_percent}", workload.name));
            let length = Length::Transactions(200);
            let run = Run { threads: 2, length, seed: 7, idle_percent: 0, latency: false };
            [System::Types, System::TypesSingleWriter, System::Words, System::SingleWriter].map(|system| {
                let product =
                    PreparedProduct::new(&path.with_extension(system.name()), &selection, system, setting)
                        .unwrap()?;
                let row = selection.measure_product(product.product(), setting.domain, system, &run).unwrap();
                product.product().check().unwrap();
                assert_eq!(row.scheme, system.name());
                Some(row.fences_per_tx)
            })
        };
        let [types, types_single_writer, by_words @ ..] = row(100);
        let by_types = workload.by_types.map(|_| 0.0);
        assert_eq!([types, types_single_writer], [by_types; 2], "{}", workload.name);
        assert_eq!(by_words, [Some(0.0); 2], "{}", workload.name);
        let [_, _, by_words @ ..] = row(50);
        for half in by_words {
            let half = half.unwrap();
            assert!((0.2..0.8).contains(&half), "{}: {half}", workload.name);
        }
    }
}
