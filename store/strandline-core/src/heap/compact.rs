//! Holds free chunks while their file space is released, so that no transaction takes them meanwhile.

use super::growth::{reached_by, reached_hint};
use super::{Access, CLASSES, Chunk, Division, FREE, REGIONS, extents, is_empty, seems_empty, start, table};
use crate::error::Abort;
use crate::layout::{Layout, View};
use crate::memory::{Memory, PersistentAddress};

/// Holds at most `most` vacant chunks, from number `from` on. Returns them in ascending order, and the chunk at which to continue. Chunks
/// that a failed compaction has left held are among them. The versions of their lines are raised, so that a transaction that has read in
/// them cannot continue. One compaction runs at a time.
///
/// # Errors
/// Returns an error after a conflict.
pub fn hold<A: Access>(tx: &mut A, from: u64, most: u64) -> Result<(Vec<u64>, Option<u64>), Abort> {
    let mut held = Vec::new();
    let chunks = reached_hint(tx);
    for chunk in from..chunks {
        if held.len() as u64 == most {
            return Ok((held, Some(chunk)));
        }
        let at = table(tx.layout(), chunk);
        let found = Chunk::decode(tx.hint(at));
        let may_be = match found {
            Some(Chunk::Free | Chunk::Held) => true,
            // A region's lock covers its chunks.
            Some(Chunk::Small { class, arena }) => {
                arena < REGIONS && seems_empty(tx, chunk, Division::new(tx.layout(), class))
            }
            _ => false,
        };
        if !may_be || Chunk::decode(tx.read(at)?) != found {
            continue;
        }
        if let Some(Chunk::Small { class, .. }) = found
            && !(is_empty(tx, chunk, class)? && extents::are_unused(tx, chunk, class))
        {
            continue;
        }
        tx.write(at, Chunk::Held.encode())?;
        let (base, bytes) = (start(tx.layout(), chunk), tx.layout().geometry.chunk_bytes);
        tx.raise_versions(base, bytes)?;
        held.push(chunk);
    }
    Ok((held, None))
}

/// Tells a transaction that looks for a free chunk whether a compaction has held chunks meanwhile.
pub(super) struct HeldSeen(u64);

impl HeldSeen {
    /// Begins the search.
    pub fn new<A: Access>(tx: &A) -> Self {
        Self(tx.holding())
    }

    /// Checks a search that has found no chunk.
    ///
    /// # Errors
    /// Ends the attempt if a compaction has held chunks meanwhile. The transaction must run again; the compaction releases the chunks soon.
    /// Chunks that a failed compaction has left held stay so until the pool is opened again.
    pub fn check<A: Access>(&self, tx: &mut A) -> Result<(), Abort> {
        if self.0.is_multiple_of(2) && tx.holding() == self.0 { Ok(()) } else { Err(tx.wait_for_held()) }
    }
}

/// Frees held chunks.
///
/// # Errors
/// Returns an error after a conflict.
pub fn release<A: Access>(tx: &mut A, chunks: &[u64]) -> Result<(), Abort> {
    for &chunk in chunks {
        let at = table(tx.layout(), chunk);
        tx.write(at, FREE)?;
    }
    Ok(())
}

/// Returns the place where the bitmap of a chunk may be: its first word, and the largest number of words.
pub(crate) fn bitmap_area(layout: &Layout, chunk: u64) -> (PersistentAddress, u64) {
    let words = (0..CLASSES.len()).map(|class| Division::new(layout, class).words()).max();
    (start(layout, chunk), words.unwrap_or(0))
}

/// Returns the held chunks, as the table at home shows them.
pub fn held<M: Memory>(view: &View<M>) -> Vec<u64> {
    let is_held = |&chunk: &u64| view.memory.load(table(&view.layout, chunk)) == Chunk::Held.encode();
    (0..reached_by(view)).filter(is_held).collect()
}
