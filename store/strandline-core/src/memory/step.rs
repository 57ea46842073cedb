//! The names of persistence steps, and of the boundaries that worlds may observe.

use super::{PersistentAddress, VolatileAddress};

/// A step on which durability rests. A world can leave one out ([`Memory::omitted`](super::Memory::omitted)) to make a mutant. The crash
/// checker must find a failure of each mutant.
///
/// ```
/// # use strandline_core::example::*;
/// use strandline_core::memory::Step;
///
/// // A mutant whose commits do not fence.
/// let mutant = Rc::new(Recorder::new(vec![0; 512], 4096, 0, 1, Some(Step::CommitFence)));
/// let memory = Hosted::new(mutant, 0);
/// memory.fence(Step::CommitFence);
/// memory.fence(Step::HomeFence);
/// assert_eq!(memory.counters().fences, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Writing the pool's header, state, tables and zeroed logs when it is created.
    CreatePool,
    /// Marking a pool as in use, or as cleanly closed.
    MarkState,
    /// Zeroing a new log before it enters the directory.
    NewLogZero,
    /// Entering a new log in the directory.
    NewLogDirectory,
    /// Abort records over an aborted transaction (a store).
    AbortRecord,
    /// Writing back a transaction's log records at commit.
    CommitWriteBack,
    /// Writing back the abort records since the log's previous commit.
    AbortRecordWriteBack,
    /// The fence of a commit: after it the transaction is acknowledged.
    CommitFence,
    /// The fence between log records that went past the cache and the release of an aborted transaction's locks.
    AbortFence,
    /// Writing back the log records that the commit record must not overtake.
    LogWriteBack,
    /// The fence between log records and commit record.
    LogFence,
    /// Writing back a log's tail pointer, which is stored when the commit record is durable.
    LogTailWriteBack,
    /// The fence after the tail pointer, before the transaction is acknowledged.
    LogTailFence,
    /// Writing back a transaction's home lines before its log is truncated.
    HomeWriteBack,
    /// The fence between home lines and truncation.
    HomeFence,
    /// Writing back a log's truncation mark.
    TruncationWriteBack,
    /// The fence after the truncation mark, before locks are released.
    TruncationFence,
    /// A helper that truncates waits for commits that have a lower TxID (a wait).
    HelperWait,
    /// A helper truncates in the order of TxIDs (an order).
    HelperOrder,
    /// Bulk persistence waits for commits at or below the new watermark (a wait).
    BulkWait,
    /// Bulk persistence writes back home lines.
    BulkDataWriteBack,
    /// Bulk persistence writes back log lines, as `wbinvd` would.
    BulkLogWriteBack,
    /// The fence between home lines and watermark.
    BulkDataFence,
    /// Writing back the watermark.
    WatermarkWriteBack,
    /// The fence after the watermark, before it is published.
    WatermarkFence,
    /// Storing inert records over the rest of a log that restarts (stores).
    RestartInert,
    /// Writing back every line of the run that is not yet written back.
    RestartWriteBack,
    /// The fence before the phase flips.
    RestartFence,
    /// Flipping the torn bit's phase (a change of volatile state).
    RestartPhase,
    /// Recovery ignores transactions at or below the watermark (a comparison).
    RecoveryWatermarkFilter,
    /// Recovery sorts committed transactions by TxID (an order).
    RecoverySort,
    /// Recovery writes back replayed home lines.
    RecoveryDataWriteBack,
    /// Recovery's fence after replay.
    RecoveryDataFence,
    /// Recovery raises the watermark (a store).
    RecoveryWatermark,
    /// Recovery writes back the watermark.
    RecoveryWatermarkWriteBack,
    /// Recovery's fence after the watermark.
    RecoveryWatermarkFence,
    /// Recovery zeroes the logs (stores).
    RecoveryZero,
    /// Recovery writes back the zeroed logs.
    RecoveryZeroWriteBack,
    /// Recovery's fence after zeroing.
    RecoveryZeroFence,
    /// Recovery from an undo log marks each log's transaction as ended (a store).
    RecoveryTruncation,
    /// Recovery writes back that mark.
    RecoveryTruncationWriteBack,
    /// The fence after that mark.
    RecoveryTruncationFence,
    /// Not left out but weakened: a commit writes back the first line of its records only.
    CommitWriteBackPartial,
    /// Moved: the fence of a commit comes before the write-back.
    CommitFenceEarly,
    /// Weakened: an aborted transaction gets the abort record at its end only.
    AbortRecordPartial,
    /// Weakened: bulk persistence writes back the first home line only.
    BulkDataWriteBackPartial,
    /// Moved: the fence between home lines and watermark comes after the watermark's store.
    BulkDataFenceLate,
    /// Weakened: the watermark is stored one too high.
    WatermarkHigh,
    /// Moved: the fence after the watermark comes after its publication.
    WatermarkFenceLate,
    /// Weakened: a restart writes back the first line only of each range not yet written back.
    RestartWriteBackPartial,
    /// Moved: the phase flips before the inert records are stored.
    RestartPhaseEarly,
    /// Weakened: recovery looks half as far ahead for an abort record.
    RecoveryLookAheadShort,
    /// Moved: recovery's fence after replay comes after the watermark's store.
    RecoveryDataFenceLate,
    /// Weakened: recovery raises the watermark to the last complete transaction only, not above incomplete ones.
    RecoveryWatermarkLow,
    /// Weakened: recovery from an undo log marks those transactions only of which it has found a record.
    RecoveryTruncationPartial,
    /// Moved: recovery zeroes the logs before the watermark is durable.
    RecoveryZeroEarly,
    /// `Sync`: a commit reserves room in the ring (a wait).
    SyncRoom,
    /// `Sync`: a thread that has kept checkpoints from running wakes the commits that wait for room (a wake).
    SyncRoomAnnounced,
    /// `Sync`: a flush of the log makes it durable.
    SyncLogFlush,
    /// `Sync`: a transaction waits until the writes that it has read are durable (a wait).
    SyncReadWait,
    /// `Sync`: a checkpoint keeps commits out while it takes the dirty pages (a wait).
    SyncGate,
    /// `Sync`: a checkpoint waits for the log before it writes pages (a wait).
    SyncLogBeforePages,
    /// `Sync`: that wait is for the end of the log after the pages were copied, not before (an order).
    SyncLogEndAfterCopy,
    /// `Sync`: a checkpoint also waits until a durable block says that the log is durable up to that end (a wait).
    SyncMarkBeforePages,
    /// Weakened: a block says that the log is durable up to the end of its own write.
    SyncMarkOwnWrite,
    /// `Sync`: recovery compares the durable end that later blocks of the log name with the end that it finds (a comparison).
    SyncMark,
    /// `Sync`: the flush between a checkpoint's pages and its slot.
    SyncHeapFlush,
    /// `Sync`: the flush between a checkpoint's slot and the reuse of the ring.
    SyncSlotFlush,
    /// `Sync`: only clean pages are released from memory (a comparison).
    SyncGiveBackClean,
    /// `Sync`: a larger ring is announced only once no live block would move (a comparison).
    SyncRingPlaces,
    /// `Sync`: recovery writes the blocks that it accepts again.
    SyncRecoveryBlocks,
    /// `Sync`: recovery drops a last transaction without commit record (a comparison).
    SyncRecoveryIncomplete,
    /// `Sync`: recovery marks every page that it touches as dirty, changed or not.
    SyncRecoveryPages,
    /// `Sync`: the flush of the pages and of the slot that recovery has found, before it writes the header and a new slot.
    SyncRecoveryHeapFlush,
    /// `Sync`: recovery chooses block numbers above all that an earlier life can have used, or a life that no such block has.
    SyncRecoveryNumbers,
    /// An optimistic search validates its guards when it has ended (a comparison).
    OptimisticGuards,
    /// Moved: a snapshot reads the clock before it is counted.
    SnapshotEverything,
    /// A snapshot waits until all transactions that it sees have stored home (a wait).
    SnapshotWait,
    /// Moved: a snapshot looks for a version before it loads from home, not after.
    SnapshotLookFirst,
    /// Weakened: of several versions above its time a snapshot takes the newest, not the oldest.
    SnapshotOldest,
    /// A read at a snapshot checks last whether the snapshot was ended (a comparison).
    SnapshotMark,
    /// Moved: a transaction counts the snapshots before it takes its TxID.
    SnapshotCount,
    /// Moved: a transaction keeps versions after it has stored home.
    SnapshotKeep,
    /// A transaction that has kept versions announces that there are newer ones (a store).
    SnapshotNewest,
    /// Moved: an entry that is reused gets its new TxID first.
    SnapshotRefill,
    /// Weakened: versions are reclaimed up to the newest snapshot, not the oldest.
    SnapshotBound,
    /// The memory of versions is released only while there is no snapshot (a comparison).
    SnapshotGiveBackNone,
    /// The memory of versions is released only when every transaction that may keep versions has stored home (a wait).
    SnapshotGiveBackWait,
    /// A snapshot that is counted while this memory is being released reads the clock afterwards (a wait).
    SnapshotGiveBackBegin,
    /// A large transaction keeps the contents that it changes for snapshots that begin while it runs (a registration).
    LargePin,
    /// The TxID that a large transaction has published is withdrawn before a snapshot is ended for want of room (a store).
    LargeWithdraw,
    /// A thread that reclaims versions while a large transaction runs keeps those that such snapshots need (a comparison).
    LargeBound,
    /// A single-writer commit is published, as it is under the STM (a store).
    SnapshotInCommit,
    /// Free memory: chunks whose freeing is not in a durable checkpoint, or below the watermark, are not overwritten outside the log (a wait).
    FreeDurable,
    /// Free memory: chunks that a snapshot may read are not overwritten outside the log either (a comparison).
    FreeSnapshots,
    /// Free memory: under the STM, the versions of a chunk's lines are raised before it is overwritten outside the log (stores).
    FreeVersions,
    /// Free memory: a punched hole is durable before its chunk is used again.
    FreePunchFlush,
    /// Free memory: a transaction that finds its chunks held releases the serial token and waits until the chunks are released (a wait).
    FreeWait,
    /// Free memory: a large transaction keeps the contents that its journal overwrites, for snapshots.
    FreeJournalVersions,
    /// Past the log: the written pages are flushed before the commit record refers to them.
    PastLogFlush,
    /// Past the log: the transactions that freed a page are durable, and have stored home, before it is written (a wait).
    PastLogDurable,
    /// Past the log: a transaction that frees pages notes its TxID before it stores home (a store).
    PastLogVacated,
    /// Past the log: pages are written only if no record and no checkpoint stores to them (a comparison).
    PastLogSettled,
    /// Past the log: pages that a snapshot may read are not written either (a comparison).
    PastLogSnapshots,
    /// Past the log: a reader of pages checks whether they were freed meanwhile (a comparison).
    PastLogGuard,
    /// Past the log: nothing is written and committed while a backup copies the heap file (a comparison).
    PastLogBackup,
    /// Lending: the borrower checks whether the pages were freed before it was counted (a comparison).
    LendMarks,
    /// Lending: no page that may be lent to a snapshot is handed out (a comparison).
    LendPages,
    /// A large transaction writes back the records of its journal.
    JournalWriteBack,
    /// The fence between the records and the journal's header.
    JournalFence,
    /// Writing back the header of the journal.
    JournalHeaderWriteBack,
    /// The fence between the header and the first change of the saved contents. The last such fence ends the journal.
    JournalHeaderFence,
    /// A large transaction writes back the pages that it has changed.
    LargeWriteBack,
    /// The fence between these pages and the end of the journal.
    LargeFence,
    /// Writing back the contents that a rollback has copied from a journal.
    JournalRollBackWriteBack,
    /// The fence between these contents and the end of the journal.
    JournalRollBackFence,
    /// `Sync`: a large transaction makes its journal durable before it writes pages (an order).
    SyncJournal,
    /// `Sync`: the flush between the journal and its header.
    SyncJournalFlush,
    /// `Sync`: recovery rolls back a large transaction that was interrupted.
    SyncJournalRollBack,
    /// `Sync`: checksums of pages are flushed before a checkpoint slot says that the pages are there.
    SyncChecksumFlush,
    /// `Sync`: checksums of pages are forgotten before a large transaction writes the pages (an order).
    SyncForgetChecksums,
    /// `Sync`: a failed flush of a file that has grown poisons the pool.
    SyncGrowthFlush,
    /// SCT: between `lockDS` and `prepareLogEntry` (PB1).
    SynchronousLockBarrier,
    /// SCT: between `prepareLogEntry` and `mutateDS` (PB2, SB1).
    SynchronousPrepareBarrier,
    /// SCT: between `mutateDS` and `commitTransaction` (PB3, SB2).
    SynchronousMutateBarrier,
    /// SCT: between `commitTransaction` and `unlockDS` (PB4, SB3).
    SynchronousCommitBarrier,
    /// DCT: between `lockDS` and `prepareLogEntry` (PB1).
    DeferredLockBarrier,
    /// DCT: between `prepareLogEntry` and `mutateDS` (PB2, SB1).
    DeferredPrepareBarrier,
    /// DCT: `commitTransaction` comes after a later barrier than the spin on conflicts and `mutateDS` (PBz, SBx;
    /// a wait for a barrier that may belong to a later transaction, or under strand a barrier of its own).
    DeferredMutateBarrier,
    /// DCT under eager sync: `commit_persisted` is set after a later barrier than `commitTransaction` (SBy; a
    /// wait for a barrier that may belong to a later transaction).
    DeferredCommitBarrier,
    /// DCT: a log entry's volatile generation is stored after the first barrier, PB1 (an order).
    DeferredGenerationAfterBarrier,
    /// SCT and DCT under strand: a transaction begins on a strand of its own (NS1).
    BeginStrand,
    /// SCT and DCT under strand: the operations after a transaction are on another strand (NS2).
    EndStrand,
    /// SCT and DCT: writing back the log entry.
    PrepareWriteBack,
    /// SCT and DCT: writing back the data stored in place.
    MutateWriteBack,
    /// DCT: `commitTransaction` waits for the conflicting transactions before it (a wait).
    DeferredSpinOnConflicts,
    /// SCT and DCT: writing back the mark that makes a log entry invalid.
    CommitMarkWriteBack,
    /// SCT and DCT: writing back an undo log's first word, and the fence after it.
    UndoLogHeader,
    /// SCT and DCT: recovery takes an entry for valid only by its checksum (a comparison).
    RecoveryChecksum,
}

