//! Values that are stored and read piece by piece, so that they never are in memory as a whole.

use std::ops::ControlFlow;
use std::ptr::NonNull;

use super::cell::{Cell, CellWords, new_cell, new_outside_cell};
use super::outside::{Extents, ExtentsWriter, Outside};
use super::{Located, PageTree};
use crate::memory::PersistentAddress;
use crate::structures::bytes::{check_length, put_bytes};
use crate::structures::value::with_buffer_to_fill;
use crate::transaction::{Abort, Read, Transaction};

/// Words of a value that are read together.
const PIECE_WORDS: u64 = 1 << 12;

/// A value of a [`PageTree`], to be read in parts. It holds as long as nobody changes the value.
pub struct StoredValue {
    bytes: u64,
    place: Place,
}

enum Place {
    /// From this word on.
    Words(PersistentAddress),
    Extents(Extents),
}

impl StoredValue {
    /// Bytes of the value.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the bytes from number `at` on; `into` ends where the value does, or before. See [`ValueWriter`].
    ///
    /// # Errors
    /// A conflict.
    ///
    /// # Panics
    /// The value ends before.
    pub fn read_at(&self, tx: &mut impl Read, mut at: u64, mut into: &mut [u8]) -> Result<(), Abort> {
        let end = at.checked_add(into.len() as u64);
        assert!(end.is_some_and(|end| end <= self.bytes), "the value has {} bytes", self.bytes);
        if at.is_multiple_of(8) && into.as_ptr().addr().is_multiple_of(8) {
            // The words are read straight into an aligned buffer.
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

    /// Calls `piece` with the bytes from number `from` on, piece after piece, until it breaks off. A reader is lent pieces of some size as they lie in memory.
    ///
    /// # Errors
    /// A conflict.
    ///
    /// # Safety
    /// The value was looked up in this transaction or snapshot. As [`Read::borrow_pages`] demands of pages of extents: those of the value's tree are written to
    /// through the tree alone.
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

    /// Returns the pieces of the value as they lie in memory, in order, if the reader is lent all of them; `None` where the value must be read.
    ///
    /// # Errors
    /// A conflict.
    ///
    /// # Safety
    /// As [`for_each_piece`](Self::for_each_piece) demands. The pieces are lent until the transaction or snapshot that is `tx` ends: the caller reads none of them after that.
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
    /// Its value, to be read in parts.
    ///
    /// # Errors
    /// A conflict, damage.
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

/// Stores a value piece by piece, and then gives it to a key.
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
    /// A value that is too small for extents, or that comes where there are none.
    Whole(Vec<u8>),
}

impl ValueWriter {
    /// For a value of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        let in_extents = ExtentsWriter::is_for(bytes);
        let kind =
            if in_extents { Kind::Extents(ExtentsWriter::new(bytes)) } else { Kind::Whole(Vec::new()) };
        Self { bytes, kind }
    }

    /// Returns the number of bytes that the next piece must have; 0 at the end.
    ///
    /// # Errors
    /// The pool is full; a conflict, a full log.
    pub fn next(&mut self, tx: &mut impl Transaction) -> Result<usize, Abort> {
        if let Kind::Extents(writer) = &mut self.kind {
            match writer.next(tx)? {
                Some(bytes) => return Ok(bytes),
                // At the beginning.
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
    /// A conflict, a full log; the device failed.
    ///
    /// # Panics
    /// It has not as many bytes as [`ValueWriter::next`] has said.
    pub fn put(&mut self, tx: &mut impl Transaction, piece: &[u8]) -> Result<(), Abort> {
        match &mut self.kind {
            Kind::Extents(writer) => {
                assert_eq!(Some(piece.len()), writer.wanted(), "a piece of another size");
                with_buffer_to_fill(piece.len().div_ceil(8), |words| {
                    put_bytes(words, piece);
                    writer.put(tx, words)
                })
            }
            Kind::Whole(whole) => {
                assert!((whole.len() + piece.len()) as u64 <= self.bytes, "a piece of another size");
                whole.extend_from_slice(piece);
                Ok(())
            }
        }
    }

    /// Frees what the pieces so far have taken.
    ///
    /// # Errors
    /// A conflict, a full log.
    pub fn give_up(self, tx: &mut impl Transaction) -> Result<(), Abort> {
        match self.kind {
            Kind::Extents(writer) => writer.give_up(tx),
            Kind::Whole(_) => Ok(()),
        }
    }

    /// Gives the value to `key` in `tree`; the value before is freed.
    ///
    /// # Errors
    /// As [`PageTree::insert`].
    ///
    /// # Panics
    /// Pieces are missing.
    pub fn finish(self, tx: &mut impl Transaction, tree: &PageTree, key: &[u8]) -> Result<(), Abort> {
        let cell = match self.kind {
            Kind::Extents(writer) => {
                assert_eq!(writer.rest(), 0, "pieces are missing");
                let list = writer.finish(tx)?;
                new_outside_cell(tx, tree.most_words, key, list, self.bytes)?
            }
            Kind::Whole(whole) => {
                assert_eq!(whole.len() as u64, self.bytes, "pieces are missing");
                let mut words = vec![0; whole.len().div_ceil(8)];
                put_bytes(&mut words, &whole);
                new_cell(tx, tree.most_words, key, &words, self.bytes)?
            }
        };
        let located = tree.locate(tx, key)?;
        tree.set(tx, located, key, &cell)
    }
}

impl PageTree {
    /// Puts a cell where the key's cell is, or belongs.
    fn set(
        &self,
        tx: &mut impl Transaction,
        located: Located,
        key: &[u8],
        cell: &CellWords,
    ) -> Result<(), Abort> {
        let Located { mut path, leaf: mut page, mut place, cell: old } = located;
        let (counters, is_new) = (self.counters(tx)?, old.is_none());
        if let Some(old) = old {
            let mut slots = page.slots(tx)?;
            let index = slots.index(place);
            old.free_outside(tx)?;
            page.remove(tx, &mut slots, place)?;
            place = slots.place(index);
        }
        self.add(tx, &mut path, page, place, (key, cell))?;
        if is_new { counters.add(tx, 1) } else { Ok(()) }
    }
}
