//! ATOM: hardware undo logging (Joshi, Nagarajan, Viglas, Cintra: ATOM, HPCA 2017).
//!
//! Software under it is `hardware-flushed`: it stores in place between Atomic_Begin and Atomic_End, and writes everything that it modified back
//! before Atomic_End. The software isolates transactions by locks, in whole lines, since old values are logged by lines.
//!
//! LogI, in each core's first level ([`Atom::store`]): the first store of an update to a line sends the line's old value to the controller of the
//! line, where LogM (`Manager`) logs it. The log bit of a line is the number of the update in its tag. It is lost when the line leaves the first
//! level, and the next update ignores it.
//!
//! | | the store continues |
//! |---|---|
//! | [`Design::Base`] | when its entry is durable: old value and header, written for each entry (section III-B) |
//! | [`Design::Posted`] | when its controller has taken the entry and locked the line (III-C) |
//! | [`Design::Source`] | as under `Posted`; in addition, its controller logs a line that is fetched from memory for a store (III-D) |
//!
//! **Decisions that the paper leaves open**
//!
//! - *The owner of a full bucket.* The 128 saved bytes have no bucket bit vectors. A header's reserved bits hold the structure and a number that
//!   increases from record to record of a controller.
//! - *An update over several controllers must end atomically.* Atomic_End goes to the first controller that has entries of it, which sets a flag
//!   among its saved bits (the top of the current-record register): this ends the update. It informs the others, which clear their vectors, and it
//!   clears its own vector and flag last. Recovery ignores a structure that is flagged anywhere; a structure is reused when everything is clear.
//! - *While a header is being written* there is no register for the addresses of further entries, so they wait. BASE does not collate entries, since
//!   each store waits for its header.
//! - *A line that goes home before its entry is durable* takes its place in the queue and begins on the medium when the record is durable; header and
//!   old values then precede reads.
//! - *Log overflow.* The pages that the OS grants lengthen the update's current bucket; a table in the log area, durable before the page is used,
//!   maps the page to its bucket. Some buckets are reserved for structures that have none.
//! - *Recovery may be interrupted*: one word, stored last, marks the end of recovery. It is also the number of the next life, which `record.rs`
//!   explains.
//! - Only lines of the pool are logged: the volatile words need none.

mod manager;
mod record;
mod recovery;
pub mod redo;

pub use record::{ENTRIES, Parameters, RECORD_LINES};
pub use recovery::{recover, recover_with};

use crate::cache::Hierarchy;
use crate::controller::{Line, MemorySide};
use crate::network::{Message, Node};
use crate::numbers::{CoreId, Cycle, LineNumber};

use super::{
    Boundary, Entry, HardwareScheme, MemoryPort, Mutant, Parameter, Reply, Setup, StoredWord, WayHome, named,
};
use manager::Manager;
use record::{Area, CRITICAL_LINES, encode_saved, life};

const SOURCE: &str = "Joshi, Nagarajan, Viglas, Cintra: ATOM";

const INVARIANT_1: Mutant = Mutant {
    name: "invariant-1",
    rule: "a store completes only when an undo log entry exists (II-C): here one whose entry would wait does not log",
    redundant: None,
};
const INVARIANT_2: Mutant = Mutant {
    name: "invariant-2",
    rule: "data go home only when their log entry is durable (II-C)",
    redundant: None,
};
const HEADER_MATCH: Mutant = Mutant {
    name: "header-match",
    rule: "a line on its way home is compared with the header registers (IV-C): here with written headers alone",
    redundant: None,
};
const EARLY_UNLOCK: Mutant = Mutant {
    name: "early-unlock",
    rule: "a line is unlocked, and its record counted, when the record is durable: here when its header is sent",
    redundant: None,
};
const ADR_REGISTERS: Mutant = Mutant {
    name: "adr-registers",
    rule: "a power failure saves free list, current buckets and current records (IV-D)",
    redundant: None,
};
const UNDO_ORDER: Mutant = Mutant {
    name: "undo-order",
    rule: "recovery undoes the newest record first (III-B, IV-D)",
    redundant: None,
};
const GRANT_LIFE: Mutant = Mutant {
    name: "grant-life",
    rule: "recovery ignores pages that the OS granted in an earlier life (ours)",
    redundant: None,
};
const END_FLAG: Mutant = Mutant {
    name: "end-flag",
    rule: "an update over several controllers ends at once (ours): here each controller clears its vector by itself",
    redundant: None,
};

