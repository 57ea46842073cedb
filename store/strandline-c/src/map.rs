//! Maps of byte strings, and iterators over them.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Bound;
use std::ptr;
use std::rc::Rc;

use strandline::{Range, Table};

use crate::database::StrandlineDatabase;
use crate::status::{answer, not_found, parameter};
use crate::transaction::{StrandlineTransaction, running};
use crate::{Memory, put, reference, text};

/// A map of byte strings to byte strings, ordered by the keys' bytes. A key has up to 4094 bytes, of which each zero byte counts
/// twice; a value has up to 4,294,967,295. All threads may share a map, and use it in all transactions of its database.
pub struct StrandlineMap {
    pub(crate) table: Table<Vec<u8>, Vec<u8>>,
}

/// Opens the map `name`, in UTF-8, and creates it if it does not exist. Not inside a transaction. In a database that is open for reading
/// only, it returns `STRANDLINE_NO_TABLE` where there is none.
///
/// Threads: any, at the same time as others use the database. All threads may share the map that it opens.
///
/// # Safety
/// `database` is open; `name` is a string; `map` refers to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_map_open(
    database: *const StrandlineDatabase,
    name: *const c_char,
    map: *mut *mut StrandlineMap,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe {
            put(map, ptr::null_mut())?;
            let database = reference(database, "a database")?;
            let table = database.database.table(text(name, "a name")?)?;
            put(map, Box::into_raw(Box::new(StrandlineMap { table })))
        }
    })
}

/// Frees what `strandline_map_open` has allocated. The stored keys and values stay.
///
/// Threads: any one, after all others have stopped using this `map`.
///
/// # Safety
/// `map` was opened, is closed once, and no thread is in a call with it; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_map_close(map: *mut StrandlineMap) {
    if !map.is_null() {
        // SAFETY: it was made from a box.
        drop(unsafe { Box::from_raw(map) });
    }
}

/// Deletes the map or the objects `name` with all that is stored there; returns `STRANDLINE_NOT_FOUND` if neither exists. Calls with
/// handles that are still open return `STRANDLINE_NO_TABLE` from then on. Not inside a transaction.
///
/// Threads: any, at the same time as others use the database.
///
/// # Safety
/// `database` is open; `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_delete(
    database: *const StrandlineDatabase,
    name: *const c_char,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (database, name) = unsafe { (reference(database, "a database")?, text(name, "a name")?) };
        if database.database.delete(name)? { Ok(()) } else { Err(not_found("there is no such map")) }
    })
}

/// Stores `value` under `key`, in place of the value that the key has. `STRANDLINE_PARAMETER`: the key or the value is too long.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the map at the same time.
///
/// # Safety
/// `transaction` runs; `map` is open; `key` and `value` have as many bytes as their lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_put(
    transaction: *mut StrandlineTransaction,
    map: *const StrandlineMap,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (tx, map, key, value) = unsafe {
            let tx = running(transaction)?.writer()?;
            (tx, reference(map, "a map")?, crate::key(key, key_length)?, crate::value(value, value_length)?)
        };
        map.table.set(tx, key, value)?;
        Ok(())
    })
}

/// Copies the value of `key` to memory for `strandline_free`. Returns `STRANDLINE_NOT_FOUND` if there is no such key.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the map at the same time.
///
/// # Safety
/// As for `strandline_put`; `value` and `value_length` refer to room for a pointer and a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_get(
    transaction: *mut StrandlineTransaction,
    map: *const StrandlineMap,
    key: *const c_void,
    key_length: usize,
    value: *mut *mut c_void,
    value_length: *mut usize,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (running, map, key) = unsafe {
            put(value, ptr::null_mut())?;
            put(value_length, 0)?;
            (running(transaction)?, reference(map, "a map")?, crate::key(key, key_length)?)
        };
        let found = map.table.reader(running.view, key)?;
        let reader = found.ok_or_else(|| not_found("there is no such key"))?;
        let length = reader.len() as usize;
        let mut copy = Memory::of_zeros(length)?;
        reader.read_at(0, copy.as_mut_slice())?;
        // SAFETY: as above.
        unsafe {
            put(value, copy.into_raw())?;
            put(value_length, length)
        }
    })
}

/// Removes `key` and its value. Returns `STRANDLINE_NOT_FOUND` if there is no such key.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the map at the same time.
///
/// # Safety
/// As for `strandline_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_remove(
    transaction: *mut StrandlineTransaction,
    map: *const StrandlineMap,
    key: *const c_void,
    key_length: usize,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (tx, map, key) = unsafe {
            (running(transaction)?.writer()?, reference(map, "a map")?, crate::key(key, key_length)?)
        };
        match map.table.remove(tx, key)? {
            Some(_) => Ok(()),
            None => Err(not_found("there is no such key")),
        }
    })
}

