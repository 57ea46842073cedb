//! The size of the ring, and what follows from it: where blocks lie, and when a checkpoint is wanted.
//!
//! A ring begins small and becomes larger while checkpoints would come too often, up to a bound. Block n lies at place n mod N, so N
//! changes only while no block is needed whose place would change:
//!
//! 1. The file is made as long as it has to be, zeros, durably. The header says what N is, so that nobody looks there yet. Commits go on
//!    meanwhile, and wait for a piece of zeros at most.
//! 2. The gate is closed: nobody is in commit. The block being filled is closed, so that all blocks from S to F, the next one, are
//!    written, or will be, by a flush that is under way.
//! 3. If each of them has the same place in the larger ring, all is well. With twice as many blocks that is so whenever S lies in the
//!    first half of the larger ring and F has not left it. Otherwise the gate is opened, and the next checkpoint gives another chance; or,
//!    where somebody waits who needs more than the ring has, a checkpoint is taken now, with the gate closed, after which no block is needed.
//! 4. The header with the new N is written, durably. Now the gate is opened.
//!
//! A crash before 4 leaves the old N, one after it the new one, and the blocks that recovery needs are found with either. What lies at
//! the place of a further one has a lower number, or is zeros. No number from S + N on has been used, with the old N, so that S + N, with
//! which the next life begins, is above all that were, whichever N it is.
//!
//! Where the disk has no room for a longer file, the ring stays as it is until the pool is opened again.

use crate::error::Result;
use crate::layout::{PAGE_BYTES, View};
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};
use crate::memory::latch::{self, lock, unlock};
use crate::memory::{Memory, Space, Step, VolatileAddress};

use super::block::{self, BLOCK_BYTES, Lives};
use super::checkpoint::{CheckpointReport, Haste};
use super::shared_log::{Failure, SPARE_BLOCKS, SharedLog};

/// What is asked for: a checkpoint, or only that the heap file grows.
const CHECKPOINT: u64 = 1;
const GROWTH: u64 = 2;

/// Blocks of zeros written to a longer log between two flushes: commits wait for that long.
const FILLED_BLOCKS: u64 = 32;

/// Makes a new log file long enough for a ring of `ring` blocks, zeros, really written, so that no later append allocates. Durable after
/// a flush.
pub(super) fn fill(device: &dyn Device, ring: u64) -> std::io::Result<()> {
    device.extend(DeviceFile::Log, BLOCK_BYTES * (1 + ring))?;
    device.fill(DeviceFile::Log, BLOCK_BYTES, BLOCK_BYTES * ring)
}

/// Returns whether the blocks that are needed, numbers `needed`, lie at the same places in a ring of `ring` blocks and in one of `larger`.
fn places_agree(needed: &std::ops::Range<u64>, ring: u64, larger: u64) -> bool {
    let &std::ops::Range { start, end } = needed;
    start == end || (start % ring == start % larger && start / ring == (end - 1) / ring)
}

