//! The machine world: power failures of the simulated machine, with hardware and software schemes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use strandline_core::Error;
use strandline_scheme_check::explore::{Counts, Outcome as Explored, Workload};
use strandline_scheme_check::machine::{
    Bounds, Case, Omitted, Subject, attempts, exhaust, sample, subjects, without_mutant,
};
use strandline_sim::Registry;

use super::campaign::{
    Asked, Column, Expected, Table, Unit, count, indented, is_violated, number, parts, text,
};
use super::schemes::{self, Arguments, WIDE};
use strandline_command::Failure;

/// A case, and how much of it to explore.
#[derive(Clone, Copy)]
struct Attempt {
    case: Case,
    seed: u64,
    histories: u64,
    /// Transactions of a thread.
    transactions: u32,
}

/// The result of a case.
struct Row {
    case: Case,
    /// The result, or the reason why the case is impossible.
    explored: Result<Explored, String>,
}

impl Row {
    fn redundant(&self) -> Option<&'static str> {
        self.case.subject.redundant(self.case.omitted?)
    }
}

/// Returns the units to explore: each case, or each mutant in the cases that may show it.
///
/// # Errors
/// Returns an error if a flag names something that this world does not have.
pub fn units<'a>(arguments: &'a Arguments, registry: Registry) -> Result<Vec<Unit<'a>>, Failure> {
    let mut units = Vec::new();
    for (row, line) in lines(arguments, registry)?.into_iter().enumerate() {
        let limit = Duration::from_secs(arguments.seconds);
        match line[..] {
            // A single case is sampled in parts, each of which gets its part of the time.
            [attempt] if !arguments.mutants && !arguments.exhaustive => {
                let all = attempt.histories as f64;
                units.extend(parts(attempt.seed, attempt.histories).into_iter().map(|(seed, histories)| {
                    let limit = limit.mul_f64(histories as f64 / all);
                    unit(arguments, row, vec![Attempt { seed, histories, ..attempt }], limit)
                }));
            }
            _ => units.push(unit(arguments, row, line, limit)),
        }
    }
    Ok(units)
}

fn unit<'a>(arguments: &'a Arguments, row: usize, line: Vec<Attempt>, limit: Duration) -> Unit<'a> {
    let attempts = line.iter().map(|attempt| {
        json!({
            "scheme": attempt.case.subject.name(),
            "workload": attempt.case.workload.name(),
            "threads": attempt.case.threads,
            "omitted": attempt.case.omitted.map(Omitted::name),
            "transactions": attempt.transactions,
            "histories": attempt.histories,
            "seed": attempt.seed,
        })
    });
    let key = json!({
        "world": "machine",
        "attempts": attempts.collect::<Vec<_>>(),
        "exhaustive": arguments.exhaustive,
        "set": arguments.set,
        "seconds": limit.as_secs_f64(),
    });
    let explore = move |bar: &ProgressBar| {
        let row = one(arguments, &line, limit, |case, counts, seconds| {
            let without =
                case.omitted.map_or(String::new(), |omitted| format!(" without {}", omitted.name()));
            bar.set_message(format!(
                "{}{without} {} threads {} on the machine: {} histories, {} crash points, {:.0} states/s",
                case.subject.name(),
                case.workload.name(),
                case.threads,
                counts.histories,
                counts.points,
                counts.states as f64 / seconds.max(1e-3)
            ));
            bar.tick();
        })?;
        Ok(row.map(|row| json_row(arguments, &row)))
    };
    Unit { row, key, explore: Some(Box::new(explore)) }
}

/// Parses the parameters of hardware schemes (`--set`).
fn parameters(arguments: &Arguments) -> Result<&'static BTreeMap<String, u64>, Failure> {
    let one = |text: &String| {
        let (key, value) = text.strip_prefix("scheme.").and_then(|text| text.split_once('='))?;
        Some((key.trim().to_owned(), value.trim().replace('_', "").parse().ok()?))
    };
    let mut all = BTreeMap::new();
    for text in &arguments.set {
        let (key, value) = one(text).ok_or_else(|| {
            Failure::Usage(format!(
                "--set {text}: machines are drawn at random here; expected a parameter of the hardware scheme and a whole number, such as \
                 scheme.speculation=4 (`strandline-lab list NAME` shows a scheme's)"
            ))
        })?;
        all.insert(key, value);
    }
    // Leaks only once in the program's life.
    Ok(Box::leak(Box::new(all)))
}

