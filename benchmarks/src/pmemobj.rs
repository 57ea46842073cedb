//! A hash table on libpmemobj, if that is installed: `--features pmemobj`, Debian's `libpmemobj-dev`.
//!
//! The library does not isolate transactions; a lock of this program does, as in the library's own examples. On a file that is not persistent memory
//! it makes ranges durable with `msync`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::RwLock;

use crate::engines::{Engine, Values, Worker, in_batches, touch};

#[repr(C)]
#[derive(Clone, Copy)]
struct Oid {
    pool: u64,
    offset: u64,
}

#[link(name = "pmemobj")]
unsafe extern "C" {
    fn pmemobj_create(path: *const c_char, layout: *const c_char, size: usize, mode: u32) -> *mut c_void;
    fn pmemobj_close(pool: *mut c_void);
    fn pmemobj_root(pool: *mut c_void, size: usize) -> Oid;
    fn pmemobj_direct(oid: Oid) -> *mut c_void;
    fn pmemobj_tx_begin(pool: *mut c_void, environment: *mut c_void, ...) -> c_int;
    fn pmemobj_tx_add_range_direct(at: *const c_void, bytes: usize) -> c_int;
    fn pmemobj_tx_alloc(bytes: usize, kind: u64) -> Oid;
    fn pmemobj_tx_commit();
    fn pmemobj_tx_end() -> c_int;
}

const BUCKETS: u64 = 1 << 20;

/// An entry of a chain. Its value follows it.
#[repr(C)]
struct Entry {
    next: Oid,
    key: u64,
    bytes: u64,
}

/// A table of chains in a pool.
pub struct PmemObj {
    pool: *mut c_void,
    buckets: *mut Oid,
    lock: RwLock<()>,
}

// SAFETY: any thread may use the pool, and `lock` guards the entries.
unsafe impl Send for PmemObj {}
// SAFETY: any thread may use the pool, and `lock` guards the entries.
unsafe impl Sync for PmemObj {}

impl PmemObj {
    /// Creates a pool in a file in `folder`.
    pub fn new(folder: &Path) -> Self {
        let path =
            CString::new(folder.join("pmemobj").to_str().expect("a path in UTF-8")).expect("no zero in it");
        // SAFETY: the calls follow the C interface. The root is zeroed and has the requested size.
        unsafe {
            let pool = pmemobj_create(path.as_ptr(), c"benchmark".as_ptr(), 1 << 30, 0o600);
            assert!(!pool.is_null(), "create a pool of libpmemobj: {}", std::io::Error::last_os_error());
            let root = pmemobj_root(pool, BUCKETS as usize * size_of::<Oid>());
            Self { pool, buckets: pmemobj_direct(root).cast(), lock: RwLock::default() }
        }
    }

    fn bucket(&self, key: u64) -> *mut Oid {
        // SAFETY: the index is below the number of buckets.
        unsafe { self.buckets.add((key.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 44) as usize) }
    }

    /// # Safety
    /// The caller must hold the lock.
    unsafe fn find(&self, key: u64) -> *mut Entry {
        // SAFETY: a bucket is null or refers to entries of this pool.
        unsafe {
            let mut at = *self.bucket(key);
            while at.offset != 0 {
                let entry: *mut Entry = pmemobj_direct(at).cast();
                if (*entry).key == key {
                    return entry;
                }
                at = (*entry).next;
            }
        }
        null_mut()
    }

    /// # Safety
    /// The caller must hold the lock for writing, in a transaction that has begun.
    unsafe fn insert(&self, key: u64, value: &[u8]) {
        // SAFETY: an entry has `bytes` bytes after it. Overwritten bytes are first added to the transaction's undo log.
        unsafe {
            let mut entry = self.find(key);
            if entry.is_null() || (*entry).bytes != value.len() as u64 {
                let bucket = self.bucket(key);
                let oid = pmemobj_tx_alloc(size_of::<Entry>() + value.len(), 1);
                assert_ne!(oid.offset, 0, "the pool is full");
                entry = pmemobj_direct(oid).cast();
                entry.write(Entry { next: *bucket, key, bytes: value.len() as u64 });
                assert_eq!(pmemobj_tx_add_range_direct(bucket.cast(), size_of::<Oid>()), 0);
                *bucket = oid;
            } else {
                assert_eq!(pmemobj_tx_add_range_direct(entry.add(1).cast(), value.len()), 0);
            }
            entry.add(1).cast::<u8>().copy_from(value.as_ptr(), value.len());
        }
    }

    fn transaction(&self, body: impl FnOnce()) {
        let _guard = self.lock.write().expect("no thread panicked");
        // SAFETY: no transaction runs on this thread. The parameters end with 0, for none.
        unsafe {
            assert_eq!(pmemobj_tx_begin(self.pool, null_mut(), 0 as c_int), 0, "begin");
            body();
            pmemobj_tx_commit();
            assert_eq!(pmemobj_tx_end(), 0, "commit");
        }
    }
}

impl Drop for PmemObj {
    fn drop(&mut self) {
        // SAFETY: the pool was opened, and is closed once.
        unsafe { pmemobj_close(self.pool) }
    }
}

impl Engine for PmemObj {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values, batch: usize) {
        in_batches(keys, batch, |batch| {
            // SAFETY: this runs in a transaction, which holds the lock.
            self.transaction(|| batch.iter().for_each(|&key| unsafe { self.insert(key, values.of(key)) }));
        });
    }
}

impl Worker for &PmemObj {
    fn put(&mut self, key: u64, value: &[u8]) {
        // SAFETY: this runs in a transaction, which holds the lock.
        self.transaction(|| unsafe { self.insert(key, value) });
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        let _guard = self.lock.read().expect("no thread panicked");
        // SAFETY: the lock is held, and an entry has `bytes` bytes after it.
        unsafe {
            let entry = self.find(key);
            if entry.is_null() {
                return None;
            }
            Some(touch(std::slice::from_raw_parts(entry.add(1).cast(), (*entry).bytes as usize)))
        }
    }
}
