//! Strandline for C: stores of named, ordered maps of byte strings, and transactions on them.
//!
//! `include/strandline.h` is made from this file; `examples/inventory.c` shows how it is used. Every function that can
//! fail returns a [`StrandlineStatus`]; `strandline_message` says what went wrong on this thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::Duration;

use strandline::{Domain, Error, Options};
use strandline::{HashMap, OrderedMap, Persist, Ptr, Store, Tx, View};

type Map<'p> = OrderedMap<'p, Vec<u8>, Vec<u8>>;

#[derive(Persist)]
#[persist(name = "strandline-c")]
struct Root<'p> {
    maps: HashMap<'p, String, Map<'p>>,
}

/// How a call ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum StrandlineStatus {
    /// It did what it should.
    STRANDLINE_OK = 0,
    /// There is no such key.
    STRANDLINE_NOT_FOUND = 1,
    /// An argument is impossible.
    STRANDLINE_INVALID = 2,
    /// The transaction was given up by its body, and has had no effect.
    STRANDLINE_ABORTED = 3,
    /// It failed. It has had no effect, except when the device has failed: then its outcome is unknown. `strandline_message` says why.
    STRANDLINE_FAILED = 4,
    /// Returned by an operation whose transaction cannot go on: its body must return this.
    STRANDLINE_INTERRUPTED = 5,
}

use StrandlineStatus::*;

/// A domain: committed transactions survive a power failure, on any file system.
pub const STRANDLINE_SYNC: u32 = 0;
/// A domain: committed transactions survive a power failure, on persistent memory.
pub const STRANDLINE_FLUSH: u32 = 1;
/// A domain: as `STRANDLINE_FLUSH`, where the caches are flushed when power fails.
pub const STRANDLINE_FLUSH_ON_FAIL: u32 = 2;
/// A domain: committed transactions survive a killed process, but no power failure.
pub const STRANDLINE_PROCESS: u32 = 3;

/// How a store is opened. All zeros: the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StrandlineOptions {
    /// What committed transactions survive: `STRANDLINE_SYNC`, ….
    pub domain: u32,
    /// The most bytes that a new store may take; 0: it grows until the disk is full.
    pub size: u64,
    /// How long a transaction that need not be durable at once may stay in memory, in microseconds; 0 for 10 ms.
    pub flush_interval_us: u64,
}

/// An open store. It may be used by any number of threads.
pub struct StrandlineStore {
    store: Store<Root<'static>>,
}

/// A running transaction: only for the body that it was given to, and only while that runs.
pub struct StrandlineTransaction {
    _opaque: [u8; 0],
}

/// What a `StrandlineTransaction` really is.
struct Running<'a, 'p> {
    view: &'a View<'p>,
    /// None where it only reads.
    tx: Option<&'a Tx<'p>>,
    maps: HashMap<'p, String, Map<'p>>,
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

fn remember(message: &str) {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    MESSAGE.with(|last| *last.borrow_mut() = message);
}

fn failed(error: &Error) -> StrandlineStatus {
    remember(&error.to_string());
    match error {
        Error::Parameter(_) => STRANDLINE_INVALID,
        Error::Interrupted => STRANDLINE_INTERRUPTED,
        Error::Aborted => STRANDLINE_ABORTED,
        _ => STRANDLINE_FAILED,
    }
}

fn invalid(message: &str) -> StrandlineStatus {
    remember(message);
    STRANDLINE_INVALID
}

/// A panic must not run into C.
fn guarded(body: impl FnOnce() -> StrandlineStatus) -> StrandlineStatus {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        remember("an internal error; please report it");
        STRANDLINE_FAILED
    })
}

/// The text at `text`, if it is UTF-8.
///
/// # Safety
/// `text` is null or a string that ends with a zero and stays as it is for `'a`.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller promises a string.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// The bytes at `bytes`.
///
/// # Safety
/// `length` is 0, or that many bytes at `bytes` stay as they are for `'a`.
unsafe fn slice<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller promises the bytes.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

/// What went wrong on this thread last. The text stays until the next call of this library on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_message() -> *const c_char {
    MESSAGE.with(|last| last.borrow().as_ptr())
}

