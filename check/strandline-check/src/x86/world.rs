//! Memory under the persistency rules of x86 (Px86, Raad et al., POPL 2020). Execution is sequentially consistent: every load reads the latest store,
//! unless stores are delayed as total store order permits, or a non-temporal store is late (`late_stores.rs`). The world tracks what each thread knows of
//! the order of stores (its views), so that a write-back covers exactly what it must cover, and leaves a [`Trace`].

mod late_stores;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use fastrand::Rng;
use strandline_core::memory::coroutines::{self, Thread};
use strandline_core::memory::{Event, Operation, Space, Step, World};

use self::late_stores::LateStores;
use super::mix;
use super::panics::Stopped;
use super::races::{HappensBefore, Race};
use super::running_transaction::RunningTransaction;
use super::schedule::{ChoicePoint, Policy, Scheduler};
use super::site::{self, Site, Source};
use super::state::State;
use super::trace::{Seen, Store, Trace, Waste};
use crate::Setting;

/// After this many operations a run counts as endless.
const PATIENCE: u64 = 20_000_000;
/// The same bound for checked programs.
const OWN_PATIENCE: u64 = 1_000_000;
/// How often a thread may pause while nothing changes. If all other threads only pause, too, it then counts as waiting forever.
const IDLE_PAUSES: u32 = 500;
/// Preemption is more likely within this many candidates after a persistence step.
const CRITICAL_CANDIDATES: u32 = 4;

/// A thread's knowledge of the order of stores, and the write-backs that it has requested.
struct View {
    /// For each word the newest store that the thread has seen.
    persistent: Vec<u32>,
    volatile: Vec<u32>,
    /// For each line of the pool the newest store that the thread has seen.
    line: Vec<u32>,
    /// The newest store of all words that the thread has seen.
    newest: u32,
    /// The view vpr: the stores that a later write-back is ordered after.
    ordered: u32,
    /// The view vpa of lines whose write-backs are not complete.
    asked: Vec<(u32, u32)>,
    unfenced_non_temporal: bool,
    transaction: RunningTransaction,
    /// The number of candidates that are left until preemption has its ordinary probability.
    critical: u32,
    /// How often the thread has paused since something changed.
    idle: u32,
}

/// A store that a thread issues.
#[derive(Clone, Copy)]
struct IssuedStore {
    space: Space,
    at: u64,
    value: u64,
    source: Source,
    is_part: bool,
}

/// The store buffers of total store order: each thread's stores reach memory in their order, with a delay.
struct Delayed {
    random: Rng,
    buffers: Vec<VecDeque<IssuedStore>>,
}

impl IssuedStore {
    /// Returns a store by the code whose operation is being performed.
    fn now(space: Space, at: u64, value: u64, site: Option<Site>) -> Self {
        let source = site.map_or_else(|| strandline_core::memory::hosted::caller().into(), |site| site.at);
        Self { space, at, value, source, is_part: site::is_part() }
    }
}

/// The world in which a program's stores reach memory as x86 permits.
pub struct X86World {
    persistent: Box<[Cell<u64>]>,
    volatile: Box<[Cell<u64>]>,
    persistent_latest: Box<[Cell<u32>]>,
    volatile_latest: Box<[Cell<u32>]>,
    /// Words that belong to transactions.
    data: Range<usize>,
    setting: Setting,
    omitted: Option<Step>,
    views: RefCell<Vec<View>>,
    trace: RefCell<Trace>,
    scheduler: RefCell<Scheduler>,
    /// Present if states are distinguished.
    state: RefCell<Option<State>>,
    /// The delayed stores, if stores are delayed.
    delayed: RefCell<Option<Delayed>>,
    late: RefCell<LateStores>,
    /// True if non-temporal stores may be late.
    has_late_stores: Cell<bool>,
    /// Present if the world looks for races.
    order: RefCell<Option<HappensBefore>>,
    switch: Cell<bool>,
    patience: Cell<u64>,
    /// True if this is a checked program: its threads may switch at every access, and it is stopped if it hangs.
    is_own: Cell<bool>,
}

fn cells(words: &[u64]) -> Box<[Cell<u64>]> {
    words.iter().map(|&word| Cell::new(word)).collect()
}

