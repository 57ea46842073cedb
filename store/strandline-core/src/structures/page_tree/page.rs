//! A page: its head, and the functions that change it.

use std::ops::Range;

use super::cell::{self, Cell, CellWords, key_word};
use super::heads::Heads;
use super::slots::{
    EACH, MOST, Place, Slots, count, head_of, insert_near, offset_in, offset_of, removed, slot,
};
use super::{KIND, MAX_LEVELS};
use crate::memory::PersistentAddress;
use crate::structures::bytes::{read_few, rewrite};
use crate::structures::with_buffer;
use crate::transaction::{Abort, Read, Transaction};

const MAGIC: u64 = 0x5b_1e_9a_6e;
/// The number of words in the largest page.
const MOST_WORDS: usize = 512;
/// The number of words in the smallest cell: its head, and a key.
const LEAST_CELL: u64 = 2;
/// The number of words before the slots.
pub(super) const HEAD: u64 = 2;

/// Returns the number of words in the largest cell of a page of `page_words` words. Every page has room for four such cells.
pub(super) const fn most_cell_words(page_words: u64) -> u64 {
    (page_words - HEAD) / 4 - 1
}

/// The decoded head of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub at: PersistentAddress,
    pub words: u64,
    pub level: u64,
    /// The number of slot words.
    pub slots: u64,
    /// The first word that a cell occupies.
    pub begin: u64,
    /// The number of words behind `begin` that no cell occupies.
    garbage: u64,
    pub cells: u64,
    pub heads: Heads,
}

impl Page {
    /// No page, for [`Page::go_to`].
    pub const NONE: Self = Self {
        at: PersistentAddress::new(0),
        words: 0,
        level: 0,
        slots: 0,
        begin: 0,
        garbage: 0,
        cells: 0,
        heads: Heads::NONE,
    };

    /// Loads the head of the page at `at`, which must be on `level` if that is given. The head is the guard of the whole page.
    pub fn load(tx: &mut impl Read, at: PersistentAddress, level: Option<u64>) -> Result<Self, Abort> {
        let mut page = Self::NONE;
        page.go_to(tx, at, level)?;
        Ok(page)
    }

    /// Like [`Page::load`], but puts the head here: to return as much takes longer than to load it.
    pub fn go_to(
        &mut self,
        tx: &mut impl Read,
        at: PersistentAddress,
        level: Option<u64>,
    ) -> Result<(), Abort> {
        tx.guard(at)?;
        let [head, counts] = tx.read_array(at)?;
        let part = |number: u64| counts >> (16 * number) & 0xffff;
        *self = Self {
            at,
            words: head >> 8 & 0xffff,
            level: head & 0xff,
            slots: part(0),
            begin: part(1),
            garbage: part(2),
            cells: part(3),
            heads: Heads::of_number(head >> 56),
        };
        let is_page = head >> 24 & 0xffff_ffff == MAGIC;
        if !is_page || level.is_some_and(|level| level != self.level) || !self.is_possible() {
            return Err(KIND.damaged(tx, at, "something that is not a page, or one on the wrong level"));
        }
        Ok(())
    }

    fn is_possible(&self) -> bool {
        (self.level as usize) < MAX_LEVELS
            && self.words <= MOST_WORDS as u64
            && self.slots <= MOST as u64
            && HEAD + self.slots <= self.begin
            && self.begin <= self.words
            && self.garbage <= self.words - self.begin
            && self.slots <= self.cells
            && self.cells <= EACH as u64 * self.slots
            && LEAST_CELL * self.cells <= self.used()
            && (self.cells > 0 || self.used() == 0)
            && self.heads.are_possible()
    }

    fn head(&self) -> u64 {
        self.heads.number() << 56 | MAGIC << 24 | self.words << 8 | self.level
    }

    fn counts(&self) -> u64 {
        self.slots | self.begin << 16 | self.garbage << 32 | self.cells << 48
    }

    /// Creates a page with these cells.
    pub fn create(
        tx: &mut impl Transaction,
        words: u64,
        level: u64,
        cells: &[CellWords],
    ) -> Result<PersistentAddress, Abort> {
        let at = tx.alloc(8 * words)?;
        Self::write(tx, at, (words, level), cells.iter().map(|cell| cell.len()), &cells.concat())?;
        Ok(at)
    }

