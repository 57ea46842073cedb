//! A B+ tree with large nodes that writes little.
//!
//! ```text
//! header   word 0 tag (parameter: pairs in a node) · word 1 bytes in a node · word 2 the root node
//! node     word 0 node magic << 8 | level (0: leaf)
//!          word 1 leaf: the next leaf, 0 at the end; inner node: the child left of all keys
//!          then the groups: ceil(pairs / 5) words
//!          then the pairs, from an even word on: key and value; inner node: key and the child right of it
//! group    bytes 0 to 6 numbers of pairs, in the order of their keys · byte 7 how many there are
//! ```
//!
//! Every written word is a log record, so a node of 200 pairs must not be shifted about to stay sorted. As in
//! the wB+-tree, pairs stay where they were put, and an array of their byte-sized numbers is kept in order.
//! But even that array is 25 words long, and an insertion would rewrite half of them. Hence *groups*: each
//! group word holds up to seven numbers and its own count, and the array is what the groups hold, one after
//! the other. There are more groups than the pairs need (five a group), so a group usually has room, and then
//! **an insertion writes three words (key, value, group) and a removal one**. No count of the node is stored:
//! it is the sum of the groups', which are read anyway, and from which the free places follow.
//!
//! When a group is full, one number moves over from each group to the next as far as the nearest one with
//! room; if that is far, all groups of the node are laid out anew.
//!
//! *Search* reads the groups of a node with one `read_range` and then, by binary search over the first keys of
//! the groups and in one group, some of its pairs. Only what is used is checked. That is also all that most
//! insertions and removals need (a free place is found by guessing numbers that no group lists); nodes are
//! loaded whole, checked and brought into one flat order, only to split, merge or even them out.
//!
//! *Insertion* into a full node moves its upper half to a new one and a key up. *Removal* that leaves a node
//! below a quarter full merges it with a sibling if both together fill three quarters at most, and otherwise
//! evens the two out; the left sibling is preferred, so that it is the small node which moves. A root without
//! keys gives way to its only child.
//!
//! Invariants: keys ascend within a node; those of a child lie from the key left of it (inclusive) to the key
//! right of it (exclusive); all leaves have level 0 and are linked in order; every node but the root is at
//! least a quarter full. A child's level is one less than its parent's, so a way down ends even in a damaged
//! pool, and leaves are left when keys cease to ascend.
//!
//! The split of a node of 200 pairs takes some 300 log records: half of the pairs, and the groups of both nodes.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, Range, RangeBounds};

use super::header::{self, Kind, PARAMETER_MASK};
use super::ordered::{is_before, is_behind, ordered_methods};
use super::survey::Survey;
use super::value::Word;
use crate::error::{self, Error};
use crate::memory::{LINE_BYTES, PersistentAddress};
use crate::transaction::{Abort, Read, Transaction};

const KIND: Kind = Kind::BPlusTree;

const NODE_MAGIC: u64 = 0x5b_1e_af;
const LINK: u64 = 1;
const GROUPS: usize = 2;

/// Numbers that a group word can hold, and how many it holds in a full node that is evenly laid out.
const GROUP_ROOM: usize = 7;
const GROUP_EVEN: usize = 5;
const MAX_PAIRS: u64 = 255;
const MAX_GROUPS: usize = (MAX_PAIRS as usize).div_ceil(GROUP_EVEN);
/// As far as this a full group moves numbers over; beyond, the node is laid out anew.
const NEAR: usize = 4;
/// Numbers that an insertion tries before it loads its leaf whole.
const GUESSES: u64 = 16;
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

    #[inline(always)]
    fn group_words(self) -> usize {
        self.pairs.div_ceil(GROUP_EVEN as u64) as usize
    }

    fn is_possible(self) -> bool {
        (4..=MAX_PAIRS).contains(&self.pairs)
            && self.bytes.is_multiple_of(8)
            && (8 * (pairs_begin(self.pairs) + 2 * self.pairs)..=1 << 30).contains(&self.bytes)
    }
}

