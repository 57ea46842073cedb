//! Savepoints: going back to one restores the earlier state, in transactions of any size, and leaks no memory.

use std::collections::BTreeMap;

use proptest::prelude::*;
use strandline::{
    Control, Database, Domain, Error, Geometry, HashMap, Options, Persist, Savepoint, SingleWriter, Stm,
    Store, Tables, Tx, Vector,
};
use strandline_core::memory::Native;

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, usize),
    Remove(u8),
    Push(u16),
    Pop,
    Set,
    /// Goes back to one of the savepoints that are set.
    RollBack(prop::sample::Index),
    /// Releases the newest savepoint.
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![4 => 0..100usize, 2 => 100..3000usize, 1 => 3000..70_000usize];
    let step = prop_oneof![
        6 => (0..20u8, length).prop_map(|(key, length)| Step::Insert(key, length)),
        2 => (0..20u8).prop_map(Step::Remove),
        3 => any::<u16>().prop_map(Step::Push),
        2 => Just(Step::Pop),
        2 => Just(Step::Set),
        2 => any::<prop::sample::Index>().prop_map(Step::RollBack),
        1 => Just(Step::Release),
    ];
    prop::collection::vec(step, 1..60)
}

type Model = (BTreeMap<u8, Vec<u8>>, Vec<u16>);

/// Each list of steps is one transaction. The last one is rolled back.
fn as_the_model<C: Control<Memory = Native>>(log_bytes: u64, transactions: &[Vec<Step>]) {
    let options = Options {
        domain: Domain::Process,
        geometry: Geometry { log_bytes, logs: 2, ..Geometry::default() },
        ..Options::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let db = Database::from(Store::<Tables, C>::open(&path, &options, |tx| Tables::new(tx)).unwrap());
    let table = db.table::<u8, Vec<u8>>("table").unwrap();
    let queue = db.queue::<u16>("queue").unwrap();
    let mut model = Model::default();
    for (number, steps) in transactions.iter().enumerate() {
        let is_last = number + 1 == transactions.len();
        let done = db.write(|tx| {
            let mut now = model.clone();
            let mut savepoints: Vec<(Savepoint<'_, '_, C>, Model)> = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(key, length) => {
                        let value = vec![number as u8; *length];
                        table.insert(tx, key, &value)?;
                        now.0.insert(*key, value);
                    }
                    Step::Remove(key) => {
                        let removed = table.remove(tx, key)?;
                        assert!(removed == now.0.remove(key), "{key}");
                    }
                    Step::Push(value) => {
                        queue.push(tx, value)?;
                        now.1.push(*value);
                    }
                    Step::Pop => {
                        let expected = (!now.1.is_empty()).then(|| now.1.remove(0));
                        assert_eq!(queue.pop(tx)?, expected);
                    }
                    Step::Set => savepoints.push((tx.savepoint(), now.clone())),
                    Step::RollBack(which) if !savepoints.is_empty() => {
                        let which = which.index(savepoints.len());
                        savepoints[which].0.roll_back()?;
                        now = savepoints[which].1.clone();
                        for (gone, _) in savepoints.drain(which + 1..) {
                            assert!(matches!(gone.roll_back(), Err(Error::Parameter(_))));
                        }
                    }
                    Step::RollBack(_) => {}
                    Step::Release => drop(savepoints.pop()),
                }
            }
            let rows: BTreeMap<_, _> = table.iter(tx)?.collect::<Result<_, _>>()?;
            assert!(rows == now.0);
            if is_last { Err(Error::Aborted) } else { Ok(now) }
        });
        match done {
            Ok(now) => model = now,
            Err(error) => assert!(is_last && matches!(error, Error::Aborted), "{error}"),
        }
        assert_eq!(db.check().unwrap(), [""; 0]);
        assert_eq!(db.lost_memory().unwrap().blocks, 0);
    }
    // The store is left as after a crash.
    std::mem::forget(db);
    let copy = folder.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    let db = Database::from(Store::<Tables, C>::open(&copy, &options, |tx| Tables::new(tx)).unwrap());
    let (table, queue) = (db.table::<u8, Vec<u8>>("table").unwrap(), db.queue::<u16>("queue").unwrap());
    let found = db.write(|tx| {
        let rows: BTreeMap<_, _> = table.iter(tx)?.collect::<Result<_, _>>()?;
        let mut values = Vec::new();
        while let Some(value) = queue.pop(tx)? {
            values.push(value);
        }
        Ok((rows, values))
    });
    assert_eq!(found.unwrap(), model);
    assert_eq!(db.lost_memory().unwrap().blocks, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn going_back_leaves_what_was_there(
        transactions in prop::collection::vec(steps(), 1..5),
        single_writer in any::<bool>(),
        small_logs in any::<bool>(),
    ) {
        // With small logs, most transactions are large ones.
        let log_bytes = if small_logs { 1 << 16 } else { 1 << 20 };
        if single_writer {
            as_the_model::<SingleWriter>(log_bytes, &transactions);
        } else {
            as_the_model::<Stm>(log_bytes, &transactions);
        }
    }
}

