//! A database: named tables in a file.

pub(crate) mod dynamic_store;
pub(crate) mod dynamic_table;
pub(crate) mod export;
#[cfg(feature = "json")]
mod json;
pub(crate) mod lent;
pub(crate) mod migrate;
pub(crate) mod multimap;
#[cfg(feature = "observed")]
pub(crate) mod observe;
mod opening;
pub(crate) mod queue;
mod snapshot;
mod stream;
pub(crate) mod table;
pub(crate) mod tables;
mod upkeep;
pub(crate) mod value_ref;

use std::path::Path;

use crate::Key;
use crate::described::shown::TableDescription;
use crate::store::{Later, Store};
use crate::value::transaction::{Control, Tx, View};
use multimap::MultimapTable;
use queue::QueueTable;
pub use snapshot::{DatabaseSnapshot, SnapshotRows};
use strandline_core::engine::Stm;
use strandline_core::error::{Error, Result};
use strandline_core::file::Ticket;
use strandline_core::memory::Native;
use table::{Handle, Table};
use tables::{AreValid, Form, Place, QueueOf, TableOf, Tables, Wanted};
use value_ref::Value;

/// Named tables in a file, with transactions over all of them.
///
/// ```
/// use strandline::Database;
///
/// # let path = strandline::example::path();
/// let db = Database::open(&path)?; // makes the file if there is none
/// let ages = db.table::<String, u32>("ages")?; // and the table
///
/// // All of it happens, or nothing; when `write` returns, it is on the disk.
/// db.write(|tx| {
///     ages.insert(tx, "ann", &41)?;
///     ages.insert(tx, "bob", &29)?;
///     Ok(())
/// })?;
/// assert_eq!(db.read(|tx| ages.get(tx, "ann"))?, Some(41));
/// # Ok::<(), strandline::Error>(())
/// ```
///
/// Values are numbers, strings, tuples, vectors, options, and your own types with `#[derive(Persist)]`. Keys are of the same kinds, and your own
/// types with `#[derive(Key)]`. Threads can share a database. A clone is another handle to the same database. Transactions run concurrently and are
/// serializable: after a conflict, one of them runs again. A closure must therefore have no side effects that cannot be repeated.
///
/// Inside a transaction, on the thread that runs it, every method that waits or begins a transaction of the same database returns [`Error::Nested`]
/// and does nothing. The others are [`id`](Database::id), [`catalogue`](Database::catalogue), [`path`](Database::path),
/// [`recovery`](Database::recovery), [`space`](Database::space), [`statistics`](Database::statistics), [`snapshot_usage`](Database::snapshot_usage),
/// and [`later`](Database::later), whose `write` returns the error.
///
/// # Who waits for whom
///
/// | | waits for |
/// |---|---|
/// | [`read`](Database::read), a [`snapshot`](Database::snapshot) that begins | one flush; a large transaction only if what it has changed takes more than [`Options::snapshot_bytes`](crate::Options::snapshot_bytes) |
/// | [`write`](Database::write) under [`Stm`], the default | transactions that have changed the same cache lines of 64 bytes; a large transaction, even one that is still waiting to begin |
/// | `write` under [`SingleWriter`](crate::SingleWriter) | the running writer, and writers that have waited longer |
/// | a large `write` | all transactions that have changed something; it then runs alone |
/// | a snapshot that exists | nothing |
/// | every `write` on an ordinary file | a flush of the log; a checkpoint, if the log is full or too much memory is changed |
///
/// A transaction is *large* if it changes more than 4 MB (a sixteenth of the largest log), or half of
/// [`Geometry::log_bytes`](crate::Geometry::log_bytes) on persistent memory. It starts over and runs alone. A closure that sleeps after its first
/// change delays a large transaction, and with it all writers that begin later, but no reader. Readers beside a large transaction see the state
/// before it. A reader that finds changes of a running transaction reads at a snapshot instead. That needs `snapshot_bytes`, which is on by default,
/// and one of the 64 snapshots; without them the reader waits like a writer.
///
/// A database is a [`Store`] whose root is [`Tables`], and a program can open it as one.
pub struct Database<C: Control<Memory = Native> = Stm> {
    store: Store<Tables<'static>, C>,
    /// Identifies the store, so that a table of one database is not used in another.
    number: u64,
}

