//! The view-based Px86 model: a configuration, and its steps.
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
//! | non-temporal store l | joins the thread's *late* stores, which its own loads of l read (v = 0) and other threads do not; so does a store that a later non-temporal store of the thread may overtake |
//! | a late store becomes visible | at any time, after the earlier late stores to its line, and if it is not non-temporal after all earlier ones that are not: as a store, followed by clwb of its line if it is non-temporal or if a clwb of its line came after it |
//! | crash | for each line a cut ≥ the maximum over threads of `vpc[line]`; each location of the line holds its latest store at or before the cut |
//!
//! An sfence, an mfence and a successful read-modify-write wait until the thread has no late store. A store and a clflush wait until the thread's
//! only late stores are non-temporal, and a store also until none of them is to its line.

use super::{Operand, Operation, Test};

/// A timestamp: 1 for the first store, 0 for the initial state.
pub(super) type Stamp = u8;

/// A store. The rules do not depend on which thread made it.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Message {
    pub location: usize,
    pub value: u64,
}

/// A store that is not yet visible to other threads.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Late {
    pub message: Message,
    pub non_temporal: bool,
    /// True if its line is written back as soon as the store is visible.
    pub write_back: bool,
}

/// A thread's place in its program, and its views.
#[derive(Clone)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Thread {
    /// The next operation.
    pub next: usize,
    pub registers: Vec<u64>,
    /// For each location the coherence view: the store last read or written.
    pub coh: Vec<Stamp>,
    /// The stores that a load must have seen.
    pub vrn: Stamp,
    /// The stores that a `clflushopt` must have seen.
    pub vpr: Stamp,
    /// For each line: stores up to this one are covered by a requested write-back.
    pub vpa: Vec<Stamp>,
    /// The stores that are not yet visible to other threads, in program order.
    pub late: Vec<Late>,
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

    /// Returns the value of the thread's last late store to `location`.
    fn forwarded(&self, location: usize) -> Option<u64> {
        let mut messages = self.late.iter().rev().map(|late| late.message);
        messages.find(|message| message.location == location).map(|message| message.value)
    }
}

/// A configuration.
#[derive(Clone)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct State {
    /// The store with timestamp ts is `memory[ts - 1]`.
    pub memory: Vec<Message>,
    pub threads: Vec<Thread>,
    /// For each line: stores up to this one are written back. The rules keep one such view for each thread but use only their maximum, which this is.
    pub vpc: Vec<Stamp>,
}

impl State {
    /// Returns the configuration in which no thread has run.
    pub fn initial(test: &Test) -> Self {
        let thread = |thread| Thread {
            next: 0,
            registers: vec![0; test.register_count(thread)],
            coh: vec![0; test.locations.len()],
            vrn: 0,
            vpr: 0,
            vpa: vec![0; test.lines.len()],
            late: Vec::new(),
        };
        Self {
            memory: Vec::new(),
            threads: (0..test.threads.len()).map(thread).collect(),
            vpc: vec![0; test.lines.len()],
        }
    }

    /// Returns the value of the store to `location` at `stamp`.
    pub fn value(&self, stamp: Stamp) -> u64 {
        stamp.checked_sub(1).map_or(0, |index| self.memory[usize::from(index)].value)
    }

    /// Returns the stores with their timestamps, in order.
    pub fn stores(&self) -> impl DoubleEndedIterator<Item = (Stamp, Message)> {
        self.memory.iter().enumerate().map(|(index, &message)| ((index + 1) as Stamp, message))
    }

    /// Returns the timestamp of the last store to `location` at or before `until`.
    pub fn last_store(&self, location: usize, until: Stamp) -> Stamp {
        let to_location = |&(_, message): &(Stamp, Message)| message.location == location;
        let until = usize::from(until).min(self.memory.len());
        self.stores().take(until).filter(to_location).last().map_or(0, |(stamp, _)| stamp)
    }

    /// Returns the stores that the thread's next load of `location` may read.
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

    /// Completes the write-backs that a thread has requested.
    fn complete_write_backs(&mut self, thread: usize) {
        for (complete, &asked) in self.vpc.iter_mut().zip(&self.threads[thread].vpa) {
            *complete = (*complete).max(asked);
        }
    }

    /// Executes a successful read-modify-write.
    fn modify(&mut self, thread: usize, location: usize, register: usize, value: u64) {
        let old = self.value(self.last_store(location, Stamp::MAX));
        let stamp = self.append(thread, location, value);
        self.threads[thread].registers[register] = old;
        self.threads[thread].vrn = stamp;
        self.threads[thread].vpr = stamp;
        self.complete_write_backs(thread);
    }

    /// Returns this configuration after the thread has read the store at `stamp`.
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

    /// Executes a fence, which orders the thread's loads as well if it `orders_loads`.
    fn fence(&mut self, thread: usize, orders_loads: bool) {
        let fenced = &mut self.threads[thread];
        let cohmax = fenced.cohmax();
        fenced.vpr = fenced.vpr.max(cohmax);
        if orders_loads {
            fenced.vrn = fenced.vrn.max(cohmax);
        }
        self.complete_write_backs(thread);
    }

    /// Returns all configurations that follow by a step of the thread: its next operation, or a late store that becomes visible.
    #[cfg(test)]
    pub fn steps(&self, test: &Test, thread: usize) -> Vec<Self> {
        let mut steps = self.operation_steps(test, thread);
        steps.extend(self.late_steps(test, thread));
        steps
    }

    /// Returns all configurations in which one of the thread's late stores has become visible.
    pub fn late_steps<'s>(&'s self, test: &'s Test, thread: usize) -> impl Iterator<Item = Self> + 's {
        (0..self.threads[thread].late.len()).filter_map(move |index| self.with_visible(test, thread, index))
    }

