//! A litmus test as data.
//!
//! Locations, lines and registers are indices: of [`Test::locations`], of [`Test::lines`] and, within a thread,
//! of its registers in the order in which the file names them.

/// A litmus test: a small program, and questions about what a crash may leave of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The name that the file gives it.
    pub name: String,
    /// The cache lines' names.
    pub lines: Vec<String>,
    /// The 8-byte locations, all 0 at the start.
    pub locations: Vec<Location>,
    /// What each thread does.
    pub threads: Vec<Vec<Operation>>,
    /// What is asked about the values that a crash may leave.
    pub asks: Vec<Ask>,
}

/// An 8-byte location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name that the file gives it.
    pub name: String,
    /// The line that it lies on.
    pub line: usize,
}

/// A value that an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// This number.
    Number(u64),
    /// What this register of the thread holds.
    Register(usize),
}

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `store` or `store-nt`.
    Store {
        /// Where.
        location: usize,
        /// What.
        value: Operand,
        /// `store-nt`: written back without being asked, durable after the next fence.
        non_temporal: bool,
    },
    /// `load`.
    Load {
        /// Gets the value.
        register: usize,
        /// Where from.
        location: usize,
    },
    /// `cas`.
    CompareExchange {
        /// Gets the old value.
        register: usize,
        /// Where.
        location: usize,
        /// What must be there for the operation to write.
        expected: Operand,
        /// What it writes.
        new: Operand,
    },
    /// `add`.
    FetchAdd {
        /// Gets the old value.
        register: usize,
        /// Where.
        location: usize,
        /// What is added.
        amount: Operand,
    },
    /// `clflush`: ordered with all stores.
    Clflush {
        /// The line.
        line: usize,
    },
    /// `clflushopt` and `clwb`, which the rules do not tell apart: ordered with this thread's stores to the line
    /// and with fences.
    WriteBack {
        /// The line.
        line: usize,
    },
    /// `sfence`.
    Sfence,
    /// `mfence`.
    Mfence,
    /// `if`: skips operations unless the register holds the number.
    If {
        /// The register.
        register: usize,
        /// The number.
        equals: u64,
        /// How many operations it guards.
        operations: usize,
    },
}

/// A question: is there a crash state in which all of these locations hold these values?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// As the file has it, white space normalised: `commit=1 data=0`.
    pub text: String,
    /// Locations and values.
    pub values: Vec<(usize, u64)>,
}

impl Ask {
    /// Whether a crash state, the values of all locations, is one that the question is about.
    pub fn holds(&self, state: &[u64]) -> bool {
        self.values.iter().all(|&(location, value)| state[location] == value)
    }
}

impl Operation {
    /// The registers that it reads.
    pub(super) fn reads_registers(&self) -> impl Iterator<Item = usize> {
        let operands = match *self {
            Self::Store { value, .. } => [Some(value), None],
            Self::CompareExchange { expected, new, .. } => [Some(expected), Some(new)],
            Self::FetchAdd { amount, .. } => [Some(amount), None],
            Self::If { register, .. } => [Some(Operand::Register(register)), None],
            _ => [None, None],
        };
        operands.into_iter().flatten().filter_map(|operand| match operand {
            Operand::Register(register) => Some(register),
            Operand::Number(_) => None,
        })
    }

    /// The register that it writes.
    pub(super) fn writes_register(&self) -> Option<usize> {
        match *self {
            Self::Load { register, .. }
            | Self::CompareExchange { register, .. }
            | Self::FetchAdd { register, .. } => Some(register),
            _ => None,
        }
    }

    /// Whether it may append a store.
    pub(super) fn stores(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::CompareExchange { .. } | Self::FetchAdd { .. })
    }
}

impl Test {
    /// The test without all that matters to what is durable alone: for caches that survive.
    pub(super) fn without_write_backs(&self) -> Self {
        let thread = |operations: &Vec<Operation>| {
            let stays = |operation: &&Operation| {
                !matches!(
                    operation,
                    Operation::Clflush { .. } | Operation::WriteBack { .. } | Operation::Sfence
                )
            };
            let of = |(index, operation): (usize, &Operation)| match *operation {
                Operation::Store { location, value, .. } => {
                    Operation::Store { location, value, non_temporal: false }
                }
                Operation::If { register, equals, operations: guarded } => {
                    let left = operations[index + 1..][..guarded].iter().filter(stays).count();
                    Operation::If { register, equals, operations: left }
                }
                other => other,
            };
            operations.iter().enumerate().filter(|(_, operation)| stays(operation)).map(of).collect()
        };
        Self { threads: self.threads.iter().map(thread).collect(), ..self.clone() }
    }

    /// How many registers a thread names.
    pub(super) fn registers(&self, thread: usize) -> usize {
        let named =
            |operation: &Operation| operation.reads_registers().chain(operation.writes_register()).max();
        self.threads[thread].iter().filter_map(named).max().map_or(0, |highest| highest + 1)
    }
}
