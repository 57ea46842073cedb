//! A store: a pool with a typed root.

#[cfg(feature = "observed")]
pub(crate) mod observed;
mod opening;
pub(crate) mod root;
mod run;
pub(crate) mod savepoint;
mod session;
pub(crate) mod shared;
pub(crate) mod snapshot;

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "control")]
use std::sync::Weak;

use crate::value::check::{Checker, LostMemory};
use crate::value::persist::Root;
use crate::value::pointer::Ptr;
use crate::value::transaction::{Control, Tx, View};
#[cfg(feature = "observed")]
use observed::Observer;
pub use session::Session;
#[cfg(feature = "control")]
use shared::SharedPool;
use shared::{Borrowed, Handle};
use snapshot::Snapshot;
use strandline_core::engine::{SnapshotUsage, Stm};
use strandline_core::error::{Error, Result};
use strandline_core::file::{
    BackupReport, CompactReport, Pool, PoolStatistics, Recovery, SpaceUsage, Ticket,
};
use strandline_core::heap::HeapUsage;
use strandline_core::memory::{Native, PersistentAddress};

/// A pool with one value of type `R`, the root, through which everything else in it is reached.
///
/// Threads can share a store. A clone is another handle to the same store. Each transaction borrows one of the pool's workers, and waits while all
/// are in use. A thread that runs many transactions keeps one with [`Store::session`].
///
/// Inside a transaction, on the thread that runs it, every method that waits or begins a transaction of the same store returns [`Error::Nested`] and
/// does nothing. The others are [`path`](Store::path), [`recovery`](Store::recovery), [`space`](Store::space), [`statistics`](Store::statistics),
/// [`snapshot_usage`](Store::snapshot_usage) and [`later`](Store::later), whose `write` returns the error.
///
/// ```
/// use strandline::Options;
/// use strandline::{HashMap, Persist, Store};
///
/// #[derive(Persist)]
/// struct Shop<'p> {
///     stock: HashMap<'p, String, u64>,
///     sold: u64,
/// }
///
/// # let path = strandline::example::path();
/// let shop = Store::<Shop>::open(&path, &Options::default(), |tx| {
///     Ok(Shop { stock: HashMap::new(tx)?, sold: 0 })
/// })?;
///
/// // One transaction: durable when `write` returns, and not there at all if the closure returns an error.
/// shop.write(|tx, root| {
///     root.get(tx)?.stock.insert(tx, &"apples".to_string(), &40)?;
///     root.update(tx, |shop| shop.sold += 2)
/// })?;
///
/// let apples = shop.read(|tx, root| root.get(tx)?.stock.get(tx, "apples"))?;
/// assert_eq!(apples, Some(40));
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Store<R, C: Control<Memory = Native> = Stm> {
    pool: Arc<Handle<C>>,
    /// The address of the root's value.
    root: PersistentAddress,
    root_type: PhantomData<fn() -> R>,
    /// The crash checker, which observes the store's transactions.
    #[cfg(feature = "observed")]
    pub(crate) observer: Option<&'static dyn Observer>,
}

/// A handle for transactions that return before they are durable. [`Store::later`] returns it.
#[derive(Clone, Copy, Debug)]
#[must_use = "it runs nothing until `write` is called"]
pub struct Later<S>(pub(crate) S);

