//! Persist buffers: hardware that implements strict, epoch and strand persistency (deferred-commit paper, sections 2 and 4; the buffers are ours,
//! since the paper leaves hardware open).
//!
//! Each core has a buffer of persists: copies of lines when the core stored to them. Persists belong to *epochs*. An epoch's persists are sent to
//! memory when the epoch has ended (or the buffer is half full) and all epochs that it is ordered after are on the medium; those of one epoch are
//! sent together. Only two things stall: a store that finds the buffer full, and a fence, which waits for all of its core's persists.
//!
//! | model | a new epoch begins | and is ordered after |
//! |---|---|---|
//! | strict | with each store, but for stores to the line stored to last | the one before |
//! | epoch | at a persist barrier | the one before |
//! | strand | at a persist barrier, at a new strand | the one before; none |
//!
//! *Other cores* (strong persist atomicity, and order that threads establish by locks): a core that accesses a line which another core has stored to,
//! in an epoch that is not on the medium yet, is ordered after that epoch from then on. That epoch ends there, so that no two epochs can be ordered
//! after each other. This is more order than the models demand, which would wait for a barrier. The same core's stores to one line keep their order
//! across strands.
//!
//! *Caches* never write home lines that have gone through a buffer: modified lines that leave the caches are dropped, and the buffers answer reads.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::{
    Boundary, Entry, HardwareScheme, MemoryPort, Mutant, Ordering, Parameter, Reply, Setup, StoredWord,
    WayHome,
};
use crate::cache::Hierarchy;
use crate::controller::{Line, MemorySide};
use crate::description::PersistenceDomain;
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::statistics::Origin;

/// The capacity of a core's buffer.
const PERSISTS: Parameter = Parameter {
    name: "persists",
    unit: "lines",
    range: 2..=4096,
    default: 32,
    description: "what a core's buffer holds; at half of it an epoch's persists are sent before the epoch has ended",
};

/// The rule that orders persists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Strict,
    Epoch,
    Strand,
}

const MUTANTS: &[Mutant] = &[
    Mutant { name: "barrier", rule: "a persist barrier begins an epoch", redundant: None },
    Mutant {
        name: "conflict",
        rule: "conflicting accesses order epochs of different cores",
        redundant: None,
    },
    Mutant { name: "flush", rule: "a fence waits for the core's persists", redundant: None },
];

const STRICT_MUTANTS: &[Mutant] = &[
    Mutant { name: "store-order", rule: "each store is ordered after the one before", redundant: None },
    Mutant {
        name: "conflict",
        rule: "conflicting accesses order epochs of different cores",
        redundant: None,
    },
    Mutant { name: "flush", rule: "a fence waits for the core's persists", redundant: None },
];

const SOURCE: &str = "Kolli, Pelley, Saidi, Chen, Wenisch: the models; Strandline: the buffers";

macro_rules! entry {
    ($name:literal, $model:ident, $what:literal, $mutants:ident, $software:expr) => {
        Entry {
            name: $name,
            source: SOURCE,
            description: $what,
            make: Some(|setup| match setup.machine.persistence.domain {
                PersistenceDomain::FlushOnFail => Err("caches that survive need no persist buffers".into()),
                _ => Ok(Box::new(PersistBuffers::new($name, Model::$model, setup))),
            }),
            recover: |_, _, _| Ok(()),
            software: $software,
            is_durable: true,
            parameters: &[PERSISTS],
            mutants: $mutants,
        }
    };
}

/// Persist buffers under strict persistency.
pub const STRICT: Entry = entry!(
    "persist-strict",
    Strict,
    "persist buffers under strict persistency: stores persist in their order",
    STRICT_MUTANTS,
    &["sct-strict", "dct-strict"]
);
/// Persist buffers under epoch persistency.
pub const EPOCH: Entry = entry!(
    "persist-epoch",
    Epoch,
    "persist buffers under epoch persistency: persist barriers order and do not stall",
    MUTANTS,
    &["sct-epoch", "dct-epoch"]
);
/// Persist buffers under strand persistency.
pub const STRAND: Entry = entry!(
    "persist-strand",
    Strand,
    "persist buffers under strand persistency: barriers order within a strand",
    MUTANTS,
    &["sct-strand", "dct-strand"]
);

