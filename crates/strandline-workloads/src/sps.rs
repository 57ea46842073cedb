//! `sps`: swaps two random entries of an array of words.

use fastrand::Rng;
use strandline::Result;
use strandline::collections::Array;
use strandline::error::Error;
use strandline::transaction::{Read, Runner};

use crate::{Sizes, Transactions, Workload, root};

/// The array.
pub struct SpsWorkload {
    words: u64,
    operations: u64,
}

/// One thread that swaps.
pub struct Swapper {
    array: Array<u64>,
    words: u64,
    operations: u64,
    random: Rng,
}

impl SpsWorkload {
    /// The workload with these sizes.
    pub fn new(sizes: &Sizes) -> Self {
        Self { words: sizes.array_words, operations: sizes.operations }
    }
}

impl Workload for SpsWorkload {
    type Thread = Swapper;

    fn heap_bytes(&self) -> u64 {
        self.words * 8
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        Array::<u64>::create(runner, root, self.words, |index| index)?;
        Ok(())
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Swapper> {
        let root = root(runner)?;
        let array = runner.view(|tx| Array::open(tx, root))?;
        let (words, operations) = (self.words, self.operations);
        Ok(Swapper { array, words, operations, random: Rng::with_seed(seed) })
    }

    /// Swaps lose no entry and double none.
    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        runner.view(|tx| {
            let array = Array::<u64>::open(tx, root)?;
            let mut is_there = vec![false; array.len() as usize];
            array.for_each(tx, |_, entry| {
                is_there.get_mut(entry as usize).into_iter().for_each(|is_there| *is_there = true);
                Ok(())
            })?;
            match is_there.iter().position(|is_there| !is_there) {
                Some(entry) => Err(tx.fail(Error::Damaged(format!("the array has lost its entry {entry}")))),
                None => Ok(()),
            }
        })
    }
}

impl Transactions for Swapper {
    #[inline]
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { array, words, operations, random } = self;
        *random = runner.run(|tx| {
            // A transaction that is run again draws the same entries again.
            let mut random = random.clone();
            for _ in 0..*operations {
                let (one, other) = (random.u64(..*words), random.u64(..*words));
                array.swap(tx, one, other)?;
            }
            Ok(random)
        })?;
        Ok(())
    }
}