/// Returns the requested subjects: by their full names, or by a hardware scheme's name alone.
fn wanted(arguments: &Arguments, registry: Registry) -> Result<Vec<Subject>, Failure> {
    let mut all = subjects(registry);
    let parameters = parameters(arguments)?;
    all.iter_mut().for_each(|subject| subject.parameters = parameters);
    let is = |subject: &Subject, name: &str| {
        subject.name() == name || subject.hardware.make.is_some() && subject.hardware.name == name
    };
    if let Some(other) = arguments.scheme.iter().find(|name| !all.iter().any(|subject| is(subject, name))) {
        let names: Vec<_> = all.iter().map(Subject::name).collect();
        return Err(Failure::Usage(format!(
            "there is no scheme {other:?} that promises durability on the machine; choose from {}",
            names.join(", ")
        )));
    }
    let chosen = |subject: &Subject| {
        arguments.scheme.is_empty() || arguments.scheme.iter().any(|name| is(subject, name))
    };
    all.retain(chosen);
    for subject in &all {
        subject.hardware.check_parameters(parameters).map_err(Failure::Usage)?;
    }
    Ok(all)
}

/// Returns for each line of the summary the attempts that are made one after the other until one shows a fault.
fn lines(arguments: &Arguments, registry: Registry) -> Result<Vec<Vec<Attempt>>, Failure> {
    if let Some(setting) = arguments.setting.first() {
        return Err(Failure::Usage(format!(
            "--setting {setting} is about what x86 allows; the machine's persistence domain says what survives: \
             leave it out"
        )));
    }
    let subjects = wanted(arguments, registry)?;
    let workloads = arguments.workloads(registry)?;
    let shaped = arguments.mutants
        && !arguments.exhaustive
        && workloads.is_empty()
        && arguments.threads.is_empty()
        && arguments.transactions.is_none();
    if shaped {
        return Ok(of_shapes(&subjects, arguments.seed));
    }
    let workloads: Vec<Workload> = match (&workloads[..], arguments.mutants) {
        ([], true) => vec![Workload::Sps],
        ([], false) => Workload::all_of(registry.workloads).collect(),
        (chosen, _) => chosen.to_vec(),
    };
    let transactions = arguments.transactions.unwrap_or(if arguments.exhaustive { 2 } else { 12 });
    let histories = if arguments.mutants { u64::MAX } else { arguments.samples() };
    let mut lines = Vec::new();
    let mut unknown = arguments.omit.is_some();
    for subject in subjects {
        let omissions = subject.omissions();
        let omitted: Vec<Option<Omitted>> = match &arguments.omit {
            _ if arguments.mutants => omissions.into_iter().map(Some).collect(),
            None => vec![None],
            Some(name) => omissions.into_iter().filter(|omitted| omitted.name() == *name).map(Some).collect(),
        };
        unknown &= omitted.is_empty();
        for &workload in &workloads {
            let attempt = |threads, omitted| {
                let case = Case { subject, workload, threads, omitted };
                Attempt { case, seed: arguments.seed, histories, transactions }
            };
            // Some hardware supports only one core.
            if arguments.mutants && arguments.threads.is_empty() {
                let either = omitted.iter().map(|&omitted| [3, 1].map(|threads| attempt(threads, omitted)));
                lines.extend(either.map(Vec::from));
            } else {
                for threads in threads(arguments) {
                    lines.extend(omitted.iter().map(|&omitted| vec![attempt(threads, omitted)]));
                }
            }
        }
    }
    match &arguments.omit {
        Some(name) if unknown => Err(Failure::Usage(format!("these schemes have no step or rule {name:?}"))),
        _ => Ok(lines),
    }
}

