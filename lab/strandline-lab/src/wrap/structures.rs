//! The structures of the paper's benchmark (Figs. 7 to 12).

use strandline_core::memory::LINE_BYTES;
use strandline_sim::Statistics;
use strandline_sim::description::BTree;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::scheme::find;
use strandline_sim::trace::{Grouping, Operations, operations};
use strandline_workloads::{ALL, SchemeName, Sizes};

use super::systems::{SYSTEMS, add, machine, number};
use crate::error::Error;
use crate::measurements::{Measurements, Spread};
use crate::panel::{Curve, Form, Panel};
use crate::session::{Effort, Session};

pub const BY_SIZE: &str = "fig8";
pub const BY_CACHE: &str = "fig11";
/// The programs that stand for the paper's structures: name, and the paper's name. Its sets are traces of the C++ library's own; its trees, of which
/// the paper gives only the names, are those of the textbook.
pub const STRUCTURES: [(&str, &str); 4] =
    [(STD_SET, "Set"), (STD_MULTISET, "MultiSet"), (B_TREE, "B Tree"), ("bplustree-sorted-11", "B+ Tree")];
/// The paper's B Tree.
pub const B_TREE: &str = "btree-sorted";
const STD_SET: &str = "std-set";
const STD_MULTISET: &str = "std-multiset";
const ABSEIL: &str = "abseil-btree";
/// The library's own structures, and a B-tree that C++ programs use, which are shown beside the paper's.
pub const BESIDE: [(&str, &str); 5] = [
    (ABSEIL, "Abseil's B-tree"),
    ("set", "library's set"),
    ("multiset", "library's multiset"),
    ("btree", "library's B-tree"),
    ("bplustree", "library's B+ tree"),
];
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
/// The number of operations that a transaction has if the cache is varied.
const OPERATIONS: u64 = 5;
/// Instructions per access, not counting the access itself, which W11 varies ("less time between persistent stores"). Otherwise the number is the one
/// counted in the program or trace; the paper only says "numerous".
const DELAYS: [u64; 6] = [1, 10, 100, 200, 500, 1000];

/// The software and hardware of each of [`SYSTEMS`].
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

/// The number of transactions that run before any count: the paper's traces begin with the cache as initialisation left it.
const WARM_UP: u64 = 2;

pub fn steps_by_size(session: &Session) -> u64 {
    ((STRUCTURES.len() + BESIDE.len()) * SYSTEMS.len() * sizes(session).len()) as u64
}

pub fn steps_by_cache(session: &Session) -> u64 {
    (STRUCTURES.len() * SYSTEMS.len() * (caches(session).len() + DELAYS.len())) as u64
}

/// A program with transactions of one size.
enum Program {
    /// A filled workload.
    Prepared(Box<Prepared>),
    /// A trace.
    Traced(Operations),
}

/// One program under all systems, on a machine.
struct Point<'a> {
    figure: &'a str,
    setting: &'a str,
    operations: u64,
    blocks: u64,
    /// Instructions between accesses, if they differ from the machine's.
    delay: Option<u64>,
    x: u64,
}

