//! The check of a whole tree.

use super::node::Node;
use super::{BPlusTree, KIND, NODE};
use crate::memory::PersistentAddress;
use crate::structures::value::Word;
use crate::structures::walk::Walk;
use crate::transaction::{Abort, Read};

/// The progress of a check.
struct Checked {
    walk: Walk,
    /// The link of the last leaf that was visited.
    next: Option<u64>,
}

impl<K: Word + Ord, V: Word> BPlusTree<K, V> {
    /// Checks the tree's invariants; returns the number of keys.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let root = self.load_root(tx)?;
        let mut seen = Checked { walk: Walk::default(), next: None };
        let count = self.check_below(tx, &root, None, None, &mut seen)?;
        if seen.next.is_some_and(|next| next != 0) {
            return Err(KIND.damaged(tx, root.at, "a leaf linked past the last one, below"));
        }
        Ok(count)
    }

    /// Checks the nodes from `node` downwards, whose keys must be at least `from` and less than `to`. Returns the number of keys.
    fn check_below(
        &self,
        tx: &mut impl Read,
        node: &Node,
        from: Option<K>,
        to: Option<K>,
        seen: &mut Checked,
    ) -> Result<u64, Abort> {
        seen.walk.visit(tx, NODE, node.at, self.shape.bytes / 8)?;
        let is_root = tx.read(self.top)? == node.at.offset();
        let least = if is_root { usize::from(node.level > 0) } else { self.least().div_ceil(7) };
        if node.count < least {
            return Err(KIND.damaged(tx, node.at, "a node with too few pairs"));
        }
        if !node.is_dense() {
            return Err(KIND.damaged(tx, node.at, "a group without pairs before one that has some"));
        }
        let pairs = Self::ascending_pairs(tx, node, from, to)?;
        if node.level == 0 {
            if seen.next.is_some_and(|next| next != node.at.offset()) {
                return Err(KIND.damaged(tx, node.at, "a leaf that its neighbour does not link to"));
            }
            seen.next = Some(node.link);
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
            count += self.check_below(tx, &child, low, high, seen)?;
        }
        Ok(count)
    }

    /// Returns the pairs of `node`, whose keys must be at least `from` and less than `to`.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if the keys do not ascend within these bounds.
    fn ascending_pairs(
        tx: &mut impl Read,
        node: &Node,
        from: Option<K>,
        to: Option<K>,
    ) -> Result<Vec<(K, u64)>, Abort> {
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
        Ok(pairs)
    }
}
