//! Statistics of an open pool: counts of its workers and of its device, and durations.

use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::pool::Pool;
use crate::durations::{Durations, Stopwatch};
use crate::engine::Control;
use crate::error::Result;
use crate::memory::Native;
use crate::sync::DeviceCounters;
use crate::trace::{self, span};
use crate::transaction::Tally;

/// The statistics of a pool since this process opened it. Counts only grow. A transaction that ends meanwhile may be in some counts already
/// and not in others.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = durable_path_and_options();
/// # let db = Pool::create(&path, &options)?;
/// let before = db.statistics()?;
/// # let mut worker = db.worker()?;
/// # worker.run(|tx| tx.write(tx.root(0), 5))?;
/// # worker.view(|tx| tx.read(tx.root(0)))?;
/// // Meanwhile one transaction writes, and one reads.
/// let after = db.statistics()?;
/// assert_eq!((after.commits - before.commits, after.reads - before.reads), (1, 1));
/// assert_eq!(after.device.log_writes - before.device.log_writes, 1);
/// assert!(after.log_writes.quantile(0.99) <= after.log_writes.max());
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// The number of committed transactions that changed something.
    pub commits: u64,
    /// The number of committed transactions that changed nothing. Reads of snapshots are not counted.
    pub reads: u64,
    /// The number of attempts that met a conflict, after which the transaction ran again.
    pub conflicts: u64,
    /// The number of transactions that their closure ended with an error, or that failed.
    pub given_up: u64,
    /// The bytes of log records that transactions have written. A transaction that is larger than its log writes none.
    pub record_bytes: u64,
    /// `Sync`: the writes to the files. In other domains nothing is counted.
    pub device: DeviceCounters,
    /// `Sync`: the durations of the durable writes of the log. Each makes all transactions durable that wait for it.
    pub log_writes: Durations,
    /// `Sync`: the durations of checkpoints.
    pub checkpoints: Durations,
    /// `Sync`: the times that each `write` of a database, a store or a session took until its transaction was durable, including all waits.
    pub writes: Durations,
    /// The number of [`writes`](PoolStatistics::writes) that took at least [`Options::slow_transaction`](super::Options::slow_transaction).
    pub slow_writes: u64,
}

#[cfg(feature = "metrics")]
impl PoolStatistics {
    /// Publishes the statistics to the recorder of the crate `metrics`, as counters and gauges whose names begin with `strandline_` and
    /// that have the label `pool`. A program calls this whenever its metrics are collected. The counts begin at zero when the pool is
    /// opened again.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let db = pool();
    /// db.statistics()?.publish("orders");
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    pub fn publish(&self, pool: &str) {
        let Self { commits, reads, conflicts, given_up, record_bytes, device, slow_writes, .. } = self;
        let counter = |name: &'static str, value: u64| {
            metrics::counter!(name, "pool" => pool.to_owned()).absolute(value)
        };
        counter("strandline_commits_total", *commits);
        counter("strandline_reads_total", *reads);
        counter("strandline_conflicts_total", *conflicts);
        counter("strandline_given_up_total", *given_up);
        counter("strandline_record_bytes_total", *record_bytes);
        counter("strandline_log_writes_total", device.log_writes);
        counter("strandline_log_bytes_total", device.log_bytes);
        counter("strandline_heap_writes_total", device.heap_writes);
        counter("strandline_heap_bytes_total", device.heap_bytes);
        counter("strandline_heap_flushes_total", device.heap_flushes);
        counter("strandline_slow_writes_total", *slow_writes);
        let all =
            [("log_write", &self.log_writes), ("checkpoint", &self.checkpoints), ("write", &self.writes)];
        for (what, durations) in all {
            let labels = || [("pool", pool.to_owned()), ("what", what.to_owned())];
            metrics::counter!("strandline_durations_total", &labels()).absolute(durations.count());
            for (quantile, name) in [(0.5, "0.5"), (0.99, "0.99"), (1.0, "1")] {
                let labels = labels().into_iter().chain([("quantile", name.to_owned())]);
                let labels: Vec<_> = labels.map(|(name, value)| metrics::Label::new(name, value)).collect();
                metrics::gauge!("strandline_duration_seconds", labels)
                    .set(durations.quantile(quantile).as_secs_f64());
            }
        }
    }
}

