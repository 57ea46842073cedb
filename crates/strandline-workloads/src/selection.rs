//! A workload chosen by name, with its sizes.

use strandline_core::error::Error;
use strandline_core::file::Pool;
use strandline_core::structures::BPlusTree;
use strandline_core::transaction::{AnyRunner, Runner, Statistics};
use strandline_core::{Concurrency, Domain, Result};
use strandline_structures::{BTree, MultiSet, RedBlackTree, Set};

#[cfg(feature = "sqlite")]
use crate::SqliteWorkload;
use crate::{
    HashWorkload, KvStoreWorkload, QueueWorkload, Row, Run, SchemeName, SdgWorkload, Sizes, SpsWorkload,
    TatpUpdateLocationWorkload, TpccNewOrderWorkload, Transactions, TreeWorkload, Workload, WorkloadName,
    measure,
};

/// One of the workloads.
pub struct Selection {
    name: WorkloadName,
    workload: Any,
}

/// Something to be done with a workload that is known by its name alone, for [`Selection::visit`].
pub trait WorkloadVisitor {
    /// What visiting a workload gives.
    type Output;
    /// Does it with a workload.
    fn visit<W: Workload>(self, workload: &W) -> Self::Output;
}

macro_rules! workloads {
    ($($(#[$attribute:meta])* $name:ident($workload:ty),)*) => {
        enum Any {
            $($(#[$attribute])* $name($workload),)*
        }

        macro_rules! each {
            ($any:expr, $part:ident => $body:expr) => {
                match $any {
                    $($(#[$attribute])* Any::$name($part) => $body,)*
                }
            };
        }
    };
}

workloads! {
    Sps(SpsWorkload),
    Hash(HashWorkload<u64>),
    HashOfVectors(HashWorkload<Vec<u64>>),
    RbTree(TreeWorkload<RedBlackTree<u64, u64>>),
    BPlusTree(TreeWorkload<BPlusTree<u64, u64>>),
    BTree(TreeWorkload<BTree<u64, u64>>),
    Set(TreeWorkload<Set<u64>>),
    MultiSet(TreeWorkload<MultiSet<u64>>),
    KvStore(KvStoreWorkload),
    Queue(QueueWorkload),
    Sdg(SdgWorkload),
    TpccNewOrder(TpccNewOrderWorkload),
    TatpUpdateLocation(TatpUpdateLocationWorkload),
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteWorkload),
}

impl Selection {
    /// The workload `name` with these sizes.
    ///
    /// # Errors
    /// A size is impossible.
    pub fn new(name: WorkloadName, sizes: &Sizes) -> Result<Self> {
        let Sizes { rbtree_keys, bplustree_keys, value_bytes, .. } = *sizes;
        if sizes.counts().contains(&0) {
            return Err(Error::Parameter("a workload's sizes and operations must be at least 1".into()));
        }
        let has_whole_words = !matches!(name, WorkloadName::KvStore);
        if has_whole_words && (value_bytes == 0 || !value_bytes.is_multiple_of(8)) {
            return Err(Error::Parameter(format!(
                "{} keeps whole words: a value size of {value_bytes} bytes is no multiple of 8",
                name.name()
            )));
        }
        let workload = match name {
            WorkloadName::Sps => Any::Sps(SpsWorkload::new(sizes)),
            WorkloadName::Hash if value_bytes == 8 => Any::Hash(HashWorkload::of_words(sizes)),
            WorkloadName::Hash => Any::HashOfVectors(HashWorkload::of_vectors(sizes)),
            WorkloadName::RbTree => Any::RbTree(TreeWorkload::new(sizes, rbtree_keys)),
            WorkloadName::BPlusTree => Any::BPlusTree(TreeWorkload::new(sizes, bplustree_keys)),
            WorkloadName::BTree => Any::BTree(TreeWorkload::new(sizes, bplustree_keys)),
            WorkloadName::Set => Any::Set(TreeWorkload::new(sizes, rbtree_keys)),
            WorkloadName::MultiSet => Any::MultiSet(TreeWorkload::new(sizes, rbtree_keys)),
            WorkloadName::KvStore => Any::KvStore(KvStoreWorkload::new(sizes)),
            WorkloadName::Queue => Any::Queue(QueueWorkload::new(sizes)),
            WorkloadName::Sdg => Any::Sdg(SdgWorkload::new(sizes)),
            WorkloadName::TpccNewOrder => Any::TpccNewOrder(TpccNewOrderWorkload::new(sizes)?),
            #[cfg(feature = "sqlite")]
            WorkloadName::Sqlite => Any::Sqlite(SqliteWorkload::new(sizes)),
            WorkloadName::TatpUpdateLocation => {
                Any::TatpUpdateLocation(TatpUpdateLocationWorkload::new(sizes)?)
            }
        };
        Ok(Self { name, workload })
    }

    /// The workload's name on the command line.
    pub fn name(&self) -> WorkloadName {
        self.name
    }

    /// Calls `visitor` with the workload.
    pub fn visit<V: WorkloadVisitor>(&self, visitor: V) -> V::Output {
        each!(&self.workload, workload => visitor.visit(workload))
    }

    /// As [`Workload::heap_bytes`].
    pub fn heap_bytes(&self) -> u64 {
        each!(&self.workload, workload => workload.heap_bytes())
    }

    /// Refuses more threads than the workload can have.
    ///
    /// # Errors
    /// There are more.
    pub fn allow(&self, threads: u64) -> Result<()> {
        let most = each!(&self.workload, workload => workload.most_threads());
        if threads <= most {
            return Ok(());
        }
        Err(Error::Parameter(format!(
            "{} is a workload of {most} thread, not of {threads}: choose --threads {most}",
            self.name.name()
        )))
    }

    /// As [`Workload::prepare`].
    ///
    /// # Errors
    /// As there.
    pub fn prepare(&self, runner: &mut AnyRunner) -> Result<()> {
        each!(&self.workload, workload => workload.prepare(runner))
    }

    /// As [`Workload::check`].
    ///
    /// # Errors
    /// As there.
    pub fn check(&self, runner: &mut AnyRunner) -> Result<()> {
        each!(&self.workload, workload => workload.check(runner))
    }

    /// As [`measure`].
    ///
    /// # Errors
    /// As there.
    pub fn measure(
        &self,
        pool: &Pool<Concurrency>,
        domain: Domain,
        scheme: SchemeName,
        run: &Run,
    ) -> Result<Row> {
        self.allow(run.threads)?;
        each!(&self.workload, workload => measure(pool, domain, workload, self.name.name(), scheme, run))
    }

    /// Runs transactions as long as `go_on` says so, on a pool where [`Selection::prepare`] has run.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn run_while(
        &self,
        runner: &mut AnyRunner,
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
