//! Ways for transactions to enter a thread's log without executing in it: a commit copies them from an execution area, or they are stored past the
//! cache, at the commit or word by word. What remains of them is interpreted as in `thread_log.rs`, or as in `scan_fenced` if a fence precedes the
//! commit record.

use super::record::Record;
use super::thread_log::{LogFull, RECORDS_PER_LINE, ThreadLog};
use crate::memory::{LINE_WORDS, Memory, PersistentAddress, Step};

impl ThreadLog {
    /// Checks that the log has room for a transaction of `words` words and its commit record.
    ///
    /// # Errors
    /// Returns an error if there is no room.
    #[inline]
    pub fn room_for(&self, words: usize) -> Result<(), LogFull> {
        if words < (self.records - self.position) as usize { Ok(()) } else { Err(LogFull) }
    }

    /// Prefetches the line to which word number `word` of the running transaction will be copied, if the word is the first on its line.
    #[inline]
    pub fn prefetch_copy<M: Memory>(&self, memory: &M, word: usize) {
        let record = self.position + word as u32;
        if record.is_multiple_of(RECORDS_PER_LINE) && record < self.records {
            memory.prefetch_for_write(self.at(record));
        }
    }

    /// Commits `words` under `transaction` to a log without torn bits: writes back the records and fences, then stores the commit record, writes it
    /// back and fences. The transaction is durable when this returns. Returns the number of records written, including filling.
    #[inline]
    pub fn commit_copied<M: Memory>(
        &mut self,
        memory: &M,
        words: impl ExactSizeIterator<Item = (PersistentAddress, u64)>,
        transaction: u64,
    ) -> u64 {
        self.begin();
        let (from, commit) = (self.position, self.position + words.len() as u32);
        for (record, (address, value)) in (from..).zip(words) {
            let record_blocks = Record::Data { address: address.offset(), value, mask: 0xff };
            memory.store_range(self.at(record), &record_blocks.encode(self.phase));
        }
        self.write_back(memory, from, commit, Step::LogWriteBack);
        memory.fence(Step::LogFence);
        let to = self.store_commit(memory, commit, Record::Commit { transaction });
        self.write_back(memory, commit, to, Step::CommitWriteBack);
        memory.fence(Step::CommitFence);
        self.committed_to(memory, to, transaction)
    }

    /// Commits `words` under `transaction` past the cache: stores the records, the commit record and filling non-temporally, in whole lines and
    /// ascending order, and fences once. The transaction is durable when this returns. Returns the number of records written, including filling.
    #[inline(always)]
    pub fn commit_streamed<M: Memory>(
        &mut self,
        memory: &M,
        words: &[(PersistentAddress, u64)],
        transaction: u64,
    ) -> u64 {
        self.begin();
        let phase = self.phase;
        let data = data_record(phase);
        let mut line = self.at(self.position);
        let (lines, rest) = words.as_chunks::<{ RECORDS_PER_LINE as usize }>();
        for words in lines {
            memory.store_line_non_temporal(line, &words.each_ref().map(data));
            line = line.word_inside(LINE_WORDS);
        }
        let mut last = [Record::INERT.encode(phase); RECORDS_PER_LINE as usize];
        for (record, word) in last.iter_mut().zip(rest) {
            *record = data(word);
        }
        last[rest.len()] = Record::Commit { transaction }.encode(phase);
        memory.store_line_non_temporal(line, &last);
        // This comes before the fence, because a store after the fence would have to wait for it.
        self.ends_at(self.position + RECORDS_PER_LINE * (lines.len() as u32 + 1), transaction);
        memory.fence(Step::CommitFence);
        self.is_durable(memory)
    }

