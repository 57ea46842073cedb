//! Pools in files: the errors of opening, the guarantees of closing, and many threads on one pool.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use strandline_core::engine::{Control, Setup, SingleWriter, Stm, Worker};
use strandline_core::file::inspect;
use strandline_core::layout::Geometry;
use strandline_core::memory::Native;
use strandline_core::scheme::Schemes;
use strandline_core::{Abort, Domain, Error, Options, Pool, Read, Runner, Transaction};
use tempfile::TempDir;

const GEOMETRY: Geometry = Geometry { size: 4 << 20, logs: 4, log_bytes: 16 << 10, chunk_bytes: 16 << 10 };

fn options() -> Options {
    Options {
        geometry: GEOMETRY,
        layout_name: "test".into(),
        domain: Domain::Process,
        lock_bits: 12,
        ..Options::default()
    }
}

fn new_pool(folder: &TempDir) -> (PathBuf, Pool) {
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, &options()).unwrap();
    (path, pool)
}

fn set(pool: &Pool, value: u64) {
    pool.worker().unwrap().run(|tx| tx.write(tx.root(0), value)).unwrap();
}

fn get(pool: &Pool) -> u64 {
    pool.worker().unwrap().view(|tx| tx.read(tx.root(0))).unwrap()
}

/// Opens the pool, which must fail without a change to the file.
fn refused(path: &Path, options: &Options) -> Error {
    let before = std::fs::read(path).unwrap();
    let error = Pool::open(path, options).err().expect("the pool must be refused");
    assert!(std::fs::read(path).unwrap() == before, "{error}: the file was changed");
    error
}

fn patch(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

#[test]
fn what_was_committed_is_there_after_closing_and_after_a_kill() {
    let folder = TempDir::new().unwrap();
    let (path, pool) = new_pool(&folder);
    set(&pool, 7);
    pool.close().unwrap();
    let pool = Pool::open(&path, &options()).unwrap();
    assert_eq!((get(&pool), pool.recovery().report.replayed), (7, 0));
    set(&pool, 8);
    // A copy made now has the files that a killed process leaves. In addition, the home of the word is cleared.
    let killed = folder.path().join("killed");
    std::fs::copy(&path, &killed).unwrap();
    patch(&killed, pool.layout().root(0).offset(), &[0; 8]);
    drop(pool);
    let pool = Pool::open(&killed, &options()).unwrap();
    assert_eq!((get(&pool), pool.recovery().report.replayed), (8, 1));
}

#[test]
fn damaged_truncated_foreign_and_newer_pools_are_told_apart() {
    let folder = TempDir::new().unwrap();
    let (path, pool) = new_pool(&folder);
    pool.close().unwrap();
    let copy = |name: &str| {
        let to = folder.path().join(name);
        std::fs::copy(&path, &to).unwrap();
        to
    };
    let damaged = copy("damaged");
    patch(&damaged, 33, b"X");
    assert!(matches!(refused(&damaged, &options()), Error::DamagedHeader { .. }));
    let truncated = copy("truncated");
    for domain in [Domain::Process, Domain::Sync] {
        let length = std::fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&truncated).unwrap().set_len(length - 4096).unwrap();
        assert!(matches!(refused(&truncated, &Options { domain, ..options() }), Error::Truncated { .. }));
    }
    File::options().write(true).open(&truncated).unwrap().set_len(100).unwrap();
    assert!(matches!(refused(&truncated, &options()), Error::Truncated { .. }));
    let foreign = copy("foreign");
    patch(&foreign, 0, b"SQLite");
    assert!(matches!(refused(&foreign, &options()), Error::NotAPool { .. }));
    File::create(&foreign).unwrap();
    assert!(matches!(refused(&foreign, &options()), Error::NotAPool { .. }));
    let newer = copy("newer");
    patch(&newer, 8, &9u64.to_le_bytes());
    assert!(matches!(refused(&newer, &options()), Error::NewerFormat { .. }));
    let layout = Options { layout_name: "other".into(), ..options() };
    assert!(matches!(refused(&path, &layout), Error::WrongLayout { .. }));
    let directory = copy("directory");
    patch(&directory, 4 * 4096, &4096u64.to_le_bytes());
    assert!(matches!(refused(&directory, &options()), Error::Damaged { .. }));
    for domain in [Domain::Process, Domain::Sync] {
        let watermark = copy("watermark");
        patch(&watermark, 3 * 4096 + 64, &(u64::MAX - 1).to_le_bytes());
        assert!(matches!(refused(&watermark, &Options { domain, ..options() }), Error::Damaged { .. }));
    }
    let state = copy("state");
    patch(&state, 3 * 4096, &77u64.to_le_bytes());
    assert!(matches!(refused(&state, &options()), Error::Damaged { .. }));
    assert!(matches!(Pool::open(folder.path().join("absent"), &options()), Err(Error::Io { .. })));
    assert!(matches!(Pool::create(&path, &options()), Err(Error::Io { .. })), "never over an existing file");
    Pool::open(&path, &options()).unwrap();
}

