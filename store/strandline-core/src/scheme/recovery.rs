//! Recovery from redo logs (Blurred Persistence, section III-C).
//!
//! Scan every log; sort what is committed by TxID; replay what is not known to be home: above the watermark and
//! above the log's own truncation mark, where it has one; write back and fence. Raise the watermark above every
//! TxID that any commit record names, complete or not, and fence: zeroing may make an incomplete transaction look
//! complete, and takes truncation marks back. Only then zero the logs. A crash anywhere repeats it all, to the
//! same result: replay is idempotent, and what lies at or below the watermark is home.
//!
//! # No life's leavings complete another's record
//!
//! A record counts by torn bits, and in some schemes by a number of records beside them. Torn bits and positions recur in
//! every life: a record of which one block survived would be completed by the other block of the next life's record in its
//! place. So a life begins with zeroed logs, durably: recovery returns when the zeros are fenced, and the first run's
//! phase is 1, of which zeros have nothing. TxIDs that were lost are used again, which does no harm then. Within a life
//! every word of a log durably carries the other torn bit when a run begins (`log/thread_log.rs`). It is the same for
//! every scheme here: BASE, MNE, BP(XIL), BP(VCBP), BPPM, `bppm-counted` and WrAP.

use super::current::{check_transaction, logs, zero_logs};
use crate::error::Result;
use crate::layout::{Layout, SharedLayout, View};
use crate::log::{
    Committed, RECORD_BYTES, Write, highest_transaction, merge, scan, scan_counted, scan_fenced,
};
use crate::memory::{Memory, PersistentAddress, Step};

/// How recovery tells a committed transaction in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Each block's torn bit says whether it was written; abort records bridge holes.
    TornBits,
    /// A commit record was stored when the records before it were durable.
    Fenced,
    /// Likewise, and the transaction counts only if the log's tail pointer, the second of the reserved words, is behind it.
    FencedToTail,
    /// As many records as the commit record says carry its torn bit.
    Counted,
}

/// A step of recovery, for whoever takes the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStep {
    /// Reading the logs.
    Scan,
    /// Sorting the committed transactions.
    Sort,
    /// Storing them home and making that durable.
    Replay,
    /// Raising the watermark and zeroing the logs.
    Truncate,
}

/// What recovery found and did.
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
    /// Logs in the directory.
    pub logs: u64,
    /// Log records read, those that count for nothing included.
    pub records: u64,
    /// Committed transactions found in the logs, replayed or not.
    pub committed: u64,
    /// Of these, replayed: above the watermark.
    pub replayed: u64,
    /// Transactions whose stores were taken back.
    pub undone: u64,
    /// Words stored home by replaying.
    pub words: u64,
    /// The watermark afterwards; new TxIDs start above it.
    pub watermark: u64,
}

/// Recovers the pool from its logs, whose last `reserved` records are not for transactions; see
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

/// How the logs are scanned.
#[derive(Clone, Copy)]
struct LogScan {
    reading: Reading,
    /// The last records of each log, which are not for transactions.
    reserved: u32,
    /// Transactions that were replayed before are left out.
    filters: bool,
}

impl LogScan {
    /// Collects the committed transactions of all logs, and counts them in `report`, whose watermark becomes the highest number that was met.
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

    /// Appends the committed transactions of the log at `log` to `found`; returns how many records were read.
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

/// Stores the words of replayed transactions in place and writes them back, without a fence; how many there were.
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

/// Raises the watermark to `highest`, and zeros the logs; `late` moves the fence of what was replayed behind the watermark's store.
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
