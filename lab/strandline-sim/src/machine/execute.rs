//! The effect and the cost of each operation.

use super::*;

impl State {
    /// Performs an operation of a thread that is furthest behind.
    pub(super) fn execute(&mut self, core: CoreId, operation: Operation) -> Outcome {
        match operation {
            Operation::Load(space, offset) => {
                let (line, word) = self.place(space, offset);
                self.cores[core].charge_access();
                Done(self.load(core, line, word, false))
            }
            Operation::Store(space, offset, value) => {
                let (line, word) = self.place(space, offset);
                self.store(core, QueuedKind::Store, line, word, value)
            }
            Operation::StoreNonTemporal(offset, value) => {
                let (line, word) = self.place(Space::Persistent, offset);
                self.store(core, QueuedKind::NonTemporal, line, word, value)
            }
            Operation::WriteBack(offset, _) => {
                if self.description.persistence.domain == PersistenceDomain::FlushOnFail {
                    return Done(0);
                }
                let (line, _) = self.place(Space::Persistent, offset);
                self.cores[core].begin_flush();
                let outcome = self.store(core, QueuedKind::WriteBack, line, 0, 0);
                if let Done(_) = outcome {
                    self.cores[core].end_flush();
                }
                outcome
            }
            Operation::CompareExchange(space, offset, current, new) => {
                self.atomic(core, space, offset, |old| (old == current).then_some(new))
            }
            Operation::FetchAdd(space, offset, by) => {
                self.atomic(core, space, offset, |old| Some(old.wrapping_add(by)))
            }
            Operation::Fence(_) => self.fence(core),
            Operation::WriteBackAll(_) => self.write_back_all(core),
            Operation::Pause => {
                let cycles = self.description.cores.pause_cycles;
                self.cores[core].clock += cycles;
                self.cores[core].statistics.stalls.pause += cycles;
                Done(0)
            }
            Operation::Event(event) => self.event(core, event),
            Operation::Work(instructions) => {
                self.cores[core].charge(u64::from(instructions));
                Done(0)
            }
        }
    }

    /// Loads a word. In a range the core waits at the range's end, not for each load.
    fn load(&mut self, number: CoreId, line: LineNumber, word: u8, in_range: bool) -> u64 {
        let core = &mut self.cores[number];
        core.statistics.loads += 1;
        if let Some(notes) = &mut self.notes
            && !self.hint
        {
            notes.load(number, core.clock, line, word);
        }
        if let Some(stores) = &core.stores
            && !stores.is_issued()
            && let Some(value) = stores.forward(line, word)
        {
            core.statistics.forwarded += 1;
            core.clock += self.description.caches[0].latency;
            return value;
        }
        if !core.combining.is_empty() {
            self.flush_combining(number, Some(line));
        }
        let overlaps = match self.cores[number].overlap {
            LoadOverlap::None => false,
            LoadOverlap::Range => in_range,
            LoadOverlap::All => true,
        };
        if overlaps {
            self.cores[number].enter_reorder_buffer();
        }
        let now = self.cores[number].clock;
        let access = self.caches.access(number, line, false, now, &mut self.scheme);
        if let Some(scheme) = &mut self.scheme {
            scheme.accessed(number, line, false);
        }
        let value = self.caches.first(number).data[access.entry].0[usize::from(word)];
        let core = &mut self.cores[number];
        if overlaps {
            core.load_in_flight(access.done);
        } else {
            core.statistics.stalls.load += access.done - now - self.description.caches[0].latency;
            core.clock = access.done;
        }
        value
    }

    /// Loads consecutive words.
    pub(super) fn load_range(&mut self, core: CoreId, space: Space, offset: u64, into: &mut [u64]) {
        for (i, value) in into.iter_mut().enumerate() {
            let (line, word) = self.place(space, offset + 8 * i as u64);
            if i == 0 {
                self.cores[core].charge_access();
            } else {
                self.cores[core].charge_word();
            }
            self.cores[core].charge_copied();
            *value = self.load(core, line, word, true);
        }
        if self.cores[core].overlap == LoadOverlap::Range {
            self.cores[core].retire_loads();
        }
    }

