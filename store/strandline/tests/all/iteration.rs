//! All ways to walk over rows, compared with a model.
//!
//! A case draws rows (0 bytes to 4 MB, in any order of insertion), stores them, and walks over them in each of [`WAYS`]. New ways are added there.
//! Rows with sizes around those of words, lines, blocks and batches are drawn more often than others. Ways that change the table run in a transaction
//! that is rolled back, so that each begins with the same rows. Other interfaces have tests of their own with rows of the same sizes:
//! `strandline-cli/tests/all/pool.rs` (dump, load, copy), `strandline-c/tests/c/everything.c`, `strandline-py/tests/test_database.py`.
//!
//! `STRANDLINE_CASES=10000 cargo test --release -p strandline --test all iteration -- --nocapture` tries this number of cases.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

use proptest::prelude::*;
use strandline::{
    Control, Database, Error, HashMap, Key, Options, OrderedMap, Queue, Range, Result, SingleWriter, Stm,
    Store, Table, Tables, Tx, Value, Vector, View,
};
use strandline_core::layout::Geometry;
use strandline_core::memory::Native;

/// A row as proptest draws it: the seed of its key and its value, and the number of bytes of its value.
type Drawn = (u32, usize);

/// Number of bytes at which a batch of an iteration is full.
const BATCH_BYTES: usize = 1 << 19;

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => prop::sample::select(vec![0usize, 1, 7, 8, 9]),
        8 => 40..80usize,
        // The lengths that iteration reads ahead of an entry, and longer ones; blocks of the smallest and of larger classes.
        6 => 200..300usize,
        4 => 480..560usize,
        3 => 3_900..4_200usize,
    ]
}

fn large_size() -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => BATCH_BYTES - 40..BATCH_BYTES + 40,
        2 => 60_000..70_000usize,
        2 => BATCH_BYTES / 2 - 20..BATCH_BYTES / 2 + 20,
        1 => Just(1 << 20),
        1 => Just(4 << 20),
    ]
}

/// Up to 300 rows, and in one of five cases up to four large ones among them.
fn rows() -> impl Strategy<Value = Vec<Drawn>> {
    let many = prop_oneof![3 => 0..12usize, 3 => 12..80usize, 1 => 80..300usize];
    let few = many.prop_flat_map(|most| prop::collection::vec((any::<u32>(), size()), 0..=most));
    let large = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec((any::<u32>(), large_size()), 1..4),
    ];
    (few, large).prop_map(|(few, large)| few.into_iter().chain(large).collect()).prop_shuffle()
}

/// The rows with a prefix, and a function that tells whether a key has it.
type Prefixed<'v, 'p, K, V, C> = (Range<'v, 'p, K, V, C>, Box<dyn Fn(&K) -> bool>);

/// A key that is drawn from a small set, so that keys are close together.
trait DrawnKey: Key + Value + Ord + Clone + Debug {
    fn key(seed: u32) -> Self;
    /// Returns the rows with a prefix of this key.
    fn with_prefix<'v, 'p, V: Value, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        table: &Table<Self, V>,
    ) -> Result<Prefixed<'v, 'p, Self, V, C>>;
}

impl DrawnKey for u64 {
    fn key(seed: u32) -> Self {
        let seed = u64::from(seed);
        match seed % 4 {
            0 => seed % 300,
            1 => u64::MAX - seed % 300,
            2 => 1 << (seed % 64),
            _ => seed << 31,
        }
    }
    /// Numbers have no prefixes, so this returns the row of one key.
    fn with_prefix<'v, 'p, V: Value, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        table: &Table<Self, V>,
    ) -> Result<Prefixed<'v, 'p, Self, V, C>> {
        let own = *self;
        Ok((table.range(tx, own..=own)?, Box::new(move |key| *key == own)))
    }
}

/// Returns a string that shares whole words with others, with zeros and bytes that are escaped. Some are nearly as long as keys can be, with room for
/// the key of a multimap before them.
fn text(seed: u32) -> String {
    let mut random = fastrand::Rng::with_seed(seed.into());
    let mut text = match random.u32(..40) {
        0 => "x".repeat(random.usize(4000..4070)),
        1..9 => String::new(),
        _ => "abcdefgh".repeat(random.usize(..4)),
    };
    (0..random.usize(..5)).for_each(|_| text.push(random.choice(['\0', 'a', 'b', 'ÿ']).unwrap()));
    text
}

