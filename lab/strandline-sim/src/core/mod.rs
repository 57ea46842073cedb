//! A core: its clock, its store queue, its reorder buffer, its write-combining buffers.
//!
//! Coroutines have no register dependences, so a rule determines which operations overlap. A single-word load ends before anything after it begins.
//! The loads of one range overlap, limited by MSHRs and reorder buffer. Stores retire into the store queue and stall nothing until it is full. Atomic
//! operations and fences wait for it to drain.

mod store_queue;

pub use store_queue::{Ordering, Queued, QueuedKind, StoreQueue};

use std::collections::VecDeque;

use crate::controller::Line;
use crate::description::{CoreKind, Description, LoadOverlap};
use crate::instructions::Instructions;
use crate::numbers::{Cycle, LineNumber};
use crate::statistics::CoreStatistics;

/// The number of bits of a fraction of a cycle.
const FRACTION: u32 = 16;

/// Non-temporal stores to a line that have not left their buffer.
#[derive(Clone, Copy, Debug)]
pub struct Combining {
    /// The line's number in memory: its address / 64.
    pub line: LineNumber,
    /// A bit for each word.
    pub mask: u8,
    /// The words; those without a bit in `mask` are undefined.
    pub data: Line,
}

/// A core's time, store queue and outstanding loads.
pub struct Core {
    /// The cycle that its thread has reached.
    pub clock: Cycle,
    fraction: u64,
    cycles_per_instruction: f64,
    instruction_cost: u64,
    /// Fetch cycles before each access.
    fetch: f64,
    /// Cycles of a load or store of the program's own memory.
    private_cost: f64,
    /// The charge for each access, and for each further word of a range.
    access: Charge,
    word: Charge,
    /// The additional charge for each word of a range, because a program of narrow stores needs more instructions to copy it.
    copied: Charge,
    /// The number of stores that a plain program makes for a word.
    pub parts: u64,
    /// The number of the running store's parts that are still to come.
    pub parts_left: u64,
    private: [f64; 2],
    instruction_fraction: u64,
    /// True if the running operation has already been charged and is being performed again.
    pub again: bool,
    /// Stores on their way to the first level; `None` if stores block.
    pub stores: Option<StoreQueue>,
    reorder_buffer: u64,
    /// Loads in flight: the instruction's number, and when it retires.
    in_flight: VecDeque<(u64, Cycle)>,
    last_retired: Cycle,
    /// The loads that need not wait for one another.
    pub overlap: LoadOverlap,
    /// Lines that collect non-temporal stores.
    pub combining: Vec<Combining>,
    /// The number of these lines that have left since the last fence.
    pub streamed: u64,
    /// The least number of cycles for which a write-back instruction occupies the core.
    flush_cost: u64,
    /// Cycles for which the program waits after each flush.
    flush_delay: u64,
    /// When the running write-back instruction began.
    flush_began: Cycle,
    /// True if the write-back that is to complete next has been sent and waits for its line to be durable.
    pub write_back_sent: bool,
    /// True if the running fence waits for everything (pcommit).
    pub committing: bool,
    /// The progress of wbinvd.
    pub cursor: usize,
    /// Its counts.
    pub statistics: CoreStatistics,
}

/// Instructions and the cycles that they take.
#[derive(Clone, Copy, Debug)]
struct Charge {
    instructions: u64,
    cost: u64,
}

fn fixed(value: f64) -> u64 {
    (value * f64::from(1u32 << FRACTION)).round() as u64
}

