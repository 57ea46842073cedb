//! The redo schemes of Blurred Persistence's evaluation (section V-A). Each one combines a way into its worker's log with a way home.
//!
//! | | home after each transaction | home in bulk | home by a helper |
//! |---|---|---|---|
//! | copied to the log, two fences | BASE | BP(VCBP) | |
//! | streamed to the log, one fence | MNE, synchronous | `vcbp-streamed` | MNE, asynchronous |
//! | copied, and a tail pointer, three fences | `base-tail` | `vcbp-tail` | |
//! | streamed to the log, two fences | `mne-sync-fenced` | | `mne-async-fenced` |
//! | executed in the log, one fence | BP(XIL) | BPPM | |
//! | executed in the log, counted | | `bppm-counted` | |
//! | streamed to the log from the write set, one fence | | the product | |
//! | written aside, counted, one fence | | | WrAP, some transactions at a time |
//!
//! All of them hold all locks, take the TxID and validate the reads before they store a commit record, because a commit record that is evicted *is* a
//! commit. They store words home only after the log is durable, so that a crash may leave any part of a committed transaction home. Recovery replays
//! the transactions that are not known to be durably home, in the order of TxIDs; replaying what is home already changes nothing. The files of the
//! rows and columns describe what a crash at each step leaves: `write_ahead.rs`, `mnemosyne.rs`, `blurred.rs`, `product.rs`, `counted.rs`, `wrap.rs`.

use super::recovery::{self, Reading};
use super::{Full, RecoveryReport, RecoveryStep, Scheme};
use crate::error::{Error, Result};
use crate::layout::{Layout, View};
use crate::log::{LogFull, Record, ThreadLog};
use crate::memory::{Memory, PersistentAddress, Step};
use crate::transaction::{Concurrency, Statistics, WriteSet};

/// The way of a transaction into its worker's log.
pub trait Logging: Default {
    /// The way in which recovery reads the log.
    const READING: Reading;
    /// Number of records at the end of each log that this way needs for itself. The checkpoint may share them.
    const RESERVED: u32 = 0;
    /// Like [`Scheme::TAKES_WRITES`].
    const TAKES_WRITES: bool = true;
    /// Like [`Scheme::KEEPS_VALUES`].
    const KEEPS_VALUES: bool = true;
    /// True if records are stored past the cache.
    const PAST_CACHE: bool = false;

    /// Begins a transaction.
    fn begin(&mut self) {}
    /// Keeps the new value of a word, whose previous value was kept at `previous`. Returns its location. The default is for ways without an execution
    /// area: each write is a record of the log, and its location is the record's position.
    ///
    /// # Errors
    /// Returns an error if there is no room.
    fn write<M: Memory>(
        &mut self,
        memory: &M,
        log: &mut ThreadLog,
        (at, value): (PersistentAddress, u64),
        _previous: Option<u32>,
    ) -> Result<u32, LogFull> {
        log.append(memory, at, value)
    }
    /// Returns the value at a location.
    fn value<M: Memory>(&self, memory: &M, log: &ThreadLog, place: u32) -> u64 {
        log.value(memory, place)
    }
    /// Makes the running transaction durable. `writes` has its writes. Returns the number of log records that it took.
    fn commit<M: Memory>(
        &mut self,
        memory: &M,
        log: &mut ThreadLog,
        writes: &WriteSet,
        transaction: u64,
    ) -> u64;
    /// Ends the running transaction without effect. The default does nothing, since an execution area is simply forgotten.
    fn abort<M: Memory>(&mut self, _memory: &M, _log: &mut ThreadLog) {}
}

/// The way of a committed transaction home, and of its log's truncation.
pub trait Checkpoint {
    /// Number of records at the end of each log that this way needs for itself.
    const RESERVED: u32;
    /// True if a helper must run beside the workers ([`Scheme::help`]).
    const HELPER: bool = false;
    /// Like [`Scheme::IS_AWAITED`].
    const AWAITS: bool = false;

    /// Called when the running transaction has stored its words home and still holds its locks.
    fn stored_home<M: Memory>(view: &View<M>, log: &ThreadLog, writes: &WriteSet, concurrency: Concurrency);
    /// Makes sure that all transactions of this full log may be overwritten.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if that waits for a transaction that waits for the calling thread.
    fn release_log<M: Memory>(
        view: &View<M>,
        log: &ThreadLog,
        concurrency: Concurrency,
        statistics: &mut Statistics,
    ) -> Result<()>;
    /// Makes all committed words durable in their home locations. No worker exists.
    fn drain<M: Memory>(view: &View<M>);
    /// Does the helper's work until `stop` returns true.
    fn help<M: Memory>(_: &View<M>, _: Concurrency, _: &dyn Fn() -> bool) {}
}

/// A scheme that combines a way into the log with a way home.
pub struct Redo<L, C> {
    log: ThreadLog,
    logging: L,
    /// True if the log is a volatile execution area that restarts with each transaction, which executes there. It is in the `Sync` domain.
    volatile: bool,
    /// True if the running transaction began in an empty log.
    began_empty: bool,
    checkpoint: std::marker::PhantomData<C>,
}

impl<L: Logging, C: Checkpoint> Redo<L, C> {
    /// Number of records at the end of each log that are not for transactions.
    const RESERVED: u32 = if L::RESERVED > C::RESERVED { L::RESERVED } else { C::RESERVED };
}

