//! Property tests of the structures against the standard library's, on every runner, in small pools whose logs overflow; and tests of what damage,
//! interruption and deletion leave.

mod contents;
mod native;

use std::rc::Rc;

use proptest::prelude::*;

use strandline_core::engine::{Over, Worker};
use strandline_core::error::{Error, Result};
use strandline_core::heap::usage;
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, PersistentAddress, World, coroutines};
use strandline_core::scheme::{Schemes, recover};
use strandline_core::transaction::{Abort, AnyRunner, Concurrency, Read, Runner, Statistics, Transaction};
use strandline_schemes::{PlainWorker, Program};
use strandline_structures::model::{self, Contents, Invariant, Numbers, Operation, Structure};
use strandline_structures::*;

const KILOBYTE: u64 = 1024;
const MODES: [Concurrency; 2] = [Concurrency::Stm, Concurrency::SingleWriter];

/// A pool on a recorder that records nothing.
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

    fn worker(&self, mode: Concurrency) -> Worker<Over<Concurrency, Hosted>> {
        Worker::lease(self.view(), mode, None).unwrap()
    }

    fn root(&self, index: u64) -> PersistentAddress {
        self.layout.root(index)
    }

    /// Recovers the pool after a restart that lost only the synchronisation words.
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

/// The operations of each transaction, and whether it gives up at the end.
type Script = Vec<(Vec<Operation>, bool)>;

/// Generates scripts for drawn structures. Phases in which insertions or removals prevail make trees grow and shrink.
fn scripts<S: Structure + Copy + 'static>(
    structures: impl Strategy<Value = S>,
    keys: u64,
    transactions: usize,
) -> impl Strategy<Value = (S, Script)> {
    let phase = move |structure: S, growth| {
        let operation = proptest::array::uniform6(any::<u32>())
            .prop_map(move |numbers| structure.draw(&mut Numbers::new(numbers, keys).growing(growth)));
        let transaction = (proptest::collection::vec(operation, 1..6), proptest::bool::weighted(0.1));
        proptest::collection::vec(transaction, 0..transactions)
    };
    structures.prop_flat_map(move |structure| {
        [7, 2, 7, 1]
            .map(|growth| phase(structure, growth))
            .prop_map(move |phases| (structure, phases.concat()))
    })
}

fn verify(
    runner: &mut AnyRunner<'_>,
    structure: &dyn Structure,
    root: PersistentAddress,
    expected: &Contents,
) {
    assert_eq!(&runner.view(|tx| structure.contents(tx, root)).unwrap(), expected);
}

/// Runs a script on a structure and on its model.
fn follow(
    runner: &mut AnyRunner<'_>,
    structure: &dyn Structure,
    root: PersistentAddress,
    script: &Script,
) -> Contents {
    let mut model = structure.empty();
    for (number, (operations, gives_up)) in script.iter().enumerate() {
        let gives_up = *gives_up && runner.rolls_back();
        let result = runner.run(|tx| {
            let mut outcomes = Vec::new();
            for operation in operations {
                outcomes.push(structure.apply(tx, root, operation)?);
            }
            if gives_up { Err(Abort::User) } else { Ok(outcomes) }
        });
        if gives_up {
            assert!(matches!(result, Err(Error::Aborted)), "{result:?}");
        } else {
            let expected: Vec<_> = operations.iter().map(|operation| model.apply(operation)).collect();
            assert_eq!(result.unwrap(), expected, "{operations:?}");
        }
        if number % 16 == 0 {
            verify(runner, structure, root, &model);
        }
    }
    verify(runner, structure, root, &model);
    model
}

/// Returns operations that remove all contents.
fn clear(structure: &dyn Structure, contents: &Contents) -> Vec<Operation> {
    match contents {
        Contents::Map(_) if structure.empty() != Contents::default() => Vec::new(),
        Contents::Map(map) => map
            .iter()
            .flat_map(|(&key, &value)| match structure.name() {
                "multiset" => vec![Operation::Take(key); value as usize],
                "allocator" => vec![Operation::Toggle(key, 0)],
                _ => vec![Operation::Remove(key)],
            })
            .collect(),
        Contents::Sequence { items, .. } => vec![Operation::PopFirst; items.len()],
        Contents::Several(_) => unreachable!("a structure is one"),
    }
}

