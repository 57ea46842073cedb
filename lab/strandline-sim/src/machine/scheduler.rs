//! Shares cores among more threads. Ready threads take turns, in the order in which they became ready, for a time slice each. A thread that waits for
//! a word, for a time or for the region of interest has no core meanwhile.
//!
//! Before a core switches threads, its store queue is empty and its write-backs are in the persistence domain, since the thread may continue on
//! another core. So the rest of the machine only deals with cores, and operations of threads count as those of their cores.

use std::collections::VecDeque;

use super::*;
use crate::description::TimeSlices;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On a core, since a cycle.
    On { core: CoreId, since: Cycle },
    /// Ready but without a core, since a cycle.
    Ready { since: Cycle },
    /// Waiting.
    Blocked { why: Why, until: Cycle },
    /// Its code has returned.
    Ended,
}

/// The condition that a thread without a core waits for, besides a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// A wake-up of those that wait on the volatile word at this offset.
    Word(u64),
    /// The region of interest.
    Region,
    /// Nothing else.
    Time,
}

/// A thread.
struct Scheduled {
    place: Place,
    /// The number of cycles that it has had a core, until it last lost one.
    ran: u64,
    /// Set after a wait: whether the time was over.
    waited: Option<bool>,
    /// The cycle in which it lost its last core.
    left_at: Cycle,
    /// Makes its next pause a wait without its core, for at most so many cycles.
    gives_up: Option<(Why, u64)>,
}

/// The assignment of cores to threads.
pub(super) struct Scheduler {
    slice: u64,
    switch: u64,
    threads: Vec<Scheduled>,
    /// The thread on each core.
    on: Vec<Option<usize>>,
    slice_ends: Vec<Cycle>,
    ready: VecDeque<usize>,
    /// The thread whose turn it is.
    current: Option<usize>,
}

impl Scheduler {
    /// Creates a scheduler for `threads` threads on `cores` cores; the first ones begin at `at`.
    pub fn new(slices: TimeSlices, machine: &Description, threads: usize, at: Cycle) -> Self {
        let cores = machine.cores.count;
        let slice = machine.cycles(slices.slice_ns).max(1);
        let place = |thread| match thread < cores {
            true => Place::On { core: CoreId::new(thread), since: at },
            false => Place::Ready { since: at },
        };
        let scheduled =
            |thread| Scheduled { place: place(thread), ran: 0, waited: None, left_at: at, gives_up: None };
        Self {
            slice,
            switch: machine.cycles(slices.switch_ns),
            threads: (0..threads).map(scheduled).collect(),
            on: (0..cores).map(|core| (core < threads).then_some(core)).collect(),
            slice_ends: vec![at + slice; cores],
            ready: (cores..threads).collect(),
            current: None,
        }
    }

    fn core(&self, thread: usize) -> Option<CoreId> {
        match self.threads[thread].place {
            Place::On { core, .. } => Some(core),
            _ => None,
        }
    }

    /// Returns the thread on a core.
    pub fn thread(&self, core: CoreId) -> Option<usize> {
        self.on[core]
    }

    /// Returns the earliest end of a wait for a time, and the thread.
    pub fn next_timer(&self) -> Option<(Cycle, usize)> {
        let timers =
            self.threads.iter().enumerate().filter_map(|(thread, scheduled)| match scheduled.place {
                Place::Blocked { until, .. } if until != Cycle::NEVER => Some((until, thread)),
                _ => None,
            });
        timers.min()
    }
}

impl Machine {
    /// Waits until the region of interest begins. `memory` is the view of `thread`.
    pub fn wait_for_region(&self, thread: usize, memory: &Hosted) {
        if self.state.borrow().scheduler.is_some() {
            self.give_up_core(thread, Why::Region, u64::MAX, memory);
        } else {
            self.state.borrow_mut().waiting[thread] = Waiting::Region;
            memory.pause();
        }
    }

    /// Makes `thread`, whose view is `memory`, idle for so many cycles; other threads may use its core.
    pub fn sleep(&self, thread: usize, cycles: u64, memory: &Hosted) {
        if self.state.borrow().scheduler.is_some() {
            self.give_up_core(thread, Why::Time, cycles, memory);
        } else {
            self.state.borrow_mut().cores[thread].clock += cycles;
        }
    }

    fn give_up_core(&self, thread: usize, why: Why, cycles: u64, memory: &Hosted) {
        self.state.borrow_mut().give_up(thread, why, cycles);
        // The thread waits here.
        memory.pause();
    }

