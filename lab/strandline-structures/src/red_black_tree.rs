//! A red-black tree that writes little.
//!
//! ```text
//! header   word 0 tag · word 1 link to the root · the rest of its line unused
//! node     word 0 left link · word 1 right link · word 2 key · word 3 value
//! link     address of the child, 0 if none · bit 0: the child is red
//! ```
//!
//! Every written word is a log record, so the layout minimises writes. There are no parent pointers: an operation remembers its *path*, the links
//! through which it came. A node's colour is stored not in the node but in the link to it. A rotation rewrites the surrounding links anyway, so it
//! recolours at no cost; and a node shows the colours of its children without reading them.
//!
//! *Insertion* descends, links a red node, and ascends while parent and uncle are red: both become black, the grandparent red. At a red parent with a
//! black uncle it ends with one rotation (three links) or two (five, of which two belong to a new node and cost nothing).
//!
//! *Removal* of a node with two children copies the next key and value into it and removes that next node instead. A node with one child is replaced
//! by it: the child is red and becomes black. A removed black leaf leaves its place one black node short, which the loop in `make_up` repairs: a red
//! sibling is rotated away first; at a black sibling with a red child a rotation ends the loop; otherwise the sibling becomes red and the shortage
//! moves up, until it reaches a red node or the root.
//!
//! Invariants: keys ascend from left to right; the root is black; a red node has black children; the paths from the root to all missing children pass
//! the same number of black nodes. So a tree of n keys is at most 2 log2(n + 1) deep; [`MAX_DEPTH`] is above that for any pool, so a longer path
//! means damage.

use std::marker::PhantomData;
use std::ops::{ControlFlow, RangeBounds};

use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::value::Word;
use strandline_core::structures::{header, header::Kind};
use strandline_core::structures::{ordered::is_before, ordered::is_behind, ordered::ordered_methods};
use strandline_core::transaction::{Abort, Read, Transaction};

const KIND: Kind = Kind::RedBlackTree;
const LEFT: usize = 0;
const RIGHT: usize = 1;
const KEY: u64 = 2;
const VALUE: u64 = 3;
const NODE_WORDS: usize = 4;
const RED: u64 = 1;

/// Deeper than any tree in a pool of 2^48 bytes.
const MAX_DEPTH: usize = 96;

/// A persistent red-black tree.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_structures::RedBlackTree;
///
/// let tree = worker.run(|tx| RedBlackTree::<i64, u64>::create(tx, root))?;
/// worker.run(|tx| (-5..5).try_for_each(|key| tree.insert(tx, key, key.unsigned_abs()).map(drop)))?;
/// assert_eq!(worker.view(|tx| tree.first(tx, -2..))?, Some((-2, 2)));
/// assert_eq!(worker.view(|tx| tree.count(tx))?, 10);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct RedBlackTree<K, V> {
    /// The word with the link to the root.
    top: PersistentAddress,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for RedBlackTree<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for RedBlackTree<K, V> {}

fn node_of(link: u64) -> PersistentAddress {
    PersistentAddress::new(link & !RED)
}

fn is_red(link: u64) -> bool {
    link & RED != 0
}

fn is_none(link: u64) -> bool {
    link & !RED == 0
}

fn red(node: PersistentAddress) -> u64 {
    node.offset() | RED
}

fn black(link: u64) -> u64 {
    link & !RED
}

/// The path to a node: its links, the first of which is in the header, with room for a few more that repairing the tree may add.
struct Path<const LINKS: usize> {
    top: PersistentAddress,
    links: [u64; LINKS],
    /// Those of them that come from the right side of the previous node.
    from_right: [bool; LINKS],
}

/// Room for any path.
const ALL: usize = MAX_DEPTH + 3;
/// Room for most paths, of up to 28 nodes, which takes less time to clear. A tree with ascending keys has longer paths from about 30,000 keys on; its
/// operations then descend twice.
const MOST: usize = 32;

impl<const LINKS: usize> Path<LINKS> {
    fn new(top: PersistentAddress) -> Self {
        Self { top, links: [0; LINKS], from_right: [false; LINKS] }
    }

    /// Sets link `at` to `link`, which comes from this side of the previous node.
    fn set(&mut self, at: usize, link: u64, side: usize) {
        (self.links[at], self.from_right[at]) = (link, side == RIGHT);
    }

