//! The VFS: translates SQLite's calls.
//!
//! SQLite calls the functions in [`register`]'s table with pointers that it has received from this module: the VFS's `pAppData`, which is leaked and
//! so never freed, and files between [`open`] and [`close`].

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use rusqlite::ffi;
use strandline_core::error::Error;

use crate::Commit;
use crate::files::PAGE_BYTES;
use crate::locks::{Level, Locks};
use crate::memory::Memory;
use crate::paths::{How, Paths, full_name, is_there};
use crate::shared::{App, Home, SQLITE, Shared, Sqlite, Stored, told};

/// The longest name of a database, including SQLite's suffixes.
const MAX_NAME: c_int = 512;

/// Registers a VFS under `name` with SQLite. Returns the pointer for `sqlite3_vfs_unregister`. `app` receives the system's VFS.
///
/// # Safety
/// `sqlite` holds the functions of an SQLite.
pub(crate) unsafe fn register(
    sqlite: Sqlite,
    name: CString,
    app: impl FnOnce(*mut ffi::sqlite3_vfs) -> App,
) -> Result<*mut ffi::sqlite3_vfs, c_int> {
    let sqlite = *SQLITE.get_or_init(|| sqlite);
    // SAFETY: the function is SQLite's; a null name asks for the default VFS.
    let app = Box::leak(Box::new(app(unsafe { (sqlite.find)(ptr::null()) })));
    let vfs = ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<File>() as c_int,
        mxPathname: MAX_NAME,
        pNext: ptr::null_mut(),
        zName: name.into_raw(),
        pAppData: ptr::from_mut(app).cast(),
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
    // SAFETY: the table and all that it points to are leaked, so they outlive any use by SQLite.
    match unsafe { (sqlite.register)(vfs, 0) } {
        ffi::SQLITE_OK => Ok(vfs),
        code => Err(code),
    }
}

/// A file as SQLite sees it. The part that SQLite defines comes first.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    open: *mut Open,
}

/// An open file.
struct Open {
    app: &'static App,
    contents: Contents,
    level: Level,
    /// The name of the file if it is deleted on close.
    delete_on_close: Option<Vec<u8>>,
}

enum Contents {
    /// A file in the pool.
    Pool(Stored),
    /// A database whose pool another process has open, or which this process has open for reading. SQLite reads it as an empty file until [`lock`]
    /// opens the pool. If the pool is still locked then, SQLite calls its busy handler.
    Busy(Vec<u8>, How),
    /// A file in memory: a sorter or a statement journal, which only one connection uses, or a journal.
    Memory(Memory),
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

/// Runs `body`. A panic in it must not cross into SQLite, so it becomes `code`.
fn guard(code: c_int, body: impl FnOnce() -> Result<c_int, c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code) | Err(code)) => code,
        Err(_) => code,
    }
}

/// Returns the state of a VFS.
///
/// # Safety
/// `vfs` was made by [`register`].
unsafe fn app(vfs: *mut ffi::sqlite3_vfs) -> &'static App {
    // SAFETY: `register` has set `pAppData` to a leaked box.
    unsafe { &*(*vfs).pAppData.cast::<App>() }
}

/// Returns the open file behind SQLite's.
///
/// # Safety
/// [`open`] made `file`, and it is not yet closed. SQLite uses a file in one thread at a time, and the caller has no other reference to it.
unsafe fn opened<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: `open` has stored a box's pointer there, which lives until `close`.
    unsafe { &mut *(*file.cast::<File>()).open }
}

/// Returns the bytes of a C string.
///
/// # Safety
/// `name` is null or a C string that lives as long as the result is used.
unsafe fn bytes<'a>(name: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller promises it.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes())
}

const OF_ONE_CONNECTION: c_int = ffi::SQLITE_OPEN_TEMP_DB
    | ffi::SQLITE_OPEN_TRANSIENT_DB
    | ffi::SQLITE_OPEN_TEMP_JOURNAL
    | ffi::SQLITE_OPEN_SUBJOURNAL;
const JOURNALS: c_int = ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL;

/// Returns the flags that tell SQLite that a file which it opened for writing can only be read.
fn read_only(flags: c_int) -> c_int {
    flags & !(ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE) | ffi::SQLITE_OPEN_READONLY
}