    /// Returns whether more threads than cores can share them. Hardware schemes track cores, not threads, so it is impossible with one.
    pub fn shares_cores(&self) -> bool {
        self.state.borrow().shares_cores()
    }

    /// Returns how many cycles a thread has had a core.
    pub fn processor_time(&self, thread: usize) -> u64 {
        self.state.borrow().processor_time(thread)
    }

    /// Returns when the counted part began, for a thread that notices only now. If threads share cores, that may be long ago.
    pub fn region_began(&self, thread: usize) -> Cycle {
        let state = self.state.borrow();
        if state.scheduler.is_some() { state.began } else { state.clock_of(thread) }
    }
}

impl State {
    pub(super) fn shares_cores(&self) -> bool {
        self.description.time_slices.is_some() && self.scheme.is_none()
    }

    /// Returns the core on which a thread may perform an operation; `None` if it has just lost it.
    pub(super) fn on_core(&mut self, thread: usize) -> Option<CoreId> {
        let Some(scheduler) = &self.scheduler else { return Some(CoreId::new(thread)) };
        let core = scheduler.core(thread)?;
        let is_over = self.cores[core].clock >= scheduler.slice_ends[core] && !scheduler.ready.is_empty();
        // An operation that has begun is completed first.
        if !is_over || self.cores[core].again {
            return Some(core);
        }
        if self.may_run(core) && self.settles(core) {
            let at = self.leave(core, |at| Place::Ready { since: at });
            self.scheduler.as_mut()?.ready.push_back(thread);
            self.take_up(core, at);
        } else {
            self.clocks.set(core, self.cores[core].clock);
        }
        None
    }

    /// Returns a thread's time.
    pub(super) fn clock_of(&self, thread: usize) -> Cycle {
        match &self.scheduler {
            None => self.cores[thread].clock,
            Some(scheduler) => match scheduler.core(thread) {
                Some(core) => self.cores[core].clock,
                None => scheduler.threads[thread].left_at,
            },
        }
    }

    /// Returns how many cycles a thread has had a core.
    pub(super) fn processor_time(&self, thread: usize) -> u64 {
        let Some(scheduler) = &self.scheduler else { return self.cores[thread].clock.since(Cycle::ZERO) };
        let Scheduled { place, ran, .. } = scheduler.threads[thread];
        match place {
            Place::On { core, since } => ran + (self.cores[core].clock - since),
            _ => ran,
        }
    }

    /// Returns whether none of the core's operations is in progress any more. If some are, the core waits for a part of them.
    fn settles(&mut self, core: CoreId) -> bool {
        if let Err(stall) = self.drain(core) {
            self.cores[core].statistics.stalls.fence_drain += stall;
            return false;
        }
        let settled = self.persisted(core);
        if settled {
            self.cores[core].committing = false;
        }
        settled
    }

    /// Makes the thread of `core` leave it. Returns when.
    fn leave(&mut self, core: CoreId, to: impl FnOnce(Cycle) -> Place) -> Cycle {
        let at = self.cores[core].clock;
        self.clocks.set(core, Cycle::NEVER);
        if let Some(scheduler) = &mut self.scheduler
            && let Some(thread) = scheduler.on[core].take()
        {
            let left = &mut scheduler.threads[thread];
            if let Place::On { since, .. } = left.place {
                left.ran += at - since;
            }
            (left.place, left.left_at) = (to(at), at);
        }
        at
    }

