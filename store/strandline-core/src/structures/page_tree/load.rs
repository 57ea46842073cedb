//! Bulk loading: pairs that come in the order of their keys, behind all pairs in the tree. Each leaf is filled and written once.

use super::PageTree;
use super::cell::{CellWords, child_cell, new_cell};
use super::insert::separator;
use super::page::Page;
use crate::error::Error;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read, Transaction};

/// A bulk load: pairs that one transaction adds at the end of a tree.
///
/// ```
/// # use strandline_core::example::*;
/// # use strandline_core::structures::PageTree;
/// # let (mut worker, root) = worker_and_root();
/// let count = worker.run(|tx| {
///     let header = tx.alloc(16)?;
///     let tree = PageTree::create_at(tx, header, 4096)?;
///     let mut load = tree.load(tx)?;
///     for number in 0..1000_u64 {
///         load.push(tx, &number.to_be_bytes(), &[number], 8)?;
///     }
///     load.finish(tx)?;
///     tree.check(tx)
/// })?;
/// assert_eq!(count, 1000);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Load {
    tree: PageTree,
    /// The address of the root and the number of its cells, if these are the first cells of the leaf that is being filled, which will
    /// replace the root.
    replaced: Option<(PersistentAddress, usize)>,
    /// The greatest key of the tree, if it has keys.
    greatest: Option<Vec<u8>>,
    /// The greatest key that was added so far, or else that of the tree.
    last: Option<Vec<u8>>,
    /// The cells of the leaf that is being filled.
    cells: Vec<CellWords>,
    /// The number of words in the cells.
    used: u64,
    /// The separator between the leaf that is being filled and the one before it.
    key: Vec<u8>,
    pairs: u64,
    /// True if something else may change the tree while the load runs, which must be noticed.
    pub(super) is_watched: bool,
}

/// Reads the words of a page's cells.
fn cells_of(tx: &mut impl Read, page: &Page) -> Result<Vec<CellWords>, Abort> {
    let mut cells = Vec::with_capacity(page.cells as usize);
    for offset in page.slots(tx)?.offsets() {
        cells.push(page.cell(tx, offset)?.load(tx)?);
    }
    Ok(cells)
}

impl PageTree {
    /// Begins a bulk load of pairs behind all pairs in the tree. The tree has all of them after [`Load::finish`].
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn load(&self, tx: &mut impl Read) -> Result<Load, Abort> {
        let root = self.root(tx)?;
        let is_replaced = root.level == 0 && (root.cells == 0 || root.words < self.most_words);
        let cells = if is_replaced { cells_of(tx, &root)? } else { Vec::new() };
        let greatest = self.greatest(tx)?;
        Ok(Load {
            tree: *self,
            replaced: is_replaced.then_some((root.at, cells.len())),
            last: greatest.clone(),
            greatest,
            used: cells.iter().map(|cell| cell.len() as u64).sum(),
            cells,
            key: Vec::new(),
            pairs: 0,
            is_watched: true,
        })
    }

    /// Returns the greatest key.
    pub(super) fn greatest(&self, tx: &mut impl Read) -> Result<Option<Vec<u8>>, Abort> {
        let mut page = self.root(tx)?;
        loop {
            let Some(offset) = page.slots(tx)?.offsets().next_back() else { return Ok(None) };
            let cell = page.cell(tx, offset)?;
            if page.level == 0 {
                let mut key = Vec::new();
                cell.read_key(tx, &mut key)?;
                return Ok(Some(key));
            }
            let child = cell.child(tx)?;
            page = Page::load(tx, child, Some(page.level - 1))?;
        }
    }

    /// Adds a leaf to the inner page to which `key` leads. The key is greater than those of the leaf before it and not greater than its own.
    pub(super) fn add_leaf(
        &self,
        tx: &mut impl Transaction,
        key: &[u8],
        leaf: PersistentAddress,
    ) -> Result<(), Abort> {
        let cell = child_cell(tx, self.most_words, key, leaf)?;
        let mut page = self.root(tx)?;
        if page.level == 0 {
            return self.add_root(tx, page.at, 1, &cell);
        }
        loop {
            let found = page.search(tx, key)?;
            if page.level == 1 {
                return self.add(tx, page, found.place, (key, &cell));
            }
            page = Self::child(tx, &page, &found)?.1;
        }
    }
}

impl Load {
    /// Returns whether `key` is greater than every key of the tree and of the load, so that it may be added.
    pub fn takes(&self, key: &[u8]) -> bool {
        self.last.as_ref().is_none_or(|last| last.as_slice() < key)
    }

    /// Adds a pair behind all others. `value` has the words of a value of `bytes` bytes.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the key is not greater than the one before it, or if something else has changed the tree since the
    /// load began, and an error if the pool or the log is full, or after a conflict.
    pub fn push(
        &mut self,
        tx: &mut impl Transaction,
        key: &[u8],
        value: &[u64],
        bytes: u64,
    ) -> Result<(), Abort> {
        if !self.takes(key) {
            return Err(tx.fail(Error::Parameter(format!(
                "a load needs its keys in ascending order, each once: the key of pair {} is not greater than the one before it",
                self.pairs
            ))));
        }
        let page_words = self.tree.most_words;
        let mut cell = CellWords::new();
        new_cell(tx, &mut cell, page_words, key, (value, bytes))?;
        if !Page::holds(page_words, self.cells.len() + 1, self.used + cell.len() as u64) {
            self.write(tx)?;
        }
        if self.cells.is_empty()
            && let Some(last) = &self.last
        {
            self.key = separator(last, key).to_vec();
        }
        self.used += cell.len() as u64;
        self.cells.push(cell);
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.pairs += 1;
        Ok(())
    }

    /// Writes the leaf that is being filled.
    fn write(&mut self, tx: &mut impl Transaction) -> Result<(), Abort> {
        if self.is_watched {
            self.check_unchanged(tx)?;
        }
        let counters = self.tree.counters(tx)?;
        let mut added = self.cells.len() as i64;
        if let Some((old, count)) = self.replaced.take() {
            added -= count as i64;
            // If the tree has one page only, that page is no larger than its cells require.
            let root = self.tree.create_root(tx, 0, &self.cells)?;
            tx.free(old)?;
            tx.write(self.tree.top, root.offset())?;
        } else {
            let leaf = Page::create(tx, self.tree.most_words, 0, &self.cells)?;
            self.tree.add_leaf(tx, &self.key, leaf)?;
        }
        counters.add(tx, added)?;
        (self.greatest, self.used) = (self.last.clone(), 0);
        self.cells.clear();
        Ok(())
    }

    /// Fails if anything but this load has changed the tree. The iterator that yields the pairs could write to it.
    fn check_unchanged(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let mut is_unchanged = self.tree.greatest(tx)? == self.greatest;
        if let Some((old, count)) = self.replaced {
            let root = self.tree.root(tx)?;
            is_unchanged &= root.at == old && cells_of(tx, &root)? == self.cells[..count];
        }
        if is_unchanged {
            return Ok(());
        }
        Err(tx.fail(Error::Parameter("the tree was changed while a load added pairs to it: do not write to it from the iterator that yields the pairs".into())))
    }

    /// Ends the load, after which the tree has all pairs that were added. Returns their number.
    ///
    /// # Errors
    /// Returns the errors of [`Load::push`].
    pub fn finish(mut self, tx: &mut impl Transaction) -> Result<u64, Abort> {
        if self.pairs > 0 {
            self.write(tx)?;
        }
        Ok(self.pairs)
    }
}
