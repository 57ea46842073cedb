//! The checkpoint: writes committed words to the heap file, and frees the ring.
//!
//! # The protocol
//!
//! 1. Close the gate and wait until no thread is `in_commit`. A thread in that state does not wait for input or output.
//! 2. Close the block being filled. S is the number of the next one, W the last TxID: each transaction up to W has stored its words home and marked
//!    its pages, and none above W has. Take the set of dirty pages by letting commits mark the other bitmap, which is empty. Open the gate.
//! 3. In batches: copy pages out of memory; wait until the log is durable to its end *as it is after the copy*, and until a durable block proves it;
//!    write the copies. A copy may contain parts of transactions above W, whose records are at or after S and become durable before the page. If one
//!    of their blocks is damaged, a later block shows it.
//! 4. Flush the heap. Write (generation, S, W) into the older of the two slots; flush.
//! 5. Only now are the blocks below S free.
//!
//! After a crash before the slot is durable, recovery begins at the older slot, whose blocks are all still there. Their replay stores again whatever
//! a page that was written too early contains, whole or torn. After a later crash, recovery begins at S, and everything before S is in the file.
//!
//! Finally, if there are more private pages than the bound, clean pages are released ([`pages`](super::pages)).

use crate::error::Result;
use crate::layout::{PAGE_BYTES, View};
use crate::memory::{LINE_BYTES, LINE_WORDS, Memory, PersistentAddress, Space, Step};

use super::block::to_bytes;
use super::shared_log::{Failure, SharedLog};
use super::slot::{CheckpointSlot, Inherited};
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};
use crate::memory::latch::{load_in_order, lock, unlock};

/// Pages that are copied before the checkpoint waits for the log, if no thread waits for its end; also the number of pages written through the page
/// cache between two flushes.
const CALM_PAGES: usize = 32;
/// Pages that are copied before the checkpoint waits for the log, if a thread waits for its end: enough for the device to write many at a time.
pub(super) const BATCH_PAGES: usize = 512;

/// A report of what a checkpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// S: the first block of the log that is still needed.
    pub start: u64,
    /// W: the highest TxID that the heap file holds completely.
    pub watermark: u64,
    /// Pages of 4 KB written.
    pub pages: u64,
    /// Blocks of the log freed.
    pub blocks: u64,
    /// Pages of 4 KB released to the system.
    pub given_back: u64,
}

/// The speed at which a checkpoint writes pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Haste {
    /// One page after another, unless commits wait: while the device writes one page it can also write a block of the log.
    Calm,
    /// As fast as the device can, because a thread waits for the end.
    Hurried,
    /// Like `Hurried`, but no commits run, and the caller flushes the pages when all are written.
    Alone,
}

/// Writes the pages with these consecutive contents, each one after the previous one is written.
fn write_one_by_one(device: &dyn Device, pages: &[u64], contents: &[u8]) -> std::io::Result<()> {
    let mut each = pages.iter().zip(contents.chunks_exact(PAGE_BYTES as usize));
    each.try_for_each(|(page, content)| device.write(DeviceFile::Heap, page * PAGE_BYTES, content))
}

/// The state that a checkpoint writes to the heap file.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    /// S, the number of the first block after it.
    start: u64,
    /// W, the last TxID in it.
    watermark: u64,
    /// The bitmap of its pages.
    bitmap: u64,
}

/// Copies a page from memory, word by word.
pub(super) fn copy_page<M: Memory>(memory: &M, page: u64, into: &mut [u8]) {
    let mut words = [0; LINE_WORDS as usize];
    for (line, bytes) in (0..).zip(into.chunks_exact_mut(LINE_BYTES as usize)) {
        memory.load_range(PersistentAddress::new(page * PAGE_BYTES + line * LINE_BYTES), &mut words);
        to_bytes(&words, bytes);
        memory.work(LINE_WORDS as u32);
    }
}

/// Returns whether each batch of pages is flushed.
fn flushes_batches(device: &dyn Device, haste: Haste) -> bool {
    haste != Haste::Alone && !device.is_direct(DeviceFile::Heap)
}

impl SharedLog {
    /// Takes a checkpoint; first waits for one that is running. Does nothing if nothing has happened since the last one. The calling thread is in no
    /// transaction.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier. Nothing is freed then.
    pub fn checkpoint<M: Memory>(&self, view: &View<M>) -> Result<CheckpointReport> {
        self.checkpoint_at(view, Haste::Hurried)
    }

    /// Like [`SharedLog::checkpoint`], but delays commits only little as long as no thread waits for its end. This is for the background thread that
    /// takes checkpoints.
    ///
    /// # Errors
    /// Returns the errors of [`SharedLog::checkpoint`].
    pub fn checkpoint_calmly<M: Memory>(&self, view: &View<M>) -> Result<CheckpointReport> {
        self.checkpoint_at(view, Haste::Calm)
    }

    pub(super) fn checkpoint_at<M: Memory>(&self, view: &View<M>, haste: Haste) -> Result<CheckpointReport> {
        let memory = &view.memory;
        self.hold_latch_of_checkpoints(view, || {
            memory.store(self.wanted(), 0);
            self.check_poison(memory)?;
            let report = self.run_checkpoint(view, haste)?;
            Ok(CheckpointReport { given_back: self.give_back_clean(view), ..report })
        })
    }

