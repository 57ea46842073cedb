//! The number of keys of a tree, without a walk.
//!
//! The head of a page has the number of its cells, so a tree of one page needs no counters. A tree whose root becomes an inner page gets
//! [`Counters`].

use super::PageTree;
use crate::structures::counters::Counters;
use crate::transaction::{Abort, Read, Transaction};

impl PageTree {
    /// Loads the counters. They are not in the handle, since the tree may have got them after the handle was made.
    pub(super) fn counters(&self, tx: &mut impl Read) -> Result<Counters, Abort> {
        Ok(Counters::split(tx.read(self.top.word(1))?).1)
    }

    /// Returns the number of keys. The cost does not depend on the size of the tree. A transaction that calls this and writes conflicts with
    /// those that insert or remove keys at the same time.
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
    /// Returns an error after a conflict or if there is damage.
    pub fn len(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        // In a tree of one page, `count` reads the head of that page.
        self.counters(tx)?.sum(tx)?.map_or_else(|| self.count(tx), Ok)
    }

    /// Gives the tree counters, after a walk over all leaves. A tree that was larger before has them already.
    pub(super) fn start_counting(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        if self.counters(tx)?.exist() {
            return Ok(());
        }
        let keys = self.count(tx)?;
        let counters = Counters::start(tx, keys)?;
        tx.write(self.top.word(1), counters.joined(8 * self.most_words))
    }
}
