//! Small histories over each structure: what their transactions do, what they did to the structure's abstract
//! contents, and the structure's own check.
//!
//! Every value written is unique, so that an old version is never taken for a new one.

use std::collections::BTreeMap;
use std::str::FromStr;

use fastrand::Rng;
use strandline::{Control, HashMap, OrderedMap, Persist, Ptr, Queue, Text, Tx, Vector};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{BPlusTree, KeyValueStore, NodeShape};
use strandline_core::{Abort, Error, Read, Result, Runner, Transaction};
use strandline_structures::{HashTable, RedBlackTree};

use super::worker::{AnyWorker, CheckedTx};

/// A structure's abstract contents.
pub type Model = BTreeMap<u64, u64>;

/// What a transaction did to one key: its value before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The key.
    pub key: u64,
    /// The value that the transaction found.
    pub old: Option<u64>,
    /// The value that it left.
    pub new: Option<u64>,
}

/// What the transactions of a history do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Swaps among a few words.
    Sps,
    /// Hash table.
    Hash,
    /// Red-black tree.
    RbTree,
    /// B+ tree.
    BPlusTree,
    /// Key-value store.
    KvStore,
    /// Allocations and frees of many sizes.
    Allocator,
    /// The typed interface: every collection, and values behind pointers.
    Typed,
}

impl Workload {
    /// All workloads, in the order in which they are checked.
    pub const ALL: [Self; 7] =
        [Self::Sps, Self::Hash, Self::RbTree, Self::BPlusTree, Self::KvStore, Self::Allocator, Self::Typed];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sps => "sps",
            Self::Hash => "hash",
            Self::RbTree => "rbtree",
            Self::BPlusTree => "bplustree",
            Self::KvStore => "kvstore",
            Self::Allocator => "allocator",
            Self::Typed => "typed",
        }
    }

    /// Heap chunks of 4 KB that it needs.
    pub(crate) fn chunks(self, threads: u64) -> u64 {
        match self {
            Self::Sps => 1,
            Self::Hash | Self::RbTree => 3 + 3 * threads,
            Self::BPlusTree | Self::KvStore => 4 + 4 * threads,
            Self::Allocator => 6 + 7 * threads,
            Self::Typed => 12 + 8 * threads,
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|workload| workload.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|workload| workload.name()).collect();
            format!("there is no workload {name:?}; choose from {}", names.join(", "))
        })
    }
}

/// What one transaction is to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of its choices, the same in every attempt.
    pub seed: u64,
    /// Number that no other transaction has, below 2^40.
    pub unique: u64,
    /// Operations on the structure.
    pub operations: u32,
    /// Writes to fill the log, of one word again and again or of many.
    pub filler: u32,
    /// Whether it only reads.
    pub reads_only: bool,
    /// Whether its caller gives it up in the end.
    pub gives_up: bool,
}

impl Plan {
    /// Transactions for each of `threads` threads that conflict with those of the others, one of them given up.
    pub(crate) fn conflicting(workload: Workload, threads: usize, transactions: u32) -> Vec<Vec<Self>> {
        let plan = |thread: u64, number: u64| Self {
            // The same seed for all threads: they take the same keys, and so conflict.
            seed: 7 + number,
            unique: thread << 8 | number,
            operations: 1,
            filler: 0,
            reads_only: false,
            gives_up: workload != Workload::Sps && thread == 1 && number == 0 && transactions > 1,
        };
        let of = |thread| (0..transactions.into()).map(|number| plan(thread, number)).collect();
        (0..threads as u64).map(of).collect()
    }

    /// A small one at random; those without operations seldom conflict with others.
    pub(super) fn short(unique: u64, random: &mut Rng) -> Self {
        let operations = [0, 0, 1, 1, 1, 2][random.usize(..6)];
        let filler = random.u32(u32::from(operations == 0)..3);
        let gives_up = random.u8(..8) == 0;
        Self { seed: random.u64(..), unique, operations, filler, reads_only: false, gives_up }
    }

    /// The seed of fillers that all begin at the same word, and write no word twice.
    pub(super) const SAME_WORDS: u64 = 2 << 3 | 2;