/// Returns the beginning of `text`, up to a half of it.
fn begin(text: &str) -> &str {
    let half = (0..=text.len() / 2).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..half]
}

impl DrawnKey for String {
    fn key(seed: u32) -> Self {
        text(seed)
    }
    fn with_prefix<'v, 'p, V: Value, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        table: &Table<Self, V>,
    ) -> Result<Prefixed<'v, 'p, Self, V, C>> {
        let prefix = begin(self).to_owned();
        Ok((table.prefix(tx, prefix.as_str())?, Box::new(move |key| key.starts_with(&prefix))))
    }
}

impl DrawnKey for Vec<u8> {
    fn key(seed: u32) -> Self {
        let mut bytes = text(seed).into_bytes();
        // Some keys have no successor of the same length.
        (0..seed % 3).for_each(|_| bytes.insert(0, 255));
        bytes
    }
    fn with_prefix<'v, 'p, V: Value, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        table: &Table<Self, V>,
    ) -> Result<Prefixed<'v, 'p, Self, V, C>> {
        let prefix = self[..self.len() / 2].to_vec();
        Ok((table.prefix(tx, prefix.as_slice())?, Box::new(move |key| key.starts_with(&prefix))))
    }
}

impl DrawnKey for (u32, String) {
    fn key(seed: u32) -> Self {
        (seed % 5, text(seed / 5))
    }
    fn with_prefix<'v, 'p, V: Value, C: Control>(
        &self,
        tx: &'v View<'p, C>,
        table: &Table<Self, V>,
    ) -> Result<Prefixed<'v, 'p, Self, V, C>> {
        let first = self.0;
        Ok((table.prefix(tx, &(first,))?, Box::new(move |key| key.0 == first)))
    }
}

trait DrawnValue: Value + Clone + PartialEq + Debug {
    fn value(seed: u32, bytes: usize) -> Self;
    /// Returns the next pair, by [`Range::next_with`] if the type has it.
    fn next_with<K: DrawnKey, C: Control>(
        range: &mut Range<'_, '_, K, Self, C>,
        forwards: bool,
    ) -> Option<Result<(K, Self)>>;
}

impl DrawnValue for Vec<u8> {
    fn value(seed: u32, bytes: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed.into());
        let mut value = vec![0; bytes];
        random.fill(&mut value);
        value
    }
    fn next_with<K: DrawnKey, C: Control>(
        range: &mut Range<'_, '_, K, Self, C>,
        forwards: bool,
    ) -> Option<Result<(K, Self)>> {
        let own = |key, value: &[u8]| (key, value.to_vec());
        if forwards { range.next_with(own) } else { range.next_back_with(own) }
    }
}

impl DrawnValue for String {
    fn value(seed: u32, bytes: usize) -> Self {
        Vec::value(seed, bytes).into_iter().map(|byte| char::from(byte % 128)).collect()
    }
    fn next_with<K: DrawnKey, C: Control>(
        range: &mut Range<'_, '_, K, Self, C>,
        forwards: bool,
    ) -> Option<Result<(K, Self)>> {
        let own = |key, value: &str| (key, value.to_owned());
        if forwards { range.next_with(own) } else { range.next_back_with(own) }
    }
}

/// A value of one word. With a key of one word it is stored in the tree.
impl DrawnValue for u64 {
    fn value(seed: u32, bytes: usize) -> Self {
        u64::from(seed) << 20 | bytes as u64
    }
    fn next_with<K: DrawnKey, C: Control>(
        range: &mut Range<'_, '_, K, Self, C>,
        forwards: bool,
    ) -> Option<Result<(K, Self)>> {
        if forwards { range.next() } else { range.next_back() }
    }
}

type Model<K, V> = BTreeMap<K, V>;

/// The rows with which a walk is compared.
type Expected<'m, K, V> = Vec<(&'m K, &'m V)>;

