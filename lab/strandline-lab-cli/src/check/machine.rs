//! The machine world: power failures of the simulated machine, hardware and software schemes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use strandline_command::say;

use serde_json::json;
use strandline_core::Error;
use strandline_scheme_check::explore::{Counts, Outcome as Explored, Workload};
use strandline_scheme_check::machine::{
    Bounds, Case, Omitted, Subject, attempts, exhaust, sample, subjects, without_mutant,
};
use strandline_sim::Registry;

use super::Finished;
use super::rows::Rows;
use super::schemes::{Arguments, progress_bar, wide};
use strandline_command::{Failure, Outcome};

/// A case, and how much of it.
#[derive(Clone, Copy)]
struct Attempt {
    case: Case,
    histories: u64,
    /// Transactions of a thread.
    transactions: u32,
}

/// One line of the summary.
struct Row {
    case: Case,
    /// What was found, or why the case cannot be.
    explored: Result<Explored, String>,
}

impl Row {
    fn violation(&self) -> Option<&strandline_scheme_check::explore::Violation> {
        self.explored.as_ref().ok().and_then(|explored| explored.violation.as_ref())
    }

    fn redundant(&self) -> Option<&'static str> {
        self.case.subject.redundant(self.case.omitted?)
    }

    fn without(&self) -> String {
        without(&self.case)
    }
}

fn without(case: &Case) -> String {
    case.omitted.map_or(String::new(), Omitted::name)
}

/// Checks schemes of hardware and software on the simulated machine, whose power fails.
///
/// # Errors
/// A flag names what there is not here.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Finished, Failure> {
    let lines = lines(arguments, registry)?;
    // Panics of mutants are caught and reported as what they are.
    std::panic::set_hook(Box::new(|_| ()));
    let bar = progress_bar();
    let mut rows = Vec::new();
    let cases: Vec<Case> = lines.iter().flatten().map(|attempt| attempt.case).collect();
    let all = |text: fn(&Case) -> String| cases.iter().map(text).collect::<Vec<_>>();
    let names = all(|case| case.subject.name());
    let workloads = all(|case| case.workload.name().to_owned());
    let without = all(without);
    let columns = [
        ("scheme", &names[..]),
        ("workload", &workloads),
        ("threads", &[]),
        ("without", &without),
        ("histories", &[]),
        ("crash points", &[]),
        ("equal", &wide()),
        ("in recovery", &[]),
        ("states", &wide()),
        ("cut short", &[]),
        ("seconds", &[]),
        ("states/s", &[]),
        ("verdict", &["NOT FOUND".into()]),
        ("what is wrong", &[]),
    ];
    let mut table = Rows::new(&columns, arguments.json, &bar);
    for line in lines {
        if arguments.session.is_stopped() {
            break;
        }
        let row = one(arguments, &line, |case, counts, seconds| {
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
        });
        match row {
            Ok(Some(row)) => {
                table.add(&cells(arguments, &row), &told(arguments, &row));
                rows.push(row);
            }
            Ok(None) => {}
            Err(error) => {
                let _ = std::panic::take_hook();
                return Err(error.into());
            }
        }
    }
    bar.finish_and_clear();
    let _ = std::panic::take_hook();
    Ok(finished(arguments, &rows))
}

/// Sums the rows up: a violation is found where none should be, or a mutant is not.
fn finished(arguments: &Arguments, rows: &[Row]) -> Finished {
    let wrong = |row: &Row| match (&row.explored, arguments.mutants) {
        (Err(_), _) => false,
        (Ok(explored), false) => explored.violation.is_some(),
        // It fails without the mutant.
        (Ok(_), true) if row.case.omitted.is_none() => true,
        (Ok(explored), true) => explored.violation.is_none() && row.redundant().is_none(),
    };
    let outcome = if rows.iter().any(wrong) { Outcome::Finding } else { Outcome::Success };
    if !arguments.json {
        sum_up(arguments, rows);
    }
    Finished { outcome, rows: rows.iter().map(|row| json_row(arguments, row)).collect() }
}

/// Parameters of the hardware schemes, by `--set`.
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
    // Once in the program's life.
    Ok(Box::leak(Box::new(all)))
}

/// The subjects asked for: by their names, or by a hardware scheme's alone.
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

/// For each line of the summary what is tried, one after the other until something is wrong.
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
        return Ok(of_shapes(&subjects));
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
                Attempt { case, histories, transactions }
            };
            // Some hardware serves one core alone.
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