/// The observations of an open pool about itself, besides those of its device.
#[derive(Debug, Default)]
pub(super) struct Observed {
    tallies: Mutex<Tallies>,
    pub checkpoints: Stopwatch,
    writes: Stopwatch,
    slow_writes: AtomicU64,
}

/// The counts of all workers that were ever leased.
#[derive(Debug, Default)]
struct Tallies {
    /// The tallies of workers that may still exist.
    workers: Vec<Arc<Tally>>,
    /// The sums of the ended workers' tallies: commits, reads, conflicts, given up, bytes of records.
    ended: [u64; 5],
}

fn counts(tally: &Tally) -> [u64; 5] {
    let Tally { commits, read_only, conflicts, user_aborts, log_bytes } = tally;
    [commits, read_only, conflicts, user_aborts, log_bytes].map(|count| count.get())
}

fn add(sum: &mut [u64; 5], more: [u64; 5]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

impl Observed {
    fn tallies(&self) -> MutexGuard<'_, Tallies> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the tally of a new worker.
    pub fn add_worker(&self, tally: Arc<Tally>) {
        let Tallies { workers, ended } = &mut *self.tallies();
        workers.retain(|worker| {
            let exists = Arc::strong_count(worker) > 1;
            if !exists {
                // Ordered after everything that the worker has counted.
                fence(Ordering::Acquire);
                add(ended, counts(worker));
            }
            exists
        });
        workers.push(tally);
    }

    /// Takes a checkpoint of `pool`, and measures its duration.
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "no event is emitted"))]
    pub fn checkpoint<T>(&self, pool: &Path, take: impl FnOnce() -> Result<T>) -> Result<T> {
        span!("checkpoint", pool = %pool.display());
        let since = Instant::now();
        let taken = take()?;
        self.checkpoints.record(since.elapsed());
        Ok(taken)
    }

    fn sums(&self) -> [u64; 5] {
        let tallies = self.tallies();
        let mut sums = tallies.ended;
        tallies.workers.iter().for_each(|worker| add(&mut sums, counts(worker)));
        sums
    }
}

impl<C: Control<Memory = Native>> Pool<C> {
    /// Returns the statistics of the pool since it was opened. This waits for nothing, and may be called inside a transaction.
    ///
    /// # Errors
    /// Returns [`Error::Forked`](crate::Error::Forked) if this is a fork of the process that opened the pool.
    pub fn statistics(&self) -> Result<PoolStatistics> {
        self.check_process()?;
        let observed = self.observed();
        let [commits, reads, conflicts, given_up, record_bytes] = observed.sums();
        let files = self.files();
        Ok(PoolStatistics {
            commits,
            reads,
            conflicts,
            given_up,
            record_bytes,
            device: files.map(|files| files.counters()).unwrap_or_default(),
            log_writes: files.map(|files| files.log_write_durations()).unwrap_or_default(),
            checkpoints: observed.checkpoints.durations(),
            writes: observed.writes.durations(),
            slow_writes: observed.slow_writes.load(Ordering::Relaxed),
        })
    }

    /// Returns the observer of calls that wait for the disk; `None` if calls in this pool do not wait, where measurements would cost too
    /// much.
    #[doc(hidden)]
    pub fn write_observer(&self) -> Option<WriteObserver> {
        let waits = !self.is_read_only() && self.files().is_some();
        waits.then(|| WriteObserver {
            observed: self.observed().clone(),
            slow: self.slow_transaction(),
            pool: self.path().to_owned(),
        })
    }
}

/// Observes the time that calls wait until their transactions are durable.
#[doc(hidden)]
pub struct WriteObserver {
    observed: Arc<Observed>,
    /// The duration from which on a call counts as slow.
    slow: Duration,
    pool: PathBuf,
}

impl WriteObserver {
    /// Notes that a call by `caller` took this long.
    pub fn note(&self, took: Duration, caller: &Location<'_>) {
        self.observed.writes.record(took);
        if took >= self.slow {
            self.observed.slow_writes.fetch_add(1, Ordering::Relaxed);
            trace::slow_transaction(&self.pool, took, caller);
        }
    }
}