/// Runs a script on all runners, and compares results, contents, heap balance and recovery. Objects of `kept` bytes, or none if 0, may remain when
/// everything is removed.
fn everywhere(structure: &dyn Structure, log_bytes: u64, script: &Script, kept: u64) {
    let on = |runner: &mut AnyRunner<'_>, pool: &Pool, root| {
        structure.create(runner, root).unwrap();
        let empty = pool.used();
        let contents = follow(runner, structure, root, script);
        if runner.rolls_back() {
            let recovered = pool.recovered();
            verify(&mut AnyRunner::new(recovered.worker(Concurrency::Stm)), structure, root, &contents);
        }
        // Creating a structure again opens it.
        structure.create(runner, root).unwrap();
        for operation in clear(structure, &contents) {
            runner.run(|tx| structure.apply(tx, root, &operation)).unwrap();
        }
        if structure.empty() != Contents::default() && structure.name() != "queue" {
            return;
        }
        verify(runner, structure, root, &structure.empty());
        let (objects, bytes) = pool.used();
        assert_eq!(bytes - empty.1, kept * (objects - empty.0));
    };
    for mode in MODES {
        let pool = Pool::new(log_bytes);
        on(&mut AnyRunner::new(pool.worker(mode)), &pool, pool.root(1));
    }
    let pool = Pool::new(log_bytes);
    on(&mut AnyRunner::new(PlainWorker::new(pool.view(), 0, Program::VOLATILE)), &pool, pool.root(1));
    native::natively(structure, script);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hash_table_is_a_map(
        (table, script) in scripts(
            (1..40u64, 1..10u64).prop_map(|(buckets, value_words)| model::HashTable { buckets, value_words }),
            100, 60,
        ),
    ) {
        everywhere(&table, 8 * KILOBYTE, &script, 0);
    }

    #[test]
    fn red_black_tree_is_a_map((tree, script) in scripts(Just(model::RedBlackTree), 200, 120)) {
        everywhere(&tree, 4 * KILOBYTE, &script, 0);
    }

    #[test]
    fn b_tree_is_a_map(
        (tree, script) in scripts((3..12u64).prop_map(model::BTree), 200, 120),
    ) {
        everywhere(&tree, 16 * KILOBYTE, &script, 0);
    }

    #[test]
    fn sorted_tree_is_a_map(
        (tree, script) in scripts(
            (3..12u64, any::<bool>()).prop_map(|(keys, in_all_nodes)| {
                let shape = if in_all_nodes { SortedShape::b_tree(keys) } else { SortedShape::b_plus(keys) };
                model::SortedTree(shape)
            }),
            200, 120,
        ),
    ) {
        everywhere(&tree, 16 * KILOBYTE, &script, 0);
    }

    #[test]
    fn sorted_tree_of_words_is_a_map(
        (tree, script) in scripts(
            (3..12u64, any::<bool>()).prop_map(|(keys, in_all_nodes)| {
                let shape = if in_all_nodes { SortedShape::b_tree(keys) } else { SortedShape::b_plus(keys) };
                model::SortedTreeOfWords(SortedShape { bytes: 512, value_bytes: 8, ..shape })
            }),
            200, 120,
        ),
    ) {
        everywhere(&tree, 16 * KILOBYTE, &script, 0);
    }

    #[test]
    fn b_plus_tree_is_a_map(
        (tree, script) in
            scripts((4..9u64).prop_map(|pairs| model::BPlusTree(NodeShape::of_pairs(pairs))), 300, 120),
    ) {
        everywhere(&tree, 8 * KILOBYTE, &script, 0);
    }

    #[test]
    fn b_plus_tree_with_groups_is_a_map(
        (tree, script) in
            scripts((10..60u64).prop_map(|pairs| model::BPlusTree(NodeShape::of_pairs(pairs))), 1000, 200),
    ) {
        everywhere(&tree, 16 * KILOBYTE, &script, 0);
    }

    #[test]
    fn key_value_store_is_a_map(
        (store, script) in scripts((1..20u64).prop_map(|buckets| model::KeyValueStore { buckets }), 150, 40),
    ) {
        // Further tables remain until the store is dropped.
        everywhere(&store, 16 * KILOBYTE, &script, 512);
    }

    #[test]
    fn array_is_a_vector(
        (array, script) in
            scripts((1..3000u64, any::<u64>()).prop_map(|(length, first)| model::Array { length, first }), 3000, 30),
    ) {
        everywhere(&array, 4 * KILOBYTE, &script, 0);
    }

    #[test]
    fn queue_is_a_deque(
        (queue, script) in scripts(
            (2..9u64, 1..12u64).prop_map(|(capacity, entry_words)| model::Queue { capacity, entry_words }),
            1, 60,
        ),
    ) {
        everywhere(&queue, 4 * KILOBYTE, &script, 0);
    }

    #[test]
    fn graph_is_a_map_of_edges(
        (graph, script) in scripts(
            (1..12u64, 1..4u64).prop_map(|(vertices, value_words)| model::Graph { vertices, value_words }),
            144, 60,
        ),
    ) {
        everywhere(&graph, 8 * KILOBYTE, &script, 0);
    }

    #[test]
    fn set_is_a_set((set, script) in scripts(Just(model::Set), 40, 60)) {
        everywhere(&set, 4 * KILOBYTE, &script, 0);
    }

    #[test]
    fn multiset_counts((set, script) in scripts(Just(model::MultiSet), 40, 60)) {
        everywhere(&set, 4 * KILOBYTE, &script, 0);
    }

    #[test]
    fn blocks_keep_what_is_in_them((blocks, script) in scripts(Just(model::Blocks { slots: 6 }), 6, 40)) {
        everywhere(&blocks, 4 * KILOBYTE, &script, 0);
    }

    #[test]
    fn words_keep_their_invariant(
        (words, script) in scripts(
            prop_oneof![Just(Invariant::None), Just(Invariant::Sum), Just(Invariant::Permutation)]
                .prop_map(|invariant| model::Words { count: 6, byte: |place| 16 * place, invariant }),
            6, 30,
        ),
    ) {
        everywhere(&words, 4 * KILOBYTE, &script, 0);
    }

    #[test]
    fn trees_are_read_in_ranges(
        keys in proptest::collection::btree_set(-50..50i64, 0..60),
        from in -60..60i64,
        length in 0..60i64,
    ) {
        let pool = Pool::new(16 * KILOBYTE);
        let mut worker = pool.worker(Concurrency::Stm);
        let expected: Vec<i64> = keys.range(from..from + length).copied().collect();
        macro_rules! read {
            ($root:expr, |$tx:ident, $at:ident| $create:expr) => {{
                let root = pool.root($root);
                let tree = worker.run(|$tx| { let $at = root; $create }).unwrap();
                for &key in &keys {
                    worker.run(|tx| tree.insert(tx, key, !key as _)).unwrap();
                }
                let (found, first, count) = worker.view(|tx| {
                    let mut found = Vec::new();
                    tree.range(tx, from..from + length, |key, value| {
                        found.push((key, value));
                        Ok(())
                    })?;
                    Ok((found, tree.first(tx, from..from + length)?, tree.count(tx)?))
                }).unwrap();
                prop_assert!(found.iter().map(|pair| pair.0).eq(expected.iter().copied()));
                prop_assert!(found.iter().all(|&(key, value)| u64::from(value) as u32 == !key as u32));
                prop_assert_eq!(first, found.first().copied());
                prop_assert_eq!(count, keys.len() as u64);
            }};
        }
        read!(0, |tx, root| RedBlackTree::<i64, u64>::create(tx, root));
        read!(1, |tx, root| BPlusTree::<i64, u64>::create(tx, root, NodeShape::of_pairs(4)));
        read!(2, |tx, root| BTree::<i64, u64>::create(tx, root, 3));
        read!(3, |tx, root| SortedTree::<i64>::create(tx, root, SortedShape::b_plus(3)));
        read!(4, |tx, root| SortedTree::<i64>::create(tx, root, SortedShape::b_tree(4)));
    }
}

