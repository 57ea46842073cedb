//! RocksDB through its C interface, if it is installed: `--features rocksdb`, Debian's `librocksdb-dev`.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::null_mut;

use crate::engines::{Engine, Values, Worker, in_batches, touch};

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_set_create_if_missing(options: *mut c_void, value: c_uchar);
    fn rocksdb_options_increase_parallelism(options: *mut c_void, threads: c_int);
    fn rocksdb_open(options: *const c_void, name: *const c_char, error: *mut *mut c_char) -> *mut c_void;
    fn rocksdb_writeoptions_create() -> *mut c_void;
    fn rocksdb_writeoptions_set_sync(options: *mut c_void, value: c_uchar);
    fn rocksdb_readoptions_create() -> *mut c_void;
    fn rocksdb_put(
        database: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_get_pinned(
        database: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_bytes: usize,
        error: *mut *mut c_char,
    ) -> *mut c_void;
    fn rocksdb_pinnableslice_value(slice: *const c_void, bytes: *mut usize) -> *const u8;
    fn rocksdb_pinnableslice_destroy(slice: *mut c_void);
    fn rocksdb_writebatch_create() -> *mut c_void;
    fn rocksdb_writebatch_put(
        batch: *mut c_void,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
    );
    fn rocksdb_writebatch_destroy(batch: *mut c_void);
    fn rocksdb_write(
        database: *mut c_void,
        options: *const c_void,
        batch: *mut c_void,
        error: *mut *mut c_char,
    );
    fn rocksdb_create_iterator(database: *mut c_void, options: *const c_void) -> *mut c_void;
    fn rocksdb_iter_seek_to_first(iterator: *mut c_void);
    fn rocksdb_iter_valid(iterator: *const c_void) -> c_uchar;
    fn rocksdb_iter_next(iterator: *mut c_void);
    fn rocksdb_iter_value(iterator: *const c_void, bytes: *mut usize) -> *const u8;
    fn rocksdb_iter_destroy(iterator: *mut c_void);
    fn rocksdb_close(database: *mut c_void);
}

/// Calls a function of the interface, which reports an error through its last parameter.
fn call<T>(what: &str, body: impl FnOnce(*mut *mut c_char) -> T) -> T {
    let mut error = null_mut();
    let result = body(&mut error);
    if !error.is_null() {
        // SAFETY: the library returns a string that ends with a zero.
        panic!("{what}: {:?}", unsafe { CStr::from_ptr(error) });
    }
    result
}

/// A database with the default options, and with flushed writes.
pub struct RocksDb {
    database: *mut c_void,
    durable: *mut c_void,
    read: *mut c_void,
}

// SAFETY: any threads may use a database and its options, which are not changed any more.
unsafe impl Send for RocksDb {}
// SAFETY: any threads may use a database and its options, which are not changed any more.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    /// Creates a database in a folder of its own in `folder`.
    pub fn new(folder: &Path) -> Self {
        let name =
            CString::new(folder.join("rocksdb").to_str().expect("a path in UTF-8")).expect("no zero in it");
        // SAFETY: the calls follow the C interface. The options are used until the database is closed.
        unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_increase_parallelism(options, 2);
            let database = call("open RocksDB", |error| rocksdb_open(options, name.as_ptr(), error));
            let durable = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(durable, 1);
            Self { database, durable, read: rocksdb_readoptions_create() }
        }
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: the database was opened, is closed once, and no worker outlives it.
        unsafe { rocksdb_close(self.database) }
    }
}

impl Engine for RocksDb {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values, batch: usize) {
        in_batches(keys, batch, |batch| {
            // SAFETY: the batch exists until it is destroyed, and keys and values are copied into it.
            unsafe {
                let writes = rocksdb_writebatch_create();
                for key in batch {
                    let (value, key) = (values.of(*key), key.to_be_bytes());
                    rocksdb_writebatch_put(writes, key.as_ptr(), key.len(), value.as_ptr(), value.len());
                }
                call("load", |error| rocksdb_write(self.database, self.durable, writes, error));
                rocksdb_writebatch_destroy(writes);
            }
        });
    }
    fn scan(&self) -> Option<u64> {
        let mut count = 0;
        // SAFETY: an iterator reads the database as it was when the iterator was created, and a value exists until the iterator moves.
        unsafe {
            let iterator = rocksdb_create_iterator(self.database, self.read);
            rocksdb_iter_seek_to_first(iterator);
            while rocksdb_iter_valid(iterator) != 0 {
                let mut bytes = 0;
                let value = rocksdb_iter_value(iterator, &mut bytes);
                touch(std::slice::from_raw_parts(value, bytes));
                count += 1;
                rocksdb_iter_next(iterator);
            }
            rocksdb_iter_destroy(iterator);
        }
        Some(count)
    }
}

impl Worker for &RocksDb {
    fn put(&mut self, key: u64, value: &[u8]) {
        let key = key.to_be_bytes();
        // SAFETY: the database is open, and key and value exist during the call.
        call("put", |error| unsafe {
            let (key, value) = ((key.as_ptr(), key.len()), (value.as_ptr(), value.len()));
            rocksdb_put(self.database, self.durable, key.0, key.1, value.0, value.1, error);
        });
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        let key = key.to_be_bytes();
        // SAFETY: the database is open, the key exists during the call, and the slice's bytes exist until it is destroyed.
        unsafe {
            let slice = call("get", |error| {
                rocksdb_get_pinned(self.database, self.read, key.as_ptr(), key.len(), error)
            });
            if slice.is_null() {
                return None;
            }
            let mut bytes = 0;
            let value = rocksdb_pinnableslice_value(slice, &mut bytes);
            let length = touch(std::slice::from_raw_parts(value, bytes));
            rocksdb_pinnableslice_destroy(slice);
            Some(length)
        }
    }
}
