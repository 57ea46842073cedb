//! A transaction in the caches (sections 3.3 and 4.2): its blocks, their versions, its commit and its abort.

use std::collections::HashMap;

use super::format::{BlockTag, Kind};
use super::{LooseOrdering, Rule};
use crate::cache::Hierarchy;
use crate::controller::{Line, MemorySide};
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::scheme::{Reply, WayHome};

/// The location of the newest version of a line: its entry in the Tx Dirty Block Table.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineState {
    /// The transaction that wrote it.
    pub transaction: u64,
    /// Its window.
    pub window: u64,
    /// The version's place in the log, if it is written there (TxDirty is then unset).
    pub logged: Option<LineNumber>,
    /// True if it was sent home.
    pub homed: bool,
}

/// A version of a line in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogCopy {
    /// The words.
    pub data: Line,
    /// The line of the log.
    pub place: LineNumber,
}

/// A line as it was before the running transaction's first store to it.
#[derive(Clone, Copy, Debug)]
struct Previous {
    state: Option<LineState>,
    /// Its words, if home does not have them: those of an earlier transaction, or stored outside any transaction.
    data: Option<Line>,
    /// The older version's number in the last level.
    version: Option<u32>,
}

/// The running transaction.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Its lines, in the order of their first stores.
    pub lines: Vec<LineNumber>,
    previous: HashMap<LineNumber, Previous>,
    /// The number of its blocks that are in the log.
    pub logged: u64,
}

/// A version of a block that a committed transaction has overwritten, in the last level until the window closes.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptVersion {
    /// The transaction that wrote it.
    pub earlier: u64,
    /// The transaction that has overwritten it.
    pub later: u64,
    /// The words.
    pub data: Line,
}

/// A finished transaction in its window: its entry in the Tx State Table.
#[derive(Debug)]
pub(super) struct Transaction {
    /// Its lines.
    pub lines: Vec<LineNumber>,
    /// The number of blocks that were written to the log; a block written repeatedly counts each time.
    pub logged: u64,
    /// The number of its blocks that later transactions have overwritten.
    pub overlapped: u64,
    /// True if it was committed; if not, it was aborted.
    pub is_committed: bool,
}

impl LooseOrdering {
    /// Handles a store of the running transaction to `line`, which is at `entry` of the first level.
    pub(super) fn transactional_store(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        line: LineNumber,
        entry: usize,
    ) {
        let Some(running) = &mut self.running else { return };
        let own =
            LineState { transaction: self.next, window: self.window.number, logged: None, homed: false };
        if running.previous.contains_key(&line) {
            // The transaction's own block may have gone to the log meanwhile; then it will have to be written there again.
            self.lines.insert(line, own);
            self.in_log.remove(&line);
            return;
        }
        let state = self.lines.insert(line, own);
        let mut previous = Previous { state, data: None, version: None };
        match state.filter(|state| !state.homed) {
            Some(state) => {
                previous.data = Some(caches.first(core).data[entry].0);
                if state.logged.is_none() {
                    if self.omits(Rule::Versions) {
                        previous.data = None;
                    } else {
                        previous.version = Some(self.keep_version(caches, line));
                    }
                }
            }
            // In Kiln, the last level keeps the committed version (below).
            None if self.parameters.non_volatile => {}
            None => previous.data = caches.newest(line),
        }
        let Some(running) = &mut self.running else { return };
        running.lines.push(line);
        running.previous.insert(line, previous);
        self.in_log.remove(&line);
        if self.parameters.non_volatile {
            self.save_committed(caches, line);
        }
    }

