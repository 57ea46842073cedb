//! Common code of the workloads on maps, sets and graphs: mixes of insertions, searches and deletions of random keys, whatever the structure.

use std::hint::black_box;

use fastrand::Rng;
use strandline_core::error::Error;
use strandline_core::memory::LINE_BYTES;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};
use strandline_core::{Lock, Result};

use crate::keys::Draw;
use crate::{Keys, Sizes, Transactions};

/// The seed for choosing the initial keys.
const FILL_SEED: u64 = 0x5712_a4d1;

/// The operations of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// Looks a random key up, and deletes it if it is there or inserts it if not, so that half of the keys stay present (Blurred Persistence, Table
    /// I; ATOM, section V).
    #[default]
    Toggle,
    /// Inserts a random key, searches a random element, and deletes a random element, so that the number of elements stays constant (WrAP, section
    /// 4.2: 100).
    InsertFindDelete {
        /// The initial number of elements.
        elements: u64,
    },
}

/// How a workload uses its keys.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Keys are below this number.
    pub keys: u64,
    /// The number of operations that a transaction has.
    pub operations: u64,
    /// The mix of operations.
    pub mix: Mix,
    /// How threads choose keys.
    pub choice: Keys,
    /// The number of transactions in 100 that only look keys up, under [`Mix::Toggle`].
    pub read_percent: u64,
}

/// Returns whether the next transaction only reads, with a probability of `percent` percent.
pub fn only_reads(random: &mut Rng, percent: u64) -> bool {
    // Draws nothing if all transactions are alike.
    percent >= 100 || percent > 0 && random.u64(..100) < percent
}

/// A structure that holds keys, with values or without.
pub trait Dictionary {
    /// Returns whether `key` is there.
    fn contains<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort>;

    /// Inserts `key`. Returns whether it was absent.
    fn insert<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort>;

    /// Removes `key`. Returns whether it was there.
    fn remove<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort>;

    /// Adds the locks for an operation on `key`, for a program that [trusts](Runner::trusts_locks) its locks. Adds none, for any key, if the whole
    /// structure has one lock.
    fn declare(&self, _key: u64, _locks: &mut Vec<Lock>) {}

    /// Returns all keys.
    fn keys<T: Read>(&self, tx: &mut T) -> Result<Vec<u64>, Abort>;

    /// Looks `key` up, and deletes it if it is present, or inserts it if not.
    fn toggle<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<(), Abort> {
        let is_done = if self.contains(tx, key)? { self.remove(tx, key)? } else { self.insert(tx, key)? };
        if is_done { Ok(()) } else { Err(tx.fail(Error::damaged(format!("key {key} comes and goes")))) }
    }
}

/// One thread that works on random keys.
pub struct Operator<D> {
    dictionary: D,
    usage: Use,
    draw: Draw,
    random: Rng,
    /// Under [`Mix::InsertFindDelete`], the elements that this thread knows to be there.
    elements: Vec<u64>,
    planned: Vec<Planned>,
    /// The keys and the locks of the next transaction.
    keys: Vec<u64>,
    locks: Vec<Lock>,
}

/// Returns whether a declared lock can guard a block of so many bytes. Blocks of the heap that are smaller than a line share lines with others, and
/// hardware undoes whole lines.
pub fn has_own_lines(bytes: u64) -> bool {
    bytes >= LINE_BYTES
}

