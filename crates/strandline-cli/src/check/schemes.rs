//! Schemes × workloads × settings, exhaustively or by samples, and mutants.

use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use strandline_crash::Setting;
use strandline_crash::explore::{
    Bounds, Case, CheckedScheme, Counts, Outcome as Explored, SCHEMES, Sampling, Violation, Workload,
    exhaust, sample,
};

use super::Finished;
use crate::failure::{Failure, Outcome};

#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Schemes, by the names of `strandline list`; all that promise durability by default
    #[arg(long, value_delimiter = ',')]
    pub(super) scheme: Vec<String>,
    /// sps, hash, rbtree, bplustree, kvstore, allocator; all by default (sps alone with --mutants)
    #[arg(long, value_delimiter = ',')]
    pub(super) workload: Vec<Workload>,
    /// line, word, flush-on-fail; all that the scheme claims to survive by default
    #[arg(long, value_delimiter = ',')]
    pub(super) setting: Vec<Setting>,
    /// Threads that run transactions, 1 to 4; 1 to 3 by default (2 if exhaustive)
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=4))]
    pub(super) threads: Vec<u8>,
    /// All schedules, crash points and surviving states within the bounds, instead of samples
    #[arg(long)]
    pub(super) exhaustive: bool,
    /// Preemptions in a schedule, at most (exhaustive)
    #[arg(long, default_value_t = 2)]
    pub(super) preemptions: u32,
    /// Transactions of each thread: exactly so many if exhaustive (2 by default), at most so many if
    /// sampled (24 by default)
    #[arg(long)]
    pub(super) transactions: Option<u32>,
    /// States judged at one crash point, at most (exhaustive)
    #[arg(long, default_value_t = 1 << 20)]
    pub(super) states: u64,
    /// Power failures in recovery, one in the recovery after the other, at most (exhaustive)
    #[arg(long, default_value_t = 1)]
    pub(super) recovery_crashes: usize,
    /// Histories to sample, for each combination
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) samples: u64,
    /// Seed of the first history
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Leave out every step of the scheme, one at a time, and see that it is noticed
    #[arg(long)]
    pub(super) mutants: bool,
    /// Leave out this step, by its name in the code
    #[arg(long)]
    pub(super) omit: Option<String>,
    /// Seconds for one combination or one mutant, at most
    #[arg(long, default_value_t = 60)]
    pub(super) seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// One line of the summary.
struct Row {
    case: Case,
    explored: Explored,
}

/// Runs it.
///
/// # Errors
/// A flag names what there is not.
pub fn run(arguments: &Arguments) -> Result<Finished, Failure> {
    let schemes = arguments.schemes()?;
    // Panics of mutants and of recoveries on impossible states are caught and reported as what they are.
    std::panic::set_hook(Box::new(|_| ()));
    let rows = if arguments.mutants { mutants(arguments, &schemes) } else { all(arguments, &schemes) };
    let _ = std::panic::take_hook();
    let rows = rows?;
    let wrong = |row: &Row| {
        if arguments.mutants {
            row.explored.violation.is_none() && redundant(&row.case).is_none()
        } else {
            row.explored.violation.is_some()
        }
    };
    let outcome = if rows.iter().any(wrong) { Outcome::Finding } else { Outcome::Success };
    if arguments.json {
        // Printed with those of other worlds.
    } else if arguments.mutants {
        show_mutants(arguments, &rows);
    } else {
        show(arguments, &rows);
    }
    Ok(Finished { outcome, rows: rows.iter().map(|row| json_row(arguments, row)).collect() })
}

impl Arguments {
    fn schemes(&self) -> Result<Vec<CheckedScheme>, Failure> {
        for name in &self.scheme {
            if !SCHEMES.iter().any(|scheme| scheme.name == name) {
                let names: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).collect();
                return Err(Failure::Usage(format!(
                    "there is no scheme {name:?} that promises durability; choose from {}",
                    names.join(", ")
                )));
            }
        }
        let wanted = |scheme: &CheckedScheme| {
            self.scheme.is_empty() || self.scheme.iter().any(|name| name == scheme.name)
        };
        Ok(SCHEMES.into_iter().filter(wanted).collect())
    }

    fn settings(&self, scheme: &CheckedScheme) -> Vec<Setting> {
        let wanted = |setting: &&Setting| self.setting.is_empty() || self.setting.contains(setting);
        scheme.settings.iter().filter(wanted).copied().collect()
    }

    fn threads(&self) -> Vec<usize> {
        match (self.threads.is_empty(), self.exhaustive) {
            (true, true) => vec![2],
            (true, false) => vec![1, 2, 3],
            (false, _) => self.threads.iter().map(|&threads| threads.into()).collect(),
        }
    }

    fn sampling(&self) -> Sampling {
        Sampling {
            histories: self.samples,
            seed: self.seed,
            transactions: self.transactions.unwrap_or(24),
            limit: Duration::from_secs(self.seconds),
        }
    }
}

