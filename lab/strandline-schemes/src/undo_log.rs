//! The traditional undo log with which WrAP is compared (Giles, Doshi, Varman; section 4.2). Every old value is copied to the log and is durable
//! there before its word is stored to, and commit waits for all data.
//!
//! ```text
//! log     word 0   the number of the last transaction that has ended, plus one; 0 for a log that was never used
//!         line 1   records, two in a line
//! record  word 0   the address of a word
//!         word 1   its value when the transaction began
//!         word 2   transaction number (32 bits) << 32 | CRC-32C of number, place in the log, address and old value
//! ```
//!
//! # The protocol
//!
//! *Execution.* The first store to a word reads the word, appends its record, writes the record back and fences. Then the word is stored in place,
//! and its line's write-back is requested; the next record's fence waits for it. These are the paper's read and two writes, the second of them
//! through a buffer of one. Other stores to the word need no record.
//!
//! *Commit.* A fence waits for the remaining data. Then the transaction's number is stored in the log's first word, written back and fenced, and the
//! transaction is acknowledged.
//!
//! *Abort.* The old values are restored, written back and fenced; then the number is stored as for a commit. Only then are the locks released, so no
//! younger transaction that stored to these words is ever undone together with this one.
//!
//! # Crashes
//!
//! A checksum shows whether a record is complete, and a word is stored to only after its record is durable. Records become durable in order, so those
//! of the transaction in progress are the log's first ones with the next number. Recovery restores their old values, writes them back and fences.
//! Then it increments every log's number, as an abort does, whether it has found a record there or not. After a crash before that, it repeats
//! everything. Transactions in progress in several logs hold their locks, so they have no word in common. A log whose first word is 0 has no
//! transaction in progress, so the zeros that are written when the pool changes to another scheme may persist in any order.
//!
//! # Remains of one life never complete a record of another
//!
//! A record is valid by its number, place, address, old value and a checksum of all four. The checksum's word of a transaction's first record may
//! survive without the other words, so that recovery finds no record. If the next life reused the number, the address of its first record alone would
//! complete the old record, with an old value that another log's transaction may have replaced since. But no number is used in two lives: within a
//! life a number is used only when the mark of the previous one is durable. So the remains of a life carry at most the next number, and recovery
//! increments the number in the log's first word.

use crate::native;
use crate::wrap::PAPER;
use strandline_core::error::{Error, Result};
use strandline_core::layout::{Layout, SharedLayout, View};
use strandline_core::log::{RECORD_BYTES, make_log};
use strandline_core::memory::{LINE_BYTES, Memory, PersistentAddress, Step};
use strandline_core::scheme::{Full, RecoveryReport, RecoveryStep, Scheme};
use strandline_core::scheme::{Mode, Of, SchemeDescriptor};
use strandline_core::scheme::{check_transaction, logs};
use strandline_core::transaction::{Concurrency, Statistics, WriteSet};

/// The size of a record in bytes, including padding.
const BYTES: u64 = 32;

/// The undo log's state for one worker.
struct UndoLogged {
    log: PersistentAddress,
    capacity: u64,
    /// The running transaction's number.
    number: u64,
    /// The words stored to, in the order of their records, with their old values.
    old: Vec<(PersistentAddress, u64)>,
}

/// The undo log with which WrAP is compared: each old value is durable before its word is stored to.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::UNDO_LOG, Concurrency::SingleWriter, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| {
///     tx.write(tx.root(0), 5)?;
///     tx.write(tx.root(1), 6)
/// })?;
/// // After each old value, the data and the mark.
/// assert_eq!((worker.statistics().total - before).fences, 4);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static UNDO_LOG: SchemeDescriptor = SchemeDescriptor {
    code: 26,
    modes: &[
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "undo-log+single-writer",
            redundant: &[ABORT_MARK_FENCE],
        },
        Mode { concurrency: Concurrency::Locks, name: "undo-log+locks", redundant: &[ABORT_MARK_FENCE] },
    ],
    source: PAPER,
    description: "undo log, each old value durable before its word is stored to in place: WrAP's comparison",
    steps: &[&[
        Step::NewLogZero,
        Step::NewLogDirectory,
        Step::UndoLogHeader,
        Step::LogWriteBack,
        Step::LogFence,
        Step::HomeWriteBack,
        Step::HomeFence,
        Step::CommitWriteBack,
        Step::CommitFence,
        Step::TruncationWriteBack,
        Step::TruncationFence,
        Step::RecoveryChecksum,
        Step::RecoveryDataWriteBack,
        Step::RecoveryDataFence,
        Step::RecoveryTruncation,
        Step::RecoveryTruncationWriteBack,
        Step::RecoveryTruncationFence,
        Step::RecoveryTruncationPartial,
    ]],
    leftover: leave_record,
    ..native(&Of::<UndoLogged>::NEW)
};

