//! An ordered map: a B+ tree whose leaf pages hold the pairs.
//!
//! ```text
//! header   word 0 tag · words 1 and 2 the header of the tree (`PageTree` in the core) · word 3 the number of the table, 0 if the map is no table
//! ```
//!
//! The pages hold the encoded bytes of the keys (`key.rs`) and compare those. Reading a row touches one leaf page, and the inner pages above it,
//! which are in memory even when the leaves are not.

use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

use super::entry::{Entry, Map, look_at_pair};
use super::pages::{self, HEADER_WORDS, PAGE_BYTES, survey, tag};
use super::range::{Ahead, Batch, Range};
use crate::value::check::{Checker, Look};
use crate::value::key::{Key, KeyBytes, KeyRef, Prefix};
use crate::value::persist::{Encoded, Persist, Readable, Stored, encoded, replaced};
use crate::value::pointer::{handle, invalid, persist_handle};
use crate::value::transaction::{Control, Tx, View};
use strandline_core::error::{Error, Result};
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::type_layout as layout;
use strandline_core::structures::{Cell, PageTree, Walk};
use strandline_core::transaction::{Abort, Read, Transaction};

handle! {
    /// A map that is ordered by its keys, with ranges and with iteration from both ends. An encoded key has at most 4,096 bytes; a value may be of
    /// any size.
    ///
    /// ```
    /// # use strandline::*;
    /// #[derive(Persist)]
    /// struct Log<'p> {
    ///     /// By time and sender.
    ///     messages: OrderedMap<'p, (u64, String), String>,
    /// }
    ///
    /// # let path = example::path();
    /// let log = Store::<Log>::create_new(&path, &Options::default(), |tx| {
    ///     Ok(Log { messages: OrderedMap::new(tx)? })
    /// })?;
    /// log.write(|tx, root| {
    ///     let messages = root.get(tx)?.messages;
    ///     messages.insert(tx, &(900, "ann".to_string()), &"high water".to_string())?;
    ///     messages.insert(tx, &(905, "bob".to_string()), &"ebb".to_string())?;
    ///     messages.insert(tx, &(990, "ann".to_string()), &"low water".to_string())?;
    ///     Ok(())
    /// })?;
    /// let newest_first: Vec<String> = log.read(|tx, root| {
    ///     let messages = root.get(tx)?.messages;
    ///     let early = (900, String::new())..(950, String::new());
    ///     messages.range(tx, early).rev().map(|pair| Ok(pair?.1)).collect()
    /// })?;
    /// assert_eq!(newest_first, ["ebb", "high water"]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    OrderedMap<K, V>, "OrderedMap"
}

persist_handle!('p, OrderedMap<K: Key, V: Persist<'p>>, "OrderedMap", owned: true);

/// Returns the least byte string that is greater than all those that begin with `prefix`, or `None` if there is none.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

