//! The trace of a run, from which its crashes are explored: for every line its stores and when they became durable, and every transaction with its
//! reads and writes.
//!
//! Time counts the operations that matter; a crash *at* time `t` comes after everything up to `t`. The cut of a line is the number of its stores that
//! survive. Only the bounds of the cuts depend on the crash point. They are found by binary search, and nothing is copied.
//!
//! # Which crash points are worth trying
//!
//! Between two completions of write-backs the upper bounds of the cuts rise and the lower bounds stay, so the states of a later crash include those
//! of an earlier one. With every acknowledgement more must have survived; with every transaction that enters commit more may have survived. So every
//! violation shows just before a completion or an entry into commit, or at the end; other points are left out. If caches survive, each point has one
//! state, and every store is a point.

use std::collections::HashMap;

use strandline_core::memory::{Event, Operation};

use super::site::{Site, Source};
use super::story;

/// A store to a word of the pool.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// When it was made.
    pub time: u32,
    /// The word's number in the pool.
    pub word: u32,
    /// The stored value.
    pub value: u64,
    /// The thread that made it.
    pub thread: u32,
    /// The place in the code, if known.
    pub source: Option<Source>,
    /// True if it is part of a store of several words.
    pub is_part: bool,
}

impl Store {
    /// Returns the source line in brackets, after a space, or an empty text if it is unknown.
    pub fn source(&self) -> String {
        self.source.map_or_else(String::new, |at| format!(" ({at})"))
    }
}

/// The stores to one line, and when they became durable.
#[derive(Clone, Debug, Default)]
pub struct LineHistory {
    /// The line's number in the pool.
    pub line: u32,
    /// The stores in the order of time.
    pub stores: Vec<Store>,
    /// Pairs of a time and a number of stores: at this time that many stores were durable.
    pub durable: Vec<(u32, u32)>,
}

impl LineHistory {
    /// Returns the least and the greatest cut of a crash at `time`.
    pub fn cuts(&self, time: u32) -> (usize, usize) {
        let completed = self.durable.partition_point(|&(when, _)| when <= time);
        let upto = completed.checked_sub(1).map_or(0, |last| self.durable[last].1);
        let within = |limit| self.stores.partition_point(|store| store.time <= limit);
        (within(upto.min(time)), within(time))
    }
}

/// An update transaction that entered commit, or has stored in place.
#[derive(Clone, Debug)]
pub struct Update {
    /// Its TxID.
    pub id: u64,
    /// When it had made its last store in place and still held its locks ([`Event::Executed`]).
    pub executed: Option<u32>,
    /// Its position in an order of conflicting transactions; known when the trace is finished.
    pub order: u64,
    /// Its thread.
    pub thread: u32,
    /// The time of its first store or its entry into commit.
    pub began: u32,
    /// When it entered commit; `u32::MAX`: never.
    pub entered: u32,
    /// When it was acknowledged; `u32::MAX`: never.
    pub acknowledged: u32,
    /// Words that it read, each with the time of the store that it saw (0: the initial value).
    pub reads: Vec<(u32, u32)>,
    /// Words that it wrote, with their last values.
    pub writes: Vec<(u32, u64)>,
}

/// A read-only transaction that was acknowledged.
#[derive(Clone, Debug)]
pub struct Reader {
    /// When it was acknowledged.
    pub acknowledged: u32,
    /// Its reads, like [`Update::reads`].
    pub reads: Vec<(u32, u32)>,
}

/// An operation kept for reports.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// When it was executed.
    pub time: u32,
    /// The thread that executed it.
    pub thread: u32,
    /// The operation.
    pub operation: Operation,
    /// The place in the code of a checked program, if known.
    pub site: Option<Site>,
    /// Why it is redundant, if it is; known for checked programs.
    pub waste: Option<Waste>,
}

/// Why a write-back or a fence is redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waste {
    /// The thread has already written the line back since the last store to it.
    Redundant,
    /// The whole line is durable.
    Clean,
    /// Nothing has been written back since the thread's last fence.
    NothingPending,
}

/// A load that sees another thread's store.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The time of the operation before it.
    pub time: u32,
    /// When the store was made.
    pub store: u32,
    /// The place of the load.
    pub site: Site,
}

/// Everything in a life that a crash can depend on.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The initial, durable contents of the pool.
    pub initial: Vec<u64>,
    /// Lines that were stored to.
    pub lines: Vec<LineHistory>,
    line_index: Vec<u32>,
    /// Crash points, in order.
    pub points: Vec<u32>,
    /// Points at which a step was about to be left out, or which preemption chose.
    pub hints: Vec<u32>,
    /// Transactions in the order in which they entered commit, once the trace is finished; those that never did come last.
    pub updates: Vec<Update>,
    /// Read-only transactions.
    pub readers: Vec<Reader>,
    /// The home stores of transactions: time and index of the transaction, in the order of time.
    pub home: Vec<(u32, u32)>,
    /// Write-backs, fences and events.
    pub marks: Vec<Mark>,
    /// Loads of checked programs that were the first of their threads to see a store of another thread.
    pub seen: Vec<Seen>,
    /// Faults whatever survives: a lock released over an unfenced non-temporal store.
    pub faults: Vec<String>,
    /// The last time.
    pub time: u32,
}

impl Trace {
    /// Creates a trace that begins with `initial`.
    pub fn new(initial: Vec<u64>) -> Self {
        let lines = initial.len().div_ceil(8);
        Self { initial, line_index: vec![0; lines], ..Self::default() }
    }

    /// Returns the history of line `line`, created if there is none.
    fn line_mut(&mut self, line: u32) -> &mut LineHistory {
        let slot = &mut self.line_index[line as usize];
        if *slot == 0 {
            self.lines.push(LineHistory { line, ..LineHistory::default() });
            *slot = self.lines.len() as u32;
        }
        &mut self.lines[*slot as usize - 1]
    }

