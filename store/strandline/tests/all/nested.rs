//! Every public method of a database, a store and a pool is called inside a transaction, a small and a large one: it returns, with `Nested` or
//! with its result, and the transaction commits. A method that is not listed here fails the test.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use strandline::{
    Control, Database, DatabaseSnapshot, Domain, Dynamic, Error, Geometry, Options, OrderedMap, Persist,
    Result, Root, Session, SingleWriter, Snapshot, Stm, Store, SyncParameters, Table, TableDescription,
    Ticket, Tx, View,
};
use strandline_core::engine::Setup;
use strandline_core::layout::SharedLayout;
use strandline_core::memory::{Memory, Native};
use strandline_core::{Concurrency, Pool, Read, Runner, Transaction};

/// The sources whose public methods are called, each with the names of those that are not, and why.
const SOURCES: [(&str, &str, &[&str]); 7] = [
    (
        "database",
        include_str!("../../src/database.rs"),
        // They make a database, or take it away, which the closure borrows.
        &["open", "in_memory", "open_with", "open_read_only", "in_memory_with", "close"],
    ),
    (
        "store",
        include_str!("../../src/store.rs"),
        &[
            // They make a store, are reached through `session`, or take the store away, which the closure borrows.
            "create",
            "create_in_memory",
            "open",
            "open_or_create",
            "open_or_create_and_migrate",
            "open_and_migrate",
            "open_read_only",
            "statistics",
            "pool",
            "close",
        ],
    ),
    ("export", include_str!("../../src/export.rs"), &[]),
    ("migrate", include_str!("../../src/migrate.rs"), &[]),
    (
        "pool",
        include_str!("../../../strandline-core/src/file/pool.rs"),
        // They make a pool, or are the laboratory's.
        &[
            "create",
            "create_with",
            "create_unnamed",
            "open",
            "open_read_only",
            "unprotected_view",
            "worker_of",
            "close",
        ],
    ),
    (
        "leases",
        include_str!("../../../strandline-core/src/file/leases.rs"),
        // Those of idle workers, a private type; `return_worker` has nothing to return, where no worker can be had.
        &["new", "take", "clear", "return_worker"],
    ),
    ("compact", include_str!("../../../strandline-core/src/file/compact.rs"), &[]),
];

fn public_methods(source: &str) -> BTreeSet<&str> {
    let declared = source.lines().filter_map(|line| line.strip_prefix("    pub fn "));
    declared.filter_map(|line| line.split(['(', '<']).next()).collect()
}

/// What a call is expected to return inside a transaction.
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

/// A call of a method of a source, and what it returned.
type Called = (&'static str, &'static str, Expected, Result<Expected>);

macro_rules! call {
    ($called:ident, $source:literal, $name:literal, $expected:ident, $call:expr) => {
        $called.push(($source, $name, $expected, outcome($call)))
    };
}

