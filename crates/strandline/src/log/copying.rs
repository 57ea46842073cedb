//! Copying transactions from an execution area into a thread's log, when they commit.

use super::record::Record;
use super::thread_log::{LogFull, RECORDS_PER_LINE, ThreadLog};
use crate::memory::{Memory, PersistentAddress, Step};

impl ThreadLog {
    /// Checks that a transaction of `words` words, and its commit record, can still be copied into the log.
    ///
    /// # Errors
    /// No room.
    #[inline(always)]
    pub fn room_for(&self, words: usize) -> Result<(), LogFull> {
        if words < (self.records - self.position) as usize { Ok(()) } else { Err(LogFull) }
    }

    /// Fetches the line that the running transaction's word number `word` will be copied to, where it is the
    /// first on it.
    #[inline(always)]
    pub fn prefetch_copy<M: Memory>(&self, memory: &M, word: usize) {
        let record = self.position + word as u32;
        if record.is_multiple_of(RECORDS_PER_LINE) && record < self.records {
            memory.prefetch_for_write(self.at(record));
        }
    }

    /// Commits `words` under `transaction`, for a log without torn bits: the records are written back and
    /// fenced before the commit record is stored, and that is written back and fenced too. Durable when this
    /// returns. Returns the number of records written, filling included.
    #[inline]
    pub fn commit_copied<M: Memory>(
        &mut self,
        memory: &M,
        words: &[(PersistentAddress, u64)],
        transaction: u64,
    ) -> u64 {
        self.begin();
        let (from, commit) = (self.position, self.position + words.len() as u32);
        for (record, &(address, value)) in (from..).zip(words) {
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

    /// Commits `words` under `transaction` past the cache: records, commit record and filling by non-temporal
    /// stores, in the order of their addresses, so that they leave in whole lines; one fence. Durable when this
    /// returns. Returns the number of records written, filling included.
    #[inline]
    pub fn commit_streamed<M: Memory>(
        &mut self,
        memory: &M,
        words: &[(PersistentAddress, u64)],
        transaction: u64,
    ) -> u64 {
        self.begin();
        let mut record = self.position;
        let mut stream = |log: &Self, blocks: Record| {
            let [data, metadata] = blocks.encode(log.phase);
            memory.store_non_temporal(log.at(record), data);
            memory.store_non_temporal(log.at(record).word(1), metadata);
            record += 1;
            record
        };
        for &(address, value) in words {
            stream(self, Record::Data { address: address.offset(), value, mask: 0xff });
        }
        let mut to = stream(self, Record::Commit { transaction });
        while !to.is_multiple_of(RECORDS_PER_LINE) {
            to = stream(self, Record::INERT);
        }
        memory.fence(Step::CommitFence);
        self.committed_to(memory, to, transaction)
    }
}
