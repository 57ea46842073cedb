//! Each structure with its reference model: what crash checker, torture, fuzzing and tests do to structures, and what
//! must come of it.
//!
//! Everything is in numbers: a structure's type here says what its keys and values are made of them, and notices when
//! what it reads is made of none. So one [`Operation`] and one reference, [`Contents`], serve all structures.
//!
//! ```
//! # use strandline_core::example::*;
//! # let (mut worker, root) = worker_and_root();
//! use strandline_core::transaction::AnyRunner;
//! use strandline_structures::model::{Numbers, RedBlackTree, Structure};
//!
//! let tree = RedBlackTree;
//! tree.create(&mut AnyRunner::new(&mut worker), root)?;
//! let mut expected = tree.empty();
//! for seed in 0..100u32 {
//!     let operation = tree.draw(&mut Numbers::new([seed << 25, seed << 30, seed << 27, seed], 20));
//!     let outcome = worker.run(|tx| tree.apply(tx, root, &operation))?;
//!     assert_eq!(outcome, expected.apply(&operation), "{operation:?}");
//! }
//! assert_eq!(worker.view(|tx| tree.contents(tx, root))?, expected);
//! # Ok::<(), strandline_core::Error>(())
//! ```

mod array;
mod blocks;
mod contents;
mod encoding;
mod extents;
mod graph;
mod map;
mod queue;
mod set;
#[cfg(feature = "typed")]
pub mod typed;
mod words;

use std::fmt::Debug;

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{AnyRunner, Transaction};
use strandline_core::{Abort, Error, Result};

pub use array::Array;
pub use blocks::Blocks;
pub use contents::{Contents, Difference};
pub use extents::Extents;
pub use graph::Graph;
pub use map::{BPlusTree, BTree, HashTable, KeyValueStore, RedBlackTree, SortedTree, SortedTreeOfWords};
pub use queue::Queue;
pub use set::{MultiSet, Set};
pub use words::{Invariant, Words};

/// What is done to a structure. A *place* is a key or an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads the value at a place.
    Get(u64),
    /// Stores a value at a place; in a sequence only where there is one already.
    Insert(u64, u64),
    /// Stores a value at a place of words without reading what is there.
    Write(u64, u64),
    /// Removes a key with its value, if it is there.
    Remove(u64),
    /// Removes the key if it is there, and stores the value if not. In a sequence: removes the last item if the place is
    /// its, replaces an item before it, appends if there is none.
    Toggle(u64, u64),
    /// Puts a key into a multiset once more.
    Add(u64),
    /// Takes a key out of a multiset once, if it is there.
    Take(u64),
    /// Swaps the values at two places.
    Swap(u64, u64),
    /// Swaps the low bytes of the values at two different places; the rest of each becomes that of the stamp, so that no
    /// value is ever stored twice.
    Exchange {
        /// The two whose values are swapped.
        places: [u64; 2],
        /// For each of them. Their low bytes are 0.
        stamps: [u64; 2],
    },
    /// Takes an amount from the value at a place, then adds it to that at another; values wrap.
    Transfer {
        /// The place that gives.
        from: u64,
        /// The place that takes.
        to: u64,
        /// What moves, modulo 2^64.
        amount: u64,
    },
    /// Appends to a sequence, if there is room.
    Push(u64),
    /// Appends to a sequence, and removes its first item if there were two or more.
    Rotate(u64),
    /// Removes the first item of a sequence.
    PopFirst,
    /// Removes the last item of a sequence.
    PopLast,
    /// An operation on one of several structures.
    Of(usize, Box<Operation>),
}

/// What an operation returns: the value that it found at its (first) place, the item that it removed, for [`Operation::Push`]
/// the item that had no room.
pub type Outcome = Option<u64>;

/// What drawn operations follow from: chance, a fuzzer's bytes, the numbers of a property test.
pub trait Choices {
    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64;

    /// The place of an operation.
    fn key(&mut self) -> u64;

    /// A value to be stored. Its low byte says how long it is where a structure holds values of several lengths.
    fn value(&mut self) -> u64 {
        self.below(u64::MAX)
    }

    /// Returns whether the next change makes the structure larger, where it may do either.
    fn grows(&mut self) -> bool {
        self.below(8) < 5
    }
}

/// The choices that a list of numbers stands for; all 0 when it has come to its end. Small numbers mean small choices.
#[derive(Clone, Debug)]
pub struct Numbers<I> {
    numbers: I,
    keys: u64,
    growth: u64,
}