/// An epoch's core and number.
type Name = (CoreId, u64);

#[derive(Default)]
struct Epoch {
    number: u64,
    /// The number of epochs of all cores that began before it. It is ordered only after earlier ones.
    began: u64,
    /// True if it has ended, so that nothing is added any more.
    closed: bool,
    /// The epochs that it is ordered after. Those on the medium are removed when they are checked.
    after: Vec<Name>,
    /// Persists that have not been sent.
    waiting: Vec<(LineNumber, Line)>,
    /// The number of persists that are sent and not on the medium.
    sent: usize,
}

#[derive(Default)]
struct Buffer {
    /// The epochs that are not on the medium, and the last one, which takes stores.
    epochs: VecDeque<Epoch>,
    held: usize,
    /// When everything that was sent is on the medium.
    durable: Cycle,
}

/// The buffers of all cores.
struct PersistBuffers {
    name: &'static str,
    model: Model,
    /// The capacity of each buffer.
    capacity: usize,
    /// False in a mutant, in which neither barriers nor, under strict persistency, stores begin epochs.
    ordered: bool,
    conflicts: bool,
    flushes: bool,
    buffers: Vec<Buffer>,
    /// The epoch that has last stored to a line, while that epoch is not on the medium.
    writers: HashMap<LineNumber, Name>,
    /// The newest words of lines in buffers, and how many persists hold the line.
    newest: HashMap<LineNumber, (Line, usize)>,
    /// When persists that were sent are on the medium.
    done: BTreeMap<Cycle, Vec<(Name, LineNumber)>>,
    /// From when on something may be sent.
    changed: Option<Cycle>,
    /// The number of epochs that began, without the first of each core.
    began: u64,
    /// The latest time acted at. Accesses are performed at once with all their latencies, so cores may be behind it.
    now: Cycle,
    /// Persists sent, stores that joined one, dropped lines, conflicts.
    counts: [u64; 4],
}

impl PersistBuffers {
    fn new(name: &'static str, model: Model, setup: &Setup<'_>) -> Self {
        let buffer = || Buffer { epochs: VecDeque::from([Epoch::default()]), ..Buffer::default() };
        Self {
            name,
            model,
            capacity: PERSISTS.of(setup.machine) as usize,
            ordered: !setup.omits("barrier") && !setup.omits("store-order"),
            conflicts: !setup.omits("conflict"),
            flushes: !setup.omits("flush"),
            buffers: (0..setup.machine.cores.count).map(|_| buffer()).collect(),
            writers: HashMap::new(),
            newest: HashMap::new(),
            done: BTreeMap::new(),
            changed: None,
            began: 0,
            now: Cycle::ZERO,
            counts: [0; 4],
        }
    }

    fn current(&self, core: CoreId) -> &Epoch {
        self.buffers[core].epochs.back().expect("the last epoch stays")
    }

    fn current_mut(&mut self, core: CoreId) -> &mut Epoch {
        self.buffers[core].epochs.back_mut().expect("the last epoch stays")
    }

    fn find(&self, (core, number): Name) -> Option<&Epoch> {
        let epochs = &self.buffers[core].epochs;
        epochs.binary_search_by_key(&number, |epoch| epoch.number).ok().map(|at| &epochs[at])
    }

    /// Returns whether `wanted` holds for `name` or for an epoch that it is ordered after and that did not begin before `since`.
    fn holds_before(&self, name: Name, since: u64, wanted: impl Fn(Name, &Epoch) -> bool) -> bool {
        let (mut open, mut seen) = (vec![name], HashSet::new());
        while let Some(name) = open.pop() {
            let Some(epoch) = self.find(name).filter(|epoch| epoch.began >= since) else { continue };
            if wanted(name, epoch) {
                return true;
            }
            open.extend(epoch.after.iter().filter(|&&before| seen.insert(before)));
        }
        false
    }

    /// Returns whether the epoch and all those before it are completely on the medium.
    fn is_done(&self, name: Name) -> bool {
        !self.holds_before(name, 0, |_, epoch| epoch.sent > 0 || !epoch.waiting.is_empty())
    }

