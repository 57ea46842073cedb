//! An overview of all papers: a page with the verdict of every claim, and a scoreboard in Markdown.

use std::fmt::Write;

use maud::{Markup, html};

use super::{Run, page, rules, tally};
use crate::reproduce::Evaluation;
use crate::verdict::{Score, Verdict};

/// Returns a page with the verdict of every claim. Each links to the paper's report, which is in a folder of the paper's name beside this page.
pub fn overview(evaluations: &[&Evaluation], run: &Run) -> String {
    let minutes =
        |of: fn(&Evaluation) -> f64| (evaluations.iter().map(|e| of(e)).sum::<f64>() / 60.0).round();
    let body = html! {
        header {
            p.eyebrow { "Strandline laboratory" }
            h1 { "Claims of " (evaluations.len()) " papers, measured again" }
            (run.facts())
            p.setting {
                "The run took " (minutes(|e| e.seconds)) " minutes, " (minutes(|e| e.processor_seconds))
                " of processor time."
            }
        }
        (tally(&score(evaluations)))
        nav {
            @for evaluation in evaluations {
                a href={ "#" (evaluation.paper.name) } { (evaluation.paper.name) }
            }
        }
        @for evaluation in evaluations { (paper(evaluation)) }
    };
    page("Strandline: all papers", &body, rules())
}

fn paper(evaluation: &Evaluation) -> Markup {
    let paper = evaluation.paper;
    let report = format!("{}/index.html", paper.name);
    html! {
        section id=(paper.name) {
            h2 { a href=(report) { (paper.title) } }
            p.citation { (paper.citation) }
            (tally(&evaluation.score()))
            div.scroll {
                table.all {
                    thead { tr { th { "Claim" } th { "Verdict" } th { "Paper" } th { "Measured" } th { "What" } } }
                    tbody {
                        @for (claim, finding) in &evaluation.rows {
                            tr class=(finding.verdict.key()) {
                                th { a href={ (report) "#" (claim.id) } { (claim.id) } }
                                td { span.badge { (evaluation.verdict_in_short(claim, finding)) } }
                                td { (claim.value) }
                                td { (finding.in_short()) }
                                td { (claim.what) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns how many claims of each paper have which verdict, as a table in Markdown whose links are relative to the project's first page. The
/// measured claims come first, then constants, closed forms and constructions, then those by which parameters were chosen.
pub fn scoreboard(evaluations: &[&Evaluation]) -> String {
    let names: Vec<_> = Score::VERDICTS.into_iter().map(Verdict::name).collect();
    let mut table = format!(
        "| paper | measured | {} | given | hold | calibrated |\n|---{}|\n",
        names.join(" | "),
        "|---".repeat(names.len() + 4)
    );
    let mut row = |name: &str, score: &Score| {
        let counts = Score::VERDICTS.map(|verdict| score.with(verdict)).into_iter();
        let given = [score.given(), score.given_that_hold(), score.calibrated()];
        let counts = [score.measured()].into_iter().chain(counts).chain(given);
        let counts: Vec<_> = counts.map(|count| count.to_string()).collect();
        let _ = writeln!(table, "| {name} | {} |", counts.join(" | "));
    };
    for &evaluation in evaluations {
        let paper = evaluation.paper;
        row(&format!("[{}]({})", paper.title, paper.page), &evaluation.score());
    }
    row("all", &score(evaluations));
    table
}

/// Returns the score of the claims of all papers.
fn score(evaluations: &[&Evaluation]) -> Score {
    Score::of(evaluations.iter().flat_map(|evaluation| {
        evaluation.rows.iter().map(|(claim, finding)| (evaluation.basis(claim), finding.verdict))
    }))
}
