//! Sweeps: many runs of the simulated machine, on all processors. Each result is stored immediately, so that an interrupted sweep can continue.

mod combination;
mod page;
mod plan;
mod pools;
mod store;
mod table;
mod work;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use strandline_schemes::Locking;
use strandline_sim::Description;
use strandline_sim::description::LockScope;
use strandline_sim::run::{Prepared, Run};
use strandline_sim::scheme::Entry;
use strandline_sim::trace;

pub use crate::ledger::Shard;
pub use combination::{Combination, combinations};
pub use page::page;
pub use plan::{Merged, Plan, merge};
pub use pools::Shelf;
pub use store::Store;
pub use table::{cells, csv};
pub use work::{TraceFile, Work, WorkloadRun};

use pools::{Filled, Pools, Shared};

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// The keys that are swept, and their values at this point.
    pub keys: Vec<(String, String)>,
    /// The workload or trace to run.
    pub work: Work,
    /// The hardware scheme.
    pub hardware: &'static Entry,
    /// The machine.
    pub machine: Description,
}

impl Point {
    /// Returns one name for software and hardware: that of the hardware, if there is any and it runs with its own software or a trace.
    pub fn system(&self) -> String {
        let hardware = self.hardware.name;
        let Work::Workload(workload) = &self.work else { return hardware.to_owned() };
        let scheme = workload.run.scheme.name();
        match self.hardware.software.first() {
            None => scheme.to_owned(),
            Some(&own) if own == scheme => hardware.to_owned(),
            Some(_) => format!("{hardware}/{scheme}"),
        }
    }

    /// Returns everything except the machine that determines the run's result. The result contains the machine.
    fn identity(&self) -> Value {
        let mut identity = self.work.to_json();
        identity["hardware"] = json!(self.hardware.name);
        identity
    }

    /// Returns an estimate of the run's length, relative to other points of the same workload.
    fn length(&self) -> u64 {
        let Work::Workload(WorkloadRun { sizes, run, .. }) = &self.work else { return 1 };
        let Run { threads, transactions, warm_up, .. } = *run;
        threads as u64 * (transactions + warm_up) * sizes.operations.max(1)
    }

    /// Returns what identifies the filled pool that it can share; a trace has no pool.
    fn filled(&self) -> Option<Filled> {
        let Work::Workload(WorkloadRun { kind, sizes, pool, run }) = &self.work else { return None };
        let own = run.scheme.plain == Some(Locking::Declared)
            && self.machine.program.lock_scope == LockScope::Thread;
        Some((kind.name, *sizes, *pool, run.threads, own))
    }

    /// Returns a key that orders points so that those with the same filled pool are adjacent.
    pub fn order_by_pool(&self) -> impl Ord + use<> {
        match &self.work {
            Work::Workload(WorkloadRun { kind, sizes, pool, run }) => {
                (kind.name, sizes.value_bytes, pool.log_bytes, run.threads, sizes.keys.name())
            }
            Work::Trace(_) => ("", 0, 0, 0, ""),
        }
    }
}

/// The result of a point's run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The result in the form of `simulate --json`.
    pub result: Value,
    /// The quantities for which the run was too short.
    pub too_short: Vec<String>,
}

/// The quantities of a row, in the order of the columns of a table.
pub const QUANTITIES: [&str; 11] = [
    "tx_per_s",
    "cycles",
    "abort_ratio",
    "fences_per_tx",
    "lines_flushed_per_tx",
    "log_bytes_per_tx",
    "bulk_persists",
    "lines_read_per_tx",
    "lines_written_per_tx",
    "invalidations_per_tx",
    "energy_nj_per_tx",
];

