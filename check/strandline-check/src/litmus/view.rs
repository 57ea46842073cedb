//! The view-based Px86 model: one configuration, and the steps that lead out of it.
//!
//! | operation | effect |
//! |---|---|
//! | store l | append at ts; `coh[l] = ts` |
//! | load l | pick ts ≥ `coh[l]` such that no store to l lies in (ts, `vrn`]; v = 0 if ts = `coh[l]`, else ts; `coh[l] = ts`; `vrn ⊔= v`; `vpr ⊔= v` |
//! | successful read-modify-write | read the latest, append; `coh[l] = ts`; `vrn, vpr ⊔= ts`; on all lines `vpc ⊔= vpa` |
//! | failed compare-and-swap | as a load |
//! | mfence | `vrn, vpr ⊔= cohmax`; on all lines `vpc ⊔= vpa` |
//! | sfence | `vpr ⊔= cohmax`; on all lines `vpc ⊔= vpa` |
//! | clflush L | `vpa[L], vpc[L] ⊔= cohmax` |
//! | clflushopt L, clwb L | `vpa[L] ⊔= max(coh of the locations in L) ⊔ vpr` |
//! | non-temporal store l | as a store followed by clwb of its line |
//! | crash | for each line a cut ≥ the maximum over threads of `vpc[line]`; each location of the line holds its latest store at or before the cut |

use super::{Operand, Operation, Test};

/// A timestamp: 1 for the first store, 0 for the initial state.
pub(super) type Stamp = u8;

/// A store. No rule asks which thread made it.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Message {
    pub location: usize,
    pub value: u64,
}

/// A thread's place in its program, and its views.
#[derive(Clone)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Thread {
    /// The next operation.
    pub next: usize,
    pub registers: Vec<u64>,
    /// By location: coherence, the store last read or written.
    pub coh: Vec<Stamp>,
    /// What a load must have seen.
    pub vrn: Stamp,
    /// What a `clflushopt` must have seen.
    pub vpr: Stamp,
    /// By line: a write-back of everything up to here is asked for.
    pub vpa: Vec<Stamp>,
}

impl Thread {
    pub fn cohmax(&self) -> Stamp {
        self.coh.iter().copied().max().unwrap_or(0)
    }

    fn value(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Number(number) => number,
            Operand::Register(register) => self.registers[register],
        }
    }
}

/// A configuration.
#[derive(Clone)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct State {
    /// The store with timestamp ts is `memory[ts - 1]`.
    pub memory: Vec<Message>,
    pub threads: Vec<Thread>,
    /// By line: a write-back of everything up to here is complete. The rules keep one for each thread and only
    /// ever use their maximum; this is the maximum.
    pub vpc: Vec<Stamp>,
}

impl State {
    /// Nothing has run.
    pub fn initial(test: &Test) -> Self {
        let thread = |thread| Thread {
            next: 0,
            registers: vec![0; test.registers(thread)],
            coh: vec![0; test.locations.len()],
            vrn: 0,
            vpr: 0,
            vpa: vec![0; test.lines.len()],
        };
        Self {
            memory: Vec::new(),
            threads: (0..test.threads.len()).map(thread).collect(),
            vpc: vec![0; test.lines.len()],
        }
    }

    /// The value of the store to `location` at `stamp`.
    pub fn value(&self, stamp: Stamp) -> u64 {
        stamp.checked_sub(1).map_or(0, |index| self.memory[usize::from(index)].value)
    }

    /// The stores with their timestamps, in order.
    pub fn stores(&self) -> impl DoubleEndedIterator<Item = (Stamp, Message)> {
        self.memory.iter().enumerate().map(|(index, &message)| ((index + 1) as Stamp, message))
    }

    /// The timestamp of the last store to `location` at or before `until`.
    pub fn last_store(&self, location: usize, until: Stamp) -> Stamp {
        let to_location = |&(_, message): &(Stamp, Message)| message.location == location;
        let until = usize::from(until).min(self.memory.len());
        self.stores().take(until).filter(to_location).last().map_or(0, |(stamp, _)| stamp)
    }

    /// What the thread's next load of `location` may read.
    fn readable(&self, thread: usize, location: usize) -> Vec<Stamp> {
        let Thread { coh, vrn, .. } = &self.threads[thread];
        let first = coh[location].max(self.last_store(location, *vrn));
        let later = self
            .stores()
            .filter(|&(stamp, message)| message.location == location && stamp > first)
            .map(|(stamp, _)| stamp);
        std::iter::once(first).chain(later).collect()
    }

    fn append(&mut self, thread: usize, location: usize, value: u64) -> Stamp {
        self.memory.push(Message { location, value });
        let stamp = self.memory.len() as Stamp;
        self.threads[thread].coh[location] = stamp;
        stamp
    }

    fn read(&mut self, thread: usize, location: usize, register: usize, stamp: Stamp) {
        let value = self.value(stamp);
        let thread = &mut self.threads[thread];
        let view = if stamp == thread.coh[location] { 0 } else { stamp };
        thread.coh[location] = stamp;
        thread.vrn = thread.vrn.max(view);
        thread.vpr = thread.vpr.max(view);
        thread.registers[register] = value;
    }

