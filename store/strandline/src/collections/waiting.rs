//! Pairs that a large transaction sets in a map. They wait in memory until there are many, and are then stored in the order of their keys.
//!
//! *Invariant.* Every operation of the transaction finds them stored: [`View::operation`](crate::View::operation) stores them before it begins, and so
//! does the end of the transaction's closure. Only an operation that neither reads nor changes the pairs of their maps lets them wait
//! ([`View::beside`](crate::View::beside)), and so does one that sets a pair of a map.
//!
//! A pair waits only if an operation before it has set another one of the same map, and no operation since could have destroyed the map.

use strandline_core::engine::{self, Control};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::Batch;
use strandline_core::transaction::{Abort, Transaction};

use super::pages;

/// Pairs of a map wait until they take this number of bytes, or a share of the memory that the pool may take for copies of pages.
const MOST_BYTES: u64 = 256 << 20;
const SHARE_OF_MEMORY: u64 = 8;
/// A value with more words does not wait: it takes a page or more of its own.
const MOST_VALUE_WORDS: usize = 256;

/// Pairs of a map that wait.
pub(crate) struct Waiting {
    /// The address of the map's header, and its tag.
    map: (PersistentAddress, u64),
    pairs: Batch,
    most_bytes: u64,
}

impl Waiting {
    /// Returns a list for a map in which `tx` has just set a pair.
    pub fn new<C: Control>(map: (PersistentAddress, u64), tx: &engine::Tx<C>) -> Self {
        let share = tx.bound_of_copies().map_or(u64::MAX, |bytes| bytes / SHARE_OF_MEMORY);
        Self { map, pairs: Batch::default(), most_bytes: share.min(MOST_BYTES) }
    }

    pub fn is_for(&self, map: (PersistentAddress, u64)) -> bool {
        self.map == map
    }

    /// Adds a pair with a value of `bytes` bytes, unless the value is too large to wait. Returns whether it was added.
    pub fn add(&mut self, key: &[u8], value: &[u64], bytes: u64) -> bool {
        let waits = value.len() <= MOST_VALUE_WORDS;
        if waits {
            self.pairs.add(key, value, bytes);
        }
        waits
    }

    /// Returns whether so many pairs wait that they should be stored.
    pub fn is_full(&self) -> bool {
        8 * self.pairs.words() as u64 >= self.most_bytes
    }

    /// Stores the pairs.
    ///
    /// # Errors
    /// Returns the errors of a pair that does not wait.
    pub fn store(&mut self, tx: &mut impl Transaction) -> Result<(), Abort> {
        if self.pairs.words() == 0 {
            return Ok(());
        }
        let tree = pages::tree_to_write(tx, self.map.0, self.map.1)?;
        self.pairs.set(tx, &tree)
    }
}
