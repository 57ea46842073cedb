//! The plan of the measurements.

use std::path::PathBuf;

use strandline_command::Place;
use strandline_core::Concurrency;
use strandline_workloads::{Selection, Sizes, System, WorkloadKind};

/// Workloads × schemes × threads under one domain.
pub type Plan = strandline_cli::bench::Plan<WorkloadKind, System, Sizes>;

/// Returns the workloads, with their sizes.
///
/// # Errors
/// Returns an error if a size is impossible for one of them.
pub fn selections(plan: &Plan) -> strandline_core::Result<Vec<Selection>> {
    plan.workloads.iter().map(|&name| Selection::new(name, &plan.sizes)).collect()
}

/// Returns the modes of the measured schemes, each once. The product has pools of its own.
pub fn modes(plan: &Plan) -> Vec<Concurrency> {
    let mut modes = Vec::new();
    for system in plan.systems.iter().filter(|system| matches!(system, System::Scheme(_))) {
        if !modes.contains(&system.concurrency()) {
            modes.push(system.concurrency());
        }
    }
    modes
}

/// Returns the file of a workload's pool; `which` distinguishes several pools of a workload.
pub fn file(plan: &Plan, place: &Place, selection: &Selection, which: &str) -> PathBuf {
    let name = plan.pool.as_ref().and_then(|path| path.file_name()).unwrap_or("pool".as_ref());
    let mut name = name.to_os_string();
    name.push(format!("-{}-{which}", selection.name()));
    place.folder().join(name)
}
