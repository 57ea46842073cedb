//! Common code of the trees whose nodes have keys between their children: scanning a range, checking the invariants, the path to a leaf, and finding
//! the parent and the siblings of a node on it.

use std::ops::{ControlFlow, RangeBounds};

use arrayvec::ArrayVec;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::header::Kind;
use strandline_core::structures::{ordered::is_before, ordered::is_behind};
use strandline_core::transaction::{Abort, Read};

/// The maximum number of levels. Inner nodes have at least two children, so there may be 2^32 leaves.
pub const MAX_LEVELS: u64 = 32;

/// The path to a leaf: for each level, from the root on, the inner node and the index of the child taken.
pub type Path = ArrayVec<(PersistentAddress, u64), { MAX_LEVELS as usize }>;

/// A node's description in its first word.
pub trait LevelNode: Copy {
    /// Returns its address.
    fn at(self) -> PersistentAddress;
    /// Returns the number of levels below it: 0 for a leaf.
    fn level(self) -> u64;
    /// Returns how many keys it has.
    fn count(self) -> u64;
}

/// A tree of such nodes. All leaves have level 0, and a child's level is one less than its parent's.
pub trait Levels<K: Copy + Ord, V> {
    /// The kind of tree, for reports of damage.
    const KIND: Kind;
    /// The report that a node has fewer keys than [`Levels::least`].
    const TOO_FEW: &'static str;
    /// Its nodes.
    type Node: LevelNode;

    /// Returns the root, which alone may be without keys.
    fn root(&self, tx: &mut impl Read) -> Result<Self::Node, Abort>;
    /// Returns the node at `at`, which must be on `level` and have a key.
    fn node(&self, tx: &mut impl Read, at: PersistentAddress, level: u64) -> Result<Self::Node, Abort>;
    /// Returns the child left of the key at `index`, or right of all keys.
    fn child_at_index(&self, tx: &mut impl Read, node: Self::Node, index: u64) -> Result<Self::Node, Abort>;
    /// Returns the key at `index`.
    fn key(&self, tx: &mut impl Read, node: Self::Node, index: u64) -> Result<K, Abort>;
    /// Returns the value at `index` of a node that has pairs.
    fn value_of(&self, tx: &mut impl Read, node: Self::Node, index: u64) -> Result<V, Abort>;
    /// Returns whether nodes of this level have pairs. If they have only keys, equal keys are to the right.
    fn has_pairs(&self, level: u64) -> bool;
    /// Returns how many keys of a node satisfy `is_before`; these come first.
    fn keys_before(
        &self,
        tx: &mut impl Read,
        node: Self::Node,
        is_before: impl Fn(K) -> bool,
    ) -> Result<u64, Abort>;
    /// Returns how many keys every node except the root has, at least.
    fn least(&self) -> u64;
    /// Checks a node's description of itself.
    fn check_node(&self, _tx: &mut impl Read, _node: Self::Node) -> Result<(), Abort> {
        Ok(())
    }

    /// Returns the error for something that should be a node.
    #[cold]
    fn no_node(tx: &mut impl Read, at: PersistentAddress) -> Abort {
        Self::KIND.damaged(tx, at, "something that is not a node, an empty one, or one on the wrong level,")
    }

    /// Returns the inner node above `node`, which was reached by `path`, and the index of the child taken. In a damaged pool the inner node may
    /// overlap `node`, and a write to `node` may have changed it since.
    fn above(&self, tx: &mut impl Read, path: &Path, node: Self::Node) -> Result<(Self::Node, u64), Abort> {
        let level = node.level() + 1;
        let taken = path.len().checked_sub(level as usize).and_then(|number| path.get(number));
        let Some(&(at, index)) = taken else { return Err(Self::no_node(tx, node.at())) };
        let parent = self.node(tx, at, level)?;
        if index > parent.count() {
            return Err(Self::no_node(tx, at));
        }
        Ok((parent, index))
    }

    /// Calls `visit` with the keys in `keys` and their values, ascending, until it breaks.
    fn scan(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<(), Abort> {
        let root = self.root(tx)?;
        self.scan_below(tx, root, &keys, &mut None, &mut visit).map(drop)
    }

    /// Like [`Levels::scan`], for the keys under `node`.
    fn scan_below(
        &self,
        tx: &mut impl Read,
        node: Self::Node,
        keys: &impl RangeBounds<K>,
        last: &mut Option<K>,
        visit: &mut impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<ControlFlow<()>, Abort> {
        for index in self.keys_before(tx, node, |key| is_before(&key, keys))?..=node.count() {
            if node.level() > 0 {
                let child = self.child_at_index(tx, node, index)?;
                if self.scan_below(tx, child, keys, last, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if index == node.count() {
                break;
            }
            let key = self.key(tx, node, index)?;
            if last.is_some_and(|last| key <= last) {
                return Err(Self::KIND.damaged(tx, node.at(), "keys out of order"));
            }
            if is_behind(&key, keys) {
                return Ok(ControlFlow::Break(()));
            }
            if self.has_pairs(node.level()) {
                *last = Some(key);
                let value = self.value_of(tx, node, index)?;
                if visit(key, value)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Checks the tree's invariants. Returns the number of pairs.
    fn check_levels(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let root = self.root(tx)?;
        if root.level() > 0 && root.count() == 0 {
            return Err(Self::KIND.damaged(tx, root.at(), "a root without keys"));
        }
        self.check_below(tx, root, None, None)
    }

    /// Returns the number of pairs under `node`, whose keys must be from `above` on (after it, if it has a pair of its own) and before `below`.
    fn check_below(
        &self,
        tx: &mut impl Read,
        node: Self::Node,
        above: Option<K>,
        below: Option<K>,
    ) -> Result<u64, Abort> {
        self.check_node(tx, node)?;
        let mut keys: Vec<K> = Vec::new();
        for index in 0..node.count() {
            let key = self.key(tx, node, index)?;
            let is_in_order = match (keys.last(), above) {
                (Some(last), _) => *last < key,
                (None, Some(above)) => above < key || above == key && !self.has_pairs(node.level() + 1),
                (None, None) => true,
            };
            if !is_in_order || below.is_some_and(|below| key >= below) {
                return Err(Self::KIND.damaged(tx, node.at(), "keys out of order"));
            }
            keys.push(key);
        }
        let mut count = if self.has_pairs(node.level()) { node.count() } else { 0 };
        if node.level() == 0 {
            return Ok(count);
        }
        for index in 0..=keys.len() {
            let child = self.child_at_index(tx, node, index as u64)?;
            if child.count() < self.least() {
                return Err(Self::KIND.damaged(tx, child.at(), Self::TOO_FEW));
            }
            let above = if index == 0 { above } else { Some(keys[index - 1]) };
            count += self.check_below(tx, child, above, keys.get(index).copied().or(below))?;
        }
        Ok(count)
    }

    /// Returns the children of `parent` left and right of `node`, the one at `index`.
    fn siblings(
        &self,
        tx: &mut impl Read,
        parent: Self::Node,
        index: u64,
        node: Self::Node,
    ) -> Result<[Option<Self::Node>; 2], Abort> {
        let mut siblings = [None; 2];
        for (sibling, at) in siblings.iter_mut().zip([index.checked_sub(1), Some(index + 1)]) {
            if let Some(at) = at.filter(|&at| at <= parent.count()) {
                let found = self.child_at_index(tx, parent, at)?;
                if found.at() == node.at() {
                    return Err(Self::KIND.damaged(tx, parent.at(), "the same child twice"));
                }
                *sibling = Some(found);
            }
        }
        Ok(siblings)
    }
}
