//! Workloads of the persistent-memory papers, and the driver that measures schemes on them.
//!
//! A workload is one file, with its data in the pool, its transactions, and the [`WorkloadDescriptor`] by which [`ALL`] refers to it. It is generic
//! over the runner of its transactions, so that the same source runs under every scheme on every memory. It is compiled for two runners: for
//! [`AnyRunner`], and inlined with the product's path, which `bench` shows beside the schemes. Another program may use its own registry of workloads:
//! [`Workloads`] is a value.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `sqlite` | no | the workload `sqlite`; compiles SQLite, which needs a C compiler |
//! | `calibration` | no | the plain programs of all workloads, compiled to count their instructions |

mod any;
mod descriptor;
mod dictionary;
mod hash;
mod hot_counter;
mod keys;
mod kvstore;
mod names;
#[cfg(feature = "calibration")]
mod plain_program;
mod pools;
mod queue;
mod rows;
mod sdg;
mod selection;
mod sps;
#[cfg(feature = "sqlite")]
mod sqlite;
mod table;
mod tatp;
mod tpcc;
mod trees;
mod typed;

pub use any::{AnyTransactions, AnyWorkload, InlinedWorkload};
pub use descriptor::{Checked, Parameter, WorkloadDescriptor, WorkloadKind, Workloads};
pub use dictionary::Mix;
pub use hash::HASH;
pub use hot_counter::HOT_COUNTER;
pub use keys::Keys;
pub use kvstore::KVSTORE;
pub use names::{Entry, REFERENCES, SchemeName, System, UnknownName, schemes};
pub use pools::{Prepared, PreparedProduct};
pub use queue::QUEUE;
pub use sdg::SDG;
pub use selection::Selection;
pub use sps::SPS;
#[cfg(feature = "sqlite")]
pub use sqlite::{SQLITE, SQLITE_PAGES};
pub use strandline_bench::{Client, Latency, Length, NewPool, PoolSetting, Product, Row, Run, seed_of};
pub use tatp::{TATP_UPDATE_LOCATION, TATP_UPDATE_LOCATION_ARRAYS};
pub use tpcc::{Scale as TpccScale, TPCC_NEW_ORDER, TPCC_NEW_ORDER_ARRAYS};
pub use trees::{
    BPLUSTREE, BPLUSTREE_SORTED, BPLUSTREE_SORTED_11, BPLUSTREE_SORTED_WORDS, BTREE, BTREE_SORTED, MULTISET,
    RBTREE, SET,
};
pub use typed::CreateTyped;

use strandline_core::file::Pool;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{AnyRunner, Read, Runner};
use strandline_core::{Concurrency, Result};

use strandline_schemes::PlainWorker;

/// All workloads, in the order in which they are shown.
pub const ALL: Workloads = Workloads::new(LIST);

static LIST: &[WorkloadKind] = &[
    &SPS,
    &HASH,
    &RBTREE,
    &BPLUSTREE,
    &KVSTORE,
    &BTREE,
    &BPLUSTREE_SORTED,
    &BPLUSTREE_SORTED_WORDS,
    &BPLUSTREE_SORTED_11,
    &BTREE_SORTED,
    &SET,
    &MULTISET,
    &QUEUE,
    &SDG,
    &HOT_COUNTER,
    &TPCC_NEW_ORDER,
    &TPCC_NEW_ORDER_ARRAYS,
    &TATP_UPDATE_LOCATION,
    &TATP_UPDATE_LOCATION_ARRAYS,
    #[cfg(feature = "sqlite")]
    &SQLITE,
    #[cfg(feature = "sqlite")]
    &SQLITE_PAGES,
];

/// The workloads of Blurred Persistence (Table I), whose B+ tree shifts the pairs of a node.
pub const BLURRED: [WorkloadKind; 5] = [&SPS, &HASH, &RBTREE, &BPLUSTREE_SORTED_WORDS, &KVSTORE];

