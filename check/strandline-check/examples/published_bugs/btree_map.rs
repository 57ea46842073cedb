//! `btree_map` of PMDK's examples, over transactions with an undo log. One bug changes a node without adding it to the log; another adds a node
//! twice.

use strandline_check::{Check, Pmem, check as program};

use crate::store_words;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    MissingAdd,
    RedundantAdd,
}

/// Nodes: how many keys, and the keys.
const PARENT: u64 = 0;
const LEFT: u64 = 64;
const RIGHT: u64 = 128;
/// The log: how many words it has, followed from the next line on by their addresses and old values.
const LOGGED: u64 = 192;
const LOG: u64 = 256;
const WORDS: u64 = 4;

const KEYS: [u64; 3] = [1, 2, 3];

/// Logs the old values of a node.
fn add(pmem: &Pmem, node: u64) {
    let logged = pmem.load(LOGGED);
    let entries = LOG + 16 * logged;
    for (word, entry) in (node..).step_by(8).zip((entries..).step_by(16)).take(WORDS as usize) {
        store_words(pmem, entry, &[word, pmem.load(word)]);
    }
    pmem.persist(entries, 16 * WORDS);
    pmem.store(LOGGED, logged + WORDS);
    pmem.persist(LOGGED, 8);
}

/// Makes the added words durable, then empties the log.
fn commit(pmem: &Pmem) {
    for entry in (0..pmem.load(LOGGED)).step_by(WORDS as usize) {
        pmem.flush(pmem.load(LOG + 16 * entry));
    }
    pmem.fence();
    pmem.store(LOGGED, 0);
    pmem.persist(LOGGED, 8);
}

fn recover(pmem: &Pmem) {
    for entry in (0..pmem.load(LOGGED)).rev() {
        let word = pmem.load(LOG + 16 * entry);
        pmem.store(word, pmem.load(LOG + 16 * entry + 8));
        pmem.flush(word);
    }
    pmem.fence();
    pmem.store(LOGGED, 0);
    pmem.persist(LOGGED, 8);
}

/// Moves the middle key of the left node up, and the last one to a node of its own.
fn split(pmem: &Pmem, bug: Bug) {
    for node in [PARENT, RIGHT] {
        add(pmem, node);
    }
    if bug != Bug::MissingAdd {
        add(pmem, LEFT);
    }
    store_words(pmem, PARENT, &[1, pmem.load(LEFT + 16)]);
    store_words(pmem, RIGHT, &[1, pmem.load(LEFT + 24)]);
    pmem.store(LEFT, 1);
    commit(pmem);
    pmem.acknowledge(1);
}

/// Moves a key from the right node up, and the key there down to the left node.
fn rotate_left(pmem: &Pmem, bug: Bug) {
    for node in [PARENT, RIGHT, LEFT] {
        add(pmem, node);
    }
    if bug == Bug::RedundantAdd {
        add(pmem, LEFT);
    }
    store_words(pmem, LEFT, &[2, pmem.load(LEFT + 8), pmem.load(PARENT + 8)]);
    pmem.store(PARENT + 8, pmem.load(RIGHT + 8));
    pmem.store(RIGHT, 0);
    commit(pmem);
    pmem.acknowledge(2);
}

fn is_right(pmem: &Pmem) -> Result<(), String> {
    let mut found = Vec::new();
    for node in [LEFT, PARENT, RIGHT] {
        found.extend((1..=pmem.load(node)).map(|key| pmem.load(node + 8 * key)));
    }
    if found == KEYS { Ok(()) } else { Err(format!("the keys are {found:?}")) }
}

pub fn check(bug: Bug) -> Check<'static> {
    program(move |pmem| {
        split(pmem, bug);
        rotate_left(pmem, bug);
    })
    .set_up(|pmem| store_words(pmem, LEFT, &[3, KEYS[0], KEYS[1], KEYS[2]]))
    .recovery(recover)
    .invariant(|pmem, _| is_right(pmem))
    .label_range("parent", PARENT, 32)
    .label_range("left", LEFT, 32)
    .label_range("right", RIGHT, 32)
    .label("logged", LOGGED)
    .label_range("log", LOG, 512)
}