fn call_database<C: Control<Memory = Native>>(
    db: &Database<C>,
    tx: &View<'_, C>,
    snapshot: &mut DatabaseSnapshot<'_, C>,
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
    call!(to, "database", "try_write", Nested, db.try_write(|_| Ok::<_, Error>(())));
    call!(to, "database", "read", Nested, db.read(|_| Ok(())));
    call!(to, "database", "try_read", Nested, db.try_read(|_| Ok::<_, Error>(())));
    call!(to, "database", "later", Nested, db.later().write(|_| Ok(())));
    call!(to, "database", "write", Nested, db.later().try_write(|_| Ok::<_, Error>(())));
    call!(to, "database", "snapshot", Nested, db.snapshot());
    call!(to, "database", "snapshot_usage", Done, db.snapshot_usage());
    call!(to, "database", "check", Nested, db.check());
    call!(to, "database", "read", Done, db.catalogue(&snapshot.read()));
    call!(to, "database", "check", Done, snapshot.check());
    call!(to, "database", "lost_memory", Nested, db.lost_memory());
    call!(to, "database", "recovery", Done, Ok(db.recovery()));
    call!(to, "database", "usage", Nested, db.usage());
    call!(to, "database", "space", Done, db.space());
    call!(to, "database", "compact", Nested, db.compact());
    call!(to, "database", "checkpoint", Nested, db.checkpoint());
    call!(to, "database", "backup", Nested, db.backup(db.path().with_extension("copy")));
    call!(to, "database", "path", Done, Ok(db.path()));
    call!(to, "export", "count", Nested, db.count("numbers"));
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
    session: &mut Session<'_, Rows<'static>, C>,
    snapshot: &mut Snapshot<'_, Rows<'static>, C>,
    ticket: &Ticket,
) -> Vec<Called>
where
    Rows<'static>: for<'p> Root<At<'p> = Rows<'p>>,
{
    let (mut to, pool) = (Vec::new(), store.pool());
    let in_flush_or_mapped = pool.device_counters().is_none();
    call!(to, "store", "update", Nested, store.update(|_, _| Ok(())));
    call!(to, "store", "try_update", Nested, store.try_update(|_, _| Ok::<_, Error>(())));
    call!(to, "store", "later", Nested, store.later().update(|_, _| Ok(())));
    call!(to, "store", "try_update", Nested, store.later().try_update(|_, _| Ok::<_, Error>(())));
    call!(to, "store", "view", Nested, store.view(|_, _| Ok(())));
    call!(to, "store", "try_view", Nested, store.try_view(|_, _| Ok::<_, Error>(())));
    call!(to, "store", "update", Nested, session.update(|_, _| Ok(())));
    call!(to, "store", "update", Nested, session.later().update(|_, _| Ok(())));
    call!(to, "store", "view", Nested, session.view(|_, _| Ok(())));
    call!(to, "store", "check", Nested, store.check());
    call!(to, "store", "check", Done, snapshot.check());
    call!(to, "store", "lost_memory", Nested, store.lost_memory());
    call!(to, "store", "snapshot", Nested, store.snapshot());
    call!(to, "store", "snapshot_usage", Done, store.snapshot_usage());
    call!(to, "store", "session", Nested, store.session());
    call!(to, "store", "recovery", Done, Ok(store.recovery()));
    call!(to, "store", "usage", Nested, store.usage());
    call!(to, "store", "space", Done, store.space());
    call!(to, "store", "compact", Nested, store.compact());
    call!(to, "store", "path", Done, Ok(store.path()));
    call!(to, "store", "checkpoint", Nested, store.checkpoint());
    call!(to, "store", "backup", Nested, store.backup(store.path().with_extension("copy")));
    call!(to, "pool", "worker", Nested, pool.worker());
    call!(to, "pool", "snapshot", Nested, pool.snapshot());
    call!(to, "pool", "snapshot_usage", Done, pool.snapshot_usage());
    call!(to, "pool", "ticket", Nested, pool.ticket(1));
    call!(to, "pool", "recovery", Done, Ok(pool.recovery()));
    call!(to, "pool", "path", Done, Ok(pool.path()));
    call!(to, "pool", "header", Done, Ok(pool.header()));
    call!(to, "pool", "layout", Done, Ok(pool.layout()));
    call!(to, "pool", "device_counters", Done, Ok(pool.device_counters()));
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
    // Where a transaction is durable when it has committed there is nothing to wait for.
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

/// Logs of 4,096 records.
fn options(domain: Domain) -> Options {
    Options {
        geometry: Geometry { size: 64 << 20, logs: 4, log_bytes: 1 << 16, chunk_bytes: 1 << 16 },
        sync: SyncParameters { ring_blocks: 256, dirty_pages: 64, ..SyncParameters::default() },
        domain,
        assume_persistent: domain == Domain::Flush,
        lock_bits: 12,
        ..Options::default()
    }
}

/// What `body` returns; fails if it does not return, for which nothing but a defect is a reason.
fn returning<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
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

/// The calls in a database's and a store's transaction that writes so many rows.
fn call_all<C: Control<Memory = Native> + 'static>(domain: Domain, rows: u64) -> Vec<Called> {
    let folder = tempfile::tempdir().unwrap();
    let context = format!("{domain:?}, {rows} rows");
    let db = Database::<C>::open_with(folder.path().join("database"), &options(domain)).unwrap();
    let numbers = db.table::<u64, u64>("numbers").unwrap();
    let texts = db.table::<u64, Vec<u8>>("texts").unwrap();
    db.write(|tx| numbers.insert(tx, &1, &2).map(drop)).unwrap();
    let about = db.list().unwrap().into_iter().find(|about| about.name == "numbers").unwrap();
    let mut snapshot = db.snapshot().unwrap();
    let mut all = db
        .write(|tx| {
            (0..rows).try_for_each(|row| texts.insert(tx, &row, &vec![7; 100]).map(drop))?;
            Ok(call_database(&db, tx, &mut snapshot, &about))
        })
        .unwrap();
    drop(snapshot);
    compare(&all, &context);
    assert_eq!(db.read(|tx| texts.count(tx)).unwrap(), rows);
    db.close().unwrap();

    let store = Store::<Rows, C>::create(folder.path().join("store"), &options(domain), |tx| {
        Ok(Rows { rows: OrderedMap::new(tx)? })
    })
    .unwrap();
    let mut session = store.session().unwrap();
    let mut snapshot = store.snapshot().unwrap();
    let (_, ticket) = store.later().update(|tx, root| root.get(tx)?.rows.insert(tx, &0, &vec![1])).unwrap();
    let of_store = store
        .update(|tx, root| {
            (0..rows).try_for_each(|row| root.get(tx)?.rows.insert(tx, &row, &vec![7; 100]).map(drop))?;
            Ok(call_store(&store, &mut session, &mut snapshot, &ticket))
        })
        .unwrap();
    drop((session, snapshot));
    compare(&of_store, &context);
    ticket.wait().unwrap();
    assert_eq!(store.view(|tx, root| root.get(tx)?.rows.count(tx)).unwrap(), rows);
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
                    // The pool's threads end some time after the transaction, and its lock with them.
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

/// The words of the heap's tables are stored one after the other while transactions commit. These transactions replace rows by longer and shorter
/// ones, so that there are as many objects at each moment, and raw loads beside them count others.
fn usage_beside_writers<C: Control<Memory = Native> + 'static>(domain: Domain) {
    const BYTES: [usize; 3] = [300, 9_000, 70_000];
    // So that no transaction is a large one.
    let mut options = options(domain);
    options.geometry.log_bytes = 1 << 20;
    let db = Database::<C>::in_memory_with(&options).unwrap();
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

/// A database that threads use beside others.
struct Side<C: Control<Memory = Native>> {
    db: Database<C>,
    rows: Table<u64, u64>,
    texts: Table<u64, Vec<u8>>,
}

impl<C: Control<Memory = Native>> Side<C> {
    fn new(folder: &Path, name: &str, options: &Options) -> Self {
        let db = Database::open_with(folder.join(name), options).unwrap();
        let (rows, texts) = (db.table("rows").unwrap(), db.table("texts").unwrap());
        db.write(|tx| (0..2).try_for_each(|row| rows.insert(tx, &row, &0).map(drop))).unwrap();
        Self { db, rows, texts }
    }

    /// Adds one to row 0.
    fn add(&self, tx: &Tx<'_, C>) -> Result<()> {
        let before = self.rows.get(tx, &0)?.unwrap_or(0);
        self.rows.insert(tx, &0, &(before + 1)).map(drop)
    }

    /// Adds one to row 0, in a transaction.
    fn add_alone(&self) -> Result<()> {
        self.db.write(|tx| self.add(tx))
    }

    /// Writes what makes the transaction a large one.
    fn fill(&self, tx: &Tx<'_, C>) -> Result<()> {
        (0..3000).try_for_each(|row| self.texts.insert(tx, &row, &vec![7; 100]).map(drop))
    }

    fn sum(&self) -> u64 {
        self.db.read(|tx| self.rows.get(tx, &0)).unwrap().unwrap()
    }

    /// Checks that the database can be used, and closes it.
    fn end(self) {
        let before = self.sum();
        self.add_alone().unwrap();
        self.db.write(|tx| self.fill(tx)).unwrap();
        assert_eq!(self.sum(), before + 1);
        assert_eq!(self.db.check().unwrap(), Vec::<String>::new());
        self.db.close().unwrap();
    }
}

/// The attempt of [`Side::fill`] that runs as a large transaction, in a database that has just been made.
fn large_attempt<C: Control<Memory = Native>>(options: &Options) -> u32 {
    let folder = tempfile::tempdir().unwrap();
    let side = Side::<C>::new(folder.path(), "probe", options);
    let mut attempts = 0;
    side.db
        .write(|tx| {
            attempts += 1;
            side.add(tx)?;
            side.fill(tx)
        })
        .unwrap();
    attempts
}

/// A barrier that a closure passes once, however often it runs.
struct Meeting<'b> {
    barrier: &'b Barrier,
    has_met: bool,
}

