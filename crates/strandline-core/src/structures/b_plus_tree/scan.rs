//! Going through the pairs of a range.

use std::ops::{Bound, ControlFlow, RangeBounds};

use super::groups::Group;
use super::node::Node;
use super::{BPlusTree, GROUPS, KIND, LINK, NODE_MAGIC, behind};
use crate::memory::PersistentAddress;
use crate::structures::ordered::{is_before, is_behind};
use crate::structures::value::Word;
use crate::transaction::{Abort, Read};

/// What a descending scan has seen so far.
struct Seen<K> {
    leaves: u64,
    last: Option<K>,
}

impl<K: Word + Ord, V: Word> BPlusTree<K, V> {
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

    /// Visits the pairs whose keys are in `keys`, in their order, until `visit` breaks. Whatever the pool holds, no other keys are
    /// visited, and none twice.
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
        let mut leaf = self.find_leaf(tx, |key| start.is_some_and(|start| key <= start), |_, _, _| {})?.at;
        let mut place = behind(self.search(tx, leaf, |key| is_before(&key, &keys))?);
        let mut last: Option<K> = None;
        // The words of a leaf after the first: mostly it is gone through as a whole, and is read at once.
        let mut whole = Vec::new();
        loop {
            for group in place.group.into()..self.groups {
                let group = Group(match whole.get((GROUPS + group) as usize) {
                    Some(&word) => word,
                    None => tx.read(Self::group_at(leaf, group))?,
                });
                if !group.is_possible() {
                    return Err(Self::impossible(tx, leaf));
                }
                if group.count() == 0 {
                    break;
                }
                for offset in place.offset.into()..group.count() {
                    let number = group.number(offset);
                    if u64::from(number) >= self.shape.pairs {
                        return Err(Self::impossible(tx, leaf));
                    }
                    let pair = self.pair_at(leaf, number);
                    let [key, value] = match whole[..].get((pair.offset() - leaf.offset()) as usize / 8..) {
                        Some(&[key, value, ..]) => [key, value],
                        _ => tx.read_array(pair)?,
                    };
                    let key = K::from_word(key);
                    if last.map_or_else(|| is_before(&key, &keys), |last| key <= last) {
                        return Err(KIND.damaged(tx, leaf, "keys out of order"));
                    }
                    if is_behind(&key, &keys) {
                        return Ok(());
                    }
                    last = Some(key);
                    if visit(key, V::from_word(value))?.is_break() {
                        return Ok(());
                    }
                }
                place.offset = 0;
            }
            leaf = PersistentAddress::new(match whole.get(LINK as usize) {
                Some(&link) => link,
                None => tx.read(leaf.word(LINK))?,
            });
            if leaf.is_null() {
                return Ok(());
            }
            whole.resize((self.pairs / 8 + 2 * self.shape.pairs) as usize, 0);
            tx.read_range(leaf, &mut whole)?;
            if whole[0] != NODE_MAGIC << 8 || Group(whole[GROUPS as usize]).count() == 0 {
                return Err(KIND.damaged(tx, leaf, "no leaf, or an empty one, among its leaves"));
            }
            place = behind(None);
        }
    }
}
