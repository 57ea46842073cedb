//! The state that a VFS's connections share, and the state of an open file.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::ffi;
use strandline_core::error::Error;
use strandline_core::file::Pool;

use crate::buffer::Buffer;
use crate::files::Storage;
use crate::locks::Locks;
use crate::memory::Journals;
use crate::paths::Paths;
use crate::{Commit, Statistics};

/// The state of a registered VFS.
pub(crate) struct App {
    /// The system's own VFS, which serves time and randomness.
    pub(crate) system: *mut ffi::sqlite3_vfs,
    pub(crate) home: Home,
    /// The journals, for [`Commit::Buffered`].
    pub(crate) journals: Journals,
}

/// The place of the databases of a VFS.
pub(crate) enum Home {
    /// All are files in one pool.
    Pool(Arc<Shared>),
    /// Each one is a pool of its own at its path.
    Paths(Paths),
}

impl Home {
    /// Returns whether journals are kept in memory.
    pub(crate) fn is_buffered(&self) -> bool {
        match self {
            Self::Pool(shared) => shared.commit == Commit::Buffered,
            Self::Paths(_) => true,
        }
    }
}

/// The state that all connections to a pool share.
pub(crate) struct Shared {
    pub(crate) commit: Commit,
    pub(crate) state: Mutex<State>,
}

pub(crate) struct State {
    /// The storage of the files; `None` between two loans of a [`Lender`](crate::Lender), and after the VFS was dropped.
    pub(crate) storage: Option<Box<dyn Storage + Send>>,
    /// The pool, if it is closed with the last connection. Fields are dropped in order, so it is closed after the storage.
    pub(crate) pool: Option<Opened>,
    pub(crate) statistics: Statistics,
    /// The error of the last failed call.
    pub(crate) error: Option<Error>,
    pub(crate) locks: HashMap<u64, Locks>,
}

/// An open pool.
pub(crate) struct Opened {
    pub(crate) read_only: bool,
    pub(crate) _pool: Pool,
}

impl Shared {
    pub(crate) fn new(
        commit: Commit,
        storage: Option<Box<dyn Storage + Send>>,
        pool: Option<Opened>,
    ) -> Self {
        let state =
            State { storage, pool, statistics: Statistics::default(), error: None, locks: HashMap::new() };
        Self { commit, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic in a call leaves at most a wrong count.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Runs a call of the storage. If it fails, returns `code` to SQLite, or a more specific code.
    pub(crate) fn ask<T>(
        &mut self,
        code: c_int,
        question: impl FnOnce(&mut dyn Storage) -> strandline_core::Result<T>,
    ) -> Result<T, c_int> {
        let Some(storage) = &mut self.storage else { return Err(code) };
        question(&mut **storage).map_err(|error| {
            let code = told(&error, code);
            self.error = Some(error);
            code
        })
    }

    /// Returns the number of the file `name`, which is created if it does not exist.
    pub(crate) fn number(&mut self, name: &[u8]) -> strandline_core::Result<u64> {
        let storage = self.storage.as_mut().ok_or(Error::Missing { what: "pool", root: 0 })?;
        match storage.find(name)? {
            Some(number) => Ok(number),
            None => storage.create(name),
        }
    }
}

/// The functions of SQLite that this crate calls: those of the linked SQLite, or of the one that has loaded the extension.
#[derive(Clone, Copy)]
pub(crate) struct Sqlite {
    pub(crate) find: unsafe extern "C" fn(*const c_char) -> *mut ffi::sqlite3_vfs,
    pub(crate) register: unsafe extern "C" fn(*mut ffi::sqlite3_vfs, c_int) -> c_int,
    pub(crate) uri_boolean: unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int,
    pub(crate) uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    pub(crate) log: unsafe extern "C" fn(c_int, *const c_char, ...),
}

pub(crate) static SQLITE: OnceLock<Sqlite> = OnceLock::new();

/// Reports an error to SQLite's log. Returns the code for SQLite: `code`, unless there is a more specific one.
pub(crate) fn told(error: &Error, code: c_int) -> c_int {
    let code = match error {
        Error::Full { .. } => ffi::SQLITE_FULL,
        Error::ReadOnly => ffi::SQLITE_READONLY,
        Error::Locked { .. } => ffi::SQLITE_BUSY,
        Error::NotAPool { .. } => ffi::SQLITE_NOTADB,
        _ => code,
    };
    if let (Some(sqlite), Ok(text)) = (SQLITE.get(), CString::new(format!("{error:#}"))) {
        // SAFETY: the function is SQLite's, and one string is passed for one `%s`.
        unsafe { (sqlite.log)(code, c"strandline: %s".as_ptr(), text.as_ptr()) };
    }
    code
}

/// A file in a pool.
pub(crate) struct Stored {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u64,
    /// The writes that an atomic write has collected so far.
    pub(crate) batch: Option<Vec<(u64, Vec<u8>)>>,
    /// The writes since the last commit, for [`Commit::Buffered`].
    buffer: Option<Buffer>,
    /// The database's name.
    name: Vec<u8>,
}

impl Stored {
    pub(crate) fn new(shared: Arc<Shared>, number: u64, name: &[u8]) -> Self {
        let buffer = (shared.commit == Commit::Buffered).then(Buffer::default);
        Self { shared, number, batch: None, buffer, name: name.to_vec() }
    }

    /// Runs a call of the storage with this file and its buffer.
    pub(crate) fn ask<T>(
        &mut self,
        code: c_int,
        question: impl FnOnce(&mut dyn Storage, u64, &mut Option<Buffer>) -> strandline_core::Result<T>,
    ) -> Result<T, c_int> {
        let Self { shared, number, buffer, .. } = self;
        shared.state().ask(code, |files| question(files, *number, buffer))
    }

    /// Called when the connection unlocks the file. Commits what was written without `PRAGMA synchronous`, or after the commit, as when the file
    /// becomes shorter. If the journal is still hot, SQLite could not roll back; nothing of that transaction has reached the pool, and this drops it.
    pub(crate) fn end(&mut self, journals: &Journals, code: c_int) -> Result<c_int, c_int> {
        if let Some(buffer) = &mut self.buffer
            && journals.is_hot(&self.name)
        {
            *buffer = Buffer::default();
        }
        self.commit_buffer(code)
    }

    /// Commits the buffer as one transaction of the pool.
    pub(crate) fn commit_buffer(&mut self, code: c_int) -> Result<c_int, c_int> {
        if self.buffer.as_ref().is_some_and(|buffer| !buffer.is_empty()) {
            self.ask(code, |files, number, buffer| match buffer {
                Some(buffer) => buffer.commit(files, number),
                None => Ok(()),
            })?;
            self.shared.state().statistics.atomic_commits += 1;
        }
        Ok(ffi::SQLITE_OK)
    }
}
