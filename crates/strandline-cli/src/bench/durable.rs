//! Measuring on the disk: the `sync` domain, beside the floor.

use std::time::Duration;

use indicatif::ProgressBar;
use strandline_workloads::{Prepared, Row};

use super::floor::Floor;
use super::plan::Plan;
use crate::failure::Failure;

/// A row with the floor that was measured just before it, run by run.
pub struct Cell {
    /// The median run.
    pub row: Row,
    /// The median of the floors.
    pub floor: f64,
}

/// What was measured, and where.
pub struct Results {
    /// By workload, threads and scheme.
    pub cells: Vec<Cell>,
    /// Where the pools lay.
    pub place: String,
    /// How the floor was written.
    pub method: &'static str,
}

impl Results {
    /// All rows, the floors among them: one for each workload and number of threads.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for Cell { row, floor } in &self.cells {
            let name = if row.threads == 1 { "floor" } else { "group-floor" };
            let beside = |other: &Row| {
                (other.threads, other.workload.as_str()) == (row.threads, row.workload.as_str())
            };
            if !rows.iter().any(|other| other.scheme == name && beside(other)) {
                rows.push(floor_row(name, row, *floor));
            }
            rows.push(row.clone());
        }
        rows
    }
}

fn floor_row(name: &str, beside: &Row, floor: f64) -> Row {
    Row {
        scheme: name.into(),
        workload: beside.workload.clone(),
        threads: beside.threads,
        domain: beside.domain.clone(),
        tx_per_s: floor,
        tx_per_processor_s: 0.0,
        abort_ratio: 0.0,
        fences_per_tx: 0.0,
        lines_flushed_per_tx: 0.0,
        log_bytes_per_tx: 0.0,
        acknowledged_per_s: floor,
        seconds: beside.seconds,
        bulk_fences_per_tx: 0.0,
        bulk_lines_flushed_per_tx: 0.0,
        bulk_persists: 0,
        bulk_log_restarts: 0,
    }
}

/// Measures the plan: before each run the floor for as many threads, as disks have good and bad minutes.
///
/// # Errors
/// A pool cannot be created; a transaction failed.
pub fn measure(plan: &Plan, progress: &ProgressBar) -> Result<Results, Failure> {
    let place = plan.place()?;
    progress.set_message("measuring the disk");
    let mut floor = Floor::new(place.folder())?;
    let mut cells = Vec::new();
    for selection in plan.selections()? {
        let workload = selection.name().name();
        let mut runs = vec![(Vec::new(), Vec::new()); plan.threads.len() * plan.schemes.len()];
        // One mode after the other: two pools open at a time would checkpoint into each other's time.
        for (at, &scheme) in plan.schemes.iter().enumerate() {
            progress.set_message(format!("filling {workload}"));
            let path = plan.file(&place, &selection, scheme.concurrency);
            let prepared = Prepared::new(&path, &selection, plan.setting(scheme.concurrency))?;
            for repetition in 0..plan.repetitions {
                for (row, &threads) in plan.threads.iter().enumerate() {
                    progress.set_message(format!("{} on {workload}, durable", scheme.name()));
                    let slice = (plan.duration / 2).max(Duration::from_millis(50));
                    let rate = floor.group_per_second(threads, slice).map_err(Failure::io("write"))?;
                    let run = plan.run(threads, repetition);
                    let measured = selection.measure(prepared.pool(), plan.domain, scheme, &run)?;
                    let (floors, rows) = &mut runs[row * plan.schemes.len() + at];
                    floors.push(rate);
                    rows.push(measured);
                    progress.inc(1);
                }
            }
        }
        for (mut floors, rows) in runs {
            floors.sort_by(f64::total_cmp);
            if let Some(row) = Row::median(rows) {
                cells.push(Cell { row, floor: floors[(floors.len() - 1) / 2] });
            }
        }
    }
    Ok(Results { cells, place: place.what.clone(), method: floor.method() })
}
