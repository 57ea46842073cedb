//! The machine world: every scheme survives power failures at any cycle, and mutants do not.

use super::HANG;
use std::collections::BTreeSet;

use strandline_check::Session;
use strandline_core::memory::Step;
use strandline_scheme_check::explore::Workload;
use strandline_scheme_check::machine::{
    Bounds, Case, Omitted, Subject, attempts, exhaust, sample, subjects, without_mutant,
};
use strandline_sim::Registry;
use strandline_sim::scheme::{BETWEEN_LIVES, Mutant, SCHEMES};

fn bounds(histories: u64, transactions: u32) -> Bounds {
    Bounds { histories, seed: 1, transactions, limit: HANG }
}

fn subject(name: &str) -> Subject {
    subjects(Registry::default()).into_iter().find(|subject| subject.name() == name).unwrap()
}

fn case(name: &str, omitted: Option<Omitted>) -> Case {
    Case { subject: subject(name), workload: Workload::Hash, threads: 2, omitted }
}

/// Hardware schemes with logs of 8 MB for each core, which each power failure copies several times. `wrap/tests.rs` of `strandline-sim` explores
/// every crash of these schemes with small logs.
const LARGE_LOGS: [&str; 2] = ["wrap-evaluated", "wrap-buffer-of-one"];

/// Returns what the crash checker finds in these schemes.
fn losses(schemes: impl Iterator<Item = Subject>, alone: u32) -> Vec<String> {
    let mut losses = Vec::new();
    for subject in schemes {
        for (workload, threads, transactions) in
            [(Workload::Sps, 1, alone), (Workload::Hash, 3, 8), (Workload::Allocator, 2, 8)]
        {
            // These schemes wrap for only one thread at a time anyway.
            if threads == 3 && LARGE_LOGS.contains(&subject.hardware.name) {
                continue;
            }
            let case = Case { subject, workload, threads, omitted: None };
            let found = match sample(case, bounds(1, transactions), &Session::new(), |_| ()) {
                Ok(found) => found,
                // A hardware scheme may refuse machines that it does not support.
                Err(strandline_core::Error::Unsupported(_)) => continue,
                Err(error) => panic!("{}: {error}", subject.name()),
            };
            let name = format!("{} {}", subject.name(), workload.name());
            match found.violation {
                Some(violation) => losses.push(format!("{name}: {}", violation.what)),
                None if found.counts.states > 5 => {}
                None => losses.push(format!("{name}: too few states: {:?}", found.counts)),
            }
        }
    }
    losses
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn every_scheme_survives_power_failures() {
    // With one thread it takes this many transactions to fill Loose-Ordering's windows of up to 32, without which nothing leaves the caches.
    assert_eq!(losses(subjects(Registry::default()).into_iter(), 200), Vec::<String>::new());
}

/// A power failure in the hardware's recovery may leave a part of the new log head.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn a_torn_log_head_is_no_head() {
    let case = Case {
        subject: subject("loc-wal/hardware+single-writer"),
        workload: Workload::Allocator,
        threads: 1,
        omitted: None,
    };
    let found = sample(case, Bounds { seed: 5, ..bounds(1, 800) }, &Session::new(), |_| ()).unwrap();
    assert!(found.violation.is_none(), "{:?}", found.violation);
    assert!(found.counts.recovery_points > 0, "{:?}", found.counts);
}

#[test]
fn a_missing_step_is_found() {
    for (name, step) in [
        ("bppm", Step::CommitFence),
        ("base", Step::LogWriteBack),
        ("dct-eager-sync", Step::PrepareWriteBack),
    ] {
        let case = Case { workload: Workload::Sps, ..case(name, Some(Omitted::Step(step))) };
        let found = sample(case, bounds(400, 12), &Session::new(), |_| ()).unwrap();
        assert!(found.violation.is_some(), "{name} without {step:?}: {:?}", found.counts);
    }
}

/// Rules whose histories take seconds each. [`every_mutant_of_every_hardware_scheme_is_found`] and `strandline-lab check --world machine --mutants`
/// cover them.
const SLOW: [&str; 12] = [
    "end-flag",
    "data-fence",
    "victim-last-writer",
    "victim-value-equality",
    "tx-count",
    "pair-commit",
    "recount",
    "in-order-commit",
    "window-order",
    "group-order",
    "truncate-after-home",
    "copied-durable",
];

/// Rules that need a situation which no shape has. Tests of `strandline-sim` cover them, in `loose_ordering.rs`, `atom/recovery.rs` and
/// `wrap/tests.rs`.
const ELSEWHERE: [&str; 3] = ["recount", "grant-life", "stale-entries"];