const MUTANTS: &[Mutant] =
    &[INVARIANT_1, INVARIANT_2, HEADER_MATCH, EARLY_UNLOCK, ADR_REGISTERS, UNDO_ORDER, END_FLAG, GRANT_LIFE];
/// BASE's stores wait for durable headers, so that no line can go home before its entry is durable.
const BASE_MUTANTS: &[Mutant] = &[ADR_REGISTERS, UNDO_ORDER, END_FLAG, GRANT_LIFE];

const PAPER: Parameters = Parameters::PAPER;
const STRUCTURES: Parameter = Parameter {
    name: "structures",
    unit: "structures",
    range: 1..=32,
    default: PAPER.structures as u64,
    description: "atomic update structures: updates that a controller follows at a time",
};
const BUCKETS: Parameter = Parameter {
    name: "buckets",
    unit: "buckets",
    range: 2..=256,
    default: PAPER.buckets as u64,
    description: "log buckets behind each controller, more than structures",
};
const RECORDS: Parameter = Parameter {
    name: "records",
    unit: "records",
    range: 1..=256,
    default: PAPER.records,
    description: "records of a bucket, before the operating system grants more",
};
const GRANTS: Parameter = Parameter {
    name: "grants",
    unit: "pages",
    range: 0..=record::MAX_GRANTS,
    default: PAPER.grants,
    description: "pages that the operating system can grant behind each controller",
};
const GRANT_CYCLES: Parameter = Parameter {
    name: "grant_cycles",
    unit: "cycles",
    range: 0..=10_000_000,
    default: PAPER.grant_cycles,
    description: "an interrupt in which the operating system grants a page",
};
const PARAMETERS: [Parameter; 5] = [STRUCTURES, BUCKETS, RECORDS, GRANTS, GRANT_CYCLES];

impl Parameters {
    /// Returns the parameters of a machine's `[scheme]` table, and otherwise the paper's.
    pub fn of(machine: &crate::Description) -> Self {
        Self {
            structures: STRUCTURES.of(machine) as usize,
            buckets: BUCKETS.of(machine) as usize,
            records: RECORDS.of(machine),
            grants: GRANTS.of(machine),
            grant_cycles: GRANT_CYCLES.of(machine),
        }
    }
}

/// BASE.
pub const BASE: Entry = Entry {
    name: "atom-base",
    source: SOURCE,
    description: "BASE: hardware undo log, each first store to a line waits until its entry is durable",
    make: Some(|setup| Ok(Box::new(Atom::new(Design::Base, Parameters::of(setup.machine), setup)?))),
    recover,
    software: &["hardware-flushed+locks"],
    is_durable: true,
    parameters: &PARAMETERS,
    mutants: BASE_MUTANTS,
};

/// ATOM.
pub const POSTED: Entry = Entry {
    name: "atom",
    description: "posted undo log: stores go on while the controller holds their lines back behind the log",
    make: Some(|setup| Ok(Box::new(Atom::new(Design::Posted, Parameters::of(setup.machine), setup)?))),
    mutants: MUTANTS,
    ..BASE
};

/// ATOM-OPT.
pub const SOURCE_LOGGED: Entry = Entry {
    name: "atom-opt",
    description: "the same with source logging: what a store fetches from memory is logged by its controller",
    make: Some(|setup| Ok(Box::new(Atom::new(Design::Source, Parameters::of(setup.machine), setup)?))),
    ..POSTED
};

/// How log entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// In the critical path.
    Base,
    /// Posted.
    Posted,
    /// Posted, and logged at the source where a store misses.
    Source,
}

/// A log entry that is being written.
struct Pending {
    line: LineNumber,
    old: Line,
    /// When it reaches its controller.
    arrived: Cycle,
    /// True if it was written and only has to become durable.
    written: bool,
}

