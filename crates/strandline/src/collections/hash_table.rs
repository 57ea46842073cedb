//! A chained hash table with a fixed number of buckets.
//!
//! ```text
//! header    word 0 tag (parameter: words in a value) · word 1 buckets · word 2 their address · word 3 initialised
//! bucket    one word: the first node of its chain, 0 if none
//! node      word 0 the next node, 0 if none · word 1 key · from word 2 the value
//! ```
//!
//! A key's bucket is the upper part of its mixed word times the number of buckets, which then need not be a
//! power of two. A new node goes to the front of its chain: its own words, one bucket word and the
//! allocator's bit are all that an insertion writes; a removal writes the one word that led to the node. No
//! count is kept, so operations on different chains do not conflict.
//!
//! Invariants: a chain ends; every key is in its own bucket's chain, once.

use std::marker::PhantomData;

use super::header::{CircleGuard, Kind, PARAMETER_MASK};
use super::value::{Value, Word, with_buffer};
use super::words::Words;
use crate::error::{Error, Result};
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read, Runner, Transaction};

const KIND: Kind = Kind::HashTable;
const NEXT: u64 = 0;
const VALUE: u64 = 2;

/// A persistent hash table.
pub struct HashTable<K, V> {
    buckets: Words,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for HashTable<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for HashTable<K, V> {}

/// A node of a chain.
struct Node {
    /// The word that leads to it.
    cell: PersistentAddress,
    at: PersistentAddress,
    next: u64,
    /// The first word of its value.
    first: u64,
}

/// Spreads a key's word over all bits (the finaliser of MurmurHash3).
#[inline(always)]
fn mix(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

/// The bucket of a hash.
#[inline(always)]
pub(super) fn bucket(hash: u64, buckets: u64) -> u64 {
    ((u128::from(hash) * u128::from(buckets)) >> 64) as u64
}

impl<K: Word + Eq, V: Value> HashTable<K, V> {
    fn tag() -> u64 {
        KIND.tag(K::TYPE, V::TYPE)
    }

    /// Creates a table of `buckets` buckets for values of `value_words` words under the root word `root`. A
    /// table of the same sizes that is there already is completed, if its creation was interrupted, and
    /// opened.
    ///
    /// # Errors
    /// A size is 0 or too large, or `value_words` is not what the type of values takes
    /// ([`Error::Parameter`]); the pool is full; something else hangs from `root`
    /// ([`Error::WrongStructure`]); as [`Runner::run`].
    pub fn create(
        runner: &mut impl Runner,
        root: PersistentAddress,
        buckets: u64,
        value_words: u64,
    ) -> Result<Self> {
        if buckets == 0 {
            return Err(Error::Parameter("a hash table needs a bucket".into()));
        }
        if !(1..=PARAMETER_MASK).contains(&value_words) || V::WORDS.is_some_and(|words| words != value_words)
        {
            return Err(Error::Parameter(format!(
                "this hash table's values cannot have {value_words} words"
            )));
        }
        let buckets = Words::create(runner, KIND, root, Self::tag() | value_words, buckets, |_| 0)?;
        Ok(Self { buckets, types: PhantomData })
    }

    /// Opens the table under the root word `root`.
    ///
    /// # Errors
    /// There is none ([`Error::Missing`]), or something else ([`Error::WrongStructure`]), or one that was not
    /// created completely ([`Error::Incomplete`]).
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        let buckets = Words::open(tx, KIND, root, Self::tag())?;
        if buckets.length == 0
            || buckets.parameter == 0
            || V::WORDS.is_some_and(|words| words != buckets.parameter)
        {
            return Err(tx.fail(KIND.wrong(root)));
        }
        Ok(Self { buckets, types: PhantomData })
    }

    /// Number of buckets.
    pub fn buckets(&self) -> u64 {
        self.buckets.length
    }

    /// Words in a value.
    pub fn value_words(&self) -> u64 {
        self.buckets.parameter
    }

    #[inline]
    fn cell(&self, key: K) -> PersistentAddress {
        self.buckets.word(bucket(mix(key.to_word()), self.buckets.length))
    }

    /// The first node at or after the word `cell` that `accept` wants, and the first node of all.
    #[inline]
    fn walk(
        tx: &mut impl Read,
        mut cell: PersistentAddress,
        mut accept: impl FnMut(K) -> bool,
    ) -> Result<(u64, Option<Node>), Abort> {
        let head = tx.read(cell)?;
        let mut at = PersistentAddress::new(head);
        let mut guard = CircleGuard::new();
        while !at.is_null() {
            let mut words = [0; 3];
            tx.read_range(at, &mut words)?;
            let [next, key, first] = words;
            if accept(K::from_word(key)) {
                return Ok((head, Some(Node { cell, at, next, first })));
            }
            if guard.closes(at) {
                return Err(KIND.damaged(tx, at, "a chain that runs in a circle"));
            }
            cell = at.word(NEXT);
            at = PersistentAddress::new(next);
        }
        Ok((head, None))
    }

    /// Calls `body` with the words of a node's value.
    #[inline]
    fn with_value<T: Read, R>(
        &self,
        tx: &mut T,
        at: PersistentAddress,
        first: u64,
        body: impl FnOnce(&mut T, &[u64]) -> Result<R, Abort>,
    ) -> Result<R, Abort> {
        with_buffer(self.value_words(), |words| {
            words[0] = first;
            tx.read_range(at.word(VALUE + 1), &mut words[1..])?;
            body(tx, words)
        })
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// A conflict; the table is damaged.
    #[inline]
    pub fn get(&self, tx: &mut impl Read, key: K) -> Result<Option<V>, Abort> {
        match Self::walk(tx, self.cell(key), |other| other == key)?.1 {
            Some(node) => self.with_value(tx, node.at, node.first, |_, words| Ok(Some(V::decode(words)))),
            None => Ok(None),
        }
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// As [`HashTable::get`].
    #[inline]
    pub fn contains_key(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        Ok(Self::walk(tx, self.cell(key), |other| other == key)?.1.is_some())
    }

    /// Gives `key` the value `value`; returns the old value, if there was one.
    ///
    /// # Errors
    /// The value does not have the table's number of words; the pool is full; as [`HashTable::get`].
    #[inline]
    pub fn insert(&self, tx: &mut impl Transaction, key: K, value: &V) -> Result<Option<V>, Abort> {
        if value.words() != self.value_words() {
            let (is, should) = (value.words(), self.value_words());
            return Err(tx.fail(Error::Parameter(format!(
                "a value of {is} words in a hash table for values of {should}"
            ))));
        }
        let cell = self.cell(key);
        let (head, node) = Self::walk(tx, cell, |other| other == key)?;
        with_buffer(self.value_words(), |new| {
            value.encode(new);
            let Some(node) = node else {
                let node = tx.alloc(8 * (VALUE + self.value_words()))?;
                tx.write_range(node, &[head, key.to_word()])?;
                tx.write_range(node.word(VALUE), new)?;
                tx.write(cell, node.offset())?;
                return Ok(None);
            };
            self.with_value(tx, node.at, node.first, |tx, old| {
                for (i, (&old, &new)) in old.iter().zip(&*new).enumerate() {
                    if old != new {
                        tx.write(node.at.word(VALUE + i as u64), new)?;
                    }
                }
                Ok(Some(V::decode(old)))
            })
        })
    }

    /// Removes `key`; returns its value, if it was there.
    ///
    /// # Errors
    /// As [`HashTable::get`] and [`Transaction::free`].
    #[inline]
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<Option<V>, Abort> {
        let Some(node) = Self::walk(tx, self.cell(key), |other| other == key)?.1 else { return Ok(None) };
        let old = self.with_value(tx, node.at, node.first, |_, words| Ok(V::decode(words)))?;
        tx.write(node.cell, node.next)?;
        tx.free(node.at)?;
        Ok(Some(old))
    }

    /// Removes `key` without reading its value; whether it was there.
    ///
    /// # Errors
    /// As [`HashTable::remove`].
    #[inline]
    pub fn delete(&self, tx: &mut impl Transaction, key: K) -> Result<bool, Abort> {
        let Some(node) = Self::walk(tx, self.cell(key), |other| other == key)?.1 else { return Ok(false) };
        tx.write(node.cell, node.next)?;
        tx.free(node.at)?;
        Ok(true)
    }

    /// Calls `visit` with every key and value, in no particular order.
    ///
    /// # Errors
    /// As [`HashTable::get`]; those of `visit`.
    pub fn for_each(
        &self,
        tx: &mut impl Read,
        mut visit: impl FnMut(K, V) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        for index in 0..self.buckets.length {
            let mut at = PersistentAddress::new(tx.read(self.buckets.word(index))?);
            let mut guard = CircleGuard::new();
            while !at.is_null() {
                if guard.closes(at) {
                    return Err(KIND.damaged(tx, at, "a chain that runs in a circle"));
                }
                let mut words = [0; 3];
                tx.read_range(at, &mut words)?;
                let [next, key, first] = words;
                let value = self.with_value(tx, at, first, |_, words| Ok(V::decode(words)))?;
                visit(K::from_word(key), value)?;
                at = PersistentAddress::new(next);
            }
        }
        Ok(())
    }

    /// Number of keys, by counting them.
    ///
    /// # Errors
    /// As [`HashTable::get`].
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut count = 0;
        for index in 0..self.buckets.length {
            Self::walk(tx, self.buckets.word(index), |_| {
                count += 1;
                false
            })?;
        }
        Ok(count)
    }

    /// Checks the table's invariants; returns the number of keys.
    ///
    /// # Errors
    /// [`Error::Damaged`]: one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut count = 0;
        for index in 0..self.buckets.length {
            let cell = self.buckets.word(index);
            let mut keys = Vec::new();
            let mut astray = false;
            Self::walk(tx, cell, |key| {
                astray |= self.cell(key) != cell;
                keys.push(key.to_word());
                false
            })?;
            count += keys.len() as u64;
            keys.sort_unstable();
            if astray || keys.windows(2).any(|two| two[0] == two[1]) {
                return Err(KIND.damaged(tx, cell, "a key twice or in the wrong bucket"));
            }
        }
        Ok(count)
    }
}