#[test]
fn one_writer_or_several_readers() {
    let folder = TempDir::new().unwrap();
    let (path, pool) = new_pool(&folder);
    set(&pool, 5);
    assert!(matches!(refused(&path, &options()), Error::Locked { held: "writing", .. }));
    assert!(matches!(Pool::open_read_only(&path, &options()), Err(Error::Locked { .. })));
    // The lock outlives a pool that is dropped while a worker exists.
    let worker = pool.worker().unwrap();
    drop(pool);
    assert!(matches!(refused(&path, &options()), Error::Locked { .. }));
    drop(worker);
    let before = std::fs::read(&path).unwrap();
    let readers: Vec<_> = (0..2).map(|_| Pool::open_read_only(&path, &options()).unwrap()).collect();
    assert_eq!(readers.iter().map(get).collect::<Vec<_>>(), [5, 5]);
    let mut worker = readers[0].worker().unwrap();
    assert!(matches!(worker.run(|tx| tx.write(tx.root(0), 6)), Err(Error::ReadOnly)));
    assert!(matches!(refused(&path, &options()), Error::Locked { held: "reading", .. }));
    drop(worker);
    drop(readers);
    assert!(std::fs::read(&path).unwrap() == before, "readers write nothing");
    Pool::open(&path, &options()).unwrap();
}

#[test]
fn an_unclean_pool_opens_only_under_its_domain() {
    let folder = TempDir::new().unwrap();
    let (path, pool) = new_pool(&folder);
    set(&pool, 5);
    let killed = folder.path().join("killed");
    std::fs::copy(&path, &killed).unwrap();
    pool.close().unwrap();
    let other = if Domain::FlushOnFail.is_supported() { Domain::FlushOnFail } else { Domain::Sync };
    let other = Options { domain: other, assume_persistent: true, ..options() };
    assert!(matches!(refused(&killed, &other), Error::WrongDomain { .. }));
    let pool = Pool::open(&path, &other).unwrap();
    assert_eq!(get(&pool), 5);
    pool.close().unwrap();
    assert_eq!(inspect(&path, Schemes::default()).unwrap().in_use, None);
    let info = inspect(&killed, Schemes::default()).unwrap();
    assert_eq!((info.in_use, info.roots[0], info.open), (Some("process"), 5, false));
    let strict = Options { domain: Domain::Flush, ..options() };
    match refused(&path, &strict) {
        Error::NotPersistentMemory { .. } => assert!(Domain::Flush.is_supported()),
        Error::UnsupportedDomain("flush") => assert!(!Domain::Flush.is_supported()),
        other => panic!("{other}"),
    }
}

#[test]
fn a_pool_moves() {
    // Position independent: the same file mapped twice has different addresses, and works at both.
    let folder = TempDir::new().unwrap();
    let (path, pool) = new_pool(&folder);
    let at = pool
        .worker()
        .unwrap()
        .run(|tx| {
            let at = tx.alloc(64)?;
            tx.write(at, 99)?;
            tx.write(tx.root(0), at.offset())?;
            Ok(at)
        })
        .unwrap();
    pool.close().unwrap();
    let moved = folder.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    let _elsewhere = vec![0u8; 64 << 20];
    let pool = Pool::open(&moved, &options()).unwrap();
    assert_eq!(pool.worker().unwrap().view(|tx| tx.read(at)).unwrap(), 99);
}

