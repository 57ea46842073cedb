//! Maps: hash table, trees, key-value store.

use std::collections::BTreeMap;

use strandline_core::memory::PersistentAddress;
use strandline_core::structures::NodeShape;
use strandline_core::transaction::{AnyRunner, Runner, Transaction};
use strandline_core::{Abort, Error, Result};

use super::{Choices, Contents, Operation, Outcome, Structure, damaged, encoding, refused};
use crate::SortedShape;

/// The value found at a key: nothing, a value, or something that represents no value.
pub(super) type Found = Option<Option<u64>>;

/// The common operations of maps, on numbers.
pub(super) trait Map {
    fn get(&self, tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort>;
    fn insert(&self, tx: &mut dyn Transaction, key: u64, value: u64) -> Result<Found, Abort>;
    fn remove(&self, tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort>;
    /// Returns all pairs; either part of a pair may represent no number.
    fn pairs(&self, tx: &mut dyn Transaction) -> Result<Vec<Pair>, Abort>;
}

pub(super) type Pair = (Option<u64>, Option<u64>);

/// Applies `operation` to an open map.
pub(super) fn apply(
    structure: &dyn Structure,
    map: &impl Map,
    tx: &mut dyn Transaction,
    operation: &Operation,
) -> Result<Outcome, Abort> {
    let found = match *operation {
        Operation::Get(key) => map.get(tx, key)?,
        Operation::Insert(key, value) => map.insert(tx, key, value)?,
        Operation::Remove(key) => map.remove(tx, key)?,
        Operation::Toggle(key, value) => match map.remove(tx, key)? {
            Some(old) => Some(old),
            None => map.insert(tx, key, value)?,
        },
        _ => return Err(refused(tx, structure, operation)),
    };
    match found {
        Some(None) => Err(damaged(tx, structure, format_args!("{operation:?} finds what is no value"))),
        found => Ok(found.flatten()),
    }
}

/// Returns the contents of an open map.
pub(super) fn read(
    structure: &dyn Structure,
    map: &impl Map,
    tx: &mut dyn Transaction,
) -> Result<Contents, Abort> {
    let mut contents = BTreeMap::new();
    for pair in map.pairs(tx)? {
        let (Some(key), Some(value)) = pair else {
            return Err(damaged(tx, structure, format_args!("holds the mangled pair {pair:?}")));
        };
        if contents.insert(key, value).is_some() {
            return Err(damaged(tx, structure, format_args!("holds key {key} twice")));
        }
    }
    Ok(Contents::Map(contents))
}

/// A hash table of chains.
#[derive(Clone, Copy, Debug)]
pub struct HashTable {
    /// The number of chains that it has; a small number makes chains long.
    pub buckets: u64,
    /// The number of words that a value has.
    pub value_words: u64,
}

struct OpenTable(crate::HashTable<i64, Vec<u64>>);

impl Map for OpenTable {
    fn get(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
        let found = self.0.get(&mut tx, encoding::signed(key))?.map(|words| encoding::of_words(&words));
        match self.0.contains_key(&mut tx, encoding::signed(key))? == found.is_some() {
            true => Ok(found),
            false => Ok(Some(None)),
        }
    }
    fn insert(&self, mut tx: &mut dyn Transaction, key: u64, value: u64) -> Result<Found, Abort> {
        let value = encoding::words(value, self.0.value_words());
        Ok(self.0.insert(&mut tx, encoding::signed(key), &value)?.map(|words| encoding::of_words(&words)))
    }
    fn remove(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
        Ok(self.0.remove(&mut tx, encoding::signed(key))?.map(|words| encoding::of_words(&words)))
    }
    fn pairs(&self, mut tx: &mut dyn Transaction) -> Result<Vec<Pair>, Abort> {
        let mut pairs = Vec::new();
        self.0.for_each(&mut tx, |key, value| {
            pairs.push((Some(encoding::number_of(key)), encoding::of_words(&value)));
            Ok(())
        })?;
        Ok(pairs)
    }
}

impl Structure for HashTable {
    fn name(&self) -> &'static str {
        "hash table"
    }
    fn create(&self, runner: &mut AnyRunner<'_>, root: PersistentAddress) -> Result<()> {
        crate::HashTable::<i64, Vec<u64>>::create(runner, root, self.buckets, self.value_words).map(drop)
    }
    fn apply(
        &self,
        mut tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        apply(self, &OpenTable(crate::HashTable::open(&mut tx, root)?), tx, operation)
    }
    fn check(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        crate::HashTable::<i64, Vec<u64>>::open(&mut tx, root)?.check(&mut tx)
    }
    fn read(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        read(self, &OpenTable(crate::HashTable::open(&mut tx, root)?), tx)
    }
}

/// A red-black tree of words.
#[derive(Clone, Copy, Debug)]
pub struct RedBlackTree;

/// A B+ tree with nodes of this shape.
#[derive(Clone, Copy, Debug)]
pub struct BPlusTree(pub NodeShape);

/// A B-tree with at most so many keys in a node.
#[derive(Clone, Copy, Debug)]
pub struct BTree(pub u64);

/// A B+ tree or B-tree of sorted arrays with such nodes. Its values are below 2^32.
#[derive(Clone, Copy, Debug)]
pub struct SortedTree(pub SortedShape);

/// Like [`SortedTree`], with values of a whole word.
#[derive(Clone, Copy, Debug)]
pub struct SortedTreeOfWords(pub SortedShape);

macro_rules! tree {
    (
        $structure:ident, $type:ty, $name:literal, |$self:ident, $tx:ident, $root:ident| $create:expr
        $(, $value:item)?
    ) => {
        impl Map for $type {
            fn get(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
                Ok(self.get(&mut tx, encoding::signed(key))?.map(|value| Some(value.into())))
            }
            fn insert(&self, mut tx: &mut dyn Transaction, key: u64, value: u64) -> Result<Found, Abort> {
                let value = value.try_into().map_err(|_| {
                    tx.fail(Error::Parameter(format!("{value} is too large for a value")))
                })?;
                let old = self.insert(&mut tx, encoding::signed(key), value)?;
                Ok(old.map(|value| Some(value.into())))
            }
            fn remove(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
                Ok(self.remove(&mut tx, encoding::signed(key))?.map(|value| Some(value.into())))
            }
            fn pairs(&self, mut tx: &mut dyn Transaction) -> Result<Vec<Pair>, Abort> {
                let (mut pairs, mut last) = (Vec::new(), None);
                self.for_each(&mut tx, |key, value| {
                    // A key that is out of order represents no number.
                    let number = (last < Some(key)).then_some(encoding::number_of(key));
                    last = Some(key);
                    pairs.push((number, Some(value.into())));
                    Ok(())
                })?;
                Ok(pairs)
            }
        }

        impl Structure for $structure {
            fn name(&self) -> &'static str {
                $name
            }
            fn create(&$self, runner: &mut AnyRunner<'_>, $root: PersistentAddress) -> Result<()> {
                runner.run(|$tx| $create.map(drop))
            }
            $($value)?
            fn apply(
                &self,
                mut tx: &mut dyn Transaction,
                root: PersistentAddress,
                operation: &Operation,
            ) -> Result<Outcome, Abort> {
                apply(self, &<$type>::open(&mut tx, root)?, tx, operation)
            }
            fn check(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
                <$type>::open(&mut tx, root)?.check(&mut tx)
            }
            fn read(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
                read(self, &<$type>::open(&mut tx, root)?, tx)
            }
        }
    };
}

