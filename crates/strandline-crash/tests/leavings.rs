//! scratch
use std::time::Duration;
use strandline_crash::Setting;
use strandline_crash::explore::{Case, SCHEMES, Sampling, Workload, sample};
#[test]
fn measure() {
    let get = |name: &str, default: &str| std::env::var(name).unwrap_or(default.into());
    let scheme = get("SCHEME", "dct-eager-sync");
    let scheme = SCHEMES.into_iter().find(|it| it.name == scheme).unwrap();
    let omitted = match get("OMIT", "") {
        name if name.is_empty() => None,
        name => Some(*scheme.steps.iter().find(|s| format!("{s:?}") == name).unwrap()),
    };
    let case = Case {
        scheme,
        workload: Workload::Sps,
        threads: get("THREADS", "2").parse().unwrap(),
        setting: Setting::Word,
        omitted,
    };
    for seed in get("SEED", "1029").split(',') {
        let sampling = Sampling {
            histories: get("HISTORIES", "1").parse().unwrap(),
            seed: seed.parse().unwrap(),
            transactions: 24,
            limit: Duration::from_secs(get("LIMIT", "60").parse().unwrap()),
        };
        let out = sample(case, sampling, |_| ()).unwrap();
        println!(
            "{} {:?} from {seed}: found {} at {} {:.1} cpu s {:?}",
            scheme.name,
            case.omitted,
            out.violation.is_some(),
            out.seed,
            out.cpu_seconds,
            out.counts
        );
        if std::env::var("SHOW").is_ok() {
            println!("{:#?}", out.violation);
        }
    }
}