/// The word of a node at which its pairs begin.
const fn pairs_begin(pairs: u64) -> u64 {
    (GROUPS as u64 + pairs.div_ceil(GROUP_EVEN as u64)).next_multiple_of(2)
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

#[inline(always)]
fn group_count(group: u64) -> usize {
    (group >> 56) as usize
}

/// The numbers before byte `offset` of a group.
fn low_bytes(group: u64, offset: usize) -> u64 {
    group & ((1 << (8 * offset)) - 1)
}

/// Puts `number` at `offset` into a group with room.
fn group_insert(group: u64, offset: usize, number: u8) -> u64 {
    let count = group_count(group);
    let low = low_bytes(group, offset);
    let high = low_bytes(group, count) ^ low;
    low | u64::from(number) << (8 * offset) | high << 8 | ((count + 1) as u64) << 56
}

/// Takes the number at `offset` out of a group; returns the group and the number.
fn group_remove(group: u64, offset: usize) -> (u64, u8) {
    let count = group_count(group);
    let low = low_bytes(group, offset);
    let high = low_bytes(group, count) ^ low_bytes(group, offset + 1);
    (low | high >> 8 | ((count - 1) as u64) << 56, (group >> (8 * offset)) as u8)
}

/// A place in the order of a node's pairs: a group, and how many of its numbers come before.
#[derive(Clone, Copy)]
struct Place {
    group: usize,
    offset: usize,
}

/// Puts `number` at a place, which moves numbers over to the next groups if its own is full; returns the groups
/// that have changed. `None`, and nothing is changed: there is no room near, or the groups are damaged.
#[inline]
fn insert_number(groups: &mut [u64], place: Place, number: u8) -> Option<Range<usize>> {
    let Place { group, offset } = place;
    if group_count(groups[group]) < GROUP_ROOM {
        groups[group] = group_insert(groups[group], offset, number);
        return Some(group..group + 1);
    }
    if groups.iter().any(|&group| group_count(group) > GROUP_ROOM) {
        return None;
    }
    let has_room = |&i: &usize| group_count(groups[i]) < GROUP_ROOM;
    let right = (group + 1..groups.len()).take(NEAR).find(has_room);
    let left = (0..group).rev().take(NEAR).find(has_room);
    let right_is_nearer = match (right, left) {
        (Some(right), Some(left)) => right - group <= group - left,
        (right, _) => right.is_some(),
    };
    if let (true, Some(right)) = (right_is_nearer, right) {
        // Past the last one of its group, it goes to the front of the next.
        let (group, offset) = if offset == GROUP_ROOM { (group + 1, 0) } else { (group, offset) };
        for i in (group + 1..=right).rev() {
            let (less, moved) = group_remove(groups[i - 1], GROUP_ROOM - 1);
            groups[i - 1] = less;
            groups[i] = group_insert(groups[i], 0, moved);
        }
        groups[group] = group_insert(groups[group], offset, number);
        return Some(group..right + 1);
    }
    if let (Some(left), 1..) = (left, offset) {
        for i in left..group {
            let (less, moved) = group_remove(groups[i + 1], 0);
            groups[i + 1] = less;
            groups[i] = group_insert(groups[i], group_count(groups[i]), moved);
        }
        groups[group] = group_insert(groups[group], offset - 1, number);
        return Some(left..group + 1);
    }
    None
}

/// Whether a group lists `number`. Bytes that are not in use count as well: they are 0, so number 0 seems to be
/// listed unless all groups are full.
#[inline]
fn lists(groups: &[u64], number: u8) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    let everywhere = ONES * u64::from(number);
    // In the differences, bytes that are equal are 0: subtracting 1 sets their highest bit.
    let found = groups.iter().fold(0, |found, group| {
        let difference = (group | 0xff << 56) ^ everywhere;
        found | difference.wrapping_sub(ONES) & !difference
    });
    found & ONES << 7 != 0
}

/// Where pair number `number` of the node at `node` is.
#[inline(always)]
fn pair_at(node: PersistentAddress, shape: NodeShape, number: u8) -> PersistentAddress {
    node.word(pairs_begin(shape.pairs) + 2 * u64::from(number))
}

/// A node's words without its pairs, as they are: only what a search uses is checked.
struct Head {
    at: PersistentAddress,
    shape: NodeShape,
    words: [u64; GROUPS + MAX_GROUPS],
}

/// What a search found: the last pair whose key is not greater.
#[derive(Clone, Copy)]
struct Found {
    place: Place,
    number: u8,
    /// Whether its key is the one searched for.
    equal: bool,
}

impl Head {
    /// Room for nodes to be loaded into.
    #[inline(always)]
    fn new(shape: NodeShape) -> Self {
        Self { at: PersistentAddress::NULL, shape, words: [0; GROUPS + MAX_GROUPS] }
    }

    #[inline]
    fn load(&mut self, tx: &mut impl Read, at: PersistentAddress) -> Result<(), Abort> {
        self.at = at;
        tx.read_range(at, &mut self.words[..GROUPS + self.shape.group_words()])?;
        if self.words[0] >> 8 != NODE_MAGIC || self.level() >= MAX_LEVELS as u64 {
            return Err(KIND.damaged(tx, at, "something that is not a node"));
        }
        Ok(())
    }

    /// Loads a child of the node here, which must be one level down.
    #[inline]
    fn load_child(&mut self, tx: &mut impl Read, at: PersistentAddress) -> Result<(), Abort> {
        let level = self.level();
        self.load(tx, at)?;
        if self.level() + 1 != level {
            return Err(KIND.damaged(tx, at, "a node on the wrong level"));
        }
        Ok(())
    }

    #[inline(always)]
    fn level(&self) -> u64 {
        self.words[0] & 0xff
    }

    #[inline(always)]
    fn link(&self) -> PersistentAddress {
        PersistentAddress::new(self.words[LINK as usize])
    }

    #[inline(always)]
    fn groups(&self) -> &[u64] {
        &self.words[GROUPS..GROUPS + self.shape.group_words()]
    }

    #[inline(always)]
    fn pair(&self, number: u8) -> PersistentAddress {
        pair_at(self.at, self.shape, number)
    }

    #[cold]
    fn damaged(&self, tx: &mut impl Read) -> Abort {
        KIND.damaged(tx, self.at, "impossible groups")
    }

    /// The number at a place, and the key of its pair.
    #[inline(always)]
    fn key<K: Word>(&self, tx: &mut impl Read, group: u64, offset: usize) -> Result<(u8, K), Abort> {
        let number = (group >> (8 * offset)) as u8;
        if u64::from(number) >= self.shape.pairs {
            return Err(self.damaged(tx));
        }
        Ok((number, K::from_word(tx.read(self.pair(number))?)))
    }

