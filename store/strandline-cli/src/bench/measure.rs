//! Measures a plan: fills each workload's store once per control, and alternates between the controls' repetitions.

use std::time::Duration;

use indicatif::ProgressBar;
use strandline_bench::{PreparedStore, Row};
use strandline_command::floor::{Floor, MemoryFloor};
use strandline_command::{Failure, interrupt};
use strandline_core::{Concurrency, Domain};

use super::StorePlan;
use super::plan::place;

/// The result of one measurement, with the floor that was measured beside it.
pub struct Cell {
    /// The run with the median rate.
    pub row: Row,
    /// The median of the floors.
    pub floor: f64,
}

impl Cell {
    /// Returns the medians of the floors and of the runs beside them, or `None` if nothing ran.
    pub fn median((mut floors, rows): (Vec<f64>, Vec<Row>)) -> Option<Self> {
        floors.sort_by(f64::total_cmp);
        let row = Row::median(rows)?;
        Some(Self { row, floor: floors[(floors.len() - 1) / 2] })
    }
}

/// The results of a plan, and where they were measured.
pub struct Results {
    /// The results, in the order of workloads, threads and controls.
    pub cells: Vec<Cell>,
    /// The folder of the pools.
    pub place: String,
    /// The method by which the floor of a disk was written.
    pub method: Option<&'static str>,
    /// True if the pools were opened as if their memory were persistent although it is not.
    pub assumed_persistent: bool,
}

impl Results {
    /// Returns all rows, including one floor for each workload and number of threads.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for Cell { row, floor } in &self.cells {
            let name = if self.method.is_some() && row.threads > 1 { "group-floor" } else { "floor" };
            let beside = |other: &Row| {
                (other.threads, other.workload.as_str()) == (row.threads, row.workload.as_str())
            };
            if !rows.iter().any(|other| other.scheme == name && beside(other)) {
                rows.push(Row::floor(name, row, *floor));
            }
            rows.push(row.clone());
        }
        rows
    }
}

/// The floor that belongs to a plan's domain.
enum Beside {
    Memory(MemoryFloor),
    Disk(Box<Floor>),
}

impl Beside {
    /// Measures how often per second `threads` threads can make something durable.
    fn per_second(&mut self, plan: &StorePlan, threads: u64, repetition: u64) -> Result<f64, Failure> {
        match self {
            Self::Memory(floor) => {
                Ok(floor.per_second(threads, plan.duration / 5, plan.seed.wrapping_add(repetition)))
            }
            Self::Disk(floor) => {
                let slice = (plan.duration / 2).max(Duration::from_millis(50));
                floor.group_per_second(threads, slice).map_err(Failure::io("write"))
            }
        }
    }
}

/// Measures the plan. Before each run, measures the floor with the same number of threads, because a disk's speed varies over minutes.
///
/// # Errors
/// Returns an error if a pool cannot be created or if a transaction failed.
pub fn measure(plan: &StorePlan, progress: &ProgressBar) -> Result<Results, Failure> {
    let place = place(plan.pool.as_deref(), plan.domain)?;
    progress.set_message("measuring the floor");
    let mut beside = match plan.domain {
        Domain::Sync => Beside::Disk(Box::new(Floor::new(place.folder())?)),
        domain => {
            let floor = MemoryFloor::new(domain, plan.instruction, plan.most_threads(), plan.log_bytes)?;
            Beside::Memory(floor)
        }
    };
    let mut results = Results {
        cells: Vec::new(),
        place: place.what.clone(),
        method: match &beside {
            Beside::Disk(floor) => Some(floor.method()),
            Beside::Memory(_) => None,
        },
        assumed_persistent: false,
    };
    for &workload in plan.workloads.iter().take_while(|_| !interrupt::is_asked()) {
        // One entry for each number of threads and control.
        let mut runs = vec![(Vec::new(), Vec::new()); plan.threads.len() * plan.systems.len()];
        // Only one store is open at a time: the checkpoints of another one would disturb the measurement.
        for (at, &control) in plan.systems.iter().enumerate().take_while(|_| !interrupt::is_asked()) {
            progress.set_message(format!("filling {}", workload.name));
            let path = place.folder().join(format!("{}-{}", workload.name, control.name()));
            let store =
                PreparedStore::new(&path, workload, control, &plan.sizes, plan.setting(Concurrency::Stm))?;
            results.assumed_persistent |= store.assumed_persistent;
            for repetition in (0..plan.repetitions).take_while(|_| !interrupt::is_asked()) {
                for (row, &threads) in plan.threads.iter().enumerate() {
                    progress.set_message(format!("{}, {}", workload.name, control.name()));
                    let (floors, rows) = &mut runs[row * plan.systems.len() + at];
                    floors.push(beside.per_second(plan, threads, repetition)?);
                    rows.push(store.measure(&plan.run(threads, repetition))?);
                    progress.inc(1);
                }
            }
        }
        results.cells.extend(runs.into_iter().filter_map(Cell::median));
    }
    Ok(results)
}
