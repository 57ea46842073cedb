//! Pairs that wait in a transaction: every other operation finds them, and no end of the transaction forgets them.

use std::collections::BTreeMap;

use strandline::{
    Control, Database, Domain, Dynamic, Error, Options, OrderedMap, Persist, SingleWriter, Stm, Store, Tx,
    Types,
};
use strandline_core::layout::Geometry;
use strandline_core::memory::Native;
use strandline_core::sync::SyncParameters;

#[derive(Persist)]
struct Maps<'p> {
    one: OrderedMap<'p, u64, Vec<u8>>,
    other: OrderedMap<'p, u64, Vec<u8>>,
}

type Model = BTreeMap<u64, Vec<u8>>;

/// The number of operations of a transaction that is not large.
const FEW: u32 = 300;

/// Creates a store whose logs have 4,096 records, so that many pairs need a large transaction.
fn store<C: Control<Memory = Native>>(
    domain: Domain,
    size: u64,
) -> (tempfile::TempDir, Store<Maps<'static>, C>)
where
    Maps<'static>: for<'p> strandline::Root<At<'p> = Maps<'p>>,
{
    store_with_logs(domain, size, 1 << 16)
}

fn store_with_logs<C: Control<Memory = Native>>(
    domain: Domain,
    size: u64,
    log_bytes: u64,
) -> (tempfile::TempDir, Store<Maps<'static>, C>)
where
    Maps<'static>: for<'p> strandline::Root<At<'p> = Maps<'p>>,
{
    let folder = tempfile::tempdir().unwrap();
    let geometry = Geometry { size, logs: 4, log_bytes, chunk_bytes: 1 << 16 };
    let sync = SyncParameters {
        ring_blocks: log_bytes / 256,
        memory_pages: Some(1 << 14),
        ..SyncParameters::default()
    };
    let options = Options { geometry, domain, sync, ..Options::default() };
    let store = Store::create_new(folder.path().join("pool"), &options, |tx| {
        Ok(Maps { one: OrderedMap::new(tx)?, other: OrderedMap::new(tx)? })
    });
    (folder, store.unwrap())
}

fn pairs<'p>(
    tx: &strandline::View<'p, impl Control>,
    map: OrderedMap<'p, u64, Vec<u8>>,
) -> Result<Model, Error> {
    map.iter(tx).collect()
}

/// Runs random operations, most of which set a pair, and compares their results with those on sorted maps.
fn run<'p, C: Control>(
    tx: &Tx<'p, C>,
    maps: &Maps<'p>,
    operations: u32,
    random: &mut fastrand::Rng,
    models: &mut [Model; 2],
) -> Result<(), Error> {
    let appends = random.bool();
    for _ in 0..operations {
        let number = random.usize(..2);
        let (map, key) = ([maps.one, maps.other][number], random.u64(..5000));
        let model = &mut models[number];
        match random.u32(..200) {
            0 => assert_eq!(map.get(tx, &key)?, model.get(&key).cloned()),
            1 => assert_eq!(map.remove(tx, &key)?, model.remove(&key)),
            2 => assert_eq!(map.len(tx)?, model.len() as u64),
            3 => {
                assert_eq!(map.first(tx)?, model.first_key_value().map(|(key, value)| (*key, value.clone())))
            }
            4 => assert_eq!(map.insert(tx, &key, &vec![0; 9])?, model.insert(key, vec![0; 9])),
            5 => assert_eq!(&pairs(tx, map)?, model),
            6 => {
                let before = tx.savepoint();
                for key in 0..random.u64(..20) {
                    map.set(tx, &key, &vec![8; 50])?;
                }
                before.roll_back()?;
            }
            7 => {
                let before = tx.savepoint();
                map.set(tx, &key, &vec![9; 50])?;
                model.insert(key, vec![9; 50]);
                drop(before);
            }
            _ => {
                // Some are too large to wait.
                let most = if random.u32(..50) == 0 { 5000 } else { 200 };
                let value = vec![random.u8(..); random.usize(..most)];
                let last = model.last_key_value().map_or(0, |(&last, _)| last);
                let key = if appends && random.u32(..50) > 0 { last + 1 } else { key };
                map.set(tx, &key, &value)?;
                model.insert(key, value);
            }
        }
    }
    Ok(())
}

