//! Sweeps: many runs of the simulated machine, on all processors, each kept as it is done, so that a sweep that was ended goes on where it
//! was.

mod page;
mod plan;
mod pools;
mod store;
mod table;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use strandline_schemes::Locking;
use strandline_sim::Description;
use strandline_sim::description::LockScope;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::scheme::Entry;
use strandline_workloads::{Sizes, WorkloadKind};

pub use page::page;
pub use plan::{Merged, Plan, Shard, merge};
pub use pools::Shelf;
pub use store::Store;
pub use table::{cells, csv};

use pools::{Filled, Pools, Shared};

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// The keys that are swept, and their values here.
    pub keys: Vec<(String, String)>,
    /// The workload.
    pub workload: WorkloadKind,
    /// How large it is.
    pub sizes: Sizes,
    /// How large its pool is.
    pub pool: PoolSizes,
    /// The hardware scheme.
    pub hardware: &'static Entry,
    /// The machine.
    pub machine: Description,
    /// The software scheme, and how much is run.
    pub run: Run,
}

impl Point {
    /// Software and hardware by one name: that of the hardware, where there is any and it runs beside its own software.
    pub fn system(&self) -> String {
        let (scheme, hardware) = (self.run.scheme.name(), self.hardware.name);
        match self.hardware.software.first() {
            None => scheme.to_owned(),
            Some(&own) if own == scheme => hardware.to_owned(),
            Some(_) => format!("{hardware}/{scheme}"),
        }
    }

    /// All that decides what the run finds, but for the machine, which its result holds.
    fn identity(&self) -> Value {
        let Sizes { value_bytes, operations, .. } = self.sizes;
        json!({
            "workload": self.workload.name,
            "scheme": self.run.scheme.name(),
            "hardware": self.hardware.name,
            "threads": self.run.threads,
            "transactions": self.run.transactions,
            "warm_up": self.run.warm_up,
            "idle_percent": self.run.idle_percent,
            "value_bytes": value_bytes,
            "operations": operations,
            "log_bytes": self.pool.log_bytes,
            "seed": self.run.seed,
        })
    }

    /// How long its run takes, in no unit, beside other points of the same workload.
    fn length(&self) -> u64 {
        let Run { threads, transactions, warm_up, .. } = self.run;
        threads as u64 * (transactions + warm_up) * self.sizes.operations.max(1)
    }

    /// What it can share its filled pool with.
    fn filled(&self) -> Filled {
        let own = self.run.scheme.plain == Some(Locking::Declared)
            && self.machine.program.lock_scope == LockScope::Thread;
        (self.workload.name, self.sizes, self.pool, self.run.threads, own)
    }
}

/// What a point's run found.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The result as `simulate --json` has it.
    pub result: Value,
    /// What the run was too short for.
    pub too_short: Vec<String>,
}

/// The quantities of a row, in the order of the columns of a table.
pub const QUANTITIES: [&str; 9] = [
    "tx_per_s",
    "cycles",
    "abort_ratio",
    "fences_per_tx",
    "lines_flushed_per_tx",
    "log_bytes_per_tx",
    "bulk_persists",
    "lines_read_per_tx",
    "lines_written_per_tx",
];

impl Row {
    /// One of [`QUANTITIES`]. Lines are those between caches and memory.
    pub fn quantity(&self, name: &str) -> f64 {
        let traffic = &self.result["statistics"]["traffic"];
        let lines = |cause: &str| {
            traffic[cause].as_object().map_or(0.0, |regions| regions.values().filter_map(Value::as_f64).sum())
        };
        let count = |name: &str| self.result[name].as_f64().unwrap_or(0.0);
        let transactions = (count("transactions") * count("threads")).max(1.0);
        match name {
            "cycles" => self.result["statistics"]["cycles"].as_f64().unwrap_or(0.0),
            "lines_read_per_tx" => lines("reads") / transactions,
            "lines_written_per_tx" => {
                let causes = traffic.as_object().into_iter().flat_map(|causes| causes.keys());
                causes.filter(|cause| *cause != "reads").map(|cause| lines(cause)).sum::<f64>() / transactions
            }
            other => count(other),
        }
    }
}

/// What became of the points of a sweep.
#[derive(Debug)]
pub struct Swept {
    /// By point; `None` where it was not run, since somebody ended the sweep, or could not be.
    pub rows: Vec<Option<Row>>,
    /// Points that could not be run, and why.
    pub failed: Vec<(usize, String)>,
    /// Points that were in the store already.
    pub known: usize,
    /// What it took to run the others; `None` where that is not known.
    pub effort: Option<Effort>,
}

/// How long a sweep took.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Points that were run.
    pub points: usize,
    /// Processor time of their runs, all together.
    pub work: Duration,
    /// From begin to end.
    pub elapsed: Duration,
    /// How many ran side by side.
    pub threads: usize,
}

