//! Compares the transactions of the paper's figures 2 to 5, event by event, with Table 1 (claims D1, D2 and D13). Tests of the library compare the
//! real schemes with the same formulas.

use std::num::NonZeroU32;

use strandline_persistency::{CriticalPath, Event, Model, Place};

/// Words of a thread's log entry, and of the volatile words that belong to it.
const ENTRY: u32 = 64;

struct Machine {
    path: CriticalPath,
    model: Model,
}

impl Machine {
    fn new(model: Model) -> Self {
        Self { path: CriticalPath::new(model), model }
    }

    fn emit(&mut self, thread: u32, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.path.observe(thread as usize, event);
        }
    }

    fn lock(&mut self, thread: u32, lock: u32) {
        self.emit(thread, [Event::Exchange(Place::volatile(lock))]);
    }

    fn unlock(&mut self, thread: u32, lock: u32) {
        self.emit(thread, [Event::Store(Place::volatile(lock))]);
    }

    /// Stores a word, and writes it back immediately if the model needs that.
    fn persist(&mut self, thread: u32, word: u32) {
        self.emit(thread, [Event::Store(Place::persistent(word))]);
        if self.model == Model::EagerSync {
            self.emit(thread, [Event::WriteBack(word / 8)]);
        }
    }

    /// Executes the model's barrier.
    fn barrier(&mut self, thread: u32) {
        match self.model {
            Model::Strict => {}
            Model::EagerSync => {
                self.emit(thread, [Event::StoreFence, Event::PersistCommit, Event::StoreFence]);
            }
            _ => self.emit(thread, [Event::PersistBarrier]),
        }
    }

    /// Executes a persist barrier, under models with strong persist atomicity only.
    fn persist_barrier(&mut self, thread: u32) {
        if self.model.strong_persist_atomicity() {
            self.barrier(thread);
        }
    }

    fn strand(&mut self, thread: u32) {
        if matches!(self.model, Model::Strand { .. }) {
            self.emit(thread, [Event::NewStrand]);
        }
    }
}

/// One transaction of a schedule.
#[derive(Clone, Copy)]
struct Transaction {
    thread: u32,
    /// The number of its log entry among all.
    entry: u32,
    /// The lock that it takes and the data that it stores to.
    data: u32,
}

/// Returns `x` transactions that `t` threads execute in turn; each thread has `entries` log entries.
fn schedule(x: u32, t: u32, entries: u32, conflicting: bool) -> Vec<Transaction> {
    let each = |number| Transaction {
        thread: number % t,
        entry: number % t * entries + number / t % entries,
        data: if conflicting { 0 } else { number },
    };
    (0..x).map(each).collect()
}

const LOCKS: u32 = 100_000;
const ENTRY_LOCKS: u32 = 200_000;
const DATA: u32 = 1 << 20;

fn log(entry: u32) -> u32 {
    ENTRY * entry
}

/// Executes Fig. 2: the commit is synchronous.
fn synchronous(model: Model, schedule: &[Transaction]) -> u32 {
    let mut machine = Machine::new(model);
    let strand = matches!(model, Model::Strand { .. });
    for &Transaction { thread, entry, data } in schedule {
        machine.strand(thread);
        machine.lock(thread, LOCKS + data);
        if strand {
            machine.lock(thread, ENTRY_LOCKS + entry);
        }
        machine.persist_barrier(thread);
        machine.persist(thread, log(entry));
        machine.persist(thread, log(entry) + 1);
        machine.barrier(thread);
        machine.persist(thread, DATA + 8 * data);
        machine.barrier(thread);
        machine.persist(thread, log(entry) + 2);
        machine.barrier(thread);
        machine.unlock(thread, LOCKS + data);
        if strand {
            machine.unlock(thread, ENTRY_LOCKS + entry);
        }
        machine.strand(thread);
    }
    machine.path.length()
}

/// Executes Fig. 5: the commit follows the release of the locks, on the transaction's own strand.
fn deferred_strand(model: Model, schedule: &[Transaction]) -> u32 {
    let mut machine = Machine::new(model);
    let mut last = std::collections::HashMap::new();
    for &Transaction { thread, entry, data } in schedule {
        machine.strand(thread);
        machine.lock(thread, LOCKS + data);
        machine.lock(thread, ENTRY_LOCKS + entry);
        machine.barrier(thread);
        machine.persist(thread, log(entry));
        machine.barrier(thread);
        machine.persist(thread, DATA + 8 * data);
        machine.unlock(thread, LOCKS + data);
        if let Some(before) = last.insert(data, entry) {
            machine.emit(thread, [Event::Load(Place::persistent(log(before) + 2))]);
        }
        machine.barrier(thread);
        machine.persist(thread, log(entry) + 2);
        // Without this barrier the entry's next user could overwrite what the commit has not retired yet.
        machine.barrier(thread);
        machine.unlock(thread, ENTRY_LOCKS + entry);
        machine.strand(thread);
    }
    machine.path.length()
}

