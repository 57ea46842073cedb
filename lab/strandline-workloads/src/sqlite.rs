//! `sqlite` and `sqlite-pages`: deletes and inserts rows of an SQLite table whose database lies in the pool.
//!
//! The table has a number as its key and a value. SQLite caches pages in memory of its own; what it reads from the
//! pool and writes there is what its VFS asks for: of a page that has changed the words that differ, or all of it.

use std::fmt::Display;

use fastrand::Rng;
use strandline_core::Result;
use strandline_core::error::Error;
use strandline_core::transaction::Runner;
use strandline_sqlite::rusqlite::{self, Connection, OptionalExtension};
use strandline_sqlite::{Lender, PAGE_BYTES, Pages, heap_bytes};

use crate::{Parameter, Sizes, Transactions, Workload, WorkloadDescriptor};

/// SQLite on the pool.
pub static SQLITE: WorkloadDescriptor = WorkloadDescriptor {
    name: "sqlite",
    source: "Loose-Ordering Consistency, Table 2",
    description: "deletes or inserts rows of an SQLite table in the pool, one thread: keys below 100,000, half present",
    takes: &[Parameter::ValueBytes, Parameter::Operations],
    make: |sizes| {
        Ok(Box::new(SqliteWorkload::new(sizes, Storing { pages: Pages::Changes, page_bytes: PAGE_BYTES })))
    },
    by_types: None,
    checked: None,
};

/// SQLite on the pool, as it was in 2013: pages of 1 KB, its default before version 3.12, written whole as its pager hands them over.
pub static SQLITE_PAGES: WorkloadDescriptor = WorkloadDescriptor {
    name: "sqlite-pages",
    description: "as sqlite, with pages of 1 KB, which are written whole",
    make: |sizes| Ok(Box::new(SqliteWorkload::new(sizes, Storing { pages: Pages::Whole, page_bytes: 1024 }))),
    ..SQLITE
};

/// The root word that the files hang from.
const ROOT: u64 = 0;
const DATABASE: &str = "workload";
/// Rows in a transaction that fills the table: a few pages, far below the smallest log.
const FILLED_AT_ONCE: u64 = 64;

/// What SQLite's pages are, and what is stored of one that is written again.
#[derive(Clone, Copy)]
struct Storing {
    pages: Pages,
    /// At most [`PAGE_BYTES`].
    page_bytes: u64,
}

/// A table of rows with keys below a bound.
pub struct SqliteWorkload {
    storing: Storing,
    keys: u64,
    value_bytes: u64,
    operations: u64,
}

/// The connection of one thread.
pub struct Client {
    // Closed before the VFS below it goes.
    connection: Connection,
    lender: Lender,
    keys: u64,
    value: Vec<u8>,
    operations: u64,
    random: Rng,
}

impl SqliteWorkload {
    /// The workload with these sizes: as many keys as `subscribers`.
    fn new(sizes: &Sizes, storing: Storing) -> Self {
        let Sizes { subscribers: keys, value_bytes, operations, .. } = *sizes;
        Self { storing, keys, value_bytes, operations }
    }

    /// Bytes of the database at most: rows with their headers, in leaves of which each is half full at least.
    fn database_bytes(&self) -> u64 {
        2 * self.keys * (self.value_bytes + 24) + 64 * PAGE_BYTES
    }

    /// One bucket for each page.
    fn buckets(&self) -> u64 {
        self.database_bytes() / PAGE_BYTES
    }

    /// The files, and a connection that waits for others.
    fn connect<R: Runner>(&self, runner: &mut R) -> Result<(Lender, Connection)> {
        let lender = Lender::new(runner, ROOT, self.buckets())?.storing(self.storing.pages);
        let connection = lent(&lender, runner, || lender.vfs().open(DATABASE))?;
        Ok((lender, connection))
    }
}

/// Runs `body` while the VFS has the runner.
fn lent<R: Runner, T>(
    lender: &Lender,
    runner: &mut R,
    body: impl FnOnce() -> rusqlite::Result<T>,
) -> Result<T> {
    let work = || body().map_err(|error| lender.vfs().take_error().unwrap_or_else(|| failed(error)));
    // SAFETY: the only connection of this VFS stands beside it, in a `Client` or in one function, so that whoever
    // runs this has both to itself.
    unsafe { lender.lend(runner, work) }
}

fn failed(error: impl Display) -> Error {
    Error::damaged(format!("SQLite says: {error}"))
}

impl Workload for SqliteWorkload {
    type Thread = Client;

    fn heap_bytes(&self) -> u64 {
        heap_bytes(self.database_bytes(), self.buckets())
    }

    /// One: each thread has a VFS of its own, and these know nothing of each other's locks.
    fn most_threads(&self) -> u64 {
        1
    }

    /// Every other key is there at first.
    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let (lender, mut connection) = self.connect(runner)?;
        lent(&lender, runner, || {
            // A database that has a table keeps its pages as they are.
            connection.pragma_update(None, "page_size", self.storing.page_bytes as i64)?;
            connection
                .execute_batch("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v BLOB NOT NULL)")?;
            for first in (0..self.keys).step_by(FILLED_AT_ONCE as usize) {
                let transaction = connection.transaction()?;
                for key in (first..self.keys.min(first + FILLED_AT_ONCE)).step_by(2) {
                    transaction
                        .prepare_cached("INSERT OR REPLACE INTO t VALUES (?1, zeroblob(?2))")?
                        .execute((key as i64, self.value_bytes as i64))?;
                }
                transaction.commit()?;
            }
            Ok(())
        })?;
        drop(connection);
        Ok(())
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Client> {
        let (lender, connection) = self.connect(runner)?;
        let is_there = "SELECT 1 FROM sqlite_schema WHERE name = 't'";
        let found = lent(&lender, runner, || {
            connection.query_row(is_there, [], |row| row.get::<_, i64>(0)).optional()
        })?;
        if found.is_none() {
            return Err(Error::Missing { what: "SQLite table", root: ROOT });
        }
        let Self { keys, value_bytes, operations, .. } = *self;
        let value = vec![b'v'; value_bytes as usize];
        Ok(Client { connection, lender, keys, value, operations, random: Rng::with_seed(seed) })
    }

    /// By SQLite's own check; and all keys and values are such as the workload writes.
    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let (lender, connection) = self.connect(runner)?;
        let strange = "SELECT count(*) FROM t WHERE k < 0 OR k >= ?1 OR length(v) <> ?2";
        let (verdict, strange) = lent(&lender, runner, || {
            let verdict =
                connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))?;
            let sizes = (self.keys as i64, self.value_bytes as i64);
            Ok((verdict, connection.query_row(strange, sizes, |row| row.get::<_, i64>(0))?))
        })?;
        match (&verdict[..], strange) {
            ("ok", 0) => Ok(()),
            ("ok", _) => Err(failed(format!("{strange} rows that nobody has written"))),
            _ => Err(failed(verdict)),
        }
    }
}

impl Transactions for Client {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { connection, lender, keys, value, operations, random } = self;
        lent(lender, runner, || {
            let transaction = connection.transaction()?;
            for _ in 0..*operations {
                let key = random.u64(..*keys) as i64;
                let deleted = transaction.prepare_cached("DELETE FROM t WHERE k = ?1")?.execute([key])?;
                if deleted == 0 {
                    transaction
                        .prepare_cached("INSERT INTO t VALUES (?1, ?2)")?
                        .execute((key, &value[..]))?;
                }
            }
            transaction.commit()
        })
    }
}
