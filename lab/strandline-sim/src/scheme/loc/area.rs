//! The memory log area, which the memory controller fills (section 3.2): blocks in groups, data before metadata.

use super::format::{BlockTag, GROUP_DATA, Head, Kind, LARGEST, PAIRS_PER_BLOCK, Pair, Places, encode_pairs};
use crate::controller::{Arrival, Line, MemorySide};
use crate::numbers::{Cycle, LineNumber};
use crate::scheme::exhausted;
use crate::statistics::Origin;

/// The log area and its open block group.
pub struct LogArea {
    places: Places,
    /// The sequence ID of the open group.
    next: u64,
    tags: Vec<BlockTag>,
    lines: Vec<LineNumber>,
    head: Head,
    /// The number of cycles that a write takes on the medium.
    write: u64,
    /// True if the metadata waits for the data (a rule; see `Rule::GroupOrder`).
    ordered: bool,
    /// When all groups closed so far are durable.
    pub until: Cycle,
    /// The number of blocks and metadata lines that were written.
    pub written: [u64; 2],
}

impl LogArea {
    /// Creates an empty area of `bytes` bytes; a write takes `write` cycles.
    pub fn new(bytes: u64, write: u64, ordered: bool) -> Self {
        Self {
            places: Places::of(bytes),
            next: 0,
            tags: Vec::with_capacity(GROUP_DATA),
            lines: Vec::with_capacity(GROUP_DATA),
            head: Head::default(),
            write,
            ordered,
            until: Cycle::ZERO,
            written: [0; 2],
        }
    }

    /// Continues after `head`, the newest one. Nothing may have been written yet.
    pub fn begin_at(&mut self, head: Head) {
        (self.head, self.next) = (head, head.start);
    }

    /// Returns the sequence ID of the group of the next block.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether the head has passed all groups.
    pub fn is_empty(&self) -> bool {
        self.next == self.head.start && self.tags.is_empty()
    }

    /// Returns how many groups can still be filled: all except the valid ones.
    pub fn free(&self) -> u64 {
        self.places.most() - (self.next + 1 - self.head.start)
    }

    /// Returns how many groups must be free when a transaction begins: those of the largest one, or in a small area a quarter.
    pub fn margin(&self) -> u64 {
        (LARGEST / GROUP_DATA as u64 + 2).min(self.places.groups / 4)
    }

    /// Returns whether the area is more than half full.
    pub fn is_half_full(&self) -> bool {
        self.free() < self.places.groups / 2
    }

    /// Writes a block that arrives as `at` specifies. Returns its line.
    pub fn append(&mut self, memory: &mut MemorySide, data: &Line, tag: BlockTag, at: Arrival) -> LineNumber {
        if self.free() == 0 {
            exhausted("the memory log area is full inside one window; make transactions smaller".into());
        }
        let line = memory.reserved_line(0, self.places.line(self.next) + self.tags.len() as u64);
        memory.write(line, data, 0xff, at, Origin::Scheme, None);
        self.written[0] += 1;
        self.tags.push(tag);
        self.lines.push(line);
        if self.tags.len() == GROUP_DATA {
            self.close(memory, at);
        }
        line
    }

    /// Writes `pairs` to the log as blocks of window `window`, arriving at `at`.
    pub fn append_pairs(&mut self, memory: &mut MemorySide, pairs: &[Pair], window: u8, at: Arrival) {
        for pairs in pairs.chunks(PAIRS_PER_BLOCK) {
            let tx_cnt = pairs.len() as u16;
            let tag = BlockTag { kind: Kind::Pairs, window, tx_id: 0, tx_cnt, addr: LineNumber::default() };
            self.append(memory, &encode_pairs(pairs), tag, at);
        }
    }

    /// Writes the open group's metadata, if there is any, so that it is on the medium no earlier than its data.
    pub fn close(&mut self, memory: &mut MemorySide, at: Arrival) {
        if self.tags.is_empty() {
            return;
        }
        // "Issued serially": metadata begins when the last block of data has begun, and all writes take the same time.
        let data = self.lines.iter().map(|&line| memory.hurry(line, at.at)).fold(at.at, Cycle::max);
        let mut meta = [0; 8];
        meta[0] = self.next + 1;
        for (word, tag) in meta[1..].iter_mut().zip(&self.tags) {
            *word = tag.encode();
        }
        let after = if self.ordered { data.before(self.write) } else { Cycle::ZERO };
        let at = Arrival { at: at.at, earliest: at.earliest.max(after) };
        self.write_meta(memory, &meta, at);
        self.until = self.until.max(data);
    }

    fn write_meta(&mut self, memory: &mut MemorySide, meta: &Line, at: Arrival) {
        let line = memory.reserved_line(0, self.places.line(self.next) + GROUP_DATA as u64);
        memory.write(line, meta, 0xff, at, Origin::Scheme, None);
        self.until = self.until.max(memory.hurry(line, at.at));
        self.written[1] += 1;
        self.tags.clear();
        self.lines.clear();
        self.next += 1;
    }

    /// Writes a commit record (H-WAL): the metadata line of a group of its own.
    pub fn append_record(&mut self, memory: &mut MemorySide, tag: BlockTag, at: Arrival) {
        self.close(memory, at);
        let meta = [self.next + 1, tag.encode(), 0, 0, 0, 0, 0, 0];
        self.write_meta(memory, &meta, at);
    }

    /// Writes a log head. Returns when it is durable.
    pub fn write_head(&mut self, memory: &mut MemorySide, start: u64, first: u8, at: Arrival) -> Cycle {
        self.head = Head { epoch: self.head.epoch + 1, start, first };
        let line = memory.reserved_line(0, self.head.line());
        memory.write(line, &self.head.encode(), 0xff, at, Origin::Scheme, None);
        memory.hurry(line, at.at)
    }
}