#[test]
fn workers_beyond_the_logs_get_an_error_and_logs_are_leased_on() {
    let folder = TempDir::new().unwrap();
    let (_, pool) = new_pool(&folder);
    let workers: Vec<_> = (0..4).map(|_| pool.worker().unwrap()).collect();
    assert!(matches!(pool.worker(), Err(Error::NoFreeLog { logs: 4 })));
    drop(workers);
    for value in 0..2000 {
        // Each worker continues in the log where the previous one ended. The log fills and restarts meanwhile.
        set(&pool, value);
        assert_eq!(get(&pool), value);
    }
    let pool_with_worker = pool.worker().unwrap();
    assert!(matches!(pool.close(), Err(Error::Parameter(_))));
    drop(pool_with_worker);
}

#[test]
fn a_full_pool_is_an_error_and_changes_nothing() {
    fill(Setup::from(Stm));
    fill(Setup::from(SingleWriter));
}

fn fill<C: Control<Memory = Native>>(setup: Setup<C>) {
    let folder = TempDir::new().unwrap();
    let pool = setup.create(folder.path().join("pool"), &options()).unwrap();
    let mut worker = pool.worker().unwrap();
    let mut blocks = Vec::new();
    let error = loop {
        match worker.run(|tx| tx.alloc(1000)) {
            Ok(block) => blocks.push(block),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full { bytes: 1000 }));
    let full = pool.usage().unwrap();
    assert_eq!((full.objects, full.free_chunks), (blocks.len() as u64, 0));
    assert!(matches!(worker.run(|tx| tx.alloc(100 << 10)), Err(Error::Full { .. })));
    assert_eq!(pool.usage().unwrap(), full);
    // A transaction that frees and then fails has freed nothing.
    let failed = worker.run(|tx| {
        tx.free(blocks[0])?;
        tx.alloc(100 << 10)
    });
    assert!(matches!(failed, Err(Error::Full { .. })));
    assert_eq!(pool.usage().unwrap(), full);
    for block in blocks.drain(..) {
        worker.run(|tx| tx.free(block)).unwrap();
        assert!(matches!(worker.run(|tx| tx.free(block)), Err(Error::InvalidFree(_))));
    }
    assert_eq!(pool.usage().unwrap().objects, 0);
    // Empty chunks can be used for large objects again.
    let large = worker.run(|tx| tx.alloc(3 << 20)).unwrap();
    assert!(matches!(worker.run(|tx| tx.free(large.byte(16 << 10))), Err(Error::InvalidFree(_))));
    worker.run(|tx| tx.free(large)).unwrap();
}

#[test]
fn wild_addresses_are_errors() {
    let folder = TempDir::new().unwrap();
    let (_, pool) = new_pool(&folder);
    let mut worker = pool.worker().unwrap();
    for offset in [0, 8, 4096, 3, pool.layout().data.offset() + 4, GEOMETRY.size, u64::MAX - 7, 1 << 63] {
        let at = strandline_core::memory::PersistentAddress::new(offset);
        assert!(matches!(worker.run(|tx| tx.read(at)), Err(Error::InvalidAddress(_))), "{offset:#x}");
        assert!(matches!(worker.run(|tx| tx.write(at, 1)), Err(Error::InvalidAddress(_))), "{offset:#x}");
        let mut words = [0; 4];
        let wild = worker.run(|tx| tx.read_range(at, &mut words));
        assert!(matches!(wild, Err(Error::InvalidAddress(_))), "{offset:#x}");
        assert!(matches!(worker.run(|tx| tx.free(at)), Err(Error::InvalidFree(_))), "{offset:#x}");
    }
    let length = std::fs::metadata(pool.path()).unwrap().len();
    let last = strandline_core::memory::PersistentAddress::new(length - 8);
    worker.run(|tx| tx.write(last, 1)).unwrap();
    assert!(matches!(worker.run(|tx| tx.write_range(last, &[1, 2])), Err(Error::InvalidAddress(_))));
}

