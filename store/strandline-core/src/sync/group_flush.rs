//! The group flush of the shared log: one durable write for all transactions that wait.
//!
//! One waiter at a time leads: under the latch it closes the block being filled, then writes all closed
//! blocks with one durable write (two where the ring wraps), publishes how far the log is durable, and wakes
//! the others. Who comes meanwhile shares the next flush. Waiters hold no locks, so that conflicting
//! transactions share flushes too.
//!
//! # Marks
//!
//! Each block says up to where the log was durable when its write began, so that recovery tells a block that rotted from the end of the log
//! ([`block`](super::block)). A checkpoint writes a page only after a *durable block* says so of all that the page may hold
//! ([`SharedLog::wait_marked`]); where no commit writes such a block, the checkpoint has an empty one written, a *mark*. There is
//! always room for it, though only the checkpoint can free the ring: it needs one only if a transaction was appended since the last mark, that
//! one has released a block, and reservations leave one free.

use crate::error::Result;
use crate::layout::View;
use crate::memory::device::{AlignedBuffer, Device, DeviceFile, Page};
use crate::memory::latch::{load_in_order, lock, unlock};
use crate::memory::{Memory, Step};

use super::block::{self, BLOCK_BYTES, BLOCK_WORDS, BlockHead, HEADER_WORDS, RECORDS_PER_BLOCK};
use super::shared_log::{Failure, SharedLog};
use crate::log::RECORD_BLOCKS;

/// The most blocks in one write: F of the rules of recovery.
pub(super) const WRITE_BLOCKS: u64 = 256;

impl SharedLog {
    /// Waits until the transaction with this TxID, and all before it, are durable in the log; leads a flush if nobody does.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the outcome is unknown.
    pub(crate) fn wait_durable<M: Memory>(&self, view: &View<M>, transaction: u64) -> Result<()> {
        let memory = &view.memory;
        self.wait_flushed(view, false, || memory.load(self.durable_transaction()) >= transaction)
    }

    /// Waits until a durable block says that all blocks below `end`, which are durable, were so before it was written.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned).
    pub(super) fn wait_marked<M: Memory>(&self, view: &View<M>, end: u64) -> Result<()> {
        let memory = &view.memory;
        self.wait_flushed(view, true, || memory.load(self.marked()) >= end)
    }

    /// Waits until `is_done`; leads flushes if nobody does, with a mark if `marks` and there is nothing else to write.
    pub(super) fn wait_flushed<M: Memory>(
        &self,
        view: &View<M>,
        marks: bool,
        is_done: impl Fn() -> bool,
    ) -> Result<()> {
        let memory = &view.memory;
        loop {
            let flushes = memory.load(self.flushes());
            self.check_poison(memory)?;
            if is_done() {
                return Ok(());
            }
            if memory.load(self.leader()) != 0 || memory.compare_exchange(self.leader(), 0, 1).is_err() {
                memory.wait(self.flushes(), flushes);
                continue;
            }
            // The last leader may have done it since.
            let lead = || {
                self.check_poison(memory)?;
                if is_done() { Ok(()) } else { self.flush(view, marks) }
            };
            self.poisoning(memory, "a flush of the log", lead, || {
                memory.store(self.leader(), 0);
                memory.fetch_add(self.flushes(), 1);
                memory.wake(self.flushes());
                self.announce_room(memory);
            })?;
        }
    }

    /// Closes the block being filled, if it has a record. Under the latch.
    pub(super) fn close_block<M: Memory>(&self, memory: &M) -> u64 {
        let (number, records) = (memory.load(self.filling()), memory.load(self.filled()));
        if records == 0 {
            return number;
        }
        memory.store(self.staged(number), records);
        memory.store(self.filled(), 0);
        memory.store(self.filling(), number + 1);
        number + 1
    }

    /// Closes an empty block if there is room for one. There is, once the transactions that were appended have released the blocks that they reserved
    /// and did not use.
    /// Under the latch, when no block waits to be written.
    fn close_mark<M: Memory>(&self, memory: &M, number: u64) -> u64 {
        let claimed = load_in_order(memory, self.claimed());
        let is_full = claimed + 1 > memory.load(self.start()) + self.ring_blocks(memory);
        if is_full && !memory.omitted(Step::SyncRoom)
            || claimed + 1 > memory.load(self.durable()) + self.staging
            || memory.compare_exchange(self.claimed(), claimed, claimed + 1).is_err()
        {
            memory.pause();
            return number;
        }
        memory.store(self.staged(number), 0);
        memory.store(self.filling(), number + 1);
        number + 1
    }