impl std::fmt::Display for Effort {
    /// `200 runs: 61.2 s of processor time in 31.0 s on 2 threads`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { points, work, elapsed, threads } = self;
        let (work, elapsed) = (work.as_secs_f64(), elapsed.as_secs_f64());
        write!(f, "{points} runs: {work:.1} s of processor time in {elapsed:.1} s on {threads} threads")
    }
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// The points that are to be run, in the order in which they are: those of one pool after one another, so that few pools are there at a
/// time; long ones first, so that in the end no processor waits long for another.
fn ordered(points: &[Point], mut todo: Vec<usize>) -> Vec<usize> {
    let mut pools: Vec<(Filled, u64)> = Vec::new();
    for &index in &todo {
        let (filled, length) = (points[index].filled(), points[index].length());
        match pools.iter_mut().find(|(other, _)| *other == filled) {
            Some((_, longest)) => *longest = length.max(*longest),
            None => pools.push((filled, length)),
        }
    }
    // Equals keep their order.
    pools.sort_by_key(|&(_, longest)| std::cmp::Reverse(longest));
    todo.sort_by_key(|&index| {
        let filled = points[index].filled();
        (pools.iter().position(|(other, _)| *other == filled), std::cmp::Reverse(points[index].length()))
    });
    todo
}

