//! `--world persist-order`: crashes under the persistency models, and the table of necessary barriers.

use std::time::Duration;
use strandline_command::say;

use serde_json::json;
use strandline_core::scheme::Barrier;
use strandline_scheme_check::persist_order::{OrderedScheme, Outcome as Explored, Sampling, schemes_of};
use strandline_sim::Registry;

use super::Finished;
use super::rows::Rows;
use super::schemes::{Arguments, progress_bar, wide};
use strandline_command::{Failure, Outcome};

/// States searched at one crash point before the rest is sampled.
const STATES: u64 = 2000;

/// One line of the table: a scheme with all its barriers, or without one.
struct Row {
    scheme: OrderedScheme,
    without: Option<Barrier>,
    explored: Explored,
}

impl Row {
    /// Whether it is as it should be: nothing found with all barriers, something found without one.
    fn is_right(&self) -> bool {
        self.explored.violation.is_some() == self.without.is_some()
    }

    fn verdict(&self) -> &'static str {
        match (self.without, &self.explored.violation) {
            (None, None) => "sufficient",
            (None, Some(_)) => "VIOLATED",
            (Some(_), Some(_)) => "necessary",
            (Some(_), None) => "NOT FOUND",
        }
    }
}

/// Runs it.
///
/// # Errors
/// A flag names what there is not.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Finished, Failure> {
    let unused = [
        ("--workload", !arguments.workloads(registry)?.is_empty()),
        ("--setting", !arguments.setting.is_empty()),
        ("--threads", !arguments.threads.is_empty()),
        ("--transactions", arguments.transactions.is_some()),
        ("--exhaustive", arguments.exhaustive),
        ("--omit", arguments.omit.is_some()),
    ];
    if let Some((flag, _)) = unused.iter().find(|(_, given)| *given) {
        return Err(Failure::Usage(format!("the world persist-order knows no {flag}: leave it out")));
    }
    let schemes = wanted(&arguments.scheme, registry)?;
    let sampling = Sampling {
        histories: arguments.samples(),
        seed: arguments.seed,
        states: STATES,
        limit: Duration::from_secs(arguments.seconds),
    };
    // Panics of mutants are caught and reported as what they are.
    std::panic::set_hook(Box::new(|_| ()));
    let rows = rows(arguments, &schemes, sampling);
    let _ = std::panic::take_hook();
    let rows = rows?;
    if !arguments.json {
        sum_up(arguments, &rows);
    }
    let outcome = if rows.iter().all(Row::is_right) { Outcome::Success } else { Outcome::Finding };
    Ok(Finished { outcome, rows: rows.iter().map(json_row).collect() })
}

fn wanted(names: &[String], registry: Registry) -> Result<Vec<OrderedScheme>, Failure> {
    let all = schemes_of(registry.schemes);
    for name in names {
        if !all.iter().any(|scheme| scheme.name() == name) {
            let all: Vec<_> = all.iter().map(OrderedScheme::name).collect();
            return Err(Failure::Usage(format!(
                "no scheme {name:?} is checked in the world persist-order; choose from {}",
                all.join(", ")
            )));
        }
    }
    let is_wanted = |scheme: &OrderedScheme| names.is_empty() || names.iter().any(|n| n == scheme.name());
    Ok(all.into_iter().filter(is_wanted).collect())
}

fn rows(arguments: &Arguments, schemes: &[OrderedScheme], sampling: Sampling) -> Result<Vec<Row>, Failure> {
    let bar = progress_bar();
    let mut rows = Vec::new();
    let names: Vec<_> = schemes.iter().map(|scheme| scheme.name().to_owned()).collect();
    let steps = schemes.iter().flat_map(OrderedScheme::mutants).filter(|_| arguments.mutants);
    let steps: Vec<_> = steps.map(|barrier| format!("{:?}", barrier.step)).collect();
    let columns = [
        ("scheme", &names[..]),
        ("without", &[]),
        ("step", &steps),
        ("histories", &[]),
        ("crash points", &[]),
        ("states", &wide()),
        ("cut short", &[]),
        ("seconds", &[]),
        ("verdict", &["sufficient".into()]),
        ("what is wrong then", &[]),
    ];
    let mut table = Rows::new(&columns, arguments.json, &bar);
    for &scheme in schemes {
        let barriers = scheme.mutants().into_iter().map(Some).filter(|_| arguments.mutants);
        for without in std::iter::once(None).chain(barriers) {
            let name =
                without.map_or("all barriers".to_owned(), |barrier| format!("without {}", barrier.name));
            // A mutant may take as many histories as its time allows.
            let histories = if without.is_some() { u64::MAX } else { sampling.histories };
            let explored = scheme.explore(
                without.map(|barrier| barrier.step),
                Sampling { histories, ..sampling },
                &arguments.session,
                |counts| {
                    bar.set_message(format!("{} {name}: {} states", scheme.name(), counts.states));
                    bar.tick();
                },
            )?;
            let row = Row { scheme, without, explored };
            table.add(&cells(&row), &told(arguments, &row));
            rows.push(row);
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

/// A violation that nobody expects or that somebody asks for, as it stands below its row.
fn told(arguments: &Arguments, row: &Row) -> Vec<String> {
    let asked = !row.is_right() || arguments.samples == Some(1);
    let Some(violation) = row.explored.violation.as_ref().filter(|_| asked) else { return Vec::new() };
    let indented = |lines: &[String]| lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>();
    [
        vec![
            format!("{}: {}", row.scheme.name(), violation.what),
            format!("\nhistory up to the crash (seed {}):", violation.seed),
        ],
        indented(&violation.history),
        vec!["\nstored, but lost:".into()],
        indented(&violation.lost),
        vec![String::new()],
    ]
    .concat()
}

fn cells(row: &Row) -> [String; 10] {
    let counts = &row.explored.counts;
    let what = row.explored.violation.as_ref().map_or("", |violation| violation.what.as_str());
    [
        row.scheme.name().to_owned(),
        row.without.map_or("–", |barrier| barrier.name).to_owned(),
        row.without.map_or(String::new(), |barrier| format!("{:?}", barrier.step)),
        counts.histories.to_string(),
        counts.points.to_string(),
        counts.states.to_string(),
        counts.cut_short.to_string(),
        format!("{:.2}", row.explored.seconds),
        row.verdict().to_owned(),
        what.chars().take(80).collect(),
    ]
}

fn sum_up(arguments: &Arguments, rows: &[Row]) {
    let states: u64 = rows.iter().map(|row| row.explored.counts.states).sum();
    say!("\n{states} crash states judged; seed {}", arguments.seed);
}

fn json_row(row: &Row) -> serde_json::Value {
    json!({
        "world": "persist-order",
        "scheme": row.scheme.name(),
        "model": row.scheme.model.name(),
        "without": row.without.map(|barrier| barrier.name),
        "step": row.without.map(|barrier| format!("{:?}", barrier.step)),
        "within_transaction": row.without.map(|barrier| barrier.within),
        "counts": row.explored.counts,
        "seconds": row.explored.seconds,
        "verdict": row.verdict(),
        "violation": row.explored.violation,
    })
}
