//! The layout of the Log and the buckets in the reserved memory, and the asynchronous channel of log records.
//!
//! ```text
//! line 0        word 0: the Log's head, the number of the first wrap that is not copied
//! lines 1..     the Log: a ring of words, the entry of wrap number n at n mod entries:
//!               lap (20 bits) | records (28) | bucket (16); the lap, counted from 1, tells it from its predecessors
//! then          buckets of 64 lines: word 0 of the first is the next bucket of the same wrap; the others hold
//!               records: one to a line (singly) or four (combined), each the address and the value of a word
//! ```

use std::collections::{BTreeMap, VecDeque};

use super::{Counts, OneWrap};
use crate::controller::{Line, MemorySide};
use crate::numbers::{Cycle, LineNumber};
use crate::statistics::Origin;

/// Lines of a bucket.
pub const BUCKET_LINES: u64 = 64;

/// A store in its record's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordKey {
    /// The line's number in memory: its address / 64.
    pub line: LineNumber,
    /// Number of the word in it.
    pub word: u8,
    /// The word's new value.
    pub value: u64,
}

/// Returns how many records a line has.
pub fn records_per_line(combined: bool) -> u64 {
    if combined { 4 } else { 1 }
}

/// Returns how many records a bucket has.
pub fn records_per_bucket(combined: bool) -> u64 {
    (BUCKET_LINES - 1) * records_per_line(combined)
}

/// Decodes the first `count` records in a log line.
pub fn decode(data: &[u64], count: u64) -> impl Iterator<Item = RecordKey> {
    data.chunks(2).take(count as usize).map(|pair| RecordKey {
        line: LineNumber::new((pair[0] / 8) as u32),
        word: (pair[0] % 8) as u8,
        value: pair[1],
    })
}

/// The layout of Log and buckets in the memory reserved for the hardware.
#[derive(Debug)]
pub struct Area {
    /// The first line.
    pub base: LineNumber,
    /// The number of entries that the Log has.
    pub entries: u64,
    /// The number of buckets.
    pub buckets: usize,
    /// The free buckets, in the order in which they will be used.
    pub free: VecDeque<u32>,
}

impl Area {
    /// Creates a free area of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        let lines = bytes / 64;
        // There is an entry for each bucket, since a wrap has at least one bucket.
        let entries = (lines / BUCKET_LINES).next_power_of_two();
        let first = (1 + entries / 8).next_multiple_of(BUCKET_LINES);
        let buckets = ((lines - first) / BUCKET_LINES) as usize;
        Self { base: LineNumber::default(), entries, buckets, free: (0..buckets as u32).collect() }
    }

    /// Frees these buckets, which will be used next.
    pub fn release(&mut self, buckets: &[u32]) {
        buckets.iter().for_each(|&bucket| self.free.push_front(bucket));
    }

    fn bucket_line(&self, bucket: u32) -> u64 {
        (1 + self.entries / 8).next_multiple_of(BUCKET_LINES) + u64::from(bucket) * BUCKET_LINES
    }

    /// Returns the line, relative to the area, of record number `place` of a bucket, and the record's first word in it.
    fn record(&self, combined: bool, bucket: u32, place: u64) -> (u64, usize) {
        let per_line = records_per_line(combined);
        (self.bucket_line(bucket) + 1 + place / per_line, 2 * (place % per_line) as usize)
    }

    /// Returns the Log's word for wrap `number`, which has `records` records from `bucket` on.
    fn entry_word(&self, number: u64, bucket: u32, records: u64) -> u64 {
        (number / self.entries + 1) << 44 | records << 16 | u64::from(bucket)
    }

    /// Decodes the bucket and the number of records in the entry of wrap `number`; `None` if `word` is not its entry.
    pub fn decode_entry(&self, number: u64, word: u64) -> Option<(u32, u64)> {
        let is_this = word >> 44 == (number / self.entries + 1) & ((1 << 20) - 1);
        is_this.then_some(((word & 0xffff) as u32, word >> 16 & ((1 << 28) - 1)))
    }

    /// Returns the index of the entry of wrap `number`: a word, relative to the area.
    pub fn entry_place(&self, number: u64) -> u64 {
        8 + number % self.entries
    }

    /// Returns the write that appends an entry.
    pub fn entry(&self, number: u64, bucket: u32, records: u64) -> (LineNumber, Line, u8) {
        let place = self.entry_place(number);
        let mut data = [0; 8];
        data[(place % 8) as usize] = self.entry_word(number, bucket, records);
        (self.base + (place / 8) as u32, data, 1 << (place % 8))
    }

    /// Returns the write that links `next` after `bucket`.
    pub fn link(&self, bucket: u32, next: u32) -> (LineNumber, Line, u8) {
        (self.base + self.bucket_line(bucket) as u32, [u64::from(next) + 1, 0, 0, 0, 0, 0, 0, 0], 1)
    }

    /// Returns the words of bucket `bucket`, relative to the area.
    pub fn bucket_words(&self, bucket: u32) -> std::ops::Range<usize> {
        let first = 8 * self.bucket_line(bucket) as usize;
        first..first + 8 * BUCKET_LINES as usize
    }

    /// Returns the lines that hold a wrap's records, with the number of records in each.
    pub fn record_lines(&self, buckets: &[u32], records: u64, combined: bool) -> Vec<(LineNumber, u64)> {
        let (per_line, per_bucket) = (records_per_line(combined), records_per_bucket(combined));
        (0..records)
            .step_by(per_line as usize)
            .map(|at| {
                let bucket = buckets[(at / per_bucket) as usize];
                let line = self.base + self.record(combined, bucket, at % per_bucket).0 as u32;
                (line, per_line.min(records - at))
            })
            .collect()
    }

    /// Returns the lines that a search of a wrap's records reads.
    pub fn lines_of(&self, wrap: &OneWrap, combined: bool) -> impl Iterator<Item = LineNumber> + use<> {
        self.record_lines(&wrap.buckets, wrap.records.len() as u64, combined)
            .into_iter()
            .map(|(line, _)| line)
    }
}

