//! Property tests of the structures against the standard library's, on every runner, in small pools whose
//! logs overflow; and what damage, interruption and deletion leave.

mod graph;
mod queue;
mod set;

use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use strandline_core::engine::Worker;
use strandline_core::error::{Error, Result};
use strandline_core::heap::usage;
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, PersistentAddress, World, coroutines};
use strandline_core::scheme::{Schemes, recover};
use strandline_core::transaction::{Abort, Concurrency, Read, Runner, Statistics, Transaction};
use strandline_schemes::VolatileWorker;

const KILOBYTE: u64 = 1024;
const MODES: [Concurrency; 2] = [Concurrency::Stm, Concurrency::SingleWriter];

/// A pool in a recorder that does not record.
#[derive(Clone)]
struct Pool {
    world: Rc<dyn World>,
    recorder: Rc<Recorder>,
    layout: Layout,
    shared: SharedLayout,
}

impl Pool {
    fn new(log_bytes: u64) -> Self {
        let geometry = Geometry { size: 4 << 20, logs: 4, log_bytes, chunk_bytes: 4 * KILOBYTE };
        Self::of(geometry, vec![0; (4 << 20) / 8], 0)
    }

    fn of(geometry: Geometry, words: Vec<u64>, switch_every: u32) -> Self {
        let layout = Layout::new(geometry).unwrap();
        let shared = SharedLayout::new(&layout, 10, 0);
        let recorder = Rc::new(Recorder::new(words, shared.bytes(), switch_every, 1, None));
        recorder.set_recording(false);
        Self { world: recorder.clone(), recorder, layout, shared }
    }

    fn view(&self) -> View<Hosted> {
        View { memory: Hosted::new(self.world.clone(), 0), layout: self.layout, shared: self.shared }
    }

    fn worker(&self, mode: Concurrency) -> Worker<Hosted, Concurrency> {
        Worker::lease(self.view(), mode, None).unwrap()
    }

    fn root(&self, index: u64) -> PersistentAddress {
        self.layout.root(index)
    }

    /// The pool after a restart that lost the synchronisation words only, recovered.
    fn recovered(&self) -> Self {
        let pool = Self::of(self.layout.geometry, self.recorder.contents(), 0);
        recover(&pool.view(), Schemes::default(), |_| {}).unwrap();
        pool
    }

    fn used(&self) -> (u64, u64) {
        let usage = usage(&self.view()).unwrap();
        (usage.objects, usage.allocated_bytes)
    }
}

/// What the three maps have in common.
trait Map: Copy {
    fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort>;
    fn get(&self, tx: &mut impl Read, key: i64) -> Result<Option<u64>, Abort>;
    fn insert(&self, tx: &mut impl Transaction, key: i64, value: u64) -> Result<Option<u64>, Abort>;
    fn remove(&self, tx: &mut impl Transaction, key: i64) -> Result<Option<u64>, Abort>;
    fn check(&self, tx: &mut impl Read) -> Result<u64, Abort>;
    fn count(&self, tx: &mut impl Read) -> Result<u64, Abort>;
    /// All pairs, sorted where the map itself does not sort.
    fn all(&self, tx: &mut impl Read) -> Result<Vec<(i64, u64)>, Abort>;
    fn between(&self, tx: &mut impl Read, from: i64, to: i64) -> Result<Vec<(i64, u64)>, Abort>;
    /// The first of those between.
    fn first_in(&self, tx: &mut impl Read, from: i64, to: i64) -> Result<Option<(i64, u64)>, Abort> {
        Ok(self.between(tx, from, to)?.first().copied())
    }
}

macro_rules! ordered_map {
    ($type:ty) => {
        impl Map for $type {
            fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
                <$type>::open(tx, root)
            }
            fn get(&self, tx: &mut impl Read, key: i64) -> Result<Option<u64>, Abort> {
                <$type>::get(self, tx, key)
            }
            fn insert(&self, tx: &mut impl Transaction, key: i64, value: u64) -> Result<Option<u64>, Abort> {
                <$type>::insert(self, tx, key, value)
            }
            fn remove(&self, tx: &mut impl Transaction, key: i64) -> Result<Option<u64>, Abort> {
                <$type>::remove(self, tx, key)
            }
            fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
                <$type>::check(self, tx)
            }
            fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
                <$type>::count(self, tx)
            }
            fn all(&self, tx: &mut impl Read) -> Result<Vec<(i64, u64)>, Abort> {
                let mut all = Vec::new();
                self.for_each(tx, |key, value| {
                    all.push((key, value));
                    Ok(())
                })?;
                Ok(all)
            }
            fn between(&self, tx: &mut impl Read, from: i64, to: i64) -> Result<Vec<(i64, u64)>, Abort> {
                let mut all = Vec::new();
                self.range(tx, from..to, |key, value| {
                    all.push((key, value));
                    Ok(())
                })?;
                Ok(all)
            }
            fn first_in(&self, tx: &mut impl Read, from: i64, to: i64) -> Result<Option<(i64, u64)>, Abort> {
                self.first(tx, from..to)
            }
        }
    };
}

