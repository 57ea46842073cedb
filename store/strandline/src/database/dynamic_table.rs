//! Tables whose types the program chooses at run time, as bindings for other languages need.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use super::Database;
use super::lent::LentValue;
use super::snapshot::DatabaseSnapshot;
use super::table::Handle;
use super::tables::Wanted;
use crate::collections::ordered_map::OrderedMap;
use crate::collections::range::Range;
use crate::collections::stream::ValueReader;
use crate::described::dynamic::{Codec, Dynamic};
use crate::described::shown::TableKind;
use crate::value::key::KeyBytes;
use crate::value::persist::Encoded;
use crate::value::raw::{Raw, RawKey};
use crate::value::schema::Types;
use crate::value::transaction::{Control, Tx, View};
use crate::value::values::to_words;
use strandline_core::error::{Error, Result};
use strandline_core::memory::Native;

/// A table whose types were given as text. [`Database::dynamic_table`] opens it. Its rows are [`Dynamic`] values. It stores the same bytes as a
/// [`Table`](crate::Table) of the same types.
#[derive(Clone)]
pub struct DynamicTable {
    handle: Handle,
    codecs: Arc<Codecs>,
}

struct Codecs {
    key: Codec,
    value: Codec,
    /// True if values are bytes.
    has_bytes: bool,
    /// True if values are text.
    has_text: bool,
}

impl<C: Control<Memory = Native>> Database<C> {
    /// Opens the table `name`, and creates it if it does not exist. The types are given as text in the notation of [`Database::list`]: `i64`,
    /// `String`, `Vec<u8>`, `(date, f64)`, `Option<uuid>`. `types` holds the structures and enumerations that they name; see
    /// [`Types::add_structure`].
    ///
    /// Values of an earlier version are converted, as [`Database::table`] does.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let prices = db.dynamic_table("prices", "(date, String)", "f64", &Types::default())?;
    /// let key = Dynamic::List(vec![Dynamic::Text("2026-11-30".into()), Dynamic::Text("pears".into())]);
    /// db.write(|tx| prices.set(tx, &key, &Dynamic::Float(2.5)))?;
    /// assert_eq!(db.read(|tx| prices.get(tx, &key))?, Some(Dynamic::Float(2.5)));
    /// assert_eq!(db.list()?[0].key, "(date, String)");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if there is no such type, keys cannot be of the type, or values would hold pointers or collections, and the
    /// errors of [`Database::table`].
    #[track_caller]
    pub fn dynamic_table(&self, name: &str, key: &str, value: &str, types: &Types) -> Result<DynamicTable> {
        let codec = |type_name: &str, is_key: bool| {
            let codec = Codec::new(type_name, types)
                .filter(|codec| if is_key { codec.can_be_key() } else { !codec.has_handles() });
            let what = if is_key { "keys" } else { "values" };
            let refused =
                || Error::Parameter(format!("the {what} of a table cannot be of the type {type_name}"));
            let codec = codec.ok_or_else(refused)?;
            let layout = codec.layout(is_key).map_err(|_| refused())?;
            Ok::<_, Error>((codec, layout))
        };
        let ((key_codec, key_layout), (value_codec, value_layout)) =
            (codec(key, true)?, codec(value, false)?);
        let wanted = Wanted {
            kind: TableKind::Table,
            key: key.to_owned(),
            value: value.to_owned(),
            layouts: (key_layout, value_layout),
            types: types.clone(),
        };
        let are_valid = |key: &[u8], words: &[u64], bytes| {
            key_codec.read_key(key)?;
            value_codec.read_value(words, bytes).map(drop)
        };
        let found = self.find_or_convert(name, &wanted, &are_valid)?;
        let handle = self.handle_of(name, found, &|tables, tx| tables.open(tx, name, wanted.clone()))?;
        let (has_bytes, has_text) = (value_codec.is_bytes(), value_codec.is_text());
        let codecs = Codecs { key: key_codec, value: value_codec, has_bytes, has_text };
        Ok(DynamicTable { handle, codecs: Arc::new(codecs) })
    }
}

