//! The explorer against two others on random programs: the operational machine, which is another formulation
//! of the rules, and the view model without reductions, which shows that the reductions lose nothing.
//!
//! Random programs reach some rules rarely: leaving out a load's effect on `vpr`, an mfence's on `vrn` or an
//! sfence's on `vpr` went unnoticed here in thousands of programs. The files in `shipped.rs` are there for these.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::programs::{Shape, random};
use super::{Limits, Setting, Test, naive, operational};

fn crash_states(test: &Test, setting: Setting) -> BTreeSet<Vec<u64>> {
    let found = test.explore(Limits::default()).unwrap();
    found.states(setting).into_iter().map(<[u64]>::to_vec).collect()
}

fn compare(
    shape: Shape,
    programs: u64,
    settings: &[Setting],
    other: fn(&Test, Setting) -> BTreeSet<Vec<u64>>,
) {
    for seed in 0..programs {
        let test = random(&mut Rng::with_seed(seed), shape);
        for &setting in settings {
            let (ours, theirs) = (crash_states(&test, setting), other(&test, setting));
            assert!(
                ours == theirs,
                "seed {seed}, {setting}: only here {:?}, only there {:?}\n{test:#?}",
                ours.difference(&theirs).collect::<Vec<_>>(),
                theirs.difference(&ours).collect::<Vec<_>>(),
            );
        }
    }
}

const TWO_LINES: Shape = Shape { threads: 2, locations: 3, lines: 2, operations: 4 };
const THREE_LINES: Shape = Shape { threads: 2, locations: 3, lines: 3, operations: 4 };
const ONE_LINE: Shape = Shape { threads: 2, locations: 2, lines: 1, operations: 4 };
const THREE_THREADS: Shape = Shape { threads: 3, locations: 2, lines: 2, operations: 2 };

#[test]
fn operational_machine_on_two_lines() {
    compare(TWO_LINES, 600, &Setting::ALL, operational::explore);
}

#[test]
fn operational_machine_on_three_lines() {
    compare(THREE_LINES, 1500, &[Setting::Line, Setting::FlushOnFail], operational::explore);
}

#[test]
fn operational_machine_on_one_line() {
    compare(ONE_LINE, 400, &Setting::ALL, operational::explore);
}

#[test]
fn operational_machine_with_three_threads() {
    compare(THREE_THREADS, 60, &Setting::ALL, operational::explore);
}

#[test]
fn no_reduction_loses_a_state() {
    compare(TWO_LINES, 800, &Setting::ALL, naive::explore);
    compare(ONE_LINE, 600, &Setting::ALL, naive::explore);
    compare(THREE_THREADS, 400, &Setting::ALL, naive::explore);
}