impl Core {
    /// Creates a core of `machine` at rest.
    pub fn new(machine: &Description) -> Self {
        let (cores, first_level) = (&machine.cores, machine.caches[0].latency);
        let queue = (cores.store_queue > 0)
            .then(|| StoreQueue::new(cores.store_queue, cores.stores_in_flight.min(cores.mshrs)));
        let none = Charge { instructions: 0, cost: 0 };
        let mut core = Self {
            clock: Cycle::ZERO,
            fraction: 0,
            cycles_per_instruction: cores.cycles_per_instruction,
            instruction_cost: fixed(cores.cycles_per_instruction),
            fetch: cores.fetch_cycles as f64,
            private_cost: match cores.fetch_cycles {
                0 => cores.cycles_per_instruction,
                fetch => (fetch + first_level) as f64,
            },
            access: none,
            word: none,
            copied: none,
            parts: 1,
            parts_left: 1,
            private: [0.0; 2],
            instruction_fraction: 0,
            again: false,
            stores: queue,
            reorder_buffer: cores.reorder_buffer as u64,
            in_flight: VecDeque::with_capacity(cores.reorder_buffer + 1),
            last_retired: Cycle::ZERO,
            overlap: match cores.kind {
                CoreKind::InOrder => LoadOverlap::None,
                CoreKind::OutOfOrder => cores.load_overlap,
            },
            combining: Vec::with_capacity(cores.write_combining_buffers + 1),
            streamed: 0,
            flush_cost: machine.cycles(machine.persistence.flush_cost_ns),
            flush_delay: machine.cycles(machine.persistence.flush_delay_ns),
            flush_began: Cycle::ZERO,
            write_back_sent: false,
            committing: false,
            cursor: 0,
            statistics: CoreStatistics::default(),
        };
        let constant = cores.instructions_per_access.map(Instructions::constant);
        core.set_instructions(&constant.unwrap_or(Instructions::TRANSACTIONS));
        core
    }

    /// Sets the instructions that its program executes between accesses.
    pub fn set_instructions(&mut self, instructions: &Instructions) {
        self.private = [instructions.private_loads, instructions.private_stores];
        let charge = |instructions: f64, private: f64| {
            let others = (instructions - private) * self.cycles_per_instruction;
            Charge {
                instructions: fixed(instructions),
                cost: fixed(others + private * self.private_cost + self.fetch),
            }
        };
        let private = self.private.iter().sum();
        (self.access, self.word) = (charge(instructions.access, private), charge(instructions.word, 0.0));
    }

    /// Sets that its program stores a word in `parts` parts, with `copied` additional instructions for each word of a range.
    pub fn set_parts(&mut self, parts: u64, copied: f64) {
        self.parts = parts;
        self.copied =
            Charge { instructions: fixed(copied), cost: fixed(copied * self.cycles_per_instruction) };
    }

    /// Returns how many loads and stores of its program's own memory there were.
    pub fn private_accesses(&self) -> [u64; 2] {
        self.private.map(|each| (each * self.statistics.operations as f64).round() as u64)
    }

    /// Charges the instructions of one access.
    pub fn charge_access(&mut self) {
        self.statistics.operations += 1;
        self.charge_for(self.access);
    }

    /// Charges the instructions of a further word of a range.
    pub fn charge_word(&mut self) {
        self.charge_for(self.word);
    }

    /// Charges the additional instructions of a word of a range if the program's stores are narrow.
    pub fn charge_copied(&mut self) {
        self.add(self.copied);
    }

    fn charge_for(&mut self, charge: Charge) {
        self.statistics.instructions += 1;
        self.add(charge);
    }

    fn add(&mut self, Charge { instructions, cost }: Charge) {
        self.fraction += cost;
        self.clock += self.fraction >> FRACTION;
        self.fraction &= (1 << FRACTION) - 1;
        self.instruction_fraction += instructions;
        self.statistics.instructions += self.instruction_fraction >> FRACTION;
        self.instruction_fraction &= (1 << FRACTION) - 1;
    }

    /// Begins a write-back instruction. If the instruction is performed again because it waits for its line rather than for a place in the store
    /// queue, it keeps its first time.
    pub fn begin_flush(&mut self) {
        if self.stores.is_some() || !self.again {
            self.flush_began = self.clock;
        }
    }

    /// Ends a write-back instruction: it occupies the core, and then the program waits.
    pub fn end_flush(&mut self) {
        let kept = (self.flush_began + self.flush_cost).since(self.clock);
        self.wait_for_flush(kept + self.flush_delay);
    }

