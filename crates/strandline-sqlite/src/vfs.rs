//! The VFS: SQLite's calls, translated.
//!
//! All `unsafe` of this crate is here. SQLite calls the functions of [`register`]'s table with pointers that it has
//! got from us: the VFS's `pAppData`, which is leaked and so lives for ever, and files that [`open`] has made and
//! [`close`] has not yet seen.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;
use strandline_core::error::Error;

use crate::files::{PAGE_BYTES, Storage};
use crate::locks::{Level, Locks};
use crate::{Commit, Statistics};

/// The longest name of a database, with SQLite's suffixes.
const MAX_NAME: c_int = 512;

/// What all connections of a VFS share.
pub(crate) struct Shared {
    pub(crate) commit: Commit,
    pub(crate) state: Mutex<State>,
}

pub(crate) struct State {
    /// Nobody keeps files between two loans, and after the VFS was dropped.
    pub(crate) storage: Option<Box<dyn Storage + Send>>,
    pub(crate) statistics: Statistics,
    /// What the last failed call failed with.
    pub(crate) error: Option<Error>,
    locks: HashMap<u64, Locks>,
}

impl Shared {
    pub(crate) fn new(commit: Commit, storage: Option<Box<dyn Storage + Send>>) -> Self {
        let state = State { storage, statistics: Statistics::default(), error: None, locks: HashMap::new() };
        Self { commit, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // What a panic leaves half done here is a count.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Asks the storage; `code` is what SQLite hears of a failure.
    fn ask<T>(
        &mut self,
        code: c_int,
        question: impl FnOnce(&mut dyn Storage) -> strandline_core::Result<T>,
    ) -> Result<T, c_int> {
        let Some(storage) = &mut self.storage else { return Err(code) };
        question(&mut **storage).map_err(|error| {
            let code = match error {
                Error::Full(_) => ffi::SQLITE_FULL,
                Error::ReadOnly => ffi::SQLITE_READONLY,
                _ => code,
            };
            self.error = Some(error);
            code
        })
    }
}

/// Tells SQLite of a VFS under `name`; what it gives is for [`unregister`].
pub(crate) fn register(name: CString, shared: &'static Shared) -> Result<*mut ffi::sqlite3_vfs, c_int> {
    let vfs = ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<File>() as c_int,
        mxPathname: MAX_NAME,
        pNext: ptr::null_mut(),
        zName: name.into_raw(),
        pAppData: ptr::from_ref(shared).cast_mut().cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_in_milliseconds),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    };
    let vfs = Box::into_raw(Box::new(vfs));
    // SAFETY: the table and all it points to are leaked, so they live as long as SQLite may use them.
    match unsafe { ffi::sqlite3_vfs_register(vfs, 0) } {
        ffi::SQLITE_OK => Ok(vfs),
        code => Err(code),
    }
}

/// No connection is opened on this VFS any more.
pub(crate) fn unregister(vfs: *mut ffi::sqlite3_vfs) {
    // SAFETY: `vfs` is from `register` and still whole, as it is never freed.
    unsafe { ffi::sqlite3_vfs_unregister(vfs) };
}

/// Whether this SQLite was built with the option, named without `SQLITE_`.
pub(crate) fn has_option(name: &CStr) -> bool {
    // SAFETY: `name` is a C string; SQLite only reads it.
    unsafe { ffi::sqlite3_compileoption_used(name.as_ptr()) != 0 }
}

/// A file as SQLite sees it: its own part first.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    open: *mut Open,
}

/// An open file.
struct Open {
    shared: &'static Shared,
    contents: Contents,
    level: Level,
    /// What an atomic write has collected.
    batch: Option<Vec<(u64, Vec<u8>)>>,
    /// The name of a file that goes when it is closed.
    delete_on_close: Option<Vec<u8>>,
}

