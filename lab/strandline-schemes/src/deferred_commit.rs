//! DCT, deferred commit transactions (Kolli, Pelley, Saidi, Chen, Wenisch, *High-Performance Transactions for
//! Persistent Memories*, ASPLOS 2016, section 6), under strict, epoch and strand persistency and eager sync.
//!
//! # The protocol
//!
//! A transaction releases its locks as soon as it has stored its data, and commits later, after all conflicting
//! transactions before it; so its commit is off the path from one lock holder to the next.
//!
//! | step | epoch | eager sync | strand |
//! |---|---|---|---|
//! | | | | new strand |
//! | `lockDS` | locks | locks | locks, and the log entry's |
//! | `recordPrevConflicts`: timestamp and last holder of each lock | | | |
//! | | PB1 | | PB1 |
//! | `prepareLogEntry` (eager sync: written back) | | | |
//! | deferred `commitTransaction`s | those that were spun for before PB1 | | |
//! | | PB2 | SB1 | PB2 |
//! | deferred `commitTransaction`s | | those with durable data and predecessors | |
//! | `mutateDS` (eager sync: written back before the next SB1), `unlockDS` | | | |
//! | `spinOnConflicts` | a look, again before the next PB1 | | spin |
//! | | PBz is the next PB1 | SBx is the next SB1 | PBz |
//! | `commitTransaction` | | | here, then a barrier, the entry's lock |
//! | | | SBy is the SB1 after that; then `commitPersisted` | new strand |
//!
//! Under strict persistency it is as under strand, without barriers, strands and the entry's lock.
//!
//! *Timestamps.* A transaction's timestamp is one above those of all its locks and is left in them: conflicting
//! transactions are ordered by it, and the one number stands for the timestamps of all locks, which the paper logs.
//!
//! *Predecessors* are the last holders of the locks, by log and number; the number tells entry and generation. A
//! predecessor is settled when its entry is marked or has a later generation (the load orders the commits under
//! strong persist atomicity), and under eager sync when its `commitPersisted` word has reached the generation.
//!
//! *A look is remembered*, by log entry, except under strand persistency, whose new strands forget what a thread has
//! seen. A lock that has rested for long names a transaction whose entry others have used since; to look at it again
//! would order this thread after the entry's newest transaction, which has nothing to do with it.
//!
//! *Nobody waits without helping.* As long as there are unused log entries a transaction that may not commit yet is
//! deferred further. Who has to wait (no entry left, a reader, [`Runner::drain`](strandline_core::Runner::drain), the end of a
//! worker) first does what its own transactions still need, then looks for a while, then completes the predecessor
//! itself, and before that the predecessor's predecessors: they have all released their locks, so all that is missing
//! is in the log and in the volatile words beside it. Under eager sync the helper writes the data back and fences;
//! under epoch and strand it loads the data, which orders what follows a barrier after them.
//!
//! # Crashes
//!
//! What has not committed is undone, in the order of falling timestamps: a transaction's mark persists only after
//! those of its predecessors, so the undone ones are the last on every word. When an entry is used again, its old
//! transaction's data and its predecessors' marks are durable, or persist before. Recovery:
//! [`crate::recover_undo`].
//!
//! A transaction is acknowledged when its commit is known durable: under eager sync when `commitPersisted` is set, under
//! the other models by the fence of `drain`. One that only reads is acknowledged when it returns: it waits for
//! what it read.

use crate::undo::{ENTRIES, PAPER, UNDO_STEPS, leave_entry};
use std::collections::VecDeque;
use std::marker::PhantomData;
use strandline_core::Concurrency;
use strandline_core::scheme::Barrier;
use strandline_core::scheme::{Durability, Mode, Of, SchemeDescriptor};

use crate::persistency::{Barriers, EagerSync, Epoch, Persistency, PersistencyModel, Strand, Strict};
use crate::undo::{UndoEntry, recover_undo};
use crate::undo_worker::{Prepared, UndoWorker};
use strandline_core::error::Error;
use strandline_core::layout::View;
use strandline_core::memory::{Event, Memory, PersistentAddress, Step};
use strandline_core::scheme::{Full, RecoveryReport, RecoveryStep, Scheme};
use strandline_core::transaction::{Holder, LockSet, Statistics, WriteSet};

