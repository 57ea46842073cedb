//! The heads of a page's keys: a few bits of each, in the slot of its cell.
//!
//! All keys of a page have their first bits in common, except that the first key of an inner page is empty. The bits that follow are a key's *head*. Heads have
//! the order of the keys, and most of them differ, so that a search reads few cells besides the one that it looks for.
//!
//! A page has no heads if it has few keys, if one of them is outside, or if too many of their bits are the same. Its slots are then as if they were zero.

use std::cmp::Ordering;

use super::cell::key_word;
use super::slots::{HEAD_BITS, Slots, slot};
use crate::transaction::Abort;

/// The number of words of a key in which its head may be.
const WORDS: usize = 3;
/// The heads of a page are chosen again when more than this number of further bits are common to its keys.
const WORTH: u64 = 2;

/// Where the heads of a page are in its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heads {
    /// One more than the number of bits before each head; 0 if the page has none.
    number: u64,
}

impl Heads {
    /// Those of a page that has none.
    pub const NONE: Self = Self { number: 0 };

    /// Returns the heads with this number, which the head of a page has.
    pub fn of_number(number: u64) -> Self {
        Self { number }
    }

    pub fn are_possible(self) -> bool {
        self.number <= 64 * WORDS as u64
    }

    pub fn number(self) -> u64 {
        self.number
    }

    /// Returns whether the page has heads.
    pub fn exist(self) -> bool {
        self.number > 0
    }

    /// Returns the number of the word of a key in which its head is, and the number of bits before it in that word.
    fn place(self) -> (usize, u64) {
        let before = self.number.saturating_sub(1);
        ((before / 64) as usize, before % 64)
    }

    /// Returns the number of the word of a key in which its head is.
    pub fn word(self) -> usize {
        self.place().0
    }

    /// Returns the head of the key of which this is word number [`Heads::word`].
    pub fn head(self, word: u64) -> u64 {
        if self.exist() { word << self.place().1 >> (64 - HEAD_BITS) } else { 0 }
    }

    /// Returns the slot of a cell with these words that begins at word `offset`; `None` if the page has heads, but the cell's key is outside.
    pub fn slot(self, cell: &[u64], offset: u64) -> Option<u64> {
        let word = if self.exist() { key_word(cell, self.word())? } else { 0 };
        Some(slot(self.head(word), offset))
    }

    /// Compares the bits of two keys that are before their heads. The functions return words of the keys.
    pub fn compare_before(
        self,
        one: impl Fn(usize) -> u64,
        mut other: impl FnMut(usize) -> Result<u64, Abort>,
    ) -> Result<Ordering, Abort> {
        let (last, before) = self.place();
        for number in 0..=last {
            let unused = if number < last { 0 } else { 64 - before as u32 };
            let part = |word: u64| word.checked_shr(unused).unwrap_or(0);
            let order = part(one(number)).cmp(&part(other(number)?));
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(Ordering::Equal)
    }

    /// Returns the heads of a page on `level` that had these, and may have got and lost cells since. Changes the slots if these are others. `word_of`
    /// returns a word of the key of the cell that begins at an offset; `None` if the key is outside.
    pub fn chosen(
        self,
        level: u64,
        slots: &mut Slots,
        mut word_of: impl FnMut(u64, usize) -> Result<Option<u64>, Abort>,
    ) -> Result<Self, Abort> {
        let unkeyed = usize::from(level > 0);
        let ends = (slots.offsets().nth(unkeyed), slots.offsets().next_back());
        let mut best = Self::NONE;
        if let (Some(first), Some(last)) = ends {
            for number in 0..WORDS {
                let (Some(first), Some(last)) = (word_of(first, number)?, word_of(last, number)?) else {
                    break;
                };
                if first != last {
                    let before = u64::from((first ^ last).leading_zeros()).min(64 - HEAD_BITS);
                    best.number = 64 * number as u64 + before + 1;
                    break;
                }
            }
        }
        let is_good =
            self == best || self.exist() && (self.number..=self.number + WORTH).contains(&best.number);
        if is_good {
            return Ok(self);
        }
        let offsets: Vec<u64> = slots.offsets().collect();
        let mut heads = vec![0; offsets.len()];
        for (head, &offset) in heads.iter_mut().zip(&offsets).skip(unkeyed) {
            match word_of(offset, best.word())? {
                Some(word) => *head = best.head(word),
                None => best = Self::NONE,
            }
        }
        if !best.exist() {
            heads.fill(0);
        }
        slots.set_heads(&heads);
        Ok(best)
    }
}