ordered_map!(RedBlackTree<i64, u64>);
ordered_map!(BPlusTree<i64, u64>);
ordered_map!(BTree<i64, u64>);

impl Map for HashTable<i64, u64> {
    fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        HashTable::open(tx, root)
    }
    fn get(&self, tx: &mut impl Read, key: i64) -> Result<Option<u64>, Abort> {
        let value = HashTable::get(self, tx, key)?;
        assert_eq!(self.contains_key(tx, key)?, value.is_some());
        Ok(value)
    }
    fn insert(&self, tx: &mut impl Transaction, key: i64, value: u64) -> Result<Option<u64>, Abort> {
        HashTable::insert(self, tx, key, &value)
    }
    fn remove(&self, tx: &mut impl Transaction, key: i64) -> Result<Option<u64>, Abort> {
        HashTable::remove(self, tx, key)
    }
    fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        HashTable::check(self, tx)
    }
    fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        HashTable::count(self, tx)
    }
    fn all(&self, tx: &mut impl Read) -> Result<Vec<(i64, u64)>, Abort> {
        let mut all = Vec::new();
        self.for_each(tx, |key, value| {
            all.push((key, value));
            Ok(())
        })?;
        all.sort_unstable();
        Ok(all)
    }
    fn between(&self, tx: &mut impl Read, from: i64, to: i64) -> Result<Vec<(i64, u64)>, Abort> {
        let all = self.all(tx)?;
        Ok(all.into_iter().filter(|(key, _)| (from..to).contains(key)).collect())
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Get(i64),
    Insert(i64, u64),
    Remove(i64),
}

/// A transaction's operations, and whether it gives up at the end.
type Script = Vec<(Vec<Op>, bool)>;

/// Phases in which insertions or removals prevail, so that trees grow and shrink.
fn script(keys: i64, transactions: usize) -> impl Strategy<Value = Script> {
    let key = move || -keys / 2..keys / 2;
    let op = move |growing: bool| {
        let (insert, remove) = if growing { (6, 2) } else { (1, 7) };
        prop_oneof![
            1 => key().prop_map(Op::Get),
            insert => (key(), 0..3u64).prop_map(|(key, value)| Op::Insert(key, value)),
            remove => key().prop_map(Op::Remove),
        ]
    };
    let phase = move |growing| {
        let transaction = (proptest::collection::vec(op(growing), 1..6), proptest::bool::weighted(0.1));
        proptest::collection::vec(transaction, 0..transactions)
    };
    (phase(true), phase(false), phase(true), phase(false)).prop_map(|(a, b, c, d)| [a, b, c, d].concat())
}

fn model_apply(model: &mut BTreeMap<i64, u64>, op: Op) -> Option<u64> {
    match op {
        Op::Get(key) => model.get(&key).copied(),
        Op::Insert(key, value) => model.insert(key, value),
        Op::Remove(key) => model.remove(&key),
    }
}

fn map_apply(map: &impl Map, tx: &mut impl Transaction, op: Op) -> Result<Option<u64>, Abort> {
    match op {
        Op::Get(key) => map.get(tx, key),
        Op::Insert(key, value) => map.insert(tx, key, value),
        Op::Remove(key) => map.remove(tx, key),
    }
}

fn verify<M: Map>(runner: &mut impl Runner, root: PersistentAddress, model: &BTreeMap<i64, u64>) {
    let (all, counts, middle, first) = runner
        .view(|tx| {
            let map = M::open(tx, root)?;
            Ok((
                map.all(tx)?,
                [map.check(tx)?, map.count(tx)?],
                map.between(tx, -7, 23)?,
                map.first_in(tx, -7, 23)?,
            ))
        })
        .unwrap();
    assert_eq!(all, model.iter().map(|(&k, &v)| (k, v)).collect::<Vec<_>>());
    assert_eq!(counts, [model.len() as u64; 2]);
    assert_eq!(first, model.range(-7..23).next().map(|(&k, &v)| (k, v)));
    assert_eq!(middle, model.range(-7..23).map(|(&k, &v)| (k, v)).collect::<Vec<_>>());
}

