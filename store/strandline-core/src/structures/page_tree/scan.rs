//! Scans, from either end.

use std::ops::{Bound, ControlFlow, Range};

use super::cell::{Cell, Inside, inside};
use super::page::Page;
use super::slots::Slots;
use super::{PAGE, PageTree};
use crate::memory::PersistentAddress;
use crate::structures::walk::Walk;
use crate::transaction::{Abort, Read};

/// A leaf with cells between the bounds of a scan.
pub struct Leaf {
    page: Page,
    slots: Slots,
    /// Numbers of the cells between the bounds.
    numbers: Range<usize>,
}

impl Leaf {
    /// Where the page is.
    pub fn at(&self) -> PersistentAddress {
        self.page.at
    }

    /// Words of the page.
    pub fn words(&self) -> usize {
        self.page.words as usize
    }

    /// How many cells are between the bounds.
    pub fn cells(&self) -> usize {
        self.numbers.len()
    }

    /// The words of the page at which its cells between the bounds begin, in the order of their keys.
    pub fn offsets(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.slots.offsets().skip(self.numbers.start).take(self.numbers.len()).collect::<Vec<_>>().into_iter()
    }

    /// Where key and value of the cell that begins at word `offset` are among `words`, those of the page, if both are there.
    pub fn inside(words: &[u64], offset: u64) -> Option<Inside> {
        inside(words, offset as usize)
    }

    /// The cell that begins at this word.
    ///
    /// # Errors
    /// A conflict, damage.
    pub fn cell(&self, tx: &mut impl Read, offset: u64) -> Result<Cell, Abort> {
        self.page.cell(tx, offset)
    }
}

/// Where a scan begins and ends.
#[derive(Clone, Copy)]
struct Bounds<'b> {
    from: Bound<&'b [u8]>,
    to: Bound<&'b [u8]>,
    ascending: bool,
}

fn key_of(bound: Bound<&[u8]>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

impl PageTree {
    /// Visits the leaves that have keys between two bounds, in the order of their keys or against it, until `visit` breaks.
    ///
    /// # Errors
    /// A conflict, damage, or what `visit` returns.
    pub fn scan<T: Read>(
        &self,
        tx: &mut T,
        walk: &mut Walk,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        ascending: bool,
        mut visit: impl FnMut(&mut T, &Leaf) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<(), Abort> {
        let root = self.root(tx)?;
        let bounds = Bounds { from, to, ascending };
        scan_below(tx, walk, root, bounds, &mut visit).map(drop)
    }
}

fn scan_below<T: Read>(
    tx: &mut T,
    walk: &mut Walk,
    page: Page,
    bounds: Bounds<'_>,
    visit: &mut impl FnMut(&mut T, &Leaf) -> Result<ControlFlow<()>, Abort>,
) -> Result<ControlFlow<()>, Abort> {
    walk.visit(tx, PAGE, page.at, page.words)?;
    let slots = page.slots(tx)?;
    let mut numbers = 0..page.cells as usize;
    let is_leaf = page.level == 0;
    for (bound, is_from) in [(bounds.from, true), (bounds.to, false)] {
        let Some(key) = key_of(bound) else { continue };
        let found = page.search(tx, key)?;
        let number = slots.index(found.place);
        // Of an inner page the child with the key is gone into, which is the one before the place unless the cell has it.
        let number = match (is_leaf, found.cell.is_some()) {
            (true, true) => number + usize::from(is_from == matches!(bound, Bound::Excluded(_))),
            (true, false) => number,
            (false, has) => (number + usize::from(has)).saturating_sub(usize::from(is_from)),
        };
        if is_from {
            numbers.start = number;
        } else {
            numbers.end = number;
        }
    }
    if numbers.is_empty() {
        return Ok(ControlFlow::Continue(()));
    }
    if is_leaf {
        return visit(tx, &Leaf { page, slots, numbers });
    }
    for step in 0..numbers.len() {
        let number = if bounds.ascending { numbers.start + step } else { numbers.end - 1 - step };
        let offset = slots.at(slots.number(number)).unwrap_or_default();
        let child = page.cell(tx, offset)?.child(tx)?;
        let child = Page::load(tx, child, Some(page.level - 1))?;
        // Only the children at the ends may have keys beyond the bounds.
        let from = if number == numbers.start { bounds.from } else { Bound::Unbounded };
        let to = if number + 1 == numbers.end { bounds.to } else { Bound::Unbounded };
        if scan_below(tx, walk, child, Bounds { from, to, ..bounds }, visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
