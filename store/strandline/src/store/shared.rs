//! A pool that any number of handles share, and that any of them closes for all.
//!
//! Each transaction holds a share of the pool while it runs: a read lock on one of several copies of one pointer, which is its
//! thread's own as long as there are few threads. So transactions write nothing that others read. Closing takes all copies, for which
//! it waits until no transaction holds one. Sessions and snapshots, which last longer, hold the pool itself, and closing refuses while
//! there are any.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::Duration;

use crate::value::transaction::Control;
use strandline_core::engine::Worker;
use strandline_core::error::{Error, Result};
use strandline_core::file::{BoxedWorker, Pool, Recovery, thread_number};
use strandline_core::memory::{Native, Outside};

/// Copies of the pointer to the pool: a power of two.
const COPIES: usize = 16;
/// Between two attempts to take a copy that a transaction holds.
const NAP: Duration = Duration::from_micros(200);

/// A copy, which shares no line with others. `None` once the pool is closed.
#[repr(align(128))]
struct Copy<C: Control<Memory = Native>>(RwLock<Option<Arc<Pool<C>>>>);

/// The number of the last pool that was opened.
static LAST: AtomicU64 = AtomicU64::new(0);

/// What serves others from an open pool, and makes way where it is to be closed. It has no handle to the pool while it serves nobody.
pub(crate) trait Guest: Send + Sync {
    /// Serves nobody any more when this returns.
    fn pause(&self);
    /// Serves again: the pool stays open.
    fn resume(&self);
    /// Leaves nothing behind.
    fn end(&self);
}

/// An open pool, or one that was closed.
pub(crate) struct SharedPool<C: Control<Memory = Native>> {
    /// No other pool of this process has it.
    number: u64,
    path: PathBuf,
    recovery: Recovery,
    outside: Outside,
    /// Whether it is closed, or is being closed.
    closed: AtomicBool,
    /// Held while the pool is closed, and for a moment by whoever begins to keep it open. Transactions do not need it, so a close that is
    /// refused disturbs none.
    closing: Mutex<()>,
    /// Before the copies: it ends before the pool is closed with the last of them.
    guest: Mutex<Option<Box<dyn Guest>>>,
    copies: Box<[Copy<C>]>,
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
        let (path, recovery, outside) = (pool.path().to_owned(), *pool.recovery(), pool.outside());
        let pool = Arc::new(pool);
        let number = 1 + LAST.fetch_add(1, Ordering::Relaxed);
        let copies = (0..COPIES).map(|_| Copy(RwLock::new(Some(pool.clone())))).collect();
        Self {
            number,
            path,
            recovery,
            outside,
            closed: AtomicBool::new(false),
            closing: Mutex::default(),
            guest: Mutex::default(),
            copies,
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

    /// The pool, which stays open as long as what is returned exists. It waits for nothing.
    ///
    /// # Errors
    /// [`Error::Closed`]: it was closed, or is being closed.
    pub fn open(&self) -> Result<OpenPool<'_, C>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.share().ok_or(Error::Closed)
    }

    /// As [`SharedPool::open`], also while the pool is being closed.
    fn share(&self) -> Option<OpenPool<'_, C>> {
        let share = match self.copies[thread_number() & (COPIES - 1)].0.try_read() {
            Ok(share) => share,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Only `close` takes it to write.
            Err(TryLockError::WouldBlock) => return None,
        };
        share.is_some().then_some(OpenPool(share))
    }

    /// The pool itself, for what lasts longer than a transaction.
    ///
    /// # Errors
    /// As [`SharedPool::open`].
    pub fn keep(&self) -> Result<Arc<Pool<C>>> {
        loop {
            // First of all: in a forked child the lock may be held for ever.
            self.outside.check()?;
            if let Some(pool) = self.try_keep()? {
                return Ok(pool);
            }
            std::thread::yield_now();
        }
    }

    /// As [`SharedPool::keep`], also inside a transaction. While another thread begins to close the pool, it is `None`.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn try_keep(&self) -> Result<Option<Arc<Pool<C>>>> {
        let pool = self.open()?;
        match self.closing.try_lock() {
            Ok(_closing) => Ok(Some(pool.shared().clone())),
            Err(TryLockError::Poisoned(_)) => Err(Error::Closed),
            Err(TryLockError::WouldBlock) => Ok(None),
        }
    }

    /// Has the guest that `make` makes serve others from now on, unless one does already.
    ///
    /// # Errors
    /// Those of `make`; [`Error::Closed`]; [`Error::Nested`] inside a transaction, for whose end a close may wait meanwhile; [`Error::Forked`].
    #[cfg(feature = "control")]
    pub fn admit(&self, make: impl FnOnce(&Pool<C>) -> Result<Box<dyn Guest>>) -> Result<()> {
        self.outside.check()?;
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
    /// [`Error::InUse`], [`Error::Forked`], those of [`Outside::check_all`]: it stays open; as [`Pool::close`]: it is closed.
    pub fn close(&self) -> Result<()> {
        // Also where another thread closes it, whose end is waited for here.
        self.outside.check_all()?;
        // From here on no session or snapshot can begin.
        // Held, so that none comes meanwhile.
        let guest = self.guest.lock().unwrap_or_else(PoisonError::into_inner);
        let paused = guest.as_ref().map(|guest| Paused::new(&**guest));
        let _closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(pool) = self.open() else { return Ok(()) };
        let users = Arc::strong_count(pool.shared()) - self.copies.len();
        if users > 0 {
            return Err(Error::InUse { users: users as u64 });
        }
        drop(pool);
        self.closed.store(true, Ordering::Release);
        if let Some(Paused(guest)) = &paused {
            guest.end();
        }
        let pools: Vec<_> = self.copies.iter().filter_map(|copy| copy.take()).collect();
        // Each but the last returns nothing.
        pools.into_iter().filter_map(Arc::into_inner).next().map_or(Ok(()), Pool::close)
    }
}

/// A guest that is paused until this is dropped.
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

impl<C: Control<Memory = Native>> Copy<C> {
    /// Takes the pointer out, when no transaction holds it any more.
    fn take(&self) -> Option<Arc<Pool<C>>> {
        loop {
            // A writer that waits in the lock's queue would stop transactions that are to end.
            match self.0.try_write() {
                Ok(mut copy) => return copy.take(),
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner().take(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(NAP),
            }
        }
    }
}

/// A worker of a pool, which goes back to it when this is dropped.
pub(crate) struct Borrowed<P: Deref<Target = Pool<C>>, C: Control<Memory = Native>> {
    pub pool: P,
    /// Taken when dropped.
    worker: Option<BoxedWorker<C>>,
}

impl<P: Deref<Target = Pool<C>>, C: Control<Memory = Native>> Borrowed<P, C> {
    /// Waits while all workers are in use.
    ///
    /// # Errors
    /// As [`Pool::borrow_worker`].
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
