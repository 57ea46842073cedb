//! Non-temporal stores that other threads see late.

use strandline_check::{Check, Pmem, Verdict, check};

const DATA: u64 = 0;
const FLAG: u64 = 64;
const STALE: u64 = 128;
const OTHER: u64 = 192;

/// Returns a check in which one thread stores data past the cache and, after `between`, a flag; another thread reports if it sees the flag without
/// the data.
fn message<'a>(between: impl Fn(&Pmem) + 'a) -> Check<'a> {
    let program = move |pmem: &Pmem| {
        if pmem.thread() == 0 {
            pmem.store_non_temporal(DATA, 7);
            between(pmem);
            pmem.store_release(FLAG, 1);
        } else if pmem.load_acquire(FLAG) == 1 && pmem.load(DATA) == 0 {
            pmem.store(STALE, 1);
        }
    };
    check(program).threads(2).invariant(|pmem, _| match pmem.load(STALE) {
        0 => Ok(()),
        _ => Err("the flag was seen without the data".to_owned()),
    })
}

#[test]
fn a_later_store_is_seen_first() {
    let check = message(|_| ());
    for outcome in [check.exhaustive(), check.sampled(500)] {
        let finding = outcome.finding.unwrap();
        assert!(finding.what.contains("seen without the data"), "{finding}");
        let again = check.replay(&finding.replay).unwrap().finding.unwrap();
        assert_eq!((again.what, again.lost), (finding.what, finding.lost));
    }
}

#[test]
fn what_does_not_order_it() {
    message(|pmem| assert_eq!(pmem.load(DATA), 7)).exhaustive().finding.unwrap();
    message(|pmem| pmem.flush(DATA)).exhaustive().finding.unwrap();
    message(|pmem| pmem.store(OTHER, 1)).exhaustive().finding.unwrap();
}

#[test]
fn what_orders_it() {
    message(|pmem| pmem.fence()).exhaustive().assert_clean();
    message(|pmem| assert_eq!(pmem.fetch_add(OTHER, 1), 0)).exhaustive().assert_clean();
    // Stores to one line stay in order.
    message(|pmem| pmem.store(DATA + 8, 1)).exhaustive().assert_clean();
    assert!(message(|pmem| pmem.fence()).sampled(500).finding.is_none());
}

#[test]
fn it_becomes_visible_at_last() {
    let program = |pmem: &Pmem| {
        if pmem.thread() == 0 {
            pmem.store_non_temporal(DATA, 7);
            while pmem.load_acquire(FLAG) == 0 {
                pmem.pause();
            }
        } else {
            while pmem.load_acquire(DATA) == 0 {
                pmem.pause();
            }
            pmem.store_release(FLAG, 1);
        }
    };
    let outcome = check(program).threads(2).exhaustive();
    assert!(outcome.finding.is_none(), "{outcome}");
    assert_eq!(check(program).threads(2).sampled(200).verdict(), Verdict::NothingFound);
}

#[test]
fn one_thread_has_one_schedule() {
    let program = |pmem: &Pmem| {
        (0..8).for_each(|line| pmem.store_non_temporal(64 * line, 1));
        pmem.fence();
    };
    assert_eq!(check(program).exhaustive().counts.histories, 1);
}
