//! The undo log with which WrAP is compared (section 4). Before a store changes a word, the word's old value is copied to the log, and the store
//! waits for that. The store itself is then written through to memory by a buffer of one.
//!
//! ```text
//! each core's log   line 0: the number of its last transaction that has ended
//!                   line i: number << 32 | word, old value, and both combined as a check
//! ```
//!
//! *Store*: the line is fetched; the entry is written and becomes durable; the store is buffered as soon as the previous one is durable, and the core
//! continues. *Commit*: all data become durable, then the number is stored and becomes durable, and the transaction is acknowledged. *Abort*: the
//! software restores the old values with such stores, and then commits. Lines that the caches evict have already been written through.
//!
//! *Recovery* takes the entries with the number after the last ended transaction and restores their old values, newest first. When that is durable,
//! it ends the transaction by incrementing the number.
//!
//! *Remains of one life never complete an entry of another.* An entry is valid by its number, and no number is used in two lives: a transaction uses
//! a number only when the mark of the previous one is durable. So the remains of a life carry at most the number after the mark, and recovery
//! increments every core's mark, whether it has found an entry or not.

use std::collections::BTreeSet;

use super::{
    Boundary, Entry, HardwareScheme, MemoryPort, Mutant, Reply, Setup, StoredWord, WayHome, exhausted, named,
};
use crate::cache::Hierarchy;
use crate::controller::{Line, MemorySide};
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::statistics::{Origin, Region};

/// The number of lines of each core's log, and thus, except for one, of stores that a transaction may make.
const LOG_LINES: u64 = 1 << 14;
const CHECK: u64 = 0x9e37_79b9_7f4a_7c15;

/// The undo log.
pub const UNDO_LOG: Entry = Entry {
    name: "undo-log",
    source: "Giles, Doshi, Varman: WrAP (its comparison)",
    description: "each store waits until the old value is in the log; a commit waits for all data",
    make: Some(|setup| Ok(Box::new(UndoLog::new(setup)))),
    recover,
    software: &["hardware+single-writer", "hardware+locks"],
    is_durable: true,
    parameters: &[],
    mutants: &[
        Mutant { name: "entry-fence", rule: "a store waits for its log entry", redundant: None },
        Mutant { name: "data-fence", rule: "a commit waits for the data", redundant: None },
        Mutant { name: "mark-fence", rule: "a commit waits for its mark", redundant: None },
        Mutant { name: "undo-order", rule: "recovery undoes the newest store first", redundant: None },
        Mutant { name: "life-number", rule: "recovery counts each core's number up", redundant: None },
    ],
};

/// How far a core's store or commit has progressed.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Free,
    /// The entry is being written.
    Entry(LineNumber),
    /// The number is being written.
    Mark,
}

struct OneLog {
    stage: Stage,
    running: bool,
    /// The number of the last ended transaction.
    ended: u64,
    entries: u64,
    /// The store in the buffer.
    buffer: Option<LineNumber>,
    /// Lines written through in this transaction.
    data: BTreeSet<LineNumber>,
}

/// The undo log's hardware.
struct UndoLog {
    base: LineNumber,
    logs: Vec<OneLog>,
    started: bool,
    /// Lines stored to outside transactions, which go home when they are evicted.
    outside: BTreeSet<LineNumber>,
    entry_fence: bool,
    data_fence: bool,
    mark_fence: bool,
    counts: [u64; 2],
}

impl UndoLog {
    fn new(setup: &Setup<'_>) -> Self {
        let log = || OneLog {
            stage: Stage::Free,
            running: false,
            ended: 0,
            entries: 0,
            buffer: None,
            data: BTreeSet::new(),
        };
        Self {
            base: LineNumber::default(),
            logs: (0..setup.machine.cores.count).map(|_| log()).collect(),
            started: false,
            outside: BTreeSet::new(),
            entry_fence: !setup.omits("entry-fence"),
            data_fence: !setup.omits("data-fence"),
            mark_fence: !setup.omits("mark-fence"),
            counts: [0; 2],
        }
    }

    fn log_line(&self, core: CoreId) -> LineNumber {
        self.base + core.index() as u32 * LOG_LINES as u32
    }

    fn start(&mut self, memory: &MemorySide) {
        if !self.started {
            self.started = true;
            self.base = memory.pool_end();
            for core in CoreId::first(self.logs.len()) {
                self.logs[core].ended = memory.peek(self.log_line(core).first_word());
            }
        }
    }