    /// The last pair whose key is not greater than `key`.
    #[inline]
    fn search<K: Word + Ord>(&self, tx: &mut impl Read, key: K) -> Result<Option<Found>, Abort> {
        let groups = self.groups();
        let mut found = None;
        let (mut low, mut high) = (0, groups.len());
        while low < high {
            let middle = (low + high) / 2;
            let Some(group) = (middle..high).find(|&group| group_count(groups[group]) > 0) else {
                high = middle;
                continue;
            };
            let (number, other) = self.key::<K>(tx, groups[group], 0)?;
            if other <= key {
                found = Some((group, number, other));
                low = group + 1;
            } else {
                high = middle;
            }
        }
        let Some((group, mut number, mut last)) = found else { return Ok(None) };
        let (mut low, mut high) = (1, group_count(groups[group]));
        if high > GROUP_ROOM {
            return Err(self.damaged(tx));
        }
        while low < high {
            let middle = (low + high) / 2;
            let (candidate, other) = self.key::<K>(tx, groups[group], middle)?;
            if other <= key {
                (number, last) = (candidate, other);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some(Found { place: Place { group, offset: low - 1 }, number, equal: last == key }))
    }

    /// A number that no pair has, if it is found by a few guesses, the first of which depends on `seed`. Free
    /// numbers of a node where pairs come and go lie scattered.
    #[inline]
    fn guess_free_number(&self, seed: u64) -> Option<u8> {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let start = (random * self.shape.pairs) >> 32;
        (start..start + GUESSES)
            .map(|guess| (guess % self.shape.pairs) as u8)
            .find(|&number| !lists(self.groups(), number))
    }
}

/// The place behind what was found.
#[inline(always)]
fn behind(found: Option<Found>) -> Place {
    match found {
        Some(Found { place: Place { group, offset }, .. }) => Place { group, offset: offset + 1 },
        None => Place { group: 0, offset: 0 },
    }
}

/// A node's words without its pairs, checked and in order.
struct Node {
    at: PersistentAddress,
    shape: NodeShape,
    level: u64,
    link: u64,
    stored_link: u64,
    groups: [u64; MAX_GROUPS],
    stored_groups: [u64; MAX_GROUPS],
    /// The numbers of the pairs, in the order of their keys.
    order: [u8; MAX_GROUPS * GROUP_ROOM + 8],
    count: usize,
}

impl Node {
    fn load(tx: &mut impl Read, at: PersistentAddress, shape: NodeShape) -> Result<Self, Abort> {
        let mut head = Head::new(shape);
        head.load(tx, at)?;
        if head.groups().iter().any(|&group| group_count(group) > GROUP_ROOM) {
            return Err(head.damaged(tx));
        }
        let mut node = Self::fresh(at, shape, head.level(), head.link().offset());
        node.groups[..shape.group_words()].copy_from_slice(head.groups());
        node.stored_groups = node.groups;
        node.flatten();
        if node.count > shape.pairs as usize
            || node.order[..node.count].iter().any(|&number| u64::from(number) >= shape.pairs)
        {
            return Err(head.damaged(tx));
        }
        Ok(node)
    }

    /// A new node in memory not yet written.
    fn fresh(at: PersistentAddress, shape: NodeShape, level: u64, link: u64) -> Self {
        Self {
            at,
            shape,
            level,
            link,
            stored_link: link,
            groups: [0; MAX_GROUPS],
            stored_groups: [0; MAX_GROUPS],
            order: [0; MAX_GROUPS * GROUP_ROOM + 8],
            count: 0,
        }
    }

    /// Writes a new node with these pairs, all of it.
    fn write_fresh(mut self, tx: &mut impl Transaction, pairs: &[Pair]) -> Result<(), Abort> {
        self.count = pairs.len();
        for (number, place) in self.order[..pairs.len()].iter_mut().enumerate() {
            *place = number as u8;
        }
        self.lay_out();
        tx.write_range(self.at, &[NODE_MAGIC << 8 | self.level, self.link])?;
        tx.write_range(self.at.word(GROUPS as u64), self.groups())?;
        tx.write_range(self.place(0), pairs.as_flattened())
    }

    fn group_words(&self) -> usize {
        self.shape.group_words()
    }

    fn groups(&self) -> &[u64] {
        &self.groups[..self.group_words()]
    }

    /// Derives the order from the groups.
    fn flatten(&mut self) {
        let mut count = 0;
        for group in &self.groups[..self.shape.group_words()] {
            self.order[count..count + 8].copy_from_slice(&group.to_le_bytes());
            count += group_count(*group);
        }
        self.count = count;
    }

    /// Lays the groups out anew, evenly, from the order.
    fn lay_out(&mut self) {
        let group_words = self.group_words();
        let mut begin = 0;
        for i in 0..group_words {
            let end = (i + 1) * self.count / group_words;
            let mut bytes = [0; 8];
            bytes[..end - begin].copy_from_slice(&self.order[begin..end]);
            bytes[7] = (end - begin) as u8;
            self.groups[i] = u64::from_le_bytes(bytes);
            begin = end;
        }
    }

