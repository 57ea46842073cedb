//! The log file: a header block, and a ring of blocks of log records.
//!
//! ```text
//! byte 0          the header
//! 4096 * (1 + n mod N)   block number n, for the newest n written there
//!
//! header   word 0 magic, 1 version, 2-3 the pool's UUID, 4 the log's nonce, 5 N, 6 CRC-32C of words 0-5
//!          word 8 the life that writes the log, 9 the life before it, 10 CRC-32C of words 8-9
//! block    word 0      its number n
//!          word 1      places used in it (bits 0-7), the life that wrote it (bits 8-31), checksum (bits 32-63)
//!          word 2      D: all blocks below number D were durable when the write of this one began
//!          word 3      G: the generation of the newest checkpoint slot that was durable then
//!          words 4..   places of two words: records as in `log/record.rs`, each followed by the pairs of words of its run (`runs.rs`); the rest is undefined, because only the used sectors of a flush's last block are written
//! ```
//!
//! The checksum is the CRC-32C of the log's identity (the pool's UUID and the log's nonce), the number, the low half of word 1, D, G and the records,
//! in that order. Records continue from block to block. A transaction consists of its data records and a commit record. A block without records
//! exists for its D. All numbers are little-endian.
//!
//! # How damage is distinguished from the log's end
//!
//! A block that does not fit is either the end of the log or a durable block that was damaged. It was durable if a later block of the same life has a
//! D above it. Among the blocks of one write, a crash may leave holes; the D of these blocks is at most the number of the first of them. A block
//! whose G is above the generation of the newest valid slot proves that a newer slot was durable. `recovery.rs` has the rules.
//!
//! # What is not accepted as a block
//!
//! - *Torn*, or one of *another pool*: its checksum is wrong.
//! - One of *an earlier log of this pool*: each log file has its own nonce, which the heap's checkpoint slots contain as well. A log with another
//!   nonce is refused before any block is read, and its blocks' checksums are wrong.
//! - One of *an earlier life of this log*: each opening of the pool draws a new life. Recovery either begins at S + N, above every number that a block
//!   in the file can have, or chooses a life that no block has which might fit ([`recovery`](super::recovery)).
//!
//! # Older copies
//!
//! Recovery writes the life that it begins and the one before it into the header, and only then the life into a checkpoint slot. So the newest slot
//! has the header's life, or, after a crash between the two, the life before it; in the latter case no block of the header's life exists. Otherwise
//! the heap or the log was restored from an older copy without the other, and is refused, because either may lack acknowledged transactions. Before a
//! pool is published its log is written by life [`CREATION`], which distinguishes a log that was never used from one that was.

use crate::memory::WORD_BYTES;

/// Size of a block of the log, in bytes.
pub const BLOCK_BYTES: u64 = 4096;
/// Size of a block of the log, in words.
pub(super) const BLOCK_WORDS: u64 = BLOCK_BYTES / WORD_BYTES;
/// Words before the records of a block.
pub(super) const HEADER_WORDS: u64 = 4;
/// Places of two words in a block, which is the number of records that it holds without runs.
pub const RECORDS_PER_BLOCK: u64 = (BLOCK_WORDS - HEADER_WORDS) / 2;

/// The number of the first block in a pool's life. Zeros never form a block.
pub(super) const FIRST_BLOCK: u64 = 1;

/// Returns the offset of block `number` in the log file of a ring of `ring` blocks.
pub(super) fn offset(number: u64, ring: u64) -> u64 {
    BLOCK_BYTES * (1 + number % ring)
}

