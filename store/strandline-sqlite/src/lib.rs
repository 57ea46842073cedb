//! SQLite on a Strandline pool.
//!
//! There are two ways to use it. [`register`] registers the VFS `strandline`, with which each database is a pool of its own, in the database's file.
//! It serves programs in Rust and, as a loadable extension ([`sqlite3_strandlinesqlite_init`]), the `sqlite3` shell and other languages.
//! `docs/sqlite.md` introduces it.
//!
//! A [`Vfs`] keeps any number of databases in a pool that the program has opened, beside other data and in any domain. SQLite then hands the changed
//! pages over through its batch-atomic-write interface and writes no journal. Where that interface cannot serve (a commit across attached databases,
//! the first commit to an empty database, a transaction that is larger than SQLite's cache) SQLite writes its rollback journal, which is in the pool
//! too. If SQLite was built without that interface, the VFS collects the changes itself ([`Commit::Buffered`]). [`Vfs::commits`] and
//! [`Vfs::statistics`] tell how commits are done.
//!
//! ```
//! use strandline_core::file::{Options, Pool};
//! use strandline_sqlite::Vfs;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("pool");
//! let pool = Pool::create(&path, &Options::default())?;
//! let vfs = Vfs::new(pool.worker()?, 0)?;
//! let database = vfs.open("accounts")?;
//! database.execute_batch("CREATE TABLE account (name TEXT PRIMARY KEY, cents INTEGER)")?;
//! database.execute("INSERT INTO account VALUES (?1, ?2)", ("Ada", 100))?;
//! // What was committed is durable now.
//! let cents: i64 = database.query_row("SELECT cents FROM account", [], |row| row.get(0))?;
//! assert_eq!(cents, 100);
//! # drop(database);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The connections of one VFS exclude each other by SQLite's own locks. Databases cannot have a write-ahead log: `PRAGMA journal_mode=WAL` answers
//! `delete`.

mod buffer;
mod cache;
mod extension;
mod files;
mod locks;
mod memory;
mod paths;
mod shared;
mod vfs;

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags, ffi};
use strandline_core::Result;
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Read, Runner};

pub use extension::{register, sqlite3_strandlinesqlite_init};
pub use files::{PAGE_BYTES, Pages, heap_bytes};
/// The SQLite that this crate links, through `rusqlite`.
pub use rusqlite;

use files::{Files, Storage};
use memory::Journals;
use shared::{App, Home, Shared};

/// Buckets of the store in which a VFS keeps its pages. A database of 256 MB has one page per bucket.
pub const BUCKETS: u64 = 1 << 16;

/// The way in which a SQL commit becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// All changed pages form one transaction of the pool, if SQLite permits it.
    Atomic,
    /// SQLite writes its rollback journal.
    Journal,
    /// All that was written since the last commit forms one transaction of the pool, whatever its size. The VFS collects it in memory, with SQLite's
    /// journal. It needs no special interface of SQLite. A transaction over several databases is not atomic: each database commits for itself.
    Buffered,
}

/// Counts of a VFS's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// SQL commits that were one transaction of the pool.
    pub atomic_commits: u64,
    /// Commits that the pool refused as one transaction, so that SQLite wrote a journal instead.
    pub refused_batches: u64,
    /// The number of times that SQLite opened a journal.
    pub journals: u64,
}

/// An SQLite VFS whose files are in a pool. Dropping it leaks a few hundred bytes, because SQLite does not tell when it no longer uses a VFS.
pub struct Vfs {
    name: String,
    table: *mut ffi::sqlite3_vfs,
    shared: Arc<Shared>,
}

// SAFETY: the pointer is only passed back to SQLite, which accepts it from any thread; a mutex protects what is shared.
unsafe impl Send for Vfs {}
// SAFETY: as above; each method changes only what the mutex protects.
unsafe impl Sync for Vfs {}

impl Vfs {
    /// Creates a VFS whose files are under root word `root` (below 8) of the runner's pool. Creates the files' store if it does not exist, and
    /// finishes work that a crash has interrupted.
    ///
    /// # Errors
    /// Returns an error if the root refers to something else or if the pool is full or damaged.
    pub fn new<R: Runner + Send + 'static>(runner: R, root: u64) -> Result<Self> {
        Self::with_commit(runner, root, Commit::Atomic)
    }

    /// Like [`Vfs::new`], with another way to commit.
    ///
    /// # Errors
    /// As for [`Vfs::new`].
    pub fn with_commit<R: Runner + Send + 'static>(mut runner: R, root: u64, commit: Commit) -> Result<Self> {
        let root = address(&mut runner, root)?;
        let files = Files::<R, R>::new(runner, root, BUCKETS)?;
        Self::register(commit, Some(Box::new(files)))
    }

    fn register(commit: Commit, storage: Option<Box<dyn Storage + Send>>) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("strandline-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        // SAFETY: the argument is a C string, which SQLite only reads.
        let has_batches =
            unsafe { ffi::sqlite3_compileoption_used(c"ENABLE_BATCH_ATOMIC_WRITE".as_ptr()) != 0 };
        let commit = match commit {
            Commit::Atomic if !has_batches => Commit::Buffered,
            commit => commit,
        };
        let shared = Arc::new(Shared::new(commit, storage, None));
        let home = Home::Pool(shared.clone());
        let c_name = CString::new(name.clone()).map_err(|_| Error::Parameter("a name with a zero".into()))?;
        // SAFETY: the functions are those of the linked SQLite.
        let table = unsafe {
            vfs::register(extension::linked(), c_name, |system| App {
                system,
                home,
                journals: Journals::default(),
            })
        };
        let table = table.map_err(refused)?;
        Ok(Self { name, table, shared })
    }

    /// Returns how commits become durable. If SQLite was built without batches, this is [`Commit::Buffered`] instead of [`Commit::Atomic`].
    pub fn commits(&self) -> Commit {
        self.shared.commit
    }

    /// Returns the counts so far.
    pub fn statistics(&self) -> Statistics {
        self.shared.state().statistics
    }

    /// Takes out the pool's error that caused SQLite's last `disk I/O error`.
    pub fn take_error(&self) -> Option<Error> {
        self.shared.state().error.take()
    }

    /// Opens the database `name`, or creates it if it does not exist. Commits are durable when they return.
    ///
    /// # Errors
    /// As for [`Connection::open_with_flags_and_vfs`].
    pub fn open(&self, name: &str) -> rusqlite::Result<Connection> {
        self.open_with(name, OpenFlags::default())
    }

    /// Like [`Vfs::open`], with SQLite's flags.
    ///
    /// # Errors
    /// As for [`Vfs::open`].
    pub fn open_with(&self, name: &str, flags: OpenFlags) -> rusqlite::Result<Connection> {
        Connection::open_with_flags_and_vfs(name, flags, self.name.as_str())
    }
}