#[test]
fn a_panic_in_a_transaction_rolls_it_back() {
    let folder = TempDir::new().unwrap();
    let (_, pool) = new_pool(&folder);
    let mut worker = pool.worker().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        worker.run(|tx| -> Result<(), Abort> {
            tx.write(tx.root(0), 1)?;
            panic!("in the closure")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(get(&pool), 0, "another worker is not locked out");
    worker.run(|tx| tx.write(tx.root(0), 2)).unwrap();
    assert_eq!(get(&pool), 2);
}

#[test]
fn a_swallowed_conflict_does_not_commit() {
    let folder = TempDir::new().unwrap();
    let (_, pool) = new_pool(&folder);
    let mut worker = pool.worker().unwrap();
    let result = worker.run(|tx| {
        tx.write(tx.root(0), 1)?;
        let _ = tx.read(strandline_core::memory::PersistentAddress::new(3));
        Ok(())
    });
    assert!(matches!(result, Err(Error::InvalidAddress(3))));
    assert_eq!(get(&pool), 0);
}

fn sync_options() -> Options {
    let sync = strandline_core::sync::SyncParameters {
        ring_blocks: 64,
        initial_ring_blocks: 64,
        dirty_pages: 32,
        ..Default::default()
    };
    Options { domain: Domain::Sync, sync, ..options() }
}

#[test]
fn a_sync_pool_is_two_files_that_belong_together() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    let log = strandline_core::file::log_path(&path);
    let pool = Pool::create(&path, &sync_options()).unwrap();
    assert!(matches!(refused(&path, &sync_options()), Error::Locked { .. }));
    set(&pool, 5);
    // The files that a killed process leaves: the heap file of the last checkpoint, and the log.
    let killed = folder.path().join("killed");
    std::fs::copy(&path, &killed).unwrap();
    assert!(matches!(refused(&killed, &sync_options()), Error::LogFile { .. }), "no log");
    assert!(matches!(refused(&killed, &options()), Error::WrongDomain { .. }));
    std::fs::copy(&log, strandline_core::file::log_path(&killed)).unwrap();
    let before = std::fs::read(&killed).unwrap();
    let reader = Pool::open_read_only(&killed, &sync_options()).unwrap();
    assert_eq!((get(&reader), reader.recovery().replayed()), (5, 1));
    assert_eq!(inspect(&killed, Schemes::default()).unwrap().roots[0], 5);
    drop(reader);
    assert!(std::fs::read(&killed).unwrap() == before, "a reader writes nothing");
    let recovered = Pool::open(&killed, &sync_options()).unwrap();
    assert_eq!((get(&recovered), recovered.recovery().replayed()), (5, 1));
    set(&recovered, 6);
    recovered.close().unwrap();
    pool.close().unwrap();
    // The log of another pool.
    let other = folder.path().join("other");
    let unused = Pool::create(&other, &sync_options()).unwrap();
    std::fs::copy(strandline_core::file::log_path(&other), folder.path().join("unused")).unwrap();
    set(&unused, 7);
    unused.close().unwrap();
    std::fs::copy(strandline_core::file::log_path(&other), &log).unwrap();
    let Error::LogFile { path: shown, problem, .. } = refused(&path, &sync_options()) else {
        panic!("another pool's log")
    };
    assert!(shown.ends_with("pool.log") && problem.ends_with(path.to_str().unwrap()), "{shown} {problem}");
    assert!(matches!(Pool::open_read_only(&path, &sync_options()), Err(Error::LogFile { .. })));
    // A log that was never used has nothing in it.
    std::fs::copy(folder.path().join("unused"), &log).unwrap();
    assert_eq!(get(&Pool::open_read_only(&path, &sync_options()).unwrap()), 5);
    let pool = Pool::open(&path, &sync_options()).unwrap();
    assert_eq!((get(&pool), pool.recovery().log_remade), (5, true));
    pool.close().unwrap();
    std::fs::write(&log, b"not a log").unwrap();
    assert!(matches!(refused(&path, &sync_options()), Error::LogFile { .. }));
    // A creation overwrites neither an existing pool nor an existing log.
    assert!(matches!(Pool::create(&path, &sync_options()), Err(Error::Io { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Pool::create(&path, &sync_options()), Err(Error::LogFile { .. })));
    assert!(!path.exists() && std::fs::read(&log).unwrap() == b"not a log");
    // A cleanly closed pool is complete in one file, and opens under any domain, and with a new log.
    let pool = Pool::open(&killed, &options()).unwrap();
    assert_eq!(get(&pool), 6);
    set(&pool, 7);
    pool.close().unwrap();
    std::fs::remove_file(strandline_core::file::log_path(&killed)).unwrap();
    let pool = Pool::open(&killed, &sync_options()).unwrap();
    assert_eq!(get(&pool), 7);
    set(&pool, 8);
    pool.close().unwrap();
    let pool = Pool::open(&killed, &options()).unwrap();
    assert_eq!(get(&pool), 8);
}

#[test]
fn a_sync_pool_checkpoints_while_threads_work() {
    checkpoint_while_threads_work(Setup::from(Stm));
    checkpoint_while_threads_work(Setup::from(SingleWriter));
}

fn checkpoint_while_threads_work<C: Control<Memory = Native>>(setup: Setup<C>) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    let pool = setup.create(&path, &sync_options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                let mut worker = pool.worker().unwrap();
                let at = pool.layout().root(0).byte(512 + 64 * thread);
                // Each commit has forty records, so the ring of 64 blocks fills many times.
                for round in 1..=300u64 {
                    worker.run(|tx| (0..40).try_for_each(|_| tx.write(at, round))).unwrap();
                    assert_eq!(worker.view(|tx| tx.read(at)).unwrap(), round);
                }
            });
        }
    });
    pool.close().unwrap();
    let pool = setup.open(&path, &sync_options()).unwrap();
    assert_eq!(pool.recovery().replayed(), 0, "a closed pool has nothing to replay");
    for thread in 0..4 {
        let at = pool.layout().root(0).byte(512 + 64 * thread);
        assert_eq!(pool.worker().unwrap().view(|tx| tx.read(at)).unwrap(), 300);
    }
    // A worker that outlives its pool gets an error, and loses nothing that was acknowledged.
    let mut worker = pool.worker().unwrap();
    drop(pool);
    assert!(matches!(worker.run(|tx| tx.write(tx.root(0), 1)), Err(Error::Poisoned { .. })));
    drop(worker);
    Pool::open(&path, &sync_options()).unwrap();
}

