//! SQLite on a pool: the ways to commit, crashes, several connections, misuse.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};
use strandline_core::Domain;
use strandline_core::error::Error;
use strandline_core::file::{Options, Pool};
use strandline_core::layout::Geometry;
use strandline_core::transaction::Runner;
use strandline_sqlite::{Commit, Lender, Pages, Vfs};

const WAYS: [Commit; 3] = [Commit::Atomic, Commit::Journal, Commit::Buffered];

fn options() -> Options {
    let geometry = Geometry { size: 40 << 20, logs: 4, log_bytes: 1 << 20, ..Geometry::default() };
    Options { geometry, domain: Domain::Process, ..Options::default() }
}

fn pool(folder: &Path) -> Pool {
    Pool::create(folder.join("pool"), &options()).unwrap()
}

fn is_sound(database: &Connection) -> bool {
    database.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap() == "ok"
}

#[test]
fn commits_and_rollbacks_take_the_way_that_was_chosen() {
    for way in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path());
        let vfs = Vfs::with_commit(pool.worker().unwrap(), 3, way).unwrap();
        assert_eq!(vfs.commits(), way, "the workspace's configuration builds SQLite with batches");
        let mut database = vfs.open("test").unwrap();
        database.execute_batch("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)").unwrap();
        for round in 0..20i64 {
            let transaction = database.transaction().unwrap();
            for k in 0..30i64 {
                let value = vec![round as u8; 40 * (k as usize % 7 + 1)];
                transaction
                    .execute("INSERT OR REPLACE INTO t VALUES (?1, ?2)", params![round + k, value])
                    .unwrap();
            }
            if round % 3 == 0 {
                transaction.rollback().unwrap();
            } else {
                transaction.commit().unwrap();
            }
        }
        assert!(is_sound(&database));
        let count: i64 = database.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 48, "keys 1 to 48; rounds 0, 3, ... 18 were rolled back");
        let statistics = vfs.statistics();
        match way {
            // SQLite uses the journal to fill an empty database.
            Commit::Atomic => {
                assert!(statistics.atomic_commits == 13 && statistics.journals == 1, "{statistics:?}")
            }
            Commit::Buffered => {
                assert!(statistics.atomic_commits >= 14 && statistics.journals == 0, "{statistics:?}")
            }
            Commit::Journal => {
                assert!(statistics.atomic_commits == 0 && statistics.journals >= 14, "{statistics:?}")
            }
        }
        database.execute_batch("DELETE FROM t; VACUUM").unwrap();
        assert!(is_sound(&database));
    }
}

#[test]
fn a_database_is_there_after_the_pool_was_closed_and_after_it_was_not() {
    for way in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        for round in 0..4i64 {
            let pool = if round == 0 { pool(folder.path()) } else { Pool::open(&path, &options()).unwrap() };
            let vfs = Vfs::with_commit(pool.worker().unwrap(), 0, way).unwrap();
            let database = vfs.open("test").unwrap();
            database.execute_batch("CREATE TABLE IF NOT EXISTS t (v)").unwrap();
            database.execute("INSERT INTO t VALUES (?1)", [round]).unwrap();
            let sum: i64 = database.query_row("SELECT sum(v) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(sum, (0..=round).sum());
            assert!(is_sound(&database));
            drop((database, vfs));
            if round % 2 == 0 {
                pool.close().unwrap();
            }
        }
    }
}

/// Stops the pool in the middle of a SQL transaction that has a journal. The next connection must roll it back.
#[test]
fn a_hot_journal_is_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(folder.path());
    let vfs = Vfs::with_commit(pool.worker().unwrap(), 0, Commit::Journal).unwrap();
    let database = vfs.open("test").unwrap();
    database.execute_batch("PRAGMA cache_size = 2; CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)").unwrap();
    for k in 0..200 {
        database.execute("INSERT INTO t VALUES (?1, zeroblob(900))", [k]).unwrap();
    }
    // The transaction changes more pages than the cache holds, so that some reach the file before the commit.
    database.execute_batch("BEGIN; UPDATE t SET v = randomblob(900)").unwrap();
    // This acts as a crash: the connection never ends its transaction.
    drop(vfs);
    std::mem::forget(database);
    let vfs = Vfs::new(pool.worker().unwrap(), 0).unwrap();
    let database = vfs.open("test").unwrap();
    let changed: i64 =
        database.query_row("SELECT count(*) FROM t WHERE v <> zeroblob(900)", [], |row| row.get(0)).unwrap();
    assert_eq!(changed, 0);
    assert!(is_sound(&database));
}

