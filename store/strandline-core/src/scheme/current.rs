//! Which scheme a pool's logs belong to: one at a time, and the pool's state word says which.
//!
//! An uncleanly closed pool is recovered by the scheme that wrote it. A worker of another scheme can be leased
//! only while no worker exists; then everything acknowledged is brought home durably, the watermark is raised
//! to the last TxID, the logs are zeroed, and only then the state word names the new scheme, each of these
//! durable before the next. Until the last step the old scheme recovers the pool, and finds nothing above the
//! watermark, however much of the logs is zeroed; after it the new one does, and finds empty logs.
//!
//! *No life's leavings complete another's records.* A life begins with logs in which nothing is left that what it writes
//! could complete. Recovery sees to that, as each scheme says in its own file; when the pool was closed, `forget_logs` zeroes
//! the logs durably before the state word says that the pool is in use, and `adopt` before it names the new scheme. So
//! whichever scheme leases a log, it finds zeros, or what its own recovery has made harmless.
//!
//! `np` and `volatile` promise nothing, and what ran before them may be half overwritten. A pool that they have
//! touched is marked, and is refused if it was not cleanly closed afterwards.

use super::{Durability, RecoveryReport, RecoveryStep, SchemeKind, SchemeMemory, Schemes};
use crate::error::{Error, Result};
use crate::layout::{Layout, PoolState, SharedLayout, View};
use crate::log::{roll_back_journal, zero};
use crate::memory::{Memory, PersistentAddress, Step};

/// Recovers a pool by the scheme that its state word names; `begins` is told when a step begins. Run by one thread, before any transaction.
/// Idempotent: a crash inside it is recovered by running it again.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::engine::Stm;
/// use strandline_core::scheme::{Schemes, recover};
///
/// let shared = view.shared;
/// let mut worker = Worker::lease(view, Stm, None)?;
/// (1..=3).try_for_each(|value| worker.run(|tx| tx.write(tx.root(0), value)))?;
///
/// // The machine stops: the volatile words are lost, the pool's are not.
/// let after = Recorder::new(recorder.contents(), shared.bytes(), 0, 1, None);
/// let view = View { memory: Hosted::new(Rc::new(after), 0), layout, shared };
/// let report = recover(&view, Schemes::default(), |_| ())?;
/// assert_eq!((report.replayed, view.memory.load(layout.root(0))), (3, 3));
/// # Ok::<(), strandline_core::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the log directory or a log contains an impossible address, if the state word names an unknown scheme, or if the pool was used
/// without persistence. Nothing has been changed then.
pub fn recover<M: SchemeMemory>(
    view: &View<M>,
    schemes: Schemes,
    mut begins: impl FnMut(RecoveryStep),
) -> Result<RecoveryReport> {
    let state = PoolState::decode(view.memory.load(Layout::STATE));
    if state.unprotected {
        return Err(Error::Unprotected { path: None });
    }
    // While a large transaction runs, whatever is in the logs is home: which comes first makes no difference.
    let undone = roll_back_journal(&view.memory, &view.layout)?;
    let report = M::recover(schemes.of_code(state.scheme)?, view, &mut begins)?;
    Ok(RecoveryReport { undone: report.undone + u64::from(undone), ..report })
}

/// Empties the logs of a pool that was cleanly closed, whichever scheme they belong to.
///
/// # Errors
/// Returns an error if the log directory names an address where no log can be. Nothing has been changed then.
pub(crate) fn forget_logs<M: Memory>(view: &View<M>) -> Result<RecoveryReport> {
    let logs = logs(view)?;
    let watermark = view.memory.load(Layout::WATERMARK);
    check_transaction(watermark)?;
    zero_logs(view, &logs);
    view.memory.store(SharedLayout::CLOCK, watermark);
    view.memory.store(SharedLayout::PUBLISHED_WATERMARK, watermark);
    Ok(RecoveryReport { logs: logs.len() as u64, watermark, ..RecoveryReport::default() })
}

/// The highest number that a transaction may have. Counting from 1, none gets there.
const MAXIMAL_TRANSACTION: u64 = 1 << 62;

/// Refuses a transaction's number, or a timestamp, that only damage can have made: the clock that goes on from there would overflow.
///
/// # Errors
/// Returns [`Error::Damaged`].
pub fn check_transaction(highest: u64) -> Result<()> {
    if highest > MAXIMAL_TRANSACTION {
        return Err(Error::damaged(format!(
            "it says that there was a transaction with the number {highest:#x}"
        )));
    }
    Ok(())
}

