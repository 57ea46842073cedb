//! Blurred Persistence, BPPM (Lu, Shu, Sun; sections III and IV): execution in the log, and volatile
//! checkpoints with bulk persistence.
//!
//! # The protocol
//!
//! *Execution in log.* A write appends a record to the worker's log, in place of an execution area. Records
//! that caches evict before their transaction commits do no harm: no commit record closes them. Every 64-bit
//! block carries a torn bit that differs from the one the log held before this run, so that recovery sees
//! which blocks were written; there is no head or tail pointer to order.
//!
//! *Commit.* With all locks held, the worker publishes that it is in commit, takes the TxID, validates, and
//! only then stores the commit record (one that is evicted *is* a commit). It writes back the transaction's
//! records and every abort record since its last commit, and fences once: the transaction is acknowledged.
//!
//! *Volatile checkpoint.* The new values are stored home and stay in the cache. A crash may find any part of
//! them home: all of them are durable in the log.
//!
//! *Bulk persistence*, when a log is full. W is the last TxID taken. Once every commit at or below W has
//! stored home, all home lines of transactions above the old watermark and up to W, of all logs, are written
//! back and fenced; then the watermark W is stored, written back and fenced, and published. A crash before
//! the watermark is durable replays everything above the old one, in TxID order; a crash after it ignores
//! everything up to W. Without the watermark one log's older version could be replayed over another's newer,
//! already truncated one.
//!
//! *Restart.* A log begins anew when all its TxIDs are at or below the published watermark. What was
//! never written back is, holes and inert records over the rest included, so that the new run finds every
//! word with the other torn bit; then the phase flips.
//!
//! *Abort.* An abort record at the end and over every 32nd record bridges the holes that are left; nothing is
//! written back until the next commit.
//!
//! # Recovery
//!
//! Scan every log once per phase; sort what is committed by TxID; replay what lies above the watermark; write
//! back and fence. Raise the watermark above every TxID that any commit record names, complete or not, and
//! fence: zeroing may make an incomplete transaction look complete. Only then zero the logs. A crash anywhere
//! repeats it all, to the same result: replay is idempotent, and what lies at or below the watermark is home.

use super::line_set::LineSet;
use super::{Full, Scheme};
use crate::error::{Error, Result};
use crate::log::{Committed, RECORD_BYTES, Record, ThreadLog, highest_transaction, merge, scan, zero};
use crate::memory::{LINE_BYTES, LINE_WORDS, Memory, PersistentAddress, Step};
use crate::pool::layout::{Layout, SharedLayout, View, pack, unpack};
use crate::transaction::{Concurrency, Statistics, WriteSet};

const LINE_RECORDS: u64 = LINE_BYTES / RECORD_BYTES;

/// BPPM's state for one worker: its log.
pub struct Blurred {
    log: ThreadLog,
    /// In the `Sync` domain the log is a volatile execution area that begins anew with each transaction.
    volatile: bool,
    /// Whether the running transaction began in an empty log.
    began_empty: bool,
}

impl Scheme for Blurred {
    const NAME: &'static str = "bppm";

    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self {
        Self {
            log: ThreadLog::lease(view, index),
            volatile: view.memory.device().is_some(),
            began_empty: true,
        }
    }

    fn release<M: Memory>(&mut self, view: &View<M>) {
        if !self.volatile {
            self.log.release(&view.memory);
        }
    }

    #[inline(always)]
    fn begin<M: Memory>(&mut self, _: &View<M>) {
        if self.volatile {
            self.log.begin_volatile();
        } else {
            self.log.begin();
        }
        self.began_empty = self.log.is_empty();
    }

    #[inline(always)]
    fn write<M: Memory>(&mut self, view: &View<M>, at: PersistentAddress, value: u64) -> Result<u32, Full> {
        self.log.append(&view.memory, at, value).map_err(|_| Full)
    }

    #[inline(always)]
    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64 {
        self.log.value(&view.memory, place)
    }

    #[inline(always)]
    fn records(&self) -> u64 {
        if self.volatile {
            // The shared log is not padded.
            u64::from(self.log.length()) + 1
        } else {
            u64::from(self.log.committed_length())
        }
    }

    fn running_records(&self) -> (PersistentAddress, u64) {
        self.log.running()
    }

    #[inline]
    fn commit<M: Memory>(&mut self, view: &View<M>, transaction: u64) {
        self.log.commit(&view.memory, transaction);
    }

    #[inline(always)]
    fn truncate<M: Memory>(&mut self, _: &View<M>, _: &WriteSet) {}

