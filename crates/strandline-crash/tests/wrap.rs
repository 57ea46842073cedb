//! WrAP in software and the undo log it is compared with: no crash breaks them, and each step left out is noticed.

use std::time::Duration;

use strandline::memory::Step;
use strandline_crash::Setting;
use strandline_crash::explore::{Case, CheckedScheme, SCHEMES, Sampling, Workload, sample};

fn schemes() -> impl Iterator<Item = CheckedScheme> {
    SCHEMES
        .into_iter()
        .filter(|scheme| scheme.name.starts_with("wrap") || scheme.name.starts_with("undo-log"))
}

fn milliseconds(name: &str, default: u64) -> Duration {
    Duration::from_millis(std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default))
}

#[test]
fn no_sampled_crash_breaks_them() {
    for scheme in schemes() {
        for workload in Workload::ALL {
            for setting in Setting::ALL {
                for threads in 1..=3 {
                    let case = Case { scheme, workload, threads, setting, omitted: None };
                    let limit = milliseconds("SAMPLE_MS", 60);
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

/// Steps whose omission shows at once; the others take longer (`strandline check --mutants`).
#[test]
fn missing_steps_are_found() {
    let slow =
        [Step::WatermarkFence, Step::WatermarkFenceLate, Step::RecoveryWatermarkLow, Step::RecoveryZeroFence];
    let mut unnoticed = Vec::new();
    for scheme in schemes() {
        for &step in scheme
            .steps
            .iter()
            .filter(|step| scheme.redundant.iter().all(|(other, _)| other != *step) && !slow.contains(step))
        {
            let setting = Setting::Word;
            let case = Case { scheme, workload: Workload::Sps, threads: 2, setting, omitted: Some(step) };
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
