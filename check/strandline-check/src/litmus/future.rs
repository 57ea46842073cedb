//! The part of a configuration that the remaining operations of a thread can observe. The rest of a configuration does not matter.

use super::{Operation, Test};

/// A set of locations, lines or registers, by index.
pub(super) type Set = u64;

/// Returns the indices in a set.
pub(super) fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..Set::BITS as usize).filter(move |&index| set >> index & 1 != 0)
}

/// The effects that a thread's remaining operations may have. It is safe to assume too many: the search then merges fewer configurations.
#[derive(Clone, Copy, Default)]
pub(super) struct Future {
    /// Registers that are read before they are written.
    pub registers: Set,
    /// Locations that a load, or a failing compare-and-swap, may read.
    pub reads: Set,
    /// The lines of those locations.
    read_lines: Set,
    /// Lines that a `clflushopt` or `clwb` writes back, for which `vpr` matters.
    pub write_backs: Set,
    /// Lines for which `cohmax` matters: a `clflush`, or a fence before a load or a write-back, uses it.
    pub cohmax: Set,
    /// Lines that a `clflush` flushes.
    pub flushes: Set,
    /// True if an operation completes requested write-backs.
    pub fence: bool,
    /// Locations that the thread may store to.
    pub stores: Set,
    /// Lines that any operation names.
    pub touches: Set,
}

impl Future {
    /// Returns the futures by thread and operation, including the thread's end. With `keeps_registers` all registers matter at the end.
    pub fn of(test: &Test, keeps_registers: bool) -> Vec<Vec<Self>> {
        let of_thread = |thread: usize| {
            let registers = if keeps_registers { test.register_count(thread) } else { 0 };
            let registers = (0..registers).fold(0, |set, register| set | 1 << register);
            Self::of_thread(test, &test.threads[thread], Self { registers, ..Self::default() })
        };
        (0..test.threads.len()).map(of_thread).collect()
    }

    fn of_thread(test: &Test, operations: &[Operation], end: Self) -> Vec<Self> {
        let mut futures = vec![end; operations.len() + 1];
        for (index, operation) in operations.iter().enumerate().rev() {
            let mut future = futures[index + 1];
            if let Operation::If { operations, .. } = operation {
                // Along a thread all sets but the registers shrink.
                future.registers |= futures[index + 1 + operations].registers;
            }
            future.before(test, operation);
            futures[index] = future;
        }
        futures
    }

    /// Returns this future with an additional store to `location`.
    pub fn with_store(self, test: &Test, location: usize) -> Self {
        let line = 1 << test.locations[location].line;
        Self { stores: self.stores | 1 << location, touches: self.touches | line, ..self }
    }

    /// Computes the registers that matter before `operation` from those that matter after it.
    fn registers_before(&mut self, operation: &Operation) {
        if let Some(register) = operation.writes_register() {
            self.registers &= !(1 << register);
        }
        for register in operation.reads_registers() {
            self.registers |= 1 << register;
        }
    }

    /// Computes the future before `operation` from the one after it.
    fn before(&mut self, test: &Test, operation: &Operation) {
        self.registers_before(operation);
        let line = |location: usize| 1 << test.locations[location].line;
        match *operation {
            // A non-temporal store writes back itself and earlier stores to its line, whatever the views are.
            Operation::Store { location, .. } => *self = self.with_store(test, location),
            Operation::If { .. } => {}
            Operation::Load { location, .. } => {
                self.reads |= 1 << location;
                self.read_lines |= line(location);
                self.touches |= line(location);
            }
            Operation::CompareExchange { location, .. } => {
                self.reads |= 1 << location;
                self.read_lines |= line(location);
                self.stores |= 1 << location;
                self.touches |= line(location);
                self.fence = true;
            }
            Operation::FetchAdd { location, .. } => {
                self.stores |= 1 << location;
                self.touches |= line(location);
                self.fence = true;
            }
            Operation::Clflush { line } => {
                self.cohmax |= 1 << line;
                self.flushes |= 1 << line;
                self.touches |= 1 << line;
            }
            Operation::WriteBack { line } => {
                self.write_backs |= 1 << line;
                self.touches |= 1 << line;
            }
            Operation::Sfence => {
                self.cohmax |= self.write_backs;
                self.fence = true;
            }
            Operation::Mfence => {
                self.cohmax |= self.write_backs | self.read_lines;
                self.fence = true;
            }
        }
    }

    /// Returns the lines whose stores the thread's views can still distinguish.
    pub fn lines(&self) -> Set {
        self.read_lines | self.write_backs | self.cohmax
    }
}
