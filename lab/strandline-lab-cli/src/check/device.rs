//! The device world: the `Sync` domain's schemes on a device that fails.

use std::time::{Duration, Instant};
use strandline_command::say;

use serde_json::json;
use strandline_core::memory::Step;
use strandline_scheme_check::device::{
    Bounds, Case, Counts, Outcome as Explored, SCHEMES, Sampling, Size, exhaust, sample,
};
use strandline_scheme_check::explore::Workload;
use strandline_sim::Registry;

use super::Finished;
use super::rows::Rows;
use super::schemes::{Arguments, progress_bar, wide};
use strandline_command::{Failure, Outcome};

/// One line of the summary.
struct Row {
    scheme: &'static str,
    case: Case,
    explored: Explored,
}

/// Checks the schemes on a disk that fails.
///
/// # Errors
/// A flag names what there is not here.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Finished, Failure> {
    let cases = cases(arguments, registry)?;
    // Panics of mutants are caught and reported as what they are.
    std::panic::set_hook(Box::new(|_| ()));
    let bar = progress_bar();
    let mut rows = Vec::new();
    let names: Vec<_> = cases.iter().map(|(name, _)| (*name).to_owned()).collect();
    let workloads: Vec<_> = cases.iter().map(|(_, case)| workload(case).to_owned()).collect();
    let without: Vec<_> = cases.iter().map(|(_, case)| without(case)).collect();
    let columns = [
        ("scheme", &names[..]),
        ("workload", &workloads),
        ("without", &without),
        ("pools", &[]),
        ("lives", &wide()),
        ("power failures", &[]),
        ("kills", &wide()),
        ("failed recoveries", &[]),
        ("states", &wide()),
        ("cut short", &[]),
        ("lives/s", &[]),
        ("states/s", &[]),
        ("verdict", &["NOT FOUND".into()]),
        ("what is wrong", &[]),
    ];
    let mut table = Rows::new(&columns, arguments.json, &bar);
    for (scheme, case) in cases {
        if arguments.session.is_stopped() {
            break;
        }
        let started = Instant::now();
        let progress = |counts: &Counts| {
            bar.set_message(progress_message(scheme, &case, counts, started.elapsed()));
            bar.tick();
        };
        let mut explored = explore(arguments, &case, progress);
        if explored.violation.is_some() && !arguments.exhaustive && !arguments.mutants {
            bar.set_message("making the violation smaller");
            explored = smaller(arguments, &case, explored);
        }
        let row = Row { scheme, case, explored };
        table.add(&cells(arguments, &row), &told(arguments, &row));
        rows.push(row);
    }
    bar.finish_and_clear();
    let _ = std::panic::take_hook();
    Ok(finished(arguments, &rows))
}

fn progress_message(scheme: &str, case: &Case, counts: &Counts, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let without = case.omitted.map_or(String::new(), |step| format!(" without {step:?}"));
    format!(
        "{scheme}{without} on the device: {} pools, {} lives, {} states, {:.0} states/s",
        counts.histories,
        counts.lives,
        counts.states,
        counts.states as f64 / seconds
    )
}

/// Sums the rows up: a violation is found where none should be, or a mutant is not.
fn finished(arguments: &Arguments, rows: &[Row]) -> Finished {
    let wrong = |row: &Row| row.explored.violation.is_some() != arguments.mutants;
    let outcome = if rows.iter().any(wrong) { Outcome::Finding } else { Outcome::Success };
    if !arguments.json {
        sum_up(arguments, rows);
    }
    Finished { outcome, rows: rows.iter().map(|row| json_row(arguments, row)).collect() }
}

fn cases(arguments: &Arguments, registry: Registry) -> Result<Vec<(&'static str, Case)>, Failure> {
    let names = || SCHEMES.map(|(name, _)| name).join(", ");
    if let Some(other) = arguments.scheme.iter().find(|name| SCHEMES.iter().all(|(known, _)| known != name)) {
        return Err(Failure::Usage(format!(
            "the Sync domain does not carry the scheme {other:?}; in the device world choose from {}",
            names()
        )));
    }
    if let Some(setting) = arguments.setting.first() {
        return Err(Failure::Usage(format!(
            "--setting {setting} is about cache lines; the device world has none: leave it out"
        )));
    }
    let omitted = match &arguments.omit {
        None => None,
        Some(name) => {
            let found = Step::SYNC.into_iter().find(|step| format!("{step:?}") == *name);
            let names = || Step::SYNC.map(|step| format!("{step:?}")).join(", ");
            Some(found.ok_or_else(|| {
                Failure::Usage(format!("the device world has no step {name}; choose from {}", names()))
            })?)
        }
    };
    let omitted = if arguments.mutants { Step::SYNC.map(Some).to_vec() } else { vec![omitted] };
    let workloads = arguments.workloads(registry)?;
    let workloads: Vec<Option<Workload>> = match workloads[..] {
        [] => vec![None],
        _ => workloads.into_iter().map(Some).collect(),
    };
    let wanted =
        |name: &str| arguments.scheme.is_empty() || arguments.scheme.iter().any(|other| other == name);
    let mut cases = Vec::new();
    for (scheme, concurrency) in SCHEMES.into_iter().filter(|(name, _)| wanted(name)) {
        for &workload in &workloads {
            cases.extend(omitted.iter().map(|&omitted| (scheme, Case { concurrency, workload, omitted })));
        }
    }
    Ok(cases)
}

