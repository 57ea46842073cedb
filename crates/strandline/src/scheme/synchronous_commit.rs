//! SCT, synchronous commit transactions (Kolli, Pelley, Saidi, Chen, Wenisch, *High-Performance Transactions for
//! Persistent Memories*, ASPLOS 2016, section 5), under strict, epoch and strand persistency and eager sync.
//!
//! # The protocol
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
//! A transaction's body runs between `lockDS` and `prepareLogEntry` and keeps its writes in a volatile area, so
//! that what it will mutate is known when the entry is written; the paper's programs know it beforehand. The order
//! of persists is the paper's. Aborting forgets the area.
//!
//! # Crashes
//!
//! Before the entry is complete nothing was stored in place, and its checksum shows that it is not. From then on
//! until the mark the transaction is undone, whatever of its data persisted; when the mark persists, so has all
//! data. Conflicting transactions are never both undone, since the first one's mark persists before its locks
//! are released (eager sync), or before the other's entry. Recovery: [`crate::log::recover_undo`].
//!
//! Under eager sync a transaction is acknowledged after SB3. The other models' barriers do not wait: that a commit
//! is durable is only known after [`Runner::drain`](crate::Runner::drain).

use std::marker::PhantomData;

use super::persistency::{EagerSync, Epoch, Persistency, PersistencyModel, Strand, Strict};
use super::{Full, RecoveryReport, RecoveryStep, Scheme, SchemeKind};
use crate::error::Error;
use crate::log::{UndoLog, recover_undo};
use crate::memory::{Event, Memory, PersistentAddress, Step};
use crate::pool::layout::View;
use crate::transaction::{Concurrency, LockSet, Statistics, WriteSet};

/// SCT's state for one worker, under the persistency model `P`; its log has `ENTRIES` entries.
pub struct SynchronousCommit<P, const ENTRIES: u64 = 4> {
    values: Vec<u64>,
    log: UndoLog,
    /// Whether the log entry's lock is held (strand).
    entry_locked: bool,
    /// Commits that are not known to be durable.
    unacknowledged: Vec<u64>,
    model: PhantomData<P>,
}

impl<P: PersistencyModel, const ENTRIES: u64> SynchronousCommit<P, ENTRIES> {
    fn unlock_entry<M: Memory>(&mut self, view: &View<M>) {
        if std::mem::take(&mut self.entry_locked) {
            view.memory.unlock(self.log.entry(view).lock());
        }
    }
}

/// The number in the table of schemes.
const fn kind(model: Persistency) -> SchemeKind {
    match model {
        Persistency::Strict => SchemeKind::SynchronousStrict,
        Persistency::Epoch => SchemeKind::SynchronousEpoch,
        Persistency::EagerSync => SchemeKind::SynchronousEagerSync,
        Persistency::Strand => SchemeKind::SynchronousStrand,
    }
}

/// SCT under strict persistency.
pub type SynchronousStrict = SynchronousCommit<Strict>;
/// SCT under epoch persistency.
pub type SynchronousEpoch = SynchronousCommit<Epoch>;
/// SCT under eager sync.
pub type SynchronousEagerSync = SynchronousCommit<EagerSync>;
/// SCT under strand persistency.
pub type SynchronousStrand = SynchronousCommit<Strand>;

impl<P: PersistencyModel, const ENTRIES: u64> Scheme for SynchronousCommit<P, ENTRIES> {
    const KIND: SchemeKind = kind(P::MODEL);

    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self {
        Self {
            values: Vec::with_capacity(256),
            log: UndoLog::lease(view, index, ENTRIES),
            entry_locked: false,
            unacknowledged: Vec::new(),
            model: PhantomData,
        }
    }

    fn release<M: Memory>(&mut self, view: &View<M>) {
        self.settle(view, &mut Statistics::default());
        self.log.release(view);
    }

    #[inline(always)]
    fn begin<M: Memory>(&mut self, view: &View<M>) {
        self.values.clear();
        P::MODEL.new_strand(&view.memory, Step::BeginStrand);
    }

    #[inline(always)]
    fn write<M: Memory>(
        &mut self,
        _: &View<M>,
        _: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        match previous {
            Some(place) => {
                self.values[place as usize] = value;
                Ok(place)
            }
            None => {
                self.values.push(value);
                Ok(self.values.len() as u32 - 1)
            }
        }
    }

