//! A cursor, which moves between the keys of an ordered map.

use std::borrow::Borrow;
use std::ops::Bound;

use super::ordered_map::OrderedMap;
use super::range::Range;
use crate::value::key::{Key, KeyBytes, KeyRef};
use crate::value::persist::Persist;
use crate::value::transaction::{Control, View, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::Result;

/// A position between two keys of an [`OrderedMap`]. It moves over the next or the previous key and returns that key with its value.
///
/// ```
/// # use strandline::*;
/// # example::transaction(|tx| {
/// let map = OrderedMap::new(tx)?;
/// for key in (0..100u64).step_by(10) {
///     map.insert(tx, &key, &())?;
/// }
/// let mut cursor = map.cursor(tx);
/// assert_eq!(cursor.next()?, Some((0, ())));
/// cursor.seek(&45); // before the first key that is not less
/// assert_eq!((cursor.previous()?, cursor.previous()?), (Some((40, ())), Some((30, ()))));
/// assert_eq!((cursor.next()?, cursor.next()?), (Some((30, ())), Some((40, ()))));
/// cursor.seek_to_end();
/// assert_eq!((cursor.next()?, cursor.previous()?), (None, Some((90, ()))));
/// # Ok(())
/// # });
/// ```
pub struct Cursor<'v, 'p, K, V, C: Control = Stm> {
    tx: &'v View<'p, C>,
    map: OrderedMap<'p, K, V>,
    place: Place,
    /// The iterator that reads on from the position, once the cursor has moved, and whether it goes in ascending order.
    ahead: Option<(bool, Range<'v, 'p, K, V, C>)>,
}

/// A position, described by the bytes of the key beside it.
enum Place {
    Begin,
    Before(Vec<u8>),
    After(Vec<u8>),
    End,
}

impl<'p, K: Key, V: Persist<'p>> OrderedMap<'p, K, V> {
    /// Creates a cursor before the least key.
    pub fn cursor<'v, C: Control>(self, tx: &'v View<'p, C>) -> Cursor<'v, 'p, K, V, C> {
        Cursor { tx, map: self, place: Place::Begin, ahead: None }
    }
}

impl<'p, K: Key, V: Persist<'p>, C: Control> Cursor<'_, 'p, K, V, C> {
    fn go(&mut self, place: Place) {
        self.place = place;
        self.ahead = None;
    }

    /// Moves before the first key that is not less than `key`.
    pub fn seek<Q: KeyRef + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.go(Place::Before(KeyBytes::of(key).as_slice().to_vec()));
    }

    /// Moves before the least key.
    pub fn seek_to_begin(&mut self) {
        self.go(Place::Begin);
    }

    /// Moves after the greatest key.
    pub fn seek_to_end(&mut self) {
        self.go(Place::End);
    }

    /// Moves over the next key and returns it with its value. Returns `None` at the end.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    #[expect(clippy::should_implement_trait, reason = "it goes both ways, and can fail")]
    pub fn next(&mut self) -> Result<Option<(K, V)>> {
        self.over(true)
    }

    /// Moves back over the previous key and returns it with its value. Returns `None` at the beginning.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    pub fn previous(&mut self) -> Result<Option<(K, V)>> {
        self.over(false)
    }

    fn over(&mut self, ascending: bool) -> Result<Option<(K, V)>> {
        if self.ahead.as_ref().is_none_or(|(known, _)| *known != ascending) {
            let all = Bound::Unbounded;
            let (from, to) = match (&self.place, ascending) {
                (Place::Begin, true) | (Place::End, false) => (all.clone(), all),
                (Place::Before(key), true) => (Bound::Included(key.clone()), all),
                (Place::After(key), true) => (Bound::Excluded(key.clone()), all),
                (Place::Before(key), false) => (all, Bound::Excluded(key.clone())),
                (Place::After(key), false) => (all, Bound::Included(key.clone())),
                (Place::Begin, false) | (Place::End, true) => return Ok(None),
            };
            self.ahead = Some((ascending, self.map.range_of(self.tx, from, to)));
        }
        let Some((_, range)) = &mut self.ahead else { return Ok(None) };
        let pair = if ascending { range.next() } else { range.next_back() }.transpose();
        // A range ends after an error. The cursor stays at its place, and the next call reads again.
        let pair = pair.inspect_err(|_| self.ahead = None)?;
        self.place = match &pair {
            Some((key, _)) if ascending => Place::After(KeyBytes::of(key).as_slice().to_vec()),
            Some((key, _)) => Place::Before(KeyBytes::of(key).as_slice().to_vec()),
            None if ascending => Place::End,
            None => Place::Begin,
        };
        Ok(pair)
    }
}

debug_as_name! { Cursor<'_, '_; K, V> }
