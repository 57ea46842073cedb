//! What is damaged in a log's header and in checkpoint slots, and what the header was.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::block::{self, BLOCK_BYTES, LogIdentity, MAXIMAL_RING, MINIMAL_RING};
use super::device::{AlignedBuffer, Device, DeviceFile};
use super::slot::CheckpointSlot;
use crate::error::{Error, Result};
use crate::pool::layout::{Layout, PAGE_BYTES};

/// The identity that a log's header names, if the header is whole.
pub(crate) fn log_identity(log: &File) -> Option<LogIdentity> {
    let mut header = vec![0; BLOCK_BYTES as usize];
    log.read_exact_at(&mut header, 0).ok()?;
    block::read_header(&header).ok().map(|(identity, _)| identity)
}

/// The identity of the log that belongs to the heap file of this pool, as its newest checkpoint slot has it; `None`: the pool
/// never had a log, or neither slot is valid.
///
/// # Errors
/// The heap file cannot be read.
pub(crate) fn log_of_heap(heap: &File, pool: &[u8; 16]) -> io::Result<Option<LogIdentity>> {
    let mut newest: Option<CheckpointSlot> = None;
    let mut page = vec![0; PAGE_BYTES as usize];
    for index in 0..2 {
        heap.read_exact_at(&mut page, Layout::CHECKPOINT_SLOTS.offset() + index * PAGE_BYTES)?;
        if let Some(slot) = CheckpointSlot::decode(&page, pool)
            && newest.is_none_or(|other| slot.generation > other.generation)
        {
            newest = Some(slot);
        }
    }
    Ok(newest.map(|slot| LogIdentity { pool: *pool, nonce: slot.nonce }))
}

/// Writes the header of the log with this identity again, if it is certain what it was: the file's size tells the
/// ring's, and the old checksum, or the rest of the old header, or a block of the ring must agree. `false`: it is not.
///
/// # Errors
/// The device's.
pub(crate) fn mend_log_header(device: &dyn Device, identity: LogIdentity) -> io::Result<bool> {
    let size = device.size(DeviceFile::Log)?;
    let ring = (size / BLOCK_BYTES).saturating_sub(1);
    if !size.is_multiple_of(BLOCK_BYTES) || !(MINIMAL_RING..=MAXIMAL_RING).contains(&ring) {
        return Ok(false);
    }
    let good = block::header(identity, ring);
    let mut found = AlignedBuffer::new(BLOCK_BYTES as usize);
    device.read(DeviceFile::Log, 0, &mut found)?;
    if !block::may_have_been(&found, &good) && highest_block(device, ring, identity.seed())?.is_none() {
        return Ok(false);
    }
    device.write_durable(DeviceFile::Log, 0, &good)?;
    Ok(true)
}

/// Whether the log with this identity and size has a block that any life of it wrote. Reads all of it.
///
/// # Errors
/// The device's.
pub(crate) fn holds_blocks(device: &dyn Device, identity: LogIdentity, ring: u64) -> io::Result<bool> {
    Ok(highest_block(device, ring, identity.seed())?.is_some())
}

/// Blocks of the ring read at a time.
const BATCH_BLOCKS: u64 = 256;

/// The highest number of a valid block at its place in the ring, whichever life wrote it. Reads all of it.
pub(super) fn highest_block(device: &dyn Device, ring: u64, seed: u32) -> io::Result<Option<u64>> {
    let mut highest = None;
    let mut batch = AlignedBuffer::new((BATCH_BLOCKS.min(ring) * BLOCK_BYTES) as usize);
    for first in (0..ring).step_by(BATCH_BLOCKS as usize) {
        let count = BATCH_BLOCKS.min(ring - first);
        let batch = &mut batch[..(count * BLOCK_BYTES) as usize];
        device.read(DeviceFile::Log, block::offset(first, ring), batch)?;
        for (place, found) in (first..).zip(batch.chunks_exact(BLOCK_BYTES as usize)) {
            let number = block::word(found, 0);
            if number % ring == place && block::check_any_life(found, number, seed).is_some() {
                highest = highest.max(Some(number));
            }
        }
    }
    Ok(highest)
}

/// The checkpoint slots that are not valid, in words. No crash leaves one: a slot lies in one sector.
///
/// # Errors
/// The heap file cannot be read.
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
