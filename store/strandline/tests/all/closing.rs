//! The effects of closing a database on its handles, snapshots and sessions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use strandline::{
    Database, DatabaseSnapshot, Domain, Error, Geometry, Options, Session, SingleWriter, Snapshot,
    SnapshotRows, SnapshotView, Store, Table, Tables,
};

/// Checks at compile time that these types can be kept in structs and sent to threads.
const _: fn() = || {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<(Database, Database<SingleWriter>, Store<u64>)>();
    shared::<(DatabaseSnapshot, DatabaseSnapshot<SingleWriter>, Snapshot<u64>)>();
    sent::<(Session<u64>, Session<u64, SingleWriter>)>();
    sent::<(SnapshotView<'static>, SnapshotRows<u64, String>)>();
};

fn options(domain: Domain) -> Options {
    let geometry = Geometry { size: 64 << 20, logs: 4, log_bytes: 1 << 16, chunk_bytes: 1 << 16 };
    Options { domain, geometry, lock_bits: 12, ..Options::default() }
}

fn is_closed<T>(result: strandline::Result<T>) -> bool {
    matches!(result, Err(Error::Closed))
}

/// More threads than there are workers begin transactions all the time. Each transaction either commits or finds the database closed.
#[test]
fn closing_beside_transactions_that_begin_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut expected = [0; 6];
    for round in 0..30 {
        let db = Database::open_with(&path, &options(Domain::Process)).unwrap();
        assert_eq!(db.recovery().replayed(), 0, "it was closed");
        let table = db.table::<u64, u64>("numbers").unwrap();
        let begun = Barrier::new(expected.len() + 1);
        std::thread::scope(|threads| {
            for (thread, count) in expected.iter_mut().enumerate() {
                let (db, table, begun) = (db.clone(), &table, &begun);
                threads.spawn(move || {
                    let key = thread as u64;
                    begun.wait();
                    loop {
                        match db.write(|tx| table.insert(tx, &key, &(*count + 1))) {
                            Err(Error::Closed) => break,
                            written => drop(written.unwrap()),
                        }
                        *count += 1;
                        match db.read(|tx| table.get(tx, &key)) {
                            Err(Error::Closed) => break,
                            read => assert_eq!(read.unwrap(), Some(*count)),
                        }
                    }
                });
            }
            begun.wait();
            std::thread::sleep(Duration::from_micros(300 * round));
            db.close().unwrap();
        });
        assert!(is_closed(db.list()));
    }
    let db = Database::open_with(&path, &options(Domain::Process)).unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    for (thread, count) in expected.into_iter().enumerate() {
        assert_eq!(db.read(|tx| table.get(tx, &(thread as u64))).unwrap().unwrap_or(0), count);
    }
}

#[test]
fn closing_ends_every_handle() {
    for domain in [Domain::Process, Domain::Sync] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let db = Database::open_with(&path, &options(domain)).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        let handle = db.clone();
        handle.write(|tx| table.insert(tx, &1, &2)).unwrap();
        assert_eq!(db.read(|tx| table.get(tx, &1)).unwrap(), Some(2));
        let (_, ticket) = db.later().write(|tx| table.insert(tx, &2, &3)).unwrap();
        db.close().unwrap();
        ticket.wait().unwrap();
        for db in [&db, &handle] {
            assert!(is_closed(db.read(|tx| table.get(tx, &1))));
            assert!(is_closed(db.write(|tx| table.insert(tx, &1, &3))));
            assert!(is_closed(db.later().write(|tx| table.insert(tx, &1, &3))));
            assert!(is_closed(db.table::<u64, u64>("numbers")));
            assert!(is_closed(db.snapshot()) && is_closed(db.list()) && is_closed(db.check()));
            assert!(is_closed(db.space()) && is_closed(db.usage()) && is_closed(db.checkpoint()));
            assert!(is_closed(db.compact()) && is_closed(db.backup(folder.path().join("copy"))));
            assert!(is_closed(db.snapshot_usage()));
            assert_eq!(db.path(), std::fs::canonicalize(&path).unwrap());
            assert_eq!(db.recovery().replayed(), 0);
            db.close().unwrap();
        }
        // The files are released, although handles still exist.
        let again = Database::open_with(&path, &options(domain)).unwrap();
        assert_eq!(again.recovery().replayed(), 0, "it was closed");
        let table = again.table::<u64, u64>("numbers").unwrap();
        assert_eq!(again.read(|tx| table.len(tx)).unwrap(), 2);
    }
}

#[test]
fn closing_while_the_pool_itself_is_in_use_is_refused() {
    for domain in [Domain::Process, Domain::Sync] {
        let folder = tempfile::tempdir().unwrap();
        let store =
            Store::<u64>::create_new(folder.path().join("store"), &options(domain), |_| Ok(5)).unwrap();
        let pool = store.pool();
        assert!(matches!(store.close(), Err(Error::InUse { users: 1 })));
        // The store is still open.
        store.write(|tx, root| root.set(tx, &6)).unwrap();
        drop(pool);
        store.close().unwrap();
    }
}

