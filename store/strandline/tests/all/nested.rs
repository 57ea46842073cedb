//! Calls every public method of a database, a store and a pool inside a transaction, a small and a large one. It must return, with `Nested` or with
//! its result, and the transaction must commit. A method that is not listed here fails the test.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use strandline::{
    Control, Database, DatabaseSnapshot, Domain, Dynamic, Error, Geometry, Options, OrderedMap, Persist,
    Result, Root, Session, SingleWriter, Snapshot, Stm, Store, SyncParameters, TableDescription, Tables,
    Ticket, View,
};
use strandline_core::memory::Native;
use strandline_core::{Pool, Runner, Transaction};

/// The sources whose public methods are called. Each has a list of methods that are not called, with the reason.
const SOURCES: [(&str, &str, &[&str]); 8] = [
    ("database", include_str!("../../src/database/mod.rs"), &[]),
    ("upkeep", include_str!("../../src/database/upkeep.rs"), &[]),
    // The pool's methods are listed as `pool`.
    ("store", include_str!("../../src/store/mod.rs"), &["pool"]),
    ("export", include_str!("../../src/database/export.rs"), &[]),
    ("migrate", include_str!("../../src/database/migrate.rs"), &[]),
    (
        "pool",
        include_str!("../../../strandline-core/src/file/pool.rs"),
        // These create a pool, or belong to the laboratory.
        &[
            "create",
            "create_with",
            "create_unnamed",
            "open",
            "open_read_only",
            "unprotected_view",
            "outside",
            "worker_of",
            "close",
        ],
    ),
    (
        "leases",
        include_str!("../../../strandline-core/src/file/leases.rs"),
        // These are methods of the pool's list of idle workers. `return_worker` has nothing to return, since a worker cannot be had here.
        &["idle_workers", "borrow", "count_borrowed", "give_back", "end", "return_worker"],
    ),
    ("compact", include_str!("../../../strandline-core/src/file/compact.rs"), &[]),
];

fn public_methods(source: &str) -> BTreeSet<&str> {
    let declared = source.lines().filter_map(|line| line.strip_prefix("    pub fn "));
    declared.filter_map(|line| line.split(['(', '<']).next()).collect()
}

/// The result that a call is expected to return inside a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expected {
    Nested,
    Done,
}
use Expected::{Done, Nested};

fn outcome<T>(result: Result<T>) -> Result<Expected> {
    match result {
        Ok(_) => Ok(Done),
        Err(Error::Nested) => Ok(Nested),
        Err(other) => Err(other),
    }
}

/// The name of a source, a method of it, the expected result, and the result.
type Called = (&'static str, &'static str, Expected, Result<Expected>);

macro_rules! call {
    ($called:ident, $source:literal, $name:literal, $expected:ident, $call:expr) => {
        $called.push(($source, $name, $expected, outcome($call)))
    };
}

fn call_database<C: Control<Memory = Native>>(
    db: &Database<C>,
    tx: &View<'_, C>,
    snapshot: &DatabaseSnapshot<C>,
    about: &TableDescription,
) -> Vec<Called> {
    let (mut to, nothing) = (Vec::new(), || std::iter::empty::<Result<(Dynamic, Dynamic)>>());
    call!(to, "database", "table", Nested, db.table::<u64, u64>("new"));
    call!(to, "database", "multimap", Nested, db.multimap::<u64, u64>("new"));
    call!(to, "database", "queue", Nested, db.queue::<u64>("new"));
    call!(to, "database", "catalogue", Done, db.catalogue(tx));
    call!(to, "database", "list", Nested, db.list());
    call!(to, "database", "delete", Nested, db.delete("numbers"));
    call!(to, "database", "write", Nested, db.write(|_| Ok(())));
    call!(to, "database", "write_with_error", Nested, db.write_with_error(|_| Ok::<_, Error>(())));
    call!(to, "database", "read", Nested, db.read(|_| Ok(())));
    call!(to, "database", "read_with_error", Nested, db.read_with_error(|_| Ok::<_, Error>(())));
    call!(to, "database", "later", Nested, db.later().write(|_| Ok(())));
    call!(to, "database", "write_with_error", Nested, db.later().write_with_error(|_| Ok::<_, Error>(())));
    call!(to, "database", "snapshot", Nested, db.snapshot());
    call!(to, "upkeep", "snapshot_usage", Done, db.snapshot_usage());
    call!(to, "upkeep", "check", Nested, db.check());
    call!(to, "database snapshot", "read", Done, db.catalogue(&snapshot.read()));
    call!(to, "database snapshot", "check", Done, snapshot.check());
    call!(to, "upkeep", "lost_memory", Nested, db.lost_memory());
    call!(to, "upkeep", "recovery", Done, Ok(db.recovery()));
    call!(to, "upkeep", "usage", Nested, db.usage());
    call!(to, "upkeep", "space", Done, db.space());
    call!(to, "upkeep", "statistics", Done, db.statistics());
    call!(to, "upkeep", "compact", Nested, db.compact());
    call!(to, "upkeep", "checkpoint", Nested, db.checkpoint());
    call!(to, "upkeep", "backup", Nested, db.backup(db.path().with_extension("copy")));
    call!(to, "database", "path", Done, Ok(db.path()));
    call!(to, "database", "id", Done, Ok(db.id()));
    // A snapshot of the database exists, but nothing is dropped before the transaction has ended.
    call!(to, "database", "close", Nested, db.close());
    call!(to, "export", "count", Nested, db.count("numbers"));
    call!(to, "export", "len", Nested, db.len("numbers"));
    call!(to, "export", "dump", Nested, db.dump("numbers", |_, _| Ok(())));
    call!(to, "export", "load", Nested, db.load(about, nothing()));
    call!(to, "migrate", "migrate", Nested, db.migrate("numbers", |k: u64, v: u64| Ok(Some((v, k))), |_| {}));
    let swap = |k: u64, v: u64| Ok(Some((v, k)));
    call!(to, "migrate", "migrate_multimap", Nested, db.migrate_multimap("pairs", swap, |_| {}));
    call!(to, "migrate", "migrate_queue", Nested, db.migrate_queue("queue", |v: u64| Ok(Some(v)), |_| {}));
    to
}

