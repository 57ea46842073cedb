//! A hash map: a [`KeyValueStore`](strandline_core::structures::KeyValueStore) whose keys and values have types.
//!
//! ```text
//! header   word 0 tag · word 1 buckets | the address of the counters, else 0, << 16 · word 2 the address of the buckets
//! ```
//!
//! A map with the smallest number of buckets gets its counters when one of its buckets becomes a further table for the first time. Until then it has few keys, and a
//! walk counts them.

use std::borrow::Borrow;
use std::collections::VecDeque;

use super::entry::{Entry, Map, look_at_pair};
use crate::value::check::{Checker, Look, Pair};
use crate::value::key::{Key, KeyBytes, KeyRef};
use crate::value::persist::{Persist, Stored, replaced};
use crate::value::pointer::{check_block, handle, invalid, persist_handle, read_tagged};
use crate::value::transaction::{Control, Tx, View, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::Result;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::type_layout as layout;
use strandline_core::structures::{Counters, KeyValueStore, Position, Survey, with_buffer};
use strandline_core::transaction::{Abort, Read, Transaction};

pub(crate) const HEADER_WORDS: usize = 1 + KeyValueStore::HEADER_WORDS;
/// The word of the header that has the number of buckets and the address of the counters.
const COUNTERS: usize = 1;
const BUCKETS: u64 = 8;
/// The largest number of buckets that a new map may have. Creating more would write too much in one transaction.
const MAX_BUCKETS: u64 = 1 << 14;

handle! {
    /// An unordered map, which grows with its content. Keys and values may be of any size.
    ///
    /// A map can be a value of another map. The outer map then stores the handle of the inner one, which takes one word.
    ///
    /// ```
    /// # use strandline::*;
    /// #[derive(Persist)]
    /// struct Index<'p> {
    ///     /// How often each word is in each document.
    ///     words: HashMap<'p, String, HashMap<'p, u64, u32>>,
    /// }
    ///
    /// # let path = example::path();
    /// let index = Store::<Index>::create_new(&path, &Options::default(), |tx| {
    ///     Ok(Index { words: HashMap::new(tx)? })
    /// })?;
    /// index.write(|tx, root| {
    ///     let words = root.get(tx)?.words;
    ///     for word in ["wave", "sand", "wave"] {
    ///         let documents = words.entry(tx, word.to_string())?.or_insert_with(|| HashMap::new(tx))?;
    ///         documents.entry(tx, 7)?.and_modify(|count| *count += 1)?.or_insert(1)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// let count = index.read(|tx, root| {
    ///     let documents = root.get(tx)?.words.get(tx, "wave")?.unwrap();
    ///     documents.get(tx, &7)
    /// })?;
    /// assert_eq!(count, Some(2));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    HashMap<K, V>, "HashMap"
}

persist_handle!('p, HashMap<K: Key, V: Persist<'p>>, "HashMap", owned: true);

/// Returns the tag of a map whose keys and values have these layouts.
pub(crate) const fn tag(key: u64, value: u64) -> u64 {
    layout::tag(layout::field(layout::field(layout::begin("HashMap", 1), "", key), "", value))
}

/// Returns the key-value store and the counters of the map at `at`, which must have the tag `tag`.
fn store(tx: &mut impl Read, at: PersistentAddress, tag: u64) -> Result<(KeyValueStore, Counters), Abort> {
    let [_, buckets, first] = read_tagged::<HEADER_WORDS>(tx, at, tag, "HashMap")?;
    let (buckets, counters) = Counters::split(buckets);
    Ok((KeyValueStore::of_header(tx, at.word(COUNTERS as u64), [buckets, first])?, counters))
}

/// Checks the map at `at`, which must have the tag `tag`, and calls `pair` for each of its pairs.
pub(crate) fn survey<'v, 'p>(
    checker: &mut Checker<'v, 'p>,
    at: PersistentAddress,
    tag: u64,
    pair: Pair<'_, 'v, 'p>,
) -> Result<()> {
    let Some((store, counters)) = checker.read(|tx| store(tx, at, tag))? else { return Ok(()) };
    let (mut keys, before) = (0, checker.noted());
    store.survey(checker, |checker, at, key, words, bytes| {
        keys += 1;
        pair(checker, at, key, words, bytes)
    })?;
    // A walk that meets damage may miss keys, so that their number says nothing about the counters.
    let keys = (checker.noted() == before).then_some(keys);
    counters.survey(checker, keys, ("hash map", at))
}

impl<'p, K: Key, V: Persist<'p>> HashMap<'p, K, V> {
    const TAG: u64 = tag(K::LAYOUT, V::LAYOUT);

    /// Creates an empty map.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    pub fn new(tx: &Tx<'p, impl Control>) -> Result<Self> {
        Self::with_capacity(tx, 0)
    }

    /// Creates an empty map with one bucket for every two of `keys` keys, but at most 16,384 buckets, which is as many as one transaction can create.
    /// Every map grows as it fills; one that was created for its size needs one step less for each access.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = HashMap::<u64, u64>::with_capacity(tx, 1000)?;
    /// assert!(map.is_empty(tx)?);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`HashMap::new`].
    pub fn with_capacity(tx: &Tx<'p, impl Control>, keys: u64) -> Result<Self> {
        let buckets = (keys / 2).next_power_of_two().clamp(BUCKETS, MAX_BUCKETS);
        tx.words(|tx| {
            let at = tx.alloc(8 * HEADER_WORDS as u64)?;
            tx.write(at, Self::TAG)?;
            let store = KeyValueStore::create_at(tx, at.word(1), buckets)?;
            let map = Self::at(at);
            if buckets > BUCKETS {
                map.start_counting(tx, &store)?;
            }
            Ok(map)
        })
    }

    fn store(self, tx: &mut impl Read) -> Result<(KeyValueStore, Counters), Abort> {
        store(tx, self.raw.at, Self::TAG)
    }

    /// Gives the map counters, after a walk that counts its keys.
    fn start_counting(self, tx: &mut impl Transaction, store: &KeyValueStore) -> Result<(), Abort> {
        check_block(tx, self.raw.at, HEADER_WORDS, "HashMap")?;
        let keys = store.count(tx)?;
        let counters = Counters::start(tx, keys)?;
        tx.write(self.raw.at.word(COUNTERS as u64), counters.joined(store.buckets()))
    }

    /// Counts a key that was inserted.
    fn count_inserted(
        self,
        tx: &mut impl Transaction,
        (store, counters): (KeyValueStore, Counters),
    ) -> Result<(), Abort> {
        if !counters.exist() && store.tables(tx)? > 0 {
            return self.start_counting(tx, &store);
        }
        counters.add(tx, 1)
    }

    fn decode(
        tx: &mut impl Transaction,
        at: PersistentAddress,
        value: Option<Option<V>>,
    ) -> Result<Option<V>, Abort> {
        match value {
            Some(None) => Err(invalid(tx, at, V::NAME)),
            Some(value) => Ok(value),
            None => Ok(None),
        }
    }

    /// Returns a copy of the value of `key`, or `None` if the map does not have the key.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = HashMap::new(tx)?;
    /// map.insert(tx, &"apples".to_string(), &40u64)?;
    /// assert_eq!(map.get(tx, "apples")?, Some(40));
    /// assert_eq!(map.get(tx, "pears")?, None);
    /// assert!(map.contains_key(tx, "apples")?);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Dangling`](crate::Error::Dangling) if the map was destroyed, and an error after a conflict.
    pub fn get<Q: KeyRef + ?Sized>(self, tx: &View<'p, impl Control>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        let key = KeyBytes::of(key);
        tx.words(|tx| {
            let (store, _) = self.store(tx)?;
            let value = store
                .get_words(tx, key.as_slice(), |words, bytes| V::decode(words, bytes, Stored::new()).ok())?;
            Self::decode(tx, self.raw.at, value)
        })
    }

    /// Returns whether the map has `key`.
    ///
    /// # Errors
    /// Returns the same errors as [`HashMap::get`].
    pub fn contains_key<Q: KeyRef + ?Sized>(self, tx: &View<'p, impl Control>, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
    {
        let key = KeyBytes::of(key);
        tx.words(|tx| self.store(tx)?.0.contains_key(tx, key.as_slice()))
    }

    /// Sets the value of `key` to `value`, and returns the previous value if there was one. If both values have the same size, only the words that
    /// differ are written.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = HashMap::new(tx)?;
    /// assert_eq!(map.insert(tx, &7u64, &"seven".to_string())?, None);
    /// assert_eq!(map.insert(tx, &7u64, &"sept".to_string())?.as_deref(), Some("seven"));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, and the errors of [`HashMap::get`].
    pub fn insert(self, tx: &Tx<'p, impl Control>, key: &K, value: &V) -> Result<Option<V>> {
        if !V::OWNS {
            return self.put(tx, key, value);
        }
        let old = self.put(tx, key, value)?;
        if let Some(old) = &old {
            replaced(tx, old, Some(value))?;
        }
        Ok(old)
    }

    /// Like [`insert`](Self::insert), but keeps the collections in the previous value. `insert` returns this result directly when there is nothing to
    /// destroy: copying it would make wide loads wait for the narrower stores before them.
    fn put(self, tx: &Tx<'p, impl Control>, key: &K, value: &V) -> Result<Option<V>> {
        tx.words(|tx| {
            KeyBytes::with(key, |key| {
                let (store, counters) = self.store(tx)?;
                let bytes = value.bytes();
                let old = with_buffer(bytes.div_ceil(8), |words| {
                    value.encode(words);
                    let old = |words: &[u64], bytes| V::decode(words, bytes, Stored::new()).ok();
                    store.insert_words(tx, key, words, bytes, old)
                })?;
                if old.is_none() {
                    self.count_inserted(tx, (store, counters))?;
                }
                Self::decode(tx, self.raw.at, old)
            })
        })
    }

    /// Removes `key` and returns its value, or `None` if the map does not have the key. Collections in the value are destroyed; objects that it
    /// points to are kept.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = HashMap::new(tx)?;
    /// map.insert(tx, &7u64, &true)?;
    /// assert_eq!((map.remove(tx, &7)?, map.remove(tx, &7)?), (Some(true), None));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`HashMap::insert`].
    pub fn remove<Q: KeyRef + ?Sized>(self, tx: &Tx<'p, impl Control>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        let old = self.take(tx, key)?;
        if let Some(old) = &old {
            replaced(tx, old, None)?;
        }
        Ok(old)
    }

    /// Like [`remove`](Self::remove), but keeps the collections in the value. The caller stores them elsewhere or destroys them.
    ///
    /// # Errors
    /// Returns the same errors as [`HashMap::insert`].
    pub fn take<Q: KeyRef + ?Sized>(self, tx: &Tx<'p, impl Control>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        let key = KeyBytes::of(key);
        tx.words(|tx| {
            let (store, counters) = self.store(tx)?;
            let old = store.remove_words(tx, key.as_slice(), |words, bytes| {
                V::decode(words, bytes, Stored::new()).ok()
            })?;
            if old.is_some() {
                counters.add(tx, -1)?;
            }
            Self::decode(tx, self.raw.at, old)
        })
    }

    /// Returns the entry of `key`, through which the caller can read and change its value.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let words = HashMap::new(tx)?;
    /// for word in ["tide", "sea", "tide"] {
    ///     words.entry(tx, word.to_string())?.and_modify(|count| *count += 1)?.or_insert(1u64)?;
    /// }
    /// assert_eq!(words.get(tx, "tide")?, Some(2));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`HashMap::get`].
    pub fn entry<'t, C: Control>(self, tx: &'t Tx<'p, C>, key: K) -> Result<Entry<'t, 'p, K, V, Self, C>> {
        Entry::new(tx, self, key)
    }

    /// Returns the number of keys, in the same time for a map of any size. A transaction that calls this and also writes conflicts with transactions
    /// that insert or remove keys at the same time. Insertions and removals by different threads do not conflict because of the count: each worker
    /// counts on a cache line of its own.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = HashMap::new(tx)?;
    /// map.insert(tx, &1u64, &10u64)?;
    /// assert_eq!(map.len(tx)?, 1);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`HashMap::get`].
    pub fn len(self, tx: &View<'p, impl Control>) -> Result<u64> {
        tx.words(|tx| {
            let (store, counters) = store(tx, self.raw.at, Self::TAG)?;
            counters.sum(tx)?.map_or_else(|| store.count(tx), Ok)
        })
    }

    /// Returns whether the map has no keys.
    ///
    /// # Errors
    /// Returns the same errors as [`HashMap::get`].
    pub fn is_empty(self, tx: &View<'p, impl Control>) -> Result<bool> {
        Ok(self.iter(tx).next().transpose()?.is_none())
    }

    /// Returns an iterator over all keys and values, in no particular order. Keys that the transaction inserts or removes during the iteration may be
    /// returned or not.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = HashMap::new(tx)?;
    /// map.insert(tx, &1u64, &10u64)?;
    /// map.insert(tx, &2, &20)?;
    /// let mut pairs: Vec<(u64, u64)> = map.iter(tx).collect::<Result<_, _>>()?;
    /// pairs.sort();
    /// assert_eq!(pairs, [(1, 10), (2, 20)]);
    /// # Ok(())
    /// # });
    /// ```
    pub fn iter<'v, C: Control>(self, tx: &'v View<'p, C>) -> HashMapIter<'v, 'p, K, V, C> {
        HashMapIter { tx, map: self, position: Some(Position::default()), found: VecDeque::new() }
    }

    /// Checks the map and everything that it refers to, and returns a list of problems. The list is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = HashMap::new(tx)?;
    /// map.insert(tx, &7u64, &"seven".to_string())?;
    /// assert!(map.check(tx)?.is_empty());
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn check(self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        Checker::run(tx, |checker| self.reach(checker))
    }

    fn reach(self, checker: &mut Checker<'_, 'p>) -> Result<()> {
        checker.pointer(self.raw.at, Self::TAG, HEADER_WORDS as u64, "HashMap", Look::Typed(Self::look))
    }

    fn look(checker: &mut Checker<'_, 'p>, at: PersistentAddress) -> Result<()> {
        survey(checker, at, Self::TAG, &mut |checker, node, key, words, bytes| {
            look_at_pair::<K, V>(checker, node, key, words, bytes)
        })
    }

    /// Removes all keys and frees the map's memory. Collections in its values are destroyed; objects that the values point to are kept. Every copy of
    /// this handle dangles afterwards.
    ///
    /// One transaction has to hold all these changes. To destroy a large map, remove its keys in several transactions first.
    ///
    /// # Errors
    /// Returns the same errors as [`HashMap::insert`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        // Collections in the values are destroyed after the map itself. In a cycle, the next collection then finds that the map no longer exists.
        let values = if V::OWNS { self.iter(tx).collect::<Result<Vec<_>>>()? } else { Vec::new() };
        tx.words(|tx| {
            check_block(tx, self.raw.at, HEADER_WORDS, "HashMap")?;
            let (store, counters) = self.store(tx)?;
            store.destroy(tx)?;
            counters.free(tx)?;
            tx.write(self.raw.at, 0)?;
            tx.free(self.raw.at)
        })?;
        values.iter().try_for_each(|(_, value)| replaced(tx, value, None))
    }
}

