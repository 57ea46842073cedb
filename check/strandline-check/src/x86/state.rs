//! A fingerprint of the state that a run has reached, so that only one of two schedules that reach the same state is continued.
//!
//! Equal fingerprints (of 64 bits) stand for states with the same future and the same crashes. The state consists of
//!
//! - *each thread*: the values that its operations have returned determine what it will do, so a hash of them stands for the thread's local state.
//!   For a transaction's load the hash includes which store it saw, so that equal states have equal transactions for the oracle;
//! - *volatile words*: their values;
//! - *each line of the pool*: what has certainly survived, and the stores since then in their order;
//! - *requested write-backs that are not complete*: how many of the line's stores each covers;
//! - *the views*: which stores a thread's next write-backs cover. If only one thread has stored to a line since it was last durable and that thread
//!   writes it back, the write-back covers all these stores, and views do not matter. A run that writes back a line to which other threads have
//!   stored reports the line as *shared*. Exploration then restarts, and for shared lines the order of their pending stores relative to everything
//!   that views can refer to is part of the state. When no further line is reported, every merged state was merged under the same, complete list.

use std::collections::BTreeSet;

use super::mix;
use super::trace::LineHistory;

/// The incrementally updated parts of the fingerprint.
#[derive(Default)]
pub(crate) struct State {
    pub threads: Vec<u64>,
    pub volatile: u64,
    lines: Vec<u64>,
    sum: u64,
    /// Lines whose pending stores views may distinguish.
    pub shared: BTreeSet<u32>,
    /// Lines that turn out to be shared.
    pub found_shared: BTreeSet<u32>,
}

impl State {
    pub fn new(threads: usize, lines: usize, shared: BTreeSet<u32>) -> Self {
        Self { threads: vec![1; threads], lines: vec![0; lines], shared, ..Self::default() }
    }

    /// Adds an operation of `thread` that returned `value`.
    pub fn performed(&mut self, thread: usize, value: u64) {
        self.threads[thread] = mix(self.threads[thread], value);
    }

    /// Notes the change of a volatile word.
    pub fn volatile(&mut self, word: usize, old: u64, new: u64) {
        let part = |value| mix(mix(word as u64, 7), value);
        self.volatile = self.volatile.wrapping_sub(part(old)).wrapping_add(part(new));
    }

    fn put(&mut self, line: u32, hash: u64) {
        let part = |hash| if hash == 0 { 0 } else { mix(mix(line.into(), 8), hash) };
        let old = std::mem::replace(&mut self.lines[line as usize], hash);
        self.sum = self.sum.wrapping_sub(part(old)).wrapping_add(part(hash));
    }

    /// Notes a store to a word of the pool.
    pub fn stored(&mut self, word: u32, value: u64) {
        let hash = mix(mix(self.lines[word as usize / 8], (word % 8).into()), value);
        self.put(word / 8, hash);
    }

    /// Notes that stores to a line became durable; the line's initial contents are `initial`.
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

    /// Returns the fingerprint without views and write-backs.
    pub fn number(&self) -> u64 {
        let threads = self.threads.iter().enumerate().map(|(thread, &hash)| mix(hash, thread as u64));
        threads.fold(mix(self.volatile, self.sum), u64::wrapping_add)
    }
}
