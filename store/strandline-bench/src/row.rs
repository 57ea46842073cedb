//! The results of one run.

use hdrhistogram::Histogram;
use strandline_core::transaction::Statistics;

/// The results of one run of a scheme on a workload. `bench --json` prints these fields.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    /// The name of what ran the transactions: a scheme as in `strandline-lab list`, with `+single-writer` if it ran in that mode; in `strandline
    /// bench`, a control.
    pub scheme: String,
    /// The workload's name.
    pub workload: String,
    /// Number of threads that ran transactions.
    pub threads: u64,
    /// The persistence domain's name.
    pub domain: String,
    /// Transactions per second, of all threads.
    pub tx_per_s: f64,
    /// Transactions per second of the threads' processor time: the rate on cores of their own. If a helper thread used more processor time than a
    /// worker, its time counts instead, because the worker waits for it.
    pub tx_per_processor_s: f64,
    /// The share of attempts that met a conflict.
    pub abort_ratio: f64,
    /// Persistence fences per transaction, not counting bulk persistence.
    pub fences_per_tx: f64,
    /// Cache lines written back per transaction, not counting bulk persistence.
    pub lines_flushed_per_tx: f64,
    /// Bytes of log records per transaction.
    pub log_bytes_per_tx: f64,
    /// Transactions per second that were acknowledged as durable in the sense of the domain; 0 for `volatile` and `np`, which promise no durability.
    pub acknowledged_per_s: f64,
    /// The duration of the timed part, in seconds.
    pub seconds: f64,
    /// Transactions per second of the slowest thread, as a share of the threads' mean.
    pub slowest_thread: f64,
    /// Percentiles of the transactions' times, in nanoseconds; absent unless each transaction was timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Latency>,
    /// Fences of bulk persistence and log restarts, per transaction.
    pub bulk_fences_per_tx: f64,
    /// Lines written back by bulk persistence and log restarts, per transaction.
    pub bulk_lines_flushed_per_tx: f64,
    /// The number of times that a thread persisted in bulk.
    pub bulk_persists: u64,
    /// The number of times that a log restarted.
    pub bulk_log_restarts: u64,
}

/// Percentiles of the transactions' times, in nanoseconds. A transaction's time includes its repetitions after conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// 99 of 100 transactions took at most this long.
    pub p99: u64,
    /// 999 of 1000 took at most this long.
    pub p99_9: u64,
    /// 9999 of 10,000 took at most this long.
    pub p99_99: u64,
    /// The longest time.
    pub max: u64,
}

impl Latency {
    /// Returns the percentiles over all threads, or `None` if no transaction was timed.
    fn of<'h>(threads: impl Iterator<Item = &'h Histogram<u64>>) -> Option<Self> {
        let mut all = histogram();
        threads.for_each(|thread| all += thread);
        (!all.is_empty()).then(|| Self {
            p50: all.value_at_quantile(0.5),
            p99: all.value_at_quantile(0.99),
            p99_9: all.value_at_quantile(0.999),
            p99_99: all.value_at_quantile(0.9999),
            max: all.max(),
        })
    }
}

/// Returns an empty histogram of nanoseconds with three significant digits; it holds times of some minutes at most.
pub(crate) fn histogram() -> Histogram<u64> {
    const LONGEST: u64 = 600_000_000_000;
    let mut histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order");
    histogram.auto(true);
    histogram
}

/// The results of one thread's timed part.
#[derive(Clone, Debug)]
pub struct ThreadResult {
    /// The client's statistics at the beginning.
    pub before: Statistics,
    /// The client's statistics at the end.
    pub after: Statistics,
    /// The duration of the timed part, in seconds.
    pub seconds: f64,
    /// The processor time that the thread used, in seconds.
    pub processor_seconds: f64,
    /// The times of its transactions, in nanoseconds, if each was timed.
    pub latency: Option<Histogram<u64>>,
}

