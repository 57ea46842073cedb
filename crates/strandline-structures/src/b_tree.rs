//! A B-tree: sorted arrays in every node, values beside their keys on every level.
//!
//! ```text
//! header   word 0 tag (parameter: keys in a node) · word 1 the root node · the rest of its line unused
//! node     word 0 node magic << 16 | level << 8 (0: leaf) | keys
//!          then room for the keys, ascending, then for their values, then for the children (inner nodes alone)
//! ```
//!
//! The B-tree of the textbooks (Bayer and McCreight; Cormen, Leiserson, Rivest and Stein, whose way down this
//! is): insertion splits full nodes on the way down, removal sees to it that every node it enters has a key to
//! spare, so both go down once and never up again. In WrAP's and ATOM's measurements it stands for the
//! structure that writes much, because it shifts its arrays (WrAP, Fig. 9); for one that writes little see
//! [`BPlusTree`](super::BPlusTree).
//!
//! Invariants: keys ascend within a node and lie between those of its parent around it; a node has half of the
//! keys that fit at least, the root one, an empty root leaf none; all leaves have level 0. A child's level is
//! one less than its parent's, so a way down ends even in a damaged pool.

use std::marker::PhantomData;
use std::ops::{ControlFlow, Range, RangeBounds};

use strandline_core::error::Error;
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::value::Word;
use strandline_core::structures::{header, header::Kind, header::PARAMETER_MASK};
use strandline_core::structures::{ordered::is_before, ordered::is_behind, ordered::ordered_methods};
use strandline_core::transaction::{Abort, Read, Transaction};

const KIND: Kind = Kind::BTree;
const NODE_MAGIC: u64 = 0xb7_4ee;
const MAX_KEYS: usize = 63;
const MAX_WORDS: usize = 1 + MAX_KEYS + MAX_KEYS + MAX_KEYS + 1;
/// Inner nodes have two children at least: more leaves than a pool has words.
const MAX_LEVELS: u64 = 48;

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
    /// Keys that a node holds at most, an odd number.
    keys: usize,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for BTree<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for BTree<K, V> {}

/// A node's words, and what of them the pool holds.
struct Node {
    at: PersistentAddress,
    /// Keys that fit.
    room: usize,
    words: [u64; MAX_WORDS],
    /// `None` for a new node, of which the pool holds nothing.
    stored: Option<[u64; MAX_WORDS]>,
}

impl Node {
    fn fresh(at: PersistentAddress, room: usize, level: u64) -> Self {
        let mut words = [0; MAX_WORDS];
        words[0] = NODE_MAGIC << 16 | level << 8;
        Self { at, room, words, stored: None }
    }

    /// Loads the node at `at`, which must be on `level` unless it is the root.
    fn load(
        tx: &mut impl Read,
        at: PersistentAddress,
        room: usize,
        level: Option<u64>,
    ) -> Result<Self, Abort> {
        let head = tx.read(at)?;
        let mut node = Self::fresh(at, room, 0);
        node.words[0] = head;
        if head >> 16 != NODE_MAGIC || node.count() > room || node.level() >= MAX_LEVELS {
            return Err(KIND.damaged(tx, at, "something that is not a node"));
        }
        if level.is_some_and(|level| level != node.level() || node.count() == 0) {
            return Err(KIND.damaged(tx, at, "an empty node, or one on the wrong level,"));
        }
        for part in [node.used_keys(), node.used_values(), node.used_children()] {
            tx.read_range(at.word(part.start as u64), &mut node.words[part])?;
        }
        node.stored = Some(node.words);
        Ok(node)
    }

    #[inline(always)]
    fn count(&self) -> usize {
        (self.words[0] & 0xff) as usize
    }

    #[inline(always)]
    fn level(&self) -> u64 {
        self.words[0] >> 8 & 0xff
    }

    fn set_count(&mut self, count: usize) {
        self.words[0] = self.words[0] & !0xff | count as u64;
    }

    fn used_keys(&self) -> Range<usize> {
        1..1 + self.count()
    }

    fn used_values(&self) -> Range<usize> {
        let first = value_at(self.room, 0);
        first..first + self.count()
    }

    fn used_children(&self) -> Range<usize> {
        let first = child_at(self.room, 0);
        first..first + if self.level() > 0 { self.count() + 1 } else { 0 }
    }

    fn key<K: Word>(&self, index: usize) -> K {
        K::from_word(self.words[1 + index])
    }

    fn pair(&self, index: usize) -> [u64; 2] {
        [self.words[1 + index], self.words[value_at(self.room, index)]]
    }

