//! Transactions that do not fit into a log: under both controls, in memory and on a file, beside readers, writers and snapshots.

use std::sync::atomic::{AtomicBool, Ordering};

use strandline::{Control, Domain, Error, Options, OrderedMap, Persist, SingleWriter, Stm, Store};
use strandline_core::layout::Geometry;
use strandline_core::memory::Native;
use strandline_core::sync::SyncParameters;

#[derive(Persist)]
struct Shelf<'p> {
    rows: OrderedMap<'p, u64, Vec<u8>>,
    counts: OrderedMap<'p, u64, u64>,
}

/// The logs have 4,096 records. Under `Sync`, pages are written while a large transaction runs.
fn options(domain: Domain) -> Options {
    Options {
        geometry: Geometry { size: 64 << 20, logs: 4, log_bytes: 1 << 16, chunk_bytes: 1 << 16 },
        sync: SyncParameters { ring_blocks: 256, dirty_pages: 64, ..SyncParameters::default() },
        domain,
        lock_bits: 12,
        ..Options::default()
    }
}

fn create<C: Control<Memory = Native>>(path: &std::path::Path, options: &Options) -> Store<Shelf<'static>, C>
where
    Shelf<'static>: for<'p> strandline::Root<At<'p> = Shelf<'p>>,
{
    Store::create_new(path, options, |tx| {
        Ok(Shelf { rows: OrderedMap::new(tx)?, counts: OrderedMap::new(tx)? })
    })
    .unwrap()
}

/// Returns the store that is recovered from copies of the files of one that is not closed.
fn recovered<C: Control<Memory = Native>>(
    store: Store<Shelf<'static>, C>,
    path: &std::path::Path,
    options: &Options,
) -> Store<Shelf<'static>, C> {
    std::mem::forget(store);
    let copy = path.with_file_name("copy");
    std::fs::copy(path, &copy).unwrap();
    if options.domain == Domain::Sync {
        std::fs::copy(strandline_core::file::log_path(path), strandline_core::file::log_path(&copy)).unwrap();
    }
    Store::open_existing(&copy, options).unwrap()
}

fn row(number: u64) -> Vec<u8> {
    vec![number as u8; 100]
}

const ROWS: u64 = 3000;

/// Writes of any number of bytes and rows: transactions that are rolled back, rows that existed before, and everything after a crash.
fn any_size<C: Control<Memory = Native>>(domain: Domain) {
    let folder = tempfile::tempdir().unwrap();
    let (path, options) = (folder.path().join("pool"), options(domain));
    let store = create::<C>(&path, &options);
    store.write(|tx, root| root.get(tx)?.rows.insert(tx, &7, &vec![1]).map(drop)).unwrap();
    let empty = store.pool().usage().unwrap();
    let mut runs = 0;
    let given_up = store.write(|tx, root| {
        runs += 1;
        let shelf = root.get(tx)?;
        for number in 0..ROWS {
            shelf.rows.insert(tx, &number, &row(number))?;
        }
        assert_eq!(shelf.rows.get(tx, &(ROWS - 1))?, Some(row(ROWS - 1)), "it sees its own writes");
        Err::<(), _>(Error::Aborted)
    });
    assert!(matches!(given_up, Err(Error::Aborted)), "{given_up:?}");
    assert!(runs <= 3, "with the rest of the log, with all of it, and without it");
    let rows = |store: &Store<Shelf<'static>, C>| {
        store.read(|tx, root| root.get(tx)?.rows.iter(tx).collect::<Result<Vec<_>, _>>()).unwrap()
    };
    assert_eq!(rows(&store), [(7, vec![1])]);
    assert_eq!(store.pool().usage().unwrap(), empty, "nothing is left of it");

    // The rows that it replaces, too.
    store
        .write(|tx, root| {
            let shelf = root.get(tx)?;
            (0..ROWS).try_for_each(|number| shelf.rows.insert(tx, &number, &row(number)).map(drop))
        })
        .unwrap();
    let value: Vec<u8> = (0..600_000u32).map(|byte| byte as u8).collect();
    store.write(|tx, root| root.get(tx)?.rows.insert(tx, &ROWS, &value).map(drop)).unwrap();
    store.write(|tx, root| root.get(tx)?.counts.insert(tx, &1, &2).map(drop)).unwrap();
    let expected: Vec<_> =
        (0..ROWS).map(|number| (number, row(number))).chain([(ROWS, value.clone())]).collect();
    assert!(rows(&store) == expected);
    assert!(store.check().unwrap().is_empty());
    // The store is not closed, but recovered.
    let store = recovered(store, &path, &options);
    assert!(rows(&store) == expected);
    assert!(store.check().unwrap().is_empty());
    store
        .write(|tx, root| {
            let shelf = root.get(tx)?;
            (0..=ROWS)
                .filter(|number| *number != 7)
                .try_for_each(|number| shelf.rows.remove(tx, &number).map(drop))
        })
        .unwrap();
    assert_eq!(rows(&store), [(7, row(7))]);
}

