//! What a running transaction has written: each word once, with its newest value, in the order of the first writes. A commit copies
//! it to the log and stores it home from here.
//!
//! Most reads are of words that the transaction has not written, so a look-up has to end quickly: in a filter of 512 bits; then, up to 16
//! words, by comparing each; beyond that in an index of lines, where words that follow one another in a line share an entry. Words are what
//! is kept, not lines: a commit goes through all of them twice, and of most lines a transaction writes one word or two.
//!
//! On the laboratory's path the scheme keeps the values ([`Scheme::TAKES_WRITES`](crate::scheme::Scheme::TAKES_WRITES)), and the write set holds the
//! place that the scheme names, so that a write costs what it costs in the paper.

use std::collections::HashSet;

use crate::memory::{LINE_BYTES, LINE_WORDS, PersistentAddress, WORD_BYTES};

/// So many words are found by looking at each.
const SCANNED: usize = 16;
/// So many words are compared with each other to find their lines.
const COMPARED: usize = 64;
/// There is room for so many words at first; then for twice as many again and again.
const FIRST_SLOTS: usize = 64;
/// Places of the index for each word that there is room for: so most words are where they are looked for first.
const SPARSE: usize = 2;
const _: () = assert!(FIRST_SLOTS.is_power_of_two() && SPARSE.is_power_of_two());
/// Bytes of the filter at first.
const FILTER_LINES: usize = 64;
/// The filter becomes larger when so many words are written, and again at four times as many, and so on.
const FILTER_WORDS: usize = 1024;
/// Bytes that it has then for each of these words.
const FILTER_SHARE: usize = 16;
/// From one generation of the index to the next.
const GENERATION: u64 = 1 << 32;

/// The written words of one transaction, and what finds them.
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
    /// Addresses and newest values of `length` words, and behind them what earlier transactions left.
    slots: Vec<(PersistentAddress, u64)>,
    length: usize,
    /// No more than these need room: more could not be committed.
    most: usize,
    /// Where the scheme keeps each of them, if it is told of each write: a log record, a slot of an execution area. Behind them is what
    /// earlier transactions left.
    places: Vec<u32>,
    /// A byte for each line, by its number modulo the power of two that `filter_mask` is less one, and in it a bit for each word that may be
    /// written: others need no look-up. Behind these bytes is what earlier transactions left.
    filter: Vec<u8>,
    filter_mask: usize,
    /// With more words than these the filter becomes larger.
    filter_words: usize,
    /// Open addressing by line, for when there are more than [`SCANNED`] words: generation in the high half; in the low one the number of a word, of
    /// the first one where some follow one another.
    index: Vec<u64>,
    /// The generation of the entries that count, in the high half: a new one when a transaction's first words are indexed.
    generation: u64,
    /// So many words are in the index; the others follow when one is next looked for.
    indexed: usize,
}

impl Default for WriteSet {
    /// An empty write set, for any number of words.
    fn default() -> Self {
        Self::for_at_most(usize::MAX)
    }
}

impl WriteSet {
    /// An empty write set that needs no room for more than `most` words, as they could not be committed.
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

    /// Words for which there is room already.
    pub(crate) fn room(&self) -> usize {
        self.slots.len()
    }

    /// Gives memory back if there is room for more than `words` words; then all words are forgotten.
    pub fn keep_room_for(&mut self, words: usize) {
        if self.room() > words {
            *self = Self::for_at_most(self.most);
        }
    }

    /// Addresses and newest values: what a commit stores home.
    #[inline]
    pub fn words(&self) -> &[(PersistentAddress, u64)] {
        &self.slots[..self.length]
    }

    /// How many words are written.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether nothing is written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Calls `act` with each written line, once, in the order of their first writes.
    pub fn for_each_line(&self, act: impl FnMut(PersistentAddress)) {
        let lines = self.words().iter().map(|(at, _)| at.line());
        if self.length <= COMPARED {
            // Cheaper than any memory that would have to be taken.
            let is_first = |&(number, line): &(usize, PersistentAddress)| {
                !self.slots[..number].iter().any(|(before, _)| before.line() == line)
            };
            lines.enumerate().filter(is_first).map(|(_, line)| line).for_each(act);
        } else {
            let mut seen = HashSet::with_capacity(self.length);
            lines.filter(|&line| seen.insert(line)).for_each(act);
        }
    }

    /// The byte of the filter for the line of `at`, and the bits for `words` words from `at` on, which are of that line.
    #[inline]
    fn bits(&self, at: PersistentAddress, words: usize) -> (usize, u8) {
        let bits = ((1 << words) - 1_u64) << (at.offset() / WORD_BYTES % LINE_WORDS);
        ((at.offset() / LINE_BYTES) as usize & self.filter_mask, bits as u8)
    }

    /// Makes the filter larger, for the words that there are.
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

    /// Returns whether one of `words` words from `at` on may be written. No false negatives.
    #[inline]
    pub fn may_have(&self, at: PersistentAddress, words: usize) -> bool {
        if words > at.words_left_in_line() {
            return !self.is_empty();
        }
        let (line, bits) = self.bits(at, words);
        self.filter[line] & bits != 0
    }

    /// The number of the word at `at`, if it is written.
    #[inline]
    pub fn find(&mut self, at: PersistentAddress) -> Option<usize> {
        if self.may_have(at, 1) { self.find_filtered(at) } else { None }
    }

    /// The newest value of word number `number`.
    #[inline]
    pub fn value(&self, number: usize) -> u64 {
        self.slots[number].1
    }

    /// Records the newest values of words of one line, from `at` on; `false`: there is no room for all of them.
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

    /// The same where some of them may be written already, or more room is needed.
    #[inline(never)]
    fn put_each(&mut self, at: PersistentAddress, values: &[u64]) -> bool {
        // Words of one line are mostly written again in the order in which they were first.
        let mut next = usize::MAX;
        (0..).zip(values).all(|(word, &value)| {
            let at = at.word_inside(word);
            let is_next = self.words().get(next).is_some_and(|&(other, _)| other == at);
            let number = if is_next { Some(next) } else { self.find(at) };
            next = number.map_or(usize::MAX, |number| number + 1);
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

    /// Where the scheme keeps word number `number`.
    #[inline]
    pub fn place(&self, number: usize) -> u32 {
        self.places[number]
    }

    /// Records where the scheme keeps word number `number`, the newest or an older one.
    #[inline]
    pub fn set_place(&mut self, number: usize, place: u32) {
        match self.places.get_mut(number) {
            Some(kept) => *kept = place,
            None => self.places.push(place),
        }
    }

    /// Makes room for more words, unless there is room for as many as may be written.
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
            // An entry of another generation gives no number of a word.
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

    /// Indexes the words that are not indexed yet, unless they follow the one before in its line.
    fn index_rest(&mut self) {
        if self.indexed == 0 {
            // What earlier transactions left in it is none of this one's.
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
        // All of them share a bit of the filter, so that the index is asked.
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
                // Generations begin anew with the next transaction, and the one after it has the first one's.
                assert_eq!(set.generation, 2 * GENERATION);
                set.generation = 0_u64.wrapping_sub(GENERATION);
            }
        }
    }

    #[test]
    fn it_grows_as_far_as_can_be_committed() {
        let mut set = WriteSet::for_at_most(100);
        let is_kept = |number: &u64| set.put(PersistentAddress::new(number * WORD_BYTES), &[0]);
        assert_eq!((0..1000).take_while(is_kept).count(), 2 * FIRST_SLOTS);
    }

    proptest::proptest! {
        /// Few words and many, near one another and apart, again and again in the same set.
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
