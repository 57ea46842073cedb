//! Explores the view model without any of the reductions: it compares complete configurations, no step is silent, and every configuration yields
//! crash states.

use std::collections::{BTreeSet, HashSet};

use super::{Setting, Test};
use crate::litmus::view::{Stamp, State};

/// Returns all crash states under each of the settings. `steps` returns the successors of a configuration by a thread.
pub fn explore(
    test: &Test,
    settings: &[Setting],
    steps: impl Fn(&State, usize) -> Vec<State>,
) -> Vec<BTreeSet<Vec<u64>>> {
    let mut found = vec![BTreeSet::new(); settings.len()];
    let mut visited = HashSet::new();
    let mut stack = vec![State::initial(test)];
    while let Some(state) = stack.pop() {
        if !visited.insert(state.clone()) {
            continue;
        }
        for (&setting, found) in std::iter::zip(settings, &mut found) {
            crash(test, setting, &state, found);
        }
        stack.extend((0..test.threads.len()).flat_map(|thread| steps(&state, thread)));
    }
    found
}

/// Tries every choice of cuts, one for each line or location, like a counter. One cut suffices where its contents equal those of another.
fn crash(test: &Test, setting: Setting, state: &State, found: &mut BTreeSet<Vec<u64>>) {
    let word = setting == Setting::Word;
    let line = |location: usize| test.locations[location].line;
    let part = |location: usize| if word { location } else { line(location) };
    let cuts = |index: usize| -> Vec<Stamp> {
        if setting == Setting::FlushOnFail {
            return vec![Stamp::MAX];
        }
        let complete = state.vpc[if word { line(index) } else { index }];
        let stores =
            state.stores().filter(|&(stamp, message)| part(message.location) == index && stamp > complete);
        std::iter::once(complete).chain(stores.map(|(stamp, _)| stamp)).collect()
    };
    let parts = if word { test.locations.len() } else { test.lines.len() };
    let cuts: Vec<Vec<Stamp>> = (0..parts).map(cuts).collect();
    let mut chosen = vec![0; parts];
    loop {
        let cut = |location: usize| cuts[part(location)][chosen[part(location)]];
        let at = |location: usize| state.value(state.last_store(location, cut(location)));
        found.insert((0..test.locations.len()).map(at).collect());
        let Some(next) = (0..parts).find(|&part| chosen[part] + 1 < cuts[part].len()) else { return };
        chosen[..next].fill(0);
        chosen[next] += 1;
    }
}