impl<'b> Meeting<'b> {
    fn at(barrier: &'b Barrier) -> Self {
        Self { barrier, has_met: false }
    }

    fn meet(&mut self) {
        if !std::mem::replace(&mut self.has_met, true) {
            self.barrier.wait();
        }
    }
}

/// Whether the result is a deadlock, whose error names these pools; otherwise it has to be none.
fn is_deadlock<C: Control<Memory = Native>>(result: Result<()>, holds: &Side<C>, waits: &Side<C>) -> bool {
    match result {
        Ok(()) => false,
        Err(Error::Deadlock { held, awaited }) => {
            assert_eq!((&*held, &*awaited), (holds.db.path(), waits.db.path()));
            true
        }
        Err(other) => panic!("{other}"),
    }
}

/// One thread updates b inside an update of a, which is `large`; another calls `inner` on a inside an update of b. Exactly one fails.
fn opposite_orders<C: Control<Memory = Native> + 'static>(
    context: &'static str,
    domain: Domain,
    large: bool,
    writes: bool,
    inner: impl Fn(&Side<C>) -> Result<()> + Send + Sync + 'static,
) {
    let run = move || {
        let folder = tempfile::tempdir().unwrap();
        let options = options(domain);
        let large_attempt = if large { large_attempt::<C>(&options) } else { 1 };
        let [a, b] = ["a", "b"].map(|name| Side::<C>::new(folder.path(), name, &options));
        let barrier = Barrier::new(2);
        let (first, second) = std::thread::scope(|threads| {
            let first = threads.spawn(|| {
                let (mut meeting, mut attempt) = (Meeting::at(&barrier), 0);
                a.db.write(|tx| {
                    attempt += 1;
                    a.add(tx)?;
                    if large {
                        a.fill(tx)?;
                    }
                    if attempt < large_attempt {
                        return Ok(());
                    }
                    meeting.meet();
                    b.add_alone()
                })
            });
            let second = threads.spawn(|| {
                let mut meeting = Meeting::at(&barrier);
                b.db.write(|tx| {
                    b.add(tx)?;
                    meeting.meet();
                    inner(&a)
                })
            });
            (first.join().unwrap(), second.join().unwrap())
        });
        let (first, second) = (is_deadlock(first, &a, &b), is_deadlock(second, &b, &a));
        assert!(first != second, "{context}, {domain:?}, large: {large}: {first}, {second}");
        assert_eq!(a.sum(), u64::from(!first) + u64::from(!second && writes), "{context}");
        assert_eq!(b.sum(), 1, "{context}");
        a.end();
        b.end();
    };
    returning(run);
}

