//! Holding free chunks, so that their file space can be given back and nobody takes them meanwhile.

use super::arena::{is_empty, seems_empty};
use super::growth::{reached_by, reached_hint};
use super::{Access, Chunk, Division, FREE, REGIONS, table};
use crate::error::Abort;
use crate::layout::View;
use crate::memory::Memory;

/// First chunks of runs, and their lengths.
pub type ChunkRuns = Vec<(u64, u64)>;

/// Holds vacant chunks from number `from` on, `most` at most; which, and where to go on. Those that are held already, by somebody who
/// did not come to release them, are among them. The caller is the only one who holds chunks.
///
/// # Errors
/// A conflict.
pub fn hold<A: Access>(tx: &mut A, from: u64, most: u64) -> Result<(ChunkRuns, u64), Abort> {
    let (mut runs, mut held): (ChunkRuns, u64) = (Vec::new(), 0);
    let chunks = reached_hint(tx);
    for chunk in from..chunks {
        if held == most {
            return Ok((runs, chunk));
        }
        let at = table(tx.layout(), chunk);
        let found = Chunk::decode(tx.hint(at));
        let may_be = match found {
            Some(Chunk::Free | Chunk::Held) => true,
            // A region's chunks are covered by its lock.
            Some(Chunk::Small { class, arena }) => {
                arena < REGIONS && seems_empty(tx, chunk, Division::new(tx.layout(), class))
            }
            _ => false,
        };
        if !may_be || Chunk::decode(tx.read(at)?) != found {
            continue;
        }
        if let Some(Chunk::Small { class, .. }) = found
            && !is_empty(tx, chunk, class)?
        {
            continue;
        }
        tx.write(at, Chunk::Held.encode())?;
        held += 1;
        match runs.last_mut() {
            Some((first, length)) if *first + *length == chunk => *length += 1,
            _ => runs.push((chunk, 1)),
        }
    }
    Ok((runs, u64::MAX))
}

/// Frees chunks that are held.
///
/// # Errors
/// A conflict.
pub fn release<A: Access>(tx: &mut A, runs: &[(u64, u64)]) -> Result<(), Abort> {
    for chunk in runs.iter().flat_map(|&(first, length)| first..first + length) {
        let at = table(tx.layout(), chunk);
        tx.write(at, FREE)?;
    }
    Ok(())
}

/// Runs of chunks that are held, of `most` chunks at most: by somebody who runs, or who did not come to release them.
pub fn held<M: Memory>(view: &View<M>, most: u64) -> ChunkRuns {
    let is_held = |&chunk: &u64| view.memory.load(table(&view.layout, chunk)) == Chunk::Held.encode();
    (0..reached_by(view)).filter(is_held).take(most as usize).map(|chunk| (chunk, 1)).collect()
}