/// Opens a database in a pool of its own. If another process has locked the pool, returns a busy file if SQLite will lock it later (`is_locked`), and
/// otherwise an error.
fn database(paths: &Paths, name: &[u8], how: How, is_locked: bool) -> Result<Contents, c_int> {
    match paths.database(name, how) {
        Ok((shared, number)) => Ok(Contents::Pool(Stored::new(shared, number, name))),
        Err(error @ Error::Locked { .. }) if is_locked => {
            told(&error, ffi::SQLITE_BUSY);
            Ok(Contents::Busy(name.to_vec(), how))
        }
        Err(error) => Err(told(&error, ffi::SQLITE_CANTOPEN)),
    }
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite provides `szOsFile` bytes for a `File`. It does not close a file without methods if opening fails.
    unsafe { (*file).pMethods = ptr::null() };
    // SAFETY: SQLite passes the VFS that was registered, and a C string or null.
    let (app, c_name, name) = unsafe { (app(vfs), name, bytes(name)) };
    guard(ffi::SQLITE_CANTOPEN, || {
        let has = |flag: c_int| flags & flag != 0;
        let mut is_read_only = false;
        if has(ffi::SQLITE_OPEN_WAL) {
            return Err(ffi::SQLITE_CANTOPEN);
        }
        let contents = match (&app.home, name) {
            (_, None) => Contents::Memory(Memory::default()),
            _ if has(OF_ONE_CONNECTION) => Contents::Memory(Memory::default()),
            (home, Some(name)) if has(JOURNALS) && home.is_buffered() => {
                let journal = app.journals.open(name, has(ffi::SQLITE_OPEN_CREATE));
                Contents::Memory(journal.ok_or(ffi::SQLITE_CANTOPEN)?)
            }
            (Home::Pool(shared), Some(name)) => {
                Contents::Pool(Stored::new(shared.clone(), file_in_pool(shared, name, flags)?, name))
            }
            (Home::Paths(paths), Some(name)) => {
                // SAFETY: the name is one that SQLite passes for a database, followed by the URI's parameters.
                let (how, is_locked) = unsafe { how(c_name, flags) }?;
                is_read_only |= how.read_only;
                database(paths, name, how, is_locked)?
            }
        };
        let delete_on_close = match name {
            Some(name) if has(ffi::SQLITE_OPEN_DELETEONCLOSE) && !has(OF_ONE_CONNECTION) => {
                Some(name.to_vec())
            }
            _ => None,
        };
        let open = Box::new(Open { app, contents, level: Level::None, delete_on_close });
        // SAFETY: as above; `out_flags` is null or points to an integer.
        unsafe {
            (*file.cast::<File>()).open = Box::into_raw(open);
            (*file).pMethods = &METHODS;
            if !out_flags.is_null() {
                *out_flags = if is_read_only { read_only(flags) } else { flags };
            }
        }
        Ok(ffi::SQLITE_OK)
    })
}

/// Returns how SQLite opens the database `name`, and whether it will lock the file before it reads it.
///
/// # Safety
/// SQLite passed `name` to [`open`] for a database.
unsafe fn how(name: *const c_char, flags: c_int) -> Result<(How, bool), c_int> {
    let sqlite = SQLITE.get().ok_or(ffi::SQLITE_CANTOPEN)?;
    let has = |flag: c_int| flags & flag != 0;
    let is_database = has(ffi::SQLITE_OPEN_MAIN_DB);
    // SAFETY: the functions are SQLite's, and accept the names of databases.
    let boolean = |key: &CStr| is_database && unsafe { (sqlite.uri_boolean)(name, key.as_ptr(), 0) } != 0;
    let text = |key: &CStr| match is_database {
        // SAFETY: as above; the text lives as long as the name.
        true => unsafe { bytes((sqlite.uri_parameter)(name, key.as_ptr())) },
        false => None,
    };
    let how = How::new(has(ffi::SQLITE_OPEN_CREATE), has(ffi::SQLITE_OPEN_READONLY), boolean, text);
    let how = how.map_err(|error| told(&error, ffi::SQLITE_CANTOPEN))?;
    Ok((how, is_database && !boolean(c"immutable") && !boolean(c"nolock")))
}

