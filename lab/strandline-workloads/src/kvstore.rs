//! `kvstore`: deletes and inserts pairs of a key-value store with keys of 16 bytes, in place of Tokyo Cabinet.

use strandline_core::structures::KeyValueStore;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};
use strandline_core::{Lock, Result};

use crate::dictionary::{Dictionary, Operator, Use, batch, has_own_lines};
use crate::typed::{self, map_by_types};
use crate::{Parameter, Sizes, Workload, WorkloadDescriptor, root};

/// Deletes or inserts random keys of a key-value store.
pub static KVSTORE: WorkloadDescriptor = WorkloadDescriptor {
    name: "kvstore",
    source: "Blurred Persistence, Table I (there Tokyo Cabinet)",
    description: "deletes or inserts random 16-byte keys of a key-value store: sizes as hash",
    takes: &[Parameter::ValueBytes, Parameter::Operations, Parameter::ReadShare, Parameter::Keys],
    make: |sizes| Ok(Box::new(KvStoreWorkload::new(sizes))),
    by_types: Some(typed::create::<Typed>),
    checked: None,
};

/// Bytes in a key.
const KEY_BYTES: usize = 16;

/// The store.
pub struct KvStoreWorkload {
    buckets: u64,
    usage: Use,
    value_bytes: u64,
}

/// One thread's transactions on the structure.
pub struct Store {
    store: KeyValueStore,
    value: Vec<u8>,
}

impl KvStoreWorkload {
    /// Creates the workload with these sizes.
    pub fn new(sizes: &Sizes) -> Self {
        let Sizes { buckets, hash_keys, value_bytes, .. } = *sizes;
        Self { buckets, usage: Use::of(sizes, hash_keys), value_bytes }
    }

    fn store(&self, store: KeyValueStore) -> Store {
        Store { store, value: vec![b'v'; self.value_bytes as usize] }
    }
}

impl Workload for KvStoreWorkload {
    type Thread = Operator<Store>;

    fn heap_bytes(&self) -> u64 {
        self.buckets * 8 + self.usage.most() * (64 + self.value_bytes.next_multiple_of(8)) * 5 / 4 + (1 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let mut store = self.store(KeyValueStore::create(runner, root, self.buckets)?);
        self.usage.fill(runner, &mut store, batch(self.value_bytes))
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread> {
        let root = root(runner)?;
        let store = self.store(runner.view(|tx| KeyValueStore::open(tx, root))?);
        Operator::new(runner, store, self.usage, seed)
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let found = runner.view(|tx| KeyValueStore::open(tx, root)?.check(tx))?;
        self.usage.check(found)
    }
}

/// Returns the key as 16 hexadecimal digits.
fn digits(key: u64) -> [u8; KEY_BYTES] {
    std::array::from_fn(|i| b"0123456789abcdef"[(key >> (60 - 4 * i) & 15) as usize])
}

/// Parses a key of 16 hexadecimal digits.
fn number(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

impl Dictionary for Store {
    fn contains<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        self.store.contains_key(tx, &digits(key))
    }

    fn insert<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        Ok(!self.store.insert(tx, &digits(key), &self.value)?)
    }

    fn remove<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        self.store.remove(tx, &digits(key))
    }

    fn declare(&self, key: u64, locks: &mut Vec<Lock>) {
        // A node has three words, key and value.
        if has_own_lines((24 + KEY_BYTES + self.value.len()) as u64) {
            locks.push(Lock::Line(self.store.bucket_of(&digits(key))));
        }
    }

    fn keys<T: Read>(&self, tx: &mut T) -> Result<Vec<u64>, Abort> {
        let mut keys = Vec::new();
        self.store.for_each(tx, |key, _| {
            keys.extend(number(key));
            Ok(())
        })?;
        Ok(keys)
    }
}

map_by_types!(
    HashMap<[u8; KEY_BYTES], [u8; 8]>,
    hash_keys,
    |tx, sizes| strandline::HashMap::with_capacity(tx, sizes.hash_keys / 2),
    digits,
    |_| [b'v'; 8]
);
