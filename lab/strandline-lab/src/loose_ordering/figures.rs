//! Measures and draws the figures.

use super::systems::{
    ALL, ALL_DEGREES, EC_WAL, H_WAL, KILN, LOC_KILN, LOC_WAL, NONE, PaperWorkload, Row, System, Variation,
    WORKLOADS, machine,
};
use crate::error::Error;
use crate::measurements::{Key, Measurements, Spread};
use crate::panel::{Curve, Form, Mark, Panel};
use crate::session::Session;

/// The id of Figs. 7 to 9 and Table 2.
pub const SYSTEMS: &str = "systems";
/// The id of Figs. 10 and 11.
pub const DEGREES: &str = "speculation-degree";
/// The id of Fig. 12.
pub const SIZES: &str = "transaction-size";
/// The id of Fig. 13.
pub const LATENCIES: &str = "memory-latency";
/// The id of a figure that the paper does not have: the size of the structures, which the paper does not give.
pub const STRUCTURES: &str = "structure-size";

/// Throughput relative to that without transactions.
pub const NORMALISED: &str = "normalised throughput";
/// Bytes written to memory over bytes that the program stores, a number that is the same without transactions.
pub const TRAFFIC: &str = "memory writes/program writes";
/// Transactions per simulated second.
pub const THROUGHPUT: &str = "tx/s";
/// Bytes written to memory for a transaction.
pub const WRITTEN: &str = "bytes written/tx";
/// Blocks that a transaction writes.
pub const BLOCKS: &str = "blocks/tx";
/// The share of the transactions that fall back to a log.
pub const FALLBACKS: &str = "transactions that fall back to a log";
/// The x of quantities that do not depend on a parameter.
pub const ANY: &str = "any";

/// Node updates in a transaction (section 5.5).
pub const UPDATES: [u64; 5] = [2, 4, 8, 16, 32];
/// Memory latencies in ns (section 5.6).
pub const NANOSECONDS: [u64; 4] = [35, 95, 168, 1000];
/// The systems of Fig. 12.
pub const OF_SIZES: [System; 4] = [H_WAL, LOC_WAL, KILN, LOC_KILN];
/// By which powers of two the structures are larger than in Fig. 7 (our choice).
pub const LARGER: [i32; 6] = [-3, -1, 0, 1, 4, 7];
/// The systems of the figure of structure sizes.
pub const OF_STRUCTURES: [System; 4] = [H_WAL, EC_WAL, LOC_WAL, KILN];
/// The systems of Fig. 13.
pub const OF_LATENCIES: [System; 2] = [H_WAL, LOC_WAL];

fn there() -> impl Iterator<Item = &'static PaperWorkload> {
    WORKLOADS.iter().filter(|workload| workload.workload().is_some())
}

struct Adder<'a> {
    into: &'a mut Measurements,
    figure: &'static str,
    workload: &'static str,
}

impl Adder<'_> {
    fn add(&mut self, system: System, quantity: &str, x: &str, value: f64) {
        let key = Key { figure: self.figure, setting: self.workload, system: system.key, quantity };
        self.into.add(key, x, Spread::exactly(value));
    }

    fn row(&mut self, system: System, x: &str, row: Row, none: Row) {
        self.add(system, THROUGHPUT, x, row.throughput);
        self.add(system, NORMALISED, x, row.throughput / none.throughput);
        self.add(system, TRAFFIC, x, row.written / none.stored);
        self.add(system, WRITTEN, x, row.written);
        if let Some(blocks) = row.blocks {
            self.add(system, BLOCKS, x, blocks);
        }
        if let Some(fallbacks) = row.fallbacks {
            self.add(system, FALLBACKS, x, fallbacks);
        }
    }
}

pub fn systems_steps(_: &Session) -> u64 {
    (there().count() * ALL.len()) as u64
}

pub fn run_systems(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let machine = machine(session, &[])?;
    for workload in there() {
        let Some(ready) = workload.prepare(session, Variation::default())? else { continue };
        let mut adder = Adder { into, figure: SYSTEMS, workload: workload.name };
        let none = ready.run(&machine, NONE)?;
        adder.row(NONE, ANY, none, none);
        session.progress.inc(1);
        for system in ALL.into_iter().skip(1) {
            adder.row(system, ANY, ready.run(&machine, system)?, none);
            session.progress.inc(1);
        }
    }
    Ok(())
}

pub fn degrees_steps(_: &Session) -> u64 {
    (there().count() * (1 + ALL_DEGREES.len())) as u64
}

