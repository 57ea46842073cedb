//! Scans in either direction.

use std::ops::{Bound, ControlFlow};

use super::cell::{Cell, Inside, inside};
use super::page::{HEAD, Page};
use super::slots::{Slots, put_offsets};
use super::{KIND, PAGE, PageTree};
use crate::structures::walk::Walk;
use crate::transaction::{Abort, Read};

/// The number of leaves that are asked for together if they have to be read from a file: as many as a batch of rows needs.
const LEAVES_AHEAD: usize = 24;

/// The number of words at the beginning of the next leaf to prefetch: its head and slots. The processor itself prefetches what is read in order.
const PREFETCHED: usize = 32;

/// A leaf that a scan visits.
pub struct Leaf {
    page: Page,
    ascending: bool,
    /// The numbers of the words at which the cells between the bounds of the scan begin, in its direction; `None` if each cell is between them.
    between: Option<Vec<u64>>,
}

impl Leaf {
    /// Returns the number of words in the page.
    pub fn words(&self) -> usize {
        self.page.words as usize
    }

    /// Returns the number of cells in the page that are between the bounds of the scan.
    pub fn cells(&self) -> usize {
        self.between.as_ref().map_or(self.page.cells as usize, Vec::len)
    }

    /// Reads the page into `words`, which are as many as the page has: all but its head and the words between slots and cells.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    ///
    /// # Panics
    /// Panics if `words` are fewer.
    pub fn read(&self, tx: &mut impl Read, words: &mut [u64]) -> Result<(), Abort> {
        let page = &self.page;
        tx.read_range(page.at.word(HEAD), &mut words[HEAD as usize..][..page.slots as usize])?;
        tx.read_range(page.at.word(page.begin), &mut words[page.begin as usize..])
    }

    /// Replaces the contents of `offsets` by the numbers of the words of the page at which its cells between the bounds begin, in the direction of
    /// the scan. `words` are those that [`read`](Self::read) has read, if it was called.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    ///
    /// # Panics
    /// Panics if `words` are fewer than the page has.
    pub fn put_offsets(
        &self,
        tx: &mut impl Read,
        words: Option<&[u64]>,
        offsets: &mut Vec<u64>,
    ) -> Result<(), Abort> {
        match (&self.between, words) {
            (Some(between), _) => {
                offsets.clone_from(between);
                return Ok(());
            }
            (None, Some(words)) => put_offsets(&words[HEAD as usize..][..self.page.slots as usize], offsets),
            (None, None) => put_offsets(&self.page.slots(tx)?.0, offsets),
        }
        if !self.ascending {
            offsets.reverse();
        }
        Ok(())
    }

    /// Returns the positions among `words`, which [`read`](Self::read) has read, of key and value of the cell that begins at word `offset`; `None` if
    /// one of them is outside the page.
    ///
    /// # Errors
    /// Returns an error if the cell is not in the page.
    pub fn inside(&self, tx: &mut impl Read, words: &[u64], offset: u64) -> Result<Option<Inside>, Abort> {
        inside(tx, &self.page, words, offset)
    }

    /// Returns the cell that begins at word `offset`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn cell(&self, tx: &mut impl Read, offset: u64) -> Result<Cell, Abort> {
        self.page.cell(tx, offset)
    }
}

/// The bounds of a scan, and its direction.
#[derive(Clone, Copy)]
struct Bounds<'b> {
    from: Bound<&'b [u8]>,
    to: Bound<&'b [u8]>,
    ascending: bool,
    /// If set, the scan asks the system to read leaves ahead, and this number of bytes behind each leaf as well.
    ahead: Option<u64>,
}

