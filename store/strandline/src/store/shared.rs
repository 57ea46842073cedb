//! A pool that any number of handles share. Any of them can close it for all.
//!
//! A transaction takes one of the pool's idle workers, which keeps the pool's memory mapped. Closing waits until all workers have been returned.
//! Every other use of the pool, including the lease of a new worker, holds a share of it, which is a read lock. Closing waits for these as well.
//! Sessions and snapshots, which last longer, hold the pool itself, and closing fails while there are any.

use std::ops::Deref;
use std::path::{Path, PathBuf};
#[cfg(feature = "control")]
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::Duration;

use crate::value::transaction::Control;
use strandline_core::engine::Worker;
use strandline_core::error::{Error, Result};
use strandline_core::file::{BoxedWorker, IdleWorkers, Pool, Recovery, WriteObserver};
use strandline_core::memory::{Native, Outside};

/// The pause between two attempts to close a pool of which a thread has a share.
const NAP: Duration = Duration::from_micros(200);

/// The number of the last pool that was opened.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A server of requests to an open pool. It stops when the pool is to be closed, and has a handle to the pool only while it answers.
pub(crate) trait Guest: Send + Sync {
    /// Waits until no request is being answered, and refuses requests until [`resume`](Guest::resume) is called.
    fn pause(&self);
    /// Answers requests again, because the pool stays open.
    fn resume(&self);
    /// Refuses requests from now on, and removes the server's socket.
    fn end(&self);
}

/// An open pool, or one that was closed.
pub(crate) struct SharedPool<C: Control<Memory = Native>> {
    /// The pool's number, which no other pool of this process has.
    number: u64,
    path: PathBuf,
    recovery: Recovery,
    outside: Outside,
    /// True if the pool is closed or is being closed.
    closed: AtomicBool,
    /// Locked while the pool is being closed, and for a moment by threads that begin to keep it open. Transactions do not need this lock, so that a
    /// close that is refused does not disturb them.
    closing: Mutex<()>,
    /// Observes transactions that wait for the disk. `None` if none have to.
    writes: Option<WriteObserver>,
    idle: Arc<IdleWorkers<C>>,
    /// This field comes before the pool, so that it is dropped first.
    guest: Mutex<Option<Box<dyn Guest>>>,
    /// `None` after the pool was closed.
    pool: RwLock<Option<Arc<Pool<C>>>>,
}

/// A share of an open pool, which cannot be closed while there is one.
pub(crate) struct OpenPool<'s, C: Control<Memory = Native>>(RwLockReadGuard<'s, Option<Arc<Pool<C>>>>);

impl<C: Control<Memory = Native>> OpenPool<'_, C> {
    fn shared(&self) -> &Arc<Pool<C>> {
        self.0.as_ref().expect("only `SharedPool::share` makes one, of a pool that is open")
    }
}

impl<C: Control<Memory = Native>> Deref for OpenPool<'_, C> {
    type Target = Pool<C>;

    fn deref(&self) -> &Pool<C> {
        self.shared()
    }
}

impl<C: Control<Memory = Native>> SharedPool<C> {
    pub fn new(pool: Pool<C>) -> Self {
        Self {
            number: 1 + LAST.fetch_add(1, Ordering::Relaxed),
            path: pool.path().to_owned(),
            recovery: *pool.recovery(),
            outside: pool.outside(),
            closed: AtomicBool::new(false),
            closing: Mutex::default(),
            writes: pool.write_observer(),
            idle: pool.idle_workers(),
            guest: Mutex::default(),
            pool: RwLock::new(Some(Arc::new(pool))),
        }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Returns a share of the pool, which stays open as long as the share exists. This does not wait.
    ///
    /// # Errors
    /// Returns [`Error::Closed`] if the pool was closed or is being closed.
    pub fn open(&self) -> Result<OpenPool<'_, C>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.share().ok_or(Error::Closed)
    }

