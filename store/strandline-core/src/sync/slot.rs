//! A checkpoint slot, from which recovery begins.
//!
//! Two slots are in different pages of the heap file ([`Layout::CHECKPOINT_SLOTS`]) and are written alternately, so that one is intact whatever
//! happens to the other. The fields are in one 512-byte sector.
//!
//! ```text
//! word 0 magic, 1 generation, 2 S, 3 W, 4 the log's nonce, 5 the life, 6 N, 7 CRC-32C of the pool's UUID and words 0-6
//! with another magic: 7 the life before, 8 E, 9 CRC-32C of the pool's UUID and words 0-8
//! ```
//!
//! S is the number of the first block that recovery reads, W the highest TxID that the heap file holds completely, and the blocks from S on are those
//! that the life wrote to the log with the nonce. With the other magic, the life has *inherited* the blocks below E, which the life before it wrote:
//! recovery has left them in the log. The slot with the higher generation counts. N is the number of blocks in the log's ring when the slot was
//! written; only the N in the log's header counts.

use crate::layout::{Layout, PAGE_BYTES};

use super::block::{to_bytes, word};
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};

const MAGIC: u64 = u64::from_le_bytes(*b"StrndChk");
const MAGIC_WITH_INHERITED: u64 = u64::from_le_bytes(*b"StrndInh");

/// The blocks that a life has inherited from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inherited {
    /// The life that has written them.
    pub life: u64,
    /// E: the number of the first block behind them. All of them were durable when the slot was written.
    pub end: u64,
}

/// The content of a checkpoint slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckpointSlot {
    pub generation: u64,
    /// S: the first block that recovery needs.
    pub start: u64,
    /// W: the highest TxID in the heap file.
    pub watermark: u64,
    /// The nonce of the log that belongs to the heap.
    pub nonce: u64,
    /// The life that writes the blocks from `start` on, or from E on if some are inherited. Each opening of the pool is a life.
    pub life: u64,
    /// N: the blocks in the ring.
    pub ring: u64,
    /// The first of the blocks from `start` on, if another life has written them.
    pub inherited: Option<Inherited>,
}

/// Returns the checksum of the first `fields` words of a slot.
fn checksum(bytes: &[u8], fields: usize, pool: &[u8; 16]) -> u64 {
    crc32c::crc32c_append(crc32c::crc32c(pool), &bytes[..8 * fields]).into()
}

/// Returns the offset of slot `index` (0 or 1) in the heap file.
fn offset(index: u64) -> u64 {
    Layout::CHECKPOINT_SLOTS.offset() + index * PAGE_BYTES
}

impl CheckpointSlot {
    /// Returns the life that has written block `number`, which is S or a later one.
    pub fn life_of(&self, number: u64) -> u64 {
        self.inherited
            .filter(|inherited| number < inherited.end)
            .map_or(self.life, |inherited| inherited.life)
    }

    /// Returns E, or 0 if no block is inherited.
    pub fn inherited_end(&self) -> u64 {
        self.inherited.map_or(0, |inherited| inherited.end)
    }

    /// Encodes the slot's page.
    fn page(self, pool: &[u8; 16]) -> AlignedBuffer {
        let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
        let Self { generation, start, watermark, nonce, life, ring, inherited } = self;
        let magic = if inherited.is_some() { MAGIC_WITH_INHERITED } else { MAGIC };
        let mut words = vec![magic, generation, start, watermark, nonce, life, ring];
        words.extend(inherited.iter().flat_map(|inherited| [inherited.life, inherited.end]));
        to_bytes(&words, &mut page);
        let checksum = checksum(&page, words.len(), pool);
        to_bytes(&[checksum], &mut page[8 * words.len()..]);
        page
    }

    /// Writes the slot as slot `index`. It is durable after a flush of the heap.
    pub fn write(self, device: &dyn Device, index: u64, pool: &[u8; 16]) -> std::io::Result<()> {
        device.write(DeviceFile::Heap, offset(index), &self.page(pool))
    }

    /// Reads slot `index`, or returns `None` if there is no valid slot.
    pub fn read(device: &dyn Device, index: u64, pool: &[u8; 16]) -> std::io::Result<Option<Self>> {
        let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
        device.read(DeviceFile::Heap, offset(index), &mut page)?;
        Ok(Self::decode(&page, pool))
    }

    /// Decodes the slot in this page, or returns `None` if there is no valid slot.
    pub fn decode(page: &[u8], pool: &[u8; 16]) -> Option<Self> {
        let fields = match word(page, 0) {
            MAGIC => 7,
            MAGIC_WITH_INHERITED => 9,
            _ => return None,
        };
        let inherited = (fields > 7).then(|| Inherited { life: word(page, 7), end: word(page, 8) });
        (word(page, fields) == checksum(page, fields, pool)).then(|| Self {
            generation: word(page, 1),
            start: word(page, 2),
            watermark: word(page, 3),
            nonce: word(page, 4),
            life: word(page, 5),
            ring: word(page, 6),
            inherited,
        })
    }
}
