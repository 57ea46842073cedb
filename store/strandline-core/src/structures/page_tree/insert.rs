//! Insertion, and how a page without room is relieved or split.

use super::cell::{CellWords, child_cell, new_cell};
use super::outside::Outside;
use super::page::Page;
use super::slots::{Place, Slots};
use super::{Cell, KIND, Located, MAX_LEVELS, PageTree, Path};
use crate::memory::PersistentAddress;
use crate::structures::bytes::{differs_in_more, rewrite};
use crate::transaction::{Abort, Read, Transaction};

/// If more words of a value than these change, the new value gets a place of its own: a large transaction need not save the words that a
/// new block had before.
const MOST_REWRITTEN: usize = 1 << 15;

/// A cell to be added to a page that has no room for it. The page's cells and this one are the *parts*.
struct Arrival<'a> {
    /// The cell's number among the parts.
    index: usize,
    key: &'a [u8],
    cell: &'a CellWords,
}

/// A page that has no room, and the cell to be added.
struct Crowded<'a> {
    page: Page,
    slots: Slots,
    arrival: Arrival<'a>,
    /// The number of words in each part and its slot.
    sizes: Vec<u64>,
}

/// Returns the shortest key that is greater than `low` and not greater than `high`.
pub(super) fn separator<'k>(low: &[u8], high: &'k [u8]) -> &'k [u8] {
    let same = low.iter().zip(high).take_while(|(low, high)| low == high).count();
    &high[..(same + 1).min(high.len())]
}

impl<'a> Crowded<'a> {
    fn new(tx: &mut impl Read, page: Page, slots: Slots, arrival: Arrival<'a>) -> Result<Self, Abort> {
        let mut sizes = Vec::with_capacity(page.cells as usize + 1);
        for offset in slots.offsets() {
            sizes.push(page.cell(tx, offset)?.words() + 1);
        }
        sizes.insert(arrival.index.min(sizes.len()), arrival.cell.len() as u64 + 1);
        Ok(Self { page, slots, arrival, sizes })
    }

    /// Reads the key of a part.
    fn key(&self, tx: &mut impl Read, number: usize) -> Result<Vec<u8>, Abort> {
        let own = match number.cmp(&self.arrival.index) {
            std::cmp::Ordering::Less => number,
            std::cmp::Ordering::Equal => return Ok(self.arrival.key.to_vec()),
            std::cmp::Ordering::Greater => number - 1,
        };
        let mut key = Vec::new();
        let offset = self.slots.at(self.slots.number(own)).unwrap_or_default();
        self.page.cell(tx, offset)?.read_key(tx, &mut key)?;
        Ok(key)
    }

    /// Returns the key that separates the parts from `number` on from those before.
    fn separator(&self, tx: &mut impl Read, number: usize) -> Result<Vec<u8>, Abort> {
        let mut high = self.key(tx, number)?;
        if self.page.level == 0 {
            let low = self.key(tx, number - 1)?;
            high.truncate(separator(&low, &high).len());
        }
        Ok(high)
    }

    /// Removes the parts with these numbers, at one end of the page, and returns them. Adds the arriving cell to the page if it is not
    /// among them.
    fn take(
        &mut self,
        tx: &mut impl Transaction,
        numbers: std::ops::Range<usize>,
    ) -> Result<Vec<CellWords>, Abort> {
        let index = self.arrival.index;
        let own = |number: usize| number - usize::from(number > index);
        let mut taken = self.page.take(tx, &mut self.slots, own(numbers.start)..own(numbers.end))?;
        if numbers.contains(&index) {
            taken.insert(index - numbers.start, self.arrival.cell.clone());
        } else {
            let index = if index >= numbers.end { index - numbers.len() } else { index };
            self.page.put_all(tx, &mut self.slots, index, std::slice::from_ref(self.arrival.cell))?;
        }
        Ok(taken)
    }

    /// Returns the number of parts whose sizes together come nearest to half of the whole.
    fn middle(&self) -> usize {
        let all: u64 = self.sizes.iter().sum();
        let mut before = 0;
        for (number, &size) in self.sizes.iter().enumerate() {
            if before + size / 2 >= all / 2 {
                return number.clamp(1, self.sizes.len() - 1);
            }
            before += size;
        }
        self.sizes.len() - 1
    }

    /// Returns the number of parts to move to a sibling, from the end of the page or from its beginning: about half of the difference in
    /// size. `None` if one of the pages would have no room.
    fn to_hand(&self, sibling: &Page, from_end: bool) -> Option<usize> {
        let (own, other) = (self.sizes.iter().sum::<u64>(), sibling.words - sibling.room());
        let wanted = own.saturating_sub(other) / 2;
        let (mut handed, mut parts) = (0, 0);
        let sizes: &mut dyn Iterator<Item = &u64> =
            if from_end { &mut self.sizes.iter().rev() } else { &mut self.sizes.iter() };
        for &size in sizes {
            if parts > 0 && handed + size > wanted {
                break;
            }
            (handed, parts) = (handed + size, parts + 1);
        }
        let rest = self.sizes.len().checked_sub(parts).filter(|&rest| rest > 0)?;
        let both = sibling.cells as usize + parts;
        let is_possible = Page::holds(self.page.words, rest, own - handed - rest as u64)
            && Page::holds(sibling.words, both, sibling.used() + handed - parts as u64);
        is_possible.then_some(parts)
    }
}