/// The rows of a case, and the tables and the model that have them.
struct Case<'c, K: DrawnKey, V: DrawnValue, C: Control<Memory = Native>> {
    db: &'c Database<C>,
    table: &'c Table<K, V>,
    /// Another database, for ways that cannot be rolled back. Its tables are deleted afterwards.
    other: &'c Database<C>,
    model: &'c Model<K, V>,
    drawn: &'c [Drawn],
    random: RefCell<fastrand::Rng>,
    /// Number of rows that were compared.
    compared: Cell<u64>,
}

type Found<K, V> = Option<Result<(K, V)>>;

impl<K: DrawnKey, V: DrawnValue, C: Control<Memory = Native>> Case<'_, K, V, C> {
    fn all(&self) -> Expected<'_, K, V> {
        self.model.iter().collect()
    }

    fn flip(&self) -> bool {
        self.random.borrow_mut().bool()
    }

    fn up_to(&self, most: usize) -> usize {
        self.random.borrow_mut().usize(..=most)
    }

    /// Returns a key that usually is in the table.
    fn key(&self) -> K {
        let there = self.up_to(self.model.len());
        match self.model.keys().nth(there) {
            Some(key) => key.clone(),
            None => K::key(self.random.borrow_mut().u32(..)),
        }
    }

    fn bound(&self) -> Bound<K> {
        match self.up_to(4) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        }
    }

    /// Compares one row with the expected one.
    #[track_caller]
    fn same(&self, found: Option<(&K, &V)>, expected: Option<(&K, &V)>) {
        self.compared.set(self.compared.get() + 1);
        if found != expected {
            let short = |row: Option<(&K, &V)>| {
                row.map(|(key, value)| format!("{key:.60?} with {} bytes", strandline::Persist::bytes(value)))
            };
            panic!("found {:?}, expected {:?}", short(found), short(expected));
        }
    }

    /// Compares the rows that `next` returns with those expected. `forwards` says from which end each is taken. No row may follow.
    #[track_caller]
    fn walk(
        &self,
        expected: Expected<'_, K, V>,
        mut forwards: impl FnMut() -> bool,
        mut next: impl FnMut(bool) -> Found<K, V>,
    ) -> Result<()> {
        let mut expected = expected.into_iter();
        loop {
            let from_front = forwards();
            let right = if from_front { expected.next() } else { expected.next_back() };
            let found = next(from_front).transpose()?;
            self.same(found.as_ref().map(|(key, value)| (key, value)), right);
            if found.is_none() {
                assert!(expected.next().is_none() && next(true).is_none() && next(false).is_none());
                return Ok(());
            }
        }
    }

    /// Runs `body` in a transaction that is rolled back.
    fn take_back(
        &self,
        mut body: impl for<'p> FnMut(&Tx<'p, C>, OrderedMap<'p, K, V>) -> Result<()>,
    ) -> Result<()> {
        let random = self.random.borrow().clone();
        let ended = self.db.write(|tx| {
            // The closure may run more than once.
            *self.random.borrow_mut() = random.clone();
            body(tx, self.table.collection(tx)?)?;
            Err::<(), _>(Error::Aborted)
        });
        match ended {
            Err(Error::Aborted) => Ok(()),
            ended => ended,
        }
    }

    fn within(&self, from: &Bound<K>, to: &Bound<K>) -> Expected<'_, K, V> {
        let is_from = |key: &K| match from {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        };
        let is_to = |key: &K| match to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        };
        self.model.iter().filter(|(key, _)| is_from(key) && is_to(key)).collect()
    }

    fn iter(&self) -> Result<()> {
        self.db.read(|tx| {
            let mut rows = self.table.iter(tx)?;
            self.walk(self.all(), || true, |_| rows.next())
        })
    }

    fn rev(&self) -> Result<()> {
        self.db.read(|tx| {
            let mut rows = self.table.iter(tx)?.rev();
            let backwards = self.model.iter().rev().collect();
            self.walk(backwards, || true, |_| rows.next())
        })
    }

    fn both_ends(&self) -> Result<()> {
        self.db.read(|tx| {
            let mut rows = self.table.iter(tx)?;
            let next = |forwards| if forwards { rows.next() } else { rows.next_back() };
            self.walk(self.all(), || self.flip(), next)
        })
    }

    fn next_with(&self) -> Result<()> {
        self.db.read(|tx| {
            let mut rows = self.table.iter(tx)?;
            self.walk(self.all(), || self.flip(), |forwards| V::next_with(&mut rows, forwards))
        })
    }

    fn ranges(&self) -> Result<()> {
        for _ in 0..6 {
            let (from, to) = (self.bound(), self.bound());
            self.db.read(|tx| {
                let mut rows = self.table.range::<K, _>(tx, (from.as_ref(), to.as_ref()))?;
                let next = |forwards| if forwards { rows.next() } else { rows.next_back() };
                self.walk(self.within(&from, &to), || self.flip(), next)
            })?;
        }
        Ok(())
    }

    fn prefix(&self) -> Result<()> {
        for _ in 0..4 {
            let key = self.key();
            self.db.read(|tx| {
                let (mut rows, has_prefix) = key.with_prefix(tx, self.table)?;
                let next = |forwards| if forwards { rows.next() } else { rows.next_back() };
                let expected = self.model.iter().filter(|(key, _)| has_prefix(key)).collect();
                self.walk(expected, || self.flip(), next)
            })?;
        }
        Ok(())
    }

    fn ends(&self) -> Result<()> {
        self.db.read(|tx| {
            let (first, last) = (self.table.first(tx)?, self.table.last(tx)?);
            self.same(first.as_ref().map(|(key, value)| (key, value)), self.model.first_key_value());
            self.same(last.as_ref().map(|(key, value)| (key, value)), self.model.last_key_value());
            let count = self.model.len() as u64;
            assert_eq!((self.table.len(tx)?, self.table.is_empty(tx)?), (count, count == 0));
            Ok(())
        })?;
        assert_eq!(self.db.count(self.table.name())?, self.model.len() as u64);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.db.read(|tx| {
            assert_eq!(self.table.check(tx)?, Vec::<String>::new());
            Ok(())
        })
    }

    /// A cursor steps in both directions, seeks, and stands at places from which keys are removed. A key that is removed or inserted while the cursor
    /// moves in one direction may be met or not; all others are met.
    fn cursor(&self) -> Result<()> {
        self.take_back(|tx, map| {
            let mut cursor = map.cursor(tx);
            let mut model: Model<K, V> = self.model.clone();
            // Keys that were removed since the cursor last turned.
            let mut removed = Model::new();
            // The keys before the place are those less than this key, or equal to it if the cursor passed it.
            let mut place = Bound::Unbounded;
            let (mut at_end, mut forwards) = (false, true);
            for _ in 0..2 * model.len().min(40) + 8 {
                match self.up_to(12) {
                    0 => {
                        let key = self.key();
                        cursor.seek(key.borrow());
                        (place, at_end) = (Bound::Excluded(key), false);
                        removed.clear();
                    }
                    1 => {
                        cursor.seek_to_end();
                        (place, at_end) = (Bound::Unbounded, true);
                        removed.clear();
                    }
                    2 => {
                        cursor.seek_to_begin();
                        (place, at_end) = (Bound::Unbounded, false);
                        removed.clear();
                    }
                    3 => {
                        let key = self.key();
                        if let Some(value) = model.remove(&key) {
                            removed.insert(key.clone(), value);
                        }
                        map.remove(tx, &key)?;
                    }
                    step => {
                        if (step < 9) != forwards {
                            forwards = !forwards;
                            removed.clear();
                        }
                        let is_before = |key: &K| match &place {
                            Bound::Unbounded => at_end,
                            Bound::Excluded(place) => key < place,
                            Bound::Included(place) => key <= place,
                        };
                        let here = |(key, _): &(&K, &V)| is_before(key) != forwards;
                        let (found, right, gone) = if forwards {
                            (cursor.next()?, model.iter().find(here), removed.iter().find(here))
                        } else {
                            let (right, gone) =
                                (model.iter().rev().find(here), removed.iter().rev().find(here));
                            (cursor.previous()?, right, gone)
                        };
                        let found = found.as_ref().map(|(key, value)| (key, value));
                        let is_gone = found.is_some() && found == gone && {
                            let (gone, right) = (gone.map(|row| row.0), right.map(|row| row.0));
                            right.is_none() || if forwards { gone < right } else { gone > right }
                        };
                        // Several keys may have been removed, and the cursor may meet some of them.
                        let is_later_gone = found.is_some_and(|(key, value)| {
                            removed.get(key) == Some(value)
                                && right
                                    .is_none_or(|(right, _)| if forwards { key < right } else { key > right })
                        });
                        if !is_gone && !is_later_gone {
                            self.same(found, right);
                        }
                        (place, at_end) = match found {
                            Some((key, _)) if forwards => (Bound::Included(key.clone()), false),
                            Some((key, _)) => (Bound::Excluded(key.clone()), false),
                            None => (Bound::Unbounded, forwards),
                        };
                    }
                }
            }
            Ok(())
        })
    }

    /// Compares the rows that remain after a walk that removed some.
    #[track_caller]
    fn left(&self, tx: &View<'_, C>, model: &Model<K, V>) -> Result<()> {
        let mut rows = self.table.iter(tx)?;
        self.walk(model.iter().collect(), || true, |_| rows.next())?;
        assert_eq!(self.table.len(tx)?, model.len() as u64);
        Ok(())
    }

    /// Uses only a part of a `drain`.
    fn drain(&self) -> Result<()> {
        let (from, to) = (self.bound(), self.bound());
        self.take_back(|tx, map| {
            let expected = self.within(&from, &to);
            let used = self.up_to(expected.len() + 1);
            let mut model = self.model.clone();
            let mut drained = map.drain::<K, _>(tx, (from.as_ref(), to.as_ref()));
            for number in 0..used {
                let found = drained.next().transpose()?;
                self.same(found.as_ref().map(|(key, value)| (key, value)), expected.get(number).copied());
                found.map(|(key, _)| model.remove(&key));
            }
            self.left(tx, &model)
        })
    }

    /// Uses only a part of an `extract_if`, while rows ahead of it are changed and removed.
    fn extract_if(&self) -> Result<()> {
        let (from, to) = (self.bound(), self.bound());
        let every = 1 + self.up_to(3);
        self.take_back(|tx, map| {
            let mut model = self.model.clone();
            let chosen = |key: &K| self.model.range(..key).count().is_multiple_of(every);
            let within = self.within(&from, &to);
            let mut expected = within.iter().filter(|(key, _)| chosen(key)).copied();
            let used = self.up_to(within.len() / every + 2);
            let mut extracted =
                map.extract_if::<K, _>(tx, (from.as_ref(), to.as_ref()), |key, _| chosen(key));
            for _ in 0..used {
                let found = extracted.next().transpose()?;
                let mut right = expected.next();
                // The row has been removed meanwhile.
                while right.is_some_and(|(key, _)| !model.contains_key(key)) {
                    right = expected.next();
                }
                self.same(found.as_ref().map(|(key, value)| (key, value)), right);
                found.map(|(key, _)| model.remove(&key));
                if self.up_to(3) == 0 {
                    let key = self.key();
                    map.remove(tx, &key)?;
                    model.remove(&key);
                }
            }
            self.left(tx, &model)
        })
    }

    fn retain(&self) -> Result<()> {
        let every = 1 + self.up_to(3);
        self.take_back(|tx, map| {
            let mut seen = Vec::new();
            map.retain(tx, |key, value| {
                seen.push((key.clone(), value.clone()));
                seen.len() % every != 0
            })?;
            let mut rows = seen.into_iter();
            self.walk(self.all(), || true, |_| rows.next().map(Ok))?;
            let kept = self.model.iter().enumerate().filter(|(number, _)| (number + 1) % every != 0);
            self.left(tx, &kept.map(|(_, (key, value))| (key.clone(), value.clone())).collect())
        })
    }

    fn pops(&self) -> Result<()> {
        self.take_back(|tx, map| {
            let next = |forwards| if forwards { map.pop_first(tx) } else { map.pop_last(tx) }.transpose();
            self.walk(self.all(), || self.flip(), next)?;
            assert!(map.is_empty(tx)?);
            Ok(())
        })
    }

    /// Walks over rows, while rows ahead are overwritten and inserted.
    fn changed_beside(&self) -> Result<()> {
        self.take_back(|tx, map| {
            let mut found = Vec::new();
            for pair in map.iter(tx) {
                let (key, value) = pair?;
                map.insert(tx, &key, &V::value(1, 9))?;
                found.push((key, value));
            }
            let mut found = found.into_iter();
            self.walk(self.all(), || true, |_| found.next().map(Ok))
        })
    }

    /// Walks over the other collections with the same rows.
    fn collections(&self) -> Result<()> {
        self.take_back(|tx, _| {
            let (hashed, queue, vector) =
                (HashMap::<K, V>::new(tx)?, Queue::<V>::new(tx)?, Vector::<u64>::new(tx)?);
            for (number, (key, value)) in self.model.iter().enumerate() {
                hashed.insert(tx, key, value)?;
                queue.push(tx, value)?;
                vector.push(tx, &(number as u64))?;
            }
            let mut rows = hashed.iter(tx).collect::<Result<Vec<_>>>()?;
            rows.sort_by(|one, other| one.0.cmp(&other.0));
            let mut rows = rows.into_iter();
            self.walk(self.all(), || true, |_| rows.next().map(Ok))?;
            let count = self.model.len() as u64;
            assert_eq!((hashed.len(tx)?, queue.len(tx)?, vector.len(tx)?), (count, count, count));
            let mut items = queue.iter(tx)?;
            let mut keys = self.model.keys();
            let row = |item: Option<Result<V>>, key: Option<&K>| {
                item.map(|item| item.map(|item| (key.expect("as many").clone(), item)))
            };
            self.walk(self.all(), || true, |_| row(items.next(), keys.next()))?;
            let mut keys = self.model.keys();
            self.walk(self.all(), || true, |_| row(queue.pop(tx).transpose(), keys.next()))?;
            // If a vector becomes shorter while a walk is under way, the walk returns the elements that are left, from either end.
            let length = self.up_to(self.model.len()) as u64;
            let (mut forwards, mut backwards) = (vector.iter(tx)?, vector.iter(tx)?.rev());
            let first = backwards.next().transpose()?;
            assert_eq!(first, count.checked_sub(1));
            vector.truncate(tx, length)?;
            let rest = length.min(count.saturating_sub(1));
            assert!(backwards.by_ref().map(|element| element.unwrap()).eq((0..rest).rev()));
            assert!(forwards.by_ref().map(|element| element.unwrap()).eq(0..length));
            Ok(())
        })
    }

    fn multimap(&self) -> Result<()> {
        let pairs = self.other.multimap::<u32, K>("pairs")?;
        self.other.write(|tx| {
            self.model
                .keys()
                .enumerate()
                .try_for_each(|(number, key)| pairs.insert(tx, &(number as u32 % 3), key).map(drop))
        })?;
        self.other.read(|tx| {
            for first in 0..3 {
                let mut own = self.model.keys().skip(first).step_by(3);
                let values = pairs.get(tx, &(first as u32))?.collect::<Result<Vec<_>>>()?;
                assert!(values.iter().eq(own.by_ref()), "values of one key");
                let mut backwards = pairs.get(tx, &(first as u32))?.rev().collect::<Result<Vec<_>>>()?;
                backwards.reverse();
                assert_eq!(values, backwards);
            }
            assert_eq!(pairs.iter(tx)?.count(), self.model.len());
            assert_eq!(pairs.len(tx)?, self.model.len() as u64);
            Ok(())
        })?;
        self.other.delete("pairs").map(drop)
    }

    /// Walks over a snapshot, while rows are changed, removed and inserted.
    fn snapshot(&self) -> Result<()> {
        let table = self.other.table::<K, V>("walked")?;
        self.other.write(|tx| self.fill(tx, &table))?;
        let snapshot = self.other.snapshot()?;
        {
            let tx = snapshot.read();
            let mut rows = table.iter(&tx)?;
            let next = |forwards| {
                let key = self.key();
                let is_small =
                    self.model.get(&key).is_none_or(|value| strandline::Persist::bytes(value) < 5000);
                let written = self.other.write(|tx| match self.flip() {
                    _ if !is_small => Ok(()),
                    true => table.insert(tx, &key, &V::value(7, 30)).map(drop),
                    false => table.remove(tx, &key).map(drop),
                });
                written
                    .and_then(|()| if forwards { rows.next() } else { rows.next_back() }.transpose())
                    .transpose()
            };
            self.walk(self.all(), || self.flip(), next)?;
            assert_eq!(table.len(&tx)?, self.model.len() as u64);
        }
        self.other.delete("walked").map(drop)
    }

    /// Inserts the rows in the order in which they were drawn.
    fn fill(&self, tx: &Tx<'_, C>, table: &Table<K, V>) -> Result<()> {
        for &(seed, _) in self.drawn {
            let key = K::key(seed);
            table.insert(tx, &key, &self.model[&key])?;
        }
        Ok(())
    }

    /// Dumps rows without their types and loads them again, and migrates them to other types.
    fn dump_load_and_migrate(&self) -> Result<()> {
        let name = self.table.name();
        let about = self.db.list()?.into_iter().find(|about| about.name == name).expect("the table");
        let mut rows = Vec::new();
        let shown = self.db.dump(name, |key, value| {
            rows.push(Ok((key, value)));
            Ok(())
        })?;
        assert_eq!(shown, self.model.len() as u64);
        let loaded = self.other.load(&about, rows)?;
        assert_eq!((loaded.rows, loaded.replaced), (shown, 0));
        let copied = self.other.table::<K, V>(name)?;
        self.other.read(|tx| {
            let mut rows = copied.iter(tx)?;
            self.walk(self.all(), || true, |_| rows.next())
        })?;
        let migrated = self.other.migrate(name, |key: K, value: V| Ok(Some((key, (value, true)))), |_| {})?;
        self.other.read(|tx| {
            let mut rows = migrated.iter(tx)?;
            self.walk(self.all(), || true, |_| Some(rows.next()?.map(|(key, (value, _))| (key, value))))
        })?;
        self.other.delete(name).map(drop)
    }
}

