//! Measuring software schemes on a simulated machine: the native figures' cells, free of this host's noise and of its
//! number of cores.

use strandline_core::layout::Geometry;
use strandline_core::memory::WriteBackInstruction;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::{Description, scheme};
use strandline_workloads::{SchemeName, Sizes, WorkloadKind};

use crate::blurred::figures;
use crate::measurements::{Key, Measurements, Spread};
use crate::native::{ABORTS, Cell, THROUGHPUT};
use crate::paper::Site;
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
pub fn steps(figure: &str, all: &[Cell], session: &Session) -> u64 {
    cells(all, session).len() as u64 * repetitions(figure, session)
}

/// Runs of a cell, which differ by their seeds alone: by a third of a percent at most. So three are made of what is judged
/// here, and one of what stands beside a native figure.
pub fn repetitions(figure: &str, session: &Session) -> u64 {
    match (&session.machine, session.effort) {
        (None, _) => 0,
        (Some(_), Effort::Full) if Site::Simulated.judges(figure) => 3,
        (Some(_), _) => 1,
    }
}

/// Transactions of each thread before anything counts, and those that count.
///
/// In full they are 50,000 operations each, half of that of each thread where there are several, fewer on long values, and so many more that count as a log
/// is larger than one of 1 MB. That many fill the last level of cache, and logs several times. Rates are within two percent of those
/// of two to six times as many then, whatever the seed; with the quick run's warm-up caches are still cold, and NP on `sps` is at 84% of
/// its rate.
fn transactions(cell: &Cell, session: &Session) -> (u64, u64) {
    let long_values = 1 + cell.sizes.value_bytes / 512;
    let each = 50_000 / cell.sizes.operations / cell.threads.min(2) / long_values;
    let logs = cell.log_bytes as f64 / Geometry::default().log_bytes as f64;
    match session.effort {
        Effort::Full => (each, (each as f64 * logs.max(1.0)) as u64),
        Effort::Quick => (6_000, 30_000),
        Effort::Trial => (20, 100),
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
        for repetition in 0..repetitions(figure, session) {
            let (warm_up, transactions) = transactions(cell, session);
            let run = Run {
                scheme,
                threads: cell.threads as usize,
                transactions,
                warm_up,
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

    /// What is judged on the machine has three seeds, what stands beside one; what noise decides is measured again without ours.
    #[test]
    fn what_is_judged_is_measured_more_than_what_stands_beside() {
        let opteron = strandline_sim::file::load("opteron", &[""; 0]).unwrap();
        let session = Session { machine: Some(opteron), ..Session::for_tests(Effort::Full) };
        let runs = |figure| (repetitions(figure, &session), session.repetitions(figure).count());
        assert_eq!([runs("fig7"), runs("fig8"), runs("fig11")], [(1, 7), (3, 3), (3, 3)]);
        let again = Session { round: 1, ..session.clone() };
        let systems = |session: &Session| -> Vec<&str> {
            let mut all: Vec<_> = figures::fig7(session).iter().map(|cell| cell.system).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        assert!(systems(&session).contains(&"vcbp-streamed") && systems(&session).contains(&"bppm-counted"));
        assert_eq!(systems(&again), ["base", "bppm", "mne-sync", "np", "vcbp", "xil"]);
    }

    /// A transaction of more operations is measured less often, and a larger log is full as often as one of 1 MB.
    #[test]
    fn lengths_are_counted_in_operations_and_logs() {
        let session = Session::for_tests(Effort::Full);
        let lengths = |cells: Vec<Cell>, x: &str| {
            let cell = cells.into_iter().find(|cell| cell.x == x).unwrap();
            transactions(&cell, &session)
        };
        assert_eq!(lengths(figures::fig10(&session), "1"), (50_000, 50_000));
        assert_eq!(lengths(figures::fig10(&session), "32"), (1562, 1562));
        assert_eq!(lengths(figures::fig11(&session), "0.1 MB"), (50_000, 50_000));
        assert_eq!(lengths(figures::fig11(&session), "2 MB"), (50_000, 100_000));
        assert_eq!(lengths(figures::fig8(&session), "2"), (25_000, 25_000));
        assert_eq!(lengths(figures::fig14(&session), "90"), (16_666, 16_666));
    }

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
