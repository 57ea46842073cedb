//! `rbtree`, `bplustree`, `btree`, their variants with sorted nodes, `set` and `multiset`: random keys of an ordered structure.
//!
//! A value of 8 bytes is stored in its node. A larger one, such as ATOM's entries of 512 bytes and 4 KB, is an allocation of its own, whose address
//! the node holds. Sorted nodes have values of 4 bytes, sets none.

mod b_plus_tree;
mod b_tree;
mod multiset;
mod red_black_tree;
mod set;
mod sorted;

pub use b_plus_tree::BPLUSTREE;
pub use b_tree::BTREE;
pub use multiset::MULTISET;
pub use red_black_tree::RBTREE;
pub use set::SET;
pub use sorted::{BPLUSTREE_SORTED, BPLUSTREE_SORTED_11, BPLUSTREE_SORTED_WORDS, BTREE_SORTED};

use std::marker::PhantomData;

use strandline_core::Result;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};

use crate::dictionary::{Dictionary, Operator, Use, batch};
use crate::{Parameter, Sizes, Workload, root};

/// The command's options that they use; sets have no values, and trees of sorted arrays only small ones.
const MAP: &[Parameter] =
    &[Parameter::ValueWords, Parameter::Operations, Parameter::ReadShare, Parameter::Keys];
const SETS: &[Parameter] = &[Parameter::Operations, Parameter::ReadShare];

/// An ordered structure of words.
pub trait Tree: Copy + 'static {
    /// True if keys have values of the size that the command specifies.
    const HAS_VALUES: bool = true;
    /// The number of insertions that the fill makes in one transaction, at most.
    const BATCH: u64;
    /// An upper bound of the heap for each key in bytes, without the values' own allocations.
    const KEY_BYTES: u64;
    /// Creates an empty structure at `root`.
    fn create(tx: &mut impl Transaction, root: PersistentAddress) -> Result<Self, Abort>;
    /// Opens the structure at `root`.
    fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort>;
    /// Returns whether `key` is there.
    fn contains(&self, tx: &mut impl Read, key: u64) -> Result<bool, Abort>;
    /// Inserts `key` with a value. Returns its old value, if it was there.
    fn insert(&self, tx: &mut impl Transaction, key: u64, value: u64) -> Result<Option<u64>, Abort>;
    /// Removes `key`. Returns its value, if it was there.
    fn remove(&self, tx: &mut impl Transaction, key: u64) -> Result<Option<u64>, Abort>;
    /// Returns all keys in order.
    fn keys(&self, tx: &mut impl Read) -> Result<Vec<u64>, Abort>;
    /// Checks its invariants. Returns the number of keys.
    fn check(&self, tx: &mut impl Read) -> Result<u64, Abort>;
}

macro_rules! map_of_words {
    ($type:ident, $batch:expr, $key_bytes:expr $(, $shape:expr)?) => {
        impl crate::trees::Tree for $type<u64, u64> {
            const BATCH: u64 = $batch;
            const KEY_BYTES: u64 = $key_bytes;
            fn create(tx: &mut impl Transaction, root: PersistentAddress) -> Result<Self, Abort> {
                $type::create(tx, root $(, $shape)?)
            }
            fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
                $type::open(tx, root)
            }
            fn contains(&self, tx: &mut impl Read, key: u64) -> Result<bool, Abort> {
                self.contains_key(tx, key)
            }
            fn insert(&self, tx: &mut impl Transaction, key: u64, value: u64) -> Result<Option<u64>, Abort> {
                self.insert(tx, key, value)
            }
            fn remove(&self, tx: &mut impl Transaction, key: u64) -> Result<Option<u64>, Abort> {
                self.remove(tx, key)
            }
            fn keys(&self, tx: &mut impl Read) -> Result<Vec<u64>, Abort> {
                let mut keys = Vec::new();
                self.for_each(tx, |key, _| {
                    keys.push(key);
                    Ok(())
                })?;
                Ok(keys)
            }
            fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
                self.check(tx)
            }
        }
    };
}

use map_of_words;