fn poll(ticket: &Ticket) -> Result<()> {
    match pin!(ticket.clone()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ready) => ready,
        Poll::Pending => Ok(()),
    }
}

fn call_store<C: Control<Memory = Native>>(
    store: &Store<Rows<'static>, C>,
    session: &mut Session<Rows<'static>, C>,
    snapshot: &Snapshot<Rows<'static>, C>,
    ticket: &Ticket,
) -> Vec<Called>
where
    Rows<'static>: for<'p> Root<At<'p> = Rows<'p>>,
{
    let (mut to, pool) = (Vec::new(), store.pool());
    let in_flush_or_mapped = pool.recovery().sync.is_none();
    call!(to, "store", "write", Nested, store.write(|_, _| Ok(())));
    call!(to, "store", "write_with_error", Nested, store.write_with_error(|_, _| Ok::<_, Error>(())));
    call!(to, "store", "later", Nested, store.later().write(|_, _| Ok(())));
    call!(to, "store", "write_with_error", Nested, store.later().write_with_error(|_, _| Ok::<_, Error>(())));
    call!(to, "store", "read", Nested, store.read(|_, _| Ok(())));
    call!(to, "store", "read_with_error", Nested, store.read_with_error(|_, _| Ok::<_, Error>(())));
    call!(to, "store", "write", Nested, session.write(|_, _| Ok(())));
    call!(to, "store", "write", Nested, session.later().write(|_, _| Ok(())));
    call!(to, "store", "read", Nested, session.read(|_, _| Ok(())));
    call!(to, "store", "check", Nested, store.check());
    call!(to, "store", "check", Done, snapshot.check());
    call!(to, "store", "lost_memory", Nested, store.lost_memory());
    call!(to, "store", "snapshot", Nested, store.snapshot());
    call!(to, "store", "snapshot_usage", Done, store.snapshot_usage());
    call!(to, "store", "session", Nested, store.session());
    call!(to, "store", "recovery", Done, Ok(store.recovery()));
    call!(to, "store", "usage", Nested, store.usage());
    call!(to, "store", "space", Done, store.space());
    call!(to, "store", "statistics", Done, store.statistics());
    call!(to, "store", "compact", Nested, store.compact());
    call!(to, "store", "path", Done, Ok(store.path()));
    call!(to, "store", "close", Nested, store.close());
    call!(to, "store", "checkpoint", Nested, store.checkpoint());
    call!(to, "store", "backup", Nested, store.backup(store.path().with_extension("copy")));
    call!(to, "pool", "worker", Nested, pool.worker());
    call!(to, "pool", "snapshot", Nested, pool.snapshot());
    call!(to, "pool", "snapshot_usage", Done, pool.snapshot_usage());
    call!(to, "pool", "ticket", Nested, pool.ticket(1));
    call!(to, "pool", "recovery", Done, Ok(pool.recovery()));
    call!(to, "pool", "path", Done, Ok(pool.path()));
    call!(to, "pool", "is_read_only", Done, Ok(pool.is_read_only()));
    call!(to, "pool", "header", Done, Ok(pool.header()));
    call!(to, "pool", "layout", Done, Ok(pool.layout()));
    call!(to, "pool", "checkpoint", Nested, pool.checkpoint());
    call!(to, "pool", "backup", Nested, pool.backup(store.path().with_extension("copy")));
    call!(to, "pool", "usage", Nested, pool.usage());
    call!(to, "leases", "wait_for_worker", Nested, pool.wait_for_worker());
    call!(to, "leases", "borrow_worker", Nested, pool.borrow_worker());
    call!(to, "leases", "drop_idle_workers", Done, {
        pool.drop_idle_workers();
        Ok(())
    });
    call!(to, "compact", "space", Done, pool.space());
    call!(to, "compact", "compact", Nested, pool.compact());
    call!(to, "compact", "compact_with", Nested, pool.compact_with(|_, _| {}));
    // In domains where a transaction is durable when it has committed, there is nothing to wait for.
    let waits = if in_flush_or_mapped { Done } else { Nested };
    to.push(("ticket", "wait", waits, outcome(ticket.wait())));
    to.push(("ticket", "poll", waits, outcome(poll(ticket))));
    call!(to, "ticket", "is_durable", Done, ticket.is_durable());
    call!(to, "ticket", "transaction", Done, Ok(ticket.transaction()));
    to
}

