//! Decides which states of which crash points are tried, and when: every point is visited before any is explored deeply.
//!
//! A visit searches a point completely if that takes few states. Otherwise it tries the extremes: everything survives, or nothing does. The remaining
//! states wait until all points have been visited, and are then explored in rounds. Each round gives every point several times as many states as the
//! one before. It first tries each line lost alone and each line surviving alone, then pairs of lines, beginning with those adjacent in time, then
//! random sets of lines. The depth-first search then continues where it stopped; only the search can complete a point.

use std::borrow::Borrow;
use std::time::Instant;

use fastrand::Rng;

use super::crash::Decision;
use super::explorer::{Broken, Depth, Explorer, Judge};

/// Points with fewer states than this are searched immediately.
const FEW: u64 = 16;

/// The factor by which each round has more states than the one before.
const GROWTH: u64 = 8;

/// The number of sets of lines and random states that are tried at one point, at most, besides the search.
const MOST_TRIALS: u64 = 4096;
/// A point that the search can complete gets at most one trial for this many of its states, because the search judges these states again.
const STATES_OF_A_TRIAL: u64 = 64;

/// The remaining states of the visited points; `K` identifies their runs.
pub(crate) struct Agenda<K> {
    left: Vec<Left<K>>,
}

/// A point with remaining states.
struct Left<K> {
    run: K,
    time: u32,
    /// The number of states that the point may have; `u64::MAX` means that many or more.
    possible: u64,
    /// The decisions at which the point's search continues; `None`: at the beginning.
    search: Option<Vec<Decision>>,
    /// The number of the next trial.
    trial: u64,
    /// The number of trials that were judged. A complete search judges all of them again.
    tried: u64,
    /// The number of states that the search has judged, without those after a crash in recovery, which a search that restarts judges again.
    searched: u64,
    /// The number of states that were judged.
    judged: u64,
}

impl<K: Clone + PartialEq> Agenda<K> {
    /// Creates an agenda without points.
    pub fn new() -> Self {
        Self { left: Vec::new() }
    }

    /// Visits the crash point at `time` of `life`, which is the run `run`.
    ///
    /// # Errors
    /// Returns a violation.
    pub fn visit<J: Judge>(
        &mut self,
        explorer: &mut Explorer<J>,
        (run, life): (&K, &J::Life),
        time: u32,
        depth: Depth,
    ) -> Result<(), Box<Broken>> {
        if explorer.is_over(depth) {
            explorer.counts.unvisited += 1;
            return Ok(());
        }
        let Some(possible) = explorer.arrive(life, time, depth) else { return Ok(()) };
        let mut left = Left {
            run: run.clone(),
            time,
            possible,
            search: None,
            trial: 0,
            tried: 0,
            searched: 0,
            judged: 0,
        };
        let first = if possible <= FEW { FEW } else { explorer.judge.tries().visit };
        if first > 0 && left.go_on(explorer, life, depth, first)? {
            return Ok(());
        }
        left.try_some(explorer, life, depth, 2)?;
        explorer.counts.cut_short += 1;
        self.left.push(left);
        Ok(())
    }

    /// Explores the remaining states in rounds until none is left or the bounds are reached. `live` repeats a run.
    ///
    /// # Errors
    /// Returns a violation, and the run in which it was found.
    pub fn finish<J: Judge, L: Borrow<J::Life>>(
        &mut self,
        explorer: &mut Explorer<J>,
        mut live: impl FnMut(&K) -> Option<L>,
        depth: Depth,
    ) -> Result<(), (K, Box<Broken>)> {
        let mut budget = explorer.judge.tries().visit.max(2 * FEW);
        let mut present: Option<(K, L)> = None;
        while !self.left.is_empty() {
            let mut waiting = std::mem::take(&mut self.left);
            for mut left in waiting.drain(..) {
                if explorer.is_over(depth) {
                    return Ok(());
                }
                if present.as_ref().is_none_or(|(run, _)| *run != left.run) {
                    // A run that cannot be repeated is not explored any further.
                    present = live(&left.run).map(|life| (left.run.clone(), life));
                    explorer.rejoin();
                }
                let Some((_, life)) = &present else { continue };
                let life = life.borrow();
                explorer.return_to(life, left.time);
                let round = budget.min(depth.states.saturating_sub(left.judged));
                let tried = left.try_some(explorer, life, depth, round / 2);
                let whole = tried.and_then(|()| left.go_on(explorer, life, depth, round.div_ceil(2)));
                let whole = whole.map_err(|broken| (left.run.clone(), broken))?;
                if whole {
                    explorer.counts.cut_short -= 1;
                } else if left.judged < depth.states {
                    self.left.push(left);
                }
            }
            budget = budget.saturating_mul(GROWTH);
        }
        Ok(())
    }
}