/// All ways to walk. New ones are added here.
macro_rules! ways {
    ($case:expr; $($way:ident)*) => {
        $(($case).$way().unwrap_or_else(|error| panic!("{}: {error}", stringify!($way)));)*
    };
}

fn options() -> Options {
    Options {
        geometry: Geometry { size: 256 << 20, logs: 4, log_bytes: 1 << 18, chunk_bytes: 1 << 16 },
        lock_bits: 14,
        ..Options::default()
    }
}

/// The databases that the cases share.
struct Databases<C: Control<Memory = Native>>(Database<C>, Database<C>);

impl<C: Control<Memory = Native>> Databases<C> {
    fn new() -> Self {
        let make =
            || Database::from(Store::<Tables, C>::in_memory(&options(), |tx| Tables::new(tx)).unwrap());
        Self(make(), make())
    }

    /// Stores rows and walks over them in all ways. Returns the number of rows that were compared.
    fn walk<K: DrawnKey, V: DrawnValue>(&self, drawn: &[Drawn], seed: u64) -> u64 {
        let Self(db, other) = self;
        // An earlier case that has failed leaves its tables.
        for db in [db, other] {
            db.list().unwrap().iter().for_each(|table| assert!(db.delete(&table.name).unwrap()));
        }
        let model: Model<K, V> =
            drawn.iter().map(|&(seed, bytes)| (K::key(seed), V::value(seed, bytes))).collect();
        let table = db.table::<K, V>("rows").unwrap();
        let random = RefCell::new(fastrand::Rng::with_seed(seed));
        let case = Case { db, table: &table, other, model: &model, drawn, random, compared: Cell::default() };
        db.write(|tx| case.fill(tx, &table)).unwrap();
        ways! { case;
            iter rev both_ends next_with ranges prefix ends check cursor drain extract_if retain pops
            changed_beside collections multimap snapshot dump_load_and_migrate
        }
        // The ways that were rolled back have left no change.
        case.iter().unwrap();
        case.compared.get()
    }
}

