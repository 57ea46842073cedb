//! What a running transaction has written: each word once, with its newest value, in the order of the first writes. A commit copies
//! it to the log and stores it home from here.

use std::cell::Cell;
use std::collections::HashSet;

use crate::memory::{LINE_BYTES, LINE_WORDS, PersistentAddress, WORD_BYTES};

/// So many words are found by looking at each.
const SCANNED: usize = 16;
/// So many words are compared with each other to find their lines, and their lines share 64 bits.
const COMPARED: usize = 64;
/// There is room for so many words at first; then for twice as many again and again.
const FIRST_SLOTS: usize = 64;
/// Places of the index for each word that there is room for: so most words are where they are looked for first.
const SPARSE: usize = 4;
const _: () = assert!((SPARSE * FIRST_SLOTS).is_power_of_two());
/// From one generation of the index to the next.
const GENERATION: u64 = 1 << 32;

/// The written words of one transaction, and what finds them.
pub struct WriteSet {
    /// Addresses and newest values of `length` words, and behind them what earlier transactions left.
    slots: Vec<(PersistentAddress, u64)>,
    length: usize,
    /// Where the scheme keeps each of them, if it is told of each write: a log record, a slot of an execution area. Behind them is what
    /// earlier transactions left.
    places: Vec<u32>,
    /// A bit for each word that may be written, by its number modulo 64: others need no look-up.
    filter: u64,
    /// So many words have their bits in `lines`; the others follow when it is next asked.
    lined: Cell<usize>,
    /// A bit for each line of theirs, by its number modulo the number of bits, or modulo 64 until there are more than [`COMPARED`] words: for
    /// reads of several words in sets of many.
    lines: Box<[Cell<u64>; 64]>,
    /// Open addressing, for when there are more than [`SCANNED`] words: generation in the high half, number of the word in the low one.
    index: Vec<u64>,
    /// The generation of the entries that count, in the high half: a new one when a transaction's first words are indexed.
    generation: u64,
    /// So many words are in the index; the others follow when it is next asked, or as they are written ([`WriteSet::put_indexed`]).
    indexed: usize,
}

impl Default for WriteSet {
    /// An empty write set.
    fn default() -> Self {
        let (slots, index) = (vec![(PersistentAddress::NULL, 0); FIRST_SLOTS], vec![0; SPARSE * FIRST_SLOTS]);
        Self {
            slots,
            length: 0,
            places: Vec::new(),
            filter: 0,
            lined: Cell::new(0),
            lines: Box::new([const { Cell::new(0) }; 64]),
            index,
            generation: GENERATION,
            indexed: 0,
        }
    }
}

impl WriteSet {
    /// Forgets all words.
    #[inline(always)]
    pub fn clear(&mut self) {
        if self.length > SCANNED {
            self.indexed = 0;
            self.lined.set(0);
        }
        (self.length, self.filter) = (0, 0);
    }

    /// Addresses and newest values: what a commit stores home.
    #[inline(always)]
    pub fn words(&self) -> &[(PersistentAddress, u64)] {
        &self.slots[..self.length]
    }

    /// How many words are written.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
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

    /// Whether nothing is written.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The newest value of word number `number`.
    #[inline(always)]
    pub fn value(&self, number: usize) -> u64 {
        self.slots[number].1
    }

    /// Records the newest value of word number `number`.
    #[inline(always)]
    pub fn set(&mut self, number: usize, value: u64) {
        self.slots[number].1 = value;
    }

    /// Where the scheme keeps word number `number`.
    #[inline(always)]
    pub fn place(&self, number: usize) -> u32 {
        self.places[number]
    }

    /// Records where the scheme keeps word number `number`, the newest or an older one.
    #[inline(always)]
    pub fn set_place(&mut self, number: usize, place: u32) {
        match self.places.get_mut(number) {
            Some(kept) => *kept = place,
            None => self.places.push(place),
        }
    }

