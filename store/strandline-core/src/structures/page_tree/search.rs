//! The search for a key in a page.

use std::cmp::Ordering;

use super::cell::{Cell, KEY_OUTSIDE, key_words, stored_word, word_of};
use super::page::{HEAD, Page};
use super::slots::{EACH, Place, count, head_of, offset_in, offset_of, slot_in};
use crate::memory::{MappedWords, PersistentAddress};
use crate::transaction::plain::NOT_HERE;
use crate::transaction::{Abort, Read};

/// Up to this number of slot words, a search in a leaf prefetches the first cells of all of them together.
const FEW_SLOTS: u64 = 16;

/// The result of a search in a page.
pub(super) struct Found {
    /// The place of the key, or the place where it would be inserted.
    pub place: Place,
    is_here: bool,
    /// The cell of the key or, if the page does not have the key, the last cell before it; if there is none, its offset is 0.
    nearest: Cell,
}

impl Found {
    /// Returns the cell of the key, if the page has the key.
    pub fn cell(&self) -> Option<Cell> {
        self.is_here.then_some(self.nearest)
    }

    /// Returns the cell whose key is the one that was sought, or the last one before it, and its place; `None` if all are behind it.
    pub fn not_behind(&self) -> Option<(Place, Cell)> {
        let Place { word, index } = self.place;
        (self.nearest.offset != 0)
            .then_some((Place { word, index: index - u8::from(!self.is_here) }, self.nearest))
    }
}

/// A key to search for, with its first word.
pub(super) struct Sought<'k> {
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

    /// Fails because a slot of the page refers to a place without a cell.
    fn cell_outside(&mut self, page: &Page) -> Abort;
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
    fn cell_outside(&mut self, page: &Page) -> Abort {
        page.cell_outside(self.tx)
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
    fn cell_outside(&mut self, _: &Page) -> Abort {
        NOT_HERE
    }
}

impl Page {
    /// Searches for a key.
    pub fn search(&self, tx: &mut impl Read, key: &[u8]) -> Result<Found, Abort> {
        self.search_for(tx, &Sought::new(key))
    }

    /// Searches for a key.
    pub fn search_for(&self, tx: &mut impl Read, sought: &Sought<'_>) -> Result<Found, Abort> {
        // If the search in the mapped words fails, the other one reports why, or reads a key outside the page.
        if let Some(mut words) = tx.mapped_words(self.at, self.words)
            && let Ok(found) = self.search_in(&mut words, sought)
        {
            return Ok(found);
        }
        let mut words = Through { tx, page: self.at };
        // The transaction has probably written to this page. Rows are often added in order, and then no search is needed.
        match self.search_behind(&mut words, sought)? {
            None => self.search_in(&mut words, sought),
            Some(found) => Ok(found),
        }
    }

    /// Returns the end of the page if all its keys are before this one.
    fn search_behind(&self, words: &mut impl Words, sought: &Sought<'_>) -> Result<Option<Found>, Abort> {
        let Some(last) = self.slots.checked_sub(1) else { return Ok(None) };
        let [slots] = words.load(HEAD + last)?;
        let Some(index) = count(slots).checked_sub(1) else { return Ok(None) };
        let (nearest, order) = self.compare(words, slot_in(slots, index), sought)?;
        let place = Place { word: last as u16, index: index as u8 + 1 };
        Ok((order == Ordering::Less).then_some(Found { place, is_here: false, nearest }))
    }

