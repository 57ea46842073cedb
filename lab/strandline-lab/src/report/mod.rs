//! The report: one self-contained HTML page.

mod axis;
mod overview;
mod plot;

pub use overview::{overview, scoreboard};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::claim::{Claim, Kind, readable};
use crate::finding::{At, Finding, Measured};
use crate::machine::Machine;
use crate::panel::Panel;
use crate::paper::{FigureSpec, Paper};
use crate::reproduce::Evaluation;
use crate::session::Effort;
use crate::venue::{Site, Venue};
use crate::verdict::Score;

const STYLE: &str = include_str!("style.css");

/// The run that a page describes.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The machine on which it was made.
    pub machine: &'a Machine,
    /// The commit that made it.
    pub commit: Option<&'a str>,
    /// The command that repeats it.
    pub command: &'a str,
    /// When it began.
    pub date: &'a str,
}

impl Run<'_> {
    pub(crate) fn facts(&self) -> Markup {
        let Self { machine, commit, command, date } = self;
        let memory = format!("{} GB", readable((machine.memory_mb as f64 / 1024.0).round()));
        html! {
            dl.facts {
                div { dt { "Machine" } dd {
                    (machine.processor) ", " (machine.cores) " cores, " (machine.caches.join(", ")) ", " (memory)
                } }
                div { dt { "Write-back" } dd { (machine.instructions.join(", ")) } }
                div { dt { "System" } dd { "Linux " (machine.kernel) ", load " (readable(machine.load)) " at the start" } }
                div { dt { "Date" } dd { (date) } }
                div { dt { "Commit" } dd { code { (commit.unwrap_or("unknown")) } } }
                div { dt { "Command" } dd { code { (command) } } }
            }
        }
    }
}

/// Returns the report as one self-contained page.
pub fn html(evaluations: &[&Evaluation], run: &Run) -> String {
    let titles: Vec<_> = evaluations.iter().map(|evaluation| evaluation.paper.title).collect();
    let body = html! {
        header {
            p.eyebrow { "Strandline laboratory" }
            @for evaluation in evaluations {
                h1 { (evaluation.paper.title) }
                p.citation { (evaluation.paper.citation) ", measured again" }
            }
            (run.facts())
        }
        @for evaluation in evaluations {
            (paper(evaluation))
        }
    };
    page(&format!("Strandline: {}", titles.join(", ")), &body, rules())
}

pub(crate) fn page(title: &str, body: &Markup, foot: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (body)
                    footer { (foot) }
                }
            }
        }
    };
    page.into_string()
}

/// Explains how verdicts are computed.
fn rules() -> Markup {
    html! {
                        p {
                            "Verdicts are computed from this run. Exact claims hold when equal. Trends hold when every \
                             stated order is true by 2% or more, where it is simulated with each of three seeds; they fall short \
                             when some are, and are contradicted when none is. Headlines hold when every number lies within 10% \
                             of the gain or loss that the paper states, and of its number where that is smaller; otherwise they are \
                             contradicted if one lies on the other side of its baseline, and else fall short. \
                             A claim that does not hold on the paper's machine as it is described, and does with another reading of what the \
                             paper leaves open, holds within the text. \
                             Constants (what the implementation took from the paper), closed forms (the paper's formulas) and \
                             constructions (true by how this is built) are counted apart from what was measured. Calibrated: a \
                             parameter was chosen by the claim, which is shown and does not count. Inconsistent: the paper's own \
                             numbers or formulas exclude it. Noisy: of other draws of a native figure's repetitions, measured up to three \
                             times as often, fewer than nine of ten come to the same verdict; noisy beside a verdict: other \
                             programs ran meanwhile. Not run: this machine cannot."
                        }
    }
}

/// Shows how many measured claims have each verdict, and the other claims separately.
fn tally(score: &Score) -> Markup {
    html! {
        ul.tally {
            li { b { (score.measured()) } " measured:" }
            @for verdict in Score::VERDICTS {
                li class=(verdict.key()) { b { (score.with(verdict)) } " " (verdict.name()) }
            }
        }
        ul.tally {
            li { b { (score.given()) } " constants, closed forms, constructions:" }
            li.holds { b { (score.given_that_hold()) } " hold" }
            li.calibrated { b { (score.calibrated()) } " calibrated" }
        }
    }
}

