//! Recovery from redo logs (Blurred Persistence, section III-C).
//!
//! Recovery scans each log and sorts the committed transactions by TxID. It replays those that are not known to be home, which are above the
//! watermark and above their log's truncation mark if it has one; writes back; and fences. Then it raises the watermark above the TxID of each commit
//! record, complete or not, and fences, because zeroing may make an incomplete transaction look complete, and removes truncation marks. Only then
//! does it zero the logs. After a crash at any point, recovery repeats everything with the same result: replay is idempotent, and all that is at or
//! below the watermark is home.
//!
//! # Remains of one life never complete a record of another
//!
//! Torn bits determine whether a record counts, under some schemes together with a number of records. Torn bits and positions recur in each life. So
//! if one block of a record survived, the other block of the next life's record in its place would complete it. Therefore a life begins with durably
//! zeroed logs: recovery returns when the zeros are fenced, and the first run has phase 1, which zeros do not match. TxIDs that were lost are then
//! reused without harm. Within a life, each word of a log durably carries the other torn bit when a run begins (`log/thread_log.rs`). This holds for
//! all schemes that use this recovery: BASE, MNE, BP(XIL), BP(VCBP), BPPM, `bppm-counted` and WrAP.

use super::pool_scheme::{check_transaction, logs, zero_logs};
use crate::error::Result;
use crate::layout::{Layout, SharedLayout, View};
use crate::log::{
    Committed, RECORD_BYTES, Write, highest_transaction, merge, scan, scan_counted, scan_fenced,
};
use crate::memory::{Memory, PersistentAddress, Step};

/// The way in which recovery recognizes a committed transaction in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Each block's torn bit shows whether the block was written; abort records bridge holes.
    TornBits,
    /// The commit record was stored after the records before it were durable.
    Fenced,
    /// Like `Fenced`, but the transaction counts only if the log's tail pointer, which is the second reserved word, is behind it.
    FencedToTail,
    /// The commit record contains the number of its records, all of which carry its torn bit.
    Counted,
}

/// A step of recovery, so that callers can measure its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStep {
    /// Reading the logs.
    Scan,
    /// Sorting the committed transactions.
    Sort,
    /// Storing the words home and making that durable.
    Replay,
    /// Raising the watermark and zeroing the logs.
    Truncate,
}

/// A report of what recovery found and did.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// # let pool = Pool::create(&path, &options)?;
/// # let mut worker = pool.worker()?;
/// # (0..3).try_for_each(|value| worker.run(|tx| tx.write(tx.root(value), value)))?;
/// # drop(pool);
/// # drop(worker);
/// # let db = Pool::open(&path, &options)?;
/// // Before a crash, one thread has stored three words in three transactions.
/// let report = db.recovery().report;
/// assert_eq!((report.logs, report.replayed, report.words, report.watermark), (1, 3, 3, 3));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Number of logs in the directory.
    pub logs: u64,
    /// Log records read, including those that do not count.
    pub records: u64,
    /// Committed transactions found in the logs, replayed or not.
    pub committed: u64,
    /// The committed transactions that were replayed because they are above the watermark.
    pub replayed: u64,
    /// Transactions whose stores were undone.
    pub undone: u64,
    /// Words stored home by the replay.
    pub words: u64,
    /// The watermark after recovery. New TxIDs begin above it.
    pub watermark: u64,
}

/// Recovers the pool from its logs. The last `reserved` records of each log are not for transactions. See
/// [`Scheme::recover`](super::Scheme::recover).
pub fn recover<M: Memory>(
    view: &View<M>,
    reading: Reading,
    reserved: u32,
    begins: &mut dyn FnMut(RecoveryStep),
) -> Result<RecoveryReport> {
    let memory = &view.memory;
    let mut report = RecoveryReport::default();

    begins(RecoveryStep::Scan);
    let logs = logs(view)?;
    report.logs = logs.len() as u64;
    let watermark = memory.load(Layout::WATERMARK);
    report.watermark = watermark;
    let filters = !memory.omitted(Step::RecoveryWatermarkFilter);
    let scan = LogScan { reading, reserved, filters };
    let mut committed = scan.scan_all(view, &logs, &mut report);
    check_transaction(report.watermark)?;

    begins(RecoveryStep::Sort);
    if filters {
        committed.retain(|found| found.transaction > watermark);
    }
    if !memory.omitted(Step::RecoverySort) {
        committed.sort_by_key(|found| found.transaction);
    }
    report.replayed = committed.len() as u64;
    let writes = || committed.iter().flat_map(|found| &found.writes);
    writes().try_for_each(|write| view.layout.check_replayed(write.address, 1))?;

    begins(RecoveryStep::Replay);
    report.words = replay(memory, writes());
    let late = memory.omitted(Step::RecoveryDataFenceLate);
    if !late {
        memory.fence(Step::RecoveryDataFence);
    }

    begins(RecoveryStep::Truncate);
    truncate(view, &logs, report.watermark, late);
    Ok(report)
}

