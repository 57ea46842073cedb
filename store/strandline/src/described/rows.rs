//! Rows of tables whose types the program does not know.

use super::dynamic::{Codec, Dynamic};
use super::shown::{TableDescription, TableKind};

/// Reads and writes the rows of a table in their stored form.
pub(crate) struct RowCodec {
    /// The codec of keys: in a multimap of keys with their values, in a queue of `()`.
    pub key: Codec,
    /// The codec of values or items: in a multimap of `()`.
    pub value: Codec,
}

impl RowCodec {
    /// Creates the codec of the rows of `table`.
    ///
    /// # Errors
    /// Returns the name of a type that only the table's program can read.
    pub fn new(table: &TableDescription) -> Result<Self, String> {
        let codec = |name: String| Codec::new(&name, &table.types).ok_or(name);
        let stored = |name: String| Codec::stored(&name, &table.types, table.layouts.1, false).ok_or(name);
        let TableDescription { kind, key, value, .. } = table;
        let nothing = || codec("()".to_owned());
        Ok(match kind {
            TableKind::Table => Self { key: codec(key.clone())?, value: stored(value.clone())? },
            TableKind::Multimap => Self { key: codec(format!("({key}, {value})"))?, value: nothing()? },
            TableKind::Queue => Self { key: nothing()?, value: stored(value.clone())? },
        })
    }
}

/// Returns the key and the value of a row that is stored as `key` and `value`.
pub(crate) fn split_row(kind: TableKind, key: Dynamic, value: Dynamic) -> (Dynamic, Dynamic) {
    match key {
        Dynamic::List(mut pair) if kind == TableKind::Multimap && pair.len() == 2 => {
            let value = pair.pop().unwrap_or(Dynamic::Unit);
            (pair.pop().unwrap_or(Dynamic::Unit), value)
        }
        key => (key, value),
    }
}
