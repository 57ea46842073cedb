//! `sqlite` and `sqlite-pages`: deletes and inserts rows of an SQLite table whose database is stored in the pool.
//!
//! The table has a number as its key, and a value. SQLite caches pages in its own memory. Its VFS determines what it reads from the pool and writes
//! there: of a changed page either the words that differ, or all of it.

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

/// SQLite on the pool, as it was in 2013: pages of 1 KB, its default before version 3.12, written whole as the pager passes them.
pub static SQLITE_PAGES: WorkloadDescriptor = WorkloadDescriptor {
    name: "sqlite-pages",
    description: "as sqlite, with pages of 1 KB, which are written whole",
    make: |sizes| Ok(Box::new(SqliteWorkload::new(sizes, Storing { pages: Pages::Whole, page_bytes: 1024 }))),
    ..SQLITE
};

/// The root word of the files.
const ROOT: u64 = 0;
const DATABASE: &str = "workload";
/// The number of rows that a transaction inserts to fill the table: a few pages, far below the smallest log.
const FILLED_AT_ONCE: u64 = 64;

/// SQLite's page size, and what is stored of a page that is written again.
#[derive(Clone, Copy)]
struct Storing {
    pages: Pages,
    /// The page size in bytes, at most [`PAGE_BYTES`].
    page_bytes: u64,
}

/// A table of rows with keys below a bound.
pub struct SqliteWorkload {
    storing: Storing,
    keys: u64,
    value_bytes: u64,
    operations: u64,
}

/// One thread's connection.
pub struct Client {
    // Declared first, so that the connection is closed before its VFS is dropped.
    connection: Connection,
    lender: Lender,
    keys: u64,
    value: Vec<u8>,
    operations: u64,
    random: Rng,
}

impl SqliteWorkload {
    /// Creates the workload with these sizes; `subscribers` is the number of keys.
    fn new(sizes: &Sizes, storing: Storing) -> Self {
        let Sizes { subscribers: keys, value_bytes, operations, .. } = *sizes;
        Self { storing, keys, value_bytes, operations }
    }

    /// Returns an upper bound of the database's size in bytes: rows with their headers, in leaves that are at least half full.
    fn database_bytes(&self) -> u64 {
        2 * self.keys * (self.value_bytes + 24) + 64 * PAGE_BYTES
    }

    /// Returns the number of buckets, one for each page.
    fn buckets(&self) -> u64 {
        self.database_bytes() / PAGE_BYTES
    }

    /// Opens the files, and a connection that waits for other connections.
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
    // SAFETY: the only connection of this VFS is beside it, in a `Client` or in one function, so this caller has exclusive access to both.
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

    /// Returns one: each thread would have a VFS of its own, and these do not see each other's locks.
    fn most_threads(&self) -> u64 {
        1
    }

    /// Inserts every other key.
    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let (lender, mut connection) = self.connect(runner)?;
        lent(&lender, runner, || {
            // The page size of a database cannot change once it has a table.
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

    /// Runs SQLite's own check, and checks that all keys and values are ones that the workload writes.
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
