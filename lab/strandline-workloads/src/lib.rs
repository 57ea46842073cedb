//! Workloads of the persistent-memory papers, and the driver that measures schemes on them.
//!
//! A workload is one file: what it keeps in the pool, what one transaction does, and the [`WorkloadDescriptor`] by which
//! [`ALL`] and everything else knows it. It is generic over whoever runs its transactions, so that the same source runs under every
//! scheme on every memory; it is compiled for two of them: for [`AnyRunner`], and inlined with the product's path, which
//! `bench` shows beside the schemes. A program of your own may have another list: [`Workloads`] is a value.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `sqlite` | no | the workload `sqlite`, which compiles SQLite: needs a C compiler |
//! | `calibration` | no | the plain programs of all workloads, compiled to count their instructions |

mod any;
mod descriptor;
mod dictionary;
mod hash;
mod kvstore;
#[cfg(feature = "calibration")]
mod lean;
mod names;
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
pub use kvstore::KVSTORE;
pub use names::{Entry, REFERENCES, SchemeName, System, UnknownName, schemes};
pub use pools::{Prepared, PreparedProduct};
pub use queue::QUEUE;
pub use sdg::SDG;
pub use selection::Selection;
pub use sps::SPS;
#[cfg(feature = "sqlite")]
pub use sqlite::{SQLITE, SQLITE_PAGES};
pub use strandline_bench::{Client, Latency, Length, NewPool, PoolSetting, Product, Row, Run};
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
    &TPCC_NEW_ORDER,
    &TPCC_NEW_ORDER_ARRAYS,
    &TATP_UPDATE_LOCATION,
    &TATP_UPDATE_LOCATION_ARRAYS,
    #[cfg(feature = "sqlite")]
    &SQLITE,
    #[cfg(feature = "sqlite")]
    &SQLITE_PAGES,
];

/// Those of Blurred Persistence (Table I), whose B+ tree shifts the pairs of a node.
pub const BLURRED: [WorkloadKind; 5] = [&SPS, &HASH, &RBTREE, &BPLUSTREE_SORTED_WORDS, &KVSTORE];

/// What shows the library: the same with its own B+ tree.
pub const TOUR: [WorkloadKind; 5] = [&SPS, &HASH, &RBTREE, &BPLUSTREE, &KVSTORE];

/// A runner of a pool's schemes, whose type is forgotten: compiled here, once for all who run a workload. `index` is the
/// thread's number, which `volatile` needs.
///
/// # Errors
/// As [`Pool::worker_of`](strandline_core::file::Pool::worker_of); the pool's domain has no unprotected access.
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

/// What a workload keeps in a pool, and who works on it.
pub trait Workload {
    /// One thread's part.
    type Thread: Transactions + 'static;

    /// Bytes of heap that it takes at most, for choosing a pool's size.
    fn heap_bytes(&self) -> u64;

    /// Threads that can work on one pool at a time.
    fn most_threads(&self) -> u64 {
        u64::MAX
    }

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

    /// Checks the structure's invariants, and those that the workload's transactions keep, while nobody works.
    ///
    /// # Errors
    /// [`Error::Damaged`](strandline_core::Error::Damaged): one does not hold; as [`Runner::view`].
    fn check<R: Runner>(&self, runner: &mut R) -> Result<()>;
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

/// How often the subscribers of TATP's Update Location on arrays are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draws {
    /// Each as often as any other.
    #[default]
    Even,
    /// Some more often than others, as TATP has it.
    Tatp,
}

/// How large the workloads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Words in the array of `sps`.
    pub array_words: u64,
    /// Buckets of `hash` and `kvstore`.
    pub buckets: u64,
    /// `hash` and `kvstore` use the keys below this.
    pub hash_keys: u64,
    /// `rbtree`, `set` and `multiset` use the keys below this.
    pub rbtree_keys: u64,
    /// `bplustree`, `btree` and those with sorted nodes use the keys below this.
    pub bplustree_keys: u64,
    /// Entries that `queue` has room for; half of them are there at first.
    pub queue_entries: u64,
    /// Vertices of `sdg`.
    pub vertices: u64,
    /// Candidates for the edges of `sdg`.
    pub edges: u64,
    /// Subscribers of `tatp-update-location`; `sqlite` uses the keys below this.
    pub subscribers: u64,
    /// How `tatp-update-location-arrays` draws subscribers.
    pub subscriber_draws: Draws,
    /// Bytes in a value of `hash`, `kvstore`, `rbtree`, `bplustree`, `btree` and `sdg`, and in an entry of `sps`
    /// and `queue`.
    pub value_bytes: u64,
    /// Operations in a transaction, but for TPC-C and TATP.
    pub operations: u64,
    /// What an operation does on a structure with keys.
    pub mix: Mix,
    /// Of 100 transactions, so many only look up what they would else change, under [`Mix::Toggle`] and in `sps`.
    pub read_percent: u64,
    /// The database of `tpcc-new-order`.
    pub tpcc: TpccScale,
}

impl Default for Sizes {
    /// Those of Blurred Persistence: a million array words, keys below a million in 500,000 buckets and in the B+
    /// tree, below 200,000 in the red-black tree, values of 8 bytes, one operation in a transaction. Beyond
    /// it: 65,536 queue entries, 131,072 vertices with 500,000 candidate edges, 100,000 subscribers, one
    /// warehouse.
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
            read_percent: 0,
            tpcc: TpccScale::default(),
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
            queue_entries: 64,
            vertices: 200,
            edges: 1000,
            subscribers: 300,
            tpcc: TpccScale::small(),
            ..Self::default()
        }
    }

    /// The sizes of ATOM's micro-benchmarks: entries of 512 bytes (small) or 4096 bytes (large). How many
    /// there are the paper does not say; here 2048 entries, half of them present where they come and go, so
    /// that the data of 1 MB or 8 MB exceed the first level of cache and fit the second, as its small shares
    /// of source-logged lines ask for (Table III).
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

    /// The sizes of WrAP's benchmark (section 4.2): 100 elements, and `operations` of an insertion, a search
    /// and a deletion in a transaction, 1 to 10 in the paper.
    pub fn wrap(operations: u64) -> Self {
        Self { operations, mix: Mix::InsertFindDelete { elements: 100 }, ..Self::default() }
    }

    /// Those of one of `parts` structures that are together as large as one of these; the database is not divided.
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

    /// The sizes that must not be 0.
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

/// The root word that a workload's structure hangs from: every workload has a pool of its own.
fn root<R: Runner>(runner: &mut R) -> Result<PersistentAddress> {
    runner.view(|tx| Ok(tx.root(0)))
}
