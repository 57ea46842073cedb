//! `rbtree`: deletes and inserts nodes of a red-black tree.

use strandline::Result;
use strandline::collections::RedBlackTree;
use strandline::transaction::{Abort, Runner, Transaction};

use crate::dictionary::{Dictionary, Toggler, batch, fill};
use crate::{Sizes, Workload, root};

/// The tree, of words to words.
pub struct RbTreeWorkload {
    keys: u64,
    operations: u64,
}

/// One thread's handle.
pub struct Tree(RedBlackTree<u64, u64>);

impl RbTreeWorkload {
    /// The workload with these sizes.
    pub fn new(sizes: &Sizes) -> Self {
        Self { keys: sizes.rbtree_keys, operations: sizes.operations }
    }
}

impl Workload for RbTreeWorkload {
    type Thread = Toggler<Tree>;

    fn heap_bytes(&self) -> u64 {
        // A node and what a half-empty chunk may waste.
        self.keys * 64 * 5 / 4
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let mut tree = Tree(runner.run(|tx| RedBlackTree::create(tx, root))?);
        fill(runner, &mut tree, self.keys, batch(8))
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread> {
        let root = root(runner)?;
        let tree = Tree(runner.view(|tx| RedBlackTree::open(tx, root))?);
        Ok(Toggler::new(tree, self.keys, self.operations, seed))
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        runner.view(|tx| RedBlackTree::<u64, u64>::open(tx, root)?.check(tx).map(drop))
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
