//! A bounded first-in-first-out queue: a ring of entries of one size, with a head and a tail.
//!
//! ```text
//! header   word 0 tag (parameter: words in an entry) · word 1 capacity · word 2 address of the ring
//!          word 8, on a line of its own: entries ever pushed (tail)
//!          word 16, on a line of its own: entries ever popped (head)
//! ring     capacity entries; entry number n is at n modulo the capacity
//! ```
//!
//! The copy-while-locked queue of Pelley, Chen and Wenisch (Memory Persistency, ISCA 2014), which ATOM names: an insertion copies the whole entry
//! into the ring and then moves the tail. All insertions conflict with one another, as they do on that queue's lock. The transaction hides an entry
//! until it is complete.
//!
//! Invariants: no more entries are popped than pushed, and there are never more entries than the capacity.

use std::marker::PhantomData;

use strandline_core::error::Error;
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::{bytes::FEW, bytes::check_room};
use strandline_core::structures::{header, header::Kind, header::PARAMETER_MASK};
use strandline_core::structures::{value::Value, value::with_buffer};
use strandline_core::transaction::{Abort, Read, Transaction};

const KIND: Kind = Kind::Queue;
const CAPACITY: usize = 1;
const RING: usize = 2;
const HEADER_WORDS: usize = 3;
const TAIL: u64 = 8;
const HEAD: u64 = 16;
const HEADER_BYTES: u64 = 3 * LINE_BYTES;

/// A persistent queue.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_structures::Queue;
///
/// // Room for two entries of one word.
/// let queue = worker.run(|tx| Queue::<u64>::create(tx, root, 2, 1))?;
/// let pushed = worker.run(|tx| Ok([queue.push(tx, &10)?, queue.push(tx, &20)?, queue.push(tx, &30)?]))?;
/// assert_eq!(pushed, [true, true, false]);
/// assert_eq!(worker.run(|tx| queue.pop(tx))?, Some(10));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Queue<V> {
    header: PersistentAddress,
    ring: PersistentAddress,
    capacity: u64,
    entry_words: u64,
    entry: PhantomData<fn() -> V>,
}

impl<V> Clone for Queue<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Queue<V> {}

impl<V: Value> Queue<V> {
    fn tag() -> u64 {
        KIND.tag(0, V::TYPE)
    }

    /// Creates an empty queue for `capacity` entries of `entry_words` words under the root word `root`, or opens the queue of these sizes that is
    /// already there.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if a size is 0 or too large, or `entry_words` is not what the type of entries takes, [`Error::WrongStructure`] if
    /// `root` refers to something else, and an error if the pool is full or after a conflict.
    pub fn create(
        tx: &mut impl Transaction,
        root: PersistentAddress,
        capacity: u64,
        entry_words: u64,
    ) -> Result<Self, Abort> {
        let fits = (1..=PARAMETER_MASK).contains(&entry_words)
            && V::WORDS.is_none_or(|words| words == entry_words)
            && (1..1 << 40).contains(&capacity)
            && capacity.checked_mul(entry_words).is_some_and(|words| words < 1 << 44);
        if !fits {
            return Err(tx.fail(Error::Parameter(format!(
                "a queue cannot have {capacity} entries of {entry_words} words of this type"
            ))));
        }
        if let Some(queue) = Self::find(tx, root)? {
            let is_same = (queue.capacity, queue.entry_words) == (capacity, entry_words);
            return if is_same { Ok(queue) } else { Err(tx.fail(KIND.wrong(root))) };
        }
        let header = tx.alloc(HEADER_BYTES)?;
        let ring = tx.alloc(8 * capacity * entry_words)?;
        tx.write_range(header, &[Self::tag() | entry_words, capacity, ring.offset()])?;
        tx.write(header.word(TAIL), 0)?;
        tx.write(header.word(HEAD), 0)?;
        tx.write(root, header.offset())?;
        Ok(Self { header, ring, capacity, entry_words, entry: PhantomData })
    }

