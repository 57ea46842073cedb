//! Compares the explorer with two others on random programs: the operational machine, another formulation of the rules; and the view model without
//! reductions, which shows that the reductions lose nothing.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::programs::{Shape, random};
use super::{Limits, Setting, Test, naive, operational};

type States = BTreeSet<Vec<u64>>;

/// Returns the crash states of a test under each of the settings.
pub fn crash_states(test: &Test, settings: &[Setting]) -> Vec<States> {
    let found = test.explore(Limits::default()).unwrap();
    let states = |&setting| found.states(setting).into_iter().map(<[u64]>::to_vec).collect();
    settings.iter().map(states).collect()
}

/// The shapes of the programs compared with the operational machine, and how many there are of each.
pub const PROGRAMS: [(Shape, u64); 4] = [
    (Shape { threads: 2, locations: 2, lines: 2, operations: 4 }, 1000),
    (Shape { threads: 2, locations: 3, lines: 3, operations: 4 }, 1000),
    (Shape { threads: 2, locations: 2, lines: 1, operations: 4 }, 300),
    (Shape { threads: 3, locations: 2, lines: 2, operations: 2 }, 100),
];

fn compare(programs: &[(Shape, u64)], other: impl Fn(&Test) -> Vec<States>) {
    for &(shape, count) in programs {
        for seed in 0..count {
            let test = random(&mut Rng::with_seed(seed), shape);
            let (ours, theirs) = (crash_states(&test, &Setting::ALL), other(&test));
            for (setting, (ours, theirs)) in Setting::ALL.into_iter().zip(std::iter::zip(&ours, &theirs)) {
                assert!(
                    ours == theirs,
                    "seed {seed}, {setting}: only here {:?}, only there {:?}\n{test:#?}",
                    ours.difference(theirs).collect::<Vec<_>>(),
                    theirs.difference(ours).collect::<Vec<_>>(),
                );
            }
        }
    }
}

/// Returns the crash states of the operational machine, and checks that its runs end as those of the view model do.
fn operational_machine(test: &Test) -> Vec<States> {
    let found = Setting::ALL.map(|setting| operational::explore(test, setting));
    let ends = test.ends(Limits::default()).unwrap();
    assert!(
        found[0].1 == ends,
        "only there {:?}, only here {:?}\n{test:#?}",
        found[0].1.difference(&ends).collect::<Vec<_>>(),
        ends.difference(&found[0].1).collect::<Vec<_>>(),
    );
    found.map(|(states, _)| states).into()
}

/// Returns a third of the programs of a shape.
fn third(shape: usize) -> [(Shape, u64); 1] {
    let (shape, count) = PROGRAMS[shape];
    [(shape, count / 3)]
}

#[test]
fn two_lines() {
    compare(&third(0), operational_machine);
}

#[test]
fn three_lines() {
    compare(&third(1), operational_machine);
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn all_programs_of_two_and_three_lines() {
    compare(&PROGRAMS[..2], operational_machine);
}

#[test]
fn one_line() {
    compare(&PROGRAMS[2..3], operational_machine);
}

#[test]
fn three_threads() {
    compare(&PROGRAMS[3..], operational_machine);
}

/// Tests only a quarter of the programs: a lost state also shows in the comparison with the operational machine.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn no_reduction_loses_a_state() {
    let programs = PROGRAMS.map(|(shape, count)| (shape, count / 4));
    compare(&programs, |test| naive::explore(test, &Setting::ALL, |state, thread| state.steps(test, thread)));
}