pub fn run_degrees(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let machine = machine(session, &[])?;
    for workload in there() {
        let Some(ready) = workload.prepare(session, Variation::default())? else { continue };
        let mut adder = Adder { into, figure: DEGREES, workload: workload.name };
        let none = ready.run(&machine, NONE)?;
        session.progress.inc(1);
        for (degree, system) in ALL_DEGREES {
            let row = ready.run(&machine, system)?;
            adder.row(LOC_WAL, &degree.to_string(), row, none);
            session.progress.inc(1);
        }
    }
    Ok(())
}

pub fn sizes_steps(session: &Session) -> u64 {
    (session.points(&UPDATES).len() * (1 + OF_SIZES.len())) as u64
}

pub fn run_sizes(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let machine = machine(session, &[])?;
    for updates in session.points(&UPDATES) {
        let variation = Variation { operations: Some(updates), ..Variation::default() };
        let Some(ready) = WORKLOADS[0].prepare(session, variation)? else { continue };
        let mut adder = Adder { into, figure: SIZES, workload: WORKLOADS[0].name };
        let none = ready.run(&machine, NONE)?;
        session.progress.inc(1);
        for system in OF_SIZES {
            adder.row(system, &updates.to_string(), ready.run(&machine, system)?, none);
            session.progress.inc(1);
        }
    }
    Ok(())
}

pub fn latencies_steps(session: &Session) -> u64 {
    (there().count() * session.points(&NANOSECONDS).len() * (1 + OF_LATENCIES.len())) as u64
}

pub fn run_latencies(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    for workload in there() {
        let Some(ready) = workload.prepare(session, Variation::default())? else { continue };
        for latency in session.points(&NANOSECONDS) {
            let machine =
                machine(session, &[format!("nvm.read_ns={latency}"), format!("nvm.write_ns={latency}")])?;
            let mut adder = Adder { into, figure: LATENCIES, workload: workload.name };
            let none = ready.run(&machine, NONE)?;
            session.progress.inc(1);
            for system in OF_LATENCIES {
                adder.row(system, &latency.to_string(), ready.run(&machine, system)?, none);
                session.progress.inc(1);
            }
        }
    }
    Ok(())
}

pub fn structures_steps(session: &Session) -> u64 {
    let workloads = there().filter(|workload| workload.has_size()).count();
    (workloads * session.points(&LARGER).len() * (1 + OF_STRUCTURES.len())) as u64
}

pub fn run_structures(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let machine = machine(session, &[])?;
    for workload in there().filter(|workload| workload.has_size()) {
        for larger in session.points(&LARGER) {
            let variation = Variation { larger, ..Variation::default() };
            let Some(ready) = workload.prepare(session, variation)? else { continue };
            let mut adder = Adder { into, figure: STRUCTURES, workload: workload.name };
            let none = ready.run(&machine, NONE)?;
            session.progress.inc(1);
            for system in OF_STRUCTURES {
                adder.row(system, &larger.to_string(), ready.run(&machine, system)?, none);
                session.progress.inc(1);
            }
        }
    }
    Ok(())
}

/// Returns a system's value for each measured workload.
pub fn values(all: &Measurements, figure: &str, system: System, quantity: &str, x: &str) -> Vec<f64> {
    let of = |workload: &PaperWorkload| {
        all.median(Key { figure, setting: workload.name, system: system.key, quantity }, x)
    };
    there().filter_map(of).collect()
}

