//! A sweep's plots on one page.

use maud::{Markup, html};

use super::{Point, Row, Swept};
use crate::measurements::Spread;
use crate::panel::{Curve, Form, Panel};
use crate::report::{self, Run};

/// What is plotted, and its name on the axis.
const PLOTTED: [(&str, &str); 4] = [
    ("tx_per_s", "transactions per second"),
    ("lines_written_per_tx", "lines written to memory per transaction"),
    ("log_bytes_per_tx", "bytes of software log per transaction"),
    ("fences_per_tx", "fences per transaction"),
];

/// The page: for each workload, and each value of the further keys, a plot of each quantity over the first key.
pub fn page(points: &[Point], swept: &Swept, run: &Run<'_>) -> String {
    let body = html! {
        header {
            p.eyebrow { "Strandline simulator" }
            h1 { "A sweep of " (points.len()) " runs" }
            (run.facts())
        }
        @if swept.rows.iter().any(Option::is_none) {
            p.setting { (swept.rows.iter().flatten().count()) " of " (points.len()) " runs are there." }
        }
        (notes(swept))
        @for (title, members) in groups(points) {
            section {
                h2 { (title) }
                @let panels: Vec<Panel> = PLOTTED.into_iter().filter_map(|plotted| panel(points, swept, &members, plotted)).collect();
                div.panels { @for panel in &panels { (report::plot(panel)) } }
                (report::numbers(&panels))
            }
        }
    };
    report::page("Strandline: a sweep", &body, html! {})
}

/// What runs were too short for, each said once.
fn notes(swept: &Swept) -> Markup {
    let mut all: Vec<&String> = swept.rows.iter().flatten().flat_map(|row| &row.too_short).collect();
    all.sort_unstable();
    all.dedup();
    html! {
        @for note in all { p.note { "Some runs are too short: " (note) "; its cost is not in their figures." } }
    }
}

/// The points of each section, by its title: one workload, and the same values of all keys but the first.
fn groups(points: &[Point]) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let further = point.keys.iter().skip(1).map(|(key, value)| format!(", {key} = {value}"));
        let title = format!("{}{}", point.workload.name, further.collect::<String>());
        match groups.iter_mut().find(|(other, _)| *other == title) {
            Some((_, members)) => members.push(index),
            None => groups.push((title, vec![index])),
        }
    }
    groups
}

/// The plot of one quantity; `None` where it is 0 throughout.
fn panel(points: &[Point], swept: &Swept, members: &[usize], (name, y_label): (&str, &str)) -> Option<Panel> {
    let x_of = |point: &Point| {
        point.keys.first().map_or_else(|| point.workload.name.to_owned(), |(_, value)| value.clone())
    };
    let (mut x, mut systems) = (Vec::new(), Vec::new());
    for point in members.iter().map(|&index| &points[index]) {
        if !x.contains(&x_of(point)) {
            x.push(x_of(point));
        }
        if !systems.contains(&point.system()) {
            systems.push(point.system());
        }
    }
    let value = |system: &String, x: &String| {
        let is = |index: &&usize| points[**index].system() == *system && x_of(&points[**index]) == *x;
        let row: &Row = swept.rows[*members.iter().find(is)?].as_ref()?;
        Some(Spread::exactly(row.quantity(name)))
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
    let first = &points[*members.first()?];
    any.then(|| Panel {
        title: first.workload.name.to_owned(),
        form: if x.len() > 1 { Form::Lines } else { Form::Bars },
        x_label: first.keys.first().map_or("workload".into(), |(key, _)| key.clone()),
        y_label: y_label.to_owned(),
        x,
        curves,
        marks: Vec::new(),
    })
}
