//! COPY: writes closed wraps home in closing order, in the background, one request at a time.

use std::collections::BTreeMap;

use super::log::decode;
use super::{OneWrap, Wrap};
use crate::controller::{Line, MemorySide};
use crate::numbers::{Cycle, LineNumber};
use crate::statistics::Origin;

/// COPY's next step.
#[derive(Debug, Default)]
enum Stage {
    /// Nothing.
    #[default]
    Idle,
    /// Reads the remaining log lines of a wrap.
    Read { lines: Vec<(LineNumber, u64)>, words: BTreeMap<LineNumber, (Line, u8)> },
    /// Writes the remaining words home.
    Write { words: BTreeMap<LineNumber, (Line, u8)> },
    /// Waits until all of them are durable.
    Settle,
    /// Waits until the Log's head is durable.
    Head,
}

/// The state of COPY.
#[derive(Debug)]
pub struct Copy {
    stage: Stage,
    next: Cycle,
    /// The wrap that is being copied.
    pub wrap: Option<OneWrap>,
    /// Wraps copied in this turn.
    copied: Vec<OneWrap>,
    /// Home lines written in this turn.
    written: Vec<LineNumber>,
    /// Victims that closing wraps have flushed.
    pub flushed: Vec<LineNumber>,
}

impl Default for Copy {
    fn default() -> Self {
        Self {
            stage: Stage::Idle,
            next: Cycle::NEVER,
            wrap: None,
            copied: Vec::new(),
            written: Vec::new(),
            flushed: Vec::new(),
        }
    }
}

impl Copy {
    /// Returns when it has something to do.
    pub fn next(&self) -> Cycle {
        self.next
    }

    /// Starts it, if it is idle.
    pub fn invoke(&mut self, now: Cycle) {
        if matches!(self.stage, Stage::Idle) {
            self.next = self.next.min(now + 1);
        }
    }

    /// Returns when to check again, if some victims that closing wraps have flushed are not durable.
    pub fn unsettled(&mut self, memory: &mut MemorySide, now: Cycle) -> Option<Cycle> {
        settle(&mut self.flushed, memory, now)
    }
}

/// Removes durable lines. Returns when to check the rest again.
fn settle(lines: &mut Vec<LineNumber>, memory: &mut MemorySide, now: Cycle) -> Option<Cycle> {
    let mut until = None;
    lines.retain(|&line| match memory.durable_at(line, now) {
        None => false,
        Some(at) => {
            until = Some(until.map_or(at, |until: Cycle| until.min(at)));
            true
        }
    });
    until
}

impl Wrap {
    /// Returns the next wrap to copy: the oldest one in the Log, if its entry is durable.
    fn next_to_copy(&mut self, memory: &mut MemorySide, now: Cycle) -> Option<OneWrap> {
        let oldest = self.closed.front()?;
        if !oldest.is_durable && memory.durable_at(oldest.entry, now).is_some() {
            return None;
        }
        if self.rules.copy_order {
            return self.closed.pop_front();
        }
        // The mutant takes the newest wrap whose entry is durable.
        let newest = self.closed.iter().rposition(|wrap| wrap.is_durable).unwrap_or(0);
        self.closed.remove(newest)
    }