    #[inline(always)]
    fn value<M: Memory>(&self, _: &View<M>, place: u32) -> u64 {
        self.values[place as usize]
    }

    fn running_records(&self) -> (PersistentAddress, u64) {
        (PersistentAddress::NULL, 0)
    }

    /// [`Scheme::commit_locked`] does it all.
    fn commit<M: Memory>(&mut self, _: &View<M>, _: u64) -> u64 {
        0
    }

    fn stored_home<M: Memory>(&mut self, _: &View<M>, _: &WriteSet, _: Concurrency) {}

    fn abort<M: Memory>(&mut self, view: &View<M>) {
        self.unlock_entry(view);
    }

    fn make_room<M: Memory>(&mut self, _: &View<M>, _: Concurrency, _: &mut Statistics) -> Result<(), Error> {
        Ok(())
    }

    fn locks_taken<M: Memory>(&mut self, view: &View<M>) {
        if P::MODEL == Persistency::Strand {
            view.memory.lock(self.log.entry(view).lock());
            self.entry_locked = true;
        }
        P::MODEL.atomicity_barrier(&view.memory, Step::SynchronousLockBarrier);
    }

    fn commit_locked<M: Memory>(
        &mut self,
        view: &View<M>,
        log: u64,
        locks: &mut LockSet,
        home: &[(PersistentAddress, u64)],
        statistics: &mut Statistics,
    ) -> Result<(), Error> {
        let (memory, model) = (&view.memory, P::MODEL);
        if home.len() as u64 > self.log.capacity(view) {
            return Err(Error::TransactionTooLarge { records: self.log.capacity(view) });
        }
        if locks.take_late() {
            model.atomicity_barrier(memory, Step::SynchronousLockBarrier);
        }
        let timestamp = locks.next_timestamp(view, self.log.timestamp());
        let transaction = timestamp * view.layout.geometry.logs + log;
        let (entry, bytes) = self.log.prepare_log_entry(view, timestamp, home);
        model.write_back(memory, entry.at, bytes, Step::PrepareWriteBack);
        model.barrier(memory, Step::SynchronousPrepareBarrier);
        for &(at, value) in home {
            memory.store(at, value);
        }
        memory.event(Event::Executed(transaction));
        model.write_back_words(memory, home.iter().map(|&(at, _)| at), Step::MutateWriteBack);
        model.barrier(memory, Step::SynchronousMutateBarrier);
        memory.event(Event::Commit(transaction));
        entry.commit(memory);
        model.write_back(memory, entry.at, 8, Step::CommitMarkWriteBack);
        model.barrier(memory, Step::SynchronousCommitBarrier);
        if model == Persistency::EagerSync {
            memory.event(Event::Acknowledged(transaction));
            statistics.acknowledged += 1;
        } else {
            self.unacknowledged.push(transaction);
        }
        locks.stamp(view, timestamp, None);
        locks.release(view);
        self.unlock_entry(view);
        self.log.advance();
        model.new_strand(memory, Step::EndStrand);
        statistics.log_bytes += bytes;
        Ok(())
    }

    fn end_locked<M: Memory>(&mut self, view: &View<M>, locks: &mut LockSet) {
        locks.release(view);
        self.unlock_entry(view);
        P::MODEL.new_strand(&view.memory, Step::EndStrand);
    }

    fn settle<M: Memory>(&mut self, view: &View<M>, statistics: &mut Statistics) {
        if !self.unacknowledged.is_empty() {
            view.memory.fence(Step::SynchronousCommitBarrier);
            statistics.acknowledged += self.unacknowledged.len() as u64;
            for transaction in self.unacknowledged.drain(..) {
                view.memory.event(Event::Acknowledged(transaction));
            }
        }
    }

    fn recover<M: Memory>(
        view: &View<M>,
        begins: &mut dyn FnMut(RecoveryStep),
    ) -> Result<RecoveryReport, Error> {
        recover_undo(view, begins)
    }

    /// Everything that is committed is home.
    fn drain<M: Memory>(_: &View<M>) {}
}