enum Contents {
    /// In the pool, with this number.
    Pool(u64),
    /// For this connection only: sorters, statement journals.
    Memory(Vec<u8>),
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(synchronize),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Runs `body`; a panic in it becomes `code`, as none may cross into SQLite.
fn guard(code: c_int, body: impl FnOnce() -> Result<c_int, c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code) | Err(code)) => code,
        Err(_) => code,
    }
}

/// The VFS's own data.
///
/// # Safety
/// `vfs` is one that [`register`] has made.
unsafe fn shared(vfs: *mut ffi::sqlite3_vfs) -> &'static Shared {
    // SAFETY: `pAppData` was made from a `&'static Shared` there.
    unsafe { &*(*vfs).pAppData.cast::<Shared>() }
}

/// The open file behind SQLite's.
///
/// # Safety
/// `file` was made by [`open`] and not yet closed; SQLite uses a file from one thread at a time, and no other
/// reference from here exists.
unsafe fn opened<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: `open` has put a box's pointer there, which lives until `close`.
    unsafe { &mut *(*file.cast::<File>()).open }
}

/// The bytes of a C string.
///
/// # Safety
/// `name` is a C string or null, and lives as long as the result is used.
unsafe fn bytes<'a>(name: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: as promised by the caller.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes())
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    const OF_ONE_CONNECTION: c_int = ffi::SQLITE_OPEN_TEMP_DB
        | ffi::SQLITE_OPEN_TRANSIENT_DB
        | ffi::SQLITE_OPEN_TEMP_JOURNAL
        | ffi::SQLITE_OPEN_SUBJOURNAL;
    // SAFETY: SQLite gives `szOsFile` bytes for a `File`. Without methods it is not closed after a failure.
    unsafe { (*file).pMethods = ptr::null() };
    // SAFETY: SQLite calls with the VFS that was registered, and a C string or null.
    let (shared, name) = unsafe { (shared(vfs), bytes(name)) };
    guard(ffi::SQLITE_CANTOPEN, || {
        let has = |flag: c_int| flags & flag != 0;
        let contents = match name {
            Some(name) if !has(OF_ONE_CONNECTION) => {
                let mut state = shared.state();
                let found = state.ask(ffi::SQLITE_CANTOPEN, |files| files.find(name))?;
                if has(ffi::SQLITE_OPEN_MAIN_JOURNAL) {
                    state.statistics.journals += 1;
                }
                Contents::Pool(match found {
                    Some(_) if has(ffi::SQLITE_OPEN_EXCLUSIVE) && has(ffi::SQLITE_OPEN_CREATE) => {
                        return Err(ffi::SQLITE_CANTOPEN);
                    }
                    Some(number) => number,
                    None if has(ffi::SQLITE_OPEN_CREATE) => {
                        state.ask(ffi::SQLITE_CANTOPEN, |files| files.create(name))?
                    }
                    None => return Err(ffi::SQLITE_CANTOPEN),
                })
            }
            _ => Contents::Memory(Vec::new()),
        };
        let delete_on_close = match (&contents, name) {
            (Contents::Pool(_), Some(name)) if has(ffi::SQLITE_OPEN_DELETEONCLOSE) => Some(name.to_vec()),
            _ => None,
        };
        let open = Box::new(Open { shared, contents, level: Level::None, batch: None, delete_on_close });
        // SAFETY: as above; `out_flags` is null or an integer's place.
        unsafe {
            (*file.cast::<File>()).open = Box::into_raw(open);
            (*file).pMethods = &METHODS;
            if !out_flags.is_null() {
                *out_flags = flags;
            }
        }
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, _: c_int) -> c_int {
    // SAFETY: SQLite calls with the VFS that was registered, and a C string.
    let (shared, name) = unsafe { (shared(vfs), bytes(name).unwrap_or_default()) };
    guard(ffi::SQLITE_IOERR_DELETE, || {
        let was_there = shared.state().ask(ffi::SQLITE_IOERR_DELETE, |files| files.delete(name))?;
        if was_there { Ok(ffi::SQLITE_OK) } else { Err(ffi::SQLITE_IOERR_DELETE_NOENT) }
    })
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with the VFS that was registered, and a C string.
    let (shared, name) = unsafe { (shared(vfs), bytes(name).unwrap_or_default()) };
    guard(ffi::SQLITE_IOERR, || {
        let found = shared.state().ask(ffi::SQLITE_IOERR, |files| files.find(name))?;
        // SAFETY: `result` is an integer's place.
        unsafe { *result = c_int::from(found.is_some()) };
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite calls with a C string, and with room for `length` bytes at `out`.
    unsafe {
        let name = CStr::from_ptr(name).to_bytes_with_nul();
        if name.len() > length as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len());
    }
    ffi::SQLITE_OK
}

/// Calls a function of the system's own VFS: time and randomness are not ours.
macro_rules! of_the_system {
    ($function:ident($($argument:expr),*)) => {{
        // SAFETY: the default VFS exists, has all its functions, and is called with its own pointer.
        unsafe {
            let system = ffi::sqlite3_vfs_find(ptr::null());
            match system.as_ref().and_then(|vfs| vfs.$function) {
                Some(function) => function(system, $($argument),*),
                None => ffi::SQLITE_ERROR,
            }
        }
    }};
}

unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, bytes: c_int, out: *mut c_char) -> c_int {
    of_the_system!(xRandomness(bytes, out))
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    of_the_system!(xSleep(microseconds))
}

unsafe extern "C" fn current_time(_: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    of_the_system!(xCurrentTime(out))
}

unsafe extern "C" fn current_time_in_milliseconds(
    _: *mut ffi::sqlite3_vfs,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    of_the_system!(xCurrentTimeInt64(out))
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the box that `open` has made; SQLite does not use the file after this.
    let open = unsafe { Box::from_raw((*file.cast::<File>()).open) };
    guard(ffi::SQLITE_IOERR_CLOSE, || {
        let mut state = open.shared.state();
        if let Contents::Pool(number) = open.contents {
            let mut level = open.level;
            let locks = state.locks.entry(number).or_default();
            locks.lower(&mut level, Level::None);
            if locks.is_free() {
                state.locks.remove(&number);
            }
        }
        if let Some(name) = &open.delete_on_close {
            state.ask(ffi::SQLITE_IOERR_DELETE, |files| files.delete(name))?;
        }
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: an open file, and room for `length` bytes, which SQLite has initialised or not: they are zeroed.
    let (open, into) = unsafe {
        ptr::write_bytes(into.cast::<u8>(), 0, length as usize);
        (opened(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), length as usize))
    };
    guard(ffi::SQLITE_IOERR_READ, || {
        let offset = offset as u64;
        let read = match &open.contents {
            // SQLite reads nothing between the first write of a batch and its end.
            Contents::Pool(_) if open.batch.is_some() => return Err(ffi::SQLITE_IOERR_READ),
            Contents::Pool(number) => {
                open.shared.state().ask(ffi::SQLITE_IOERR_READ, |files| files.read(*number, offset, into))?
            }
            Contents::Memory(bytes) => {
                let rest = bytes.get(offset as usize..).unwrap_or_default();
                let read = rest.len().min(into.len());
                into[..read].copy_from_slice(&rest[..read]);
                read
            }
        };
        if read < into.len() { Err(ffi::SQLITE_IOERR_SHORT_READ) } else { Ok(ffi::SQLITE_OK) }
    })
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: an open file, and `length` bytes to write.
    let (open, from) =
        unsafe { (opened(file), std::slice::from_raw_parts(from.cast::<u8>(), length as usize)) };
    guard(ffi::SQLITE_IOERR_WRITE, || {
        let offset = offset as u64;
        match &mut open.contents {
            Contents::Pool(number) => match &mut open.batch {
                Some(batch) => batch.push((offset, from.to_vec())),
                None => {
                    let writes = [(offset, from)];
                    open.shared
                        .state()
                        .ask(ffi::SQLITE_IOERR_WRITE, |files| files.write(*number, &writes))?;
                }
            },
            Contents::Memory(bytes) => {
                let (offset, end) = (offset as usize, offset as usize + from.len());
                bytes.resize(bytes.len().max(end), 0);
                bytes[offset..end].copy_from_slice(from);
            }
        }
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: an open file.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_TRUNCATE, || {
        let size = size as u64;
        match &mut open.contents {
            Contents::Pool(number) => {
                open.shared.state().ask(ffi::SQLITE_IOERR_TRUNCATE, |files| files.truncate(*number, size))?;
            }
            Contents::Memory(bytes) => bytes.truncate(size as usize),
        }
        Ok(ffi::SQLITE_OK)
    })
}

/// Nothing is left to do: each write was durable when it returned.
unsafe extern "C" fn synchronize(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: an open file.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_FSTAT, || {
        let size = match &open.contents {
            Contents::Pool(number) => {
                open.shared.state().ask(ffi::SQLITE_IOERR_FSTAT, |files| files.size(*number))?
            }
            Contents::Memory(bytes) => bytes.len() as u64,
        };
        // SAFETY: `out` is an integer's place.
        unsafe { *out = size as ffi::sqlite3_int64 };
        Ok(ffi::SQLITE_OK)
    })
}

/// The file's locks and the connection's level; a file in memory has none.
fn with_locks<T>(open: &mut Open, none: T, body: impl FnOnce(&mut Locks, &mut Level) -> T) -> T {
    match open.contents {
        Contents::Pool(number) => body(open.shared.state().locks.entry(number).or_default(), &mut open.level),
        Contents::Memory(_) => none,
    }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open file.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_LOCK, || {
        let has_it = with_locks(open, true, |locks, now| locks.raise(now, Level::of(level)));
        if has_it { Ok(ffi::SQLITE_OK) } else { Err(ffi::SQLITE_BUSY) }
    })
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open file.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_UNLOCK, || {
        with_locks(open, (), |locks, now| locks.lower(now, Level::of(level)));
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: an open file.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, || {
        let is_reserved = with_locks(open, false, |locks, _| locks.is_reserved());
        // SAFETY: `out` is an integer's place.
        unsafe { *out = c_int::from(is_reserved) };
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, operation: c_int, _: *mut c_void) -> c_int {
    // SAFETY: an open file.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR, || {
        let Contents::Pool(number) = open.contents else { return Err(ffi::SQLITE_NOTFOUND) };
        match operation {
            ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => open.batch = Some(Vec::new()),
            ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => {
                let batch = open.batch.take().unwrap_or_default();
                let writes: Vec<_> = batch.iter().map(|(offset, bytes)| (*offset, &bytes[..])).collect();
                let mut state = open.shared.state();
                let written =
                    state.ask(ffi::SQLITE_IOERR_COMMIT_ATOMIC, |files| files.write(number, &writes));
                match written {
                    Ok(()) => state.statistics.atomic_commits += 1,
                    Err(code) => {
                        // SQLite tries again with a journal after an I/O error, and gives up after any other.
                        state.statistics.refused_batches += 1;
                        return Err(code);
                    }
                }
            }
            ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => open.batch = None,
            _ => return Err(ffi::SQLITE_NOTFOUND),
        }
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    PAGE_BYTES as c_int
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: an open file.
    let open = unsafe { opened(file) };
    // Each write is a transaction that is durable before the next begins.
    let always = ffi::SQLITE_IOCAP_ATOMIC
        | ffi::SQLITE_IOCAP_SAFE_APPEND
        | ffi::SQLITE_IOCAP_SEQUENTIAL
        | ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    match (&open.contents, open.shared.commit) {
        (Contents::Pool(_), Commit::Atomic) => always | ffi::SQLITE_IOCAP_BATCH_ATOMIC,
        _ => always,
    }
}
