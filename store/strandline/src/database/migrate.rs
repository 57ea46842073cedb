//! Migration of tables whose types have changed.

use super::Database;
use super::multimap::MultimapTable;
use super::queue::QueueTable;
use super::table::Table;
use super::tables::{AreValid, ConvertRow, Form, Movable, MultimapOf, QueueOf, TableOf, Wanted};
use super::value_ref::Value;
use crate::described::dynamic::Codec;
use crate::value::convert::Conversion;
use crate::value::key::{Key, KeyBytes};
use crate::value::persist::Invalid;
use crate::value::schema::without_numbers;
use crate::value::transaction::Control;
use strandline_core::error::{Error, Result};
use strandline_core::memory::Native;

fn damaged(_: Invalid) -> Error {
    Error::damaged("a table has a key or a value that is not valid for its type")
}

impl<C: Control<Memory = Native>> Database<C> {
    /// Converts the table `name` from keys and values of the types `K` and `V` to those of `L` and `W`. `convert` returns the new row for an old one,
    /// or `None` to drop it. If the table has the new types already, it is opened; if it does not exist, it is created.
    ///
    /// A migration is only needed for changes that the new version of a type cannot describe itself. [`Database::table`] handles new fields with a
    /// default, renamed fields, wider numbers and removed fields. Values of an earlier version of `V` are converted to `V` first: a table of version
    /// 1 is converted to version 2 by attributes, and then to version 3 by `convert`.
    ///
    /// The rows are moved in many transactions, so that the table can be of any size. If a migration is interrupted, even by a power failure, the
    /// next call resumes it. Until it has finished, the table cannot be opened otherwise. Handles that were opened before the migration return
    /// [`Error::NoTable`]. `progress` is called with the number of rows that have been moved. `convert` may be called more than once for a row, since
    /// it runs in transactions.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u8>("people")?;
    /// db.write(|tx| ages.insert(tx, "Ann Bee", &41))?;
    ///
    /// // Keys are to be the last names first.
    /// let people = db.migrate(
    ///     "people",
    ///     |name: String, age: u8| {
    ///         let (first, last) = name.split_once(' ').unwrap_or(("", &name));
    ///         Ok(Some(((last.to_string(), first.to_string()), age)))
    ///     },
    ///     |moved| println!("{moved} people"),
    /// )?;
    /// let bee = db.read(|tx| people.get(tx, &("Bee".to_string(), "Ann".to_string())))?;
    /// assert_eq!(bee, Some(41));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::TableTypes`] if the table has neither the old nor the new types, [`Error::Parameter`] if `convert` maps two keys to the same
    /// key, and the error that `convert` returned; the rows that were moved until then stay moved. Returns [`Error::Damaged`] if the number of rows
    /// that were moved is not that of the rows that existed; the migration then does not finish. Returns the errors of [`Database::write`].
    pub fn migrate<K: Key, V: Value, L: Key, W: Value>(
        &self,
        name: &str,
        mut convert: impl FnMut(K, V) -> Result<Option<(L, W)>>,
        progress: impl FnMut(u64),
    ) -> Result<Table<L, W>> {
        self.migrate_by::<TableOf<K, V>, TableOf<L, W>>(name, |(key, value)| convert(key, value), progress)?;
        self.table(name)
    }

    /// Like [`Database::migrate`], for a multimap. Equal pairs that `convert` returns become one pair.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u32>("tags")?;
    /// db.write(|tx| tags.insert(tx, "sea", &7))?;
    ///
    /// let tags = db.migrate_multimap(
    ///     "tags",
    ///     |tag: String, page: u32| Ok(Some((tag.to_uppercase(), u64::from(page)))),
    ///     |_| {},
    /// )?;
    /// let sea: Vec<u64> = db.read(|tx| tags.get(tx, "SEA")?.collect())?;
    /// assert_eq!(sea, [7]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::migrate`].
    pub fn migrate_multimap<K: Key, V: Key, L: Key, W: Key>(
        &self,
        name: &str,
        mut convert: impl FnMut(K, V) -> Result<Option<(L, W)>>,
        progress: impl FnMut(u64),
    ) -> Result<MultimapTable<L, W>> {
        let convert = |(key, value)| convert(key, value);
        self.migrate_by::<MultimapOf<K, V>, MultimapOf<L, W>>(name, convert, progress)?;
        self.multimap(name)
    }

