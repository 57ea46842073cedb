//! A key-value store: a hash index over byte strings of any length.
//!
//! ```text
//! header   word 0 tag · word 1 buckets · word 2 their address · word 3 initialised
//! bucket   one word: the first node of its chain, 0 if none
//! node     word 0 the next node, 0 if none
//!          word 1 hash of the key, all 64 bits
//!          word 2 bytes in the key << 32 | bytes in the value
//!          then the key, then the value, each filled up with zeroes to whole words
//! ```
//!
//! A key is compared in full, after hash and length agree. A value that takes as many words as the one before
//! is written over it, and only the words that differ; otherwise a new node takes the old one's place in the
//! chain. The hash is part of the format: it is computed word by word with a folded 128-bit product.
//!
//! Invariants: a chain ends; every key is in its own bucket's chain, once, with its own hash.

use super::hash_table::bucket;
use super::header::{CircleGuard, Kind};
use super::value::with_buffer;
use super::words::Words;
use crate::error::{Error, Result};
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read, Runner, Transaction};

const KIND: Kind = Kind::KeyValueStore;
const NEXT: u64 = 0;
const LENGTHS: u64 = 2;
const KEY: u64 = 3;
/// Words read or written at a time.
const PIECE: usize = 64;

/// A persistent key-value store.
#[derive(Clone, Copy)]
pub struct KeyValueStore {
    buckets: Words,
}

/// A node of a chain.
#[derive(Clone, Copy)]
struct Node {
    /// The word that leads to it.
    cell: PersistentAddress,
    at: PersistentAddress,
    next: u64,
    hash: u64,
    key_bytes: u64,
    value_bytes: u64,
}

impl Node {
    fn key(&self) -> PersistentAddress {
        self.at.word(KEY)
    }

    fn value(&self) -> PersistentAddress {
        self.key().word(self.key_bytes.div_ceil(8))
    }
}

/// The hash of a key.
#[inline]
fn hash(key: &[u8]) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let mut hash = 0x2d35_8dcc_aa6c_78a5 ^ key.len() as u64;
    for piece in key.chunks(8) {
        hash = fold(hash ^ word_of(piece), 0x8bb8_4b93_962e_acc9) ^ hash.rotate_left(23);
    }
    fold(hash ^ 0x4b33_a62e_d433_d4a3, 0x9e37_79b9_7f4a_7c15)
}

/// Up to eight bytes as a word.
#[inline(always)]
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Writes `bytes` from `at` on.
#[inline]
fn write_bytes(tx: &mut impl Transaction, at: PersistentAddress, bytes: &[u8]) -> Result<(), Abort> {
    with_piece(bytes.len(), |buffer| write_bytes_by(tx, at, bytes, buffer))
}

#[inline]
fn write_bytes_by(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    bytes: &[u8],
    buffer: &mut [u64],
) -> Result<(), Abort> {
    for (i, piece) in bytes.chunks(8 * PIECE).enumerate() {
        let words = piece.len().div_ceil(8);
        for (word, bytes) in buffer.iter_mut().zip(piece.chunks(8)) {
            *word = word_of(bytes);
        }
        tx.write_range(at.word((i * PIECE) as u64), &buffer[..words])?;
    }
    Ok(())
}

/// Writes those words of `bytes` that differ from what is at `at`.
fn rewrite_bytes(tx: &mut impl Transaction, at: PersistentAddress, bytes: &[u8]) -> Result<(), Abort> {
    let mut buffer = [0; PIECE];
    for (i, piece) in bytes.chunks(8 * PIECE).enumerate() {
        let at = at.word((i * PIECE) as u64);
        let old = &mut buffer[..piece.len().div_ceil(8)];
        tx.read_range(at, old)?;
        for (j, (&mut old, new)) in old.iter_mut().zip(piece.chunks(8)).enumerate() {
            if old != word_of(new) {
                tx.write(at.word(j as u64), word_of(new))?;
            }
        }
    }
    Ok(())
}

/// Calls `body` with a buffer for the words of so many bytes, or for a piece of them.
#[inline]
fn with_piece<R>(bytes: usize, body: impl FnOnce(&mut [u64]) -> R) -> R {
    with_buffer(bytes.div_ceil(8).min(PIECE) as u64, body)
}

/// Whether the bytes at `at` are `bytes`.
#[inline]
fn equals(tx: &mut impl Read, at: PersistentAddress, bytes: &[u8]) -> Result<bool, Abort> {
    with_piece(bytes.len(), |buffer| equals_by(tx, at, bytes, buffer))
}

