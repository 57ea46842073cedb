//! `multiset`.

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, Read, Transaction};
use strandline_structures::MultiSet;

use super::{SETS, TreeWorkload, set_of_words};
use crate::WorkloadDescriptor;

/// Deletes or inserts random keys of an ordered multiset.
pub static MULTISET: WorkloadDescriptor = WorkloadDescriptor {
    name: "multiset",
    source: "WrAP, 4.2 (std::multiset)",
    description: "deletes or inserts random keys of an ordered multiset: sizes as rbtree",
    takes: SETS,
    make: |sizes| Ok(Box::new(TreeWorkload::<MultiSet<u64>>::new(sizes, sizes.rbtree_keys))),
    by_types: None,
    checked: None,
};

// Equal keys are separate elements, so every insertion adds one.
set_of_words!(
    MultiSet,
    |set: &MultiSet<u64>, tx, key| Ok(set.times(tx, key)? > 0),
    |set: &MultiSet<u64>, tx, key| set.insert(tx, key).map(|_| true),
    |set: &MultiSet<u64>, tx, keys: &mut Vec<u64>| {
        set.range(tx, .., |key, times| {
            keys.extend((0..times).map(|_| key));
            Ok(())
        })
    }
);
