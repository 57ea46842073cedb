//! Speculation windows (sections 3.3 and 4.2): how a window becomes durable, how its blocks are written home, and how the log head passes it.

use std::collections::{BTreeMap, VecDeque};

use super::format::{BlockTag, Kind, LARGEST, Pair, RUNNING};
use super::transaction::{KeptVersion, Transaction};
use super::{Commit, LooseOrdering, Rule};
use crate::cache::Hierarchy;
use crate::controller::{Arrival, MemorySide};
use crate::numbers::{Cycle, LineNumber};
use crate::scheme::exhausted;
use crate::statistics::Origin;

/// A speculation window.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Its number, from 0.
    pub number: u64,
    /// The number of its first transaction.
    first: u64,
    /// The sequence ID of its first block group.
    start: u64,
    /// Its transactions, in the order in which they committed.
    pub transactions: Vec<Transaction>,
    /// Dependency pairs: Ta, Tb, n.
    pairs: Vec<(u64, u64, u64)>,
    /// Versions that committed transactions have overwritten, by their numbers in the last level.
    kept: BTreeMap<u32, KeptVersion>,
    /// The number of transactions that have committed.
    pub committed: u64,
    /// The software's number of the last committed transaction.
    pub software: u64,
    /// The time before which no block goes to the log.
    earliest: Cycle,
    /// When the whole window is durable in the log.
    pub durable_at: Cycle,
    /// True if the window's durability has been handled.
    is_settled: bool,
    /// True if all its blocks were sent home.
    is_homed: bool,
    /// Lines that were sent home when it was durable.
    home: Vec<LineNumber>,
}

impl Window {
    /// Returns the arrival of a block that is written at `now`.
    pub fn arrival(&self, now: Cycle) -> Arrival {
        Arrival { at: now, earliest: self.earliest }
    }

    /// Returns the transaction with this number, if it is finished.
    pub fn get(&mut self, transaction: u64) -> Option<&mut Transaction> {
        self.transactions.get_mut(transaction.checked_sub(self.first)? as usize)
    }

    /// Adds the next transaction.
    pub fn push(&mut self, transaction: Transaction) {
        self.committed += u64::from(transaction.is_committed);
        self.transactions.push(transaction);
    }

    /// Notes that `later` has overwritten a block of `earlier` that is not in the log.
    pub fn add_pair(&mut self, earlier: u64, later: u64) {
        if let Some(transaction) = self.get(earlier) {
            transaction.overlapped += 1;
        }
        let mut of_later = self.pairs.iter_mut().rev().take_while(|pair| pair.1 == later);
        match of_later.find(|pair| pair.0 == earlier) {
            Some(pair) => pair.2 += 1,
            None => self.pairs.push((earlier, later, 1)),
        }
    }

    /// Keeps `version` of a block, for which there is a pair, until the window closes.
    pub fn keep_version(&mut self, version: u32, kept: KeptVersion) {
        self.kept.insert(version, kept);
    }

    /// Takes a kept version that goes to the log; its block is then no longer part of the pair. Returns `None` if `version` is not kept.
    pub fn take_version(&mut self, version: u32) -> Option<KeptVersion> {
        let kept = self.kept.remove(&version)?;
        if let Some(transaction) = self.get(kept.earlier) {
            transaction.overlapped -= 1;
        }
        let of_both = |pair: &(u64, u64, u64)| (pair.0, pair.1) == (kept.earlier, kept.later);
        if let Some(at) = self.pairs.iter().position(of_both) {
            self.pairs[at].2 -= 1;
            if self.pairs[at].2 == 0 {
                self.pairs.remove(at);
            }
        }
        Some(kept)
    }

    /// Sets the first numbers of its transactions and block groups, of which there are none yet.
    pub fn begin_at(&mut self, first: u64, start: u64) {
        (self.first, self.start) = (first, start);
    }

    /// Sets the first number of its transactions, of which there are none yet.
    pub fn restart(&mut self, first: u64) {
        self.first = first;
    }

