//! What a running transaction has written: each word once, with its newest value, in the order of the first writes. A commit copies
//! it to the log and stores it home from here.
//!
//! Most reads are of words that the transaction has not written, so a look-up has to end quickly: in a filter of 64 bits; then, up to 16 words, by
//! comparing each; beyond that in a bitmap, and only for marked words in an index by address. The fewer instructions between two cache
//! misses, the sooner a processor begins the second one.
//!
//! On the laboratory's path the scheme keeps the values ([`Scheme::TAKES_WRITES`](crate::scheme::Scheme::TAKES_WRITES)), and the write set holds the
//! place that the scheme names, so that a write costs what it costs in the paper.

use std::collections::HashSet;

use crate::memory::{LINE_WORDS, PersistentAddress, WORD_BYTES};

/// So many words are found by looking at each.
const SCANNED: usize = 16;
/// So many words are compared with each other to find their lines.
const COMPARED: usize = 64;
/// There is room for so many words at first; then for twice as many again and again.
const FIRST_SLOTS: usize = 64;
/// Places of the index for each word that there is room for: so most words are where they are looked for first.
const SPARSE: usize = 4;
const _: () = assert!(FIRST_SLOTS.is_power_of_two() && SPARSE.is_power_of_two());
/// From one generation of the index to the next.
const GENERATION: u64 = 1 << 32;
/// So many blocks are cleared with less effort than a word's block is found and cleared.
const CLEARED_AT_ONCE: usize = 8;
/// So many consecutive words have their marks in one block.
const BLOCK_WORDS: u64 = u64::BITS as u64;

/// The written words of one transaction, and what finds them.
pub struct WriteSet {
    /// Addresses and newest values of `length` words, and behind them what earlier transactions left.
    slots: Vec<(PersistentAddress, u64)>,
    length: usize,
    /// Where the scheme keeps each of them, if it is told of each write: a log record, a slot of an execution area. Behind them is what
    /// earlier transactions left.
    places: Vec<u32>,
    /// A bit for each word that may be written, by its number modulo 64: others need no look-up. All of them once words are marked.
    filter: u64,
    /// Once one of more than [`SCANNED`] words was looked for, a bit is set for each word, by its number modulo the number of bits: blocks
    /// of 64 of them, as many as slots, so that one bit in 64 is set at most. Otherwise none is.
    marks: Vec<u64>,
    /// The number of the last block, or 0 while no word is marked.
    last_block: usize,
    /// Open addressing, for when there are more than [`SCANNED`] words: generation in the high half, number of the word in the low one.
    index: Vec<u64>,
    /// The generation of the entries that count, in the high half: a new one when a transaction's first words are indexed.
    generation: u64,
    /// So many words are in the index; the others follow when one is next looked for that is marked.
    indexed: usize,
}

impl Default for WriteSet {
    /// An empty write set.
    fn default() -> Self {
        Self {
            slots: vec![(PersistentAddress::NULL, 0); FIRST_SLOTS],
            length: 0,
            places: Vec::new(),
            filter: 0,
            marks: vec![0; FIRST_SLOTS],
            last_block: 0,
            index: vec![0; SPARSE * FIRST_SLOTS],
            generation: GENERATION,
            indexed: 0,
        }
    }
}

