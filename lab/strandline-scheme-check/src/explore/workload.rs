//! Small histories over each structure: the operations of their transactions, and the effects on the structure's contents.
//!
//! Every value written is unique, so that an old version cannot be mistaken for a new one.

use std::hash::{Hash, Hasher};

use fastrand::Rng;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::NodeShape;
use strandline_core::transaction::AnyRunner;
use strandline_core::{Abort, Error, Read, Result, Runner, Transaction};
use strandline_structures::SortedShape;
use strandline_structures::model::typed::Everything;
use strandline_structures::model::{
    BPlusTree, Blocks, Choices, Contents, Extents, HashTable, Invariant, KeyValueStore, Operation, Outcome,
    RedBlackTree, SortedTree, Structure, Words,
};
use strandline_workloads::{Checked, UnknownName, WorkloadKind, Workloads};

use super::worker::{AnyWorker, CheckedTx};

/// A transaction's effect on the structure, and the result that it received.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Effect {
    operation: Operation,
    outcome: Outcome,
}

/// The workloads.
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
    /// B+ tree of sorted arrays.
    BPlusTreeSorted,
    /// B-tree of sorted arrays.
    BTreeSorted,
    /// Key-value store.
    KvStore,
    /// Allocations and frees of many sizes.
    Allocator,
    /// The typed interface: every collection, and values behind pointers.
    Typed,
    /// Values of several pages, in the device world alone.
    Extents,
    /// A workload from a registry.
    Registered(Registered),
}

/// A registered workload that describes how it is checked.
#[derive(Clone, Copy, Debug)]
pub struct Registered {
    name: &'static str,
    checked: Checked,
}

impl Registered {
    /// Returns the workload, or `None` if it does not describe that.
    pub fn new(kind: WorkloadKind) -> Option<Self> {
        kind.checked.map(|checked| Self { name: kind.name, checked })
    }
}

impl PartialEq for Registered {
    /// Names are unique in a registry.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Registered {}

impl Hash for Registered {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Workload {
    /// The checker's own workloads that run in every world.
    pub const ALL: [Self; 9] = [
        Self::Sps,
        Self::Hash,
        Self::RbTree,
        Self::BPlusTree,
        Self::BPlusTreeSorted,
        Self::BTreeSorted,
        Self::KvStore,
        Self::Allocator,
        Self::Typed,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sps => "sps",
            Self::Hash => "hash",
            Self::RbTree => "rbtree",
            Self::BPlusTree => "bplustree",
            Self::BPlusTreeSorted => "bplustree-sorted",
            Self::BTreeSorted => "btree-sorted",
            Self::KvStore => "kvstore",
            Self::Allocator => "allocator",
            Self::Typed => "typed",
            Self::Extents => "extents",
            Self::Registered(registered) => registered.name,
        }
    }

    /// Returns all workloads: the checker's own, and then those of a registry that describe how they are checked.
    pub fn all_of(workloads: Workloads) -> impl Iterator<Item = Self> {
        let registered = workloads.iter().filter_map(Registered::new).map(Self::Registered);
        Self::ALL.into_iter().chain(registered)
    }

    /// Returns the workload with this name among [`Workload::all_of`].
    ///
    /// # Errors
    /// Returns an error that lists the known names if there is none.
    pub fn of_name(workloads: Workloads, name: &str) -> Result<Self, UnknownName> {
        let found = Self::all_of(workloads).find(|workload| workload.name() == name);
        found.ok_or_else(|| {
            UnknownName::new("workload that is checked", name, Self::all_of(workloads).map(Self::name))
        })
    }

    /// Returns the size in bytes of the chunks of its pools.
    pub(crate) fn chunk_bytes(self) -> u64 {
        if self == Self::Extents { 16 << 10 } else { 4096 }
    }

