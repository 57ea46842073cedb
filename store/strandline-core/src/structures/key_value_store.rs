//! A key-value store: a hash index over byte strings of any length, which grows with its contents.
//!
//! ```text
//! header   word 0 tag · word 1 buckets · word 2 their address · word 3 initialised; or words 1 and 2 alone ([`KeyValueStore::create_at`])
//! cell     a bucket, or a word of a further table: 0 if it is empty; or the address of the first node of its chain, with the chain's filter in
//!          bits 48 to 63; or, with bit 0 set, the address of a further table of 64 cells
//! node     word 0 the next node, 0 if none
//!          word 1 bytes in the value | bytes in the key << 29 | bits 14 to 31 of the key's hash << 46
//!          then the key, then the value, each filled up with zeroes to whole words
//! ```
//!
//! The hash is part of the format: it is computed word by word with a folded 128-bit product. Its upper part chooses the bucket, and six bits of
//! its lower part the cell of each further table. Each key of a chain sets one bit of the chain's filter ([`filter_bit`]), so most searches for a
//! key that is not there read no node. A removal leaves the filter as it is, unless the chain becomes empty. A key is compared in full, after hash
//! bits and length agree.
//!
//! If the new value of a key takes as many words as the old one, the words that differ are overwritten in place; otherwise a new node takes the
//! old one's place in the chain.
//!
//! An inserting transaction that has passed eight nodes, or finds six bits of the filter set, counts the chain's nodes. If there are eight or more,
//! it turns the cell into a table and distributes the nodes over its cells; otherwise it makes the filter exact again. So the store grows only
//! where it is full: there is no count that every writer would change, and no moment at which all nodes are moved. Tables are freed together
//! with the store.
//!
//! *Searches* are optimistic: the word with the buckets' address, the bucket and the cells on the way to the chain are their guards. So a
//! transaction that changes which nodes a chain has, or their order, also writes the chain's cell, even if that stays the same, and one that
//! destroys the store writes the word with the buckets' address. Only a node's value and its size change without that.
//!
//! Invariants: every chain ends; every key is once in the chain of its own cell, its node has the bits of its hash, and the cell's filter its bit.

mod node;
mod walks;

use super::bytes::{check_length, equals, put_bytes, read_bytes, rewrite, with_words, word_of, write_bytes};
use super::header::{CircleGuard, Kind};
use super::value::with_buffer;
use super::walk::Walk;
use super::words::{Words, bucket};
use node::{
    Cell, KEY, KEY_BYTES_SHIFT, LENGTHS, NEXT, Node, TABLE, cell_word, filter_bit, node_lengths, put_node,
};

use crate::error::{Error, Result};
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, OptimisticSearch, Read, Runner, Transaction};

const KIND: Kind = Kind::KeyValueStore;
/// The name of a node in errors of a [`Walk`].
const NODE_NAME: &str = "a key-value store's node";
const TABLE_NAME: &str = "a key-value store's table";
/// Words in a node with a key and a value of one word each. Such a node is written by one call.
const SHORTEST_NODE: u64 = KEY + 2;
/// Words in the largest node that is assembled in a buffer before it is written.
const SHORT_NODE: u64 = 8;
/// The length from which on a chain becomes a table when another key is inserted.
const LONG_CHAIN: usize = 8;
/// The number of bits in a filter from which on the nodes of its chain are counted when another key is inserted. Eight keys set six or seven bits
/// on average.
const FULL_FILTER: u32 = 6;
/// The number of cells in a further table.
const CELLS: u64 = 1 << CELL_BITS;
const CELL_BITS: u32 = 6;
/// The greatest depth of tables. Below it, the bits of the hash are used up and chains grow.
const MAX_DEPTH: u32 = 64 / CELL_BITS;
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

/// The state of a walk over all chains: the number of the cell in each table on the way to the last chain.
#[derive(Clone, Debug, Default)]
pub struct Position {
    path: Vec<u64>,
    walk: Walk,
}

impl Position {
    /// Returns the bound on the walk's work.
    pub fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }

    /// Returns whether keys with this hash belong to the chain at this position, in a store with `buckets` buckets.
    fn holds(&self, hash: u64, buckets: u64) -> bool {
        let steps = (0..).zip(self.path.iter().skip(1));
        self.path.first() == Some(&bucket(hash, buckets))
            && steps.into_iter().all(|(depth, &cell)| hash >> (CELL_BITS * depth) & (CELLS - 1) == cell)
    }
}

