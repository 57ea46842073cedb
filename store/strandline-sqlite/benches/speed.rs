//! SQLite on a pool, beside SQLite with its write-ahead log and with its rollback journal, all on the same disk and all with `synchronous = FULL`.
//!
//! The statements are a mix like that of SQLite's own speedtest1: inserts, queries, updates and deletes of one table after the other, mostly in large
//! transactions. They are written anew. Small commits, which speedtest1 does not have, are counted separately.
//!
//! ```sh
//! cargo bench -p strandline-sqlite --bench speed -- [rows, 10000 by default] [rounds, 3]
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use strandline_sqlite::rusqlite::{Connection, Result};

/// A test's name, and the function that runs it. The second argument is the number of rows of the whole benchmark.
type Test = (&'static str, fn(&Connection, u64) -> Result<()>);

/// Maps a number to a pseudorandom one below `rows`.
fn jump(number: u64, rows: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) % rows
}

/// Spells a number's digits in English words, the last one first.
fn words(mut number: u64) -> String {
    const DIGITS: [&str; 10] =
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    let mut text = String::new();
    loop {
        text.push_str(DIGITS[(number % 10) as usize]);
        number /= 10;
        if number == 0 {
            return text;
        }
        text.push(' ');
    }
}

/// Runs a statement `count` times in one transaction. Its parameters are a number, another number, and that number in words.
fn repeat(db: &Connection, count: u64, rows: u64, sql: &str) -> Result<()> {
    db.execute_batch("BEGIN")?;
    let mut statement = db.prepare(sql)?;
    for number in 1..=count {
        let other = jump(number, rows) + 1;
        let all = (number as i64, other as i64, words(other));
        for (index, value) in
            [&all.0 as &dyn strandline_sqlite::rusqlite::ToSql, &all.1, &all.2].into_iter().enumerate()
        {
            if index < statement.parameter_count() {
                statement.raw_bind_parameter(index + 1, value)?;
            }
        }
        let mut found = statement.raw_query();
        while found.next()?.is_some() {}
    }
    drop(statement);
    db.execute_batch("COMMIT")
}

