//! A page with a sweep's plots.

use maud::{Markup, html};

use super::{Combination, Point, Swept, combinations};
use crate::panel::{Curve, Form, Panel};
use crate::report::{self, Run};

/// The plotted quantities, and their names on the axis.
const PLOTTED: [(&str, &str); 6] = [
    ("tx_per_s", "transactions per second"),
    ("lines_written_per_tx", "lines written to memory per transaction"),
    ("log_bytes_per_tx", "bytes of log per transaction"),
    ("fences_per_tx", "fences per transaction"),
    ("energy_nj_per_tx", "nanojoules per transaction"),
    ("cycles", "cycles"),
];

/// Returns the page: for each workload, and each combination of values of the further keys, a plot of each quantity over the first key.
pub fn page(points: &[Point], swept: &Swept, run: &Run<'_>) -> String {
    let all = combinations(points, swept);
    let seeds = all.iter().map(|one| one.points).max().unwrap_or(1);
    let body = html! {
        header {
            p.eyebrow { "Strandline simulator" }
            h1 { "A sweep of " (points.len()) " runs" }
            (run.facts())
        }
        @if swept.rows.iter().any(Option::is_none) {
            p.setting { (swept.rows.iter().flatten().count()) " of " (points.len()) " runs are there." }
        }
        @if seeds > 1 {
            p.setting { "Each point is the median of " (seeds) " seeds; the thin line goes from the lowest to the highest." }
        }
        (notes(swept))
        @for (title, members) in groups(&all) {
            section {
                h2 { (title) }
                @let panels: Vec<Panel> = PLOTTED.into_iter().filter_map(|plotted| panel(&members, plotted)).collect();
                div.panels { @for panel in &panels { (report::plot(panel)) } }
                (report::numbers(&panels))
            }
        }
    };
    report::page("Strandline: a sweep", &body, html! {})
}

/// Returns the quantities for which runs were too short, each once.
fn notes(swept: &Swept) -> Markup {
    let mut all: Vec<&String> = swept.rows.iter().flatten().flat_map(|row| &row.too_short).collect();
    all.sort_unstable();
    all.dedup();
    html! {
        @for note in all { p.note { "Some runs are too short: " (note) "; its cost is not in their figures." } }
    }
}

/// Returns the combinations of each section with its title. A section has one workload, and the same values of all keys but the first.
fn groups<'a>(all: &'a [Combination<'a>]) -> Vec<(String, Vec<&'a Combination<'a>>)> {
    let mut groups: Vec<(String, Vec<&Combination<'_>>)> = Vec::new();
    for one in all {
        let further = one.first.keys.iter().skip(1).map(|(key, value)| format!(", {key} = {value}"));
        let title = format!("{}{}", one.first.work.name(), further.collect::<String>());
        match groups.iter_mut().find(|(other, _)| *other == title) {
            Some((_, members)) => members.push(one),
            None => groups.push((title, vec![one])),
        }
    }
    groups
}

/// Returns the plot of one quantity; `None` if it is always 0, or no run has it. Cycles are plotted only for runs without transactions.
fn panel(members: &[&Combination<'_>], (name, y_label): (&str, &str)) -> Option<Panel> {
    let has = |name: &str| members.iter().any(|one| one.spread(name).is_some());
    if name == "cycles" && has("tx_per_s") {
        return None;
    }
    let x_of = |one: &Combination<'_>| {
        one.first.keys.first().map_or_else(|| one.first.work.name(), |(_, value)| value.clone())
    };
    let (mut x, mut systems) = (Vec::new(), Vec::new());
    for one in members {
        if !x.contains(&x_of(one)) {
            x.push(x_of(one));
        }
        if !systems.contains(&one.first.system()) {
            systems.push(one.first.system());
        }
    }
    let value = |system: &String, x: &String| {
        let is = |one: &&&Combination<'_>| one.first.system() == *system && x_of(one) == *x;
        members.iter().find(is)?.spread(name)
    };
    let curves: Vec<Curve> = systems
        .iter()
        .enumerate()
        .map(|(colour, system)| Curve {
            name: system.clone(),
            colour,
            values: x.iter().map(|x| value(system, x)).collect(),
        })
        .collect();
    let any = curves.iter().flat_map(|curve| &curve.values).flatten().any(|spread| spread.median > 0.0);
    let first = members.first()?.first;
    any.then(|| Panel {
        title: first.work.name(),
        form: if x.len() > 1 { Form::Lines } else { Form::Bars },
        x_label: first.keys.first().map_or("workload".into(), |(key, _)| key.clone()),
        y_label: y_label.to_owned(),
        x,
        curves,
        marks: Vec::new(),
    })
}
