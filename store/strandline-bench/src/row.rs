//! What one run measured.

use hdrhistogram::Histogram;
use strandline_core::transaction::Statistics;

/// One run: a scheme on a workload. The fields are those of `bench --json`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    /// What ran the transactions: a scheme's name in `strandline-lab list`, with `+single-writer` where that mode ran, or of `strandline
    /// bench` a control.
    pub scheme: String,
    /// The workload's name.
    pub workload: String,
    /// Threads that ran transactions.
    pub threads: u64,
    /// The persistence domain's name.
    pub domain: String,
    /// Transactions per second, of all threads.
    pub tx_per_s: f64,
    /// Transactions per second of the threads' own processor time: what they reach on cores that they have for
    /// themselves. Where a helper works beside them, it is the helper's if that is more: then they wait for it.
    pub tx_per_processor_s: f64,
    /// Attempts that met a conflict, of all attempts.
    pub abort_ratio: f64,
    /// Persistence fences per transaction, without bulk persistence.
    pub fences_per_tx: f64,
    /// Cache lines written back per transaction, without bulk persistence.
    pub lines_flushed_per_tx: f64,
    /// Bytes of log records per transaction.
    pub log_bytes_per_tx: f64,
    /// Transactions per second whose durability (as the domain means it) was acknowledged; 0 for `volatile`
    /// and `np`, which promise none.
    pub acknowledged_per_s: f64,
    /// How long the timed part took.
    pub seconds: f64,
    /// Transactions per second of the slowest thread, as a share of the threads' mean.
    pub slowest_thread: f64,
    /// How long transactions took, in nanoseconds; absent unless each was timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Latency>,
    /// Fences of bulk persistence and log restarts, per transaction.
    pub bulk_fences_per_tx: f64,
    /// Lines written back by bulk persistence and log restarts, per transaction.
    pub bulk_lines_flushed_per_tx: f64,
    /// Times that a thread persisted in bulk.
    pub bulk_persists: u64,
    /// Times that a log began anew.
    pub bulk_log_restarts: u64,
}

/// Percentiles of the time that a transaction took, the repetitions after conflicts included, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// 99 of 100 took at most so long.
    pub p99: u64,
    /// 999 of 1000.
    pub p99_9: u64,
    /// 9999 of 10,000.
    pub p99_99: u64,
    /// The longest.
    pub max: u64,
}

impl Latency {
    /// Of all threads' transactions; `None` of none.
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

/// An empty histogram of nanoseconds, to a tenth of a percent; it takes minutes at most.
pub(crate) fn histogram() -> Histogram<u64> {
    const LONGEST: u64 = 600_000_000_000;
    let mut histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order");
    histogram.auto(true);
    histogram
}

/// What one thread did in the timed part.
#[derive(Clone, Debug)]
pub struct ThreadResult {
    /// What its client had counted before.
    pub before: Statistics,
    /// And after.
    pub after: Statistics,
    /// How long it took.
    pub seconds: f64,
    /// Its processor time.
    pub processor_seconds: f64,
    /// How long each transaction took, in nanoseconds, if that was asked for.
    pub latency: Option<Histogram<u64>>,
}

impl Row {
    /// The row of a run of these threads.
    pub fn new(scheme: &str, workload: &str, domain: &str, durable: bool, threads: &[ThreadResult]) -> Self {
        let sum = |field: fn(&Statistics) -> u64| -> u64 {
            threads.iter().map(|thread| field(&thread.after) - field(&thread.before)).sum()
        };
        let committed = sum(|s| s.commits) + sum(|s| s.read_only);
        let conflicts = sum(|s| s.conflicts);
        // Threads stop at slightly different times, so rates are added and not counts.
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

    /// A row of a floor, measured beside that of transactions.
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

    /// The run with the median of the transactions per second, whole, so that its figures belong together;
    /// `None` of no runs.
    pub fn median(mut runs: Vec<Self>) -> Option<Self> {
        runs.sort_by(|a, b| a.tx_per_s.total_cmp(&b.tx_per_s));
        let middle = runs.len().checked_sub(1)? / 2;
        Some(runs.swap_remove(middle))
    }
}
