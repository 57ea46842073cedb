//! Tickets for transactions that are durable later, and the thread that bounds the delay.
//!
//! A committed transaction whose caller does not wait is in the shared log's staging until a thread flushes the log: a later committer that
//! waits, a thread that waits for a ticket, or the thread of this module, which flushes when the interval of the options has passed since
//! the first such commit.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::layout::View;
use crate::memory::threads::start;
use crate::memory::{Native, Outside, Process};
use crate::sync::SharedLog;

/// The durability of a committed transaction. A program can wait for it ([`Ticket::wait`]), await it (the ticket is a future), query it
/// ([`Ticket::is_durable`]) or drop the ticket. Dropping changes nothing: the transaction still becomes durable.
///
/// Transactions become durable in the order of their commits. So when a ticket's transaction is durable, all transactions that it has seen
/// are durable too.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = durable_path_and_options();
/// # let pool = Pool::create(&path, &options)?;
/// # let (_, transaction) = pool.worker()?.run_later(|tx| tx.write(tx.root(0), 5))?;
/// # let ticket = pool.ticket(transaction)?;
/// // `db.later().write(…)` returns such a ticket, with the closure's result.
/// if !ticket.is_durable()? {
///     ticket.wait()?;
/// }
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "the transaction may not be durable yet; wait for the ticket, or drop it explicitly if that does not matter"]
pub struct Ticket {
    transaction: u64,
    made: Made,
}

/// The mechanism that makes a transaction durable.
#[derive(Clone)]
enum Made {
    /// The transaction is durable already.
    Durable,
    /// The pool's flusher, as long as it exists, and whether the pool was closed.
    ByFlusher(Weak<Core>, Arc<AtomicBool>),
    /// Another mechanism.
    By(&'static dyn Durability),
}

/// Makes transactions durable where nothing is flushed: in the crash checker.
#[doc(hidden)]
pub trait Durability: Sync {
    /// Makes all transactions up to `transaction` durable.
    fn wait(&self, transaction: u64);
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ticket({})", self.transaction)
    }
}

impl Ticket {
    /// Returns a ticket for a transaction that is durable already.
    pub(super) fn durable() -> Self {
        Self { transaction: 0, made: Made::Durable }
    }

    /// Returns a ticket for a transaction that `durability` makes durable.
    #[doc(hidden)]
    pub fn by(durability: &'static dyn Durability, transaction: u64) -> Self {
        Self { transaction, made: Made::By(durability) }
    }

    fn core(&self) -> Option<Arc<Core>> {
        match &self.made {
            Made::ByFlusher(core, _) => core.upgrade(),
            Made::Durable | Made::By(_) => None,
        }
    }

    /// Returns the number of the transaction. Numbers are unique, and later transactions have higher ones; 0 if the transaction wrote
    /// nothing that is not durable.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (path, options) = durable_path_and_options();
    /// # let pool = Pool::create(&path, &options)?;
    /// # let (_, transaction) = pool.worker()?.run_later(|tx| tx.write(tx.root(0), 5))?;
    /// # let ticket = pool.ticket(transaction)?;
    /// println!("transaction {}", ticket.transaction());
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    pub fn transaction(&self) -> u64 {
        self.transaction
    }

    /// Returns whether the transaction is durable by now. This does not wait, and may be called inside a transaction.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (path, options) = durable_path_and_options();
    /// # let pool = Pool::create(&path, &options)?;
    /// # let (_, transaction) = pool.worker()?.run_later(|tx| tx.write(tx.root(0), 5))?;
    /// # let ticket = pool.ticket(transaction)?;
    /// if ticket.is_durable()? {
    ///     println!("it is on the disk");
    /// }
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] if the device failed, so that the outcome is unknown until the pool is opened again, and [`Error::Forked`].
    pub fn is_durable(&self) -> Result<bool> {
        let (core, closed) = match &self.made {
            Made::Durable => return Ok(true),
            // Waits, so that a loop that polls this ends.
            Made::By(durability) => {
                durability.wait(self.transaction);
                return Ok(true);
            }
            Made::ByFlusher(core, closed) => (core, closed),
        };
        match core.upgrade() {
            Some(core) => core.is_durable(self.transaction),
            None if closed.load(Ordering::Acquire) => Ok(true),
            None => Err(Error::Poisoned {
                why: "the pool was dropped before this transaction was durable".into(),
                kind: std::io::ErrorKind::Other,
            }),
        }
    }

    /// Waits until the transaction is durable. Flushes the log if no other thread does.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (path, options) = durable_path_and_options();
    /// # let pool = Pool::create(&path, &options)?;
    /// # let (_, transaction) = pool.worker()?.run_later(|tx| tx.write(tx.root(0), 5))?;
    /// # let ticket = pool.ticket(transaction)?;
    /// ticket.wait()?;
    /// assert!(ticket.is_durable()?);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Ticket::is_durable`], and [`Error::Nested`] inside a transaction of the pool, because the flush might have
    /// to wait for the end of that transaction.
    pub fn wait(&self) -> Result<()> {
        match self.core() {
            Some(core) => {
                core.outside.check().and_then(|()| core.log.wait_durable(&core.fork(), self.transaction))
            }
            None => self.is_durable().map(drop),
        }
    }
}

impl Future for Ticket {
    type Output = Result<()>;