impl X86World {
    /// Creates a world whose pool durably holds `image`, with zeroed volatile words, for threads below `threads`. The words in `data` belong to
    /// transactions.
    pub fn new(
        image: Vec<u64>,
        volatile_bytes: u64,
        data: Range<usize>,
        threads: usize,
        setting: Setting,
        omitted: Option<Step>,
    ) -> Self {
        let (words, volatile) = (image.len(), volatile_bytes.div_ceil(8) as usize);
        let view = || View {
            persistent: vec![0; words],
            volatile: vec![0; volatile],
            line: vec![0; words.div_ceil(8)],
            newest: 0,
            ordered: 0,
            asked: Vec::new(),
            unfenced_non_temporal: false,
            transaction: RunningTransaction::default(),
            critical: 0,
            idle: 0,
        };
        Self {
            persistent: cells(&image),
            volatile: cells(&vec![0; volatile]),
            persistent_latest: vec![Cell::new(0); words].into(),
            volatile_latest: vec![Cell::new(0); volatile].into(),
            data,
            setting,
            omitted,
            views: RefCell::new((0..threads).map(|_| view()).collect()),
            trace: RefCell::new(Trace::new(image)),
            scheduler: RefCell::new(Scheduler::new(Policy::Random { every: 1 }, 0, 0)),
            state: RefCell::default(),
            delayed: RefCell::default(),
            late: RefCell::new(LateStores::new(threads)),
            has_late_stores: Cell::new(false),
            order: RefCell::default(),
            switch: Cell::new(false),
            patience: Cell::new(PATIENCE),
            is_own: Cell::new(false),
        }
    }

    /// Prepares for a checked program: threads may switch at every access to either memory, non-temporal stores may be late, and a program that hangs
    /// is stopped soon.
    pub(crate) fn run_own(&self) {
        self.is_own.set(true);
        self.has_late_stores.set(true);
        self.patience.set(OWN_PATIENCE);
    }

    /// Handles a pause of `thread`. If nothing has changed for long and all running threads have only paused, they wait forever.
    fn pauses(&self, thread: usize) {
        let views = &mut *self.views.borrow_mut();
        views[thread].idle += 1;
        let scheduler = self.scheduler.borrow();
        if scheduler.running().iter().all(|&thread| views[thread].idle >= IDLE_PAUSES) {
            let waiting: Vec<String> = scheduler.running().iter().map(usize::to_string).collect();
            let what = match &waiting[..] {
                [one] => format!("deadlock: thread {one} waits, and no other is left"),
                _ => format!("deadlock: the threads {} wait for one another", waiting.join(", ")),
            };
            Stopped::Deadlock(what).raise();
        }
    }

    /// Prepares for a recording. It is run like a checked program ([`run_own`](Self::run_own)), but it always ends.
    pub(crate) fn run_recorded(&self) {
        self.is_own.set(true);
        self.patience.set(u64::MAX);
    }

    /// Returns why a write-back of the line at `offset` by `thread` is redundant, if it is.
    fn waste_of_write_back(&self, thread: usize, offset: u64) -> Option<Waste> {
        let (trace, views) = (self.trace.borrow(), self.views.borrow());
        let line = (offset / 64) as u32;
        let Some(history) = trace.line(line) else { return Some(Waste::Clean) };
        let (durable, made) = history.cuts(trace.time);
        if durable == made {
            return Some(Waste::Clean);
        }
        let asked = views[thread].asked.iter().find(|&&(asked, _)| asked == line);
        let is_covered = asked.is_some_and(|&(_, upto)| history.stores[made - 1].time <= upto);
        is_covered.then_some(Waste::Redundant)
    }

    /// Notes a load that is about to see another thread's store.
    fn note_load(&self, thread: usize, at: u64, site: Site) {
        let (_, latest, index) = self.cell(Space::Persistent, at);
        let store = latest.get();
        if store > self.views.borrow()[thread].persistent[index] {
            let trace = &mut *self.trace.borrow_mut();
            trace.seen.push(Seen { time: trace.time, store, site });
        }
    }

