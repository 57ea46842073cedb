//! SCT and DCT, synchronous and deferred commit transactions (Kolli, Pelley, Saidi, Chen, Wenisch, *High-Performance Transactions for Persistent
//! Memories*, ASPLOS 2016, sections 5 and 6), under strict, epoch and strand persistency and eager sync.
//!
//! Both write an undo log entry, mutate in place, and commit by marking the entry invalid. A synchronous transaction commits before it releases its
//! locks. A deferred one releases them first and commits after all conflicting transactions before it, so that its commit is off the path from one
//! lock holder to the next.
//!
//! A transaction's body runs between `lockDS` and `prepareLogEntry` and keeps its writes in a volatile area, so that its mutations are known when the
//! entry is written; the paper's programs know them beforehand. The order of persists is the paper's. Aborting discards the area.
//!
//! # SCT
//!
//! | step | strict | epoch | eager sync | strand |
//! |---|---|---|---|---|
//! | | | | | new strand (NS1) |
//! | `lockDS` | locks | locks | locks | locks, and the log entry's |
//! | | | PB1 | | PB1 |
//! | `prepareLogEntry` (eager sync: written back) | | | | |
//! | | | PB2 | SB1 | PB2 |
//! | `mutateDS` (eager sync: written back) | | | | |
//! | | | PB3 | SB2 | PB3 |
//! | `commitTransaction`: the entry is marked invalid | | | | |
//! | | | PB4 | SB3 | PB4 |
//! | `unlockDS` | | | | |
//! | | | | | new strand (NS2) |
//!
//! # DCT
//!
//! | step | epoch | eager sync | strand |
//! |---|---|---|---|
//! | | | | new strand |
//! | `lockDS` | locks | locks | locks, and the log entry's |
//! | `recordPrevConflicts`: timestamp and last holder of each lock | | | |
//! | | PB1 | | PB1 |
//! | the log entry's volatile generation | | | |
//! | `prepareLogEntry` (eager sync: written back) | | | |
//! | deferred `commitTransaction`s | those found settled before PB1 | | |
//! | | PB2 | SB1 | PB2 |
//! | deferred `commitTransaction`s | | those with durable data and predecessors | |
//! | `mutateDS` (eager sync: written back before the next SB1), `unlockDS` | | | |
//! | `spinOnConflicts` | one check, repeated before the next PB1 | | spin |
//! | | PBz is the next PB1 | SBx is the next SB1 | PBz |
//! | `commitTransaction` | | | here, then a barrier, the entry's lock |
//! | | | SBy is the SB1 after that; then `commitPersisted` | new strand |
//!
//! Under strict persistency DCT works as under strand, without barriers, strands and the entry's lock. `deferral.rs` explains how commits are
//! deferred.
//!
//! # Crashes
//!
//! Before the entry is complete, as its checksum shows, nothing has been stored in place. From then on until the mark persists, recovery undoes the
//! transaction, whichever part of its data persisted. The mark persists only after all data.
//!
//! *SCT.* Conflicting transactions are never both undone, since the first one's mark persists before its locks are released (eager sync), or before
//! the other's entry.
//!
//! *DCT.* Uncommitted transactions are undone in the order of each lock's decreasing timestamps. A transaction's mark persists only after those of
//! its predecessors, so the undone transactions are the last ones on every word. When an entry is reused, its old transaction's data and its
//! predecessors' marks are durable, or persist before.
//!
//! Recovery: [`crate::recover_undo`].
//!
//! # Acknowledgement
//!
//! Under eager sync SCT acknowledges a transaction after SB3, and DCT when `commitPersisted` is set. The other models' barriers do not wait: a commit
//! is known to be durable only after [`Runner::drain`](strandline_core::Runner::drain). A transaction that only reads is acknowledged when it
//! returns; under DCT it waits for the commits that it has read.

mod deferral;

use crate::native;
use std::collections::VecDeque;
use std::marker::PhantomData;

use strandline_core::Concurrency;
use strandline_core::error::Error;
use strandline_core::layout::View;
use strandline_core::memory::{Event, Memory, PersistentAddress, Step};
use strandline_core::scheme::{Barrier, Mode, Of, SchemeDescriptor};
use strandline_core::scheme::{Full, RecoveryReport, RecoveryStep, Scheme};
use strandline_core::transaction::{LockSet, Statistics, WriteSet};

use self::deferral::{Lists, Pending, Seen};
use crate::execution_area::ExecutionArea;
use crate::persistency::{Barriers, EagerSync, Epoch, Persistency, PersistencyModel, Strand, Strict};
use crate::undo::{ENTRIES, LockStamp, PAPER, UNDO_STEPS, UndoEntry, UndoLog, leave_entry, recover_undo};