impl<C: Control<Memory = Native>> Database<C> {
    pub(crate) fn store(&self) -> &Store<Tables<'static>, C> {
        &self.store
    }

    #[cfg(feature = "observed")]
    pub(crate) fn store_mut(&mut self) -> &mut Store<Tables<'static>, C> {
        &mut self.store
    }

    /// Finds a table, or creates it.
    #[track_caller]
    fn handle(
        &self,
        name: &str,
        find: impl for<'p> Fn(Tables<'p>, &View<'p, C>) -> Result<Option<Place>>,
        open: &dyn for<'p> Fn(Tables<'p>, &Tx<'p, C>) -> Result<Place>,
    ) -> Result<Handle> {
        let found = self.store.read(|tx, root| find(root.get(tx)?, tx))?;
        self.handle_of(name, found, open)
    }

    /// Returns the handle of a table that was found, or creates the table. Like [`find_or_convert`](Self::find_or_convert), this is compiled once for
    /// all types of tables.
    #[track_caller]
    fn handle_of(
        &self,
        name: &str,
        found: Option<Place>,
        open: &dyn for<'p> Fn(Tables<'p>, &Tx<'p, C>) -> Result<Place>,
    ) -> Result<Handle> {
        let (at, number) = match found {
            Some(place) => place,
            None => match self.store.write(|tx, root| open(root.get(tx)?, tx)) {
                Err(Error::ReadOnly) => return Err(Error::NoTable { name: name.to_owned() }),
                done => done?,
            },
        };
        Ok(Handle::new(self.number, at, number, name))
    }

    /// Opens the table `name`, an ordered map from `K` to `V`, and creates it if it does not exist. The table is used in this database's
    /// transactions; a program can keep and clone it.
    ///
    /// If the values are of an earlier version of `V`, they are converted to the present one: removed fields are dropped, numbers may have become
    /// wider, and attributes describe the rest. The program must have raised the versions of all types that have changed, including types that
    /// contain a changed one. The conversion rewrites the whole table before this method returns, and cannot be undone. Handles that were opened
    /// before it return [`Error::NoTable`]. After a crash the next call resumes the conversion. A program with an earlier version of `V` gets
    /// [`Error::TableTypes`].
    ///
    /// Only types that derive [`Persist`](crate::Persist) have versions: a table of plain `u32` values does not become one of `u64`. Keys are not
    /// converted, and neither are multimaps. If only the meaning of a field has changed but not its type, a new version copies the values as they
    /// are. Use [`Database::migrate`] for these changes.
    ///
    /// ```
    /// # mod before {
    /// #     #[derive(strandline::Persist)]
    /// #     pub struct Person { pub age: u8, pub fax: String }
    /// # }
    /// use strandline::{Database, Persist};
    ///
    /// // It was `struct Person { age: u8, fax: String }`.
    /// #[derive(Debug, PartialEq, Persist)]
    /// #[persist(version = 2)]
    /// struct Person {
    ///     #[persist(was = "age")]
    ///     years: u32,
    ///     #[persist(default)]
    ///     towns: Vec<String>,
    /// }
    ///
    /// # let db = Database::in_memory()?;
    /// # let before = db.table::<u64, before::Person>("people")?;
    /// # db.write(|tx| before.insert(tx, &1, &before::Person { age: 41, fax: "12".into() }))?;
    /// let people = db.table::<u64, Person>("people")?;
    /// let first = db.read(|tx| people.get(tx, &1))?;
    /// assert_eq!(first, Some(Person { years: 41, towns: vec![] }));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::TableTypes`] if the table has other types that do not convert to `K` and `V` (use [`Database::migrate`] then),
    /// [`Error::NoTable`] if the table does not exist and the database is open for reading only, and the errors of [`Database::write`].
    #[track_caller]
    pub fn table<K: Key, V: Value>(&self, name: &str) -> Result<Table<K, V>> {
        let found = self.find_form::<TableOf<K, V>>(name)?;
        self.handle_of(name, found, &|tables, tx| tables.open_table::<K, V>(tx, name)).map(Table::of)
    }

    /// Finds a table and converts values of an earlier version. This is compiled once for all types of tables, which keeps programs with many small.
    #[track_caller]
    fn find_or_convert(&self, name: &str, wanted: &Wanted, are_valid: AreValid<'_>) -> Result<Option<Place>> {
        let find = || self.store.read(|tx, root| root.get(tx)?.find(tx, name, wanted));
        match find() {
            Err(refused @ Error::TableTypes { .. }) => match self.convert(name, wanted, are_valid) {
                Err(Error::ReadOnly) => Err(refused),
                done => done.and_then(|()| find()),
            },
            found => found,
        }
    }

    /// Like [`find_or_convert`](Self::find_or_convert), for types that the program knows.
    #[track_caller]
    fn find_form<F: Form>(&self, name: &str) -> Result<Option<Place>> {
        self.find_or_convert(name, &F::wanted(), &|key, words, bytes| F::decode(key, words, bytes).map(drop))
    }

    /// Opens the multimap `name`, which has a sorted set of values for each key, and creates it if it does not exist. Keys and values are key types,
    /// which are not converted to new versions; use [`Database::migrate_multimap`] for that.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| tags.insert(tx, "sea", &3))?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::TableTypes`] if the table has other types, and otherwise the errors of [`Database::table`].
    #[track_caller]
    pub fn multimap<K: Key, V: Key>(&self, name: &str) -> Result<MultimapTable<K, V>> {
        let handle =
            self.handle(name, |tables, tx| tables.find_multimap::<K, V>(tx, name), &|tables, tx| {
                tables.open_multimap::<K, V>(tx, name)
            })?;
        Ok(MultimapTable::of(handle))
    }

    /// Opens the queue `name`, first in, first out, and creates it if it does not exist. Items of an earlier version of `T` are converted to the
    /// present one, like the values of a table.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::table`].
    #[track_caller]
    pub fn queue<T: Value>(&self, name: &str) -> Result<QueueTable<T>> {
        let found = self.find_form::<QueueOf<T>>(name)?;
        self.handle_of(name, found, &|tables, tx| tables.open_queue::<T>(tx, name)).map(QueueTable::of)
    }

    /// Returns the catalogue for use in a transaction of this database. With it, a transaction can create, rename and delete tables together with its
    /// other changes.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let numbers = db.table::<u64, u64>("numbers")?;
    /// db.write(|tx| {
    ///     let tables = db.catalogue(tx)?;
    ///     let texts = tables.table::<u64, String>(tx, "texts")?;
    ///     for pair in numbers.drain::<u64, _>(tx, ..)? {
    ///         let (key, number) = pair?;
    ///         texts.insert(tx, &key, &number.to_string())?;
    ///     }
    ///     tables.delete(tx, "numbers")?;
    ///     tables.rename(tx, "texts", "numbers")
    /// })?;
    /// assert!(db.table::<u64, String>("numbers").is_ok());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the transaction is of another database, and an error after a conflict.
    pub fn catalogue<'p>(&self, tx: &View<'p, C>) -> Result<Tables<'p>> {
        if tx.database() != self.number {
            return Err(Error::Parameter("the transaction is of another database".into()));
        }
        self.store.root_of(tx).get(tx)
    }

    /// Returns the descriptions of all tables, multimaps and queues with their types, ordered by name.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// db.table::<u64, Vec<String>>("tags")?;
    /// assert_eq!(db.list()?[0].value, "Vec<String>");
    /// assert!(db.delete("tags")?);
    /// assert!(db.list()?.is_empty());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::read`].
    #[track_caller]
    pub fn list(&self) -> Result<Vec<TableDescription>> {
        self.store.read(|tx, root| root.get(tx)?.list(tx))
    }

    /// Deletes a table, multimap or queue with its content, and returns whether it existed. Handles to it return [`Error::NoTable`] afterwards.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// db.table::<String, u32>("ages")?;
    /// assert!(db.delete("ages")?);
    /// assert!(!db.delete("ages")?, "there is no such table");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::write`].
    #[track_caller]
    pub fn delete(&self, name: &str) -> Result<bool> {
        self.store.write(|tx, root| root.get(tx)?.delete(tx, name))
    }

    /// Runs `body` as a transaction. When this returns, either all its writes are visible to everybody and survive a power failure, or there are
    /// none. After a conflict with another transaction `body` runs again; only its last run has an effect. If `body` returns an error, the
    /// transaction is rolled back and the error is returned. Use [`Error::Aborted`] to roll back on purpose, and
    /// [`write_with_error`](Database::write_with_error) for errors of other types.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.write(|tx| {
    ///     accounts.insert(tx, &1, &100)?;
    ///     accounts.insert(tx, &2, &0)
    /// })?;
    /// let moved = db.write(|tx| {
    ///     let (from, to) = (accounts.get(tx, &1)?.unwrap_or(0), accounts.get(tx, &2)?.unwrap_or(0));
    ///     accounts.insert(tx, &1, &(from - 500))?;
    ///     accounts.insert(tx, &2, &(to + 500))?;
    ///     if from < 500 { Err(Error::Aborted) } else { Ok(()) }
    /// });
    /// assert!(moved.is_err());
    /// assert_eq!(db.read(|tx| accounts.get(tx, &1))?, Some(100));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error that `body` returned, and an error if the transaction failed: if the disk is full ([`Error::Full`], [`Error::Io`]), if the
    /// thread is already in a transaction ([`Error::Nested`]), if the database was closed ([`Error::Closed`]), and others. The transaction has then
    /// changed nothing. Only after [`Error::Poisoned`], when the device has failed, is the outcome unknown until the database is opened again.
    #[track_caller]
    pub fn write<T>(&self, body: impl for<'p> FnMut(&Tx<'p, C>) -> Result<T>) -> Result<T> {
        self.write_with_error(body)
    }

    /// Like [`Database::write`], for a closure that returns any error type into which [`Error`] can be converted: `anyhow::Error`, an enum with
    /// `thiserror`'s `#[from]`, `Box<dyn Error + Send + Sync>`.
    ///
    /// A `?` in the closure needs to know the error type. If the compiler asks for it, name it in the call:
    ///
    /// ```
    /// use strandline::Database;
    ///
    /// #[derive(Debug, thiserror::Error)]
    /// enum Refusal {
    ///     #[error("the account has only {0}")]
    ///     NotEnough(u64),
    ///     #[error(transparent)]
    ///     Number(#[from] std::num::ParseIntError),
    ///     #[error(transparent)]
    ///     Database(#[from] strandline::Error),
    /// }
    ///
    /// fn withdraw(db: &Database, amount: &str) -> Result<u64, Refusal> {
    ///     let accounts = db.table::<String, u64>("accounts")?;
    ///     // The function's return type tells the compiler the error type.
    ///     db.write_with_error(|tx| {
    ///         let balance = accounts.get(tx, "ann")?.unwrap_or(0);
    ///         let left = balance.checked_sub(amount.parse()?).ok_or(Refusal::NotEnough(balance))?;
    ///         accounts.set(tx, "ann", &left)?;
    ///         Ok(left)
    ///     })
    /// }
    ///
    /// fn main() -> anyhow::Result<()> {
    ///     let db = Database::in_memory()?;
    ///     let accounts = db.table::<String, u64>("accounts")?;
    ///     // Here nothing does, so the call names it.
    ///     db.write_with_error::<anyhow::Error, _>(|tx| {
    ///         accounts.set(tx, "ann", &"10".parse::<u64>()?)?;
    ///         Ok(())
    ///     })?;
    ///     assert_eq!(withdraw(&db, "7")?, 3);
    ///     assert!(matches!(withdraw(&db, "7"), Err(Refusal::NotEnough(3))));
    ///     assert!(matches!(withdraw(&db, "seven"), Err(Refusal::Number(_))));
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::write`].
    #[track_caller]
    pub fn write_with_error<E: From<Error>, T>(
        &self,
        mut body: impl for<'p> FnMut(&Tx<'p, C>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.store.write_with_error(|tx, _| {
            tx.belongs_to(self.number);
            body(tx)
        })
    }

    /// Returns a handle for transactions that do not wait for the disk. See [`Store::later`].
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// let log = db.queue::<String>("log")?;
    /// let (_, ticket) = db.later().write(|tx| log.push(tx, "begun"))?;
    /// ticket.wait()?; // until it is on the disk
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn later(&self) -> Later<&Self> {
        Later(self)
    }

    /// Runs `body` as a transaction that only reads. It sees one state of the database, whatever other transactions write meanwhile. After a conflict
    /// it runs a second time. If the closure must run only once, use a [`Database::snapshot`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| ages.insert(tx, "ann", &41))?;
    /// let age = db.read(|tx| ages.get(tx, "ann"))?;
    /// assert_eq!(age, Some(41));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::write`].
    #[track_caller]
    pub fn read<T>(&self, body: impl for<'p> FnMut(&View<'p, C>) -> Result<T>) -> Result<T> {
        self.read_with_error(body)
    }

    /// Like [`Database::read`], for a closure with another error type. See [`Database::write_with_error`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let settings = db.table::<String, String>("settings")?;
    /// db.write(|tx| settings.insert(tx, "port", "8080"))?;
    /// let port: u16 = db.read_with_error::<anyhow::Error, _>(|tx| {
    ///     Ok(settings.get(tx, "port")?.unwrap_or_default().parse()?)
    /// })?;
    /// assert_eq!(port, 8080);
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::write`].
    #[track_caller]
    pub fn read_with_error<E: From<Error>, T>(
        &self,
        mut body: impl for<'p> FnMut(&View<'p, C>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.store.read_with_error(|tx, _| {
            tx.belongs_to(self.number);
            body(tx)
        })
    }

    /// Returns a snapshot: the database as it is now, for as long as the snapshot exists. Use it for long or slow reads beside writers.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let squares = db.table::<u64, u64>("squares")?;
    /// db.write(|tx| (0..4).try_for_each(|n| squares.insert(tx, &n, &(n * n)).map(drop)))?;
    ///
    /// let snapshot = db.snapshot()?;
    /// let tx = snapshot.read();
    /// for row in squares.iter(&tx)? {
    ///     let (n, square) = row?;
    ///     db.write(|tx| squares.insert(tx, &(n + 4), &0))?; // writers go on
    ///     println!("{n}: {square}");
    /// }
    /// assert_eq!(squares.len(&tx)?, 4);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// A snapshot borrows nothing. It can be kept in a struct, cloned and sent to threads, which may all read it at the same time:
    ///
    /// ```
    /// # use strandline::*;
    /// # let db = Database::in_memory()?;
    /// # let squares = db.table::<u64, u64>("squares")?;
    /// # db.write(|tx| (0..4).try_for_each(|n| squares.insert(tx, &n, &(n * n)).map(drop)))?;
    /// let snapshot = db.snapshot()?;
    /// let sums = [0..2, 2..4].map(|keys| {
    ///     let (snapshot, squares) = (snapshot.clone(), squares.clone());
    ///     std::thread::spawn(move || {
    ///         let tx = snapshot.read();
    ///         squares.range(&tx, keys)?.map(|row| Ok(row?.1)).sum::<Result<u64>>()
    ///     })
    /// });
    /// let sums: Result<Vec<_>> = sums.into_iter().map(|sum| sum.join().unwrap()).collect();
    /// assert_eq!(sums?, [1, 13]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::TooManySnapshots`] if there are already 64, and the errors of [`Store::snapshot`]. A transaction that only reads counts as a
    /// snapshot while it reads a value of more than 16 KB with `read_with` or `write_to`.
    #[track_caller]
    pub fn snapshot(&self) -> Result<DatabaseSnapshot<C>> {
        Ok(DatabaseSnapshot { inner: self.store.snapshot()?, number: self.number })
    }

    /// Returns a number that identifies the database within this process. All handles to the database return the same number.
    ///
    /// ```
    /// # use strandline::*;
    /// let (db, other) = (Database::in_memory()?, Database::in_memory()?);
    /// assert_eq!(db.clone().id(), db.id());
    /// assert_ne!(other.id(), db.id());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn id(&self) -> u64 {
        self.number
    }

    /// Returns the file's path, absolute and without symbolic links.
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// println!("{}", db.path().display());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// Closes the database for all handles to it: makes everything durable, marks the file as cleanly closed and releases it. This waits for
    /// transactions that other threads have begun. Later uses of any handle return [`Error::Closed`], except [`path`](Database::path) and
    /// [`recovery`](Database::recovery), and `close` itself, which then does nothing.
    ///
    /// Dropping the last handle closes the database, too, once its last snapshot is dropped, but cannot report errors.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let names = db.table::<u64, String>("names")?;
    /// let server = std::thread::spawn({
    ///     let (db, names) = (db.clone(), names.clone());
    ///     move || db.write(|tx| names.insert(tx, &1, "Ann"))
    /// });
    /// # server.join().unwrap()?;
    /// db.close()?;
    /// assert!(matches!(db.read(|tx| names.get(tx, &1)), Err(Error::Closed)));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::InUse`] as long as a [`DatabaseSnapshot`] exists, and the database stays open. Also returns the errors of [`Store::close`].
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }
}

