//! The size of the ring, and what follows from it: where blocks lie, and when a checkpoint is wanted.
//!
//! A ring begins small and becomes larger while checkpoints would come too often, up to a bound. Block n lies at place n mod N, so N
//! changes only while no block is needed:
//!
//! 1. The file is made as long as it has to be, zeros, durably. The header says what N is, so that nobody looks there yet.
//! 2. A checkpoint, during which the gate stays closed: nobody is in commit, and everything appended is durable, home in the heap file
//!    and below the S of a durable slot.
//! 3. The header with the new N is written, durably.
//! 4. Now the gate is opened.
//!
//! A crash before 3 leaves the old N, one after it the new one, and no block from S on has been written in either case: what lies at
//! its place has a lower number, or is zeros. No number above S has been used, so that S + N, with which the next life begins, is
//! above all that were, whichever N it is.
//!
//! Where the disk has no room for a longer file, the ring stays as it is until the pool is opened again.

use crate::error::Result;
use crate::layout::View;
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};
use crate::memory::latch::{lock, unlock};
use crate::memory::{Memory, Step, VolatileAddress};

use super::block::{self, BLOCK_BYTES, Lives};
use super::shared_log::{Failure, SharedLog};

/// Blocks of zeros written at a time.
const BATCH_BLOCKS: u64 = 256;

/// Makes a log file long enough for a ring of `ring` blocks, and fills the part for the blocks from place `first` on with zeros, really
/// written, so that no later append allocates. Durable on return.
pub(super) fn extend(device: &dyn Device, first: u64, ring: u64) -> std::io::Result<()> {
    let log = DeviceFile::Log;
    let (mut at, end) = (block::offset(first, ring), BLOCK_BYTES * (1 + ring));
    device.grow(log, end)?;
    let zeros = AlignedBuffer::new((BATCH_BLOCKS.min(ring) * BLOCK_BYTES) as usize);
    while at < end {
        let length = (end - at).min(zeros.len() as u64);
        device.write(log, at, &zeros[..length as usize])?;
        at += length;
    }
    Ok(())
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

    /// The ring is as large as the header says.
    pub(super) fn begin_ring<M: Memory>(&self, memory: &M) {
        memory.store(self.ring_word(), self.ring);
        memory.store(self.bound_word(), self.most_blocks.max(self.ring));
    }

    /// N, the blocks in the ring.
    #[inline]
    pub fn ring_blocks<M: Memory>(&self, memory: &M) -> u64 {
        memory.load(self.ring_word())
    }

    /// The blocks that a ring can have which somebody waits for.
    pub(super) fn ring_bound<M: Memory>(&self, memory: &M) -> u64 {
        memory.load(self.bound_word())
    }

    /// Asks for a ring of `blocks` blocks at least, together with a checkpoint. `false`: there cannot be one.
    pub(super) fn need_ring<M: Memory>(&self, memory: &M, blocks: u64) -> bool {
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

    /// Makes the ring larger, if the disk has room for it; whether it is larger now. Called by a thread that is in no transaction, best
    /// after a checkpoint, since commits wait for the one that this takes.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned): the device failed, now or earlier.
    pub fn enlarge_ring<M: Memory>(&self, view: &View<M>, blocks: u64) -> Result<bool> {
        let memory = &view.memory;
        lock(memory, self.checkpointing());
        let enlarged = self.check_poison(memory).and_then(|()| self.enlarge(view, blocks));
        memory.store(self.needed_word(), 0);
        unlock(memory, self.checkpointing());
        // Whoever waits for room finds it, or that there will be none.
        self.announce_room(memory);
        enlarged
    }

    fn enlarge<M: Memory>(&self, view: &View<M>, blocks: u64) -> Result<bool> {
        let (memory, device) = (&view.memory, self.device(view)?);
        let ring = self.ring_blocks(memory);
        if blocks <= ring {
            return Ok(false);
        }
        if extend(device, ring, blocks).is_err() {
            memory.store(self.bound_word(), ring);
            return Ok(false);
        }
        device.flush(DeviceFile::Log).map_err(|error| self.poison(memory, Failure::LogWrite, &error))?;
        self.close_gate(view);
        let done = self.enlarge_gated(view, device, blocks);
        self.open_gate(memory);
        done.map(|()| true)
    }

    fn enlarge_gated<M: Memory>(&self, view: &View<M>, device: &dyn Device, blocks: u64) -> Result<()> {
        let memory = &view.memory;
        let life = memory.load(self.life());
        // Recovery, which knows a header's life from the one before it, has ended: nobody asks for that any more.
        let lives = Lives { current: life, previous: life };
        let early = memory.omitted(Step::SyncRingCheckpoint);
        let write_header = || {
            self.write_header(device, blocks, lives)
                .map_err(|error| self.poison(memory, Failure::LogWrite, &error))
        };
        if early {
            write_header()?;
        }
        let taken = self.take_dirty_pages(memory);
        self.write_taken(view, taken)?;
        if !early {
            write_header()?;
        }
        memory.store(self.ring_word(), blocks);
        Ok(())
    }

    /// Writes the log's header, durably.
    pub(super) fn write_header(&self, device: &dyn Device, ring: u64, lives: Lives) -> std::io::Result<()> {
        device.write_durable(DeviceFile::Log, 0, &block::header(self.identity, ring, lives))
    }

    // ---- who wants a checkpoint ----

    pub(super) fn is_half_used<M: Memory>(&self, memory: &M, filling: u64) -> bool {
        filling.saturating_sub(memory.load(self.start())) >= self.ring_blocks(memory).div_ceil(2)
    }

    /// Whether half the ring is used.
    pub fn is_half_full<M: Memory>(&self, view: &View<M>) -> bool {
        self.is_half_used(&view.memory, view.memory.load(self.filling()))
    }

    /// Whether a checkpoint is wanted: somebody asked for one, half the ring is used, or the dirty pages have
    /// reached their bound.
    pub fn checkpoint_wanted<M: Memory>(&self, view: &View<M>) -> bool {
        let memory = &view.memory;
        let active = memory.load(self.active_bitmap());
        memory.load(self.wanted()) != 0
            || self.is_half_full(view)
            || memory.load(self.count(active)) >= self.dirty_bound
    }

    /// Asks for a checkpoint, or wakes whoever waits to run one so that it looks why.
    pub fn request_checkpoint<M: Memory>(&self, memory: &M) {
        memory.store(self.wanted(), 1);
        memory.wake(self.wanted());
    }

    /// Asks for a checkpoint unless one is asked for or running: whoever still needs one after it asks again.
    pub(super) fn ask_for_checkpoint<M: Memory>(&self, memory: &M) {
        if memory.load(self.wanted()) == 0 && memory.load(self.checkpointing()) == 0 {
            self.request_checkpoint(memory);
        }
    }

    /// Blocks until a checkpoint is asked for. For the thread that runs them.
    pub fn wait_for_request<M: Memory>(&self, view: &View<M>) {
        while view.memory.load(self.wanted()) == 0 {
            view.memory.wait(self.wanted(), 0);
        }
    }

    /// Runs `body` while no checkpoint runs: neither the heap file nor the blocks from S on change, other than by
    /// commits that append, nor where they lie.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; those of `body`.
    pub(crate) fn hold_checkpoints<M: Memory, R>(
        &self,
        view: &View<M>,
        body: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        lock(&view.memory, self.checkpointing());
        let result = self.check_poison(&view.memory).and_then(|()| body());
        unlock(&view.memory, self.checkpointing());
        // Who found no room while a checkpoint seemed to run has not asked for one.
        self.announce_room(&view.memory);
        result
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
