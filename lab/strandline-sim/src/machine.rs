//! The machine as a [`World`]: threads in simulated time.
//!
//! The machine always advances the part that is furthest behind: a thread, a store queue's next entry, or the hardware scheme's engine. An operation
//! that comes too early, or must wait, is postponed: its coroutine is suspended, and the operation is performed again later. So interleaving, and
//! with it every result, depends only on the machine, the program and its seed.

mod earliest;
mod notes;
mod scheduler;
mod waiting;
mod world;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use strandline_core::memory::coroutines::{self, Thread};
use strandline_core::memory::{Event, Hosted, Memory, Operation, Space, Step, World};

use crate::addresses::Addresses;
use crate::cache::{DIRTY, Hierarchy};
use crate::controller::{Line, MemorySide, Regions};
use crate::core::{Core, Queued, QueuedKind, StoreQueue};
use crate::description::{
    Description, Impossible, LoadOverlap, PersistenceDomain, WriteBackCompletes, WriteBackKind,
};
use crate::instructions::{Instructions, beyond_counted};
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::scheme::{Boundary, HardwareScheme, Ordering, Reply, StoredWord};
use crate::statistics::{Energy, Origin, Statistics};
use earliest::Earliest;
use notes::Notes;
pub use notes::{Note, Noted};
use scheduler::{Scheduler, Why};
use waiting::Waiting;

/// An event that a thread announced, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The cycle in which it happened.
    pub at: Cycle,
    /// The hardware thread, from 0.
    pub thread: usize,
    /// The event.
    pub event: Event,
}

/// The state that a power failure at a cycle leaves.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The cycle in which it happened.
    pub at: Cycle,
    /// The pool's words, followed by those reserved for the hardware scheme.
    pub image: Vec<u64>,
    /// The number of events that had been announced before it.
    pub events: usize,
    /// The number of notes that had been made before it.
    pub notes: usize,
    /// The TxID up to which the hardware scheme has acknowledged transactions, if the scheme acknowledges them itself.
    pub acknowledged: Option<u64>,
}

/// An entry of a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taped {
    /// An operation of waist 2 on one word or line.
    Operation(Operation),
    /// Loads of so many consecutive words.
    LoadRange(Space, u64, usize),
    /// Stores of so many consecutive words.
    StoreRange(Space, u64, usize),
    /// Loads, or stores if the flag is set, of so many words of the thread's own memory.
    OwnMemory(bool, u64),
}

/// Receives what each thread has done.
pub type Tape = Box<dyn FnMut(usize, Taped)>;

/// Receives each crash.
type OnCrash = Box<dyn FnMut(Crash)>;

/// The initial contents of memory.
pub struct Contents {
    /// The pool's words, all on the medium.
    pub persistent: Vec<u64>,
    /// Bytes of zeroed volatile words.
    pub volatile_bytes: u64,
    /// The location of logs and metadata, for the statistics.
    pub regions: Regions,
}

/// A simulated machine with its threads, at some point of a run.
pub struct Machine {
    state: RefCell<State>,
    postponed: Cell<bool>,
    omitted: Option<Step>,
    /// [`HomeCopies::Cached`](crate::description::HomeCopies).
    home_stays_cached: Cell<bool>,
    persistent_bytes: u64,
    volatile_bytes: u64,
}

struct State {
    caches: Hierarchy,
    /// The hardware scheme, if there is one. The caches call it through a port, and the machine calls it directly.
    scheme: Option<Box<dyn HardwareScheme>>,
    cores: Vec<Core>,
    description: Description,
    volatile_line: LineNumber,
    /// True if operations only change contents and take no time, as during set-up.
    functional: bool,
    current: CoreId,
    /// The clock of each suspended thread; [`Cycle::NEVER`] for the current one and for those that have ended.
    clocks: Earliest,
    /// The least of the suspended threads' clocks.
    others: Cycle,
    /// The condition that each thread waits for.
    waiting: Vec<Waiting>,
    /// The assignment of cores to threads, if there are more threads than cores. Otherwise each thread has the core of its number.
    scheduler: Option<Scheduler>,
    /// When each core's store queue issues its next entry.
    issues_at: Earliest,
    /// The cycle from which a spinning thread sees the present operation's effect. At equal times store queues and engines act first, then spinning
    /// threads.
    seen_from: Cycle,
    /// The line that each core's postponed operation misses, if any.
    missing: Vec<Option<LineNumber>>,
    /// The cycle up to which the current thread may continue without checking the others.
    horizon: Cycle,
    crashes_at: std::collections::VecDeque<Cycle>,
    crashes: Vec<Crash>,
    on_crash: Option<OnCrash>,
    events: Option<Vec<Announced>>,
    notes: Option<Box<Notes>>,
    tape: Option<Tape>,
    /// True if the running load is a hint, which is hidden from judges.
    hint: bool,
    /// True if the running store is to a further word of a range.
    in_range: bool,
    /// True if the running store is to a word of a range that is copied.
    copies: bool,
    /// The hardware's number of the last numbered transaction.
    transaction: Option<u64>,
    /// The cycle beyond which threads must not run.
    limit: Cycle,
    /// A flag with which the run can be ended from outside.
    stop: Option<&'static AtomicBool>,
    began: Cycle,
    accesses_before: u64,
}

