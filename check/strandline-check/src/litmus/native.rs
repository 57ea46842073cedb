//! Runs a litmus test on the processor, many times, and counts how it ends.
//!
//! Each thread of the test is a thread of the system. A *batch* has many instances of the test's memory, side by side. All threads begin a batch
//! together, and each runs its operations on one instance after another. In every other batch each thread waits for the others before each instance,
//! for a moment at most, so that the threads meet on the instance; in the remaining batches they drift apart. Some batches begin with cold lines.

use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, compiler_fence};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use strandline_core::memory::StoreInstructions;

use super::{End, Operand, Operation, Test};
use crate::Session;

/// The number of instances that a batch has.
const INSTANCES: usize = 512;
/// The number of words that a line has.
const WORDS: usize = 8;
/// How often a thread polls another thread's progress before an instance, at most.
const LOOKS: u32 = 2_000;

/// How long a test is run on the processor.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// How often to run the test, at least. It runs in batches.
    pub repetitions: u64,
    /// The time after which no further batch begins.
    pub limit: Duration,
}

/// How runs of a test on the processor ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How often each end was seen.
    pub ends: BTreeMap<End, u64>,
}

impl Histogram {
    /// The number of runs.
    pub fn runs(&self) -> u64 {
        self.ends.values().sum()
    }
}

/// Why a test cannot be run on the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unrunnable {
    /// The processor is not an x86-64 one.
    Processor,
    /// A line has more locations than words.
    Line,
}

impl std::fmt::Display for Unrunnable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Processor => "litmus tests of x86 can be run on an x86-64 processor only",
            Self::Line => "a line has more than 8 locations, so that it does not fit a cache line: give the others a line of their own",
        })
    }
}

impl std::error::Error for Unrunnable {}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; WORDS]);

/// A thread's progress, on a line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Progress(AtomicUsize);

/// State that the threads of a test share.
struct Shared<'t> {
    test: &'t Test,
    instructions: StoreInstructions,
    /// For each location its line, and the word on the line.
    places: Vec<(usize, usize)>,
    lines: Vec<Line>,
    progress: Vec<Progress>,
    /// For each thread the registers at the end of each instance.
    registers: Vec<Mutex<Vec<u64>>>,
    barrier: Barrier,
    meets: AtomicBool,
    is_over: AtomicBool,
}

impl Test {
    /// Runs the test on this processor until the time is up, the repetitions are reached or the session is stopped, and returns how it ended. This
    /// shows no crash states.
    ///
    /// # Errors
    /// Returns an error if the processor or a line of the test does not allow it.
    ///
    /// # Panics
    /// Panics if the system cannot start a thread.
    pub fn run(&self, runs: Runs, session: &Session) -> Result<Histogram, Unrunnable> {
        let shared = Shared::new(self)?;
        let until = Instant::now().checked_add(runs.limit);
        let mut histogram = Histogram::default();
        std::thread::scope(|scope| {
            for thread in 0..self.threads.len() {
                let shared = &shared;
                scope.spawn(move || shared.run_batches(thread));
            }
            let mut random = Rng::with_seed(1);
            while histogram.runs() < runs.repetitions
                && until.is_none_or(|until| Instant::now() < until)
                && !session.is_stopped()
            {
                shared.begin_batch(&mut random);
                shared.barrier.wait();
                shared.barrier.wait();
                shared.count(&mut histogram);
            }
            shared.is_over.store(true, SeqCst);
            shared.barrier.wait();
        });
        Ok(histogram)
    }
}