/// Runs a script on a map and on its model; then removes everything.
fn follow<M: Map>(
    runner: &mut impl Runner,
    root: PersistentAddress,
    script: &Script,
    aborts: bool,
) -> BTreeMap<i64, u64> {
    let map = runner.view(|tx| M::open(tx, root)).unwrap();
    let mut model = BTreeMap::new();
    for (number, (ops, gives_up)) in script.iter().enumerate() {
        let gives_up = *gives_up && aborts;
        let result = runner.run(|tx| {
            let mut results = Vec::new();
            for &op in ops {
                results.push(map_apply(&map, tx, op)?);
            }
            if gives_up { Err(Abort::User) } else { Ok(results) }
        });
        if gives_up {
            assert!(matches!(result, Err(Error::Aborted)), "{result:?}");
        } else {
            let expected: Vec<_> = ops.iter().map(|&op| model_apply(&mut model, op)).collect();
            assert_eq!(result.unwrap(), expected);
        }
        if number % 16 == 0 {
            verify::<M>(runner, root, &model);
        }
    }
    verify::<M>(runner, root, &model);
    model
}

fn clear<M: Map>(runner: &mut impl Runner, root: PersistentAddress, model: &BTreeMap<i64, u64>) {
    let map = runner.view(|tx| M::open(tx, root)).unwrap();
    for (&key, &value) in model {
        assert_eq!(runner.run(|tx| map.remove(tx, key)).unwrap(), Some(value));
    }
    verify::<M>(runner, root, &BTreeMap::new());
}

/// Creates a map.
trait Create {
    type Map: Map;
    fn create(&self, runner: &mut impl Runner, root: PersistentAddress) -> Result<Self::Map>;
}

struct Hash(u64);
struct RedBlack;
struct BPlus(NodeShape);
struct Textbook(u64);

impl Create for Hash {
    type Map = HashTable<i64, u64>;
    fn create(&self, runner: &mut impl Runner, root: PersistentAddress) -> Result<Self::Map> {
        HashTable::create(runner, root, self.0, 1)
    }
}

impl Create for RedBlack {
    type Map = RedBlackTree<i64, u64>;
    fn create(&self, runner: &mut impl Runner, root: PersistentAddress) -> Result<Self::Map> {
        runner.run(|tx| RedBlackTree::create(tx, root))
    }
}

impl Create for BPlus {
    type Map = BPlusTree<i64, u64>;
    fn create(&self, runner: &mut impl Runner, root: PersistentAddress) -> Result<Self::Map> {
        runner.run(|tx| BPlusTree::create(tx, root, self.0))
    }
}

impl Create for Textbook {
    type Map = BTree<i64, u64>;
    fn create(&self, runner: &mut impl Runner, root: PersistentAddress) -> Result<Self::Map> {
        runner.run(|tx| BTree::create(tx, root, self.0))
    }
}

/// Runs a script on all runners: results, contents, heap balance, recovery.
fn everywhere<C: Create>(create: &C, log_bytes: u64, script: &Script) {
    for mode in MODES {
        let pool = Pool::new(log_bytes);
        let mut worker = pool.worker(mode);
        let root = pool.root(1);
        create.create(&mut worker, root).unwrap();
        let empty = pool.used();
        let model = follow::<C::Map>(&mut worker, root, script, true);
        let recovered = pool.recovered();
        verify::<C::Map>(&mut recovered.worker(mode), root, &model);
        // Creating what is there opens it.
        create.create(&mut worker, root).unwrap();
        clear::<C::Map>(&mut worker, root, &model);
        assert_eq!(pool.used(), empty);
    }
    let pool = Pool::new(log_bytes);
    let mut worker = VolatileWorker::new(pool.view(), 0);
    let root = pool.root(1);
    create.create(&mut worker, root).unwrap();
    let empty = pool.used();
    let model = follow::<C::Map>(&mut worker, root, script, false);
    clear::<C::Map>(&mut worker, root, &model);
    assert_eq!(pool.used(), empty);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hash_table_is_a_map(script in script(100, 60), buckets in 1..40u64) {
        everywhere(&Hash(buckets), 4 * KILOBYTE, &script);
    }

    #[test]
    fn red_black_tree_is_a_map(script in script(200, 120)) {
        everywhere(&RedBlack, 4 * KILOBYTE, &script);
    }

    #[test]
    fn b_tree_is_a_map(script in script(200, 120), half in 1..9u64) {
        everywhere(&Textbook(2 * half + 1), 16 * KILOBYTE, &script);
    }

    #[test]
    fn b_plus_tree_is_a_map(script in script(300, 120), pairs in 4..9u64) {
        everywhere(&BPlus(NodeShape::of_pairs(pairs)), 8 * KILOBYTE, &script);
    }

    #[test]
    fn b_plus_tree_with_groups_is_a_map(script in script(1000, 200), pairs in 10..60u64) {
        everywhere(&BPlus(NodeShape::of_pairs(pairs)), 16 * KILOBYTE, &script);
    }
}