/// The result of an attempt to perform an operation.
enum Outcome {
    Done(u64),
    Postponed,
}
use Outcome::{Done, Postponed};

impl Machine {
    /// Creates the machine that `description` describes, in functional mode: no time passes and nothing is cached until [`Machine::run`].
    ///
    /// # Errors
    /// Returns an error if the description is impossible.
    pub fn new(
        description: &Description,
        contents: Contents,
        scheme: Option<Box<dyn HardwareScheme>>,
        omitted: Option<Step>,
    ) -> Result<Self, Impossible> {
        description.validate()?;
        let Contents { persistent, volatile_bytes, regions } = contents;
        let persistent_bytes = 8 * persistent.len() as u64;
        let reserved = scheme.as_ref().map_or(0, |scheme| scheme.reserved_bytes());
        let memory = MemorySide::new(description, persistent, reserved, volatile_bytes, regions);
        let volatile_line = memory.persistent_end();
        let caches = Hierarchy::new(description, memory);
        let state = State {
            caches,
            scheme,
            cores: (0..description.cores.count).map(|_| Core::new(description)).collect(),
            description: description.clone(),
            volatile_line,
            functional: true,
            current: CoreId::default(),
            clocks: Earliest::new(description.cores.count),
            others: Cycle::NEVER,
            waiting: vec![Waiting::No; description.cores.count],
            scheduler: None,
            issues_at: Earliest::new(description.cores.count),
            seen_from: Cycle::ZERO,
            missing: vec![None; description.cores.count],
            horizon: Cycle::ZERO,
            crashes_at: Default::default(),
            crashes: Vec::new(),
            on_crash: None,
            events: None,
            notes: None,
            tape: None,
            hint: false,
            in_range: false,
            copies: false,
            transaction: None,
            limit: Cycle::NEVER,
            stop: None,
            began: Cycle::ZERO,
            accesses_before: 0,
        };
        Ok(Self {
            state: RefCell::new(state),
            postponed: Cell::new(false),
            omitted,
            home_stays_cached: Cell::new(false),
            persistent_bytes,
            volatile_bytes,
        })
    }

    /// Sets the first words reserved for the hardware scheme, which an earlier life's recovery has left, instead of zeros. Must be called before
    /// anything runs.
    pub fn begin_with_reserved(&self, words: &[u64]) {
        self.state.borrow_mut().caches.memory.set_reserved(words);
    }

    /// Places the pages of the pool and of volatile memory at these page numbers of the program's address space, by which caches and memory
    /// controllers map their lines. Must be called before anything runs.
    pub fn place_pages(&self, pool: &[u64], volatile: &[u64]) {
        let state = &mut *self.state.borrow_mut();
        let pool_end = state.caches.memory.pool_end();
        let addresses = Addresses::of_pages(pool, volatile, pool_end, state.volatile_line);
        state.caches.set_addresses(&addresses);
    }

    /// Records what threads announce from now on.
    pub fn record_events(&self) {
        self.state.borrow_mut().events = Some(Vec::new());
    }

    /// Takes the announced events.
    pub fn take_events(&self) -> Vec<Announced> {
        self.state.borrow_mut().events.take().unwrap_or_default()
    }

    /// Takes the notes.
    pub fn take_notes(&self) -> Vec<Note> {
        self.state.borrow_mut().notes.take().map(|notes| notes.list).unwrap_or_default()
    }