/// Runs what the store does not have yet, side by side, as many as there are processors; each goes into the store when it is done. When
/// `stop` becomes true the sweep ends with what is known. In the end the store has the points in their order.
///
/// # Errors
/// The store cannot be written.
pub fn run(
    points: &[Point],
    store: &Mutex<Store>,
    stop: &'static AtomicBool,
    progress: &ProgressBar,
) -> std::io::Result<Swept> {
    let began = Instant::now();
    let lock = || store.lock().unwrap_or_else(PoisonError::into_inner);
    let rows: Vec<OnceLock<Row>> = {
        let store = lock();
        points.iter().map(|point| store.find(point).map_or_else(OnceLock::new, OnceLock::from)).collect()
    };
    let known = rows.iter().filter(|row| row.get().is_some()).count();
    progress.inc(known as u64);
    let todo = (0..points.len()).filter(|&index| rows[index].get().is_none()).collect();
    let todo = ordered(points, todo);
    let pools = Pools::new(todo.iter().map(|&index| points[index].filled()));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let written = Mutex::new(Ok(()));
    let spent = Mutex::new((0, Duration::ZERO));
    let work = || {
        while !stop.load(Relaxed)
            && let Some(&index) = todo.get(next.fetch_add(1, Relaxed))
        {
            let point = &points[index];
            progress.set_message(format!("{} on {}", point.system(), point.workload.name));
            let before = processor_time();
            let outcome = simulate(point, &pools.take(&point.filled()), stop);
            {
                let mut spent = spent.lock().unwrap_or_else(PoisonError::into_inner);
                *spent = (spent.0 + 1, spent.1 + processor_time().saturating_sub(before));
            }
            progress.inc(1);
            match outcome {
                // It ended before its transactions were done.
                _ if stop.load(Relaxed) => {}
                Ok(row) => {
                    if let Err(error) = lock().add(point, &row) {
                        *written.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
                        return;
                    }
                    let _ = rows[index].set(row);
                }
                Err(why) => failed.lock().unwrap_or_else(PoisonError::into_inner).push((index, why)),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    written.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_unstable();
    lock().arrange(points)?;
    let (run, work) = spent.into_inner().unwrap_or_else(PoisonError::into_inner);
    let effort = Effort { points: run, work, elapsed: began.elapsed(), threads };
    let rows = rows.into_iter().map(OnceLock::into_inner).collect();
    Ok(Swept { rows, failed, known, effort: Some(effort) })
}

/// Runs one point by itself; its filled pool stays on the shelf for the next ones. What it finds means nothing if `stop` became true.
///
/// # Errors
/// It cannot be run, and why.
pub fn run_one(point: &Point, shelf: &Shelf, stop: &'static AtomicBool) -> Result<Row, String> {
    simulate(point, &shelf.take(&point.filled()), stop)
}

fn simulate(point: &Point, shared: &Shared, stop: &'static AtomicBool) -> Result<Row, String> {
    let filled = shared.get_or_init(|| {
        let Point { workload, sizes, pool, run, machine, .. } = point;
        Prepared::of_scope(workload, sizes, *pool, run.threads, run.scheme, machine)
            .map_err(|error| error.to_string())
    });
    let filled = filled.as_ref().map_err(Clone::clone)?;
    let finished = filled
        .run_with(&point.machine, point.hardware, &point.run, Vec::new(), |machine| machine.stop_when(stop))
        .map_err(|error| error.to_string())?;
    let result = serde_json::to_value(&finished.outcome).map_err(|error| error.to_string())?;
    Ok(Row { result, too_short: finished.too_short })
}

#[cfg(test)]
mod tests {
    use strandline_sim::{Registry, file};

    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    pub fn points(latencies: &[u32]) -> Vec<Point> {
        let registry = Registry::default();
        let (scheme, hardware) = registry.pair(None, Some("loc-wal")).unwrap();
        let point = |latency: &u32| Point {
            keys: vec![("nvm.write_ns".into(), latency.to_string())],
            workload: registry.workloads.of_name("sps").unwrap(),
            sizes: Sizes::small(),
            pool: PoolSizes { log_bytes: 1 << 16, chunk_bytes: 1 << 14, lock_bits: 8 },
            hardware,
            machine: file::load("loc", &[format!("nvm.write_ns={latency}")]).unwrap(),
            run: Run { scheme, threads: 1, transactions: 60, warm_up: 10, idle_percent: 0, seed: 3 },
        };
        latencies.iter().map(point).collect()
    }

    fn sweep(points: &[Point], path: &std::path::Path) -> Swept {
        let store = Mutex::new(Store::open(path, "this program").unwrap());
        run(points, &store, &NEVER, &ProgressBar::hidden()).unwrap()
    }

    /// A point of a sweep is what a run by itself finds, and what is known is not run again.
    #[test]
    fn a_sweep_is_its_runs_and_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        let all = points(&[100, 200, 400]);
        assert_eq!(sweep(&all[..2], &path).known, 0);
        // Whoever was ended in the middle of a line.
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], b"{\"half"].concat()).unwrap();
        let swept = sweep(&all, &path);
        assert_eq!((swept.known, swept.failed.len()), (2, 0));
        for (point, row) in all.iter().zip(&swept.rows) {
            let alone = Prepared::new(point.workload, &point.sizes, point.pool, 1).unwrap();
            let alone = alone.run(&point.machine, point.hardware, &point.run, Vec::new()).unwrap().outcome;
            assert_eq!(row.as_ref().unwrap().result, serde_json::to_value(alone).unwrap());
        }
        let rates: Vec<_> = swept.rows.iter().map(|row| row.as_ref().unwrap().quantity("tx_per_s")).collect();
        assert!(rates[0] > rates[1] && rates[1] > rates[2], "{rates:?}");
        assert!(swept.rows.iter().flatten().all(|row| row.quantity("lines_written_per_tx") > 0.0));
        let effort = swept.effort.unwrap();
        assert!(
            effort.points == 1 && effort.work > Duration::ZERO && effort.elapsed >= effort.work,
            "{effort}"
        );
        let swept = sweep(&all, &path);
        assert_eq!((swept.known, swept.effort.unwrap().points), (3, 0));
        // Another program may find something else.
        let store = Mutex::new(Store::open(&path, "another program").unwrap());
        assert_eq!(run(&all[..1], &store, &NEVER, &ProgressBar::hidden()).unwrap().known, 0);
        let text = csv(&all, &swept);
        assert!(
            text.starts_with("workload,scheme,hardware,machine,threads,nvm.write_ns,tx_per_s,"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 4);
        assert!(text.contains("sps,hardware+single-writer,loc-wal,loc,1,400,"), "{text}");
    }

    #[test]
    fn long_runs_come_first_and_those_of_a_pool_together() {
        let mut all = points(&[100, 200, 100, 200, 400]);
        let sizes = [(60, 1), (500, 1), (60, 4), (90, 4), (10, 1)];
        for (point, (transactions, threads)) in all.iter_mut().zip(sizes) {
            (point.run.transactions, point.run.threads) = (transactions, threads);
        }
        // Threads decide on the pool.
        assert_eq!(ordered(&all, (0..5).collect()), [1, 0, 4, 3, 2]);
        assert_eq!(ordered(&all, vec![0, 2, 3, 4]), [3, 2, 0, 4], "the pool with the longest");
        let same = points(&[400, 100, 200]);
        assert_eq!(ordered(&same, (0..3).collect()), [0, 1, 2], "equals keep their order");
    }

    #[test]
    fn what_cannot_be_run_is_told_and_the_rest_is_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut all = points(&[100, 200]);
        all[0].machine = file::load("atom", &[""; 0]).unwrap();
        let swept = sweep(&all, &folder.path().join("points.jsonl"));
        assert!(swept.rows[0].is_none() && swept.rows[1].is_some());
        assert!(swept.failed[0].0 == 0 && swept.failed[0].1.contains("one core"), "{:?}", swept.failed);
    }

    #[test]
    fn a_sweep_that_is_ended_keeps_nothing_half_done() {
        static ENDED: AtomicBool = AtomicBool::new(true);
        let folder = tempfile::tempdir().unwrap();
        let store = Mutex::new(Store::open(&folder.path().join("points.jsonl"), "").unwrap());
        let swept = run(&points(&[100]), &store, &ENDED, &ProgressBar::hidden()).unwrap();
        assert_eq!(swept.rows, [None]);
    }
}