    fn abort<M: Memory>(&mut self, view: &View<M>) {
        if !self.volatile {
            self.log.abort(&view.memory);
        }
    }

    fn make_room<M: Memory>(
        &mut self,
        view: &View<M>,
        concurrency: Concurrency,
        statistics: &mut Statistics,
    ) -> Result<(), Error> {
        if self.began_empty {
            return Err(Error::TransactionTooLarge { records: self.log.records() });
        }
        let memory = &view.memory;
        let covered = || self.log.last_transaction() <= memory.load(SharedLayout::PUBLISHED_WATERMARK);
        if !covered() {
            memory.lock(SharedLayout::BULK);
            // Whoever held it may have persisted this log's transactions too.
            if !covered() {
                match concurrency {
                    Concurrency::Stm => persist_in_bulk(view),
                    Concurrency::SingleWriter => {
                        memory.lock(SharedLayout::WRITER);
                        persist_in_bulk(view);
                        memory.unlock(SharedLayout::WRITER);
                    }
                }
                statistics.bulk_persists += 1;
            }
            memory.unlock(SharedLayout::BULK);
        }
        self.log.restart(memory);
        statistics.log_restarts += 1;
        Ok(())
    }
}

/// Persists all transactions so far in bulk and moves the watermark up; the caller holds
/// [`SharedLayout::BULK`]. Commits go on meanwhile.
pub(crate) fn persist_in_bulk<M: Memory>(view: &View<M>) {
    let memory = &view.memory;
    let old = memory.load(SharedLayout::PUBLISHED_WATERMARK);
    let watermark = memory.load(SharedLayout::CLOCK);
    if watermark == old {
        return;
    }
    if !memory.omitted(Step::BulkWait) {
        for slot in view.shared.slots() {
            loop {
                let state = memory.load(slot.commit_state());
                if state == 0 || state > watermark + 2 {
                    break;
                }
                memory.pause();
            }
        }
    }
    if !memory.write_back_all(Step::BulkDataWriteBack) {
        let mut lines = LineSet::new(view.layout.geometry.size);
        for index in 0..view.layout.geometry.logs {
            collect_home_lines(view, index, old, watermark, &mut lines);
        }
        let partial = memory.omitted(Step::BulkDataWriteBackPartial);
        for line in lines.iter().take(if partial { 1 } else { usize::MAX }) {
            memory.write_back(line, Step::BulkDataWriteBack);
        }
    }
    let late = memory.omitted(Step::BulkDataFenceLate);
    if !late {
        memory.fence(Step::BulkDataFence);
    }
    memory.store(Layout::WATERMARK, watermark + u64::from(memory.omitted(Step::WatermarkHigh)));
    if late {
        memory.fence(Step::BulkDataFence);
    }
    memory.write_back(Layout::WATERMARK, Step::WatermarkWriteBack);
    if memory.omitted(Step::WatermarkFenceLate) {
        memory.store(SharedLayout::PUBLISHED_WATERMARK, watermark);
    }
    memory.fence(Step::WatermarkFence);
    memory.store(SharedLayout::PUBLISHED_WATERMARK, watermark);
}

/// Collects the home lines of the transactions in log `index` above `old` and up to `watermark`. Where
/// the cost of the paper's `wbinvd` is emulated, the log's own lines are written back as well.
///
/// The log's owner goes on appending, past the records read here. It may restart the log only if none of
/// these transactions is in it; then what is read here may be anything, and at worst some lines are written
/// back in vain.
fn collect_home_lines<M: Memory>(view: &View<M>, index: u64, old: u64, watermark: u64, lines: &mut LineSet) {
    let (memory, slot, log) = (&view.memory, view.shared.slot(index), view.layout.log(index));
    let (run, end) = unpack(memory.load(slot.committed()));
    let from = match unpack(memory.load(slot.persisted())) {
        (persisted_run, upto) if persisted_run == run => upto,
        _ => 0,
    };
    let mut upto = from;
    // The lines of the transaction being read, until its commit record is.
    let mut pending: Vec<PersistentAddress> = Vec::new();
    let mut blocks = [0; LINE_WORDS as usize];
    'log: for line in u64::from(from) / LINE_RECORDS..u64::from(end).div_ceil(LINE_RECORDS) {
        memory.load_range(log.byte(line * LINE_BYTES), &mut blocks);
        for (i, record) in blocks.as_chunks::<2>().0.iter().enumerate() {
            let at = (line * LINE_RECORDS) as u32 + i as u32;
            if !(from..end).contains(&at) {
                continue;
            }
            match Record::decode(*record) {
                Record::Data { mask: 0, .. } => {}
                Record::Data { address, .. } => pending.push(PersistentAddress::new(address)),
                Record::Abort { .. } => pending.clear(),
                Record::Commit { transaction } => {
                    if transaction > watermark {
                        break 'log;
                    }
                    if transaction > old {
                        for &at in pending.iter().filter(|&&at| view.layout.is_data(at, 1)) {
                            lines.insert(at);
                        }
                    }
                    pending.clear();
                    upto = at + 1;
                }
            }
        }
    }
    if memory.emulates_latency() {
        let bytes = RECORD_BYTES * u64::from(upto - from);
        memory.write_back_range(log.byte(RECORD_BYTES * u64::from(from)), bytes, Step::BulkLogWriteBack);
    }
    memory.store(slot.persisted(), pack(run, upto));
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Logs in the directory.
    pub logs: u64,
    /// Log records read.
    pub records: u64,
    /// Committed transactions found.
    pub committed: u64,
    /// Of these, replayed: above the watermark.
    pub replayed: u64,
    /// Words stored home.
    pub words: u64,
    /// The watermark afterwards; new TxIDs start above it.
    pub watermark: u64,
}