    /// Writes what has changed of groups and link.
    fn store(&mut self, tx: &mut impl Transaction) -> Result<(), Abort> {
        KIND.check_block(tx, self.at, self.shape.bytes / 8)?;
        if self.link != self.stored_link {
            tx.write(self.at.word(LINK), self.link)?;
            self.stored_link = self.link;
        }
        for i in 0..self.group_words() {
            if self.groups[i] != self.stored_groups[i] {
                tx.write(self.at.word((GROUPS + i) as u64), self.groups[i])?;
            }
        }
        self.stored_groups = self.groups;
        Ok(())
    }

    /// Where pair number `number` is.
    fn place(&self, number: u8) -> PersistentAddress {
        pair_at(self.at, self.shape, number)
    }

    /// The position of a place.
    fn position(&self, place: Place) -> usize {
        self.groups[..place.group].iter().map(|&group| group_count(group)).sum::<usize>() + place.offset
    }

    /// The place of a position; between two groups, at the end of the first.
    fn place_of(&self, position: usize) -> Place {
        let mut offset = position;
        for (group, &word) in self.groups().iter().enumerate() {
            if offset <= group_count(word) {
                return Place { group, offset };
            }
            offset -= group_count(word);
        }
        Place { group: 0, offset: 0 }
    }

    /// The pair at a position of the order.
    fn pair(&self, tx: &mut impl Read, position: usize) -> Result<Pair, Abort> {
        let mut pair = [0; 2];
        tx.read_range(self.place(self.order[position]), &mut pair)?;
        Ok(pair)
    }

    /// The child with this index.
    fn child(&self, tx: &mut impl Read, index: usize) -> Result<PersistentAddress, Abort> {
        let child = if index == 0 { self.link } else { self.pair(tx, index - 1)?[1] };
        Ok(PersistentAddress::new(child))
    }

    /// Loads a child, which must be one level down.
    fn load_child(&self, tx: &mut impl Read, at: PersistentAddress) -> Result<Self, Abort> {
        let child = Self::load(tx, at, self.shape)?;
        if child.level + 1 != self.level {
            return Err(KIND.damaged(tx, at, "a node on the wrong level"));
        }
        Ok(child)
    }

    /// A number that no pair has.
    fn free_number(&self, tx: &mut impl Read) -> Result<u8, Abort> {
        let mut used = [0u64; 4];
        for &number in &self.order[..self.count] {
            used[usize::from(number / 64)] |= 1 << (number % 64);
        }
        let free =
            (0..4).find(|&i| used[i] != u64::MAX).map(|i| 64 * i as u64 + u64::from(used[i].trailing_ones()));
        match free {
            Some(number) if number < self.shape.pairs => Ok(number as u8),
            _ => Err(KIND.damaged(tx, self.at, "a node without room")),
        }
    }

    /// Puts a pair in at a position; the caller stores the groups.
    fn insert(&mut self, tx: &mut impl Transaction, position: usize, pair: Pair) -> Result<(), Abort> {
        let number = self.free_number(tx)?;
        tx.write_range(self.place(number), &pair)?;
        let (place, group_words) = (self.place_of(position), self.group_words());
        if insert_number(&mut self.groups[..group_words], place, number).is_some() {
            self.flatten();
            return Ok(());
        }
        self.order.copy_within(position..self.count, position + 1);
        self.order[position] = number;
        self.count += 1;
        self.lay_out();
        Ok(())
    }

    /// Takes the pair at a position out; the caller stores the groups.
    fn remove(&mut self, position: usize) {
        let mut begin = 0;
        for i in 0..self.group_words() {
            let count = group_count(self.groups[i]);
            if position < begin + count {
                self.groups[i] = group_remove(self.groups[i], position - begin).0;
                break;
            }
            begin += count;
        }
        self.flatten();
    }

    /// Puts a pair in front or at the end of the order; the caller lays out and stores.
    fn push(&mut self, tx: &mut impl Transaction, front: bool, pair: Pair) -> Result<(), Abort> {
        let number = self.free_number(tx)?;
        tx.write_range(self.place(number), &pair)?;
        if front {
            self.order.copy_within(0..self.count, 1);
            self.order[0] = number;
        } else {
            self.order[self.count] = number;
        }
        self.count += 1;
        Ok(())
    }

    fn drop_front(&mut self, pairs: usize) {
        self.order.copy_within(pairs..self.count, 0);
        self.count -= pairs;
    }
}

/// The way down: inner nodes, and the places behind the keys left of the children taken.
type Path = [(PersistentAddress, Place); MAX_LEVELS];

/// What a descending scan has seen so far.
struct Seen<K> {
    leaves: u64,
    last: Option<K>,
}

impl<K: Word + Ord, V: Word> BPlusTree<K, V> {
    fn tag() -> u64 {
        KIND.tag(K::TYPE, V::TYPE)
    }

    /// Creates an empty tree with nodes of `shape` under the root word `root`, or opens the tree of this shape
    /// that is there.
    ///
    /// # Errors
    /// The shape is impossible ([`Error::Parameter`]); something else hangs from `root`
    /// ([`Error::WrongStructure`]); the pool is full; a conflict.
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
        Ok(Self { top: header.word(2), shape, types: PhantomData })
    }

    /// The tree whose header, found at `at`, is `header`.
    #[inline]
    pub fn of_header(tx: &mut impl Read, at: PersistentAddress, header: &[u64]) -> Result<Self, Abort> {
        let shape = NodeShape { bytes: header[1], pairs: header[0] & PARAMETER_MASK };
        if header[0] & !PARAMETER_MASK != Self::tag() || !shape.is_possible() {
            return Err(KIND.damaged(tx, at, "an impossible header"));
        }
        Ok(Self { top: at.word(2), shape, types: PhantomData })
    }

