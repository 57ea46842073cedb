//! Threads whose transactions are nested in one another's pools. Threads that wait for each other end with an error, and no others do.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use strandline::{
    Control, Database, Domain, Error, Options, Result, SingleWriter, Stm, Store, Table, Tables, Tx,
};
use strandline_core::engine::Setup;
use strandline_core::layout::SharedLayout;
use strandline_core::memory::{Memory, Native};
use strandline_core::{Concurrency, Read, Runner, Transaction};

use super::nested::{options, returning};

/// A database that threads use together with others.
struct Side<C: Control<Memory = Native>> {
    db: Database<C>,
    rows: Table<u64, u64>,
    texts: Table<u64, Vec<u8>>,
}

impl<C: Control<Memory = Native>> Side<C> {
    fn new(folder: &Path, name: &str, options: &Options) -> Self {
        let db = Database::from(
            Store::<Tables, C>::open(folder.join(name), options, |tx| Tables::new(tx)).unwrap(),
        );
        let (rows, texts) = (db.table("rows").unwrap(), db.table("texts").unwrap());
        db.write(|tx| (0..2).try_for_each(|row| rows.insert(tx, &row, &0).map(drop))).unwrap();
        Self { db, rows, texts }
    }

    /// Adds one to row 0.
    fn add(&self, tx: &Tx<'_, C>) -> Result<()> {
        let before = self.rows.get(tx, &0)?.unwrap_or(0);
        self.rows.insert(tx, &0, &(before + 1)).map(drop)
    }

    /// Adds one to row 0, in a transaction of its own.
    fn add_alone(&self) -> Result<()> {
        self.db.write(|tx| self.add(tx))
    }

    /// Writes so much that the transaction becomes a large one.
    fn fill(&self, tx: &Tx<'_, C>) -> Result<()> {
        (0..1000).try_for_each(|row| self.texts.insert(tx, &row, &vec![7; 100]).map(drop))
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

/// Returns the number of the attempt in which [`Side::fill`] runs as a large transaction, in a new database.
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
    assert!(attempts > 1, "it fits the log");
    attempts
}

/// A barrier that a closure passes only once, however often it runs.
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

/// Returns whether the result is a deadlock. Its error must name these pools; any other result must be a success.
fn is_deadlock<C: Control<Memory = Native>>(result: Result<()>, holds: &Side<C>, waits: &Side<C>) -> bool {
    match result {
        Ok(()) => false,
        Err(Error::Deadlock { held, awaited, .. }) => {
            assert_eq!((&*held, &*awaited), (holds.db.path(), waits.db.path()));
            true
        }
        Err(other) => panic!("{other}"),
    }
}

/// One thread updates b inside an update of a, which is `large`. Another calls `inner` on a inside an update of b. Exactly one must fail, or none if
/// `inner` does not wait for an update.
fn opposite_orders<C: Control<Memory = Native> + 'static>(
    context: &'static str,
    domain: Domain,
    large: bool,
    (waits, writes): (bool, bool),
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
        assert_eq!(first != second, waits, "{context}, {domain:?}, large: {large}: {first}, {second}");
        assert!(waits || !first, "{context}, {domain:?}");
        assert_eq!(a.sum(), u64::from(!first) + u64::from(!second && writes), "{context}");
        assert_eq!(b.sum(), if waits { 1 } else { 2 }, "{context}");
        a.end();
        b.end();
    };
    returning(run);
}

fn opposite_orders_in_all_forms<C: Control<Memory = Native> + 'static>(domains: &[Domain]) {
    for &domain in domains {
        for large in [false, true] {
            opposite_orders::<C>("write", domain, large, (true, true), |a| a.add_alone());
            opposite_orders::<C>("large write", domain, large, (true, false), |a| {
                a.db.write(|tx| a.fill(tx))
            });
        }
        opposite_orders::<C>("later", domain, true, (true, true), |a| {
            a.db.later().write(|tx| a.add(tx)).map(drop)
        });
        opposite_orders::<C>("read", domain, true, (false, false), |a| {
            a.db.read(|tx| a.rows.get(tx, &0)).map(drop)
        });
        opposite_orders::<C>("snapshot", domain, true, (false, false), |a| a.db.snapshot().map(drop));
        opposite_orders::<C>("usage", domain, true, (false, false), |a| a.db.usage().map(drop));
        opposite_orders::<C>("check", domain, true, (false, false), |a| a.db.check().map(drop));
        if domain == Domain::Sync {
            opposite_orders::<C>("checkpoint", domain, true, (true, false), |a| a.db.checkpoint());
        }
        opposite_orders::<C>("backup", domain, true, (true, false), |a| {
            a.db.backup(a.db.path().with_extension("copy")).map(drop)
        });
    }
}

#[test]
fn opposite_orders_of_stm_pools_end_with_one_error() {
    opposite_orders_in_all_forms::<Stm>(&[Domain::Process, Domain::Sync, Domain::Flush]);
}

#[test]
fn opposite_orders_of_single_writer_pools_end_with_one_error() {
    opposite_orders_in_all_forms::<SingleWriter>(&[Domain::Process, Domain::Sync]);
}

/// Like [`opposite_orders`], but the update of a has met so many conflicts before that it holds the queue, and then the serial token.
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

/// Each thread reads one database, and thereby holds its only worker, and then reads the next database.
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

/// A reader of one pool waits for a writer of another pool, which updates the first one. Neither fails.
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
                    // Long enough for the other thread to give up, if it ever did.
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

/// Transactions of up to three pools are nested in random orders, and run again after each deadlock.
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

/// While a writer sleeps in its closure, a large transaction waits to begin. A reader must end before either of them.
fn reader_beside_a_large_one_that_waits<C>(domain: Domain, control: C)
where
    C: strandline_core::engine::Control<Memory = Native> + Into<Setup<C>> + Send + Sync + 'static,
{
    returning(move || {
        let folder = tempfile::tempdir().unwrap();
        let is_stm = control.concurrency() == Concurrency::Stm;
        let pool = control.into().create(folder.path().join("pool"), &options(domain)).unwrap();
        let mut reader = pool.worker().unwrap();
        let mut both = || reader.view(|tx| Ok([tx.read(tx.root(0))?, tx.read(tx.root(1))?])).unwrap();
        // A second reader takes another code path than the first.
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
            // Under `SingleWriter` it waits for the writer's lock even before its closure runs.
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