    /// Writes a page with these cells at `at`. `lengths` has the number of words in each, and `all` their words.
    pub fn write(
        tx: &mut impl Transaction,
        at: PersistentAddress,
        (words, level): (u64, u64),
        lengths: impl Iterator<Item = usize>,
        all: &[u64],
    ) -> Result<(), Abort> {
        let begin = words.saturating_sub(all.len() as u64);
        let mut offset = begin;
        let mut offsets = Vec::new();
        for length in lengths {
            offsets.push(offset);
            offset += length as u64;
        }
        if !Self::holds(words, offsets.len(), all.len() as u64) {
            return Err(KIND.damaged(tx, at, "more cells than it has room for"));
        }
        let mut slots = Slots::of(&offsets);
        let heads = Heads::NONE.chosen(level, &mut slots, |offset, number| {
            Ok(key_word(&all[(offset - begin) as usize..], number))
        })?;
        let page = Self {
            at,
            words,
            level,
            slots: slots.0.len() as u64,
            begin,
            garbage: 0,
            cells: offsets.len() as u64,
            heads,
        };
        tx.write_range(at, &[page.head(), page.counts()])?;
        tx.write_range(at.word(HEAD), &slots.0)?;
        tx.write_range(at.word(begin), all)
    }

    /// Returns the number of words that cells occupy.
    pub fn used(&self) -> u64 {
        self.words - self.begin - self.garbage
    }

    /// Returns the number of free words, including garbage.
    pub fn room(&self) -> u64 {
        self.begin - HEAD - self.slots + self.garbage
    }

    /// Returns the number of words between slots and cells, less the one that a new slot may need; `None` if that has no room.
    fn between(&self) -> Option<u64> {
        (self.begin - HEAD - self.slots).checked_sub(1)
    }

    /// Returns the number of the word at which a cell of `cell` words can be put: between slots and cells, or in the garbage. `slots` are the
    /// slot words.
    fn room_for(&self, tx: &mut impl Read, slots: &[u64], cell: u64) -> Result<Option<u64>, Abort> {
        match self.between() {
            Some(between) if between >= cell => Ok(Some(self.begin - cell)),
            Some(_) if self.garbage >= cell => self.gap(tx, slots, cell),
            _ => Ok(None),
        }
    }

    /// Returns whether there is room for a cell of `cell` words, or would be after compaction.
    pub fn has_room_for(&self, tx: &mut impl Read, slots: &Slots, cell: usize) -> Result<bool, Abort> {
        let would_have = Self::holds(self.words, self.cells as usize + 1, self.used() + cell as u64);
        Ok(would_have || self.room_for(tx, &slots.0, cell as u64)?.is_some())
    }

    /// Returns the first gap of `words` words among the cells. Reads the sizes only of cells that begin far enough before the next one, so in a
    /// damaged page, where a cell may reach beyond the next one, the gap may overlap a cell.
    fn gap(&self, tx: &mut impl Read, slots: &[u64], words: u64) -> Result<Option<u64>, Abort> {
        let mut begins = [0_u64; MOST_WORDS / 64];
        for &(mut word) in slots {
            while word != 0 {
                let offset = offset_of(word & 0xffff);
                if offset >= self.words {
                    return Err(self.cell_outside(tx));
                }
                begins[offset as usize / 64] |= 1 << (offset % 64);
                word >>= 16;
            }
        }
        // The number of the first word of the cell before a possible gap, and the least number of a word behind that cell. Before the first cell
        // there may be a gap from `begin` on.
        let (mut last, mut end) = (None, self.begin);
        for (number, mut bits) in (0..).zip(begins).chain([(self.words / 64, 1 << (self.words % 64))]) {
            while bits != 0 {
                let next = 64 * number + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                if next.saturating_sub(end) >= words {
                    let free = match last {
                        Some(cell) => cell + self.cell(tx, cell)?.words(),
                        None => end,
                    };
                    if next.saturating_sub(free) >= words {
                        return Ok(Some(free));
                    }
                }
                (last, end) = (Some(next), next + LEAST_CELL);
            }
        }
        Ok(None)
    }

    /// Returns whether a page of `words` words has room for `cells` cells that occupy `used` words.
    pub fn holds(words: u64, cells: usize, used: u64) -> bool {
        HEAD + Slots::words_of(cells) as u64 + used <= words
    }

    /// Returns the slots of the page, which has these words.
    pub fn slots_in(&self, words: &[u64]) -> Slots {
        let slots = words.iter().skip(HEAD as usize).take(self.slots as usize);
        Slots(slots.copied().collect())
    }

    pub fn slots(&self, tx: &mut impl Read) -> Result<Slots, Abort> {
        let mut slots = Slots::default();
        self.read_slots(tx, &mut slots)?;
        Ok(slots)
    }

