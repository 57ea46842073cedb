//! The tables of a database: named collections without a brand, which a program keeps as long as it likes.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use crate::collections::cursor::Cursor;
use crate::collections::drain::ExtractIf;
use crate::collections::entry::Entry;
use crate::collections::ordered_map::OrderedMap;
use crate::collections::queue::{Iter, Queue};
use crate::collections::range::Range;
use crate::value::key::{Key, KeyBytes, KeyRef, Prefix};
use crate::value::persist::{self, Encoded, Persist, Readable};
use crate::value::transaction::{Control, Tx, View, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::Read;

/// What a [`Table`] can hold as values: what can be kept in a pool and owns all that it holds. Numbers, strings, tuples, vectors, options, and
/// your own types with `#[derive(Persist)]`; but no pointers and collections of a pool, which have a lifetime.
pub trait Value: for<'p> Persist<'p> + 'static {}

impl<V: for<'p> Persist<'p> + 'static> Value for V {}

/// What a value of type `V` can be stored from: itself, or a `str` for a `String` and a slice for a vector.
///
/// ```
/// # use strandline::*;
/// let db = Database::in_memory()?;
/// let files = db.table::<String, Vec<u8>>("files")?;
/// db.write(|tx| {
///     files.insert(tx, "a", &vec![1, 2, 3])?;
///     files.insert(tx, "b", [1, 2, 3].as_slice())?;
///     files.insert(tx, "c", b"123")
/// })?;
/// # Ok::<(), strandline::Error>(())
/// ```
pub trait ValueRef<V>: sealed::Encode<V> {}

impl<V, W: sealed::Encode<V> + ?Sized> ValueRef<V> for W {}

mod sealed {
    /// Who stores words stores those of a value: so nobody else implements it.
    pub trait Encode<V> {
        fn bytes(&self) -> u64;
        fn encode(&self, into: &mut [u64]);
        fn plain(&self) -> Option<&[u8]>;
    }
}

/// The value to be stored.
fn encoded<V, W: ValueRef<V> + ?Sized>(value: &W) -> Encoded<'_, impl FnOnce(&mut [u64])> {
    Encoded { bytes: value.bytes(), plain: value.plain(), encode: |words: &mut [u64]| value.encode(words) }
}

impl<V: Value> sealed::Encode<V> for V {
    fn bytes(&self) -> u64 {
        Persist::bytes(self)
    }
    fn encode(&self, into: &mut [u64]) {
        Persist::encode(self, into);
    }
    fn plain(&self) -> Option<&[u8]> {
        Persist::plain(self)
    }
}

impl sealed::Encode<String> for str {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
    fn encode(&self, into: &mut [u64]) {
        u8::store_slice(self.as_bytes(), into);
    }
    fn plain(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }
}

impl<T: Value> sealed::Encode<Vec<T>> for [T] {
    fn bytes(&self) -> u64 {
        crate::value::values::slice_bytes(self)
    }
    fn encode(&self, into: &mut [u64]) {
        crate::value::values::encode_slice(self, into);
    }
    fn plain(&self) -> Option<&[u8]> {
        T::plain_slice(self)
    }
}

impl<T: Value, const N: usize> sealed::Encode<Vec<T>> for [T; N] {
    fn bytes(&self) -> u64 {
        crate::value::values::slice_bytes(self)
    }
    fn encode(&self, into: &mut [u64]) {
        crate::value::values::encode_slice(self, into);
    }
    fn plain(&self) -> Option<&[u8]> {
        T::plain_slice(self)
    }
}

/// A table that was opened: of which database, where, and under which number.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    database: u64,
    at: PersistentAddress,
    number: u64,
    name: Arc<str>,
}

impl Handle {
    pub fn new(database: u64, at: PersistentAddress, number: u64, name: &str) -> Self {
        Self { database, at, number, name: name.into() }
    }

    /// Fails unless the transaction is one of the table's database, and the table still there: `at` is where its number is.
    fn check<'p>(&self, tx: &View<'p, impl Control>, at: PersistentAddress) -> Result<()> {
        if tx.database() != self.database {
            return Err(self.foreign());
        }
        if tx.words(|tx| tx.read(at))? == self.number { Ok(()) } else { Err(self.gone()) }
    }

    #[cold]
    fn foreign(&self) -> Error {
        Error::Parameter(format!("the table `{}` is of another database than the transaction", self.name))
    }

    #[cold]
    fn gone(&self) -> Error {
        Error::NoTable(self.name.to_string())
    }
}

