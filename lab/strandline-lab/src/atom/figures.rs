//! Measures and draws the figures.

use super::systems::{
    ATOM, ATOM_OPT, ATOM_OPT_2C, BASE, DRAM_CYCLES, NON_ATOMIC, REDO, REDO_2C, Ready, Row, SIZES, System,
    WORKLOADS, machine,
};
use crate::error::Error;
use crate::measurements::{Key, Measurements, Spread};
use crate::panel::{Curve, Form, Mark, Panel};
use crate::session::Session;

/// The id of Figs. 5 to 7 and Table III.
pub const DESIGNS: &str = "designs";
/// The id of Fig. 8.
pub const LATENCIES: &str = "memory-latency";
/// The id of Table IV.
pub const TPCC: &str = "tpcc";

/// Transactions per simulated second.
pub const THROUGHPUT: &str = "tx/s";
/// Cycles in which a store waits for the full store queue.
pub const QUEUE_FULL: &str = "store-queue-full cycles/tx";
/// The quantity: log entries per transaction.
pub const ENTRIES: &str = "log entries/tx";
/// The share of the log entries that controllers made.
pub const SOURCE_LOGGED: &str = "% source-logged";
/// Lines written to memory.
pub const WRITTEN: &str = "lines written/tx";
/// The share of the attempts that met a conflict.
pub const CONFLICTS: &str = "abort ratio";
/// The x of quantities that do not depend on a parameter.
pub const ANY: &str = "any";
/// The workload of Fig. 8.
pub const OF_LATENCIES: &str = "rbtree";

/// Memory latencies as multiples of DRAM's.
pub const MULTIPLES: [u64; 6] = [1, 2, 4, 6, 8, 10];
/// The designs of Figs. 5 and 7.
const OF_DESIGNS: [System; 7] = [BASE, ATOM, ATOM_OPT, NON_ATOMIC, REDO, REDO_2C, ATOM_OPT_2C];
/// The number of these designs that also run with large entries.
const OF_BOTH: usize = 4;
/// The designs of Table IV, and the upper bound.
const OF_TPCC: [System; 5] = [BASE, ATOM, ATOM_OPT, REDO, NON_ATOMIC];

/// Returns the setting of a workload and a size of its entries.
pub fn setting(workload: &str, bytes: u64) -> String {
    format!("{workload}, {bytes} bytes")
}

fn add(into: &mut Measurements, figure: &str, setting: &str, system: System, x: &str, row: Row) {
    for (quantity, value) in [
        (THROUGHPUT, row.throughput),
        (QUEUE_FULL, row.queue_full),
        (ENTRIES, row.entries),
        (SOURCE_LOGGED, row.source_logged),
        (WRITTEN, row.written),
        (CONFLICTS, row.conflicts),
    ] {
        into.add(Key { figure, setting, system: system.name, quantity }, x, Spread::exactly(value));
    }
}

fn designs(bytes: u64) -> &'static [System] {
    if bytes == SIZES[0] { &OF_DESIGNS } else { &OF_DESIGNS[..OF_BOTH] }
}

pub fn designs_steps(_: &Session) -> u64 {
    SIZES.iter().map(|&bytes| (WORKLOADS.len() * designs(bytes).len()) as u64).sum()
}

pub fn run_designs(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    for bytes in SIZES {
        let ready: Vec<Ready> = WORKLOADS
            .iter()
            .map(|workload| Ready::new(session, workload, bytes))
            .collect::<Result<_, _>>()?;
        let jobs: Vec<(usize, System)> = (0..WORKLOADS.len())
            .flat_map(|workload| designs(bytes).iter().map(move |&system| (workload, system)))
            .collect();
        let rows =
            session.simulate(&jobs, |&(workload, system)| ready[workload].run(session, &[], system))?;
        for ((workload, system), row) in jobs.into_iter().zip(rows) {
            add(into, DESIGNS, &setting(WORKLOADS[workload], bytes), system, ANY, row);
        }
    }
    Ok(())
}

