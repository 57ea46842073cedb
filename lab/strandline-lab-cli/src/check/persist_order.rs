//! `--world persist-order`: crashes under the persistency models, and the table of necessary barriers.

use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::{Value, json};
use strandline_core::scheme::Barrier;
use strandline_scheme_check::persist_order::{OrderedScheme, Outcome as Explored, Sampling, schemes_of};
use strandline_sim::Registry;

use super::campaign::{Asked, Column, Expected, Table, Unit, count, indented, is_violated, parts, text};
use super::schemes::{self, Arguments, WIDE};
use strandline_command::Failure;

/// The number of states that are searched at one crash point before the rest is sampled.
const STATES: u64 = 2000;

/// One line of the table: a scheme with all its barriers, or without one.
struct Row {
    scheme: OrderedScheme,
    without: Option<Barrier>,
    explored: Explored,
}

impl Row {
    fn verdict(&self) -> &'static str {
        match (self.without, &self.explored.violation) {
            (None, None) => "sufficient",
            (None, Some(_)) => "VIOLATED",
            (Some(_), Some(_)) => "necessary",
            (Some(_), None) => "NOT FOUND",
        }
    }
}

/// Returns the units to explore: each scheme, and with `--mutants` each scheme without one of its barriers.
///
/// # Errors
/// Returns an error if a flag names something that does not exist.
pub fn units<'a>(arguments: &'a Arguments, registry: Registry) -> Result<Vec<Unit<'a>>, Failure> {
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
    let (mut units, mut row) = (Vec::new(), 0);
    for scheme in schemes {
        let barriers = scheme.mutants().into_iter().map(Some).filter(|_| arguments.mutants);
        for without in std::iter::once(None).chain(barriers) {
            // A mutant may take as many histories as its time permits.
            let endless = || vec![(sampling.seed, u64::MAX)];
            let parts = without.map_or_else(|| parts(sampling.seed, sampling.histories), |_| endless());
            for (seed, histories) in parts {
                let share =
                    if without.is_some() { 1.0 } else { histories as f64 / sampling.histories as f64 };
                let limit = sampling.limit.mul_f64(share);
                units.push(unit(
                    arguments,
                    row,
                    scheme,
                    without,
                    Sampling { histories, seed, limit, ..sampling },
                ));
            }
            row += 1;
        }
    }
    Ok(units)
}

fn unit<'a>(
    arguments: &'a Arguments,
    row: usize,
    scheme: OrderedScheme,
    without: Option<Barrier>,
    sampling: Sampling,
) -> Unit<'a> {
    let key = json!({
        "world": "persist-order",
        "scheme": scheme.name(),
        "without": without.map(|barrier| barrier.name),
        "step": without.map(|barrier| format!("{:?}", barrier.step)),
        "sampled": {
            "seed": sampling.seed,
            "histories": sampling.histories,
            "states": sampling.states,
            "seconds": sampling.limit.as_secs_f64(),
        },
    });
    let explore = move |bar: &ProgressBar| {
        let name = without.map_or("all barriers".to_owned(), |barrier| format!("without {}", barrier.name));
        let step = without.map(|barrier| barrier.step);
        let explored = scheme.explore(step, sampling, &arguments.session, |counts| {
            bar.set_message(format!("{} {name}: {} states", scheme.name(), counts.states));
            bar.tick();
        })?;
        Ok(Some(json_row(&Row { scheme, without, explored })))
    };
    Unit { row, key, explore: Some(Box::new(explore)) }
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

/// The table of schemes and their barriers.
pub static TABLE: Table = Table {
    columns: &[
        Column { header: "scheme", cell: schemes::scheme, expected: Expected::Keys },
        Column { header: "without", cell: without, expected: Expected::Nothing },
        Column { header: "step", cell: |row, _| text(row, "step").to_owned(), expected: Expected::Keys },
        Column { header: "histories", cell: schemes::histories, expected: Expected::Nothing },
        Column { header: "crash points", cell: schemes::points, expected: Expected::Nothing },
        Column { header: "states", cell: schemes::states, expected: Expected::Text(WIDE) },
        Column { header: "cut short", cell: schemes::cut_short, expected: Expected::Nothing },
        Column { header: "seconds", cell: schemes::seconds, expected: Expected::Nothing },
        Column {
            header: "verdict",
            cell: |row, _| text(row, "verdict").to_owned(),
            expected: Expected::Text("sufficient"),
        },
        Column { header: "what is wrong then", cell: schemes::what, expected: Expected::Nothing },
    ],
    below,
    is_wrong: |row, _| is_wrong(row),
    summary,
};

/// Returns whether a scheme with all barriers has a violation, or one without a barrier has none.
fn is_wrong(row: &Value) -> bool {
    is_violated(row) == row["without"].is_null()
}

fn without(row: &Value, _: &Asked) -> String {
    row["without"].as_str().unwrap_or("–").to_owned()
}

/// Returns the lines of a violation below its row, if it is unexpected or was requested.
fn below(row: &Value, asked: &Asked) -> Vec<String> {
    if !is_violated(row) || !(is_wrong(row) || asked.one) {
        return Vec::new();
    }
    let violation = &row["violation"];
    [
        vec![
            format!("{}: {}", text(row, "scheme"), text(violation, "what")),
            format!("\nhistory up to the crash (seed {}):", violation["seed"]),
        ],
        indented(row, "history"),
        vec!["\nstored, but lost:".into()],
        indented(row, "lost"),
        vec![String::new()],
    ]
    .concat()
}

fn summary(rows: &[Value], asked: &Asked) -> String {
    let states: u64 = rows.iter().map(|row| count(row, "states")).sum();
    format!("{states} crash states judged; seed {}", asked.seed)
}

fn json_row(row: &Row) -> Value {
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