    /// Writes so many words of its own, the same ones as others of these, and does nothing else.
    pub(super) fn words(unique: u64, words: u32, gives_up: bool) -> Self {
        Self { seed: Self::SAME_WORDS, unique, operations: 0, filler: words, reads_only: false, gives_up }
    }
}

const WORDS: u64 = 6;
const KEYS: u64 = 6;
const SLOTS: u64 = 5;
/// A third of the words of fillers that write no word twice: they begin at one of the thirds. All of them end within
/// the page of the roots.
const SPREAD_WORDS: u64 = 116;

/// Word `i` of sps: two on a line.
fn word(tx: &impl Read, i: u64) -> PersistentAddress {
    tx.root(0).byte(256 + 32 * i)
}

/// The word that filler goes to; not the model's.
fn scratch(tx: &impl Read, which: u64) -> PersistentAddress {
    tx.root(0).byte(1024 + 64 * which)
}

fn key_bytes(key: u64) -> [u8; 16] {
    let mut bytes = [7; 16];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let count = bytes.len().min(8);
    word[..count].copy_from_slice(&bytes[..count]);
    u64::from_le_bytes(word)
}

impl Workload {
    /// Makes the structure.
    ///
    /// # Errors
    /// The pool is too small.
    pub(crate) fn create(self, runner: &mut AnyWorker) -> Result<()> {
        let root = |runner: &mut _| Self::root(runner);
        match self {
            Self::Sps => runner.run(|tx| (0..WORDS).try_for_each(|i| tx.write(word(tx, i), i + 1))),
            Self::Hash => {
                let root = root(runner)?;
                HashTable::<u64, u64>::create(runner, root, 3, 1).map(|_| ())
            }
            Self::RbTree => runner.run(|tx| RedBlackTree::<u64, u64>::create(tx, tx.root(0)).map(|_| ())),
            Self::BPlusTree => runner
                .run(|tx| BPlusTree::<u64, u64>::create(tx, tx.root(0), NodeShape::of_pairs(4)).map(|_| ())),
            Self::KvStore => {
                let root = root(runner)?;
                KeyValueStore::create(runner, root, 3).map(|_| ())
            }
            Self::Allocator => Ok(()),
            Self::Typed => runner.make_everything(),
        }
    }

    fn root(runner: &mut AnyWorker) -> Result<PersistentAddress> {
        runner.view(|tx| Ok(tx.root(0)))
    }

