//! P-ART, a radix tree of RECIPE that frees nodes by epochs. Recovery follows pointers that the constructors leave unflushed.

use strandline_check::{Check, Pmem, check as program};

use crate::{recycle, store_words};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    Epoche,
    Tree,
}

const ROOT: u64 = 0;
/// The tree: its root node, its deletion lists and the number of threads that have a list.
const TREE: u64 = 64;
/// The root node: its lock, and its children in the next line.
const NODE: u64 = 128;
/// Deletion lists, a line for each thread: the first node that waits to be freed, and the number of such nodes.
const LISTS: u64 = 256;
const THREADS: u64 = 2;
const LEAVES: u64 = 384;
const KEYS: u64 = 3;

fn construct(pmem: &Pmem, bug: Bug) {
    for list in (LISTS..).step_by(64).take(THREADS as usize) {
        store_words(pmem, list, &[0, 0]);
        if bug != Bug::Epoche {
            pmem.persist(list, 16);
        }
    }
    store_words(pmem, NODE, &[0; 16]);
    pmem.persist(NODE, 128);
    store_words(pmem, TREE, &[NODE, LISTS, THREADS]);
    if bug != Bug::Tree {
        pmem.persist(TREE, 24);
    }
    pmem.store(ROOT, TREE);
    pmem.persist(ROOT, 8);
}

fn insert(pmem: &Pmem, key: u64) {
    let (node, leaf) = (pmem.load(pmem.load(ROOT)), LEAVES + 64 * key);
    store_words(pmem, leaf, &[key, 10 * key + 1]);
    pmem.persist(leaf, 16);
    pmem.store(node, 1); // its lock
    pmem.store(node + 64 + 8 * key, leaf);
    pmem.persist(node + 64 + 8 * key, 8);
    pmem.store(node, 0);
    pmem.acknowledge(key);
}

/// Unlocks the nodes, and frees the nodes in the deletion lists.
fn recover(pmem: &Pmem) {
    let tree = pmem.load(ROOT);
    if tree == 0 {
        return;
    }
    pmem.store(pmem.load(tree), 0);
    let (lists, threads) = (pmem.load(tree + 8), pmem.load(tree + 16));
    for list in (lists..).step_by(64).take(threads as usize) {
        let mut node = pmem.load(list);
        while node != 0 {
            node = pmem.load(node);
        }
    }
}

fn is_right(pmem: &Pmem, acknowledged: &[u64]) -> Result<(), String> {
    let tree = pmem.load(ROOT);
    for key in 0..KEYS {
        let leaf = if tree == 0 { 0 } else { pmem.load(pmem.load(tree) + 64 + 8 * key) };
        if leaf == 0 && acknowledged.contains(&key) {
            return Err(format!("{key} is lost"));
        }
        if leaf != 0 && (pmem.load(leaf), pmem.load(leaf + 8)) != (key, 10 * key + 1) {
            return Err(format!("the leaf of {key} is not its own"));
        }
    }
    Ok(())
}

pub fn check(bug: Bug) -> Check<'static> {
    program(move |pmem| {
        construct(pmem, bug);
        (0..KEYS).for_each(|key| insert(pmem, key));
    })
    .set_up(|pmem| recycle(pmem, TREE, 512))
    .recovery(recover)
    .invariant(|pmem, crashed| is_right(pmem, &crashed.acknowledged))
    .label("root", ROOT)
    .label_range("tree", TREE, 24)
    .label_range("node", NODE, 128)
    .label_range("deletion lists", LISTS, 128)
    .label_range("leaves", LEAVES, 64 * KEYS)
}
