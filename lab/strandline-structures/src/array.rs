//! An array of words: the structure of the paper's SPS benchmark (swap two entries).
//!
//! ```text
//! header     word 0 tag · word 1 length · word 2 address of the elements · word 3 initialised
//! elements   one word each
//! ```
//!
//! The length is fixed when the array is created. Reading an element costs one read, storing it one record.

use std::marker::PhantomData;

use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::header::Kind;
use strandline_core::structures::value::Word;
use strandline_core::structures::words::Words;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};

/// A persistent array of fixed length.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_structures::Array;
///
/// // As many transactions as its length takes.
/// let squares = Array::create(&mut worker, root, 100, |index| index * index)?;
/// worker.run(|tx| squares.swap(tx, 3, 4))?;
/// assert_eq!(worker.view(|tx| Ok([squares.get(tx, 3)?, squares.get(tx, 4)?]))?, [16, 9]);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Array<T> {
    elements: Words,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<T> {}

impl<T: Word> Array<T> {
    fn tag() -> u64 {
        Kind::Array.tag(0, T::TYPE)
    }

    /// Creates an array of `length` elements with the values that `init` returns, under the root word `root`. If an array of this length is already
    /// there, completes it if its creation was interrupted, and opens it.
    ///
    /// # Errors
    /// Returns [`Error::WrongStructure`] if `root` refers to something else, an error if the pool is full, and the errors of [`Runner::run`].
    pub fn create(
        runner: &mut impl Runner,
        root: PersistentAddress,
        length: u64,
        mut init: impl FnMut(u64) -> T,
    ) -> Result<Self> {
        let elements =
            Words::create(runner, Kind::Array, root, Self::tag(), length, |index| init(index).to_word())?;
        Ok(Self { elements, element: PhantomData })
    }

    /// Opens the array under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if there is none, [`Error::WrongStructure`] if something else is there, and [`Error::Incomplete`] if its creation
    /// was interrupted.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        let elements = Words::open(tx, Kind::Array, root, Self::tag())?;
        Ok(Self { elements, element: PhantomData })
    }

    /// Returns the number of elements, fixed when the array is created.
    pub fn len(&self) -> u64 {
        self.elements.length
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address of element `index`, for a structure that is stored there.
    ///
    /// # Errors
    /// Returns an error if there is no such element: [`Error::Parameter`].
    pub fn address(&self, tx: &mut impl Read, index: u64) -> Result<PersistentAddress, Abort> {
        if index < self.elements.length {
            Ok(self.elements.word(index))
        } else {
            Err(self.outside(tx, index))
        }
    }

    #[cold]
    fn outside(&self, tx: &mut impl Read, index: u64) -> Abort {
        tx.fail(Error::Parameter(format!("element {index} of an array of {} elements", self.len())))
    }

    /// Returns element `index`.
    ///
    /// # Errors
    /// Returns an error if there is no such element, and the errors of [`Read::read`].
    pub fn get(&self, tx: &mut impl Read, index: u64) -> Result<T, Abort> {
        let at = self.address(tx, index)?;
        Ok(T::from_word(tx.read(at)?))
    }

    /// Stores `value` as element `index`.
    ///
    /// # Errors
    /// Returns an error if there is no such element, and the errors of [`Transaction::write`].
    pub fn set(&self, tx: &mut impl Transaction, index: u64, value: T) -> Result<(), Abort> {
        let at = self.address(tx, index)?;
        tx.write(at, value.to_word())
    }

    /// Swaps two elements.
    ///
    /// # Errors
    /// Returns an error if there is no such element, and the errors of [`Transaction::write`].
    pub fn swap(&self, tx: &mut impl Transaction, one: u64, other: u64) -> Result<(), Abort> {
        let (one, other) = (self.address(tx, one)?, self.address(tx, other)?);
        let (first, second) = (tx.read(one)?, tx.read(other)?);
        if first != second {
            tx.write(one, second)?;
            tx.write(other, first)?;
        }
        Ok(())
    }

    /// Swaps the `length` elements from `one` on with those from `other` on. The ranges may be equal.
    ///
    /// # Errors
    /// Returns an error if there are no such elements, and the errors of [`Transaction::write`].
    pub fn swap_ranges(
        &self,
        tx: &mut impl Transaction,
        one: u64,
        other: u64,
        length: u64,
    ) -> Result<(), Abort> {
        if length == 1 {
            return self.swap(tx, one, other);
        }
        let (mut first, mut second) = ([0; 64], [0; 64]);
        let mut done = 0;
        while done < length && one != other {
            let now = (length - done).min(first.len() as u64);
            for last in [one + done + now - 1, other + done + now - 1] {
                self.address(tx, last)?;
            }
            let (one, other) = (self.address(tx, one + done)?, self.address(tx, other + done)?);
            let (first, second) = (&mut first[..now as usize], &mut second[..now as usize]);
            tx.read_range(one, first)?;
            tx.read_range(other, second)?;
            tx.write_range(one, second)?;
            tx.write_range(other, first)?;
            done += now;
        }
        Ok(())
    }

    /// Calls `visit` with every element and its index, in order.
    ///
    /// # Errors
    /// Returns the errors of [`Read::read`] and `visit`.
    pub fn for_each(
        &self,
        tx: &mut impl Read,
        mut visit: impl FnMut(u64, T) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let mut buffer = [0; 64];
        let mut index = 0;
        while index < self.len() {
            let now = (self.len() - index).min(buffer.len() as u64);
            let buffer = &mut buffer[..now as usize];
            tx.read_range(self.elements.word(index), buffer)?;
            for (i, &word) in buffer.iter().enumerate() {
                visit(index + i as u64, T::from_word(word))?;
            }
            index += now;
        }
        Ok(())
    }
}
