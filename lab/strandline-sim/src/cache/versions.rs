//! Data that hardware schemes keep in the last cache level besides its lines: versions of blocks, each in a way of its line's set.

use crate::controller::Line;
use crate::numbers::{Cycle, LineNumber};

use super::array::DIRTY;
use super::hierarchy::Hierarchy;
use super::port::MemoryPort;

/// Line numbers from here on stand for versions.
const VERSIONS: u32 = 1 << 31;

/// A request to put something into the last level when the scheme's callback has returned.
pub(super) enum Pending {
    /// A version, by its number.
    Version(u32),
    /// A line's words.
    Line(LineNumber, Line),
}

/// Returns whether a last level's entry is a version.
pub(super) fn is_version(line: LineNumber) -> bool {
    line.number() >= VERSIONS
}

impl Hierarchy {
    /// Gives a version of `line` a way in the last level as soon as the running callback has returned. Returns the version's number, which is derived
    /// from `number`. If no way is empty, the least recently used one is taken; if that evicts a version, [`MemoryPort::version_overflow`] is called.
    pub fn keep_version(&mut self, line: LineNumber, number: u32) -> u32 {
        let period = self.shared.last().map_or(1, |cache| cache.sets()) as u32;
        let base = VERSIONS.next_multiple_of(period);
        let numbers = (u32::MAX - base) / period - 1;
        let residue = (self.memory.address(line) % u64::from(period)) as u32;
        let version = base + number % numbers * period + residue;
        self.pending.push(Pending::Version(version));
        version
    }

    /// Frees a version's way.
    pub fn drop_version(&mut self, version: u32) {
        self.pending.retain(|pending| !matches!(pending, Pending::Version(other) if *other == version));
        if let Some(cache) = self.shared.last_mut()
            && let Some(entry) = cache.find(LineNumber::new(version))
        {
            cache.remove(entry);
        }
    }

    /// Puts a modified line, which no cache has, into the last level as soon as the running callback has returned.
    pub fn restore(&mut self, line: LineNumber, data: &Line) {
        self.pending.push(Pending::Line(line, *data));
    }

    /// Returns the words of a line that is to be restored.
    pub(super) fn pending_line(&self, line: LineNumber) -> Option<Line> {
        self.pending.iter().find_map(|pending| match pending {
            Pending::Line(other, data) if *other == line => Some(*data),
            _ => None,
        })
    }

    /// Carries out the requests of a callback that has returned.
    pub(crate) fn settle_pending(&mut self, at: Cycle, port: &mut dyn MemoryPort) {
        while let Some(pending) = self.pending.pop() {
            let Some(index) = self.shared.len().checked_sub(1) else { return };
            let (line, flags, data) = match pending {
                Pending::Version(version) => (LineNumber::new(version), 0, [0; 8]),
                Pending::Line(line, data) => (line, DIRTY, data),
            };
            let (_, victim) = self.shared[index].insert(line, flags, &data, at);
            if let Some(victim) = victim {
                self.evict_shared(index, victim, at, port);
            }
        }
    }

    /// Removes all copies of a line from the caches, modified or not.
    pub fn discard(&mut self, line: LineNumber) {
        self.clean(line, true);
    }

    /// Returns the words of a modified line, and marks its copies clean.
    pub fn take_modified(&mut self, line: LineNumber) -> Option<Line> {
        self.clean(line, false)
    }

    /// Returns a line's words in the last level, and whether they are modified there.
    pub fn last_level(&self, line: LineNumber) -> Option<(Line, bool)> {
        let cache = self.shared.last()?;
        let entry = cache.find(line)?;
        Some((cache.data[entry].0, cache.is_dirty(entry)))
    }

    /// Writes a line that is modified above the last level back into the last level. Returns whether it was modified.
    pub fn push_to_last_level(&mut self, line: LineNumber) -> bool {
        let is_above = |caches: &Self| {
            let above = caches.private.iter().flatten().chain(caches.shared.iter().rev().skip(1));
            above.into_iter().any(|cache| cache.find(line).is_some_and(|entry| cache.is_dirty(entry)))
        };
        if !is_above(self) {
            return false;
        }
        let Some(data) = self.clean(line, false) else { return false };
        let Some(cache) = self.shared.last_mut() else { return false };
        match cache.find(line) {
            Some(entry) => {
                cache.data[entry].0 = data;
                cache.states[entry].flags |= DIRTY;
            }
            None => self.pending.push(Pending::Line(line, data)),
        }
        true
    }

    /// Returns the modified lines of the last level with its own words.
    pub fn modified_in_last_level(&self) -> impl Iterator<Item = (LineNumber, Line)> + '_ {
        self.shared.last().into_iter().flat_map(|cache| {
            (0..cache.entries()).filter(move |&entry| cache.is_dirty(entry)).filter_map(move |entry| {
                let line = cache.line(entry).filter(|&line| !is_version(line))?;
                Some((line, cache.data[entry].0))
            })
        })
    }
}
