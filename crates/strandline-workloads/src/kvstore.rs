//! `kvstore`: deletes and inserts pairs of a key-value store, keys of 16 bytes (Tokyo Cabinet's place).

use strandline::Result;
use strandline::collections::KeyValueStore;
use strandline::transaction::{Abort, Runner, Transaction};

use crate::dictionary::{Dictionary, Toggler, batch, fill};
use crate::{Sizes, Workload, root};

/// Bytes in a key.
const KEY_BYTES: usize = 16;

/// The store.
pub struct KvStoreWorkload {
    buckets: u64,
    keys: u64,
    operations: u64,
    value_bytes: u64,
}

/// One thread's handle.
pub struct Store {
    store: KeyValueStore,
    value: Vec<u8>,
}

impl KvStoreWorkload {
    /// The workload with these sizes.
    pub fn new(sizes: &Sizes) -> Self {
        let Sizes { buckets, hash_keys: keys, operations, value_bytes, .. } = *sizes;
        Self { buckets, keys, operations, value_bytes }
    }

    fn store(&self, store: KeyValueStore) -> Store {
        Store { store, value: vec![b'v'; self.value_bytes as usize] }
    }
}

impl Workload for KvStoreWorkload {
    type Thread = Toggler<Store>;

    fn heap_bytes(&self) -> u64 {
        self.buckets * 8 + self.keys * (64 + self.value_bytes.next_multiple_of(8)) * 5 / 4
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let mut store = self.store(KeyValueStore::create(runner, root, self.buckets)?);
        fill(runner, &mut store, self.keys, batch(self.value_bytes))
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread> {
        let root = root(runner)?;
        let store = self.store(runner.view(|tx| KeyValueStore::open(tx, root))?);
        Ok(Toggler::new(store, self.keys, self.operations, seed))
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        runner.view(|tx| KeyValueStore::open(tx, root)?.check(tx).map(drop))
    }
}

/// The key as 16 hexadecimal digits.
#[inline]
fn digits(key: u64) -> [u8; KEY_BYTES] {
    std::array::from_fn(|i| b"0123456789abcdef"[(key >> (60 - 4 * i) & 15) as usize])
}

impl Dictionary for Store {
    #[inline]
    fn toggle<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<(), Abort> {
        let key = digits(key);
        if self.store.contains_key(tx, &key)? {
            self.store.remove(tx, &key)?;
        } else {
            self.store.insert(tx, &key, &self.value)?;
        }
        Ok(())
    }
}
