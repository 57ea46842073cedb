//! Runs closures as typed transactions of a worker.

use std::panic::Location;
use std::time::Instant;

use crate::value::transaction::{Control, Tx, View, interrupted};
use strandline_core::engine::{self, Worker};
use strandline_core::error::{Error, Result};
use strandline_core::file::WriteObserver;
use strandline_core::transaction::{Abort, Runner};

#[inline(always)]
fn attempt<'p, C: Control, T, E>(
    tx: &'p mut engine::Tx<C>,
    body: &mut impl FnMut(&Tx<'p, C>) -> Result<T, E>,
    given_up: &mut Option<E>,
) -> Result<T, Abort> {
    // A check costs less than a store to the variable, which would wait for the fence of the last commit.
    if given_up.is_some() {
        *given_up = None;
    }
    let tx = Tx::new(tx);
    match body(&tx) {
        Ok(value) => {
            tx.end()?;
            Ok(value)
        }
        Err(error) => {
            *given_up = Some(error);
            Err(Abort::User)
        }
    }
}

/// Runs `body` inside a transaction that is in progress.
pub(crate) fn within<C: Control, T>(
    tx: &mut engine::Tx<C>,
    body: impl for<'p> FnOnce(&Tx<'p, C>) -> Result<T>,
) -> Result<T> {
    let typed = Tx::new(tx);
    let done = body(&typed);
    // The transaction may commit although `body` has failed, and then keeps what `body` has written.
    match typed.end() {
        Ok(()) => done,
        Err(why) => interrupted(tx, why),
    }
}

/// Runs `body` as a transaction of `worker`, and repeats it after a conflict. This is the typed form of [`Runner::run`].
///
/// # Errors
/// Returns the error of `body`, in which case nothing has changed, or the error that made the transaction fail.
#[inline]
pub(crate) fn update<C: Control, T, E: From<Error>>(
    worker: &mut Worker<C>,
    mut body: impl FnMut(&Tx<'_, C>) -> Result<T, E>,
) -> Result<T, E> {
    let mut given_up = None;
    let outcome = worker.run(|tx| attempt(tx, &mut body, &mut given_up));
    finish(outcome, &mut given_up)
}

/// Like [`update`], but does not wait for the log. Also returns the number of the transaction that has to become durable.
pub(crate) fn update_later<C: Control, T, E: From<Error>>(
    worker: &mut Worker<C>,
    mut body: impl FnMut(&Tx<'_, C>) -> Result<T, E>,
) -> Result<(T, u64), E> {
    let mut given_up = None;
    let outcome = worker.run_later(|tx| attempt(tx, &mut body, &mut given_up));
    finish(outcome, &mut given_up)
}

/// Runs `write`, which waits until its transaction is durable, and reports the time to `writes`.
#[track_caller]
pub(crate) fn observed<T, E>(
    writes: Option<&WriteObserver>,
    write: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let Some(writes) = writes else { return write() };
    let since = Instant::now();
    let written = write()?;
    writes.note(since.elapsed(), Location::caller());
    Ok(written)
}

/// Runs `body` as a read-only transaction of `worker`: the typed form of [`Runner::view`].
///
/// # Errors
/// Returns the same errors as [`update`].
#[inline]
pub(crate) fn view<C: Control, T, E: From<Error>>(
    worker: &mut Worker<C>,
    mut body: impl FnMut(&View<'_, C>) -> Result<T, E>,
) -> Result<T, E> {
    let mut given_up = None;
    let outcome = worker.view(|tx| {
        given_up = None;
        match body(&View::new(tx, false)) {
            Ok(value) => Ok(value),
            Err(error) => {
                given_up = Some(error);
                Err(Abort::User)
            }
        }
    });
    finish(outcome, &mut given_up)
}

#[inline]
fn finish<T, E: From<Error>>(outcome: Result<T>, given_up: &mut Option<E>) -> Result<T, E> {
    match outcome {
        Ok(value) => Ok(value),
        Err(error) => Err(failed(error, given_up)),
    }
}

/// The transaction's own error is returned, whatever its closure returned: the runner reports an abort by its caller only if there was no other
/// error.
#[cold]
fn failed<E: From<Error>>(error: Error, given_up: &mut Option<E>) -> E {
    match (error, given_up.take()) {
        (Error::Aborted, Some(error)) => error,
        (error, _) => error.into(),
    }
}