    /// Makes everything appended so far durable; the caller leads.
    fn flush<M: Memory>(&self, view: &View<M>, marks: bool) -> Result<()> {
        let memory = &view.memory;
        let device = self.device(view)?;
        lock(memory, self.latch());
        let mut from = memory.load(self.durable());
        let mut to = self.close_block(memory);
        if marks && from == to {
            to = self.close_mark(memory, to);
        }
        let last = memory.load(self.last_transaction());
        unlock(memory, self.latch());
        // It does not change while there are blocks to write.
        let (ring, has_blocks) = (self.ring_blocks(memory), from < to);
        while from < to {
            // As far as the ring goes before it wraps.
            let count = (to - from).min(ring - from % ring).min(WRITE_BLOCKS);
            // Of the last block only the sectors that it uses: what follows them in a block is undefined.
            let length = |used| {
                (count - 1) * BLOCK_BYTES + u64::next_multiple_of(used, device.sector(DeviceFile::Log))
            };
            let durable = if memory.omitted(Step::SyncMarkOwnWrite) { from + count } else { from };
            let written = if count == 1 {
                let mut page = Page([0; BLOCK_BYTES as usize]);
                let used = self.collect(memory, from, durable, &mut page.0);
                self.write_blocks(memory, device, from, &page.0[..length(used) as usize])
            } else {
                let mut buffer = AlignedBuffer::new((count * BLOCK_BYTES) as usize);
                let mut used = 0;
                for (number, block) in (from..).zip(buffer.chunks_exact_mut(BLOCK_BYTES as usize)) {
                    used = self.collect(memory, number, durable, block);
                }
                self.write_blocks(memory, device, from, &buffer[..length(used) as usize])
            };
            written.map_err(|error| self.poison(memory, Failure::LogWrite, &error))?;
            // Before the blocks count as durable: who waits for those of this write needs a later one.
            memory.store(self.marked(), from);
            from += count;
        }
        if has_blocks {
            memory.store(self.marked_transaction(), memory.load(self.durable_transaction()));
        }
        // The TxID first: who sees staging free may rely on nothing else.
        memory.store(self.durable_transaction(), last);
        memory.store(self.durable(), to);
        Ok(())
    }

    /// Copies a closed block out of staging and seals it; the bytes that it uses.
    fn collect<M: Memory>(&self, memory: &M, number: u64, durable: u64, into: &mut [u8]) -> u64 {
        let staged = self.staged(number);
        let records = memory.load(staged).min(RECORDS_PER_BLOCK);
        let mut words = [0; BLOCK_WORDS as usize];
        let words = &mut words[..(HEADER_WORDS + records * RECORD_BLOCKS) as usize];
        memory.load_range(staged, words);
        block::to_bytes(words, into);
        let (life, generation) = (memory.load(self.life()), memory.load(self.generation()));
        block::seal(into, BlockHead { number, life, records, durable, generation }, self.seed);
        block::used_bytes(records) as u64
    }

    fn write_blocks<M: Memory>(
        &self,
        memory: &M,
        device: &dyn Device,
        number: u64,
        blocks: &[u8],
    ) -> std::io::Result<()> {
        let offset = block::offset(number, self.ring_blocks(memory));
        if memory.omitted(Step::SyncLogFlush) {
            device.write(DeviceFile::Log, offset, blocks)
        } else {
            device.write_durable(DeviceFile::Log, offset, blocks)
        }
    }

    /// The highest TxID that is in the log, durable or not.
    pub(crate) fn appended_up_to<M: Memory>(&self, view: &View<M>) -> u64 {
        view.memory.load(self.last_transaction())
    }

    /// The highest TxID that is durable.
    pub fn durable_up_to<M: Memory>(&self, view: &View<M>) -> u64 {
        view.memory.load(self.durable_transaction())
    }
}
