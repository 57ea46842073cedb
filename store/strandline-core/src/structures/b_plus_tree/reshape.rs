//! Operations that load nodes whole: splitting, merging and evening out.

use std::cmp::Ordering;

use super::groups::Place;
use super::node::Node;
use super::{BPlusTree, KIND, Leaf, MAX_LEVELS, MAX_PAIRS, Pair, Path};
use crate::structures::value::Word;
use crate::transaction::{Abort, Read, Transaction};

impl<K: Word + Ord, V: Word> BPlusTree<K, V> {
    /// Loads the inner node on `level` of a path, and returns it with the place that the path took.
    fn above(&self, tx: &mut impl Read, path: &Path, level: u64) -> Result<(Node, Place), Abort> {
        let taken = path.len().checked_sub(level as usize).and_then(|number| path.get(number));
        let Some(&(at, place)) = taken else {
            return Err(KIND.damaged(tx, self.top, "a way down that is too short"));
        };
        let node = Node::load(tx, at, self.shape)?;
        if node.level != level {
            return Err(KIND.damaged(tx, at, "a node on the wrong level"));
        }
        Ok((node, place))
    }

    /// Inserts a pair at a place of a leaf whose groups have no room there, and splits nodes as necessary.
    #[cold]
    pub(super) fn insert_whole(
        &self,
        tx: &mut impl Transaction,
        path: &Path,
        leaf: Leaf,
        mut place: Place,
        mut pair: Pair,
    ) -> Result<(), Abort> {
        let mut node = Node::load(tx, leaf.at, self.shape)?;
        while node.count == self.shape.pairs as usize {
            let position = node.position(place);
            pair = self.split(tx, &mut node, position, pair)?;
            let level = node.level + 1;
            if level > leaf.top_level as u64 {
                if level >= MAX_LEVELS as u64 {
                    return Err(KIND.damaged(tx, node.at, "too many levels"));
                }
                let root = tx.alloc(self.shape.bytes)?;
                Node::fresh(root, self.shape, level, node.at.offset()).write_fresh(tx, &[pair])?;
                return tx.write(self.top, root.offset());
            }
            (node, place) = self.above(tx, path, level)?;
            if self.put_with_help(tx, node.at, place, pair)? {
                return Ok(());
            }
        }
        let position = node.position(place);
        node.insert(tx, position, pair)?;
        node.lay_out();
        node.store(tx)
    }

    /// Splits a full node, to which `new` is added at `position`. Returns the pair for the parent: the least key of the new node on the
    /// right, and its address.
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
            node.insert(tx, position, new)?;
        }
        node.count = left;
        node.lay_out();
        node.store(tx)?;
        Ok([separator, right.offset()])
    }

    /// Removes the pair at a place of a leaf that is left with few pairs, and merges or evens out nodes as necessary.
    #[cold]
    pub(super) fn remove_whole(
        &self,
        tx: &mut impl Transaction,
        path: &Path,
        leaf: Leaf,
        place: Place,
    ) -> Result<(), Abort> {
        let mut node = Node::load(tx, leaf.at, self.shape)?;
        let mut position = node.position(place);
        loop {
            if position >= node.count {
                return Err(KIND.damaged(tx, node.at, "a pair that is not there any more"));
            }
            node.remove(position);
            let is_root = node.level == leaf.top_level as u64;
            if is_root && node.level > 0 && node.count == 0 {
                tx.write(self.top, node.link)?;
                return tx.free(node.at);
            }
            if is_root || node.count >= self.least() {
                return node.store(tx);
            }
            let (parent, place) = self.above(tx, path, node.level + 1)?;
            let index = parent.position(place);
            if parent.count == 0 {
                return Err(KIND.damaged(tx, parent.at, "an inner node without keys"));
            }
            // The position of the key between the two siblings.
            let between = index.saturating_sub(1);
            let sibling = parent.child(tx, if index == 0 { 1 } else { index - 1 })?;
            let sibling = parent.load_child(tx, sibling)?;
            if sibling.at == node.at {
                return Err(KIND.damaged(tx, parent.at, "the same child twice"));
            }
            let (mut left, mut right) = if index == 0 { (node, sibling) } else { (sibling, node) };
            let separator = parent.pair(tx, between)?[0];
            let inner = usize::from(left.level > 0);
            if left.count + right.count + inner > self.shape.pairs as usize * 3 / 4 {
                let separator = Self::even_out(tx, &mut left, &mut right, separator)?;
                self.check_node(tx, parent.at)?;
                return tx.write(parent.pair_at(between), separator);
            }
            if inner == 1 {
                left.insert(tx, left.count, [separator, right.link])?;
            } else {
                left.link = right.link;
            }
            for i in 0..right.count {
                let pair = right.pair(tx, i)?;
                left.insert(tx, left.count, pair)?;
            }
            left.lay_out();
            left.store(tx)?;
            tx.free(right.at)?;
            node = parent;
            position = between;
        }
    }

    /// Moves pairs between siblings until both have about the same number. Returns the key that separates them now.
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
                left.insert(tx, left.count, [separator, right.link])?;
                for i in 0..moved - 1 {
                    let pair = right.pair(tx, i)?;
                    left.insert(tx, left.count, pair)?;
                }
                [between, right.link] = right.pair(tx, moved - 1)?;
            } else {
                for i in 0..moved {
                    let pair = right.pair(tx, i)?;
                    left.insert(tx, left.count, pair)?;
                }
                between = right.pair(tx, moved)?[0];
            }
            right.drop_front(moved);
        } else {
            let moved = (left.count - right.count) / 2;
            let stays = left.count - moved;
            if inner {
                right.insert(tx, 0, [separator, right.link])?;
                for i in (stays + 1..left.count).rev() {
                    let pair = left.pair(tx, i)?;
                    right.insert(tx, 0, pair)?;
                }
                [between, right.link] = left.pair(tx, stays)?;
            } else {
                for i in (stays..left.count).rev() {
                    let pair = left.pair(tx, i)?;
                    right.insert(tx, 0, pair)?;
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
}
