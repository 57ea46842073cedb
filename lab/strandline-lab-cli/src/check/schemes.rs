//! Schemes × workloads × settings, exhaustively or by samples, and mutants.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use strandline_check::{Session, Setting};
use strandline_scheme_check::explore::{
    Bounds, Case, CheckedScheme, Counts, Outcome as Explored, Sampling, Workload, exhaust, exhaust_histories,
    sample, schemes_of,
};
use strandline_sim::Registry;

use super::campaign::{
    Asked, Column, Expected, Table, Unit, count, indented, is_violated, number, parts, text,
};
use strandline_command::arguments;
use strandline_command::{Failure, interrupt};

#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Schemes, separated by commas, by the names of `strandline-lab list` [default: all that promise durability]
    #[arg(long, value_delimiter = ',')]
    pub(super) scheme: Vec<String>,
    /// sps, hash, rbtree, bplustree, bplustree-sorted, btree-sorted, kvstore, allocator, typed, or a registered workload,
    /// separated by commas [default: all; with --mutants sps, or several on the machine]
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
    /// line, word, flush-on-fail, separated by commas [default: all that the scheme claims to survive]
    #[arg(long, value_delimiter = ',')]
    pub(super) setting: Vec<Setting>,
    /// Numbers of threads that run transactions, 1 to 4, separated by commas [default: 1,2,3, or 2 with --exhaustive]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = arguments::number(1..=4u8))]
    pub(super) threads: Vec<u8>,
    /// Explore all schedules, crash points and surviving states within the bounds, instead of samples
    #[arg(long)]
    pub(super) exhaustive: bool,
    /// With --exhaustive: preemptions in a schedule, at most; 0 to 100
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = arguments::number(0..=100u32))]
    pub(super) preemptions: u32,
    /// Transactions of each thread, 1 to 10000: exactly this number with --exhaustive [default: 2], otherwise at most this number [default: 24]
    #[arg(long, value_name = "N", value_parser = arguments::number(1..=10_000u32))]
    pub(super) transactions: Option<u32>,
    /// With --exhaustive: states judged at one crash point, at most; 1 to 1000000000
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = arguments::number(1..=1_000_000_000u64))]
    pub(super) states: u64,
    /// With --exhaustive: power failures during recovery, each in the recovery from the one before, at most; 0 to 10
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = arguments::number(0..=10usize))]
    pub(super) recovery_crashes: usize,
    /// With --exhaustive: explore every history of a new pool with logs of twelve records in which each transaction writes one of these numbers of
    /// words, 1 to 1000, and commits or aborts
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "exhaustive", value_parser = arguments::number(1..=1000u32))]
    pub(super) words: Vec<u32>,
    /// Histories to sample for each combination, 1 to 1000000000000 [default: 100, after a short exhaustive exploration of
    /// small histories]
    #[arg(long, value_name = "N", value_parser = arguments::number(1..=1_000_000_000_000u64))]
    pub(super) samples: Option<u64>,
    /// The seed of the first history
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Leave out every step of the scheme, one at a time, and check that the omission is found
    #[arg(long)]
    pub(super) mutants: bool,
    /// Leave out this step, by its name in the code
    #[arg(long)]
    pub(super) omit: Option<String>,
    /// With --world machine: a parameter of the hardware scheme, such as scheme.speculation=4; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Seconds for one combination or one mutant, at most; 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = arguments::number(1..=1_000_000u64))]
    pub(super) seconds: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// The session that can end the check; by default a signal does.
    #[arg(skip = Session::stopped_by(interrupt::flag()))]
    pub session: Session,
}

/// The result of a case.
struct Row {
    case: Case,
    explored: Explored,
    /// The bounds of an exhaustive exploration.
    bounds: Option<Bounds>,
}

/// Returns the units to explore: each case in each of its ways, or each mutant.
///
/// # Errors
/// Returns an error if a flag names something that does not exist.
pub fn units<'a>(arguments: &'a Arguments, registry: Registry) -> Result<Vec<Unit<'a>>, Failure> {
    let schemes = arguments.schemes(registry)?;
    let workloads = arguments.workloads(registry)?;
    if arguments.mutants {
        return Ok(mutants(arguments, &schemes, workloads.first().copied().unwrap_or(Workload::Sps)));
    }
    match &workloads[..] {
        [] => all(arguments, &schemes, &Workload::all_of(registry.workloads).collect::<Vec<_>>()),
        workloads => all(arguments, &schemes, workloads),
    }
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
    strandline_command::progress::spinner()
}