macro_rules! set_of_words {
    ($type:ident, $contains:expr, $insert:expr, $keys:expr) => {
        impl crate::trees::Tree for $type<u64> {
            const HAS_VALUES: bool = false;
            const BATCH: u64 = crate::dictionary::batch(8);
            const KEY_BYTES: u64 = 64;
            fn create(tx: &mut impl Transaction, root: PersistentAddress) -> Result<Self, Abort> {
                $type::create(tx, root)
            }
            fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
                $type::open(tx, root)
            }
            fn contains(&self, tx: &mut impl Read, key: u64) -> Result<bool, Abort> {
                $contains(self, tx, key)
            }
            fn insert(&self, tx: &mut impl Transaction, key: u64, _: u64) -> Result<Option<u64>, Abort> {
                let is_new = $insert(self, tx, key)?;
                Ok(if is_new { None } else { Some(0) })
            }
            fn remove(&self, tx: &mut impl Transaction, key: u64) -> Result<Option<u64>, Abort> {
                Ok(self.remove(tx, key)?.then_some(0))
            }
            fn keys(&self, tx: &mut impl Read) -> Result<Vec<u64>, Abort> {
                let mut keys = Vec::new();
                $keys(self, tx, &mut keys)?;
                Ok(keys)
            }
            fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
                self.check(tx)
            }
        }
    };
}

use set_of_words;

/// A workload on one of these structures.
pub struct TreeWorkload<T> {
    usage: Use,
    value_bytes: u64,
    tree: PhantomData<fn() -> T>,
}

/// One thread's transactions on the structure.
pub struct Keyed<T> {
    tree: T,
    /// The words of a value that does not fit its node; empty if values fit.
    value: Vec<u64>,
}

impl<T: Tree> TreeWorkload<T> {
    /// Creates the workload with these sizes, on the keys below `keys`.
    pub fn new(sizes: &Sizes, keys: u64) -> Self {
        Self { usage: Use::of(sizes, keys), value_bytes: sizes.value_bytes, tree: PhantomData }
    }

    fn own_words(&self) -> u64 {
        if T::HAS_VALUES && self.value_bytes > 8 { self.value_bytes / 8 } else { 0 }
    }

    fn keyed(&self, tree: T) -> Keyed<T> {
        Keyed { tree, value: vec![0x5742_4e44; self.own_words() as usize] }
    }
}

impl<T: Tree> Workload for TreeWorkload<T> {
    type Thread = Operator<Keyed<T>>;

    fn heap_bytes(&self) -> u64 {
        // Includes what half-empty chunks and size classes may waste.
        self.usage.most() * (T::KEY_BYTES + 8 * self.own_words() * 3 / 2) * 5 / 4 + (1 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let mut keyed = self.keyed(runner.run(|tx| T::create(tx, root))?);
        self.usage.fill(runner, &mut keyed, T::BATCH.min(batch(8 * self.own_words())))
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread> {
        let root = root(runner)?;
        let keyed = self.keyed(runner.view(|tx| T::open(tx, root))?);
        Operator::new(runner, keyed, self.usage, seed)
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let found = runner.view(|tx| T::open(tx, root)?.check(tx))?;
        self.usage.check(found)
    }
}

impl<T: Tree> Dictionary for Keyed<T> {
    fn contains<X: Transaction>(&mut self, tx: &mut X, key: u64) -> Result<bool, Abort> {
        self.tree.contains(tx, key)
    }

    fn insert<X: Transaction>(&mut self, tx: &mut X, key: u64) -> Result<bool, Abort> {
        if self.value.is_empty() {
            return Ok(self.tree.insert(tx, key, !key)?.is_none());
        }
        let value = tx.alloc(8 * self.value.len() as u64)?;
        self.value[0] = key;
        tx.write_range(value, &self.value)?;
        match self.tree.insert(tx, key, value.offset())? {
            Some(old) => tx.free(PersistentAddress::new(old)).map(|()| false),
            None => Ok(true),
        }
    }

    fn remove<X: Transaction>(&mut self, tx: &mut X, key: u64) -> Result<bool, Abort> {
        match self.tree.remove(tx, key)? {
            Some(value) if !self.value.is_empty() => tx.free(PersistentAddress::new(value)).map(|()| true),
            value => Ok(value.is_some()),
        }
    }

    fn keys<X: Read>(&self, tx: &mut X) -> Result<Vec<u64>, Abort> {
        self.tree.keys(tx)
    }
}
