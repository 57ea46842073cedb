//! The contents of torture's pool.

use strandline_core::Result;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, AnyRunner, Read, Runner, Transaction};
use strandline_structures::Array;
use strandline_structures::model::Contents;

use super::operation::{Operation, STRUCTURES};

/// The distance of two threads' counters in words; they share no cache line.
const COUNTER_STRIDE: u64 = 8;

/// Handles of the counters, which are stored under the root after the structures' roots.
#[derive(Clone, Copy)]
pub struct Data {
    counters: Array<u64>,
}

/// The pool's contents, as standard collections.
#[derive(Clone, Debug)]
pub struct Found {
    /// The contents of the structures, by number.
    pub structures: Vec<Contents>,
    /// The number of each thread's last operation.
    pub counters: Vec<u64>,
}

fn root(runner: &mut impl Runner, number: usize) -> Result<PersistentAddress> {
    runner.view(|tx| Ok(tx.root(number as u64)))
}

impl Data {
    /// Creates the empty structures and the counters.
    ///
    /// # Errors
    /// As for [`Runner::run`].
    pub fn create(runner: &mut impl Runner, threads: u64) -> Result<Self> {
        for (number, structure) in STRUCTURES.iter().enumerate() {
            let root = root(runner, number)?;
            structure.create(&mut AnyRunner::new(&mut *runner), root)?;
        }
        let root = root(runner, STRUCTURES.len())?;
        Ok(Self { counters: Array::create(runner, root, threads * COUNTER_STRIDE, |_| 0)? })
    }

    /// Opens the counters. Each operation opens the structures itself.
    ///
    /// # Errors
    /// Returns an error if they are not there.
    pub fn open(runner: &mut impl Runner) -> Result<Self> {
        runner.view(|tx| {
            let root = tx.root(STRUCTURES.len() as u64);
            Ok(Self { counters: Array::open(tx, root)? })
        })
    }

    /// Returns the number of the last operation of `thread`.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn counter(&self, tx: &mut impl Read, thread: u64) -> Result<u64, Abort> {
        self.counters.get(tx, thread * COUNTER_STRIDE)
    }

    /// Executes operation `number` of `thread`.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn apply(
        &self,
        tx: &mut impl Transaction,
        operation: &Operation,
        thread: u64,
        number: u64,
    ) -> Result<(), Abort> {
        for (structure, step) in &operation.steps {
            let root = tx.root(*structure as u64);
            STRUCTURES[*structure].apply(tx, root, step)?;
        }
        self.counters.set(tx, thread * COUNTER_STRIDE, number)
    }

    /// Reads everything, and lets every structure check itself.
    ///
    /// # Errors
    /// Returns an error if a structure is damaged.
    pub fn read_all(&self, tx: &mut impl Transaction, threads: u64) -> Result<Found, Abort> {
        let mut structures = Vec::new();
        for (number, structure) in STRUCTURES.iter().enumerate() {
            let root = tx.root(number as u64);
            structures.push(structure.contents(tx, root)?);
        }
        let mut counters = Vec::new();
        for thread in 0..threads {
            counters.push(self.counter(tx, thread)?);
        }
        Ok(Found { structures, counters })
    }
}
