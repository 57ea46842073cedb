//! SCT and DCT under eager sync, natively: no crash breaks them, and each omitted step is found.

use super::{HANG, campaigns};
use strandline_check::{Session, Setting};
use strandline_core::memory::Step;
use strandline_scheme_check::explore::{Bounds, Case, CheckedScheme, Workload, exhaust};

/// SCT and DCT under eager sync.
pub fn schemes() -> Vec<CheckedScheme> {
    campaigns::schemes(|name| name.ends_with("-eager-sync"))
}

#[test]
fn no_sampled_crash_breaks_it() {
    assert_eq!(schemes().len(), 2);
    campaigns::none_is_broken(&schemes(), &Setting::ALL, 12);
}

/// Two threads run one transaction each; every crash is tried, also in recovery.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn no_crash_of_a_small_history_breaks_it() {
    for scheme in schemes() {
        for setting in Setting::ALL {
            let case = Case { scheme, workload: Workload::Sps, threads: 2, setting, omitted: None };
            let bounds = Bounds {
                preemptions: 1,
                transactions: 1,
                states: 1 << 20,
                recovery_crashes: 1,
                reduced: true,
                limit: HANG,
            };
            let outcome = exhaust(case, bounds, &Session::new(), |_| ()).unwrap();
            assert!(outcome.violation.is_none(), "{} {setting}: {:#?}", scheme.name, outcome.violation);
            println!("{} {setting}: {:?}", scheme.name, outcome.counts);
            assert!(outcome.counts.states > 100 && outcome.counts.cut_short == 0, "{:?}", outcome.counts);
        }
    }
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn missing_steps_are_found() {
    // These take up to a minute (`a_life_that_begins_before_the_logs_are_durably_zeroed` in `stale_records.rs`).
    let slow = [Step::RecoveryZeroWriteBack, Step::RecoveryZeroFence];
    campaigns::missing_steps_are_found(&schemes(), 3, &slow);
}