    /// Notes from now on what threads do to the pool, and which store each load sees.
    pub fn record_notes(&self) {
        let state = &mut *self.state.borrow_mut();
        let (words, cores) = (state.volatile_line.first_word(), state.cores.len());
        state.notes = Some(Box::new(Notes::new(words, cores)));
    }

    /// Passes `tape` each operation that a thread performs in simulated time from now on.
    pub fn record(&self, tape: Tape) {
        self.state.borrow_mut().tape = Some(tape);
    }

    /// Records from now on the cycles at which memory accepts a write or completes it on the medium. The state that power failures leave changes
    /// there.
    pub fn record_write_times(&self) {
        self.state.borrow_mut().caches.memory.record_times();
    }

    /// Takes the recorded cycles, in no order.
    pub fn take_write_times(&self) -> Vec<Cycle> {
        self.state.borrow_mut().caches.memory.take_times()
    }

    /// Makes a run panic if a thread reaches this cycle, as an endless run would.
    pub fn limit(&self, cycle: Cycle) {
        self.state.borrow_mut().limit = cycle;
    }

    /// Lets workloads end before their transactions are complete when this becomes true.
    pub fn stop_when(&self, stop: &'static AtomicBool) {
        self.state.borrow_mut().stop = Some(stop);
    }

    /// Returns whether workloads should end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.borrow().stop.is_some_and(|stop| stop.load(Relaxed))
    }

    /// Passes each crash to `then` instead of keeping it.
    pub fn on_crash(&self, then: impl FnMut(Crash) + 'static) {
        self.state.borrow_mut().on_crash = Some(Box::new(then));
    }

    /// Makes power fail at these cycles: each leaves a [`Crash`], and the run continues.
    pub fn crash_at(&self, mut cycles: Vec<Cycle>) {
        cycles.sort_unstable();
        self.state.borrow_mut().crashes_at = cycles.into();
    }

    /// Takes the crashes so far.
    pub fn take_crashes(&self) -> Vec<Crash> {
        std::mem::take(&mut self.state.borrow_mut().crashes)
    }

    /// Runs `threads` in simulated time until all have returned and all stores have drained. Each has a core; if there are more threads than cores,
    /// they take turns.
    ///
    /// # Panics
    /// Panics if there are more threads than cores and either no time slices, or hardware that tracks cores. Panics if a thread panics.
    pub fn run(self: &Rc<Self>, threads: Vec<Thread<'_>>) {
        {
            let state = &mut *self.state.borrow_mut();
            let cores = state.cores.len();
            state.functional = false;
            state.scheduler = None;
            for core in CoreId::first(threads.len().min(cores)) {
                state.clocks.set(core, state.cores[core].clock);
            }
            if threads.len() > cores {
                assert!(state.shares_cores(), "the machine has {cores} cores");
                let slices = state.description.time_slices.unwrap_or_default();
                let at = state.cores.iter().map(|core| core.clock).max().unwrap_or_default();
                state.scheduler = Some(Scheduler::new(slices, &state.description, threads.len(), at));
            }
        }
        let world: Rc<dyn World> = self.clone();
        coroutines::run(&world, threads, |running| self.state.borrow_mut().choose(running));
        self.state.borrow_mut().finish();
    }

    /// Puts these lines of the pool, and then all volatile ones, into the shared cache levels in this order, without taking time.
    pub fn fill_last_level(&self, lines: impl IntoIterator<Item = LineNumber>) {
        let state = &mut *self.state.borrow_mut();
        let all = LineNumber::new(state.caches.memory.lines() as u32);
        for line in lines.into_iter().chain(LineNumber::all(state.volatile_line..all)) {
            state.caches.fill_shared(line);
        }
    }

    /// Sets whether time passes from now on. While it does not, only lines that no cache holds may be stored to.
    pub fn set_timed(&self, timed: bool) {
        self.state.borrow_mut().functional = !timed;
    }

    /// Begins the region of interest: sets all counts to zero.
    pub fn begin_region(&self) {
        let state = &mut *self.state.borrow_mut();
        let now = state.cores[state.current].clock;
        state.wake_waiting(now, |why| why == Why::Region);
        for core in CoreId::first(state.waiting.len()) {
            match state.waiting[core] {
                Waiting::Latch => state.spin(core, state.seen_from),
                Waiting::Region => state.wake(core, state.seen_from),
                Waiting::No | Waiting::Over => {}
            }
        }
        state.began = now;
        state.accesses_before += state.statistics().accesses;
        state.caches.reset_statistics();
        state.cores.iter_mut().for_each(Core::reset_statistics);
        if let Some(scheme) = &mut state.scheme {
            scheme.reset_statistics();
        }
    }

    /// Sets the instructions that the program executes between its accesses, where the description does not.
    pub fn set_instructions(&self, instructions: &Instructions) {
        let state = &mut *self.state.borrow_mut();
        if state.description.cores.instructions_per_access.is_none() {
            state.cores.iter_mut().for_each(|core| core.set_instructions(instructions));
        }
    }

    /// Declares the program a plain one, whose stores have the width in the description.
    pub fn set_plain(&self) {
        let state = &mut *self.state.borrow_mut();
        let program = &state.description.program;
        // A description that sets the instructions for each access overrides all others.
        let copied = match state.description.cores.instructions_per_access {
            Some(_) => 0.0,
            None => beyond_counted(program.store_bytes, program.compiled),
        };
        let parts = 8 / program.store_bytes;
        state.cores.iter_mut().for_each(|core| core.set_parts(parts, copied));
    }

    /// Makes a software log leave the home copies of durable words in the caches from now on.
    pub fn leave_home_copies_cached(&self) {
        self.home_stays_cached.set(true);
    }

    /// Returns the number of cores.
    pub fn cores(&self) -> usize {
        self.state.borrow().cores.len()
    }

    /// Returns whether the hardware scheme still has work to do for a thread's commits.
    pub fn is_busy(&self, thread: usize) -> bool {
        self.state.borrow().scheme.as_ref().is_some_and(|scheme| scheme.is_busy(CoreId::new(thread)))
    }

    /// Returns a thread's time, in cycles.
    pub fn clock(&self, thread: usize) -> Cycle {
        self.state.borrow().clock_of(thread)
    }

    /// Returns how many word and line operations there were, including those before the region of interest.
    pub fn accesses(&self) -> u64 {
        let state = self.state.borrow();
        state.accesses_before + state.statistics().accesses
    }

    /// Returns the counts since the region of interest began.
    pub fn statistics(&self) -> Statistics {
        self.state.borrow().statistics()
    }

    /// Returns which of the hardware scheme's work was not reached since then.
    pub fn unreached(&self) -> Vec<String> {
        self.state.borrow().scheme.as_ref().map_or(Vec::new(), |scheme| scheme.unreached())
    }

    /// Returns the newest value of a pool word, wherever it is, without taking time. For tests and oracles.
    pub fn newest_word(&self, word: usize) -> u64 {
        self.state.borrow().newest(LineNumber::new((word / 8) as u32))[word % 8]
    }

    /// Returns how many lines some cache has modified, and how many writes the channels hold.
    pub fn unsettled(&self) -> (usize, usize) {
        let state = self.state.borrow();
        (state.caches.dirty_lines(), state.caches.memory.held())
    }

    /// Returns the pool and the reserved words as a power failure now, after a run, would leave them.
    pub fn survivors(&self) -> Vec<u64> {
        let state = &mut *self.state.borrow_mut();
        let at = state.cores.iter().map(|core| core.clock).max().unwrap_or_default();
        state.survivors(at)
    }

    /// Lets so many cycles pass after a run.
    pub fn idle(&self, cycles: u64) {
        let state = &mut *self.state.borrow_mut();
        let at = state.cores.iter().map(|core| core.clock).max().unwrap_or_default() + cycles;
        state.cores.iter_mut().for_each(|core| core.clock = at);
        state.caches.memory.advance(at);
    }
}

