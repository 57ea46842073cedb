//! Values of many pages: stored in extents and written past the log, beside readers, snapshots and backups, and after a crash.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::{Strategy, prop_oneof};
use strandline::{Control, Database, Domain, Error, Options, OrderedMap, Persist, SingleWriter, Stm, Store};
use strandline_core::layout::Geometry;
use strandline_core::memory::Native;
use strandline_core::sync::SyncParameters;

#[derive(Persist)]
struct Shelf<'p> {
    values: OrderedMap<'p, u64, Vec<u8>>,
}

type Shelves<C> = Store<Shelf<'static>, C>;

fn options(domain: Domain) -> Options {
    Options {
        geometry: Geometry { size: 256 << 20, logs: 4, log_bytes: 1 << 18, chunk_bytes: 1 << 18 },
        sync: SyncParameters { ring_blocks: 1024, dirty_pages: 256, ..SyncParameters::default() },
        domain,
        lock_bits: 14,
        ..Options::default()
    }
}

fn create<C: Control<Memory = Native>>(path: &Path, options: &Options) -> Shelves<C>
where
    Shelf<'static>: for<'p> strandline::Root<At<'p> = Shelf<'p>>,
{
    Store::create_new(path, options, |tx| Ok(Shelf { values: OrderedMap::new(tx)? })).unwrap()
}

/// Returns a value that depends on its number in each of its bytes.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    fastrand::Rng::with_seed(number).fill(&mut value);
    value
}

fn get<C: Control<Memory = Native>>(store: &Shelves<C>, key: u64) -> Option<Vec<u8>> {
    store.read(|tx, root| root.get(tx)?.values.get(tx, &key)).unwrap()
}

fn insert<C: Control<Memory = Native>>(store: &Shelves<C>, key: u64, value: &Vec<u8>) -> Option<Vec<u8>> {
    store.write(|tx, root| root.get(tx)?.values.insert(tx, &key, value)).unwrap()
}

fn all<C: Control<Memory = Native>>(store: &Shelves<C>) -> BTreeMap<u64, Vec<u8>> {
    store.read(|tx, root| root.get(tx)?.values.iter(tx).collect::<Result<_, _>>()).unwrap()
}

/// Opens a copy of the store as a crash at this moment would leave it.
fn recovered<C: Control<Memory = Native>>(path: &Path, options: &Options) -> Shelves<C> {
    let copy = path.with_file_name("copy");
    std::fs::copy(path, &copy).unwrap();
    if options.domain == Domain::Sync {
        std::fs::copy(strandline_core::file::log_path(path), strandline_core::file::log_path(&copy)).unwrap();
    }
    Store::open_existing(&copy, options).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, usize),
    /// Changes some bytes of a value.
    Patch(u64, usize, u8),
    Remove(u64),
    GiveUp(u64, usize),
    /// Goes back to a savepoint after an insertion.
    GoBack(u64, usize),
    Checkpoint,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = || prop_oneof![0..20_000_usize, 16_000..70_000_usize, 60_000..700_000_usize];
    let step = prop_oneof![
        4 => (0..6_u64, bytes()).prop_map(|(key, bytes)| Step::Insert(key, bytes)),
        2 => (0..6_u64, 0..700_000_usize, 0..=u8::MAX).prop_map(|(key, at, byte)| Step::Patch(key, at, byte)),
        2 => (0..6_u64).prop_map(Step::Remove),
        1 => (0..6_u64, bytes()).prop_map(|(key, bytes)| Step::GiveUp(key, bytes)),
        1 => (0..6_u64, bytes()).prop_map(|(key, bytes)| Step::GoBack(key, bytes)),
        1 => proptest::prelude::Just(Step::Checkpoint),
    ];
    proptest::collection::vec(step, 1..30)
}