    /// Assigns the next ready thread, if any, to a free core.
    fn take_up(&mut self, core: CoreId, at: Cycle) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let Some(thread) = scheduler.ready.pop_front() else { return };
        let next = &mut scheduler.threads[thread];
        let since = match next.place {
            Place::Ready { since } => since,
            _ => at,
        };
        let clock = self.cores[core].clock.max(since) + scheduler.switch;
        next.place = Place::On { core, since: clock };
        scheduler.on[core] = Some(thread);
        scheduler.slice_ends[core] = clock + scheduler.slice;
        self.cores[core].clock = clock;
        self.clocks.set(core, clock);
        self.others = self.others.min(clock);
        self.horizon = self.horizon.min(clock.saturating_add(1));
    }

    /// Ends a thread's wait; `is_over` is whether its time is over.
    pub(super) fn make_ready(&mut self, thread: usize, at: Cycle, is_over: bool) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let woken = &mut scheduler.threads[thread];
        (woken.place, woken.waited) = (Place::Ready { since: at }, Some(is_over));
        scheduler.ready.push_back(thread);
        if let Some(core) = scheduler.on.iter().position(Option::is_none) {
            self.take_up(CoreId::new(core), at);
        }
    }

    /// Ends the waits of threads whose reason satisfies `whom`.
    pub(super) fn wake_waiting(&mut self, at: Cycle, whom: impl Fn(Why) -> bool) {
        let Some(scheduler) = &self.scheduler else { return };
        let waits =
            |scheduled: &Scheduled| matches!(scheduled.place, Place::Blocked { why, .. } if whom(why));
        let woken: Vec<usize> =
            (0..scheduler.threads.len()).filter(|&thread| waits(&scheduler.threads[thread])).collect();
        for thread in woken {
            self.make_ready(thread, at, false);
        }
    }

    /// Makes a thread give up its core and wait, for at most so many cycles, unless it waits for a word whose value has changed. The call is repeated
    /// after the wait, or earlier; it then returns whether the time was over.
    pub(super) fn block(&mut self, thread: usize, why: Why, value: u64, cycles: u64) -> Option<bool> {
        if let Some(scheduler) = &mut self.scheduler
            && let Some(is_over) = scheduler.threads[thread].waited.take()
        {
            return Some(is_over);
        }
        let core = self.on_core(thread)?;
        if !self.may_run(core) || !self.settles(core) {
            self.clocks.set(core, self.cores[core].clock);
            return None;
        }
        if let Why::Word(offset) = why {
            let (line, word) = self.place(Space::Volatile, offset);
            if self.newest(line)[usize::from(word)] != value {
                return Some(false);
            }
        }
        let at = self.leave(core, |at| Place::Blocked { why, until: at.saturating_add(cycles) });
        self.take_up(core, at);
        None
    }

    /// Makes the next pause of `thread` a wait without its core.
    pub(super) fn give_up(&mut self, thread: usize, why: Why, cycles: u64) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.threads[thread].gives_up = Some((why, cycles));
        }
    }

    /// Returns whether the pause of `thread` is such a wait.
    pub(super) fn gives_up(&self, thread: usize) -> bool {
        self.scheduler.as_ref().is_some_and(|scheduler| scheduler.threads[thread].gives_up.is_some())
    }

    /// Performs that wait; returns `None` while it is not over.
    pub(super) fn wait_without_core(&mut self, thread: usize) -> Option<bool> {
        let (why, cycles) = self.scheduler.as_ref()?.threads[thread].gives_up?;
        let waited = self.block(thread, why, 0, cycles)?;
        self.scheduler.as_mut()?.threads[thread].gives_up = None;
        Some(waited)
    }

    /// Wakes threads that wait on a volatile word to which this thread's core has stored. Returns whether it could.
    pub(super) fn wake_word(&mut self, thread: usize, offset: u64) -> bool {
        let Some(core) = self.on_core(thread) else { return false };
        if !self.may_run(core) || self.drain(core).is_err() {
            self.clocks.set(core, self.cores[core].clock);
            return false;
        }
        self.wake_waiting(self.cores[core].clock, |why| why == Why::Word(offset));
        true
    }

    /// Performs [`State::choose`] if threads share cores.
    pub(super) fn choose_scheduled(&mut self, running: &[usize]) -> usize {
        if let Some(scheduler) = &self.scheduler
            && let Some(thread) = scheduler.current
            && running.binary_search(&thread).is_err()
            && let Some(core) = scheduler.core(thread)
        {
            let at = self.leave(core, |_| Place::Ended);
            self.take_up(core, at);
        }
        while self.clocks.first().0 == Cycle::NEVER {
            let (agent, at) = self.next_agent();
            if at == Cycle::NEVER {
                // Only a helper is left, whose workers have ended and which nothing will wake.
                let now = self.cores.iter().map(|core| core.clock).max().unwrap_or_default();
                self.wake_waiting(now, |_| true);
            } else {
                self.act(agent, at);
            }
        }
        let (_, core) = self.clocks.first();
        self.current = core;
        self.clocks.set(core, Cycle::NEVER);
        self.others = self.clocks.first().0;
        self.horizon = Cycle::ZERO;
        let Some(scheduler) = &mut self.scheduler else { return 0 };
        scheduler.current = scheduler.on[core];
        let thread = scheduler.on[core].expect("a core with a clock has a thread");
        running.binary_search(&thread).expect("a thread on a core runs")
    }
}
