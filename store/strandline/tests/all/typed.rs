//! The typed interface on real pools: collections compared with the standard library's, pointers, roots, migrations.

use std::collections::{BTreeMap, HashMap as StdHashMap, VecDeque};
use std::ops::Bound;

use proptest::prelude::*;
use strandline::{
    Bytes, HashMap, Key, Migrations, OrderedMap, Persist, Ptr, Queue, Root, Store, Text, Tx, Vector,
};
use strandline_core::file::Pool;
use strandline_core::layout::Geometry;
use strandline_core::{Domain, Error, Options, Result};

/// Small pools that need no device, since these tests are about their content.
fn options() -> Options {
    let geometry = Geometry { size: 16 << 20, logs: 4, log_bytes: 1 << 18, chunk_bytes: 1 << 15 };
    Options { domain: Domain::Process, geometry, lock_bits: 16, ..Options::default() }
}

fn store<R: Root>(
    init: impl for<'p> FnMut(&strandline::Tx<'p>) -> Result<R::At<'p>>,
) -> (tempfile::TempDir, Store<R>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create_new(folder.path().join("pool"), &options(), init).unwrap();
    (folder, store)
}

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
enum Shape {
    Point,
    Circle(f64),
    Box { width: u32, height: u32 },
}

#[derive(Clone, Debug, PartialEq, Persist)]
struct Everything {
    numbers: (i8, u16, i32, u64, i128),
    shape: Shape,
    option: Option<char>,
    array: [Option<bool>; 3],
    unit: (),
}

#[test]
fn values_come_back_as_they_went() {
    let (_folder, store) = store::<()>(|_| Ok(()));
    let shapes = [Shape::Point, Shape::Circle(-0.5), Shape::Box { width: u32::MAX, height: 3 }];
    for shape in shapes {
        let value = Everything {
            numbers: (i8::MIN, u16::MAX, -7, u64::MAX, i128::MIN + 5),
            shape,
            option: Some('ß'),
            array: [None, Some(true), Some(false)],
            unit: (),
        };
        store
            .write(|tx, _| {
                let at = Ptr::new(tx, &value)?;
                assert_eq!(at.get(tx)?, value);
                at.update(tx, |value| value.option = None)?;
                assert_eq!(at.free(tx)?, Everything { option: None, ..value.clone() });
                Ok(())
            })
            .unwrap();
    }
    assert_eq!(
        store.usage().unwrap().objects,
        4,
        "the root, its description, and that of its types, which is a byte string"
    );
}

#[derive(Persist)]
struct Node<'p> {
    value: u64,
    next: Option<Ptr<'p, Node<'p>>>,
}

#[derive(Persist)]
struct List<'p> {
    first: Option<Ptr<'p, Node<'p>>>,
}

#[derive(Persist)]
struct NodeAndRows<'p> {
    node: Ptr<'p, Node<'p>>,
    rows: OrderedMap<'p, u64, Vec<u8>>,
}

#[test]
fn a_pointer_whose_node_a_large_transaction_has_freed_dangles() {
    let (_folder, store) = store::<NodeAndRows>(|tx| {
        Ok(NodeAndRows { node: Ptr::new(tx, &Node { value: 1, next: None })?, rows: OrderedMap::new(tx)? })
    });
    let dangles = |result: Result<()>| {
        assert!(matches!(&result, Err(Error::Dangling { expected: "Node", .. })), "{result:?}");
    };
    let mut runs = 0;
    store
        .write(|tx, root| {
            runs += 1;
            let NodeAndRows { node, rows } = root.get(tx)?;
            node.free(tx)?;
            (0..20_000).try_for_each(|key| rows.set(tx, &key, &vec![1; 100]))
        })
        .unwrap();
    assert!(runs > 1, "the transaction fits the log");
    dangles(store.read(|tx, root| root.get(tx)?.node.get(tx).map(drop)));
    dangles(store.write(|tx, root| root.get(tx)?.node.free(tx).map(drop)));
    dangles(store.write(|tx, root| root.get(tx)?.node.set(tx, &Node { value: 1, next: None })));
}