/// One worker's state under the persistency model `P`. Commits are deferred or, if not `DEFERRED`, synchronous; then no transaction is ever pending.
struct UndoCommit<P, const DEFERRED: bool> {
    /// The transaction's writes.
    area: ExecutionArea,
    log: UndoLog,
    /// True if the log entry's lock is held (strand).
    entry_locked: bool,
    /// Commits that become known to be durable only by a fence.
    unacknowledged: Vec<u64>,
    /// Commits that are durable and not in the statistics yet.
    acknowledged: u64,
    /// Transactions that are not settled, the oldest first; at most one for each log entry.
    pending: VecDeque<Pending>,
    /// The lists of the running transaction.
    lists: Lists,
    /// The running transaction's locks, with the timestamps that it gives them.
    stamps: Vec<LockStamp>,
    /// Lists that can be reused.
    spare: Vec<Lists>,
    seen: Seen,
    model: PhantomData<P>,
}

type Synchronous<P> = UndoCommit<P, false>;
type Deferred<P> = UndoCommit<P, true>;

/// A transaction whose log entry is written.
struct Prepared {
    entry: UndoEntry,
    /// Its TxID.
    transaction: u64,
}

const SYNCHRONOUS_STEPS: &[&[Step]] = &[
    &[Step::SynchronousPrepareBarrier, Step::SynchronousMutateBarrier, Step::SynchronousCommitBarrier],
    UNDO_STEPS,
];

const DEFERRED_STEPS: &[&[Step]] = &[
    &[
        Step::DeferredPrepareBarrier,
        Step::DeferredMutateBarrier,
        Step::DeferredSpinOnConflicts,
        Step::DeferredCommitBarrier,
        Step::DeferredGenerationAfterBarrier,
    ],
    UNDO_STEPS,
];

/// SCT's persist barriers.
const FOUR_BARRIERS: &[Barrier] = &[
    Barrier { step: Step::SynchronousLockBarrier, name: "PB1", within: true },
    Barrier { step: Step::SynchronousPrepareBarrier, name: "PB2", within: true },
    Barrier { step: Step::SynchronousMutateBarrier, name: "PB3", within: true },
    Barrier { step: Step::SynchronousCommitBarrier, name: "PB4", within: true },
];

/// SCT under strict persistency.
pub static SCT_STRICT: SchemeDescriptor = SchemeDescriptor {
    code: 16,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "sct-strict", redundant: &[] }],
    description: "undo log, commit before the locks are released; strict persistency (no barriers; not on real memory)",
    ..Synchronous::<Strict>::DESCRIPTOR
};

/// SCT under epoch persistency.
pub static SCT_EPOCH: SchemeDescriptor = SchemeDescriptor {
    code: 17,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "sct-epoch", redundant: &[] }],
    description: "the same with four persist barriers; epoch persistency (not on real memory)",
    barriers: FOUR_BARRIERS,
    ..Synchronous::<Epoch>::DESCRIPTOR
};

/// SCT under eager sync.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::SCT_EAGER_SYNC, Concurrency::Locks, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| {
///     tx.write(tx.root(0), 5)?;
///     tx.write(tx.root(1), 6)
/// })?;
/// // Three sync barriers, after which the commit is durable.
/// assert_eq!((worker.statistics().total - before).fences, 3);
/// assert_eq!(worker.statistics().acknowledged, 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static SCT_EAGER_SYNC: SchemeDescriptor = SchemeDescriptor {
    code: 18,
    modes: &[Mode {
        concurrency: Concurrency::Locks,
        name: "sct-eager-sync",
        redundant: &[
            (Step::RecoverySort, UNDONE_APART),
            (Step::RecoveryWatermarkFilter, UNDONE_AGAIN),
            (Step::RecoveryWatermark, UNDONE_AGAIN),
            (Step::RecoveryWatermarkWriteBack, UNDONE_AGAIN),
            (Step::RecoveryWatermarkFence, UNDONE_AGAIN),
            (Step::RecoveryZeroEarly, UNDONE_AGAIN),
        ],
    }],
    description: "the same with three sync barriers: clwb and sfence",
    barriers: &[
        Barrier { step: Step::SynchronousPrepareBarrier, name: "SB1", within: true },
        Barrier { step: Step::SynchronousMutateBarrier, name: "SB2", within: true },
        Barrier { step: Step::SynchronousCommitBarrier, name: "SB3", within: true },
    ],
    ..Synchronous::<EagerSync>::DESCRIPTOR
};

