//! The log file: a header block, and a ring of blocks of log records.
//!
//! ```text
//! byte 0          the header
//! 4096 * (1 + n mod N)   block number n, for the newest n written there
//!
//! header   word 0 magic, 1 version, 2-3 the pool's UUID, 4 N, 5 CRC-32C of words 0-4
//! block    word 0      its number n
//!          word 1      records in it (low half), checksum (high half)
//!          words 2..   records of two words each, as in `log/record.rs`; what follows them is undefined
//! ```
//!
//! The checksum is the CRC-32C of the pool's UUID, the number, the count and the records, in that order, so
//! that neither another pool's block nor a torn one fits. Records run on from block to block, and a
//! transaction is its data records and a commit record. All numbers are little-endian.

use crate::memory::WORD_BYTES;

/// Bytes in a block of the log.
pub const BLOCK_BYTES: u64 = 4096;
/// Words in a block of the log.
pub(super) const BLOCK_WORDS: u64 = BLOCK_BYTES / WORD_BYTES;
/// Words before the records of a block.
pub(super) const HEADER_WORDS: u64 = 2;
/// Records of two words that a block holds.
pub const RECORDS_PER_BLOCK: u64 = (BLOCK_WORDS - HEADER_WORDS) / 2;

/// The number of the first block of a pool's life. Zeros are never a block.
pub(super) const FIRST_BLOCK: u64 = 1;

/// Where block `number` lies in the log file of a ring of `ring` blocks.
pub(super) fn offset(number: u64, ring: u64) -> u64 {
    BLOCK_BYTES * (1 + number % ring)
}

/// Puts words into bytes, as they lie in files.
pub(super) fn to_bytes(words: &[u64], bytes: &mut [u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The word number `index` of some bytes.
pub(super) fn word(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
    u64::from_le_bytes(word)
}

fn used_bytes(records: u64) -> usize {
    (WORD_BYTES * (HEADER_WORDS + 2 * records)) as usize
}

fn checksum(block: &[u8], records: u64, seed: u32) -> u32 {
    let number = crc32c::crc32c_append(seed, &block[..8]);
    let count = crc32c::crc32c_append(number, &(records as u32).to_le_bytes());
    crc32c::crc32c_append(count, &block[16..used_bytes(records)])
}

/// Completes a block whose `records` records are in place: number, count, checksum, zeros after them.
pub(super) fn seal(block: &mut [u8], number: u64, records: u64, seed: u32) {
    block[..8].copy_from_slice(&number.to_le_bytes());
    block[used_bytes(records)..].fill(0);
    let checksum = checksum(block, records, seed);
    block[8..16].copy_from_slice(&(u64::from(checksum) << 32 | records).to_le_bytes());
}

/// The number of records in a block, if it is the one with this number and whole.
pub(super) fn check(block: &[u8], number: u64, seed: u32) -> Option<u64> {
    let (records, found) = (word(block, 1) & 0xffff_ffff, word(block, 1) >> 32);
    let whole = word(block, 0) == number
        && (1..=RECORDS_PER_BLOCK).contains(&records)
        && u64::from(checksum(block, records, seed)) == found;
    whole.then_some(records)
}

/// The two words of record `index` of a block.
pub(super) fn record(block: &[u8], index: u64) -> [u64; 2] {
    let first = (HEADER_WORDS + 2 * index) as usize;
    [word(block, first), word(block, first + 1)]
}

const MAGIC: u64 = u64::from_le_bytes(*b"StrndLog");
const VERSION: u64 = 1;
const HEADER_FIELDS: usize = 5;

fn header_checksum(header: &[u8]) -> u64 {
    crc32c::crc32c(&header[..8 * HEADER_FIELDS]).into()
}

/// The log file's header block.
pub(super) fn header(uuid: &[u8; 16], ring: u64) -> Vec<u8> {
    let mut header = vec![0; BLOCK_BYTES as usize];
    to_bytes(&[MAGIC, VERSION, word(uuid, 0), word(uuid, 1), ring], &mut header);
    let checksum = header_checksum(&header);
    to_bytes(&[checksum], &mut header[8 * HEADER_FIELDS..]);
    header
}

/// The UUID in a header, if its checksum fits.
pub(super) fn header_uuid(header: &[u8]) -> Option<[u8; 16]> {
    let whole = word(header, 0) == MAGIC && word(header, HEADER_FIELDS) == header_checksum(header);
    whole.then(|| header[16..32].try_into().ok()).flatten()
}

/// Whether a damaged header was `good`: its checksum, or everything but its checksum.
pub(super) fn may_have_been(damaged: &[u8], good: &[u8]) -> bool {
    let fields = 8 * HEADER_FIELDS;
    damaged[..fields] == good[..fields] || word(damaged, HEADER_FIELDS) == word(good, HEADER_FIELDS)
}

/// The ring's size in a header, or what is wrong with it.
pub(super) fn check_header(header: &[u8], uuid: &[u8; 16]) -> Result<u64, String> {
    if word(header, 0) != MAGIC {
        return Err("is not a Strandline log".into());
    }
    if word(header, 1) > VERSION {
        return Err(format!(
            "has format version {}, this library reads up to {VERSION}; a newer Strandline wrote it",
            word(header, 1)
        ));
    }
    if word(header, HEADER_FIELDS) != header_checksum(header) {
        return Err("has a damaged header".into());
    }
    if header[16..32] != uuid[..] {
        return Err("belongs to another pool".into());
    }
    match word(header, 4) {
        ring if (MINIMAL_RING..=MAXIMAL_RING).contains(&ring) => Ok(ring),
        ring => Err(format!("has an impossible size of {ring} blocks")),
    }
}

/// The fewest blocks in a ring: a transaction takes two.
pub(super) const MINIMAL_RING: u64 = 2;
/// The most blocks in a ring: 16 TB.
pub(super) const MAXIMAL_RING: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_fits_only_with_its_number_its_pool_and_all_its_bytes() {
        let mut block = vec![7; BLOCK_BYTES as usize];
        seal(&mut block, 42, 3, 99);
        assert_eq!(check(&block, 42, 99), Some(3));
        assert_eq!(check(&block, 43, 99), None);
        assert_eq!(check(&block, 42, 98), None);
        for at in 0..used_bytes(3) {
            block[at] ^= 0x10;
            assert_eq!(check(&block, 42, 99), None, "byte {at}");
            block[at] ^= 0x10;
        }
        assert_eq!(check(&[0; 4096], 0, 0), None);
    }

    #[test]
    fn a_header_says_what_is_wrong_with_it() {
        let uuid = [3; 16];
        let good = header(&uuid, 16);
        assert_eq!(check_header(&good, &uuid), Ok(16));
        assert!(check_header(&good, &[4; 16]).unwrap_err().contains("another pool"));
        assert!(check_header(&[0; 4096], &uuid).unwrap_err().contains("not a Strandline log"));
        let mut damaged = good.clone();
        damaged[33] ^= 1;
        assert!(check_header(&damaged, &uuid).unwrap_err().contains("damaged"));
        let mut newer = good;
        newer[8] = 2;
        assert!(check_header(&newer, &uuid).unwrap_err().contains("version 2"));
    }
}
