//! `bplustree`: deletes and inserts nodes of a B+ tree with nodes of 4 KB.

use strandline::Result;
use strandline::collections::{BPlusTree, NodeShape};
use strandline::transaction::{Abort, Runner, Transaction};

use crate::dictionary::{Dictionary, Toggler, fill};
use crate::{Sizes, Workload, root};

/// An insertion shifts half a node, and splits one now and then.
const BATCH: u64 = 4;

/// The tree, of words to words.
pub struct BPlusTreeWorkload {
    keys: u64,
    operations: u64,
}

/// One thread's handle.
pub struct Tree(BPlusTree<u64, u64>);

impl BPlusTreeWorkload {
    /// The workload with these sizes.
    pub fn new(sizes: &Sizes) -> Self {
        Self { keys: sizes.bplustree_keys, operations: sizes.operations }
    }
}

impl Workload for BPlusTreeWorkload {
    type Thread = Toggler<Tree>;

    fn heap_bytes(&self) -> u64 {
        // Nodes may be half empty, and splits leave room.
        self.keys * 16 * 4 + (1 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let mut tree = Tree(runner.run(|tx| BPlusTree::create(tx, root, NodeShape::PAPER))?);
        fill(runner, &mut tree, self.keys, BATCH)
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread> {
        let root = root(runner)?;
        let tree = Tree(runner.view(|tx| BPlusTree::open(tx, root))?);
        Ok(Toggler::new(tree, self.keys, self.operations, seed))
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        runner.view(|tx| BPlusTree::<u64, u64>::open(tx, root)?.check(tx).map(drop))
    }
}

impl Dictionary for Tree {
    #[inline]
    fn toggle<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<(), Abort> {
        if self.0.contains_key(tx, key)? {
            self.0.remove(tx, key)?;
        } else {
            self.0.insert(tx, key, !key)?;
        }
        Ok(())
    }
}
