//! The size of the ring, and what depends on it: the places of blocks, and when a checkpoint is wanted.
//!
//! A ring begins small, and is enlarged up to a bound if checkpoints would be too frequent. Block n is at place n mod N. N may therefore change only
//! while no block is needed whose place would change:
//!
//! 1. The file is extended with zeros to the necessary length, durably. The header still contains the old N, so the new part is not used yet. Commits
//!    go on meanwhile, and wait for one piece of zeros at most.
//! 2. The gate is closed, and no thread is in commit. The block that is being filled is closed. All blocks from S to F, the next one, are then
//!    written, or will be by a flush that is in progress.
//! 3. If each of them has the same place in the larger ring, nothing else is necessary. With twice as many blocks this is the case whenever S is in
//!    the first half of the larger ring and F has not left it. Otherwise the gate is opened, and the next checkpoint is another opportunity; or, if a
//!    thread waits that needs more than the ring has, a checkpoint is taken now with the gate closed, after which no block is needed.
//! 4. The header with the new N is written durably. Then the gate is opened.
//!
//! After a crash before step 4 the old N holds, after a later one the new N, and recovery finds the needed blocks with either. Any other block in
//! these places has a lower number, or is zeros. With the old N, no number from S + N on was used. So S + N, at which the next life begins unless it
//! inherits the blocks, is above all used numbers with either N.
//!
//! If the disk has no room for a longer file, the ring keeps its size until the pool is opened again.

use crate::error::Result;
use crate::layout::{PAGE_BYTES, View};
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};
use crate::memory::latch::{self, lock, unlock};
use crate::memory::{Memory, Space, Step, VolatileAddress};

use super::block::{self, BLOCK_BYTES, Lives};
use super::checkpoint::{CheckpointReport, Haste};
use super::shared_log::{Failure, SPARE_BLOCKS, SharedLog};

/// The bits of a request: a checkpoint, or only that the heap file grows.
const CHECKPOINT: u64 = 1;
const GROWTH: u64 = 2;

/// Number of blocks of zeros that are written to a longer log between two flushes. Commits may wait for that long.
const FILLED_BLOCKS: u64 = 32;

/// Extends a new log file for a ring of `ring` blocks with real zeros, so that no later append allocates. Durable after a flush.
pub(super) fn fill(device: &dyn Device, ring: u64) -> std::io::Result<()> {
    device.extend(DeviceFile::Log, BLOCK_BYTES * (1 + ring))?;
    device.fill(DeviceFile::Log, BLOCK_BYTES, BLOCK_BYTES * ring)
}

/// Returns whether the blocks with the numbers `needed` have the same places in a ring of `ring` blocks and in one of `larger`.
fn places_agree(needed: &std::ops::Range<u64>, ring: u64, larger: u64) -> bool {
    let &std::ops::Range { start, end } = needed;
    start == end || (start % ring == start % larger && start / ring == (end - 1) / ring)
}

