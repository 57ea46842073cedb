//! A B+ tree with large nodes that writes little.
//!
//! ```text
//! header   word 0 tag (parameter: pairs in a node) · word 1 bytes in a node · word 2 the root node
//! node     word 0 node magic << 8 | level (0: leaf)
//!          word 1 leaf: the next leaf, 0 at the end; inner node: the child left of all keys
//!          then the groups: ceil(pairs / 5) words
//!          then the pairs, from an even word on: key and value; inner node: key and the child right of it
//! group    bytes 0 to 6 numbers of pairs: those in use, in the order of their keys, then free ones
//!          byte 7 how many are in use (4 bits) · how many there are (4 bits)
//! ```
//!
//! Every written word is a log record, so a node of 200 pairs must not be shifted about to stay sorted. As in
//! the wB+-tree, pairs stay where they were put, and an array of their byte-sized numbers is kept in order.
//! But even that array is 25 words long, and an insertion would rewrite half of them. Hence *groups*: each
//! group word holds up to seven numbers and its own counts, and the array is what the groups have in use, one after
//! the other. There are more groups than the pairs need (five a group), so a group usually has room, and it owns free
//! numbers besides those in use: then **an insertion writes three words (key, value, group) and a removal one**. No
//! count of the node is stored: it is the sum of the groups'.
//!
//! When a group is full, one number moves over from each group to the next as far as the nearest one with
//! room; if that is far, all groups of the node are laid out anew. A group without a free number takes some over from another.
//!
//! *Search* goes by binary search over the first keys of the groups and then in one group, and reads no more than the
//! groups and keys that it compares. Groups with pairs in use come before those without, so that it finds some group's key
//! wherever it looks. Only what is used is checked. That is also all that most insertions and removals need; nodes
//! are loaded whole, checked and brought into one flat order, only to split, merge or even them out.
//!
//! *Insertion* into a full node moves its upper half to a new one and a key up. *Removal* looks at the whole node only when
//! it leaves a group without pairs. If the node is below a quarter full then, it is merged with a sibling if both
//! together fill three quarters at most, and otherwise evened out with it; the left sibling is preferred, so that it is the
//! small node which moves. A root without keys gives way to its only child.
//!
//! Invariants: keys ascend within a node; those of a child lie from the key left of it (inclusive) to the key
//! right of it (exclusive); all leaves have level 0 and are linked in order; the groups of a node name every pair once. Where a
//! node was at least a quarter full, groups that keep one of seven pairs keep a seventh of that: every node but the root
//! has as many. A child's level is one less than its parent's, so a way down ends even in a damaged pool, and leaves
//! are left when keys cease to ascend.
//!
//! The split of a node of 200 pairs takes some 300 log records: half of the pairs, and the groups of both nodes.

mod check;
mod groups;
mod node;
mod reshape;
mod scan;

use std::marker::PhantomData;
use std::ops::{ControlFlow, RangeBounds};

use arrayvec::ArrayVec;

use self::groups::{Group, NEAR, Place, insert_number, remove_number};
use self::node::Node;
use super::header::{self, Kind, PARAMETER_MASK};
use super::ordered::ordered_methods;
use super::value::Word;
use super::walk::Walk;
use crate::error::Error;
use crate::memory::{LINE_BYTES, PersistentAddress};
use crate::transaction::{Abort, Read, Transaction};

const KIND: Kind = Kind::BPlusTree;
/// The name of nodes in errors of a [`Walk`].
const NODE: &str = "a B+ tree's node";

const NODE_MAGIC: u64 = 0x5b_1e_b0;
const LINK: u64 = 1;
const GROUPS: u64 = 2;

/// Numbers that a group word holds in a full node that is evenly laid out.
const GROUP_EVEN: u64 = 5;
const MAX_PAIRS: u64 = 255;
const MAX_GROUPS: usize = MAX_PAIRS.div_ceil(GROUP_EVEN) as usize;
/// Nodes of four pairs have at least two children: 2^32 leaves.
const MAX_LEVELS: usize = 32;