    /// Gives back the memory of an empty tree but for its header.
    pub fn destroy_empty(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let leaf = tx.read(self.top)?;
        tx.free(PersistentAddress::new(leaf))
    }

    /// Gives back the memory of the whole tree but for its header.
    pub fn destroy(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let root = self.load_root(tx)?;
        self.destroy_below(tx, &root)
    }

    fn destroy_below(&self, tx: &mut impl Transaction, node: &Node) -> Result<(), Abort> {
        if node.level > 0 {
            for index in 0..=node.count {
                let child = node.child(tx, index)?;
                let child = node.load_child(tx, child)?;
                self.destroy_below(tx, &child)?;
            }
        }
        tx.free(node.at)
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
        let shape = NodeShape { bytes: words[1], pairs: words[0] & PARAMETER_MASK };
        if !shape.is_possible() {
            return Err(KIND.damaged(tx, header, "impossible nodes"));
        }
        Ok(Some(Self { top: header.word(2), shape, types: PhantomData }))
    }

    /// The size of the tree's nodes.
    pub fn shape(&self) -> NodeShape {
        self.shape
    }

    fn load_root(&self, tx: &mut impl Read) -> Result<Node, Abort> {
        let root = PersistentAddress::new(tx.read(self.top)?);
        Node::load(tx, root, self.shape)
    }

    /// Loads the leaf that `key` belongs to, or the first one; tells `visit` of the inner nodes on the way.
    #[inline]
    fn find_leaf(
        &self,
        tx: &mut impl Read,
        key: Option<K>,
        head: &mut Head,
        mut visit: impl FnMut(PersistentAddress, Place),
    ) -> Result<(), Abort> {
        let root = PersistentAddress::new(tx.read(self.top)?);
        head.load(tx, root)?;
        while head.level() > 0 {
            let found = match key {
                Some(key) => head.search(tx, key)?,
                None => None,
            };
            let child = match found {
                Some(found) => PersistentAddress::new(tx.read(head.pair(found.number).word(1))?),
                None => head.link(),
            };
            visit(head.at, behind(found));
            head.load_child(tx, child)?;
        }
        Ok(())
    }

    /// Finds `key` in its leaf: the number of its pair.
    #[inline]
    fn locate(&self, tx: &mut impl Read, key: K, leaf: &mut Head) -> Result<Option<u8>, Abort> {
        self.find_leaf(tx, Some(key), leaf, |_, _| {})?;
        Ok(leaf.search(tx, key)?.filter(|found| found.equal).map(|found| found.number))
    }

