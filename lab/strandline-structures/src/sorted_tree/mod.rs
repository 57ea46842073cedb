//! A B+ tree or B-tree as in the textbook: the keys of a node are in a sorted array, its values in another.
//!
//! ```text
//! header   word 0 tag (parameter: keys in a node; bit 8: pairs in all nodes) · word 1 bytes in a node · word 2 the root node
//! node     word 0 node magic << 32 | level (0: leaf) << 16 | how many keys
//!          then room for the keys, in their order
//!          then, if the node has pairs, room for their values: words, or two in a word, the lower half first
//!          then, only in inner nodes, the child left of all keys and the child right of each
//! ```
//!
//! **An insertion or removal shifts all later keys and values**, as in the papers' programs. The library's own trees avoid that
//! ([`BPlusTree`](crate::BPlusTree), [`BTree`](crate::BTree)), and so write other amounts.
//!
//! In a B+ tree only leaves have pairs, and a key of an inner node is the least that may be right of it. In a B-tree inner nodes have pairs as well,
//! and each key occurs once.
//!
//! Operations descend once and remember the path. *Insertion* into a full node first moves its upper half to a new one; the separator of the two
//! moves up. *Removal* of a pair in an inner node replaces it by the previous one, which is in a leaf. A node with too few keys borrows one from a
//! sibling that can spare it, or is merged with a sibling. A root without keys is replaced by its only child.
//!
//! Invariants: keys ascend within a node and are between the surrounding keys of its parent; every node except the root has at least as many keys as
//! a half of a full node ((keys - 1) / 2); all leaves have level 0. A child's level is one less than its parent's, so that a descent ends even in a
//! damaged pool.

mod arrays;
mod shape;

use std::marker::PhantomData;
use std::ops::{ControlFlow, RangeBounds};

use strandline_core::error::Error;
use strandline_core::memory::{LINE_BYTES, PersistentAddress, WORD_BYTES};
use strandline_core::structures::ordered::ordered_methods;
use strandline_core::structures::value::Word;
use strandline_core::structures::{header, header::Kind, header::PARAMETER_MASK};
use strandline_core::transaction::{Abort, Read, Transaction};

use self::arrays::{HALF_BITS, HALVES, LOW, insert_half, insert_word, remove_half, remove_word};
pub use self::shape::SortedShape;
use self::shape::{IN_ALL_NODES, KEYS, MAX_KEYS};
use crate::levels::{LevelNode, Levels, MAX_LEVELS, Path};

const KIND: Kind = Kind::SortedTree;
const NODE_MAGIC: u64 = 0x50a7_ed7e;

/// A persistent B+ tree or B-tree of sorted arrays, with values of 4 bytes or of 8.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_structures::{SortedShape, SortedTree};
///
/// let tree = worker.run(|tx| SortedTree::<u64>::create(tx, root, SortedShape::b_plus(14)))?;
/// worker.run(|tx| (0..100).try_for_each(|key| tree.insert(tx, key, key as u32 + 1).map(drop)))?;
/// assert_eq!(worker.run(|tx| tree.remove(tx, 50))?, Some(51));
/// assert_eq!(worker.view(|tx| tree.first(tx, 50..))?, Some((51, 52)));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct SortedTree<K, V = u32> {
    /// The word that holds the root's address.
    top: PersistentAddress,
    shape: SortedShape,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for SortedTree<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for SortedTree<K, V> {}

/// A node, and how many keys it has.
#[derive(Clone, Copy)]
pub struct Node {
    at: PersistentAddress,
    level: u64,
    count: u64,
}

impl Node {
    fn header(self) -> u64 {
        NODE_MAGIC << 32 | self.level << 16 | self.count
    }

    fn keys(self) -> PersistentAddress {
        self.at.word(KEYS)
    }
}

impl LevelNode for Node {
    fn at(self) -> PersistentAddress {
        self.at
    }

    fn level(self) -> u64 {
        self.level
    }

