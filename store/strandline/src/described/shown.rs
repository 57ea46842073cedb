//! What a walk by descriptions shows.

use super::dynamic::Dynamic;
use crate::value::schema::Types;

/// What a walk over a pool meets, each once: [`DynamicStore::dump`](crate::DynamicStore::dump).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Shown {
    /// A value at an address: the root, what a pointer leads to, a text or bytes.
    Value {
        /// Its address.
        at: u64,
        /// Its type, as the pool describes it.
        type_name: String,
        /// What it is.
        value: Dynamic,
    },
    /// A collection. What is in it follows, a [`Row`](Shown::Row) each.
    Collection {
        /// Its address.
        at: u64,
        /// Its type, as the pool describes it.
        type_name: String,
    },
    /// A table of a [`Tables`](crate::Tables). Its rows follow.
    Table {
        /// Its name, kind and types.
        table: TableDescription,
        /// How many rows it has, as they were counted before; `None` if they could not be.
        rows: Option<u64>,
    },
    /// A key with its value; a value alone of a vector or a queue.
    Row {
        /// The key.
        key: Option<Dynamic>,
        /// The value.
        value: Dynamic,
    },
}

/// What a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableKind {
    /// A key has one value.
    Table,
    /// A key has any number of values.
    Multimap,
    /// First in, first out.
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

/// A table as the pool describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDescription {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// The type of its keys; of a queue `()`.
    pub key: String,
    /// The type of its values or items.
    pub value: String,
    /// The structures and enumerations among these.
    pub types: Types,
    /// The hashes of the layouts of keys and values, which a program compares with those of its own types.
    pub layouts: (u64, u64),
}
