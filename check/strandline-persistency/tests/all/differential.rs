//! Compares the online computation with the explicit order, on random executions.

use std::num::NonZeroU32;

use proptest::prelude::*;
use strandline_persistency::{CriticalPath, Event, Model, PersistGraph, Place};

/// Two words of one line, one word of another line, and two synchronisation words.
fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        Just(Place::persistent(0)),
        Just(Place::persistent(1)),
        Just(Place::persistent(8)),
        Just(Place::volatile(0)),
        Just(Place::volatile(1)),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => place().prop_map(Event::Load),
        5 => place().prop_map(Event::Store),
        1 => place().prop_map(Event::Exchange),
        2 => (0u32..2).prop_map(Event::WriteBack),
        2 => Just(Event::StoreFence),
        1 => Just(Event::PersistCommit),
        3 => Just(Event::PersistBarrier),
        1 => Just(Event::NewStrand),
    ]
}

/// Keeps the events of a sync barrier together often enough to cover whole barriers.
fn execution() -> impl Strategy<Value = Vec<(usize, Event)>> {
    let piece = prop_oneof![
        6 => event().prop_map(|event| vec![event]),
        1 => (0u32..2).prop_map(|line| vec![
            Event::WriteBack(line),
            Event::StoreFence,
            Event::PersistCommit,
            Event::StoreFence,
        ]),
    ];
    let threads = (0usize..3, piece);
    prop::collection::vec(threads, 1..50).prop_map(|pieces| {
        pieces.into_iter().flat_map(|(thread, events)| events.into_iter().map(move |e| (thread, e))).collect()
    })
}

fn models() -> Vec<Model> {
    let limited = [1, 2, 3].map(|n| Model::Strand { strands: NonZeroU32::new(n) });
    Model::ALL.into_iter().chain(limited).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn levels_agree(execution in execution()) {
        for model in models() {
            let mut path = CriticalPath::new(model);
            let online: Vec<u32> =
                execution.iter().filter_map(|&(thread, event)| path.observe(thread, event)).collect();
            let graph = PersistGraph::new(model, &execution);
            prop_assert_eq!(&online, &graph.levels(), "{:?}", model);
            prop_assert_eq!(path.length(), graph.critical_path());
        }
    }

    /// Weaker models order no more than stronger ones.
    #[test]
    fn models_are_nested(execution in execution()) {
        let graph = |model| PersistGraph::new(model, &execution);
        let (epoch, strand) = (graph(Model::Epoch), graph(Model::Strand { strands: None }));
        for node in 0..epoch.persists().len() {
            prop_assert!(strand.before(node).is_subset(epoch.before(node)));
        }
    }

    /// Every cut is down-closed, and there are as many cuts as an exhaustive search of subsets finds.
    #[test]
    fn cuts_are_the_down_closed_sets(execution in execution().prop_map(|mut e| { e.truncate(16); e })) {
        for model in models() {
            let graph = PersistGraph::new(model, &execution);
            let nodes = graph.persists().len();
            let down_closed = (0u32..1 << nodes).filter(|set| {
                (0..nodes).all(|n| set >> n & 1 == 0 || graph.before(n).iter().all(|m| set >> m & 1 == 1))
            });
            let mut found: Vec<u32> =
                graph.cuts().map(|cut| cut.iter().map(|node| 1u32 << node).sum()).collect();
            found.sort_unstable();
            prop_assert_eq!(found, down_closed.collect::<Vec<_>>());
        }
    }
}