    /// Opens the queue under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if there is none, and [`Error::WrongStructure`] if something else is there.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        match Self::find(tx, root)? {
            Some(queue) => Ok(queue),
            None => Err(tx.fail(KIND.missing(root))),
        }
    }

    fn find(tx: &mut impl Read, root: PersistentAddress) -> Result<Option<Self>, Abort> {
        let Some((header, words)) = header::find::<HEADER_WORDS>(tx, KIND, root, Self::tag())? else {
            return Ok(None);
        };
        let (capacity, ring) = (words[CAPACITY], PersistentAddress::new(words[RING]));
        let entry_words = words[0] & PARAMETER_MASK;
        if V::WORDS.is_some_and(|words| words != entry_words) {
            return Err(tx.fail(KIND.wrong(root)));
        }
        if entry_words == 0 || !(1..1 << 40).contains(&capacity) || ring.is_null() {
            return Err(KIND.damaged(tx, header, "an impossible header"));
        }
        Ok(Some(Self { header, ring, capacity, entry_words, entry: PhantomData }))
    }

    /// Returns how many entries it can hold.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of words in an entry.
    pub fn entry_words(&self) -> u64 {
        self.entry_words
    }

    /// Returns head and tail.
    fn ends(&self, tx: &mut impl Read) -> Result<(u64, u64), Abort> {
        let head = tx.read(self.header.word(HEAD))?;
        let tail = tx.read(self.header.word(TAIL))?;
        if tail.wrapping_sub(head) > self.capacity || head > tail || tail == u64::MAX {
            return Err(KIND.damaged(tx, self.header, "more entries than room"));
        }
        Ok((head, tail))
    }

    /// Returns the address of entry `number`.
    fn ring_words(&self) -> u64 {
        self.capacity.saturating_mul(self.entry_words)
    }

    fn place(&self, number: u64) -> PersistentAddress {
        self.ring.word(number % self.capacity * self.entry_words)
    }

    fn entry(&self, tx: &mut impl Read, number: u64) -> Result<V, Abort> {
        if self.entry_words > FEW {
            check_room(tx, self.ring, self.ring_words())?;
        }
        with_buffer(self.entry_words, |words| {
            tx.read_range(self.place(number), words)?;
            Ok(V::decode(words))
        })
    }

    /// Appends an entry. Returns `false`, and changes nothing, if there is no room.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the entry does not have the queue's number of words, and an error after a conflict or if the queue is damaged.
    pub fn push(&self, tx: &mut impl Transaction, entry: &V) -> Result<bool, Abort> {
        if entry.words() != self.entry_words {
            let (is, should) = (entry.words(), self.entry_words);
            return Err(tx.fail(Error::Parameter(format!(
                "an entry of {is} words in a queue for entries of {should}"
            ))));
        }
        let (head, tail) = self.ends(tx)?;
        if tail - head == self.capacity {
            return Ok(false);
        }
        with_buffer(self.entry_words, |words| {
            entry.encode(words);
            tx.write_range(self.place(tail), words)
        })?;
        tx.write(self.header.word(TAIL), tail + 1)?;
        Ok(true)
    }

    /// Removes the entry at the front, if there is one.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the queue is damaged.
    pub fn pop(&self, tx: &mut impl Transaction) -> Result<Option<V>, Abort> {
        let (head, tail) = self.ends(tx)?;
        if head == tail {
            return Ok(None);
        }
        let entry = self.entry(tx, head)?;
        tx.write(self.header.word(HEAD), head + 1)?;
        Ok(Some(entry))
    }

    /// Returns the entry at the front without removing it.
    ///
    /// # Errors
    /// As for [`Queue::pop`].
    pub fn front(&self, tx: &mut impl Read) -> Result<Option<V>, Abort> {
        let (head, tail) = self.ends(tx)?;
        if head == tail { Ok(None) } else { self.entry(tx, head).map(Some) }
    }

    /// Returns the number of entries.
    ///
    /// # Errors
    /// As for [`Queue::pop`].
    pub fn len(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let (head, tail) = self.ends(tx)?;
        Ok(tail - head)
    }

    /// Returns whether there are no entries.
    ///
    /// # Errors
    /// As for [`Queue::pop`].
    pub fn is_empty(&self, tx: &mut impl Read) -> Result<bool, Abort> {
        Ok(self.len(tx)? == 0)
    }

    /// Calls `visit` with every entry, from front to end.
    ///
    /// # Errors
    /// Returns the errors of [`Queue::pop`] and `visit`.
    pub fn for_each(
        &self,
        tx: &mut impl Read,
        mut visit: impl FnMut(V) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let (head, tail) = self.ends(tx)?;
        for number in head..tail {
            visit(self.entry(tx, number)?)?;
        }
        Ok(())
    }

    /// Checks the queue's invariants. Returns the number of entries.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        check_room(tx, self.ring, self.ring_words())?;
        self.len(tx)
    }
}
