//! Requests of other processes to an open database.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use strandline::control::{Request, ask, socket_path};
use strandline::{Database, Error, Options};

/// Returns a folder, and the path of a database in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("its path").join("orders.db");
    (folder, path)
}

fn asked(path: &Path, request: &Request) -> std::io::Result<Vec<Value>> {
    let mut lines = Vec::new();
    ask(path, request, |line| {
        lines.push(line);
        Ok(())
    })?;
    Ok(lines)
}

fn range(table: &str, from: Option<Value>, to: Option<Value>, limit: Option<u64>) -> Request {
    Request::Range { table: table.into(), from, to, limit }
}

#[test]
fn each_request_is_answered() -> Result<(), Box<dyn std::error::Error>> {
    let (folder, path) = place();
    let db = Database::open(&path)?;
    let ages = db.table::<String, u32>("ages")?;
    let signed = db.table::<i64, ()>("signed")?;
    let towns = db.multimap::<u8, String>("towns")?;
    let jobs = db.queue::<u64>("jobs")?;
    db.write(|tx| {
        for (name, age) in [("ann", 41), ("bob", 29), ("eve", 35)] {
            ages.insert(tx, name, &age)?;
        }
        for number in -3..3 {
            signed.insert(tx, &number, &())?;
        }
        for (key, town) in [(1, "Bern"), (1, "Ulm"), (2, "Jena"), (255, "Linz"), (255, "Wels")] {
            towns.insert(tx, &key, town)?;
        }
        jobs.push(tx, &7)
    })?;
    db.serve_control()?;
    db.serve_control()?;

    let tables = asked(&path, &Request::List)?;
    let named: Vec<_> = tables
        .iter()
        .map(|table| (table["table"].as_str().unwrap(), table["rows"].as_u64().unwrap()))
        .collect();
    assert_eq!(named, [("ages", 3), ("jobs", 1), ("signed", 6), ("towns", 5)]);

    let get = |table: &str, key: Value| asked(&path, &Request::Get { table: table.into(), key });
    assert_eq!(get("ages", json!("bob"))?, [json!({"key": "bob", "value": 29})]);
    assert!(get("ages", json!("zoe"))?.is_empty());
    let both = [json!({"key": 255, "value": "Linz"}), json!({"key": 255, "value": "Wels"})];
    assert_eq!(get("towns", json!(255))?, both);
    assert_eq!(get("signed", json!(-2))?.len(), 1);

    let keys = |request: &Request| -> std::io::Result<Vec<Value>> {
        Ok(asked(&path, request)?.iter().map(|row| row["key"].clone()).collect())
    };
    assert_eq!(keys(&range("ages", Some(json!("b")), None, None))?, ["bob", "eve"]);
    assert_eq!(keys(&range("ages", None, Some(json!("eve")), None))?, ["ann", "bob"]);
    assert_eq!(keys(&range("signed", Some(json!(-1)), Some(json!(2)), None))?, [-1, 0, 1]);
    assert_eq!(keys(&range("signed", None, None, Some(2)))?, [-3, -2]);
    assert!(keys(&range("signed", None, None, Some(0)))?.is_empty());
    assert_eq!(keys(&range("towns", Some(json!(2)), Some(json!(255)), None))?, [2]);

    let one = asked(&path, &Request::Dump { table: Some("ages".into()) })?;
    assert_eq!((one.len(), one[0]["rows"].as_u64()), (4, Some(3)));
    assert_eq!(asked(&path, &Request::Dump { table: None })?.len(), 4 + 15);

    asked(&path, &Request::Checkpoint)?;
    let statistics = asked(&path, &Request::Statistics)?;
    assert!(statistics[0]["checkpoint_seconds"]["count"].as_u64() >= Some(1), "{statistics:?}");
    let usage = asked(&path, &Request::Usage)?;
    assert!(usage[0]["heap"]["allocated_bytes"].as_u64() > Some(0), "{usage:?}");

    let copy = folder.path().join("copy.db");
    asked(&path, &Request::Backup { to: copy.clone() })?;
    let copied = Database::open(&copy)?;
    assert_eq!(copied.count("towns")?, 5);

    let refusal = |request: &Request| asked(&path, request).unwrap_err().to_string();
    assert!(refusal(&Request::Get { table: "agse".into(), key: json!("bob") }).contains("agse"));
    assert!(refusal(&Request::Get { table: "ages".into(), key: json!([1]) }).contains("String"));
    assert!(refusal(&Request::Get { table: "jobs".into(), key: json!(1) }).contains("queue"));
    assert!(refusal(&Request::Dump { table: Some("agse".into()) }).contains("agse"));
    assert!(refusal(&Request::Backup { to: copy }).contains("copy.db"));
    Ok(())
}