#[test]
fn transactions_have_any_size_in_memory() {
    any_size::<Stm>(Domain::Process);
    any_size::<SingleWriter>(Domain::Process);
}

#[test]
fn transactions_have_any_size_on_a_file() {
    any_size::<Stm>(Domain::Sync);
    any_size::<SingleWriter>(Domain::Sync);
}

#[test]
fn a_full_pool_takes_a_large_transaction_back() {
    for domain in [Domain::Process, Domain::Sync] {
        let folder = tempfile::tempdir().unwrap();
        let options =
            Options { geometry: Geometry { size: 8 << 20, ..options(domain).geometry }, ..options(domain) };
        let store = create::<Stm>(&folder.path().join("pool"), &options);
        store.write(|tx, root| root.get(tx)?.counts.insert(tx, &1, &2).map(drop)).unwrap();
        let full = store.write(|tx, root| {
            let shelf = root.get(tx)?;
            (0..1000).try_for_each(|number| shelf.rows.insert(tx, &number, &vec![1; 20_000]).map(drop))
        });
        assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
        let usage = store.pool().usage().unwrap();
        assert!(usage.allocated_bytes < 1 << 16, "{usage:?}");
        store
            .write(|tx, root| {
                let shelf = root.get(tx)?;
                (0..100).try_for_each(|number| shelf.rows.insert(tx, &number, &vec![1; 20_000]).map(drop))
            })
            .unwrap();
        assert!(store.check().unwrap().is_empty());
    }
}

/// Small transactions, views and snapshots, some of which begin before a large transaction and end after it.
fn beside_others<C>(domain: Domain)
where
    C: Control<Memory = Native>,
    Store<Shelf<'static>, C>: Sync,
{
    let folder = tempfile::tempdir().unwrap();
    let store = create::<C>(&folder.path().join("pool"), &options(domain));
    let fill = |value: u8| {
        store
            .write(|tx, root| {
                let shelf = root.get(tx)?;
                (0..500).try_for_each(|number| shelf.rows.insert(tx, &number, &vec![value; 200]).map(drop))
            })
            .unwrap();
    };
    fill(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let (store, stop) = (&store, &stop);
        let same = |rows: Vec<(u64, Vec<u8>)>| {
            assert_eq!(rows.len(), 500);
            let value = rows[0].1[0];
            assert!(rows.iter().all(|(_, row)| row.iter().all(|&byte| byte == value)), "rows of one state");
            value
        };
        threads.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let rows = store.read(|tx, root| root.get(tx)?.rows.iter(tx).collect::<Result<Vec<_>, _>>());
                same(rows.unwrap());
            }
        });
        threads.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let snapshot = store.snapshot().unwrap();
                let mut values = Vec::new();
                for _ in 0..3 {
                    let (tx, root) = snapshot.read();
                    let shelf = root.get(&tx).unwrap();
                    values.push(same(shelf.rows.iter(&tx).map(|row| row.unwrap()).collect()));
                }
                assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{values:?}");
            }
        });
        let counter = threads.spawn(move || {
            let mut counted = 0u64;
            while !stop.load(Ordering::Relaxed) {
                counted += 1;
                store.write(|tx, root| root.get(tx)?.counts.insert(tx, &1, &counted).map(drop)).unwrap();
            }
            counted
        });
        (1..=12).for_each(fill);
        stop.store(true, Ordering::Relaxed);
        let counted = counter.join().unwrap();
        let count = store.read(|tx, root| root.get(tx)?.counts.get(tx, &1)).unwrap();
        assert_eq!(count, Some(counted));
    });
    assert!(store.check().unwrap().is_empty());
}