/// Returns a line for each step of a software scheme, and for each rule of a hardware scheme, independently of the software beside it.
fn of_shapes(subjects: &[Subject], seed: u64) -> Vec<Vec<Attempt>> {
    let is_beside = |one: &Subject, other: &Subject| {
        one.hardware.make.is_some() && one.hardware.name == other.hardware.name
    };
    let groups = subjects.chunk_by(is_beside);
    let lines = groups.flat_map(|group| {
        group[0].omissions().into_iter().map(move |omitted| {
            let tried = attempts(group, omitted).into_iter();
            tried
                .map(|(case, shape)| Attempt {
                    case,
                    seed,
                    histories: shape.histories,
                    transactions: shape.transactions,
                })
                .collect()
        })
    });
    lines.collect()
}

fn threads(arguments: &Arguments) -> Vec<usize> {
    match (arguments.threads.is_empty(), arguments.exhaustive) {
        (false, _) => arguments.threads.iter().map(|&threads| threads.into()).collect(),
        (true, true) => vec![2],
        (true, false) => vec![1, 2, 3, 4],
    }
}

/// Makes the attempts of a line of the summary within this time. Calls `progress` for each case with its counts and its duration.
///
/// # Errors
/// Returns an error if the workload does not fit its pool.
fn one(
    arguments: &Arguments,
    line: &[Attempt],
    all: Duration,
    mut progress: impl FnMut(Case, &Counts, f64),
) -> strandline_core::Result<Option<Row>> {
    let started = Instant::now();
    let mut row: Option<Row> = None;
    for &Attempt { case, seed, histories, transactions } in line {
        // Steps and rules known to be redundant get a tenth of the time.
        let redundant = case.omitted.is_some_and(|omitted| case.subject.redundant(omitted).is_some());
        let all = all / if redundant && arguments.mutants { 10 } else { 1 };
        let limit = all.saturating_sub(started.elapsed());
        if row.as_ref().is_some_and(|row| row.explored.is_ok()) && limit.is_zero() {
            break;
        }
        let bounds = Bounds { histories, seed, transactions, limit };
        let tell = |counts: &Counts| progress(case, counts, started.elapsed().as_secs_f64());
        let session = &arguments.session;
        let explored = match arguments.exhaustive {
            true => exhaust(case, bounds, session, tell),
            false => sample(case, bounds, session, tell),
        };
        let before = row.as_ref().and_then(|row| row.explored.as_ref().ok());
        match explored {
            Ok(mut explored) => {
                if let Some(before) = before {
                    explored.counts += before.counts;
                    explored.seconds += before.seconds;
                    explored.cpu_seconds += before.cpu_seconds;
                }
                let found = explored.violation.is_some();
                let own = if arguments.exhaustive { None } else { without_mutant(case, &explored)? };
                let (case, explored) = own.unwrap_or((case, explored));
                row = Some(Row { case, explored: Ok(explored) });
                if found {
                    break;
                }
            }
            Err(Error::Unsupported(why)) if before.is_none() => {
                row = Some(Row { case, explored: Err(why) });
            }
            Err(Error::Unsupported(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(row)
}

fn replay(arguments: &Arguments, row: &Row, explored: &Explored) -> String {
    let case = &row.case;
    let mut command = format!(
        "strandline-lab check --world machine --scheme {} --workload {} --threads {} --transactions {}",
        case.subject.name(),
        case.workload.name(),
        case.threads,
        explored.transactions
    );
    for set in &arguments.set {
        command += &format!(" --set {set}");
    }
    if let Some(omitted) = case.omitted {
        command += &format!(" --omit {}", omitted.name());
    }
    match arguments.exhaustive {
        true => command + " --exhaustive",
        false => command + &format!(" --seed {} --samples 1", explored.seed),
    }
}

/// The table of cases and of mutants.
pub static TABLE: Table = Table {
    columns: &[
        Column { header: "scheme", cell: schemes::scheme, expected: Expected::Keys },
        Column { header: "workload", cell: schemes::workload, expected: Expected::Keys },
        Column { header: "threads", cell: schemes::threads, expected: Expected::Nothing },
        Column { header: "without", cell: schemes::without, expected: Expected::Keys },
        Column { header: "histories", cell: schemes::histories, expected: Expected::Nothing },
        Column { header: "crash points", cell: schemes::points, expected: Expected::Nothing },
        Column { header: "equal", cell: schemes::equal_points, expected: Expected::Text(WIDE) },
        Column { header: "in recovery", cell: schemes::recovery_points, expected: Expected::Nothing },
        Column { header: "states", cell: schemes::states, expected: Expected::Text(WIDE) },
        Column { header: "cut short", cell: schemes::cut_short, expected: Expected::Nothing },
        Column { header: "seconds", cell: schemes::seconds, expected: Expected::Nothing },
        Column { header: "states/s", cell: schemes::states_per_second, expected: Expected::Nothing },
        Column { header: "verdict", cell: verdict, expected: Expected::Text("NOT FOUND") },
        Column { header: "what is wrong", cell: schemes::what, expected: Expected::Nothing },
    ],
    below,
    is_wrong,
    summary,
};

/// Returns whether a case has a violation, or a mutant has none.
fn is_wrong(row: &Value, asked: &Asked) -> bool {
    match (row["refused"].is_null(), asked.mutants) {
        (false, _) => false,
        (true, false) => is_violated(row),
        // A violation that occurs without the mutant is the scheme's own.
        (true, true) if row["omitted"].is_null() => true,
        (true, true) => !is_violated(row) && row["redundant"].is_null(),
    }
}

fn verdict(row: &Value, asked: &Asked) -> String {
    if let Some(why) = row["refused"].as_str() {
        return format!("cannot be: {why}");
    }
    match (asked.mutants, is_violated(row), row["redundant"].as_str()) {
        (false, true, _) => "VIOLATED".into(),
        (true, true, _) if row["omitted"].is_null() => "VIOLATED without a mutant".into(),
        (false, false, _) => "ok".into(),
        (true, true, _) => "found".into(),
        (true, false, Some(why)) => format!("redundant: {why}"),
        (true, false, None) => "NOT FOUND".into(),
    }
}

/// Returns the lines of a violation below its row. The row of a mutant already states what is wrong.
fn below(row: &Value, asked: &Asked) -> Vec<String> {
    let is_mutant = asked.mutants && !row["omitted"].is_null();
    if !is_violated(row) || is_mutant {
        return Vec::new();
    }
    [
        vec![format!("VIOLATION: {}", text(&row["violation"], "what")), "\nhistory up to the crash:".into()],
        indented(row, "history"),
        vec!["\nstored, but lost:".into()],
        indented(row, "lost"),
        vec![format!("\nreplay: {}\n", text(row, "replay"))],
    ]
    .concat()
}

fn summary(rows: &[Value], asked: &Asked) -> String {
    let states: u64 = rows.iter().map(|row| count(row, "states")).sum();
    let seconds: f64 = rows.iter().map(|row| number(row, "seconds")).sum();
    let mut text = format!("{states} states judged on the machine in {seconds:.1} s; seed {}", asked.seed);
    if asked.mutants {
        let is_found = |row: &&Value| !row["omitted"].is_null() && is_violated(row);
        let missed = rows.iter().filter(|row| verdict(row, asked) == "NOT FOUND");
        let missed: Vec<_> = missed.map(|row| schemes::without(row, asked)).collect();
        let found = rows.iter().filter(is_found).count();
        text += &format!("\n{found} of {} mutants found; not found: {}", rows.len(), missed.join(", "));
    }
    text
}

fn json_row(arguments: &Arguments, row: &Row) -> Value {
    let explored = row.explored.as_ref();
    json!({
        "world": "machine",
        "scheme": row.case.subject.name(),
        "workload": row.case.workload.name(),
        "threads": row.case.threads,
        "omitted": row.case.omitted.map(Omitted::name),
        "redundant": row.redundant(),
        "refused": explored.err(),
        "counts": explored.map(|explored| explored.counts).unwrap_or_default(),
        "seconds": explored.map_or(0.0, |explored| explored.seconds),
        "cpu_seconds": explored.map_or(0.0, |explored| explored.cpu_seconds),
        "states_per_s": explored.map_or(0.0, Explored::states_per_second),
        "violation": explored.ok().and_then(|explored| explored.violation.as_ref()),
        "replay": explored.ok().filter(|e| e.violation.is_some()).map(|e| replay(arguments, row, e)),
    })
}
