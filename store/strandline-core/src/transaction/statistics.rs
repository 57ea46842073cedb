//! What a worker counts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::Counters;

/// What a worker has done so far.
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
    /// Of both, those known to be durable; fewer only while deferred commits are under way.
    pub acknowledged: u64,
    /// Attempts that met a conflict and were run again.
    pub conflicts: u64,
    /// Transactions that their closure gave up, or that failed.
    pub user_aborts: u64,
    /// Bytes of log records written, commit records included.
    pub log_bytes: u64,
    /// Times that this worker persisted in bulk.
    pub bulk_persists: u64,
    /// Times that this worker's log began anew.
    pub log_restarts: u64,
    /// Everything that this worker wrote back and fenced, bulk persistence included.
    pub total: Counters,
    /// The part of it that bulk persistence and log restarts took.
    pub bulk: Counters,
}

/// The counts of a worker that others may look at while it works.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    pub commits: Count,
    pub read_only: Count,
    pub conflicts: Count,
    pub user_aborts: Count,
    pub log_bytes: Count,
}

/// A number that one thread raises and any may read.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds `more`. Only one thread at a time calls this, so that a store is enough.
    pub fn add(&self, more: u64) {
        self.0.store(self.get() + more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        // Nothing is ordered by a count.
        self.0.load(Ordering::Relaxed)
    }
}
