//! The search through all configurations, which collects crash states.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::canonical::Canonical;
use super::future::Future;
use super::view::{Stamp, State};
use super::{Ask, End, Final, Operation, Test};
use crate::Setting;

/// How far a search may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of different configurations that the search may visit.
    pub configurations: usize,
    /// The number of crash states that there may be under one setting.
    pub crash_states: usize,
}

impl Default for Limits {
    /// Allows some minutes and a few hundred megabytes.
    fn default() -> Self {
        Self { configurations: 4_000_000, crash_states: 1_000_000 }
    }
}

/// The test is too large to be explored exhaustively.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLarge {
    /// The quantity that is too large.
    pub what: &'static str,
    /// Its limit.
    pub limit: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, limit } = self;
        write!(
            f,
            "the test is too large to be explored exhaustively: more than {limit} {what}; make it smaller or split it"
        )
    }
}

impl std::error::Error for TooLarge {}

/// The values of all locations, in the order of [`Test::locations`].
pub(super) type CrashState = Box<[u64]>;

/// Every state that a crash at any point may leave, under each setting.
#[derive(Clone, Debug, Default)]
pub struct CrashStates {
    line: HashSet<CrashState>,
    word: HashSet<CrashState>,
    flush_on_fail: HashSet<CrashState>,
    ends: BTreeSet<End>,
    configurations: usize,
}

impl CrashStates {
    fn of(&self, setting: Setting) -> &HashSet<CrashState> {
        match setting {
            Setting::Line => &self.line,
            Setting::Word => &self.word,
            Setting::FlushOnFail => &self.flush_on_fail,
        }
    }

    /// Returns the number of distinct crash states.
    pub fn count(&self, setting: Setting) -> usize {
        self.of(setting).len()
    }

    /// Returns the crash states in order, each with the values of [`Test::locations`].
    pub fn states(&self, setting: Setting) -> BTreeSet<&[u64]> {
        self.of(setting).iter().map(|state| &**state).collect()
    }

    /// Returns whether some crash leaves a state that satisfies the question.
    pub fn allows(&self, setting: Setting, ask: &Ask) -> bool {
        self.of(setting).iter().any(|state| ask.holds(state))
    }

    /// Returns whether some run without a crash ends in a state that satisfies the question.
    pub fn ends_with(&self, question: &Final) -> bool {
        self.ends.iter().any(|end| question.holds(end))
    }

    /// Returns how many configurations were visited.
    pub fn configurations(&self) -> usize {
        self.configurations
    }
}

impl Test {
    /// Explores all interleavings, all choices of loads and all crash points.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if that exceeds `limits`.
    pub fn explore(&self, limits: Limits) -> Result<CrashStates, TooLarge> {
        self.check_size()?;
        let lost = Search::run(self, limits, Kind::Lost)?;
        let kept = Search::run(&self.without_write_backs(), limits, Kind::Kept)?;
        let ends = if self.finals.is_empty() { BTreeSet::new() } else { self.ends(limits)? };
        let configurations = lost.configurations + kept.configurations;
        Ok(CrashStates { flush_on_fail: kept.flush_on_fail, ends, configurations, ..lost })
    }

    /// Explores all interleavings and all choices of loads, and returns what runs without a crash may leave.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if that exceeds `limits`.
    pub fn ends(&self, limits: Limits) -> Result<BTreeSet<End>, TooLarge> {
        self.check_size()?;
        Ok(Search::run(&self.without_write_backs(), limits, Kind::Ends)?.ends)
    }

    /// Checks that configurations can represent the test.
    fn check_size(&self) -> Result<(), TooLarge> {
        let check = |what, size: usize, limit: usize| {
            if size > limit { Err(TooLarge { what, limit }) } else { Ok(()) }
        };
        check("locations", self.locations.len(), 64)?;
        check("threads", self.threads.len(), 64)?;
        let stores =
            |operations: &Vec<_>| operations.iter().filter(|o: &&super::Operation| o.stores()).count();
        check("stores", self.threads.iter().map(stores).sum(), 200)?;
        for (thread, operations) in self.threads.iter().enumerate() {
            check("operations in a thread", operations.len(), 200)?;
            check("registers in a thread", self.register_count(thread), 64)?;
        }
        Ok(())
    }
}

/// The goal of a search, on which the reductions depend.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Crash states under `line` and `word`.
    Lost,
    /// Crash states under `flush-on-fail`, under which every visible store survives.
    Kept,
    /// The ends of runs without a crash.
    Ends,
}

