//! Snapshots of typed stores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use strandline::example::path_and_options;
use strandline::{
    Database, Domain, Error, HashMap, Options, OrderedMap, Persist, Result, SingleWriter, Store, Text, View,
};

#[derive(Persist)]
struct Books<'p> {
    by_number: OrderedMap<'p, u64, u64>,
    titles: HashMap<'p, u64, String>,
    notes: Text<'p>,
}

fn create<C: strandline::Control<Memory = strandline_core::memory::Native>>(
    path: &std::path::Path,
    options: &Options,
) -> Store<Books<'static>, C>
where
    Books<'static>: for<'p> strandline::Root<At<'p> = Books<'p>>,
{
    Store::create_new(path, options, |tx| {
        let books = Books {
            by_number: OrderedMap::new(tx)?,
            titles: HashMap::new(tx)?,
            notes: Text::new(tx, "none")?,
        };
        for number in 0..ROWS {
            books.by_number.insert(tx, &number, &0)?;
            books.titles.insert(tx, &number, &format!("book {number}"))?;
        }
        Ok(books)
    })
    .unwrap()
}

const ROWS: u64 = 100;

/// Scans beside a writer that changes every row in one transaction, and the shape of the maps in others. Each scan must see the rows of one state.
fn scans_see_one_state<C>(store: &Store<Books<'static>, C>)
where
    C: strandline::Control<Memory = strandline_core::memory::Native>,
    Store<Books<'static>, C>: Sync,
{
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                store
                    .write(|tx, root| {
                        let books = root.get(tx)?;
                        (0..10).try_for_each(|i| books.by_number.insert(tx, &(i * 10), &round).map(drop))
                    })
                    .unwrap();
                let extra = ROWS + round % 50;
                store
                    .write(|tx, root| {
                        let books = root.get(tx)?;
                        if books.titles.insert(tx, &extra, &"extra".into())?.is_some() {
                            books.titles.remove(tx, &extra)?;
                            books.by_number.remove(tx, &extra)?;
                        } else {
                            books.by_number.insert(tx, &extra, &1)?;
                        }
                        Ok(())
                    })
                    .unwrap();
            }
            round
        });
        let mut rounds = std::collections::BTreeSet::new();
        while rounds.len() < 20 {
            let snapshot = store.snapshot().unwrap();
            let (tx, root) = snapshot.read();
            let books = root.get(&tx).unwrap();
            let rows: Vec<_> = books.by_number.range(&tx, ..).collect::<Result<_, _>>().unwrap();
            let changed: Vec<u64> = rows
                .iter()
                .filter(|(key, _)| *key < ROWS && key % 10 == 0)
                .map(|&(_, round)| round)
                .collect();
            assert!(changed.windows(2).all(|pair| pair[0] == pair[1]), "{changed:?}");
            let titles = books.titles.iter(&tx).map(|row| row.unwrap().0).filter(|&key| key >= ROWS).count();
            let extra = rows.iter().filter(|(key, _)| *key >= ROWS).count();
            assert_eq!(titles, extra, "both maps are of one state");
            rounds.insert(changed[0]);
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

#[test]
fn scans_of_a_snapshot_see_one_state() {
    let (path, options) = path_and_options();
    scans_see_one_state(&create::<strandline::Stm>(&path, &options));
    let (path, options) = path_and_options();
    let options = Options { domain: Domain::Sync, ..options };
    scans_see_one_state(&create::<SingleWriter>(&path, &options));
}

#[test]
fn a_snapshot_says_at_once_that_it_was_ended() {
    let (path, options) = path_and_options();
    let store = create::<strandline::Stm>(&path, &Options { snapshot_bytes: 2048, ..options });
    let snapshot = store.snapshot().unwrap();
    store
        .write(|tx, root| {
            let books = root.get(tx)?;
            (0..ROWS).try_for_each(|number| books.by_number.insert(tx, &number, &9).map(drop))
        })
        .unwrap();
    let (tx, root) = snapshot.read();
    assert!(matches!(root.get(&tx).map(drop), Err(Error::SnapshotEnded { .. })));
    assert_eq!(store.snapshot_usage().unwrap().ended, 1);
    // The next snapshot sees the new values.
    let snapshot = store.snapshot().unwrap();
    assert!(snapshot.check().unwrap().is_empty());
    let (tx, root) = snapshot.read();
    assert_eq!(root.get(&tx).unwrap().by_number.get(&tx, &7).unwrap(), Some(9));
}

type Bytes = Vec<u8>;

/// Keys with common prefixes, so that they share words; short and long ones.
fn key() -> impl Strategy<Value = Bytes> {
    (0usize..4, prop::collection::vec(0u8..3, 0..12)).prop_map(|(same, rest)| {
        let mut key = vec![7; 8 * same];
        key.extend(rest);
        key
    })
}

fn rows(
    map: &strandline::Table<Bytes, Bytes>,
    tx: &View<'_>,
    from: &Bytes,
    back: bool,
) -> Result<Vec<(Bytes, Bytes)>> {
    let rows = map.range(tx, from.clone()..)?;
    if back { rows.rev().collect() } else { rows.collect() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// Entries of all lengths. A scan of a snapshot reads some of their words before it knows the length: first while nothing has changed since the
    /// snapshot began, and then after every row has changed.
    #[test]
    fn scans_at_a_snapshot_have_rows_of_all_lengths(
        model in prop::collection::btree_map(key(), (0usize..700, any::<u8>()), 0..300),
        from in key(),
    ) {
        let model: BTreeMap<Bytes, Bytes> =
            model.into_iter().map(|(key, (length, byte))| (key, vec![byte; length])).collect();
        let db = Database::in_memory().unwrap();
        let map = db.table::<Bytes, Bytes>("rows").unwrap();
        db.write(|tx| model.iter().try_for_each(|(key, value)| map.insert(tx, key, value).map(drop))).unwrap();
        let mut expected: Vec<_> = model.range(from.clone()..).map(|(k, v)| (k.clone(), v.clone())).collect();
        let snapshot = db.snapshot().unwrap();
        let check = |back: bool, expected: &Vec<(Bytes, Bytes)>| {
            let tx = snapshot.read();
            assert_eq!(&rows(&map, &tx, &from, back).unwrap(), expected);
        };
        check(false, &expected);
        db.write(|tx| model.keys().try_for_each(|key| map.insert(tx, key, &b"changed".to_vec()).map(drop))).unwrap();
        check(false, &expected);
        expected.reverse();
        check(true, &expected);
    }
}