fn redundant(case: &Case) -> Option<&'static str> {
    let step = case.omitted?;
    case.scheme.redundant.iter().find(|(redundant, _)| *redundant == step).map(|&(_, why)| why)
}

pub(super) fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar
}

fn explore(arguments: &Arguments, case: Case, bar: &ProgressBar) -> Result<Explored, Failure> {
    let started = Instant::now();
    let name =
        format!("{} {} {} threads {}", case.scheme.name, case.workload.name(), case.threads, case.setting);
    let progress = |counts: &Counts| {
        let seconds = started.elapsed().as_secs_f64().max(1e-3);
        bar.set_message(format!(
            "{name}: {} histories, {} states, {:.0} states/s",
            counts.histories,
            counts.states,
            counts.states as f64 / seconds
        ));
        bar.tick();
    };
    Ok(if arguments.exhaustive {
        let bounds = Bounds {
            preemptions: arguments.preemptions,
            transactions: arguments.transactions.unwrap_or(2),
            states: arguments.states,
            recovery_crashes: arguments.recovery_crashes,
            reduced: true,
            limit: Duration::from_secs(arguments.seconds),
        };
        exhaust(case, bounds, progress)?
    } else {
        sample(case, arguments.sampling(), progress)?
    })
}

fn all(arguments: &Arguments, schemes: &[CheckedScheme]) -> Result<Vec<Row>, Failure> {
    let workloads =
        if arguments.workload.is_empty() { Workload::ALL.to_vec() } else { arguments.workload.clone() };
    let omitted = arguments.omitted(schemes)?;
    let (bar, mut rows) = (progress_bar(), Vec::new());
    for &scheme in schemes {
        for &workload in &workloads {
            for setting in arguments.settings(&scheme) {
                for threads in arguments.threads() {
                    let case = Case { scheme, workload, threads, setting, omitted };
                    let mut explored = explore(arguments, case, &bar)?;
                    if explored.violation.is_some() && !arguments.exhaustive {
                        explored = smaller(arguments, case, explored, &bar)?;
                    }
                    rows.push(Row { case, explored });
                }
            }
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

impl Arguments {
    fn omitted(&self, schemes: &[CheckedScheme]) -> Result<Option<strandline::memory::Step>, Failure> {
        let Some(name) = &self.omit else { return Ok(None) };
        let steps = schemes.iter().flat_map(|scheme| scheme.steps);
        let found = steps.copied().find(|step| format!("{step:?}") == *name);
        found.map(Some).ok_or_else(|| Failure::Usage(format!("these schemes have no step {name}")))
    }
}

/// Looks for the same kind of violation in smaller histories for some seconds.
fn smaller(
    arguments: &Arguments,
    case: Case,
    mut found: Explored,
    bar: &ProgressBar,
) -> Result<Explored, Failure> {
    let counts = found.counts;
    let seconds = found.seconds;
    for transactions in [1, 2, 3, 5, 8] {
        if transactions >= arguments.sampling().transactions {
            break;
        }
        bar.set_message(format!("making the violation smaller: {transactions} transactions a thread"));
        bar.tick();
        let sampling = Sampling {
            histories: u64::MAX,
            transactions,
            limit: Duration::from_secs(3),
            ..arguments.sampling()
        };
        let tried = sample(case, sampling, |_| ())?;
        if tried.violation.is_some() {
            found = tried;
            break;
        }
    }
    (found.counts, found.seconds) = (counts, seconds);
    Ok(found)
}

/// Each mutant, until it is found out or its time is up; in the setting `word`, then `line`.
fn mutants(arguments: &Arguments, schemes: &[CheckedScheme]) -> Result<Vec<Row>, Failure> {
    let (bar, mut rows) = (progress_bar(), Vec::new());
    let workload = arguments.workload.first().copied().unwrap_or(Workload::Sps);
    let settings = if arguments.setting.is_empty() { &[Setting::Word][..] } else { &arguments.setting };
    let threads = arguments.threads.first().map_or(2, |&threads| threads.into());
    for &scheme in schemes {
        for &step in scheme.steps {
            for &setting in settings {
                let case = Case { scheme, workload, threads, setting, omitted: Some(step) };
                bar.set_message(format!("{} without {step:?}", scheme.name));
                bar.tick();
                // A step that is known to be redundant gets a tenth of the time.
                let tenth = if redundant(&case).is_some() { 10 } else { 1 };
                let sampling = Sampling {
                    histories: u64::MAX,
                    limit: Duration::from_secs(arguments.seconds) / tenth,
                    ..arguments.sampling()
                };
                let explored = sample(case, sampling, |_| bar.tick())?;
                rows.push(Row { case, explored });
            }
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

fn replay(arguments: &Arguments, row: &Row) -> String {
    let case = &row.case;
    let mut command = format!(
        "strandline check --scheme {} --workload {} --setting {} --threads {} --transactions {}",
        case.scheme.name,
        case.workload.name(),
        case.setting,
        case.threads,
        row.explored.transactions,
    );
    if let Some(step) = case.omitted {
        command += &format!(" --omit {step:?}");
    }
    if arguments.exhaustive {
        command + &format!(" --exhaustive --preemptions {}", arguments.preemptions)
    } else {
        command + &format!(" --seed {} --samples 1", row.explored.seed)
    }
}

fn show_violation(arguments: &Arguments, row: &Row, violation: &Violation) {
    say!("VIOLATION: {}", violation.what);
    say!("\nhistory up to the crash:");
    violation.history.iter().for_each(|line| say!("  {line}"));
    say!("\nstored, but lost:");
    violation.lost.iter().for_each(|line| say!("  {line}"));
    say!("\nrecovery:");
    violation.recovery.iter().for_each(|line| say!("  {line}"));
    say!("\nreplay: {}\n", replay(arguments, row));
}

fn show(arguments: &Arguments, rows: &[Row]) {
    for row in rows {
        if let Some(violation) = &row.explored.violation {
            show_violation(arguments, row, violation);
        }
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "scheme",
        "workload",
        "setting",
        "threads",
        "histories",
        "crash points",
        "equal",
        "in recovery",
        "states",
        "nested",
        "cut short",
        "states/s",
        "verdict",
    ]);
    for Row { case, explored } in rows {
        let counts = &explored.counts;
        table.add_row([
            case.scheme.name.to_owned(),
            case.workload.name().to_owned(),
            case.setting.to_string(),
            case.threads.to_string(),
            counts.histories.to_string(),
            counts.points.to_string(),
            counts.equal_points.to_string(),
            counts.recovery_points.to_string(),
            counts.states.to_string(),
            counts.nested.to_string(),
            counts.cut_short.to_string(),
            format!("{:.0}", explored.states_per_second()),
            if explored.violation.is_some() { "VIOLATED" } else { "ok" }.to_owned(),
        ]);
    }
    say!("{table}");
    let states: u64 = rows.iter().map(|row| row.explored.counts.states).sum();
    let seconds: f64 = rows.iter().map(|row| row.explored.seconds).sum();
    say!(
        "\n{states} crash states judged in {seconds:.1} s: {:.0} states/s; seed {}",
        states as f64 / seconds.max(1e-9),
        arguments.seed
    );
}

fn mutant_verdict(row: &Row) -> String {
    match (&row.explored.violation, redundant(&row.case)) {
        (Some(_), _) => "found".into(),
        (None, Some(why)) => format!("redundant: {why}"),
        (None, None) => "NOT FOUND".into(),
    }
}

fn show_mutants(arguments: &Arguments, rows: &[Row]) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["scheme", "without", "setting", "seconds", "states", "verdict", "what is wrong then"]);
    for row in rows {
        let what = row.explored.violation.as_ref().map_or("", |violation| violation.what.as_str());
        table.add_row([
            row.case.scheme.name.to_owned(),
            row.case.omitted.map_or(String::new(), |step| format!("{step:?}")),
            row.case.setting.to_string(),
            format!("{:.2}", row.explored.seconds),
            row.explored.counts.states.to_string(),
            mutant_verdict(row),
            what.chars().take(90).collect(),
        ]);
    }
    say!("{table}");
    let found = rows.iter().filter(|row| row.explored.violation.is_some()).count();
    let redundant =
        rows.iter().filter(|row| row.explored.violation.is_none() && redundant(&row.case).is_some());
    say!(
        "\n{found} of {} mutants found, {} redundant; seed {}",
        rows.len(),
        redundant.count(),
        arguments.seed
    );
}

fn json_row(arguments: &Arguments, row: &Row) -> serde_json::Value {
    let Row { case, explored } = row;
    json!({
        "world": "x86",
        "scheme": case.scheme.name,
        "workload": case.workload.name(),
        "setting": case.setting.name(),
        "threads": case.threads,
        "omitted": case.omitted.map(|step| format!("{step:?}")),
        "redundant": redundant(case),
        "counts": explored.counts,
        "seconds": explored.seconds,
        "states_per_s": explored.states_per_second(),
        "violation": explored.violation,
        "replay": explored.violation.is_some().then(|| replay(arguments, row)),
    })
}
