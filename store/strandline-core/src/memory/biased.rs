//! A latch for what one thread mostly takes again and again, which then costs two plain stores.
//!
//! Whoever has taken the latch many times in a row, or waited until another thread's turn was over, becomes its favourite. The favourite has
//! a word of its own, and is inside while that is 1: it says so, and looks whether it still is the favourite. Anybody else takes the latch
//! itself, ends the bias, has every thread of the process go through a memory barrier, and waits until the favourite is not inside. So of
//! the two, one sees what the other stored; the side that pays is the one that seldom comes (biased locking, Kawachiya, Koseki and Onodera;
//! the barrier of one side for both, Dice, Huang and Yang). A favourite that comes again and again sees at its next transaction that it is
//! none any more, and says so in its word: then there is no need for the barrier, for which both would wait longer.
//!
//! An atomic exchange would wait until all that was written back before it has reached memory, at the end of each transaction and again
//! at the beginning of the next.

use super::latch::{self, LONGEST_NAP, NAP, PATIENCE};
use super::{Memory, VolatileAddress};
use crate::error::Result;

/// The favourite is inside.
const PRESENT: u64 = 1;
/// It has seen that it is not the favourite: it is not inside as such, nor will be before it is the favourite again.
const ENDED: u64 = 2;
/// How often in a row somebody takes the latch before it is the favourite, if it did not have to wait. The end of a bias, which takes some
/// microseconds, is no more than a few nanoseconds to each of them.
const FAVOURED_AFTER: u64 = if cfg!(loom) { 1 } else { 256 };
/// Naps, each twice as long as the one before and [`LONGEST_NAP`] or a little more together, before the bias of one that is always inside
/// is ended.
const NAPS: u32 = if cfg!(loom) { 1 } else { (LONGEST_NAP / NAP).ilog2() + 1 };
/// How often the barrier is tried before the process ends, with a nap of about a millisecond between.
const BARRIER_ATTEMPTS: u32 = 64;

// The words of a latch are of one line, and so are the favourite's own and what else it stores to.
/// Where the favourite says that it is inside; 0: there is none.
fn favourite(at: VolatileAddress) -> VolatileAddress {
    at.word(1)
}
/// The same word of whoever took the latch itself last.
fn last(at: VolatileAddress) -> VolatileAddress {
    at.word(2)
}
/// How often in a row it did so.
fn times(at: VolatileAddress) -> VolatileAddress {
    at.word(3)
}

/// Takes the latch at `at`, the first of four words, if who has the word `own`, to which `store_own` stores, is its favourite.
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
    if memory.load(favourite(at)) == own.offset() {
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

/// Takes the latch at `at`, the first of four words, waiting for it; `own` is a word that nobody else stores to, of one who may become the
/// favourite, and for no other latch.
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

/// Returns whether the thread whose word is `own` holds the latch at `at`; `load` reads the words. The answer is exact while that thread does
/// nothing. Where there is no favourite, another thread may be the holder.
pub fn is_held_by(load: impl Fn(VolatileAddress) -> u64, at: VolatileAddress, own: VolatileAddress) -> bool {
    // Systems without favourites do not note the last holder.
    load(own) == PRESENT || (load(at) != 0 && [0, own.offset()].contains(&load(last(at))))
}

/// The favourite is away for longer than others wait without looking: who waits for that looks now.
pub fn step_aside<M: Memory>(memory: &M, at: VolatileAddress) {
    if memory.has_process_barrier() && memory.load(at) != 0 {
        memory.wake_one(times(at));
    }
}

/// Only who has the latch itself changes who is the favourite.
#[inline(never)]
fn lock_latch<M: Memory>(memory: &M, at: VolatileAddress, own: Option<VolatileAddress>) -> Result<()> {
    memory.lock_unless_deadlocked(at)?;
    let has_napped = match memory.load(favourite(at)) {
        0 => false,
        present => match end_bias(memory, at, VolatileAddress::new(present)) {
            Ok(has_napped) => has_napped,
            Err(error) => {
                // The favourite holds the latch and stays the favourite: it goes on as if no other thread had asked.
                memory.store(favourite(at), present);
                memory.unlock(at);
                return Err(error);
            }
        },
    };
    let Some(own) = own else { return Ok(()) };
    // It has waited for longer than it takes to end its own bias, and will be left alone as long by one that comes again and again. Where a
    // third has waited long, that one is next.
    let times_before = if has_napped && !latch::is_awaited(memory, at) {
        FAVOURED_AFTER - 1
    } else if memory.load(last(at)) == own.offset() {
        memory.load(times(at))
    } else {
        0
    };
    memory.store(last(at), own.offset());
    memory.store(times(at), (times_before + 1) % FAVOURED_AFTER);
    // Once, so that it is known that the system does it.
    if times_before + 1 == FAVOURED_AFTER && (has_napped || memory.process_barrier()) {
        memory.store(own, PRESENT);
        memory.store(favourite(at), own.offset());
        memory.unlock(at);
    }
    Ok(())
}

/// Waits until the favourite, whose own word is `present`, is not inside, and never will be again by being the favourite. Whether it was
/// there at first, and left alone for a while.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) if the favourite, while it holds the latch, waits for the calling thread.
#[cold]
fn end_bias<M: Memory>(memory: &M, at: VolatileAddress, present: VolatileAddress) -> Result<bool> {
    // One that comes again and again keeps what it has in its core's cache for a while.
    let mut naps = 0;
    while naps < NAPS && !is_away(memory, present) {
        // Where nothing changes meanwhile, and nobody wakes anybody but by [`step_aside`].
        memory.wait_briefly(times(at), memory.load(times(at)), NAP << naps);
        naps += 1;
    }
    memory.store(favourite(at), 0);
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
            // Nobody could be let in any more. What is committed is in the pool.
            eprintln!("strandline: the system refuses membarrier, which it did not before");
            std::process::abort();
        }
        latch::wait_while_unless_deadlocked(memory, present, PRESENT)?;
    }
    Ok(naps > 0)
}

