//! Kills a process that works on a database at random times. SQLite must then find a valid database with each acknowledged commit. These tests are a
//! separate program: while a process is being started it briefly holds the locks of pools that other tests of the same program have open.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use strandline_core::Domain;
use strandline_core::file::{Options, Pool};
use strandline_core::layout::Geometry;
use strandline_sqlite::rusqlite::Connection;
use strandline_sqlite::{Commit, Vfs};

const FOLDER: &str = "STRANDLINE_SQLITE_TEST_FOLDER";
const WAY: &str = "STRANDLINE_SQLITE_TEST_WAY";

/// The way in which a database is opened.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// In a pool that the program has opened, with this kind of commit.
    InPool(Commit),
    /// At its path on disk.
    AtPath,
}

const WAYS: [Way; 4] =
    [Way::InPool(Commit::Atomic), Way::InPool(Commit::Journal), Way::InPool(Commit::Buffered), Way::AtPath];

fn options() -> Options {
    let geometry = Geometry { size: 24 << 20, logs: 2, log_bytes: 256 << 10, ..Geometry::default() };
    Options { geometry, domain: Domain::Process, ..Options::default() }
}

/// Opens a database. Returns its connection, and what has to be dropped after it.
fn open(folder: &Path, way: Way) -> (Connection, Option<(Vfs, Pool)>) {
    let path = folder.join("pool");
    match way {
        Way::InPool(commit) => {
            let pool =
                if path.exists() { Pool::open(path, &options()) } else { Pool::create(path, &options()) }
                    .unwrap();
            let vfs = Vfs::with_commit(pool.worker().unwrap(), 0, commit).unwrap();
            (vfs.open("test").unwrap(), Some((vfs, pool)))
        }
        Way::AtPath => {
            strandline_sqlite::register().unwrap();
            (Connection::open(format!("file:{}?vfs=strandline", path.display())).unwrap(), None)
        }
    }
}

/// The child's work until it is killed: transaction `n` sets ten rows to the value `n`, and then the child prints `n`.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let way = WAYS[std::env::var(WAY).unwrap().parse::<usize>().unwrap()];
    let (mut database, _pool) = open(folder.as_ref(), way);
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

/// The number of kills for each way is `STRANDLINE_CASES`, if it is set.
#[test]
fn a_killed_process_leaves_a_whole_database() {
    let kills = std::env::var("STRANDLINE_CASES").map_or(10, |kills| kills.parse().unwrap());
    for (number, way) in WAYS.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let mut acknowledged = 0;
        for kill in 0..kills {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["child", "--exact", "--nocapture"])
                .env(FOLDER, folder.path())
                .env(WAY, number.to_string())
                .stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut numbers =
                lines.by_ref().filter_map(|line| line.unwrap().strip_prefix("committed ")?.parse().ok());
            acknowledged = numbers.nth(1 + 7 * kill % 10).expect("the child goes on for ever");
            // Kills between two commits and during one.
            std::thread::sleep(Duration::from_micros((kill as u64 * 7919) % 3000));
            child.kill().unwrap();
            child.wait().unwrap();
            // Reads what the child printed before it died.
            let rest = lines.map_while(|line| line.ok());
            let rest = rest.filter_map(|line| line.strip_prefix("committed ")?.parse::<i64>().ok());
            acknowledged = rest.last().unwrap_or(acknowledged);

            let (database, pool) = open(folder.path(), way);
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
            drop(database);
            if let Some((vfs, pool)) = pool {
                drop(vfs);
                pool.close().unwrap();
            }
        }
        assert!(acknowledged > 20);
        eprintln!("{way:?}: {kills} kills, {acknowledged} commits");
    }
}