fn opposite_orders_in_all_forms<C: Control<Memory = Native> + 'static>() {
    for domain in [Domain::Process, Domain::Sync, Domain::Flush] {
        for large in [false, true] {
            opposite_orders::<C>("write", domain, large, true, |a| a.add_alone());
            opposite_orders::<C>("large write", domain, large, false, |a| a.db.write(|tx| a.fill(tx)));
        }
        opposite_orders::<C>("later", domain, true, true, |a| a.db.later().write(|tx| a.add(tx)).map(drop));
        opposite_orders::<C>("read", domain, true, false, |a| a.db.read(|tx| a.rows.get(tx, &0)).map(drop));
        opposite_orders::<C>("snapshot", domain, true, false, |a| a.db.snapshot().map(drop));
        opposite_orders::<C>("usage", domain, true, false, |a| a.db.usage().map(drop));
        opposite_orders::<C>("check", domain, true, false, |a| a.db.check().map(drop));
        if domain == Domain::Sync {
            opposite_orders::<C>("checkpoint", domain, true, false, |a| a.db.checkpoint());
        }
        opposite_orders::<C>("backup", domain, true, false, |a| {
            a.db.backup(a.db.path().with_extension("copy")).map(drop)
        });
    }
}

#[test]
fn opposite_orders_of_stm_pools_end_with_one_error() {
    opposite_orders_in_all_forms::<Stm>();
}

