//! Methods that take keys out of an ordered map: the first key, the last one, those of a range, or those that meet a condition.

use std::ops::RangeBounds;

use super::ordered_map::OrderedMap;
use super::range::Range;
use crate::value::key::{Key, KeyRef};
use crate::value::persist::{Persist, replaced};
use crate::value::transaction::{Control, Tx, debug_as_name};
use std::borrow::Borrow;
use strandline_core::engine::Stm;
use strandline_core::error::Result;

impl<'p, K: Key, V: Persist<'p>> OrderedMap<'p, K, V> {
    /// Removes the least key and returns it with its value. Collections in the value are kept.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// for key in [5u64, 15, 9] {
    ///     map.insert(tx, &key, &true)?;
    /// }
    /// assert_eq!((map.pop_first(tx)?, map.pop_last(tx)?), (Some((5, true)), Some((15, true))));
    /// assert_eq!(map.len(tx)?, 1);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::insert`].
    pub fn pop_first(self, tx: &Tx<'p, impl Control>) -> Result<Option<(K, V)>> {
        let first = self.first(tx)?;
        self.take_pair(tx, first)
    }

    /// Removes the greatest key and returns it with its value. Collections in the value are kept.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::insert`].
    pub fn pop_last(self, tx: &Tx<'p, impl Control>) -> Result<Option<(K, V)>> {
        let last = self.last(tx)?;
        self.take_pair(tx, last)
    }

    fn take_pair(self, tx: &Tx<'p, impl Control>, pair: Option<(K, V)>) -> Result<Option<(K, V)>> {
        if let Some((key, _)) = &pair {
            self.remove_key(tx, key)?;
        }
        Ok(pair)
    }

    /// Removes the keys for which `keep` returns `false`. Collections in their values are destroyed.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// for key in 0..10u64 {
    ///     map.insert(tx, &key, &(key * key))?;
    /// }
    /// map.retain(tx, |key, square| key % 2 == 0 && *square > 10)?;
    /// let left: Vec<u64> = map.iter(tx).map(|pair| Ok(pair?.0)).collect::<strandline::Result<_>>()?;
    /// assert_eq!(left, [4, 6, 8]);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::insert`].
    pub fn retain(self, tx: &Tx<'p, impl Control>, mut keep: impl FnMut(&K, &V) -> bool) -> Result<()> {
        self.extract_if::<K, _>(tx, .., |key, value| !keep(key, value))
            .try_for_each(|pair| replaced(tx, &pair?.1, None))
    }

    /// Returns an iterator that removes the keys in `keys` for which `remove` returns `true`. Each key is removed when the iterator returns it: if
    /// the caller stops early, the keys that follow stay in the map. Collections in the values are kept.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// for key in 0..10u64 {
    ///     map.insert(tx, &key, &(key * key))?;
    /// }
    /// let odd: Vec<(u64, u64)> = map.extract_if(tx, ..5, |key, _| key % 2 == 1).collect::<Result<_, _>>()?;
    /// assert_eq!(odd, [(1, 1), (3, 9)]);
    /// assert_eq!(map.len(tx)?, 8);
    /// # Ok(())
    /// # });
    /// ```
    pub fn extract_if<'t, Q: KeyRef + ?Sized, C: Control>(
        self,
        tx: &'t Tx<'p, C>,
        keys: impl RangeBounds<Q>,
        remove: impl FnMut(&K, &V) -> bool + 't,
    ) -> ExtractIf<'t, 'p, K, V, C>
    where
        K: Borrow<Q>,
    {
        ExtractIf { tx, range: self.range(tx, keys), remove: Box::new(remove) }
    }

    /// Returns an iterator that removes the keys in `keys`. Each key is removed when the iterator returns it: if the caller stops early, the keys
    /// that follow stay in the map.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// for key in 0..10u64 {
    ///     map.insert(tx, &key, &())?;
    /// }
    /// assert_eq!(map.drain(tx, 3..=5).count(), 3);
    /// assert_eq!(map.len(tx)?, 7);
    /// # Ok(())
    /// # });
    /// ```
    pub fn drain<'t, Q: KeyRef + ?Sized, C: Control>(
        self,
        tx: &'t Tx<'p, C>,
        keys: impl RangeBounds<Q>,
    ) -> ExtractIf<'t, 'p, K, V, C>
    where
        K: Borrow<Q>,
    {
        self.extract_if(tx, keys, |_, _| true)
    }
}

type Condition<'t, K, V> = Box<dyn FnMut(&K, &V) -> bool + 't>;

/// An iterator that removes the pairs that it returns. [`OrderedMap::extract_if`] creates it.
pub struct ExtractIf<'t, 'p, K, V, C: Control = Stm> {
    tx: &'t Tx<'p, C>,
    range: Range<'t, 'p, K, V, C>,
    remove: Condition<'t, K, V>,
}

impl<'p, K: Key, V: Persist<'p>, C: Control> Iterator for ExtractIf<'_, 'p, K, V, C> {
    type Item = Result<(K, V)>;
    fn next(&mut self) -> Option<Result<(K, V)>> {
        loop {
            let (key, value) = match self.range.next()? {
                Ok(pair) => pair,
                Err(error) => return Some(Err(error)),
            };
            if (self.remove)(&key, &value) {
                // The transaction may have removed or changed the pair since the range fetched it.
                match self.range.map.take(self.tx, &key) {
                    Ok(Some(value)) => return Some(Ok((key, value))),
                    Ok(None) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
        }
    }
}

debug_as_name! { ExtractIf<'_, '_; K, V> }