/// Returns the hardware schemes' rules that `chosen` accepts and whose omission no history shows.
fn missed(chosen: impl Fn(&str) -> bool) -> Vec<String> {
    let mut missed = Vec::new();
    for entry in SCHEMES.iter().filter(|entry| entry.make.is_some()) {
        let beside: Vec<_> = subjects(Registry::default())
            .into_iter()
            .filter(|subject| subject.hardware.name == entry.name)
            .collect();
        let harmful = |mutant: &&Mutant| mutant.redundant.is_none() && chosen(mutant.name);
        for mutant in entry.mutants.iter().filter(harmful) {
            let mut tried = attempts(&beside, Omitted::Rule(mutant)).into_iter();
            let found = tried.find_map(|(case, shape)| {
                let found =
                    sample(case, bounds(shape.histories, shape.transactions), &Session::new(), |_| ())
                        .ok()?;
                found.violation.as_ref()?;
                let own = without_mutant(case, &found).unwrap();
                assert!(
                    own.is_none(),
                    "{}: {:?}",
                    case.subject.name(),
                    own.and_then(|(_, own)| own.violation)
                );
                Some((case.subject.name(), shape, found.counts.histories))
            });
            println!("{} {} {found:?}", entry.name, mutant.name);
            if found.is_none() {
                missed.push(format!("{} without {}", entry.name, mutant.name));
            }
        }
    }
    missed
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn mutants_of_hardware_schemes_are_found() {
    let chosen = |rule: &str| !SLOW.contains(&rule) && !BETWEEN_LIVES.contains(&rule);
    assert_eq!(missed(chosen), Vec::<String>::new());
}

/// The machine restarts on the memory that recovery has left, including the hardware's own words.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn stale_records_are_found_where_nothing_makes_them_harmless() {
    assert_eq!(
        missed(|rule| BETWEEN_LIVES.contains(&rule) && !ELSEWHERE.contains(&rule)),
        Vec::<String>::new()
    );
}

#[test]
#[ignore = "minutes; the quick rules are in mutants_of_hardware_schemes_are_found"]
fn every_mutant_of_every_hardware_scheme_is_found() {
    assert_eq!(missed(|rule| !ELSEWHERE.contains(&rule)), Vec::<String>::new());
}

#[test]
fn every_cycle_of_a_short_history_is_survived() {
    let found = exhaust(case("bppm", None), bounds(1, 1), &Session::new(), |_| ()).unwrap();
    assert!(found.violation.is_none(), "{}", found.violation.unwrap().what);
    assert_eq!(found.counts.cut_short, 0);
    assert!(found.counts.points > 100, "{:?}", found.counts);
}

/// Besides the histories that all subjects have, longer ones of plain programs, on more structures.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn plain_programs_survive_beside_all_hardware_of_their_papers() {
    let plain: Vec<_> = subjects(Registry::default())
        .into_iter()
        .filter(|subject| subject.software.plain.is_some())
        .collect();
    let names: Vec<_> = plain.iter().map(Subject::name).collect();
    for name in [
        "h-wal/plain",
        "loc-wal/plain",
        "kiln/plain",
        "loc-kiln/plain",
        "atom-base/plain-flushed",
        "atom/plain-flushed",
        "atom-opt/plain-flushed",
        "atom-redo/plain",
        "wrap/plain",
        "undo-log/plain",
    ] {
        assert!(names.iter().any(|other| other == name), "{name} is not among {names:?}");
    }
    let (mut losses, mut judged) = (Vec::new(), BTreeSet::new());
    for subject in plain {
        for (workload, threads) in [(Workload::RbTree, 1), (Workload::KvStore, 3), (Workload::BPlusTree, 2)] {
            let case = Case { subject, workload, threads, omitted: None };
            match sample(case, bounds(1, 20), &Session::new(), |_| ()) {
                Ok(found) => {
                    judged.insert(subject.name());
                    losses.extend(
                        found.violation.map(|violation| format!("{}: {}", subject.name(), violation.what)),
                    );
                }
                Err(strandline_core::Error::Unsupported(_)) => {}
                Err(error) => panic!("{}: {error}", subject.name()),
            }
        }
    }
    // Each program that some machine cannot run did run on others.
    assert_eq!(judged, names.into_iter().collect());
    assert_eq!(losses, Vec::<String>::new());
}

/// A program that does not write back its stores loses them under hardware that relies on that.
#[test]
fn a_plain_program_must_flush_under_atom() {
    let mut subject = subject("atom/plain-flushed");
    subject.software.plain.as_mut().unwrap().flushes = false;
    let case = Case { subject, workload: Workload::Hash, threads: 2, omitted: None };
    let found = sample(case, bounds(50, 12), &Session::new(), |_| ()).unwrap();
    assert!(found.violation.is_some(), "{:?}", found.counts);
}

/// Only the hardware makes a plain program's critical sections atomic.
#[test]
fn a_plain_program_without_its_hardware_is_torn() {
    let hardware = strandline_sim::scheme::find("none").unwrap();
    let subject = Subject { hardware, ..subject("atom/plain-flushed") };
    let case = Case { subject, workload: Workload::Hash, threads: 2, omitted: None };
    let found = sample(case, bounds(50, 12), &Session::new(), |_| ()).unwrap();
    assert!(found.violation.is_some(), "{:?}", found.counts);
}
