//! Software under hardware that makes transactions atomic (Loose-Ordering Consistency, ATOM, WrAP): plain stores in place between the boundaries of a
//! transaction, and no log.
//!
//! | | the software's operations |
//! |---|---|
//! | [`HardwareStores`] | [`Event::Begin`](strandline_core::memory::Event::Begin), loads and stores in place, [`Event::Commit`](strandline_core::memory::Event::Commit): TxBegin and TxCommit, the opening and closing of a wrap |
//! | [`HardwareFlushed`] | like [`HardwareStores`]; before the commit every line stored to is written back and fenced, as by ATOM's software before Atomic_End |
//!
//! The hardware determines the state after a crash, and recovers; on a machine without such hardware these schemes only store. Isolation is by lock
//! sets, or by the writer's lock, which readers take as well since unfinished stores are in place.
//!
//! *Abort.* Hardware that has TxAbort undoes the stores on [`Event::Abort`](strandline_core::memory::Event::Abort). Under other hardware the software
//! first restores the old values, newest first (and writes them back, if commits write back). Both happen before any lock is released. Keeping old
//! values, and TxIDs with a single writer, takes no simulated time, since that is the hardware's work.

use crate::native;
use strandline_core::Concurrency;
use strandline_core::error::Error;
use strandline_core::layout::{Layout, SharedLayout, View};
use strandline_core::memory::{Memory, PersistentAddress, Step};
use strandline_core::scheme::check_transaction;
use strandline_core::scheme::{Durability, Mode, Of, SchemeDescriptor};
use strandline_core::scheme::{Full, RecoveryReport, RecoveryStep, Scheme};
use strandline_core::transaction::{Statistics, WriteSet};

/// Plain stores in place; with `FLUSH` they are written back before a commit.
pub struct InPlace<const FLUSH: bool> {
    /// The words stored to, in the order of their first stores, with their old values.
    old: Vec<(PersistentAddress, u64)>,
}

/// Plain stores in place.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::HARDWARE, Concurrency::SingleWriter, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // The hardware does everything else.
/// assert_eq!((cost.lines_written_back, cost.fences), (0, 0));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static HARDWARE: SchemeDescriptor = SchemeDescriptor {
    code: 24,
    modes: &[
        Mode { concurrency: Concurrency::SingleWriter, name: "hardware+single-writer", redundant: &[] },
        Mode { concurrency: Concurrency::Locks, name: "hardware+locks", redundant: &[] },
    ],
    source: PAPERS,
    description: "plain stores in place between a transaction's boundaries, for the simulated machine's hardware schemes",
    durability: Durability::Hardware,
    is_native: false,
    leftover: |_, _, _| (),
    ..native(&Of::<InPlace<false>>::NEW)
};

/// Plain stores in place, written back before a commit.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let mut worker = Worker::lease_of(view, &strandline_schemes::HARDWARE_FLUSHED, Concurrency::SingleWriter, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
/// let cost = worker.statistics().total - before;
/// // The line of the data.
/// assert_eq!((cost.lines_written_back, cost.fences), (1, 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static HARDWARE_FLUSHED: SchemeDescriptor = SchemeDescriptor {
    code: 25,
    modes: &[
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "hardware-flushed+single-writer",
            redundant: &[],
        },
        Mode { concurrency: Concurrency::Locks, name: "hardware-flushed+locks", redundant: &[] },
    ],
    source: PAPERS,
    description: "the same, and every line stored to is written back before the commit (ATOM's software)",
    durability: Durability::Hardware,
    is_native: false,
    leftover: |_, _, _| (),
    ..native(&Of::<InPlace<true>>::NEW)
};

const PAPERS: &str = "Loose-Ordering Consistency; ATOM; WrAP";

impl<const FLUSH: bool> Scheme for InPlace<FLUSH> {
    const IN_PLACE: bool = true;

    fn lease<M: Memory>(_: &View<M>, _: u64) -> Self {
        Self { old: Vec::with_capacity(256) }
    }

    fn release<M: Memory>(&mut self, _: &View<M>) {}

    fn begin<M: Memory>(&mut self, _: &View<M>) {
        self.old.clear();
    }

    fn write<M: Memory>(
        &mut self,
        view: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        let place = previous.unwrap_or_else(|| {
            self.old.push((at, view.memory.load_before_store(at)));
            self.old.len() as u32 - 1
        });
        view.memory.store(at, value);
        Ok(place)
    }

    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64 {
        view.memory.load(self.old[place as usize].0)
    }

    fn executed<M: Memory>(&mut self, view: &View<M>, writes: &WriteSet) -> Result<(), Full> {
        if FLUSH {
            writes.for_each_line(|line| view.memory.write_back(line, Step::HomeWriteBack));
            view.memory.fence(Step::HomeFence);
        }
        Ok(())
    }

    /// Returns the next number of the hardware's counter.
    fn next_transaction<M: Memory>(&mut self, view: &View<M>) -> u64 {
        view.memory.number_transaction(SharedLayout::CLOCK)
    }

    fn abort<M: Memory>(&mut self, view: &View<M>) {
        if view.memory.takes_stores_back() {
            self.old.clear();
        }
        for &(at, old) in self.old.iter().rev() {
            view.memory.store(at, old);
        }
        if FLUSH && !self.old.is_empty() {
            // The hardware discards its log, and undone stores may already be home.
            let mut last = None;
            for line in self.old.iter().map(|&(at, _)| at.line()) {
                if last.replace(line) != Some(line) {
                    view.memory.write_back(line, Step::HomeWriteBack);
                }
            }
            view.memory.fence(Step::HomeFence);
        }
        self.old.clear();
    }

    /// Fences, which is Loose-Ordering's TxFlush: if commits are acknowledged later, it waits for them.
    fn settle<M: Memory>(&mut self, view: &View<M>, _: &mut Statistics) {
        view.memory.fence(Step::CommitFence);
    }

    /// Does nothing to the words, which the hardware has recovered; there are no logs, and TxIDs restart.
    fn recover<M: Memory>(
        view: &View<M>,
        begins: &mut dyn FnMut(RecoveryStep),
    ) -> Result<RecoveryReport, Error> {
        begins(RecoveryStep::Truncate);
        let watermark = view.memory.load(Layout::WATERMARK);
        check_transaction(watermark)?;
        view.memory.store(SharedLayout::CLOCK, watermark);
        view.memory.store(SharedLayout::PUBLISHED_WATERMARK, watermark);
        Ok(RecoveryReport { watermark, ..RecoveryReport::default() })
    }

    /// Does nothing: as far as software can tell, everything is home.
    fn drain<M: Memory>(_: &View<M>) {}
}
