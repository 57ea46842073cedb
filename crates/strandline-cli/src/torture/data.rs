//! What torture keeps in its pool.

use std::collections::BTreeMap;

use strandline_core::Result;
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{BPlusTree, KeyValueStore, NodeShape};
use strandline_core::transaction::{Abort, Read, Runner, Transaction};
use strandline_structures::{Array, HashTable, RedBlackTree};

use super::operation::{ACCOUNTS, BALANCE, Change, Operation, STRUCTURES, Transfer, key_bytes, value_bytes};

/// Words between two threads' counters: they share no cache line.
const COUNTER_STRIDE: u64 = 8;
/// Names of the structures, by number.
pub const NAMES: [&str; STRUCTURES] = ["hash table", "red-black tree", "B+ tree", "key-value store"];

/// Handles on the structures.
#[derive(Clone, Copy)]
pub struct Data {
    hash: HashTable<u64, u64>,
    rbtree: RedBlackTree<u64, u64>,
    bplustree: BPlusTree<u64, u64>,
    store: KeyValueStore,
    bank: Array<u64>,
    counters: Array<u64>,
}

/// Everything in the structures, as standard collections.
#[derive(Debug)]
pub struct Contents {
    /// Keys and values of the structures, by number.
    pub maps: [BTreeMap<u64, u64>; STRUCTURES],
    /// The accounts.
    pub balances: Vec<u64>,
    /// The last operation of each thread.
    pub counters: Vec<u64>,
}

fn roots<R: Runner>(runner: &mut R) -> Result<[PersistentAddress; 6]> {
    runner.view(|tx| Ok(std::array::from_fn(|index| tx.root(index as u64))))
}

impl Data {
    /// Creates the structures, empty.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub fn create<R: Runner>(runner: &mut R, threads: u64) -> Result<Self> {
        let roots = roots(runner)?;
        Ok(Self {
            // Few buckets, so that chains are long.
            hash: HashTable::create(runner, roots[0], 61, 1)?,
            rbtree: runner.run(|tx| RedBlackTree::create(tx, roots[1]))?,
            bplustree: runner.run(|tx| BPlusTree::create(tx, roots[2], NodeShape::of_pairs(8)))?,
            store: KeyValueStore::create(runner, roots[3], 61)?,
            bank: Array::create(runner, roots[4], ACCOUNTS, |_| BALANCE)?,
            counters: Array::create(runner, roots[5], threads * COUNTER_STRIDE, |_| 0)?,
        })
    }

    /// Opens the structures.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn open<R: Runner>(runner: &mut R) -> Result<Self> {
        let roots = roots(runner)?;
        runner.view(|tx| {
            Ok(Self {
                hash: HashTable::open(tx, roots[0])?,
                rbtree: RedBlackTree::open(tx, roots[1])?,
                bplustree: BPlusTree::open(tx, roots[2])?,
                store: KeyValueStore::open(tx, roots[3])?,
                bank: Array::open(tx, roots[4])?,
                counters: Array::open(tx, roots[5])?,
            })
        })
    }

    /// The last operation of `thread`.
    ///
    /// # Errors
    /// A conflict.
    pub fn counter(&self, tx: &mut impl Read, thread: u64) -> Result<u64, Abort> {
        self.counters.get(tx, thread * COUNTER_STRIDE)
    }

    /// Does operation `number` of `thread`.
    ///
    /// # Errors
    /// A conflict.
    pub fn apply(
        &self,
        tx: &mut impl Transaction,
        operation: &Operation,
        thread: u64,
        number: u64,
    ) -> Result<(), Abort> {
        for &Change { structure, key, value } in &operation.changes {
            match (structure, value) {
                (0, Some(value)) => drop(self.hash.insert(tx, key, &value)?),
                (0, None) => drop(self.hash.remove(tx, key)?),
                (1, Some(value)) => drop(self.rbtree.insert(tx, key, value)?),
                (1, None) => drop(self.rbtree.remove(tx, key)?),
                (2, Some(value)) => drop(self.bplustree.insert(tx, key, value)?),
                (2, None) => drop(self.bplustree.remove(tx, key)?),
                (_, Some(value)) => drop(self.store.insert(tx, &key_bytes(key), &value_bytes(value))?),
                (_, None) => drop(self.store.remove(tx, &key_bytes(key))?),
            }
        }
        if let Some(Transfer { from, to, amount }) = operation.transfer {
            let (gives, takes) = (self.bank.get(tx, from)?, self.bank.get(tx, to)?);
            self.bank.set(tx, from, gives.wrapping_sub(amount))?;
            self.bank.set(tx, to, takes.wrapping_add(amount))?;
        }
        self.counters.set(tx, thread * COUNTER_STRIDE, number)
    }

    /// Reads everything, and lets every structure check itself.
    ///
    /// # Errors
    /// A structure is damaged.
    pub fn contents(&self, tx: &mut impl Read, threads: u64) -> Result<Contents, Abort> {
        let [mut hash, mut rbtree, mut bplustree, mut store]: [BTreeMap<u64, u64>; STRUCTURES] =
            Default::default();
        self.hash.for_each(tx, |key, value| {
            hash.insert(key, value);
            Ok(())
        })?;
        self.rbtree.for_each(tx, |key, value| {
            rbtree.insert(key, value);
            Ok(())
        })?;
        self.bplustree.for_each(tx, |key, value| {
            bplustree.insert(key, value);
            Ok(())
        })?;
        let mut mangled = Vec::new();
        self.store.for_each(tx, |key, value| {
            match decode(key, value) {
                Some((key, value)) => drop(store.insert(key, value)),
                None => mangled.push(String::from_utf8_lossy(key).into_owned()),
            }
            Ok(())
        })?;
        if let Some(key) = mangled.first() {
            return Err(tx.fail(Error::Damaged(format!("the key-value store has a mangled pair at {key:?}"))));
        }
        let maps = [hash, rbtree, bplustree, store];
        let counts =
            [self.hash.check(tx)?, self.rbtree.check(tx)?, self.bplustree.check(tx)?, self.store.check(tx)?];
        for (structure, map) in maps.iter().enumerate() {
            if counts[structure] != map.len() as u64 {
                let what = format!(
                    "the {} counts {} keys and shows {}",
                    NAMES[structure],
                    counts[structure],
                    map.len()
                );
                return Err(tx.fail(Error::Damaged(what)));
            }
        }
        let mut balances = Vec::new();
        for account in 0..ACCOUNTS {
            balances.push(self.bank.get(tx, account)?);
        }
        let mut counters = Vec::new();
        for thread in 0..threads {
            counters.push(self.counter(tx, thread)?);
        }
        Ok(Contents { maps, balances, counters })
    }
}

/// Key and value of a pair of the key-value store, if it is one that torture writes.
fn decode(key: &[u8], value: &[u8]) -> Option<(u64, u64)> {
    let number = std::str::from_utf8(key).ok()?.strip_prefix("key ")?.parse().ok()?;
    let first = u64::from_le_bytes(value.get(..8)?.try_into().ok()?);
    (value == value_bytes(first)).then_some((number, first))
}
