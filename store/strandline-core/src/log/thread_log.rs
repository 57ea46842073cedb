//! A thread's log. Within a run, each word is stored only once, except that abort records are stored over a transaction that is already aborted. When
//! a run begins, each word durably carries the other torn bit, so that no remains of an older run or an earlier life can complete a record of this
//! one (`scheme/recovery.rs`). Transactions execute in the log as in Blurred Persistence, or are copied into it when they commit (`copying.rs`).

use super::RECORD_BYTES;
use super::record::{ABORT_GROUP_RECORDS, RECORD_BLOCKS, Record};
use crate::layout::{Layout, Slot, View, pack, unpack};
use crate::memory::{LINE_BYTES, Memory, PersistentAddress, Step};

pub(super) const RECORDS_PER_LINE: u32 = (LINE_BYTES / RECORD_BYTES) as u32;

/// The log has no room for another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFull;

/// The writing end of one log, owned by the worker that leases it.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::log::{ThreadLog, scan};
///
/// let (memory, root) = (&view.memory, layout.root(0));
/// let mut log = ThreadLog::lease(&view, 0, 0);
/// log.begin();
/// let position = log.append(memory, root, 7).unwrap();
/// // The transaction executes in its log.
/// assert_eq!(log.value(memory, position), 7);
/// log.commit(memory, 1);
///
/// let mut committed = Vec::new();
/// scan(memory, layout.log(0), layout.log_records(), true, &mut committed);
/// assert_eq!((committed[0].transaction, committed[0].writes[0].value), (1, 7));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct ThreadLog {
    start: PersistentAddress,
    pub(super) slot: Slot,
    pub(super) records: u32,
    /// The position of the next record.
    pub(super) position: u32,
    /// The position of the running transaction's first record.
    begin: u32,
    /// The torn bit of this run.
    pub(super) phase: bool,
    run: u32,
    /// Position of the last commit record plus one, 0 for none in this run.
    last_commit: u32,
    /// The highest TxID in this run, 0 for none.
    last_transaction: u64,
    /// Positions of this run's abort records that are not yet written back.
    abort_records: Vec<u32>,
    /// The line that is being gathered before it is stored past the cache.
    pub(super) gathered: [[u64; RECORD_BLOCKS as usize]; RECORDS_PER_LINE as usize],
    /// Ranges of this run's records that were never written back, because their transactions aborted.
    unwritten: Vec<(u32, u32)>,
}

/// If the pool does not have log `index` yet, creates it. The log is durably zeroed before the directory refers to it.
pub fn make_log<M: Memory>(view: &View<M>, index: u64) {
    let (memory, start, bytes) = (&view.memory, view.layout.log(index), view.layout.geometry.log_bytes);
    let entry = Layout::LOG_DIRECTORY.word(index);
    if memory.load(entry) == 0 {
        if !memory.omitted(Step::NewLogZero) {
            zero(memory, start, bytes);
        }
        memory.write_back_range(start, bytes, Step::NewLogZero);
        memory.fence(Step::NewLogZero);
        memory.store(entry, start.offset());
        memory.write_back(entry, Step::NewLogDirectory);
        memory.fence(Step::NewLogDirectory);
    }
}

impl ThreadLog {
    /// Leases log `index` in its present state; creates it first if the pool does not have it yet. Transactions may not use its last `reserved`
    /// records.
    pub fn lease<M: Memory>(view: &View<M>, index: u64, reserved: u32) -> Self {
        let (memory, slot, start) = (&view.memory, view.shared.slot(index), view.layout.log(index));
        make_log(view, index);
        let resting = slot.resting();
        let position = memory.load(resting) as u32;
        Self {
            start,
            slot,
            records: view.layout.log_records() as u32 - reserved,
            position,
            begin: position,
            phase: memory.load(resting.word(1)) == 0,
            run: unpack(memory.load(slot.committed())).0,
            last_commit: memory.load(resting.word(2)) as u32,
            last_transaction: memory.load(resting.word(3)),
            abort_records: Vec::new(),
            gathered: [[0; RECORD_BLOCKS as usize]; RECORDS_PER_LINE as usize],
            unwritten: Vec::new(),
        }
    }