impl<'p, K: Key, V: Persist<'p>> OrderedMap<'p, K, V> {
    pub(crate) const TAG: u64 = if V::ANY { layout::ANY_TAG } else { tag(K::LAYOUT, V::LAYOUT) };

    /// Creates an empty map.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    pub fn new(tx: &Tx<'p, impl Control>) -> Result<Self> {
        Self::with_tag(tx, Self::TAG)
    }

    /// Creates an empty map with this tag, for a caller that does not know the types.
    pub(crate) fn with_tag(tx: &Tx<'p, impl Control>, tag: u64) -> Result<Self> {
        tx.words(|tx| {
            // The header gets a cache line of its own, because every reader reads it.
            let at = tx.alloc(LINE_BYTES)?;
            tx.write(at, tag)?;
            PageTree::create_at(tx, at.word(1), PAGE_BYTES)?;
            tx.write(Self::at(at).number(), 0)?;
            Ok(Self::at(at))
        })
    }

    pub(crate) fn address(self) -> PersistentAddress {
        self.raw.at
    }

    /// Returns the map whose header is at `at`. Nothing is checked here: each operation checks the header.
    pub(crate) fn of(at: PersistentAddress) -> Self {
        Self::at(at)
    }

    /// Returns the address of the word with the number of the table, which is 0 in a map that is no table.
    pub(crate) fn number(self) -> PersistentAddress {
        self.raw.at.word(HEADER_WORDS as u64)
    }

    pub(crate) fn tree(self, tx: &mut impl Read) -> Result<PageTree, Abort> {
        pages::tree(tx, self.raw.at, Self::TAG)
    }

    pub(super) fn tree_to_write(self, tx: &mut impl Transaction) -> Result<PageTree, Abort> {
        pages::tree_to_write(tx, self.raw.at, Self::TAG)
    }

    fn load_value(tx: &mut impl Read, cell: &Cell) -> Result<V, Abort> {
        let value = if V::IS_PLAIN && cell.is_outside() {
            let stored = cell.stored_value(tx)?;
            V::read_plain(stored.bytes(), |into| stored.read_at(tx, 0, into))?
        } else {
            cell.with_value(tx, |words, bytes| V::decode(words, bytes, Stored::new()))?
        };
        value.map_err(|_| invalid(tx, cell.at(), V::NAME))
    }

    /// Returns a copy of the value of `key`, or `None` if the map does not have the key.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// map.insert(tx, &"ebb".to_string(), &905u64)?;
    /// assert_eq!(map.get(tx, "ebb")?, Some(905));
    /// assert!(!map.contains_key(tx, "flood")?);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Dangling`] if the map was destroyed, and an error after a conflict.
    pub fn get<Q: KeyRef + ?Sized>(self, tx: &View<'p, impl Control>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        self.get_encoded(tx, &KeyBytes::of(key))
    }

    /// Like `get`, but takes the encoded bytes of a key.
    pub(crate) fn get_encoded(self, tx: &View<'p, impl Control>, key: &KeyBytes) -> Result<Option<V>> {
        tx.words(|tx| {
            self.tree(tx)?.read(tx, key.as_slice(), |tx, cell, words| match words {
                Some(words) => V::decode(words, cell.value_bytes(), Stored::new())
                    .map_err(|_| invalid(tx, cell.at(), V::NAME)),
                None => Self::load_value(tx, &cell),
            })
        })
    }

    /// Calls `read` with the value of `key`, a string or bytes, and returns its result; returns `None` if the map does not have the key. A value of
    /// up to 4 KB is read without an allocation. A value of more than 16 KB that is stored in one piece is not copied at all in a snapshot or in a
    /// transaction that only reads.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// map.insert(tx, &7u64, &"high water".to_string())?;
    /// assert_eq!(map.read_with(tx, &7, |text: &str| text.len())?, Some(10));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`], and [`Error::Parameter`] if `read` uses the transaction.
    pub fn read_with<Q: KeyRef + ?Sized, R>(
        self,
        tx: &View<'p, impl Control>,
        key: &Q,
        read: impl FnOnce(&V::Borrowed) -> R,
    ) -> Result<Option<R>>
    where
        K: Borrow<Q>,
        V: Readable,
    {
        let key = KeyBytes::of(key);
        tx.words(|tx| {
            self.tree(tx)?.read(tx, key.as_slice(), |tx, cell, words| {
                let read = |bytes: &[u8]| V::borrowed(bytes).map(read);
                let done = match words {
                    Some(words) => read(&bytemuck::cast_slice(words)[..cell.value_bytes() as usize]),
                    // SAFETY: only its tree refers to the extents of an `OrderedMap`.
                    None => unsafe { cell.with_bytes(tx, read) }?,
                };
                done.map_err(|_| invalid(tx, cell.at(), V::NAME))
            })
        })
    }

    /// Returns whether the map has `key`.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    pub fn contains_key<Q: KeyRef + ?Sized>(self, tx: &View<'p, impl Control>, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
    {
        let key = KeyBytes::of(key);
        tx.words(|tx| Ok(self.tree(tx)?.find(tx, key.as_slice())?.is_some()))
    }

    /// Sets the value of `key` to `value`, and returns the previous value if there was one. If both values have the same size of at most 16 KB, only
    /// the words that differ and one of the page's head are written.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// assert_eq!(map.insert(tx, &7u64, &"seven".to_string())?, None);
    /// assert_eq!(map.insert(tx, &7u64, &"sept".to_string())?.as_deref(), Some("seven"));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the key is too long, an error if the pool or the log is full, and the errors of [`OrderedMap::get`].
    pub fn insert(self, tx: &Tx<'p, impl Control>, key: &K, value: &V) -> Result<Option<V>> {
        let old = self.insert_encoded(tx, &KeyBytes::of(key), encoded(value))?;
        if let Some(old) = &old {
            replaced(tx, old, Some(value))?;
        }
        Ok(old)
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
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// map.set(tx, &7u64, &"seven".to_string())?;
    /// map.set(tx, &7u64, &"sept".to_string())?;
    /// assert_eq!(map.get(tx, &7)?.as_deref(), Some("sept"));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::insert`].
    pub fn set(self, tx: &Tx<'p, impl Control>, key: &K, value: &V) -> Result<()> {
        if V::OWNS {
            // The collections in the previous value must be destroyed, so it has to be read.
            return self.insert(tx, key, value).map(drop);
        }
        self.set_encoded(tx, &KeyBytes::of(key), encoded(value))
    }

    /// Like `set`, but takes the encoded bytes of a key.
    pub(crate) fn set_encoded(
        self,
        tx: &Tx<'p, impl Control>,
        key: &KeyBytes,
        value: Encoded<'_, impl FnOnce(&mut [u64])>,
    ) -> Result<()> {
        let bytes = value.bytes;
        if let Some(plain) = value.in_pieces() {
            return self.set_from_encoded(tx, key, plain.len() as u64, plain);
        }
        tx.set_in((self.raw.at, Self::TAG), |tx, waiting| {
            let key = key.as_slice();
            Self::check_sizes(tx, key, bytes)?;
            value.with_words(|words| {
                if let Some(waiting) = waiting {
                    if waiting.add(key, words, bytes) {
                        return Ok(None);
                    }
                    // A pair with the same key may wait.
                    waiting.store(tx)?;
                }
                let tree = self.tree_to_write(tx)?;
                tree.set(tx, key, words, bytes)?;
                Ok(Some(tree))
            })
        })
    }

    /// Like `insert`, but takes the encoded bytes of a key.
    pub(crate) fn insert_encoded(
        self,
        tx: &Tx<'p, impl Control>,
        key: &KeyBytes,
        value: Encoded<'_, impl FnOnce(&mut [u64])>,
    ) -> Result<Option<V>> {
        let bytes = value.bytes;
        if let Some(plain) = value.in_pieces() {
            let old = self.get_encoded(tx, key)?;
            self.set_from_encoded(tx, key, plain.len() as u64, plain)?;
            return Ok(old);
        }
        tx.words(|tx| {
            Self::check_sizes(tx, key.as_slice(), bytes)?;
            value.with_words(|words| self.insert_words(tx, key.as_slice(), words, bytes))
        })
    }

    pub(super) fn check_sizes(tx: &mut impl Transaction, key: &[u8], bytes: u64) -> Result<(), Abort> {
        if key.len() > PageTree::MAX_KEY_BYTES || bytes >> 32 != 0 {
            return Err(tx.fail(Error::Parameter(format!(
                "a key of {} encoded bytes with a value of {bytes} bytes: use a key of at most {} bytes, and a value of less than 2^32",
                key.len(),
                PageTree::MAX_KEY_BYTES
            ))));
        }
        Ok(())
    }

    fn insert_words(
        self,
        tx: &mut impl Transaction,
        key: &[u8],
        value: &[u64],
        bytes: u64,
    ) -> Result<Option<V>, Abort> {
        let tree = self.tree_to_write(tx)?;
        let place = tree.locate(tx, key)?;
        match place.cell {
            None => tree.insert(tx, place, key, value, bytes).map(|()| None),
            Some(cell) => {
                let old = Self::load_value(tx, &cell)?;
                tree.replace(tx, place, key, value, bytes)?;
                Ok(Some(old))
            }
        }
    }

    /// Stores pairs that come in ascending order of distinct keys, and returns their number. If all keys of the map are less than the first of these,
    /// the pairs are appended: each page is filled and written once, which takes a fraction of the time and of the space of single insertions.
    /// Otherwise they are [`set`](Self::set).
    ///
    /// If the pairs do not fit into the log, the transaction becomes a large one, which runs alone. Its closure then runs again, and so `pairs` is
    /// iterated over from the beginning.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let squares = OrderedMap::<u64, u64>::new(tx)?;
    /// assert_eq!(squares.load(tx, (0..1000).map(|n| (n, n * n)))?, 1000);
    /// assert_eq!(squares.get(tx, &30)?, Some(900));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if a key is too long or not greater than the one before it, or if the iterator itself changes the map or goes
    /// back to a savepoint, and the errors of [`OrderedMap::insert`].
    pub fn load<Q: Borrow<K>, W: Borrow<V>>(
        self,
        tx: &Tx<'p, impl Control>,
        pairs: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<u64> {
        let (mut load, restorations) =
            tx.words(|tx| Ok((self.tree_to_write(tx)?.load(tx)?, tx.restorations())))?;
        let mut pairs = pairs.into_iter().peekable();
        if pairs.peek().is_some_and(|(key, _)| !load.takes(KeyBytes::of(key.borrow()).as_slice())) {
            return pairs.try_fold(0, |count, (key, value)| {
                self.set(tx, key.borrow(), value.borrow()).map(|()| count + 1)
            });
        }
        for (key, value) in pairs {
            let (key, value) = (KeyBytes::of(key.borrow()), encoded(value.borrow()));
            let bytes = value.bytes;
            tx.words(|tx| {
                self.check_load(tx, restorations)?;
                Self::check_sizes(tx, key.as_slice(), bytes)?;
                value.with_words(|words| load.push(tx, key.as_slice(), words, bytes))
            })?;
        }
        tx.words(|tx| {
            self.check_load(tx, restorations)?;
            load.finish(tx)
        })
    }

    /// Checks that the caller's iterator or reader, which may use the transaction, has not destroyed the map or gone back to a savepoint, which would
    /// free what was allocated for the pairs.
    pub(super) fn check_load<C: Control>(
        self,
        tx: &mut strandline_core::engine::Tx<C>,
        restorations: u64,
    ) -> Result<(), Abort> {
        self.tree_to_write(tx)?;
        if tx.restorations() == restorations {
            return Ok(());
        }
        Err(tx.fail(Error::Parameter(
            "the iterator of a load, or the reader of a value, has gone back to a savepoint: it must not do that".into(),
        )))
    }

    /// Removes `key` and returns its value, or `None` if the map does not have the key. Collections in the value are destroyed; objects that it
    /// points to are kept.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// map.insert(tx, &7u64, &true)?;
    /// assert_eq!((map.remove(tx, &7)?, map.remove(tx, &7)?), (Some(true), None));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::insert`].
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
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let shelves = OrderedMap::<String, Vector<u64>>::new(tx)?;
    /// shelves.insert(tx, &"new".to_string(), &Vector::new(tx)?)?;
    /// let shelf = shelves.take(tx, "new")?.unwrap();
    /// shelf.push(tx, &4711)?;
    /// shelves.insert(tx, &"old".to_string(), &shelf)?;
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::insert`].
    pub fn take<Q: KeyRef + ?Sized>(self, tx: &Tx<'p, impl Control>, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        self.remove_encoded(tx, &KeyBytes::of(key))
    }

    /// Like `remove`, but takes the encoded bytes of a key.
    pub(crate) fn remove_encoded(self, tx: &Tx<'p, impl Control>, key: &KeyBytes) -> Result<Option<V>> {
        tx.words(|tx| self.remove_bytes(tx, key.as_slice()))
    }

    pub(crate) fn remove_key(self, tx: &Tx<'p, impl Control>, key: &K) -> Result<()> {
        self.remove_encoded(tx, &KeyBytes::of(key)).map(drop)
    }

    fn remove_bytes(self, tx: &mut impl Transaction, key: &[u8]) -> Result<Option<V>, Abort> {
        let tree = self.tree_to_write(tx)?;
        let place = tree.locate(tx, key)?;
        let Some(cell) = place.cell else { return Ok(None) };
        let old = Self::load_value(tx, &cell)?;
        tree.remove(tx, place, key)?;
        Ok(Some(old))
    }

    /// Returns the entry of `key`, through which the caller can read and change its value.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let visits = OrderedMap::new(tx)?;
    /// for day in [3u64, 5, 3] {
    ///     visits.entry(tx, day)?.and_modify(|count| *count += 1)?.or_insert(1u64)?;
    /// }
    /// assert_eq!(visits.get(tx, &3)?, Some(2));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    pub fn entry<'t, C: Control>(self, tx: &'t Tx<'p, C>, key: K) -> Result<Entry<'t, 'p, K, V, Self, C>> {
        Entry::new(tx, self, key)
    }

    /// Returns the least key and its value, or `None` if the map is empty.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// for key in [5u64, 15, 9] {
    ///     map.insert(tx, &key, &())?;
    /// }
    /// assert_eq!((map.first(tx)?, map.last(tx)?), (Some((5, ())), Some((15, ()))));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    pub fn first(self, tx: &View<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.iter(tx).next().transpose()
    }

    /// Returns the greatest key and its value, or `None` if the map is empty.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    pub fn last(self, tx: &View<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.iter(tx).next_back().transpose()
    }

    /// Returns whether the map has no keys.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    pub fn is_empty(self, tx: &View<'p, impl Control>) -> Result<bool> {
        tx.words(|tx| self.tree(tx)?.is_empty(tx))
    }

    /// Returns the number of keys, in the same time for a map of any size. A transaction that calls this and also writes conflicts with transactions
    /// that insert or remove keys at the same time. Insertions and removals by different threads do not conflict because of the count: each worker
    /// counts on a cache line of its own.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// map.insert(tx, &1u64, &10u64)?;
    /// assert_eq!((map.len(tx)?, map.is_empty(tx)?), (1, false));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    pub fn len(self, tx: &View<'p, impl Control>) -> Result<u64> {
        tx.words(|tx| self.tree(tx)?.len(tx))
    }

    /// Counts the keys by a walk over the leaves.
    pub(crate) fn count(self, tx: &View<'p, impl Control>) -> Result<u64> {
        tx.words(|tx| self.tree(tx)?.count(tx))
    }

    /// Returns an iterator over all keys and values, in order and from either end.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// for key in ["c", "a", "b"] {
    ///     map.insert(tx, &key.to_string(), &1u64)?;
    /// }
    /// let mut keys = map.iter(tx);
    /// assert_eq!(keys.next().transpose()?, Some(("a".to_string(), 1)));
    /// assert_eq!(keys.next_back().transpose()?, Some(("c".to_string(), 1)));
    /// # Ok(())
    /// # });
    /// ```
    pub fn iter<'v, C: Control>(self, tx: &'v View<'p, C>) -> Range<'v, 'p, K, V, C> {
        self.range_of(tx, Bound::Unbounded, Bound::Unbounded)
    }

    /// Returns an iterator over the keys in `keys` and their values, in order and from either end. Pairs that the transaction inserts, removes or
    /// changes during the iteration are returned as they are now or as they were.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
    /// for key in 0..10u64 {
    ///     map.insert(tx, &key, &(key * key))?;
    /// }
    /// let some: Vec<(u64, u64)> = map.range(tx, 3..5).collect::<Result<_, _>>()?;
    /// assert_eq!(some, [(3, 9), (4, 16)]);
    /// # Ok(())
    /// # });
    /// ```
    pub fn range<'v, Q: KeyRef + ?Sized, C: Control>(
        self,
        tx: &'v View<'p, C>,
        keys: impl RangeBounds<Q>,
    ) -> Range<'v, 'p, K, V, C>
    where
        K: Borrow<Q>,
    {
        let bytes = |key: &Q| KeyBytes::of(key).as_slice().to_vec();
        self.range_of(tx, keys.start_bound().map(bytes), keys.end_bound().map(bytes))
    }

    /// Returns an iterator over the keys that begin with `prefix`, and their values, in order and from either end. See [`Prefix`].
    pub fn prefix<'v, C: Control>(
        self,
        tx: &'v View<'p, C>,
        prefix: &(impl Prefix<K> + ?Sized),
    ) -> Range<'v, 'p, K, V, C> {
        self.with_prefix(tx, KeyBytes::of_prefix(prefix).as_slice())
    }

    /// Returns an iterator over the keys whose encoded bytes begin with `prefix`, and their values.
    pub(crate) fn with_prefix<'v, C: Control>(
        self,
        tx: &'v View<'p, C>,
        prefix: &[u8],
    ) -> Range<'v, 'p, K, V, C> {
        let end = after_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.range_of(tx, Bound::Included(prefix.to_vec()), end)
    }

    pub(crate) fn range_of<'v, C: Control>(
        self,
        tx: &'v View<'p, C>,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
    ) -> Range<'v, 'p, K, V, C> {
        let (front, back) = (Batch::default(), Batch::default());
        let (walk, ahead) = (Walk::default(), Ahead::default());
        Range { tx, map: self, from, to, front, back, batch: 4, walk, ahead, is_over: false }
    }

    /// Checks the map and everything that it refers to, and returns a list of problems. The list is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// # example::transaction(|tx| {
    /// let map = OrderedMap::new(tx)?;
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
        checker.pointer(self.raw.at, Self::TAG, LINE_BYTES / 8, "OrderedMap", Look::Typed(Self::look))
    }

    fn look(checker: &mut Checker<'_, 'p>, at: PersistentAddress) -> Result<()> {
        survey(checker, at, Self::TAG, &mut |checker, at, key, words, bytes| {
            look_at_pair::<K, V>(checker, at, key, words, bytes)
        })
    }

    /// Removes all keys and frees the map's memory. Collections in its values are destroyed; objects that the values point to are kept. Every copy of
    /// this handle dangles afterwards.
    ///
    /// One transaction has to hold all these changes. To destroy a large map, remove its keys in several transactions first.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::insert`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        // Collections in the values are destroyed after the map itself. In a cycle, the next collection then finds that the map no longer exists.
        let values = if V::OWNS { self.iter(tx).collect::<Result<Vec<_>>>()? } else { Vec::new() };
        tx.words(|tx| {
            let tree = self.tree_to_write(tx)?;
            if tx.read(self.number())? != 0 {
                return Err(tx.fail(Error::Parameter(
                    "this is a table of a catalogue: delete it with Tables::delete".into(),
                )));
            }
            tree.destroy(tx)?;
            tx.write(self.raw.at, 0)?;
            tx.free(self.raw.at)
        })?;
        values.iter().try_for_each(|(_, value)| replaced(tx, value, None))
    }
}

impl<'p, K: Key, V: Persist<'p>> Map<'p, K, V> for OrderedMap<'p, K, V> {
    fn get(self, tx: &View<'p, impl Control>, key: &K) -> Result<Option<V>> {
        OrderedMap::get(self, tx, key)
    }
    fn insert(self, tx: &Tx<'p, impl Control>, key: &K, value: &V) -> Result<Option<V>> {
        OrderedMap::insert(self, tx, key, value)
    }
    fn remove(self, tx: &Tx<'p, impl Control>, key: &K) -> Result<Option<V>> {
        OrderedMap::remove(self, tx, key)
    }
}
