//! Opens, closes, copies and checks a database.

use std::ffi::{c_char, c_int};
use std::ptr;

use strandline::{Database, Error, OldFiles};

use crate::options::StrandlineOptions;
use crate::status::{Stop, answer, in_body, parameter};
use crate::{Memory, put, reference, text};

/// An open database. Any number of threads may use it at a time.
pub struct StrandlineDatabase {
    pub(crate) database: Database,
}

/// The condition on the path; the call fails if it does not hold.
#[derive(Clone, Copy)]
enum Expected {
    Either,
    Existing,
    Nothing,
    /// A database, which is opened for reading only.
    Readable,
}

/// Opens a database and hands it to C.
///
/// # Safety
/// As [`strandline_open`].
unsafe fn open(
    path: *const c_char,
    options: *const StrandlineOptions,
    into: *mut *mut StrandlineDatabase,
    expected: Expected,
) -> c_int {
    answer(|| {
        // SAFETY: the caller promises a string, options or null, and a place.
        unsafe {
            let path = text(path, "a path")?;
            let given = options.as_ref().copied().unwrap_or_default();
            let options = given.options()?;
            put(into, ptr::null_mut())?;
            let database = match expected {
                Expected::Nothing if given.read_only != 0 => {
                    return Err(parameter("a new database cannot be opened for reading only"));
                }
                Expected::Nothing => Database::create_new(path, &options)?,
                _ if given.read_only != 0 => Database::open_read_only(path, &options)?,
                Expected::Readable => Database::open_read_only(path, &options)?,
                Expected::Existing => Database::open_existing(path, &options)?,
                Expected::Either => Database::open_with(path, &options)?,
            };
            put(into, Box::into_raw(Box::new(StrandlineDatabase { database })))
        }
    })
}

/// Opens the database in the file at `path`, in UTF-8, and recovers it after a crash; creates it if there is no such file. A second
/// file is beside it, `path.log`. With null as `options` the defaults apply.
///
/// Threads: any. All threads may share the database that it opens.
///
/// # Safety
/// `path` is a string; `options` is null or refers to options, whose `layout_name` is null or a string; `database` refers to room for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_open(
    path: *const c_char,
    options: *const StrandlineOptions,
    database: *mut *mut StrandlineDatabase,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(path, options, database, Expected::Either) }
}

/// Opens a database like `strandline_open`, but creates none: where there is no file at `path`, it returns `STRANDLINE_IO`.
///
/// Threads: any. All threads may share the database that it opens.
///
/// # Safety
/// As for `strandline_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_open_existing(
    path: *const c_char,
    options: *const StrandlineOptions,
    database: *mut *mut StrandlineDatabase,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(path, options, database, Expected::Existing) }
}

/// Creates a database in a new file at `path`. If the file exists, it changes nothing and returns `STRANDLINE_IO`.
///
/// Threads: any. All threads may share the database that it opens.
///
/// # Safety
/// As for `strandline_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_create_new(
    path: *const c_char,
    options: *const StrandlineOptions,
    database: *mut *mut StrandlineDatabase,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(path, options, database, Expected::Nothing) }
}

/// Opens the database at `path` for reading only. Any number of processes may have it open so at a time, and none that writes.
///
/// Threads: any. All threads may share the database that it opens.
///
/// # Safety
/// As for `strandline_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_open_read_only(
    path: *const c_char,
    options: *const StrandlineOptions,
    database: *mut *mut StrandlineDatabase,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(path, options, database, Expected::Readable) }
}

/// Makes everything durable and closes the database. Returns `STRANDLINE_IN_USE` while snapshots of the database exist, and
/// `STRANDLINE_PARAMETER` in the body of a transaction; the database then stays open. After any other result it is closed, and the
/// pointer is no longer valid. Maps, objects and tickets are closed or freed on their own, before or after.
///
/// Threads: one, after all others have stopped using the database; join them first.
///
/// # Safety
/// `database` was opened, is closed once, and no thread is in a call with it; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_close(database: *mut StrandlineDatabase) -> c_int {
    answer(|| {
        if database.is_null() {
            return Ok(());
        }
        if in_body() {
            return Err(parameter("the body of a transaction cannot close a database"));
        }
        // SAFETY: the caller promises an open one.
        let closed = unsafe { &*database }.database.close();
        if !matches!(closed, Err(Error::InUse { .. })) {
            // SAFETY: it was made from a box, and nobody uses it any more.
            drop(unsafe { Box::from_raw(database) });
        }
        Ok(closed?)
    })
}

/// Copies the database, as it is at one moment, to a new file at `path`, while other threads read and write. Not inside a
/// transaction.
///
/// Threads: any, at the same time as others use the database.
///
/// # Safety
/// `database` is open; `path` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_backup(
    database: *const StrandlineDatabase,
    path: *const c_char,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (database, path) = unsafe { (reference(database, "a database")?, text(path, "a path")?) };
        database.database.backup(path)?;
        Ok(())
    })
}

/// Puts a copy of the database at `backup` in the place of the database at `path`, or creates it. Neither may be open. The backup is checked
/// first. If the process is killed, the old database or the new one is at `path`; after an error from opening it, restore again. With
/// `keep_old` other than 0, the old database stays at `path.replaced`; if there is such a file already, the call returns
/// `STRANDLINE_PARAMETER` and changes nothing.
///
/// Threads: any.
///
/// # Safety
/// `backup` and `path` are strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_restore(
    backup: *const c_char,
    path: *const c_char,
    keep_old: c_int,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (backup, path) = unsafe { (text(backup, "a backup")?, text(path, "a path")?) };
        let old_files = if keep_old != 0 { OldFiles::Keep } else { OldFiles::Remove };
        Database::restore(backup, path, old_files)?;
        Ok(())
    })
}

/// Has the program answer requests about the database from now on: `strandline pool list`, `get`, `range`, `dump`, `backup`, `statistics` and
/// `checkpoint` work while it has the database open. They arrive on a socket beside the file, which only processes of its user can
/// reach. A thread of the library answers them, until the database is closed. Not inside a transaction.
///
/// Threads: any, at the same time as others use the database.
///
/// # Safety
/// `database` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_serve_control(database: *const StrandlineDatabase) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let database = unsafe { reference(database, "a database") }?;
        Ok(database.database.serve_control()?)
    })
}

/// Checks everything that is stored for damage, in a time that grows with the database. If it finds none, `damage` becomes null.
/// Otherwise `damage` becomes a text for `strandline_free` with a finding on each line, and the call returns `STRANDLINE_DAMAGED`.
/// Not inside a transaction.
///
/// Threads: any, at the same time as others use the database.
///
/// # Safety
/// `database` is open; `damage` refers to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_check(
    database: *const StrandlineDatabase,
    damage: *mut *mut c_char,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let database = unsafe {
            put(damage, ptr::null_mut())?;
            reference(database, "a database")?
        };
        let found = database.database.check()?;
        let Some(first) = found.first() else { return Ok(()) };
        let first = Stop::Error(strandline::Error::damaged(first.clone()));
        let mut text = found.join("\n").replace('\0', " ");
        text.push('\0');
        // SAFETY: as above.
        unsafe { put(damage, Memory::of(text.as_bytes())?.into_raw().cast())? };
        Err(first)
    })
}

/// Writes all changes from the log to the main file now (`STRANDLINE_SYNC`), so that recovery after a crash has little to do. Not
/// inside a transaction.
///
/// Threads: any, at the same time as others use the database.
///
/// # Safety
/// `database` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_checkpoint(database: *const StrandlineDatabase) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        Ok(unsafe { reference(database, "a database")? }.database.checkpoint()?)
    })
}