    /// Returns a log without room for any record.
    pub fn none() -> Self {
        Self {
            start: PersistentAddress::NULL,
            slot: Slot::NONE,
            records: 0,
            position: 0,
            begin: 0,
            phase: false,
            run: 0,
            last_commit: 0,
            last_transaction: 0,
            abort_records: Vec::new(),
            gathered: [[0; RECORD_BLOCKS as usize]; RECORDS_PER_LINE as usize],
            unwritten: Vec::new(),
        }
    }

    /// Leaves the log for the next lessee. Writes back the remains of aborted transactions, so that only the log's position has to be remembered.
    pub fn release<M: Memory>(&mut self, memory: &M) {
        self.write_back_rest(memory);
        self.unwritten.clear();
        self.abort_records.clear();
        let resting = self.slot.resting();
        memory.store(resting, self.position.into());
        memory.store(resting.word(1), u64::from(!self.phase));
        memory.store(resting.word(2), self.last_commit.into());
        memory.store(resting.word(3), self.last_transaction);
    }

    /// Returns the number of records in the log.
    pub fn records(&self) -> u64 {
        self.records.into()
    }

    /// Returns the address of the first reserved record.
    pub fn reserved(&self) -> PersistentAddress {
        self.at(self.records)
    }

    /// Returns the number of this run's records. If no transaction is running, the next one begins there.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Returns whether nothing was written in this run.
    pub fn is_empty(&self) -> bool {
        self.position == 0
    }

    /// Returns the number of the running transaction's records so far.
    pub fn length(&self) -> u32 {
        self.position - self.begin
    }

    /// Returns the highest TxID in this run, or 0.
    pub fn last_transaction(&self) -> u64 {
        self.last_transaction
    }

    /// Returns the address of the record at `position`.
    pub(super) fn at(&self, position: u32) -> PersistentAddress {
        self.start.word_inside(u64::from(position) * RECORD_BLOCKS)
    }

    /// Begins a transaction.
    pub fn begin(&mut self) {
        self.begin = self.position;
    }

    /// Begins a transaction at the start of the log. This is for the `Sync` domain, in which the log is a volatile execution area.
    pub fn begin_volatile(&mut self) {
        self.position = 0;
        self.begin = 0;
    }

    /// Appends new data of a word. Returns the record's position. Always leaves room for one commit or abort record.
    ///
    /// # Errors
    /// Returns an error if there is no room.
    pub fn append<M: Memory>(
        &mut self,
        memory: &M,
        address: PersistentAddress,
        value: u64,
    ) -> Result<u32, LogFull> {
        let position = self.position;
        if position + 1 >= self.records {
            return Err(LogFull);
        }
        let record = Record::Data { address: address.offset(), value, mask: 0xff };
        memory.store_pair(self.at(position), record.encode(self.phase));
        self.position = position + 1;
        if position.is_multiple_of(RECORDS_PER_LINE) && position + RECORDS_PER_LINE < self.records {
            // If `clwb` evicts lines, the next line comes from memory, and the next commit would wait for it.
            memory.prefetch_for_write(self.at(position + RECORDS_PER_LINE));
        }
        Ok(position)
    }

    /// Returns the value of the data record at `position`.
    pub fn value<M: Memory>(&self, memory: &M, position: u32) -> u64 {
        let at = self.at(position);
        // Bit 0 of the data is not in the data block; it is the metadata's TailBit.
        memory.load(at) & !1 | memory.load(at.word(1)) >> 1 & 1
    }

    /// Returns the address and the number of the running transaction's records.
    pub fn running(&self) -> (PersistentAddress, u64) {
        (self.at(self.begin), self.length().into())
    }

