//! `len` returns the number that a walk finds: after everything that changes tables, beside other threads, in snapshots and after crashes.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use strandline::{
    Control, Database, Domain, Error, HashMap, MultimapTable, Options, OrderedMap, Persist, Queue,
    QueueTable, Result, SingleWriter, Stm, Store, Table, Tables, Tx, View,
};
use strandline_core::layout::Geometry;
use strandline_core::memory::{Native, PersistentAddress};
use strandline_core::sync::SyncParameters;
use strandline_core::{Read, Runner, Transaction};

use crate::damage::address;

struct All {
    rows: Table<u64, Vec<u8>>,
    pairs: MultimapTable<u8, u64>,
    jobs: QueueTable<u64>,
}

impl All {
    fn of<C: Control<Memory = Native>>(db: &Database<C>) -> Self {
        Self {
            rows: db.table("rows").unwrap(),
            pairs: db.multimap("pairs").unwrap(),
            jobs: db.queue("jobs").unwrap(),
        }
    }

    /// Returns the three lengths, after a check that walks find the same.
    fn lengths<'p>(&self, tx: &View<'p, impl Control>) -> Result<[u64; 3]> {
        let counted = [self.rows.len(tx)?, self.pairs.len(tx)?, self.jobs.len(tx)?];
        let mut walked = [0; 3];
        self.rows.iter(tx)?.try_for_each(|row| row.map(|_| walked[0] += 1))?;
        self.pairs.iter(tx)?.try_for_each(|pair| pair.map(|_| walked[1] += 1))?;
        self.jobs.iter(tx)?.try_for_each(|job| job.map(|_| walked[2] += 1))?;
        assert_eq!(counted, walked);
        Ok(counted)
    }

    /// Makes some changes of any kind, and rolls some of them back.
    fn change<'p, C: Control>(&self, tx: &Tx<'p, C>, random: &mut fastrand::Rng, many: u64) -> Result<()> {
        for _ in 0..random.u64(1..many) {
            let before = random.u32(..10).eq(&0).then(|| tx.savepoint());
            let key = random.u64(..3000);
            let value = vec![7; random.usize(..200)];
            match random.u32(..12) {
                0..4 => self.rows.insert(tx, &key, &value).map(drop)?,
                4 => self.rows.set(tx, &key, &value)?,
                5 => self.rows.set_from(tx, &key, 20_000, &mut std::io::repeat(5))?,
                6 | 7 => self.rows.remove(tx, &key).map(drop)?,
                8 => self.pairs.insert(tx, &(key as u8), &random.u64(..20)).map(drop)?,
                9 => self.pairs.remove_all(tx, &(key as u8)).map(drop)?,
                10 => self.jobs.push(tx, &key)?,
                _ => self.jobs.pop(tx).map(drop)?,
            }
            if let Some(before) = before {
                before.roll_back()?;
            }
        }
        Ok(())
    }
}

fn options(domain: Domain) -> Options {
    Options {
        geometry: Geometry { size: 256 << 20, logs: 20, log_bytes: 1 << 16, chunk_bytes: 1 << 16 },
        sync: SyncParameters { ring_blocks: 256, dirty_pages: 256, ..SyncParameters::default() },
        domain,
        assume_persistent: true,
        lock_bits: 12,
        ..Options::default()
    }
}

