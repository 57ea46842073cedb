//! `bplustree`.

use strandline_core::Result;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{BPlusTree, NodeShape};
use strandline_core::transaction::{Abort, Read, Transaction};

use super::{MAP, TreeWorkload, map_of_words};
use crate::typed::{self, map_by_types};
use crate::{Sizes, WorkloadDescriptor};

/// Deletes or inserts random keys of a B+ tree.
pub static BPLUSTREE: WorkloadDescriptor = WorkloadDescriptor {
    name: "bplustree",
    source: "Blurred Persistence, Table I",
    description: "deletes or inserts random keys of a B+ tree with 4 KB nodes: keys below 1,000,000, half present",
    takes: MAP,
    make: |sizes| Ok(Box::new(TreeWorkload::<BPlusTree<u64, u64>>::new(sizes, sizes.bplustree_keys))),
    by_types: Some(typed::create::<Typed>),
    checked: None,
};

// An insertion sometimes splits a node, which takes about 300 words. Nodes may be only a quarter full.
map_of_words!(BPlusTree, 4, 64, NodeShape::PAPER);

map_by_types!(
    OrderedMap<u64, u64>,
    bplustree_keys,
    |tx, _| strandline::OrderedMap::new(tx),
    |key: u64| key,
    |key: u64| !key
);
