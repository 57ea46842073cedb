//! `hashmap_atomic` of PMDK's examples, without transactions. The constructor does not persist the hash function's parameters.

use strandline_check::{Check, Pmem, check as program};

use crate::{recycle, store_words};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    HashFunction,
}

/// The map: its hash function's parameters (a, b, p), and in the next line its buckets, the count, and whether the count may be wrong.
const MAP: u64 = 0;
const BUCKETS_OF_MAP: u64 = 64;
const COUNT: u64 = 72;
const IS_DIRTY: u64 = 80;
/// Buckets: how many, and the first entry of each.
const BUCKETS: u64 = 128;
const NUMBER: u64 = 3;
/// Entries: key, value, next entry.
const ENTRIES: u64 = 192;

const KEYS: [u64; 3] = [3, 5, 8];

fn create(pmem: &Pmem, bug: Bug) {
    store_words(pmem, MAP, &[7, 5, 32_212_254_719]);
    if bug != Bug::HashFunction {
        pmem.persist(MAP, 24);
    }
    store_words(pmem, BUCKETS, &[NUMBER, 0, 0, 0]);
    pmem.persist(BUCKETS, 32);
    pmem.store(BUCKETS_OF_MAP, BUCKETS);
    pmem.persist(BUCKETS_OF_MAP, 8);
}

fn bucket(pmem: &Pmem, key: u64) -> u64 {
    let [a, b, p] = [MAP, MAP + 8, MAP + 16].map(|at| pmem.load(at));
    let buckets = pmem.load(BUCKETS_OF_MAP);
    let hash = a.wrapping_mul(key).wrapping_add(b).checked_rem(p).expect("the hash function is lost");
    buckets + 8 + 8 * (hash % pmem.load(buckets))
}

fn store_persistently(pmem: &Pmem, at: u64, value: u64) {
    pmem.store(at, value);
    pmem.persist(at, 8);
}

fn insert(pmem: &Pmem, key: u64, entry: u64) {
    let bucket = bucket(pmem, key);
    store_words(pmem, entry, &[key, 10 * key, pmem.load(bucket)]);
    pmem.persist(entry, 24);
    store_persistently(pmem, IS_DIRTY, 1);
    store_persistently(pmem, bucket, entry);
    store_persistently(pmem, COUNT, pmem.load(COUNT) + 1);
    store_persistently(pmem, IS_DIRTY, 0);
    pmem.acknowledge(key);
}

fn count(pmem: &Pmem) -> u64 {
    let mut count = 0;
    for bucket in 0..NUMBER {
        let mut entry = pmem.load(BUCKETS + 8 + 8 * bucket);
        while entry != 0 {
            count += 1;
            entry = pmem.load(entry + 16);
        }
    }
    count
}

fn recover(pmem: &Pmem) {
    if pmem.load(IS_DIRTY) != 0 {
        store_persistently(pmem, COUNT, count(pmem));
        store_persistently(pmem, IS_DIRTY, 0);
    }
}

fn is_right(pmem: &Pmem, acknowledged: &[u64]) -> Result<(), String> {
    if pmem.load(BUCKETS_OF_MAP) == 0 {
        return if acknowledged.is_empty() { Ok(()) } else { Err("the map is lost".to_owned()) };
    }
    for key in KEYS {
        let mut entry = pmem.load(bucket(pmem, key));
        while entry != 0 && pmem.load(entry) != key {
            entry = pmem.load(entry + 16);
        }
        if entry == 0 && acknowledged.contains(&key) {
            return Err(format!("{key} is not found"));
        }
    }
    let (counted, there) = (pmem.load(COUNT), count(pmem));
    if counted == there { Ok(()) } else { Err(format!("{counted} are counted, {there} are there")) }
}

pub fn check(bug: Bug) -> Check<'static> {
    program(move |pmem| {
        create(pmem, bug);
        for (key, entry) in KEYS.into_iter().zip((ENTRIES..).step_by(64)) {
            insert(pmem, key, entry);
        }
    })
    .set_up(|pmem| recycle(pmem, BUCKETS, 256))
    .recovery(recover)
    .invariant(|pmem, crashed| is_right(pmem, &crashed.acknowledged))
    .label_range("hash function", MAP, 24)
    .label("buckets of the map", BUCKETS_OF_MAP)
    .label("count", COUNT)
    .label("is dirty", IS_DIRTY)
    .label_range("buckets", BUCKETS, 32)
    .label_range("entries", ENTRIES, 192)
}
