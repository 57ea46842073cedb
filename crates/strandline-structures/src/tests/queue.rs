//! The queue against the standard library's.

use std::collections::VecDeque;

use super::*;

/// Pushed values, or none for a pop, and whether the transaction gives up.
type Steps = Vec<(Vec<Option<u64>>, bool)>;

fn entry(value: u64, words: u64) -> Vec<u64> {
    (0..words).map(|i| value.wrapping_mul(31).wrapping_add(i)).collect()
}

fn follow(runner: &mut impl Runner, root: PersistentAddress, sizes: (u64, u64), steps: &Steps, aborts: bool) {
    let (capacity, words) = sizes;
    let queue = runner.run(|tx| Queue::<Vec<u64>>::create(tx, root, capacity, words)).unwrap();
    let mut model = VecDeque::new();
    for (operations, gives_up) in steps {
        let gives_up = *gives_up && aborts;
        let mut expected = model.clone();
        let outcomes: Vec<_> = operations
            .iter()
            .map(|operation| match operation {
                Some(_) if expected.len() as u64 == capacity => None,
                Some(value) => {
                    expected.push_back(entry(*value, words));
                    Some(Vec::new())
                }
                None => expected.pop_front(),
            })
            .collect();
        let result = runner.run(|tx| {
            for (operation, outcome) in operations.iter().zip(&outcomes) {
                match operation {
                    Some(value) => assert_eq!(queue.push(tx, &entry(*value, words))?, outcome.is_some()),
                    None => assert_eq!(queue.pop(tx)?, *outcome),
                }
            }
            if gives_up { Err(Abort::User) } else { Ok(()) }
        });
        if gives_up {
            assert!(matches!(result, Err(Error::Aborted)), "{result:?}");
        } else {
            result.unwrap();
            model = expected;
        }
        verify(runner, root, &model);
    }
}

fn verify(runner: &mut impl Runner, root: PersistentAddress, model: &VecDeque<Vec<u64>>) {
    runner
        .view(|tx| {
            let queue = Queue::<Vec<u64>>::open(tx, root)?;
            let mut all = VecDeque::new();
            queue.for_each(tx, |entry| {
                all.push_back(entry);
                Ok(())
            })?;
            assert_eq!(&all, model);
            assert_eq!(queue.front(tx)?.as_ref(), model.front());
            assert_eq!((queue.check(tx)?, queue.is_empty(tx)?), (model.len() as u64, model.is_empty()));
            Ok(())
        })
        .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn queue_is_a_deque(
        capacity in 1..9u64,
        words in 1..12u64,
        steps in proptest::collection::vec(
            (proptest::collection::vec(proptest::option::weighted(0.55, any::<u64>()), 1..6),
             proptest::bool::weighted(0.1)), 0..60),
    ) {
        for mode in MODES {
            let pool = Pool::new(4 * KILOBYTE);
            let mut worker = pool.worker(mode);
            follow(&mut worker, pool.root(2), (capacity, words), &steps, true);
            let contents = |pool: &Pool| {
                let mut all = VecDeque::new();
                pool.worker(mode).view(|tx| {
                    all.clear();
                    Queue::<Vec<u64>>::open(tx, tx.root(2))?.for_each(tx, |entry| {
                        all.push_back(entry);
                        Ok(())
                    })
                }).unwrap();
                all
            };
            verify(&mut pool.recovered().worker(mode), pool.root(2), &contents(&pool));
        }
        let pool = Pool::new(4 * KILOBYTE);
        follow(&mut VolatileWorker::new(pool.view(), 0), pool.root(2), (capacity, words), &steps, false);
    }
}

#[test]
fn wrong_sizes_and_damage_are_errors() {
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
    // The tail lies on the second line of the header.
    worker
        .run(|tx| {
            let header = PersistentAddress::new(tx.read(root)?);
            tx.write(header.word(8), 9)
        })
        .unwrap();
    assert!(matches!(worker.run(|tx| queue.pop(tx)), Err(Error::Damaged(_))));
    assert!(matches!(worker.view(|tx| queue.check(tx)), Err(Error::Damaged(_))));
}
