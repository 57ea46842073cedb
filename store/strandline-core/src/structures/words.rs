//! A long run of words under a header, created by several transactions: an array's elements, or a table's buckets.
//!
//! ```text
//! header   word 0 tag · word 1 length · word 2 address of the words · word 3 how many are initialised
//! ```
//!
//! The first transaction allocates header and words and links them to the root; each further one stores a batch of words and increases word
//! 3. So a crash leaks nothing, and creation can resume where it ended. The memory has arbitrary contents before, so `open` fails until
//! word 3 equals word 1.
//!
//! A batch is as large as the log allows: `create` halves it when the log turns out to be too small.

use super::header::{self, Kind};
use crate::error::{Error, Result};
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read, Runner, Transaction};

const LENGTH: usize = 1;
const FIRST: usize = 2;
const INITIALISED: usize = 3;
/// The number of words in the header.
pub const HEADER_WORDS: usize = 4;

const LARGEST_BATCH: usize = 4096;
const SMALLEST_BATCH: usize = 16;
const LONGEST: u64 = 1 << 44;

/// The address and the number of the words.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The address of the first word.
    pub first: PersistentAddress,
    /// The number of words.
    pub length: u64,
    /// The parameter in the tag.
    pub parameter: u64,
    /// The address of the header's word that has the address of the first word.
    pub link: PersistentAddress,
}

