//! Flushes of real files that fail once, as when the system reports a lost write-back. This program defines `fsync` and `fdatasync` itself for that.

use std::collections::HashMap;
use std::ffi::{c_int, c_long};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use strandline_core::file::{checksums_path, log_path};
use strandline_core::layout::Geometry;
use strandline_core::sync::SyncParameters;
use strandline_core::{Domain, Error, Options, Pool, Read, Runner, Transaction};

/// For each file, by device and inode: the number of flushes that succeed before one fails.
static FAILING: Mutex<Option<HashMap<(u64, u64), u32>>> = Mutex::new(None);

fn identity(path: &Path) -> (u64, u64) {
    let about = std::fs::metadata(path).unwrap();
    (about.dev(), about.ino())
}

fn fail_a_flush_of(path: &Path) {
    FAILING.lock().unwrap().get_or_insert_default().insert(identity(path), 0);
}

/// Returns whether a flush of the file has failed since [`fail_a_flush_of`].
fn has_failed(path: &Path) -> bool {
    !FAILING.lock().unwrap().get_or_insert_default().contains_key(&identity(path))
}

fn flush(call: c_long, descriptor: c_int) -> c_int {
    // SAFETY: this is a structure of numbers, for which zeros are valid values.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure can be written for the whole call.
    let is_known = unsafe { libc::fstat(descriptor, &mut about) } == 0;
    let mut failing = FAILING.lock().unwrap();
    if is_known && failing.as_mut().is_some_and(|files| files.remove(&(about.st_dev, about.st_ino)).is_some())
    {
        // SAFETY: the pointer is to the thread's own error number.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    drop(failing);
    // SAFETY: the call takes a descriptor.
    unsafe { libc::syscall(call, descriptor) as c_int }
}

// SAFETY: stands in for the library's function, and does what that does.
#[unsafe(no_mangle)]
extern "C" fn fsync(descriptor: c_int) -> c_int {
    flush(libc::SYS_fsync, descriptor)
}

// SAFETY: stands in for the library's function, and does what that does.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(descriptor: c_int) -> c_int {
    flush(libc::SYS_fdatasync, descriptor)
}

fn options() -> Options {
    Options {
        domain: Domain::Sync,
        geometry: Geometry { size: 64 << 20, logs: 4, log_bytes: 1 << 16, chunk_bytes: 1 << 14 },
        sync: SyncParameters {
            ring_blocks: 1024,
            initial_ring_blocks: 4,
            checksums: true,
            ..SyncParameters::default()
        },
        lock_bits: 10,
        ..Options::default()
    }
}

#[track_caller]
fn is_poisoned<T>(answer: Result<T, Error>, cause: &str) {
    match answer {
        Err(Error::Poisoned { why, .. }) => assert!(why.contains(cause), "{why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it goes on"),
    }
}

/// Makes a flush of the file that `which` returns fail during `body`. `body` and all later operations must find the pool poisoned.
fn fails_for_good(
    which: impl Fn(&Path) -> std::path::PathBuf,
    cause: &str,
    body: impl Fn(&Pool) -> Result<(), Error>,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, &options()).unwrap();
    let mut worker = pool.worker().unwrap();
    worker.run(|tx| tx.write(tx.root(0), 7)).unwrap();
    fail_a_flush_of(&which(&path));
    is_poisoned(body(&pool), cause);
    assert!(has_failed(&which(&path)));
    // The system has reported the failure; further flushes would succeed.
    is_poisoned(worker.run(|tx| tx.write(tx.root(0), 8)), cause);
    is_poisoned(worker.view(|tx| tx.read(tx.root(0))), cause);
    is_poisoned(worker.run_later(|tx| tx.write(tx.root(0), 8)), cause);
    is_poisoned(pool.checkpoint(), cause);
    is_poisoned(pool.backup(folder.path().join("backup")), cause);
    assert!(!folder.path().join("backup").exists());
    drop(worker);
    assert!(pool.close().is_err());
    let pool = Pool::open(&path, &options()).unwrap();
    assert_eq!(pool.worker().unwrap().view(|tx| tx.read(tx.root(0))).unwrap(), 7);
}

#[test]
fn a_heap_that_grows() {
    fails_for_good(Path::to_owned, "flushing the heap: Input/output error", |pool| {
        pool.worker().unwrap().run(|tx| tx.alloc(8 << 20)).map(drop)
    });
}

#[test]
fn a_heap_that_a_checkpoint_writes() {
    fails_for_good(Path::to_owned, "flushing the heap: Input/output error", |pool| {
        pool.worker().unwrap().run(|tx| tx.write(tx.root(1), 1))?;
        pool.checkpoint()
    });
}

#[test]
fn a_ring_that_is_enlarged() {
    fails_for_good(log_path, "flushing the log: Input/output error", |pool| {
        let mut worker = pool.worker().unwrap();
        let block = worker.run(|tx| tx.alloc(64 << 10))?;
        // The transaction needs more blocks than the ring has.
        worker.run(|tx| (0..2000).try_for_each(|word| tx.write(block.word(2 * word), word)))
    });
}

#[test]
fn checksums() {
    fails_for_good(checksums_path, "flushing the heap: Input/output error", |pool| {
        let mut worker = pool.worker().unwrap();
        let block = worker.run(|tx| tx.alloc(64 << 10))?;
        worker.run(|tx| tx.write(block, 1))?;
        pool.checkpoint()
    });
}

/// The error of a full disk does not count as a failed flush.
#[test]
fn a_file_that_cannot_grow_leaves_the_pool_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let mut worker = pool.worker().unwrap();
    assert!(matches!(worker.run(|tx| tx.alloc(1 << 30)), Err(Error::Full { .. })));
    worker.run(|tx| tx.write(tx.root(0), 8)).unwrap();
    pool.checkpoint().unwrap();
}

/// If a flush of the backup's own files fails, there is no backup, and the pool works on.
#[test]
fn a_backup_that_cannot_be_flushed_harms_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    pool.worker().unwrap().run(|tx| tx.write(tx.root(0), 8)).unwrap();
    // The name of the backup's file is not known in advance, so a flush of the folder fails instead.
    fail_a_flush_of(folder.path());
    assert!(matches!(pool.backup(folder.path().join("backup")), Err(Error::Io { .. })));
    pool.worker().unwrap().run(|tx| tx.write(tx.root(0), 9)).unwrap();
    pool.checkpoint().unwrap();
    pool.close().unwrap();
}
