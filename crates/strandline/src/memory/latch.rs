//! A latch in a volatile word, for short critical sections: blocks instead of spinning for long, because the
//! holder may not be running.
//!
//! The word is 0 when free, 1 when taken, 2 when taken and somebody may be waiting (Drepper's futex mutex).

use super::{Memory, VolatileAddress};

/// Looks at a taken latch before blocking.
const PATIENCE: u32 = 64;

/// Takes the latch at `at`, waiting for it.
#[inline]
pub(crate) fn lock<M: Memory>(memory: &M, at: VolatileAddress) {
    if !try_lock(memory, at) {
        lock_slowly(memory, at);
    }
}

/// Takes the latch at `at` if it is free.
#[inline]
pub(crate) fn try_lock<M: Memory>(memory: &M, at: VolatileAddress) -> bool {
    memory.load(at) == 0 && memory.compare_exchange(at, 0, 1).is_ok()
}

#[cold]
fn lock_slowly<M: Memory>(memory: &M, at: VolatileAddress) {
    for _ in 0..PATIENCE {
        if try_lock(memory, at) {
            return;
        }
        memory.pause();
    }
    loop {
        match memory.load(at) {
            0 => {
                // Others may wait too: whoever takes it after waiting leaves it marked.
                if memory.compare_exchange(at, 0, 2).is_ok() {
                    return;
                }
            }
            1 => {
                let _ = memory.compare_exchange(at, 1, 2);
            }
            _ => memory.wait(at, 2),
        }
    }
}

/// Releases the latch at `at`.
#[inline]
pub(crate) fn unlock<M: Memory>(memory: &M, at: VolatileAddress) {
    if memory.fetch_add(at, u64::MAX) != 1 {
        memory.store(at, 0);
        memory.wake(at);
    }
}

/// A load that takes its place in the order of the sequentially consistent operations, which a plain load
/// does not: for "I have written mine, now I read yours" from both sides.
#[inline]
pub(crate) fn load_in_order<M: Memory>(memory: &M, at: VolatileAddress) -> u64 {
    memory.fetch_add(at, 0)
}
