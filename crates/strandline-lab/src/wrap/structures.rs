//! The structures of the paper's benchmark (Figs. 7 to 12).

use strandline_core::memory::LINE_BYTES;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::scheme::find;
use strandline_workloads::{ALL, SchemeName, Sizes};

use super::{SYSTEMS, add, machine, number};
use crate::measurements::{Measurements, Spread};
use crate::paper::{Curve, Form, Panel};
use crate::session::{Effort, Error, Session};

pub const BY_SIZE: &str = "fig8";
pub const BY_CACHE: &str = "fig11";
/// Workloads: name, and the paper's.
pub const STRUCTURES: [(&str, &str); 4] =
    [("set", "Set"), ("multiset", "MultiSet"), ("btree", "B Tree"), ("bplustree", "B+ Tree")];
/// Cycles per transaction.
pub const TIME: &str = "cycles/tx";
/// Persistent stores per transaction.
pub const STORES: &str = "stores/tx";
/// Time under the undo log over time under WrAP.
pub const SPEEDUP: &str = "speedup";
/// The largest log buffer.
pub const LOG_BUFFER: &str = "largest log buffer";
/// The largest victim cache, in lines.
pub const VICTIMS: &str = "largest victim cache";
/// Cache misses per transaction.
pub const MISSES: &str = "misses/tx";
pub const CACHES: [u64; 7] = [128, 256, 512, 1024, 2048, 4096, 8192];
/// Operations in a transaction where the cache is varied.
const OPERATIONS: u64 = 5;
/// Instructions of a cycle between two accesses, for "less time between persistent stores" (W11). Elsewhere it is what the
/// machine's description says: the paper has "numerous".
const DELAYS: [u64; 6] = [1, 10, 100, 200, 500, 1000];

/// Software and hardware of each of [`SYSTEMS`].
const SCHEMES: [(&str, &str); 3] = [("volatile", "none"), ("plain", "undo-log"), ("plain", "wrap-evaluated")];

fn sizes(session: &Session) -> Vec<u64> {
    session.points(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
}

fn caches(session: &Session) -> Vec<u64> {
    session.points(&CACHES)
}

fn transactions(session: &Session, operations: u64) -> u64 {
    let operations_in_all = match session.effort {
        Effort::Full => 500,
        Effort::Quick => 100,
        Effort::Trial => 10,
    };
    (operations_in_all / operations).max(2)
}

pub fn steps_by_size(session: &Session) -> u64 {
    (STRUCTURES.len() * SYSTEMS.len() * sizes(session).len()) as u64
}

pub fn steps_by_cache(session: &Session) -> u64 {
    (STRUCTURES.len() * SYSTEMS.len() * (caches(session).len() + DELAYS.len())) as u64
}

/// One workload under all systems, on a machine.
struct Point<'a> {
    figure: &'a str,
    setting: &'a str,
    operations: u64,
    blocks: u64,
    /// Instructions between accesses, if not the machine's.
    delay: Option<u64>,
    x: u64,
}

fn measure(
    session: &Session,
    prepared: &Prepared,
    point: &Point<'_>,
    into: &mut Measurements,
) -> Result<(), Error> {
    let mut overrides = vec![format!("cache.0.bytes={}", LINE_BYTES * point.blocks)];
    overrides.extend(point.delay.map(|delay| format!("cores.instructions_per_access={delay}")));
    let machine = machine(session, &overrides)?;
    let transactions = transactions(session, point.operations);
    for ((system, _), (software, hardware)) in SYSTEMS.iter().zip(SCHEMES) {
        let scheme: SchemeName = software.parse().map_err(|error| Error::Usage(format!("{error}")))?;
        let hardware =
            find(hardware).ok_or_else(|| Error::Usage(format!("no hardware scheme {hardware}")))?;
        // The paper's traces begin with what initialisation has left in the cache.
        let run = Run { scheme, threads: 1, transactions, warm_up: 2, seed: session.seed };
        let outcome = prepared.run(&machine, hardware, &run, Vec::new())?.outcome;
        let per_tx = |count: u64| count as f64 / transactions as f64;
        let mut put =
            |quantity, value| add(into, (point.figure, point.setting, system, quantity), point.x, value);
        put(TIME, per_tx(outcome.statistics.cycles));
        put(MISSES, per_tx(outcome.statistics.levels[0].total.misses));
        let counted = |name: &str| outcome.statistics.scheme.iter().find(|(other, _)| other == name);
        if let Some((_, records)) = counted("log records") {
            put(STORES, per_tx(*records));
        }
        if let Some((_, largest)) = counted("largest log buffer") {
            put(LOG_BUFFER, *largest as f64);
        }
        if let Some((_, largest)) = counted("largest victim cache, lines") {
            put(VICTIMS, *largest as f64);
        }
        session.progress.inc(1);
    }
    let x = point.x.to_string();
    let time = |system| number(into, point.figure, point.setting, system, TIME, &x);
    if let Some((undo, wrap)) = time("undo-log").zip(time("wrap")) {
        add(into, (point.figure, point.setting, "wrap", SPEEDUP), point.x, undo / wrap);
    }
    Ok(())
}