    /// Carries out `plan`; returns what it did if it committed, `None` if its caller gave it up.
    ///
    /// # Errors
    /// What the library reports besides an abort.
    pub(crate) fn act(self, runner: &mut AnyWorker, plan: Plan) -> Result<Option<Vec<Effect>>> {
        let mut effects = Vec::new();
        let body = |tx: &mut &mut dyn CheckedTx| {
            effects.clear();
            self.body(tx, plan, &mut effects)
        };
        let done = if plan.reads_only { runner.view(body) } else { runner.run(body) };
        match done {
            Ok(()) => Ok(Some(effects)),
            // Given up, or too large for the small pool: nothing has happened.
            Err(Error::Aborted | Error::Full(_) | Error::TransactionTooLarge { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn body(self, tx: &mut &mut dyn CheckedTx, plan: Plan, effects: &mut Vec<Effect>) -> Result<(), Abort> {
        let mut random = Rng::with_seed(plan.seed);
        let mut unique = plan.unique << 12 | 1 << 11;
        let mut fresh = || {
            unique += 1;
            unique << 8
        };
        for _ in 0..plan.operations {
            if plan.reads_only {
                self.look_up(tx, random.u64(..KEYS))?;
            } else {
                self.operate(tx, &mut random, &mut fresh, effects)?;
            }
        }
        if !plan.reads_only {
            let (mine, shared) = (scratch(tx, 1 + plan.seed % 3), scratch(tx, 0));
            let (spread, first) = (tx.root(0).byte(1280), SPREAD_WORDS * (plan.seed % 3));
            for i in 0..plan.filler {
                let value = (plan.unique << 12 | u64::from(i)) << 8 | 3;
                let at = match plan.seed >> 3 & 3 {
                    1 if i % 8 == 7 => shared,
                    // Words of their own: what is copied from an execution area fills the log with these alone.
                    2 | 3 => spread.word((first + u64::from(i)) % (3 * SPREAD_WORDS)),
                    _ => mine,
                };
                tx.write(at, value)?;
            }
        }
        if plan.gives_up { Err(Abort::User) } else { Ok(()) }
    }

    fn look_up(self, tx: &mut &mut dyn CheckedTx, key: u64) -> Result<(), Abort> {
        let root = tx.root(0);
        match self {
            Self::Sps => tx.read(word(tx, key % WORDS)).map(|_| ()),
            Self::Hash => HashTable::<u64, u64>::open(tx, root)?.get(tx, key).map(|_| ()),
            Self::RbTree => RedBlackTree::<u64, u64>::open(tx, root)?.get(tx, key).map(|_| ()),
            Self::BPlusTree => BPlusTree::<u64, u64>::open(tx, root)?.get(tx, key).map(|_| ()),
            Self::KvStore => KeyValueStore::open(tx, root)?.get(tx, &key_bytes(key)).map(|_| ()),
            Self::Allocator => tx.read(tx.root(1 + key % SLOTS)).map(|_| ()),
            Self::Typed => tx.model(false).map(drop),
        }
    }

    fn operate(
        self,
        tx: &mut &mut dyn CheckedTx,
        random: &mut Rng,
        fresh: &mut impl FnMut() -> u64,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Abort> {
        let root = tx.root(0);
        let key = random.u64(..KEYS);
        let new = fresh();
        let (old, new) = match self {
            Self::Sps => {
                let (one, other) = (key % WORDS, (key + 1 + random.u64(..WORDS - 1)) % WORDS);
                let (a, b) = (tx.read(word(tx, one))?, tx.read(word(tx, other))?);
                // The low byte is what is swapped; the rest makes the value unique.
                let (to_one, to_other) = (new | b & 0xff, fresh() | a & 0xff);
                tx.write(word(tx, one), to_one)?;
                tx.write(word(tx, other), to_other)?;
                effects.push(Effect { key: other, old: Some(b), new: Some(to_other) });
                effects.push(Effect { key: one, old: Some(a), new: Some(to_one) });
                return Ok(());
            }
            Self::Hash => {
                let table = HashTable::<u64, u64>::open(tx, root)?;
                match table.remove(tx, key)? {
                    Some(old) => (Some(old), None),
                    None => (table.insert(tx, key, &new)?, Some(new)),
                }
            }
            Self::RbTree => {
                let tree = RedBlackTree::<u64, u64>::open(tx, root)?;
                match tree.remove(tx, key)? {
                    Some(old) => (Some(old), None),
                    None => (tree.insert(tx, key, new)?, Some(new)),
                }
            }
            Self::BPlusTree => {
                let tree = BPlusTree::<u64, u64>::open(tx, root)?;
                match tree.remove(tx, key)? {
                    Some(old) => (Some(old), None),
                    None => (tree.insert(tx, key, new)?, Some(new)),
                }
            }
            Self::KvStore => {
                let store = KeyValueStore::open(tx, root)?;
                let old = store.get(tx, &key_bytes(key))?.map(|bytes| word_of(&bytes));
                if old.is_some() && random.bool() {
                    store.remove(tx, &key_bytes(key))?;
                    (old, None)
                } else {
                    let mut value = new.to_le_bytes().to_vec();
                    value.resize(8 + random.usize(..12), 1);
                    store.insert(tx, &key_bytes(key), &value)?;
                    (old, Some(new))
                }
            }
            Self::Allocator => {
                let slot = tx.root(1 + key % SLOTS);
                let at = PersistentAddress::new(tx.read(slot)?);
                let effect = if at.is_null() {
                    let words = [3, 5, 9, 40, 520, 1200][random.usize(..6)];
                    let block = tx.alloc(8 * words)?;
                    tx.write(block, words)?;
                    tx.write(block.word(words - 1), new)?;
                    tx.write(slot, block.offset())?;
                    (None, Some(new))
                } else {
                    let words = tx.read(at)?;
                    let old = tx.read(at.word(words - 1))?;
                    tx.free(at)?;
                    tx.write(slot, 0)?;
                    (Some(old), None)
                };
                effects.push(Effect { key: key % SLOTS, old: effect.0, new: effect.1 });
                return Ok(());
            }
            Self::Typed => {
                let which = random.u64(..Everything::OPERATIONS);
                effects.extend(tx.operate(which, key, new)?);
                return Ok(());
            }
        };
        effects.push(Effect { key, old, new });
        Ok(())
    }

    /// Checks the structure's invariants; returns its contents.
    ///
    /// # Errors
    /// One does not hold.
    pub(crate) fn check(self, runner: &mut AnyWorker) -> Result<Model> {
        runner.view(|tx| {
            let mut model = Model::new();
            let root = tx.root(0);
            let mut add = |key, value| {
                model.insert(key, value);
                Ok(())
            };
            match self {
                Self::Sps => {
                    let mut seen = 0u64;
                    for i in 0..WORDS {
                        let value = tx.read(word(tx, i))?;
                        seen |= 1 << (value & 0x3f);
                        add(i, value)?;
                    }
                    if seen != ((1 << WORDS) - 1) << 1 {
                        return Err(tx.fail(Error::Damaged("the words are no permutation".into())));
                    }
                }
                Self::Hash => {
                    let table = HashTable::<u64, u64>::open(tx, root)?;
                    table.check(tx)?;
                    table.for_each(tx, add)?;
                }
                Self::RbTree => {
                    let tree = RedBlackTree::<u64, u64>::open(tx, root)?;
                    tree.check(tx)?;
                    tree.for_each(tx, add)?;
                }
                Self::BPlusTree => {
                    let tree = BPlusTree::<u64, u64>::open(tx, root)?;
                    tree.check(tx)?;
                    tree.for_each(tx, add)?;
                }
                Self::KvStore => {
                    let store = KeyValueStore::open(tx, root)?;
                    store.check(tx)?;
                    store.for_each(tx, |key, value| add(word_of(key), word_of(value)))?;
                }
                Self::Allocator => {
                    let mut blocks = Vec::new();
                    for slot in 0..SLOTS {
                        let at = PersistentAddress::new(tx.read(tx.root(1 + slot))?);
                        if !at.is_null() {
                            let words = tx.read(at)?;
                            blocks.push((at.offset(), at.word(words).offset()));
                            add(slot, tx.read(at.word(words.wrapping_sub(1)))?)?;
                        }
                    }
                    blocks.sort_unstable();
                    if blocks.windows(2).any(|two| two[0].1 > two[1].0) {
                        return Err(tx.fail(Error::Damaged("two allocations overlap".into())));
                    }
                }
                Self::Typed => model = tx.model(true)?,
            }
            Ok(model)
        })
    }
}

/// What the typed workload's pool holds: each collection, and a value behind a pointer.
#[derive(Persist)]
pub(super) struct Everything<'p> {
    hashed: HashMap<'p, String, u64>,
    ordered: OrderedMap<'p, u64, Text<'p>>,
    queue: Queue<'p, u64>,
    vector: Vector<'p, (u32, u64)>,
    pointed: Option<Ptr<'p, (u64, u64)>>,
}

impl<'p> Everything<'p> {
    /// Kinds of operation, one for each field.
    const OPERATIONS: u64 = 5;
    /// Where the keys of each field begin in the model.
    const FIELD: u64 = 16;

    pub(super) fn new(tx: &Tx<'p, impl Control>) -> Result<Self> {
        Ok(Self {
            hashed: HashMap::with_capacity(tx, 4)?,
            ordered: OrderedMap::new(tx)?,
            queue: Queue::new(tx)?,
            vector: Vector::new(tx)?,
            pointed: None,
        })
    }

    /// Changes the field `which`, at `key` where it has keys; `new` is what is stored.
    pub(super) fn operate(
        tx: &Tx<'p, impl Control>,
        root: Ptr<'p, Self>,
        which: u64,
        key: u64,
        new: u64,
    ) -> Result<Vec<Effect>> {
        let all = root.get(tx)?;
        let effect = |key, old, new| Effect { key: which * Self::FIELD + key, old, new };
        Ok(match which {
            0 => {
                let name = format!("the key {key}");
                let old = all.hashed.remove(tx, name.as_str())?;
                if old.is_none() {
                    all.hashed.insert(tx, &name, &new)?;
                }
                vec![effect(key, old, old.is_none().then_some(new))]
            }
            1 => match all.ordered.remove(tx, &key)? {
                Some(text) => {
                    let old = number(&text.get(tx)?)?;
                    text.destroy(tx)?;
                    vec![effect(key, Some(old), None)]
                }
                None => {
                    all.ordered.insert(tx, &key, &Text::new(tx, format!("{new} at {key}"))?)?;
                    vec![effect(key, None, Some(new))]
                }
            },
            // The queue goes round: two items, whose places are the keys.
            2 => {
                let second = all.queue.iter(tx)?.nth(1).transpose()?;
                let first = if second.is_some() { all.queue.pop(tx)? } else { None };
                let before = all.queue.front(tx)?;
                all.queue.push(tx, &new)?;
                match (first, before) {
                    (Some(first), _) => vec![effect(0, Some(first), second), effect(1, second, Some(new))],
                    (None, Some(_)) => vec![effect(1, None, Some(new))],
                    (None, None) => vec![effect(0, None, Some(new))],
                }
            }
            3 => {
                let length = all.vector.len(tx)?;
                if key + 1 == length {
                    let old = all.vector.pop(tx)?.map(|(_, old)| old);
                    vec![effect(key, old, None)]
                } else if key < length {
                    let (_, old) = all.vector.set(tx, key, &(7, new))?;
                    vec![effect(key, Some(old), Some(new))]
                } else {
                    all.vector.push(tx, &(7, new))?;
                    vec![effect(length, None, Some(new))]
                }
            }
            _ => match all.pointed {
                Some(pointer) if key.is_multiple_of(2) => {
                    let old = pointer.update(tx, |(count, value)| {
                        *count += 1;
                        std::mem::replace(value, new)
                    })?;
                    vec![effect(0, Some(old), Some(new))]
                }
                Some(pointer) => {
                    let (_, old) = pointer.free(tx)?;
                    root.update(tx, |all| all.pointed = None)?;
                    vec![effect(0, Some(old), None)]
                }
                None => {
                    let pointer = Ptr::new(tx, &(1, new))?;
                    root.update(tx, |all| all.pointed = Some(pointer))?;
                    vec![effect(0, None, Some(new))]
                }
            },
        })
    }

    pub(super) fn check(&self, tx: &Tx<'p, impl Control>) -> Result<()> {
        match [self.hashed.check(tx)?, self.ordered.check(tx)?].concat().pop() {
            Some(damage) => Err(Error::Damaged(damage)),
            None => Ok(()),
        }
    }

    pub(super) fn model(&self, tx: &Tx<'p, impl Control>) -> Result<Model> {
        let mut model = Model::new();
        let mut add = |field: u64, key: u64, value| model.insert(field * Self::FIELD + key, value);
        for pair in self.hashed.iter(tx) {
            let (name, value) = pair?;
            add(0, number(name.trim_start_matches("the key "))?, value);
        }
        for pair in self.ordered.iter(tx) {
            let (key, text) = pair?;
            add(1, key, number(&text.get(tx)?)?);
        }
        for (place, item) in (0..).zip(self.queue.iter(tx)?) {
            add(2, place, item?);
        }
        for (index, pair) in (0..).zip(self.vector.iter(tx)?) {
            add(3, index, pair?.1);
        }
        if let Some(pointer) = self.pointed {
            add(4, 0, pointer.get(tx)?.1);
        }
        Ok(model)
    }
}

/// The number that `text` begins with.
fn number(text: &str) -> Result<u64> {
    let digits = text.split(' ').next().unwrap_or_default();
    digits.parse().map_err(|_| Error::Damaged(format!("{text:?} begins with no number")))
}

/// `model` after `effects`.
///
/// # Errors
/// A transaction found what nobody had left.
pub fn apply(model: &mut Model, effects: &[Effect]) -> Result<(), String> {
    for effect in effects {
        let found = model.get(&effect.key).copied();
        if found != effect.old {
            return Err(format!("key {} was found with {:?} instead of {found:?}", effect.key, effect.old));
        }
        match effect.new {
            Some(value) => model.insert(effect.key, value),
            None => model.remove(&effect.key),
        };
    }
    Ok(())
}