#[derive(Persist)]
struct Rows<'p> {
    rows: OrderedMap<'p, u64, Vec<u8>>,
}

/// Options with logs of 4,096 records.
pub fn options(domain: Domain) -> Options {
    Options {
        geometry: Geometry { size: 64 << 20, logs: 4, log_bytes: 1 << 16, chunk_bytes: 1 << 16 },
        sync: SyncParameters { ring_blocks: 256, dirty_pages: 64, ..SyncParameters::default() },
        domain,
        assume_persistent: domain == Domain::Flush,
        lock_bits: 12,
        ..Options::default()
    }
}

/// Returns the result of `body`. Fails if `body` does not return, which only a defect can cause.
pub fn returning<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(body()));
    result.recv_timeout(Duration::from_secs(600)).expect("it waits for ever, or has panicked")
}

fn compare(called: &[Called], context: &str) {
    for (source, name, expected, returned) in called {
        assert!(
            returned.as_ref().is_ok_and(|it| it == expected),
            "{source}: {name}: {returned:?}, {context}"
        );
    }
}

/// Returns the calls in a transaction of a database, and in one of a store, that writes this number of rows.
fn call_all<C: Control<Memory = Native> + 'static>(domain: Domain, rows: u64) -> Vec<Called> {
    let folder = tempfile::tempdir().unwrap();
    let context = format!("{domain:?}, {rows} rows");
    let db = Database::from(
        Store::<Tables, C>::open(folder.path().join("database"), &options(domain), |tx| Tables::new(tx))
            .unwrap(),
    );
    let numbers = db.table::<u64, u64>("numbers").unwrap();
    let texts = db.table::<u64, Vec<u8>>("texts").unwrap();
    db.write(|tx| numbers.insert(tx, &1, &2).map(drop)).unwrap();
    let about = db.list().unwrap().into_iter().find(|about| about.name == "numbers").unwrap();
    let snapshot = db.snapshot().unwrap();
    let mut all = db
        .write(|tx| {
            (0..rows).try_for_each(|row| texts.insert(tx, &row, &vec![7; 100]).map(drop))?;
            Ok(call_database(&db, tx, &snapshot, &about))
        })
        .unwrap();
    drop(snapshot);
    compare(&all, &context);
    assert_eq!(db.read(|tx| texts.len(tx)).unwrap(), rows);
    db.close().unwrap();

    let store = Store::<Rows, C>::create_new(folder.path().join("store"), &options(domain), |tx| {
        Ok(Rows { rows: OrderedMap::new(tx)? })
    })
    .unwrap();
    let mut session = store.session().unwrap();
    let snapshot = store.snapshot().unwrap();
    let (_, ticket) = store.later().write(|tx, root| root.get(tx)?.rows.insert(tx, &0, &vec![1])).unwrap();
    let of_store = store
        .write(|tx, root| {
            (0..rows).try_for_each(|row| root.get(tx)?.rows.insert(tx, &row, &vec![7; 100]).map(drop))?;
            Ok(call_store(&store, &mut session, &snapshot, &ticket))
        })
        .unwrap();
    drop((session, snapshot));
    compare(&of_store, &context);
    ticket.wait().unwrap();
    assert_eq!(store.read(|tx, root| root.get(tx)?.rows.len(tx)).unwrap(), rows);
    assert!(!folder.path().join("store.copy").exists() && !folder.path().join("database.copy").exists());
    store.close().unwrap();
    all.extend(of_store);
    all
}