    fn lines(&self) -> impl Iterator<Item = LineNumber> + '_ {
        self.transactions.iter().flat_map(|transaction| transaction.lines.iter().copied())
    }

    /// Returns whether any of its blocks are in the log.
    fn has_logged(&self) -> bool {
        self.transactions.iter().any(|transaction| transaction.logged > 0)
    }
}

/// Returns when the commit logic may send another block: when the first of the `limit` blocks `in_flight` is durable.
fn wait_for_turn(
    limit: usize,
    in_flight: &mut VecDeque<LineNumber>,
    memory: &mut MemorySide,
    now: Cycle,
) -> Option<Cycle> {
    if in_flight.len() < limit {
        return None;
    }
    in_flight.pop_front().map(|line| memory.hurry(line, now))
}

impl LooseOrdering {
    /// Returns whether window `number` is durable at `now`.
    pub(super) fn is_complete(&self, number: u64, now: Cycle) -> bool {
        let Some(oldest) = self.closed.front() else { return number < self.window.number };
        match number.checked_sub(oldest.number) {
            None => true,
            Some(at) => self.closed.get(at as usize).is_some_and(|window| window.durable_at <= now),
        }
    }

    /// Returns the software's TxID up to which transactions are durable at `now`.
    pub(super) fn acknowledged_at(&self, now: Cycle) -> u64 {
        let durable = self.closed.iter().filter(|window| window.durable_at <= now);
        durable.map(|window| window.software).fold(self.acknowledged, u64::max)
    }

    /// Ends the open window at `now`, and writes its remaining blocks to the log. Returns when the window is durable.
    pub(super) fn close_window(&mut self, caches: &mut Hierarchy, now: Cycle) -> Cycle {
        let next = Window { number: self.window.number + 1, first: self.next, ..Window::default() };
        let mut window = std::mem::replace(&mut self.window, next);
        // LastCommittedTxID will pass the whole window at once, so none of its versions is needed any more.
        for version in std::mem::take(&mut window.kept).into_keys() {
            self.drop_version(caches, Some(version));
        }
        window.durable_at = if self.parameters.non_volatile && !window.has_logged() {
            self.write_to_last_level(caches, window.lines(), now)
        } else {
            self.counts.fallbacks += u64::from(self.parameters.non_volatile);
            self.write_log(caches, &mut window, now)
        };
        self.window.start = self.log.next();
        self.counts.windows += 1;
        self.counts.full_windows += u64::from(window.committed >= self.parameters.speculation);
        if self.omits(Rule::HomeAfterLog) {
            self.send_home(caches, &mut window, true, now);
        }
        let durable_at = window.durable_at;
        self.closed.push_back(window);
        durable_at
    }