/// LogI of one core.
#[derive(Default)]
struct Initiator {
    /// The structure of the running update.
    structure: Option<usize>,
    /// How deep regions are nested.
    depth: u32,
    /// The number of the running update, which tags its lines.
    number: u32,
    pending: Option<Pending>,
    /// The line that its controller logged when it was fetched.
    logged_at_source: Option<LineNumber>,
    /// A bit for each controller that has entries of the update.
    controllers: u64,
}

/// An update that has ended, while its controllers are informed.
struct Ending {
    structure: usize,
    /// The controller that decides, and when.
    flagged: Option<(usize, Cycle)>,
    /// When each controller clears its vector.
    clears: Vec<(usize, Cycle)>,
    done: Cycle,
}

/// The hardware of BASE, ATOM and ATOM-OPT.
pub struct Atom {
    design: Design,
    parameters: Parameters,
    reserved_bytes: u64,
    omitted: Option<&'static str>,
    managers: Vec<Manager>,
    initiators: Vec<Initiator>,
    taken: Vec<bool>,
    endings: Vec<Ending>,
    counts: Counts,
}

/// LogI's counters.
#[derive(Clone, Copy, Default)]
struct Counts {
    updates: u64,
    source_logged: u64,
    header_waits: u64,
    structural_overflows: u64,
}

/// After how many cycles a stalled Atomic_Begin tries again to get a structure.
const OVERFLOW_RETRY: u64 = 50;

impl Atom {
    /// Creates idle hardware.
    ///
    /// # Errors
    /// Returns an error if the sizes are impossible.
    pub fn new(design: Design, parameters: Parameters, setup: &Setup<'_>) -> Result<Self, String> {
        let Parameters { structures, buckets, records, grants, .. } = parameters;
        if !(1..=32).contains(&structures)
            || buckets <= structures
            || buckets > 256
            || records == 0
            || grants > record::MAX_GRANTS
        {
            return Err(format!(
                "scheme.structures = {structures} and scheme.buckets = {buckets}: there must be more buckets than structures"
            ));
        }
        let machine = setup.machine;
        Ok(Self {
            design,
            parameters,
            reserved_bytes: parameters.reserved_bytes(&machine.controllers),
            omitted: setup.omitted,
            managers: (0..machine.controllers.count).map(|n| Manager::new(n, parameters)).collect(),
            initiators: (0..machine.cores.count).map(|_| Initiator::default()).collect(),
            taken: vec![false; structures],
            endings: Vec::new(),
            counts: Counts::default(),
        })
    }

    fn omits(&self, mutant: Mutant) -> bool {
        self.omitted == Some(mutant.name)
    }

    /// Carries out what controllers have done by `now` for updates that have ended.
    fn settle_endings(&mut self, now: Cycle) {
        let (managers, taken) = (&mut self.managers, &mut self.taken);
        self.endings.retain_mut(|ending| {
            if let Some((controller, at)) = ending.flagged
                && at <= now
            {
                managers[controller].end(ending.structure);
                ending.flagged = None;
            }
            ending.clears.retain(|&(controller, at)| {
                if at <= now {
                    managers[controller].clear(ending.structure);
                }
                at > now
            });
            taken[ending.structure] = ending.done > now;
            ending.done > now
        });
    }

    fn begin(&mut self, core: CoreId, now: Cycle) -> Reply {
        if self.initiators[core].depth > 0 {
            self.initiators[core].depth += 1;
            return Reply::Go(now);
        }
        self.settle_endings(now);
        let own = (self.taken.get(core.index()) == Some(&false)).then_some(core.index());
        let Some(structure) = own.or_else(|| self.taken.iter().position(|taken| !taken)) else {
            self.counts.structural_overflows += 1;
            let freed = self.endings.iter().map(|ending| ending.done).min();
            return Reply::Wait(freed.unwrap_or(now + OVERFLOW_RETRY).max(now + 1));
        };
        self.taken[structure] = true;
        self.counts.updates += 1;
        let initiator = &mut self.initiators[core];
        initiator.depth = 1;
        initiator.structure = Some(structure);
        initiator.number = initiator.number.wrapping_add(1).max(1);
        initiator.controllers = 0;
        Reply::Go(now)
    }

