//! Data races on words of the pool: two accesses of different threads to a word, at least one of them a store and at least one of them not atomic,
//! that nothing orders.
//!
//! Each thread has a *vector clock*: for every thread, the time up to which it knows that thread's actions. An atomic operation on a word joins the
//! word's clock into the thread's (acquire) and stores the thread's clock there (release). Words of volatile memory, among them the locks, exist for
//! synchronisation, so all accesses to them are atomic. For each word of the pool the last access of each thread and kind is kept, with the thread's
//! own time (as in FastTrack, Flanagan and Freund, PLDI 2009). An access races with the kept accesses that are later than the accessing thread knows.
//!
//! A program without data races behaves on x86 as if every store reached memory immediately. So it suffices to look for races in runs without delayed
//! stores.

use std::fmt;

use strandline_core::memory::{Operation, Space};

use super::site::Site;

/// One of the two accesses of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RacingAccess {
    /// The thread that makes it.
    pub thread: usize,
    /// The place in the code.
    pub site: Site,
    /// True if it stores.
    pub is_store: bool,
    /// True if it is atomic. If it is, the other access is not.
    pub is_atomic: bool,
}

impl fmt::Display for RacingAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let atomic = if self.is_atomic { "atomic " } else { "" };
        let what = if self.is_store { "store" } else { "load" };
        write!(f, "thread {}: {atomic}{what} ({})", self.thread, self.site)
    }
}

/// Two unordered accesses to a word, in the order in which they happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Race {
    pub word: u32,
    pub accesses: [RacingAccess; 2],
}

/// The last access of its thread and kind to its word.
struct Last {
    access: RacingAccess,
    /// The thread's own time.
    time: u32,
    /// One more than the index of the next access to the same word; 0 if there is none.
    next: u32,
}

/// The order of a run's accesses, and the races found in it.
pub(crate) struct HappensBefore {
    threads: usize,
    /// The vector clocks of all threads, one after the other.
    clocks: Vec<u32>,
    /// The clocks that atomic operations have left at words, one after the other.
    released: Vec<u32>,
    /// For each word of each space one more than the index of its clock in `released`; 0 if it has none.
    places: [Vec<u32>; 2],
    /// The first access to each word of the pool, numbered like `next`.
    words: Vec<u32>,
    accesses: Vec<Last>,
    pub found: Vec<Race>,
}

impl HappensBefore {
    pub fn new(threads: usize, words: usize, volatile: usize) -> Self {
        let clock = |thread| (0..threads).map(move |other| u32::from(other == thread));
        Self {
            threads,
            clocks: (0..threads).flat_map(clock).collect(),
            released: Vec::new(),
            places: [vec![0; words], vec![0; volatile]],
            words: vec![0; words],
            accesses: Vec::with_capacity(64),
            found: Vec::new(),
        }
    }

    /// Handles `operation` of `thread`, which returned `value`. Accesses to the pool are examined if `site` is known. `is_atomic` marks loads with
    /// acquire and stores with release ordering.
    pub fn performed(
        &mut self,
        thread: usize,
        operation: Operation,
        value: u64,
        (site, is_atomic): (Option<Site>, bool),
    ) {
        let (space, at, is_store, is_read_modify_write) = match operation {
            Operation::Load(space, at) => (space, at, false, false),
            Operation::Store(space, at, _) => (space, at, true, false),
            Operation::StoreNonTemporal(at, _) => (Space::Persistent, at, true, false),
            Operation::CompareExchange(space, at, current, _) => (space, at, value == current, true),
            Operation::FetchAdd(space, at, _) => (space, at, true, true),
            _ => return,
        };
        let word = (at / 8) as usize;
        let is_atomic = is_atomic || is_read_modify_write || space == Space::Volatile;
        if is_atomic && (!is_store || is_read_modify_write) {
            self.acquire(thread, space, word);
        }
        if let (Space::Persistent, Some(site)) = (space, site) {
            self.access(word, RacingAccess { thread, site, is_store, is_atomic });
        }
        if is_atomic && is_store {
            self.release(thread, space, word);
        }
    }

    fn place(&mut self, space: Space, word: usize) -> &mut u32 {
        &mut self.places[usize::from(space == Space::Volatile)][word]
    }

    fn acquire(&mut self, thread: usize, space: Space, word: usize) {
        if let Some(index) = (*self.place(space, word) as usize).checked_sub(1) {
            let threads = self.threads;
            let released = &self.released[index * threads..][..threads];
            let clock = self.clocks[thread * threads..].iter_mut();
            clock.zip(released).for_each(|(known, &left)| *known = left.max(*known));
        }
    }

    fn release(&mut self, thread: usize, space: Space, word: usize) {
        let threads = self.threads;
        let new = (self.released.len() / threads + 1) as u32;
        let place = self.place(space, word);
        let is_new = *place == 0;
        if is_new {
            *place = new;
        }
        let index = *place as usize - 1;
        let clock = &mut self.clocks[thread * threads..][..threads];
        if is_new {
            self.released.extend_from_slice(clock);
        } else {
            self.released[index * threads..][..threads].copy_from_slice(clock);
        }
        clock[thread] += 1;
    }

    /// Compares `access` with the last accesses to its word, and adds it to them.
    fn access(&mut self, word: usize, access: RacingAccess) {
        let clock = &self.clocks[access.thread * self.threads..][..self.threads];
        let time = clock[access.thread];
        let first = self.words[word];
        let (mut next, mut own) = (first, None);
        while let Some(index) = (next as usize).checked_sub(1) {
            let last = &self.accesses[index];
            let before = last.access;
            if before.thread == access.thread {
                if (before.is_store, before.is_atomic) == (access.is_store, access.is_atomic) {
                    own = Some(index);
                }
            } else if last.time > clock[before.thread]
                && (before.is_store || access.is_store)
                && !(before.is_atomic && access.is_atomic)
            {
                self.found.push(Race { word: word as u32, accesses: [before, access] });
            }
            next = last.next;
        }
        match own {
            Some(index) => (self.accesses[index].access, self.accesses[index].time) = (access, time),
            None => {
                self.accesses.push(Last { access, time, next: first });
                self.words[word] = self.accesses.len() as u32;
            }
        }
    }
}