/// A xorshift sequence.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Fills a tree in some order, checks, and empties it in another.
fn fill_and_empty<C: Create>(create: &C, keys: &[i64], removal: &[i64]) {
    let pool = Pool::new(64 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let root = pool.root(0);
    let map = create.create(&mut worker, root).unwrap();
    let empty = pool.used();
    let mut model = BTreeMap::new();
    for (number, &key) in keys.iter().enumerate() {
        let old = worker.run(|tx| map.insert(tx, key, number as u64)).unwrap();
        assert_eq!(old, model.insert(key, number as u64));
        if number % 500 == 0 {
            worker.view(|tx| map.check(tx)).unwrap();
        }
    }
    verify::<C::Map>(&mut worker, root, &model);
    for (number, &key) in removal.iter().enumerate() {
        assert_eq!(worker.run(|tx| map.remove(tx, key)).unwrap(), model.remove(&key));
        if number % 500 == 0 {
            worker.view(|tx| map.check(tx)).unwrap();
        }
    }
    clear::<C::Map>(&mut worker, root, &model);
    assert_eq!(pool.used(), empty);
}

fn orders<C: Create>(create: &C, count: i64) {
    let ascending: Vec<i64> = (-count / 2..count / 2).collect();
    let descending: Vec<i64> = ascending.iter().rev().copied().collect();
    let mut seed = 42;
    let shuffled: Vec<i64> =
        (0..count).map(|_| (random(&mut seed) % count as u64) as i64 - count / 2).collect();
    for keys in [&ascending, &descending, &shuffled] {
        for removal in [&ascending, &descending, &shuffled] {
            fill_and_empty(create, keys, removal);
        }
    }
}

#[test]
fn red_black_trees_of_all_orders() {
    orders(&RedBlack, 4000);
}

#[test]
fn b_trees_of_all_orders() {
    orders(&Textbook(3), 1500);
    orders(&Textbook(15), 3000);
    orders(&Textbook(63), 3000);
}

#[test]
fn b_plus_trees_of_the_paper_of_all_orders() {
    orders(&BPlus(NodeShape::PAPER), 8000);
}

#[test]
fn b_plus_trees_of_the_largest_nodes_of_all_orders() {
    orders(&BPlus(NodeShape::of_pairs(255)), 3000);
}

#[test]
fn b_plus_trees_of_the_smallest_nodes_of_all_orders() {
    orders(&BPlus(NodeShape::of_pairs(4)), 1500);
}

/// Insertions and removals in a node with room write few words.
#[test]
fn a_b_plus_tree_writes_little() {
    let pool = Pool::new(64 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let tree = worker.run(|tx| BPlusTree::<u64, u64>::create(tx, tx.root(0), NodeShape::PAPER)).unwrap();
    let mut seed = 7;
    let start = worker.statistics();
    let operations = 20_000;
    for _ in 0..operations {
        let key = random(&mut seed) % 8000;
        worker
            .run(|tx| match tree.remove(tx, key)? {
                Some(_) => Ok(()),
                None => tree.insert(tx, key, key).map(drop),
            })
            .unwrap();
    }
    let written = (worker.statistics().log_bytes - start.log_bytes) / 16;
    worker.view(|tx| tree.check(tx)).unwrap();
    // One commit record, 3 words for an insertion, 1 for a removal, and what splits and merges take.
    assert!(written < 5 * operations, "{written} records for {operations} operations");
}

#[test]
fn a_hash_table_takes_values_of_any_size() {
    for words in [1, 2, 7, 8, 9, 64, 65, 512, 600] {
        let pool = Pool::new(64 * KILOBYTE);
        let mut worker = pool.worker(Concurrency::Stm);
        let table = HashTable::<u32, Vec<u64>>::create(&mut worker, pool.root(0), 10, words).unwrap();
        let empty = pool.used();
        let value = |key: u32| (0..words).map(|i| i * 1000 + u64::from(key)).collect::<Vec<u64>>();
        for key in 0..20 {
            assert_eq!(worker.run(|tx| table.insert(tx, key, &value(key))).unwrap(), None);
            assert_eq!(worker.run(|tx| table.insert(tx, key, &value(key + 1))).unwrap(), Some(value(key)));
        }
        let table = worker.view(|tx| HashTable::<u32, Vec<u64>>::open(tx, tx.root(0))).unwrap();
        assert_eq!((table.value_words(), table.buckets()), (words, 10));
        for key in 0..20 {
            assert_eq!(worker.view(|tx| table.get(tx, key)).unwrap(), Some(value(key + 1)));
        }
        let wrong = worker.run(|tx| table.insert(tx, 1, &vec![0; words as usize + 1]));
        assert!(matches!(wrong, Err(Error::Parameter(_))));
        for key in 0..20 {
            assert!(worker.run(|tx| table.delete(tx, key)).unwrap());
            assert!(!worker.run(|tx| table.delete(tx, key)).unwrap());
        }
        assert_eq!(pool.used(), empty);
    }
    let pool = Pool::new(4 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let table = HashTable::<bool, [u64; 3]>::create(&mut worker, pool.root(0), 4, 3).unwrap();
    worker.run(|tx| table.insert(tx, true, &[1, 2, 3])).unwrap();
    assert_eq!(worker.view(|tx| table.get(tx, true)).unwrap(), Some([1, 2, 3]));
    let wrong = HashTable::<bool, [u64; 3]>::create(&mut worker, pool.root(1), 4, 2);
    assert!(matches!(wrong, Err(Error::Parameter(_))));
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![proptest::collection::vec(0..3u8, 0..4), proptest::collection::vec(any::<u8>(), 0..700),]
}

/// A key, its new value (none: it is removed), and whether the transaction gives up.
type StoreStep = (Vec<u8>, Option<Vec<u8>>, bool);
/// Two indices each, to be swapped or else the second stored at the first, and whether the transaction gives up.
type ArrayStep = (Vec<(u64, u64, bool)>, bool);

fn follow_store(
    runner: &mut impl Runner,
    root: PersistentAddress,
    buckets: u64,
    script: &[StoreStep],
    aborts: bool,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let store = KeyValueStore::create(runner, root, buckets).unwrap();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (key, value, gives_up) in script {
        let gives_up = *gives_up && aborts;
        let result = runner.run(|tx| {
            let was = match value {
                Some(value) => store.insert(tx, key, value)?,
                None => store.remove(tx, key)?,
            };
            assert_eq!(store.get(tx, key)?.as_ref(), value.as_ref());
            assert_eq!(store.contains_key(tx, key)?, value.is_some());
            if gives_up { Err(Abort::User) } else { Ok(was) }
        });
        if gives_up {
            assert!(matches!(result, Err(Error::Aborted)), "{result:?}");
        } else {
            let old = match value {
                Some(value) => model.insert(key.clone(), value.clone()),
                None => model.remove(key),
            };
            assert_eq!(result.unwrap(), old.is_some());
        }
        assert_eq!(runner.view(|tx| store.get(tx, key)).unwrap().as_ref(), model.get(key));
    }
    verify_store(runner, root, &model);
    model
}

fn verify_store(runner: &mut impl Runner, root: PersistentAddress, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let (all, counts) = runner
        .view(|tx| {
            let store = KeyValueStore::open(tx, root)?;
            let mut all = BTreeMap::new();
            store.for_each(tx, |key, value| {
                all.insert(key.to_vec(), value.to_vec());
                Ok(())
            })?;
            Ok((all, [store.check(tx)?, store.count(tx)?]))
        })
        .unwrap();
    assert_eq!(&all, model);
    assert_eq!(counts, [model.len() as u64; 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn key_value_store_is_a_map(
        script in proptest::collection::vec(
            (bytes(), proptest::option::weighted(0.7, bytes()), proptest::bool::weighted(0.1)), 0..150),
        buckets in 1..20u64,
    ) {
        for mode in MODES {
            let pool = Pool::new(4 * KILOBYTE);
            let mut worker = pool.worker(mode);
            let root = pool.root(3);
            KeyValueStore::create(&mut worker, root, buckets).unwrap();
            let empty = pool.used();
            let model = follow_store(&mut worker, root, buckets, &script, true);
            verify_store(&mut pool.recovered().worker(mode), root, &model);
            let store = worker.view(|tx| KeyValueStore::open(tx, root)).unwrap();
            for key in model.keys() {
                prop_assert!(worker.run(|tx| store.remove(tx, key)).unwrap());
            }
            // Further tables stay until the store goes.
            let (objects, bytes) = pool.used();
            prop_assert_eq!(bytes - empty.1, 512 * (objects - empty.0));
            worker.run(|tx| store.destroy(tx)).unwrap();
            prop_assert_eq!(pool.used().0, empty.0 - 1);
        }
        let pool = Pool::new(4 * KILOBYTE);
        follow_store(&mut VolatileWorker::new(pool.view(), 0), pool.root(3), buckets, &script, false);
    }

    #[test]
    fn array_is_a_vector(
        length in 1..3000u64,
        script in proptest::collection::vec(
            (proptest::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 1..20), any::<bool>()),
            0..60),
    ) {
        for mode in MODES {
            let pool = Pool::new(4 * KILOBYTE);
            let mut worker = pool.worker(mode);
            follow_array(&mut worker, pool.root(0), length, &script, true);
        }
        let pool = Pool::new(4 * KILOBYTE);
        follow_array(&mut VolatileWorker::new(pool.view(), 0), pool.root(0), length, &script, false);
    }
}

fn follow_array(
    runner: &mut impl Runner,
    root: PersistentAddress,
    length: u64,
    script: &[ArrayStep],
    aborts: bool,
) {
    let array = Array::<i32>::create(runner, root, length, |i| -(i as i32)).unwrap();
    let mut model: Vec<i32> = (0..length).map(|i| -(i as i32)).collect();
    for (steps, gives_up) in script {
        let gives_up = *gives_up && aborts;
        let mut next = model.clone();
        for &(one, other, swaps) in steps {
            let (one, other) = (one % length, other % length);
            if swaps {
                next.swap(one as usize, other as usize);
            } else {
                next[one as usize] = other as i32;
            }
        }
        let result = runner.run(|tx| {
            for &(one, other, swaps) in steps {
                let (one, other) = (one % length, other % length);
                if swaps {
                    array.swap(tx, one, other)?;
                } else {
                    array.set(tx, one, other as i32)?;
                }
            }
            let (one, expected) = (steps[0].0 % length, next[(steps[0].0 % length) as usize]);
            assert_eq!(array.get(tx, one)?, expected);
            if gives_up { Err(Abort::User) } else { Ok(()) }
        });
        assert_eq!(result.is_err(), gives_up);
        if !gives_up {
            model = next;
        }
    }
    let array = runner.view(|tx| Array::<i32>::open(tx, root)).unwrap();
    let mut all = Vec::new();
    runner
        .view(|tx| {
            all.clear();
            array.for_each(tx, |index, value| {
                assert_eq!(index, all.len() as u64);
                all.push(value);
                Ok(())
            })
        })
        .unwrap();
    assert_eq!(all, model);
    assert!(matches!(runner.view(|tx| array.get(tx, length)), Err(Error::Parameter(_))));
}

/// A chunk that becomes one of small blocks has the contents of a former object where its bitmap will be.
#[test]
fn old_contents_are_no_bitmap() {
    for mode in MODES {
        let pool = Pool::new(16 * KILOBYTE);
        let mut worker = pool.worker(mode);
        let at = worker.run(|tx| tx.alloc(4 * KILOBYTE)).unwrap();
        worker.run(|tx| tx.write_range(at, &[u64::MAX; 512])).unwrap();
        worker.run(|tx| tx.free(at)).unwrap();
        let free = usage(&pool.view()).unwrap().free_chunks;
        worker.run(|tx| (0..60).try_for_each(|_| tx.alloc(32).map(drop))).unwrap();
        let usage = usage(&pool.view()).unwrap();
        assert_eq!((usage.free_chunks, usage.objects), (free - 1, 60));
    }
}

/// A runner that is cut off after some transactions.
struct Limited<'r, R> {
    runner: &'r mut R,
    left: u32,
}

impl<R: Runner> Runner for Limited<'_, R> {
    type Tx<'t> = R::Tx<'t>;

    fn run<T>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<T, Abort>) -> Result<T> {
        self.left = self.left.checked_sub(1).ok_or(Error::Aborted)?;
        self.runner.run(body)
    }

    fn view<T>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<T, Abort>) -> Result<T> {
        self.runner.view(body)
    }

    fn statistics(&self) -> Statistics {
        self.runner.statistics()
    }
}