    /// Returns how many heap chunks it needs.
    pub(crate) fn chunks(self, threads: u64) -> u64 {
        match self {
            Self::Sps => 1,
            Self::Hash | Self::RbTree => 3 + 3 * threads,
            Self::BPlusTree | Self::BPlusTreeSorted | Self::BTreeSorted | Self::KvStore => 4 + 4 * threads,
            Self::Allocator => 6 + 7 * threads,
            Self::Typed => 12 + 8 * threads,
            Self::Extents => 4 + 2 * threads,
            Self::Registered(Registered { checked, .. }) => {
                checked.chunks + checked.chunks_per_thread * threads
            }
        }
    }
}

/// The operations of one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of its choices, which are the same in every attempt.
    pub seed: u64,
    /// A number below 2^40 that no other transaction has.
    pub unique: u64,
    /// The number of operations on the structure that it performs.
    pub operations: u32,
    /// The number of further words that it writes to fill the log, one word repeatedly or many words.
    pub filler: u32,
    /// True if the transaction only reads.
    pub reads_only: bool,
    /// True if its caller gives it up in the end.
    pub gives_up: bool,
}

impl Plan {
    /// Returns transactions for each of `threads` threads that conflict with those of the others; one of them gives up.
    pub(crate) fn conflicting(workload: Workload, threads: usize, transactions: u32) -> Vec<Vec<Self>> {
        let plan = |thread: u64, number: u64| Self {
            // All threads have the same seed, so they choose the same keys and conflict.
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

    /// Returns a small random transaction. One without operations seldom conflicts with others.
    pub(super) fn short(unique: u64, random: &mut Rng) -> Self {
        let operations = [0, 0, 1, 1, 1, 2][random.usize(..6)];
        let filler = random.u32(u32::from(operations == 0)..3);
        let gives_up = random.u8(..8) == 0;
        Self { seed: random.u64(..), unique, operations, filler, reads_only: false, gives_up }
    }

    /// The seed of fillers that begin at the same word, and write no word twice.
    pub(super) const SAME_WORDS: u64 = 2 << 3 | 2;

    /// Returns a transaction that only writes so many words, the same words as others of its kind.
    pub(super) fn words(unique: u64, words: u32, gives_up: bool) -> Self {
        Self { seed: Self::SAME_WORDS, unique, operations: 0, filler: words, reads_only: false, gives_up }
    }
}

const WORDS: Words = Words {
    count: 6,
    // Two words on each line.
    byte: |place| 256 + 32 * place,
    invariant: Invariant::Permutation,
};
const KEYS: u64 = 6;
const SLOTS: u64 = 5;
/// A third of the words that fillers which write no word twice use. They begin at one of the thirds, and end within the page of the roots.
const SPREAD_WORDS: u64 = 116;

/// Returns the address of a filler's word, which is not part of the structure's model.
fn scratch(tx: &impl Read, which: u64) -> PersistentAddress {
    tx.root(0).byte(1024 + 64 * which)
}

/// The random choices of one transaction's operations.
struct Chance {
    random: Rng,
    /// The last value's number.
    unique: u64,
}

impl Choices for Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(..bound)
    }

    fn key(&mut self) -> u64 {
        self.below(KEYS)
    }

    fn value(&mut self) -> u64 {
        self.unique += 1;
        // Only lengths that leave room in short logs.
        self.unique << 8 | self.below(12)
    }
}

