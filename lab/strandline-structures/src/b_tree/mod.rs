//! A B-tree that edits in place, with values beside their keys on every level.
//!
//! ```text
//! header   word 0 tag (parameter: keys in a node) · word 1 the root node · the rest of its line unused
//! node     word 0 its order
//!          then room for the pairs' keys
//!          then, only in inner nodes, the child left of all keys and the child right of each pair
//!          then room for the pairs' values
//! order    bits 0 to 43 numbers of pairs, four bits each: those in use, in the order of their keys, then the free ones
//!          bits 44 to 47 how many are in use · bits 48 to 53 level (0: leaf) · bits 54 to 63 node magic
//! ```
//!
//! Every written word is a log record, so pairs stay in their places, and one word holds their order (like the permutation word of Masstree's nodes).
//! A descent touches only a few lines, because values are stored apart. **An insertion into a leaf with room writes three words (key, value, order)
//! and a removal one.** The order also lists the free pairs, so that finding one takes no search. A child belongs to the pair left of it and has its
//! number.
//!
//! Operations descend once and remember the path. *Insertion* into a full node moves the upper half of its pairs to a new node and the middle one up.
//! *Removal* of a pair in an inner node replaces it by the previous one, which is in a leaf. A node with too few pairs borrows one from a sibling
//! that can spare it, through the pair between the two in their parent, or is merged with a sibling and that pair. A root without keys is replaced by
//! its only child.
//!
//! Invariants: keys ascend within a node and are between the surrounding keys of its parent. A node has at least a third of the keys that fit, the
//! root at least one, and an empty root leaf none (with half, as in the textbook, every fifth removal would have to borrow or merge). All leaves have
//! level 0. A child's level is one less than its parent's, so that a descent ends even in a damaged pool. An order lists every pair once.

mod node;

use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ops::{ControlFlow, RangeBounds};

use strandline_core::error::Error;
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::ordered::ordered_methods;
use strandline_core::structures::value::Word;
use strandline_core::structures::{header, header::Kind, header::PARAMETER_MASK};
use strandline_core::transaction::{Abort, Read, Transaction};

use self::node::{KEYS, MAGIC, MAX_KEYS, NODE_MAGIC, Node, NodeKind};
use crate::levels::{Levels, MAX_LEVELS, Path};

const KIND: Kind = Kind::BTree;

/// A persistent B-tree.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_structures::BTree;
///
/// // Up to seven keys in a node.
/// let tree = worker.run(|tx| BTree::<u64, u64>::create(tx, root, 7))?;
/// worker.run(|tx| (0..100).try_for_each(|key| tree.insert(tx, key, key + 1).map(drop)))?;
/// assert_eq!(worker.run(|tx| tree.remove(tx, 50))?, Some(51));
/// assert_eq!(worker.view(|tx| tree.first(tx, 50..))?, Some((51, 52)));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct BTree<K, V> {
    /// The word that holds the root's address.
    top: PersistentAddress,
    /// The number of keys that a node holds, at most.
    keys: u64,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for BTree<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for BTree<K, V> {}

/// Key and value.
type Pair = [u64; 2];

/// The result of a search in a node.
#[derive(Clone, Copy)]
struct Place {
    /// The number of pairs that precede it.
    index: u64,
    /// The number of the child to descend to: 0 left of all keys, otherwise one more than the number of the last pair before.
    child: u64,
    /// The key of that pair.
    last: u64,
}

/// The result of a descent.
struct Way {
    /// The level of the root.
    top_level: u64,
    node: Node,
    /// The number of the node's keys that are not above the searched key.
    index: u64,
    /// The number of the pair with that key.
    pair: Option<u64>,
}

impl Place {
    /// Returns the number of the last pair before, if it has this key.
    fn pair<K: Word + Eq>(self, key: K) -> Option<u64> {
        (self.child > 0 && K::from_word(self.last) == key).then(|| self.child - 1)
    }
}