impl<'t> Shared<'t> {
    fn new(test: &'t Test) -> Result<Self, Unrunnable> {
        let instructions = StoreInstructions::of_this_processor().ok_or(Unrunnable::Processor)?;
        let mut places: Vec<(usize, usize)> = Vec::new();
        for location in &test.locations {
            let word = places.iter().filter(|&&(line, _)| line == location.line).count();
            places.push((location.line, word));
        }
        if places.iter().any(|&(_, word)| word >= WORDS) {
            return Err(Unrunnable::Line);
        }
        let threads = test.threads.len();
        let registers = |thread| Mutex::new(vec![0; INSTANCES * test.register_count(thread)]);
        Ok(Self {
            test,
            instructions,
            places,
            lines: (0..INSTANCES * test.lines.len()).map(|_| Line::default()).collect(),
            progress: (0..threads).map(|_| Progress::default()).collect(),
            registers: (0..threads).map(registers).collect(),
            barrier: Barrier::new(threads + 1),
            meets: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// Sets all locations to 0, and makes their lines cold in some batches.
    fn begin_batch(&self, random: &mut Rng) {
        let is_cold = random.bool();
        for line in &self.lines {
            line.0.iter().for_each(|word| word.store(0, Relaxed));
            if is_cold {
                self.instructions.clflush(&line.0[0]);
            }
        }
        self.progress.iter().for_each(|progress| progress.0.store(0, Relaxed));
        self.meets.store(random.bool(), Relaxed);
    }

    /// Adds the ends of a batch.
    fn count(&self, histogram: &mut Histogram) {
        let registers: Vec<_> = self
            .registers
            .iter()
            .map(|registers| registers.lock().unwrap_or_else(PoisonError::into_inner))
            .collect();
        for instance in 0..INSTANCES {
            let of = |all: &Vec<u64>| {
                let count = all.len() / INSTANCES;
                all[instance * count..][..count].to_vec()
            };
            let value = |location| self.word(instance, location).load(Relaxed);
            let end = End {
                registers: registers.iter().map(|all| of(all)).collect(),
                values: (0..self.places.len()).map(value).collect(),
            };
            *histogram.ends.entry(end).or_default() += 1;
        }
    }

    fn word(&self, instance: usize, location: usize) -> &AtomicU64 {
        let (line, word) = self.places[location];
        &self.lines[instance * self.test.lines.len() + line].0[word]
    }

    /// Runs thread number `thread`.
    fn run_batches(&self, thread: usize) {
        let mut random = Rng::with_seed(thread as u64 + 2);
        loop {
            self.barrier.wait();
            if self.is_over.load(SeqCst) {
                return;
            }
            let mut registers = self.registers[thread].lock().unwrap_or_else(PoisonError::into_inner);
            registers.fill(0);
            let (count, meets) = (registers.len() / INSTANCES, self.meets.load(Relaxed));
            for instance in 0..INSTANCES {
                if meets {
                    self.meet(thread, instance);
                }
                for _ in 0..random.u8(..8) {
                    spin_loop();
                }
                self.run_operations(thread, instance, &mut registers[instance * count..][..count]);
            }
            drop(registers);
            // Makes stores in the processor's buffers visible.
            self.instructions.mfence();
            self.barrier.wait();
        }
    }

    /// Waits briefly for the other threads to reach the instance.
    fn meet(&self, thread: usize, instance: usize) {
        self.progress[thread].0.store(instance, Relaxed);
        for other in &self.progress {
            for _ in 0..LOOKS {
                if other.0.load(Relaxed) >= instance {
                    break;
                }
                spin_loop();
            }
        }
    }

    fn run_operations(&self, thread: usize, instance: usize, registers: &mut [u64]) {
        let operations = &self.test.threads[thread][..];
        let line = |line: usize| &self.lines[instance * self.test.lines.len() + line].0[0];
        let value = |operand: Operand, registers: &[u64]| match operand {
            Operand::Number(number) => number,
            Operand::Register(register) => registers[register],
        };
        let mut next = 0;
        while let Some(&operation) = operations.get(next) {
            next += 1;
            match operation {
                Operation::Store { location, value: operand, non_temporal } => {
                    let (word, value) = (self.word(instance, location), value(operand, registers));
                    if non_temporal {
                        self.instructions.movnti(word, value);
                    } else {
                        word.store(value, Relaxed);
                    }
                }
                Operation::Load { register, location } => {
                    registers[register] = self.word(instance, location).load(Relaxed);
                }
                Operation::CompareExchange { register, location, expected, new } => {
                    let (expected, new) = (value(expected, registers), value(new, registers));
                    let word = self.word(instance, location);
                    registers[register] =
                        word.compare_exchange(expected, new, SeqCst, SeqCst).unwrap_or_else(|found| found);
                }
                Operation::FetchAdd { register, location, amount } => {
                    let amount = value(amount, registers);
                    registers[register] = self.word(instance, location).fetch_add(amount, SeqCst);
                }
                Operation::Clflush { line: number } => self.instructions.clflush(line(number)),
                Operation::WriteBack { line: number } => self.instructions.clwb(line(number)),
                Operation::Sfence => self.instructions.sfence(),
                Operation::Mfence => self.instructions.mfence(),
                Operation::If { register, equals, operations } => {
                    if registers[register] != equals {
                        next += operations;
                    }
                }
            }
            // Keeps the compiler from reordering the operations. The processor may reorder them.
            compiler_fence(SeqCst);
        }
    }
}