/// The workloads that demonstrate the library: like [`BLURRED`], with the library's own B+ tree.
pub const TOUR: [WorkloadKind; 5] = [&SPS, &HASH, &RBTREE, &BPLUSTREE, &KVSTORE];

/// Returns a type-erased runner of a pool's schemes. It is compiled here, once for all workloads. `index` is the thread's number, which `volatile`
/// needs.
///
/// # Errors
/// Returns the errors of [`Pool::worker_of`](strandline_core::file::Pool::worker_of), and one if the pool's domain does not permit unprotected
/// access.
pub fn runner(pool: &Pool<Concurrency>, scheme: SchemeName, index: u64) -> Result<AnyRunner<'static>> {
    match scheme.kind {
        None => PlainWorker::in_pool(pool, index).map(AnyRunner::new),
        Some(kind) => {
            let mut worker = pool.worker_of(kind)?;
            if scheme.retries_at_once {
                worker.retry_at_once();
            }
            Ok(AnyRunner::new(worker))
        }
    }
}

/// A workload's data in a pool, and the threads that work on it.
pub trait Workload {
    /// One thread's part of the workload.
    type Thread: Transactions + 'static;

    /// Returns an upper bound of the heap that it uses in bytes, for choosing a pool's size.
    fn heap_bytes(&self) -> u64;

    /// Returns how many threads can work on one pool at a time, at most.
    fn most_threads(&self) -> u64 {
        u64::MAX
    }

    /// Creates and fills the structure, in batches that fit any log.
    ///
    /// # Errors
    /// Returns an error if the pool is too small, and the errors of [`Runner::run`].
    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()>;

    /// Opens the structure for one thread that draws its random numbers from `seed`, which [`seed_of`] has made of the thread's number.
    ///
    /// # Errors
    /// Returns an error if [`Workload::prepare`] has not run on this pool.
    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread>;

    /// Checks the structure's invariants, and those of the workload's transactions, while no thread works.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](strandline_core::Error::Damaged) if one does not hold, and the errors of [`Runner::view`].
    fn check<R: Runner>(&self, runner: &mut R) -> Result<()>;
}

/// An endless sequence of one thread's transactions.
pub trait Transactions {
    /// Runs the next transaction. Drawing its random numbers counts towards the measured time.
    ///
    /// # Errors
    /// As for [`Runner::run`].
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()>;
}

/// The default number of nanoseconds that the emulated domain adds to each line written back (Blurred Persistence, section V-A).
pub const DEFAULT_WRITE_LATENCY_NS: u64 = 150;

/// How TATP's Update Location on arrays chooses subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draws {
    /// All subscribers equally often.
    #[default]
    Even,
    /// Some more often than others, as TATP specifies.
    Tatp,
}

/// The sizes of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of words that the array of `sps` has.
    pub array_words: u64,
    /// The number of buckets of `hash` and `kvstore`.
    pub buckets: u64,
    /// `hash` and `kvstore` use the keys below this.
    pub hash_keys: u64,
    /// `rbtree`, `set` and `multiset` use the keys below this.
    pub rbtree_keys: u64,
    /// `bplustree`, `btree` and those with sorted nodes use the keys below this.
    pub bplustree_keys: u64,
    /// The number of entries that `queue` has room for; it is half full initially.
    pub queue_entries: u64,
    /// Vertices of `sdg`.
    pub vertices: u64,
    /// Candidates for the edges of `sdg`.
    pub edges: u64,
    /// The number of subscribers of `tatp-update-location`; `sqlite` uses the keys below this.
    pub subscribers: u64,
    /// How `tatp-update-location-arrays` chooses subscribers.
    pub subscriber_draws: Draws,
    /// Bytes in a value of `hash`, `kvstore`, `rbtree`, `bplustree`, `btree` and `sdg`, and in an entry of `sps`
    /// and `queue`.
    pub value_bytes: u64,
    /// The number of operations that a transaction has, except in TPC-C and TATP.
    pub operations: u64,
    /// The mix of operations on a structure with keys.
    pub mix: Mix,
    /// How threads choose the keys. Typed collections do not take this.
    pub keys: Keys,
    /// The number of transactions in 100 that only look up what the others change, under [`Mix::Toggle`] and in `sps`.
    pub read_percent: u64,
    /// The database of `tpcc-new-order`.
    pub tpcc: TpccScale,
}

