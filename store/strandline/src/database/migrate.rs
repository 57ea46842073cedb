//! Tables whose types have changed.

use super::Database;
use super::table::{MultimapTable, QueueTable, Table, Value};
use super::tables::{Form, Movable, MoveSome, MultimapOf, Portion, QueueOf, TableOf};
use crate::collections::ordered_map::OrderedMap;
use crate::collections::queue::Queue;
use crate::value::convert::Conversion;
use crate::value::key::{Key, KeyBytes};
use crate::value::persist::{Invalid, Persist, Stored};
use crate::value::transaction::{Control, Tx};
use crate::value::values::Raw;
use std::marker::PhantomData;
use strandline_core::error::{Error, Result};
use strandline_core::memory::{Native, PersistentAddress};

/// Converts values by what is described of their types.
pub(crate) struct Convert<'t, F> {
    conversion: Conversion<'t>,
    form: PhantomData<F>,
}

impl<F> Convert<'_, F> {
    /// The words and the bytes of a value of type `V` from those of what it was.
    fn value<V: Value>(&self, words: &[u64], bytes: u64) -> Result<(Vec<u64>, u64)> {
        let is_one = |(words, bytes): &(Vec<u64>, u64)| V::decode(words, *bytes, Stored::new()).is_ok();
        match self.conversion.convert(words, bytes) {
            Ok(converted) if is_one(&converted) => Ok(converted),
            Ok(_) | Err(Invalid) => {
                Err(Error::Damaged("a table has a value that is none of its type".into()))
            }
        }
    }
}

impl<K: Key, V: Value> MoveSome for Convert<'_, TableOf<K, V>> {
    fn move_some<'p, C: Control>(
        &mut self,
        tx: &Tx<'p, C>,
        (from, is_words): (PersistentAddress, bool),
        to: PersistentAddress,
    ) -> Result<Portion> {
        let to = OrderedMap::of(to);
        if is_words {
            self.move_from(tx, OrderedMap::<K, Raw<true>>::of(from), to, |raw| (raw.words, raw.bytes))
        } else {
            self.move_from(tx, OrderedMap::<K, Raw<false>>::of(from), to, |raw| (raw.words, raw.bytes))
        }
    }
}

impl<K: Key, V: Value> Convert<'_, TableOf<K, V>> {
    fn move_from<'p, R: Persist<'p>>(
        &self,
        tx: &Tx<'p, impl Control>,
        from: OrderedMap<'p, K, R>,
        to: OrderedMap<'p, K, V>,
        words: impl Fn(R) -> (Vec<u64>, u64),
    ) -> Result<Portion> {
        let mut portion = Portion::default();
        for pair in from.drain::<K, _>(tx, ..) {
            let (key, value) = pair?;
            let (old, old_bytes) = words(value);
            let (words, bytes) = self.value::<V>(&old, old_bytes)?;
            let old =
                to.insert_encoded(tx, &KeyBytes::of(&key), bytes, |into| into.copy_from_slice(&words))?;
            if portion.add(u64::from(old.is_none()), bytes) {
                break;
            }
        }
        Ok(portion)
    }
}

impl<T: Value> MoveSome for Convert<'_, QueueOf<T>> {
    fn move_some<'p, C: Control>(
        &mut self,
        tx: &Tx<'p, C>,
        (from, _): (PersistentAddress, bool),
        to: PersistentAddress,
    ) -> Result<Portion> {
        let (from, to) = (Queue::<Raw<false>>::of(from), Queue::<T>::of(to));
        let mut portion = Portion::default();
        while let Some(Raw { words, bytes }) = from.pop(tx)? {
            let (words, bytes) = self.value::<T>(&words, bytes)?;
            to.push_encoded(tx, Queue::<T>::node_tag(), bytes, |into| into.copy_from_slice(&words))?;
            if portion.add(1, bytes) {
                break;
            }
        }
        Ok(portion)
    }
}

/// Converts keys and values by a function.
struct ConvertBy<F, K, V, L, W> {
    convert: F,
    old: PhantomData<fn() -> (K, V)>,
    new: PhantomData<fn() -> (L, W)>,
}