impl<I: Iterator<Item = u32>> Numbers<I> {
    /// With keys below `keys`, which is not 0.
    pub fn new(numbers: impl IntoIterator<IntoIter = I>, keys: u64) -> Self {
        Self { numbers: numbers.into_iter(), keys, growth: 5 }
    }

    /// With so many of 8 changes that make the structure larger.
    #[must_use]
    pub fn growing(self, growth: u64) -> Self {
        Self { growth, ..self }
    }
}

impl<I: Iterator<Item = u32>> Choices for Numbers<I> {
    fn below(&mut self, bound: u64) -> u64 {
        let number = self.numbers.next().unwrap_or(0);
        ((u128::from(number) * u128::from(bound)) >> 32) as u64
    }

    fn key(&mut self) -> u64 {
        self.below(self.keys)
    }

    fn value(&mut self) -> u64 {
        let mut number = || u64::from(self.numbers.next().unwrap_or(0));
        number() | number() << 32
    }

    fn grows(&mut self) -> bool {
        self.below(8) < self.growth
    }
}

/// A structure with its reference model.
pub trait Structure: Debug + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Creates it under the root word `root`, or completes and opens the one that is there. By default it does nothing: a structure of slots behind
    /// the root needs nothing that is created.
    ///
    /// # Errors
    /// The pool is full; something else is there.
    fn create(&self, _runner: &mut AnyRunner<'_>, _root: PersistentAddress) -> Result<()> {
        Ok(())
    }

    /// What it holds when it has been created.
    fn empty(&self) -> Contents {
        Contents::default()
    }

    /// Its places are below this number.
    fn places(&self) -> u64 {
        u64::MAX
    }

    /// A value that it can hold.
    fn value(&self, choices: &mut dyn Choices) -> u64 {
        choices.value()
    }

    /// An operation of any kind that it has.
    fn draw(&self, choices: &mut dyn Choices) -> Operation {
        match choices.below(8) {
            0 => self.look_up(choices),
            1 => self.change(choices),
            _ if choices.grows() => Operation::Insert(choices.key() % self.places(), self.value(choices)),
            _ => Operation::Remove(choices.key() % self.places()),
        }
    }

    /// An operation that writes, whatever the structure holds.
    fn change(&self, choices: &mut dyn Choices) -> Operation {
        Operation::Toggle(choices.key() % self.places(), self.value(choices))
    }

    /// An operation that reads.
    fn look_up(&self, choices: &mut dyn Choices) -> Operation {
        Operation::Get(choices.key() % self.places())
    }

    /// Does `operation` to the structure under `root`.
    ///
    /// # Errors
    /// A conflict; the structure is damaged, or has no such operation.
    fn apply(
        &self,
        tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort>;

    /// Checks the invariants of the structure under `root`; returns at how many places there is something.
    ///
    /// # Errors
    /// A conflict; [`Error::Damaged`]: one does not hold.
    fn check(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort>;

    /// Reads all that the structure under `root` holds.
    ///
    /// # Errors
    /// A conflict; [`Error::Damaged`]: [`Structure::apply`] cannot have stored that.
    fn read(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort>;

    /// Checks the structure under `root`, and reads all that it holds.
    ///
    /// # Errors
    /// As [`Structure::check`] and [`Structure::read`].
    fn contents(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        let (counted, contents) = (self.check(tx, root)?, self.read(tx, root)?);
        match counted == contents.len() {
            true => Ok(contents),
            false => {
                let what = format!("the {} counts {counted} and shows {}", self.name(), contents.len());
                Err(tx.fail(Error::damaged(what)))
            }
        }
    }
}

/// Draws a look-up in one of four operations, and otherwise a change, for a structure that has no insertions and removals.
fn look_up_or_change(structure: &dyn Structure, choices: &mut dyn Choices) -> Operation {
    if choices.below(4) == 0 { structure.look_up(choices) } else { structure.change(choices) }
}

/// The end of a transaction that has met what cannot be.
fn damaged(tx: &mut dyn Transaction, structure: &dyn Structure, what: impl std::fmt::Display) -> Abort {
    tx.fail(Error::damaged(format!("the {}: {what}", structure.name())))
}

/// The end of a transaction with an operation that the structure does not have.
fn refused(tx: &mut dyn Transaction, structure: &dyn Structure, operation: &Operation) -> Abort {
    tx.fail(Error::Parameter(format!("a {} has no operation {operation:?}", structure.name())))
}