impl Arguments {
    /// Returns the requested workloads, among those of the checker and of a registry.
    pub(super) fn workloads(&self, registry: Registry) -> Result<Vec<Workload>, Failure> {
        let found: Result<_, _> =
            self.workload.iter().map(|name| Workload::of_name(registry.workloads, name)).collect();
        found.map_err(|unknown| Failure::Usage(unknown.to_string()))
    }

    /// Returns how many histories to sample.
    pub(super) fn samples(&self) -> u64 {
        self.samples.unwrap_or(100)
    }

    /// Returns whether only one history is explored, as by the command that a violation prints.
    pub(super) fn is_replay(&self) -> bool {
        self.samples == Some(1)
    }

    /// Returns the ways to explore a case: exhaustively within bounds, or by samples.
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
        // By default small histories are explored exhaustively first, for a moment.
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

/// How a case is explored.
enum Way {
    Within(Bounds),
    Sampled(Sampling),
}

fn explore(arguments: &Arguments, case: Case, way: Way, bar: &ProgressBar) -> Result<Explored, Failure> {
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
    Ok(match way {
        Way::Within(bounds) if !arguments.words.is_empty() => {
            exhaust_histories(case, &arguments.words, bounds, session, progress)?
        }
        Way::Within(bounds) => exhaust(case, bounds, session, progress)?,
        Way::Sampled(sampling) => sample(case, sampling, session, progress)?,
    })
}

fn all<'a>(
    arguments: &'a Arguments,
    schemes: &[CheckedScheme],
    workloads: &[Workload],
) -> Result<Vec<Unit<'a>>, Failure> {
    let omitted = arguments.omitted(schemes)?;
    let (mut units, mut row) = (Vec::new(), 0);
    for case in cases(arguments, schemes, workloads, omitted) {
        for bounds in arguments.ways(&case) {
            match bounds {
                Some(bounds) => units.push(exhaustive(arguments, row, case, bounds)),
                None => units.extend(sampled(arguments, row, case)),
            }
            row += 1;
        }
    }
    Ok(units)
}

/// Returns the columns of a case that a unit's key contains.
fn key(case: &Case) -> Value {
    json!({
        "world": "x86",
        "scheme": case.scheme.name,
        "workload": case.workload.name(),
        "setting": case.setting.name(),
        "threads": case.threads,
        "omitted": case.omitted.map(|step| format!("{step:?}")),
    })
}

fn exhaustive<'a>(arguments: &'a Arguments, row: usize, case: Case, bounds: Bounds) -> Unit<'a> {
    let mut key = key(&case);
    key["exhaustive"] = json!({
        "preemptions": bounds.preemptions,
        "transactions": bounds.transactions,
        "states": bounds.states,
        "recovery_crashes": bounds.recovery_crashes,
        "words": arguments.words,
        "seconds": bounds.limit.as_secs_f64(),
    });
    let explore = move |bar: &ProgressBar| {
        let explored = explore(arguments, case, Way::Within(bounds), bar)?;
        Ok(Some(json_row(arguments, &Row { case, explored, bounds: Some(bounds) })))
    };
    Unit { row, key, explore: Some(Box::new(explore)) }
}

/// Returns the units that sample a case, each with its part of the time.
fn sampled<'a>(arguments: &'a Arguments, row: usize, case: Case) -> impl Iterator<Item = Unit<'a>> {
    let whole = arguments.sampling();
    parts(whole.seed, whole.histories).into_iter().map(move |(seed, histories)| {
        let limit = whole.limit.mul_f64(histories as f64 / whole.histories as f64);
        let sampling = Sampling { histories, seed, limit, ..whole };
        let mut key = key(&case);
        key["sampled"] = json!({
            "seed": seed,
            "histories": histories,
            "transactions": sampling.transactions,
            "seconds": limit.as_secs_f64(),
        });
        let explore = move |bar: &ProgressBar| {
            let mut explored = explore(arguments, case, Way::Sampled(sampling), bar)?;
            if explored.violation.is_some() {
                explored = smaller(arguments, case, explored, bar)?;
            }
            Ok(Some(json_row(arguments, &Row { case, explored, bounds: None })))
        };
        Unit { row, key, explore: Some(Box::new(explore)) }
    })
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

