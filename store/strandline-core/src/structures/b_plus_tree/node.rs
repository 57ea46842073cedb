//! Nodes that are loaded whole, to be checked, split, merged and evened out.

use super::groups::{self, Group, Place};
use super::{GROUPS, KIND, LINK, MAX_GROUPS, MAX_LEVELS, MAX_PAIRS, NODE_MAGIC, NodeShape, Pair};
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read, Transaction};

/// A node's words without its pairs, after a check.
pub(super) struct Node {
    pub at: PersistentAddress,
    pub shape: NodeShape,
    pub level: u64,
    pub link: u64,
    stored_link: u64,
    groups: [Group; MAX_GROUPS],
    stored_groups: [Group; MAX_GROUPS],
    /// The numbers of the pairs: first those in use, in the order of their keys, and then the free ones.
    numbers: [u8; MAX_PAIRS as usize],
    /// The number of pairs in use.
    pub count: usize,
}

impl Node {
    pub fn load(tx: &mut impl Read, at: PersistentAddress, shape: NodeShape) -> Result<Self, Abort> {
        let mut words = [0; GROUPS as usize + MAX_GROUPS];
        let words = &mut words[..GROUPS as usize + shape.group_words()];
        tx.read_range(at, words)?;
        let [head, link, groups @ ..] = words else { unreachable!("a node has two words before its groups") };
        let level = *head & 0xff;
        if *head >> 8 != NODE_MAGIC || level >= MAX_LEVELS as u64 {
            return Err(KIND.damaged(tx, at, "something that is not a node"));
        }
        let mut node = Self::fresh(at, shape, level, *link);
        for (group, word) in node.groups.iter_mut().zip(groups) {
            *group = Group(*word);
        }
        node.stored_groups = node.groups;
        if !node.list() {
            return Err(KIND.damaged(tx, at, "impossible groups"));
        }
        Ok(node)
    }

    /// Returns a node without pairs, for allocated memory that is not yet written.
    pub fn fresh(at: PersistentAddress, shape: NodeShape, level: u64, link: u64) -> Self {
        Self {
            at,
            shape,
            level,
            link,
            stored_link: link,
            groups: [Group::EMPTY; MAX_GROUPS],
            stored_groups: [Group::EMPTY; MAX_GROUPS],
            numbers: std::array::from_fn(|number| number as u8),
            count: 0,
        }
    }

    /// Writes a new node with these pairs.
    pub fn write_fresh(mut self, tx: &mut impl Transaction, pairs: &[Pair]) -> Result<(), Abort> {
        self.count = pairs.len();
        self.lay_out();
        let mut words = [0; GROUPS as usize + MAX_GROUPS];
        words[0] = NODE_MAGIC << 8 | self.level;
        words[LINK as usize] = self.link;
        for (word, group) in words[GROUPS as usize..].iter_mut().zip(self.groups()) {
            *word = group.0;
        }
        tx.write_range(self.at, &words[..GROUPS as usize + self.shape.group_words()])?;
        tx.write_range(self.shape.pair(self.at, 0), pairs.as_flattened())
    }

    fn groups(&self) -> &[Group] {
        &self.groups[..self.shape.group_words()]
    }

    /// Derives the numbers from the groups. Returns whether the groups name every pair once.
    fn list(&mut self) -> bool {
        let (mut used, mut free) = (0, self.shape.pairs as usize);
        let mut named = [0u64; 4];
        for group in &self.groups[..self.shape.group_words()] {
            if !group.is_possible() {
                return false;
            }
            let (in_use, not_in_use) = group.numbers();
            for (number, is_used) in
                in_use.map(|number| (number, true)).chain(not_in_use.map(|number| (number, false)))
            {
                let (word, bit) = (usize::from(number / 64), 1 << (number % 64));
                if used == free || u64::from(number) >= self.shape.pairs || named[word] & bit != 0 {
                    return false;
                }
                named[word] |= bit;
                if is_used {
                    self.numbers[used] = number;
                    used += 1;
                } else {
                    free -= 1;
                    self.numbers[free] = number;
                }
            }
        }
        self.count = used;
        used == free
    }