/// The bank of TinySTM's tests: transfers keep the sum, also in readers and in a copy.
#[test]
fn transfers_keep_the_sum() {
    transfer(Setup::from(Stm));
    transfer(Setup::from(SingleWriter));
}

fn transfer<C: Control<Memory = Native>>(setup: Setup<C>) {
    const ACCOUNTS: u64 = 24;
    let folder = TempDir::new().unwrap();
    let pool = setup.create(folder.path().join("pool"), &options()).unwrap();
    let base = pool.layout().root(0).byte(256);
    let copy = |round: u32| folder.path().join(format!("copy-{round}"));
    let sum = |worker: &mut Worker<C>| -> u64 {
        worker.view(|tx| (0..ACCOUNTS).try_fold(0, |sum, i| Ok(sum + tx.read(base.word(i))?))).unwrap()
    };
    let start = |tx: &mut _| (0..ACCOUNTS).try_for_each(|i| Transaction::write(tx, base.word(i), 1000));
    pool.worker().unwrap().run(start).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let pool = &pool;
            scope.spawn(move || {
                let mut worker = pool.worker().unwrap();
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..5000 {
                    let (from, to) = (base.word(random.u64(..ACCOUNTS)), base.word(random.u64(..ACCOUNTS)));
                    let amount = random.u64(..10);
                    let transfer = worker.run(|tx| {
                        let balance = tx.read(from)?;
                        let Some(rest) = balance.checked_sub(amount) else { return Err(Abort::User) };
                        tx.write(from, rest)?;
                        let balance = tx.read(to)?;
                        tx.write(to, balance + amount)
                    });
                    assert!(matches!(transfer, Ok(()) | Err(Error::Aborted)), "{transfer:?}");
                }
            });
        }
        scope.spawn(|| {
            let mut worker = pool.worker().unwrap();
            for round in 0..3000 {
                assert_eq!(sum(&mut worker), ACCOUNTS * 1000);
                if round % 1000 == 0 {
                    pool.backup(copy(round)).unwrap();
                }
            }
        });
    });
    assert_eq!(pool.usage().unwrap().objects, 0);
    for round in [0, 1000, 2000] {
        let restored = setup.open(copy(round), &options()).unwrap();
        assert_eq!(sum(&mut restored.worker().unwrap()), ACCOUNTS * 1000);
    }
}