impl Row {
    /// Combines the threads' results to the row of a run.
    pub fn new(scheme: &str, workload: &str, domain: &str, durable: bool, threads: &[ThreadResult]) -> Self {
        let sum = |field: fn(&Statistics) -> u64| -> u64 {
            threads.iter().map(|thread| field(&thread.after) - field(&thread.before)).sum()
        };
        let committed = sum(|s| s.commits) + sum(|s| s.read_only);
        let conflicts = sum(|s| s.conflicts);
        // Threads stop at slightly different times, so this adds their rates instead of their counts.
        let of_one = |thread: &ThreadResult, time: f64| {
            let ThreadResult { before, after, .. } = thread;
            let done = after.commits + after.read_only - before.commits - before.read_only;
            done as f64 / time.max(f64::MIN_POSITIVE)
        };
        let rate = |time: fn(&ThreadResult) -> f64| -> f64 {
            threads.iter().map(|thread| of_one(thread, time(thread))).sum()
        };
        let tx_per_s = rate(|thread| thread.seconds);
        let slowest =
            threads.iter().map(|thread| of_one(thread, thread.seconds)).fold(f64::INFINITY, f64::min);
        let acknowledged = |ThreadResult { before, after, seconds, .. }: &ThreadResult| {
            (after.acknowledged - before.acknowledged) as f64 / seconds.max(f64::MIN_POSITIVE)
        };
        let acknowledged_per_s = threads.iter().map(acknowledged).sum();
        let per_tx = |count: u64| count as f64 / committed.max(1) as f64;
        Self {
            scheme: scheme.into(),
            workload: workload.into(),
            threads: threads.len() as u64,
            domain: domain.into(),
            tx_per_s,
            tx_per_processor_s: rate(|thread| thread.processor_seconds),
            abort_ratio: conflicts as f64 / (conflicts + committed).max(1) as f64,
            fences_per_tx: per_tx(sum(|s| s.total.fences) - sum(|s| s.bulk.fences)),
            lines_flushed_per_tx: per_tx(
                sum(|s| s.total.lines_written_back) - sum(|s| s.bulk.lines_written_back),
            ),
            log_bytes_per_tx: per_tx(sum(|s| s.log_bytes)),
            acknowledged_per_s: if durable { acknowledged_per_s } else { 0.0 },
            seconds: threads.iter().map(|thread| thread.seconds).fold(0.0, f64::max),
            slowest_thread: slowest * threads.len() as f64 / tx_per_s.max(f64::MIN_POSITIVE),
            latency_ns: Latency::of(threads.iter().filter_map(|thread| thread.latency.as_ref())),
            bulk_fences_per_tx: per_tx(sum(|s| s.bulk.fences)),
            bulk_lines_flushed_per_tx: per_tx(sum(|s| s.bulk.lines_written_back)),
            bulk_persists: sum(|s| s.bulk_persists),
            bulk_log_restarts: sum(|s| s.log_restarts),
        }
    }

    /// Returns the row of a floor, `floor` operations per second, which was measured beside the run `beside`.
    pub fn floor(name: &str, beside: &Self, floor: f64) -> Self {
        Self {
            scheme: name.into(),
            workload: beside.workload.clone(),
            threads: beside.threads,
            domain: beside.domain.clone(),
            tx_per_s: floor,
            tx_per_processor_s: 0.0,
            abort_ratio: 0.0,
            fences_per_tx: 0.0,
            lines_flushed_per_tx: 0.0,
            log_bytes_per_tx: 0.0,
            acknowledged_per_s: floor,
            seconds: beside.seconds,
            slowest_thread: 1.0,
            latency_ns: None,
            bulk_fences_per_tx: 0.0,
            bulk_lines_flushed_per_tx: 0.0,
            bulk_persists: 0,
            bulk_log_restarts: 0,
        }
    }

    /// Returns the run with the median rate, or `None` if `runs` is empty. Its figures are not mixed with those of other runs.
    pub fn median(mut runs: Vec<Self>) -> Option<Self> {
        runs.sort_by(|a, b| a.tx_per_s.total_cmp(&b.tx_per_s));
        let middle = runs.len().checked_sub(1)? / 2;
        Some(runs.swap_remove(middle))
    }
}