impl Default for Sizes {
    /// Returns the sizes of Blurred Persistence: a million array words, keys below a million in 500,000 buckets and in the B+ tree, below 200,000 in
    /// the red-black tree, values of 8 bytes, one operation in a transaction. For other workloads: 65,536 queue entries, 131,072 vertices with
    /// 500,000 candidate edges, 100,000 subscribers, one warehouse.
    fn default() -> Self {
        Self {
            array_words: 1_000_000,
            buckets: 500_000,
            hash_keys: 1_000_000,
            rbtree_keys: 200_000,
            bplustree_keys: 1_000_000,
            queue_entries: 1 << 16,
            vertices: 1 << 17,
            edges: 500_000,
            subscribers: 100_000,
            subscriber_draws: Draws::default(),
            value_bytes: 8,
            operations: 1,
            mix: Mix::Toggle,
            keys: Keys::Even,
            read_percent: 0,
            tpcc: TpccScale::default(),
        }
    }
}

impl Sizes {
    /// Returns sizes for tests: no structure is empty, and filling takes milliseconds.
    pub fn small() -> Self {
        Self {
            array_words: 1000,
            buckets: 500,
            hash_keys: 1000,
            rbtree_keys: 1000,
            bplustree_keys: 5000,
            queue_entries: 64,
            vertices: 200,
            edges: 1000,
            subscribers: 300,
            tpcc: TpccScale::small(),
            ..Self::default()
        }
    }

    /// Returns the sizes of ATOM's micro-benchmarks: entries of 512 bytes (small) or 4096 bytes (large). The paper does not give their number. There
    /// are 2048 entries here, half of which are present if they come and go. The data of 1 MB or 8 MB then exceed the first cache level and fit the
    /// second, as the paper's small shares of source-logged lines require (Table III).
    pub fn atom(entry_bytes: u64) -> Self {
        Self {
            array_words: 2048 * entry_bytes / 8,
            buckets: 1024,
            hash_keys: 2048,
            rbtree_keys: 2048,
            bplustree_keys: 2048,
            queue_entries: 2048,
            vertices: 512,
            edges: 2048,
            value_bytes: entry_bytes,
            ..Self::default()
        }
    }

    /// Returns the sizes of WrAP's benchmark (section 4.2): 100 elements, and `operations` of an insertion, a search and a deletion in a transaction,
    /// 1 to 10 in the paper.
    pub fn wrap(operations: u64) -> Self {
        Self { operations, mix: Mix::InsertFindDelete { elements: 100 }, ..Self::default() }
    }

    /// Returns the sizes of one of `parts` structures that together have these sizes; the database is not divided.
    pub fn share(&self, parts: u64) -> Self {
        let part = |size: u64| size.div_ceil(parts);
        Self {
            array_words: part(self.array_words).next_multiple_of(self.value_bytes.div_ceil(8).max(1)),
            buckets: part(self.buckets),
            hash_keys: part(self.hash_keys),
            rbtree_keys: part(self.rbtree_keys),
            bplustree_keys: part(self.bplustree_keys),
            queue_entries: part(self.queue_entries),
            vertices: part(self.vertices),
            edges: part(self.edges),
            subscribers: part(self.subscribers),
            ..*self
        }
    }

    /// Returns the sizes that must not be 0.
    fn counts(&self) -> [u64; 10] {
        [
            self.array_words,
            self.buckets,
            self.hash_keys,
            self.rbtree_keys,
            self.bplustree_keys,
            self.queue_entries,
            self.vertices,
            self.edges,
            self.subscribers,
            self.operations,
        ]
    }
}

/// Returns the root word of a workload's structure; every workload has a pool of its own.
fn root<R: Runner>(runner: &mut R) -> Result<PersistentAddress> {
    runner.view(|tx| Ok(tx.root(0)))
}