    /// Returns the node to which link `at` refers.
    fn node(&self, at: usize) -> PersistentAddress {
        node_of(self.links[at])
    }

    /// Returns on which side of its node link `at` is.
    fn side(&self, at: usize) -> usize {
        usize::from(self.from_right[at])
    }

    /// Returns the word that holds link `at`.
    fn cell(&self, at: usize) -> PersistentAddress {
        if at == 0 { self.top } else { child(self.node(at - 1), self.side(at)) }
    }
}

fn child(node: PersistentAddress, side: usize) -> PersistentAddress {
    node.near(8 * side as u64)
}

fn key_of(node: PersistentAddress) -> PersistentAddress {
    node.near(8 * KEY)
}

fn value_of(node: PersistentAddress) -> PersistentAddress {
    node.near(8 * VALUE)
}

impl<K: Word + Ord, V: Word> RedBlackTree<K, V> {
    fn tag() -> u64 {
        KIND.tag(K::TYPE, V::TYPE)
    }

    /// Creates an empty tree under the root word `root`, or opens the tree that is already there.
    ///
    /// # Errors
    /// Returns [`Error::WrongStructure`](strandline_core::Error::WrongStructure) if `root` refers to something else, and an error if the pool is full
    /// or after a conflict.
    pub fn create(tx: &mut impl Transaction, root: PersistentAddress) -> Result<Self, Abort> {
        let header = match header::find::<2>(tx, KIND, root, Self::tag())? {
            Some((header, _)) => header,
            None => {
                // The header has its own line: otherwise writers of neighbouring memory would conflict with every reader of the tree.
                let header = tx.alloc(LINE_BYTES)?;
                tx.write_range(header, &[Self::tag(), 0])?;
                tx.write(root, header.offset())?;
                header
            }
        };
        Ok(Self { top: header.word(1), types: PhantomData })
    }