/// Opens the store at `path`, or creates it, and recovers it after a crash.
///
/// # Safety
/// `path` is a string; `options` is null or points to options; `store` points to where the store is to be put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_open(
    path: *const c_char,
    options: *const StrandlineOptions,
    store: *mut *mut StrandlineStore,
) -> StrandlineStatus {
    guarded(|| {
        // SAFETY: the caller promises a string, and options or null.
        let (path, given) = unsafe { (text(path), options.as_ref()) };
        let (Some(path), false) = (path, store.is_null()) else {
            return invalid("a path in UTF-8 and a place for the store are needed");
        };
        let mut options = Options { layout_name: "strandline-c".into(), ..Options::default() };
        if let Some(given) = given {
            options.domain = match given.domain {
                STRANDLINE_SYNC => Domain::Sync,
                STRANDLINE_FLUSH => Domain::Flush,
                STRANDLINE_FLUSH_ON_FAIL => Domain::FlushOnFail,
                STRANDLINE_PROCESS => Domain::Process,
                _ => return invalid("there is no such domain"),
            };
            if given.size > 0 {
                options.geometry.size = given.size;
            }
            if given.flush_interval_us > 0 {
                options.flush_interval = Duration::from_micros(given.flush_interval_us);
            }
        }
        let opened = Store::open_or_create(path, &options, |tx| Ok(Root { maps: HashMap::new(tx)? }));
        match opened {
            Ok(opened) => {
                // SAFETY: the caller promises a place for it.
                unsafe { store.write(Box::into_raw(Box::new(StrandlineStore { store: opened }))) };
                STRANDLINE_OK
            }
            Err(error) => failed(&error),
        }
    })
}

/// Makes everything durable and closes the store, which is gone whatever this returns.
///
/// # Safety
/// `store` is one that `strandline_open` gave, or null; nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_close(store: *mut StrandlineStore) -> StrandlineStatus {
    guarded(|| {
        if store.is_null() {
            return STRANDLINE_OK;
        }
        // SAFETY: `strandline_open` made it of a box, and nobody uses it any more.
        let store = unsafe { Box::from_raw(store) };
        store.store.close().map_or_else(|error| failed(&error), |()| STRANDLINE_OK)
    })
}

/// What a transaction does: 0 commits it, everything else gives it up. It may run several times, of which only the last
/// has an effect; so it must do nothing else that cannot be repeated. When an operation returns
/// `STRANDLINE_INTERRUPTED` the body returns that.
pub type StrandlineBody =
    Option<unsafe extern "C" fn(transaction: *mut StrandlineTransaction, argument: *mut c_void) -> c_int>;

type Body = unsafe extern "C" fn(transaction: *mut StrandlineTransaction, argument: *mut c_void) -> c_int;

/// Calls the body of a transaction.
///
/// # Safety
/// `body` may be called with `argument`.
unsafe fn call(body: Body, argument: *mut c_void, running: Running<'_, '_>) -> Result<(), Error> {
    let transaction = (&raw const running).cast::<StrandlineTransaction>().cast_mut();
    // SAFETY: the caller promises that `body` may be called, and it is told to keep the transaction no longer.
    match unsafe { body(transaction, argument) } {
        0 => Ok(()),
        _ => Err(Error::Aborted),
    }
}

/// Calls the body of a transaction that writes.
///
/// # Safety
/// As `call`.
unsafe fn write<'p>(
    tx: &Tx<'p>,
    root: Ptr<'p, Root<'p>>,
    body: Body,
    argument: *mut c_void,
) -> Result<(), Error> {
    let maps = root.get(tx)?.maps;
    // SAFETY: the caller promises that the body may be called.
    unsafe { call(body, argument, Running { view: tx, tx: Some(tx), maps }) }
}

/// Runs `body` as one transaction: all of it happens, or nothing. With `durable` other than 0 it is durable when this
/// returns; otherwise soon (`flush_interval_us`), and in the order of the commits.
///
/// `STRANDLINE_ABORTED`: the body gave up.
///
/// # Safety
/// `store` is open; `body` may be called with `argument` until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_update(
    store: *const StrandlineStore,
    durable: c_int,
    body: StrandlineBody,
    argument: *mut c_void,
) -> StrandlineStatus {
    guarded(|| {
        // SAFETY: the caller promises an open store.
        let (Some(store), Some(body)) = (unsafe { store.as_ref() }, body) else {
            return invalid("a store and a body are needed");
        };
        let result = if durable != 0 {
            // SAFETY: the caller promises that the body may be called.
            store.store.update(|tx, root| unsafe { write(tx, root, body, argument) })
        } else {
            // SAFETY: as above.
            store.store.later().update(|tx, root| unsafe { write(tx, root, body, argument) }).map(drop)
        };
        result.map_or_else(|error| failed(&error), |()| STRANDLINE_OK)
    })
}