    /// Like [`Page::slots`], but reads into `slots`, which are empty: to return as many words takes longer than to read them.
    pub fn read_slots(&self, tx: &mut impl Read, slots: &mut Slots) -> Result<(), Abort> {
        for _ in 0..self.slots {
            slots.0.push(0);
        }
        tx.read_range(self.at.word(HEAD), &mut slots.0)
    }

    /// Returns the cell that begins at word `offset`.
    pub fn cell(&self, tx: &mut impl Read, offset: u64) -> Result<Cell, Abort> {
        let head = tx.read(self.at.word(offset))?;
        if offset < self.begin || offset + cell::words(head) > self.words {
            return Err(self.cell_outside(tx));
        }
        Ok(Cell { page: self.at, offset, head })
    }

    /// Fails because a slot of the page refers to a place without a cell.
    #[cold]
    pub fn cell_outside(&self, tx: &mut impl Read) -> Abort {
        KIND.damaged(tx, self.at, "a cell outside of its page")
    }

    /// Writes the counts of the page, and the slots that have changed. Chooses the heads again if that is necessary or worth it.
    fn store(&mut self, tx: &mut impl Transaction, slots: &mut Slots) -> Result<(), Abort> {
        let page = *self;
        let heads = self
            .heads
            .chosen(self.level, slots, |offset, number| page.cell(tx, offset)?.key_word(tx, number))?;
        self.set_heads(tx, heads)?;
        self.slots = slots.0.len() as u64;
        rewrite(tx, self.at.word(HEAD), &slots.0)?;
        self.store_counts(tx)
    }

    fn set_heads(&mut self, tx: &mut impl Transaction, heads: Heads) -> Result<(), Abort> {
        if heads == self.heads {
            return Ok(());
        }
        self.heads = heads;
        tx.write(self.at, self.head())
    }

    /// Writes the counts of the page, even if they have not changed: their line is the guard of the page.
    pub fn store_counts(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        tx.write(self.at.word(1), self.counts())
    }

    /// Adds a cell at a place, if the page has room for it without compaction, and if the place's slot word or a neighbouring one has a free slot.
    /// Writes at most two slot words. Returns whether it did.
    pub fn put_alone(
        &mut self,
        tx: &mut impl Transaction,
        place: Place,
        cell: &[u64],
    ) -> Result<bool, Abort> {
        let at = u64::from(place.word);
        if at >= self.slots {
            return Ok(false);
        }
        let first = at.saturating_sub(1);
        let mut old = [0; 3];
        let old = &mut old[..(self.slots - first).min(at - first + 2) as usize];
        let first_at = self.at.word(HEAD + first);
        read_few(tx, first_at, old)?;
        if old.iter().all(|&word| count(word) == EACH) {
            return Ok(false);
        }
        let words = cell.len() as u64;
        let offset = if self.begin - HEAD - self.slots >= words {
            Some(self.begin - words)
        } else if self.garbage >= words {
            with_buffer(self.slots, |slots| {
                tx.read_range(self.at.word(HEAD), slots)?;
                self.gap(tx, slots, words)
            })?
        } else {
            None
        };
        let Some(offset) = offset else { return Ok(false) };
        let Some(slot) = self.heads.slot(cell, offset) else { return Ok(false) };
        let (middle, index) = ((at - first) as usize, usize::from(place.index));
        if self.heads.exist() && !self.has_place_for(tx, (old, middle, at), index, cell)? {
            return Ok(false);
        }
        let mut new = [0; 3];
        let new = &mut new[..old.len()];
        new.copy_from_slice(old);
        if !insert_near(new, middle, index, slot) {
            return Ok(false);
        }
        KIND.check_block(tx, self.at, self.words)?;
        self.write_cell(tx, offset, cell)?;
        for ((word, old), new) in (0..).zip(old).zip(new) {
            if old != new {
                tx.write(first_at.word(word), *new)?;
            }
        }
        self.store_counts(tx)?;
        Ok(true)
    }

    /// Returns whether the page's heads suit the key of a new cell, which belongs before slot number `index` of word number `middle` of `words`. That is
    /// slot word number `at` of the page. Between two keys every key has the bits that these have in common.
    fn has_place_for(
        &self,
        tx: &mut impl Read,
        (words, middle, at): (&[u64], usize, u64),
        index: usize,
        cell: &[u64],
    ) -> Result<bool, Abort> {
        let unkeyed = usize::from(self.level > 0);
        let is_first = at == 0 && index == unkeyed;
        let is_last = at + 1 == self.slots && index == count(words[middle]);
        let neighbor = match (is_first, is_last) {
            (false, false) => return Ok(true),
            (true, _) => offset_in(words[middle], index),
            (false, true) => index.checked_sub(1).map_or(0, |last| offset_in(words[middle], last)),
        };
        if neighbor == 0 {
            return Ok(false);
        }
        let neighbor = self.cell(tx, neighbor)?;
        let order = self.heads.compare_before(
            |number| key_word(cell, number).unwrap_or_default(),
            |number| Ok(neighbor.key_word(tx, number)?.unwrap_or_default()),
        )?;
        Ok(order.is_eq())
    }