fn runs_like_a_map<C: Control<Memory = Native>>(steps: &[Step], domain: Domain) {
    let folder = tempfile::tempdir().unwrap();
    let (path, options) = (folder.path().join("pool"), options(domain));
    let store = create::<C>(&path, &options);
    let empty = store.pool().usage().unwrap();
    let mut model = BTreeMap::new();
    for (number, step) in (0..).zip(steps) {
        match *step {
            Step::Insert(key, bytes) => {
                let new = value(number, bytes);
                assert!(insert(&store, key, &new) == model.insert(key, new));
            }
            Step::Patch(key, at, byte) => {
                if let Some(known) = model.get_mut(&key).filter(|known| !known.is_empty()) {
                    let place = at % known.len();
                    known[place] = byte;
                    insert(&store, key, known);
                }
            }
            Step::Remove(key) => {
                let removed = store.write(|tx, root| root.get(tx)?.values.remove(tx, &key)).unwrap();
                assert!(removed == model.remove(&key));
            }
            Step::GiveUp(key, bytes) => {
                let given_up = store.write(|tx, root| {
                    let values = root.get(tx)?.values;
                    values.remove(tx, &key)?;
                    values.insert(tx, &key, &value(number, bytes))?;
                    Err::<(), _>(Error::Aborted)
                });
                assert!(matches!(given_up, Err(Error::Aborted)));
            }
            Step::GoBack(key, bytes) => store
                .write(|tx, root| {
                    let values = root.get(tx)?.values;
                    let savepoint = tx.savepoint();
                    values.remove(tx, &key)?;
                    values.insert(tx, &key, &value(number, bytes))?;
                    savepoint.roll_back()?;
                    Ok(())
                })
                .unwrap(),
            Step::Checkpoint => {
                if domain == Domain::Sync {
                    store.pool().checkpoint().unwrap();
                }
            }
        }
        for (key, known) in &model {
            assert!(get(&store, *key).as_ref() == Some(known), "after step {number}");
        }
    }
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
    if domain == Domain::Sync {
        let after_crash = recovered::<C>(&path, &options);
        assert!(all(&after_crash) == model, "after a crash");
        assert_eq!(after_crash.check().unwrap(), Vec::<String>::new());
    }
    (0..6).for_each(|key| drop(store.write(|tx, root| root.get(tx)?.values.remove(tx, &key)).unwrap()));
    assert_eq!(store.pool().usage().unwrap().objects, empty.objects, "nothing is left of them");
    store.close().unwrap();
    let store: Shelves<C> = Store::open_existing(&path, &options).unwrap();
    assert!(all(&store).is_empty());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 5, ..Default::default() })]
    #[test]
    fn a_map_of_large_values_is_a_map(steps in steps()) {
        runs_like_a_map::<Stm>(&steps, Domain::Sync);
        runs_like_a_map::<SingleWriter>(&steps, Domain::Sync);
        runs_like_a_map::<Stm>(&steps, Domain::Process);
    }
}

/// Checks the number of bytes that a large value takes in the log, in disk writes and in the file.
fn writes_once<C: Control<Memory = Native>>() {
    const BYTES: usize = 1_000_000;
    const VALUES: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let (path, options) = (folder.path().join("pool"), options(Domain::Sync));
    let store = create::<C>(&path, &options);
    // New values, and values that replace others.
    for round in 0..3 {
        let before = store.statistics().unwrap().device;
        (0..VALUES).for_each(|key| drop(insert(&store, key, &value(round * VALUES + key, BYTES))));
        let after = store.statistics().unwrap().device;
        let logged = after.log_bytes - before.log_bytes;
        assert!(logged < VALUES * 20_000, "round {round}: {logged} bytes of log");
        // Each transaction writes one block, and one more if the previous value has freed pages nearby. A checkpoint writes some blocks.
        let writes = after.log_writes - before.log_writes;
        assert!(round > 0 || writes < VALUES * 3 / 2, "round {round}: {writes} writes of the log");
    }
    let taken = store.pool().usage().unwrap().allocated_bytes;
    assert!((taken as f64) < 1.02 * (VALUES as usize * BYTES) as f64, "{taken} bytes are allocated");
    store.close().unwrap();
    let file = std::fs::metadata(&path).unwrap().len();
    assert!((file as f64) < 1.5 * (VALUES as usize * BYTES) as f64, "the file has {file} bytes");
}

#[test]
fn a_large_value_is_written_once() {
    writes_once::<Stm>();
    writes_once::<SingleWriter>();
}

