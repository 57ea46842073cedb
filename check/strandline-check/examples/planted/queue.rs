//! A queue of tasks: one thread appends tasks, and another one takes the first task and stores its result. Appending holds a lock, which is a word of
//! persistent memory.

use strandline_check::{Check, Pmem, check as program};

/// The number of tasks that were appended.
const LENGTH: u64 = 0;
/// The result of the first task, once it is done.
const RESULT: u64 = 64;
const LOCK: u64 = 128;
const TASKS: u64 = 192;
const APPENDED: u64 = 2;

fn task(number: u64) -> u64 {
    TASKS + 64 * number
}

fn append(pmem: &Pmem, bug: u32) {
    let length = pmem.load(LENGTH);
    let taken = pmem.compare_exchange(LOCK, 0, 1);
    assert_eq!(taken, Ok(0), "the lock is held");
    if bug == 9 {
        pmem.store_release(LENGTH, length + 1);
        pmem.persist(LENGTH, 8);
    }
    pmem.store(task(length), 10 + length);
    pmem.persist(task(length), 8);
    if bug != 9 {
        pmem.store_release(LENGTH, length + 1);
        pmem.persist(LENGTH, 8);
    }
    pmem.store(LOCK, 0);
}

fn work(pmem: &Pmem, bug: u32) {
    if pmem.load_acquire(LENGTH) == 0 {
        return;
    }
    if bug != 8 {
        // The other thread may not have persisted it yet.
        pmem.persist(LENGTH, 8);
    }
    pmem.store(RESULT, 100 * pmem.load(task(0)));
    pmem.persist(RESULT, 8);
}

/// Releases the lock: no thread holds it after a power failure.
fn recover(pmem: &Pmem, bug: u32) {
    if bug == 10 {
        let taken = pmem.compare_exchange(LOCK, 0, 1);
        assert!(taken.is_ok(), "the lock is held by a thread that is no more");
    }
    pmem.store(LOCK, 0);
    pmem.persist(LOCK, 8);
}

pub fn check(bug: u32) -> Check<'static> {
    program(move |pmem| match pmem.thread() {
        0 => (0..APPENDED).for_each(|_| append(pmem, bug)),
        _ => work(pmem, bug),
    })
    .threads(2)
    .recovery(move |pmem| recover(pmem, bug))
    .invariant(|pmem, _| {
        let (length, result) = (pmem.load(LENGTH), pmem.load(RESULT));
        if let Some(lost) = (0..length).find(|&number| pmem.load(task(number)) != 10 + number) {
            return Err(format!("task {lost} of {length} is lost"));
        }
        match (length, result) {
            (_, 0) | (1.., 1000) => Ok(()),
            _ => Err(format!("the result is {result}, of {length} tasks")),
        }
    })
    .label("length", LENGTH)
    .label("result", RESULT)
    .label("lock", LOCK)
    .label_range("tasks", TASKS, 64 * APPENDED)
}
