//! Measuring on memory: every domain but `sync`.

use indicatif::ProgressBar;
use strandline_workloads::{Prepared, Row};

use super::plan::Plan;
use crate::failure::Failure;

/// What was measured, and where.
pub struct Results {
    /// By workload, threads and scheme.
    pub rows: Vec<Row>,
    /// Where the pools lay.
    pub place: String,
    /// Whether the memory was taken to be persistent without being so.
    pub assumed_persistent: bool,
}

/// Measures the plan. A workload's structure is filled once for each mode; the schemes of a mode use the
/// same pool in turn, as each leaves its home locations right. Repetitions are interleaved.
///
/// # Errors
/// A pool cannot be created; a transaction failed.
pub fn measure(plan: &Plan, progress: &ProgressBar) -> Result<Results, Failure> {
    let place = plan.place()?;
    let mut results = Results { rows: Vec::new(), place: place.what.clone(), assumed_persistent: false };
    for selection in plan.selections()? {
        progress.set_message(format!("filling {}", selection.name().name()));
        let mut pools = Vec::new();
        for mode in plan.modes() {
            let path = plan.file(&place, &selection, mode);
            let prepared = Prepared::new(&path, &selection, plan.setting(mode))?;
            results.assumed_persistent |= prepared.assumed_persistent;
            pools.push((mode, prepared));
        }
        let mut runs = vec![Vec::new(); plan.threads.len() * plan.schemes.len()];
        for repetition in 0..plan.repetitions {
            let mut cells = runs.iter_mut();
            for &threads in &plan.threads {
                for &scheme in &plan.schemes {
                    progress.set_message(format!("{} on {}", scheme.name(), selection.name().name()));
                    let prepared = pools.iter().find(|(mode, _)| *mode == scheme.concurrency);
                    if let (Some((_, prepared)), Some(cell)) = (prepared, cells.next()) {
                        let run = plan.run(threads, repetition);
                        cell.push(selection.measure(prepared.pool(), plan.domain, scheme, &run)?);
                    }
                    progress.inc(1);
                }
            }
        }
        results.rows.extend(runs.into_iter().filter_map(Row::median));
    }
    Ok(results)
}
