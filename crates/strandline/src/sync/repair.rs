//! What is damaged in a log's header and in checkpoint slots, and what the header was.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::block::{self, BLOCK_BYTES, MAXIMAL_RING, MINIMAL_RING};
use super::device::{AlignedBuffer, Device, DeviceFile};
use super::shared_log::SharedLog;
use super::slot::CheckpointSlot;
use crate::error::{Error, Result};

/// The UUID that a log's header names, if the header is whole.
pub(crate) fn log_uuid(log: &File) -> Option<[u8; 16]> {
    let mut header = vec![0; BLOCK_BYTES as usize];
    log.read_exact_at(&mut header, 0).ok()?;
    block::header_uuid(&header)
}

/// Writes the header of the log of the pool with this UUID again, if it is certain what it was: the file's size tells the
/// ring's, and the old checksum, or the rest of the old header, or a block of the ring must agree. `false`: it is not.
///
/// # Errors
/// The device's.
pub(crate) fn mend_log_header(device: &dyn Device, uuid: &[u8; 16]) -> io::Result<bool> {
    let size = device.size(DeviceFile::Log)?;
    let ring = (size / BLOCK_BYTES).saturating_sub(1);
    if !size.is_multiple_of(BLOCK_BYTES) || !(MINIMAL_RING..=MAXIMAL_RING).contains(&ring) {
        return Ok(false);
    }
    let good = block::header(uuid, ring);
    let mut found = AlignedBuffer::new(BLOCK_BYTES as usize);
    device.read(DeviceFile::Log, 0, &mut found)?;
    if !block::may_have_been(&found, &good) && highest_block(device, ring, SharedLog::seed(uuid))?.is_none() {
        return Ok(false);
    }
    device.write_durable(DeviceFile::Log, 0, &good)?;
    Ok(true)
}

/// The highest number of a valid block at its place in the ring. Reads all of it.
pub(super) fn highest_block(device: &dyn Device, ring: u64, seed: u32) -> io::Result<Option<u64>> {
    let mut highest = None;
    let mut found = AlignedBuffer::new(BLOCK_BYTES as usize);
    for place in 0..ring {
        device.read(DeviceFile::Log, block::offset(place, ring), &mut found)?;
        let number = block::word(&found, 0);
        if number % ring == place && block::check(&found, number, seed).is_some() {
            highest = highest.max(Some(number));
        }
    }
    Ok(highest)
}

/// The checkpoint slots that are not valid, in words. No crash leaves one: a slot lies in one sector.
///
/// # Errors
/// The heap file cannot be read.
pub(crate) fn damaged_slots(device: &dyn Device, uuid: &[u8; 16]) -> Result<Vec<String>> {
    let mut damaged = Vec::new();
    for index in 0..2 {
        let slot = CheckpointSlot::read(device, index, SharedLog::seed(uuid))
            .map_err(|source| Error::io("read the pool's heap file", source))?;
        if slot.is_none() {
            damaged.push(format!("checkpoint slot {index} is not valid"));
        }
    }
    Ok(damaged)
}