    /// Opens the tree under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`](strandline_core::Error::Missing) if there is none, and
    /// [`Error::WrongStructure`](strandline_core::Error::WrongStructure) if something else is there.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        match header::find::<2>(tx, KIND, root, Self::tag())? {
            Some((header, _)) => Ok(Self { top: header.word(1), types: PhantomData }),
            None => Err(tx.fail(KIND.missing(root))),
        }
    }

    fn node(tx: &mut impl Read, at: PersistentAddress) -> Result<[u64; NODE_WORDS], Abort> {
        tx.read_array(at)
    }

    /// Returns the links to both children of a node.
    fn children(tx: &mut impl Read, node: PersistentAddress) -> Result<[u64; 2], Abort> {
        tx.read_array(child(node, LEFT))
    }

    #[cold]
    fn too_deep(&self, tx: &mut impl Read) -> Abort {
        KIND.damaged(tx, self.top, "a way down that does not end, from the root")
    }

    /// Returns a node's links and its key, which are on one line.
    #[inline]
    fn look(tx: &mut impl Read, node: PersistentAddress) -> Result<([u64; 2], K), Abort> {
        let [left, right, key] = tx.read_array(node)?;
        Ok(([left, right], K::from_word(key)))
    }

    /// Returns the node with `key`.
    fn locate(&self, tx: &mut impl Read, key: K) -> Result<Option<PersistentAddress>, Abort> {
        let mut link = tx.read(self.top)?;
        for _ in 0..MAX_DEPTH {
            if is_none(link) {
                return Ok(None);
            }
            let node = node_of(link);
            let (links, other) = Self::look(tx, node)?;
            if other == key {
                return Ok(Some(node));
            }
            link = links[usize::from(other < key)];
        }
        Err(self.too_deep(tx))
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the tree is damaged.
    pub fn get(&self, tx: &mut impl Read, key: K) -> Result<Option<V>, Abort> {
        match self.locate(tx, key)? {
            Some(node) => Ok(Some(V::from_word(tx.read(value_of(node))?))),
            None => Ok(None),
        }
    }

    /// Returns whether `key` is there.
    ///
    /// # Errors
    /// As for [`RedBlackTree::get`].
    pub fn contains_key(&self, tx: &mut impl Read, key: K) -> Result<bool, Abort> {
        Ok(self.locate(tx, key)?.is_some())
    }

    /// Descends to `key`. Returns the index of the last link of the path, and whether it refers to the key; `None` if the node is too deep for the
    /// path.
    fn descend<const LINKS: usize>(
        &self,
        tx: &mut impl Read,
        key: K,
        path: &mut Path<LINKS>,
    ) -> Result<Option<(usize, bool)>, Abort> {
        if let Some(mut plain) = tx.plain()
            && let Ok(way) = self.descend_by(&mut plain, key, path)
        {
            return Ok(way);
        }
        self.descend_by(tx, key, path)
    }

    fn descend_by<const LINKS: usize>(
        &self,
        tx: &mut impl Read,
        key: K,
        path: &mut Path<LINKS>,
    ) -> Result<Option<(usize, bool)>, Abort> {
        let mut link = tx.read(self.top)?;
        path.set(0, link, LEFT);
        for next in 1..LINKS - 2 {
            if is_none(link) {
                return Ok(Some((next - 1, false)));
            }
            let (links, other) = Self::look(tx, node_of(link))?;
            if other == key {
                return Ok(Some((next - 1, true)));
            }
            let side = usize::from(other < key);
            link = links[side];
            path.set(next, link, side);
        }
        Ok(None)
    }

    /// Sets the value of `key`. Returns the old value, if there was one.
    ///
    /// # Errors
    /// Returns an error if the pool is full, and the errors of [`RedBlackTree::get`] and [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: K, value: V) -> Result<Option<V>, Abort> {
        let value = value.to_word();
        if let Some(old) = self.insert_within::<MOST>(tx, key, value)? {
            return Ok(old);
        }
        self.insert_within::<ALL>(tx, key, value)?.ok_or_else(|| self.too_deep(tx))
    }

    /// Inserts the pair, unless the path is too long for this type of path.
    fn insert_within<const LINKS: usize>(
        &self,
        tx: &mut impl Transaction,
        key: K,
        value: u64,
    ) -> Result<Option<Option<V>>, Abort> {
        let mut path = Path::<LINKS>::new(self.top);
        let Some((mut at, found)) = self.descend(tx, key, &mut path)? else { return Ok(None) };
        if found {
            let word = value_of(path.node(at));
            let old = tx.read(word)?;
            if old != value {
                tx.write(word, value)?;
            }
            return Ok(Some(Some(V::from_word(old))));
        }
        let new = tx.alloc(8 * NODE_WORDS as u64)?;
        let mut children = [0; 2];
        path.links[at] = red(new);
        // The new node's contents may still change until the link to it is written.
        let mut written = false;
        loop {
            if at == 0 {
                tx.write(path.cell(0), black(path.links[0]))?;
                break;
            }
            if !is_red(path.links[at - 1]) {
                if !written {
                    tx.write(path.cell(at), path.links[at])?;
                }
                break;
            }
            if at == 1 {
                return Err(KIND.damaged(tx, self.top, "a red root"));
            }
            let (side, parent_side) = (path.side(at), path.side(at - 1));
            let uncle_cell = child(path.node(at - 2), 1 - parent_side);
            let uncle = tx.read(uncle_cell)?;
            let double = side != parent_side;
            if !written && (is_red(uncle) || !double) {
                tx.write(path.cell(at), path.links[at])?;
            }
            if is_red(uncle) {
                written = true;
                tx.write(path.cell(at - 1), black(path.links[at - 1]))?;
                tx.write(uncle_cell, black(uncle))?;
                if at == 2 {
                    break; // The root stays black.
                }
                path.links[at - 2] |= RED;
                tx.write(path.cell(at - 2), path.links[at - 2])?;
                at -= 2;
                continue;
            }
            self.rotate(tx, &path, at, (!written).then_some(&mut children))?;
            break;
        }
        tx.write_array(new, &[children[LEFT], children[RIGHT], key.to_word(), value])?;
        Ok(Some(None))
    }

    /// Rotates the parent of node `at` above its grandparent, or the node itself if it is on the inner side. `new` has the node's children, if it has
    /// not been written yet.
    fn rotate<const LINKS: usize>(
        &self,
        tx: &mut impl Transaction,
        path: &Path<LINKS>,
        at: usize,
        new: Option<&mut [u64; 2]>,
    ) -> Result<(), Abort> {
        let (parent, grandparent) = (path.node(at - 1), path.node(at - 2));
        let (side, parent_side) = (path.side(at), path.side(at - 1));
        let top = if side != parent_side {
            // The node moves between parent and grandparent.
            let node = path.node(at);
            let adopted = match new {
                None => {
                    let adopted = Self::children(tx, node)?;
                    tx.write(path.cell(at), adopted[parent_side])?;
                    tx.write(child(node, parent_side), red(parent))?;
                    tx.write(child(node, side), red(grandparent))?;
                    adopted[side]
                }
                Some(children) => {
                    children[parent_side] = red(parent);
                    children[side] = red(grandparent);
                    0
                }
            };
            tx.write(path.cell(at - 1), adopted)?;
            node
        } else {
            let inner = child(parent, 1 - side);
            let adopted = tx.read(inner)?;
            tx.write(path.cell(at - 1), adopted)?;
            tx.write(inner, red(grandparent))?;
            parent
        };
        tx.write(path.cell(at - 2), top.offset())
    }

    /// Removes `key`. Returns its value, if it was there.
    ///
    /// # Errors
    /// As for [`RedBlackTree::get`], [`Transaction::write`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, key: K) -> Result<Option<V>, Abort> {
        if let Some(old) = self.remove_within::<MOST>(tx, key)? {
            return Ok(old);
        }
        self.remove_within::<ALL>(tx, key)?.ok_or_else(|| self.too_deep(tx))
    }

    /// Removes the key, unless the path is too long for this type of path.
    fn remove_within<const LINKS: usize>(
        &self,
        tx: &mut impl Transaction,
        key: K,
    ) -> Result<Option<Option<V>>, Abort> {
        let mut path = Path::<LINKS>::new(self.top);
        let Some((mut at, found)) = self.descend(tx, key, &mut path)? else { return Ok(None) };
        if !found {
            return Ok(Some(None));
        }
        let mut goes = path.node(at);
        let mut node = Self::node(tx, goes)?;
        let old = node[VALUE as usize];
        if !is_none(node[LEFT]) && !is_none(node[RIGHT]) {
            // The next node, leftmost on the right, has no left child: it is removed in place of this one.
            let stays = goes;
            let (mut link, mut side) = (node[RIGHT], RIGHT);
            while !is_none(link) {
                if at + 3 >= LINKS {
                    return Ok(None);
                }
                at += 1;
                path.set(at, link, side);
                goes = node_of(link);
                node = Self::node(tx, goes)?;
                (link, side) = (node[LEFT], LEFT);
            }
            tx.write(key_of(stays), node[KEY as usize])?;
            if node[VALUE as usize] != old {
                tx.write(value_of(stays), node[VALUE as usize])?;
            }
        }
        let heir = if is_none(node[LEFT]) { node[RIGHT] } else { node[LEFT] };
        tx.write(path.cell(at), black(heir))?;
        if is_none(heir) && !is_red(path.links[at]) {
            self.make_up(tx, &mut path, at)?;
        }
        tx.free(goes)?;
        Ok(Some(Some(V::from_word(old))))
    }

    /// Repairs the subtree of link `at`, which is one black node short.
    fn make_up<const LINKS: usize>(
        &self,
        tx: &mut impl Transaction,
        path: &mut Path<LINKS>,
        mut at: usize,
    ) -> Result<(), Abort> {
        while at > 0 {
            let parent = path.node(at - 1);
            let side = path.side(at);
            let sibling_cell = child(parent, 1 - side);
            let mut sibling = tx.read(sibling_cell)?;
            if is_none(sibling) {
                return Err(KIND.damaged(tx, parent, "unequal black heights"));
            }
            if is_red(sibling) {
                // Rotates the sibling above the parent, which becomes red; its near child is the new sibling. All cases below write both the new
                // sibling's link and the parent's.
                let above = node_of(sibling);
                let near_cell = child(above, side);
                sibling = tx.read(near_cell)?;
                if is_none(sibling) || is_red(sibling) {
                    return Err(KIND.damaged(tx, above, "a red child of a red node, or none"));
                }
                tx.write(path.cell(at - 1), above.offset())?;
                path.set(at - 1, above.offset(), path.side(at - 1));
                path.set(at, red(parent), side);
                path.set(at + 1, 0, side);
                at += 1;
            }
            let parent_red = path.links[at - 1] & RED;
            let node = node_of(sibling);
            let nephews = Self::children(tx, node)?;
            let (near, far) = (nephews[side], nephews[1 - side]);
            if is_red(far) {
                tx.write(sibling_cell, near)?;
                tx.write(child(node, side), parent.offset())?;
                tx.write(child(node, 1 - side), black(far))?;
                return tx.write(path.cell(at - 1), node.offset() | parent_red);
            }
            if is_red(near) {
                let top = node_of(near);
                let adopted = Self::children(tx, top)?;
                tx.write(sibling_cell, adopted[side])?;
                tx.write(child(node, side), adopted[1 - side])?;
                tx.write(child(top, side), parent.offset())?;
                tx.write(child(top, 1 - side), node.offset())?;
                return tx.write(path.cell(at - 1), top.offset() | parent_red);
            }
            tx.write(sibling_cell, red(node))?;
            if parent_red != 0 {
                return tx.write(path.cell(at - 1), parent.offset());
            }
            at -= 1;
        }
        Ok(())
    }

    ordered_methods!();

    fn scan(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<(), Abort> {
        // Nodes that are still to be visited and whose left subtrees are in progress.
        let mut waiting = [[0; NODE_WORDS]; MAX_DEPTH];
        let mut depth = 0;
        let mut link = tx.read(self.top)?;
        let mut last: Option<K> = None;
        let mut steps = 0;
        loop {
            while !is_none(link) {
                // Counts the steps since the last visit, because a cycle would never end.
                steps += 1;
                if depth == MAX_DEPTH || steps > 2 * MAX_DEPTH {
                    return Err(self.too_deep(tx));
                }
                let node = Self::node(tx, node_of(link))?;
                if is_before(&K::from_word(node[KEY as usize]), &keys) {
                    link = node[RIGHT];
                } else {
                    waiting[depth] = node;
                    depth += 1;
                    link = node[LEFT];
                }
            }
            if depth == 0 {
                return Ok(());
            }
            depth -= 1;
            steps = 0;
            let node = waiting[depth];
            let key = K::from_word(node[KEY as usize]);
            if last.is_some_and(|last| key <= last) {
                return Err(KIND.damaged(tx, self.top, "keys out of order, under the root"));
            }
            if is_behind(&key, &keys) {
                return Ok(());
            }
            last = Some(key);
            if visit(key, V::from_word(node[VALUE as usize]))?.is_break() {
                return Ok(());
            }
            link = node[RIGHT];
        }
    }

    /// Checks the tree's invariants. Returns the number of keys.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](strandline_core::Error::Damaged) if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let top = tx.read(self.top)?;
        if is_red(top) {
            return Err(KIND.damaged(tx, self.top, "a red root"));
        }
        Ok(self.check_below(tx, top, None, None, 0)?.0)
    }

    /// Returns the number of keys and the black height of the subtree of `link`, whose keys must be between two keys.
    fn check_below(
        &self,
        tx: &mut impl Read,
        link: u64,
        above: Option<K>,
        below: Option<K>,
        depth: usize,
    ) -> Result<(u64, u64), Abort> {
        if link == 0 {
            return Ok((0, 1));
        }
        if depth > MAX_DEPTH {
            return Err(self.too_deep(tx));
        }
        let at = node_of(link);
        let node = Self::node(tx, at)?;
        let key = K::from_word(node[KEY as usize]);
        if above.is_some_and(|above| key <= above) || below.is_some_and(|below| key >= below) {
            return Err(KIND.damaged(tx, at, "keys out of order"));
        }
        if is_red(link) && (is_red(node[LEFT]) || is_red(node[RIGHT])) {
            return Err(KIND.damaged(tx, at, "a red child of a red node"));
        }
        let (left, left_height) = self.check_below(tx, node[LEFT], above, Some(key), depth + 1)?;
        let (right, right_height) = self.check_below(tx, node[RIGHT], Some(key), below, depth + 1)?;
        if left_height != right_height {
            return Err(KIND.damaged(tx, at, "unequal black heights"));
        }
        Ok((left + right + 1, left_height + u64::from(!is_red(link))))
    }
}
