//! Beyond the papers: runs the common workloads under every scheme of the project, software and hardware, on one simulated machine.
//!
//! Schemes, hardware and workloads are those of the session's registry. A new scheme appears automatically, also in the sweeps if it is not one of
//! the papers'.

use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::scheme::{Entry, NONE, find};
use strandline_sim::{Description, Registry, file};
use strandline_workloads::{
    ALL, BPLUSTREE, HASH, QUEUE, RBTREE, SDG, SPS, SchemeName, Sizes, TPCC_NEW_ORDER, TpccScale, WorkloadKind,
};

use crate::error::Error;
use crate::measurements::{Key, Measurements, Spread};
use crate::panel::{Curve, Form, Panel};
use crate::paper::{FigureSpec, Paper};
use crate::session::{Effort, Session};

/// The comparison, in the form of a paper without claims.
pub static PAPER: Paper = Paper {
    name: "compare",
    letter: 'C',
    title: "Every scheme on one machine",
    citation: "no paper: what the five papers' systems do beside one another (docs/schemes.md)",
    page: "docs/schemes.md",
    setting: "The simulated machine `gem5-nvm`: four out-of-order cores at 2.4 GHz, 32 KB, 256 KB and 12 MB of cache, \
              non-volatile memory that reads in 150 ns and writes in 500 ns, and reaches its fences at the media. Hardware \
              schemes run beside the software that belongs to them. Transactions per second of simulated time, lines \
              written to non-volatile memory, log bytes, and cycles in which a core waited for durability, each per \
              transaction.",
    figures: &FIGURES,
    claims: &[],
    natively: false,
    machine: None,
};

static FIGURES: [FigureSpec; 3] = [
    FigureSpec {
        id: TABLE,
        number: "1",
        title: "All schemes, one core and all cores",
        method: "Every workload under every scheme on one core, and on all, in each of the scheme's modes.",
        steps: |session| steps(session, systems(session.registry), &workloads(session), 2),
        run: run_table,
        draw: draw_table,
    },
    FigureSpec {
        id: LATENCY,
        number: "2",
        title: "Over the latency of non-volatile memory",
        method: "One core; reads and writes of non-volatile memory take a quarter, half, twice and four times as long.",
        steps: |session| {
            steps(session, swept_systems(session.registry), &swept(session), LATENCIES.len() as u64)
        },
        run: run_latency,
        draw: |all| draw(all, LATENCY, "times the latency"),
    },
    FigureSpec {
        id: CORES,
        number: "3",
        title: "Over cores",
        method: "One, two and four cores.",
        steps: |session| {
            steps(session, swept_systems(session.registry), &swept(session), CORE_COUNTS.len() as u64)
        },
        run: run_cores,
        draw: |all| draw(all, CORES, "cores"),
    },
];

const TABLE: &str = "table";
const LATENCY: &str = "latency";
const CORES: &str = "cores";
const MACHINE: &str = "gem5-nvm";
const THROUGHPUT: &str = "tx/s";
const NVM_WRITES: &str = "NVM lines written/tx";
const LOG_BYTES: &str = "log bytes/tx";
const STALLS: &str = "cycles stalled for durability/tx";
const QUANTITIES: [&str; 4] = [THROUGHPUT, NVM_WRITES, LOG_BYTES, STALLS];
const CORE_COUNTS: [usize; 3] = [1, 2, 4];
const LATENCIES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
const WORKLOADS: [WorkloadKind; 7] = [&SPS, &HASH, &RBTREE, &BPLUSTREE, &QUEUE, &SDG, &TPCC_NEW_ORDER];

/// One software scheme of each kind for the sweeps. They also have hardware with the first software that it lists.
const SWEPT_SOFTWARE: [&str; 8] =
    ["np", "base", "s-wal", "undo-log+single-writer", "dct-eager-sync", "mne-async", "wrap", "bppm"];
const SWEPT_HARDWARE: [&str; 8] =
    ["undo-log", "atom-base", "atom-opt", "atom-redo", "h-wal", "loc-wal", "loc-kiln", "wrap"];

/// A scheme with its hardware.
struct System {
    name: String,
    software: SchemeName,
    hardware: &'static Entry,
}

/// Returns all systems: software that runs on real memory without hardware, and each hardware scheme with its software.
fn systems(registry: Registry) -> Result<Vec<System>, Error> {
    let none = &NONE;
    let is_alone = |scheme: &SchemeName| scheme.kind.is_none_or(|kind| kind.is_native);
    let mut all: Vec<System> = SchemeName::all_of(registry.schemes)
        .filter(is_alone)
        .map(|software| System { name: software.name().to_owned(), software, hardware: none })
        .collect();
    for hardware in registry.hardware.iter().filter(|entry| entry.make.is_some()) {
        for name in hardware.software {
            let software = registry.scheme(name).map_err(|error| Error::Usage(format!("{error:#}")))?;
            all.push(System { name: format!("{} ({name})", hardware.name), software, hardware });
        }
    }
    Ok(all)
}