    fn set_pair(&mut self, index: usize, pair: [u64; 2]) {
        self.words[1 + index] = pair[0];
        self.words[value_at(self.room, index)] = pair[1];
    }

    fn child(&self, index: usize) -> u64 {
        self.words[child_at(self.room, index)]
    }

    /// The index of `key`, or that of the child below which it would be.
    fn position<K: Word + Ord>(&self, key: K) -> Result<usize, usize> {
        self.words[self.used_keys()].binary_search_by(|word| K::from_word(*word).cmp(&key))
    }

    /// Puts a pair in, and a child behind it.
    fn insert(&mut self, index: usize, pair: [u64; 2], child: u64) {
        let (count, values) = (self.count(), value_at(self.room, 0));
        self.words.copy_within(1 + index..1 + count, 2 + index);
        self.words.copy_within(values + index..values + count, values + index + 1);
        self.set_pair(index, pair);
        if self.level() > 0 {
            let children = child_at(self.room, 0);
            self.words.copy_within(children + index + 1..children + count + 1, children + index + 2);
            self.words[children + index + 1] = child;
        }
        self.set_count(count + 1);
    }

    /// Takes a pair out, and the child behind it.
    fn remove(&mut self, index: usize) -> ([u64; 2], u64) {
        let (count, values) = (self.count(), value_at(self.room, 0));
        let pair = self.pair(index);
        self.words.copy_within(2 + index..1 + count, 1 + index);
        self.words.copy_within(values + index + 1..values + count, values + index);
        let mut child = 0;
        if self.level() > 0 {
            let children = child_at(self.room, 0);
            child = self.child(index + 1);
            self.words.copy_within(children + index + 2..children + count + 1, children + index + 1);
        }
        self.set_count(count - 1);
        (pair, child)
    }

    /// Puts a pair in front, and a child in front of it.
    fn push_front(&mut self, pair: [u64; 2], child: u64) {
        let first = self.child(0);
        self.insert(0, pair, first);
        if self.level() > 0 {
            self.words[child_at(self.room, 0)] = child;
        }
    }

    /// Takes the first pair out, and the child in front of it.
    fn pop_front(&mut self) -> ([u64; 2], u64) {
        let first = self.child(0);
        let (pair, second) = self.remove(0);
        if self.level() > 0 {
            self.words[child_at(self.room, 0)] = second;
        }
        (pair, first)
    }

    /// Writes the words in use that have changed. What the pool holds in words that were not in use is unknown.
    fn store(&mut self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let known = self.stored.map_or(0, |stored| 1 + (stored[0] & 0xff) as usize);
        let stored = self.stored.unwrap_or(self.words);
        let parts = [
            (0..1, known.min(1)),
            (self.used_keys(), known.saturating_sub(1)),
            (self.used_values(), known.saturating_sub(1)),
            (self.used_children(), known),
        ];
        for (part, known) in parts {
            let middle = part.start + known.min(part.len());
            for (i, (&new, &old)) in self.words.iter().zip(&stored).enumerate().take(middle).skip(part.start)
            {
                if new != old {
                    tx.write(self.at.word(i as u64), new)?;
                }
            }
            tx.write_range(self.at.word(middle as u64), &self.words[middle..part.end])?;
        }
        self.stored = Some(self.words);
        Ok(())
    }
}

/// The word of a node that holds value `index`.
#[inline(always)]
fn value_at(room: usize, index: usize) -> usize {
    1 + room + index
}

/// The word of a node that holds child `index`.
#[inline(always)]
fn child_at(room: usize, index: usize) -> usize {
    1 + 2 * room + index
}

/// What a removal looks for below a node.
#[derive(Clone, Copy)]
enum Sought<K> {
    Key(K),
    Least,
    Greatest,
}

impl<K: Word + Ord, V: Word> BTree<K, V> {
    fn tag() -> u64 {
        KIND.tag(K::TYPE, V::TYPE)
    }

