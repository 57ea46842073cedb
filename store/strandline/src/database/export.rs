//! Dumping and loading of tables whose types the program does not know, by the database's own description of them.

#[cfg(feature = "control")]
use std::ops::Bound;

use super::Database;
#[cfg(feature = "control")]
use super::tables::rows::KeyRange;
use super::tables::rows::{RowIter, Rows as StoredRows};
use super::tables::{EncodedRow, Tables};
use crate::described::dynamic::{Codec, Dynamic};
use crate::described::rows::{RowCodec, split_row};
use crate::described::shown::{TableDescription, TableKind};
use crate::value::transaction::{Control, View};
use strandline_core::error::{Error, Result, compare_moved};
use strandline_core::memory::Native;

/// Number of rows that one transaction stores.
const ROWS: usize = 500;

/// Reads and writes the rows of one table.
struct Rows<'t> {
    about: &'t TableDescription,
    codec: RowCodec,
}

impl<'t> Rows<'t> {
    fn new(about: &'t TableDescription) -> Result<Self> {
        let codec = RowCodec::new(about).map_err(|type_name| {
            Error::Unsupported(format!(
                "the table `{}` with {type_name}, which only its program can read",
                about.name
            ))
        })?;
        Ok(Self { about, codec })
    }

    fn read(&self, key: &[u8], words: &[u64], bytes: u64) -> Result<(Dynamic, Dynamic)> {
        let TableDescription { name, kind, .. } = self.about;
        let damaged =
            |what| Error::damaged(format!("the table `{name}` has a {what} that is not valid for its type"));
        let key = self.codec.key.read_key(key).map_err(|_| damaged("key"))?;
        let value = self.codec.value.read_value(words, bytes).map_err(|_| damaged("value"))?;
        Ok(split_row(*kind, key, value))
    }

    fn write(&self, key: Dynamic, value: Dynamic) -> Result<EncodedRow> {
        let none = |what: &str, of: &Dynamic| {
            Error::Parameter(format!("not a valid {what} of the table `{}`: {of:?}", self.about.name))
        };
        let (key, value) = match self.about.kind {
            TableKind::Table => (key, value),
            TableKind::Multimap => (Dynamic::List(vec![key, value]), Dynamic::Unit),
            TableKind::Queue => (Dynamic::Unit, value),
        };
        let bytes = self.codec.key.write_key(&key).map_err(|_| none("key", &key))?;
        let (words, count) = self.codec.value.write_value(&value).map_err(|_| none("value", &value))?;
        Ok((bytes, words, count))
    }

    /// Calls `row` for each row of `stored`, and returns their number.
    fn show(&self, stored: RowIter<'_>, row: &mut impl FnMut(Dynamic, Dynamic) -> Result<()>) -> Result<u64> {
        let mut shown = 0;
        for stored in stored {
            let (key, words, bytes) = stored?;
            let (key, value) = self.read(&key, &words, bytes)?;
            shown += 1;
            row(key, value)?;
        }
        Ok(shown)
    }

    /// Returns the hashes of the layouts of keys and values, computed from the descriptions of the types.
    fn layouts(&self) -> std::result::Result<(u64, u64), crate::Invalid> {
        let TableDescription { key, value, types, kind, .. } = self.about;
        let layout = |name: &str, stored, is_key| {
            Codec::stored(name, types, stored, is_key).ok_or(crate::Invalid)?.layout(is_key)
        };
        let (of_keys, of_values) = self.about.layouts;
        Ok((layout(key, of_keys, true)?, layout(value, of_values, *kind == TableKind::Multimap)?))
    }
}

/// The numbers of rows that [`Database::load`] has stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// Number of rows that were stored.
    pub rows: u64,
    /// Number of those rows that replaced a row with the same key, which was in the table before or came earlier in the input.
    pub replaced: u64,
}

/// Calls `row` for each row of the table `name`, and returns their number.
fn show<'p>(
    tables: Tables<'p>,
    tx: &View<'p, impl Control>,
    name: &str,
    row: &mut impl FnMut(Dynamic, Dynamic) -> Result<()>,
) -> Result<u64> {
    let (about, rows) = tables.rows(tx, name)?;
    let read = Rows::new(&about)?;
    let there = rows.count(tx)?;
    let shown = read.show(rows.iter(tx)?, row)?;
    compare_moved(|| format!("rows of the table `{name}`"), there, shown)?;
    Ok(shown)
}