impl Drop for Vfs {
    /// Unregisters the VFS. Connections that are still open fail from now on.
    fn drop(&mut self) {
        // SAFETY: the table was registered and is never freed.
        unsafe { ffi::sqlite3_vfs_unregister(self.table) };
        self.shared.state().storage = None;
    }
}

/// A VFS that borrows a runner for its transactions for some time. It is for programs that own their runner, and for simulated memory.
pub struct Lender {
    vfs: Vfs,
    root: u64,
    pages: Pages,
}

impl Lender {
    /// Creates a VFS for files under root word `root` (below 8). Creates the files' store if it does not exist.
    ///
    /// # Errors
    /// As for [`Vfs::new`].
    pub fn new<R: Runner>(runner: &mut R, root: u64, buckets: u64) -> Result<Self> {
        let at = address(runner, root)?;
        Files::<_, R>::new(runner, at, buckets)?;
        Ok(Self { vfs: Vfs::register(Commit::Atomic, None)?, root, pages: Pages::default() })
    }

    /// Sets what is stored when a page is written again.
    #[must_use]
    pub fn storing(self, pages: Pages) -> Self {
        Self { pages, ..self }
    }

    /// Returns the VFS.
    pub fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// Lends `runner` to the VFS while `body` runs; at any other time its connections fail.
    ///
    /// # Errors
    /// Returns the errors of [`Vfs::new`] and `body`.
    ///
    /// # Safety
    /// Unless `R` is [`Send`], no other thread uses a connection of this VFS while `body` runs.
    pub unsafe fn lend<R: Runner, T>(&self, runner: &mut R, body: impl FnOnce() -> Result<T>) -> Result<T> {
        /// Ends the loan when it is dropped, even if `body` panics.
        struct Loan<'a>(&'a Shared);
        impl Drop for Loan<'_> {
            fn drop(&mut self) {
                self.0.state().storage = None;
            }
        }
        let root = address(runner, self.root)?;
        let mut files = Files::<&mut R, R>::open(runner, root, self.pages)?;
        let lent: *mut (dyn Storage + '_) = &mut files;
        // SAFETY: only the lifetime changes. `Loan` takes the pointer away again before `files` is dropped.
        let lent =
            unsafe { std::mem::transmute::<*mut (dyn Storage + '_), *mut (dyn Storage + 'static)>(lent) };
        self.vfs.shared.state().storage = Some(Box::new(Lent(lent)));
        let _loan = Loan(&self.vfs.shared);
        body()
    }
}

/// The lent files, as the VFS uses them.
struct Lent(*mut (dyn Storage + 'static));

// SAFETY: the caller of `Lender::lend` promises that the files are only used by its own thread, unless the runner is `Send`.
unsafe impl Send for Lent {}

impl Lent {
    fn storage(&mut self) -> &mut dyn Storage {
        // SAFETY: `Lender::lend` keeps the files alive and does not use them as long as this exists, and the VFS's mutex excludes a second use.
        unsafe { &mut *self.0 }
    }
}

impl Storage for Lent {
    fn find(&mut self, name: &[u8]) -> Result<Option<u64>> {
        self.storage().find(name)
    }
    fn create(&mut self, name: &[u8]) -> Result<u64> {
        self.storage().create(name)
    }
    fn delete(&mut self, name: &[u8]) -> Result<bool> {
        self.storage().delete(name)
    }
    fn size(&mut self, file: u64) -> Result<u64> {
        self.storage().size(file)
    }
    fn read(&mut self, file: u64, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.storage().read(file, offset, into)
    }
    fn write(&mut self, file: u64, kept: u64, writes: &[(u64, &[u8])]) -> Result<()> {
        self.storage().write(file, kept, writes)
    }
    fn truncate(&mut self, file: u64, size: u64) -> Result<()> {
        self.storage().truncate(file, size)
    }
}

fn refused(code: std::ffi::c_int) -> Error {
    Error::Unsupported(format!("registering the VFS: SQLite refused it (error {code})"))
}

fn address<R: Runner>(runner: &mut R, root: u64) -> Result<PersistentAddress> {
    if root >= 8 {
        return Err(Error::Parameter(format!("root word {root}: a pool has eight, 0 to 7")));
    }
    runner.view(|tx| Ok(tx.root(root)))
}