impl Row {
    /// Returns one of [`QUANTITIES`]; `None` if the run does not have it: without figures for all parts there is no energy, without transactions
    /// nothing per transaction, and a trace has no attempts. Lines are those between caches and memory.
    pub fn quantity(&self, name: &str) -> Option<f64> {
        let statistics = &self.result["statistics"];
        let traffic = &statistics["traffic"];
        let lines = |cause: &str| {
            traffic[cause].as_object().map_or(0.0, |regions| regions.values().filter_map(Value::as_f64).sum())
        };
        let transactions =
            self.result["transactions"].as_f64()? * self.result["threads"].as_f64().unwrap_or(1.0);
        let per_transaction = |count: f64| (transactions > 0.0).then(|| count / transactions);
        match name {
            "cycles" => statistics["cycles"].as_f64(),
            "lines_read_per_tx" => per_transaction(lines("reads")),
            "lines_written_per_tx" => {
                let causes = traffic.as_object().into_iter().flat_map(|causes| causes.keys());
                let lines = causes.filter(|cause| *cause != "reads").map(|cause| lines(cause));
                per_transaction(lines.sum())
            }
            // Of the caches next to the cores: lines, of locks and of data, that another core has stored to.
            "invalidations_per_tx" => {
                per_transaction(statistics["levels"][0]["total"]["invalidations"].as_f64()?)
            }
            "energy_nj_per_tx" => per_transaction(statistics["energy"]["total_nj"].as_f64()?),
            other => self.result[other].as_f64().or_else(|| match other {
                // A trace's result has only counts.
                "tx_per_s" if transactions > 0.0 => Some(transactions / self.result["seconds"].as_f64()?),
                "log_bytes_per_tx" => per_transaction(statistics["hardware_log_bytes"].as_f64()?),
                _ => None,
            }),
        }
    }
}

/// The results of a sweep's points.
#[derive(Debug)]
pub struct Swept {
    /// The result of each point; `None` if it was not run because the sweep was ended, or if it failed.
    pub rows: Vec<Option<Row>>,
    /// Points that could not be run, and the reasons.
    pub failed: Vec<(usize, String)>,
    /// Points that were in the store already.
    pub known: usize,
    /// The effort of running the others; `None` if unknown.
    pub effort: Option<Effort>,
}

/// How long a sweep took.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Points that were run.
    pub points: usize,
    /// The processor time of their runs together.
    pub work: Duration,
    /// The elapsed time.
    pub elapsed: Duration,
    /// The number that ran in parallel.
    pub threads: usize,
}

impl std::fmt::Display for Effort {
    /// Formats as `200 runs: 61.2 s of processor time in 31.0 s on 2 threads`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { points, work, elapsed, threads } = self;
        let (work, elapsed) = (work.as_secs_f64(), elapsed.as_secs_f64());
        write!(f, "{points} runs: {work:.1} s of processor time in {elapsed:.1} s on {threads} threads")
    }
}

/// Returns the processor time of this thread so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Returns the points to run, in the order of running. Points of one pool are adjacent, so that few pools exist at a time. Long ones come first, so
/// that no processor waits long at the end.
fn ordered(points: &[Point], mut todo: Vec<usize>) -> Vec<usize> {
    let mut pools: Vec<(Option<Filled>, u64)> = Vec::new();
    for &index in &todo {
        let (filled, length) = (points[index].filled(), points[index].length());
        match pools.iter_mut().find(|(other, _)| *other == filled) {
            Some((_, longest)) => *longest = length.max(*longest),
            None => pools.push((filled, length)),
        }
    }
    // A stable sort, so that equal pools keep their order.
    pools.sort_by_key(|&(_, longest)| std::cmp::Reverse(longest));
    todo.sort_by_key(|&index| {
        let filled = points[index].filled();
        (pools.iter().position(|(other, _)| *other == filled), std::cmp::Reverse(points[index].length()))
    });
    todo
}

