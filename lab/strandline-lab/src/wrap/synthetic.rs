//! Sequential stores on the bare machine (section 4.2, Fig. 6).

use std::cell::RefCell;
use std::rc::Rc;

use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Event, Hosted, LINE_BYTES, Memory, PersistentAddress};
use strandline_sim::numbers::Cycle;
use strandline_sim::scheme::{Setup, find};
use strandline_sim::{Contents, Description, Machine};

use super::systems::{SYSTEMS, add, machine, number};
use crate::error::Error;
use crate::measurements::{Measurements, Spread};
use crate::panel::{Curve, Form, Panel};
use crate::session::{Effort, Session};

pub const FIGURE: &str = "fig6";
/// The number of stores that the paper's trace has (W14).
pub const STORES: u64 = 10;
/// Cycles from the opening of a transaction to its closing.
pub const TIME: &str = "cycles";
/// Cycles from one store to the next, in the middle of many, on a machine whose hits take no time, because the formulas have no term for hits.
pub const PER_STORE: &str = "cycles/store";
/// Time under the undo log over time under WrAP.
pub const SPEEDUP: &str = "speedup";
pub const CACHES: [u64; 7] = [128, 256, 512, 1024, 2048, 4096, 8192];
pub const SIZES: [u64; 3] = [100, 1000, 4000];

/// The hardware of each of [`SYSTEMS`].
const HARDWARE: [&str; 3] = ["none", "undo-log", "wrap-buffer-of-one"];

/// Returns the processor's delays between stores, in cycles.
pub fn delays(session: &Session) -> Vec<u64> {
    let all: &[u64] = match session.effort {
        Effort::Full => &[
            0, 1, 100, 250, 440, 600, 800, 1000, 1199, 1200, 1201, 1640, 2000, 3000, 4000, 5000, 6000, 8000,
            10_000,
        ],
        Effort::Quick | Effort::Trial => &[0, 100, 440, 1200, 2000, 5000, 10_000],
    };
    all.to_vec()
}

pub fn steps(session: &Session) -> u64 {
    let delays = delays(session).len() as u64;
    3 * 2 * 2 * delays + 3 * (CACHES.len() * SIZES.len()) as u64
}

/// One transaction.
struct Trace {
    stores: u64,
    delay: u64,
    hot: bool,
}

