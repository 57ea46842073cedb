//! The writes of a running transaction: each written word once, with its newest value, in the order of the first writes. A commit copies the words
//! from here to the log and to their home locations.
//!
//! Most reads are of words that the transaction has not written, so a lookup has to end quickly. It first asks a filter of 512 bits. Up to 16 words
//! are then compared one by one; more are found by an index of lines, in which consecutive words of a line share an entry. The set keeps words
//! instead of lines, because a commit passes over all of them twice, and a transaction writes only one or two words of most lines.
//!
//! On the laboratory's path the scheme keeps the values ([`Scheme::TAKES_WRITES`](crate::scheme::Scheme::TAKES_WRITES)). The write set then holds the
//! locations that the scheme returns, so that a write costs what it costs in the paper.

use std::collections::HashSet;

use crate::memory::{LINE_BYTES, LINE_WORDS, PersistentAddress, WORD_BYTES};

/// Up to this number, words are found by comparing each.
const SCANNED: usize = 16;
/// Up to this number, words are compared with each other to find their lines.
const COMPARED: usize = 64;
/// The initial number of slots, which is doubled as often as necessary.
const FIRST_SLOTS: usize = 64;
/// Number of the index's places for each word; most words are then at the first place where they are looked up.
const SPARSE: usize = 2;
const _: () = assert!(FIRST_SLOTS.is_power_of_two() && SPARSE.is_power_of_two());
/// Initial size of the filter, in bytes.
const FILTER_LINES: usize = 64;
/// The number of written words at which the filter is enlarged; it is enlarged again at four times as many, and so on.
const FILTER_WORDS: usize = 1024;
/// The number of bytes in an enlarged filter for each word that was written when it was enlarged.
const FILTER_SHARE: usize = 16;
/// Room for more words than these is freed after a transaction that has written to less than this share of it.
const MOST_UNUSED: usize = 1 << 16;
const UNUSED_SHARE: usize = 16;
/// The difference between two successive generations of the index.
const GENERATION: u64 = 1 << 32;

/// The written words of one transaction, with a filter and an index to find them.
///
/// ```
/// # use strandline_core::memory::PersistentAddress;
/// use strandline_core::transaction::WriteSet;
///
/// let mut writes = WriteSet::default();
/// let at = PersistentAddress::new(4096);
/// assert!(writes.put(at, &[1, 2]) && writes.put(at.word(1), &[3]));
/// assert_eq!(writes.words(), [(at, 1), (at.word(1), 3)]);
/// assert!(!writes.may_have(at.word(2), 1));
/// ```
pub struct WriteSet {
    /// The addresses and newest values of `length` words, followed by remains of earlier transactions.
    slots: Vec<(PersistentAddress, u64)>,
    length: usize,
    /// The most words for which room is needed, because no larger transaction could be committed.
    most: usize,
    /// The location where the scheme keeps each word, if it is told of each write: a log record, or a slot of an execution area. Remains of earlier
    /// transactions follow.
    places: Vec<u32>,
    /// A byte for each line, indexed by the line's number modulo a power of two (`filter_mask` plus one). It has a bit for each word that may be
    /// written; other words need no lookup. Remains of earlier transactions follow.
    filter: Vec<u8>,
    filter_mask: usize,
    /// The number of words above which the filter is enlarged.
    filter_words: usize,
    /// A hash table of lines with open addressing, used for more than [`SCANNED`] words. The upper half of an entry is its generation, the lower half
    /// the number of a word, or of the first of consecutive words.
    index: Vec<u64>,
    /// The generation of valid entries, in the upper half. It changes when a transaction's first words are indexed.
    generation: u64,
    /// The number of words in the index. The others are added at the next lookup.
    indexed: usize,
}

impl Default for WriteSet {
    /// Creates an empty write set for any number of words.
    fn default() -> Self {
        Self::for_at_most(usize::MAX)
    }
}

impl WriteSet {
    /// Creates an empty write set that needs room for at most `most` words, because no more could be committed.
    pub fn for_at_most(most: usize) -> Self {
        Self {
            most,
            slots: vec![(PersistentAddress::NULL, 0); FIRST_SLOTS],
            length: 0,
            places: Vec::new(),
            filter: vec![0; FILTER_LINES],
            filter_mask: FILTER_LINES - 1,
            filter_words: FILTER_WORDS,
            index: vec![0; SPARSE * FIRST_SLOTS],
            generation: GENERATION,
            indexed: 0,
        }
    }

