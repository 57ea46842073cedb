//! The transactions of the threads: a mix of small and large writes, transfers, reads and transactions that give up, or the operations of a
//! structure.

use std::cell::Cell;

use fastrand::Rng;
use strandline_core::layout::Layout;
use strandline_core::memory::PersistentAddress;
use strandline_core::{Abort, Error, Result, Runner};
use strandline_structures::model::{Invariant, Operation, Structure, Words};

use crate::explore::worker::AnyWorker;
use crate::explore::{Plan, Workload};

/// The words of the mix that get unique values, from the first chunk on: adjacent words of a line, in each of five pages.
const CELLS: Words = Words {
    count: 30,
    byte: |cell| cell / 6 % 5 * 4096 + cell % 6 / 3 * 640 + cell % 3 * 8,
    invariant: Invariant::None,
};
/// The accounts of the mix, from the first root on.
pub(super) const ACCOUNTS: Words = Words { count: 8, byte: |account| 8 * account, invariant: Invariant::Sum };
/// Values from here to 2^63 are written only once.
pub(super) const FIRST_VALUE: u64 = 1 << 32;
/// The number of chunks that the mix needs: those of its cells, and some for journals.
pub(super) const MIX_CHUNKS: u64 = 8;
/// The bytes of the chunks of its cells, which are allocated before all others.
pub(super) const CELL_BYTES: u64 = 5 * 4096;

/// Returns the address of a cell of the mix.
pub(super) fn cell(layout: &Layout, number: u64) -> PersistentAddress {
    layout.chunks.byte((CELLS.byte)(number))
}

/// Returns one of 960 words besides the cells. No two of them are adjacent, so that each needs a log record of its own.
pub(super) fn spare(layout: &Layout, number: u64) -> PersistentAddress {
    layout.chunks.byte(number / 192 * 4096 + 1024 + number % 192 * 16)
}

/// Runs one transaction on a structure; if `large`, many are longer than a block.
///
/// # Errors
/// Returns the library's errors except aborts.
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
        filler: if rng.u8(..if large { 2 } else { 8 }) == 0 {
            rng.u32(..if large { 900 } else { 300 })
        } else {
            0
        },
        reads_only: kind == 0,
        gives_up: kind == 1,
    };
    workload.act(worker, plan).map(|_| ())
}

/// Runs one transaction of the mix; if `large`, often one longer than a block. Returns the unique values that it read and reported.
///
/// # Errors
/// Returns the library's errors except aborts.
pub(super) fn mix(
    worker: &mut AnyWorker,
    layout: &Layout,
    large: bool,
    rng: &mut Rng,
    next_value: &Cell<u64>,
) -> Result<Vec<u64>> {
    let mut mix = Mix { worker, layout, rng, next_value };
    match mix.rng.u8(if large { 20..60 } else { 0..40 }) {
        0..20 => mix.write(),
        20..28 => mix.transfer(),
        28..34 => mix.read(),
        34..38 => mix.give_up(),
        _ => mix.write_much(),
    }
}

/// The kinds of transactions of the mix. Each returns the unique values that it read and reported.
struct Mix<'a, 'm> {
    worker: &'a mut AnyWorker<'m>,
    layout: &'a Layout,
    rng: &'a mut Rng,
    next_value: &'a Cell<u64>,
}

impl Mix<'_, '_> {
    fn write(&mut self) -> Result<Vec<u64>> {
        let (rng, cells) = (&mut *self.rng, self.layout.chunks);
        let written: Vec<_> = (0..rng.u64(1..=6)).map(|_| rng.u64(..CELLS.count)).collect();
        self.worker.run(|tx| {
            written.iter().try_for_each(|&cell| {
                CELLS.apply(tx, cells, &Operation::Write(cell, fresh(self.next_value))).map(drop)
            })
        })?;
        Ok(Vec::new())
    }

    fn transfer(&mut self) -> Result<Vec<u64>> {
        let (rng, accounts) = (&mut *self.rng, self.layout.root(0));
        let transfer = Operation::Transfer {
            from: rng.u64(..ACCOUNTS.count),
            to: rng.u64(..ACCOUNTS.count),
            amount: rng.u64(..100),
        };
        self.worker.run(|tx| ACCOUNTS.apply(tx, accounts, &transfer))?;
        Ok(Vec::new())
    }

    fn read(&mut self) -> Result<Vec<u64>> {
        let (rng, cells) = (&mut *self.rng, self.layout.chunks);
        let read = [Operation::Get(rng.u64(..CELLS.count)), Operation::Get(rng.u64(..CELLS.count))];
        self.worker.view(|tx| {
            let mut seen = Vec::new();
            for operation in &read {
                seen.extend(CELLS.apply(tx, cells, operation)?);
            }
            Ok(seen)
        })
    }

    /// Reads besides writing, reports what it read, and gives up.
    fn give_up(&mut self) -> Result<Vec<u64>> {
        let cells = self.layout.chunks;
        let line = self.rng.u64(..CELLS.count) / 3 * 3;
        let mut seen = None;
        let aborted = self.worker.run(|tx| {
            CELLS.apply(tx, cells, &Operation::Write(line, fresh(self.next_value)))?;
            seen = CELLS.apply(tx, cells, &Operation::Get(line + 1))?;
            Err::<(), _>(Abort::User)
        });
        match aborted {
            Ok(()) | Err(Error::Aborted) => Ok(seen.into_iter().collect()),
            Err(error) => Err(error),
        }
    }

    /// Writes more than a block, or more than the log; some transactions of the latter kind give up.
    fn write_much(&mut self) -> Result<Vec<u64>> {
        let (rng, layout) = (&mut *self.rng, self.layout);
        let (first, writes) = (rng.u64(..CELLS.count), rng.u64(200..700));
        let gives_up = rng.u8(..4) == 0;
        let done = self.worker.run(|tx| {
            (0..writes).try_for_each(|i| match i % 8 {
                0 => {
                    let write = Operation::Write((first + i / 8 % 7) % CELLS.count, fresh(self.next_value));
                    CELLS.apply(tx, layout.chunks, &write).map(drop)
                }
                _ => tx.write(spare(layout, i), i),
            })?;
            if gives_up { Err(Abort::User) } else { Ok(()) }
        });
        match done {
            Ok(()) | Err(Error::Aborted) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Returns a value that is written only once.
fn fresh(next_value: &Cell<u64>) -> u64 {
    next_value.set(next_value.get() + 1);
    next_value.get()
}