/// Encodes words as bytes, as in the files.
pub(super) fn to_bytes(words: &[u64], bytes: &mut [u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Returns word number `index` of some bytes.
pub(super) fn word(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
    u64::from_le_bytes(word)
}

/// Returns the bytes that a block with this number of records uses, from its beginning on.
pub(super) fn used_bytes(records: u64) -> usize {
    (WORD_BYTES * (HEADER_WORDS + 2 * records)) as usize
}

/// Computes the checksum of a block that already contains its number, life and records.
fn checksum(block: &[u8], records: u64, seed: u32) -> u32 {
    let head = crc32c::crc32c_append(seed, &block[..12]);
    crc32c::crc32c_append(head, &block[16..used_bytes(records)])
}

/// The head of a block of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// The block's number.
    pub number: u64,
    /// The life that wrote it.
    pub life: u64,
    /// Places used in the block.
    pub records: u64,
    /// D: all blocks below were durable when the write of this one began.
    pub durable: u64,
    /// G: the generation of the newest slot that was durable then.
    pub generation: u64,
}

/// Completes a block that already contains its records: sets its head, its checksum, and zeros after the records.
pub(super) fn seal(block: &mut [u8], head: BlockHead, seed: u32) {
    let BlockHead { number, life, records, durable, generation } = head;
    to_bytes(&[number, life << RECORD_BITS | records, durable, generation], block);
    block[used_bytes(records)..].fill(0);
    let checksum = checksum(block, records, seed);
    block[12..16].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the head of a block if the block is intact, whatever its number.
pub(super) fn read_head(block: &[u8], seed: u32) -> Option<BlockHead> {
    let [number, head, durable, generation] = [0, 1, 2, 3].map(|index| word(block, index));
    let (records, life) = (head & 0xff, head >> RECORD_BITS & MAXIMAL_LIFE);
    let whole = number >= FIRST_BLOCK
        && records <= RECORDS_PER_BLOCK
        && u64::from(checksum(block, records, seed)) == head >> 32;
    whole.then_some(BlockHead { number, life, records, durable, generation })
}

/// Returns the number of records in a block if the block is intact and was written by this life with this number.
pub(super) fn check(block: &[u8], number: u64, life: u64, seed: u32) -> Option<u64> {
    let is_it = |head: &BlockHead| head.number == number && head.life == life;
    read_head(block, seed).filter(is_it).map(|head| head.records)
}

/// Number of bits in word 1 of a block that count its records. The following bits, up to the checksum, are the life.
const RECORD_BITS: u32 = 8;
/// The highest possible number of a life.
pub(super) const MAXIMAL_LIFE: u64 = (1 << (32 - RECORD_BITS)) - 1;
const _: () = assert!(RECORDS_PER_BLOCK < 1 << RECORD_BITS);

/// The identity of a log: the pool to which it belongs, and its own nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// The UUID in the pool's header.
    pub pool: [u8; 16],
    /// The nonce, which was drawn when the log file was created.
    pub nonce: u64,
}

impl LogIdentity {
    /// Returns the initial value for the checksums of the log's blocks.
    pub(super) fn seed(self) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.pool), &self.nonce.to_le_bytes())
    }
}

/// Returns the two words at place `index` of a block: a record, or a pair of a run.
pub(super) fn place(block: &[u8], index: u64) -> [u64; 2] {
    let first = (HEADER_WORDS + 2 * index) as usize;
    [word(block, first), word(block, first + 1)]
}

const MAGIC: u64 = u64::from_le_bytes(*b"StrndLog");
const VERSION: u64 = 4;
const HEADER_FIELDS: usize = 6;

fn header_checksum(header: &[u8]) -> u64 {
    crc32c::crc32c(&header[..8 * HEADER_FIELDS]).into()
}

/// The life in which a pool is created, before other processes can find it.
pub(super) const CREATION: u64 = 0;

/// The lives in a log's header: the one that writes the log, and the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lives {
    pub current: u64,
    pub previous: u64,
}

/// The index of the lives in a header; their checksum follows.
const LIVES: usize = 8;

impl Lives {
    fn checksum(header: &[u8]) -> u64 {
        crc32c::crc32c(&header[8 * LIVES..8 * (LIVES + 2)]).into()
    }

    pub(super) fn store(self, header: &mut [u8]) {
        to_bytes(&[self.current, self.previous], &mut header[8 * LIVES..]);
        let checksum = Self::checksum(header);
        to_bytes(&[checksum], &mut header[8 * (LIVES + 2)..]);
    }

    /// Decodes the lives in a header, or returns `None` if they are damaged.
    pub(super) fn load(header: &[u8]) -> Option<Self> {
        let whole = word(header, LIVES + 2) == Self::checksum(header);
        whole.then(|| Self { current: word(header, LIVES), previous: word(header, LIVES + 1) })
    }
}

/// Encodes the log file's header block.
pub(super) fn header(identity: LogIdentity, ring: u64, lives: Lives) -> Vec<u8> {
    let mut header = vec![0; BLOCK_BYTES as usize];
    let uuid = &identity.pool;
    to_bytes(&[MAGIC, VERSION, word(uuid, 0), word(uuid, 1), identity.nonce, ring], &mut header);
    let checksum = header_checksum(&header);
    to_bytes(&[checksum], &mut header[8 * HEADER_FIELDS..]);
    lives.store(&mut header);
    header
}