#[test]
fn opposite_orders_of_single_writer_pools_end_with_one_error() {
    opposite_orders_in_all_forms::<SingleWriter>();
}

/// As [`opposite_orders`], where the update of a has met so many conflicts before that it holds the queue, and then the serial token.
#[test]
fn opposite_orders_after_conflicts_end_with_one_error() {
    for conflicts in [3, 7] {
        returning(move || {
            let folder = tempfile::tempdir().unwrap();
            let options = options(Domain::Process);
            let [a, b] = ["a", "b"].map(|name| Side::<Stm>::new(folder.path(), name, &options));
            let (barrier, started, release) = (Barrier::new(2), Barrier::new(2), AtomicBool::new(false));
            let (first, second) = std::thread::scope(|threads| {
                threads.spawn(|| {
                    let mut meeting = Meeting::at(&started);
                    a.db.write(|tx| {
                        a.rows.insert(tx, &1, &5)?;
                        meeting.meet();
                        while !release.load(Ordering::Acquire) {
                            std::thread::yield_now();
                        }
                        Ok(())
                    })
                    .unwrap();
                });
                started.wait();
                let first = threads.spawn(|| {
                    let (mut meeting, mut attempts) = (Meeting::at(&barrier), 0);
                    a.db.write(|tx| {
                        attempts += 1;
                        release.store(attempts > conflicts, Ordering::Release);
                        a.rows.insert(tx, &1, &6)?;
                        a.add(tx)?;
                        meeting.meet();
                        b.add_alone()
                    })
                });
                let second = threads.spawn(|| {
                    let mut meeting = Meeting::at(&barrier);
                    b.db.write(|tx| {
                        b.add(tx)?;
                        meeting.meet();
                        a.add_alone()
                    })
                });
                (first.join().unwrap(), second.join().unwrap())
            });
            let (first, second) = (is_deadlock(first, &a, &b), is_deadlock(second, &b, &a));
            assert!(first != second, "{conflicts} conflicts: {first}, {second}");
            assert_eq!((a.sum(), b.sum()), (1, 1));
            a.end();
            b.end();
        });
    }
}

/// Each thread reads one database, and thereby has its only worker, and reads the next one.
fn all_workers_taken<C: Control<Memory = Native> + 'static>() {
    returning(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(Domain::Process);
        options.geometry.logs = 1;
        let [a, b] = ["a", "b"].map(|name| Side::<C>::new(folder.path(), name, &options));
        let barrier = Barrier::new(2);
        let read_both = |outer: &Side<C>, inner: &Side<C>| {
            let mut meeting = Meeting::at(&barrier);
            outer.db.read(|tx| {
                outer.rows.get(tx, &0)?;
                meeting.meet();
                inner.db.read(|tx| inner.rows.get(tx, &0)).map(drop)
            })
        };
        let (first, second) = std::thread::scope(|threads| {
            let first = threads.spawn(|| read_both(&a, &b));
            (read_both(&b, &a), first.join().unwrap())
        });
        let (first, second) = (is_deadlock(first, &b, &a), is_deadlock(second, &a, &b));
        assert!(first != second, "{first}, {second}");
        a.end();
        b.end();
    });
}