/// After an error that prevents a rollback, SQLite unlocks the file and leaves the journal. Nothing that the transaction wrote may be in the file.
#[test]
fn an_unlocked_file_with_a_hot_journal_has_nothing_of_the_transaction() {
    use rusqlite::ffi;
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(folder.path());
    let vfs = Vfs::with_commit(pool.worker().unwrap(), 0, Commit::Buffered).unwrap();
    let database = vfs.open("test").unwrap();
    database.execute_batch("PRAGMA cache_size = 2; CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)").unwrap();
    for k in 0..200 {
        database.execute("INSERT INTO t VALUES (?1, zeroblob(900))", [k]).unwrap();
    }
    database.execute_batch("BEGIN; UPDATE t SET v = randomblob(900)").unwrap();
    let mut file: *mut ffi::sqlite3_file = std::ptr::null_mut();
    // SAFETY: the connection is open, and SQLite stores a pointer for this operation.
    let found = unsafe {
        let place = (&raw mut file).cast();
        ffi::sqlite3_file_control(database.handle(), c"main".as_ptr(), ffi::SQLITE_FCNTL_FILE_POINTER, place)
    };
    assert_eq!(found, ffi::SQLITE_OK);
    // SAFETY: SQLite has this file open, and the function is from its table.
    let unlocked = unsafe { ((*(*file).pMethods).xUnlock.unwrap())(file, 0) };
    assert_eq!(unlocked, ffi::SQLITE_OK);
    // A connection of this VFS would roll back its journal. Another VFS does not have the journal.
    drop(vfs);
    std::mem::forget(database);
    let vfs = Vfs::with_commit(pool.worker().unwrap(), 0, Commit::Buffered).unwrap();
    let database = vfs.open("test").unwrap();
    let changed: i64 =
        database.query_row("SELECT count(*) FROM t WHERE v <> zeroblob(900)", [], |row| row.get(0)).unwrap();
    assert_eq!(changed, 0);
    assert!(is_sound(&database));
}

/// Checks the cases in which SQLite does not offer a commit as a batch and writes a journal.
#[test]
fn what_cannot_be_one_transaction_goes_by_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(folder.path());
    let vfs = Vfs::new(pool.worker().unwrap(), 0).unwrap();
    let database = vfs.open("test").unwrap();
    database.execute_batch("CREATE TABLE t (v BLOB)").unwrap();
    // A batch may be larger than the log of 1 MB. The only journal is that of the first commit.
    let before = vfs.statistics();
    database.execute("INSERT INTO t VALUES (randomblob(900000))", []).unwrap();
    let statistics = vfs.statistics();
    assert_eq!((statistics.refused_batches, statistics.journals), (0, 1), "{statistics:?}");
    assert_eq!(statistics.atomic_commits, before.atomic_commits + 1);
    // The row is larger than SQLite's cache.
    database.execute("INSERT INTO t VALUES (randomblob(3000000))", []).unwrap();
    assert_eq!((vfs.statistics().refused_batches, vfs.statistics().journals), (0, 2));
    // A transaction on two databases needs a super-journal.
    database.execute_batch("ATTACH 'other' AS other; CREATE TABLE other.u (v)").unwrap();
    let before = vfs.statistics();
    database.execute_batch("BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (2); COMMIT").unwrap();
    assert!(vfs.statistics().journals > before.journals);
    assert_eq!(vfs.statistics().atomic_commits, before.atomic_commits);
    assert!(is_sound(&database));
    let length: i64 = database.query_row("SELECT max(length(v)) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(length, 3_000_000);
}

#[test]
fn connections_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(folder.path());
    let vfs = Vfs::new(pool.worker().unwrap(), 0).unwrap();
    let setup = vfs.open("test").unwrap();
    setup.execute_batch("CREATE TABLE t (v); INSERT INTO t VALUES (0)").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let database = vfs.open("test").unwrap();
                database.busy_timeout(std::time::Duration::from_secs(600)).unwrap();
                for _ in 0..50 {
                    database.execute_batch("BEGIN IMMEDIATE; UPDATE t SET v = v + 1; COMMIT").unwrap();
                }
            });
        }
    });
    let sum: i64 = setup.query_row("SELECT v FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, 200);
    assert!(is_sound(&setup));
}