    /// Notes an operation if a checked program issued it.
    fn note(&self, thread: usize, operation: Operation, site: Option<Site>) {
        let waste = match operation {
            _ if site.is_none() => None,
            Operation::WriteBack(at, _) => self.waste_of_write_back(thread, at),
            _ => None,
        };
        self.trace.borrow_mut().mark_site(thread as u32, operation, site, waste);
    }

    /// Returns the pool as the threads see it.
    pub fn contents(&self) -> Vec<u64> {
        self.persistent.iter().map(Cell::get).collect()
    }

    /// Returns the time, which counts the operations that crash points refer to.
    pub fn time(&self) -> u32 {
        self.trace.borrow().time
    }

    /// Runs `threads`, interleaved by `policy`; returns the choice points of a guided run.
    ///
    /// # Panics
    /// Panics if a thread panics or runs forever.
    pub fn run(self: &Rc<Self>, threads: Vec<Thread<'_>>, policy: Policy, seed: u64) -> Vec<ChoicePoint> {
        *self.scheduler.borrow_mut() = Scheduler::new(policy, threads.len(), seed);
        let world: Rc<dyn World> = self.clone();
        coroutines::run(&world, threads, |running| {
            self.show_late_of_ended(running);
            self.scheduler.borrow_mut().choose(running, || self.present())
        });
        let threads = self.views.borrow().len();
        (0..threads).for_each(|thread| self.drain(thread));
        self.show_late_of_ended(&[]);
        *self.delayed.borrow_mut() = None;
        std::mem::take(&mut self.scheduler.borrow_mut().points)
    }

    /// Returns the choices of the last run, if it was not guided; a guided run with these choices repeats it.
    pub(crate) fn schedule(&self) -> Vec<(u32, usize)> {
        std::mem::take(&mut self.scheduler.borrow_mut().taken)
    }

    /// Makes stores wait in store buffers for random times during the next [`run`](Self::run). Atomic operations, fences, write-backs, non-temporal
    /// stores and events of a thread wait for its stores.
    pub fn delay_stores(&self, seed: u64) {
        let buffers = vec![VecDeque::new(); self.views.borrow().len()];
        *self.delayed.borrow_mut() = Some(Delayed { random: Rng::with_seed(seed), buffers });
    }

    /// Lets the delayed stores of `thread` reach memory.
    fn drain(&self, thread: usize) {
        while let Some(store) = self.oldest_delayed(thread) {
            self.store(thread, store);
        }
    }

    fn oldest_delayed(&self, thread: usize) -> Option<IssuedStore> {
        self.delayed.borrow_mut().as_mut()?.buffers[thread].pop_front()
    }

    /// Lets a store of any thread reach memory, if chance decides so.
    fn drain_some(&self) {
        let mut delayed = self.delayed.borrow_mut();
        let Some(Delayed { random, buffers }) = &mut *delayed else { return };
        if random.u8(..6) != 0 {
            return;
        }
        let thread = random.usize(..buffers.len());
        let store = buffers[thread].pop_front();
        drop(delayed);
        if let Some(store) = store {
            self.store(thread, store);
        }
    }

    /// Returns what `thread` has last stored there, if that store is delayed.
    fn forwarded(&self, thread: usize, space: Space, at: u64) -> Option<u64> {
        let delayed = self.delayed.borrow();
        let mut buffer = delayed.as_ref()?.buffers[thread].iter().rev();
        buffer.find(|store| (store.space, store.at) == (space, at)).map(|store| store.value)
    }

    /// Distinguishes states from now on; `shared` are the lines known to be shared (`state.rs`).
    pub fn tell_states(&self, shared: BTreeSet<u32>) {
        let (threads, lines) = (self.views.borrow().len(), self.persistent.len().div_ceil(8));
        *self.state.borrow_mut() = Some(State::new(threads, lines, shared));
    }

    /// Returns the lines that turned out to be shared.
    pub fn found_shared(&self) -> BTreeSet<u32> {
        self.state.borrow_mut().take().map(|state| state.found_shared).unwrap_or_default()
    }

    /// Looks for data races from now on. Stores must not be delayed.
    pub(crate) fn watch_races(&self) {
        let threads = self.views.borrow().len();
        let order = HappensBefore::new(threads, self.persistent.len(), self.volatile.len());
        *self.order.borrow_mut() = Some(order);
    }