/// Returns the next number of a xorshift sequence.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Fills a tree in some order, checks it, and empties it in another order.
fn fill_and_empty(tree: &dyn Structure, keys: &[u64], removal: &[u64]) {
    let pool = Pool::new(64 * KILOBYTE);
    let mut runner = AnyRunner::new(pool.worker(Concurrency::Stm));
    let root = pool.root(0);
    tree.create(&mut runner, root).unwrap();
    let empty = pool.used();
    let mut model = tree.empty();
    let mut run = |operation: Operation| {
        assert_eq!(runner.run(|tx| tree.apply(tx, root, &operation)).unwrap(), model.apply(&operation));
        if runner.statistics().commits.is_multiple_of(500) {
            verify(&mut runner, tree, root, &model);
        }
    };
    for (number, &key) in (0..).zip(keys) {
        run(Operation::Insert(key, number));
    }
    for &key in removal.iter().chain(keys) {
        run(Operation::Remove(key));
    }
    verify(&mut runner, tree, root, &tree.empty());
    assert_eq!(pool.used(), empty);
}

fn orders(tree: &dyn Structure, count: u64) {
    let ascending: Vec<u64> = (0..count).collect();
    let descending: Vec<u64> = ascending.iter().rev().copied().collect();
    let mut seed = 42;
    let shuffled: Vec<u64> = (0..count).map(|_| random(&mut seed) % count).collect();
    for keys in [&ascending, &descending, &shuffled] {
        for removal in [&ascending, &descending, &shuffled] {
            fill_and_empty(tree, keys, removal);
        }
    }
}