#[test]
fn bad_use_is_an_error() {
    for way in [Commit::Atomic, Commit::Buffered] {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path());
        assert!(matches!(Vfs::new(pool.worker().unwrap(), 8), Err(Error::Parameter(_))));
        let vfs = Vfs::with_commit(pool.worker().unwrap(), 0, way).unwrap();
        assert!(vfs.open_with("absent", OpenFlags::SQLITE_OPEN_READ_WRITE).is_err());
        let database = vfs.open("test").unwrap();
        database.execute_batch("CREATE TABLE t (v)").unwrap();
        // The row is larger than the heap. SQLite must report it, and the rest must remain.
        let full = database.execute("INSERT INTO t VALUES (randomblob(100000000))", []).unwrap_err();
        assert_eq!(full.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull), "{full}");
        assert!(matches!(vfs.take_error(), Some(Error::Full { .. })));
        assert!(is_sound(&database));
        drop(vfs);
        assert!(database.execute("INSERT INTO t VALUES (1)", []).is_err(), "its pool is gone");
    }
}

#[test]
fn a_runner_is_lent() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(folder.path());
    let mut worker = pool.worker().unwrap();
    let lender = Lender::new(&mut worker, 0, 256).unwrap();
    let mut database = None;
    for _ in 0..2 {
        let sql = "CREATE TABLE IF NOT EXISTS t (v); INSERT INTO t VALUES (1)";
        let work = || {
            database.get_or_insert_with(|| lender.vfs().open("test").unwrap()).execute_batch(sql).unwrap();
            Ok(())
        };
        // SAFETY: there is only one thread.
        unsafe { lender.lend(&mut worker, work) }.unwrap();
    }
    let database = database.unwrap();
    assert!(database.execute_batch("INSERT INTO t VALUES (1)").is_err(), "between two loans");
    // SAFETY: there is only one thread.
    let sum = unsafe {
        lender.lend(&mut worker, || {
            Ok(database.query_row("SELECT sum(v) FROM t", [], |row| row.get::<_, i64>(0)).unwrap())
        })
    };
    assert_eq!(sum.unwrap(), 2i64);
}

/// Stores pages as SQLite's pager does: a row of one byte costs its page and the first page.
#[test]
fn pages_can_be_stored_whole() {
    let logged = |pages| {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(folder.path());
        let mut worker = pool.worker().unwrap();
        let lender = Lender::new(&mut worker, 0, 256).unwrap().storing(pages);
        let mut database = None;
        let mut run = |worker: &mut _, sql: &str| {
            let work = || {
                database
                    .get_or_insert_with(|| lender.vfs().open("test").unwrap())
                    .execute_batch(sql)
                    .unwrap();
                Ok(())
            };
            // SAFETY: there is only one thread.
            unsafe { lender.lend(worker, work) }.unwrap();
        };
        run(&mut worker, "PRAGMA page_size = 1024; CREATE TABLE t (k INTEGER PRIMARY KEY, v)");
        for k in 0..200 {
            run(&mut worker, &format!("INSERT INTO t VALUES ({k}, 2)"));
        }
        let before = worker.statistics().log_bytes;
        run(&mut worker, "UPDATE t SET v = 3 WHERE k = 100");
        let after = worker.statistics().log_bytes;
        run(&mut worker, "DELETE FROM t WHERE k < 150");
        // SAFETY: there is only one thread.
        let checked = unsafe {
            lender.lend(&mut worker, || {
                let database = database.as_ref().unwrap();
                let count: i64 = database.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
                Ok((is_sound(database), count))
            })
        };
        assert_eq!(checked.unwrap(), (true, 50));
        after - before
    };
    // The log takes a record of 16 bytes for each word of 8 bytes.
    let (changes, whole) = (logged(Pages::Changes), logged(Pages::Whole));
    assert!(changes < 200, "{changes} bytes");
    assert!((2 * 2 * 1024..5000).contains(&whole), "{whole} bytes");
}
