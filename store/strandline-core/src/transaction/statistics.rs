//! The counts of a worker.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::Counters;

/// The counts of a worker's work so far.
///
/// ```
/// # use strandline_core::example::*;
/// # let pool = pool();
/// # let mut session = pool.worker()?;
/// # session.run(|tx| tx.write(tx.root(0), 5))?;
/// # session.view(|tx| tx.read(tx.root(0)))?;
/// # let given_up: strandline_core::Result<()> = session.run(|_| Err(strandline_core::Abort::User));
/// # assert!(given_up.is_err());
/// // The session has written, has read, and has rolled back.
/// let done = session.statistics();
/// assert_eq!((done.commits, done.read_only, done.user_aborts), (1, 1, 1));
/// # // A record and the commit record; where lines are written back, inert records fill theirs up.
/// # assert_eq!(done.log_bytes, 32);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Committed transactions that wrote something.
    pub commits: u64,
    /// Committed transactions that wrote nothing.
    pub read_only: u64,
    /// The committed transactions that are known to be durable. They are fewer than all only while commits are deferred.
    pub acknowledged: u64,
    /// Attempts that met a conflict and were repeated.
    pub conflicts: u64,
    /// Transactions that their closure aborted, or that failed.
    pub user_aborts: u64,
    /// Bytes of log records written, including commit records.
    pub log_bytes: u64,
    /// The number of times that this worker persisted in bulk.
    pub bulk_persists: u64,
    /// The number of times that this worker's log restarted.
    pub log_restarts: u64,
    /// All that this worker wrote back and fenced, including bulk persistence.
    pub total: Counters,
    /// The part of the total that is due to bulk persistence and log restarts.
    pub bulk: Counters,
}

/// The counts of a worker, which other threads may read while it works.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    pub commits: Count,
    pub read_only: Count,
    pub conflicts: Count,
    pub user_aborts: Count,
    pub log_bytes: Count,
}

/// A number that one thread increases and any thread may read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds `more`. Only one thread at a time may call this, so a store suffices.
    pub fn add(&self, more: u64) {
        self.0.store(self.get() + more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        // Relaxed is enough: no other access depends on the order of this count.
        self.0.load(Ordering::Relaxed)
    }
}
