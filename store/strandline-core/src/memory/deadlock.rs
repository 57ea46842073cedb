//! Deadlocks between pools, in threads that run transactions of several pools at the same time and begin them in different orders.
//!
//! Within a pool, waiting is ordered, so that threads never wait for each other. Between pools it is not: a thread may hold rights of one pool (the
//! writer's lock, the serial token, locks of lines) while it waits for rights of another, and a second thread may do the opposite.
//!
//! A thread registers here only when it waits for something of one pool inside a transaction of another, so other threads pay nothing. What it holds
//! is read from the volatile words of the pools whose transactions it runs; a transaction that only reads counts as holding nothing. Threads and
//! pools form a graph: a waiter waits for a pool, and for each other waiter that holds rights of that pool. After each nap, a waiter looks for a
//! cycle through itself. If a cycle has lasted for some naps of its youngest waiter, that one gets [`Error::Deadlock`]; the others continue to wait,
//! now for its rollback.
//!
//! The graph does not contain for which of a pool's rights a thread waits. So two threads that nest two pools in opposite orders may get the error
//! although each would have continued soon. A thread that nests pools in the same order as all others never gets it.

use std::cell::Cell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::process::Process;
use super::{Mapping, Memory, VolatileAddress, WORD_BYTES, running};
use crate::error::{Error, Result};

/// The number of times that the youngest waiter sees the same cycle before it gives up, which takes some milliseconds.
const LOOKS: u32 = 8;

/// The resource of a pool for which a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The end of transactions that hold locks.
    Rights,
    /// One of the pool's workers, all of which running transactions have.
    Worker,
}

/// A thread's wait for something of the pool with this memory.
pub struct Wait<'m, M: Memory> {
    memory: &'m M,
    awaited: Awaited,
}

impl<'m, M: Memory> Wait<'m, M> {
    /// Begins a wait.
    pub fn of(memory: &'m M, awaited: Awaited) -> Self {
        Self { memory, awaited }
    }

    /// Checks, between two naps, whether the wait can end.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if it cannot.
    pub fn poll(&self) -> Result<()> {
        self.memory.poll_wait(self.awaited)
    }

    /// Sleeps while the word at `at` has `value`; only for a nap if the thread runs a transaction of another pool.
    ///
    /// # Errors
    /// Returns the errors of [`Wait::poll`].
    pub fn sleep(&self, at: VolatileAddress, value: u64) -> Result<()> {
        if !self.memory.is_nested() {
            self.memory.wait(at, value);
            return Ok(());
        }
        self.memory.wait_briefly(at, value, super::latch::LONGEST_NAP);
        self.poll()
    }
}

impl<M: Memory> Drop for Wait<'_, M> {
    fn drop(&mut self) {
        self.memory.end_wait();
    }
}

