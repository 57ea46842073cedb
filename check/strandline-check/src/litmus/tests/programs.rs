//! Random small programs.

use fastrand::Rng;

use super::Test;
use crate::litmus::{Ask, Location, Operand, Operation};

/// How large programs are.
#[derive(Clone, Copy)]
pub struct Shape {
    pub threads: usize,
    pub locations: usize,
    pub lines: usize,
    /// The most operations in each thread.
    pub operations: usize,
}

/// The value that a thread stores in place of a 0 that it has loaded.
const ZERO: u64 = 99;

/// Returns a random program. Nearly every store has a value of its own. Each thread ends by storing what it loaded to a line of its own, so that
/// crash states show it; it stores [`ZERO`] for 0, which would not show.
pub fn random(rng: &mut Rng, shape: Shape) -> Test {
    // Puts one of the first locations on each line.
    let line =
        |rng: &mut Rng, index: usize| if index < shape.lines { index } else { rng.usize(..shape.lines) };
    let mut lines: Vec<usize> = (0..shape.locations).map(|index| line(rng, index)).collect();
    let mut threads = Vec::new();
    for thread in 0..shape.threads {
        let length = rng.usize(2..=shape.operations).max(rng.usize(2..=shape.operations));
        let mut operations = Program { rng: &mut *rng, shape, thread, operations: Vec::new() }.of(length);
        record(rng, &mut operations, &mut lines, shape.lines + thread);
        threads.push(operations);
    }
    let location = |(index, &line)| Location { name: format!("l{index}"), line };
    Test {
        name: "random".into(),
        source: None,
        lines: (0..shape.lines + shape.threads).map(|line| format!("L{line}")).collect(),
        locations: lines.iter().enumerate().map(location).collect(),
        registers: vec![Vec::new(); threads.len()],
        threads,
        asks: vec![Ask { text: "l0=1".into(), values: vec![(0, 1)], published: None }],
        finals: Vec::new(),
    }
}

/// Appends stores of the registers to new locations on `line`, or of a mark if there are no registers.
fn record(rng: &mut Rng, operations: &mut Vec<Operation>, lines: &mut Vec<usize>, line: usize) {
    let mut store = |value| {
        lines.push(line);
        Operation::Store { location: lines.len() - 1, value, non_temporal: false }
    };
    let loaded: Vec<usize> = operations.iter().filter_map(Operation::writes_register).collect();
    for register in (0..2).filter(|register| loaded.contains(register)) {
        if rng.bool() {
            operations.push(store(Operand::Register(register)));
        } else {
            operations.push(Operation::If { register, equals: 0, operations: 1 });
            operations.push(store(Operand::Number(ZERO)));
        }
    }
    if loaded.is_empty() {
        operations.push(store(Operand::Number(ZERO)));
    }
}

/// One thread's program.
struct Program<'r> {
    rng: &'r mut Rng,
    shape: Shape,
    thread: usize,
    operations: Vec<Operation>,
}

impl Program<'_> {
    /// Generates single operations, and sequences over two locations of different lines, without which most rules about views and fences would rarely
    /// matter.
    fn of(mut self, length: usize) -> Vec<Operation> {
        while self.operations.len() < length {
            // All threads use the same two locations, so that they interact.
            let (x, y) = if self.rng.bool() { (0, 1) } else { (1, 0) };
            let run = match self.rng.u8(..16) {
                0 | 1 => vec![self.store(x), self.fence(), self.load(y)],
                2 => vec![self.load(x), self.load(y)],
                3 => vec![self.store(x), self.store(y)],
                4 => vec![self.load(x), self.write_back(y), self.fence()],
                5 | 12 => vec![self.store(x), self.fence(), self.write_back(y), self.fence()],
                6 => vec![self.store(x), self.write_back(y), self.fence()],
                7 => vec![self.store(x), self.write_back(x), self.fence()],
                8 => vec![self.store(x), self.load(x), self.load(y)],
                13 => vec![self.store_non_temporal(x), self.store(y)],
                15 => vec![self.store(y), self.store_non_temporal(x)],
                14 => vec![self.store_non_temporal(x), self.fence(), self.store(y)],
                _ => vec![self.any()],
            };
            self.operations.extend(run);
        }
        self.operations.truncate(length);
        // An `if` must not reach beyond the end.
        for (index, operation) in self.operations.iter_mut().enumerate() {
            if let Operation::If { operations, .. } = operation {
                *operations = (*operations).min(length - index - 1);
            }
        }
        self.operations
    }

    fn register(&mut self) -> usize {
        self.rng.usize(..2)
    }

    /// Returns a value that no other store has, or sometimes a loaded value.
    fn value(&mut self) -> Operand {
        match self.rng.u8(..8) {
            0 => Operand::Register(self.register()),
            _ => Operand::Number(10 * (self.thread as u64 + 1) + self.rng.u64(..10)),
        }
    }

    fn store(&mut self, location: usize) -> Operation {
        let non_temporal = self.rng.u8(..8) == 0;
        Operation::Store { location, value: self.value(), non_temporal }
    }

    fn store_non_temporal(&mut self, location: usize) -> Operation {
        Operation::Store { location, value: self.value(), non_temporal: true }
    }

    /// Returns a load, sometimes as a compare-and-swap that fails.
    fn load(&mut self, location: usize) -> Operation {
        let register = self.register();
        match self.rng.u8(..6) {
            0 => {
                let never = Operand::Number(u64::MAX);
                Operation::CompareExchange { register, location, expected: never, new: never }
            }
            _ => Operation::Load { register, location },
        }
    }

    fn write_back(&mut self, location: usize) -> Operation {
        // Each of the first locations is on the line of the same number.
        let line = location % self.shape.lines;
        if self.rng.u8(..4) == 0 { Operation::Clflush { line } } else { Operation::WriteBack { line } }
    }

    /// Returns an ordering operation: a fence, or a read-modify-write.
    fn fence(&mut self) -> Operation {
        match self.rng.u8(..4) {
            0 | 1 => Operation::Sfence,
            2 => Operation::Mfence,
            _ => self.modify(),
        }
    }

    fn modify(&mut self) -> Operation {
        let (register, location) = (self.register(), self.rng.usize(..self.shape.locations));
        if self.rng.bool() {
            Operation::FetchAdd { register, location, amount: Operand::Number(self.rng.u64(..=1)) }
        } else {
            Operation::CompareExchange { register, location, expected: Operand::Number(0), new: self.value() }
        }
    }

    fn any(&mut self) -> Operation {
        let location = self.rng.usize(..self.shape.locations);
        match self.rng.u8(..20) {
            0..=5 => self.store(location),
            6..=9 => self.load(location),
            10 | 11 => self.modify(),
            12..=15 => self.write_back(location),
            16..=18 => self.fence(),
            _ => Operation::If { register: self.register(), equals: 0, operations: self.rng.usize(1..=2) },
        }
    }
}
