//! Measuring software schemes on a simulated machine: the native figures' cells, free of this host's noise and of its
//! number of cores.

use strandline_core::memory::WriteBackInstruction;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::{Description, scheme};
use strandline_workloads::{SchemeName, Sizes, WorkloadKind};

use crate::blurred::figures;
use crate::measurements::{Key, Measurements, Spread};
use crate::native::{ABORTS, Cell, THROUGHPUT};
use crate::session::{Effort, Error, Session};

/// What stands for the instruction in a series' setting.
pub const SIMULATED: &str = "simulated";

/// Those of a figure's cells that a machine runs: each once, whatever the native instructions.
fn cells<'a>(cells: &'a [Cell], session: &Session) -> Vec<&'a Cell> {
    let Some(machine) = &session.machine else { return Vec::new() };
    let fits = |cell: &&Cell| {
        cell.instruction == WriteBackInstruction::Clflush
            && (cell.threads <= machine.cores.count as u64 || machine.time_slices.is_some())
    };
    cells.iter().filter(fits).collect()
}

/// How many runs the cells take.
pub fn steps(all: &[Cell], session: &Session) -> u64 {
    cells(all, session).len() as u64 * repetitions(session)
}

/// Runs of a cell, which differ by their seeds alone.
pub fn repetitions(session: &Session) -> u64 {
    match (&session.machine, session.effort) {
        (None, _) => 0,
        (Some(_), Effort::Full) => 3,
        (Some(_), _) => 1,
    }
}

/// Transactions of each thread: logs of the default size are full several times.
fn transactions(session: &Session) -> u64 {
    match session.effort {
        Effort::Full => 100_000,
        Effort::Quick => 30_000,
        Effort::Trial => 100,
    }
}

/// The machine that a figure's cell runs on: programs wait for the cell's latency after each flush, on whatever memory the machine
/// has.
fn machine_of(figure: &str, cell: &Cell, machine: &Description) -> Description {
    let mut machine = machine.clone();
    machine.persistence.flush_delay_ns = cell.latency_ns as f64;
    if let Some(cores) = figures::cores(figure).filter(|_| machine.time_slices.is_some()) {
        machine.cores.count = cores;
    }
    machine
}

/// Runs the cells of a figure on the session's machine, if it has one.
///
/// # Errors
/// The machine cannot be built; a transaction failed.
pub fn measure(session: &Session, figure: &str, all: &[Cell], into: &mut Measurements) -> Result<(), Error> {
    let Some(machine) = &session.machine else { return Ok(()) };
    let none =
        scheme::find("none").ok_or_else(|| Error::Usage("the machine has no plain hardware".into()))?;
    let mut prepared: Option<((WorkloadKind, Sizes, u64, usize), Prepared)> = None;
    for cell in cells(all, session) {
        let description = machine_of(figure, cell, machine);
        let logs = (cell.threads as usize).max(machine.cores.count);
        let key = (cell.workload, cell.sizes, cell.log_bytes, logs);
        let pool = match prepared.take() {
            Some((same, pool)) if same == key => pool,
            _ => {
                let sizes = PoolSizes { log_bytes: cell.log_bytes, ..PoolSizes::default() };
                Prepared::new(cell.workload, &cell.sizes, sizes, logs)?
            }
        };
        let scheme: SchemeName = cell.system.parse().map_err(|error| Error::Usage(format!("{error}")))?;
        let mut outcomes = Vec::new();
        for repetition in 0..repetitions(session) {
            let transactions = transactions(session);
            let run = Run {
                scheme,
                threads: cell.threads as usize,
                transactions,
                warm_up: transactions / 5,
                idle_percent: cell.idle_percent,
                seed: session.seed.wrapping_add(repetition),
            };
            outcomes.push(pool.run(&description, none, &run, Vec::new())?.outcome);
            session.progress.inc(1);
        }
        let setting = cell.setting.replace(cell.instruction.name(), SIMULATED);
        type Quantity<'a> = (&'a str, &'a dyn Fn(&strandline_sim::run::Outcome) -> f64);
        let quantities: [Quantity; 6] = [
            (THROUGHPUT, &|outcome| outcome.tx_per_s),
            (ABORTS, &|outcome| outcome.abort_ratio),
            ("fences/tx", &|outcome| outcome.fences_per_tx),
            ("lines/tx", &|outcome| outcome.lines_flushed_per_tx),
            ("log bytes/tx", &|outcome| outcome.log_bytes_per_tx),
            ("bulk persists", &|outcome| outcome.bulk_persists as f64),
        ];
        for (quantity, of) in quantities {
            let values: Vec<f64> = outcomes.iter().map(of).collect();
            if let Some(spread) = Spread::of(&values) {
                into.add(Key { figure, setting: &setting, system: cell.system, quantity }, &cell.x, spread);
            }
        }
        prepared = Some((key, pool));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_latency_is_the_programs_and_not_the_memorys() {
        let opteron = strandline_sim::file::load("opteron", &[""; 0]).unwrap();
        let session = Session::for_tests(Effort::Full);
        let cells = figures::fig13(&session);
        let delays: Vec<f64> = cells
            .iter()
            .map(|cell| {
                let machine = machine_of("fig13", cell, &opteron);
                assert_eq!(machine.nvm, opteron.nvm);
                machine.persistence.flush_delay_ns
            })
            .collect();
        assert!(delays.contains(&35.0) && delays.contains(&2000.0), "{delays:?}");
        assert_eq!(machine_of("fig7", &figures::fig7(&session)[0], &opteron), opteron);
        assert!(opteron.persistence.flush_cost_ns > 0.0);
    }
}
