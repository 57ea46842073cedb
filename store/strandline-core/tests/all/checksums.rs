//! Checksums of pages at rest: they match after every operation on a pool, and changes by other programs are found.

use std::fs::{File, copy};
use std::os::unix::fs::FileExt;
use std::path::Path;

use strandline_core::file::{check, checksums_path, log_path, make_checksums, repair};
use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::sync::SyncParameters;
use strandline_core::{Domain, Error, Options, Pool, Read, Runner, Transaction};
use tempfile::TempDir;

fn options() -> Options {
    Options {
        domain: Domain::Sync,
        geometry: Geometry { size: 64 << 20, logs: 2, log_bytes: 64 << 10, chunk_bytes: 64 << 10 },
        sync: SyncParameters { dirty_pages: 32, checksums: true, ..SyncParameters::default() },
        lock_bits: 10,
        ..Options::default()
    }
}

#[track_caller]
fn is_whole(path: &Path) {
    assert_eq!(check(path, Default::default()).unwrap().damage, [""; 0]);
}

/// Allocates objects of many sizes, and frees some of them again.
fn fill(pool: &Pool, seed: u64) {
    let mut worker = pool.worker().unwrap();
    let mut blocks: Vec<PersistentAddress> = Vec::new();
    for number in 0..200 {
        let bytes = [40, 500, 3000, 100_000][(number + seed) as usize % 4];
        let block = worker.run(|tx| {
            let block = tx.alloc(bytes)?;
            (0..bytes / 8)
                .step_by(7)
                .try_for_each(|word| tx.write(block.word(word), number + seed + word))?;
            Ok(block)
        });
        blocks.push(block.unwrap());
        if number % 3 == 0 {
            let block = blocks.swap_remove((number * 7) as usize % blocks.len());
            worker.run(|tx| tx.free(block)).unwrap();
        }
    }
    let last = blocks.pop().unwrap();
    worker.run(|tx| tx.write(tx.root(1), last.offset())).unwrap();
    for block in blocks {
        worker.run(|tx| tx.free(block)).unwrap();
    }
}

/// Changes a bit of the block that root 1 refers to, in the file.
fn flip(path: &Path) {
    let pool = Pool::open_read_only(path, &options()).unwrap();
    let at = pool.worker().unwrap().view(|tx| tx.read(tx.root(1))).unwrap();
    drop(pool);
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn what_a_pool_goes_through_its_checksums_go_through() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, &options()).unwrap();
    fill(&pool, 1);
    pool.checkpoint().unwrap();
    fill(&pool, 2);
    // The files as a killed process leaves them.
    let killed = folder.path().join("killed");
    for (from, to) in [
        (path.clone(), killed.clone()),
        (log_path(&path), log_path(&killed)),
        (checksums_path(&path), checksums_path(&killed)),
    ] {
        copy(from, to).unwrap();
    }
    is_whole(&killed);
    let again = Pool::open(&killed, &options()).unwrap();
    fill(&again, 3);
    again.close().unwrap();
    is_whole(&killed);
    // A copy made while the pool is in use.
    let backup = folder.path().join("backup");
    pool.backup(&backup).unwrap();
    assert!(checksums_path(&backup).exists());
    is_whole(&backup);
    // A transaction that is larger than the log.
    let large = pool.worker().unwrap().run(|tx| {
        let block = tx.alloc(8 << 20)?;
        (0..1 << 20).try_for_each(|word| tx.write(block.word(word), word))?;
        Ok(block)
    });
    pool.worker().unwrap().run(|tx| tx.free(large.as_ref().copied().unwrap())).unwrap();
    assert!(pool.compact().unwrap().punched_bytes > 8 << 20);
    fill(&pool, 4);
    pool.compact().unwrap();
    // Closing the pool truncates the file.
    pool.close().unwrap();
    is_whole(&path);
    // The file grows again.
    let options = Options { sync: SyncParameters { checksums: false, ..options().sync }, ..options() };
    let pool = Pool::open(&path, &options).unwrap();
    fill(&pool, 5);
    pool.close().unwrap();
    is_whole(&path);
    flip(&path);
    assert_eq!(
        check(&path, Default::default()).unwrap().damage.len(),
        1,
        "they are kept without being asked for"
    );
}