/// Returns the number of the file `name` in the only pool.
fn file_in_pool(shared: &Shared, name: &[u8], flags: c_int) -> Result<u64, c_int> {
    let has = |flag: c_int| flags & flag != 0;
    let mut state = shared.state();
    let found = state.ask(ffi::SQLITE_CANTOPEN, |files| files.find(name))?;
    if has(ffi::SQLITE_OPEN_MAIN_JOURNAL) {
        state.statistics.journals += 1;
    }
    match found {
        Some(_) if has(ffi::SQLITE_OPEN_EXCLUSIVE) && has(ffi::SQLITE_OPEN_CREATE) => {
            Err(ffi::SQLITE_CANTOPEN)
        }
        Some(number) => Ok(number),
        None if has(ffi::SQLITE_OPEN_CREATE) => state.ask(ffi::SQLITE_CANTOPEN, |files| files.create(name)),
        None => Err(ffi::SQLITE_CANTOPEN),
    }
}

/// Deletes the file `name`. Returns whether it existed.
fn delete_file(app: &App, name: &[u8]) -> Result<bool, c_int> {
    match &app.home {
        _ if app.journals.delete(name) => Ok(true),
        Home::Pool(shared) => shared.state().ask(ffi::SQLITE_IOERR_DELETE, |files| files.delete(name)),
        Home::Paths(_) => Ok(false),
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, _: c_int) -> c_int {
    // SAFETY: SQLite passes the VFS that was registered, and a C string.
    let (app, name) = unsafe { (app(vfs), bytes(name).unwrap_or_default()) };
    guard(ffi::SQLITE_IOERR_DELETE, || {
        if delete_file(app, name)? { Ok(ffi::SQLITE_OK) } else { Err(ffi::SQLITE_IOERR_DELETE_NOENT) }
    })
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    _: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes the VFS that was registered, and a C string.
    let (app, name) = unsafe { (app(vfs), bytes(name).unwrap_or_default()) };
    guard(ffi::SQLITE_IOERR, || {
        let is_there = match &app.home {
            _ if app.journals.has(name) => true,
            Home::Pool(shared) => shared.state().ask(ffi::SQLITE_IOERR, |files| files.find(name))?.is_some(),
            Home::Paths(_) => is_there(name),
        };
        // SAFETY: `result` points to an integer.
        unsafe { *result = c_int::from(is_there) };
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes the VFS that was registered, and a C string.
    let (app, name) = unsafe { (app(vfs), bytes(name).unwrap_or_default()) };
    guard(ffi::SQLITE_CANTOPEN, || {
        let mut name = match app.home {
            Home::Pool(_) => name.to_vec(),
            Home::Paths(_) => full_name(name),
        };
        name.push(0);
        if name.len() > length as usize {
            return Err(ffi::SQLITE_CANTOPEN);
        }
        // SAFETY: SQLite provides `length` bytes at `out`.
        unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len()) };
        Ok(ffi::SQLITE_OK)
    })
}

/// Defines a function that calls the one of the system's VFS, which serves time and randomness.
macro_rules! of_the_system {
    ($vfs:ident.$function:ident($($argument:expr),*)) => {{
        // SAFETY: SQLite passes the VFS that was registered. The system's VFS is called with its own pointer.
        unsafe {
            let system = app($vfs).system;
            match system.as_ref().and_then(|vfs| vfs.$function) {
                Some(function) => function(system, $($argument),*),
                None => ffi::SQLITE_ERROR,
            }
        }
    }};
}

unsafe extern "C" fn randomness(vfs: *mut ffi::sqlite3_vfs, bytes: c_int, out: *mut c_char) -> c_int {
    of_the_system!(vfs.xRandomness(bytes, out))
}

unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    of_the_system!(vfs.xSleep(microseconds))
}

unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    of_the_system!(vfs.xCurrentTime(out))
}

