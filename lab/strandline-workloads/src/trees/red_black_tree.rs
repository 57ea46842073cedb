//! `rbtree`.

use strandline_core::Result;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, Read, Transaction};
use strandline_structures::RedBlackTree;

use super::{MAP, TreeWorkload, map_of_words};
use crate::dictionary::batch;
use crate::typed::{self, map_by_types};
use crate::{Sizes, WorkloadDescriptor};

/// Deletes or inserts random keys of a red-black tree.
pub static RBTREE: WorkloadDescriptor = WorkloadDescriptor {
    name: "rbtree",
    source: "Blurred Persistence, Table I",
    description: "deletes or inserts random keys of a red-black tree: keys below 200,000, half present",
    takes: MAP,
    make: |sizes| Ok(Box::new(TreeWorkload::<RedBlackTree<u64, u64>>::new(sizes, sizes.rbtree_keys))),
    by_types: Some(typed::create::<Typed>),
    checked: None,
};

// A node has four words.
map_of_words!(RedBlackTree, batch(8), 64);

map_by_types!(
    OrderedMap<u64, u64>,
    rbtree_keys,
    |tx, _| strandline::OrderedMap::new(tx),
    |key: u64| key,
    |key: u64| !key
);
