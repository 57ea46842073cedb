//! Chains of nodes, each with its first node in one word of an array: a hash table's buckets, a graph's vertices.
//!
//! ```text
//! cell   one word: the first node of its chain, 0 if none
//! node   word 0 the next node, 0 if none · word 1 key · from word 2 the value
//! ```
//!
//! A new node goes to the front of its chain: an insertion only writes the node's own words, one cell and the allocator's bit; a removal writes the
//! one word that refers to the node. There is no count, so operations on different chains do not conflict. The tag's parameter is the number of words
//! in a value.

use std::hint::select_unpredictable;
use std::marker::PhantomData;

use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::bytes::check_length;
use strandline_core::structures::words::Words;
use strandline_core::structures::{header::CircleGuard, header::Kind, header::PARAMETER_MASK};
use strandline_core::structures::{value::Value, value::with_buffer};
use strandline_core::transaction::{Abort, Read, Runner, Transaction};

const NEXT: u64 = 0;
const KEY: u64 = 1;
const VALUE: u64 = 2;

/// Chains of pairs of a word and a value.
pub(super) struct Chains<V> {
    cells: Words,
    kind: Kind,
    value: PhantomData<fn() -> V>,
}

impl<V> Clone for Chains<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Chains<V> {}

/// A node of a chain.
struct Node {
    /// The word that refers to it.
    cell: PersistentAddress,
    at: PersistentAddress,
    /// Its link to the next one.
    next: u64,
}

/// The facts about a key that a chain's cell and its first node show.
struct Glance<const N: usize> {
    /// The first node and its first words. If there is no node: the cell's line and its words, which are to be ignored.
    at: PersistentAddress,
    words: [u64; N],
    /// True if the key is this node's.
    is_it: bool,
    /// True if the key may be in a later node.
    goes_on: bool,
}

impl<V: Value> Chains<V> {
    /// Creates `length` empty chains for values of `value_words` words, like [`Words::create`].
    pub fn create(
        runner: &mut impl Runner,
        kind: Kind,
        root: PersistentAddress,
        tag: u64,
        length: u64,
        value_words: u64,
    ) -> Result<Self> {
        if !(1..=PARAMETER_MASK).contains(&value_words) || V::WORDS.is_some_and(|words| words != value_words)
        {
            return Err(Error::Parameter(format!(
                "values of {value_words} words are not what this {} can hold",
                kind.name()
            )));
        }
        let cells = Words::create(runner, kind, root, tag | value_words, length, |_| 0)?;
        Ok(Self { cells, kind, value: PhantomData })
    }

    /// Opens complete chains.
    pub fn open(tx: &mut impl Read, kind: Kind, root: PersistentAddress, tag: u64) -> Result<Self, Abort> {
        let cells = Words::open(tx, kind, root, tag)?;
        if cells.length == 0 || cells.parameter == 0 || V::WORDS.is_some_and(|words| words != cells.parameter)
        {
            return Err(tx.fail(kind.wrong(root)));
        }
        Ok(Self { cells, kind, value: PhantomData })
    }

    /// Returns the number of chains.
    pub fn length(&self) -> u64 {
        self.cells.length
    }

    /// Returns the number of words in a value.
    pub fn value_words(&self) -> u64 {
        self.cells.parameter
    }

    /// Returns the cell of chain `index`; the index must be less than the length.
    pub fn cell(&self, index: u64) -> PersistentAddress {
        self.cells.word(index)
    }

    /// Returns the first node after the word `cell` that `accept` accepts, and the first node of all.
    fn walk(
        &self,
        tx: &mut impl Read,
        mut cell: PersistentAddress,
        mut accept: impl FnMut(u64) -> bool,
    ) -> Result<(u64, Option<Node>), Abort> {
        let head = tx.read(cell)?;
        let mut at = PersistentAddress::new(head);
        let mut guard = CircleGuard::default();
        while !at.is_null() {
            let [next, key] = tx.read_array(at)?;
            if accept(key) {
                return Ok((head, Some(Node { cell, at, next })));
            }
            if guard.closes(at) {
                return Err(self.damaged(tx, at, "a chain that runs in a circle"));
            }
            cell = at.near(8 * NEXT);
            at = PersistentAddress::new(next);
        }
        Ok((head, None))
    }