impl DynamicTable {
    fn map<'p>(&self, tx: &View<'p, impl Control>) -> Result<OrderedMap<'p, RawKey, Raw>> {
        let map = OrderedMap::of(self.handle.at);
        self.handle.check(tx, map.number())?;
        Ok(map)
    }

    /// Returns the name under which the table was opened.
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    fn key(&self, key: &Dynamic) -> Result<KeyBytes> {
        self.codecs.key.write_key(key).map_err(|_| self.other_type("key", &self.codecs.key))
    }

    fn other_type(&self, what: &str, codec: &Codec) -> Error {
        Error::Parameter(format!("a {what} of the table `{}` is not of the type {}", self.name(), codec.name))
    }

    fn damaged(&self, what: &str) -> Error {
        Error::damaged(format!("the table `{}` has a {what} that is not valid for its type", self.name()))
    }

    fn value(&self, Raw { words, bytes }: Raw) -> Result<Dynamic> {
        self.codecs.value.read_value(&words, bytes).map_err(|_| self.damaged("value"))
    }

    /// Calls `body` with the encoded bytes of `value`.
    fn with_bytes<R>(&self, value: &Dynamic, body: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        match value {
            Dynamic::Bytes(bytes) if self.codecs.has_bytes => body(bytes),
            Dynamic::Text(text) if self.codecs.has_text => body(text.as_bytes()),
            value => {
                let encoded = self.codecs.value.write_value(value);
                let (words, bytes) = encoded.map_err(|_| self.other_type("value", &self.codecs.value))?;
                body(&bytemuck::cast_slice(&words)[..bytes as usize])
            }
        }
    }

    /// Returns a copy of the value of `key`, or `None` if the table does not have the key.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the key is of another type, and the errors of [`Table::get`](crate::Table::get).
    pub fn get<'p>(&self, tx: &View<'p, impl Control>, key: &Dynamic) -> Result<Option<Dynamic>> {
        let (map, key) = (self.map(tx)?, self.key(key)?);
        if !self.codecs.has_bytes && !self.codecs.has_text {
            return map.get_encoded(tx, &key)?.map(|raw| self.value(raw)).transpose();
        }
        // The value is read directly into its result.
        let Some(reader) = map.reader_encoded(tx, &key)? else { return Ok(None) };
        let mut bytes = vec![0; reader.len() as usize];
        reader.read_at(0, &mut bytes)?;
        if self.codecs.has_bytes {
            return Ok(Some(Dynamic::Bytes(bytes)));
        }
        String::from_utf8(bytes).map(|text| Some(Dynamic::Text(text))).map_err(|_| self.damaged("value"))
    }

    /// Returns whether the table has `key`.
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicTable::get`].
    pub fn contains_key<'p>(&self, tx: &View<'p, impl Control>, key: &Dynamic) -> Result<bool> {
        let map = self.map(tx)?;
        Ok(map.reader_encoded(tx, &self.key(key)?)?.is_some())
    }

    /// Returns the number of keys. See [`Table::len`](crate::Table::len).
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicTable::get`].
    pub fn len<'p>(&self, tx: &View<'p, impl Control>) -> Result<u64> {
        self.map(tx)?.len(tx)
    }

    /// Returns an iterator over the rows between two keys, in order and from either end.
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicTable::get`].
    pub fn range<'v, 'p, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        from: Bound<&Dynamic>,
        to: Bound<&Dynamic>,
    ) -> Result<DynamicRange<'v, 'p, C>> {
        let raw = |bound: Bound<&Dynamic>| {
            Ok::<_, Error>(match bound {
                Bound::Included(key) => Bound::Included(RawKey(self.key(key)?.as_slice().to_vec())),
                Bound::Excluded(key) => Bound::Excluded(RawKey(self.key(key)?.as_slice().to_vec())),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        let (from, to) = (raw(from)?, raw(to)?);
        let rows = self.map(tx)?.range::<RawKey, _>(tx, (from.as_ref(), to.as_ref()));
        Ok(DynamicRange { rows, table: self.clone() })
    }

    /// Sets the value of `key` to `value`, and returns the previous value if there was one.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the key or the value is of another type, or too long, and the errors of
    /// [`Table::insert`](crate::Table::insert).
    pub fn insert<'p>(
        &self,
        tx: &Tx<'p, impl Control>,
        key: &Dynamic,
        value: &Dynamic,
    ) -> Result<Option<Dynamic>> {
        let (map, key) = (self.map(tx)?, self.key(key)?);
        let old = self.with_bytes(value, |bytes| map.insert_encoded(tx, &key, encoded(bytes)))?;
        old.map(|raw| self.value(raw)).transpose()
    }

    /// Sets the value of `key` to `value` without reading the previous value.
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicTable::insert`].
    pub fn set<'p>(&self, tx: &Tx<'p, impl Control>, key: &Dynamic, value: &Dynamic) -> Result<()> {
        let (map, key) = (self.map(tx)?, self.key(key)?);
        self.with_bytes(value, |bytes| map.set_encoded(tx, &key, encoded(bytes)))
    }

    /// Stores rows, and replaces those with the same keys. It takes the least time and space if the rows come in ascending order and their keys are
    /// greater than all keys of the table.
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicTable::insert`].
    pub fn update<'p>(&self, tx: &Tx<'p, impl Control>, rows: &[(Dynamic, Dynamic)]) -> Result<()> {
        let keys = rows.iter().map(|(key, _)| Ok(RawKey(self.key(key)?.as_slice().to_vec())));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        if !keys.is_sorted_by(|one, next| one.0 < next.0) {
            return rows.iter().try_for_each(|(key, value)| self.set(tx, key, value));
        }
        let mut failed = None;
        let raw = keys.into_iter().zip(rows).map_while(|(key, (_, value))| {
            let raw = self.with_bytes(value, |bytes| {
                let mut words = vec![0; bytes.len().div_ceil(8)];
                to_words(bytes, &mut words);
                Ok(Raw { words, bytes: bytes.len() as u64 })
            });
            raw.map(|raw| (key, raw)).map_err(|error| failed = Some(error)).ok()
        });
        self.map(tx)?.load(tx, raw)?;
        failed.map_or(Ok(()), Err)
    }

    /// Removes `key` and returns its value, or `None` if the table does not have the key.
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicTable::insert`].
    pub fn remove<'p>(&self, tx: &Tx<'p, impl Control>, key: &Dynamic) -> Result<Option<Dynamic>> {
        let old = self.map(tx)?.remove_encoded(tx, &self.key(key)?)?;
        old.map(|raw| self.value(raw)).transpose()
    }

    /// Removes all rows.
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicTable::insert`].
    pub fn clear<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<()> {
        self.map(tx)?.retain(tx, |_, _| false)
    }

    fn demand_bytes(&self) -> Result<()> {
        match self.codecs.has_bytes {
            true => Ok(()),
            false => Err(Error::Parameter(format!(
                "the values of the table `{}` are not bytes: other types cannot be read and stored piece by piece",
                self.name()
            ))),
        }
    }

    /// Sets the value of `key` to the `bytes` bytes that `from` returns. See [`Table::set_from`](crate::Table::set_from).
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if values are not bytes, and the errors of [`Table::set_from`](crate::Table::set_from).
    pub fn set_from<'p>(
        &self,
        tx: &Tx<'p, impl Control>,
        key: &Dynamic,
        bytes: u64,
        from: impl io::Read,
    ) -> Result<()> {
        self.demand_bytes()?;
        self.map(tx)?.set_from_encoded(tx, &self.key(key)?, bytes, from)
    }

    /// Returns a reader of the value of `key`, or `None` if the table does not have the key. See [`Table::reader`](crate::Table::reader).
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicTable::set_from`].
    pub fn reader<'t, 'p, C: Control>(
        &self,
        tx: &'t View<'p, C>,
        key: &Dynamic,
    ) -> Result<Option<ValueReader<'t, 'p, C>>> {
        self.demand_bytes()?;
        self.map(tx)?.reader_encoded(tx, &self.key(key)?)
    }

    /// Lends the value that `key` had when the snapshot began. See [`Table::lend`](crate::Table::lend).
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicTable::set_from`].
    pub fn lend<C: Control<Memory = Native>>(
        &self,
        snapshot: &DatabaseSnapshot<C>,
        key: &Dynamic,
    ) -> Result<Option<LentValue<C>>> {
        snapshot.lend_found(|tx| self.reader(tx, key))
    }
}

/// Returns an encoded value with these bytes.
fn encoded(bytes: &[u8]) -> Encoded<'_, impl FnOnce(&mut [u64])> {
    Encoded {
        bytes: bytes.len() as u64,
        plain: Some(bytes),
        encode: |into: &mut [u64]| to_words(bytes, into),
    }
}

impl fmt::Debug for DynamicTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Codecs { key, value, .. } = &*self.codecs;
        let table = &mut f.debug_struct("DynamicTable");
        table.field("name", &self.name()).field("key", &key.name).field("value", &value.name).finish()
    }
}

/// An iterator over rows of a [`DynamicTable`]. [`DynamicTable::range`] creates it.
pub struct DynamicRange<'v, 'p, C: Control> {
    rows: Range<'v, 'p, RawKey, Raw, C>,
    table: DynamicTable,
}

impl<C: Control> DynamicRange<'_, '_, C> {
    fn row(&self, row: Result<(RawKey, Raw)>) -> Result<(Dynamic, Dynamic)> {
        let (key, value) = row?;
        let key = self.table.codecs.key.read_key(&key.0).map_err(|_| self.table.damaged("key"))?;
        Ok((key, self.table.value(value)?))
    }
}

impl<C: Control> Iterator for DynamicRange<'_, '_, C> {
    type Item = Result<(Dynamic, Dynamic)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        Some(self.row(row))
    }
}

impl<C: Control> DoubleEndedIterator for DynamicRange<'_, '_, C> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let row = self.rows.next_back()?;
        Some(self.row(row))
    }
}

impl<C: Control> fmt::Debug for DynamicRange<'_, '_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicRange").field("table", &self.table).finish_non_exhaustive()
    }
}
