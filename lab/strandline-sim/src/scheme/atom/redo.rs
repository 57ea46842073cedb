//! REDO: the hardware redo log with which ATOM is compared (Doshi, Giles, Varman: Atomic Persistence for SCM with a Non-intrusive Backend Controller,
//! HPCA 2016; as ATOM evaluates it, section V).
//!
//! Software under it is `hardware`: it flushes nothing. Every store of an update makes a log entry of an address and a word. Four entries are
//! combined in a line, which is sent when it is full. Atomic_End adds an entry with the commit's number and waits until all lines of the update are
//! durable. Then a back end reads the lines and writes the words home, updates of one line in the order of their commits. A line with the number of
//! the commit up to which all are home frees the log. Modified lines of updates that are not home stay out of memory: an unlimited victim cache takes
//! them and answers reads.
//!
//! **Decisions that the paper leaves open.** Each core has a ring of log lines, spread over the controllers line by line. A word's entry carries the
//! update's number in its address's upper bits; the commit's entry counts the update's lines, so that recovery finds whole updates anywhere in a
//! ring. Each controller has a back end, which copies the updates whose commit's line is there, up to [`Controllers::backend_window`] at a time.
//! Words stored outside updates are not logged; they must not share lines with words that updates store to.
//!
//! *Remains of one life never complete an update of another.* Only its number assigns a line to an update. So a life continues with the numbers and
//! places after the newest line that it finds in a ring. As in one long life, a number recurs only after 2^24 others, when all lines of the ring have
//! been overwritten. Commits continue from the one up to which recovery has recorded that all are home. A commit with missing lines may have a higher
//! number, but never gets these lines.

mod recovery;

pub use recovery::{recover, recover_with};

use std::collections::{HashMap, VecDeque};

use crate::cache::Hierarchy;
use crate::controller::{Line, MemorySide};
use crate::description::Controllers;
use crate::network::{Message, Node};
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::scheme::{
    Boundary, Entry, HardwareScheme, MemoryPort, Mutant, Reply, Setup, StoredWord, WayHome, exhausted, named,
};
use crate::statistics::Origin;

/// REDO.
pub const REDO: Entry = Entry {
    name: "atom-redo",
    source: "Doshi, Giles, Varman (HPCA 2016), as in ATOM, V",
    description: "REDO: a redo log entry for each store, combined; a back end copies home; unlimited victim cache",
    make: Some(|setup| Ok(Box::new(Redo::new(RING_LINES, setup)?))),
    recover,
    software: &["hardware+locks"],
    is_durable: true,
    parameters: &[],
    mutants: MUTANTS,
};

const COMMIT_WAIT: Mutant =
    Mutant { name: "commit-wait", rule: "Atomic_End waits until the log is durable", redundant: None };
const VICTIMS: Mutant = Mutant {
    name: "victim-cache",
    rule: "modified lines of updates that are not home stay out of memory",
    redundant: None,
};
const REDO_ORDER: Mutant =
    Mutant { name: "redo-order", rule: "recovery redoes in the order of commits", redundant: None };
const COUNT: Mutant = Mutant {
    name: "commit-count",
    rule: "recovery redoes an update only if all lines that its commit counts are there",
    redundant: None,
};
const COPIED: Mutant = Mutant {
    name: "copied-durable",
    rule: "the log is freed when what was copied home is durable",
    redundant: None,
};

const LIFE_NUMBER: Mutant = Mutant {
    name: "life-number",
    rule: "updates are numbered on from the newest that an earlier life has left in the ring",
    redundant: None,
};

const MUTANTS: &[Mutant] = &[COMMIT_WAIT, VICTIMS, REDO_ORDER, COUNT, COPIED, LIFE_NUMBER];

/// The number of log lines that a core's ring has.
const RING_LINES: u64 = 4096;
/// The number of entries that a log line has.
const ENTRIES: usize = 4;
/// The address in a commit's entry.
const COMMIT: u64 = (1 << ADDRESS_BITS) - 1;
const ADDRESS_BITS: u32 = 40;
/// The number of update numbers, which begin at 1; a ring has fewer lines.
const NUMBERS: u64 = (1 << (64 - ADDRESS_BITS)) - 1;