#[test]
fn a_pool_is_found_by_its_one_name() {
    let folder = TempDir::new().unwrap();
    let (path, link) = (folder.path().join("pool"), folder.path().join("link"));
    let dangling = folder.path().join("dangling");
    std::os::unix::fs::symlink("pool", &dangling).unwrap();
    // A pool can be created through a link to a file that does not exist yet.
    let pool = Pool::create(&dangling, &sync_options()).unwrap();
    set(&pool, 1);
    pool.close().unwrap();
    assert!(path.is_file() && strandline_core::file::log_path(&path).is_file());
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let pool = Pool::open(&link, &sync_options()).unwrap();
    assert_eq!(pool.path(), path.canonicalize().unwrap());
    set(&pool, 2);
    // The files that a killed process leaves are found by either name.
    let killed = TempDir::new().unwrap();
    for file in [&path, &strandline_core::file::log_path(&path)] {
        std::fs::copy(file, killed.path().join(file.file_name().unwrap())).unwrap();
    }
    std::os::unix::fs::symlink("pool", killed.path().join("link")).unwrap();
    for name in ["link", "pool"] {
        let pool = Pool::open(killed.path().join(name), &sync_options()).unwrap();
        assert_eq!(get(&pool), 2, "{name}");
    }
    pool.close().unwrap();
    let hard = folder.path().join("hard");
    std::fs::hard_link(&path, &hard).unwrap();
    for name in [&path, &hard, &link] {
        assert!(matches!(refused(name, &sync_options()), Error::SeveralLinks { links: 2, .. }));
        assert!(matches!(refused(name, &options()), Error::SeveralLinks { .. }));
    }
    std::fs::remove_file(&hard).unwrap();
    assert_eq!(get(&Pool::open(&link, &sync_options()).unwrap()), 2);
}

#[test]
fn a_heap_or_a_log_that_is_put_back_without_the_other_is_refused() {
    let folder = TempDir::new().unwrap();
    let (path, log) = (folder.path().join("pool"), folder.path().join("pool.log"));
    let keep = |name: &str| {
        std::fs::copy(&path, folder.path().join(name)).unwrap();
        std::fs::copy(&log, folder.path().join(name.to_owned() + ".log")).unwrap();
    };
    let put_back = |from: &str, to: &Path| {
        std::fs::copy(folder.path().join(from), to).unwrap();
    };
    // Lives of the pool. All but the first end in a kill.
    let life = |values: std::ops::Range<u64>, name: &str| {
        let pool = Pool::open(&path, &sync_options()).unwrap();
        values.for_each(|value| set(&pool, value));
        keep(name);
        drop(pool);
        put_back(name, &path);
        put_back(&(name.to_owned() + ".log"), &log);
    };
    let pool = Pool::create(&path, &sync_options()).unwrap();
    set(&pool, 1);
    pool.close().unwrap();
    keep("clean");
    life(10..20, "second");
    life(30..33, "third");
    let is_refused = || {
        let error = refused(&path, &sync_options());
        assert!(matches!(error, Error::LogFile { .. }), "{error}");
        assert!(error.to_string().contains("older than the other"), "{error}");
    };
    for old in ["clean", "second"] {
        put_back(old, &path);
        is_refused();
        put_back("third", &path);
        put_back(&(old.to_owned() + ".log"), &log);
        is_refused();
        // Put back together, both files are valid.
        put_back(old, &path);
        let value = get(&Pool::open(&path, &sync_options()).unwrap());
        assert_eq!(value, if old == "clean" { 1 } else { 19 });
        put_back("third.log", &log);
    }
    put_back("third", &path);
    assert_eq!(get(&Pool::open(&path, &sync_options()).unwrap()), 32);
    // A clean heap needs no log.
    put_back("clean", &path);
    std::fs::remove_file(&log).unwrap();
    let pool = Pool::open(&path, &sync_options()).unwrap();
    assert_eq!((get(&pool), pool.recovery().log_remade), (1, true));
}

#[test]
fn a_file_that_is_deleted_or_cut_short_ends_the_pool() {
    for cut_short in [false, true] {
        for heap in [true, false] {
            let folder = TempDir::new().unwrap();
            let path = folder.path().join("pool");
            let pool = Pool::create(&path, &sync_options()).unwrap();
            set(&pool, 1);
            let file = if heap { path.clone() } else { strandline_core::file::log_path(&path) };
            if cut_short {
                let length = file.metadata().unwrap().len();
                File::options().write(true).open(&file).unwrap().set_len(length - 4096).unwrap();
            } else {
                std::fs::remove_file(&file).unwrap();
            }
            let mut worker = pool.worker().unwrap();
            // The check is made once in sixteen flushes.
            let error = (0..16).find_map(|value| worker.run(|tx| tx.write(tx.root(0), value)).err());
            let Some(Error::Poisoned { why, .. }) = error else { panic!("{error:?}") };
            assert!(why.contains("deleted or cut short"), "{why}");
            assert!(matches!(worker.run(|tx| tx.write(tx.root(0), 3)), Err(Error::Poisoned { .. })));
            drop(worker);
            assert!(matches!(pool.close(), Err(Error::Poisoned { .. })));
        }
    }
}

