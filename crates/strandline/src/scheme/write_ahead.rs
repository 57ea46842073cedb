//! BASE, the conventional transactional persistent memory of Blurred Persistence's Fig. 2 (b) (section II-C):
//! write-ahead logging from an execution area, and truncation after each transaction.
//!
//! # The protocol
//!
//! *Execution.* New values go to an execution area in volatile memory (steps 1 and 2 of the figure).
//!
//! *Commit.* The execution area is copied to the worker's log, the log lines are written back, a fence (steps 3 and
//! 4); only then the commit record is stored, written back, a fence: the transaction is acknowledged. A crash before
//! the first fence leaves any part of the records and no commit record; one before the second leaves the commit
//! record or does not, and if it does, everything before it is there. The commit record's own two blocks may
//! persist apart from one another: a phase bit in both, which differs from that of the log's previous run, tells.
//! Nothing else relies on that bit here.
//!
//! *Checkpoint.* The new values are stored home, their lines are written back, a fence (steps 5 and 6). A crash
//! leaves any part of them home; the log replays all.
//!
//! *Truncation.* The TxID is stored in the log's truncation mark (the first word of its last line), written back, a
//! fence. Recovery ignores what the mark covers. Only now the locks are released: a younger transaction that
//! overwrites these words cannot be truncated before this one, so an older version is never replayed over a newer
//! one that is home and truncated.
//!
//! *Restart*, when the log is full: all of it is truncated. As in `blurred.rs`: inert records over the rest, written
//! back, a fence, and the phase flips, so that commit records of the new run differ from what they overwrite.
//!
//! Recovery: `recovery.rs`.

use super::execution_area::ExecutionArea;
use super::recovery::Reading;
use super::redo::{Checkpoint, CheckpointWay, Logging, LoggingWay, Redo};
use crate::log::{LogFull, ThreadLog};
use crate::memory::{LINE_BYTES, Memory, PersistentAddress, Step};
use crate::pool::layout::View;
use crate::transaction::{Concurrency, Statistics, WriteSet};

/// BASE.
///
/// ```
/// # use std::rc::Rc;
/// # use strandline::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress, recorder::Recorder};
/// # use strandline::pool::{Geometry, Layout, SharedLayout, View};
/// # use strandline::{Concurrency, Read, Runner, Transaction, transaction::Worker};
/// # let geometry = Geometry { size: 1 << 18, logs: 2, log_bytes: 1 << 12, chunk_bytes: 1 << 12 };
/// # let layout = Layout::new(geometry)?;
/// # let shared = SharedLayout::new(&layout, 10, 0);
/// # let recorder = Rc::new(Recorder::new(vec![0; geometry.size as usize / 8], shared.bytes(), 0, 1, None));
/// # let view = View { memory: Hosted::new(recorder.clone(), 0), layout, shared };
/// use strandline::scheme::SchemeKind;
///
/// let mut worker = Worker::lease_of(view, SchemeKind::Base, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // The records, the commit record, the data, the truncation mark.
/// assert_eq!((cost.lines_written_back, cost.fences), (4, 4));
/// # Ok::<(), strandline::Error>(())
/// ```
pub type Base = Redo<Copying, EachTransaction>;

/// Copying from an execution area, two fences: a value's place is its index in the area.
#[derive(Default)]
pub struct Copying(ExecutionArea);

impl Logging for Copying {
    const WAY: LoggingWay = LoggingWay::Copied;
    const READING: Reading = Reading::Fenced;

    #[inline(always)]
    fn begin(&mut self) {
        self.0.clear();
    }

    #[inline(always)]
    fn write<M: Memory>(
        &mut self,
        memory: &M,
        log: &mut ThreadLog,
        word: (PersistentAddress, u64),
        previous: Option<u32>,
    ) -> Result<u32, LogFull> {
        let place = self.0.write_for(log, word, previous)?;
        if previous.is_none() {
            // As execution in the log does: where clwb evicts, the line comes from memory.
            log.prefetch_copy(memory, place as usize);
        }
        Ok(place)
    }

    #[inline(always)]
    fn value<M: Memory>(&self, _: &M, _: &ThreadLog, place: u32) -> u64 {
        self.0.value(place)
    }

    #[inline(always)]
    fn commit<M: Memory>(&mut self, memory: &M, log: &mut ThreadLog, transaction: u64) -> u64 {
        log.commit_copied(memory, &self.0.words, transaction)
    }
}

/// Checkpoint and truncation after each transaction, before its locks are released.
pub struct EachTransaction;

impl Checkpoint for EachTransaction {
    const WAY: CheckpointWay = CheckpointWay::Each;
    /// The line of the truncation mark.
    const RESERVED: u32 = (LINE_BYTES / crate::log::RECORD_BYTES) as u32;

    #[inline]
    fn stored_home<M: Memory>(view: &View<M>, log: &ThreadLog, writes: &WriteSet, _: Concurrency) {
        let memory = &view.memory;
        for entry in &writes.entries {
            memory.write_back(entry.line, Step::HomeWriteBack);
        }
        memory.fence(Step::HomeFence);
        let mark = log.reserved();
        memory.store(mark, log.last_transaction());
        memory.write_back(mark, Step::TruncationWriteBack);
        memory.fence(Step::TruncationFence);
    }

    fn release_log<M: Memory>(_: &View<M>, _: &ThreadLog, _: Concurrency, _: &mut Statistics) {}

    fn drain<M: Memory>(_: &View<M>) {}
}
