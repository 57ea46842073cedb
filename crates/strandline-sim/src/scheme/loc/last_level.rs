//! Kiln and LOC-Kiln (section 5.2): the last cache level is non-volatile, and holds new versions while memory has the
//! old ones.
//!
//! A commit writes the transaction's (or window's) blocks from the upper levels back into the last one, and then sets
//! a flag, which makes all of them valid at once. Until then the committed version of each block stays beside the
//! new one, in a way of the same set, unless memory has it. A block of a transaction that is not committed and has
//! to leave the last level goes to the log; its window then commits as under H-WAL (LOC-Kiln: as under LOC-WAL),
//! and the next one waits until what is in the log alone is home.
//!
//! A block that leaves the last level stays valid there until it is on the medium: the write queues are volatile.

use super::window::Window;
use super::{LooseOrdering, Rule};
use crate::cache::Hierarchy;
use crate::controller::{Line, MemorySide, Progress};
use crate::statistics::Origin;

/// What the last level has of a line that the open window writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    /// The committed version, if memory does not have it.
    pub data: Option<Line>,
    /// Its number there.
    version: Option<u32>,
}

impl LooseOrdering {
    /// The running transaction is about to store to `line` for the first time.
    pub(super) fn save_committed(&mut self, caches: &mut Hierarchy, line: u32) {
        if self.saved.contains_key(&line) || self.omits(Rule::OldInLastLevel) {
            return;
        }
        let mut saved = Saved { data: None, version: None };
        if let Some((data, true)) = caches.last_level(line) {
            self.version_number += 1;
            let version = caches.keep_version(line, self.version_number);
            self.versions.insert(version, line);
            self.counts.versions += 1;
            saved = Saved { data: Some(data), version: Some(version) };
        }
        self.saved.insert(line, saved);
    }

    /// A committed version has to leave the last level: it goes home.
    pub(super) fn evict_saved(&mut self, memory: &mut MemorySide, line: u32, now: u64) {
        let Some(saved) = self.saved.get_mut(&line) else { return };
        saved.version = None;
        if let Some(data) = saved.data {
            memory.write(line, &data, 0xff, now, Origin::Eviction, None);
            self.leaving.insert(line, data);
        }
    }

    /// A block leaves the last level for home.
    pub(super) fn leave_last_level(&mut self, memory: &mut MemorySide, line: u32, data: &Line, now: u64) {
        if self.leaving.len() > 256 {
            let waits = &self.in_log;
            self.leaving.retain(|&line, _| {
                waits.contains_key(&line) || memory.progress(line, now) != Progress::Durable
            });
        }
        self.leaving.insert(line, *data);
    }

    /// Writes these lines back into the last level; when all are there.
    pub(super) fn write_to_last_level(
        &mut self,
        caches: &mut Hierarchy,
        lines: impl Iterator<Item = u32>,
        now: u64,
    ) -> u64 {
        if self.omits(Rule::FlagOrder) {
            return now;
        }
        // As with the log: a block each cycle.
        let moved = lines.filter(|&line| caches.push_to_last_level(line)).count() as u64;
        if moved == 0 { now } else { now + self.path + moved }
    }

    /// A window is durable: older versions of its blocks go.
    pub(super) fn commit_last_level(&mut self, caches: &mut Hierarchy, window: &Window, now: u64) {
        let lines = window.all_lines();
        // What fell back to the log is in the upper levels still.
        self.write_to_last_level(caches, lines.iter().copied(), now);
        for line in lines {
            self.lines.remove(&line);
        }
        for (_, saved) in self.saved.drain() {
            if let Some(version) = saved.version {
                self.versions.remove(&version);
                caches.drop_version(version);
            }
        }
    }

    /// After a fall-back the log is emptied before the next window opens. Until when that takes.
    pub(super) fn end_fallback(&mut self, caches: &mut Hierarchy, now: u64) -> u64 {
        let home = self.forget_closed();
        if self.log.is_empty() {
            // No TxID given since the last head is in the log: they begin again at the one that it names.
            self.next = self.first;
            self.window.restart(self.next);
            return now;
        }
        let home_at = home.into_iter().map(|line| caches.memory.hurry(line, now)).fold(now, u64::max);
        self.pass(caches, home_at, now)
    }

    /// Power fails: what the last level has of committed transactions.
    pub(super) fn save_last_level(&mut self, caches: &mut Hierarchy, image: &mut [u64], now: u64) {
        let pool = caches.memory.pool_lines();
        let mut put = |line: u32, data: &Line| {
            if line < pool {
                image[8 * line as usize..][..8].copy_from_slice(data);
            }
        };
        let mut leaving: Vec<_> = self.leaving.iter().map(|(&line, &data)| (line, data)).collect();
        // The open window's blocks, and those of a closed one whose flag is not set.
        let flag_is_set = self.closed.back().is_some_and(|window| window.durable_at <= now);
        let is_new = |line: u32| self.saved.contains_key(&line) && !flag_is_set;
        leaving.retain(|&(line, _)| {
            let waits = self.in_log.contains_key(&line);
            !is_new(line) && (waits || caches.memory.progress(line, now) != Progress::Durable)
        });
        leaving.iter().for_each(|(line, data)| put(*line, data));
        for (line, data) in caches.modified_in_last_level() {
            if !is_new(line) {
                put(line, &data);
            }
        }
        for (&line, saved) in self.saved.iter().filter(|_| !flag_is_set) {
            if let Some(data) = &saved.data {
                put(line, data);
            }
        }
    }
}
