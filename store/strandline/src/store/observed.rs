//! Stores whose transactions somebody is told of: the crash checker, which says what of them a power failure leaves.

use std::panic::Location;

use super::{Session, Store};
use crate::value::persist::Root;
use crate::value::transaction::Control;
use strandline_core::error::Result;
use strandline_core::file::{Durability, Ticket};
use strandline_core::memory::{Native, PersistentAddress};

/// Who is told of transactions. It makes them durable, too: a store that is observed waits for nothing else.
pub trait Observer: Durability {
    /// A transaction's closure is about to run.
    fn begins(&self);
    /// The closure has run for the last time; `None`: it has panicked. The number of the transaction that has to be durable, for a
    /// ticket, is returned.
    fn ends(&self, transaction: Option<Observed>) -> u64;
}

/// A transaction that has ended.
#[derive(Debug)]
pub struct Observed {
    /// Who has asked for it.
    pub at: &'static Location<'static>,
    /// Whether its caller waits until it is durable.
    pub waits: bool,
    /// The number of the latest transaction that it may have read from.
    pub seen: u64,
    /// The lines that it has stored to; `None`: nobody knows.
    pub stored: Option<Vec<PersistentAddress>>,
}

/// Dropped where a closure panics.
struct Panicked(&'static dyn Observer);

impl Drop for Panicked {
    fn drop(&mut self) {
        self.0.ends(None);
    }
}

impl<R: Root, C: Control<Memory = Native>> Store<R, C> {
    /// Runs `body`, one transaction of a session, and tells `observer`; what it returns, and a ticket.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn observed<T, E: From<strandline_core::Error>>(
        &self,
        observer: &'static dyn Observer,
        waits: bool,
        body: impl FnOnce(&mut Session<R, C>) -> Result<T, E>,
    ) -> Result<(T, Ticket), E> {
        let at = Location::caller();
        let mut session = self.session()?;
        session.keep_to_log();
        observer.begins();
        let panicked = Panicked(observer);
        let result = body(&mut session);
        std::mem::forget(panicked);
        // Its worker is there for others that run meanwhile.
        let (seen, stored) = session.last_transaction(result.is_ok());
        drop(session);
        let transaction = observer.ends(Some(Observed { at, waits, seen, stored: Some(stored) }));
        Ok((result?, Ticket::by(observer, transaction)))
    }

    /// Tells the observer, if there is one, of what no session does. It has read all, and may have `changed` all.
    #[track_caller]
    pub(crate) fn observe_all(&self, changed: bool) {
        if let Some(observer) = self.observer {
            let (at, stored) = (Location::caller(), if changed { None } else { Some(Vec::new()) });
            observer.begins();
            observer.ends(Some(Observed { at, waits: true, seen: u64::MAX, stored }));
        }
    }
}