impl<L: Logging, C: Checkpoint> Scheme for Redo<L, C> {
    const HELPER: bool = C::HELPER;
    const IS_AWAITED: bool = C::AWAITS;
    const TAKES_WRITES: bool = L::TAKES_WRITES;
    const KEEPS_VALUES: bool = L::KEEPS_VALUES;

    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self {
        Self {
            log: ThreadLog::lease(view, index, Self::RESERVED),
            logging: L::default(),
            volatile: view.memory.device().is_some(),
            began_empty: true,
            checkpoint: std::marker::PhantomData,
        }
    }

    fn reader() -> Option<Self> {
        Some(Self {
            log: ThreadLog::none(),
            logging: L::default(),
            volatile: true,
            began_empty: true,
            checkpoint: std::marker::PhantomData,
        })
    }

    fn release<M: Memory>(&mut self, view: &View<M>) {
        if !self.volatile {
            self.log.release(&view.memory);
        }
    }

    fn begin<M: Memory>(&mut self, _: &View<M>) {
        if !L::TAKES_WRITES {
            // The transaction enters the log only when it commits.
            return;
        }
        if self.volatile {
            self.log.begin_volatile();
        } else {
            self.log.begin();
        }
        self.logging.begin();
        self.began_empty = self.log.is_empty();
    }

    fn write<M: Memory>(
        &mut self,
        view: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        if self.volatile {
            return self.log.append(&view.memory, at, value).map_err(|_| Full);
        }
        self.logging.write(&view.memory, &mut self.log, (at, value), previous).map_err(|_| Full)
    }

    fn executed<M: Memory>(&mut self, _: &View<M>, writes: &WriteSet) -> Result<(), Full> {
        // The log that all workers share has room for any transaction that fits its write set.
        if L::TAKES_WRITES || self.volatile {
            return Ok(());
        }
        self.log.room_for(writes.len()).map_err(|_| Full)
    }

    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64 {
        self.logging.value(&view.memory, &self.log, place)
    }

    fn running_records(&self) -> (PersistentAddress, u64) {
        self.log.running()
    }

    #[inline(always)]
    fn commit<M: Memory>(&mut self, view: &View<M>, writes: &WriteSet, transaction: u64) -> u64 {
        self.logging.commit(&view.memory, &mut self.log, writes, transaction)
    }

    fn stored_home<M: Memory>(&mut self, view: &View<M>, writes: &WriteSet, concurrency: Concurrency) {
        C::stored_home(view, &self.log, writes, concurrency);
    }

    fn abort<M: Memory>(&mut self, view: &View<M>) {
        if !self.volatile {
            self.logging.abort(&view.memory, &mut self.log);
        }
    }

    fn make_room<M: Memory>(
        &mut self,
        view: &View<M>,
        concurrency: Concurrency,
        statistics: &mut Statistics,
    ) -> Result<()> {
        let began_empty =
            if L::TAKES_WRITES { self.began_empty } else { self.volatile || self.log.is_empty() };
        if began_empty {
            return Err(Error::TransactionTooLarge { records: self.log.records() });
        }
        C::release_log(view, &self.log, concurrency, statistics)?;
        self.log.restart(&view.memory);
        if L::PAST_CACHE {
            self.log.evict(&view.memory);
        }
        statistics.log_restarts += 1;
        Ok(())
    }

    fn recover<M: Memory>(view: &View<M>, begins: &mut dyn FnMut(RecoveryStep)) -> Result<RecoveryReport> {
        recovery::recover(view, L::READING, Self::RESERVED, begins)
    }

    fn drain<M: Memory>(view: &View<M>) {
        C::drain(view);
    }

    fn help<M: Memory>(view: &View<M>, concurrency: Concurrency, stop: &dyn Fn() -> bool) {
        C::help(view, concurrency, stop);
    }
}

/// The steps that all redo schemes have.
pub const REDO_STEPS: &[Step] = &[
    Step::NewLogZero,
    Step::NewLogDirectory,
    Step::RestartInert,
    Step::RestartWriteBack,
    Step::RestartFence,
    Step::RestartPhase,
    Step::RecoveryWatermarkFilter,
    Step::RecoverySort,
    Step::RecoveryDataWriteBack,
    Step::RecoveryDataFence,
    Step::RecoveryWatermark,
    Step::RecoveryWatermarkWriteBack,
    Step::RecoveryWatermarkFence,
    Step::RecoveryZero,
    Step::RecoveryZeroWriteBack,
    Step::RecoveryZeroFence,
    Step::RestartPhaseEarly,
    Step::RecoveryDataFenceLate,
    Step::RecoveryWatermarkLow,
    Step::RecoveryZeroEarly,
];

/// The reason why [`Step::RestartFence`] is redundant if a log restarts after a transaction that did not fit.
pub const RESTART_FENCE_RETRY: (Step, &str) = (
    Step::RestartFence,
    "a log begins anew for a transaction that did not fit, and that takes its locks again, or the writer's, before its \
     first record is stored: an atomic operation, which on x86 completes the restart's write-backs; and nothing of an \
     aborted transaction waits for them",
);

/// Leaves what another life may have left of a redo scheme: commit records, and data for words near the roots, of one run.
pub fn leave_records(layout: &Layout, random: &mut dyn FnMut(u64) -> u64, log: &mut [u64]) {
    let torn = random(2) == 1;
    for record in log.as_chunks_mut::<2>().0 {
        let address = layout.word_near_roots(random).offset();
        let left = match random(4) {
            0 => Record::Commit { transaction: random(40) },
            _ => Record::Data { address, value: random(u64::MAX), mask: 0xff },
        };
        *record = left.encode(torn);
    }
}
