//! Scans, from either end.

use std::ops::{Bound, ControlFlow, Range};

use super::cell::{Cell, Inside, inside};
use super::page::Page;
use super::slots::Slots;
use super::{PAGE, PageTree};
use crate::memory::PersistentAddress;
use crate::structures::walk::Walk;
use crate::transaction::{Abort, Read};

/// Leaves that are asked for at once where they have to be read from a file: what a batch of rows takes.
const LEAVES_AHEAD: usize = 24;

/// A leaf with cells between the bounds of a scan.
pub struct Leaf {
    page: Page,
    /// The words at which these cells begin, in the order of their keys.
    offsets: Vec<u64>,
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

    /// The words of the page at which its cells between the bounds begin, in the order of their keys.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Where key and value of the cell that begins at word `offset` are among `words`, those of the page, if both are there.
    pub fn inside(words: &[u64], offset: u64) -> Option<Inside> {
        inside(words, offset as usize)
    }

    /// The cell that begins at this word.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
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
    /// Leaves are to be asked for before they are read, and so many bytes behind them.
    ahead: Option<u64>,
}

fn key_of(bound: Bound<&[u8]>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

impl PageTree {
    /// Visits the leaves that have keys between two bounds, in the order of their keys or, unless `ascending`, against it, until `visit` breaks.
    /// `ahead`: the leaves may have to be read from a file and are asked for some at a time, and so many bytes behind them.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage, and the errors of `visit`.
    pub fn scan<T: Read>(
        &self,
        tx: &mut T,
        walk: &mut Walk,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        (ascending, ahead): (bool, Option<u64>),
        mut visit: impl FnMut(&mut T, &mut Walk, &Leaf) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<(), Abort> {
        let root = self.root(tx)?;
        let bounds = Bounds { from, to, ascending, ahead };
        scan_below(tx, walk, root, bounds, &mut visit).map(drop)
    }
}

/// Which of a page's cells a scan looks at.
fn numbers_between(
    tx: &mut impl Read,
    page: &Page,
    slots: &Slots,
    bounds: Bounds<'_>,
) -> Result<Range<usize>, Abort> {
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
    Ok(numbers)
}

/// Asks for leaves: the first ones of those below the cells that begin at these words.
fn read_ahead(tx: &mut impl Read, page: &Page, offsets: &[u64], further: u64) -> Result<(), Abort> {
    let mut places = Vec::with_capacity(LEAVES_AHEAD);
    for &offset in offsets.iter().take(LEAVES_AHEAD) {
        places.push(page.cell(tx, offset)?.child(tx)?);
    }
    tx.read_ahead(&mut places, page.words as usize, further);
    Ok(())
}

fn scan_below<T: Read>(
    tx: &mut T,
    walk: &mut Walk,
    page: Page,
    bounds: Bounds<'_>,
    visit: &mut impl FnMut(&mut T, &mut Walk, &Leaf) -> Result<ControlFlow<()>, Abort>,
) -> Result<ControlFlow<()>, Abort> {
    walk.visit(tx, PAGE, page.at, page.words)?;
    let slots = page.slots(tx)?;
    let numbers = numbers_between(tx, &page, &slots, bounds)?;
    let mut offsets = slots.offsets_of(numbers);
    if offsets.is_empty() {
        return Ok(ControlFlow::Continue(()));
    }
    if page.level == 0 {
        return visit(tx, walk, &Leaf { page, offsets });
    }
    if !bounds.ascending {
        offsets.reverse();
    }
    for (step, &offset) in offsets.iter().enumerate() {
        if page.level == 1
            && step.is_multiple_of(LEAVES_AHEAD)
            && let Some(further) = bounds.ahead
        {
            read_ahead(tx, &page, &offsets[step..], further)?;
        }
        let child = page.cell(tx, offset)?.child(tx)?;
        let child = Page::load(tx, child, Some(page.level - 1))?;
        // Only the children at the ends may have keys beyond the bounds.
        let (is_first, is_last) = (step == 0, step + 1 == offsets.len());
        let (at_from, at_to) = if bounds.ascending { (is_first, is_last) } else { (is_last, is_first) };
        let from = if at_from { bounds.from } else { Bound::Unbounded };
        let to = if at_to { bounds.to } else { Bound::Unbounded };
        if scan_below(tx, walk, child, Bounds { from, to, ..bounds }, visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
