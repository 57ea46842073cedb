//! A point of a figure, and what is measured at it.

use strandline_core::memory::WriteBackInstruction;
use strandline_workloads::{Sizes, WorkloadKind};

/// Transactions per second of processor time. Each persistence in bulk is charged the emulated latency once: the paper adds it
/// to "each memory flush operation", and its `wbinvd` is one.
pub const THROUGHPUT: &str = "tx/s";
/// The same as it ran: bulk persistence, which writes back line by line here, was charged for each line.
pub const BY_LINE: &str = "tx/s, bulk persistence charged by line";
/// Attempts that met a conflict, of all.
pub const ABORTS: &str = "abort ratio";

/// What stands for the instruction in a series' setting where a cell was simulated.
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
    /// The machine whose description has what the paper's text says of its programs.
    pub programs_of: Option<&'static str>,
    /// The instruction that writes lines back.
    pub instruction: WriteBackInstruction,
    /// The share of the time that threads are idle.
    pub idle_percent: u64,
    /// Cores of the simulated machine, where it shares them by time slices and the figure does not have all of them.
    pub simulated_cores: Option<usize>,
}