/// Returns the systems of the sweeps.
fn swept_systems(registry: Registry) -> Result<Vec<System>, Error> {
    let mut all = systems(registry)?;
    let is_own = |name: &str| SchemeName::all().all(|scheme| scheme.name() != name);
    all.retain(|system| match system.hardware.make {
        None => SWEPT_SOFTWARE.contains(&system.name.as_str()) || is_own(&system.name),
        Some(_) => {
            let (name, first) = (system.hardware.name, system.hardware.software.first());
            (SWEPT_HARDWARE.contains(&name) || find(name).is_none())
                && first.is_some_and(|name| *name == system.software.name())
        }
    });
    Ok(all)
}

fn sizes(session: &Session) -> Sizes {
    match session.effort {
        Effort::Trial => Sizes::small(),
        // Larger than the last level of cache, and quick to fill.
        Effort::Quick | Effort::Full => Sizes {
            array_words: 1 << 21,
            buckets: 1 << 16,
            hash_keys: 1 << 17,
            rbtree_keys: 1 << 17,
            bplustree_keys: 1 << 18,
            vertices: 1 << 15,
            edges: 1 << 17,
            tpcc: TpccScale::small(),
            ..Sizes::default()
        },
    }
}

fn transactions(session: &Session) -> u64 {
    match session.effort {
        Effort::Full => 2000,
        Effort::Quick => 200,
        Effort::Trial => 5,
    }
}

fn workloads(session: &Session) -> Vec<WorkloadKind> {
    let count = if session.effort == Effort::Trial { 1 } else { WORKLOADS.len() };
    let mut all = WORKLOADS[..count].to_vec();
    all.extend(own_workloads(session));
    all
}

/// Returns the workloads of the registry that are not the project's.
fn own_workloads(session: &Session) -> impl Iterator<Item = WorkloadKind> {
    session.registry.workloads.iter().filter(|kind| ALL.of_name(kind.name).is_err())
}

/// Returns the workloads for the sweeps over latency and cores.
fn swept(session: &Session) -> Vec<WorkloadKind> {
    match session.effort {
        Effort::Full => workloads(session),
        Effort::Quick => [&HASH].into_iter().chain(own_workloads(session)).collect(),
        Effort::Trial => WORKLOADS[..1].to_vec(),
    }
}

fn steps(
    session: &Session,
    systems: Result<Vec<System>, Error>,
    workloads: &[WorkloadKind],
    points: u64,
) -> u64 {
    let points = if session.effort == Effort::Trial { 1 } else { points };
    workloads.len() as u64 * systems.map_or(0, |all| all.len() as u64) * points
}

fn machine(overrides: &[String]) -> Result<Description, Error> {
    file::load(MACHINE, overrides).map_err(|error| Error::Usage(format!("{error:#}")))
}

fn prepared(session: &Session, workload: WorkloadKind) -> Result<Prepared, Error> {
    // With small logs, even short runs restart them.
    let pool = PoolSizes { log_bytes: 64 << 10, ..PoolSizes::default() };
    Ok(Prepared::new(workload, &sizes(session), pool, CORE_COUNTS[CORE_COUNTS.len() - 1])?)
}

/// Makes one run. Returns a value for each of [`QUANTITIES`], or no values if the scheme cannot run: its hardware does not fit the machine, or the
/// log is too small.
fn measure(
    session: &Session,
    prepared: &Prepared,
    (figure, workload): (&str, WorkloadKind),
    system: &System,
    (x, machine, threads): &Point,
) -> Option<[f64; 4]> {
    let threads = *threads;
    let run = Run {
        scheme: system.software,
        threads,
        transactions: transactions(session),
        warm_up: transactions(session) / 10,
        idle_percent: 0,
        seed: session.seed,
    };
    let outcome = match prepared.run(machine, system.hardware, &run, Vec::new()) {
        Ok(finished) => finished.outcome,
        Err(error) => {
            let (workload, name) = (workload.name, &system.name);
            session.progress.println(format!("{workload} under {name}, {figure} {x}: {error:#}"));
            return None;
        }
    };
    let per_tx = |count: u64| count as f64 / (run.transactions * threads as u64) as f64;
    let statistics = &outcome.statistics;
    let traffic = &statistics.traffic;
    let origins = [
        &traffic.eviction,
        &traffic.forced_write_back,
        &traffic.write_back_all,
        &traffic.non_temporal,
        &traffic.downgrade,
        &traffic.scheme,
    ];
    let persistent: u64 = origins.iter().map(|lines| lines.total() - lines.volatile).sum();
    let stalled: u64 = statistics
        .cores
        .iter()
        .map(|core| {
            let stalls = core.stalls;
            stalls.fence_drain + stalls.fence_persist + stalls.write_back_all + stalls.scheme
        })
        .sum();
    Some([outcome.tx_per_s, per_tx(persistent), outcome.log_bytes_per_tx, per_tx(stalled)])
}

/// Name, machine and threads.
type Point = (String, Description, usize);

