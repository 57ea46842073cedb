//! A commit buffer with a battery. Replace it by your own hardware.
//!
//! The stores of a running transaction stay in the caches, or come here if they are evicted. At the commit the words go into a buffer that a battery
//! keeps powered, and the transaction is durable. From there they drain in the background to their places in memory, in the order of commits. A
//! commit that finds the buffer full waits. When power fails, the battery writes the buffer to memory, so that recovery has nothing to do.

use std::collections::{BTreeMap, HashMap, VecDeque};

use strandline_sim::cache::Hierarchy;
use strandline_sim::controller::{Line, MemorySide};
use strandline_sim::numbers::{CoreId, Cycle, LineNumber};
use strandline_sim::scheme::{
    Boundary, Entry, HardwareScheme, MemoryPort, Mutant, Parameter, Reply, Setup, StoredWord, WayHome,
    exhausted,
};
use strandline_sim::statistics::{Origin, Region};

const LINES: Parameter = Parameter {
    name: "lines",
    unit: "lines",
    range: 1..=1 << 20,
    default: 256,
    description: "what the battery keeps alive",
};
const DRAINS: Parameter = Parameter {
    name: "drains",
    unit: "writes",
    range: 1..=64,
    default: 4,
    description: "lines that are on their way home at a time",
};

/// The description for the command, the checker and the laboratory.
pub static BATTERY: Entry = Entry {
    name: "battery",
    source: "this crate",
    description: "a commit buffer on a battery, which drains home in the background",
    make: Some(|setup| Ok(Box::new(Battery::new(setup)))),
    recover: |_, _, _| Ok(()),
    // Software schemes that store in place between TxBegin and TxCommit.
    software: &["hardware+single-writer", "hardware+locks"],
    is_durable: true,
    parameters: &[LINES, DRAINS],
    // The rules on which durability relies. `check --mutants` leaves each of them out, and must find a violation.
    mutants: &[
        Mutant { name: "saved", rule: "a power failure saves what is in the buffer", redundant: None },
        Mutant { name: "committed-only", rule: "and nothing of running transactions", redundant: None },
        Mutant {
            name: "held-back",
            rule: "evicted words of running transactions do not go home",
            redundant: None,
        },
        Mutant {
            name: "drained",
            rule: "a line leaves the buffer when it is durable at home",
            redundant: None,
        },
    ],
};

/// Some words of a line.
#[derive(Clone, Copy, Default)]
struct Words {
    words: Line,
    mask: u8,
}

impl Words {
    fn set(&mut self, word: u8, value: u64) {
        self.words[usize::from(word)] = value;
        self.mask |= 1 << word;
    }
}

/// A line in the buffer.
struct Committed {
    line: LineNumber,
    words: Words,
    /// The cycle at which to check whether the line has arrived, after it was sent.
    until: Option<Cycle>,
}

struct Battery {
    lines: usize,
    drains: usize,
    omitted: Option<&'static str>,
    /// The stores of each core's transaction.
    running: Vec<Option<BTreeMap<LineNumber, Words>>>,
    /// The buffer, oldest lines first.
    buffer: VecDeque<Committed>,
    /// Lines with words in a running transaction or in the buffer: the newest contents, and the number of places with such words.
    newest: HashMap<LineNumber, (Line, usize)>,
    /// The next cycle at which there may be a line to send.
    wakes: Cycle,
    commits: u64,
    drained: u64,
    waits: u64,
}

impl Battery {
    fn new(setup: &Setup<'_>) -> Self {
        Self {
            lines: LINES.of(setup.machine) as usize,
            drains: DRAINS.of(setup.machine) as usize,
            omitted: setup.omitted,
            running: (0..setup.machine.cores.count).map(|_| None).collect(),
            buffer: VecDeque::new(),
            newest: HashMap::new(),
            wakes: Cycle::NEVER,
            commits: 0,
            drained: 0,
            waits: 0,
        }
    }

    fn omits(&self, mutant: &str) -> bool {
        self.omitted == Some(mutant)
    }

