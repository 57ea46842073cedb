//! The memory hierarchy: private caches over shared ones over memory, kept coherent by a MESI directory.
//!
//! The directory is part of the first shared level, or of the controllers if there is none. For every line of memory it records which cores have it
//! in a private cache and which may write it; it never runs out of room. Each cache keeps its own copy of words, so that a power failure leaves only
//! what was written back.
//!
//! An access is performed at once, and its time is the sum of the parts on its way: lookups level by level, messages, other cores' answers, the
//! memory. Lines that it evicts are off the critical path: they occupy links and queues, and the access waits for them only if a write queue is full.

use crate::addresses::Addresses;
use crate::controller::{Line, MemorySide};
use crate::description::{Description, Inclusion};
use crate::host::{list, prefetch};
use crate::network::{Message, Network, Node};
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::statistics::{CacheStatistics, LevelStatistics};

use super::array::{CacheArray, DIRTY, EXCLUSIVE, Entry};
use super::port::MemoryPort;
use super::versions::Pending;

/// The directory's entry of a line.
#[derive(Clone, Copy)]
pub(super) struct Directory {
    /// A bit for each core that has the line in a private cache.
    pub sharers: u64,
    /// The core that may write it.
    pub owner: Option<CoreId>,
}

/// A line that arrives at the private caches of a core.
pub(super) struct Incoming {
    /// Its initial flags in the first level.
    pub flags: u8,
    pub data: Line,
    /// When it arrives.
    pub at: Cycle,
}

/// The result of an access.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The line's entry in the core's first level.
    pub entry: Entry,
    /// When it is there, and writable if that was requested.
    pub done: Cycle,
}

/// All caches, the network and the memory.
pub struct Hierarchy {
    /// Levels of private caches, nearest first; in each, a cache for each core.
    pub(super) private: Vec<Vec<CacheArray>>,
    /// Shared levels below them.
    pub(super) shared: Vec<CacheArray>,
    pub(super) latencies: Vec<u64>,
    pub(super) inclusive: Vec<bool>,
    pub(super) banks: Vec<usize>,
    pub(super) match_latency: u64,
    names: Vec<String>,
    pub(super) directory: Vec<Directory>,
    /// Links and routers.
    pub network: Network,
    /// Controllers and media.
    pub memory: MemorySide,
    /// The requests of a scheme's running callback.
    pub(super) pending: Vec<Pending>,
    /// For each core the line whose loss it waits for.
    watched: Vec<Option<LineNumber>>,
    /// A bit for each core that has lost its watched line.
    lost: u64,
    /// For each core, when each of its MSHRs is free.
    mshrs: Vec<Vec<Cycle>>,
    /// For each core how many misses waited for an MSHR.
    pub mshr_full: Vec<u64>,
    /// For each core how many accesses joined an outstanding miss.
    pub mshr_merges: Vec<u64>,
}

impl Hierarchy {
    /// Creates empty caches over `memory`.
    pub fn new(machine: &Description, memory: MemorySide) -> Self {
        let cores = machine.cores.count;
        let private_levels = machine.private_levels();
        let (private, shared) = machine.caches.split_at(private_levels);
        Self {
            private: private
                .iter()
                .map(|level| (0..cores).map(|_| CacheArray::new(level)).collect())
                .collect(),
            shared: shared.iter().map(CacheArray::new).collect(),
            latencies: machine.caches.iter().map(|level| level.latency).collect(),
            inclusive: machine.caches.iter().map(|level| level.inclusion == Inclusion::Inclusive).collect(),
            banks: machine.caches.iter().map(|level| level.banks).collect(),
            match_latency: machine.controllers.match_latency,
            names: machine.caches.iter().map(|level| level.name.clone()).collect(),
            directory: list(Directory { sharers: 0, owner: None }, memory.lines()),
            network: Network::new(machine),
            memory,
            pending: Vec::new(),
            watched: vec![None; cores],
            lost: 0,
            mshrs: vec![vec![Cycle::ZERO; machine.cores.mshrs]; cores],
            mshr_full: vec![0; cores],
            mshr_merges: vec![0; cores],
        }
    }

