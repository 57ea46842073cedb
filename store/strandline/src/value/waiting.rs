//! Pairs that a transaction sets in a map one after another. They wait in memory until there are many, and are then stored in the order of their keys:
//! those behind all others fill new pages.
//!
//! *Invariant.* Every operation of the transaction finds them stored: [`View::operation`](crate::View::operation) stores them before it begins, and so
//! does the end of the transaction's closure. Only an operation that neither reads nor changes the pairs of their maps lets them wait
//! ([`View::beside`](crate::View::beside)), and so does one that sets a pair of a map.
//!
//! A pair waits only if an operation before it has set another one of the same map, and no operation since could have destroyed the map. In a
//! transaction that is not large, some pairs in a row are stored at once first, since a few gain nothing.

use strandline_core::engine::{self, Control};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{Batch, PageTree};
use strandline_core::transaction::Abort;

/// The number of pairs in a row that a transaction stores at once, unless it is large.
const STORED_AT_ONCE: u32 = 16;
/// The number of bytes that pairs of a transaction may take until they are stored, unless it is large.
const USUAL_BYTES: u64 = 1 << 20;
/// The pairs of a large transaction wait until they take this share of the memory that the pool may take for copies of pages, or this number of bytes.
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
    pub fn store<C: Control>(&mut self, tx: &mut engine::Tx<C>) -> Result<(), Abort> {
        let (pairs, is_large) = (std::mem::take(&mut self.pairs), tx.is_large());
        pairs.set(tx, &self.tree, is_large)
    }
}

/// Returns the number of bytes that pairs of a large transaction may take until they are stored.
fn bound_of_large<C: Control>(tx: &engine::Tx<C>) -> u64 {
    let share = tx.bound_of_copies().map_or(BYTES_WITHOUT_COPIES, |bytes| bytes / SHARE_OF_MEMORY);
    share.min(MOST_BYTES)
}

/// The pairs of a transaction that wait.
#[derive(Default)]
pub(crate) struct AllWaiting {
    lists: Vec<Waiting>,
    /// The number of pairs that were set since the last operation that lets no pair wait. If it is 0, none waits.
    in_a_row: u32,
}

impl AllWaiting {
    /// Returns whether no pair was set since the last operation that lets no pair wait.
    #[inline]
    pub fn is_reset(&self) -> bool {
        self.in_a_row == 0
    }

    /// Returns the list for pairs of a map, if they may wait.
    ///
    /// # Errors
    /// Returns the errors of pairs that wait.
    pub fn list<C: Control>(
        &mut self,
        tx: &mut engine::Tx<C>,
        map: (PersistentAddress, u64),
    ) -> Result<Option<&mut Waiting>, Abort> {
        // One map may be used with two tags: by a program that knows its types, and by one that does not.
        if self.lists.iter().any(|list| list.map.0 == map.0 && list.map.1 != map.1) {
            self.store(tx)?;
        }
        Ok(self.lists.iter_mut().find(|list| list.map == map))
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
        self.in_a_row = self.in_a_row.saturating_add(1);
        let is_large = tx.is_large();
        if self.in_a_row < STORED_AT_ONCE && !is_large {
            return Ok(());
        }
        if let Some(tree) = tree
            && self.lists.iter().all(|list| list.map != map)
        {
            self.lists.push(Waiting { map, tree, pairs: Batch::default() });
        }
        let most = if is_large { bound_of_large(tx) } else { USUAL_BYTES };
        let bytes: u64 = self.lists.iter().map(|list| list.pairs.bytes()).sum();
        if bytes >= most || self.lists.len() > MOST_MAPS { self.store(tx) } else { Ok(()) }
    }

    /// Stores all pairs. The next ones are stored at once again.
    ///
    /// # Errors
    /// Returns the errors of pairs that wait.
    #[cold]
    pub fn store<C: Control>(&mut self, tx: &mut engine::Tx<C>) -> Result<(), Abort> {
        self.in_a_row = 0;
        self.lists.drain(..).try_for_each(|mut list| list.store(tx))
    }
}
