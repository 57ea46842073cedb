//! `hash`: deletes and inserts entries of a chained hash table.

use strandline_core::structures::Value;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};
use strandline_core::{Lock, Result};
use strandline_structures::HashTable;

use crate::dictionary::{Dictionary, Operator, Use, batch, has_own_lines};
use crate::typed::{self, map_by_types};
use crate::{Parameter, Sizes, Workload, WorkloadDescriptor, root};

/// Deletes or inserts random keys of a hash table.
pub static HASH: WorkloadDescriptor = WorkloadDescriptor {
    name: "hash",
    source: "Blurred Persistence, Table I",
    description: "deletes or inserts random keys of a hash table: 500,000 buckets, keys below 1,000,000, half present",
    takes: &[Parameter::ValueWords, Parameter::Operations, Parameter::ReadShare, Parameter::Keys],
    make: |sizes| match sizes.value_bytes {
        8 => Ok(Box::new(HashWorkload::of_words(sizes))),
        _ => Ok(Box::new(HashWorkload::of_vectors(sizes))),
    },
    by_types: Some(typed::create::<Typed>),
    checked: None,
};

/// The table, with values of type `V`: words, or vectors of them for other value sizes.
pub struct HashWorkload<V> {
    buckets: u64,
    usage: Use,
    value: V,
}

/// One thread's transactions on the structure.
pub struct Table<V> {
    table: HashTable<u64, V>,
    value: V,
}

impl HashWorkload<u64> {
    /// Creates the workload with values of 8 bytes.
    pub fn of_words(sizes: &Sizes) -> Self {
        Self::new(sizes, 0x5742_4e44)
    }
}

impl HashWorkload<Vec<u64>> {
    /// Creates the workload with values of `sizes.value_bytes` bytes, a multiple of 8.
    pub fn of_vectors(sizes: &Sizes) -> Self {
        Self::new(sizes, vec![0x5742_4e44; (sizes.value_bytes / 8) as usize])
    }
}

impl<V: Value + Clone + Send + 'static> HashWorkload<V> {
    fn new(sizes: &Sizes, value: V) -> Self {
        Self { buckets: sizes.buckets, usage: Use::of(sizes, sizes.hash_keys), value }
    }
}

impl<V: Value + Clone + Send + 'static> Workload for HashWorkload<V> {
    type Thread = Operator<Table<V>>;

    fn heap_bytes(&self) -> u64 {
        self.buckets * 8 + self.usage.most() * (32 + 8 * self.value.words()) * 5 / 4 + (1 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let table = HashTable::create(runner, root, self.buckets, self.value.words())?;
        let mut table = Table { table, value: self.value.clone() };
        self.usage.fill(runner, &mut table, batch(8 * self.value.words()))
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread> {
        let root = root(runner)?;
        let table = runner.view(|tx| HashTable::open(tx, root))?;
        let table = Table { table, value: self.value.clone() };
        Operator::new(runner, table, self.usage, seed)
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let found = runner.view(|tx| HashTable::<u64, V>::open(tx, root)?.check(tx))?;
        self.usage.check(found)
    }
}

impl<V: Value> Dictionary for Table<V> {
    fn contains<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        self.table.contains_key(tx, key)
    }

    fn insert<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        Ok(self.table.insert(tx, key, &self.value)?.is_none())
    }

    fn remove<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        self.table.delete(tx, key)
    }

    fn declare(&self, key: u64, locks: &mut Vec<Lock>) {
        // A node has two words and its value.
        if has_own_lines(8 * (2 + self.table.value_words())) {
            locks.push(Lock::Line(self.table.bucket_of(key)));
        }
    }

    fn keys<T: Read>(&self, tx: &mut T) -> Result<Vec<u64>, Abort> {
        let mut keys = Vec::new();
        self.table.for_each(tx, |key, _| {
            keys.push(key);
            Ok(())
        })?;
        Ok(keys)
    }
}

map_by_types!(
    HashMap<u64, u64>,
    hash_keys,
    |tx, sizes| strandline::HashMap::with_capacity(tx, sizes.hash_keys / 2),
    |key: u64| key,
    |key: u64| !key
);
