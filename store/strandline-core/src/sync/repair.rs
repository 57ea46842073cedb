//! Finds damage in a log's header and in checkpoint slots, and restores the header.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::block::{self, BLOCK_BYTES, BlockHead, CREATION, Lives, LogIdentity, MAXIMAL_RING, MINIMAL_RING};
use super::damage::LogDamage;
use super::recovery::LogHeader;
use super::slot::CheckpointSlot;
use crate::error::{Error, Result};
use crate::layout::{Layout, PAGE_BYTES};
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};

/// Returns the identity in a log's header if the header is intact.
pub(crate) fn log_identity(log: &File) -> Option<LogIdentity> {
    let mut header = vec![0; BLOCK_BYTES as usize];
    log.read_exact_at(&mut header, 0).ok()?;
    block::read_header(&header).ok().map(|(identity, ..)| identity)
}

/// The log that belongs to a heap, according to the heap's newest checkpoint slot.
#[derive(Clone, Copy)]
pub(crate) struct OwnLog {
    pub identity: LogIdentity,
    slot: CheckpointSlot,
    /// True if the other slot is damaged. It may have been the newer one, which recovery decides.
    other_is_damaged: bool,
}

impl OwnLog {
    /// Returns whether the log with this header and ring was last used with the heap, and neither was restored from an older copy.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub fn is(&self, device: &dyn Device, header: &LogHeader) -> io::Result<bool> {
        let LogHeader { identity, ring, lives } = header;
        if *identity != self.identity || self.slot.life == lives.current || self.other_is_damaged {
            return Ok(*identity == self.identity);
        }
        // This is the state after a crash in the recovery that began the header's life.
        Ok(self.slot.life == lives.previous
            && !holds_life(device, *identity, *ring, |life| life == lives.current)?)
    }
}

/// Returns the log that belongs to this pool's heap file, or `None` if the pool never had a log or neither slot is valid.
///
/// # Errors
/// Returns an error if the heap file cannot be read.
pub(crate) fn log_of_heap(heap: &File, pool: &[u8; 16]) -> io::Result<Option<OwnLog>> {
    let (mut newest, mut valid): (Option<CheckpointSlot>, _) = (None, 0);
    let mut page = vec![0; PAGE_BYTES as usize];
    for index in 0..2 {
        heap.read_exact_at(&mut page, Layout::CHECKPOINT_SLOTS.offset() + index * PAGE_BYTES)?;
        let slot = CheckpointSlot::decode(&page, pool);
        valid += u64::from(slot.is_some());
        if let Some(slot) = slot
            && newest.is_none_or(|other| slot.generation > other.generation)
        {
            newest = Some(slot);
        }
    }
    Ok(newest.map(|slot| OwnLog {
        identity: LogIdentity { pool: *pool, nonce: slot.nonce },
        slot,
        other_is_damaged: valid < 2,
    }))
}

/// Writes the header of this log again, if its old contents are certain. The slot contains the life; the slot and the file's size determine the ring,
/// and the one counts with which more blocks follow S. The old checksum, or the rest of the old header, or a block of the ring must agree. Returns
/// false if it is not certain.
///
/// # Errors
/// Returns the device's error.
pub(crate) fn repair_log_header(
    device: &dyn Device,
    OwnLog { identity, slot, .. }: OwnLog,
) -> io::Result<bool> {
    let CheckpointSlot { life, ring, .. } = slot;
    let size = device.size(DeviceFile::Log)?;
    let most = (size / BLOCK_BYTES).saturating_sub(1);
    if !size.is_multiple_of(BLOCK_BYTES) || !(MINIMAL_RING..=most.min(MAXIMAL_RING)).contains(&ring) {
        return Ok(false);
    }
    // The ring may have been enlarged since the slot was written: either both the header and the file, or only the file. With the wrong size, fewer
    // blocks follow one another.
    let follow = |ring| blocks_from(device, &slot, ring, identity.seed());
    let ring = if follow(most)? > follow(ring)? { most } else { ring };
    let good = block::header(identity, ring, Lives { current: life, previous: life });
    let mut found = AlignedBuffer::new(BLOCK_BYTES as usize);
    device.read(DeviceFile::Log, 0, &mut found)?;
    if Lives::load(&found).is_some_and(|lives| lives.current != life) {
        return Ok(false);
    }
    if !block::may_have_been(&found, &good)
        && highest_block(device, ring, identity.seed(), |_| true)?.is_none()
    {
        return Ok(false);
    }
    device.write_durable(DeviceFile::Log, 0, &good)?;
    Ok(true)
}

