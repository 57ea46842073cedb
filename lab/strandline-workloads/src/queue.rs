//! `queue`: inserts and deletes entries of a bounded queue, copied within the transaction (ATOM, Table II, from
//! Pelley's copy-while-locked queue).

use fastrand::Rng;
use strandline::{Control, Persist, Tx};
use strandline_core::Result;
use strandline_core::error::Error;
use strandline_core::transaction::{Read, Runner};
use strandline_structures::Queue;

use crate::dictionary::batch;
use crate::typed::{self, Collection};
use crate::{Parameter, Sizes, Transactions, Workload, WorkloadDescriptor, root};

/// Inserts or deletes entries of a bounded queue (copy while locked).
pub static QUEUE: WorkloadDescriptor = WorkloadDescriptor {
    name: "queue",
    source: "ATOM, Table II (copy while locked)",
    description: "inserts or deletes entries of a bounded queue: 65,536 entries, half full",
    takes: &[Parameter::ValueWords, Parameter::Operations],
    make: |sizes| Ok(Box::new(QueueWorkload::new(sizes))),
    by_types: Some(typed::create::<Typed>),
    checked: None,
};

/// The queue, which is half full initially.
pub struct QueueWorkload {
    capacity: u64,
    entry_words: u64,
    operations: u64,
}

/// A thread that inserts or deletes at random. If the queue is full it deletes, and if it is empty it inserts.
pub struct Feeder {
    queue: Queue<Vec<u64>>,
    operations: u64,
    entry: Vec<u64>,
    random: Rng,
}

impl QueueWorkload {
    /// Creates the workload with these sizes.
    pub fn new(sizes: &Sizes) -> Self {
        let Sizes { queue_entries: capacity, value_bytes, operations, .. } = *sizes;
        Self { capacity, entry_words: value_bytes / 8, operations }
    }
}

impl Workload for QueueWorkload {
    type Thread = Feeder;

    fn heap_bytes(&self) -> u64 {
        self.capacity * self.entry_words * 8 + (1 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let queue = runner.run(|tx| Queue::<Vec<u64>>::create(tx, root, self.capacity, self.entry_words))?;
        let mut left = self.capacity / 2;
        while left > 0 {
            let now = batch(8 * self.entry_words).clamp(1, left);
            runner.run(|tx| {
                (left - now..left)
                    .try_for_each(|number| queue.push(tx, &vec![number; self.entry_words as usize]).map(drop))
            })?;
            left -= now;
        }
        Ok(())
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Feeder> {
        let root = root(runner)?;
        let queue = runner.view(|tx| Queue::open(tx, root))?;
        let entry = vec![0; self.entry_words as usize];
        Ok(Feeder { queue, operations: self.operations, entry, random: Rng::with_seed(seed) })
    }

    /// Checks that every entry is consistent: all its words are equal.
    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        runner.view(|tx| {
            let queue = Queue::<Vec<u64>>::open(tx, root)?;
            queue.check(tx)?;
            let mut is_whole = true;
            queue.for_each(tx, |entry| {
                is_whole &= entry.iter().all(|&word| word == entry[0]);
                Ok(())
            })?;
            if is_whole {
                return Ok(());
            }
            Err(tx.fail(Error::damaged("the queue has an entry of parts of several")))
        })
    }
}

impl Transactions for Feeder {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { queue, operations, entry, random } = self;
        *random = runner.run(|tx| {
            // A transaction that runs again draws the same numbers.
            let mut random = random.clone();
            for _ in 0..*operations {
                let number = random.u64(..);
                if number % 2 == 0 {
                    entry.fill(number);
                    if !queue.push(tx, entry)? {
                        queue.pop(tx)?;
                    }
                } else if queue.pop(tx)?.is_none() {
                    entry.fill(number);
                    queue.push(tx, entry)?;
                }
            }
            Ok(random)
        })?;
        Ok(())
    }
}

/// The queue with types, which is not bounded.
#[derive(Persist)]
struct Typed<'p> {
    queue: strandline::Queue<'p, u64>,
}

impl Collection for Typed<'static> {
    fn create<'p, C: Control>(tx: &Tx<'p, C>, _: &Sizes) -> Result<Typed<'p>> {
        Ok(Typed { queue: strandline::Queue::new(tx)? })
    }

    fn initial(sizes: &Sizes) -> Vec<u64> {
        (0..sizes.queue_entries / 2).collect()
    }

    fn add<'p>(root: &Typed<'p>, tx: &Tx<'p, impl Control>, item: u64) -> Result<()> {
        root.queue.push(tx, &item)
    }

    fn operation<'p>(root: &Typed<'p>, tx: &Tx<'p, impl Control>, _: &Sizes, random: &mut Rng) -> Result<()> {
        let number = random.u64(..);
        if number.is_multiple_of(2) || root.queue.pop(tx)?.is_none() {
            return root.queue.push(tx, &number);
        }
        Ok(())
    }
}
