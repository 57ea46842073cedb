//! Typed transactions: what a closure is lent, and how it is run.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Deref;

use strandline_core::engine::Worker;
use strandline_core::error::{Error, Result};
use strandline_core::memory::Memory;
use strandline_core::scheme::SchemeObject;
use strandline_core::transaction::{Abort, Runner, Transaction};

/// A transaction that reads. Its lifetime is the *brand* of everything that is read in it: a pointer or collection
/// of one transaction or pool is of another type than those of any other, and none outlives its transaction.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// use strandline::{Vector, View};
///
/// // Takes a `&Tx` too.
/// fn sum<'p>(tx: &View<'p>, numbers: Vector<'p, u64>) -> strandline::Result<u64> {
///     numbers.iter(tx)?.sum()
/// }
///
/// let store = Store::<u64>::create(&path, &options, |tx| {
///     let numbers = Vector::new(tx)?;
///     numbers.extend(tx, [1, 2, 3])?;
///     sum(tx, numbers)
/// })?;
/// assert_eq!(store.view(|tx, root| root.get(tx))?, 6);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct View<'p> {
    inner: RefCell<&'p mut (dyn Transaction + 'p)>,
    operations: Cell<u64>,
}

/// A transaction that reads and writes: all of it happens, or nothing. It can do all that a [`View`] can.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// use strandline::{Ptr, Tx};
///
/// // A part of a transaction.
/// fn double<'p>(tx: &Tx<'p>, number: Ptr<'p, u64>) -> strandline::Result<()> {
///     number.update(tx, |number| *number *= 2)
/// }
///
/// let store = Store::<u64>::create(&path, &options, |_| Ok(5))?;
/// store.update(|tx, root| double(tx, root))?;
/// assert_eq!(store.view(|tx, root| root.get(tx))?, 10);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Tx<'p> {
    view: View<'p>,
}

impl<'p> Deref for Tx<'p> {
    type Target = View<'p>;
    fn deref(&self) -> &View<'p> {
        &self.view
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("View")
    }
}

impl fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tx")
    }
}

/// The words of the pool, for one operation.
pub(crate) type Words<'a> = &'a mut (dyn Transaction + 'a);

impl<'p> View<'p> {
    fn new(inner: &'p mut (dyn Transaction + 'p)) -> Self {
        Self { inner: RefCell::new(inner), operations: Cell::new(0) }
    }

    /// How many operations the transaction has run so far.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Runs one operation, which must not call what it was given by a user: that may use the transaction too.
    #[inline]
    pub(crate) fn words<R>(&self, body: impl FnOnce(&mut Words<'_>) -> Result<R, Abort>) -> Result<R> {
        self.operations.set(self.operations.get() + 1);
        body(&mut (&mut **self.inner.borrow_mut() as Words<'_>)).map_err(|_| Error::Interrupted)
    }
}

fn attempt<'p, T, E>(
    tx: &'p mut (dyn Transaction + 'p),
    body: &mut impl FnMut(&Tx<'p>) -> Result<T, E>,
    given_up: &mut Option<E>,
) -> Result<T, Abort> {
    *given_up = None;
    body(&Tx { view: View::new(tx) }).map_err(|error| {
        *given_up = Some(error);
        Abort::User
    })
}

/// Runs `body` inside a transaction that is under way.
pub(crate) fn within<T>(
    tx: &mut dyn Transaction,
    body: impl for<'p> FnOnce(&Tx<'p>) -> Result<T>,
) -> Result<T> {
    body(&Tx { view: View::new(tx) })
}

/// Runs `body` as a transaction of `runner`, again after a conflict: the typed form of [`Runner::run`].
///
/// # Errors
/// The error that `body` returns, and nothing has happened; or what made the transaction fail.
pub(crate) fn update<T, E: From<Error>>(
    runner: &mut impl Runner,
    mut body: impl FnMut(&Tx<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let mut given_up = None;
    let outcome = runner.run(|tx| attempt(tx, &mut body, &mut given_up));
    finish(outcome, given_up)
}

/// As [`update`], without waiting for the log: also returns the number of the transaction that has to be durable.
pub(crate) fn update_later<M: Memory, S: SchemeObject<M>, T, E: From<Error>>(
    worker: &mut Worker<M, S>,
    mut body: impl FnMut(&Tx<'_>) -> Result<T, E>,
) -> Result<(T, u64), E> {
    let mut given_up = None;
    let outcome = worker.run_later(|tx| attempt(tx, &mut body, &mut given_up));
    finish(outcome, given_up)
}

/// Runs `body` as a read-only transaction of `runner`: the typed form of [`Runner::view`].
///
/// # Errors
/// As [`update`].
pub(crate) fn view<T, E: From<Error>>(
    runner: &mut impl Runner,
    mut body: impl FnMut(&View<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let mut given_up = None;
    let outcome = runner.view(|tx| {
        given_up = None;
        body(&View::new(tx)).map_err(|error| {
            given_up = Some(error);
            Abort::User
        })
    });
    finish(outcome, given_up)
}

#[inline]
fn finish<T, E: From<Error>>(outcome: Result<T>, given_up: Option<E>) -> Result<T, E> {
    match outcome {
        Ok(value) => Ok(value),
        Err(error) => Err(failed(error, given_up)),
    }
}

/// What the transaction met counts, whatever its closure made of it: the runner reports an abort by its caller
/// only where there was nothing else.
#[cold]
fn failed<E: From<Error>>(error: Error, given_up: Option<E>) -> E {
    match (error, given_up) {
        (Error::Aborted, Some(error)) => error,
        (error, _) => error.into(),
    }
}
