//! A litmus test as data.
//!
//! Locations, lines and registers are indices: into [`Test::locations`], [`Test::lines`] and, within a thread, its registers in the order in which
//! the file names them.

use std::fmt;

/// A litmus test: a small program, and questions about what a crash may leave of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The name that the file gives it.
    pub name: String,
    /// The publication that the test and its answers come from, if the file names one.
    pub source: Option<String>,
    /// The cache lines' names.
    pub lines: Vec<String>,
    /// The 8-byte locations, all 0 at the start.
    pub locations: Vec<Location>,
    /// The operations of each thread.
    pub threads: Vec<Vec<Operation>>,
    /// The names of each thread's registers.
    pub registers: Vec<Vec<String>>,
    /// Questions about the values that a crash may leave.
    pub asks: Vec<Ask>,
    /// Questions about the end of a run without a crash.
    pub finals: Vec<Final>,
}

/// An 8-byte location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The location's name in the test.
    pub name: String,
    /// The index of its line.
    pub line: usize,
}

/// A value that an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// This number.
    Number(u64),
    /// The contents of this register of the thread.
    Register(usize),
}

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `store` or `store-nt`.
    Store {
        /// The location's index in the test.
        location: usize,
        /// The value to store.
        value: Operand,
        /// `store-nt`: only fences order it, in visibility and in persistence; it is written back without a request.
        non_temporal: bool,
    },
    /// `load`.
    Load {
        /// The register that gets the value.
        register: usize,
        /// The location's index in the test.
        location: usize,
    },
    /// `cas`.
    CompareExchange {
        /// The register that gets the old value.
        register: usize,
        /// The location's index in the test.
        location: usize,
        /// The value that the location must have for the exchange.
        expected: Operand,
        /// The value to write.
        new: Operand,
    },
    /// `add`.
    FetchAdd {
        /// The register that gets the old value.
        register: usize,
        /// The location's index in the test.
        location: usize,
        /// The number to add.
        amount: Operand,
    },
    /// `clflush`: ordered with all stores.
    Clflush {
        /// The line.
        line: usize,
    },
    /// `clflushopt` and `clwb`, for which the rules are the same: ordered with this thread's stores to the line and with fences.
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
        /// The number of operations that it guards.
        operations: usize,
    },
}

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Verdict {
    /// Some crash, or some run, leaves these values.
    Allowed,
    /// No crash, or no run, leaves these values.
    Forbidden,
}

impl Verdict {
    /// Returns [`Allowed`](Self::Allowed) if `is_allowed`, and [`Forbidden`](Self::Forbidden) otherwise.
    pub(super) fn of(is_allowed: bool) -> Self {
        if is_allowed { Self::Allowed } else { Self::Forbidden }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allowed => "allowed",
            Self::Forbidden => "forbidden",
        })
    }
}

/// A question: is there a crash state in which all of these locations hold these values?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The question's text in the file, with normalised white space: `commit=1 data=0`.
    pub text: String,
    /// Locations and values.
    pub values: Vec<(usize, u64)>,
    /// The answer that the test's source gives for x86, which corresponds to the setting `line`.
    pub published: Option<Verdict>,
}

impl Ask {
    /// Returns whether `state`, the values of all locations after a crash, satisfies the question.
    pub fn holds(&self, state: &[u64]) -> bool {
        self.values.iter().all(|&(location, value)| state[location] == value)
    }
}

/// A question: does some run without a crash end with these values in these registers and locations?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    /// The question's text in the file, with normalised white space: `0:r1=0 x=1`.
    pub text: String,
    /// Threads, their registers and values.
    pub registers: Vec<(usize, usize, u64)>,
    /// Locations and values.
    pub values: Vec<(usize, u64)>,
    /// The answer that the test's source gives.
    pub published: Option<Verdict>,
}

impl Final {
    /// Returns whether the end satisfies the question.
    pub fn holds(&self, end: &End) -> bool {
        self.registers.iter().all(|&(thread, register, value)| end.registers[thread][register] == value)
            && self.values.iter().all(|&(location, value)| end.values[location] == value)
    }
}

/// The final state of a run without a crash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The values of each thread's registers.
    pub registers: Vec<Vec<u64>>,
    /// The values of all locations.
    pub values: Vec<u64>,
}

impl Operation {
    /// Returns the registers that the operation reads.
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

    /// Returns the register that the operation writes.
    pub(super) fn writes_register(&self) -> Option<usize> {
        match *self {
            Self::Load { register, .. }
            | Self::CompareExchange { register, .. }
            | Self::FetchAdd { register, .. } => Some(register),
            _ => None,
        }
    }

    /// Returns whether the operation is a non-temporal store.
    pub(super) fn is_non_temporal(&self) -> bool {
        matches!(self, Self::Store { non_temporal: true, .. })
    }

    /// Returns whether the operation may append a store.
    pub(super) fn stores(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::CompareExchange { .. } | Self::FetchAdd { .. })
    }
}

impl Test {
    /// Returns the test without the operations that affect only durability, for caches that survive. Threads with non-temporal stores keep the
    /// operations that order those stores.
    pub(super) fn without_write_backs(&self) -> Self {
        let thread = |operations: &Vec<Operation>| {
            let has_late = operations.iter().any(Operation::is_non_temporal);
            let stays = |operation: &&Operation| match operation {
                Operation::WriteBack { .. } => false,
                Operation::Clflush { .. } | Operation::Sfence => has_late,
                _ => true,
            };
            let of = |(index, operation): (usize, &Operation)| match *operation {
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

    /// The number of registers that a thread names.
    pub(super) fn register_count(&self, thread: usize) -> usize {
        let named =
            |operation: &Operation| operation.reads_registers().chain(operation.writes_register()).max();
        self.threads[thread].iter().filter_map(named).max().map_or(0, |highest| highest + 1)
    }
}
