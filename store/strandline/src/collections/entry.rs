//! Entries: views of one key of a map.

use std::marker::PhantomData;

use crate::value::check::Checker;
use crate::value::key::Key;
use crate::value::persist::{Persist, Stored};
use crate::value::transaction::{Control, Tx, View, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::Result;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::Survey;

/// Reports that the block at `at` has no valid `what`, which is a key or a value, of the type `name`.
pub(crate) fn has_none(checker: &mut Checker<'_, '_>, at: PersistentAddress, what: &str, name: &str) {
    checker
        .damaged(format!("the entry at {:#x} has a {what} that is not valid for type {name}", at.offset()));
}

/// Decodes the key and the value of the pair at `at`, which is part of a map. Reports each that is not valid, and returns `None` for it.
pub(crate) fn decode_pair<'p, K: Key, V: Persist<'p>>(
    checker: &mut Checker<'_, 'p>,
    at: PersistentAddress,
    mut key: &[u8],
    words: &[u64],
    bytes: u64,
) -> (Option<K>, Option<V>) {
    let decoded = K::read_key(&mut key).ok().filter(|_| key.is_empty());
    if decoded.is_none() {
        has_none(checker, at, "key", K::NAME);
    }
    let value = V::decode(words, bytes, Stored::new()).ok();
    if value.is_none() {
        has_none(checker, at, "value", V::NAME);
    }
    (decoded, value)
}

/// Checks the pair at `at`, and everything that its value refers to.
pub(crate) fn look_at_pair<'p, K: Key, V: Persist<'p>>(
    checker: &mut Checker<'_, 'p>,
    at: PersistentAddress,
    key: &[u8],
    words: &[u64],
    bytes: u64,
) -> Result<()> {
    let (_, value) = decode_pair::<K, V>(checker, at, key, words, bytes);
    value.map_or(Ok(()), |value| value.visit(checker))
}

/// The operations that an [`Entry`] needs of a map.
///
/// ```
/// # use strandline::*;
/// # example::transaction(|tx| {
/// // Works on either map.
/// fn count<'p, M: Map<'p, u64, u64>>(tx: &Tx<'p>, map: M, key: u64) -> strandline::Result<u64> {
///     let count = map.get(tx, &key)?.unwrap_or(0) + 1;
///     map.insert(tx, &key, &count)?;
///     Ok(count)
/// }
///
/// assert_eq!(count(tx, HashMap::new(tx)?, 7)?, 1);
/// assert_eq!(count(tx, OrderedMap::new(tx)?, 7)?, 1);
/// # Ok(())
/// # });
/// ```
pub trait Map<'p, K, V>: Copy {
    /// Returns a copy of the value of `key`.
    ///
    /// # Errors
    /// Returns the errors of the map.
    fn get(self, tx: &View<'p, impl Control>, key: &K) -> Result<Option<V>>;
    /// Sets the value of `key` and returns the previous one.
    ///
    /// # Errors
    /// Returns the errors of the map.
    fn insert(self, tx: &Tx<'p, impl Control>, key: &K, value: &V) -> Result<Option<V>>;
    /// Removes `key` and returns its value.
    ///
    /// # Errors
    /// Returns the errors of the map.
    fn remove(self, tx: &Tx<'p, impl Control>, key: &K) -> Result<Option<V>>;
}

/// A key of a map, with a copy of its value if the map has the key.
///
/// ```
/// # use strandline::*;
/// # example::transaction(|tx| {
/// let stock = HashMap::new(tx)?;
/// let entry = stock.entry(tx, "apples".to_string())?;
/// assert_eq!((entry.key().as_str(), entry.value()), ("apples", None));
/// assert_eq!(entry.or_insert(40u64)?, 40);
/// let before = stock.entry(tx, "apples".to_string())?.insert(&41)?;
/// assert_eq!(before, Some(40));
/// assert_eq!(stock.entry(tx, "apples".to_string())?.remove()?, Some(41));
/// # Ok(())
/// # });
/// ```
pub struct Entry<'t, 'p, K, V, T, C: Control = Stm> {
    tx: &'t Tx<'p, C>,
    map: T,
    key: K,
    value: Option<V>,
    brand: PhantomData<fn(&'p ()) -> &'p ()>,
}

impl<'t, 'p, K: Key, V: Persist<'p>, T: Map<'p, K, V>, C: Control> Entry<'t, 'p, K, V, T, C> {
    pub(crate) fn new(tx: &'t Tx<'p, C>, map: T, key: K) -> Result<Self> {
        let value = map.get(tx, &key)?;
        Ok(Self { tx, map, key, value, brand: PhantomData })
    }

    /// Returns the key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the value, or `None` if the map does not have the key.
    pub fn value(&self) -> Option<&V> {
        self.value.as_ref()
    }

    /// Calls `change` with the value, if there is one, and stores the changed value.
    ///
    /// # Errors
    /// Returns the errors of the map.
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Result<Self> {
        if let Some(value) = &mut self.value {
            change(value);
            self.map.insert(self.tx, &self.key, value)?;
        }
        Ok(self)
    }

    /// Returns the value. If the map does not have the key, stores `value` and returns it.
    ///
    /// # Errors
    /// Returns the errors of the map.
    pub fn or_insert(self, value: V) -> Result<V> {
        self.or_insert_with(|| Ok(value))
    }

    /// Returns the value. If the map does not have the key, calls `make`, stores its result and returns it.
    ///
    /// # Errors
    /// Returns the errors of `make` and of the map.
    pub fn or_insert_with(self, make: impl FnOnce() -> Result<V>) -> Result<V> {
        match self.value {
            Some(value) => Ok(value),
            None => {
                let value = make()?;
                self.map.insert(self.tx, &self.key, &value)?;
                Ok(value)
            }
        }
    }

    /// Sets the value of the key and returns the previous one.
    ///
    /// # Errors
    /// Returns the errors of the map.
    pub fn insert(self, value: &V) -> Result<Option<V>> {
        self.map.insert(self.tx, &self.key, value)
    }

    /// Removes the key and returns its value.
    ///
    /// # Errors
    /// Returns the errors of the map.
    pub fn remove(self) -> Result<Option<V>> {
        self.map.remove(self.tx, &self.key)
    }
}

debug_as_name! { Entry<'_, '_; K, V, T> }