/// Runs `body` as a transaction that only reads: it sees one state of the store, whatever others do meanwhile.
///
/// # Safety
/// As `strandline_update`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_view(
    store: *const StrandlineStore,
    body: StrandlineBody,
    argument: *mut c_void,
) -> StrandlineStatus {
    guarded(|| {
        // SAFETY: the caller promises an open store.
        let (Some(store), Some(body)) = (unsafe { store.as_ref() }, body) else {
            return invalid("a store and a body are needed");
        };
        let result = store.store.view(|tx, root| {
            let running = Running { view: tx, tx: None, maps: root.get(tx)?.maps };
            // SAFETY: the caller promises that the body may be called.
            unsafe { call(body, argument, running) }
        });
        result.map_or_else(|error| failed(&error), |()| STRANDLINE_OK)
    })
}

/// Runs an operation of a transaction on the map `name`, which is None if there is none yet.
///
/// # Safety
/// `transaction` is the one that the running body was given; `name` is a string.
unsafe fn operate(
    transaction: *mut StrandlineTransaction,
    name: *const c_char,
    body: impl for<'a, 'p> FnOnce(&Running<'a, 'p>, &str, Option<Map<'p>>) -> Result<StrandlineStatus, Error>,
) -> StrandlineStatus {
    guarded(|| {
        // SAFETY: `call` made it of a `Running` that lives while the body runs, and the caller promises that it does.
        let running = unsafe { transaction.cast::<Running<'_, '_>>().as_ref() };
        // SAFETY: the caller promises a string.
        let (Some(running), Some(name)) = (running, unsafe { text(name) }) else {
            return invalid("a transaction and a map's name in UTF-8 are needed");
        };
        running
            .maps
            .get(running.view, name)
            .and_then(|map| body(running, name, map))
            .unwrap_or_else(|error| failed(&error))
    })
}

/// Gives `key` the value `value` in the map `map`, which is made if there is none.
///
/// # Safety
/// `transaction` is the one that the running body was given; `map` is a string; `key` and `value` have as many bytes as
/// their lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_put(
    transaction: *mut StrandlineTransaction,
    map: *const c_char,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
) -> StrandlineStatus {
    // SAFETY: the caller promises the bytes.
    let (key, value) = unsafe { (slice(key, key_length).to_vec(), slice(value, value_length).to_vec()) };
    // SAFETY: as the caller promises.
    unsafe { operate(transaction, map, |running, name, map| put(running, name, map, &key, &value)) }
}

/// Copies the value of `key` in the map `map` to memory that `strandline_free` gives back. `STRANDLINE_NOT_FOUND`: there
/// is no such key, or no such map.
///
/// # Safety
/// As `strandline_put`; `value` and `value_length` point to where the value's place and length are to be put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_get(
    transaction: *mut StrandlineTransaction,
    map: *const c_char,
    key: *const u8,
    key_length: usize,
    value: *mut *mut u8,
    value_length: *mut usize,
) -> StrandlineStatus {
    if value.is_null() || value_length.is_null() {
        return invalid("a place for the value is needed");
    }
    // SAFETY: the caller promises the bytes.
    let key = unsafe { slice(key, key_length) };
    let mut found = None;
    // SAFETY: as the caller promises.
    let status = unsafe { operate(transaction, map, |running, _, map| get(running, map, key, &mut found)) };
    if let Some(bytes) = found {
        let bytes = bytes.into_boxed_slice();
        // SAFETY: the caller promises places for both.
        unsafe {
            value_length.write(bytes.len());
            value.write(Box::into_raw(bytes).cast());
        }
    }
    status
}

/// Removes `key` from the map `map`. `STRANDLINE_NOT_FOUND`: it was not there.
///
/// # Safety
/// As `strandline_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_remove(
    transaction: *mut StrandlineTransaction,
    map: *const c_char,
    key: *const u8,
    key_length: usize,
) -> StrandlineStatus {
    // SAFETY: the caller promises the bytes.
    let key = unsafe { slice(key, key_length) };
    // SAFETY: as the caller promises.
    unsafe { operate(transaction, map, |running, _, map| remove(running, map, key)) }
}

