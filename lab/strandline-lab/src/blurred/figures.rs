//! Measures each figure.

use strandline_core::layout::Geometry;
use strandline_core::memory::WriteBackInstruction;
use strandline_workloads::{
    BLURRED, BPLUSTREE, BPLUSTREE_SORTED_WORDS, DEFAULT_WRITE_LATENCY_NS, HASH, RBTREE, Sizes, WorkloadKind,
};

use crate::cells::Cell;
use crate::session::Session;

/// Numbers of threads in Fig. 8.
pub const THREADS: [u64; 4] = [1, 2, 4, 8];
/// Bytes in a value in Fig. 9.
const VALUE_BYTES: [u64; 5] = [8, 64, 256, 1024, 4096];
/// Numbers of operations in a transaction in Fig. 10. The paper does not give them.
const OPERATIONS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Sizes of logs in bytes in Figs. 11 and 12, in whole pages, with the paper's names.
pub const LOGS: [(u64, &str); 5] = [
    (25 * 4096, "0.1 MB"),
    (512 << 10, "0.5 MB"),
    (1 << 20, "1 MB"),
    (1536 << 10, "1.5 MB"),
    (2 << 20, "2 MB"),
];
/// Latencies in nanoseconds in Fig. 13.
const LATENCIES: [u64; 5] = [35, 95, 150, 1000, 2000];
/// Idle times in percent in Fig. 14.
const IDLE: [u64; 6] = [90, 70, 50, 30, 10, 0];
/// The number of operations that a transaction has in the B+ tree of Figs. 7 and 11: the paper has "multiple key-value insert or delete operations"
/// (V-A), and this is the smallest such number.
const BPLUSTREE_OPERATIONS: u64 = 2;
/// The maximum of keys with large values.
const KEYS_OF_LARGE_VALUES: u64 = 65_536;

/// The number of cores that the simulated machine of Fig. 14 has. The thread that truncates logs "competes with the foreground transaction execution
/// threads" (V-C-5), so one foreground thread shares one core with it.
const HELPERS_CORES: usize = 1;

/// Our own variants, which are shown beside the paper's systems.
const OURS: [&str; 2] = ["vcbp-streamed", "bppm-counted"];

/// Returns whether this is the first round. Later rounds repeat only what claims are judged by.
fn is_first(session: &Session) -> bool {
    session.round == 0
}

/// Returns a cell with the paper's default setting.
fn cell(session: &Session, system: &'static str, instruction: WriteBackInstruction) -> Cell {
    Cell {
        setting: instruction.name().into(),
        x: String::new(),
        system,
        workload: &HASH,
        sizes: session.sizes(),
        log_bytes: Geometry::default().log_bytes,
        threads: 1,
        latency_ns: DEFAULT_WRITE_LATENCY_NS,
        programs_of: super::PAPER.machine,
        instruction,
        idle_percent: 0,
        simulated_cores: None,
    }
}

/// Returns the sizes of one of the five workloads.
fn sizes_of(session: &Session, workload: WorkloadKind) -> Sizes {
    let operations = if workload == &BPLUSTREE_SORTED_WORDS { BPLUSTREE_OPERATIONS } else { 1 };
    Sizes { operations, ..session.sizes() }
}

/// Returns the sizes with values of so many bytes, and with no more keys than fit.
fn large_values(session: &Session, value_bytes: u64) -> Sizes {
    let sizes = session.sizes();
    let hash_keys = sizes.hash_keys.min(KEYS_OF_LARGE_VALUES);
    Sizes { value_bytes, hash_keys, buckets: hash_keys / 2, ..sizes }
}

pub fn fig7(session: &Session) -> Vec<Cell> {
    let mut cells = Vec::new();
    // The library's own B+ tree, which does not shift entries, is shown beside the paper's.
    let beside = is_first(session).then_some(&BPLUSTREE);
    for workload in BLURRED.into_iter().chain(beside) {
        for instruction in session.instructions() {
            let systems = ["base", "mne-sync", "xil", "vcbp", "vcbp-streamed", "bppm", "bppm-counted", "np"];
            for system in systems.into_iter().filter(|system| is_first(session) || !OURS.contains(system)) {
                let (x, sizes) = (workload.name.into(), sizes_of(session, workload));
                cells.push(Cell { workload, x, sizes, ..cell(session, system, instruction) });
            }
        }
    }
    cells
}

pub fn fig8(session: &Session) -> Vec<Cell> {
    let mut cells = Vec::new();
    let shares = session.machine.as_ref().is_some_and(|machine| machine.time_slices.is_some());
    for workload in [&HASH, &RBTREE] {
        for instruction in session.sweep_instructions() {
            for threads in THREADS.into_iter().filter(|&threads| threads <= session.most_threads() || shares)
            {
                for system in ["base", "mne-sync", "bppm", "np"] {
                    let setting = format!("{}, {}", workload.name, instruction.name());
                    let cell = cell(session, system, instruction);
                    cells.push(Cell { workload, setting, threads, x: threads.to_string(), ..cell });
                }
            }
        }
    }
    cells
}

pub fn fig9(session: &Session) -> Vec<Cell> {
    let mut cells = Vec::new();
    for value_bytes in session.points(&VALUE_BYTES) {
        for instruction in session.sweep_instructions() {
            for system in ["base", "mne-sync", "bppm", "np"] {
                let sizes = large_values(session, value_bytes);
                cells.push(Cell { sizes, x: value_bytes.to_string(), ..cell(session, system, instruction) });
            }
        }
    }
    cells
}

