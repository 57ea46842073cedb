//! The number of keys, which is known without a walk.
//!
//! The head of a page has the number of its cells, so a tree of one page needs no more. A tree whose root becomes an inner page gets *counters*: a block of
//! lines, each with a word to which some of the workers add what they insert and from which they take what they remove. The sum of these words, modulo 2^64,
//! is the number of keys. Workers have lines of their own as long as there are no more workers than lines, so that they do not conflict.
//!
//! Trees of pools of format version 5 have inner pages and no counters until [`PageTree::start_counting`] gives them some; they are counted by a walk.

use super::{KIND, PageTree};
use crate::memory::{LINE_BYTES, PersistentAddress};
use crate::transaction::{Abort, Read, Transaction};

/// The lines of counters: as many as an ordinary pool has logs, and so workers.
const LINES: u64 = 16;
/// Words of a line, of which the first one is used.
const LINE_WORDS: u64 = LINE_BYTES / 8;
/// Words of a block of counters.
pub(super) const COUNTER_WORDS: u64 = LINES * LINE_WORDS;
/// Where the address of the counters begins in the header word that has the bytes of the largest page below it.
pub(super) const COUNTERS_SHIFT: u32 = 16;

/// The counters of a tree, if it has any.
#[derive(Clone, Copy)]
pub(super) struct Counters(Option<PersistentAddress>);

impl Counters {
    /// Adds `change`, which is negative where keys were removed, to the worker's counter.
    pub fn add(self, tx: &mut impl Transaction, change: i64) -> Result<(), Abort> {
        let Some(block) = self.0 else { return Ok(()) };
        KIND.check_block(tx, block, COUNTER_WORDS)?;
        let counter = block.word(tx.worker_number() % LINES * LINE_WORDS);
        let count = tx.read(counter)?;
        tx.write(counter, count.wrapping_add_signed(change))
    }

    /// The number of keys; `None` if there are no counters.
    pub fn sum(self, tx: &mut impl Read) -> Result<Option<u64>, Abort> {
        let Some(block) = self.0 else { return Ok(None) };
        let mut sum = 0_u64;
        for line in 0..LINES {
            sum = sum.wrapping_add(tx.read(block.word(line * LINE_WORDS))?);
        }
        Ok(Some(sum))
    }

    /// Their block.
    pub fn block(self) -> Option<PersistentAddress> {
        self.0
    }
}

impl PageTree {
    /// The counters as they are now: they may have come since the handle was made.
    pub(super) fn counters(&self, tx: &mut impl Read) -> Result<Counters, Abort> {
        let block = tx.read(self.top.word(1))? >> COUNTERS_SHIFT;
        Ok(Counters((block != 0).then_some(PersistentAddress::new(block))))
    }

    /// Number of keys, at the same cost for a tree of any size: [`count`](Self::count) walks over the tree instead. A transaction that asks conflicts with those that
    /// insert or remove keys at the same time, unless it only reads.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # use strandline_core::structures::PageTree;
    /// # let (mut worker, root) = worker_and_root();
    /// let keys = worker.run(|tx| {
    ///     let header = tx.alloc(16)?;
    ///     let tree = PageTree::create_at(tx, header, 4096)?;
    ///     for number in 0..1000_u64 {
    ///         let key = number.to_be_bytes();
    ///         let place = tree.locate(tx, &key)?;
    ///         tree.insert(tx, place, &key, &[number], 8)?;
    ///     }
    ///     tree.len(tx)
    /// })?;
    /// assert_eq!(keys, 1000);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A conflict, damage.
    pub fn len(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        if let Some(sum) = self.counters(tx)?.sum(tx)? {
            return Ok(sum);
        }
        let root = self.root(tx)?;
        if root.level == 0 { Ok(root.cells) } else { self.count(tx) }
    }

    /// Gives a tree that has inner pages counters, if it has none, and counts its keys by a walk.
    ///
    /// # Errors
    /// The pool is full; a conflict, a full log, damage.
    pub fn start_counting(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        if self.counters(tx)?.block().is_some() || self.root(tx)?.level == 0 {
            return Ok(());
        }
        let count = self.count(tx)?;
        let block = tx.alloc(8 * COUNTER_WORDS)?;
        for line in 0..LINES {
            tx.write(block.word(line * LINE_WORDS), if line == 0 { count } else { 0 })?;
        }
        tx.write(self.top.word(1), 8 * self.most_words | block.offset() << COUNTERS_SHIFT)
    }
}