/// The ring of one core, and its running update.
#[derive(Default)]
struct Ring {
    /// How deep regions are nested.
    depth: u32,
    /// The number of the running update.
    number: u64,
    /// The number of lines that were written and freed so far.
    tail: u64,
    head: u64,
    /// The line of the running update that is not full, and the number of its entries.
    combining: Line,
    entries: usize,
    /// Lines of the running update that were sent.
    sent: Vec<LineNumber>,
    /// Those that may not be durable yet.
    unsettled: Vec<LineNumber>,
    /// Pool lines that the running update has stored to.
    stored: Vec<LineNumber>,
    /// The commit's number, once its commit has begun.
    commit: Option<u64>,
}

/// A committed update that is being copied home.
struct Copy {
    core: CoreId,
    number: u64,
    commit: u64,
    /// Its log lines.
    lines: Vec<LineNumber>,
    /// Lines of the pool that are not known to be durable at home.
    stored: Vec<LineNumber>,
    /// The words, once the log has been read: line, word, value.
    words: Vec<(LineNumber, u8, u64)>,
    /// True if they were written home.
    written: bool,
}

/// The back end of a controller. Updates are identified by their commits' numbers.
#[derive(Default)]
struct Engine {
    /// The updates whose log it has not begun to read, in order.
    waiting: VecDeque<u64>,
    /// For each update being read, when its log has been read.
    reading: Vec<(Cycle, u64)>,
}

/// REDO's hardware.
pub struct Redo {
    omitted: Option<&'static str>,
    /// True if the remains of an earlier life have been read.
    started: bool,
    controllers: Controllers,
    ring_lines: u64,
    rings: Vec<Ring>,
    commits: u64,
    engines: Vec<Engine>,
    /// Updates that still occupy the log, in the order of commits.
    copies: VecDeque<Copy>,
    /// For each line the commits of updates that still have to write it home, in order.
    writers: HashMap<LineNumber, VecDeque<u64>>,
    /// The commit up to which all are home, while it is being written; and how many copies it covers.
    copied: Option<(u64, usize)>,
    victims: HashMap<LineNumber, Line>,
    /// For each line how many updates have stored to it and are not home.
    under_way: HashMap<LineNumber, u32>,
    wake: Cycle,
    counts: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    updates: u64,
    entries: u64,
    lines: u64,
    read: u64,
    victims: u64,
    full: u64,
}

/// Returns the place of log line `number` of a core's ring among the reserved lines: the controller, and the line behind it.
fn place(ring_lines: u64, controllers: &Controllers, core: CoreId, number: u64) -> (usize, u64) {
    let count = controllers.count as u64;
    let within = number % ring_lines;
    ((within % count) as usize, 1 + core.index() as u64 * ring_lines.div_ceil(count) + within / count)
}

impl Redo {
    /// Creates idle hardware with rings of so many lines.
    ///
    /// # Errors
    /// Returns an error if the rings are too small.
    pub fn new(ring_lines: u64, setup: &Setup<'_>) -> Result<Self, String> {
        if ring_lines < 8 {
            return Err("a ring needs 8 lines".into());
        }
        let machine = setup.machine;
        Ok(Self {
            omitted: setup.omitted,
            started: false,
            controllers: machine.controllers.clone(),
            ring_lines,
            rings: (0..machine.cores.count).map(|_| Ring::default()).collect(),
            commits: 0,
            engines: (0..machine.controllers.count).map(|_| Engine::default()).collect(),
            copies: VecDeque::new(),
            writers: HashMap::new(),
            copied: None,
            victims: HashMap::new(),
            under_way: HashMap::new(),
            wake: Cycle::NEVER,
            counts: Counts::default(),
        })
    }

    fn omits(&self, mutant: Mutant) -> bool {
        self.omitted == Some(mutant.name)
    }