fn paper(evaluation: &Evaluation) -> Markup {
    let of_figure = |figure: Option<&'static str>| {
        evaluation.rows.iter().filter(move |(claim, _)| {
            evaluation.paper.claim(&claim.id).is_some_and(|spec| spec.figure == figure)
        })
    };
    let others: Vec<_> = of_figure(None).collect();
    html! {
        (tally(&evaluation.score()))
        @if !evaluation.finished { p.setting { "The run is not finished: what is missing has not been measured yet." } }
        p.setting { (prose(evaluation.paper.setting)) }
        p.setting {
            (effort(evaluation)) " Seed " (evaluation.seed) ". The run took "
            (readable((evaluation.seconds / 6.0).round() / 10.0)) " minutes, "
            (readable((evaluation.processor_seconds / 6.0).round() / 10.0)) " of processor time."
        }
        nav {
            @for figure in &evaluation.figures { a href={ "#" (figure.id) } { (figure.number) } }
            @if !others.is_empty() { a href="#others" { "Format and set-up" } }
            a href="#all" { "All claims" }
        }
        @for figure in &evaluation.figures {
            (section(evaluation, figure, of_figure(Some(figure.id))))
        }
        @if !others.is_empty() {
            section #others {
                h2 { "Format and set-up" }
                div.claims { @for (claim, finding) in others { (card(evaluation, claim, finding)) } }
            }
        }
        (summary(evaluation))
    }
}

/// A text whose names stand between backticks.
fn prose(text: &str) -> Markup {
    html! {
        @for (number, part) in text.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn effort(evaluation: &Evaluation) -> String {
    let pace = evaluation.pace;
    let how = match evaluation.effort {
        Effort::Full => "",
        Effort::Quick => {
            "A quick run: parameters at three values, short and few measurements, which weakens every verdict about an order. "
        }
        Effort::Trial => "A trial of the machinery on tiny structures: the figures mean nothing. ",
    };
    if !evaluation.paper.natively {
        return format!("{how}Everything was simulated, so that a run finds the same whenever it is made.");
    }
    format!(
        "{how}What runs on this processor was measured {} times for {} ms in turn with what it is compared with, up to three times as often where noise decided a verdict; \
         medians are shown, and the middle half of the repetitions as a thin line. Rates are per second of the threads' own processor time, so that other programs on the \
         machine do not decide an order.",
        pace.repetitions,
        pace.duration.as_millis()
    )
}

fn section<'a>(
    evaluation: &Evaluation,
    figure: &FigureSpec,
    claims: impl Iterator<Item = &'a (&'static Claim, Finding)>,
) -> Markup {
    let panels: Vec<Panel> =
        (figure.draw)(&evaluation.measurements).into_iter().filter(plot::has_values).collect();
    html! {
        section id=(figure.id) {
            h2 { span.number { (figure.number) } " " (figure.title) }
            p.method { (prose(figure.method)) }
            div.panels { @for panel in &panels { (plot(panel)) } }
            @if panels.is_empty() {
                p { "Nothing was measured." }
            }
            (numbers(&panels))
            div.claims { @for (claim, finding) in claims { (card(evaluation, claim, finding)) } }
        }
    }
}

pub(crate) fn plot(panel: &Panel) -> Markup {
    html! {
        figure {
            figcaption {
                b { (panel.title) } span.unit { (panel.y_label) }
            }
            ul.legend {
                @for curve in &panel.curves {
                    li { i style={ "background:var(--series-" (curve.colour % plot::COLOURS) ")" } {} (curve.name) }
                }
                @if !panel.marks.is_empty() { li { i.mark {} "the paper's number" } }
            }
            @if plot::is_all_zero(panel) {
                p.zero { "Every value is 0." }
            } @else {
                (PreEscaped(plot::svg(panel)))
            }
        }
    }
}