/// Values change all the time, while readers, snapshots and backups check whether each is intact.
fn beside<C: Control<Memory = Native> + Send + Sync>()
where
    Shelves<C>: Sync,
{
    const ROUNDS: u64 = 60;
    const KEYS: u64 = 3;
    let folder = tempfile::tempdir().unwrap();
    let (path, options) = (folder.path().join("pool"), options(Domain::Sync));
    let store = create::<C>(&path, &options);
    // The first bytes are the number of the value.
    let new =
        |number: u64| [&number.to_le_bytes()[..], &value(number, 100_000 + 1000 * number as usize)].concat();
    let check = |found: &[u8]| {
        let number = u64::from_le_bytes(found[..8].try_into().unwrap());
        assert!(found == new(number), "value {number} is torn");
        number
    };
    (0..KEYS).for_each(|key| drop(insert(&store, key, &new(key))));
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                (0..KEYS).for_each(|key| {
                    check(&get(&store, key).unwrap());
                });
            }
        });
        let snapshots = scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                let snapshot = store.snapshot().unwrap();
                let numbers = |snapshot: &strandline::Snapshot<Shelf<'static>, C>| {
                    let (tx, root) = snapshot.read();
                    let pairs = root.get(&tx).unwrap().values.iter(&tx);
                    pairs.map(|pair| check(&pair.unwrap().1)).collect::<Vec<_>>()
                };
                let first = numbers(&snapshot);
                std::thread::yield_now();
                assert_eq!(numbers(&snapshot), first, "a snapshot has changed");
            }
        });
        for number in KEYS..ROUNDS {
            insert(&store, number % KEYS, &new(number));
            if number % 7 == 0 {
                store.pool().checkpoint().unwrap();
            }
            if number % 20 == 0 {
                let to = folder.path().join(format!("backup-{number}"));
                store.backup(&to).unwrap();
                let copy: Shelves<C> = Store::open_existing(&to, &options).unwrap();
                assert_eq!(all(&copy).len() as u64, KEYS);
                all(&copy).values().for_each(|found| {
                    check(found);
                });
            }
        }
        has_ended.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        snapshots.join().unwrap();
    });
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
    let after_crash = recovered::<C>(&path, &options);
    assert!(all(&after_crash) == all(&store), "after a crash");
}

#[test]
fn large_values_are_whole_beside_writers() {
    beside::<Stm>();
    beside::<SingleWriter>();
}

/// Values are replaced, and sometimes removed so that others take their place, while readers have borrowed them.
fn lent_beside_a_writer<C: Control<Memory = Native> + Send + Sync>()
where
    Shelves<C>: Sync,
{
    const ROUNDS: u64 = 150;
    const KEYS: u64 = 4;
    let folder = tempfile::tempdir().unwrap();
    let store = create::<C>(&folder.path().join("pool"), &options(Domain::Sync));
    // All bytes of a value are its number.
    let new = |number: u64| vec![number as u8; 100_000 + (number as usize % 5) * 90_000];
    let is_whole = |found: &[u8]| found[1..] == found[..found.len() - 1];
    (0..KEYS).for_each(|key| drop(insert(&store, key, &new(key))));
    let (has_ended, borrowed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|_| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    for key in 0..KEYS {
                        let read = store.read(|tx, root| {
                            root.get(tx)?.values.read_with(tx, &key, |bytes: &[u8]| {
                                let first = bytes[0];
                                std::thread::sleep(Duration::from_micros(300));
                                assert!(
                                    bytes[0] == first && is_whole(bytes),
                                    "a value that was lent has changed"
                                );
                            })
                        });
                        borrowed.fetch_add(u64::from(read.unwrap().is_some()), Ordering::Relaxed);
                    }
                }
            })
        });
        for number in KEYS..ROUNDS {
            let key = number % KEYS;
            store
                .write(|tx, root| {
                    let values = root.get(tx)?.values;
                    match number % 3 {
                        0 => drop(values.remove(tx, &key)?),
                        _ => values.set(tx, &key, &new(number))?,
                    }
                    // Small values, which may take the chunks that have become empty.
                    values.set(tx, &(KEYS + number % 20), &vec![number as u8; 15_000])
                })
                .unwrap();
            if number % 10 == 0 {
                store.checkpoint().unwrap();
            }
            if number % 25 == 0 {
                store.compact().unwrap();
            }
        }
        has_ended.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert!(borrowed.into_inner() > 0);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
    store.close().unwrap();
}

