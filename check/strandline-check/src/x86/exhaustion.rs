//! Exhaustive exploration: every schedule within bounds, and every crash of each.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::agenda::Agenda;
use super::explorer::{Broken, Counts, Depth, Explorer, Judge, Lived};

/// How far an exhaustive exploration goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most preemptions in a schedule.
    pub preemptions: u32,
    /// The number of transactions of each thread.
    pub transactions: u32,
    /// The most states judged at one crash point.
    pub states: u64,
    /// The most power failures during recovery; each further failure happens in the recovery from the one before.
    pub recovery_crashes: usize,
    /// True if a schedule is cut off at a known state. If not, every schedule runs to its end, which checks this reduction.
    pub reduced: bool,
    /// The time after which exploring stops.
    pub limit: Duration,
}

/// Explores all schedules of `threads` threads within `bounds` until the given instant, and repeats that until no further lines turn out to be
/// shared. Returns the first violation. `lives` runs the threads with these choices ([`Policy::Guided`](super::Policy::Guided)); it distinguishes
/// states under the list of shared lines, `shared`, which grows.
pub fn exhaust<J: Judge>(
    explorer: &mut Explorer<J>,
    threads: usize,
    mut lives: impl FnMut(&[(u32, usize)], &BTreeSet<u32>) -> Result<J::Life, Box<Broken>>,
    (bounds, until): (Bounds, Instant),
    shared: &mut BTreeSet<u32>,
    progress: &mut impl FnMut(&Counts),
) -> Option<Box<Broken>> {
    let before = explorer.counts;
    let depth = Depth { states: bounds.states, recovery_crashes: bounds.recovery_crashes, until };
    loop {
        let mut exhaustion = Exhaustion {
            threads,
            lives: &mut lives,
            explorer: &mut *explorer,
            bounds,
            depth,
            shared: &*shared,
            found_shared: BTreeSet::new(),
            visited: HashMap::new(),
            agenda: Agenda::new(),
        };
        let explored = exhaustion.explore(progress);
        let (found, states) = (std::mem::take(&mut exhaustion.found_shared), exhaustion.visited.len() as u64);
        let broken = match explored {
            Err(broken) => Some(broken),
            // The exploration that knows all shared lines will explore the remaining states.
            Ok(is_whole) if is_whole && !found.is_empty() => None,
            Ok(_) => exhaustion.finish(progress).err(),
        };
        explorer.counts.schedule_states += states;
        if broken.is_some() || found.is_empty() || explorer.counts.not_run > 0 {
            return broken;
        }
        shared.extend(found);
        explorer.counts = before;
        explorer.forget();
    }
}

/// One exhaustive exploration, under one list of shared lines.
struct Exhaustion<'a, J: Judge, L> {
    threads: usize,
    lives: &'a mut L,
    explorer: &'a mut Explorer<J>,
    bounds: Bounds,
    depth: Depth,
    shared: &'a BTreeSet<u32>,
    found_shared: BTreeSet<u32>,
    /// For each state and the thread that continues in it, the most preemptions that were left there.
    visited: HashMap<(u64, usize), u32>,
    /// The crash points with remaining states, by their schedules.
    agenda: Agenda<Vec<(u32, usize)>>,
}

/// A schedule to run: its choices, and the time of the last of them.
struct Schedule {
    choices: Vec<(u32, usize)>,
    from: u32,
}

impl<J: Judge, L: FnMut(&[(u32, usize)], &BTreeSet<u32>) -> Result<J::Life, Box<Broken>>>
    Exhaustion<'_, J, L>
{
    /// Returns whether `thread` has not continued in `state` yet with at least `left` remaining preemptions.
    fn is_new(&mut self, state: u64, thread: usize, left: u32) -> bool {
        if !self.bounds.reduced {
            return true;
        }
        match self.visited.entry((state, thread)) {
            Entry::Occupied(mut before) if *before.get() < left => {
                before.insert(left);
                true
            }
            Entry::Occupied(_) => false,
            Entry::Vacant(none) => {
                none.insert(left);
                true
            }
        }
    }

    /// Explores all schedules, those with fewer preemptions first, so that a state is first reached with as many remaining preemptions as possible.
    /// Returns `false` if time is up.
    fn explore(&mut self, progress: &mut impl FnMut(&Counts)) -> Result<bool, Box<Broken>> {
        let begin = (0..self.threads).map(|first| Schedule { choices: vec![(0, first)], from: 0 });
        let mut waiting: Vec<Vec<Schedule>> = vec![begin.collect()];
        waiting.resize_with(self.bounds.preemptions as usize + 1, Vec::new);
        for used in 0..waiting.len() {
            while let Some(schedule) = waiting[used].pop() {
                if self.explorer.is_over(self.depth) {
                    let others: usize = waiting.iter().map(Vec::len).sum();
                    self.explorer.counts.not_run += 1 + others as u64;
                    return Ok(false);
                }
                self.run(&schedule, used, &mut waiting).map_err(|mut broken| {
                    broken.schedule = schedule.choices;
                    broken
                })?;
                progress(&self.explorer.counts);
            }
        }
        Ok(true)
    }

    /// Runs a schedule to its end or to a known state, judges the crashes of the new part, and notes the schedules that branch off.
    fn run(
        &mut self,
        schedule: &Schedule,
        used: usize,
        waiting: &mut [Vec<Schedule>],
    ) -> Result<(), Box<Broken>> {
        let life = (self.lives)(&schedule.choices, self.shared)?;
        self.explorer.begin_run();
        self.found_shared.extend(life.found_shared());
        let left = self.bounds.preemptions - used as u32;
        let mut until = u32::MAX;
        for choice in life.choices() {
            if !self.is_new(choice.state, choice.chosen, left) {
                until = choice.time;
                break;
            }
            let cost = u32::from(choice.preempts);
            if cost > left {
                continue;
            }
            for &other in &choice.others {
                if self.is_new(choice.state, other, left - cost) {
                    let mut choices = schedule.choices.clone();
                    choices.push((choice.number, other));
                    waiting[used + cost as usize].push(Schedule { choices, from: choice.time });
                }
            }
        }
        // The part before the last choice belongs to the schedule from which this one branches off, and the part after a known state to the schedule
        // that reached the state first.
        let from = schedule.from.max(life.began());
        for &point in life.trace().points.iter().filter(|&&point| (from..=until).contains(&point)) {
            self.agenda.visit(self.explorer, (&schedule.choices, &life), point, self.depth)?;
        }
        Ok(())
    }

    /// Explores the crash points with remaining states in rounds.
    fn finish(&mut self, progress: &mut impl FnMut(&Counts)) -> Result<(), Box<Broken>> {
        let (lives, shared) = (&mut self.lives, self.shared);
        let live = |choices: &Vec<(u32, usize)>| lives(choices, shared).ok();
        let finished = self.agenda.finish(self.explorer, live, self.depth);
        progress(&self.explorer.counts);
        finished.map_err(|(choices, mut broken)| {
            broken.schedule = choices;
            broken
        })
    }
}
