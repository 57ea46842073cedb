//! Iteration over an ordered map, from either end.
//!
//! Pairs are fetched in batches, small ones first and larger ones later, as words in one buffer. A range remembers a key as the place where the next
//! batch begins, so that the tree may change between two batches.
//!
//! *An empty batch is the end.* A batch is full when it holds as many pairs as were asked for, or when it holds at least one pair and a maximum of
//! words. So a batch without a pair shows that no pair is left between the bounds, however long the values are.

use std::ops::{Bound, ControlFlow, Range as Between};

use super::ordered_map::OrderedMap;
use crate::value::key::Key;
use crate::value::persist::{Invalid, Persist, Readable, Stored};
use crate::value::transaction::{Control, View, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::{Error, Result};
use strandline_core::structures::{Cell, Leaf, Walk};
use strandline_core::transaction::{Abort, Read};

/// An iterator over the keys and values of an [`OrderedMap`], or of a range of it. [`OrderedMap::iter`] and [`OrderedMap::range`] create it.
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
    /// The bounds of the pairs that have not been fetched yet.
    pub(crate) from: Bound<Vec<u8>>,
    pub(crate) to: Bound<Vec<u8>>,
    pub(crate) front: Batch,
    /// Has the greatest key first.
    pub(crate) back: Batch,
    /// Number of pairs to fetch next time.
    pub(crate) batch: usize,
    pub(crate) walk: Walk,
    pub(crate) ahead: Ahead,
    /// True if no pair is left between the bounds, or after an error.
    pub(crate) is_over: bool,
}

/// The name of a value outside of its page in errors of a [`Walk`].
const VALUE: &str = "an ordered map's value";

/// The largest number of pairs that a batch asks for. It takes all pairs of its last leaf, if it has copied that.
const BATCH: usize = 512;
/// Number of words at which a batch is full, even if it has fewer pairs than were asked for.
const FULL: usize = 1 << 16;
/// A page is copied as a whole if at least one in this many of its pairs is fetched.
const WORTHWHILE: usize = 4;

/// Pairs that were fetched.
#[derive(Default)]
pub(crate) struct Batch {
    /// The words of pages, and of values outside of pages. Beyond `used` words the buffer is free.
    words: Vec<u64>,
    used: usize,
    /// The cells of a leaf that are fetched.
    offsets: Vec<u64>,
    pairs: Vec<Pair>,
    /// Number of pairs that were taken from the front.
    taken: usize,
}

/// The positions of a pair's key and value in the words of its batch, and their lengths in bytes.
#[derive(Clone, Copy)]
struct Pair {
    key: usize,
    key_bytes: usize,
    value: usize,
    value_bytes: u64,
}

