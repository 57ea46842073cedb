//! Creates and opens stores.

use std::io::ErrorKind;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use super::Store;
use super::root::{self, Migrations};
use super::shared::Handle;
use crate::value::persist::Root;
use crate::value::transaction::{Control, Tx};
use strandline_core::Domain;
use strandline_core::engine::{Setup, Worker};
use strandline_core::error::{Error, Result};
use strandline_core::file::{Options, Pool};
use strandline_core::memory::{Native, PersistentAddress};

impl<R: Root, C: Control<Memory = Native>> Store<R, C> {
    /// Returns the store in `pool`, whose root `root` finds.
    fn over(pool: Pool<C>, root: impl FnOnce(&mut Worker<C>) -> Result<PersistentAddress>) -> Result<Self> {
        let mut worker = pool.worker()?;
        let root = root(&mut worker)?;
        pool.return_worker(Box::new(worker));
        Ok(Self {
            pool: Arc::new(Handle::new(pool)),
            root,
            root_type: PhantomData,
            #[cfg(feature = "observed")]
            observer: None,
        })
    }

    /// Like [`Store::over`], for a pool that may have been created without a root.
    fn over_filled(
        pool: Pool<C>,
        migrations: &Migrations<R, C>,
        init: impl for<'p> FnMut(&Tx<'p, C>) -> Result<R::At<'p>>,
    ) -> Result<Self> {
        Self::over(pool, |worker| {
            root::create::<R, C>(worker, init, true)?;
            root::check::<R, C>(worker, migrations)
        })
    }

    /// Opens the existing pool at `path`. If it has no root, `init` creates one.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::open_existing`].
    #[doc(hidden)]
    pub fn open_filled(
        path: impl AsRef<Path>,
        options: &Options,
        init: impl for<'p> FnMut(&Tx<'p, C>) -> Result<R::At<'p>>,
    ) -> Result<Self> {
        Self::over_filled(Setup::default().open(path, options)?, &Migrations::new(), init)
    }

    /// Creates a store in a new file at `path`, with the root that `init` returns, and opens it. Other processes can open the store only after it has
    /// got its root.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// let store = Store::<u64>::create_new(&path, &options, |_| Ok(5))?;
    /// assert_eq!(store.read(|tx, root| root.get(tx))?, 5);
    /// assert!(Store::<u64>::create_new(&path, &options, |_| Ok(6)).is_err()); // there is one
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the file exists, the other errors of [`Pool::create`], and the errors of `init`. No new file is left then.
    pub fn create_new(
        path: impl AsRef<Path>,
        options: &Options,
        init: impl for<'p> FnMut(&Tx<'p, C>) -> Result<R::At<'p>>,
    ) -> Result<Self> {
        let made = |pool: &Pool<C>| root::create::<R, C>(&mut pool.worker()?, init, true);
        let (pool, ()) = Setup::default().create_with(path, options, made)?;
        Self::over(pool, |worker| root::check::<R, C>(worker, &Migrations::new()))
    }

    /// Creates a store in memory, with the root that `init` returns. This is for tests: the store is lost when it is closed. The option for the
    /// persistence domain has no effect.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, and the errors of `init`.
    pub fn in_memory(
        options: &Options,
        init: impl for<'p> FnMut(&Tx<'p, C>) -> Result<R::At<'p>>,
    ) -> Result<Self> {
        // Uses files in memory if there are any. Elsewhere the system's cache keeps small files that exist only briefly.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let options = Options { domain: Domain::Process, protect: false, ..options.clone() };
        let made = |pool: &Pool<C>| root::create::<R, C>(&mut pool.worker()?, init, true);
        let (pool, ()) = Setup::default().create_unnamed(folder, &options, made)?;
        Self::over(pool, |worker| root::check::<R, C>(worker, &Migrations::new()))
    }

    /// Opens the store at `path`, which must exist, and recovers it after a crash.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// Store::<u64>::create_new(&path, &options, |_| Ok(5))?.close()?;
    /// let store = Store::<u64>::open_existing(&path, &options)?;
    /// assert_eq!(store.read(|tx, root| root.get(tx))?, 5);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is no such file; the other errors of [`Pool::open`]; [`Error::Missing`] if the pool has no root; and
    /// [`Error::RootLayout`] if its root has another type, or another version of the type.
    pub fn open_existing(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Self::open_existing_and_migrate(path, options, &Migrations::new())
    }

    /// Opens the store at `path`, and recovers it after a crash. If there is no such file, creates the store with the root that `init` returns. If
    /// several processes do this at the same time, one creates the store, and the others open it.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// for visits in 0..3 {
    ///     let store = Store::<u64>::open(&path, &options, |_| Ok(0))?;
    ///     assert_eq!(store.read(|tx, root| root.get(tx))?, visits);
    ///     store.write(|tx, root| root.set(tx, &(visits + 1)))?;
    ///     store.close()?;
    /// }
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::create_new`] and [`Store::open_existing`].
    pub fn open(
        path: impl AsRef<Path>,
        options: &Options,
        init: impl for<'p> FnMut(&Tx<'p, C>) -> Result<R::At<'p>>,
    ) -> Result<Self> {
        Self::open_and_migrate(path, options, &Migrations::new(), init)
    }

    /// Like [`Store::open`], but a root of another type is converted to an `R` by the migration for that type.
    ///
    /// # Errors
    /// Returns the errors of [`Store::open`] and of the migration. If the migration fails, nothing has changed.
    pub fn open_and_migrate(
        path: impl AsRef<Path>,
        options: &Options,
        migrations: &Migrations<R, C>,
        mut init: impl for<'p> FnMut(&Tx<'p, C>) -> Result<R::At<'p>>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let is = |error: &Error, wanted| matches!(error, Error::Io { source, .. } if source.kind() == wanted);
        loop {
            match Setup::default().open(path, options) {
                Ok(pool) => return Self::over_filled(pool, migrations, init),
                Err(error) if is(&error, ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
            match Self::create_new(path, options, &mut init) {
                // Another process has created the file in the meantime.
                Err(error) if is(&error, ErrorKind::AlreadyExists) => {}
                done => return done,
            }
        }
    }

    /// Like [`Store::open_existing`], but a root of another type is converted to an `R` by the migration for that type.
    ///
    /// # Errors
    /// Returns the errors of [`Store::open_existing`] and of the migration. If the migration fails, nothing has changed.
    pub fn open_existing_and_migrate(
        path: impl AsRef<Path>,
        options: &Options,
        migrations: &Migrations<R, C>,
    ) -> Result<Self> {
        Self::over(Setup::default().open(path, options)?, |worker| root::check(worker, migrations))
    }

    /// Opens the store at `path` for reading only. Several processes can do so at a time, but not beside a process that writes.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// Store::<u64>::create_new(&path, &options, |_| Ok(5))?.close()?;
    /// let readers = [
    ///     Store::<u64>::open_read_only(&path, &options)?,
    ///     Store::<u64>::open_read_only(&path, &options)?,
    /// ];
    /// for reader in &readers {
    ///     assert_eq!(reader.read(|tx, root| root.get(tx))?, 5);
    /// }
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::open_existing`].
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Self::over(Setup::default().open_read_only(path, options)?, |worker| {
            root::check::<R, C>(worker, &Migrations::new())
        })
    }
}