    /// Creates an empty tree whose nodes hold up to `keys` keys, an odd number from 3 to 63, under the root
    /// word `root`, or opens the tree of such nodes that is there.
    ///
    /// # Errors
    /// The number is impossible ([`Error::Parameter`]); something else hangs from `root`
    /// ([`Error::WrongStructure`]); the pool is full; a conflict.
    pub fn create(tx: &mut impl Transaction, root: PersistentAddress, keys: u64) -> Result<Self, Abort> {
        if !Self::is_possible(keys) {
            return Err(tx.fail(Error::Parameter(format!(
                "{keys} keys in a node of a B-tree: an odd number from 3 to {MAX_KEYS}"
            ))));
        }
        if let Some(tree) = Self::find(tx, root)? {
            return if tree.keys as u64 == keys { Ok(tree) } else { Err(tx.fail(KIND.wrong(root))) };
        }
        // A line of its own: its neighbours' writers would conflict with every reader of the tree.
        let header = tx.alloc(LINE_BYTES)?;
        let tree = Self { top: header.word(1), keys: keys as usize, types: PhantomData };
        let mut leaf = tree.fresh(tx, 0)?;
        leaf.store(tx)?;
        tx.write_range(header, &[Self::tag() | keys, leaf.at.offset()])?;
        tx.write(root, header.offset())?;
        Ok(tree)
    }

    fn is_possible(keys: u64) -> bool {
        (3..=MAX_KEYS as u64).contains(&keys) && !keys.is_multiple_of(2)
    }