impl Batch {
    /// Returns `count` bytes from word number `word` on.
    fn bytes(&self, word: usize, count: usize) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[8 * word..][..count]
    }

    fn key(&self, pair: Pair) -> &[u8] {
        self.bytes(pair.key, pair.key_bytes)
    }

    fn value(&self, pair: Pair) -> &[u64] {
        let words = pair.value_bytes.div_ceil(8) as usize;
        &self.words[pair.value..][..words]
    }

    fn clear(&mut self) {
        (self.used, self.taken) = (0, 0);
        self.pairs.clear();
    }

    fn is_empty(&self) -> bool {
        self.taken == self.pairs.len()
    }

    /// Reserves `words` more words, and returns the position of the first of them.
    fn room(&mut self, words: usize) -> usize {
        let begin = self.used;
        self.used += words;
        if self.words.len() < self.used {
            self.words.resize(self.used, 0);
        }
        begin
    }

    /// Returns whether no further words are to be read for this batch.
    fn is_full(&self, limit: usize) -> bool {
        self.pairs.len() >= limit || self.used >= FULL
    }

    /// Fetches the pairs of a leaf until there are `limit`, and those for which nothing more has to be read. Returns `Break` if the batch is full, so
    /// that no further leaf is to be read.
    fn leaf(
        &mut self,
        tx: &mut impl Read,
        walk: &mut Walk,
        leaf: &Leaf,
        (ascending, limit): (bool, usize),
    ) -> Result<ControlFlow<()>, Abort> {
        let is_copied = (limit - self.pairs.len()) * WORTHWHILE >= leaf.cells();
        let begin = if is_copied { self.room(leaf.words()) } else { self.used };
        let page = begin..self.used;
        if is_copied {
            leaf.read(tx, &mut self.words[page.clone()])?;
        }
        leaf.put_offsets(tx, is_copied.then(|| &self.words[page.clone()]), &mut self.offsets)?;
        if self.offsets.is_empty() {
            // A batch without a pair would be the end.
            self.used = begin;
            return Ok(ControlFlow::Continue(()));
        }
        let mut last = self.pairs.last().map(|&last| self.first_word(last));
        for number in 0..self.offsets.len() {
            let offset = self.offsets[number];
            let words = &self.words[page.clone()];
            let inside = if is_copied { leaf.inside(tx, words, offset)? } else { None };
            let pair = match inside {
                Some(inside) => Pair {
                    key: begin + inside.key,
                    key_bytes: inside.key_bytes,
                    value: begin + inside.value,
                    value_bytes: inside.value_bytes,
                },
                None if self.is_full(limit) => return Ok(ControlFlow::Break(())),
                None => {
                    let cell = leaf.cell(tx, offset)?;
                    self.cell(tx, walk, &cell)?
                }
            };
            // The first words of most keys that are in order differ.
            let first = self.first_word(pair);
            let is_beyond = last.is_none_or(|last| if ascending { last < first } else { first < last })
                || self.is_beyond(pair, ascending);
            if !is_beyond {
                return Err(fail_out_of_order(tx));
            }
            last = Some(first);
            self.pairs.push(pair);
        }
        Ok(if self.is_full(limit) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Returns whether `pair` follows the last pair in the direction of the iteration, as each pair of an undamaged tree does.
    fn is_beyond(&self, pair: Pair, ascending: bool) -> bool {
        let Some(&last) = self.pairs.last() else { return true };
        let (last, key) = (self.key(last), self.key(pair));
        if ascending { last < key } else { key < last }
    }

    /// Returns the first bytes of a key, filled up with zeros, as a number. The numbers of two keys compare as the keys do, unless they are equal or a
    /// damaged page has other bytes behind a short key.
    fn first_word(&self, pair: Pair) -> u64 {
        u64::from_be(self.words[pair.key])
    }

    /// Reads the key and the value of a cell.
    fn cell(&mut self, tx: &mut impl Read, walk: &mut Walk, cell: &Cell) -> Result<Pair, Abort> {
        let mut key_bytes = Vec::new();
        cell.read_key(tx, &mut key_bytes)?;
        let key = self.room(key_bytes.len().div_ceil(8).max(1));
        self.words[self.used - 1] = 0;
        bytemuck::cast_slice_mut(&mut self.words[key..])[..key_bytes.len()].copy_from_slice(&key_bytes);
        if cell.is_outside() {
            walk.visit(tx, VALUE, cell.at(), cell.value_bytes().div_ceil(8))?;
        }
        let value = self.used;
        cell.with_value(tx, |words, _| {
            self.words.truncate(value);
            self.words.extend_from_slice(words);
        })?;
        self.used = self.words.len();
        Ok(Pair { key, key_bytes: key_bytes.len(), value, value_bytes: cell.value_bytes() })
    }

    fn take_first(&mut self) -> Option<Pair> {
        let pair = self.pairs.get(self.taken).copied()?;
        self.taken += 1;
        Some(pair)
    }

    fn take_last(&mut self) -> Option<Pair> {
        if self.is_empty() { None } else { self.pairs.pop() }
    }
}

/// Number of batches that are read ahead after one that had to wait for the disk.
const BATCHES_AHEAD: u32 = 16;
/// Number of batches between two reads of the thread's count of waits, until the thread has waited. Such a read takes as long as some rows.
const ASK_EVERY: u32 = 16;
/// Number of bytes to read ahead of a batch: the first amount and the largest one.
const FURTHER: Between<u64> = 1 << 16..1 << 22;

/// Decides whether to read ahead. If the batches of a range have to wait for the disk, the pages of a whole batch are requested together.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The thread's count of waits for the disk when it was last read.
    waited: Option<u64>,
    /// Number of batches since then.
    unasked: u32,
    /// True if the thread has waited for a batch of this range.
    has_waited: bool,
    /// Number of batches that are still to be read ahead.
    batches: u32,
    /// Number of bytes to read ahead of them. It doubles from batch to batch.
    further: u64,
}