    /// Writes the remaining blocks of a window to the log. Returns when all of it is durable.
    fn write_log(&mut self, caches: &mut Hierarchy, window: &mut Window, now: Cycle) -> Cycle {
        if self.parameters.home_each
            && let Some(last) = self.closed.back()
        {
            let home = last.home.iter().map(|&line| caches.memory.hurry(line, now));
            window.earliest = home.fold(window.earliest, Cycle::max);
        }
        // The commit logic takes block by block through the levels, like clflush under S-WAL. All blocks take their places in the queue at once, so
        // that the controller's time does not run ahead of the core's.
        let mut at = Arrival { at: now + self.path, earliest: window.earliest };
        let mut through = at.at;
        let is_early = self.omits(Rule::RecordOrder);
        if is_early {
            self.write_record(caches, window, at);
        }
        let mut totals = Vec::new();
        for (index, transaction) in window.transactions.iter_mut().enumerate() {
            if !transaction.is_committed {
                continue;
            }
            let number = window.first + index as u64;
            let lines = &self.lines;
            let is_left = |line: &&LineNumber| {
                let state = lines.get(*line);
                state.is_some_and(|state| state.transaction == number && state.logged.is_none())
            };
            let left: Vec<LineNumber> = transaction.lines.iter().filter(is_left).copied().collect();
            let total = transaction.logged + left.len() as u64 + transaction.overlapped;
            if total > LARGEST {
                exhausted(format!("a transaction of more than {LARGEST} blocks; make it smaller"));
            }
            if left.is_empty() {
                totals.push(Pair { earlier: number as u8, later: number as u8, count: total as u16 });
            }
            for (i, &line) in left.iter().enumerate() {
                let is_last = i + 1 == left.len();
                let data = caches.newest(line).or_else(|| caches.clean_copy(line));
                let Some(data) = data else { continue };
                let tag = BlockTag {
                    kind: Kind::Block,
                    window: window.number as u8,
                    tx_id: number as u8,
                    tx_cnt: if is_last { total as u16 } else { 0 },
                    addr: line,
                };
                let turn = wait_for_turn(self.write_backs, &mut self.in_flight, &mut caches.memory, now);
                at.earliest = at.earliest.max(turn.map_or(Cycle::ZERO, |turn| turn + self.path));
                let place = self.log.append(&mut caches.memory, &data, tag, at);
                self.in_flight.push_back(place);
                through += self.path;
                at.earliest = at.earliest.max(through);
                transaction.logged += 1;
                if let Some(state) = self.lines.get_mut(&line) {
                    state.logged = Some(place);
                }
            }
        }
        if self.parameters.commit == Commit::Count {
            let pairs = window.pairs.iter().map(|&(earlier, later, count)| Pair {
                earlier: earlier as u8,
                later: later as u8,
                count: count as u16,
            });
            let pairs: Vec<Pair> = pairs.chain(totals).collect();
            self.counts.pairs += window.pairs.len() as u64;
            self.log.append_pairs(&mut caches.memory, &pairs, window.number as u8, at);
        }
        self.log.close(&mut caches.memory, at);
        if !is_early {
            let earliest = self.log.until;
            self.write_record(caches, window, Arrival { earliest, ..at });
        }
        self.log.until.max(now)
    }

    /// Writes the commit record of a window, if the system uses records.
    fn write_record(&mut self, caches: &mut Hierarchy, window: &Window, at: Arrival) {
        if self.parameters.commit == Commit::Record && window.committed > 0 {
            let last = window.first + window.transactions.len() as u64 - 1;
            let tag = BlockTag {
                kind: Kind::Record,
                window: window.number as u8,
                tx_id: last as u8,
                tx_cnt: 0,
                addr: LineNumber::default(),
            };
            self.log.append_record(&mut caches.memory, tag, at);
        }
    }

    /// Returns when the next closed window is durable.
    pub(super) fn next_completion(&self) -> Cycle {
        let unsettled = self.closed.iter().rev().take_while(|window| !window.is_settled);
        unsettled.map(|window| window.durable_at).min().unwrap_or(Cycle::NEVER)
    }

    /// Starts the in-place phase of windows that are durable at `now`.
    pub(super) fn complete_windows(&mut self, caches: &mut Hierarchy, now: Cycle) {
        for index in 0..self.closed.len() {
            if self.closed[index].is_settled || self.closed[index].durable_at > now {
                continue;
            }
            let mut window = std::mem::take(&mut self.closed[index]);
            window.is_settled = true;
            self.acknowledged = self.acknowledged.max(window.software);
            self.send_home(caches, &mut window, self.parameters.home_each, now);
            if self.parameters.non_volatile {
                self.commit_last_level(caches, &window, now);
            }
            self.closed[index] = window;
        }
    }