#[test]
fn threads_that_have_the_workers_of_each_others_pools_end_with_one_error() {
    all_workers_taken::<Stm>();
    all_workers_taken::<SingleWriter>();
}

fn circle_of_three<C: Control<Memory = Native> + 'static>(domain: Domain) {
    returning(move || {
        let folder = tempfile::tempdir().unwrap();
        let sides = ["a", "b", "c"].map(|name| Side::<C>::new(folder.path(), name, &options(domain)));
        let barrier = Barrier::new(3);
        let add_both = |outer: usize| {
            let (outer, inner) = (&sides[outer], &sides[(outer + 1) % 3]);
            let mut meeting = Meeting::at(&barrier);
            let result = outer.db.write(|tx| {
                outer.add(tx)?;
                meeting.meet();
                inner.add_alone()
            });
            is_deadlock(result, outer, inner)
        };
        let failed: Vec<_> = std::thread::scope(|threads| {
            let all = [0, 1, 2].map(|outer| threads.spawn(move || add_both(outer)));
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(failed.iter().filter(|&&failed| failed).count(), 1, "{failed:?}");
        assert_eq!(sides.iter().map(Side::sum).sum::<u64>(), 4);
        sides.into_iter().for_each(Side::end);
    });
}

#[test]
fn a_circle_of_three_pools_ends_with_one_error() {
    for domain in [Domain::Process, Domain::Sync] {
        circle_of_three::<Stm>(domain);
        circle_of_three::<SingleWriter>(domain);
    }
}

/// A reader of one pool waits for a writer of another, which updates the first one: nobody fails.
fn reader_of_another<C: Control<Memory = Native> + 'static>() {
    returning(|| {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| Side::<C>::new(folder.path(), name, &options(Domain::Process)));
        for _ in 0..20 {
            let barrier = Barrier::new(2);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    let mut meeting = Meeting::at(&barrier);
                    a.db.read(|tx| {
                        a.rows.get(tx, &0)?;
                        meeting.meet();
                        b.add_alone()
                    })
                    .unwrap();
                });
                let mut meeting = Meeting::at(&barrier);
                b.db.write(|tx| {
                    b.add(tx)?;
                    meeting.meet();
                    // Long enough for the other thread to give up, if it is ever to.
                    std::thread::sleep(Duration::from_millis(20));
                    a.add_alone()
                })
                .unwrap();
            });
        }
        assert_eq!(a.sum(), 20);
        a.end();
        b.end();
    });
}

#[test]
fn a_reader_of_one_pool_that_waits_for_another_is_in_nobodys_way() {
    reader_of_another::<Stm>();
    reader_of_another::<SingleWriter>();
}

/// Transactions of up to three pools nested in random orders, run again after each deadlock.
fn random_nestings<C: Control<Memory = Native> + 'static>() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 600;
    returning(|| {
        let folder = tempfile::tempdir().unwrap();
        let sides =
            ["a", "b", "c"].map(|name| Side::<C>::new(folder.path(), name, &options(Domain::Process)));
        let added = [const { AtomicU64::new(0) }; 3];
        let deadlocks = AtomicU64::new(0);

        fn nest<C: Control<Memory = Native>>(
            sides: &[Side<C>; 3],
            added: &[AtomicU64; 3],
            order: &[(usize, bool)],
        ) -> Result<()> {
            let [(outer, writes), inner @ ..] = order else { return Ok(()) };
            let side = &sides[*outer];
            if !*writes {
                return side.db.read(|tx| {
                    side.rows.get(tx, &0)?;
                    nest(sides, added, inner)
                });
            }
            side.db.write(|tx| {
                side.add(tx)?;
                nest(sides, added, inner)
            })?;
            added[*outer].fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        std::thread::scope(|threads| {
            for thread in 0..THREADS {
                let (sides, added, deadlocks) = (&sides, &added, &deadlocks);
                threads.spawn(move || {
                    let mut random = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(thread + 1);
                    for _ in 0..TURNS {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let first = (random % 3) as usize;
                        let step = if random & 1 << 20 == 0 { 1 } else { 2 };
                        let order = [first, (first + step) % 3, (first + 2 * step) % 3];
                        let order: Vec<_> =
                            (24..).zip(order).map(|(bit, pool)| (pool, random >> bit & 3 != 0)).collect();
                        let depth = 1 + (random >> 40) as usize % 3;
                        loop {
                            match nest(sides, added, &order[..depth]) {
                                Ok(()) => break,
                                Err(Error::Deadlock { .. }) => {
                                    deadlocks.fetch_add(1, Ordering::Relaxed);
                                    std::thread::yield_now();
                                }
                                Err(other) => panic!("{other}"),
                            }
                        }
                    }
                });
            }
        });
        let found = [0, 1, 2].map(|side: usize| sides[side].sum());
        assert_eq!(found, added.each_ref().map(|added| added.load(Ordering::Relaxed)));
        eprintln!("{THREADS} x {TURNS} nestings, {} deadlocks", deadlocks.load(Ordering::Relaxed));
        sides.into_iter().for_each(Side::end);
    });
}

