//! An ordered map: a B+ tree of pages that have the pairs.
//!
//! ```text
//! header   word 0 tag · words 1 and 2 the header of the tree (`PageTree` in the core) · word 3 a table's number, else 0
//! ```
//!
//! A key's bytes (`key.rs`) stand in the pages and are compared there. A row takes one page, and those above it, which stay in memory where
//! rows do not.

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
    /// A map ordered by its keys: ranges, and iteration from both ends. Keys of up to 4,096 encoded bytes, values of
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

/// The least bytes that are greater than all that begin with `prefix`; `None` where none are.
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

    /// An empty map with a tag that is known otherwise.
    pub(crate) fn with_tag(tx: &Tx<'p, impl Control>, tag: u64) -> Result<Self> {
        tx.words(|tx| {
            // A line of its own: every reader reads it.
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

    /// The map whose header is at `at`, if it is one: each operation looks.
    pub(crate) fn of(at: PersistentAddress) -> Self {
        Self::at(at)
    }

    /// Where a table's number stands, which a map of no table has not.
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

    /// A copy of the value of `key`.
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

    /// As `get`, with a key's bytes.
    pub(crate) fn get_encoded(self, tx: &View<'p, impl Control>, key: &KeyBytes) -> Result<Option<V>> {
        tx.words(|tx| {
            let cell = self.tree(tx)?.find(tx, key.as_slice())?;
            cell.map(|cell| Self::load_value(tx, &cell)).transpose()
        })
    }

    /// Returns what `read` makes of the value of `key`, a string or bytes, for which nothing is allocated up to 4 KB. A value of more than 16 KB that lies in one piece is
    /// not copied where a snapshot or a transaction that only reads asks for it.
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
    /// As [`OrderedMap::get`]; a use of the transaction in `read` is [`Error::Parameter`].
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
            let Some(cell) = self.tree(tx)?.find(tx, key.as_slice())? else { return Ok(None) };
            // SAFETY: nobody knows the extents of an `OrderedMap` but its tree.
            let done = unsafe { cell.with_bytes(tx, |bytes| V::borrowed(bytes).map(read)) }?;
            done.map(Some).map_err(|_| invalid(tx, cell.at(), V::NAME))
        })
    }

    /// Returns whether `key` is there.
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

    /// Gives `key` the value `value`; returns the value before, if there was one. Of a value of the same size, if it has no more than 16 KB, only the
    /// words that differ are written.
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

    /// Gives `key` the value `value`, as [`insert`](Self::insert) does, but does not read the one before: for large values that costs less.
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
            // What it held is destroyed.
            return self.insert(tx, key, value).map(drop);
        }
        self.set_encoded(tx, &KeyBytes::of(key), encoded(value))
    }

    /// As `set`, with a key's bytes.
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
        tx.words(|tx| {
            let key = key.as_slice();
            Self::check_sizes(tx, key, bytes)?;
            value.with_words(|words| {
                let tree = self.tree_to_write(tx)?;
                let place = tree.locate(tx, key)?;
                match place.cell {
                    None => tree.insert(tx, place, key, words, bytes),
                    Some(_) => tree.replace(tx, place, key, words, bytes),
                }
            })
        })
    }

    /// As `insert`, with a key's bytes.
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
                "a key of {} encoded bytes with a value of {bytes}: at most {} and 2^32 are possible",
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

    /// Stores pairs that come in ascending order of their keys, each key once; returns how many. Behind all keys that are there each page is filled,
    /// and written once, which takes a fraction of the time and of the space of as many insertions. If the map has a key that is not less than the
    /// first of these, all are inserted one by one.
    ///
    /// With more pairs than the log has room for, the transaction becomes a large one, which runs alone: `pairs` is then asked for from the beginning
    /// again, as the closure of the transaction runs again.
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
    /// Returns [`Error::Parameter`] if a key is not greater than the one before it, or too long, and an error if or the iterator has changed the map
    /// itself, or gone back to a savepoint. As [`OrderedMap::insert`].
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
                self.insert(tx, key.borrow(), value.borrow()).map(|_| count + 1)
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

    /// Fails if what gives pairs or bytes, and may use the transaction, has destroyed the map or taken back what was allocated for them.
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
            "what gives the pairs of a load, or the bytes of a value, has gone back to a savepoint".into(),
        )))
    }

    /// Removes `key`; returns its value, if it was there. Collections in it are destroyed; what it points to stays.
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

    /// Like [`remove`](Self::remove), but collections in the value stay, for the caller to keep elsewhere or to destroy.
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

    /// As `remove`, with a key's bytes.
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
        tree.remove(tx, place)?;
        Ok(Some(old))
    }

    /// The place of `key`, to look at and to change.
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

    /// The least key and its value.
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

    /// The greatest key and its value.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    pub fn last(self, tx: &View<'p, impl Control>) -> Result<Option<(K, V)>> {
        self.iter(tx).next_back().transpose()
    }

    /// Returns whether there are no keys.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::get`].
    pub fn is_empty(self, tx: &View<'p, impl Control>) -> Result<bool> {
        tx.words(|tx| self.tree(tx)?.is_empty(tx))
    }

    /// Number of keys, at the same cost for a map of any size. A transaction that asks and also writes conflicts with those that insert or remove
    /// keys at the same time. Insertions and removals do not conflict because of the counts: each worker has its own line.
    ///
    /// A map that an earlier version of the library has made is counted by a walk over its leaves until it was opened as a table of a database.
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

    /// Returns whether [`len`](Self::len) needs no walk.
    pub(crate) fn is_counted(self, tx: &View<'p, impl Control>) -> Result<bool> {
        tx.words(|tx| self.tree(tx)?.is_counted(tx))
    }

    /// Lets a map that is not counted be counted from now on.
    pub(crate) fn start_counting(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        tx.words(|tx| self.tree_to_write(tx)?.start_counting(tx))
    }

    /// All keys and values in order, from either end.
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

    /// The keys in `keys` and their values in order, from either end. Keys that come, go or change while the iteration
    /// is under way are returned as they are or as they were.
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

    /// The keys that begin with `prefix`, and their values in order, from either end: [`Prefix`].
    pub fn prefix<'v, C: Control>(
        self,
        tx: &'v View<'p, C>,
        prefix: &(impl Prefix<K> + ?Sized),
    ) -> Range<'v, 'p, K, V, C> {
        self.with_prefix(tx, KeyBytes::of_prefix(prefix).as_slice())
    }

    /// The keys whose bytes begin with `prefix`.
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

    /// Looks the map and all that hangs from it over for damage: what is wrong, and nothing if all is well.
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

    /// Removes all keys and gives the map's memory back. Collections in its values are destroyed; what these point to stays. Every copy of this
    /// handle dangles from then on.
    ///
    /// One transaction has to hold all of it: a large map is emptied by several that remove keys.
    ///
    /// # Errors
    /// Returns the same errors as [`OrderedMap::insert`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        // Their collections are destroyed when the map is no more: in a circle the next one finds it gone.
        let values = if V::OWNS { self.iter(tx).collect::<Result<Vec<_>>>()? } else { Vec::new() };
        tx.words(|tx| {
            let tree = self.tree_to_write(tx)?;
            if tx.read(self.number())? != 0 {
                return Err(
                    tx.fail(Error::Parameter("a table is deleted by its catalogue: Tables::delete".into()))
                );
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
