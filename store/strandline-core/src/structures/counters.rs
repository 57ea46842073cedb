//! Counters for the number of keys in a structure. Transactions that insert or remove keys do not conflict because of them.
//!
//! ```text
//! block    16 lines, each with a count in its first word. The sum of these, modulo 2^64, is the number of keys
//! ```
//!
//! A worker counts the keys that it inserts and removes in a line of its own; workers share lines if there are more than 16. The
//! structure's header has the address of the block in the upper 48 bits of a word whose lower 16 bits serve another purpose.

use super::survey::Survey;
use crate::error::{self, Error};
use crate::memory::{LINE_BYTES, PersistentAddress};
use crate::transaction::{Abort, Read, Transaction};

/// The number of lines: as many as an ordinary pool has logs, and therefore workers.
const LINES: u64 = 16;
/// The number of words in a line.
const LINE_WORDS: u64 = LINE_BYTES / 8;
/// The number of words in a block.
const WORDS: u64 = LINES * LINE_WORDS;
/// The number of bits by which the block's address is shifted in the header's word.
const SHIFT: u32 = 16;

/// The counters of a structure, if it has any.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, _) = worker_and_root();
/// use strandline_core::structures::Counters;
///
/// let keys = worker.run(|tx| {
///     let counters = Counters::start(tx, 40)?;
///     counters.add(tx, 3)?;
///     counters.add(tx, -1)?;
///     counters.sum(tx)
/// })?;
/// assert_eq!(keys, Some(42));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Counters(Option<PersistentAddress>);

impl Counters {
    /// Creates counters whose sum is `keys`.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    pub fn start(tx: &mut impl Transaction, keys: u64) -> Result<Self, Abort> {
        let block = tx.alloc(8 * WORDS)?;
        for line in 0..LINES {
            tx.write(block.word(line * LINE_WORDS), if line == 0 { keys } else { 0 })?;
        }
        Ok(Self(Some(block)))
    }

    /// Splits a word of a header into its lower 16 bits and the counters whose address is in the others.
    pub fn split(word: u64) -> (u64, Self) {
        let block = word >> SHIFT;
        (word & ((1 << SHIFT) - 1), Self((block != 0).then_some(PersistentAddress::new(block))))
    }

    /// Returns the word of a header with `low`, which has up to 16 bits, and the address of these counters.
    pub fn joined(self, low: u64) -> u64 {
        low | self.0.map_or(0, |block| block.offset() << SHIFT)
    }

    /// Returns whether the structure has counters.
    pub fn exist(self) -> bool {
        self.0.is_some()
    }

    /// Counts keys that were inserted or, where `change` is negative, removed, if there are counters.
    ///
    /// # Errors
    /// Returns an error after a conflict, if the log is full or if there is damage.
    pub fn add(self, tx: &mut impl Transaction, change: i64) -> Result<(), Abort> {
        let Some(block) = self.0 else { return Ok(()) };
        if !tx.has_room(block, 8 * WORDS)? {
            return Err(
                tx.fail(Error::damaged(format!("there are no counters of keys at {:#x}", block.offset())))
            );
        }
        let line = block.word(tx.worker_number() % LINES * LINE_WORDS);
        let count = tx.read(line)?;
        tx.write(line, count.wrapping_add_signed(change))
    }

    /// Returns the number of keys; `None` without counters.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    pub fn sum(self, tx: &mut impl Read) -> Result<Option<u64>, Abort> {
        let Some(block) = self.0 else { return Ok(None) };
        let mut sum = 0_u64;
        for line in 0..LINES {
            sum = sum.wrapping_add(tx.read(block.word(line * LINE_WORDS))?);
        }
        Ok(Some(sum))
    }

    /// Frees the counters. If their address is damaged, their memory stays allocated, so that the structure can still be destroyed.
    ///
    /// # Errors
    /// Returns an error after a conflict, if the log is full or if there is damage.
    pub fn free(self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let Some(block) = self.0 else { return Ok(()) };
        match tx.find_block(block)? {
            Some(bytes) if bytes >= 8 * WORDS => tx.free(block),
            _ => Ok(()),
        }
    }

    /// Notes the block of the counters of the structure `what` at `at`, and compares their sum with `keys`, the number of keys that a walk
    /// found. `keys` is `None` if damage kept the walk from finding all of them.
    pub fn survey<S: Survey>(
        self,
        survey: &mut S,
        keys: Option<u64>,
        (what, at): (&str, PersistentAddress),
    ) -> error::Result<()> {
        let Some(block) = self.0 else { return Ok(()) };
        if !survey.block(block, WORDS, "counters of keys")? {
            return Ok(());
        }
        if let Some(Some(sum)) = survey.read(|tx| self.sum(tx))?
            && let Some(keys) = keys
            && keys != sum
        {
            survey.damaged(format!(
                "the {what} at {:#x} has {keys} keys, and its counters say {sum}",
                at.offset()
            ));
        }
        Ok(())
    }
}
