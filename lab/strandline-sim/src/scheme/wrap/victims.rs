//! The victim persistence cache, and which wraps keep a line from going home.

use std::collections::BTreeMap;

use crate::controller::Line;
use crate::numbers::LineNumber;

/// The victim cache. Entries are lines; it is volatile.
#[derive(Debug)]
pub struct Victims {
    capacity: usize,
    lines: BTreeMap<LineNumber, Line>,
    /// Lines that found it full. Reads rebuild them from the log; what is kept here is for
    /// [`HardwareScheme::copy`](crate::scheme::HardwareScheme::copy).
    lost: BTreeMap<LineNumber, Line>,
    /// For each line that wraps have stored to and that are not copied: their tokens.
    holders: BTreeMap<LineNumber, Vec<u64>>,
}

impl Victims {
    /// A victim cache with room for `capacity` lines.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, lines: BTreeMap::new(), lost: BTreeMap::new(), holders: BTreeMap::new() }
    }

    /// How many lines it holds.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether some line is to be found by searching the log only.
    pub fn is_degraded(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Wrap `token` has stored to `line`.
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

    /// The caches have evicted the line. `false`: there is no room.
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

    /// The line's words, if it is here.
    pub fn get(&self, line: LineNumber) -> Option<Line> {
        self.lines.get(&line).copied()
    }

    /// The words of a line that found no room.
    pub fn lost(&self, line: LineNumber) -> Option<Line> {
        self.lost.get(&line).copied()
    }

    /// Wrap `token` is copied, or ends without effect: lets go of the line, if `last_writer`, only when no other wrap
    /// has stored to it.
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
