//! Moves lines below the private caches: fetches through the directory, evictions, write-backs.

use crate::controller::{Arrival, Line};
use crate::network::{Message, Node};
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::statistics::Origin;

use super::array::{DIRTY, EXCLUSIVE, Victim};
use super::hierarchy::{Directory, Hierarchy, Incoming};
use super::port::{MemoryPort, WayHome};
use super::versions::is_version;

/// Words of a line that leave the caches for memory.
struct Outgoing<'a> {
    line: LineNumber,
    data: &'a Line,
    /// A bit for each word that is written.
    mask: u8,
    origin: Origin,
    /// The core whose next fence waits for them.
    core: Option<CoreId>,
}

impl Hierarchy {
    /// Fetches a line that no private cache of `core` has. Returns when it is at the core.
    pub(super) fn fetch(
        &mut self,
        core: CoreId,
        line: LineNumber,
        exclusive: bool,
        at: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Incoming {
        let home = self.home(line);
        let mut at = self.network.send(Node::Core(core), home, Message::Control, at);
        let first_shared = self.private.len();
        if !self.shared.is_empty() {
            at += self.latencies[first_shared];
        }
        let known = self.directory[line];
        if let Some(owner) = known.owner {
            return self.fetch_from_owner(owner, core, line, exclusive, at, port);
        }
        let acknowledged = if exclusive { self.invalidate_others(core, line, home, at) } else { at };
        let (data, at) = self.fetch_shared(core, exclusive, line, home, at, port);
        let alone = exclusive || known.sharers == 0;
        self.directory[line] = if alone {
            Directory { sharers: core.bit(), owner: Some(core) }
        } else {
            Directory { sharers: known.sharers | core.bit(), owner: None }
        };
        let done = self.network.send(home, Node::Core(core), Message::Data, at).max(acknowledged);
        Incoming { flags: Self::flags(false, alone), data, at: done }
    }

    /// Fetches a line from the core that may write it.
    fn fetch_from_owner(
        &mut self,
        owner: CoreId,
        core: CoreId,
        line: LineNumber,
        exclusive: bool,
        at: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Incoming {
        let home = self.home(line);
        let mut asked = self.network.send(home, Node::Core(owner), Message::Control, at);
        let (data, dirty, ready) = self.newest_private(owner, line);
        asked = asked.max(ready) + self.latencies[0];
        let done = self.network.send(Node::Core(owner), Node::Core(core), Message::Data, asked);
        if exclusive {
            self.drop_private(owner, line, 0);
            self.directory[line] = Directory { sharers: core.bit(), owner: Some(core) };
            return Incoming { flags: Self::flags(dirty, true), data, at: done };
        }
        // All copies of the owner now hold the newest words, clean and read-only.
        for level in 0..self.private.len() {
            let cache = &mut self.private[level][owner];
            if let Some(entry) = cache.find(line) {
                cache.data[entry].0 = data;
                cache.states[entry].flags &= !(DIRTY | EXCLUSIVE);
            }
        }
        self.directory[line] = Directory { sharers: owner.bit() | core.bit(), owner: None };
        let mut done = done;
        if dirty {
            let arrived = self.network.send(Node::Core(owner), home, Message::Data, asked);
            done = done.max(self.put_below(line, &data, arrived, 0, Origin::Downgrade, port));
        }
        Incoming { flags: 0, data, at: done }
    }

    /// Returns the newest words in the private caches of a core that has the line, whether they are modified, and when its fill is complete.
    fn newest_private(&self, core: CoreId, line: LineNumber) -> (Line, bool, Cycle) {
        let mut found: Option<(Line, Cycle)> = None;
        let mut dirty = false;
        for level in &self.private {
            let cache = &level[core];
            if let Some(entry) = cache.find(line) {
                found.get_or_insert((cache.data[entry].0, cache.states[entry].ready));
                dirty |= cache.is_dirty(entry);
            }
        }
        let (data, ready) = found.expect("the directory names only cores that have the line");
        (data, dirty, ready)
    }

    /// Reads a line from the shared levels or from memory, and fills the shared levels.
    fn fetch_shared(
        &mut self,
        core: CoreId,
        exclusive: bool,
        line: LineNumber,
        home: Node,
        at: Cycle,
        port: &mut dyn MemoryPort,
    ) -> (Line, Cycle) {
        let mut at = at;
        let levels = self.shared.len();
        let mut found = None;
        for index in 0..levels {
            if index > 0 {
                at += self.latencies[self.private.len() + index];
            }
            let cache = &mut self.shared[index];
            if let Some(entry) = cache.find(line) {
                cache.touch(entry);
                cache.statistics.hits += 1;
                at = at.max(cache.states[entry].ready);
                found = Some((index, cache.data[entry].0));
                break;
            }
            cache.statistics.misses += 1;
        }
        let (missed, data) = match found {
            Some(found) => found,
            None => {
                let controller = Node::Controller(self.memory.controller(line));
                let asked = self.network_below(home, controller, Message::Control, at);
                let own = port.read(&mut self.memory, line, asked);
                let (read, data) = own.unwrap_or_else(|| self.memory.read(line, asked));
                port.fetched(&mut self.memory, core, exclusive, line, &data, read);
                at = self.network_below(controller, home, Message::Data, read);
                (levels, data)
            }
        };
        for index in (0..missed).rev() {
            let (_, victim) = self.shared[index].insert(line, 0, &data, at);
            if let Some(victim) = victim {
                at = at.max(self.evict_shared(index, victim, at, port));
            }
        }
        (data, at)
    }

    /// Sends a message between a shared bank and a controller; none is needed if the directory is at the controller.
    fn network_below(&mut self, from: Node, to: Node, message: Message, at: Cycle) -> Cycle {
        if from == to { at } else { self.network.send(from, to, message, at) }
    }

    /// Handles a line that has left a private level of `core`. Returns when a fill that must wait for it may continue.
    pub(super) fn evict_private(
        &mut self,
        core: CoreId,
        level: usize,
        mut victim: Victim,
        at: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Cycle {
        let line = victim.line;
        if level > 0
            && self.inclusive[level]
            && let Some(newer) = self.drop_private(core, line, level)
        {
            victim.data = newer;
            victim.flags |= DIRTY;
        }
        let mut done = at;
        if victim.flags & DIRTY != 0 {
            let below = level + 1;
            if below < self.private.len() {
                let cache = &mut self.private[below][core];
                match cache.find(line) {
                    Some(entry) => {
                        cache.data[entry].0 = victim.data;
                        cache.states[entry].flags |= DIRTY;
                    }
                    None => {
                        let flags = victim.flags & (DIRTY | EXCLUSIVE);
                        let (_, next) = cache.insert(line, flags, &victim.data, at);
                        if let Some(next) = next {
                            done = self.evict_private(core, below, next, at, port);
                        }
                    }
                }
            } else {
                let home = self.home(line);
                let arrived = self.network.send(Node::Core(core), home, Message::Data, at);
                // A fill is delayed only by a victim that waits for a full queue.
                let accepted = self.put_below(line, &victim.data, arrived, 0, Origin::Eviction, port);
                done = at + (accepted - arrived);
            }
        }
        if !self.has(core, line) {
            let known = &mut self.directory[line];
            known.sharers &= !core.bit();
            if known.owner == Some(core) {
                known.owner = None;
            }
        }
        done
    }

    /// Puts a modified line into shared level `index`, or into memory below the last. Returns when it was accepted.
    fn put_below(
        &mut self,
        line: LineNumber,
        data: &Line,
        at: Cycle,
        index: usize,
        origin: Origin,
        port: &mut dyn MemoryPort,
    ) -> Cycle {
        if index < self.shared.len() {
            let cache = &mut self.shared[index];
            match cache.find(line) {
                Some(entry) => {
                    cache.data[entry].0 = *data;
                    cache.states[entry].flags |= DIRTY;
                    at
                }
                None => {
                    let (_, victim) = cache.insert(line, DIRTY, data, at);
                    victim.map_or(at, |victim| self.evict_shared(index, victim, at, port))
                }
            }
        } else {
            let home = self.home(line);
            let controller = Node::Controller(self.memory.controller(line));
            let arrived = self.network_below(home, controller, Message::Data, at);
            let accepted =
                self.write_home(&Outgoing { line, data, mask: 0xff, origin, core: None }, arrived, port);
            at + accepted.since(arrived + self.match_latency)
        }
    }

    /// Sends words of a line, which arrive at its controller at `at`, through the port to memory. Returns when they are accepted.
    fn write_home(&mut self, words: &Outgoing<'_>, at: Cycle, port: &mut dyn MemoryPort) -> Cycle {
        let &Outgoing { line, data, mask, origin, core } = words;
        match port.way_home(&mut self.memory, line, data, at) {
            WayHome::Home(from) => {
                self.memory.write(line, data, mask, Arrival { at, earliest: from }, origin, core)
            }
            WayHome::Taken(accepted) => accepted,
        }
    }

    /// Handles a line that has left shared level `index`. Returns when a fill that must wait for it may continue.
    pub(super) fn evict_shared(
        &mut self,
        index: usize,
        mut victim: Victim,
        at: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Cycle {
        let line = victim.line;
        if is_version(line) {
            port.version_overflow(&mut self.memory, line.number(), at);
            return at;
        }
        if self.inclusive[self.private.len() + index] {
            for above in 0..index {
                if let Some(entry) = self.shared[above].find(line) {
                    if self.shared[above].is_dirty(entry) {
                        victim.data = self.shared[above].data[entry].0;
                        victim.flags |= DIRTY;
                    }
                    self.shared[above].statistics.invalidations += 1;
                    self.shared[above].remove(entry);
                }
            }
            for core in CoreId::in_set(self.directory[line].sharers) {
                self.network.send(self.home(line), Node::Core(core), Message::Control, at);
                if let Some(newer) = self.drop_private(core, line, 0) {
                    victim.data = newer;
                    victim.flags |= DIRTY;
                }
            }
            self.directory[line] = Directory { sharers: 0, owner: None };
        }
        if victim.flags & DIRTY == 0 {
            return at;
        }
        self.put_below(line, &victim.data, at, index + 1, Origin::Eviction, port)
    }

    /// Makes all copies of a line equal to its newest words and clean, and removes them if `evict`. Returns the words if they were modified.
    pub(super) fn clean(&mut self, line: LineNumber, evict: bool) -> Option<Line> {
        let known = self.directory[line];
        let mut newest = None;
        let mut dirty = false;
        if let Some(owner) = known.owner {
            let (data, modified, _) = self.newest_private(owner, line);
            newest = Some(data);
            dirty = modified;
        }
        for cache in &self.shared {
            if let Some(entry) = cache.find(line) {
                newest.get_or_insert(cache.data[entry].0);
                dirty |= cache.is_dirty(entry);
            }
        }
        for core in CoreId::in_set(known.sharers) {
            if evict {
                self.lose(core, line);
            }
            for level in 0..self.private.len() {
                let cache = &mut self.private[level][core];
                let Some(entry) = cache.find(line) else { continue };
                if evict {
                    cache.remove(entry);
                } else {
                    cache.states[entry].flags &= !DIRTY;
                    if let Some(newest) = newest {
                        cache.data[entry].0 = newest;
                    }
                }
            }
        }
        for cache in &mut self.shared {
            let Some(entry) = cache.find(line) else { continue };
            if evict {
                cache.remove(entry);
            } else {
                cache.states[entry].flags &= !DIRTY;
                if let Some(newest) = newest {
                    cache.data[entry].0 = newest;
                }
            }
        }
        if evict {
            self.directory[line] = Directory { sharers: 0, owner: None };
        }
        newest.filter(|_| dirty)
    }

    /// Writes a line back from wherever it is modified, at the request of `core` at `at`: as clwb, or as clflush and clflushopt with `evict`. The
    /// core's next fence waits for it. Returns when the memory has accepted it and the core knows.
    pub fn write_back(
        &mut self,
        core: CoreId,
        line: LineNumber,
        evict: bool,
        at: Cycle,
        origin: Origin,
        port: &mut dyn MemoryPort,
    ) -> Cycle {
        // The request passes all levels on its way down.
        let mut at = at + self.latencies[..self.private.len()].iter().sum::<u64>();
        let known = self.directory[line];
        let home = self.home(line);
        let own = known.sharers & core.bit() != 0;
        let message = if own { Message::Data } else { Message::Control };
        at = self.network.send(Node::Core(core), home, message, at);
        at += self.latencies[self.private.len()..].iter().sum::<u64>();
        if let Some(owner) = known.owner.filter(|&owner| owner != core) {
            let owner = Node::Core(owner);
            at = self.network.send(home, owner, Message::Control, at) + self.latencies[0];
            at = self.network.send(owner, home, Message::Data, at);
        }
        let controller = Node::Controller(self.memory.controller(line));
        let accepted = match self.clean(line, evict) {
            Some(data) => {
                let arrived = self.network_below(home, controller, Message::Data, at);
                let words = Outgoing { line, data: &data, mask: 0xff, origin, core: Some(core) };
                self.write_home(&words, arrived, port)
            }
            None => {
                self.memory.wait_for(line, core, at);
                return at;
            }
        };
        let told = self.network_below(controller, home, Message::Control, accepted);
        let told = self.network.send(home, Node::Core(core), Message::Control, told);
        self.memory.waits[core].until = self.memory.waits[core].until.max(told);
        told
    }

    /// Writes words past the caches; copies are written back and removed first. Returns when the memory has accepted the words.
    pub fn write_past(
        &mut self,
        core: CoreId,
        line: LineNumber,
        data: &Line,
        mask: u8,
        at: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Cycle {
        let home = self.home(line);
        let mut at = self.network.send(Node::Core(core), home, Message::Data, at);
        let controller = Node::Controller(self.memory.controller(line));
        let mut data = *data;
        let mut whole = mask;
        if let Some(mut cached) = self.clean(line, true) {
            for (i, word) in cached.iter_mut().enumerate() {
                if mask >> i & 1 == 1 {
                    *word = data[i];
                }
            }
            (data, whole) = (cached, 0xff);
        }
        at = self.network_below(home, controller, Message::Data, at);
        let words =
            Outgoing { line, data: &data, mask: whole, origin: Origin::NonTemporal, core: Some(core) };
        self.write_home(&words, at, port)
    }

    /// Returns the next line in any cache at or after a place, and its place; places number all caches' entries.
    pub fn next_line(&self, from: usize) -> Option<(usize, LineNumber)> {
        let mut base = 0;
        for cache in self.private.iter().flatten().chain(&self.shared) {
            let end = base + cache.entries();
            let line = |place: usize| cache.line(place - base).filter(|&line| !is_version(line));
            let found = (from.max(base)..end).find_map(|place| Some((place, line(place)?)));
            if found.is_some() {
                return found;
            }
            base = end;
        }
        None
    }

    /// Removes a line from all caches for `core`, and writes it back if it was modified. Returns when the memory accepts it. This is one step of
    /// wbinvd.
    pub fn flush_line(
        &mut self,
        core: CoreId,
        line: LineNumber,
        at: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Option<Cycle> {
        let data = self.clean(line, true)?;
        let words =
            Outgoing { line, data: &data, mask: 0xff, origin: Origin::WriteBackAll, core: Some(core) };
        Some(self.write_home(&words, at, port))
    }

    /// Returns how many lines are modified in some cache.
    pub fn dirty_lines(&self) -> usize {
        let lines = (0..self.directory.len() as u32).map(LineNumber::new);
        lines.filter(|&line| self.newest(line).is_some()).count()
    }

    /// Returns a line's words from some cache that has them, if none has modified them.
    pub fn clean_copy(&self, line: LineNumber) -> Option<Line> {
        let sharers = self.directory[line].sharers;
        let first = CoreId::in_set(sharers).next().map(|core| self.newest_private(core, line).0);
        first.or_else(|| self.shared.iter().find_map(|cache| Some(cache.data[cache.find(line)?].0)))
    }

    /// Returns the newest words of a line in the caches, if they are modified: those that a battery would save.
    pub fn newest(&self, line: LineNumber) -> Option<Line> {
        if let Some(data) = self.pending_line(line) {
            return Some(data);
        }
        let known = self.directory[line];
        if let Some(owner) = known.owner {
            let (data, dirty, _) = self.newest_private(owner, line);
            if dirty {
                return Some(data);
            }
        }
        self.shared.iter().find_map(|cache| {
            let entry = cache.find(line)?;
            cache.is_dirty(entry).then(|| cache.data[entry].0)
        })
    }
}