#[test]
fn large_transactions_run_beside_others_in_memory() {
    beside_others::<Stm>(Domain::Process);
    beside_others::<SingleWriter>(Domain::Process);
}

#[test]
fn large_transactions_run_beside_others_on_a_file() {
    beside_others::<Stm>(Domain::Sync);
    beside_others::<SingleWriter>(Domain::Sync);
}

/// Large values replace others of the same size. If little is different, they are written in place, and otherwise to a new place.
fn replaced<C: Control<Memory = Native>>(domain: Domain) {
    let folder = tempfile::tempdir().unwrap();
    let store = create::<C>(&folder.path().join("pool"), &options(domain));
    for bytes in [100_000, 8 << 15, (8 << 15) + 8, 1_000_001] {
        let insert =
            |value: &Vec<u8>| store.write(|tx, root| root.get(tx)?.rows.insert(tx, &1, value)).unwrap();
        let value = |step: usize| (0..bytes).map(|i| (i / 8 * step) as u8 | 1).collect::<Vec<_>>();
        let (first, second) = (value(3), value(5));
        insert(&first);
        let objects = store.pool().usage().unwrap();
        assert_eq!(insert(&second).as_ref(), Some(&first));
        let mut third = second.clone();
        third[bytes / 2] ^= 8;
        third[bytes - 1] ^= 8;
        assert_eq!(insert(&third).as_ref(), Some(&second));
        assert_eq!(store.read(|tx, root| root.get(tx)?.rows.get(tx, &1)).unwrap(), Some(third));
        assert_eq!(store.pool().usage().unwrap().objects, objects.objects, "{bytes}");
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn large_values_are_replaced() {
    replaced::<Stm>(Domain::Sync);
    replaced::<SingleWriter>(Domain::Sync);
    replaced::<Stm>(Domain::Process);
}

/// A load that is a large transaction: complete after a crash, without effect after an error, and with a bound on the space that it takes.
fn load<C: Control<Memory = Native>>(domain: Domain) {
    let folder = tempfile::tempdir().unwrap();
    let (path, options) = (folder.path().join("pool"), options(domain));
    let store = create::<C>(&path, &options);
    let empty = store.pool().usage().unwrap();
    let ascending = || (0..ROWS).map(|number| (number, row(number)));
    let given_up = store.write(|tx, root| {
        assert_eq!(root.get(tx)?.rows.load(tx, ascending())?, ROWS);
        Err::<(), _>(Error::Aborted)
    });
    assert!(matches!(given_up, Err(Error::Aborted)), "{given_up:?}");
    let unordered =
        store.write(|tx, root| root.get(tx)?.rows.load(tx, ascending().chain([(5, row(5))])).map(drop));
    assert!(matches!(unordered, Err(Error::Parameter(_))), "{unordered:?}");
    let meddling = store.write(|tx, root| {
        let rows = root.get(tx)?.rows;
        let insert = |number| rows.insert(tx, &(ROWS + number), &row(number)).map(|_| (number, row(number)));
        rows.load(tx, (0..10).map_while(|number| insert(number).ok())).map(drop)
    });
    assert!(matches!(meddling, Err(Error::Parameter(_))), "{meddling:?}");
    // The iterator of the pairs cannot destroy the map, nor roll back what the load has allocated: here a value too large for a page.
    let destroying = store.write(|tx, root| {
        let rows = root.get(tx)?.rows;
        rows.load(
            tx,
            (0..10).inspect(|&number| drop((number == 5).then(|| rows.destroy(tx)))).map(|n| (n, row(n))),
        )
    });
    assert!(matches!(destroying, Err(Error::Dangling { .. })), "{destroying:?}");
    let going_back = store.write(|tx, root| {
        let rows = root.get(tx)?.rows;
        let savepoint = tx.savepoint();
        let pairs = (0..10).map(|number| {
            if number == 5 {
                savepoint.roll_back().unwrap();
            }
            (number, vec![1; 20_000])
        });
        rows.load(tx, pairs)
    });
    assert!(matches!(going_back, Err(Error::Parameter(_))), "{going_back:?}");
    assert_eq!(store.pool().usage().unwrap(), empty, "nothing is left of them");

    assert_eq!(store.write(|tx, root| root.get(tx)?.rows.load(tx, ascending())).unwrap(), ROWS);
    let taken = store.pool().usage().unwrap().allocated_bytes - empty.allocated_bytes;
    // Keys and values take whole words, and each cell one more.
    assert!(taken as f64 <= 1.08 * (ROWS * (8 + 8 + 104)) as f64, "{taken} bytes are allocated");
    // These keys are not greater than all others, so that rows are replaced.
    store.write(|tx, root| root.get(tx)?.rows.load(tx, [(3, row(2)), (ROWS, row(1))])).unwrap();
    let store = recovered(store, &path, &options);
    let mut expected: Vec<_> = ascending().chain([(ROWS, row(1))]).collect();
    expected[3].1 = row(2);
    let found = store.read(|tx, root| root.get(tx)?.rows.iter(tx).collect::<Result<Vec<_>, _>>()).unwrap();
    assert!(found == expected);
    assert!(store.check().unwrap().is_empty());
}

#[test]
fn a_load_is_one_transaction() {
    for domain in [Domain::Sync, Domain::Process] {
        load::<Stm>(domain);
        load::<SingleWriter>(domain);
    }
}

/// Returns the largest number of bytes in copies of pages while a large transaction sets `rows` keys to values of 300 bytes. `before` of the keys
/// existed. It writes its pages whenever 64 are dirty.
fn copies_while_it_runs(memory_pages: u64, before: u64, rows: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(Domain::Sync);
    options.sync.most_dirty_pages = Some(64);
    options.sync.memory_pages = Some(memory_pages);
    let store = create::<Stm>(&folder.path().join("pool"), &options);
    let insert = |keys: std::ops::Range<u64>, byte: u8| {
        let (mut most, mut runs) = (0, 0);
        store
            .write(|tx, root| {
                (most, runs) = (0, runs + 1);
                for key in keys.clone() {
                    root.get(tx)?.rows.insert(tx, &key, &vec![byte; 300])?;
                    most = most.max(store.pool().space()?.memory_bytes);
                }
                Ok(())
            })
            .unwrap();
        (most, runs)
    };
    for first in (0..before).step_by(100) {
        insert(first..first + 100, 1);
    }
    let (most, runs) = insert(0..rows, 2);
    assert!(runs > 1, "it fits the log");
    most
}

#[test]
fn pages_that_a_large_transaction_has_written_stay_in_memory() {
    assert!(copies_while_it_runs(1 << 20, 0, 20_000) > 20_000 * 300);
}

#[test]
fn a_large_transaction_keeps_to_the_bound_of_copies() {
    const BOUND: u64 = 128;
    let most = copies_while_it_runs(BOUND, 4000, 4000);
    assert!(most <= (BOUND + 2 * 64) * 4096, "{} pages", most / 4096);
}