    /// Like [`SharedPool::open`], but also works while the pool is being closed.
    fn share(&self) -> Option<OpenPool<'_, C>> {
        let share = match self.pool.try_read() {
            Ok(share) => share,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Only `close` locks it for writing.
            Err(TryLockError::WouldBlock) => return None,
        };
        share.is_some().then_some(OpenPool(share))
    }

    /// Takes a worker for a transaction. Waits while all workers are in use.
    ///
    /// # Errors
    /// Returns the errors of [`SharedPool::open`] and [`Pool::borrow_worker`].
    pub fn borrow(&self) -> Result<Taken<'_, C>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        // In a forked child a lock may be held for ever.
        self.outside.check()?;
        let worker = match self.idle.borrow() {
            Some(worker) => worker,
            None => {
                let pool = self.open()?;
                let worker = pool.borrow_worker()?;
                self.idle.count_borrowed();
                worker
            }
        };
        Ok(Taken { idle: &self.idle, worker: Some(worker) })
    }

    /// Returns the observer of transactions that wait for the disk, or `None` if none have to.
    pub fn writes(&self) -> Option<&WriteObserver> {
        self.writes.as_ref()
    }

    /// Returns the pool itself, for uses that last longer than a transaction.
    ///
    /// # Errors
    /// Returns the same errors as [`SharedPool::open`].
    pub fn keep(&self) -> Result<Arc<Pool<C>>> {
        loop {
            // This check comes first, since in a forked child the lock may be held for ever.
            self.outside.check()?;
            if let Some(pool) = self.try_keep()? {
                return Ok(pool);
            }
            std::thread::yield_now();
        }
    }

    /// Like [`SharedPool::keep`], but may be called inside a transaction. Returns `None` while another thread begins to close the pool.
    ///
    /// # Errors
    /// Returns [`Error::Closed`] if the pool was closed or is being closed.
    pub fn try_keep(&self) -> Result<Option<Arc<Pool<C>>>> {
        let pool = self.open()?;
        match self.closing.try_lock() {
            Ok(_closing) => Ok(Some(pool.shared().clone())),
            Err(TryLockError::Poisoned(_)) => Err(Error::Closed),
            Err(TryLockError::WouldBlock) => Ok(None),
        }
    }

    /// Installs the guest that `make` returns, unless the pool has one already.
    ///
    /// # Errors
    /// Returns the errors of `make`, [`Error::Closed`], and the errors of [`Outside::check_all`], since this waits for a close that has begun.
    #[cfg(feature = "control")]
    pub fn admit(&self, make: impl FnOnce(&Pool<C>) -> Result<Box<dyn Guest>>) -> Result<()> {
        self.outside.check_all()?;
        let mut guest = self.guest.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = self.open()?;
        if guest.is_none() {
            *guest = Some(make(&pool)?);
        }
        Ok(())
    }

    /// Closes the pool for all its handles.
    ///
    /// # Errors
    /// Returns [`Error::InUse`], [`Error::Forked`] and the errors of [`Outside::check_all`], after which the pool stays open, and the errors of
    /// [`Pool::close`], after which it is closed.
    pub fn close(&self) -> Result<()> {
        // This also holds if another thread is closing the pool, since this one then waits for it.
        self.outside.check_all()?;
        // The lock is held, so that no guest is admitted meanwhile.
        let guest = self.guest.lock().unwrap_or_else(PoisonError::into_inner);
        let paused = guest.as_ref().map(|guest| Paused::new(&**guest));
        // From here on no session or snapshot can begin.
        let _closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(pool) = self.open() else { return Ok(()) };
        let users = Arc::strong_count(pool.shared()) - 1;
        if users > 0 {
            return Err(Error::InUse { users: users as u64 });
        }
        drop(pool);
        self.closed.store(true, Ordering::Release);
        if let Some(Paused(guest)) = &paused {
            guest.end();
        }
        let Some(pool) = self.take().and_then(Arc::into_inner) else { return Ok(()) };
        self.idle.end();
        pool.close()
    }

    /// Takes the pool out of the lock, once no thread has a share of it any more.
    fn take(&self) -> Option<Arc<Pool<C>>> {
        loop {
            // A writer that waits in the lock's queue would block the threads that have to end first.
            match self.pool.try_write() {
                Ok(mut pool) => return pool.take(),
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner().take(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(NAP),
            }
        }
    }
}

