//! The persist critical path, computed while events arrive.
//!
//! The *level* of a persist is one more than the highest level that it is ordered after; the critical path is the highest level. Levels are persist
//! epochs: all persists of a level could drain together.
//!
//! Two stores to one word may persist as one atomic write, since the first only has to persist no later than the second (section 3). So a store joins
//! the last persist of its word, and takes its level, if everything else that the store is ordered after has a lower level. The highest level alone
//! does not show that, so a [`Clock`] also holds the highest level among the persists of other words. Under eager sync a sync barrier between the two
//! stores makes the first one durable before the second is visible, so only stores without a barrier between them coalesce.

use strandline_core::memory::recorder::{Observer, Recorded};

use super::event::{Event, Place, events};
use super::model::Model;
use super::pages::Pages;

/// The levels of the persists that an access is ordered after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Clock {
    /// The highest level.
    level: u32,
    /// The word of a persist at that level.
    word: u32,
    /// The highest level among the persists of other words.
    others: u32,
}

impl Clock {
    fn persist(level: u32, word: u32) -> Self {
        Self { level, word, others: 0 }
    }

    fn join(&mut self, other: Self) {
        if other.level == 0 {
            return;
        }
        if self.word == other.word {
            self.level = self.level.max(other.level);
            self.others = self.others.max(other.others);
        } else if self.level >= other.level {
            self.others = self.others.max(other.level);
        } else {
            *self = Self { others: other.others.max(self.level), ..other };
        }
    }

    fn with(mut self, other: Self) -> Self {
        self.join(other);
        self
    }

    /// Returns the highest level of persists of words other than `word`.
    fn without(self, word: u32) -> u32 {
        if self.word == word { self.others } else { self.level }
    }
}

/// The state of each word accessed.
#[derive(Clone, Copy, Default)]
struct Word {
    /// The clock of an access after the last store.
    store: Clock,
    /// The clock of a store after the loads since the last store.
    loads: Clock,
    /// The level of the last persist; 0 if there is none.
    persist: u32,
    /// One more than the thread whose ordinary store was the last. That thread's loads may have seen it in the store buffer, before other threads
    /// could.
    writer: u32,
}

/// The state of each thread.
#[derive(Default)]
struct Thread {
    /// Under strict persistency and eager sync: the persists before each later access, and those before each later store.
    loads: Clock,
    stores: Clock,
    /// Under epoch and strand persistency: the persists before each later access, and those since the last barrier.
    before: Clock,
    epoch: Clock,
    /// All persists so far, and the persists that a sync barrier has waited for.
    issued: Clock,
    synced: Clock,
    /// With limited strands: the persists of each strand, the strand in use, and the next one.
    strands: Vec<Clock>,
    strand: Option<usize>,
    next_strand: usize,
    /// Eager sync: for each line the highest level that the thread has stored or seen there; and the highest levels that are being written back, have
    /// been accepted, and are being committed.
    lines: Pages<u32>,
    requested: u32,
    accepted: u32,
    committing: u32,
}

/// Computes the persist critical path of an execution, event by event.
pub struct CriticalPath {
    model: Model,
    threads: Vec<Thread>,
    persistent: Pages<Word>,
    volatile: Pages<Word>,
    length: u32,
    persists: u64,
    coalesced: u64,
    events: u64,
}