/// Recovers the pool from its logs (section III-C); `begins` is told when a step begins. Run by one thread,
/// before any transaction. Idempotent: a crash inside it is recovered by running it again.
///
/// # Errors
/// The log directory or a log names an address where none can be. Nothing has been changed then.
pub fn recover<M: Memory>(view: &View<M>, mut begins: impl FnMut(RecoveryStep)) -> Result<RecoveryReport> {
    let memory = &view.memory;
    let records = view.layout.log_records();
    let mut report = RecoveryReport::default();

    begins(RecoveryStep::Scan);
    let mut logs = Vec::new();
    for index in 0..view.layout.geometry.logs {
        let entry = memory.load(Layout::LOG_DIRECTORY.word(index));
        let log = view.layout.log(index);
        match entry {
            0 => {}
            entry if entry == log.offset() => logs.push(log),
            entry => {
                return Err(Error::Damaged(format!(
                    "log {index} should lie at {:#x}, the directory says {entry:#x}",
                    log.offset()
                )));
            }
        }
    }
    report.logs = logs.len() as u64;
    let mut committed: Vec<Committed> = Vec::new();
    let mut highest = memory.load(Layout::WATERMARK);
    let watermark = highest;
    for &log in &logs {
        for phase in [false, true] {
            report.records += scan(memory, log, records, phase, &mut committed);
        }
        if !memory.omitted(Step::RecoveryWatermarkLow) {
            highest = highest.max(highest_transaction(memory, log, records));
        }
    }
    report.committed = committed.len() as u64;
    highest = committed.iter().fold(highest, |highest, found| highest.max(found.transaction));

    begins(RecoveryStep::Sort);
    if !memory.omitted(Step::RecoveryWatermarkFilter) {
        committed.retain(|found| found.transaction > watermark);
    }
    if !memory.omitted(Step::RecoverySort) {
        committed.sort_by_key(|found| found.transaction);
    }
    report.replayed = committed.len() as u64;
    let writes = || committed.iter().flat_map(|found| &found.writes);
    if let Some(wild) = writes().find(|write| !view.layout.is_data(write.address, 1)) {
        return Err(Error::Damaged(format!("a log record names the address {:#x}", wild.address.offset())));
    }

    begins(RecoveryStep::Replay);
    for write in writes() {
        let value = match write.mask {
            0xff => write.value,
            mask => merge(memory.load(write.address), write.value, mask),
        };
        memory.store(write.address, value);
        report.words += 1;
    }
    for write in writes() {
        memory.write_back(write.address, Step::RecoveryDataWriteBack);
    }
    let late = memory.omitted(Step::RecoveryDataFenceLate);
    if !late {
        memory.fence(Step::RecoveryDataFence);
    }

    begins(RecoveryStep::Truncate);
    let zero_logs = || {
        for &log in &logs {
            if !memory.omitted(Step::RecoveryZero) {
                zero(memory, log, view.layout.geometry.log_bytes);
            }
            memory.write_back_range(log, view.layout.geometry.log_bytes, Step::RecoveryZeroWriteBack);
        }
    };
    if memory.omitted(Step::RecoveryZeroEarly) {
        zero_logs();
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
        zero_logs();
    }
    memory.fence(Step::RecoveryZeroFence);
    memory.store(SharedLayout::CLOCK, highest);
    memory.store(SharedLayout::PUBLISHED_WATERMARK, highest);
    report.watermark = highest;
    Ok(report)
}