impl PageTree {
    /// Sets the value of a key. `value` has the words of a value of `bytes` bytes.
    ///
    /// # Errors
    /// Returns the errors of [`PageTree::insert`].
    pub fn set(&self, tx: &mut impl Transaction, key: &[u8], value: &[u64], bytes: u64) -> Result<(), Abort> {
        let located = self.locate(tx, key)?;
        match located.cell {
            None => self.insert(tx, located, key, value, bytes),
            Some(_) => self.replace(tx, located, key, value, bytes),
        }
    }

    /// Inserts a pair at the place of its key, which is not in the tree. `value` has the words of a value of `bytes` bytes.
    ///
    /// # Errors
    /// Returns an error after a conflict, if the pool or the log is full, or if there is damage.
    pub fn insert(
        &self,
        tx: &mut impl Transaction,
        located: Located,
        key: &[u8],
        value: &[u64],
        bytes: u64,
    ) -> Result<(), Abort> {
        let counters = self.counters(tx)?;
        let mut cell = CellWords::new();
        new_cell(tx, &mut cell, self.most_words, key, (value, bytes))?;
        self.add(tx, located.leaf, located.place, (key, &cell))?;
        counters.add(tx, 1)
    }

    /// Replaces the value of the key at a place, which is in the tree. A value that takes as many words as the old one, and differs in few,
    /// is overwritten in place.
    ///
    /// # Errors
    /// Returns the errors of [`PageTree::insert`].
    pub fn replace(
        &self,
        tx: &mut impl Transaction,
        located: Located,
        key: &[u8],
        value: &[u64],
        bytes: u64,
    ) -> Result<(), Abort> {
        let Located { leaf: mut page, place, cell } = located;
        let Some(cell) = cell else { return Err(KIND.damaged(tx, page.at, "no cell")) };
        if rewritten(tx, &page, cell, value, bytes)? {
            return Ok(());
        }
        cell.free_outside(tx)?;
        let place = page.remove_alone(tx, place)?;
        let mut new = CellWords::new();
        new_cell(tx, &mut new, self.most_words, key, (value, bytes))?;
        self.add(tx, page, place, (key, &new))
    }

    /// Adds a cell to a page at a place, and makes room for it if necessary. `key` belongs to the page.
    pub(super) fn add(
        &self,
        tx: &mut impl Transaction,
        mut page: Page,
        place: Place,
        (key, cell): (&[u8], &CellWords),
    ) -> Result<(), Abort> {
        if page.put_alone(tx, place, cell)? {
            return Ok(());
        }
        let mut slots = page.slots(tx)?;
        let index = slots.index(place);
        if page.has_room_for(tx, &slots, cell.len())? {
            return page.put_all(tx, &mut slots, index, std::slice::from_ref(cell));
        }
        let path = &mut self.path_to(tx, &page, key)?;
        if path.is_empty() && page.words < self.most_words {
            return self.grow(tx, page, &slots, (index, cell));
        }
        let crowded = Crowded::new(tx, page, slots, Arrival { index, key, cell })?;
        match page.level {
            0 => self.relieve(tx, path, crowded),
            _ => self.split(tx, path, crowded),
        }
    }

    /// Replaces the root by a larger page, with one more cell.
    fn grow(
        &self,
        tx: &mut impl Transaction,
        page: Page,
        slots: &Slots,
        (index, cell): (usize, &CellWords),
    ) -> Result<(), Abort> {
        let mut cells = Vec::with_capacity(page.cells as usize + 1);
        for offset in slots.offsets() {
            cells.push(page.cell(tx, offset)?.load(tx)?);
        }
        cells.insert(index, cell.clone());
        let root = self.create_root(tx, page.level, &cells)?;
        tx.free(page.at)?;
        tx.write(self.top, root.offset())
    }

    /// Creates the smallest page that has room for these cells.
    pub(super) fn create_root(
        &self,
        tx: &mut impl Transaction,
        level: u64,
        cells: &[CellWords],
    ) -> Result<PersistentAddress, Abort> {
        let used = cells.iter().map(|cell| cell.len() as u64).sum();
        let mut words = super::FIRST_PAGE_BYTES / 8;
        while !Page::holds(words, cells.len(), used) && words < self.most_words {
            words *= 2;
        }
        Page::create(tx, words, level, cells)
    }