/// A handle to a pool. When the program's last handle is dropped, the guest ends its work, and the pool is closed. Until then the guest may have
/// handles of its own.
pub(crate) struct Handle<C: Control<Memory = Native>> {
    shared: Arc<SharedPool<C>>,
    is_of_guest: bool,
}

impl<C: Control<Memory = Native>> Handle<C> {
    pub fn new(pool: Pool<C>) -> Self {
        Self { shared: Arc::new(SharedPool::new(pool)), is_of_guest: false }
    }

    /// Returns a handle for a guest, from the result of [`Handle::for_guest`], or `None` if the pool was closed.
    #[cfg(feature = "control")]
    pub fn of_guest(shared: &Weak<SharedPool<C>>) -> Option<Self> {
        Some(Self { shared: shared.upgrade()?, is_of_guest: true })
    }

    #[cfg(feature = "control")]
    pub fn for_guest(&self) -> Weak<SharedPool<C>> {
        Arc::downgrade(&self.shared)
    }
}

impl<C: Control<Memory = Native>> Deref for Handle<C> {
    type Target = SharedPool<C>;

    fn deref(&self) -> &SharedPool<C> {
        &self.shared
    }
}

impl<C: Control<Memory = Native>> Drop for Handle<C> {
    fn drop(&mut self) {
        if self.is_of_guest {
            return;
        }
        // Inside a transaction, the guest may wait for the end of that transaction. In a forked child, the lock may be held for ever.
        let may_wait = match self.shared.outside.check_all() {
            Err(Error::Forked) => return,
            outside => outside.is_ok(),
        };
        let guest = self.shared.guest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = &*guest {
            guest.end();
            if may_wait {
                guest.pause();
            }
        }
    }
}

/// Pauses a guest, and resumes it when this is dropped.
struct Paused<'s>(&'s dyn Guest);

impl<'s> Paused<'s> {
    fn new(guest: &'s dyn Guest) -> Self {
        guest.pause();
        Self(guest)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.resume();
    }
}

/// A worker for one transaction. Dropping this returns the worker; a close waits for that.
pub(crate) struct Taken<'s, C: Control<Memory = Native>> {
    idle: &'s IdleWorkers<C>,
    /// `None` only during `drop`.
    worker: Option<BoxedWorker<C>>,
}

impl<C: Control<Memory = Native>> Taken<'_, C> {
    pub fn worker(&mut self) -> &mut Worker<C> {
        self.worker.as_deref_mut().expect("only the drop takes it")
    }
}

impl<C: Control<Memory = Native>> Drop for Taken<'_, C> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.idle.give_back(worker);
        }
    }
}

/// A worker of a pool. Dropping this returns the worker.
pub(crate) struct Borrowed<P: Deref<Target = Pool<C>>, C: Control<Memory = Native>> {
    pub pool: P,
    /// `None` only during `drop`.
    worker: Option<BoxedWorker<C>>,
}

impl<P: Deref<Target = Pool<C>>, C: Control<Memory = Native>> Borrowed<P, C> {
    /// Borrows a worker. Waits while all workers are in use.
    ///
    /// # Errors
    /// Returns the same errors as [`Pool::borrow_worker`].
    pub fn of(pool: P) -> Result<Self> {
        let worker = Some(pool.borrow_worker()?);
        Ok(Self { pool, worker })
    }

    pub fn worker(&mut self) -> &mut Worker<C> {
        self.worker.as_deref_mut().expect("only the drop takes it")
    }

    pub fn peek(&self) -> Option<&Worker<C>> {
        self.worker.as_deref()
    }
}

impl<P: Deref<Target = Pool<C>>, C: Control<Memory = Native>> Drop for Borrowed<P, C> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.pool.return_worker(worker);
        }
    }
}