    /// Like [`Database::migrate`], for a queue. The items keep their order.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report 3"))?;
    ///
    /// let jobs = db.migrate_queue(
    ///     "jobs",
    ///     |job: String| Ok(job.split_once(' ').map(|(what, number)| (what.to_owned(), number.to_owned()))),
    ///     |_| {},
    /// )?;
    /// let job = db.write(|tx| jobs.pop(tx))?;
    /// assert_eq!(job, Some(("report".to_owned(), "3".to_owned())));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Database::migrate`].
    pub fn migrate_queue<T: Value, U: Value>(
        &self,
        name: &str,
        convert: impl FnMut(T) -> Result<Option<U>>,
        progress: impl FnMut(u64),
    ) -> Result<QueueTable<U>> {
        self.migrate_by::<QueueOf<T>, QueueOf<U>>(name, convert, progress)?;
        self.queue(name)
    }

    /// Moves the rows of a table of the form `F`, if it exists, to one of the form `G`.
    fn migrate_by<F: Form, G: Form>(
        &self,
        name: &str,
        mut convert: impl FnMut(F::Row) -> Result<Option<G::Row>>,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        let (from, to) = (F::wanted(), G::wanted());
        let find = || self.store().read(|tx, root| root.get(tx)?.movable(tx, name, &to));
        let can_move = |found: &Movable| {
            found.layouts == from.layouts
                && found.moving_to.is_none_or(|moving_to| moving_to == (to.layouts, true))
        };
        let Some(found) = find()? else { return Ok(()) };
        if !can_move(&found) {
            if !F::HAS_VERSIONS {
                return Err(found.refused);
            }
            // Values of an earlier version of `F`'s type are first converted to the version that `F` has.
            let are_valid = |key: &[u8], words: &[u64], bytes| F::decode(key, words, bytes).map(drop);
            match self.convert(name, &from, &are_valid) {
                Ok(()) if find()?.as_ref().is_some_and(can_move) => {}
                Ok(()) | Err(Error::TableTypes { .. }) => return Err(found.refused),
                Err(error) => return Err(error),
            }
        }
        let mut convert = |key: &[u8], words: &[u64], bytes| {
            let row = convert(F::decode(key, words, bytes).map_err(damaged)?)?;
            Ok(row.map(|row| G::encode(&row)))
        };
        self.move_all(name, &to, true, &mut convert, &mut progress)
    }

    /// Converts the values of a table, or the items of a queue, to the present version of their type, if the type says how. `are_valid` checks the
    /// bytes of a key, and the words and bytes of its new value.
    pub(crate) fn convert(&self, name: &str, wanted: &Wanted, are_valid: AreValid<'_>) -> Result<()> {
        let Some(found) = self.store().read(|tx, root| root.get(tx)?.movable(tx, name, wanted))? else {
            return Ok(());
        };
        let Movable { value, types, layouts, moving_to, refused } = found;
        let is_other = moving_to.is_some_and(|to| to != (wanted.layouts, false));
        // A type without a version of its own does not say that it was meant to change.
        if layouts.0 != wanted.layouts.0
            || is_other
            || without_numbers(&value) != without_numbers(&wanted.value)
        {
            return Err(refused);
        }
        let from = Codec::stored(&value, &types, layouts.1, false).map(Codec::into_form);
        let conversion = match Conversion::new((&value, from), (&wanted.value, &wanted.types)) {
            Ok(conversion) => conversion,
            Err(reasons) => {
                return Err(match refused {
                    Error::TableTypes { table, differences } => Error::TableTypes {
                        table,
                        differences: format!(
                            "{differences}\nand cannot be converted to the expected types:{reasons}"
                        ),
                    },
                    other => other,
                });
            }
        };
        let mut convert = |key: &[u8], words: &[u64], bytes| {
            let (words, bytes) = conversion.convert(words, bytes).map_err(damaged)?;
            are_valid(key, &words, bytes).map_err(damaged)?;
            let mut same = KeyBytes::empty();
            same.push(key);
            Ok(Some((same, words, bytes)))
        };
        match self.move_all(name, wanted, false, &mut convert, &mut |_| {}) {
            Err(Error::ReadOnly) => {
                let differences = "\n  values have to be converted: open the table once in a database that is open for writing";
                Err(wanted.refuse(name, differences.into()))
            }
            done => done,
        }
    }

    fn move_all(
        &self,
        name: &str,
        wanted: &Wanted,
        by_function: bool,
        convert: ConvertRow<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut tally = None;
        loop {
            let later = self.store().later();
            let (done, ticket) = later.write(|tx, root| {
                root.get(tx)?.migrate_some(tx, name, wanted, by_function, tally, convert)
            })?;
            if done.is_done {
                return ticket.wait();
            }
            tally = done.tally;
            progress(done.moved);
        }
    }
}
