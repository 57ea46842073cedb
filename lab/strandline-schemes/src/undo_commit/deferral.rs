//! How DCT defers commits.
//!
//! *Timestamps.* A transaction increments the timestamp of each of its locks, and logs them all (6.1.1): recovery orders conflicting transactions by
//! those of the locks that they share.
//!
//! *Predecessors* are the last holders of the locks, by log and number; the number determines entry and generation. A predecessor is settled when its
//! entry has a later user, which its volatile generation shows, or when the entry is marked; under eager sync, when its `commitPersisted` word has
//! reached the generation. Under strong persist atomicity, the load that finds this orders the thread after the commit. A user stores its generation
//! after PB1. PB1 comes after the commit of the entry's old transaction on the same thread, and on another strand after the entry's lock. If the
//! generation were stored before PB1, it would be visible without being ordered after that commit.
//!
//! *The generation is checked first.* A lock that was unused for long names a transaction whose entry others have used since. The persistent entry
//! would order this thread after the persists of its newest user, which has nothing to do with the predecessor; the generation orders it only after
//! that user's PB1.
//!
//! *Results of checks are remembered* for each log entry, except under strand persistency, whose new strands forget what a thread has seen. Checking
//! the entry of a long unused lock again would order this thread after the entry's newest transaction, which has nothing to do with it.
//!
//! *A thread that waits helps.* While there are unused log entries, a transaction that may not commit yet is deferred further. A thread that has to
//! wait (because no entry is left, because it only reads, in [`Runner::drain`](strandline_core::Runner::drain), or at the end of a worker) first does
//! what its own transactions still need, and then polls for a while. Then it completes the predecessor itself, and before that the predecessor's
//! predecessors. All of them have released their locks, so everything necessary is in the log and in the volatile words beside it. The helper loads
//! the data, so that later persist barriers are ordered after them; under eager sync it writes them back and fences.

use strandline_core::layout::View;
use strandline_core::memory::{Event, Memory, PersistentAddress, Step};
use strandline_core::transaction::{Holder, LockSet, WriteSet};

use super::UndoCommit;
use crate::persistency::{Barriers, Persistency, PersistencyModel};
use crate::undo::{ENTRIES, UndoEntry};

/// How often to check an unsettled predecessor before helping.
const PATIENCE: u32 = 64;

/// The progress of a transaction that has released its locks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its data may not have persisted, or its predecessors were not settled at the last check.
    Executed,
    /// It may commit: its predecessors are settled (epoch), or its data are durable (eager sync).
    Ready,
    /// It is marked, but the mark is not known to be durable.
    Committed,
}

pub(super) struct Pending {
    entry: UndoEntry,
    transaction: u64,
    lists: Lists,
    stage: Stage,
}

/// Data of a transaction that has released its locks.
#[derive(Default)]
pub(super) struct Lists {
    /// Its predecessors.
    pub previous: Vec<Holder>,
    /// The words that it stored, if they have to be written back.
    data: Vec<PersistentAddress>,
}

/// For each log entry the newest generation that this worker knows to be settled, so that no thread has to wait for it any more.
pub(super) struct Seen {
    generations: Vec<u64>,
    /// The number of entries that each log has.
    entries: u64,
}

impl Seen {
    pub fn new(logs: u64, entries: u64) -> Self {
        Self { generations: vec![0; (logs * entries) as usize], entries }
    }

    /// Returns the generation of the entry that `holder` used.
    fn of(&mut self, holder: Holder) -> &mut u64 {
        &mut self.generations[(holder.log * self.entries + holder.sequence % self.entries) as usize]
    }
}

impl<P: PersistencyModel, const DEFERRED: bool> UndoCommit<P, DEFERRED> {
    /// True if a commit waits for a barrier of a later transaction.
    const AWAITS_BARRIER: bool = matches!(P::MODEL, Persistency::Epoch | Persistency::EagerSync);