#[test]
fn the_socket_is_the_owners_and_goes_with_the_database() -> strandline::Result<()> {
    let (_folder, path) = place();
    let socket = socket_path(&path);
    let db = Database::open(&path)?;
    // If a file of another kind has the socket's name, it is not removed.
    std::fs::write(&socket, "precious").unwrap();
    assert!(matches!(db.serve_control(), Err(Error::Io { .. })));
    assert_eq!(std::fs::read(&socket).unwrap(), b"precious");
    std::fs::remove_file(&socket).unwrap();
    // A killed process has left its socket.
    drop(UnixListener::bind(&socket).unwrap());
    db.serve_control()?;
    let about = std::fs::symlink_metadata(&socket).unwrap();
    assert!(about.file_type().is_socket());
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    db.close()?;
    assert!(!socket.exists());
    let gone = asked(&path, &Request::List).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert!(matches!(db.serve_control(), Err(Error::Closed)));

    let db = Database::open(&path)?;
    db.serve_control()?;
    assert!(asked(&path, &Request::List).unwrap().is_empty());
    let nested = db.write(|_| Ok(db.serve_control()))?;
    assert!(matches!(nested, Err(Error::Nested)), "{nested:?}");
    drop(db);
    assert!(!socket.exists());

    let reader = Database::open_read_only(&path, &Options::default())?;
    assert!(matches!(reader.serve_control(), Err(Error::ReadOnly)));
    assert!(matches!(Database::in_memory()?.serve_control(), Err(Error::Unsupported(_))));
    // A pool cannot have the name of a socket.
    assert!(matches!(Database::open(&socket), Err(Error::Parameter(_))));
    Ok(())
}

#[test]
fn nonsense_is_refused() -> strandline::Result<()> {
    let (_folder, path) = place();
    let db = Database::open(&path)?;
    db.serve_control()?;
    for nonsense in ["", "list", r#"{"get": {"table": "a"}}"#, r#"{"drop": null}"#, "[1, 2"] {
        let mut stream = UnixStream::connect(socket_path(&path)).unwrap();
        writeln!(stream, "{nonsense}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, refusal) = answer.split_once('\n').expect("two lines");
        assert!(refusal.starts_with(r#"{"error":"cannot understand the request: "#), "{nonsense}: {answer}");
    }
    // The test writes the request as a user would do it without the client.
    let mut stream = UnixStream::connect(socket_path(&path)).unwrap();
    writeln!(stream, r#""list""#).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "{\"begin\":true}\n{\"end\":true}\n");
    let long = Request::Get { table: "a".repeat(2 << 20), key: json!(1) };
    assert!(asked(&path, &long).unwrap_err().to_string().contains("longer than"));
    Ok(())
}

/// A client requests everything and then does not read the answer.
#[test]
fn a_slow_reader_keeps_nobody_from_closing() -> strandline::Result<()> {
    for closes in [true, false] {
        close_beside_a_slow_reader(closes)?;
    }
    Ok(())
}

/// Closes the database, or drops its last handle, beside a client that does not read.
fn close_beside_a_slow_reader(closes: bool) -> strandline::Result<()> {
    let (_folder, path) = place();
    let db = Database::open(&path)?;
    let texts = db.table::<u64, String>("texts")?;
    let text = "x".repeat(1000);
    db.write(|tx| (0..2000).try_for_each(|n| texts.insert(tx, &n, &text).map(drop)))?;
    db.serve_control()?;
    let mut stream = UnixStream::connect(socket_path(&path)).unwrap();
    writeln!(stream, r#"{{"dump": {{}}}}"#).unwrap();
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    for _ in 0..2 {
        lines.read_line(&mut first).unwrap();
    }
    assert!(first.contains(r#""table":"texts""#), "{first}");
    // The answer is being sent: its snapshot exists.
    assert_eq!(db.snapshot_usage()?.snapshots, 1);
    // This client sends no request.
    let silent = UnixStream::connect(socket_path(&path)).unwrap();
    if closes {
        db.close()?;
    } else {
        drop(db);
    }
    // The database was closed cleanly, and no process has it open any more.
    assert_eq!(Database::open(&path)?.recovery().replayed(), 0);
    // The server ends the connection. If it kept it open, this read would fail after a minute.
    silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut rest = String::new();
    (&silent).read_to_string(&mut rest).expect("the connection ends");
    Ok(())
}

/// After a close that is refused, the socket still answers.
#[test]
fn a_refused_close_goes_on_answering() -> strandline::Result<()> {
    let (_folder, path) = place();
    let db = Database::open(&path)?;
    db.serve_control()?;
    let snapshot = db.snapshot()?;
    assert!(matches!(db.close(), Err(Error::InUse { users: 1 })));
    assert!(asked(&path, &Request::List).unwrap().is_empty());
    drop(snapshot);
    db.close()
}

/// An answer contains all of a transaction that commits meanwhile, or nothing of it.
#[test]
fn answers_are_of_one_moment() -> strandline::Result<()> {
    let (_folder, path) = place();
    let db = Database::open(&path)?;
    let (left, right) = (db.table::<u64, u64>("left")?, db.table::<u64, u64>("right")?);
    db.write(|tx| (0..200).try_for_each(|n| left.insert(tx, &n, &n).map(drop)))?;
    db.serve_control()?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let (db, left, right) = (&db, &left, &right);
        threads.spawn(|| {
            // Moves rows from one table to the other and back until the readers are done.
            for n in (0..200).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                db.write(|tx| match left.remove(tx, &n)? {
                    Some(_) => right.insert(tx, &n, &n).map(drop),
                    None => {
                        right.remove(tx, &n)?;
                        left.insert(tx, &n, &n).map(drop)
                    }
                })
                .unwrap();
            }
        });
        let dumps: Vec<_> = (0..30).map(|_| asked(&path, &Request::Dump { table: None })).collect();
        is_over.store(true, Ordering::Relaxed);
        for lines in dumps {
            assert_eq!(lines.unwrap().len(), 2 + 200, "rows are lost or there twice");
        }
    });
    Ok(())
}