impl<C: Control<Memory = Native>> Database<C> {
    /// Calls `row` for each row of the table `name`, in order and as they are at one moment, whatever their types, and returns the number of rows. A
    /// row is a key with its value, or `()` with an item of a queue. `row` is called once for each row, while other transactions run. If it
    /// returns an error, the dump stops and returns that error. If the database is open for reading only, `row` runs inside a transaction, so that a
    /// method that begins another one returns [`Error::Nested`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// let rows = db.dump("ages", |name, age| {
    ///     println!("{name:?}: {age:?}");
    ///     Ok(())
    /// })?;
    /// assert_eq!(rows, 2);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::NoTable`] if there is no such table, [`Error::Damaged`] if a key or a value is not valid for its type or if the number of
    /// rows shown is not the table's, [`Error::TableTypes`] if a migration of the table is under way, the error that `row` returned, and the errors
    /// of [`Database::snapshot`].
    pub fn dump(&self, name: &str, mut row: impl FnMut(Dynamic, Dynamic) -> Result<()>) -> Result<u64> {
        self.at_one_moment(|tables, tx| show(tables, tx, name, &mut row))
    }

    /// Calls `table` for each table, with the number of its rows, or `None` while a migration of the table is under way.
    ///
    /// # Errors
    /// Returns the error that `table` returned, and the errors of [`Database::dump`].
    #[cfg(feature = "control")]
    pub(crate) fn list_all(
        &self,
        mut table: impl FnMut(&TableDescription, Option<u64>) -> Result<()>,
    ) -> Result<()> {
        self.at_one_moment(|tables, tx| {
            for about in tables.list(tx)? {
                let rows = match tables.rows(tx, &about.name) {
                    Ok((_, rows)) => Some(rows.len(tx)?),
                    Err(Error::TableTypes { .. }) => None,
                    Err(error) => return Err(error),
                };
                table(&about, rows)?;
            }
            Ok(())
        })
    }

    /// Calls `table` for each table whose name is wanted, with the number of its rows, and then `row` for each of its rows. All are shown as they are
    /// at one moment.
    ///
    /// # Errors
    /// Returns the error that `table` or `row` returned, and the errors of [`Database::dump`].
    #[cfg(feature = "control")]
    pub(crate) fn dump_all(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        mut table: impl FnMut(&TableDescription, u64) -> Result<()>,
        mut row: impl FnMut(&TableDescription, Dynamic, Dynamic) -> Result<()>,
    ) -> Result<()> {
        self.at_one_moment(|tables, tx| {
            for about in tables.list(tx)?.into_iter().filter(|about| is_wanted(&about.name)) {
                let (_, rows) = tables.rows(tx, &about.name)?;
                table(&about, rows.count(tx)?)?;
                show(tables, tx, &about.name, &mut |key, value| row(&about, key, value))?;
            }
            Ok(())
        })
    }

    /// Calls `row` for the rows of the table `name` with keys from `from` up to `to`, until it returns `false`.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if a bound is not a valid key of the table or if the table is a queue, which has no keys, and the errors of
    /// [`Database::dump`].
    #[cfg(feature = "control")]
    pub(crate) fn dump_range(
        &self,
        name: &str,
        from: Option<&Dynamic>,
        to: Bound<&Dynamic>,
        mut row: impl FnMut(Dynamic, Dynamic) -> Result<bool>,
    ) -> Result<()> {
        self.at_one_moment(|tables, tx| {
            let (about, rows) = tables.rows(tx, name)?;
            if about.kind == TableKind::Queue {
                return Err(Error::Parameter(format!("`{name}` is a queue: its items have no keys")));
            }
            let read = Rows::new(&about)?;
            // A bound of a multimap is a key without its values.
            let keys = Codec::stored(&about.key, &about.types, about.layouts.0, true);
            let keys = keys.unwrap_or_else(|| unreachable!("the rows have a codec, and so have the keys"));
            let bytes = |key: &Dynamic| match keys.write_key(key) {
                Ok(bytes) => Ok(bytes.as_slice().to_vec()),
                Err(_) => Err(Error::Parameter(format!(
                    "{key:?} cannot be a key of the table `{name}`, whose keys are of the type {}",
                    about.key
                ))),
            };
            let to = match to {
                Bound::Included(key) => Bound::Included(bytes(key)?),
                Bound::Excluded(key) => Bound::Excluded(bytes(key)?),
                Bound::Unbounded => Bound::Unbounded,
            };
            let range = KeyRange { from: from.map(bytes).transpose()?, to };
            let mut is_enough = false;
            let shown = read.show(Box::new(rows.range(tx, about.kind, range)?), &mut |key, value| match row(
                key, value,
            )? {
                true => Ok(()),
                false => {
                    is_enough = true;
                    Err(Error::Aborted)
                }
            });
            match shown {
                Err(Error::Aborted) if is_enough => Ok(()),
                shown => shown.map(drop),
            }
        })
    }