    /// Maps lines to sets, banks and channels by these addresses. Must be called before anything runs.
    pub fn set_addresses(&mut self, addresses: &Addresses) {
        let private = self.private.iter_mut().flatten();
        private.chain(&mut self.shared).for_each(|cache| cache.set_addresses(addresses));
        self.memory.set_addresses(addresses);
    }

    /// Watches a line in the first level of `core`, until it is [lost](Self::take_lost).
    pub fn watch(&mut self, core: CoreId, line: LineNumber) {
        self.watched[core] = Some(line);
    }

    /// Returns a bit for each core whose first level has lost its watched line since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Notes that `core` may have lost a line of its first level.
    pub(super) fn lose(&mut self, core: CoreId, line: LineNumber) {
        if self.watched[core] == Some(line) {
            self.watched[core] = None;
            self.lost |= core.bit();
        }
    }

    /// Returns where a line's directory entry is: at its bank of the first shared level, or at its controller.
    pub(super) fn home(&self, line: LineNumber) -> Node {
        if self.shared.is_empty() {
            Node::Controller(self.memory.controller(line))
        } else {
            Node::Bank(self.memory.address(line) as usize % self.banks[self.private.len()])
        }
    }

    /// Returns the first level of `core`.
    pub fn first(&mut self, core: CoreId) -> &mut CacheArray {
        &mut self.private[0][core]
    }

