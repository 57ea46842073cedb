//! Rows of tables whose types the program does not know.

use std::iter;
#[cfg(feature = "control")]
use std::ops::Bound;

use super::{Structure, TableDescription, TableKind, Tables, Wanted};
use crate::Persist;
use crate::collections::ordered_map::OrderedMap;
#[cfg(feature = "control")]
use crate::collections::ordered_map::after_prefix;
use crate::collections::pages;
use crate::collections::queue::{self, Queue};
use crate::value::key::KeyBytes;
use crate::value::persist::Encoded;
use crate::value::raw::{Raw, RawKey};
use crate::value::transaction::{Control, Tx, View};
use strandline_core::error::{Error, Result};
use strandline_core::structures::type_layout as layout;

/// The rows of a table whose types the program does not know.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'p> {
    Map(OrderedMap<'p, RawKey, Raw>),
    /// A queue, with the tag of its nodes.
    Queue(Queue<'p, Raw>, u64),
}

/// Rows: the bytes of each key, which are empty for an item of a queue, and the words and bytes of its value.
pub(crate) type RowIter<'t> = Box<dyn Iterator<Item = Result<(Vec<u8>, Vec<u64>, u64)>> + 't>;

/// A range of encoded keys.
#[cfg(feature = "control")]
pub(crate) struct KeyRange {
    pub from: Option<Vec<u8>>,
    pub to: Bound<Vec<u8>>,
}

fn row(pair: Result<(RawKey, Raw)>) -> Result<(Vec<u8>, Vec<u64>, u64)> {
    pair.map(|(key, Raw { words, bytes })| (key.0, words, bytes))
}

fn item(item: Result<Raw>) -> Result<(Vec<u8>, Vec<u64>, u64)> {
    item.map(|Raw { words, bytes }| (Vec::new(), words, bytes))
}

/// Returns the error for a table that is being migrated and cannot be read by other programs.
pub(super) fn moving(name: &str) -> Error {
    let said = "\n  a migration of it is under way: its program has to end it first".to_owned();
    Error::TableTypes { table: name.to_owned(), differences: said }
}

/// Returns the tags of the collections with keys and values of these layouts.
pub(super) fn tags(kind: TableKind, (key, value): (u64, u64)) -> (u64, u64) {
    match kind {
        TableKind::Table => (pages::tag(key, value), 0),
        TableKind::Multimap => {
            let pair = layout::field(layout::field(layout::begin("tuple", 0), "", key), "", value);
            (pages::tag(pair, <() as Persist<'_>>::LAYOUT), 0)
        }
        TableKind::Queue => queue::tags(value),
    }
}

impl<'p> Rows<'p> {
    /// Returns the rows of a structure whose keys and values have these layouts.
    pub(super) fn of(structure: &Structure<'p>, layouts: (u64, u64)) -> Self {
        match structure {
            Structure::Table(map) | Structure::Multimap(map) => Self::Map(OrderedMap::of(map.address())),
            Structure::Queue(queue) => {
                Self::Queue(Queue::of(queue.address()), tags(TableKind::Queue, layouts).1)
            }
        }
    }

    /// Returns the number of rows.
    pub fn len(self, tx: &View<'p, impl Control>) -> Result<u64> {
        match self {
            Self::Map(map) => map.len(tx),
            Self::Queue(queue, _) => queue.len(tx),
        }
    }

    /// Counts the rows by a walk that shares no code with [`iter`](Self::iter) and does not use the counts of [`len`](Self::len), so that
    /// [`compare_moved`] can compare the results.
    ///
    /// [`compare_moved`]: strandline_core::error::compare_moved
    pub fn count(self, tx: &View<'p, impl Control>) -> Result<u64> {
        match self {
            Self::Map(map) => map.count(tx),
            Self::Queue(queue, _) => queue.count(tx),
        }
    }

    /// Returns an iterator over the rows, in order.
    pub fn iter<'t, C: Control>(self, tx: &'t View<'p, C>) -> Result<RowIter<'t>>
    where
        'p: 't,
    {
        Ok(match self {
            Self::Map(map) => Box::new(map.iter(tx).map(row)),
            Self::Queue(queue, _) => Box::new(queue.iter(tx)?.map(item)),
        })
    }

    /// Returns an iterator over the rows whose keys are in `keys`, in order. In a multimap, a bound is a key without a value and includes all its
    /// values. A queue has no keys, so that every range has all its items.
    #[cfg(feature = "control")]
    pub fn range<'t, C: Control>(
        self,
        tx: &'t View<'p, C>,
        kind: TableKind,
        keys: KeyRange,
    ) -> Result<RowIter<'t>>
    where
        'p: 't,
    {
        let Self::Map(map) = self else { return self.iter(tx) };
        let to = match keys.to {
            Bound::Included(key) if kind == TableKind::Multimap => {
                after_prefix(&key).map_or(Bound::Unbounded, Bound::Excluded)
            }
            to => to,
        };
        Ok(Box::new(map.range_of(tx, keys.from.map_or(Bound::Unbounded, Bound::Included), to).map(row)))
    }

    /// Returns an iterator that removes the rows in order. Each row is removed when the iterator returns it.
    pub fn drain<'t, C: Control>(self, tx: &'t Tx<'p, C>) -> RowIter<'t>
    where
        'p: 't,
    {
        match self {
            Self::Map(map) => Box::new(map.drain::<RawKey, _>(tx, ..).map(row)),
            Self::Queue(queue, _) => Box::new(iter::from_fn(move || queue.pop(tx).transpose()).map(item)),
        }
    }

    /// Stores a row. In a map it replaces the row with the same key; in a queue it comes last. Returns whether a row was replaced.
    pub fn store(
        self,
        tx: &Tx<'p, impl Control>,
        key: &KeyBytes,
        (words, bytes): (&[u64], u64),
    ) -> Result<bool> {
        let copy = |into: &mut [u64]| into.copy_from_slice(words);
        match self {
            Self::Map(map) => {
                let plain = Some(&bytemuck::cast_slice(words)[..bytes as usize]);
                map.insert_encoded(tx, key, Encoded { bytes, plain, encode: copy }).map(|old| old.is_some())
            }
            Self::Queue(queue, item_tag) => queue.push_encoded(tx, item_tag, bytes, copy).map(|()| false),
        }
    }
}

impl<'p> Tables<'p> {
    /// Returns the description of the table `name`, and its rows.
    pub(crate) fn rows(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<(TableDescription, Rows<'p>)> {
        let found = self.named.get(tx, name)?.ok_or_else(|| Error::NoTable { name: name.to_owned() })?;
        if found.moving.is_some() {
            return Err(moving(name));
        }
        found.check(tx, name)?;
        Ok((found.held.describe(name), found.held.rows()))
    }

    /// Returns the rows of the table that `about` describes, and creates the table if it does not exist.
    pub(crate) fn open_described(
        self,
        tx: &Tx<'p, impl Control>,
        about: &TableDescription,
    ) -> Result<Rows<'p>> {
        let TableDescription { name, kind, key, value, types, layouts } = about.clone();
        let wanted = Wanted { kind, key, value, layouts, types };
        if self.find(tx, &name, &wanted)?.is_some() {
            return Ok(self.rows(tx, &name)?.1);
        }
        let structure = wanted.make(tx)?;
        self.add(tx, &name, wanted.hold(structure))?;
        Ok(Rows::of(&structure, layouts))
    }
}