    /// Runs `body` on the database as it is at one moment.
    ///
    /// # Errors
    /// Returns the error that `body` returned, and the errors of [`Database::snapshot`].
    fn at_one_moment<T>(
        &self,
        mut body: impl for<'p> FnMut(Tables<'p>, &View<'p, C>) -> Result<T>,
    ) -> Result<T> {
        match self.snapshot() {
            Ok(snapshot) => {
                let tx = snapshot.read();
                body(self.catalogue(&tx)?, &tx)
            }
            // This is for a database that is only read. There are no writers, so that a transaction sees one moment, too.
            Err(Error::Unsupported(_) | Error::ReadOnly) => self.read(|tx| body(self.catalogue(tx)?, tx)),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of rows of the table `name`, whatever its types, or 0 if there is no such table. This takes the same time for a table of
    /// any size. In a pool of an earlier format it walks over the table, until the table has been opened for writing.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert_eq!(db.len("ages")?, 2);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::TableTypes`] if a migration is under way, and the errors of [`Database::read`].
    pub fn len(&self, name: &str) -> Result<u64> {
        self.rows_of(name, |tx, rows| rows.len(tx))
    }

    /// Counts the rows of the table `name`, whatever its types, by a walk over the table, and returns 0 if there is no such table. The walk does not
    /// read the rows. Use [`len`](Self::len) unless you want to check that both agree, or that a table has all rows that were stored.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert_eq!(db.count("ages")?, 2);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::TableTypes`] if a migration is under way, and the errors of [`Database::read`].
    pub fn count(&self, name: &str) -> Result<u64> {
        self.rows_of(name, |tx, rows| rows.count(tx))
    }

    /// Returns the result of `count` for the rows of the table `name`, or 0 if there is no such table.
    fn rows_of(
        &self,
        name: &str,
        count: impl for<'p> Fn(&View<'p, C>, StoredRows<'p>) -> Result<u64>,
    ) -> Result<u64> {
        self.read(|tx| match self.catalogue(tx)?.rows(tx, name) {
            Ok((_, rows)) => count(tx, rows),
            Err(Error::NoTable { .. }) => Ok(0),
            Err(error) => Err(error),
        })
    }

    /// Stores rows in a table, which is created if it does not exist. `rows` are those that [`Database::dump`] has shown, and the table is described
    /// as [`Database::list`] describes it. Rows with the same keys are replaced. The rows are stored in many transactions.
    ///
    /// Afterwards the table has [`Loaded::rows`] more rows than before, less [`Loaded::replaced`], unless others have written to it.
    ///
    /// ```
    /// # use strandline::*;
    /// let (db, copy) = (Database::in_memory()?, Database::in_memory()?);
    /// let squares = db.table::<u64, u64>("squares")?;
    /// db.write(|tx| (0..10).try_for_each(|n| squares.insert(tx, &n, &(n * n)).map(drop)))?;
    /// for table in db.list()? {
    ///     let mut rows = Vec::new();
    ///     db.dump(&table.name, |key, value| {
    ///         rows.push((key, value));
    ///         Ok(())
    ///     })?;
    ///     copy.load(&table, rows.into_iter().map(Ok))?;
    /// }
    /// let copied = copy.table::<u64, u64>("squares")?;
    /// assert_eq!(copy.read(|tx| copied.get(tx, &7))?, Some(49));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::TableTypes`] if the table exists with other types, [`Error::Parameter`] if a row is not of these types, the first error that
    /// `rows` yields, and the errors of [`Database::write`]. The rows before the error may have been stored.
    pub fn load(
        &self,
        about: &TableDescription,
        rows: impl IntoIterator<Item = Result<(Dynamic, Dynamic)>>,
    ) -> Result<Loaded> {
        let write = Rows::new(about)?;
        if write.codec.key.has_handles() || write.codec.value.has_handles() {
            return Err(Error::Unsupported(format!(
                "copying pointers ({}) of the table `{}` to another pool",
                about.value, about.name
            )));
        }
        // The description may claim a layout that its types do not have. Values must not be stored under that layout.
        if write.layouts() != Ok(about.layouts) {
            return Err(Error::Parameter(format!(
                "the description of the table `{}` contradicts itself",
                about.name
            )));
        }
        let mut rows = rows.into_iter();
        let mut loaded = Loaded::default();
        loop {
            let mut some = Vec::with_capacity(ROWS);
            for row in rows.by_ref().take(ROWS) {
                let (key, value) = row?;
                some.push(write.write(key, value)?);
            }
            let count = some.len();
            let store = |tx: &crate::Tx<'_, C>| {
                let table = self.catalogue(tx)?.open_described(tx, about)?;
                some.iter().try_fold(0, |replaced, (key, words, bytes)| {
                    Ok(replaced + u64::from(table.store(tx, key, (words, *bytes))?))
                })
            };
            loaded.rows += count as u64;
            if count < ROWS {
                loaded.replaced += self.write(store)?;
                return Ok(loaded);
            }
            // The last transaction waits until all of them are durable.
            loaded.replaced += self.later().write(store)?.0;
        }
    }
}