impl<R: Root, C: Control<Memory = Native>> Store<R, C> {
    /// Runs `body` as a transaction, and repeats it after a conflict, until it commits and is durable in the sense of the domain. `body` may run
    /// several times; only its last run has an effect. It receives the transaction and a pointer to the root. If it returns an error, the transaction
    /// has no effect, and this returns the error.
    ///
    /// While `body` runs, its thread cannot begin another transaction on the same store, because the two might wait for each other. The attempt
    /// returns [`Error::Nested`] immediately, and this transaction continues.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// let store = Store::<u64>::create_new(&path, &options, |_| Ok(5))?;
    /// store.write(|tx, root| root.set(tx, &6))?;
    /// // An error of the closure's takes everything back.
    /// let refused: strandline::Result<()> = store.write(|tx, root| {
    ///     root.set(tx, &7)?;
    ///     Err(Error::Aborted)
    /// });
    /// assert!(refused.is_err());
    /// assert_eq!(store.read(|tx, root| root.get(tx))?, 6);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of `body`, or the error that made the transaction fail ([`Error::Full`], …): [`Error::Nested`] if the thread is in a
    /// transaction of this store, [`Error::Closed`] if the store was closed, [`Error::Forked`] if another process opened it. Nothing has changed
    /// then. Only after [`Error::Poisoned`], when the device has failed, is the outcome unknown until the store is opened again.
    #[track_caller]
    pub fn write<T>(
        &self,
        body: impl for<'p> FnMut(&Tx<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T>,
    ) -> Result<T> {
        self.write_with_error(body)
    }

    /// Like [`Store::write`], for a closure that returns any error type into which [`Error`] can be converted.
    /// [`Database::write_with_error`](crate::Database::write_with_error) describes how to name the error type.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// #[derive(Persist)]
    /// struct Account {
    ///     balance: u64,
    /// }
    ///
    /// #[derive(Debug)]
    /// enum Refusal {
    ///     NotEnough { balance: u64 },
    ///     Store(Error),
    /// }
    ///
    /// impl From<Error> for Refusal {
    ///     fn from(error: Error) -> Self {
    ///         Refusal::Store(error)
    ///     }
    /// }
    ///
    /// fn withdraw(account: &Store<Account>, amount: u64) -> Result<u64, Refusal> {
    ///     account.write_with_error(|tx, root| {
    ///         let balance = root.get(tx)?.balance;
    ///         let left = balance.checked_sub(amount).ok_or(Refusal::NotEnough { balance })?;
    ///         root.set(tx, &Account { balance: left })?;
    ///         Ok(left)
    ///     })
    /// }
    ///
    /// let account = Store::<Account>::create_new(&path, &options, |_| Ok(Account { balance: 5 })).unwrap();
    /// assert_eq!(withdraw(&account, 3).unwrap(), 2);
    /// assert!(matches!(withdraw(&account, 3), Err(Refusal::NotEnough { balance: 2 })));
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    #[track_caller]
    pub fn write_with_error<E: From<Error>, T>(
        &self,
        mut body: impl for<'p> FnMut(&Tx<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T, E>,
    ) -> Result<T, E> {
        #[cfg(feature = "observed")]
        if let Some(observer) = self.observer {
            return Ok(self.observed_write(observer, true, &mut body)?.0);
        }
        let root = self.root;
        run::observed(self.pool.writes(), || {
            let mut taken = self.pool.borrow()?;
            run::update::<C, _, _>(taken.worker(), |tx| body(tx, Ptr::of(root)))
        })
    }

    /// Returns a handle for transactions that do not wait until they are durable. Each returns a ticket with which to wait. Other transactions see
    /// its effect immediately; a [`write`](Store::write), [`read`](Store::read) or [`snapshot`](Store::snapshot) that has seen the effect returns
    /// only when it is durable.
    ///
    /// A crash before that loses the transaction as a whole, and all later ones. At most the transactions of the last
    /// [`flush_interval`](crate::Options::flush_interval) (10 ms by default) and of one flush can be lost. This only applies to the `Sync` domain; in
    /// the others a transaction is durable when it has committed.
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let visits = Store::<u64>::create_new(&path, &Options::default(), |_| Ok(0))?;
    /// let mut last = None;
    /// for _ in 0..100 {
    ///     let (_, ticket) = visits.later().write(|tx, root| root.update(tx, |visits| *visits += 1))?;
    ///     last = Some(ticket);
    /// }
    /// // One wait for all: transactions become durable in the order in which they committed.
    /// if let Some(ticket) = last {
    ///     ticket.wait()?; // or `ticket.await?` in an asynchronous function
    /// }
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn later(&self) -> Later<&Self> {
        Later(self)
    }