    /// Returns the races that were found.
    pub(crate) fn races(&self) -> Vec<Race> {
        self.order.borrow_mut().take().map(|order| order.found).unwrap_or_default()
    }

    /// Returns the time and a fingerprint of the state.
    fn present(&self) -> (u32, u64) {
        let (trace, views, state) = (self.trace.borrow(), self.views.borrow(), self.state.borrow());
        let Some(state) = &*state else { return (trace.time, 0) };
        let mut number = state.number();
        for (thread, view) in views.iter().enumerate() {
            for &(line, upto) in &view.asked {
                let Some(history) = trace.line(line) else { continue };
                let covered = history.stores.partition_point(|store| store.time <= upto);
                let (durable, _) = history.cuts(trace.time);
                if covered > durable {
                    let pending = (covered - durable) as u64;
                    number = number.wrapping_add(mix(mix(mix(line.into(), 10), pending), thread as u64));
                }
            }
        }
        if !self.late.borrow().is_empty() {
            number = number.wrapping_add(self.late.borrow().number());
        }
        if !state.shared.is_empty() {
            number = number.wrapping_add(self.order(&trace, &views, state));
        }
        (trace.time, number)
    }

    /// Returns a fingerprint of the order of pending stores to shared lines relative to everything that views can refer to.
    fn order(&self, trace: &Trace, views: &[View], state: &State) -> u64 {
        let mut pending: Vec<(u32, u32)> = Vec::new();
        for history in state.shared.iter().filter_map(|&line| trace.line(line)) {
            let (durable, _) = history.cuts(trace.time);
            pending.extend(history.stores[durable..].iter().map(|store| (store.time, store.word)));
        }
        pending.sort_unstable();
        let mut number = pending.iter().fold(11, |hash, &(_, word)| mix(hash, word.into()));
        let rank = |time| pending.partition_point(|&(store, _)| store <= time) as u64;
        for view in views {
            number = mix(mix(number, rank(view.ordered)), rank(view.newest));
            number =
                state.shared.iter().fold(number, |hash, &line| mix(hash, rank(view.line[line as usize])));
        }
        let Some(&(first, _)) = pending.first() else { return number };
        let mut words = |latest: &[Cell<u32>], known: &dyn Fn(&View, usize) -> u32| {
            for (word, time) in latest.iter().map(Cell::get).enumerate().filter(|&(_, time)| time >= first) {
                number = mix(mix(number, word as u64), rank(time));
                number =
                    views.iter().fold(number, |hash, view| mix(hash, (known(view, word) >= time).into()));
            }
        };
        words(&self.persistent_latest, &|view, word| view.persistent[word]);
        words(&self.volatile_latest, &|view, word| view.volatile[word]);
        number
    }

    /// Ends the run and returns its trace.
    pub fn finish(&self) -> Trace {
        let mut trace = self.trace.take();
        trace.finish();
        trace
    }

    fn cell(&self, space: Space, offset: u64) -> (&Cell<u64>, &Cell<u32>, usize) {
        let index = offset.rotate_right(3) as usize;
        let (words, latest) = match space {
            Space::Persistent => (&self.persistent, &self.persistent_latest),
            Space::Volatile => (&self.volatile, &self.volatile_latest),
        };
        assert!(index < words.len(), "{space:?} access at offset {offset:#x} is outside its space");
        (&words[index], &latest[index], index)
    }

    fn load(&self, thread: usize, space: Space, offset: u64) -> u64 {
        let (word, latest, index) = self.cell(space, offset);
        let (time, view) = (latest.get(), &mut self.views.borrow_mut()[thread]);
        let known = match space {
            Space::Persistent => {
                if self.data.contains(&index) {
                    let trace = &mut *self.trace.borrow_mut();
                    let reads = view.transaction.only_reads();
                    view.transaction.loads(trace, index as u32, time);
                    if let (true, Some(state)) = (reads, &mut *self.state.borrow_mut()) {
                        let writer = trace.writer(time).map_or(0, |writer| trace.updates[writer].id);
                        state.performed(thread, writer);
                    }
                }
                &mut view.persistent[index]
            }
            Space::Volatile => &mut view.volatile[index],
        };
        if time > *known {
            *known = time;
            view.newest = view.newest.max(time);
            view.ordered = view.ordered.max(time);
            if space == Space::Persistent {
                let line = &mut view.line[index / 8];
                *line = (*line).max(time);
            }
        }
        word.get()
    }