tree!(RedBlackTree, crate::RedBlackTree<i64, u64>, "red-black tree", |self, tx, root| {
    crate::RedBlackTree::<i64, u64>::create(tx, root)
});
tree!(BPlusTree, crate::BPlusTree<i64, u64>, "B+ tree", |self, tx, root| {
    crate::BPlusTree::<i64, u64>::create(tx, root, self.0)
});
tree!(BTree, crate::BTree<i64, u64>, "B-tree", |self, tx, root| {
    crate::BTree::<i64, u64>::create(tx, root, self.0)
});
tree!(
    SortedTree,
    crate::SortedTree<i64>,
    "tree of sorted arrays",
    |self, tx, root| crate::SortedTree::<i64>::create(tx, root, self.0),
    fn value(&self, choices: &mut dyn Choices) -> u64 {
        choices.value() & u64::from(u32::MAX)
    }
);

tree!(
    SortedTreeOfWords,
    crate::SortedTree<i64, u64>,
    "tree of sorted arrays of words",
    |self, tx, root| crate::SortedTree::<i64, u64>::create(tx, root, self.0)
);

/// A key-value store, whose keys and values are byte strings of several lengths.
#[derive(Clone, Copy, Debug)]
pub struct KeyValueStore {
    /// The number of chains that it has; a small number makes chains long.
    pub buckets: u64,
}

impl Map for crate::KeyValueStore {
    fn get(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
        let key = encoding::key(key);
        let found = self.get(&mut tx, &key)?.map(|value| encoding::of_bytes(&value));
        match self.contains_key(&mut tx, &key)? == found.is_some() {
            true => Ok(found),
            false => Ok(Some(None)),
        }
    }
    fn insert(&self, mut tx: &mut dyn Transaction, key: u64, value: u64) -> Result<Found, Abort> {
        let found = Map::get(self, tx, key)?;
        match self.insert(&mut tx, &encoding::key(key), &encoding::bytes(value))? == found.is_some() {
            true => Ok(found),
            false => Ok(Some(None)),
        }
    }
    fn remove(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
        let found = Map::get(self, tx, key)?;
        match self.remove(&mut tx, &encoding::key(key))? == found.is_some() {
            true => Ok(found),
            false => Ok(Some(None)),
        }
    }
    fn pairs(&self, mut tx: &mut dyn Transaction) -> Result<Vec<Pair>, Abort> {
        let mut pairs = Vec::new();
        self.for_each(&mut tx, |key, value| {
            pairs.push((encoding::of_key(key), encoding::of_bytes(value)));
            Ok(())
        })?;
        Ok(pairs)
    }
}

impl Structure for KeyValueStore {
    fn name(&self) -> &'static str {
        "key-value store"
    }
    fn create(&self, runner: &mut AnyRunner<'_>, root: PersistentAddress) -> Result<()> {
        crate::KeyValueStore::create(runner, root, self.buckets).map(drop)
    }
    fn change(&self, choices: &mut dyn Choices) -> Operation {
        // A value that replaces one of another length takes another block.
        match choices.below(2) {
            0 => Operation::Toggle(choices.key(), choices.value()),
            _ => Operation::Insert(choices.key(), choices.value()),
        }
    }
    fn apply(
        &self,
        mut tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        apply(self, &crate::KeyValueStore::open(&mut tx, root)?, tx, operation)
    }
    fn check(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        crate::KeyValueStore::open(&mut tx, root)?.check(&mut tx)
    }
    fn read(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        read(self, &crate::KeyValueStore::open(&mut tx, root)?, tx)
    }
}