    fn count(self) -> u64 {
        self.count
    }
}

/// A key as a word, with its value as a word if the node has pairs.
#[derive(Clone, Copy)]
struct Pair {
    key: u64,
    value: u64,
}

impl<K: Word + Ord, V: Word> SortedTree<K, V> {
    const VALUE_BYTES: u64 = size_of::<V>() as u64;
    const IN_HALVES: bool = match Self::VALUE_BYTES {
        4 => true,
        WORD_BYTES => false,
        _ => panic!("values take 4 bytes or 8"),
    };

    fn tag() -> u64 {
        KIND.tag(K::TYPE, <V as Word>::TYPE)
    }

    /// Creates an empty tree with nodes of `shape` under the root word `root`, or opens the tree of this shape that is already there.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the shape is impossible, [`Error::WrongStructure`] if `root` refers to something else, and an error if the
    /// pool is full or after a conflict.
    pub fn create(
        tx: &mut impl Transaction,
        root: PersistentAddress,
        shape: SortedShape,
    ) -> Result<Self, Abort> {
        if !shape.is_possible() || shape.value_bytes != Self::VALUE_BYTES {
            return Err(tx.fail(Error::Parameter(format!(
                "nodes of {} bytes with {} keys and values of {} bytes: 3 to {MAX_KEYS} keys that fit, values of {}",
                shape.bytes,
                shape.keys,
                shape.value_bytes,
                Self::VALUE_BYTES
            ))));
        }
        if let Some(tree) = Self::find(tx, root)? {
            return if tree.shape == shape { Ok(tree) } else { Err(tx.fail(KIND.wrong(root))) };
        }
        // The header has its own line: otherwise writers of neighbouring memory would conflict with every reader of the tree.
        let header = tx.alloc(LINE_BYTES)?;
        let tree = Self { top: header.word(2), shape, types: PhantomData };
        let leaf = tree.create_node(tx, 0)?;
        tx.write(leaf.at, leaf.header())?;
        tx.write_range(header, &[Self::tag() | shape.parameter(), shape.bytes, leaf.at.offset()])?;
        tx.write(root, header.offset())?;
        Ok(tree)
    }

