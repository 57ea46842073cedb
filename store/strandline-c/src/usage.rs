//! The usage of a database, and the list of its content.

use std::ffi::{c_char, c_int};
use std::ptr;

use crate::database::StrandlineDatabase;
use crate::status::answer;
use crate::{Memory, put, reference};

/// The usage of a database, and the way in which it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StrandlineUsage {
    /// Bytes that the database has grown to; it grows further where the disk and its greatest size allow.
    pub total_bytes: u64,
    /// Bytes of these that are in use.
    pub allocated_bytes: u64,
    /// Bytes of disk that the file takes.
    pub disk_bytes: u64,
    /// Bytes of disk that the log beside it takes.
    pub log_disk_bytes: u64,
    /// Bytes of memory for copies of the file's pages (`STRANDLINE_SYNC`).
    pub memory_bytes: u64,
    /// Snapshots that exist.
    pub snapshots: u64,
    /// Transactions that opening the database replayed from its log: 0 unless the program before had crashed.
    pub replayed: u64,
    /// For later versions.
    pub reserved: [u64; 8],
}

/// Reports how full the database is. Not inside a transaction.
///
/// Threads: any, at the same time as others use the database.
///
/// # Safety
/// `database` is open; `usage` refers to room for a `StrandlineUsage`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_usage(
    database: *const StrandlineDatabase,
    usage: *mut StrandlineUsage,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let database = &unsafe { reference(database, "a database") }?.database;
        let (heap, space) = (database.usage()?, database.space()?);
        let found = StrandlineUsage {
            total_bytes: heap.total_bytes,
            allocated_bytes: heap.allocated_bytes,
            disk_bytes: space.disk_bytes,
            log_disk_bytes: space.log_disk_bytes,
            memory_bytes: space.memory_bytes,
            snapshots: database.snapshot_usage()?.snapshots,
            replayed: database.recovery().replayed(),
            reserved: [0; 8],
        };
        // SAFETY: as the caller promises.
        unsafe { put(usage, found) }
    })
}

/// Returns in `names` the names of the maps, of the objects and of the tables of other languages, in order: an array for `strandline_free`, with
/// NULL after the last name. Freeing the array frees the names. Not inside a transaction.
///
/// Threads: any, at the same time as others use the database.
///
/// # Safety
/// `database` is open; `names` refers to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_list(
    database: *const StrandlineDatabase,
    names: *mut *mut *mut c_char,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let database = unsafe {
            put(names, ptr::null_mut())?;
            &reference(database, "a database")?.database
        };
        let tables = database.list()?;
        // The pointers come first, and behind them the texts that they refer to.
        let pointers = size_of::<*mut c_char>() * (tables.len() + 1);
        let bytes: usize = tables.iter().map(|table| table.name.len() + 1).sum();
        let array = Memory::of_zeros(pointers + bytes)?.into_raw().cast::<*mut c_char>();
        // SAFETY: the memory is aligned as `calloc` promises, and has room for the pointers and for each name with a zero; the caller promises a place.
        unsafe {
            let mut text = array.add(tables.len() + 1).cast::<c_char>();
            for (number, table) in tables.iter().enumerate() {
                ptr::copy_nonoverlapping(table.name.as_ptr().cast(), text, table.name.len());
                array.add(number).write(text);
                text = text.add(table.name.len() + 1);
            }
            put(names, array)
        }
    })
}
