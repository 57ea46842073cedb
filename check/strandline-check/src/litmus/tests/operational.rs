//! An operational machine with the same crash states as the view model: PTSO-syn of Khyzha and Lahav, Taming x86-TSO Persistency (POPL 2021). It
//! shares only the test's syntax with the view model.
//!
//! - Each thread has a *store buffer*, which holds its stores, flushes and fences in program order.
//! - An entry leaves the buffer when all entries that it may not overtake have left. A store is ordered with stores, `clflush` and `sfence`; a
//!   `clflushopt` or `clwb` with `sfence`, and with stores and flushes of its own line only.
//! - A non-temporal store is not ordered with stores to other lines. A later `clflush`, or a later `clflushopt` or `clwb` of another line, may
//!   overtake it. It leaves a marker in the queues of its line.
//! - A store that leaves the buffer becomes visible and enters the *persistence queue* of its line (under `word`, of its location). The entry at the
//!   front of a queue may persist at any time.
//! - A `clflush` leaves only when the queues of its line are empty. A `clflushopt` leaves a marker in them. A fence, and a read-modify-write, waits
//!   until no marker of its thread is left. Persisting earlier than a fence requires permits nothing more, so the machine persists entries only then
//!   or at the crash.
//! - A load takes the last store of its thread's buffer, or else the visible value.

use std::collections::{BTreeSet, HashSet};