    /// Takes a checkpoint and writes it to both slots. This is for stores past the log: no older records may be replayed over them, even if one of
    /// the slots is damaged later.
    ///
    /// # Errors
    /// Returns the errors of [`SharedLog::checkpoint`].
    pub(crate) fn checkpoint_both<M: Memory>(&self, view: &View<M>) -> Result<()> {
        self.hold_latch_of_checkpoints(view, || {
            self.check_poison(&view.memory)?;
            self.run_checkpoint_both(view)
        })
    }

    pub(super) fn run_checkpoint_both<M: Memory>(&self, view: &View<M>) -> Result<()> {
        let CheckpointReport { start, watermark, .. } = self.run_checkpoint(view, Haste::Hurried)?;
        self.write_slot(view, self.device(view)?, start, watermark)
    }

    pub(super) fn run_checkpoint<M: Memory>(&self, view: &View<M>, haste: Haste) -> Result<CheckpointReport> {
        self.settle(view);
        self.close_gate(view);
        let taken = self.take_dirty_pages(&view.memory);
        self.open_gate(&view.memory);
        self.write_taken(view, taken, haste)
    }

    /// Prevents commits, and waits until no thread is in commit.
    pub(super) fn close_gate<M: Memory>(&self, view: &View<M>) {
        if !view.memory.omitted(Step::SyncGate) {
            view.memory.fetch_add(self.gate(), 1);
            self.wait_for_commits(view);
        }
    }

    /// Allows commits.
    pub(super) fn open_gate<M: Memory>(&self, memory: &M) {
        if !memory.omitted(Step::SyncGate) {
            memory.store(self.gate(), 0);
            memory.wake(self.gate());
        }
        // Wakes commits that waited because too many pages were dirty.
        self.announce_room(memory);
    }

    /// Takes the set of dirty pages. The gate is closed.
    pub(super) fn take_dirty_pages<M: Memory>(&self, memory: &M) -> Taken {
        lock(memory, self.latch());
        let start = self.close_block(memory);
        let watermark = memory.load(self.last_transaction());
        unlock(memory, self.latch());
        let bitmap = memory.load(self.active_bitmap());
        memory.store(self.active_bitmap(), 1 - bitmap);
        if start != memory.load(self.start()) {
            self.begin_recent(memory);
        }
        Taken { start, watermark, bitmap }
    }

    /// Writes the taken pages to the heap file, and then a slot.
    pub(super) fn write_taken<M: Memory>(
        &self,
        view: &View<M>,
        taken: Taken,
        haste: Haste,
    ) -> Result<CheckpointReport> {
        let (memory, device) = (&view.memory, self.device(view)?);
        let Taken { start, watermark, bitmap } = taken;
        let old_start = memory.load(self.start());
        if start == old_start {
            return Ok(CheckpointReport { start, watermark, ..CheckpointReport::default() });
        }
        let pages = self.write_dirty_pages(view, device, bitmap, haste)?;
        memory.store(self.count(bitmap), 0);
        // This waits even if there are no pages: a slot must not include what is not durable.
        self.wait_durable(view, watermark)?;
        if !memory.omitted(Step::SyncHeapFlush) {
            device.flush(DeviceFile::Heap).map_err(|e| self.poison(memory, Failure::HeapFlush, &e))?;
        }
        let start = self.behind_marks(view, start)?;
        self.write_slot(view, device, start, watermark)?;
        memory.store(self.start(), start);
        Ok(CheckpointReport { start, watermark, pages, blocks: start - old_start, given_back: 0 })
    }

    /// Waits until no thread is in commit. The gate is closed.
    fn wait_for_commits<M: Memory>(&self, view: &View<M>) {
        let memory = &view.memory;
        for slot in view.shared.slots() {
            loop {
                match load_in_order(memory, slot.commit_state()) {
                    0 => break,
                    state => memory.wait(slot.commit_state(), state),
                }
            }
        }
    }

    /// Returns the offset in the heap behind which no page is dirty.
    fn dirty_end<M: Memory>(&self, view: &View<M>) -> u64 {
        view.memory.size(Space::Persistent).min(view.layout.end().offset())
    }

