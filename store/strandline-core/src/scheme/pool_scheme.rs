//! The scheme whose logs a pool has. It is one at a time, and the pool's state word contains its number.
//!
//! A pool that was not closed cleanly is recovered by the scheme that wrote it. A worker of another scheme can be leased only while no worker exists.
//! First all acknowledged words are made durable in their home locations, then the watermark is raised to the last TxID, then the logs are zeroed,
//! and only then does the state word get the new scheme's number; each step is durable before the next one. Until the last step, a crash leaves the
//! pool to the old scheme's recovery, which finds nothing above the watermark, however much of the logs is zeroed. After it, the new scheme's
//! recovery finds empty logs.
//!
//! *Remains of one life never complete a record of another.* When a life begins, the logs contain nothing that its own records could complete. Each
//! scheme's file describes how recovery ensures this. If the pool was closed, `forget_logs` durably zeroes the logs before the state word marks the
//! pool as in use, and `adopt` does so before the state word gets the new scheme's number. So a scheme that leases a log finds zeros, or what its own
//! recovery has made harmless.
//!
//! `np` and `volatile` promise nothing: they may have half overwritten older data. A pool that they have used is marked, and is refused if it was not
//! cleanly closed afterwards.

use super::{Durability, RecoveryReport, RecoveryStep, SchemeKind, SchemeMemory, Schemes};
use crate::error::{Error, Result};
use crate::layout::{Layout, PoolState, SharedLayout, View};
use crate::log::{roll_back_journal, zero};
use crate::memory::{Memory, PersistentAddress, Step};

/// Recovers a pool with the scheme whose number is in its state word. Calls `begins` when a step begins. One thread runs this before any transaction.
/// It is idempotent: after a crash during recovery, recovery runs again.
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
    // While a large transaction runs, all transactions in the logs are home, so the order of the two recoveries does not matter.
    let undone = roll_back_journal(&view.memory, &view.layout)?;
    let report = M::recover(schemes.of_code(state.scheme)?, view, &mut begins)?;
    Ok(RecoveryReport { undone: report.undone + u64::from(undone), ..report })
}

/// Empties the logs of a pool that was closed cleanly, whichever scheme wrote them.
///
/// # Errors
/// Returns an error if the log directory contains an impossible address. Nothing has been changed then.
pub(crate) fn forget_logs<M: Memory>(view: &View<M>) -> Result<RecoveryReport> {
    let logs = logs(view)?;
    let watermark = view.memory.load(Layout::WATERMARK);
    check_transaction(watermark)?;
    zero_logs(view, &logs);
    view.memory.store(SharedLayout::CLOCK, watermark);
    view.memory.store(SharedLayout::PUBLISHED_WATERMARK, watermark);
    Ok(RecoveryReport { logs: logs.len() as u64, watermark, ..RecoveryReport::default() })
}

/// An upper bound of the TxIDs. They are counted from 1, and no pool lives long enough to reach it.
const MAXIMAL_TRANSACTION: u64 = 1 << 62;

/// Checks a TxID or timestamp.
///
/// # Errors
/// Returns [`Error::Damaged`] if it is so high that only damage can explain it. The clock, which continues from there, would overflow.
pub fn check_transaction(highest: u64) -> Result<()> {
    if highest > MAXIMAL_TRANSACTION {
        return Err(Error::damaged(format!(
            "it names a transaction with the impossible number {highest:#x}"
        )));
    }
    Ok(())
}

/// Returns the addresses of the logs in the directory.
///
/// # Errors
/// Returns an error if the directory contains an impossible address.
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
                    "log {index} should be at {:#x}, and its entry in the directory is {entry:#x}",
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

/// Returns the scheme whose logs the pool has.
///
/// # Errors
/// Returns an error if the scheme is unknown.
pub(crate) fn current<M: Memory>(view: &View<M>, schemes: Schemes) -> Result<SchemeKind> {
    schemes.of_code(PoolState::decode(view.memory.load(Layout::STATE)).scheme)
}

/// Makes `new` the pool's scheme. The caller holds [`SharedLayout::LEASES`].
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
        // A scheme with `Durability::Hardware` runs only on that hardware, so it does not count as unprotected.
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

/// Makes all committed words durable in their home locations, and empties the logs, which scheme `kind` has written. No worker exists.
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

/// Makes all words that workers of scheme `kind` have committed durable in their home locations, and raises the watermark to the last TxID. No worker
/// exists.
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
