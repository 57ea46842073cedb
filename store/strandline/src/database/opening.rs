//! Functions that create and open databases.

use std::path::Path;

use super::Database;
use super::tables::Tables;
use crate::store::Store;
use crate::value::transaction::Control;
use strandline_core::engine::SingleWriter;
#[cfg(doc)]
use strandline_core::error::Error;
use strandline_core::error::Result;
use strandline_core::file::{OldFiles, Options, RestoreReport, restore};
use strandline_core::memory::Native;
use strandline_core::scheme::Schemes;

impl Database {
    /// Opens the database in the file at `path`, and creates it if there is no such file. The database keeps its log in a second file, `path.log`,
    /// which is why this takes a path and not a `File`.
    ///
    /// ```
    /// use strandline::Database;
    ///
    /// # let path = strandline::example::path();
    /// let db = Database::open(&path)?; // "orders.pool", for example
    /// let ages = db.table::<String, u32>("ages")?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::open_with`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Options::default())
    }

    /// Like [`Database::open`], with options.
    ///
    /// ```
    /// use strandline::{Database, Options};
    ///
    /// # let path = strandline::example::path();
    /// let options = Options { snapshot_bytes: 64 << 20, ..Options::default() };
    /// let db = Database::open_with(&path, &options)?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::RootLayout`] if the file is a store with a root of its own type, and an error if the file cannot be read or written, is not a
    /// database, is damaged, has a later format, or is open in another process.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Store::<Tables>::open(path, options, |tx| Tables::new(tx)).map(Self::from)
    }

    /// Like [`Database::open_with`], but the database must exist: a mistake in the path is an error and does not create a file.
    ///
    /// ```
    /// use strandline::{Database, Error, Options};
    ///
    /// # let path = strandline::example::path();
    /// let missing = Database::open_existing(&path, &Options::default());
    /// assert!(matches!(missing, Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound));
    /// assert!(!path.exists());
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Io`] if there is no such file, and the errors of [`Database::open_with`].
    pub fn open_existing(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Store::<Tables>::open_filled(path, options, |tx| Tables::new(tx)).map(Self::from)
    }

    /// Creates a database in a new file at `path`. If the file exists, this fails and changes nothing.
    ///
    /// ```
    /// use strandline::{Database, Options};
    ///
    /// # let path = strandline::example::path();
    /// let db = Database::create_new(&path, &Options::default())?;
    /// assert!(Database::create_new(&path, &Options::default()).is_err());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file exists, and the errors of [`Database::open_with`].
    pub fn create_new(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Store::<Tables>::create_new(path, options, |tx| Tables::new(tx)).map(Self::from)
    }

    /// Opens the database at `path` for reading only. Several processes can do so at a time, but not beside a process that writes.
    ///
    /// ```
    /// use strandline::{Database, Options};
    ///
    /// # let path = strandline::example::path();
    /// # Database::open(&path)?.close()?;
    /// let db = Database::open_read_only(&path, &Options::default())?;
    /// assert!(db.list()?.is_empty());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is no such file, and the errors of [`Database::open_with`].
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Store::open_read_only(path, options).map(Self::from)
    }

    /// Replaces the database at `path` with a copy of a backup, or creates it if there is none. No process may have the database open. The log of the
    /// old database is removed with it. The backup is checked first. If the process is killed meanwhile, either the old database or the new one
    /// exists. See [`restore`] for the details.
    ///
    /// ```
    /// use strandline::{Database, OldFiles};
    ///
    /// # let path = strandline::example::path();
    /// # let backup = path.with_extension("backup");
    /// let db = Database::open(&path)?;
    /// let sold = db.table::<String, u64>("sold")?;
    /// db.backup(&backup)?;
    /// db.write(|tx| sold.insert(tx, "bolt", &7))?;
    /// db.close()?;
    ///
    /// let report = Database::restore(&backup, &path, OldFiles::Keep)?;
    /// assert!(Database::open(&path)?.table::<String, u64>("sold").is_ok());
    /// println!("the old files: {:?}", report.kept);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Locked`] if one of the two is open, [`Error::Damaged`] if the backup is damaged, and the other errors of [`restore`].
    pub fn restore(
        backup: impl AsRef<Path>,
        path: impl AsRef<Path>,
        old_files: OldFiles,
    ) -> Result<RestoreReport> {
        restore(backup, path, old_files, Schemes::default())
    }

    /// Creates an empty database in memory, for tests. It is lost when it is closed.
    ///
    /// ```
    /// use strandline::Database;
    ///
    /// let db = Database::in_memory()?;
    /// let squares = db.table::<u64, u64>("squares")?;
    /// db.write(|tx| (0..10).try_for_each(|n| squares.insert(tx, &n, &(n * n)).map(drop)))?;
    /// assert_eq!(db.read(|tx| squares.get(tx, &7))?, Some(49));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or if the process has too many open files.
    pub fn in_memory() -> Result<Self> {
        Self::in_memory_with(&Options::default())
    }

    /// Like [`Database::in_memory`], with options. The option for the persistence domain has no effect.
    ///
    /// ```
    /// use strandline::{Database, Options};
    ///
    /// let options = Options { memory: Some(64 << 20), ..Options::default() };
    /// let db = Database::in_memory_with(&options)?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::in_memory`].
    pub fn in_memory_with(options: &Options) -> Result<Self> {
        Store::<Tables>::in_memory(options, |tx| Tables::new(tx)).map(Self::from)
    }
}

impl Database<SingleWriter> {
    /// Like [`Database::open_with`], but only one transaction writes at a time. Writers then never conflict, so that none runs again. This is a
    /// choice of the program; the file is the same.
    ///
    /// ```
    /// use strandline::{Database, Options, SingleWriter};
    ///
    /// struct Server {
    ///     db: Database<SingleWriter>,
    /// }
    ///
    /// # let path = strandline::example::path();
    /// let server = Server { db: Database::open_single_writer(&path, &Options::default())? };
    /// # drop(server);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::open_with`].
    pub fn open_single_writer(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Store::<Tables, SingleWriter>::open(path, options, |tx| Tables::new(tx)).map(Self::from)
    }
}

/// Converts a store whose root is [`Tables`], under any control and opened in any way, into a database.
///
/// ```
/// use strandline::{Database, Options, SingleWriter, Store, Tables};
///
/// let store = Store::<Tables, SingleWriter>::in_memory(&Options::default(), |tx| Tables::new(tx))?;
/// let db = Database::from(store);
/// let ages = db.table::<String, u32>("ages")?;
/// # Ok::<(), strandline::Error>(())
/// ```
impl<C: Control<Memory = Native>> From<Store<Tables<'static>, C>> for Database<C> {
    fn from(store: Store<Tables<'static>, C>) -> Self {
        Self { number: store.number(), store }
    }
}