    /// The bits of `words` words from `at` on, which are fewer than a word has bits.
    #[inline(always)]
    fn bits(at: PersistentAddress, words: usize) -> u64 {
        // Behind the last bit comes the first.
        ((1 << words) - 1_u64).rotate_left((at.offset() / WORD_BYTES) as u32)
    }

    /// Whether nothing is written, by a transaction that may write.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.filter == 0
    }

    /// Has it asked about each word, whether anything is written or not: so who only reads need not be told from others where it is not
    /// asked.
    #[inline(always)]
    pub fn mark_reader(&mut self) {
        self.filter = u64::MAX;
    }

    /// Whether one of `words` words from `at` on may be written; none is, if this says so. It may say yes wrongly, and never no.
    #[inline(always)]
    pub fn seems_to_have(&self, at: PersistentAddress, words: usize) -> bool {
        self.filter & if words <= LINE_WORDS as usize { Self::bits(at, words) } else { u64::MAX } != 0
    }

    /// The same, and right where few words are written, or all of them are in the index and `words` are no more than a line has.
    #[inline(always)]
    pub fn may_have(&self, at: PersistentAddress, words: usize) -> bool {
        self.seems_to_have(at, words) && self.may_have_filtered(at, words)
    }

    #[inline(never)]
    fn may_have_filtered(&self, at: PersistentAddress, words: usize) -> bool {
        // What is mostly the case calls nothing, so that no registers are to be saved.
        if self.length > SCANNED {
            if words == 1 && self.indexed == self.length {
                return self.probe(at).is_ok();
            }
            if self.lined.get() == self.length && !self.has_line_of(at, words) {
                return false;
            }
        }
        self.may_have_otherwise(at, words)
    }

    #[inline(never)]
    fn may_have_otherwise(&self, at: PersistentAddress, words: usize) -> bool {
        if self.length <= SCANNED {
            let is_one =
                |word: PersistentAddress| word.offset().wrapping_sub(at.offset()) < words as u64 * WORD_BYTES;
            return self.words().iter().any(|&(word, _)| is_one(word));
        }
        if self.lined.get() != self.length {
            self.line_all();
        }
        let is_indexed = self.indexed == self.length && words <= LINE_WORDS as usize;
        let has = |word| self.probe(at.word_inside(word)).is_ok();
        self.has_line_of(at, words) && (!is_indexed || (0..words as u64).any(has))
    }

    /// Whether a line of one of `words` words from `at` on may have a word that is written, once all words have their bits.
    #[inline(always)]
    fn has_line_of(&self, at: PersistentAddress, words: usize) -> bool {
        let has = |at| {
            let (lines, bit) = self.line(at);
            lines.get() & bit != 0
        };
        words > LINE_WORDS as usize || has(at) || has(at.word_inside(words as u64 - 1))
    }

    /// Where the bit of a word's line is.
    #[inline(always)]
    fn line(&self, at: PersistentAddress) -> (&Cell<u64>, u64) {
        let line = at.offset() / LINE_BYTES;
        let word = if self.length > COMPARED { line / 64 % 64 } else { 0 };
        (&self.lines[word as usize], 1_u64.rotate_left(line as u32))
    }

    /// Sets the bits of the words that have none yet.
    #[inline(never)]
    fn line_all(&self) {
        let mut from = self.lined.replace(self.length);
        if from == 0 || from <= COMPARED && self.length > COMPARED {
            from = 0;
            let used = if self.length > COMPARED { self.lines.len() } else { 1 };
            self.lines[..used].iter().for_each(|lines| lines.set(0));
        }
        for &(at, _) in &self.words()[from..] {
            let (lines, bit) = self.line(at);
            lines.set(lines.get() | bit);
        }
    }

    /// The number of the word at `at`, if it is written.
    #[inline(always)]
    pub fn find(&mut self, at: PersistentAddress) -> Option<usize> {
        if !self.seems_to_have(at, 1) { None } else { self.find_filtered(at) }
    }

    #[inline(never)]
    fn find_filtered(&mut self, at: PersistentAddress) -> Option<usize> {
        if self.length <= SCANNED {
            return self.words().iter().rposition(|&(word, _)| word == at);
        }
        self.index_all();
        self.probe(at).ok()
    }

    /// The number of the word at `at` if it is in the index, otherwise where in the index it belongs.
    #[inline(always)]
    fn probe(&self, at: PersistentAddress) -> Result<usize, usize> {
        let mut place = Self::hash(at);
        loop {
            place &= self.index.len() - 1;
            // An entry of another generation gives no number of a word.
            let number = (self.index[place] ^ self.generation) as usize;
            match self.slots.get(number) {
                None => return Err(place),
                Some(&(word, _)) if word == at => return Ok(number),
                Some(_) => place += 1,
            }
        }
    }

    /// Records the newest value of the word at `at`, which seems to be written ([`WriteSet::seems_to_have`]) and may be or not, if there are many
    /// words, all of them in the index, and room for another; whether it did.
    #[inline(always)]
    #[must_use]
    pub fn put_indexed(&mut self, at: PersistentAddress, value: u64) -> bool {
        let number = self.length;
        if self.indexed != number || number <= SCANNED {
            return false;
        }
        match self.probe(at) {
            Ok(number) => self.set(number, value),
            Err(_) if number == self.slots.len() => return false,
            Err(place) => {
                debug_assert!(self.seems_to_have(at, 1));
                self.slots[number] = (at, value);
                self.index[place] = self.generation | number as u64;
                (self.length, self.indexed) = (number + 1, number + 1);
            }
        }
        true
    }

    /// Adds a word that is not written yet; `false`: there is no room before [`WriteSet::lengthen`].
    #[inline(always)]
    #[must_use]
    pub fn push(&mut self, at: PersistentAddress, value: u64) -> bool {
        let Some(slot) = self.slots.get_mut(self.length) else { return false };
        *slot = (at, value);
        self.length += 1;
        self.filter |= Self::bits(at, 1);
        true
    }

    /// Adds words from `at` on, as many as a line has or fewer, none of which is written yet; `false`: as [`WriteSet::push`], and none is
    /// added.
    #[inline(always)]
    #[must_use]
    pub fn push_run(&mut self, at: PersistentAddress, values: &[u64]) -> bool {
        debug_assert!((1..=LINE_WORDS as usize).contains(&values.len()));
        let end = self.length + values.len();
        let Some(slots) = self.slots.get_mut(self.length..end) else { return false };
        for ((slot, &value), word) in slots.iter_mut().zip(values).zip(0..) {
            *slot = (at.word_inside(word), value);
        }
        self.length = end;
        self.filter |= Self::bits(at, values.len());
        true
    }

    /// Makes room for more words.
    pub fn lengthen(&mut self) {
        self.slots.resize(2 * self.slots.len(), (PersistentAddress::NULL, 0));
        self.index = vec![0; SPARSE * self.slots.len()];
        self.indexed = 0;
    }

    /// Indexes the words that are not indexed yet, if there are too many to look at each.
    #[inline(always)]
    pub fn keep_indexed(&mut self) {
        if self.length > SCANNED {
            self.index_all();
        }
    }

    /// Indexes the words that are not indexed yet.
    #[inline(always)]
    fn index_all(&mut self) {
        if self.indexed == 0 {
            // What earlier transactions left in it is none of this one's.
            self.generation = self.generation.wrapping_add(GENERATION);
            if self.generation == 0 {
                self.index.fill(0);
                self.generation = GENERATION;
            }
        }
        let mask = self.index.len() - 1;
        for (number, &(at, _)) in (self.indexed as u64..).zip(&self.slots[self.indexed..self.length]) {
            let mut place = Self::hash(at) & mask;
            while self.index[place] ^ self.generation < GENERATION {
                place = (place + 1) & mask;
            }
            self.index[place] = self.generation | number;
        }
        self.indexed = self.length;
        if self.length > COMPARED {
            // It has most of its bits by now, and the index says more if no word comes past it.
            self.filter = u64::MAX;
        }
    }

    #[inline(always)]
    fn hash(at: PersistentAddress) -> usize {
        ((at.offset() / WORD_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl WriteSet {
        fn is_exact(&self) -> bool {
            self.length <= SCANNED || self.indexed == self.length
        }
    }

    #[test]
    fn what_an_earlier_generation_left_is_not_found() {
        let mut set = WriteSet::default();
        let word = |number: u64| PersistentAddress::new(number * WORD_BYTES);
        for (transaction, words) in [0..40, 100..120, 200..220, 300..320].into_iter().enumerate() {
            set.clear();
            for number in words.clone() {
                assert_eq!(set.find(word(number)), None);
                assert!(set.push(word(number), number));
            }
            assert_eq!(set.find(word(words.start + 7)), Some(7));
            assert!((0..40).all(|number| words.contains(&number) || set.find(word(number)).is_none()));
            if transaction == 0 {
                // Generations begin anew with the next transaction, and the one after it has the first one's.
                assert_eq!(set.generation, 2 * GENERATION);
                set.generation = 0_u64.wrapping_sub(GENERATION);
            }
        }
    }

    proptest::proptest! {
        /// Few words and many, near one another and apart, again and again in the same set.
        #[test]
        fn it_is_a_map_in_the_order_of_first_writes(
            transactions in proptest::collection::vec(
                proptest::collection::vec((0..3u64, 0..200u64, proptest::prelude::any::<u64>()), 0..300),
                1..4,
            ),
        ) {
            let mut set = WriteSet::default();
            for writes in transactions {
                set.clear();
                let mut model: Vec<(PersistentAddress, u64)> = Vec::new();
                for (far, near, value) in writes {
                    let at = PersistentAddress::new(far * ((1 << 20) + 4096) + near * WORD_BYTES);
                    let run = [value, !value, value ^ 1];
                    let range = at.offset()..at.word_inside(run.len() as u64).offset();
                    let has_any = model.iter().any(|(word, _)| range.contains(&word.offset()));
                    let (may_have, is_exact) = (set.may_have(at, run.len()), set.is_exact());
                    proptest::prop_assert!(may_have == has_any || may_have && !is_exact);
                    if near % 3 == 0 && !has_any {
                        while !set.push_run(at, &run) {
                            set.lengthen();
                        }
                        model.extend((0..).zip(run).map(|(word, value)| (at.word(word), value)));
                        continue;
                    }
                    let expected = model.iter().position(|&(word, _)| word == at);
                    let (may_have, is_exact) = (set.may_have(at, 1), set.is_exact());
                    proptest::prop_assert!(may_have == expected.is_some() || may_have && !is_exact);
                    match expected {
                        Some(number) => model[number].1 = value,
                        None => model.push((at, value)),
                    }
                    if value % 4 != 0 && set.seems_to_have(at, 1) && set.put_indexed(at, value) {
                        proptest::prop_assert_eq!(set.find(at), expected.or(Some(model.len() - 1)));
                        continue;
                    }
                    proptest::prop_assert_eq!(set.find(at), expected);
                    match expected {
                        Some(number) => set.set(number, value),
                        None => {
                            while !set.push(at, value) {
                                set.lengthen();
                            }
                        }
                    }
                    if value % 4 != 1 {
                        set.keep_indexed();
                    }
                    proptest::prop_assert!(set.may_have(at, 1));
                }
                proptest::prop_assert_eq!(set.words(), &model[..]);
                let mut seen = HashSet::new();
                let lines: Vec<_> =
                    model.iter().map(|(at, _)| at.line()).filter(|&line| seen.insert(line)).collect();
                let mut found = Vec::new();
                set.for_each_line(|line| found.push(line));
                proptest::prop_assert_eq!(found, lines);
            }
        }
    }
}