    /// Notes that there is one place less with words of a line.
    fn forget(&mut self, line: LineNumber) {
        if let Some((_, places)) = self.newest.get_mut(&line) {
            *places -= 1;
            if *places == 0 {
                self.newest.remove(&line);
            }
        }
    }

    /// Moves a transaction's words into the buffer, if there is room.
    fn commit(&mut self, core: CoreId, now: Cycle) -> Reply {
        let count = self.running[core].as_ref().map_or(0, BTreeMap::len);
        if count > self.lines {
            exhausted(format!(
                "a transaction stores to {count} lines: choose scheme.lines of at least as many"
            ));
        }
        if self.buffer.len() + count > self.lines {
            self.waits += 1;
            return Reply::Wait(self.next_event().max(now + 1));
        }
        for (line, words) in self.running[core].take().into_iter().flatten() {
            self.buffer.push_back(Committed { line, words, until: None });
        }
        self.commits += 1;
        self.wakes = self.wakes.min(now);
        Reply::Go(now)
    }
}

impl MemoryPort for Battery {
    fn read(&mut self, _: &mut MemorySide, line: LineNumber, now: Cycle) -> Option<(Cycle, Line)> {
        self.newest.get(&line).map(|(contents, _)| (now + 1, *contents))
    }

    fn way_home(&mut self, _: &mut MemorySide, line: LineNumber, _: &Line, now: Cycle) -> WayHome {
        let is_held = self.newest.contains_key(&line) && !self.omits("held-back");
        if is_held { WayHome::Taken(now) } else { WayHome::Home(now) }
    }
}