    /// Commits the running transaction under `transaction`: stores the commit record, writes back the transaction's records and each abort record
    /// since the last commit, and fences once. The transaction is durable when this returns. Returns the number of records written, including
    /// filling.
    pub fn commit<M: Memory>(&mut self, memory: &M, transaction: u64) -> u64 {
        self.commit_as(memory, Record::Commit { transaction }, transaction)
    }

    /// Like [`ThreadLog::commit`], but the commit record contains the number of the transaction's records.
    pub fn commit_counted<M: Memory>(&mut self, memory: &M, transaction: u64) -> u64 {
        let records = self.length().into();
        self.commit_as(memory, Record::CountedCommit { transaction, records }, transaction)
    }

    fn commit_as<M: Memory>(&mut self, memory: &M, commit: Record, transaction: u64) -> u64 {
        let from = self.begin;
        let to = self.store_commit(memory, self.position, commit);
        if memory.omitted(Step::CommitFenceEarly) {
            memory.fence(Step::CommitFence);
        }
        let partial = memory.omitted(Step::CommitWriteBackPartial);
        self.write_back(memory, from, if partial { from + 1 } else { to }, Step::CommitWriteBack);
        if !self.abort_records.is_empty() {
            self.write_back_abort_records(memory, self.at(from).line());
        }
        if !memory.omitted(Step::CommitFenceEarly) {
            memory.fence(Step::CommitFence);
        }
        self.committed_to(memory, to, transaction)
    }

    /// Stores the commit record at `position`. Returns the position at which the next transaction begins.
    ///
    /// Inert records fill the last line. Otherwise the next transaction would begin in a line that is already written back: it would have to fetch
    /// the line again, from memory if `clwb` evicts, and write it back a second time.
    pub(super) fn store_commit<M: Memory>(&self, memory: &M, position: u32, commit: Record) -> u32 {
        memory.store_pair(self.at(position), commit.encode(self.phase));
        let to = (position + 1).next_multiple_of(RECORDS_PER_LINE);
        let inert = Record::INERT.encode(self.phase);
        for record in position + 1..to {
            memory.store_pair(self.at(record), inert);
        }
        to
    }

    /// Notes that the running transaction is durable as `transaction`, and that the next one begins at `to`. Returns the number of records that it
    /// took.
    pub(super) fn committed_to<M: Memory>(&mut self, memory: &M, to: u32, transaction: u64) -> u64 {
        self.ends_at(to, transaction);
        self.is_durable(memory)
    }

    /// Notes that the running transaction ends as `transaction` at `to`, where the next one begins.
    pub(super) fn ends_at(&mut self, to: u32, transaction: u64) {
        self.position = to;
        self.last_commit = to;
        self.last_transaction = transaction;
    }

    /// Notes that the last transaction is durable. Returns the number of records that it took.
    pub(super) fn is_durable<M: Memory>(&self, memory: &M) -> u64 {
        memory.store(self.slot.committed(), pack(self.run, self.position));
        u64::from(self.position - self.begin)
    }

    #[cold]
    fn write_back_abort_records<M: Memory>(&mut self, memory: &M, written_from: PersistentAddress) {
        let mut last = PersistentAddress::NULL;
        for record in std::mem::take(&mut self.abort_records) {
            let line = self.at(record).line();
            // Positions ascend, and so do lines. Lines of the committing transaction are written back already.
            if line != last && line < written_from {
                memory.write_back(line, Step::AbortRecordWriteBack);
                last = line;
            }
        }
    }