    /// Handles a modified line that leaves the caches for memory.
    pub(super) fn leaves_caches(
        &mut self,
        memory: &mut MemorySide,
        line: LineNumber,
        data: &Line,
        now: Cycle,
    ) -> WayHome {
        let Some(&state) = self.lines.get(&line) else {
            if self.parameters.non_volatile {
                self.leave_last_level(memory, line, data, now);
            }
            return WayHome::Home(now);
        };
        let is_open = state.window == self.window.number || !self.is_complete(state.window, now);
        if is_open
            && !self.omits(Rule::NoEviction)
            && !(state.logged.is_some() && self.omits(Rule::HomeAfterLog))
        {
            if self.parameters.non_volatile && state.window != self.window.number {
                // The line is in the last level and waits for its window's flag.
                self.in_log.insert(line, LogCopy { data: *data, place: line });
                return WayHome::Taken(now);
            }
            let place = match state.logged {
                Some(place) => place,
                None => {
                    self.counts.evicted_to_log += 1;
                    self.log_block(memory, line, state.transaction, data, now)
                }
            };
            self.in_log.insert(line, LogCopy { data: *data, place });
            return WayHome::Taken(now);
        }
        self.in_log.remove(&line);
        if let Some(state) = self.lines.get_mut(&line) {
            state.homed = true;
        }
        if self.parameters.non_volatile {
            self.leave_last_level(memory, line, data, now);
        }
        WayHome::Home(now)
    }

    /// Writes a block of a transaction of the open window to the log, with TxCnt 0. Returns its place.
    pub(super) fn log_block(
        &mut self,
        memory: &mut MemorySide,
        line: LineNumber,
        transaction: u64,
        data: &Line,
        now: Cycle,
    ) -> LineNumber {
        let tag = self.tag(transaction, line, 0);
        let place = self.log.append(memory, data, tag, self.window.arrival(now));
        match self.window.get(transaction) {
            Some(transaction) => transaction.logged += 1,
            None => self.running.iter_mut().for_each(|running| running.logged += 1),
        }
        if let Some(state) = self.lines.get_mut(&line)
            && state.transaction == transaction
        {
            state.logged = Some(place);
        }
        place
    }

    pub(super) fn tag(&self, transaction: u64, addr: LineNumber, tx_cnt: u64) -> BlockTag {
        let window = self.window.number as u8;
        BlockTag { kind: Kind::Block, window, tx_id: transaction as u8, tx_cnt: tx_cnt as u16, addr }
    }

    /// Writes a version for which the last level has no way to the log, as a block of the transaction that wrote it.
    pub(super) fn evict_version(&mut self, memory: &mut MemorySide, version: u32, now: Cycle) {
        let Some(line) = self.versions.remove(&version) else { return };
        self.counts.version_overflows += 1;
        if let Some(kept) = self.window.take_version(version) {
            self.log_block(memory, line, kept.earlier, &kept.data, now);
            return;
        }
        if self.evict_saved(memory, line, version, now) {
            return;
        }
        let previous = self.running.as_mut().and_then(|running| running.previous.get_mut(&line));
        let Some(previous) = previous else { return };
        previous.version = None;
        let (Some(state), Some(data)) = (previous.state, previous.data) else { return };
        let place = self.log_block(memory, line, state.transaction, &data, now);
        let previous = self.running.as_mut().and_then(|running| running.previous.get_mut(&line));
        if let Some(state) = previous.and_then(|previous| previous.state.as_mut()) {
            state.logged = Some(place);
        }
    }

    /// Keeps the version of `line` that is about to be overwritten in the last level. Returns its number there.
    pub(super) fn keep_version(&mut self, caches: &mut Hierarchy, line: LineNumber) -> u32 {
        self.version_number += 1;
        let version = caches.keep_version(line, self.version_number);
        self.versions.insert(version, line);
        self.counts.versions += 1;
        version
    }

    pub(super) fn drop_version(&mut self, caches: &mut Hierarchy, version: Option<u32>) {
        if let Some(version) = version {
            self.versions.remove(&version);
            caches.drop_version(version);
        }
    }

    /// Handles TxBegin.
    pub(super) fn begin(&mut self, caches: &mut Hierarchy, now: Cycle) -> Reply {
        self.complete_windows(caches, now);
        if let Some(last) = self.closed.back()
            && last.durable_at > now
            && !self.omits(Rule::WindowOrder)
        {
            self.counts.begin_stalls += last.durable_at - now;
            return Reply::Wait(last.durable_at);
        }
        if self.waits_for_home {
            let until = self.home_at(caches, now);
            if until > now {
                self.counts.begin_stalls += until - now;
                self.counts.home_stalls += 1;
                return Reply::Wait(until);
            }
        }
        if self.window.transactions.is_empty() {
            let until = self.make_room(caches, now);
            if until > now {
                self.counts.begin_stalls += until - now;
                return Reply::Wait(until);
            }
        }
        self.running = Some(Running::default());
        Reply::Go(now)
    }

