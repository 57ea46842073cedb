//! The tables of a database: handles to named collections, which a program can keep as long as it likes.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::value_ref::{Value, ValueRef};
use crate::collections::cursor::Cursor;
use crate::collections::drain::ExtractIf;
use crate::collections::entry::Entry;
use crate::collections::ordered_map::OrderedMap;
use crate::collections::range::Range;
use crate::value::key::{Key, KeyBytes, KeyRef, Prefix};
use crate::value::persist::Readable;
use crate::value::transaction::{Control, Tx, View};
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::Read;

/// An open table: the number of its database, the address of its structure, and its own number.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    database: u64,
    pub(super) at: PersistentAddress,
    number: u64,
    pub(super) name: Arc<str>,
}

impl Handle {
    pub fn new(database: u64, at: PersistentAddress, number: u64, name: &str) -> Self {
        Self { database, at, number, name: name.into() }
    }

    /// Checks that the transaction belongs to the table's database, and that the table still exists. `at` is the address of the table's number.
    pub(super) fn check<'p>(&self, tx: &View<'p, impl Control>, at: PersistentAddress) -> Result<()> {
        if tx.database() != self.database {
            return Err(self.foreign());
        }
        if tx.beside(|tx| tx.read(at))? == self.number { Ok(()) } else { Err(self.gone()) }
    }

    #[cold]
    fn foreign(&self) -> Error {
        Error::Parameter(format!("the table `{}` is of another database than the transaction", self.name))
    }

    #[cold]
    fn gone(&self) -> Error {
        Error::NoTable { name: self.name.to_string() }
    }
}

/// Defines the methods that the three kinds of tables have in common.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident<$($parameter:ident),*>) => {
        $(#[$doc])*
        pub struct $name<$($parameter),*> {
            pub(super) handle: Handle,
            types: PhantomData<fn() -> ($($parameter,)*)>,
        }

        impl<$($parameter),*> Clone for $name<$($parameter),*> {
            fn clone(&self) -> Self {
                Self { handle: self.handle.clone(), types: PhantomData }
            }
        }

        impl<$($parameter),*> std::fmt::Debug for $name<$($parameter),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("name", &self.handle.name).finish_non_exhaustive()
            }
        }

        impl<$($parameter),*> $name<$($parameter),*> {
            pub(crate) fn of(handle: Handle) -> Self {
                Self { handle, types: PhantomData }
            }

            /// Returns the name under which the table was opened.
            pub fn name(&self) -> &str {
                &self.handle.name
            }
        }
    };
}

pub(super) use named;

named! {
    /// A named table of a [`Database`](crate::Database): an ordered map from `K` to `V`. This is a handle without any content, which a program can
    /// clone, send to other threads and keep.
    ///
    /// ```
    /// use strandline::{Database, Persist};
    ///
    /// #[derive(Clone, Debug, PartialEq, Persist)]
    /// struct Person {
    ///     name: String,
    ///     towns: Vec<String>,
    /// }
    ///
    /// let db = Database::in_memory()?;
    /// let people = db.table::<u64, Person>("people")?;
    /// let ann = Person { name: "Ann".into(), towns: vec!["Bergen".into()] };
    /// db.write(|tx| people.insert(tx, &7, &ann))?;
    /// let found = db.read(|tx| people.range(tx, 5..)?.next().transpose())?;
    /// assert_eq!(found, Some((7, ann)));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// Every operation returns [`Error::Parameter`] in a transaction of another database, and [`Error::NoTable`] after the table was deleted.
    Table<K, V>
}

