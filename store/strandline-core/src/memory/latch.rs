//! A latch in a volatile word, for short critical sections: blocks instead of spinning for long, because the
//! holder may not be running.
//!
//! Whoever comes by takes a free latch, also while others wait: that costs least, since most sections are short and what they
//! touch stays in one core's cache. Who waits looks again after naps that grow, and after a millisecond of them says that it is
//! overdue. Then the next release reserves the latch for those that wait, and wakes one (Drepper's futex mutex, with the
//! eventual fairness of WebKit's locks). A release wakes nobody else.

use std::convert::Infallible;

use super::deadlock::{Awaited, Wait};
use super::{Memory, VolatileAddress};
use crate::error::Result;

/// Looks at a taken latch before sleeping.
pub(super) const PATIENCE: u32 = if cfg!(loom) { 1 } else { 64 };
/// Looks in a row that must find it free: whoever releases it to take it again at once, with all that it guards in its own
/// core's cache, is not robbed of it between.
const FREE_LOOKS: u32 = if cfg!(loom) { 1 } else { 8 };
/// Nanoseconds of the first nap; each further one is twice as long.
pub(super) const NAP: u64 = if cfg!(loom) { 500_000 } else { 50_000 };
/// Nanoseconds of the longest nap, and after which one is overdue.
pub(super) const LONGEST_NAP: u64 = 1_000_000;

// The word is 0 when the latch is free, and otherwise one or more of these.
/// Somebody has it.
const TAKEN: u64 = 1;
/// Somebody who is overdue may be asleep.
const AWAITED: u64 = 2;
/// Somebody was passed by for a millisecond.
const OVERDUE: u64 = 4;
/// Free, for those that have waited.
const RESERVED: u64 = 8;

/// Takes the latch at `at`, waiting for it.
pub fn lock<M: Memory>(memory: &M, at: VolatileAddress) {
    if !try_lock(memory, at) {
        lock_slowly(memory, at);
    }
}

/// Takes the latch at `at` if it is free.
pub fn try_lock<M: Memory>(memory: &M, at: VolatileAddress) -> bool {
    memory.load(at) == 0 && memory.compare_exchange(at, 0, TAKEN).is_ok()
}

/// Takes the latch at `at`, which is held while other threads' transactions run, unless its holder waits for the calling thread.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) then, without the latch.
pub fn lock_unless_deadlocked<M: Memory>(memory: &M, at: VolatileAddress) -> Result<()> {
    if try_lock(memory, at) { Ok(()) } else { lock_polling(memory, at) }
}

#[cold]
fn lock_polling<M: Memory>(memory: &M, at: VolatileAddress) -> Result<()> {
    let wait = Wait::of(memory, Awaited::Rights);
    lock_napping(memory, at, || wait.poll())
}

#[cold]
fn lock_slowly<M: Memory>(memory: &M, at: VolatileAddress) {
    let Ok(()) = lock_napping::<_, Infallible>(memory, at, || Ok(()));
}

/// Takes the latch, and calls `poll` between naps. Gives up if that fails, unless the latch is free by then.
fn lock_napping<M: Memory, E>(
    memory: &M,
    at: VolatileAddress,
    mut poll: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let mut free = 0;
    for _ in 0..PATIENCE {
        free = if memory.load(at) == 0 { free + 1 } else { 0 };
        if free >= FREE_LOOKS && try_lock(memory, at) {
            return Ok(());
        }
        memory.pause();
    }
    let (mut nap, mut napped, mut mark) = (NAP, 0, 0);
    loop {
        let seen = memory.load(at);
        if seen & TAKEN == 0 && (seen == 0 || mark != 0) {
            // Others may be overdue too: whoever is leaves it marked.
            if memory.compare_exchange(at, seen, TAKEN | mark & AWAITED).is_ok() {
                return Ok(());
            }
        } else if seen | mark != seen && seen & TAKEN != 0 {
            // If somebody was quicker there is something else to see.
            let _ = memory.compare_exchange(at, seen, seen | mark);
        } else {
            let is_over = memory.wait_briefly(at, seen, nap);
            napped += if is_over { nap } else { 0 };
            nap = (2 * nap).min(LONGEST_NAP);
            if napped >= LONGEST_NAP {
                mark = AWAITED | OVERDUE;
            }
            if let Err(error) = poll() {
                return if take_or_unmark(memory, at) { Ok(()) } else { Err(error) };
            }
        }
    }
}

/// Takes the latch if it is free; otherwise takes the marks of those that wait away, and others set theirs again after their naps. The next release
/// would reserve the latch for one that has gone: to those that only look whether it is free it would be held for ever.
#[cold]
fn take_or_unmark<M: Memory>(memory: &M, at: VolatileAddress) -> bool {
    loop {
        let seen = memory.load(at);
        if memory.compare_exchange(at, seen, TAKEN).is_ok() {
            return seen & TAKEN == 0;
        }
    }
}

