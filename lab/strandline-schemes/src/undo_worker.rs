//! What SCT and DCT have in common (deferred-commit paper, sections 3.1, 5 and 6): a worker's undo log, and the
//! steps from `prepareLogEntry` to `mutateDS`.

use crate::execution_area::ExecutionArea;
use crate::persistency::{Barriers, Persistency};
use crate::undo::{UndoEntry, UndoLog};
use strandline_core::error::Error;
use strandline_core::layout::View;
use strandline_core::memory::{Event, Memory, PersistentAddress, Step};
use strandline_core::transaction::{LockSet, Statistics};

/// A worker's part of SCT or DCT under a persistency model.
pub(crate) struct UndoWorker {
    model: Persistency,
    /// What the transaction will store.
    pub area: ExecutionArea,
    pub log: UndoLog,
    /// Whether the log entry's lock is held (strand).
    entry_locked: bool,
    /// Commits that are not known to be durable, where only a fence tells.
    pub unacknowledged: Vec<u64>,
}

/// A transaction whose log entry is written.
pub(crate) struct Prepared {
    pub entry: UndoEntry,
    /// Its TxID.
    pub transaction: u64,
    pub timestamp: u64,
}

impl UndoWorker {
    pub fn lease<M: Memory>(model: Persistency, view: &View<M>, index: u64, entries: u64) -> Self {
        Self {
            model,
            area: ExecutionArea::default(),
            log: UndoLog::lease(view, index, entries),
            entry_locked: false,
            unacknowledged: Vec::new(),
        }
    }

    pub fn begin<M: Memory>(&mut self, view: &View<M>) {
        self.area.clear();
        self.model.new_strand(&view.memory, Step::BeginStrand);
    }

    /// Strand: the log entry's lock is one of the transaction's.
    pub fn lock_entry<M: Memory>(&mut self, view: &View<M>) {
        if self.model == Persistency::Strand {
            view.memory.lock(self.log.entry(view).lock());
            self.entry_locked = true;
        }
    }

    pub fn unlock_entry<M: Memory>(&mut self, view: &View<M>) {
        if std::mem::take(&mut self.entry_locked) {
            view.memory.unlock(self.log.entry(view).lock());
        }
    }

    /// `prepareLogEntry`; PB1 is again needed, as `barrier`, if locks were taken late. The worker has log `log`.
    ///
    /// # Errors
    /// The transaction is too large. Nothing has been stored.
    pub fn prepare<M: Memory>(
        &mut self,
        view: &View<M>,
        log: u64,
        locks: &mut LockSet,
        home: &[(PersistentAddress, u64)],
        barrier: Step,
        statistics: &mut Statistics,
    ) -> Result<Prepared, Error> {
        let records = self.log.capacity(view);
        if home.len() as u64 > records {
            return Err(Error::TransactionTooLarge { records });
        }
        if locks.take_late() {
            self.model.atomicity_barrier(&view.memory, barrier);
        }
        let timestamp = locks.next_timestamp(view, self.log.timestamp());
        let (entry, bytes) = self.log.prepare_log_entry(view, timestamp, home);
        self.model.write_back(&view.memory, entry.at, bytes, Step::PrepareWriteBack);
        statistics.log_bytes += bytes;
        Ok(Prepared { entry, transaction: timestamp * view.layout.geometry.logs + log, timestamp })
    }

    /// `mutateDS`.
    pub fn mutate<M: Memory>(view: &View<M>, transaction: u64, home: &[(PersistentAddress, u64)]) {
        for &(at, value) in home {
            view.memory.store(at, value);
        }
        view.memory.event(Event::Executed(transaction));
    }

    /// The transaction has ended, and its entry is used.
    pub fn end<M: Memory>(&mut self, view: &View<M>) {
        self.unlock_entry(view);
        self.log.advance();
        self.model.new_strand(&view.memory, Step::EndStrand);
    }

    /// Waits until all commits are durable, and returns how many that was said of.
    pub fn acknowledge_all<M: Memory>(&mut self, view: &View<M>, step: Step) -> u64 {
        if self.unacknowledged.is_empty() {
            return 0;
        }
        view.memory.fence(step);
        let count = self.unacknowledged.len() as u64;
        for transaction in self.unacknowledged.drain(..) {
            view.memory.event(Event::Acknowledged(transaction));
        }
        count
    }
}
