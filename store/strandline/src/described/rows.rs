//! Rows of tables whose types the program does not know.

use super::dynamic::{Codec, Dynamic};
use super::shown::{TableDescription, TableKind};

/// Reads and writes the rows of a table as they are stored.
pub(crate) struct RowCodec {
    /// Of keys; of keys with their values in a multimap, of `()` in a queue.
    pub key: Codec,
    /// Of values or items; of `()` in a multimap.
    pub value: Codec,
}

impl RowCodec {
    /// The codec of the rows of `table`.
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

/// The key and the value of a row that is stored as these.
pub(crate) fn split_row(kind: TableKind, key: Dynamic, value: Dynamic) -> (Dynamic, Dynamic) {
    match key {
        Dynamic::List(mut pair) if kind == TableKind::Multimap && pair.len() == 2 => {
            let value = pair.pop().unwrap_or(Dynamic::Unit);
            (pair.pop().unwrap_or(Dynamic::Unit), value)
        }
        key => (key, value),
    }
}
