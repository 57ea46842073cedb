//! A thread's running transaction, in every world: the world reports loads, stores and events, and the trace gets
//! transactions with what they read and wrote.

use std::collections::HashMap;

use strandline_core::memory::Event;

use super::trace::{Reader, Trace};

/// A thread's running transaction: turns the loads, stores and events that a world reports into the transactions of its [`Trace`].
#[derive(Default)]
pub struct RunningTransaction {
    /// What it has read before it was in the trace: words, and the times of the stores that were read.
    reads: Vec<(u32, u32)>,
    /// The transaction in commit, or the one that is storing in place: an index into the trace's.
    update: Option<u32>,
    /// Whether it has neither executed nor entered commit.
    running: bool,
    /// Words that it has stored to in place, and the stores that were the newest before.
    before: HashMap<u32, u32>,
}

impl RunningTransaction {
    /// Returns whether loads are its reads, and none of its stores has been made.
    pub fn only_reads(&self) -> bool {
        self.update.is_none()
    }

    /// The transaction loads word `word`, which belongs to transactions, and sees the store made at `saw` (0: what was there before).
    pub fn loads(&mut self, trace: &mut Trace, word: u32, saw: u32) {
        match self.update {
            None => self.reads.push((word, saw)),
            Some(update) if self.running && trace.writer(saw) != Some(update as usize) => {
                trace.updates[update as usize].reads.push((word, saw));
            }
            Some(_) => {}
        }
    }

    /// Its thread has stored to a word of transactions at `time`; the newest store to the word was the one at `before` (0: none).
    pub fn stores(
        &mut self,
        trace: &mut Trace,
        (thread, time): (u32, u32),
        (word, value): (u32, u64),
        before: u32,
    ) {
        if self.running {
            if self.update.is_none() {
                // It stores in place before it enters commit.
                self.update = Some(trace.begin_update(thread, 0, std::mem::take(&mut self.reads)));
            }
            self.before.entry(word).or_insert(before);
        }
        if let Some(update) = self.update {
            trace.updates[update as usize].writes.push((word, value));
            trace.home.push((time, update));
        }
    }

    /// Takes an event of `thread` at the present time; `newest` returns when the newest store to a word was made, 0 if there is none.
    pub fn event(&mut self, trace: &mut Trace, thread: u32, event: Event, newest: impl Fn(u32) -> u32) {
        let time = trace.time;
        match event {
            Event::Begin => *self = Self { running: true, ..Self::default() },
            Event::Abort => {
                if let Some(update) = self.update
                    && trace.updates[update as usize].entered == u32::MAX
                {
                    self.take_back(trace, newest);
                    // Behind all those that did something.
                    trace.updates[update as usize].began = u32::MAX;
                }
                *self = Self::default();
            }
            Event::Executed(id) => {
                if let Some(update) = self.update.take() {
                    let update = &mut trace.updates[update as usize];
                    (update.id, update.executed) = (id, Some(time));
                }
                self.running = false;
            }
            Event::Commit(0) => {
                let reads = std::mem::take(&mut self.reads);
                trace.readers.push(Reader { acknowledged: time, reads });
                self.running = false;
            }
            // By its own thread or another, and perhaps by both.
            Event::Commit(id) => match (trace.update_mut(id), self.update) {
                (Some(update), _) => update.entered = update.entered.min(time),
                (None, Some(update)) if self.running => {
                    // It has stored in place, and all its stores have been made.
                    let update = &mut trace.updates[update as usize];
                    (update.id, update.entered) = (id, time);
                    self.update = None;
                    self.running = false;
                }
                (None, _) => {
                    let update = trace.begin_update(thread, id, std::mem::take(&mut self.reads));
                    trace.updates[update as usize].entered = time;
                    self.update = Some(update);
                    self.running = false;
                }
            },
            Event::Acknowledged(id) => {
                if let Some(update) = trace.update_mut(id) {
                    update.acknowledged = update.acknowledged.min(time);
                }
            }
            _ => {}
        }
    }

    /// What it has stored last, in place, is what was there before: who reads that reads from who wrote it then.
    fn take_back(&self, trace: &mut Trace, newest: impl Fn(u32) -> u32) {
        for (&word, &before) in &self.before {
            let writer = trace.writer(before);
            if let Ok(at) = trace.home.binary_search_by_key(&newest(word), |&(when, _)| when) {
                match writer {
                    Some(writer) => trace.home[at].1 = writer as u32,
                    None => drop(trace.home.remove(at)),
                }
            }
        }
    }
}
