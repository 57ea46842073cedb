//! Extents: runs of consecutive pages, for values that are written once and as a whole.
//!
//! They are in small chunks of a class of their own, whose blocks are pages. So every function that walks the chunks sees blocks, and each
//! page of an extent is one. These chunks have no other blocks: words that a transaction writes to an extent need not go through the log
//! (`engine/past_log.rs`).

use super::{
    Access, CHUNK_BITS, CLASSES, Chunk, Division, chunk_at, chunk_of, chunk_of_word, inside, seems_empty,
    start, table,
};
use crate::error::Abort;
use crate::layout::{Layout, View};
use crate::memory::{Memory, PAGE_BYTES, PersistentAddress};

/// The class of pages of extents.
pub(super) const CLASS: usize = CLASSES.len() - 1;

/// Returns the bits of `count` blocks from number `number` on, which share a word of the bitmap.
pub(super) fn bits_of(number: u64, count: u64) -> u64 {
    (u64::MAX >> (64 - count.clamp(1, 64))) << (number % 64)
}

/// Returns whether chunks of this size can have extents. The bitmap of every class must fit the page that the bitmap of extents has, since
/// an allocation relies on the contents of a bitmap's words in a chunk that is free.
pub(super) fn are_possible(layout: &Layout) -> bool {
    const LEAST_BITS: u32 = 14;
    const MOST_BITS: u32 = 19;
    const { assert!(CHUNK_BITS.0 < LEAST_BITS && MOST_BITS < CHUNK_BITS.1) };
    (LEAST_BITS..=MOST_BITS).contains(&layout.chunk_bits)
}

/// Returns whether a chunk with this word in the table holds extents.
pub(super) fn are_in(word: u64) -> bool {
    matches!(Chunk::decode(word), Some(Chunk::Small { class: CLASS, .. }))
}

/// Returns a mask of the pages that may be handed out: those of `mask` that are free in the last committed state and not lent. `first` is
/// the first page of the mask, and `word` the address of its word in the bitmap. Pages that this transaction has freed itself are not among
/// them. The caller has read the word in the transaction: then each freeing that it has seen is marked, and any other makes the transaction
/// conflict.
pub(super) fn free_at_home<A: Access>(
    tx: &A,
    word: PersistentAddress,
    first: PersistentAddress,
    mask: u64,
) -> u64 {
    if !are_in(tx.hint(table(tx.layout(), chunk_of(tx.layout(), word)))) {
        // A transaction that has not committed has made this a chunk of extents.
        return mask;
    }
    mask & !tx.hint(word) & !tx.lent(first, u64::from(mask.count_ones()))
}

/// Returns whether no page of this chunk is in use, if it is a chunk of extents (`class`): no page is allocated in the last committed
/// state, and none is lent. The caller has read the chunk's bitmap in the transaction, as for [`free_at_home`].
pub(super) fn are_unused<A: Access>(tx: &A, chunk: u64, class: usize) -> bool {
    let (division, base) = (Division::new(tx.layout(), class), start(tx.layout(), chunk));
    let first = base.byte(division.header);
    class != CLASS
        || seems_empty(tx, chunk, division)
            && (0..division.words()).all(|word| {
                let (page, mask) = (first.byte(64 * word * PAGE_BYTES), division.mask(word));
                tx.lent(page, u64::from(mask.count_ones())) == 0
            })
}

/// Returns whether these pages are allocated as an extent or a part of one.
pub(crate) fn are_allocated<A: Access>(tx: &mut A, at: PersistentAddress, pages: u64) -> Result<bool, Abort> {
    let Some((chunk, number, bits)) = place(tx.layout(), at, pages) else { return Ok(false) };
    let base = start(tx.layout(), chunk);
    let at_table = table(tx.layout(), chunk);
    Ok(are_in(tx.read(at_table)?) && tx.read(base.word(number / 64))? & bits == bits)
}

/// Returns the place of an extent's pages in the heap: their chunk, the number of the first one, and their bits in its word of the bitmap.
/// `None` if they are not pages of one word.
pub(super) fn place(layout: &Layout, at: PersistentAddress, pages: u64) -> Option<(u64, u64, u64)> {
    let chunk = chunk_at(layout, at)?;
    let division = Division::new(layout, CLASS);
    let number = division.block_at(inside(layout, at))?;
    let last = number + pages.checked_sub(1)?;
    (last < division.blocks && last / 64 == number / 64).then(|| (chunk, number, bits_of(number, pages)))
}