#[test]
fn an_interrupted_creation_goes_on() {
    for left in 0..30 {
        let mut pool = Pool::new(4 * KILOBYTE);
        let root = pool.root(2);
        {
            let mut worker = pool.worker(Concurrency::Stm);
            // Old contents that must not shine through.
            let at = worker.run(|tx| tx.alloc(8 * 2000)).unwrap();
            for piece in 0..20 {
                worker.run(|tx| tx.write_range(at.word(100 * piece), &[u64::MAX; 100])).unwrap();
            }
            worker.run(|tx| tx.free(at)).unwrap();
            let mut limited = Limited { runner: &mut worker, left };
            let cut = Array::<u64>::create(&mut limited, root, 2000, |i| 3 * i);
            if left < 18 {
                assert!(matches!(cut, Err(Error::Aborted)));
                let open = worker.view(|tx| Array::<u64>::open(tx, root).map(drop));
                match left {
                    0 => assert!(matches!(open, Err(Error::Missing { .. })), "{open:?}"),
                    _ => assert!(matches!(open, Err(Error::Incomplete { .. })), "{open:?}"),
                }
            }
        }
        pool = pool.recovered();
        let mut worker = pool.worker(Concurrency::Stm);
        if left > 0 {
            let other = Array::<u64>::create(&mut worker, root, 2001, |i| i).map(drop);
            assert!(matches!(other, Err(Error::WrongStructure { .. })), "{other:?}");
        }
        let array = Array::<u64>::create(&mut worker, root, 2000, |i| 3 * i).unwrap();
        worker
            .view(|tx| {
                array.for_each(tx, |index, value| {
                    assert_eq!(value, 3 * index);
                    Ok(())
                })
            })
            .unwrap();
        assert_eq!(pool.used().0, 2);
    }
}

