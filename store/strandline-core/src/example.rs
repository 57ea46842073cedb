//! The set-up of the examples in the documentation, and the pool in a recorder's memory that tests of several crates use.

mod test_pool;

use std::cell::RefCell;
use std::path::PathBuf;
pub use std::rc::Rc;

use tempfile::TempDir;

pub use test_pool::{SMALL, TestPool};

pub use crate::engine::Worker;
pub use crate::layout::{Geometry, Layout, SharedLayout, View};
pub use crate::memory::recorder::Recorder;
pub use crate::memory::{
    Device, DeviceFile, Hosted, Memory, Native, Operation, PersistentAddress, Space, Step, VolatileAddress,
};
use crate::sync::{FileDevice, SyncParameters};
pub use crate::{Concurrency, Domain, Options, Pool, Read, Runner, Transaction};

thread_local! {
    /// Folders that are deleted when the example ends.
    static FOLDERS: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// Returns a path without a file, in a folder that is deleted when the example ends.
pub fn path() -> PathBuf {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let path = folder.path().join("pool");
    FOLDERS.with_borrow_mut(|folders| folders.push(folder));
    path
}

/// Returns a path as [`path`] does, and the options of a small pool with two logs, in the domain `Process`.
pub fn path_and_options() -> (PathBuf, Options) {
    let geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 15, chunk_bytes: 1 << 12 };
    (path(), Options { geometry, domain: Domain::Process, lock_bits: 10, ..Options::default() })
}

/// Returns the path and options of [`path_and_options`], but in the `Sync` domain, with a log of 64 blocks.
pub fn durable_path_and_options() -> (PathBuf, Options) {
    let (path, options) = path_and_options();
    let sync = SyncParameters {
        ring_blocks: 64,
        initial_ring_blocks: 64,
        dirty_pages: 64,
        staging_blocks: 2,
        ..SyncParameters::default()
    };
    (path, Options { domain: Domain::Sync, sync, ..options })
}

/// Creates a pool with the options of [`path_and_options`].
pub fn pool() -> Pool {
    let (path, options) = path_and_options();
    Pool::create(path, &options).expect("a pool can be made")
}

/// Creates a pool, and returns it and one of its workers.
pub fn pool_and_worker() -> (Pool, Worker) {
    let pool = pool();
    let worker = pool.worker().expect("its logs are free");
    (pool, worker)
}

/// Creates a pool, and returns a worker and the address of the first root.
pub fn worker_and_root() -> (Worker, PersistentAddress) {
    let (pool, worker) = pool_and_worker();
    (worker, pool.layout().root(0))
}

/// Returns the sizes of a small pool, and its layout.
pub fn small_layout() -> (Geometry, Layout) {
    let geometry = Geometry { size: 1 << 18, logs: 2, log_bytes: 1 << 12, chunk_bytes: 1 << 12 };
    (geometry, Layout::new(geometry).expect("the sizes are possible"))
}

/// Returns a small pool with two logs in a recorder's memory.
pub fn recorded() -> (Rc<Recorder>, View<Hosted>, Layout) {
    let (geometry, layout) = small_layout();
    let shared = SharedLayout::new(&layout, 10, 0);
    let words = vec![0; geometry.size as usize / 8];
    let recorder = Rc::new(Recorder::new(words, shared.bytes(), 0, 1, None));
    (recorder.clone(), View { memory: Hosted::new(recorder, 0), layout, shared }, layout)
}

/// Returns a recorder's memory with 512 words of a pool, and as many volatile ones.
pub fn recorded_words() -> (Rc<Recorder>, Hosted) {
    let recorder = Rc::new(Recorder::new(vec![0; 512], 4096, 0, 1, None));
    (recorder.clone(), Hosted::new(recorder, 0))
}

/// Returns a memory that begins with a log of 64 records.
pub fn log_of(records: &[[u64; 2]]) -> Hosted {
    let mut words = records.concat();
    words.resize(2 * 64, 0);
    Hosted::new(Rc::new(Recorder::new(words, 8, 0, 1, None)), 0)
}

/// Returns a device of two empty files.
pub fn device() -> FileDevice {
    let open = || {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create_new(true).open(path()).expect("a file can be made")
    };
    FileDevice::new(open(), open(), true)
}