#[test]
fn every_method_returns_inside_a_small_and_a_large_transaction() {
    let mut called = Vec::new();
    for domain in [Domain::Process, Domain::Sync, Domain::Flush] {
        for rows in [1, 3000] {
            called = returning(move || {
                call_all::<SingleWriter>(domain, rows);
                call_all::<Stm>(domain, rows)
            });
        }
    }
    for (source, text, others) in SOURCES {
        let called = called.iter().filter(|call| call.0 == source).map(|call| call.1);
        let listed: BTreeSet<_> = called.chain(others.iter().copied()).collect();
        assert_eq!(
            public_methods(text),
            listed,
            "the public methods of {source}.rs and the calls of this test"
        );
    }
}

/// A worker outlives its pool, which is closed or dropped while the worker runs a transaction.
#[test]
fn a_pool_that_goes_inside_a_transaction_waits_for_nothing() {
    for domain in [Domain::Process, Domain::Sync] {
        for rows in [1, 20_000] {
            for closes in [true, false] {
                returning(move || {
                    let folder = tempfile::tempdir().unwrap();
                    let path = folder.path().join("pool");
                    let pool = Pool::create(&path, &options(domain)).unwrap();
                    let mut worker = pool.worker().unwrap();
                    let mut pool = Some(pool);
                    let _ = worker.run(|tx| {
                        let block = tx.alloc(8 * rows)?;
                        (0..rows).try_for_each(|word| tx.write(block.word(word), word))?;
                        match pool.take() {
                            Some(pool) if closes => assert!(matches!(pool.close(), Err(Error::Nested))),
                            pool => drop(pool),
                        }
                        Ok(())
                    });
                    drop(worker);
                    // The pool's threads end some time after the transaction, and release its lock then.
                    let pool = loop {
                        match Pool::open(&path, &options(domain)) {
                            Err(Error::Locked { .. }) => std::thread::yield_now(),
                            opened => break opened.unwrap(),
                        }
                    };
                    pool.close().unwrap();
                });
            }
        }
    }
}

/// Transactions store the words of the heap's tables one after the other while they commit. These transactions replace rows by longer and shorter
/// ones, so that the number of objects is the same at each moment. A count by plain loads at the same time would find other numbers.
fn usage_beside_writers<C: Control<Memory = Native> + 'static>(domain: Domain) {
    // These rows are stored neither in pages of the tree nor in extents.
    const BYTES: [usize; 3] = [1_500, 9_000, 16_000];
    // No transaction becomes a large one.
    let mut options = options(domain);
    options.geometry.log_bytes = 1 << 20;
    let db = Database::from(Store::<Tables, C>::in_memory(&options, |tx| Tables::new(tx)).unwrap());
    let texts = db.table::<u64, Vec<u8>>("texts").unwrap();
    const ROWS: u64 = 4;
    let store = |thread: u64, turn: usize| {
        let bytes = vec![1; BYTES[turn % BYTES.len()]];
        db.write(|tx| {
            (0..ROWS).try_for_each(|row| texts.insert(tx, &(ROWS * thread + row), &bytes).map(drop))
        })
    };
    (0..2).for_each(|thread| store(thread, 0).unwrap());
    let objects = db.usage().unwrap().objects;
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for thread in 0..2u64 {
            let (store, stop) = (&store, &stop);
            threads.spawn(move || {
                for turn in 1.. {
                    store(thread, turn).unwrap();
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let found: Vec<_> = (0..1000).map(|_| db.usage().map(|usage| usage.objects)).collect();
        let listed: Vec<_> = (0..20).map(|_| db.list().map(|listed| listed.len())).collect();
        let checked: Vec<_> = (0..20).map(|_| db.check()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(found.iter().all(|it| it.as_ref().is_ok_and(|&it| it == objects)), "{objects}: {found:?}");
        assert!(listed.iter().all(|it| matches!(it, Ok(1))), "{listed:?}");
        assert!(checked.iter().all(|it| it.as_ref().is_ok_and(Vec::is_empty)), "{checked:?}");
    });
}

#[test]
fn usage_is_right_beside_writers() {
    usage_beside_writers::<Stm>(Domain::Process);
    usage_beside_writers::<SingleWriter>(Domain::Process);
}
