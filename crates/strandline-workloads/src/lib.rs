//! Workloads of the persistent-memory papers, and the driver that measures schemes on them.
//!
//! A workload is one file: what it keeps in the pool and what one transaction does. It is generic over
//! whoever runs its transactions, so the same source runs under every scheme; choosing scheme and workload
//! by name happens once per run, in [`Selection`] and [`SchemeName`].

mod bplustree;
mod dictionary;
mod driver;
mod hash;
mod kvstore;
mod names;
mod pools;
mod rbtree;
mod row;
mod selection;
mod sps;

pub use bplustree::BPlusTreeWorkload;
pub use driver::{Run, measure};
pub use hash::HashWorkload;
pub use kvstore::KvStoreWorkload;
pub use names::{Entry, REFERENCES, SchemeName, UnknownName, WORKLOADS, WorkloadName, schemes};
pub use pools::{Place, PoolSetting, Prepared};
pub use rbtree::RbTreeWorkload;
pub use row::Row;
pub use selection::Selection;
pub use sps::SpsWorkload;

use strandline::Result;
use strandline::memory::PersistentAddress;
use strandline::transaction::{Read, Runner};

/// What a workload keeps in a pool, and who works on it.
pub trait Workload {
    /// One thread's part.
    type Thread: Transactions + Send;

    /// Bytes of heap that it takes at most, for choosing a pool's size.
    fn heap_bytes(&self) -> u64;

    /// Creates and fills the structure, in batches that fit any log.
    ///
    /// # Errors
    /// The pool is too small; as [`Runner::run`].
    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()>;

    /// Opens the structure for one thread that draws its random numbers from `seed`.
    ///
    /// # Errors
    /// [`Workload::prepare`] has not run on this pool.
    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread>;
}

/// The transactions of one thread, one after another without end.
pub trait Transactions {
    /// Runs the next transaction. Random numbers are drawn here, inside whatever time is taken.
    ///
    /// # Errors
    /// As [`Runner::run`].
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()>;
}

/// Nanoseconds that the emulated domain adds to each line written back, unless told otherwise (Blurred
/// Persistence, section V-A).
pub const DEFAULT_WRITE_LATENCY_NS: u64 = 150;

/// How large the workloads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Words in the array of `sps`.
    pub array_words: u64,
    /// Buckets of `hash` and `kvstore`.
    pub buckets: u64,
    /// `hash` and `kvstore` use the keys below this.
    pub hash_keys: u64,
    /// `rbtree` uses the keys below this.
    pub rbtree_keys: u64,
    /// `bplustree` uses the keys below this.
    pub bplustree_keys: u64,
    /// Bytes in a value of `hash` and `kvstore`.
    pub value_bytes: u64,
    /// Operations in a transaction.
    pub operations: u64,
}

impl Default for Sizes {
    /// The sizes of DESIGN §9: a million array words, keys below a million in 500,000 buckets and in the B+
    /// tree, below 200,000 in the red-black tree, values of 8 bytes, one operation in a transaction.
    fn default() -> Self {
        Self {
            array_words: 1_000_000,
            buckets: 500_000,
            hash_keys: 1_000_000,
            rbtree_keys: 200_000,
            bplustree_keys: 1_000_000,
            value_bytes: 8,
            operations: 1,
        }
    }
}

impl Sizes {
    /// Sizes for tests: everything is there, and filling it takes milliseconds.
    pub fn small() -> Self {
        Self {
            array_words: 1000,
            buckets: 500,
            hash_keys: 1000,
            rbtree_keys: 1000,
            bplustree_keys: 5000,
            ..Self::default()
        }
    }
}

/// The root word that a workload's structure hangs from: every workload has a pool of its own.
fn root<R: Runner>(runner: &mut R) -> Result<PersistentAddress> {
    runner.view(|tx| Ok(tx.root(0)))
}