    fn end(&mut self, memory: &mut MemorySide, core: CoreId, now: Cycle) -> Reply {
        let line = self.log_line(core);
        let mark_fence = self.mark_fence;
        let log = &mut self.logs[core];
        if let Stage::Mark = log.stage {
            if mark_fence && let Some(until) = memory.durable_at(line, now) {
                return Reply::Wait(until);
            }
            log.stage = Stage::Free;
            log.ended += 1;
            log.running = false;
            return Reply::Go(now);
        }
        if log.entries == 0 {
            log.running = false;
            return Reply::Go(now);
        }
        if self.data_fence {
            let waits = log.data.iter().filter_map(|&line| memory.durable_at(line, now)).max();
            if let Some(until) = waits {
                return Reply::Wait(until);
            }
        }
        log.data.clear();
        let number = [log.ended + 1, 0, 0, 0, 0, 0, 0, 0];
        memory.write(line, &number, 1, now, Origin::Scheme, None);
        log.stage = Stage::Mark;
        if mark_fence { Reply::Wait(memory.hurry(line, now).max(now + 1)) } else { Reply::Wait(now + 1) }
    }
}

impl MemoryPort for UndoLog {
    fn way_home(&mut self, memory: &mut MemorySide, line: LineNumber, _: &Line, now: Cycle) -> WayHome {
        if memory.region(line) != Region::Data || self.outside.remove(&line) {
            return WayHome::Home(now);
        }
        WayHome::Taken(now)
    }
}

impl HardwareScheme for UndoLog {
    fn name(&self) -> &'static str {
        UNDO_LOG.name
    }

    fn reserved_bytes(&self) -> u64 {
        self.logs.len() as u64 * LOG_LINES * 64
    }

    fn boundary(&mut self, caches: &mut Hierarchy, core: CoreId, boundary: Boundary, now: Cycle) -> Reply {
        self.start(&caches.memory);
        match boundary {
            Boundary::Begin => {
                self.logs[core].running = true;
                self.logs[core].entries = 0;
                Reply::Go(now)
            }
            Boundary::Commit(_) | Boundary::Abort => self.end(&mut caches.memory, core, now),
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
        let line = stored.line;
        if caches.memory.region(line) != Region::Data {
            return Reply::Go(now);
        }
        if !self.logs[core].running {
            self.outside.insert(line);
            return Reply::Go(now);
        }
        let word = usize::from(stored.word);
        let old = caches.first(core).data[entry].0[word];
        let log_line = self.log_line(core);
        let memory = &mut caches.memory;
        let log = &mut self.logs[core];
        if let Stage::Free = log.stage {
            log.entries += 1;
            if log.entries >= LOG_LINES {
                exhausted(format!("a transaction makes more than {} stores; make it smaller", LOG_LINES - 1));
            }
            let place = ((log.ended + 1) << 32) | (line.first_word() as u64 + word as u64);
            let at = log_line + log.entries as u32;
            let data = [place, old, place ^ old ^ CHECK, 0, 0, 0, 0, 0];
            memory.write(at, &data, 0b111, now, Origin::Scheme, None);
            log.stage = Stage::Entry(at);
            self.counts[0] += 1;
            if self.entry_fence {
                return Reply::Wait(memory.hurry(at, now).max(now + 1));
            }
        }
        if let Stage::Entry(at) = log.stage
            && self.entry_fence
            && let Some(until) = memory.durable_at(at, now)
        {
            return Reply::Wait(until);
        }
        if let Some(until) = log.buffer.and_then(|line| memory.durable_at(line, now)) {
            return Reply::Wait(until);
        }
        let mut data = [0; 8];
        data[word] = stored.value;
        memory.write(line, &data, 1 << word, now, Origin::Scheme, None);
        self.counts[1] += 1;
        log.buffer = Some(line);
        log.data.insert(line);
        log.stage = Stage::Free;
        Reply::Go(now)
    }

    fn statistics(&self) -> Vec<(String, u64)> {
        named([("log entries", self.counts[0]), ("stores written through", self.counts[1])])
    }

    fn reset_statistics(&mut self) {
        self.counts = [0; 2];
    }
}

fn recover(setup: &Setup<'_>, pool: &mut [u64], reserved: &mut [u64]) -> Result<(), String> {
    for log in reserved.chunks_mut(LOG_LINES as usize * 8) {
        let number = log[0] + 1;
        let entries: Vec<(usize, u64)> = log
            .chunks(8)
            .skip(1)
            .take_while(|line| line[0] >> 32 == number && line[0] ^ line[1] ^ CHECK == line[2])
            .map(|line| (line[0] as u32 as usize, line[1]))
            .collect();
        let newest_first = !setup.omits("undo-order");
        for i in 0..entries.len() {
            let (word, old) = entries[if newest_first { entries.len() - 1 - i } else { i }];
            *pool.get_mut(word).ok_or_else(|| format!("an undo entry names word {word}"))? = old;
        }
        if !setup.omits("life-number") {
            log[0] = number;
        }
    }
    Ok(())
}