impl<K: Word + Ord, V: Word> BTree<K, V> {
    fn tag() -> u64 {
        KIND.tag(K::TYPE, V::TYPE)
    }

    /// Creates an empty tree whose nodes hold up to `keys` keys, from 3 to 11, under the root word `root`, or opens the tree with such nodes that is
    /// already there.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the number is impossible, [`Error::WrongStructure`] if `root` refers to something else, and an error if the
    /// pool is full or after a conflict.
    pub fn create(tx: &mut impl Transaction, root: PersistentAddress, keys: u64) -> Result<Self, Abort> {
        if !Self::is_possible(keys) {
            return Err(
                tx.fail(Error::Parameter(format!("{keys} keys in a node of a B-tree: from 3 to {MAX_KEYS}")))
            );
        }
        if let Some(tree) = Self::find(tx, root)? {
            return if tree.keys == keys { Ok(tree) } else { Err(tx.fail(KIND.wrong(root))) };
        }
        // The header has its own line: otherwise writers of neighbouring memory would conflict with every reader of the tree.
        let header = tx.alloc(LINE_BYTES)?;
        let tree = Self { top: header.word(1), keys, types: PhantomData };
        let leaf = tree.create_node(tx, 0, &[], &[])?;
        tx.write_range(header, &[Self::tag() | keys, leaf.offset()])?;
        tx.write(root, header.offset())?;
        Ok(tree)
    }

    fn is_possible(keys: u64) -> bool {
        (3..=MAX_KEYS).contains(&keys)
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
        let keys = words[0] & PARAMETER_MASK;
        if !Self::is_possible(keys) {
            return Err(KIND.damaged(tx, header, "impossible nodes"));
        }
        Ok(Some(Self { top: header.word(1), keys, types: PhantomData }))
    }

    /// Returns how many keys a node holds, at most.
    pub fn node_keys(&self) -> u64 {
        self.keys
    }

    /// Returns the word of `node` that holds child `number`.
    fn child_at(&self, node: Node, number: u64) -> PersistentAddress {
        node.at.near(8 * (KEYS + self.keys + number))
    }

    /// Returns how many children a node of this level has room for.
    fn children(&self, level: u64) -> u64 {
        if level == 0 { 0 } else { self.keys + 1 }
    }

    /// Returns the word that holds the value of the pair with this number.
    fn value_at(&self, node: Node, number: u64) -> PersistentAddress {
        node.at.near(8 * (KEYS + self.keys + self.children(node.level()) + number))
    }

    fn pair(&self, tx: &mut impl Read, node: Node, number: u64) -> Result<Pair, Abort> {
        Ok([tx.read(node.key_at(number))?, tx.read(self.value_at(node, number))?])
    }

    fn write_pair(
        &self,
        tx: &mut impl Transaction,
        node: Node,
        number: u64,
        pair: Pair,
    ) -> Result<(), Abort> {
        tx.write(node.key_at(number), pair[0])?;
        tx.write(self.value_at(node, number), pair[1])
    }

    /// Writes a new node with these pairs and, unless it is a leaf, these children.
    fn create_node(
        &self,
        tx: &mut impl Transaction,
        level: u64,
        pairs: &[Pair],
        children: &[u64],
    ) -> Result<PersistentAddress, Abort> {
        let at = tx.alloc(8 * (KEYS + 2 * self.keys + self.children(level)))?;
        let node = Node::fresh(at, level, pairs.len() as u64);
        tx.write(at, node.order)?;
        for (number, &pair) in (0..).zip(pairs) {
            self.write_pair(tx, node, number, pair)?;
        }
        tx.write_range(self.child_at(node, 0), children)?;
        Ok(at)
    }