    /// Commits `words` under `transaction` past the cache to a log without torn bits: like [`ThreadLog::commit_copied`] and in the same lines, but
    /// with non-temporal stores. The transaction is durable when this returns. Returns the number of records written, including filling.
    pub fn commit_streamed_fenced<M: Memory>(
        &mut self,
        memory: &M,
        words: &[(PersistentAddress, u64)],
        transaction: u64,
    ) -> u64 {
        self.begin();
        let data = data_record(self.phase);
        let inert = [Record::INERT.encode(self.phase); RECORDS_PER_LINE as usize];
        let (mut line, mut last) = (self.at(self.position), inert);
        for words in words.chunks(RECORDS_PER_LINE as usize) {
            last = inert;
            for (record, word) in last.iter_mut().zip(words) {
                *record = data(word);
            }
            memory.store_line_non_temporal(line, &last);
            line = line.word_inside(LINE_WORDS);
        }
        memory.fence(Step::LogFence);
        let commit = self.position + words.len() as u32;
        let in_line = commit % RECORDS_PER_LINE;
        if in_line == 0 {
            last = inert;
        }
        last[in_line as usize] = Record::Commit { transaction }.encode(self.phase);
        memory.store_line_non_temporal(self.at(commit - in_line), &last);
        self.ends_at(commit - in_line + RECORDS_PER_LINE, transaction);
        memory.fence(Step::CommitFence);
        self.is_durable(memory)
    }

    /// Commits `words` under `transaction` on a machine whose caches survive a power failure. No line has to be written back, so lines are not filled
    /// up and records follow one another; there is one fence. The transaction is durable when this returns. Returns the number of records written.
    #[inline(always)]
    pub fn commit_stored<M: Memory>(
        &mut self,
        memory: &M,
        words: &[(PersistentAddress, u64)],
        transaction: u64,
    ) -> u64 {
        self.begin();
        let commit = Record::Commit { transaction }.encode(self.phase);
        memory.store_pairs(self.at(self.position), words.iter().map(data_record(self.phase)), commit);
        self.ends_at(self.position + words.len() as u32 + 1, transaction);
        memory.fence(Step::CommitFence);
        self.is_durable(memory)
    }

    /// Appends new data of a word past the cache. Always leaves room for a commit record.
    ///
    /// # Errors
    /// Returns an error if there is no room.
    #[inline]
    pub fn append_streamed<M: Memory>(
        &mut self,
        memory: &M,
        address: PersistentAddress,
        value: u64,
    ) -> Result<(), LogFull> {
        if self.position + 1 >= self.records {
            return Err(LogFull);
        }
        self.stream(memory, Record::Data { address: address.offset(), value, mask: 0xff });
        Ok(())
    }

    /// Commits what was appended past the cache under `transaction`, with a commit record that contains the number of records, and one fence. The
    /// transaction is durable when this returns. Returns the number of records written, including filling.
    #[inline]
    pub fn close_streamed<M: Memory>(&mut self, memory: &M, transaction: u64) -> u64 {
        let records = self.length().into();
        if memory.omitted(Step::CommitFenceEarly) {
            memory.fence(Step::CommitFence);
        }
        self.stream(memory, Record::CountedCommit { transaction, records });
        while !self.position.is_multiple_of(RECORDS_PER_LINE) {
            self.stream(memory, Record::INERT);
        }
        if !memory.omitted(Step::CommitFenceEarly) {
            memory.fence(Step::CommitFence);
        }
        self.committed_to(memory, self.position, transaction)
    }

    /// Ends the running transaction without effect. Its lines that were sent past the cache are not used again in this run, and are fenced before its
    /// locks are released. Records that were still being gathered are never stored.
    pub fn abandon_streamed<M: Memory>(&mut self, memory: &M) {
        self.position -= self.position % RECORDS_PER_LINE;
        if self.length() > 0 {
            memory.fence(Step::AbortFence);
            self.begin();
        }
    }

    /// Appends a record past the cache, one whole line at a time: an atomic operation between two records, such as taking a lock, would flush the
    /// processor's write-combining buffer, and each part of a line would become a separate write. Transactions begin and end at lines.
    #[inline]
    fn stream<M: Memory>(&mut self, memory: &M, record: Record) {
        let in_line = self.position % RECORDS_PER_LINE;
        self.gathered[in_line as usize] = record.encode(self.phase);
        self.position += 1;
        if in_line + 1 == RECORDS_PER_LINE {
            memory.store_line_non_temporal(self.at(self.position - RECORDS_PER_LINE), &self.gathered);
        }
    }
}

/// Returns a function that encodes a word's data record with this torn bit.
#[inline]
fn data_record(torn: bool) -> impl Fn(&(PersistentAddress, u64)) -> [u64; 2] + Copy {
    move |&(address, value)| Record::Data { address: address.offset(), value, mask: 0xff }.encode(torn)
}
