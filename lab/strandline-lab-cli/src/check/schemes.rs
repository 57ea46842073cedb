//! Schemes × workloads × settings, exhaustively or by samples, and mutants.

use std::time::{Duration, Instant};
use strandline_command::say;

use indicatif::ProgressBar;
use serde_json::json;
use strandline_check::{Session, Setting};
use strandline_scheme_check::explore::{
    Bounds, Case, CheckedScheme, Counts, Outcome as Explored, Sampling, Violation, Workload, exhaust,
    exhaust_histories, sample, schemes_of,
};
use strandline_sim::Registry;

use super::Finished;
use super::rows::Rows;
use strandline_command::{Failure, Outcome, interrupt};

#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Schemes, by the names of `strandline-lab list`; all that promise durability by default
    #[arg(long, value_delimiter = ',')]
    pub(super) scheme: Vec<String>,
    /// sps, hash, rbtree, bplustree, bplustree-sorted, btree-sorted, kvstore, allocator, typed, or a registered one; all by default (with --mutants sps, or on the machine several)
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
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
    /// Every history of a new pool with logs of twelve records in which each transaction writes as many words as one
    /// of these numbers says, and is committed or given up (exhaustive)
    #[arg(long, value_delimiter = ',', requires = "exhaustive")]
    pub(super) words: Vec<u32>,
    /// Histories to sample, for each combination; without this flag 100, after a short exhaustive exploration of
    /// small histories
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) samples: Option<u64>,
    /// Seed of the first history
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Leave out every step of the scheme, one at a time, and see that it is noticed
    #[arg(long)]
    pub(super) mutants: bool,
    /// Leave out this step, by its name in the code
    #[arg(long)]
    pub(super) omit: Option<String>,
    /// On the machine: a parameter of the hardware scheme, such as scheme.speculation=4; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Seconds for one combination or one mutant, at most
    #[arg(long, default_value_t = 60)]
    pub(super) seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Ends it: by default a signal.
    #[arg(skip = Session::stopped_by(interrupt::flag()))]
    pub session: Session,
}

/// One line of the summary.
struct Row {
    case: Case,
    explored: Explored,
    /// Those of an exhaustive exploration.
    bounds: Option<Bounds>,
}

/// Runs it.
///
/// # Errors
/// A flag names what there is not.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Finished, Failure> {
    let schemes = arguments.schemes(registry)?;
    let workloads = arguments.workloads(registry)?;
    // Panics of mutants and of recoveries on impossible states are caught and reported as what they are.
    std::panic::set_hook(Box::new(|_| ()));
    let rows = match (arguments.mutants, &workloads[..]) {
        (true, workloads) => {
            mutants(arguments, &schemes, workloads.first().copied().unwrap_or(Workload::Sps))
        }
        (false, []) => all(arguments, &schemes, &Workload::all_of(registry.workloads).collect::<Vec<_>>()),
        (false, workloads) => all(arguments, &schemes, workloads),
    };
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
        sum_up_mutants(arguments, &rows);
    } else {
        sum_up(arguments, &rows);
    }
    Ok(Finished { outcome, rows: rows.iter().map(|row| json_row(arguments, row)).collect() })
}

impl Arguments {
    fn schemes(&self, registry: Registry) -> Result<Vec<CheckedScheme>, Failure> {
        let all = schemes_of(registry.schemes);
        for name in &self.scheme {
            if !all.iter().any(|scheme| scheme.name == name) {
                let names: Vec<_> = all.iter().map(|scheme| scheme.name).collect();
                return Err(Failure::Usage(format!(
                    "there is no scheme {name:?} that promises durability; choose from {}",
                    names.join(", ")
                )));
            }
        }
        let wanted = |scheme: &CheckedScheme| {
            self.scheme.is_empty() || self.scheme.iter().any(|name| name == scheme.name)
        };
        Ok(all.into_iter().filter(wanted).collect())
    }

    fn settings(&self) -> Vec<Setting> {
        let wanted = |setting: &&Setting| self.setting.is_empty() || self.setting.contains(setting);
        Setting::ALL.iter().filter(wanted).copied().collect()
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
            histories: self.samples(),
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
    strandline_command::progress::spinner("{spinner} {elapsed} {msg}")
}

impl Arguments {
    /// The workloads asked for, among those of the checker and of a registry.
    pub(super) fn workloads(&self, registry: Registry) -> Result<Vec<Workload>, Failure> {
        let found: Result<_, _> =
            self.workload.iter().map(|name| Workload::of_name(registry.workloads, name)).collect();
        found.map_err(|unknown| Failure::Usage(unknown.to_string()))
    }

    /// Histories to sample.
    pub(super) fn samples(&self) -> u64 {
        self.samples.unwrap_or(100)
    }

