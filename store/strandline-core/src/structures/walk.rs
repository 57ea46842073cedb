//! The bound on the work of a walk.
//!
//! In a sound pool a walk visits each block once, and a few times more the blocks on the way to the place where it continues. In a damaged
//! pool links form circles, many links refer to one block (each level then doubles the number of ways), blocks overlap, and a length has
//! any value.
//!
//! *Invariant.* A walk visits at most [`SHARE`] times as many words as the heap has. Before it continues from a block, it calls
//! [`Walk::visit`], which fails with [`Error::Damaged`] if the bound would be exceeded. So the time of a walk is bounded by the size of the
//! pool, whatever the damage. A walk over several operations (an iterator) keeps its [`Walk`] between them. If the program runs other
//! operations of a writing transaction in between, the walk starts to count again ([`Walk::goes_on`]), because the blocks that it meets may
//! be new.
//!
//! A lookup needs no [`Walk`]: it follows one path, whose levels are bounded, and one chain, in which [`CircleGuard`](super::CircleGuard)
//! detects a circle.

use std::fmt::Display;

use crate::error::Error;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read};

/// The bound on a walk, as a multiple of the words in the heap. Walks over sound pools need less than half of it: a test iterates over few
/// pairs below as many layers as a key can have, and each batch visits the layers again (`strandline`'s `tests/all/walks.rs`).
pub const SHARE: u64 = 16;

/// A walk's count of the words that it has visited.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    words: u64,
    /// The number of the last operation that belongs to the walk.
    operation: u64,
}

impl Walk {
    /// Notes a visit to `words` words at `at`, which belong to `what`.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// use strandline_core::memory::PersistentAddress;
    /// use strandline_core::structures::Walk;
    /// use strandline_core::{Abort, Error};
    ///
    /// /// Follows the links of a list, which may run in a circle.
    /// fn length(tx: &mut impl Read, mut node: PersistentAddress) -> Result<u64, Abort> {
    ///     let (mut length, mut walk) = (0, Walk::default());
    ///     while !node.is_null() {
    ///         walk.visit(tx, "a list's node", node, 2)?;
    ///         length += 1;
    ///         node = PersistentAddress::new(tx.read(node)?);
    ///     }
    ///     Ok(length)
    /// }
    ///
    /// let node = worker.run(|tx| {
    ///     let node = tx.alloc(16)?;
    ///     tx.write_range(node, &[node.offset(), 0])?;
    ///     Ok(node)
    /// })?;
    /// let walked = worker.view(|tx| length(tx, node));
    /// assert!(matches!(walked, Err(Error::Damaged { .. })));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Damaged`], which names `what`, if the walk has visited more than [`SHARE`] times as many words as the heap has.
    pub fn visit<T: Read + ?Sized>(
        &mut self,
        tx: &mut T,
        what: impl Display,
        at: PersistentAddress,
        words: u64,
    ) -> Result<(), Abort> {
        self.words = self.words.saturating_add(words.max(1));
        if self.words <= tx.heap_words().saturating_mul(SHARE) {
            Ok(())
        } else {
            self.look(tx, what, at, words)
        }
    }

    /// Checks the bound again, since the pool may have grown.
    #[cold]
    #[inline(never)]
    fn look<T: Read + ?Sized>(
        &self,
        tx: &mut T,
        what: impl Display,
        at: PersistentAddress,
        words: u64,
    ) -> Result<(), Abort> {
        // A transaction learns that the pool has grown when it reads past the end that it knows. So this reads the last word of the block,
        // if there is such a block.
        let has_room = tx.find_block(at)?.is_some_and(|bytes| bytes / 8 >= words);
        tx.read(at.word(if has_room { words.max(1) - 1 } else { 0 }))?;
        if self.words <= tx.heap_words().saturating_mul(SHARE) {
            return Ok(());
        }
        Err(tx.fail(Error::damaged(format!(
            "a walk has visited more blocks than the pool has room for: too many links refer to {what} at {:#x}, or to a block on the way there",
            at.offset()
        ))))
    }

    /// Notes that operation number `operation` of a transaction that may write belongs to the walk. If the operation before it did not, the
    /// walk starts to count again.
    pub fn goes_on(&mut self, operation: u64) {
        if operation != self.operation + 1 {
            self.words = 0;
        }
        self.operation = operation;
    }
}