/// Returns how many blocks of this slot follow one another in a ring of this size.
fn blocks_from(device: &dyn Device, slot: &CheckpointSlot, ring: u64, seed: u32) -> io::Result<u64> {
    let mut found = AlignedBuffer::new(BLOCK_BYTES as usize);
    for number in slot.start..slot.start + ring {
        device.read(DeviceFile::Log, block::offset(number, ring), &mut found)?;
        if block::check(&found, number, slot.life_of(number), seed).is_none() {
            return Ok(number - slot.start);
        }
    }
    Ok(ring)
}

/// Returns whether the log has a block that was written after its pool was published. Reads the whole log.
///
/// # Errors
/// Returns the device's error.
pub(crate) fn was_used(device: &dyn Device, header: &LogHeader) -> io::Result<bool> {
    holds_life(device, header.identity, header.ring, |life| life != CREATION)
}

fn holds_life(
    device: &dyn Device,
    identity: LogIdentity,
    ring: u64,
    wanted: impl Fn(u64) -> bool,
) -> io::Result<bool> {
    let mut found = false;
    visit_blocks(device, ring, identity.seed(), |head, _| found |= wanted(head.life))?;
    Ok(found)
}

/// Number of the ring's blocks that are read at a time.
const BATCH_BLOCKS: u64 = 256;

/// Returns the highest number of a valid block at its place in the ring that `counts`. Reads the whole ring.
pub(super) fn highest_block(
    device: &dyn Device,
    ring: u64,
    seed: u32,
    counts: impl Fn(&BlockHead) -> bool,
) -> io::Result<Option<u64>> {
    let mut highest = None;
    visit_blocks(device, ring, seed, |head, _| {
        if counts(&head) {
            highest = highest.max(Some(head.number));
        }
    })?;
    Ok(highest)
}

/// Calls `visit` with each valid block at its place in the ring.
pub(super) fn visit_blocks(
    device: &dyn Device,
    ring: u64,
    seed: u32,
    mut visit: impl FnMut(BlockHead, &[u8]),
) -> io::Result<()> {
    let mut batch = AlignedBuffer::new((BATCH_BLOCKS.min(ring) * BLOCK_BYTES) as usize);
    for first in (0..ring).step_by(BATCH_BLOCKS as usize) {
        let count = BATCH_BLOCKS.min(ring - first);
        let batch = &mut batch[..(count * BLOCK_BYTES) as usize];
        device.read(DeviceFile::Log, block::offset(first, ring), batch)?;
        for (place, found) in (first..).zip(batch.chunks_exact(BLOCK_BYTES as usize)) {
            if let Some(head) = block::read_head(found, seed).filter(|head| head.number % ring == place) {
                visit(head, found);
            }
        }
    }
    Ok(())
}

/// Returns the heads of all intact blocks at their places in the ring, in no particular order.
///
/// # Errors
/// Returns the device's error.
pub fn log_blocks(device: &dyn Device, header: &LogHeader) -> io::Result<Vec<BlockHead>> {
    let mut heads = Vec::new();
    visit_blocks(device, header.ring, header.identity.seed(), |head, _| heads.push(head))?;
    Ok(heads)
}

/// Returns the damage in the log of a pool that was not closed, as far as the whole ring proves it.
///
/// # Errors
/// Returns the device's error.
pub(crate) fn damaged_log(device: &dyn Device, own: &OwnLog, ring: u64) -> io::Result<Option<LogDamage>> {
    let OwnLog { identity, slot, .. } = own;
    let end = slot.start + blocks_from(device, slot, ring, identity.seed())?;
    LogDamage::find(device, ring, identity.seed(), slot, end)
}

/// Returns descriptions of the checkpoint slots that are not valid. No crash leaves one, since a slot is in one sector.
///
/// # Errors
/// Returns an error if the heap file cannot be read.
pub(crate) fn damaged_slots(device: &dyn Device, pool: &[u8; 16]) -> Result<Vec<String>> {
    let mut damaged = Vec::new();
    for index in 0..2 {
        let slot = CheckpointSlot::read(device, index, pool)
            .map_err(|source| Error::io("read the pool's heap file", source))?;
        if slot.is_none() {
            damaged.push(format!("checkpoint slot {index} is not valid"));
        }
    }
    Ok(damaged)
}