impl State {
    /// Returns the newest words of a line, wherever they are except in a store queue.
    fn newest(&self, line: LineNumber) -> Line {
        let copy = || self.scheme.as_ref().and_then(|scheme| scheme.copy(line));
        let cached = self.caches.newest(line).or_else(|| self.caches.clean_copy(line)).or_else(copy);
        cached.unwrap_or_else(|| self.caches.memory.newest(line))
    }

    fn place(&self, space: Space, offset: u64) -> (LineNumber, u8) {
        let word = offset.rotate_right(3);
        let line = (word / 8) as u32;
        let line = match space {
            Space::Persistent => LineNumber::new(line),
            Space::Volatile => self.volatile_line + line,
        };
        (line, (word % 8) as u8)
    }

    /// Performs an operation on memory without time, directly on the medium.
    fn perform_functionally(&mut self, operation: Operation) -> u64 {
        let at = |state: &Self, space, offset| {
            let (line, word) = state.place(space, offset);
            line.first_word() + usize::from(word)
        };
        let memory = |state: &mut Self, word, new: Option<u64>| {
            let old = state.caches.memory.peek(word);
            if let Some(new) = new {
                state.caches.memory.poke(word, new);
            }
            old
        };
        match operation {
            Operation::Load(space, offset) => memory(self, at(self, space, offset), None),
            Operation::Store(space, offset, value) => memory(self, at(self, space, offset), Some(value)),
            Operation::StoreNonTemporal(offset, value) => {
                memory(self, at(self, Space::Persistent, offset), Some(value))
            }
            Operation::CompareExchange(space, offset, current, new) => {
                let word = at(self, space, offset);
                let old = memory(self, word, None);
                if old == current {
                    memory(self, word, Some(new));
                }
                old
            }
            Operation::FetchAdd(space, offset, by) => {
                let word = at(self, space, offset);
                let old = memory(self, word, None);
                memory(self, word, Some(old.wrapping_add(by)));
                old
            }
            Operation::WriteBackAll(_) => 1,
            Operation::WriteBack(..)
            | Operation::Fence(_)
            | Operation::Pause
            | Operation::Event(_)
            | Operation::Work(_) => 0,
        }
    }

