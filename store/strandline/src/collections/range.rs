//! Iteration over an ordered map, from either end.
//!
//! Pairs are fetched in batches, at first few, then more, as words one after the other in one buffer. Where the next batch
//! begins is a key, so that it does not matter what becomes of the trees in the meantime.
//!
//! *Iteration ends at the end.* A batch is full when it holds as many pairs as are asked for, or at least one pair and so many words. So a batch
//! without a pair says that nothing is left between the bounds, however long the entries are. What is read of an entry outside the
//! bounds takes no room in the batch.

use std::ops::{Bound, ControlFlow, Range as Between};

use super::layers::{
    BATCH, EntryBlock, LAYER, MAX_KEY_BYTES, NEAR, Slot, Tree, is_at, key_word, layer, lengths, word_of,
};
use super::ordered_map::OrderedMap;
use crate::value::key::Key;
use crate::value::persist::{Invalid, Persist, Readable, Stored};
use crate::value::transaction::{Control, View, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::{Error, Result};
use strandline_core::memory::{LINE_WORDS, PersistentAddress};
use strandline_core::structures::Walk;
use strandline_core::structures::bytes::FEW;
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
    pub(crate) front: Batch,
    /// The greatest key first.
    pub(crate) back: Batch,
    /// Pairs to fetch next time.
    pub(crate) batch: usize,
    pub(crate) walk: Walk,
    pub(crate) ahead: Ahead,
    /// Nothing is left between the bounds, or fetching it has failed.
    pub(crate) is_over: bool,
}

/// The name of entries in errors of a [`Walk`].
const ENTRY: &str = "an ordered map's entry";

/// A batch is full with so many words.
const FULL: usize = 1 << 16;
/// Words read of an entry before its length is known: whole lines, and no more than would cost little in vain.
const LEAST_AHEAD: usize = LINE_WORDS as usize;
const MOST_AHEAD: usize = 4 * LEAST_AHEAD;
const _: () = assert!(MOST_AHEAD as u64 <= FEW);

/// Pairs that were fetched.
#[derive(Default)]
pub(crate) struct Batch {
    /// The pairs' words, and room for more behind `used` of them.
    words: Vec<u64>,
    used: usize,
    pairs: Vec<Pair>,
    /// Pairs that were taken from the front.
    taken: usize,
    /// Words of the longest entry of late, which those to come may have.
    expected: usize,
}

/// Where a pair is among the words of its batch: the key's bytes in whole words, the value behind them.
#[derive(Clone, Copy)]
struct Pair {
    at: usize,
    key_bytes: usize,
    value_bytes: u64,
}

impl Batch {
    fn key(&self, pair: Pair) -> &[u8] {
        &bytemuck::cast_slice(&self.words[pair.at..])[..pair.key_bytes]
    }

    fn value(&self, pair: Pair) -> &[u64] {
        let words = pair.value_bytes.div_ceil(8) as usize;
        &self.words[pair.at + pair.key_bytes.div_ceil(8)..][..words]
    }

    fn clear(&mut self) {
        (self.used, self.taken) = (0, 0);
        self.pairs.clear();
    }

    fn is_empty(&self) -> bool {
        self.taken == self.pairs.len()
    }