impl Step {
    /// The steps of the `Sync` domain.
    pub const SYNC: [Self; 32] = [
        Self::SyncMarkBeforePages,
        Self::SyncMarkOwnWrite,
        Self::SyncMark,
        Self::FreeDurable,
        Self::FreePunchFlush,
        Self::SyncRoom,
        Self::SyncRoomAnnounced,
        Self::SyncLogFlush,
        Self::SyncReadWait,
        Self::SyncGate,
        Self::SyncLogBeforePages,
        Self::SyncLogEndAfterCopy,
        Self::SyncHeapFlush,
        Self::SyncSlotFlush,
        Self::SyncGiveBackClean,
        Self::SyncRingPlaces,
        Self::SyncRecoveryBlocks,
        Self::SyncRecoveryIncomplete,
        Self::SyncRecoveryPages,
        Self::SyncRecoveryHeapFlush,
        Self::SyncRecoveryNumbers,
        Self::SyncJournal,
        Self::SyncJournalFlush,
        Self::SyncJournalRollBack,
        Self::SyncChecksumFlush,
        Self::SyncForgetChecksums,
        Self::SyncGrowthFlush,
        Self::PastLogFlush,
        Self::PastLogDurable,
        Self::PastLogVacated,
        Self::PastLogSettled,
        Self::PastLogSnapshots,
    ];
}