impl<K> Left<K> {
    /// Continues the search for about this many states. Returns whether it is complete.
    fn go_on<J: Judge>(
        &mut self,
        explorer: &mut Explorer<J>,
        life: &J::Life,
        depth: Depth,
        states: u64,
    ) -> Result<bool, Box<Broken>> {
        if self.search.is_none() {
            explorer.counts.states -= std::mem::take(&mut self.searched);
        }
        let before = explorer.counts;
        let left = explorer.search_on(life, self.time, self.search.take(), depth, states)?;
        let (states, nested) =
            (explorer.counts.states - before.states, explorer.counts.nested - before.nested);
        self.searched += states - nested;
        self.judged += states;
        match left {
            None => {
                explorer.counts.states -= self.tried;
                let equal = match self.possible {
                    u64::MAX => u64::MAX,
                    possible => possible.saturating_sub(self.searched),
                };
                explorer.counts.equal_states = explorer.counts.equal_states.saturating_add(equal);
                Ok(true)
            }
            Some(search) => {
                self.search = Some(search).filter(|search| !search.is_empty());
                Ok(false)
            }
        }
    }

    /// Tries this many sets of lines, or as many as are left.
    fn try_some<J: Judge>(
        &mut self,
        explorer: &mut Explorer<J>,
        life: &J::Life,
        depth: Depth,
        trials: u64,
    ) -> Result<(), Box<Broken>> {
        let lines = explorer.lines_by_time(life, self.time);
        let mut random = Rng::with_seed(u64::from(self.time) << 32 | self.trial);
        let is_searched = self.possible <= depth.states;
        let most = if is_searched { MOST_TRIALS.min(self.possible / STATES_OF_A_TRIAL) } else { MOST_TRIALS };
        for _ in 0..trials.min(most.saturating_sub(self.trial)) {
            if explorer.is_over(depth) {
                break;
            }
            let set = subset(&lines, self.trial);
            self.trial += 1;
            let judged = explorer.try_one(life, self.time, set, &mut random)?;
            self.tried += u64::from(judged);
            self.judged += u64::from(judged);
        }
        Ok(())
    }
}

/// Returns the lines of trial number `number`, and whether they survive or are lost; `None`: chance decides.
fn subset(lines: &[u32], number: u64) -> Option<(Vec<u32>, bool)> {
    let survive = number % 2 == 1;
    // The first two trials lose nothing and everything.
    let Some(mut number) = (number / 2).checked_sub(1).map(|number| number as usize) else {
        return Some((Vec::new(), survive));
    };
    for size in [1, 2] {
        for apart in 1..if size == 1 { 2 } else { lines.len() } {
            let sets = if size == 1 { lines.len() } else { lines.len() - apart };
            if let Some(&first) = lines.get(number).filter(|_| number < sets) {
                let second = (size == 2).then(|| lines[number + apart]);
                return Some((std::iter::once(first).chain(second).collect(), survive));
            }
            number -= sets;
        }
    }
    None
}

impl<J: Judge> Explorer<J> {
    /// Returns whether time is up, the exploration was stopped, or the maximum of states was judged.
    pub(crate) fn is_over(&self, depth: Depth) -> bool {
        self.counts.states >= self.most || self.session.is_stopped() || Instant::now() > depth.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_come_first_then_lines_then_pairs_then_chance() {
        let sets: Vec<_> = (0..).map_while(|number| subset(&[7, 8, 9], number)).collect();
        let lost: Vec<_> =
            sets.iter().filter(|(_, survive)| !survive).map(|(lines, _)| lines.clone()).collect();
        assert_eq!(lost, [vec![], vec![7], vec![8], vec![9], vec![7, 8], vec![8, 9], vec![7, 9]]);
        let survive: Vec<_> =
            sets.iter().filter(|(_, survive)| *survive).map(|(lines, _)| lines.clone()).collect();
        assert_eq!(survive, lost, "each set is lost alone, and survives alone");
    }

    #[test]
    fn few_lines_have_few_sets() {
        assert_eq!((0..20).map_while(|number| subset(&[], number)).count(), 2);
        assert_eq!((0..20).map_while(|number| subset(&[5], number)).count(), 4);
    }
}
