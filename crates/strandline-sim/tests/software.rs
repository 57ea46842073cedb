//! The software schemes on the machine.

mod support;

use strandline_sim::description::PersistenceDomain;
use strandline_sim::run::{PoolSizes, Prepared, Run, recover};
use strandline_sim::scheme;
use strandline_workloads::{SchemeName, Sizes, WorkloadName};

fn sizes() -> PoolSizes {
    PoolSizes { log_bytes: 8192, chunk_bytes: 16384, lock_bits: 12 }
}

fn run(scheme: &str, threads: usize, transactions: u64) -> Run {
    Run { scheme: scheme.parse().unwrap(), threads, transactions, warm_up: 20, seed: 7 }
}

#[test]
fn every_scheme_runs_every_workload_on_every_kind_of_machine() {
    let none = scheme::find("none").unwrap();
    for workload in WorkloadName::ALL {
        let prepared = Prepared::new(workload, &Sizes::small(), sizes(), 4).unwrap();
        for scheme in SchemeName::ALL {
            for machine in [support::small(4), support::three_levels(), support::mesh(4)] {
                for domain in
                    [PersistenceDomain::Media, PersistenceDomain::Adr, PersistenceDomain::FlushOnFail]
                {
                    let mut machine = machine.clone();
                    machine.persistence.domain = domain;
                    let threads = machine.cores.count.min(4);
                    let run = Run { scheme, ..run("np", threads, 100) };
                    let finished = prepared.run(&machine, none, &run, Vec::new()).unwrap();
                    let outcome = finished.outcome;
                    assert!(outcome.tx_per_s > 0.0);
                    assert!(outcome.statistics.accesses > 100);
                }
            }
        }
    }
}

#[test]
fn two_runs_with_one_seed_are_equal_to_the_byte() {
    let none = scheme::find("none").unwrap();
    let machine = support::mesh(4);
    let prepared = Prepared::new(WorkloadName::Hash, &Sizes::small(), sizes(), 4).unwrap();
    let json = |seed| {
        let run = Run { seed, ..run("bppm", 4, 200) };
        serde_json::to_string(&prepared.run(&machine, none, &run, Vec::new()).unwrap().outcome).unwrap()
    };
    let first = json(1);
    assert_eq!(first, json(1));
    assert_ne!(first, json(2));
}

#[test]
fn after_a_power_failure_the_array_is_a_permutation() {
    let none = scheme::find("none").unwrap();
    let prepared = Prepared::new(WorkloadName::Sps, &Sizes::small(), sizes(), 2).unwrap();
    for domain in [PersistenceDomain::Media, PersistenceDomain::Adr, PersistenceDomain::FlushOnFail] {
        for mut machine in [support::small(2), support::mesh(2)] {
            machine.persistence.domain = domain;
            let crash_at = (1..60).map(|i| i * 9_973).collect();
            let finished = prepared.run(&machine, none, &run("bppm", 2, 150), crash_at).unwrap();
            assert!(finished.crashes.len() > 5, "{}", finished.crashes.len());
            for crash in finished.crashes {
                recover(&prepared, none, crash.image).unwrap();
            }
        }
    }
}
