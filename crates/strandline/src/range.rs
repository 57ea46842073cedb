//! Iteration over an ordered map, from either end.
//!
//! Pairs are fetched in batches, at first few, then more. Where the next batch begins is a key, so that it does not
//! matter what becomes of the trees in the meantime.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use super::key::Key;
use super::ordered_map::{BATCH, MAX_KEY_BYTES, OrderedMap, Slot, Tree, is_at, layer, word_of};
use super::persist::{Invalid, Item, Stored};
use super::transaction::{Control, View, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::{Error, Result};
use strandline_core::transaction::{Abort, Read};

/// The keys and values of an [`OrderedMap`], or of a range of it.
///
/// ```
/// # use strandline::*;
/// # example::transaction(|tx| {
/// let map = OrderedMap::new(tx)?;
/// for key in 0..10u64 {
///     map.insert(tx, &key, &key)?;
/// }
/// let mut range = map.range(tx, 2..=7);
/// assert_eq!(range.next().transpose()?, Some((2, 2)));
/// assert_eq!(range.next_back().transpose()?, Some((7, 7)));
/// # Ok(())
/// # });
/// ```
pub struct Range<'v, 'p, K, V, C: Control = Stm> {
    pub(crate) tx: &'v View<'p, C>,
    pub(crate) map: OrderedMap<'p, K, V>,
    /// What has not been fetched yet lies between these.
    pub(crate) from: Bound<Vec<u8>>,
    pub(crate) to: Bound<Vec<u8>>,
    pub(crate) front: VecDeque<(K, V)>,
    /// The greatest key first.
    pub(crate) back: VecDeque<(K, V)>,
    /// Pairs to fetch next time.
    pub(crate) batch: usize,
    /// Nothing is left between the bounds, or fetching it has failed.
    pub(crate) is_over: bool,
}

/// What a batch is fetched from.
struct Fetch<'b, V> {
    from: &'b Bound<Vec<u8>>,
    to: &'b Bound<Vec<u8>>,
    ascending: bool,
    limit: usize,
    /// The words that led to the layer that is being fetched from.
    path: Vec<u64>,
    found: Vec<(Vec<u8>, V)>,
}