/// The tests in order. Each one builds on those before it.
const TESTS: &[Test] = &[
    ("inserts, no index", |db, n| {
        db.execute_batch("CREATE TABLE z1 (a INTEGER, b INTEGER, c TEXT)")?;
        repeat(db, n, n, "INSERT INTO z1 VALUES (?1, ?2, ?3)")
    }),
    ("ordered inserts, one index", |db, n| {
        db.execute_batch("CREATE TABLE z2 (a INTEGER, b INTEGER, c TEXT); CREATE UNIQUE INDEX i2 ON z2 (a)")?;
        repeat(db, n, n, "INSERT INTO z2 VALUES (?1, ?2, ?3)")
    }),
    ("unordered inserts, one index", |db, n| {
        db.execute_batch("CREATE TABLE t3 (a INTEGER, b INTEGER, c TEXT); CREATE INDEX i3 ON t3 (b)")?;
        repeat(db, n, n, "INSERT INTO t3 VALUES (?1, ?2, ?3)")
    }),
    ("queries without index, numbers", |db, n| {
        repeat(db, 25, n, "SELECT count(*), avg(b), sum(length(c)) FROM z1 WHERE b BETWEEN ?2 AND ?2 + 1000")
    }),
    ("queries without index, text", |db, n| {
        repeat(db, 10, n, "SELECT count(*), avg(b) FROM z1 WHERE c LIKE '%' || ?3 || '%' AND ?1 AND ?2")
    }),
    ("sorted queries without index", |db, n| {
        repeat(
            db,
            10,
            n,
            "SELECT a, b, c FROM z1 WHERE c LIKE '%' || substr(?3, 1, 4) || '%' AND ?1 AND ?2 ORDER BY a LIMIT 10",
        )
    }),
    ("five indexes are made", |db, _| {
        db.execute_batch(
            "BEGIN; CREATE UNIQUE INDEX t1b ON z1 (b, a); CREATE INDEX t1c ON z1 (c); CREATE UNIQUE INDEX t2b ON z2 (b, a);
             CREATE INDEX t2c ON z2 (c DESC); CREATE INDEX t3bc ON t3 (b, c); COMMIT",
        )
    }),
    ("queries with index, numbers", |db, n| {
        repeat(db, n / 5, n, "SELECT count(*), avg(b), sum(length(c)) FROM z1 WHERE b BETWEEN ?2 AND ?2 + 10")
    }),
    ("queries with index, text", |db, n| {
        repeat(db, n / 5, n, "SELECT count(*), avg(b) FROM z1 WHERE c BETWEEN ?3 AND ?3 || '~' AND ?1 AND ?2")
    }),
    ("inserts, three indexes", |db, n| {
        db.execute_batch(
            "CREATE TABLE t4 (a INTEGER PRIMARY KEY, b INTEGER, c TEXT); CREATE INDEX t4b ON t4 (b); CREATE INDEX t4c ON t4 (c)",
        )?;
        repeat(db, n, n, "INSERT INTO t4 VALUES (?1, ?2, ?3)")
    }),
    ("a table is emptied and filled again", |db, _| {
        db.execute_batch("DELETE FROM z2; INSERT INTO z2 SELECT * FROM z1")
    }),
    ("VACUUM", |db, _| db.execute_batch("VACUUM")),
    ("a column is added and read", |db, _| {
        db.execute_batch("ALTER TABLE z2 ADD COLUMN d INTEGER DEFAULT 123")?;
        db.query_row("SELECT sum(d) FROM z2", [], |_| Ok(()))
    }),
    ("updates of ranges", |db, n| {
        repeat(db, n / 5, n, "UPDATE z2 SET d = b * 2 WHERE b BETWEEN ?2 AND ?2 + 10")
    }),
    ("updates of rows", |db, n| repeat(db, n, n, "UPDATE z2 SET d = b * 3 WHERE a = ?1 AND ?2")),
    ("one update of all", |db, _| db.execute_batch("UPDATE z2 SET d = b * 4")),
    ("deletes of ranges", |db, n| repeat(db, n / 5, n, "DELETE FROM z2 WHERE b BETWEEN ?2 AND ?2 + 2")),
    ("deletes of rows", |db, n| repeat(db, n, n, "DELETE FROM t3 WHERE b = ?2 AND ?1")),
    ("two tables are filled by REPLACE", |db, _| {
        db.execute_batch("REPLACE INTO z2 (a, b, c) SELECT a, b, c FROM z1; REPLACE INTO t3 (a, b, c) SELECT a, b, c FROM z1")
    }),
    ("a table is filled in another order", |db, _| {
        db.execute_batch(
            "DELETE FROM z2; INSERT INTO z2 (a, b, c) SELECT a, b, c FROM z1 WHERE (b & 1) = (a & 1);
             INSERT INTO z2 (a, b, c) SELECT a, b, c FROM z1 WHERE (b & 1) <> (a & 1)",
        )
    }),
    ("joins of four tables", |db, n| {
        repeat(
            db,
            n / 5,
            n,
            "SELECT z1.c FROM z1, z2, t3, t4 WHERE t4.a BETWEEN ?2 AND ?2 + 3 AND t3.b = t4.b AND z1.b = t4.b AND z2.b = t3.b LIMIT 10",
        )
    }),
    ("subqueries", |db, n| {
        repeat(
            db,
            n / 50,
            n,
            "SELECT a, (SELECT max(b) FROM z2 WHERE z2.b < t4.b AND z2.a > ?1) FROM t4 WHERE a BETWEEN ?2 AND ?2 + 20",
        )
    }),
    ("REPLACE by number", |db, n| {
        db.execute_batch("CREATE TABLE t5 (a INTEGER PRIMARY KEY, b TEXT)")?;
        repeat(db, n + n / 2, n, "REPLACE INTO t5 VALUES (?2, ?3 || ?1)")
    }),
    ("SELECT by number", |db, n| repeat(db, n + n / 2, n, "SELECT b FROM t5 WHERE a = ?2 AND ?1")),
    ("REPLACE by text", |db, n| {
        db.execute_batch("CREATE TABLE t6 (a TEXT PRIMARY KEY, b TEXT) WITHOUT ROWID")?;
        repeat(db, n + n / 2, n, "REPLACE INTO t6 VALUES (?3, ?1 || ?2)")
    }),
    ("SELECT by text", |db, n| repeat(db, n + n / 2, n, "SELECT b FROM t6 WHERE a = ?3 AND ?1 AND ?2")),
    ("SELECT DISTINCT", |db, _| {
        db.query_row("SELECT count(*) FROM (SELECT DISTINCT b FROM t5)", [], |_| Ok(()))
    }),
    ("PRAGMA integrity_check", |db, _| {
        let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        assert_eq!(verdict, "ok");
        Ok(())
    }),
    ("ANALYZE", |db, _| db.execute_batch("ANALYZE")),
];

