//! What a running transaction has written: an entry for each cache line, with each word's newest value, and the place
//! where its scheme keeps it.

use crate::memory::{LINE_BYTES, LINE_WORDS, Memory, PersistentAddress};

/// So many entries are found by looking at each.
const SCANNED: usize = 8;

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
    written: u8,
    /// The newest value of each written word: a commit stores it home from here.
    values: [u64; LINE_WORDS as usize],
    /// Where the scheme keeps the newest value of each written word.
    places: [u32; LINE_WORDS as usize],
}

impl LineEntry {
    /// No line's.
    const UNUSED: Self = Self {
        line: PersistentAddress::NULL,
        version: 0,
        lock: 0,
        next: NONE,
        written: 0,
        values: [0; LINE_WORDS as usize],
        places: [0; LINE_WORDS as usize],
    };

    /// Number of the word of `at` within its line.
    #[inline(always)]
    pub fn word_of(at: PersistentAddress) -> usize {
        (at.offset() / 8 % LINE_WORDS) as usize
    }

    /// Whether word `word` was written.
    #[inline(always)]
    pub fn is_written(&self, word: usize) -> bool {
        self.written >> word & 1 == 1
    }

    /// Where the scheme keeps the newest value of word `word`, if it was written.
    #[inline(always)]
    pub fn place(&self, word: usize) -> Option<u32> {
        self.is_written(word).then(|| self.places[word])
    }

    /// The newest value of word `word`, which was written.
    #[inline(always)]
    pub fn value(&self, word: usize) -> u64 {
        self.values[word]
    }

    /// Records the newest value of word `word`, and where the scheme keeps it.
    #[inline(always)]
    pub fn set(&mut self, word: usize, value: u64, place: u32) {
        self.written |= 1 << word;
        self.values[word] = value;
        self.places[word] = place;
    }

    /// How many of `count` words from `first` on were not written.
    #[inline(always)]
    pub fn new_words(&self, first: usize, count: usize) -> usize {
        (!self.written & Self::run(first, count)).count_ones() as usize
    }

    /// The bits of `count` words from `first` on.
    #[inline(always)]
    fn run(first: usize, count: usize) -> u8 {
        (((1 << count) - 1) << first) as u8
    }

    /// Records the newest values of words from `first` on, which the scheme keeps one behind the other from `place` on.
    #[inline(always)]
    pub fn set_run(&mut self, first: usize, values: &[u64], place: u32) {
        self.values[first..first + values.len()].copy_from_slice(values);
        for (i, kept) in self.places[first..first + values.len()].iter_mut().enumerate() {
            *kept = place + i as u32;
        }
        self.written |= Self::run(first, values.len());
    }

    /// Records the newest value of word `word`, which was written.
    #[inline(always)]
    pub fn set_value(&mut self, word: usize, value: u64) {
        self.values[word] = value;
    }

    /// What is to be stored home, by address.
    pub fn home(&self) -> impl Iterator<Item = (PersistentAddress, u64)> {
        self.words().map(|word| (self.line.word_inside(word as u64), self.values[word]))
    }

    /// Stores the new values home.
    #[inline(always)]
    pub fn store_home<M: Memory>(&self, memory: &M) {
        memory.store_line(self.line, self.written, &self.values);
    }

    /// The numbers of the words that were written.
    #[inline(always)]
    pub fn words(&self) -> impl Iterator<Item = usize> + use<> {
        let mut rest = self.written;
        std::iter::from_fn(move || {
            let word = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (word < 8).then_some(word)
        })
    }
}

/// The entries of one transaction, and an index by line for single-writer mode (the STM finds entries
/// through its lock table).
pub struct WriteSet {
    /// The entries, in the order of their first writes, and behind them what earlier transactions left: an entry is not
    /// cleared before it is used again, but for which words are written.
    slots: Vec<LineEntry>,
    length: usize,
    /// A bit for each line that may be written: reads of other lines need no look-up.
    filter: u64,
    /// Where there are more than [`SCANNED`] entries, open addressing: generation in the high half, entry in the low half.
    index: Vec<u64>,
    generation: u32,
}

impl Default for WriteSet {
    /// An empty write set.
    fn default() -> Self {
        let slots = vec![LineEntry::UNUSED; 16];
        Self { slots, length: 0, filter: 0, index: vec![0; 256], generation: 1 }
    }
}

impl WriteSet {
    /// Forgets all entries.
    #[inline]
    pub fn clear(&mut self) {
        if self.length > SCANNED {
            self.forget_index();
        }
        (self.length, self.filter) = (0, 0);
    }