    /// Opens the tree under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if there is none, and [`Error::WrongStructure`] if something else is there.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        match Self::find(tx, root)? {
            Some(tree) => Ok(tree),
            None => Err(tx.fail(KIND.missing(root))),
        }
    }

    fn find(tx: &mut impl Read, root: PersistentAddress) -> Result<Option<Self>, Abort> {
        let Some((header, words)) = header::find::<2>(tx, KIND, root, Self::tag())? else { return Ok(None) };
        let parameter = words[0] & PARAMETER_MASK;
        let in_all_nodes = parameter & IN_ALL_NODES != 0;
        let keys = parameter & !IN_ALL_NODES;
        let shape = SortedShape { bytes: words[1], keys, in_all_nodes, value_bytes: Self::VALUE_BYTES };
        if !shape.is_possible() {
            return Err(KIND.damaged(tx, header, "impossible nodes"));
        }
        Ok(Some(Self { top: header.word(2), shape, types: PhantomData }))
    }

    /// Returns the shape of its nodes.
    pub fn shape(&self) -> SortedShape {
        self.shape
    }

    /// Returns the address of the values of a node with pairs.
    fn values(&self, node: Node) -> PersistentAddress {
        node.at.word(KEYS + self.shape.keys)
    }

    /// Returns the address of the children of an inner node.
    fn children(&self, node: Node) -> PersistentAddress {
        node.at.word(KEYS + self.shape.keys + self.shape.value_words(node.level))
    }

    /// Returns the value at `index`, as a word.
    fn value(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<u64, Abort> {
        if !Self::IN_HALVES {
            return tx.read(self.values(node).word(index));
        }
        let word = tx.read(self.values(node).word(index / HALVES))?;
        Ok(word >> (HALF_BITS * (index % HALVES) as u32) & LOW)
    }

    fn set_value(&self, tx: &mut impl Transaction, node: Node, index: u64, value: u64) -> Result<(), Abort> {
        if !Self::IN_HALVES {
            return tx.write(self.values(node).word(index), value);
        }
        let at = self.values(node).word(index / HALVES);
        let shift = HALF_BITS * (index % HALVES) as u32;
        let word = tx.read(at)?;
        tx.write(at, word & !(LOW << shift) | value << shift)
    }

    /// Returns the pair at `index`; in a node without pairs the key, without a value.
    fn pair(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<Pair, Abort> {
        let key = tx.read(node.keys().word(index))?;
        let value = if self.shape.has_pairs(node.level) { self.value(tx, node, index)? } else { 0 };
        Ok(Pair { key, value })
    }

    fn set_pair(&self, tx: &mut impl Transaction, node: Node, index: u64, pair: Pair) -> Result<(), Abort> {
        tx.write(node.keys().word(index), pair.key)?;
        if self.shape.has_pairs(node.level) {
            self.set_value(tx, node, index, pair.value)?;
        }
        Ok(())
    }

    /// Creates a node without keys, whose header the caller writes.
    fn create_node(&self, tx: &mut impl Transaction, level: u64) -> Result<Node, Abort> {
        Ok(Node { at: tx.alloc(self.shape.bytes)?, level, count: 0 })
    }

    fn child(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<Node, Abort> {
        let at = tx.read(self.children(node).word(index))?;
        self.node(tx, PersistentAddress::new(at), node.level - 1)
    }

    /// Returns how many keys of a node satisfy `is_before`; these come first.
    fn search(&self, tx: &mut impl Read, node: Node, is_before: impl Fn(K) -> bool) -> Result<u64, Abort> {
        let (mut low, mut high) = (0, node.count);
        while low < high {
            let middle = (low + high) / 2;
            if is_before(K::from_word(tx.read(node.keys().word(middle))?)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the index of `key` in a node, or of the first greater key, and whether the key is there with a pair.
    fn place(&self, tx: &mut impl Read, node: Node, key: K) -> Result<(u64, bool), Abort> {
        if !self.shape.has_pairs(node.level) {
            // In an inner node of a B+ tree, pairs with an equal key are to the right.
            return Ok((self.search(tx, node, |other| other <= key)?, false));
        }
        let index = self.search(tx, node, |other| other < key)?;
        let is_there = index < node.count && K::from_word(tx.read(node.keys().word(index))?) == key;
        Ok((index, is_there))
    }

    /// Returns the node with the pair of `key`, or the leaf where it would be, with the result of [`SortedTree::place`]. Calls `pass` with the nodes
    /// on the path and the children taken.
    fn locate(
        &self,
        tx: &mut impl Read,
        key: K,
        mut pass: impl FnMut(Node, u64),
    ) -> Result<(Node, u64, bool), Abort> {
        let mut node = self.root(tx)?;
        loop {
            let (index, is_there) = self.place(tx, node, key)?;
            if is_there || node.level == 0 {
                return Ok((node, index, is_there));
            }
            pass(node, index);
            node = self.child(tx, node, index)?;
        }
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the tree is damaged.
    pub fn get(&self, tx: &mut impl Read, key: K) -> Result<Option<V>, Abort> {
        match self.locate(tx, key, |_, _| ())? {
            (node, index, true) => Ok(Some(V::from_word(self.value(tx, node, index)?))),
            _ => Ok(None),
        }
    }

    /// Returns whether `key` is there.
    ///
    /// # Errors
    /// As for [`SortedTree::get`].
    pub fn contains_key(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        Ok(self.locate(tx, key, |_, _| ())?.2)
    }

    /// Inserts a pair into a node with room at `index`, and a child at `child_index` of an inner node.
    fn put(
        &self,
        tx: &mut impl Transaction,
        node: Node,
        index: u64,
        pair: Pair,
        (child_index, child): (u64, u64),
    ) -> Result<(), Abort> {
        insert_word(tx, node.keys(), index, node.count, pair.key)?;
        if self.shape.has_pairs(node.level) {
            match Self::IN_HALVES {
                true => insert_half(tx, self.values(node), index, node.count, pair.value)?,
                false => insert_word(tx, self.values(node), index, node.count, pair.value)?,
            }
        }
        if node.level > 0 {
            insert_word(tx, self.children(node), child_index, node.count + 1, child)?;
        }
        tx.write(node.at, Node { count: node.count + 1, ..node }.header())
    }

    /// Removes the pair at `index`, and the child at `child_index` of an inner node. Returns the node that is left.
    fn take(
        &self,
        tx: &mut impl Transaction,
        node: Node,
        index: u64,
        child_index: u64,
    ) -> Result<Node, Abort> {
        remove_word(tx, node.keys(), index, node.count)?;
        if self.shape.has_pairs(node.level) {
            match Self::IN_HALVES {
                true => remove_half(tx, self.values(node), index, node.count)?,
                false => remove_word(tx, self.values(node), index, node.count)?,
            }
        }
        if node.level > 0 {
            remove_word(tx, self.children(node), child_index, node.count + 1)?;
        }
        let left = Node { count: node.count - 1, ..node };
        tx.write(node.at, left.header())?;
        Ok(left)
    }

    /// Inserts or replaces the value of `key`. Returns its old value.
    ///
    /// # Errors
    /// As for [`SortedTree::get`], [`Transaction::write`] and [`Transaction::alloc`].
    pub fn insert(&self, tx: &mut impl Transaction, key: K, value: V) -> Result<Option<V>, Abort> {
        let mut path = Path::new();
        let (node, index, is_there) = self.locate(tx, key, |node, index| path.push((node.at, index)))?;
        if is_there {
            let old = self.value(tx, node, index)?;
            self.set_value(tx, node, index, value.to_word())?;
            return Ok(Some(V::from_word(old)));
        }
        let pair = Pair { key: key.to_word(), value: value.to_word() };
        if node.count < self.shape.keys {
            self.put(tx, node, index, pair, (0, 0))?;
        } else {
            self.insert_full(tx, &path, node, index, pair)?;
        }
        Ok(None)
    }

    /// Inserts a pair into a full leaf.
    #[cold]
    fn insert_full(
        &self,
        tx: &mut impl Transaction,
        path: &Path,
        mut node: Node,
        mut index: u64,
        mut pair: Pair,
    ) -> Result<(), Abort> {
        let top_level = self.root(tx)?.level;
        let mut child = 0;
        while node.count == self.shape.keys {
            let (up, right) = self.split(tx, node, index, pair, child)?;
            (pair, child) = (up, right.offset());
            let level = node.level + 1;
            if level > top_level {
                if level >= MAX_LEVELS {
                    return Err(KIND.damaged(tx, node.at, "too many levels"));
                }
                let root = self.create_node(tx, level)?;
                tx.write(self.children(root), node.at.offset())?;
                self.put(tx, root, 0, pair, (1, child))?;
                return tx.write(self.top, root.at.offset());
            }
            (node, index) = self.above(tx, path, node)?;
        }
        self.put(tx, node, index, pair, (index + 1, child))
    }

    /// Splits a full node into which a pair should go at `index`, followed by a child. Returns the separator between it and a new node right of it,
    /// and that node.
    fn split(
        &self,
        tx: &mut impl Transaction,
        node: Node,
        index: u64,
        pair: Pair,
        child: u64,
    ) -> Result<(Pair, PersistentAddress), Abort> {
        let is_copied = self.is_copied(node.level);
        let (left, from) = match is_copied {
            true => (node.count / 2, node.count / 2),
            false => (self.shape.least(), self.shape.least() + 1),
        };
        let up = self.pair(tx, node, left)?;
        let mut right = self.create_node(tx, node.level)?;
        if node.level > 0 {
            let first = tx.read(self.children(node).word(from))?;
            tx.write(self.children(right), first)?;
        }
        self.append(tx, &mut right, node, from)?;
        tx.write(right.at, right.header())?;
        let node = Node { count: left, ..node };
        tx.write(node.at, node.header())?;
        if index <= left {
            self.put(tx, node, index, pair, (index + 1, child))?;
        } else {
            self.put(tx, right, index - from, pair, (index - from + 1, child))?;
        }
        Ok((up, right.at))
    }

    /// Returns whether the separator of two nodes of this level is a copy of a key in one of them, as with the leaves of a B+ tree.
    fn is_copied(&self, level: u64) -> bool {
        level == 0 && !self.shape.in_all_nodes
    }

    /// Copies the pairs of `from` from `index` on, and the children right of them, to the end of `to`; the caller writes the header of `to`.
    fn append(&self, tx: &mut impl Transaction, to: &mut Node, from: Node, index: u64) -> Result<(), Abort> {
        for i in index..from.count {
            let pair = self.pair(tx, from, i)?;
            self.set_pair(tx, *to, to.count, pair)?;
            if from.level > 0 {
                let child = tx.read(self.children(from).word(i + 1))?;
                tx.write(self.children(*to).word(to.count + 1), child)?;
            }
            to.count += 1;
        }
        Ok(())
    }

    /// Removes `key`. Returns its value, if it was there.
    ///
    /// # Errors
    /// As for [`SortedTree::get`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<Option<V>, Abort> {
        let mut path = Path::new();
        let (mut node, mut index, is_there) =
            self.locate(tx, key, |node, index| path.push((node.at, index)))?;
        if !is_there {
            return Ok(None);
        }
        let old = self.value(tx, node, index)?;
        if node.level > 0 {
            let (holed, hole) = (node, index);
            while node.level > 0 {
                path.push((node.at, index));
                node = self.child(tx, node, index)?;
                index = node.count;
            }
            index -= 1;
            let before = self.pair(tx, node, index)?;
            self.set_pair(tx, holed, hole, before)?;
        }
        let node = self.take(tx, node, index, 0)?;
        if node.count < self.shape.least() {
            self.strengthen(tx, &path, node)?;
        }
        Ok(Some(V::from_word(old)))
    }

    /// Repairs a node that has lost a key, and is not the root: it borrows a key from a sibling that can spare one, or merges the two, which takes a
    /// key from their parent.
    #[cold]
    fn strengthen(&self, tx: &mut impl Transaction, path: &Path, mut node: Node) -> Result<(), Abort> {
        let top_level = self.root(tx)?.level;
        while node.count < self.shape.least() && node.level < top_level {
            let (parent, index) = self.above(tx, path, node)?;
            let siblings = self.siblings(tx, parent, index, node)?;
            let can_spare = |sibling: &Node| sibling.count > self.shape.least();
            node = match siblings {
                [Some(left), _] if can_spare(&left) => {
                    return self.take_from_left(tx, parent, index - 1, left, node);
                }
                [_, Some(right)] if can_spare(&right) => {
                    return self.take_from_right(tx, parent, index, node, right);
                }
                [Some(left), _] => self.merge(tx, parent, index - 1, left, node)?,
                [_, Some(right)] => self.merge(tx, parent, index, node, right)?,
                [None, None] => return Err(KIND.damaged(tx, parent.at, "an only child")),
            };
        }
        if node.level == 0 || node.count > 0 {
            return Ok(());
        }
        // The root has lost its last key, so its only child replaces it.
        let child = tx.read(self.children(node))?;
        tx.write(self.top, child)?;
        tx.free(node.at)
    }

    /// Moves the last pair of `left` to the front of `node`, through their separator at `index` of the parent.
    fn take_from_left(
        &self,
        tx: &mut impl Transaction,
        parent: Node,
        index: u64,
        left: Node,
        node: Node,
    ) -> Result<(), Abort> {
        let last = self.pair(tx, left, left.count - 1)?;
        let comes = if self.is_copied(node.level) { last } else { self.pair(tx, parent, index)? };
        let child = if node.level > 0 { tx.read(self.children(left).word(left.count))? } else { 0 };
        self.take(tx, left, left.count - 1, left.count)?;
        self.set_pair(tx, parent, index, last)?;
        self.put(tx, node, 0, comes, (0, child))
    }

    /// Moves the first pair of `right` to the end of `node`, through their separator at `index` of the parent.
    fn take_from_right(
        &self,
        tx: &mut impl Transaction,
        parent: Node,
        index: u64,
        node: Node,
        right: Node,
    ) -> Result<(), Abort> {
        let first = self.pair(tx, right, 0)?;
        let comes = if self.is_copied(node.level) { first } else { self.pair(tx, parent, index)? };
        let child = if node.level > 0 { tx.read(self.children(right))? } else { 0 };
        let right = self.take(tx, right, 0, 0)?;
        let parts = if self.is_copied(node.level) { self.pair(tx, right, 0)? } else { first };
        self.set_pair(tx, parent, index, parts)?;
        self.put(tx, node, node.count, comes, (node.count + 1, child))
    }

    /// Moves everything in `right` to the end of `left`, after their separator at `index` of the parent. Returns the parent. Together they fit.
    fn merge(
        &self,
        tx: &mut impl Transaction,
        parent: Node,
        index: u64,
        mut left: Node,
        right: Node,
    ) -> Result<Node, Abort> {
        if !self.is_copied(left.level) {
            let between = self.pair(tx, parent, index)?;
            self.set_pair(tx, left, left.count, between)?;
            if left.level > 0 {
                let first = tx.read(self.children(right))?;
                tx.write(self.children(left).word(left.count + 1), first)?;
            }
            left.count += 1;
        }
        self.append(tx, &mut left, right, 0)?;
        tx.write(left.at, left.header())?;
        tx.free(right.at)?;
        self.take(tx, parent, index, index + 1)
    }

    ordered_methods!();

    /// Checks the tree's invariants. Returns the number of keys.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.check_levels(tx)
    }
}

impl<K: Word + Ord, V: Word> Levels<K, V> for SortedTree<K, V> {
    const KIND: Kind = KIND;
    const TOO_FEW: &'static str = "a node less than half full";
    type Node = Node;

    fn root(&self, tx: &mut impl Read) -> Result<Node, Abort> {
        let at = PersistentAddress::new(tx.read(self.top)?);
        let header = tx.read(at)?;
        let node = Node { at, level: header >> 16 & 0xffff, count: header & 0xffff };
        if header >> 32 != NODE_MAGIC || node.level >= MAX_LEVELS || node.count > self.shape.keys {
            return Err(Self::no_node(tx, at));
        }
        Ok(node)
    }

    fn node(&self, tx: &mut impl Read, at: PersistentAddress, level: u64) -> Result<Node, Abort> {
        let header = tx.read(at)?;
        let node = Node { at, level, count: header & 0xffff };
        if header != node.header() || !(1..=self.shape.keys).contains(&node.count) {
            return Err(Self::no_node(tx, at));
        }
        Ok(node)
    }

    fn child_at_index(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<Node, Abort> {
        self.child(tx, node, index)
    }

    fn key(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<K, Abort> {
        Ok(K::from_word(tx.read(node.keys().word(index))?))
    }

    fn value_of(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<V, Abort> {
        self.value(tx, node, index).map(V::from_word)
    }

    fn has_pairs(&self, level: u64) -> bool {
        self.shape.has_pairs(level)
    }

    fn keys_before(
        &self,
        tx: &mut impl Read,
        node: Node,
        is_before: impl Fn(K) -> bool,
    ) -> Result<u64, Abort> {
        self.search(tx, node, is_before)
    }

    fn least(&self) -> u64 {
        self.shape.least()
    }
}
