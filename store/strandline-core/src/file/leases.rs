//! Where workers come from and go back to.
//!
//! A worker is had by taking an idle one or by leasing a log, and is given back by making it idle or by dropping it, whoever
//! does so. Both notify [`SharedLayout::RETURNS`], where those wait that found neither.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::pool::Pool;
use crate::engine::{Control, Stm, Worker};
use crate::error::{Error, Result};
use crate::layout::SharedLayout;
use crate::memory::{Memory, Native, latch};

/// Between two looks whether a worker is borrowed.
const NAP: Duration = Duration::from_micros(200);

/// A worker that goes from hand to hand, large as it is.
pub type BoxedWorker<C = Stm> = Box<Worker<C>>;

/// Workers that nobody uses and that keep their logs for whoever asks next.
///
/// A thread gets the worker back that it had, as long as there are enough: what that one remembers is near this processor, and
/// threads that read do not write what others read.
#[doc(hidden)]
pub struct IdleWorkers<C: Control<Memory = Native>>(Box<[Place<C>]>);

/// A place for one, which shares no line with others.
#[repr(align(128))]
struct Place<C: Control<Memory = Native>>(Mutex<Kept<C>>);

struct Kept<C: Control<Memory = Native>> {
    worker: Option<BoxedWorker<C>>,
    /// Workers that were borrowed here, less those that came back here. The sum over all places is how many are borrowed.
    borrowed: i64,
}

impl<C: Control<Memory = Native>> Place<C> {
    fn new() -> Self {
        Self(Mutex::new(Kept { worker: None, borrowed: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, Kept<C>> {
        // A thread that panicked has left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number of the calling thread's own: threads that come after one another begin at different places.
#[doc(hidden)]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is ending has none.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

impl<C: Control<Memory = Native>> IdleWorkers<C> {
    /// Places for so many workers as there are logs: a power of two.
    pub(super) fn new(logs: u64) -> Self {
        Self((0..logs.next_power_of_two()).map(|_| Place::new()).collect())
    }

    /// All places, the thread's own first.
    fn places(&self) -> impl Iterator<Item = &Place<C>> {
        let first = thread_number();
        (0..self.0.len()).map(move |next| &self.0[(first + next) & (self.0.len() - 1)])
    }

    /// Takes one, for good.
    pub(super) fn take(&self) -> Option<BoxedWorker<C>> {
        self.places().find_map(|place| place.lock().worker.take())
    }

    /// Borrows one, if there is one. In a forked child a lock may be held for ever: the caller has looked.
    pub fn borrow(&self) -> Option<BoxedWorker<C>> {
        self.places().find_map(|place| {
            let mut place = place.lock();
            let worker = place.worker.take();
            place.borrowed += i64::from(worker.is_some());
            worker
        })
    }

    /// Counts a worker that the caller has as one that was borrowed.
    pub fn count_borrowed(&self) {
        if let Some(place) = self.places().next() {
            place.lock().borrowed += 1;
        }
    }

    /// Takes a worker back that was borrowed.
    pub fn give_back(&self, worker: BoxedWorker<C>) {
        self.keep(worker, 1);
    }

    /// Keeps a worker for whoever asks next, of which so many were borrowed.
    fn keep(&self, mut worker: BoxedWorker<C>, borrowed: i64) {
        // In a forked child the lock may be held for ever.
        if worker.memory().is_forked() {
            return;
        }
        worker.give_memory_back();
        // There are as many places as workers, so that one is free, although others may be faster to it.
        loop {
            for place in self.places() {
                let mut place = place.lock();
                if place.worker.is_none() {
                    place.borrowed -= borrowed;
                    let memory = place.worker.insert(worker).memory();
                    // Whoever waits said so before it looked here. If it looked before this place was locked that is seen now, and
                    // otherwise it finds the worker.
                    if memory.load(SharedLayout::RETURNS.word(1)) != 0 {
                        memory.notify(SharedLayout::RETURNS);
                    }
                    return;
                }
            }
        }
    }

    /// Waits until none is borrowed, and gives all their logs back. Nobody adds a worker any more; whoever borrows one meanwhile is waited for.
    pub fn end(&self) {
        loop {
            // All at once, so that none goes from one to another between two looks.
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

    /// Gives all their logs back.
    pub(super) fn clear(&self) {
        for place in &self.0 {
            place.lock().worker.take();
        }
    }
}

impl<C: Control<Memory = Native>> Pool<C> {
    /// Like [`Pool::worker`]; waits while there are as many workers as the pool has logs.
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
    /// Returns [`Error::Nested`] inside a transaction of this pool, and [`Error::Unsupported`] if a worker under another scheme exists;
    /// [`Error::Forked`].
    pub fn wait_for_worker(&self) -> Result<Worker<C>> {
        self.check_outside()?;
        self.wait_for_return(|| self.worker())
    }

    /// An idle worker or a new one; waits while there is neither.
    ///
    /// # Errors
    /// As for [`Pool::wait_for_worker`].
    pub fn borrow_worker(&self) -> Result<BoxedWorker<C>> {
        // First of all: in a forked child the lock may be held for ever.
        self.check_outside()?;
        match self.idle.take() {
            Some(worker) => Ok(worker),
            None => self.wait_for_return(|| self.idle.take().map_or_else(|| self.worker().map(Box::new), Ok)),
        }
    }

    /// Keeps a worker for whoever asks next.
    pub fn return_worker(&self, worker: BoxedWorker<C>) {
        self.idle.keep(worker, 0);
    }

    /// The workers that nobody uses, for who takes and returns many.
    #[doc(hidden)]
    pub fn idle_workers(&self) -> Arc<IdleWorkers<C>> {
        self.idle.clone()
    }

    /// Gives up the logs of idle workers, and with them what these remember of the heap.
    #[doc(hidden)]
    pub fn drop_idle_workers(&self) {
        self.idle.clear();
    }

    /// Runs `lease` again whenever a worker was given back, as long as all logs are in use.
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