    /// Loads or stores consecutive words of the thread's own memory. They hit the first level, since they are used often enough to stay there.
    pub(super) fn own_memory(&mut self, number: CoreId, is_store: bool, words: u64) {
        let core = &mut self.cores[number];
        core.charge_access();
        (1..words).for_each(|_| core.charge_word());
        let look_ups = match (is_store, &core.stores, core.overlap) {
            (true, Some(_), _) => 0,
            (true, None, _) | (false, _, LoadOverlap::None) => words,
            (false, _, LoadOverlap::Range | LoadOverlap::All) => 1,
        };
        core.clock += look_ups * self.description.caches[0].latency;
        let counter = if is_store { &mut core.statistics.stores } else { &mut core.statistics.loads };
        *counter += words;
        self.caches.first(number).statistics.hits += words;
    }

    /// Performs a store, a non-temporal store or a write-back: through the queue, or immediately if there is none.
    fn store(&mut self, number: CoreId, kind: QueuedKind, line: LineNumber, word: u8, value: u64) -> Outcome {
        let core = &mut self.cores[number];
        if !core.again {
            if self.in_range {
                core.charge_word();
            } else {
                core.charge_access();
            }
            core.again = true;
            // Here a narrow store is atomic with its whole word, so that less can be torn than on a real machine.
            core.parts_left = match kind {
                QueuedKind::Store if line < self.volatile_line => core.parts,
                _ => 1,
            };
            match self.copies {
                true => core.charge_copied(),
                false => core.charge(core.parts_left - 1),
            }
            if let Some(notes) = &mut self.notes
                && kind.stores()
            {
                (0..core.parts_left).for_each(|_| notes.store(number, core.clock, line, word, value));
            }
        }
        let Some(stores) = &mut core.stores else {
            let now = core.clock;
            let done = match self.put(number, kind, line, word, value, now) {
                Reply::Go(done) => done,
                Reply::Wait(until) if kind == QueuedKind::WriteBack => {
                    let core = &mut self.cores[number];
                    let until = until.max(now + 1);
                    core.statistics.stalls.store += until - now;
                    core.clock = until;
                    return Postponed;
                }
                Reply::Wait(until) => return self.wait_for_scheme(number, until),
            };
            let core = &mut self.cores[number];
            core.statistics.stalls.store += (done - now).saturating_sub(self.description.caches[0].latency);
            core.clock = done;
            self.count_store(number, kind);
            return self.end_part(number);
        };
        let occupancy = stores.occupancy(core.clock);
        if stores.is_full() {
            let until = stores.head_done().unwrap_or_else(|| stores.next_issue()).max(core.clock);
            core.statistics.stalls.store_queue_full += until - core.clock;
            core.clock = until;
            return Postponed;
        }
        core.statistics.store_queue_occupancy.add(occupancy as u64);
        stores.push(Queued { kind, line, word, value, retired: core.clock, done: Cycle::ZERO });
        let next = stores.next_issue();
        self.caches.prefetch(number, line);
        self.issues_at.set(number, next);
        self.horizon = self.horizon.min(next);
        self.count_store(number, kind);
        self.end_part(number)
    }

    /// Ends the store of one part of a word. The next part follows when everything else has caught up.
    fn end_part(&mut self, number: CoreId) -> Outcome {
        let core = &mut self.cores[number];
        core.parts_left -= 1;
        if core.parts_left == 0 { Done(0) } else { Postponed }
    }

    fn count_store(&mut self, core: CoreId, kind: QueuedKind) {
        let statistics = &mut self.cores[core].statistics;
        match kind {
            QueuedKind::Store => statistics.stores += 1,
            QueuedKind::NonTemporal => statistics.non_temporal += 1,
            QueuedKind::WriteBack => statistics.write_backs += 1,
            QueuedKind::Order(_) => {}
        }
    }