    /// Continues after the remains of an earlier life.
    fn start(&mut self, memory: &MemorySide) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        self.commits = memory.peek(memory.reserved_line(0, 0).first_word());
        if self.omits(LIFE_NUMBER) {
            return;
        }
        for core in CoreId::first(self.rings.len()) {
            let number = |at: u64| {
                let (controller, index) = place(self.ring_lines, &self.controllers, core, at);
                memory.peek(memory.reserved_line(controller, index).first_word()) >> ADDRESS_BITS
            };
            let numbers: Vec<u64> = (0..self.ring_lines).map(number).collect();
            let Some(&any) = numbers.iter().find(|&&number| number != 0) else { continue };
            // Numbers wrap around; those in a ring are close to each other.
            let after = |number: u64| (number + NUMBERS + NUMBERS / 2 - any) % NUMBERS;
            let of_updates = numbers.iter().copied().filter(|&number| number != 0);
            let newest = of_updates.max_by_key(|&number| after(number)).unwrap_or(any);
            let next = |at: usize| numbers[(at + 1) % numbers.len()];
            let last = (0..numbers.len()).find(|&at| numbers[at] == newest && next(at) != newest);
            let tail = last.map_or(0, |last| last as u64 + 1);
            let ring = &mut self.rings[core];
            (ring.number, ring.head, ring.tail) = (newest, tail, tail);
        }
    }

    /// Adds an entry to the running update of `core`. Returns when the store may continue.
    ///
    /// # Errors
    /// Returns when to try again if the ring is full.
    fn add(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        (address, value): (u64, u64),
        now: Cycle,
    ) -> Result<Cycle, Cycle> {
        let ring = &mut self.rings[core];
        // One line is reserved for the commit.
        if ring.tail + 2 - ring.head > self.ring_lines {
            if ring.sent.len() as u64 + 2 >= self.ring_lines {
                exhausted(format!(
                    "an atomic update stores more words than a core's redo log of {} lines holds; make transactions smaller",
                    self.ring_lines
                ));
            }
            self.counts.full += 1;
            return Err(self.wake.max(now + 1).min(now + 1000));
        }
        ring.combining[2 * ring.entries] = address | ring.number << ADDRESS_BITS;
        ring.combining[2 * ring.entries + 1] = value;
        ring.entries += 1;
        self.counts.entries += 1;
        if ring.entries < ENTRIES { Ok(now) } else { Ok(self.send(caches, core, now)) }
    }

    /// Sends the line that `core` is combining. Returns when the core may continue.
    fn send(&mut self, caches: &mut Hierarchy, core: CoreId, now: Cycle) -> Cycle {
        let ring = &mut self.rings[core];
        let (controller, index) = place(self.ring_lines, &self.controllers, core, ring.tail);
        let line = caches.memory.reserved_line(controller, index);
        let arrived = caches.network.send(Node::Core(core), Node::Controller(controller), Message::Data, now);
        caches.memory.write(line, &ring.combining, 0xff, arrived, Origin::Scheme, None);
        let waited = caches.memory.take_queue_wait();
        ring.tail += 1;
        ring.sent.push(line);
        ring.unsettled.push(line);
        ring.combining = [0; 8];
        ring.entries = 0;
        self.counts.lines += 1;
        now + waited
    }

    fn begin(&mut self, core: CoreId, now: Cycle) -> Reply {
        let ring = &mut self.rings[core];
        ring.depth += 1;
        if ring.depth == 1 {
            ring.number = ring.number % NUMBERS + 1;
            self.counts.updates += 1;
        }
        Reply::Go(now)
    }

    fn commit(&mut self, caches: &mut Hierarchy, core: CoreId, now: Cycle) -> Reply {
        let ring = &mut self.rings[core];
        if ring.depth != 1 {
            ring.depth = ring.depth.saturating_sub(1);
            return Reply::Go(now);
        }
        if ring.commit.is_none() {
            if ring.stored.is_empty() {
                ring.depth = 0;
                return Reply::Go(now);
            }
            self.commits += 1;
            let lines = ring.sent.len() as u64 + 1;
            ring.commit = Some(self.commits);
            if let Err(again) = self.add(caches, core, (COMMIT, self.commits << 16 | lines), now) {
                self.rings[core].commit = None;
                self.commits -= 1;
                return Reply::Wait(again);
            }
            if self.rings[core].entries > 0 {
                self.send(caches, core, now);
            }
        }
        if !self.omits(COMMIT_WAIT) {
            while let Some(&line) = self.rings[core].unsettled.last() {
                if let Some(again) = caches.memory.durable_at(line, now) {
                    return Reply::Wait(again);
                }
                self.rings[core].unsettled.pop();
            }
        }
        let ring = &mut self.rings[core];
        ring.depth = 0;
        ring.unsettled.clear();
        let copy = Copy {
            core,
            number: ring.number,
            commit: ring.commit.take().unwrap_or(0),
            lines: std::mem::take(&mut ring.sent),
            stored: std::mem::take(&mut ring.stored),
            words: Vec::new(),
            written: false,
        };
        let controller = caches.memory.controller(copy.lines[copy.lines.len() - 1]);
        // Commits of different cores may become durable out of order.
        let insert = |queue: &mut VecDeque<u64>| {
            queue.insert(queue.partition_point(|&other| other < copy.commit), copy.commit);
        };
        insert(&mut self.engines[controller].waiting);
        for &line in &copy.stored {
            insert(self.writers.entry(line).or_default());
        }
        let at = self.place_of(copy.commit);
        self.copies.insert(at, copy);
        self.wake = self.wake.min(now);
        Reply::Go(caches.network.send(Node::Controller(controller), Node::Core(core), Message::Control, now))
    }

    /// Forgets the update in the log; the old values are back in the caches.
    fn abort(&mut self, core: CoreId, now: Cycle) -> Reply {
        let ring = &mut self.rings[core];
        ring.depth = 0;
        ring.tail -= ring.sent.len() as u64;
        ring.sent.clear();
        ring.unsettled.clear();
        ring.entries = 0;
        ring.combining = [0; 8];
        for line in std::mem::take(&mut ring.stored) {
            self.leave(line);
        }
        Reply::Go(now)
    }

    /// Notes that an update of this line is home. Once no update of it is under way, its victim is dropped.
    fn leave(&mut self, line: LineNumber) {
        if let Some(count) = self.under_way.get_mut(&line) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&line);
                self.victims.remove(&line);
            }
        }
    }

    /// Returns the index among the copies where the update of this commit is, or would be.
    fn place_of(&self, commit: u64) -> usize {
        self.copies.partition_point(|copy| copy.commit < commit)
    }

    /// Lets the back ends begin to read as many updates as they have room for.
    fn read_log(&mut self, memory: &mut MemorySide, now: Cycle) {
        for engine in 0..self.engines.len() {
            loop {
                let Engine { waiting, reading } = &self.engines[engine];
                let Some(&commit) = waiting.front() else { break };
                // The oldest must not wait for updates that wait for it.
                let is_oldest = reading.iter().all(|&(_, other)| commit < other);
                if reading.len() >= self.controllers.backend_window && !is_oldest {
                    break;
                }
                let at = self.place_of(commit);
                let copy = &mut self.copies[at];
                // Reads that the queues answer immediately are processed in the next cycle.
                let mut ready = now + 1;
                for &line in &copy.lines {
                    let (done, words) = memory.read(line, now);
                    ready = ready.max(done);
                    for entry in words.chunks_exact(2) {
                        let address = entry[0] & COMMIT;
                        if entry[0] >> ADDRESS_BITS == copy.number && address != COMMIT {
                            copy.words.push((
                                LineNumber::containing(address),
                                (address / 8 % 8) as u8,
                                entry[1],
                            ));
                        }
                    }
                }
                self.counts.read += copy.lines.len() as u64;
                self.engines[engine].waiting.pop_front();
                self.engines[engine].reading.push((ready, commit));
            }
        }
    }

    /// Lets the back ends write home what they have read, unless an earlier commit still has to write one of the lines.
    fn write_home(&mut self, memory: &mut MemorySide, now: Cycle) {
        let is_read = |&(ready, _): &(Cycle, u64)| ready <= now;
        let read = self.engines.iter().flat_map(|engine| engine.reading.iter().copied().filter(is_read));
        let mut commits: Vec<u64> = read.map(|(_, commit)| commit).collect();
        commits.sort_unstable();
        for commit in commits {
            let at = self.place_of(commit);
            let is_first =
                |line| self.writers.get(line).is_none_or(|writers| writers.front() == Some(&commit));
            if !self.copies[at].stored.iter().all(is_first) {
                continue;
            }
            let copy = &mut self.copies[at];
            copy.written = true;
            let (words, stored) = (std::mem::take(&mut copy.words), copy.stored.clone());
            for line in stored {
                let (mut data, mut mask) = ([0; 8], 0);
                for &(_, word, value) in words.iter().filter(|word| word.0 == line) {
                    data[usize::from(word)] = value;
                    mask |= 1 << word;
                }
                memory.write(line, &data, mask, now, Origin::Scheme, None);
                self.leave(line);
                if let Some(writers) = self.writers.get_mut(&line) {
                    writers.pop_front();
                    if writers.is_empty() {
                        self.writers.remove(&line);
                    }
                }
            }
            for engine in &mut self.engines {
                engine.reading.retain(|&(_, other)| other != commit);
            }
        }
    }

    /// Frees the log of updates whose words are durable at home. Returns when to check again.
    fn free(&mut self, memory: &mut MemorySide, now: Cycle) -> Cycle {
        let watermark = memory.reserved_line(0, 0);
        let skip = self.omits(COPIED);
        loop {
            if let Some((_, count)) = self.copied {
                if let Some(again) = memory.durable_at(watermark, now) {
                    return again;
                }
                self.copied = None;
                for copy in self.copies.drain(..count) {
                    self.rings[copy.core].head += copy.lines.len() as u64;
                }
            }
            let (mut count, mut again) = (0, Cycle::NEVER);
            let from = self.rings.iter().filter_map(|ring| ring.commit).min().unwrap_or(u64::MAX);
            for copy in self.copies.iter_mut().take_while(|copy| copy.written && copy.commit < from) {
                while let Some(&line) = copy.stored.last() {
                    match memory.durable_at(line, now) {
                        Some(time) if !skip => {
                            again = time;
                            break;
                        }
                        _ => copy.stored.pop(),
                    };
                }
                if again != Cycle::NEVER {
                    break;
                }
                count += 1;
            }
            if count == 0 {
                return again;
            }
            let commit = self.copies[count - 1].commit;
            self.copied = Some((commit, count));
            memory.write(watermark, &[commit, 0, 0, 0, 0, 0, 0, 0], 0xff, now, Origin::Scheme, None);
        }
    }
}

