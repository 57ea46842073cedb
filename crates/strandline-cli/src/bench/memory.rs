//! Measuring on memory: every domain but `sync`.

use indicatif::ProgressBar;
use strandline_workloads::{Prepared, PreparedStore, Row, System};

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
/// same pool in turn, as each leaves its home locations right; types have a pool of their own. Repetitions are interleaved.
///
/// # Errors
/// A pool cannot be created; a transaction failed.
pub fn measure(plan: &Plan, progress: &ProgressBar) -> Result<Results, Failure> {
    let place = plan.place()?;
    let mut results = Results { rows: Vec::new(), place: place.what.clone(), assumed_persistent: false };
    for selection in plan.selections()? {
        progress.set_message(format!("filling {}", selection.name()));
        let mut pools = Vec::new();
        for mode in plan.modes() {
            let path = plan.file(&place, &selection, &format!("{mode:?}"));
            let prepared = Prepared::new(&path, &selection, plan.setting(mode))?;
            results.assumed_persistent |= prepared.assumed_persistent;
            pools.push((mode, prepared));
        }
        let store = if plan.systems.contains(&System::Types) {
            let path = plan.file(&place, &selection, "types");
            PreparedStore::new(&path, &selection, plan.setting(System::Types.concurrency()))?
        } else {
            None
        };
        results.assumed_persistent |= store.as_ref().is_some_and(|store| store.assumed_persistent);
        let mut runs = vec![Vec::new(); plan.threads.len() * plan.systems.len()];
        for repetition in 0..plan.repetitions {
            let mut cells = runs.iter_mut();
            for &threads in &plan.threads {
                let run = plan.run(threads, repetition);
                for &system in &plan.systems {
                    progress.set_message(format!("{} on {}", system.name(), selection.name()));
                    let pool = pools.iter().find(|(mode, _)| *mode == system.concurrency());
                    let pool = pool.map(|(_, prepared)| prepared.pool());
                    let row = match (system, pool, &store) {
                        (System::Scheme(scheme), Some(pool), _) => {
                            Some(selection.measure(pool, plan.domain, scheme, &run)?)
                        }
                        (System::Words, Some(pool), _) => {
                            Some(selection.measure_inlined(pool, plan.domain, &run)?)
                        }
                        (System::Types, _, Some(store)) => {
                            Some(selection.measure_typed(store.store(), plan.domain, &run)?)
                        }
                        // Not every workload has types.
                        _ => None,
                    };
                    if let Some(cell) = cells.next() {
                        cell.extend(row);
                    }
                    progress.inc(1);
                }
            }
        }
        results.rows.extend(runs.into_iter().filter_map(Row::median));
    }
    Ok(results)
}
