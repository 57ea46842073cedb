//! The counts of an exploration.

/// The counts of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Counts {
    /// Histories: executions of all threads.
    pub histories: u64,
    /// Different pairs of a schedule's state and the thread that continues there (exhaustive exploration).
    pub schedule_states: u64,
    /// Crash points explored.
    pub points: u64,
    /// Crash points skipped because an equal one was explored before: the same words may have the same values, and the expectation is the same.
    pub equal_points: u64,
    /// Crash points during recoveries that were explored.
    pub recovery_points: u64,
    /// Crash points during recoveries that were skipped, like `equal_points`.
    pub equal_recovery_points: u64,
    /// Crash states judged: recovery ran to its end, and its result was judged.
    pub states: u64,
    /// States skipped because recovery and judge cannot distinguish them from one of `states`. For a program on persistent memory or over a database,
    /// these differ only in words that neither loads, at crash points whose search was complete. For a recorded program, their image is that of an
    /// earlier state. `u64::MAX` means that many or more.
    pub equal_states: u64,
    /// The number of `states` that had a power failure during recovery, too.
    pub nested: u64,
    /// Crash points that have more states than were judged.
    pub cut_short: u64,
    /// Crash points that were not explored because time was up.
    pub unvisited: u64,
    /// Histories and schedules that were found but not run because time was up.
    pub not_run: u64,
    /// An upper bound of the states of the explored crash points, including those that are equal for recovery. `u64::MAX` means that many or more.
    pub possible: u64,
}

impl Counts {
    /// Returns whether everything within the bounds was explored.
    pub fn is_complete(&self) -> bool {
        self.left_out() == 0
    }

    /// Returns how many crash points, histories and schedules were not explored completely.
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