    /// Runs `body` as a read-only transaction: it sees one state of the pool, whatever others do meanwhile, and cannot write. After a conflict it
    /// runs a second time, and then at a snapshot, which has no conflicts. (It may run more often if there is no memory for snapshots, or too
    /// little.) Code that must run only once should read a [`Store::snapshot`].
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// let store = Store::<u64>::create_new(&path, &options, |_| Ok(5))?;
    /// let square = store.read(|tx, root| {
    ///     let value = root.get(tx)?;
    ///     Ok(value * value)
    /// })?;
    /// assert_eq!(square, 25);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    #[track_caller]
    pub fn read<T>(
        &self,
        body: impl for<'p> FnMut(&View<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T>,
    ) -> Result<T> {
        self.read_with_error(body)
    }

    /// Like [`Store::read`], for a closure with another error type. See [`Store::write_with_error`].
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    #[track_caller]
    pub fn read_with_error<E: From<Error>, T>(
        &self,
        mut body: impl for<'p> FnMut(&View<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T, E>,
    ) -> Result<T, E> {
        #[cfg(feature = "observed")]
        if let Some(observer) = self.observer {
            return self.observed_read(observer, &mut body);
        }
        let mut taken = self.pool.borrow()?;
        let root = self.root;
        run::view::<C, _, _>(taken.worker(), |tx| body(tx, Ptr::of(root)))
    }

    /// Checks everything that is reachable from the root for damage, using the program's types: blocks, tags, links, lengths, the order of keys,
    /// counts, and that each key and value is valid for its type. Returns a list of problems, which is empty if there are none. `strandline pool
    /// check` checks the layers below: headers, logs and heap.
    ///
    /// One transaction reads everything.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// #[derive(Persist)]
    /// struct Book<'p> {
    ///     title: Text<'p>,
    /// }
    ///
    /// let store = Store::<Book>::create_new(&path, &options, |tx| {
    ///     Ok(Book { title: Text::new(tx, "Persistence")? })
    /// })?;
    /// assert!(store.check()?.is_empty());
    /// // Freed, but still in its place.
    /// store.write(|tx, root| root.get(tx)?.title.destroy(tx))?;
    /// let found = store.check()?;
    /// assert!(found[0].ends_with("where nothing is allocated"), "{found:?}");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::read`]. Damage is reported in the list, not as an error.
    pub fn check(&self) -> Result<Vec<String>> {
        self.read(|tx, root| Checker::run(tx, |checker| root::visit::<R, C>(tx, root, checker)))
    }

    /// Returns the memory that is allocated but not reachable from the root, for example because a pointer or a collection was removed without
    /// freeing its memory.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// let store = Store::<u64>::create_new(&path, &options, |_| Ok(5))?;
    /// assert_eq!(store.lost_memory()?.blocks, 0);
    /// store.write(|tx, _| Ptr::new(tx, &7u64).map(drop))?; // and nothing keeps it
    /// assert_eq!(store.lost_memory()?.blocks, 1);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if something is damaged ([`Store::check`] lists the damage), [`Error::Unsupported`] if a row of a table contains a
    /// pointer to a type that does not describe itself, and the errors of [`Store::read`].
    pub fn lost_memory(&self) -> Result<LostMemory> {
        self.read(|tx, root| Checker::lost(tx, |checker| root::visit::<R, C>(tx, root, checker)))
    }

    /// Returns the store as it is now, for as long as the snapshot exists. Use it for long or slow reads beside writers. In the `Sync` domain, this
    /// waits until everything that the snapshot sees is durable.
    ///
    /// # Errors
    /// Returns [`Error::TooManySnapshots`] if there are already 64 (a transaction that only reads counts as one while it reads a value of more than
    /// 16 KB with `read_with` or `write_to`), [`Error::Parameter`] if the options leave no memory for snapshots, [`Error::Nested`] inside a
    /// transaction (an existing snapshot can be read there), [`Error::Closed`], [`Error::Poisoned`] and [`Error::Forked`].
    #[track_caller]
    pub fn snapshot(&self) -> Result<Snapshot<R, C>> {
        #[cfg(feature = "observed")]
        self.observe_all(false);
        Snapshot::new(self.pool.keep()?, self.root)
    }

