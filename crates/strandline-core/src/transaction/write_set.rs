//! What a running transaction has written: an entry for each cache line, with the place of each word's
//! newest value.

use crate::memory::{LINE_BYTES, LINE_WORDS, PersistentAddress};

/// No entry.
pub const NONE: u32 = u32::MAX;

/// A written line. Where a value is kept (a log record, a slot of an execution area) the scheme knows.
#[derive(Clone, Copy)]
pub struct LineEntry {
    /// The address of the line's first word.
    pub line: PersistentAddress,
    /// The version that the line's lock had before this transaction took it (STM).
    pub version: u64,
    /// Index of the line's lock (STM).
    pub lock: u32,
    /// The entry before this one under the same lock, or `u32::MAX`: then this entry took the lock.
    pub next: u32,
    /// Which words are written.
    pub written: u8,
    /// Where the newest value of each written word is.
    pub places: [u32; LINE_WORDS as usize],
}

impl LineEntry {
    /// Number of the word of `at` within its line.
    #[inline(always)]
    pub fn word_of(at: PersistentAddress) -> usize {
        (at.offset() / 8 % LINE_WORDS) as usize
    }

    /// Where the newest value of word `word` is, if it was written.
    #[inline(always)]
    pub fn place(&self, word: usize) -> Option<u32> {
        (self.written >> word & 1 == 1).then(|| self.places[word])
    }

    /// Records where the newest value of word `word` is.
    #[inline(always)]
    pub fn set_place(&mut self, word: usize, place: u32) {
        self.written |= 1 << word;
        self.places[word] = place;
    }
}

/// The entries of one transaction, and an index by line for single-writer mode (the STM finds entries
/// through its lock table).
pub struct WriteSet {
    /// The entries, in the order of their first writes.
    pub entries: Vec<LineEntry>,
    /// A bit for each line that may be written: reads of other lines need no look-up.
    filter: u64,
    /// Open addressing: generation in the high half, entry in the low half.
    index: Vec<u64>,
    generation: u32,
}

impl WriteSet {
    /// An empty write set.
    pub(crate) fn new() -> Self {
        Self { entries: Vec::with_capacity(64), filter: 0, index: vec![0; 256], generation: 1 }
    }

    /// Forgets all entries.
    #[inline]
    pub fn clear(&mut self) {
        self.entries.clear();
        self.filter = 0;
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.index.fill(0);
            self.generation = 1;
        }
    }

    #[inline(always)]
    fn hash(line: PersistentAddress) -> u64 {
        (line.offset() / LINE_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The entry of `line` by the index.
    #[inline(always)]
    pub fn find(&self, line: PersistentAddress) -> Option<u32> {
        let hash = Self::hash(line);
        if self.filter >> (hash >> 58) & 1 == 0 {
            return None;
        }
        self.find_indexed(line, hash)
    }

    fn find_indexed(&self, line: PersistentAddress, hash: u64) -> Option<u32> {
        let mask = self.index.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        loop {
            let slot = self.index[at];
            if (slot >> 32) as u32 != self.generation {
                return None;
            }
            if self.entries[slot as u32 as usize].line == line {
                return Some(slot as u32);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an entry; returns its number.
    #[inline(always)]
    pub fn push(&mut self, entry: LineEntry) -> u32 {
        let number = self.entries.len() as u32;
        self.entries.push(entry);
        number
    }

    /// Adds an entry and indexes it.
    pub fn push_indexed(&mut self, entry: LineEntry) -> u32 {
        let number = self.push(entry);
        if self.entries.len() * 2 > self.index.len() {
            self.index = vec![0; self.index.len() * 4];
            for number in 0..self.entries.len() as u32 {
                self.insert_index(number);
            }
        } else {
            self.insert_index(number);
        }
        number
    }

    fn insert_index(&mut self, number: u32) {
        let hash = Self::hash(self.entries[number as usize].line);
        self.filter |= 1 << (hash >> 58);
        let mask = self.index.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        while (self.index[at] >> 32) as u32 == self.generation {
            at = (at + 1) & mask;
        }
        self.index[at] = u64::from(self.generation) << 32 | u64::from(number);
    }
}