/// The parameters of a scan of the logs.
#[derive(Clone, Copy)]
struct LogScan {
    reading: Reading,
    /// The number of records at each log's end that are not for transactions.
    reserved: u32,
    /// True to leave out transactions that were replayed before.
    filters: bool,
}

impl LogScan {
    /// Collects the committed transactions of all logs and counts them in `report`. The report's watermark becomes the highest TxID found.
    fn scan_all<M: Memory>(
        self,
        view: &View<M>,
        logs: &[PersistentAddress],
        report: &mut RecoveryReport,
    ) -> Vec<Committed> {
        let memory = &view.memory;
        let records = view.layout.log_records() - u64::from(self.reserved);
        let mut committed: Vec<Committed> = Vec::new();
        let mut highest = report.watermark;
        for &log in logs {
            let mut found = Vec::new();
            report.records += self.scan_one(memory, log, records, &mut found);
            report.committed += found.len() as u64;
            if self.reserved > 0 {
                let truncated = memory.load(log.byte(RECORD_BYTES * records));
                highest = highest.max(truncated);
                found.retain(|found| !self.filters || found.transaction > truncated);
            }
            committed.append(&mut found);
            if !memory.omitted(Step::RecoveryWatermarkLow) {
                highest = highest.max(highest_transaction(memory, log, records));
            }
        }
        report.watermark = committed.iter().fold(highest, |highest, found| highest.max(found.transaction));
        committed
    }

    /// Appends the committed transactions of the log at `log` to `found`. Returns the number of records read.
    fn scan_one<M: Memory>(
        self,
        memory: &M,
        log: PersistentAddress,
        records: u64,
        found: &mut Vec<Committed>,
    ) -> u64 {
        match self.reading {
            Reading::Counted => scan_counted(memory, log, records, found),
            Reading::TornBits => {
                [false, true].map(|phase| scan(memory, log, records, phase, found)).iter().sum()
            }
            Reading::Fenced => {
                [false, true].map(|phase| scan_fenced(memory, log, records, phase, found)).iter().sum()
            }
            Reading::FencedToTail => {
                let tail = memory.load(log.byte(RECORD_BYTES * records).word(1)).min(records);
                [false, true].map(|phase| scan_fenced(memory, log, tail, phase, found)).iter().sum()
            }
        }
    }
}

/// Stores the words of replayed transactions home and writes them back, without a fence. Returns the number of words.
fn replay<'w, M: Memory>(memory: &M, writes: impl Iterator<Item = &'w Write> + Clone) -> u64 {
    let mut words = 0;
    for write in writes.clone() {
        let value = match write.mask {
            0xff => write.value,
            mask => merge(memory.load(write.address), write.value, mask),
        };
        memory.store(write.address, value);
        words += 1;
    }
    for write in writes {
        memory.write_back(write.address, Step::RecoveryDataWriteBack);
    }
    words
}

/// Raises the watermark to `highest`, and zeroes the logs. If `late` is set, the fence of the replayed words comes only after the store of the
/// watermark.
fn truncate<M: Memory>(view: &View<M>, logs: &[PersistentAddress], highest: u64, late: bool) {
    let memory = &view.memory;
    if memory.omitted(Step::RecoveryZeroEarly) {
        zero_logs(view, logs);
    }
    if !memory.omitted(Step::RecoveryWatermark) {
        memory.store(Layout::WATERMARK, highest);
    }
    if late {
        memory.fence(Step::RecoveryDataFence);
    }
    memory.write_back(Layout::WATERMARK, Step::RecoveryWatermarkWriteBack);
    memory.fence(Step::RecoveryWatermarkFence);
    if !memory.omitted(Step::RecoveryZeroEarly) {
        zero_logs(view, logs);
    }
    memory.store(SharedLayout::CLOCK, highest);
    memory.store(SharedLayout::PUBLISHED_WATERMARK, highest);
}
