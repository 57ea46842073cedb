//! What an exploration counts.

/// What was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Counts {
    /// Histories: runs of the threads.
    pub histories: u64,
    /// States of a schedule, with who goes on in them, that differ (exhaustive).
    pub schedule_states: u64,
    /// Crash points tried.
    pub points: u64,
    /// Crash points left out because an equal one was tried before: the same words open to the same values,
    /// the same expectation.
    pub equal_points: u64,
    /// Crash points in recoveries, likewise.
    pub recovery_points: u64,
    /// As `equal_points`, of crash points in recoveries.
    pub equal_recovery_points: u64,
    /// Crash states judged: recoveries run to their end and judged.
    pub states: u64,
    /// States left out because they are equal to one of `states` for recovery and for what judges it. Of a program on persistent memory or over
    /// a database: those that differ only in what neither of them loads, at crash points that were searched to their end. Of a recorded
    /// program: those whose image is that of an earlier state. `u64::MAX`: that many or more.
    pub equal_states: u64,
    /// Those of `states` in which power had failed during recovery too.
    pub nested: u64,
    /// Crash points that were tried and have more states than were judged.
    pub cut_short: u64,
    /// Crash points that were not tried, for want of time.
    pub unvisited: u64,
    /// Histories and schedules that were known and not run, for want of time.
    pub not_run: u64,
    /// States that the crash points tried can have at most, equal ones for recovery included; `u64::MAX`: that many or more.
    pub possible: u64,
}

impl Counts {
    /// Returns whether nothing within the bounds was left out.
    pub fn is_complete(&self) -> bool {
        self.left_out() == 0
    }

    /// Crash points, histories and schedules of which something was left out.
    pub fn left_out(&self) -> u64 {
        self.cut_short + self.unvisited + self.not_run
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.histories += more.histories;
        self.schedule_states += more.schedule_states;
        self.points += more.points;
        self.equal_points += more.equal_points;
        self.recovery_points += more.recovery_points;
        self.equal_recovery_points += more.equal_recovery_points;
        self.states += more.states;
        self.equal_states = self.equal_states.saturating_add(more.equal_states);
        self.nested += more.nested;
        self.cut_short += more.cut_short;
        self.unvisited += more.unvisited;
        self.not_run += more.not_run;
        self.possible = self.possible.saturating_add(more.possible);
    }
}
