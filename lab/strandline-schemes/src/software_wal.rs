//! S-WAL, write-ahead logging of 64-byte blocks in software (Lu, Shu, Sun, Mutlu, *Loose-Ordering Consistency*, Fig. 2 (a) and section 5.2).
//!
//! # The protocol
//!
//! *Execution* (phase 1). The first write to a block copies it into the worker's log, with its address; the transaction's reads and writes access
//! this copy. The cache holds both copies, which H-WAL avoids.
//!
//! *Commit* (phase 2). The log's lines are written back and fenced. Then the commit record is stored, written back and fenced, and the transaction is
//! acknowledged. The record is one word, with TxID and number of blocks, so it is written atomically. A crash before the first fence leaves any part
//! of the blocks and no record.
//!
//! *In-place update* (phase 3). The new values are stored home, and their lines are written back and fenced. A crash leaves any part of them home;
//! recovery replays all of them from the log.
//!
//! *Truncation* (phase 4). The record's number of blocks is set to 0, written back and fenced. Only then are the locks released, so that an older
//! version is never replayed over a newer one that is home and truncated.
//!
//! So a log holds one transaction, and recovery replays the transactions of all logs that are above the watermark, in the order of their TxIDs. They
//! write different blocks. When that is durable, recovery ends by raising the watermark to the highest TxID in any log; after a crash before that, it
//! repeats everything.
//!
//! # Remains of one life never complete a record of another
//!
//! A commit record is one word, stored when all its blocks are durable, so earlier contents cannot complete it. The TxIDs that a life leaves are at
//! or below the watermark, and those of the next life are above it, so the logs need not be zeroed.

use crate::native;
use crate::write_ahead::{SORT, TRUNCATION_FENCE};
use std::collections::HashMap;
use strandline_core::scheme::{Mode, Of, SchemeDescriptor};

use strandline_core::error::Error;
use strandline_core::layout::{Layout, SharedLayout, View};
use strandline_core::log::{RECORD_BYTES, make_log};
use strandline_core::memory::{LINE_BYTES, LINE_WORDS, Memory, PersistentAddress, Step};
use strandline_core::scheme::{Full, RecoveryReport, RecoveryStep, Scheme};
use strandline_core::scheme::{check_transaction, logs};
use strandline_core::transaction::{Concurrency, Statistics, WriteSet};

/// The number of blocks that follow one line of addresses.
const GROUP: u64 = 7;
/// The number of bits of a commit record that hold the number of blocks; the rest is the TxID.
const COUNT_BITS: u32 = 20;

/// S-WAL's state for one worker.
struct SoftwareWriteAhead {
    log: PersistentAddress,
    capacity: u32,
    /// The running transaction's blocks, by line.
    blocks: HashMap<u64, u32>,
    /// The line written last, and its block.
    last: (u64, u32),
}

/// S-WAL: write-ahead logging of 64-byte blocks.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::S_WAL, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| {
///     tx.write(tx.root(0), 5)?;
///     tx.write(tx.root(1), 6)
/// })?;
/// // After the log, the commit record, the data and the truncation.
/// assert_eq!((worker.statistics().total - before).fences, 4);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static S_WAL: SchemeDescriptor = SchemeDescriptor {
    code: 8,
    modes: &[
        Mode { concurrency: Concurrency::Stm, name: "s-wal", redundant: &[SORT] },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "s-wal+single-writer",
            redundant: &[SORT, TRUNCATION_FENCE],
        },
    ],
    source: "Lu, Shu, Sun, Mutlu: Loose-Ordering Consistency",
    description: "redo log of 64-byte blocks written during execution, fences after log, commit record, data and truncation",
    steps: &[&[
        Step::NewLogZero,
        Step::NewLogDirectory,
        Step::LogWriteBack,
        Step::LogFence,
        Step::CommitWriteBack,
        Step::CommitFence,
        Step::HomeWriteBack,
        Step::HomeFence,
        Step::TruncationWriteBack,
        Step::TruncationFence,
        Step::RecoveryWatermarkFilter,
        Step::RecoverySort,
        Step::RecoveryDataWriteBack,
        Step::RecoveryDataFence,
        Step::RecoveryWatermark,
        Step::RecoveryWatermarkWriteBack,
        Step::RecoveryWatermarkFence,
    ]],
    leftover: leave_block,
    ..native(&Of::<SoftwareWriteAhead>::NEW)
};

