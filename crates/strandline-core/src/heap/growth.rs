//! How the heap grows: how many chunks it has is a word of the pool, beyond which nothing was ever used.

use std::io;

use super::{Access, table};
use crate::error::{Abort, Error};
use crate::layout::{Layout, View};
use crate::memory::Memory;

/// At a time the heap grows by a part of its size, between these bytes; small steps would cost much each, large ones take disk space
/// that may be wanted elsewhere.
const STEP_PART: u64 = 8;
const STEP_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 20;

/// How many chunks a heap of `reached` chunks should have when it needs `least`.
fn grown_from(layout: &Layout, reached: u64, least: u64) -> u64 {
    let chunk = layout.geometry.chunk_bytes;
    let step = (reached * chunk / STEP_PART).clamp(*STEP_BYTES.start(), *STEP_BYTES.end());
    (reached + step.div_ceil(chunk)).max(least).min(layout.chunk_count)
}

/// How many chunks the heap has, read in the transaction.
pub(super) fn reached<A: Access>(tx: &mut A) -> Result<u64, Abort> {
    let at = tx.layout().reached();
    Ok(tx.read(at)?.min(tx.layout().chunk_count))
}

/// Sees to it that the heap has `least` chunks, and that there is space for their words of the table. Whether it has them; an error of the
/// system if its file cannot grow.
pub(super) fn reach<A: Access>(tx: &mut A, least: u64) -> Result<io::Result<bool>, Abort> {
    let layout = *tx.layout();
    let reached = reached(tx)?;
    if least <= reached {
        return Ok(Ok(true));
    }
    if least > layout.chunk_count {
        return Ok(Ok(false));
    }
    let most = grown_from(&layout, reached, least);
    tx.make_space(table(&layout, reached), 8 * (most - reached))?;
    let bytes = match tx.grow(layout.end_of(least).offset(), layout.end_of(most).offset()) {
        Ok(bytes) => bytes,
        Err(why) => return Ok(Err(why)),
    };
    let grown = layout.chunks_in(bytes).min(most);
    if grown > reached {
        tx.write(layout.reached(), grown)?;
    }
    Ok(Ok(grown >= least))
}

/// The error of an allocation for which the file cannot grow.
pub(super) fn refused(bytes: u64, why: io::Error) -> Error {
    Error::io(format!("let the pool's file grow for {bytes} bytes"), why)
}

/// How many chunks are worth looking at.
pub(super) fn reached_hint<A: Access>(tx: &A) -> u64 {
    tx.hint(tx.layout().reached()).min(tx.layout().chunk_count)
}

/// How many chunks the heap has, as the table at home has it: those behind them were never used.
pub(super) fn reached_by<M: Memory>(view: &View<M>) -> u64 {
    view.memory.load(view.layout.reached()).min(view.layout.chunk_count)
}
