//! Stores whose transactions an observer follows: the crash checker, which computes the states that a power failure may leave.

use std::panic::Location;

use super::{Session, Store};
use crate::value::persist::Root;
use crate::value::pointer::Ptr;
use crate::value::transaction::{Control, Tx, View};
use strandline_core::error::Result;
use strandline_core::file::{Durability, Ticket};
use strandline_core::memory::{Native, PersistentAddress};

/// Observes transactions. The observer also makes them durable: an observed store waits for nothing else.
pub trait Observer: Durability {
    /// A transaction's closure is about to run.
    fn begins(&self);
    /// The closure has run for the last time, or has panicked if `transaction` is `None`. Returns the number of the transaction that has to become
    /// durable, for a ticket.
    fn ends(&self, transaction: Option<Observed>) -> u64;
}

/// A transaction that has ended.
#[derive(Debug)]
pub struct Observed {
    /// The place in the program that called for the transaction.
    pub at: &'static Location<'static>,
    /// True if the caller waits until the transaction is durable.
    pub waits: bool,
    /// The number of the latest transaction from which it may have read.
    pub seen: u64,
    /// The lines to which it has stored; `None` if they are unknown.
    pub stored: Option<Vec<PersistentAddress>>,
}

/// Reports a panic of the closure when it is dropped.
struct Panicked(&'static dyn Observer);

impl Drop for Panicked {
    fn drop(&mut self) {
        self.0.ends(None);
    }
}

/// Any closure of a transaction that may write.
type Writes<'b, R, C, E> = dyn for<'p> FnMut(&Tx<'p, C>, Ptr<'p, <R as Root>::At<'p>>) -> Result<(), E> + 'b;
/// Any closure of a transaction that only reads.
type Reads<'b, R, C, E> = dyn for<'p> FnMut(&View<'p, C>, Ptr<'p, <R as Root>::At<'p>>) -> Result<(), E> + 'b;

impl<R: Root, C: Control<Memory = Native>> Store<R, C> {
    /// Runs `body` as a transaction that may write, and reports it to `observer`. Returns its result, and a ticket. The transaction
    /// is compiled once for all closures.
    #[track_caller]
    pub(crate) fn observed_write<T, E: From<strandline_core::Error>>(
        &self,
        observer: &'static dyn Observer,
        waits: bool,
        body: &mut impl for<'p> FnMut(&Tx<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T, E>,
    ) -> Result<(T, Ticket), E> {
        let mut value = None;
        let body: &mut Writes<'_, R, C, E> =
            &mut |tx, root| body(tx, root).map(|returned| value = Some(returned));
        let ticket = self.observed(observer, waits, |session| session.write_with_error(body))?;
        Ok((value.expect("the transaction has been run"), ticket))
    }

    /// Runs `body` as a transaction that only reads, and reports it like [`observed_write`](Self::observed_write).
    #[track_caller]
    pub(crate) fn observed_read<T, E: From<strandline_core::Error>>(
        &self,
        observer: &'static dyn Observer,
        body: &mut impl for<'p> FnMut(&View<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut value = None;
        let body: &mut Reads<'_, R, C, E> =
            &mut |tx, root| body(tx, root).map(|returned| value = Some(returned));
        drop(self.observed(observer, true, |session| session.read_with_error(body))?);
        Ok(value.expect("the transaction has been run"))
    }

    /// Runs `body`, which is one transaction of a session, and reports it. Returns a ticket.
    #[track_caller]
    fn observed<E: From<strandline_core::Error>>(
        &self,
        observer: &'static dyn Observer,
        waits: bool,
        body: impl FnOnce(&mut Session<R, C>) -> Result<(), E>,
    ) -> Result<Ticket, E> {
        let (mut body, mut result) = (Some(body), Ok(()));
        let ticket = self.report_to(observer, waits, &mut |session| {
            result = body.take().expect("it is run once")(session);
            result.is_ok()
        })?;
        result.map(|()| ticket)
    }

    /// Runs `body` and reports it. `body` returns whether its transaction has committed.
    #[track_caller]
    fn report_to(
        &self,
        observer: &'static dyn Observer,
        waits: bool,
        body: &mut dyn FnMut(&mut Session<R, C>) -> bool,
    ) -> Result<Ticket> {
        let at = Location::caller();
        let mut session = self.session()?;
        session.keep_to_log();
        observer.begins();
        let panicked = Panicked(observer);
        let committed = body(&mut session);
        std::mem::forget(panicked);
        // The session is dropped here, so that transactions that run meanwhile can use its worker.
        let (seen, stored) = session.last_transaction(committed);
        drop(session);
        let transaction = observer.ends(Some(Observed { at, waits, seen, stored: Some(stored) }));
        Ok(Ticket::by(observer, transaction))
    }

    /// Reports to the observer, if there is one, an operation that is not run by a session. It counts as having read everything and, if `changed`, as
    /// having changed everything.
    #[track_caller]
    pub(crate) fn observe_all(&self, changed: bool) {
        if let Some(observer) = self.observer {
            let (at, stored) = (Location::caller(), if changed { None } else { Some(Vec::new()) });
            observer.begins();
            observer.ends(Some(Observed { at, waits: true, seen: u64::MAX, stored }));
        }
    }
}
