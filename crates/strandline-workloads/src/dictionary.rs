//! What `hash`, `rbtree`, `bplustree` and `kvstore` share: a random key is looked up and deleted if it is
//! there, inserted if it is not, so that half of the keys stay present.

use fastrand::Rng;
use strandline::Result;
use strandline::transaction::{Abort, Runner, Transaction};

use crate::Transactions;

/// Seeds the choice of the keys that are present at first.
const FILL_SEED: u64 = 0x5712_a4d1;

/// A structure that maps keys to values.
pub trait Dictionary {
    /// Looks `key` up and deletes it if it is present, else inserts it.
    fn toggle<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<(), Abort>;
}

/// One thread that toggles random keys.
pub struct Toggler<D> {
    dictionary: D,
    keys: u64,
    operations: u64,
    random: Rng,
}

impl<D: Dictionary> Toggler<D> {
    pub(crate) fn new(dictionary: D, keys: u64, operations: u64, seed: u64) -> Self {
        Self { dictionary, keys, operations, random: Rng::with_seed(seed) }
    }
}

impl<D: Dictionary> Transactions for Toggler<D> {
    #[inline]
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { dictionary, keys, operations, random } = self;
        *random = runner.run(|tx| {
            // A transaction that is run again draws the same keys again.
            let mut random = random.clone();
            for _ in 0..*operations {
                dictionary.toggle(tx, random.u64(..*keys))?;
            }
            Ok(random)
        })?;
        Ok(())
    }
}

/// Inserts half of the keys below `keys`, in random order, `batch` in a transaction.
pub fn fill<R: Runner, D: Dictionary>(
    runner: &mut R,
    dictionary: &mut D,
    keys: u64,
    batch: u64,
) -> Result<()> {
    let mut present: Vec<u64> = (0..keys).collect();
    Rng::with_seed(FILL_SEED).shuffle(&mut present);
    present.truncate(keys as usize / 2);
    for keys in present.chunks(batch.max(1) as usize) {
        runner.run(|tx| keys.iter().try_for_each(|&key| dictionary.toggle(tx, key)))?;
    }
    Ok(())
}

/// Insertions in one transaction that fit the smallest log of 4 KB pages in use, for values of this size.
pub fn batch(value_bytes: u64) -> u64 {
    2048 / (32 + value_bytes / 8)
}