/// Loads a volatile word of a pool.
type Load<'l> = &'l dyn Fn(VolatileAddress) -> u64;
/// Returns whether the worker with this line holds rights for which other threads wait.
pub type Holds = Box<dyn Fn(Load<'_>, VolatileAddress) -> bool + Send>;

/// An open pool.
struct Pool {
    volatile: Weak<Mapping>,
    /// The memory addresses of its volatile words.
    words: Range<u64>,
    path: PathBuf,
    workers: u64,
    holds: Holds,
}

/// A thread that waits for something of one pool inside transactions of others.
struct Waiter {
    /// The waiter's number; later waiters have higher numbers.
    id: u64,
    /// The pool for which it waits, identified by the address of its volatile words.
    pool: u64,
    awaited: Awaited,
    /// The other pools whose transactions the waiter runs.
    runs: Vec<u64>,
    /// Those of these pools to which the waiter holds rights.
    holds: Vec<u64>,
    /// The last cycle that the waiter has seen, and the number of times in a row.
    cycle: Vec<u64>,
    looks: u32,
}

#[derive(Default)]
struct State {
    pools: Vec<Pool>,
    waiters: Vec<Waiter>,
    last_id: u64,
}

/// The state of one process.
struct Registry {
    process: Process,
    state: Mutex<State>,
}

thread_local! {
    /// The number of the thread's waiter, or 0.
    static WAITER: Cell<u64> = const { Cell::new(0) };
}

/// Returns this process's state. A forked child has a new one, because a thread that the child does not have may have locked the parent's.
fn state() -> MutexGuard<'static, State> {
    static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());
    loop {
        let known = REGISTRY.load(Ordering::Acquire);
        // SAFETY: the pointer is null or came from `Box::leak` below, and what it refers to is never freed.
        if let Some(registry) = unsafe { known.as_ref() }
            && registry.process.is_current()
        {
            return registry.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let new = Box::leak(Box::new(Registry { process: Process::current(), state: Mutex::default() }));
        // If another thread was faster, the next iteration finds what it has stored.
        let _ = REGISTRY.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Registers a pool with these volatile words, so that errors can name it.
pub fn register(volatile: &Arc<Mapping>, path: &Path, workers: u64, holds: Holds) {
    let pools = &mut state().pools;
    pools.retain(|pool| pool.volatile.strong_count() > 0);
    pools.push(Pool {
        volatile: Arc::downgrade(volatile),
        words: running::words_of(volatile),
        path: path.to_owned(),
        workers,
        holds,
    });
}

impl State {
    /// Returns the open pool whose volatile words include address `at`.
    fn pool(&self, at: u64) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.words.contains(&at) && pool.volatile.strong_count() > 0)
    }

    fn path(&self, at: u64) -> PathBuf {
        self.pool(at).map_or_else(PathBuf::new, |pool| pool.path.clone())
    }

    /// Returns the pool of the worker whose words are at address `worker`, and whether the worker holds rights of that pool.
    fn held_by(&self, worker: u64) -> (u64, bool) {
        // Memory that belongs to no pool in a file is not registered.
        let Some(pool) = self.pool(worker) else { return (worker, true) };
        let Some(volatile) = pool.volatile.upgrade() else { return (worker, true) };
        let load = |at: VolatileAddress| {
            volatile.words()[(at.offset() / WORD_BYTES) as usize].load(Ordering::Acquire)
        };
        let line = VolatileAddress::new(worker - pool.words.start);
        (pool.words.start, (pool.holds)(&load, line))
    }

    /// Returns the waiters for which `waiter` waits.
    fn blockers(&self, waiter: &Waiter) -> Vec<&Waiter> {
        let others = self.waiters.iter().filter(|other| other.id != waiter.id);
        match waiter.awaited {
            Awaited::Rights => others.filter(|other| other.holds.contains(&waiter.pool)).collect(),
            Awaited::Worker => {
                let running: Vec<_> = others.filter(|other| other.runs.contains(&waiter.pool)).collect();
                let workers = self.pool(waiter.pool).map_or(1, |pool| pool.workers);
                // If some worker is with a thread that does not wait, it may come back.
                if running.len() as u64 >= workers { running } else { Vec::new() }
            }
        }
    }

    /// Returns the waiters of a cycle through the waiter with number `id`, beginning with that one.
    fn cycle(&self, id: u64) -> Option<Vec<&Waiter>> {
        let first = self.waiters.iter().find(|waiter| waiter.id == id)?;
        let (mut path, mut seen) = (vec![first], vec![]);
        let mut next = vec![self.blockers(first)];
        while let Some(blockers) = next.last_mut() {
            match blockers.pop() {
                Some(waiter) if waiter.id == id => return Some(path),
                Some(waiter) if seen.contains(&waiter.id) => {}
                Some(waiter) => {
                    seen.push(waiter.id);
                    path.push(waiter);
                    next.push(self.blockers(waiter));
                }
                None => {
                    next.pop();
                    path.pop();
                }
            }
        }
        None
    }
}

