//! P-BwTree, a Bw-tree of RECIPE: nodes allocate the records that change them, and threads publish the epoch that they are in.

use strandline_check::{Check, Pmem, check as program};

use crate::{recycle, store_words};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    AllocationMeta,
    GcMetadata,
}

/// The mapping table's entry of the node: its newest record.
const MAPPING: u64 = 0;
/// The thread's last active epoch, which controls what garbage may be freed. This value means that the thread has left.
const EPOCH: u64 = 64;
const GONE: u64 = u64::MAX;
/// The node's allocation metadata: the address down from which its memory is allocated, and where the memory ends.
const META: u64 = 128;
const LIMIT: u64 = 192;
/// The base node is at the end of this memory. A record has a key, a value, and the record before it.
const BASE: u64 = 448;
const RECORD: u64 = 64;
const KEYS: u64 = 3;
/// The number that is acknowledged when the thread has left.
const LEFT: u64 = 100;

fn construct(pmem: &Pmem, bug: Bug) {
    pmem.store(EPOCH, 1);
    pmem.persist(EPOCH, 8);
    store_words(pmem, META, &[BASE, LIMIT]);
    if bug != Bug::AllocationMeta {
        pmem.persist(META, 16);
    }
    pmem.store(MAPPING, BASE);
    pmem.persist(MAPPING, 8);
}

fn allocate(pmem: &Pmem) -> u64 {
    let record = pmem.fetch_add(META, RECORD.wrapping_neg()) - RECORD;
    assert!(record >= pmem.load(META + 8), "the node is full");
    record
}

fn insert(pmem: &Pmem, key: u64) {
    let (record, before) = (allocate(pmem), pmem.load(MAPPING));
    pmem.flush(META);
    store_words(pmem, record, &[key, 10 * key, before]);
    pmem.persist(record, 24);
    assert_eq!(pmem.compare_exchange(MAPPING, before, record), Ok(before));
    pmem.persist(MAPPING, 8);
    pmem.acknowledge(key);
}

fn leave(pmem: &Pmem, bug: Bug) {
    pmem.store(EPOCH, GONE);
    if bug != Bug::GcMetadata {
        pmem.persist(EPOCH, 8);
    }
    pmem.acknowledge(LEFT);
}

fn is_right(pmem: &Pmem, acknowledged: &[u64]) -> Result<(), String> {
    if acknowledged.contains(&LEFT) && pmem.load(EPOCH) != GONE {
        return Err("a thread that is gone keeps all garbage".to_owned());
    }
    let (mut record, mut found) = (pmem.load(MAPPING), Vec::new());
    if record != 0 && !(LIMIT..=record).contains(&pmem.load(META)) {
        return Err(format!("the next record overwrites the one at {record:#x}"));
    }
    while record != 0 && record != BASE {
        found.push(pmem.load(record));
        record = pmem.load(record + 16);
    }
    let lost = acknowledged.iter().find(|key| **key != LEFT && !found.contains(key));
    lost.map_or(Ok(()), |key| Err(format!("{key} is lost")))
}

pub fn check(bug: Bug) -> Check<'static> {
    program(move |pmem| {
        construct(pmem, bug);
        (1..=KEYS).for_each(|key| insert(pmem, key));
        leave(pmem, bug);
    })
    .set_up(|pmem| recycle(pmem, META, BASE - META))
    .invariant(|pmem, crashed| is_right(pmem, &crashed.acknowledged))
    .label("mapping", MAPPING)
    .label("epoch", EPOCH)
    .label_range("allocation metadata", META, 16)
    .label_range("records", LIMIT, BASE - LIMIT)
}
