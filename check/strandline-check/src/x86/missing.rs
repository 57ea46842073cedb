//! Which write-back and fence a violation lacks in effect: found by trying.

use super::crash::Decision;
use super::trace::Trace;

/// A judge of crashes of changed histories, for one violation.
pub(crate) trait Trial {
    /// Returns whether the state in which just the values of `lost` did not survive violates.
    fn violates(&mut self, trace: &Trace, time: u32, lost: &[Decision]) -> bool;

    /// Returns whether any state violates, of some thousands.
    fn any_violates(&mut self, trace: &Trace, time: u32) -> bool;
}

/// A store that must be durable before something that happens later.
pub(crate) struct Missing {
    /// When the store was made.
    pub store: u32,
    /// The word that it stored to.
    pub word: u32,
    /// When the first thing happened after which a crash violates: before it, the store must be durable.
    pub before: u32,
    /// Whether a write-back and a fence there repair the crash whatever else survives.
    pub suffices: bool,
}

/// Tries, for each of the `lost` values of a violation at `time`, to write its line back and to fence before the
/// first event that depends on it. Returns the first one that makes the violation impossible; else one
/// that takes part in it; `None` if the history violates with nothing lost.
pub(crate) fn missing(
    trace: &Trace,
    time: u32,
    lost: &[Decision],
    trial: &mut impl Trial,
) -> Option<Missing> {
    if trial.violates(trace, time, &[]) {
        return None;
    }
    let mut partial = None;
    for decision in lost {
        let Some(line) = trace.line(decision.word / 8) else { continue };
        // The store that did not survive: the last one of this value up to the crash.
        let stores = line.stores.iter().rev().filter(|store| store.time <= time);
        let mut stores = stores.filter(|store| store.word == decision.word);
        let Some(store) = stores.find(|store| store.value == decision.newest) else { continue };
        let first = (store.time..=time).find(|&at| trial.violates(trace, at, lost));
        let before = first.unwrap_or(time);
        let mut changed = trace.clone();
        changed.make_durable(store.word / 8, before.saturating_sub(1).max(store.time), store.time);
        let suffices = !trial.any_violates(&changed, time);
        let found = Missing { store: store.time, word: store.word, before, suffices };
        if suffices {
            return Some(found);
        }
        partial = partial.or(Some(found));
    }
    partial
}