/// A log write in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffered {
    /// The line of the log that is written.
    pub line: LineNumber,
    /// The line's words.
    pub data: Line,
    /// A bit for each word that is written.
    pub mask: u8,
    /// The token of the wrap that it belongs to.
    pub token: u64,
}

/// The log buffer and the writes that have left it. The controller prefers all other accesses: it gets a record only while fewer records are in
/// flight than there are banks, and the record waits there for an idle bank.
#[derive(Debug)]
pub struct LogChannel {
    buffer: VecDeque<Buffered>,
    /// Partially filled lines, by wrap.
    partial: BTreeMap<u64, Buffered>,
    /// Writes that were handed over: line and wrap.
    in_flight: Vec<(LineNumber, u64)>,
    /// When all other writes of a wrap are durable; a core may look ahead of another core's time.
    durable: BTreeMap<u64, Cycle>,
    limit: usize,
    next: Cycle,
}

impl LogChannel {
    /// Creates an empty channel with at most `limit` writes in flight.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: VecDeque::new(),
            partial: BTreeMap::new(),
            in_flight: Vec::new(),
            durable: BTreeMap::new(),
            limit,
            next: Cycle::NEVER,
        }
    }

    /// Returns when it has something to do.
    pub fn next(&self) -> Cycle {
        self.next
    }

    /// Returns how many writes it holds, including those in flight.
    pub fn len(&self) -> usize {
        self.buffer.len() + self.in_flight.len()
    }

    /// Appends a write to the buffer.
    pub fn push(&mut self, write: Buffered) {
        self.buffer.push_back(write);
    }

    /// Adds record number `place` of a bucket: immediately, or together with the others of its line.
    pub fn record(
        &mut self,
        area: &Area,
        combined: bool,
        bucket: u32,
        place: u64,
        token: u64,
        record: RecordKey,
    ) {
        let (line, word) = area.record(combined, bucket, place);
        let line = area.base + line as u32;
        let partial = self.partial.entry(token).or_insert(Buffered { line, data: [0; 8], mask: 0, token });
        partial.line = line;
        partial.data[word] = record.line.first_word() as u64 + u64::from(record.word);
        partial.data[word + 1] = record.value;
        partial.mask |= 0b11 << word;
        if word + 2 == 2 * records_per_line(combined) as usize {
            self.flush_partial(token);
        }
    }

    /// Sends a partially filled line.
    pub fn flush_partial(&mut self, token: u64) {
        self.buffer.extend(self.partial.remove(&token));
    }

    /// Removes the writes of a wrap that have not been handed over.
    pub fn forget(&mut self, token: u64) {
        self.partial.remove(&token);
        self.buffer.retain(|write| write.token != token);
    }

    /// Returns when to check again whether all writes of the wrap are durable; `None` if they are by `now`.
    pub fn outstanding(&self, token: u64, now: Cycle) -> Option<Cycle> {
        let is_held = self.buffer.iter().any(|write| write.token == token)
            || self.in_flight.iter().any(|&(_, owner)| owner == token);
        if is_held {
            return Some(self.next.max(now + 1));
        }
        self.durable.get(&token).copied().filter(|&at| at > now)
    }

    /// Forgets the times of writes that are durable by `now`.
    pub fn forget_durable(&mut self, now: Cycle) {
        self.durable.retain(|_, by| *by > now);
    }

    /// Catches up with `now`.
    pub fn pump(&mut self, memory: &mut MemorySide, now: Cycle, counts: &mut Counts) {
        let occupied = self.len() as u64;
        counts.log_buffer_largest = counts.log_buffer_largest.max(occupied);
        loop {
            let mut next = Cycle::NEVER;
            self.in_flight.retain(|&(line, token)| match memory.durable_at(line, now) {
                None => {
                    let by = self.durable.entry(token).or_default();
                    *by = now.max(*by);
                    false
                }
                Some(at) => {
                    next = next.min(at);
                    true
                }
            });
            self.next = next;
            if self.in_flight.len() >= self.limit {
                break;
            }
            let Some(write) = self.buffer.pop_front() else { break };
            memory.write(write.line, &write.data, write.mask, now, Origin::Scheme, None);
            counts.log_writes += 1;
            self.in_flight.push((write.line, write.token));
        }
    }
}