const ABORT_MARK_FENCE: (Step, &str) = (
    Step::TruncationFence,
    "the locks are released by atomic adds, which on x86 complete the write-back of an aborted transaction's mark",
);

/// Fills a log with a record that is not truncated.
fn leave_record(layout: &Layout, random: &mut dyn FnMut(u64) -> u64, log: &mut [u64]) {
    let at = layout.word_near_roots(random);
    log.copy_from_slice(&undo_record_words(layout, at, random(u64::MAX)));
}

fn capacity(layout: &Layout) -> u64 {
    (layout.geometry.log_bytes - LINE_BYTES) / BYTES
}

fn record_at(log: PersistentAddress, place: u64) -> PersistentAddress {
    log.byte(LINE_BYTES + BYTES * place)
}

/// Encodes a record's words.
fn encode(number: u64, place: u64, at: PersistentAddress, old: u64) -> [u64; 3] {
    let mut bytes = [0; 32];
    for (to, word) in bytes.chunks_exact_mut(8).zip([number, place, at.offset(), old]) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    [at.offset(), old, number << 32 | u64::from(crc32c::crc32c(&bytes))]
}

/// Returns the words of a log whose first transaction is in progress: it stores to the word `at`, which held `old`. The crash checker puts this into
/// memory that was used before.
pub fn undo_record_words(layout: &Layout, at: PersistentAddress, old: u64) -> Vec<u64> {
    let mut words = vec![0; (layout.geometry.log_bytes / 8) as usize];
    words[0] = 1;
    words[(LINE_BYTES / 8) as usize..][..3].copy_from_slice(&encode(1, 0, at, old));
    words
}

impl UndoLogged {
    fn store_old<M: Memory>(&self, memory: &M) {
        for &(at, old) in &self.old {
            memory.store(at, old);
            memory.write_back(at, Step::HomeWriteBack);
        }
        memory.fence(Step::HomeFence);
    }

    /// Ends the running transaction, so that none of its stores is undone any more.
    fn end<M: Memory>(&mut self, memory: &M, write_back: Step, fence: Step) {
        self.number += 1;
        memory.store(self.log, self.number);
        memory.write_back(self.log, write_back);
        memory.fence(fence);
        self.old.clear();
    }
}

impl Scheme for UndoLogged {
    const IN_PLACE: bool = true;

    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self {
        make_log(view, index);
        let (memory, log) = (&view.memory, view.layout.log(index));
        if memory.load(log) == 0 {
            memory.store(log, 1);
            memory.write_back(log, Step::UndoLogHeader);
            memory.fence(Step::UndoLogHeader);
        }
        let number = memory.load(log);
        Self { log, capacity: capacity(&view.layout), number, old: Vec::with_capacity(256) }
    }

    fn release<M: Memory>(&mut self, _: &View<M>) {}

    fn begin<M: Memory>(&mut self, _: &View<M>) {
        self.old.clear();
    }

    fn write<M: Memory>(
        &mut self,
        view: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        let memory = &view.memory;
        let place = match previous {
            Some(place) => place,
            None => {
                let place = self.old.len() as u64;
                if place == self.capacity {
                    return Err(Full);
                }
                let old = memory.load_before_store(at);
                let record = record_at(self.log, place);
                memory.store_range(record, &encode(self.number, place, at, old));
                memory.write_back(record, Step::LogWriteBack);
                memory.fence(Step::LogFence);
                self.old.push((at, old));
                place as u32
            }
        };
        memory.store(at, value);
        memory.write_back(at, Step::HomeWriteBack);
        Ok(place)
    }

    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64 {
        view.memory.load(self.old[place as usize].0)
    }