#[test]
fn a_list_of_pointers_and_what_dangling_ones_can_do() {
    let (_folder, store) = store::<List>(|_| Ok(List { first: None }));
    for value in 0..5 {
        store
            .write(|tx, root| {
                let first = root.get(tx)?.first;
                root.set(tx, &List { first: Some(Ptr::new(tx, &Node { value, next: first })?) })
            })
            .unwrap();
    }
    let values = store
        .read(|tx, root| {
            let (mut next, mut values) = (root.get(tx)?.first, Vec::new());
            while let Some(node) = next {
                let node = node.get(tx)?;
                values.push(node.value);
                next = node.next;
            }
            Ok(values)
        })
        .unwrap();
    assert_eq!(values, [4, 3, 2, 1, 0]);

    // A freed node is still the first of the list.
    store.write(|tx, root| root.get(tx)?.first.unwrap().free(tx).map(drop)).unwrap();
    let dangles = |result: Result<()>| {
        assert!(matches!(&result, Err(Error::Dangling { expected: "Node", .. })), "{result:?}");
    };
    dangles(store.read(|tx, root| root.get(tx)?.first.unwrap().get(tx).map(drop)));
    dangles(store.write(|tx, root| root.get(tx)?.first.unwrap().free(tx).map(drop)));
    dangles(store.write(|tx, root| root.get(tx)?.first.unwrap().set(tx, &Node { value: 1, next: None })));
    // It cannot be read as a value of another type either.
    store
        .write(|tx, root| {
            let stale = root.get(tx)?.first.unwrap();
            for _ in 0..8 {
                let other = Ptr::new(tx, &[7u64, 7])?;
                if format!("{other:?}") == format!("{stale:?}") {
                    return Ok(());
                }
            }
            panic!("the memory was not used again");
        })
        .unwrap();
    dangles(store.read(|tx, root| root.get(tx)?.first.unwrap().get(tx).map(drop)));
    store.usage().unwrap();
}

#[derive(Debug, PartialEq)]
enum Refusal {
    Value(u64),
    Store(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Store(error.to_string())
    }
}

#[test]
fn an_own_error_ends_a_transaction_without_effect() {
    let (_folder, store) = store::<u64>(|_| Ok(3));
    let refused: Result<(), Refusal> = store.write_with_error(|tx, root| {
        root.set(tx, &4)?;
        Err(Refusal::Value(root.get(tx)?))
    });
    assert_eq!(refused, Err(Refusal::Value(4)));
    assert_eq!(store.read(|tx, root| root.get(tx)).unwrap(), 3);
    // The error that made the transaction fail is returned, even if the closure ignored it.
    let swallowed: Result<(), Refusal> = store.write_with_error(|tx, root| {
        root.free(tx)?;
        let _ = root.get(tx);
        Err(Refusal::Value(1))
    });
    assert!(matches!(swallowed, Err(Refusal::Store(text)) if text.contains("u64")));
    assert_eq!(store.read(|tx, root| root.get(tx)).unwrap(), 3);
}

#[derive(Persist)]
struct Counted<'p> {
    count: u64,
    sums: HashMap<'p, u64, u64>,
}

#[test]
fn threads_count_together() {
    let (_folder, store) = store::<Counted>(|tx| Ok(Counted { count: 0, sums: HashMap::new(tx)? }));
    // There are more threads than the pool has logs.
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let store = &store;
            scope.spawn(move || {
                for i in 0..100 {
                    store
                        .write(|tx, root| {
                            let sums = root.update(tx, |root| {
                                root.count += 1;
                                root.sums
                            })?;
                            sums.entry(tx, i % 10)?.and_modify(|n| *n += thread)?.or_insert(thread)?;
                            Ok(())
                        })
                        .unwrap();
                }
            });
        }
    });
    let (count, sum) = store
        .read(|tx, root| {
            let Counted { count, sums } = root.get(tx)?;
            let sum: u64 = sums.iter(tx).map(|pair| Ok(pair?.1)).sum::<Result<u64>>()?;
            Ok((count, sum))
        })
        .unwrap();
    assert_eq!((count, sum), (800, 28 * 100));
}