    fn end(&mut self, caches: &mut Hierarchy, core: CoreId, now: Cycle) -> Reply {
        let initiator = &mut self.initiators[core];
        initiator.depth = initiator.depth.saturating_sub(1);
        if initiator.depth > 0 {
            return Reply::Go(now);
        }
        initiator.pending = None;
        initiator.logged_at_source = None;
        let Some(structure) = initiator.structure.take() else { return Reply::Go(now) };
        let controllers = std::mem::take(&mut initiator.controllers);
        if controllers == 0 {
            self.taken[structure] = false;
            return Reply::Go(now);
        }
        let network = &mut caches.network;
        let first = controllers.trailing_zeros() as usize;
        let others = (0..self.managers.len()).filter(|&n| n != first && controllers >> n & 1 == 1);
        let (home, from) = (Node::Controller(first), Node::Core(core));
        let decided = network.send(from, home, Message::Control, now) + 1;
        let mut clears = Vec::new();
        let mut done = decided;
        let alone = self.omitted == Some(END_FLAG.name);
        for other in others {
            let (by, at) = if alone { (from, now) } else { (home, decided) };
            let cleared = network.send(by, Node::Controller(other), Message::Control, at) + 1;
            clears.push((other, cleared));
            done = done.max(network.send(Node::Controller(other), home, Message::Control, cleared));
        }
        let flagged = (!clears.is_empty() && !alone).then_some((first, decided));
        clears.push((first, if alone { decided } else { done }));
        self.endings.push(Ending { structure, flagged, clears, done });
        Reply::Go(network.send(home, from, Message::Control, decided))
    }

    /// Writes a log entry of `core`'s update.
    fn log(
        &mut self,
        memory: &mut MemorySide,
        core: CoreId,
        line: LineNumber,
        old: &Line,
        at: Cycle,
    ) -> Result<Cycle, Cycle> {
        let structure = self.initiators[core].structure.expect("an update runs");
        let controller = memory.controller(line);
        let manager = &mut self.managers[controller];
        let accepted = manager.log(memory, structure, line, old, at)?;
        self.initiators[core].controllers |= 1 << controller;
        if self.omitted == Some(EARLY_UNLOCK.name) {
            manager.finish_unsettled(structure);
        }
        Ok(accepted)
    }

    /// Sends the line at `entry` to be logged, or continues doing so.
    fn initiate(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        line: LineNumber,
        entry: usize,
        now: Cycle,
    ) -> Reply {
        let old = caches.first(core).data[entry].0;
        let controller = caches.memory.controller(line);
        let pending = self.initiators[core].pending.take();
        // The line may have been taken away, and changed, while its entry waited.
        let mut pending = match pending.filter(|pending| pending.line == line && pending.old == old) {
            Some(pending) => pending,
            None => {
                let to = Node::Controller(controller);
                let arrived = caches.network.send(Node::Core(core), to, Message::Data, now);
                Pending { line, old, arrived, written: false }
            }
        };
        let at = pending.arrived.max(now);
        let mut accepted = at;
        if !pending.written {
            match self.log(&mut caches.memory, core, line, &old, at) {
                Ok(time) => accepted = time,
                Err(_) if self.omits(INVARIANT_1) => return Reply::Go(at),
                Err(again) => {
                    self.counts.header_waits += 1;
                    self.initiators[core].pending = Some(pending);
                    return Reply::Wait(again);
                }
            }
        }
        if self.design == Design::Base {
            let structure = self.initiators[core].structure.expect("an update runs");
            if !pending.written {
                self.managers[controller].close(&mut caches.memory, structure, accepted);
                pending.written = true;
                pending.arrived = accepted;
                accepted = accepted.max(now);
            }
            if let Err(again) = self.managers[controller].settle(&mut caches.memory, structure, accepted) {
                self.initiators[core].pending = Some(pending);
                return Reply::Wait(again);
            }
        }
        caches.first(core).states[entry].tag = self.initiators[core].number;
        Reply::Go(caches.network.send(
            Node::Controller(controller),
            Node::Core(core),
            Message::Control,
            accepted,
        ))
    }
}

