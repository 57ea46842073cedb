//! Values that do not fit a leaf: in a block of their own, or, from some pages on, in extents.
//!
//! A value in extents has a block that lists them: word 0 how many they are, then a word for each, the address of its first page with the number of its
//! pages less one in the low bits. The value fills the pages one after another. Whoever frees it also writes to word 0, the guard of those who
//! read it ([`Transaction::alloc_pages`]). The pages of a value that is committed never change, so that they can be lent to readers: a new value gets
//! others.

use super::KIND;
use crate::memory::{PAGE_BYTES, PersistentAddress};
use crate::structures::bytes::check_room;
use crate::structures::value::with_buffer_to_fill;
use crate::transaction::{Abort, Read, Transaction};

/// Values of more bytes than these are in extents. The blocks for larger ones leave a larger part of their chunks empty.
const MOST_IN_BLOCK: u64 = 4 * PAGE_BYTES;
/// Values of more bytes than these need not go through the log. A smaller one costs less there, as it needs no flush of its own.
const MOST_IN_LOG: u64 = 16 * PAGE_BYTES;
const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// The place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// In this block.
    Block(PersistentAddress),
    /// In the extents that this block lists.
    Extents(PersistentAddress),
}

/// Stores the words of a value of `bytes` bytes.
pub(super) fn store(tx: &mut impl Transaction, words: &[u64], bytes: u64) -> Result<Outside, Abort> {
    if bytes > MOST_IN_BLOCK
        && let Some(list) = store_in_extents(tx, words, bytes)?
    {
        return Ok(Outside::Extents(list));
    }
    let block = tx.alloc(8 * words.len() as u64)?;
    tx.write_range(block, words)?;
    Ok(Outside::Block(block))
}

/// The block that lists the extents; `None`: there are none here.
fn store_in_extents(
    tx: &mut impl Transaction,
    mut words: &[u64],
    bytes: u64,
) -> Result<Option<PersistentAddress>, Abort> {
    let mut writer = ExtentsWriter::new(bytes);
    while !words.is_empty() {
        let Some(bytes) = writer.next(tx)? else { return Ok(None) };
        let (now, rest) = words.split_at(bytes.div_ceil(8));
        writer.put(tx, now)?;
        words = rest;
    }
    writer.finish(tx).map(Some)
}

/// Stores a value in extents, one after another.
pub(super) struct ExtentsWriter {
    bytes: u64,
    rest: u64,
    /// The words of the list behind its first one.
    runs: Vec<u64>,
    /// The extent that is to be filled, and its bytes of the value.
    extent: Option<(PersistentAddress, u64)>,
}

impl ExtentsWriter {
    /// For a value of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, rest: bytes, runs: Vec::new(), extent: None }
    }

    /// Returns whether a value of so many bytes is kept in extents.
    pub fn is_for(bytes: u64) -> bool {
        bytes > MOST_IN_BLOCK
    }

    /// Allocates the next extent: how many bytes are to be put there, 0 at the end. `None`: there are no extents here.
    pub fn next(&mut self, tx: &mut impl Transaction) -> Result<Option<usize>, Abort> {
        if self.rest == 0 {
            return Ok(Some(0));
        }
        let Some((at, pages)) = tx.alloc_pages(self.rest.div_ceil(PAGE_BYTES))? else { return Ok(None) };
        let bytes = self.rest.min(pages * PAGE_BYTES);
        self.runs.push(at.offset() | (pages - 1));
        self.extent = Some((at, bytes));
        Ok(Some(bytes as usize))
    }

    /// Bytes of the piece that is to come, if one is.
    pub fn wanted(&self) -> Option<usize> {
        self.extent.map(|(_, bytes)| bytes as usize)
    }

    /// Bytes that are still to come.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// Puts the words of as many bytes into the extent.
    pub fn put(&mut self, tx: &mut impl Transaction, words: &[u64]) -> Result<(), Abort> {
        let Some((at, bytes)) = self.extent.take() else { return Ok(()) };
        self.rest -= bytes;
        if self.bytes > MOST_IN_LOG { tx.fill_pages(at, words) } else { tx.write_range(at, words) }
    }

    /// Frees what it has allocated.
    pub fn give_up(self, tx: &mut impl Transaction) -> Result<(), Abort> {
        self.runs.into_iter().map(run).try_for_each(|(at, pages)| tx.free_pages(at, pages))
    }

    /// Stores the list.
    pub fn finish(self, tx: &mut impl Transaction) -> Result<PersistentAddress, Abort> {
        let block = tx.alloc(8 * (1 + self.runs.len() as u64))?;
        tx.write(block, self.runs.len() as u64)?;
        tx.write_range(block.word(1), &self.runs)?;
        Ok(block)
    }
}

/// The first page of an extent and the number of its pages, from its word in the list.
fn run(word: u64) -> (PersistentAddress, u64) {
    (PersistentAddress::new(word & !(PAGE_BYTES - 1)), 1 + word % PAGE_BYTES)
}

/// The extents of a value.
pub(super) struct Extents {
    /// The block that lists them, whose first word is the guard.
    pub list: PersistentAddress,
    /// First pages, and how many pages each has.
    pub runs: Vec<(PersistentAddress, u64)>,
    /// Words of the value up to the end of each.
    ends: Vec<u64>,
}