impl Workload {
    /// Returns the structure; `None` for the typed collections.
    fn structure(self) -> Option<&'static dyn Structure> {
        Some(match self {
            Self::Sps => &WORDS,
            Self::Hash => &HashTable { buckets: 3, value_words: 1 },
            Self::RbTree => &RedBlackTree,
            Self::BPlusTree => const { &BPlusTree(NodeShape::of_pairs(4)) },
            Self::BPlusTreeSorted => const { &SortedTree(SortedShape::b_plus(3)) },
            Self::BTreeSorted => const { &SortedTree(SortedShape::b_tree(3)) },
            Self::KvStore => &KeyValueStore { buckets: 3 },
            Self::Allocator => &Blocks { slots: SLOTS },
            Self::Typed => return None,
            Self::Extents => &Extents { slots: 4 },
            Self::Registered(registered) => registered.checked.structure,
        })
    }

    /// Creates the structure.
    ///
    /// # Errors
    /// Returns an error if the pool is too small.
    pub(crate) fn create(self, runner: &mut AnyWorker) -> Result<()> {
        let Some(structure) = self.structure() else { return runner.make_everything() };
        let root = runner.view(|tx| Ok(tx.root(0)))?;
        structure.create(&mut AnyRunner::new(runner), root)
    }

    /// Executes `plan`. Returns its effects if it committed, and `None` if its caller gave it up.
    ///
    /// # Errors
    /// Returns the library's errors except aborts.
    pub(crate) fn act(self, runner: &mut AnyWorker, plan: Plan) -> Result<Option<Vec<Effect>>> {
        // A plain program whose hardware cannot roll back commits instead.
        let plan = Plan { gives_up: plan.gives_up && runner.rolls_back(), ..plan };
        let mut effects = Vec::new();
        let body = |tx: &mut &mut dyn CheckedTx| {
            effects.clear();
            self.body(tx, plan, &mut effects)
        };
        let done = if plan.reads_only { runner.view(body) } else { runner.run(body) };
        match done {
            Ok(()) => Ok(Some(effects)),
            // The transaction gave up, or was too large for the small pool: nothing has happened.
            Err(Error::Aborted | Error::Full { .. } | Error::TransactionTooLarge { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn body(self, tx: &mut &mut dyn CheckedTx, plan: Plan, effects: &mut Vec<Effect>) -> Result<(), Abort> {
        let unique = plan.unique << 12 | 1 << 11;
        let mut choices = Chance { random: Rng::with_seed(plan.seed), unique };
        for _ in 0..plan.operations {
            if plan.reads_only {
                self.look_up(tx, &mut choices)?;
            } else {
                let operation = match self.structure() {
                    Some(structure) => structure.change(&mut choices),
                    None => Everything::change(&mut choices),
                };
                let outcome = self.apply(tx, &operation)?;
                effects.push(Effect { operation, outcome });
            }
        }
        if !plan.reads_only {
            let (mine, shared) = (scratch(tx, 1 + plan.seed % 3), scratch(tx, 0));
            let (spread, first) = (tx.root(0).byte(1280), SPREAD_WORDS * (plan.seed % 3));
            for i in 0..plan.filler {
                let value = (plan.unique << 12 | u64::from(i)) << 8 | 3;
                let at = match plan.seed >> 3 & 3 {
                    1 if i % 8 == 7 => shared,
                    // Words that no other filler writes: a transaction that is copied from an execution area fills the log with only these. No two of
                    // them are adjacent, so that each has a record of its own in the shared log, too.
                    2 | 3 => spread.word((first + 5 * u64::from(i)) % (3 * SPREAD_WORDS)),
                    _ => mine,
                };
                tx.write(at, value)?;
            }
        }
        if plan.gives_up { Err(Abort::User) } else { Ok(()) }
    }

    fn look_up(self, tx: &mut &mut dyn CheckedTx, choices: &mut Chance) -> Result<(), Abort> {
        match self.structure() {
            Some(structure) => self.apply(tx, &structure.look_up(choices)).map(drop),
            None => self.contents(tx).map(drop),
        }
    }

    fn apply(self, tx: &mut &mut dyn CheckedTx, operation: &Operation) -> Result<Outcome, Abort> {
        let root = tx.root(0);
        match self.structure() {
            Some(structure) => structure.apply(tx, root, operation),
            None => tx.apply(operation),
        }
    }

    fn contents(self, tx: &mut &mut dyn CheckedTx) -> Result<Contents, Abort> {
        let root = tx.root(0);
        match self.structure() {
            Some(structure) => structure.contents(tx, root),
            None => tx.contents(),
        }
    }

    /// Checks the structure's invariants, and returns its contents.
    ///
    /// # Errors
    /// Returns an error if an invariant does not hold.
    pub(crate) fn check(self, runner: &mut AnyWorker) -> Result<Contents> {
        runner.view(|tx| self.contents(tx))
    }
}

/// Applies `effects` to `contents`.
///
/// # Errors
/// Returns an error if a transaction read something that no transaction had left.
pub fn apply(contents: &mut Contents, effects: &[Effect]) -> Result<(), String> {
    for Effect { operation, outcome } in effects {
        let expected = contents.apply(operation);
        if expected != *outcome {
            return Err(format!("{operation:?} found {outcome:?} instead of {expected:?}"));
        }
    }
    Ok(())
}
