//! The device world: the `Sync` domain's schemes on a device that fails.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use strandline_core::memory::Step;
use strandline_scheme_check::device::{
    Bounds, Case, Counts, Outcome as Explored, SCHEMES, Sampling, Size, exhaust, sample,
};
use strandline_scheme_check::explore::Workload;
use strandline_sim::Registry;

use super::campaign::{
    Asked, Column, Expected, Table, Unit, count, indented, is_violated, number, parts, text,
};
use super::schemes::{self, Arguments, WIDE};
use strandline_command::Failure;

/// The result of a case.
struct Row {
    scheme: &'static str,
    case: Case,
    explored: Explored,
}

/// Returns the units to explore: each case, or each mutant of it.
///
/// # Errors
/// Returns an error if a flag names something that this world does not have.
pub fn units<'a>(arguments: &'a Arguments, registry: Registry) -> Result<Vec<Unit<'a>>, Failure> {
    let mut units = Vec::new();
    for (row, (scheme, case)) in cases(arguments, registry)?.into_iter().enumerate() {
        // A mutant may take as many histories as its time permits. Schedules are explored together.
        let parts = match (arguments.mutants, arguments.exhaustive) {
            (false, false) => parts(arguments.seed, arguments.samples()),
            (true, false) => vec![(arguments.seed, u64::MAX)],
            (_, true) => vec![(arguments.seed, arguments.samples())],
        };
        let limit = Duration::from_secs(arguments.seconds);
        let all = arguments.samples() as f64;
        let several = parts.len() > 1;
        units.extend(parts.into_iter().map(|(seed, histories)| {
            let limit = if several { limit.mul_f64(histories as f64 / all) } else { limit };
            unit(arguments, row, (scheme, case), Part { seed, histories, limit })
        }));
    }
    Ok(units)
}

/// Some of a case's histories, or of its schedules.
#[derive(Clone, Copy)]
struct Part {
    seed: u64,
    histories: u64,
    limit: Duration,
}

fn unit<'a>(
    arguments: &'a Arguments,
    row: usize,
    (scheme, case): (&'static str, Case),
    part: Part,
) -> Unit<'a> {
    let key = json!({
        "world": "device",
        "scheme": scheme,
        "workload": workload(&case),
        "omitted": case.omitted.map(|step| format!("{step:?}")),
        "exhaustive": arguments.exhaustive.then(|| json!({ "states": arguments.states })),
        "transactions": arguments.transactions,
        "seed": part.seed,
        "histories": part.histories,
        "seconds": part.limit.as_secs_f64(),
    });
    let explore = move |bar: &ProgressBar| {
        let started = Instant::now();
        let progress = |counts: &Counts| {
            bar.set_message(progress_message(scheme, &case, counts, started.elapsed()));
            bar.tick();
        };
        let mut explored = explore(arguments, &case, part, progress);
        if explored.violation.is_some() && !arguments.exhaustive && !arguments.mutants {
            bar.set_message("making the violation smaller");
            explored = smaller(arguments, &case, explored);
        }
        Ok(Some(json_row(arguments, &Row { scheme, case, explored })))
    };
    Unit { row, key, explore: Some(Box::new(explore)) }
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

fn explore(arguments: &Arguments, case: &Case, part: Part, progress: impl FnMut(&Counts)) -> Explored {
    let Part { seed, histories, limit } = part;
    if arguments.exhaustive {
        let bounds = Bounds {
            schedules: histories,
            seed,
            transactions: arguments.transactions.unwrap_or(2),
            failures: 2,
            states: arguments.states,
            limit,
        };
        return exhaust(case, bounds, &arguments.session, progress);
    }
    let sampling = Sampling { histories, seed, size: size(arguments), limit };
    sample(case, sampling, &arguments.session, progress)
}

/// Shortens a pool's lives if fewer transactions are requested, and uses one life for one transaction.
fn size(arguments: &Arguments) -> Size {
    let usual = Size::default();
    match arguments.transactions {
        None => usual,
        Some(transactions) => Size { transactions, lives: usual.lives.min(2 * transactions) },
    }
}

/// Looks for a violation in smaller histories, for some seconds.
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

/// The table of cases and of mutants.
pub static TABLE: Table = Table {
    columns: &[
        Column { header: "scheme", cell: schemes::scheme, expected: Expected::Keys },
        Column { header: "workload", cell: schemes::workload, expected: Expected::Keys },
        Column { header: "without", cell: schemes::without, expected: Expected::Keys },
        Column { header: "pools", cell: schemes::histories, expected: Expected::Nothing },
        Column { header: "lives", cell: lives, expected: Expected::Text(WIDE) },
        Column { header: "power failures", cell: power_failures, expected: Expected::Nothing },
        Column { header: "kills", cell: kills, expected: Expected::Text(WIDE) },
        Column { header: "failed recoveries", cell: failed_recoveries, expected: Expected::Nothing },
        Column { header: "states", cell: schemes::states, expected: Expected::Text(WIDE) },
        Column { header: "cut short", cell: schemes::cut_short, expected: Expected::Nothing },
        Column { header: "lives/s", cell: lives_per_second, expected: Expected::Nothing },
        Column { header: "states/s", cell: schemes::states_per_second, expected: Expected::Nothing },
        Column { header: "verdict", cell: verdict, expected: Expected::Text("NOT FOUND") },
        Column { header: "what is wrong", cell: schemes::what, expected: Expected::Nothing },
    ],
    below,
    // A case is wrong if it has a violation, and a mutant if it has none.
    is_wrong: |row, asked| is_violated(row) != asked.mutants,
    summary,
};

fn lives(row: &Value, _: &Asked) -> String {
    count(row, "lives").to_string()
}

fn power_failures(row: &Value, _: &Asked) -> String {
    count(row, "power_failures").to_string()
}

fn kills(row: &Value, _: &Asked) -> String {
    count(row, "kills").to_string()
}

fn failed_recoveries(row: &Value, _: &Asked) -> String {
    count(row, "failed_recoveries").to_string()
}

fn lives_per_second(row: &Value, _: &Asked) -> String {
    format!("{:.0}", number(row, "lives_per_s"))
}

fn verdict(row: &Value, asked: &Asked) -> String {
    let verdict = match (is_violated(row), asked.mutants) {
        (true, true) => "found",
        (false, true) => "NOT FOUND",
        (true, false) => "VIOLATED",
        (false, false) => "ok",
    };
    verdict.to_owned()
}

/// Returns the lines of a violation below its row. The row of a mutant already states what is wrong.
fn below(row: &Value, asked: &Asked) -> Vec<String> {
    if !is_violated(row) || asked.mutants {
        return Vec::new();
    }
    let mut lines = vec![format!("VIOLATION: {}", text(&row["violation"], "what")), "\nhistory:".into()];
    lines.extend(indented(row, "history"));
    lines.push(format!("\nreplay: {}\n", text(row, "replay")));
    lines
}

fn summary(rows: &[Value], asked: &Asked) -> String {
    let states: u64 = rows.iter().map(|row| count(row, "states")).sum();
    let seconds: f64 = rows.iter().map(|row| number(row, "seconds")).sum();
    format!("{states} states judged on the device in {seconds:.1} s; seed {}", asked.seed)
}

fn json_row(arguments: &Arguments, row: &Row) -> Value {
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