/// Runs the points that the store does not have yet, in parallel on all processors, and adds each result to the store immediately. When `stop`
/// becomes true, the sweep ends with the results so far. At the end the store has the points in order.
///
/// # Errors
/// Returns an error if the store cannot be written.
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
    let pools = Pools::new(todo.iter().filter_map(|&index| points[index].filled()));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let written = Mutex::new(Ok(()));
    let spent = Mutex::new((0, Duration::ZERO));
    let work = || {
        while !stop.load(Relaxed)
            && let Some(&index) = todo.get(next.fetch_add(1, Relaxed))
        {
            let point = &points[index];
            progress.set_message(format!("{} on {}", point.system(), point.work.name()));
            let before = processor_time();
            let outcome = simulate(point, |filled| pools.take(filled), stop);
            {
                let mut spent = spent.lock().unwrap_or_else(PoisonError::into_inner);
                *spent = (spent.0 + 1, spent.1 + processor_time().saturating_sub(before));
            }
            progress.inc(1);
            match outcome {
                // The run was stopped before its transactions were complete.
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

/// Runs one point alone; its filled pool stays on the shelf for the next ones. The result is meaningless if `stop` became true.
///
/// # Errors
/// Returns the reason if it cannot be run.
pub fn run_one(point: &Point, shelf: &Shelf, stop: &'static AtomicBool) -> Result<Row, String> {
    simulate(point, |filled| shelf.take(filled), stop)
}

/// Runs one point, on the filled pool that `pool` returns.
fn simulate(
    point: &Point,
    pool: impl Fn(&Filled) -> Shared,
    stop: &'static AtomicBool,
) -> Result<Row, String> {
    let Point { work, machine, hardware, .. } = point;
    let text = |error: serde_json::Error| error.to_string();
    let workload = match work {
        Work::Workload(workload) => workload,
        Work::Trace(file) => {
            let finished = trace::run(&file.path, machine, hardware).map_err(|error| format!("{error:#}"))?;
            let result = serde_json::to_value(&finished.outcome).map_err(text)?;
            return Ok(Row { result, too_short: Vec::new() });
        }
    };
    let WorkloadRun { kind, sizes, pool: pool_sizes, run } = workload;
    let shared = point.filled().map(|filled| pool(&filled)).unwrap_or_default();
    let filled = shared.get_or_init(|| {
        Prepared::of_scope(kind, sizes, *pool_sizes, run.threads, run.scheme, machine)
            .map_err(|error| format!("{error:#}"))
    });
    let filled = filled.as_ref().map_err(Clone::clone)?;
    let finished = filled
        .run_with(machine, hardware, run, Vec::new(), |machine| machine.stop_when(stop))
        .map_err(|error| format!("{error:#}"))?;
    let result = serde_json::to_value(&finished.outcome).map_err(text)?;
    Ok(Row { result, too_short: finished.too_short })
}

#[cfg(test)]
mod tests {
    use strandline_sim::run::PoolSizes;
    use strandline_sim::{Registry, file};
    use strandline_workloads::Sizes;

    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    pub fn points(latencies: &[u32]) -> Vec<Point> {
        let registry = Registry::default();
        let (scheme, hardware) = registry.pair(None, Some("loc-wal")).unwrap();
        let point = |latency: &u32| Point {
            keys: vec![("nvm.write_ns".into(), latency.to_string())],
            work: Work::Workload(WorkloadRun {
                kind: registry.workloads.of_name("sps").unwrap(),
                sizes: Sizes::small(),
                pool: PoolSizes { log_bytes: 1 << 16, chunk_bytes: 1 << 14, lock_bits: 8 },
                run: Run { scheme, threads: 1, transactions: 60, warm_up: 10, idle_percent: 0, seed: 3 },
            }),
            hardware,
            machine: file::load("loc", &[format!("nvm.write_ns={latency}")]).unwrap(),
        };
        latencies.iter().map(point).collect()
    }

    pub fn workload(point: &mut Point) -> &mut WorkloadRun {
        match &mut point.work {
            Work::Workload(workload) => workload,
            Work::Trace(_) => unreachable!("the points of tests run workloads"),
        }
    }

    fn sweep(points: &[Point], path: &std::path::Path) -> Swept {
        let store = Mutex::new(Store::open(path, "this program").unwrap());
        run(points, &store, &NEVER, &ProgressBar::hidden()).unwrap()
    }

    /// A point of a sweep has the same result as a single run, and known points are not run again.
    #[test]
    fn a_sweep_is_its_runs_and_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        let all = points(&[100, 200, 400]);
        assert_eq!(sweep(&all[..2], &path).known, 0);
        // Leave an incomplete line, as an interrupted sweep may.
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], b"{\"half"].concat()).unwrap();
        let swept = sweep(&all, &path);
        assert_eq!((swept.known, swept.failed.len()), (2, 0));
        for (point, row) in all.clone().iter_mut().zip(&swept.rows) {
            let WorkloadRun { kind, sizes, pool, run } = workload(point).clone();
            let alone = Prepared::new(kind, &sizes, pool, 1).unwrap();
            let alone = alone.run(&point.machine, point.hardware, &run, Vec::new()).unwrap().outcome;
            assert_eq!(row.as_ref().unwrap().result, serde_json::to_value(alone).unwrap());
        }
        let rates: Vec<_> =
            swept.rows.iter().map(|row| row.as_ref().unwrap().quantity("tx_per_s").unwrap()).collect();
        assert!(rates[0] > rates[1] && rates[1] > rates[2], "{rates:?}");
        assert!(swept.rows.iter().flatten().all(|row| row.quantity("lines_written_per_tx") > Some(0.0)));
        let effort = swept.effort.unwrap();
        assert!(
            effort.points == 1 && effort.work > Duration::ZERO && effort.elapsed >= effort.work,
            "{effort}"
        );
        let swept = sweep(&all, &path);
        assert_eq!((swept.known, swept.effort.unwrap().points), (3, 0));
        // Results of another program are not used.
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
            (workload(point).run.transactions, workload(point).run.threads) = (transactions, threads);
        }
        // The number of threads is part of the pool's identity.
        assert_eq!(ordered(&all, (0..5).collect()), [1, 0, 4, 3, 2]);
        assert_eq!(ordered(&all, vec![0, 2, 3, 4]), [3, 2, 0, 4], "the pool with the longest");
        let same = points(&[400, 100, 200]);
        assert_eq!(ordered(&same, (0..3).collect()), [0, 1, 2], "equals keep their order");
    }

    /// Each seed is a separate run; the table combines their results.
    #[test]
    fn runs_of_several_seeds_have_a_spread() {
        let folder = tempfile::tempdir().unwrap();
        let mut all: Vec<Point> = points(&[100, 100, 100, 200, 200, 200]);
        for (index, point) in all.iter_mut().enumerate() {
            workload(point).run.seed = 3 + index as u64 % 3;
        }
        let mut swept = sweep(&all, &folder.path().join("points.jsonl"));
        let rate = |row: &Option<Row>| row.as_ref().unwrap().quantity("tx_per_s").unwrap();
        let mut rates: Vec<f64> = swept.rows[..3].iter().map(rate).collect();
        rates.sort_by(f64::total_cmp);
        let spread = |swept: &Swept| combinations(&all, swept)[0].spread("tx_per_s").unwrap();
        let found = combinations(&all, &swept);
        assert_eq!((found.len(), &found[0].seeds[..]), (2, &[3, 4, 5][..]));
        let (low, median, high) = (rates[0], rates[1], rates[2]);
        assert_eq!(spread(&swept), crate::measurements::Spread { low, median, high });
        assert!(low < high, "{rates:?}");
        let text = csv(&all, &swept);
        let header = "workload,scheme,hardware,machine,threads,nvm.write_ns,seeds,tx_per_s,tx_per_s_low,tx_per_s_high,cycles,";
        assert!(text.starts_with(header), "{text}");
        let first = format!("sps,hardware+single-writer,loc-wal,loc,1,100,3,{median},{low},{high},");
        assert!(text.lines().nth(1).unwrap().starts_with(&first), "{text}");
        assert_eq!(text.lines().count(), 3);
        // `loc` has no figures for energy.
        assert!(!text.contains("energy"), "{text}");
        // Remove one result.
        swept.rows[0] = None;
        let found = combinations(&all, &swept);
        assert_eq!((found[0].points, &found[0].seeds[..]), (3, &[4, 5][..]));
        assert_eq!(found[0].to_json()["seeds"], json!([4, 5]));
    }

    /// A trace is identified by its contents: another file of the same name is run again.
    #[test]
    fn traces_are_swept_over_machines() {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("points.jsonl"), folder.path().join("a.trace"));
        let traced = |text: &str| -> Vec<Point> {
            std::fs::write(&file, text).unwrap();
            let mut all = points(&[100, 400]);
            all.iter_mut().for_each(|point| point.work = Work::Trace(TraceFile::open(&file).unwrap()));
            all
        };
        let text = "**1** strandline persistent 1000,64\n**1** strandline begin\n S 1000,8\n**1** strandline commit\n";
        let all = traced(text);
        let swept = sweep(&all, &path);
        assert_eq!((swept.known, swept.failed.len()), (0, 0), "{:?}", swept.failed);
        for (point, row) in all.iter().zip(&swept.rows) {
            let alone = trace::run(&file, &point.machine, point.hardware).unwrap().outcome;
            assert_eq!(row.as_ref().unwrap().result, serde_json::to_value(alone).unwrap());
        }
        assert_eq!(sweep(&all, &path).known, 2);
        let registry = Registry::default();
        let again = Point::from_json(&all[0].to_json(), &registry).unwrap();
        assert_eq!(again.to_json(), all[0].to_json());
        let table = csv(&all, &swept);
        assert!(table.starts_with("workload,hardware,machine,nvm.write_ns,tx_per_s,cycles,"), "{table}");
        assert!(table.contains(&format!("{},loc-wal,loc,400,", file.display())), "{table}");
        assert_eq!(sweep(&traced(&text.replace("1000,8", "1008,8")), &path).known, 0);
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
