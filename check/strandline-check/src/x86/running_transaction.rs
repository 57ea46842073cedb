//! Running transactions of threads, for every world: a world reports loads, stores and events, and the trace gets transactions with their reads and
//! writes.

use std::collections::HashMap;

use strandline_core::memory::Event;

use super::trace::{Reader, Trace};

/// A thread's running transaction: converts the loads, stores and events that a world reports into the transactions of its [`Trace`].
#[derive(Default)]
pub struct RunningTransaction {
    /// The loads of the transaction before the trace had it: words, and the times of the stores that it read.
    reads: Vec<(u32, u32)>,
    /// The transaction that is committing or storing in place, as an index into the trace's.
    update: Option<u32>,
    /// True if the transaction has neither executed nor entered commit.
    running: bool,
    /// The words that it has stored to in place, and the newest store to each before that.
    before: HashMap<u32, u32>,
}

impl RunningTransaction {
    /// Returns whether loads count as the transaction's reads; it has not stored yet.
    pub fn only_reads(&self) -> bool {
        self.update.is_none()
    }

    /// Handles a load of word `word`, which belongs to transactions; it saw the store made at `saw` (0: the initial value).
    pub fn loads(&mut self, trace: &mut Trace, word: u32, saw: u32) {
        match self.update {
            None => self.reads.push((word, saw)),
            Some(update) if self.running && trace.writer(saw) != Some(update as usize) => {
                trace.updates[update as usize].reads.push((word, saw));
            }
            Some(_) => {}
        }
    }

    /// Handles a store of the thread to a word of transactions at `time`; the newest store to the word was the one at `before` (0: none).
    pub fn stores(
        &mut self,
        trace: &mut Trace,
        (thread, time): (u32, u32),
        (word, value): (u32, u64),
        before: u32,
    ) {
        if self.running {
            if self.update.is_none() {
                // The transaction stores in place before it enters commit.
                self.update = Some(trace.begin_update(thread, 0, std::mem::take(&mut self.reads)));
            }
            self.before.entry(word).or_insert(before);
        }
        if let Some(update) = self.update {
            trace.updates[update as usize].writes.push((word, value));
            trace.home.push((time, update));
        }
    }

    /// Handles an event of `thread` at the present time; `newest` returns when the newest store to a word was made, 0 if there is none.
    pub fn event(&mut self, trace: &mut Trace, thread: u32, event: Event, newest: impl Fn(u32) -> u32) {
        let time = trace.time;
        match event {
            Event::Begin => *self = Self { running: true, ..Self::default() },
            Event::Abort => {
                if let Some(update) = self.update
                    && trace.updates[update as usize].entered == u32::MAX
                {
                    self.take_back(trace, newest);
                    // Sorts it after all transactions that did something.
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
            // The transaction may have been committed by its own thread, by another, or by both.
            Event::Commit(id) => match (trace.update_mut(id), self.update) {
                (Some(update), _) => update.entered = update.entered.min(time),
                (None, Some(update)) if self.running => {
                    // The transaction has stored in place, and all its stores have been made.
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

    /// Handles a rollback: the transaction's last stores restored the previous values, so that a later read of them reads from the transaction that
    /// wrote them.
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
