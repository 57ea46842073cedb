//! Measures software schemes on this machine's memory.
//!
//! A shared machine must not decide an order. So everything that is compared is measured in turn, again and again (A B C A B C …), on one prepared
//! pool for each structure. Results are medians with the middle half of the repetitions. Rates are per second of the threads' own processor time,
//! which does not advance while another program has the core. On an otherwise idle core that equals the elapsed time.

use std::path::PathBuf;

use strandline_command::Place;
use strandline_core::{Concurrency, Domain};
use strandline_sim::description::ProgramChoices;
use strandline_workloads::{PoolSetting, Prepared, Row, Run, SchemeName, Selection, Sizes, WorkloadKind};

use super::cell::{ABORTS, BY_LINE, Cell, THROUGHPUT};
use crate::error::Error;
use crate::measurements::{Key, Measurements};
use crate::session::{Pace, Session};

/// The number of logs that a pool has: enough for any measured number of threads.
const LOGS: u64 = 8;
/// The number of warm-ups that NP makes on a newly opened pool.
const MAPPING: u32 = 3;

impl Cell {
    fn pool(&self) -> (WorkloadKind, Sizes, u64) {
        // The number of operations in a transaction does not affect the structure, so such cells share a pool.
        (self.workload, Sizes { operations: 1, ..self.sizes }, self.log_bytes)
    }

    fn domain(&self) -> Domain {
        Domain::Emulated { write_latency_ns: self.latency_ns }
    }

    fn path(&self, place: &Place) -> PathBuf {
        let Sizes { value_bytes, .. } = self.sizes;
        place.folder().join(format!("{}-{value_bytes}-{}", self.workload.name, self.log_bytes))
    }

    fn prepare(&self, place: &Place) -> Result<Prepared, Error> {
        let selection = Selection::new(self.workload, &self.sizes)?;
        let setting = PoolSetting {
            logs: LOGS,
            log_bytes: self.log_bytes,
            domain: self.domain(),
            instruction: Some(self.instruction),
            concurrency: Concurrency::Stm,
        };
        Ok(Prepared::new(&self.path(place), &selection, setting)?)
    }

    fn measure(
        &self,
        pool: &mut Prepared,
        (session, program): (&Session, &ProgramChoices),
        repetition: u64,
    ) -> Result<Row, Error> {
        pool.reopen(self.domain(), Some(self.instruction))?;
        let scheme: SchemeName = self.system.parse().map_err(|error| Error::Usage(format!("{error}")))?;
        let pace = session.pace();
        let run = Run {
            threads: self.threads,
            length: pace.length(),
            seed: session.seed.wrapping_add(repetition),
            idle_percent: self.idle_percent,
            latency: false,
        };
        let selection = Selection::new(self.workload, &self.sizes)?;
        if pool.take_fresh() {
            // Otherwise the first system of each turn would take the page faults of the pool for all others.
            let mapping = Pace { warm_up: MAPPING * pace.warm_up, duration: pace.warm_up, ..pace };
            let mapping = Run { threads: 1, length: mapping.length(), idle_percent: 0, ..run };
            let nobody = SchemeName::of(&strandline_schemes::NP, Concurrency::Stm);
            selection.measure(pool.pool(), self.domain(), nobody, &mapping)?;
        }
        Ok(selection.measure(pool.pool(), self.domain(), program.scheme(scheme), &run)?)
    }

    /// Records the results of this cell's repetitions.
    fn record(&self, figure: &str, rows: &[Row], into: &mut Measurements) {
        type Quantity<'a> = (&'a str, &'a dyn Fn(&Row) -> f64);
        let quantities: [Quantity; 9] = [
            (THROUGHPUT, &|row| charged_once(row, self.latency_ns)),
            (BY_LINE, &|row| row.tx_per_processor_s),
            (ABORTS, &|row| row.abort_ratio),
            ("tx/s by the wall clock", &|row| row.tx_per_s),
            ("fences/tx", &|row| row.fences_per_tx),
            ("lines/tx", &|row| row.lines_flushed_per_tx),
            ("bulk lines/tx", &|row| row.bulk_lines_flushed_per_tx),
            ("log bytes/tx", &|row| row.log_bytes_per_tx),
            ("bulk persists", &|row| row.bulk_persists as f64),
        ];
        for (quantity, of) in quantities {
            let values: Vec<f64> = rows.iter().map(of).collect();
            let key = Key { figure, setting: &self.setting, system: self.system, quantity };
            into.add_repetitions(key, &self.x, &values);
        }
    }
}

