//! Who runs when.
//!
//! Threads switch after operations that others can see or that end something: accesses to volatile words, home
//! stores, fences, events. In between a thread touches what is its own (its log, or words under its locks),
//! and no crash tells the difference: what it stored meanwhile may be missing anyway.

use fastrand::Rng;

/// How threads are interleaved.
#[derive(Clone, Debug)]
pub enum Policy {
    /// A switch after one in so many candidates, to a random thread.
    Random {
        /// One in so many.
        every: u32,
    },
    /// Threads have priorities; at a few random candidates, more likely next to persistence steps, the running
    /// thread falls behind all others (probabilistic concurrency testing).
    Priorities {
        /// One in so many ordinary candidates.
        every: u32,
        /// One in so many of the candidates next to a fence or an event.
        critical: u32,
    },
    /// Thread `first` runs until it pauses, ends, or reaches one of the listed candidates (in order), where
    /// the other thread goes on.
    Listed {
        /// The thread that begins.
        first: usize,
        /// Candidates and the threads to run after them.
        preemptions: Vec<(u32, usize)>,
    },
}

/// The state of a schedule.
#[derive(Debug)]
pub(super) struct Scheduler {
    policy: Policy,
    random: Rng,
    priorities: Vec<i64>,
    lowest: i64,
    /// Candidates so far.
    pub candidates: u32,
    next_preemption: usize,
    target: Option<usize>,
    last: usize,
    begun: bool,
    /// How many threads run.
    running: usize,
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
            candidates: 0,
            next_preemption: 0,
            target: None,
            last: 0,
            begun: false,
            running: threads,
        }
    }

    /// Whether `thread` gives way after an operation at which it might.
    pub fn candidate(&mut self, thread: usize, critical_point: bool) -> bool {
        if self.running < 2 {
            return false;
        }
        self.candidates += 1;
        match &self.policy {
            Policy::Random { every } => self.random.u32(..(*every).max(1)) == 0,
            Policy::Priorities { every, critical } => {
                let one_in = if critical_point { *critical } else { *every };
                let change = self.random.u32(..one_in.max(1)) == 0;
                if change {
                    self.fall_behind(thread);
                }
                change
            }
            Policy::Listed { preemptions, .. } => match preemptions.get(self.next_preemption) {
                Some(&(at, to)) if at == self.candidates => {
                    self.next_preemption += 1;
                    self.target = Some(to);
                    true
                }
                _ => false,
            },
        }
    }

    /// `thread` waits for another.
    pub fn pause(&mut self, thread: usize) {
        if matches!(self.policy, Policy::Priorities { .. }) {
            self.fall_behind(thread);
        }
    }

    fn fall_behind(&mut self, thread: usize) {
        if let Some(priority) = self.priorities.get_mut(thread) {
            *priority = self.lowest;
            self.lowest -= 1;
        }
    }

    /// The position in `running` of the thread to run next.
    pub fn choose(&mut self, running: &[usize]) -> usize {
        self.running = running.len();
        let position = match &self.policy {
            Policy::Random { .. } => self.random.usize(..running.len()),
            Policy::Priorities { .. } => {
                (0..running.len()).max_by_key(|&i| self.priorities[running[i]]).unwrap_or(0)
            }
            Policy::Listed { first, .. } => {
                let wanted = if self.begun { self.target.take() } else { Some(*first) };
                let listed = wanted.and_then(|thread| running.iter().position(|&other| other == thread));
                // At a pause or an end the next one in the circle goes on.
                listed.unwrap_or_else(|| running.iter().position(|&other| other > self.last).unwrap_or(0))
            }
        };
        self.begun = true;
        self.last = running[position];
        position
    }
}