impl<F, K: Key, V: Value, L: Key, W: Value> MoveSome for ConvertBy<F, K, V, L, W>
where
    F: FnMut(K, V) -> Result<Option<(L, W)>>,
{
    fn move_some<'p, C: Control>(
        &mut self,
        tx: &Tx<'p, C>,
        (from, _): (PersistentAddress, bool),
        to: PersistentAddress,
    ) -> Result<Portion> {
        let (from, to) = (OrderedMap::<K, V>::of(from), OrderedMap::<L, W>::of(to));
        let mut portion = Portion::default();
        for pair in from.drain::<K, _>(tx, ..) {
            let (key, value) = pair?;
            let (mut kept, mut bytes) = (0, 0);
            if let Some((key, value)) = (self.convert)(key, value)? {
                if to.contains_key(tx, &key)? {
                    return Err(Error::Parameter("a migration makes the same key of two".into()));
                }
                bytes = Persist::bytes(&value);
                to.insert(tx, &key, &value)?;
                kept = 1;
            }
            if portion.add(kept, bytes) {
                break;
            }
        }
        Ok(portion)
    }
}

/// Converts the pairs of a multimap by a function.
struct ConvertPairs<F, K, V, L, W> {
    convert: F,
    old: PhantomData<fn() -> (K, V)>,
    new: PhantomData<fn() -> (L, W)>,
}

impl<F, K: Key, V: Key, L: Key, W: Key> MoveSome for ConvertPairs<F, K, V, L, W>
where
    F: FnMut(K, V) -> Result<Option<(L, W)>>,
{
    fn move_some<'p, C: Control>(
        &mut self,
        tx: &Tx<'p, C>,
        (from, _): (PersistentAddress, bool),
        to: PersistentAddress,
    ) -> Result<Portion> {
        let (from, to) = (OrderedMap::<(K, V), ()>::of(from), OrderedMap::<(L, W), ()>::of(to));
        let mut portion = Portion::default();
        for pair in from.drain::<(K, V), _>(tx, ..) {
            let ((key, value), ()) = pair?;
            let mut kept = 0;
            if let Some(pair) = (self.convert)(key, value)? {
                kept = u64::from(to.insert(tx, &pair, &())?.is_none());
            }
            if portion.add(kept, 0) {
                break;
            }
        }
        Ok(portion)
    }
}

/// Converts the items of a queue by a function.
struct ConvertItems<F, T, U> {
    convert: F,
    types: PhantomData<fn() -> (T, U)>,
}

impl<F, T: Value, U: Value> MoveSome for ConvertItems<F, T, U>
where
    F: FnMut(T) -> Result<Option<U>>,
{
    fn move_some<'p, C: Control>(
        &mut self,
        tx: &Tx<'p, C>,
        (from, _): (PersistentAddress, bool),
        to: PersistentAddress,
    ) -> Result<Portion> {
        let (from, to) = (Queue::<T>::of(from), Queue::<U>::of(to));
        let mut portion = Portion::default();
        while let Some(item) = from.pop(tx)? {
            let (mut kept, mut bytes) = (0, 0);
            if let Some(item) = (self.convert)(item)? {
                bytes = Persist::bytes(&item);
                to.push(tx, &item)?;
                kept = 1;
            }
            if portion.add(kept, bytes) {
                break;
            }
        }
        Ok(portion)
    }
}

impl<C: Control<Memory = Native>> Database<C> {
    /// The table `name`, whose keys and values were of the types `K` and `V` so far: they become of `L` and `W`, by `convert`; what
    /// it makes nothing of is left out. If the table has its new types already it is opened, and if there is none, made.
    ///
    /// For what a new version of a type cannot say by itself: new fields with a default, other names, wider numbers and fields that are
    /// gone need no migration ([`Database::table`]).
    ///
    /// The table is moved by many transactions, so that it can be of any size. A migration that was interrupted, by a power
    /// failure too, resumes when this is called again; until it has finished the table cannot be opened otherwise, and handles that were
    /// opened before return [`Error::NoTable`] from then on. `progress` is told how many keys have been moved. As the closure of a
    /// transaction, `convert` may see a key more than once.
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
    /// [`Error::TableTypes`]: it is of neither types; [`Error::Parameter`]: `convert` makes the same key of two; what `convert` returns, and
    /// then the keys that were moved stay where they are; [`Error::Damaged`]: other rows were moved than were there, and the migration
    /// does not end; as [`Database::write`].
    pub fn migrate<K: Key, V: Value, L: Key, W: Value>(
        &self,
        name: &str,
        convert: impl FnMut(K, V) -> Result<Option<(L, W)>>,
        progress: impl FnMut(u64),
    ) -> Result<Table<L, W>> {
        let step = ConvertBy::<_, K, V, L, W> { convert, old: PhantomData, new: PhantomData };
        self.migrate_by::<TableOf<K, V>, TableOf<L, W>>(name, step, progress)?;
        self.table(name)
    }

