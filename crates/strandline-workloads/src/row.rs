//! What one run measured.

use strandline_core::transaction::Statistics;

/// One run: a scheme on a workload. The fields are those of `bench --json`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    /// The scheme's name in `strandline list`, with `+single-writer` where that mode ran.
    pub scheme: String,
    /// The workload's name in `strandline list`.
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
    /// Fences of bulk persistence and log restarts, per transaction.
    pub bulk_fences_per_tx: f64,
    /// Lines written back by bulk persistence and log restarts, per transaction.
    pub bulk_lines_flushed_per_tx: f64,
    /// Times that a thread persisted in bulk.
    pub bulk_persists: u64,
    /// Times that a log began anew.
    pub bulk_log_restarts: u64,
}

/// What one thread did in the timed part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadResult {
    pub before: Statistics,
    pub after: Statistics,
    pub seconds: f64,
    pub processor_seconds: f64,
}

impl Row {
    /// The row of a run of these threads.
    pub(crate) fn new(
        scheme: &str,
        workload: &str,
        domain: &str,
        durable: bool,
        threads: &[ThreadResult],
    ) -> Self {
        let sum = |field: fn(&Statistics) -> u64| -> u64 {
            threads.iter().map(|thread| field(&thread.after) - field(&thread.before)).sum()
        };
        let committed = sum(|s| s.commits) + sum(|s| s.read_only);
        let conflicts = sum(|s| s.conflicts);
        // Threads stop at slightly different times, so rates are added and not counts.
        let rate = |time: fn(&ThreadResult) -> f64| -> f64 {
            let of = |thread: &ThreadResult| {
                let ThreadResult { before, after, .. } = thread;
                let done = after.commits + after.read_only - before.commits - before.read_only;
                done as f64 / time(thread).max(f64::MIN_POSITIVE)
            };
            threads.iter().map(of).sum()
        };
        let tx_per_s = rate(|thread| thread.seconds);
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
            bulk_fences_per_tx: per_tx(sum(|s| s.bulk.fences)),
            bulk_lines_flushed_per_tx: per_tx(sum(|s| s.bulk.lines_written_back)),
            bulk_persists: sum(|s| s.bulk_persists),
            bulk_log_restarts: sum(|s| s.log_restarts),
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
