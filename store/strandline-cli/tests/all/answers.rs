//! `strandline pool … --json` prints one object for each command. Only some commands create a pool.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

#[track_caller]
fn ends(arguments: &[&str], code: i32) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline")).arg("pool").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{err}");
    (out, err)
}

/// Returns the object that a run prints. Asserts that it prints nothing else to standard output, and nothing to standard error.
#[track_caller]
fn object(arguments: &[&str]) -> Value {
    let (out, err) = ends(&[arguments, &["--json"]].concat(), 0);
    assert_eq!(err, "", "{arguments:?}");
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["schema"], 1, "{arguments:?}");
    object
}

fn people(path: &str) {
    let db = strandline::Database::open(path).unwrap();
    let names = db.table::<u64, String>("names").unwrap();
    db.write(|tx| (0..100).try_for_each(|key| names.insert(tx, &key, "Ann").map(drop))).unwrap();
    db.close().unwrap();
}

#[test]
fn every_subcommand_answers_with_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (db, copy, loaded, backup) = (path("db"), path("copy"), path("loaded"), path("backup"));
    let created = object(&["create", &path("empty"), "--layout-name", "mine"]);
    assert_eq!((&created["layout_name"], &created["state"]), (&json!("mine"), &json!("clean")));
    people(&db);
    assert!(object(&["info", &db])["heap"]["objects"].as_u64() > Some(0));
    let checked = object(&["check", &db]);
    assert_eq!((&checked["damage"], &checked["lost_blocks"]), (&json!([]), &json!(0)));
    let (rows, _) = ends(&["dump", &db, "--json"], 0);
    let lines: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["rows"]), (101, &json!(100)));
    std::fs::write(path("rows"), &rows).unwrap();
    let moved = json!({"schema": 1, "tables": 1, "rows": 100});
    assert_eq!(object(&["load", &loaded, &path("rows")]), moved);
    assert_eq!(object(&["copy", &db, &copy]), moved);
    let copied = object(&["backup", &db, &backup]);
    assert!(copied["heap_bytes"].as_u64() > Some(0), "{copied}");
    assert_eq!((&copied["log_blocks"], &copied["replayed"]), (&json!(0), &json!(0)));
    let restored = object(&["restore", &backup, &db]);
    assert_eq!(restored["kept"], json!([path("db.replaced"), path("db.replaced.log")]), "{restored}");
    assert_eq!(restored["heap_bytes"], copied["heap_bytes"]);
    assert_eq!(object(&["restore", &backup, &db, "--replace"])["kept"], json!([]));
    let compacted = object(&["compact", &db]);
    assert!(compacted["disk_bytes"].is_u64() && compacted["disk_bytes_before"].is_u64(), "{compacted}");
    assert_eq!(object(&["checksum", &db])["checksums"], path("db.sums"));
    let resized = object(&["resize-log", &db, "64K"]);
    assert_eq!((&resized["log_blocks"], &resized["block_bytes"]), (&json!(16), &json!(4096)));
    assert_eq!(object(&["recover", &db])["replayed"], 0);
}

/// Tries each subcommand but `create`, `load` and `restore`, and with the new files of `copy` and `backup`.
#[test]
fn only_those_that_say_so_create_a_pool() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (none, to) = (path("none"), path("to"));
    let is_empty = |folder: &Path| std::fs::read_dir(folder).unwrap().next().is_none();
    for arguments in [
        &["info", &none][..],
        &["check", &none],
        &["check", &none, "--repair"],
        &["check", &none, "--repair", "--cut-log"],
        &["dump", &none],
        &["dump", &none, "--json"],
        &["dump", &none, "--json", "--table", "names"],
        &["copy", &none, &to],
        &["backup", &none, &to],
        &["restore", &none, &to],
        &["checksum", &none],
        &["resize-log", &none, "1M"],
        &["recover", &none],
        &["compact", &none],
    ] {
        let (_, err) = ends(arguments, 2);
        assert!(err.contains(&none), "{arguments:?}: {err}");
        assert!(is_empty(folder.path()), "{arguments:?}");
    }
    // Rows that cannot be loaded create no database either.
    std::fs::write(path("rows"), "no row\n").unwrap();
    ends(&["load", &to, &path("rows")], 2);
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["rows"]);
}
