//! The graph against a map of edges.

use super::*;

/// An edge, its new value (none: it is removed), and whether the transaction gives up.
type Steps = Vec<(Vec<((u64, u64), Option<u64>)>, bool)>;
type Edges = BTreeMap<(u64, u64), u64>;

fn follow(
    runner: &mut impl Runner,
    root: PersistentAddress,
    vertices: u64,
    steps: &Steps,
    aborts: bool,
) -> Edges {
    let graph = Graph::<[u64; 2]>::create(runner, root, vertices, 2).unwrap();
    let mut model = Edges::new();
    for (operations, gives_up) in steps {
        let gives_up = *gives_up && aborts;
        let mut expected = model.clone();
        let olds: Vec<_> = operations
            .iter()
            .map(|&((from, to), value)| {
                let edge = (from % vertices, to % vertices);
                match value {
                    Some(value) => expected.insert(edge, value),
                    None => expected.remove(&edge),
                }
            })
            .collect();
        let result = runner.run(|tx| {
            for (&((from, to), value), &old) in operations.iter().zip(&olds) {
                let (from, to) = (from % vertices, to % vertices);
                assert_eq!(graph.contains(tx, from, to)?, old.is_some());
                let was = match value {
                    Some(value) => graph.insert(tx, from, to, &[value, !value])?,
                    None => graph.remove(tx, from, to)?,
                };
                assert_eq!(was, old.map(|old| [old, !old]));
                assert_eq!(graph.get(tx, from, to)?, value.map(|value| [value, !value]));
            }
            if gives_up { Err(Abort::User) } else { Ok(()) }
        });
        if gives_up {
            assert!(matches!(result, Err(Error::Aborted)), "{result:?}");
        } else {
            result.unwrap();
            model = expected;
        }
    }
    verify(runner, root, &model);
    model
}

fn verify(runner: &mut impl Runner, root: PersistentAddress, model: &Edges) {
    runner
        .view(|tx| {
            let graph = Graph::<[u64; 2]>::open(tx, root)?;
            let mut all = Edges::new();
            for from in 0..graph.vertices() {
                graph.for_each_from(tx, from, |to, [value, inverse]| {
                    assert_eq!((inverse, all.insert((from, to), value)), (!value, None));
                    Ok(())
                })?;
            }
            assert_eq!(&all, model);
            assert_eq!([graph.check(tx)?, graph.count(tx)?], [model.len() as u64; 2]);
            Ok(())
        })
        .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graph_is_a_map_of_edges(
        vertices in 1..12u64,
        steps in proptest::collection::vec(
            (proptest::collection::vec(
                ((0..12u64, 0..12u64), proptest::option::weighted(0.6, any::<u64>())), 1..6),
             proptest::bool::weighted(0.1)), 0..60),
    ) {
        for mode in MODES {
            let pool = Pool::new(8 * KILOBYTE);
            let mut worker = pool.worker(mode);
            let root = pool.root(2);
            let graph = Graph::<[u64; 2]>::create(&mut worker, root, vertices, 2).unwrap();
            let empty = pool.used();
            let model = follow(&mut worker, root, vertices, &steps, true);
            verify(&mut pool.recovered().worker(mode), root, &model);
            for &(from, to) in model.keys() {
                prop_assert!(worker.run(|tx| graph.delete(tx, from, to)).unwrap());
                prop_assert!(!worker.run(|tx| graph.delete(tx, from, to)).unwrap());
            }
            prop_assert_eq!(pool.used(), empty);
        }
        let pool = Pool::new(8 * KILOBYTE);
        follow(&mut VolatileWorker::new(pool.view(), 0), pool.root(2), vertices, &steps, false);
    }
}

#[test]
fn what_is_no_vertex_is_an_error() {
    let pool = Pool::new(4 * KILOBYTE);
    let mut worker = pool.worker(Concurrency::Stm);
    assert!(matches!(Graph::<u64>::create(&mut worker, pool.root(0), 0, 1), Err(Error::Parameter(_))));
    assert!(matches!(Graph::<u64>::create(&mut worker, pool.root(0), 3, 2), Err(Error::Parameter(_))));
    let graph = Graph::<u64>::create(&mut worker, pool.root(0), 3, 1).unwrap();
    for (from, to) in [(3, 0), (0, 3)] {
        assert!(matches!(worker.run(|tx| graph.insert(tx, from, to, &1)), Err(Error::Parameter(_))));
        assert!(matches!(worker.view(|tx| graph.get(tx, from, to)), Err(Error::Parameter(_))));
    }
    assert!(matches!(worker.view(|tx| graph.for_each_from(tx, 3, |_, _| Ok(()))), Err(Error::Parameter(_))));
    let other = worker.view(|tx| HashTable::<u64, u64>::open(tx, tx.root(0))).map(drop);
    assert!(matches!(other, Err(Error::WrongStructure { .. })));
}