    /// The leaf that `key` belongs to, loaded whole, the position behind all keys not greater, and the way to
    /// it with its length.
    fn descend(&self, tx: &mut impl Read, key: K) -> Result<(Node, usize, Path, usize), Abort> {
        let mut path = [(PersistentAddress::NULL, behind(None)); MAX_LEVELS];
        let mut depth = 0;
        let mut head = Head::new(self.shape);
        self.find_leaf(tx, Some(key), &mut head, |at, place| {
            path[depth] = (at, place);
            depth += 1;
        })?;
        let place = behind(head.search(tx, key)?);
        let leaf = Node::load(tx, head.at, self.shape)?;
        let position = leaf.position(place);
        Ok((leaf, position, path, depth))
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// A conflict; the tree is damaged.
    #[inline]
    pub fn get(&self, tx: &mut impl Read, key: K) -> Result<Option<V>, Abort> {
        let mut leaf = Head::new(self.shape);
        match self.locate(tx, key, &mut leaf)? {
            Some(number) => Ok(Some(V::from_word(tx.read(leaf.pair(number).word(1))?))),
            None => Ok(None),
        }
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// As [`BPlusTree::get`].
    #[inline]
    pub fn contains_key(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        Ok(self.locate(tx, key, &mut Head::new(self.shape))?.is_some())
    }

    /// Gives `key` the value `value`; returns the old value, if there was one.
    ///
    /// # Errors
    /// The pool is full; as [`BPlusTree::get`] and [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: K, value: V) -> Result<Option<V>, Abort> {
        let pair = [key.to_word(), value.to_word()];
        let mut leaf = Head::new(self.shape);
        self.find_leaf(tx, Some(key), &mut leaf, |_, _| {})?;
        let found = leaf.search(tx, key)?;
        if let Some(Found { number, equal: true, .. }) = found {
            let at = leaf.pair(number).word(1);
            let old = tx.read(at)?;
            if old != pair[1] {
                self.check_node(tx, leaf.at)?;
                tx.write(at, pair[1])?;
            }
            return Ok(Some(V::from_word(old)));
        }
        if let Some(number) = leaf.guess_free_number(pair[0]) {
            let groups = &mut leaf.words[GROUPS..GROUPS + self.shape.group_words()];
            if let Some(changed) = insert_number(groups, behind(found), number) {
                self.check_node(tx, leaf.at)?;
                tx.write_range(leaf.pair(number), &pair)?;
                let at = leaf.at.word((GROUPS + changed.start) as u64);
                tx.write_range(at, &leaf.groups()[changed])?;
                return Ok(None);
            }
        }
        self.insert_whole(tx, key, pair)?;
        Ok(None)
    }

    /// Fails unless this node, which has the magic, may be written.
    #[inline]
    fn check_node(&self, tx: &mut impl Transaction, at: PersistentAddress) -> Result<(), Abort> {
        KIND.check_block(tx, at, self.shape.bytes / 8)
    }

    /// Inserts a key that is not there, with nodes loaded whole.
    #[cold]
    fn insert_whole(&self, tx: &mut impl Transaction, key: K, mut pair: Pair) -> Result<(), Abort> {
        let (mut node, mut position, path, mut depth) = self.descend(tx, key)?;
        while node.count == self.shape.pairs as usize {
            pair = self.split(tx, &mut node, position, pair)?;
            if depth == 0 {
                let root = tx.alloc(self.shape.bytes)?;
                let level = node.level + 1;
                if level >= MAX_LEVELS as u64 {
                    return Err(KIND.damaged(tx, node.at, "too many levels"));
                }
                Node::fresh(root, self.shape, level, node.at.offset()).write_fresh(tx, &[pair])?;
                return tx.write(self.top, root.offset());
            }
            depth -= 1;
            node = Node::load(tx, path[depth].0, self.shape)?;
            position = node.position(path[depth].1);
        }
        node.insert(tx, position, pair)?;
        node.store(tx)
    }

    /// Splits a full node into which `new` should go at `position`; returns the key that parts it from the new
    /// node right of it, and that node.
    fn split(
        &self,
        tx: &mut impl Transaction,
        node: &mut Node,
        position: usize,
        new: Pair,
    ) -> Result<Pair, Abort> {
        let total = node.count + 1;
        let left = total / 2;
        let mut moved = [[0; 2]; MAX_PAIRS as usize + 1];
        for (i, moved) in moved[left..total].iter_mut().enumerate() {
            let i = left + i;
            *moved = match i.cmp(&position) {
                Ordering::Less => node.pair(tx, i)?,
                Ordering::Equal => new,
                Ordering::Greater => node.pair(tx, i - 1)?,
            };
        }
        let moved = &moved[left..total];
        let right = tx.alloc(self.shape.bytes)?;
        let separator = moved[0][0];
        if node.level == 0 {
            Node::fresh(right, self.shape, 0, node.link).write_fresh(tx, moved)?;
            node.link = right.offset();
        } else {
            Node::fresh(right, self.shape, node.level, moved[0][1]).write_fresh(tx, &moved[1..])?;
        }
        if position < left {
            node.count = left - 1;
            let number = node.free_number(tx)?;
            tx.write_range(node.place(number), &new)?;
            node.order.copy_within(position..node.count, position + 1);
            node.order[position] = number;
        }
        node.count = left;
        node.lay_out();
        node.store(tx)?;
        Ok([separator, right.offset()])
    }

    /// Removes `key`; returns its value, if it was there.
    ///
    /// # Errors
    /// As [`BPlusTree::get`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<Option<V>, Abort> {
        let mut leaf = Head::new(self.shape);
        let mut is_root = true;
        self.find_leaf(tx, Some(key), &mut leaf, |_, _| is_root = false)?;
        let Some(Found { place: Place { group, offset }, number, equal: true }) = leaf.search(tx, key)?
        else {
            return Ok(None);
        };
        let old = tx.read(leaf.pair(number).word(1))?;
        let count: usize = leaf.groups().iter().map(|&group| group_count(group)).sum();
        if is_root || count > self.least() {
            self.check_node(tx, leaf.at)?;
            let (less, _) = group_remove(leaf.groups()[group], offset);
            tx.write(leaf.at.word((GROUPS + group) as u64), less)?;
        } else {
            self.remove_whole(tx, key)?;
        }
        Ok(Some(V::from_word(old)))
    }

    /// Removes a key that is there, with nodes loaded whole.
    #[cold]
    fn remove_whole(&self, tx: &mut impl Transaction, key: K) -> Result<(), Abort> {
        let (mut node, position, path, mut depth) = self.descend(tx, key)?;
        // Where the key is, not behind it.
        let Some(mut position) = position.checked_sub(1) else {
            return Err(KIND.damaged(tx, node.at, "a key that comes and goes"));
        };
        loop {
            node.remove(position);
            if depth == 0 || node.count >= self.least() {
                node.store(tx)?;
                break;
            }
            depth -= 1;
            let (parent, place) = path[depth];
            let parent = Node::load(tx, parent, self.shape)?;
            let index = parent.position(place);
            if parent.count == 0 {
                return Err(KIND.damaged(tx, parent.at, "an inner node without keys"));
            }
            // The key between the two siblings.
            let between = index.saturating_sub(1);
            let sibling = parent.child(tx, if index == 0 { 1 } else { index - 1 })?;
            let sibling = parent.load_child(tx, sibling)?;
            let (mut left, mut right) = if index == 0 { (node, sibling) } else { (sibling, node) };
            let separator = parent.pair(tx, between)?[0];
            let inner = usize::from(left.level > 0);
            if left.count + right.count + inner > self.shape.pairs as usize * 3 / 4 {
                let separator = Self::even_out(tx, &mut left, &mut right, separator)?;
                self.check_node(tx, parent.at)?;
                tx.write(parent.place(parent.order[between]), separator)?;
                break;
            }
            if inner == 1 {
                left.push(tx, false, [separator, right.link])?;
            } else {
                left.link = right.link;
            }
            for i in 0..right.count {
                let pair = right.pair(tx, i)?;
                left.push(tx, false, pair)?;
            }
            left.lay_out();
            left.store(tx)?;
            tx.free(right.at)?;
            node = parent;
            position = between;
        }
        if depth == 0 {
            // The root may have lost its last key.
            let root = self.load_root(tx)?;
            if root.level > 0 && root.count == 0 {
                tx.write(self.top, root.link)?;
                tx.free(root.at)?;
            }
        }
        Ok(())
    }

