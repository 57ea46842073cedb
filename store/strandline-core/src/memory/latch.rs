//! A latch in a volatile word, for short critical sections. Threads sleep instead of spinning for long, because the holder may not be running.
//!
//! A thread may take a free latch even while others wait. This is the cheapest way, since most sections are short and their data stay in one core's
//! cache. A waiting thread looks again after naps of increasing length. After a millisecond of naps it marks itself as overdue. The next release then
//! reserves the latch for waiting threads and wakes one of them (Drepper's futex mutex with the eventual fairness of WebKit's locks). Other releases
//! wake no thread.

use std::convert::Infallible;

use super::deadlock::{Awaited, Wait};
use super::{Memory, VolatileAddress};
use crate::error::Result;

/// Number of looks at a taken latch before the thread sleeps.
pub(super) const PATIENCE: u32 = if cfg!(loom) { 1 } else { 64 };
/// Number of successive looks that must find the latch free. So a thread that releases it and takes it again immediately does not lose it in between,
/// with all the data that its core has cached.
const FREE_LOOKS: u32 = if cfg!(loom) { 1 } else { 8 };
/// Length of the first nap, in nanoseconds. Each further nap is twice as long.
pub(super) const NAP: u64 = if cfg!(loom) { 500_000 } else { 50_000 };
/// Length of the longest nap, in nanoseconds; a thread that has napped for so long is overdue.
pub(super) const LONGEST_NAP: u64 = 1_000_000;

// The word is 0 when the latch is free, and otherwise one or more of these.
/// A thread holds the latch.
const TAKEN: u64 = 1;
/// A thread that is overdue may be asleep.
const AWAITED: u64 = 2;
/// A waiting thread was passed over for a millisecond.
const OVERDUE: u64 = 4;
/// The latch is free, but only for waiting threads.
const RESERVED: u64 = 8;

/// Waits for the latch at `at` and takes it.
pub fn lock<M: Memory>(memory: &M, at: VolatileAddress) {
    if !try_lock(memory, at) {
        lock_slowly(memory, at);
    }
}

/// Takes the latch at `at` if it is free. Returns whether it was.
pub fn try_lock<M: Memory>(memory: &M, at: VolatileAddress) -> bool {
    memory.load(at) == 0 && memory.compare_exchange(at, 0, TAKEN).is_ok()
}

/// Takes the latch at `at`, which is held while other threads' transactions run, unless its holder waits for the calling thread.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) if it does; the latch is not held then.
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

/// Takes the latch, and calls `poll` between naps. If `poll` fails, gives up, unless the latch is free by then.
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
            // Others may be overdue too, so an overdue thread leaves the mark.
            if memory.compare_exchange(at, seen, TAKEN | mark & AWAITED).is_ok() {
                return Ok(());
            }
        } else if seen | mark != seen && seen & TAKEN != 0 {
            // If this fails, another thread was faster, and the loop looks again.
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

/// Takes the latch if it is free. Otherwise removes the marks of waiting threads; those that still wait set theirs again after their naps. If the
/// mark of a thread that has given up remained, the next release would reserve the latch for it, and for threads that only check whether it is free
/// it would be held forever.
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
        // The thread that was passed over still waits, and takes the latch before it sleeps again.
        let left = if seen & OVERDUE == 0 { 0 } else { RESERVED };
        if memory.compare_exchange(at, seen, left).is_ok() {
            break;
        }
    }
    memory.wake_one(at);
    // Otherwise the woken thread waits for a core until running threads have used up their time, which is many times the length of a section.
    memory.yield_core();
}

/// Returns whether a thread is overdue for the latch at `at`, which the caller holds.
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

/// Waits while the word at `at` has `value`. Threads change the word without waking others. If this takes long, it naps, because the thread that
/// should change the word may not be running.
#[cold]
pub fn wait_while<M: Memory>(memory: &M, at: VolatileAddress, value: u64) {
    while !wait_a_little(memory, at, value, u32::MAX) {}
}

/// Like [`wait_while`], unless the thread that should change the word waits for the calling thread.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) if it does.
#[cold]
pub fn wait_while_unless_deadlocked<M: Memory>(memory: &M, at: VolatileAddress, value: u64) -> Result<()> {
    while !wait_a_little_unless_deadlocked(memory, at, value, u32::MAX)? {}
    Ok(())
}

/// Like [`wait_a_little`], unless the thread that should change the word waits for the calling thread.
///
/// # Errors
/// Returns [`Error::Deadlock`](crate::Error::Deadlock) if it does.
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

/// Like [`wait_while`], but with at most `naps` naps. Returns whether the word has changed. It may have changed and have the same value again.
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

/// Calls `attempt` until it finds a worker, and again after each [`notify`] at `at`. That word counts notifications while a thread waits; the next
/// word counts waiting threads.
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
    // From here on, either a notifying thread sees that this one waits, or the attempt sees what that thread has put there: both add to this word,
    // one after the other.
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
        // The reason of the notification remains, so another thread is notified.
        memory.notify(at);
    }
    result
}

/// Notifies a thread that [waits](wait_for_worker) at `at` that something was put where it looks. `wake_one` wakes one thread that waits on that
/// word.
///
/// Waking one suffices: it looks, and if another thread was faster, that thread will notify in turn.
pub fn notify<M: Memory>(memory: &M, at: VolatileAddress, wake_one: impl FnOnce()) {
    if load_in_order(memory, at.word(1)) != 0 {
        memory.fetch_add(at, 1);
        wake_one();
    }
}

/// Loads a word in the order of the sequentially consistent operations, which a plain load does not. It is for two threads of which each stores its
/// own word and then loads the other's.
pub fn load_in_order<M: Memory>(memory: &M, at: VolatileAddress) -> u64 {
    memory.fetch_add(at, 0)
}

/// Explores each interleaving and each value that the memory model lets a load return, with [`Native`](super::Native)'s orderings and a futex.
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
        /// The kernel's queue of waiting threads, and its lock.
        queue: (Mutex<()>, Condvar),
        /// True if stores are exchanges. Loom has no single order of stores that do not synchronize, as each processor has: it lets a thread read its
        /// own exchange of 1 for 2 again after the thread has seen the store of 0 that followed.
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
            // Only overdue threads are woken from a nap, and there is no time here in which a nap would end.
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

    /// The data that the latch guards.
    pub struct Guarded(pub UnsafeCell<u64>);

    // SAFETY: the data are only used under the latch; loom panics if two threads use them at once.
    unsafe impl Sync for Guarded {}
    // SAFETY: as above.
    unsafe impl Send for Guarded {}

    /// Lets threads take the latch several times each. Only one at a time may be inside, it must see what those before it did, and none may sleep
    /// forever, which loom would report. Each thread calls with its number.
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
                    // SAFETY: the latch is held.
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
            // SAFETY: all other threads have ended.
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

    /// The latch must be free after a thread has given up just when the holder released it.
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

    /// Threads wait for something that is leased, and each leases and returns it in turn. All must get it.
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

    /// Of two threads that each store their own word and then load the other's, one must see the other's store. The gate and commits rely on that.
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