impl<'p, V: Item<'p>> Fetch<'_, V> {
    fn contains(&self, key: &[u8]) -> bool {
        let is_from = match self.from {
            Bound::Included(from) => key >= from.as_slice(),
            Bound::Excluded(from) => key > from.as_slice(),
            Bound::Unbounded => true,
        };
        let is_to = match self.to {
            Bound::Included(to) => key <= to.as_slice(),
            Bound::Excluded(to) => key < to.as_slice(),
            Bound::Unbounded => true,
        };
        is_from && is_to
    }

    /// The word of a bound in a layer whose keys have the same words before as the bound, if they have.
    fn edge(bound: &Bound<Vec<u8>>, on_edge: bool, depth: usize) -> Option<u64> {
        match bound {
            Bound::Included(key) | Bound::Excluded(key) if on_edge => Some(word_of(key, depth)),
            _ => None,
        }
    }

    /// Fetches from a layer until there are enough. `edges`: whether its keys begin like the bounds.
    fn layer(
        &mut self,
        tx: &mut impl Read,
        tree: Tree,
        depth: usize,
        edges: (bool, bool),
        inline: bool,
    ) -> Result<(), Abort> {
        let low = Self::edge(self.from, edges.0, depth);
        let high = Self::edge(self.to, edges.1, depth);
        let mut from = low.map_or(Bound::Unbounded, Bound::Included);
        let mut to = high.map_or(Bound::Unbounded, Bound::Included);
        if depth > MAX_KEY_BYTES / 8 {
            return Err(tx.fail(Error::Damaged("an ordered map has too many layers".into())));
        }
        loop {
            let mut slots = Vec::with_capacity(BATCH);
            let visit = |word, slot| {
                slots.push((word, slot));
                Ok(if slots.len() == BATCH { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            if self.ascending {
                tree.scan(tx, (from, to), visit)?;
            } else {
                tree.scan_back(tx, (from, to), visit)?;
            }
            if slots.is_empty() && depth > 0 && low.is_none() && high.is_none() {
                return Err(tx.fail(Error::Damaged("an ordered map has an empty layer".into())));
            }
            for &(word, slot) in &slots {
                if inline {
                    self.take(word.to_be_bytes().to_vec(), |_| V::decode(&[slot], 8, Stored::new()), tx)?;
                } else {
                    match Slot::load(tx, slot)? {
                        Slot::Entry(entry) => {
                            let key = entry.key(tx)?;
                            // So that each is fetched once, however layers may lead to one another.
                            if !is_at(&key, &self.path, word) {
                                return Err(tx.fail(Error::Damaged("an ordered map has a key astray".into())));
                            }
                            self.take(key, |tx| entry.load_value_apart(tx).map_err(|_| Invalid), tx)?;
                        }
                        Slot::Layer(next) => {
                            let next = layer(tx, next)?;
                            let edges = (low == Some(word), high == Some(word));
                            self.path.push(word);
                            self.layer(tx, next, depth + 1, edges, false)?;
                            self.path.pop();
                        }
                    }
                }
                if self.found.len() >= self.limit {
                    return Ok(());
                }
            }
            match slots.last() {
                Some(&(word, _)) if slots.len() == BATCH && self.ascending => from = Bound::Excluded(word),
                Some(&(word, _)) if slots.len() == BATCH => to = Bound::Excluded(word),
                _ => return Ok(()),
            }
        }
    }

    fn take<T: Read>(
        &mut self,
        key: Vec<u8>,
        value: impl FnOnce(&mut T) -> Result<V, Invalid>,
        tx: &mut T,
    ) -> Result<(), Abort> {
        if self.contains(&key) {
            match value(tx) {
                Ok(value) => self.found.push((key, value)),
                // If reading it met something else, that is what the transaction reports.
                Err(_) => {
                    return Err(tx.fail(Error::Damaged(format!("a map has no value of type {}", V::NAME))));
                }
            }
        }
        Ok(())
    }
}

impl<'p, K: Key, V: Item<'p>, C: Control> Range<'_, 'p, K, V, C> {
    /// Fetches the next pairs at one end.
    fn fetch(&mut self, ascending: bool) -> Result<()> {
        let map = self.map;
        let mut fetch = Fetch {
            from: &self.from,
            to: &self.to,
            ascending,
            limit: self.batch,
            path: Vec::new(),
            found: Vec::new(),
        };
        self.tx.words(|tx| {
            let tree = map.first_layer(tx)?;
            fetch.layer(tx, tree, 0, (true, true), OrderedMap::<K, V>::INLINE)
        })?;
        let found = fetch.found;
        self.batch = (2 * self.batch).min(4 * BATCH);
        match found.last() {
            Some((last, _)) if ascending => self.from = Bound::Excluded(last.clone()),
            Some((last, _)) => self.to = Bound::Excluded(last.clone()),
            None => self.is_over = true,
        }
        for (key, value) in found {
            let mut rest = key.as_slice();
            match K::read_key(&mut rest) {
                Ok(key) if rest.is_empty() => {
                    if ascending { &mut self.front } else { &mut self.back }.push_back((key, value));
                }
                _ => {
                    let damaged =
                        format!("an ordered map at {:#x} has an impossible key", map.address().offset());
                    return self.tx.words(|tx| Err(tx.fail(Error::Damaged(damaged))));
                }
            }
        }
        Ok(())
    }

    fn pull(&mut self, ascending: bool) -> Option<Result<(K, V)>> {
        let own_is_empty = if ascending { self.front.is_empty() } else { self.back.is_empty() };
        if own_is_empty
            && !self.is_over
            && let Err(error) = self.fetch(ascending)
        {
            self.is_over = true;
            return Some(Err(error));
        }
        // The last ones may have been fetched from the other end.
        let pair = if ascending {
            self.front.pop_front().or_else(|| self.back.pop_back())
        } else {
            self.back.pop_front().or_else(|| self.front.pop_back())
        };
        pair.map(Ok)
    }
}

impl<'p, K: Key, V: Item<'p>, C: Control> Iterator for Range<'_, 'p, K, V, C> {
    type Item = Result<(K, V)>;
    fn next(&mut self) -> Option<Result<(K, V)>> {
        self.pull(true)
    }
}

impl<'p, K: Key, V: Item<'p>, C: Control> DoubleEndedIterator for Range<'_, 'p, K, V, C> {
    fn next_back(&mut self) -> Option<Result<(K, V)>> {
        self.pull(false)
    }
}

debug_as_name! { Range<'_, '_; K, V> }
