//! Growth of the heap. A word of the pool has the number of chunks that the heap has reached; nothing was ever used beyond these. The file
//! may be longer: in the `Sync` domain the thread that runs checkpoints makes the next step in advance. The file becomes shorter only when
//! the pool is closed.
//!
//! No operation reads chunks beyond that word, so none depends on the largest possible size. Address space for that size is reserved when
//! the pool is opened. Every access is compared with the file's length as this view last saw it; only if the comparison fails does the view
//! load the length again. So growth costs accesses nothing.

use std::io;

use super::{Access, FREE, table};
use crate::error::{Abort, Error};
use crate::layout::{Layout, PAGE_BYTES, View};
use crate::memory::{Memory, PersistentAddress};

/// The heap grows by this part of its size at a time, within these bounds in bytes. Each step has a cost, so steps must not be small; large
/// ones would take disk space that may be needed elsewhere.
const STEP_PART: u64 = 8;
const STEP_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 20;

/// Returns the number of chunks that a heap of `reached` chunks should grow to if it needs `least`.
fn grown_from(layout: &Layout, reached: u64, least: u64) -> u64 {
    let chunk = layout.geometry.chunk_bytes;
    let step = (reached * chunk / STEP_PART).clamp(*STEP_BYTES.start(), *STEP_BYTES.end());
    (reached + step.div_ceil(chunk)).max(least).min(layout.chunk_count)
}

/// Returns the number of chunks in the heap, read in the transaction.
pub(super) fn reached<A: Access>(tx: &mut A) -> Result<u64, Abort> {
    let at = tx.layout().reached();
    Ok(tx.read(at)?.min(tx.layout().chunk_count))
}

/// Grows the heap to at least `least` chunks, and allocates disk space for their words of the table. Returns whether the heap has that
/// many; the inner error is that of the system if the file cannot grow.
pub(super) fn reach<A: Access>(tx: &mut A, least: u64) -> Result<io::Result<bool>, Abort> {
    let layout = *tx.layout();
    let reached = reached(tx)?;
    if least <= reached {
        return Ok(Ok(true));
    }
    tx.expect_returned();
    if least > layout.chunk_count {
        return Ok(Ok(false));
    }
    let most = grown_from(&layout, reached, least);
    make_table(tx, reached, most)?;
    let bytes = match tx.grow(layout.end_of(least).offset(), layout.end_of(most).offset()) {
        Ok(bytes) => bytes,
        Err(why) => return Ok(Err(why)),
    };
    let grown = layout.chunks_in(bytes).min(most);
    if grown > reached {
        tx.write(layout.reached(), grown)?;
        tx.foresee(layout.end_of(grown_from(&layout, grown, grown)).offset());
    }
    Ok(Ok(grown >= least))
}

/// Allocates disk space for the table's words of the chunks from `from` to `to`.
fn make_table<A: Access>(tx: &mut A, from: u64, to: u64) -> Result<(), Abort> {
    // The page of the last word that has space has space as a whole.
    let page_after = |chunk| table(tx.layout(), chunk).offset().next_multiple_of(PAGE_BYTES);
    let (from, to) = (page_after(from), page_after(to));
    if from < to { tx.make_space(PersistentAddress::new(from), to - from) } else { Ok(()) }
}

/// Adds the rest of the file to the heap, if the file is longer than the heap.
pub fn reach_end<A: Access>(tx: &mut A) -> Result<(), Abort> {
    let layout = *tx.layout();
    // This call only returns the file's length.
    let chunks = tx.grow(0, 0).map_or(0, |bytes| layout.chunks_in(bytes)).min(layout.chunk_count);
    let reached = reached(tx)?;
    if chunks <= reached {
        return Ok(());
    }
    make_table(tx, reached, chunks)?;
    tx.write(layout.reached(), chunks)
}

/// Returns the error of an allocation for which the file cannot grow.
pub(super) fn refused(bytes: u64, why: io::Error) -> Error {
    Error::io(format!("extend the pool's file for an allocation of {bytes} bytes"), why)
}

/// Returns the number of chunks in the heap, as a hint.
pub(super) fn reached_hint<A: Access>(tx: &A) -> u64 {
    tx.hint(tx.layout().reached()).min(tx.layout().chunk_count)
}

/// Returns the number of chunks in the heap, as the table at home shows it. Chunks behind these were never used.
pub fn reached_by<M: Memory>(view: &View<M>) -> u64 {
    view.memory.load(view.layout.reached()).min(view.layout.chunk_count)
}

/// Returns the number of the chunk behind the last one in use, as the table at home shows it.
pub fn used_end<M: Memory>(view: &View<M>) -> u64 {
    let is_used = |chunk: &u64| view.memory.load(table(&view.layout, *chunk)) != FREE;
    (0..reached_by(view)).rev().find(is_used).map_or(0, |chunk| chunk + 1)
}
