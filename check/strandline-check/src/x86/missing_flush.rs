//! Finds which write-back and fence a violation lacks in effect, by trying.

use super::crash::Decision;
use super::trace::Trace;

/// Judges crashes of changed histories, for one violation.
pub(crate) trait Trial {
    /// Returns whether the state that lost exactly the values of `lost` violates the expectation.
    fn violates(&mut self, trace: &Trace, time: u32, lost: &[Decision]) -> bool;

    /// Returns whether any state violates the expectation, among some thousands.
    fn any_violates(&mut self, trace: &Trace, time: u32) -> bool;
}

/// A store that must be durable before a later operation.
pub(crate) struct Missing {
    /// When the store was made.
    pub store: u32,
    /// The word that it stored to.
    pub word: u32,
    /// The time of the first operation after which a crash violates the expectation: the store must be durable before it.
    pub before: u32,
    /// True if a write-back and a fence there repair the crash, whatever else survives.
    pub suffices: bool,
}

/// Tries, for each of the `lost` values of a violation at `time`, to write its line back and to fence before the first operation that depends on it.
/// Returns the first one that makes the violation impossible, or else one that contributes to it; `None` if the history violates the expectation
/// without losses.
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
        // The lost store is the last one of this value up to the crash.
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