fn is_a_sorted_map<C: Control<Memory = Native>>(domain: Domain, operations: u32)
where
    Maps<'static>: for<'p> strandline::Root<At<'p> = Maps<'p>>,
{
    let is_large = operations > FEW;
    let (seeds, log_bytes) = if is_large { (4, 1 << 16) } else { (20, 1 << 20) };
    let (_folder, store) = store_with_logs::<C>(domain, 64 << 20, log_bytes);
    let mut models = [Model::new(), Model::new()];
    for seed in 0..seeds {
        let mut runs = 0;
        let after = store.write(|tx, root| {
            runs += 1;
            let mut after = models.clone();
            run(tx, &root.get(tx)?, operations, &mut fastrand::Rng::with_seed(seed), &mut after)?;
            Ok(after)
        });
        models = after.unwrap();
        assert!(runs > 1 || !is_large, "the transaction fits the log");
        let found = store.read(|tx, root| {
            let maps = root.get(tx)?;
            Ok([pairs(tx, maps.one)?, pairs(tx, maps.other)?])
        });
        assert!(found.unwrap() == models, "seed {seed}");
        assert!(store.check().unwrap().is_empty());
    }
}

#[test]
fn maps_with_pairs_that_wait_are_sorted_maps() {
    for operations in [FEW, 20 * FEW] {
        is_a_sorted_map::<Stm>(Domain::Process, operations);
        is_a_sorted_map::<Stm>(Domain::Sync, operations);
        is_a_sorted_map::<SingleWriter>(Domain::Process, operations);
    }
}

/// Sets so many pairs that the transaction becomes a large one, in which the last ones wait.
fn set_many<'p>(tx: &Tx<'p>, map: OrderedMap<'p, u64, Vec<u8>>) -> Result<(), Error> {
    (0..20_000).try_for_each(|key| map.set(tx, &key, &vec![3; 400]))
}

#[test]
fn a_pool_that_is_full_when_they_are_stored_takes_all_back() {
    let (_folder, store) = store::<Stm>(Domain::Process, 4 << 20);
    store.write(|tx, root| root.get(tx)?.other.set(tx, &1, &vec![2])).unwrap();
    // The error of pairs that are stored at the end is the transaction's, although its closure has succeeded.
    let full = store.write(|tx, root| set_many(tx, root.get(tx)?.one));
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    // An operation that meets the error first ends the transaction, whatever its caller makes of it.
    let full = store.write(|tx, root| {
        let maps = root.get(tx)?;
        set_many(tx, maps.one)?;
        drop(maps.one.len(tx));
        Ok(())
    });
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    let lens = store.read(|tx, root| {
        let maps = root.get(tx)?;
        Ok((maps.one.len(tx)?, maps.other.get(tx, &1)?))
    });
    assert_eq!(lens.unwrap(), (0, Some(vec![2])));
    assert!(store.check().unwrap().is_empty());
}

#[test]
fn a_map_that_is_destroyed_takes_no_more_pairs() {
    let (_folder, store) = store::<Stm>(Domain::Process, 64 << 20);
    let mut runs = 0;
    let set = store.write(|tx, root| {
        runs += 1;
        let map = OrderedMap::new(tx)?;
        set_many(tx, map)?;
        map.destroy(tx)?;
        let set = map.set(tx, &1, &vec![1]);
        assert!(matches!(set, Err(Error::Interrupted)), "{set:?}");
        root.get(tx).map(drop)
    });
    assert!(matches!(set, Err(Error::Dangling { .. })), "{set:?}");
    assert!(runs > 1, "the transaction fits the log");
    // A map may be destroyed while pairs of it wait.
    let before = store.pool().usage().unwrap().objects;
    store
        .write(|tx, _| {
            let map = OrderedMap::new(tx)?;
            set_many(tx, map)?;
            map.destroy(tx)
        })
        .unwrap();
    assert_eq!(store.pool().usage().unwrap().objects, before);
}

