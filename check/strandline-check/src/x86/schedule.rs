//! Schedules the threads of a run.
//!
//! Threads switch after operations that others can see or that end something: accesses to volatile words, home stores, fences, events. Between these
//! a thread accesses only its own data (its log, or words under its locks), and a crash cannot reveal the difference, since the stores of that time
//! may be missing anyway.

use fastrand::Rng;

/// How threads are interleaved.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Switches at one in so many candidates, to a random thread.
    Random {
        /// One in how many candidates.
        every: u32,
    },
    /// Threads have priorities. At a few random candidates, more likely next to persistence steps, the running thread gets the lowest priority
    /// (probabilistic concurrency testing).
    Priorities {
        /// One in how many ordinary candidates.
        every: u32,
        /// One in how many candidates next to a fence or an event.
        critical: u32,
        /// True if the thread then stalls: until its next requested write-back is complete, it runs for one candidate at a time, and only while all
        /// others wait. A thread that has just left a step out often stalls.
        stalls: bool,
    },
    /// At the listed choice points these threads continue. At all others the running thread continues or, if it pauses or has ended, the next one in
    /// cyclic order. Choice points are counted from 0, the beginning. At a non-temporal store the number of threads, in place of a thread, means that
    /// the store is late; otherwise it is visible immediately.
    Guided(Vec<(u32, usize)>),
}

/// A choice point after the last one that a [`Policy::Guided`] lists, at which another thread could have continued.
#[derive(Clone, Debug)]
pub struct ChoicePoint {
    /// Its number.
    pub number: u32,
    /// When.
    pub time: u32,
    /// A fingerprint of the state there (`state.rs`).
    pub state: u64,
    /// The thread that continued. At a non-temporal store: the number of threads plus one, for a store that is visible immediately.
    pub chosen: usize,
    /// The other threads that could have continued.
    pub others: Vec<usize>,
    /// True if choosing another thread takes a preemption.
    pub preempts: bool,
}

/// The state of a schedule.
#[derive(Debug)]
pub(crate) struct Scheduler {
    policy: Policy,
    random: Rng,
    priorities: Vec<i64>,
    lowest: i64,
    /// The thread that stalls, and the threads that have waited since it last ran.
    stalled: Option<usize>,
    waiting: Vec<usize>,
    /// True if a step was left out since the last candidate.
    left_out: bool,
    /// The number of choice points.
    choices: u32,
    next_listed: usize,
    target: Option<usize>,
    last: usize,
    /// The threads that are running.
    running: Vec<usize>,
    /// The choice point at which a thread gives way, until another thread is chosen.
    giving_way: Option<u32>,
    /// The choice points and the thread that continued at each, so that a guided run can repeat the schedule.
    pub taken: Vec<(u32, usize)>,
    /// Choice points after the listed ones.
    pub points: Vec<ChoicePoint>,
}

impl Scheduler {
    pub fn new(policy: Policy, threads: usize, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut priorities: Vec<i64> = (0..threads as i64).collect();
        random.shuffle(&mut priorities);
        Self {
            policy,
            random,
            priorities,
            lowest: -1,
            stalled: None,
            waiting: Vec::new(),
            left_out: false,
            choices: 0,
            next_listed: 0,
            target: None,
            last: usize::MAX,
            running: (0..threads).collect(),
            giving_way: None,
            taken: Vec::new(),
            points: Vec::new(),
        }
    }

    /// Returns whether `thread` gives way after an operation at which it might; `state` returns time and state.
    pub fn candidate(
        &mut self,
        thread: usize,
        critical_point: bool,
        state: impl FnOnce() -> (u32, u64),
    ) -> bool {
        if self.running.len() < 2 {
            return false;
        }
        let gives_way = self.gives_way(thread, critical_point, state);
        if !matches!(self.policy, Policy::Guided(_)) {
            if gives_way {
                self.giving_way = Some(self.choices);
            }
            self.choices += 1;
        }
        gives_way
    }

    fn gives_way(&mut self, thread: usize, critical_point: bool, state: impl FnOnce() -> (u32, u64)) -> bool {
        match &self.policy {
            Policy::Random { every } => self.random.u32(..(*every).max(1)) == 0,
            Policy::Priorities { .. } if self.stalled == Some(thread) => true,
            Policy::Priorities { every, critical, stalls } => {
                let left_out = std::mem::take(&mut self.left_out) && *stalls;
                let one_in = match (left_out, critical_point) {
                    (true, _) => 2,
                    (false, true) => *critical,
                    (false, false) => *every,
                };
                let change = self.random.u32(..one_in.max(1)) == 0;
                if change {
                    if left_out || (*stalls && self.stalled.is_none() && self.random.u8(..8) == 0) {
                        self.stalled = Some(thread);
                        self.waiting.clear();
                    }
                    self.fall_behind(thread);
                }
                change
            }
            Policy::Guided(_) => {
                self.target = self.listed();
                if self.target.is_none() {
                    self.note(thread, true, state);
                }
                self.choices += 1;
                self.target.is_some()
            }
        }
    }