    /// Returns the memory that existing snapshots take. This may be called inside a transaction.
    ///
    /// # Errors
    /// Returns [`Error::Closed`] and [`Error::Forked`].
    pub fn snapshot_usage(&self) -> Result<SnapshotUsage> {
        self.pool.open()?.snapshot_usage()
    }

    /// Returns a session, which keeps one of the pool's workers for several transactions. Waits while all workers are in use. Inside a transaction
    /// this is an error.
    ///
    /// # Errors
    /// Returns [`Error::Closed`], and the errors of [`Pool::wait_for_worker`].
    pub fn session(&self) -> Result<Session<R, C>> {
        Session::new(self.pool.keep()?, self.root)
    }

    /// Returns what the store did to recover from a crash when it was opened.
    pub fn recovery(&self) -> &Recovery {
        self.pool.recovery()
    }

    /// Returns how full the store is, in bytes and objects, at one moment. It reads all tables of the heap at a snapshot.
    ///
    /// # Errors
    /// Returns [`Error::Closed`], and the errors of [`Pool::usage`].
    pub fn usage(&self) -> Result<HeapUsage> {
        self.pool.open()?.usage()
    }

    /// Returns the disk space and memory that the store takes. This may be called inside a transaction.
    ///
    /// # Errors
    /// Returns [`Error::Closed`], [`Error::Forked`], and an error if the file cannot be accessed.
    pub fn space(&self) -> Result<SpaceUsage> {
        self.pool.open()?.space()
    }

    /// Returns the statistics since this process opened the store: numbers of transactions, conflicts, writes and flushes, and their durations. This
    /// may be called inside a transaction.
    ///
    /// # Errors
    /// Returns [`Error::Closed`] and [`Error::Forked`].
    pub fn statistics(&self) -> Result<PoolStatistics> {
        self.pool.open()?.statistics()
    }

    /// Releases the disk space of free memory to the file system, while transactions run. The file keeps its length, with holes.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// # let store = Store::<u64>::create_new(&path, &options, |_| Ok(0))?;
    /// let report = store.compact()?;
    /// println!("{} bytes, before {}", report.disk_bytes, report.disk_bytes_before);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Closed`], and the errors of [`Pool::compact`].
    #[track_caller]
    pub fn compact(&self) -> Result<CompactReport> {
        let report = self.pool.open()?.compact();
        #[cfg(feature = "observed")]
        self.observe_all(true);
        report
    }

