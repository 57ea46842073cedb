//! The shape of a sorted tree's nodes.

use strandline_core::memory::{LINE_BYTES, WORD_BYTES};

/// The flag of [`SortedShape::in_all_nodes`] in a header's parameter.
pub const IN_ALL_NODES: u64 = 1 << 8;
pub const MAX_KEYS: u64 = 255;
/// The word where the keys begin.
pub const KEYS: u64 = 1;

/// The shape of the nodes of a [`SortedTree`](super::SortedTree).
///
/// ```
/// use strandline_structures::SortedShape;
///
/// // 200 keys of 8 bytes and 200 values of 4 in 4 KB.
/// assert!(SortedShape::b_plus(200).bytes <= SortedShape::LOOSE_ORDERING.bytes);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedShape {
    /// The size of a node in bytes, a multiple of 8.
    pub bytes: u64,
    /// The number of keys that a node holds, from 3 to 255.
    pub keys: u64,
    /// True if inner nodes have pairs, like a B-tree's; a B+ tree's have only keys.
    pub in_all_nodes: bool,
    /// The size of a value in bytes: 4 or 8, as the tree's type requires.
    pub value_bytes: u64,
}

impl SortedShape {
    /// The size of a key in bytes.
    pub const KEY_BYTES: u64 = WORD_BYTES;
    /// The B+ tree of the Loose-Ordering paper (5.1): 200 pairs of 8 and 4 bytes in 4 KB.
    pub const LOOSE_ORDERING: Self = Self { bytes: 4096, ..Self::b_plus(200) };
    /// The B+ tree of Blurred Persistence (V-A): 200 pairs of 8 and 8 bytes in 4 KB.
    pub const BLURRED: Self = Self { bytes: 4096, value_bytes: 8, ..Self::b_plus(200) };

    /// A B+ tree with the smallest nodes for `keys` keys with values of 4 bytes, in whole lines.
    pub const fn b_plus(keys: u64) -> Self {
        Self::smallest(keys, false)
    }

    /// A B-tree with the smallest nodes for `keys` keys with values of 4 bytes, in whole lines.
    pub const fn b_tree(keys: u64) -> Self {
        Self::smallest(keys, true)
    }

    const fn smallest(keys: u64, in_all_nodes: bool) -> Self {
        let shape = Self { bytes: 0, keys, in_all_nodes, value_bytes: 4 };
        let bytes = 8 * shape.least_words();
        Self { bytes: bytes.next_multiple_of(LINE_BYTES), ..shape }
    }

    /// Returns how many words the larger kind of node has.
    const fn least_words(self) -> u64 {
        let (leaf, inner) = (self.words(0), self.words(1));
        if leaf > inner { leaf } else { inner }
    }

    const fn words(self, level: u64) -> u64 {
        KEYS + self.keys + self.value_words(level) + if level == 0 { 0 } else { self.keys + 1 }
    }

    /// Returns whether nodes of this level have pairs.
    pub(super) const fn has_pairs(self, level: u64) -> bool {
        level == 0 || self.in_all_nodes
    }

    pub(super) const fn value_words(self, level: u64) -> u64 {
        if self.has_pairs(level) { (self.keys * self.value_bytes).div_ceil(WORD_BYTES) } else { 0 }
    }

    pub(super) fn is_possible(self) -> bool {
        (3..=MAX_KEYS).contains(&self.keys)
            && self.bytes.is_multiple_of(8)
            && (8 * self.least_words()..=1 << 30).contains(&self.bytes)
    }

    pub(super) fn parameter(self) -> u64 {
        self.keys | if self.in_all_nodes { IN_ALL_NODES } else { 0 }
    }

    /// Returns how many keys every node except the root has, at least.
    pub(super) fn least(self) -> u64 {
        (self.keys - 1) / 2
    }
}