    /// Searches first among the first cells of the slot words, and then in the cells of one slot word.
    fn search_in(&self, words: &mut impl Words, sought: &Sought<'_>) -> Result<Found, Abort> {
        let head = self.heads.head(sought.word(self.heads.word()));
        let (mut low, mut high) = self.words_around(words, head)?;
        if self.level == 0 && low < high && high - low <= FEW_SLOTS {
            // Without this, each step of the search would wait for another cache line.
            for number in low..high {
                let [slots] = words.load(HEAD + number)?;
                words.prefetch(offset_in(slots, 0));
            }
        }
        while low < high {
            let middle = (low + high) / 2;
            let [slots] = words.load(HEAD + middle)?;
            let (nearest, order) = self.compare(words, slot_in(slots, 0), sought)?;
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    let place = Place { word: middle as u16, index: 0 };
                    return Ok(Found { place, is_here: true, nearest });
                }
            }
        }
        if low == 0 || self.slots == 0 {
            return self.not_found(words, sought, Place { word: 0, index: 0 });
        }
        let number = low - 1;
        let [slots] = words.load(HEAD + number)?;
        if self.level == 0 && !self.heads.exist() {
            (1..EACH).for_each(|index| words.prefetch(offset_in(slots, index)));
        }
        let count = count(slots);
        let is_less = |index| usize::from((index < count) & (head_of(slot_in(slots, index)) < head));
        let mut index = 1 + is_less(1) + is_less(2) + is_less(3);
        while index < count && head_of(slot_in(slots, index)) == head {
            if self.level == 0 && self.heads.exist() {
                // Probably this is the key's cell, whose value will be read.
                (1..5).for_each(|line| words.prefetch(offset_in(slots, index) + 8 * line));
            }
            let (nearest, order) = self.compare(words, slot_in(slots, index), sought)?;
            match order {
                Ordering::Less => index += 1,
                Ordering::Greater => break,
                Ordering::Equal => {
                    let place = Place { word: number as u16, index: index as u8 };
                    return Ok(Found { place, is_here: true, nearest });
                }
            }
        }
        self.not_found(words, sought, Place { word: number as u16, index: index as u8 })
    }

    /// Returns the number of the slot words whose first keys' heads show that they are before a key with this head, and the number of those whose
    /// first keys may be before it.
    fn words_around(&self, words: &mut impl Words, head: u64) -> Result<(u64, u64), Abort> {
        // The first cell of an inner page has no key and is before all keys.
        let mut before = u64::from(self.level > 0);
        if !self.heads.exist() {
            return Ok((before, self.slots));
        }
        let mut size = self.slots.saturating_sub(before);
        while size > 0 {
            let half = size.div_ceil(2);
            let [slots] = words.load(HEAD + before + half - 1)?;
            if head_of(slot_in(slots, 0)) < head {
                before += half;
            }
            size -= half;
        }
        let mut after = before;
        while after < self.slots && head_of(slot_in(words.load::<1>(HEAD + after)?[0], 0)) == head {
            after += 1;
        }
        Ok((before, after))
    }

    /// Returns the result for a key that the page does not have. It belongs to this place if its bits before the heads are those of the other keys;
    /// otherwise these bits show that it is before or behind all of them.
    fn not_found(&self, words: &mut impl Words, sought: &Sought<'_>, place: Place) -> Result<Found, Abort> {
        let first = Place { word: 0, index: u8::from(self.level > 0) };
        let found = self.found_behind(words, place)?;
        if self.heads.number() <= 1 {
            return Ok(found);
        }
        let beside = if place == first { self.cell_at(words, place)? } else { Some(found.nearest) };
        let Some(beside) = beside else { return Ok(found) };
        let order = self.heads.compare_before(
            |number| sought.word(number),
            |number| match key_words(beside.head) > number as u64 {
                true => Ok(stored_word(words.load::<1>(beside.offset + 1 + number as u64)?[0])),
                false => Ok(0),
            },
        )?;
        match order {
            Ordering::Less => self.found_behind(words, first),
            Ordering::Equal => Ok(found),
            Ordering::Greater => {
                let last = self.slots - 1;
                let [slots] = words.load(HEAD + last)?;
                self.found_behind(words, Place { word: last as u16, index: count(slots) as u8 })
            }
        }
    }

    /// Returns the result for a key that the page does not have, and that belongs to this place.
    fn found_behind(&self, words: &mut impl Words, place: Place) -> Result<Found, Abort> {
        let nearest = match usize::from(place.index).checked_sub(1) {
            Some(before) => {
                let [slots] = words.load(HEAD + u64::from(place.word))?;
                self.cell_in(words, slot_in(slots, before))?
            }
            None => Cell { page: self.at, offset: 0, head: 0 },
        };
        Ok(Found { place, is_here: false, nearest })
    }

    /// Returns the first cell behind a place; `None` if there is none.
    fn cell_at(&self, words: &mut impl Words, place: Place) -> Result<Option<Cell>, Abort> {
        let (number, index) = (u64::from(place.word), usize::from(place.index));
        for (number, index) in [(number, index), (number + 1, 0)] {
            if number < self.slots && index < EACH {
                let slot = slot_in(words.load::<1>(HEAD + number)?[0], index);
                if slot != 0 {
                    return self.cell_in(words, slot).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Returns the cell of a slot.
    fn cell_in(&self, words: &mut impl Words, slot: u64) -> Result<Cell, Abort> {
        let offset = offset_of(slot);
        if offset < self.begin || offset + 2 > self.words {
            return Err(words.cell_outside(self));
        }
        let [head] = words.load(offset)?;
        Ok(Cell { page: self.at, offset, head })
    }

    /// Compares the key of the cell of a slot with the one that is sought. Returns the cell too.
    #[inline]
    fn compare(
        &self,
        words: &mut impl Words,
        slot: u64,
        sought: &Sought<'_>,
    ) -> Result<(Cell, Ordering), Abort> {
        let cell = self.cell_in(words, slot)?;
        let [first] = words.load(cell.offset + 1)?;
        let first = stored_word(first);
        if first != sought.first && cell.head & KEY_OUTSIDE == 0 {
            return Ok((cell, first.cmp(&sought.first)));
        }
        Ok((cell, sought.compare_more(words, cell)?))
    }
}

impl<'k> Sought<'k> {
    pub fn new(bytes: &'k [u8]) -> Self {
        Self { bytes, first: word_of(bytes, 0) }
    }

    /// Returns word `number` of the key.
    fn word(&self, number: usize) -> u64 {
        if number == 0 { self.first } else { word_of(self.bytes, number) }
    }

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
