//! Blurred Persistence (Lu, Shu, Sun; sections III and IV): execution in the log (XIL), and volatile checkpoints with bulk persistence (VCBP). Both
//! together are BPPM. Each one combined with the conventional other half of `write_ahead.rs` is BP(XIL) or BP(VCBP).
//!
//! # The protocol
//!
//! *Execution in log.* A write appends a record to the worker's log, instead of using an execution area. Records that caches evict before their
//! transaction commits do no harm, because no commit record follows them. Each 64-bit block carries a torn bit that differs from the one that the log
//! held before this run, so that recovery recognizes the blocks that were written. There is no head or tail pointer whose stores would have to be
//! ordered.
//!
//! *Commit.* With all locks held, the worker publishes that it is in commit, takes the TxID, validates, and only then stores the commit record,
//! because a commit record that is evicted *is* a commit. It writes back the transaction's records and every abort record since its last commit, and
//! fences once: the transaction is acknowledged. BP(VCBP) has no torn bits. When a transaction commits, it copies the records to the log, writes them
//! back and fences, and then does the same with the commit record.
//!
//! *Volatile checkpoint.* The new values are stored home and stay in the cache. A crash may leave any part of them home, which is harmless because
//! all are durable in the log. In BP(XIL) they are written back and fenced, and the log is truncated, before the locks are released.
//!
//! *Bulk persistence*, when a log is full. W is the last TxID assigned. Once every commit at or below W has stored home, all home lines of
//! transactions above the old watermark and up to W, of all logs, are written back and fenced; then the watermark W is stored, written back and
//! fenced, and published. A crash before the watermark is durable replays everything above the old one, in TxID order; a crash after it ignores
//! everything up to W. Without the watermark, an older version in one log could be replayed over a newer one whose log is already truncated.
//!
//! *Restart.* A log restarts when all of its TxIDs are at or below the published watermark; in BP(XIL) they always are truncated by then. Inert
//! records fill the rest of the log, and all that was never written back, including holes, is written back now. So the new run finds each word with
//! the other torn bit. Then the phase flips.
//!
//! *Abort.* An abort record is stored at the transaction's end and over each 32nd of its records. These records bridge the holes that remain. Nothing
//! is written back until the next commit.
//!
//! `recovery.rs` describes recovery.

use super::line_set::LineSet;
use super::recovery::Reading;
use super::redo::{Checkpoint, Logging, REDO_STEPS, Redo, leave_records};
use super::{Durability, Mode, Of, SchemeDescriptor};
use crate::error::Result;
use crate::layout::{Layout, SharedLayout, View, pack, unpack};
use crate::log::{RECORD_BYTES, Record, ThreadLog, home_address};
use crate::memory::{LINE_BYTES, Memory, PersistentAddress, Space, Step, latch};
use crate::transaction::{Concurrency, Statistics, WriteSet};

/// BPPM: execution in the log and bulk persistence.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::engine::Stm;
///
/// let mut worker = Worker::lease(view, Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // One line of the log; the data goes home when many transactions have.
/// assert_eq!((cost.lines_written_back, cost.fences), (1, 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub type Blurred = Redo<Executing, BulkPersistence>;

/// The descriptor of [`Blurred`].
pub static BPPM: SchemeDescriptor = SchemeDescriptor {
    code: 0,
    modes: &[
        Mode { concurrency: Concurrency::Stm, name: "bppm", redundant: &[BULK_LOG] },
        Mode { concurrency: Concurrency::SingleWriter, name: "bppm+single-writer", redundant: &[BULK_LOG] },
    ],
    source: PAPER,
    description: "execution in the log with torn bits, one fence per commit, bulk persistence",
    durability: Durability::Software,
    is_native: true,
    in_sync: true,
    persistency: None,
    steps: &[
        &[
            Step::AbortRecord,
            Step::CommitWriteBack,
            Step::AbortRecordWriteBack,
            Step::CommitFence,
            Step::CommitWriteBackPartial,
            Step::CommitFenceEarly,
            Step::AbortRecordPartial,
            Step::RestartWriteBackPartial,
            Step::RecoveryLookAheadShort,
        ],
        BULK_STEPS,
        REDO_STEPS,
    ],
    barriers: &[],
    leftover: leave_records,
    commit_cost: Some(|_, _, log_lines| (log_lines, 1, 0)),
    scheme: &Of::<Blurred>::NEW,
};

/// The paper, for the descriptors of its schemes.
pub const PAPER: &str = "Lu, Shu, Sun: Blurred Persistence";

/// The steps of bulk persistence.
pub const BULK_STEPS: &[Step] = &[
    Step::BulkWait,
    Step::BulkDataWriteBack,
    Step::BulkLogWriteBack,
    Step::BulkDataFence,
    Step::WatermarkWriteBack,
    Step::WatermarkFence,
    Step::BulkDataWriteBackPartial,
    Step::BulkDataFenceLate,
    Step::WatermarkHigh,
    Step::WatermarkFenceLate,
];

