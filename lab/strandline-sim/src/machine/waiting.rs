//! Threads that spin: they are suspended until something changes the data that they poll, and the skipped iterations are accounted for.

use super::*;

/// The condition that a suspended thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Its turn.
    No,
    /// The loss of a latch's line from its first level; it spins meanwhile.
    Latch,
    /// The region of interest; it pauses meanwhile.
    Region,
    /// Nothing any more, but it has not continued yet.
    Over,
}

impl State {
    /// Advances store queues and engines while all threads wait, until one of the threads has a reason to poll again.
    pub(super) fn act_until_one_wakes(&mut self) {
        while self.clocks.first().0 == Cycle::NEVER {
            let (agent, at) = self.next_agent();
            let now = self.cores.iter().map(|core| core.clock).max().unwrap_or_default();
            if at == Cycle::NEVER && now <= self.limit && self.waiting.contains(&Waiting::Latch) {
                // Only a helper is left, whose workers have ended: no store will end its wait.
                for core in CoreId::first(self.waiting.len()) {
                    if self.waiting[core] == Waiting::Latch {
                        self.wake(core, now);
                    }
                }
                return;
            }
            if at > self.limit || at == Cycle::NEVER {
                panic!("the program runs for ever");
            }
            self.act(agent, at);
        }
    }

    /// Returns whether a thread that waits while a volatile word holds `value` can be suspended until its first level loses the line; if so, starts
    /// watching the line. It cannot be if a tape records each load.
    pub(super) fn can_watch(&mut self, core: CoreId, offset: u64, value: u64) -> bool {
        let (line, word) = self.place(Space::Volatile, offset);
        let its = &self.cores[core];
        let waits = its.stores.as_ref().is_none_or(StoreQueue::is_issued)
            && its.combining.is_empty()
            && its.overlap != LoadOverlap::All
            && self.notes.is_none()
            && self.tape.is_none();
        let clock = its.clock;
        let first = self.caches.first(core);
        let there = first.find(line).is_some_and(|entry| {
            first.data[entry].0[usize::from(word)] == value && first.states[entry].ready <= clock
        });
        if waits && there {
            self.caches.watch(core, line);
        }
        waits && there
    }

    /// Accounts for the iterations that a waiting thread has spun up to `until`.
    pub(super) fn spin(&mut self, core: CoreId, until: Cycle) {
        let latency = self.description.caches[0].latency;
        let load = (self.waiting[core] == Waiting::Latch).then_some(latency);
        let turns = self.cores[core].spin(until, load, self.description.cores.pause_cycles);
        if load.is_some() {
            self.caches.first(core).statistics.hits += turns;
        }
    }

    /// Makes a waiting thread poll again in its first iteration at `at` or later.
    pub(super) fn wake(&mut self, core: CoreId, at: Cycle) {
        self.spin(core, at);
        if self.waiting[core] == Waiting::Region {
            // It polls after its pause.
            let next = self.cores[core].clock + 1;
            self.spin(core, next);
        }
        let clock = self.cores[core].clock;
        self.waiting[core] = Waiting::Over;
        self.clocks.set(core, clock);
        self.others = self.others.min(clock);
        self.horizon = self.horizon.min(clock.saturating_add(1));
    }

    /// Wakes the threads whose lines were lost.
    pub(super) fn wake_losers(&mut self) {
        for core in CoreId::in_set(self.caches.take_lost()) {
            self.wake(core, self.seen_from);
        }
    }
}
