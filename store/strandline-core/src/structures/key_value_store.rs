//! A key-value store: a hash index over byte strings of any length, which grows with what it holds.
//!
//! ```text
//! header   word 0 tag · word 1 buckets · word 2 their address · word 3 initialised
//! cell     a bucket, or a word of a further table: the first node of its chain, 0 if none;
//!          or, with bit 0 set, the address of a further table of 64 cells
//! node     word 0 the next node, 0 if none
//!          word 1 hash of the key, all 64 bits
//!          word 2 bytes in the key << 32 | bytes in the value
//!          then the key, then the value, each filled up with zeroes to whole words
//! ```
//!
//! A key is compared in full, after hash and length agree. A value that takes as many words as the one before
//! is written over it, and only the words that differ; otherwise a new node takes the old one's place in the
//! chain. The hash is part of the format: it is computed word by word with a folded 128-bit product. The
//! bucket comes from its upper part, the cell of a further table from six bits of its lower part for each step.
//!
//! A key that comes to a chain of eight nodes turns the cell into a table and shares the nodes out, in the same
//! transaction. So the store grows where it is full and nowhere else: there is no count that every writer would
//! change, and no moment at which everything is moved. Tables are not given back before the store is.
//!
//! Invariants: a chain ends; every key is in its own cell's chain, once, with its own hash.

mod walks;

use super::bytes::{check_length, equals, put_bytes, read_bytes, rewrite, with_words, word_of, write_bytes};
use super::header::{CircleGuard, Kind};
use super::value::with_buffer;
use super::walk::Walk;
use super::words::{self, Words, bucket};
use crate::error::{Error, Result};
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read, Runner, Transaction};

const KIND: Kind = Kind::KeyValueStore;
/// The names of blocks in errors of a [`Walk`].
const NODE_NAME: &str = "a key-value store's node";
const TABLE_NAME: &str = "a key-value store's table";
const NEXT: u64 = 0;
const HASH: u64 = 1;
const LENGTHS: u64 = 2;
const KEY: u64 = 3;

/// Words of a node with one of key and one of value, which is written in place.
const SHORTEST_NODE: u64 = KEY + 2;
/// Words of a node that is put together before it is written.
const SHORT_NODE: u64 = 8;
/// Nodes in a chain from which on a further key makes its cell a table.
const LONG_CHAIN: u64 = 8;
/// Cells in a further table, and the bits of the hash that choose one.
const CELLS: u64 = 1 << CELL_BITS;
const CELL_BITS: u32 = 6;
/// Tables below one another: then the hash is used up, and chains grow.
const MAX_DEPTH: u32 = 64 / CELL_BITS;
/// Set in a cell that leads to a table.
const TABLE: u64 = 1;

/// A persistent key-value store.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_core::structures::KeyValueStore;
///
/// let store = KeyValueStore::create(&mut worker, root, 64)?;
/// assert!(!worker.run(|tx| store.insert(tx, b"colour", b"green"))?, "it had no value before");
/// assert_eq!(worker.view(|tx| store.get(tx, b"colour"))?.as_deref(), Some(&b"green"[..]));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct KeyValueStore {
    buckets: Words,
}

/// A cell that holds a chain.
#[derive(Clone, Copy)]
struct Cell {
    at: PersistentAddress,
    /// The first node.
    head: u64,
    /// Tables above it.
    depth: u32,
    /// The table, or the buckets, that it is in.
    table: PersistentAddress,
}

/// How far a walk over all chains has come: the number of the cell in each table on the way to the last one.
#[derive(Clone, Debug, Default)]
pub struct Position {
    path: Vec<u64>,
    walk: Walk,
}

impl Position {
    /// The work of the walk so far.
    pub fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }

    /// Returns whether keys of this hash belong to the chain here, in a store of so many buckets.
    fn holds(&self, hash: u64, buckets: u64) -> bool {
        let steps = (0..).zip(self.path.iter().skip(1));
        self.path.first() == Some(&bucket(hash, buckets))
            && steps.into_iter().all(|(depth, &cell)| hash >> (CELL_BITS * depth) & (CELLS - 1) == cell)
    }
}

