//! Access to the memory by recovery and judges, as in any hosted world.

use std::rc::Rc;

use strandline_core::memory::{Operation, Space, Step, Window, World};

use super::{CrashMemory, Touched};

/// How often one recovery may pause before it counts as waiting forever.
const PATIENCE: u64 = 50_000_000;

impl CrashMemory {
    fn fence(&self, step: Step) {
        self.complete();
        self.note(Operation::Fence(step));
    }

    fn store_non_temporal(&self, offset: u64, value: u64) {
        self.store(Space::Persistent, offset, value);
        self.write_back(offset);
    }

    fn compare_exchange(&self, space: Space, offset: u64, current: u64, new: u64) -> u64 {
        let old = self.load(space, offset);
        if old == current {
            self.complete();
            self.store(space, offset, new);
        }
        old
    }

    fn fetch_add(&self, space: Space, offset: u64, by: u64) -> u64 {
        let old = self.load(space, offset);
        self.complete();
        self.store(space, offset, old.wrapping_add(by));
        old
    }

    fn pause(&self) {
        self.pauses.set(self.pauses.get() + 1);
        assert!(self.pauses.get() < PATIENCE, "recovery or a judge waits for ever");
    }

    fn load_range(&self, space: Space, offset: u64, into: &mut [u64]) {
        let first = self.access(space, offset);
        if space == Space::Volatile {
            for (i, word) in into.iter_mut().enumerate() {
                *word = self.load(space, offset + 8 * i as u64);
            }
            return;
        }
        let mut at = first;
        let mut rest = into;
        while !rest.is_empty() {
            let here = (8 - at % 8).min(rest.len());
            let (now, later) = rest.split_at_mut(here);
            if self.open[at / 8].get() == 0 {
                for (into, word) in now.iter_mut().zip(&self.now()[at..at + here]) {
                    *into = word.get();
                }
            } else {
                for (i, word) in now.iter_mut().enumerate() {
                    *word = self.load_word((at + i) as u32);
                }
            }
            rest = later;
            at += here;
        }
    }

    /// Stores consecutive words with one call, unless the recovery is recorded. Returns `false` if it does nothing.
    fn store_range(&self, space: Space, offset: u64, from: &[u64]) -> bool {
        if space == Space::Volatile || self.recording.get() || from.is_empty() {
            return false;
        }
        let mut at = self.access(space, offset);
        let mut rest = from;
        while !rest.is_empty() {
            let (here, later) = rest.split_at((8 - at % 8).min(rest.len()));
            let (line, open) = (at / 8, &self.open[at / 8]);
            let now = &self.now()[at..at + here.len()];
            // Most of the words that recovery zeroes are already zero. Comparing all words is faster than stopping at the first difference.
            let differ = now.iter().zip(here).fold(0, |differ, (now, &value)| differ | (now.get() ^ value));
            if open.get() != 0 || differ != 0 {
                self.touch(line, Touched::Changed);
                now.iter().zip(here).for_each(|(now, &value)| now.set(value));
                let stored = (at % 8..at % 8 + here.len()).fold(0, |stored, word| stored | 1 << word);
                open.set(open.get() & !stored);
            }
            (at, rest) = (at + here.len(), later);
        }
        true
    }

    fn leaves_out(&self, step: Step) -> bool {
        self.omitted.get() == Some(step)
    }

    fn bytes(&self, space: Space) -> u64 {
        8 * match space {
            Space::Persistent => self.base.len(),
            Space::Volatile => self.volatile.len(),
        } as u64
    }
}

impl World for CrashMemory {
    fn perform(&self, _: usize, operation: Operation) -> u64 {
        match operation {
            Operation::Load(space, at) => return self.load(space, at),
            Operation::Store(space, at, value) => self.store(space, at, value),
            Operation::StoreNonTemporal(at, value) => self.store_non_temporal(at, value),
            Operation::CompareExchange(space, at, current, new) => {
                return self.compare_exchange(space, at, current, new);
            }
            Operation::FetchAdd(space, at, by) => return self.fetch_add(space, at, by),
            Operation::WriteBack(at, _) => self.write_back(at),
            Operation::Fence(step) => self.fence(step),
            Operation::Pause => self.pause(),
            Operation::WriteBackAll(_) | Operation::Event(_) | Operation::Work(_) => {}
        }
        0
    }

    fn load_range(&self, _: usize, space: Space, offset: u64, into: &mut [u64]) {
        self.load_range(space, offset, into);
    }

    fn store_range(&self, _: usize, space: Space, offset: u64, from: &[u64], done: usize) -> usize {
        if done == 0 && self.store_range(space, offset, from) { from.len() } else { done }
    }

    fn window(&self) -> Option<Rc<Window>> {
        Some(self.window.clone())
    }

    fn write_back_range(&self, _: usize, _: u64, _: u64, _: Step) -> bool {
        // Write-backs matter only if power may fail during this run, which is then recorded.
        !self.recording.get()
    }

    fn switches(&self, _: usize) -> bool {
        false
    }

    fn omitted(&self, step: Step) -> bool {
        self.leaves_out(step)
    }

    fn size(&self, space: Space) -> u64 {
        self.bytes(space)
    }
}