fn measure(
    session: &Session,
    program: &Program,
    point: &Point<'_>,
    into: &mut Measurements,
) -> Result<(), Error> {
    let mut overrides = vec![format!("cache.0.bytes={}", LINE_BYTES * point.blocks)];
    if let (Program::Prepared(_), Some(delay)) = (program, point.delay) {
        overrides.push(format!("cores.instructions_per_access={delay}"));
    }
    let machine = machine(session, &overrides)?;
    for ((system, _), (software, hardware)) in SYSTEMS.iter().zip(SCHEMES) {
        let hardware =
            find(hardware).ok_or_else(|| Error::Usage(format!("no hardware scheme {hardware}")))?;
        let (transactions, statistics): (u64, Statistics) = match program {
            Program::Prepared(prepared) => {
                let scheme: SchemeName =
                    software.parse().map_err(|error| Error::Usage(format!("{error}")))?;
                let transactions = transactions(session, point.operations);
                let run = Run {
                    scheme,
                    threads: 1,
                    transactions,
                    warm_up: WARM_UP,
                    idle_percent: 0,
                    seed: session.seed,
                };
                (transactions, prepared.run(&machine, hardware, &run, Vec::new())?.outcome.statistics)
            }
            Program::Traced(trace) => {
                let operations = point.operations;
                let grouping = Grouping { operations, warm_up: WARM_UP, instructions: point.delay };
                trace
                    .run(&machine, hardware, &grouping)
                    .map_err(|error| Error::Usage(format!("{error:#}")))?
            }
        };
        let per_tx = |count: u64| count as f64 / transactions as f64;
        let mut put =
            |quantity, value| add(into, (point.figure, point.setting, system, quantity), point.x, value);
        put(TIME, per_tx(statistics.cycles));
        put(MISSES, per_tx(statistics.levels[0].total.misses));
        let counted = |name: &str| statistics.scheme.iter().find(|(other, _)| other == name);
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

fn program(session: &Session, structure: &str, operations: u64) -> Result<Program, Error> {
    let trace = match structure {
        STD_SET => Some(operations::SET),
        STD_MULTISET => Some(operations::MULTISET),
        ABSEIL => Some(operations::B_TREE),
        B_TREE if machine(session, &[])?.program.b_tree == BTree::Library => Some(operations::B_TREE),
        _ => None,
    };
    if let Some(trace) = trace {
        let read = Operations::read(structure, trace);
        return read.map(Program::Traced).map_err(|error| Error::Usage(format!("{error:#}")));
    }
    let workload = ALL.of_name(structure).map_err(|error| Error::Usage(format!("{error}")))?;
    let prepared = Prepared::new(workload, &Sizes::wrap(operations), PoolSizes::default(), 1)?;
    Ok(Program::Prepared(Box::new(prepared)))
}

pub fn run_by_size(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    for (setting, _) in STRUCTURES.into_iter().chain(BESIDE) {
        for operations in sizes(session) {
            let program = program(session, setting, operations)?;
            let point =
                Point { figure: BY_SIZE, setting, operations, blocks: 8192, delay: None, x: operations };
            measure(session, &program, &point, into)?;
        }
    }
    Ok(())
}

/// Returns the setting of a structure if the delay is varied.
pub fn delayed(structure: &str) -> String {
    format!("{structure}, delay")
}

pub fn run_by_cache(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    for (setting, _) in STRUCTURES {
        let program = program(session, setting, OPERATIONS)?;
        for blocks in caches(session) {
            let point =
                Point { figure: BY_CACHE, setting, operations: OPERATIONS, blocks, delay: None, x: blocks };
            measure(session, &program, &point, into)?;
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
            measure(session, &program, &point, into)?;
        }
    }
    Ok(())
}

/// Returns the points of a series, in order.
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

fn of<'a>(
    structures: &[(&'a str, &str)],
    system: &'a str,
    quantity: &'a str,
) -> Vec<(String, usize, &'a str, &'a str, &'a str)> {
    let all = structures.iter().enumerate();
    all.map(|(i, (structure, name))| ((*name).to_owned(), 3 + i, *structure, system, quantity)).collect()
}

fn of_structures<'a>(system: &'a str, quantity: &'a str) -> Vec<(String, usize, &'a str, &'a str, &'a str)> {
    of(&STRUCTURES, system, quantity)
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
        panel(
            all,
            BY_SIZE,
            ("Beside the paper: speedup of the library's structures", size, "undo log / WrAP"),
            &of(&BESIDE, "wrap", SPEEDUP),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The structures are as in the paper; in addition, a B-tree that shifts makes more stores than the library's, which edits in place.
    #[test]
    fn sets_are_traces_and_trees_shift() {
        let session = Session::for_tests(Effort::Quick);
        let mut all = Measurements::default();
        for setting in [STD_SET, STD_MULTISET, B_TREE, "btree"] {
            let program = program(&session, setting, OPERATIONS).unwrap();
            assert_eq!(matches!(program, Program::Traced(_)), [STD_SET, STD_MULTISET].contains(&setting));
            let point =
                Point { figure: BY_SIZE, setting, operations: OPERATIONS, blocks: 8192, delay: None, x: 5 };
            measure(&session, &program, &point, &mut all).unwrap();
        }
        let stores = |setting| points(&all, BY_SIZE, setting, "wrap", STORES)[0].1;
        assert!(stores(STD_SET) > 0.0 && stores(STD_MULTISET) > 0.0);
        assert!(stores(B_TREE) > 2.0 * stores("btree"));
    }
}