impl WriteSet {
    /// Forgets all words.
    #[inline(always)]
    pub fn clear(&mut self) {
        if self.has_marks() {
            self.unmark_all();
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
    pub fn fill_filter(&mut self) {
        self.filter = u64::MAX;
    }

    /// Whether one of `words` words from `at` on may be written. It may say yes wrongly, and never no.
    #[inline(always)]
    pub fn seems_to_have(&self, at: PersistentAddress, words: usize) -> bool {
        self.filter & if words <= LINE_WORDS as usize { Self::bits(at, words) } else { u64::MAX } != 0
    }

    /// Whether one of `words` words from `at` on may be written, once [`WriteSet::seems_to_have`] says so. It says no of most words that
    /// are not where many are written, and always yes where few are, and of more words than a line has.
    #[inline(always)]
    pub fn seems_marked(&self, at: PersistentAddress, words: usize) -> bool {
        !self.has_marks()
            || words > LINE_WORDS as usize
            || words > 1 && words as u64 > Self::block_words_left(at)
            || self.is_marked(at, words)
    }

    /// Whether one of `words` words from `at` on, whose marks are in one block, is marked.
    #[inline(always)]
    fn is_marked(&self, at: PersistentAddress, words: usize) -> bool {
        self.marks[self.block(at)] & Self::bits(at, words) != 0
    }

    /// Whether one of `words` words from `at` on may be written. It never says no wrongly, and yes neither where few words are written,
    /// or all of them are in the index and `words` are no more than a line has.
    #[inline(always)]
    pub fn may_have(&self, at: PersistentAddress, words: usize) -> bool {
        self.seems_to_have(at, words) && self.may_have_filtered(at, words)
    }

    /// [`WriteSet::may_have`], once [`WriteSet::seems_to_have`] says yes.
    #[inline(never)]
    pub fn may_have_filtered(&self, at: PersistentAddress, words: usize) -> bool {
        if self.length <= SCANNED {
            let is_one =
                |word: PersistentAddress| word.offset().wrapping_sub(at.offset()) < words as u64 * WORD_BYTES;
            return self.words().iter().any(|&(word, _)| is_one(word));
        }
        if !self.has_marks() || words > LINE_WORDS as usize {
            return true;
        }
        let here = words.min(Self::block_words_left(at) as usize);
        if !self.is_marked(at, here)
            && (words == here || !self.is_marked(at.word_inside(here as u64), words - here))
        {
            return false;
        }
        self.indexed < self.length || (0..words as u64).any(|word| self.probe(at.word_inside(word)).is_some())
    }

    /// The number of the block of a word's mark.
    #[inline(always)]
    fn block(&self, at: PersistentAddress) -> usize {
        Self::block_of(at) & self.last_block
    }

    /// The same, if there were as many blocks as addresses need.
    #[inline(always)]
    fn block_of(at: PersistentAddress) -> usize {
        (at.offset() / (BLOCK_WORDS * WORD_BYTES)) as usize
    }

    /// How many words from `at` on have their marks in the same block.
    #[inline(always)]
    fn block_words_left(at: PersistentAddress) -> u64 {
        BLOCK_WORDS - at.offset() / WORD_BYTES % BLOCK_WORDS
    }

    /// Whether words are marked.
    #[inline(always)]
    pub fn has_marks(&self) -> bool {
        self.last_block != 0
    }

    /// Marks the words, of which none is.
    #[cold]
    #[inline(never)]
    fn mark_all(&mut self) {
        (self.last_block, self.filter) = (self.marks.len() - 1, u64::MAX);
        for &(at, _) in &self.slots[..self.length] {
            self.marks[Self::block_of(at) & self.last_block] |= Self::bits(at, 1);
        }
    }

    #[inline(always)]
    fn mark(&mut self, at: PersistentAddress) {
        let block = self.block(at);
        self.marks[block] |= Self::bits(at, 1);
    }

    #[cold]
    #[inline(never)]
    fn unmark_all(&mut self) {
        if self.marks.len() <= CLEARED_AT_ONCE * self.length {
            self.marks.fill(0);
        } else {
            for &(at, _) in &self.slots[..self.length] {
                self.marks[Self::block_of(at) & self.last_block] = 0;
            }
        }
        (self.last_block, self.indexed) = (0, 0);
    }

    /// The number of the word at `at`, if it is written.
    #[inline(always)]
    pub fn find(&mut self, at: PersistentAddress) -> Option<usize> {
        if self.seems_to_have(at, 1) { self.find_filtered(at) } else { None }
    }

    #[inline(never)]
    fn find_filtered(&mut self, at: PersistentAddress) -> Option<usize> {
        if self.length <= SCANNED {
            return self.words().iter().rposition(|&(word, _)| word == at);
        }
        if !self.has_marks() {
            self.mark_all();
        }
        if !self.is_marked(at, 1) {
            return None;
        }
        self.index_all();
        self.probe(at)
    }

    /// The number of the word at `at`, if it is in the index.
    #[inline(always)]
    fn probe(&self, at: PersistentAddress) -> Option<usize> {
        let mut place = Self::hash(at);
        loop {
            place &= self.index.len() - 1;
            // An entry of another generation gives no number of a word.
            let number = (self.index[place] ^ self.generation) as usize;
            match self.slots.get(number) {
                None => return None,
                Some(&(word, _)) if word == at => return Some(number),
                Some(_) => place += 1,
            }
        }
    }

    /// Adds a word, if words are marked and it is not, and there is room: whether it did, and then it was not written.
    #[inline(always)]
    #[must_use]
    pub fn push_marked(&mut self, at: PersistentAddress, value: u64) -> bool {
        let (block, bit) = (self.block(at), Self::bits(at, 1));
        match (self.marks.get_mut(block), self.slots.get_mut(self.length)) {
            (Some(marks), Some(slot)) if self.last_block != 0 && *marks & bit == 0 => {
                *marks |= bit;
                *slot = (at, value);
                self.length += 1;
                true
            }
            _ => false,
        }
    }

    /// Adds a word that is not written yet; `false`: there is no room before [`WriteSet::lengthen`].
    #[inline(always)]
    #[must_use]
    pub fn push(&mut self, at: PersistentAddress, value: u64) -> bool {
        let is_added = self.push_slot(at, value);
        if is_added && self.has_marks() {
            self.mark(at);
        }
        is_added
    }

    /// The same of a word for which [`WriteSet::seems_to_have`] says no: so words are not marked.
    #[inline(always)]
    #[must_use]
    pub fn push_filtered(&mut self, at: PersistentAddress, value: u64) -> bool {
        debug_assert!(!self.has_marks());
        self.push_slot(at, value)
    }

    #[inline(always)]
    fn push_slot(&mut self, at: PersistentAddress, value: u64) -> bool {
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
        let is_added = self.push_slots(at, values);
        if is_added && self.has_marks() {
            (0..values.len() as u64).for_each(|word| self.mark(at.word_inside(word)));
        }
        is_added
    }

    /// The same of words of which [`WriteSet::seems_to_have`] says that none is.
    #[inline(always)]
    #[must_use]
    pub fn push_run_filtered(&mut self, at: PersistentAddress, values: &[u64]) -> bool {
        debug_assert!(!self.has_marks());
        self.push_slots(at, values)
    }

    #[inline(always)]
    fn push_slots(&mut self, at: PersistentAddress, values: &[u64]) -> bool {
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
        let slots = 2 * self.slots.len();
        self.slots.resize(slots, (PersistentAddress::NULL, 0));
        self.index = vec![0; SPARSE * slots];
        self.indexed = 0;
        self.marks = vec![0; slots];
        self.mark_all();
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
        // All of them share a few marks, so that the index is asked.
        let word = |number: u64| {
            PersistentAddress::new(
                (number % 10 + number / 10 * FIRST_SLOTS as u64 * BLOCK_WORDS) * WORD_BYTES,
            )
        };
        for (transaction, words) in [0..40, 100..120, 200..220, 300..320].into_iter().enumerate() {
            set.clear();
            for number in words.clone() {
                assert_eq!(set.find(word(number)), None);
                assert!(set.push(word(number), number));
            }
            assert_eq!(set.find(word(words.start + 7)), Some(7));
            let elsewhere = PersistentAddress::new(40 * BLOCK_WORDS * WORD_BYTES);
            assert!(!set.seems_marked(elsewhere, 8) && set.push_marked(elsewhere, 0));
            assert!(set.seems_marked(elsewhere, 8) && !set.push_marked(elsewhere, 0));
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
                proptest::collection::vec((0..4u64, 0..200u64, proptest::prelude::any::<u64>()), 0..300),
                1..4,
            ),
        ) {
            let mut set = WriteSet::default();
            for writes in transactions {
                let mut model: Vec<(PersistentAddress, u64)> = Vec::new();
                for (far, near, value) in writes {
                    // Two of the places share their marks, whatever the number of blocks.
                    let place = [0, 1 << 20, (1 << 20) + 4096, 3 << 20][far as usize];
                    let at = PersistentAddress::new(place + near * WORD_BYTES);
                    let run = [value, !value, value ^ 1];
                    let range = at.offset()..at.word_inside(run.len() as u64).offset();
                    let has_any = model.iter().any(|(word, _)| range.contains(&word.offset()));
                    let (may_have, is_exact) = (set.may_have(at, run.len()), set.is_exact());
                    proptest::prop_assert!(may_have == has_any || may_have && !is_exact);
                    let seems_to_have = set.seems_to_have(at, run.len());
                    proptest::prop_assert!(!has_any || seems_to_have && set.seems_marked(at, run.len()));
                    let line = PersistentAddress::new(at.offset() & !0x1ff);
                    for words in [8, 9, 63, 64, 65, 200] {
                        let range = line.offset()..line.word_inside(words as u64).offset();
                        let has_any = model.iter().any(|(word, _)| range.contains(&word.offset()));
                        let seems_to_have = set.seems_to_have(line, words) && set.seems_marked(line, words);
                        proptest::prop_assert!(!has_any || seems_to_have);
                    }
                    if near % 3 == 0 && !has_any {
                        if seems_to_have || !set.push_run_filtered(at, &run) {
                            while !set.push_run(at, &run) {
                                set.lengthen();
                            }
                        }
                        model.extend((0..).zip(run).map(|(word, value)| (at.word(word), value)));
                        continue;
                    }
                    let expected = model.iter().position(|&(word, _)| word == at);
                    let (may_have, is_exact) = (set.may_have(at, 1), set.is_exact());
                    proptest::prop_assert!(may_have == expected.is_some() || may_have && !is_exact);
                    let seems_to_have = set.seems_to_have(at, 1);
                    proptest::prop_assert!(expected.is_none() || seems_to_have && set.seems_marked(at, 1));
                    if value % 4 != 0 && (set.push_marked(at, value) || !seems_to_have && set.push_filtered(at, value)) {
                        proptest::prop_assert_eq!(expected, None);
                        model.push((at, value));
                        continue;
                    }
                    proptest::prop_assert_eq!(set.find(at), expected);
                    match expected {
                        Some(number) => {
                            model[number].1 = value;
                            set.set(number, value);
                        }
                        None => {
                            model.push((at, value));
                            while !set.push(at, value) {
                                set.lengthen();
                            }
                        }
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
                set.clear();
                proptest::prop_assert!(set.words().is_empty() && set.marks.iter().all(|&marks| marks == 0));
            }
        }
    }
}