    /// Returns whether `name` is already ordered after `before`.
    fn precedes(&self, before: Name, name: Name) -> bool {
        let since = self.find(before).map_or(u64::MAX, |epoch| epoch.began);
        self.holds_before(name, since, |name, _| name == before)
    }

    /// Ends the core's epoch. The next one is ordered after it if `ordered`, and after `also`.
    fn next_epoch(&mut self, core: CoreId, ordered: bool, also: Option<Name>) {
        let last = self.current_mut(core);
        last.closed = true;
        let number = last.number + 1;
        let after = ordered.then_some((core, number - 1)).into_iter().chain(also).collect();
        self.began += 1;
        self.buffers[core].epochs.push_back(Epoch { number, began: self.began, after, ..Epoch::default() });
        self.changes(self.now);
    }

    /// Notes that something may be sent from `now` on.
    fn changes(&mut self, now: Cycle) {
        self.changed = Some(self.changed.map_or(now, |at| at.min(now)));
    }

    /// Handles an access of `core` to a line that another epoch has stored to.
    fn order_after(&mut self, core: CoreId, line: LineNumber, stores: bool) {
        let Some(&other) = self.writers.get(&line) else { return };
        if self.is_done(other) {
            self.writers.remove(&line);
            return;
        }
        let (same_core, current) = (other.0 == core, (core, self.current(core).number));
        // A core's loads order nothing across its own strands.
        let unordered = if same_core { !stores } else { !self.conflicts };
        if unordered || other == current || self.precedes(other, current) {
            return;
        }
        if !same_core && other.1 == self.current(other.0).number {
            self.next_epoch(other.0, true, None);
        }
        self.counts[3] += u64::from(!same_core);
        self.next_epoch(core, true, Some(other));
    }

    /// Sends persists of epochs that are ordered only after complete ones, and forgets complete epochs. Not before the latest time acted at, up to
    /// which persists were assumed to be on the medium.
    fn send(&mut self, memory: &mut MemorySide) {
        let now = self.now;
        while self.changed.take().is_some() {
            for core in CoreId::first(self.buffers.len()) {
                let mut at = 0;
                while at < self.buffers[core].epochs.len() {
                    let after = std::mem::take(&mut self.buffers[core].epochs[at].after);
                    let after: Vec<_> = after.into_iter().filter(|&name| !self.is_done(name)).collect();
                    let crowded = self.buffers[core].held > self.capacity / 2;
                    let epoch = &mut self.buffers[core].epochs[at];
                    let free = after.is_empty() && (epoch.closed || crowded);
                    epoch.after = after;
                    let (number, waiting) = match free {
                        true => (epoch.number, std::mem::take(&mut epoch.waiting)),
                        false => (epoch.number, Vec::new()),
                    };
                    epoch.sent += waiting.len();
                    let done = free && epoch.closed && epoch.sent == 0;
                    for (line, data) in waiting {
                        memory.write(line, &data, 0xff, now, Origin::Scheme, None);
                        let until = memory.hurry(line, now).max(now + 1);
                        self.done.entry(until).or_default().push(((core, number), line));
                        self.buffers[core].durable = self.buffers[core].durable.max(until);
                        self.counts[0] += 1;
                    }
                    if done {
                        self.buffers[core].epochs.remove(at);
                        self.changes(now);
                    } else {
                        at += 1;
                    }
                }
            }
        }
    }

    /// Returns when the next persist is on the medium.
    fn next_done(&self, now: Cycle) -> Cycle {
        self.done.keys().next().map_or(now + 1, |&at| at.max(now + 1))
    }
}

impl MemoryPort for PersistBuffers {
    fn read(&mut self, memory: &mut MemorySide, line: LineNumber, now: Cycle) -> Option<(Cycle, Line)> {
        let newest = self.newest.get(&line)?.0;
        // The memory is read nevertheless, for its time.
        Some((memory.read(line, now).0, newest))
    }

    fn way_home(&mut self, memory: &mut MemorySide, line: LineNumber, _: &Line, now: Cycle) -> WayHome {
        if line >= memory.pool_end() {
            return WayHome::Home(now);
        }
        self.counts[2] += 1;
        WayHome::Taken(now)
    }
}