pub fn latencies_steps(session: &Session) -> u64 {
    2 * session.points(&MULTIPLES).len() as u64
}

pub fn run_latencies(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let ready = Ready::new(session, OF_LATENCIES, SIZES[0])?;
    let per_ns = machine(session, &[])?.cores.frequency_mhz as f64 / 1000.0;
    let points = session.points(&MULTIPLES);
    let jobs: Vec<(u64, System)> =
        points.iter().flat_map(|&multiple| [ATOM_OPT, REDO].map(|system| (multiple, system))).collect();
    let rows = session.simulate(&jobs, |&(multiple, system)| {
        let [read, write] = DRAM_CYCLES.map(|cycles| (cycles * multiple) as f64 / per_ns);
        ready.run(session, &[format!("nvm.read_ns={read:.1}"), format!("nvm.write_ns={write:.1}")], system)
    })?;
    for ((multiple, system), row) in jobs.into_iter().zip(rows) {
        add(into, LATENCIES, OF_LATENCIES, system, &multiple.to_string(), row);
    }
    Ok(())
}

pub fn tpcc_steps(_: &Session) -> u64 {
    OF_TPCC.len() as u64
}

pub fn run_tpcc(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let ready = Ready::new(session, "tpcc-new-order", 0)?;
    let rows = session.simulate(&OF_TPCC, |&system| ready.run(session, &[], system))?;
    for (system, row) in OF_TPCC.into_iter().zip(rows) {
        add(into, TPCC, TPCC, system, ANY, row);
    }
    Ok(())
}

/// Returns a measured quantity of a design.
pub fn value(
    all: &Measurements,
    figure: &str,
    setting: &str,
    system: System,
    quantity: &str,
    x: &str,
) -> Option<f64> {
    all.median(Key { figure, setting, system: system.name, quantity }, x)
}

/// Returns the ratio of a micro-benchmark's quantity under two designs.
pub fn ratio(
    all: &Measurements,
    (workload, bytes): (&str, u64),
    quantity: &str,
    system: System,
    over: System,
) -> Option<f64> {
    let of = |system| value(all, DESIGNS, &setting(workload, bytes), system, quantity, ANY);
    let (own, other) = (of(system)?, of(over)?);
    (other != 0.0).then_some(own / other)
}

/// Returns the mean of [`ratio`] over all micro-benchmarks.
pub fn mean(all: &Measurements, bytes: u64, quantity: &str, system: System, over: System) -> Option<f64> {
    let ratios: Option<Vec<f64>> =
        WORKLOADS.iter().map(|workload| ratio(all, (workload, bytes), quantity, system, over)).collect();
    ratios.map(|ratios| ratios.iter().sum::<f64>() / ratios.len() as f64)
}

const MEAN: &str = "mean";

/// The colour of a design, the same in all panels.
fn colour(system: System) -> usize {
    let designs = [ATOM, ATOM_OPT, NON_ATOMIC, REDO, REDO_2C, ATOM_OPT_2C];
    designs.iter().position(|design| design.name == system.name).unwrap_or(designs.len())
}

fn bars(
    all: &Measurements,
    title: &str,
    bytes: u64,
    quantity: &str,
    systems: &[System],
    over: System,
) -> Panel {
    let curves = systems.iter().map(|&system| {
        let each = WORKLOADS.iter().map(|workload| ratio(all, (workload, bytes), quantity, system, over));
        let values = each.chain([mean(all, bytes, quantity, system, over)]);
        Curve {
            name: system.name.into(),
            colour: colour(system),
            values: values.map(|value| value.map(Spread::exactly)).collect(),
        }
    });
    Panel {
        title: title.into(),
        form: Form::Bars,
        x_label: "micro-benchmark".into(),
        y_label: format!("{quantity} over {}", over.name),
        x: WORKLOADS.iter().copied().chain([MEAN]).map(str::to_owned).collect(),
        curves: curves.collect(),
        marks: Vec::new(),
    }
}

