//! `hot-counter`: all threads add one to the same word.

use strandline_core::error::Error;
use strandline_core::transaction::{Read, Runner, Transaction};
use strandline_core::{Lock, Result};

use crate::{Transactions, Workload, WorkloadDescriptor, root};

/// Adds one to a word that all threads share.
pub static HOT_COUNTER: WorkloadDescriptor = WorkloadDescriptor {
    name: "hot-counter",
    source: "Strandline",
    description: "adds one to a word that all threads share",
    takes: &[],
    make: |_| Ok(Box::new(HotCounter)),
    by_types: None,
    checked: None,
};

/// The word, which is the root.
pub struct HotCounter;

/// One thread that counts.
pub struct Counter {
    locks: [Lock; 1],
}

impl Workload for HotCounter {
    type Thread = Counter;

    fn heap_bytes(&self) -> u64 {
        0
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        runner.run(|tx| tx.write(tx.root(0), 1))
    }

    fn thread<R: Runner>(&self, runner: &mut R, _: u64) -> Result<Counter> {
        Ok(Counter { locks: [Lock::Range { at: root(runner)?, bytes: 8 }] })
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        match runner.view(|tx| tx.read(tx.root(0)))? {
            0 => Err(Error::damaged("the counter has lost all that was counted")),
            _ => Ok(()),
        }
    }
}

impl Transactions for Counter {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        runner.run_locked(&self.locks, |tx| {
            let counter = tx.root(0);
            let count = tx.read(counter)?;
            tx.write(counter, count + 1)
        })
    }
}