fn prepared(structure: &str, operations: u64) -> Result<Prepared, Error> {
    let workload = ALL.of_name(structure).map_err(|error| Error::Usage(format!("{error}")))?;
    Ok(Prepared::new(workload, &Sizes::wrap(operations), PoolSizes::default(), 1)?)
}

pub fn run_by_size(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    for (setting, _) in STRUCTURES {
        for operations in sizes(session) {
            let prepared = prepared(setting, operations)?;
            let point =
                Point { figure: BY_SIZE, setting, operations, blocks: 8192, delay: None, x: operations };
            measure(session, &prepared, &point, into)?;
        }
    }
    Ok(())
}

/// The setting of a structure where the delay is varied.
pub fn delayed(structure: &str) -> String {
    format!("{structure}, delay")
}

pub fn run_by_cache(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    for (setting, _) in STRUCTURES {
        let prepared = prepared(setting, OPERATIONS)?;
        for blocks in caches(session) {
            let point =
                Point { figure: BY_CACHE, setting, operations: OPERATIONS, blocks, delay: None, x: blocks };
            measure(session, &prepared, &point, into)?;
        }
        for delay in DELAYS {
            let setting = delayed(setting);
            let point = Point {
                figure: BY_CACHE,
                setting: &setting,
                operations: OPERATIONS,
                blocks: 8192,
                delay: Some(delay),
                x: delay,
            };
            measure(session, &prepared, &point, into)?;
        }
    }
    Ok(())
}

/// The points of a series, in order.
pub fn points(
    all: &Measurements,
    figure: &str,
    setting: &str,
    system: &str,
    quantity: &str,
) -> Vec<(f64, f64)> {
    let series = all.of(figure).find(|series| {
        let key = series.key();
        key.setting == setting && key.system == system && key.quantity == quantity
    });
    let Some(series) = series else { return Vec::new() };
    let value = |x: &str| number(all, figure, setting, system, quantity, x);
    series.xs().filter_map(|x| Some((x.parse().ok()?, value(x)?))).collect()
}

fn panel(
    all: &Measurements,
    figure: &str,
    (title, x_label, y_label): (&str, &str, &str),
    curves: &[(String, usize, &str, &str, &str)],
) -> Panel {
    let xs: Vec<String> = curves
        .first()
        .map(|&(_, _, setting, system, quantity)| {
            points(all, figure, setting, system, quantity).iter().map(|(x, _)| x.to_string()).collect()
        })
        .unwrap_or_default();
    let curves = curves.iter().map(|(name, colour, setting, system, quantity)| Curve {
        name: name.clone(),
        colour: *colour,
        values: xs
            .iter()
            .map(|x| number(all, figure, setting, system, quantity, x).map(Spread::exactly))
            .collect(),
    });
    Panel {
        title: title.into(),
        form: Form::Lines,
        x_label: x_label.into(),
        y_label: y_label.into(),
        curves: curves.collect(),
        x: xs.clone(),
        marks: Vec::new(),
    }
}

fn of_structures<'a>(system: &'a str, quantity: &'a str) -> Vec<(String, usize, &'a str, &'a str, &'a str)> {
    let all = STRUCTURES.iter().enumerate();
    all.map(|(i, (structure, name))| ((*name).to_owned(), 3 + i, *structure, system, quantity)).collect()
}

pub fn draw_by_size(all: &Measurements) -> Vec<Panel> {
    let size = "operations in a transaction";
    let mut panels = vec![
        panel(all, BY_SIZE, ("Fig. 8: speedup", size, "undo log / WrAP"), &of_structures("wrap", SPEEDUP)),
        panel(
            all,
            BY_SIZE,
            ("Fig. 9: stores", size, "stores per transaction"),
            &of_structures("wrap", STORES),
        ),
    ];
    for (structure, name) in STRUCTURES {
        let systems: Vec<_> = SYSTEMS
            .iter()
            .enumerate()
            .map(|(i, (system, label))| ((*label).to_owned(), i, structure, *system, TIME))
            .collect();
        let title = format!("Figs. 7, 10: {name}");
        panels.push(panel(all, BY_SIZE, (&title, size, "cycles per transaction"), &systems));
    }
    panels
}

pub fn draw_by_cache(all: &Measurements) -> Vec<Panel> {
    let cache = "cache in blocks";
    vec![
        panel(all, BY_CACHE, ("Fig. 11: speedup", cache, "undo log / WrAP"), &of_structures("wrap", SPEEDUP)),
        panel(
            all,
            BY_CACHE,
            ("Fig. 12 (a): largest log buffer", cache, "log writes"),
            &of_structures("wrap", LOG_BUFFER),
        ),
        panel(
            all,
            BY_CACHE,
            ("Fig. 12 (b): largest victim cache", cache, "lines"),
            &of_structures("wrap", VICTIMS),
        ),
    ]
}