impl HardwareScheme for PersistBuffers {
    fn name(&self) -> &'static str {
        self.name
    }

    fn boundary(&mut self, caches: &mut Hierarchy, core: CoreId, boundary: Boundary, now: Cycle) -> Reply {
        if boundary != Boundary::Flush || !self.flushes {
            return Reply::Go(now);
        }
        if !self.current(core).waiting.is_empty() {
            self.next_epoch(core, true, None);
        }
        self.act(caches, now);
        let Buffer { held, durable, .. } = self.buffers[core];
        match held {
            0 if durable <= now => Reply::Go(now),
            0 => Reply::Wait(durable),
            _ => Reply::Wait(self.next_done(now)),
        }
    }

    fn orders(&mut self, core: CoreId, ordering: Ordering, _: Cycle) {
        match (self.model, ordering) {
            (Model::Strict, _) | (Model::Epoch, Ordering::Strand) => {}
            (_, Ordering::Barrier) => {
                if self.ordered {
                    self.next_epoch(core, true, None);
                }
            }
            (Model::Strand, Ordering::Strand) => self.next_epoch(core, false, None),
        }
    }

    fn accessed(&mut self, core: CoreId, line: LineNumber, stores: bool) {
        self.order_after(core, line, stores);
        // A core that synchronises orders what it has persisted so far.
        if stores && !self.is_done((core, self.current(core).number)) {
            self.writers.insert(line, (core, self.current(core).number));
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
        let line = stored.line;
        if line >= caches.memory.pool_end() {
            return Reply::Go(now);
        }
        let mut data = caches.first(core).data[entry].0;
        data[usize::from(stored.word)] = stored.value;
        let joins = |epoch: &Epoch| epoch.waiting.iter().rposition(|&(other, _)| other == line);
        let mut joined = joins(self.current(core));
        if self.model == Model::Strict
            && self.ordered
            && joined.is_none()
            && !self.current(core).waiting.is_empty()
            || self.model == Model::Strict && self.ordered && self.current(core).sent > 0
        {
            self.next_epoch(core, true, None);
            joined = None;
        }
        match joined {
            Some(at) => {
                self.current_mut(core).waiting[at].1 = data;
                self.counts[1] += 1;
            }
            None => {
                if self.buffers[core].held >= self.capacity {
                    return Reply::Wait(self.next_done(now));
                }
                // An earlier persist of the line must arrive first.
                if self.newest.contains_key(&line) && self.current(core).sent > 0 {
                    self.next_epoch(core, true, None);
                }
                self.buffers[core].held += 1;
                self.current_mut(core).waiting.push((line, data));
                self.newest.entry(line).or_insert((data, 0)).1 += 1;
            }
        }
        if let Some(newest) = self.newest.get_mut(&line) {
            newest.0 = data;
        }
        let number = self.current(core).number;
        self.writers.insert(line, (core, number));
        self.changes(now);
        Reply::Go(now)
    }

    fn copy(&self, line: LineNumber) -> Option<Line> {
        self.newest.get(&line).map(|&(data, _)| data)
    }

    fn next_event(&self) -> Cycle {
        let done = self.done.keys().next().copied().unwrap_or(Cycle::NEVER);
        self.changed.map_or(done, |at| at.max(self.now).min(done))
    }

    fn act(&mut self, caches: &mut Hierarchy, now: Cycle) {
        self.now = self.now.max(now);
        while let Some(first) = self.done.first_entry() {
            if *first.key() > now {
                break;
            }
            for ((core, number), line) in first.remove() {
                self.buffers[core].held -= 1;
                let epochs = &mut self.buffers[core].epochs;
                if let Ok(at) = epochs.binary_search_by_key(&number, |epoch| epoch.number) {
                    epochs[at].sent -= 1;
                }
                if let Some(newest) = self.newest.get_mut(&line) {
                    newest.1 -= 1;
                    if newest.1 == 0 {
                        self.newest.remove(&line);
                    }
                }
            }
            self.changes(self.now);
        }
        self.send(&mut caches.memory);
    }

    fn statistics(&self) -> Vec<(String, u64)> {
        let names = ["persists", "stores joined to one", "modified lines dropped", "conflicts"];
        names.into_iter().map(str::to_owned).zip(self.counts).collect()
    }

    fn reset_statistics(&mut self) {
        self.counts = [0; 4];
    }
}