    /// Returns the file's path, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        self.pool.path()
    }

    /// Writes everything that is committed to the main file now, so that recovery after a crash has little to do. Outside the `Sync` domain this does
    /// nothing.
    ///
    /// # Errors
    /// Returns [`Error::Closed`], and the errors of [`Pool::checkpoint`].
    pub fn checkpoint(&self) -> Result<()> {
        self.pool.open()?.checkpoint()
    }

    /// Copies the store, as it is at one moment, to a new file while transactions run: see [`Pool::backup`].
    ///
    /// # Errors
    /// Returns [`Error::Closed`], and the errors of [`Pool::backup`].
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        self.pool.open()?.backup(to)
    }

    /// Returns a number that no other open pool of this process has.
    pub(crate) fn number(&self) -> u64 {
        self.pool.number()
    }

    /// Returns the root, for a transaction of this store.
    pub(crate) fn root_of<'p>(&self, _: &View<'p, C>) -> Ptr<'p, R::At<'p>> {
        Ptr::of(self.root)
    }

    /// Returns the pool, for code that works on its words. As long as the returned reference exists, [`Store::close`] returns [`Error::InUse`].
    ///
    /// # Panics
    /// Panics if the store was closed.
    #[doc(hidden)]
    pub fn pool(&self) -> Arc<Pool<C>> {
        loop {
            if let Some(pool) = self.pool.try_keep().expect("the store is open") {
                return pool;
            }
            std::thread::yield_now();
        }
    }

    /// Closes the store, for all handles to it: makes everything durable, marks the pool as cleanly closed and releases its files. Waits for
    /// transactions that other threads have begun. Each later use of any handle returns [`Error::Closed`], except [`path`](Store::path),
    /// [`recovery`](Store::recovery), and this method, which then does nothing.
    ///
    /// Dropping the last handle closes the store once it has no snapshot or session left. That cannot report errors.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// let store = Store::<u64>::create_new(&path, &options, |_| Ok(5))?;
    /// let handle = store.clone(); // as another part of the program has it
    /// store.close()?;
    /// assert!(matches!(handle.read(|tx, root| root.get(tx)), Err(Error::Closed)));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::InUse`] if a [`Snapshot`] or a [`Session`] of it exists, [`Error::Nested`] inside a transaction of this store,
    /// [`Error::Parameter`] inside one of another store, and [`Error::Forked`]; the store stays open then. Also returns the errors of
    /// [`Pool::close`]; the store is closed then, and recovered when it is opened again.
    pub fn close(&self) -> Result<()> {
        self.pool.close()
    }
}

/// A handle that does not keep the store open.
#[cfg(feature = "control")]
pub(crate) struct WeakStore<R, C: Control<Memory = Native>> {
    pool: Weak<SharedPool<C>>,
    root: PersistentAddress,
    root_type: PhantomData<fn() -> R>,
}

#[cfg(feature = "control")]
impl<R, C: Control<Memory = Native>> Store<R, C> {
    pub(crate) fn downgrade(&self) -> WeakStore<R, C> {
        WeakStore { pool: self.pool.for_guest(), root: self.root, root_type: PhantomData }
    }

    /// Like [`SharedPool::admit`].
    pub(crate) fn admit(&self, make: impl FnOnce(&Pool<C>) -> Result<Box<dyn shared::Guest>>) -> Result<()> {
        self.pool.admit(make)
    }
}

#[cfg(feature = "control")]
impl<R, C: Control<Memory = Native>> WeakStore<R, C> {
    /// Returns the store, if the program has a handle to it.
    pub(crate) fn upgrade(&self) -> Option<Store<R, C>> {
        let Self { pool, root, .. } = self;
        Some(Store {
            pool: Arc::new(Handle::of_guest(pool)?),
            root: *root,
            root_type: PhantomData,
            #[cfg(feature = "observed")]
            observer: None,
        })
    }
}

impl<R, C: Control<Memory = Native>> Clone for Store<R, C> {
    /// Returns another handle to the same store, which costs an increment of a counter.
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            root: self.root,
            root_type: PhantomData,
            #[cfg(feature = "observed")]
            observer: self.observer,
        }
    }
}

impl<R: Root, C: Control<Memory = Native>> Later<&Store<R, C>> {
    /// Like [`Store::write`], but does not wait until the transaction is durable. The caller can wait on the ticket that it returns.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::write`].
    #[track_caller]
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
    #[track_caller]
    pub fn write_with_error<E: From<Error>, T>(
        self,
        mut body: impl for<'p> FnMut(&Tx<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T, E>,
    ) -> Result<(T, Ticket), E> {
        #[cfg(feature = "observed")]
        if let Some(observer) = self.0.observer {
            return self.0.observed_write(observer, false, &mut body);
        }
        let mut borrowed = Borrowed::of(self.0.pool.open()?)?;
        let root = self.0.root;
        let (result, transaction) =
            run::update_later::<C, _, _>(borrowed.worker(), |tx| body(tx, Ptr::of(root)))?;
        Ok((result, borrowed.pool.ticket(transaction)?))
    }
}
