//! The partial chunks of an arena: its own chunks in which blocks may be free.

use super::{Arena, TRIES};
use crate::error::Abort;
use crate::heap::growth::reached_hint;
use crate::heap::{Access, Chunk, Division, room, table};
use crate::memory::PersistentAddress;

impl Arena {
    /// Allocates in one of the oldest partial chunks, if it has at least `least` free blocks.
    pub(super) fn alloc_in_partial<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
        least: u64,
    ) -> Result<Option<PersistentAddress>, Abort> {
        for _ in 0..self.partial[class].len().min(TRIES) {
            let Some(chunk) = self.partial[class].pop_front() else { break };
            match Chunk::decode(tx.hint(table(tx.layout(), chunk))) {
                Some(Chunk::Small { class: now, arena }) if arena == self.index => {
                    if now != class || tx.avoids(chunk) || room(tx, chunk, division) < least {
                        self.partial[now].push_back(chunk);
                        continue;
                    }
                }
                _ => {
                    self.listed.remove(chunk);
                    continue;
                }
            }
            // The next block that is freed in the chunk lists it again.
            self.listed.remove(chunk);
            if let Some(block) = self.alloc_in(tx, class, division, chunk)? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Moves the cursor to any chunk in the table that `wanted` accepts and that has `least` free blocks, and allocates.
    #[cold]
    pub(super) fn alloc_from<A: Access>(
        &mut self,
        tx: &mut A,
        class: usize,
        division: &Division,
        least: u64,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Option<PersistentAddress>, Abort> {
        let chunks = reached_hint(tx);
        let hand = self.hand.min(chunks);
        for chunk in (hand..chunks).chain(0..hand) {
            if wanted(tx.hint(table(tx.layout(), chunk))) && room(tx, chunk, division) >= least {
                self.hand = chunk;
                if let Some(block) = self.alloc_in(tx, class, division, chunk)? {
                    return Ok(Some(block));
                }
            }
        }
        Ok(None)
    }

    /// Lists a chunk of this arena as one that may have room.
    pub(super) fn list(&mut self, class: usize, chunk: u64) {
        if self.listed.insert(chunk) {
            self.partial[class].push_back(chunk);
        }
    }
}

/// Returns the number of free blocks from which on it pays to move the cursor to a chunk.
pub(super) fn least_room(division: &Division) -> u64 {
    (division.blocks / 8).max(1)
}
