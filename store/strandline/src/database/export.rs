//! Tables without their program: what is in them, by the database's own description, and back.

use super::Database;
use super::tables::Tables;
use crate::described::dynamic::{Codec, Dynamic};
use crate::described::shown::{TableDescription, TableKind};
use crate::value::key::KeyBytes;
use crate::value::schema::Types;
use crate::value::transaction::{Control, View};
use strandline_core::error::{Error, Result, compare_moved};
use strandline_core::memory::Native;

/// So many rows are stored by one transaction.
const ROWS: usize = 500;

/// Reads and writes the rows of one table.
struct Rows<'t> {
    about: &'t TableDescription,
    /// Of keys; of keys with their values in a multimap, none in a queue.
    key: Option<Codec>,
    /// None in a multimap.
    value: Option<Codec>,
}

impl<'t> Rows<'t> {
    fn new(about: &'t TableDescription) -> Result<Self> {
        let codec = |name: &str, types: &Types| {
            Codec::new(name, types).map(Some).ok_or_else(|| {
                Error::Unsupported(format!(
                    "the table `{}` holds {name}, which only its program can read",
                    about.name
                ))
            })
        };
        let TableDescription { key, value, types, .. } = about;
        let (key, value) = match about.kind {
            TableKind::Table => (codec(key, types)?, codec(value, types)?),
            TableKind::Multimap => (codec(&format!("({key}, {value})"), types)?, None),
            TableKind::Queue => (None, codec(value, types)?),
        };
        Ok(Self { about, key, value })
    }

    fn damaged(&self, what: &str) -> Error {
        let TableDescription { name, .. } = self.about;
        Error::Damaged(format!("the table `{name}` has a {what} that is none of its type"))
    }

    fn read(&self, key: &[u8], words: &[u64], bytes: u64) -> Result<(Dynamic, Dynamic)> {
        let key = match &self.key {
            Some(codec) => codec.read_key(key).map_err(|_| self.damaged("key"))?,
            None => Dynamic::Unit,
        };
        match (&self.value, key) {
            (Some(codec), key) => {
                let value = codec.read_value(words, bytes).map_err(|_| self.damaged("value"))?;
                Ok((key, value))
            }
            (None, Dynamic::List(mut pair)) if pair.len() == 2 => {
                let value = pair.pop().unwrap_or(Dynamic::Unit);
                Ok((pair.pop().unwrap_or(Dynamic::Unit), value))
            }
            (None, _) => Err(self.damaged("key")),
        }
    }

    fn write(&self, key: Dynamic, value: Dynamic) -> Result<(KeyBytes, Vec<u64>, u64)> {
        let none = |what: &str, of: &dyn std::fmt::Debug| {
            Error::Parameter(format!("no {what} of the table `{}`: {of:?}", self.about.name))
        };
        let (key, value) = match self.about.kind {
            TableKind::Multimap => (Dynamic::List(vec![key, value]), None),
            _ => (key, Some(value)),
        };
        let bytes = match &self.key {
            Some(codec) => codec.write_key(&key).map_err(|_| none("key", &key))?,
            None => KeyBytes::empty(),
        };
        match (&self.value, value) {
            (Some(codec), Some(value)) => {
                let (words, count) = codec.write_value(&value).map_err(|_| none("value", &value))?;
                Ok((bytes, words, count))
            }
            _ => Ok((bytes, Vec::new(), 0)),
        }
    }

    /// The hashes of the layouts of keys and values, as the types' descriptions make them.
    fn layouts(&self) -> std::result::Result<(u64, u64), crate::Invalid> {
        let TableDescription { key, value, types, kind, .. } = self.about;
        let layout = |name: &str, is_key| Codec::new(name, types).ok_or(crate::Invalid)?.layout(is_key);
        Ok((layout(key, true)?, layout(value, *kind == TableKind::Multimap)?))
    }

    /// Whether keys and values are words, which stand in the tree.
    fn are_words(&self) -> bool {
        let is_word = |codec: &Option<Codec>| codec.as_ref().is_some_and(Codec::is_one_word);
        self.about.kind == TableKind::Table
            && self.key.as_ref().is_some_and(Codec::is_word_key)
            && is_word(&self.value)
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
    let (there, mut shown) = (rows.count(tx)?, 0);
    for stored in rows.iter(tx)? {
        let (key, words, bytes) = stored?;
        let (key, value) = read.read(&key, &words, bytes)?;
        shown += 1;
        row(key, value)?;
    }
    compare_moved(|| format!("rows of the table `{name}`"), there, shown)?;
    Ok(shown)
}

impl<C: Control<Memory = Native>> Database<C> {
    /// Shows the rows of the table `name`, in order and as they are now, whatever their types: each key with a value, or `()` with an
    /// item of a queue. `row` runs once for each, beside transactions; an error that it returns ends it. Returns how many rows there are.
    ///
    /// # Errors
    /// [`Error::NoTable`]; [`Error::Damaged`]: a key or a value is none of its type, or the table has more rows or fewer than were shown;
    /// [`Error::TableTypes`]: a migration is under way; what `row` returns; as [`Database::snapshot`].
    pub fn dump(&self, name: &str, mut row: impl FnMut(Dynamic, Dynamic) -> Result<()>) -> Result<u64> {
        let mut snapshot = match self.snapshot() {
            Ok(snapshot) => snapshot,
            // One that is only read has no writers.
            Err(Error::Unsupported(_) | Error::ReadOnly) => {
                return self.read(|tx| show(self.catalogue(tx)?, tx, name, &mut row));
            }
            Err(error) => return Err(error),
        };
        let tx = snapshot.read();
        show(self.catalogue(&tx)?, &tx, name, &mut row)
    }

    /// Number of rows of the table `name`, whatever its types, by counting them; 0 if there is no such table. Rows are not read.
    ///
    /// # Errors
    /// [`Error::TableTypes`]: a migration is under way; as [`Database::read`].
    pub fn count(&self, name: &str) -> Result<u64> {
        self.read(|tx| match self.catalogue(tx)?.rows(tx, name) {
            Ok((_, rows)) => rows.count(tx),
            Err(Error::NoTable(_)) => Ok(0),
            Err(error) => Err(error),
        })
    }

    /// Puts rows into a table, which is made if it is not there: what [`Database::dump`] has shown, with the table as
    /// [`Database::list`] describes it. Rows with the same keys are replaced. It takes many transactions.
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
    /// [`Error::TableTypes`]: the table is there with other types; [`Error::Parameter`]: a row is none of these types; the first that
    /// `rows` has; as [`Database::write`]. Rows before it may have been stored then.
    pub fn load(
        &self,
        about: &TableDescription,
        rows: impl IntoIterator<Item = Result<(Dynamic, Dynamic)>>,
    ) -> Result<Loaded> {
        let write = Rows::new(about)?;
        if write.key.iter().chain(&write.value).any(Codec::has_handles) {
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
        let are_words = write.are_words();
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
                let table = self.catalogue(tx)?.open_described(tx, about, are_words)?;
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