    /// Aborts the running transaction: stores an abort record at its end and over each [`ABORT_GROUP_RECORDS`]-th of its records; each contains the
    /// back-pointer to the last commit record. Nothing is written back, so the other records may become holes.
    pub fn abort<M: Memory>(&mut self, memory: &M) {
        if self.length() == 0 {
            return;
        }
        let end = self.position;
        if !memory.omitted(Step::AbortRecord) {
            let back_pointer = u64::from(self.last_commit);
            let blocks = Record::Abort { back_pointer }.encode(self.phase);
            let group = ABORT_GROUP_RECORDS as u32;
            let over = (self.begin + group - 1..end).step_by(group as usize).chain([end]);
            for record in over.filter(|&record| record == end || !memory.omitted(Step::AbortRecordPartial)) {
                memory.store_range(self.at(record), &blocks);
                self.abort_records.push(record);
            }
        }
        self.unwritten.push((self.begin, end + 1));
        self.position = end + 1;
        self.begin = self.position;
    }

    /// Ends the running transaction in a log in which only a count assigns records to transactions. Its blocks are not used again in this run, and
    /// nothing records that it existed.
    pub fn abandon(&mut self) {
        if self.length() > 0 {
            self.unwritten.push((self.begin, self.position));
            self.begin = self.position;
        }
    }

    /// Returns whether the last commit has filled another of `parts` equal parts of the log.
    pub fn has_crossed(&self, parts: u32) -> bool {
        let part = (self.records / parts).max(1);
        self.begin / part != self.position / part
    }

    /// Restarts the log. All of its transactions must be at or below the published watermark. Stores inert records over the rest of the log, writes
    /// back each line of the run that is not yet written back, fences, and flips the phase. So when the next run begins, each word of the log durably
    /// carries the other torn bit.
    pub fn restart<M: Memory>(&mut self, memory: &M) {
        if memory.omitted(Step::RestartPhaseEarly) {
            self.phase = !self.phase;
        }
        if !memory.omitted(Step::RestartInert) {
            let inert = Record::INERT.encode(self.phase);
            for record in self.position..self.records {
                memory.store_range(self.at(record), &inert);
            }
        }
        self.unwritten.push((self.position, self.records));
        self.write_back_rest(memory);
        self.unwritten.clear();
        self.abort_records.clear();
        if !memory.omitted(Step::RestartPhase) && !memory.omitted(Step::RestartPhaseEarly) {
            self.phase = !self.phase;
        }
        self.run = self.run.wrapping_add(1);
        (self.position, self.begin, self.last_commit, self.last_transaction) = (0, 0, 0, 0);
        memory.store(self.slot.committed(), pack(self.run, 0));
    }

    /// Evicts the log's lines from the cache before records are stored past the cache again, because the thread that persists in bulk has read the
    /// log.
    pub fn evict<M: Memory>(&self, memory: &M) {
        memory.evict(self.start, u64::from(self.records) * RECORD_BYTES);
    }

    fn write_back_rest<M: Memory>(&self, memory: &M) {
        let mut any = false;
        for &(from, to) in &self.unwritten {
            let partial = memory.omitted(Step::RestartWriteBackPartial);
            self.write_back(
                memory,
                from,
                if partial { to.min(from + 1) } else { to },
                Step::RestartWriteBack,
            );
            any |= from < to;
        }
        if any {
            memory.fence(Step::RestartFence);
        }
    }

    pub(super) fn write_back<M: Memory>(&self, memory: &M, from: u32, to: u32, step: Step) {
        let mut line = self.at(from).line();
        let end = self.at(to);
        while line < end {
            memory.write_back(line, step);
            line = line.byte(LINE_BYTES);
        }
    }
}

/// Stores zeros to `bytes` bytes from `at` on.
pub fn zero<M: Memory>(memory: &M, at: PersistentAddress, bytes: u64) {
    let zeros = [0; 64];
    let words = bytes / 8;
    let mut done = 0;
    while done < words {
        let count = zeros.len().min((words - done) as usize);
        memory.store_range(at.word(done), &zeros[..count]);
        done += count as u64;
    }
}

const _: () = assert!(LINE_BYTES.is_multiple_of(RECORD_BYTES));
