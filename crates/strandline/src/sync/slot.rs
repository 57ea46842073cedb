//! A checkpoint slot: where recovery begins.
//!
//! Two slots lie in different pages of the heap file ([`Layout::CHECKPOINT_SLOTS`]) and are written in turn, so
//! that one is whole whatever happens to the other. The fields lie in one 512-byte sector.
//!
//! ```text
//! word 0 magic, 1 generation, 2 S, 3 W, 4 CRC-32C of the pool's UUID and words 0-3
//! ```
//!
//! S is the number of the first block that recovery reads, W the highest TxID that the heap file holds
//! completely. The slot with the higher generation counts.

use crate::pool::layout::{Layout, PAGE_BYTES};

use super::block::{to_bytes, word};
use super::device::{AlignedBuffer, Device, DeviceFile};

const MAGIC: u64 = u64::from_le_bytes(*b"StrndChk");

/// What a checkpoint slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckpointSlot {
    pub generation: u64,
    /// S: the first block that is needed.
    pub start: u64,
    /// W: the highest TxID in the heap file.
    pub watermark: u64,
}

fn checksum(bytes: &[u8], seed: u32) -> u64 {
    crc32c::crc32c_append(seed, &bytes[..32]).into()
}

/// Where slot `index` (0 or 1) lies in the heap file.
fn offset(index: u64) -> u64 {
    Layout::CHECKPOINT_SLOTS.offset() + index * PAGE_BYTES
}

impl CheckpointSlot {
    /// The slot's page.
    fn page(self, seed: u32) -> AlignedBuffer {
        let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
        to_bytes(&[MAGIC, self.generation, self.start, self.watermark], &mut page);
        let checksum = checksum(&page, seed);
        to_bytes(&[checksum], &mut page[32..]);
        page
    }

    /// Writes it as slot `index`; durable after a flush of the heap.
    pub fn write(self, device: &dyn Device, index: u64, seed: u32) -> std::io::Result<()> {
        device.write(DeviceFile::Heap, offset(index), &self.page(seed))
    }

    /// Reads slot `index`; `None` if there is none.
    pub fn read(device: &dyn Device, index: u64, seed: u32) -> std::io::Result<Option<Self>> {
        let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
        device.read(DeviceFile::Heap, offset(index), &mut page)?;
        let whole = word(&page, 0) == MAGIC && word(&page, 4) == checksum(&page, seed);
        Ok(whole.then(|| Self {
            generation: word(&page, 1),
            start: word(&page, 2),
            watermark: word(&page, 3),
        }))
    }
}