    /// Lets the next entry of a store queue reach the first level.
    pub(super) fn issue_store(&mut self, core: CoreId, at: Cycle) {
        let Some(stores) = &self.cores[core].stores else { return };
        let entry = stores.next();
        let reply = self.put(core, entry.kind, entry.line, entry.word, entry.value, at);
        let (Some(stores), reply) = (&mut self.cores[core].stores, reply) else { return };
        match reply {
            Reply::Go(done) => stores.issue(at, done),
            Reply::Wait(until) => stores.delay(until.max(at + 1)),
        }
        let next = stores.next_issue();
        let line = stores.next().line;
        if next != Cycle::NEVER && self.caches.first(core).find(line).is_none() {
            self.caches.prefetch_entries(core, line);
        }
        self.issues_at.set(core, next);
    }

    /// Makes a store take effect at `now`. Returns when it is complete.
    fn put(
        &mut self,
        core: CoreId,
        kind: QueuedKind,
        line: LineNumber,
        word: u8,
        value: u64,
        now: Cycle,
    ) -> Reply {
        match kind {
            QueuedKind::Store => {
                if !self.cores[core].combining.is_empty() {
                    self.flush_combining(core, Some(line));
                }
                let access = self.caches.access(core, line, true, now, &mut self.scheme);
                let mut done = access.done;
                if let Some(scheme) = &mut self.scheme {
                    let stored = StoredWord { line, word, value };
                    scheme.accessed(core, line, true);
                    let reply = scheme.store(&mut self.caches, core, stored, access.entry, done);
                    match reply {
                        Reply::Go(at) => done = at,
                        Reply::Wait(_) => return reply,
                    }
                }
                let first = self.caches.first(core);
                first.data[access.entry].0[usize::from(word)] = value;
                first.states[access.entry].flags |= DIRTY;
                if let Some(notes) = &mut self.notes {
                    notes.seen(core, line);
                }
                self.caches.settle_pending(done, &mut self.scheme);
                Reply::Go(done)
            }
            QueuedKind::NonTemporal => {
                if let Some(notes) = &mut self.notes {
                    notes.seen(core, line);
                }
                let buffers = self.description.cores.write_combining_buffers;
                let mut wait = 0;
                if let Some(full) = self.cores[core].combine(line, word, value, buffers) {
                    self.cores[core].streamed += 1;
                    self.caches.memory.take_queue_wait();
                    self.caches.write_past(core, full.line, &full.data, full.mask, now, &mut self.scheme);
                    wait = self.caches.memory.take_queue_wait();
                }
                Reply::Go(now + 1 + wait)
            }
            QueuedKind::Order(ordering) => {
                if let Some(scheme) = &mut self.scheme {
                    scheme.orders(core, ordering, now);
                }
                Reply::Go(now)
            }
            QueuedKind::WriteBack => {
                if std::mem::take(&mut self.cores[core].write_back_sent) {
                    return self.written_back(core, line, now);
                }
                if !self.cores[core].combining.is_empty() {
                    self.flush_combining(core, Some(line));
                }
                let evict = self.description.persistence.write_back != WriteBackKind::Clwb;
                self.caches.memory.take_queue_wait();
                let accepted =
                    self.caches.write_back(core, line, evict, now, Origin::ForcedWriteBack, &mut self.scheme);
                let wait = self.caches.memory.take_queue_wait();
                match self.description.persistence.completes() {
                    WriteBackCompletes::Issued => Reply::Go(now + 1 + wait),
                    WriteBackCompletes::Accepted => Reply::Go(accepted),
                    WriteBackCompletes::Durable => self.written_back(core, line, accepted),
                }
            }
        }
    }

    /// Completes a sent write-back, at `now` or later, when its line is in the persistence domain.
    fn written_back(&mut self, core: CoreId, line: LineNumber, now: Cycle) -> Reply {
        match self.caches.memory.durable_at(line, now) {
            None => Reply::Go(now),
            Some(again) => {
                self.cores[core].write_back_sent = true;
                Reply::Wait(again)
            }
        }
    }