fn key_of(bound: Bound<&[u8]>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

impl PageTree {
    /// Visits the leaves that have keys between two bounds, in the order of their keys or, unless `ascending`, in the opposite order, until
    /// `visit` breaks. If `ahead` is set, the leaves may have to be read from a file: the scan asks the system for several at a time, and
    /// for this number of bytes behind each.
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

/// Returns the words at which those cells of a page begin that a scan has to visit, in its direction.
fn offsets_between(tx: &mut impl Read, page: &Page, bounds: Bounds<'_>) -> Result<Vec<u64>, Abort> {
    let mut slots = Slots::default();
    page.read_slots(tx, &mut slots)?;
    let mut numbers = 0..page.cells as usize;
    let is_leaf = page.level == 0;
    for (bound, is_from) in [(bounds.from, true), (bounds.to, false)] {
        let Some(key) = key_of(bound) else { continue };
        let found = page.search(tx, key)?;
        let number = slots.index(found.place);
        // In an inner page, the key belongs to the child before the place, or to the one at the place if that cell has the key itself.
        let number = match (is_leaf, found.cell().is_some()) {
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
    let mut offsets = slots.offsets_of(numbers);
    if !bounds.ascending {
        offsets.reverse();
    }
    Ok(offsets)
}

/// Asks the system to read leaves in advance: those to which the first [`LEAVES_AHEAD`] of the cells at `offsets` refer.
fn read_ahead(tx: &mut impl Read, page: &Page, offsets: &[u64], further: u64) -> Result<(), Abort> {
    let mut places = Vec::with_capacity(LEAVES_AHEAD);
    for &offset in offsets.iter().take(LEAVES_AHEAD) {
        places.push(page.cell(tx, offset)?.child(tx)?);
    }
    tx.read_ahead(&mut places, page.words as usize, further);
    Ok(())
}

/// Fails unless the keys of `leaf` are less than that of the cell of `page` at word `separator`, or, if not `ascending`, none of them is. A scan that
/// breaks at a leaf with keys of another one would go on behind these, and leave out the keys between.
fn check_side(
    tx: &mut impl Read,
    page: &Page,
    separator: u64,
    leaf: &Page,
    ascending: bool,
) -> Result<(), Abort> {
    let mut slots = Slots::default();
    leaf.read_slots(tx, &mut slots)?;
    let outermost = if ascending { slots.offsets().next_back() } else { slots.offsets().next() };
    let Some(outermost) = outermost else { return Ok(()) };
    let (mut bound, mut key) = (Vec::new(), Vec::new());
    page.cell(tx, separator)?.read_key(tx, &mut bound)?;
    leaf.cell(tx, outermost)?.read_key(tx, &mut key)?;
    let is_less = key < bound;
    if is_less == ascending { Ok(()) } else { Err(KIND.damaged(tx, leaf.at, "keys of another page")) }
}

fn scan_below<T: Read>(
    tx: &mut T,
    walk: &mut Walk,
    page: Page,
    bounds: Bounds<'_>,
    visit: &mut impl FnMut(&mut T, &mut Walk, &Leaf) -> Result<ControlFlow<()>, Abort>,
) -> Result<ControlFlow<()>, Abort> {
    walk.visit(tx, PAGE, page.at, page.words)?;
    let ascending = bounds.ascending;
    if page.level == 0 && (bounds.from, bounds.to) == (Bound::Unbounded, Bound::Unbounded) {
        return visit(tx, walk, &Leaf { page, ascending, between: None });
    }
    let offsets = offsets_between(tx, &page, bounds)?;
    if offsets.is_empty() {
        return Ok(ControlFlow::Continue(()));
    }
    if page.level == 0 {
        return visit(tx, walk, &Leaf { page, ascending, between: Some(offsets) });
    }
    // The next child, if its address was read before.
    let mut next = None;
    for (step, &offset) in offsets.iter().enumerate() {
        if page.level == 1
            && step.is_multiple_of(LEAVES_AHEAD)
            && let Some(further) = bounds.ahead
        {
            read_ahead(tx, &page, &offsets[step..], further)?;
        }
        let child = match next.take() {
            Some(child) => child,
            None => page.cell(tx, offset)?.child(tx)?,
        };
        let child = Page::load(tx, child, Some(page.level - 1))?;
        // A scan that has visited a leaf may end at the second one, but rarely does.
        if page.level == 1
            && step > 0
            && let Some(&offset) = offsets.get(step + 1)
        {
            let child = page.cell(tx, offset)?.child(tx)?;
            tx.prefetch(child, PREFETCHED);
            next = Some(child);
        }
        // Only the first and the last child may have keys beyond the bounds.
        let (is_first, is_last) = (step == 0, step + 1 == offsets.len());
        let (at_from, at_to) = if bounds.ascending { (is_first, is_last) } else { (is_last, is_first) };
        let from = if at_from { bounds.from } else { Bound::Unbounded };
        let to = if at_to { bounds.to } else { Bound::Unbounded };
        if scan_below(tx, walk, child, Bounds { from, to, ..bounds }, visit)?.is_break() {
            let separator = if ascending { offsets.get(step + 1) } else { Some(&offset) };
            if let (1, Some(&separator)) = (page.level, separator) {
                check_side(tx, &page, separator, &child, ascending)?;
            }
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