#[derive(Persist)]
struct Shelf<'p> {
    numbers: Vector<'p, u64>,
    names: HashMap<'p, u64, String>,
}

fn make<'p>(tx: &Tx<'p>) -> strandline::Result<Shelf<'p>> {
    let numbers = Vector::new(tx)?;
    numbers.extend(tx, 0..10)?;
    Ok(Shelf { numbers, names: HashMap::new(tx)? })
}

#[test]
fn what_was_made_since_a_savepoint_is_gone_for_its_pointers_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::<Shelf>::create_new(folder.path().join("pool"), &Options::default(), make).unwrap();
    for _ in 0..2 {
        store
            .write(|tx, root| {
                let before = tx.savepoint();
                let shelf = make(tx)?;
                let entry = root.get(tx)?.names.entry(tx, 1)?;
                before.roll_back()?;
                assert!(matches!(shelf.numbers.len(tx), Err(Error::Interrupted)));
                // The transaction has met an error, which it reports.
                entry.insert(&"one".to_owned()).map(drop)
            })
            .map_or_else(
                |error| assert!(matches!(error, Error::Dangling { .. }), "{error}"),
                |()| panic!("it read a value that does not exist"),
            );
    }
    assert_eq!(store.lost_memory().unwrap().blocks, 0);
}

#[test]
fn a_savepoint_does_not_save_a_transaction_that_has_failed() {
    let options = Options {
        domain: Domain::Process,
        geometry: Geometry { size: 32 << 20, ..Geometry::default() },
        ..Options::default()
    };
    let db = Database::in_memory_with(&options).unwrap();
    let table = db.table::<u64, Vec<u8>>("table").unwrap();
    let done = db.write(|tx| {
        let before = tx.savepoint();
        assert!(table.insert(tx, &1, &vec![1; 64 << 20]).is_err());
        assert!(matches!(before.roll_back(), Err(Error::Interrupted)));
        Ok(())
    });
    assert!(matches!(done, Err(Error::Full { .. })), "{done:?}");
    assert_eq!(db.read(|tx| table.len(tx)).unwrap(), 0);
}

#[test]
fn operations_on_a_vector_see_what_others_have_changed_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::<Shelf>::create_new(folder.path().join("pool"), &Options::default(), make).unwrap();
    store
        .write(|tx, root| {
            let numbers = root.get(tx)?.numbers;
            numbers.swap(tx, 0, 9)?;
            assert_eq!((numbers.get(tx, 0)?, numbers.get(tx, 9)?), (Some(9), Some(0)));
            assert_eq!((numbers.pop(tx)?, numbers.get(tx, 9)?), (Some(0), None));
            numbers.push(tx, &7)?;
            assert_eq!(numbers.get(tx, 9)?, Some(7));
            numbers.truncate(tx, 5)?;
            assert_eq!((numbers.get(tx, 5)?, numbers.last(tx)?), (None, Some(4)));
            let before = tx.savepoint();
            numbers.clear(tx)?;
            numbers.extend(tx, 20..40)?;
            assert_eq!((numbers.get(tx, 0)?, numbers.get(tx, 19)?), (Some(20), Some(39)));
            before.roll_back()?;
            assert_eq!((numbers.get(tx, 5)?, numbers.get(tx, 4)?), (None, Some(4)));
            // Two vectors in turn.
            let others = Vector::new(tx)?;
            others.extend(tx, 100..110)?;
            for index in 0..5 {
                assert_eq!(others.set(tx, index, &index)?, 100 + index);
                assert_eq!(numbers.set(tx, index, &(200 + index))?, if index == 0 { 9 } else { index });
            }
            assert_eq!((others.get(tx, 4)?, numbers.get(tx, 4)?), (Some(4), Some(204)));
            others.destroy(tx)
        })
        .unwrap();
    let gone = store.write(|tx, root| {
        let numbers = root.get(tx)?.numbers;
        numbers.set(tx, 0, &1)?;
        numbers.destroy(tx)?;
        numbers.set(tx, 0, &2).map(drop)
    });
    assert!(matches!(gone, Err(Error::Dangling { .. })), "{gone:?}");
}
