//! The slots of a page: the places of its cells, in the order of their keys, and the heads of these.

use std::ops::Range;

use arrayvec::ArrayVec;

/// The number of slots in a word.
pub(super) const EACH: usize = 4;
/// An upper bound on the number of slot words: a page has no room for as many, together with their cells.
pub(super) const MOST: usize = 256;
/// The number of slots in each word when all are written again. This leaves room for one more.
pub(super) const FILLED: usize = 3;
/// The number of bits of a slot that have the head of a key.
pub(super) const HEAD_BITS: u64 = 7;
/// The number of bits of a slot that have the word at which a cell begins.
const OFFSET_BITS: u64 = 9;

/// A place among slots: before slot number `index` of a word, or at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub word: u16,
    pub index: u8,
}

/// The slot words of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slots(pub ArrayVec<u64, MOST>);

/// Returns the slot of a key with this head, whose cell begins at word `offset`, which is not 0.
pub(super) fn slot(head: u64, offset: u64) -> u64 {
    head << OFFSET_BITS | offset
}

/// Returns the head of the key in a slot.
pub(super) fn head_of(slot: u64) -> u64 {
    slot >> OFFSET_BITS
}

/// Returns the word of the page at which the cell of a slot begins.
pub(super) fn offset_of(slot: u64) -> u64 {
    slot & ((1 << OFFSET_BITS) - 1)
}

/// Returns slot number `index` of a word; 0 if it is not in use.
pub(super) fn slot_in(word: u64, index: usize) -> u64 {
    word >> (16 * index) & 0xffff
}

/// Returns the word of the page at which the cell of slot number `index` begins; 0 if the slot is not in use.
pub(super) fn offset_in(word: u64, index: usize) -> u64 {
    offset_of(slot_in(word, index))
}

/// Returns the number of slots of a word that are in use.
pub(super) fn count(word: u64) -> usize {
    EACH - word.leading_zeros() as usize / 16
}

/// Returns a word with one more slot. The last slot of a full word is dropped.
pub(super) fn inserted(word: u64, index: usize, slot: u64) -> u64 {
    let below = (1 << (16 * index)) - 1;
    word & below | slot << (16 * index) | (word & !below) << 16
}

/// Returns a word with one slot less.
pub(super) fn removed(word: u64, index: usize) -> u64 {
    let below = (1 << (16 * index)) - 1;
    word & below | word >> 16 & !below
}

/// Inserts a slot before slot number `index` of word number `at`, if that word or one beside it has a free slot. Returns whether it did.
pub(super) fn insert_near(words: &mut [u64], at: usize, index: usize, slot: u64) -> bool {
    let word = words[at];
    if count(word) < EACH {
        words[at] = inserted(word, index, slot);
    } else if let Some(&next) = words.get(at + 1)
        && count(next) < EACH
    {
        let last = if index == EACH { slot } else { slot_in(word, EACH - 1) };
        words[at + 1] = inserted(next, 0, last);
        words[at] = if index == EACH { word } else { inserted(word, index, slot) };
    } else if at > 0 && count(words[at - 1]) < EACH {
        let before = words[at - 1];
        let first = if index == 0 { slot } else { slot_in(word, 0) };
        words[at - 1] = inserted(before, count(before), first);
        words[at] = if index == 0 { word } else { inserted(removed(word, 0), index - 1, slot) };
    } else {
        return false;
    }
    true
}

/// Replaces the contents of `offsets` by the words at which the cells of these slot words begin, in order.
pub(super) fn put_offsets(slots: &[u64], offsets: &mut Vec<u64>) {
    offsets.resize(EACH * slots.len(), 0);
    let mut count = 0;
    for &word in slots {
        // All four in any case: it takes longer to branch on their number.
        let Some(next) = offsets[count..].first_chunk_mut::<EACH>() else { break };
        *next = std::array::from_fn(|index| offset_in(word, index));
        count += self::count(word);
    }
    offsets.truncate(count);
}

impl Slots {
    /// Returns slot words for these slots, with some room in each.
    pub fn of(slots: &[u64]) -> Self {
        let word = |slots: &[u64]| slots.iter().rev().fold(0, |word, &slot| word << 16 | slot);
        Self(slots.chunks(FILLED).map(word).collect())
    }

    /// Returns the number of words that [`Slots::of`] takes for `cells` cells.
    pub fn words_of(cells: usize) -> usize {
        cells.div_ceil(FILLED)
    }

