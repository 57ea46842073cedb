//! The contents of the log area behind a controller, and of the registers that a power failure saves.
//!
//! The area begins with two lines for the saved registers, and one line whose first word is the life's number and whether the registers were saved
//! (controller 0's counts). The rest of the first page holds the table of pages that the OS has granted. The buckets follow, and then the pages that
//! can be granted.
//!
//! *Remains of one life never complete records of another.* Only the registers determine which records are valid. Each power failure saves all of
//! them again, and a life begins with empty ones. Only the table of grants is not among them: it says where the records of a bucket continue, so that
//! a grant of an earlier life would add records of that life to a bucket of this one. So a grant carries its life's number, which recovery increments
//! with the same word that ends it.

use crate::controller::{Line, MemorySide};
use crate::description::Controllers;
use crate::numbers::LineNumber;

/// The number of log entries that a record has (section IV-C).
pub const ENTRIES: usize = 7;
/// The number of lines that a record has: a header and its entries' old values, 512 bytes.
pub const RECORD_LINES: u64 = 1 + ENTRIES as u64;
/// The number of lines that a page has.
const PAGE_LINES: u64 = 64;
/// The number of lines that hold the registers that a power failure saves: 128 bytes.
pub const CRITICAL_LINES: usize = 2;
/// The line whose first word is the life's number and whether registers were saved and not recovered yet.
const SAVED_LINE: u64 = 2;
/// The first line of the table of grants.
const GRANTS_LINE: u64 = 3;
/// The number of bits of a bucket in a grant; the rest is the life.
const GRANT_BITS: u32 = 16;
/// The number of words that the table of grants has.
pub const MAX_GRANTS: u64 = (PAGE_LINES - GRANTS_LINE) * 8;

/// The sizes of a log manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The number of atomic update structures, at most 32.
    pub structures: usize,
    /// The number of log buckets behind each controller, at most 256, and more than structures.
    pub buckets: usize,
    /// The number of records that a bucket has before the OS grants more.
    pub records: u64,
    /// The number of pages, each with as many records as a bucket, that the OS can grant behind each controller.
    pub grants: u64,
    /// The cycles of an interrupt in which the OS grants a page.
    pub grant_cycles: u64,
}

impl Parameters {
    /// 32 structures (section IV-C). 256 buckets: with them the registers of Fig. 4(b) take the 3.125 KB that section
    /// IV-C states, and the saved ones the 128 bytes of section IV-D. Not in the paper: a bucket is a page, 60
    /// pages can be granted, an interrupt takes 10,000 cycles (5 us at 2 GHz).
    pub const PAPER: Self =
        Self { structures: 32, buckets: 256, records: 8, grants: 60, grant_cycles: 10_000 };

    /// Returns the bytes of registers in each controller: bucket bit vectors, header registers, and the saved registers.
    pub fn register_bytes(&self) -> usize {
        self.structures * (self.buckets / 8 + 64) + self.critical_bytes()
    }

    /// Returns the bytes that a power failure saves in each controller: the free list, and for each structure the current bucket (8 bits) and the
    /// current record (16 bits).
    pub fn critical_bytes(&self) -> usize {
        self.buckets / 8 + 3 * self.structures
    }

    /// Returns how many lines are reserved behind each controller.
    pub fn lines(&self) -> u64 {
        PAGE_LINES + (self.buckets as u64 + self.grants) * self.records * RECORD_LINES
    }

    /// Returns how many bytes are reserved behind all controllers.
    pub fn reserved_bytes(&self, controllers: &Controllers) -> u64 {
        let each = (self.lines() * 64).next_multiple_of(controllers.interleave_bytes);
        each * controllers.count as u64
    }

    /// Returns the first line of record `record` of `bucket`, to which the OS has also granted the pages `pages`.
    pub fn record_line(&self, bucket: usize, pages: &[u64], record: u64) -> u64 {
        let (page, within) = match record.checked_sub(self.records) {
            None => (bucket as u64, record),
            Some(beyond) => {
                (self.buckets as u64 + pages[(beyond / self.records) as usize], beyond % self.records)
            }
        };
        PAGE_LINES + (page * self.records + within) * RECORD_LINES
    }