/// Looks at an unsettled predecessor before helping.
const PATIENCE: u32 = 64;

/// How far a transaction that has released its locks is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its data may not have persisted, or its predecessors were not settled when last looked at.
    Executed,
    /// It may commit: its predecessors are settled (epoch), or its data are durable (eager sync).
    Ready,
    /// It is marked; the mark is not known to be durable.
    Committed,
}

struct Pending {
    entry: UndoEntry,
    transaction: u64,
    lists: Lists,
    stage: Stage,
}

/// What is remembered of a transaction that has released its locks.
#[derive(Default)]
struct Lists {
    /// Its predecessors.
    previous: Vec<Holder>,
    /// The words that it stored, where they have to be written back.
    data: Vec<PersistentAddress>,
}

/// The newest generation of each log entry of which this worker has seen that nobody has to wait for it any more.
struct Seen {
    generations: Vec<u64>,
    /// In each log.
    entries: u64,
}

impl Seen {
    fn new(logs: u64, entries: u64) -> Self {
        Self { generations: vec![0; (logs * entries) as usize], entries }
    }

    /// That of the entry that `holder` used.
    fn of(&mut self, holder: Holder) -> &mut u64 {
        &mut self.generations[(holder.log * self.entries + holder.sequence % self.entries) as usize]
    }
}

/// DCT's state for one worker, under the persistency model `P`.
struct DeferredCommit<P> {
    worker: UndoWorker,
    /// Transactions that are not settled, the oldest first. At most one for each log entry.
    pending: VecDeque<Pending>,
    /// The running transaction's.
    lists: Lists,
    /// Lists to be used again.
    spare: Vec<Lists>,
    seen: Seen,
    /// Commits that are durable and not in the statistics yet.
    acknowledged: u64,
    model: PhantomData<P>,
}

/// What the designs under all models have in common.
const COMMON: SchemeDescriptor = SchemeDescriptor {
    code: 0,
    modes: &[],
    source: PAPER,
    description: "",
    durability: Durability::Software,
    is_native: false,
    in_sync: false,
    persistency: None,
    steps: &[
        &[
            Step::DeferredPrepareBarrier,
            Step::DeferredMutateBarrier,
            Step::DeferredSpinOnConflicts,
            Step::DeferredCommitBarrier,
        ],
        UNDO_STEPS,
    ],
    barriers: &[],
    leftover: leave_entry,
    commit_cost: None,
    scheme: &Of::<DeferredCommit<Strict>>::NEW,
};

/// DCT under strict persistency.
pub static DCT_STRICT: SchemeDescriptor = SchemeDescriptor {
    code: 20,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "dct-strict", redundant: &[] }],
    description: "undo log, commit after the locks are released; strict persistency (no barriers; not on real memory)",
    persistency: Some(Persistency::Strict),
    scheme: &Of::<DeferredCommit<Strict>>::NEW,
    ..COMMON
};

/// DCT under epoch persistency.
pub static DCT_EPOCH: SchemeDescriptor = SchemeDescriptor {
    code: 21,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "dct-epoch", redundant: &[] }],
    description: "the same with two persist barriers, commits behind a later transaction's; epoch persistency (not on real memory)",
    persistency: Some(Persistency::Epoch),
    barriers: &[
        Barrier { step: Step::DeferredLockBarrier, name: "PB1", within: true },
        Barrier { step: Step::DeferredPrepareBarrier, name: "PB2", within: true },
        Barrier { step: Step::DeferredMutateBarrier, name: "PBz", within: false },
    ],
    scheme: &Of::<DeferredCommit<Epoch>>::NEW,
    ..COMMON
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
/// // One sync barrier; that the commit is durable is known later.
/// assert_eq!((worker.statistics().total - before).fences, 1);
/// assert_eq!(worker.statistics().acknowledged, 0);
/// worker.drain()?;
/// assert_eq!(worker.statistics().acknowledged, 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static DCT_EAGER_SYNC: SchemeDescriptor = SchemeDescriptor {
    code: 22,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "dct-eager-sync", redundant: &[] }],
    description: "the same with one sync barrier (clwb and sfence), commits behind later transactions'",
    is_native: true,
    persistency: Some(Persistency::EagerSync),
    barriers: &[
        Barrier { step: Step::DeferredPrepareBarrier, name: "SB1", within: true },
        Barrier { step: Step::DeferredMutateBarrier, name: "SBx", within: false },
        Barrier { step: Step::DeferredCommitBarrier, name: "SBy", within: false },
    ],
    scheme: &Of::<DeferredCommit<EagerSync>>::NEW,
    ..COMMON
};