    fn ask_write_back(&mut self, test: &Test, thread: usize, line: usize) {
        let thread = &mut self.threads[thread];
        let on_line = test.locations.iter().zip(&thread.coh).filter(|(location, _)| location.line == line);
        let coh = on_line.map(|(_, &coh)| coh).max().unwrap_or(0);
        thread.vpa[line] = thread.vpa[line].max(coh).max(thread.vpr);
    }

    /// What a thread has asked for is complete.
    fn complete_write_backs(&mut self, thread: usize) {
        for (complete, &asked) in self.vpc.iter_mut().zip(&self.threads[thread].vpa) {
            *complete = (*complete).max(asked);
        }
    }

    /// A successful read-modify-write.
    fn modify(&mut self, thread: usize, location: usize, register: usize, value: u64) {
        let old = self.value(self.last_store(location, Stamp::MAX));
        let stamp = self.append(thread, location, value);
        self.threads[thread].registers[register] = old;
        self.threads[thread].vrn = stamp;
        self.threads[thread].vpr = stamp;
        self.complete_write_backs(thread);
    }

    /// This configuration after the thread has read the store at `stamp`.
    fn reading(&self, thread: usize, location: usize, register: usize, stamp: Stamp) -> Self {
        let mut next = self.clone();
        next.read(thread, location, register, stamp);
        next
    }

    fn flush(&mut self, thread: usize, line: usize) {
        let cohmax = self.threads[thread].cohmax();
        let asked = &mut self.threads[thread].vpa[line];
        *asked = (*asked).max(cohmax);
        self.vpc[line] = self.vpc[line].max(cohmax);
    }

    /// A fence, which orders the thread's loads as well if it `orders_loads`.
    fn fence(&mut self, thread: usize, orders_loads: bool) {
        let fenced = &mut self.threads[thread];
        let cohmax = fenced.cohmax();
        fenced.vpr = fenced.vpr.max(cohmax);
        if orders_loads {
            fenced.vrn = fenced.vrn.max(cohmax);
        }
        self.complete_write_backs(thread);
    }

    /// All configurations that the thread's next operation may lead to; none if it has ended.
    pub fn steps(&self, test: &Test, thread: usize) -> Vec<Self> {
        let Some(&operation) = test.threads[thread].get(self.threads[thread].next) else { return Vec::new() };
        let mut next = self.clone();
        next.threads[thread].next += 1;
        let value = |operand| self.threads[thread].value(operand);
        match operation {
            Operation::Store { location, value: operand, non_temporal } => {
                next.append(thread, location, value(operand));
                if non_temporal {
                    next.ask_write_back(test, thread, test.locations[location].line);
                }
            }
            Operation::Load { register, location } => {
                let choices = self.readable(thread, location);
                return choices
                    .into_iter()
                    .map(|stamp| next.reading(thread, location, register, stamp))
                    .collect();
            }
            Operation::CompareExchange { register, location, expected, new } => {
                let choices = self.readable(thread, location).into_iter();
                let failures = choices.filter(|&stamp| self.value(stamp) != value(expected));
                let mut outcomes: Vec<Self> =
                    failures.map(|stamp| next.reading(thread, location, register, stamp)).collect();
                if self.value(self.last_store(location, Stamp::MAX)) == value(expected) {
                    next.modify(thread, location, register, value(new));
                    outcomes.push(next);
                }
                return outcomes;
            }
            Operation::FetchAdd { register, location, amount } => {
                let old = self.value(self.last_store(location, Stamp::MAX));
                next.modify(thread, location, register, old.wrapping_add(value(amount)));
            }
            Operation::Clflush { line } => {
                next.flush(thread, line);
            }
            Operation::WriteBack { line } => next.ask_write_back(test, thread, line),
            Operation::Sfence | Operation::Mfence => {
                next.fence(thread, operation == Operation::Mfence);
            }
            Operation::If { register, equals, operations } => {
                let thread = &mut next.threads[thread];
                if thread.registers[register] != equals {
                    thread.next += operations;
                }
            }
        }
        vec![next]
    }

    /// Runs every step that changes neither another thread's choices nor what a crash may leave, in either
    /// order with the other threads' steps: one order is enough.
    pub fn run_silent_steps(&mut self, test: &Test) {
        'again: loop {
            for thread in 0..self.threads.len() {
                if let Some(next) = self.silent_step(test, thread) {
                    *self = next;
                    continue 'again;
                }
            }
            return;
        }
    }

    fn silent_step(&self, test: &Test, thread: usize) -> Option<Self> {
        match test.threads[thread].get(self.threads[thread].next)? {
            Operation::If { .. } | Operation::WriteBack { .. } => self.steps(test, thread).pop(),
            Operation::Clflush { .. } | Operation::Sfence | Operation::Mfence => {
                let next = self.steps(test, thread).pop()?;
                // Silent if nothing that a crash could have lost is written back.
                let completed = self.stores().any(|(stamp, message)| {
                    let line = test.locations[message.location].line;
                    stamp > self.vpc[line] && stamp <= next.vpc[line]
                });
                (!completed).then_some(next)
            }
            _ => None,
        }
    }
}