impl<K: Key, V: Value> Table<K, V> {
    /// Returns the table's map, after a check that the transaction may use it.
    pub(super) fn map<'p>(&self, tx: &View<'p, impl Control>) -> Result<OrderedMap<'p, K, V>> {
        let map = OrderedMap::of(self.handle.at);
        self.handle.check(tx, map.number())?;
        Ok(map)
    }

    /// Returns the table as a typed collection, with which other parts of the pool can be used in the same transaction.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     let map: OrderedMap<String, u32> = ages.collection(tx)?;
    ///     map.insert(tx, &"ann".to_string(), &41)
    /// })?;
    /// assert_eq!(db.read(|tx| ages.get(tx, "ann"))?, Some(41));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::NoTable`] if the table was deleted, and [`Error::Parameter`] if the transaction is of another database.
    pub fn collection<'p>(&self, tx: &View<'p, impl Control>) -> Result<OrderedMap<'p, K, V>> {
        self.map(tx)
    }

    /// Returns a copy of the value of `key`, or `None` if the table does not have the key.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert_eq!(db.read(|tx| ages.get(tx, "ann"))?, Some(41));
    /// assert_eq!(db.read(|tx| ages.get(tx, "eve"))?, None);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`], and those of a [`Table`].
    pub fn get<'p, Q: KeyRef + ?Sized>(&self, tx: &View<'p, impl Control>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.get(tx, key)
    }

    /// Calls `read` with the value of `key` and returns its result, without allocating a `String` or `Vec` for the value. See
    /// [`OrderedMap::read_with`].
    ///
    /// A value of up to 4 KB is read without an allocation. In a database on an ordinary file, a value of more than 16 KB that is stored in one piece
    /// is not copied: `read` gets its bytes directly from the mapped file. This applies to [`Database::read`](crate::Database::read) and to
    /// snapshots; a transaction that writes gets a copy. Values of more than 252 KB, and some smaller ones, are stored in several pieces.
    /// [`ValueReader::write_to`](crate::ValueReader::write_to) passes them on piece by piece. As long as such a transaction or snapshot lasts, space
    /// that large values free meanwhile is not used again, so that new values make the file grow. Such a transaction counts as one of the 64
    /// snapshots while it lasts. If none is free, it gets a copy.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let pages = db.table::<String, String>("pages")?;
    /// db.write(|tx| pages.insert(tx, "home", "A page about water levels."))?;
    /// let words = db.read(|tx| pages.read_with(tx, "home", |page| page.split_whitespace().count()))?;
    /// assert_eq!(words, Some(5));
    /// // The rows of a range are lent in the same way, and there the closure may use the transaction.
    /// let bytes = db.read(|tx| {
    ///     let (mut rows, mut bytes) = (pages.iter(tx)?, 0);
    ///     while let Some(length) = rows.next_with(|_name, page| page.len()) {
    ///         bytes += length?;
    ///     }
    ///     Ok(bytes)
    /// })?;
    /// assert_eq!(bytes, 26);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let notes = db.table::<u64, String>("notes")?;
    /// db.write(|tx| notes.insert(tx, &1, "ebb"))?;
    /// let length = db.read(|tx| notes.read_with(tx, &1, |text| text.len()))?;
    /// assert_eq!(length, Some(3));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if `read` uses the transaction, and the errors of [`Table::get`].
    pub fn read_with<'p, Q: KeyRef + ?Sized, R>(
        &self,
        tx: &View<'p, impl Control>,
        key: &Q,
        read: impl FnOnce(&V::Borrowed) -> R,
    ) -> Result<Option<R>>
    where
        K: Borrow<Q>,
        V: Readable,
    {
        self.map(tx)?.read_with(tx, key, read)
    }

    /// Returns whether the table has `key`.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert!(db.read(|tx| ages.contains_key(tx, "ann"))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn contains_key<'p, Q: KeyRef + ?Sized>(&self, tx: &View<'p, impl Control>, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.contains_key(tx, key)
    }

    /// Sets the value of `key` to `value`, and returns the previous value if there was one. Both can be given in a borrowed form: `insert(tx, "ann",
    /// "text")`.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// assert_eq!(db.write(|tx| ages.insert(tx, "ann", &41))?, None);
    /// assert_eq!(db.write(|tx| ages.insert(tx, "ann", &42))?, Some(41));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::insert`], and those of a [`Table`].
    pub fn insert<'p, Q: KeyRef + ?Sized, W: ValueRef<V> + ?Sized>(
        &self,
        tx: &Tx<'p, impl Control>,
        key: &Q,
        value: &W,
    ) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.insert_encoded(tx, &KeyBytes::of(key), value.encoded())
    }

    /// Sets the value of `key` to `value`, like [`insert`](Self::insert), but does not read the previous value, which is cheaper if that is large.
    ///
    /// If a transaction sets many pairs one after another, it stores them together, in the order of their keys, which takes less time than `insert`. An
    /// error of such a pair, such as [`Error::Full`], may be reported by a later operation or at the transaction's end. Until they are stored the pairs
    /// take up to about 1 MB. In a transaction that is too large for its log, they take up to about a quarter of the memory for copies of pages (256 MB
    /// in a pool without copies), and never much more than 1 GB.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let films = db.table::<String, Vec<u8>>("films")?;
    /// db.write(|tx| films.set(tx, "tide", b"low water".as_slice()))?;
    /// assert_eq!(db.read(|tx| films.get(tx, "tide"))?, Some(b"low water".to_vec()));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
    pub fn set<'p, Q: KeyRef + ?Sized, W: ValueRef<V> + ?Sized>(
        &self,
        tx: &Tx<'p, impl Control>,
        key: &Q,
        value: &W,
    ) -> Result<()>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.set_encoded(tx, &KeyBytes::of(key), value.encoded())
    }

    /// Stores pairs that come in ascending order of distinct keys, and returns their number. If the keys are greater than all keys of the table, this
    /// is the fastest way to store them, and takes the least space. See [`OrderedMap::load`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let towns = db.table::<String, u64>("towns")?;
    /// let mut rows = vec![("Oslo".to_string(), 709_000), ("Bergen".to_string(), 289_000)];
    /// rows.sort();
    /// db.write(|tx| towns.load(tx, rows.iter().map(|(town, people)| (town, people))))?;
    /// assert_eq!(db.read(|tx| towns.get(tx, "Oslo"))?, Some(709_000));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::load`], and those of a [`Table`].
    pub fn load<'p, Q: Borrow<K>, W: Borrow<V>>(
        &self,
        tx: &Tx<'p, impl Control>,
        pairs: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<u64> {
        self.map(tx)?.load(tx, pairs)
    }

    /// Removes `key` and returns its value, or `None` if the table does not have the key.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert_eq!(db.write(|tx| ages.remove(tx, "ann"))?, Some(41));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
    pub fn remove<'p, Q: KeyRef + ?Sized>(&self, tx: &Tx<'p, impl Control>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.remove(tx, key)
    }

    /// Returns the entry of `key`, through which the caller can read and change its value. See [`OrderedMap::entry`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let visits = db.table::<String, u64>("visits")?;
    /// for name in ["ann", "bob", "ann"] {
    ///     db.write(|tx| {
    ///         visits.entry(tx, name.to_string())?.and_modify(|count| *count += 1)?.or_insert(1)
    ///     })?;
    /// }
    /// assert_eq!(db.read(|tx| visits.get(tx, "ann"))?, Some(2));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn entry<'t, 'p, C: Control>(
        &self,
        tx: &'t Tx<'p, C>,
        key: K,
    ) -> Result<Entry<'t, 'p, K, V, OrderedMap<'p, K, V>, C>> {
        self.map(tx)?.entry(tx, key)
    }

    /// Returns the least key and its value, or `None` if the table is empty.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert_eq!(db.read(|tx| ages.first(tx))?, Some(("ann".to_string(), 41)));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn first<'p>(&self, tx: &View<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.map(tx)?.first(tx)
    }

    /// Returns the greatest key and its value, or `None` if the table is empty.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert_eq!(db.read(|tx| ages.last(tx))?, Some(("bob".to_string(), 29)));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn last<'p>(&self, tx: &View<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.map(tx)?.last(tx)
    }

    /// Removes the least key and returns it with its value, or `None` if the table is empty.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert_eq!(db.write(|tx| ages.pop_first(tx))?, Some(("ann".to_string(), 41)));
    /// assert_eq!(db.read(|tx| ages.len(tx))?, 1);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
    pub fn pop_first<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.map(tx)?.pop_first(tx)
    }

    /// Removes the greatest key and returns it with its value, or `None` if the table is empty.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert_eq!(db.write(|tx| ages.pop_last(tx))?, Some(("bob".to_string(), 29)));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
    pub fn pop_last<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.map(tx)?.pop_last(tx)
    }

    /// Returns whether the table has no keys.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// assert!(db.read(|tx| ages.is_empty(tx))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn is_empty<'p>(&self, tx: &View<'p, impl Control>) -> Result<bool> {
        self.map(tx)?.is_empty(tx)
    }

    /// Returns the number of keys, in the same time for a table of any size. See [`OrderedMap::len`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert_eq!(db.read(|tx| ages.len(tx))?, 2);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn len<'p>(&self, tx: &View<'p, impl Control>) -> Result<u64> {
        self.map(tx)?.len(tx)
    }

    /// Returns an iterator over all keys and values, in order and from either end.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// db.read(|tx| {
    ///     for row in ages.iter(tx)? {
    ///         let (name, age) = row?;
    ///         println!("{name} is {age}");
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn iter<'v, 'p, C: Control>(&self, tx: &'v View<'p, C>) -> Result<Range<'v, 'p, K, V, C>> {
        Ok(self.map(tx)?.iter(tx))
    }

    /// Returns an iterator over the keys in `keys` and their values, in order and from either end. See [`OrderedMap::range`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let squares = db.table::<u64, u64>("squares")?;
    /// db.write(|tx| (0..4).try_for_each(|n| squares.set(tx, &n, &(n * n))))?;
    /// let rows: Vec<(u64, u64)> = db.read(|tx| squares.range(tx, 1..3)?.collect())?;
    /// assert_eq!(rows, [(1, 1), (2, 4)]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn range<'v, 'p, Q: KeyRef + ?Sized, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        keys: impl RangeBounds<Q>,
    ) -> Result<Range<'v, 'p, K, V, C>>
    where
        K: Borrow<Q>,
    {
        Ok(self.map(tx)?.range(tx, keys))
    }

    /// Returns an iterator over the keys that begin with `prefix`, and their values, in order and from either end. See [`Prefix`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// let with_a: Vec<(String, u32)> = db.read(|tx| ages.prefix(tx, "a")?.collect())?;
    /// assert_eq!(with_a, [("ann".to_string(), 41)]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn prefix<'v, 'p, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        prefix: &(impl Prefix<K> + ?Sized),
    ) -> Result<Range<'v, 'p, K, V, C>> {
        Ok(self.map(tx)?.prefix(tx, prefix))
    }

    /// Creates a cursor before the least key.
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn cursor<'v, 'p, C: Control>(&self, tx: &'v View<'p, C>) -> Result<Cursor<'v, 'p, K, V, C>> {
        Ok(self.map(tx)?.cursor(tx))
    }

    /// Removes the keys for which `keep` returns `false`.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// db.write(|tx| ages.retain(tx, |_, age| *age > 40))?;
    /// assert!(!db.read(|tx| ages.contains_key(tx, "bob"))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
    pub fn retain<'p>(&self, tx: &Tx<'p, impl Control>, keep: impl FnMut(&K, &V) -> bool) -> Result<()> {
        self.map(tx)?.retain(tx, keep)
    }

    /// Returns an iterator that removes the keys in `keys` for which `remove` returns `true`. Each key is removed when the iterator returns it. See
    /// [`OrderedMap::extract_if`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// let old: Vec<(String, u32)> =
    ///     db.write(|tx| ages.extract_if::<str, _>(tx, .., |_, age| *age > 40)?.collect())?;
    /// assert_eq!(old, [("ann".to_string(), 41)]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
    pub fn extract_if<'t, 'p, Q: KeyRef + ?Sized, C: Control>(
        &self,
        tx: &'t Tx<'p, C>,
        keys: impl RangeBounds<Q>,
        remove: impl FnMut(&K, &V) -> bool + 't,
    ) -> Result<ExtractIf<'t, 'p, K, V, C>>
    where
        K: Borrow<Q>,
    {
        Ok(self.map(tx)?.extract_if(tx, keys, remove))
    }

    /// Returns an iterator that removes the keys in `keys`. Each key is removed when the iterator returns it. See [`OrderedMap::drain`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let squares = db.table::<u64, u64>("squares")?;
    /// db.write(|tx| (0..4).try_for_each(|n| squares.set(tx, &n, &(n * n))))?;
    /// let drained: Vec<(u64, u64)> = db.write(|tx| squares.drain(tx, 2..)?.collect())?;
    /// assert_eq!(drained, [(2, 4), (3, 9)]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
    pub fn drain<'t, 'p, Q: KeyRef + ?Sized, C: Control>(
        &self,
        tx: &'t Tx<'p, C>,
        keys: impl RangeBounds<Q>,
    ) -> Result<ExtractIf<'t, 'p, K, V, C>>
    where
        K: Borrow<Q>,
    {
        Ok(self.map(tx)?.drain(tx, keys))
    }

    /// Removes all keys.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// db.write(|tx| ages.clear(tx))?;
    /// assert!(db.read(|tx| ages.is_empty(tx))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
    pub fn clear<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<()> {
        self.retain(tx, |_, _| false)
    }

    /// Checks the table by its types, and returns a list of problems. The list is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| {
    ///     ages.insert(tx, "ann", &41)?;
    ///     ages.insert(tx, "bob", &29)
    /// })?;
    /// assert!(db.read(|tx| ages.check(tx))?.is_empty());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn check<'p>(&self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        self.map(tx)?.check(tx)
    }
}