// The barrier before the log entry's lock is released is not among those of strand persistency:
// `docs/papers/deferred-commit.md` says why.
/// DCT under strand persistency.
pub static DCT_STRAND: SchemeDescriptor = SchemeDescriptor {
    code: 23,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "dct-strand", redundant: &[] }],
    description: "the same with each transaction on a strand of its own; strand persistency (not on real memory)",
    persistency: Some(Persistency::Strand),
    barriers: &[
        Barrier { step: Step::DeferredLockBarrier, name: "PB1", within: true },
        Barrier { step: Step::DeferredPrepareBarrier, name: "PB2", within: true },
        Barrier { step: Step::DeferredMutateBarrier, name: "PBz", within: true },
    ],
    scheme: &Of::<DeferredCommit<Strand>>::NEW,
    ..COMMON
};

impl<P: PersistencyModel> DeferredCommit<P> {
    /// Whether commits wait for barriers of later transactions.
    const DEFERS: bool = matches!(P::MODEL, Persistency::Epoch | Persistency::EagerSync);
    /// Entries in each log. A new strand forgets what its thread has seen, so that every look under strand persistency is a new
    /// one: with no more entries than strands it would often meet an entry's next user, which has nothing to do with the
    /// predecessor.
    const ENTRIES: u64 = if matches!(P::MODEL, Persistency::Strand) { 2 * ENTRIES } else { ENTRIES };

    /// The newest generation of `entry` that nobody has to wait for any more.
    fn settled_generation<M: Memory>(view: &View<M>, entry: UndoEntry) -> u64 {
        match P::MODEL {
            Persistency::EagerSync => view.memory.load(entry.persisted()),
            _ => entry.committed_generation(&view.memory),
        }
    }

    /// Whether nobody has to wait for `entry`'s transaction any more.
    fn is_settled<M: Memory>(view: &View<M>, entry: UndoEntry) -> bool {
        Self::settled_generation(view, entry) >= entry.generation
    }

    /// `spinOnConflicts`, one look: whether `holder`'s transaction is settled.
    #[inline]
    fn look<M: Memory>(view: &View<M>, seen: &mut Seen, holder: Holder) -> bool {
        let (entry, seen) = (UndoEntry::of(view, holder, Self::ENTRIES), seen.of(holder));
        if P::MODEL == Persistency::Strand || *seen < entry.generation {
            *seen = Self::settled_generation(view, entry);
        }
        *seen >= entry.generation
    }

    /// One look at all predecessors: whether they are settled.
    fn are_settled<M: Memory>(view: &View<M>, seen: &mut Seen, previous: &[Holder]) -> bool {
        view.memory.omitted(Step::DeferredSpinOnConflicts)
            || previous.iter().all(|&holder| Self::look(view, seen, holder))
    }

    /// Waits until `previous` are settled, and completes those that take long.
    fn settle_all<M: Memory>(view: &View<M>, seen: &mut Seen, previous: &[Holder]) {
        if view.memory.omitted(Step::DeferredSpinOnConflicts) {
            return;
        }
        for &holder in previous {
            let mut patience = PATIENCE;
            while !Self::look(view, seen, holder) {
                if patience == 0 {
                    let entry = UndoEntry::of(view, holder, Self::ENTRIES);
                    Self::complete(view, entry);
                } else {
                    patience -= 1;
                    view.memory.pause();
                }
            }
        }
    }

