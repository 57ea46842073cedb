//! Measuring on memory: every domain but `sync`.

use indicatif::ProgressBar;
use strandline_workloads::{Prepared, PreparedProduct, Row, System};

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
/// same pool in turn, as each leaves its home locations right; the product has pools of its own. Repetitions are interleaved.
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
        let mut products = Vec::new();
        for &system in &plan.systems {
            let by_types = system == System::Types;
            if by_types || system == System::Words {
                let (path, setting) =
                    (plan.file(&place, &selection, system.name()), plan.setting(system.concurrency()));
                if let Some(product) = PreparedProduct::new(&path, &selection, by_types, setting)? {
                    results.assumed_persistent |= product.assumed_persistent;
                    products.push((system, product));
                }
            }
        }
        let mut runs = vec![Vec::new(); plan.threads.len() * plan.systems.len()];
        for repetition in 0..plan.repetitions {
            let mut cells = runs.iter_mut();
            for &threads in &plan.threads {
                let run = plan.run(threads, repetition);
                for &system in &plan.systems {
                    progress.set_message(format!("{} on {}", system.name(), selection.name()));
                    let pool = pools.iter().find(|(mode, _)| *mode == system.concurrency());
                    let product = products.iter().find(|(other, _)| *other == system);
                    let row = match (system, pool, product) {
                        (System::Scheme(scheme), Some((_, prepared)), _) => {
                            Some(selection.measure(prepared.pool(), plan.domain, scheme, &run)?)
                        }
                        (_, _, Some((_, prepared))) => {
                            Some(selection.measure_product(prepared.product(), plan.domain, system, &run)?)
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
