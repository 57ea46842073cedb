//! A B+ tree with large nodes that writes few words.
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
//! Every written word is a log record, so an insertion into a node of 200 pairs must not shift the others to keep them sorted. As in the
//! wB+-tree, pairs stay where they were put, and an array of their byte-sized numbers is kept in order. But even that array is 25 words
//! long, and an insertion would rewrite half of them. Hence *groups*: each group word has up to seven numbers and its own counts, and the
//! array is the numbers in use of all groups, one group after the other. There are more groups than the pairs need (one for five pairs), so
//! a group usually has room, and it owns free numbers besides those in use. Then **an insertion writes three words (key, value, group) and
//! a removal one**. No count of the node is stored: it is the sum of the groups'.
//!
//! When a group is full, each group from there to the nearest one with room moves one number to the next. If that one is far, all groups of
//! the node are laid out again. A group without a free number takes some from another group.
//!
//! *Search* is a binary search over the first keys of the groups and then in one group. It reads only the groups and keys that it compares.
//! Groups with pairs in use come before groups without, so that the search finds a key in every group that it compares. Only the words that
//! a search uses are checked. Most insertions and removals need no more than this; nodes are loaded whole, checked and brought into one
//! flat order only to be split, merged or evened out.
//!
//! *Insertion* into a full node moves its upper half to a new node and a key to the parent. *Removal* looks at the whole node only if it
//! empties a group. If the node then is less than a quarter full, it is merged with a sibling if both together fill at most three quarters
//! of a node, and otherwise takes pairs from it. The left sibling is preferred, so that the pairs of the smaller node are the ones that
//! move. If the root has no keys, its only child becomes the root.
//!
//! Invariants: keys ascend within a node; the keys of a child are at least the key left of it, and less than the key right of it; all
//! leaves have level 0 and are linked in order; the groups of a node name every pair once. A node is evened out below a quarter of its
//! pairs only when a group is emptied; since each group of up to seven keeps one pair, every node but the root keeps at least a seventh of
//! a quarter. A child's level is one less than its parent's, so a descent ends even in a damaged pool. A scan leaves a leaf with an error
//! when keys cease to ascend.
//!
//! The split of a node of 200 pairs takes about 300 log records: half of the pairs, and the groups of both nodes.

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
/// The name of a node in errors of a [`Walk`].
const NODE: &str = "a B+ tree's node";

const NODE_MAGIC: u64 = 0x5b_1e_b0;
const LINK: u64 = 1;
const GROUPS: u64 = 2;

/// The numbers in a group word of a full node whose numbers are evenly distributed.
const GROUP_EVEN: u64 = 5;
const MAX_PAIRS: u64 = 255;
const MAX_GROUPS: usize = MAX_PAIRS.div_ceil(GROUP_EVEN) as usize;
/// Inner nodes of four pairs have at least two children, so this is enough for 2^32 leaves.
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
/// // The header has the shape.
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
    /// The paper's shape: 4096 bytes, 200 pairs of 8 + 8 bytes. A split of such a node needs logs of more than 4 KB.
    pub const PAPER: Self = Self { bytes: 4096, pairs: 200 };

    /// The smallest node for `pairs` pairs, in whole lines.
    pub const fn of_pairs(pairs: u64) -> Self {
        let bytes = 8 * (pairs_begin(pairs) + 2 * pairs);
        Self { bytes: bytes.next_multiple_of(LINE_BYTES), pairs }
    }

    fn group_words(self) -> usize {
        self.pairs.div_ceil(GROUP_EVEN) as usize
    }

    /// Returns the address of pair number `number` of the node at `node`.
    fn pair(self, node: PersistentAddress, number: u8) -> PersistentAddress {
        node.word(pairs_begin(self.pairs) + 2 * u64::from(number))
    }

    fn is_possible(self) -> bool {
        (4..=MAX_PAIRS).contains(&self.pairs)
            && self.bytes.is_multiple_of(8)
            && (8 * (pairs_begin(self.pairs) + 2 * self.pairs)..=1 << 30).contains(&self.bytes)
    }
}