    /// Completes another worker's transaction, which has released its locks. Its owner may be doing the same.
    fn complete<M: Memory>(view: &View<M>, entry: UndoEntry) {
        let memory = &view.memory;
        let (mut previous, mut data) = (Vec::new(), Vec::new());
        for i in 0..memory.load(entry.previous_count()) {
            previous.extend(Holder::decode(memory.load(entry.previous(i))));
        }
        entry.addresses(memory, &mut data);
        let transaction = memory.load(entry.transaction());
        if Self::is_settled(view, entry) {
            // What was read may belong to the entry's next transaction.
            return;
        }
        for holder in previous {
            let entry = UndoEntry::of(view, holder, Self::ENTRIES);
            if !Self::is_settled(view, entry) {
                Self::complete(view, entry);
            }
        }
        P::MODEL.write_back_words(memory, data.iter().copied(), Step::MutateWriteBack);
        if P::MODEL != Persistency::EagerSync {
            for &at in &data {
                memory.load(at);
            }
        }
        P::MODEL.barrier(memory, Step::DeferredMutateBarrier);
        memory.event(Event::Commit(transaction));
        entry.commit_for_owner(memory);
        P::MODEL.write_back(memory, entry.at, 8, Step::CommitMarkWriteBack);
        P::MODEL.barrier(memory, Step::DeferredCommitBarrier);
        if P::MODEL == Persistency::EagerSync {
            // It never goes back, even if the owner has gone on to the next generation.
            let _ = memory.compare_exchange(entry.persisted(), entry.generation - 1, entry.generation);
        }
    }

    /// `commitTransaction`.
    fn commit_transaction<M: Memory>(view: &View<M>, pending: &Pending) {
        view.memory.event(Event::Commit(pending.transaction));
        pending.entry.commit(&view.memory);
    }

    /// Eager sync: asks for everything that the next sync barrier is to cover. Only now, since between this and
    /// the barrier there may be no atomic instruction: on x86 it would wait for the write-backs as well.
    fn write_back_pending<M: Memory>(&self, view: &View<M>) {
        for pending in &self.pending {
            let data = pending.lists.data.iter().copied();
            match pending.stage {
                Stage::Executed => P::MODEL.write_back_words(&view.memory, data, Step::MutateWriteBack),
                Stage::Ready => {}
                Stage::Committed => {
                    P::MODEL.write_back(&view.memory, pending.entry.at, 8, Step::CommitMarkWriteBack);
                }
            }
        }
    }

    /// Forgets the oldest pending transaction; returns its TxID.
    fn pop(&mut self) -> Option<u64> {
        let Pending { transaction, mut lists, .. } = self.pending.pop_front()?;
        lists.previous.clear();
        lists.data.clear();
        self.spare.push(lists);
        Some(transaction)
    }

    /// Eager sync: what follows from a sync barrier that covers everything written back so far.
    fn after_sync_barrier<M: Memory>(&mut self, view: &View<M>) {
        while let Some(front) = self.pending.front()
            && front.stage == Stage::Committed
        {
            // Only this thread begins the entry's next generation.
            view.memory.store(front.entry.persisted(), front.entry.generation);
            if let Some(transaction) = self.pop() {
                view.memory.event(Event::Acknowledged(transaction));
                self.acknowledged += 1;
            }
        }
        for pending in &mut self.pending {
            pending.stage = Stage::Ready;
        }
        self.commit_ready(view);
    }

    /// Eager sync: commits what has durable data and settled predecessors, in order.
    fn commit_ready<M: Memory>(&mut self, view: &View<M>) {
        let at_once = view.memory.omitted(Step::DeferredCommitBarrier);
        let mut at = 0;
        while let Some(pending) = self.pending.get_mut(at) {
            match pending.stage {
                Stage::Committed => {}
                Stage::Ready if Self::are_settled(view, &mut self.seen, &pending.lists.previous) => {
                    Self::commit_transaction(view, pending);
                    pending.stage = Stage::Committed;
                    if at_once {
                        view.memory.store(pending.entry.persisted(), pending.entry.generation);
                    }
                }
                _ => break,
            }
            at += 1;
        }
    }