    /// Distributes the numbers over the groups again.
    pub fn lay_out(&mut self) {
        let (used, free) = self.numbers[..self.shape.pairs as usize].split_at(self.count);
        groups::lay_out(&mut self.groups[..self.shape.group_words()], used, free);
    }

    /// Writes the groups and the link, if they have changed.
    pub fn store(&mut self, tx: &mut impl Transaction) -> Result<(), Abort> {
        KIND.check_block(tx, self.at, self.shape.bytes / 8)?;
        if self.link != self.stored_link {
            tx.write(self.at.word(LINK), self.link)?;
            self.stored_link = self.link;
        }
        for i in 0..self.shape.group_words() {
            if self.groups[i] != self.stored_groups[i] {
                tx.write(self.at.word(GROUPS + i as u64), self.groups[i].0)?;
            }
        }
        self.stored_groups = self.groups;
        Ok(())
    }

    /// Returns whether groups with pairs in use come before those without.
    pub fn is_dense(&self) -> bool {
        self.groups().is_sorted_by_key(|group| group.count() == 0)
    }

    /// Returns the position in the node's order of a place in its groups.
    pub fn position(&self, place: Place) -> usize {
        let before = &self.groups[..usize::from(place.group)];
        let position =
            before.iter().map(|&group| group.count() as usize).sum::<usize>() + usize::from(place.offset);
        position.min(self.count)
    }

    /// Returns the place in the groups of a position in the node's order.
    pub fn place_of(&self, position: usize) -> Place {
        let mut offset = position as u64;
        for (group, word) in (0..).zip(self.groups()) {
            if offset < word.count() {
                return Place { group, offset: offset as u8 };
            }
            offset -= word.count();
        }
        Place { group: 0, offset: 0 }
    }

    /// Returns the address of the pair at a position.
    pub fn pair_at(&self, position: usize) -> PersistentAddress {
        self.shape.pair(self.at, self.numbers[position])
    }

    /// Reads the pair at a position.
    pub fn pair(&self, tx: &mut impl Read, position: usize) -> Result<Pair, Abort> {
        tx.read_array(self.pair_at(position))
    }

    /// Reads the address of the child with this index; child 0 is left of all keys.
    pub fn child(&self, tx: &mut impl Read, index: usize) -> Result<PersistentAddress, Abort> {
        let child = if index == 0 { self.link } else { self.pair(tx, index - 1)?[1] };
        Ok(PersistentAddress::new(child))
    }

    /// Loads a child, which must be on the level below this node's.
    pub fn load_child(&self, tx: &mut impl Read, at: PersistentAddress) -> Result<Self, Abort> {
        let child = Self::load(tx, at, self.shape)?;
        if child.level + 1 != self.level {
            return Err(KIND.damaged(tx, at, "a node on the wrong level"));
        }
        Ok(child)
    }

    /// Inserts a pair at a position of a node that is not full. The caller lays out and stores the groups.
    pub fn insert(&mut self, tx: &mut impl Transaction, position: usize, pair: Pair) -> Result<(), Abort> {
        if self.count == self.shape.pairs as usize {
            return Err(KIND.damaged(tx, self.at, "a node without room"));
        }
        self.numbers[position..=self.count].rotate_right(1);
        self.count += 1;
        tx.write_range(self.pair_at(position), &pair)
    }

    /// Removes the pair at a position. The caller stores the groups.
    pub fn remove(&mut self, position: usize) {
        let place = self.place_of(position);
        self.numbers[position..self.count].rotate_left(1);
        self.count -= 1;
        if !groups::remove_number(&mut self.groups[..self.shape.group_words()], place) {
            self.lay_out();
        }
    }

    /// Removes the first pairs. The caller lays out and stores the groups.
    pub fn drop_front(&mut self, pairs: usize) {
        self.numbers[..self.count].rotate_left(pairs);
        self.count -= pairs;
    }
}
