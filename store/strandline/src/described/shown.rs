//! The output of a walk by descriptions.

use super::dynamic::Dynamic;
use crate::value::schema::Types;

/// A part of a pool that a walk shows. [`DynamicStore::dump`](crate::DynamicStore::dump) shows each part once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Shown {
    /// A value at an address: the root, the target of a pointer, a text or bytes.
    Value {
        /// The value's address.
        at: u64,
        /// The value's type, as the pool describes it.
        type_name: String,
        /// The value.
        value: Dynamic,
    },
    /// A collection. Its content follows, one [`Row`](Shown::Row) for each part.
    Collection {
        /// The collection's address.
        at: u64,
        /// The collection's type, as the pool describes it.
        type_name: String,
    },
    /// A table of a [`Tables`](crate::Tables). Its rows follow.
    Table {
        /// The table's name, kind and types.
        table: TableDescription,
        /// The number of rows, counted before they are shown; `None` if they could not be counted.
        rows: Option<u64>,
    },
    /// A key with its value, or only a value in a vector or a queue.
    Row {
        /// The key.
        key: Option<Dynamic>,
        /// The value.
        value: Dynamic,
    },
}

/// The kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableKind {
    /// A map, where a key has one value.
    Table,
    /// A multimap, where a key has any number of values.
    Multimap,
    /// A queue: first in, first out.
    Queue,
}

impl std::fmt::Display for TableKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Table => "table",
            Self::Multimap => "multimap",
            Self::Queue => "queue",
        })
    }
}

/// A table, as the pool describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDescription {
    /// The table's name.
    pub name: String,
    /// The table's kind.
    pub kind: TableKind,
    /// The type of the keys; `()` for a queue.
    pub key: String,
    /// The type of the values or items.
    pub value: String,
    /// The structures and enumerations that these types use.
    pub types: Types,
    /// The hashes of the layouts of keys and values. A program compares them with those of its own types.
    pub layouts: (u64, u64),
}