    /// Epoch: `spinOnConflicts`, one look for each deferred transaction in turn.
    fn look_for_conflicts<M: Memory>(&mut self, view: &View<M>) {
        for pending in &mut self.pending {
            if pending.stage == Stage::Executed {
                if !Self::are_settled(view, &mut self.seen, &pending.lists.previous) {
                    break;
                }
                pending.stage = Stage::Ready;
            }
        }
    }

    /// Epoch: commits what was ready before the last barrier, in order.
    fn commit_after_barrier<M: Memory>(&mut self, view: &View<M>) {
        while let Some(front) = self.pending.front()
            && front.stage == Stage::Ready
        {
            Self::commit_transaction(view, front);
            let committed = self.pop();
            self.worker.unacknowledged.extend(committed);
        }
    }

    /// Commits the deferred transactions until at most `most` are left.
    fn drain_to<M: Memory>(&mut self, view: &View<M>, most: usize) {
        while self.pending.len() > most {
            match P::MODEL {
                Persistency::EagerSync => {
                    // What this thread still owes to others comes before any wait.
                    let committed = self.pending[0].stage == Stage::Committed;
                    let step =
                        if committed { Step::DeferredCommitBarrier } else { Step::DeferredMutateBarrier };
                    self.write_back_pending(view);
                    view.memory.fence(step);
                    self.after_sync_barrier(view);
                    if let Some(front) = self.pending.front()
                        && front.stage != Stage::Committed
                    {
                        Self::settle_all(view, &mut self.seen, &front.lists.previous);
                        self.commit_ready(view);
                    }
                }
                _ => {
                    Self::settle_all(view, &mut self.seen, &self.pending[0].lists.previous);
                    self.pending[0].stage = Stage::Ready;
                    P::MODEL.barrier(&view.memory, Step::DeferredMutateBarrier);
                    self.commit_after_barrier(view);
                }
            }
        }
    }

    /// Strict and strand: commits the transaction that has just released its locks.
    fn commit_now<M: Memory>(&mut self, view: &View<M>) {
        if let Some(pending) = self.pending.front() {
            Self::settle_all(view, &mut self.seen, &pending.lists.previous);
            P::MODEL.barrier(&view.memory, Step::DeferredMutateBarrier);
            Self::commit_transaction(view, pending);
            // The entry's next user comes after the mark.
            P::MODEL.barrier(&view.memory, Step::DeferredCommitBarrier);
            let committed = self.pop();
            self.worker.unacknowledged.extend(committed);
        }
    }

    /// `recordPrevConflicts`: the newest predecessor in each log entry; the mark of an older one persists before.
    fn record_previous_conflicts<M: Memory>(&mut self, view: &View<M>, locks: &LockSet) {
        let previous = &mut self.lists.previous;
        previous.clear();
        locks.previous(view, |holder| {
            let same = |other: &&mut Holder| {
                other.log == holder.log && other.sequence % Self::ENTRIES == holder.sequence % Self::ENTRIES
            };
            match previous.iter_mut().find(same) {
                Some(other) => other.sequence = other.sequence.max(holder.sequence),
                None => previous.push(holder),
            }
        });
    }
}

impl<P: PersistencyModel> Scheme for DeferredCommit<P> {
    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self {
        Self {
            worker: UndoWorker::lease(P::MODEL, view, index, Self::ENTRIES),
            pending: VecDeque::with_capacity(Self::ENTRIES as usize),
            lists: Lists::default(),
            spare: Vec::new(),
            seen: Seen::new(view.layout.geometry.logs, Self::ENTRIES),
            acknowledged: 0,
            model: PhantomData,
        }
    }

    fn release<M: Memory>(&mut self, view: &View<M>) {
        self.settle(view, &mut Statistics::default());
        self.worker.log.release(view);
    }

    #[inline]
    fn begin<M: Memory>(&mut self, view: &View<M>) {
        self.worker.begin(view);
        // The running transaction needs an entry.
        self.drain_to(view, Self::ENTRIES as usize - 1);
    }

    #[inline(always)]
    fn write<M: Memory>(
        &mut self,
        view: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        Ok(self.worker.area.write(&view.memory, (at, value), previous))
    }