/// Returns the address of the cell of a hash in a table that is `depth` tables below the first further table.
fn cell_in(table: PersistentAddress, hash: u64, depth: u32) -> PersistentAddress {
    table.word(hash >> (CELL_BITS * depth) & (CELLS - 1))
}

/// Returns the hash of a key.
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

/// The search for a key.
struct Locate<'s> {
    store: &'s KeyValueStore,
    hash: u64,
    key: &'s [u8],
}

impl OptimisticSearch for Locate<'_> {
    /// The cell of the key's chain, the key's node if there is one, and the number of other nodes that the search has met.
    type Found = (Cell, Option<Node>, usize);

    fn search(&mut self, tx: &mut impl Read) -> Result<Self::Found, Abort> {
        tx.guard(self.store.buckets.link)?;
        let cell = self.store.cell(tx, self.hash)?;
        let (node, others) = KeyValueStore::find(tx, cell, self.hash, self.key)?;
        Ok((cell, node, others))
    }
}

impl KeyValueStore {
    /// The longest key in bytes.
    pub const MAX_KEY_BYTES: u64 = 1 << 16;
    /// The longest value in bytes. A transaction can write as much only if the pool's logs are large enough.
    pub const MAX_VALUE_BYTES: u64 = 1 << 28;

    /// Creates a store with `buckets` buckets under the root word `root`. If there is a store with as many buckets, it is opened, after its
    /// creation was completed if that was interrupted.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if `buckets` is 0 or too large, [`Error::WrongStructure`] if `root` refers to something else, an error
    /// if the pool is full, and the errors of [`Runner::run`].
    pub fn create(runner: &mut impl Runner, root: PersistentAddress, buckets: u64) -> Result<Self> {
        if buckets == 0 {
            return Err(Error::Parameter("a key-value store needs a bucket".into()));
        }
        Ok(Self { buckets: Words::create(runner, KIND, root, KIND.tag(0, 0), buckets, |_| 0)? })
    }

