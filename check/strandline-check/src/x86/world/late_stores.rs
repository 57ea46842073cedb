//! Non-temporal stores that other threads do not see yet.
//!
//! A non-temporal store of a program with several threads may be *late*: its own thread reads it immediately, other threads only when it becomes
//! visible. That happens before the thread's next fence, atomic operation, store to the line, pause or end. The schedule decides which stores are
//! late ([`Scheduler::is_late`](super::super::schedule::Scheduler::is_late)). If stores are delayed, chance decides that, and also when late stores
//! become visible.

use strandline_core::memory::{Operation, Space};

use super::{IssuedStore, Site, X86World, mix};

/// A late store, and the code that made it.
type LateStore = (IssuedStore, Option<Site>);

/// The late stores of all threads.
pub(super) struct LateStores {
    /// The stores of each thread, in program order.
    threads: Vec<Vec<LateStore>>,
    count: usize,
}

impl LateStores {
    pub fn new(threads: usize) -> Self {
        Self { threads: vec![Vec::new(); threads], count: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn is_on_line(&self, thread: usize, at: u64) -> bool {
        self.threads[thread].iter().any(|(store, _)| store.at / 64 == at / 64)
    }

    fn push(&mut self, thread: usize, store: LateStore) {
        self.threads[thread].push(store);
        self.count += 1;
    }

    /// Takes the thread's first late store, or its first one to the line at an offset.
    fn take(&mut self, thread: usize, on_line: Option<u64>) -> Option<LateStore> {
        let is_taken = |(store, _): &LateStore| on_line.is_none_or(|at| store.at / 64 == at / 64);
        let first = self.threads[thread].iter().position(is_taken)?;
        self.count -= 1;
        Some(self.threads[thread].remove(first))
    }

    /// Returns what the thread reads at `at` from its own late stores.
    fn forwarded(&self, thread: usize, at: u64) -> Option<u64> {
        self.threads[thread].iter().rev().find(|(store, _)| store.at == at).map(|(store, _)| store.value)
    }

    /// Returns a fingerprint of the late stores, 0 if there are none.
    pub fn number(&self) -> u64 {
        let thread = |(thread, late): (usize, &Vec<LateStore>)| {
            let hash =
                late.iter().fold(thread as u64, |hash, (store, _)| mix(mix(hash, store.at), store.value));
            if late.is_empty() { 0 } else { mix(hash, 14) }
        };
        self.threads.iter().enumerate().map(thread).fold(0, u64::wrapping_add)
    }
}

impl X86World {
    /// Returns whether the non-temporal store that the thread is about to make is late.
    fn is_late(&self, thread: usize, at: u64, value: u64) -> bool {
        if !self.has_late_stores.get() {
            return false;
        }
        // Stores to one line stay in order.
        if self.late.borrow().is_on_line(thread, at) {
            return true;
        }
        if let Some(delayed) = &mut *self.delayed.borrow_mut() {
            return delayed.random.bool();
        }
        self.scheduler.borrow_mut().is_late(|| {
            let (time, state) = self.present();
            (time, mix(mix(mix(mix(state, 13), thread as u64), at), value))
        })
    }

    pub(super) fn store_non_temporal(&self, thread: usize, at: u64, value: u64, site: Option<Site>) {
        let store = (IssuedStore::now(Space::Persistent, at, value, site), site);
        if self.is_late(thread, at, value) {
            self.late.borrow_mut().push(thread, store);
        } else {
            self.show(thread, store);
        }
        self.views.borrow_mut()[thread].unfenced_non_temporal = true;
    }

    /// Makes a non-temporal store visible.
    fn show(&self, thread: usize, (store, site): LateStore) {
        let (at, value) = (store.at, store.value);
        self.store(thread, store);
        self.write_back(thread, at);
        if site.is_some() {
            self.note(thread, Operation::StoreNonTemporal(at, value), site);
        }
    }

    fn show_late(&self, thread: usize, on_line: Option<u64>) {
        loop {
            let Some(store) = self.late.borrow_mut().take(thread, on_line) else { return };
            self.show(thread, store);
        }
    }

    /// Makes the late stores visible of all threads that are not in `running`.
    pub(super) fn show_late_of_ended(&self, running: &[usize]) {
        if !self.late.borrow().is_empty() {
            let threads = 0..self.views.borrow().len();
            threads
                .filter(|thread| !running.contains(thread))
                .for_each(|thread| self.show_late(thread, None));
        }
    }

    /// Makes the late stores visible that `operation` of the thread waits for; if stores are delayed, sometimes another one as well.
    pub(super) fn show_late_before(&self, thread: usize, operation: Operation) {
        if self.late.borrow().is_empty() {
            return;
        }
        match operation {
            Operation::Fence(_)
            | Operation::CompareExchange(..)
            | Operation::FetchAdd(..)
            | Operation::Pause => self.show_late(thread, None),
            Operation::Store(Space::Persistent, at, _) => self.show_late(thread, Some(at)),
            _ => {}
        }
        let some = if let Some(delayed) = &mut *self.delayed.borrow_mut()
            && delayed.random.u8(..6) == 0
        {
            let thread = delayed.random.usize(..delayed.buffers.len());
            let late = self.late.borrow();
            delayed.random.choice(&late.threads[thread]).map(|(store, _)| (thread, store.at))
        } else {
            None
        };
        if let Some((thread, at)) = some {
            let store = self.late.borrow_mut().take(thread, Some(at));
            store.into_iter().for_each(|store| self.show(thread, store));
        }
    }

    /// Returns what the thread reads from its own late stores.
    pub(super) fn forwarded_late(&self, thread: usize, space: Space, at: u64) -> Option<u64> {
        let late = self.late.borrow();
        if late.is_empty() || space != Space::Persistent { None } else { late.forwarded(thread, at) }
    }
}
