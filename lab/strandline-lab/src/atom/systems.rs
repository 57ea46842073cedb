//! The designs and workloads of the paper, and how one of each runs.

use strandline_sim::Description;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::scheme;
use strandline_workloads::{ALL, SchemeName, Sizes, TPCC_NEW_ORDER};

use crate::error::Error;
use crate::session::{Effort, Session};

/// The paper's simulated machine.
pub const MACHINE: &str = "atom";

/// A design.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// The paper's name, which series use.
    pub name: &'static str,
    software: &'static str,
    hardware: &'static str,
    /// True if each controller has a second channel, for the log.
    two_channels: bool,
}

const fn flushed(name: &'static str, hardware: &'static str) -> System {
    System { name, software: "plain-flushed+locks", hardware, two_channels: false }
}

pub const BASE: System = flushed("BASE", "atom-base");
pub const ATOM: System = flushed("ATOM", "atom");
pub const ATOM_OPT: System = flushed("ATOM-OPT", "atom-opt");
pub const NON_ATOMIC: System = flushed("NON-ATOMIC", "none");
pub const REDO: System =
    System { name: "REDO", software: "plain+locks", hardware: "atom-redo", two_channels: false };
pub const REDO_2C: System = System { name: "REDO-2C", two_channels: true, ..REDO };
pub const ATOM_OPT_2C: System = System { name: "ATOM-OPT-2C", two_channels: true, ..ATOM_OPT };

/// Sizes of entries in bytes.
pub const SIZES: [u64; 2] = [512, 4096];
/// The micro-benchmarks of Table II.
pub const WORKLOADS: [&str; 6] = ["btree", "hash", "queue", "rbtree", "sdg", "sps"];
/// The threads, one on each core (section V).
const THREADS: usize = 32;
/// The cycles of DRAM's reads and writes. Memory takes ten times as long (section V).
pub const DRAM_CYCLES: [u64; 2] = [24, 36];

/// The results of a run.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Transactions per second of simulated time.
    pub throughput: f64,
    /// Cycles per transaction in which a store waited for the full store queue.
    pub queue_full: f64,
    /// Log entries per transaction.
    pub entries: f64,
    /// Percent of the log entries that controllers made by themselves.
    pub source_logged: f64,
    /// Lines written to memory per transaction.
    pub written: f64,
    /// The share of the attempts that met a conflict.
    pub conflicts: f64,
}

/// A filled workload.
pub struct Ready {
    prepared: Prepared,
    transactions: u64,
    warm_up: u64,
    seed: u64,
    /// True if each use of a table that is written is an atomic region of its own: the paper annotates all critical sections of TPC-C.
    in_parts: bool,
}

fn usage(error: impl std::fmt::Display) -> Error {
    Error::Usage(format!("{error:#}"))
}

impl Ready {
    /// Fills a workload with entries of so many bytes.
    ///
    /// # Errors
    /// Returns an error if a size is impossible.
    pub fn new(session: &Session, workload: &str, entry_bytes: u64) -> Result<Self, Error> {
        let name = ALL.of_name(workload).map_err(usage)?;
        let tpcc = name == &TPCC_NEW_ORDER;
        let sizes = match session.effort {
            Effort::Trial => Sizes { value_bytes: 64, ..Sizes::small() },
            _ if tpcc => Sizes::default(),
            _ => Sizes::atom(entry_bytes),
        };
        // The number of transactions of a thread that count, and of those that precede them.
        let large = entry_bytes == SIZES[1];
        let (transactions, warm_up) = match session.effort {
            Effort::Full if tpcc => (40, 5),
            Effort::Full if large => (100, 30),
            Effort::Full => (300, 60),
            Effort::Quick if tpcc => (15, 3),
            Effort::Quick if large => (20, 10),
            Effort::Quick => (60, 20),
            Effort::Trial => (3, 2),
        };
        let pool = PoolSizes { log_bytes: 4096, chunk_bytes: 64 << 10, lock_bits: 16 };
        // At most 0.7% of the paper's log entries are for lines that were in no cache (Table III), so its data fit the second level.
        let machine = machine(session, &[])?;
        let scheme = if tpcc { "plain" } else { "plain+locks" }.parse().map_err(usage)?;
        let prepared = Prepared::of_scope(name, &sizes, pool, THREADS, scheme, &machine)?.cached(THREADS);
        Ok(Self { prepared, transactions, warm_up, seed: session.seed, in_parts: tpcc })
    }

    /// Runs the workload under a system.
    ///
    /// # Errors
    /// Returns an error if a transaction fails.
    pub fn run(&self, session: &Session, overrides: &[String], system: System) -> Result<Row, Error> {
        let mut overrides = overrides.to_vec();
        if system.two_channels {
            overrides.extend(["controllers.channels=2".into(), "controllers.log_channel=true".into()]);
        }
        let machine = machine(session, &overrides)?;
        let software = system.software.replace("+locks", if self.in_parts { "+parts" } else { "+locks" });
        let name: SchemeName = software.parse().map_err(usage)?;
        let hardware = scheme::find(system.hardware)
            .ok_or_else(|| usage(format!("there is no hardware scheme {}", system.hardware)))?;
        let Self { prepared, transactions, warm_up, seed, .. } = self;
        let run = Run {
            scheme: name,
            threads: THREADS,
            transactions: *transactions,
            warm_up: *warm_up,
            idle_percent: 0,
            seed: *seed,
        };
        let outcome = prepared.run(&machine, hardware, &run, Vec::new())?.outcome;
        let statistics = &outcome.statistics;
        let count = |name: &str| {
            let found = statistics.scheme.iter().find(|(other, _)| other == name);
            found.map_or(0.0, |(_, count)| *count as f64)
        };
        let done = (THREADS as u64 * transactions) as f64;
        let queue_full: u64 = statistics.cores.iter().map(|core| core.stalls.store_queue_full).sum();
        let entries = count("log entries");
        Ok(Row {
            // Measured until the last thread has ended: the sum of the threads' own rates would assume that those that end early continue.
            throughput: done / outcome.seconds,
            queue_full: queue_full as f64 / done,
            entries: entries / done,
            source_logged: 100.0 * count("of them source-logged") / entries.max(1.0),
            written: statistics.traffic.writes() as f64 / done,
            conflicts: outcome.abort_ratio,
        })
    }
}

/// Returns the paper's machine with some of its keys overridden.
///
/// # Errors
/// Returns an error if an override is impossible.
pub fn machine(session: &Session, overrides: &[String]) -> Result<Description, Error> {
    session.load(MACHINE, overrides)
}