/// Returns the number of the word at which a node's pairs begin.
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
    /// The address of the word that has the root's address.
    top: PersistentAddress,
    shape: NodeShape,
    /// These follow from the shape: the number of group words in a node, and the byte at which its pairs begin.
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

/// A key and its value, or a key and the child right of it.
type Pair = [u64; 2];

/// The result of a search: the last pair whose key is not greater than the one that was looked for.
#[derive(Clone, Copy)]
struct Found {
    place: Place,
    /// The word of the pair's group.
    group: Group,
    number: u8,
    key: u64,
}

/// Returns the place behind the pair that was found; the first place if none was.
#[inline]
fn behind(found: Option<Found>) -> Place {
    match found {
        Some(Found { place: Place { group, offset }, .. }) => Place { group, offset: offset + 1 },
        None => Place { group: 0, offset: 0 },
    }
}

/// The path to a leaf: for each level, from the root on, the inner node, and the place behind the key left of the child.
type Path = ArrayVec<(PersistentAddress, Place), MAX_LEVELS>;

/// A leaf, and the level of the root.
#[derive(Clone, Copy)]
struct Leaf {
    at: PersistentAddress,
    top_level: usize,
}

impl<K: Word + Ord, V: Word> BPlusTree<K, V> {
    fn tag() -> u64 {
        KIND.tag(K::TYPE, V::TYPE)
    }

    /// Returns the tree whose root's address is at `top`. The shape must be possible.
    #[inline]
    fn new(top: PersistentAddress, shape: NodeShape) -> Self {
        let (groups, pairs) = (shape.pairs.div_ceil(GROUP_EVEN), 8 * pairs_begin(shape.pairs));
        Self { top, shape, groups, pairs, types: PhantomData }
    }

    /// Creates an empty tree with nodes of `shape` under the root word `root`, or opens the tree of this shape that is there.
    ///
    /// Returns [`Error::Parameter`] if the shape is impossible, [`Error::WrongStructure`] if `root` refers to something else, and an error
    /// if the pool is full or after a conflict.
    pub fn create(
        tx: &mut impl Transaction,
        root: PersistentAddress,
        shape: NodeShape,
    ) -> Result<Self, Abort> {
        if !shape.is_possible() {
            return Err(tx.fail(Error::Parameter(format!(
                "a node of {} bytes cannot have {} pairs: choose from 4 to 255 pairs, and enough bytes for them",
                shape.bytes, shape.pairs
            ))));
        }
        if let Some(tree) = Self::find(tx, root)? {
            return if tree.shape == shape { Ok(tree) } else { Err(tx.fail(KIND.wrong(root))) };
        }
        // The header has a line of its own. Otherwise writers of neighbouring blocks would conflict with every reader of the tree.
        let header = tx.alloc(LINE_BYTES)?;
        let tree = Self::create_at(tx, header, shape)?;
        tx.write(root, header.offset())?;
        Ok(tree)
    }

    /// The number of words in a header.
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

    /// Returns the tree whose header, found at `at`, has the words `header`.
    #[inline]
    pub fn of_header(tx: &mut impl Read, at: PersistentAddress, header: &[u64]) -> Result<Self, Abort> {
        let shape = NodeShape { bytes: header[1], pairs: header[0] & PARAMETER_MASK };
        if header[0] & !PARAMETER_MASK != Self::tag() || !shape.is_possible() {
            return Err(KIND.damaged(tx, at, "an impossible header"));
        }
        Ok(Self::new(at.word(2), shape))
    }

    /// Frees the memory of the whole tree except its header.
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
    /// Returns [`Error::Missing`] if the root word is 0, and [`Error::WrongStructure`] if it refers to something else.
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

    /// Returns the size of the tree's nodes.
    pub fn shape(&self) -> NodeShape {
        self.shape
    }

    fn load_root(&self, tx: &mut impl Read) -> Result<Node, Abort> {
        let root = PersistentAddress::new(tx.read(self.top)?);
        Node::load(tx, root, self.shape)
    }