    /// Returns the history of line `line`, if it was stored to.
    pub fn line(&self, line: u32) -> Option<&LineHistory> {
        match self.line_index[line as usize] {
            0 => None,
            slot => Some(&self.lines[slot as usize - 1]),
        }
    }

    /// Advances the time by one, and returns it.
    pub fn tick(&mut self) -> u32 {
        self.time += 1;
        self.time
    }

    /// Adds `store` at a time of its own, which is returned; with `every`, also as a crash point.
    pub fn store(&mut self, store: Store, every: bool) -> u32 {
        let time = self.tick();
        self.line_mut(store.word / 8).stores.push(Store { time, ..store });
        if every {
            self.points.push(time);
        }
        time
    }

    /// Makes the present time a crash point: the next operation makes fewer states possible, or more of them right.
    pub fn point(&mut self) {
        if self.points.last() != Some(&self.time) {
            self.points.push(self.time);
        }
    }

    /// Makes all stores of `line` up to `upto` durable now.
    pub(crate) fn complete(&mut self, line: u32, upto: u32) {
        let time = self.time;
        let slot = self.line_index[line as usize];
        if slot == 0 {
            return;
        }
        let history = &mut self.lines[slot as usize - 1];
        let before = history.durable.last().map_or(0, |&(_, upto)| upto);
        let raised = history.stores.partition_point(|store| store.time <= before)
            < history.stores.partition_point(|store| store.time <= upto);
        if raised {
            history.durable.push((time, upto));
            if self.points.last() != Some(&(time - 1)) {
                self.points.push(time - 1);
            }
        }
    }

    /// Changes the history as if the stores of `line` up to `upto` had become durable at `when`.
    pub(crate) fn make_durable(&mut self, line: u32, when: u32, upto: u32) {
        let slot = self.line_index[line as usize];
        let Some(history) = (slot as usize).checked_sub(1).and_then(|at| self.lines.get_mut(at)) else {
            return;
        };
        let at = history.durable.partition_point(|&(time, _)| time <= when);
        let before = at.checked_sub(1).map_or(0, |last| history.durable[last].1);
        history.durable.insert(at, (when, upto.max(before)));
        for later in &mut history.durable[at..] {
            later.1 = later.1.max(upto);
        }
    }

    /// Records an operation of `thread` at the present time, for reports.
    pub fn mark(&mut self, thread: u32, operation: Operation) {
        self.mark_site(thread, operation, None, None);
    }

    pub(crate) fn mark_site(
        &mut self,
        thread: u32,
        operation: Operation,
        site: Option<Site>,
        waste: Option<Waste>,
    ) {
        let time = self.time;
        self.marks.push(Mark { time, thread, operation, site, waste });
    }

    /// Returns the numbers that any thread has acknowledged up to `time`, in the order of time.
    pub fn acknowledged(&self, time: u32) -> Vec<u64> {
        let upto = self.marks.partition_point(|mark| mark.time <= time);
        self.marks[..upto]
            .iter()
            .filter_map(|mark| match mark.operation {
                Operation::Event(Event::Acknowledged(id)) => Some(id),
                _ => None,
            })
            .collect()
    }

    /// Returns the history after `began` up to `time`, one operation per line, at most its last 60: stores to the pool, write-backs, fences and
    /// events. `describe` names a word of the pool.
    pub fn story(&self, began: u32, time: u32, describe: impl Fn(u32) -> String) -> Vec<String> {
        story::history(self, began, time, describe)
    }

    /// Returns the transaction that made the home store at `time`.
    pub fn writer(&self, time: u32) -> Option<usize> {
        let at = self.home.binary_search_by_key(&time, |&(when, _)| when).ok()?;
        Some(self.home[at].1 as usize)
    }

    /// Adds a transaction at its first store or its entry into commit; returns its index.
    pub(crate) fn begin_update(&mut self, thread: u32, id: u64, reads: Vec<(u32, u32)>) -> u32 {
        let (began, never) = (self.time, u32::MAX);
        let writes = Vec::new();
        self.updates.push(Update {
            id,
            executed: None,
            order: id,
            thread,
            began,
            entered: never,
            acknowledged: never,
            reads,
            writes,
        });
        self.updates.len() as u32 - 1
    }

    /// Returns the transaction with this TxID.
    pub(crate) fn update_mut(&mut self, id: u64) -> Option<&mut Update> {
        self.updates.iter_mut().rev().find(|update| update.id == id)
    }

    /// Ends the trace: makes the end a crash point, and fixes the last values of each transaction.
    pub fn finish(&mut self) {
        self.point();
        // The TxIDs of schemes that store in place need not reflect the order. They do if other transactions commit beside those that store in place.
        let committed = |update: &&Update| update.entered != u32::MAX;
        let in_place = self.updates.iter().filter(committed).all(|update| update.executed.is_some());
        for update in &mut self.updates {
            update.order = update.executed.filter(|_| in_place).map_or(update.id, u64::from);
        }
        let mut order: Vec<usize> = (0..self.updates.len()).collect();
        order.sort_by_key(|&index| self.updates[index].entered);
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| place[from] = to as u32);
        self.home.iter_mut().for_each(|(_, index)| *index = place[*index as usize]);
        self.updates.sort_by_key(|update| update.entered);
        for update in &mut self.updates {
            let mut last: HashMap<u32, u64> = HashMap::with_capacity(update.writes.len());
            last.extend(update.writes.iter().copied());
            let mut writes: Vec<_> = last.into_iter().collect();
            writes.sort_unstable();
            update.writes = writes;
            update.reads.sort_unstable();
            update.reads.dedup();
        }
    }
}