    /// Words to read of an entry before its length is known.
    fn ahead(&self) -> usize {
        self.expected.next_multiple_of(LEAST_AHEAD).clamp(LEAST_AHEAD, MOST_AHEAD)
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

/// Lets the first words come near of what slots lead to.
fn prefetch(tx: &impl Read, slots: &[(u64, u64)], words: usize) {
    for &(_, slot) in slots {
        tx.prefetch(Slot::at(slot), words);
    }
}

/// Batches that are read ahead after one that had to wait for the disk.
const BATCHES_AHEAD: u32 = 16;
/// Batches to each question how often the thread has waited, until it has: the question takes as long as some rows.
const ASK_EVERY: u32 = 16;
/// Bytes to read behind a batch, at first and at most.
const FURTHER: Between<u64> = 1 << 16..1 << 22;

/// Whether what a range fetches has to come from the disk: then the entries of a whole batch are asked for at once.
#[derive(Default)]
pub(crate) struct Ahead {
    /// How often the thread had waited for the disk when it was last asked.
    waited: Option<u64>,
    /// Batches since then.
    unasked: u32,
    /// It had waited for a batch of this range.
    has_waited: bool,
    /// Batches that are still to be read ahead.
    batches: u32,
    /// Bytes to read behind them: more, the longer it lasts.
    further: u64,
}

impl Ahead {
    /// How many bytes to read behind the next batch, if it is to be read ahead, since one of the last had to wait. `now`: how often the
    /// thread has waited for the disk.
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

/// What a batch is fetched from.
struct Fetch<'b> {
    from: &'b Bound<Vec<u8>>,
    to: &'b Bound<Vec<u8>>,
    ascending: bool,
    limit: usize,
    /// The words that led to the layer that is being fetched from.
    path: Vec<u64>,
    walk: &'b mut Walk,
    /// Entries are asked for before they are read, and so many bytes behind them.
    ahead: Option<u64>,
    found: &'b mut Batch,
}

impl Fetch<'_> {
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

    fn is_full(&self) -> bool {
        let pairs = self.found.pairs.len();
        pairs >= self.limit || pairs > 0 && self.found.used >= FULL
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
        // Where this goes on behind a pair, its word is met again.
        let again = usize::from(if self.ascending { low.is_some() } else { high.is_some() });
        let mut slots = Vec::with_capacity(self.limit - self.found.pairs.len() + again);
        loop {
            let most = self.limit - self.found.pairs.len() + again;
            slots.clear();
            let visit = |word, slot| {
                slots.push((word, slot));
                Ok(if slots.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            if self.ascending {
                tree.scan_in(tx, self.walk, (from, to), visit)?;
            } else {
                tree.scan_back_in(tx, self.walk, (from, to), visit)?;
            }
            if slots.is_empty() && depth > 0 && low.is_none() && high.is_none() {
                return Err(tx.fail(Error::Damaged("an ordered map has an empty layer".into())));
            }
            if inline {
                for &(word, value) in &slots {
                    self.pair(word, value, (low == Some(word), high == Some(word)));
                }
            } else {
                self.slots(tx, &slots, depth, (low, high))?;
            }
            if self.is_full() {
                return Ok(());
            }
            match slots.last() {
                Some(&(word, _)) if slots.len() == most && self.ascending => from = Bound::Excluded(word),
                Some(&(word, _)) if slots.len() == most => to = Bound::Excluded(word),
                _ => return Ok(()),
            }
        }
    }

    /// Fetches from what slots lead to until there are enough. `bounds`: words of the range's ends.
    fn slots(
        &mut self,
        tx: &mut impl Read,
        slots: &[(u64, u64)],
        depth: usize,
        bounds: (Option<u64>, Option<u64>),
    ) -> Result<(), Abort> {
        if let Some(further) = self.ahead {
            let mut places: Vec<_> = slots.iter().map(|&(_, slot)| Slot::at(slot)).collect();
            tx.read_ahead(&mut places, self.found.expected.max(LEAST_AHEAD), further);
        }
        let mut chunks = slots.chunks(NEAR).peekable();
        prefetch(tx, &slots[..slots.len().min(NEAR)], self.found.ahead());
        while let Some(near) = chunks.next() {
            let each = self.found.ahead();
            if let Some(next) = chunks.peek() {
                prefetch(tx, next, each);
            }
            if let Some(&(_, first)) = near.first() {
                self.walk.visit(tx, ENTRY, Slot::at(first), (each * near.len()) as u64)?;
            }
            let ahead = self.read_ahead(tx, near, each);
            let (mut longest, mut done) = (0, 0);
            loop {
                // A layer may have filled the batch, and not be at its end: what is behind it comes later.
                if let Some(begin) = ahead
                    && !self.is_full()
                {
                    let rest = (begin + each * done, each);
                    let (plain, words) = self.plain_entries(&near[done..], rest, bounds);
                    (longest, done) = (longest.max(words), done + plain);
                }
                if self.is_full() {
                    return Ok(());
                }
                let Some(&(word, slot)) = near.get(done) else { break };
                let edges = (bounds.0 == Some(word), bounds.1 == Some(word));
                if slot & LAYER == 0 {
                    let entry = EntryBlock::load(tx, Slot::at(slot))?;
                    longest = longest.max(entry.words());
                    self.entry(tx, entry, word, edges)?;
                } else {
                    self.walk.visit(tx, "an ordered map's layer", Slot::at(slot), LINE_WORDS)?;
                    let next = layer(tx, Slot::at(slot))?;
                    self.path.push(word);
                    self.layer(tx, next, depth + 1, edges, false)?;
                    self.path.pop();
                }
                done += 1;
            }
            self.found.expected = longest;
        }
        Ok(())
    }

    /// Keeps a pair that is one of the tree's.
    fn pair(&mut self, word: u64, value: u64, edges: (bool, bool)) {
        let at = self.found.used;
        self.found.words.truncate(at);
        self.found.words.extend([key_word(word), value]);
        self.found.used = at + 2;
        if !self.keep(Pair { at, key_bytes: 8, value_bytes: 8 }, edges) {
            self.found.used = at;
        }
    }

    /// Reads the first `each` words of what each slot leads to, if that can be done at once: where they are among the batch's words.
    fn read_ahead(&mut self, tx: &mut impl Read, slots: &[(u64, u64)], each: usize) -> Option<usize> {
        let mut places = [PersistentAddress::NULL; NEAR];
        for (place, &(_, slot)) in places.iter_mut().zip(slots) {
            *place = Slot::at(slot);
        }
        let begin = self.found.used;
        let end = begin + each * slots.len();
        if self.found.words.len() < end {
            self.found.words.resize(end, 0);
        }
        if !tx.read_at_once(&places[..slots.len()], each, &mut self.found.words[begin..end]) {
            return None;
        }
        self.found.used = end;
        Some(begin)
    }

    /// Keeps the pairs of those entries that come first and need no closer look: all their words are there, from `begin` on `each`
    /// words for each of them, and they have their place in the middle of the range. Returns how many there are, and the words of the longest.
    #[inline(never)]
    fn plain_entries(
        &mut self,
        slots: &[(u64, u64)],
        (begin, each): (usize, usize),
        bounds: (Option<u64>, Option<u64>),
    ) -> (usize, usize) {
        let (depth, path) = (self.path.len(), &self.path);
        let Batch { words, pairs, .. } = &mut *self.found;
        let (most, before) = (self.limit - pairs.len(), pairs.len());
        let mut longest = 0;
        for (i, (&(word, slot), entry)) in
            slots.iter().zip(words[begin..].chunks_exact(each)).take(most).enumerate()
        {
            let (key_bytes, value_bytes) = lengths(entry[0]);
            let key_words = key_bytes.div_ceil(8) as usize;
            let words = 1 + key_words + value_bytes.div_ceil(8) as usize;
            let is_plain = slot & LAYER == 0
                && words <= each
                && key_bytes >= 8 * (depth as u64 + 1)
                && key_word(entry[1 + depth]) == word
                && bounds.0 != Some(word)
                && bounds.1 != Some(word)
                && entry[1..].iter().zip(path).all(|(&stored, &word)| key_word(stored) == word);
            if !is_plain {
                break;
            }
            longest = words.max(longest);
            pairs.push(Pair { at: begin + each * i + 1, key_bytes: key_bytes as usize, value_bytes });
        }
        (pairs.len() - before, longest)
    }

    /// Keeps the pair in an entry to which `word` has led.
    fn entry(
        &mut self,
        tx: &mut impl Read,
        entry: EntryBlock,
        word: u64,
        edges: (bool, bool),
    ) -> Result<(), Abort> {
        let at = self.found.used;
        self.found.used = entry.read(tx, &mut self.found.words, at)?;
        self.walk.visit(tx, ENTRY, entry.at, entry.words() as u64)?;
        let pair = Pair { at, key_bytes: entry.key_bytes as usize, value_bytes: entry.value_bytes };
        // So that each is fetched once, however layers may lead to one another.
        if !is_at(self.found.key(pair), &self.path, word) {
            return Err(tx.fail(Error::Damaged("an ordered map has a key astray".into())));
        }
        if !self.keep(pair, edges) {
            self.found.used = at;
        }
        Ok(())
    }

    /// Keeps a pair that has been read, if its key lies between the bounds; whether it does. The key begins with the words that led to it,
    /// which lie between those of the bounds: so only one whose words are a bound's so far can be outside.
    fn keep(&mut self, pair: Pair, edges: (bool, bool)) -> bool {
        let is_on_edge = edges.0 || edges.1;
        let is_inside = !is_on_edge || self.contains(self.found.key(pair));
        if is_inside {
            self.found.pairs.push(pair);
        }
        is_inside
    }
}

impl<'p, K: Key, V: Persist<'p>, C: Control> Range<'_, 'p, K, V, C> {
    /// Fetches the next pairs at one end, where none is left.
    fn fetch(&mut self, ascending: bool) -> Result<()> {
        let map = self.map;
        let found = if ascending { &mut self.front } else { &mut self.back };
        found.clear();
        let (from, to, limit) = (&self.from, &self.to, self.batch);
        self.tx.begin_step(&mut self.walk);
        let (walk, ahead) = (&mut self.walk, &mut self.ahead);
        self.tx.words(|tx| {
            let tree = map.first_layer(tx)?;
            let path = Vec::new();
            let ahead = if limit < NEAR { None } else { ahead.further(|| tx.pages_waited_for()) };
            Fetch { from, to, ascending, limit, path, walk, ahead, found: &mut *found }.layer(
                tx,
                tree,
                0,
                (true, true),
                OrderedMap::<K, V>::INLINE,
            )
        })?;
        self.batch = (2 * self.batch).min(BATCH);
        match found.pairs.last().map(|&last| Bound::Excluded(found.key(last).to_vec())) {
            Some(last) if ascending => self.from = last,
            Some(last) => self.to = last,
            None => self.is_over = true,
        }
        Ok(())
    }

    /// The next pair at one end: what `read` makes of it.
    fn pull<R>(
        &mut self,
        ascending: bool,
        read: impl FnOnce(&Batch, Pair) -> Result<R, Invalid>,
    ) -> Option<Result<R>> {
        let own = if ascending { &mut self.front } else { &mut self.back };
        let (is_front, pair) = match own.take_first() {
            Some(pair) => (ascending, pair),
            None => match self.more(ascending) {
                Ok(found) => found?,
                Err(error) => return Some(Err(error)),
            },
        };
        match read(if is_front { &self.front } else { &self.back }, pair) {
            Ok(pair) => Some(Ok(pair)),
            Err(Invalid) => Some(Err(self.invalid())),
        }
    }

    /// Fetches where no pair is left at one end: the next one, and whether it was fetched from the front.
    #[inline(never)]
    fn more(&mut self, ascending: bool) -> Result<Option<(bool, Pair)>> {
        if !self.is_over
            && let Err(error) = self.fetch(ascending)
        {
            return Err(self.end(error));
        }
        let (own, other) =
            if ascending { (&mut self.front, &mut self.back) } else { (&mut self.back, &mut self.front) };
        // The last ones may have been fetched from the other end.
        let found = own.take_first().map(|pair| (ascending, pair));
        Ok(found.or_else(|| other.take_last().map(|pair| (!ascending, pair))))
    }

    #[cold]
    fn invalid(&mut self) -> Error {
        let at = self.map.address().offset();
        let damaged =
            format!("an ordered map at {at:#x} has an impossible key, or no value of type {}", V::NAME);
        let error = self.tx.words(|tx| Err::<(), _>(tx.fail(Error::Damaged(damaged))));
        let error = error.expect_err("it has failed");
        self.end(error)
    }

    /// Nothing comes after an error.
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
            let bytes = &bytemuck::cast_slice(batch.value(pair))[..pair.value_bytes as usize];
            V::borrowed(bytes).map(|value| read(key, value))
        })
    }

    /// As `next`, with what `read` makes of the key and of the value, which is a string or bytes and gets no memory of its own.
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

    /// As [`next_with`](Self::next_with), from the other end.
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
        // What the thread waited for before the range began does not count.
        assert!((0..ASK_EVERY).all(|_| further(7).is_none()));
        assert_eq!([8, 8, 8].map(&mut further), [1 << 16, 1 << 17, 1 << 18].map(Some));
        let rest = (3..BATCHES_AHEAD).filter(|_| further(8).is_some()).count();
        assert_eq!((rest as u32 + 3, further(8)), (BATCHES_AHEAD, None));
        // It begins small again, and has a bound.
        assert_eq!(further(9), Some(FURTHER.start));
        assert_eq!((10..40).map(&mut further).last(), Some(Some(FURTHER.end)));
    }
}