/// Returns the time after opening, after each store, and after closing.
fn clocks(description: &Description, hardware: &str, trace: &Trace) -> Result<Vec<Cycle>, Error> {
    let entry = find(hardware).ok_or_else(|| Error::Usage(format!("no hardware scheme {hardware}")))?;
    let words = (trace.stores * LINE_BYTES / 8) as usize;
    let contents = Contents { persistent: vec![0; words], volatile_bytes: 4096, regions: Default::default() };
    let setup = Setup { machine: description, omitted: None };
    let scheme = entry.make.map(|make| make(&setup)).transpose().map_err(Error::Usage)?;
    let machine = Machine::new(description, contents, scheme, None)
        .map_err(|impossible| Error::Usage(impossible.to_string()))?;
    let machine = Rc::new(machine);
    let clocks = RefCell::new(Vec::new());
    let (seen, inside) = (&clocks, &machine);
    let program = |memory: &Hosted| {
        let line = |number| PersistentAddress::new(LINE_BYTES * number);
        if trace.hot {
            (0..trace.stores).for_each(|i| {
                memory.load(line(i));
            });
        }
        memory.event(Event::Begin);
        seen.borrow_mut().push(inside.clock(0));
        for i in 0..trace.stores {
            memory.store(line(i), i + 1);
            seen.borrow_mut().push(inside.clock(0));
            memory.work(trace.delay as u32);
        }
        memory.event(Event::Commit(1));
        seen.borrow_mut().push(inside.clock(0));
    };
    machine.run(vec![Box::new(program) as Thread<'_>]);
    drop(machine);
    Ok(clocks.into_inner())
}

fn total(clocks: &[Cycle]) -> f64 {
    (clocks[clocks.len() - 1] - clocks[0]) as f64
}

/// A store counts as one instruction; the trace specifies the instructions between stores.
const NOTHING_BETWEEN: &str = "cores.instructions_per_access=1";

pub fn run(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let paper = machine(session, &[NOTHING_BETWEEN.into()])?;
    let formula = machine(session, &["cache.0.latency=0".into(), "cores.instructions_per_access=0".into()])?;
    for delay in delays(session) {
        for (setting, hot) in [("cold", false), ("hot", true)] {
            for ((system, _), hardware) in SYSTEMS.iter().zip(HARDWARE) {
                let ten = clocks(&paper, hardware, &Trace { stores: STORES, delay, hot })?;
                add(into, (FIGURE, setting, system, TIME), delay, total(&ten));
                let many = clocks(&formula, hardware, &Trace { stores: 2 * STORES, delay, hot })?;
                let (from, to) = (STORES as usize / 2, 3 * STORES as usize / 2);
                let each = (many[to] - many[from]) as f64 / (to - from) as f64;
                add(into, (FIGURE, setting, system, PER_STORE), delay, each);
                session.progress.inc(2);
            }
            speedup(into, setting, &delay.to_string(), TIME, SPEEDUP);
            speedup(into, setting, &delay.to_string(), PER_STORE, "speedup/store");
        }
    }
    for size in SIZES {
        let setting = format!("{size} stores");
        for cache in CACHES {
            let machine =
                machine(session, &[NOTHING_BETWEEN.into(), format!("cache.0.bytes={}", LINE_BYTES * cache)])?;
            for ((system, _), hardware) in SYSTEMS.iter().zip(HARDWARE) {
                let clocks = clocks(&machine, hardware, &Trace { stores: size, delay: 1, hot: false })?;
                add(into, (FIGURE, &setting, system, TIME), cache, total(&clocks));
                session.progress.inc(1);
            }
            speedup(into, &setting, &cache.to_string(), TIME, SPEEDUP);
        }
    }
    Ok(())
}

fn speedup(into: &mut Measurements, setting: &str, x: &str, of: &str, as_: &str) {
    let time = |system| number(into, FIGURE, setting, system, of, x);
    if let Some((undo, wrap)) = time("undo-log").zip(time("wrap")) {
        add(into, (FIGURE, setting, "wrap", as_), x, undo / wrap);
    }
}

pub fn draw(all: &Measurements) -> Vec<Panel> {
    let points = |setting: &str, quantity: &str| -> Vec<String> {
        let series = all
            .of(FIGURE)
            .find(|series| series.key().setting == setting && series.key().quantity == quantity);
        series.map(|series| series.xs().map(str::to_owned).collect()).unwrap_or_default()
    };
    let curve = |name: &str, colour, setting: &str, system: &str, quantity: &str, xs: &[String]| Curve {
        name: name.into(),
        colour,
        values: xs
            .iter()
            .map(|x| number(all, FIGURE, setting, system, quantity, x).map(Spread::exactly))
            .collect(),
    };
    let delays = points("cold", TIME);
    let panel = |title: &str, x_label: &str, y_label: &str, x: Vec<String>, curves: Vec<Curve>| Panel {
        title: title.into(),
        form: Form::Lines,
        x_label: x_label.into(),
        y_label: y_label.into(),
        x,
        curves,
        marks: Vec::new(),
    };
    let times = SYSTEMS
        .iter()
        .enumerate()
        .map(|(colour, (system, name))| curve(name, colour, "cold", system, TIME, &delays));
    let speedups =
        ["cold", "hot"].iter().enumerate().map(|(i, s)| curve(s, 3 + i, s, "wrap", SPEEDUP, &delays));
    let caches: Vec<String> = CACHES.iter().map(u64::to_string).collect();
    let by_cache = SIZES.iter().enumerate().map(|(i, size)| {
        let setting = format!("{size} stores");
        curve(&setting, 3 + i, &setting, "wrap", SPEEDUP, &caches)
    });
    vec![
        panel("(a) Ten stores, cold cache", "CPU delay in cycles", "cycles", delays.clone(), times.collect()),
        panel("(b) Ten stores", "CPU delay in cycles", "undo log / WrAP", delays.clone(), speedups.collect()),
        panel("(c) Cold cache", "cache in blocks", "undo log / WrAP", caches.clone(), by_cache.collect()),
    ]
}