/// The cell of a hash in the table below `depth` others.
fn cell_in(table: PersistentAddress, hash: u64, depth: u32) -> PersistentAddress {
    table.word(hash >> (CELL_BITS * depth) & (CELLS - 1))
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

    /// Words of the whole node.
    fn words(&self) -> u64 {
        KEY + self.key_bytes.div_ceil(8) + self.value_bytes.div_ceil(8)
    }
}

/// The hash of a key.
#[inline]
fn hash(key: &[u8]) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let step = |hash: u64, word: u64| fold(hash ^ word, 0x8bb8_4b93_962e_acc9) ^ hash.rotate_left(23);
    let mut hash = 0x2d35_8dcc_aa6c_78a5 ^ key.len() as u64;
    let (whole, rest) = key.as_chunks();
    for &bytes in whole {
        hash = step(hash, u64::from_le_bytes(bytes));
    }
    if !rest.is_empty() {
        hash = step(hash, word_of(rest));
    }
    fold(hash ^ 0x4b33_a62e_d433_d4a3, 0x9e37_79b9_7f4a_7c15)
}

/// Puts a node together, or what comes before its value.
#[inline]
fn put_node(words: &mut [u64], head: [u64; KEY as usize], key: &[u8], value: &[u64]) {
    let (to, words) = words.split_at_mut(KEY as usize);
    to.copy_from_slice(&head);
    put_bytes(words, key);
    for (word, &value) in words.iter_mut().skip(key.len().div_ceil(8)).zip(value) {
        *word = value;
    }
}

impl KeyValueStore {
    /// The longest key in bytes.
    pub const MAX_KEY_BYTES: u64 = 1 << 16;
    /// The longest value in bytes. What a transaction can write is less, unless the pool's logs are large.
    pub const MAX_VALUE_BYTES: u64 = 1 << 28;

    /// Creates a store of `buckets` buckets under the root word `root`. A store of the same size that is there already is completed, if its creation
    /// was interrupted, and opened.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if `buckets` is 0 or too large, [`Error::WrongStructure`] if something else hangs from `root`, an error if the
    /// pool is full, and the errors of [`Runner::run`].
    pub fn create(runner: &mut impl Runner, root: PersistentAddress, buckets: u64) -> Result<Self> {
        if buckets == 0 {
            return Err(Error::Parameter("a key-value store needs a bucket".into()));
        }
        Ok(Self { buckets: Words::create(runner, KIND, root, KIND.tag(0, 0), buckets, |_| 0)? })
    }

