//! Measures the crash states judged per second of processor time, for sps under BPPM: `cargo bench -p strandline-scheme-check`. `-- "word, sampled"`
//! runs one of the four measurements. Fails below 100,000.

use std::time::Duration;

use strandline_check::{Session, Setting};
use strandline_scheme_check::explore::{Bounds, Case, Outcome, Sampling, Workload, exhaust, sample, schemes};

fn main() -> Result<(), String> {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let wants = |setting: Setting, way: &str| format!("{setting}, {way}").contains(&wanted);
    let mut slow = Vec::new();
    let mut tell = |case: &Case, way: &str, outcome: &Outcome| {
        let rate = outcome.states_per_second();
        let what = format!("sps, bppm, {}, {way}", case.setting);
        println!("{what}: {} states, {rate:.0} states/s", outcome.counts.states);
        if rate < 100_000.0 {
            slow.push(what);
        }
    };
    let scheme =
        schemes().into_iter().find(|scheme| scheme.name == "bppm").ok_or("bppm is not registered")?;
    let limit = Duration::from_secs(60);
    for (setting, transactions) in [(Setting::Line, 2), (Setting::Word, 1)] {
        let case = Case { scheme, workload: Workload::Sps, threads: 2, setting, omitted: None };
        let bounds = Bounds {
            preemptions: 1,
            transactions,
            states: 1 << 20,
            recovery_crashes: 1,
            reduced: true,
            limit,
        };
        if wants(setting, "exhaustive") {
            let outcome =
                exhaust(case, bounds, &Session::new(), |_| ()).map_err(|error| error.to_string())?;
            tell(&case, "exhaustive", &outcome);
        }
        let sampling = Sampling { histories: 500, seed: 1, transactions: 24, limit };
        if wants(setting, "sampled") {
            let outcome =
                sample(case, sampling, &Session::new(), |_| ()).map_err(|error| error.to_string())?;
            tell(&case, "sampled", &outcome);
        }
    }
    if slow.is_empty() { Ok(()) } else { Err(format!("below 100,000 states/s: {}", slow.join("; "))) }
}
