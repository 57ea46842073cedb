//! Tables of fixed rows under an index, for the database benchmarks.
//!
//! A row is an allocation of its own; the index maps the row's key, packed into one word, to its address. [`table!`] lays out the columns of a table
//! like a C compiler: a number at a multiple of its size, so that it never spans two words; a text at a word if it takes whole words, and anywhere
//! otherwise. Waist 1 writes words, so a statement reads the words of its columns, changes them in a buffer, and writes the words that changed.

use std::ops::Range;

use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{BPlusTree, NodeShape};
use strandline_core::transaction::{Abort, Read, Runner, Transaction};
use strandline_core::{Lock, Result};
use strandline_structures::HashTable;

/// The type and the size of a column.
#[derive(Clone, Copy)]
pub enum Size {
    /// A number of 1, 2, 4 or 8 bytes.
    Number(usize),
    /// A text of at most so many bytes; zeros follow a shorter text.
    Text(usize),
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    first: usize,
    bytes: usize,
}

/// Assigns columns their places in a row. Also returns the number of words of the row.
pub const fn lay_out<const COLUMNS: usize>(sizes: [Size; COLUMNS]) -> ([Column; COLUMNS], usize) {
    let mut columns = [Column { first: 0, bytes: 0 }; COLUMNS];
    let (mut end, mut i) = (0usize, 0);
    while i < COLUMNS {
        let (bytes, alignment) = match sizes[i] {
            Size::Number(bytes) => (bytes, bytes),
            Size::Text(bytes) if bytes % 8 == 0 => (bytes, 8),
            Size::Text(bytes) => (bytes, 1),
        };
        let first = end.next_multiple_of(alignment);
        columns[i] = Column { first, bytes };
        end = first + bytes;
        i += 1;
    }
    (columns, end.div_ceil(8))
}

/// Declares a table as a module: a [`Column`] for each column, and `WORDS`, the number of words of a row.
macro_rules! table {
    ($(#[$attribute:meta])* $name:ident { $($column:ident: $kind:ident($bytes:literal),)* }) => {
        $(#[$attribute])*
        pub mod $name {
            use $crate::table::{Column, Size, lay_out};
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Index { $($column,)* COLUMNS }
            const LAID_OUT: ([Column; Index::COLUMNS as usize], usize) = lay_out([$(Size::$kind($bytes)),*]);
            $(pub const $column: Column = LAID_OUT.0[Index::$column as usize];)*
            pub const WORDS: usize = LAID_OUT.1;
        }
    };
}
pub(crate) use table;

impl Column {
    /// Returns the words of the row that contain the column.
    pub const fn words(self) -> Range<usize> {
        self.first / 8..(self.first + self.bytes).div_ceil(8)
    }

    /// Returns one part of a text that consists of several parts of the same length, such as an array of texts.
    pub const fn part(self, index: usize, parts: usize) -> Self {
        let bytes = self.bytes / parts;
        Self { first: self.first + index * bytes, bytes }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes)
    }

    /// Returns the number in this column of `row`.
    pub fn number(self, row: &[u64]) -> u64 {
        row[self.first / 8] >> (8 * (self.first % 8)) & self.mask()
    }

    /// Stores a number, which must fit, in this column of `row`.
    pub fn set_number(self, row: &mut [u64], number: u64) {
        debug_assert!(number <= self.mask());
        let shift = 8 * (self.first % 8);
        let word = &mut row[self.first / 8];
        *word = *word & !(self.mask() << shift) | number << shift;
    }

    /// Returns the text in this column of `row`, without the zeros after it.
    pub fn text(self, row: &[u64]) -> Vec<u8> {
        let byte = |at: usize| (row[at / 8] >> (8 * (at % 8))) as u8;
        let mut text: Vec<u8> = (self.first..self.first + self.bytes).map(byte).collect();
        text.truncate(text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        text
    }

    /// Returns whether the text in this column of `row` contains these eight letters.
    pub fn holds(self, row: &[u64], letters: [u8; 8]) -> bool {
        let wanted = u64::from_le_bytes(letters);
        let mut last = 0;
        (self.first..self.first + self.bytes).any(|at| {
            last = last >> 8 | (row[at / 8] >> (8 * (at % 8))) << 56;
            last == wanted
        })
    }

    /// Stores a text, which must fit, in this column of `row`, which must hold zeros there.
    pub fn set_text(self, row: &mut [u64], text: &[u8]) {
        debug_assert!(text.len() <= self.bytes);
        for (at, &byte) in (self.first..).zip(text) {
            row[at / 8] |= u64::from(byte) << (8 * (at % 8));
        }
    }

    /// Reads this column of the row at `at` into its place in `row`.
    ///
    /// # Errors
    /// As for [`Read::read`].
    pub fn read(self, tx: &mut impl Read, at: PersistentAddress, row: &mut [u64]) -> Result<(), Abort> {
        let words = self.words();
        tx.read_range(at.word(words.start as u64), &mut row[words])
    }
}

/// Finds rows by their keys.
pub trait Index: Copy {
    /// Returns the address stored for `key`.
    fn get(&self, tx: &mut impl Read, key: u64) -> Result<Option<PersistentAddress>, Abort>;
    /// Maps `key` to the address `row`.
    fn insert(&self, tx: &mut impl Transaction, key: u64, row: PersistentAddress) -> Result<bool, Abort>;
    /// Removes `key`.
    fn remove(&self, tx: &mut impl Transaction, key: u64) -> Result<Option<PersistentAddress>, Abort>;
    /// Calls `visit` with every key and address.
    fn for_each<T: Read>(
        &self,
        tx: &mut T,
        visit: impl FnMut(u64, PersistentAddress) -> Result<(), Abort>,
    ) -> Result<(), Abort>;
    /// Checks the index's own invariants. Returns the number of keys.
    fn check(&self, tx: &mut impl Read) -> Result<u64, Abort>;
}

/// A B+ tree of rows.
pub type Tree = BPlusTree<u64, PersistentAddress>;

/// The shape of the tables' B+ trees: nodes of 1 KB. A split takes about a hundred log records.
pub const SHAPE: NodeShape = NodeShape::of_pairs(54);

impl Index for Tree {
    fn get(&self, tx: &mut impl Read, key: u64) -> Result<Option<PersistentAddress>, Abort> {
        self.get(tx, key)
    }
    fn insert(&self, tx: &mut impl Transaction, key: u64, row: PersistentAddress) -> Result<bool, Abort> {
        Ok(self.insert(tx, key, row)?.is_none())
    }
    fn remove(&self, tx: &mut impl Transaction, key: u64) -> Result<Option<PersistentAddress>, Abort> {
        self.remove(tx, key)
    }
    fn for_each<T: Read>(
        &self,
        tx: &mut T,
        visit: impl FnMut(u64, PersistentAddress) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.for_each(tx, visit)
    }
    fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.check(tx)
    }
}

impl Table<Tree> {
    /// Returns the least key, if the table has rows.
    ///
    /// # Errors
    /// As for [`Table::find`].
    pub fn first_key(&self, tx: &mut impl Read) -> Result<Option<u64>, Abort> {
        Ok(self.index.first(tx, ..)?.map(|(key, _)| key))
    }
}

/// A hash table of rows.
pub type Hash = HashTable<u64, PersistentAddress>;

impl Index for Hash {
    fn get(&self, tx: &mut impl Read, key: u64) -> Result<Option<PersistentAddress>, Abort> {
        self.get(tx, key)
    }
    fn insert(&self, tx: &mut impl Transaction, key: u64, row: PersistentAddress) -> Result<bool, Abort> {
        Ok(self.insert(tx, key, &row)?.is_none())
    }
    fn remove(&self, tx: &mut impl Transaction, key: u64) -> Result<Option<PersistentAddress>, Abort> {
        self.remove(tx, key)
    }
    fn for_each<T: Read>(
        &self,
        tx: &mut T,
        visit: impl FnMut(u64, PersistentAddress) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.for_each(tx, visit)
    }
    fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.check(tx)
    }
}