impl Extents {
    /// Reads the extents of a value of `bytes` bytes from the block at `list`.
    pub fn load(tx: &mut impl Read, list: PersistentAddress, bytes: u64) -> Result<Self, Abort> {
        let (count, pages) = (tx.read(list)?, bytes.div_ceil(PAGE_BYTES));
        if count == 0 || count > pages {
            return Err(KIND.damaged(tx, list, "an impossible number of extents"));
        }
        check_room(tx, list, 1 + count)?;
        let mut words = vec![0; count as usize];
        tx.read_range(list.word(1), &mut words)?;
        let runs: Vec<_> = words.into_iter().map(run).collect();
        let up_to = |end: &mut u64, &(_, pages): &(PersistentAddress, u64)| {
            *end += pages * PAGE_WORDS as u64;
            Some(*end)
        };
        let ends: Vec<_> = runs.iter().scan(0, up_to).collect();
        if ends.last() != Some(&(pages * PAGE_WORDS as u64)) {
            return Err(KIND.damaged(tx, list, "extents of another size"));
        }
        for &(at, pages) in &runs {
            // How far the pool reaches by now is known then.
            tx.read(at.word(pages * PAGE_WORDS as u64 - 1))?;
        }
        if pages * PAGE_WORDS as u64 > tx.heap_words() {
            return Err(KIND.damaged(tx, list, "more pages than the heap has"));
        }
        Ok(Self { list, runs, ends })
    }

    /// Reads the value's words from number `first` on.
    pub fn read_from(&self, tx: &mut impl Read, mut first: u64, mut into: &mut [u64]) -> Result<(), Abort> {
        let mut number = self.ends.partition_point(|&end| end <= first);
        while !into.is_empty()
            && let Some((&(at, pages), &end)) = self.runs.get(number).zip(self.ends.get(number))
        {
            let (words, inside) = (pages * PAGE_WORDS as u64, first + pages * PAGE_WORDS as u64 - end);
            let (now, rest) = into.split_at_mut(into.len().min((words - inside) as usize));
            if inside == 0 {
                tx.read_ahead(&mut [at], words as usize, 0);
            }
            tx.read_pages(self.list, at.word(inside), now)?;
            (first, number, into) = (end, number + 1, rest);
        }
        Ok(())
    }

    /// Returns the pieces that the value's bytes from number `from` to `end` lie in: where each begins, and its bytes. Extents that follow one another are one
    /// piece.
    pub fn pieces(&self, mut from: u64, end: u64) -> Vec<(PersistentAddress, u64)> {
        let mut pieces: Vec<(PersistentAddress, u64)> = Vec::new();
        let mut number = self.ends.partition_point(|&words| 8 * words <= from);
        while from < end
            && let Some((&(at, pages), &words)) = self.runs.get(number).zip(self.ends.get(number))
        {
            let inside = from + pages * PAGE_BYTES - 8 * words;
            let (at, bytes) = (at.byte(inside), end.min(8 * words) - from);
            match pieces.last_mut().filter(|(first, before)| first.byte(*before) == at) {
                Some((_, before)) => *before += bytes,
                None => pieces.push((at, bytes)),
            }
            (from, number) = (from + bytes, number + 1);
        }
        pieces
    }

    /// Returns whether all of their pages can be borrowed.
    pub fn prepare_to_borrow(&self, tx: &mut impl Read) -> Result<bool, Abort> {
        for &(at, pages) in &self.runs {
            if !tx.prepare_to_borrow(at, pages)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Their pages.
    pub fn pages(&self) -> impl Iterator<Item = PersistentAddress> {
        self.runs.iter().flat_map(|&(at, pages)| (0..pages).map(move |page| at.byte(page * PAGE_BYTES)))
    }

    fn free(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        // Readers notice it.
        tx.write(self.list, self.runs.len() as u64)?;
        self.runs.iter().try_for_each(|&(at, pages)| tx.free_pages(at, pages))?;
        tx.free(self.list)
    }
}

/// Frees a value of `bytes` bytes.
pub(super) fn free(tx: &mut impl Transaction, outside: Outside, bytes: u64) -> Result<(), Abort> {
    match outside {
        Outside::Block(block) => tx.free(block),
        Outside::Extents(list) => Extents::load(tx, list, bytes)?.free(tx),
    }
}

/// Calls `body` with the bytes of the value in the extents that are listed at `list`: as they lie in memory if they lie in one piece and can be lent.
///
/// # Safety
/// As [`Read::borrow_pages`] demands of pages of extents.
pub(super) unsafe fn with_bytes<R>(
    tx: &mut impl Read,
    list: PersistentAddress,
    bytes: u64,
    body: impl FnOnce(&[u8]) -> R,
) -> Result<R, Abort> {
    let extents = Extents::load(tx, list, bytes)?;
    if let [(at, _)] = extents.pieces(0, bytes)[..]
        && extents.prepare_to_borrow(tx)?
        // SAFETY: all pages are prepared; the rest is as the caller promises.
        && let Some(lent) = unsafe { tx.borrow_pages(at, bytes) }
    {
        return Ok(body(lent));
    }
    with_buffer_to_fill(bytes.div_ceil(8) as usize, |words| {
        extents.read_from(tx, 0, words)?;
        Ok(body(&bytemuck::cast_slice(words)[..bytes as usize]))
    })
}

/// Calls `body` with the words of the value in the extents that are listed at `list`, and its bytes.
pub(super) fn with_value<R>(
    tx: &mut impl Read,
    list: PersistentAddress,
    bytes: u64,
    body: impl FnOnce(&[u64], u64) -> R,
) -> Result<R, Abort> {
    let extents = Extents::load(tx, list, bytes)?;
    with_buffer_to_fill(bytes.div_ceil(8) as usize, |words| {
        extents.read_from(tx, 0, words)?;
        Ok(body(words, bytes))
    })
}