#[inline]
fn equals_by(
    tx: &mut impl Read,
    at: PersistentAddress,
    bytes: &[u8],
    buffer: &mut [u64],
) -> Result<bool, Abort> {
    for (i, piece) in bytes.chunks(8 * PIECE).enumerate() {
        let words = &mut buffer[..piece.len().div_ceil(8)];
        tx.read_range(at.word((i * PIECE) as u64), words)?;
        if words.iter().zip(piece.chunks(8)).any(|(&word, bytes)| word != word_of(bytes)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads `length` bytes from `at` on into `bytes`, which grows only as the reading succeeds.
fn read_bytes(
    tx: &mut impl Read,
    at: PersistentAddress,
    length: u64,
    bytes: &mut Vec<u8>,
) -> Result<(), Abort> {
    let mut buffer = [0; PIECE];
    let words = length.div_ceil(8);
    bytes.clear();
    bytes.reserve(length.min(8 * PIECE as u64) as usize);
    let mut done = 0;
    while done < words {
        let now = &mut buffer[..(words - done).min(PIECE as u64) as usize];
        tx.read_range(at.word(done), now)?;
        for word in &*now {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        done += now.len() as u64;
    }
    bytes.truncate(length as usize);
    Ok(())
}

impl KeyValueStore {
    /// The longest key in bytes.
    pub const MAX_KEY_BYTES: u64 = 1 << 16;
    /// The longest value in bytes. What a transaction can write is less, unless the pool's logs are large.
    pub const MAX_VALUE_BYTES: u64 = 1 << 28;

    /// Creates a store of `buckets` buckets under the root word `root`. A store of the same size that is there
    /// already is completed, if its creation was interrupted, and opened.
    ///
    /// # Errors
    /// `buckets` is 0 or too large ([`Error::Parameter`]); the pool is full; something else hangs from `root`
    /// ([`Error::WrongStructure`]); as [`Runner::run`].
    pub fn create(runner: &mut impl Runner, root: PersistentAddress, buckets: u64) -> Result<Self> {
        if buckets == 0 {
            return Err(Error::Parameter("a key-value store needs a bucket".into()));
        }
        Ok(Self { buckets: Words::create(runner, KIND, root, KIND.tag(0, 0), buckets, |_| 0)? })
    }

    /// Opens the store under the root word `root`.
    ///
    /// # Errors
    /// There is none ([`Error::Missing`]), or something else ([`Error::WrongStructure`]), or one that was not
    /// created completely ([`Error::Incomplete`]).
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        let buckets = Words::open(tx, KIND, root, KIND.tag(0, 0))?;
        if buckets.length == 0 {
            return Err(tx.fail(KIND.wrong(root)));
        }
        Ok(Self { buckets })
    }

    /// Number of buckets.
    pub fn buckets(&self) -> u64 {
        self.buckets.length
    }

    fn cell(&self, hash: u64) -> PersistentAddress {
        self.buckets.word(bucket(hash, self.buckets.length))
    }

    /// The node that the word `cell`, which holds `at`, leads to.
    #[inline]
    fn node(tx: &mut impl Read, cell: PersistentAddress, at: PersistentAddress) -> Result<Node, Abort> {
        let mut words = [0; KEY as usize];
        tx.read_range(at, &mut words)?;
        let [next, hash, lengths] = words;
        let node =
            Node { cell, at, next, hash, key_bytes: lengths >> 32, value_bytes: lengths & 0xffff_ffff };
        if node.key_bytes > Self::MAX_KEY_BYTES || node.value_bytes > Self::MAX_VALUE_BYTES {
            return Err(KIND.damaged(tx, at, "an impossible length"));
        }
        Ok(node)
    }

    /// The first word of the chain `cell`, and the node of `key` in it.
    fn find(
        tx: &mut impl Read,
        mut cell: PersistentAddress,
        hash: u64,
        key: &[u8],
    ) -> Result<(u64, Option<Node>), Abort> {
        let head = tx.read(cell)?;
        let mut at = PersistentAddress::new(head);
        let mut guard = CircleGuard::new();
        while !at.is_null() {
            let node = Self::node(tx, cell, at)?;
            if node.hash == hash && node.key_bytes == key.len() as u64 && equals(tx, node.key(), key)? {
                return Ok((head, Some(node)));
            }
            if guard.closes(at) {
                return Err(KIND.damaged(tx, at, "a chain that runs in a circle"));
            }
            cell = at.word(NEXT);
            at = PersistentAddress::new(node.next);
        }
        Ok((head, None))
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// A conflict; the store is damaged.
    pub fn get(&self, tx: &mut impl Read, key: &[u8]) -> Result<Option<Vec<u8>>, Abort> {
        let mut value = Vec::new();
        Ok(self.get_into(tx, key, &mut value)?.then_some(value))
    }

    /// Reads the value of `key` into `value`, whose memory is used again; whether the key is there.
    ///
    /// # Errors
    /// As [`KeyValueStore::get`].
    pub fn get_into(&self, tx: &mut impl Read, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Abort> {
        let hash = hash(key);
        let Some(node) = Self::find(tx, self.cell(hash), hash, key)?.1 else { return Ok(false) };
        read_bytes(tx, node.value(), node.value_bytes, value)?;
        Ok(true)
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// As [`KeyValueStore::get`].
    pub fn contains_key(&self, tx: &mut impl Read, key: &[u8]) -> Result<bool, Abort> {
        let hash = hash(key);
        Ok(Self::find(tx, self.cell(hash), hash, key)?.1.is_some())
    }

    /// Gives `key` the value `value`; whether it had one before.
    ///
    /// # Errors
    /// Key or value are too long ([`Error::Parameter`]); the pool is full; as [`KeyValueStore::get`] and
    /// [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        let (key_bytes, value_bytes) = (key.len() as u64, value.len() as u64);
        if key_bytes > Self::MAX_KEY_BYTES || value_bytes > Self::MAX_VALUE_BYTES {
            return Err(tx.fail(Error::Parameter(format!(
                "a key of {key_bytes} bytes with a value of {value_bytes}: at most {} and {} are possible",
                Self::MAX_KEY_BYTES,
                Self::MAX_VALUE_BYTES
            ))));
        }
        let lengths = key_bytes << 32 | value_bytes;
        let hash = hash(key);
        let first = self.cell(hash);
        let (head, found) = Self::find(tx, first, hash, key)?;
        if let Some(node) = found
            && node.value_bytes.div_ceil(8) == value_bytes.div_ceil(8)
        {
            if node.value_bytes != value_bytes {
                tx.write(node.at.word(LENGTHS), lengths)?;
            }
            rewrite_bytes(tx, node.value(), value)?;
            return Ok(true);
        }
        let (cell, next) = found.map_or((first, head), |node| (node.cell, node.next));
        let at = tx.alloc(8 * (KEY + key_bytes.div_ceil(8) + value_bytes.div_ceil(8)))?;
        tx.write_range(at, &[next, hash, lengths])?;
        write_bytes(tx, at.word(KEY), key)?;
        write_bytes(tx, at.word(KEY + key_bytes.div_ceil(8)), value)?;
        tx.write(cell, at.offset())?;
        if let Some(node) = found {
            tx.free(node.at)?;
        }
        Ok(found.is_some())
    }

    /// Removes `key`; whether it was there.
    ///
    /// # Errors
    /// As [`KeyValueStore::get`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: &[u8]) -> Result<bool, Abort> {
        let hash = hash(key);
        let Some(node) = Self::find(tx, self.cell(hash), hash, key)?.1 else { return Ok(false) };
        tx.write(node.cell, node.next)?;
        tx.free(node.at)?;
        Ok(true)
    }

    /// Calls `visit` with every key and value, in no particular order.
    ///
    /// # Errors
    /// As [`KeyValueStore::get`]; those of `visit`.
    pub fn for_each(
        &self,
        tx: &mut impl Read,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for index in 0..self.buckets.length {
            let mut cell = self.buckets.word(index);
            let mut at = PersistentAddress::new(tx.read(cell)?);
            let mut guard = CircleGuard::new();
            while !at.is_null() {
                if guard.closes(at) {
                    return Err(KIND.damaged(tx, at, "a chain that runs in a circle"));
                }
                let node = Self::node(tx, cell, at)?;
                read_bytes(tx, node.key(), node.key_bytes, &mut key)?;
                read_bytes(tx, node.value(), node.value_bytes, &mut value)?;
                visit(&key, &value)?;
                cell = at.word(NEXT);
                at = PersistentAddress::new(node.next);
            }
        }
        Ok(())
    }

    /// Number of keys, by counting them.
    ///
    /// # Errors
    /// As [`KeyValueStore::get`].
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut count = 0;
        for index in 0..self.buckets.length {
            let mut at = PersistentAddress::new(tx.read(self.buckets.word(index))?);
            let mut guard = CircleGuard::new();
            while !at.is_null() {
                if guard.closes(at) {
                    return Err(KIND.damaged(tx, at, "a chain that runs in a circle"));
                }
                count += 1;
                at = PersistentAddress::new(tx.read(at.word(NEXT))?);
            }
        }
        Ok(count)
    }

    /// Checks the store's invariants; returns the number of keys.
    ///
    /// # Errors
    /// [`Error::Damaged`]: one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut count = 0;
        for index in 0..self.buckets.length {
            let first = self.buckets.word(index);
            let mut cell = first;
            let mut at = PersistentAddress::new(tx.read(cell)?);
            let mut guard = CircleGuard::new();
            let mut keys = Vec::new();
            while !at.is_null() {
                if guard.closes(at) {
                    return Err(KIND.damaged(tx, at, "a chain that runs in a circle"));
                }
                let node = Self::node(tx, cell, at)?;
                let mut key = Vec::new();
                read_bytes(tx, node.key(), node.key_bytes, &mut key)?;
                tx.read(node.value().word(node.value_bytes.div_ceil(8)).word(u64::MAX))?;
                if hash(&key) != node.hash || self.cell(node.hash) != first || keys.contains(&key) {
                    return Err(KIND.damaged(
                        tx,
                        at,
                        "a key twice, in the wrong bucket or with a wrong hash",
                    ));
                }
                keys.push(key);
                cell = at.word(NEXT);
                at = PersistentAddress::new(node.next);
            }
            count += keys.len() as u64;
        }
        Ok(count)
    }
}