use super::{Setting, Test};
use crate::litmus::{End, Operand, Operation};

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Entry {
    Store { location: usize, value: u64, non_temporal: bool },
    Flush { line: usize },
    FlushOptimized { line: usize },
    Fence,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pending {
    Store { location: usize, value: u64 },
    Marker { thread: usize },
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Thread {
    next: usize,
    registers: Vec<u64>,
    buffer: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Machine {
    threads: Vec<Thread>,
    visible: Vec<u64>,
    queues: Vec<Vec<Pending>>,
    persistent: Vec<u64>,
}

impl Machine {
    /// Persists the first `count` entries of a queue.
    fn persist(&mut self, queue: usize, count: usize) {
        for pending in self.queues[queue].drain(..count) {
            if let Pending::Store { location, value } = pending {
                self.persistent[location] = value;
            }
        }
    }

    /// Persists entries until no marker of the thread is left in a queue.
    fn wait_for_markers(&mut self, thread: usize) {
        for queue in 0..self.queues.len() {
            let last = self.queues[queue].iter().rposition(|pending| *pending == Pending::Marker { thread });
            self.persist(queue, last.map_or(0, |last| last + 1));
        }
    }
}

/// Adds every persistent memory that a crash may leave: any number of entries of each queue persist.
fn crash(queues: &[Vec<Pending>], memory: &mut Vec<u64>, found: &mut BTreeSet<Vec<u64>>) {
    let Some((queue, others)) = queues.split_first() else {
        if !found.contains(memory) {
            found.insert(memory.clone());
        }
        return;
    };
    crash(others, memory, found);
    let before = memory.clone();
    for pending in queue {
        if let Pending::Store { location, value } = *pending {
            memory[location] = value;
            crash(others, memory, found);
        }
    }
    memory.clone_from(&before);
}

struct World<'t> {
    test: &'t Test,
    setting: Setting,
}

/// Returns all crash states under a setting, which are the persistent memories of all reachable machines, and the ends of all runs.
pub fn explore(test: &Test, setting: Setting) -> (BTreeSet<Vec<u64>>, BTreeSet<End>) {
    let world = World { test, setting };
    let memory = vec![0; test.locations.len()];
    let start = Machine {
        threads: vec![Thread { registers: vec![0; 8], ..Thread::default() }; test.threads.len()],
        visible: memory.clone(),
        queues: vec![Vec::new(); memory.len().max(test.lines.len())],
        persistent: memory,
    };
    let (mut found, mut ends) = (BTreeSet::new(), BTreeSet::new());
    let mut visited = HashSet::from([start.clone()]);
    let mut crashes = HashSet::new();
    let mut stack = vec![start];
    while let Some(machine) = stack.pop() {
        if crashes.insert((machine.queues.clone(), machine.persistent.clone())) {
            crash(&machine.queues, &mut machine.persistent.clone(), &mut found);
        }
        let steps = world.steps(&machine);
        if steps.is_empty() {
            let registers =
                |(index, thread): (usize, &Thread)| thread.registers[..test.register_count(index)].to_vec();
            let registers = machine.threads.iter().enumerate().map(registers).collect();
            ends.insert(End { registers, values: machine.visible.clone() });
        }
        for next in steps {
            if visited.insert(next.clone()) {
                stack.push(next);
            }
        }
    }
    (found, ends)
}

impl World<'_> {
    fn line(&self, location: usize) -> usize {
        self.test.locations[location].line
    }

    fn queue(&self, location: usize) -> usize {
        if self.setting == Setting::Word { location } else { self.line(location) }
    }

    fn queues(&self, line: usize) -> impl Iterator<Item = usize> {
        let on_line = (0..self.test.locations.len()).filter(move |&location| self.line(location) == line);
        on_line.map(|location| self.queue(location))
    }

    fn steps(&self, machine: &Machine) -> Vec<Machine> {
        let mut steps = Vec::new();
        for thread in 0..machine.threads.len() {
            if self.only_fills_buffer(machine, thread) {
                // This step is invisible to other threads, and neither waits nor reads, so that other orders show nothing new.
                steps.clear();
                self.issue(machine, thread, &mut steps);
                return steps;
            }
            self.issue(machine, thread, &mut steps);
            for at in 0..machine.threads[thread].buffer.len() {
                self.propagate(machine, thread, at, &mut steps);
            }
        }
        steps
    }

    fn only_fills_buffer(&self, machine: &Machine, thread: usize) -> bool {
        let next = self.test.threads[thread].get(machine.threads[thread].next);
        next.is_some_and(|operation| match operation {
            Operation::Store { .. }
            | Operation::Clflush { .. }
            | Operation::WriteBack { .. }
            | Operation::Sfence
            | Operation::If { .. } => true,
            Operation::Load { .. }
            | Operation::CompareExchange { .. }
            | Operation::FetchAdd { .. }
            | Operation::Mfence => false,
        })
    }

    /// Issues the thread's next instruction.
    fn issue(&self, machine: &Machine, thread: usize, steps: &mut Vec<Machine>) {
        let this = &machine.threads[thread];
        let Some(&operation) = self.test.threads[thread].get(this.next) else { return };
        let value = |operand| match operand {
            Operand::Number(number) => number,
            Operand::Register(register) => this.registers[register],
        };
        let loaded = |location| {
            let own = this.buffer.iter().rev().find_map(|entry| match entry {
                Entry::Store { location: at, value, .. } if *at == location => Some(*value),
                _ => None,
            });
            own.unwrap_or(machine.visible[location])
        };
        let drained = this.buffer.is_empty();
        let mut next = machine.clone();
        next.threads[thread].next += 1;
        let me = &mut next.threads[thread];
        match operation {
            Operation::Store { location, value: operand, non_temporal } => {
                me.buffer.push(Entry::Store { location, value: value(operand), non_temporal });
            }
            Operation::Load { register, location } => me.registers[register] = loaded(location),
            Operation::CompareExchange { register, location, expected, new } => {
                // The compare-and-swap may fail like a load, without draining anything.
                if loaded(location) != value(expected) {
                    let mut failed = next.clone();
                    failed.threads[thread].registers[register] = loaded(location);
                    steps.push(failed);
                }
                if !drained || machine.visible[location] != value(expected) {
                    return;
                }
                next.threads[thread].registers[register] = machine.visible[location];
                next.wait_for_markers(thread);
                self.make_visible(&mut next, location, value(new));
            }
            Operation::FetchAdd { register, location, amount } => {
                if !drained {
                    return;
                }
                let old = machine.visible[location];
                me.registers[register] = old;
                next.wait_for_markers(thread);
                self.make_visible(&mut next, location, old.wrapping_add(value(amount)));
            }
            Operation::Clflush { line } => me.buffer.push(Entry::Flush { line }),
            Operation::WriteBack { line } => me.buffer.push(Entry::FlushOptimized { line }),
            Operation::Sfence => me.buffer.push(Entry::Fence),
            Operation::Mfence => {
                if !drained {
                    return;
                }
                next.wait_for_markers(thread);
            }
            Operation::If { register, equals, operations } => {
                if this.registers[register] != equals {
                    me.next += operations;
                }
            }
        }
        steps.push(next);
    }

    /// The entry at `at` leaves the store buffer, if earlier entries permit it.
    fn propagate(&self, machine: &Machine, thread: usize, at: usize, steps: &mut Vec<Machine>) {
        let buffer = &machine.threads[thread].buffer;
        let (earlier, entry) = (&buffer[..at], buffer[at]);
        let overtakes = |other: &Entry| match (entry, *other) {
            (_, Entry::Fence) | (Entry::Fence, _) => false,
            (Entry::Store { location, non_temporal: true, .. }, Entry::Store { location: other, .. }) => {
                self.line(location) != self.line(other)
            }
            (entry, Entry::Store { location, non_temporal: true, .. }) => match entry {
                Entry::Store { location: own, .. } => self.line(own) != self.line(location),
                Entry::Flush { .. } => true,
                Entry::FlushOptimized { line } => line != self.line(location),
                Entry::Fence => false,
            },
            (Entry::FlushOptimized { line }, Entry::Store { location, .. }) => self.line(location) != line,
            (Entry::FlushOptimized { line }, Entry::Flush { line: other }) => other != line,
            (Entry::FlushOptimized { .. }, Entry::FlushOptimized { .. }) => true,
            (Entry::Store { .. }, Entry::FlushOptimized { .. }) => true,
            // A write-back that waits for a non-temporal store leaves with it.
            (Entry::Flush { line }, Entry::FlushOptimized { line: other }) => {
                let is_late = |entry: &Entry| matches!(entry, Entry::Store { location, non_temporal: true, .. } if self.line(*location) == line);
                other != line || earlier.iter().any(is_late)
            }
            (Entry::Store { .. } | Entry::Flush { .. }, Entry::Store { .. } | Entry::Flush { .. }) => false,
        };
        if !earlier.iter().all(overtakes) {
            return;
        }
        let mut next = machine.clone();
        next.threads[thread].buffer.remove(at);
        match entry {
            Entry::Store { location, value, non_temporal } => {
                self.make_visible(&mut next, location, value);
                if non_temporal {
                    self.mark(&mut next, thread, self.line(location));
                }
            }
            Entry::Flush { line } => {
                for queue in self.queues(line) {
                    next.persist(queue, next.queues[queue].len());
                }
            }
            Entry::FlushOptimized { line } => self.mark(&mut next, thread, line),
            Entry::Fence => next.wait_for_markers(thread),
        }
        steps.push(next);
    }

    /// Adds a marker of the thread to the queues of the line.
    fn mark(&self, machine: &mut Machine, thread: usize, line: usize) {
        for queue in self.queues(line).collect::<BTreeSet<_>>() {
            machine.queues[queue].push(Pending::Marker { thread });
        }
    }

    fn make_visible(&self, machine: &mut Machine, location: usize, value: u64) {
        machine.visible[location] = value;
        if self.setting == Setting::FlushOnFail {
            // Under this setting the queues are persistent, too.
            machine.persistent[location] = value;
            return;
        }
        machine.queues[self.queue(location)].push(Pending::Store { location, value });
    }
}
