//! The core workloads of YCSB: Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010.
//!
//! A row is a key and one value. The popularity of a key does not depend on its place in the order, because `key` spreads the keys.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use crate::engines::Engine;
use crate::{Arguments, Measured, key};

/// The constant of YCSB.
const EXPONENT: f64 = 0.99;
/// The largest number of rows that a scan reads.
const LONGEST_SCAN: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    /// A read of a recently inserted key
    ReadLatest,
    Update,
    Insert,
    Scan,
    /// A read and then an update of the same key, each in a transaction, as YCSB does it
    Modify,
}

/// A share of one operation, and the rest of another.
pub struct Workload {
    pub name: &'static str,
    most: (f64, Operation),
    rest: Operation,
}

const fn workload(name: &'static str, share: f64, most: Operation, rest: Operation) -> Workload {
    Workload { name, most: (share, most), rest }
}

/// The workloads A to F of YCSB.
pub const WORKLOADS: [Workload; 6] = [
    workload("ycsb-a", 0.5, Operation::Read, Operation::Update),
    workload("ycsb-b", 0.95, Operation::Read, Operation::Update),
    workload("ycsb-c", 1.0, Operation::Read, Operation::Read),
    workload("ycsb-d", 0.95, Operation::ReadLatest, Operation::Insert),
    workload("ycsb-e", 0.95, Operation::Scan, Operation::Insert),
    workload("ycsb-f", 0.5, Operation::Read, Operation::Modify),
];

impl Workload {
    /// Measures a workload. `inserted` counts the engine's keys. Returns `None` if the engine has no order.
    pub fn measure(
        &self,
        engine: &dyn Engine,
        threads: usize,
        inserted: &AtomicU64,
        arguments: &Arguments,
    ) -> Option<Measured> {
        if self.most.1 == Operation::Scan {
            engine.worker().range(0, 1)?;
        }
        let zipf = Zipf::new(arguments.keys as f64, EXPONENT).expect("an exponent that is possible");
        let worker = || -> crate::Operation<'_> {
            let mut random = SmallRng::seed_from_u64(crate::random().u64(..));
            let mut value = vec![0; arguments.value_bytes];
            let mut worker = engine.worker();
            Box::new(move || {
                let operation = if random.random_bool(self.most.0) { self.most.1 } else { self.rest };
                // From 1 to the number of loaded keys. Small numbers are the most frequent.
                let rank = zipf.sample(&mut random) as u64;
                let popular = key(rank - 1);
                let get = |worker: &mut dyn crate::engines::Worker| {
                    let length = worker.get(popular);
                    assert_eq!(length, Some(arguments.value_bytes), "a key is missing");
                };
                match operation {
                    Operation::Read => get(&mut *worker),
                    Operation::ReadLatest => {
                        // Another thread may not have finished inserting it.
                        worker.get(key(inserted.load(Ordering::Relaxed) - rank));
                    }
                    Operation::Scan => {
                        worker.range(popular, random.random_range(1..=LONGEST_SCAN));
                    }
                    Operation::Update | Operation::Insert | Operation::Modify => {
                        if operation == Operation::Modify {
                            get(&mut *worker);
                        }
                        random.fill(&mut value[..]);
                        let is_new = operation == Operation::Insert;
                        let to = if is_new { key(inserted.fetch_add(1, Ordering::Relaxed)) } else { popular };
                        worker.put(to, &value);
                    }
                }
                1
            })
        };
        Some(crate::measure(threads, arguments.seconds, worker, None))
    }
}
