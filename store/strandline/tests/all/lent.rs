//! Values that snapshots lend beyond a closure.

use strandline::{Control, Database, Error, LentValue, Options, SingleWriter, Stm, Store, Tables};
use strandline_core::memory::Native;

fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    fastrand::Rng::with_seed(number).fill(&mut value);
    value
}

fn open<C: Control<Memory = Native>>(path: &std::path::Path, options: &Options) -> Database<C> {
    Database::from(Store::<Tables<'static>, C>::open(path, options, |tx| Tables::new(tx)).unwrap())
}

fn whole<C: Control<Memory = Native>>(value: &LentValue<C>) -> Vec<u8> {
    value.pieces().flatten().copied().collect()
}

/// A program keeps values while others replace and remove them, compact the file, and end the snapshot for lack of memory.
fn values_are_kept<C: Control<Memory = Native>>()
where
    LentValue<C>: Send + Sync,
{
    const BYTES: usize = 600_000;
    let folder = tempfile::tempdir().unwrap();
    // There is memory for only a few old versions, so that the snapshot is ended.
    let options = Options { snapshot_bytes: 2048, ..Options::default() };
    let db = open::<C>(&folder.path().join("db"), &options);
    let films = db.table::<u64, Vec<u8>>("films").unwrap();
    for key in 0..4 {
        db.write(|tx| films.set(tx, &key, &value(key, BYTES))).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let lent: Vec<_> = (0..4).map(|key| films.lend(&snapshot, &key).unwrap().unwrap()).collect();
    assert!(films.lend(&snapshot, &9).unwrap().is_none());
    drop(snapshot);
    assert!(lent.iter().all(|film| film.is_lent() && film.len() == BYTES as u64 && film.pieces().len() > 1));
    for round in 0..10 {
        for key in 0..4 {
            db.write(|tx| films.set(tx, &key, &value(100 + round, BYTES))).unwrap();
        }
        db.write(|tx| films.remove(tx, &3)).unwrap();
        if round % 4 == 0 {
            db.compact().unwrap();
        }
        std::thread::scope(|scope| {
            for (key, film) in (0..).zip(&lent) {
                scope.spawn(move || {
                    assert!(whole(film) == value(key, BYTES), "film {key} has changed in round {round}")
                });
            }
        });
    }
    // The lent values keep the database open.
    assert!(matches!(db.close(), Err(Error::InUse { .. })));
    drop(lent);
    // The pages of dropped values are used again.
    let before = db.space().unwrap().file_bytes;
    for round in 0..60 {
        db.write(|tx| films.set(tx, &(round % 4), &value(round, BYTES))).unwrap();
    }
    assert!(db.space().unwrap().file_bytes <= before, "pages that were lent are not used again");
    assert!(db.check().unwrap().is_empty());
    db.close().unwrap();
}

#[test]
fn lent_values_stay_as_they_were() {
    values_are_kept::<Stm>();
    values_are_kept::<SingleWriter>();
}

/// Values that cannot be lent are copied, and do not keep the database open.
#[test]
fn other_values_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let films = db.table::<u64, Vec<u8>>("films").unwrap();
    // Only values of more than 16 KB are stored in pages of their own.
    let sizes = [0, 1, 16 << 10, (16 << 10) + 1];
    for (key, bytes) in (0..).zip(sizes) {
        db.write(|tx| films.set(tx, &key, &value(key, bytes))).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let lent: Vec<_> = (0..4).map(|key| films.lend(&snapshot, &key).unwrap().unwrap()).collect();
    for (key, (bytes, film)) in (0..).zip(sizes.iter().zip(&lent)) {
        assert!(whole(film) == value(key, *bytes));
        assert_eq!(film.is_empty(), *bytes == 0);
    }
    assert_eq!(lent.iter().map(LentValue::is_lent).collect::<Vec<_>>(), [false, false, false, true]);
    // The pages of a value that was replaced since the snapshot began may be used again at any time.
    drop(lent);
    db.write(|tx| films.set(tx, &3, &value(7, 17_000))).unwrap();
    let film = films.lend(&snapshot, &3).unwrap().unwrap();
    assert!(!film.is_lent() && whole(&film) == value(3, sizes[3]));
    drop(snapshot);
    db.close().unwrap();
    assert!(whole(&film) == value(3, sizes[3]));

    let memory = Database::in_memory().unwrap();
    let films = memory.table::<u64, Vec<u8>>("films").unwrap();
    memory.write(|tx| films.set(tx, &1, &value(1, 100_000))).unwrap();
    let film = films.lend(&memory.snapshot().unwrap(), &1).unwrap().unwrap();
    memory.close().unwrap();
    assert!(!film.is_lent() && whole(&film) == value(1, 100_000));
}
