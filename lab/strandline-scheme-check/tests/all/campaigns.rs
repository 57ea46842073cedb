//! Sampled campaigns over some of the schemes. `STRANDLINE_CASES` sets how many histories each combination of scheme, workload, setting and number of
//! threads gets. Without it, each scheme runs on each workload in one setting with one number of threads, which together are all.

use super::HANG;
use strandline_check::{Session, Setting};
use strandline_core::memory::Step;
use strandline_scheme_check::explore::{Case, CheckedScheme, Sampling, Workload, sample};

/// Returns the schemes whose names fit.
pub fn schemes(fits: impl Fn(&str) -> bool) -> Vec<CheckedScheme> {
    let schemes: Vec<_> =
        strandline_scheme_check::explore::schemes().into_iter().filter(|scheme| fits(scheme.name)).collect();
    assert!(!schemes.is_empty());
    schemes
}

/// Asserts that no sampled crash breaks the schemes, with all workloads and these settings.
pub fn none_is_broken(schemes: &[CheckedScheme], settings: &[Setting], histories: u64) {
    let cases = std::env::var("STRANDLINE_CASES").ok().and_then(|cases| cases.parse().ok());
    let histories = cases.unwrap_or(histories);
    let check = |scheme: CheckedScheme, workload: Workload, number: usize| {
        for (at, &setting) in settings.iter().enumerate() {
            for threads in 1..=3 {
                // Each scheme runs on each of the nine workloads, and in each setting with each number of threads.
                if cases.is_none() && !(number + 3 * at + threads).is_multiple_of(9) {
                    continue;
                }
                let case = Case { scheme, workload, threads, setting, omitted: None };
                let sampling = Sampling { histories, seed: 1, transactions: 12, limit: HANG };
                let outcome = sample(case, sampling, &Session::new(), |_| ()).unwrap();
                if let Some(violation) = outcome.violation {
                    panic!(
                        "{} {} {setting} {threads} threads, seed {}: {violation:#?}",
                        scheme.name,
                        workload.name(),
                        outcome.seed
                    );
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for (number, workload) in Workload::ALL.into_iter().enumerate() {
            scope.spawn(move || schemes.iter().for_each(|&scheme| check(scheme, workload, number)));
        }
    });
}

/// Asserts that every omitted step is found, except for `slow` ones and redundant ones.
pub fn missing_steps_are_found(schemes: &[CheckedScheme], threads: usize, slow: &[Step]) {
    let mut unnoticed = Vec::new();
    for &scheme in schemes {
        let redundant = |step: &Step| scheme.redundant.iter().any(|(other, _)| other == step);
        for step in scheme.steps().filter(|step| !redundant(step) && !slow.contains(step)) {
            let setting = Setting::Word;
            let case = Case { scheme, workload: Workload::Sps, threads, setting, omitted: Some(step) };
            let sampling = Sampling { histories: u64::MAX, seed: 1, transactions: 24, limit: HANG };
            let outcome = sample(case, sampling, &Session::new(), |_| ()).unwrap();
            println!("{} {step:?}: {:?}, {}", scheme.name, outcome.counts, outcome.violation.is_some());
            if outcome.violation.is_none() {
                unnoticed.push((scheme.name, step));
            }
        }
    }
    assert!(unnoticed.is_empty(), "these can be left out unnoticed: {unnoticed:?}");
}
