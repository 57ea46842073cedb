//! Bounded runs of the device world. `strandline-lab check --world device` is the long run.

use strandline_check::Session;
use strandline_core::Concurrency;
use strandline_core::memory::Step;
use strandline_scheme_check::device::{
    Bounds, Case, Counts, Outcome, SCHEMES, Sampling, Size, exhaust, sample,
};
use strandline_scheme_check::explore::Workload;

use super::HANG;

fn case(concurrency: Concurrency) -> Case {
    Case { concurrency, workload: None, omitted: None }
}

fn sampling(histories: u64) -> Sampling {
    Sampling { histories, seed: 0, size: Size::default(), limit: HANG }
}

#[track_caller]
fn none_violated(outcome: &Outcome) {
    println!("{:?}, {:.0} states/s", outcome.counts, outcome.states_per_second());
    if let Some(violation) = &outcome.violation {
        panic!("seed {}: {violation:#?}", outcome.seed);
    }
}

#[test]
fn recovery_finds_a_prefix_with_all_that_was_acknowledged() {
    for (_, concurrency) in SCHEMES {
        let outcome = sample(&case(concurrency), sampling(60), &Session::new(), |_| ());
        none_violated(&outcome);
        let Counts {
            lives,
            power_failures,
            kills,
            failed_recoveries,
            checkpoints,
            enlarged,
            grown,
            failed_growths,
            ..
        } = outcome.counts;
        let seldom = [failed_recoveries * 2, checkpoints * 5, enlarged * 20, grown * 10, failed_growths * 40];
        for often in [power_failures, kills].into_iter().chain(seldom) {
            assert!(often * 5 > lives, "{:?}", outcome.counts);
        }
    }
}

#[test]
fn typed_collections_survive() {
    let case = Case { workload: Some(Workload::Typed), ..case(Concurrency::Stm) };
    none_violated(&sample(&case, sampling(20), &Session::new(), |_| ()));
}

/// Transactions write values of several pages past the log, under each control.
#[test]
fn extents_survive() {
    for (_, concurrency) in SCHEMES {
        let case = Case { workload: Some(Workload::Extents), ..case(concurrency) };
        none_violated(&sample(&case, sampling(20), &Session::new(), |_| ()));
    }
}

#[test]
fn small_histories_exhaustively() {
    for (_, concurrency) in SCHEMES {
        let bounds =
            Bounds { schedules: 4, seed: 0, transactions: 1, failures: 2, states: 1 << 20, limit: HANG };
        let outcome = exhaust(&case(concurrency), bounds, &Session::new(), |_| ());
        none_violated(&outcome);
        assert_eq!(outcome.counts.cut_short, 0);
    }
}

/// Returns the first seed to try without `step`. It is 0, except where only one history in dozens shows the loss; there it is the seed of the first
/// such history. If another history becomes the first, the search only takes longer.
const fn first_seed(step: Step) -> u64 {
    match step {
        Step::FreeDurable => 535,
        Step::FreePunchFlush => 11491,
        Step::PastLogDurable => 1401,
        Step::PastLogVacated => 1401,
        Step::SyncForgetChecksums => 50,
        Step::SyncGrowthFlush => 419,
        Step::SyncJournal => 39,
        Step::SyncJournalFlush => 895,
        Step::SyncLogEndAfterCopy => 190,
        Step::SyncMarkBeforePages => 56,
        Step::SyncReadWait => 441,
        Step::SyncRecoveryBlocks => 1941,
        Step::SyncRecoveryHeapFlush => 1369,
        Step::SyncRecoveryNumbers => 11548,
        Step::SyncRingPlaces => 948,
        Step::SyncRoom => 49,
        _ => 0,
    }
}

/// Something is lost without `step`, and the seed that shows it loses nothing with the step.
fn an_omitted_step_is_found(step: Step) {
    let workload = format!("{step:?}").starts_with("PastLog").then_some(Workload::Extents);
    let case = Case { omitted: Some(step), workload, ..case(Concurrency::Stm) };
    let outcome =
        sample(&case, Sampling { seed: first_seed(step), ..sampling(u64::MAX) }, &Session::new(), |_| ());
    let violation = outcome.violation.unwrap_or_else(|| panic!("the mutant without {step:?} survived"));
    println!("{step:?}, seed {}: {} ({} lives)", outcome.seed, violation.what, outcome.counts.lives);
    assert!(!violation.history.is_empty());
    // The loss comes from the omission, not from the seed.
    let again = Sampling { histories: 1, seed: outcome.seed, ..sampling(1) };
    none_violated(&sample(&Case { omitted: None, ..case }, again, &Session::new(), |_| ()));
}

#[test]
fn every_omitted_step_is_found() {
    // Two at a time: some take long, and these are the last tests that run.
    let steps = std::sync::Mutex::new(Step::SYNC.into_iter());
    let next = || steps.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(step) = next() {
                    an_omitted_step_is_found(step);
                }
            });
        }
    });
}
