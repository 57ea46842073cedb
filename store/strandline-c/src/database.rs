//! Opening, closing, copying and checking a database.

use std::ffi::{c_char, c_int};
use std::ptr;

use strandline::{Database, Error};

use crate::options::StrandlineOptions;
use crate::status::{Stop, answer, in_body, parameter};
use crate::{Memory, put, reference, text};

/// An open database. Any number of threads may use it at a time.
pub struct StrandlineDatabase {
    pub(crate) database: Database,
}

/// What has to be at the path; a call fails otherwise.
#[derive(Clone, Copy)]
enum Expected {
    Either,
    Existing,
    Nothing,
    /// A database that is only read.
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

/// Opens the database in the file at `path`, in UTF-8, and recovers it after a crash; creates it if there is no such file. There is a second
/// file beside it, `path.log`. `options`: null for the defaults.
///
/// # Safety
/// `path` is a string; `options` is null or leads to options; `database` leads to a place for the database.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_open(
    path: *const c_char,
    options: *const StrandlineOptions,
    database: *mut *mut StrandlineDatabase,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(path, options, database, Expected::Either) }
}

/// As `strandline_open`, but the database has to exist: a mistake in the path is `STRANDLINE_IO`, and creates nothing.
///
/// # Safety
/// As `strandline_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_open_existing(
    path: *const c_char,
    options: *const StrandlineOptions,
    database: *mut *mut StrandlineDatabase,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(path, options, database, Expected::Existing) }
}

/// Creates a database in a new file at `path`. Fails and changes nothing if the file exists: `STRANDLINE_IO`.
///
/// # Safety
/// As `strandline_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_create_new(
    path: *const c_char,
    options: *const StrandlineOptions,
    database: *mut *mut StrandlineDatabase,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(path, options, database, Expected::Nothing) }
}

/// Opens the database at `path` for reading only, beside any number of other readers and no writer.
///
/// # Safety
/// As `strandline_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_open_read_only(
    path: *const c_char,
    options: *const StrandlineOptions,
    database: *mut *mut StrandlineDatabase,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { open(path, options, database, Expected::Readable) }
}

/// Makes everything durable and closes the database. It waits for transactions of other threads. Returns `STRANDLINE_IN_USE` while
/// snapshots of the database exist, and `STRANDLINE_PARAMETER` in the body of a transaction; the database then stays open. After any other
/// result it is gone. Maps and objects are closed for themselves, before or after.
///
/// # Safety
/// `database` is one that was opened, or null; nobody uses it any more.
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
        if !matches!(closed, Err(Error::InUse(_))) {
            // SAFETY: it was made of a box, and nobody uses it any more.
            drop(unsafe { Box::from_raw(database) });
        }
        Ok(closed?)
    })
}

/// Copies the database as it is at one time to a new file at `path`, while other threads read and write.
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

/// Looks everything over for damage, which takes a while. `damage` becomes null if all is well; otherwise a text, a finding on each line, for
/// `strandline_free`, and the call returns `STRANDLINE_DAMAGED`.
///
/// # Safety
/// `database` is open; `damage` leads to a place for a pointer.
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
        let first = Stop::Error(strandline::Error::Damaged(first.clone()));
        let mut text = found.join("\n").replace('\0', " ");
        text.push('\0');
        // SAFETY: as above.
        unsafe { put(damage, Memory::of(text.as_bytes())?.into_raw().cast())? };
        Err(first)
    })
}

/// Brings everything home from the log now (`STRANDLINE_SYNC`), so that the next opening after a crash has little to do.
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
