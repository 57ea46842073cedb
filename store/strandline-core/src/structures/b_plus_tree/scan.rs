//! Scans over the pairs of a range.

use std::ops::{Bound, ControlFlow, RangeBounds};

use super::groups::{Group, Place};
use super::node::Node;
use super::{BPlusTree, GROUPS, KIND, LINK, NODE, NODE_MAGIC, behind};
use crate::memory::PersistentAddress;
use crate::structures::ordered::{is_before, is_behind};
use crate::structures::value::Word;
use crate::structures::walk::Walk;
use crate::transaction::{Abort, Read};

/// The progress of a descending scan.
struct Seen<K> {
    walk: Walk,
    leaves: u64,
    last: Option<K>,
}

impl<K: Word + Ord, V: Word> BPlusTree<K, V> {
    /// Returns the greatest key in `keys` and its value.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the structure is damaged.
    pub fn last(&self, tx: &mut impl Read, keys: impl RangeBounds<K>) -> Result<Option<(K, V)>, Abort> {
        let mut last = None;
        self.scan_back(tx, keys, |key, value| {
            last = Some((key, value));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(last)
    }

    /// Calls `visit` with the keys in `keys` and their values, in descending order.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the structure is damaged, and the errors of `visit`.
    pub fn range_back(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.scan_back(tx, keys, |key, value| visit(key, value).map(ControlFlow::Continue))
    }

    /// Like [`scan`](Self::scan), but in descending order.
    pub fn scan_back(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<(), Abort> {
        let root = self.load_root(tx)?;
        let mut seen = Seen { walk: Walk::default(), leaves: 0, last: None };
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
        seen.walk.visit(tx, NODE, node.at, self.shape.bytes / 8)?;
        // Skips the pairs whose keys are greater than the range's. Of an inner node, the child left of the first such key is visited.
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
        // Every leaf after the first that is visited has keys below the range's end. Without this check, the scan could visit an empty leaf
        // of a damaged tree over and over, through nodes that refer to it more than once.
        if low == 0 && seen.leaves > 0 {
            return Err(KIND.damaged(tx, node.at, "no keys where some must be, in a leaf"));
        }
        seen.leaves += 1;
        for position in (0..low).rev() {
            let [word, value] = node.pair(tx, position)?;
            let key = K::from_word(word);
            if seen.last.map_or_else(|| is_behind(&key, keys), |last| key >= last) {
                return Err(KIND.damaged(tx, node.at, "keys out of order"));
            }
            seen.last = Some(key);
            if is_before(&key, keys) || visit(key, V::from_word(value))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Visits the pairs whose keys are in `keys`, in ascending order, until `visit` breaks. Even in a damaged pool it visits no other keys,
    /// and none twice.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage, and the errors of `visit`.
    pub fn scan(
        &self,
        tx: &mut impl Read,
        keys: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    ) -> Result<(), Abort> {
        let mut walk = Walk::default();
        let start = match keys.start_bound() {
            Bound::Included(&start) | Bound::Excluded(&start) => Some(start),
            Bound::Unbounded => None,
        };
        let mut leaf = self.find_leaf(tx, |key| start.is_some_and(|start| key <= start), |_, _| {})?.at;
        let place = behind(self.search(tx, leaf, |key| is_before(&key, &keys))?);
        walk.visit(tx, NODE, leaf, self.shape.bytes / 8)?;
        let mut scan = Scan { keys: &keys, last: None, visit: &mut visit };
        if scan.leaf(tx, (leaf, place), self.groups, &Stored { tree: self, leaf })?.is_break() {
            return Ok(());
        }
        leaf = PersistentAddress::new(tx.read(leaf.word(LINK))?);
        // The scan usually visits the whole of each leaf after the first, so it reads such a leaf with one call.
        let pairs_begin = (self.pairs / 8) as usize;
        let mut words = vec![0; pairs_begin + 2 * self.shape.pairs as usize];
        while !leaf.is_null() {
            walk.visit(tx, NODE, leaf, self.shape.bytes / 8)?;
            tx.read_range(leaf, &mut words)?;
            let (head, pairs) = words.split_at(pairs_begin);
            let whole = Whole { groups: &head[GROUPS as usize..], pairs: pairs.as_chunks().0 };
            let next = PersistentAddress::new(head[LINK as usize]);
            if head[0] != NODE_MAGIC << 8 || Group(whole.groups[0]).count() == 0 {
                return Err(KIND.damaged(tx, leaf, "no leaf, or an empty one, among its leaves"));
            }
            if scan.leaf(tx, (leaf, behind(None)), self.groups, &whole)?.is_break() {
                return Ok(());
            }
            leaf = next;
        }
        Ok(())
    }
}

/// The source of a leaf's words.
trait Leaf<T> {
    fn group(&self, tx: &mut T, group: u64) -> Result<Group, Abort>;
    /// Returns the words of a pair; `None` if a node has no pair with this number.
    fn pair(&self, tx: &mut T, number: u8) -> Result<Option<[u64; 2]>, Abort>;
}

/// A leaf in the pool, of which the scan reads only the words that it needs.
struct Stored<'t, K, V> {
    tree: &'t BPlusTree<K, V>,
    leaf: PersistentAddress,
}

impl<T: Read, K: Word + Ord, V: Word> Leaf<T> for Stored<'_, K, V> {
    fn group(&self, tx: &mut T, group: u64) -> Result<Group, Abort> {
        tx.read(BPlusTree::<K, V>::group_at(self.leaf, group)).map(Group)
    }

    fn pair(&self, tx: &mut T, number: u8) -> Result<Option<[u64; 2]>, Abort> {
        let is_one = u64::from(number) < self.tree.shape.pairs;
        is_one.then(|| tx.read_array(self.tree.pair_at(self.leaf, number))).transpose()
    }
}

/// A leaf that was read as a whole.
struct Whole<'w> {
    groups: &'w [u64],
    pairs: &'w [[u64; 2]],
}

impl<T> Leaf<T> for Whole<'_> {
    fn group(&self, _: &mut T, group: u64) -> Result<Group, Abort> {
        Ok(Group(self.groups[group as usize]))
    }

    fn pair(&self, _: &mut T, number: u8) -> Result<Option<[u64; 2]>, Abort> {
        Ok(self.pairs.get(usize::from(number)).copied())
    }
}

/// The state of a scan over several leaves.
struct Scan<'s, K, R, F> {
    keys: &'s R,
    last: Option<K>,
    visit: &'s mut F,
}

