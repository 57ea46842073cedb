//! A latch for a critical section that mostly the same thread enters, again and again. For this thread it costs two plain stores.
//!
//! A thread that has taken the latch many times in a row, or has waited until another thread's turn was over, becomes the latch's bias owner. The
//! bias owner has its own word, and is inside while that word is 1: it stores 1 and then checks whether it still is the bias owner. Any other thread
//! takes the latch itself, ends the bias, makes each thread of the process execute a memory barrier, and waits until the bias owner is not inside. So
//! one of the two sees what the other has stored, and the thread that seldom enters pays for it. (This is biased locking, by Kawachiya, Koseki and
//! Onodera; the barrier of one side for both is by Dice, Huang and Yang.) A bias owner that enters often sees at its next transaction that it is no
//! longer the bias owner, and notes that in its word. Then the barrier, for which both would wait longer, is not necessary.
//!
//! An atomic exchange would instead wait until all that was written back before it has reached memory, at the end of each transaction and again at
//! the beginning of the next.

use super::latch::{self, LONGEST_NAP, NAP, PATIENCE};
use super::{Memory, VolatileAddress};
use crate::error::Result;

/// The bias owner is inside.
const PRESENT: u64 = 1;
/// The thread has seen that it is not the bias owner any more: it is not inside as the bias owner, and will not be until it becomes the bias owner
/// again.
const ENDED: u64 = 2;
/// The number of times in a row that a thread must take the latch to become the bias owner if it never had to wait. The end of a bias takes
/// some microseconds, which is a few nanoseconds for each of these times.
const BIASED_AFTER: u64 = if cfg!(loom) { 1 } else { 256 };
/// The number of naps, each twice as long as the previous one and together a little more than [`LONGEST_NAP`], before the bias of a bias owner that is
/// always inside is ended.
const NAPS: u32 = if cfg!(loom) { 1 } else { (LONGEST_NAP / NAP).ilog2() + 1 };
/// The number of attempts at the barrier before the process ends, with naps of about a millisecond in between.
const BARRIER_ATTEMPTS: u32 = 64;

// All words of a latch are in one line, and so are the bias owner's own word and its other data.
/// Returns the address of a word with the address of the bias owner's own word, or 0 if there is no bias owner.
fn bias_owner(at: VolatileAddress) -> VolatileAddress {
    at.word(1)
}
/// Returns the address of a word with the address of the own word of the last thread that took the latch itself.
fn last(at: VolatileAddress) -> VolatileAddress {
    at.word(2)
}
/// Returns the address of the number of times in a row that this thread took it.
fn times(at: VolatileAddress) -> VolatileAddress {
    at.word(3)
}

/// If the thread with the word `own` is the bias owner, takes the latch at `at`, the first of four words. `store_own` stores to the word `own`.
#[inline]
pub fn lock_at_once<M: Memory>(
    memory: &M,
    at: VolatileAddress,
    own: VolatileAddress,
    store_own: impl Fn(u64),
) -> bool {
    if !memory.has_process_barrier() {
        return false;
    }
    store_own(PRESENT);
    light_barrier();
    if memory.load(bias_owner(at)) == own.offset() {
        return true;
    }
    store_own(ENDED);
    false
}

/// Releases a latch that [`lock_at_once`] took.
#[inline]
pub fn unlock_at_once(store_own: impl Fn(u64)) {
    store_own(0);
}

/// Waits for the latch at `at`, the first of four words, and takes it. `own` is a word of a thread that may become the bias owner. No other thread
/// stores to it, and it is used for no other latch.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock), without the latch, if its holder waits for the calling thread.
#[inline]
pub fn lock<M: Memory>(memory: &M, at: VolatileAddress, own: Option<VolatileAddress>) -> Result<()> {
    if !memory.has_process_barrier() {
        return memory.lock_unless_deadlocked(at);
    }
    if own.is_some_and(|own| lock_at_once(memory, at, own, |value| memory.store(own, value))) {
        return Ok(());
    }
    lock_latch(memory, at, own)
}

/// Releases the latch at `at`, which was taken with the same `own`.
#[inline]
pub fn unlock<M: Memory>(memory: &M, at: VolatileAddress, own: Option<VolatileAddress>) {
    match own {
        Some(own) if memory.has_process_barrier() && memory.load(own) == PRESENT => memory.store(own, 0),
        _ => memory.unlock(at),
    }
}

/// Returns whether the thread with the word `own` holds the latch at `at`. `load` reads the words. The answer is exact while that thread does
/// nothing. If there is no bias owner, another thread may be the holder.
pub fn is_held_by(load: impl Fn(VolatileAddress) -> u64, at: VolatileAddress, own: VolatileAddress) -> bool {
    // Systems without bias owners do not record the last holder.
    load(own) == PRESENT || (load(at) != 0 && [0, own.offset()].contains(&load(last(at))))
}