/// SCT under strand persistency.
pub static SCT_STRAND: SchemeDescriptor = SchemeDescriptor {
    code: 19,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "sct-strand", redundant: &[] }],
    description: "the same with each transaction on a strand of its own; strand persistency (not on real memory)",
    barriers: FOUR_BARRIERS,
    ..Synchronous::<Strand>::DESCRIPTOR
};

const UNDONE_APART: &str =
    "a commit is durable before its locks are released, so entries to be undone have no word in common";
const UNDONE_AGAIN: &str = "entries to be undone have no word in common, so that whichever of them a power failure in zeroing leaves may be undone \
     again; and what is zeroed is not undone in the next life, whatever its timestamp";

const COMMITTED_IN_VOLATILE_ORDER: &str =
    "persists follow volatile order, in which the entry's old transaction commits before it is used again";
const COMMITTED_DURABLY: &str =
    "the commit of the entry's old transaction is durable before the thread begins to use the entry again";

/// DCT under strict persistency.
pub static DCT_STRICT: SchemeDescriptor = SchemeDescriptor {
    code: 20,
    modes: &[Mode {
        concurrency: Concurrency::Locks,
        name: "dct-strict",
        redundant: &[(Step::DeferredGenerationAfterBarrier, COMMITTED_IN_VOLATILE_ORDER)],
    }],
    description: "undo log, commit after the locks are released; strict persistency (no barriers; not on real memory)",
    ..Deferred::<Strict>::DESCRIPTOR
};

/// DCT under epoch persistency.
pub static DCT_EPOCH: SchemeDescriptor = SchemeDescriptor {
    code: 21,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "dct-epoch", redundant: &[] }],
    description: "the same with two persist barriers, commits behind a later transaction's; epoch persistency (not on real memory)",
    barriers: &[
        Barrier { step: Step::DeferredLockBarrier, name: "PB1", within: true },
        Barrier { step: Step::DeferredPrepareBarrier, name: "PB2", within: true },
        Barrier { step: Step::DeferredMutateBarrier, name: "PBz", within: false },
    ],
    ..Deferred::<Epoch>::DESCRIPTOR
};

/// DCT under eager sync.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::DCT_EAGER_SYNC, Concurrency::Locks, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| {
///     tx.write(tx.root(0), 5)?;
///     tx.write(tx.root(1), 6)
/// })?;
/// // One sync barrier; the commit becomes known to be durable later.
/// assert_eq!((worker.statistics().total - before).fences, 1);
/// assert_eq!(worker.statistics().acknowledged, 0);
/// worker.drain()?;
/// assert_eq!(worker.statistics().acknowledged, 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static DCT_EAGER_SYNC: SchemeDescriptor = SchemeDescriptor {
    code: 22,
    modes: &[Mode {
        concurrency: Concurrency::Locks,
        name: "dct-eager-sync",
        redundant: &[(Step::DeferredGenerationAfterBarrier, COMMITTED_DURABLY)],
    }],
    description: "the same with one sync barrier (clwb and sfence), commits behind later transactions'",
    barriers: &[
        Barrier { step: Step::DeferredPrepareBarrier, name: "SB1", within: true },
        Barrier { step: Step::DeferredMutateBarrier, name: "SBx", within: false },
        Barrier { step: Step::DeferredCommitBarrier, name: "SBy", within: false },
    ],
    ..Deferred::<EagerSync>::DESCRIPTOR
};

// The barrier before the log entry's lock is released is not among those of strand persistency:
// `docs/papers/deferred-commit.md` says why.
/// DCT under strand persistency.
pub static DCT_STRAND: SchemeDescriptor = SchemeDescriptor {
    code: 23,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "dct-strand", redundant: &[] }],
    description: "the same with each transaction on a strand of its own; strand persistency (not on real memory)",
    barriers: &[
        Barrier { step: Step::DeferredLockBarrier, name: "PB1", within: true },
        Barrier { step: Step::DeferredPrepareBarrier, name: "PB2", within: true },
        Barrier { step: Step::DeferredMutateBarrier, name: "PBz", within: true },
    ],
    ..Deferred::<Strand>::DESCRIPTOR
};

/// The barriers' steps, each of which yields a mutant.
impl<P: PersistencyModel, const DEFERRED: bool> UndoCommit<P, DEFERRED> {
    const LOCK_BARRIER: Step =
        if DEFERRED { Step::DeferredLockBarrier } else { Step::SynchronousLockBarrier };
    const PREPARE_BARRIER: Step =
        if DEFERRED { Step::DeferredPrepareBarrier } else { Step::SynchronousPrepareBarrier };
    const MUTATE_BARRIER: Step =
        if DEFERRED { Step::DeferredMutateBarrier } else { Step::SynchronousMutateBarrier };
    const COMMIT_BARRIER: Step =
        if DEFERRED { Step::DeferredCommitBarrier } else { Step::SynchronousCommitBarrier };
}

