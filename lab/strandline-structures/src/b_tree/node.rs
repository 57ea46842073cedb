//! A node of a B-tree, and the word that says which of its pairs are in use and in which order.

use strandline_core::memory::PersistentAddress;

use crate::levels::LevelNode;

pub const NODE_MAGIC: u64 = 0x2d7;
/// The maximum of keys, for which an order has room.
pub const MAX_KEYS: u64 = 11;
/// The word where the keys begin.
pub const KEYS: u64 = 1;
/// The bit positions of the parts of an order.
const COUNT: u32 = 4 * MAX_KEYS as u32;
pub const LEVEL: u32 = COUNT + 4;
pub const MAGIC: u32 = LEVEL + 6;

/// A node, and its order as it is or will be.
#[derive(Clone, Copy)]
pub struct Node {
    pub at: PersistentAddress,
    pub order: u64,
}

/// Returns the bits of the first `numbers` numbers of an order.
fn first(numbers: u64) -> u64 {
    (1 << (4 * numbers)) - 1
}

/// Distinguishes the nodes of a level from everything else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NodeKind(u64);

impl NodeKind {
    pub fn on(level: u64) -> Self {
        Self(NODE_MAGIC << (MAGIC - LEVEL) | level)
    }

    /// Returns the kind of the children of inner nodes.
    pub fn below(self) -> Self {
        Self(self.0 - 1)
    }
}

impl LevelNode for Node {
    fn at(self) -> PersistentAddress {
        self.at
    }

    fn level(self) -> u64 {
        self.level()
    }

    fn count(self) -> u64 {
        self.count()
    }
}

impl Node {
    /// Creates a node whose first `count` pairs are in the order of their keys.
    pub fn fresh(at: PersistentAddress, level: u64, count: u64) -> Self {
        let numbers = (0..MAX_KEYS).fold(0, |numbers, number| numbers | number << (4 * number));
        Self { at, order: NODE_MAGIC << MAGIC | level << LEVEL | count << COUNT | numbers }
    }

    pub fn count(self) -> u64 {
        self.order >> COUNT & 15
    }

    pub fn level(self) -> u64 {
        self.order >> LEVEL & 63
    }

    pub fn kind(self) -> NodeKind {
        NodeKind(self.order >> LEVEL)
    }

    /// Returns the number of the pair at `index`.
    pub fn number(self, index: u64) -> u64 {
        self.order >> (4 * index) & 15
    }

    /// Drops all pairs from `count` on.
    pub fn truncate(&mut self, count: u64) {
        self.order = self.order & !(15 << COUNT) | count << COUNT;
    }

    /// Puts the first free number at `index`, in a node that has one. Returns the number.
    pub fn insert(&mut self, index: u64) -> u64 {
        let (count, low) = (self.count(), self.order & first(index));
        let number = self.number(count);
        let high = self.order & first(count) ^ low;
        self.order = self.order & !first(count + 1) | high << 4 | number << (4 * index) | low;
        self.order += 1 << COUNT;
        number
    }

    /// Makes the number at `index` the first free one.
    pub fn remove(&mut self, index: u64) {
        let (count, low, number) = (self.count(), self.order & first(index), self.number(index));
        let high = self.order & first(count) ^ self.order & first(index + 1);
        self.order = self.order & !first(count) | number << (4 * (count - 1)) | high >> 4 | low;
        self.order -= 1 << COUNT;
    }

    /// Returns the word that holds the key of the pair with this number.
    pub fn key_at(self, number: u64) -> PersistentAddress {
        self.at.near(8 * (KEYS + number))
    }
}