/// Decodes the identity, the ring's size and the lives in a header, or describes what is wrong with it.
pub(super) fn read_header(header: &[u8]) -> Result<(LogIdentity, u64, Lives), String> {
    if word(header, 0) != MAGIC {
        return Err("is not a Strandline log".into());
    }
    match word(header, 1) {
        VERSION => {}
        newer if newer > VERSION => {
            return Err(format!(
                "has format version {newer}, this library reads up to {VERSION}; a newer Strandline wrote it"
            ));
        }
        older => {
            return Err(format!(
                "has format version {older}, this library reads {VERSION}; open and close the pool with the Strandline that wrote it"
            ));
        }
    }
    let lives = Lives::load(header).filter(|_| word(header, HEADER_FIELDS) == header_checksum(header));
    let Some(lives) = lives else { return Err("has a damaged header".into()) };
    let mut pool = [0; 16];
    pool.copy_from_slice(&header[16..32]);
    match word(header, 5) {
        ring if (MINIMAL_RING..=MAXIMAL_RING).contains(&ring) => {
            Ok((LogIdentity { pool, nonce: word(header, 4) }, ring, lives))
        }
        ring => Err(format!("has an impossible size of {ring} blocks")),
    }
}

/// Returns whether this is the header of a log of the pool with this UUID in the format of an older version. If the pool was closed cleanly, nothing
/// in such a log is needed.
pub(super) fn is_older_header(header: &[u8], pool: &[u8; 16]) -> bool {
    word(header, 0) == MAGIC
        && word(header, 1) < VERSION
        && header[16..32] == *pool
        && word(header, HEADER_FIELDS) == header_checksum(header)
}

/// Returns whether a damaged header may have been `good`: its checksum agrees, or everything but its checksum.
pub(super) fn may_have_been(damaged: &[u8], good: &[u8]) -> bool {
    let fields = 8 * HEADER_FIELDS;
    damaged[..fields] == good[..fields] || word(damaged, HEADER_FIELDS) == word(good, HEADER_FIELDS)
}

/// The least number of blocks in a ring: a transaction takes two, and a checkpoint needs one.
pub(super) const MINIMAL_RING: u64 = 3;
/// The greatest number of blocks in a ring: 16 TB.
pub(super) const MAXIMAL_RING: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_fits_only_with_its_number_its_life_its_log_and_all_its_bytes() {
        let mut block = vec![7; BLOCK_BYTES as usize];
        let head = BlockHead { number: 42, life: 5, records: 3, durable: 40, generation: 9 };
        seal(&mut block, head, 99);
        assert_eq!(check(&block, 42, 5, 99), Some(3));
        assert_eq!(read_head(&block, 99), Some(head));
        assert_eq!(check(&block, 43, 5, 99), None);
        assert_eq!(check(&block, 42, 6, 99), None);
        assert_eq!(check(&block, 42, 5, 98), None);
        for at in 0..used_bytes(3) {
            block[at] ^= 0x10;
            assert_eq!(read_head(&block, 99), None, "byte {at}");
            block[at] ^= 0x10;
        }
        assert_eq!(read_head(&[0; 4096], 0), None);
        let head = BlockHead { life: MAXIMAL_LIFE, records: RECORDS_PER_BLOCK, ..head };
        seal(&mut block, head, 99);
        assert_eq!(read_head(&block, 99), Some(head));
        // A mark has no records.
        seal(&mut block, BlockHead { records: 0, ..head }, 99);
        assert_eq!(check(&block, 42, MAXIMAL_LIFE, 99), Some(0));
    }

    #[test]
    fn a_header_says_what_is_wrong_with_it() {
        let identity = LogIdentity { pool: [3; 16], nonce: 77 };
        let lives = Lives { current: 5, previous: 3 };
        let good = header(identity, 16, lives);
        assert_eq!(read_header(&good), Ok((identity, 16, lives)));
        assert!(read_header(&[0; 4096]).unwrap_err().contains("not a Strandline log"));
        for at in [16, 32, 40, 48, 64, 72, 80] {
            let mut damaged = good.clone();
            damaged[at] ^= 1;
            assert!(read_header(&damaged).unwrap_err().contains("damaged"), "byte {at}");
        }
        for (version, what) in [(3, "the Strandline that wrote it"), (5, "newer")] {
            let mut other = good.clone();
            other[8] = version;
            assert!(read_header(&other).unwrap_err().contains(what));
        }
    }

    #[test]
    fn logs_of_one_pool_differ_by_their_nonces() {
        let seed = |nonce| LogIdentity { pool: [3; 16], nonce }.seed();
        assert_ne!(seed(1), seed(2));
    }
}