    /// Returns how many records a bucket with so many granted pages has.
    pub fn capacity(&self, pages: usize) -> u64 {
        self.records * (1 + pages as u64)
    }
}

/// The header of a record, which names the lines whose old values follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The lines whose old values the record holds.
    pub lines: [LineNumber; ENTRIES],
    /// The number of `lines` that count, up to 7.
    pub count: usize,
}

impl Header {
    /// Returns whether the record logs a line.
    pub fn holds(&self, line: LineNumber) -> bool {
        self.lines[..self.count].contains(&line)
    }

    /// Encodes the header: addresses, then the count, and in the reserved bits the structure and the record's number.
    pub fn encode(&self, structure: usize, sequence: u64) -> Line {
        let mut words = [0; 8];
        for (word, &line) in words.iter_mut().zip(&self.lines[..self.count]) {
            *word = line.address();
        }
        words[7] = self.count as u64 | (structure as u64) << 8 | sequence << 16;
        words
    }

    /// Decodes a header, its structure and its number; `None` if the words are not a header.
    pub fn decode(words: &[u64]) -> Option<(Self, usize, u64)> {
        let count = (words[7] & 0xff) as usize;
        if !(1..=ENTRIES).contains(&count) {
            return None;
        }
        let mut header = Self { lines: [LineNumber::default(); ENTRIES], count };
        for (line, word) in header.lines.iter_mut().zip(&words[..count]) {
            *line = LineNumber::new(u32::try_from(word / 64).ok()?);
        }
        Some((header, (words[7] >> 8 & 0xff) as usize, words[7] >> 16))
    }
}

/// The end of a structure's log: its current bucket, and how many valid records that has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Current {
    /// The bucket, if there is one, and its valid records.
    pub bucket: Option<(usize, u64)>,
    /// True if the update has ended, and only other controllers have not been informed yet.
    pub ended: bool,
}

/// The registers that a power failure saves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Critical {
    /// A bit for each bucket that is not free.
    pub taken: [u64; 4],
    /// The bucket and record that each update structure is filling.
    pub current: Vec<Current>,
}

const HAS_BUCKET: u64 = 1 << 15;
const ENDED: u64 = 1 << 14;

impl Critical {
    /// Encodes the registers as 128 bytes: the free list inverted, so that memory of zeros has no log, followed by three bytes for each structure.
    pub fn encode(&self) -> [u64; 8 * CRITICAL_LINES] {
        let mut words = [0; 8 * CRITICAL_LINES];
        words[..4].copy_from_slice(&self.taken);
        for (i, current) in self.current.iter().enumerate() {
            let (bucket, record) = current.bucket.unwrap_or_default();
            let flags = if current.bucket.is_some() { HAS_BUCKET } else { 0 };
            let record = record | flags | if current.ended { ENDED } else { 0 };
            let bits = bucket as u64 | record << 8;
            for byte in 0..3 {
                let at = 3 * i + byte;
                words[4 + at / 8] |= (bits >> (8 * byte) & 0xff) << (8 * (at % 8));
            }
        }
        words
    }

    /// Decodes the result of [`Critical::encode`].
    pub fn decode(words: &[u64], structures: usize) -> Self {
        let current = (0..structures).map(|i| {
            let byte = |at: usize| words[4 + at / 8] >> (8 * (at % 8)) & 0xff;
            let bits = (0..3).fold(0, |bits, n| bits | byte(3 * i + n) << (8 * n));
            let record = bits >> 8;
            let bucket = (record & HAS_BUCKET != 0)
                .then_some(((bits & 0xff) as usize, record & !(HAS_BUCKET | ENDED)));
            Current { bucket, ended: record & ENDED != 0 }
        });
        Self { taken: std::array::from_fn(|i| words[i]), current: current.collect() }
    }
}