    /// Opens the store under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if there is none, [`Error::WrongStructure`] if something else is there, and [`Error::Incomplete`] if its creation
    /// was interrupted.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        let buckets = Words::open(tx, KIND, root, KIND.tag(0, 0))?;
        if buckets.length == 0 {
            return Err(tx.fail(KIND.wrong(root)));
        }
        Ok(Self { buckets })
    }

    /// Creates an empty store in this transaction, with its header in the allocated words at `at`.
    pub fn create_at(tx: &mut impl Transaction, at: PersistentAddress, buckets: u64) -> Result<Self, Abort> {
        Ok(Self { buckets: Words::create_at(tx, at, KIND.tag(0, 0), buckets)? })
    }

    /// Fails unless the cell may be written.
    #[inline]
    fn check_cell(&self, tx: &mut impl Transaction, cell: Cell) -> Result<(), Abort> {
        let words = if cell.depth == 0 { self.buckets.length } else { CELLS };
        KIND.check_block(tx, cell.table, words)
    }

    /// Fails unless `word`, the cell or the first word of a node in its chain, may be written.
    #[inline]
    fn check_link(
        &self,
        tx: &mut impl Transaction,
        cell: Cell,
        word: PersistentAddress,
    ) -> Result<(), Abort> {
        if word == cell.at { self.check_cell(tx, cell) } else { KIND.check_block(tx, word, KEY) }
    }

    /// Words in a header.
    pub const HEADER_WORDS: usize = words::HEADER_WORDS;

    /// The store whose header, found at `at`, is `header`.
    #[inline]
    pub fn of_header(tx: &mut impl Read, at: PersistentAddress, header: &[u64]) -> Result<Self, Abort> {
        Ok(Self { buckets: Words::of_header(tx, KIND, at, header, KIND.tag(0, 0))? })
    }

    /// How many buckets the table has, fixed at its creation.
    pub fn buckets(&self) -> u64 {
        self.buckets.length
    }

    /// Returns the number of buckets that have become further tables.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn tables(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut tables = 0;
        for index in 0..self.buckets.length {
            tables += u64::from(tx.read(self.buckets.word(index))? & TABLE != 0);
        }
        Ok(tables)
    }

    /// The word of `key`'s bucket: what an operation on the key uses hangs from it.
    pub fn bucket_of(&self, key: &[u8]) -> PersistentAddress {
        self.buckets.word(bucket(hash(key), self.buckets.length))
    }

    /// The cell in whose chain `key` would be, its node if it is there, and the number of other nodes on the way.
    #[inline]
    fn locate(&self, tx: &mut impl Read, hash: u64, key: &[u8]) -> Result<(Cell, Option<Node>, u64), Abort> {
        // Whoever has written nothing yet asks nothing but the words. If that fails, the transaction tells why.
        if let Some(mut plain) = tx.plain()
            && let Ok(found) = self.locate_by(&mut plain, hash, key)
        {
            return Ok(found);
        }
        // Taken apart, so that what was found stays in registers.
        let (cell, node, others) = self.locate_called(tx, hash, key)?;
        Ok((cell, node, others))
    }

    #[inline(never)]
    fn locate_called(
        &self,
        tx: &mut impl Read,
        hash: u64,
        key: &[u8],
    ) -> Result<(Cell, Option<Node>, u64), Abort> {
        self.locate_by(tx, hash, key)
    }

    #[inline(always)]
    fn locate_by(
        &self,
        tx: &mut impl Read,
        hash: u64,
        key: &[u8],
    ) -> Result<(Cell, Option<Node>, u64), Abort> {
        let cell = self.cell(tx, hash)?;
        let (node, others) = Self::find(tx, cell, hash, key)?;
        Ok((cell, node, others))
    }

    /// The cell in whose chain keys of this hash are.
    #[inline]
    fn cell(&self, tx: &mut impl Read, hash: u64) -> Result<Cell, Abort> {
        let at = self.buckets.word(bucket(hash, self.buckets.length));
        let head = tx.read(at)?;
        let cell = Cell { at, head, depth: 0, table: self.buckets.first() };
        if head & TABLE == 0 {
            return Ok(cell);
        }
        // Taken apart, as in `locate`.
        let Cell { at, head, depth, table } = Self::cell_below(tx, cell, hash)?;
        Ok(Cell { at, head, depth, table })
    }

    /// The same, below a cell that leads to a table.
    #[inline(never)]
    fn cell_below(tx: &mut impl Read, mut cell: Cell, hash: u64) -> Result<Cell, Abort> {
        while cell.head & TABLE != 0 {
            if cell.depth == MAX_DEPTH {
                return Err(KIND.damaged(tx, cell.at, "too many tables below one another"));
            }
            cell.table = PersistentAddress::new(cell.head & !TABLE);
            cell.at = cell_in(cell.table, hash, cell.depth);
            cell.head = tx.read(cell.at)?;
            cell.depth += 1;
        }
        Ok(cell)
    }

    /// The node that the word `cell` leads to, which holds `at`.
    #[inline]
    fn node(tx: &mut impl Read, cell: PersistentAddress, at: PersistentAddress) -> Result<Node, Abort> {
        let words = tx.read_array(at)?;
        Self::node_of(tx, cell, at, words)
    }

    /// The same, of the first three words there.
    #[inline]
    fn node_of(
        tx: &mut impl Read,
        cell: PersistentAddress,
        at: PersistentAddress,
        [next, hash, lengths]: [u64; 3],
    ) -> Result<Node, Abort> {
        let node =
            Node { cell, at, next, hash, key_bytes: lengths >> 32, value_bytes: lengths & 0xffff_ffff };
        if node.key_bytes > Self::MAX_KEY_BYTES || node.value_bytes > Self::MAX_VALUE_BYTES {
            return Err(KIND.damaged(tx, at, "an impossible length"));
        }
        Ok(node)
    }

    /// Walks the chain of `cell` until `accept` returns true of a node; returns it.
    #[inline]
    fn walk<T: Read>(
        tx: &mut T,
        cell: Cell,
        mut accept: impl FnMut(&mut T, &Node) -> Result<bool, Abort>,
    ) -> Result<Option<Node>, Abort> {
        let (mut word, mut at) = (cell.at, PersistentAddress::new(cell.head));
        let mut guard = CircleGuard::default();
        while !at.is_null() {
            let node = Self::node(tx, word, at)?;
            if accept(tx, &node)? {
                return Ok(Some(node));
            }
            if guard.closes(at) {
                return Err(Self::circle(tx, at));
            }
            word = at.near(8 * NEXT);
            at = PersistentAddress::new(node.next);
        }
        Ok(None)
    }

    /// The node of `key` in the chain of `cell`, and the number of other nodes on the way.
    #[inline]
    fn find(tx: &mut impl Read, cell: Cell, hash: u64, key: &[u8]) -> Result<(Option<Node>, u64), Abort> {
        let (mut word, mut at) = (cell.at, PersistentAddress::new(cell.head));
        let mut guard = CircleGuard::default();
        let mut others = 0;
        while !at.is_null() {
            let words = tx.read_array(at)?;
            if words[HASH as usize] == hash {
                let node = Self::node_of(tx, word, at, words)?;
                if node.key_bytes == key.len() as u64 && equals(tx, node.key(), key)? {
                    return Ok((Some(node), others));
                }
            }
            if guard.closes(at) {
                return Err(Self::circle(tx, at));
            }
            others += 1;
            word = at.near(8 * NEXT);
            at = PersistentAddress::new(words[NEXT as usize]);
        }
        Ok((None, others))
    }

    #[cold]
    fn circle(tx: &mut impl Read, at: PersistentAddress) -> Abort {
        KIND.damaged(tx, at, "a chain that runs in a circle")
    }

    /// The node of `key`.
    #[inline]
    fn look_up(&self, tx: &mut impl Read, key: &[u8]) -> Result<Option<Node>, Abort> {
        Ok(self.locate(tx, hash(key), key)?.1)
    }

    /// Calls `body` with the words of a node's value, and its bytes.
    #[inline]
    fn with_value<T: Read, R>(
        tx: &mut T,
        node: &Node,
        body: impl FnOnce(&[u64], u64) -> R,
    ) -> Result<R, Abort> {
        with_words(tx, node.at, KEY + node.key_bytes.div_ceil(8), node.value_bytes, body)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the store is damaged.
    pub fn get(&self, tx: &mut impl Read, key: &[u8]) -> Result<Option<Vec<u8>>, Abort> {
        let mut value = Vec::new();
        Ok(self.get_into(tx, key, &mut value)?.then_some(value))
    }

    /// Reads the value of `key` into `value`, whose memory is used again; whether the key is there.
    ///
    /// # Errors
    /// As for [`KeyValueStore::get`].
    pub fn get_into(&self, tx: &mut impl Read, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Abort> {
        let Some(node) = self.look_up(tx, key)? else { return Ok(false) };
        check_length(tx, node.at, node.words())?;
        read_bytes(tx, node.value(), node.value_bytes, value)?;
        Ok(true)
    }

    /// What `body` makes of the words and the number of bytes of `key`'s value.
    #[inline]
    pub fn get_words<R>(
        &self,
        tx: &mut impl Read,
        key: &[u8],
        body: impl FnOnce(&[u64], u64) -> R,
    ) -> Result<Option<R>, Abort> {
        match self.look_up(tx, key)? {
            Some(node) => Self::with_value(tx, &node, body).map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether `key` is there.
    ///
    /// # Errors
    /// As for [`KeyValueStore::get`].
    pub fn contains_key(&self, tx: &mut impl Read, key: &[u8]) -> Result<bool, Abort> {
        Ok(self.look_up(tx, key)?.is_some())
    }

    /// Gives `key` the value `value`; whether it had one before.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if key or value are too long, an error if the pool is full, and the errors of [`KeyValueStore::get`] and
    /// [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        with_buffer((value.len() as u64).div_ceil(8), |words| {
            put_bytes(words, value);
            Ok(self.insert_words(tx, key, words, value.len() as u64, |_, _| ())?.is_some())
        })
    }

    /// Gives `key` the value of `value_bytes` bytes in `value`; returns what `old` makes of the one before.
    #[inline]
    pub fn insert_words<R>(
        &self,
        tx: &mut impl Transaction,
        key: &[u8],
        value: &[u64],
        value_bytes: u64,
        old: impl FnOnce(&[u64], u64) -> R,
    ) -> Result<Option<R>, Abort> {
        let key_bytes = key.len() as u64;
        if key_bytes > Self::MAX_KEY_BYTES || value_bytes > Self::MAX_VALUE_BYTES {
            return Err(tx.fail(Error::Parameter(format!(
                "a key of {key_bytes} bytes with a value of {value_bytes}: at most {} and {} are possible",
                Self::MAX_KEY_BYTES,
                Self::MAX_VALUE_BYTES
            ))));
        }
        let lengths = key_bytes << 32 | value_bytes;
        let hash = hash(key);
        let (mut cell, found, others) = self.locate(tx, hash, key)?;
        let mut before = None;
        if let Some(node) = found {
            before = Some(Self::with_value(tx, &node, old)?);
            if node.value_bytes.div_ceil(8) == value_bytes.div_ceil(8) {
                if node.value_bytes != value_bytes {
                    tx.write(node.at.word(LENGTHS), lengths)?;
                }
                KIND.check_block(tx, node.at, KEY + key_bytes.div_ceil(8) + value_bytes.div_ceil(8))?;
                rewrite(tx, node.value(), value)?;
                return Ok(before);
            }
        } else if others >= LONG_CHAIN && cell.depth < MAX_DEPTH {
            cell = self.split(tx, cell, hash)?;
        }
        let (word, next) = found.map_or((cell.at, cell.head), |node| (node.cell, node.next));
        self.check_link(tx, cell, word)?;
        let at = Self::new_node(tx, [next, hash, lengths], key, value)?;
        tx.write(word, at.offset())?;
        if let Some(node) = found {
            tx.free(node.at)?;
        }
        Ok(before)
    }

    /// Allocates and writes a node that begins with `head`; returns its address.
    fn new_node(
        tx: &mut impl Transaction,
        head: [u64; KEY as usize],
        key: &[u8],
        value: &[u64],
    ) -> Result<PersistentAddress, Abort> {
        let before_value = KEY + (key.len() as u64).div_ceil(8);
        let words = before_value + value.len() as u64;
        let at = tx.alloc(8 * words)?;
        // A short node is written at once.
        if words == SHORTEST_NODE {
            let mut node = [0; SHORTEST_NODE as usize];
            put_node(&mut node, head, key, value);
            tx.write_array(at, &node)?;
        } else if words <= SHORT_NODE {
            let mut node = [0; SHORT_NODE as usize];
            let node = &mut node[..words as usize];
            put_node(node, head, key, value);
            tx.write_range(at, node)?;
        } else {
            with_buffer(before_value, |words| {
                put_node(words, head, key, &[]);
                tx.write_range(at, words)
            })?;
            tx.write_range(at.word(before_value), value)?;
        }
        Ok(at)
    }

    /// Writes `bytes` from byte `offset` of the value of `key` on, in whole words, whether they differ from what is there or not; whether it did:
    /// there is such a value, and both numbers are multiples of 8.
    ///
    /// # Errors
    /// As for [`KeyValueStore::get`] and [`Transaction::write`].
    pub fn overwrite(
        &self,
        tx: &mut impl Transaction,
        key: &[u8],
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, Abort> {
        let end = offset.saturating_add(bytes.len() as u64);
        let Some(node) = self.look_up(tx, key)?.filter(|node| end <= node.value_bytes) else {
            return Ok(false);
        };
        if !offset.is_multiple_of(8) || !bytes.len().is_multiple_of(8) {
            return Ok(false);
        }
        KIND.check_block(tx, node.at, node.words())?;
        write_bytes(tx, node.value().byte(offset), bytes)?;
        Ok(true)
    }

    /// Makes `cell` a table and shares its nodes out; returns the cell of `hash` there.
    #[cold]
    fn split(&self, tx: &mut impl Transaction, cell: Cell, hash: u64) -> Result<Cell, Abort> {
        let table = tx.alloc(8 * CELLS)?;
        let mut heads = [0; CELLS as usize];
        let mut nodes = Vec::with_capacity(LONG_CHAIN as usize);
        Self::walk(tx, cell, |_, node| {
            nodes.push(*node);
            Ok(false)
        })?;
        self.check_cell(tx, cell)?;
        for node in &nodes {
            KIND.check_block(tx, node.at, KEY)?;
            let index = (node.hash >> (CELL_BITS * cell.depth) & (CELLS - 1)) as usize;
            if node.next != heads[index] {
                tx.write(node.at.word(NEXT), heads[index])?;
            }
            heads[index] = node.at.offset();
        }
        tx.write_range(table, &heads)?;
        tx.write(cell.at, table.offset() | TABLE)?;
        let index = (hash >> (CELL_BITS * cell.depth) & (CELLS - 1)) as usize;
        Ok(Cell { at: table.word(index as u64), head: heads[index], depth: cell.depth + 1, table })
    }

    /// Removes `key`; whether it was there.
    ///
    /// # Errors
    /// As for [`KeyValueStore::get`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: &[u8]) -> Result<bool, Abort> {
        match self.locate(tx, hash(key), key)? {
            (cell, Some(node), _) => self.unlink(tx, cell, &node).map(|()| true),
            (_, None, _) => Ok(false),
        }
    }

    /// Removes `key`; returns what `old` makes of its value.
    pub fn remove_words<R>(
        &self,
        tx: &mut impl Transaction,
        key: &[u8],
        old: impl FnOnce(&[u64], u64) -> R,
    ) -> Result<Option<R>, Abort> {
        let (cell, Some(node), _) = self.locate(tx, hash(key), key)? else { return Ok(None) };
        let old = Self::with_value(tx, &node, old)?;
        self.unlink(tx, cell, &node)?;
        Ok(Some(old))
    }

    /// Takes a node out of the chain of `cell`.
    #[inline]
    fn unlink(&self, tx: &mut impl Transaction, cell: Cell, node: &Node) -> Result<(), Abort> {
        self.check_link(tx, cell, node.cell)?;
        tx.write(node.cell, node.next)?;
        tx.free(node.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is part of the format.
    #[test]
    fn the_hash_is_of_words_filled_up_with_zeros() {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let bytes: Vec<u8> = (1..=40).collect();
        for length in 0..=bytes.len() {
            let key = &bytes[..length];
            let mut expected = 0x2d35_8dcc_aa6c_78a5 ^ length as u64;
            for piece in key.chunks(8) {
                let mut word = [0; 8];
                word[..piece.len()].copy_from_slice(piece);
                let word = u64::from_le_bytes(word);
                expected = fold(expected ^ word, 0x8bb8_4b93_962e_acc9) ^ expected.rotate_left(23);
            }
            expected = fold(expected ^ 0x4b33_a62e_d433_d4a3, 0x9e37_79b9_7f4a_7c15);
            assert_eq!(hash(key), expected, "{length} bytes");
        }
    }

    #[cfg(feature = "worlds")]
    #[test]
    fn keys_and_values_of_all_lengths() {
        let (path, options) = crate::example::path_and_options();
        let pool = crate::Pool::create(&path, &options).unwrap();
        let mut worker = pool.worker().unwrap();
        // One bucket: all are compared with all, those that begin alike too.
        let store = KeyValueStore::create(&mut worker, pool.layout().root(0), 1).unwrap();
        let bytes: Vec<u8> = (0..40).map(|i| 1 + i % 3).collect();
        for length in 0..=bytes.len() {
            let (key, value) = (&bytes[..length], &bytes[..40 - length]);
            assert!(!worker.run(|tx| store.insert(tx, key, value)).unwrap());
            assert!(!worker.view(|tx| store.contains_key(tx, &[key, &[0]].concat())).unwrap());
        }
        for length in (0..=bytes.len()).rev() {
            let (key, value) = (&bytes[..length], &bytes[..40 - length]);
            assert_eq!(worker.view(|tx| store.get(tx, key)).unwrap().as_deref(), Some(value), "{length}");
            assert!(worker.run(|tx| store.remove(tx, key)).unwrap());
            assert!(!worker.view(|tx| store.contains_key(tx, key)).unwrap());
        }
    }
}
