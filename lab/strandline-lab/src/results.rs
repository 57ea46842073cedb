//! `results.json`: a row for each claim, the series of the figures, the machine and the commit.

use serde_json::{Value, json};

use crate::claim::Claim;
use crate::finding::{At, Beside, Finding, Measured};
use crate::machine::Machine;
use crate::paper::Paper;
use crate::reproduce::Evaluation;
use crate::session::Effort;
use crate::verdict::Score;

/// The version of the object's format. It increases when a field is removed or changes its meaning.
const SCHEMA: u32 = 2;

/// Returns the complete results of a run in the form of `results.json`.
pub fn json(evaluations: &[&Evaluation], machine: &Machine, commit: Option<&str>, command: &str) -> Value {
    let claims: Vec<_> = evaluations
        .iter()
        .flat_map(|evaluation| {
            evaluation.rows.iter().map(|(claim, finding)| row(evaluation.paper, claim, finding))
        })
        .collect();
    let papers: Vec<_> = evaluations
        .iter()
        .map(|evaluation| {
            json!({
                "paper": evaluation.paper.name,
                "effort": match evaluation.effort {
                    Effort::Full => "full",
                    Effort::Quick => "quick",
                    Effort::Trial => "trial",
                },
                "repetitions": evaluation.pace.repetitions,
                "seconds_of_each": evaluation.pace.duration.as_secs_f64(),
                "seed": evaluation.seed,
                "finished": evaluation.finished,
                "seconds": evaluation.seconds,
                "processor_seconds": evaluation.processor_seconds,
                "processor_seconds_of_figures": evaluation
                    .of_figures
                    .iter()
                    .map(|&(figure, seconds)| (figure.to_owned(), json!(seconds)))
                    .collect::<serde_json::Map<_, _>>(),
                "score": score(&evaluation.score()),
                "readings": evaluation
                    .readings()
                    .into_iter()
                    .map(|(letter, reading, with)| {
                        json!({
                            "reading": letter,
                            "set": reading.set,
                            "where": reading.place,
                            "says": reading.says,
                            "score": score(&with),
                        })
                    })
                    .collect::<Vec<_>>(),
                "series": evaluation.measurements,
            })
        })
        .collect();
    json!({
        "schema": SCHEMA,
        "claims": claims,
        "machine": machine,
        "commit": commit,
        "command": command,
        "papers": papers,
    })
}

/// Returns how many claims have which verdict; the measured ones are separate from the given ones.
fn score(score: &Score) -> Value {
    let verdicts =
        Score::VERDICTS.into_iter().map(|verdict| (verdict.key().to_owned(), json!(score.with(verdict))));
    json!({
        "measured": verdicts.collect::<serde_json::Map<_, _>>(),
        "given": { "claims": score.given(), "holds": score.given_that_hold() },
        "calibrated": score.calibrated(),
    })
}

fn row(paper: &Paper, claim: &Claim, finding: &Finding) -> Value {
    let mut row = json!({
        "id": claim.id,
        "where": claim.place,
        "what": claim.what,
        "paper": claim.value,
        "measured": measured(&finding.measured),
        "verdict": finding.verdict,
        "noisy": finding.noisy,
        "basis": paper.claim(&claim.id).map(|spec| spec.basis),
        "judged": paper.claim(&claim.id).map(|spec| spec.venue),
        "method": finding.method,
        "kind": claim.kind,
        "unit": claim.unit,
    });
    let mut add = |name: &str, value: Value| {
        if let Some(row) = row.as_object_mut() {
            row.insert(name.into(), value);
        }
    };
    if !finding.orders.is_empty() {
        add("orders", json!(finding.orders));
    }
    if !finding.beside.is_empty() {
        let beside = finding.beside.iter().map(|beside| {
            let Beside { setting, measured: numbers, verdict } = beside;
            json!({ "setting": setting, "measured": measured(numbers), "verdict_would_be": verdict })
        });
        add("beside", beside.collect());
    }
    let readings: Vec<_> = finding
        .with_readings()
        .map(|(letter, reading, finding)| {
            let (numbers, verdict) = (measured(&finding.measured), finding.verdict);
            json!({ "reading": letter, "set": reading.set, "measured": numbers, "verdict": verdict })
        })
        .collect();
    if !readings.is_empty() {
        add("readings", readings.into());
    }
    let asked: Vec<_> = finding
        .interval
        .iter()
        .filter(|at| at.setting.reading().is_none())
        .map(|At { setting, finding }| {
            let (numbers, verdict) = (measured(&finding.measured), finding.verdict);
            json!({ "set": setting.set(), "measured": numbers, "verdict": verdict })
        })
        .collect();
    if !asked.is_empty() {
        add("interval", asked.into());
        let holds: serde_json::Map<_, _> =
            finding.holds_for().into_iter().map(|(key, values)| (key.to_owned(), json!(values))).collect();
        add("holds_for", holds.into());
    }
    if !finding.seeds.is_empty() {
        add("seeds", json!(finding.seeds));
    }
    if !finding.notes.is_empty() {
        add("notes", json!(finding.notes));
    }
    row
}

/// Returns a single number as itself, several as a list, named ones as an object, and null if there are none.
fn measured(measured: &Measured) -> Value {
    match measured {
        Measured::Numbers(numbers) => match numbers.as_slice() {
            [] => Value::Null,
            [number] => json!(number),
            numbers => json!(numbers),
        },
        Measured::Named(numbers) if numbers.is_empty() => Value::Null,
        Measured::Named(numbers) => {
            Value::Object(numbers.iter().map(|(name, number)| (name.clone(), json!(number))).collect())
        }
    }
}