/// Releases the latch at `at`.
pub fn unlock<M: Memory>(memory: &M, at: VolatileAddress) {
    if memory.compare_exchange(at, TAKEN, 0).is_err() {
        unlock_slowly(memory, at);
    }
}

#[cold]
fn unlock_slowly<M: Memory>(memory: &M, at: VolatileAddress) {
    loop {
        let seen = memory.load(at);
        // Who was passed by is still there, and takes it before it sleeps again.
        let left = if seen & OVERDUE == 0 { 0 } else { RESERVED };
        if memory.compare_exchange(at, seen, left).is_ok() {
            break;
        }
    }
    memory.wake_one(at);
    // Otherwise it waits for a core as long as those that run have not used up their time, many times that of the section.
    memory.yield_core();
}

/// Returns whether somebody is overdue for the latch at `at`, which the caller has.
pub fn is_awaited<M: Memory>(memory: &M, at: VolatileAddress) -> bool {
    memory.load(at) & AWAITED != 0
}

/// Waits until the latch at `at` is free, without taking it.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) if its holder waits for the calling thread.
#[cold]
pub fn wait_until_free_unless_deadlocked<M: Memory>(memory: &M, at: VolatileAddress) -> Result<()> {
    loop {
        match memory.load(at) {
            0 => return Ok(()),
            taken => wait_while_unless_deadlocked(memory, at, taken)?,
        }
    }
}

/// Waits while the word at `at`, which whoever changes it changes without waking anybody, has `value`: takes naps if that takes
/// long, because then whoever is to change it may not be running.
#[cold]
pub fn wait_while<M: Memory>(memory: &M, at: VolatileAddress, value: u64) {
    while !wait_a_little(memory, at, value, u32::MAX) {}
}

/// Like [`wait_while`], unless the thread that is to change the word waits for the calling one.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) then.
#[cold]
pub fn wait_while_unless_deadlocked<M: Memory>(memory: &M, at: VolatileAddress, value: u64) -> Result<()> {
    while !wait_a_little_unless_deadlocked(memory, at, value, u32::MAX)? {}
    Ok(())
}

/// Like [`wait_a_little`], unless the thread that is to change the word waits for the calling one.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) then.
#[cold]
pub fn wait_a_little_unless_deadlocked<M: Memory>(
    memory: &M,
    at: VolatileAddress,
    value: u64,
    naps: u32,
) -> Result<bool> {
    let wait = Wait::of(memory, Awaited::Rights);
    wait_napping(memory, at, value, naps, || wait.poll())
}

/// The same, with so many naps at most; whether the word has changed. It may have changed and have the same value again.
#[cold]
pub fn wait_a_little<M: Memory>(memory: &M, at: VolatileAddress, value: u64, naps: u32) -> bool {
    let Ok(has_changed) = wait_napping::<_, Infallible>(memory, at, value, naps, || Ok(()));
    has_changed
}

fn wait_napping<M: Memory, E>(
    memory: &M,
    at: VolatileAddress,
    value: u64,
    naps: u32,
    mut poll: impl FnMut() -> Result<(), E>,
) -> Result<bool, E> {
    for _ in 0..4 * PATIENCE {
        if memory.load(at) != value {
            return Ok(true);
        }
        memory.pause();
    }
    let mut nap = NAP;
    for _ in 0..naps {
        if memory.load(at) != value {
            return Ok(true);
        }
        memory.wait_briefly(at, value, nap);
        nap = (2 * nap).min(LONGEST_NAP);
        poll()?;
    }
    Ok(memory.load(at) != value)
}

/// Runs `attempt` until it finds a worker, again after each [`notify`] at `at`. That word counts notifications while somebody waits; the next one
/// counts those who do.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) if the workers are those of transactions that wait for the calling thread, and the errors of
/// `attempt`.
pub fn wait_for_worker<M: Memory, T>(
    memory: &M,
    at: VolatileAddress,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let wait = Wait::of(memory, Awaited::Worker);
    let waiting = at.word(1);
    // From here on, either a notifier sees that somebody waits, or the attempt sees what it put there: both add to this
    // word, one after the other.
    memory.fetch_add(waiting, 1);
    let result = loop {
        let seen = memory.load(at);
        match attempt() {
            Ok(None) => {
                if let Err(error) = wait.sleep(at, seen) {
                    break Err(error);
                }
            }
            Ok(Some(found)) => break Ok(found),
            Err(error) => break Err(error),
        }
    };
    memory.fetch_add(waiting, u64::MAX);
    if result.is_err() {
        // What it was woken for is still there.
        memory.notify(at);
    }
    result
}