/// A search.
struct Search<'t> {
    test: &'t Test,
    limits: Limits,
    kind: Kind,
    canonical: Canonical<'t>,
    /// Fingerprints of the visited canonical configurations.
    visited: HashSet<u128>,
    stack: Vec<State>,
    /// Fingerprints of the sets of choices at a crash that were already added to `found`.
    images: HashSet<u128>,
    found: CrashStates,
}

impl Search<'_> {
    fn run(test: &Test, limits: Limits, kind: Kind) -> Result<CrashStates, TooLarge> {
        let mut search = Search {
            test,
            limits,
            kind,
            canonical: Canonical::new(test, kind == Kind::Ends),
            visited: HashSet::new(),
            stack: Vec::new(),
            images: HashSet::new(),
            found: CrashStates::default(),
        };
        search.visit(State::initial(test), false)?;
        while let Some(state) = search.stack.pop() {
            search.go_on(&state)?;
        }
        search.found.configurations = search.visited.len();
        Ok(search.found)
    }

    /// Visits the successors of `state`, or enough of them.
    fn go_on(&mut self, state: &State) -> Result<(), TooLarge> {
        let before = state.memory.len();
        let threads = 0..state.threads.len();
        if let Some(next) = threads.clone().find_map(|thread| self.first_visible(state, thread)) {
            return self.visit(next, true);
        }
        let first = threads.clone().find(|&thread| self.may_go_first(state, thread));
        let mut is_end = true;
        for thread in first.map_or(threads, |thread| thread..thread + 1) {
            let late = state.late_steps(self.test, thread).filter(|_| first.is_none());
            for next in state.operation_steps(self.test, thread).into_iter().chain(late) {
                is_end = false;
                let stored = next.memory.len() > before;
                self.visit(next, stored)?;
            }
        }
        if is_end && self.kind == Kind::Ends {
            let values = (0..self.test.locations.len()).map(|l| state.value(state.last_store(l, Stamp::MAX)));
            let registers = state.threads.iter().map(|thread| thread.registers.clone()).collect();
            self.found.ends.insert(End { registers, values: values.collect() });
        }
        Ok(())
    }

    /// Returns the configuration after a late store of the thread, if the store may become visible before all remaining operations of other threads
    /// (as for a store that may go first). A store whose line a later `clflush` flushes might become visible before or after that.
    fn first_visible(&self, state: &State, thread: usize) -> Option<State> {
        let late = &state.threads[thread].late;
        if late.is_empty() || self.kind != Kind::Lost {
            return None;
        }
        let is_own = |index: &usize| {
            let line = self.test.locations[late[*index].message.location].line;
            self.canonical.futures(state).enumerate().all(|(other, future)| {
                let lines = if other == thread { future.flushes } else { future.touches };
                lines >> line & 1 == 0
            })
        };
        (0..late.len()).filter(is_own).find_map(|index| state.with_visible(self.test, thread, index))
    }

    /// Returns what the other threads may still do.
    fn others(&self, state: &State, thread: usize) -> impl Iterator<Item = Future> {
        let futures = self.canonical.futures(state).enumerate();
        futures.filter(move |&(other, _)| other != thread).map(|(_, future)| future)
    }

    /// Returns whether no crash state is lost if the thread's next operation comes before all remaining operations of other threads: see "Exhaustive
    /// search and its reductions" in `mod.rs`.
    fn may_go_first(&self, state: &State, thread: usize) -> bool {
        let next = self.test.threads[thread].get(state.threads[thread].next);
        let mut others = self.others(state, thread);
        match next {
            Some(&Operation::Store { location, .. }) => {
                let line = self.test.locations[location].line;
                self.kind == Kind::Lost
                    && !state.waits(self.test, thread)
                    && others.all(|future| future.touches >> line & 1 == 0)
            }
            Some(&Operation::Load { location, .. }) => {
                others.all(|future| future.stores >> location & 1 == 0)
            }
            _ => false,
        }
    }

    /// Visits a configuration unless an equal one was visited before. `stored` tells whether a store led to it.
    fn visit(&mut self, mut state: State, stored: bool) -> Result<(), TooLarge> {
        // Silent steps change no crash state, so they may come first.
        let initial = state.memory.is_empty();
        if self.kind != Kind::Lost {
            state.vpc.fill(state.memory.len() as Stamp);
        }
        state.run_silent_steps(self.test);
        if !self.visited.insert(fingerprint(&self.canonical.key(&state))) {
            return Ok(());
        }
        if self.visited.len() > self.limits.configurations {
            return Err(TooLarge { what: "configurations", limit: self.limits.configurations });
        }
        if (stored || initial) && self.kind != Kind::Ends {
            self.crash(&state)?;
        }
        self.stack.push(state);
        Ok(())
    }

    /// Collects the crash states in which the last store persisted. Those in which it did not were there before it, and only a store adds crash
    /// states.
    fn crash(&mut self, state: &State) -> Result<(), TooLarge> {
        let test = self.test;
        let last = state.memory.last().map(|message| message.location);
        let now = Stamp::MAX;
        let at = |location: usize, cut: Stamp| state.value(state.last_store(location, cut));

        if self.kind == Kind::Kept {
            self.found.flush_on_fail.insert((0..test.locations.len()).map(|l| at(l, now)).collect());
            return self.limit(self.found.flush_on_fail.len());
        }

        // For each line the contents that it may have, as the values of its locations.
        let lines: Vec<Vec<CrashState>> = (0..test.lines.len())
            .map(|line| {
                let locations: Vec<usize> =
                    (0..test.locations.len()).filter(|&l| test.locations[l].line == line).collect();
                let first =
                    if last.is_some_and(|l| test.locations[l].line == line) { now } else { state.vpc[line] };
                let contents = |cut| locations.iter().map(|&l| at(l, cut)).collect();
                let later = state.stores().map(|(stamp, _)| stamp).filter(|&stamp| stamp > first);
                distinct(std::iter::once(first).chain(later).map(contents))
            })
            .collect();
        let locations: Vec<Vec<CrashState>> = (0..test.locations.len())
            .map(|l| {
                let first = if last == Some(l) { now } else { state.vpc[test.locations[l].line] };
                let later = state.stores().filter(|&(stamp, m)| m.location == l && stamp > first);
                let cuts = std::iter::once(first).chain(later.map(|(stamp, _)| stamp));
                distinct(cuts.map(|cut| Box::from([at(l, cut)])))
            })
            .collect();

        // A line's locations need not be adjacent in the list of locations.
        let mut order: Vec<usize> = (0..test.locations.len()).collect();
        order.sort_by_key(|&l| test.locations[l].line);
        let each: Vec<usize> = (0..test.locations.len()).collect();
        self.collect(Setting::Line, lines, &order)?;
        self.collect(Setting::Word, locations, &each)
    }

    /// Checks a number of crash states against the limit.
    fn limit(&self, states: usize) -> Result<(), TooLarge> {
        let limit = self.limits.crash_states;
        if states > limit { Err(TooLarge { what: "crash states", limit }) } else { Ok(()) }
    }

    /// Adds every combination of the parts' contents, with their values in the given order.
    fn collect(
        &mut self,
        setting: Setting,
        parts: Vec<Vec<CrashState>>,
        order: &[usize],
    ) -> Result<(), TooLarge> {
        let combinations = parts.iter().fold(1_usize, |product, part| product.saturating_mul(part.len()));
        self.limit(combinations)?;
        let states = match setting {
            Setting::Line => &mut self.found.line,
            Setting::Word => &mut self.found.word,
            Setting::FlushOnFail => &mut self.found.flush_on_fail,
        };
        let mut chosen = vec![0; parts.len()];
        let mut state = vec![0; order.len()];
        if !self.images.insert(fingerprint(&(setting, &parts))) {
            return Ok(());
        }
        loop {
            let values = std::iter::zip(&parts, &chosen).flat_map(|(part, &choice)| part[choice].iter());
            for (&location, &value) in std::iter::zip(order, values) {
                state[location] = value;
            }
            if !states.contains(&*state) {
                states.insert(state.as_slice().into());
            }
            // Goes on to the next combination, like a counter.
            let Some(at) = (0..parts.len()).find(|&at| chosen[at] + 1 < parts[at].len()) else { break };
            chosen[..at].fill(0);
            chosen[at] += 1;
        }
        let states = states.len();
        self.limit(states)
    }
}

/// Returns a 128-bit hash: two different values have the same one with probability 2^-128.
fn fingerprint(value: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

/// Removes duplicates, and sorts, so that equal choices are equal lists.
fn distinct(contents: impl Iterator<Item = CrashState>) -> Vec<CrashState> {
    contents.collect::<BTreeSet<_>>().into_iter().collect()
}
