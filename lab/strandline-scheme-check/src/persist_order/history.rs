//! Derives the oracle's trace from a recorded stream: transactions that store in place, with their reads and writes.

use std::collections::HashMap;

use strandline_core::memory::recorder::Recorded;
use strandline_core::memory::{Event, Operation, Space};

use strandline_check::x86::{Reader, Store, Trace, Update};

/// A transaction that has not entered commit.
#[derive(Default)]
struct Running {
    reads: Vec<(u32, u32)>,
    writes: Vec<(u32, u64)>,
    /// The times of its stores.
    stores: Vec<u32>,
    /// The last store to each of its words before its own.
    before: HashMap<u32, u32>,
    /// When it had made its last store.
    executed: Option<u32>,
}

/// Returns the word and value that `recorded` stores to the pool, if it does.
pub fn persist(recorded: &Recorded) -> Option<(u32, u64)> {
    match recorded.operation {
        Operation::Store(Space::Persistent, at, value)
        | Operation::StoreNonTemporal(at, value)
        | Operation::CompareExchange(Space::Persistent, at, _, value) => Some(((at / 8) as u32, value)),
        Operation::FetchAdd(Space::Persistent, at, by) => {
            Some(((at / 8) as u32, recorded.value.wrapping_add(by)))
        }
        _ => None,
    }
}

impl Running {
    /// Adds this transaction to `trace`: thread `thread` commits it at `time` as number `id`.
    fn commit(self, trace: &mut Trace, id: u64, thread: u32, time: u32) {
        let index = trace.updates.len() as u32;
        trace.home.extend(self.stores.iter().map(|&store| (store, index)));
        trace.updates.push(Update {
            id,
            executed: self.executed,
            order: id,
            thread,
            began: self.stores.first().copied().unwrap_or(time),
            entered: time,
            acknowledged: u32::MAX,
            reads: self.reads,
            writes: self.writes,
        });
    }
}

/// Returns the trace of `stream`, which began on a pool holding `initial`; time is the number of operations. Words for which `data` holds belong to
/// transactions. A thread's stores to them between [`Event::Begin`] and [`Event::Executed`] belong to its transaction; a transaction that commits
/// without `Executed` wrote nothing.
pub fn trace(initial: Vec<u64>, stream: &[Recorded], threads: usize, data: impl Fn(u32) -> bool) -> Trace {
    let mut tracer = Tracer {
        trace: Trace::new(initial),
        running: (0..threads).map(|_| Running::default()).collect(),
        executed: HashMap::new(),
        latest: HashMap::new(),
    };
    for recorded in stream {
        match persist(recorded) {
            Some((word, value)) => tracer.store(recorded.thread, (word, value), data(word)),
            None => tracer.step(recorded, &data),
        }
    }
    let mut trace = tracer.trace;
    trace.home.sort_unstable();
    trace.finish();
    trace
}

/// A trace under construction.
struct Tracer {
    trace: Trace,
    /// The transaction of each thread.
    running: Vec<Running>,
    /// Transactions that have executed and not entered commit, by their numbers.
    executed: HashMap<u64, Running>,
    /// The last store to each word of transactions.
    latest: HashMap<u32, u32>,
}

impl Tracer {
    fn store(&mut self, thread: usize, (word, value): (u32, u64), is_data: bool) {
        let time = self.trace.store(
            Store { thread: thread as u32, word, value, source: None, is_part: false, time: 0 },
            false,
        );
        if is_data {
            let present = &mut self.running[thread];
            let before = self.latest.insert(word, time).unwrap_or(0);
            present.before.entry(word).or_insert(before);
            present.writes.push((word, value));
            present.stores.push(time);
        }
    }

    /// Handles an operation other than a store to the pool.
    fn step(&mut self, recorded: &Recorded, data: impl Fn(u32) -> bool) {
        let thread = recorded.thread;
        let time = self.trace.tick();
        match recorded.operation {
            Operation::Load(Space::Persistent, at) => {
                let word = (at / 8) as u32;
                let present = &mut self.running[thread];
                if data(word) && !present.before.contains_key(&word) {
                    present.reads.push((word, self.latest.get(&word).copied().unwrap_or(0)));
                }
            }
            Operation::Event(event) => self.event(thread, event, time),
            _ => {}
        }
        self.trace.mark(thread as u32, recorded.operation);
    }

    fn event(&mut self, thread: usize, event: Event, time: u32) {
        let (trace, present) = (&mut self.trace, &mut self.running[thread]);
        match event {
            Event::Begin => *present = Running::default(),
            Event::Executed(id) => {
                let executed = Running { executed: Some(time), ..std::mem::take(present) };
                self.executed.insert(id, executed);
            }
            Event::Commit(0) => {
                let reads = std::mem::take(present).reads;
                trace.readers.push(Reader { acknowledged: time, reads });
            }
            // A thread that waits for a transaction may commit it concurrently with its owner.
            Event::Commit(id) if trace.updates.iter().any(|update| update.id == id) => {}
            Event::Commit(id) => {
                trace.point();
                let done = self.executed.remove(&id).unwrap_or_default();
                done.commit(trace, id, thread as u32, time);
            }
            Event::Acknowledged(id) => {
                if let Some(update) = trace.updates.iter_mut().find(|update| update.id == id) {
                    update.acknowledged = time;
                }
            }
            Event::Abort => {
                // The transaction has restored the old values.
                for (word, before) in std::mem::take(present).before {
                    self.latest.insert(word, before);
                }
            }
            _ => {}
        }
    }
}