impl MemoryPort for Atom {
    fn fetched(
        &mut self,
        memory: &mut MemorySide,
        core: CoreId,
        exclusive: bool,
        line: LineNumber,
        data: &Line,
        at: Cycle,
    ) {
        let applies = self.design == Design::Source
            && exclusive
            && self.initiators[core].structure.is_some()
            && line < memory.pool_end();
        // Without a free header register LogI sends the entry, as in ATOM.
        if applies && self.log(memory, core, line, data, at).is_ok() {
            self.counts.source_logged += 1;
            self.initiators[core].logged_at_source = Some(line);
        }
    }

    fn way_home(&mut self, memory: &mut MemorySide, line: LineNumber, _: &Line, now: Cycle) -> WayHome {
        if line >= memory.pool_end() || self.omits(INVARIANT_2) {
            return WayHome::Home(now);
        }
        let open = !self.omits(HEADER_MATCH);
        let manager = &mut self.managers[memory.controller(line)];
        WayHome::Home(manager.unlocked(memory, line, now, open))
    }
}

impl HardwareScheme for Atom {
    fn name(&self) -> &'static str {
        match self.design {
            Design::Base => BASE.name,
            Design::Posted => POSTED.name,
            Design::Source => SOURCE_LOGGED.name,
        }
    }

    fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    fn boundary(&mut self, caches: &mut Hierarchy, core: CoreId, boundary: Boundary, now: Cycle) -> Reply {
        match boundary {
            Boundary::Begin => self.begin(core, now),
            // An abort has restored the old values.
            Boundary::Commit(_) | Boundary::Abort => self.end(caches, core, now),
            Boundary::Flush => Reply::Go(now),
        }
    }

    fn store(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        stored: StoredWord,
        entry: usize,
        now: Cycle,
    ) -> Reply {
        let initiator = &mut self.initiators[core];
        if initiator.structure.is_none() || stored.line >= caches.memory.pool_end() {
            return Reply::Go(now);
        }
        let tag = &mut caches.first(core).states[entry].tag;
        if *tag == initiator.number {
            return Reply::Go(now);
        }
        if initiator.logged_at_source.take() == Some(stored.line) {
            *tag = initiator.number;
            return Reply::Go(now);
        }
        self.initiate(caches, core, stored.line, entry, now)
    }

    fn power_fails(&mut self, caches: &mut Hierarchy, image: &mut [u64], now: Cycle) {
        if self.omits(ADR_REGISTERS) {
            return;
        }
        let memory = &mut caches.memory;
        for (controller, manager) in self.managers.iter().enumerate() {
            let mut registers = manager.critical(memory, now);
            for ending in &self.endings {
                if ending.flagged.is_some_and(|(decides, at)| decides == controller && at <= now) {
                    registers.current[ending.structure].ended = true;
                }
                if ending.clears.iter().any(|&(clears, at)| clears == controller && at <= now) {
                    manager.clear_saved(&mut registers, ending.structure);
                }
            }
            let words = registers.encode();
            for line in 0..CRITICAL_LINES {
                let at = memory.reserved_line(controller, line as u64).first_word();
                image[at..at + 8].copy_from_slice(&words[8 * line..][..8]);
            }
        }
        let area = Area { parameters: self.parameters, controllers: memory.controllers() };
        let saved = encode_saved(life(memory, self.parameters), true);
        image[memory.pool_end().first_word() + area.saved()] = saved;
    }

    fn statistics(&self) -> Vec<(String, u64)> {
        let sum = |of: fn(&manager::Counts) -> u64| self.managers.iter().map(|m| of(&m.counts)).sum();
        let counts = [
            ("atomic updates", self.counts.updates),
            ("log entries", sum(|counts| counts.entries)),
            ("of them source-logged", self.counts.source_logged),
            ("log records", sum(|counts| counts.records)),
            ("headers written early", sum(|counts| counts.forced)),
            ("lines held back behind the log", sum(|counts| counts.locked)),
            ("entries that waited for a header", self.counts.header_waits),
            ("structural overflows", self.counts.structural_overflows),
            ("log overflows", sum(|counts| counts.grants)),
        ];
        named(counts)
    }

    fn reset_statistics(&mut self) {
        self.counts = Counts::default();
        self.managers.iter_mut().for_each(|manager| manager.counts = Default::default());
    }
}
