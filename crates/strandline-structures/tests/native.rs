//! Trees on native memory as applications have them: ways down that ask nothing of the transaction, and that are longer than most.

use std::collections::BTreeMap;

use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::example::path_and_options;
use strandline_core::layout::Geometry;
use strandline_core::memory::Native;
use strandline_core::transaction::Transaction;
use strandline_core::{Abort, Options, Pool, Read, Runner};
use strandline_structures::{BTree, RedBlackTree};

fn pool<C: Control<Native>>(setup: Setup<C>) -> Pool<C> {
    let (path, options) = path_and_options();
    let geometry = Geometry { size: 32 << 20, logs: 2, log_bytes: 1 << 17, chunk_bytes: 1 << 14 };
    setup.create(&path, &Options { geometry, ..options }).unwrap()
}

#[derive(Clone, Copy)]
enum Tree {
    RedBlack(RedBlackTree<u64, u64>),
    B(BTree<u64, u64>),
}

impl Tree {
    fn insert(self, tx: &mut impl Transaction, key: u64, value: u64) -> Result<Option<u64>, Abort> {
        match self {
            Self::RedBlack(tree) => tree.insert(tx, key, value),
            Self::B(tree) => tree.insert(tx, key, value),
        }
    }
    fn remove(self, tx: &mut impl Transaction, key: u64) -> Result<Option<u64>, Abort> {
        match self {
            Self::RedBlack(tree) => tree.remove(tx, key),
            Self::B(tree) => tree.remove(tx, key),
        }
    }
    fn check(self, tx: &mut impl Transaction) -> Result<u64, Abort> {
        match self {
            Self::RedBlack(tree) => tree.check(tx),
            Self::B(tree) => tree.check(tx),
        }
    }
}

/// Random operations, of which the first of each transaction comes before all writes and the rest may not, against a map.
fn agrees_with_a_map(pool: &Pool<impl Control<Native>>) {
    let mut worker = pool.worker().unwrap();
    let (red_black, b) = worker
        .run(|tx| Ok((RedBlackTree::create(tx, tx.root(0))?, BTree::create(tx, tx.root(1), 5)?)))
        .unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    for tree in [Tree::RedBlack(red_black), Tree::B(b)] {
        let mut map = BTreeMap::new();
        for _ in 0..4000 {
            let operations: Vec<(u64, Option<u64>)> = (0..random.usize(1..4))
                .map(|_| (random.u64(..500), random.bool().then(|| random.u64(..))))
                .collect();
            let found = worker
                .run(|tx| {
                    operations
                        .iter()
                        .map(|&(key, value)| match value {
                            Some(value) => tree.insert(tx, key, value),
                            None => tree.remove(tx, key),
                        })
                        .collect::<Result<Vec<_>, _>>()
                })
                .unwrap();
            let expected: Vec<_> = operations
                .into_iter()
                .map(|(key, value)| match value {
                    Some(value) => map.insert(key, value),
                    None => map.remove(&key),
                })
                .collect();
            assert_eq!(found, expected);
        }
        assert_eq!(worker.run(|tx| tree.check(tx)).unwrap(), map.len() as u64);
    }
}

#[test]
fn trees_agree_with_a_map_whoever_else_may_write() {
    agrees_with_a_map(&pool(Setup::from(SingleWriter)));
    agrees_with_a_map(&pool(Setup::from(Stm)));
}

#[test]
fn a_red_black_tree_may_be_deeper_than_most() {
    // Keys that rise make its right side twice as deep as its left one.
    const KEYS: u64 = 150_000;
    let pool = pool(Setup::from(SingleWriter));
    let mut worker = pool.worker().unwrap();
    let tree = worker.run(|tx| RedBlackTree::create(tx, tx.root(0))).unwrap();
    for key in 0..KEYS {
        assert_eq!(worker.run(|tx| tree.insert(tx, key, key)).unwrap(), None);
    }
    assert_eq!(worker.run(|tx| tree.check(tx)).unwrap(), KEYS);
    for key in (0..KEYS).rev().step_by(3) {
        assert_eq!(worker.run(|tx| tree.remove(tx, key)).unwrap(), Some(key));
    }
    assert_eq!(worker.run(|tx| tree.check(tx)).unwrap(), KEYS - KEYS.div_ceil(3));
}
