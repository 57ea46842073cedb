//! The volatile area in which a transaction executes if it executes neither in its log nor in place.

use strandline_core::log::{LogFull, ThreadLog};
use strandline_core::memory::{Memory, PersistentAddress};

/// The number of words that an entry has: its address and its value.
const ENTRY_WORDS: u64 = 2;

/// The words that the running transaction writes, in the order of their first writes. The location of a value is its index. The area reports each
/// access to the memory, since it takes time.
#[derive(Default)]
pub struct ExecutionArea {
    /// Addresses and newest values.
    words: Vec<(PersistentAddress, u64)>,
}

impl ExecutionArea {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Stores a word's new value, over the previous one if there is one. Returns its location.
    pub fn write<M: Memory>(
        &mut self,
        memory: &M,
        word: (PersistentAddress, u64),
        previous: Option<u32>,
    ) -> u32 {
        if let Some(place) = previous {
            memory.stored_own(1);
            self.words[place as usize] = word;
            return place;
        }
        memory.stored_own(ENTRY_WORDS);
        self.words.push(word);
        self.words.len() as u32 - 1
    }

    /// Like [`ExecutionArea::write`], if the area is later copied into `log`.
    pub fn write_for<M: Memory>(
        &mut self,
        memory: &M,
        log: &ThreadLog,
        word: (PersistentAddress, u64),
        previous: Option<u32>,
    ) -> Result<u32, LogFull> {
        if previous.is_none() {
            log.room_for(self.words.len() + 1)?;
        }
        Ok(self.write(memory, word, previous))
    }

    /// Returns the value at a location.
    pub fn value<M: Memory>(&self, memory: &M, place: u32) -> u64 {
        memory.loaded_own(1);
        self.words[place as usize].1
    }

    /// Returns addresses and newest values.
    pub fn words<M: Memory>(&self, memory: &M) -> &[(PersistentAddress, u64)] {
        memory.loaded_own(ENTRY_WORDS * self.words.len() as u64);
        &self.words
    }

    /// Returns addresses and newest values, one at a time.
    pub fn entries<M: Memory>(&self, memory: &M) -> impl ExactSizeIterator<Item = (PersistentAddress, u64)> {
        self.words.iter().map(|&entry| {
            memory.loaded_own(ENTRY_WORDS);
            entry
        })
    }
}