/// Number of commits of one row each, which are counted separately.
const COMMITS: u64 = 1000;

/// The name, the end of the URI, and the journal mode.
const WAYS: [(&str, &str, &str); 3] =
    [("pool", "?vfs=strandline", "DELETE"), ("WAL", "", "WAL"), ("journal", "", "DELETE")];

/// Returns the times of all tests, followed by the time of the commits.
fn measure(folder: &Path, way: usize, rows: u64) -> Result<Vec<Duration>> {
    let (name, end, mode) = WAYS[way];
    let folder = folder.join(name);
    std::fs::create_dir(&folder).unwrap();
    let db = Connection::open(format!("file:{}{end}", folder.join("db").display()))?;
    let found: String = db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0))?;
    assert_eq!(found, mode.to_lowercase());
    db.execute_batch("PRAGMA synchronous = FULL")?;
    let time = |test: &dyn Fn() -> Result<()>| {
        let begin = Instant::now();
        test()?;
        Ok(begin.elapsed())
    };
    let mut times = TESTS.iter().map(|(_, test)| time(&|| test(&db, rows))).collect::<Result<Vec<_>>>()?;
    db.execute_batch("CREATE TABLE small (a INTEGER PRIMARY KEY, b TEXT)")?;
    times.push(time(&|| {
        let mut statement = db.prepare("INSERT INTO small VALUES (?1, ?2)")?;
        for number in 0..COMMITS {
            statement.execute((number as i64, words(number)))?;
        }
        Ok(())
    })?);
    drop(db);
    std::fs::remove_dir_all(folder).unwrap();
    Ok(times)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (rows, rounds) = (numbers.next().unwrap_or(10_000).max(1000), numbers.next().unwrap_or(3).max(1));
    strandline_sqlite::register().unwrap();
    let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // The ways alternate, so that other load on the machine affects all of them.
    let mut all: [Vec<Vec<Duration>>; 3] = Default::default();
    for _ in 0..rounds {
        for (way, measured) in all.iter_mut().enumerate() {
            measured.push(measure(folder.path(), way, rows).unwrap());
        }
    }
    println!("{rows} rows, medians of {rounds} rounds, milliseconds; the pool's time as a part of WAL's\n");
    println!("{:38}{:>9}{:>9}{:>9}{:>9}", "", WAYS[0].0, WAYS[1].0, WAYS[2].0, "pool/WAL");
    let row = |name: &str, pick: &dyn Fn(&[Duration]) -> Duration| {
        let times = all.each_ref().map(|rounds| median(rounds.iter().map(|times| pick(times)).collect()));
        let [pool, wal, journal] = times.map(|time| time.as_secs_f64() * 1000.0);
        println!("{name:38}{pool:>9.1}{wal:>9.1}{journal:>9.1}{:>9.2}", pool / wal);
    };
    for (number, (name, _)) in TESTS.iter().enumerate() {
        row(name, &|times| times[number]);
    }
    row("all of these", &|times| times[..TESTS.len()].iter().sum());
    row(&format!("{COMMITS} commits of one row"), &|times| times[TESTS.len()]);
}