    /// Forgets all words.
    #[inline]
    pub fn clear(&mut self) {
        (self.length, self.indexed) = (0, 0);
        (self.filter_mask, self.filter_words) = (FILTER_LINES - 1, FILTER_WORDS);
        self.filter[..FILTER_LINES].fill(0);
    }

    /// Returns the number of words for which there is room already.
    pub(crate) fn room(&self) -> usize {
        self.slots.len()
    }

    /// Frees memory if there is room for more than `words` words, or for many more than are written, and forgets all words then.
    pub fn keep_room_for(&mut self, words: usize) {
        let is_unused = (1..self.room() / UNUSED_SHARE).contains(&self.length) && self.room() > MOST_UNUSED;
        if self.room() > words || is_unused {
            *self = Self::for_at_most(self.most);
        }
    }

    /// Returns the addresses and newest values, which a commit stores home.
    #[inline]
    pub fn words(&self) -> &[(PersistentAddress, u64)] {
        &self.slots[..self.length]
    }

    /// Returns the number of written words.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether nothing is written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Calls `act` once with each written line, in the order of the first writes.
    pub fn for_each_line(&self, act: impl FnMut(PersistentAddress)) {
        let lines = self.words().iter().map(|(at, _)| at.line());
        if self.length <= COMPARED {
            // Comparing is cheaper than allocating memory.
            let is_first = |&(number, line): &(usize, PersistentAddress)| {
                !self.slots[..number].iter().any(|(before, _)| before.line() == line)
            };
            lines.enumerate().filter(is_first).map(|(_, line)| line).for_each(act);
        } else {
            let mut seen = HashSet::with_capacity(self.length);
            lines.filter(|&line| seen.insert(line)).for_each(act);
        }
    }

    /// Returns the index of the filter's byte for the line of `at`, and the bits for `words` words from `at` on, all in that line.
    #[inline]
    fn bits(&self, at: PersistentAddress, words: usize) -> (usize, u8) {
        let bits = ((1 << words) - 1_u64) << (at.offset() / WORD_BYTES % LINE_WORDS);
        ((at.offset() / LINE_BYTES) as usize & self.filter_mask, bits as u8)
    }

    /// Enlarges the filter for the present words.
    #[cold]
    fn enlarge_filter(&mut self) {
        let lines = FILTER_SHARE * self.filter_words;
        (self.filter_mask, self.filter_words) = (lines - 1, 4 * self.filter_words);
        self.filter.clear();
        self.filter.resize(lines, 0);
        for number in 0..self.length {
            let (line, bits) = self.bits(self.slots[number].0, 1);
            self.filter[line] |= bits;
        }
    }

    /// Returns whether one of `words` words from `at` on may be written. There are no false negatives.
    #[inline]
    pub fn may_have(&self, at: PersistentAddress, words: usize) -> bool {
        if words > at.words_left_in_line() {
            return !self.is_empty();
        }
        let (line, bits) = self.bits(at, words);
        self.filter[line] & bits != 0
    }

    /// Returns the number of the word at `at`, if it is written.
    #[inline]
    pub fn find(&mut self, at: PersistentAddress) -> Option<usize> {
        if self.may_have(at, 1) { self.find_filtered(at) } else { None }
    }

    /// Like [`WriteSet::find`], where `before` is the number of the preceding word, if that is written. Words are mostly written and read in the same
    /// order, so that the two numbers follow each other.
    pub fn find_after(&mut self, before: Option<usize>, at: PersistentAddress) -> Option<usize> {
        let next = before.map(|number| number + 1);
        let is_next = |&number: &usize| self.words().get(number).is_some_and(|&(word, _)| word == at);
        next.filter(is_next).or_else(|| self.find(at))
    }

    /// Returns the newest value of word number `number`.
    #[inline]
    pub fn value(&self, number: usize) -> u64 {
        self.slots[number].1
    }