impl<K: Word + Ord, R: RangeBounds<K>, F> Scan<'_, K, R, F> {
    /// Visits the pairs of a leaf from a place on. Breaks at the end of the range, or if `visit` does.
    fn leaf<T: Read, V: Word>(
        &mut self,
        tx: &mut T,
        (at, place): (PersistentAddress, Place),
        groups: u64,
        leaf: &impl Leaf<T>,
    ) -> Result<ControlFlow<()>, Abort>
    where
        F: FnMut(K, V) -> Result<ControlFlow<()>, Abort>,
    {
        let mut offset = place.offset.into();
        for group in place.group.into()..groups {
            let group = leaf.group(tx, group)?;
            if !group.is_possible() {
                return Err(BPlusTree::<K, V>::impossible(tx, at));
            }
            if group.count() == 0 {
                break;
            }
            for offset in offset..group.count() {
                let Some([key, value]) = leaf.pair(tx, group.number(offset))? else {
                    return Err(BPlusTree::<K, V>::impossible(tx, at));
                };
                let key = K::from_word(key);
                if self.last.map_or_else(|| is_before(&key, self.keys), |last| key <= last) {
                    return Err(KIND.damaged(tx, at, "keys out of order"));
                }
                if is_behind(&key, self.keys) {
                    return Ok(ControlFlow::Break(()));
                }
                self.last = Some(key);
                if (self.visit)(key, V::from_word(value))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            offset = 0;
        }
        Ok(ControlFlow::Continue(()))
    }
}