    /// Returns the slots in order.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.0
            .iter()
            .flat_map(|&word| (0..EACH).map(move |index| slot_in(word, index)))
            .filter(|&slot| slot != 0)
    }

    /// Returns the words at which the cells begin, in order.
    pub fn offsets(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.slots().map(offset_of)
    }

    /// Sets the heads of the keys, one for each slot.
    pub fn set_heads(&mut self, heads: &[u64]) {
        let mut heads = heads.iter();
        for word in &mut self.0 {
            for index in 0..count(*word) {
                let head = heads.next().copied().unwrap_or_default();
                let old = slot_in(*word, index);
                *word ^= (old ^ slot(head, offset_of(old))) << (16 * index);
            }
        }
    }

    /// Returns the words at which the cells with these numbers begin.
    pub fn offsets_of(&self, numbers: Range<usize>) -> Vec<u64> {
        let mut offsets = Vec::new();
        put_offsets(&self.0, &mut offsets);
        offsets.truncate(numbers.end);
        offsets.drain(..numbers.start.min(offsets.len()));
        offsets
    }

    /// Returns the number of cells before `place`.
    pub fn index(&self, place: Place) -> usize {
        let before = self.0.iter().take(usize::from(place.word));
        before.map(|&word| count(word)).sum::<usize>() + usize::from(place.index)
    }

    /// Returns the place that has `index` cells before it. Between two words, this is the end of the first one if it has room.
    pub fn place(&self, mut index: usize) -> Place {
        let last = self.0.len().saturating_sub(1);
        for (number, &word) in self.0.iter().enumerate() {
            let count = count(word);
            if index < count || index == count && (count < EACH || number == last) {
                return Place { word: number as u16, index: index as u8 };
            }
            index -= count;
        }
        Place { word: 0, index: 0 }
    }

    /// Returns the place of the cell with this number.
    pub fn number(&self, mut number: usize) -> Place {
        for (at, &word) in self.0.iter().enumerate() {
            let count = count(word);
            if number < count {
                return Place { word: at as u16, index: number as u8 };
            }
            number -= count;
        }
        Place { word: self.0.len() as u16, index: 0 }
    }

    /// Returns the word at which the cell at `place` begins, if there is a cell at that place.
    pub fn at(&self, place: Place) -> Option<u64> {
        let word = *self.0.get(usize::from(place.word))?;
        Some(offset_in(word, usize::from(place.index))).filter(|&offset| offset != 0)
    }

    /// Inserts a slot at a place. One or two slot words change, or a new one is inserted and those behind it move.
    pub fn insert(&mut self, place: Place, slot: u64) {
        let (at, index) = (usize::from(place.word), usize::from(place.index));
        let words = &mut self.0;
        let Some(&word) = words.get(at) else {
            words.push(slot);
            return;
        };
        if insert_near(words, at, index, slot) {
            return;
        }
        if index == EACH {
            words.insert(at + 1, slot);
        } else {
            let last = slot_in(word, EACH - 1);
            let all = inserted(word, index, slot);
            let half = 1 << 32;
            words[at] = all % half;
            words.insert(at + 1, (all / half) | (last << 32));
        }
    }

    /// Removes the slot at a place. If its word has no other slot, the words behind it move.
    pub fn remove(&mut self, place: Place) {
        let at = usize::from(place.word);
        let word = removed(self.0[at], usize::from(place.index));
        self.0[at] = word;
        if word == 0 {
            self.0.remove(at);
        }
    }

    /// Removes the slots of the cells with these numbers. Words without other slots go too.
    pub fn remove_all(&mut self, numbers: Range<usize>) {
        let mut number = 0;
        for mut slots in std::mem::take(&mut self.0) {
            let (mut word, mut index) = (0, 0);
            while slots != 0 {
                if !numbers.contains(&number) {
                    word |= (slots & 0xffff) << (16 * index);
                    index += 1;
                }
                number += 1;
                slots >>= 16;
            }
            if word != 0 {
                self.0.push(word);
            }
        }
    }

    /// Returns whether every word has a slot in use, and no slot in use comes after a free one.
    pub fn is_sound(&self) -> bool {
        let is_dense = |word: u64| (0..count(word)).all(|index| offset_in(word, index) != 0);
        self.0.iter().all(|&word| word != 0 && is_dense(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_what_a_list_is() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let (mut slots, mut list) = (Slots::default(), Vec::new());
            for offset in 1..120 {
                let index = random.usize(..=list.len());
                slots.insert(slots.place(index), offset);
                list.insert(index, offset);
                if random.u8(..3) == 0 {
                    let index = random.usize(..list.len());
                    let place = slots.number(index);
                    assert_eq!(slots.at(place), Some(list[index]));
                    slots.remove(place);
                    list.remove(index);
                }
                assert!(slots.offsets().eq(list.iter().copied()) && slots.is_sound(), "{slots:x?} {list:?}");
                let index = random.usize(..=list.len());
                let mut rest = slots.clone();
                rest.remove_all(index..list.len().min(index + 9));
                assert!(rest.offsets().eq([&list[..index], &list[list.len().min(index + 9)..]].concat()));
                assert!(rest.is_sound(), "{rest:x?} {list:?}");
                assert_eq!(slots.index(slots.place(index)), index);
                assert_eq!(slots.offsets_of(index..usize::MAX), list[index..]);
                assert_eq!(slots.offsets_of(0..index), list[..index]);
            }
            assert_eq!(Slots::of(&list).0.len(), Slots::words_of(list.len()));
            assert!(Slots::of(&list).offsets().eq(list));
        }
    }
}