/// A boundary in a thread's execution that records and judges refer to.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::memory::{Event, Operation};
/// use strandline_core::engine::Stm;
///
/// let mut worker = Worker::lease(view, Stm, None)?;
/// recorder.take_stream();
/// worker.run(|tx| tx.write(tx.root(0), 5))?;
/// let mut events = recorder.take_stream().into_iter().filter_map(|recorded| match recorded.operation {
///     Operation::Event(event) => Some(event),
///     _ => None,
/// });
/// assert_eq!(events.next(), Some(Event::Begin));
/// assert!(events.any(|event| event == Event::Commit(1)));
/// assert!(events.any(|event| event == Event::Acknowledged(1)));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A transaction begins (again, after a conflict). If it takes its locks first, it holds all of them.
    Begin,
    /// A transaction that stores in place has made its last store under this TxID and is about to release its
    /// locks. Its thread's stores to data since [`Begin`](Event::Begin) are its writes.
    Executed(u64),
    /// A transaction has entered commit under this TxID, or 0 if it wrote nothing. Of two conflicting transactions the later one has the
    /// higher TxID.
    Commit(u64),
    /// The transaction with this TxID is durable, and its caller may know that.
    Acknowledged(u64),
    /// The transaction is about to write this number of bytes from this address on to the pool's file, past the log.
    PastLog(PersistentAddress, u64),
    /// The transaction ends without effect.
    Abort,
    /// A lock word was taken.
    Lock(VolatileAddress),
    /// A lock word is about to be released.
    Unlock(VolatileAddress),
    /// A persist barrier of epoch and strand persistency: orders this thread's persists before and after it, and
    /// waits for nothing. (A sync barrier of eager sync is [`Memory::fence`](super::Memory::fence).)
    PersistBarrier(Step),
    /// A new strand of strand persistency: clears the thread's persist order so far.
    NewStrand(Step),
}
