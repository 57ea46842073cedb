//! Backups of files, restoring them, and the names that new pools may have.

use std::fs::Permissions;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use strandline_core::file::{
    OldFiles, backup_files, check, checksums_path, inspect, log_path, make_checksums, restore,
};
use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::scheme::Schemes;
use strandline_core::sync::SyncParameters;
use strandline_core::{Domain, Error, Options, Pool, Read, Runner, Transaction};
use tempfile::TempDir;

fn options(domain: Domain) -> Options {
    Options {
        geometry: Geometry { size: 4 << 20, logs: 4, log_bytes: 16 << 10, chunk_bytes: 16 << 10 },
        domain,
        sync: SyncParameters { ring_blocks: 64, initial_ring_blocks: 64, ..SyncParameters::default() },
        lock_bits: 12,
        ..Options::default()
    }
}

/// Makes root 0 refer to a new block that has `value`.
fn set(pool: &Pool, value: u64) {
    let mut worker = pool.worker().unwrap();
    let write = worker.run(|tx| {
        let block = tx.alloc(64)?;
        tx.write(block, value)?;
        tx.write(tx.root(0), block.offset())
    });
    write.unwrap();
}

/// Opens the pool, closes it, and returns its value.
fn value(path: &Path, domain: Domain) -> u64 {
    let pool = Pool::open(path, &options(domain)).unwrap_or_else(|error| panic!("{error}"));
    let mut worker = pool.worker().unwrap();
    let value = worker.view(|tx| {
        let block = PersistentAddress::new(tx.read(tx.root(0))?);
        tx.read(block)
    });
    drop(worker);
    let value = value.unwrap();
    pool.close().unwrap();
    value
}

