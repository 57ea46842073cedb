//! SQL logic: scripts of statements with their expected results (`logic/*.slt`, in the style of sqllogictest), and random statements whose results
//! are compared with those in an ordinary file. The databases use the VFS `strandline`, and are closed and reopened in between.

use std::path::Path;

use strandline_sqlite::rusqlite::types::ValueRef;
use strandline_sqlite::rusqlite::{Connection, Result};

fn open(path: &Path) -> Connection {
    strandline_sqlite::register().unwrap();
    let database = Connection::open(format!("file:{}?vfs=strandline", path.display())).unwrap();
    database.execute_batch("PRAGMA foreign_keys = ON").unwrap();
    database
}

/// Returns the rows of a query. A statement has none.
fn rows(database: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut statement = database.prepare(sql)?;
    let columns = statement.column_count();
    let mut found = Vec::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => "NULL".into(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => format!("{number:?}"),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                ValueRef::Blob(bytes) => format!("{bytes:02x?}"),
            })
        });
        found.push(values.collect::<Result<Vec<_>>>()?.join("|"));
    }
    Ok(found)
}

fn close(database: Connection) {
    assert_eq!(rows(&database, "PRAGMA integrity_check").unwrap(), ["ok"]);
    database.close().map_err(|(_, error)| error).unwrap();
}

/// Runs a script, whose records are separated by empty lines. A statement follows `statement ok` or `statement error WORDS`; a statement, a line of
/// four dashes and rows follow `query`. `reopen` closes the database and opens it again.
fn run(script: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut database = Some(open(&path));
    let text = std::fs::read_to_string(script).unwrap();
    let mut records = 0;
    for record in text.split("\n\n").map(str::trim).filter(|record| !record.is_empty()) {
        let lines: Vec<&str> = record.lines().filter(|line| !line.starts_with('#')).collect();
        let Some((&head, rest)) = lines.split_first() else { continue };
        let place = format!("{}:\n{record}\n", script.display());
        records += 1;
        if head == "reopen" {
            close(database.take().unwrap());
            database = Some(open(&path));
            continue;
        }
        let database = database.as_ref().unwrap();
        if head == "statement ok" {
            rows(database, &rest.join("\n")).unwrap_or_else(|error| panic!("{place}{error}"));
        } else if let Some(expected) = head.strip_prefix("statement error ") {
            let error = rows(database, &rest.join("\n")).expect_err(&place).to_string();
            assert!(error.contains(expected), "{place}{error}");
        } else if head == "query" {
            let dashes = rest.iter().position(|&line| line == "----").expect(&place);
            let found = rows(database, &rest[..dashes].join("\n"));
            let found = found.unwrap_or_else(|error| panic!("{place}{error}"));
            assert_eq!(found, rest[dashes + 1..], "{place}");
        } else {
            panic!("{place}is no record");
        }
    }
    assert!(records > 10);
    close(database.unwrap());
}

#[test]
fn scripts_have_their_results() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logic");
    let scripts: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(scripts.len(), 3);
    scripts.iter().for_each(|script| run(script));
}

/// Returns a random statement. Some of them are erroneous.
fn statement(random: &mut fastrand::Rng) -> String {
    let table = random.u32(0..3);
    let key = random.u32(0..400);
    let number = random.i32(-50..50);
    let text = "abcdefghij".repeat(random.usize(0..120));
    let condition = match random.u32(0..5) {
        0 => format!("a = {key}"),
        1 => format!("a BETWEEN {key} AND {}", key + random.u32(0..60)),
        2 => format!("b < {number}"),
        3 => format!("length(c) > {}", random.u32(0..1200)),
        _ => format!("a IN (SELECT a FROM t{} WHERE b = {number})", random.u32(0..3)),
    };
    match random.u32(0..100) {
        0..=24 => format!("INSERT OR REPLACE INTO t{table} VALUES ({key}, {number}, '{text}')"),
        25..=31 => format!("INSERT INTO t{table} VALUES ({key}, {number}, '{text}')"),
        32..=35 => format!(
            "INSERT OR IGNORE INTO t{table} SELECT a + {number}, b, c FROM t{} WHERE {condition}",
            random.u32(0..3)
        ),
        36..=45 => format!("UPDATE t{table} SET b = b + {number} WHERE {condition}"),
        46..=49 => format!("UPDATE t{table} SET c = c || '{text}' WHERE {condition}"),
        50..=52 => format!("UPDATE t{table} SET a = a + 1000 WHERE {condition}"),
        53..=58 => format!("DELETE FROM t{table} WHERE {condition}"),
        59..=64 => "BEGIN".into(),
        65..=69 => "COMMIT".into(),
        70..=71 => "ROLLBACK".into(),
        72..=73 => "SAVEPOINT s".into(),
        74 => "ROLLBACK TO s".into(),
        75 => "RELEASE s".into(),
        76 => format!("CREATE INDEX i{table} ON t{table} (b, c)"),
        77 => format!("DROP INDEX i{table}"),
        78 => format!("PRAGMA cache_size = {}", random.u32(3..100)),
        79 => "VACUUM".into(),
        80 => format!("CREATE TABLE x{table} AS SELECT * FROM t{table}"),
        81 => format!("DROP TABLE x{table}"),
        82..=88 => format!(
            "SELECT count(*), sum(a), sum(b), sum(length(c)), min(c), max(a) FROM t{table} WHERE {condition}"
        ),
        89..=92 => {
            format!("SELECT a, b, length(c) FROM t{table} WHERE {condition} ORDER BY b, a DESC LIMIT 30")
        }
        93..=95 => format!(
            "SELECT x.a, y.b FROM t{table} x JOIN t{} y ON x.b = y.b WHERE x.{condition} ORDER BY 1, 2 LIMIT 20",
            random.u32(0..3)
        ),
        96..=97 => format!(
            "SELECT b, count(*), group_concat(a) FROM (SELECT a, b FROM t{table} ORDER BY a) GROUP BY b ORDER BY b"
        ),
        _ => "reopen".into(),
    }
}

#[test]
fn random_statements_have_the_results_that_they_have_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("pool"), folder.path().join("plain")];
    let open_both = || [open(&paths[0]), Connection::open(&paths[1]).unwrap()];
    let mut both = open_both();
    for table in 0..3 {
        let sql = format!("CREATE TABLE t{table} (a INTEGER PRIMARY KEY, b INTEGER, c TEXT)");
        both.iter().for_each(|database| assert!(rows(database, &sql).unwrap().is_empty()));
    }
    let mut random = fastrand::Rng::with_seed(1);
    let mut errors = 0;
    for step in 0..2000 {
        let sql = statement(&mut random);
        if sql == "reopen" {
            // This may be in the middle of a transaction, which is then rolled back.
            both.into_iter().for_each(drop);
            both = open_both();
            continue;
        }
        let [found, expected] =
            both.each_ref().map(|database| rows(database, &sql).map_err(|error| error.to_string()));
        errors += u32::from(expected.is_err());
        assert_eq!(found, expected, "step {step}: {sql}");
    }
    assert!((50..1000).contains(&errors), "{errors} errors");
    for database in both {
        if !database.is_autocommit() {
            rows(&database, "COMMIT").unwrap();
        }
        close(database);
    }
}
