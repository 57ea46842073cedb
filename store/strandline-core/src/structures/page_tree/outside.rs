//! Values that do not fit a leaf: in a block of their own or, from a few pages on, in extents.
//!
//! A value in extents has a block that lists them. Word 0 of the block is the number of extents. One word for each extent follows: the
//! address of its first page, with the number of its pages less one in the low bits. The value fills the pages one after another. A
//! transaction that frees the value also writes to word 0, which is the guard for its readers ([`Transaction::alloc_pages`]). The pages of
//! a committed value never change, so that they can be lent to readers; a new value gets other pages.

use super::KIND;
use crate::memory::{PAGE_BYTES, PersistentAddress};
use crate::structures::bytes::check_room;
use crate::structures::value::with_buffer_to_fill;
use crate::transaction::{Abort, Read, Transaction};

/// Values of more bytes than these are in extents, because blocks for larger values would leave a larger part of their chunks empty.
const MOST_IN_BLOCK: u64 = 4 * PAGE_BYTES;
/// Values of more bytes than these may be written past the log. Writing a smaller one through the log costs less, because it then needs no
/// flush of its own.
const MOST_IN_LOG: u64 = 16 * PAGE_BYTES;
const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// The place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// In the block at this address.
    Block(PersistentAddress),
    /// In the extents that the block at this address lists.
    Extents(PersistentAddress),
}

/// Stores the words of a value of `bytes` bytes outside its page.
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

/// Stores a value in extents and returns the address of the block that lists them; `None` if this pool has no extents.
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

/// Stores a value in extents, piece by piece.
pub(super) struct ExtentsWriter {
    bytes: u64,
    rest: u64,
    /// The words of the list after its first one.
    runs: Vec<u64>,
    /// The extent to be filled next, and the number of the value's bytes for it.
    extent: Option<(PersistentAddress, u64)>,
}

impl ExtentsWriter {
    /// Returns a writer for a value of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, rest: bytes, runs: Vec::new(), extent: None }
    }

    /// Returns whether a value of `bytes` bytes is kept in extents.
    pub fn is_for(bytes: u64) -> bool {
        bytes > MOST_IN_BLOCK
    }

    /// Allocates the next extent. Returns the number of bytes to put there, 0 at the end; `None` if this pool has no extents.
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

    /// Returns the number of bytes in the next piece, if [`next`](Self::next) has allocated an extent for it.
    pub fn wanted(&self) -> Option<usize> {
        self.extent.map(|(_, bytes)| bytes as usize)
    }

    /// Returns the number of bytes of the value that are not yet stored.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// Stores the words of the next piece in its extent.
    pub fn put(&mut self, tx: &mut impl Transaction, words: &[u64]) -> Result<(), Abort> {
        let Some((at, bytes)) = self.extent.take() else { return Ok(()) };
        self.rest -= bytes;
        if self.bytes > MOST_IN_LOG { tx.fill_pages(at, words) } else { tx.write_range(at, words) }
    }

    /// Frees the extents that were allocated.
    pub fn give_up(self, tx: &mut impl Transaction) -> Result<(), Abort> {
        self.runs.into_iter().map(run).try_for_each(|(at, pages)| tx.free_pages(at, pages))
    }

    /// Stores the list of extents, and returns the address of its block.
    pub fn finish(self, tx: &mut impl Transaction) -> Result<PersistentAddress, Abort> {
        let block = tx.alloc(8 * (1 + self.runs.len() as u64))?;
        tx.write(block, self.runs.len() as u64)?;
        tx.write_range(block.word(1), &self.runs)?;
        Ok(block)
    }
}

/// Returns the first page of an extent and the number of its pages, from its word in the list.
fn run(word: u64) -> (PersistentAddress, u64) {
    (PersistentAddress::new(word & !(PAGE_BYTES - 1)), 1 + word % PAGE_BYTES)
}

/// The extents of a value.
pub(super) struct Extents {
    /// The address of the block that lists the extents. Its first word is the guard.
    pub list: PersistentAddress,
    /// The first page of each extent and the number of its pages.
    pub runs: Vec<(PersistentAddress, u64)>,
    /// The number of the value's words up to the end of each extent.
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
            // If the pool has grown, this read tells the transaction its new end.
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

    /// Returns the pieces that have the value's bytes from number `from` to `end`: the address and the number of bytes of each. Extents
    /// that follow one another are one piece.
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

    /// Returns whether all pages of the extents can be borrowed.
    pub fn prepare_to_borrow(&self, tx: &mut impl Read) -> Result<bool, Abort> {
        for &(at, pages) in &self.runs {
            if !tx.prepare_to_borrow(at, pages)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the addresses of all pages of the extents.
    pub fn pages(&self) -> impl Iterator<Item = PersistentAddress> {
        self.runs.iter().flat_map(|&(at, pages)| (0..pages).map(move |page| at.byte(page * PAGE_BYTES)))
    }

    fn free(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        // Readers notice this write.
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

/// Calls `body` with the bytes of the value in the extents that the block at `list` lists. The bytes are lent, not copied, if they are in
/// one piece and can be lent.
///
/// # Safety
/// The caller guarantees what [`Read::borrow_pages`] demands of pages of extents.
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

/// Calls `body` with the words of the value in the extents that the block at `list` lists, and the number of its bytes.
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