    fn store(&self, thread: usize, store: IssuedStore) -> u32 {
        let IssuedStore { space, at, value, source, is_part } = store;
        let (word, latest, index) = self.cell(space, at);
        if self.is_own.get() {
            self.views.borrow_mut().iter_mut().for_each(|view| view.idle = 0);
        }
        let (view, trace) = (&mut self.views.borrow_mut()[thread], &mut *self.trace.borrow_mut());
        if let Some(state) = &mut *self.state.borrow_mut() {
            match space {
                Space::Persistent => state.stored(index as u32, value),
                Space::Volatile => state.volatile(index, word.get(), value),
            }
        }
        word.set(value);
        let time = match space {
            Space::Persistent => {
                let every = self.setting == Setting::FlushOnFail;
                let time = trace.store(
                    Store {
                        thread: thread as u32,
                        word: index as u32,
                        value,
                        source: Some(source),
                        is_part,
                        time: 0,
                    },
                    every,
                );
                if self.data.contains(&index) {
                    let word = (index as u32, value);
                    view.transaction.stores(trace, (thread as u32, time), word, latest.get());
                }
                view.persistent[index] = time;
                view.line[index / 8] = time;
                time
            }
            Space::Volatile => {
                let time = trace.tick();
                view.volatile[index] = time;
                time
            }
        };
        latest.set(time);
        view.newest = time;
        time
    }

    fn write_back(&self, thread: usize, offset: u64) {
        let line = (offset / 64) as usize;
        let view = &mut self.views.borrow_mut()[thread];
        let upto = view.line[line].max(view.ordered);
        if let Some(state) = &mut *self.state.borrow_mut() {
            let trace = self.trace.borrow();
            let pending =
                trace.line(line as u32).map(|history| &history.stores[history.cuts(trace.time).0..]);
            if pending.unwrap_or_default().iter().any(|store| store.thread as usize != thread)
                && !state.shared.contains(&(line as u32))
            {
                state.found_shared.insert(line as u32);
            }
        }
        match view.asked.iter_mut().find(|(asked, _)| *asked as usize == line) {
            Some((_, before)) => *before = upto.max(*before),
            None => view.asked.push((line as u32, upto)),
        }
    }

    /// Completes the write-backs that the thread has requested.
    fn complete(&self, thread: usize, view: &mut View, trace: &mut Trace) {
        view.unfenced_non_temporal = false;
        self.scheduler.borrow_mut().completes(thread);
        if !view.asked.is_empty() {
            trace.tick();
            for (line, upto) in view.asked.drain(..) {
                trace.complete(line, upto);
                if let (Some(state), Some(history)) = (&mut *self.state.borrow_mut(), trace.line(line)) {
                    let first = 8 * line as usize;
                    state.completed(history, &trace.initial[first..first + 8], trace.time);
                }
            }
        }
    }

    fn exchange(&self, thread: usize, space: Space, offset: u64, value: u64, site: Option<Site>) {
        // Completes the write-backs together with the operation, so that no crash falls between them: they are durable before the new value can be.
        self.complete(thread, &mut self.views.borrow_mut()[thread], &mut self.trace.borrow_mut());
        let time = self.store(thread, IssuedStore::now(space, offset, value, site));
        self.views.borrow_mut()[thread].ordered = time;
    }

    fn event(&self, thread: usize, event: Event, site: Option<Site>) {
        let (view, trace) = (&mut self.views.borrow_mut()[thread], &mut *self.trace.borrow_mut());
        if matches!(event, Event::Commit(_) | Event::Acknowledged(_)) {
            trace.point();
        }
        trace.tick();
        trace.mark_site(thread as u32, Operation::Event(event), site, None);
        let newest = |word: u32| self.persistent_latest[word as usize].get();
        view.transaction.event(trace, thread as u32, event, newest);
        if let Event::Unlock(word) = event
            && view.unfenced_non_temporal
        {
            trace.faults.push(format!(
                "thread {thread} releases the lock word {:#x} before a fence after its non-temporal store",
                word.offset()
            ));
        }
    }