impl Ahead {
    /// Returns the number of bytes to read ahead of the next batch, or `None` if none of the last batches had to wait for the disk. `now` returns the
    /// thread's count of waits for the disk.
    fn further(&mut self, now: impl FnOnce() -> u64) -> Option<u64> {
        self.unasked += 1;
        if !self.has_waited && self.waited.is_some() && self.unasked < ASK_EVERY {
            return None;
        }
        self.unasked = 0;
        let now = now();
        let waits = self.waited.replace(now).is_some_and(|before| now != before);
        self.has_waited |= waits;
        self.batches = if waits { BATCHES_AHEAD } else { self.batches.saturating_sub(1) };
        self.further =
            if self.batches > 0 { (2 * self.further).clamp(FURTHER.start, FURTHER.end) } else { 0 };
        (self.batches > 0).then_some(self.further)
    }
}

#[cold]
fn fail_out_of_order(tx: &mut impl Read) -> Abort {
    tx.fail(Error::damaged("a key of an ordered map is out of order"))
}

fn slice_of(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Returns whether a key is between the bounds.
fn contains((from, to): (Bound<&[u8]>, Bound<&[u8]>), key: &[u8]) -> bool {
    let is_from = match from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    let is_to = match to {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    };
    is_from && is_to
}

impl<'p, K: Key, V: Persist<'p>, C: Control> Range<'_, 'p, K, V, C> {
    /// Fetches the next pairs at one end, where the last batch is used up.
    fn fetch(&mut self, ascending: bool) -> Result<()> {
        let map = self.map;
        let found = if ascending { &mut self.front } else { &mut self.back };
        found.clear();
        let (bounds, limit) = ((slice_of(&self.from), slice_of(&self.to)), self.batch);
        self.tx.begin_step(&mut self.walk);
        let (walk, ahead) = (&mut self.walk, &mut self.ahead);
        self.tx.words(|tx| {
            let tree = map.tree(tx)?;
            let further = if limit < BATCH { None } else { ahead.further(|| tx.pages_waited_for()) };
            tree.scan(tx, walk, bounds, (ascending, further), |tx, walk, leaf| {
                found.leaf(tx, walk, leaf, (ascending, limit))
            })?;
            // A page may be damaged. A key outside the bounds would be fetched twice.
            let ends = [found.pairs.first(), found.pairs.last()].into_iter().flatten();
            if ends.copied().any(|pair| !contains(bounds, found.key(pair))) {
                return Err(fail_out_of_order(tx));
            }
            Ok(())
        })?;
        self.batch = (2 * self.batch).min(BATCH);
        match found.pairs.last().map(|&last| Bound::Excluded(found.key(last).to_vec())) {
            Some(last) if ascending => self.from = last,
            Some(last) => self.to = last,
            None => self.is_over = true,
        }
        Ok(())
    }

    /// Takes the next pair at one end, and returns the result of `read` for it.
    fn pull<R>(
        &mut self,
        ascending: bool,
        read: impl FnOnce(&Batch, Pair) -> Result<R, Invalid>,
    ) -> Option<Result<R>> {
        let own = if ascending { &mut self.front } else { &mut self.back };
        let (batch, pair) = match own.take_first() {
            Some(pair) => (&*own, pair),
            None => match self.more(ascending) {
                Ok(Some((is_front, pair))) => (if is_front { &self.front } else { &self.back }, pair),
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            },
        };
        match read(batch, pair) {
            Ok(pair) => Some(Ok(pair)),
            Err(Invalid) => Some(Err(self.invalid())),
        }
    }

    /// Fetches a batch, since the last one of this end is used up. Returns the next pair, and whether it is from the front batch.
    #[inline(never)]
    fn more(&mut self, ascending: bool) -> Result<Option<(bool, Pair)>> {
        if !self.is_over
            && let Err(error) = self.fetch(ascending)
        {
            return Err(self.end(error));
        }
        let (own, other) =
            if ascending { (&mut self.front, &mut self.back) } else { (&mut self.back, &mut self.front) };
        // The last pairs may already have been fetched from the other end.
        let found = own.take_first().map(|pair| (ascending, pair));
        Ok(found.or_else(|| other.take_last().map(|pair| (!ascending, pair))))
    }

    #[cold]
    fn invalid(&mut self) -> Error {
        let at = self.map.address().offset();
        let damaged = format!(
            "the ordered map at {at:#x} has a key that is not valid, or a value that is not of type {}",
            V::NAME
        );
        let error = self.tx.words(|tx| Err::<(), _>(tx.fail(Error::damaged(damaged))));
        let error = error.expect_err("it has failed");
        self.end(error)
    }

    /// Ends the iteration: after an error no pair follows.
    fn end(&mut self, error: Error) -> Error {
        self.is_over = true;
        self.front.clear();
        self.back.clear();
        error
    }

    fn read_key(batch: &Batch, pair: Pair) -> Result<K, Invalid> {
        let mut rest = batch.key(pair);
        let key = K::read_key(&mut rest)?;
        if rest.is_empty() { Ok(key) } else { Err(Invalid) }
    }

    fn read_pair(batch: &Batch, pair: Pair) -> Result<(K, V), Invalid> {
        let key = Self::read_key(batch, pair)?;
        Ok((key, V::decode(batch.value(pair), pair.value_bytes, Stored::new())?))
    }

    fn pull_with<R>(&mut self, ascending: bool, read: impl FnOnce(K, &V::Borrowed) -> R) -> Option<Result<R>>
    where
        V: Readable,
    {
        self.pull(ascending, |batch, pair| {
            let key = Self::read_key(batch, pair)?;
            V::borrowed(batch.bytes(pair.value, pair.value_bytes as usize)).map(|value| read(key, value))
        })
    }

    /// Like `next`, but returns the result of `read`, which is called with the key and the value. The value is a string or bytes, and is read without
    /// an allocation for each value.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// for (key, text) in [(1u64, "high"), (2, "water")] {
    ///     map.insert(tx, &key, &text.to_string())?;
    /// }
    /// let (mut all, mut bytes) = (map.iter(tx), 0);
    /// while let Some(length) = all.next_with(|_, text| text.len()) {
    ///     bytes += length?;
    /// }
    /// assert_eq!(bytes, 9);
    /// # Ok(())
    /// # });
    /// ```
    pub fn next_with<R>(&mut self, read: impl FnOnce(K, &V::Borrowed) -> R) -> Option<Result<R>>
    where
        V: Readable,
    {
        self.pull_with(true, read)
    }

    /// Like [`next_with`](Self::next_with), from the other end.
    pub fn next_back_with<R>(&mut self, read: impl FnOnce(K, &V::Borrowed) -> R) -> Option<Result<R>>
    where
        V: Readable,
    {
        self.pull_with(false, read)
    }
}

impl<'p, K: Key, V: Persist<'p>, C: Control> Iterator for Range<'_, 'p, K, V, C> {
    type Item = Result<(K, V)>;
    fn next(&mut self) -> Option<Result<(K, V)>> {
        self.pull(true, Self::read_pair)
    }
}

impl<'p, K: Key, V: Persist<'p>, C: Control> DoubleEndedIterator for Range<'_, 'p, K, V, C> {
    fn next_back(&mut self) -> Option<Result<(K, V)>> {
        self.pull(false, Self::read_pair)
    }
}

debug_as_name! { Range<'_, '_; K, V> }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_the_disk_is_read_ahead_for_some_batches() {
        let mut ahead = Ahead::default();
        let mut further = |now| ahead.further(|| now);
        // Waits from before the range began do not count.
        assert!((0..ASK_EVERY).all(|_| further(7).is_none()));
        assert_eq!([8, 8, 8].map(&mut further), [1 << 16, 1 << 17, 1 << 18].map(Some));
        let rest = (3..BATCHES_AHEAD).filter(|_| further(8).is_some()).count();
        assert_eq!((rest as u32 + 3, further(8)), (BATCHES_AHEAD, None));
        // The amount restarts at the smallest, and has a bound.
        assert_eq!(further(9), Some(FURTHER.start));
        assert_eq!((10..40).map(&mut further).last(), Some(Some(FURTHER.end)));
    }
}