/// The reason why [`Step::BulkLogWriteBack`] is redundant.
pub const BULK_LOG: (Step, &str) = (
    Step::BulkLogWriteBack,
    "charges the paper's wbinvd for log lines under the emulated domain only; every log line that recovery \
     needs was fenced by its commit",
);
const LINE_RECORDS: u32 = (LINE_BYTES / RECORD_BYTES) as u32;

/// Execution in the log. The location of a value is its record's position.
#[derive(Default)]
pub struct Executing;

impl Logging for Executing {
    const READING: Reading = Reading::TornBits;

    fn commit<M: Memory>(&mut self, memory: &M, log: &mut ThreadLog, _: &WriteSet, transaction: u64) -> u64 {
        log.commit(memory, transaction)
    }

    fn abort<M: Memory>(&mut self, memory: &M, log: &mut ThreadLog) {
        log.abort(memory);
    }
}

/// The volatile checkpoint with bulk persistence.
pub struct BulkPersistence;

impl Checkpoint for BulkPersistence {
    const RESERVED: u32 = 0;
    const AWAITS: bool = true;

    fn stored_home<M: Memory>(_: &View<M>, _: &ThreadLog, _: &WriteSet, _: Concurrency) {}

    fn release_log<M: Memory>(
        view: &View<M>,
        log: &ThreadLog,
        _: Concurrency,
        statistics: &mut Statistics,
    ) -> Result<()> {
        unless_covered(view, log, || {
            statistics.bulk_persists += 1;
            persist_in_bulk(view)
        })
    }

    fn drain<M: Memory>(view: &View<M>) {
        // If no transaction runs, there is nothing to wait for, so this cannot fail.
        let _ = persist_everything(view);
    }
}

/// Calls `advance`, which raises the watermark, with [`SharedLayout::BULK`] held, unless the watermark already covers all transactions of `log`.
///
/// # Errors
/// Returns the errors of [`wait_for_commits`] and `advance`.
pub fn unless_covered<M: Memory>(
    view: &View<M>,
    log: &ThreadLog,
    advance: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let memory = &view.memory;
    let covered = || log.last_transaction() <= memory.load(SharedLayout::PUBLISHED_WATERMARK);
    if covered() {
        return Ok(());
    }
    memory.lock_unless_deadlocked(SharedLayout::BULK)?;
    // Another worker may have raised the watermark while this one waited for the lock.
    let advanced = if covered() { Ok(()) } else { advance() };
    memory.unlock(SharedLayout::BULK);
    advanced
}

/// Waits until each commit with a TxID at or below `last` has stored its words home.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) if one of them is a large transaction that waits for the calling thread, inside a transaction
/// of another pool.
pub fn wait_for_commits<M: Memory>(view: &View<M>, last: u64, step: Step) -> Result<()> {
    let memory = &view.memory;
    if memory.omitted(step) {
        return Ok(());
    }
    for slot in view.shared.slots() {
        loop {
            let state = memory.load(slot.commit_state());
            if state == 0 || state > last + 2 {
                break;
            }
            latch::wait_while_unless_deadlocked(memory, slot.commit_state(), state)?;
        }
    }
    Ok(())
}

/// Persists all transactions so far in bulk, and raises the watermark. The caller holds [`SharedLayout::BULK`]. Meanwhile other transactions may
/// commit.
///
/// # Errors
/// Returns the errors of [`wait_for_commits`].
pub(crate) fn persist_in_bulk<M: Memory>(view: &View<M>) -> Result<()> {
    let memory = &view.memory;
    let old = memory.load(SharedLayout::PUBLISHED_WATERMARK);
    let watermark = memory.load(SharedLayout::CLOCK);
    if watermark == old {
        return Ok(());
    }
    wait_for_commits(view, watermark, Step::BulkWait)?;
    if !memory.write_back_all(Step::BulkDataWriteBack) {
        write_back_home(view, old, watermark, memory.emulates_latency());
    }
    move_watermark(view, watermark);
    Ok(())
}

/// Persists all transactions so far in bulk, while others run. Their log records then need not be replayed any more.
///
/// # Errors
/// Returns the errors of [`wait_for_commits`].
pub fn persist_everything<M: Memory>(view: &View<M>) -> Result<()> {
    view.memory.lock_unless_deadlocked(SharedLayout::BULK)?;
    let persisted = persist_in_bulk(view);
    view.memory.unlock(SharedLayout::BULK);
    persisted
}

/// Persists all transactions up to `watermark`, line by line, and raises the watermark. They have all stored their words home, and the caller holds
/// [`SharedLayout::BULK`]. Meanwhile other transactions may commit.
pub fn persist_up_to<M: Memory>(view: &View<M>, watermark: u64) {
    let old = view.memory.load(SharedLayout::PUBLISHED_WATERMARK);
    if watermark > old {
        write_back_home(view, old, watermark, false);
        move_watermark(view, watermark);
    }
}