/// Gives the number of keys, which does not take longer for more of them. A transaction that writes conflicts by it with those that store new keys or remove some
/// at the same time.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the map at the same time.
///
/// # Safety
/// `transaction` is the one that the running body was given, or of a snapshot that has not ended; `map` is open; `length` refers to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_map_length(
    transaction: *mut StrandlineTransaction,
    map: *const StrandlineMap,
    length: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe {
            put(length, 0)?;
            let (tx, map) = (running(transaction)?.view, reference(map, "a map")?);
            put(length, map.table.len(tx)?)
        }
    })
}

/// An iterator over the keys of a map, within its transaction.
pub struct StrandlineIterator {
    range: Range<'static, 'static, Vec<u8>, Vec<u8>>,
    backwards: bool,
    /// True while the transaction runs.
    lives: Rc<Cell<bool>>,
    /// True if a read has failed. The iterator reports no end after that.
    has_failed: bool,
    /// The last pair, which C may be reading.
    pair: (Vec<u8>, Vec<u8>),
}

/// Begins to iterate over the keys from `from` on that are less than `to`, in order; with `backwards` other than 0 from the greatest
/// of them down. Null with a length of 0 is no bound.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the map at the same time.
///
/// # Safety
/// As for `strandline_put`, for `from` and `to` as well; `iterator` refers to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_iterate(
    transaction: *mut StrandlineTransaction,
    map: *const StrandlineMap,
    from: *const c_void,
    from_length: usize,
    to: *const c_void,
    to_length: usize,
    backwards: c_int,
    iterator: *mut *mut StrandlineIterator,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises. The real lifetime is shorter than `'static`: the iterator is used only while `lives` is set, which means
        // that the transaction runs, and dropping the iterator does not access the transaction.
        unsafe {
            put(iterator, ptr::null_mut())?;
            let running = running::<'static>(transaction)?;
            let edge = |at: *const c_void, length, bound: fn(&'static [u8]) -> Bound<&'static [u8]>| {
                if at.is_null() && length == 0 {
                    Ok(Bound::Unbounded)
                } else {
                    crate::key(at, length).map(bound)
                }
            };
            let bounds = (edge(from, from_length, Bound::Included)?, edge(to, to_length, Bound::Excluded)?);
            let range = reference(map, "a map")?.table.range::<[u8], _>(running.view, bounds)?;
            let lives = running.lives.clone();
            let begun = StrandlineIterator {
                range,
                backwards: backwards != 0,
                lives,
                has_failed: false,
                pair: Default::default(),
            };
            put(iterator, Box::into_raw(Box::new(begun)))
        }
    })
}

/// Returns the next key and its value, which stay valid until the iterator is used again. Returns `STRANDLINE_NOT_FOUND` at the end.
/// After any other failure to read, the iterator returns `STRANDLINE_PARAMETER` from then on.
///
/// Threads: the one of the iterator's transaction or snapshot.
///
/// # Safety
/// `iterator` has not ended; the other arguments refer to room for pointers and lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_iterator_next(
    iterator: *mut StrandlineIterator,
    key: *mut *const c_void,
    key_length: *mut usize,
    value: *mut *const c_void,
    value_length: *mut usize,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises; nobody else uses the iterator.
        let it =
            unsafe { iterator.as_mut() }.ok_or_else(|| parameter("an iterator is needed, and not NULL"))?;
        if !it.lives.get() {
            return Err(parameter("the transaction of this iterator has ended"));
        }
        if it.has_failed {
            return Err(parameter("the iterator has failed before, and where it ends is not known"));
        }
        // SAFETY: as the caller promises. Checks the places before the iterator advances, so that no pair is lost.
        unsafe {
            put(key, ptr::null())?;
            put(key_length, 0)?;
            put(value, ptr::null())?;
            put(value_length, 0)?;
        }
        let next = if it.backwards { it.range.next_back() } else { it.range.next() };
        let pair = next.ok_or_else(|| not_found("there is no further key"))?;
        it.has_failed = pair.is_err();
        it.pair = pair?;
        let (found_key, found_value) = &it.pair;
        // SAFETY: as the caller promises.
        unsafe {
            put(key, found_key.as_ptr().cast())?;
            put(key_length, found_key.len())?;
            put(value, found_value.as_ptr().cast())?;
            put(value_length, found_value.len())
        }
    })
}

/// Ends an iterator, during its transaction or after it.
///
/// Threads: the one of the iterator's transaction or snapshot.
///
/// # Safety
/// `iterator` has begun and is ended once; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_iterator_end(iterator: *mut StrandlineIterator) {
    if !iterator.is_null() {
        // SAFETY: it was made from a box.
        drop(unsafe { Box::from_raw(iterator) });
    }
}