    /// Removes the cell at a place. Returns the place before which its key belongs now.
    pub fn remove_alone(&mut self, tx: &mut impl Transaction, place: Place) -> Result<Place, Abort> {
        let at = self.slot_word(place);
        let word = tx.read(at)?;
        let rest = removed(word, usize::from(place.index));
        if rest != 0 {
            KIND.check_block(tx, self.at, self.words)?;
            let cell = self.cell(tx, offset_in(word, usize::from(place.index)))?;
            self.count_removed(tx, cell.offset, cell.words())?;
            tx.write(at, rest)?;
            self.store_counts(tx)?;
            return Ok(place);
        }
        // The slot word goes too.
        let mut slots = self.slots(tx)?;
        let index = slots.index(place);
        self.remove(tx, &mut slots, place)?;
        Ok(slots.place(index))
    }

    /// Returns whether no cell is at `place` or behind it.
    pub fn is_end(&self, tx: &mut impl Read, place: Place) -> Result<bool, Abort> {
        let (word, index) = (u64::from(place.word), usize::from(place.index));
        if word + 1 < self.slots {
            return Ok(false);
        }
        Ok(word >= self.slots || index == EACH || offset_in(tx.read(self.slot_word(place))?, index) == 0)
    }

    /// Returns the address of the slot word of a place.
    fn slot_word(&self, place: Place) -> PersistentAddress {
        self.at.word(HEAD + u64::from(place.word))
    }

    /// Writes the words of a new cell at `offset`.
    fn write_cell(&mut self, tx: &mut impl Transaction, offset: u64, cell: &[u64]) -> Result<(), Abort> {
        if offset < self.begin {
            self.begin = offset;
        } else {
            self.garbage -= cell.len() as u64;
        }
        self.cells += 1;
        tx.write_range(self.at.word(offset), cell)
    }

    /// Adds cells before cell number `index`, and compacts the page if they have no room otherwise.
    pub fn put_all(
        &mut self,
        tx: &mut impl Transaction,
        slots: &mut Slots,
        index: usize,
        cells: &[CellWords],
    ) -> Result<(), Abort> {
        KIND.check_block(tx, self.at, self.words)?;
        if slots.offsets().count() as u64 != self.cells {
            return Err(KIND.damaged(tx, self.at, "another number of cells than it counts"));
        }
        if self.heads.exist() && cells.iter().any(|cell| self.heads.slot(cell, 0).is_none()) {
            slots.set_heads(&[]);
            self.set_heads(tx, Heads::NONE)?;
        }
        let mut put = 0;
        while let Some(cell) = cells.get(put)
            && let Some(offset) = self.room_for(tx, &slots.0, cell.len() as u64)?
        {
            self.write_cell(tx, offset, cell)?;
            slots.insert(slots.place(index + put), self.heads.slot(cell, offset).unwrap_or(offset));
            self.slots = slots.0.len() as u64;
            put += 1;
        }
        if put == cells.len() {
            return self.store(tx, slots);
        }
        let (index, cells) = (index + put, &cells[put..]);
        let words: usize = cells.iter().map(|cell| cell.len()).sum();
        let all = Slots::words_of(self.cells as usize + cells.len());
        if self.begin < HEAD + (all + words) as u64 {
            self.compact(tx, slots)?;
        }
        if self.begin < HEAD + (all + words) as u64 {
            return Err(KIND.damaged(tx, self.at, "a page without room"));
        }
        let mut all: Vec<u64> = slots.slots().collect();
        for (index, cell) in (index..).zip(cells) {
            let offset = self.begin - cell.len() as u64;
            self.write_cell(tx, offset, cell)?;
            all.insert(index, self.heads.slot(cell, offset).unwrap_or(offset));
        }
        *slots = Slots::of(&all);
        self.store(tx, slots)
    }