    /// Pairs that every node but the root has at least.
    fn least(&self) -> usize {
        self.shape.pairs as usize / 4
    }

    /// Moves pairs between siblings until both have about as many; returns the key that parts them then.
    fn even_out(
        tx: &mut impl Transaction,
        left: &mut Node,
        right: &mut Node,
        separator: u64,
    ) -> Result<u64, Abort> {
        let inner = left.level > 0;
        let between;
        if left.count < right.count {
            let moved = (right.count - left.count) / 2;
            if inner {
                left.push(tx, false, [separator, right.link])?;
                for i in 0..moved - 1 {
                    let pair = right.pair(tx, i)?;
                    left.push(tx, false, pair)?;
                }
                [between, right.link] = right.pair(tx, moved - 1)?;
            } else {
                for i in 0..moved {
                    let pair = right.pair(tx, i)?;
                    left.push(tx, false, pair)?;
                }
                between = right.pair(tx, moved)?[0];
            }
            right.drop_front(moved);
        } else {
            let moved = (left.count - right.count) / 2;
            let stays = left.count - moved;
            if inner {
                right.push(tx, true, [separator, right.link])?;
                for i in (stays + 1..left.count).rev() {
                    let pair = left.pair(tx, i)?;
                    right.push(tx, true, pair)?;
                }
                [between, right.link] = left.pair(tx, stays)?;
            } else {
                for i in (stays..left.count).rev() {
                    let pair = left.pair(tx, i)?;
                    right.push(tx, true, pair)?;
                }
                between = left.pair(tx, stays)?[0];
            }
            left.count = stays;
        }
        left.lay_out();
        left.store(tx)?;
        right.lay_out();
        right.store(tx)?;
        Ok(between)
    }

    ordered_methods!();

