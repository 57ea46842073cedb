//! Deadlocks between pools: threads that run transactions of several pools at the same time, begun in different orders.
//!
//! Within one pool waiting is ordered, so that threads never wait for each other. The order ends at the pool: a thread may hold rights of one pool
//! (the writer's lock, the serial token, locks of lines) while it waits for rights of another one, and a second thread the other way round.
//!
//! A thread registers here when it waits for something of one pool inside a transaction of another, and only then: other threads pay
//! nothing. What it holds is read from the volatile words of the pools whose transactions it runs, so that a transaction that only reads counts as
//! holding nothing. Threads and pools form a graph: a waiter waits for a pool, and for every other waiter that holds rights of that pool.
//! Each waiter looks for a cycle through itself after each nap. The youngest waiter of a cycle that has lasted for some of its naps gets
//! [`Error::Deadlock`]; the others go on waiting, now for its rollback.
//!
//! The graph does not know which of a pool's rights a thread waits for. So two threads that nest two pools in opposite orders may meet the
//! error although each would have gone on soon: no thread meets it that nests pools in the same order as all others.

use std::cell::Cell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::process::Process;
use super::{Mapping, Memory, VolatileAddress, WORD_BYTES, running};
use crate::error::{Error, Result};

/// Looks of the youngest waiter at the same cycle before it gives up: some milliseconds.
const LOOKS: u32 = 8;

/// The part of a pool that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The end of transactions that hold locks.
    Rights,
    /// One of the pool's workers, each of which a running transaction has.
    Worker,
}

/// A thread's wait for something of the pool behind `memory`.
pub struct Wait<'m, M: Memory> {
    memory: &'m M,
    awaited: Awaited,
}

impl<'m, M: Memory> Wait<'m, M> {
    /// A wait that begins.
    pub fn of(memory: &'m M, awaited: Awaited) -> Self {
        Self { memory, awaited }
    }

    /// Checks, between two naps, that the wait can end.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if it cannot.
    pub fn poll(&self) -> Result<()> {
        self.memory.poll_wait(self.awaited)
    }

    /// Sleeps while the word at `at` has `value`, for a nap only if the thread runs a transaction of another pool.
    ///
    /// # Errors
    /// As for [`Wait::poll`].
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
/// Whether the worker with this line holds rights that other threads wait for.
pub type Holds = Box<dyn Fn(Load<'_>, VolatileAddress) -> bool + Send>;

/// An open pool.
struct Pool {
    volatile: Weak<Mapping>,
    /// The addresses of its volatile words.
    words: Range<u64>,
    path: PathBuf,
    workers: u64,
    holds: Holds,
}

/// A thread that waits for something of one pool inside transactions of others.
struct Waiter {
    /// Rises from waiter to waiter.
    id: u64,
    /// The pool that it waits for, by where its volatile words begin.
    pool: u64,
    awaited: Awaited,
    /// The other pools whose transactions it runs.
    runs: Vec<u64>,
    /// Those of them of which it holds rights.
    holds: Vec<u64>,
    /// The cycle that it saw last, and how often in a row.
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
    /// The number of the thread's waiter; 0: none.
    static WAITER: Cell<u64> = const { Cell::new(0) };
}

/// This process's state. A forked child has a new one, since the parent's may have been locked by a thread that the child does not have.
fn state() -> MutexGuard<'static, State> {
    static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(std::ptr::null_mut());
    loop {
        let known = REGISTRY.load(Ordering::Acquire);
        // SAFETY: it is null or came from `Box::leak` below, and is never freed.
        if let Some(registry) = unsafe { known.as_ref() }
            && registry.process.is_current()
        {
            return registry.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let new = Box::leak(Box::new(Registry { process: Process::current(), state: Mutex::default() }));
        // Whatever a thread that was faster has stored is found by the next look.
        let _ = REGISTRY.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Makes a pool known that has these volatile words, so that errors name it.
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
    /// The open pool one of whose volatile words is at address `at`.
    fn pool(&self, at: u64) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.words.contains(&at) && pool.volatile.strong_count() > 0)
    }

    fn path(&self, at: u64) -> PathBuf {
        self.pool(at).map_or_else(PathBuf::new, |pool| pool.path.clone())
    }

    /// The pool of a worker whose words are at address `worker`, and whether it holds rights of that pool.
    fn held_by(&self, worker: u64) -> (u64, bool) {
        // Nothing is known of memory that is no file's pool.
        let Some(pool) = self.pool(worker) else { return (worker, true) };
        let Some(volatile) = pool.volatile.upgrade() else { return (worker, true) };
        let load = |at: VolatileAddress| {
            volatile.words()[(at.offset() / WORD_BYTES) as usize].load(Ordering::Acquire)
        };
        let line = VolatileAddress::new(worker - pool.words.start);
        (pool.words.start, (pool.holds)(&load, line))
    }

    /// The waiters that `waiter` waits for.
    fn blockers(&self, waiter: &Waiter) -> Vec<&Waiter> {
        let others = self.waiters.iter().filter(|other| other.id != waiter.id);
        match waiter.awaited {
            Awaited::Rights => others.filter(|other| other.holds.contains(&waiter.pool)).collect(),
            Awaited::Worker => {
                let running: Vec<_> = others.filter(|other| other.runs.contains(&waiter.pool)).collect();
                let workers = self.pool(waiter.pool).map_or(1, |pool| pool.workers);
                // As long as one more worker is elsewhere, it may come back.
                if running.len() as u64 >= workers { running } else { Vec::new() }
            }
        }
    }

    /// The waiters of a cycle through the waiter with number `id`, that one first.
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

/// The calling thread, which runs transactions of the workers `elsewhere` of other pools, waits for something of the pool whose volatile words begin
/// at `pool`.
///
/// # Errors
/// Returns [`Error::Deadlock`] if that would never end, or not soon.
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
        // The pool that the last waiter of the cycle waits for is the one whose transaction holds rights of this pool.
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

/// The calling thread waits no more.
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
        // A fourth waits for the cycle and is not of it.
        let four = || three().into_iter().chain([rights(4, 40, 10)]).collect();
        assert_eq!((cycle(four(), 4), cycle(four(), 1)), (None, Some(vec![1, 2, 3])));
        let reader = |id, runs, pool| waiter(id, pool, Rights, &[runs], &[]);
        assert_eq!(cycle(vec![rights(1, 10, 20), reader(2, 20, 10)], 1), None, "a reader holds nothing");
        // The pool's only worker is a reader's.
        let for_worker = waiter(1, 20, Worker, &[10], &[10]);
        assert_eq!(cycle(vec![for_worker, reader(2, 20, 10)], 1), Some(vec![1, 2]));
    }
}