    /// Sends the blocks of a window home that are in the log and in no cache, or all of them if `all`.
    fn send_home(&mut self, caches: &mut Hierarchy, window: &mut Window, all: bool, now: Cycle) {
        let lines: Vec<LineNumber> = window.lines().collect();
        for line in lines {
            if !self.lines.get(&line).is_some_and(|state| state.window == window.number && !state.homed) {
                continue;
            }
            let data = match self.in_log.remove(&line) {
                Some(copy) => {
                    caches.memory.read(copy.place, now);
                    if copy.place == line {
                        self.leave_last_level(&mut caches.memory, line, &copy.data, now);
                    } else {
                        // The log keeps the block until it is home.
                        self.leaving.remove(&line);
                    }
                    copy.data
                }
                None if all => match caches.take_modified(line) {
                    Some(data) => data,
                    None => continue,
                },
                None => continue,
            };
            if let Some(state) = self.lines.get_mut(&line) {
                state.homed = true;
            }
            self.counts.home += 1;
            window.home.push(line);
            let Some(limit) = self.home_write_backs else {
                caches.memory.write(line, &data, 0xff, now, Origin::Scheme, None);
                continue;
            };
            let turn = wait_for_turn(limit, &mut self.home_in_flight, &mut caches.memory, now);
            let earliest = turn.map_or(now, |turn| turn.max(now)) + self.path;
            caches.memory.write(line, &data, 0xff, Arrival { at: now, earliest }, Origin::Scheme, None);
            self.home_in_flight.push_back(line);
        }
        window.is_homed |= all;
    }

    /// Returns when the blocks of the last closed window are durable at home.
    pub(super) fn home_at(&self, caches: &mut Hierarchy, now: Cycle) -> Cycle {
        let home = self.closed.back().into_iter().flat_map(|window| &window.home);
        home.map(|&line| caches.memory.hurry(line, now)).fold(now, Cycle::max)
    }

    /// Makes TxIDs and room in the log available before a window opens at `now`. Returns until when the window must wait.
    pub(super) fn make_room(&mut self, caches: &mut Hierarchy, now: Cycle) -> Cycle {
        if self.parameters.non_volatile {
            return self.end_fallback(caches, now);
        }
        // TxIDs up to the window's end, and half of the valid ones.
        let end = self.next + self.parameters.speculation;
        let is_old = |window: &Window, half_full: bool| half_full || window.first + RUNNING / 2 < end;
        let half_full = self.log.is_half_full();
        let keeps = self.omits(Rule::TruncateAfterHome);
        for index in 0..self.closed.len() {
            if !is_old(&self.closed[index], half_full) {
                break;
            }
            if !self.closed[index].is_homed && !keeps {
                let mut window = std::mem::take(&mut self.closed[index]);
                self.send_home(caches, &mut window, true, now);
                self.closed[index] = window;
            }
        }
        if end - self.first <= RUNNING && self.log.free() > self.log.margin() {
            return now;
        }
        let mut home_at = now;
        while self.closed.front().is_some_and(|window| is_old(window, half_full)) {
            let Some(window) = self.closed.pop_front() else { break };
            for line in window.lines() {
                if self.lines.get(&line).is_some_and(|state| state.window == window.number) {
                    home_at = home_at.max(caches.memory.hurry(line, now));
                    self.lines.remove(&line);
                }
            }
        }
        self.pass(caches, home_at, now)
    }

    /// Moves the log head past all windows except those in [`LooseOrdering::closed`], at `home_at`.
    pub(super) fn pass(&mut self, caches: &mut Hierarchy, home_at: Cycle, now: Cycle) -> Cycle {
        let (start, first) = match self.closed.front() {
            Some(window) => (window.start, window.first),
            None => (self.log.next(), self.next),
        };
        self.first = first;
        self.counts.heads += 1;
        let at = Arrival { at: now, earliest: home_at };
        self.log.write_head(&mut caches.memory, start, first as u8, at)
    }

    /// Forgets the closed windows. Returns the lines that were sent home from the log when these windows were durable.
    pub(super) fn forget_closed(&mut self) -> Vec<LineNumber> {
        self.closed.drain(..).flat_map(|window| window.home).collect()
    }
}

impl Window {
    /// Returns its lines, for the last level.
    pub(super) fn all_lines(&self) -> Vec<LineNumber> {
        self.lines().collect()
    }
}