impl<'p, K: Key, V: Persist<'p>> Map<'p, K, V> for HashMap<'p, K, V> {
    fn get(self, tx: &View<'p, impl Control>, key: &K) -> Result<Option<V>> {
        HashMap::get(self, tx, key)
    }
    fn insert(self, tx: &Tx<'p, impl Control>, key: &K, value: &V) -> Result<Option<V>> {
        HashMap::insert(self, tx, key, value)
    }
    fn remove(self, tx: &Tx<'p, impl Control>, key: &K) -> Result<Option<V>> {
        HashMap::remove(self, tx, key)
    }
}

/// An iterator over the keys and values of a [`HashMap`]. [`HashMap::iter`] creates it.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// #[derive(Persist)]
/// struct Shop<'p> {
///     stock: HashMap<'p, String, u64>,
/// }
///
/// let store = Store::<Shop>::create_new(&path, &options, |tx| {
///     let stock = HashMap::new(tx)?;
///     stock.insert(tx, &"pens".to_string(), &3)?;
///     stock.insert(tx, &"pads".to_string(), &4)?;
///     Ok(Shop { stock })
/// })?;
/// // An item is a `Result`, since reading may fail.
/// let pieces = store.read(|tx, root| {
///     root.get(tx)?.stock.iter(tx).map(|item| Ok(item?.1)).sum::<strandline::Result<u64>>()
/// })?;
/// assert_eq!(pieces, 7);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct HashMapIter<'v, 'p, K, V, C: Control = Stm> {
    tx: &'v View<'p, C>,
    map: HashMap<'p, K, V>,
    /// `None` at the end.
    position: Option<Position>,
    found: VecDeque<(K, V)>,
}