    /// Handles TxCommit of the transaction whose number in the software is `software`.
    pub(super) fn commit(&mut self, caches: &mut Hierarchy, software: u64, now: Cycle) -> Reply {
        let Some(running) = self.running.take() else { return Reply::Go(now) };
        if running.lines.is_empty() {
            return Reply::Go(now);
        }
        self.counts.transactions += 1;
        self.counts.blocks += running.lines.len() as u64;
        for &line in &running.lines {
            let previous = running.previous[&line];
            let Some(state) = previous.state else { continue };
            if state.window == self.window.number && state.logged.is_none() {
                self.window.add_pair(state.transaction, self.next);
                self.counts.overlapped += 1;
                if let (Some(version), Some(data), false) =
                    (previous.version, previous.data, self.parameters.non_volatile)
                {
                    let version_of = KeptVersion { earlier: state.transaction, later: self.next, data };
                    self.window.keep_version(version, version_of);
                    continue;
                }
            }
            self.drop_version(caches, previous.version);
        }
        self.window.push(Transaction {
            lines: running.lines,
            logged: running.logged,
            overlapped: 0,
            is_committed: true,
        });
        self.window.software = software;
        self.next += 1;
        if self.window.committed < self.parameters.speculation {
            return Reply::Go(now);
        }
        let durable_at = self.close_window(caches, now);
        // Eager Commit does not wait.
        let waits = self.parameters.commit == super::Commit::Record;
        Reply::Go(if waits { durable_at } else { now })
    }

    /// Handles TxAbort: restores the transaction's blocks.
    pub(super) fn abort(&mut self, caches: &mut Hierarchy, now: Cycle) {
        let Some(running) = self.running.take() else { return };
        if running.lines.is_empty() {
            return;
        }
        self.counts.aborted += 1;
        let burnt = running.logged > 0;
        for &line in &running.lines {
            let previous = running.previous[&line];
            caches.discard(line);
            self.in_log.remove(&line);
            self.drop_version(caches, previous.version);
            let Some(mut state) = previous.state.filter(|state| !state.homed) else {
                match previous.state {
                    Some(state) => self.lines.insert(line, state),
                    None => self.lines.remove(&line),
                };
                if let Some(data) = previous.data {
                    caches.restore(line, &data);
                }
                self.restore_committed(caches, line);
                continue;
            };
            let data = previous.data;
            if state.logged.is_none() && !self.parameters.non_volatile {
                if let Some(data) = data.filter(|_| !self.omits(Rule::Rescue)) {
                    // The preceding transaction's version, which now no later one overwrites.
                    self.lines.insert(line, state);
                    let place = self.log_block(&mut caches.memory, line, state.transaction, &data, now);
                    self.counts.rescued += 1;
                    state.logged = Some(place);
                } else {
                    self.lines.remove(&line);
                    continue;
                }
            }
            self.lines.insert(line, state);
            match (data, state.logged) {
                (Some(data), Some(place)) => {
                    self.in_log.insert(line, LogCopy { data, place });
                }
                (Some(data), None) => caches.restore(line, &data),
                (None, _) => {}
            }
        }
        if burnt {
            self.window.push(Transaction {
                lines: running.lines,
                logged: running.logged,
                overlapped: 0,
                is_committed: false,
            });
            self.next += 1;
            self.close_window(caches, now);
        }
    }

    /// Handles TxFlush: everything committed must be durable.
    pub(super) fn flush(&mut self, caches: &mut Hierarchy, now: Cycle) -> Reply {
        if self.running.is_none() && !self.window.transactions.is_empty() {
            self.close_window(caches, now);
        }
        Reply::Go(self.closed.back().map_or(now, |window| window.durable_at.max(now)))
    }
}
