//! Pairs that a large transaction sets in a map. They wait in memory until there are many, and are then stored in the order of their keys.
//!
//! *Invariant.* Every operation of the transaction finds them stored: [`View::operation`](crate::View::operation) stores them before it begins, and so
//! does the end of the transaction's closure. Only an operation that neither reads nor changes the pairs of their maps lets them wait
//! ([`View::beside`](crate::View::beside)), and so does one that sets a pair of a map.
//!
//! A pair waits only if an operation before it has set another one of the same map, and no operation since could have destroyed the map.

use strandline_core::engine::{self, Control};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{Batch, PageTree};
use strandline_core::transaction::{Abort, Transaction};

/// The pairs of all maps wait until they take this share of the memory that the pool may take for copies of pages, or this number of bytes.
const SHARE_OF_MEMORY: u64 = 4;
const MOST_BYTES: u64 = 1 << 30;
/// The bound in bytes for a pool that has no copies of pages.
const BYTES_WITHOUT_COPIES: u64 = 256 << 20;
/// The pairs of at most this number of maps wait.
const MOST_MAPS: usize = 16;
/// A value with more words does not wait: it has a block of its own, so the order matters little.
const MOST_VALUE_WORDS: usize = 256;

/// Pairs of a map that wait.
pub(crate) struct Waiting {
    /// The address of the map's header, and its tag.
    map: (PersistentAddress, u64),
    tree: PageTree,
    pairs: Batch,
}

impl Waiting {
    /// Adds a pair with a value of `bytes` bytes, unless the value is too large to wait. Returns whether it was added.
    pub fn add(&mut self, key: &[u8], value: &[u64], bytes: u64) -> bool {
        let waits = value.len() <= MOST_VALUE_WORDS;
        if waits {
            self.pairs.add(key, value, bytes);
        }
        waits
    }

    /// Stores the pairs.
    ///
    /// # Errors
    /// Returns the errors of a pair that does not wait.
    pub fn store(&mut self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let pairs = std::mem::take(&mut self.pairs);
        pairs.set(tx, &self.tree)
    }
}

/// The pairs of a transaction that wait.
#[derive(Default)]
pub(crate) struct AllWaiting(Vec<Waiting>);

impl AllWaiting {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the list for pairs of a map, if they may wait.
    ///
    /// # Errors
    /// Returns the errors of pairs that wait.
    pub fn list(
        &mut self,
        tx: &mut impl Transaction,
        map: (PersistentAddress, u64),
    ) -> Result<Option<&mut Waiting>, Abort> {
        // One map may be used with two tags: by a program that knows its types, and by one that does not.
        if self.0.iter().any(|list| list.map.0 == map.0 && list.map.1 != map.1) {
            self.store(tx)?;
        }
        Ok(self.0.iter_mut().find(|list| list.map == map))
    }

    /// Notes that `tx` has set a pair in the tree of a map, so that further ones may wait, or that one more waits. Stores all pairs if too many wait.
    ///
    /// # Errors
    /// Returns the errors of pairs that wait.
    pub fn note<C: Control>(
        &mut self,
        tx: &mut engine::Tx<C>,
        map: (PersistentAddress, u64),
        tree: Option<PageTree>,
    ) -> Result<(), Abort> {
        if let Some(tree) = tree
            && self.0.iter().all(|list| list.map != map)
        {
            self.0.push(Waiting { map, tree, pairs: Batch::default() });
        }
        let most = tx.bound_of_copies().map_or(BYTES_WITHOUT_COPIES, |bytes| bytes / SHARE_OF_MEMORY);
        let bytes: u64 = self.0.iter().map(|list| list.pairs.bytes()).sum();
        if bytes >= most.min(MOST_BYTES) || self.0.len() > MOST_MAPS { self.store(tx) } else { Ok(()) }
    }

    /// Stores all pairs. The next pair of each map is set alone again.
    ///
    /// # Errors
    /// Returns the errors of pairs that wait.
    #[cold]
    pub fn store(&mut self, tx: &mut impl Transaction) -> Result<(), Abort> {
        self.0.drain(..).try_for_each(|mut list| list.store(tx))
    }
}