/// Starts more threads than counters have lines. Each changes everything, in part in transactions that do not fit into a log or that are rolled back.
/// Another thread reads meanwhile.
fn threads<C: Control<Memory = Native>>(domain: Domain, threads: usize)
where
    Database<C>: Sync,
{
    let folder = tempfile::tempdir().unwrap();
    let (path, options) = (folder.path().join("pool"), options(domain));
    let open =
        |path: &Path| Database::from(Store::<Tables, C>::open(path, &options, |tx| Tables::new(tx)).unwrap());
    let db = open(&path);
    let all = All::of(&db);
    let running = AtomicUsize::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (db, all, running) = (&db, &all, &running);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread as u64);
                for step in 0..30 {
                    let seed = random.u64(..);
                    let done = db.write(|tx| {
                        let mut random = fastrand::Rng::with_seed(seed);
                        match random.u32(..60) {
                            0 => all.change(tx, &mut random, 2000)?,
                            1 => all
                                .rows
                                .drain(tx, random.u64(2500..3000)..)?
                                .try_for_each(|row| row.map(drop))?,
                            2 => all.rows.retain(tx, |key, _| key % 3 > 0)?,
                            3 => all.jobs.clear(tx)?,
                            _ => all.change(tx, &mut random, 30)?,
                        }
                        match random.u32(..16) {
                            0 => Err(Error::Aborted),
                            1 => all.lengths(tx).map(drop),
                            _ => Ok(()),
                        }
                    });
                    assert!(
                        matches!(done, Ok(()) | Err(Error::Aborted)),
                        "thread {thread}, step {step}: {done:?}"
                    );
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while running.load(Ordering::Relaxed) > 0 {
                db.read(|tx| all.lengths(tx)).unwrap();
                let snapshot = db.snapshot().unwrap();
                let found = all.lengths(&snapshot.read()).unwrap();
                std::thread::yield_now();
                assert_eq!(all.lengths(&snapshot.read()).unwrap(), found);
            }
        });
    });
    assert_eq!(db.check().unwrap(), [""; 0]);
    assert_eq!(db.lost_memory().unwrap().blocks, 0);
    let found = db.read(|tx| all.lengths(tx)).unwrap();
    assert!(found[0] > 100, "{found:?}");
    // The database is left as after a crash.
    std::mem::forget(db);
    let copy = folder.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    if domain == Domain::Sync {
        std::fs::copy(strandline_core::file::log_path(&path), strandline_core::file::log_path(&copy))
            .unwrap();
    }
    let db = open(&copy);
    let all = All::of(&db);
    assert_eq!(db.read(|tx| all.lengths(tx)).unwrap(), found);
    assert_eq!(db.check().unwrap(), [""; 0]);
}

#[test]
fn many_threads_of_a_database_on_a_file() {
    threads::<Stm>(Domain::Sync, 18);
}

#[test]
fn many_threads_of_a_database_in_memory() {
    threads::<Stm>(Domain::Process, 4);
    threads::<SingleWriter>(Domain::Process, 4);
}

#[test]
fn loads_and_entries_are_counted() {
    let db = Database::in_memory().unwrap();
    let all = All::of(&db);
    let row = |number: u64| (number, vec![number as u8; 30]);
    let is = |expected| assert_eq!(db.read(|tx| all.lengths(tx)).unwrap()[0], expected);
    db.write(|tx| all.rows.load(tx, (0..10).map(row))).unwrap();
    is(10);
    // The map has one page, which is replaced.
    db.write(|tx| all.rows.load(tx, (10..3000).map(row))).unwrap();
    is(3000);
    db.write(|tx| {
        let pairs = (3000..4000).map(row).inspect(|&(number, _)| {
            let counted = all.rows.len(tx).unwrap();
            assert!((3000..=number).contains(&counted), "those that are in the tree: {counted}");
        });
        all.rows.load(tx, pairs)
    })
    .unwrap();
    is(4000);
    // The rows are inserted one by one, since their keys are not greater than all others.
    db.write(|tx| all.rows.load(tx, (2000..4100).map(row))).unwrap();
    is(4100);
    let failed = db.write(|tx| all.rows.load(tx, (5000..6000).chain([1]).map(row)));
    assert!(matches!(failed, Err(Error::Parameter(_))), "{failed:?}");
    is(4100);
    db.write(|tx| {
        all.rows.entry(tx, 7)?.or_insert(vec![])?;
        all.rows.entry(tx, 9000)?.or_insert(vec![])?;
        all.rows.pop_first(tx)?;
        all.rows.pop_last(tx).map(drop)
    })
    .unwrap();
    is(4099);
    db.write(|tx| all.rows.extract_if(tx, 1000.., |key, _| key % 2 == 0)?.try_for_each(|row| row.map(drop)))
        .unwrap();
    is(4099 - 1550);
    assert_eq!((db.len("rows").unwrap(), db.count("rows").unwrap()), (2549, 2549));
    // A map that has become small again keeps its counters, and its only page is replaced.
    db.write(|tx| all.rows.retain(tx, |&key, _| key < 10)).unwrap();
    is(9);
    db.write(|tx| all.rows.load(tx, (9000..9100).map(row))).unwrap();
    is(109);
    db.write(|tx| all.rows.clear(tx)).unwrap();
    is(0);
    db.write(|tx| all.rows.load(tx, (0..2000).map(row))).unwrap();
    is(2000);
    assert_eq!((db.check().unwrap(), db.lost_memory().unwrap().blocks), (vec![], 0));
    db.delete("rows").unwrap();
    assert_eq!((db.check().unwrap(), db.lost_memory().unwrap().blocks), (vec![], 0));
    assert_eq!(db.len("rows").unwrap(), 0);
}