#[test]
fn a_structure_is_not_taken_for_another() {
    let pool = Pool::new(4 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let missing = worker.view(|tx| RedBlackTree::<u64, u64>::open(tx, tx.root(0)).map(drop));
    assert!(matches!(missing, Err(Error::Missing { .. })));
    let missing = worker.view(|tx| BPlusTree::<u64, u64>::open(tx, tx.root(0)).map(drop));
    assert!(matches!(missing, Err(Error::Missing { .. })));
    let missing = worker.view(|tx| KeyValueStore::open(tx, tx.root(0)).map(drop));
    assert!(matches!(missing, Err(Error::Missing { .. })));
    worker.run(|tx| RedBlackTree::<u64, u64>::create(tx, tx.root(0))).unwrap();
    let wrong =
        |result: Result<()>| assert!(matches!(result, Err(Error::WrongStructure { .. })), "{result:?}");
    wrong(worker.view(|tx| RedBlackTree::<i64, u64>::open(tx, tx.root(0)).map(drop)));
    wrong(worker.view(|tx| BPlusTree::<u64, u64>::open(tx, tx.root(0)).map(drop)));
    wrong(worker.run(|tx| BPlusTree::<u64, u64>::create(tx, tx.root(0), NodeShape::of_pairs(4)).map(drop)));
    wrong(HashTable::<u64, u64>::create(&mut worker, pool.root(0), 4, 1).map(drop));
    wrong(KeyValueStore::create(&mut worker, pool.root(0), 4).map(drop));
    worker.run(|tx| BPlusTree::<u64, u64>::create(tx, tx.root(1), NodeShape::of_pairs(4))).unwrap();
    wrong(worker.run(|tx| BPlusTree::<u64, u64>::create(tx, tx.root(1), NodeShape::of_pairs(5)).map(drop)));
    let shape = NodeShape { bytes: 64, pairs: 200 };
    let refused = worker.run(|tx| BPlusTree::<u64, u64>::create(tx, tx.root(2), shape).map(drop));
    assert!(matches!(refused, Err(Error::Parameter(_))));
}

/// Whatever is in the heap, reading ends, with a result or an error.
fn survive<C: Create>(create: &C, seed: &mut u64) {
    let pool = Pool::new(16 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let root = pool.root(0);
    let map = create.create(&mut worker, root).unwrap();
    for _ in 0..300 {
        let key = (random(seed) % 500) as i64;
        worker.run(|tx| map.insert(tx, key, 1)).unwrap();
    }
    // Words of the structure's chunks, some of which become others, addresses for instance.
    let first = pool.layout.chunks;
    let words = 8 * pool.layout.geometry.chunk_bytes / 8;
    for _ in 0..1 + random(seed) % 40 {
        let (to, from, how) = (random(seed) % words, random(seed) % words, random(seed));
        worker
            .run(|tx| {
                let word = match how % 4 {
                    0 => how,
                    1 => tx.read(first.word(to))? ^ 1 << (how >> 8 & 63),
                    _ => tx.read(first.word(from))?,
                };
                tx.write(first.word(to), word)
            })
            .unwrap();
    }
    let accept = |error: Error| {
        assert!(
            matches!(
                error,
                Error::Damaged(_)
                    | Error::InvalidAddress(_)
                    | Error::InvalidFree(_)
                    | Error::WrongStructure { .. }
                    | Error::Incomplete { .. }
                    | Error::Full(_)
                    | Error::TransactionTooLarge { .. }
            ),
            "{error:?}"
        )
    };
    let _ = worker.view(|tx| map.all(tx).map(drop)).map_err(accept);
    let _ = worker.view(|tx| map.count(tx).map(drop)).map_err(accept);
    let _ = worker.view(|tx| map.check(tx).map(drop)).map_err(accept);
    let _ = worker.view(|tx| C::Map::open(tx, root).map(drop)).map_err(accept);
    for key in 0..500 {
        let _ = worker.view(|tx| map.get(tx, key)).map_err(accept);
        let _ = worker.run(|tx| map.remove(tx, key)).map_err(accept);
        let _ = worker.run(|tx| map.insert(tx, key, 2)).map_err(accept);
    }
}

#[test]
fn damage_is_an_error() {
    let mut seed = 99;
    for _ in 0..40 {
        survive(&Hash(20), &mut seed);
        survive(&RedBlack, &mut seed);
        survive(&Textbook(3), &mut seed);
        survive(&Textbook(9), &mut seed);
        survive(&BPlus(NodeShape::of_pairs(4)), &mut seed);
        survive(&BPlus(NodeShape::of_pairs(30)), &mut seed);
    }
}

#[test]
fn a_damaged_store_is_an_error() {
    let mut seed = 5;
    for _ in 0..60 {
        let pool = Pool::new(16 * KILOBYTE);
        let mut worker = pool.worker(Concurrency::Stm);
        let store = KeyValueStore::create(&mut worker, pool.root(0), 10).unwrap();
        let key = |number: u64| format!("key {number}").into_bytes();
        for number in 0..60 {
            let value = vec![7; (random(&mut seed) % 200) as usize];
            worker.run(|tx| store.insert(tx, &key(number), &value)).unwrap();
        }
        let first = pool.layout.chunks;
        let words = 6 * pool.layout.geometry.chunk_bytes / 8;
        for _ in 0..200 {
            let (to, from, how) = (random(&mut seed) % words, random(&mut seed) % words, random(&mut seed));
            worker
                .run(|tx| {
                    let word = if how % 2 == 0 { how } else { tx.read(first.word(from))? };
                    tx.write(first.word(to), word)
                })
                .unwrap();
        }
        let _ = worker.view(|tx| store.for_each(tx, |_, _| Ok(())));
        let _ = worker.view(|tx| store.count(tx));
        let _ = worker.view(|tx| store.check(tx));
        for number in 0..60 {
            let _ = worker.view(|tx| store.get(tx, &key(number)));
            let _ = worker.run(|tx| store.insert(tx, &key(number), b"something else"));
            let _ = worker.run(|tx| store.remove(tx, &key(number)));
        }
    }
}

/// Several threads, each with keys of its own, whose transactions interleave.
fn together<C: Create>(create: &C, mode: Concurrency, seed: u64) {
    const THREADS: u64 = 3;
    let geometry = Geometry { size: 4 << 20, logs: 4, log_bytes: 8 * KILOBYTE, chunk_bytes: 4 * KILOBYTE };
    let pool = Pool::of(geometry, vec![0; (4 << 20) / 8], 40);
    let root = pool.root(0);
    let map = create.create(&mut pool.worker(mode), root).unwrap();
    let finals = std::cell::RefCell::new(BTreeMap::new());
    let threads = (0..THREADS)
        .map(|thread| {
            let (pool, finals) = (&pool, &finals);
            Box::new(move |memory: &Hosted| {
                let view = View { memory, layout: pool.layout, shared: pool.shared };
                let mut worker = Worker::lease(view, mode, None).unwrap();
                let mut seed = seed * THREADS + thread + 1;
                let mut model = BTreeMap::new();
                for number in 0..150 {
                    let key = (random(&mut seed) % 40 * THREADS + thread) as i64;
                    let old = if random(&mut seed).is_multiple_of(2) {
                        let old = worker.run(|tx| map.insert(tx, key, number)).unwrap();
                        (old, model.insert(key, number))
                    } else {
                        (worker.run(|tx| map.remove(tx, key)).unwrap(), model.remove(&key))
                    };
                    assert_eq!(old.0, old.1);
                }
                finals.borrow_mut().extend(model);
            }) as coroutines::Thread<'_>
        })
        .collect();
    let mut choice = seed + 1;
    coroutines::run(&pool.world, threads, |running| (random(&mut choice) % running.len() as u64) as usize);
    verify::<C::Map>(&mut pool.worker(mode), root, &finals.borrow());
    verify::<C::Map>(&mut pool.recovered().worker(mode), root, &finals.borrow());
}

#[test]
fn threads_work_together() {
    for seed in 0..6 {
        for mode in MODES {
            together(&Hash(16), mode, seed);
            together(&RedBlack, mode, seed);
            together(&Textbook(5), mode, seed);
            together(&BPlus(NodeShape::of_pairs(4)), mode, seed);
            together(&BPlus(NodeShape::of_pairs(20)), mode, seed);
        }
    }
}