pub fn fig10(session: &Session) -> Vec<Cell> {
    let mut cells = Vec::new();
    for instruction in session.sweep_instructions() {
        for operations in session.points(&OPERATIONS) {
            for system in ["base", "mne-sync", "bppm", "np"] {
                let sizes = Sizes { operations, ..session.sizes() };
                cells.push(Cell { sizes, x: operations.to_string(), ..cell(session, system, instruction) });
            }
        }
    }
    cells
}

pub fn fig11(session: &Session) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in BLURRED {
        for (log_bytes, x) in session.points(&LOGS) {
            for instruction in session.sweep_instructions() {
                let setting = format!("{}, {}", workload.name, instruction.name());
                let (cell, sizes) = (cell(session, "bppm", instruction), sizes_of(session, workload));
                cells.push(Cell { workload, setting, sizes, log_bytes, x: x.into(), ..cell });
            }
        }
    }
    cells
}

pub fn fig13(session: &Session) -> Vec<Cell> {
    let mut cells = Vec::new();
    for instruction in session.sweep_instructions() {
        for latency_ns in session.points(&LATENCIES) {
            let systems = ["base", "mne-sync", "xil", "vcbp", "vcbp-streamed", "bppm", "np"];
            for system in systems.into_iter().filter(|system| is_first(session) || !OURS.contains(system)) {
                cells.push(Cell {
                    latency_ns,
                    x: latency_ns.to_string(),
                    ..cell(session, system, instruction)
                });
            }
        }
    }
    cells
}

pub fn fig14(session: &Session) -> Vec<Cell> {
    let mut cells = Vec::new();
    for instruction in session.sweep_instructions() {
        for idle_percent in session.points(&IDLE) {
            for system in ["base", "mne-sync", "mne-async", "bppm", "np"] {
                let sizes = large_values(session, 1024);
                let x = idle_percent.to_string();
                let cell = cell(session, system, instruction);
                cells.push(Cell { sizes, idle_percent, x, simulated_cores: Some(HELPERS_CORES), ..cell });
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::{machine_of, transactions};
    use crate::session::Effort;

    /// Measurements that judge a claim on the machine have three seeds, those shown beside it have one. A measurement that noise decides is repeated
    /// without our own variants.
    #[test]
    fn what_is_judged_is_measured_more_than_what_stands_beside() {
        let opteron = strandline_sim::file::load("opteron", &[""; 0]).unwrap();
        let session = Session {
            machine: Some(opteron),
            judged: super::super::PAPER.judged(),
            ..Session::for_tests(Effort::Full)
        };
        let runs = |figure| (session.simulated_repetitions(figure), session.repetitions(figure).count());
        assert_eq!([runs("fig7"), runs("fig8"), runs("fig12")], [(3, 3), (3, 3), (1, 7)]);
        let again = Session { round: 1, ..session.clone() };
        let systems = |session: &Session| -> Vec<&str> {
            let mut all: Vec<_> = fig7(session).iter().map(|cell| cell.system).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        assert!(systems(&session).contains(&"vcbp-streamed") && systems(&session).contains(&"bppm-counted"));
        assert_eq!(systems(&again), ["base", "bppm", "mne-sync", "np", "vcbp", "xil"]);
    }

    /// Transactions with more operations are measured less often, and a larger log fills up as often as one of 1 MB.
    #[test]
    fn lengths_are_counted_in_operations_and_logs() {
        let session = Session::for_tests(Effort::Full);
        let lengths = |cells: Vec<Cell>, x: &str| {
            let cell = cells.into_iter().find(|cell| cell.x == x).unwrap();
            transactions(&cell, &session)
        };
        assert_eq!(lengths(fig10(&session), "1"), (50_000, 50_000));
        assert_eq!(lengths(fig10(&session), "32"), (1562, 1562));
        assert_eq!(lengths(fig11(&session), "0.1 MB"), (50_000, 50_000));
        assert_eq!(lengths(fig11(&session), "2 MB"), (50_000, 100_000));
        assert_eq!(lengths(fig8(&session), "2"), (25_000, 25_000));
        assert_eq!(lengths(fig14(&session), "90"), (16_666, 16_666));
        let quick = Session::for_tests(Effort::Quick);
        let longest = |cells: Vec<Cell>| cells.iter().map(|cell| transactions(cell, &quick)).max();
        assert_eq!(longest(fig7(&quick)), Some((6_000, 30_000)));
        let of_32 = fig10(&quick).into_iter().find(|cell| cell.x == "32").unwrap();
        assert_eq!(transactions(&of_32, &quick), (187, 937));
    }

    #[test]
    fn the_papers_latency_is_the_programs_and_not_the_memorys() {
        let opteron = strandline_sim::file::load("opteron", &[""; 0]).unwrap();
        let session = Session::for_tests(Effort::Full);
        let cells = fig13(&session);
        let delays: Vec<f64> = cells
            .iter()
            .map(|cell| {
                let machine = machine_of(cell, &opteron);
                assert_eq!(machine.nvm, opteron.nvm);
                machine.persistence.flush_delay_ns
            })
            .collect();
        assert!(delays.contains(&35.0) && delays.contains(&2000.0), "{delays:?}");
        assert_eq!(machine_of(&fig7(&session)[0], &opteron), opteron);
        assert!(opteron.persistence.flush_cost_ns > 0.0);
    }
}
