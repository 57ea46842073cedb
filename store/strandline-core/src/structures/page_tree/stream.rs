//! Values that are stored and read piece by piece, so that they are never in memory as a whole.

use std::ops::ControlFlow;
use std::ptr::NonNull;

use super::cell::{Cell, CellWords, new_cell, new_outside_cell};
use super::outside::{Extents, ExtentsWriter, Outside};
use super::{Located, PageTree};
use crate::memory::PersistentAddress;
use crate::structures::bytes::{check_length, put_bytes};
use crate::structures::value::with_buffer_to_fill;
use crate::transaction::{Abort, Read, Transaction};

/// The number of words of a value that are read together.
const PIECE_WORDS: u64 = 1 << 12;

/// A value of a [`PageTree`], to be read in parts. It is valid until the value is changed.
pub struct StoredValue {
    bytes: u64,
    place: Place,
}

enum Place {
    /// In one piece, from this address on.
    Words(PersistentAddress),
    Extents(Extents),
}

impl StoredValue {
    /// Returns the number of bytes in the value.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `into` with the value's bytes from number `at` on. See [`ValueWriter`] for an example.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    ///
    /// # Panics
    /// Panics if the value ends before `into` is full.
    pub fn read_at(&self, tx: &mut impl Read, mut at: u64, mut into: &mut [u8]) -> Result<(), Abort> {
        let end = at.checked_add(into.len() as u64);
        assert!(end.is_some_and(|end| end <= self.bytes), "the value has {} bytes", self.bytes);
        if at.is_multiple_of(8) && into.as_ptr().addr().is_multiple_of(8) {
            // An aligned buffer is filled without a copy in between.
            let (whole, rest) = into.split_at_mut(into.len() / 8 * 8);
            self.read_words(tx, at / 8, bytemuck::cast_slice_mut(whole))?;
            at += whole.len() as u64;
            into = rest;
        }
        for into in into.chunks_mut((8 * PIECE_WORDS) as usize) {
            let inside = (at % 8) as usize;
            with_buffer_to_fill((inside + into.len()).div_ceil(8), |words| {
                self.read_words(tx, at / 8, words)?;
                into.copy_from_slice(&bytemuck::cast_slice(words)[inside..][..into.len()]);
                Ok(())
            })?;
            at += into.len() as u64;
        }
        Ok(())
    }

    /// Calls `piece` with the bytes from number `from` on, piece after piece, until it breaks. Pieces of values in extents are lent to a
    /// reader instead of copied, if they can be.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    ///
    /// # Safety
    /// The value was looked up in this transaction or snapshot. The caller guarantees what [`Read::borrow_pages`] demands of pages of
    /// extents: those of the value's tree are written to through the tree alone.
    pub unsafe fn for_each_piece(
        &self,
        tx: &mut impl Read,
        from: u64,
        piece: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let mut at = from;
        if let Place::Extents(extents) = &self.place
            && extents.prepare_to_borrow(tx)?
        {
            for (first, bytes) in extents.pieces(from, self.bytes) {
                // SAFETY: all pages are prepared; the rest is as the caller promises.
                let Some(lent) = (unsafe { tx.borrow_pages(first, bytes) }) else { break };
                if piece(lent).is_break() {
                    return Ok(());
                }
                at += bytes;
            }
        }
        let mut buffer = vec![0; (self.bytes.saturating_sub(at)).min(8 * PIECE_WORDS) as usize];
        while at < self.bytes {
            let bytes = (self.bytes - at).min(8 * PIECE_WORDS) as usize;
            self.read_at(tx, at, &mut buffer[..bytes])?;
            if piece(&buffer[..bytes]).is_break() {
                break;
            }
            at += bytes as u64;
        }
        Ok(())
    }

    /// Returns all pieces of the value as they are in memory, in order, if all can be lent to the reader; `None` if the value must be read.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    ///
    /// # Safety
    /// The caller guarantees the conditions of [`for_each_piece`](Self::for_each_piece). The pieces are lent until the transaction or
    /// snapshot `tx` ends: the caller reads none of them after that.
    pub unsafe fn lent_pieces(&self, tx: &mut impl Read) -> Result<Option<Vec<NonNull<[u8]>>>, Abort> {
        let Place::Extents(extents) = &self.place else { return Ok(None) };
        if !extents.prepare_to_borrow(tx)? {
            return Ok(None);
        }
        let pieces = extents.pieces(0, self.bytes).into_iter().map(|(first, bytes)| {
            // SAFETY: all pages are prepared; the rest is as the caller promises.
            unsafe { tx.borrow_pages(first, bytes) }.map(NonNull::from)
        });
        Ok(pieces.collect())
    }

    fn read_words(&self, tx: &mut impl Read, first: u64, into: &mut [u64]) -> Result<(), Abort> {
        match &self.place {
            Place::Words(at) => tx.read_range(at.word(first), into),
            Place::Extents(extents) => extents.read_from(tx, first, into),
        }
    }
}

impl Cell {
    /// Returns the cell's value, to be read in parts.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn stored_value(&self, tx: &mut impl Read) -> Result<StoredValue, Abort> {
        let bytes = self.value_bytes();
        let in_block = |tx: &mut _, block: PersistentAddress, offset: u64| {
            check_length(tx, block, offset + bytes.div_ceil(8))?;
            Ok(Place::Words(block.word(offset)))
        };
        let place = match self.value_outside(tx)? {
            None => in_block(tx, self.page, self.value_offset())?,
            Some(Outside::Block(block)) => in_block(tx, block, 0)?,
            Some(Outside::Extents(list)) => Place::Extents(Extents::load(tx, list, bytes)?),
        };
        Ok(StoredValue { bytes, place })
    }
}

