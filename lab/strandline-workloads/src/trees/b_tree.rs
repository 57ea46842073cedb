//! `btree`.

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, Read, Transaction};
use strandline_structures::BTree;

use super::{MAP, TreeWorkload, map_of_words};
use crate::WorkloadDescriptor;

/// Deletes or inserts random keys of a B-tree.
pub static BTREE: WorkloadDescriptor = WorkloadDescriptor {
    name: "btree",
    source: "ATOM, Table II; WrAP, 4.2",
    description: "deletes or inserts random keys of a B-tree with 11 keys in a node: sizes as bplustree",
    takes: MAP,
    make: |sizes| Ok(Box::new(TreeWorkload::<BTree<u64, u64>>::new(sizes, sizes.bplustree_keys))),
    by_types: None,
    checked: None,
};

/// The maximum of keys in a node; the 23 words of a leaf take three lines.
pub(super) const NODE_KEYS: u64 = 11;

map_of_words!(BTree, 16, 80, NODE_KEYS);