    fn commit<M: Memory>(&mut self, view: &View<M>, _: &WriteSet, _: u64) -> u64 {
        view.memory.fence(Step::HomeFence);
        let records = self.old.len() as u64 * (BYTES / RECORD_BYTES) + 1;
        self.end(&view.memory, Step::CommitWriteBack, Step::CommitFence);
        records
    }

    fn abort<M: Memory>(&mut self, view: &View<M>) {
        if !self.old.is_empty() {
            self.store_old(&view.memory);
            self.end(&view.memory, Step::TruncationWriteBack, Step::TruncationFence);
        }
    }

    fn make_room<M: Memory>(&mut self, _: &View<M>, _: Concurrency, _: &mut Statistics) -> Result<()> {
        Err(Error::TransactionTooLarge { records: self.capacity })
    }

    fn recover<M: Memory>(view: &View<M>, begins: &mut dyn FnMut(RecoveryStep)) -> Result<RecoveryReport> {
        let memory = &view.memory;
        begins(RecoveryStep::Scan);
        let logs = logs(view)?;
        let watermark = memory.load(Layout::WATERMARK);
        check_transaction(watermark)?;
        let mut report = RecoveryReport { logs: logs.len() as u64, watermark, ..RecoveryReport::default() };
        let Scanned { old, begun, undone } = scan_logs(view, &logs);
        report.undone = undone;
        report.records = old.len() as u64;
        if let Some((wild, _)) = old.iter().find(|&&(at, _)| !view.layout.is_data(at, 1)) {
            return Err(Error::damaged(format!("an undo record names the address {:#x}", wild.offset())));
        }

        begins(RecoveryStep::Replay);
        for &(at, old) in &old {
            memory.store(at, old);
            memory.write_back(at, Step::RecoveryDataWriteBack);
            report.words += 1;
        }
        memory.fence(Step::RecoveryDataFence);

        begins(RecoveryStep::Truncate);
        for &(log, number) in &begun {
            if !memory.omitted(Step::RecoveryTruncation) {
                memory.store(log, number + 1);
            }
            memory.write_back(log, Step::RecoveryTruncationWriteBack);
        }
        memory.fence(Step::RecoveryTruncationFence);
        memory.store(SharedLayout::CLOCK, watermark);
        memory.store(SharedLayout::PUBLISHED_WATERMARK, watermark);
        Ok(report)
    }

    /// Does nothing: all committed values are home.
    fn drain<M: Memory>(_: &View<M>) {}
}

/// The contents of the logs that recovery uses.
struct Scanned {
    /// Old values in the order in which they were logged, log by log.
    old: Vec<(PersistentAddress, u64)>,
    /// The logs to truncate, with the numbers of their transactions.
    begun: Vec<(PersistentAddress, u64)>,
    /// The number of transactions that are undone.
    undone: u64,
}

fn scan_logs<M: Memory>(view: &View<M>, logs: &[PersistentAddress]) -> Scanned {
    let memory = &view.memory;
    let mut old = Vec::new();
    let mut begun = Vec::new();
    let mut undone = 0;
    for &log in logs {
        let number = memory.load(log);
        let before = old.len();
        for place in 0..if number == 0 { 0 } else { capacity(&view.layout) } {
            let mut found = [0; 3];
            memory.load_range(record_at(log, place), &mut found);
            let at = PersistentAddress::new(found[0]);
            let whole = found == encode(number, place, at, found[1]);
            let trusted = memory.omitted(Step::RecoveryChecksum) && found[2] >> 32 == number;
            if !whole && !trusted {
                break;
            }
            old.push((at, found[1]));
        }
        let found = old.len() > before;
        if number != 0 && (found || !memory.omitted(Step::RecoveryTruncationPartial)) {
            begun.push((log, number));
        }
        if found {
            undone += 1;
        }
    }
    Scanned { old, begun, undone }
}
