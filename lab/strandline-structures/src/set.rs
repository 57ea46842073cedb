//! Ordered sets, implemented by the red-black tree. A set has no values; a multiset's value is the number of times that its key is present.
//!
//! The standard templates' `set` and `multiset`, which WrAP measures (section 4.2), are red-black trees, too.

use std::ops::RangeBounds;

use super::red_black_tree::RedBlackTree;
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::value::Word;
use strandline_core::transaction::{Abort, Read, Transaction};

/// A persistent set of words.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_structures::Set;
///
/// let seen = worker.run(|tx| Set::<u64>::create(tx, root))?;
/// assert!(worker.run(|tx| seen.insert(tx, 42))?);
/// assert!(!worker.run(|tx| seen.insert(tx, 42))?, "it is there already");
/// assert_eq!(worker.view(|tx| seen.count(tx))?, 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Set<K>(RedBlackTree<K, ()>);

impl<K> Clone for Set<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Set<K> {}

impl<K: Word + Ord> Set<K> {
    /// Creates an empty set under the root word `root`, or opens the set that is already there.
    ///
    /// # Errors
    /// Returns [`Error::WrongStructure`] if `root` refers to something else, and an error if the pool is full or after a conflict.
    pub fn create(tx: &mut impl Transaction, root: PersistentAddress) -> Result<Self, Abort> {
        RedBlackTree::create(tx, root).map(Self)
    }

    /// Opens the set under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if there is none, and [`Error::WrongStructure`] if something else is there.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        RedBlackTree::open(tx, root).map(Self)
    }

    /// Returns whether `key` is there.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the set is damaged.
    pub fn contains(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        self.0.contains_key(tx, key)
    }

    /// Inserts `key`. Returns whether it was absent.
    ///
    /// # Errors
    /// Returns an error if the pool is full, and the errors of [`Set::contains`] and [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: K) -> Result<bool, Abort> {
        Ok(self.0.insert(tx, key, ())?.is_none())
    }

    /// Removes `key`. Returns whether it was there.
    ///
    /// # Errors
    /// As for [`Set::contains`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<bool, Abort> {
        Ok(self.0.remove(tx, key)?.is_some())
    }

    /// Calls `visit` with the keys in `keys`, ascending.
    ///
    /// # Errors
    /// Returns the errors of [`Set::contains`] and `visit`.
    pub fn range(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.0.range(tx, keys, |key, ()| visit(key))
    }

    /// Returns the least key in `keys`.
    ///
    /// # Errors
    /// As for [`Set::contains`].
    pub fn first(&self, tx: &mut impl Read, keys: impl RangeBounds<K>) -> Result<Option<K>, Abort> {
        Ok(self.0.first(tx, keys)?.map(|(key, ())| key))
    }

    /// Counts the keys.
    ///
    /// # Errors
    /// As for [`Set::contains`].
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.0.count(tx)
    }

    /// Checks the invariants of the tree. Returns the number of keys.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.0.check(tx)
    }
}

/// The number of times that a key is present: a number with its own type, so that a map is never mistaken for a multiset.
#[derive(Clone, Copy)]
struct Times(u64);

impl Word for Times {
    const TYPE: u8 = 14;
    fn to_word(self) -> u64 {
        self.0
    }
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

/// A persistent multiset of words.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_structures::MultiSet;
///
/// let words = worker.run(|tx| MultiSet::<u64>::create(tx, root))?;
/// worker.run(|tx| [3, 5, 3].into_iter().try_for_each(|word| words.insert(tx, word).map(drop)))?;
/// assert_eq!(worker.view(|tx| words.times(tx, 3))?, 2);
/// worker.run(|tx| words.remove(tx, 3))?;
/// assert_eq!(worker.view(|tx| words.times(tx, 3))?, 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct MultiSet<K>(RedBlackTree<K, Times>);

impl<K> Clone for MultiSet<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for MultiSet<K> {}

impl<K: Word + Ord> MultiSet<K> {
    /// Creates an empty multiset under the root word `root`, or opens the multiset that is already there.
    ///
    /// # Errors
    /// Returns [`Error::WrongStructure`] if `root` refers to something else, and an error if the pool is full or after a conflict.
    pub fn create(tx: &mut impl Transaction, root: PersistentAddress) -> Result<Self, Abort> {
        RedBlackTree::create(tx, root).map(Self)
    }

    /// Opens the multiset under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if there is none, and [`Error::WrongStructure`] if something else is there.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        RedBlackTree::open(tx, root).map(Self)
    }

    /// Returns how many times `key` is present.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the multiset is damaged.
    pub fn times(&self, tx: &mut impl Read, key: K) -> Result<u64, Abort> {
        Ok(self.0.get(tx, key)?.map_or(0, |times| times.0))
    }

    /// Inserts `key` once more. Returns how many times it is present now.
    ///
    /// # Errors
    /// Returns an error if the pool is full, and the errors of [`MultiSet::times`] and [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: K) -> Result<u64, Abort> {
        let times = self.times(tx, key)?;
        let Some(more) = times.checked_add(1) else {
            return Err(tx.fail(Error::damaged("the multiset has a key too often")));
        };
        self.0.insert(tx, key, Times(more))?;
        Ok(more)
    }

    /// Removes `key` once. Returns whether it was there.
    ///
    /// # Errors
    /// As for [`MultiSet::times`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<bool, Abort> {
        match self.times(tx, key)? {
            0 => return Ok(false),
            1 => drop(self.0.remove(tx, key)?),
            times => drop(self.0.insert(tx, key, Times(times - 1))?),
        }
        Ok(true)
    }

    /// Calls `visit` with the keys in `keys`, ascending, and how many times each is present.
    ///
    /// # Errors
    /// Returns the errors of [`MultiSet::times`] and `visit`.
    pub fn range(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, u64) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.0.range(tx, keys, |key, times| visit(key, times.0))
    }

    /// Counts the keys, each as many times as it is present.
    ///
    /// # Errors
    /// As for [`MultiSet::times`].
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut count = 0u64;
        self.0.for_each(tx, |_, times| {
            count = count.saturating_add(times.0);
            Ok(())
        })?;
        Ok(count)
    }

    /// Checks the invariants of the tree, and that every key is present at least once. Returns the number of keys, each counted as many times as it
    /// is present.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.0.check(tx)?;
        let mut is_absent = false;
        self.0.for_each(tx, |_, times| {
            is_absent |= times.0 == 0;
            Ok(())
        })?;
        if is_absent {
            return Err(tx.fail(Error::damaged("the multiset has a key that is there no times")));
        }
        self.count(tx)
    }
}