    /// Compacts the page: moves its cells to its end, without gaps.
    pub fn compact(&mut self, tx: &mut impl Transaction, slots: &mut Slots) -> Result<(), Abort> {
        KIND.check_block(tx, self.at, self.words)?;
        let mut all = Vec::with_capacity(self.used() as usize);
        let mut begins = Vec::with_capacity(self.cells as usize);
        for old in slots.slots() {
            let cell = self.cell(tx, offset_of(old))?;
            let begin = all.len();
            begins.push(slot(head_of(old), begin as u64));
            all.resize(begin + cell.words() as usize, 0);
            tx.read_range(cell.at(), &mut all[begin..])?;
        }
        if !Self::holds(self.words, begins.len(), all.len() as u64) {
            return Err(KIND.damaged(tx, self.at, "more cells than it has room for"));
        }
        (self.begin, self.garbage) = (self.words - all.len() as u64, 0);
        // The offsets stay less than the number of words in the page.
        begins.iter_mut().for_each(|slot| *slot += self.begin);
        *slots = Slots::of(&begins);
        rewrite(tx, self.at.word(self.begin), &all)?;
        self.store(tx, slots)
    }

    /// Replaces child number `number` of an inner page by the page at `child`.
    pub fn replace_child(
        &self,
        tx: &mut impl Transaction,
        slots: &Slots,
        number: usize,
        child: PersistentAddress,
    ) -> Result<(), Abort> {
        KIND.check_block(tx, self.at, self.words)?;
        let Some(offset) = slots.at(slots.number(number)) else {
            return Err(KIND.damaged(tx, self.at, "a child that is gone"));
        };
        let cell = self.cell(tx, offset)?;
        tx.write(cell.child_at(), child.offset())?;
        self.store_counts(tx)
    }

    /// Overwrites a cell of the page with one that is not larger.
    pub fn overwrite(&mut self, tx: &mut impl Transaction, old: Cell, new: &CellWords) -> Result<(), Abort> {
        KIND.check_block(tx, self.at, self.words)?;
        let Some(rest) = old.words().checked_sub(new.len() as u64) else {
            return Err(KIND.damaged(tx, self.at, "a cell that is too small"));
        };
        tx.write_range(old.at(), new)?;
        self.garbage += rest;
        self.store_counts(tx)
    }

    /// Removes the slot of the cell at a place, and counts the cell's words as garbage. The caller stores the page.
    fn forget(&mut self, tx: &mut impl Read, slots: &mut Slots, place: Place) -> Result<(), Abort> {
        let Some(offset) = slots.at(place) else {
            return Err(KIND.damaged(tx, self.at, "a slot that is gone"));
        };
        let words = self.cell(tx, offset)?.words();
        slots.remove(place);
        self.count_removed(tx, offset, words)?;
        self.note_empty(slots);
        Ok(())
    }

    /// Counts all words as free if the page has no cells any more.
    fn note_empty(&mut self, slots: &Slots) {
        if slots.0.is_empty() {
            (self.begin, self.garbage, self.cells) = (self.words, 0, 0);
        }
    }

    /// Counts a cell of `words` words at `offset` as removed.
    fn count_removed(&mut self, tx: &mut impl Read, offset: u64, words: u64) -> Result<(), Abort> {
        self.cells = self.cells.saturating_sub(1);
        if offset == self.begin {
            self.begin += words;
        } else {
            self.garbage += words;
        }
        if self.garbage > self.words - self.begin {
            return Err(KIND.damaged(tx, self.at, "more garbage than there is room for"));
        }
        Ok(())
    }

    /// Removes the cell at a place.
    pub fn remove(
        &mut self,
        tx: &mut impl Transaction,
        slots: &mut Slots,
        place: Place,
    ) -> Result<(), Abort> {
        KIND.check_block(tx, self.at, self.words)?;
        self.forget(tx, slots, place)?;
        self.store(tx, slots)
    }

    /// Removes the cells with these numbers; returns their words.
    pub fn take(
        &mut self,
        tx: &mut impl Transaction,
        slots: &mut Slots,
        numbers: Range<usize>,
    ) -> Result<Vec<CellWords>, Abort> {
        KIND.check_block(tx, self.at, self.words)?;
        let mut taken = Vec::with_capacity(numbers.len());
        for offset in slots.offsets_of(numbers.clone()) {
            let cell = self.cell(tx, offset)?.load(tx)?;
            self.count_removed(tx, offset, cell.len() as u64)?;
            taken.push(cell);
        }
        if taken.len() != numbers.len() {
            return Err(KIND.damaged(tx, self.at, "a gap among its slots"));
        }
        slots.remove_all(numbers);
        self.note_empty(slots);
        self.store(tx, slots)?;
        Ok(taken)
    }
}
