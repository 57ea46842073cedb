//! The view model explored without any of the reductions: configurations are compared as they are, no step is
//! silent, and crash states are taken from every one.

use std::collections::{BTreeSet, HashSet};

use super::{Setting, Test};
use crate::litmus::view::{Stamp, State};

/// All crash states under a setting.
pub fn explore(test: &Test, setting: Setting) -> BTreeSet<Vec<u64>> {
    let mut found = BTreeSet::new();
    let mut visited = HashSet::new();
    let mut stack = vec![State::initial(test)];
    while let Some(state) = stack.pop() {
        if !visited.insert(state.clone()) {
            continue;
        }
        crash(test, setting, &state, &mut found);
        stack.extend((0..test.threads.len()).flat_map(|thread| state.steps(test, thread)));
    }
    found
}

/// Every choice of cuts, one for each line or location, as a number in mixed radix.
fn crash(test: &Test, setting: Setting, state: &State, found: &mut BTreeSet<Vec<u64>>) {
    let line_of = |part: usize| if setting == Setting::Word { test.locations[part].line } else { part };
    let part_of =
        |location: usize| if setting == Setting::Word { location } else { test.locations[location].line };
    let parts = if setting == Setting::Word { test.locations.len() } else { test.lines.len() };
    let end = state.memory.len() as Stamp;
    let mut cuts: Vec<Stamp> = (0..parts).map(|part| state.vpc[line_of(part)]).collect();
    if setting == Setting::FlushOnFail {
        cuts.fill(end);
    }
    let first = cuts.clone();
    loop {
        let at = |location: usize| state.value(state.last_store(location, cuts[part_of(location)]));
        found.insert((0..test.locations.len()).map(at).collect());
        let Some(part) = (0..parts).find(|&part| cuts[part] < end) else { return };
        cuts[..part].copy_from_slice(&first[..part]);
        cuts[part] += 1;
    }
}