    /// Returns whether a non-temporal store, which the running thread is about to make, is late; `state` returns the time and a fingerprint of the
    /// state and the store. A late store counts as a preemption.
    pub fn is_late(&mut self, state: impl FnOnce() -> (u32, u64)) -> bool {
        if self.running.len() < 2 {
            return false;
        }
        let late = self.priorities.len();
        let is_late = match &self.policy {
            Policy::Guided(list) => {
                let is_past = self.next_listed == list.len();
                let listed = self.listed();
                if is_past {
                    let (time, state) = state();
                    let (number, chosen, others) = (self.choices, late + 1, vec![late]);
                    self.points.push(ChoicePoint { number, time, state, chosen, others, preempts: true });
                }
                listed == Some(late)
            }
            _ => {
                let is_late = self.random.bool();
                if is_late {
                    self.taken.push((self.choices, late));
                }
                is_late
            }
        };
        self.choices += 1;
        is_late
    }

    /// Returns the thread that the list names for this choice point.
    fn listed(&mut self) -> Option<usize> {
        let Policy::Guided(list) = &self.policy else { return None };
        let &(_, thread) = list.get(self.next_listed).filter(|&&(number, _)| number == self.choices)?;
        self.next_listed += 1;
        Some(thread)
    }

    /// Notes a choice point after the list, where `chosen` continues.
    fn note(&mut self, chosen: usize, preempts: bool, state: impl FnOnce() -> (u32, u64)) {
        if matches!(&self.policy, Policy::Guided(list) if self.next_listed == list.len()) {
            // A thread that pauses does not continue while others can.
            let others = self.running.iter().copied();
            let others =
                others.filter(|&other| other != chosen && (preempts || other != self.last)).collect();
            let (time, state) = state();
            self.points.push(ChoicePoint { number: self.choices, time, state, chosen, others, preempts });
        }
    }

    /// Notes that the running thread leaves a step out.
    pub fn leaves_out(&mut self) {
        self.left_out = true;
    }

    /// Returns the running threads.
    pub fn running(&self) -> &[usize] {
        &self.running
    }

    /// Notes that the write-backs that `thread` has requested are complete.
    pub fn completes(&mut self, thread: usize) {
        self.stalled.take_if(|stalled| *stalled == thread);
    }

    /// Makes `thread` wait for another.
    pub fn pause(&mut self, thread: usize) {
        if self.stalled.is_some() && !self.waiting.contains(&thread) {
            self.waiting.push(thread);
        }
        if matches!(self.policy, Policy::Priorities { .. }) {
            // Choose any of the others at random.
            if self.running.len() > 2 && self.random.bool() {
                self.random.shuffle(&mut self.priorities);
            }
            self.fall_behind(thread);
        }
    }

    fn fall_behind(&mut self, thread: usize) {
        if let Some(priority) = self.priorities.get_mut(thread) {
            *priority = self.lowest;
            self.lowest -= 1;
        }
    }

    /// Returns the position in `running` of the thread to run next.
    pub fn choose(&mut self, running: &[usize], state: impl FnOnce() -> (u32, u64)) -> usize {
        self.running.clear();
        self.running.extend_from_slice(running);
        let position = match &self.policy {
            Policy::Random { .. } => self.random.usize(..running.len()),
            Policy::Priorities { .. } => {
                let stalls = |thread: &usize| self.stalled == Some(*thread);
                let waits = |thread: &usize| stalls(thread) || self.waiting.contains(thread);
                match running.iter().position(stalls).filter(|_| running.iter().all(waits)) {
                    Some(stalled) => {
                        self.waiting.clear();
                        stalled
                    }
                    None => {
                        let others = (0..running.len()).filter(|&at| !stalls(&running[at]));
                        others.max_by_key(|&at| self.priorities[running[at]]).unwrap_or(0)
                    }
                }
            }
            Policy::Guided(_) => {
                let place = |thread| running.iter().position(|&other| other == thread);
                match self.target.take() {
                    Some(thread) => place(thread).unwrap_or(0),
                    None => {
                        let listed = self.listed();
                        let next = || running.iter().position(|&other| other > self.last).unwrap_or(0);
                        let position = listed.and_then(place).unwrap_or_else(next);
                        if listed.is_none() {
                            self.note(running[position], false, state);
                        }
                        self.choices += 1;
                        position
                    }
                }
            }
        };
        self.last = running[position];
        if !matches!(self.policy, Policy::Guided(_)) {
            let number = self.giving_way.take().unwrap_or_else(|| {
                self.choices += 1;
                self.choices - 1
            });
            self.taken.push((number, self.last));
        }
        position
    }
}