    /// What is explored for one case: exhaustively within bounds, or by samples.
    fn ways(&self, case: &Case) -> Vec<Option<Bounds>> {
        let limit = Duration::from_secs(self.seconds);
        if self.exhaustive {
            return vec![Some(Bounds {
                preemptions: self.preemptions,
                transactions: self.transactions.unwrap_or(2),
                states: self.states,
                recovery_crashes: self.recovery_crashes,
                reduced: true,
                limit,
            })];
        }
        // Without further wishes small histories are explored exhaustively first, for a moment.
        let small = Bounds {
            preemptions: 1,
            transactions: if case.setting == Setting::Word { 1 } else { 2 },
            states: 1 << 20,
            recovery_crashes: 1,
            reduced: true,
            limit: limit.min(Duration::from_secs(3)),
        };
        let first = self.samples.is_none() && self.omit.is_none() && case.threads < 3;
        first.then_some(Some(small)).into_iter().chain([None]).collect()
    }
}

fn explore(
    arguments: &Arguments,
    case: Case,
    bounds: Option<Bounds>,
    bar: &ProgressBar,
) -> Result<Explored, Failure> {
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
    let session = &arguments.session;
    Ok(match bounds {
        Some(bounds) if !arguments.words.is_empty() => {
            exhaust_histories(case, &arguments.words, bounds, session, progress)?
        }
        Some(bounds) => exhaust(case, bounds, session, progress)?,
        None => sample(case, arguments.sampling(), session, progress)?,
    })
}

fn all(
    arguments: &Arguments,
    schemes: &[CheckedScheme],
    workloads: &[Workload],
) -> Result<Vec<Row>, Failure> {
    let omitted = arguments.omitted(schemes)?;
    let (bar, mut rows) = (progress_bar(), Vec::new());
    let names = names(schemes);
    let workload_names: Vec<_> = workloads.iter().map(|workload| workload.name().to_owned()).collect();
    let columns = [
        ("scheme", &names[..]),
        ("workload", &workload_names),
        ("setting", &[Setting::FlushOnFail.to_string()]),
        ("threads", &[]),
        ("mode", &["exhaustive".into()]),
        ("histories", &[]),
        ("crash points", &[]),
        ("equal", &wide()),
        ("in recovery", &[]),
        ("states", &wide()),
        ("nested", &wide()),
        ("cut short", &[]),
        ("states/s", &[]),
        ("verdict", &[]),
    ];
    let mut table = Rows::new(&columns, arguments.json, &bar);
    for case in cases(arguments, schemes, workloads, omitted) {
        for bounds in arguments.ways(&case) {
            if arguments.session.is_stopped() {
                break;
            }
            let mut explored = explore(arguments, case, bounds, &bar)?;
            if explored.violation.is_some() && bounds.is_none() {
                explored = smaller(arguments, case, explored, &bar)?;
            }
            let row = Row { case, explored, bounds };
            let violation = row.explored.violation.as_ref();
            let below = violation.map(|violation| told(arguments, &row, violation));
            table.add(&cells(&row), &below.unwrap_or_default());
            rows.push(row);
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

fn cases(
    arguments: &Arguments,
    schemes: &[CheckedScheme],
    workloads: &[Workload],
    omitted: Option<strandline_core::memory::Step>,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for &scheme in schemes {
        for &workload in workloads {
            for setting in arguments.settings() {
                for threads in arguments.threads() {
                    cases.push(Case { scheme, workload, threads, setting, omitted });
                }
            }
        }
    }
    cases
}

impl Arguments {
    fn omitted(&self, schemes: &[CheckedScheme]) -> Result<Option<strandline_core::memory::Step>, Failure> {
        let Some(name) = &self.omit else { return Ok(None) };
        let steps = schemes.iter().flat_map(|scheme| scheme.steps());
        let mut steps = steps;
        let found = steps.find(|step| format!("{step:?}") == *name);
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
    // One history is a replay.
    if arguments.samples == Some(1) {
        return Ok(found);
    }
    let counts = found.counts;
    let (seconds, cpu_seconds) = (found.seconds, found.cpu_seconds);
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
        let tried = sample(case, sampling, &arguments.session, |_| ())?;
        if tried.violation.is_some() {
            found = tried;
            break;
        }
    }
    (found.counts, found.seconds, found.cpu_seconds) = (counts, seconds, cpu_seconds);
    Ok(found)
}

/// Each mutant, until it is found out or its time is up; in the setting `word`, then `line`.
fn mutants(
    arguments: &Arguments,
    schemes: &[CheckedScheme],
    workload: Workload,
) -> Result<Vec<Row>, Failure> {
    let (bar, mut rows) = (progress_bar(), Vec::new());
    let names = names(schemes);
    let steps = schemes.iter().flat_map(CheckedScheme::steps).map(|step| format!("{step:?}"));
    let steps: Vec<_> = steps.collect();
    let columns = [
        ("scheme", &names[..]),
        ("without", &steps),
        ("setting", &[]),
        ("seconds", &[]),
        ("states", &wide()),
        ("verdict", &["NOT FOUND".into()]),
        ("what is wrong then", &[]),
    ];
    let mut table = Rows::new(&columns, arguments.json, &bar);
    let settings = if arguments.setting.is_empty() { &[Setting::Word][..] } else { &arguments.setting };
    let threads = arguments.threads.first().map_or(2, |&threads| threads.into());
    for &scheme in schemes {
        for step in scheme.steps() {
            for &setting in settings {
                if arguments.session.is_stopped() {
                    break;
                }
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
                let explored = sample(case, sampling, &arguments.session, |_| bar.tick())?;
                let row = Row { case, explored, bounds: None };
                table.add(&mutant_cells(&row), &[]);
                rows.push(row);
            }
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

fn replay(arguments: &Arguments, row: &Row) -> String {
    let case = &row.case;
    let mut command = format!(
        "strandline-lab check --scheme {} --workload {} --setting {} --threads {} --transactions {}",
        case.scheme.name,
        case.workload.name(),
        case.setting,
        case.threads,
        row.explored.transactions,
    );
    if let Some(step) = case.omitted {
        command += &format!(" --omit {step:?}");
    }
    if let Some(bounds) = row.bounds {
        if !arguments.words.is_empty() {
            let words: Vec<_> = arguments.words.iter().map(u32::to_string).collect();
            command += &format!(" --words {}", words.join(","));
        }
        command
            + &format!(
                " --exhaustive --preemptions {} --states {} --recovery-crashes {} --seconds {}",
                bounds.preemptions,
                bounds.states,
                bounds.recovery_crashes,
                bounds.limit.as_secs()
            )
    } else {
        command + &format!(" --seed {} --samples 1", row.explored.seed)
    }
}

/// A violation, as it stands below its row.
fn told(arguments: &Arguments, row: &Row, violation: &Violation) -> Vec<String> {
    let indented = |lines: &[String]| lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>();
    [
        vec![format!("VIOLATION: {}", violation.what), "\nhistory up to the crash:".into()],
        indented(&violation.history),
        vec!["\nstored, but lost:".into()],
        indented(&violation.lost),
        vec![format!("\nmissing in effect: {}", violation.missing), "\nrecovery:".into()],
        indented(&violation.recovery),
        vec![format!("\nreplay: {}\n", replay(arguments, row))],
    ]
    .concat()
}

fn names(schemes: &[CheckedScheme]) -> Vec<String> {
    schemes.iter().map(|scheme| scheme.name.to_owned()).collect()
}

/// A count that is not unusual.
pub(super) fn wide() -> [String; 1] {
    ["00000000".into()]
}

fn cells(Row { case, explored, bounds }: &Row) -> [String; 14] {
    let counts = &explored.counts;
    [
        case.scheme.name.to_owned(),
        case.workload.name().to_owned(),
        case.setting.to_string(),
        case.threads.to_string(),
        if bounds.is_some() { "exhaustive" } else { "sampled" }.to_owned(),
        counts.histories.to_string(),
        counts.points.to_string(),
        counts.equal_points.to_string(),
        counts.recovery_points.to_string(),
        counts.states.to_string(),
        counts.nested.to_string(),
        counts.cut_short.to_string(),
        format!("{:.0}", explored.states_per_second()),
        if explored.violation.is_some() { "VIOLATED" } else { "ok" }.to_owned(),
    ]
}

fn sum_up(arguments: &Arguments, rows: &[Row]) {
    let states: u64 = rows.iter().map(|row| row.explored.counts.states).sum();
    let seconds: f64 = rows.iter().map(|row| row.explored.seconds).sum();
    let processor: f64 = rows.iter().map(|row| row.explored.cpu_seconds).sum();
    say!(
        "\n{states} crash states judged in {seconds:.1} s ({processor:.1} s of processor time): {:.0} states/s; seed {}",
        states as f64 / processor.max(1e-9),
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

fn mutant_cells(row: &Row) -> [String; 7] {
    let what = row.explored.violation.as_ref().map_or("", |violation| violation.what.as_str());
    [
        row.case.scheme.name.to_owned(),
        row.case.omitted.map_or(String::new(), |step| format!("{step:?}")),
        row.case.setting.to_string(),
        format!("{:.2}", row.explored.seconds),
        row.explored.counts.states.to_string(),
        mutant_verdict(row),
        what.chars().take(90).collect(),
    ]
}

fn sum_up_mutants(arguments: &Arguments, rows: &[Row]) {
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
    let Row { case, explored, bounds } = row;
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
        "exhaustive": bounds.is_some(),
    })
}