    /// As [`Database::migrate`] for a multimap. Pairs of which `convert` makes the same are one.
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
    /// As [`Database::migrate`].
    pub fn migrate_multimap<K: Key, V: Key, L: Key, W: Key>(
        &self,
        name: &str,
        convert: impl FnMut(K, V) -> Result<Option<(L, W)>>,
        progress: impl FnMut(u64),
    ) -> Result<MultimapTable<L, W>> {
        let step = ConvertPairs::<_, K, V, L, W> { convert, old: PhantomData, new: PhantomData };
        self.migrate_by::<MultimapOf<K, V>, MultimapOf<L, W>>(name, step, progress)?;
        self.multimap(name)
    }

    /// As [`Database::migrate`] for a queue, whose items keep their order.
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
    /// As [`Database::migrate`].
    pub fn migrate_queue<T: Value, U: Value>(
        &self,
        name: &str,
        convert: impl FnMut(T) -> Result<Option<U>>,
        progress: impl FnMut(u64),
    ) -> Result<QueueTable<U>> {
        let step = ConvertItems::<_, T, U> { convert, types: PhantomData };
        self.migrate_by::<QueueOf<T>, QueueOf<U>>(name, step, progress)?;
        self.queue(name)
    }

    /// Moves what is of the form `F`, if it is there, to one of the form `G`.
    fn migrate_by<F: Form, G: Form>(
        &self,
        name: &str,
        step: impl MoveSome,
        progress: impl FnMut(u64),
    ) -> Result<()> {
        let (from, to) = (F::wanted(), G::wanted());
        let Some(found) = self.store().view(|tx, root| root.get(tx)?.movable(tx, name, &to))? else {
            return Ok(());
        };
        if found.layouts != from.layouts
            || found.moving_to.is_some_and(|moving_to| moving_to != (to.layouts, true))
        {
            return Err(found.refused);
        }
        self.move_all::<G>(name, true, step, progress)
    }

    /// Makes the values of a table, or the items of a queue, those of the present version of their type, if that says how.
    pub(crate) fn convert<F: Form>(&self, name: &str) -> Result<()>
    where
        for<'t> Convert<'t, F>: MoveSome,
    {
        let wanted = F::wanted();
        let Some(found) = self.store().view(|tx, root| root.get(tx)?.movable(tx, name, &wanted))? else {
            return Ok(());
        };
        let Movable { value, types, layouts, moving_to, refused } = found;
        let is_other = moving_to.is_some_and(|to| to != (wanted.layouts, false));
        // A type that has no version of its own does not say that it was meant to change.
        if layouts.0 != wanted.layouts.0 || is_other || value != wanted.value {
            return Err(refused);
        }
        let conversion = match Conversion::new((&value, &types), (&wanted.value, &wanted.types)) {
            Ok(conversion) => conversion,
            Err(reasons) => {
                return Err(match refused {
                    Error::TableTypes { table, differences } => Error::TableTypes {
                        table,
                        differences: format!("{differences}\nand cannot become what is expected:{reasons}"),
                    },
                    other => other,
                });
            }
        };
        self.move_all::<F>(name, false, Convert::<F> { conversion, form: PhantomData }, |_| {})
    }

    fn move_all<F: Form>(
        &self,
        name: &str,
        by_function: bool,
        mut step: impl MoveSome,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        let mut tally = None;
        loop {
            let later = self.store().later();
            let (done, ticket) = later.update(|tx, root| {
                root.get(tx)?.migrate_some::<F>(tx, name, by_function, tally, &mut step)
            })?;
            if done.is_done {
                return ticket.wait();
            }
            tally = done.tally;
            progress(done.moved);
        }
    }
}
