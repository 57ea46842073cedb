//! Cells and nodes of a key-value store, as their words have them.

use super::{KIND, KeyValueStore, hash};
use crate::memory::PersistentAddress;
use crate::structures::bytes::{put_bytes, read_bytes};
use crate::transaction::{Abort, Read};

// Numbers of words in a node.
pub(super) const NEXT: u64 = 0;
pub(super) const LENGTHS: u64 = 1;
pub(super) const KEY: u64 = 2;
/// The position of the key's length in a node's word of lengths.
pub(super) const KEY_BYTES_SHIFT: u32 = 29;
/// The position of the bits of the key's hash in that word.
const HASH_SHIFT: u32 = 46;
/// The position of the filter in a cell.
const FILTER_SHIFT: u32 = 48;
/// The bit that is set in a cell that refers to a table.
pub(super) const TABLE: u64 = 1;

/// A cell that refers to a chain, or is empty.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub at: PersistentAddress,
    /// The cell's content.
    pub word: u64,
    /// The number of further tables between the buckets and this cell.
    pub depth: u32,
    /// The address of the table, or of the buckets, that has the cell.
    pub table: PersistentAddress,
}

impl Cell {
    /// Returns the address of the first node, or null if the chain is empty.
    pub fn first(&self) -> PersistentAddress {
        PersistentAddress::new(self.word & ((1 << FILTER_SHIFT) - 1))
    }

    /// Returns the filter of the chain.
    pub fn filter(&self) -> u64 {
        self.word >> FILTER_SHIFT
    }

    /// Returns whether the chain may have a key with this hash.
    pub fn may_have(&self, hash: u64) -> bool {
        self.filter() & filter_bit(hash) != 0
    }
}

/// Returns the bit that a key with this hash sets in the filter of its chain. It depends on all bits of the hash, since the keys of a chain have
/// some of them in common.
pub(super) fn filter_bit(hash: u64) -> u64 {
    1 << (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60)
}

/// Returns the content of a cell whose chain begins with the node at `first`.
pub(super) fn cell_word(first: PersistentAddress, filter: u64) -> u64 {
    if first.is_null() { 0 } else { first.offset() | filter << FILTER_SHIFT }
}

/// Returns the lengths of a new node and bits of its key's hash, as the node has them in one word.
pub(super) fn node_lengths(hash: u64, key_bytes: u64, value_bytes: u64) -> u64 {
    u64::from(hash as u32 >> 14) << HASH_SHIFT | key_bytes << KEY_BYTES_SHIFT | value_bytes
}

/// A node of a chain.
#[derive(Clone, Copy)]
pub(super) struct Node {
    /// The word that refers to the node.
    pub cell: PersistentAddress,
    pub at: PersistentAddress,
    pub next: PersistentAddress,
    pub lengths: u64,
    pub key_bytes: u64,
    pub value_bytes: u64,
}

impl Node {
    /// Decodes the first two words of the node at `at`.
    pub fn decode(
        tx: &mut impl Read,
        cell: PersistentAddress,
        at: PersistentAddress,
        [next, lengths]: [u64; 2],
    ) -> Result<Self, Abort> {
        let bits = |from: u32, to: u32| lengths >> from & ((1 << (to - from)) - 1);
        let (key_bytes, value_bytes) = (bits(KEY_BYTES_SHIFT, HASH_SHIFT), bits(0, KEY_BYTES_SHIFT));
        if key_bytes > KeyValueStore::MAX_KEY_BYTES || value_bytes > KeyValueStore::MAX_VALUE_BYTES {
            return Err(KIND.damaged(tx, at, "an impossible length"));
        }
        Ok(Self { cell, at, next: PersistentAddress::new(next), lengths, key_bytes, value_bytes })
    }

    pub fn key(&self) -> PersistentAddress {
        self.at.word(KEY)
    }

    pub fn value(&self) -> PersistentAddress {
        self.key().word(self.key_bytes.div_ceil(8))
    }

    /// Returns the hash of the key.
    pub fn hash(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut key = Vec::new();
        read_bytes(tx, self.key(), self.key_bytes, &mut key)?;
        Ok(hash(&key))
    }

    /// Returns whether the node has the bits of this hash.
    pub fn is_of(&self, hash: u64) -> bool {
        self.lengths == node_lengths(hash, self.key_bytes, self.value_bytes)
    }

    /// Returns the node with its lengths read again in this transaction: an optimistic search may have seen another size of the value.
    pub fn reloaded(self, tx: &mut impl Read) -> Result<Self, Abort> {
        let lengths = tx.read(self.at.word(LENGTHS))?;
        Self::decode(tx, self.cell, self.at, [self.next.offset(), lengths])
    }

    /// Returns the number of words in the whole node.
    pub fn words(&self) -> u64 {
        KEY + self.key_bytes.div_ceil(8) + self.value_bytes.div_ceil(8)
    }
}

/// Encodes a node into `words`; the part before its value, if `value` is empty.
#[inline]
pub(super) fn put_node(words: &mut [u64], head: [u64; KEY as usize], key: &[u8], value: &[u64]) {
    let (to, words) = words.split_at_mut(KEY as usize);
    to.copy_from_slice(&head);
    put_bytes(words, key);
    for (word, &value) in words.iter_mut().skip(key.len().div_ceil(8)).zip(value) {
        *word = value;
    }
}