    /// Returns whether the threads have run for too long while the world is being torn down.
    ///
    /// # Panics
    /// Panics if they have while it is not being torn down.
    fn is_out_of_patience(&self, thread: usize) -> bool {
        self.patience.set(self.patience.get().saturating_sub(1));
        if self.patience.get() > 0 {
            return false;
        }
        if self.is_own.get() {
            let what = format!(
                "thread {thread} runs for ever: more than {OWN_PATIENCE} operations (a loop that waits must pause)"
            );
            Stopped::Deadlock(what).raise();
        }
        // The panic drops the other threads, each of which then runs to its end alone.
        assert!(std::thread::panicking(), "the threads wait for each other, or one runs for ever");
        true
    }

    /// Executes `operation`, with store buffers if `delays`, and returns its value.
    fn carry_out(&self, thread: usize, operation: Operation, site: Option<Site>, delays: bool) -> u64 {
        match operation {
            Operation::Load(space, at) => self.load_or_forward(thread, space, at, site, delays),
            Operation::Store(space, at, value) => {
                let store = IssuedStore::now(space, at, value, site);
                match &mut *self.delayed.borrow_mut() {
                    Some(delayed) => delayed.buffers[thread].push_back(store),
                    None => drop(self.store(thread, store)),
                }
                0
            }
            Operation::StoreNonTemporal(at, value) => {
                self.store_non_temporal(thread, at, value, site);
                0
            }
            Operation::CompareExchange(space, at, current, new) => {
                self.compare_exchange(thread, (space, at), (current, new), site)
            }
            Operation::FetchAdd(space, at, by) => {
                let old = self.load(thread, space, at);
                self.exchange(thread, space, at, old.wrapping_add(by), site);
                if site.is_some() {
                    self.note(thread, operation, site);
                }
                old
            }
            Operation::WriteBack(at, _) => {
                self.note(thread, operation, site);
                self.write_back(thread, at);
                0
            }
            Operation::Fence(_) => {
                self.fence(thread, operation, site);
                0
            }
            Operation::Pause => {
                if self.is_own.get() {
                    self.pauses(thread);
                }
                self.scheduler.borrow_mut().pause(thread);
                0
            }
            Operation::Event(event) => {
                self.event(thread, event, site);
                0
            }
            Operation::WriteBackAll(_) | Operation::Work(_) => 0,
        }
    }

    fn fence(&self, thread: usize, operation: Operation, site: Option<Site>) {
        let nothing = site.is_some() && self.views.borrow()[thread].asked.is_empty();
        let waste = nothing.then_some(Waste::NothingPending);
        let (view, trace) = (&mut self.views.borrow_mut()[thread], &mut *self.trace.borrow_mut());
        view.ordered = view.ordered.max(view.newest);
        self.complete(thread, view, trace);
        trace.mark_site(thread as u32, operation, site, waste);
    }

    /// Loads from the thread's store buffer or late stores if they have the word, or else from memory.
    fn load_or_forward(&self, thread: usize, space: Space, at: u64, site: Option<Site>, delays: bool) -> u64 {
        let delayed = if delays { self.forwarded(thread, space, at) } else { None };
        let forwarded = delayed.or_else(|| self.forwarded_late(thread, space, at));
        if let (None, Space::Persistent, Some(site)) = (forwarded, space, site) {
            self.note_load(thread, at, site);
        }
        forwarded.unwrap_or_else(|| self.load(thread, space, at))
    }

    fn compare_exchange(
        &self,
        thread: usize,
        (space, at): (Space, u64),
        (current, new): (u64, u64),
        site: Option<Site>,
    ) -> u64 {
        let old = self.load(thread, space, at);
        if old == current {
            self.exchange(thread, space, at, new, site);
            if site.is_some() {
                self.note(thread, Operation::CompareExchange(space, at, current, new), site);
            }
        }
        old
    }

