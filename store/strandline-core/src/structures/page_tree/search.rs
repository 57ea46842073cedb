//! The search for a key in a page.

use std::cmp::Ordering;

use super::cell::{Cell, KEY_OUTSIDE, stored_word, word_of};
use super::page::{HEAD, Page};
use super::slots::{EACH, Place, count, offset_in};
use crate::memory::{MappedWords, PersistentAddress};
use crate::transaction::plain::NOT_HERE;
use crate::transaction::{Abort, Read};

/// Up to this number of slot words, a search in a leaf prefetches the first cells of all of them together.
const FEW_SLOTS: u64 = 16;

/// The result of a search: the place of a key in a page, or the place where it would be inserted.
pub(super) struct Found {
    pub place: Place,
    /// The cell of the key, if the page has the key.
    pub cell: Option<Cell>,
    /// The last cell before the key, if there is one.
    pub below: Option<Cell>,
}

/// A key to search for, with its first word.
struct Sought<'k> {
    bytes: &'k [u8],
    first: u64,
}

/// The words of a page that is searched.
trait Words {
    /// Returns `N` words from number `number` on.
    fn load<const N: usize>(&mut self, number: u64) -> Result<[u64; N], Abort>;

    /// Hints that word `number` will soon be read.
    fn prefetch(&self, number: u64);

    /// Compares the key of a cell, which is in a block of its own, with `key`.
    fn compare_outside(&mut self, cell: Cell, key: &[u8]) -> Result<Ordering, Abort>;
}

/// A page that is read word by word.
struct Through<'t, T> {
    tx: &'t mut T,
    page: PersistentAddress,
}

impl<T: Read> Words for Through<'_, T> {
    fn load<const N: usize>(&mut self, number: u64) -> Result<[u64; N], Abort> {
        self.tx.read_array(self.page.word(number))
    }
    fn prefetch(&self, number: u64) {
        self.tx.prefetch(self.page.word(number), 1);
    }
    fn compare_outside(&mut self, cell: Cell, key: &[u8]) -> Result<Ordering, Abort> {
        let mut own = Vec::new();
        cell.read_key(self.tx, &mut own)?;
        Ok(own.as_slice().cmp(key))
    }
}

impl Words for MappedWords<'_> {
    fn load<const N: usize>(&mut self, number: u64) -> Result<[u64; N], Abort> {
        MappedWords::load(self, number).ok_or(NOT_HERE)
    }
    fn prefetch(&self, number: u64) {
        MappedWords::prefetch(self, number);
    }
    fn compare_outside(&mut self, _: Cell, _: &[u8]) -> Result<Ordering, Abort> {
        Err(NOT_HERE)
    }
}

impl Page {
    /// Searches for a key.
    pub fn search(&self, tx: &mut impl Read, key: &[u8]) -> Result<Found, Abort> {
        let sought = Sought { bytes: key, first: word_of(key, 0) };
        // If the search in the mapped words fails, the other one reports why, or reads a key outside the page.
        if let Some(mut words) = tx.mapped_words(self.at, self.words)
            && let Ok(Some(found)) = self.search_in(&mut words, &sought)
        {
            return Ok(found);
        }
        let mut words = Through { tx, page: self.at };
        // The transaction has probably written to this page. Rows are often added in order, and then no search is needed.
        let found = match self.search_behind(&mut words, &sought)? {
            None => self.search_in(&mut words, &sought)?,
            found => found,
        };
        found.ok_or_else(|| self.cell_outside(tx))
    }

    /// Returns the end of the page if all its keys are before this one.
    fn search_behind(&self, words: &mut impl Words, sought: &Sought<'_>) -> Result<Option<Found>, Abort> {
        let Some(last) = self.slots.checked_sub(1) else { return Ok(None) };
        let [slots] = words.load(HEAD + last)?;
        let Some(index) = count(slots).checked_sub(1) else { return Ok(None) };
        let offset = offset_in(slots, index);
        let Some((head, Ordering::Less)) = self.compare(words, offset, sought)? else { return Ok(None) };
        let cell = Cell { page: self.at, offset, head };
        let place = Place { word: last as u16, index: index as u8 + 1 };
        Ok(Some(Found { place, cell: None, below: Some(cell) }))
    }

