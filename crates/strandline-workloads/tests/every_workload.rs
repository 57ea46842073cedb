//! Every workload runs under every scheme on one pool, and the row adds up.

use std::time::Duration;

use strandline::Domain;
use strandline::pool::{Geometry, Options, Pool};
use strandline::scheme::SchemeKind;
use strandline::transaction::Concurrency;
use strandline_workloads::{Run, SchemeName, Selection, Sizes, WorkloadName};

fn runs(sizes: &Sizes, workloads: &[WorkloadName]) {
    let folder = tempfile::tempdir().unwrap();
    for &name in workloads {
        let selection = Selection::new(name, sizes).unwrap();
        for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
            let domain = Domain::Flush;
            let options = Options {
                geometry: Geometry { size: 32 << 20, logs: 2, log_bytes: 128 << 10, chunk_bytes: 64 << 10 },
                domain,
                concurrency,
                assume_persistent: true,
                ..Options::default()
            };
            let path = folder.path().join(format!("{}-{concurrency:?}", name.name()));
            let pool = Pool::create(path, &options).unwrap();
            selection.prepare(&mut pool.worker().unwrap()).unwrap();
            for scheme in SchemeName::all().filter(|scheme| scheme.concurrency == concurrency) {
                let run = Run {
                    threads: 2,
                    warm_up: Duration::from_millis(2),
                    duration: Duration::from_millis(20),
                    seed: 7,
                    idle_percent: 0,
                };
                let row = selection.measure(&pool, domain, scheme, &run).unwrap();
                assert_eq!((row.scheme.as_str(), row.workload.as_str()), (scheme.name(), name.name()));
                assert!(row.tx_per_s > 0.0 && row.tx_per_processor_s > 0.0 && row.seconds > 0.0, "{row:?}");
                if scheme.kind == Some(SchemeKind::Blurred) {
                    // A swap of an entry with itself writes nothing and need not fence.
                    assert!(row.fences_per_tx <= 1.0, "{row:?}");
                    assert!(row.log_bytes_per_tx >= 32.0 && row.acknowledged_per_s > 0.0, "{row:?}");
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
    runs(&Sizes::small(), &WorkloadName::ALL);
}

#[test]
fn larger_values_and_transactions() {
    let sizes = Sizes { value_bytes: 256, operations: 4, ..Sizes::small() };
    runs(&sizes, &[WorkloadName::Hash, WorkloadName::KvStore, WorkloadName::Sps]);
}

#[test]
fn impossible_sizes_are_refused() {
    let sizes = Sizes { value_bytes: 12, ..Sizes::small() };
    assert!(Selection::new(WorkloadName::Hash, &sizes).is_err());
    assert!(Selection::new(WorkloadName::KvStore, &sizes).is_ok());
}
