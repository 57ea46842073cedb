//! Named multimaps of a database.

use std::borrow::Borrow;
use std::marker::PhantomData;

#[cfg(doc)]
use super::table::Table;
use super::table::{Handle, named};
use crate::collections::ordered_map::OrderedMap;
use crate::collections::range::Range;
use crate::value::key::{Key, KeyBytes, KeyRef};
use crate::value::persist;
use crate::value::transaction::{Control, Tx, View, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::Result;

named! {
    /// A named multimap of a [`Database`](crate::Database). Each key has a set of values, in order.
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

impl<K: Key, V: Key> MultimapTable<K, V> {
    fn map<'p>(&self, tx: &View<'p, impl Control>) -> Result<OrderedMap<'p, (K, V), ()>> {
        let map = OrderedMap::of(self.handle.at);
        self.handle.check(tx, map.number())?;
        Ok(map)
    }

    /// Returns the encoded bytes of a key, followed by those of one of its values.
    fn pair(key: &(impl KeyRef + ?Sized), value: &(impl KeyRef + ?Sized)) -> KeyBytes {
        let mut bytes = KeyBytes::of(key);
        value.write_key(&mut bytes);
        bytes
    }

    /// Adds a value to `key`, and returns `true` if the key did not have it yet.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// assert!(db.write(|tx| tags.insert(tx, "sea", &3))?);
    /// assert!(!db.write(|tx| tags.insert(tx, "sea", &3))?, "it is there already");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
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

    /// Removes a value from `key`, and returns whether the key had it.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| {
    ///     tags.insert(tx, "sea", &3)?;
    ///     tags.insert(tx, "sea", &1)
    /// })?;
    /// assert!(db.write(|tx| tags.remove(tx, "sea", &3))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
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

    /// Removes all values of `key`, and returns their number.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| {
    ///     tags.insert(tx, "sea", &3)?;
    ///     tags.insert(tx, "sea", &1)
    /// })?;
    /// assert_eq!(db.write(|tx| tags.remove_all(tx, "sea"))?, 2);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
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

    /// Returns whether `key` has this value.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| {
    ///     tags.insert(tx, "sea", &3)?;
    ///     tags.insert(tx, "sea", &1)
    /// })?;
    /// assert!(db.read(|tx| tags.contains(tx, "sea", &1))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
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

    /// Returns an iterator over the values of `key`, in order and from either end.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| {
    ///     tags.insert(tx, "sea", &3)?;
    ///     tags.insert(tx, "sea", &1)
    /// })?;
    /// let sea: Vec<u64> = db.read(|tx| tags.get(tx, "sea")?.collect())?;
    /// assert_eq!(sea, [1, 3]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
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

    /// Returns an iterator over all keys with their values, in order, one pair for each value.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| {
    ///     tags.insert(tx, "sea", &3)?;
    ///     tags.insert(tx, "sea", &1)
    /// })?;
    /// db.read(|tx| {
    ///     for pair in tags.iter(tx)? {
    ///         let (tag, page) = pair?;
    ///         println!("{tag}: page {page}");
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn iter<'v, 'p, C: Control>(
        &self,
        tx: &'v View<'p, C>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(K, V)>> + use<'v, 'p, K, V, C>> {
        Ok(self.map(tx)?.iter(tx).map(|pair| pair.map(|(pair, ())| pair)))
    }

    /// Returns the number of values of all keys, in the same time for a multimap of any size. See [`OrderedMap::len`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| {
    ///     tags.insert(tx, "sea", &3)?;
    ///     tags.insert(tx, "sea", &1)
    /// })?;
    /// assert_eq!(db.read(|tx| tags.len(tx))?, 2);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn len<'p>(&self, tx: &View<'p, impl Control>) -> Result<u64> {
        self.map(tx)?.len(tx)
    }

    /// Removes all keys and values.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| {
    ///     tags.insert(tx, "sea", &3)?;
    ///     tags.insert(tx, "sea", &1)
    /// })?;
    /// db.write(|tx| tags.clear(tx))?;
    /// assert!(db.read(|tx| tags.is_empty(tx))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::insert`].
    pub fn clear<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<()> {
        self.map(tx)?.retain(tx, |_, ()| false)
    }

    /// Returns whether the multimap has no keys.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// assert!(db.read(|tx| tags.is_empty(tx))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn is_empty<'p>(&self, tx: &View<'p, impl Control>) -> Result<bool> {
        self.map(tx)?.is_empty(tx)
    }

    /// Checks the multimap by its types, and returns a list of problems. The list is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let tags = db.multimap::<String, u64>("tags")?;
    /// db.write(|tx| {
    ///     tags.insert(tx, "sea", &3)?;
    ///     tags.insert(tx, "sea", &1)
    /// })?;
    /// assert!(db.read(|tx| tags.check(tx))?.is_empty());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn check<'p>(&self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        self.map(tx)?.check(tx)
    }
}

/// An iterator over the values of a key in a [`MultimapTable`]. [`MultimapTable::get`] creates it.
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