impl SharedLog {
    /// Returns the address of N, which changes only while the gate is closed.
    fn ring_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE)
    }
    /// Returns the address of the maximum of N.
    fn bound_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(1)
    }
    /// Returns the address of the number of blocks for which a thread waits that needs more than the ring has; 0 if there is none.
    fn needed_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(2)
    }

    /// Returns the address of the number of blocks for which the log file has room, if it is more than the ring's.
    fn extended_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(3)
    }

    /// Returns the address of the size in bytes to which the heap file should soon grow; 0 if it is large enough.
    fn growth_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(4)
    }

    /// Sets the ring's size to that in the header.
    pub(super) fn begin_ring<M: Memory>(&self, memory: &M) {
        memory.store(self.ring_word(), self.ring);
        memory.store(self.bound_word(), self.most_blocks.max(self.ring));
    }

    /// Returns N, the number of blocks in the ring.
    pub fn ring_blocks<M: Memory>(&self, memory: &M) -> u64 {
        memory.load(self.ring_word())
    }

    /// Returns the greatest number of blocks for which a thread may wait.
    pub(super) fn ring_bound<M: Memory>(&self, memory: &M) -> u64 {
        memory.load(self.bound_word())
    }

    /// Requests a ring of at least `blocks` blocks, together with a checkpoint. Returns false if there cannot be one.
    pub(super) fn need_ring<M: Memory>(&self, memory: &M, blocks: u64) -> bool {
        let blocks = blocks + SPARE_BLOCKS;
        if blocks > self.ring_bound(memory) {
            return false;
        }
        if blocks > self.ring_blocks(memory) {
            // Only one thread at a time waits for room.
            memory.store(self.needed_word(), blocks);
        }
        true
    }

    /// Returns the number of blocks that the ring should have, if it should be enlarged: because a thread waits that needs more, or, if
    /// `checkpoints_are_frequent`, in order to have fewer.
    pub fn larger_ring<M: Memory>(&self, view: &View<M>, checkpoints_are_frequent: bool) -> Option<u64> {
        let memory = &view.memory;
        let (ring, needed) = (self.ring_blocks(memory), memory.load(self.needed_word()));
        if needed <= ring && !checkpoints_are_frequent {
            return None;
        }
        let larger = needed.max(2 * ring).min(self.ring_bound(memory));
        (larger > ring).then_some(larger)
    }

    /// Enlarges the ring to `blocks` blocks. Extends the file and takes a checkpoint. If a needed block would still have to move, takes another one
    /// while commits wait, after which no block is needed, but only if a thread waits for the larger ring, or if `blocks` is not a multiple of the
    /// present size, since a later attempt might fail as well. Returns false if the ring is large enough already, if the disk has no room, or if it
    /// should be tried later. The calling thread is in no transaction.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier.
    pub fn enlarge_ring<M: Memory>(&self, view: &View<M>, blocks: u64) -> Result<bool> {
        let memory = &view.memory;
        self.hold_latch_of_checkpoints(view, || {
            let enlarged = self.check_poison(memory).and_then(|()| self.enlarge(view, blocks));
            memory.store(self.needed_word(), 0);
            enlarged
        })
    }

    fn enlarge<M: Memory>(&self, view: &View<M>, blocks: u64) -> Result<bool> {
        let (memory, device) = (&view.memory, self.device(view)?);
        let ring = self.ring_blocks(memory);
        if blocks <= ring {
            return Ok(false);
        }
        let from = ring.max(memory.load(self.extended_word()));
        if from < blocks {
            if !self.extend(memory, device, from, blocks)? {
                memory.store(self.bound_word(), ring);
                return Ok(false);
            }
            memory.store(self.extended_word(), blocks);
        }
        // Both slots are written: if only the newer one were, and were damaged later, recovery would begin at the older slot's S, whose blocks are at
        // other places in the larger ring.
        self.run_checkpoint_both(view)?;
        self.close_gate(view);
        let done = self.enlarge_gated(view, device, blocks);
        self.open_gate(memory);
        done
    }

    /// Extends the log file durably from a ring of `from` blocks, which other threads continue to write, to one of `to`. Returns false if there is no
    /// room.
    fn extend<M: Memory>(&self, memory: &M, device: &dyn Device, from: u64, to: u64) -> Result<bool> {
        if device.extend(DeviceFile::Log, BLOCK_BYTES * (1 + to)).is_err() {
            return Ok(false);
        }
        for from in (from..to).step_by(FILLED_BLOCKS as usize) {
            let blocks = FILLED_BLOCKS.min(to - from);
            if device.fill(DeviceFile::Log, BLOCK_BYTES * (1 + from), BLOCK_BYTES * blocks).is_err() {
                return Ok(false);
            }
            // Flushes a part at a time, because commits wait during a flush.
            device.flush(DeviceFile::Log).map_err(|error| self.poison(memory, Failure::LogWrite, &error))?;
        }
        Ok(true)
    }

    fn enlarge_gated<M: Memory>(&self, view: &View<M>, device: &dyn Device, blocks: u64) -> Result<bool> {
        let memory = &view.memory;
        let ring = self.ring_blocks(memory);
        lock(memory, self.latch());
        let end = self.close_block(memory);
        unlock(memory, self.latch());
        let needed = memory.load(self.start())..end;
        if !places_agree(&needed, ring, blocks) && !memory.omitted(Step::SyncRingPlaces) {
            // If the new size is a multiple of the old one, the places agree again after some later checkpoint. If no thread waits for more than
            // the ring has, that is soon enough.
            if memory.load(self.needed_word()) <= ring && blocks.is_multiple_of(ring) {
                return Ok(false);
            }
            let taken = self.take_dirty_pages(memory);
            let CheckpointReport { start, watermark, .. } = self.write_taken(view, taken, Haste::Hurried)?;
            self.write_slot(view, device, start, watermark)?;
        }
        let life = memory.load(self.life());
        // The previous life matters only to a recovery that has not ended, and this one has.
        let lives = Lives { current: life, previous: life };
        self.write_header(device, blocks, lives)
            .map_err(|error| self.poison(memory, Failure::LogWrite, &error))?;
        memory.store(self.ring_word(), blocks);
        Ok(true)
    }

    /// Writes the log's header durably.
    pub(super) fn write_header(&self, device: &dyn Device, ring: u64, lives: Lives) -> std::io::Result<()> {
        device.write_durable(DeviceFile::Log, 0, &block::header(self.identity, ring, lives))
    }

    // ---- requests for checkpoints ----

    pub(super) fn is_half_used<M: Memory>(&self, memory: &M, filling: u64) -> bool {
        filling.saturating_sub(memory.load(self.start())) >= self.ring_blocks(memory).div_ceil(2)
    }

    /// Returns whether half of the ring is used.
    pub fn is_half_full<M: Memory>(&self, view: &View<M>) -> bool {
        self.is_half_used(&view.memory, view.memory.load(self.filling()))
    }

    /// Returns whether a checkpoint is wanted: it was requested, half of the ring is used, or the number of dirty pages has reached its bound.
    pub fn checkpoint_wanted<M: Memory>(&self, view: &View<M>) -> bool {
        let memory = &view.memory;
        let active = memory.load(self.active_bitmap());
        memory.load(self.wanted()) != 0
            || self.is_half_full(view)
            || memory.load(self.count(active)) >= self.dirty_pages
    }

    /// Returns whether the running checkpoint should write as fast as the device can: a thread waits for its end, commits wait for room or soon will,
    /// or the next checkpoint is due.
    pub(super) fn is_pressed<M: Memory>(&self, memory: &M) -> bool {
        let used = memory.load(self.filling()).saturating_sub(memory.load(self.start()));
        let active = memory.load(self.active_bitmap());
        memory.load(self.queue()) != 0
            || latch::is_awaited(memory, self.checkpointing())
            || 4 * used >= 3 * self.ring_blocks(memory)
            || memory.load(self.count(active)) >= self.dirty_pages
    }

    /// Requests a checkpoint, or wakes the thread that takes checkpoints so that it checks whether one is wanted.
    pub fn request_checkpoint<M: Memory>(&self, memory: &M) {
        memory.store(self.wanted(), CHECKPOINT);
        memory.wake(self.wanted());
    }

    /// Requests a checkpoint unless one is requested or running already. A thread that still needs one after that requests it again.
    pub(crate) fn ask_for_checkpoint<M: Memory>(&self, memory: &M) {
        if memory.load(self.wanted()) != CHECKPOINT && latch::load_in_order(memory, self.checkpointing()) == 0
        {
            self.request_checkpoint(memory);
        }
    }

    /// Waits for a request. Returns whether it is for a checkpoint. This is for the thread that takes checkpoints.
    pub fn wait_for_request<M: Memory>(&self, view: &View<M>) -> bool {
        let memory = &view.memory;
        loop {
            match memory.load(self.wanted()) {
                0 => memory.wait(self.wanted(), 0),
                GROWTH if memory.compare_exchange(self.wanted(), GROWTH, 0).is_ok() => return false,
                GROWTH => {}
                _ => return true,
            }
        }
    }

    // ---- the heap file ----

    /// Requests that the thread that takes checkpoints lets the heap file grow to `bytes` bytes before a transaction needs them: extending a file
    /// durably takes longer than a commit.
    #[cold]
    pub(crate) fn ask_for_growth<M: Memory>(&self, memory: &M, bytes: u64) {
        memory.store(self.growth_word(), bytes);
        if memory.compare_exchange(self.wanted(), 0, GROWTH).is_ok() {
            memory.wake(self.wanted());
        }
    }

    /// Lets the heap file grow if that was requested.
    pub fn grow_ahead<M: Memory>(&self, view: &View<M>) {
        let memory = &view.memory;
        let bytes = memory.load(self.growth_word());
        if bytes == 0 {
            return;
        }
        memory.store(self.growth_word(), 0);
        if bytes <= memory.size(Space::Persistent) {
            return;
        }
        let Err(error) = memory.grow(bytes, bytes) else { return };
        // If the disk is full, the transaction that needs more room reports it.
        if memory.check_poison().is_err() {
            self.poison(memory, Failure::HeapFlush, &error);
        }
    }

    /// Writes the last page of the heap file again if the file has pages that the heap does not need yet. A failed flush of a file that had grown may
    /// have lost them, although the system still shows them. Durable after a flush.
    pub(super) fn write_end_again<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
    ) -> std::io::Result<()> {
        let reached = view.memory.load(view.layout.reached()).min(view.layout.chunk_count);
        let size = device.size(DeviceFile::Heap)? / PAGE_BYTES * PAGE_BYTES;
        if size <= view.layout.end_of(reached).offset() {
            return Ok(());
        }
        let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
        device.read(DeviceFile::Heap, size - PAGE_BYTES, &mut page)?;
        device.write(DeviceFile::Heap, size - PAGE_BYTES, &page)
    }

    /// Returns the address of the latch that is held during a checkpoint. Only [`SharedLog::let_checkpoints`] releases it, because that wakes the
    /// transaction that waits for room, which has not requested a checkpoint if it saw the latch taken.
    fn checkpointing(&self) -> VolatileAddress {
        self.line(12)
    }

    /// Waits for a running checkpoint, and prevents others until [`SharedLog::let_checkpoints`].
    pub(super) fn keep_checkpoints<M: Memory>(&self, memory: &M) {
        lock(memory, self.checkpointing());
    }

    /// Runs `body` while no checkpoint runs and no thread writes past the log for a transaction that then commits. The used part of the heap file
    /// does not change, nor do the blocks from S on or their places, except that commits append. If recovery has left pages to the next checkpoint, that
    /// one is taken first: until then a crash may have left such a page half written, other than its checksum says.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`], and the errors of `body`.
    pub(crate) fn hold_checkpoints<M: Memory, R>(
        &self,
        view: &View<M>,
        body: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        self.hold_latch_of_checkpoints(view, || {
            self.check_poison(&view.memory)?;
            if view.memory.load(self.start()) < view.memory.load(self.inherited_end()) {
                self.run_checkpoint(view, Haste::Hurried)?;
            }
            self.begin_backup(&view.memory);
            let done = body();
            self.end_backup(&view.memory);
            done
        })
    }

    /// Runs `body` with the latch of checkpoints held. A panic in it poisons the pool, and leaves neither the latch held nor the gate closed.
    pub(super) fn hold_latch_of_checkpoints<M: Memory, R>(
        &self,
        view: &View<M>,
        body: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let memory = &view.memory;
        latch::lock_unless_deadlocked(memory, self.checkpointing())?;
        self.poisoning(memory, "a checkpoint", body, || self.let_checkpoints(memory))
    }

    /// Releases the latch of checkpoints, and opens the gate if a failed checkpoint has left it closed.
    pub(super) fn let_checkpoints<M: Memory>(&self, memory: &M) {
        if memory.load(self.gate()) != 0 {
            self.open_gate(memory);
        }
        unlock(memory, self.checkpointing());
        // This comes after the release: a transaction that found no room while a checkpoint ran has not requested another one.
        if !memory.omitted(Step::SyncRoomAnnounced) {
            self.announce_room(memory);
        }
    }

    // ---- without a thread for checkpoints ----

    /// Returns the address of a word that is set if no thread takes checkpoints.
    fn unattended_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(5)
    }

    /// From now on, each transaction that finds no room takes the checkpoint itself, since no thread does.
    pub fn run_unattended<M: Memory>(&self, memory: &M) {
        memory.store(self.unattended_word(), 1);
    }

    pub(super) fn is_unattended<M: Memory>(&self, memory: &M) -> bool {
        memory.load(self.unattended_word()) != 0
    }

    /// Does the work of the thread that takes checkpoints, for a transaction that waits for room and is not in commit.
    pub(super) fn make_room_unattended<M: Memory>(&self, view: &View<M>) -> Result<()> {
        self.checkpoint(view)?;
        match self.larger_ring(view, false) {
            Some(blocks) => self.enlarge_ring(view, blocks).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the durable blocks that recovery needs.
    pub(crate) fn needed_blocks<M: Memory>(&self, view: &View<M>) -> std::ops::Range<u64> {
        view.memory.load(self.start())..view.memory.load(self.durable())
    }

    /// Returns the offset of block `number` in the log file.
    pub(crate) fn block_offset<M: Memory>(&self, view: &View<M>, number: u64) -> u64 {
        block::offset(number, self.ring_blocks(&view.memory))
    }
}