/// The state of pages after the last committed transactions.
pub(crate) enum PagesAtHome {
    /// The pages are in a chunk that is free.
    InFreeChunk,
    /// The pages are free pages of a chunk of extents.
    Free,
    /// Any other state: some of the pages may be in use.
    Used,
}

/// Returns the committed state of `pages` pages from `at` on, which a running transaction has allocated as an extent.
pub(crate) fn pages_at_home<M: Memory>(view: &View<M>, at: PersistentAddress, pages: u64) -> PagesAtHome {
    let (layout, memory) = (&view.layout, &view.memory);
    let Some((chunk, number, bits)) = place(layout, at, pages) else { return PagesAtHome::Used };
    match Chunk::decode(memory.load(table(layout, chunk))) {
        Some(Chunk::Free) => PagesAtHome::InFreeChunk,
        Some(Chunk::Small { class: CLASS, .. })
            if memory.load(start(layout, chunk).word(number / 64)) & bits == 0 =>
        {
            PagesAtHome::Free
        }
        _ => PagesAtHome::Used,
    }
}

/// Returns whether the word at `at` is in use, according to the heap's own words, which `load` returns: whether it is in a chunk that is
/// neither free nor held and, in a chunk of extents, in an allocated page.
pub fn is_used(layout: &Layout, at: PersistentAddress, load: impl Fn(PersistentAddress) -> u64) -> bool {
    let Some(chunk) = chunk_at(layout, at) else { return true };
    let word = load(table(layout, chunk));
    if matches!(Chunk::decode(word), Some(Chunk::Free | Chunk::Held)) {
        return false;
    }
    let page = PersistentAddress::new(at.offset() / PAGE_BYTES * PAGE_BYTES);
    match place(layout, page, 1) {
        Some((_, number, bits)) if are_in(word) => load(start(layout, chunk).word(number / 64)) & bits != 0,
        _ => true,
    }
}

/// Returns whether a store to the word at `at`, or to words behind it, may free pages or add a chunk to extents: see [`vacated_pages`].
pub(crate) fn may_vacate(layout: &Layout, at: PersistentAddress) -> bool {
    chunk_at(layout, at).is_none() || inside(layout, at) / 8 < Division::new(layout, CLASS).words()
}

/// Returns the pages that a transaction frees, or turns into pages of extents, when it stores `value` to the word at `at`, as a range of
/// numbers of the heap's pages.
pub(crate) fn vacated_pages<M: Memory>(
    view: &View<M>,
    at: PersistentAddress,
    value: u64,
) -> Option<std::ops::Range<u64>> {
    let (layout, memory) = (&view.layout, &view.memory);
    let pages_of = |chunk: u64| {
        let first = start(layout, chunk).offset() / PAGE_BYTES;
        first..first + layout.geometry.chunk_bytes / PAGE_BYTES
    };
    if let Some(chunk) = chunk_of_word(layout, at) {
        return (are_in(value) && !are_in(memory.load(at))).then(|| pages_of(chunk));
    }
    let chunk = chunk_at(layout, at)?;
    let division = Division::new(layout, CLASS);
    let word = inside(layout, at) / 8;
    if word >= division.words() || !are_in(memory.load(table(layout, chunk))) {
        return None;
    }
    let freed = memory.load(at) & !value;
    if freed == 0 {
        return None;
    }
    let first = start(layout, chunk).offset() / PAGE_BYTES + division.header / PAGE_BYTES + 64 * word;
    Some(first + u64::from(freed.trailing_zeros())..first + 64 - u64::from(freed.leading_zeros()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Geometry;

    #[test]
    fn bits_are_those_of_the_blocks() {
        assert_eq!([bits_of(0, 1), bits_of(65, 2), bits_of(0, 64)], [1, 6, u64::MAX]);
        assert_eq!(bits_of(63, 1), 1 << 63);
    }

    #[test]
    fn no_bitmap_is_larger_than_the_page_of_the_bitmap_of_extents() {
        for chunk_bits in 12..=24 {
            let geometry = Geometry { size: 1 << 30, chunk_bytes: 1 << chunk_bits, ..Geometry::default() };
            let layout = Layout::new(geometry).unwrap();
            if are_possible(&layout) {
                let (_, words) = super::super::bitmap_area(&layout, 0);
                assert!(8 * words <= Division::new(&layout, CLASS).header, "chunks of {chunk_bits} bits");
            }
        }
    }
}