/// Runs a transaction under the locks, if there are any.
fn run_under<R: Runner, T>(
    runner: &mut R,
    locks: &[Lock],
    body: impl FnMut(&mut R::Tx<'_>) -> Result<T, Abort>,
) -> Result<T> {
    if locks.is_empty() { runner.run(body) } else { runner.run_locked(locks, body) }
}

/// An operation of [`Mix::InsertFindDelete`].
struct Planned {
    insert: u64,
    find: u64,
    delete: u64,
    /// True if the inserted key has stayed.
    has_stayed: bool,
}

impl<D: Dictionary> Operator<D> {
    /// Creates a thread's part on a filled dictionary.
    pub(crate) fn new<R: Runner>(runner: &mut R, dictionary: D, usage: Use, seed: u64) -> Result<Self> {
        let elements = match usage.mix {
            Mix::Toggle => Vec::new(),
            Mix::InsertFindDelete { .. } => runner.view(|tx| dictionary.keys(tx))?,
        };
        Ok(Self {
            dictionary,
            usage,
            draw: Draw::new(usage.choice, usage.keys, seed),
            random: Rng::with_seed(seed),
            elements,
            planned: Vec::new(),
            keys: Vec::new(),
            locks: Vec::new(),
        })
    }

    /// Declares the locks of these keys, if the runner uses declared locks.
    fn declare<R: Runner>(
        runner: &R,
        dictionary: &D,
        keys: impl Iterator<Item = u64>,
        locks: &mut Vec<Lock>,
    ) {
        locks.clear();
        if runner.trusts_locks() {
            keys.for_each(|key| dictionary.declare(key, locks));
        }
    }

    fn toggle<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { dictionary, usage, draw, random, keys, locks, .. } = self;
        let only_reads = only_reads(random, usage.read_percent);
        keys.clear();
        keys.extend((0..usage.operations).map(|_| draw.key(random)));
        Self::declare(runner, dictionary, keys.iter().copied(), locks);
        if only_reads {
            let look_up = |tx: &mut R::Tx<'_>| {
                keys.iter()
                    .try_for_each(|&key| dictionary.contains(tx, key).map(|found| _ = black_box(found)))
            };
            return if locks.is_empty() { runner.view(look_up) } else { runner.run_locked(locks, look_up) };
        }
        run_under(runner, locks, |tx| keys.iter().try_for_each(|&key| dictionary.toggle(tx, key)))
    }

    /// Compensates every insertion by a deletion: if another thread has deleted the chosen element, the inserted key is deleted instead. So the
    /// number of elements stays exactly the same.
    fn insert_find_delete<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { dictionary, usage, draw, random, elements, planned, locks, .. } = self;
        planned.clear();
        for _ in 0..usage.operations {
            let insert = draw.key(random);
            let (find, delete) = match elements.len() {
                0 => (insert, insert),
                some => {
                    let find = elements[random.usize(..some)];
                    (find, std::mem::replace(&mut elements[random.usize(..some)], insert))
                }
            };
            planned.push(Planned { insert, find, delete, has_stayed: true });
        }
        let keys = planned.iter().flat_map(|operation| [operation.insert, operation.find, operation.delete]);
        Self::declare(runner, dictionary, keys, locks);
        run_under(runner, locks, |tx| {
            for operation in planned.iter_mut() {
                let is_new = dictionary.insert(tx, operation.insert)?;
                dictionary.contains(tx, operation.find)?;
                operation.has_stayed = true;
                if is_new && !dictionary.remove(tx, operation.delete)? {
                    dictionary.remove(tx, operation.insert)?;
                    operation.has_stayed = false;
                }
                if !is_new {
                    operation.has_stayed = false;
                }
            }
            Ok(())
        })?;
        for operation in planned.iter().filter(|operation| !operation.has_stayed) {
            if let Some(at) = elements.iter().position(|&element| element == operation.insert) {
                elements.swap_remove(at);
            }
        }
        Ok(())
    }
}

impl<D: Dictionary> Transactions for Operator<D> {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        match self.usage.mix {
            Mix::Toggle => self.toggle(runner),
            Mix::InsertFindDelete { .. } => self.insert_find_delete(runner),
        }
    }
}

impl Use {
    /// Returns the use of the keys below `keys`.
    pub fn of(sizes: &Sizes, keys: u64) -> Self {
        let Sizes { operations, mix, keys: choice, read_percent, .. } = *sizes;
        Self { keys, operations, mix, choice, read_percent }
    }

    /// Returns the initial keys, in the order in which they are inserted.
    pub fn initial(&self) -> Vec<u64> {
        let mut random = Rng::with_seed(FILL_SEED);
        let count = match self.mix {
            Mix::Toggle => self.keys / 2,
            Mix::InsertFindDelete { elements } => elements.min(self.keys),
        };
        let mut all: Vec<u64> = (0..self.keys).collect();
        random.shuffle(&mut all);
        all.truncate(count as usize);
        all
    }

    /// Returns the maximum number of keys that are present.
    pub fn most(&self) -> u64 {
        match self.mix {
            Mix::Toggle => self.keys,
            Mix::InsertFindDelete { elements } => (elements + self.operations).min(self.keys),
        }
    }

    /// Inserts the initial keys, `batch` in a transaction.
    pub fn fill<R: Runner, D: Dictionary>(
        &self,
        runner: &mut R,
        dictionary: &mut D,
        batch: u64,
    ) -> Result<()> {
        for keys in self.initial().chunks(batch.max(1) as usize) {
            runner.run(|tx| keys.iter().try_for_each(|&key| dictionary.toggle(tx, key)))?;
        }
        Ok(())
    }

    /// Checks the number of keys that were found.
    pub fn check(&self, found: u64) -> Result<()> {
        match self.mix {
            Mix::InsertFindDelete { elements } if found != elements.min(self.keys) => {
                Err(Error::damaged(format!("{found} elements are there, not {elements}")))
            }
            _ => Ok(()),
        }
    }
}

/// Returns how many insertions in one transaction fit the smallest log of 4 KB pages in use, for values of this size.
pub const fn batch(value_bytes: u64) -> u64 {
    2048 / (32 + value_bytes / 8)
}
