//! The volatile area that a transaction executes in where it executes neither in its log nor in place.

use strandline_core::log::{LogFull, ThreadLog};
use strandline_core::memory::PersistentAddress;

/// The words that the running transaction writes, in the order of their first writes. A value's place is its index.
#[derive(Default)]
pub struct ExecutionArea {
    /// Addresses and newest values.
    pub words: Vec<(PersistentAddress, u64)>,
}

impl ExecutionArea {
    /// Forgets everything.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Keeps a word's new value, over the previous one if there is one; returns its place.
    #[inline(always)]
    pub fn write(&mut self, word: (PersistentAddress, u64), previous: Option<u32>) -> u32 {
        if let Some(place) = previous {
            self.words[place as usize] = word;
            return place;
        }
        self.words.push(word);
        self.words.len() as u32 - 1
    }

    /// The same where the area is to go into `log`.
    #[inline(always)]
    pub fn write_for(
        &mut self,
        log: &ThreadLog,
        word: (PersistentAddress, u64),
        previous: Option<u32>,
    ) -> Result<u32, LogFull> {
        if previous.is_none() {
            log.room_for(self.words.len() + 1)?;
        }
        Ok(self.write(word, previous))
    }

    /// The value at a place.
    #[inline(always)]
    pub fn value(&self, place: u32) -> u64 {
        self.words[place as usize].1
    }
}
