//! CCEH, a hash table of segments behind a directory. The bugs are constructors that leave stores unflushed.

use strandline_check::{Check, Pmem, check as program};

use crate::{recycle, store_words};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    Segment,
    Entry,
    Table,
}

const ROOT: u64 = 0;
/// The table: the directory's address, its capacity and its depth.
const TABLE: u64 = 64;
const DIRECTORY: u64 = 128;
/// A segment: depth and pattern, and from the next line on its slots, with a key and a value each.
const SEGMENTS: u64 = 192;
const SEGMENT: u64 = 128;
const CAPACITY: u64 = 2;
const SLOTS: u64 = 4;
/// The keys of free slots, and of slots that are being filled.
const FREE: u64 = u64::MAX;
const FILLING: u64 = u64::MAX - 1;

const KEYS: [u64; 3] = [4, 5, 7];

fn construct(pmem: &Pmem, bug: Bug) {
    for number in 0..CAPACITY {
        let (segment, entry) = (SEGMENTS + SEGMENT * number, DIRECTORY + 8 * number);
        store_words(pmem, segment, &[1, number, 0, 0, 0, 0, 0, 0, FREE, 0, FREE, 0, FREE, 0, FREE, 0]);
        if bug != Bug::Segment {
            pmem.persist(segment, SEGMENT);
        }
        pmem.store(entry, segment);
        if bug != Bug::Entry {
            pmem.persist(entry, 8);
        }
    }
    store_words(pmem, TABLE, &[DIRECTORY, CAPACITY, 1]);
    if bug != Bug::Table {
        pmem.persist(TABLE, 24);
    }
    pmem.store(ROOT, TABLE);
    pmem.persist(ROOT, 8);
}

/// Returns the slots of the segment to which `key` belongs.
fn slots(pmem: &Pmem, key: u64) -> impl Iterator<Item = u64> {
    let table = pmem.load(ROOT);
    let (directory, capacity) = (pmem.load(table), pmem.load(table + 8));
    let segment = pmem.load(directory + 8 * (key % capacity));
    assert_eq!(pmem.load(segment + 8), key % capacity, "a segment of another pattern");
    (0..SLOTS).map(move |slot| segment + 64 + 16 * slot)
}

fn insert(pmem: &Pmem, key: u64) {
    for slot in slots(pmem, key) {
        if pmem.compare_exchange(slot, FREE, FILLING).is_ok() {
            pmem.store(slot + 8, 10 * key);
            pmem.store(slot, key);
            pmem.persist(slot, 16);
            pmem.acknowledge(key);
            return;
        }
    }
}

fn is_right(pmem: &Pmem, acknowledged: &[u64]) -> Result<(), String> {
    if pmem.load(ROOT) == 0 {
        return if acknowledged.is_empty() { Ok(()) } else { Err("the table is lost".to_owned()) };
    }
    for key in KEYS {
        let mut value = 0;
        for slot in slots(pmem, key) {
            match pmem.load(slot) {
                FREE | FILLING => {}
                found if found == key => value = pmem.load(slot + 8),
                found if KEYS.contains(&found) => {}
                found => return Err(format!("nobody has inserted {found:#x}")),
            }
        }
        if value != 10 * key && (value != 0 || acknowledged.contains(&key)) {
            return Err(format!("the value of {key} is {value}"));
        }
    }
    Ok(())
}

pub fn check(bug: Bug) -> Check<'static> {
    program(move |pmem| {
        construct(pmem, bug);
        KEYS.into_iter().for_each(|key| insert(pmem, key));
    })
    .set_up(|pmem| recycle(pmem, TABLE, 512))
    .invariant(|pmem, crashed| is_right(pmem, &crashed.acknowledged))
    .label("root", ROOT)
    .label_range("table", TABLE, 24)
    .label_range("directory", DIRECTORY, 16)
    .label_range("segments", SEGMENTS, 2 * SEGMENT)
}