/// The logs in the directory.
///
/// # Errors
/// Returns an error if it names an address where no log can be.
pub fn logs<M: Memory>(view: &View<M>) -> Result<Vec<PersistentAddress>> {
    let mut logs = Vec::new();
    for index in 0..view.layout.geometry.logs {
        let entry = view.memory.load(Layout::LOG_DIRECTORY.word(index));
        let log = view.layout.log(index);
        match entry {
            0 => {}
            entry if entry == log.offset() => logs.push(log),
            entry => {
                return Err(Error::damaged(format!(
                    "log {index} should lie at {:#x}, the directory says {entry:#x}",
                    log.offset()
                )));
            }
        }
    }
    Ok(logs)
}

/// Zeroes these logs durably.
pub fn zero_logs<M: Memory>(view: &View<M>, logs: &[PersistentAddress]) {
    let (memory, bytes) = (&view.memory, view.layout.geometry.log_bytes);
    for &log in logs {
        if !memory.omitted(Step::RecoveryZero) {
            zero(memory, log, bytes);
        }
        memory.write_back_range(log, bytes, Step::RecoveryZeroWriteBack);
    }
    memory.fence(Step::RecoveryZeroFence);
}

fn store_state<M: Memory>(memory: &M, state: PoolState) {
    memory.store(Layout::STATE, state.encode());
    memory.write_back(Layout::STATE, Step::MarkState);
    memory.fence(Step::MarkState);
}

/// The scheme whose logs the pool has.
///
/// # Errors
/// Returns an error if the scheme is unknown.
pub(crate) fn current<M: Memory>(view: &View<M>, schemes: Schemes) -> Result<SchemeKind> {
    schemes.of_code(PoolState::decode(view.memory.load(Layout::STATE)).scheme)
}

/// Makes the pool one of scheme `new`; the caller holds [`SharedLayout::LEASES`].
///
/// # Errors
/// Returns an error if a worker of another scheme exists.
pub(crate) fn adopt<M: SchemeMemory>(view: &View<M>, new: SchemeKind, schemes: Schemes) -> Result<()> {
    let memory = &view.memory;
    let mut state = PoolState::decode(memory.load(Layout::STATE));
    if state.scheme != new.code {
        let kind = schemes.of_code(state.scheme)?;
        if view.shared.slots().any(|slot| memory.load(slot.leased()) != 0) {
            return Err(Error::Unsupported(format!(
                "a worker under another scheme while workers exist (the pool's logs are {}'s)",
                kind.modes[0].name
            )));
        }
        leave(view, kind)?;
        state.scheme = new.code;
        // What leaves durability to hardware runs beside that alone.
        state.unprotected |= new.durability == Durability::Nobody;
        store_state(memory, state);
    }
    Ok(())
}

/// Marks the pool as used without persistence.
pub(crate) fn mark_unprotected<M: Memory>(view: &View<M>) {
    let state = PoolState::decode(view.memory.load(Layout::STATE));
    if !state.unprotected {
        store_state(&view.memory, PoolState { unprotected: true, ..state });
    }
}

/// Brings everything home durably and empties the logs, which belong to scheme `kind`; no worker exists.
fn leave<M: SchemeMemory>(view: &View<M>, kind: SchemeKind) -> Result<()> {
    let memory = &view.memory;
    let logs = logs(view)?;
    drain(view, kind);
    zero_logs(view, &logs);
    for slot in view.shared.slots() {
        for word in [slot.committed(), slot.persisted()] {
            memory.store(word, 0);
        }
        for word in 0..4 {
            memory.store(slot.resting().word(word), 0);
        }
    }
    Ok(())
}

/// Brings everything that the workers of scheme `kind` have committed home durably, and raises the watermark to
/// the last TxID; no worker exists.
pub(crate) fn drain<M: SchemeMemory>(view: &View<M>, kind: SchemeKind) {
    let memory = &view.memory;
    M::drain(kind, view);
    let last = memory.load(SharedLayout::CLOCK);
    if memory.load(Layout::WATERMARK) < last {
        memory.store(Layout::WATERMARK, last);
        memory.write_back(Layout::WATERMARK, Step::WatermarkWriteBack);
        memory.fence(Step::WatermarkFence);
    }
    memory.store(SharedLayout::PUBLISHED_WATERMARK, last);
}