    /// The greatest key in `keys` and its value.
    ///
    /// # Errors
    /// A conflict; the structure is damaged.
    pub fn last(&self, tx: &mut impl Read, keys: impl RangeBounds<K>) -> Result<Option<(K, V)>, Abort> {
        let mut last = None;
        self.scan_back(tx, keys, |key, value| {
            last = Some((key, value));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(last)
    }

    /// Calls `visit` with the keys in `keys` and their values, keys descending.
    ///
    /// # Errors
    /// A conflict; the structure is damaged; those of `visit`.
    pub fn range_back(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.scan_back(tx, keys, |key, value| visit(key, value).map(ControlFlow::Continue))
    }

    /// As `scan`, keys descending.
    pub fn scan_back(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<(), Abort> {
        let root = self.load_root(tx)?;
        let mut seen = Seen { leaves: 0, last: None };
        let _ = self.scan_back_below(tx, &root, &keys, &mut seen, &mut visit)?;
        Ok(())
    }

    fn scan_back_below(
        &self,
        tx: &mut impl Read,
        node: &Node,
        keys: &impl RangeBounds<K>,
        seen: &mut Seen<K>,
        visit: &mut impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<ControlFlow<()>, Abort> {
        // Only pairs whose keys are not behind the range, and the child left of the first that is.
        let (mut low, mut high) = (0, node.count);
        while low < high {
            let middle = (low + high) / 2;
            if is_behind(&K::from_word(node.pair(tx, middle)?[0]), keys) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        if node.level > 0 {
            for index in (0..=low).rev() {
                let child = node.child(tx, index)?;
                let child = node.load_child(tx, child)?;
                if self.scan_back_below(tx, &child, keys, seen, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        // But for the one at the range's end, leaves have keys before it: else the same ones might be gone through
        // over and over, by way of nodes that lead to them more than once.
        if low == 0 && seen.leaves > 0 {
            return Err(KIND.damaged(tx, node.at, "no keys where some must be, in a leaf"));
        }
        seen.leaves += 1;
        for position in (0..low).rev() {
            let [word, value] = node.pair(tx, position)?;
            let key = K::from_word(word);
            if seen.last.is_some_and(|last| key >= last) {
                return Err(KIND.damaged(tx, node.at, "keys out of order"));
            }
            seen.last = Some(key);
            if is_before(&key, keys) || visit(key, V::from_word(value))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Visits the pairs whose keys are in `keys`, in their order, until `visit` breaks.
    ///
    /// # Errors
    /// A conflict, damage, or what `visit` returns.
    pub fn scan(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<(), Abort> {
        let start = match keys.start_bound() {
            Bound::Included(&start) | Bound::Excluded(&start) => Some(start),
            Bound::Unbounded => None,
        };
        let mut leaf = Head::new(self.shape);
        self.find_leaf(tx, start, &mut leaf, |_, _| {})?;
        let mut place = behind(None);
        if let Some(start) = start
            && let Some(found) = leaf.search(tx, start)?
        {
            place = match keys.start_bound() {
                Bound::Included(_) if found.equal => found.place,
                _ => behind(Some(found)),
            };
        }
        let mut last: Option<K> = None;
        loop {
            for &group in &leaf.groups()[place.group..] {
                if group_count(group) > GROUP_ROOM {
                    return Err(leaf.damaged(tx));
                }
                for offset in place.offset..group_count(group) {
                    let (number, key) = leaf.key::<K>(tx, group, offset)?;
                    if last.is_some_and(|last| key <= last) {
                        return Err(KIND.damaged(tx, leaf.at, "keys out of order"));
                    }
                    if is_behind(&key, &keys) {
                        return Ok(());
                    }
                    last = Some(key);
                    let value = V::from_word(tx.read(leaf.pair(number).word(1))?);
                    if visit(key, value)?.is_break() {
                        return Ok(());
                    }
                }
                place.offset = 0;
            }
            if leaf.link().is_null() {
                return Ok(());
            }
            leaf.load(tx, leaf.link())?;
            if leaf.level() != 0 || leaf.groups().iter().all(|&group| group_count(group) == 0) {
                return Err(KIND.damaged(tx, leaf.at, "no leaf, or an empty one, among its leaves"));
            }
            place = behind(None);
        }
    }

    /// Looks the tree over: its blocks, and, if all of them are there, its invariants. Returns the pairs of all leaves
    /// that were found.
    pub fn survey<S: Survey>(&self, survey: &mut S) -> error::Result<Vec<(K, V)>> {
        let (mut pairs, mut is_whole) = (Vec::new(), true);
        let root = survey.read(|tx| tx.read(self.top))?;
        let mut waiting: Vec<_> = root.map(|root| (root, None)).into_iter().collect();
        while let Some((at, level)) = waiting.pop() {
            let at = PersistentAddress::new(at);
            let is_block = survey.block(at, self.shape.bytes / 8, "a B+ tree's node")?;
            let node = if is_block { survey.read(|tx| Node::load(tx, at, self.shape))? } else { None };
            let Some(node) = node.filter(|node| level.is_none_or(|level| level == node.level)) else {
                if is_block {
                    survey.damaged(format!(
                        "no node of a B+ tree, or one on the wrong level, at {:#x}",
                        at.offset()
                    ));
                }
                is_whole = false;
                continue;
            };
            if node.level > 0 {
                waiting.push((node.link, Some(node.level - 1)));
            }
            for position in 0..node.count {
                let Some([key, value]) = survey.read(|tx| node.pair(tx, position))? else { continue };
                if node.level > 0 {
                    waiting.push((value, Some(node.level - 1)));
                } else {
                    pairs.push((K::from_word(key), V::from_word(value)));
                }
            }
        }
        if is_whole {
            survey.read(|tx| self.check(tx))?;
        }
        Ok(pairs)
    }

    /// Checks the tree's invariants; returns the number of keys.
    ///
    /// # Errors
    /// [`Error::Damaged`]: one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let root = self.load_root(tx)?;
        let mut next = None;
        let count = self.check_below(tx, &root, None, None, &mut next)?;
        if next.is_some_and(|next| next != 0) {
            return Err(KIND.damaged(tx, root.at, "a leaf linked past the last one, below"));
        }
        Ok(count)
    }

    /// The number of keys under `node`, which lie from `from` on and below `to`. `next` is the link of the
    /// leaf before, and becomes that of the last leaf below.
    fn check_below(
        &self,
        tx: &mut impl Read,
        node: &Node,
        from: Option<K>,
        to: Option<K>,
        next: &mut Option<u64>,
    ) -> Result<u64, Abort> {
        let is_root = tx.read(self.top)? == node.at.offset();
        let least = if is_root { usize::from(node.level > 0) } else { self.least() };
        if node.count < least {
            return Err(KIND.damaged(tx, node.at, "a node below a quarter full"));
        }
        let mut numbers = node.order[..node.count].to_vec();
        numbers.sort_unstable();
        if numbers.windows(2).any(|two| two[0] == two[1]) {
            return Err(KIND.damaged(tx, node.at, "a pair listed twice"));
        }
        let mut pairs = Vec::new();
        let mut last = from;
        for position in 0..node.count {
            let [word, value] = node.pair(tx, position)?;
            let key = K::from_word(word);
            let ascends = match last {
                Some(last) if position == 0 => key >= last,
                Some(last) => key > last,
                None => true,
            };
            if !ascends || to.is_some_and(|to| key >= to) {
                return Err(KIND.damaged(tx, node.at, "keys out of order"));
            }
            pairs.push((key, value));
            last = Some(key);
        }
        if node.level == 0 {
            if next.is_some_and(|next| next != node.at.offset()) {
                return Err(KIND.damaged(tx, node.at, "a leaf that its neighbour does not link to"));
            }
            *next = Some(node.link);
            return Ok(pairs.len() as u64);
        }
        let mut count = 0;
        for index in 0..=pairs.len() {
            let (low, child) = match index {
                0 => (from, node.link),
                index => (Some(pairs[index - 1].0), pairs[index - 1].1),
            };
            let high = pairs.get(index).map(|pair| pair.0).or(to);
            let child = node.load_child(tx, PersistentAddress::new(child))?;
            count += self.check_below(tx, &child, low, high, next)?;
        }
        Ok(count)
    }
}