/// The size of a B+ tree's nodes.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_core::structures::{BPlusTree, NodeShape};
///
/// // Small nodes, where logs are small.
/// let shape = NodeShape::of_pairs(14);
/// assert!(shape.bytes < NodeShape::PAPER.bytes / 10);
/// worker.run(|tx| BPlusTree::<u64, u64>::create(tx, root, shape))?;
/// // The tree knows its own.
/// assert_eq!(worker.view(|tx| BPlusTree::<u64, u64>::open(tx, root))?.shape(), shape);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeShape {
    /// Bytes in a node, a multiple of 8.
    pub bytes: u64,
    /// Pairs of key and value that a node holds, from 4 to 255.
    pub pairs: u64,
}

impl NodeShape {
    /// The paper's: 4096 bytes, 200 pairs of 8 + 8 bytes. Its splits need logs of more than 4 KB.
    pub const PAPER: Self = Self { bytes: 4096, pairs: 200 };

    /// The smallest node for `pairs` pairs, in whole lines.
    pub const fn of_pairs(pairs: u64) -> Self {
        let bytes = 8 * (pairs_begin(pairs) + 2 * pairs);
        Self { bytes: bytes.next_multiple_of(LINE_BYTES), pairs }
    }

    fn group_words(self) -> usize {
        self.pairs.div_ceil(GROUP_EVEN) as usize
    }

    /// Where pair number `number` of the node at `node` is.
    fn pair(self, node: PersistentAddress, number: u8) -> PersistentAddress {
        node.word(pairs_begin(self.pairs) + 2 * u64::from(number))
    }

    fn is_possible(self) -> bool {
        (4..=MAX_PAIRS).contains(&self.pairs)
            && self.bytes.is_multiple_of(8)
            && (8 * (pairs_begin(self.pairs) + 2 * self.pairs)..=1 << 30).contains(&self.bytes)
    }
}

/// The word of a node at which its pairs begin.
const fn pairs_begin(pairs: u64) -> u64 {
    (GROUPS + pairs.div_ceil(GROUP_EVEN)).next_multiple_of(2)
}

/// A persistent B+ tree.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_core::structures::{BPlusTree, NodeShape};
///
/// let tree = worker.run(|tx| BPlusTree::<u64, i64>::create(tx, root, NodeShape::of_pairs(14)))?;
/// worker.run(|tx| (0..100).try_for_each(|key| tree.insert(tx, key, -(key as i64)).map(drop)))?;
/// let mut found = Vec::new();
/// worker.view(|tx| {
///     found.clear();
///     tree.range(tx, 41..44, |_, value| Ok(found.push(value)))
/// })?;
/// assert_eq!(found, [-41, -42, -43]);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct BPlusTree<K, V> {
    /// The word that holds the root's address.
    top: PersistentAddress,
    shape: NodeShape,
    /// What follows from the shape: group words in a node, and the byte at which its pairs begin.
    groups: u64,
    pairs: u64,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for BPlusTree<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for BPlusTree<K, V> {}

/// Key and value, or key and child.
type Pair = [u64; 2];

/// What a search found: the last pair whose key is not greater.
#[derive(Clone, Copy)]
struct Found {
    place: Place,
    /// The word of its group.
    group: Group,
    number: u8,
    key: u64,
}

/// The place behind what was found.
#[inline]
fn behind(found: Option<Found>) -> Place {
    match found {
        Some(Found { place: Place { group, offset }, .. }) => Place { group, offset: offset + 1 },
        None => Place { group: 0, offset: 0 },
    }
}

/// The way down to a leaf: for each level, from the root on, the inner node, and the place behind the key left of the child taken.
type Path = ArrayVec<(PersistentAddress, Place), MAX_LEVELS>;

/// A leaf, and the level of the root above it.
#[derive(Clone, Copy)]
struct Leaf {
    at: PersistentAddress,
    top_level: usize,
}

impl<K: Word + Ord, V: Word> BPlusTree<K, V> {
    fn tag() -> u64 {
        KIND.tag(K::TYPE, V::TYPE)
    }

