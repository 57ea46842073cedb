//! Measures on memory: every domain but `sync`.

use indicatif::ProgressBar;
use strandline_workloads::{Prepared, PreparedProduct, Row, System};

use super::plan::{self, Plan};
use strandline_cli::bench::place;
use strandline_command::Failure;
use strandline_command::floor::MemoryFloor;
use strandline_command::interrupt;

/// The results, and where they were measured.
pub struct Results {
    /// The rows, ordered by workload, threads and scheme.
    pub rows: Vec<Row>,
    /// All repetitions of each row, in the same order.
    pub runs: Vec<Vec<Row>>,
    /// For each row the swaps per second of the floor with as many threads: the median of one measurement before each repetition.
    pub floors: Vec<f64>,
    /// The folder of the pools.
    pub place: String,
    /// True if the memory was treated as persistent although it is not.
    pub assumed_persistent: bool,
}

impl Results {
    /// Returns all rows, with a row for the floor before the rows of each workload and number of threads.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for (row, &floor) in self.rows.iter().zip(&self.floors) {
            let follows = |last: &Row| (&last.workload, last.threads) == (&row.workload, row.threads);
            if !rows.last().is_some_and(follows) {
                rows.push(Row::floor("floor", row, floor));
            }
            rows.push(row.clone());
        }
        rows
    }
}

/// Measures the plan. Fills a workload's structure once for each mode. The schemes of a mode use the same pool in turn, since each leaves its home
/// locations correct; the product has pools of its own. Repetitions are interleaved.
///
/// # Errors
/// Returns an error if a pool cannot be created, or if a transaction fails.
pub fn measure(plan: &Plan, progress: &ProgressBar) -> Result<Results, Failure> {
    let place = place(plan.pool.as_deref(), plan.domain)?;
    let mut results = Results {
        rows: Vec::new(),
        runs: Vec::new(),
        floors: Vec::new(),
        place: place.what.clone(),
        assumed_persistent: false,
    };
    let floor = MemoryFloor::new(plan.domain, plan.instruction, plan.most_threads(), plan.log_bytes)?;
    for selection in plan::selections(plan)?.into_iter().take_while(|_| !interrupt::is_asked()) {
        progress.set_message(format!("filling {}", selection.name()));
        let mut pools = Vec::new();
        for mode in plan::modes(plan) {
            let path = plan::file(plan, &place, &selection, &format!("{mode:?}"));
            let prepared = Prepared::new(&path, &selection, plan.setting(mode))?;
            results.assumed_persistent |= prepared.assumed_persistent;
            pools.push((mode, prepared));
        }
        let mut products = Vec::new();
        for &system in &plan.systems {
            let (path, setting) =
                (plan::file(plan, &place, &selection, system.name()), plan.setting(system.concurrency()));
            if let Some(product) = PreparedProduct::new(&path, &selection, system, setting)? {
                results.assumed_persistent |= product.assumed_persistent;
                products.push((system, product));
            }
        }
        let mut runs = vec![Vec::new(); plan.threads.len() * plan.systems.len()];
        let mut floors = vec![Vec::new(); plan.threads.len()];
        for repetition in (0..plan.repetitions).take_while(|_| !interrupt::is_asked()) {
            let mut cells = runs.iter_mut();
            for (&threads, floors) in plan.threads.iter().zip(&mut floors) {
                floors.push(floor.per_second(threads, plan.duration / 5, plan.seed.wrapping_add(repetition)));
                let run = plan.run(threads, repetition);
                for &system in plan.systems.iter().take_while(|_| !interrupt::is_asked()) {
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
                        // Some workloads have no typed form.
                        _ => None,
                    };
                    if let Some(cell) = cells.next() {
                        cell.extend(row);
                    }
                    progress.inc(1);
                }
            }
        }
        for (runs, floors) in runs.chunks(plan.systems.len()).zip(&mut floors) {
            floors.sort_by(f64::total_cmp);
            let floor = floors.get(floors.len() / 2).copied().unwrap_or(0.0);
            for runs in runs {
                if let Some(row) = Row::median(runs.clone()) {
                    results.rows.push(row);
                    results.runs.push(runs.clone());
                    results.floors.push(floor);
                }
            }
        }
    }
    Ok(results)
}