#[derive(Persist)]
#[persist(name = "Settings")]
struct SettingsV1 {
    limit: u32,
}

#[derive(Persist)]
#[persist(name = "Settings", version = 2)]
struct SettingsV2<'p> {
    limit: u64,
    notes: Text<'p>,
}

#[test]
fn a_root_is_checked_and_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    Store::<SettingsV1>::create_new(&path, &options(), |_| Ok(SettingsV1 { limit: 5 }))
        .unwrap()
        .close()
        .unwrap();

    let refused = Store::<SettingsV2>::open_existing(&path, &options()).err().unwrap();
    let shown = refused.to_string();
    assert!(
        shown.contains("Settings, version 1, 8 bytes") && shown.contains("version 2, 16 bytes"),
        "{shown}"
    );

    let failing = Migrations::new().from::<SettingsV1>(|_, _| Err(Error::Parameter("not today".into())));
    let failed = Store::<SettingsV2>::open_existing_and_migrate(&path, &options(), &failing).err().unwrap();
    assert_eq!(failed.to_string(), "not today");

    let migrations = Migrations::new().from::<SettingsV1>(|tx, old| {
        Ok(SettingsV2 { limit: u64::from(old.limit) << 32, notes: Text::new(tx, "grown")? })
    });
    for _ in 0..2 {
        let store = Store::<SettingsV2>::open_existing_and_migrate(&path, &options(), &migrations).unwrap();
        let found = store.read(|tx, root| {
            let root = root.get(tx)?;
            Ok((root.limit, root.notes.get(tx)?))
        });
        assert_eq!(found.unwrap(), (5 << 32, "grown".into()));
        store.close().unwrap();
    }
    let reader = Store::<SettingsV2>::open_read_only(&path, &options()).unwrap();
    assert!(matches!(reader.write(|tx, root| root.update(tx, |root| root.limit = 1)), Err(Error::ReadOnly)));
    drop(reader);
    assert!(Store::<SettingsV1>::open_existing(&path, &options()).is_err(), "no way back");
}

#[test]
fn a_pool_without_a_root_or_with_a_foreign_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    Pool::create(&path, &options()).unwrap().close().unwrap();
    assert!(matches!(Store::<u64>::open_existing(&path, &options()), Err(Error::Missing { .. })));
    // The pool is left as after a crash in the middle of `create`.
    let store = Store::<u64>::open(&path, &options(), |_| Ok(9)).unwrap();
    assert_eq!(store.read(|tx, root| root.get(tx)).unwrap(), 9);
    store.close().unwrap();

    let other = folder.path().join("other");
    let pool = Pool::create(&other, &options()).unwrap();
    let mut worker = pool.worker().unwrap();
    strandline_structures::Array::<u64>::create(&mut worker, pool.layout().root(0), 10, |i| i).unwrap();
    drop(worker);
    pool.close().unwrap();
    assert!(matches!(Store::<u64>::open_existing(&other, &options()), Err(Error::WrongStructure { .. })));
}

#[derive(Persist)]
struct Strings<'p> {
    bytes: Bytes<'p>,
    text: Text<'p>,
}

