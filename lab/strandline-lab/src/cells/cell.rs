//! A point of a figure, and the quantities measured at it.

use strandline_core::memory::WriteBackInstruction;
use strandline_workloads::{Sizes, WorkloadKind};

/// Transactions per second of processor time. Each bulk persistence is charged the emulated latency once: the paper adds the latency to "each memory
/// flush operation", and its `wbinvd` is one operation.
pub const THROUGHPUT: &str = "tx/s";
/// Transactions per second as the cell ran: bulk persistence writes back line by line here, and was charged for each line.
pub const BY_LINE: &str = "tx/s, bulk persistence charged by line";
/// The share of the attempts that met a conflict.
pub const ABORTS: &str = "abort ratio";

/// The name that replaces the instruction in a series' setting if a cell was simulated.
pub const SIMULATED: &str = "simulated";

/// One point of a figure.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The series' setting.
    pub setting: String,
    /// The figure's parameter.
    pub x: String,
    /// The scheme's name in `strandline-lab list`.
    pub system: &'static str,
    /// The workload that runs.
    pub workload: WorkloadKind,
    /// The workload's sizes.
    pub sizes: Sizes,
    /// Bytes in each log.
    pub log_bytes: u64,
    /// Threads that run transactions.
    pub threads: u64,
    /// Nanoseconds added to each line written back.
    pub latency_ns: u64,
    /// The machine whose description has the paper's statements about its programs.
    pub programs_of: Option<&'static str>,
    /// The instruction that writes lines back.
    pub instruction: WriteBackInstruction,
    /// The share of the time that threads are idle.
    pub idle_percent: u64,
    /// The number of cores of the simulated machine, if it shares them by time slices and the figure uses only some.
    pub simulated_cores: Option<usize>,
}