/// Creates a pool that has `value`. It is not closed if `killed`.
fn create(path: &Path, domain: Domain, value: u64, killed: bool) {
    let pool = Pool::create(path, &options(domain)).unwrap();
    set(&pool, value);
    if killed {
        // The pool is dropped while a worker exists, so it is not closed.
        let worker = pool.worker().unwrap();
        drop(pool);
        drop(worker);
    } else {
        pool.close().unwrap();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn replaced(path: &Path) -> PathBuf {
    path.with_extension("replaced")
}

const DOMAINS: [Domain; 2] = [Domain::Sync, Domain::Process];

#[test]
fn a_backup_of_files_changes_nothing_of_them() {
    for (domain, killed, sums) in DOMAINS.iter().flat_map(|&domain| {
        [(domain, false, false), (domain, true, false), (domain, false, domain == Domain::Sync)]
    }) {
        let folder = TempDir::new().unwrap();
        let (path, copies) = (folder.path().join("pool"), TempDir::new().unwrap());
        create(&path, domain, 7, killed);
        if sums {
            make_checksums(&path).unwrap();
        }
        let files = names(folder.path());
        let before: Vec<_> =
            files.iter().map(|name| std::fs::read(folder.path().join(name)).unwrap()).collect();
        let copy = copies.path().join("copy");
        let report = backup_files(&path, &copy, Schemes::default()).unwrap();
        assert_eq!(report.replayed, u64::from(killed), "{domain:?}");
        let after: Vec<_> =
            files.iter().map(|name| std::fs::read(folder.path().join(name)).unwrap()).collect();
        assert!(names(folder.path()) == files && after == before, "{domain:?}");
        let expected: &[&str] = if sums { &["copy", "copy.sums"] } else { &["copy"] };
        assert_eq!(names(copies.path()), expected);
        assert_eq!(check(&copy, Schemes::default()).unwrap().damage, [""; 0]);
        for domain in DOMAINS.into_iter().filter(|&domain| !sums || domain == Domain::Sync) {
            assert_eq!(value(&copy, domain), 7);
        }
        assert!(matches!(backup_files(&path, &copy, Schemes::default()), Err(Error::Io { .. })));
        assert_eq!(value(&path, domain), 7);
    }
}

#[test]
fn a_backup_of_files_beside_a_writer_is_refused() {
    let folder = TempDir::new().unwrap();
    let (path, copy) = (folder.path().join("pool"), folder.path().join("copy"));
    let pool = Pool::create(&path, &options(Domain::Sync)).unwrap();
    assert!(matches!(backup_files(&path, &copy, Schemes::default()), Err(Error::Locked { .. })));
    pool.close().unwrap();
    let reader = Pool::open_read_only(&path, &options(Domain::Sync)).unwrap();
    backup_files(&path, &copy, Schemes::default()).unwrap();
    drop(reader);
    assert!(matches!(restore(&path, &path, OldFiles::Keep, Schemes::default()), Err(Error::Parameter(_))));
}

#[test]
fn a_backup_takes_a_pools_place() {
    for (domain, killed, old_files) in DOMAINS.into_iter().flat_map(|domain| {
        [OldFiles::Keep, OldFiles::Remove]
            .into_iter()
            .flat_map(move |old| [(domain, false, old), (domain, true, old)])
    }) {
        let folder = TempDir::new().unwrap();
        let (path, backup) = (folder.path().join("pool"), folder.path().join("backup"));
        create(&path, domain, 1, false);
        backup_files(&path, &backup, Schemes::default()).unwrap();
        let pool = Pool::open(&path, &options(domain)).unwrap();
        set(&pool, 2);
        assert!(matches!(restore(&backup, &path, old_files, Schemes::default()), Err(Error::Locked { .. })));
        if killed {
            let worker = pool.worker().unwrap();
            drop(pool);
            drop(worker);
        } else {
            pool.close().unwrap();
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let report = restore(&backup, &path, old_files, Schemes::default()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert!(!log_path(&path).exists());
        assert_eq!(value(&path, domain), 1);
        if old_files == OldFiles::Keep {
            assert_eq!(report.kept[0], replaced(&path).canonicalize().unwrap());
            // The replaced files are a pool that opens.
            assert_eq!(value(&replaced(&path), domain), 2);
            let refused = restore(&backup, &path, old_files, Schemes::default()).unwrap_err();
            assert!(refused.to_string().contains("earlier restore"), "{refused}");
        } else {
            assert!(report.kept.is_empty() && !replaced(&path).exists());
            restore(&backup, &path, old_files, Schemes::default()).unwrap();
        }
        assert!(names(folder.path()).iter().all(|name| !name.ends_with(".new")));
        // A restore to a path without a pool.
        let new = folder.path().join("new");
        restore(&backup, &new, old_files, Schemes::default()).unwrap();
        assert_eq!(value(&new, domain), 1);
    }
}

#[test]
fn checksums_are_restored_with_their_pool() {
    let folder = TempDir::new().unwrap();
    let (path, backup) = (folder.path().join("pool"), folder.path().join("backup"));
    create(&path, Domain::Sync, 1, false);
    make_checksums(&path).unwrap();
    backup_files(&path, &backup, Schemes::default()).unwrap();
    let pool = Pool::open(&path, &options(Domain::Sync)).unwrap();
    set(&pool, 2);
    pool.close().unwrap();
    restore(&backup, &path, OldFiles::Keep, Schemes::default()).unwrap();
    assert!(checksums_path(&path).exists());
    assert_eq!(check(&path, Schemes::default()).unwrap().damage, [""; 0]);
    assert_eq!(check(replaced(&path), Schemes::default()).unwrap().damage, [""; 0]);
    // A backup whose checksums do not fit replaces nothing.
    let pool = Pool::open_read_only(&backup, &options(Domain::Sync)).unwrap();
    let block = pool.worker().unwrap().view(|tx| tx.read(tx.root(0))).unwrap();
    drop(pool);
    let file = std::fs::File::options().write(true).open(&backup).unwrap();
    file.write_all_at(&[1; 8], block + 8).unwrap();
    for kept in [replaced(&path), log_path(&replaced(&path)), checksums_path(&replaced(&path))] {
        let _ = std::fs::remove_file(kept);
    }
    let before = std::fs::read(&path).unwrap();
    let refused = restore(&backup, &path, OldFiles::Keep, Schemes::default()).unwrap_err().to_string();
    assert!(refused.contains("is not what was written there") && refused.contains("backup"), "{refused}");
    assert!(std::fs::read(&path).unwrap() == before && !replaced(&path).exists());
    std::fs::write(&backup, b"no pool").unwrap();
    assert!(restore(&backup, &path, OldFiles::Remove, Schemes::default()).is_err());
    assert_eq!(value(&path, Domain::Sync), 1);
}

/// The advice in the error for a log without a header helps with a pool that was closed, and with one that was not.
#[test]
fn a_log_that_is_no_log_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    for killed in [false, true] {
        let path = folder.path().join(killed.to_string());
        create(&path, Domain::Sync, 5, killed);
        let log = log_path(&path);
        let own = std::fs::read(&log).unwrap();
        std::fs::write(&log, b"no log").unwrap();
        let refused = Pool::open(&path, &options(Domain::Sync)).err().unwrap().to_string();
        assert!(refused.contains("closed cleanly it needs no log: move this one away"), "{refused}");
        assert!(refused.contains("otherwise put the pool's own log back"), "{refused}");
        std::fs::remove_file(&log).unwrap();
        if killed {
            std::fs::write(&log, own).unwrap();
        }
        assert_eq!(value(&path, Domain::Sync), 5);
    }
}

/// A backup that was copied over the pool's file, beside the log of the pool that it replaced.
#[test]
fn a_backup_that_was_copied_over_a_pool_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    let (path, backup) = (folder.path().join("pool"), folder.path().join("backup"));
    let sync = options(Domain::Sync);
    create(&path, Domain::Sync, 1, false);
    backup_files(&path, &backup, Schemes::default()).unwrap();
    let pool = Pool::open(&path, &sync).unwrap();
    set(&pool, 2);
    pool.close().unwrap();
    std::fs::copy(&backup, &path).unwrap();
    let refused = Pool::open(&path, &sync).err().unwrap().to_string();
    assert!(
        refused.contains("needs no log") && refused.contains("strandline pool restore BACKUP"),
        "{refused}"
    );
    assert!(!refused.contains("put the pool's own log back"), "{refused}");
    restore(&backup, &path, OldFiles::Remove, Schemes::default()).unwrap();
    assert_eq!(value(&path, Domain::Sync), 1);
    // Removing the log helps as well.
    std::fs::copy(&backup, &path).unwrap();
    std::fs::remove_file(log_path(&path)).unwrap();
    assert_eq!(value(&path, Domain::Sync), 1);

    // A pool that was not closed needs its own log.
    let killed = folder.path().join("killed");
    create(&killed, Domain::Sync, 5, true);
    std::fs::rename(log_path(&killed), folder.path().join("kept")).unwrap();
    let refused = Pool::open(&killed, &sync).err().unwrap().to_string();
    assert!(refused.contains("needs its own log: put that back"), "{refused}");
    std::fs::copy(log_path(&path), log_path(&killed)).unwrap();
    let refused = Pool::open(&killed, &sync).err().unwrap().to_string();
    assert!(refused.contains("needs its own log: put that back"), "{refused}");
    std::fs::rename(folder.path().join("kept"), log_path(&killed)).unwrap();
    assert_eq!(value(&killed, Domain::Sync), 5);
}

#[test]
fn a_name_that_another_pool_needs_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    create(&path, Domain::Sync, 3, false);
    for name in ["x.db.sums", "x.db.log", ".log", "other.sums"] {
        let taken = folder.path().join(name);
        for domain in DOMAINS {
            let refused = Pool::create(&taken, &options(domain)).err().unwrap();
            assert!(matches!(refused, Error::Parameter(_)), "{name}: {refused}");
        }
        let pool = Pool::open(&path, &options(Domain::Sync)).unwrap();
        let refused = pool.backup(&taken).unwrap_err();
        assert!(matches!(refused, Error::Parameter(_)), "{name}: {refused}");
        pool.close().unwrap();
        assert!(matches!(backup_files(&path, &taken, Schemes::default()), Err(Error::Parameter(_))));
        assert!(matches!(
            restore(&path, &taken, OldFiles::Keep, Schemes::default()),
            Err(Error::Parameter(_))
        ));
    }
    assert_eq!(names(folder.path()), ["x.db", "x.db.log"]);
    assert_eq!(value(&path, Domain::Sync), 3);
}

/// Names up to the length at which the log and the checksums still have valid names.
#[test]
fn long_names_work() {
    let folder = TempDir::new().unwrap();
    for length in (236..=250).step_by(2) {
        let path = folder.path().join("n".repeat(length));
        let mut sync = options(Domain::Sync);
        sync.sync.checksums = length % 4 == 0;
        let pool = Pool::create(&path, &sync).unwrap();
        set(&pool, 4);
        pool.close().unwrap();
        let backup = folder.path().join("b".repeat(length));
        backup_files(&path, &backup, Schemes::default()).unwrap();
        restore(&backup, &path, OldFiles::Remove, Schemes::default()).unwrap();
        assert_eq!(value(&path, Domain::Sync), 4);
        for path in [&path, &backup] {
            let _ = (std::fs::remove_file(log_path(path)), std::fs::remove_file(checksums_path(path)));
            std::fs::remove_file(path).unwrap();
        }
        assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
    }
    for (length, domain) in [(251, Domain::Sync), (255, Domain::Process)] {
        let refused = Pool::create(folder.path().join("n".repeat(length)), &options(domain)).err().unwrap();
        assert!(refused.to_string().contains("at most 250"), "{refused}");
    }
    assert!(names(folder.path()).is_empty());
}

#[test]
fn opening_removes_what_killed_processes_left() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    create(&path, Domain::Process, 1, false);
    let left = [".pool.abcdefgh.new", ".pool.log.abcdefgh.new", ".pool.sums.abcdefgh.new"];
    let leave = || left.iter().for_each(|name| std::fs::write(folder.path().join(name), b"left").unwrap());
    leave();
    drop(Pool::open_read_only(&path, &options(Domain::Process)).unwrap());
    assert_eq!(names(folder.path()).len(), 4, "a reader changes nothing");
    assert_eq!(value(&path, Domain::Process), 1);
    assert_eq!(names(folder.path()), ["pool"]);
    std::fs::remove_file(&path).unwrap();
    leave();
    create(&path, Domain::Process, 1, false);
    assert_eq!(names(folder.path()), ["pool"], "so does a creation, in any domain");
}

/// A pool must not become larger when it is opened, compacted and closed.
#[test]
fn a_compaction_never_makes_a_pool_larger() {
    for (created, compacted) in DOMAINS.iter().flat_map(|&one| DOMAINS.map(|other| (one, other))) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("pool");
        let large = |domain| Options {
            geometry: Geometry { size: 64 << 20, logs: 4, log_bytes: 1 << 20, ..Geometry::default() },
            ..options(domain)
        };
        let pool = Pool::create(&path, &large(created)).unwrap();
        set(&pool, 1);
        pool.close().unwrap();
        let taken = || inspect(&path, Schemes::default()).unwrap().space.disk_bytes;
        for _ in 0..3 {
            let before = taken();
            let pool = Pool::open(&path, &large(compacted)).unwrap();
            pool.compact().unwrap();
            pool.close().unwrap();
            assert!(taken() <= before, "{created:?}, {compacted:?}: {} of {before}", taken());
        }
        assert_eq!(value(&path, created), 1);
        assert_eq!(check(&path, Schemes::default()).unwrap().damage, [""; 0]);
    }
}