#[test]
fn a_mapped_file_that_is_deleted_ends_the_pool_at_the_next_bulk_persistence() {
    let domains = [Domain::Process, Domain::Flush, Domain::FlushOnFail];
    for domain in domains.into_iter().filter(|domain| domain.is_supported()) {
        let options = Options { domain, assume_persistent: true, ..options() };
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("pool");
        let pool = Pool::create(&path, &options).unwrap();
        let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
        worker.run(|tx| tx.write(tx.root(0), 1)).unwrap();
        std::fs::remove_file(&path).unwrap();
        // A log of 16 KB is full after some hundred transactions.
        let error = (0..1000).find_map(|value| worker.run(|tx| tx.write(tx.root(0), value)).err());
        assert!(matches!(&error, Some(Error::Poisoned { why, .. }) if why.contains("deleted")), "{error:?}");
        assert!(matches!(other.run(|tx| tx.write(tx.root(0), 3)), Err(Error::Poisoned { .. })));
        drop((worker, other));
        assert!(matches!(pool.close(), Err(Error::Poisoned { .. })));
    }
}

/// Stores past the cache can be read again, and are counted by lines. A log that restarts is evicted from the cache, and nothing is lost.
#[test]
fn what_goes_past_the_cache_is_there() {
    let domain = Domain::Flush;
    if !domain.is_supported() {
        return;
    }
    let options = Options { domain, assume_persistent: true, ..options() };
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, &options).unwrap();
    let mut worker = pool.worker().unwrap();
    for value in 0..2000 {
        let before = worker.statistics();
        worker.run(|tx| (0..5).try_for_each(|word| tx.write(tx.root(word % 3), value + word))).unwrap();
        let after = worker.statistics();
        let cost = after.total - after.bulk - (before.total - before.bulk);
        assert_eq!((cost.non_temporal_bytes, cost.lines_written_back, cost.fences), (64, 1, 1));
    }
    assert!(worker.statistics().log_restarts > 0);
    // The files as a killed process leaves them.
    drop(pool);
    drop(worker);
    let pool = Pool::open(&path, &options).unwrap();
    let words = pool
        .worker()
        .unwrap()
        .view(|tx| Ok([tx.read(tx.root(0))?, tx.read(tx.root(1))?, tx.read(tx.root(2))?]));
    assert_eq!(words.unwrap(), [2002, 2003, 2001]);
}

#[test]
fn all_files_of_a_pool_have_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let (path, copy) = (folder.path().join("pool"), folder.path().join("copy"));
    let log = strandline_core::file::log_path(&path);
    Pool::create(&path, &sync_options()).unwrap().close().unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), mode(&log));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::remove_file(&log).unwrap();
    let pool = Pool::open(&path, &sync_options()).unwrap();
    pool.backup(&copy).unwrap();
    drop(pool);
    Pool::open(&copy, &sync_options()).unwrap().close().unwrap();
    for file in [&log, &copy, &strandline_core::file::log_path(&copy)] {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
}

#[test]
fn impossible_options_are_refused() {
    let folder = TempDir::new().unwrap();
    let (path, pool) = new_pool(&folder);
    drop(pool);
    let options = Options { lock_bits: 64, ..options() };
    assert!(matches!(refused(&path, &options), Error::Parameter(_)));
    let new = folder.path().join("new");
    assert!(matches!(Pool::create(&new, &options), Err(Error::Parameter(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of it");
}

#[test]
fn errors_of_opening_name_the_file_and_who_has_it() {
    let folder = TempDir::new().unwrap();
    let (path, pool) = new_pool(&folder);
    let shown = path.canonicalize().unwrap().display().to_string();
    let error = refused(&path, &options()).to_string();
    assert!(error.contains(&shown) && error.contains("this process itself"), "{error}");
    pool.close().unwrap();
    for (offset, bytes) in [(3 * 4096, 77u64), (4 * 4096, 4096), (8, 1), (0, 5)] {
        let damaged = folder.path().join("damaged");
        std::fs::copy(&path, &damaged).unwrap();
        patch(&damaged, offset, &bytes.to_le_bytes());
        let shown = damaged.canonicalize().unwrap().display().to_string();
        let error = refused(&damaged, &options()).to_string();
        assert!(error.contains(&shown), "{error}");
    }
}