impl<P: PersistencyModel, const DEFERRED: bool> UndoCommit<P, DEFERRED> {
    /// The descriptor, except for code, name, description and barriers.
    const DESCRIPTOR: SchemeDescriptor = SchemeDescriptor {
        source: PAPER,
        is_native: matches!(P::MODEL, Persistency::EagerSync),
        persistency: Some(P::MODEL),
        steps: if DEFERRED { DEFERRED_STEPS } else { SYNCHRONOUS_STEPS },
        leftover: leave_entry,
        ..native(&Of::<Self>::NEW)
    };

    /// Strand: takes the log entry's lock as one of the transaction's.
    fn lock_entry<M: Memory>(&mut self, view: &View<M>) {
        if P::MODEL == Persistency::Strand {
            view.memory.lock(self.log.entry(view).lock());
            self.entry_locked = true;
        }
    }

    fn unlock_entry<M: Memory>(&mut self, view: &View<M>) {
        if std::mem::take(&mut self.entry_locked) {
            view.memory.unlock(self.log.entry(view).lock());
        }
    }

    /// Writes the log entry (`prepareLogEntry`), repeating PB1 if locks were taken late. The worker has log `log`.
    ///
    /// # Errors
    /// Returns an error if the transaction is too large. Nothing has been stored in that case.
    fn prepare<M: Memory>(
        &mut self,
        view: &View<M>,
        log: u64,
        locks: &mut LockSet,
        home: &[(PersistentAddress, u64)],
        statistics: &mut Statistics,
    ) -> Result<Prepared, Error> {
        let records = self.log.capacity(view).saturating_sub(self.stamps.len() as u64) / 2;
        if home.len() as u64 > records {
            return Err(Error::TransactionTooLarge { records });
        }
        if locks.take_late() {
            P::MODEL.atomicity_barrier(&view.memory, Self::LOCK_BARRIER);
        }
        if DEFERRED && !view.memory.omitted(Step::DeferredGenerationAfterBarrier) {
            self.take_entry(view);
        }
        let (entry, bytes) = self.log.prepare_log_entry(view, home, &self.stamps);
        P::MODEL.write_back(&view.memory, entry.at, bytes, Step::PrepareWriteBack);
        statistics.log_bytes += bytes;
        Ok(Prepared { entry, transaction: self.log.number() * view.layout.geometry.logs + log })
    }

    /// DCT: notes that the log entry has a new user, so that its old one's transaction has committed.
    fn take_entry<M: Memory>(&self, view: &View<M>) {
        let entry = self.log.entry(view);
        view.memory.store(entry.user(), entry.generation);
    }

    /// Marks the entry (`commitTransaction`).
    fn commit_transaction<M: Memory>(view: &View<M>, entry: UndoEntry, transaction: u64) {
        view.memory.event(Event::Commit(transaction));
        entry.commit(&view.memory);
    }

    /// SCT: commits the running transaction, whose data are stored, while it holds its locks.
    fn commit_synchronously<M: Memory>(
        &mut self,
        view: &View<M>,
        entry: UndoEntry,
        transaction: u64,
        writes: &WriteSet,
    ) {
        let (memory, model) = (&view.memory, P::MODEL);
        writes.for_each_line(|line| model.write_back(memory, line, 8, Step::MutateWriteBack));
        model.barrier(memory, Self::MUTATE_BARRIER);
        Self::commit_transaction(view, entry, transaction);
        model.write_back(memory, entry.at, 8, Step::CommitMarkWriteBack);
        model.barrier(memory, Self::COMMIT_BARRIER);
        if model == Persistency::EagerSync {
            memory.event(Event::Acknowledged(transaction));
            self.acknowledged += 1;
        } else {
            self.unacknowledged.push(transaction);
        }
    }
}

impl<P: PersistencyModel, const DEFERRED: bool> Scheme for UndoCommit<P, DEFERRED> {
    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self {
        Self {
            area: ExecutionArea::default(),
            log: UndoLog::lease(view, index, ENTRIES),
            entry_locked: false,
            unacknowledged: Vec::new(),
            acknowledged: 0,
            pending: VecDeque::with_capacity(ENTRIES as usize),
            lists: Lists::default(),
            stamps: Vec::new(),
            spare: Vec::new(),
            seen: Seen::new(view.layout.geometry.logs, ENTRIES),
            model: PhantomData,
        }
    }

