//! Tests of the errors' messages and causes.

use std::error::Error as _;
use std::io::ErrorKind;

use super::*;

fn system() -> std::io::Error {
    ErrorKind::NotFound.into()
}

/// Returns errors of all kinds, with their messages.
fn examples() -> Vec<(Error, &'static str)> {
    let path = || PathBuf::from("/a/bank.pool");
    vec![
        (Error::io("open the pool", system()), "cannot open the pool"),
        (Error::Parameter("no \"name\"".into()), "no \"name\""),
        (
            Error::NotAPool { path: path() },
            "/a/bank.pool is not a Strandline pool: it does not begin with the pool magic; check the path, or create a pool \
             elsewhere",
        ),
        (
            Error::NewerFormat {
                path: path(),
                found: "format version 9".into(),
                supported: "version 2".into(),
            },
            "the pool /a/bank.pool has format version 9, this library knows version 2; open it with a newer Strandline",
        ),
        (
            Error::OlderFormat { path: path(), found: 1, supported: 2 },
            "the pool /a/bank.pool has format version 1, this library reads version 2 and later; read its data with the Strandline \
             that wrote it, and put them into a new pool",
        ),
        (
            Error::DamagedHeader { path: path(), problem: "its checksum does not match".into() },
            "the header of the pool /a/bank.pool is damaged (its checksum does not match); restore the pool from a backup",
        ),
        (
            Error::SeveralLinks { path: path(), links: 2 },
            "the pool /a/bank.pool has 2 hard links; its log is found by its name, so it must have one name only: \
             remove the others (`find -samefile` finds them; a repair that was cut short leaves one that ends in `.damaged`, and a restore one \
             that ends in `.replaced`: run `strandline pool restore` again)",
        ),
        (
            Error::Truncated { path: path(), expected: 8192, found: 4096 },
            "the pool /a/bank.pool has 4096 bytes and should have 8192: it was truncated; restore it from a backup",
        ),
        (Error::damaged("a log"), "the pool is damaged: a log; restore it from a backup"),
        (
            Error::irreparable("a log"),
            "the pool cannot be repaired and was not changed: a log; restore it from a backup",
        ),
        (
            Error::Missing { what: "queue", root: 4096 },
            "there is no queue at the root 0x1000; create it first",
        ),
        (
            Error::WrongStructure { what: "queue", root: 4096 },
            "the root 0x1000 does not hold the expected queue of these types and sizes; use another root, or open it with the types and \
             sizes that it has",
        ),
        (
            Error::Incomplete { what: "queue", root: 4096 },
            "the creation of the queue at the root 0x1000 was interrupted; create it again to finish it",
        ),
        (
            Error::Locked { path: path(), held: "reading", by: Some("process 7 (x)".into()) },
            "/a/bank.pool is in use: it is open for reading in process 7 (x); close it there first",
        ),
        (
            Error::Locked { path: path(), held: "writing", by: None },
            "/a/bank.pool is in use: it is open for writing in another process, or elsewhere in this one; close it there \
             first",
        ),
        (
            Error::WrongLayout { path: path(), expected: "a".into(), found: "b\n".into() },
            "the layout of the pool /a/bank.pool is named \"b\\n\", not \"a\": it belongs to another program",
        ),
        (
            Error::WrongDomain { path: path(), wrote: "sync".into(), asked: "process".into() },
            "the pool /a/bank.pool was not closed cleanly and was written under domain sync; open it once under sync to \
             recover it (asked: process)",
        ),
        (
            Error::Unprotected { path: Some(path()) },
            "the pool /a/bank.pool was used without persistence (scheme np or volatile) and not closed cleanly: what it \
             holds is undefined; restore it from a backup, or create it again",
        ),
        (
            Error::Unprotected { path: None },
            "the pool was used without persistence (scheme np or volatile) and not closed cleanly: what it holds is \
             undefined; restore it from a backup, or create it again",
        ),
        (
            Error::NotPersistentMemory { path: Some(path()) },
            "the pool /a/bank.pool is not on persistent memory (MAP_SYNC refused); use the Sync domain on an ordinary \
             file system",
        ),
        (
            Error::LogFile {
                path: "/a/bank.pool.log".into(),
                problem: "is missing".into(),
                advice: "put it back".into(),
            },
            "the log file /a/bank.pool.log is missing; put it back",
        ),
        (
            Error::ChecksumFile { path: "/a/bank.pool.sums".into(), problem: "has a damaged header".into() },
            "the checksum file /a/bank.pool.sums has a damaged header; the pool works without it: delete it, and create another from the present contents with \
             `strandline pool checksum`",
        ),
        (
            Error::UnsupportedInstruction("clwb"),
            "this processor has no clwb; choose another write-back instruction or the Sync domain",
        ),
        (
            Error::UnsupportedDomain("flush"),
            "the domain flush needs an x86-64 processor, because its order of stores is checked on these only; use the Sync domain, \
             or Process if a power failure may destroy everything",
        ),
        (
            Error::NoProtectionKey { source: system() },
            "open the pool without `protect`: this system gives it no memory protection key, because it has none or because all \
             15 are taken",
        ),
        (Error::Unsupported("growth".into()), "not supported: growth"),
        (
            Error::OtherScheme { path: Some(path()), code: 7 },
            "the pool /a/bank.pool was left by another scheme than bppm (number 7 in its state word), which this program \
             does not have; `strandline-lab pool recover FILE` recovers and closes it, and then every program can open it",
        ),
        (
            Error::OtherScheme { path: None, code: 7 },
            "the pool was left by another scheme than bppm (number 7 in its state word), which this program does not \
             have; `strandline-lab pool recover FILE` recovers and closes it, and then every program can open it",
        ),
        (
            Error::Full { bytes: 64 },
            "the pool is full: no room for 64 bytes; free something, create a larger pool, or open it with more address space \
             if that is limited",
        ),
        (
            Error::TransactionTooLarge { records: 64 },
            "the transaction is larger than its log of 64 records; split it or create the pool with larger logs",
        ),
        (
            Error::OutsideLockSet(4096),
            "the transaction writes address 0x1000, which its lock set does not cover; declare a lock for it, or declare \
             no locks, so that they are found automatically",
        ),
        (
            Error::NoFreeLog { logs: 4 },
            "all 4 logs of the pool are in use; drop a worker or create the pool with more logs",
        ),
        (
            Error::TooManySnapshots { most: 64 },
            "there are 64 snapshots already, as many as a pool can have; drop one",
        ),
        (
            Error::SnapshotEnded { bytes: 4096 },
            "the snapshot was ended: the old versions that it needs take more than 4096 bytes; begin another, or open the pool with larger Options::snapshot_bytes",
        ),
        (
            Error::Nested,
            "this thread already has a transaction open on this pool; do this after the transaction's closure has returned, or \
             pass the transaction to the code that is to be a part of it",
        ),
        (
            Error::Deadlock { held: path(), awaited: PathBuf::from("/a/shop.pool") },
            "deadlock: inside a transaction of /a/bank.pool this thread waits for /a/shop.pool, and threads that use that one wait for \
             the transaction; begin transactions of several pools in the same order everywhere, or run the outermost one again",
        ),
        (
            Error::Forked,
            "the pool was opened by the process that this one was forked from, and only that process can use it; open it after \
             the fork, in the process that is to use it",
        ),
        (Error::Closed, "the database was closed; open it again to use it"),
        (
            Error::InUse { users: 2 },
            "the database cannot be closed: 2 of its snapshots or sessions still exist; drop them, and close it again",
        ),
        (Error::InvalidAddress(4097), "address 0x1001 is not an aligned word of the pool's heap"),
        (Error::InvalidFree(4096), "nothing is allocated at 0x1000: it was freed twice or never allocated"),
        (
            Error::Dangling { at: 4096, expected: "Book" },
            "no value of type Book is at 0x1000: it was freed, or a value of another type is there",
        ),
        (
            Error::RootLayout {
                found: "Bank".into(),
                expected: "Library".into(),
                differences: "\n  Bank.name: u64 became u32".into(),
            },
            "the pool's root is Bank; this program expects Library: open it with a migration from that type\n  Bank.name: u64 became u32",
        ),
        (
            Error::NoTable { name: "notes".into() },
            "there is no table `notes`, or it was deleted after it had been opened",
        ),
        (
            Error::TableTypes { table: "notes".into(), differences: "\n  Note.text: String: new".into() },
            "the table `notes` holds other types than this program expects:\n  Note.text: String: new\nopen it with the types that \
             it has, or under another name, or convert it with `Database::migrate`",
        ),
        (Error::Interrupted, "the transaction was interrupted; return this error from its closure"),
        (Error::ReadOnly, "a read-only transaction cannot write"),
        (Error::Aborted, "the transaction was aborted by its caller"),
        (
            Error::Poisoned { why: "flushing the heap: x".into(), kind: ErrorKind::StorageFull },
            "the pool failed earlier (flushing the heap: x); the outcome of unacknowledged transactions is \
             unknown: close the pool, repair the device and open it again",
        ),
    ]
}