    /// Chooses the thread furthest behind; returns its position in `running`.
    fn choose(&mut self, running: &[usize]) -> usize {
        if self.scheduler.is_some() {
            return self.choose_scheduled(running);
        }
        if self.clocks.first().0 == Cycle::NEVER {
            self.act_until_one_wakes();
        }
        let (_, core) = self.clocks.first();
        self.current = core;
        self.clocks.set(core, Cycle::NEVER);
        let (others, next) = self.clocks.first();
        self.others = others;
        self.horizon = Cycle::ZERO;
        if let Some(line) = self.missing[next].take() {
            self.caches.prefetch_entries(next, line);
        }
        let thread = core.index();
        // Usually all threads are still running.
        if running.get(thread) == Some(&thread) {
            return thread;
        }
        running.binary_search(&thread).expect("a thread with a clock runs")
    }

    /// Performs an operation of the thread on `core`. Returns `None` if it is too early, or must wait.
    fn perform(&mut self, thread: usize, core: CoreId, operation: Operation) -> Option<u64> {
        if !self.may_run(core) {
            return None;
        }
        let outcome = self.execute(core, operation);
        self.wake_losers();
        let Done(value) = outcome else { return None };
        self.cores[core].again = false;
        if let Some(tape) = &mut self.tape {
            tape(thread, Taped::Operation(operation));
        }
        Some(value)
    }

    /// Makes the host fetch the data of a postponed operation while other threads run.
    fn prefetch(&mut self, core: CoreId, operation: Operation) {
        if let Operation::Load(space, offset) | Operation::Store(space, offset, _) = operation {
            let (line, _) = self.place(space, offset);
            self.missing[core] = self.caches.prefetch(core, line).then_some(line);
        }
    }

    /// Returns whether no time passes: before and after a run, and for threads that unwind after another one has panicked.
    fn is_functional(&self) -> bool {
        self.functional || std::thread::panicking()
    }

    /// Returns whether `core` is furthest behind, after all store queues and engines have caught up with it.
    fn may_run(&mut self, core: CoreId) -> bool {
        let clock = self.cores[core].clock;
        // The scheme may have planned an earlier event since the horizon was computed.
        let is_due = self.scheme.as_ref().is_some_and(|scheme| scheme.next_event() <= clock);
        if clock < self.horizon && !is_due {
            self.seen_from = clock + 1;
            return true;
        }
        self.catch_up(core)
    }

    fn catch_up(&mut self, core: CoreId) -> bool {
        let clock = self.cores[core].clock;
        if clock > self.limit {
            panic!("the program runs for ever");
        }
        loop {
            let (agent, at) = self.next_agent();
            if self.others < clock.min(at) {
                return false;
            }
            if at > clock {
                // At equal times the running thread continues.
                self.horizon = at.min(self.others.saturating_add(1));
                self.seen_from = clock + 1;
                return true;
            }
            self.act(agent, at);
        }
    }

