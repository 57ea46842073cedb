//! The content of torture's pool, and the parent's model of it in standard collections.

use std::collections::{BTreeMap, VecDeque};

use strandline::{Control, HashMap, OrderedMap, Persist, Queue, Result, Tx, Vector, View};

use super::operation::{ACCOUNTS, FIRST_BALANCE, Operation, Step};

/// Distance of two threads' counters in the vector, so that they share no cache line.
const COUNTER_STRIDE: u64 = 8;

/// The root of the pool.
#[derive(Persist)]
pub struct Data<'p> {
    numbers: HashMap<'p, u64, u64>,
    texts: OrderedMap<'p, u64, String>,
    /// One queue for each thread.
    queues: Vector<'p, Queue<'p, u64>>,
    accounts: Vector<'p, u64>,
    /// The number of each thread's last operation.
    counters: Vector<'p, u64>,
}

impl<'p> Data<'p> {
    /// Creates the collections.
    ///
    /// # Errors
    /// Returns an error if the pool is full.
    pub fn new(tx: &Tx<'p, impl Control>, threads: u64) -> Result<Self> {
        let data = Self {
            numbers: HashMap::new(tx)?,
            texts: OrderedMap::new(tx)?,
            queues: Vector::new(tx)?,
            accounts: Vector::new(tx)?,
            counters: Vector::new(tx)?,
        };
        (0..threads).try_for_each(|_| data.queues.push(tx, &Queue::new(tx)?))?;
        data.accounts.extend(tx, (0..ACCOUNTS).map(|_| FIRST_BALANCE))?;
        data.counters.extend(tx, (0..threads * COUNTER_STRIDE).map(|_| 0))?;
        Ok(data)
    }

    /// Returns the number of the last operation of `thread`.
    ///
    /// # Errors
    /// Returns an error if the pool is damaged.
    pub fn counter(&self, tx: &View<'p, impl Control>, thread: u64) -> Result<u64> {
        Ok(self.counters.get(tx, thread * COUNTER_STRIDE)?.unwrap_or(0))
    }

    /// Performs operation `number` of `thread`.
    ///
    /// # Errors
    /// Returns an error if the pool is full or damaged.
    pub fn apply(
        &self,
        tx: &Tx<'p, impl Control>,
        operation: &Operation,
        thread: u64,
        number: u64,
    ) -> Result<()> {
        let queue = self.queues.get(tx, thread)?.expect("each thread has a queue");
        for step in &operation.steps {
            match step {
                Step::Number(key, value) => self.numbers.insert(tx, key, value).map(drop),
                Step::RemoveNumber(key) => self.numbers.remove(tx, key).map(drop),
                Step::Text(key, text) => self.texts.insert(tx, key, text).map(drop),
                Step::RemoveText(key) => self.texts.remove(tx, key).map(drop),
                Step::Push(value) => queue.push(tx, value),
                Step::Pop => queue.pop(tx).map(drop),
                Step::Transfer { from, to, amount } => {
                    let balance = |account| Ok(self.accounts.get(tx, account)?.unwrap_or(0));
                    self.accounts.set(tx, *from, &balance(*from)?.wrapping_sub(*amount))?;
                    self.accounts.set(tx, *to, &balance(*to)?.wrapping_add(*amount)).map(drop)
                }
            }?;
        }
        self.counters.set(tx, thread * COUNTER_STRIDE, &number).map(drop)
    }

    /// Reads all collections and the counters.
    ///
    /// # Errors
    /// Returns an error if the pool is damaged.
    pub fn read_all(&self, tx: &View<'p, impl Control>, threads: u64) -> Result<(Contents, Vec<u64>)> {
        let queues = self.queues.iter(tx)?;
        let contents = Contents {
            numbers: self.numbers.iter(tx).collect::<Result<_>>()?,
            texts: self.texts.iter(tx).collect::<Result<_>>()?,
            queues: queues.map(|queue| queue?.iter(tx)?.collect()).collect::<Result<_>>()?,
            accounts: self.accounts.iter(tx)?.collect::<Result<_>>()?,
        };
        let counters = (0..threads).map(|thread| self.counter(tx, thread)).collect::<Result<_>>()?;
        Ok((contents, counters))
    }
}

/// The content of [`Data`] without the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    pub numbers: BTreeMap<u64, u64>,
    pub texts: BTreeMap<u64, String>,
    pub queues: Vec<VecDeque<u64>>,
    pub accounts: Vec<u64>,
}

impl Contents {
    /// Returns the content of a new pool.
    pub fn new(threads: u64) -> Self {
        Self {
            numbers: BTreeMap::new(),
            texts: BTreeMap::new(),
            queues: vec![VecDeque::new(); threads as usize],
            accounts: vec![FIRST_BALANCE; ACCOUNTS as usize],
        }
    }

    /// Performs an operation of `thread`.
    pub fn apply(&mut self, operation: &Operation, thread: u64) {
        let queue = &mut self.queues[thread as usize];
        for step in &operation.steps {
            match step {
                Step::Number(key, value) => drop(self.numbers.insert(*key, *value)),
                Step::RemoveNumber(key) => drop(self.numbers.remove(key)),
                Step::Text(key, text) => drop(self.texts.insert(*key, text.clone())),
                Step::RemoveText(key) => drop(self.texts.remove(key)),
                Step::Push(value) => queue.push_back(*value),
                Step::Pop => drop(queue.pop_front()),
                Step::Transfer { from, to, amount } => {
                    let (from, to) = (*from as usize, *to as usize);
                    self.accounts[from] = self.accounts[from].wrapping_sub(*amount);
                    self.accounts[to] = self.accounts[to].wrapping_add(*amount);
                }
            }
        }
    }

    /// Returns a line for each difference in `found`.
    pub fn differences(&self, found: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        maps("numbers", &self.numbers, &found.numbers, &mut lines);
        maps("texts", &self.texts, &found.texts, &mut lines);
        let numbered = |queues: &[VecDeque<u64>]| (0..).zip(queues.to_vec()).collect::<BTreeMap<u64, _>>();
        maps("queues", &numbered(&self.queues), &numbered(&found.queues), &mut lines);
        let numbered = |accounts: &[u64]| (0..).zip(accounts.to_vec()).collect::<BTreeMap<u64, _>>();
        maps("accounts", &numbered(&self.accounts), &numbered(&found.accounts), &mut lines);
        lines
    }
}

/// Returns the differences between two maps.
fn maps<V: PartialEq + std::fmt::Debug>(
    name: &str,
    expected: &BTreeMap<u64, V>,
    found: &BTreeMap<u64, V>,
    lines: &mut Vec<String>,
) {
    let keys: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    for key in keys {
        let (should, is) = (expected.get(key), found.get(key));
        if should != is {
            lines.push(format!("TORN: {name} at {key} should be {should:?} and is {is:?}"));
        }
    }
}
