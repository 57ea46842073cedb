//! The victim persistence cache, and which wraps keep a line from going home.

use std::collections::BTreeMap;

use crate::controller::Line;
use crate::numbers::LineNumber;

/// The volatile victim cache. Its entries are lines.
#[derive(Debug)]
pub struct Victims {
    capacity: usize,
    lines: BTreeMap<LineNumber, Line>,
    /// Lines for which there was no room. Reads rebuild them from the log; the copies here are for
    /// [`HardwareScheme::copy`](crate::scheme::HardwareScheme::copy).
    lost: BTreeMap<LineNumber, Line>,
    /// For each line the tokens of wraps that have stored to it and are not copied.
    holders: BTreeMap<LineNumber, Vec<u64>>,
}

impl Victims {
    /// Creates a victim cache with room for `capacity` lines.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, lines: BTreeMap::new(), lost: BTreeMap::new(), holders: BTreeMap::new() }
    }

    /// Returns how many lines it holds.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether some line can only be found by searching the log.
    pub fn is_degraded(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Notes that wrap `token` has stored to `line`.
    pub fn hold(&mut self, line: LineNumber, token: u64) {
        let holders = self.holders.entry(line).or_default();
        if !holders.contains(&token) {
            holders.push(token);
        }
    }

    /// Returns whether a wrap that is not copied has stored to the line.
    pub fn is_held(&self, line: LineNumber) -> bool {
        self.holders.contains_key(&line)
    }

    /// Adds a line that the caches have evicted. Returns `false` if there is no room.
    pub fn keep(&mut self, line: LineNumber, data: &Line) -> bool {
        if self.lines.len() < self.capacity || self.lines.contains_key(&line) {
            self.lost.remove(&line);
            self.lines.insert(line, *data);
            true
        } else {
            self.lost.insert(line, *data);
            false
        }
    }

    /// Returns the line's words, if it is here.
    pub fn get(&self, line: LineNumber) -> Option<Line> {
        self.lines.get(&line).copied()
    }

    /// Returns the words of a line for which there was no room.
    pub fn lost(&self, line: LineNumber) -> Option<Line> {
        self.lost.get(&line).copied()
    }

    /// Notes that wrap `token` is copied, or has ended without effect. Drops the line; if `last_writer`, only when no other wrap has stored to it.
    pub fn release(&mut self, line: LineNumber, token: u64, last_writer: bool) {
        let Some(holders) = self.holders.get_mut(&line) else { return };
        holders.retain(|&holder| holder != token);
        let alone = holders.is_empty();
        if alone {
            self.holders.remove(&line);
        }
        if alone || !last_writer {
            self.forget(line);
        }
    }

    /// Deletes the entry of `line`, if there is one.
    pub fn forget(&mut self, line: LineNumber) {
        self.lines.remove(&line);
        self.lost.remove(&line);
    }
}
