//! The store queue: stores and write-backs that have retired, on their way to the first level, in order.

use crate::numbers::{Cycle, LineNumber};

/// An order of persists that software asks for without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// A persist barrier: what the core stores after it persists after what it stored before.
    Barrier,
    /// A new strand: what the core stores after it is ordered after nothing of its own.
    Strand,
}

/// What a queued entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuedKind {
    /// Stores a word in the cache.
    Store,
    /// Stores a word past the cache.
    NonTemporal,
    /// Writes a line back.
    WriteBack,
    /// Orders persists.
    Order(Ordering),
}

impl QueuedKind {
    /// Returns whether it stores a word.
    pub fn stores(self) -> bool {
        matches!(self, Self::Store | Self::NonTemporal)
    }
}

/// A store, write-back or order that has retired and is not complete.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// What it does.
    pub kind: QueuedKind,
    /// The line's number in memory: its address / 64.
    pub line: LineNumber,
    /// Number of the word in the line.
    pub word: u8,
    /// The word's new value.
    pub value: u64,
    /// The cycle in which the core had done with it: it may be issued from then on.
    pub retired: Cycle,
    /// When it is complete, once it has been issued.
    pub done: Cycle,
}

/// A first-in first-out queue. Entries are issued in order, so many at a time, and complete in order.
pub struct StoreQueue {
    /// A power of two of places: a remainder is asked for at each access.
    ring: Box<[Queued]>,
    capacity: usize,
    in_flight: usize,
    /// Numbers of the oldest entry, of the first not yet issued, and of the next to come.
    head: usize,
    issued: usize,
    tail: usize,
    last_issue: Cycle,
    last_done: Cycle,
}

impl StoreQueue {
    /// An empty queue of `capacity` entries, of which `in_flight` may be in the caches at a time.
    pub fn new(capacity: usize, in_flight: usize) -> Self {
        let empty = Queued {
            kind: QueuedKind::Store,
            line: LineNumber::default(),
            word: 0,
            value: 0,
            retired: Cycle::ZERO,
            done: Cycle::ZERO,
        };
        Self {
            ring: vec![empty; (capacity + in_flight).next_power_of_two()].into(),
            capacity,
            in_flight,
            head: 0,
            issued: 0,
            tail: 0,
            last_issue: Cycle::ZERO,
            last_done: Cycle::ZERO,
        }
    }

    fn place(&self, number: usize) -> usize {
        number & (self.ring.len() - 1)
    }

    fn at(&self, number: usize) -> &Queued {
        &self.ring[self.place(number)]
    }

    /// Lets go of what is complete by `now`; entries left.
    pub fn occupancy(&mut self, now: Cycle) -> usize {
        while self.head < self.issued && self.at(self.head).done <= now {
            self.head += 1;
        }
        self.tail - self.head
    }

    /// Returns whether there is room, once [`StoreQueue::occupancy`] has been asked.
    pub fn is_full(&self) -> bool {
        self.tail - self.head == self.capacity
    }

    /// When the oldest entry is complete; `None` if it has not been issued.
    pub fn head_done(&self) -> Option<Cycle> {
        (self.head < self.issued).then(|| self.at(self.head).done)
    }

    /// Adds an entry behind all others; there must be room.
    pub fn push(&mut self, entry: Queued) {
        debug_assert!(!self.is_full());
        let at = self.place(self.tail);
        self.ring[at] = entry;
        self.tail += 1;
    }

    /// When the next entry is issued; [`Cycle::NEVER`] if there is none.
    pub fn next_issue(&self) -> Cycle {
        if self.issued == self.tail {
            return Cycle::NEVER;
        }
        let mut at = self.at(self.issued).retired;
        if self.issued > 0 {
            at = at.max(self.last_issue + 1);
        }
        if self.issued >= self.in_flight {
            at = at.max(self.at(self.issued - self.in_flight).done);
        }
        at
    }

    /// The next entry to issue.
    pub fn next(&self) -> Queued {
        *self.at(self.issued)
    }

    /// The next entry was issued at `at` and is in the cache at `done`.
    pub fn issue(&mut self, at: Cycle, done: Cycle) {
        self.last_issue = at;
        self.last_done = self.last_done.max(done);
        let index = self.place(self.issued);
        self.ring[index].done = self.last_done;
        self.issued += 1;
    }

    /// The next entry cannot be issued before `until`.
    pub fn delay(&mut self, until: Cycle) {
        let index = self.place(self.issued);
        self.ring[index].retired = self.ring[index].retired.max(until);
    }

    /// Returns whether everything has been issued.
    pub fn is_issued(&self) -> bool {
        self.issued == self.tail
    }

    /// When everything issued so far is complete.
    pub fn last_done(&self) -> Cycle {
        self.last_done
    }

    /// The newest value that the queue has for a word.
    pub fn forward(&self, line: LineNumber, word: u8) -> Option<u64> {
        (self.issued..self.tail)
            .rev()
            .map(|number| self.at(number))
            .find(|entry| entry.line == line && entry.word == word && entry.kind.stores())
            .map(|entry| entry.value)
    }
}