#[test]
fn walks_have_every_row_once_and_in_order() {
    let cases = std::env::var("STRANDLINE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let (stm, single) = (Databases::<Stm>::new(), Databases::<SingleWriter>::new());
    let (compared, tried) = (Cell::new(0), Cell::new(0));
    let done = runner.run(&(rows(), 0..5u8, any::<u64>()), |(rows, types, seed)| {
        compared.set(
            compared.get()
                + match types {
                    0 => stm.walk::<u64, Vec<u8>>(&rows, seed),
                    1 => stm.walk::<u64, u64>(&rows, seed),
                    2 => single.walk::<String, Vec<u8>>(&rows, seed),
                    3 => single.walk::<(u32, String), String>(&rows, seed),
                    _ => stm.walk::<Vec<u8>, Vec<u8>>(&rows, seed),
                },
        );
        tried.set(tried.get() + 1);
        Ok(())
    });
    if let Err(error) = done {
        panic!("{error}");
    }
    println!("0 wrong rows of {} in {} random iterations", compared.get(), tried.get());
}

/// The end is reported if no row is left, but not after an error.
#[test]
fn a_cursor_that_has_failed_reports_no_end() {
    let db = Database::in_memory_with(&options()).unwrap();
    let done = db.write(|tx| {
        let map = OrderedMap::<u64, u64>::new(tx)?;
        map.insert(tx, &1, &1)?;
        let mut cursor = map.cursor(tx);
        cursor.seek(&1);
        map.destroy(tx)?;
        for _ in 0..3 {
            assert!(cursor.next().is_err() && cursor.previous().is_err());
        }
        Err::<(), _>(Error::Aborted)
    });
    assert!(matches!(done, Err(Error::Aborted | Error::Dangling { .. })), "{done:?}");
}

/// The memory of popped items holds new ones. The walk returns all items that remain, or an error.
#[test]
fn a_queue_that_is_popped_beside_its_iteration_hides_no_item() {
    let db = Database::in_memory_with(&options()).unwrap();
    for (returned, popped) in (0..5).flat_map(|returned| (0..6).map(move |popped| (returned, popped))) {
        let done = db.write(|tx| {
            let queue = Queue::<u64>::new(tx)?;
            (0..5).try_for_each(|item| queue.push(tx, &item))?;
            let mut items = queue.iter(tx)?;
            for _ in 0..returned {
                items.next().transpose()?;
            }
            for _ in 0..popped {
                queue.pop(tx)?;
            }
            (5..9).try_for_each(|item| queue.push(tx, &item))?;
            match items.collect::<Result<Vec<_>>>() {
                Ok(rest) => {
                    let stayed = returned.max(popped)..5;
                    assert!(rest.is_sorted() && stayed.clone().all(|item| rest.contains(&item)), "{rest:?}");
                    assert!(stayed.is_empty() || rest.len() as u64 == 9 - stayed.start, "{rest:?}");
                }
                Err(Error::Dangling { .. }) => assert!(popped > returned),
                Err(error) => return Err(error),
            }
            Err::<(), _>(Error::Aborted)
        });
        assert!(
            matches!(done, Err(Error::Aborted | Error::Dangling { .. })),
            "{returned}, {popped}: {done:?}"
        );
    }
}

/// A snapshot reads entries ahead. Here a long row fills the batch within a layer that has another row after it, while a row of the layer above is in
/// reach. Iteration used to continue with that one.
#[test]
fn a_batch_that_a_layer_has_filled_has_no_row_from_behind_it() {
    let rows = [(86_532_151, 0), (3_815_912_506, 40), (1_253_174_036, 524_248)];
    let (stm, single) = (Databases::<Stm>::new(), Databases::<SingleWriter>::new());
    for seed in 0..4 {
        stm.walk::<(u32, String), String>(&rows, seed);
        single.walk::<(u32, String), String>(&rows, seed);
    }
}