    /// Is ready when the transaction is durable; tells the pool's thread to flush immediately. Returns [`Error::Nested`] inside a
    /// transaction of the pool, as [`Ticket::wait`] does.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(core) = self.core()
            && let Err(error) = core.outside.check()
        {
            return Poll::Ready(Err(error));
        }
        // Not if the transaction is durable already: a flush of later commits alone would be redundant, and delay the next one.
        if matches!(self.is_durable(), Ok(false))
            && let Some(core) = self.core()
        {
            // The waker is registered before the check below, so that a flush that ends in between wakes the task.
            core.ask(true, Some(context.waker()));
        }
        match self.is_durable() {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// The state that the thread and the tickets share.
struct Core {
    /// Checked first, because in a forked child the locks may be held for ever.
    process: Process,
    outside: Outside,
    view: Mutex<View<Native>>,
    log: SharedLog,
    interval: Duration,
    requests: Mutex<Requests>,
    changed: Condvar,
}

#[derive(Default)]
struct Requests {
    /// True if something has been committed since the last flush.
    pending: bool,
    /// True if a task waits for the flush.
    urgent: bool,
    stop: bool,
    wakers: Vec<Waker>,
}

/// Wakes all wakers, even if some panic: panics of an executor do not concern the pool.
fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        // The panic hook has printed the panic.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    fn fork(&self) -> View<Native> {
        let view = lock(&self.view);
        View { memory: view.memory.fork(), layout: view.layout, shared: view.shared }
    }

    fn is_durable(&self, transaction: u64) -> Result<bool> {
        self.process.check()?;
        let view = lock(&self.view);
        if self.log.durable_up_to(&view) >= transaction {
            return Ok(true);
        }
        self.log.check_poison(&view.memory).map(|()| false)
    }

    fn ask(&self, urgent: bool, waker: Option<&Waker>) {
        // Cloned before the lock is taken, because `clone` runs code of the executor.
        let mut waker = waker.cloned();
        let mut requests = lock(&self.requests);
        let is_new = |waker: &mut Waker| !requests.wakers.iter().any(|known| known.will_wake(waker));
        if let Some(waker) = waker.take_if(is_new) {
            requests.wakers.push(waker);
        }
        let news = !requests.pending || (urgent && !requests.urgent);
        requests.pending = true;
        requests.urgent |= urgent;
        // Unlocked first, because the thread that is woken takes the lock.
        drop(requests);
        if news {
            self.changed.notify_one();
        }
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut lock(&self.requests).wakers);
        wake(wakers);
    }

    fn run(&self) {
        let view = self.fork();
        loop {
            let mut requests = lock(&self.requests);
            while !requests.pending && !requests.stop {
                requests = self.changed.wait(requests).unwrap_or_else(PoisonError::into_inner);
            }
            let waits = |requests: &mut Requests| !requests.urgent && !requests.stop;
            let (mut requests, _) = self
                .changed
                .wait_timeout_while(requests, self.interval, waits)
                .unwrap_or_else(PoisonError::into_inner);
            (requests.pending, requests.urgent) = (false, false);
            let stop = requests.stop;
            drop(requests);
            // If this fails the pool is poisoned, and later operations report that.
            let _ = self.log.wait_durable(&view, self.log.appended_up_to(&view));
            self.wake_all();
            if stop {
                return;
            }
        }
    }
}

/// The thread that flushes transactions for which no thread waits.
pub(super) struct Flusher {
    core: Arc<Core>,
    /// True if the pool was closed, with everything durable.
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts the thread; `None` if the system has no thread left.
    pub fn start(view: View<Native>, outside: Outside, log: SharedLog, interval: Duration) -> Option<Self> {
        let memory = view.memory.fork();
        let core = Arc::new(Core {
            process: Process::current(),
            outside,
            view: Mutex::new(view),
            log,
            interval,
            requests: Mutex::default(),
            changed: Condvar::new(),
        });
        let runner = core.clone();
        let woken = core.clone();
        let panicked = move |panic: &std::io::Error| {
            log.poison_by_panic(&memory, "the flush thread", panic);
            woken.wake_all();
        };
        let thread = start("strandline-flush", move || runner.run(), panicked).ok()?;
        Some(Self { core, closed: Arc::default(), thread: Some(thread) })
    }

    /// Returns a ticket for a transaction that has committed.
    pub fn ticket(&self, transaction: u64) -> Ticket {
        self.core.ask(false, None);
        Ticket { transaction, made: Made::ByFlusher(Arc::downgrade(&self.core), self.closed.clone()) }
    }

    /// Tells the thread to stop, without waiting for it.
    pub fn ask_to_stop(&self) {
        lock(&self.core.requests).stop = true;
        self.core.changed.notify_one();
    }

    /// Stops the thread, when everything is durable or never will be, and wakes all tasks that still wait.
    pub fn stop(mut self, everything_is_durable: bool) {
        self.closed.store(everything_is_durable, Ordering::Release);
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            // The thread's panics are caught, and have poisoned the pool.
            let _ = thread.join();
        }
        let core = self.core.clone();
        drop(self);
        let wakers = std::mem::take(&mut lock(&core.requests).wakers);
        // Woken tickets find either the shared state or, without it, the value of `closed`.
        drop(core);
        wake(wakers);
    }
}
