//! Kiln and LOC-Kiln (section 5.2): the last cache level is non-volatile, and holds new versions while memory has the old ones.
//!
//! A commit writes the transaction's (or window's) blocks from the upper levels back into the last one, and then sets a flag, which makes all of them
//! valid atomically. Until then the committed version of each block stays beside the new one, in a way of the same set, unless memory has it. An
//! uncommitted block that has to leave the last level goes to the log. Its window then commits as under H-WAL (LOC-Kiln: as under LOC-WAL), and the
//! next window waits until everything that is only in the log is home.
//!
//! Remains of one life are never valid in another. After a power failure the last level's committed data goes home, and the rest is discarded
//! together with the flags. For the log of the fall-back see `recovery.rs`.
//!
//! A committed block that leaves the last level stays valid there until it is on the medium, since the write queues are volatile. A block that is
//! evicted while its window's flag is being set stays there until the flag is set.

use super::window::Window;
use super::{LooseOrdering, Rule};
use crate::cache::Hierarchy;
use crate::controller::{Line, MemorySide, Progress};
use crate::numbers::{Cycle, LineNumber};
use crate::statistics::Origin;

/// The data in the last level for a line that the open window writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    /// The committed version, if memory does not have it.
    pub data: Option<Line>,
    /// The committed version's number in the last level.
    version: Option<u32>,
}

impl LooseOrdering {
    /// Saves the committed version before the open window stores to `line`.
    pub(super) fn save_committed(&mut self, caches: &mut Hierarchy, line: LineNumber) {
        if self.saved.contains_key(&line) || self.omits(Rule::OldInLastLevel) {
            return;
        }
        let mut saved = Saved { data: None, version: None };
        if let Some((data, true)) = caches.last_level(line) {
            saved = Saved { data: Some(data), version: Some(self.keep_version(caches, line)) };
        }
        self.saved.insert(line, saved);
    }

    /// Makes the committed version the block again after the abort of the only transaction of the open window that has stored to `line`.
    pub(super) fn restore_committed(&mut self, caches: &mut Hierarchy, line: LineNumber) {
        let Some(saved) = self.saved.remove(&line) else { return };
        self.drop_version(caches, saved.version);
        if let Some(data) = saved.data {
            caches.restore(line, &data);
        }
    }

    /// Sends `version` home if it is a committed one that has to leave the last level.
    pub(super) fn evict_saved(
        &mut self,
        memory: &mut MemorySide,
        line: LineNumber,
        version: u32,
        now: Cycle,
    ) -> bool {
        let Some(saved) = self.saved.get_mut(&line).filter(|saved| saved.version == Some(version)) else {
            return false;
        };
        saved.version = None;
        if let Some(data) = saved.data.take() {
            self.leave_last_level(memory, line, &data, now);
            memory.write(line, &data, 0xff, now, Origin::Eviction, None);
        }
        true
    }

    /// Handles committed words that are about to be sent home.
    pub(super) fn leave_last_level(
        &mut self,
        memory: &mut MemorySide,
        line: LineNumber,
        data: &Line,
        now: Cycle,
    ) {
        if self.leaving.len() > 256 {
            self.leaving.retain(|&line, _| memory.progress(line, now) != Progress::Durable);
        }
        self.leaving.insert(line, *data);
    }

    /// Writes these lines back into the last level. Returns when all are there.
    pub(super) fn write_to_last_level(
        &mut self,
        caches: &mut Hierarchy,
        lines: impl Iterator<Item = LineNumber>,
        now: Cycle,
    ) -> Cycle {
        if self.omits(Rule::FlagOrder) {
            return now;
        }
        // Block by block, like writes to the log.
        let moved = lines.filter(|&line| caches.push_to_last_level(line)).count() as u64;
        now + moved * self.path
    }

    /// Removes older versions of a durable window's blocks.
    pub(super) fn commit_last_level(&mut self, caches: &mut Hierarchy, window: &Window, now: Cycle) {
        let lines = window.all_lines();
        // Blocks that fell back to the log are still in the upper levels.
        self.write_to_last_level(caches, lines.iter().copied(), now);
        for line in lines {
            self.lines.remove(&line);
        }
        for (_, saved) in std::mem::take(&mut self.saved) {
            self.drop_version(caches, saved.version);
        }
    }

    /// Empties the log after a fall-back, before the next window opens. Returns when that is done.
    pub(super) fn end_fallback(&mut self, caches: &mut Hierarchy, now: Cycle) -> Cycle {
        let home = self.forget_closed();
        if self.log.is_empty() {
            // No TxID assigned since the last head is in the log, so TxIDs restart at the one that the head names.
            self.next = self.first;
            self.window.restart(self.next);
            return now;
        }
        let home_at = if self.omits(Rule::TruncateAfterHome) {
            now
        } else {
            home.into_iter().map(|line| caches.memory.hurry(line, now)).fold(now, Cycle::max)
        };
        self.pass(caches, home_at, now)
    }

    /// Saves the last level's committed data when power fails.
    pub(super) fn save_last_level(&mut self, caches: &mut Hierarchy, image: &mut [u64], now: Cycle) {
        let pool = caches.memory.pool_end();
        let mut put = |line: LineNumber, data: &Line| {
            if line < pool {
                image[line.words()].copy_from_slice(data);
            }
        };
        for (&line, data) in &self.leaving {
            if caches.memory.progress(line, now) != Progress::Durable {
                put(line, data);
            }
        }
        // The open window's blocks are not valid, nor are those of a closed window whose flag is not set.
        let flag_is_set = self.closed.back().is_some_and(|window| window.durable_at <= now);
        for (&line, copy) in self.in_log.iter().filter(|&(&line, copy)| flag_is_set && copy.place == line) {
            put(line, &copy.data);
        }
        for (line, data) in caches.modified_in_last_level() {
            if flag_is_set || !self.saved.contains_key(&line) {
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
