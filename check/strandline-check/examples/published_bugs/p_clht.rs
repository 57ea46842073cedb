//! P-CLHT, a hash table of RECIPE whose buckets are cache lines. The constructor flushes nothing.

use strandline_check::{Check, Pmem, check as program};

use crate::{recycle, store_words};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    Object,
    Table,
    Buckets,
}

const ROOT: u64 = 0;
/// The object: the present table and the oldest one.
const OBJECT: u64 = 64;
/// The table: its buckets, and how many there are.
const TABLE: u64 = 128;
/// A bucket: a byte for each entry, not 0 if the entry is valid, three keys and three values.
const BUCKETS: u64 = 192;
const NUMBER: u64 = 2;

const KEYS: [u64; 3] = [2, 3, 4];

fn construct(pmem: &Pmem, bug: Bug) {
    for bucket in (BUCKETS..).step_by(64).take(NUMBER as usize) {
        store_words(pmem, bucket, &[0; 8]);
        if bug != Bug::Buckets {
            pmem.persist(bucket, 64);
        }
    }
    store_words(pmem, TABLE, &[BUCKETS, NUMBER]);
    if bug != Bug::Table {
        pmem.persist(TABLE, 16);
    }
    store_words(pmem, OBJECT, &[TABLE, TABLE]);
    if bug != Bug::Object {
        pmem.persist(OBJECT, 16);
    }
    pmem.store(ROOT, OBJECT);
    pmem.persist(ROOT, 8);
}

fn bucket(pmem: &Pmem, key: u64) -> u64 {
    let table = pmem.load(pmem.load(ROOT));
    let (buckets, number) = (pmem.load(table), pmem.load(table + 8));
    buckets + 64 * (key % number)
}

fn is_valid(map: u64, entry: u64) -> bool {
    map >> (8 * entry) & 0xff != 0
}

/// Stores value and key, and then the bytes that make them valid.
fn put(pmem: &Pmem, key: u64) {
    let bucket = bucket(pmem, key);
    let map = pmem.load(bucket);
    let entry = (0..3).find(|&entry| !is_valid(map, entry)).expect("the bucket is full");
    pmem.store(bucket + 32 + 8 * entry, 10 * key);
    pmem.store(bucket + 8 + 8 * entry, key);
    pmem.persist(bucket, 64);
    assert_eq!(pmem.compare_exchange(bucket, map, map | 1 << (8 * entry)), Ok(map));
    pmem.persist(bucket, 8);
    pmem.acknowledge(key);
}

fn is_right(pmem: &Pmem, acknowledged: &[u64]) -> Result<(), String> {
    let is_there = pmem.load(ROOT) != 0;
    for key in KEYS {
        let mut found = None;
        if is_there {
            let bucket = bucket(pmem, key);
            let map = pmem.load(bucket);
            for entry in (0..3).filter(|&entry| is_valid(map, entry)) {
                match pmem.load(bucket + 8 + 8 * entry) {
                    other if !KEYS.contains(&other) => return Err(format!("nobody has put {other:#x}")),
                    same if same == key => found = Some(pmem.load(bucket + 32 + 8 * entry)),
                    _ => {}
                }
            }
        }
        match found {
            None if acknowledged.contains(&key) => return Err(format!("{key} is lost")),
            Some(value) if value != 10 * key => return Err(format!("the value of {key} is {value:#x}")),
            _ => {}
        }
    }
    Ok(())
}

pub fn check(bug: Bug) -> Check<'static> {
    program(move |pmem| {
        construct(pmem, bug);
        KEYS.into_iter().for_each(|key| put(pmem, key));
    })
    .set_up(|pmem| recycle(pmem, OBJECT, 256))
    .invariant(|pmem, crashed| is_right(pmem, &crashed.acknowledged))
    .label("root", ROOT)
    .label_range("object", OBJECT, 16)
    .label_range("table", TABLE, 16)
    .label_range("buckets", BUCKETS, 64 * NUMBER)
}