/// A table: rows under an index.
#[derive(Clone, Copy)]
pub struct Table<I> {
    index: I,
    what: &'static str,
}

/// The number of words of rows that are filled in one transaction, if its log permits.
const BATCH_WORDS: usize = 4096;

impl<I: Index> Table<I> {
    /// Creates the table named `what` with this index.
    pub fn new(index: I, what: &'static str) -> Self {
        Self { index, what }
    }

    /// Returns an error about this table.
    pub fn damaged(&self, key: u64, how: &str) -> Error {
        Error::damaged(format!("{how} in the table {} at key {key:#x}", self.what))
    }

    /// Returns the address of the row with this key, if there is one.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the index is damaged.
    pub fn find(&self, tx: &mut impl Read, key: u64) -> Result<Option<PersistentAddress>, Abort> {
        self.index.get(tx, key)
    }

    /// Returns the address of the row with this key.
    ///
    /// # Errors
    /// Returns an error if there is none, and the errors of [`Table::find`].
    pub fn row(&self, tx: &mut impl Read, key: u64) -> Result<PersistentAddress, Abort> {
        match self.find(tx, key)? {
            Some(row) => Ok(row),
            None => Err(tx.fail(self.damaged(key, "a row is missing"))),
        }
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// Returns an error if the key is there already or if the pool is full, and the errors of [`Transaction::write`].
    pub fn insert(&self, tx: &mut impl Transaction, key: u64, row: &[u64]) -> Result<(), Abort> {
        let at = tx.alloc(8 * row.len() as u64)?;
        tx.write_range(at, row)?;
        if self.index.insert(tx, key, at)? {
            return Ok(());
        }
        Err(tx.fail(self.damaged(key, "a row was there already")))
    }

    /// Inserts a row whose block belongs to the region that `locks` declares, although the index does not.
    ///
    /// # Errors
    /// As for [`Table::insert`] and [`Runner::run`].
    pub fn insert_in(&self, runner: &mut impl Runner, locks: &[Lock], key: u64, row: &[u64]) -> Result<()> {
        let at = runner.run_locked(locks, |tx| {
            let at = tx.alloc(8 * row.len() as u64)?;
            tx.write_range(at, row)?;
            Ok(at)
        })?;
        runner.run(|tx| {
            if self.index.insert(tx, key, at)? {
                return Ok(());
            }
            Err(tx.fail(self.damaged(key, "a row was there already")))
        })
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// Returns an error if there is none, and the errors of [`Transaction::write`] and [`Transaction::free`].
    pub fn delete(&self, tx: &mut impl Transaction, key: u64) -> Result<(), Abort> {
        match self.index.remove(tx, key)? {
            Some(row) => tx.free(row),
            None => Err(tx.fail(self.damaged(key, "a row is missing"))),
        }
    }

    /// Inserts rows of `WORDS` words in as many transactions as necessary; a transaction that is too large for its log is halved. `locks` is the lock
    /// set of each transaction; if empty, it locks what it touches.
    ///
    /// # Errors
    /// As for [`Table::insert`] and [`Runner::run`].
    pub fn fill<R: Runner, const WORDS: usize>(
        &self,
        runner: &mut R,
        locks: Option<&[Lock]>,
        rows: impl Iterator<Item = (u64, [u64; WORDS])>,
    ) -> Result<()> {
        let mut batch = BATCH_WORDS.div_ceil(WORDS + 8);
        let mut rows = rows.fuse();
        let mut waiting = Vec::with_capacity(batch);
        loop {
            waiting.extend(rows.by_ref().take(batch.saturating_sub(waiting.len())));
            if waiting.is_empty() {
                return Ok(());
            }
            let now = &waiting[..batch.min(waiting.len())];
            let insert = |tx: &mut R::Tx<'_>| -> Result<(), Abort> {
                now.iter().try_for_each(|(key, row)| self.insert(tx, *key, row))
            };
            let outcome = match locks {
                Some(locks) => runner.run_locked(locks, insert),
                None => runner.run(insert),
            };
            match outcome {
                Ok(()) => {
                    waiting.drain(..batch.min(waiting.len()));
                }
                Err(Error::TransactionTooLarge { .. }) if batch > 1 => batch /= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the addresses of the rows with these keys, in their order, for lock sets, which have to be known before a transaction begins. The
    /// table's rows must neither be inserted nor deleted, since nothing is locked.
    ///
    /// # Errors
    /// Returns an error if a row is missing, and the errors of [`Runner::run`].
    pub fn addresses<R: Runner>(
        &self,
        runner: &mut R,
        keys: impl Iterator<Item = u64> + Clone,
    ) -> Result<Vec<PersistentAddress>> {
        runner.run_locked(&[], |tx| keys.clone().map(|key| self.row(tx, key)).collect())
    }

    /// Calls `visit` with every key and row.
    ///
    /// # Errors
    /// Returns the errors of [`Table::find`] and `visit`.
    pub fn for_each<T: Read, const WORDS: usize>(
        &self,
        tx: &mut T,
        mut visit: impl FnMut(u64, [u64; WORDS]),
    ) -> Result<(), Abort> {
        let mut all = Vec::new();
        self.index.for_each(tx, |key, at| {
            all.push((key, at));
            Ok(())
        })?;
        for (key, at) in all {
            let mut row = [0; WORDS];
            tx.read_range(at, &mut row)?;
            visit(key, row);
        }
        Ok(())
    }

    /// Checks the index. Returns the number of rows.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`].
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.index.check(tx)
    }
}

#[cfg(test)]
mod tests {
    table! {
        thing {
            SMALL: Number(1),
            LARGE: Number(4),
            NAME: Text(10),
            WHOLE: Text(16),
            LAST: Number(8),
        }
    }

    #[test]
    fn columns_do_not_overlap() {
        let mut row = [0; thing::WORDS];
        assert_eq!(thing::WORDS, 6);
        thing::NAME.set_text(&mut row, b"strandline");
        thing::WHOLE.set_text(&mut row, b"sixteen bytes ok");
        thing::SMALL.set_number(&mut row, 255);
        thing::LARGE.set_number(&mut row, u32::MAX.into());
        thing::LAST.set_number(&mut row, u64::MAX);
        thing::LARGE.set_number(&mut row, 7);
        assert_eq!(thing::SMALL.number(&row), 255);
        assert_eq!(thing::LARGE.number(&row), 7);
        assert_eq!(thing::LAST.number(&row), u64::MAX);
        assert_eq!(thing::NAME.text(&row), b"strandline");
        assert_eq!(thing::WHOLE.text(&row), b"sixteen bytes ok");
        let holds =
            |letters: &[u8; 8]| [thing::NAME, thing::WHOLE].map(|column| column.holds(&row, *letters));
        assert_eq!(
            [holds(b"trandlin"), holds(b"teen byt"), holds(b" sixteen")],
            [[true, false], [false, true], [false; 2]]
        );
        assert_eq!(thing::WHOLE.part(1, 2).text(&row), b"bytes ok");
        assert_eq!((thing::NAME.words(), thing::WHOLE.words()), (1..3, 3..5));
    }
}