/// Something was put where those that [wait for](wait_for_worker) it at `at` find it; `wake_one` wakes one that waits on that word.
///
/// One is enough: whoever is woken looks, and if somebody else was faster, that one will notify in turn.
pub fn notify<M: Memory>(memory: &M, at: VolatileAddress, wake_one: impl FnOnce()) {
    if load_in_order(memory, at.word(1)) != 0 {
        memory.fetch_add(at, 1);
        wake_one();
    }
}

/// A load that takes its place in the order of the sequentially consistent operations, which a plain load
/// does not: for "I have written mine, now I read yours" from both sides.
pub fn load_in_order<M: Memory>(memory: &M, at: VolatileAddress) -> u64 {
    memory.fetch_add(at, 0)
}

/// Every interleaving and every value that the memory model lets a load return, on [`Native`](super::Native)'s orderings and a futex.
#[cfg(all(test, loom))]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicU64, Ordering, fence};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;
    use crate::memory::Device;
    use crate::memory::{
        Address, Counters, Event, PersistentAddress, Space, Step, VolatileAddress, WORD_BYTES,
    };

    const WORDS: u64 = 6;
    const LATCH: VolatileAddress = VolatileAddress::new(0);
    const OTHER: VolatileAddress = VolatileAddress::new(8);
    const LEASED: VolatileAddress = VolatileAddress::new(16);

    /// A few volatile words.
    pub struct Words {
        words: BTreeMap<u64, AtomicU64>,
        /// The kernel's queue of those that wait, and its lock.
        queue: (Mutex<()>, Condvar),
        /// Stores as exchanges. Loom keeps no single order of stores that do not synchronise, which every processor does: it
        /// lets a thread read its own exchange of 1 for 2 again after it has seen the store of 0 that followed.
        exchanges: bool,
    }

    impl Words {
        pub fn new(exchanges: bool) -> Arc<Self> {
            let words = (0..WORDS).map(|word| (word * WORD_BYTES, AtomicU64::new(0)));
            Arc::new(Self { words: words.collect(), queue: (Mutex::new(()), Condvar::new()), exchanges })
        }

        fn at<A: Address>(&self, at: A) -> &AtomicU64 {
            &self.words[&at.offset()]
        }
    }

    impl Memory for Words {
        fn begin_transaction(&self) -> crate::Result<()> {
            unreachable!()
        }
        fn end_transaction(&self) {
            unreachable!()
        }
        fn load<A: Address>(&self, at: A) -> u64 {
            self.at(at).load(Ordering::Acquire)
        }
        fn store<A: Address>(&self, at: A, value: u64) {
            match self.exchanges {
                true => drop(self.at(at).swap(value, Ordering::Release)),
                false => self.at(at).store(value, Ordering::Release),
            }
        }
        fn load_range<A: Address>(&self, _: A, _: &mut [u64]) {
            unreachable!()
        }
        fn store_range<A: Address>(&self, _: A, _: &[u64]) {
            unreachable!()
        }
        fn store_non_temporal(&self, _: PersistentAddress, _: u64) {
            unreachable!()
        }
        fn compare_exchange<A: Address>(&self, at: A, current: u64, new: u64) -> Result<u64, u64> {
            self.at(at).compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
        }
        fn fetch_add<A: Address>(&self, at: A, by: u64) -> u64 {
            self.at(at).fetch_add(by, Ordering::SeqCst)
        }
        fn write_back(&self, _: PersistentAddress, _: Step) {}
        fn fence(&self, _: Step) {}
        fn prefetch_for_write(&self, _: PersistentAddress) {}
        fn write_back_all(&self, _: Step) -> bool {
            false
        }
        fn emulates_latency(&self) -> bool {
            false
        }
        fn pause(&self) {
            thread::yield_now();
        }
        fn wait(&self, at: VolatileAddress, value: u64) {
            let asleep = self.queue.0.lock().unwrap();
            if self.at(at).load(Ordering::SeqCst) == value {
                drop(self.queue.1.wait(asleep).unwrap());
            }
        }
        fn wait_briefly(&self, at: VolatileAddress, value: u64, _: u64) -> bool {
            // Nobody is woken from a nap but who is overdue, and there is no time here in which it would end.
            match value & AWAITED != 0 {
                true => self.wait(at, value),
                false => thread::yield_now(),
            }
            true
        }
        fn wake(&self, _: VolatileAddress) {
            let _queue = self.queue.0.lock().unwrap();
            self.queue.1.notify_all();
        }
        fn wake_one(&self, _: VolatileAddress) {
            let _queue = self.queue.0.lock().unwrap();
            self.queue.1.notify_one();
        }
        fn has_process_barrier(&self) -> bool {
            true
        }
        fn process_barrier(&self) -> bool {
            fence(Ordering::SeqCst);
            true
        }
        fn event(&self, _: Event) {}
        fn work(&self, _: u32) {}
        fn omitted(&self, _: Step) -> bool {
            false
        }
        fn size(&self, _: Space) -> u64 {
            WORDS * WORD_BYTES
        }
        fn counters(&self) -> Counters {
            Counters::default()
        }
        fn device(&self) -> Option<&dyn Device> {
            None
        }
    }

    /// What the latch guards.
    pub struct Guarded(pub UnsafeCell<u64>);

    // SAFETY: it is used under the latch only; loom panics where two threads use it at once.
    unsafe impl Sync for Guarded {}
    // SAFETY: as above.
    unsafe impl Send for Guarded {}

    /// Threads each take the latch so many times: one at a time is inside, it sees what those before it did, and nobody sleeps
    /// for ever, which loom would report. Each calls with its number.
    pub fn guards(
        threads: u64,
        times: u64,
        preemptions: Option<usize>,
        lock: impl Fn(&Words, u64) + Copy + Send + Sync + 'static,
        unlock: impl Fn(&Words, u64) + Copy + Send + Sync + 'static,
    ) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = preemptions;
        model.check(move || {
            let (words, guarded) = (Words::new(true), Arc::new(Guarded(UnsafeCell::new(0))));
            let run = move |words: &Words, guarded: &Guarded, number: u64| {
                for _ in 0..times {
                    lock(words, number);
                    // SAFETY: under the latch.
                    guarded.0.with_mut(|count| unsafe { *count += 1 });
                    unlock(words, number);
                }
            };
            let others = (1..threads).map(|number| {
                let (words, guarded) = (words.clone(), guarded.clone());
                thread::spawn(move || run(&words, &guarded, number))
            });
            let others: Vec<_> = others.collect();
            run(&words, &guarded, 0);
            others.into_iter().for_each(|other| other.join().unwrap());
            // SAFETY: all others have ended.
            assert_eq!(guarded.0.with(|count| unsafe { *count }), threads * times);
            assert_eq!(words.load(LATCH), 0);
        });
    }

    #[test]
    fn two_threads_exclude_each_other_with_three_preemptions() {
        guards(2, 2, Some(3), |words, _| lock(words, LATCH), |words, _| unlock(words, LATCH));
    }

    #[test]
    fn three_threads_exclude_one_another_with_two_preemptions() {
        guards(3, 1, Some(2), |words, _| lock(words, LATCH), |words, _| unlock(words, LATCH));
    }

    /// The latch is free when one has gone that gave up as the holder left.
    #[test]
    fn one_that_gives_up_when_it_is_overdue_reserves_nothing() {
        loom::model(|| {
            let words = Words::new(true);
            lock(&*words, LATCH);
            let other = thread::spawn({
                let words = words.clone();
                move || {
                    let _ = words.compare_exchange(LATCH, TAKEN, TAKEN | AWAITED | OVERDUE);
                    if take_or_unmark(&*words, LATCH) {
                        unlock(&*words, LATCH);
                    }
                }
            });
            unlock(&*words, LATCH);
            other.join().unwrap();
            assert_eq!(words.load(LATCH), 0);
        });
    }

    /// Threads each lease what is leased at first, when it has been given back, and give it back in turn: all get it.
    fn hands_on(threads: usize, preemptions: Option<usize>) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = preemptions;
        model.check(move || {
            let words = Words::new(false);
            words.store(LEASED, 1);
            let give_back = |words: &Words| {
                words.store(LEASED, 0);
                notify(words, LATCH, || {
                    let _queue = words.queue.0.lock().unwrap();
                    words.queue.1.notify_one();
                });
            };
            let others = (0..threads).map(|_| {
                let words = words.clone();
                thread::spawn(move || {
                    let lease = || Ok(words.compare_exchange(LEASED, 0, 1).ok());
                    wait_for_worker(&*words, LATCH, lease).unwrap();
                    give_back(&words);
                })
            });
            let others: Vec<_> = others.collect();
            give_back(&words);
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!((words.load(LEASED), words.load(OTHER)), (0, 0));
        });
    }

    #[test]
    fn one_that_waits_for_a_lease_gets_it() {
        hands_on(1, None);
    }

    #[test]
    fn two_that_wait_for_a_lease_get_it_with_two_preemptions() {
        hands_on(2, Some(2));
    }

    /// "I have written mine, now I read yours": one of both sees the other's, as gate and commit need.
    #[test]
    fn loads_in_order_see_one_another() {
        loom::model(|| {
            let words = Words::new(false);
            let other = {
                let words = words.clone();
                thread::spawn(move || {
                    words.store(OTHER, 1);
                    load_in_order(&*words, LATCH)
                })
            };
            words.store(LATCH, 1);
            let seen = load_in_order(&*words, OTHER);
            assert!(seen + other.join().unwrap() > 0);
        });
    }
}
