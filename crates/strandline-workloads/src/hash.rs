//! `hash`: deletes and inserts entries of a chained hash table.

use strandline::Result;
use strandline::collections::{HashTable, Value};
use strandline::transaction::{Abort, Runner, Transaction};

use crate::dictionary::{Dictionary, Toggler, batch, fill};
use crate::{Sizes, Workload, root};

/// The table, with values of type `V`: words, or vectors of them for other value sizes.
pub struct HashWorkload<V> {
    buckets: u64,
    keys: u64,
    operations: u64,
    value: V,
}

/// One thread's handle.
pub struct Table<V> {
    table: HashTable<u64, V>,
    value: V,
}

impl HashWorkload<u64> {
    /// The workload with values of 8 bytes.
    pub fn of_words(sizes: &Sizes) -> Self {
        Self::new(sizes, 0x5742_4e44)
    }
}

impl HashWorkload<Vec<u64>> {
    /// The workload with values of `sizes.value_bytes` bytes, a multiple of 8.
    pub fn of_vectors(sizes: &Sizes) -> Self {
        Self::new(sizes, vec![0x5742_4e44; (sizes.value_bytes / 8) as usize])
    }
}

impl<V: Value + Clone + Send> HashWorkload<V> {
    fn new(sizes: &Sizes, value: V) -> Self {
        Self { buckets: sizes.buckets, keys: sizes.hash_keys, operations: sizes.operations, value }
    }
}

impl<V: Value + Clone + Send> Workload for HashWorkload<V> {
    type Thread = Toggler<Table<V>>;

    fn heap_bytes(&self) -> u64 {
        self.buckets * 8 + self.keys * (32 + 8 * self.value.words()) * 5 / 4
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let table = HashTable::create(runner, root, self.buckets, self.value.words())?;
        let mut table = Table { table, value: self.value.clone() };
        fill(runner, &mut table, self.keys, batch(8 * self.value.words()))
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread> {
        let root = root(runner)?;
        let table = runner.view(|tx| HashTable::open(tx, root))?;
        let table = Table { table, value: self.value.clone() };
        Ok(Toggler::new(table, self.keys, self.operations, seed))
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        runner.view(|tx| HashTable::<u64, V>::open(tx, root)?.check(tx).map(drop))
    }
}

impl<V: Value> Dictionary for Table<V> {
    #[inline]
    fn toggle<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<(), Abort> {
        if self.table.contains_key(tx, key)? {
            self.table.delete(tx, key)?;
        } else {
            self.table.insert(tx, key, &self.value)?;
        }
        Ok(())
    }
}