/// The words of the log areas of all controllers.
#[derive(Clone, Copy)]
pub struct Area<'a> {
    /// The sizes of buckets, structures and entries.
    pub parameters: Parameters,
    /// How lines are interleaved among controllers.
    pub controllers: &'a Controllers,
}

impl Area<'_> {
    /// Returns the index among the reserved words of the first word of a line behind a controller.
    pub fn word(&self, controller: usize, line: u64) -> usize {
        self.controllers.reserved_line(controller, line) as usize * 8
    }

    /// Returns the index of the word with the life's number, and whether registers were saved and not recovered yet.
    pub fn saved(&self) -> usize {
        self.word(0, SAVED_LINE)
    }
}

/// Returns the line and the word in it of grant number `grant`.
pub fn grant_place(grant: u64) -> (u64, usize) {
    (GRANTS_LINE + grant / 8, (grant % 8) as usize)
}

/// Encodes a grant for the table: the page of the grant's number belongs to `bucket` in this life.
pub fn encode_grant(bucket: usize, life: u64) -> u64 {
    (life << GRANT_BITS) | (1 + bucket as u64)
}

/// Decodes the bucket of a grant in the table, and the life in which it was made.
pub fn decode_grant(word: u64) -> Option<(usize, u64)> {
    let bucket = (word & ((1 << GRANT_BITS) - 1)).checked_sub(1)?;
    Some((bucket as usize, word >> GRANT_BITS))
}

/// Returns the number of the present life of `memory`.
pub fn life(memory: &MemorySide, parameters: Parameters) -> u64 {
    let area = Area { parameters, controllers: memory.controllers() };
    decode_saved(memory.peek(memory.pool_end().first_word() + area.saved())).0
}

/// Encodes the word of [`Area::saved`] in life number `life`.
pub fn encode_saved(life: u64, is_saved: bool) -> u64 {
    life << 1 | u64::from(is_saved)
}

/// Decodes the number of the life, and whether its registers were saved and not recovered yet.
pub fn decode_saved(word: u64) -> (u64, bool) {
    (word >> 1, word & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_papers() {
        let parameters = Parameters::PAPER;
        assert_eq!(RECORD_LINES * 64, 512);
        assert_eq!(parameters.register_bytes(), 3200, "3.125 KB");
        assert_eq!(parameters.critical_bytes(), 128);
        assert_eq!(parameters.critical_bytes(), CRITICAL_LINES * 64);
        assert!(parameters.grants <= MAX_GRANTS);
    }

    #[test]
    fn registers_and_headers_are_read_as_they_were_written() {
        let mut current = vec![Current::default(); 32];
        current[3] = Current { bucket: Some((255, 0)), ended: false };
        current[31] = Current { bucket: Some((7, 9000)), ended: true };
        current[2].ended = true;
        let critical = Critical { taken: [1, 0, 5, 1 << 63], current };
        assert_eq!(Critical::decode(&critical.encode(), 32), critical);
        assert_eq!(Critical::decode(&[0; 16], 2).current, [Current::default(); 2]);

        let line = LineNumber::new;
        let header = Header { lines: [9, 0, 3, 0, 0, 0, 0].map(line), count: 3 };
        assert_eq!(Header::decode(&header.encode(31, 77)), Some((header, 31, 77)));
        assert!(header.holds(line(0)) && header.holds(line(3)) && !header.holds(line(4)));
        assert_eq!(Header::decode(&[0; 8]), None);
        assert!(!Header::default().holds(line(0)));
    }

    #[test]
    fn records_do_not_overlap() {
        let parameters = Parameters { buckets: 3, records: 2, grants: 2, ..Parameters::PAPER };
        let mut lines: Vec<u64> =
            (0..3).flat_map(|b| (0..2).map(move |r| parameters.record_line(b, &[], r))).collect();
        lines.extend((2..6).map(|record| parameters.record_line(1, &[1, 0], record)));
        lines.sort_unstable();
        assert!(lines.windows(2).all(|pair| pair[1] - pair[0] >= RECORD_LINES));
        assert_eq!(lines.last().unwrap() + RECORD_LINES, parameters.lines());
    }
}