/// Runs workloads under all systems at some points.
fn sweep(
    session: &Session,
    figure: &str,
    (systems, workloads): (Vec<System>, Vec<WorkloadKind>),
    points: &[Point],
    into: &mut Measurements,
) -> Result<(), Error> {
    // A trial only shows that each point runs.
    let points = &points[..if session.effort == Effort::Trial { 1 } else { points.len() }];
    let jobs: Vec<(&System, &Point)> =
        systems.iter().flat_map(|system| points.iter().map(move |point| (system, point))).collect();
    for workload in workloads {
        let prepared = prepared(session, workload)?;
        let found = session.simulate(&jobs, |&(system, point)| {
            Ok(measure(session, &prepared, (figure, workload), system, point))
        })?;
        for ((system, (x, ..)), values) in jobs.iter().zip(found) {
            for (quantity, value) in QUANTITIES.iter().zip(values.into_iter().flatten()) {
                let key = Key { figure, setting: workload.name, system: &system.name, quantity };
                into.add(key, x, Spread::exactly(value));
            }
        }
    }
    Ok(())
}

fn run_table(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let machine = machine(&[])?;
    let most = machine.cores.count;
    let points = [1, most].map(|cores| (format!("{cores}"), machine.clone(), cores));
    sweep(session, TABLE, (systems(session.registry)?, workloads(session)), &points, into)
}

fn run_latency(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let paper = machine(&[])?;
    let scaled = |by: f64| {
        let overrides = [
            format!("nvm.read_ns={}", paper.nvm.read_ns * by),
            format!("nvm.write_ns={}", paper.nvm.write_ns * by),
        ];
        Ok((format!("{by}"), machine(&overrides)?, 1))
    };
    let points = LATENCIES.into_iter().map(scaled).collect::<Result<Vec<_>, Error>>()?;
    sweep(session, LATENCY, (swept_systems(session.registry)?, swept(session)), &points, into)
}

fn run_cores(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let machine = machine(&[])?;
    let points = CORE_COUNTS.map(|cores| (format!("{cores}"), machine.clone(), cores));
    sweep(session, CORES, (swept_systems(session.registry)?, swept(session)), &points, into)
}

/// Returns the systems for which a figure has numbers, in order.
fn measured<'a>(all: &'a Measurements, figure: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for series in all.of(figure) {
        let name = series.key().system;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Draws throughput by workload, with one curve for each system.
fn draw(all: &Measurements, figure: &str, x_label: &str) -> Vec<Panel> {
    let xs: Vec<String> = all.xs(figure).into_iter().map(str::to_owned).collect();
    let (software, hardware): (Vec<&str>, Vec<&str>) =
        measured(all, figure).into_iter().partition(|name| !name.contains('('));
    let panel = |workload: &str, kind: &str, systems: &[&str]| Panel {
        title: format!("{workload}, {kind}"),
        form: Form::Lines,
        x_label: x_label.into(),
        y_label: "transactions per second".into(),
        x: xs.clone(),
        curves: systems
            .iter()
            .enumerate()
            .map(|(colour, &system)| Curve {
                name: system.into(),
                colour,
                values: xs
                    .iter()
                    .map(|x| all.spread(Key { figure, setting: workload, system, quantity: THROUGHPUT }, x))
                    .collect(),
            })
            .collect(),
        marks: Vec::new(),
    };
    let workloads = all.settings(figure).into_iter();
    workloads
        .flat_map(|name| [panel(name, "software", &software), panel(name, "hardware", &hardware)])
        .collect()
}

/// Draws every quantity by workload, with a bar for each system.
fn draw_table(all: &Measurements) -> Vec<Panel> {
    let systems = measured(all, TABLE);
    let x: Vec<String> = systems.iter().map(|&name| name.to_owned()).collect();
    let mut panels = Vec::new();
    for workload in all.settings(TABLE) {
        for quantity in QUANTITIES {
            let curves = all.xs(TABLE).into_iter().enumerate().map(|(colour, cores)| Curve {
                name: format!("{cores} cores"),
                colour,
                values: systems
                    .iter()
                    .map(|&system| {
                        all.spread(Key { figure: TABLE, setting: workload, system, quantity }, cores)
                    })
                    .collect(),
            });
            panels.push(Panel {
                title: format!("{workload}: {quantity}"),
                form: Form::Bars,
                x_label: "scheme".into(),
                y_label: quantity.into(),
                x: x.clone(),
                curves: curves.collect(),
                marks: Vec::new(),
            });
        }
    }
    panels
}

#[cfg(test)]
mod tests {
    use strandline_core::Concurrency;

    use super::*;

    #[test]
    fn every_scheme_and_every_hardware_scheme_is_compared() {
        let registry = Registry::default();
        let all = systems(registry).unwrap();
        for entry in registry.hardware.iter().filter(|entry| entry.make.is_some()) {
            assert!(all.iter().any(|system| system.hardware.name == entry.name), "{}", entry.name);
        }
        let swept = swept_systems(registry).unwrap();
        assert_eq!(swept.len(), SWEPT_SOFTWARE.len() + SWEPT_HARDWARE.len());
        for name in ["volatile", "np", "base", "bppm", "bppm+single-writer", "wrap", "sct-eager-sync"] {
            assert!(all.iter().any(|system| system.name == name), "{name}");
        }
        assert!(all.iter().any(|system| system.software.concurrency == Concurrency::Locks));
    }
}