/// Looks for the same kind of violation in smaller histories, for some seconds.
fn smaller(
    arguments: &Arguments,
    case: Case,
    mut found: Explored,
    bar: &ProgressBar,
) -> Result<Explored, Failure> {
    if arguments.is_replay() {
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

/// Returns the units of the mutants. Each runs until its omission is found or its time is up, in the setting `word` and then `line`.
fn mutants<'a>(arguments: &'a Arguments, schemes: &[CheckedScheme], workload: Workload) -> Vec<Unit<'a>> {
    let settings = if arguments.setting.is_empty() { &[Setting::Word][..] } else { &arguments.setting };
    let threads = arguments.threads.first().map_or(2, |&threads| threads.into());
    let mut units = Vec::new();
    for &scheme in schemes {
        for step in scheme.steps() {
            for &setting in settings {
                let case = Case { scheme, workload, threads, setting, omitted: Some(step) };
                // Steps known to be redundant get a tenth of the time.
                let tenth = if redundant(&case).is_some() { 10 } else { 1 };
                let limit = Duration::from_secs(arguments.seconds) / tenth;
                let sampling = Sampling { histories: u64::MAX, limit, ..arguments.sampling() };
                let mut key = key(&case);
                key["sampled"] = json!({
                    "seed": sampling.seed,
                    "transactions": sampling.transactions,
                    "seconds": limit.as_secs_f64(),
                });
                let explore = move |bar: &ProgressBar| {
                    bar.set_message(format!("{} without {step:?}", scheme.name));
                    bar.tick();
                    let explored = sample(case, sampling, &arguments.session, |_| bar.tick())?;
                    Ok(Some(json_row(arguments, &Row { case, explored, bounds: None })))
                };
                units.push(Unit { row: units.len(), key, explore: Some(Box::new(explore)) });
            }
        }
    }
    units
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

/// The table of cases.
pub static TABLE: Table = Table {
    columns: &[
        Column { header: "scheme", cell: scheme, expected: Expected::Keys },
        Column { header: "workload", cell: workload, expected: Expected::Keys },
        Column { header: "setting", cell: setting, expected: Expected::Text("flush-on-fail") },
        Column { header: "threads", cell: threads, expected: Expected::Nothing },
        Column { header: "mode", cell: mode, expected: Expected::Text("exhaustive") },
        Column { header: "histories", cell: histories, expected: Expected::Nothing },
        Column { header: "crash points", cell: points, expected: Expected::Nothing },
        Column { header: "equal", cell: equal_points, expected: Expected::Text(WIDE) },
        Column { header: "in recovery", cell: recovery_points, expected: Expected::Nothing },
        Column { header: "states", cell: states, expected: Expected::Text(WIDE) },
        Column { header: "nested", cell: nested, expected: Expected::Text(WIDE) },
        Column { header: "cut short", cell: cut_short, expected: Expected::Nothing },
        Column { header: "states/s", cell: states_per_second, expected: Expected::Nothing },
        Column { header: "verdict", cell: verdict, expected: Expected::Nothing },
    ],
    below,
    is_wrong: |row, _| is_violated(row),
    summary,
};

/// The table of mutants.
pub static MUTANTS: Table = Table {
    columns: &[
        Column { header: "scheme", cell: scheme, expected: Expected::Keys },
        Column { header: "without", cell: without, expected: Expected::Keys },
        Column { header: "setting", cell: setting, expected: Expected::Nothing },
        Column { header: "seconds", cell: seconds, expected: Expected::Nothing },
        Column { header: "states", cell: states, expected: Expected::Text(WIDE) },
        Column { header: "verdict", cell: mutant_verdict, expected: Expected::Text("NOT FOUND") },
        Column { header: "what is wrong then", cell: what, expected: Expected::Nothing },
    ],
    below: |_, _| Vec::new(),
    is_wrong: |row, _| !is_violated(row) && row["redundant"].is_null(),
    summary: sum_up_mutants,
};

/// The width of an ordinary count.
pub(super) const WIDE: &str = "00000000";

// Table cells that several worlds have.

pub(super) fn scheme(row: &Value, _: &Asked) -> String {
    text(row, "scheme").to_owned()
}

pub(super) fn workload(row: &Value, _: &Asked) -> String {
    text(row, "workload").to_owned()
}

pub(super) fn without(row: &Value, _: &Asked) -> String {
    text(row, "omitted").to_owned()
}

pub(super) fn threads(row: &Value, _: &Asked) -> String {
    row["threads"].to_string()
}

pub(super) fn histories(row: &Value, _: &Asked) -> String {
    count(row, "histories").to_string()
}

pub(super) fn points(row: &Value, _: &Asked) -> String {
    count(row, "points").to_string()
}

pub(super) fn equal_points(row: &Value, _: &Asked) -> String {
    count(row, "equal_points").to_string()
}

pub(super) fn recovery_points(row: &Value, _: &Asked) -> String {
    count(row, "recovery_points").to_string()
}

pub(super) fn states(row: &Value, _: &Asked) -> String {
    count(row, "states").to_string()
}

pub(super) fn cut_short(row: &Value, _: &Asked) -> String {
    count(row, "cut_short").to_string()
}

pub(super) fn seconds(row: &Value, _: &Asked) -> String {
    format!("{:.2}", number(row, "seconds"))
}

pub(super) fn states_per_second(row: &Value, _: &Asked) -> String {
    format!("{:.0}", number(row, "states_per_s"))
}

/// Returns what is wrong, shortened to fit the line.
pub(super) fn what(row: &Value, _: &Asked) -> String {
    text(&row["violation"], "what").chars().take(90).collect()
}

fn setting(row: &Value, _: &Asked) -> String {
    text(row, "setting").to_owned()
}

fn mode(row: &Value, _: &Asked) -> String {
    if row["exhaustive"] == true { "exhaustive" } else { "sampled" }.to_owned()
}

fn nested(row: &Value, _: &Asked) -> String {
    count(row, "nested").to_string()
}

fn verdict(row: &Value, _: &Asked) -> String {
    if is_violated(row) { "VIOLATED" } else { "ok" }.to_owned()
}

fn mutant_verdict(row: &Value, _: &Asked) -> String {
    match row["redundant"].as_str() {
        _ if is_violated(row) => "found".into(),
        Some(why) => format!("redundant: {why}"),
        None => "NOT FOUND".into(),
    }
}

/// Returns the lines of a violation below its row.
fn below(row: &Value, _: &Asked) -> Vec<String> {
    if !is_violated(row) {
        return Vec::new();
    }
    let violation = &row["violation"];
    [
        vec![format!("VIOLATION: {}", text(violation, "what")), "\nhistory up to the crash:".into()],
        indented(row, "history"),
        vec!["\nstored, but lost:".into()],
        indented(row, "lost"),
        vec![format!("\nmissing in effect: {}", text(violation, "missing")), "\nrecovery:".into()],
        indented(row, "recovery"),
        vec![format!("\nreplay: {}\n", text(row, "replay"))],
    ]
    .concat()
}

fn summary(rows: &[Value], asked: &Asked) -> String {
    let states: u64 = rows.iter().map(|row| count(row, "states")).sum();
    let [seconds, processor] =
        ["seconds", "cpu_seconds"].map(|name| rows.iter().map(|row| number(row, name)).sum::<f64>());
    format!(
        "{states} crash states judged in {seconds:.1} s ({processor:.1} s of processor time): {:.0} states/s; seed {}",
        states as f64 / processor.max(1e-9),
        asked.seed
    )
}

fn sum_up_mutants(rows: &[Value], asked: &Asked) -> String {
    let found = rows.iter().filter(|row| is_violated(row)).count();
    let redundant = rows.iter().filter(|row| !is_violated(row) && !row["redundant"].is_null());
    format!("{found} of {} mutants found, {} redundant; seed {}", rows.len(), redundant.count(), asked.seed)
}

fn json_row(arguments: &Arguments, row: &Row) -> Value {
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
        "cpu_seconds": explored.cpu_seconds,
        "states_per_s": explored.states_per_second(),
        "violation": explored.violation,
        "replay": explored.violation.is_some().then(|| replay(arguments, row)),
        "exhaustive": bounds.is_some(),
    })
}