#[test]
fn what_somebody_else_has_changed_is_found() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, &options()).unwrap();
    fill(&pool, 1);
    pool.close().unwrap();
    is_whole(&path);
    flip(&path);
    let damage = check(&path, Default::default()).unwrap().damage;
    assert!(damage.len() == 1 && damage[0].starts_with("4096 bytes at 0x"), "{damage:?}");
    // A repair must not accept the changed contents.
    assert!(matches!(repair(&path, Default::default()), Err(Error::Irreparable { .. })));
    let pool = Pool::open(&path, &options()).unwrap();
    let backup = folder.path().join("backup");
    let refused = pool.backup(&backup).unwrap_err().to_string();
    assert!(refused.contains("is not what was written there"), "{refused}");
    assert!(!backup.exists() && !checksums_path(&backup).exists());
    pool.close().unwrap();
    flip(&path);
    is_whole(&path);
    // The next write to the page gives it a new checksum of its present contents.
    Pool::open(&path, &options()).unwrap().backup(&backup).unwrap();
}

#[test]
fn a_repair_keeps_them() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, &options()).unwrap();
    fill(&pool, 1);
    pool.close().unwrap();
    File::options().write(true).open(&path).unwrap().write_at(b"????", 0).unwrap();
    let report = repair(&path, Default::default()).unwrap();
    assert_eq!((report.repaired.len(), report.kept.len()), (1, 3));
    is_whole(&path);
    flip(&path);
    assert_eq!(check(&path, Default::default()).unwrap().damage.len(), 1);
}

#[test]
fn they_are_made_for_a_pool_that_has_none_and_belong_to_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    let without = Options { sync: SyncParameters { checksums: false, ..options().sync }, ..options() };
    let pool = Pool::create(&path, &without).unwrap();
    fill(&pool, 1);
    assert!(!checksums_path(&path).exists());
    // The files of a pool that is not closed.
    let killed = folder.path().join("killed");
    copy(&path, &killed).unwrap();
    copy(log_path(&path), log_path(&killed)).unwrap();
    assert!(matches!(make_checksums(&killed), Err(Error::Parameter(_))));
    Pool::open(&killed, &options()).unwrap().close().unwrap();
    assert!(checksums_path(&killed).exists());
    is_whole(&killed);
    pool.close().unwrap();
    make_checksums(&path).unwrap();
    make_checksums(&path).unwrap();
    is_whole(&path);
    flip(&path);
    assert_eq!(check(&path, Default::default()).unwrap().damage.len(), 1);
    // Another domain would not keep the checksums up to date.
    let process = Options { domain: Domain::Process, ..options() };
    assert!(matches!(Pool::open(&path, &process), Err(Error::ChecksumFile { .. })));
    assert!(Pool::open_read_only(&path, &process).is_ok());
    // The checksums of another pool.
    let other = folder.path().join("other");
    Pool::create(&other, &options()).unwrap().close().unwrap();
    copy(checksums_path(&other), checksums_path(&path)).unwrap();
    let refused = Pool::open(&path, &options()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("of another pool"), "{refused}");
    assert!(check(&path, Default::default()).unwrap().damage[0].contains("of another pool"));
    std::fs::remove_file(checksums_path(&path)).unwrap();
    Pool::open(&path, &process).unwrap().close().unwrap();
    // Checksums that are left of a deleted pool do not become those of a new pool.
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(log_path(&path)).unwrap();
    copy(checksums_path(&other), checksums_path(&path)).unwrap();
    Pool::create(&path, &without).unwrap().close().unwrap();
    assert!(!checksums_path(&path).exists());
    is_whole(&path);
}
