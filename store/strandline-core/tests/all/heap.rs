//! The allocator against a model: blocks do not overlap and keep their contents, aborts leave no trace, and
//! freed blocks can be allocated again.

use std::collections::BTreeMap;

use proptest::prelude::*;
use strandline_core::example::TestPool;
use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::scheme::{Schemes, recover};
use strandline_core::{Abort, Concurrency, Error, Runner, Transaction};

const GEOMETRY: Geometry = Geometry { size: 256 << 10, logs: 2, log_bytes: 8192, chunk_bytes: 4096 };

#[derive(Clone, Debug)]
enum Act {
    Alloc(u64),
    Free(prop::sample::Index),
}

fn acts() -> impl Strategy<Value = Vec<(Vec<Act>, bool)>> {
    let bytes = prop_oneof![1..200u64, 200..2000u64, 2000..20_000u64];
    let act =
        prop_oneof![3 => bytes.prop_map(Act::Alloc), 2 => any::<prop::sample::Index>().prop_map(Act::Free)];
    prop::collection::vec((prop::collection::vec(act, 1..6), prop::bool::weighted(0.2)), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn blocks_do_not_overlap_and_aborts_leave_no_trace(
        transactions in acts(),
        single: bool,
        two_arenas: bool,
    ) {
        let mode = if single { Concurrency::SingleWriter } else { Concurrency::Stm };
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        pool.recorder.set_recording(false);
        let mut workers = [pool.worker(mode).unwrap(), pool.worker(mode).unwrap()];
        // For each address, the block's size and the value of its first and last word.
        let mut model: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (number, (acts, abort)) in transactions.into_iter().enumerate() {
            let worker = &mut workers[if two_arenas { number % 2 } else { 0 }];
            let mut next = model.clone();
            let done = worker.run(|tx| {
                next = model.clone();
                for (i, act) in acts.iter().enumerate() {
                    match act {
                        Act::Alloc(bytes) => {
                            let at = tx.alloc(*bytes)?;
                            let value = (number * 10 + i) as u64 + 1;
                            let last = at.word((bytes - 1) / 8);
                            tx.write(at, value)?;
                            tx.write(last, value)?;
                            assert!(at.offset() % 8 == 0 && (*bytes < 64 || at.offset() % 64 == 0));
                            next.insert(at.offset(), (*bytes, value));
                        }
                        Act::Free(which) if !next.is_empty() => {
                            let at = *which.get(&next.keys().copied().collect::<Vec<_>>());
                            tx.free(PersistentAddress::new(at))?;
                            next.remove(&at);
                        }
                        Act::Free(_) => {}
                    }
                }
                if abort { Err(Abort::User) } else { Ok(()) }
            });
            match done {
                Ok(()) => model = next,
                Err(Error::Aborted) => prop_assert!(abort),
                Err(Error::Full { .. }) => {}
                Err(other) => panic!("{other}"),
            }
            let mut end = 0;
            for (&at, &(bytes, _)) in &model {
                prop_assert!(at >= end, "{at:#x} lies in the block before it");
                end = at + bytes;
            }
        }
        drop(workers);
        // The same checks after recovery of the durable pool.
        let pool = TestPool::new(GEOMETRY, Some(pool.recorder.contents()), 0, 1, None);
        recover(&pool.view(), Schemes::default(), |_| ()).unwrap();
        let mut worker = pool.worker(mode).unwrap();
        for (&at, &(bytes, value)) in &model {
            let at = PersistentAddress::new(at);
            let words = worker.view(|tx| {
                use strandline_core::Read;
                Ok((tx.read(at)?, tx.read(at.word((bytes - 1) / 8))?))
            });
            prop_assert_eq!(words.unwrap(), (value, value));
            worker.run(|tx| tx.free(at)).unwrap();
        }
        // Everything is free, so there is room for the largest possible object.
        let chunks = pool.layout.chunk_count;
        worker.run(|tx| tx.alloc(chunks * GEOMETRY.chunk_bytes)).unwrap();
    }
}