    /// Returns whether another thread may run after `operation`.
    fn switch_point(&self, operation: Operation) -> SwitchPoint {
        let own = self.is_own.get();
        let is_candidate = match operation {
            Operation::Load(space, _) => own || space == Space::Volatile,
            Operation::Store(space, at, _) => {
                own || space == Space::Volatile || self.data.contains(&((at / 8) as usize))
            }
            Operation::StoreNonTemporal(..) => own,
            Operation::CompareExchange(..)
            | Operation::FetchAdd(..)
            | Operation::Fence(_)
            | Operation::Event(_) => true,
            Operation::Pause => return SwitchPoint::Pause,
            Operation::WriteBack(..) | Operation::WriteBackAll(_) | Operation::Work(_) => false,
        };
        let is_critical = matches!(
            operation,
            Operation::Fence(_) | Operation::Event(Event::Commit(_) | Event::Acknowledged(_))
        );
        if is_candidate { SwitchPoint::Candidate { is_critical } } else { SwitchPoint::No }
    }

    /// Returns whether the thread gives way at a candidate.
    fn gives_way(&self, thread: usize, is_critical: bool) -> bool {
        let near = {
            let view = &mut self.views.borrow_mut()[thread];
            if is_critical {
                view.critical = CRITICAL_CANDIDATES;
            }
            let near = view.critical > 0;
            view.critical = view.critical.saturating_sub(1);
            near
        };
        self.scheduler.borrow_mut().candidate(thread, near, || self.present())
    }
}

/// True if another thread may run after an operation.
enum SwitchPoint {
    No,
    Pause,
    /// The scheduler decides. After a critical operation a switch is likely to reveal faults.
    Candidate {
        is_critical: bool,
    },
}

impl World for X86World {
    fn perform(&self, thread: usize, operation: Operation) -> u64 {
        let own = self.is_own.get();
        let (site, is_atomic) = if own { site::take() } else { (None, false) };
        if self.is_out_of_patience(thread) {
            self.switch.set(false);
            return 0;
        }
        if own
            && !matches!(operation, Operation::Load(..) | Operation::Pause | Operation::CompareExchange(..))
        {
            self.views.borrow_mut()[thread].idle = 0;
        }
        let delays = self.delayed.borrow().is_some();
        if delays {
            self.drain_some();
            if !matches!(operation, Operation::Load(..) | Operation::Store(..) | Operation::Work(_)) {
                self.drain(thread);
            }
        }
        self.show_late_before(thread, operation);
        let value = self.carry_out(thread, operation, site, delays);
        if let Some(order) = &mut *self.order.borrow_mut() {
            order.performed(thread, operation, value, (site, is_atomic));
        }
        if let Some(state) = &mut *self.state.borrow_mut() {
            state.performed(thread, value);
        }
        let gives_way = match self.switch_point(operation) {
            SwitchPoint::No => false,
            SwitchPoint::Pause => true,
            SwitchPoint::Candidate { is_critical } => self.gives_way(thread, is_critical),
        };
        self.switch.set(gives_way);
        value
    }

    fn caches_survive(&self) -> bool {
        self.setting == Setting::FlushOnFail
    }

    fn peek(&self, thread: usize, space: Space, offset: u64) -> u64 {
        let late = self.forwarded_late(thread, space, offset);
        late.unwrap_or_else(|| self.cell(space, offset).0.get())
    }

    fn switches(&self, _: usize) -> bool {
        self.switch.get()
    }

    fn omitted(&self, step: Step) -> bool {
        let omitted = self.omitted == Some(step);
        if omitted {
            let mut trace = self.trace.borrow_mut();
            let time = trace.time;
            if trace.hints.last() != Some(&time) {
                trace.hints.push(time);
            }
            // Preemption just after a thread leaves a step out is likely to reveal faults.
            for view in self.views.borrow_mut().iter_mut() {
                view.critical = CRITICAL_CANDIDATES;
            }
            self.scheduler.borrow_mut().leaves_out();
        }
        omitted
    }

    fn size(&self, space: Space) -> u64 {
        8 * match space {
            Space::Persistent => self.persistent.len(),
            Space::Volatile => self.volatile.len(),
        } as u64
    }
}