#[test]
fn bytes_and_text_of_any_size() {
    let (_folder, store) =
        store::<Strings>(|tx| Ok(Strings { bytes: Bytes::new(tx, [])?, text: Text::new(tx, "")? }));
    let mut expected = Vec::new();
    for step in 0..40usize {
        let piece: Vec<u8> = (0..step * step).map(|i| (i * 7 + step) as u8).collect();
        expected.extend_from_slice(&piece);
        let found = store.write(|tx, root| {
            let bytes = root.get(tx)?.bytes;
            bytes.append(tx, &piece)?;
            assert_eq!(bytes.len(tx)?, expected.len() as u64);
            bytes.get(tx)
        });
        assert!(found.unwrap() == expected);
    }
    for text in ["", "a", "Strandlinie", "größer", "a", "b", ""] {
        let found = store.write(|tx, root| {
            let own = root.get(tx)?.text;
            own.set(tx, text)?;
            own.get(tx)
        });
        assert_eq!(found.unwrap(), text);
    }
    let objects = || store.usage().unwrap().objects;
    let before = objects();
    store.write(|tx, root| root.get(tx)?.bytes.destroy(tx)).unwrap();
    assert_eq!(objects(), before - 2);
    let gone = store.read(|tx, root| root.get(tx)?.bytes.get(tx));
    assert!(matches!(gone, Err(Error::Dangling { .. })));
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Key)]
enum Id {
    Number(i32),
    Name(String, bool),
}

/// A small set of words with common prefixes, so that layers and chains are used.
fn ids() -> impl Strategy<Value = Id> {
    prop_oneof![
        (-3..3).prop_map(Id::Number),
        ("(abcdefgh){0,3}[\\x00ab]{0,3}", any::<bool>()).prop_map(|(name, flag)| Id::Name(name, flag)),
    ]
}

#[derive(Clone, Debug)]
enum MapStep {
    Insert(Id, String),
    Remove(Id),
    Get(Id),
    Range(Bound<Id>, Bound<Id>, Vec<bool>),
}

fn bounds() -> impl Strategy<Value = Bound<Id>> {
    prop_oneof![Just(Bound::Unbounded), ids().prop_map(Bound::Included), ids().prop_map(Bound::Excluded)]
}

fn map_steps() -> impl Strategy<Value = Vec<MapStep>> {
    let step = prop_oneof![
        4 => (ids(), "[a-z]{0,20}").prop_map(|(id, value)| MapStep::Insert(id, value)),
        2 => ids().prop_map(MapStep::Remove),
        1 => ids().prop_map(MapStep::Get),
        1 => (bounds(), bounds(), prop::collection::vec(any::<bool>(), 0..12))
            .prop_map(|(from, to, ends)| MapStep::Range(from, to, ends)),
    ];
    prop::collection::vec(step, 1..60)
}

/// Returns a range of the standard library's map, or an empty one where the standard library would panic.
fn std_range<'m>(
    map: &'m BTreeMap<Id, String>,
    from: &Bound<Id>,
    to: &Bound<Id>,
) -> Box<dyn DoubleEndedIterator<Item = (&'m Id, &'m String)> + 'm> {
    let keys = match (from, to) {
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a.cmp(b),
        _ => std::cmp::Ordering::Less,
    };
    let both_excluded = matches!((from, to), (Bound::Excluded(_), Bound::Excluded(_)));
    if keys.is_gt() || (keys.is_eq() && both_excluded) {
        return Box::new(std::iter::empty());
    }
    Box::new(map.range((from.clone(), to.clone())))
}