/// Fills a log with a transaction that is not truncated: it stores one block, near the roots.
fn leave_block(layout: &Layout, random: &mut dyn FnMut(u64) -> u64, log: &mut [u64]) {
    // The record, followed by the addresses of seven blocks, and the blocks.
    log[0] = (1 + random(39)) << 20 | 1;
    log[8] = layout.word_near_roots(random).line().offset();
    log[16..24].iter_mut().for_each(|word| *word = random(u64::MAX));
}

/// Returns the addresses in the log of block `number`'s address and words.
fn block_at(log: PersistentAddress, number: u32) -> (PersistentAddress, PersistentAddress) {
    let (group, slot) = (u64::from(number) / GROUP, u64::from(number) % GROUP);
    let group = log.byte(LINE_BYTES * (1 + (GROUP + 1) * group));
    (group.word(slot), group.byte(LINE_BYTES * (1 + slot)))
}

fn capacity(layout: &Layout) -> u32 {
    let groups = (layout.geometry.log_bytes / LINE_BYTES - 1) / (GROUP + 1);
    (groups * GROUP).min((1 << COUNT_BITS) - 1) as u32
}

impl SoftwareWriteAhead {
    fn count(&self) -> u32 {
        self.blocks.len() as u32
    }
}

impl Scheme for SoftwareWriteAhead {
    fn lease<M: Memory>(view: &View<M>, index: u64) -> Self {
        make_log(view, index);
        Self {
            log: view.layout.log(index),
            capacity: capacity(&view.layout),
            blocks: HashMap::with_capacity(256),
            last: (u64::MAX, 0),
        }
    }

    fn release<M: Memory>(&mut self, _: &View<M>) {}

    fn begin<M: Memory>(&mut self, _: &View<M>) {
        self.blocks.clear();
        self.last = (u64::MAX, 0);
    }

    fn write<M: Memory>(
        &mut self,
        view: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        let memory = &view.memory;
        if let Some(place) = previous {
            memory.store(self.place(place), value);
            return Ok(place);
        }
        let line = at.line();
        let word = (at.offset() - line.offset()) / 8;
        let known = match self.last.0 == line.offset() {
            true => Some(self.last.1),
            false => self.blocks.get(&line.offset()).copied(),
        };
        let number = known.unwrap_or(self.count());
        self.last = (line.offset(), number);
        let (address, words) = block_at(self.log, number);
        if known.is_some() {
            memory.store(words.word(word), value);
        } else {
            if number == self.capacity {
                return Err(Full);
            }
            self.blocks.insert(line.offset(), number);
            let mut copy = [0; LINE_WORDS as usize];
            memory.load_range(line, &mut copy);
            copy[word as usize] = value;
            memory.store(address, line.offset());
            memory.store_range(words, &copy);
        }
        Ok(number * LINE_WORDS as u32 + word as u32)
    }

    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64 {
        view.memory.load(self.place(place))
    }

    fn running_records(&self) -> (PersistentAddress, u64) {
        (PersistentAddress::NULL, 0)
    }

    fn commit<M: Memory>(&mut self, view: &View<M>, _: &WriteSet, transaction: u64) -> u64 {
        let (memory, count) = (&view.memory, self.count());
        for number in 0..count {
            let (address, words) = block_at(self.log, number);
            if u64::from(number) % GROUP == 0 {
                memory.write_back(address, Step::LogWriteBack);
            }
            memory.write_back(words, Step::LogWriteBack);
        }
        memory.fence(Step::LogFence);
        memory.store(self.log, transaction << COUNT_BITS | u64::from(count));
        memory.write_back(self.log, Step::CommitWriteBack);
        memory.fence(Step::CommitFence);
        let lines = u64::from(count) + u64::from(count).div_ceil(GROUP) + 1;
        lines * (LINE_BYTES / RECORD_BYTES)
    }

    fn stored_home<M: Memory>(&mut self, view: &View<M>, writes: &WriteSet, _: Concurrency) {
        let memory = &view.memory;
        writes.for_each_line(|line| memory.write_back(line, Step::HomeWriteBack));
        memory.fence(Step::HomeFence);
        let record = memory.load(self.log);
        memory.store(self.log, record >> COUNT_BITS << COUNT_BITS);
        memory.write_back(self.log, Step::TruncationWriteBack);
        memory.fence(Step::TruncationFence);
    }

