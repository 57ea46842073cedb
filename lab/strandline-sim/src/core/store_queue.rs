//! The store queue: retired stores and write-backs, on their way to the first level, in order.

use crate::numbers::{Cycle, LineNumber};

/// An order of persists that software requests without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// A persist barrier: the core's later stores persist after its earlier ones.
    Barrier,
    /// A new strand: the core's later stores are not ordered after its earlier ones.
    Strand,
}

/// The operation of a queued entry.
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
    /// The entry's operation.
    pub kind: QueuedKind,
    /// The line's number in memory: its address / 64.
    pub line: LineNumber,
    /// Number of the word in the line.
    pub word: u8,
    /// The word's new value.
    pub value: u64,
    /// When the core has retired it; it may be issued from then on.
    pub retired: Cycle,
    /// When it is complete, once it has been issued.
    pub done: Cycle,
}

/// A first-in first-out queue. Entries are issued in order, with a limited number in flight, and complete in order.
pub struct StoreQueue {
    /// The entries. Its length is a power of two, since each access computes a remainder.
    ring: Box<[Queued]>,
    capacity: usize,
    in_flight: usize,
    /// Numbers of the oldest entry, of the first one not yet issued, and of the next one to come.
    head: usize,
    issued: usize,
    tail: usize,
    last_issue: Cycle,
    last_done: Cycle,
}

impl StoreQueue {
    /// Creates an empty queue of `capacity` entries, of which `in_flight` may be in the caches at a time.
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

    /// Removes entries that are complete by `now`. Returns how many are left.
    pub fn occupancy(&mut self, now: Cycle) -> usize {
        while self.head < self.issued && self.at(self.head).done <= now {
            self.head += 1;
        }
        self.tail - self.head
    }

    /// Returns whether the queue is full. [`StoreQueue::occupancy`] must have been called before.
    pub fn is_full(&self) -> bool {
        self.tail - self.head == self.capacity
    }

    /// Returns when the oldest entry is complete; `None` if it has not been issued.
    pub fn head_done(&self) -> Option<Cycle> {
        (self.head < self.issued).then(|| self.at(self.head).done)
    }

    /// Appends an entry; there must be room.
    pub fn push(&mut self, entry: Queued) {
        debug_assert!(!self.is_full());
        let at = self.place(self.tail);
        self.ring[at] = entry;
        self.tail += 1;
    }

    /// Returns when the next entry is issued; [`Cycle::NEVER`] if there is none.
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

    /// Returns the next entry to issue.
    pub fn next(&self) -> Queued {
        *self.at(self.issued)
    }

    /// Marks the next entry as issued at `at` and in the cache at `done`.
    pub fn issue(&mut self, at: Cycle, done: Cycle) {
        self.last_issue = at;
        self.last_done = self.last_done.max(done);
        let index = self.place(self.issued);
        self.ring[index].done = self.last_done;
        self.issued += 1;
    }

    /// Delays the next entry's issue until `until`.
    pub fn delay(&mut self, until: Cycle) {
        let index = self.place(self.issued);
        self.ring[index].retired = self.ring[index].retired.max(until);
    }

    /// Returns whether everything has been issued.
    pub fn is_issued(&self) -> bool {
        self.issued == self.tail
    }

    /// Returns when everything issued so far is complete.
    pub fn last_done(&self) -> Cycle {
        self.last_done
    }

    /// Returns the newest value that the queue has for a word.
    pub fn forward(&self, line: LineNumber, word: u8) -> Option<u64> {
        (self.issued..self.tail)
            .rev()
            .map(|number| self.at(number))
            .find(|entry| entry.line == line && entry.word == word && entry.kind.stores())
            .map(|entry| entry.value)
    }
}