    /// Brings a line into the first level of `core` at `at`, with the permission to write if `exclusive`. Lines that leave the caches for memory, or
    /// come from memory, pass `port`.
    pub fn access(
        &mut self,
        core: CoreId,
        line: LineNumber,
        exclusive: bool,
        at: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Access {
        let after = at + self.latencies[0];
        let first = &mut self.private[0][core];
        if let Some(entry) = first.find(line) {
            first.touch(entry);
            first.statistics.hits += 1;
            let done = after.max(first.states[entry].ready);
            self.mshr_merges[core] += u64::from(done > after);
            if !exclusive || first.states[entry].flags & EXCLUSIVE != 0 {
                return Access { entry, done };
            }
            first.statistics.upgrades += 1;
            let done = self.upgrade(core, line, done);
            // The upgrade neither moves nor removes this core's copy.
            let first = &mut self.private[0][core];
            first.states[entry].ready = done;
            return Access { entry, done };
        }
        first.statistics.misses += 1;
        self.bring(core, line, exclusive, after, port)
    }

    /// Handles a miss; kept out of line so that hits stay small.
    #[inline(never)]
    fn bring(
        &mut self,
        core: CoreId,
        line: LineNumber,
        exclusive: bool,
        after: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Access {
        self.prefetch_sets(core, line);
        self.prefetch_entries(core, line);
        let mut access = self.miss(core, line, exclusive, after, port);
        // A victim may have evicted the line itself from a direct-mapped shared level, and thus from this one.
        while self.private[0][core].line(access.entry) != Some(line) {
            access = self.miss(core, line, exclusive, access.done, port);
        }
        access
    }

    /// Makes the host fetch the data of a coming access to a line. Returns whether the access misses in the first level; if so, a later call of
    /// [`prefetch_entries`](Self::prefetch_entries) fetches more.
    pub fn prefetch(&self, core: CoreId, line: LineNumber) -> bool {
        let first = &self.private[0][core];
        let entry = first.find(line);
        match entry {
            Some(entry) => first.prefetch_entry(entry),
            None => self.prefetch_sets(core, line),
        }
        entry.is_none()
    }

    /// Fetches the data at places that the line's number determines, for a line that the first level lacks, and what is known of the line that leaves
    /// it. The host waits for all of it together.
    fn prefetch_sets(&self, core: CoreId, line: LineNumber) {
        for level in &self.private[1..] {
            level[core].prefetch_set(line);
        }
        for cache in &self.shared {
            cache.prefetch_set(line);
        }
        prefetch(&self.directory, line.number() as usize);
        self.memory.prefetch(line);
        let (_, victim) = self.private[0][core].prefetch_replaced(line);
        self.prefetch_way_out(core, 0, victim);
    }

    /// Fetches the entries of a line that the first level lacks: in each level the line's entry or the one that it will take, and what is known of
    /// the line that leaves it.
    pub fn prefetch_entries(&self, core: CoreId, line: LineNumber) {
        let first = &self.private[0][core];
        let (entry, victim) = first.prefetch_replaced(line);
        if first.is_dirty(entry)
            && let Some(below) = self.level(core, 1)
            && let Some(entry) = below.find(victim)
        {
            below.prefetch_entry(entry);
        }
        let mut level = 1;
        while let Some(cache) = self.level(core, level) {
            if let Some(entry) = cache.find(line) {
                cache.prefetch_entry(entry);
                return;
            }
            let (_, victim) = cache.prefetch_replaced(line);
            self.prefetch_way_out(core, level, victim);
            level += 1;
        }
    }

    /// Fetches what is known of a line that leaves `level`.
    fn prefetch_way_out(&self, core: CoreId, level: usize, victim: LineNumber) {
        prefetch(&self.directory, victim.number() as usize);
        match self.level(core, level + 1) {
            Some(below) => below.prefetch_set(victim),
            None => self.memory.prefetch_held(victim),
        }
    }

    /// Returns a cache level as `core` sees it; the first is 0.
    fn level(&self, core: CoreId, level: usize) -> Option<&CacheArray> {
        match self.private.get(level) {
            Some(caches) => Some(&caches[core]),
            None => self.shared.get(level - self.private.len()),
        }
    }

    /// Puts a line, which no private cache has, into all shared levels. Nothing may be modified in any level.
    pub fn fill_shared(&mut self, line: LineNumber) {
        let data = self.memory.newest(line);
        for cache in &mut self.shared {
            if cache.find(line).is_none() {
                cache.insert(line, 0, &data, Cycle::ZERO);
            }
        }
    }

    /// Takes an MSHR from `at` on. Returns which one, and when it is available.
    fn take_mshr(&mut self, core: CoreId, at: Cycle) -> (usize, Cycle) {
        let mshrs = &self.mshrs[core];
        let mut first = 0;
        for (i, &free) in mshrs.iter().enumerate() {
            if free <= at {
                return (i, at);
            }
            if free < mshrs[first] {
                first = i;
            }
        }
        self.mshr_full[core] += 1;
        (first, mshrs[first])
    }

    fn miss(
        &mut self,
        core: CoreId,
        line: LineNumber,
        exclusive: bool,
        at: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Access {
        let (mshr, mut at) = self.take_mshr(core, at);
        for level in 1..self.private.len() {
            at += self.latencies[level];
            let cache = &mut self.private[level][core];
            let Some(entry) = cache.find(line) else {
                cache.statistics.misses += 1;
                continue;
            };
            cache.touch(entry);
            cache.statistics.hits += 1;
            at = at.max(cache.states[entry].ready);
            if exclusive && cache.states[entry].flags & EXCLUSIVE == 0 {
                cache.statistics.upgrades += 1;
                at = self.upgrade(core, line, at);
            }
            let cache = &self.private[level][core];
            let incoming =
                Incoming { flags: cache.states[entry].flags & EXCLUSIVE, data: cache.data[entry].0, at };
            let (entry, done) = self.fill(core, level, line, &incoming, port);
            self.mshrs[core][mshr] = done;
            return Access { entry, done };
        }
        let incoming = self.fetch(core, line, exclusive, at, port);
        let (entry, done) = self.fill(core, self.private.len(), line, &incoming, port);
        self.mshrs[core][mshr] = done;
        Access { entry, done }
    }

    /// Fills the private levels above `from` with a line, the lowest first. A modified line is marked modified only in the first level.
    fn fill(
        &mut self,
        core: CoreId,
        from: usize,
        line: LineNumber,
        incoming: &Incoming,
        port: &mut dyn MemoryPort,
    ) -> (Entry, Cycle) {
        let &Incoming { flags, ref data, at } = incoming;
        let (mut place, mut done) = (0, at);
        for level in (0..from).rev() {
            let own = if level == 0 { flags } else { flags & EXCLUSIVE };
            let (entry, victim) = self.private[level][core].insert(line, own, data, at);
            place = entry;
            if let Some(victim) = victim {
                done = done.max(self.evict_private(core, level, victim, at, port));
            }
        }
        self.private[0][core].states[place].ready = done;
        (place, done)
    }

    /// Requests from the directory the permission to write a line that `core` has. Returns when it is granted.
    fn upgrade(&mut self, core: CoreId, line: LineNumber, at: Cycle) -> Cycle {
        let home = self.home(line);
        let mut at = self.network.send(Node::Core(core), home, Message::Control, at);
        if !self.shared.is_empty() {
            at += self.latencies[self.private.len()];
        }
        let acknowledged = self.invalidate_others(core, line, home, at);
        self.directory[line] = Directory { sharers: core.bit(), owner: Some(core) };
        for level in 0..self.private.len() {
            if let Some(entry) = self.private[level][core].find(line) {
                self.private[level][core].states[entry].flags |= EXCLUSIVE;
            }
        }
        self.network.send(home, Node::Core(core), Message::Control, at).max(acknowledged)
    }

    /// Removes the unmodified copies of all cores but `core`. Returns when all have acknowledged.
    pub(super) fn invalidate_others(
        &mut self,
        core: CoreId,
        line: LineNumber,
        home: Node,
        at: Cycle,
    ) -> Cycle {
        let others = self.directory[line].sharers & !core.bit();
        let mut acknowledged = at;
        for other in CoreId::in_set(others) {
            let arrived = self.network.send(home, Node::Core(other), Message::Control, at);
            let answered = arrived + self.latencies[0];
            let back = self.network.send(Node::Core(other), Node::Core(core), Message::Control, answered);
            acknowledged = acknowledged.max(back);
            self.drop_private(other, line, 0);
        }
        acknowledged
    }

    /// Removes a line from all private levels of `core` from `level` up to the first. Returns its newest words, if they were modified.
    pub(super) fn drop_private(&mut self, core: CoreId, line: LineNumber, lowest: usize) -> Option<Line> {
        let lowest = if lowest == 0 { self.private.len() } else { lowest };
        let mut newest = None;
        self.lose(core, line);
        for level in 0..lowest {
            let cache = &mut self.private[level][core];
            if let Some(entry) = cache.find(line) {
                if newest.is_none() && cache.is_dirty(entry) {
                    newest = Some(cache.data[entry].0);
                }
                cache.statistics.invalidations += 1;
                cache.remove(entry);
            }
        }
        newest
    }

    /// Returns whether `core` has a line in a private cache.
    pub(super) fn has(&self, core: CoreId, line: LineNumber) -> bool {
        self.private.iter().any(|level| level[core].find(line).is_some())
    }

    /// Returns the counts of each level.
    pub fn statistics(&self) -> Vec<LevelStatistics> {
        let private = self.private.iter().map(|caches| {
            let caches: Vec<CacheStatistics> = caches.iter().map(|cache| cache.statistics).collect();
            let mut total = CacheStatistics::default();
            caches.iter().for_each(|&cache| total += cache);
            (total, caches)
        });
        let shared = self.shared.iter().map(|cache| (cache.statistics, Vec::new()));
        private
            .chain(shared)
            .zip(&self.names)
            .map(|((total, caches), name)| LevelStatistics { name: name.clone(), total, caches })
            .collect()
    }

    /// Sets all counts to zero: the region of interest begins.
    pub fn reset_statistics(&mut self) {
        for cache in self.private.iter_mut().flatten().chain(&mut self.shared) {
            cache.statistics = CacheStatistics::default();
        }
        self.mshr_full.fill(0);
        self.mshr_merges.fill(0);
        self.network.statistics = Default::default();
        self.memory.reset_statistics();
    }

    /// Returns the initial flags of a fill: modified, writable, or neither.
    pub(super) fn flags(dirty: bool, exclusive: bool) -> u8 {
        (u8::from(dirty) * DIRTY) | (u8::from(exclusive) * EXCLUSIVE)
    }
}