    /// The tree of possible shape whose root's address is at `top`.
    #[inline]
    fn new(top: PersistentAddress, shape: NodeShape) -> Self {
        let (groups, pairs) = (shape.pairs.div_ceil(GROUP_EVEN), 8 * pairs_begin(shape.pairs));
        Self { top, shape, groups, pairs, types: PhantomData }
    }

    /// Creates an empty tree with nodes of `shape` under the root word `root`, or opens the tree of this shape that is there.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the shape is impossible, [`Error::WrongStructure`] if something else hangs from `root`, and an error if the
    /// pool is full or after a conflict.
    pub fn create(
        tx: &mut impl Transaction,
        root: PersistentAddress,
        shape: NodeShape,
    ) -> Result<Self, Abort> {
        if !shape.is_possible() {
            return Err(tx.fail(Error::Parameter(format!(
                "nodes of {} bytes with {} pairs: 4 to 255 pairs that fit",
                shape.bytes, shape.pairs
            ))));
        }
        if let Some(tree) = Self::find(tx, root)? {
            return if tree.shape == shape { Ok(tree) } else { Err(tx.fail(KIND.wrong(root))) };
        }
        // A line of its own: its neighbours' writers would conflict with every reader of the tree.
        let header = tx.alloc(LINE_BYTES)?;
        let tree = Self::create_at(tx, header, shape)?;
        tx.write(root, header.offset())?;
        Ok(tree)
    }

    /// Words in a header.
    pub const HEADER_WORDS: usize = 3;

    /// Creates an empty tree with its header in the allocated words at `header`. The shape must be possible.
    pub fn create_at(
        tx: &mut impl Transaction,
        header: PersistentAddress,
        shape: NodeShape,
    ) -> Result<Self, Abort> {
        let leaf = tx.alloc(shape.bytes)?;
        Node::fresh(leaf, shape, 0, 0).write_fresh(tx, &[])?;
        tx.write_range(header, &[Self::tag() | shape.pairs, shape.bytes, leaf.offset()])?;
        Ok(Self::new(header.word(2), shape))
    }

    /// The tree whose header, found at `at`, is `header`.
    #[inline]
    pub fn of_header(tx: &mut impl Read, at: PersistentAddress, header: &[u64]) -> Result<Self, Abort> {
        let shape = NodeShape { bytes: header[1], pairs: header[0] & PARAMETER_MASK };
        if header[0] & !PARAMETER_MASK != Self::tag() || !shape.is_possible() {
            return Err(KIND.damaged(tx, at, "an impossible header"));
        }
        Ok(Self::new(at.word(2), shape))
    }

    /// Gives back the memory of the whole tree but for its header.
    pub fn destroy(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let root = self.load_root(tx)?;
        self.destroy_below(tx, &mut Walk::default(), &root)
    }

    fn destroy_below(&self, tx: &mut impl Transaction, walk: &mut Walk, node: &Node) -> Result<(), Abort> {
        walk.visit(tx, NODE, node.at, self.shape.bytes / 8)?;
        if node.level > 0 {
            for index in 0..=node.count {
                let child = node.child(tx, index)?;
                let child = node.load_child(tx, child)?;
                self.destroy_below(tx, walk, &child)?;
            }
        }
        tx.free(node.at)
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
        let shape = NodeShape { bytes: words[1], pairs: words[0] & PARAMETER_MASK };
        if !shape.is_possible() {
            return Err(KIND.damaged(tx, header, "impossible nodes"));
        }
        Ok(Some(Self::new(header.word(2), shape)))
    }

    /// The size of the tree's nodes.
    pub fn shape(&self) -> NodeShape {
        self.shape
    }

    fn load_root(&self, tx: &mut impl Read) -> Result<Node, Abort> {
        let root = PersistentAddress::new(tx.read(self.top)?);
        Node::load(tx, root, self.shape)
    }

    /// Pairs that every node but the root had when it was last looked at whole.
    fn least(&self) -> usize {
        self.shape.pairs as usize / 4
    }