/// Returns the cells that are measured natively: threads that share a core would measure the scheduler.
fn here<'a>(cells: &'a [Cell], session: &Session) -> impl Iterator<Item = &'a Cell> {
    let cores = if session.natively { session.cores } else { 0 };
    cells.iter().filter(move |cell| cell.threads <= cores)
}

/// Returns how many measurements these cells take.
pub fn steps(figure: &str, cells: &[Cell], session: &Session) -> u64 {
    here(cells, session).count() as u64 * session.repetitions(figure).count() as u64
}

/// Returns the rate of a run as if each bulk persistence had been charged the emulated latency once instead of once for each line. The emulated wait
/// is serial busy-waiting, so the excess can be subtracted.
fn charged_once(row: &Row, latency_ns: u64) -> f64 {
    if row.bulk_persists == 0 {
        // Such a scheme writes back single lines when its log restarts.
        return row.tx_per_processor_s;
    }
    let operations_per_tx = row.bulk_persists as f64 / (row.tx_per_s * row.seconds);
    let too_many_per_tx = (row.bulk_lines_flushed_per_tx - operations_per_tx).max(0.0);
    let threads = row.threads as f64;
    threads / (threads / row.tx_per_processor_s - too_many_per_tx * latency_ns as f64 * 1e-9)
}

/// Measures the cells of a figure: one workload after the other, and all cells of a workload in turn.
///
/// # Errors
/// Returns an error if a pool cannot be created, or if a transaction fails.
pub fn measure(
    session: &Session,
    figure: &str,
    cells: &[Cell],
    into: &mut Measurements,
) -> Result<(), Error> {
    let place = session.place()?;
    // The programs are the paper's, whatever machine is simulated besides.
    let described = cells.iter().find_map(|cell| cell.programs_of);
    let described = described.map(|machine| session.load(machine, &[])).transpose()?;
    let program = described.map_or_else(ProgramChoices::default, |machine| machine.program);
    let cells: Vec<Cell> = here(cells, session).cloned().collect();
    for group in cells.chunk_by(|a, b| a.workload == b.workload) {
        let mut pools = Vec::new();
        for cell in group {
            if !pools.iter().any(|(key, _)| *key == cell.pool()) {
                pools.push((cell.pool(), cell.prepare(&place)?));
            }
        }
        let mut rows = vec![Vec::new(); group.len()];
        for repetition in session.repetitions(figure) {
            for (cell, rows) in group.iter().zip(&mut rows) {
                if let Some((_, pool)) = pools.iter_mut().find(|(key, _)| *key == cell.pool()) {
                    rows.push(cell.measure(pool, (session, &program), repetition)?);
                }
                session.progress.inc(1);
            }
        }
        for (cell, rows) in group.iter().zip(&rows) {
            cell.record(figure, rows, into);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the row of a thread that makes a million transactions in a second, with so many bulk persistences.
    fn row(bulk_persists: u64, bulk_lines_flushed_per_tx: f64) -> Row {
        Row {
            scheme: "bppm".into(),
            workload: "hash".into(),
            threads: 1,
            domain: "emulated".into(),
            tx_per_s: 1e6,
            tx_per_processor_s: 1e6,
            abort_ratio: 0.0,
            fences_per_tx: 1.0,
            lines_flushed_per_tx: 1.5,
            log_bytes_per_tx: 96.0,
            acknowledged_per_s: 1e6,
            seconds: 1.0,
            slowest_thread: 1.0,
            latency_ns: None,
            bulk_fences_per_tx: 0.0,
            bulk_lines_flushed_per_tx,
            bulk_persists,
            bulk_log_restarts: bulk_persists,
        }
    }

    #[test]
    fn persistence_in_bulk_is_charged_once_however_many_lines_it_writes_back() {
        // 100,000 times 20 lines at 150 ns are 300 of 1,000 ms, of which 15 ms are due.
        let once = charged_once(&row(100_000, 2.0), 150);
        assert!((once - 1e9 / (1000.0 - 300.0 + 15.0)).abs() < 1.0, "{once}");
        // Bulk persistence is still charged once.
        assert!(once < 1e9 / (1000.0 - 300.0) - 1.0);
        assert_eq!(charged_once(&row(100_000, 2.0), 0), 1e6);
    }

    #[test]
    fn lines_of_schemes_that_do_not_persist_in_bulk_stay_charged() {
        assert_eq!(charged_once(&row(0, 2.0), 150), 1e6);
    }
}