fn explore(arguments: &Arguments, case: &Case, progress: impl FnMut(&Counts)) -> Explored {
    let limit = Duration::from_secs(arguments.seconds);
    if arguments.exhaustive {
        let bounds = Bounds {
            schedules: arguments.samples(),
            seed: arguments.seed,
            transactions: arguments.transactions.unwrap_or(2),
            failures: 2,
            states: arguments.states,
            limit,
        };
        return exhaust(case, bounds, &arguments.session, progress);
    }
    let size = size(arguments);
    let histories = if arguments.mutants { u64::MAX } else { arguments.samples() };
    let sampling = Sampling { histories, seed: arguments.seed, size, limit };
    sample(case, sampling, &arguments.session, progress)
}

/// Shorter lives of a pool where fewer transactions are asked for, one life where one is.
fn size(arguments: &Arguments) -> Size {
    let usual = Size::default();
    match arguments.transactions {
        None => usual,
        Some(transactions) => Size { transactions, lives: usual.lives.min(2 * transactions) },
    }
}

/// Looks for a violation in smaller histories for some seconds.
fn smaller(arguments: &Arguments, case: &Case, found: Explored) -> Explored {
    for transactions in [1, 2, 3, 5] {
        let size = Size { transactions, lives: 2 * transactions };
        if size.transactions >= found.size.transactions {
            break;
        }
        let limit = Duration::from_secs(3);
        let sampling = Sampling { histories: u64::MAX, seed: found.seed, size, limit };
        let tried = sample(case, sampling, &arguments.session, |_| ());
        if tried.violation.is_some() {
            return Explored { counts: found.counts, seconds: found.seconds, ..tried };
        }
    }
    found
}

fn workload(case: &Case) -> &'static str {
    case.workload.map_or("all", Workload::name)
}

fn replay(arguments: &Arguments, row: &Row) -> String {
    let mut command = format!("strandline-lab check --world device --scheme {}", row.scheme);
    if let Some(workload) = row.case.workload {
        command += &format!(" --workload {}", workload.name());
    }
    if let Some(step) = row.case.omitted {
        command += &format!(" --omit {step:?}");
    }
    if arguments.exhaustive {
        command += " --exhaustive";
    }
    if arguments.exhaustive || row.explored.size != Size::default() {
        command += &format!(" --transactions {}", row.explored.size.transactions);
    }
    command + &format!(" --seed {} --samples 1", row.explored.seed)
}

fn without(case: &Case) -> String {
    case.omitted.map_or(String::new(), |step| format!("{step:?}"))
}

/// A violation, as it stands below its row. Of a mutant the row says what is wrong.
fn told(arguments: &Arguments, row: &Row) -> Vec<String> {
    let Some(violation) = row.explored.violation.as_ref().filter(|_| !arguments.mutants) else {
        return Vec::new();
    };
    let history = violation.history.iter().map(|line| format!("  {line}"));
    let mut lines = vec![format!("VIOLATION: {}", violation.what), "\nhistory:".into()];
    lines.extend(history);
    lines.push(format!("\nreplay: {}\n", replay(arguments, row)));
    lines
}

fn cells(arguments: &Arguments, row: &Row) -> [String; 14] {
    let Row { scheme, case, explored } = row;
    let counts = &explored.counts;
    let verdict = match (explored.violation.is_some(), arguments.mutants) {
        (true, true) => "found",
        (false, true) => "NOT FOUND",
        (true, false) => "VIOLATED",
        (false, false) => "ok",
    };
    let what = explored.violation.as_ref().map_or("", |violation| violation.what.as_str());
    [
        (*scheme).to_owned(),
        workload(case).to_owned(),
        without(case),
        counts.histories.to_string(),
        counts.lives.to_string(),
        counts.power_failures.to_string(),
        counts.kills.to_string(),
        counts.failed_recoveries.to_string(),
        counts.states.to_string(),
        counts.cut_short.to_string(),
        format!("{:.0}", counts.lives as f64 / explored.seconds.max(1e-9)),
        format!("{:.0}", explored.states_per_second()),
        verdict.to_owned(),
        what.chars().take(70).collect(),
    ]
}

fn sum_up(arguments: &Arguments, rows: &[Row]) {
    let states: u64 = rows.iter().map(|row| row.explored.counts.states).sum();
    let seconds: f64 = rows.iter().map(|row| row.explored.seconds).sum();
    say!("\n{states} states judged on the device in {seconds:.1} s; seed {}", arguments.seed);
}

fn json_row(arguments: &Arguments, row: &Row) -> serde_json::Value {
    let Row { scheme, case, explored } = row;
    json!({
        "world": "device",
        "scheme": scheme,
        "workload": workload(case),
        "omitted": case.omitted.map(|step| format!("{step:?}")),
        "counts": explored.counts,
        "seconds": explored.seconds,
        "lives_per_s": explored.counts.lives as f64 / explored.seconds.max(1e-9),
        "states_per_s": explored.states_per_second(),
        "violation": explored.violation,
        "replay": explored.violation.is_some().then(|| replay(arguments, row)),
    })
}
