//! A chained hash table with a fixed number of buckets.
//!
//! ```text
//! header    word 0 tag (parameter: words in a value) · word 1 buckets · word 2 their address · word 3 initialised
//! bucket    one word: the first node of its chain, 0 if none
//! node      word 0 the next node, 0 if none · word 1 key · from word 2 the value
//! ```
//!
//! Buckets form groups of as many as fit a line. A key's group is the upper part of the product of its mixed word, without the lowest three bits, and
//! the number of groups, which therefore need not be a power of two. The three bits choose the bucket in the group. So consecutive keys share a line
//! but not a bucket, and other keys, even with the same lowest bits, are spread out. An insertion writes its node, the bucket and the allocator's
//! bit; a removal writes the one word that refers to the node.
//!
//! Invariants: a chain ends; every key is in its own bucket's chain, once.

use std::marker::PhantomData;

use super::chain::Chains;
use strandline_core::error::{Error, Result};
use strandline_core::memory::{LINE_WORDS, PersistentAddress};
use strandline_core::structures::header::Kind;
use strandline_core::structures::words;
use strandline_core::structures::{value::Value, value::Word};
use strandline_core::transaction::{Abort, Read, Runner, Transaction};

const KIND: Kind = Kind::HashTable;

/// A persistent hash table.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_structures::HashTable;
///
/// // 64 buckets; a value has two words.
/// let points = HashTable::<u64, [u64; 2]>::create(&mut worker, root, 64, 2)?;
/// worker.run(|tx| points.insert(tx, 7, &[3, 4]))?;
/// assert_eq!(worker.run(|tx| points.insert(tx, 7, &[5, 6]))?, Some([3, 4]), "the old value");
/// assert_eq!(worker.view(|tx| points.get(tx, 7))?, Some([5, 6]));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct HashTable<K, V> {
    chains: Chains<V>,
    key: PhantomData<fn() -> K>,
}

impl<K, V> Clone for HashTable<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for HashTable<K, V> {}

/// Spreads a key's word over all bits (the finaliser of MurmurHash3).
fn mix(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

/// Returns the bucket of a key's word, among so many.
fn bucket(key: u64, buckets: u64) -> u64 {
    let groups = buckets / LINE_WORDS;
    if groups == 0 {
        return bucket_of_few(key, buckets);
    }
    let mixed = mix(key / LINE_WORDS);
    // Uses the mixed word, so that keys which are all multiples of eight do not all have the same bucket of their groups.
    words::bucket(mixed, groups) * LINE_WORDS + (key ^ mixed) % LINE_WORDS
}

#[cold]
#[inline(never)]
fn bucket_of_few(key: u64, buckets: u64) -> u64 {
    words::bucket(mix(key), buckets)
}

impl<K: Word + Eq, V: Value> HashTable<K, V> {
    fn tag() -> u64 {
        KIND.tag(K::TYPE, V::TYPE)
    }

    /// Creates a table of `buckets` buckets for values of `value_words` words under the root word `root`. If a table of the same sizes is already
    /// there, completes it if its creation was interrupted, and opens it.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if a size is 0 or too large, or `value_words` is not what the type of values takes, [`Error::WrongStructure`] if
    /// `root` refers to something else, an error if the pool is full, and the errors of [`Runner::run`].
    pub fn create(
        runner: &mut impl Runner,
        root: PersistentAddress,
        buckets: u64,
        value_words: u64,
    ) -> Result<Self> {
        if buckets == 0 {
            return Err(Error::Parameter("a hash table needs a bucket".into()));
        }
        let chains = Chains::create(runner, KIND, root, Self::tag(), buckets, value_words)?;
        Ok(Self { chains, key: PhantomData })
    }

    /// Opens the table under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if there is none, [`Error::WrongStructure`] if something else is there, and [`Error::Incomplete`] if its creation
    /// was interrupted.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        Ok(Self { chains: Chains::open(tx, KIND, root, Self::tag())?, key: PhantomData })
    }

    /// Returns the number of buckets, fixed when the table is created. If there are more than seven, those after the last multiple of eight are never
    /// used.
    pub fn buckets(&self) -> u64 {
        self.chains.length()
    }

    /// Returns the number of words in a value.
    pub fn value_words(&self) -> u64 {
        self.chains.value_words()
    }

    /// Returns the word of `key`'s bucket. Operations on the key use memory that is reachable from this word.
    pub fn bucket_of(&self, key: K) -> PersistentAddress {
        self.cell(key.to_word())
    }

    fn cell(&self, key: u64) -> PersistentAddress {
        self.chains.cell(bucket(key, self.chains.length()))
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the table is damaged.
    pub fn get(&self, tx: &mut impl Read, key: K) -> Result<Option<V>, Abort> {
        let key = key.to_word();
        self.chains.get(tx, self.cell(key), key)
    }

    /// Returns whether `key` is there.
    ///
    /// # Errors
    /// As for [`HashTable::get`].
    pub fn contains_key(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        let key = key.to_word();
        self.chains.contains(tx, self.cell(key), key)
    }

    /// Sets the value of `key`. Returns the old value, if there was one.
    ///
    /// # Errors
    /// Returns an error if the value does not have the table's number of words or if the pool is full, and the errors of [`HashTable::get`].
    pub fn insert(&self, tx: &mut impl Transaction, key: K, value: &V) -> Result<Option<V>, Abort> {
        let key = key.to_word();
        self.chains.insert(tx, self.cell(key), key, value)
    }

    /// Removes `key`. Returns its value, if it was there.
    ///
    /// # Errors
    /// As for [`HashTable::get`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<Option<V>, Abort> {
        let key = key.to_word();
        self.chains.remove(tx, self.cell(key), key)
    }

    /// Removes `key` without reading its value. Returns whether it was there.
    ///
    /// # Errors
    /// As for [`HashTable::remove`].
    pub fn delete(&self, tx: &mut impl Transaction, key: K) -> Result<bool, Abort> {
        let key = key.to_word();
        self.chains.delete(tx, self.cell(key), key)
    }

    /// Calls `visit` with every key and value, in no particular order.
    ///
    /// # Errors
    /// Returns the errors of [`HashTable::get`] and `visit`.
    pub fn for_each(
        &self,
        tx: &mut impl Read,
        mut visit: impl FnMut(K, V) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        for index in 0..self.buckets() {
            self.chains.for_each_in(tx, index, |key, value| visit(K::from_word(key), value))?;
        }
        Ok(())
    }

    /// Counts the keys.
    ///
    /// # Errors
    /// As for [`HashTable::get`].
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.chains.count(tx)
    }

    /// Checks the table's invariants. Returns the number of keys.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let buckets = self.buckets();
        let belongs = |index, key| bucket(key, buckets) == index;
        self.chains.check(tx, belongs, "a key twice or in the wrong bucket")
    }
}
