//! A database that another process has open: SQLite waits for it with its busy handler, as for any lock. These tests are a separate program: a
//! process that is being started would inherit the locks of the pools of the other tests in `sqlite.rs`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use strandline_sqlite::rusqlite::{Connection, Error, ErrorCode};

const PATH: &str = "STRANDLINE_SQLITE_TEST_PATH";
const DESCRIPTORS: &str = "STRANDLINE_SQLITE_TEST_DESCRIPTORS";

/// Opens the database at `path` with parameters of the URI. It waits long for locks, because a process that is being started briefly holds its
/// parent's.
fn open(path: &Path, parameters: &str) -> Result<Connection, Error> {
    strandline_sqlite::register().unwrap();
    let opened = Connection::open(format!("file:{}?vfs=strandline{parameters}", path.display()))?;
    opened.busy_timeout(Duration::from_secs(60))?;
    Ok(opened)
}

/// Opens a database that another process has open.
fn open_busy(path: &Path, parameters: &str) -> Connection {
    let database = open(path, parameters).unwrap();
    database.busy_timeout(Duration::ZERO).unwrap();
    assert!(is_busy(count(&database)) && is_busy(count(&database)), "{parameters}");
    database
}

fn count(database: &Connection) -> Result<i64, Error> {
    database.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
}

fn is_busy<T>(found: Result<T, Error>) -> bool {
    found.err().and_then(|error| error.sqlite_error_code()) == Some(ErrorCode::DatabaseBusy)
}

/// The other process: keeps the database open until it is told to close it.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let database = open(path.as_ref(), "").unwrap();
    database.execute_batch("CREATE TABLE IF NOT EXISTS t (v); INSERT INTO t VALUES (1)").unwrap();
    println!("\nopen");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]).unwrap();
}

fn program(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Starts a process that opens the database at `path`.
fn other_process(path: &Path) -> Child {
    let mut child = program("child").env(PATH, path).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "open"));
    // Reads the rest of the child's output, so that the child can go on printing.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn close(child: &mut Child) {
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn processes_that_create_a_database_at_once_all_have_it() {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let start = || program("child").env(PATH, &path).stdin(Stdio::null()).spawn().unwrap();
        let children: Vec<Child> = (0..3).map(|_| start()).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success(), "round {round}");
        }
        assert_eq!(count(&open(&path, "").unwrap()), Ok(3), "round {round}");
    }
}

/// The process that the busy handler tells to close the database when SQLite first calls it.
static OTHER: Mutex<Option<Child>> = Mutex::new(None);

#[test]
fn the_busy_handler_waits_for_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    for (parameters, writes) in [("", true), ("", false), ("&mode=ro", false), ("&read_only=1", false)] {
        let mut other = other_process(&path);
        let mut database = open_busy(&path, parameters);
        *OTHER.lock().unwrap() = Some(other);
        database
            .busy_handler(Some(|_| {
                if let Some(mut other) = OTHER.lock().unwrap().take() {
                    close(&mut other);
                }
                true
            }))
            .unwrap();
        if writes {
            database.execute("INSERT INTO t VALUES (2)", []).unwrap();
        }
        assert!(count(&database).unwrap() > 0);
        assert!(OTHER.lock().unwrap().is_none());
        // The file that SQLite read as empty must have its contents now.
        let verdict: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
        drop(database);
        // Waits with a timeout, however long the other process takes.
        other = other_process(&path);
        let database = open_busy(&path, parameters);
        database.execute_batch("PRAGMA busy_timeout = 60000").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| close(&mut other));
            assert!(count(&database).unwrap() > 0);
        });
    }
}

/// The database has another page size and other reserved bytes than the empty file that SQLite first read.
#[test]
fn a_database_that_was_busy_has_its_own_page_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = open(&path, "").unwrap();
    database
        .execute_batch("PRAGMA page_size = 16384; PRAGMA auto_vacuum = FULL; CREATE TABLE t (v)")
        .unwrap();
    drop(database);
    let mut other = other_process(&path);
    let database = open_busy(&path, "");
    assert!(is_busy(database.execute("INSERT INTO t VALUES (zeroblob(100000))", [])));
    close(&mut other);
    database.execute("INSERT INTO t VALUES (zeroblob(100000))", []).unwrap();
    let pragma =
        |name: &str| database.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((pragma("page_size"), pragma("auto_vacuum"), count(&database).unwrap()), (16384, 1, 2));
}

/// SQLite cannot wait for a file that it never locks.
#[test]
fn without_locks_a_busy_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut other = other_process(&path);
    for parameters in ["&immutable=1", "&nolock=1"] {
        assert!(is_busy(open(&path, parameters)), "{parameters}");
    }
    close(&mut other);
    for parameters in ["&immutable=1", "&mode=ro", "&read_only=1", "&read_only=on"] {
        let readers = [open(&path, parameters).unwrap(), open(&path, parameters).unwrap()];
        assert_eq!(readers.each_ref().map(|reader| count(reader).unwrap()), [1, 1], "{parameters}");
        let refused = readers[0].execute("DELETE FROM t", []).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly), "{parameters}");
    }
    let read_only = open(&folder.path().join("none"), "&read_only=1");
    assert_eq!(read_only.unwrap_err().sqlite_error_code(), Some(ErrorCode::CannotOpen), "it makes none");
    assert!(!folder.path().join("none").exists());
}

#[test]
fn a_uri_bounds_memory_and_address_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    for wrong in ["&memory=1", "&memory=much", "&memory=", "&address_space=4095", "&address_space=-4096"] {
        let refused = open(&path, wrong).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::CannotOpen), "{wrong}");
        assert!(!path.exists());
    }
    let bounded = "&memory=16777216&address_space=134217728";
    let database = open(&path, bounded).unwrap();
    database.execute_batch("CREATE TABLE t (v); INSERT INTO t VALUES (1)").unwrap();
    let full = database.execute("INSERT INTO t VALUES (zeroblob(150000000))", []).unwrap_err();
    assert_eq!(full.sqlite_error_code(), Some(ErrorCode::DiskFull), "the file grows no further: {full}");
    assert_eq!(count(&database).unwrap(), 1);
    drop(database);
    assert_eq!(count(&open(&path, &format!("{bounded}&mode=ro")).unwrap()).unwrap(), 1);
}

/// The process with closed standard descriptors.
#[test]
fn without_descriptors() {
    let Some(path) = std::env::var_os(DESCRIPTORS) else { return };
    for descriptor in 0..3 {
        // SAFETY: nothing else in this process uses them.
        unsafe { libc::close(descriptor) };
    }
    let message = [b'm'; 1 << 16];
    for _ in 0..2 {
        let database = open(path.as_ref(), "").unwrap();
        database.execute_batch("CREATE TABLE IF NOT EXISTS t (v); INSERT INTO t VALUES (1)").unwrap();
        for descriptor in 0..3 {
            // The result does not matter. SAFETY: the call reads the message.
            unsafe { libc::write(descriptor, message.as_ptr().cast(), message.len()) };
        }
    }
    std::process::exit(7);
}

#[test]
fn standard_descriptors_may_be_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let status = program("without_descriptors").env(DESCRIPTORS, &path).status().unwrap();
    assert_eq!(status.code(), Some(7));
    let database = open(&path, "").unwrap();
    let verdict: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!((verdict.as_str(), count(&database).unwrap()), ("ok", 2));
}