    /// Opens the store under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if the root word is 0, [`Error::WrongStructure`] if it refers to something else, and
    /// [`Error::Incomplete`] if the store's creation was interrupted.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        let buckets = Words::open(tx, KIND, root, KIND.tag(0, 0))?;
        if buckets.length == 0 {
            return Err(tx.fail(KIND.wrong(root)));
        }
        Ok(Self { buckets })
    }

    /// The number of words in the header of a store that a transaction creates: the number of buckets, and their address.
    pub const HEADER_WORDS: usize = 2;

    /// Creates an empty store in this transaction, with its header in the allocated words at `at`.
    pub fn create_at(tx: &mut impl Transaction, at: PersistentAddress, buckets: u64) -> Result<Self, Abort> {
        Ok(Self { buckets: Words::create_at(tx, at, buckets)? })
    }

    /// Returns the store whose header at `at`, written by [`KeyValueStore::create_at`], has the words `header`.
    pub fn of_header(
        tx: &mut impl Read,
        at: PersistentAddress,
        header: [u64; Self::HEADER_WORDS],
    ) -> Result<Self, Abort> {
        Ok(Self { buckets: Words::of_header(tx, KIND, at, header)? })
    }

    /// Fails unless the block of the cell's table is large enough to be written to.
    #[inline]
    fn check_cell(&self, tx: &mut impl Transaction, cell: Cell) -> Result<(), Abort> {
        let words = if cell.depth == 0 { self.buckets.length } else { CELLS };
        KIND.check_block(tx, cell.table, words)
    }

    /// Returns the number of buckets in the table, which is fixed at its creation.
    pub fn buckets(&self) -> u64 {
        self.buckets.length
    }

    /// Returns the number of buckets that have become further tables. Tables below these are not counted.
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

    /// Returns the address of `key`'s bucket, from which an operation on the key reaches every word that it uses.
    pub fn bucket_of(&self, key: &[u8]) -> PersistentAddress {
        self.buckets.word(bucket(hash(key), self.buckets.length))
    }

    /// Searches for `key`: see [`Locate`].
    fn locate(
        &self,
        tx: &mut impl Read,
        hash: u64,
        key: &[u8],
    ) -> Result<(Cell, Option<Node>, usize), Abort> {
        let mut search = Locate { store: self, hash, key };
        let Some((cell, node, others)) = tx.search_optimistically(&mut search) else {
            return search.search(tx);
        };
        Ok((cell, node.map(|node| node.reloaded(tx)).transpose()?, others))
    }

    /// Returns the cell to whose chain keys with this hash belong.
    #[inline]
    fn cell(&self, tx: &mut impl Read, hash: u64) -> Result<Cell, Abort> {
        let at = self.buckets.word(bucket(hash, self.buckets.length));
        tx.guard(at)?;
        let word = tx.read(at)?;
        let mut cell = Cell { at, word, depth: 0, table: self.buckets.first() };
        while cell.word & TABLE != 0 {
            if cell.depth == MAX_DEPTH {
                return Err(KIND.damaged(tx, cell.at, "too many tables below one another"));
            }
            cell.table = PersistentAddress::new(cell.word & !TABLE);
            cell.at = cell_in(cell.table, hash, cell.depth);
            tx.guard(cell.at)?;
            cell.word = tx.read(cell.at)?;
            cell.depth += 1;
        }
        Ok(cell)
    }

    /// Reads the head of the node at `at`, which the word `cell` refers to.
    #[inline]
    fn node(tx: &mut impl Read, cell: PersistentAddress, at: PersistentAddress) -> Result<Node, Abort> {
        let words = tx.read_array(at)?;
        Node::decode(tx, cell, at, words)
    }

    /// Walks the chain of `cell` and returns the first node for which `accept` returns true.
    #[inline]
    fn walk<T: Read>(
        tx: &mut T,
        cell: Cell,
        mut accept: impl FnMut(&mut T, &Node) -> Result<bool, Abort>,
    ) -> Result<Option<Node>, Abort> {
        let (mut word, mut at) = (cell.at, cell.first());
        let mut guard = CircleGuard::default();
        while !at.is_null() {
            let node = Self::node(tx, word, at)?;
            if accept(tx, &node)? {
                return Ok(Some(node));
            }
            if guard.closes(at) {
                return Err(KIND.damaged(tx, at, "a chain that runs in a circle"));
            }
            word = at.near(8 * NEXT);
            at = node.next;
        }
        Ok(None)
    }

    /// Returns the node of `key` in the chain of `cell`, if it is there, and the number of other nodes that the search has met.
    #[inline]
    fn find(tx: &mut impl Read, cell: Cell, hash: u64, key: &[u8]) -> Result<(Option<Node>, usize), Abort> {
        let mut others = 0;
        // No node has a longer key, whose length would not fit into its bits.
        if !cell.may_have(hash) || key.len() as u64 > Self::MAX_KEY_BYTES {
            return Ok((None, others));
        }
        let lengths = node_lengths(hash, key.len() as u64, 0) >> KEY_BYTES_SHIFT;
        let node = Self::walk(tx, cell, |tx, node| {
            let is_key = node.lengths >> KEY_BYTES_SHIFT == lengths && equals(tx, node.key(), key)?;
            others += usize::from(!is_key);
            Ok(is_key)
        })?;
        Ok((node, others))
    }

    /// Returns the node of `key`.
    fn look_up(&self, tx: &mut impl Read, key: &[u8]) -> Result<Option<Node>, Abort> {
        Ok(self.locate(tx, hash(key), key)?.1)
    }

    /// Calls `body` with the words of a node's value, and the number of its bytes.
    #[inline]
    fn with_value<T: Read, R>(
        tx: &mut T,
        node: &Node,
        body: impl FnOnce(&[u64], u64) -> R,
    ) -> Result<R, Abort> {
        with_words(tx, node.at, KEY + node.key_bytes.div_ceil(8), node.value_bytes, body)
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the store is damaged.
    pub fn get(&self, tx: &mut impl Read, key: &[u8]) -> Result<Option<Vec<u8>>, Abort> {
        let mut value = Vec::new();
        Ok(self.get_into(tx, key, &mut value)?.then_some(value))
    }

    /// Reads the value of `key` into `value`, whose memory is reused. Returns whether the key is there.
    ///
    /// # Errors
    /// Returns the errors of [`KeyValueStore::get`].
    pub fn get_into(&self, tx: &mut impl Read, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Abort> {
        let Some(node) = self.look_up(tx, key)? else { return Ok(false) };
        check_length(tx, node.at, node.words())?;
        read_bytes(tx, node.value(), node.value_bytes, value)?;
        Ok(true)
    }

    /// Calls `body` with the words of `key`'s value and the number of its bytes, and returns its result; `None` if the key is not there.
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
    /// Returns the errors of [`KeyValueStore::get`].
    pub fn contains_key(&self, tx: &mut impl Read, key: &[u8]) -> Result<bool, Abort> {
        let mut search = Locate { store: self, hash: hash(key), key };
        let found = tx.search_optimistically(&mut search);
        Ok(found.map_or_else(|| search.search(tx), Ok)?.1.is_some())
    }

    /// Sets the value of `key`. Returns whether the key was there before.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if key or value are too long, an error if the pool is full, and the errors of [`KeyValueStore::get`]
    /// and [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        with_buffer((value.len() as u64).div_ceil(8), |words| {
            put_bytes(words, value);
            Ok(self.insert_words(tx, key, words, value.len() as u64, |_, _| ())?.is_some())
        })
    }

    /// Sets the value of `key` to the first `value_bytes` bytes of `value`. Returns the result of `old`, called with the previous value's
    /// words and bytes, if there was one.
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
        let hash = hash(key);
        let lengths = node_lengths(hash, key_bytes, value_bytes);
        let (mut cell, found, others) = self.locate(tx, hash, key)?;
        let Some(node) = found else {
            if others >= LONG_CHAIN || cell.filter().count_ones() >= FULL_FILTER {
                cell = self.make_room(tx, cell, hash)?;
            }
            self.check_cell(tx, cell)?;
            let at = Self::new_node(tx, [cell.first().offset(), lengths], key, value)?;
            tx.write(cell.at, cell_word(at, cell.filter() | filter_bit(hash)))?;
            return Ok(None);
        };
        let before = Some(Self::with_value(tx, &node, old)?);
        if node.value_bytes.div_ceil(8) == value_bytes.div_ceil(8) {
            if node.value_bytes != value_bytes {
                tx.write(node.at.word(LENGTHS), lengths)?;
            }
            KIND.check_block(tx, node.at, KEY + key_bytes.div_ceil(8) + value_bytes.div_ceil(8))?;
            rewrite(tx, node.value(), value)?;
            return Ok(before);
        }
        let at = Self::new_node(tx, [node.next.offset(), lengths], key, value)?;
        self.relink(tx, cell, &node, at)?;
        tx.free(node.at)?;
        Ok(before)
    }

    /// Puts the node at `next`, or none, in the place of a node of the cell's chain. Writes the cell in any case, since it guards the chain.
    fn relink(
        &self,
        tx: &mut impl Transaction,
        cell: Cell,
        node: &Node,
        next: PersistentAddress,
    ) -> Result<(), Abort> {
        self.check_cell(tx, cell)?;
        let mut first = next;
        if node.cell != cell.at {
            KIND.check_block(tx, node.cell, KEY)?;
            tx.write(node.cell, next.offset())?;
            first = cell.first();
        }
        tx.write(cell.at, cell_word(first, cell.filter()))
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
        // The node is assembled first, so that one call writes it.
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

    /// Writes `bytes` from byte `offset` of the value of `key` on, also where they do not differ from the stored ones. Returns whether it
    /// did: not if the key is not there, the value ends before, or `offset` or the number of bytes is not a multiple of 8.
    ///
    /// # Errors
    /// Returns the errors of [`KeyValueStore::get`] and [`Transaction::write`].
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

    /// Makes room for a node in a chain that may be long. Returns the cell to whose chain a key with this hash belongs then, with an exact filter.
    #[cold]
    fn make_room(&self, tx: &mut impl Transaction, cell: Cell, hash: u64) -> Result<Cell, Abort> {
        let (mut nodes, mut walk) = (Vec::with_capacity(LONG_CHAIN), Walk::default());
        Self::walk(tx, cell, |tx, node| {
            Self::note(tx, &mut walk, node)?;
            let hash = node.hash(tx)?;
            if !cell.may_have(hash) || !node.is_of(hash) {
                return Err(KIND.damaged(tx, node.at, "a node in the wrong chain"));
            }
            nodes.push((*node, hash));
            Ok(false)
        })?;
        if nodes.len() >= LONG_CHAIN && cell.depth < MAX_DEPTH {
            return self.split(tx, cell, &nodes, hash);
        }
        let filter = nodes.iter().fold(0, |filter, &(_, hash)| filter | filter_bit(hash));
        Ok(Cell { word: cell_word(cell.first(), filter), ..cell })
    }

    /// Replaces the chain of `cell` by a table and distributes its nodes, which are given with their hashes. Returns the cell of `hash` in the table.
    fn split(
        &self,
        tx: &mut impl Transaction,
        cell: Cell,
        nodes: &[(Node, u64)],
        hash: u64,
    ) -> Result<Cell, Abort> {
        let table = tx.alloc(8 * CELLS)?;
        let index = |hash: u64| (hash >> (CELL_BITS * cell.depth) & (CELLS - 1)) as usize;
        let at = |index: usize| table.word(index as u64);
        let empty = |index| Cell { at: at(index), word: 0, depth: cell.depth + 1, table };
        let mut cells: [Cell; CELLS as usize] = std::array::from_fn(empty);
        self.check_cell(tx, cell)?;
        for (node, hash) in nodes {
            KIND.check_block(tx, node.at, KEY)?;
            let cell = &mut cells[index(*hash)];
            if node.next != cell.first() {
                tx.write(node.at.word(NEXT), cell.first().offset())?;
            }
            cell.word = cell_word(node.at, cell.filter() | filter_bit(*hash));
        }
        tx.write_range(table, &cells.map(|cell| cell.word))?;
        tx.write(cell.at, table.offset() | TABLE)?;
        Ok(cells[index(hash)])
    }

    /// Removes `key`. Returns whether it was there.
    ///
    /// # Errors
    /// Returns the errors of [`KeyValueStore::get`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: &[u8]) -> Result<bool, Abort> {
        match self.locate(tx, hash(key), key)? {
            (cell, Some(node), _) => self.unlink(tx, cell, &node).map(|()| true),
            (_, None, _) => Ok(false),
        }
    }

    /// Removes `key`. Returns the result of `old`, called with the value's words and bytes, if the key was there.
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

    /// Removes a node from the chain of `cell`, and frees it.
    fn unlink(&self, tx: &mut impl Transaction, cell: Cell, node: &Node) -> Result<(), Abort> {
        self.relink(tx, cell, node, node.next)?;
        tx.free(node.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash is part of the format.
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
    fn a_chain_becomes_a_table_although_its_keys_set_one_bit_of_its_filter() {
        let (path, options) = crate::example::path_and_options();
        let pool = crate::Pool::create(&path, &options).unwrap();
        let mut worker = pool.worker().unwrap();
        let store = KeyValueStore::create(&mut worker, pool.layout().root(0), 1).unwrap();
        let alike = (0_u64..).map(u64::to_le_bytes).filter(|key| filter_bit(hash(key)) == 1);
        for (number, key) in (1..).zip(alike.take(100)) {
            worker.run(|tx| store.insert(tx, &key, b"")).unwrap();
            let tables = worker.view(|tx| store.tables(tx)).unwrap();
            assert_eq!(tables, u64::from(number > LONG_CHAIN), "{number} keys");
        }
        assert_eq!(worker.view(|tx| store.check(tx)).unwrap(), 100);
        // The length of a longer key would not fit into its bits.
        let longer = vec![0; 1 << 17];
        assert!(!worker.run(|tx| store.remove(tx, &longer)).unwrap());
    }

    #[cfg(feature = "worlds")]
    #[test]
    fn keys_and_values_of_all_lengths() {
        let (path, options) = crate::example::path_and_options();
        let pool = crate::Pool::create(&path, &options).unwrap();
        let mut worker = pool.worker().unwrap();
        // One bucket, so that all keys are in one tree of chains and those with a common beginning meet.
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
