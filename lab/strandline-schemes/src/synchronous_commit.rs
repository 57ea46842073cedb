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
//! are released (eager sync), or before the other's entry. Recovery: [`crate::recover_undo`].
//!
//! Under eager sync a transaction is acknowledged after SB3. The other models' barriers do not wait: that a commit
//! is durable is only known after [`Runner::drain`](strandline_core::Runner::drain).

use crate::undo::{ENTRIES, PAPER, UNDO_STEPS, leave_entry};
use std::marker::PhantomData;
use strandline_core::Concurrency;
use strandline_core::scheme::Barrier;
use strandline_core::scheme::{Durability, Mode, Of, SchemeDescriptor};

use crate::persistency::{Barriers, EagerSync, Epoch, Persistency, PersistencyModel, Strand, Strict};
use crate::undo::recover_undo;
use crate::undo_worker::{Prepared, UndoWorker};
use strandline_core::error::Error;
use strandline_core::layout::View;
use strandline_core::memory::{Event, Memory, PersistentAddress, Step};
use strandline_core::scheme::{Full, RecoveryReport, RecoveryStep, Scheme};
use strandline_core::transaction::{LockSet, Statistics, WriteSet};

/// SCT's state for one worker, under the persistency model `P`.
struct SynchronousCommit<P> {
    worker: UndoWorker,
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
        &[Step::SynchronousPrepareBarrier, Step::SynchronousMutateBarrier, Step::SynchronousCommitBarrier],
        UNDO_STEPS,
    ],
    barriers: &[],
    leftover: leave_entry,
    commit_cost: None,
    scheme: &Of::<SynchronousCommit<Strict>>::NEW,
};

/// SCT under strict persistency.
pub static SCT_STRICT: SchemeDescriptor = SchemeDescriptor {
    code: 16,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "sct-strict", redundant: &[] }],
    description: "undo log, commit before the locks are released; strict persistency (no barriers; not on real memory)",
    persistency: Some(Persistency::Strict),
    scheme: &Of::<SynchronousCommit<Strict>>::NEW,
    ..COMMON
};

/// SCT under epoch persistency.
pub static SCT_EPOCH: SchemeDescriptor = SchemeDescriptor {
    code: 17,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "sct-epoch", redundant: &[] }],
    description: "the same with four persist barriers; epoch persistency (not on real memory)",
    persistency: Some(Persistency::Epoch),
    barriers: &[
        Barrier { step: Step::SynchronousLockBarrier, name: "PB1", within: true },
        Barrier { step: Step::SynchronousPrepareBarrier, name: "PB2", within: true },
        Barrier { step: Step::SynchronousMutateBarrier, name: "PB3", within: true },
        Barrier { step: Step::SynchronousCommitBarrier, name: "PB4", within: true },
    ],
    scheme: &Of::<SynchronousCommit<Epoch>>::NEW,
    ..COMMON
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
/// // Three sync barriers, and the commit is durable.
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
    is_native: true,
    persistency: Some(Persistency::EagerSync),
    barriers: &[
        Barrier { step: Step::SynchronousPrepareBarrier, name: "SB1", within: true },
        Barrier { step: Step::SynchronousMutateBarrier, name: "SB2", within: true },
        Barrier { step: Step::SynchronousCommitBarrier, name: "SB3", within: true },
    ],
    scheme: &Of::<SynchronousCommit<EagerSync>>::NEW,
    ..COMMON
};

/// SCT under strand persistency.
pub static SCT_STRAND: SchemeDescriptor = SchemeDescriptor {
    code: 19,
    modes: &[Mode { concurrency: Concurrency::Locks, name: "sct-strand", redundant: &[] }],
    description: "the same with each transaction on a strand of its own; strand persistency (not on real memory)",
    persistency: Some(Persistency::Strand),
    barriers: &[
        Barrier { step: Step::SynchronousLockBarrier, name: "PB1", within: true },
        Barrier { step: Step::SynchronousPrepareBarrier, name: "PB2", within: true },
        Barrier { step: Step::SynchronousMutateBarrier, name: "PB3", within: true },
        Barrier { step: Step::SynchronousCommitBarrier, name: "PB4", within: true },
    ],
    scheme: &Of::<SynchronousCommit<Strand>>::NEW,
    ..COMMON
};

const UNDONE_APART: &str =
    "a commit is durable before its locks are released, so entries to be undone have no word in common";
const UNDONE_AGAIN: &str = "entries to be undone have no word in common, so that whichever of them a power failure in zeroing leaves may be undone \
     again; and what is zeroed is not undone in the next life, whatever its timestamp";

impl<P: PersistencyModel> Scheme for SynchronousCommit<P> {
    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self {
        Self { worker: UndoWorker::lease(P::MODEL, view, index, ENTRIES), model: PhantomData }
    }

    fn release<M: Memory>(&mut self, view: &View<M>) {
        self.settle(view, &mut Statistics::default());
        self.worker.log.release(view);
    }

    #[inline(always)]
    fn begin<M: Memory>(&mut self, view: &View<M>) {
        self.worker.begin(view);
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
        P::MODEL.atomicity_barrier(&view.memory, Step::SynchronousLockBarrier);
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
        let Prepared { entry, transaction, timestamp } =
            self.worker.prepare(view, log, locks, home, Step::SynchronousLockBarrier, statistics)?;
        model.barrier(memory, Step::SynchronousPrepareBarrier);
        UndoWorker::mutate(view, transaction, home);
        writes.for_each_line(|line| model.write_back(memory, line, 8, Step::MutateWriteBack));
        model.barrier(memory, Step::SynchronousMutateBarrier);
        memory.event(Event::Commit(transaction));
        entry.commit(memory);
        model.write_back(memory, entry.at, 8, Step::CommitMarkWriteBack);
        model.barrier(memory, Step::SynchronousCommitBarrier);
        if model == Persistency::EagerSync {
            memory.event(Event::Acknowledged(transaction));
            statistics.acknowledged += 1;
        } else {
            self.worker.unacknowledged.push(transaction);
        }
        locks.stamp(view, timestamp, None);
        locks.release(view);
        self.worker.end(view);
        Ok(())
    }

    fn end_locked<M: Memory>(&mut self, view: &View<M>, locks: &mut LockSet) {
        locks.release(view);
        self.worker.unlock_entry(view);
        P::MODEL.new_strand(&view.memory, Step::EndStrand);
    }

    fn settle<M: Memory>(&mut self, view: &View<M>, statistics: &mut Statistics) {
        statistics.acknowledged += self.worker.acknowledge_all(view, Step::SynchronousCommitBarrier);
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
