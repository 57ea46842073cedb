//! `bplustree-sorted`, `bplustree-sorted-words`, `bplustree-sorted-11` and `btree-sorted`: trees whose nodes are sorted arrays, as in the papers'
//! programs. Keys take 8 bytes, values 4, or 8 in `bplustree-sorted-words`.

use strandline_core::memory::PersistentAddress;
use strandline_core::structures::value::Word;
use strandline_core::transaction::{Abort, Read, Transaction};
use strandline_structures::{SortedShape, SortedTree};

use super::b_tree::NODE_KEYS;
use super::{SETS, Tree, TreeWorkload};
use crate::WorkloadDescriptor;

/// Deletes or inserts random keys of a B+ tree with nodes that are sorted arrays of 200 pairs.
pub static BPLUSTREE_SORTED: WorkloadDescriptor = WorkloadDescriptor {
    name: "bplustree-sorted",
    source: "Loose-Ordering Consistency, 5.1",
    description: "deletes or inserts random keys of a B+ tree that shifts sorted arrays, 200 pairs of 8 + 4 bytes in 4 KB: \
                  sizes as bplustree",
    takes: SETS,
    make: |sizes| Ok(Box::new(TreeWorkload::<Sorted<LARGE>>::new(sizes, sizes.bplustree_keys))),
    by_types: None,
    checked: None,
};

/// Like [`BPLUSTREE_SORTED`], with values of 8 bytes.
pub static BPLUSTREE_SORTED_WORDS: WorkloadDescriptor = WorkloadDescriptor {
    name: "bplustree-sorted-words",
    source: "Blurred Persistence, V-A",
    description: "as bplustree-sorted, with pairs of 8 + 8 bytes",
    takes: SETS,
    make: |sizes| Ok(Box::new(TreeWorkload::<Sorted<LARGE_OF_WORDS, u64>>::new(sizes, sizes.bplustree_keys))),
    by_types: None,
    checked: None,
};

/// Like [`BPLUSTREE_SORTED`], with nodes as small as [`BTREE_SORTED`]'s.
pub static BPLUSTREE_SORTED_11: WorkloadDescriptor = WorkloadDescriptor {
    name: "bplustree-sorted-11",
    source: "WrAP, 4.2",
    description: "as bplustree-sorted, with 11 keys in a node",
    takes: SETS,
    make: |sizes| Ok(Box::new(TreeWorkload::<Sorted<IN_LEAVES>>::new(sizes, sizes.bplustree_keys))),
    by_types: None,
    checked: None,
};

/// Deletes or inserts random keys of a B-tree with nodes that are sorted arrays.
pub static BTREE_SORTED: WorkloadDescriptor = WorkloadDescriptor {
    name: "btree-sorted",
    source: "WrAP, 4.2",
    description: "deletes or inserts random keys of a B-tree that shifts sorted arrays, 11 keys in a node: sizes as bplustree",
    takes: SETS,
    make: |sizes| Ok(Box::new(TreeWorkload::<Sorted<IN_ALL_NODES>>::new(sizes, sizes.bplustree_keys))),
    by_types: None,
    checked: None,
};

/// The shapes of the workloads' nodes.
const SHAPES: [SortedShape; 4] = [
    SortedShape::LOOSE_ORDERING,
    SortedShape::b_plus(NODE_KEYS),
    SortedShape::b_tree(NODE_KEYS),
    SortedShape::BLURRED,
];
const LARGE: usize = 0;
const IN_LEAVES: usize = 1;
const IN_ALL_NODES: usize = 2;
const LARGE_OF_WORDS: usize = 3;

/// A tree with nodes of one of the [`SHAPES`].
#[derive(Clone, Copy)]
struct Sorted<const SHAPE: usize, V = u32>(SortedTree<u64, V>);

impl<const SHAPE: usize, V: Word + 'static> Tree for Sorted<SHAPE, V> {
    /// Values are derived from their keys.
    const HAS_VALUES: bool = false;
    // The split of a node of 200 pairs writes about 200 words, and an insertion up to 300.
    const BATCH: u64 = 4;
    // Leaves are at least half full, and inner nodes need at most ten bytes for each key.
    const KEY_BYTES: u64 = 64;

    fn create(tx: &mut impl Transaction, root: PersistentAddress) -> Result<Self, Abort> {
        SortedTree::create(tx, root, SHAPES[SHAPE]).map(Self)
    }
    fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        SortedTree::open(tx, root).map(Self)
    }
    fn contains(&self, tx: &mut impl Read, key: u64) -> Result<bool, Abort> {
        self.0.contains_key(tx, key)
    }
    fn insert(&self, tx: &mut impl Transaction, key: u64, value: u64) -> Result<Option<u64>, Abort> {
        Ok(self.0.insert(tx, key, V::from_word(value))?.map(V::to_word))
    }
    fn remove(&self, tx: &mut impl Transaction, key: u64) -> Result<Option<u64>, Abort> {
        Ok(self.0.remove(tx, key)?.map(V::to_word))
    }
    fn keys(&self, tx: &mut impl Read) -> Result<Vec<u64>, Abort> {
        let mut keys = Vec::new();
        self.0.for_each(tx, |key, _| {
            keys.push(key);
            Ok(())
        })?;
        Ok(keys)
    }
    fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.0.check(tx)
    }
}
