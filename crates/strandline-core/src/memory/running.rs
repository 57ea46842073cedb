//! On which pools a thread of the operating system runs a transaction: hardly ever more than one.
//!
//! A method that waits for a transaction, a flush or a checkpoint must not run inside a transaction of the same pool on the same thread: once
//! the transaction is large it excludes all others and keeps checkpoints waiting, and the thread would wait for itself. [`Outside`] is the one
//! guard against this. Every public method of a pool that may wait calls it before it takes a lock, a log, memory or a registration; what does
//! not call it waits for nothing, in small and in large transactions alike.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

use super::Mapping;
use super::process::Process;
use crate::error::{Error, Result};

/// The guard of a pool's methods against calls from inside the pool's own transactions.
#[derive(Clone, Copy)]
pub(crate) struct Outside {
    pool: u64,
    process: Process,
}

impl Outside {
    /// The guard of the pool with this volatile memory.
    pub fn of(volatile: &Mapping) -> Self {
        Self { pool: volatile.base() as u64, process: volatile.process() }
    }

    /// Checks that the calling thread may wait for transactions of the pool.
    ///
    /// # Errors
    /// Returns [`Error::Nested`] if the thread runs a transaction of the pool, and [`Error::Forked`] in a forked child of the process that opened
    /// the pool.
    #[inline(always)]
    pub fn check(&self) -> Result<()> {
        self.process.check()?;
        if is_running(self.pool) { Err(Error::Nested) } else { Ok(()) }
    }
}

/// [`ONLY`] where there are several.
const SEVERAL: u64 = u64::MAX;

thread_local! {
    /// The pool on which this thread runs a transaction; 0: none.
    static ONLY: Cell<u64> = const { Cell::new(0) };
    /// The pools, where there are several; else empty and without memory, so that there is nothing to drop, and a
    /// transaction may run while the thread's other variables are dropped.
    static ALL: ManuallyDrop<RefCell<Vec<u64>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// The thread begins a transaction on `pool`, which is neither 0 nor [`SEVERAL`]; `false`: it runs one there already.
#[inline(always)]
pub(super) fn begin(pool: u64) -> bool {
    // One access to the thread's variable, which may be a call.
    let has_begun = ONLY.with(|only| {
        let none = only.get() == 0;
        if none {
            only.set(pool);
        }
        none
    });
    has_begun || begin_another(pool)
}

#[cold]
#[inline(never)]
fn begin_another(pool: u64) -> bool {
    if is_running(pool) {
        return false;
    }
    ALL.with(|all| {
        let all = &mut *all.borrow_mut();
        if ONLY.get() != SEVERAL {
            all.push(ONLY.replace(SEVERAL));
        }
        all.push(pool);
    });
    true
}

/// The thread's transaction on `pool` has ended; not necessarily the last that began, where threads run coroutines.
#[inline(always)]
pub(super) fn end(pool: u64) {
    let has_ended = ONLY.with(|only| {
        let it = only.get() == pool;
        if it {
            only.set(0);
        }
        it
    });
    if !has_ended {
        end_one(pool);
    }
}

#[cold]
#[inline(never)]
fn end_one(pool: u64) {
    ALL.with(|all| {
        let all = &mut *all.borrow_mut();
        all.retain(|&running| running != pool);
        if let [last] = all[..] {
            ONLY.set(last);
            *all = Vec::new();
        }
    });
}

/// Whether the thread runs a transaction on `pool`.
#[inline(always)]
fn is_running(pool: u64) -> bool {
    let only = ONLY.get();
    only == pool || (only == SEVERAL && ALL.with(|all| all.borrow().contains(&pool)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_pools_in_any_order() {
        for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1], [2, 1, 3]] {
            assert!([1, 2, 3].map(begin).iter().all(|&begun| begun));
            assert!([1, 2, 3].map(begin).iter().all(|&begun| !begun));
            assert!(std::thread::spawn(|| [1, 2, 3].iter().all(|&pool| !is_running(pool))).join().unwrap());
            for (ended, &pool) in order.iter().enumerate() {
                end(pool);
                for (place, &other) in order.iter().enumerate() {
                    assert_eq!(is_running(other), place > ended);
                }
                // The one that ended may begin again meanwhile.
                assert!(begin(pool) && !begin(pool));
                end(pool);
            }
            assert_eq!((ONLY.get(), ALL.with(|all| all.borrow().capacity())), (0, 0));
        }
    }
}
