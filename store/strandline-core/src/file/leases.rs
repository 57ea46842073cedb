//! Leases workers and takes them back.
//!
//! A thread gets a worker by taking an idle one or by leasing a log. It returns the worker by making it idle or by dropping it. Both notify
//! [`SharedLayout::RETURNS`], where threads wait that have found neither.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::pool::Pool;
use crate::engine::{Control, Stm, Worker};
use crate::error::{Error, Result};
use crate::layout::SharedLayout;
use crate::memory::{Memory, Native, latch};

/// Time between two checks whether a worker is borrowed.
const NAP: Duration = Duration::from_micros(200);

/// A worker on the heap, because it is large and passed from thread to thread.
pub type BoxedWorker<C = Stm> = Box<Worker<C>>;

/// Idle workers, which keep their logs for later use.
///
/// As long as there are enough, a thread gets the worker that it had before: that worker's data are in this processor's caches, and threads that read
/// do not write what others read.
#[doc(hidden)]
pub struct IdleWorkers<C: Control<Memory = Native>>(Box<[Place<C>]>);

/// The place of one idle worker, which shares no line with other places.
#[repr(align(128))]
struct Place<C: Control<Memory = Native>>(Mutex<Kept<C>>);

struct Kept<C: Control<Memory = Native>> {
    worker: Option<BoxedWorker<C>>,
    /// Number of workers that were borrowed here, minus those that came back here. The sum over all places is the number of borrowed workers.
    borrowed: i64,
}

impl<C: Control<Memory = Native>> Place<C> {
    fn new() -> Self {
        Self(Mutex::new(Kept { worker: None, borrowed: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, Kept<C>> {
        // A thread that panics leaves the place intact.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the calling thread's own number. Successive threads begin at different places.
#[doc(hidden)]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is ending has no number any more.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

impl<C: Control<Memory = Native>> IdleWorkers<C> {
    /// Creates places for as many workers as there are logs, rounded up to a power of two.
    pub(super) fn new(logs: u64) -> Self {
        Self((0..logs.next_power_of_two()).map(|_| Place::new()).collect())
    }

    /// Returns all places, beginning with the thread's own.
    fn places(&self) -> impl Iterator<Item = &Place<C>> {
        let first = thread_number();
        (0..self.0.len()).map(move |next| &self.0[(first + next) & (self.0.len() - 1)])
    }

    /// Takes a worker for good.
    pub(super) fn take(&self) -> Option<BoxedWorker<C>> {
        self.places().find_map(|place| place.lock().worker.take())
    }

    /// Borrows a worker, if there is one. In a forked child a lock may be held forever; the caller has checked for that.
    pub fn borrow(&self) -> Option<BoxedWorker<C>> {
        self.places().find_map(|place| {
            let mut place = place.lock();
            let worker = place.worker.take();
            place.borrowed += i64::from(worker.is_some());
            worker
        })
    }

    /// Counts a worker that the caller has as borrowed.
    pub fn count_borrowed(&self) {
        if let Some(place) = self.places().next() {
            place.lock().borrowed += 1;
        }
    }

    /// Takes a borrowed worker back.
    pub fn give_back(&self, worker: BoxedWorker<C>) {
        self.keep(worker, 1);
    }

    /// Keeps a worker, and adds `borrowed` to the place's count.
    fn keep(&self, mut worker: BoxedWorker<C>, borrowed: i64) {
        // In a forked child the lock may be held forever.
        if worker.memory().is_forked() {
            return;
        }
        worker.give_memory_back();
        // There are as many places as workers, so one is free, although other threads may take it first.
        loop {
            for place in self.places() {
                let mut place = place.lock();
                if place.worker.is_none() {
                    place.borrowed -= borrowed;
                    let memory = place.worker.insert(worker).memory();
                    // A thread that waits has counted itself before it looked here. If it looked before this place was locked, this thread sees the
                    // count; otherwise that thread finds the worker.
                    if memory.load(SharedLayout::RETURNS.word(1)) != 0 {
                        memory.notify(SharedLayout::RETURNS);
                    }
                    return;
                }
            }
        }
    }

    /// Waits until no worker is borrowed, and returns all their logs. No thread adds a worker any more; a worker that is borrowed meanwhile is
    /// waited for.
    pub fn end(&self) {
        loop {
            // Locks all places at once, so that no worker moves from one to another between two checks.
            let mut places: Vec<_> = self.0.iter().map(Place::lock).collect();
            if places.iter().map(|place| place.borrowed).sum::<i64>() == 0 {
                let workers: Vec<_> = places.iter_mut().map(|place| place.worker.take()).collect();
                drop(places);
                drop(workers);
                return;
            }
            drop(places);
            std::thread::sleep(NAP);
        }
    }

    /// Gives the logs of all idle workers back.
    pub(super) fn clear(&self) {
        for place in &self.0 {
            place.lock().worker.take();
        }
    }
}

impl<C: Control<Memory = Native>> Pool<C> {
    /// Like [`Pool::worker`], but waits while there are as many workers as the pool has logs.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (path, options) = path_and_options();
    /// let pool = Pool::create(&path, &options)?;
    /// std::thread::scope(|threads| {
    ///     // More threads than logs.
    ///     for _ in 0..8 {
    ///         threads.spawn(|| pool.wait_for_worker()?.run(|tx| {
    ///             let count = tx.read(tx.root(0))?;
    ///             tx.write(tx.root(0), count + 1)
    ///         }));
    ///     }
    /// });
    /// assert_eq!(pool.worker()?.view(|tx| tx.read(tx.root(0)))?, 8);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Nested`] inside a transaction of this pool, [`Error::Unsupported`] if a worker under another scheme exists, and
    /// [`Error::Forked`].
    pub fn wait_for_worker(&self) -> Result<Worker<C>> {
        self.check_outside()?;
        self.wait_for_return(|| self.worker())
    }

    /// Returns an idle worker or a new one; waits while there is neither.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::wait_for_worker`].
    pub fn borrow_worker(&self) -> Result<BoxedWorker<C>> {
        // This comes first, because in a forked child the lock may be held forever.
        self.check_outside()?;
        match self.idle.take() {
            Some(worker) => Ok(worker),
            None => self.wait_for_return(|| self.idle.take().map_or_else(|| self.worker().map(Box::new), Ok)),
        }
    }

    /// Keeps a worker for later use.
    pub fn return_worker(&self, worker: BoxedWorker<C>) {
        self.idle.keep(worker, 0);
    }

    /// Returns the idle workers, for callers that take and return many.
    #[doc(hidden)]
    pub fn idle_workers(&self) -> Arc<IdleWorkers<C>> {
        self.idle.clone()
    }

    /// Gives up the logs of idle workers, and with them what these workers have cached of the heap.
    #[doc(hidden)]
    pub fn drop_idle_workers(&self) {
        self.idle.clear();
    }

    /// Calls `lease` again each time that a worker was returned, as long as all logs are in use.
    fn wait_for_return<T>(&self, lease: impl Fn() -> Result<T>) -> Result<T> {
        match lease() {
            Err(Error::NoFreeLog { .. }) => {}
            other => return other,
        }
        let memory = self.native_view()?.memory;
        latch::wait_for_worker(&memory, SharedLayout::RETURNS, || match lease() {
            Err(Error::NoFreeLog { .. }) => Ok(None),
            other => other.map(Some),
        })
    }
}
