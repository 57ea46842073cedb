//! Contiguous rows of one size, found by their numbers: a table as an array.

use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::Runner;
use strandline_core::{Read, Result, Transaction};

/// The number of words that a transaction writes while rows are filled.
const BATCH_WORDS: usize = 4096;

/// The rows' location.
#[derive(Clone, Copy)]
pub struct Rows {
    first: PersistentAddress,
    words: u64,
}

impl Rows {
    /// Describes rows of `words` words from `first` on.
    pub fn new(first: PersistentAddress, words: usize) -> Self {
        Self { first, words: words as u64 }
    }

    /// Returns the address of row number `index`, from 0.
    pub fn at(&self, index: u64) -> PersistentAddress {
        self.first.word(index * self.words)
    }

    /// Allocates the rows once, and stores all of them; the word `home` then holds the address of the first one.
    ///
    /// # Errors
    /// Returns an error if the pool is full, and the errors of [`Runner::run`].
    pub fn create<R: Runner, const WORDS: usize>(
        runner: &mut R,
        home: PersistentAddress,
        rows: impl ExactSizeIterator<Item = [u64; WORDS]>,
    ) -> Result<Self> {
        let bytes = 8 * (WORDS * rows.len()) as u64;
        let first = runner.run(|tx| {
            if tx.read(home)? == 0 {
                let first = tx.alloc(bytes)?;
                tx.write(home, first.offset())?;
            }
            Ok(PersistentAddress::new(tx.read(home)?))
        })?;
        let words: Vec<u64> = rows.flatten().collect();
        let (mut done, mut batch) = (0, BATCH_WORDS);
        while done < words.len() {
            let now = &words[done..words.len().min(done + batch)];
            match runner.run(|tx| tx.write_range(first.word(done as u64), now)) {
                Ok(()) => done += now.len(),
                Err(Error::TransactionTooLarge { .. }) if batch > 1 => batch /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(Self::new(first, WORDS))
    }
}