impl SharedLog {
    /// N. It changes while the gate is closed.
    fn ring_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE)
    }
    /// The most that N may become.
    fn bound_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(1)
    }
    /// Blocks that somebody waits for who needs more than the ring has; 0 for none.
    fn needed_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(2)
    }

    /// Blocks that the log file has room for, zeros, where it is more than the ring.
    fn extended_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(3)
    }

    /// Bytes that the heap file should soon have; 0: enough.
    fn growth_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(4)
    }

    /// The ring is as large as the header says.
    pub(super) fn begin_ring<M: Memory>(&self, memory: &M) {
        memory.store(self.ring_word(), self.ring);
        memory.store(self.bound_word(), self.most_blocks.max(self.ring));
    }

    /// N, the blocks in the ring.
    pub fn ring_blocks<M: Memory>(&self, memory: &M) -> u64 {
        memory.load(self.ring_word())
    }

    /// The blocks that a ring can have which somebody waits for.
    pub(super) fn ring_bound<M: Memory>(&self, memory: &M) -> u64 {
        memory.load(self.bound_word())
    }

    /// Asks for a ring of `blocks` blocks at least, together with a checkpoint. `false`: there cannot be one.
    pub(super) fn need_ring<M: Memory>(&self, memory: &M, blocks: u64) -> bool {
        let blocks = blocks + SPARE_BLOCKS;
        if blocks > self.ring_bound(memory) {
            return false;
        }
        if blocks > self.ring_blocks(memory) {
            // One waits for room at a time.
            memory.store(self.needed_word(), blocks);
        }
        true
    }

    /// How many blocks the ring should have, if it should become larger: because somebody waits who needs more than it has, or, where
    /// `checkpoints_are_frequent`, so that there are fewer.
    pub fn larger_ring<M: Memory>(&self, view: &View<M>, checkpoints_are_frequent: bool) -> Option<u64> {
        let memory = &view.memory;
        let (ring, needed) = (self.ring_blocks(memory), memory.load(self.needed_word()));
        if needed <= ring && !checkpoints_are_frequent {
            return None;
        }
        let larger = needed.max(2 * ring).min(self.ring_bound(memory));
        (larger > ring).then_some(larger)
    }

    /// Makes the ring larger, if the disk has room for it and blocks that are needed need not move; whether it is larger now. Where somebody waits
    /// for it, they are made unneeded. Called by a thread that is in no transaction, best after a checkpoint.
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
        // Should the newer slot be damaged later, recovery would begin at the older slot's S, whose blocks are at other places in the larger ring.
        self.run_checkpoint_both(view)?;
        self.close_gate(view);
        let done = self.enlarge_gated(view, device, blocks);
        self.open_gate(memory);
        done
    }

    /// Makes the log file of a ring of `from` blocks, which goes on being written, long enough for `to`, durably; `false` if there is no
    /// room for it.
    fn extend<M: Memory>(&self, memory: &M, device: &dyn Device, from: u64, to: u64) -> Result<bool> {
        if device.extend(DeviceFile::Log, BLOCK_BYTES * (1 + to)).is_err() {
            return Ok(false);
        }
        for from in (from..to).step_by(FILLED_BLOCKS as usize) {
            let blocks = FILLED_BLOCKS.min(to - from);
            if device.fill(DeviceFile::Log, BLOCK_BYTES * (1 + from), BLOCK_BYTES * blocks).is_err() {
                return Ok(false);
            }
            // Not all of it together, which would hold up commits for as long as that takes.
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
            // The places of blocks agree again and again only where one ring is a multiple of the other.
            if memory.load(self.needed_word()) <= ring && blocks.is_multiple_of(ring) {
                return Ok(false);
            }
            let taken = self.take_dirty_pages(memory);
            let CheckpointReport { start, watermark, .. } = self.write_taken(view, taken, Haste::Hurried)?;
            self.write_slot(view, device, start, watermark)?;
        }
        let life = memory.load(self.life());
        // Recovery, which knows a header's life from the one before it, has ended: nobody asks for that any more.
        let lives = Lives { current: life, previous: life };
        self.write_header(device, blocks, lives)
            .map_err(|error| self.poison(memory, Failure::LogWrite, &error))?;
        memory.store(self.ring_word(), blocks);
        Ok(true)
    }

    /// Writes the log's header, durably.
    pub(super) fn write_header(&self, device: &dyn Device, ring: u64, lives: Lives) -> std::io::Result<()> {
        device.write_durable(DeviceFile::Log, 0, &block::header(self.identity, ring, lives))
    }

    // ---- who wants a checkpoint ----

    pub(super) fn is_half_used<M: Memory>(&self, memory: &M, filling: u64) -> bool {
        filling.saturating_sub(memory.load(self.start())) >= self.ring_blocks(memory).div_ceil(2)
    }

    /// Returns whether half the ring is used.
    pub fn is_half_full<M: Memory>(&self, view: &View<M>) -> bool {
        self.is_half_used(&view.memory, view.memory.load(self.filling()))
    }

    /// Returns whether a checkpoint is wanted: somebody asked for one, half the ring is used, or the dirty pages have
    /// reached their bound.
    pub fn checkpoint_wanted<M: Memory>(&self, view: &View<M>) -> bool {
        let memory = &view.memory;
        let active = memory.load(self.active_bitmap());
        memory.load(self.wanted()) != 0
            || self.is_half_full(view)
            || memory.load(self.count(active)) >= self.dirty_pages
    }

    /// Returns whether the running checkpoint should write as fast as the device can: because a thread waits for its end, because commits wait for
    /// room or soon will, or because the next checkpoint is due.
    pub(super) fn is_pressed<M: Memory>(&self, memory: &M) -> bool {
        let used = memory.load(self.filling()).saturating_sub(memory.load(self.start()));
        let active = memory.load(self.active_bitmap());
        memory.load(self.queue()) != 0
            || latch::is_awaited(memory, self.checkpointing())
            || 4 * used >= 3 * self.ring_blocks(memory)
            || memory.load(self.count(active)) >= self.dirty_pages
    }

    /// Asks for a checkpoint, or wakes whoever waits to run one so that it looks why.
    pub fn request_checkpoint<M: Memory>(&self, memory: &M) {
        memory.store(self.wanted(), CHECKPOINT);
        memory.wake(self.wanted());
    }

    /// Asks for a checkpoint unless one is asked for or running: whoever still needs one after it asks again.
    pub(crate) fn ask_for_checkpoint<M: Memory>(&self, memory: &M) {
        if memory.load(self.wanted()) != CHECKPOINT && latch::load_in_order(memory, self.checkpointing()) == 0
        {
            self.request_checkpoint(memory);
        }
    }

    /// Blocks until something is asked for; whether it is a checkpoint. For the thread that runs them.
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

    /// Asks whoever runs checkpoints to have the heap file grow to `bytes` bytes before a transaction needs them: extending a file and
    /// making that durable takes longer than a commit.
    #[cold]
    pub(crate) fn ask_for_growth<M: Memory>(&self, memory: &M, bytes: u64) {
        memory.store(self.growth_word(), bytes);
        if memory.compare_exchange(self.wanted(), 0, GROWTH).is_ok() {
            memory.wake(self.wanted());
        }
    }

    /// Has the heap file grow if that was asked for.
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
        // Where the disk is full the transaction that needs more finds out.
        if memory.check_poison().is_err() {
            self.poison(memory, Failure::HeapFlush, &error);
        }
    }

    /// Writes the last page of the heap file again, if that has pages which the heap does not need yet: a failed flush of a file that had
    /// grown may have lost them, although the system still shows them. Durable after a flush.
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

    /// The latch that is held while a checkpoint runs. Only [`SharedLog::let_checkpoints`] releases it, since that wakes the transaction that waits for
    /// room: it has not asked for a checkpoint if it saw the latch taken.
    fn checkpointing(&self) -> VolatileAddress {
        self.line(12)
    }

    /// Waits for a checkpoint that runs, and lets no other begin until [`SharedLog::let_checkpoints`].
    pub(super) fn keep_checkpoints<M: Memory>(&self, memory: &M) {
        lock(memory, self.checkpointing());
    }

    /// Runs `body` while no checkpoint runs and nobody writes past the log what then is committed: neither the heap file, as far as it is used, nor
    /// the blocks from S on change, other than by commits that append, nor where they lie.
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
            self.begin_backup(&view.memory);
            let done = body();
            self.end_backup(&view.memory);
            done
        })
    }

    /// Runs `body` with the latch that a checkpoint holds. A panic there poisons the pool and leaves neither the latch nor the gate closed.
    pub(super) fn hold_latch_of_checkpoints<M: Memory, R>(
        &self,
        view: &View<M>,
        body: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let memory = &view.memory;
        latch::lock_unless_deadlocked(memory, self.checkpointing())?;
        self.poisoning(memory, "a checkpoint", body, || self.let_checkpoints(memory))
    }

    /// Releases the latch that a checkpoint holds, and opens the gate if a checkpoint that failed has left it closed.
    pub(super) fn let_checkpoints<M: Memory>(&self, memory: &M) {
        if memory.load(self.gate()) != 0 {
            self.open_gate(memory);
        }
        unlock(memory, self.checkpointing());
        // After the unlock: a transaction that found no room while a checkpoint ran has not asked for another.
        if !memory.omitted(Step::SyncRoomAnnounced) {
            self.announce_room(memory);
        }
    }

    // ---- without a thread for checkpoints ----

    /// Returns whether no thread runs checkpoints.
    fn unattended_word(&self) -> VolatileAddress {
        self.line(Self::RING_LINE).word(5)
    }

    /// From now on each transaction that finds no room runs the checkpoint itself, since no thread does.
    pub fn run_unattended<M: Memory>(&self, memory: &M) {
        memory.store(self.unattended_word(), 1);
    }

    pub(super) fn is_unattended<M: Memory>(&self, memory: &M) -> bool {
        memory.load(self.unattended_word()) != 0
    }

    /// Does what the thread for checkpoints would, for a transaction that waits for room and is not in commit.
    pub(super) fn make_room_unattended<M: Memory>(&self, view: &View<M>) -> Result<()> {
        self.checkpoint(view)?;
        match self.larger_ring(view, false) {
            Some(blocks) => self.enlarge_ring(view, blocks).map(drop),
            None => Ok(()),
        }
    }

    /// The blocks that recovery needs and that are durable.
    pub(crate) fn needed_blocks<M: Memory>(&self, view: &View<M>) -> std::ops::Range<u64> {
        view.memory.load(self.start())..view.memory.load(self.durable())
    }

    /// Where block `number` lies in the log file.
    pub(crate) fn block_offset<M: Memory>(&self, view: &View<M>, number: u64) -> u64 {
        block::offset(number, self.ring_blocks(&view.memory))
    }
}