impl<'p, K: Key, V: Persist<'p>, C: Control> HashMapIter<'_, 'p, K, V, C> {
    /// Fetches the pairs of the next chain.
    fn fetch(&mut self) -> Result<()> {
        let (map, position, found) = (self.map, self.position.as_mut(), &mut self.found);
        let Some(here) = position else { return Ok(()) };
        self.tx.begin_step(here.walk());
        let more = self.tx.words(|tx| {
            let (store, _) = map.store(tx)?;
            let mut is_invalid = false;
            let more = store.visit_next(tx, here, |mut key, words, bytes| {
                match (K::read_key(&mut key), V::decode(words, bytes, Stored::new())) {
                    (Ok(decoded), Ok(value)) if key.is_empty() => found.push_back((decoded, value)),
                    _ => is_invalid = true,
                }
                Ok(())
            })?;
            if is_invalid {
                return Err(invalid(tx, map.raw.at, "HashMap"));
            }
            Ok(more)
        })?;
        if !more {
            self.position = None;
        }
        Ok(())
    }
}

impl<'p, K: Key, V: Persist<'p>, C: Control> Iterator for HashMapIter<'_, 'p, K, V, C> {
    type Item = Result<(K, V)>;
    fn next(&mut self) -> Option<Result<(K, V)>> {
        while self.found.is_empty() && self.position.is_some() {
            if let Err(error) = self.fetch() {
                self.position = None;
                return Some(Err(error));
            }
        }
        self.found.pop_front().map(Ok)
    }
}

debug_as_name! { HashMapIter<'_, '_; K, V> }