#[test]
fn red_black_trees_of_all_orders() {
    orders(&model::RedBlackTree, 4000);
}

#[test]
fn b_trees_of_all_orders() {
    orders(&model::BTree(3), 1500);
    orders(&model::BTree(6), 3000);
    orders(&model::BTree(11), 3000);
}

#[test]
fn sorted_trees_of_all_orders() {
    for keys in [3, 4, 11] {
        orders(&model::SortedTree(SortedShape::b_plus(keys)), 1500);
        orders(&model::SortedTree(SortedShape::b_tree(keys)), 1500);
    }
    orders(&model::SortedTree(SortedShape::LOOSE_ORDERING), 2000);
}

/// In a leaf of 200 pairs of 8 and 4 bytes an insertion at the front writes the whole contents and nothing else.
#[test]
fn a_sorted_tree_shifts() {
    let pool = Pool::new(64 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let root = pool.root(0);
    let tree = worker.run(|tx| SortedTree::<u64>::create(tx, root, SortedShape::LOOSE_ORDERING)).unwrap();
    assert_eq!(tree.shape().bytes, 4096);
    let written = |worker: &mut Worker<Over<Concurrency, Hosted>>, key| {
        let before = worker.statistics().log_bytes;
        worker.run(|tx| tree.insert(tx, key, 7)).unwrap();
        worker.statistics().log_bytes - before
    };
    let one = written(&mut worker, 1000);
    (0..100).for_each(|key| assert!(written(&mut worker, 999 - key) > one));
    // At the end it writes key, value and header, like the first insertion.
    assert_eq!(written(&mut worker, 1001), one);
    // In front of 102 pairs: that many more keys and half as many more words of values, and the log's own few records.
    let more = (written(&mut worker, 0) - one) / 16;
    assert!((153..160).contains(&more), "{more} records");
}

#[test]
fn b_plus_trees_of_the_paper_of_all_orders() {
    orders(&model::BPlusTree(NodeShape::PAPER), 8000);
}

#[test]
fn b_plus_trees_of_the_largest_nodes_of_all_orders() {
    orders(&model::BPlusTree(NodeShape::of_pairs(255)), 3000);
}

#[test]
fn b_plus_trees_of_the_smallest_nodes_of_all_orders() {
    orders(&model::BPlusTree(NodeShape::of_pairs(4)), 1500);
}

/// Insertions and removals in a node with room write only a few words.
#[test]
fn a_b_plus_tree_writes_little() {
    let pool = Pool::new(64 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let tree = worker.run(|tx| BPlusTree::<u64, u64>::create(tx, tx.root(0), NodeShape::PAPER)).unwrap();
    let mut seed = 7;
    let start = worker.statistics();
    let operations = 30_000;
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
    // One commit record, 3 words for an insertion, 1 for a removal, and the writes of splits and merges.
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

#[test]
fn a_destroyed_key_value_store_leaves_its_header() {
    let pool = Pool::new(16 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let store = KeyValueStore::create(&mut worker, pool.root(3), 2).unwrap();
    for number in 0..200u32 {
        let bytes = number.to_le_bytes().repeat(number as usize % 40);
        worker.run(|tx| store.insert(tx, &bytes, &bytes)).unwrap();
    }
    worker.run(|tx| store.destroy(tx)).unwrap();
    assert_eq!(pool.used().0, 1);
}

/// A chunk that becomes one of small blocks has the contents of a former object at the place of its bitmap.
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

/// A runner that is interrupted after some transactions.
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
            // Old contents, which must not be visible in the new structure.
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

/// Whatever the heap contains, reading ends with a result or an error.
fn survive(structure: &dyn Structure, seed: &mut u64) {
    let pool = Pool::new(16 * KILOBYTE);
    let mut worker = AnyRunner::new(pool.worker(Concurrency::Stm));
    let root = pool.root(0);
    structure.create(&mut worker, root).unwrap();
    for _ in 0..300 {
        let operation = Operation::Insert(random(seed) % 500, 1);
        worker.run(|tx| structure.apply(tx, root, &operation)).unwrap();
    }
    // Some words of the structure's chunks become others, for instance addresses.
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
                Error::Damaged { .. }
                    | Error::InvalidAddress(_)
                    | Error::InvalidFree(_)
                    | Error::WrongStructure { .. }
                    | Error::Incomplete { .. }
                    | Error::Full { .. }
                    | Error::TransactionTooLarge { .. }
            ),
            "{error:?}"
        )
    };
    let _ = worker.view(|tx| structure.read(tx, root).map(drop)).map_err(accept);
    let _ = worker.view(|tx| structure.check(tx, root).map(drop)).map_err(accept);
    for key in 0..500 {
        for operation in [Operation::Get(key), Operation::Remove(key), Operation::Insert(key, 2)] {
            let _ = worker.run(|tx| structure.apply(tx, root, &operation)).map_err(accept);
        }
    }
}

#[test]
fn damage_is_an_error() {
    let mut seed = 99;
    for _ in 0..40 {
        survive(&model::HashTable { buckets: 20, value_words: 1 }, &mut seed);
        survive(&model::RedBlackTree, &mut seed);
        survive(&model::BTree(3), &mut seed);
        survive(&model::BTree(9), &mut seed);
        survive(&model::SortedTree(SortedShape::b_plus(4)), &mut seed);
        survive(&model::SortedTree(SortedShape::b_tree(9)), &mut seed);
        survive(&model::BPlusTree(NodeShape::of_pairs(4)), &mut seed);
        survive(&model::BPlusTree(NodeShape::of_pairs(30)), &mut seed);
        survive(&model::KeyValueStore { buckets: 20 }, &mut seed);
    }
}

#[test]
fn a_part_of_a_value_is_written_over() {
    let pool = Pool::new(16 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let store = KeyValueStore::create(&mut worker, pool.root(0), 4).unwrap();
    worker.run(|tx| store.insert(tx, b"key", &[1; 40])).unwrap();
    let mut overwrite =
        |key: &[u8], offset, bytes: &[u8]| worker.run(|tx| store.overwrite(tx, key, offset, bytes)).unwrap();
    assert!(overwrite(b"key", 16, &[2; 16]));
    for (key, offset, length) in [(&b"none"[..], 0, 8), (b"key", 4, 8), (b"key", 0, 4), (b"key", 32, 16)] {
        assert!(!overwrite(key, offset, &[3; 16][..length]), "{offset}, {length}");
    }
    let expected = [[1; 16].as_slice(), &[2; 16], &[1; 8]].concat();
    assert_eq!(worker.view(|tx| store.get(tx, b"key")).unwrap(), Some(expected));
    // Unchanged words are written nevertheless.
    let before = worker.statistics().log_bytes;
    worker.run(|tx| store.overwrite(tx, b"key", 0, &[1; 16])).unwrap();
    assert!(worker.statistics().log_bytes >= before + 2 * 16);
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

/// Runs several threads, each with its own keys, whose transactions interleave.
fn together(structure: &dyn Structure, mode: Concurrency, seed: u64) {
    const THREADS: u64 = 3;
    let geometry = Geometry { size: 4 << 20, logs: 4, log_bytes: 8 * KILOBYTE, chunk_bytes: 4 * KILOBYTE };
    let pool = Pool::of(geometry, vec![0; (4 << 20) / 8], 40);
    let root = pool.root(0);
    structure.create(&mut AnyRunner::new(pool.worker(mode)), root).unwrap();
    let all = std::cell::RefCell::new(structure.empty());
    let threads = (0..THREADS)
        .map(|thread| {
            let (pool, all) = (&pool, &all);
            Box::new(move |memory: &Hosted| {
                let view = View { memory, layout: pool.layout, shared: pool.shared };
                let mut worker = Worker::lease(view, mode, None).unwrap();
                let mut seed = seed * THREADS + thread + 1;
                for number in 0..150 {
                    let key = random(&mut seed) % 40 * THREADS + thread;
                    let operation = match random(&mut seed).is_multiple_of(2) {
                        true => Operation::Insert(key, number),
                        false => Operation::Remove(key),
                    };
                    let outcome = worker.run(|tx| structure.apply(tx, root, &operation)).unwrap();
                    // Other threads only affect other keys.
                    assert_eq!(outcome, all.borrow_mut().apply(&operation));
                }
            }) as coroutines::Thread<'_>
        })
        .collect();
    let mut choice = seed + 1;
    coroutines::run(&pool.world, threads, |running| (random(&mut choice) % running.len() as u64) as usize);
    verify(&mut AnyRunner::new(pool.worker(mode)), structure, root, &all.borrow());
    verify(&mut AnyRunner::new(pool.recovered().worker(mode)), structure, root, &all.borrow());
}

#[test]
fn threads_work_together() {
    for seed in 0..6 {
        for mode in MODES {
            together(&model::HashTable { buckets: 16, value_words: 1 }, mode, seed);
            together(&model::RedBlackTree, mode, seed);
            together(&model::BTree(5), mode, seed);
            together(&model::SortedTree(SortedShape::b_plus(5)), mode, seed);
            together(&model::SortedTree(SortedShape::b_tree(4)), mode, seed);
            together(&model::BPlusTree(NodeShape::of_pairs(4)), mode, seed);
            together(&model::BPlusTree(NodeShape::of_pairs(20)), mode, seed);
            together(&model::KeyValueStore { buckets: 16 }, mode, seed);
        }
    }
}

#[test]
fn what_is_no_vertex_is_an_error() {
    let pool = Pool::new(4 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    assert!(matches!(Graph::<u64>::create(&mut worker, pool.root(0), 0, 1), Err(Error::Parameter(_))));
    assert!(matches!(Graph::<u64>::create(&mut worker, pool.root(0), 3, 2), Err(Error::Parameter(_))));
    let graph = Graph::<u64>::create(&mut worker, pool.root(0), 3, 1).unwrap();
    worker.run(|tx| graph.insert(tx, 1, 2, &7)).unwrap();
    assert!(worker.run(|tx| graph.delete(tx, 1, 2)).unwrap());
    assert!(!worker.run(|tx| graph.delete(tx, 1, 2)).unwrap());
    for (from, to) in [(3, 0), (0, 3)] {
        assert!(matches!(worker.run(|tx| graph.insert(tx, from, to, &1)), Err(Error::Parameter(_))));
        assert!(matches!(worker.view(|tx| graph.get(tx, from, to)), Err(Error::Parameter(_))));
    }
    assert!(matches!(worker.view(|tx| graph.for_each_from(tx, 3, |_, _| Ok(()))), Err(Error::Parameter(_))));
    let other = worker.view(|tx| HashTable::<u64, u64>::open(tx, tx.root(0))).map(drop);
    assert!(matches!(other, Err(Error::WrongStructure { .. })));
}

#[test]
fn wrong_sizes_and_damage_of_a_queue_are_errors() {
    let pool = Pool::new(4 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let root = pool.root(0);
    for (capacity, words) in [(0, 1), (1, 0), (1 << 41, 1), (1 << 39, 1 << 23)] {
        let outcome = worker.run(|tx| Queue::<Vec<u64>>::create(tx, root, capacity, words));
        assert!(matches!(outcome, Err(Error::Parameter(_))));
    }
    let queue = worker.run(|tx| Queue::<u64>::create(tx, root, 4, 1)).unwrap();
    assert!(matches!(
        worker.run(|tx| Queue::<u64>::create(tx, root, 5, 1)).map(drop),
        Err(Error::WrongStructure { .. })
    ));
    assert!(matches!(
        worker.view(|tx| Queue::<i64>::open(tx, root)).map(drop),
        Err(Error::WrongStructure { .. })
    ));
    assert!(matches!(
        worker.view(|tx| Queue::<u64>::open(tx, tx.root(1))).map(drop),
        Err(Error::Missing { .. })
    ));
    worker.run(|tx| queue.push(tx, &7)).unwrap();
    // The tail is on the second line of the header.
    worker
        .run(|tx| {
            let header = PersistentAddress::new(tx.read(root)?);
            tx.write(header.word(8), 9)
        })
        .unwrap();
    assert!(matches!(worker.run(|tx| queue.pop(tx)), Err(Error::Damaged { .. })));
    assert!(matches!(worker.view(|tx| queue.check(tx)), Err(Error::Damaged { .. })));
}

#[test]
fn a_multiset_is_not_a_map() {
    let pool = Pool::new(4 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    worker.run(|tx| MultiSet::<u64>::create(tx, tx.root(0)).map(drop)).unwrap();
    let map = worker.view(|tx| RedBlackTree::<u64, u64>::open(tx, tx.root(0))).map(drop);
    let set = worker.view(|tx| Set::<u64>::open(tx, tx.root(0))).map(drop);
    assert!(
        matches!(map, Err(Error::WrongStructure { .. })) && matches!(set, Err(Error::WrongStructure { .. }))
    );
}

#[test]
fn sets_are_read_in_ranges() {
    let pool = Pool::new(4 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    let (set, multi) = worker
        .run(|tx| {
            let (set, multi) = (Set::create(tx, tx.root(0))?, MultiSet::create(tx, tx.root(1))?);
            for key in [5, -7, 3, 3] {
                set.insert(tx, key)?;
                multi.insert(tx, key)?;
            }
            Ok((set, multi))
        })
        .unwrap();
    let (keys, first, times) = worker
        .view(|tx| {
            let (mut keys, mut times) = (Vec::new(), Vec::new());
            set.range(tx, -5.., |key: i32| {
                keys.push(key);
                Ok(())
            })?;
            multi.range(tx, ..5, |key: i32, count| {
                times.push((key, count));
                Ok(())
            })?;
            assert_eq!((set.count(tx)?, multi.count(tx)?), (3, 4));
            Ok((keys, set.first(tx, 4..)?, times))
        })
        .unwrap();
    assert_eq!((keys, first, times), (vec![3, 5], Some(5), vec![(-7, 1), (3, 2)]));
}

/// Counts the words that five insertions and deletions write in trees of 100 keys: more with larger nodes, and about as many in a B-tree as in a B+
/// tree.
#[test]
fn larger_nodes_shift_more() {
    let written = |shape| {
        let pool = Pool::new(128 * KILOBYTE);
        let mut worker = pool.worker(Concurrency::SingleWriter);
        let root = pool.root(0);
        let tree = worker.run(|tx| SortedTree::<u64>::create(tx, root, shape)).unwrap();
        let mut seed = 77;
        let mut key = || random(&mut seed) % 1_000_000;
        let mut elements: Vec<u64> = (0..100).map(|_| key()).collect();
        elements.iter().for_each(|&key| assert_eq!(worker.run(|tx| tree.insert(tx, key, 7)).unwrap(), None));
        let before = worker.statistics().log_bytes;
        let operations = 2000;
        for _ in 0..operations {
            let (new, at) = (key(), (key() % 100) as usize);
            let old = std::mem::replace(&mut elements[at], new);
            worker.run(|tx| tree.insert(tx, new, 7)).unwrap();
            worker.run(|tx| tree.remove(tx, old)).unwrap();
        }
        // Records have 16 bytes, and one in each transaction is the commit record.
        let records = (worker.statistics().log_bytes - before) / 16 - 2 * operations;
        5.0 * records as f64 / operations as f64
    };
    let by_keys =
        [11, 31, 63].map(|keys| (written(SortedShape::b_tree(keys)), written(SortedShape::b_plus(keys))));
    println!("{by_keys:.0?}");
    assert!(by_keys.iter().all(|(b, b_plus)| (0.9..1.1).contains(&(b / b_plus))), "{by_keys:?}");
    assert!(by_keys.windows(2).all(|two| two[1].0 > 1.5 * two[0].0), "{by_keys:?}");
}