    /// Returns the next agent that acts by itself, and when: core `n`'s store queue, a sleeping thread, the scheme's engine, or the power failure.
    fn next_agent(&self) -> (Agent, Cycle) {
        let mut next = (Agent::Crash, self.crashes_at.front().copied().unwrap_or(Cycle::NEVER));
        if let Some(scheme) = &self.scheme
            && scheme.next_event() < next.1
        {
            next = (Agent::Scheme, scheme.next_event());
        }
        if let Some((at, thread)) = self.scheduler.as_ref().and_then(Scheduler::next_timer)
            && at < next.1
        {
            next = (Agent::Timer(thread), at);
        }
        let (issue, core) = self.issues_at.first();
        if issue < next.1 {
            next = (Agent::Stores(core), issue);
        }
        next
    }

    fn act(&mut self, agent: Agent, at: Cycle) {
        self.seen_from = at;
        match agent {
            Agent::Stores(core) => self.issue_store(core, at),
            Agent::Timer(thread) => self.make_ready(thread, at, true),
            Agent::Scheme => {
                if let Some(scheme) = &mut self.scheme {
                    scheme.act(&mut self.caches, at);
                    self.caches.settle_pending(at, &mut self.scheme);
                }
            }
            Agent::Crash => {
                self.crashes_at.pop_front();
                let image = self.survivors(at);
                let events = self.events.as_ref().map_or(0, Vec::len);
                let notes = self.notes.as_ref().map_or(0, |notes| notes.list.len());
                let acknowledged = self.scheme.as_ref().and_then(|scheme| scheme.acknowledged(at));
                let crash = Crash { at, image, events, notes, acknowledged };
                match &mut self.on_crash {
                    Some(then) => then(crash),
                    None => self.crashes.push(crash),
                }
            }
        }
        self.wake_losers();
    }

    /// Completes everything still in progress after all threads have returned, including requested crashes.
    fn finish(&mut self) {
        let end = self.cores.iter().map(|core| core.clock).max().unwrap_or_default();
        loop {
            let (agent, at) = self.next_agent();
            let drained = self.issues_at.first().0 == Cycle::NEVER;
            if drained && at > end {
                break;
            }
            self.act(agent, at);
        }
        for core in CoreId::first(self.cores.len()) {
            self.flush_combining(core, None);
        }
    }

    fn survivors(&mut self, at: Cycle) -> Vec<u64> {
        let (at, mut image, running) = self.caches.memory.fail(at);
        if self.description.persistence.domain == PersistenceDomain::FlushOnFail {
            for line in LineNumber::all(LineNumber::default()..self.volatile_line) {
                if let Some(data) = self.caches.newest(line) {
                    image[line.words()].copy_from_slice(&data);
                }
            }
        }
        if let Some(scheme) = &mut self.scheme {
            scheme.power_fails(&mut self.caches, &mut image, at);
        }
        self.caches.memory.go_on(running);
        image
    }

    fn statistics(&self) -> Statistics {
        let cores: Vec<_> = self
            .cores
            .iter()
            .enumerate()
            .map(|(number, core)| {
                let mut statistics = core.statistics;
                statistics.cycles = core.clock.since(self.began);
                [statistics.private_loads, statistics.private_stores] = core.private_accesses();
                statistics.mshr_full = self.caches.mshr_full[number];
                statistics.mshr_merges = self.caches.mshr_merges[number];
                statistics
            })
            .collect();
        let (levels, channels) = (self.caches.statistics(), self.caches.memory.statistics());
        Statistics {
            cycles: cores.iter().map(|core| core.cycles).max().unwrap_or_default(),
            accesses: cores
                .iter()
                .map(|core| core.loads + core.stores + core.atomics + core.non_temporal + core.write_backs)
                .sum(),
            cores,
            energy: Energy::of(&self.description, &levels, &channels),
            levels,
            network: self.caches.network.statistics,
            channels,
            traffic: self.caches.memory.traffic,
            hardware_log_bytes: self.caches.memory.hardware_log_bytes,
            scheme: self.scheme.as_ref().map(|scheme| scheme.statistics()).unwrap_or_default(),
        }
    }
}

/// An agent that acts by itself.
#[derive(Clone, Copy)]
enum Agent {
    Stores(CoreId),
    Timer(usize),
    Scheme,
    Crash,
}

mod execute;
