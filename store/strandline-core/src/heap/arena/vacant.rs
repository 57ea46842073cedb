//! The vacant chunks of an arena, and the new chunks that it takes.

use super::{Arena, TRIES};
use crate::error::Abort;
use crate::heap::{Access, Chunk, FREE, extents, growth, is_empty, start, table};

impl Arena {
    /// Takes `chunks` consecutive chunks that are listed as vacant; returns the first one.
    pub(super) fn take_vacant<A: Access>(&mut self, tx: &mut A, chunks: u64) -> Result<Option<u64>, Abort> {
        for _ in 0..TRIES {
            let Some(first) = self.vacant.find(chunks) else { return Ok(None) };
            let reached = growth::reached(tx)?;
            if first + chunks > reached {
                // The growth of the heap was rolled back.
                self.vacant.remove(first, chunks);
                continue;
            }
            let mut taken = 0;
            while taken < chunks && self.is_vacant(tx, first + taken)? {
                taken += 1;
            }
            if taken == chunks {
                self.vacant.remove(first, chunks);
                self.take(tx, first, chunks)?;
                return Ok(Some(first));
            }
            self.vacant.remove(first + taken, 1);
        }
        Ok(None)
    }

    /// Returns whether a chunk is free or has no allocated block, read in the transaction.
    pub(super) fn is_vacant<A: Access>(&self, tx: &mut A, chunk: u64) -> Result<bool, Abort> {
        match Chunk::decode(tx.read(table(tx.layout(), chunk))?) {
            Some(Chunk::Free) => Ok(true),
            Some(Chunk::Small { class, arena })
                if self.may_use(arena) && self.cursors[class].chunk != chunk + 1 =>
            {
                Ok(is_empty(tx, chunk, class)? && extents::are_unused(tx, chunk, class))
            }
            _ => Ok(false),
        }
    }

    /// Takes `chunks` consecutive free chunks from the part of the table that it has not seen yet; returns the first one.
    pub(super) fn take_new<A: Access>(&mut self, tx: &mut A, chunks: u64) -> Result<Option<u64>, Abort> {
        let mut length = 0;
        loop {
            match growth::reach(tx, self.seen + length + 1)? {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    self.refused = Some(why);
                    break;
                }
            }
            let (chunk, first) = (self.seen + length, self.seen);
            let word = tx.hint(table(tx.layout(), chunk));
            if word == FREE && !tx.avoids(chunk) && tx.read(table(tx.layout(), chunk))? == FREE {
                length += 1;
                if length == chunks {
                    self.seen = chunk + 1;
                    self.take(tx, first, chunks)?;
                    return Ok(Some(first));
                }
            } else {
                if length > 0 {
                    self.vacant.insert(first, length);
                }
                self.learn(chunk, word);
                (self.seen, length) = (chunk + 1, 0);
            }
        }
        if length > 0 {
            self.vacant.insert(self.seen, length);
            self.seen += length;
        }
        Ok(None)
    }

    /// Notes that the arena takes these chunks, and allocates disk space for them.
    pub(super) fn take<A: Access>(&mut self, tx: &mut A, first: u64, chunks: u64) -> Result<(), Abort> {
        self.taken.push((first, chunks));
        let bytes = chunks * tx.layout().geometry.chunk_bytes;
        tx.make_space(start(tx.layout(), first), bytes)
    }
}