    /// Returns whether a cell that begins at this word has its first two words in the page.
    fn is_inside(&self, offset: u64) -> bool {
        offset >= self.begin && offset + 2 <= self.words
    }

    /// Searches first among the first cells of the slot words, and then in the cells of one slot word. Returns `None` at a slot that refers to
    /// no cell in the page.
    fn search_in(&self, words: &mut impl Words, sought: &Sought<'_>) -> Result<Option<Found>, Abort> {
        if self.level == 0 && self.slots <= FEW_SLOTS {
            // Without this, each step of the search would wait for another cache line.
            for number in 0..self.slots {
                let [slots] = words.load(HEAD + number)?;
                words.prefetch(offset_in(slots, 0));
            }
        }
        let (mut low, mut high) = (0, self.slots);
        // The last slot word whose first cell is known to be before the key, and the first word of its last such cell.
        let (mut word, mut head) = (0, 0);
        while low < high {
            let middle = (low + high) / 2;
            let [slots] = words.load(HEAD + middle)?;
            let Some((first, order)) = self.compare(words, offset_in(slots, 0), sought)? else {
                return Ok(None);
            };
            match order {
                Ordering::Less => (low, word, head) = (middle + 1, slots, first),
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    let cell = Cell { page: self.at, offset: offset_in(slots, 0), head: first };
                    let place = Place { word: middle as u16, index: 0 };
                    return Ok(Some(Found { place, cell: Some(cell), below: None }));
                }
            }
        }
        let Some(number) = low.checked_sub(1) else {
            return Ok(Some(Found { place: Place { word: 0, index: 0 }, cell: None, below: None }));
        };
        if self.level == 0 {
            (1..EACH).for_each(|index| words.prefetch(offset_in(word, index)));
        }
        let (mut below, mut index) = (0, 1);
        let mut found = None;
        while index < EACH && offset_in(word, index) != 0 {
            let Some((first, order)) = self.compare(words, offset_in(word, index), sought)? else {
                return Ok(None);
            };
            match order {
                Ordering::Less => (below, head) = (index, first),
                Ordering::Equal => {
                    found = Some(Cell { page: self.at, offset: offset_in(word, index), head: first });
                    break;
                }
                Ordering::Greater => break,
            }
            index += 1;
        }
        let below = Cell { page: self.at, offset: offset_in(word, below), head };
        let place = Place { word: number as u16, index: index as u8 };
        Ok(Some(Found { place, cell: found, below: Some(below) }))
    }

    /// Compares the key of the cell that begins at word `offset` with the one that is sought. Returns the first word of the cell too, or `None` if
    /// no cell of the page can begin there.
    #[inline]
    fn compare(
        &self,
        words: &mut impl Words,
        offset: u64,
        sought: &Sought<'_>,
    ) -> Result<Option<(u64, Ordering)>, Abort> {
        if !self.is_inside(offset) {
            return Ok(None);
        }
        let [head, first] = words.load(offset)?;
        let first = stored_word(first);
        if first != sought.first && head & KEY_OUTSIDE == 0 {
            return Ok(Some((head, first.cmp(&sought.first))));
        }
        let cell = Cell { page: self.at, offset, head };
        Ok(Some((head, sought.compare_more(words, cell)?)))
    }
}

impl Sought<'_> {
    /// Compares the keys' other words, if the first ones are equal, or the whole keys, if the cell's is outside the page.
    fn compare_more(&self, words: &mut impl Words, cell: Cell) -> Result<Ordering, Abort> {
        if cell.is_key_outside() {
            return words.compare_outside(cell, self.bytes);
        }
        let bytes = cell.key_bytes() as usize;
        for depth in 1..bytes.min(self.bytes.len()).div_ceil(8) {
            let [word] = words.load(cell.offset + 1 + depth as u64)?;
            let order = stored_word(word).cmp(&word_of(self.bytes, depth));
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(bytes.cmp(&self.bytes.len()))
    }
}