/// Prints an error as a program does that knows only the standard library: the error, and each cause after a colon.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

#[test]
fn each_kind_has_its_message() {
    for (error, text) in examples() {
        assert_eq!(error.to_string(), text);
    }
    for kind in super::ErrorKind::ALL {
        assert!(examples().iter().any(|(error, _)| error.kind() == *kind), "no example of {kind:?}");
    }
}

#[test]
fn a_chain_has_each_cause_once() {
    let read = std::io::Error::other(Error::io("read a film", system()));
    let nested = Error::Io { what: "store a film".into(), source: read };
    let mut with_causes = 0;
    for error in examples().into_iter().map(|(error, _)| error).chain([nested]) {
        let text = error.to_string();
        let has_cause = matches!(error, Error::Io { .. } | Error::NoProtectionKey { .. });
        assert_eq!(error.source().is_some(), has_cause, "{text}");
        with_causes += usize::from(has_cause);
        let printed = chain(&error);
        assert_eq!(format!("{error:#}"), printed);
        let mut cause = error.source();
        while let Some(one) = cause {
            assert_eq!(printed.matches(&one.to_string()).count(), 1, "{printed}");
            cause = one.source();
        }
        assert_eq!(format!("{:#}", anyhow::Error::from(error)), printed);
    }
    assert_eq!(with_causes, 3);
}

#[test]
fn an_error_that_a_reader_hands_on_is_not_wrapped() {
    let handed_on = std::io::Error::other(Error::Nested);
    assert!(matches!(Error::io("store a value", handed_on), Error::Nested));
}

#[test]
fn an_error_names_its_pool() {
    let at = Path::new("/a/bank.pool");
    let named = Error::damaged("a log").in_pool(at).in_pool(Path::new("/b"));
    assert_eq!(named.to_string(), "the pool /a/bank.pool is damaged: a log; restore it from a backup");
    let named = Error::irreparable("a log").in_pool(at);
    assert!(named.to_string().starts_with("the pool /a/bank.pool cannot be repaired"), "{named}");
}
