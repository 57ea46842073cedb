//! Each structure with its reference model: the operations that crash checker, torture, fuzzing and tests perform on structures, and the expected
//! results.
//!
//! All models use numbers. A structure's type here converts numbers to its keys and values, and detects when the structure holds something that
//! represents no number. So one [`Operation`] and one reference, [`Contents`], serve all structures.
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

/// An operation on a structure. A *place* is a key or an index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads the value at a place.
    Get(u64),
    /// Stores a value at a place; in a sequence only if the place has a value already.
    Insert(u64, u64),
    /// Stores a value at a place of words without reading the present one.
    Write(u64, u64),
    /// Removes a key with its value, if it is there.
    Remove(u64),
    /// Removes the key if it is there, and stores the value if not. In a sequence: removes the last item if the place is its index, replaces an item
    /// before it, and appends if there is none at the place.
    Toggle(u64, u64),
    /// Inserts a key into a multiset once more.
    Add(u64),
    /// Removes a key from a multiset once, if it is there.
    Take(u64),
    /// Swaps the values at two places.
    Swap(u64, u64),
    /// Swaps the low bytes of the values at two different places; the rest of each is replaced by the stamp, so that no value is ever stored twice.
    Exchange {
        /// The two places.
        places: [u64; 2],
        /// A stamp for each place. Their low bytes are 0.
        stamps: [u64; 2],
    },
    /// Subtracts an amount from the value at a place, then adds it to the value at another; values wrap.
    Transfer {
        /// The place that loses the amount.
        from: u64,
        /// The place that gets the amount.
        to: u64,
        /// The amount, modulo 2^64.
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

/// The result of an operation: the value at its (first) place, the item that it removed, or for [`Operation::Push`] the item for which there was no
/// room.
pub type Outcome = Option<u64>;

/// The source of drawn operations: chance, a fuzzer's bytes, or the numbers of a property test.
pub trait Choices {
    /// Returns a number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64;

    /// Returns the place of an operation.
    fn key(&mut self) -> u64;

    /// Returns a value to store. Its low byte determines its length if a structure has values of several lengths.
    fn value(&mut self) -> u64 {
        self.below(u64::MAX)
    }

    /// Returns whether the next change makes the structure larger, if it could do either.
    fn grows(&mut self) -> bool {
        self.below(8) < 5
    }
}

/// Choices from a list of numbers; all are 0 after its end. Small numbers make small choices.
#[derive(Clone, Debug)]
pub struct Numbers<I> {
    numbers: I,
    keys: u64,
    growth: u64,
}

impl<I: Iterator<Item = u32>> Numbers<I> {
    /// Uses the numbers, with keys below `keys`, which is not 0.
    pub fn new(numbers: impl IntoIterator<IntoIter = I>, keys: u64) -> Self {
        Self { numbers: numbers.into_iter(), keys, growth: 5 }
    }

    /// Sets how many of 8 changes make the structure larger.
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
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Creates it under the root word `root`, or completes and opens the one that is already there. The default does nothing: a structure of slots
    /// after the root needs no creation.
    ///
    /// # Errors
    /// Returns an error if the pool is full or if something else is there.
    fn create(&self, _runner: &mut AnyRunner<'_>, _root: PersistentAddress) -> Result<()> {
        Ok(())
    }

    /// Returns its contents after creation.
    fn empty(&self) -> Contents {
        Contents::default()
    }

    /// Returns the number below which its places are.
    fn places(&self) -> u64 {
        u64::MAX
    }

    /// Returns a value that it can hold.
    fn value(&self, choices: &mut dyn Choices) -> u64 {
        choices.value()
    }

    /// Returns an operation of any kind that it supports.
    fn draw(&self, choices: &mut dyn Choices) -> Operation {
        match choices.below(8) {
            0 => self.look_up(choices),
            1 => self.change(choices),
            _ if choices.grows() => Operation::Insert(choices.key() % self.places(), self.value(choices)),
            _ => Operation::Remove(choices.key() % self.places()),
        }
    }

    /// Returns an operation that writes, whatever the structure holds.
    fn change(&self, choices: &mut dyn Choices) -> Operation {
        Operation::Toggle(choices.key() % self.places(), self.value(choices))
    }

    /// Returns an operation that reads.
    fn look_up(&self, choices: &mut dyn Choices) -> Operation {
        Operation::Get(choices.key() % self.places())
    }

    /// Applies `operation` to the structure under `root`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the structure is damaged, or has no such operation.
    fn apply(
        &self,
        tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort>;

    /// Checks the invariants of the structure under `root`. Returns how many places have a value.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if one does not hold, and an error after a conflict.
    fn check(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort>;

    /// Reads the contents of the structure under `root`.
    ///
    /// # Errors
    /// Returns an error after a conflict, and [`Error::Damaged`] if [`Structure::apply`] cannot have stored these contents.
    fn read(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort>;

    /// Checks the structure under `root`, and returns its contents.
    ///
    /// # Errors
    /// As for [`Structure::check`] and [`Structure::read`].
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

/// Returns a look-up in one of four operations, and otherwise a change, for a structure that has no insertions and removals.
fn look_up_or_change(structure: &dyn Structure, choices: &mut dyn Choices) -> Operation {
    if choices.below(4) == 0 { structure.look_up(choices) } else { structure.change(choices) }
}

/// Ends a transaction that has encountered damage.
fn damaged(tx: &mut dyn Transaction, structure: &dyn Structure, what: impl std::fmt::Display) -> Abort {
    tx.fail(Error::damaged(format!("the {}: {what}", structure.name())))
}

/// Ends a transaction with an operation that the structure does not support.
fn refused(tx: &mut dyn Transaction, structure: &dyn Structure, operation: &Operation) -> Abort {
    tx.fail(Error::Parameter(format!("a {} has no operation {operation:?}", structure.name())))
}