/// What the three kinds of tables have in common.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident<$($parameter:ident),*>) => {
        $(#[$doc])*
        pub struct $name<$($parameter),*> {
            handle: Handle,
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

            /// The name under which it is in the database.
            pub fn name(&self) -> &str {
                &self.handle.name
            }
        }
    };
}

table! {
    /// A named table of a [`Database`](crate::Database): an ordered map from `K` to `V`. It stands for the table and holds nothing
    /// of it; it can be cloned, sent to other threads and kept.
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
    /// Used in a transaction of another database, every operation is [`Error::Parameter`]; after the table was deleted,
    /// [`Error::NoTable`].
    Table<K, V>
}

table! {
    /// A named multimap of a [`Database`](crate::Database): each key has any number of values, each once and in order.
    ///
    /// ```
    /// use strandline::Database;
    ///
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| {
    ///     tags.insert(tx, "sea", &3)?;
    ///     tags.insert(tx, "sea", &1)?;
    ///     tags.insert(tx, "seaside", &2)
    /// })?;
    /// let sea: Vec<u64> = db.read(|tx| tags.get(tx, "sea")?.collect())?;
    /// assert_eq!(sea, [1, 3]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    MultimapTable<K, V>
}

table! {
    /// A named queue of a [`Database`](crate::Database): first in, first out.
    ///
    /// ```
    /// use strandline::Database;
    ///
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// assert_eq!(db.write(|tx| jobs.pop(tx))?.as_deref(), Some("report"));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    QueueTable<T>
}

impl<K: Key, V: Value> Table<K, V> {
    /// The map, in a transaction in which it can be used.
    pub(super) fn map<'p>(&self, tx: &View<'p, impl Control>) -> Result<OrderedMap<'p, K, V>> {
        let map = OrderedMap::of(self.handle.at);
        self.handle.check(tx, map.number())?;
        Ok(map)
    }

    /// The table as a typed collection, with which other parts of the pool can be used in the same transaction.
    ///
    /// # Errors
    /// [`Error::NoTable`]: it was deleted; [`Error::Parameter`]: the transaction is of another database.
    pub fn collection<'p>(&self, tx: &View<'p, impl Control>) -> Result<OrderedMap<'p, K, V>> {
        self.map(tx)
    }

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// As [`OrderedMap::get`], and those of a [`Table`].
    pub fn get<'p, Q: KeyRef + ?Sized>(&self, tx: &View<'p, impl Control>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.get(tx, key)
    }

    /// What `read` makes of the value of `key`, for which no `String` or `Vec` is allocated: [`OrderedMap::read_with`].
    ///
    /// # Errors
    /// As [`Table::get`].
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

    /// Whether `key` is there.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn contains_key<'p, Q: KeyRef + ?Sized>(&self, tx: &View<'p, impl Control>, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.contains_key(tx, key)
    }

    /// Gives `key` the value `value`; returns the value before, if there was one. Both can be what keys and values are borrowed
    /// as: `insert(tx, "ann", "text")`.
    ///
    /// # Errors
    /// As [`OrderedMap::insert`], and those of a [`Table`].
    pub fn insert<'p, Q: KeyRef + ?Sized, W: ValueRef<V> + ?Sized>(
        &self,
        tx: &Tx<'p, impl Control>,
        key: &Q,
        value: &W,
    ) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.insert_encoded(tx, &KeyBytes::of(key), encoded(value))
    }

    /// Gives `key` the value `value`, as [`insert`](Self::insert) does, but does not read the one before: for large values that costs less.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn set<'p, Q: KeyRef + ?Sized, W: ValueRef<V> + ?Sized>(
        &self,
        tx: &Tx<'p, impl Control>,
        key: &Q,
        value: &W,
    ) -> Result<()>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.set_encoded(tx, &KeyBytes::of(key), encoded(value))
    }

    /// Stores pairs that come in ascending order of their keys, each key once; returns how many. Behind all keys that are there this is the fastest way, and
    /// the one that takes least space: [`OrderedMap::load`].
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
    /// As [`OrderedMap::load`], and those of a [`Table`].
    pub fn load<'p, Q: Borrow<K>, W: Borrow<V>>(
        &self,
        tx: &Tx<'p, impl Control>,
        pairs: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<u64> {
        self.map(tx)?.load(tx, pairs)
    }

    /// Removes `key`; returns its value, if it was there.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn remove<'p, Q: KeyRef + ?Sized>(&self, tx: &Tx<'p, impl Control>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        self.map(tx)?.remove(tx, key)
    }

    /// The place of `key`, to look at and to change: [`OrderedMap::entry`].
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
    /// As [`Table::get`].
    pub fn entry<'t, 'p, C: Control>(
        &self,
        tx: &'t Tx<'p, C>,
        key: K,
    ) -> Result<Entry<'t, 'p, K, V, OrderedMap<'p, K, V>, C>> {
        self.map(tx)?.entry(tx, key)
    }

    /// The least key and its value.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn first<'p>(&self, tx: &View<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.map(tx)?.first(tx)
    }

    /// The greatest key and its value.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn last<'p>(&self, tx: &View<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.map(tx)?.last(tx)
    }

    /// Removes the least key; returns it with its value.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn pop_first<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.map(tx)?.pop_first(tx)
    }

    /// Removes the greatest key; returns it with its value.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn pop_last<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.map(tx)?.pop_last(tx)
    }

    /// Whether there are no keys.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn is_empty<'p>(&self, tx: &View<'p, impl Control>) -> Result<bool> {
        self.map(tx)?.is_empty(tx)
    }

    /// Number of keys, by counting them.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn count<'p>(&self, tx: &View<'p, impl Control>) -> Result<u64> {
        self.map(tx)?.count(tx)
    }

    /// All keys and values in order, from either end.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn iter<'v, 'p, C: Control>(&self, tx: &'v View<'p, C>) -> Result<Range<'v, 'p, K, V, C>> {
        Ok(self.map(tx)?.iter(tx))
    }

    /// The keys in `keys` and their values in order, from either end: [`OrderedMap::range`].
    ///
    /// # Errors
    /// As [`Table::get`].
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

    /// The keys that begin with `prefix`, and their values in order, from either end: [`Prefix`].
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn prefix<'v, 'p, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        prefix: &(impl Prefix<K> + ?Sized),
    ) -> Result<Range<'v, 'p, K, V, C>> {
        Ok(self.map(tx)?.prefix(tx, prefix))
    }

    /// A cursor before the least key.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn cursor<'v, 'p, C: Control>(&self, tx: &'v View<'p, C>) -> Result<Cursor<'v, 'p, K, V, C>> {
        Ok(self.map(tx)?.cursor(tx))
    }

    /// Removes the keys for which `keep` says no.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn retain<'p>(&self, tx: &Tx<'p, impl Control>, keep: impl FnMut(&K, &V) -> bool) -> Result<()> {
        self.map(tx)?.retain(tx, keep)
    }

    /// Removes the keys in `keys` for which `remove` says yes, as the iterator returns them: [`OrderedMap::extract_if`].
    ///
    /// # Errors
    /// As [`Table::insert`].
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

    /// Removes the keys in `keys`, as the iterator returns them: [`OrderedMap::drain`].
    ///
    /// # Errors
    /// As [`Table::insert`].
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
    /// # Errors
    /// As [`Table::insert`].
    pub fn clear<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<()> {
        self.retain(tx, |_, _| false)
    }

    /// Looks the table over for damage, by its types: what is wrong, and nothing if all is well.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn check<'p>(&self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        self.map(tx)?.check(tx)
    }
}