    /// Records the newest values of consecutive words of one line, from `at` on. Returns false if there is no room for all of them.
    #[inline(always)]
    #[must_use]
    pub fn put(&mut self, at: PersistentAddress, values: &[u64]) -> bool {
        if self.may_have(at, values.len()) || values.len() > self.slots.len() - self.length {
            return self.put_each(at, values);
        }
        let (line, bits) = self.bits(at, values.len());
        self.filter[line] |= bits;
        for ((slot, &value), word) in self.slots[self.length..].iter_mut().zip(values).zip(0..) {
            *slot = (at.word_inside(word), value);
        }
        self.length += values.len();
        if self.length > self.filter_words {
            self.enlarge_filter();
        }
        true
    }

    /// Like [`WriteSet::put`], for the case that some words may be written already or more room is needed.
    #[inline(never)]
    fn put_each(&mut self, at: PersistentAddress, values: &[u64]) -> bool {
        let mut number = None;
        (0..).zip(values).all(|(word, &value)| {
            let at = at.word_inside(word);
            number = self.find_after(number, at);
            match number {
                Some(number) => self.slots[number].1 = value,
                None if self.length == self.slots.len() && !self.lengthen() => return false,
                None => {
                    self.slots[self.length] = (at, value);
                    self.length += 1;
                    let (line, bits) = self.bits(at, 1);
                    self.filter[line] |= bits;
                    if self.length > self.filter_words {
                        self.enlarge_filter();
                    }
                }
            }
            true
        })
    }

    /// Replaces the newest value of word number `number`.
    pub fn set(&mut self, number: usize, value: u64) {
        self.slots[number].1 = value;
    }

    /// Returns the location where the scheme keeps word number `number`.
    #[inline]
    pub fn place(&self, number: usize) -> u32 {
        self.places[number]
    }

    /// Records the location where the scheme keeps word number `number`, for its newest or an older value.
    #[inline]
    pub fn set_place(&mut self, number: usize, place: u32) {
        match self.places.get_mut(number) {
            Some(kept) => *kept = place,
            None => self.places.push(place),
        }
    }

    /// Makes room for more words, unless there is room for the maximum already.
    #[cold]
    fn lengthen(&mut self) -> bool {
        let slots = 2 * self.slots.len();
        if self.slots.len() > self.most {
            return false;
        }
        self.slots.resize(slots, (PersistentAddress::NULL, 0));
        self.index = vec![0; SPARSE * slots];
        self.indexed = 0;
        true
    }

    #[inline(never)]
    fn find_filtered(&mut self, at: PersistentAddress) -> Option<usize> {
        if self.length <= SCANNED {
            return self.words().iter().rposition(|&(word, _)| word == at);
        }
        if self.indexed < self.length {
            self.index_rest();
        }
        let mut place = Self::hash(at);
        loop {
            place &= self.index.len() - 1;
            // For an entry of another generation, this is not the number of a word.
            let number = (self.index[place] ^ self.generation) as usize;
            match self.slots.get(number) {
                None => return None,
                Some(&(first, _)) if first <= at && first.line() == at.line() => {
                    let number = number + ((at.offset() - first.offset()) / WORD_BYTES) as usize;
                    if self.words().get(number).is_some_and(|&(word, _)| word == at) {
                        return Some(number);
                    }
                }
                Some(_) => {}
            }
            place += 1;
        }
    }

    /// Indexes the remaining words, except those that directly follow the previous word in its line.
    fn index_rest(&mut self) {
        if self.indexed == 0 {
            // A new generation invalidates entries of earlier transactions.
            self.generation = self.generation.wrapping_add(GENERATION);
            if self.generation == 0 {
                self.index.fill(0);
                self.generation = GENERATION;
            }
        }
        let mask = self.index.len() - 1;
        let mut next = PersistentAddress::NULL;
        for (number, &(at, _)) in (self.indexed as u64..).zip(&self.slots[self.indexed..self.length]) {
            let follows = at == next && at.line() != at;
            next = at.word_inside(1);
            if follows {
                continue;
            }
            let mut place = Self::hash(at) & mask;
            while self.index[place] ^ self.generation < GENERATION {
                place = (place + 1) & mask;
            }
            self.index[place] = self.generation | number;
        }
        self.indexed = self.length;
    }

