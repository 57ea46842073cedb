//! How much an exploration has seen, and the verdict that follows.

use std::fmt;

use strandline_core::memory::{Event, Operation};

use crate::counts::Counts;
use crate::x86::Trace;

/// Counts of the operations on persistent memory in all explored runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Coverage {
    /// Words stored.
    pub stores: u64,
    /// Lines written back.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
    /// Numbers that the program has acknowledged.
    pub acknowledgements: u64,
    /// Transactions of a database; zero for programs on persistent memory.
    pub transactions: u64,
}

impl Coverage {
    /// Adds a run on persistent memory.
    pub(crate) fn add(&mut self, trace: &Trace) {
        self.stores += trace.lines.iter().map(|line| line.stores.len() as u64).sum::<u64>();
        for mark in &trace.marks {
            match mark.operation {
                Operation::WriteBack(..) => self.flushes += 1,
                Operation::Fence(_) => self.fences += 1,
                Operation::Event(Event::Acknowledged(_)) => self.acknowledgements += 1,
                _ => {}
            }
        }
    }

    /// Adds a run over a database, in which each transaction is one store.
    #[cfg(feature = "store")]
    pub(crate) fn add_transactions(&mut self, trace: &Trace) {
        let mut run = Self::default();
        run.add(trace);
        self.transactions += run.stores;
        self.acknowledgements += run.acknowledgements;
    }
}

impl fmt::Display for Coverage {
    /// Lists the counts that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transactions > 0 || *self == Self::default() {
            return write!(
                f,
                "{} transactions, {} acknowledgements",
                self.transactions, self.acknowledgements
            );
        }
        let Self { stores, flushes, fences, acknowledgements, .. } = self;
        write!(f, "{stores} stores, {flushes} flushes, {fences} fences, {acknowledgements} acknowledgements")
    }
}

/// The verdict on a program after an exploration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// There is a finding.
    Found,
    /// Every run within the bounds was made and every crash point in them visited, and nothing was found. Where a crash point has more states than
    /// the bound permits, some states were skipped; [`Counts::cut_short`] counts these points.
    NothingFound,
    /// Nothing was found, but time was up, or the exploration was stopped, before every crash point was visited.
    Unfinished {
        /// The percentage of crash points that were visited. If runs were left out it is an upper bound.
        percent: f64,
        /// True if runs were left out, so that the number of crash points is unknown.
        at_most: bool,
    },
}

impl Verdict {
    /// Returns the verdict that follows from `counts`.
    pub(crate) fn of(counts: &Counts, has_finding: bool) -> Self {
        if has_finding {
            return Self::Found;
        }
        if counts.unvisited == 0 && counts.not_run == 0 {
            return Self::NothingFound;
        }
        let visited = (counts.points + counts.equal_points) as f64;
        let known = visited + counts.unvisited as f64;
        // Assumes that a run that was left out has at least as many points as the others.
        let in_a_run = (known / counts.histories.max(1) as f64).max(1.0);
        let percent = 100.0 * visited / (known + in_a_run * counts.not_run as f64);
        Self::Unfinished { percent, at_most: counts.not_run > 0 }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Found => f.write_str("found"),
            Self::NothingFound => f.write_str("nothing found"),
            Self::Unfinished { percent, at_most } => {
                let at_most = if at_most { "at most " } else { "" };
                // Never report 100%.
                let percent = (percent * 10.0).floor().min(999.0) / 10.0;
                write!(f, "nothing found in {at_most}{percent}% of the crash points")
            }
        }
    }
}

/// Returns a line about the explored share of crash points and states.
pub(crate) fn explored(counts: &Counts) -> String {
    let visited = counts.points + counts.equal_points;
    let mut text = format!("crash points: {visited} of {} visited", visited + counts.unvisited);
    if counts.cut_short > 0 {
        text += &format!(", {} of them with states left", counts.cut_short);
    }
    text += &format!("; states: {} judged", counts.states);
    if counts.nested > 0 {
        text += &format!(" ({} after a crash in recovery)", counts.nested);
    }
    if counts.equal_states > 0 {
        text += &format!(", {} left out as equal", at_least(counts.equal_states));
    }
    if counts.cut_short > 0 {
        let at_most = if counts.possible == u64::MAX { "" } else { " at most" };
        text += &format!(", of {}{at_most}", at_least(counts.possible));
    }
    if counts.not_run > 0 {
        text += &format!("; runs: {} made, {} or more left out", counts.histories, counts.not_run);
    }
    text
}

/// Prints a count that saturates at the greatest number.
fn at_least(count: u64) -> String {
    if count == u64::MAX { "2^64 or more".to_owned() } else { count.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(counts: Counts) -> String {
        Verdict::of(&counts, false).to_string()
    }

    #[test]
    fn nothing_is_found_only_where_everything_was_visited() {
        let all = Counts { histories: 1, points: 3, equal_points: 5, cut_short: 2, ..Counts::default() };
        assert_eq!(verdict(all), "nothing found");
        assert_eq!(verdict(Counts { unvisited: 24, ..all }), "nothing found in 25% of the crash points");
        assert_eq!(verdict(Counts { not_run: 3, ..all }), "nothing found in at most 25% of the crash points");
        assert_eq!(
            verdict(Counts { points: 99_999, unvisited: 1, ..all }),
            "nothing found in 99.9% of the crash points"
        );
        assert_eq!(
            verdict(Counts { not_run: 1, ..Counts::default() }),
            "nothing found in at most 0% of the crash points"
        );
    }

    #[test]
    fn what_is_left_is_told() {
        let counts = Counts { histories: 1, points: 3, states: 10, possible: 64, ..Counts::default() };
        assert_eq!(explored(&counts), "crash points: 3 of 3 visited; states: 10 judged");
        let equal = Counts { equal_states: 54, ..counts };
        assert_eq!(explored(&equal), "crash points: 3 of 3 visited; states: 10 judged, 54 left out as equal");
        let many = Counts { equal_states: u64::MAX, ..counts };
        assert!(explored(&many).ends_with("states: 10 judged, 2^64 or more left out as equal"));
        let counts = Counts { cut_short: 1, unvisited: 2, ..counts };
        assert_eq!(
            explored(&counts),
            "crash points: 3 of 5 visited, 1 of them with states left; states: 10 judged, of 64 at most"
        );
    }
}
