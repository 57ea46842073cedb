//! A process that works on a database is killed at any time: SQLite finds its database whole, and every commit that
//! was acknowledged. In a program apart from `sqlite.rs`: a process that is being started holds for a moment the locks of the pools that
//! other tests of the same program have open.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use strandline_core::Domain;
use strandline_core::file::{Options, Pool};
use strandline_core::layout::Geometry;
use strandline_sqlite::{Commit, Vfs};

const FOLDER: &str = "STRANDLINE_SQLITE_TEST_FOLDER";
const WAY: &str = "STRANDLINE_SQLITE_TEST_JOURNAL";

fn options() -> Options {
    let geometry = Geometry { size: 24 << 20, logs: 2, log_bytes: 256 << 10, ..Geometry::default() };
    Options { geometry, domain: Domain::Process, ..Options::default() }
}

fn open(folder: &Path, way: Commit) -> (Pool, Vfs) {
    let path = folder.join("pool");
    let pool =
        if path.exists() { Pool::open(path, &options()) } else { Pool::create(path, &options()) }.unwrap();
    let vfs = Vfs::with_commit(pool.worker().unwrap(), 0, way).unwrap();
    (pool, vfs)
}

/// What the child does until it is killed: transaction `n` gives each of ten rows the value `n`, then says so.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let way = if std::env::var_os(WAY).is_some() { Commit::Journal } else { Commit::Atomic };
    let (_pool, vfs) = open(folder.as_ref(), way);
    let mut database = vfs.open("test").unwrap();
    database
        .execute_batch("PRAGMA cache_size = 3; CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, n, v)")
        .unwrap();
    let last: i64 = database.query_row("SELECT coalesce(max(n), 0) FROM t", [], |row| row.get(0)).unwrap();
    for n in last + 1.. {
        let transaction = database.transaction().unwrap();
        for k in 0..10 {
            let sql = "INSERT OR REPLACE INTO t VALUES (?1, ?2, zeroblob(?3))";
            transaction.execute(sql, (k, n, 500 + n % 700)).unwrap();
        }
        transaction.commit().unwrap();
        println!("\ncommitted {n}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_killed_process_leaves_a_whole_database() {
    for way in [Commit::Atomic, Commit::Journal] {
        let folder = tempfile::tempdir().unwrap();
        let mut acknowledged = 0;
        for kill in 0..12 {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["child", "--exact", "--nocapture"])
                .env(FOLDER, folder.path())
                .stdout(Stdio::piped());
            if way == Commit::Journal {
                command.env(WAY, "1");
            }
            let mut child = command.spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut numbers =
                lines.by_ref().filter_map(|line| line.unwrap().strip_prefix("committed ")?.parse().ok());
            acknowledged = numbers.nth(1 + 7 * kill % 10).expect("the child goes on for ever");
            child.kill().unwrap();
            child.wait().unwrap();
            // What it still said before it was gone.
            let rest = lines.map_while(|line| line.ok());
            let rest = rest.filter_map(|line| line.strip_prefix("committed ")?.parse::<i64>().ok());
            acknowledged = rest.last().unwrap_or(acknowledged);

            let (pool, vfs) = open(folder.path(), way);
            let database = vfs.open("test").unwrap();
            let verdict: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(verdict, "ok");
            let found: (i64, i64, i64) = database
                .query_row("SELECT count(*), min(n), max(n) FROM t", [], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .unwrap();
            assert!(
                found.0 == 10 && found.1 == found.2 && found.2 >= acknowledged,
                "{found:?}, {acknowledged}"
            );
            drop((database, vfs));
            pool.close().unwrap();
        }
        assert!(acknowledged > 20);
    }
}