/// Stores a value piece by piece, and then sets it as the value of a key.
///
/// ```
/// # use strandline_core::example::*;
/// # use strandline_core::structures::PageTree;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_core::structures::ValueWriter;
///
/// let found = worker.run(|tx| {
///     let header = tx.alloc(16)?;
///     let tree = PageTree::create_at(tx, header, 4096)?;
///     let mut writer = ValueWriter::new(100_000);
///     loop {
///         match writer.next(tx)? {
///             0 => break,
///             bytes => writer.put(tx, &vec![7; bytes])?,
///         }
///     }
///     writer.finish(tx, &tree, b"900")?;
///     let mut last = [0; 5];
///     if let Some(cell) = tree.find(tx, b"900")? {
///         cell.stored_value(tx)?.read_at(tx, 99_995, &mut last)?;
///     }
///     Ok(last)
/// })?;
/// assert_eq!(found, [7; 5]);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct ValueWriter {
    bytes: u64,
    kind: Kind,
}

enum Kind {
    Extents(ExtentsWriter),
    /// A value that is too small for extents, or one in a pool that has none.
    Whole(Vec<u8>),
}

impl ValueWriter {
    /// Returns a writer for a value of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        let in_extents = ExtentsWriter::is_for(bytes);
        let kind =
            if in_extents { Kind::Extents(ExtentsWriter::new(bytes)) } else { Kind::Whole(Vec::new()) };
        Self { bytes, kind }
    }

    /// Returns the number of bytes that the next piece must have; 0 at the end.
    ///
    /// # Errors
    /// Returns an error if the pool or the log is full, or after a conflict.
    pub fn next(&mut self, tx: &mut impl Transaction) -> Result<usize, Abort> {
        if let Kind::Extents(writer) = &mut self.kind {
            match writer.next(tx)? {
                Some(bytes) => return Ok(bytes),
                // The pool has no extents. This is found at the first piece.
                None => self.kind = Kind::Whole(Vec::new()),
            }
        }
        match &self.kind {
            Kind::Whole(whole) => Ok((self.bytes - whole.len() as u64).min(8 * PIECE_WORDS) as usize),
            Kind::Extents(_) => Ok(0),
        }
    }

    /// Stores the next piece.
    ///
    /// # Errors
    /// Returns an error after a conflict, if the log is full or if the device failed.
    ///
    /// # Panics
    /// Panics if the piece has not as many bytes as [`ValueWriter::next`] returned.
    pub fn put(&mut self, tx: &mut impl Transaction, piece: &[u8]) -> Result<(), Abort> {
        match &mut self.kind {
            Kind::Extents(writer) => {
                assert_eq!(
                    Some(piece.len()),
                    writer.wanted(),
                    "the piece has another size than the one asked for"
                );
                with_buffer_to_fill(piece.len().div_ceil(8), |words| {
                    put_bytes(words, piece);
                    writer.put(tx, words)
                })
            }
            Kind::Whole(whole) => {
                assert!(
                    (whole.len() + piece.len()) as u64 <= self.bytes,
                    "the piece has another size than the one asked for"
                );
                whole.extend_from_slice(piece);
                Ok(())
            }
        }
    }

    /// Frees the memory of the pieces that were stored.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the log is full.
    pub fn give_up(self, tx: &mut impl Transaction) -> Result<(), Abort> {
        match self.kind {
            Kind::Extents(writer) => writer.give_up(tx),
            Kind::Whole(_) => Ok(()),
        }
    }

    /// Sets the value as that of `key` in `tree`, and frees the previous value.
    ///
    /// # Errors
    /// Returns the errors of [`PageTree::insert`].
    ///
    /// # Panics
    /// Panics if pieces are missing.
    pub fn finish(self, tx: &mut impl Transaction, tree: &PageTree, key: &[u8]) -> Result<(), Abort> {
        let mut cell = CellWords::new();
        match self.kind {
            Kind::Extents(writer) => {
                assert_eq!(writer.rest(), 0, "pieces of the value are missing");
                let list = writer.finish(tx)?;
                new_outside_cell(tx, &mut cell, tree.most_words, key, (list, self.bytes))?;
            }
            Kind::Whole(whole) => {
                assert_eq!(whole.len() as u64, self.bytes, "pieces of the value are missing");
                let mut words = vec![0; whole.len().div_ceil(8)];
                put_bytes(&mut words, &whole);
                new_cell(tx, &mut cell, tree.most_words, key, (&words, self.bytes))?;
            }
        }
        let located = tree.locate(tx, key)?;
        tree.set_cell(tx, located, key, &cell)
    }
}

impl PageTree {
    /// Puts a cell where the key's cell is, or belongs.
    fn set_cell(
        &self,
        tx: &mut impl Transaction,
        located: Located,
        key: &[u8],
        cell: &CellWords,
    ) -> Result<(), Abort> {
        let Located { leaf: mut page, mut place, cell: old } = located;
        let (counters, is_new) = (self.counters(tx)?, old.is_none());
        if let Some(old) = old {
            old.free_outside(tx)?;
            place = page.remove_alone(tx, place)?;
        }
        self.add(tx, page, place, (key, cell))?;
        if is_new { counters.add(tx, 1) } else { Ok(()) }
    }
}
