//! Tables without their program: what is in them, by the database's own description, and back.

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

/// So many rows are stored by one transaction.
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
                "the table `{}` holds {type_name}, which only its program can read",
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
            Error::Parameter(format!("no {what} of the table `{}`: {of:?}", self.about.name))
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

    /// Shows the rows that `stored` has to `row`; how many these are.
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

    /// The hashes of the layouts of keys and values, as the types' descriptions make them.
    fn layouts(&self) -> std::result::Result<(u64, u64), crate::Invalid> {
        let TableDescription { key, value, types, kind, .. } = self.about;
        let layout = |name: &str, stored, is_key| {
            Codec::stored(name, types, stored, is_key).ok_or(crate::Invalid)?.layout(is_key)
        };
        let (of_keys, of_values) = self.about.layouts;
        Ok((layout(key, of_keys, true)?, layout(value, of_values, *kind == TableKind::Multimap)?))
    }
}

/// Counts of the rows that [`Database::load`] stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// Rows that were stored.
    pub rows: u64,
    /// Those of them that replaced a row with the same key: one of the table, or one before it in the input.
    pub replaced: u64,
}

/// Shows the rows of the table `name` to `row`; how many there are.
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
    /// Shows the rows of the table `name`, in order and as they are now, whatever their types: each key with a value, or `()` with an
    /// item of a queue. `row` runs once for each, beside transactions; an error that it returns ends it. Returns how many rows there are.
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
    /// [`Error::NoTable`]; [`Error::Damaged`]: a key or a value is none of its type, or the table has more rows or fewer than were shown;
    /// [`Error::TableTypes`]: a migration is under way; what `row` returns; as [`Database::snapshot`].
    pub fn dump(&self, name: &str, mut row: impl FnMut(Dynamic, Dynamic) -> Result<()>) -> Result<u64> {
        self.at_one_moment(|tables, tx| show(tables, tx, name, &mut row))
    }

    /// Shows the tables, each with the number of its rows; `None` while a migration of it is under way.
    ///
    /// # Errors
    /// As [`Database::dump`]; what `table` returns.
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

    /// Shows the tables whose names are wanted, each with the number of its rows, and its rows, as they are at one moment.
    ///
    /// # Errors
    /// As [`Database::dump`]; what `table` and `row` return.
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

    /// Shows the rows of the table `name` whose keys are `from` or greater, up to `to`, until `row` returns false.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if a bound is no key of the table, or it is a queue, which has no keys, and the errors of [`Database::dump`].
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
            // Of a multimap, the key without its values.
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
    /// As `body`; as [`Database::snapshot`].
    fn at_one_moment<T>(
        &self,
        mut body: impl for<'p> FnMut(Tables<'p>, &View<'p, C>) -> Result<T>,
    ) -> Result<T> {
        match self.snapshot() {
            Ok(snapshot) => {
                let tx = snapshot.read();
                body(self.catalogue(&tx)?, &tx)
            }
            // One that is only read has no writers.
            Err(Error::Unsupported(_) | Error::ReadOnly) => self.read(|tx| body(self.catalogue(tx)?, tx)),
            Err(error) => Err(error),
        }
    }

    /// Number of rows of the table `name`, whatever its types; 0 if there is no such table. Its cost is the same for a table of any size, but in a
    /// pool of an earlier format it walks until the table has been opened for writing.
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

    /// Counts the rows of the table `name`, whatever its types, by a walk over the table; 0 if there is no such table. Rows are not read. [`len`](Self::len) is for all
    /// but checks that these two agree, or that a table has the rows that were stored there.
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

    /// Applies `count` to the rows of the table `name`; 0 if there is no such table.
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

    /// Puts rows into a table, which is made if it is not there: what [`Database::dump`] has shown, with the table as [`Database::list`] describes
    /// it. Rows with the same keys are replaced. It takes many transactions.
    ///
    /// A table that nothing else writes to has [`Loaded::rows`] more rows than before, less [`Loaded::replaced`].
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
    /// Returns [`Error::TableTypes`] if the table is there with other types, [`Error::Parameter`] if a row is none of these types, the
    /// first error that `rows` yields, and the errors of [`Database::write`]. Rows before it may have been stored then.
    pub fn load(
        &self,
        about: &TableDescription,
        rows: impl IntoIterator<Item = Result<(Dynamic, Dynamic)>>,
    ) -> Result<Loaded> {
        let write = Rows::new(about)?;
        if write.codec.key.has_handles() || write.codec.value.has_handles() {
            return Err(Error::Unsupported(format!(
                "the table `{}` holds pointers ({}), which mean nothing in another pool",
                about.name, about.value
            )));
        }
        // So that no value becomes one of a type that was only claimed.
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
            // The last one waits for all.
            loaded.replaced += self.later().write(store)?.0;
        }
    }
}