/// Told of a key and its value; both are gone when it returns. 0 goes on, everything else ends the scan.
pub type StrandlineVisit = Option<
    unsafe extern "C" fn(
        argument: *mut c_void,
        key: *const u8,
        key_length: usize,
        value: *const u8,
        value_length: usize,
    ) -> c_int,
>;

/// Calls `visit` with the keys of the map `map` from `from` on, in order; with `backwards` other than 0, from the last
/// one before or at `from` on, in descending order. A null `from` is the first key, or the last.
///
/// # Safety
/// As `strandline_put`; `visit` may be called with `argument` until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_scan(
    transaction: *mut StrandlineTransaction,
    map: *const c_char,
    from: *const u8,
    from_length: usize,
    backwards: c_int,
    visit: StrandlineVisit,
    argument: *mut c_void,
) -> StrandlineStatus {
    let Some(visit) = visit else { return invalid("a function to visit is needed") };
    // SAFETY: the caller promises the bytes.
    let from = (!from.is_null()).then(|| unsafe { slice(from, from_length) });
    // SAFETY: the caller promises that it may be called.
    let mut visit = |key: &[u8], value: &[u8]| unsafe {
        visit(argument, key.as_ptr(), key.len(), value.as_ptr(), value.len()) == 0
    };
    // SAFETY: as the caller promises.
    unsafe {
        operate(transaction, map, |running, _, map| scan(running, map, from, backwards != 0, &mut visit))
    }
}

/// Gives a value back that `strandline_get` gave.
///
/// # Safety
/// `value` and `value_length` are what `strandline_get` gave, or `value` is null; each only once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_free(value: *mut u8, value_length: usize) {
    if !value.is_null() {
        // SAFETY: it was made of a boxed slice of this length.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(value, value_length)) });
    }
}

fn writer<'a, 'p>(running: &Running<'a, 'p>) -> Result<&'a Tx<'p>, Error> {
    running.tx.ok_or(Error::ReadOnly)
}

fn put<'p>(
    running: &Running<'_, 'p>,
    name: &str,
    map: Option<Map<'p>>,
    key: &Vec<u8>,
    value: &Vec<u8>,
) -> Result<StrandlineStatus, Error> {
    let tx = writer(running)?;
    let map = match map {
        Some(map) => map,
        None => {
            let map = OrderedMap::new(tx)?;
            running.maps.insert(tx, &name.to_owned(), &map)?;
            map
        }
    };
    map.insert(tx, key, value)?;
    Ok(STRANDLINE_OK)
}

fn get<'p>(
    running: &Running<'_, 'p>,
    map: Option<Map<'p>>,
    key: &[u8],
    found: &mut Option<Vec<u8>>,
) -> Result<StrandlineStatus, Error> {
    *found = map.map(|map| map.get(running.view, key)).transpose()?.flatten();
    Ok(if found.is_some() { STRANDLINE_OK } else { STRANDLINE_NOT_FOUND })
}

fn remove<'p>(
    running: &Running<'_, 'p>,
    map: Option<Map<'p>>,
    key: &[u8],
) -> Result<StrandlineStatus, Error> {
    let tx = writer(running)?;
    let removed = map.map(|map| map.remove(tx, key)).transpose()?.flatten();
    Ok(if removed.is_some() { STRANDLINE_OK } else { STRANDLINE_NOT_FOUND })
}

fn scan<'p>(
    running: &Running<'_, 'p>,
    map: Option<Map<'p>>,
    from: Option<&[u8]>,
    backwards: bool,
    mut visit: impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<StrandlineStatus, Error> {
    let Some(map) = map else { return Ok(STRANDLINE_OK) };
    let edge = from.map_or(Bound::Unbounded, Bound::Included);
    let bounds = if backwards { (Bound::Unbounded, edge) } else { (edge, Bound::Unbounded) };
    let mut pairs = map.range::<[u8], _>(running.view, bounds);
    while let Some(pair) = if backwards { pairs.next_back() } else { pairs.next() } {
        let (key, value) = pair?;
        if !visit(&key, &value) {
            break;
        }
    }
    Ok(STRANDLINE_OK)
}