#[test]
fn a_value_that_is_read_in_its_place_keeps_pairs_from_waiting() {
    let (_folder, store) = store::<Stm>(Domain::Process, 64 << 20);
    store
        .write(|tx, root| {
            let maps = root.get(tx)?;
            set_many(tx, maps.one)?;
            let set = maps.one.read_with(tx, &7, |_| maps.one.set(tx, &8, &vec![1]))?;
            assert!(matches!(set, Some(Err(Error::Parameter(_)))), "{set:?}");
            Ok(())
        })
        .unwrap();
    assert_eq!(store.read(|tx, root| root.get(tx)?.one.get(tx, &8)).unwrap(), Some(vec![3; 400]));
}

#[test]
fn a_quarter_of_the_memory_waits() {
    let (_folder, store) = store::<Stm>(Domain::Sync, 1 << 28);
    let mut copies = 0;
    store
        .write(|tx, root| {
            let map = root.get(tx)?.one;
            (0..12_000).try_for_each(|key| map.set(tx, &key, &vec![3; 2000]))?;
            copies = store.pool().space()?.memory_bytes;
            Ok(())
        })
        .unwrap();
    // The memory is 64 MB. Of the 24 MB, 16 MB were stored before the transaction ended.
    assert!((16 << 20..19 << 20).contains(&copies), "{copies} bytes of pages");
    assert_eq!(store.read(|tx, root| root.get(tx)?.one.len(tx)).unwrap(), 12_000);
}

#[test]
fn the_last_one_of_pairs_with_the_same_key_remains() {
    let (_folder, store) = store::<Stm>(Domain::Process, 64 << 20);
    store
        .write(|tx, root| {
            let map = root.get(tx)?.one;
            set_many(tx, map)?;
            // The second one is too large to wait.
            map.set(tx, &7, &vec![1; 10])?;
            map.set(tx, &7, &vec![2; 3000])?;
            map.set(tx, &8, &vec![3; 3000])?;
            map.set(tx, &8, &vec![4; 10])
        })
        .unwrap();
    let found = store.read(|tx, root| {
        let map = root.get(tx)?.one;
        Ok((map.get(tx, &7)?, map.get(tx, &8)?))
    });
    assert_eq!(found.unwrap(), (Some(vec![2; 3000]), Some(vec![4; 10])));
}

#[test]
fn a_table_may_be_used_with_its_types_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("pool")).unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    let dynamic = db.dynamic_table("numbers", "u64", "u64", &Types::default()).unwrap();
    let number = Dynamic::Unsigned;
    let mut runs = 0;
    db.write(|tx| {
        runs += 1;
        (0..200_000).try_for_each(|key| table.set(tx, &key, &key))?;
        dynamic.set(tx, &number(1), &number(10))?;
        dynamic.set(tx, &number(2), &number(20))?;
        table.set(tx, &2, &21)?;
        table.set(tx, &3, &31)?;
        dynamic.set(tx, &number(3), &number(30))
    })
    .unwrap();
    assert!(runs > 1, "the transaction fits the log");
    let found = db.read(|tx| Ok([1, 2, 3].map(|key| table.get(tx, &key).unwrap().unwrap())));
    assert_eq!(found.unwrap(), [10, 21, 30]);
}