    /// Sends non-temporal stores: those of one line, or all.
    pub(super) fn flush_combining(&mut self, core: CoreId, line: Option<LineNumber>) {
        let mut at = 0;
        while at < self.cores[core].combining.len() {
            let buffer = self.cores[core].combining[at];
            if line.is_some_and(|line| line != buffer.line) {
                at += 1;
                continue;
            }
            self.cores[core].combining.remove(at);
            self.cores[core].streamed += 1;
            let now = self.cores[core].clock;
            self.caches.write_past(core, buffer.line, &buffer.data, buffer.mask, now, &mut self.scheme);
        }
    }

    /// Waits until all loads and stores are complete. The cycles count as `stall`.
    pub(super) fn drain(&mut self, number: CoreId) -> Result<(), u64> {
        let core = &mut self.cores[number];
        if core.overlap == LoadOverlap::All {
            core.retire_loads();
        }
        let Some(stores) = &core.stores else { return Ok(()) };
        let until = if stores.is_issued() { stores.last_done() } else { stores.next_issue() };
        if stores.is_issued() && until <= core.clock {
            return Ok(());
        }
        let stall = until.since(core.clock);
        core.clock = core.clock.max(until);
        Err(stall)
    }

    fn atomic(
        &mut self,
        number: CoreId,
        space: Space,
        offset: u64,
        new: impl FnOnce(u64) -> Option<u64>,
    ) -> Outcome {
        let (line, word) = self.place(space, offset);
        if !self.cores[number].again {
            self.cores[number].charge_access();
            self.cores[number].again = true;
        }
        if let Err(stall) = self.drain(number) {
            self.cores[number].statistics.stalls.atomic_drain += stall;
            return Postponed;
        }
        self.flush_combining(number, None);
        let now = self.cores[number].clock;
        let access = self.caches.access(number, line, true, now, &mut self.scheme);
        if let Some(scheme) = &mut self.scheme {
            scheme.accessed(number, line, true);
        }
        if let Some(notes) = &mut self.notes {
            notes.load(number, now, line, word);
        }
        let first = self.caches.first(number);
        let old = first.data[access.entry].0[usize::from(word)];
        if let Some(new) = new(old) {
            if let Some(notes) = &mut self.notes {
                notes.store(number, now, line, word, new);
                notes.seen(number, line);
            }
            first.data[access.entry].0[usize::from(word)] = new;
            first.states[access.entry].flags |= DIRTY;
        }
        let core = &mut self.cores[number];
        core.statistics.atomics += 1;
        core.statistics.stalls.load += access.done - now - self.description.caches[0].latency;
        core.clock = access.done + self.description.cores.fence_cycles;
        Done(old)
    }

    /// Waits until this thread's stores have drained and its write-backs are in the persistence domain.
    fn fence(&mut self, number: CoreId) -> Outcome {
        if !self.cores[number].again {
            self.cores[number].charge_access();
            self.cores[number].again = true;
        }
        if let Err(stall) = self.drain(number) {
            self.cores[number].statistics.stalls.fence_drain += stall;
            return Postponed;
        }
        if !self.persisted(number) {
            return Postponed;
        }
        if let Err(until) = self.boundary(number, Boundary::Flush) {
            return self.wait_for_scheme(number, until);
        }
        let core = &mut self.cores[number];
        core.committing = false;
        core.statistics.fences += 1;
        core.clock += self.description.cores.fence_cycles;
        let streamed = std::mem::take(&mut core.streamed);
        core.delay_flushes(streamed);
        Done(0)
    }

    pub(super) fn persisted(&mut self, number: CoreId) -> bool {
        self.flush_combining(number, None);
        let now = self.cores[number].clock;
        if !self.cores[number].committing {
            self.cores[number].committing = true;
            self.caches.memory.pcommit(number, now);
        }
        let next = self.caches.memory.advance(now);
        let wait = self.caches.memory.waits[number];
        let core = &mut self.cores[number];
        // A write that has not begun can begin no earlier than the next event.
        let until = if wait.unresolved > 0 { next.max(now) + 1 } else { wait.until };
        if until <= now {
            return true;
        }
        core.statistics.stalls.fence_persist += until - now;
        core.clock = until;
        // The remaining time is known, and nothing can change it.
        wait.unresolved == 0
    }