#[test]
fn random_nestings_of_three_stm_pools_end() {
    random_nestings::<Stm>();
}

#[test]
fn random_nestings_of_three_single_writer_pools_end() {
    random_nestings::<SingleWriter>();
}

/// While a writer sleeps in its closure, a large transaction waits to begin; a reader must end before either.
fn reader_beside_a_large_one_that_waits<C>(domain: Domain, control: C)
where
    C: strandline_core::engine::Control<Native> + Into<Setup<C>> + Send + Sync + 'static,
{
    returning(move || {
        let folder = tempfile::tempdir().unwrap();
        let is_stm = control.concurrency() == Concurrency::Stm;
        let pool = control.into().create(folder.path().join("pool"), &options(domain)).unwrap();
        let mut reader = pool.worker().unwrap();
        let mut both = || reader.view(|tx| Ok([tx.read(tx.root(0))?, tx.read(tx.root(1))?])).unwrap();
        // A reader that begins after a reader takes another way than the first.
        assert_eq!([both(), both()], [[0, 0]; 2]);
        let (started, release, begun) = (Barrier::new(2), Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut meetings = (Meeting::at(&started), Meeting::at(&release));
                let mut worker = pool.worker().unwrap();
                worker
                    .run(|tx| {
                        tx.write(tx.root(0), 1)?;
                        meetings.0.meet();
                        meetings.1.meet();
                        Ok(())
                    })
                    .unwrap();
            });
            started.wait();
            let large = threads.spawn({
                let (pool, begun) = (&pool, &begun);
                move || {
                    let mut worker = pool.worker().unwrap();
                    begun.store(true, Ordering::Release);
                    worker
                        .run(|tx| {
                            let block = tx.alloc(8 * 40_000)?;
                            (0..40_000).try_for_each(|word| tx.write(block.word(word), word))?;
                            tx.write(tx.root(1), 2)
                        })
                        .unwrap();
                }
            });
            let memory = pool.worker().unwrap();
            // Under one writer it waits for the writer's lock before its closure runs at all.
            while !begun.load(Ordering::Acquire)
                || (is_stm && memory.memory().load(SharedLayout::SERIAL) == 0)
            {
                std::thread::yield_now();
            }
            drop(memory);
            for _ in 0..100 {
                assert_eq!(both(), [0, 0]);
            }
            let mut another = pool.worker().unwrap();
            assert_eq!(another.view(|tx| tx.read(tx.root(0))).unwrap(), 0);
            drop(another);
            assert!(!large.is_finished());
            release.wait();
        });
        assert_eq!(both(), [1, 2]);
        drop(reader);
        pool.close().unwrap();
    });
}

#[test]
fn readers_do_not_wait_for_a_large_transaction_that_waits_to_begin() {
    for domain in [Domain::Process, Domain::Sync, Domain::Flush] {
        reader_beside_a_large_one_that_waits(domain, strandline_core::engine::Stm);
        reader_beside_a_large_one_that_waits(domain, strandline_core::engine::SingleWriter);
    }
}