    /// Returns this configuration after the thread's late store number `index` has become visible; `None` if an earlier store to the same line has to
    /// come first.
    pub fn with_visible(&self, test: &Test, thread: usize, index: usize) -> Option<Self> {
        let line = |late: &Late| test.locations[late.message.location].line;
        let late = &self.threads[thread].late;
        let Late { message, write_back, .. } = late[index];
        let comes_before = |earlier: &Late| {
            line(earlier) == line(&late[index]) || !(earlier.non_temporal || late[index].non_temporal)
        };
        if late[..index].iter().any(comes_before) {
            return None;
        }
        let mut next = self.clone();
        next.threads[thread].late.remove(index);
        next.append(thread, message.location, message.value);
        if write_back {
            next.ask_write_back(test, thread, test.locations[message.location].line);
        }
        Some(next)
    }

    /// Returns whether the thread's next operation, a store, is late: it is non-temporal, or a later non-temporal store may overtake it.
    fn is_late(&self, test: &Test, thread: usize) -> bool {
        test.threads[thread][self.threads[thread].next..].iter().any(Operation::is_non_temporal)
    }

    /// Returns whether the thread's next operation has to wait for a late store. A compare-and-swap waits only to succeed.
    pub fn waits(&self, test: &Test, thread: usize) -> bool {
        let late = &self.threads[thread].late;
        let Some(operation) = test.threads[thread].get(self.threads[thread].next) else { return false };
        let is_plain = |late: &Late| !late.non_temporal;
        match *operation {
            _ if late.is_empty() => false,
            Operation::Store { location, .. } => {
                let line = test.locations[location].line;
                let is_on_line = |late: &Late| test.locations[late.message.location].line == line;
                !self.is_late(test, thread) && late.iter().any(|late| is_plain(late) || is_on_line(late))
            }
            Operation::Clflush { .. } => late.iter().any(is_plain),
            Operation::FetchAdd { .. } | Operation::Sfence | Operation::Mfence => true,
            Operation::Load { .. }
            | Operation::CompareExchange { .. }
            | Operation::WriteBack { .. }
            | Operation::If { .. } => false,
        }
    }

    /// Returns the configurations after the thread's next operation; none if the thread has ended, or has to wait for a late store.
    pub fn operation_steps(&self, test: &Test, thread: usize) -> Vec<Self> {
        let Some(&operation) = test.threads[thread].get(self.threads[thread].next) else { return Vec::new() };
        if self.waits(test, thread) {
            return Vec::new();
        }
        let mut next = self.clone();
        next.threads[thread].next += 1;
        let value = |operand| self.threads[thread].value(operand);
        match operation {
            Operation::Store { location, value: operand, non_temporal } => {
                let value = value(operand);
                if self.is_late(test, thread) {
                    let message = Message { location, value };
                    next.threads[thread].late.push(Late { message, non_temporal, write_back: non_temporal });
                } else {
                    next.append(thread, location, value);
                }
            }
            Operation::Load { register, location } => {
                return next.loads(self, thread, (register, location), |_| true);
            }
            Operation::CompareExchange { register, location, expected, new } => {
                return self.compare_exchange(
                    next,
                    thread,
                    (register, location),
                    (value(expected), value(new)),
                );
            }
            Operation::FetchAdd { register, location, amount } => {
                let old = self.value(self.last_store(location, Stamp::MAX));
                next.modify(thread, location, register, old.wrapping_add(value(amount)));
            }
            Operation::Clflush { line } => {
                next.flush(thread, line);
            }
            Operation::WriteBack { line } => {
                let mut late = next.threads[thread].late.iter_mut().rev();
                match late.find(|late| test.locations[late.message.location].line == line) {
                    Some(last) => last.write_back = true,
                    None => next.ask_write_back(test, thread, line),
                }
            }
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

    /// Returns the configurations that follow if the thread loads `location`, one for each store that it may read and whose value satisfies `wanted`.
    /// This one is the successor of `before`.
    fn loads(
        &self,
        before: &Self,
        thread: usize,
        (register, location): (usize, usize),
        wanted: impl Fn(u64) -> bool,
    ) -> Vec<Self> {
        if let Some(value) = before.threads[thread].forwarded(location) {
            let mut next = self.clone();
            next.threads[thread].registers[register] = value;
            return if wanted(value) { vec![next] } else { Vec::new() };
        }
        let choices =
            before.readable(thread, location).into_iter().filter(|&stamp| wanted(before.value(stamp)));
        choices.map(|stamp| self.reading(thread, location, register, stamp)).collect()
    }

    /// Returns the configurations after a compare-and-swap. `next` is the configuration in which only the thread's place has advanced. The operation
    /// fails like a load, or replaces the latest store once the thread has no late stores.
    fn compare_exchange(
        &self,
        mut next: Self,
        thread: usize,
        (register, location): (usize, usize),
        (expected, new): (u64, u64),
    ) -> Vec<Self> {
        let mut outcomes = next.loads(self, thread, (register, location), |value| value != expected);
        if self.threads[thread].late.is_empty()
            && self.value(self.last_store(location, Stamp::MAX)) == expected
        {
            next.modify(thread, location, register, new);
            outcomes.push(next);
        }
        outcomes
    }

    /// Runs all steps that change neither another thread's choices nor what a crash may leave. They commute with the other threads' steps, so one
    /// order suffices.
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
            Operation::If { .. } | Operation::WriteBack { .. } => self.operation_steps(test, thread).pop(),
            Operation::Store { .. } if self.is_late(test, thread) => self.operation_steps(test, thread).pop(),
            Operation::Clflush { .. } | Operation::Sfence | Operation::Mfence => {
                let next = self.operation_steps(test, thread).pop()?;
                // The step is silent if it writes back nothing that a crash could have lost.
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