/// Called by a bias owner that will be away for longer than other threads wait without looking. Wakes threads that wait for that.
pub fn step_aside<M: Memory>(memory: &M, at: VolatileAddress) {
    if memory.has_process_barrier() && memory.load(at) != 0 {
        memory.wake_one(times(at));
    }
}

/// Takes the latch itself. Only a thread that holds it may change the bias owner.
#[inline(never)]
fn lock_latch<M: Memory>(memory: &M, at: VolatileAddress, own: Option<VolatileAddress>) -> Result<()> {
    memory.lock_unless_deadlocked(at)?;
    let has_napped = match memory.load(bias_owner(at)) {
        0 => false,
        present => match end_bias(memory, at, VolatileAddress::new(present)) {
            Ok(has_napped) => has_napped,
            Err(error) => {
                // The bias owner holds the latch and remains the bias owner, as if no other thread had asked.
                memory.store(bias_owner(at), present);
                memory.unlock(at);
                return Err(error);
            }
        },
    };
    let Some(own) = own else { return Ok(()) };
    // This thread has waited for longer than it takes to end its own bias, so that others will leave it alone for as long. But if a third thread has
    // waited long, that one is next.
    let times_before = if has_napped && !latch::is_awaited(memory, at) {
        BIASED_AFTER - 1
    } else if memory.load(last(at)) == own.offset() {
        memory.load(times(at))
    } else {
        0
    };
    memory.store(last(at), own.offset());
    memory.store(times(at), (times_before + 1) % BIASED_AFTER);
    // Tries the barrier once, to make sure that the system supports it.
    if times_before + 1 == BIASED_AFTER && (has_napped || memory.process_barrier()) {
        memory.store(own, PRESENT);
        memory.store(bias_owner(at), own.offset());
        memory.unlock(at);
    }
    Ok(())
}

/// Waits until the bias owner with the word `present` is not inside, and can never be again as the bias owner. Returns whether it was inside at first
/// and was left alone for a while.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) if the bias owner, while it holds the latch, waits for the calling thread.
#[cold]
fn end_bias<M: Memory>(memory: &M, at: VolatileAddress, present: VolatileAddress) -> Result<bool> {
    // A bias owner that enters often keeps its data in its core's cache for a while.
    let mut naps = 0;
    while naps < NAPS && !is_away(memory, present) {
        // The word does not change meanwhile, and only [`step_aside`] wakes this thread.
        memory.wait_briefly(times(at), memory.load(times(at)), NAP << naps);
        naps += 1;
    }
    memory.store(bias_owner(at), 0);
    if naps < NAPS || !has_ended(memory, present) {
        // The system may be out of memory for a moment.
        let tries = || {
            (0..BARRIER_ATTEMPTS).any(|attempt| {
                if attempt > 0 {
                    memory.wait_briefly(times(at), memory.load(times(at)), NAP << NAPS);
                }
                memory.process_barrier()
            })
        };
        if !tries() {
            // No thread could enter any more. Committed transactions are in the pool.
            eprintln!("strandline: the system refuses membarrier, which it did not before");
            std::process::abort();
        }
        latch::wait_while_unless_deadlocked(memory, present, PRESENT)?;
    }
    Ok(naps > 0)
}

/// Returns whether the bias owner soon notes that it has seen the end of its bias.
fn has_ended<M: Memory>(memory: &M, present: VolatileAddress) -> bool {
    (0..4 * PATIENCE).any(|_| {
        memory.pause();
        memory.load(present) == ENDED
    })
}

/// Returns whether the bias owner stays outside for longer than it takes to enter again immediately.
fn is_away<M: Memory>(memory: &M, present: VolatileAddress) -> bool {
    (0..PATIENCE).all(|_| {
        memory.pause();
        memory.load(present) != PRESENT
    })
}

/// Orders the thread's own store before its load: for the compiler here, and for the processor by [`Memory::process_barrier`].
#[inline]
fn light_barrier() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    // Loom does not support a barrier of one side for both.
    #[cfg(all(loom, test))]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

/// Explores each interleaving and each value that the memory model lets a load return, with full barriers instead of those of one side.
#[cfg(all(test, loom))]
mod tests {
    use super::super::latch::tests::guards;
    use super::*;

    const LATCH: VolatileAddress = VolatileAddress::new(0);

    /// Returns the own word of a thread. All but the last of three threads may become the bias owner.
    fn own(number: u64) -> Option<VolatileAddress> {
        (number < 2).then(|| LATCH.word(4 + number))
    }

    #[test]
    fn a_bias_owner_and_another_exclude_each_other_with_three_preemptions() {
        guards(
            2,
            3,
            Some(3),
            |words, number| lock(words, LATCH, own(number)).unwrap(),
            |words, number| unlock(words, LATCH, own(number)),
        );
    }