    /// Returns the node at `at`, which must be of this kind and not the root.
    fn node_of_kind(&self, tx: &mut impl Read, at: PersistentAddress, kind: NodeKind) -> Result<Node, Abort> {
        let node = Node { at, order: tx.read(at)? };
        if node.kind() != kind || !(1..=self.keys).contains(&node.count()) {
            return Err(Self::no_node(tx, at));
        }
        Ok(node)
    }

    /// Returns the child of an inner node with this number.
    fn child(&self, tx: &mut impl Read, node: Node, number: u64) -> Result<Node, Abort> {
        let at = tx.read(self.child_at(node, number))?;
        self.node_of_kind(tx, PersistentAddress::new(at), node.kind().below())
    }

    /// Returns the number of the pair at `index`, which must exist.
    fn number(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<u64, Abort> {
        match node.number(index) {
            number if number < self.keys => Ok(number),
            _ => Err(Self::no_order(tx, node.at)),
        }
    }

    #[cold]
    fn no_order(tx: &mut impl Read, at: PersistentAddress) -> Abort {
        KIND.damaged(tx, at, "an impossible order")
    }

    /// Returns the number of the child at `index`.
    fn child_number(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<u64, Abort> {
        if index == 0 { Ok(0) } else { Ok(1 + self.number(tx, node, index - 1)?) }
    }

    /// Returns the place after the pairs whose keys satisfy `is_before`, which come first in a node. Only the returned number is checked.
    fn search(&self, tx: &mut impl Read, node: Node, is_before: impl Fn(K) -> bool) -> Result<Place, Abort> {
        let mut place = Place { index: 0, child: 0, last: 0 };
        let mut high = node.count();
        while place.index < high {
            let middle = (place.index + high) / 2;
            let number = node.number(middle);
            let other = tx.read(node.key_at(number))?;
            let goes_on = is_before(K::from_word(other));
            // Both results are equally likely, so a branch would be mispredicted every other time.
            place = Place {
                index: select_unpredictable(goes_on, middle + 1, place.index),
                child: select_unpredictable(goes_on, number + 1, place.child),
                last: select_unpredictable(goes_on, other, place.last),
            };
            high = select_unpredictable(goes_on, high, middle);
        }
        if place.child > self.keys {
            return Err(Self::no_order(tx, node.at));
        }
        Ok(place)
    }

    /// Returns the word that holds the value of `key`, if it is there.
    fn locate(&self, tx: &mut impl Read, key: K) -> Result<Option<PersistentAddress>, Abort> {
        let mut node = self.root(tx)?;
        loop {
            let place = self.search(tx, node, |other| other <= key)?;
            match place.pair(key) {
                Some(number) => return Ok(Some(self.value_at(node, number))),
                None if node.level() == 0 => return Ok(None),
                None => node = self.child(tx, node, place.child)?,
            }
        }
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the tree is damaged.
    pub fn get(&self, tx: &mut impl Read, key: K) -> Result<Option<V>, Abort> {
        match self.locate(tx, key)? {
            Some(at) => Ok(Some(V::from_word(tx.read(at)?))),
            None => Ok(None),
        }
    }

    /// Returns whether `key` is there.
    ///
    /// # Errors
    /// As for [`BTree::get`].
    pub fn contains_key(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        Ok(self.locate(tx, key)?.is_some())
    }

    /// Descends to the node with `key`, or to the leaf where it would be.
    fn descend(&self, tx: &mut impl Read, key: K, path: &mut Path) -> Result<Way, Abort> {
        if let Some(mut plain) = tx.plain()
            && let Ok(way) = self.descend_by(&mut plain, key, path)
        {
            return Ok(way);
        }
        path.clear();
        self.descend_by(tx, key, path)
    }

    fn descend_by(&self, tx: &mut impl Read, key: K, path: &mut Path) -> Result<Way, Abort> {
        let mut node = self.root(tx)?;
        let top_level = node.level();
        loop {
            let place = self.search(tx, node, |other| other <= key)?;
            let pair = place.pair(key);
            if pair.is_some() || node.level() == 0 {
                return Ok(Way { top_level, node, index: place.index, pair });
            }
            path.push((node.at, place.index));
            node = self.child(tx, node, place.child)?;
        }
    }

    /// Sets the value of `key`. Returns the old value, if there was one.
    ///
    /// # Errors
    /// Returns an error if the pool is full, and the errors of [`BTree::get`] and [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: K, value: V) -> Result<Option<V>, Abort> {
        let value = value.to_word();
        let mut path = Path::new();
        let Way { top_level, node, index, pair } = self.descend(tx, key, &mut path)?;
        if let Some(number) = pair {
            let at = self.value_at(node, number);
            let old = tx.read(at)?;
            if old != value {
                tx.write(at, value)?;
            }
            return Ok(Some(V::from_word(old)));
        }
        let pair = [key.to_word(), value];
        if node.count() < self.keys {
            self.put(tx, node, index, pair, 0)?;
        } else {
            self.insert_full(tx, &path, top_level, node, index, pair)?;
        }
        Ok(None)
    }

    /// Inserts a pair into a node with room; in an inner node also the child right of it.
    fn put(
        &self,
        tx: &mut impl Transaction,
        mut node: Node,
        index: u64,
        pair: Pair,
        child: u64,
    ) -> Result<(), Abort> {
        let number = self.number(tx, node, node.count())?;
        node.insert(index);
        self.write_pair(tx, node, number, pair)?;
        if node.level() > 0 {
            tx.write(self.child_at(node, 1 + number), child)?;
        }
        tx.write(node.at, node.order)
    }

    /// Inserts a pair into a full leaf.
    #[cold]
    fn insert_full(
        &self,
        tx: &mut impl Transaction,
        path: &Path,
        top_level: u64,
        mut node: Node,
        mut index: u64,
        mut pair: Pair,
    ) -> Result<(), Abort> {
        let mut child = 0;
        while node.count() == self.keys {
            (pair, child) = self.split(tx, node, index, pair, child)?;
            let level = node.level() + 1;
            if level > top_level {
                if level >= MAX_LEVELS {
                    return Err(KIND.damaged(tx, node.at, "too many levels"));
                }
                let root = self.create_node(tx, level, &[pair], &[node.at.offset(), child])?;
                return tx.write(self.top, root.offset());
            }
            (node, index) = self.above(tx, path, node)?;
        }
        self.put(tx, node, index, pair, child)
    }

    /// Splits a full node into which a pair should go at `index`, followed by a child. Returns the pair that separates it from a new node right of
    /// it, and that node.
    fn split(
        &self,
        tx: &mut impl Transaction,
        mut node: Node,
        index: u64,
        pair: Pair,
        child: u64,
    ) -> Result<(Pair, u64), Abort> {
        let is_inner = node.level() > 0;
        // The pairs that move up and right, with the new pair in its place.
        let left = self.keys.div_ceil(2);
        let (mut pairs, mut children) = ([[0; 2]; MAX_KEYS as usize], [0; MAX_KEYS as usize]);
        let moved = (self.keys + 1 - left) as usize;
        for (i, (moved, below)) in (left..).zip(pairs.iter_mut().zip(&mut children)).take(moved) {
            (*moved, *below) = if i == index {
                (pair, child)
            } else {
                let number = self.number(tx, node, if i < index { i } else { i - 1 })?;
                let below = if is_inner { tx.read(self.child_at(node, 1 + number))? } else { 0 };
                (self.pair(tx, node, number)?, below)
            };
        }
        let children = if is_inner { &children[..moved] } else { &[] };
        let right = self.create_node(tx, node.level(), &pairs[1..moved], children)?;
        if index < left {
            node.truncate(left - 1);
            self.put(tx, node, index, pair, child)?;
        } else {
            node.truncate(left);
            tx.write(node.at, node.order)?;
        }
        Ok((pairs[0], right.offset()))
    }

    /// Removes `key`. Returns its value, if it was there.
    ///
    /// # Errors
    /// As for [`BTree::get`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<Option<V>, Abort> {
        let mut path = Path::new();
        let Way { top_level, mut node, mut index, pair } = self.descend(tx, key, &mut path)?;
        let Some(number) = pair else { return Ok(None) };
        let old = tx.read(self.value_at(node, number))?;
        index -= 1;
        if node.level() > 0 {
            let (holed, hole) = (node, self.number(tx, node, index)?);
            while node.level() > 0 {
                path.push((node.at, index));
                let number = self.child_number(tx, node, index)?;
                node = self.child(tx, node, number)?;
                index = node.count();
            }
            index -= 1;
            let number = self.number(tx, node, index)?;
            let before = self.pair(tx, node, number)?;
            self.write_pair(tx, holed, hole, before)?;
        }
        node.remove(index);
        if node.count() >= self.least() || top_level == 0 {
            tx.write(node.at, node.order)?;
        } else {
            self.strengthen(tx, &path, top_level, node)?;
        }
        Ok(Some(V::from_word(old)))
    }

    /// Repairs a node that has lost a pair, which is still to be written, and is not the root: it borrows a pair from a sibling that can spare one,
    /// or merges the two, which takes a pair from their parent.
    #[cold]
    fn strengthen(
        &self,
        tx: &mut impl Transaction,
        path: &Path,
        top_level: u64,
        mut node: Node,
    ) -> Result<(), Abort> {
        while node.count() < self.least() && node.level() < top_level {
            let (mut parent, index) = self.above(tx, path, node)?;
            let siblings = self.siblings(tx, parent, index, node)?;
            let can_spare = |sibling: &Node| sibling.count() > self.least();
            match siblings {
                [Some(left), _] if can_spare(&left) => {
                    return self.take_from_left(tx, parent, index - 1, left, node);
                }
                [_, Some(right)] if can_spare(&right) => {
                    return self.take_from_right(tx, parent, index, node, right);
                }
                [Some(left), _] => {
                    self.merge(tx, parent, index - 1, left, node)?;
                    parent.remove(index - 1);
                }
                [_, Some(right)] => {
                    self.merge(tx, parent, index, node, right)?;
                    parent.remove(index);
                }
                [None, None] => return Err(KIND.damaged(tx, parent.at, "an only child")),
            }
            node = parent;
        }
        if node.count() > 0 {
            return tx.write(node.at, node.order);
        }
        // The root has lost its last pair, so its only child replaces it.
        let child = tx.read(self.child_at(node, 0))?;
        tx.write(self.top, child)?;
        tx.free(node.at)
    }

    /// Moves the last pair of `left` up, and the pair at `index` of the parent to the front of `node`.
    fn take_from_left(
        &self,
        tx: &mut impl Transaction,
        parent: Node,
        index: u64,
        mut left: Node,
        node: Node,
    ) -> Result<(), Abort> {
        let (between, last) = (self.number(tx, parent, index)?, self.number(tx, left, left.count() - 1)?);
        let (comes, goes_up) = (self.pair(tx, parent, between)?, self.pair(tx, left, last)?);
        let mut behind = 0;
        if node.level() > 0 {
            // The former first child follows the new pair.
            let first = self.child_at(node, 0);
            behind = tx.read(first)?;
            let moved = tx.read(self.child_at(left, 1 + last))?;
            tx.write(first, moved)?;
        }
        left.remove(left.count() - 1);
        tx.write(left.at, left.order)?;
        self.write_pair(tx, parent, between, goes_up)?;
        self.put(tx, node, 0, comes, behind)
    }

    /// Moves the first pair of `right` up, and the pair at `index` of the parent to the end of `node`.
    fn take_from_right(
        &self,
        tx: &mut impl Transaction,
        parent: Node,
        index: u64,
        node: Node,
        mut right: Node,
    ) -> Result<(), Abort> {
        let (between, next) = (self.number(tx, parent, index)?, self.number(tx, right, 0)?);
        let (comes, goes_up) = (self.pair(tx, parent, between)?, self.pair(tx, right, next)?);
        let mut moved = 0;
        if node.level() > 0 {
            let first = self.child_at(right, 0);
            moved = tx.read(first)?;
            let second = tx.read(self.child_at(right, 1 + next))?;
            tx.write(first, second)?;
        }
        right.remove(0);
        tx.write(right.at, right.order)?;
        self.write_pair(tx, parent, between, goes_up)?;
        self.put(tx, node, node.count(), comes, moved)
    }

    /// Moves the pair at `index` of the parent and everything in `right` to the end of `left`; the caller writes the parent's order. Together they
    /// fit.
    fn merge(
        &self,
        tx: &mut impl Transaction,
        parent: Node,
        index: u64,
        mut left: Node,
        right: Node,
    ) -> Result<(), Abort> {
        let is_inner = right.level() > 0;
        let between = self.number(tx, parent, index)?;
        let mut pair = self.pair(tx, parent, between)?;
        let mut child = 0;
        for index in 0..=right.count() {
            if index > 0 {
                let number = self.number(tx, right, index - 1)?;
                pair = self.pair(tx, right, number)?;
            }
            if is_inner {
                let number = self.child_number(tx, right, index)?;
                child = tx.read(self.child_at(right, number))?;
            }
            let number = self.number(tx, left, left.count())?;
            left.insert(left.count());
            self.write_pair(tx, left, number, pair)?;
            if is_inner {
                tx.write(self.child_at(left, 1 + number), child)?;
            }
        }
        tx.write(left.at, left.order)?;
        tx.free(right.at)
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

impl<K: Word + Ord, V: Word> Levels<K, V> for BTree<K, V> {
    const KIND: Kind = KIND;
    const TOO_FEW: &'static str = "a node less than a third full";
    type Node = Node;

    fn root(&self, tx: &mut impl Read) -> Result<Node, Abort> {
        let at = PersistentAddress::new(tx.read(self.top)?);
        let node = Node { at, order: tx.read(at)? };
        if node.order >> MAGIC != NODE_MAGIC || node.level() >= MAX_LEVELS || node.count() > self.keys {
            return Err(Self::no_node(tx, at));
        }
        Ok(node)
    }

    fn node(&self, tx: &mut impl Read, at: PersistentAddress, level: u64) -> Result<Node, Abort> {
        self.node_of_kind(tx, at, NodeKind::on(level))
    }

    fn child_at_index(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<Node, Abort> {
        let number = self.child_number(tx, node, index)?;
        self.child(tx, node, number)
    }

    fn key(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<K, Abort> {
        let number = self.number(tx, node, index)?;
        Ok(K::from_word(tx.read(node.key_at(number))?))
    }

    fn value_of(&self, tx: &mut impl Read, node: Node, index: u64) -> Result<V, Abort> {
        let number = self.number(tx, node, index)?;
        Ok(V::from_word(tx.read(self.value_at(node, number))?))
    }

    fn has_pairs(&self, _level: u64) -> bool {
        true
    }

    fn keys_before(
        &self,
        tx: &mut impl Read,
        node: Node,
        is_before: impl Fn(K) -> bool,
    ) -> Result<u64, Abort> {
        Ok(self.search(tx, node, is_before)?.index)
    }

    fn least(&self) -> u64 {
        self.keys / 3
    }

    fn check_node(&self, tx: &mut impl Read, node: Node) -> Result<(), Abort> {
        let named = (0..self.keys).fold(0, |named, index| named | 1u64 << node.number(index));
        if named == (1 << self.keys) - 1 {
            Ok(())
        } else {
            Err(KIND.damaged(tx, node.at, "a pair listed twice"))
        }
    }
}