    fn hash(at: PersistentAddress) -> usize {
        ((at.offset() / LINE_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_generation_left_is_not_found() {
        let mut set = WriteSet::default();
        // All of these words share a bit of the filter, so that the index is used.
        let word = |number: u64| PersistentAddress::new(number * FILTER_LINES as u64 * LINE_BYTES);
        for (transaction, words) in [0..40, 100..120, 200..220, 300..320].into_iter().enumerate() {
            set.clear();
            for number in words.clone() {
                assert_eq!(set.find(word(number)), None);
                assert!(set.put(word(number), &[number]));
            }
            let number_of = |number: u64| words.contains(&number).then(|| (number - words.start) as usize);
            assert!((0..400).all(|number| set.find(word(number)) == number_of(number)));
            if transaction == 0 {
                // The generations wrap around with the next transaction, and the one after it has the first generation.
                assert_eq!(set.generation, 2 * GENERATION);
                set.generation = 0_u64.wrapping_sub(GENERATION);
            }
        }
    }

    #[test]
    fn room_that_is_not_used_is_freed() {
        let mut set = WriteSet::default();
        let mut write = |words: u64| {
            set.keep_room_for(1 << 18);
            set.clear();
            assert!((0..words).all(|number| set.put(PersistentAddress::new(number * WORD_BYTES), &[0])));
            set.room()
        };
        assert_eq!(
            [100_000, 0, 0, 9000, 8000, 10].map(&mut write),
            [1 << 17, 1 << 17, 1 << 17, 1 << 17, 1 << 17, 64]
        );
        assert_eq!([1000, 10, 10].map(&mut write), [1024; 3]);
    }

    #[test]
    fn it_grows_as_far_as_can_be_committed() {
        let mut set = WriteSet::for_at_most(100);
        let is_kept = |number: &u64| set.put(PersistentAddress::new(number * WORD_BYTES), &[0]);
        assert_eq!((0..1000).take_while(is_kept).count(), 2 * FIRST_SLOTS);
    }

    proptest::proptest! {
        /// Writes few and many words, near each other and far apart, repeatedly to the same set.
        #[test]
        fn it_is_a_map_in_the_order_of_first_writes(
            transactions in proptest::collection::vec(
                proptest::collection::vec((0..4u64, 0..200u64, 1..9u64, proptest::prelude::any::<u64>()), 0..300),
                1..4,
            ),
        ) {
            let mut set = WriteSet::default();
            for writes in transactions {
                let mut model: Vec<(PersistentAddress, u64)> = Vec::new();
                for (far, near, words, value) in writes {
                    let place = [0, 1 << 20, (1 << 20) + 4096, 3 << 20][far as usize];
                    let at = PersistentAddress::new(place + near * WORD_BYTES);
                    let words = words.min(at.words_left_in_line() as u64);
                    let range = at.offset()..at.word_inside(words).offset();
                    let has_any = model.iter().any(|(word, _)| range.contains(&word.offset()));
                    proptest::prop_assert!(set.may_have(at, words as usize) || !has_any);
                    let number = model.iter().position(|&(word, _)| word == at);
                    proptest::prop_assert_eq!(set.find(at), number);
                    if let Some(number) = number {
                        proptest::prop_assert_eq!(set.value(number), model[number].1);
                    }
                    let values: Vec<u64> = (0..words).map(|word| value ^ word).collect();
                    proptest::prop_assert!(set.put(at, &values));
                    for (word, &value) in (0..).zip(&values) {
                        let at = at.word_inside(word);
                        match model.iter_mut().find(|(word, _)| *word == at) {
                            Some((_, kept)) => *kept = value,
                            None => model.push((at, value)),
                        }
                    }
                }
                proptest::prop_assert_eq!(set.words(), &model[..]);
                let mut seen = HashSet::new();
                let lines: Vec<_> =
                    model.iter().map(|(at, _)| at.line()).filter(|&line| seen.insert(line)).collect();
                let mut found = Vec::new();
                set.for_each_line(|line| found.push(line));
                proptest::prop_assert_eq!(found, lines);
                set.clear();
                proptest::prop_assert!(set.is_empty() && set.find(PersistentAddress::new(0)).is_none());
            }
        }
    }
}
