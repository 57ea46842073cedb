//! The machine as the world of its threads: each operation takes its time, or is postponed until it is the thread's turn.

use super::*;

/// The steps that a software log omits if its home copies stay in the caches.
const HOME_STEPS: [Step; 4] =
    [Step::HomeWriteBack, Step::HomeFence, Step::TruncationWriteBack, Step::TruncationFence];

impl Machine {
    /// Returns the core of a thread that wants to perform an operation; `None` postpones the operation because the thread has lost its core.
    fn core_of(&self, state: &mut State, thread: usize) -> Option<CoreId> {
        let core = state.on_core(thread);
        if core.is_none() {
            self.postponed.set(true);
        }
        core
    }
}

impl World for Machine {
    fn perform(&self, thread: usize, operation: Operation) -> u64 {
        let state = &mut *self.state.borrow_mut();
        if state.is_functional() {
            return state.perform_functionally(operation);
        }
        if operation == Operation::Pause && state.gives_up(thread) {
            self.postponed.set(state.wait_without_core(thread).is_none());
            return 0;
        }
        let Some(core) = self.core_of(state, thread) else { return 0 };
        if operation == Operation::Pause && state.waiting[core] == Waiting::Over {
            state.waiting[core] = Waiting::No;
            return 0;
        }
        if let Some(value) = state.perform(thread, core, operation) {
            if operation != Operation::Pause || state.waiting[core] != Waiting::Region {
                return value;
            }
            // The thread is suspended until the region begins.
        } else {
            state.clocks.set(core, state.cores[core].clock);
            state.prefetch(core, operation);
        }
        self.postponed.set(true);
        0
    }

    /// Spins with loads and pauses. While the word's line stays in the first level, an iteration affects only the core's own time, so the iterations
    /// are accounted for when the line is lost.
    fn wait(&self, thread: usize, offset: u64, value: u64) {
        let state = &mut *self.state.borrow_mut();
        if state.is_functional() {
            return;
        }
        if state.scheduler.is_some() {
            self.postponed.set(state.block(thread, Why::Word(offset), value, u64::MAX).is_none());
            return;
        }
        let core = CoreId::new(thread);
        if state.waiting[core] == Waiting::Over {
            state.waiting[core] = Waiting::No;
            return;
        }
        if state.perform(thread, core, Operation::Pause).is_none() {
            state.clocks.set(core, state.cores[core].clock);
            self.postponed.set(true);
        } else if state.can_watch(core, offset, value) {
            state.waiting[core] = Waiting::Latch;
            self.postponed.set(true);
        }
    }

    /// Waits like a futex if threads share cores; elsewhere spinning costs nothing.
    fn wait_briefly(&self, thread: usize, offset: u64, value: u64, nanoseconds: u64) -> bool {
        {
            let state = &mut *self.state.borrow_mut();
            if state.scheduler.is_some() && !state.is_functional() {
                let cycles = state.description.cycles(nanoseconds as f64);
                let waited = state.block(thread, Why::Word(offset), value, cycles);
                self.postponed.set(waited.is_none());
                return waited == Some(true);
            }
        }
        self.wait(thread, offset, value);
        false
    }

    /// Does nothing if each thread has a core, because no thread sleeps then.
    fn wake(&self, thread: usize, offset: u64) {
        let state = &mut *self.state.borrow_mut();
        if state.scheduler.is_some() && !state.is_functional() {
            self.postponed.set(!state.wake_word(thread, offset));
        }
    }

    fn peek(&self, thread: usize, space: Space, offset: u64) -> u64 {
        self.state.borrow_mut().hint = true;
        let value = self.perform(thread, Operation::Load(space, offset));
        self.state.borrow_mut().hint = false;
        value
    }

    /// Costs nothing and moves nothing: only the simulated software needs it.
    fn load_before_store(&self, thread: usize, space: Space, offset: u64) -> u64 {
        let state = &mut *self.state.borrow_mut();
        if state.is_functional() {
            return state.perform_functionally(Operation::Load(space, offset));
        }
        let Some(core) = self.core_of(state, thread) else { return 0 };
        if state.may_run(core) {
            let (line, word) = state.place(space, offset);
            let waiting = state.cores[core].stores.as_ref().and_then(|stores| stores.forward(line, word));
            return waiting.unwrap_or_else(|| state.newest(line)[usize::from(word)]);
        }
        state.clocks.set(core, state.cores[core].clock);
        self.postponed.set(true);
        0
    }

