//! All papers at a glance: a page with the verdict of every claim, and a scoreboard in Markdown.

use std::fmt::Write;

use maud::{Markup, html};

use super::{Run, page, rules, tally};
use crate::reproduce::Evaluation;
use crate::verdict::Verdict;

/// A page with the verdict of every claim, each a link into its paper's report, which lies in a folder of the paper's name beside
/// this page.
pub fn overview(evaluations: &[&Evaluation], run: &Run) -> String {
    let rows = || evaluations.iter().flat_map(|evaluation| &evaluation.rows);
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
        (tally(rows()))
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
            (tally(evaluation.rows.iter()))
            div.scroll {
                table.all {
                    thead { tr { th { "Claim" } th { "Verdict" } th { "Paper" } th { "Measured" } th { "What" } } }
                    tbody {
                        @for (claim, finding) in &evaluation.rows {
                            tr class=(finding.verdict.name()) {
                                th { a href={ (report) "#" (claim.id) } { (claim.id) } }
                                td { span.badge { (finding.verdict_in_short()) } }
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

/// How many claims of each paper have which verdict, as a table in Markdown whose links lead from the project's first page.
pub fn scoreboard(evaluations: &[&Evaluation]) -> String {
    let names: Vec<_> = Verdict::ALL.into_iter().map(Verdict::name).collect();
    let mut table =
        format!("| paper | claims | {} |\n|---{}|\n", names.join(" | "), "|---".repeat(1 + names.len()));
    let mut row = |name: &str, evaluations: &[&Evaluation]| {
        let verdicts = || evaluations.iter().flat_map(|e| &e.rows).map(|(_, finding)| finding.verdict);
        let counts = Verdict::ALL.map(|verdict| verdicts().filter(|&other| other == verdict).count());
        let counts = counts.map(|count| count.to_string()).join(" | ");
        let _ = writeln!(table, "| {name} | {} | {counts} |", verdicts().count());
    };
    for &evaluation in evaluations {
        let paper = evaluation.paper;
        row(&format!("[{}]({})", paper.title, paper.page), &[evaluation]);
    }
    row("all", evaluations);
    table
}