/// Fills a map, and then sets many pairs between its pairs in one transaction, up to a point from which on all is rolled back.
fn set_between(size: u64) -> Result<(), Error> {
    let (_folder, store) = store::<Stm>(Domain::Process, size);
    let mut random = fastrand::Rng::with_seed(1);
    let mut model = Model::new();
    for _ in 0..40 {
        let pairs: Vec<u64> = (0..250).map(|_| random.u64(..)).collect();
        store
            .write(|tx, root| {
                let map = root.get(tx)?.one;
                pairs.iter().try_for_each(|key| map.set(tx, key, &vec![1; 100]))
            })
            .unwrap();
        model.extend(pairs.iter().map(|&key| (key, vec![1; 100])));
    }
    // A third of them replace others.
    let old: Vec<u64> = model.keys().copied().collect();
    let mut new: Vec<u64> = (0..20_000).map(|_| random.u64(..)).collect();
    new.extend(old.iter().step_by(2).chain(old.iter().step_by(3)));
    random.shuffle(&mut new);
    let set = store.write(|tx, root| {
        let map = root.get(tx)?.one;
        new.iter().try_for_each(|key| map.set(tx, key, &vec![2; 90]))?;
        let before = tx.savepoint();
        new.iter().try_for_each(|key| map.set(tx, &key.wrapping_add(1), &vec![3; 90]))?;
        before.roll_back()
    });
    if set.is_ok() {
        model.extend(new.iter().map(|&key| (key, vec![2; 90])));
    }
    let found = store.read(|tx, root| {
        let map = root.get(tx)?.one;
        assert_eq!(map.len(tx)?, model.len() as u64);
        pairs(tx, map)
    });
    assert!(found? == model);
    assert!(store.check()?.is_empty());
    set
}

#[test]
fn pairs_are_merged_with_those_of_the_map() {
    set_between(64 << 20).unwrap();
    // The pool is full at some point.
    for megabytes in [4, 5, 6, 7] {
        let set = set_between(megabytes << 20);
        assert!(matches!(set, Ok(()) | Err(Error::Full { .. })), "{megabytes} MB: {set:?}");
        assert!(set.is_err() || megabytes > 4, "it does not become full");
    }
}

const THIRD: u64 = 20_000;

/// Sets every third key in one transaction, from `first` on. Returns the versions that were kept when all pairs were stored.
fn set_third(store: &Store<Maps<'static>>, first: u64) -> u64 {
    let mut usage = None;
    let set = store.write(|tx, root| {
        let map = root.get(tx)?.one;
        (0..THIRD).try_for_each(|key| map.set(tx, &(3 * key + first), &vec![3; 100]))?;
        assert_eq!(map.get(tx, &first)?, Some(vec![3; 100]));
        usage = Some(store.snapshot_usage()?);
        Ok(())
    });
    set.unwrap();
    let usage = usage.unwrap();
    // The transaction's own snapshot.
    assert_eq!((usage.snapshots, usage.ended), (1, 0));
    usage.versions
}

#[test]
fn few_versions_are_kept_of_pages_that_are_merged() {
    let lines = 100 * THIRD / 64;
    for reopened in [false, true] {
        let (folder, mut store) = store::<Stm>(Domain::Sync, 64 << 20);
        let change_other = |sets: bool| {
            let done = store.write(|tx, root| {
                let other = root.get(tx)?.other;
                (0..6_000).try_for_each(|key| match sets {
                    true => other.set(tx, &key, &vec![3; 100]),
                    false => other.remove(tx, &key).map(drop),
                })
            });
            done.unwrap();
        };
        change_other(true);
        set_third(&store, 0);
        // The chunks before those of the map become free.
        change_other(false);
        if reopened {
            store.close().unwrap();
            let options = Options { domain: Domain::Sync, ..Options::default() };
            store = Store::open_existing(folder.path().join("pool"), &options).unwrap();
        }
        // The second one of these finds the pages that the first one has freed.
        for first in [1, 2] {
            let versions = set_third(&store, first);
            assert!(versions < lines * 3 / 4, "{versions} versions, each {THIRD} rows have {lines} lines");
        }
        assert_eq!(store.read(|tx, root| root.get(tx)?.one.len(tx)).unwrap(), 3 * THIRD);
    }
}