    fn find(
        &self,
        tx: &mut impl Read,
        cell: PersistentAddress,
        key: u64,
    ) -> Result<(u64, Option<Node>), Abort> {
        self.walk(tx, cell, |other| other == key)
    }

    /// Searches `key` in the chain of `cell` as far as its first node. Whether there is a node, and whether it has the key, is unpredictable. So
    /// nothing branches on that, and the processor can continue speculatively.
    fn glance<const N: usize>(
        tx: &mut impl Read,
        cell: PersistentAddress,
        key: u64,
    ) -> Result<Glance<N>, Abort> {
        let head = tx.read(cell)?;
        // If there is no node, read words that are in the cache.
        let at = PersistentAddress::new(select_unpredictable(head == 0, cell.line().offset(), head));
        let words = tx.read_array(at)?;
        let [next, other] = [words[NEXT as usize], words[KEY as usize]];
        // The highest bit is set for all words except 0. (The compiler would branch on each of several conditions joined by `&`.)
        let some = |word: u64| word | word.wrapping_neg();
        let goes_on = some(head) & some(other ^ key) & some(next);
        Ok(Glance { at, words, is_it: (head != 0) & (other == key), goes_on: goes_on >> 63 != 0 })
    }

    /// Ends the transaction because a chain contradicts itself.
    #[cold]
    pub fn damaged(&self, tx: &mut impl Read, at: PersistentAddress, how: &str) -> Abort {
        self.kind.damaged(tx, at, how)
    }

    /// Calls `body` with the words of a node's value.
    fn with_value<T: Read, R>(
        &self,
        tx: &mut T,
        at: PersistentAddress,
        body: impl FnOnce(&mut T, &[u64]) -> Result<R, Abort>,
    ) -> Result<R, Abort> {
        check_length(tx, at, VALUE + self.value_words())?;
        with_buffer(self.value_words(), |words| {
            match &mut *words {
                [word] => *word = tx.read(at.word(VALUE))?,
                words => tx.read_range(at.word(VALUE), words)?,
            }
            body(tx, words)
        })
    }

    /// Returns the value of `key` in the chain of `cell`.
    pub fn get(&self, tx: &mut impl Read, cell: PersistentAddress, key: u64) -> Result<Option<V>, Abort> {
        let mut cell = cell;
        // Nodes with longer values may span several lines.
        if V::WORDS == Some(1) {
            let first = Self::glance::<{ VALUE as usize + 1 }>(tx, cell, key)?;
            if !first.goes_on {
                return Ok(first.is_it.then(|| V::decode(&first.words[VALUE as usize..])));
            }
            cell = first.at.near(8 * NEXT);
        }
        match self.find(tx, cell, key)?.1 {
            Some(node) => self.with_value(tx, node.at, |_, words| Ok(Some(V::decode(words)))),
            None => Ok(None),
        }
    }

    /// Returns whether `key` is in the chain of `cell`.
    pub fn contains(&self, tx: &mut impl Read, cell: PersistentAddress, key: u64) -> Result<bool, Abort> {
        let first = Self::glance::<{ VALUE as usize }>(tx, cell, key)?;
        Ok(if first.goes_on { self.find(tx, first.at.near(8 * NEXT), key)?.1.is_some() } else { first.is_it })
    }