    /// Executes COPY's next step.
    pub(super) fn act_copy(&mut self, memory: &mut MemorySide, now: Cycle) {
        match std::mem::take(&mut self.copy.stage) {
            Stage::Idle => self.copy_next(memory, now),
            Stage::Read { mut lines, mut words } => {
                let Some((line, records)) = lines.pop() else {
                    self.copy.stage = Stage::Write { words };
                    self.copy.next = now + 1;
                    return;
                };
                let (at, data) = memory.read(line, now);
                self.counts.copy_log_reads += 1;
                for record in decode(&data, records) {
                    let (data, mask) = words.entry(record.line).or_insert(([0; 8], 0));
                    data[usize::from(record.word)] = record.value;
                    *mask |= 1 << record.word;
                }
                self.copy.stage = Stage::Read { lines, words };
                self.copy.next = at.max(now + 1);
            }
            Stage::Write { mut words } => {
                if let Some(&last) = self.copy.written.last()
                    && let Some(at) = memory.durable_at(last, now)
                {
                    self.copy.stage = Stage::Write { words };
                    self.copy.next = at;
                    return;
                }
                match words.pop_first() {
                    Some((line, (data, mask))) => {
                        let accepted = memory.write(line, &data, mask, now, Origin::Scheme, None);
                        self.counts.copied_lines += 1;
                        self.copy.written.push(line);
                        self.copy.stage = Stage::Write { words };
                        self.copy.next = accepted.max(now + 1);
                    }
                    None => {
                        self.wrap_is_home(memory);
                        self.copy_next(memory, now);
                    }
                }
            }
            Stage::Settle => {
                let waits = settle(&mut self.copy.written, memory, now);
                match waits {
                    Some(at) => {
                        self.copy.stage = Stage::Settle;
                        self.copy.next = at;
                    }
                    None => self.move_head(memory, now),
                }
            }
            Stage::Head => match memory.durable_at(self.area.base, now) {
                Some(at) => {
                    self.copy.stage = Stage::Head;
                    self.copy.next = at;
                }
                None => {
                    self.head += self.copy.copied.len() as u64;
                    for wrap in std::mem::take(&mut self.copy.copied) {
                        if self.rules.bucket_fence {
                            self.area.release(&wrap.buckets);
                        }
                    }
                    self.copy.next = Cycle::NEVER;
                    self.invoke_copy(now);
                }
            },
        }
    }

    /// Begins with the next wrap, or ends the turn.
    fn copy_next(&mut self, memory: &mut MemorySide, now: Cycle) {
        self.copy.next = now + 1;
        match self.next_to_copy(memory, now) {
            Some(wrap) => {
                let lines =
                    self.area.record_lines(&wrap.buckets, wrap.records.len() as u64, self.variant.combined);
                // Lines are taken from the end, so the oldest is last.
                let lines = lines.into_iter().rev().collect();
                self.copy.wrap = Some(wrap);
                if !self.rules.head_fence {
                    let head = self.head + self.copy.copied.len() as u64 + 1;
                    self.write_head(memory, head, now);
                }
                self.copy.stage = Stage::Read { lines, words: BTreeMap::new() };
            }
            None if self.copy.copied.is_empty() => {
                self.copy.stage = Stage::Idle;
                // Wait for the wrap's entry to become durable; a wrap that closes later invokes COPY itself.
                let waits = self.closed.front().and_then(|wrap| memory.durable_at(wrap.entry, now));
                self.copy.next = waits.unwrap_or(Cycle::NEVER);
            }
            None => self.copy.stage = Stage::Settle,
        }
    }

    /// Finishes the wrap that was being copied, whose words are home.
    fn wrap_is_home(&mut self, memory: &mut MemorySide) {
        let Some(wrap) = self.copy.wrap.take() else { return };
        for &line in wrap.words.keys() {
            if !self.rules.not_value_equality
                && self.victims.get(line).is_some_and(|victim| victim == memory.newest(line))
            {
                self.victims.forget(line);
            }
            self.victims.release(line, wrap.token, self.rules.last_writer);
        }
        self.counts.copied_wraps += 1;
        if !self.rules.bucket_fence {
            self.area.release(&wrap.buckets);
        }
        self.copy.copied.push(wrap);
    }

    /// Removes the wraps of this turn from the Log.
    fn move_head(&mut self, memory: &mut MemorySide, now: Cycle) {
        self.copy.written.clear();
        let head = self.head + self.copy.copied.len() as u64;
        self.write_head(memory, head, now);
        self.copy.stage = Stage::Head;
        self.copy.next = now + 1;
    }

    fn write_head(&self, memory: &mut MemorySide, head: u64, now: Cycle) {
        let words = [head, 0, 0, 0, 0, 0, 0, 0];
        memory.write(self.area.base, &words, 1, now, Origin::Scheme, None);
    }
}