    /// Makes the program wait after `flushes` flushes that have occupied the core otherwise.
    pub fn delay_flushes(&mut self, flushes: u64) {
        self.wait_for_flush(flushes * self.flush_delay);
    }

    fn wait_for_flush(&mut self, cycles: u64) {
        self.clock += cycles;
        self.statistics.stalls.flush += cycles;
    }

    /// Charges `instructions` instructions.
    pub fn charge(&mut self, instructions: u64) {
        self.fraction += instructions * self.instruction_cost;
        self.clock += self.fraction >> FRACTION;
        self.fraction &= (1 << FRACTION) - 1;
        self.statistics.instructions += instructions;
    }

    /// Repeats the iteration of a spin loop until the next one begins at `until` or later: a load of `load` cycles if there is one, and a pause.
    /// Returns the number of iterations.
    pub fn spin(&mut self, until: Cycle, load: Option<u64>, pause: u64) -> u64 {
        let (cost, charged) = load.map_or((0, 0), |_| (self.access.cost, self.access.instructions));
        let turn = load.unwrap_or(0) + pause;
        let after = |turns: u64| (self.fraction + turns * cost) + ((turns * turn) << FRACTION);
        let missing = until.since(self.clock);
        let mut turns = (missing << FRACTION) / ((turn << FRACTION) + cost);
        while after(turns) >> FRACTION < missing {
            turns += 1;
        }
        let passed = after(turns);
        self.clock += passed >> FRACTION;
        self.fraction = passed & ((1 << FRACTION) - 1);
        self.statistics.stalls.pause += turns * pause;
        if load.is_some() {
            self.instruction_fraction += turns * charged;
            self.statistics.instructions += turns + (self.instruction_fraction >> FRACTION);
            self.instruction_fraction &= (1 << FRACTION) - 1;
            self.statistics.loads += turns;
            self.statistics.operations += turns;
        }
        turns
    }

    /// Makes room in the reorder buffer for the next instruction.
    pub fn enter_reorder_buffer(&mut self) {
        while let Some(&(number, retires)) = self.in_flight.front() {
            if retires > self.clock {
                if number + self.reorder_buffer > self.statistics.instructions {
                    break;
                }
                self.statistics.stalls.reorder_buffer_full += retires - self.clock;
                self.clock = retires;
            }
            self.in_flight.pop_front();
        }
    }

    /// Adds a load that is in flight until `done`.
    pub fn load_in_flight(&mut self, done: Cycle) {
        self.last_retired = self.last_retired.max(done);
        self.in_flight.push_back((self.statistics.instructions, self.last_retired));
    }

    /// Waits for all loads.
    pub fn retire_loads(&mut self) {
        self.in_flight.clear();
        if self.last_retired > self.clock {
            self.statistics.stalls.load += self.last_retired - self.clock;
            self.clock = self.last_retired;
        }
    }

    /// Adds a non-temporal store to its line's buffer. Returns a buffer that must leave because it is full, or because there are more than `buffers`.
    pub fn combine(&mut self, line: LineNumber, word: u8, value: u64, buffers: usize) -> Option<Combining> {
        let at = match self.combining.iter().position(|buffer| buffer.line == line) {
            Some(at) => at,
            None => {
                self.combining.push(Combining { line, mask: 0, data: [0; 8] });
                self.combining.len() - 1
            }
        };
        let buffer = &mut self.combining[at];
        buffer.data[usize::from(word)] = value;
        buffer.mask |= 1 << word;
        if buffer.mask == 0xff {
            Some(self.combining.remove(at))
        } else if self.combining.len() > buffers {
            Some(self.combining.remove(0))
        } else {
            None
        }
    }

    /// Sets all counts to zero: the region of interest begins.
    pub fn reset_statistics(&mut self) {
        self.statistics = CoreStatistics::default();
        // Instruction numbers restart.
        self.in_flight.clear();
    }
}
