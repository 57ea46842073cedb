//! `sps`: swaps two random entries of an array.

use std::hint::black_box;

use fastrand::Rng;
use strandline::{Control, Persist, Tx, Vector, View};
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Read, Runner};
use strandline_core::{Lock, Result};
use strandline_structures::Array;

use crate::dictionary::only_reads;
use crate::typed::{self, Collection};
use crate::{Parameter, Sizes, Transactions, Workload, WorkloadDescriptor, root};

/// Swaps two random entries of an array.
pub static SPS: WorkloadDescriptor = WorkloadDescriptor {
    name: "sps",
    source: "Blurred Persistence, Table I (from Mnemosyne/NV-Heaps)",
    description: "swaps two random entries of an array of 1,000,000 words",
    takes: &[Parameter::ValueWords, Parameter::Operations, Parameter::ReadShare],
    make: |sizes| Ok(Box::new(SpsWorkload::new(sizes))),
    by_types: Some(typed::create::<Typed>),
    checked: None,
};

/// The array: as many entries as fit its words.
pub struct SpsWorkload {
    entries: u64,
    entry_words: u64,
    operations: u64,
    read_percent: u64,
}

/// One thread that swaps.
pub struct Swapper {
    array: Array<u64>,
    /// The address of the array's first word.
    first: PersistentAddress,
    entries: u64,
    entry_words: u64,
    operations: u64,
    read_percent: u64,
    random: Rng,
    /// The locks of the running transaction.
    locks: Vec<Lock>,
}

impl SpsWorkload {
    /// Creates the workload with these sizes.
    pub fn new(sizes: &Sizes) -> Self {
        let Sizes { array_words, value_bytes, operations, read_percent, .. } = *sizes;
        let entry_words = value_bytes / 8;
        Self { entries: (array_words / entry_words).max(1), entry_words, operations, read_percent }
    }

    fn words(&self) -> u64 {
        self.entries * self.entry_words
    }
}

impl Workload for SpsWorkload {
    type Thread = Swapper;

    fn heap_bytes(&self) -> u64 {
        self.words() * 8
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        Array::<u64>::create(runner, root, self.words(), |index| index / self.entry_words)?;
        Ok(())
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Swapper> {
        let root = root(runner)?;
        let (array, first) = runner.view(|tx| {
            let array = Array::open(tx, root)?;
            Ok((array, array.address(tx, 0)?))
        })?;
        let Self { entries, entry_words, operations, read_percent } = *self;
        let random = Rng::with_seed(seed);
        Ok(Swapper {
            array,
            first,
            entries,
            entry_words,
            operations,
            read_percent,
            random,
            locks: Vec::new(),
        })
    }

    /// Checks that swaps lose no entry, duplicate none and leave all intact.
    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        runner.view(|tx| {
            let array = Array::<u64>::open(tx, root)?;
            let mut words = Vec::with_capacity(array.len() as usize);
            array.for_each(tx, |_, word| {
                words.push(word);
                Ok(())
            })?;
            let mut is_there = vec![false; self.entries as usize];
            for entry in words.chunks(self.entry_words as usize) {
                if entry.iter().all(|&word| word == entry[0])
                    && let Some(is_there) = is_there.get_mut(entry[0] as usize)
                {
                    *is_there = true;
                }
            }
            match is_there.iter().position(|is_there| !is_there) {
                Some(entry) => Err(tx.fail(Error::damaged(format!("the array has lost its entry {entry}")))),
                None => Ok(()),
            }
        })
    }
}

impl Transactions for Swapper {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { array, first, entries, entry_words, operations, read_percent, random, locks } = self;
        let is_reader = only_reads(random, *read_percent);
        // Each attempt draws the same numbers again. Keeping the drawn numbers would store them while the last transaction's fence is being waited
        // for.
        let before = random.clone();
        let draw = |random: &mut Rng| [random.u64(..*entries), random.u64(..*entries)];
        if is_reader {
            *random = runner.view(|tx| {
                let mut random = before.clone();
                for _ in 0..*operations {
                    for entry in draw(&mut random) {
                        for word in 0..*entry_words {
                            black_box(array.get(tx, entry * *entry_words + word)?);
                        }
                    }
                }
                Ok(random)
            })?;
            return Ok(());
        }
        locks.clear();
        if runner.takes_locks() {
            let range = |entry| Lock::Range { at: first.word(entry * *entry_words), bytes: 8 * *entry_words };
            let mut random = before.clone();
            locks.extend((0..*operations).flat_map(|_| draw(&mut random)).map(range));
        }
        *random = runner.run_locked(locks, |tx| {
            let mut random = before.clone();
            for _ in 0..*operations {
                let [one, other] = draw(&mut random);
                array.swap_ranges(tx, one * *entry_words, other * *entry_words, *entry_words)?;
            }
            Ok(random)
        })?;
        Ok(())
    }
}

/// The array with types.
#[derive(Persist)]
struct Typed<'p> {
    array: Vector<'p, u64>,
}

impl Collection for Typed<'static> {
    fn create<'p, C: Control>(tx: &Tx<'p, C>, _: &Sizes) -> Result<Typed<'p>> {
        Ok(Typed { array: Vector::new(tx)? })
    }

    fn initial(sizes: &Sizes) -> Vec<u64> {
        (0..sizes.array_words).collect()
    }

    fn add<'p>(root: &Typed<'p>, tx: &Tx<'p, impl Control>, item: u64) -> Result<()> {
        root.array.push(tx, &item)
    }

    fn look_up<'p>(
        root: &Typed<'p>,
        tx: &View<'p, impl Control>,
        sizes: &Sizes,
        random: &mut Rng,
    ) -> Result<()> {
        for _ in 0..2 {
            black_box(root.array.get(tx, random.u64(..sizes.array_words))?);
        }
        Ok(())
    }

    fn operation<'p>(
        root: &Typed<'p>,
        tx: &Tx<'p, impl Control>,
        sizes: &Sizes,
        random: &mut Rng,
    ) -> Result<()> {
        root.array.swap(tx, random.u64(..sizes.array_words), random.u64(..sizes.array_words))
    }
}