impl MemoryPort for Redo {
    fn read(&mut self, _: &mut MemorySide, line: LineNumber, now: Cycle) -> Option<(Cycle, Line)> {
        self.victims.get(&line).map(|data| (now + self.controllers.match_latency, *data))
    }

    fn way_home(&mut self, memory: &mut MemorySide, line: LineNumber, data: &Line, now: Cycle) -> WayHome {
        let keep = line < memory.pool_end() && self.under_way.contains_key(&line);
        if !keep || self.omits(VICTIMS) {
            return WayHome::Home(now);
        }
        self.counts.victims += 1;
        self.victims.insert(line, *data);
        WayHome::Taken(now + self.controllers.match_latency)
    }
}

impl HardwareScheme for Redo {
    fn name(&self) -> &'static str {
        REDO.name
    }

    fn reserved_bytes(&self) -> u64 {
        let controllers = &self.controllers;
        let lines = 1 + self.rings.len() as u64 * self.ring_lines.div_ceil(controllers.count as u64);
        (lines * 64).next_multiple_of(controllers.interleave_bytes) * controllers.count as u64
    }

    fn boundary(&mut self, caches: &mut Hierarchy, core: CoreId, boundary: Boundary, now: Cycle) -> Reply {
        self.start(&caches.memory);
        match boundary {
            Boundary::Begin => self.begin(core, now),
            Boundary::Commit(_) => self.commit(caches, core, now),
            Boundary::Abort => self.abort(core, now),
            Boundary::Flush => Reply::Go(now),
        }
    }

    fn store(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        stored: StoredWord,
        _: usize,
        now: Cycle,
    ) -> Reply {
        if self.rings[core].depth == 0 || stored.line >= caches.memory.pool_end() {
            return Reply::Go(now);
        }
        let address = stored.line.address() + u64::from(stored.word) * 8;
        match self.add(caches, core, (address, stored.value), now) {
            Ok(at) => {
                let ring = &mut self.rings[core];
                if !ring.stored.contains(&stored.line) {
                    ring.stored.push(stored.line);
                    *self.under_way.entry(stored.line).or_default() += 1;
                }
                Reply::Go(at)
            }
            Err(again) => Reply::Wait(again),
        }
    }

    fn copy(&self, line: LineNumber) -> Option<Line> {
        self.victims.get(&line).copied()
    }

    /// Includes copying home: while the log has room, no core would wait for that work, and no measurement would count it.
    fn is_busy(&self, core: CoreId) -> bool {
        self.rings[core].head < self.rings[core].tail
    }

    fn next_event(&self) -> Cycle {
        self.wake
    }

    fn act(&mut self, caches: &mut Hierarchy, now: Cycle) {
        let memory = &mut caches.memory;
        self.write_home(memory, now);
        let again = self.free(memory, now);
        self.read_log(memory, now);
        // An update that waits for an earlier commit is woken by it.
        let ready = self.engines.iter().flat_map(|engine| &engine.reading).map(|&(ready, _)| ready);
        let ready = ready.filter(|&ready| ready > now).min().unwrap_or(Cycle::NEVER);
        self.wake = again.min(ready).max(now + 1);
    }

    fn statistics(&self) -> Vec<(String, u64)> {
        let counts = self.counts;
        named([
            ("atomic updates", counts.updates),
            ("log entries", counts.entries),
            ("log lines", counts.lines),
            ("log lines read by the back end", counts.read),
            ("lines taken by the victim cache", counts.victims),
            ("stores that waited for a full log", counts.full),
        ])
    }

    fn reset_statistics(&mut self) {
        self.counts = Counts::default();
    }
}