    #[inline]
    fn group_at(node: PersistentAddress, group: u64) -> PersistentAddress {
        node.near(8 * (GROUPS + group))
    }

    /// Where pair number `number` of the node at `node` is.
    #[inline]
    fn pair_at(&self, node: PersistentAddress, number: u8) -> PersistentAddress {
        node.near(self.pairs + 16 * u64::from(number))
    }

    #[cold]
    fn impossible(tx: &mut impl Read, node: PersistentAddress) -> Abort {
        KIND.damaged(tx, node, "impossible groups")
    }

    /// The last pair of a node whose key `is_before` wants, which wants the first ones. What is returned is checked, but
    /// for the pair's key.
    #[inline(always)]
    fn search(
        &self,
        tx: &mut impl Read,
        node: PersistentAddress,
        is_before: impl Fn(K) -> bool,
    ) -> Result<Option<Found>, Abort> {
        let (mut group, mut number, mut key) = (Group::EMPTY, 0, 0);
        // The groups below `low` begin with a key that is before.
        let (mut low, mut high) = (0, self.groups);
        while low < high {
            let middle = (low + high) / 2;
            let candidate = Group(tx.read(Self::group_at(node, middle))?);
            if candidate.count() == 0 {
                high = middle;
                continue;
            }
            let first = candidate.number(0);
            let other = tx.read(self.pair_at(node, first))?;
            if is_before(K::from_word(other)) {
                (group, number, key) = (candidate, first, other);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == 0 {
            return Ok(None);
        }
        if !group.is_possible() {
            return Err(Self::impossible(tx, node));
        }
        let (mut begin, mut end) = (1, group.count());
        while begin < end {
            let middle = (begin + end) / 2;
            let candidate = group.number(middle);
            let other = tx.read(self.pair_at(node, candidate))?;
            if is_before(K::from_word(other)) {
                (number, key) = (candidate, other);
                begin = middle + 1;
            } else {
                end = middle;
            }
        }
        if u64::from(number) >= self.shape.pairs {
            return Err(Self::impossible(tx, node));
        }
        let place = Place { group: (low - 1) as u8, offset: (begin - 1) as u8 };
        Ok(Some(Found { place, group, number, key }))
    }

    /// The leaf that the keys behind those that `is_before` wants begin in; tells `visit` of the inner nodes on the way.
    #[inline]
    fn find_leaf(
        &self,
        tx: &mut impl Read,
        is_before: impl Fn(K) -> bool,
        mut visit: impl FnMut(PersistentAddress, Option<Found>),
    ) -> Result<Leaf, Abort> {
        let mut at = PersistentAddress::new(tx.read(self.top)?);
        let head = tx.read(at)?;
        let top_level = (head & 0xff) as usize;
        if head >> 8 != NODE_MAGIC || top_level >= MAX_LEVELS {
            return Err(KIND.damaged(tx, at, "something that is not a node"));
        }
        for level in (1..=top_level).rev() {
            let found = self.search(tx, at, &is_before)?;
            let child = match found {
                Some(found) => self.pair_at(at, found.number).word(1),
                None => at.word(LINK),
            };
            visit(at, found);
            at = PersistentAddress::new(tx.read(child)?);
            if tx.read(at)? != NODE_MAGIC << 8 | (level as u64 - 1) {
                return Err(KIND.damaged(tx, at, "something that is not a node, or one on the wrong level,"));
            }
        }
        Ok(Leaf { at, top_level })
    }

    /// The leaf of `key`, and the last pair there whose key is not behind it; puts the inner nodes on the way into `path`.
    #[inline]
    fn descend(&self, tx: &mut impl Read, key: K, path: &mut Path) -> Result<(Leaf, Option<Found>), Abort> {
        // Whoever has written nothing yet asks nothing but the words. If that fails, the transaction tells why.
        if let Some(mut plain) = tx.plain()
            && let Ok(found) = self.descend_by(&mut plain, key, |at, found| path.push((at, behind(found))))
        {
            return Ok(found);
        }
        path.clear();
        // Taken apart, so that what was found stays in registers.
        let (leaf, found) = self.descend_called(tx, key, path)?;
        Ok((leaf, found))
    }

    #[inline(never)]
    fn descend_called(
        &self,
        tx: &mut impl Read,
        key: K,
        path: &mut Path,
    ) -> Result<(Leaf, Option<Found>), Abort> {
        self.descend_by(tx, key, |at, found| path.push((at, behind(found))))
    }

    #[inline(always)]
    fn descend_by(
        &self,
        tx: &mut impl Read,
        key: K,
        visit: impl FnMut(PersistentAddress, Option<Found>),
    ) -> Result<(Leaf, Option<Found>), Abort> {
        let leaf = self.find_leaf(tx, |other| other <= key, visit)?;
        Ok((leaf, self.search(tx, leaf.at, |other| other <= key)?))
    }

    /// Finds `key` in its leaf: its pair.
    #[inline]
    fn locate(&self, tx: &mut impl Read, key: K) -> Result<Option<PersistentAddress>, Abort> {
        let (leaf, found) = self.descend_by(tx, key, |_, _| {})?;
        let equal = found.filter(|found| K::from_word(found.key) == key);
        Ok(equal.map(|found| self.pair_at(leaf.at, found.number)))
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the tree is damaged.
    #[inline]
    pub fn get(&self, tx: &mut impl Read, key: K) -> Result<Option<V>, Abort> {
        match self.locate(tx, key)? {
            Some(pair) => Ok(Some(V::from_word(tx.read(pair.word(1))?))),
            None => Ok(None),
        }
    }

    /// Returns whether `key` is there.
    ///
    /// # Errors
    /// As for [`BPlusTree::get`].
    #[inline]
    pub fn contains_key(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        Ok(self.locate(tx, key)?.is_some())
    }

    /// Gives `key` the value `value`; returns the old value, if there was one.
    ///
    /// # Errors
    /// Returns an error if the pool is full, and the errors of [`BPlusTree::get`] and [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: K, value: V) -> Result<Option<V>, Abort> {
        let pair = [key.to_word(), value.to_word()];
        let mut path = Path::new();
        let (leaf, found) = self.descend(tx, key, &mut path)?;
        if let Some(found) = found.filter(|found| K::from_word(found.key) == key) {
            let at = self.pair_at(leaf.at, found.number).word(1);
            let old = tx.read(at)?;
            if old != pair[1] {
                self.check_node(tx, leaf.at)?;
                tx.write(at, pair[1])?;
            }
            return Ok(Some(V::from_word(old)));
        }
        let place = behind(found);
        let group = match found {
            Some(found) => found.group,
            None => Group(tx.read(Self::group_at(leaf.at, 0))?),
        };
        if group.is_possible() && group.has_free() {
            let (group, number) = group.insert(place.offset.into());
            self.check_number(tx, leaf.at, number)?;
            tx.write_range(self.pair_at(leaf.at, number), &pair)?;
            tx.write(Self::group_at(leaf.at, place.group.into()), group.0)?;
        } else if !self.put_with_help(tx, leaf.at, place, pair)? {
            self.insert_whole(tx, &path, leaf, place, pair)?;
        }
        Ok(None)
    }

    /// Puts a pair into a node where its group has no room or no number for it, with the help of others. `false`, and
    /// nothing is written: the groups are to be laid out anew, or the node is full.
    #[cold]
    fn put_with_help(
        &self,
        tx: &mut impl Transaction,
        node: PersistentAddress,
        place: Place,
        pair: Pair,
    ) -> Result<bool, Abort> {
        let (at, all) = (usize::from(place.group), self.groups as usize);
        // Those near mostly can; a free number may come from any.
        for (first, end) in [(at.saturating_sub(NEAR), (at + NEAR + 1).min(all)), (0, all)] {
            let mut words = [0; MAX_GROUPS];
            let words = &mut words[..end - first];
            let mut groups = [Group::EMPTY; MAX_GROUPS];
            let groups = &mut groups[..words.len()];
            self.read_groups(tx, node, first as u64, words, groups)?;
            if u64::from(place.offset) > groups[at - first].count() {
                return Err(Self::impossible(tx, node));
            }
            let place = Place { group: (at - first) as u8, offset: place.offset };
            if let Some(number) = insert_number(groups, place) {
                self.check_number(tx, node, number)?;
                tx.write_range(self.pair_at(node, number), &pair)?;
                self.write_changed(tx, node, first as u64, words, groups)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads groups, from number `first` on.
    fn read_groups(
        &self,
        tx: &mut impl Read,
        node: PersistentAddress,
        first: u64,
        words: &mut [u64],
        groups: &mut [Group],
    ) -> Result<(), Abort> {
        tx.read_range(Self::group_at(node, first), words)?;
        for (group, &word) in groups.iter_mut().zip(&*words) {
            *group = Group(word);
            if !group.is_possible() {
                return Err(Self::impossible(tx, node));
            }
        }
        Ok(())
    }

    /// Fails unless this node, which has the magic, may be written.
    #[inline]
    fn check_node(&self, tx: &mut impl Transaction, at: PersistentAddress) -> Result<(), Abort> {
        KIND.check_block(tx, at, self.shape.bytes / 8)
    }

    /// Fails unless the pair with this number may be written.
    #[inline]
    fn check_number(
        &self,
        tx: &mut impl Transaction,
        at: PersistentAddress,
        number: u8,
    ) -> Result<(), Abort> {
        if u64::from(number) >= self.shape.pairs {
            return Err(Self::impossible(tx, at));
        }
        self.check_node(tx, at)
    }

    /// Removes `key`; returns its value, if it was there.
    ///
    /// # Errors
    /// As for [`BPlusTree::get`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<Option<V>, Abort> {
        let mut path = Path::new();
        let (leaf, found) = self.descend(tx, key, &mut path)?;
        let Some(Found { place, group, number, .. }) = found.filter(|found| K::from_word(found.key) == key)
        else {
            return Ok(None);
        };
        let old = tx.read(self.pair_at(leaf.at, number).word(1))?;
        if group.count() > 1 {
            self.check_node(tx, leaf.at)?;
            let less = group.remove(place.offset.into());
            tx.write(Self::group_at(leaf.at, place.group.into()), less.0)?;
        } else if !self.remove_last(tx, leaf, place)? {
            self.remove_whole(tx, &path, leaf, place)?;
        }
        Ok(Some(V::from_word(old)))
    }

    /// Removes the only pair of a group. `false`, and nothing is written: its leaf has too few then, or its groups are to be laid
    /// out anew.
    #[cold]
    fn remove_last(&self, tx: &mut impl Transaction, leaf: Leaf, place: Place) -> Result<bool, Abort> {
        let mut words = [0; MAX_GROUPS];
        let words = &mut words[..self.groups as usize];
        let mut groups = [Group::EMPTY; MAX_GROUPS];
        let groups = &mut groups[..words.len()];
        self.read_groups(tx, leaf.at, 0, words, groups)?;
        let count = groups.iter().map(|group| group.count() as usize).sum::<usize>();
        if leaf.top_level > 0 && count <= self.least() || !remove_number(groups, place) {
            return Ok(false);
        }
        self.check_node(tx, leaf.at)?;
        self.write_changed(tx, leaf.at, 0, words, groups)?;
        Ok(true)
    }

    /// Writes those groups, from number `first` on, that are not what they were.
    fn write_changed(
        &self,
        tx: &mut impl Transaction,
        node: PersistentAddress,
        first: u64,
        before: &[u64],
        groups: &[Group],
    ) -> Result<(), Abort> {
        for (at, (group, &before)) in (first..).zip(groups.iter().zip(before)) {
            if group.0 != before {
                tx.write(Self::group_at(node, at), group.0)?;
            }
        }
        Ok(())
    }

    ordered_methods!();
}
