//! The machine world: every scheme survives power failures at any cycle, and mutants do not.

use std::time::Duration;

use strandline::memory::Step;
use strandline_crash::explore::Workload;
use strandline_crash::machine::{Bounds, Case, Omitted, Subject, exhaust, sample, subjects};

fn bounds(histories: u64, transactions: u32) -> Bounds {
    Bounds { histories, seed: 1, transactions, limit: Duration::from_secs(600) }
}

fn subject(name: &str) -> Subject {
    subjects().into_iter().find(|subject| subject.name() == name).unwrap()
}

fn case(name: &str, omitted: Option<Omitted>) -> Case {
    Case { subject: subject(name), workload: Workload::Hash, threads: 2, omitted }
}

/// What the crash checker finds in these schemes.
fn losses(schemes: impl Iterator<Item = Subject>) -> Vec<String> {
    let mut losses = Vec::new();
    for subject in schemes {
        for (workload, threads) in [(Workload::Sps, 1), (Workload::Hash, 3), (Workload::Allocator, 2)] {
            let case = Case { subject, workload, threads, omitted: None };
            let found = match sample(case, bounds(2, 8), |_| ()) {
                Ok(found) => found,
                // A hardware scheme may refuse what it cannot be on.
                Err(strandline::Error::Unsupported(_)) => continue,
                Err(error) => panic!("{}: {error}", subject.name()),
            };
            let name = format!("{} {}", subject.name(), workload.name());
            match found.violation {
                Some(violation) => losses.push(format!("{name}: {}", violation.what)),
                None => assert!(found.counts.states > 0, "{name}: {:?}", found.counts),
            }
        }
    }
    losses
}

#[test]
fn every_scheme_survives_power_failures() {
    assert_eq!(losses(subjects().into_iter()), Vec::<String>::new());
}

#[test]
fn a_missing_step_is_found() {
    for (name, step) in [
        ("bppm", Step::CommitFence),
        ("base", Step::LogWriteBack),
        ("dct-eager-sync", Step::PrepareWriteBack),
    ] {
        let case = Case { workload: Workload::Sps, ..case(name, Some(Omitted::Step(step))) };
        let found = sample(case, bounds(400, 12), |_| ()).unwrap();
        assert!(found.violation.is_some(), "{name} without {step:?}: {:?}", found.counts);
    }
}

/// Workload, threads, transactions of a thread and histories that show a rule: small blocks and large ones that fill caches and
/// logs, then conflicts of threads.
const SHAPES: [(Workload, usize, u32, u64); 4] = [
    (Workload::Sps, 3, 12, 60),
    (Workload::Allocator, 1, 60, 150),
    (Workload::Hash, 3, 40, 100),
    (Workload::Sps, 1, 12, 100),
];

#[test]
#[ignore = "minutes, and it has not been run to its end: docs/simulator.md says what is known of each rule"]
fn every_mutant_of_every_hardware_scheme_is_found() {
    let mut missed = Vec::new();
    let hardware = strandline_sim::scheme::SCHEMES.iter().filter(|entry| entry.make.is_some());
    for entry in hardware {
        // Rules are the hardware's, whatever software runs beside it.
        let beside: Vec<_> =
            subjects().into_iter().filter(|subject| subject.hardware.name == entry.name).collect();
        for mutant in entry.mutants.iter().filter(|mutant| mutant.redundant.is_none()) {
            let started = std::time::Instant::now();
            let tried =
                SHAPES.into_iter().flat_map(|shape| beside.iter().map(move |&subject| (shape, subject)));
            let found =
                tried.into_iter().find_map(|((workload, threads, transactions, histories), subject)| {
                    let omitted = Some(Omitted::Rule(mutant));
                    let case = Case { subject, workload, threads, omitted };
                    let found = sample(case, bounds(histories, transactions), |_| ()).ok()?;
                    found
                        .violation
                        .is_some()
                        .then(|| (workload, threads, subject.name(), found.counts.histories))
                });
            println!("{} {} {:?} {:.1} s", entry.name, mutant.name, found, started.elapsed().as_secs_f64());
            if found.is_none() {
                missed.push(format!("{} without {}", entry.name, mutant.name));
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn every_cycle_of_a_short_history_is_survived() {
    let found = exhaust(case("bppm", None), bounds(1, 1), |_| ()).unwrap();
    assert!(found.violation.is_none(), "{}", found.violation.unwrap().what);
    assert_eq!(found.counts.cut_short, 0);
    assert!(found.counts.points > 100, "{:?}", found.counts);
}