/// Executes figs. 3 and 4: the barriers of a thread's next transactions also serve as those before and after its commit. If `drained`, every
/// transaction issues its own barriers. Log entries are not reused.
fn deferred(model: Model, schedule: &[Transaction], threads: u32, drained: bool) -> u32 {
    let eager = model == Model::EagerSync;
    let mut machine = Machine::new(model);
    let mut last = std::collections::HashMap::new();
    // For each thread the transactions that wait for a barrier before their commit (entry and predecessor), and the entries that wait for one before
    // `commit_persisted` is set.
    let mut executed: Vec<Vec<(u32, Option<u32>)>> = vec![Vec::new(); threads as usize];
    let mut committed: Vec<Vec<u32>> = vec![Vec::new(); threads as usize];
    let flag = |entry: u32| Place::volatile(ENTRY_LOCKS + entry);
    let mut after_barrier =
        |machine: &mut Machine, thread: u32, executed: &mut Vec<Vec<(u32, Option<u32>)>>| {
            for entry in committed[thread as usize].drain(..) {
                machine.emit(thread, [Event::Store(flag(entry))]);
            }
            for (entry, before) in executed[thread as usize].drain(..) {
                if let (true, Some(before)) = (eager, before) {
                    machine.emit(thread, [Event::Load(flag(before))]);
                }
                machine.persist(thread, log(entry) + 2);
                if eager {
                    committed[thread as usize].push(entry);
                }
            }
        };
    for &Transaction { thread, entry, data } in schedule {
        machine.lock(thread, LOCKS + data);
        if !eager {
            machine.barrier(thread);
            after_barrier(&mut machine, thread, &mut executed);
        }
        machine.persist(thread, log(entry));
        machine.barrier(thread);
        if eager {
            after_barrier(&mut machine, thread, &mut executed);
        }
        machine.persist(thread, DATA + 8 * data);
        machine.unlock(thread, LOCKS + data);
        let before = last.insert(data, entry);
        if let (false, Some(before)) = (eager, before) {
            machine.emit(thread, [Event::Load(Place::persistent(log(before) + 2))]);
        }
        executed[thread as usize].push((entry, before));
        if drained {
            machine.barrier(thread);
            after_barrier(&mut machine, thread, &mut executed);
            if eager {
                machine.barrier(thread);
                after_barrier(&mut machine, thread, &mut executed);
            }
        }
    }
    for thread in 0..threads {
        machine.barrier(thread);
        after_barrier(&mut machine, thread, &mut executed);
    }
    machine.path.length()
}

const UNLIMITED: Model = Model::Strand { strands: None };

fn limited(s: u32) -> Model {
    Model::Strand { strands: NonZeroU32::new(s) }
}

/// Claims D1 and D13: 3x/st is below 2x/t + 1 from two strands on.
#[test]
fn non_conflicting() {
    for t in 1..=4 {
        for each in 1..=25 {
            let x = t * each;
            for model in [Model::Epoch, Model::EagerSync] {
                assert_eq!(synchronous(model, &schedule(x, t, 1, false)), 3 * x / t, "{model} {x} {t}");
            }
            let apart = schedule(x, t, each, false);
            assert_eq!(deferred(Model::Epoch, &apart, t, false), 2 * x / t + 1, "{x} {t}");
            assert_eq!(deferred(Model::EagerSync, &apart, t, false), x / t + 2, "{x} {t}");
            for s in 1..=4 {
                let x = s * t * each;
                // The first limits strands by log entries, the second by the hardware.
                for (model, entries) in [(UNLIMITED, s), (limited(s), s * each)] {
                    let schedule = schedule(x, t, entries, false);
                    assert_eq!(synchronous(model, &schedule), 3 * x / (s * t), "{model} {x} {t} {s}");
                    assert_eq!(deferred_strand(model, &schedule), 3 * x / (s * t), "{model} {x} {t} {s}");
                }
                let epoch = deferred(Model::Epoch, &self::schedule(x, t, s * each, false), t, false);
                assert_eq!(3 * x / (s * t) < epoch, s >= 2, "{x} {t} {s}");
            }
        }
    }
}

/// Claim D2.
#[test]
fn conflicting() {
    for x in 1..=60 {
        for t in 1..=4 {
            for model in [Model::Epoch, Model::EagerSync, UNLIMITED] {
                assert_eq!(synchronous(model, &schedule(x, t, x, true)), 3 * x, "{model} {x} {t}");
            }
            // On its own strand a commit delays no other transaction, whatever the number of threads.
            assert_eq!(deferred_strand(UNLIMITED, &schedule(x, t, x, true)), x + 2, "{x} {t}");
        }
        // The commit shares an epoch with the thread's next log entry: one thread alone has two epochs for each transaction, with or without
        // conflicts.
        assert_eq!(deferred(Model::Epoch, &schedule(x, 1, x, true), 1, false), 2 * x + 1);
        for t in 2..=4 {
            assert_eq!(deferred(Model::Epoch, &schedule(x, t, x, true), t, false), x + 2, "{x} {t}");
        }
        for t in 3..=6 {
            for model in [Model::Epoch, Model::EagerSync] {
                assert_eq!(deferred(model, &schedule(x, t, x, true), t, true), x + 2, "{model} {x} {t}");
            }
        }
    }
}

/// The reason for claim D12: no barriers relax the strict model, so each persist is an epoch of its own.
#[test]
fn strict_is_longest() {
    let schedule = schedule(24, 2, 12, false);
    let strict = synchronous(Model::Strict, &schedule);
    assert!(strict > synchronous(Model::Epoch, &schedule), "{strict}");
    // Each transaction here has four persists, one after the other.
    assert_eq!(strict, 4 * 12);
}
