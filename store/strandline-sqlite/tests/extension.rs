//! The extension in the `sqlite3` shell and in Python's `sqlite3` module, which use another SQLite than this crate. If one of these is missing, its
//! tests say so and pass.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of the extension, which cargo builds beside this test's binary.
fn extension() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libstrandline_sqlite.so");
    assert!(library.exists(), "{} is not there", library.display());
    library.with_extension("")
}

/// Returns what a program prints to its standard output and error.
fn run(command: &mut Command) -> (String, String) {
    let ran = command.output().unwrap();
    (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap())
}

/// Returns what the shell prints for these lines after it has loaded the extension.
fn shell(folder: &Path, lines: &str) -> Option<(String, String)> {
    if Command::new("sqlite3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `sqlite3` on this machine");
        return None;
    }
    let script = folder.join("script");
    let lines: Vec<&str> = lines.lines().map(str::trim_start).collect();
    std::fs::write(&script, format!(".load {}\n{}\n", extension().display(), lines.join("\n"))).unwrap();
    let script = std::fs::File::open(script).unwrap();
    Some(run(Command::new("sqlite3").arg("-batch").current_dir(folder).stdin(script)))
}

#[test]
fn the_shell_keeps_a_database_in_a_pool() {
    let folder = tempfile::tempdir().unwrap();
    let open = ".open file:shop.db?vfs=strandline\n";
    // Files that an ordinary database left there must not matter.
    for left in ["shop.db-journal", "shop.db-wal"] {
        std::fs::write(folder.path().join(left), [0xd9; 5000]).unwrap();
    }
    let Some(said) = shell(
        folder.path(),
        &format!(
            "{open}CREATE TABLE sold (what TEXT, count INTEGER);
             INSERT INTO sold VALUES ('bolt', 7), ('nut', 8);
             BEGIN; DELETE FROM sold; ROLLBACK;
             BEGIN; UPDATE sold SET count = count + 1; COMMIT;\n"
        ),
    ) else {
        return;
    };
    assert_eq!(said, (String::new(), String::new()));
    assert!(folder.path().join("shop.db.log").exists(), "it is a pool of the `Sync` domain, on the disk");
    // In a later process: a large transaction, a smaller file, another journal mode.
    let (rows, errors) = shell(
        folder.path(),
        &format!(
            "{open}SELECT * FROM sold;
             CREATE TABLE large (bytes BLOB);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO large SELECT randomblob(1000) FROM n;
             PRAGMA journal_mode = WAL;
             PRAGMA locking_mode = EXCLUSIVE;
             PRAGMA journal_mode = wal;
             PRAGMA synchronous = OFF;
             DELETE FROM large WHERE rowid > 10;
             VACUUM;
             PRAGMA integrity_check;
             SELECT count(*), sum(length(bytes)) FROM large;\n"
        ),
    )
    .unwrap();
    assert_eq!(
        (rows.as_str(), errors.as_str()),
        ("bolt|8\nnut|9\ndelete\nexclusive\ndelete\nok\n10|10000\n", "")
    );
    // Rows that were written without `PRAGMA synchronous` must exist as well.
    let said = shell(folder.path(), &format!("{open}SELECT count(*) FROM large; PRAGMA integrity_check;\n"));
    assert_eq!(said.unwrap().0, "10\nok\n");
}

#[test]
fn two_databases_are_attached_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let Some((said, errors)) = shell(
        folder.path(),
        ".open file:one.db?vfs=strandline
         ATTACH 'file:two.db?vfs=strandline' AS two;
         ATTACH 'file:plain.db?vfs=unix' AS plain;
         CREATE TABLE t (v); CREATE TABLE two.u (v); CREATE TABLE plain.w (v);
         BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (2); INSERT INTO w VALUES (3); COMMIT;
         BEGIN; INSERT INTO t VALUES (4); INSERT INTO u VALUES (5); INSERT INTO w VALUES (6); ROLLBACK;
         SELECT (SELECT sum(v) FROM t), (SELECT sum(v) FROM u), (SELECT sum(v) FROM w);
         VACUUM main INTO 'file:copy.db?vfs=strandline';
         .backup main plain-copy.db
         .open file:copy.db?vfs=strandline
         SELECT sum(v) FROM t;
         .open plain-copy.db
         SELECT sum(v) FROM t; PRAGMA integrity_check;\n",
    ) else {
        return;
    };
    assert_eq!((said.as_str(), errors.as_str()), ("1|2|3\n1\n1\nok\n", ""));
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text"), "no database ".repeat(1000)).unwrap();
    let Some((_, errors)) = shell(
        folder.path(),
        ".log stderr\n.open file:text?vfs=strandline\nSELECT 1;\n.open file:nowhere/db?vfs=strandline\nSELECT 1;\n",
    ) else {
        return;
    };
    assert!(
        errors.contains("file is not a database") && errors.contains("is not a Strandline pool"),
        "{errors}"
    );
    assert!(errors.contains("nowhere/db"), "{errors}");
}

/// Returns the first Python whose module can load extensions.
fn python() -> Option<&'static str> {
    let can = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
    let found = ["python3", "/usr/bin/python3"]
        .into_iter()
        .find(|python| Command::new(python).args(["-c", can]).output().is_ok_and(|ran| ran.status.success()));
    if found.is_none() {
        eprintln!("skipped: there is no Python whose sqlite3 loads extensions");
    }
    found
}

#[test]
fn python_keeps_a_database_in_a_pool() {
    let folder = tempfile::tempdir().unwrap();
    let Some(python) = python() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/extension.py");
    let (said, errors) = run(Command::new(python).arg(script).arg(extension()).current_dir(folder.path()));
    assert_eq!((said.as_str(), errors.as_str()), ("all is well\n", ""));
}