impl CriticalPath {
    /// Starts with an empty execution under `model`.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            threads: Vec::new(),
            persistent: Pages::default(),
            volatile: Pages::default(),
            length: 0,
            persists: 0,
            coalesced: 0,
            events: 0,
        }
    }

    /// Returns the length so far: the persist epochs that must drain one after the other.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Returns the number of stores to persistent memory so far.
    pub fn persists(&self) -> u64 {
        self.persists
    }

    /// Returns how many persists share one atomic write with the previous persist of their word.
    pub fn coalesced(&self) -> u64 {
        self.coalesced
    }

    /// Returns the number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Executes the next event in volatile memory order, `event` of `thread`. Returns its level if it is a persist.
    pub fn observe(&mut self, thread: usize, event: Event) -> Option<u32> {
        self.events += 1;
        if thread >= self.threads.len() {
            self.threads.resize_with(thread + 1, Thread::default);
        }
        let level = match self.model {
            Model::Strict => self.strict(thread, event),
            Model::Epoch => self.epoch(thread, event, 0),
            Model::Strand { strands } => self.epoch(thread, event, strands.map_or(0, |n| n.get() as usize)),
            Model::EagerSync => self.eager(thread, event),
        };
        if let Some(level) = level {
            self.persists += 1;
            self.length = self.length.max(level);
        }
        level
    }

    fn parts(&mut self, thread: usize, place: Place) -> (&mut Thread, &mut Word) {
        let words = if place.is_persistent() { &mut self.persistent } else { &mut self.volatile };
        (&mut self.threads[thread], words.get_mut(place.word))
    }

    /// Returns the level of a persist of `place` that is ordered after `after`, under models with strong persist atomicity.
    fn level(after: Clock, word: &Word, place: Place, coalesced: &mut u64) -> u32 {
        if word.persist > 0 && after.without(place.word) < word.persist {
            *coalesced += 1;
            word.persist
        } else {
            after.level + 1
        }
    }

    fn strict(&mut self, number: usize, event: Event) -> Option<u32> {
        let (place, loads, stores) = event.access()?;
        let mut coalesced = 0;
        let (thread, word) = self.parts(number, place);
        let atomic = loads && stores;
        if atomic {
            // An exchange drains the store buffer first.
            thread.loads.join(thread.stores);
        }
        if loads {
            if word.writer != number as u32 + 1 {
                thread.loads.join(word.store);
            }
            word.loads.join(thread.loads);
        }
        let mut level = None;
        if stores {
            let mut after = thread.loads.with(thread.stores).with(word.store).with(word.loads);
            if place.is_persistent() {
                let found = Self::level(after, word, place, &mut coalesced);
                word.persist = found;
                after.join(Clock::persist(found, place.word));
                level = Some(found);
            }
            thread.stores = after;
            if atomic {
                thread.loads = after;
            }
            word.store = after;
            word.loads = Clock::default();
            word.writer = if atomic { 0 } else { number as u32 + 1 };
        }
        self.coalesced += coalesced;
        level
    }

    fn epoch(&mut self, number: usize, event: Event, limit: usize) -> Option<u32> {
        let strand_model = matches!(self.model, Model::Strand { .. });
        let Some((place, _, stores)) = event.access() else {
            let thread = &mut self.threads[number];
            match event {
                Event::PersistBarrier => thread.before.join(thread.epoch),
                Event::NewStrand if strand_model => {
                    thread.before = thread.synced;
                    thread.epoch = Clock::default();
                    thread.strand = None;
                }
                // Everything that the thread has stored is durable before the thread continues.
                Event::PersistCommit => {
                    thread.synced = thread.issued;
                    thread.before.join(thread.issued);
                }
                _ => {}
            }
            return None;
        };
        let mut coalesced = 0;
        let (thread, word) = self.parts(number, place);
        if !stores {
            let after = thread.before.with(word.store);
            word.loads.join(after);
            thread.epoch.join(after);
            return None;
        }
        if limit > 0 && place.is_persistent() && thread.strand.is_none() {
            // The new strand reuses the place of an earlier strand, and waits for its persists.
            let at = thread.next_strand;
            thread.strands.resize(limit, Clock::default());
            thread.before.join(thread.strands[at]);
            thread.strand = Some(at);
            thread.next_strand = (at + 1) % limit;
        }
        let mut after = thread.before.with(word.store).with(word.loads);
        let mut level = None;
        if place.is_persistent() {
            let found = Self::level(after, word, place, &mut coalesced);
            let persist = Clock::persist(found, place.word);
            word.persist = found;
            after.join(persist);
            thread.issued.join(persist);
            if let Some(at) = thread.strand.filter(|_| limit > 0) {
                thread.strands[at].join(persist);
            }
            level = Some(found);
        }
        word.store = after;
        word.loads = Clock::default();
        thread.epoch.join(after);
        self.coalesced += coalesced;
        level
    }

    fn eager(&mut self, number: usize, event: Event) -> Option<u32> {
        let Some((place, loads, stores)) = event.access() else {
            let thread = &mut self.threads[number];
            match event {
                Event::WriteBack(line) => {
                    thread.requested = thread.requested.max(*thread.lines.get_mut(line))
                }
                Event::StoreFence => thread.fence(),
                Event::PersistCommit => thread.committing = thread.accepted,
                _ => {}
            }
            return None;
        };
        let mut coalesced = 0;
        let (thread, word) = self.parts(number, place);
        let atomic = loads && stores;
        if atomic {
            thread.fence();
            thread.loads.join(thread.stores);
        }
        if loads {
            if word.writer != number as u32 + 1 {
                thread.loads.join(word.store);
            }
            word.loads.join(thread.loads);
        }
        if stores {
            let after = thread.loads.with(thread.stores).with(word.store).with(word.loads);
            thread.stores = after;
            if atomic {
                thread.loads = after;
            }
            word.store = after;
            word.loads = Clock::default();
            word.writer = if atomic { 0 } else { number as u32 + 1 };
        }
        if !place.is_persistent() {
            return None;
        }
        let mut level = None;
        if stores {
            let found = word.store.level + 1;
            coalesced = u64::from(found == word.persist);
            word.persist = found;
            level = Some(found);
        }
        let met = thread.lines.get_mut(place.line());
        *met = (*met).max(word.persist);
        self.coalesced += coalesced;
        level
    }
}

impl Observer for CriticalPath {
    fn observe(&mut self, recorded: Recorded) {
        for event in events(recorded.operation) {
            CriticalPath::observe(self, recorded.thread, event);
        }
    }
}

impl Thread {
    /// Executes a fence under eager sync: requested write-backs become accepted; persists that were being committed become durable, and no later
    /// store is visible before that.
    fn fence(&mut self) {
        self.accepted = self.accepted.max(self.requested);
        self.stores.join(Clock::persist(self.committing, u32::MAX));
    }
}