#[derive(Persist)]
struct Maps<'p> {
    ordered: OrderedMap<'p, Id, String>,
    hashed: HashMap<'p, Id, String>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn maps_do_what_the_standard_librarys_do(steps in map_steps()) {
        let (_folder, store) = store::<Maps>(|tx| {
            Ok(Maps { ordered: OrderedMap::new(tx)?, hashed: HashMap::new(tx)? })
        });
        let empty = store.usage().unwrap().objects;
        let mut model = BTreeMap::new();
        for step in steps {
            store.write(|tx, root| {
                let Maps { ordered, hashed } = root.get(tx)?;
                match &step {
                    MapStep::Insert(id, value) => {
                        let before = model.get(id).cloned();
                        assert_eq!(ordered.insert(tx, id, value)?, before);
                        assert_eq!(hashed.insert(tx, id, value)?, before);
                    }
                    MapStep::Remove(id) => {
                        let before = model.get(id).cloned();
                        assert_eq!(ordered.remove(tx, id)?, before);
                        assert_eq!(hashed.remove(tx, id)?, before);
                    }
                    MapStep::Get(id) => {
                        assert_eq!(ordered.get(tx, id)?.as_ref(), model.get(id));
                        assert_eq!(hashed.get(tx, id)?.as_ref(), model.get(id));
                        assert_eq!(ordered.contains_key(tx, id)?, model.contains_key(id));
                        assert_eq!(hashed.contains_key(tx, id)?, model.contains_key(id));
                    }
                    MapStep::Range(from, to, ends) => {
                        let mut own = ordered.range(tx, (from.clone(), to.clone()));
                        let mut theirs = std_range(&model, from, to);
                        for &front in ends {
                            let (own, theirs) = if front {
                                (own.next(), theirs.next())
                            } else {
                                (own.next_back(), theirs.next_back())
                            };
                            let own = own.transpose()?;
                            assert_eq!(own.as_ref().map(|(key, value)| (key, value)), theirs);
                        }
                        let rest = own.collect::<Result<Vec<_>>>()?;
                        let expected: Vec<_> = theirs.map(|(k, v)| (k.clone(), v.clone())).collect();
                        assert_eq!(rest, expected);
                    }
                }
                Ok(())
            }).unwrap();
            match step {
                MapStep::Insert(id, value) => drop(model.insert(id, value)),
                MapStep::Remove(id) => drop(model.remove(&id)),
                MapStep::Get(_) | MapStep::Range(..) => {}
            }
            store.read(|tx, root| {
                let Maps { ordered, hashed } = root.get(tx)?;
                assert_eq!((ordered.check(tx)?, ordered.len(tx)?), (vec![], model.len() as u64));
                assert_eq!((hashed.check(tx)?, hashed.len(tx)?), (vec![], model.len() as u64));
                Ok(())
            }).unwrap();
        }
        let all = store.read(|tx, root| {
            let Maps { ordered, hashed } = root.get(tx)?;
            let mut all = hashed.iter(tx).collect::<Result<Vec<_>>>()?;
            all.sort();
            assert_eq!(all, ordered.iter(tx).collect::<Result<Vec<_>>>()?);
            let mut backwards = ordered.iter(tx).rev().collect::<Result<Vec<_>>>()?;
            backwards.reverse();
            assert_eq!(all, backwards);
            Ok(all)
        }).unwrap();
        prop_assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
        // Nothing is left of the removed keys: neither entries nor layers.
        store.write(|tx, root| {
            let Maps { ordered, hashed } = root.get(tx)?;
            for id in model.keys() {
                ordered.remove(tx, id)?;
            }
            assert!(ordered.is_empty(tx)? && hashed.is_empty(tx)? == model.is_empty());
            hashed.destroy(tx)?;
            let fresh = HashMap::new(tx)?;
            root.set(tx, &Maps { ordered, hashed: fresh })
        }).unwrap();
        prop_assert_eq!(store.usage().unwrap().objects, empty);
    }
}

#[derive(Persist)]
struct Large<'p> {
    numbers: OrderedMap<'p, u64, u64>,
    names: OrderedMap<'p, String, u64>,
    table: HashMap<'p, u64, [u64; 3]>,
}

