//! Set and multiset against the standard library's.

use std::collections::BTreeSet;

use super::*;

/// Keys put in or taken out, and whether the transaction gives up.
type Steps = Vec<(Vec<(i32, bool)>, bool)>;

fn follow(runner: &mut impl Runner, steps: &Steps, aborts: bool) {
    let (set, multi) = runner
        .run(|tx| {
            let roots = (tx.root(2), tx.root(3));
            Ok((Set::create(tx, roots.0)?, MultiSet::create(tx, roots.1)?))
        })
        .unwrap();
    let (mut model, mut multi_model) = (BTreeSet::new(), BTreeMap::new());
    for (operations, gives_up) in steps {
        let gives_up = *gives_up && aborts;
        let (mut expected, mut multi_expected) = (model.clone(), multi_model.clone());
        let outcomes: Vec<_> = operations
            .iter()
            .map(|&(key, is_insertion)| {
                let times: &mut u64 = multi_expected.entry(key).or_insert(0);
                let before = *times;
                *times = if is_insertion { before + 1 } else { before.saturating_sub(1) };
                let changed = if is_insertion { expected.insert(key) } else { expected.remove(&key) };
                (changed, before)
            })
            .collect();
        let result = runner.run(|tx| {
            for (&(key, is_insertion), &(changed, before)) in operations.iter().zip(&outcomes) {
                assert_eq!(multi.times(tx, key)?, before);
                if is_insertion {
                    assert_eq!(set.insert(tx, key)?, changed);
                    assert_eq!(multi.insert(tx, key)?, before + 1);
                } else {
                    assert_eq!(set.remove(tx, key)?, changed);
                    assert_eq!(multi.remove(tx, key)?, before > 0);
                }
                assert_eq!(set.contains(tx, key)?, is_insertion);
            }
            if gives_up { Err(Abort::User) } else { Ok(()) }
        });
        if gives_up {
            assert!(matches!(result, Err(Error::Aborted)), "{result:?}");
        } else {
            result.unwrap();
            (model, multi_model) = (expected, multi_expected);
        }
    }
    multi_model.retain(|_, times| *times > 0);
    runner
        .view(|tx| {
            let set = Set::open(tx, tx.root(2))?;
            let multi = MultiSet::open(tx, tx.root(3))?;
            let mut all = Vec::new();
            set.range(tx, -5.., |key: i32| {
                all.push(key);
                Ok(())
            })?;
            assert_eq!(all, model.range(-5..).copied().collect::<Vec<_>>());
            assert_eq!(set.first(tx, 3..)?, model.range(3..).next().copied());
            assert_eq!([set.check(tx)?, set.count(tx)?], [model.len() as u64; 2]);
            let mut all = BTreeMap::new();
            multi.range(tx, .., |key: i32, times| {
                all.insert(key, times);
                Ok(())
            })?;
            assert_eq!(all, multi_model);
            assert_eq!([multi.check(tx)?, multi.count(tx)?], [multi_model.values().sum::<u64>(); 2]);
            Ok(())
        })
        .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sets_are_sets(
        steps in proptest::collection::vec(
            (proptest::collection::vec((-20..20i32, any::<bool>()), 1..6), proptest::bool::weighted(0.1)),
            0..80),
    ) {
        for mode in MODES {
            let pool = Pool::new(4 * KILOBYTE);
            follow(&mut pool.worker(mode), &steps, true);
        }
        let pool = Pool::new(4 * KILOBYTE);
        follow(&mut VolatileWorker::new(pool.view(), 0), &steps, false);
    }
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
