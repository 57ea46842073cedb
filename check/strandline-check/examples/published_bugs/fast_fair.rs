//! FAST_FAIR, a B+ tree of sorted pages. The bugs are constructors that leave stores unflushed.

use strandline_check::{Check, Pmem, check as program};

use crate::{recycle, store_words};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    RootPage,
    Tree,
}

const ROOT: u64 = 0;
/// The tree: its root page and its height.
const TREE: u64 = 64;
/// The page: the leftmost child and the sibling, and from the next line on records with a key and a pointer each. The first record without a pointer
/// ends the list.
const PAGE: u64 = 128;
const RECORDS: u64 = PAGE + 64;
const PAGE_BYTES: u64 = 192;
const CARDINALITY: u64 = 8;

const KEYS: [u64; 3] = [11, 22, 33];

fn construct(pmem: &Pmem, bug: Bug) {
    let mut page = [0; PAGE_BYTES as usize / 8];
    page[8..].iter_mut().step_by(2).for_each(|key| *key = u64::MAX);
    store_words(pmem, PAGE, &page);
    if bug != Bug::RootPage {
        pmem.persist(PAGE, PAGE_BYTES);
    }
    store_words(pmem, TREE, &[PAGE, 1]);
    if bug != Bug::Tree {
        pmem.persist(TREE, 16);
    }
    pmem.store(ROOT, TREE);
    pmem.persist(ROOT, 8);
}

/// Inserts a key after the last one, since keys ascend: first the key, then the pointer that makes it count.
fn insert(pmem: &Pmem, key: u64) {
    let page = pmem.load(pmem.load(ROOT));
    let mut record = page + (RECORDS - PAGE);
    while pmem.load(record + 8) != 0 {
        record += 16;
    }
    pmem.store(record, key);
    pmem.store(record + 8, 10 * key);
    pmem.persist(record, 16);
    pmem.acknowledge(key);
}

fn is_right(pmem: &Pmem, acknowledged: &[u64]) -> Result<(), String> {
    let tree = pmem.load(ROOT);
    let mut found = Vec::new();
    if tree != 0 {
        let (page, height) = (pmem.load(tree), pmem.load(tree + 8));
        assert_eq!(height, 1, "one page, one level");
        for record in 0..CARDINALITY {
            let record = page + (RECORDS - PAGE) + 16 * record;
            let (key, pointer) = (pmem.load(record), pmem.load(record + 8));
            if pointer == 0 {
                break;
            }
            if pointer != key.wrapping_mul(10) {
                return Err(format!("the record of {key:#x} points to {pointer:#x}"));
            }
            found.push(key);
        }
    }
    let is_beginning = KEYS.starts_with(&found) && found.len() >= acknowledged.len();
    if is_beginning { Ok(()) } else { Err(format!("{found:x?} are found, {acknowledged:x?} acknowledged")) }
}

pub fn check(bug: Bug) -> Check<'static> {
    program(move |pmem| {
        construct(pmem, bug);
        KEYS.into_iter().for_each(|key| insert(pmem, key));
    })
    .set_up(|pmem| recycle(pmem, TREE, 64 + PAGE_BYTES))
    .invariant(|pmem, crashed| is_right(pmem, &crashed.acknowledged))
    .label("root", ROOT)
    .label_range("tree", TREE, 16)
    .label_range("page", PAGE, PAGE_BYTES)
}