impl Words {
    /// Creates `length` words, resumes a creation that was interrupted, or opens words that are complete. `init` returns the contents of a
    /// word. It is called outside transactions, in order, for the words that are not yet initialised.
    pub fn create(
        runner: &mut impl Runner,
        kind: Kind,
        root: PersistentAddress,
        tag: u64,
        length: u64,
        mut init: impl FnMut(u64) -> u64,
    ) -> Result<Self> {
        if length > LONGEST {
            return Err(Error::Parameter(format!("{length} words are too many for one {}", kind.name())));
        }
        let (header, first, mut done) = runner.run(|tx| Self::link(tx, kind, root, tag, length))?;
        let mut batch = LARGEST_BATCH;
        // Values from word `start` on. A transaction writes as many of them as a batch may have.
        let (mut start, mut values) = (done, Vec::with_capacity(LARGEST_BATCH));
        while done < length {
            values.drain(..((done - start) as usize).min(values.len()));
            start = done;
            while values.len() < batch && start + (values.len() as u64) < length {
                values.push(init(start + values.len() as u64));
            }
            let now = &values[..values.len().min(batch)];
            let outcome = runner.run(|tx| {
                let initialised = tx.read(header.word(INITIALISED as u64))?;
                if initialised != start {
                    // Another thread creates the words at the same time.
                    return Ok(initialised);
                }
                tx.write_range(first.word(start), now)?;
                let initialised = start + now.len() as u64;
                tx.write(header.word(INITIALISED as u64), initialised)?;
                Ok(initialised)
            });
            match outcome {
                Ok(initialised) if initialised < start => {
                    return Err(Error::damaged(format!(
                        "the {} lost words while it was created",
                        kind.name()
                    )));
                }
                Ok(initialised) => {
                    // Skips the words that others initialised, so that each value goes to its own word.
                    while start + (values.len() as u64) < initialised.min(length) {
                        values.push(init(start + values.len() as u64));
                    }
                    done = initialised;
                }
                Err(Error::TransactionTooLarge { .. }) if batch > SMALLEST_BATCH => batch /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(Self { first, length, parameter: tag & header::PARAMETER_MASK, link: header.word(FIRST as u64) })
    }

    /// Returns the addresses of the header that `root` refers to and of its first word, and the number of initialised words. Creates the
    /// header if the root word is 0.
    fn link(
        tx: &mut impl Transaction,
        kind: Kind,
        root: PersistentAddress,
        tag: u64,
        length: u64,
    ) -> Result<(PersistentAddress, PersistentAddress, u64), Abort> {
        let plain = tag & !header::PARAMETER_MASK;
        let found = header::find::<HEADER_WORDS>(tx, kind, root, plain)?;
        if let Some((at, words)) = found
            && words[FIRST] != 0
        {
            if words[0] != tag || words[LENGTH] != length {
                return Err(tx.fail(kind.wrong(root)));
            }
            Self::check(tx, kind, at, &words)?;
            return Ok((at, PersistentAddress::new(words[FIRST]), words[INITIALISED]));
        }
        // The header of words that were destroyed is used again.
        let at = match found {
            Some((at, _)) => at,
            None => tx.alloc(8 * HEADER_WORDS as u64)?,
        };
        let first = tx.alloc(8 * length.max(1))?;
        tx.write_range(at, &[tag, length, first.offset(), 0])?;
        tx.write(root, at.offset())?;
        Ok((at, first, 0))
    }

    /// Creates `length` words with value 0 in this transaction. Writes their number and their address to the allocated words at `at`.
    pub fn create_at(tx: &mut impl Transaction, at: PersistentAddress, length: u64) -> Result<Self, Abort> {
        let first = tx.alloc(8 * length.max(1))?;
        for index in 0..length {
            tx.write(first.word(index), 0)?;
        }
        tx.write_range(at, &[length, first.offset()])?;
        Ok(Self { first, length, parameter: 0, link: at.word(1) })
    }

    /// Returns the words whose number and address are the two words at `at`. Does not check that they are in the heap.
    pub fn of_header(
        tx: &mut impl Read,
        kind: Kind,
        at: PersistentAddress,
        [length, first]: [u64; 2],
    ) -> Result<Self, Abort> {
        if !(1..=LONGEST).contains(&length) || first == 0 {
            return Err(kind.damaged(tx, at, "an impossible header"));
        }
        Ok(Self { first: PersistentAddress::new(first), length, parameter: 0, link: at.word(1) })
    }

    /// Opens words whose creation is complete.
    pub fn open(tx: &mut impl Read, kind: Kind, root: PersistentAddress, tag: u64) -> Result<Self, Abort> {
        let Some((at, words)) = header::find::<HEADER_WORDS>(tx, kind, root, tag)? else {
            return Err(tx.fail(kind.missing(root)));
        };
        if words[FIRST] == 0 {
            return Err(tx.fail(kind.missing(root)));
        }
        Self::check(tx, kind, at, &words)?;
        if words[INITIALISED] != words[LENGTH] {
            return Err(tx.fail(kind.incomplete(root)));
        }
        Ok(Self {
            first: PersistentAddress::new(words[FIRST]),
            length: words[LENGTH],
            parameter: words[0] & header::PARAMETER_MASK,
            link: at.word(FIRST as u64),
        })
    }

    /// Checks that a header is plausible and that its words are in the heap.
    fn check(
        tx: &mut impl Read,
        kind: Kind,
        at: PersistentAddress,
        words: &[u64; HEADER_WORDS],
    ) -> Result<(), Abort> {
        let (length, first) = (words[LENGTH], PersistentAddress::new(words[FIRST]));
        if length > LONGEST || words[INITIALISED] > length || first.is_null() {
            return Err(kind.damaged(tx, at, "an impossible header"));
        }
        tx.read(first)?;
        tx.read(first.word(length.saturating_sub(1)))?;
        Ok(())
    }

    /// Returns the address of the block that has the words.
    pub fn first(&self) -> PersistentAddress {
        self.first
    }

    /// Returns the address of word `index`, which must be less than the length.
    pub fn word(&self, index: u64) -> PersistentAddress {
        debug_assert!(index < self.length);
        self.first.word_inside(index)
    }
}

/// Returns the number of the bucket of a hash, of `buckets` buckets.
pub fn bucket(hash: u64, buckets: u64) -> u64 {
    ((u128::from(hash) * u128::from(buckets)) >> 64) as u64
}
