//! Filling an empty tree with pairs that come in the order of their keys: from the leaves up, each page full and written once.

use super::cell::{CellWords, child_cell, child_words, new_cell};
use super::insert::separator;
use super::page::Page;
use super::{KIND, MAX_LEVELS, PageTree};
use crate::error::Error;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Transaction};

/// The last page of a level, which is not written yet.
#[derive(Default)]
struct Last {
    /// What parts it from the page before it.
    key: Vec<u8>,
    cells: Vec<CellWords>,
    /// Words of the cells.
    used: u64,
}

impl Last {
    /// Whether it is to be written before `words` more words come, in one cell.
    fn is_full(&self, page_words: u64, words: u64) -> bool {
        !self.cells.is_empty() && !Page::holds(page_words, self.cells.len() + 1, self.used + words)
    }

    fn push(&mut self, cell: CellWords) {
        self.used += cell.len() as u64;
        self.cells.push(cell);
    }
}

/// The filling of an empty tree, in one transaction.
///
/// ```
/// # use strandline_core::example::*;
/// # use strandline_core::structures::PageTree;
/// # let (mut worker, root) = worker_and_root();
/// let count = worker.run(|tx| {
///     let header = tx.alloc(16)?;
///     let tree = PageTree::create_at(tx, header, 4096)?;
///     let mut load = tree.load();
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
    /// From the leaves up.
    levels: Vec<Last>,
    last_key: Vec<u8>,
    pairs: u64,
}

impl PageTree {
    /// Begins to fill the tree, which has no pairs until [`Load::finish`] returns.
    pub fn load(&self) -> Load {
        Load { tree: *self, levels: Vec::new(), last_key: Vec::new(), pairs: 0 }
    }
}

impl Load {
    /// Adds a pair behind all that were added. `value`: the words of a value of `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::Parameter`]: the key is not greater than the one before it; the pool is full; a conflict, a full log.
    pub fn push(
        &mut self,
        tx: &mut impl Transaction,
        key: &[u8],
        value: &[u64],
        bytes: u64,
    ) -> Result<(), Abort> {
        if self.pairs > 0 && key <= self.last_key.as_slice() {
            return Err(tx.fail(Error::Parameter(format!(
                "a load takes keys in ascending order, each once: number {} is not greater than the one before it",
                self.pairs
            ))));
        }
        let page_words = self.tree.most_words;
        let cell = new_cell(tx, page_words, key, value, bytes)?;
        if self.level(0).is_full(page_words, cell.len() as u64) {
            let parting = separator(&self.last_key, key).to_vec();
            self.write(tx, 0, parting)?;
        }
        self.level(0).push(cell);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.pairs += 1;
        Ok(())
    }

    fn level(&mut self, level: usize) -> &mut Last {
        if self.levels.len() == level {
            self.levels.push(Last::default());
        }
        &mut self.levels[level]
    }

    /// Writes the last page of a level, tells the level above, and begins another with `key`.
    fn write(&mut self, tx: &mut impl Transaction, level: usize, key: Vec<u8>) -> Result<(), Abort> {
        let page_words = self.tree.most_words;
        let Last { key: own, cells, .. } =
            std::mem::replace(self.level(level), Last { key, ..Last::default() });
        let page = Page::create(tx, page_words, level as u64, &cells)?;
        if level + 1 == MAX_LEVELS {
            return Err(KIND.damaged(tx, page, "too many levels"));
        }
        if self.level(level + 1).is_full(page_words, child_words(page_words, &own)) {
            self.write(tx, level + 1, own.clone())?;
        }
        // The first child of a page has no key.
        let key = if self.level(level + 1).cells.is_empty() { &[][..] } else { &own };
        let cell = child_cell(tx, page_words, key, page)?;
        self.level(level + 1).push(cell);
        Ok(())
    }

    /// Ends the load: the tree has all pairs that were added. Returns how many.
    ///
    /// # Errors
    /// [`Error::Parameter`]: the tree is not empty; the pool is full; a conflict, a full log.
    pub fn finish(mut self, tx: &mut impl Transaction) -> Result<u64, Abort> {
        let before = self.tree.root(tx)?;
        if before.cells > 0 {
            return Err(tx.fail(Error::Parameter("a load fills what is empty, and there are pairs".into())));
        }
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.write(tx, level, Vec::new())?;
            level += 1;
        }
        let Some(Last { cells, .. }) = self.levels.pop() else { return Ok(0) };
        let root: PersistentAddress = self.tree.create_root(tx, level as u64, &cells)?;
        tx.free(before.at)?;
        tx.write(self.tree.top, root.offset())?;
        Ok(self.pairs)
    }
}
