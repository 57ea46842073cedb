//! What the threads run: a mix of small and large writes, transfers, reads and transactions that give up, or the
//! operations of a structure.

use std::cell::Cell;

use fastrand::Rng;
use strandline_core::layout::Layout;
use strandline_core::memory::PersistentAddress;
use strandline_core::{Abort, Error, Read, Result, Runner, Transaction};

use crate::explore::worker::AnyWorker;
use crate::explore::{Plan, Workload};

const CELLS: u64 = 30;
const ACCOUNTS: u64 = 8;
/// Values from here to 2^63 are written once.
pub(super) const FIRST_VALUE: u64 = 1 << 32;
/// Chunks that the mix needs.
pub(super) const MIX_CHUNKS: u64 = 8;

/// The words that unique values are written to: neighbours in a line, in five pages.
pub(super) fn cell(layout: &Layout, number: u64) -> PersistentAddress {
    layout.chunks.byte(number / 6 % 5 * 4096 + number % 6 / 3 * 640 + number % 3 * 8)
}

/// What the accounts of the mix sum up to, which transfers leave 0.
pub(super) fn sum(layout: &Layout, contents: &[u64]) -> u64 {
    let account = |number| contents[(layout.root(number).offset() / 8) as usize];
    (0..ACCOUNTS).fold(0, |sum, number| sum.wrapping_add(account(number)))
}

/// Runs one transaction on a structure; in a life of `large` ones many are longer than a block.
///
/// # Errors
/// What the library reports besides an abort.
pub(super) fn operate(
    worker: &mut AnyWorker,
    workload: Workload,
    large: bool,
    rng: &mut Rng,
    next_value: &Cell<u64>,
) -> Result<()> {
    next_value.set(next_value.get() + 1);
    let kind = rng.u8(..8);
    let plan = Plan {
        seed: rng.u64(..),
        unique: next_value.get(),
        operations: rng.u32(1..4),
        filler: if rng.u8(..if large { 2 } else { 8 }) == 0 { rng.u32(..300) } else { 0 },
        reads_only: kind == 0,
        gives_up: kind == 1,
    };
    workload.act(worker, plan).map(|_| ())
}

/// Runs one transaction of the mix, in a life of `large` ones often one longer than a block; the unique values that it
/// read and told.
///
/// # Errors
/// What the library reports besides an abort.
pub(super) fn mix(
    worker: &mut AnyWorker,
    layout: &Layout,
    large: bool,
    rng: &mut Rng,
    next_value: &Cell<u64>,
) -> Result<Vec<u64>> {
    let fresh = || {
        next_value.set(next_value.get() + 1);
        next_value.get()
    };
    let cell = |number| cell(layout, number);
    match rng.u8(if large { 20..60 } else { 0..40 }) {
        0..20 => {
            let cells: Vec<_> = (0..rng.u64(1..=6)).map(|_| rng.u64(..CELLS)).collect();
            worker.run(|tx| cells.iter().try_for_each(|&number| tx.write(cell(number), fresh())))?;
            Ok(Vec::new())
        }
        20..28 => {
            let (from, to) = (rng.u64(..ACCOUNTS), rng.u64(..ACCOUNTS));
            let amount = rng.u64(..100);
            worker.run(|tx| {
                let (from, to) = (tx.root(from), tx.root(to));
                let value = tx.read(from)?;
                tx.write(from, value.wrapping_sub(amount))?;
                let value = tx.read(to)?;
                tx.write(to, value.wrapping_add(amount))
            })?;
            Ok(Vec::new())
        }
        28..34 => {
            let (one, other) = (rng.u64(..CELLS), rng.u64(..CELLS));
            worker.view(|tx| Ok(vec![tx.read(cell(one))?, tx.read(cell(other))?]))
        }
        34..38 => {
            // Reads beside what it has written, tells, and gives up.
            let line = rng.u64(..CELLS) / 3 * 3;
            let mut read = 0;
            let aborted = worker.run(|tx| {
                tx.write(cell(line), fresh())?;
                read = tx.read(cell(line + 1))?;
                Err::<(), _>(Abort::User)
            });
            match aborted {
                Ok(()) | Err(Error::Aborted) => Ok(vec![read]),
                Err(error) => Err(error),
            }
        }
        _ => {
            // Larger than a block.
            let (first, writes) = (rng.u64(..CELLS), rng.u64(200..500));
            worker.run(|tx| (0..writes).try_for_each(|i| tx.write(cell(first + i % 7), fresh())))?;
            Ok(Vec::new())
        }
    }
}
