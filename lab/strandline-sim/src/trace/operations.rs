//! Uses a binary trace of one thread as a workload: each of its transactions is an operation, and several operations form one transaction.
//!
//! The crate has three such traces: [`SET`], [`MULTISET`] and [`B_TREE`], whose documentation says how they were made.

use std::path::PathBuf;

use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Event, Hosted, Memory, Space};

use super::{TraceError, binary, build, machine_of, perform};
use crate::description::Description;
use crate::machine::Machine;
use crate::scheme::Entry;
use crate::statistics::Statistics;

/// `std::set<uint64_t>` under WrAP's benchmark: operations of an insertion, a search and a deletion on 100 elements. `traces/make.sh` makes it, with
/// the compiler and library that it names.
pub static SET: &[u8] = include_bytes!("../../traces/set.trace");
/// `std::multiset<uint64_t>`, made like [`SET`].
pub static MULTISET: &[u8] = include_bytes!("../../traces/multiset.trace");
/// `absl::btree_set<uint64_t>`, made like [`SET`].
pub static B_TREE: &[u8] = include_bytes!("../../traces/btree.trace");

/// A trace's operations.
#[derive(Clone, Debug)]
pub struct Operations {
    name: PathBuf,
    header: binary::Header,
    steps: Vec<binary::Step>,
    count: u64,
}

/// How operations are grouped and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// The number of operations that a transaction has.
    pub operations: u64,
    /// The number of transactions that precede those that count.
    pub warm_up: u64,
    /// Instructions in addition to each access to the pool, if not those of the trace.
    pub instructions: Option<u64>,
}

impl Operations {
    /// Reads the operations of the binary trace `bytes`, which errors call `name`.
    ///
    /// # Errors
    /// Returns an error if the trace is malformed, has more than one thread, or has no transaction.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, TraceError> {
        let malformed = |(at, message)| TraceError::MalformedAt { path: name.into(), at, message };
        let (header, mut threads) = binary::read(bytes).map_err(malformed)?;
        let (Some(steps), []) = (threads.pop(), &threads[..]) else {
            return Err(malformed((0, "operations are of one thread".into())));
        };
        let count = steps.iter().filter(|step| matches!(step, binary::Step::Commit(_))).count() as u64;
        if count == 0 {
            return Err(malformed((0, "no transaction ends in it".into())));
        }
        Ok(Self { name: name.into(), header, steps, count })
    }

    /// Returns the number of operations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Runs as many whole transactions as the trace has operations for. Returns how many counted, and the machine's counts.
    ///
    /// The trace lists its instructions, so `cores.instructions_per_access` counts as 0.
    ///
    /// # Errors
    /// Returns an error if the machine is impossible, if the hardware is impossible on it, or if there are not enough operations for a transaction
    /// that counts.
    pub fn run(
        &self,
        machine: &Description,
        hardware: &Entry,
        grouping: &Grouping,
    ) -> Result<(u64, Statistics), TraceError> {
        let transactions = (self.count / grouping.operations.max(1)).saturating_sub(grouping.warm_up);
        if transactions == 0 {
            let message = format!("{} operations are too few for {grouping:?}", self.count);
            return Err(TraceError::MalformedAt { path: self.name.clone(), at: 0, message });
        }
        let scheme = build(hardware, machine, true, &self.name)?;
        let mut machine = machine.clone();
        machine.cores.instructions_per_access = Some(0.0);
        let simulated = machine_of(&machine, &self.header, scheme)?;
        simulated.run(vec![Box::new(|memory: &Hosted| {
            self.play(memory, &simulated, grouping, grouping.warm_up + transactions);
        }) as Thread<'_>]);
        Ok((transactions, simulated.statistics()))
    }

    /// Performs so many transactions.
    fn play(&self, memory: &Hosted, machine: &Machine, grouping: &Grouping, transactions: u64) {
        use binary::Step as S;
        let (mut done, mut inside) = (0, 0);
        for &step in &self.steps {
            match step {
                S::Begin if inside == 0 => {
                    if done == transactions {
                        break;
                    }
                    if done == grouping.warm_up {
                        while machine.is_busy(0) {
                            memory.work(100);
                        }
                        machine.begin_region();
                    }
                    memory.event(Event::Begin);
                }
                S::Begin | S::Acknowledged(_) => {}
                S::Commit(_) => {
                    inside += 1;
                    if inside == grouping.operations {
                        (inside, done) = (0, done + 1);
                        memory.event(Event::Executed(done));
                        memory.event(Event::Commit(done));
                        memory.event(Event::Acknowledged(done));
                    }
                }
                S::Work(_) if grouping.instructions.is_some() => {}
                S::Load(Space::Persistent, _) | S::Store(Space::Persistent, _) => {
                    if let Some(instructions) = grouping.instructions {
                        memory.work(instructions as u32);
                    }
                    perform(memory, step);
                }
                step => perform(memory, step),
            }
        }
    }
}