    /// Sets the value of `key` in the chain of `cell`. Returns the old value, if there was one.
    pub fn insert(
        &self,
        tx: &mut impl Transaction,
        cell: PersistentAddress,
        key: u64,
        value: &V,
    ) -> Result<Option<V>, Abort> {
        if value.words() != self.value_words() {
            let (is, should) = (value.words(), self.value_words());
            return Err(tx.fail(Error::Parameter(format!(
                "a value of {is} words in a {} for values of {should}",
                self.kind.name()
            ))));
        }
        let (head, node) = self.find(tx, cell, key)?;
        if node.is_none() && V::WORDS == Some(1) {
            let mut word = [0];
            value.encode(&mut word);
            let node = tx.alloc(8 * (VALUE + 1))?;
            tx.write_array(node, &[head, key, word[0]])?;
            tx.write(cell, node.offset())?;
            return Ok(None);
        }
        with_buffer(VALUE + self.value_words(), |words| {
            let (node_words, new) = words.split_at_mut(VALUE as usize);
            value.encode(new);
            let Some(node) = node else {
                node_words.copy_from_slice(&[head, key]);
                let node = tx.alloc(8 * (VALUE + self.value_words()))?;
                tx.write_range(node, words)?;
                tx.write(cell, node.offset())?;
                return Ok(None);
            };
            self.with_value(tx, node.at, |tx, old| {
                for (i, (&old, &new)) in old.iter().zip(&*new).enumerate() {
                    if old != new {
                        tx.write(node.at.word(VALUE + i as u64), new)?;
                    }
                }
                Ok(Some(V::decode(old)))
            })
        })
    }

    /// Removes `key` from the chain of `cell`. Returns its value, if it was there.
    pub fn remove(
        &self,
        tx: &mut impl Transaction,
        cell: PersistentAddress,
        key: u64,
    ) -> Result<Option<V>, Abort> {
        let Some(node) = self.find(tx, cell, key)?.1 else { return Ok(None) };
        let old = self.with_value(tx, node.at, |_, words| Ok(V::decode(words)))?;
        self.unlink(tx, &node)?;
        Ok(Some(old))
    }

    /// Removes `key` from the chain of `cell` without reading its value. Returns whether it was there.
    pub fn delete(
        &self,
        tx: &mut impl Transaction,
        cell: PersistentAddress,
        key: u64,
    ) -> Result<bool, Abort> {
        let Some(node) = self.find(tx, cell, key)?.1 else { return Ok(false) };
        self.unlink(tx, &node)?;
        Ok(true)
    }

    /// Takes a node out of its chain.
    fn unlink(&self, tx: &mut impl Transaction, node: &Node) -> Result<(), Abort> {
        tx.write(node.cell, node.next)?;
        tx.free(node.at)
    }

    /// Calls `visit` with every pair of chain `index`.
    pub fn for_each_in(
        &self,
        tx: &mut impl Read,
        index: u64,
        mut visit: impl FnMut(u64, V) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let mut at = PersistentAddress::new(tx.read(self.cell(index))?);
        let mut guard = CircleGuard::default();
        while !at.is_null() {
            if guard.closes(at) {
                return Err(self.damaged(tx, at, "a chain that runs in a circle"));
            }
            let key = tx.read(at.word(KEY))?;
            let value = self.with_value(tx, at, |_, words| Ok(V::decode(words)))?;
            visit(key, value)?;
            at = PersistentAddress::new(tx.read(at.word(NEXT))?);
        }
        Ok(())
    }

    /// Counts the pairs.
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut count = 0;
        for index in 0..self.length() {
            self.walk(tx, self.cell(index), |_| {
                count += 1;
                false
            })?;
        }
        Ok(count)
    }

    /// Checks that every chain ends and holds keys that `belongs(index, key)` accepts, each once. Returns the number of pairs.
    pub fn check(
        &self,
        tx: &mut impl Read,
        belongs: impl Fn(u64, u64) -> bool,
        how: &str,
    ) -> Result<u64, Abort> {
        let mut count = 0;
        for index in 0..self.length() {
            let cell = self.cell(index);
            let mut keys = Vec::new();
            let mut is_wrong = false;
            self.walk(tx, cell, |key| {
                is_wrong |= !belongs(index, key);
                keys.push(key);
                false
            })?;
            count += keys.len() as u64;
            keys.sort_unstable();
            if is_wrong || keys.windows(2).any(|two| two[0] == two[1]) {
                return Err(self.damaged(tx, cell, how));
            }
        }
        Ok(count)
    }
}