    /// Performs wbinvd: line by line through all caches, as fast as the memory accepts.
    fn write_back_all(&mut self, number: CoreId) -> Outcome {
        if !self.cores[number].again {
            self.cores[number].charge_access();
            self.cores[number].again = true;
            self.cores[number].cursor = 0;
        }
        if let Err(stall) = self.drain(number) {
            self.cores[number].statistics.stalls.atomic_drain += stall;
            return Postponed;
        }
        self.flush_combining(number, None);
        let limit = self.description.controllers.match_latency;
        loop {
            let now = self.cores[number].clock;
            if now >= self.horizon && !self.catch_up(number) {
                return Postponed;
            }
            let Some((place, line)) = self.caches.next_line(self.cores[number].cursor) else {
                self.caches.memory.wait_for_all(number, now);
                // It counts as one flush, however many lines there are.
                self.cores[number].delay_flushes(1);
                return Done(1);
            };
            self.cores[number].cursor = place;
            if let Some(accepted) = self.caches.flush_line(number, line, now, &mut self.scheme) {
                let core = &mut self.cores[number];
                let next = accepted.before(limit).max(now + 1);
                core.statistics.stalls.write_back_all += next - now;
                core.clock = next;
            }
            self.wake_losers();
        }
    }

    fn event(&mut self, number: CoreId, event: Event) -> Outcome {
        let ordering = match event {
            Event::PersistBarrier(_) => Some(Ordering::Barrier),
            Event::NewStrand(_) => Some(Ordering::Strand),
            _ => None,
        };
        if let Some(ordering) = ordering
            && self.scheme.is_some()
            && let Postponed = self.store(number, QueuedKind::Order(ordering), LineNumber::default(), 0, 0)
        {
            return Postponed;
        }
        let boundary = match event {
            Event::Begin => Some(Boundary::Begin),
            Event::Commit(transaction) => Some(Boundary::Commit(transaction)),
            Event::Abort => Some(Boundary::Abort),
            _ => None,
        };
        // A long commit may be durable before it is over, so it is announced when it begins.
        let commits = matches!(boundary, Some(Boundary::Commit(_)));
        if commits && !self.cores[number].again {
            self.cores[number].again = true;
            self.announce(number, event);
        }
        if let Some(boundary) = boundary
            && self.scheme.is_some()
        {
            if self.drain(number).is_err() {
                return Postponed;
            }
            if let Err(until) = self.boundary(number, boundary) {
                return self.wait_for_scheme(number, until);
            }
        }
        if !commits {
            self.announce(number, event);
        }
        Done(0)
    }

    fn announce(&mut self, core: CoreId, event: Event) {
        let at = self.cores[core].clock;
        let thread =
            self.scheduler.as_ref().and_then(|scheduler| scheduler.thread(core)).unwrap_or(core.index());
        if let Some(events) = &mut self.events {
            events.push(Announced { at, thread, event });
        }
        if let Some(notes) = &mut self.notes {
            notes.event(thread, at, event);
        }
    }

    /// Informs the hardware scheme, if there is one. Returns an error with the time to try again if the core must wait.
    fn boundary(&mut self, number: CoreId, boundary: Boundary) -> Result<(), Cycle> {
        let Some(scheme) = &mut self.scheme else { return Ok(()) };
        let now = self.cores[number].clock;
        let reply = scheme.boundary(&mut self.caches, number, boundary, now);
        self.caches.settle_pending(now, &mut self.scheme);
        match reply {
            Reply::Wait(until) => Err(until),
            Reply::Go(at) => {
                self.cores[number].statistics.stalls.scheme += at.since(now);
                self.cores[number].clock = at.max(now);
                Ok(())
            }
        }
    }

    fn wait_for_scheme(&mut self, number: CoreId, until: Cycle) -> Outcome {
        let core = &mut self.cores[number];
        let until = until.max(core.clock + 1);
        core.statistics.stalls.scheme += until - core.clock;
        core.clock = until;
        Postponed
    }
}
