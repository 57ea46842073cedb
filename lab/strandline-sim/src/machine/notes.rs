//! Notes of what threads did, and which store each load saw, for a judge of power failures.

use std::collections::VecDeque;

use strandline_core::memory::Event;

use crate::numbers::{CoreId, Cycle, LineNumber};

/// An action of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// The hardware thread, from 0.
    pub thread: u32,
    /// The cycle in which it happened.
    pub at: Cycle,
    /// The thread's action.
    pub what: Noted,
}

/// An operation on the pool, or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// A load of a word.
    Load {
        /// The word's number in the pool.
        word: u32,
        /// One more than the index, among the notes, of the store that it saw; 0 for the initial contents.
        saw: u32,
    },
    /// A store to a word.
    Store {
        /// The word's number in the pool.
        word: u32,
        /// The value that was stored.
        value: u64,
    },
    /// The begin, commit, acknowledgement or end of a transaction.
    Event(Event),
}

/// The notes of a run.
#[derive(Debug)]
pub(super) struct Notes {
    pub list: Vec<Note>,
    /// For each word of the pool the store that other cores see, encoded as in [`Noted::Load`].
    visible: Vec<u32>,
    /// For each core its stores that others do not see yet.
    queued: Vec<VecDeque<u32>>,
}

impl Notes {
    pub fn new(words: usize, cores: usize) -> Self {
        Self { list: Vec::new(), visible: vec![0; words], queued: vec![VecDeque::new(); cores] }
    }

    fn add(&mut self, thread: usize, at: Cycle, what: Noted) {
        self.list.push(Note { thread: thread as u32, at, what });
    }

    pub fn event(&mut self, thread: usize, at: Cycle, event: Event) {
        self.add(thread, at, Noted::Event(event));
    }

    /// Notes a store of `core`, which others do not see yet.
    pub fn store(&mut self, core: CoreId, at: Cycle, line: LineNumber, word: u8, value: u64) {
        let word = line.first_word() as u32 + u32::from(word);
        if (word as usize) < self.visible.len() {
            self.add(core.index(), at, Noted::Store { word, value });
            self.queued[core].push_back(self.list.len() as u32);
        }
    }

    /// Notes that the oldest of `core`'s unseen stores, which is to `line`, is visible now.
    pub fn seen(&mut self, core: CoreId, line: LineNumber) {
        if line.first_word() < self.visible.len()
            && let Some(store) = self.queued[core].pop_front()
            && let Noted::Store { word, .. } = self.list[store as usize - 1].what
        {
            self.visible[word as usize] = store;
        }
    }

    pub fn load(&mut self, core: CoreId, at: Cycle, line: LineNumber, word: u8) {
        let word = line.first_word() as u32 + u32::from(word);
        if (word as usize) < self.visible.len() {
            let of_word = |&&store: &&u32| matches!(self.list[store as usize - 1].what, Noted::Store { word: stored, .. } if stored == word);
            let own = self.queued[core].iter().rev().find(of_word).copied();
            let saw = own.unwrap_or(self.visible[word as usize]);
            self.add(core.index(), at, Noted::Load { word, saw });
        }
    }
}
