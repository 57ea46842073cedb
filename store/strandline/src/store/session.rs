//! Sessions, with which a thread keeps a worker.

use std::marker::PhantomData;
use std::sync::Arc;

#[cfg(doc)]
use super::Store;
use super::shared::Borrowed;
use super::{Later, run};
use crate::value::persist::Root;
use crate::value::pointer::Ptr;
use crate::value::transaction::{Control, Tx, View};
use strandline_core::engine::{Stm, Worker};
use strandline_core::error::{Error, Result};
use strandline_core::file::{Pool, Ticket, WriteObserver};
use strandline_core::memory::{Native, PersistentAddress};
use strandline_core::transaction::{Runner, Statistics};

/// A handle with which one thread runs transactions on a [`Store`] without looking for a free worker each time.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// let store = Store::<u64>::create_new(&path, &options, |_| Ok(0))?;
/// let mut session = store.session()?;
/// for _ in 0..10 {
///     session.write(|tx, root| root.update(tx, |count| *count += 1))?;
/// }
/// assert_eq!(session.read(|tx, root| root.get(tx))?, 10);
/// # Ok::<(), strandline::Error>(())
/// ```
///
/// A session keeps the store open: as long as it exists, [`Store::close`] returns [`Error::InUse`].
pub struct Session<R, C: Control<Memory = Native> = Stm> {
    borrowed: Borrowed<Arc<Pool<C>>, C>,
    /// Observes transactions that wait for the disk. `None` if none have to.
    writes: Option<WriteObserver>,
    root: PersistentAddress,
    root_type: PhantomData<fn() -> R>,
}

impl<R: Root, C: Control<Memory = Native>> Session<R, C> {
    pub(super) fn new(pool: Arc<Pool<C>>, root: PersistentAddress) -> Result<Self> {
        let writes = pool.write_observer();
        Ok(Self { borrowed: Borrowed::of(pool)?, writes, root, root_type: PhantomData })
    }

    fn worker(&mut self) -> &mut Worker<C> {
        self.borrowed.worker()
    }

    /// Limits transactions from now on to the size of the log.
    #[cfg(feature = "observed")]
    pub(crate) fn keep_to_log(&mut self) {
        self.worker().keep_to_log();
    }

    /// Returns the number of the latest transaction from which the last one may have read, and the lines to which it has stored if it committed.
    #[cfg(feature = "observed")]
    pub(crate) fn last_transaction(&mut self, committed: bool) -> (u64, Vec<PersistentAddress>) {
        let worker = self.worker();
        (worker.newest_read(), if committed { worker.lines_stored() } else { Vec::new() })
    }

    /// Like [`Store::write`].
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    #[track_caller]
    pub fn write<T>(
        &mut self,
        body: impl for<'p> FnMut(&Tx<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T>,
    ) -> Result<T> {
        self.write_with_error(body)
    }

    /// Like [`Store::write_with_error`].
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    #[track_caller]
    pub fn write_with_error<E: From<Error>, T>(
        &mut self,
        mut body: impl for<'p> FnMut(&Tx<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let Self { borrowed, writes, root, .. } = self;
        run::observed(writes.as_ref(), || {
            run::update::<C, _, _>(borrowed.worker(), |tx| body(tx, Ptr::of(*root)))
        })
    }

    /// Like [`Store::later`].
    pub fn later(&mut self) -> Later<&mut Self> {
        Later(self)
    }

    /// Like [`Store::read`].
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    pub fn read<T>(
        &mut self,
        body: impl for<'p> FnMut(&View<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T>,
    ) -> Result<T> {
        self.read_with_error(body)
    }

    /// Like [`Store::read_with_error`].
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    pub fn read_with_error<E: From<Error>, T>(
        &mut self,
        mut body: impl for<'p> FnMut(&View<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let root = self.root;
        run::view::<C, _, _>(self.worker(), |tx| body(tx, Ptr::of(root)))
    }

    /// Returns the counts of this session's worker, including those from other sessions. This is for benchmarks.
    #[doc(hidden)]
    pub fn statistics(&self) -> Statistics {
        self.borrowed.peek().map(Runner::statistics).unwrap_or_default()
    }
}

impl<R: Root, C: Control<Memory = Native>> Later<&mut Session<R, C>> {
    /// Like [`Store::write`], but does not wait until the transaction is durable. The caller can wait on the ticket that it returns.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    pub fn write<T>(
        self,
        body: impl for<'p> FnMut(&Tx<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T>,
    ) -> Result<(T, Ticket)> {
        self.write_with_error(body)
    }

    /// Like [`write`](Self::write), for a closure with another error type. See [`Store::write_with_error`].
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    pub fn write_with_error<E: From<Error>, T>(
        self,
        mut body: impl for<'p> FnMut(&Tx<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T, E>,
    ) -> Result<(T, Ticket), E> {
        let root = self.0.root;
        let (result, transaction) =
            run::update_later::<C, _, _>(self.0.worker(), |tx| body(tx, Ptr::of(root)))?;
        Ok((result, self.0.borrowed.pool.ticket(transaction)?))
    }
}