    fn abort<M: Memory>(&mut self, _: &View<M>) {}

    fn make_room<M: Memory>(&mut self, _: &View<M>, _: Concurrency, _: &mut Statistics) -> Result<(), Error> {
        Err(Error::TransactionTooLarge { records: self.capacity.into() })
    }

    fn recover<M: Memory>(
        view: &View<M>,
        begins: &mut dyn FnMut(RecoveryStep),
    ) -> Result<RecoveryReport, Error> {
        let memory = &view.memory;
        begins(RecoveryStep::Scan);
        let logs = logs(view)?;
        let mut report = RecoveryReport { logs: logs.len() as u64, ..RecoveryReport::default() };
        report.watermark = memory.load(Layout::WATERMARK);
        let mut committed = scan_committed(view, &logs, &mut report)?;
        check_transaction(report.watermark)?;

        begins(RecoveryStep::Sort);
        if !memory.omitted(Step::RecoverySort) {
            committed.sort_by_key(|&(transaction, ..)| transaction);
        }
        report.replayed = committed.len() as u64;
        let blocks = || {
            let numbers = committed.iter().flat_map(|&(_, log, count)| (0..count).map(move |i| (log, i)));
            numbers.map(|(log, number)| {
                let (address, words) = block_at(log, number);
                (PersistentAddress::new(memory.load(address)), words)
            })
        };
        if let Some((wild, _)) = blocks().find(|&(home, _)| !view.layout.is_data(home, LINE_WORDS)) {
            return Err(Error::damaged(format!("a log names the block {:#x}", wild.offset())));
        }

        begins(RecoveryStep::Replay);
        for (home, words) in blocks() {
            let mut copy = [0; LINE_WORDS as usize];
            memory.load_range(words, &mut copy);
            memory.store_range(home, &copy);
            report.words += LINE_WORDS;
        }
        for (home, _) in blocks() {
            memory.write_back(home, Step::RecoveryDataWriteBack);
        }
        memory.fence(Step::RecoveryDataFence);

        begins(RecoveryStep::Truncate);
        if !memory.omitted(Step::RecoveryWatermark) {
            memory.store(Layout::WATERMARK, report.watermark);
        }
        memory.write_back(Layout::WATERMARK, Step::RecoveryWatermarkWriteBack);
        memory.fence(Step::RecoveryWatermarkFence);
        memory.store(SharedLayout::CLOCK, report.watermark);
        memory.store(SharedLayout::PUBLISHED_WATERMARK, report.watermark);
        Ok(report)
    }

    /// Does nothing: all committed values are home.
    fn drain<M: Memory>(_: &View<M>) {}
}

/// Returns the committed transactions to replay: number, log, blocks. `report` has the watermark before, and gets the one after recovery.
///
/// # Errors
/// Returns [`Error::Damaged`] if a log claims more blocks than fit.
fn scan_committed<M: Memory>(
    view: &View<M>,
    logs: &[PersistentAddress],
    report: &mut RecoveryReport,
) -> Result<Vec<(u64, PersistentAddress, u32)>, Error> {
    let (memory, watermark) = (&view.memory, report.watermark);
    let mut committed = Vec::new();
    for &log in logs {
        let record = memory.load(log);
        let (transaction, count) = (record >> COUNT_BITS, record as u32 & ((1 << COUNT_BITS) - 1));
        if count > capacity(&view.layout) {
            return Err(Error::damaged(format!(
                "the log at {:#x} says that it has {count} blocks",
                log.offset()
            )));
        }
        report.watermark = report.watermark.max(transaction);
        report.records += u64::from(count);
        report.committed += u64::from(count > 0);
        if count > 0 && (transaction > watermark || memory.omitted(Step::RecoveryWatermarkFilter)) {
            committed.push((transaction, log, count));
        }
    }
    Ok(committed)
}

impl SoftwareWriteAhead {
    /// Returns a location as an address in the log.
    fn place(&self, place: u32) -> PersistentAddress {
        let (_, words) = block_at(self.log, place / LINE_WORDS as u32);
        words.word((place % LINE_WORDS as u32).into())
    }
}