    fn release<M: Memory>(&mut self, view: &View<M>) {
        self.settle(view, &mut Statistics::default());
        self.log.release(view);
    }

    fn begin<M: Memory>(&mut self, view: &View<M>) {
        self.area.clear();
        P::MODEL.new_strand(&view.memory, Step::BeginStrand);
        // The running transaction needs an entry.
        self.drain_to(view, ENTRIES as usize - 1);
    }

    fn write<M: Memory>(
        &mut self,
        view: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        Ok(self.area.write(&view.memory, (at, value), previous))
    }

    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64 {
        self.area.value(&view.memory, place)
    }

    fn abort<M: Memory>(&mut self, view: &View<M>) {
        self.unlock_entry(view);
    }

    fn locks_taken<M: Memory>(&mut self, view: &View<M>) {
        self.lock_entry(view);
        if DEFERRED && view.memory.omitted(Step::DeferredGenerationAfterBarrier) {
            self.take_entry(view);
        }
        if P::MODEL == Persistency::Epoch {
            self.look_for_conflicts(view);
        }
        P::MODEL.atomicity_barrier(&view.memory, Self::LOCK_BARRIER);
    }

    fn commit_locked<M: Memory>(
        &mut self,
        view: &View<M>,
        log: u64,
        locks: &mut LockSet,
        writes: &WriteSet,
        statistics: &mut Statistics,
    ) -> Result<(), Error> {
        let (memory, model, home) = (&view.memory, P::MODEL, writes.words());
        self.record_previous_conflicts(view, locks);
        self.record_timestamps(view, locks);
        let Prepared { entry, transaction } = self.prepare(view, log, locks, home, statistics)?;
        match model {
            Persistency::EagerSync => self.write_back_pending(view),
            // Not earlier: if PB1 is repeated for locks that were taken late, the log entry would come after the marks.
            Persistency::Epoch => self.commit_after_barrier(view),
            Persistency::Strict | Persistency::Strand => {}
        }
        model.barrier(memory, Self::PREPARE_BARRIER);
        if model == Persistency::EagerSync {
            self.after_sync_barrier(view);
        }
        // `mutateDS`
        for &(at, value) in home {
            memory.store(at, value);
        }
        memory.event(Event::Executed(transaction));
        if DEFERRED {
            self.publish(view, entry, transaction);
            locks.stamp_each(view, self.stamps.iter().map(|stamp| stamp.1), self.log.running());
        } else {
            self.commit_synchronously(view, entry, transaction, writes);
        }
        locks.release(view);
        if DEFERRED {
            self.defer(view, entry, transaction, writes);
        }
        self.unlock_entry(view);
        self.log.advance();
        model.new_strand(memory, Step::EndStrand);
        statistics.acknowledged += std::mem::take(&mut self.acknowledged);
        Ok(())
    }

    fn end_locked<M: Memory>(&mut self, view: &View<M>, locks: &mut LockSet) {
        self.record_previous_conflicts(view, locks);
        if P::MODEL == Persistency::Epoch {
            self.commit_after_barrier(view);
        }
        locks.release(view);
        self.unlock_entry(view);
        let previous = std::mem::take(&mut self.lists.previous);
        if !Self::are_settled(view, &mut self.seen, &previous) {
            // The worker completes its own transactions first, since they may be the ones for which it waits.
            self.drain_to(view, 0);
            Self::settle_all(view, &mut self.seen, &previous);
        }
        if P::MODEL != Persistency::EagerSync && !previous.is_empty() {
            view.memory.fence(Self::COMMIT_BARRIER);
        }
        self.lists.previous = previous;
        P::MODEL.new_strand(&view.memory, Step::EndStrand);
    }

    fn settle<M: Memory>(&mut self, view: &View<M>, statistics: &mut Statistics) {
        self.drain_to(view, 0);
        statistics.acknowledged += std::mem::take(&mut self.acknowledged);
        if self.unacknowledged.is_empty() {
            return;
        }
        view.memory.fence(Self::COMMIT_BARRIER);
        for transaction in self.unacknowledged.drain(..) {
            view.memory.event(Event::Acknowledged(transaction));
            statistics.acknowledged += 1;
        }
    }

    fn recover<M: Memory>(
        view: &View<M>,
        begins: &mut dyn FnMut(RecoveryStep),
    ) -> Result<RecoveryReport, Error> {
        recover_undo(view, begins)
    }

    /// Does nothing: all committed values are home, and workers commit everything before they end.
    fn drain<M: Memory>(_: &View<M>) {}
}
