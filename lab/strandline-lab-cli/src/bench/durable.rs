//! Measures the `sync` domain on the disk, beside the floor.

use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;
use strandline_workloads::{Prepared, PreparedProduct, Row, Run, Selection, System};

use super::plan::{self, Plan};
use strandline_cli::bench::{Cell, Results, place};
use strandline_command::Failure;
use strandline_command::floor::Floor;
use strandline_command::interrupt;

/// The pool or database that a system runs on, filled with the workload's data.
enum Filled<'s> {
    Pool(Box<Prepared>),
    Product(PreparedProduct<'s>),
}

impl<'s> Filled<'s> {
    /// Returns `None` if the workload has no typed form.
    fn new(
        plan: &Plan,
        system: System,
        selection: &'s Selection,
        path: &Path,
    ) -> strandline_core::Result<Option<Self>> {
        let setting = plan.setting(system.concurrency());
        if let System::Scheme(_) = system {
            return Prepared::new(path, selection, setting).map(|pool| Some(Self::Pool(Box::new(pool))));
        }
        let product = PreparedProduct::new(path, selection, system, setting)?;
        Ok(product.map(Self::Product))
    }

    fn measure(
        &self,
        plan: &Plan,
        system: System,
        selection: &Selection,
        run: &Run,
    ) -> strandline_core::Result<Option<Row>> {
        Ok(match (self, system) {
            (Self::Product(prepared), _) => {
                Some(selection.measure_product(prepared.product(), plan.domain, system, run)?)
            }
            (Self::Pool(prepared), System::Scheme(scheme)) => {
                Some(selection.measure(prepared.pool(), plan.domain, scheme, run)?)
            }
            (Self::Pool(_), _) => None,
        })
    }
}

/// Measures the plan. Measures the floor for as many threads before each run, because disks have good and bad minutes.
///
/// # Errors
/// Returns an error if a pool cannot be created, or if a transaction fails.
pub fn measure(plan: &Plan, progress: &ProgressBar) -> Result<Results, Failure> {
    let place = place(plan.pool.as_deref(), plan.domain)?;
    progress.set_message("measuring the disk");
    let mut floor = Floor::new(place.folder())?;
    let mut cells = Vec::new();
    for selection in plan::selections(plan)?.into_iter().take_while(|_| !interrupt::is_asked()) {
        let workload = selection.name();
        let mut runs = vec![(Vec::new(), Vec::new()); plan.threads.len() * plan.systems.len()];
        // Measures one mode after the other: two open pools would checkpoint during each other's measurements.
        for (at, &system) in plan.systems.iter().enumerate().take_while(|_| !interrupt::is_asked()) {
            progress.set_message(format!("filling {workload}"));
            let path = plan::file(plan, &place, &selection, system.name());
            let Some(pool) = Filled::new(plan, system, &selection, &path)? else {
                progress.inc(plan.repetitions * plan.threads.len() as u64);
                continue;
            };
            for repetition in (0..plan.repetitions).take_while(|_| !interrupt::is_asked()) {
                for (row, &threads) in plan.threads.iter().enumerate() {
                    progress.set_message(format!("{} on {workload}, durable", system.name()));
                    let slice = (plan.duration / 2).max(Duration::from_millis(50));
                    let rate = floor.group_per_second(threads, slice).map_err(Failure::io("write"))?;
                    let measured = pool.measure(plan, system, &selection, &plan.run(threads, repetition))?;
                    let (floors, rows) = &mut runs[row * plan.systems.len() + at];
                    floors.push(rate);
                    rows.extend(measured);
                    progress.inc(1);
                }
            }
        }
        cells.extend(runs.into_iter().filter_map(Cell::median));
    }
    let (place, method) = (place.what.clone(), Some(floor.method()));
    Ok(Results { cells, place, method, assumed_persistent: false })
}
