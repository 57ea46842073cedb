//! `set`.

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, Read, Transaction};
use strandline_structures::Set;

use super::{SETS, TreeWorkload, set_of_words};
use crate::WorkloadDescriptor;

/// Deletes or inserts random keys of an ordered set.
pub static SET: WorkloadDescriptor = WorkloadDescriptor {
    name: "set",
    source: "WrAP, 4.2 (std::set)",
    description: "deletes or inserts random keys of an ordered set: sizes as rbtree",
    takes: SETS,
    make: |sizes| Ok(Box::new(TreeWorkload::<Set<u64>>::new(sizes, sizes.rbtree_keys))),
    by_types: None,
    checked: None,
};

set_of_words!(Set, Set::contains, Set::insert, |set: &Set<u64>, tx, keys: &mut Vec<u64>| {
    set.range(tx, .., |key| {
        keys.push(key);
        Ok(())
    })
});