unsafe extern "C" fn current_time_in_milliseconds(
    vfs: *mut ffi::sqlite3_vfs,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    of_the_system!(vfs.xCurrentTimeInt64(out))
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: `open` made the box, and SQLite does not use the file after this.
    let Open { app, contents, mut level, delete_on_close } =
        *unsafe { Box::from_raw((*file.cast::<File>()).open) };
    guard(ffi::SQLITE_IOERR_CLOSE, || {
        if let Contents::Pool(Stored { shared, number, .. }) = contents {
            let mut state = shared.state();
            let locks = state.locks.entry(number).or_default();
            locks.lower(&mut level, Level::None);
            if locks.is_free() {
                state.locks.remove(&number);
            }
            drop(state);
            if let Home::Paths(paths) = &app.home {
                paths.release(shared);
            }
        }
        if let Some(name) = &delete_on_close {
            delete_file(app, name)?;
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
    // SAFETY: the file is open, and `into` has `length` bytes. They may be uninitialized, so they are zeroed.
    let (open, into) = unsafe {
        ptr::write_bytes(into.cast::<u8>(), 0, length as usize);
        (opened(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), length as usize))
    };
    guard(ffi::SQLITE_IOERR_READ, || {
        let offset = offset as u64;
        let read = match &mut open.contents {
            // SQLite reads nothing between the first write of a batch and its end.
            Contents::Pool(stored) if stored.batch.is_some() => return Err(ffi::SQLITE_IOERR_READ),
            Contents::Pool(stored) => {
                stored.ask(ffi::SQLITE_IOERR_READ, |files, number, buffer| match buffer {
                    Some(buffer) => buffer.read(files, number, offset, into),
                    None => files.read(number, offset, into),
                })?
            }
            Contents::Memory(memory) => memory.read(offset as usize, into),
            Contents::Busy(..) => 0,
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
    // SAFETY: the file is open, and `from` has `length` bytes.
    let (open, from) =
        unsafe { (opened(file), std::slice::from_raw_parts(from.cast::<u8>(), length as usize)) };
    guard(ffi::SQLITE_IOERR_WRITE, || {
        let offset = offset as u64;
        match &mut open.contents {
            Contents::Pool(Stored { batch: Some(batch), .. }) => batch.push((offset, from.to_vec())),
            Contents::Pool(stored) => {
                stored.ask(ffi::SQLITE_IOERR_WRITE, |files, number, buffer| match buffer {
                    Some(buffer) => buffer.write(files, number, offset, from),
                    None => files.write(number, u64::MAX, &[(offset, from)]),
                })?
            }
            Contents::Memory(memory) => {
                memory.write(offset as usize, from);
            }
            Contents::Busy(..) => return Err(ffi::SQLITE_BUSY),
        }
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_TRUNCATE, || {
        let size = size as u64;
        match &mut open.contents {
            Contents::Pool(stored) => {
                stored.ask(ffi::SQLITE_IOERR_TRUNCATE, |files, number, buffer| match buffer {
                    Some(buffer) => buffer.truncate(files, number, size),
                    None => files.truncate(number, size),
                })?;
            }
            Contents::Memory(memory) => memory.bytes().truncate(size as usize),
            Contents::Busy(..) => return Err(ffi::SQLITE_BUSY),
        }
        Ok(ffi::SQLITE_OK)
    })
}

/// Commits the buffer. SQLite synchronizes a database when it has written all that belongs to a commit or a rollback. Without a buffer nothing is
/// left to do, because each write was durable when it returned.
unsafe extern "C" fn synchronize(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_FSYNC, || match &mut open.contents {
        Contents::Pool(stored) => stored.commit_buffer(ffi::SQLITE_IOERR_FSYNC),
        Contents::Memory(_) | Contents::Busy(..) => Ok(ffi::SQLITE_OK),
    })
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_FSTAT, || {
        let size = match &mut open.contents {
            Contents::Pool(stored) => {
                stored.ask(ffi::SQLITE_IOERR_FSTAT, |files, number, buffer| match buffer {
                    Some(buffer) => buffer.size(files, number),
                    None => files.size(number),
                })?
            }
            Contents::Memory(memory) => memory.bytes().len() as u64,
            Contents::Busy(..) => 0,
        };
        // SAFETY: `out` points to an integer.
        unsafe { *out = size as ffi::sqlite3_int64 };
        Ok(ffi::SQLITE_OK)
    })
}

/// Runs `body` with the file's locks and the connection's level. A file in memory has no locks: returns `none`.
fn with_locks<T>(open: &mut Open, none: T, body: impl FnOnce(&mut Locks, &mut Level) -> T) -> T {
    match &open.contents {
        Contents::Pool(Stored { shared, number, .. }) => {
            body(shared.state().locks.entry(*number).or_default(), &mut open.level)
        }
        Contents::Memory(_) | Contents::Busy(..) => none,
    }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_LOCK, || {
        if let (Contents::Busy(name, how), Home::Paths(paths)) = (&open.contents, &open.app.home) {
            let opened = paths.database(name, *how).map_err(|error| match error {
                // This is not logged again, because SQLite repeats the call as often as its busy handler wants.
                Error::Locked { .. } => ffi::SQLITE_BUSY,
                error => told(&error, ffi::SQLITE_IOERR_LOCK),
            });
            let (shared, number) = opened?;
            open.contents = Contents::Pool(Stored::new(shared, number, name));
        }
        let has_it = with_locks(open, true, |locks, now| locks.raise(now, Level::of(level)));
        if has_it { Ok(ffi::SQLITE_OK) } else { Err(ffi::SQLITE_BUSY) }
    })
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_UNLOCK, || {
        let committed = match &mut open.contents {
            Contents::Pool(stored) => stored.end(&open.app.journals, ffi::SQLITE_IOERR_UNLOCK),
            Contents::Memory(_) | Contents::Busy(..) => Ok(ffi::SQLITE_OK),
        };
        // SQLite considers the file unlocked in either case.
        with_locks(open, (), |locks, now| locks.lower(now, Level::of(level)));
        committed.map(|_| ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, || {
        let is_reserved = with_locks(open, false, |locks, _| locks.is_reserved());
        // SAFETY: `out` points to an integer.
        unsafe { *out = c_int::from(is_reserved) };
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    guard(ffi::SQLITE_IOERR, || {
        if operation == ffi::SQLITE_FCNTL_PRAGMA && !matches!(open.contents, Contents::Memory(_)) {
            // A connection that has the file for itself could use a write-ahead log without shared memory, so this refuses one. SAFETY: SQLite passes
            // such an array for this operation.
            return unsafe { refuse_wal(argument.cast()) }.map(|()| ffi::SQLITE_OK);
        }
        let Contents::Pool(stored) = &mut open.contents else { return Err(ffi::SQLITE_NOTFOUND) };
        match operation {
            // A connection in exclusive locking mode keeps its locks, so that `unlock` does not commit for it.
            ffi::SQLITE_FCNTL_COMMIT_PHASETWO => return stored.commit_buffer(ffi::SQLITE_IOERR_FSYNC),
            ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => stored.batch = Some(Vec::new()),
            ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => {
                let batch = stored.batch.take().unwrap_or_default();
                let writes: Vec<_> = batch.iter().map(|(offset, bytes)| (*offset, &bytes[..])).collect();
                let mut state = stored.shared.state();
                let written = state.ask(ffi::SQLITE_IOERR_COMMIT_ATOMIC, |files| {
                    files.write(stored.number, u64::MAX, &writes)
                });
                match written {
                    Ok(()) => state.statistics.atomic_commits += 1,
                    Err(code) => {
                        // After an I/O error, SQLite tries again with a journal; after any other error it gives up.
                        state.statistics.refused_batches += 1;
                        return Err(code);
                    }
                }
            }
            ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => stored.batch = None,
            _ => return Err(ffi::SQLITE_NOTFOUND),
        }
        Ok(ffi::SQLITE_OK)
    })
}

/// Answers `delete` to `PRAGMA journal_mode=WAL`; leaves other pragmas to SQLite.
///
/// # Safety
/// `pragma` points to an array of three: a place for the answer, the pragma's name, and its value or null.
unsafe fn refuse_wal(pragma: *mut *mut c_char) -> Result<(), c_int> {
    const ANSWER: &CStr = c"delete";
    // SAFETY: the caller promises it.
    let (name, value) = unsafe { (bytes(*pragma.add(1)), bytes(*pragma.add(2))) };
    let is = |text: Option<&[u8]>, word: &[u8]| text.is_some_and(|text| text.eq_ignore_ascii_case(word));
    if !is(name, b"journal_mode") || !is(value, b"wal") {
        return Err(ffi::SQLITE_NOTFOUND);
    }
    let length = ANSWER.to_bytes_with_nul().len();
    // SAFETY: SQLite allocates this memory with the requested size, and frees it.
    unsafe {
        let answer = ffi::sqlite3_malloc(length as c_int).cast::<c_char>();
        if answer.is_null() {
            return Err(ffi::SQLITE_NOMEM);
        }
        ptr::copy_nonoverlapping(ANSWER.as_ptr(), answer, length);
        *pragma = answer;
    }
    Ok(())
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    PAGE_BYTES as c_int
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    // Each write is either a transaction that is durable before the next one begins, or a part of the commit's transaction.
    let always = ffi::SQLITE_IOCAP_ATOMIC
        | ffi::SQLITE_IOCAP_SAFE_APPEND
        | ffi::SQLITE_IOCAP_SEQUENTIAL
        | ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    match &open.contents {
        Contents::Pool(stored) if stored.shared.commit == Commit::Atomic => {
            always | ffi::SQLITE_IOCAP_BATCH_ATOMIC
        }
        _ => always,
    }
}
