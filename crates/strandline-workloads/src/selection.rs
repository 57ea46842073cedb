//! A workload chosen by name, with its sizes.

use strandline::error::Error;
use strandline::pool::Pool;
use strandline::transaction::{Runner, Statistics};
use strandline::{Domain, Result};

use crate::{
    BPlusTreeWorkload, HashWorkload, KvStoreWorkload, RbTreeWorkload, Row, Run, SchemeName, Sizes,
    SpsWorkload, Transactions, Workload, WorkloadName, measure,
};

/// One of the workloads.
pub struct Selection {
    name: WorkloadName,
    workload: Any,
}

enum Any {
    Sps(SpsWorkload),
    Hash(HashWorkload<u64>),
    HashOfVectors(HashWorkload<Vec<u64>>),
    RbTree(RbTreeWorkload),
    BPlusTree(BPlusTreeWorkload),
    KvStore(KvStoreWorkload),
}

macro_rules! each {
    ($any:expr, $workload:ident => $body:expr) => {
        match $any {
            Any::Sps($workload) => $body,
            Any::Hash($workload) => $body,
            Any::HashOfVectors($workload) => $body,
            Any::RbTree($workload) => $body,
            Any::BPlusTree($workload) => $body,
            Any::KvStore($workload) => $body,
        }
    };
}

impl Selection {
    /// The workload `name` with these sizes.
    ///
    /// # Errors
    /// A size is impossible.
    pub fn new(name: WorkloadName, sizes: &Sizes) -> Result<Self> {
        let Sizes { array_words, buckets, hash_keys, rbtree_keys, bplustree_keys, value_bytes, operations } =
            *sizes;
        if [array_words, buckets, hash_keys, rbtree_keys, bplustree_keys, operations].contains(&0) {
            return Err(Error::Parameter("a workload's sizes and operations must be at least 1".into()));
        }
        let workload = match name {
            WorkloadName::Sps => Any::Sps(SpsWorkload::new(sizes)),
            WorkloadName::Hash if value_bytes == 8 => Any::Hash(HashWorkload::of_words(sizes)),
            WorkloadName::Hash if value_bytes == 0 || !value_bytes.is_multiple_of(8) => {
                return Err(Error::Parameter(format!(
                    "hash keeps whole words: a value size of {value_bytes} bytes is no multiple of 8"
                )));
            }
            WorkloadName::Hash => Any::HashOfVectors(HashWorkload::of_vectors(sizes)),
            WorkloadName::RbTree => Any::RbTree(RbTreeWorkload::new(sizes)),
            WorkloadName::BPlusTree => Any::BPlusTree(BPlusTreeWorkload::new(sizes)),
            WorkloadName::KvStore => Any::KvStore(KvStoreWorkload::new(sizes)),
        };
        Ok(Self { name, workload })
    }

    /// Its name.
    pub fn name(&self) -> WorkloadName {
        self.name
    }

    /// As [`Workload::heap_bytes`].
    pub fn heap_bytes(&self) -> u64 {
        each!(&self.workload, workload => workload.heap_bytes())
    }

    /// As [`Workload::prepare`].
    ///
    /// # Errors
    /// As there.
    pub fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        each!(&self.workload, workload => workload.prepare(runner))
    }

    /// As [`measure`].
    ///
    /// # Errors
    /// As there.
    pub fn measure(&self, pool: &Pool, domain: Domain, scheme: SchemeName, run: &Run) -> Result<Row> {
        each!(&self.workload, workload => measure(pool, domain, workload, self.name.name(), scheme, run))
    }

    /// Runs transactions as long as `go_on` says so, on a pool where [`Selection::prepare`] has run.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn run_while<R: Runner>(
        &self,
        runner: &mut R,
        seed: u64,
        mut go_on: impl FnMut(&Statistics) -> bool,
    ) -> Result<()> {
        each!(&self.workload, workload => {
            let mut thread = workload.thread(runner, seed)?;
            while go_on(&runner.statistics()) {
                thread.transaction(runner)?;
            }
            Ok(())
        })
    }
}
