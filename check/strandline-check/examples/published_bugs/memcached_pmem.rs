//! memcached-pmem, a cache whose items survive a restart. The bug concerns the number that clients use for compare-and-swap.

use strandline_check::{Check, Pmem, check as program};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    CasNotPersisted,
    CasAfterLink,
}

/// Items: the key and whether they are linked, and in the next line the number and the value.
const ITEM: u64 = 128;
const KEYS: u64 = 3;
const IS_LINKED: u64 = 8;
const CAS: u64 = 64;
const VALUE: u64 = 72;

fn item(key: u64) -> u64 {
    ITEM * key
}

fn set_cas(pmem: &Pmem, key: u64, bug: Bug) {
    pmem.store(item(key) + CAS, key + 1);
    if bug != Bug::CasNotPersisted {
        pmem.persist(item(key) + CAS, 8);
    }
}

fn set(pmem: &Pmem, key: u64, bug: Bug) {
    let item = item(key);
    pmem.store(item, key);
    pmem.store(item + VALUE, 10 * key + 1);
    pmem.flush(item);
    pmem.persist(item + VALUE, 8);
    if bug != Bug::CasAfterLink {
        set_cas(pmem, key, bug);
    }
    pmem.store(item + IS_LINKED, 1);
    pmem.persist(item + IS_LINKED, 8);
    if bug == Bug::CasAfterLink {
        set_cas(pmem, key, bug);
    }
    pmem.acknowledge(key);
}

fn is_right(pmem: &Pmem, acknowledged: &[u64]) -> Result<(), String> {
    for key in 0..KEYS {
        let is_linked = pmem.load(item(key) + IS_LINKED) == 1;
        let (cas, value) = (pmem.load(item(key) + CAS), pmem.load(item(key) + VALUE));
        if is_linked && (cas, value) != (key + 1, 10 * key + 1) {
            return Err(format!("item {key} is linked, with the number {cas} and the value {value}"));
        }
        if !is_linked && acknowledged.contains(&key) {
            return Err(format!("item {key} is lost"));
        }
    }
    Ok(())
}

pub fn check(bug: Bug) -> Check<'static> {
    let check = program(move |pmem| (0..KEYS).for_each(|key| set(pmem, key, bug)))
        .invariant(|pmem, crashed| is_right(pmem, &crashed.acknowledged));
    (0..KEYS).fold(check, |check, key| check.label_range(&format!("item {key}"), item(key), ITEM))
}