#[derive(Persist)]
struct Shelf<'p> {
    map: OrderedMap<'p, u64, u64>,
    small: HashMap<'p, u64, u64>,
    large: HashMap<'p, u64, u64>,
    queue: Queue<'p, u64>,
}

impl Shelf<'_> {
    fn lengths<'p>(shelf: &Shelf<'p>, tx: &View<'p, impl Control>) -> Result<[u64; 4]> {
        Ok([shelf.map.len(tx)?, shelf.small.len(tx)?, shelf.large.len(tx)?, shelf.queue.len(tx)?])
    }
}

/// Creates a store with this number of entries in each collection.
fn shelf(path: &Path, entries: u64) -> Store<Shelf<'static>> {
    let store = Store::<Shelf>::create_new(path, &options(Domain::Process), |tx| {
        let (small, large) = (HashMap::new(tx)?, HashMap::with_capacity(tx, 1000)?);
        Ok(Shelf { map: OrderedMap::new(tx)?, small, large, queue: Queue::new(tx)? })
    });
    let store = store.unwrap();
    for entry in 0..entries {
        store
            .write(|tx, root| {
                let shelf = root.get(tx)?;
                shelf.map.insert(tx, &entry, &1)?;
                shelf.small.insert(tx, &entry, &1)?;
                shelf.large.insert(tx, &entry, &1)?;
                shelf.queue.push(tx, &entry)?;
                assert_eq!(Shelf::lengths(&shelf, tx)?, [entry + 1; 4]);
                Ok(())
            })
            .unwrap();
    }
    store
}

#[test]
fn collections_are_counted_from_few_to_many_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = shelf(&folder.path().join("pool"), 1000);
    assert_eq!(store.check().unwrap(), [""; 0]);
    for left in (0..1000).rev() {
        store
            .write(|tx, root| {
                let shelf = root.get(tx)?;
                for map in [shelf.small, shelf.large] {
                    // Replacing a value does not change the count.
                    map.insert(tx, &left, &2)?;
                    map.remove(tx, &left)?;
                    assert_eq!(map.remove(tx, &left)?, None);
                }
                shelf.map.insert(tx, &left, &2)?;
                shelf.map.remove(tx, &left)?;
                shelf.queue.pop(tx)?;
                assert_eq!(Shelf::lengths(&shelf, tx)?, [left; 4]);
                Ok(())
            })
            .unwrap();
    }
    assert_eq!((store.check().unwrap(), store.lost_memory().unwrap().blocks), (vec![], 0));
    store
        .write(|tx, root| {
            // Replacing a value destroys the collections in it.
            let (small, large) = (HashMap::new(tx)?, HashMap::new(tx)?);
            root.set(tx, &Shelf { map: OrderedMap::new(tx)?, small, large, queue: Queue::new(tx)? })
        })
        .unwrap();
    assert_eq!((store.check().unwrap(), store.lost_memory().unwrap().blocks), (vec![], 0));
}

#[test]
fn a_wrong_number_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let store = shelf(&folder.path().join("pool"), 500);
    let handles = store.read(|tx, root| {
        let shelf = root.get(tx)?;
        Ok([
            format!("{:?}", shelf.map),
            format!("{:?}", shelf.small),
            format!("{:?}", shelf.large),
            format!("{:?}", shelf.queue),
        ])
    });
    let [map, small, large, queue] = handles.unwrap().map(address);
    let mut worker = store.pool().worker().unwrap();
    let mut counters =
        |header: PersistentAddress| PersistentAddress::new(worker.view(|tx| tx.read(header)).unwrap() >> 16);
    let (map, small, large) = (counters(map.word(2)), counters(small.word(1)), counters(large.word(1)));
    for (at, said) in [
        (map, "the tree of pages at"),
        (map.word(8 * 15), "has 500 keys, and its counters say 501"),
        (small.word(8), "the hash map at"),
        (large, "has 500 keys, and its counters say 501"),
        (queue.word(9), "has 500 items, but its counts say 501"),
        (queue.word(17), "has 500 items, but its counts say 499"),
    ] {
        let mut add = |change: i64| {
            worker
                .run(|tx| {
                    let count = tx.read(at)?;
                    tx.write(at, count.wrapping_add_signed(change))
                })
                .unwrap();
        };
        add(1);
        let found = store.check().unwrap();
        assert!(found.len() == 1 && found[0].contains(said), "{said}: {found:?}");
        add(-1);
        assert_eq!(store.check().unwrap(), [""; 0]);
    }
}
