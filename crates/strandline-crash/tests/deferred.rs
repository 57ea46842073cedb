//! SCT and DCT under eager sync, natively: no crash breaks them, and each step left out is noticed.

use std::time::Duration;

use strandline_crash::Setting;
use strandline_crash::explore::{Bounds, Case, CheckedScheme, SCHEMES, Sampling, Workload, exhaust, sample};

fn schemes() -> impl Iterator<Item = CheckedScheme> {
    SCHEMES.into_iter().filter(|scheme| scheme.name.ends_with("-eager-sync"))
}

fn milliseconds(name: &str, default: u64) -> Duration {
    Duration::from_millis(std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default))
}

#[test]
fn no_sampled_crash_breaks_it() {
    assert_eq!(schemes().count(), 2);
    for scheme in schemes() {
        for workload in Workload::ALL {
            for setting in Setting::ALL {
                for threads in 1..=3 {
                    let case = Case { scheme, workload, threads, setting, omitted: None };
                    let limit = milliseconds("SAMPLE_MS", 250);
                    let sampling = Sampling { histories: u64::MAX, seed: 1, transactions: 20, limit };
                    let outcome = sample(case, sampling, |_| ()).unwrap();
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
        }
    }
}

/// Two threads of one transaction each, and every crash in recovery.
#[test]
fn no_crash_of_a_small_history_breaks_it() {
    for scheme in schemes() {
        for setting in Setting::ALL {
            let case = Case { scheme, workload: Workload::Sps, threads: 2, setting, omitted: None };
            let limit = Duration::from_secs(100);
            let bounds = Bounds {
                preemptions: 1,
                transactions: 1,
                states: 1 << 20,
                recovery_crashes: 1,
                reduced: true,
                limit,
            };
            let outcome = exhaust(case, bounds, |_| ()).unwrap();
            assert!(outcome.violation.is_none(), "{} {setting}: {:#?}", scheme.name, outcome.violation);
            println!("{} {setting}: {:?}, {:.1} s", scheme.name, outcome.counts, outcome.seconds);
            assert!(outcome.counts.states > 100 && outcome.counts.cut_short == 0, "{:?}", outcome.counts);
        }
    }
}

#[test]
fn missing_steps_are_found() {
    let mut unnoticed = Vec::new();
    for scheme in schemes() {
        for &step in
            scheme.steps.iter().filter(|step| scheme.redundant.iter().all(|(other, _)| other != *step))
        {
            let setting = Setting::Word;
            let case = Case { scheme, workload: Workload::Sps, threads: 3, setting, omitted: Some(step) };
            let limit = milliseconds("MUTANT_MS", 20_000);
            let sampling = Sampling { histories: u64::MAX, seed: 1, transactions: 24, limit };
            let outcome = sample(case, sampling, |_| ()).unwrap();
            println!("{} {step:?}: {:.1} s, {}", scheme.name, outcome.seconds, outcome.violation.is_some());
            if outcome.violation.is_none() {
                unnoticed.push((scheme.name, step));
            }
        }
    }
    assert!(unnoticed.is_empty(), "these can be left out unnoticed: {unnoticed:?}");
}