impl<K: Key, V: Key> MultimapTable<K, V> {
    fn map<'p>(&self, tx: &View<'p, impl Control>) -> Result<OrderedMap<'p, (K, V), ()>> {
        let map = OrderedMap::of(self.handle.at);
        self.handle.check(tx, map.number())?;
        Ok(map)
    }

    /// The bytes of a key, and those of one of its values behind them.
    fn pair(key: &(impl KeyRef + ?Sized), value: &(impl KeyRef + ?Sized)) -> KeyBytes {
        let mut bytes = KeyBytes::of(key);
        value.write_key(&mut bytes);
        bytes
    }

    /// Gives `key` one more value; whether it had not got it.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn insert<'p, Q: KeyRef + ?Sized, W: KeyRef + ?Sized>(
        &self,
        tx: &Tx<'p, impl Control>,
        key: &Q,
        value: &W,
    ) -> Result<bool>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
    {
        let before = self.map(tx)?.insert_encoded(tx, &Self::pair(key, value), persist::encoded(&()))?;
        Ok(before.is_none())
    }

    /// Takes a value from `key`; whether it had it.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn remove<'p, Q: KeyRef + ?Sized, W: KeyRef + ?Sized>(
        &self,
        tx: &Tx<'p, impl Control>,
        key: &Q,
        value: &W,
    ) -> Result<bool>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
    {
        Ok(self.map(tx)?.remove_encoded(tx, &Self::pair(key, value))?.is_some())
    }

    /// Takes all values from `key`; how many there were.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn remove_all<'p, Q: KeyRef + ?Sized>(&self, tx: &Tx<'p, impl Control>, key: &Q) -> Result<u64>
    where
        K: Borrow<Q>,
    {
        let map = self.map(tx)?;
        let mut count = 0;
        for pair in map.with_prefix(tx, KeyBytes::of(key).as_slice()) {
            map.remove_key(tx, &pair?.0)?;
            count += 1;
        }
        Ok(count)
    }

    /// Whether `key` has this value.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn contains<'p, Q: KeyRef + ?Sized, W: KeyRef + ?Sized>(
        &self,
        tx: &View<'p, impl Control>,
        key: &Q,
        value: &W,
    ) -> Result<bool>
    where
        K: Borrow<Q>,
        V: Borrow<W>,
    {
        Ok(self.map(tx)?.get_encoded(tx, &Self::pair(key, value))?.is_some())
    }

    /// The values of `key` in order, from either end.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get<'v, 'p, Q: KeyRef + ?Sized, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        key: &Q,
    ) -> Result<Values<'v, 'p, K, V, C>>
    where
        K: Borrow<Q>,
    {
        Ok(Values(self.map(tx)?.with_prefix(tx, KeyBytes::of(key).as_slice())))
    }

    /// All keys with their values in order, each pair for itself.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn iter<'v, 'p, C: Control>(
        &self,
        tx: &'v View<'p, C>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(K, V)>> + use<'v, 'p, K, V, C>> {
        Ok(self.map(tx)?.iter(tx).map(|pair| pair.map(|(pair, ())| pair)))
    }

    /// Number of all values of all keys, by counting them.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn count<'p>(&self, tx: &View<'p, impl Control>) -> Result<u64> {
        self.map(tx)?.count(tx)
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn clear<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<()> {
        self.map(tx)?.retain(tx, |_, ()| false)
    }

    /// Whether there are no keys.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn is_empty<'p>(&self, tx: &View<'p, impl Control>) -> Result<bool> {
        self.map(tx)?.is_empty(tx)
    }

    /// Looks the multimap over for damage, by its types: what is wrong, and nothing if all is well.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn check<'p>(&self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        self.map(tx)?.check(tx)
    }
}