    /// Opens the tree under the root word `root`.
    ///
    /// # Errors
    /// There is none ([`Error::Missing`]), or something else ([`Error::WrongStructure`]).
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
        Ok(Some(Self { top: header.word(1), keys: keys as usize, types: PhantomData }))
    }

    /// Keys that a node holds at most.
    pub fn node_keys(&self) -> u64 {
        self.keys as u64
    }

    /// A new node, not yet written; a leaf has no room for children.
    fn fresh(&self, tx: &mut impl Transaction, level: u64) -> Result<Node, Abort> {
        let words = if level == 0 { child_at(self.keys, 0) } else { child_at(self.keys, self.keys + 1) };
        Ok(Node::fresh(tx.alloc(8 * words as u64)?, self.keys, level))
    }

    fn root(&self, tx: &mut impl Read) -> Result<Node, Abort> {
        let root = PersistentAddress::new(tx.read(self.top)?);
        Node::load(tx, root, self.keys, None)
    }

    fn child(&self, tx: &mut impl Read, node: &Node, index: usize) -> Result<Node, Abort> {
        Node::load(tx, PersistentAddress::new(node.child(index)), self.keys, Some(node.level() - 1))
    }

    /// The word that holds the value of `key`, if it is there.
    #[inline]
    fn locate(&self, tx: &mut impl Read, key: K) -> Result<Option<PersistentAddress>, Abort> {
        let mut at = PersistentAddress::new(tx.read(self.top)?);
        let mut above = MAX_LEVELS;
        loop {
            let head = tx.read(at)?;
            let (level, count) = (head >> 8 & 0xff, (head & 0xff) as usize);
            if head >> 16 != NODE_MAGIC || count > self.keys || level >= above {
                return Err(KIND.damaged(tx, at, "something that is not a node, or not where it belongs,"));
            }
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = (low + high) / 2;
                let other = K::from_word(tx.read(at.word(1 + middle as u64))?);
                match other.cmp(&key) {
                    std::cmp::Ordering::Equal => {
                        return Ok(Some(at.word(value_at(self.keys, middle) as u64)));
                    }
                    std::cmp::Ordering::Less => low = middle + 1,
                    std::cmp::Ordering::Greater => high = middle,
                }
            }
            if level == 0 {
                return Ok(None);
            }
            at = PersistentAddress::new(tx.read(at.word(child_at(self.keys, low) as u64))?);
            above = level;
        }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// A conflict; the tree is damaged.
    #[inline]
    pub fn get(&self, tx: &mut impl Read, key: K) -> Result<Option<V>, Abort> {
        match self.locate(tx, key)? {
            Some(at) => Ok(Some(V::from_word(tx.read(at)?))),
            None => Ok(None),
        }
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// As [`BTree::get`].
    #[inline]
    pub fn contains_key(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        Ok(self.locate(tx, key)?.is_some())
    }

    /// Gives `key` the value `value`; returns the old value, if there was one.
    ///
    /// # Errors
    /// The pool is full; as [`BTree::get`] and [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: K, value: V) -> Result<Option<V>, Abort> {
        let value = value.to_word();
        if let Some(at) = self.locate(tx, key)? {
            let old = tx.read(at)?;
            if old != value {
                tx.write(at, value)?;
            }
            return Ok(Some(V::from_word(old)));
        }
        let mut node = self.root(tx)?;
        if node.count() == self.keys {
            if node.level() + 1 >= MAX_LEVELS {
                return Err(KIND.damaged(tx, node.at, "too many levels"));
            }
            let mut root = self.fresh(tx, node.level() + 1)?;
            root.words[child_at(self.keys, 0)] = node.at.offset();
            tx.write(self.top, root.at.offset())?;
            let right = self.split(tx, &mut root, 0, &mut node)?;
            root.store(tx)?;
            node = if key < root.key(0) { node } else { right };
        }
        while node.level() > 0 {
            let (Ok(index) | Err(index)) = node.position(key);
            let mut child = self.child(tx, &node, index)?;
            if child.count() == self.keys {
                let right = self.split(tx, &mut node, index, &mut child)?;
                node.store(tx)?;
                if key > node.key(index) {
                    child = right;
                }
            }
            node = child;
        }
        let (Ok(index) | Err(index)) = node.position(key);
        node.insert(index, [key.to_word(), value], 0);
        node.store(tx)?;
        Ok(None)
    }

    /// Splits the full child `index` of a node that has room, whose store is left to the caller; returns the
    /// new right half.
    fn split(
        &self,
        tx: &mut impl Transaction,
        node: &mut Node,
        index: usize,
        child: &mut Node,
    ) -> Result<Node, Abort> {
        let half = self.keys / 2;
        let mut right = self.fresh(tx, child.level())?;
        for i in half + 1..self.keys {
            let at = right.count();
            right.insert(at, child.pair(i), child.child(i + 1));
        }
        if child.level() > 0 {
            right.words[child_at(self.keys, 0)] = child.child(half + 1);
        }
        node.insert(index, child.pair(half), right.at.offset());
        child.set_count(half);
        right.store(tx)?;
        child.store(tx)?;
        Ok(right)
    }

    /// Removes `key`; returns its value, if it was there.
    ///
    /// # Errors
    /// As [`BTree::get`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<Option<V>, Abort> {
        let Some(at) = self.locate(tx, key)? else { return Ok(None) };
        let old = tx.read(at)?;
        let mut node = self.root(tx)?;
        let mut sought = Sought::Key(key);
        // The place of the key in an inner node, into which the next or the previous pair is to go.
        let mut hole = None;
        loop {
            let position = match sought {
                Sought::Key(key) => node.position(key),
                Sought::Least => Err(0),
                Sought::Greatest => Err(node.count()),
            };
            if node.level() == 0 {
                let index = match (sought, position) {
                    (Sought::Key(_), Ok(index)) => index,
                    (Sought::Least, _) if node.count() > 0 => 0,
                    (Sought::Greatest, _) if node.count() > 0 => node.count() - 1,
                    _ => return Err(KIND.damaged(tx, node.at, "a key that comes and goes, in a leaf")),
                };
                let ([word, value], _) = node.remove(index);
                node.store(tx)?;
                if let Some((at, index)) = hole {
                    let at: PersistentAddress = at;
                    tx.write(at.word(1 + index as u64), word)?;
                    tx.write(at.word(value_at(self.keys, index) as u64), value)?;
                }
                return Ok(Some(V::from_word(old)));
            }
            node = match position {
                Ok(index) => {
                    let left = self.child(tx, &node, index)?;
                    if self.can_spare(&left) {
                        hole = Some((node.at, index));
                        sought = Sought::Greatest;
                        left
                    } else {
                        let right = self.child(tx, &node, index + 1)?;
                        if self.can_spare(&right) {
                            hole = Some((node.at, index));
                            sought = Sought::Least;
                            right
                        } else {
                            self.merge(tx, &mut node, index, left, &right)?
                        }
                    }
                }
                Err(index) => {
                    let child = self.child(tx, &node, index)?;
                    if self.can_spare(&child) { child } else { self.strengthen(tx, &mut node, index, child)? }
                }
            };
        }
    }

    /// Whether a node may lose a key.
    fn can_spare(&self, node: &Node) -> bool {
        node.count() > self.keys / 2
    }

    /// Merges the children around pair `index`, both half full, into the left one, which it returns. A root
    /// that loses its last pair gives way to it.
    fn merge(
        &self,
        tx: &mut impl Transaction,
        node: &mut Node,
        index: usize,
        mut left: Node,
        right: &Node,
    ) -> Result<Node, Abort> {
        if left.at == right.at {
            return Err(KIND.damaged(tx, node.at, "the same child twice"));
        }
        let (pair, _) = node.remove(index);
        let end = left.count();
        left.insert(end, pair, right.child(0));
        for i in 0..right.count() {
            let end = left.count();
            left.insert(end, right.pair(i), right.child(i + 1));
        }
        tx.free(right.at)?;
        if node.count() > 0 {
            node.store(tx)?;
        } else if tx.read(self.top)? == node.at.offset() {
            tx.write(self.top, left.at.offset())?;
            tx.free(node.at)?;
        } else {
            return Err(KIND.damaged(tx, node.at, "an inner node without keys"));
        }
        left.store(tx)?;
        Ok(left)
    }

    /// Gives the half-full child `index` a key from a sibling that can spare one, or merges it with one.
    fn strengthen(
        &self,
        tx: &mut impl Transaction,
        node: &mut Node,
        index: usize,
        mut child: Node,
    ) -> Result<Node, Abort> {
        if node.count() == 0 {
            return Err(KIND.damaged(tx, node.at, "an inner node without keys"));
        }
        let mut left = if index > 0 { Some(self.child(tx, node, index - 1)?) } else { None };
        if let Some(mut left) = left.take_if(|left| self.can_spare(left)) {
            let last = left.count() - 1;
            let (pair, grandchild) = left.remove(last);
            child.push_front(node.pair(index - 1), grandchild);
            node.set_pair(index - 1, pair);
            return Self::store_moved(tx, node, left, child);
        }
        let right = if index < node.count() { Some(self.child(tx, node, index + 1)?) } else { None };
        match (left, right) {
            (_, Some(mut right)) if self.can_spare(&right) => {
                let (pair, grandchild) = right.pop_front();
                let end = child.count();
                child.insert(end, node.pair(index), grandchild);
                node.set_pair(index, pair);
                Self::store_moved(tx, node, right, child)
            }
            (Some(left), _) => self.merge(tx, node, index - 1, left, &child),
            (None, Some(right)) => self.merge(tx, node, index, child, &right),
            (None, None) => Err(KIND.damaged(tx, node.at, "an only child")),
        }
    }

    fn store_moved(
        tx: &mut impl Transaction,
        node: &mut Node,
        mut sibling: Node,
        mut child: Node,
    ) -> Result<Node, Abort> {
        node.store(tx)?;
        sibling.store(tx)?;
        child.store(tx)?;
        Ok(child)
    }

    ordered_methods!();

    fn scan(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<(), Abort> {
        let root = self.root(tx)?;
        self.scan_below(tx, &root, &keys, &mut None, &mut visit).map(drop)
    }

    fn scan_below(
        &self,
        tx: &mut impl Read,
        node: &Node,
        keys: &impl RangeBounds<K>,
        last: &mut Option<K>,
        visit: &mut impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<ControlFlow<()>, Abort> {
        let begin =
            node.words[node.used_keys()].partition_point(|word| is_before(&K::from_word(*word), keys));
        for index in begin..=node.count() {
            if node.level() > 0 {
                let child = self.child(tx, node, index)?;
                if self.scan_below(tx, &child, keys, last, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if index == node.count() {
                break;
            }
            let key = node.key(index);
            if last.is_some_and(|last| key <= last) {
                return Err(KIND.damaged(tx, node.at, "keys out of order"));
            }
            *last = Some(key);
            if is_behind(&key, keys) || visit(key, V::from_word(node.pair(index)[1]))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Checks the tree's invariants; returns the number of keys.
    ///
    /// # Errors
    /// [`Error::Damaged`]: one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let root = self.root(tx)?;
        if root.level() > 0 && root.count() == 0 {
            return Err(KIND.damaged(tx, root.at, "a root without keys"));
        }
        self.check_below(tx, &root, None, None)
    }

    /// The number of keys under `node`, which lie between two keys.
    fn check_below(
        &self,
        tx: &mut impl Read,
        node: &Node,
        above: Option<K>,
        below: Option<K>,
    ) -> Result<u64, Abort> {
        let mut last = above;
        for index in 0..node.count() {
            let key = node.key(index);
            if last.is_some_and(|last| key <= last) || below.is_some_and(|below| key >= below) {
                return Err(KIND.damaged(tx, node.at, "keys out of order"));
            }
            last = Some(key);
        }
        let mut count = node.count() as u64;
        if node.level() == 0 {
            return Ok(count);
        }
        for index in 0..=node.count() {
            let child = self.child(tx, node, index)?;
            if child.count() < self.keys / 2 {
                return Err(KIND.damaged(tx, child.at, "a node less than half full"));
            }
            let above = if index == 0 { above } else { Some(node.key(index - 1)) };
            let below = if index == node.count() { below } else { Some(node.key(index)) };
            count += self.check_below(tx, &child, above, below)?;
        }
        Ok(count)
    }
}