#[test]
fn closing_waits_for_transactions_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::open_with(&path, &options(Domain::Process)).unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    std::thread::scope(|threads| {
        let (runs, has_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel();
        let writer = threads.spawn({
            let (db, table) = (db.clone(), table.clone());
            move || {
                db.write(|tx| {
                    table.insert(tx, &1, &2)?;
                    runs.send(()).unwrap();
                    may_go_on.recv().unwrap();
                    // While another thread closes the database, a closure's use of its handle must not wait for that.
                    assert!(is_closed(db.snapshot_usage()) && is_closed(db.space()));
                    assert!(matches!(db.snapshot(), Err(Error::Nested)));
                    assert!(matches!(db.close(), Err(Error::Nested)));
                    table.insert(tx, &2, &3)
                })
            }
        });
        has_begun.recv().unwrap();
        let closer = threads.spawn(|| db.close());
        // From some moment on, no transaction begins any more.
        while !is_closed(db.read(|tx| table.get(tx, &1))) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A second call of `close` waits together with the first.
        let second = threads.spawn(|| db.close());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!closer.is_finished() && !second.is_finished());
        go_on.send(()).unwrap();
        assert_eq!(writer.join().unwrap().unwrap(), None);
        closer.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
    });
    let db = Database::open_with(&path, &options(Domain::Process)).unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    assert_eq!(db.read(|tx| table.len(tx)).unwrap(), 2);
}

#[test]
fn snapshots_and_sessions_keep_it_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::<u64>::create_new(&path, &options(Domain::Sync), |_| Ok(5)).unwrap();
    let snapshot = store.snapshot().unwrap();
    let (clone, mut session) = (snapshot.clone(), store.session().unwrap());
    let refused = store.close();
    assert!(matches!(refused, Err(Error::InUse { users: 2 })), "{refused:?}");
    // The store is still open.
    store.write(|tx, root| root.set(tx, &6)).unwrap();
    session.write(|tx, root| root.update(tx, |number| *number += 1)).unwrap();
    drop((snapshot, session));
    assert!(matches!(store.close(), Err(Error::InUse { users: 1 })));
    let (tx, root) = clone.read();
    assert_eq!(root.get(&tx).unwrap(), 5);
    drop(tx);
    drop(clone);
    store.close().unwrap();
    let again = Store::<u64>::open_existing(&path, &options(Domain::Sync)).unwrap();
    assert_eq!(again.read(|tx, root| root.get(tx)).unwrap(), 7);
}

#[test]
fn a_snapshot_outlives_the_handles() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::open_with(&path, &options(Domain::Sync)).unwrap();
    let table = db.table::<u64, String>("names").unwrap();
    db.write(|tx| table.insert(tx, &1, "Ann")).unwrap();
    let snapshot = db.snapshot().unwrap();
    drop(db);
    assert!(matches!(Database::open_with(&path, &options(Domain::Sync)), Err(Error::Locked { .. })));
    let name = std::thread::spawn(move || table.get(&snapshot.read(), &1));
    assert_eq!(name.join().unwrap().unwrap().as_deref(), Some("Ann"));
    // The database was closed when its last snapshot was dropped.
    let db = Database::open_with(&path, &options(Domain::Sync)).unwrap();
    assert_eq!(db.recovery().replayed(), 0);
}

/// Reads views of one snapshot on several threads, two at a time on each, while others write.
fn views_see_one_moment(db: &Database, table: &Table<u64, u64>) {
    const ROWS: u64 = 500;
    db.write(|tx| (0..ROWS).try_for_each(|row| table.insert(tx, &row, &0).map(drop))).unwrap();
    let snapshot = db.snapshot().unwrap();
    let read = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for round in 0..20 {
                    let (first, second) = (snapshot.read(), snapshot.read());
                    let pairs = table.iter(&first).unwrap().zip(table.iter(&second).unwrap().rev());
                    for (number, (up, down)) in pairs.enumerate() {
                        assert_eq!(up.unwrap(), (number as u64, 0), "round {round}");
                        assert_eq!(down.unwrap(), (ROWS - 1 - number as u64, 0), "round {round}");
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for number in 1..20 {
            db.write(|tx| (0..ROWS).try_for_each(|row| table.insert(tx, &row, &number).map(drop))).unwrap();
        }
    });
    assert_eq!(read.into_inner(), 3 * 20 * ROWS);
    assert_eq!(snapshot.check().unwrap(), [""; 0]);
    // Views do not count as snapshots.
    let views: Vec<_> = (0..100).map(|_| snapshot.read()).collect();
    assert_eq!(db.snapshot_usage().unwrap().snapshots, 1);
    drop(views);
    drop(snapshot);
    assert_eq!(db.snapshot_usage().unwrap().snapshots, 0);
}