/// Large maps: trees of several levels, and tables below tables.
#[test]
fn large_maps_keep_everything() {
    let (_folder, store) = store::<Large>(|tx| {
        Ok(Large { numbers: OrderedMap::new(tx)?, names: OrderedMap::new(tx)?, table: HashMap::new(tx)? })
    });
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let count = 20_000;
    for first in (0..count).step_by(100) {
        store
            .write(|tx, root| {
                let Large { numbers, names, table } = root.get(tx)?;
                for i in first..first + 100 {
                    numbers.insert(tx, &key(i), &i)?;
                    names.insert(tx, &format!("user:{i:06}"), &i)?;
                    table.insert(tx, &key(i), &[i, i + 1, i + 2])?;
                }
                Ok(())
            })
            .unwrap();
    }
    store
        .read(|tx, root| {
            let Large { numbers, names, table } = root.get(tx)?;
            assert_eq!((numbers.check(tx)?, numbers.len(tx)?), (vec![], count));
            assert_eq!((names.check(tx)?, names.len(tx)?), (vec![], count));
            assert_eq!((table.check(tx)?, table.len(tx)?), (vec![], count));
            for i in (0..count).step_by(37) {
                assert_eq!(table.get(tx, &key(i))?, Some([i, i + 1, i + 2]));
                assert_eq!(names.get(tx, format!("user:{i:06}").as_str())?, Some(i));
            }
            let range =
                names.range::<str, _>(tx, (Bound::Included("user:000100"), Bound::Excluded("user:000200")));
            assert!(range.map(|pair| pair.unwrap().1).eq(100..200));
            assert!(names.iter(tx).rev().map(|pair| pair.unwrap().1).eq((0..count).rev()));
            let seen: StdHashMap<u64, [u64; 3]> = table.iter(tx).collect::<Result<_>>()?;
            assert_eq!(seen.len() as u64, count);
            Ok(())
        })
        .unwrap();
}

#[derive(Clone, Debug)]
enum SequenceStep {
    Push(u32),
    Pop,
    Set(u64, u32),
    SwapRemove(u64),
    Truncate(u64),
    Clear,
}

fn sequence_steps() -> impl Strategy<Value = Vec<SequenceStep>> {
    let step = prop_oneof![
        8 => any::<u32>().prop_map(SequenceStep::Push),
        3 => Just(SequenceStep::Pop),
        1 => (0..40u64, any::<u32>()).prop_map(|(i, value)| SequenceStep::Set(i, value)),
        1 => (0..40u64).prop_map(SequenceStep::SwapRemove),
        1 => (0..40u64).prop_map(SequenceStep::Truncate),
        1 => Just(SequenceStep::Clear),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Persist)]
struct Sequences<'p> {
    vector: Vector<'p, (u32, u64)>,
    queue: Queue<'p, String>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn vectors_and_queues_do_what_the_standard_librarys_do(steps in sequence_steps()) {
        let (_folder, store) = store::<Sequences>(|tx| {
            Ok(Sequences { vector: Vector::new(tx)?, queue: Queue::new(tx)? })
        });
        let empty = store.usage().unwrap().objects;
        let (mut vector, mut queue) = (Vec::new(), VecDeque::new());
        for step in steps {
            store.write(|tx, root| {
                let Sequences { vector: own, queue: own_queue } = root.get(tx)?;
                match step {
                    SequenceStep::Push(value) => {
                        own.push(tx, &(value, 7))?;
                        own_queue.push(tx, &value.to_string())?;
                    }
                    SequenceStep::Pop => {
                        assert_eq!(own.pop(tx)?, vector.last().copied());
                        assert_eq!(own_queue.pop(tx)?.as_ref(), queue.front());
                    }
                    SequenceStep::Set(i, value) if i < vector.len() as u64 => {
                        assert_eq!(own.set(tx, i, &(value, 8))?, vector[i as usize]);
                    }
                    SequenceStep::SwapRemove(i) if i < vector.len() as u64 => {
                        assert_eq!(own.swap_remove(tx, i)?, vector[i as usize]);
                    }
                    SequenceStep::Truncate(length) => own.truncate(tx, length)?,
                    SequenceStep::Clear => {
                        own.clear(tx)?;
                        own_queue.clear(tx)?;
                    }
                    SequenceStep::Set(..) | SequenceStep::SwapRemove(_) => {}
                }
                Ok(())
            }).unwrap();
            match step {
                SequenceStep::Push(value) => {
                    vector.push((value, 7));
                    queue.push_back(value.to_string());
                }
                SequenceStep::Pop => {
                    vector.pop();
                    queue.pop_front();
                }
                SequenceStep::Set(i, value) if i < vector.len() as u64 => vector[i as usize] = (value, 8),
                SequenceStep::SwapRemove(i) if i < vector.len() as u64 => {
                    vector.swap_remove(i as usize);
                }
                SequenceStep::Truncate(length) => vector.truncate(length as usize),
                SequenceStep::Clear => {
                    vector.clear();
                    queue.clear();
                }
                SequenceStep::Set(..) | SequenceStep::SwapRemove(_) => {}
            }
            store.read(|tx, root| {
                let Sequences { vector: own, queue: own_queue } = root.get(tx)?;
                assert_eq!(own.len(tx)?, vector.len() as u64);
                assert_eq!(own.last(tx)?, vector.last().copied());
                assert_eq!(own.get(tx, vector.len() as u64)?, None);
                assert!(own.iter(tx)?.map(Result::unwrap).eq(vector.iter().copied()));
                assert!(own.iter(tx)?.rev().map(Result::unwrap).eq(vector.iter().rev().copied()));
                assert!(own_queue.iter(tx)?.map(Result::unwrap).eq(queue.iter().cloned()));
                assert_eq!(own_queue.front(tx)?.as_ref(), queue.front());
                Ok(())
            }).unwrap();
        }
        store.write(|tx, root| {
            let Sequences { vector: own, queue: own_queue } = root.get(tx)?;
            own.clear(tx)?;
            own_queue.clear(tx)
        }).unwrap();
        prop_assert_eq!(store.usage().unwrap().objects, empty);
    }
}

