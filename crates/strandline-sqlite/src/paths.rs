//! Databases by their paths: each is a pool of its own, in the file that SQLite names.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use strandline_core::Result;
use strandline_core::engine::{Stm, Worker};
use strandline_core::error::Error;
use strandline_core::file::{Options, Pool};
use strandline_core::memory::Native;
use strandline_core::transaction::{Read, Runner};

use crate::cache::Cache;
use crate::files::Files;
use crate::shared::Shared;
use crate::{BUCKETS, Commit};

/// The file of the database in its pool.
const DATABASE: &[u8] = b"database";

#[derive(Default)]
pub(crate) struct Paths {
    open: Mutex<HashMap<PathBuf, Weak<Shared>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether there is a database at `name`. Journals of an ordinary database that was there once are none of it.
pub(crate) fn is_there(name: &[u8]) -> bool {
    !name.ends_with(b"-journal") && !name.ends_with(b"-wal") && path(name).exists()
}

fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// The whole path, without symbolic links where there is such a file: two names of one database are the same to SQLite.
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

impl Paths {
    /// The database at `name`, and its file's number in the pool.
    pub fn database(&self, name: &[u8], create: bool, read_only: bool) -> Result<(Arc<Shared>, u64)> {
        let mut open = locked(&self.open);
        if let Some(shared) = open.get(path(name)).and_then(Weak::upgrade) {
            let number = shared.state().number(DATABASE)?;
            return Ok((shared, number));
        }
        let mut options = Options { layout_name: "SQLite".into(), ..Options::default() };
        // One connection writes at a time, and what it writes between two commits should fit its log: that is faster than to write it in
        // place. The rest is for those that do what is done to any pool.
        options.geometry.logs = 2;
        options.geometry.log_bytes = 16 << 20;
        options.sync.initial_ring_blocks = 8192;
        let is_absent =
            |error: &Error| matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound);
        let pool = match read_only {
            true => Pool::open_read_only(path(name), &options)?,
            false => match Pool::open(path(name), &options) {
                Err(error) if create && is_absent(&error) => Pool::create(path(name), &options)?,
                done => done?,
            },
        };
        let mut worker = pool.worker()?;
        let root = worker.view(|tx| Ok(tx.root(0)))?;
        let files = Files::<Worker<Native, Stm>, Worker<Native, Stm>>::new(worker, root, BUCKETS)?;
        let storage = Box::new(Cache::new(files));
        let shared = Arc::new(Shared::new(Commit::Buffered, Some(storage), Some(pool)));
        let number = shared.state().number(DATABASE)?;
        open.insert(path(name).to_owned(), Arc::downgrade(&shared));
        Ok((shared, number))
    }

    /// A connection needs the database no longer; the last one closes its pool.
    pub fn release(&self, shared: Arc<Shared>) {
        // Locked until it is closed: whoever opens it meanwhile waits.
        let mut open = locked(&self.open);
        drop(shared);
        open.retain(|_, shared| shared.strong_count() > 0);
    }
}