#[test]
fn views_of_a_snapshot_on_many_threads() {
    for domain in [Domain::Process, Domain::Sync] {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open_with(folder.path().join("db"), &options(domain)).unwrap();
        views_see_one_moment(&db, &db.table("numbers").unwrap());
    }
}

/// Iterators that own their snapshot, over tables with numbers of rows around a batch and its multiples.
#[test]
fn rows_own_their_snapshot() {
    let db = Database::in_memory().unwrap();
    let table = db.table::<String, u64>("numbers").unwrap();
    let name = |number: u64| format!("{number:08}");
    let mut all = Vec::new();
    for number in 0..200 {
        let rows = db.snapshot().unwrap().rows(&table);
        db.write(|tx| table.insert(tx, &name(number), &number)).unwrap();
        let found = std::thread::spawn(|| rows.collect::<strandline::Result<Vec<_>>>());
        assert_eq!(found.join().unwrap().unwrap(), all);
        all.push((name(number), number));
    }
    let mut rows = db.snapshot().unwrap().rows(&table);
    assert!(matches!(db.close(), Err(Error::InUse { users: 1 })));
    assert_eq!(rows.next().unwrap().unwrap(), all[0]);
    // A table of another database is refused once, and then the iteration ends.
    let other = Database::in_memory().unwrap().table::<String, u64>("numbers").unwrap();
    let mut rows = db.snapshot().unwrap().rows(&other);
    assert!(matches!(rows.next(), Some(Err(Error::Parameter(_)))));
    assert!(rows.next().is_none());
}

/// Threads use a database that others close. Each use succeeds or is refused, and the changes of those that succeeded are in the file.
#[test]
fn closing_beside_everything_else() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..30 {
        let path = folder.path().join(format!("db{round}"));
        let db = Database::open_with(&path, &options(Domain::Process)).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        let (begin, done) = (Arc::new(Barrier::new(5)), Arc::new(AtomicU64::new(0)));
        let users: Vec<_> = (0..4)
            .map(|user| {
                let (db, table, begin, done) = (db.clone(), table.clone(), begin.clone(), done.clone());
                std::thread::spawn(move || {
                    begin.wait();
                    loop {
                        let added = db.write(|tx| {
                            let sum = table.get(tx, &0)?.unwrap_or(0) + 1;
                            table.insert(tx, &0, &sum)
                        });
                        match added {
                            Ok(_) => _ = done.fetch_add(1, Ordering::Relaxed),
                            Err(Error::Closed) => return,
                            Err(error) => panic!("{error}"),
                        }
                        match db.snapshot() {
                            Ok(snapshot) if user == 0 => {
                                assert!(table.get(&snapshot.read(), &0).unwrap().is_some())
                            }
                            Ok(_) | Err(Error::Closed) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        begin.wait();
        std::thread::sleep(Duration::from_micros(100 * round));
        loop {
            match db.close() {
                Ok(()) => break,
                Err(Error::InUse { .. }) => assert!(db.list().is_ok(), "a refused call ends nothing"),
                Err(error) => panic!("{error}"),
            }
        }
        users.into_iter().for_each(|user| user.join().unwrap());
        let db = Database::open_with(&path, &options(Domain::Process)).unwrap();
        assert_eq!(db.recovery().replayed(), 0, "it was closed");
        let table = db.table::<u64, u64>("numbers").unwrap();
        let found = db.read(|tx| table.get(tx, &0)).unwrap().unwrap_or(0);
        assert_eq!(found, done.load(Ordering::Relaxed));
    }
}

/// Inside a transaction of another database, closing would wait for threads that may wait for that transaction.
#[test]
fn closing_inside_a_transaction_is_refused() {
    let (db, other) = (Database::in_memory().unwrap(), Database::in_memory().unwrap());
    let own = db.write(|_| Ok(db.close())).unwrap();
    assert!(matches!(own, Err(Error::Nested)), "{own:?}");
    let others = db.read(|_| Ok(other.close())).unwrap();
    assert!(matches!(others, Err(Error::Parameter(_))), "{others:?}");
    assert!(db.list().unwrap().is_empty() && other.list().unwrap().is_empty());
    other.close().unwrap();
    db.close().unwrap();
}

/// A store of tables that the program opened under another control can be shared, too.
#[test]
fn a_single_writer_is_shared_too() {
    let store =
        Store::<Tables, SingleWriter>::in_memory(&options(Domain::Process), |tx| Tables::new(tx)).unwrap();
    let (db, other) = (Database::from(store.clone()), Database::from(store.clone()));
    assert_eq!(db.id(), other.id());
    let table = db.table::<u64, u64>("numbers").unwrap();
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (db, table) = (db.clone(), &table);
            threads.spawn(move || db.write(|tx| table.insert(tx, &thread, &thread)).unwrap());
        }
    });
    assert_eq!(other.read(|tx| table.len(tx)).unwrap(), 4);
    store.close().unwrap();
    assert!(is_closed(db.read(|tx| table.len(tx))));
}
