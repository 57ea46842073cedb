//! Measures software schemes on a simulated machine: the cells of native figures, independent of this host's noise and number of cores.

use strandline_core::layout::Geometry;
use strandline_core::memory::WriteBackInstruction;
use strandline_sim::run::{Outcome, PoolSizes, Prepared, Run};
use strandline_sim::{Description, scheme};
use strandline_workloads::{SchemeName, Sizes, WorkloadKind};

use super::cell::{ABORTS, Cell, SIMULATED, THROUGHPUT};
use crate::error::Error;
use crate::measurements::{Key, Measurements};
use crate::session::{Effort, Session};

/// Returns the cells of a figure that a machine runs: each once, whatever the native instructions.
fn cells<'a>(cells: &'a [Cell], session: &Session) -> Vec<&'a Cell> {
    let Some(machine) = &session.machine else { return Vec::new() };
    let fits = |cell: &&Cell| {
        cell.instruction == WriteBackInstruction::Clflush
            && (cell.threads <= machine.cores.count as u64 || machine.time_slices.is_some())
    };
    cells.iter().filter(fits).collect()
}

/// Returns how many runs the cells take.
pub fn steps(figure: &str, all: &[Cell], session: &Session) -> u64 {
    cells(all, session).len() as u64 * session.simulated_repetitions(figure)
}

/// Returns how many transactions each thread runs before any count, and how many count.
///
/// With full effort these are 50,000 operations each, quickly 6,000 and 30,000. With several threads each thread runs half of that. Long values need
/// fewer, and with full effort a log larger than 1 MB needs proportionally more. With full effort so many operations fill the last level of cache,
/// and the logs several times. Rates then differ by at most two percent from those of two to six times as many operations, whatever the seed. After
/// the quick run's warm-up the caches are still cold, and NP on `sps` reaches 84% of its rate.
pub(crate) fn transactions(cell: &Cell, session: &Session) -> (u64, u64) {
    let long_values = 1 + cell.sizes.value_bytes / 512;
    let of = |operations: u64| operations / cell.sizes.operations / cell.threads.min(2) / long_values;
    let logs = cell.log_bytes as f64 / Geometry::default().log_bytes as f64;
    match session.effort {
        Effort::Full => (of(50_000), (of(50_000) as f64 * logs.max(1.0)) as u64),
        Effort::Quick => (of(6_000), of(30_000)),
        Effort::Trial => (20, 100),
    }
}

/// Returns the machine on which a cell runs: programs wait for the cell's latency after each flush, whatever memory the machine has.
pub(crate) fn machine_of(cell: &Cell, machine: &Description) -> Description {
    let mut machine = machine.clone();
    machine.persistence.flush_delay_ns = cell.latency_ns as f64;
    if let Some(cores) = cell.simulated_cores.filter(|_| machine.time_slices.is_some()) {
        machine.cores.count = cores;
    }
    machine
}

/// Returns a name for a run that contains everything on which its numbers depend. The scheme's name determines which pointers and fences its logs
/// have.
fn name_of(cell: &Cell, logs: usize, machine: &Description, run: &Run) -> String {
    let mut machine = machine.clone();
    machine.program.log_pointers = Default::default();
    machine.program.mnemosyne_log = Default::default();
    let pool = (cell.workload.name, cell.sizes, cell.log_bytes, logs);
    let lengths = (run.threads, run.transactions, run.warm_up, run.idle_percent, run.seed);
    format!("{} {pool:?} {lengths:?} {machine:?}", run.scheme.name())
}

/// A measured quantity.
type Quantity = (&'static str, fn(&Outcome) -> f64);
const QUANTITIES: [Quantity; 6] = [
    (THROUGHPUT, |outcome| outcome.tx_per_s),
    (ABORTS, |outcome| outcome.abort_ratio),
    ("fences/tx", |outcome| outcome.fences_per_tx),
    ("lines/tx", |outcome| outcome.lines_flushed_per_tx),
    ("log bytes/tx", |outcome| outcome.log_bytes_per_tx),
    ("bulk persists", |outcome| outcome.bulk_persists as f64),
];

/// Runs the cells of a figure on the session's machine, if it has one.
///
/// # Errors
/// Returns an error if the machine cannot be built, or if a transaction fails.
pub fn measure(session: &Session, figure: &str, all: &[Cell], into: &mut Measurements) -> Result<(), Error> {
    let Some(machine) = &session.machine else { return Ok(()) };
    let none =
        scheme::find("none").ok_or_else(|| Error::Usage("the machine has no plain hardware".into()))?;
    let mut prepared: Option<((WorkloadKind, Sizes, u64, usize), Prepared)> = None;
    for cell in cells(all, session) {
        let description = machine_of(cell, machine);
        let logs = (cell.threads as usize).max(machine.cores.count);
        let key = (cell.workload, cell.sizes, cell.log_bytes, logs);
        let scheme: SchemeName = cell.system.parse().map_err(|error| Error::Usage(format!("{error}")))?;
        let mut runs = Vec::new();
        for repetition in 0..session.simulated_repetitions(figure) {
            let (warm_up, transactions) = transactions(cell, session);
            let run = Run {
                scheme: description.program.scheme(scheme),
                threads: cell.threads as usize,
                transactions,
                warm_up,
                idle_percent: cell.idle_percent,
                seed: session.seed.wrapping_add(repetition),
            };
            runs.push(session.runs.get(name_of(cell, logs, &description, &run), || {
                let pool = match prepared.take() {
                    Some((same, pool)) if same == key => pool,
                    _ => {
                        let sizes = PoolSizes { log_bytes: cell.log_bytes, ..PoolSizes::default() };
                        Prepared::new(cell.workload, &cell.sizes, sizes, logs)?
                    }
                };
                let (_, pool) = prepared.insert((key, pool));
                let outcome = pool.run(&description, none, &run, Vec::new())?.outcome;
                Ok(QUANTITIES.iter().map(|(_, of)| of(&outcome)).collect())
            })?);
            session.progress.inc(1);
        }
        let setting = cell.setting.replace(cell.instruction.name(), SIMULATED);
        for (index, (quantity, _)) in QUANTITIES.into_iter().enumerate() {
            let values: Vec<f64> = runs.iter().map(|numbers| numbers[index]).collect();
            into.add_seeds(
                Key { figure, setting: &setting, system: cell.system, quantity },
                &cell.x,
                &values,
            );
        }
    }
    Ok(())
}
