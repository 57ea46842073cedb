//! The pools on which a thread of the operating system runs a transaction: hardly ever more than one.
//!
//! A method that waits for a transaction, a flush or a checkpoint must not run inside a transaction of the same pool on the same thread: a
//! large transaction excludes all others and keeps checkpoints waiting, so the thread would wait for itself. [`Outside`] is the one guard
//! against this. Every public method of a pool that may wait calls it before it takes a lock, a log, memory or a registration. A method
//! that does not call it never waits, neither in small nor in large transactions.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::Range;

use super::Mapping;
use super::process::Process;
use crate::error::{Error, Result};

/// The guard of a pool's methods against calls from inside the pool's own transactions.
#[derive(Clone, Copy)]
pub struct Outside {
    /// The beginning of the address range of the pool's volatile words.
    first: u64,
    end: u64,
    process: Process,
}

impl Outside {
    /// Returns the guard of the pool with this volatile memory.
    pub(crate) fn of(volatile: &Mapping) -> Self {
        let Range { start: first, end } = words_of(volatile);
        Self { first, end, process: volatile.process() }
    }

    /// Checks that the calling thread may wait for transactions of the pool.
    ///
    /// # Errors
    /// Returns [`Error::Nested`] if the thread runs a transaction of the pool, and [`Error::Forked`] in a forked child of the process that opened
    /// the pool.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.process.check()?;
        if is_running(&(self.first..self.end)) { Err(Error::Nested) } else { Ok(()) }
    }

    /// Checks that the calling thread may wait until no transaction of the pool runs. It may not inside a transaction of another pool,
    /// since a transaction of this pool may itself wait for that one.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the thread runs a transaction of another pool, and the errors of [`Outside::check`].
    pub fn check_all(&self) -> Result<()> {
        self.check()?;
        if ONLY.get() == 0 {
            return Ok(());
        }
        Err(Error::Parameter(
            "closing waits for transactions, which may wait for the one that this thread has open on another pool: call it outside of \
             transactions"
                .into(),
        ))
    }
}

/// Returns the addresses of a pool's volatile words.
pub(super) fn words_of(volatile: &Mapping) -> Range<u64> {
    let first = volatile.base() as u64;
    first..first + volatile.reserved()
}

/// The value of [`ONLY`] if the thread runs several transactions.
const SEVERAL: u64 = u64::MAX;

thread_local! {
    /// The worker of whose transaction this thread is inside, as the address of a word among the volatile words of its pool; 0 if there is
    /// none.
    static ONLY: Cell<u64> = const { Cell::new(0) };
    /// The workers, if there are several. Otherwise empty and without memory, so that there is nothing to drop, and a transaction may run
    /// while the thread's other variables are dropped.
    static ALL: ManuallyDrop<RefCell<Vec<u64>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Notes that the thread begins a transaction of `worker`, which is neither 0 nor [`SEVERAL`], on the pool with these volatile words.
/// Returns false if the thread already runs a transaction of that pool.
#[inline]
pub(super) fn begin(worker: u64, words: impl Fn() -> Range<u64>) -> bool {
    // Only one access to the thread's variable, since each may be a call.
    let has_begun = ONLY.with(|only| {
        let none = only.get() == 0;
        if none {
            only.set(worker);
        }
        none
    });
    has_begun || begin_another(worker, &words())
}

#[cold]
#[inline(never)]
fn begin_another(worker: u64, words: &Range<u64>) -> bool {
    if is_running(words) {
        return false;
    }
    ALL.with(|all| {
        let all = &mut *all.borrow_mut();
        if ONLY.get() != SEVERAL {
            all.push(ONLY.replace(SEVERAL));
        }
        all.push(worker);
    });
    true
}

/// Notes that the thread's transaction of `worker` has ended. If threads run coroutines, this need not be the one that began last.
#[inline]
pub(super) fn end(worker: u64) {
    let has_ended = ONLY.with(|only| {
        let it = only.get() == worker;
        if it {
            only.set(0);
        }
        it
    });
    if !has_ended {
        end_one(worker);
    }
}

#[cold]
#[inline(never)]
fn end_one(worker: u64) {
    ALL.with(|all| {
        let all = &mut *all.borrow_mut();
        all.retain(|&running| running != worker);
        if let [last] = all[..] {
            ONLY.set(last);
            *all = Vec::new();
        }
    });
}

/// Returns whether the calling thread runs a transaction of the pool with these volatile words.
#[inline]
fn is_running(words: &Range<u64>) -> bool {
    let only = ONLY.get();
    words.contains(&only)
        || (only == SEVERAL && ALL.with(|all| all.borrow().iter().any(|worker| words.contains(worker))))
}

/// Returns whether the calling thread runs a transaction of any pool but the one with these volatile words.
pub(super) fn is_nested(words: &Range<u64>) -> bool {
    match ONLY.get() {
        0 => false,
        // At most one of the transactions is of this pool.
        SEVERAL => true,
        only => !words.contains(&only),
    }
}

/// Returns the workers whose transactions the thread runs, except one of the pool with these volatile words.
pub(super) fn running_elsewhere(words: &Range<u64>) -> Vec<u64> {
    let only = ONLY.get();
    let all = if only == SEVERAL { ALL.with(|all| all.borrow().clone()) } else { vec![only] };
    all.into_iter().filter(|worker| *worker != 0 && !words.contains(worker)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_pools_in_any_order() {
        // Pool p has the words from 10 p to 10 p + 10, and its worker the word 10 p + 5.
        let words = |pool: u64| 10 * pool..10 * pool + 10;
        let begin = |pool: u64| begin(10 * pool + 5, || words(pool));
        let end = |pool: u64| end(10 * pool + 5);
        let is_running = move |pool: u64| is_running(&words(pool));
        for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1], [2, 1, 3]] {
            assert!(!is_nested(&words(1)));
            assert!([1, 2, 3].map(begin).iter().all(|&begun| begun));
            assert!([1, 2, 3].map(begin).iter().all(|&begun| !begun));
            assert!([1, 2, 3, 4].iter().all(|&pool| is_nested(&words(pool))));
            assert_eq!((running_elsewhere(&words(2)), running_elsewhere(&words(4)).len()), (vec![15, 35], 3));
            assert!(
                std::thread::spawn(move || [1, 2, 3].iter().all(|&pool| !is_running(pool))).join().unwrap()
            );
            for (ended, &pool) in order.iter().enumerate() {
                end(pool);
                for (place, &other) in order.iter().enumerate() {
                    assert_eq!(is_running(other), place > ended);
                }
                // A transaction of the pool whose transaction ended may begin meanwhile.
                assert!(begin(pool) && !begin(pool));
                end(pool);
            }
            assert_eq!((ONLY.get(), ALL.with(|all| all.borrow().capacity())), (0, 0));
        }
    }
}
