//! The VFS as an extension that any SQLite loads, for its shell and other languages.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use rusqlite::ffi;

use crate::memory::Journals;
use crate::paths::Paths;
use crate::shared::{App, Home, Sqlite};
use crate::vfs::register as register_vfs;

/// The part of `sqlite3_api_routines` (sqlite3ext.h) that is used. SQLite only ever appends to it.
#[repr(C)]
struct Routines {
    _before: [*const c_void; 141],
    vfs_find: unsafe extern "C" fn(*const c_char) -> *mut ffi::sqlite3_vfs,
    vfs_register: unsafe extern "C" fn(*mut ffi::sqlite3_vfs, c_int) -> c_int,
    _between: [*const c_void; LOG - 143],
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
    _behind: [*const c_void; URI_BOOLEAN - LOG - 1],
    uri_boolean: unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int,
    _uri_int64: *const c_void,
    uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
}

/// The index of `log`.
const LOG: usize = 167;
/// The index of `uri_boolean`.
const URI_BOOLEAN: usize = 187;

/// What SQLite calls when it loads the library, by the name of its file: registers the VFS `strandline`.
///
/// ```sql
/// .load target/distribution/libstrandline_sqlite
/// .open file:shop.db?vfs=strandline
/// ```
///
/// # Safety
/// `routines` are those of an SQLite that calls this as it calls the entry point of an extension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_strandlinesqlite_init(
    _: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    routines: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: every SQLite since 3.7 has these routines there, and they stay.
    let routines = unsafe { &*routines.cast::<Routines>() };
    let sqlite = Sqlite {
        find: routines.vfs_find,
        register: routines.vfs_register,
        uri_boolean: routines.uri_boolean,
        uri_parameter: routines.uri_parameter,
        log: routines.log,
    };
    // SAFETY: the functions are SQLite's. The VFS is used by connections that know nothing of the one that has loaded it.
    match unsafe { register_in(sqlite) } {
        Ok(()) => ffi::SQLITE_OK_LOAD_PERMANENTLY,
        Err(code) => code,
    }
}

/// Registers the VFS `strandline` with an SQLite, unless it is there.
///
/// # Safety
/// The functions are those of an SQLite.
unsafe fn register_in(sqlite: Sqlite) -> Result<(), c_int> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: as the caller promises.
    unsafe {
        if (sqlite.find)(c"strandline".as_ptr()).is_null() {
            let home = Home::Paths(Paths::default());
            let app = |system| App { system, home, journals: Journals::default() };
            register_vfs(sqlite, c"strandline".into(), app)?;
        }
    }
    Ok(())
}

/// Registers the VFS `strandline` with the SQLite that this crate brings: each database is then a pool of its own, in the file that is named. A
/// commit is one transaction of the pool, on the disk when it returns, whatever `PRAGMA synchronous` says.
///
/// ```
/// use strandline_sqlite::rusqlite::Connection;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop.db").display().to_string();
/// strandline_sqlite::register()?;
/// let shop = Connection::open(format!("file:{path}?vfs=strandline"))?;
/// shop.execute_batch("CREATE TABLE sold (what TEXT, count INTEGER); INSERT INTO sold VALUES ('bolt', 1)")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if SQLite refuses it.
pub fn register() -> strandline_core::Result<()> {
    // SAFETY: of the SQLite that is linked.
    unsafe { register_in(linked()) }.map_err(crate::refused)
}

/// The functions of the SQLite that is linked.
pub(crate) fn linked() -> Sqlite {
    Sqlite {
        find: ffi::sqlite3_vfs_find,
        register: ffi::sqlite3_vfs_register,
        uri_boolean: ffi::sqlite3_uri_boolean,
        uri_parameter: ffi::sqlite3_uri_parameter,
        log: ffi::sqlite3_log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SQLite that is linked hands its routines to an extension, which finds in them what it is linked with.
    #[test]
    fn the_routines_are_where_they_are_said_to_be() {
        unsafe extern "C" fn look(
            _: *mut ffi::sqlite3,
            _: *mut *mut c_char,
            routines: *const ffi::sqlite3_api_routines,
        ) -> c_int {
            // SAFETY: SQLite's own.
            let routines = unsafe { &*routines.cast::<Routines>() };
            let found = [
                routines.vfs_find as usize,
                routines.vfs_register as usize,
                routines.uri_boolean as usize,
                routines.uri_parameter as usize,
                routines.log as usize,
            ];
            let linked: [usize; 5] = [
                ffi::sqlite3_vfs_find as *const () as usize,
                ffi::sqlite3_vfs_register as *const () as usize,
                ffi::sqlite3_uri_boolean as *const () as usize,
                ffi::sqlite3_uri_parameter as *const () as usize,
                ffi::sqlite3_log as *const () as usize,
            ];
            if found == linked { ffi::SQLITE_OK } else { ffi::SQLITE_ERROR }
        }
        // SAFETY: `look` is an entry point, and stays.
        unsafe { ffi::sqlite3_auto_extension(Some(look)) };
        let opened = rusqlite::Connection::open_in_memory();
        // SAFETY: as above.
        unsafe { ffi::sqlite3_cancel_auto_extension(Some(look)) };
        opened.unwrap();
    }
}