    /// Moves some cells of a leaf to a sibling that has room to spare, or splits the leaf if neither has.
    fn relieve(
        &self,
        tx: &mut impl Transaction,
        path: &mut Path,
        mut crowded: Crowded<'_>,
    ) -> Result<(), Abort> {
        let Some(step) = path.last().copied() else { return self.split(tx, path, crowded) };
        let mut parent = Page::load(tx, step.page, Some(1))?;
        let mut slots = parent.slots(tx)?;
        let own = slots.index(step.place);
        for from_end in [true, false] {
            let number = if from_end { own + 1 } else { own.wrapping_sub(1) };
            let Some(offset) = slots.at(slots.number(number)) else { continue };
            let child = parent.cell(tx, offset)?.child(tx)?;
            let mut sibling = Page::load(tx, child, Some(0))?;
            if sibling.room() < self.most_words / 4 {
                continue;
            }
            let Some(parts) = crowded.to_hand(&sibling, from_end) else { continue };
            let all = crowded.sizes.len();
            let (numbers, first, parted) = match from_end {
                true => (all - parts..all, all - parts, own + 1),
                false => (0..parts, parts, own),
            };
            let key = crowded.separator(tx, first)?;
            let handed = crowded.take(tx, numbers)?;
            let mut sibling_slots = sibling.slots(tx)?;
            let index = if from_end { 0 } else { sibling.cells as usize };
            sibling.put_all(tx, &mut sibling_slots, index, &handed)?;
            // The parent gets a new separator for the right one of the two pages.
            let old = parent.cell(tx, slots.at(slots.number(parted)).unwrap_or_default())?;
            let child = old.child(tx)?;
            let cell = child_cell(tx, self.most_words, &key, child)?;
            old.free_outside(tx)?;
            let place = slots.number(parted);
            parent.remove(tx, &mut slots, place)?;
            return self.add(tx, parent, slots.place(parted), (&key, &cell));
        }
        self.split(tx, path, crowded)
    }

    /// Moves the upper half of a page to a new page, and adds that to the parent.
    fn split(
        &self,
        tx: &mut impl Transaction,
        path: &mut Path,
        mut crowded: Crowded<'_>,
    ) -> Result<(), Abort> {
        let all = crowded.sizes.len();
        let level = crowded.page.level;
        let first = match crowded.arrival.index + 1 == all && self.is_last(tx, path)? {
            true => all - 1,
            false => crowded.middle(),
        };
        let key = crowded.separator(tx, first)?;
        let mut upper = crowded.take(tx, first..all)?;
        if level > 0 {
            // The first cell of an inner page has no key. The parent has the key that it had.
            let child = upper[0].last().copied().unwrap_or_default();
            let old = Cell { page: crowded.page.at, offset: 0, head: upper[0][0] };
            old.free_key(tx, &upper[0])?;
            upper[0] = child_cell(tx, self.most_words, &[], PersistentAddress::new(child))?;
        }
        let right = Page::create(tx, self.most_words, level, &upper)?;
        let cell = child_cell(tx, self.most_words, &key, right)?;
        if let Some(step) = path.pop() {
            let parent = Page::load(tx, step.page, Some(level + 1))?;
            let Place { word, index } = step.place;
            return self.add(tx, parent, Place { word, index: index + 1 }, (&key, &cell));
        }
        self.add_root(tx, crowded.page.at, level + 1, &cell)
    }

    /// Creates a root above the current one. Its children are the page `first` and the child of `cell`.
    pub(super) fn add_root(
        &self,
        tx: &mut impl Transaction,
        first: PersistentAddress,
        level: u64,
        cell: &CellWords,
    ) -> Result<(), Abort> {
        if level as usize == MAX_LEVELS {
            return Err(KIND.damaged(tx, first, "too many levels"));
        }
        let first = child_cell(tx, self.most_words, &[], first)?;
        let root = self.create_root(tx, level, &[first, cell.clone()])?;
        tx.write(self.top, root.offset())?;
        if level == 1 { self.start_counting(tx) } else { Ok(()) }
    }

    /// Returns whether a path leads to the last page of its level.
    fn is_last(&self, tx: &mut impl Read, path: &Path) -> Result<bool, Abort> {
        for step in path {
            let page = Page::load(tx, step.page, None)?;
            if page.slots(tx)?.index(step.place) + 1 != page.cells as usize {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Overwrites the value of a cell of `page`, if the new one takes as many words, not too many of them differ, and the value is not in
/// extents. Returns whether it did.
fn rewritten(
    tx: &mut impl Transaction,
    page: &Page,
    cell: Cell,
    value: &[u64],
    bytes: u64,
) -> Result<bool, Abort> {
    if cell.value_bytes().div_ceil(8) != bytes.div_ceil(8) {
        return Ok(false);
    }
    let (block, offset) = match cell.value_outside(tx)? {
        None => (cell.page, cell.value_offset()),
        Some(Outside::Block(block)) => (block, 0),
        Some(Outside::Extents(_)) => return Ok(false),
    };
    let at = block.word(offset);
    if value.len() > MOST_REWRITTEN && differs_in_more(tx, at, value, MOST_REWRITTEN)? {
        return Ok(false);
    }
    KIND.check_block(tx, block, offset + value.len() as u64)?;
    let head = cell.head_with(bytes);
    let mut is_page_changed = rewrite(tx, at, value)? && block == page.at;
    if head != cell.head {
        tx.write(cell.at(), head)?;
        is_page_changed = true;
    }
    if is_page_changed {
        page.store_counts(tx)?;
    }
    Ok(true)
}
