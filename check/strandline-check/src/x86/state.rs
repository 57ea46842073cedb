//! A number for the state that a run has come to, so that two schedules which come to the same state are
//! continued only once.
//!
//! Equal numbers (of 64 bits) stand for states with the same future and the same crashes. The state consists of
//!
//! - *each thread*: what it will do follows from what its operations have returned so far, so a hash of those
//!   values stands for all that is local to it. A transaction's load also counts whose store it saw, so that
//!   equal states have equal transactions for the oracle;
//! - *volatile words*: their values;
//! - *each line of the pool*: what is certain to have survived, and the stores since then in their order;
//! - *write-backs asked for and not complete*: how many of the line's stores each covers;
//! - *the views*: which stores a thread's next write-backs cover. Where only one thread has stored to a line
//!   since it was last durable and that thread writes it back, it covers all of them, and views do not matter.
//!   A run that writes back a line to which others have stored reports the line as *shared*. Exploration then
//!   begins again, and for shared lines the order of their pending stores against all that views can refer to
//!   is a part of the state. When no further line is reported, every state that was ever merged was merged
//!   under the same, complete list.

use std::collections::BTreeSet;

use super::mix;
use super::trace::LineHistory;

/// The parts of the number that are kept up to date.
#[derive(Default)]
pub(crate) struct State {
    pub threads: Vec<u64>,
    pub volatile: u64,
    lines: Vec<u64>,
    sum: u64,
    /// Lines whose pending stores the views may tell apart.
    pub shared: BTreeSet<u32>,
    /// Lines that turn out to be.
    pub found_shared: BTreeSet<u32>,
}

impl State {
    pub fn new(threads: usize, lines: usize, shared: BTreeSet<u32>) -> Self {
        Self { threads: vec![1; threads], lines: vec![0; lines], shared, ..Self::default() }
    }

    /// `thread` performed an operation that returned `value`.
    pub fn performed(&mut self, thread: usize, value: u64) {
        self.threads[thread] = mix(self.threads[thread], value);
    }

    /// A volatile word changes.
    pub fn volatile(&mut self, word: usize, old: u64, new: u64) {
        let part = |value| mix(mix(word as u64, 7), value);
        self.volatile = self.volatile.wrapping_sub(part(old)).wrapping_add(part(new));
    }

    fn put(&mut self, line: u32, hash: u64) {
        let part = |hash| if hash == 0 { 0 } else { mix(mix(line.into(), 8), hash) };
        let old = std::mem::replace(&mut self.lines[line as usize], hash);
        self.sum = self.sum.wrapping_sub(part(old)).wrapping_add(part(hash));
    }

    /// A store to a word of the pool.
    pub fn stored(&mut self, word: u32, value: u64) {
        let hash = mix(mix(self.lines[word as usize / 8], (word % 8).into()), value);
        self.put(word / 8, hash);
    }

    /// Stores to a line became durable; it began with `initial`.
    pub fn completed(&mut self, history: &LineHistory, initial: &[u64], time: u32) {
        let (durable, _) = history.cuts(time);
        let mut words: [u64; 8] = std::array::from_fn(|i| initial[i]);
        history.stores[..durable].iter().for_each(|store| words[store.word as usize % 8] = store.value);
        let certain = if words == initial { 0 } else { words.iter().copied().fold(9, mix) };
        let pending = &history.stores[durable..];
        let hash =
            pending.iter().fold(certain, |hash, store| mix(mix(hash, (store.word % 8).into()), store.value));
        self.put(history.line, hash);
    }

    /// The number, but for views and write-backs.
    pub fn number(&self) -> u64 {
        let threads = self.threads.iter().enumerate().map(|(thread, &hash)| mix(hash, thread as u64));
        threads.fold(mix(self.volatile, self.sum), u64::wrapping_add)
    }
}
