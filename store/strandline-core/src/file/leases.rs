//! Where workers come from and go back to.
//!
//! A worker is had by taking an idle one or by leasing a log, and is given back by making it idle or by dropping it, whoever
//! does so. Both notify [`SharedLayout::RETURNS`], where those wait that found neither.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::pool::Pool;
use crate::engine::{Control, Stm, Worker};
use crate::error::{Error, Result};
use crate::layout::SharedLayout;
use crate::memory::{Memory, Native, latch};

/// A worker that goes from hand to hand, large as it is.
pub type BoxedWorker<C = Stm> = Box<Worker<C>>;

/// Workers that nobody uses and that keep their logs for whoever asks next.
///
/// A thread gets the worker back that it had, as long as there are enough: what that one remembers is near this processor, and
/// threads that read do not write what others read.
pub(super) struct IdleWorkers<C: Control<Memory = Native>>(Box<[Place<C>]>);

/// A place for one, which shares no line with others.
#[repr(align(128))]
struct Place<C: Control<Memory = Native>>(Mutex<Option<BoxedWorker<C>>>);

impl<C: Control<Memory = Native>> Place<C> {
    fn lock(&self) -> MutexGuard<'_, Option<BoxedWorker<C>>> {
        // What is in there is whole whoever panicked.
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
    pub fn new(logs: u64) -> Self {
        Self((0..logs.next_power_of_two()).map(|_| Place(Mutex::default())).collect())
    }

    /// All places, the thread's own first.
    fn places(&self) -> impl Iterator<Item = &Place<C>> {
        let first = thread_number();
        (0..self.0.len()).map(move |next| &self.0[(first + next) & (self.0.len() - 1)])
    }

    pub fn take(&self) -> Option<BoxedWorker<C>> {
        self.places().find_map(|place| place.lock().take())
    }

    fn put(&self, worker: BoxedWorker<C>) {
        // There are as many places as workers, so that one is free, although others may be faster to it.
        loop {
            for place in self.places() {
                let mut place = place.lock();
                if place.is_none() {
                    let memory = place.insert(worker).memory();
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

    /// Gives all their logs back.
    pub fn clear(&mut self) {
        for place in &mut self.0 {
            place.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

impl<C: Control<Memory = Native>> Pool<C> {
    /// As [`Pool::worker`]; waits while there are as many workers as the pool has logs.
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
    /// As [`Pool::wait_for_worker`].
    pub fn borrow_worker(&self) -> Result<BoxedWorker<C>> {
        // First of all: in a forked child the lock may be held for ever.
        self.check_outside()?;
        match self.idle.take() {
            Some(worker) => Ok(worker),
            None => self.wait_for_return(|| self.idle.take().map_or_else(|| self.worker().map(Box::new), Ok)),
        }
    }

    /// Keeps a worker for whoever asks next.
    pub fn return_worker(&self, mut worker: BoxedWorker<C>) {
        // In a forked child the lock may be held for ever.
        if self.check_process().is_ok() {
            worker.give_memory_back();
            self.idle.put(worker);
        }
    }

    /// Gives up the logs of idle workers, and with them what these remember of the heap.
    #[doc(hidden)]
    pub fn drop_idle_workers(&self) {
        while self.idle.take().is_some() {}
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