#[test]
fn values_that_are_lent_stay_as_they_are() {
    lent_beside_a_writer::<Stm>();
    lent_beside_a_writer::<SingleWriter>();
}

/// A reader borrows a value instead of copying it: it gets the same bytes at the same address again. A transaction that writes gets copies.
#[test]
fn values_are_lent_to_readers_alone() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let films = db.table::<u64, Vec<u8>>("films").unwrap();
    let film = value(1, 200_000);
    db.write(|tx| films.set(tx, &1, &film)).unwrap();
    let place = |bytes: &[u8]| {
        assert!(bytes == film);
        bytes.as_ptr().addr()
    };
    let lent = db.read(|tx| films.read_with(tx, &1, place)).unwrap();
    assert_eq!(db.read(|tx| films.read_with(tx, &1, place)).unwrap(), lent);
    let copied = db.write(|tx| films.read_with(tx, &1, place)).unwrap();
    assert_ne!(copied, lent);
    // While the value is lent, new values get other pages. Afterwards its old pages are used again.
    let snapshot = db.snapshot().unwrap();
    let tx = snapshot.read();
    let replace = || {
        for number in 2..40 {
            db.write(|tx| films.set(tx, &1, &value(number, 200_000))).unwrap();
        }
    };
    films
        .read_with(&tx, &1, |bytes| {
            assert_eq!(Some(place(bytes)), lent);
            std::thread::scope(|scope| scope.spawn(replace).join().unwrap());
            place(bytes)
        })
        .unwrap();
    // The value has been freed since, and is read through the snapshot.
    films.read_with(&tx, &1, place).unwrap();
    drop(tx);
    drop(snapshot);
    let before = db.space().unwrap().file_bytes;
    for number in 2..400 {
        db.write(|tx| films.set(tx, &1, &value(number, 200_000))).unwrap();
    }
    assert!(
        db.space().unwrap().file_bytes <= before,
        "pages that nobody borrows any more are not used again"
    );
    db.close().unwrap();
}

/// Writes and reads bytes piece by piece, for values in every form of storage.
#[test]
fn values_are_streams() {
    use std::io::{Read, Seek, SeekFrom};

    let folder = tempfile::tempdir().unwrap();
    let db = Database::open_with(folder.path().join("pool"), &options(Domain::Sync)).unwrap();
    let films = db.table::<u64, Vec<u8>>("films").unwrap();
    for (key, bytes) in (0..).zip([0, 7, 300, 5_000, 17_000, 65_537, 1_000_003]) {
        let film = value(key, bytes);
        // Once as a new value, and once in the place of another.
        for _ in 0..2 {
            db.write(|tx| films.set_from(tx, &key, bytes as u64, film.as_slice())).unwrap();
            assert!(db.read(|tx| films.get(tx, &key)).unwrap().as_ref() == Some(&film));
        }
        let read = |tx: &strandline::View<'_, Stm>| {
            let mut reader = films.reader(tx, &key)?.unwrap();
            assert_eq!(reader.len(), bytes as u64);
            let (mut whole, mut rest) = (Vec::new(), Vec::new());
            reader.read_to_end(&mut whole).unwrap();
            assert!(whole == film, "value {key}");
            let mut written = Vec::new();
            for from in [0, bytes as u64 / 2, (bytes as u64).saturating_sub(1), bytes as u64] {
                reader.seek(SeekFrom::Start(from)).unwrap();
                assert_eq!(reader.write_to(&mut written)?, bytes as u64 - from);
                assert!(written == film[from as usize..], "value {key} from {from} on");
                written.clear();
            }
            let middle = reader.seek(SeekFrom::End(-(bytes as i64 / 3))).unwrap();
            reader.read_to_end(&mut rest).unwrap();
            assert!(rest == film[middle as usize..], "value {key} from {middle} on");
            assert!(reader.seek(SeekFrom::Current(-2 * bytes as i64 - 1)).is_err());
            assert_eq!(
                (reader.seek(SeekFrom::Start(u64::MAX)).unwrap(), reader.read(&mut [0]).unwrap()),
                (u64::MAX, 0)
            );
            Ok(())
        };
        db.read(|tx| read(tx)).unwrap();
    }
    // The reader that supplies the bytes may itself read through the same transaction, and its errors are returned.
    db.write(|tx| {
        let film = films.reader(tx, &6)?.unwrap();
        films.set_from(tx, &7, film.len(), film)
    })
    .unwrap();
    assert!(db.read(|tx| films.get(tx, &7)).unwrap() == Some(value(6, 1_000_003)));
    let short = db.write(|tx| films.set_from(tx, &1, 100_000, [1, 2, 3].as_slice()));
    assert!(matches!(&short, Err(Error::Io { .. })), "{short:?}");
    assert_eq!(db.read(|tx| films.get(tx, &1)).unwrap(), Some(value(1, 7)), "it is as it was");
    // The transaction can continue, and has nothing of the value.
    let film = value(9, 900_000);
    db.write(|tx| {
        for bytes in [0, 20_000, 300_000, 899_999] {
            match films.set_from(tx, &1, 900_000, &film[..bytes]) {
                Err(Error::Io { .. }) => {}
                // The transaction has to run again, as a large one.
                other => return other.and(Err(Error::Aborted)),
            }
        }
        films.set_from(tx, &9, 900_000, film.as_slice())
    })
    .unwrap();
    assert_eq!(db.read(|tx| films.get(tx, &1)).unwrap(), Some(value(1, 7)), "it is as it was");
    assert!(db.read(|tx| films.get(tx, &9)).unwrap() == Some(film));
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    assert_eq!(db.lost_memory().unwrap().blocks, 0);
}