/// The values of a key in a [`MultimapTable`].
pub struct Values<'v, 'p, K, V, C: Control = Stm>(Range<'v, 'p, (K, V), (), C>);

impl<K: Key, V: Key, C: Control> Iterator for Values<'_, '_, K, V, C> {
    type Item = Result<V>;
    fn next(&mut self) -> Option<Result<V>> {
        Some(self.0.next()?.map(|((_, value), ())| value))
    }
}

impl<K: Key, V: Key, C: Control> DoubleEndedIterator for Values<'_, '_, K, V, C> {
    fn next_back(&mut self) -> Option<Result<V>> {
        Some(self.0.next_back()?.map(|((_, value), ())| value))
    }
}

debug_as_name! { Values<'_, '_; K, V> }

impl<T: Value> QueueTable<T> {
    fn queue<'p>(&self, tx: &View<'p, impl Control>) -> Result<Queue<'p, T>> {
        let queue = Queue::of(self.handle.at);
        self.handle.check(tx, queue.number())?;
        Ok(queue)
    }

    /// Puts an item at the end.
    ///
    /// # Errors
    /// As [`Queue::push`], and those of a [`Table`].
    pub fn push<'p, W: ValueRef<T> + ?Sized>(&self, tx: &Tx<'p, impl Control>, item: &W) -> Result<()> {
        self.queue(tx)?.push_encoded(tx, Queue::<T>::node_tag(), item.bytes(), |words| item.encode(words))
    }

    /// Takes the item at the front, if there is one.
    ///
    /// # Errors
    /// As [`QueueTable::push`].
    pub fn pop<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<Option<T>> {
        self.queue(tx)?.pop(tx)
    }

    /// The item at the front, which stays.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn front<'p>(&self, tx: &View<'p, impl Control>) -> Result<Option<T>> {
        self.queue(tx)?.front(tx)
    }

    /// Whether there are no items.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn is_empty<'p>(&self, tx: &View<'p, impl Control>) -> Result<bool> {
        self.queue(tx)?.is_empty(tx)
    }

    /// The items, from front to end: [`Queue::iter`].
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn iter<'v, 'p, C: Control>(&self, tx: &'v View<'p, C>) -> Result<Iter<'v, 'p, T, C>> {
        self.queue(tx)?.iter(tx)
    }

    /// Removes all items.
    ///
    /// # Errors
    /// As [`QueueTable::push`].
    pub fn clear<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<()> {
        self.queue(tx)?.clear(tx)
    }

    /// Looks the queue over for damage, by its type: what is wrong, and nothing if all is well.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn check<'p>(&self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        self.queue(tx)?.check(tx)
    }
}