    #[test]
    fn a_bias_owner_and_two_others_exclude_one_another_with_two_preemptions() {
        guards(
            3,
            2,
            Some(2),
            |words, number| lock(words, LATCH, own(number)).unwrap(),
            |words, number| unlock(words, LATCH, own(number)),
        );
    }
}

#[cfg(all(test, target_os = "linux", not(loom), not(miri)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Domain;
    use crate::memory::{Mapping, Native};

    const LATCH: VolatileAddress = VolatileAddress::new(64);
    const COUNT: VolatileAddress = VolatileAddress::new(256);

    fn memory() -> Native {
        let words = || Arc::new(Mapping::anonymous(4096).unwrap());
        Native::new(words(), words(), Domain::Process, None, None).unwrap()
    }

    fn own(number: u64) -> VolatileAddress {
        VolatileAddress::new(512 + 64 * number)
    }

    /// Adds one, in two steps.
    fn count(memory: &Native, own: Option<VolatileAddress>) {
        lock(memory, LATCH, own).unwrap();
        memory.store(COUNT, memory.load(COUNT) + 1);
        unlock(memory, LATCH, own);
    }

    #[test]
    fn a_thread_that_takes_it_repeatedly_is_the_bias_owner_until_another_takes_it() {
        let memory = memory();
        if !memory.process_barrier() {
            // Without the barrier there never is a bias owner.
            return;
        }
        let bias_owner = || memory.load(bias_owner(LATCH));
        for _ in 1..BIASED_AFTER {
            count(&memory, Some(own(0)));
        }
        assert_eq!(bias_owner(), 0);
        count(&memory, Some(own(0)));
        assert_eq!(bias_owner(), own(0).offset());
        lock(&memory, LATCH, Some(own(0))).unwrap();
        assert_eq!((memory.load(LATCH), memory.load(own(0))), (0, PRESENT), "it has it without the latch");
        unlock(&memory, LATCH, Some(own(0)));
        // A thread that cannot become the bias owner resets the count of another.
        count(&memory, None);
        assert_eq!(bias_owner(), 0);
        for _ in 0..BIASED_AFTER {
            count(&memory, Some(own(0)));
        }
        assert_eq!(bias_owner(), own(0).offset());
        count(&memory, Some(own(1)));
        assert_eq!(bias_owner(), 0);
        count(&memory, Some(own(0)));
        assert_eq!((bias_owner(), memory.load(LATCH), memory.load(own(0))), (0, 0, ENDED));
    }

    /// Makes thread 0 the bias owner, and keeps it inside until `until` holds. Meanwhile thread 1 takes the latch and, with `third`, thread 2 waits
    /// for it. Returns the bias owner while thread 1 is inside.
    fn bias_owner_after_waiting(third: bool, until: fn(&Native) -> bool) -> u64 {
        let memory = memory();
        for _ in 0..BIASED_AFTER {
            count(&memory, Some(own(0)));
        }
        lock(&memory, LATCH, Some(own(0))).unwrap();
        std::thread::scope(|threads| {
            let second = threads.spawn({
                let memory = memory.fork();
                move || {
                    lock(&memory, LATCH, Some(own(1))).unwrap();
                    let found = memory.load(bias_owner(LATCH));
                    unlock(&memory, LATCH, Some(own(1)));
                    found
                }
            });
            while memory.load(LATCH) == 0 {
                std::thread::yield_now();
            }
            if third {
                let memory = memory.fork();
                threads.spawn(move || count(&memory, Some(own(2))));
            }
            while !until(&memory) {
                std::thread::yield_now();
            }
            unlock(&memory, LATCH, Some(own(0)));
            second.join().unwrap()
        })
    }

    #[test]
    fn a_waiter_becomes_the_bias_owner_immediately_unless_a_third_waits_too() {
        if !memory().process_barrier() {
            return;
        }
        let has_napped = |memory: &Native| memory.load(bias_owner(LATCH)) == 0;
        assert_eq!(bias_owner_after_waiting(false, has_napped), own(1).offset());
        let is_third_overdue = |memory: &Native| latch::is_awaited(memory, LATCH);
        assert_eq!(bias_owner_after_waiting(true, is_third_overdue), 0);
    }

    #[test]
    fn bias_owners_and_others_exclude_one_another() {
        const TIMES: u64 = 20_000;
        let memory = memory();
        std::thread::scope(|threads| {
            for number in 0..4 {
                let view = memory.fork();
                threads.spawn(move || {
                    for time in 0..TIMES {
                        count(&view, (number < 3).then(|| own(number)));
                        // Now and then a thread interrupts another's bias.
                        if time % 1000 == 0 {
                            std::thread::sleep(std::time::Duration::from_micros(200));
                        }
                    }
                });
            }
        });
        assert_eq!(memory.load(COUNT), 4 * TIMES);
    }
}
