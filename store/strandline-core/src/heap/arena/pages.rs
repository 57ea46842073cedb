//! Extents in an arena. Pages are blocks of a class of their own, and an extent is a run of them that is allocated together.

use super::Arena;
use crate::error::{Abort, Error};
use crate::heap::extents::{self, CLASS, bits_of};
use crate::heap::{Access, Chunk, Division, chunk_of, inside, start, table};
use crate::memory::{PAGE_BYTES, PersistentAddress};

impl Arena {
    /// Allocates up to `most` consecutive pages.
    pub(super) fn alloc_pages<A: Access>(
        &mut self,
        tx: &mut A,
        most: u64,
    ) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        if !extents::are_possible(tx.layout()) {
            return Ok(None);
        }
        let first = self.alloc_of_class(tx, Some(CLASS), PAGE_BYTES)?;
        let division = Division::new(tx.layout(), CLASS);
        let base = start(tx.layout(), chunk_of(tx.layout(), first));
        let Some(number) = division.block_at(inside(tx.layout(), first)) else { return Ok(Some((first, 1))) };
        // The pages behind the first one that are in the same word of the bitmap.
        let word = base.word(number / 64);
        let used = tx.read(word)?;
        let mask = division.mask(number / 64);
        let first_of_word = base.byte(division.header + number / 64 * 64 * PAGE_BYTES);
        let free = !used & mask & extents::free_at_home(tx, word, first_of_word, mask);
        let free = free >> (number % 64) >> 1;
        let more = u64::from(free.trailing_ones()).min(most.saturating_sub(1));
        if more > 0 {
            tx.write(word, used | bits_of(number + 1, more))?;
        }
        Ok(Some((first, 1 + more)))
    }

    /// Frees `pages` pages of an extent, from `at` on.
    pub(super) fn free_pages<A: Access>(
        &mut self,
        tx: &mut A,
        at: PersistentAddress,
        pages: u64,
    ) -> Result<(), Abort> {
        if let Some((chunk, number, _)) = extents::place(tx.layout(), at, pages)
            && let Some(Chunk::Small { class: CLASS, arena }) =
                Chunk::decode(tx.read(table(tx.layout(), chunk))?)
            && self.free_blocks(tx, (chunk, CLASS, arena), number, pages)?
        {
            return Ok(());
        }
        Err(tx.fail(Error::InvalidFree(at.offset())))
    }
}
