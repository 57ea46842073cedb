//! Claim D9: determines by crash exploration which barriers are necessary.

use std::time::Duration;

use strandline_scheme_check::persist_order::{Sampling, schemes};

use crate::error::Error;
use crate::finding::Order;
use crate::measurements::{Key, Measurements, Spread};
use crate::panel::{Curve, Form, Panel};
use crate::session::{Effort, Session};

pub const FIGURE: &str = "barriers";
const VIOLATED: &str = "violation found (1) or not (0)";
const ALL: &str = "all barriers";
/// The designs that D9 counts, in its order.
const COUNTED: [&str; 4] = ["sct-epoch", "sct-eager-sync", "dct-epoch", "dct-eager-sync"];

fn key(scheme: &str) -> Key<'_> {
    Key { figure: FIGURE, setting: "persist-order", system: scheme, quantity: VIOLATED }
}

pub fn steps(_: &Session) -> u64 {
    schemes().iter().map(|scheme| 1 + scheme.barriers().len() as u64).sum()
}

pub fn run(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let (histories, seconds) = match session.effort {
        Effort::Full => (2000, 60),
        Effort::Quick => (200, 10),
        Effort::Trial => (5, 1),
    };
    let sampling =
        Sampling { histories, seed: session.seed, states: 1000, limit: Duration::from_secs(seconds) };
    for scheme in schemes() {
        let barriers = scheme.barriers().iter().map(|barrier| (barrier.name, Some(barrier.step)));
        for (name, omitted) in std::iter::once((ALL, None)).chain(barriers) {
            let histories = if omitted.is_some() { u64::MAX } else { histories };
            let found = scheme.explore(
                omitted,
                Sampling { histories, ..sampling },
                &strandline_scheme_check::Session::new(),
                |_| (),
            )?;
            let violated = f64::from(u8::from(found.violation.is_some()));
            into.add(key(scheme.name()), name, Spread::exactly(violated));
            session.progress.inc(1);
        }
    }
    Ok(())
}

/// Returns for each of D9's designs how many barriers within a transaction are necessary: without them a violation was found.
pub fn counts(all: &Measurements) -> [Option<f64>; 4] {
    COUNTED.map(|name| {
        let scheme = schemes().into_iter().find(|scheme| scheme.name() == name)?;
        let within = scheme.barriers().iter().filter(|barrier| barrier.within);
        within.map(|barrier| all.median(key(name), barrier.name)).sum()
    })
}

/// Returns every line of the table as an order.
pub fn orders(all: &Measurements) -> Vec<Order> {
    let mut orders = Vec::new();
    for scheme in schemes() {
        let sound = all.median(key(scheme.name()), ALL).map(|violated| violated == 0.0);
        orders.push(Order {
            order: format!("{}: sufficient, no violation found", scheme.name()),
            holds: sound,
        });
        for barrier in scheme.barriers() {
            let found = all.median(key(scheme.name()), barrier.name).map(|violated| violated == 1.0);
            orders.push(Order {
                order: format!("{}: {} necessary, a violation found without it", scheme.name(), barrier.name),
                holds: found,
            });
        }
    }
    orders
}

pub fn draw(all: &Measurements) -> Vec<Panel> {
    let x: Vec<String> = all.xs(FIGURE).into_iter().map(str::to_owned).collect();
    let curves = schemes().into_iter().enumerate().map(|(colour, scheme)| Curve {
        name: scheme.name().into(),
        colour,
        values: x.iter().map(|barrier| all.spread(key(scheme.name()), barrier)).collect(),
    });
    let left_out = x.iter().map(|barrier| if barrier == ALL { "none".to_owned() } else { barrier.clone() });
    vec![Panel {
        title: "Without this barrier".into(),
        form: Form::Bars,
        x_label: "barrier left out".into(),
        y_label: "violation found".into(),
        curves: curves.collect(),
        x: left_out.collect(),
        marks: Vec::new(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_of_left_out_barriers_begins_with_none() {
        let mut all = Measurements::default();
        for x in [ALL, "PB1"] {
            all.add(key("sct-epoch"), x, Spread::exactly(0.0));
        }
        assert_eq!(draw(&all)[0].x, ["none", "PB1"]);
    }
}
