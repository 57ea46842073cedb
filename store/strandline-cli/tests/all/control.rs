//! `strandline pool` on a database that a program has open, which is this test.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use strandline::Database;

fn pool(arguments: &[&str], path: &Path) -> Output {
    let (command, rest) = arguments.split_first().expect("a command");
    let mut strandline = Command::new(env!("CARGO_BIN_EXE_strandline"));
    strandline.args(["pool", command]).arg(path).args(rest).output().expect("the command runs")
}

fn printed(arguments: &[&str], path: &Path) -> String {
    let output = pool(arguments, path);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("it prints text")
}

#[test]
fn a_pool_in_use_is_looked_into() -> strandline::Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("orders.db");
    let db = Database::open(&path)?;
    let people = db.table::<u64, String>("people")?;
    let ages = db.table::<String, u8>("ages")?;
    db.write(|tx| {
        people.insert(tx, &7, "Ann")?;
        people.insert(tx, &8, "Bob")?;
        ages.insert(tx, "ann", &41)
    })?;

    let refused = pool(&["list"], &path);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("serve_control"), "{said}");

    let look = |is_open: bool| {
        let list = "table \"ages\": String -> u8, 1 rows\ntable \"people\": u64 -> String, 2 rows\n";
        assert_eq!(printed(&["list"], &path), list, "open: {is_open}");
        assert_eq!(printed(&["get", "people", "7"], &path), "{\"key\":7,\"value\":\"Ann\"}\n");
        assert_eq!(printed(&["get", "ages", "ann"], &path), "{\"key\":\"ann\",\"value\":41}\n");
        assert_eq!(
            printed(&["range", "people", "--from", "8", "--limit", "5"], &path),
            "{\"key\":8,\"value\":\"Bob\"}\n"
        );
        assert_eq!(pool(&["get", "people", "9"], &path).status.code(), Some(1));
        let wrong = pool(&["get", "people", "nobody"], &path);
        assert!(String::from_utf8_lossy(&wrong.stderr).contains("u64"), "{wrong:?}");
        let no_table = pool(&["range", "peolpe"], &path);
        assert!(String::from_utf8_lossy(&no_table.stderr).contains("peolpe"), "{no_table:?}");
        // The exit codes are the same whether the database is open or not.
        assert_eq!((wrong.status.code(), no_table.status.code()), (Some(2), Some(2)), "open: {is_open}");
        let dumped = printed(&["dump", "--json"], &path);
        let rows: Vec<Value> = dumped.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 2 + 3);
        let info: Value = serde_json::from_str(&printed(&["info", "--json"], &path)).unwrap();
        assert!(info["heap"]["allocated_bytes"].as_u64() > Some(0), "{info}");
        dumped
    };
    db.serve_control()?;
    let open = look(true);
    assert_eq!(printed(&["dump", "--json", "--table", "ages"], &path).lines().count(), 2);
    let statistics: Value = serde_json::from_str(&printed(&["statistics", "--json"], &path)).unwrap();
    assert!(statistics["commits"].as_u64() > Some(0), "{statistics}");
    assert!(printed(&["statistics"], &path).contains("write_seconds p99"));
    printed(&["checkpoint"], &path);
    let copy = folder.path().join("copy.db");
    printed(&["backup", copy.to_str().unwrap()], &path);
    db.close()?;

    assert_eq!(look(false), open);
    assert_eq!(printed(&["dump", "--json"], &copy), open);
    for what in ["statistics", "checkpoint"] {
        let closed = pool(&[what], &path);
        assert!(String::from_utf8_lossy(&closed.stderr).contains("no program"), "{closed:?}");
    }
    for what in ["list", "statistics", "checkpoint"] {
        let missing = pool(&[what], &folder.path().join("order.db"));
        assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    }
    assert!(!folder.path().join("order.db").exists());
    Ok(())
}