mod article {
    /// A value in a map of the root, in its first version.
    #[derive(Clone, Copy, strandline::Persist)]
    pub struct Article {
        pub count: u32,
    }
}

/// The second version of the value.
#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Article {
    count: u32,
    cents: u32,
}

#[derive(Persist)]
#[persist(name = "Shop")]
struct ShopBefore<'p> {
    stock: OrderedMap<'p, u64, article::Article>,
}

#[derive(Persist)]
struct Shop<'p> {
    stock: OrderedMap<'p, u64, Article>,
}

/// The root is the same, but not the values in its map. Opening the store reports this, not each access.
#[test]
fn a_type_that_changed_inside_a_map_is_told_when_the_store_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let options = Options { domain: Domain::Process, ..Options::default() };
    let store = Store::<ShopBefore>::create_new(&path, &options, |tx| {
        let stock = OrderedMap::new(tx)?;
        stock.insert(tx, &1, &article::Article { count: 7 })?;
        Ok(ShopBefore { stock })
    })
    .unwrap();
    store.close().unwrap();
    let refused = Store::<Shop>::open_existing(&path, &options).map(drop);
    let Err(Error::RootLayout { differences, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(differences, "\n  Article.cents: u32: new");
    let migrations = Migrations::new().from::<ShopBefore>(|tx, old| {
        let stock = OrderedMap::new(tx)?;
        for pair in old.stock.drain::<u64, _>(tx, ..) {
            let (key, article) = pair?;
            stock.insert(tx, &key, &Article { count: article.count, cents: 80 })?;
        }
        old.stock.destroy(tx)?;
        Ok(Shop { stock })
    });
    let store = Store::<Shop>::open_existing_and_migrate(&path, &options, &migrations).unwrap();
    let article = store.read(|tx, root| root.get(tx)?.stock.get(tx, &1)).unwrap();
    assert_eq!(article, Some(Article { count: 7, cents: 80 }));
    assert_eq!((store.check().unwrap(), store.lost_memory().unwrap().blocks), (vec![], 0));
    store.close().unwrap();
    Store::<Shop>::open_existing(&path, &options).unwrap();
    assert!(Store::<ShopBefore>::open_existing(&path, &options).is_err());
}

/// A map of maps of vectors, and the operations of a program on it.
#[derive(Persist)]
struct Nested<'p> {
    shelves: HashMap<'p, String, Shelf<'p>>,
    front: Vector<'p, u64>,
}