/// A line for each step of a software scheme and for each rule of a hardware scheme, whatever software is beside it.
fn of_shapes(subjects: &[Subject]) -> Vec<Vec<Attempt>> {
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

/// Tries what a line of the summary is to try; `progress` is told of each case what has been counted, and how long it has
/// taken.
///
/// # Errors
/// The workload does not fit its pool.
fn one(
    arguments: &Arguments,
    line: &[Attempt],
    mut progress: impl FnMut(Case, &Counts, f64),
) -> strandline_core::Result<Option<Row>> {
    let started = Instant::now();
    let mut row: Option<Row> = None;
    for &Attempt { case, histories, transactions } in line {
        // What is known to be redundant gets a tenth of the time.
        let redundant = case.omitted.is_some_and(|omitted| case.subject.redundant(omitted).is_some());
        let all =
            Duration::from_secs(arguments.seconds) / if redundant && arguments.mutants { 10 } else { 1 };
        let limit = all.saturating_sub(started.elapsed());
        if row.as_ref().is_some_and(|row| row.explored.is_ok()) && limit.is_zero() {
            break;
        }
        let bounds = Bounds { histories, seed: arguments.seed, transactions, limit };
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

fn verdict(arguments: &Arguments, row: &Row) -> String {
    match (&row.explored, arguments.mutants, row.violation().is_some(), row.redundant()) {
        (Err(why), ..) => format!("cannot be: {why}"),
        (Ok(_), false, true, _) => "VIOLATED".into(),
        (Ok(_), true, true, _) if row.case.omitted.is_none() => "VIOLATED without a mutant".into(),
        (Ok(_), false, false, _) => "ok".into(),
        (Ok(_), true, true, _) => "found".into(),
        (Ok(_), true, false, Some(why)) => format!("redundant: {why}"),
        (Ok(_), true, false, None) => "NOT FOUND".into(),
    }
}

/// A violation, as it stands below its row. Of a mutant the row says what is wrong.
fn told(arguments: &Arguments, row: &Row) -> Vec<String> {
    let is_mutant = arguments.mutants && row.case.omitted.is_some();
    let (Some(violation), Ok(explored), false) = (row.violation(), &row.explored, is_mutant) else {
        return Vec::new();
    };
    let indented = |lines: &[String]| lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>();
    [
        vec![format!("VIOLATION: {}", violation.what), "\nhistory up to the crash:".into()],
        indented(&violation.history),
        vec!["\nstored, but lost:".into()],
        indented(&violation.lost),
        vec![format!("\nreplay: {}\n", replay(arguments, row, explored))],
    ]
    .concat()
}

fn cells(arguments: &Arguments, row: &Row) -> [String; 14] {
    let counts = row.explored.as_ref().map(|explored| explored.counts).unwrap_or_default();
    let seconds = row.explored.as_ref().map_or(0.0, |explored| explored.seconds);
    let speed = row.explored.as_ref().map_or(0.0, Explored::states_per_second);
    let what = row.violation().map_or("", |violation| violation.what.as_str());
    [
        row.case.subject.name(),
        row.case.workload.name().to_owned(),
        row.case.threads.to_string(),
        row.without(),
        counts.histories.to_string(),
        counts.points.to_string(),
        counts.equal_points.to_string(),
        counts.recovery_points.to_string(),
        counts.states.to_string(),
        counts.cut_short.to_string(),
        format!("{seconds:.2}"),
        format!("{speed:.0}"),
        verdict(arguments, row),
        what.chars().take(90).collect(),
    ]
}

fn sum_up(arguments: &Arguments, rows: &[Row]) {
    let explored = || rows.iter().filter_map(|row| row.explored.as_ref().ok());
    let states: u64 = explored().map(|explored| explored.counts.states).sum();
    let seconds: f64 = explored().map(|explored| explored.seconds).sum();
    say!("\n{states} states judged on the machine in {seconds:.1} s; seed {}", arguments.seed);
    if arguments.mutants {
        let found = rows.iter().filter(|row| row.case.omitted.is_some() && row.violation().is_some()).count();
        let missed =
            rows.iter().filter(|row| verdict(arguments, row) == "NOT FOUND").map(|row| row.without());
        let missed: Vec<_> = missed.collect();
        say!("{found} of {} mutants found; not found: {}", rows.len(), missed.join(", "));
    }
}

fn json_row(arguments: &Arguments, row: &Row) -> serde_json::Value {
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
        "states_per_s": explored.map_or(0.0, Explored::states_per_second),
        "violation": row.violation(),
        "replay": explored.ok().filter(|e| e.violation.is_some()).map(|e| replay(arguments, row, e)),
    })
}