/// Returns whether the favourite soon says that it has seen that it is none.
fn has_ended<M: Memory>(memory: &M, present: VolatileAddress) -> bool {
    (0..4 * PATIENCE).any(|_| {
        memory.pause();
        memory.load(present) == ENDED
    })
}

/// Returns whether the favourite is not inside for longer than it takes to come again at once.
fn is_away<M: Memory>(memory: &M, present: VolatileAddress) -> bool {
    (0..PATIENCE).all(|_| {
        memory.pause();
        memory.load(present) != PRESENT
    })
}

/// Its own store comes before its load for the compiler, and with [`Memory::process_barrier`] for the processor.
#[inline]
fn light_barrier() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    // Loom has no barrier of one side for both.
    #[cfg(all(loom, test))]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

/// Every interleaving and every value that the memory model lets a load return, with full barriers for those of one side.
#[cfg(all(test, loom))]
mod tests {
    use super::super::latch::tests::guards;
    use super::*;

    const LATCH: VolatileAddress = VolatileAddress::new(0);

    /// Everybody may become the favourite but the last of three.
    fn own(number: u64) -> Option<VolatileAddress> {
        (number < 2).then(|| LATCH.word(4 + number))
    }

    #[test]
    fn a_favourite_and_another_exclude_each_other_with_three_preemptions() {
        guards(
            2,
            3,
            Some(3),
            |words, number| lock(words, LATCH, own(number)).unwrap(),
            |words, number| unlock(words, LATCH, own(number)),
        );
    }

    #[test]
    fn a_favourite_and_two_others_exclude_one_another_with_two_preemptions() {
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
    fn who_takes_it_again_and_again_is_the_favourite_until_another_does() {
        let memory = memory();
        if !memory.process_barrier() {
            // Then there never is one.
            return;
        }
        let favourite = || memory.load(favourite(LATCH));
        for _ in 1..FAVOURED_AFTER {
            count(&memory, Some(own(0)));
        }
        assert_eq!(favourite(), 0);
        count(&memory, Some(own(0)));
        assert_eq!(favourite(), own(0).offset());
        lock(&memory, LATCH, Some(own(0))).unwrap();
        assert_eq!((memory.load(LATCH), memory.load(own(0))), (0, PRESENT), "it has it without the latch");
        unlock(&memory, LATCH, Some(own(0)));
        // One that cannot become it, and one that has to begin anew.
        count(&memory, None);
        assert_eq!(favourite(), 0);
        for _ in 0..FAVOURED_AFTER {
            count(&memory, Some(own(0)));
        }
        assert_eq!(favourite(), own(0).offset());
        count(&memory, Some(own(1)));
        assert_eq!(favourite(), 0);
        count(&memory, Some(own(0)));
        assert_eq!((favourite(), memory.load(LATCH), memory.load(own(0))), (0, 0, ENDED));
    }

    /// Makes number 0 the favourite, and it is inside until `until` holds. Meanwhile number 1 takes the latch, and, if `third`, number 2 waits
    /// for it. Who is the favourite while number 1 is inside.
    fn favourite_after_waiting(third: bool, until: fn(&Native) -> bool) -> u64 {
        let memory = memory();
        for _ in 0..FAVOURED_AFTER {
            count(&memory, Some(own(0)));
        }
        lock(&memory, LATCH, Some(own(0))).unwrap();
        std::thread::scope(|threads| {
            let second = threads.spawn({
                let memory = memory.fork();
                move || {
                    lock(&memory, LATCH, Some(own(1))).unwrap();
                    let found = memory.load(favourite(LATCH));
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
    fn who_has_waited_is_the_favourite_at_once_unless_a_third_has_waited_too() {
        if !memory().process_barrier() {
            return;
        }
        let has_napped = |memory: &Native| memory.load(favourite(LATCH)) == 0;
        assert_eq!(favourite_after_waiting(false, has_napped), own(1).offset());
        let is_third_overdue = |memory: &Native| latch::is_awaited(memory, LATCH);
        assert_eq!(favourite_after_waiting(true, is_third_overdue), 0);
    }

    #[test]
    fn favourites_and_others_exclude_one_another() {
        const TIMES: u64 = 20_000;
        let memory = memory();
        std::thread::scope(|threads| {
            for number in 0..4 {
                let view = memory.fork();
                threads.spawn(move || {
                    for time in 0..TIMES {
                        count(&view, (number < 3).then(|| own(number)));
                        // Now and then somebody comes to another's bias.
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
