//! A migration of a table by processes that die in the middle of it.

use std::path::Path;
use std::process::Command;

use strandline::Database;

const FOLDER: &str = "STRANDLINE_MIGRATION_FOLDER";
/// Number of steps of a life, so that one of the lives finishes, however much earlier ones have lost.
const STEPS: &str = "STRANDLINE_MIGRATION_STEPS";
const ROWS: u64 = 12_000;

fn fill(path: &Path) {
    let db = Database::open(path).unwrap();
    let rows = db.table::<u64, String>("rows").unwrap();
    for some in (0..ROWS).step_by(1000) {
        db.write(|tx| {
            (some..some + 1000).try_for_each(|key| rows.insert(tx, &key, &format!("row {key}")).map(drop))
        })
        .unwrap();
    }
    db.close().unwrap();
}

/// Continues the migration for some steps, and then dies. Steps that were not flushed are lost.
fn go_on(path: &Path, last: u64) {
    let db = Database::open(path).unwrap();
    let mut steps = 0;
    let convert = |key: u64, text: String| Ok(Some(((key % 10, key), (text, key))));
    let progress = |_| {
        steps += 1;
        if steps == last {
            // SAFETY: the call ends the process.
            unsafe { libc::_exit(0) }
        }
    };
    db.migrate("rows", convert, progress).unwrap();
    db.close().unwrap();
}

#[test]
fn a_migration_survives_kills() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return go_on(&Path::new(&folder).join("db"), std::env::var(STEPS).unwrap().parse().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    fill(&path);
    // Each life moves some rows, except those that it has not flushed when it dies.
    for life in 0..=ROWS {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "migration::a_migration_survives_kills", "--test-threads=1", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(STEPS, (4 + life).to_string());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(life < ROWS, "it gets nowhere");
        let db = Database::open(&path).unwrap();
        assert_eq!(db.lost_memory().unwrap().blocks, 0, "life {life}");
        assert_eq!(db.check().unwrap(), [""; 0]);
        let Ok(rows) = db.table::<(u64, u64), (String, u64)>("rows") else {
            db.close().unwrap();
            continue;
        };
        assert!(life > 2);
        let all: Vec<_> = db.read(|tx| rows.iter(tx)?.collect::<Result<_, _>>()).unwrap();
        let mut keys: Vec<u64> = all.iter().map(|(_, (_, key))| *key).collect();
        keys.sort_unstable();
        assert!(keys.into_iter().eq(0..ROWS), "each is there exactly once");
        assert!(
            all.iter().all(|(key, (text, own))| *key == (own % 10, *own) && *text == format!("row {own}"))
        );
        break;
    }
}