    /// The number of pairs below which a node is evened out. Every node but the root had as many when it was last loaded whole for a
    /// removal.
    fn least(&self) -> usize {
        self.shape.pairs as usize / 4
    }

    #[inline]
    fn group_at(node: PersistentAddress, group: u64) -> PersistentAddress {
        node.near(8 * (GROUPS + group))
    }

    /// Returns the address of pair number `number` of the node at `node`.
    #[inline]
    fn pair_at(&self, node: PersistentAddress, number: u8) -> PersistentAddress {
        node.near(self.pairs + 16 * u64::from(number))
    }

    #[cold]
    fn impossible(tx: &mut impl Read, node: PersistentAddress) -> Abort {
        KIND.damaged(tx, node, "impossible groups")
    }

    /// Returns the last pair of a node whose key satisfies `is_before`, which must be true of the first keys and false of the others.
    /// Checks the group and the number that it returns, but not the pair's key.
    #[inline(always)]
    fn search(
        &self,
        tx: &mut impl Read,
        node: PersistentAddress,
        is_before: impl Fn(K) -> bool,
    ) -> Result<Option<Found>, Abort> {
        let (mut group, mut number, mut key) = (Group::EMPTY, 0, 0);
        // The first keys of the groups below `low` satisfy `is_before`.
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

    /// Descends to the leaf that has the first key that does not satisfy `is_before`, or that would have it. Calls `visit` with the inner
    /// nodes on the way.
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

    /// Descends to the leaf of `key`; returns it and the last pair whose key is not greater than `key`. Pushes the inner nodes on the way
    /// to `path`.
    #[inline]
    fn descend(&self, tx: &mut impl Read, key: K, path: &mut Path) -> Result<(Leaf, Option<Found>), Abort> {
        // A transaction that has written nothing reads the words directly, without a look at the write set. If that fails, the search below
        // repeats it and reports the error.
        if let Some(mut plain) = tx.plain()
            && let Ok(found) = self.descend_by(&mut plain, key, |at, found| path.push((at, behind(found))))
        {
            return Ok(found);
        }
        path.clear();
        // Destructured, so that the result stays in registers.
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

    /// Returns the address of the pair of `key`, if it is there.
    #[inline]
    fn locate(&self, tx: &mut impl Read, key: K) -> Result<Option<PersistentAddress>, Abort> {
        let (leaf, found) = self.descend_by(tx, key, |_, _| {})?;
        let equal = found.filter(|found| K::from_word(found.key) == key);
        Ok(equal.map(|found| self.pair_at(leaf.at, found.number)))
    }

    /// Returns the value of `key`.
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
    /// Returns the errors of [`BPlusTree::get`].
    #[inline]
    pub fn contains_key(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        Ok(self.locate(tx, key)?.is_some())
    }

    /// Sets the value of `key`; returns the previous value, if there was one.
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

    /// Adds a pair to a node whose group at the place has no room or no free number; other groups of the node help. Returns false, with
    /// nothing written, if the groups have to be laid out again or the node is full.
    #[cold]
    fn put_with_help(
        &self,
        tx: &mut impl Transaction,
        node: PersistentAddress,
        place: Place,
        pair: Pair,
    ) -> Result<bool, Abort> {
        let (at, all) = (usize::from(place.group), self.groups as usize);
        // The groups near it usually have room and a free number. Otherwise, a free number may come from any group of the node.
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

    /// Reads groups from number `first` on, and checks their counts.
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

    /// Fails unless the block of the node at `at` is large enough to be written to.
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

    /// Removes `key`; returns its value, if the key was there.
    ///
    /// # Errors
    /// Returns the errors of [`BPlusTree::get`], [`Transaction::write`] and [`Transaction::free`].
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

    /// Removes the only pair of a group. Returns false, with nothing written, if the leaf would have too few pairs or its groups have to be
    /// laid out again.
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

    /// Writes the groups, from number `first` on, that have changed.
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