/// Writes back the home lines of the transactions above `old` and up to `watermark`, and with `with_log` also the log lines that contain their
/// addresses.
fn write_back_home<M: Memory>(view: &View<M>, old: u64, watermark: u64, with_log: bool) {
    let memory = &view.memory;
    let mut lines = LineSet::new();
    for index in 0..view.layout.geometry.logs {
        let (from, upto) = collect_home_lines(view, index, old, watermark, &mut lines);
        if with_log {
            let bytes = RECORD_BYTES * u64::from(upto - from);
            let start = view.layout.log(index).byte(RECORD_BYTES * u64::from(from));
            memory.write_back_range(start, bytes, Step::BulkLogWriteBack);
        }
    }
    let partial = memory.omitted(Step::BulkDataWriteBackPartial);
    let mut is_first = true;
    lines.for_each(|line| {
        if is_first || !partial {
            memory.write_back(line, Step::BulkDataWriteBack);
        }
        is_first = false;
    });
}

/// Makes the home lines that were written back durable, and then `watermark`; publishes it.
fn move_watermark<M: Memory>(view: &View<M>, watermark: u64) {
    let memory = &view.memory;
    let late = memory.omitted(Step::BulkDataFenceLate);
    if !late {
        memory.fence(Step::BulkDataFence);
    }
    store_watermark(memory, watermark);
    if late {
        memory.fence(Step::BulkDataFence);
    }
    publish_watermark(memory, watermark);
}

fn store_watermark<M: Memory>(memory: &M, watermark: u64) {
    memory.store(Layout::WATERMARK, watermark + u64::from(memory.omitted(Step::WatermarkHigh)));
}

/// Makes the stored `watermark` durable and publishes it.
fn publish_watermark<M: Memory>(memory: &M, watermark: u64) {
    memory.write_back(Layout::WATERMARK, Step::WatermarkWriteBack);
    if memory.omitted(Step::WatermarkFenceLate) {
        memory.store(SharedLayout::PUBLISHED_WATERMARK, watermark);
    }
    memory.fence(Step::WatermarkFence);
    memory.store(SharedLayout::PUBLISHED_WATERMARK, watermark);
}

/// Raises the watermark to `watermark` and publishes it. The home lines of the transactions up to it are durable already, and the caller holds
/// [`SharedLayout::BULK`].
pub fn raise_watermark<M: Memory>(memory: &M, watermark: u64) {
    store_watermark(memory, watermark);
    publish_watermark(memory, watermark);
}

/// Collects the home lines of the transactions in log `index` above `old` and up to `watermark`. Returns the range of the records that it has read.
///
/// The log's owner may meanwhile append records past those that are read here. It may restart the log only if none of these transactions is in it;
/// this may then read anything, and at worst writes back some lines redundantly.
fn collect_home_lines<M: Memory>(
    view: &View<M>,
    index: u64,
    old: u64,
    watermark: u64,
    lines: &mut LineSet,
) -> (u32, u32) {
    let (memory, slot, log) = (&view.memory, view.shared.slot(index), view.layout.log(index));
    let (run, end) = unpack(memory.load(slot.committed()));
    // Other threads may have grown the pool.
    let layout = view.layout.reaching(memory.size(Space::Persistent));
    let from = match unpack(memory.load(slot.persisted())) {
        (persisted_run, upto) if persisted_run == run => upto,
        _ => 0,
    };
    let mut upto = from;
    // The words of the transaction that is being read, until its commit record is reached. They include words of earlier transactions that aborted.
    let mut pending: Vec<PersistentAddress> = Vec::new();
    let mut at = from;
    'log: while at < end {
        let blocks = memory.load_line(log.byte(u64::from(at) * RECORD_BYTES).line());
        for record in &blocks.as_chunks::<2>().0[(at % LINE_RECORDS) as usize..] {
            if let Some(address) = home_address(record[1]) {
                pending.push(PersistentAddress::new(address));
            } else {
                match Record::decode(*record) {
                    Record::Data { .. } => {}
                    Record::Abort { .. } => pending.clear(),
                    commit @ (Record::Commit { transaction } | Record::CountedCommit { transaction, .. }) => {
                        if transaction > watermark {
                            break 'log;
                        }
                        let written = match commit {
                            // The words before these are of aborted transactions.
                            Record::CountedCommit { records, .. } => pending.len().min(records as usize),
                            _ => pending.len(),
                        };
                        if transaction > old {
                            let words = &pending[pending.len() - written..];
                            words
                                .iter()
                                .filter(|&&at| layout.is_data(at, 1))
                                .for_each(|&at| lines.insert(at));
                        }
                        pending.clear();
                        upto = at + 1;
                    }
                }
            }
            at += 1;
            if at == end {
                break 'log;
            }
        }
    }
    memory.store(slot.persisted(), pack(run, upto));
    (from, upto)
}