fn mark(system: System, x: &str, value: f64) -> Mark {
    Mark { curve: Some(system.name.into()), x: x.into(), value, range: None }
}

pub fn draw_designs(all: &Measurements) -> Vec<Panel> {
    let designs = [ATOM, ATOM_OPT, NON_ATOMIC];
    let marked = |panel: Panel, values: [f64; 3]| Panel {
        marks: designs.iter().zip(values).map(|(&system, value)| mark(system, MEAN, value)).collect(),
        ..panel
    };
    let [small, large] = SIZES;
    let source = |bytes: u64| Panel {
        title: format!("Table III: percent of log entries made by the controller, {bytes} bytes"),
        form: Form::Bars,
        x_label: "micro-benchmark".into(),
        y_label: "%".into(),
        x: WORKLOADS.iter().map(|&workload| workload.to_owned()).collect(),
        curves: vec![Curve {
            name: ATOM_OPT.name.into(),
            colour: colour(ATOM_OPT),
            values: WORKLOADS
                .iter()
                .map(|workload| value(all, DESIGNS, &setting(workload, bytes), ATOM_OPT, SOURCE_LOGGED, ANY))
                .map(|value| value.map(Spread::exactly))
                .collect(),
        }],
        marks: Vec::new(),
    };
    let redo = [REDO, REDO_2C, ATOM_OPT_2C];
    vec![
        marked(
            bars(all, "Fig. 5(a): throughput, 512 bytes", small, THROUGHPUT, &designs, BASE),
            [1.23, 1.27, 1.38],
        ),
        marked(
            bars(all, "Fig. 5(b): throughput, 4 KB", large, THROUGHPUT, &designs, BASE),
            [1.24, 1.33, 1.41],
        ),
        bars(all, "Fig. 6: store-queue-full cycles, 512 bytes", small, QUEUE_FULL, &designs[1..], BASE),
        bars(all, "Fig. 7: throughput of REDO, 512 bytes", small, THROUGHPUT, &redo, ATOM_OPT),
        source(small),
        source(large),
    ]
}

pub fn draw_latencies(all: &Measurements) -> Vec<Panel> {
    let xs: Vec<String> = all.xs(LATENCIES).into_iter().map(str::to_owned).collect();
    let curves = [ATOM_OPT, REDO].iter().map(|&system| Curve {
        name: system.name.into(),
        colour: colour(system),
        values: xs
            .iter()
            .map(|x| value(all, LATENCIES, OF_LATENCIES, system, THROUGHPUT, x))
            .map(|value| value.map(|value| Spread::exactly(value * 1e-6)))
            .collect(),
    });
    vec![Panel {
        title: "Fig. 8: red-black tree, 512 bytes".into(),
        form: Form::Lines,
        x_label: "memory latency over DRAM's".into(),
        y_label: "million tx/s".into(),
        x: xs.clone(),
        curves: curves.collect(),
        marks: Vec::new(),
    }]
}

pub fn draw_tpcc(all: &Measurements) -> Vec<Panel> {
    let base = value(all, TPCC, TPCC, BASE, THROUGHPUT, ANY);
    let over = |system| {
        let own = value(all, TPCC, TPCC, system, THROUGHPUT, ANY);
        own.zip(base).map(|(own, base)| Spread::exactly(own / base))
    };
    vec![Panel {
        title: "Table IV: TPC-C New Order".into(),
        form: Form::Bars,
        x_label: "design".into(),
        y_label: "throughput over BASE".into(),
        x: OF_TPCC.iter().map(|system| system.name.to_owned()).collect(),
        curves: vec![Curve {
            name: "throughput".into(),
            colour: 0,
            values: OF_TPCC.iter().map(|&system| over(system)).collect(),
        }],
        marks: [(ATOM, 1.58), (ATOM_OPT, 1.6), (REDO, 1.47)]
            .map(|(system, value)| Mark { curve: None, x: system.name.into(), value, range: None })
            .to_vec(),
    }]
}