/// Returns the mean of [`values`].
pub fn mean(all: &Measurements, figure: &str, system: System, quantity: &str, x: &str) -> Option<f64> {
    let values = values(all, figure, system, quantity, x);
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

const MEAN: &str = "average";

fn bars(all: &Measurements, quantity: &str, title: &str, marks: Vec<Mark>) -> Panel {
    let mut x: Vec<String> = there().map(|workload| workload.name.to_owned()).collect();
    x.push(MEAN.into());
    let curves = ALL.into_iter().enumerate().map(|(colour, system)| Curve {
        name: system.name.into(),
        colour,
        values: x
            .iter()
            .map(|x| match x.as_str() {
                MEAN => mean(all, SYSTEMS, system, quantity, ANY).map(Spread::exactly),
                x => all.spread(Key { figure: SYSTEMS, setting: x, system: system.key, quantity }, ANY),
            })
            .collect(),
    });
    let curves = curves.filter(|curve| curve.values.iter().any(Option::is_some)).collect();
    Panel {
        title: title.into(),
        form: Form::Bars,
        x_label: "workload".into(),
        y_label: quantity.into(),
        x,
        curves,
        marks,
    }
}

fn mark(curve: &str, x: &str, value: f64) -> Mark {
    Mark { curve: Some(curve.into()), x: x.into(), value, range: None }
}

pub fn draw_systems(all: &Measurements) -> Vec<Panel> {
    let paper = [("S-WAL", 0.316), ("H-WAL", 0.331), ("LOC-WAL", 0.651), ("LOC-Kiln", 0.811)];
    let throughput = paper.map(|(system, value)| mark(system, MEAN, value)).to_vec();
    let paper = [("S-WAL", 0.171), ("H-WAL", 0.2), ("LOC-WAL", 0.034), ("Kiln", 0.008)];
    let traffic = paper.map(|(system, value)| mark(system, MEAN, value)).to_vec();
    let p_sets = [89.6, 10.92, 33.26, 1.53, 52.85, 309.34];
    let sets = WORKLOADS.iter().zip(p_sets).filter(|(workload, _)| workload.workload().is_some());
    let sets = sets.map(|(workload, value)| mark(LOC_WAL.name, workload.name, value)).collect();
    let mut blocks = bars(all, BLOCKS, "Table 2: blocks that a transaction writes", sets);
    blocks.curves.retain(|curve| curve.name == LOC_WAL.name);
    let mut eager = bars(all, NORMALISED, "Fig. 9: Eager Commit alone", Vec::new());
    eager.curves.retain(|curve| [H_WAL.name, EC_WAL.name].contains(&curve.name.as_str()));
    vec![
        bars(all, NORMALISED, "Fig. 7: throughput", throughput),
        bars(all, TRAFFIC, "Fig. 8: memory writes", traffic),
        eager,
        blocks,
    ]
}

fn lines(
    all: &Measurements,
    figure: &'static str,
    curves: &[(&str, System, Option<&str>)],
    labels: [&str; 3],
    marks: Vec<Mark>,
) -> Panel {
    let [title, x_label, quantity] = labels;
    let x: Vec<String> = all.xs(figure).into_iter().map(str::to_owned).collect();
    // A system has the colour that it has among all.
    let colour = |name: &str, number| ALL.iter().position(|system| system.name == name).unwrap_or(number);
    let curve = |(number, (name, system, workload)): (usize, &(&str, System, Option<&str>))| Curve {
        name: (*name).into(),
        colour: colour(name, number),
        values: x
            .iter()
            .map(|x| match workload {
                Some(setting) => all.spread(Key { figure, setting, system: system.key, quantity }, x),
                None => mean(all, figure, *system, quantity, x).map(Spread::exactly),
            })
            .collect(),
    };
    Panel {
        title: title.into(),
        form: Form::Lines,
        x_label: x_label.into(),
        y_label: quantity.into(),
        curves: curves.iter().enumerate().map(curve).collect(),
        x,
        marks,
    }
}

pub fn draw_degrees(all: &Measurements) -> Vec<Panel> {
    let mut curves = vec![(MEAN, LOC_WAL, None)];
    curves.extend(there().map(|workload| (workload.name, LOC_WAL, Some(workload.name))));
    let marks = vec![mark(MEAN, "1", 0.353), mark(MEAN, "16", 0.651), mark(MEAN, "32", 0.689)];
    let degree = "speculation degree";
    vec![
        lines(all, DEGREES, &curves, ["Fig. 10: throughput of LOC-WAL", degree, NORMALISED], marks),
        lines(all, DEGREES, &curves, ["Fig. 11: memory writes of LOC-WAL", degree, TRAFFIC], Vec::new()),
        lines(all, DEGREES, &curves, ["Memory writes of LOC-WAL", degree, WRITTEN], Vec::new()),
    ]
}

pub fn draw_sizes(all: &Measurements) -> Vec<Panel> {
    let curves = OF_SIZES.map(|system| (system.name, system, None));
    let labels = ["Fig. 12: B+ tree", "node updates in a transaction", NORMALISED];
    vec![lines(all, SIZES, &curves, labels, Vec::new())]
}

pub fn draw_latencies(all: &Measurements) -> Vec<Panel> {
    let curves = OF_LATENCIES.map(|system| (system.name, system, None));
    let labels = ["Fig. 13: average over the workloads", "memory latency in ns", NORMALISED];
    vec![lines(all, LATENCIES, &curves, labels, Vec::new())]
}

pub fn draw_structures(all: &Measurements) -> Vec<Panel> {
    let curves = OF_STRUCTURES.map(|system| (system.name, system, None));
    let x = "log2 of the structures' size over Fig. 7's";
    vec![
        lines(
            all,
            STRUCTURES,
            &curves,
            ["Throughput, average but SPS and SQLite", x, NORMALISED],
            Vec::new(),
        ),
        lines(
            all,
            STRUCTURES,
            &curves,
            ["Memory writes, average but SPS and SQLite", x, WRITTEN],
            Vec::new(),
        ),
    ]
}