    /// Returns a generation up to which all of the entry's transactions are settled: the newest such one, unless it is at or above `entry`'s own.
    fn settled_generation<M: Memory>(view: &View<M>, entry: UndoEntry) -> u64 {
        let user = view.memory.load(entry.user());
        if user > entry.generation {
            return user - 1;
        }
        match P::MODEL {
            Persistency::EagerSync => view.memory.load(entry.persisted()),
            _ => entry.committed_generation(&view.memory),
        }
    }

    /// Returns whether no thread has to wait for `entry`'s transaction any more.
    fn is_settled<M: Memory>(view: &View<M>, entry: UndoEntry) -> bool {
        Self::settled_generation(view, entry) >= entry.generation
    }

    /// Checks once whether `holder`'s transaction is settled (`spinOnConflicts`).
    fn look<M: Memory>(view: &View<M>, seen: &mut Seen, holder: Holder) -> bool {
        let (entry, seen) = (UndoEntry::of(view, holder, ENTRIES), seen.of(holder));
        if P::MODEL == Persistency::Strand || *seen < entry.generation {
            *seen = Self::settled_generation(view, entry);
        }
        *seen >= entry.generation
    }

    /// Checks once whether all predecessors are settled.
    pub(super) fn are_settled<M: Memory>(view: &View<M>, seen: &mut Seen, previous: &[Holder]) -> bool {
        view.memory.omitted(Step::DeferredSpinOnConflicts)
            || previous.iter().all(|&holder| Self::look(view, seen, holder))
    }

