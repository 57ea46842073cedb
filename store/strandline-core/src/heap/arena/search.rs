//! The searches through the table: ahead, in the part that an arena has not seen; around, in the part that it has seen; and through all of
//! it when nothing else is left.

use super::Arena;
use super::partial::least_room;
use crate::error::Abort;
use crate::heap::compact::HeldSeen;
use crate::heap::growth::{self, reached_hint};
use crate::heap::{Access, Chunk, Division, FREE, extents, is_empty, room, seems_empty, start, table};

/// The number of small chunks of the wanted class, and of those of other classes, whose bitmaps the hand reads in one round.
const HAND_LOOKS: u64 = 8;

impl Arena {
    /// Notes a word of the table that the arena had not seen.
    pub(super) fn learn(&mut self, chunk: u64, word: u64) {
        if let Some(Chunk::Small { class, arena }) = Chunk::decode(word)
            && arena == self.index
        {
            self.list(class, chunk);
        }
    }

    /// Advances through the unseen part of the table to the first free chunk.
    pub(super) fn look_ahead<A: Access>(&mut self, tx: &A) {
        if self.emptied.first().is_some_and(|&(first, _)| !tx.avoids(first)) {
            self.taken.append(&mut self.emptied);
        }
        for (first, length) in std::mem::take(&mut self.taken) {
            if tx.hint(table(tx.layout(), first)) == FREE {
                self.vacant.insert(first, length);
            }
        }
        // Growth may have been rolled back.
        let reached = reached_hint(tx);
        self.seen = self.seen.min(reached);
        while self.seen < reached {
            let word = tx.hint(table(tx.layout(), self.seen));
            if word == FREE && !tx.avoids(self.seen) {
                break;
            }
            self.learn(self.seen, word);
            self.seen += 1;
        }
    }

    /// Advances the hand through the seen part of the table, by at most `words` words, to find room in own chunks of `class`, and vacant
    /// chunks.
    pub(super) fn look_around<A: Access>(&mut self, tx: &A, words: u64, class: Option<usize>) {
        let (mut looks, mut glances) = (HAND_LOOKS, HAND_LOOKS);
        for _ in 0..words.min(self.seen) {
            let chunk = self.hand % self.seen;
            self.hand = chunk + 1;
            let (of, arena) = match Chunk::decode(tx.hint(table(tx.layout(), chunk))) {
                Some(Chunk::Free) => {
                    if !tx.avoids(chunk) {
                        self.vacant.insert(chunk, 1);
                    }
                    continue;
                }
                Some(Chunk::Small { class, arena }) => (class, arena),
                _ => continue,
            };
            if !self.may_use(arena) || self.cursors[of].chunk == chunk + 1 || tx.avoids(chunk) {
                continue;
            }
            let division = Division::new(tx.layout(), of);
            if Some(of) == class && arena == self.index {
                if room(tx, chunk, division) >= least_room(division) {
                    self.list(of, chunk);
                    return;
                }
                looks -= 1;
            } else if glances > 0 {
                glances -= 1;
                if seems_empty(tx, chunk, division) {
                    self.vacant.insert(chunk, 1);
                }
            }
            if looks == 0 {
                return;
            }
        }
    }
}

/// Finds the first run of `chunks` free chunks. Read in the transaction, which may have freed some of them itself.
#[cold]
pub(super) fn take_run<A: Access>(tx: &mut A, chunks: u64) -> Result<Option<u64>, Abort> {
    tx.begin_taking(chunks)?;
    let seen = HeldSeen::new(tx);
    let mut length = 0;
    for chunk in 0..growth::reached(tx)? {
        let word = tx.read(table(tx.layout(), chunk))?;
        if word == FREE {
            length += 1;
            if length == chunks {
                let (first, bytes) = (chunk + 1 - chunks, chunks * tx.layout().geometry.chunk_bytes);
                let at = start(tx.layout(), first);
                tx.make_space(at, bytes)?;
                return Ok(Some(first));
            }
        } else {
            length = 0;
        }
    }
    seen.check(tx)?;
    Ok(None)
}

/// Frees the small chunks in which every block is free.
#[cold]
pub(super) fn reclaim<A: Access>(tx: &mut A) -> Result<(), Abort> {
    let layout = *tx.layout();
    for chunk in 0..reached_hint(tx) {
        let Some(Chunk::Small { class, .. }) = Chunk::decode(tx.hint(table(&layout, chunk))) else {
            continue;
        };
        let division = Division::new(&layout, class);
        if !seems_empty(tx, chunk, division) {
            continue;
        }
        let same = matches!(Chunk::decode(tx.read(table(&layout, chunk))?), Some(Chunk::Small { class: c, .. }) if c == class);
        if same && is_empty(tx, chunk, class)? && extents::are_unused(tx, chunk, class) {
            tx.write(table(&layout, chunk), FREE)?;
        }
    }
    Ok(())
}