    /// Numbers a transaction with a hardware counter that continues from the word's value.
    fn number_transaction(&self, thread: usize, offset: u64) -> u64 {
        let state = &mut *self.state.borrow_mut();
        if state.is_functional() {
            return state.perform_functionally(Operation::FetchAdd(Space::Volatile, offset, 1)) + 1;
        }
        let Some(core) = self.core_of(state, thread) else { return 0 };
        if !state.may_run(core) {
            state.clocks.set(core, state.cores[core].clock);
            self.postponed.set(true);
            return 0;
        }
        let (line, word) = state.place(Space::Volatile, offset);
        let last = state.transaction.unwrap_or_else(|| state.newest(line)[usize::from(word)]);
        *state.transaction.insert(last + 1)
    }

    fn takes_stores_back(&self) -> bool {
        self.state.borrow().scheme.as_ref().is_some_and(|scheme| scheme.takes_stores_back())
    }

    fn load_range(&self, thread: usize, space: Space, offset: u64, into: &mut [u64]) {
        let state = &mut *self.state.borrow_mut();
        if state.is_functional() {
            for (i, word) in into.iter_mut().enumerate() {
                *word = state.perform_functionally(Operation::Load(space, offset + 8 * i as u64));
            }
            return;
        }
        let Some(core) = self.core_of(state, thread) else { return };
        if state.may_run(core) {
            state.load_range(core, space, offset, into);
            state.wake_losers();
            if let Some(tape) = &mut state.tape {
                tape(thread, Taped::LoadRange(space, offset, into.len()));
            }
        } else {
            state.clocks.set(core, state.cores[core].clock);
            self.postponed.set(true);
        }
    }

    fn own_memory(&self, thread: usize, is_store: bool, words: u64) {
        let state = &mut *self.state.borrow_mut();
        if state.is_functional() {
            return;
        }
        let Some(core) = self.core_of(state, thread) else { return };
        if state.may_run(core) {
            state.own_memory(core, is_store, words);
            if let Some(tape) = &mut state.tape {
                tape(thread, Taped::OwnMemory(is_store, words));
            }
        } else {
            state.clocks.set(core, state.cores[core].clock);
            self.postponed.set(true);
        }
    }

    fn store_range(&self, thread: usize, space: Space, offset: u64, from: &[u64], done: usize) -> usize {
        let state = &mut *self.state.borrow_mut();
        for (i, &value) in from.iter().enumerate().skip(done) {
            let store = Operation::Store(space, offset + 8 * i as u64, value);
            if state.is_functional() {
                state.perform_functionally(store);
                continue;
            }
            let Some(core) = self.core_of(state, thread) else { return i };
            // The tape gets the range as a whole.
            let tape = state.tape.take();
            (state.in_range, state.copies) = (i > 0, true);
            let stored = state.perform(thread, core, store);
            (state.in_range, state.copies) = (false, false);
            state.tape = tape;
            if stored.is_none() {
                state.clocks.set(core, state.cores[core].clock);
                self.postponed.set(true);
                return i;
            }
        }
        if let Some(tape) = &mut state.tape
            && !state.functional
        {
            tape(thread, Taped::StoreRange(space, offset, from.len()));
        }
        from.len()
    }

    fn postponed(&self, _: usize) -> bool {
        self.postponed.replace(false)
    }

    fn switches(&self, _: usize) -> bool {
        false
    }

    fn omitted(&self, step: Step) -> bool {
        self.omitted == Some(step) || self.home_stays_cached.get() && HOME_STEPS.contains(&step)
    }

    fn size(&self, space: Space) -> u64 {
        match space {
            Space::Persistent => self.persistent_bytes,
            Space::Volatile => self.volatile_bytes,
        }
    }
}