    #[inline(always)]
    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64 {
        self.worker.area.value(&view.memory, place)
    }

    fn abort<M: Memory>(&mut self, view: &View<M>) {
        self.worker.unlock_entry(view);
    }

    fn locks_taken<M: Memory>(&mut self, view: &View<M>) {
        self.worker.lock_entry(view);
        if P::MODEL == Persistency::Epoch {
            self.look_for_conflicts(view);
        }
        P::MODEL.atomicity_barrier(&view.memory, Step::DeferredLockBarrier);
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
        let Prepared { entry, transaction, timestamp } =
            self.worker.prepare(view, log, locks, home, Step::DeferredLockBarrier, statistics)?;
        match model {
            Persistency::EagerSync => self.write_back_pending(view),
            // Not before: where PB1 is repeated for locks that were taken late, the log entry would come behind the marks.
            Persistency::Epoch => self.commit_after_barrier(view),
            Persistency::Strict | Persistency::Strand => {}
        }
        model.barrier(memory, Step::DeferredPrepareBarrier);
        if model == Persistency::EagerSync {
            self.after_sync_barrier(view);
        }
        UndoWorker::mutate(view, transaction, home);
        // Whoever sees the holder in a lock sees this too.
        for (i, holder) in self.lists.previous.iter().enumerate() {
            memory.store(entry.previous(i as u64), holder.encode());
        }
        memory.store(entry.previous_count(), self.lists.previous.len() as u64);
        memory.store(entry.transaction(), transaction);
        locks.stamp(view, timestamp, Some(self.worker.log.running()));
        locks.release(view);
        if model == Persistency::EagerSync {
            writes.for_each_line(|line| self.lists.data.push(line));
        }
        let lists = std::mem::replace(&mut self.lists, self.spare.pop().unwrap_or_default());
        self.pending.push_back(Pending { entry, transaction, lists, stage: Stage::Executed });
        if !Self::DEFERS {
            self.commit_now(view);
        } else if model == Persistency::Epoch {
            self.look_for_conflicts(view);
        }
        if Self::DEFERS && memory.omitted(Step::DeferredMutateBarrier) {
            // The mutant does not wait for the next barrier.
            for pending in &mut self.pending {
                if model == Persistency::EagerSync && pending.stage == Stage::Executed {
                    pending.stage = Stage::Ready;
                }
            }
            match model {
                Persistency::EagerSync => self.commit_ready(view),
                _ => self.commit_after_barrier(view),
            }
        }
        self.worker.end(view);
        statistics.acknowledged += std::mem::take(&mut self.acknowledged);
        Ok(())
    }

    fn end_locked<M: Memory>(&mut self, view: &View<M>, locks: &mut LockSet) {
        self.record_previous_conflicts(view, locks);
        if P::MODEL == Persistency::Epoch {
            self.commit_after_barrier(view);
        }
        locks.release(view);
        self.worker.unlock_entry(view);
        let previous = std::mem::take(&mut self.lists.previous);
        if !Self::are_settled(view, &mut self.seen, &previous) {
            // Its own transactions come first, and may be what it waits for.
            self.drain_to(view, 0);
            Self::settle_all(view, &mut self.seen, &previous);
        }
        if P::MODEL != Persistency::EagerSync && !previous.is_empty() {
            view.memory.fence(Step::DeferredCommitBarrier);
        }
        self.lists.previous = previous;
        P::MODEL.new_strand(&view.memory, Step::EndStrand);
    }

    fn settle<M: Memory>(&mut self, view: &View<M>, statistics: &mut Statistics) {
        self.drain_to(view, 0);
        statistics.acknowledged += std::mem::take(&mut self.acknowledged);
        statistics.acknowledged += self.worker.acknowledge_all(view, Step::DeferredCommitBarrier);
    }

    fn recover<M: Memory>(
        view: &View<M>,
        begins: &mut dyn FnMut(RecoveryStep),
    ) -> Result<RecoveryReport, Error> {
        recover_undo(view, begins)
    }

    /// Everything that is committed is home, and workers commit all before they go.
    fn drain<M: Memory>(_: &View<M>) {}
}