impl<C: Control<Memory = Native>> Clone for Database<C> {
    /// Returns another handle to the same database, at the cost of incrementing a counter. Tables that were opened through one handle can be used
    /// with the other.
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), number: self.number }
    }
}

impl<C: Control<Memory = Native>> std::fmt::Debug for Database<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl<C: Control<Memory = Native>> Later<&Database<C>> {
    /// Like [`Database::write`], but does not wait until the transaction is durable. The caller can wait on the ticket that it returns.
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// let log = db.queue::<String>("log")?;
    /// let (_, ticket) = db.later().write(|tx| log.push(tx, "begun"))?;
    /// ticket.wait()?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::write`].
    #[track_caller]
    pub fn write<T>(self, body: impl for<'p> FnMut(&Tx<'p, C>) -> Result<T>) -> Result<(T, Ticket)> {
        self.write_with_error(body)
    }

    /// Like [`write`](Self::write), for a closure with another error type. See [`Database::write_with_error`].
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// let ports = db.table::<String, u16>("ports")?;
    /// let (_, ticket) = db.later().write_with_error::<anyhow::Error, _>(|tx| {
    ///     Ok(ports.insert(tx, "http", &"8080".parse::<u16>()?)?)
    /// })?;
    /// ticket.wait()?;
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::write`].
    #[track_caller]
    pub fn write_with_error<E: From<Error>, T>(
        self,
        mut body: impl for<'p> FnMut(&Tx<'p, C>) -> Result<T, E>,
    ) -> Result<(T, Ticket), E> {
        let Database { store, number } = self.0;
        store.later().write_with_error(|tx, _| {
            tx.belongs_to(*number);
            body(tx)
        })
    }
}