#[derive(Clone, Copy, Persist)]
struct Shelf<'p> {
    number: u64,
    books: OrderedMap<'p, u64, Vector<'p, u64>>,
    waiting: Option<Queue<'p, Vector<'p, u64>>>,
}

fn shelf<'p>(tx: &Tx<'p>, number: u64) -> Result<Shelf<'p>> {
    let waiting = if number.is_multiple_of(2) { Some(Queue::new(tx)?) } else { None };
    Ok(Shelf { number, books: OrderedMap::new(tx)?, waiting })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]
    /// Whatever is created, replaced, moved, removed and destroyed, all allocated memory stays reachable.
    #[test]
    fn no_memory_is_lost(operations in prop::collection::vec((0u8..12, 0u64..4, 0u64..5), 1..60)) {
        let options = Options::default();
        let store = Store::<Nested>::in_memory(&options, |tx| {
            Ok(Nested { shelves: HashMap::new(tx)?, front: Vector::new(tx)? })
        })
        .unwrap();
        for (what, one, other) in operations {
            store
                .write(|tx, root| {
                    let Nested { shelves, front: _ } = root.get(tx)?;
                    let name = one.to_string();
                    let Some(found) = shelves.get(tx, &name)? else {
                        return shelves.insert(tx, &name, &shelf(tx, other)?).map(drop);
                    };
                    let books = Vector::new(tx)?;
                    books.extend(tx, 0..other)?;
                    match what {
                        // Replaces a shelf by one with the same collections, or with others.
                        0 => drop(shelves.insert(tx, &name, &Shelf { number: other, ..found })?),
                        1 => drop(shelves.insert(tx, &name, &shelf(tx, other)?)?),
                        2 => drop(shelves.insert(tx, &name, &Shelf { waiting: None, ..found })?),
                        3 => drop(shelves.remove(tx, &name)?),
                        // Moves a shelf to another key, perhaps in the place of another shelf.
                        4 => {
                            if let Some(shelf) = shelves.take(tx, &name)? {
                                shelves.insert(tx, &other.to_string(), &shelf)?;
                            }
                        }
                        5 => found.books.retain(tx, |key, _| *key > other)?,
                        6 => root.update(tx, |root| root.front = books)?,
                        7 => root.set(tx, &Nested { shelves, front: books })?,
                        8 => {
                            if let Some(waiting) = found.waiting {
                                waiting.push(tx, &books)?;
                                if other == 0 {
                                    waiting.clear(tx)?;
                                }
                                return Ok(());
                            }
                        }
                        9 => found.books.drain(tx, ..other).try_for_each(|pair| pair?.1.destroy(tx))?,
                        10 => {
                            let shelves = HashMap::new(tx)?;
                            shelves.insert(tx, &name, &shelf(tx, other)?)?;
                            root.update(tx, |root| root.shelves = shelves)?;
                        }
                        _ => drop(found.books.insert(tx, &other, &books)?),
                    }
                    // Collections that were made for a book, but not stored in it.
                    if matches!(what, 0..=5 | 8..=10) { books.destroy(tx) } else { Ok(()) }
                })
                .unwrap();
            prop_assert_eq!(store.lost_memory().unwrap().blocks, 0);
        }
        prop_assert_eq!(store.check().unwrap(), [""; 0]);
        store
            .write(|tx, root| {
                let Nested { shelves, front } = root.get(tx)?;
                for pair in shelves.iter(tx).collect::<Result<Vec<_>>>()? {
                    shelves.remove(tx, &pair.0)?;
                }
                front.clear(tx)
            })
            .unwrap();
        // The root, its description and that of its types, the two collections, and a table of the map.
        prop_assert!(store.usage().unwrap().objects <= 8);
    }
}