/// A backup begins when a transaction has written past the log, and ends before that commits. The transaction runs again, and the copy has nothing of
/// it.
#[test]
fn a_backup_has_all_that_its_log_has() {
    let folder = tempfile::tempdir().unwrap();
    let (path, options) = (folder.path().join("pool"), options(Domain::Sync));
    let store = create::<Stm>(&path, &options);
    let (old, new) = (value(1, 500_000), value(2, 500_000));
    insert(&store, 1, &old);
    // Value 2 is removed again, so that its pages are free and the next value takes them.
    insert(&store, 2, &old);
    store.write(|tx, root| root.get(tx)?.values.remove(tx, &2)).unwrap();
    let mut runs = 0;
    store
        .write(|tx, root| {
            runs += 1;
            root.get(tx)?.values.insert(tx, &3, &new)?;
            if runs == 1 {
                let copy = std::thread::scope(|scope| {
                    scope.spawn(|| store.backup(folder.path().join("copy"))).join()
                });
                copy.unwrap().unwrap();
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(runs, 2);
    assert!(all(&store) == BTreeMap::from([(1, old.clone()), (3, new)]));
    let copy: Shelves<Stm> = Store::open_existing(folder.path().join("copy"), &options).unwrap();
    assert!(all(&copy) == BTreeMap::from([(1, old)]));
}

/// One transaction stores a value again and again, and goes back to savepoints. The values that it stored before are not lost.
fn again_in_one_transaction<C: Control<Memory = Native>>() {
    let folder = tempfile::tempdir().unwrap();
    let (path, options) = (folder.path().join("pool"), options(Domain::Sync));
    let store = create::<C>(&path, &options);
    // Chunks of extents usually have free pages.
    (1..4).for_each(|key| drop(insert(&store, key, &value(key, 100_000))));
    let remove = |key| store.write(|tx, root| root.get(tx)?.values.remove(tx, &key).map(drop)).unwrap();
    (1..4).for_each(remove);
    for bytes in [20_000, 100_000, 400_000] {
        let [first, second] = [1, 2].map(|number| value(number, bytes));
        store
            .write(|tx, root| {
                let values = root.get(tx)?.values;
                values.set(tx, &1, &first)?;
                let savepoint = tx.savepoint();
                values.set(tx, &1, &second)?;
                assert!(values.get(tx, &1)?.as_ref() == Some(&second));
                savepoint.roll_back()?;
                assert!(values.get(tx, &1)?.as_ref() == Some(&first));
                Ok(())
            })
            .unwrap();
        assert!(get(&store, 1) == Some(first.clone()), "{bytes} bytes: what a savepoint goes back to");
        let mut patched = first.clone();
        patched[bytes / 2] ^= 1;
        store
            .write(|tx, root| {
                let values = root.get(tx)?.values;
                // Values that go through the log, values that are written past it, and changed words of the previous value.
                for new in [&value(3, 20_000), &second, &first, &patched, &second] {
                    values.set(tx, &2, new)?;
                    assert!(values.get(tx, &2)?.as_ref() == Some(new));
                }
                values.remove(tx, &1).map(drop)
            })
            .unwrap();
        assert!(get(&store, 2) == Some(second.clone()), "{bytes} bytes: the last one");
        let after_crash = recovered::<C>(&path, &options);
        assert!(all(&after_crash) == BTreeMap::from([(2, second)]), "after a crash");
        remove(2);
    }
}

#[test]
fn values_stored_again_in_one_transaction_are_the_last_ones() {
    again_in_one_transaction::<Stm>();
    again_in_one_transaction::<SingleWriter>();
}

/// Values of each type that is in memory as it is stored: of whole words and not, and at addresses that are not aligned as words.
#[test]
fn large_values_of_all_types_and_lengths_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        Options { geometry: Geometry { size: 1 << 30, ..Geometry::default() }, ..Options::default() };
    let db = Database::open_with(folder.path().join("db"), &options).unwrap();
    let bytes = db.table::<u64, Vec<u8>>("bytes").unwrap();
    let texts = db.table::<u64, String>("texts").unwrap();
    let numbers = db.table::<u64, Vec<i16>>("numbers").unwrap();
    let floats = db.table::<u64, Vec<f64>>("floats").unwrap();
    let whole = value(1, (1 << 16) + 1).repeat(273);
    for length in [0, 7, 4_000, 16_385, 65_537, 300_001, (17 << 20) + 1, 17 << 20] {
        for slice in [&whole[1..=length], &whole[..length]] {
            let key = length as u64;
            let before = db.write(|tx| bytes.insert(tx, &key, slice)).unwrap();
            assert!(before.is_none_or(|before| before == whole[1..=length]));
            assert!(
                db.read(|tx| bytes.get(tx, &key)).unwrap().is_some_and(|found| found == slice),
                "{length} bytes"
            );
            if length > 1 << 20 {
                continue;
            }
            let text: String = slice.iter().map(|byte| char::from(byte & 0x7f)).collect();
            let words: Vec<i16> = slice.iter().map(|&byte| i16::from(byte) - 300).collect();
            let reals: Vec<f64> = slice.iter().map(|&byte| f64::from(byte) / 3.0).collect();
            db.write(|tx| {
                texts.set(tx, &key, text.as_str())?;
                numbers.set(tx, &key, words.as_slice())?;
                floats.set(tx, &key, &reals)
            })
            .unwrap();
            db.read(|tx| {
                assert!(texts.get(tx, &key)?.as_ref() == Some(&text), "a text of {length} bytes");
                assert!(numbers.get(tx, &key)?.as_ref() == Some(&words), "{length} numbers");
                assert!(floats.get(tx, &key)?.as_ref() == Some(&reals), "{length} floats");
                Ok(())
            })
            .unwrap();
        }
    }
    assert_eq!(db.check().unwrap(), [""; 0]);
    assert_eq!(db.lost_memory().unwrap().blocks, 0);
    db.close().unwrap();
}

/// The bytes of a text in extents are not valid UTF-8.
#[test]
fn a_large_text_that_is_damaged_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (text, broken) = ("tide ".repeat(40_000), "tide ".repeat(39_999) + "tid\u{20ac}");
    let db = Database::open(&path).unwrap();
    let texts = db.table::<u64, String>("texts").unwrap();
    db.write(|tx| texts.set(tx, &1, &text)).unwrap();
    db.close().unwrap();
    let mut file = std::fs::read(&path).unwrap();
    let at = file.windows(50_000).position(|window| window == &text.as_bytes()[..50_000]).unwrap();
    // The first byte of a character of three bytes.
    file[at] = broken.as_bytes()[broken.len() - 3];
    std::fs::write(&path, file).unwrap();
    let db = Database::open(&path).unwrap();
    let texts = db.table::<u64, String>("texts").unwrap();
    let read = db.read(|tx| texts.get(tx, &1));
    assert!(matches!(read, Err(Error::Damaged { .. })), "{:?}", read.err());
}
