//! Databases by path: each is a pool of its own, in the file that SQLite names.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use strandline_core::Result;
use strandline_core::engine::Worker;
use strandline_core::error::Error;
use strandline_core::file::{Options, Pool};
use strandline_core::transaction::{Read, Runner};

use crate::cache::Cache;
use crate::files::{Files, Storage};
use crate::locks::Locks;
use crate::shared::{Opened, Shared, State};
use crate::{BUCKETS, Commit};

/// The name of the database's file in its pool.
const DATABASE: &[u8] = b"database";

#[derive(Default)]
pub(crate) struct Paths {
    open: Mutex<HashMap<PathBuf, Weak<Shared>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether there is a database at `name`. Journals that an ordinary database left there do not count.
pub(crate) fn is_there(name: &[u8]) -> bool {
    !name.ends_with(b"-journal") && !name.ends_with(b"-wal") && path(name).exists()
}

fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// Returns the absolute path. Resolves symbolic links if the file exists, so that SQLite recognizes two names of one database.
pub(crate) fn full_name(name: &[u8]) -> Vec<u8> {
    let given = path(name);
    let whole = given.canonicalize().or_else(|_| {
        let whole = std::path::absolute(given)?;
        match (whole.parent(), whole.file_name()) {
            (Some(folder), Some(file)) => Ok(folder.canonicalize()?.join(file)),
            _ => Ok::<_, std::io::Error>(whole),
        }
    });
    whole.map_or_else(|_| name.to_vec(), |whole| whole.into_os_string().as_bytes().to_vec())
}

/// The options with which to open a database. If the process has opened it already, only `read_only` matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct How {
    pub create: bool,
    pub read_only: bool,
    /// See [`Options::address_space`].
    pub address_space: Option<u64>,
    /// See [`Options::memory`].
    pub memory: Option<u64>,
}

impl How {
    /// Reads the parameters of a URI. `boolean` and `text` return a parameter by name.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] for a size that is not a number of bytes.
    pub fn new<'a>(
        create: bool,
        read_only: bool,
        boolean: impl Fn(&CStr) -> bool,
        text: impl Fn(&CStr) -> Option<&'a [u8]>,
    ) -> Result<Self> {
        let bytes = |name: &CStr| {
            let Some(given) = text(name) else { return Ok(None) };
            let number = std::str::from_utf8(given).ok().and_then(|given| given.parse().ok());
            number.map(Some).ok_or_else(|| {
                let (name, given) = (name.to_string_lossy(), String::from_utf8_lossy(given));
                Error::Parameter(format!("{name}={given}: expected a number of bytes such as 67108864"))
            })
        };
        let read_only = read_only || boolean(c"read_only") || boolean(c"immutable");
        let (address_space, memory) = (bytes(c"address_space")?, bytes(c"memory")?);
        Ok(Self { create: create && !read_only, read_only, address_space, memory })
    }
}

impl Paths {
    /// Returns the database at `name`, and its file's number in the pool.
    pub fn database(&self, name: &[u8], how: How) -> Result<(Arc<Shared>, u64)> {
        let mut open = locked(&self.open);
        if let Some(shared) = open.get(path(name)).and_then(Weak::upgrade) {
            let mut state = shared.state();
            if !how.read_only && state.pool.as_ref().is_some_and(|pool| pool.read_only) {
                write_too(&mut state, path(name), how)?;
            }
            let number = state.number(DATABASE)?;
            drop(state);
            return Ok((shared, number));
        }
        let (storage, pool) = open_at(path(name), how)?;
        let shared = Arc::new(Shared::new(Commit::Buffered, Some(storage), Some(pool)));
        let number = shared.state().number(DATABASE)?;
        open.insert(path(name).to_owned(), Arc::downgrade(&shared));
        Ok((shared, number))
    }

    /// Releases a connection's share in the database. The last one closes the pool.
    pub fn release(&self, shared: Arc<Shared>) {
        // The lock is held until the pool is closed, so that another connection that opens it waits.
        let mut open = locked(&self.open);
        drop(shared);
        open.retain(|_, shared| shared.strong_count() > 0);
    }
}

/// Opens the pool at `path` again for writing, although connections have opened it for reading. None of them may be reading now.
fn write_too(state: &mut State, path: &Path, how: How) -> Result<()> {
    if !state.locks.values().all(Locks::is_free) {
        let by = Some("a connection of this process, which reads now".into());
        return Err(Error::locked(path, "reading", by));
    }
    // A process can have a pool open only once, so it is closed first.
    (state.storage, state.pool) = (None, None);
    let how = How { create: false, ..how };
    let opened = open_at(path, how);
    let (now, error) = match opened {
        Ok(opened) => (Ok(opened), None),
        Err(error) => (open_at(path, How { read_only: true, ..how }), Some(error)),
    };
    if let Ok((storage, pool)) = now {
        (state.storage, state.pool) = (Some(storage), Some(pool));
    }
    error.map_or(Ok(()), Err)
}

/// Opens a database's pool. Returns the storage of its file, and the pool.
fn open_at(path: &Path, how: How) -> Result<(Box<dyn Storage + Send>, Opened)> {
    let How { create, read_only, address_space, memory } = how;
    let mut options = Options { layout_name: "SQLite".into(), address_space, memory, ..Options::default() };
    // One connection writes at a time, and needs one log; the other one is for tools that work on any pool. What is written between two commits
    // should fit the log, because that is faster than writing it in place.
    options.geometry.logs = 2;
    options.geometry.log_bytes = 16 << 20;
    options.sync.initial_ring_blocks = 8192;
    let is = |error: &Error, kind| matches!(error, Error::Io { source, .. } if source.kind() == kind);
    let pool = match read_only {
        true => Pool::open_read_only(path, &options)?,
        false => match Pool::open(path, &options) {
            Err(error) if create && is(&error, ErrorKind::NotFound) => match Pool::create(path, &options) {
                // Another process has created the pool in the meantime.
                Err(error) if is(&error, ErrorKind::AlreadyExists) && path.exists() => {
                    Pool::open(path, &options)?
                }
                created => created?,
            },
            opened => opened?,
        },
    };
    let mut worker = pool.worker()?;
    let root = worker.view(|tx| Ok(tx.root(0)))?;
    let files = Files::<Worker, Worker>::new(worker, root, BUCKETS)?;
    Ok((Box::new(Cache::new(files)), Opened { read_only, _pool: pool }))
}