/// Notes that the calling thread, which runs transactions of the workers `elsewhere` of other pools, waits for something of the pool whose volatile
/// words begin at `pool`.
///
/// # Errors
/// Returns [`Error::Deadlock`] if the wait would never end, or not soon.
#[cold]
pub(super) fn poll(pool: u64, awaited: Awaited, elsewhere: &[u64]) -> Result<()> {
    let state = &mut *state();
    let mut id = WAITER.get();
    if !state.waiters.iter().any(|waiter| waiter.id == id) {
        let held: Vec<_> = elsewhere.iter().map(|&worker| state.held_by(worker)).collect();
        state.last_id += 1;
        id = state.last_id;
        WAITER.set(id);
        state.waiters.push(Waiter {
            id,
            pool,
            awaited,
            runs: held.iter().map(|&(pool, _)| pool).collect(),
            holds: held.iter().filter(|(_, holds)| *holds).map(|&(pool, _)| pool).collect(),
            cycle: Vec::new(),
            looks: 0,
        });
    }
    let (ids, holder) = match state.cycle(id) {
        // The last waiter of the cycle waits for the pool whose transaction holds rights of this pool.
        Some(cycle) => (cycle.iter().map(|waiter| waiter.id).collect(), cycle.last().map_or(0, |it| it.pool)),
        None => (Vec::new(), 0),
    };
    let is_youngest = ids.iter().all(|&other| other <= id);
    let Some(own) = state.waiters.iter_mut().find(|waiter| waiter.id == id) else { return Ok(()) };
    own.looks = if own.cycle == ids { own.looks + 1 } else { 1 };
    own.cycle = ids;
    if own.cycle.is_empty() || !is_youngest || own.looks < LOOKS {
        return Ok(());
    }
    let error = Error::Deadlock { held: state.path(holder), awaited: state.path(pool) };
    state.waiters.retain(|waiter| waiter.id != id);
    WAITER.set(0);
    Err(error)
}

/// Notes that the calling thread no longer waits.
pub(super) fn end() {
    if WAITER.get() != 0 {
        end_registered();
    }
}

#[cold]
fn end_registered() {
    let id = WAITER.replace(0);
    state().waiters.retain(|waiter| waiter.id != id);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(id: u64, pool: u64, awaited: Awaited, runs: &[u64], holds: &[u64]) -> Waiter {
        let (runs, holds) = (runs.to_vec(), holds.to_vec());
        Waiter { id, pool, awaited, runs, holds, cycle: Vec::new(), looks: 0 }
    }

    fn cycle(waiters: Vec<Waiter>, of: u64) -> Option<Vec<u64>> {
        let state = State { waiters, ..State::default() };
        state.cycle(of).map(|cycle| cycle.iter().map(|waiter| waiter.id).collect())
    }

    #[test]
    fn cycles_are_found_and_nothing_else_is() {
        use Awaited::{Rights, Worker};
        let rights = |id, holds, pool| waiter(id, pool, Rights, &[holds], &[holds]);
        assert_eq!(cycle(vec![rights(1, 10, 20), rights(2, 20, 10)], 1), Some(vec![1, 2]));
        assert_eq!(cycle(vec![rights(1, 10, 20), rights(2, 10, 20)], 1), None, "the same order");
        let three = || vec![rights(1, 10, 20), rights(2, 20, 30), rights(3, 30, 10)];
        assert_eq!(cycle(three(), 3), Some(vec![3, 1, 2]));
        // A fourth waiter waits for the cycle, but does not belong to it.
        let four = || three().into_iter().chain([rights(4, 40, 10)]).collect();
        assert_eq!((cycle(four(), 4), cycle(four(), 1)), (None, Some(vec![1, 2, 3])));
        let reader = |id, runs, pool| waiter(id, pool, Rights, &[runs], &[]);
        assert_eq!(cycle(vec![rights(1, 10, 20), reader(2, 20, 10)], 1), None, "a reader holds nothing");
        // The pool's only worker belongs to a transaction that only reads.
        let for_worker = waiter(1, 20, Worker, &[10], &[10]);
        assert_eq!(cycle(vec![for_worker, reader(2, 20, 10)], 1), Some(vec![1, 2]));
    }
}
