//! The structures as applications use them: on native memory, under the product's controls.

use super::*;
use strandline_core::Options;
use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::example::path_and_options;
use strandline_core::memory::Native;

fn pool<C: Control<Memory = Native>>(setup: Setup<C>) -> strandline_core::Pool<C> {
    let (path, options) = path_and_options();
    let geometry =
        Geometry { size: 32 << 20, logs: 2, log_bytes: 128 * KILOBYTE, chunk_bytes: 16 * KILOBYTE };
    setup.create(&path, &Options { geometry, ..options }).unwrap()
}

/// Runs a script on native memory.
pub fn natively(structure: &dyn Structure, script: &Script) {
    fn under<C: Control<Memory = Native>>(setup: Setup<C>, structure: &dyn Structure, script: &Script) {
        let pool = pool(setup);
        let mut runner = AnyRunner::new(pool.worker().unwrap());
        let root = pool.layout().root(1);
        structure.create(&mut runner, root).unwrap();
        follow(&mut runner, structure, root, script);
    }
    under(Setup::from(SingleWriter), structure, script);
    under(Setup::from(Stm), structure, script);
}

#[test]
fn a_red_black_tree_may_be_deeper_than_most() {
    // Ascending keys make the right side twice as deep as the left one.
    const KEYS: u64 = 150_000;
    let pool = pool(Setup::from(SingleWriter));
    let mut worker = pool.worker().unwrap();
    let tree = worker.run(|tx| RedBlackTree::create(tx, tx.root(0))).unwrap();
    for key in 0..KEYS {
        assert_eq!(worker.run(|tx| tree.insert(tx, key, key)).unwrap(), None);
    }
    assert_eq!(worker.run(|tx| tree.check(tx)).unwrap(), KEYS);
    for key in (0..KEYS).rev().step_by(3) {
        assert_eq!(worker.run(|tx| tree.remove(tx, key)).unwrap(), Some(key));
    }
    assert_eq!(worker.run(|tx| tree.check(tx)).unwrap(), KEYS - KEYS.div_ceil(3));
}

/// One thread moves keys back and forth, and another searches them: each is in one of two places, with its value.
fn is_never_lost(setup: Setup<impl Control<Memory = Native>>, buckets: u64) {
    const KEYS: u64 = 24;
    const MOVES: u64 = 20_000;
    let pool = pool(setup);
    let mut worker = pool.worker().unwrap();
    let table = HashTable::<u64, u64>::create(&mut worker, pool.layout().root(0), buckets, 1).unwrap();
    for key in 0..KEYS {
        worker.run(|tx| table.insert(tx, 4 * key, &key).map(drop)).unwrap();
        worker.run(|tx| table.insert(tx, 4 * key + 1, &0).map(drop)).unwrap();
    }
    std::thread::scope(|threads| {
        let mover = threads.spawn(|| {
            for number in 1..=MOVES {
                let here = 4 * (number % KEYS) + 1;
                let moved = worker.run(|tx| {
                    let was_here = table.delete(tx, here)?;
                    assert!(was_here || table.delete(tx, here + 1)?);
                    table.insert(tx, here + u64::from(was_here), &number)
                });
                assert_eq!(moved.unwrap(), None);
            }
        });
        let mut reader = pool.worker().unwrap();
        let mut newest = [0; KEYS as usize];
        while !mover.is_finished() {
            for key in 0..KEYS {
                let (fixed, places, present) = reader
                    .view(|tx| {
                        let fixed = table.get(tx, 4 * key)?;
                        let places = [table.get(tx, 4 * key + 1)?, table.get(tx, 4 * key + 2)?];
                        let present =
                            [table.contains_key(tx, 4 * key + 1)?, table.contains_key(tx, 4 * key + 2)?];
                        Ok((fixed, places, present))
                    })
                    .unwrap();
                assert_eq!(fixed, Some(key));
                assert_eq!(present, places.map(|value| value.is_some()));
                let ([Some(value), None] | [None, Some(value)]) = places else { panic!("{key}: {places:?}") };
                assert!(value >= newest[key as usize], "{key}: {value} is older than {newest:?}");
                newest[key as usize] = value;
            }
        }
    });
}

#[test]
fn a_reader_of_a_hash_table_sees_it_as_it_was_at_one_time() {
    // Chains have six nodes, or one or none.
    for buckets in [8, 64] {
        is_never_lost(Setup::from(SingleWriter), buckets);
        is_never_lost(Setup::from(Stm), buckets);
    }
}

/// Tables with fewer buckets than a line has words share their line with other data.
#[test]
fn tables_of_few_buckets_have_what_was_inserted() {
    for buckets in 1..8 {
        let pool = pool(Setup::from(SingleWriter));
        let mut worker = pool.worker().unwrap();
        let table = HashTable::<u64, u64>::create(&mut worker, pool.layout().root(0), buckets, 1).unwrap();
        for key in 0..12 {
            let before = worker.view(|tx| Ok((table.get(tx, key)?, table.contains_key(tx, key)?)));
            assert_eq!(before.unwrap(), (None, false), "{key} of {buckets} buckets");
            let within = worker.run(|tx| {
                table.insert(tx, key, &(key + 1))?;
                Ok((table.get(tx, key)?, table.contains_key(tx, key + 1)?))
            });
            assert_eq!(within.unwrap(), (Some(key + 1), false), "{key} of {buckets} buckets");
        }
        for key in 0..12 {
            assert_eq!(worker.view(|tx| table.get(tx, key)).unwrap(), Some(key + 1));
        }
    }
}
