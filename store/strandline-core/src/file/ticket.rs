//! Transactions that are durable later: tickets to wait for, and the thread that bounds how long "later" is.
//!
//! A committed transaction whose caller does not wait lies in the shared log's staging until somebody flushes: a
//! later committer that waits, a ticket that is waited for, or this thread, which flushes so long after the first such
//! commit as the options say.

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

/// A committed transaction's durability: to be waited for ([`Ticket::wait`]), awaited (it is a future), asked
/// ([`Ticket::is_durable`]) or dropped. Dropping it changes nothing: the transaction becomes durable all the same.
///
/// Transactions become durable in the order in which they commit, so whoever waits for a ticket knows that all
/// transactions that its own has seen are durable too.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = durable_path_and_options();
/// # let pool = Pool::create(&path, &options)?;
/// # let (_, transaction) = pool.worker()?.run_later(|tx| tx.write(tx.root(0), 5))?;
/// # let ticket = pool.ticket(transaction)?;
/// // `ticket` is what `db.later().write(…)` has returned with the closure's result.
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

/// Who makes a transaction durable.
#[derive(Clone)]
enum Made {
    /// It is.
    Durable,
    /// The pool's flusher, while there is one; then whether the pool was closed.
    ByFlusher(Weak<Core>, Arc<AtomicBool>),
    /// Somebody else.
    By(&'static dyn Durability),
}

/// What makes transactions durable where nothing is flushed: the crash checker.
#[doc(hidden)]
pub trait Durability: Sync {
    /// Makes all transactions up to this one durable.
    fn wait(&self, transaction: u64);
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ticket({})", self.transaction)
    }
}

impl Ticket {
    /// A ticket for what is durable already.
    pub(super) fn durable() -> Self {
        Self { transaction: 0, made: Made::Durable }
    }

    /// A ticket for what `durability` makes durable.
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

    /// The number of the transaction: no two have the same, and later ones have higher ones. 0: it wrote nothing
    /// that is not durable.
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

    /// Returns whether the transaction is durable by now. It waits for nothing, and may be called inside a transaction.
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
            // A loop that asks comes to its end.
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

    /// Waits until the transaction is durable, for which it flushes the log if nobody else does.
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
    /// As [`Ticket::is_durable`]; returns [`Error::Nested`] inside a transaction of the pool, for whose end the flush may have to wait.
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

    /// Ready when the transaction is durable; asks the pool's thread to flush at once. Inside a transaction of the pool it is an error as
    /// [`Ticket::wait`] is: whoever polls would wait.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(core) = self.core()
            && let Err(error) = core.outside.check()
        {
            return Poll::Ready(Err(error));
        }
        // Not when it has become durable: what was committed since would be flushed by itself, and the next one would wait for that.
        if matches!(self.is_durable(), Ok(false))
            && let Some(core) = self.core()
        {
            // Before it is asked again: a flush that ends in between wakes.
            core.ask(true, Some(context.waker()));
        }
        match self.is_durable() {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// What the thread and the tickets share.
struct Core {
    /// To be asked first: in a forked child the locks may be held for ever.
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
    /// Something has been committed since the last flush.
    pending: bool,
    /// Somebody waits for it.
    urgent: bool,
    stop: bool,
    wakers: Vec<Waker>,
}

/// Wakes all of them, also if some panic: what an executor does there is nothing to the pool.
fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        // The panic was printed.
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
        // Before the lock: how it is cloned is the executor's affair.
        let mut waker = waker.cloned();
        let mut requests = lock(&self.requests);
        let is_new = |waker: &mut Waker| !requests.wakers.iter().any(|known| known.will_wake(waker));
        if let Some(waker) = waker.take_if(is_new) {
            requests.wakers.push(waker);
        }
        let news = !requests.pending || (urgent && !requests.urgent);
        requests.pending = true;
        requests.urgent |= urgent;
        // Whom it wakes takes the lock.
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
            // If it fails the pool is poisoned, as everybody will see.
            let _ = self.log.wait_durable(&view, self.log.appended_up_to(&view));
            self.wake_all();
            if stop {
                return;
            }
        }
    }
}

/// The thread that flushes what nobody waits for.
pub(super) struct Flusher {
    core: Arc<Core>,
    /// Set when the pool was closed, with everything durable.
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts it; `None` where the system has no thread left.
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

    /// A ticket for a transaction that has committed.
    pub fn ticket(&self, transaction: u64) -> Ticket {
        self.core.ask(false, None);
        Ticket { transaction, made: Made::ByFlusher(Arc::downgrade(&self.core), self.closed.clone()) }
    }

    /// Has the thread stop, without waiting for it.
    pub fn ask_to_stop(&self) {
        lock(&self.core.requests).stop = true;
        self.core.changed.notify_one();
    }

    /// Stops it, when everything is durable or never will be, and wakes whoever still waits.
    pub fn stop(mut self, everything_is_durable: bool) {
        self.closed.store(everything_is_durable, Ordering::Release);
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            // Its panics are caught, and have poisoned the pool.
            let _ = thread.join();
        }
        let core = self.core.clone();
        drop(self);
        let wakers = std::mem::take(&mut lock(&core.requests).wakers);
        // Woken tickets find either the shared state or what became of it.
        drop(core);
        wake(wakers);
    }
}