    #[cold]
    #[inline(never)]
    fn forget_index(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.index.fill(0);
            self.generation = 1;
        }
    }

    /// The entries, in the order of their first writes.
    #[inline(always)]
    pub fn entries(&self) -> &[LineEntry] {
        &self.slots[..self.length]
    }

    /// Whether nothing is written.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Entry number `entry`.
    #[inline(always)]
    pub fn entry_mut(&mut self, entry: u32) -> &mut LineEntry {
        &mut self.slots[entry as usize]
    }

    #[inline(always)]
    fn hash(line: PersistentAddress) -> u64 {
        (line.offset() / LINE_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Which bit of the filter stands for a line.
    #[inline(always)]
    fn filter_bit(line: PersistentAddress) -> u64 {
        1 << (line.offset() / LINE_BYTES % u64::from(u64::BITS))
    }

    /// Whether the line of `at` may be written; it is not, if this says so.
    #[inline(always)]
    pub fn may_have(&self, at: PersistentAddress) -> bool {
        self.filter != 0 && self.filter & Self::filter_bit(at) != 0
    }

    /// The number of `line`'s entry by the index.
    #[inline]
    pub fn find(&self, line: PersistentAddress) -> Option<u32> {
        if self.may_have(line) { self.find_filtered(line) } else { None }
    }

    /// That of a line that the filter has let through. Mostly it is the newest.
    #[inline(always)]
    fn find_filtered(&self, line: PersistentAddress) -> Option<u32> {
        match self.entries().last() {
            Some(newest) if newest.line == line => Some(self.length as u32 - 1),
            _ => self.find_older(line),
        }
    }

    #[inline(never)]
    fn find_older(&self, line: PersistentAddress) -> Option<u32> {
        if self.length <= SCANNED {
            let number = self.entries().iter().rposition(|entry| entry.line == line);
            return number.map(|number| number as u32);
        }
        self.find_indexed(line)
    }

    /// The entry of `line`, added without a lock if there is none; then `before` is called first.
    #[inline(always)]
    pub fn find_or_push(&mut self, line: PersistentAddress, before: impl FnOnce()) -> &mut LineEntry {
        let bit = Self::filter_bit(line);
        if self.filter & bit != 0
            && let Some(entry) = self.find_filtered(line)
        {
            return self.entry_mut(entry);
        }
        before();
        self.filter |= bit;
        let number = self.length;
        if number < SCANNED {
            self.length = number + 1;
            let slot = &mut self.slots[number];
            (slot.line, slot.written) = (line, 0);
            return slot;
        }
        self.push_indexed(line)
    }

    fn find_indexed(&self, line: PersistentAddress) -> Option<u32> {
        let mask = self.index.len() - 1;
        let mut at = (Self::hash(line) >> 32) as usize & mask;
        loop {
            let slot = self.index[at];
            if (slot >> 32) as u32 != self.generation {
                return None;
            }
            if self.slots[slot as u32 as usize].line == line {
                return Some(slot as u32);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an entry for a line of which nothing is written; returns its number.
    #[inline(always)]
    pub fn push(&mut self, line: PersistentAddress, version: u64, lock: u32, next: u32) -> u32 {
        let number = self.length;
        let Some(slot) = self.slots.get_mut(number) else {
            self.lengthen();
            return self.push(line, version, lock, next);
        };
        (slot.line, slot.version, slot.lock, slot.next, slot.written) = (line, version, lock, next, 0);
        self.length = number + 1;
        number as u32
    }

    #[cold]
    #[inline(never)]
    fn lengthen(&mut self) {
        self.slots.resize(2 * self.slots.len(), LineEntry::UNUSED);
    }

    /// Adds an entry, without a lock, when there are more than are looked at one by one.
    #[inline(never)]
    fn push_indexed(&mut self, line: PersistentAddress) -> &mut LineEntry {
        let number = self.push(line, 0, 0, NONE);
        self.index_newest();
        self.entry_mut(number)
    }

    /// Indexes the newest entry, and those before it that are not indexed yet.
    fn index_newest(&mut self) {
        let mut first = self.length - 1;
        if first == SCANNED {
            first = 0;
        }
        if self.length * 2 > self.index.len() {
            self.index = vec![0; self.index.len() * 4];
            first = 0;
        }
        for number in first..self.length {
            self.insert_index(number as u32);
        }
    }

    fn insert_index(&mut self, number: u32) {
        let hash = Self::hash(self.slots[number as usize].line);
        let mask = self.index.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        while (self.index[at] >> 32) as u32 == self.generation {
            at = (at + 1) & mask;
        }
        self.index[at] = u64::from(self.generation) << 32 | u64::from(number);
    }
}
