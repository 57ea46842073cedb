//! The VFS as a loadable extension, for SQLite's shell and for other languages.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use rusqlite::ffi;

use crate::memory::Journals;
use crate::paths::Paths;
use crate::shared::{App, Home, Sqlite};
use crate::vfs::register as register_vfs;

/// The routines of `sqlite3_api_routines` (sqlite3ext.h) that this extension uses. SQLite only ever appends to that structure.
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

/// The index of `log` in the table.
const LOG: usize = 167;
/// The index of `uri_boolean` in the table.
const URI_BOOLEAN: usize = 187;

/// The extension's entry point, whose name SQLite derives from the library's file name. It registers the VFS `strandline`.
///
/// ```sql
/// .load target/distribution/libstrandline_sqlite
/// .open file:shop.db?vfs=strandline
/// ```
///
/// # Safety
/// The caller is SQLite, and `routines` points to its routines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_strandlinesqlite_init(
    _: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    routines: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: each SQLite since 3.7 has these routines at these places, and they live as long as the process.
    let routines = unsafe { &*routines.cast::<Routines>() };
    let sqlite = Sqlite {
        find: routines.vfs_find,
        register: routines.vfs_register,
        uri_boolean: routines.uri_boolean,
        uri_parameter: routines.uri_parameter,
        log: routines.log,
    };
    // SAFETY: the functions are SQLite's. Connections use the VFS without the one that loaded the extension.
    match unsafe { register_in(sqlite) } {
        Ok(()) => ffi::SQLITE_OK_LOAD_PERMANENTLY,
        Err(code) => code,
    }
}

/// Registers the VFS `strandline` with an SQLite, unless it is registered already.
///
/// # Safety
/// `sqlite` holds the functions of an SQLite.
unsafe fn register_in(sqlite: Sqlite) -> Result<(), c_int> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller promises it.
    unsafe {
        if (sqlite.find)(c"strandline".as_ptr()).is_null() {
            let home = Home::Paths(Paths::default());
            let app = |system| App { system, home, journals: Journals::default() };
            register_vfs(sqlite, c"strandline".into(), app)?;
        }
    }
    Ok(())
}

/// Registers the VFS `strandline` with the SQLite that this crate links. Each database is then a pool of its own, in the database's file. A commit is
/// one transaction of the pool and is durable when it returns, whatever the value of `PRAGMA synchronous`.
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
    // SAFETY: the functions are those of the linked SQLite.
    unsafe { register_in(linked()) }.map_err(crate::refused)
}

/// Returns the functions of the linked SQLite.
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

    /// The linked SQLite calls an extension with its routines. Those at our indices must be the linked functions.
    #[test]
    fn the_routines_are_where_they_are_said_to_be() {
        unsafe extern "C" fn look(
            _: *mut ffi::sqlite3,
            _: *mut *mut c_char,
            routines: *const ffi::sqlite3_api_routines,
        ) -> c_int {
            // SAFETY: these are SQLite's own routines.
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
        // SAFETY: `look` is an entry point, and lives as long as the process.
        unsafe { ffi::sqlite3_auto_extension(Some(look)) };
        let opened = rusqlite::Connection::open_in_memory();
        // SAFETY: as above.
        unsafe { ffi::sqlite3_cancel_auto_extension(Some(look)) };
        opened.unwrap();
    }
}