    /// Waits until `previous` are settled, and completes those that take long.
    pub(super) fn settle_all<M: Memory>(view: &View<M>, seen: &mut Seen, previous: &[Holder]) {
        if view.memory.omitted(Step::DeferredSpinOnConflicts) {
            return;
        }
        for &holder in previous {
            let mut patience = PATIENCE;
            while !Self::look(view, seen, holder) {
                if patience == 0 {
                    let entry = UndoEntry::of(view, holder, ENTRIES);
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
            // The data that was read may belong to the entry's next transaction.
            return;
        }
        for holder in previous {
            let entry = UndoEntry::of(view, holder, ENTRIES);
            if !Self::is_settled(view, entry) {
                Self::complete(view, entry);
            }
        }
        // Loading the words orders later persist barriers after the data. Models that need write-backs request them here.
        for &at in &data {
            memory.load(at);
        }
        P::MODEL.write_back_words(memory, data.iter().copied(), Step::MutateWriteBack);
        P::MODEL.barrier(memory, Step::DeferredMutateBarrier);
        memory.event(Event::Commit(transaction));
        entry.commit_for_owner(memory);
        P::MODEL.write_back(memory, entry.at, 8, Step::CommitMarkWriteBack);
        P::MODEL.barrier(memory, Step::DeferredCommitBarrier);
        if P::MODEL == Persistency::EagerSync {
            // The word never decreases, even if the owner has continued with the next generation.
            let _ = memory.compare_exchange(entry.persisted(), entry.generation - 1, entry.generation);
        }
    }

    /// Eager sync: requests write-backs of everything that the next sync barrier should cover. This happens only now, since no atomic instruction may
    /// come between it and the barrier: on x86 it would wait for the write-backs as well.
    pub(super) fn write_back_pending<M: Memory>(&self, view: &View<M>) {
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

    /// Removes the oldest pending transaction. Returns its TxID.
    fn pop(&mut self) -> Option<u64> {
        let Pending { transaction, mut lists, .. } = self.pending.pop_front()?;
        lists.previous.clear();
        lists.data.clear();
        self.spare.push(lists);
        Some(transaction)
    }

    /// Eager sync: advances transactions after a sync barrier that covers everything written back so far.
    pub(super) fn after_sync_barrier<M: Memory>(&mut self, view: &View<M>) {
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

    /// Eager sync: commits transactions with durable data and settled predecessors, in order.
    fn commit_ready<M: Memory>(&mut self, view: &View<M>) {
        let at_once = view.memory.omitted(Step::DeferredCommitBarrier);
        let mut at = 0;
        while let Some(pending) = self.pending.get_mut(at) {
            match pending.stage {
                Stage::Committed => {}
                Stage::Ready if Self::are_settled(view, &mut self.seen, &pending.lists.previous) => {
                    Self::commit_transaction(view, pending.entry, pending.transaction);
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

    /// Epoch: checks each deferred transaction once (`spinOnConflicts`), in turn.
    pub(super) fn look_for_conflicts<M: Memory>(&mut self, view: &View<M>) {
        for pending in &mut self.pending {
            if pending.stage == Stage::Executed {
                if !Self::are_settled(view, &mut self.seen, &pending.lists.previous) {
                    break;
                }
                pending.stage = Stage::Ready;
            }
        }
    }

    /// Epoch: commits transactions that were ready before the last barrier, in order.
    pub(super) fn commit_after_barrier<M: Memory>(&mut self, view: &View<M>) {
        while let Some(front) = self.pending.front()
            && front.stage == Stage::Ready
        {
            Self::commit_transaction(view, front.entry, front.transaction);
            let committed = self.pop();
            self.unacknowledged.extend(committed);
        }
    }

    /// Commits the deferred transactions until at most `most` are left.
    pub(super) fn drain_to<M: Memory>(&mut self, view: &View<M>, most: usize) {
        while self.pending.len() > most {
            match P::MODEL {
                Persistency::EagerSync => {
                    // The thread finishes what other threads wait for before it waits itself.
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
            Self::commit_transaction(view, pending.entry, pending.transaction);
            // The entry's next user must come after the mark.
            P::MODEL.barrier(&view.memory, Step::DeferredCommitBarrier);
            let committed = self.pop();
            self.unacknowledged.extend(committed);
        }
    }

    /// Finds the newest predecessor in each log entry (`recordPrevConflicts`); the mark of an older one persists before. A synchronous commit has
    /// none, since its predecessors committed before they released the locks.
    pub(super) fn record_previous_conflicts<M: Memory>(&mut self, view: &View<M>, locks: &LockSet) {
        let previous = &mut self.lists.previous;
        previous.clear();
        if !DEFERRED {
            return;
        }
        locks.previous(view, |holder| {
            let same = |other: &&mut Holder| {
                other.log == holder.log && other.sequence % ENTRIES == holder.sequence % ENTRIES
            };
            match previous.iter_mut().find(same) {
                Some(other) => other.sequence = other.sequence.max(holder.sequence),
                None => previous.push(holder),
            }
        });
    }

    /// Increments and records the locks' timestamps (`recordPrevConflicts`).
    pub(super) fn record_timestamps<M: Memory>(&mut self, view: &View<M>, locks: &LockSet) {
        let stamps = &mut self.stamps;
        stamps.clear();
        if DEFERRED {
            locks.timestamps(view, |lock, timestamp| stamps.push((lock, timestamp + 1)));
        }
    }

    /// Stores what a helper needs in the entry's volatile words. Every thread that sees the holder in a lock also sees these words.
    pub(super) fn publish<M: Memory>(&self, view: &View<M>, entry: UndoEntry, transaction: u64) {
        let memory = &view.memory;
        for (i, holder) in self.lists.previous.iter().enumerate() {
            memory.store(entry.previous(i as u64), holder.encode());
        }
        memory.store(entry.previous_count(), self.lists.previous.len() as u64);
        memory.store(entry.transaction(), transaction);
    }

    /// Commits the running transaction, which has released its locks: later, or immediately under strict and strand persistency.
    pub(super) fn defer<M: Memory>(
        &mut self,
        view: &View<M>,
        entry: UndoEntry,
        transaction: u64,
        writes: &WriteSet,
    ) {
        let model = P::MODEL;
        if model == Persistency::EagerSync {
            writes.for_each_line(|line| self.lists.data.push(line));
        }
        let lists = std::mem::replace(&mut self.lists, self.spare.pop().unwrap_or_default());
        self.pending.push_back(Pending { entry, transaction, lists, stage: Stage::Executed });
        if !Self::AWAITS_BARRIER {
            self.commit_now(view);
        } else if model == Persistency::Epoch {
            self.look_for_conflicts(view);
        }
        if Self::AWAITS_BARRIER && view.memory.omitted(Step::DeferredMutateBarrier) {
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
    }
}