/// Returns the plots' numbers as tables.
pub(crate) fn numbers(panels: &[Panel]) -> Markup {
    html! {
        details {
            summary { "The numbers" }
            div.tables {
                @for panel in panels {
                    table {
                        caption { (panel.title) ", " (panel.y_label) }
                        thead { tr { th {} @for x in &panel.x { th { (x) } } } }
                        tbody {
                            @for curve in &panel.curves {
                                tr {
                                    th { (curve.name) }
                                    @for value in &curve.values {
                                        td {
                                            @if let Some(spread) = value {
                                                (readable(spread.median))
                                                @if spread.low < spread.high {
                                                    " " span.unit { (readable(spread.low)) " to " (readable(spread.high)) }
                                                }
                                            } @else { "–" }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Exact => "exact",
        Kind::Headline => "headline",
        Kind::Trend => "trend",
    }
}

/// Returns a sentence about where a claim is judged and why.
fn venue(paper: &Paper, claim: &Claim) -> Option<String> {
    let Venue { site, because } = paper.claim(&claim.id)?.venue;
    let place = match site {
        Site::Code => "by the code".into(),
        Site::Native => "on this processor".into(),
        Site::Simulated => format!("on the simulated machine {}", paper.machine?),
    };
    Some(format!("Judged {place}. {because}"))
}

fn card(evaluation: &Evaluation, claim: &Claim, finding: &Finding) -> Markup {
    let paper = evaluation.paper;
    html! {
        article class={ "claim " (finding.verdict.key()) } id=(claim.id) {
            h3 {
                span.id { (claim.id) }
                span.badge { (evaluation.verdict_in_short(claim, finding)) }
                span.kind { (kind(claim.kind)) ", " (claim.place) }
            }
            p { (prose(&claim.what)) }
            dl.values {
                div { dt { "paper" } dd { (claim.value) " " span.unit { (claim.unit) } } }
                div { dt { "measured" } dd { (measured(&finding.measured)) } }
                @for beside in &finding.beside {
                    div.beside {
                        dt { (beside.setting) }
                        dd {
                            (measured(&beside.measured))
                            @if let Some(verdict) = beside.verdict {
                                " " span.would.(verdict.key()) { (verdict.name()) }
                            }
                        }
                    }
                }
            }
            @if !finding.interval.is_empty() { (interval(finding)) }
            @if !finding.orders.is_empty() {
                ul.orders {
                    @for order in &finding.orders {
                        @let (class, sign) = match order.holds {
                            Some(true) => ("true", "✓"),
                            Some(false) => ("false", "✗"),
                            None => ("unknown", "–"),
                        };
                        li class=(class) { span.sign { (sign) } " " (order.order) }
                    }
                }
            }
            @for note in &finding.notes { p.note { (prose(note)) } }
            @if finding.seeds.len() > 1 {
                p.note { "Judged with the seeds " (finding.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")) "." }
            }
            p.how { (prose(&finding.method)) }
            @if let Some(venue) = venue(paper, claim) { p.how { (venue) } }
        }
    }
}

/// Shows the claim under other settings of the paper's machine.
fn interval(finding: &Finding) -> Markup {
    html! {
        @if let Some(range) = finding.range() { p.note { "With other readings of the text: " (range) "." } }
        @for (key, values) in finding.holds_for() {
            p.note {
                code { (key) } ": "
                @if values.is_empty() { "holds for none of these values" } @else { "holds for " (values.join(", ")) }
            }
        }
        details {
            summary { "Each setting" }
            ul.named {
                @for At { setting, finding } in &finding.interval {
                    li {
                        span {
                            code { (setting) } " " span.would.(finding.verdict.key()) { (finding.verdict.name()) }
                            @if let Some(reading) = setting.reading() { " " (reading.place) ": " (reading.says) }
                        }
                        " " b { (finding.in_short()) }
                    }
                }
            }
        }
    }
}

fn measured(measured: &Measured) -> Markup {
    match measured {
        Measured::Named(numbers) if !numbers.is_empty() => html! {
            ul.named {
                @for (name, value) in numbers {
                    li { span { (name) } " " b { (value.map_or("–".into(), readable)) } }
                }
            }
        },
        all => html! { (all.in_short()) },
    }
}

fn summary(evaluation: &Evaluation) -> Markup {
    html! {
        section #all {
            h2 { "All claims" }
            div.scroll {
                table.all {
                    thead { tr { th { "Claim" } th { "Verdict" } th { "Paper" } th { "Measured" } th { "Where" } } }
                    tbody {
                        @for (claim, finding) in &evaluation.rows {
                            tr class=(finding.verdict.key()) {
                                th { a href={ "#" (claim.id) } { (claim.id) } }
                                td { span.badge { (evaluation.verdict_in_short(claim, finding)) } }
                                td { (claim.value) }
                                td { (finding.in_short()) }
                                td { (claim.place) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader compares panels by their colours.
    #[test]
    fn a_name_has_one_colour_in_a_paper() {
        for paper in [&crate::atom::PAPER, &crate::loose_ordering::PAPER] {
            let mut colours = std::collections::BTreeMap::new();
            let all = crate::measurements::Measurements::default();
            let panels = paper.figures.iter().flat_map(|figure| (figure.draw)(&all));
            for curve in panels.flat_map(|panel| panel.curves) {
                let first = *colours.entry(curve.name.clone()).or_insert(curve.colour);
                assert_eq!(curve.colour, first, "{}", curve.name);
            }
            assert!(colours.len() > 3, "{colours:?}");
        }
    }

    #[test]
    fn names_in_texts_are_code() {
        assert_eq!(
            prose("the machine `wrap` and a < b").into_string(),
            "the machine <code>wrap</code> and a &lt; b"
        );
        assert_eq!(prose("").into_string(), "");
    }
}
