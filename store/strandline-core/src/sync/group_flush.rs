//! The group flush of the shared log: one durable write for all transactions that wait.
//!
//! One waiting thread at a time leads: it takes the latch and closes the block that is being filled, then writes all closed blocks with one durable
//! write (two if the ring wraps), publishes how far the log is durable, and wakes the others. Threads that arrive meanwhile share the next flush.
//! Threads that wait hold no locks, so that conflicting transactions can share flushes too.
//!
//! # Marks
//!
//! Each block contains up to where the log was durable when the block's write began. With this, recovery distinguishes a damaged block from the end
//! of the log ([`block`](super::block)). A checkpoint writes a page only after a *durable block* proves that all transactions in the page are durable
//! ([`SharedLog::wait_marked`]). If no commit writes such a block, the checkpoint has an empty one written, a *mark*. There is always room for a
//! mark, though only the checkpoint can free the ring: a mark is needed only if a transaction was appended since the last one, that transaction has
//! released a block, and reservations leave one block free.

use crate::error::Result;
use crate::layout::View;
use crate::memory::device::{AlignedBuffer, Device, DeviceFile, Page};
use crate::memory::latch::{load_in_order, lock, unlock};
use crate::memory::{Memory, Step};

use super::block::{self, BLOCK_BYTES, BLOCK_WORDS, BlockHead, HEADER_WORDS, RECORDS_PER_BLOCK};
use super::shared_log::{Failure, SharedLog};
use crate::log::RECORD_BLOCKS;

/// The most blocks in one write, which is F in the rules of recovery.
pub(super) const WRITE_BLOCKS: u64 = 256;

impl SharedLog {
    /// Waits until the transaction with this TxID and all before it are durable in the log. Leads a flush if no other thread does.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier; the outcome is unknown then.
    pub(crate) fn wait_durable<M: Memory>(&self, view: &View<M>, transaction: u64) -> Result<()> {
        let memory = &view.memory;
        self.wait_flushed(view, false, || memory.load(self.durable_transaction()) >= transaction)
    }

    /// Waits until a durable block proves that all blocks below `end`, which are durable, were durable before that block was written.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier.
    pub(super) fn wait_marked<M: Memory>(&self, view: &View<M>, end: u64) -> Result<()> {
        let memory = &view.memory;
        self.wait_flushed(view, true, || memory.load(self.marked()) >= end)
    }

    /// Waits until `is_done` returns true. Leads flushes if no other thread does. If `marks` is set and there is nothing else to write, writes a
    /// mark.
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
            // The last leader may have done it in the meantime.
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

    /// Closes the block that is being filled, if it has a record. The caller holds the latch.
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

    /// Closes an empty block if there is room for one, as there is once the appended transactions have released the blocks that they reserved but did
    /// not use. The caller holds the latch, and no block waits to be written.
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

    /// Makes all that was appended so far durable. The caller leads.
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
        // The ring does not change while there are blocks to write.
        let (ring, has_blocks) = (self.ring_blocks(memory), from < to);
        while from < to {
            // The write ends where the ring wraps.
            let count = (to - from).min(ring - from % ring).min(WRITE_BLOCKS);
            // Only the used sectors of the last block are written; the rest of it is undefined.
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
            // This comes before the blocks count as durable: a thread that waits for a proof of these blocks needs a later one.
            memory.store(self.marked(), from);
            from += count;
        }
        if has_blocks {
            memory.store(self.marked_transaction(), memory.load(self.durable_transaction()));
        }
        // The TxID is stored first, because a thread that sees staging free relies on it.
        memory.store(self.durable_transaction(), last);
        memory.store(self.durable(), to);
        Ok(())
    }

    /// Copies a closed block from staging and seals it. Returns the number of bytes that it uses.
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

    /// Returns the highest TxID in the log, durable or not.
    pub(crate) fn appended_up_to<M: Memory>(&self, view: &View<M>) -> u64 {
        view.memory.load(self.last_transaction())
    }

    /// Returns the highest durable TxID.
    pub fn durable_up_to<M: Memory>(&self, view: &View<M>) -> u64 {
        view.memory.load(self.durable_transaction())
    }
}