    /// Returns the pages of bitmap `bitmap`.
    pub(super) fn pages_of<M: Memory>(&self, view: &View<M>, bitmap: u64) -> impl Iterator<Item = u64> {
        let words = 0..Self::bitmap_words(self.dirty_end(view));
        words.flat_map(move |index| {
            let bits = view.memory.load(self.bitmap(bitmap, index));
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| 64 * index + bit)
        })
    }

    /// Returns whether the checkpoint writes one page at a time, which delays commits less.
    fn is_calm<M: Memory>(&self, memory: &M, haste: Haste) -> bool {
        haste == Haste::Calm && !self.is_pressed(memory)
    }

    /// Returns the number of pages that are copied and written together.
    pub(super) fn batch_pages<M: Memory>(&self, memory: &M, device: &dyn Device, haste: Haste) -> usize {
        let is_small = self.is_calm(memory, haste) || flushes_batches(device, haste);
        if is_small { CALM_PAGES } else { BATCH_PAGES }
    }

    /// Writes the pages of bitmap `taken`, and clears it.
    pub(super) fn write_dirty_pages<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        taken: u64,
        haste: Haste,
    ) -> Result<u64> {
        let memory = &view.memory;
        let (mut copies, mut batch) = (AlignedBuffer::new(0), Vec::new());
        let mut written = 0;
        for index in 0..Self::bitmap_words(self.dirty_end(view)) {
            let word = self.bitmap(taken, index);
            let mut bits = memory.load(word);
            if bits == 0 {
                continue;
            }
            self.add_recent(memory, index, bits);
            memory.store(word, 0);
            while bits != 0 {
                batch.push(64 * index + u64::from(bits.trailing_zeros()));
                bits &= bits - 1;
                if batch.len() >= self.batch_pages(memory, device, haste) {
                    written += self.write_batch(view, device, &mut batch, &mut copies, haste)?;
                }
            }
        }
        written += self.write_batch(view, device, &mut batch, &mut copies, haste)?;
        Ok(written)
    }

    pub(super) fn write_batch<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        batch: &mut Vec<u64>,
        copies: &mut AlignedBuffer,
        haste: Haste,
    ) -> Result<u64> {
        let memory = &view.memory;
        if batch.is_empty() {
            return Ok(0);
        }
        // A checkpoint may take long, so the heap file also grows during it if a transaction needs that.
        self.grow_ahead(view);
        let end = || (memory.load(self.last_transaction()), memory.load(self.records_end()));
        let end_before = end();
        copies.make_room(batch.len() * PAGE_BYTES as usize);
        for (&page, copy) in batch.iter().zip(copies.chunks_exact_mut(PAGE_BYTES as usize)) {
            copy_page(memory, page, copy);
        }
        if !memory.omitted(Step::SyncLogBeforePages) {
            let is_early = memory.omitted(Step::SyncLogEndAfterCopy);
            let (last, records_end) = if is_early { end_before } else { end() };
            self.wait_durable(view, last)?;
            if !memory.omitted(Step::SyncMarkBeforePages) {
                self.wait_marked(view, records_end)?;
            }
        }
        let copies = &copies[..batch.len() * PAGE_BYTES as usize];
        let written = if self.is_calm(memory, haste) {
            write_one_by_one(device, batch, copies)
        } else {
            device.write_pages(DeviceFile::Heap, batch, copies)
        };
        written.map_err(|error| self.poison(memory, Failure::HeapWrite, &error))?;
        if flushes_batches(device, haste) {
            // Flushing more at a time would delay commits.
            device.flush(DeviceFile::Heap).map_err(|e| self.poison(memory, Failure::HeapFlush, &e))?;
        }
        let pages = batch.len() as u64;
        batch.clear();
        Ok(pages)
    }

    /// Returns the block at which recovery may begin after this checkpoint: `start`, or behind the marks that follow it if no transaction was
    /// appended since. The ring is empty then.
    fn behind_marks<M: Memory>(&self, view: &View<M>, start: u64) -> Result<u64> {
        let memory = &view.memory;
        lock(memory, self.latch());
        let has_records = memory.load(self.records_end()) > start;
        let end = if has_records { start } else { memory.load(self.filling()) };
        unlock(memory, self.latch());
        self.wait_flushed(view, false, || memory.load(self.durable()) >= end)?;
        Ok(end)
    }

    /// Writes the content of the newest slot over the older one. After that no slot refers to anything in the log. No transaction and no other
    /// checkpoint runs.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier.
    pub(crate) fn repeat_slot<M: Memory>(&self, view: &View<M>) -> Result<()> {
        let memory = &view.memory;
        let (start, watermark) = (memory.load(self.start()), memory.load(self.last_transaction()));
        self.write_slot(view, self.device(view)?, start, watermark)
    }

    /// Writes the next generation's slot durably over the older one.
    pub(super) fn write_slot<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        start: u64,
        watermark: u64,
    ) -> Result<()> {
        let memory = &view.memory;
        let older = 1 - memory.load(self.newest_slot());
        let generation = memory.load(self.generation()) + 1;
        let (nonce, life) = (self.identity.nonce, memory.load(self.life()));
        let ring = self.ring_blocks(memory);
        let end = memory.load(self.inherited_end());
        let inherited = (start < end).then(|| Inherited { life: memory.load(self.inherited_life()), end });
        CheckpointSlot { generation, start, watermark, nonce, life, ring, inherited }
            .write(device, older, &self.identity.pool)
            .map_err(|error| self.poison(memory, Failure::SlotWrite, &error))?;
        if !memory.omitted(Step::SyncSlotFlush) {
            device.flush(DeviceFile::Heap).map_err(|e| self.poison(memory, Failure::HeapFlush, &e))?;
        }
        memory.store(self.generation(), generation);
        memory.store(self.newest_slot(), older);
        Ok(())
    }
}