impl HardwareScheme for Battery {
    fn name(&self) -> &'static str {
        BATTERY.name
    }

    fn boundary(&mut self, _: &mut Hierarchy, core: CoreId, boundary: Boundary, now: Cycle) -> Reply {
        match boundary {
            Boundary::Begin => self.running[core] = Some(BTreeMap::new()),
            Boundary::Commit(_) => return self.commit(core, now),
            // The software has already stored the old values again.
            Boundary::Abort => {
                let lines = self.running[core].take().into_iter().flatten();
                lines.for_each(|(line, _)| self.forget(line));
            }
            // Everything that has committed is durable.
            Boundary::Flush => {}
        }
        Reply::Go(now)
    }

    fn store(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        stored: StoredWord,
        entry: usize,
        now: Cycle,
    ) -> Reply {
        let StoredWord { line, word, value } = stored;
        if caches.memory.region(line) != Region::Data {
            return Reply::Go(now);
        }
        let mut contents = caches.first(core).data[entry].0;
        contents[usize::from(word)] = value;
        let is_known = self.newest.contains_key(&line);
        let is_new = match &mut self.running[core] {
            Some(running) => {
                let is_new = !running.contains_key(&line);
                running.entry(line).or_default().set(word, value);
                is_new
            }
            // The store is outside of a transaction, so that it is durable when it is in memory. If there are older words of the line here, it goes
            // through the buffer after them. Otherwise the caches write it to memory.
            None if is_known => {
                let mut words = Words::default();
                words.set(word, value);
                self.buffer.push_back(Committed { line, words, until: None });
                self.wakes = self.wakes.min(now);
                true
            }
            None => return Reply::Go(now),
        };
        let (newest, places) = self.newest.entry(line).or_default();
        *newest = contents;
        *places += usize::from(is_new);
        Reply::Go(now)
    }

    fn copy(&self, line: LineNumber) -> Option<Line> {
        self.newest.get(&line).map(|(contents, _)| *contents)
    }

    fn next_event(&self) -> Cycle {
        let sent = self.buffer.iter().take(self.drains).filter_map(|committed| committed.until);
        sent.min().unwrap_or(Cycle::NEVER).min(self.wakes)
    }

    fn act(&mut self, caches: &mut Hierarchy, now: Cycle) {
        self.wakes = Cycle::NEVER;
        let memory = &mut caches.memory;
        // Lines drain in the order of commits, so that no older word arrives after a newer one.
        let drains_late = !self.omits("drained");
        let mut is_first = true;
        let mut at = 0;
        while at < self.buffer.len().min(self.drains) {
            let Committed { line, words, until } = &mut self.buffer[at];
            if until.is_none() {
                memory.write(*line, &words.words, words.mask, now, Origin::Scheme, None);
                *until = Some(memory.hurry(*line, now).max(now + 1));
            }
            let pending = memory.durable_at(*line, now).filter(|_| drains_late);
            match pending {
                None if is_first => {
                    let line = *line;
                    self.buffer.pop_front();
                    self.drained += 1;
                    self.forget(line);
                }
                // The line waits for those before it, which are sent first.
                None => {
                    *until = Some(Cycle::NEVER);
                    at += 1;
                }
                Some(later) => {
                    *until = Some(later.max(now + 1));
                    (is_first, at) = (false, at + 1);
                }
            }
        }
    }

    fn power_fails(&mut self, _: &mut Hierarchy, image: &mut [u64], _: Cycle) {
        let mut save = |line: LineNumber, words: &Words| {
            for word in (0..8).filter(|word| words.mask >> word & 1 == 1) {
                image[line.first_word() + word] = words.words[word];
            }
        };
        if !self.omits("saved") {
            self.buffer.iter().for_each(|committed| save(committed.line, &committed.words));
        }
        if self.omits("committed-only") {
            self.running.iter().flatten().flatten().for_each(|(&line, words)| save(line, words));
        }
    }

    fn is_busy(&self, _: CoreId) -> bool {
        !self.buffer.is_empty()
    }

    fn unreached(&self) -> Vec<String> {
        let never_full = "the buffer was never full: no commit waited for one to drain";
        (self.waits == 0).then(|| never_full.into()).into_iter().collect()
    }

    fn statistics(&self) -> Vec<(String, u64)> {
        [("commits", self.commits), ("lines drained", self.drained), ("waits for room", self.waits)]
            .map(|(name, count)| (name.to_owned(), count))
            .into()
    }

    fn reset_statistics(&mut self) {
        (self.commits, self.drained, self.waits) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use strandline_lab_cli::Registry;
    use strandline_scheme_check::Session;
    use strandline_scheme_check::explore::Workload;
    use strandline_scheme_check::machine::{Bounds, Case, attempts, sample, subjects};

    use super::*;

    fn bounds(histories: u64, transactions: u32) -> Bounds {
        Bounds { histories, seed: 1, transactions, limit: Duration::from_secs(120) }
    }

    fn all() -> Vec<strandline_scheme_check::machine::Subject> {
        let all = subjects(Registry::default().with_hardware(&[&BATTERY]));
        all.into_iter().filter(|subject| subject.hardware.name == BATTERY.name).collect()
    }

    /// Whenever power fails, everything that was acknowledged is there, and no other transaction is there in part.
    #[test]
    fn no_power_failure_loses_anything() {
        for subject in all() {
            for (workload, threads) in [(Workload::Sps, 3), (Workload::Hash, 2)] {
                let case = Case { subject, workload, threads, omitted: None };
                let outcome = sample(case, bounds(10, 12), &Session::new(), |_| ()).unwrap();
                assert!(outcome.counts.states > 20, "{}", outcome.counts.states);
                assert!(outcome.violation.is_none(), "{}: {:?}", subject.name(), outcome.violation);
            }
        }
    }

    /// Every rule is needed: without it, some history loses data.
    #[test]
    fn every_rule_is_needed() {
        let all = all();
        for omitted in all[0].omissions() {
            let found = attempts(&all, omitted).into_iter().any(|(case, shape)| {
                let bounds = bounds(shape.histories, shape.transactions);
                sample(case, bounds, &Session::new(), |_| ()).is_ok_and(|outcome| outcome.violation.is_some())
            });
            assert!(found, "it goes unnoticed that {} is left out", omitted.name());
        }
    }
}
