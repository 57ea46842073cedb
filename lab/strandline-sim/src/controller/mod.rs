//! Memory controllers: for each channel a read and a write queue in front of its banks.
//!
//! Reads are scheduled when they arrive, and precede every write that has not begun. Writes begin when their bank is idle. When the queue reaches its
//! high watermark, the channel switches to writing: the oldest writes, down to the low watermark, take their banks before any later read. So every
//! write reaches memory in the end. A write keeps its place until it is on the medium. A write to the same line joins one that has not begun, and the
//! queue answers reads of lines that it holds. With [`WritePolicy::Drained`] writes begin only in drains, or if a core or a scheme waits for them
//! (`drain.rs`).
//!
//! Time is lazy: a channel catches up with [`Channel::advance`] when a request arrives or its state is needed.

mod drain;
mod memory;

pub use memory::{MemorySide, NOT_HELD, Regions, Running, Wait};

use std::collections::VecDeque;

use crate::description::{Controllers, WritePolicy};
use crate::host::prefetch;
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::nvm::Banks;
use crate::statistics::ChannelStatistics;

/// The eight words of a 64-byte line.
pub type Line = [u64; 8];

const NONE: u16 = u16::MAX;
/// The time of a write that has not begun.
const NOT_BEGUN: Cycle = Cycle::NEVER;

/// When a write arrives at its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The cycle in which it reaches the controller.
    pub at: Cycle,
    /// The write takes its place, but does not begin on the medium before this time.
    pub earliest: Cycle,
}

impl From<Cycle> for Arrival {
    fn from(at: Cycle) -> Self {
        Self { at, earliest: Cycle::ZERO }
    }
}

/// How far the newest write of a line has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No write is held: everything written to the line is on the medium.
    Durable,
    /// It will be on the medium at this time.
    Until(Cycle),
    /// It has not begun, and nothing changes before this time.
    Waiting(Cycle),
}

/// A write that a channel holds.
#[derive(Clone)]
struct Held {
    /// The line's number in memory: its address / 64.
    line: LineNumber,
    /// The channel's own number of the line.
    local: u64,
    /// A bit for each word that is written.
    mask: u8,
    data: Line,
    arrival: Cycle,
    /// The write does not begin before this time.
    earliest: Cycle,
    /// When a persistence domain that includes the queue has its words.
    visible: Cycle,
    /// The words before other writes joined, and since when the domain had them.
    older: Vec<(Cycle, Line, u8)>,
    /// When the write is on the medium.
    done: Cycle,
    /// A bit for each core that waits for it.
    waiters: u64,
    /// True if it begins without a drain because a core or a scheme waits for it.
    wanted: bool,
    sequence: u64,
    /// The next write of the same bank.
    next: u16,
}

impl Held {
    /// Joins a write of the words in `mask` that arrives at `at` and must not begin before `earliest`. Returns when it was accepted, and which of
    /// `waiters` already waited for this one.
    fn join(&mut self, (data, mask): (&Line, u8), waiters: u64, at: Cycle, earliest: Cycle) -> (Cycle, u64) {
        // The joining words are not there before they arrive, and the earlier words remain.
        self.older.push((self.visible, self.data, self.mask));
        self.visible = self.visible.max(at).max(earliest);
        merge(&mut self.data, data, mask);
        self.mask |= mask;
        self.earliest = self.earliest.max(earliest);
        let already = self.waiters & waiters;
        self.waiters |= waiters;
        (at.max(self.arrival), already)
    }
}

#[derive(Clone, Copy)]
struct BankQueue {
    first: u16,
    last: u16,
    /// The number of its writes that are [wanted](Held::wanted).
    wanted: u16,
}

/// A write that has been given a time on the medium, for the cores that wait.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// A bit for each core that waits.
    pub waiters: u64,
    /// When it will be on the medium.
    pub done: Cycle,
}

/// A channel of a controller: its queues, its banks and its bus.
#[derive(Clone)]
pub struct Channel {
    banks: Banks,
    read_queue: usize,
    write_queue: usize,
    high: usize,
    low: usize,
    policy: WritePolicy,
    /// Until this time the channel only drains.
    drained: Cycle,
    match_latency: u64,
    /// When each read slot becomes free, the earliest first.
    reads: VecDeque<Cycle>,
    held: Vec<Held>,
    free: Vec<u16>,
    queues: Vec<BankQueue>,
    /// The number of writes that have not begun.
    waiting: usize,
    /// The slots of writes that have begun, in the order in which they began.
    in_flight: Vec<u16>,
    /// Nothing happens before this time.
    next: Cycle,
    now: Cycle,
    sequence: u64,
    begun: Vec<Begun>,
    /// When writes were accepted and complete, if recorded.
    times: Option<Vec<Cycle>>,
    /// Its counts.
    pub statistics: ChannelStatistics,
}

/// The medium's words, and for each line the slot that holds its newest write.
pub struct Medium {
    /// The words, pool first.
    pub words: Vec<u64>,
    /// For each line the slot of its channel that holds its newest write, or [`NOT_HELD`].
    pub held: Vec<u16>,
}

impl Medium {
    /// Returns the words of a line.
    pub fn line(&self, line: LineNumber) -> Line {
        let first = line.first_word();
        std::array::from_fn(|i| self.words[first + i])
    }

    /// Makes the host fetch the words of a line, which may be in two of its own lines.
    fn prefetch(&self, line: LineNumber) {
        let first = line.first_word();
        prefetch(&self.words, first);
        prefetch(&self.words, first + 7);
    }

    fn apply(&mut self, line: LineNumber, data: &Line, mask: u8) {
        let words = &mut self.words[line.words()];
        merge(words, data, mask);
    }
}

fn merge(words: &mut [u64], data: &Line, mask: u8) {
    for (i, word) in words.iter_mut().enumerate() {
        if mask >> i & 1 == 1 {
            *word = data[i];
        }
    }
}

impl Channel {
    /// Creates a channel with empty queues.
    pub fn new(name: String, controllers: &Controllers, banks: Banks) -> Self {
        Self {
            read_queue: controllers.read_queue,
            write_queue: controllers.write_queue,
            high: controllers.high_watermark,
            low: controllers.low_watermark,
            policy: controllers.write_policy,
            drained: Cycle::ZERO,
            match_latency: controllers.match_latency,
            reads: vec![Cycle::ZERO; controllers.read_queue].into(),
            held: Vec::with_capacity(controllers.write_queue + 64),
            free: Vec::new(),
            queues: vec![BankQueue { first: NONE, last: NONE, wanted: 0 }; banks.count()],
            banks,
            waiting: 0,
            in_flight: Vec::with_capacity(controllers.write_queue + 64),
            next: Cycle::NEVER,
            now: Cycle::ZERO,
            sequence: 0,
            begun: Vec::new(),
            times: None,
            statistics: ChannelStatistics { name, ..Default::default() },
        }
    }

    /// Returns how many writes it holds, including those on their way to the medium.
    pub fn held(&self) -> usize {
        self.waiting + self.in_flight.len()
    }

    /// Returns the time that it has caught up with.
    pub fn now(&self) -> Cycle {
        self.now
    }

    /// Returns when a write can begin or end next; nothing happens before.
    pub fn next_event(&self) -> Cycle {
        self.next
    }

    /// Records from now on when writes are accepted, and when they are on the medium.
    pub fn record_times(&mut self) {
        self.times = Some(Vec::new());
    }

    /// Takes the recorded times.
    pub fn take_times(&mut self) -> Vec<Cycle> {
        self.times.take().unwrap_or_default()
    }

    /// Takes the writes that have begun since the last call.
    pub fn take_begun(&mut self) -> std::vec::Drain<'_, Begun> {
        self.begun.drain(..)
    }

    /// Catches up with time `to`: writes begin in banks that are idle before it, and end.
    pub fn advance(&mut self, to: Cycle, medium: &mut Medium) {
        self.now = self.now.max(to);
        if self.next < to {
            self.catch_up(to, medium);
        }
    }

    fn catch_up(&mut self, to: Cycle, medium: &mut Medium) {
        for bank in 0..self.queues.len() {
            while let Some(begin) = self.will_begin(bank) {
                if begin >= to {
                    break;
                }
                self.begin(bank, begin);
            }
        }
        self.end(to, medium);
        self.find_next();
    }

    /// Returns when the first waiting write of `bank` could begin if no read came.
    fn could_begin(&self, bank: usize) -> Option<Cycle> {
        let first = self.queues[bank].first;
        let write = self.held.get(usize::from(first))?;
        Some(self.banks.write_ready(write.local).max(write.arrival).max(write.earliest))
    }

    /// Returns when the first waiting write of `bank` begins without a drain if no read comes.
    fn will_begin(&self, bank: usize) -> Option<Cycle> {
        match self.policy == WritePolicy::IdleBanks || self.queues[bank].wanted > 0 {
            true => self.could_begin(bank),
            false => None,
        }
    }

    fn begin(&mut self, bank: usize, at: Cycle) {
        let queue = &mut self.queues[bank];
        let slot = queue.first;
        let write = &mut self.held[usize::from(slot)];
        queue.first = write.next;
        queue.wanted -= u16::from(write.wanted);
        if write.next == NONE {
            queue.last = NONE;
        }
        write.done = self.banks.write(write.local, at);
        if let Some(times) = &mut self.times {
            times.push(write.done);
        }
        if write.waiters != 0 {
            self.begun.push(Begun { waiters: write.waiters, done: write.done });
        }
        self.waiting -= 1;
        self.in_flight.push(slot);
    }

    /// Puts writes that are complete before `to` on the medium.
    fn end(&mut self, to: Cycle, medium: &mut Medium) {
        let mut at = 0;
        while at < self.in_flight.len() {
            let slot = self.in_flight[at];
            let write = &self.held[usize::from(slot)];
            if write.done >= to {
                at += 1;
                continue;
            }
            medium.apply(write.line, &write.data, write.mask);
            if medium.held[write.line] == slot {
                medium.held[write.line] = NOT_HELD;
            }
            self.free.push(slot);
            // Keeps the order, since two writes of a line must reach the medium in order.
            self.in_flight.remove(at);
        }
    }

    fn find_next(&mut self) {
        let begins = (0..self.queues.len()).filter_map(|bank| self.will_begin(bank));
        let ends = self.in_flight.iter().map(|&slot| self.held[usize::from(slot)].done);
        self.next = begins.chain(ends).min().unwrap_or(Cycle::NEVER);
    }

    /// Switches to writing: the oldest waiting writes take their banks, down to the low watermark.
    fn drain(&mut self, at: Cycle) {
        self.statistics.drains += 1;
        if self.policy == WritePolicy::Drained {
            return self.drain_exclusively(at);
        }
        while self.waiting > self.low {
            let oldest = (0..self.queues.len())
                .filter(|&bank| self.queues[bank].first != NONE)
                .min_by_key(|&bank| self.held[usize::from(self.queues[bank].first)].sequence);
            let Some(bank) = oldest else { break };
            let begin = self.could_begin(bank).unwrap_or(at).max(at);
            self.begin(bank, begin);
        }
    }

    /// Reads `line`, number `local` of this channel, at `at`. Returns when its words are available, and the words.
    pub fn read(&mut self, line: LineNumber, local: u64, at: Cycle, medium: &mut Medium) -> (Cycle, Line) {
        let at = at + self.match_latency;
        self.advance(at, medium);
        self.statistics.reads += 1;
        let slot = medium.held[line];
        let mut data = medium.line(line);
        if slot != NOT_HELD {
            let write = &self.held[usize::from(slot)];
            merge(&mut data, &write.data, write.mask);
            if write.mask == 0xff {
                self.statistics.forwarded += 1;
                return (at, data);
            }
        }
        debug_assert_eq!(self.reads.len(), self.read_queue);
        self.write_to_open_row(local, at);
        let later = |reads: &VecDeque<Cycle>, than| reads.iter().rev().take_while(|&&end| end > than).count();
        self.statistics.read_occupancy.add(later(&self.reads, at) as u64);
        let begin = at.max(self.reads.pop_front().unwrap_or(Cycle::ZERO)).max(self.drained);
        let done = self.banks.read(local, begin);
        self.reads.insert(self.reads.len() - later(&self.reads, done), done);
        self.statistics.read_cycles += done - at + self.match_latency;
        (done, data)
    }

    /// Stores `write` in a free slot. Returns the slot's number.
    fn hold(&mut self, write: Held) -> u16 {
        match self.free.pop() {
            Some(slot) => {
                self.held[usize::from(slot)] = write;
                slot
            }
            None => {
                self.held.push(write);
                (self.held.len() - 1) as u16
            }
        }
    }

    /// Appends the write in `slot` to those that wait for `bank`.
    fn enqueue(&mut self, bank: usize, slot: u16) {
        let queue = &mut self.queues[bank];
        match queue.last {
            NONE => queue.first = slot,
            last => self.held[usize::from(last)].next = slot,
        }
        self.queues[bank].last = slot;
    }

    /// Accepts a write of the words in `mask` of `line`, which arrives at `at`. Returns when it was accepted. The cores in `waiters` are notified
    /// when it begins ([`Channel::take_begun`]); those that already waited for the write that it joins are returned.
    pub fn write(
        &mut self,
        (line, local): (LineNumber, u64),
        (data, mask): (&Line, u8),
        waiters: u64,
        arrival: impl Into<Arrival>,
        medium: &mut Medium,
    ) -> (Cycle, u64) {
        let arrival = arrival.into();
        let at = arrival.at + self.match_latency;
        self.advance(at, medium);
        self.statistics.writes += 1;
        self.statistics.write_occupancy.add(self.held() as u64);
        // These words will be written to the medium.
        medium.prefetch(line);
        let older = medium.held[line];
        let (mut data, mut mask) = (*data, mask);
        if older != NOT_HELD {
            let write = &mut self.held[usize::from(older)];
            if write.done == NOT_BEGUN {
                self.statistics.coalesced += 1;
                let joined = write.join((&data, mask), waiters, at, arrival.earliest);
                if let Some(times) = &mut self.times {
                    times.push(write.visible);
                }
                if waiters != 0 {
                    self.want(older, local);
                }
                return joined;
            }
            // The newer write includes the words of the one in progress, so that it holds everything that is not on the medium.
            let mut whole = write.data;
            merge(&mut whole, &data, mask);
            data = whole;
            mask |= write.mask;
        }
        let after_drain = at.max(self.drained);
        let mut accepted = after_drain;
        let over = (self.places_taken() + 1).saturating_sub(self.write_queue);
        if over > 0 {
            accepted = self.room(over, after_drain);
        }
        if over > 0 || accepted > at {
            self.statistics.write_queue_full += 1;
            self.statistics.write_queue_full_cycles += accepted - at;
        }
        let write = Held {
            line,
            local,
            mask,
            data,
            arrival: accepted,
            earliest: arrival.earliest,
            visible: accepted.max(arrival.earliest),
            older: Vec::new(),
            done: NOT_BEGUN,
            waiters,
            wanted: false,
            sequence: self.sequence,
            next: NONE,
        };
        if let Some(times) = &mut self.times {
            times.push(write.visible);
        }
        self.sequence += 1;
        let slot = self.hold(write);
        medium.held[line] = slot;
        let bank = self.banks.bank_of(local);
        self.enqueue(bank, slot);
        self.waiting += 1;
        if waiters != 0 {
            self.want(slot, local);
        }
        if self.waiting >= self.high {
            self.drain(after_drain);
            self.find_next();
        } else {
            let begin = self.will_begin(bank).unwrap_or(Cycle::NEVER);
            self.next = self.next.min(begin);
        }
        (accepted, 0)
    }

    /// Returns when enough places are free for a write beyond the queue's `over`-th. Writes above the high watermark have begun, so their ends are
    /// known.
    fn room(&mut self, over: usize, at: Cycle) -> Cycle {
        while self.in_flight.len() < over && self.waiting > 0 {
            let bank = (0..self.queues.len()).find(|&bank| self.queues[bank].first != NONE);
            let Some(bank) = bank else { break };
            let begin = self.could_begin(bank).unwrap_or(at).max(at);
            self.begin(bank, begin);
        }
        let ends = self.in_flight.iter().map(|&slot| self.held[usize::from(slot)].done);
        if over == 1 {
            return ends.min().unwrap_or(at).max(at);
        }
        let mut ends: Vec<Cycle> = ends.collect();
        if ends.len() < over {
            return at;
        }
        (*ends.select_nth_unstable(over - 1).1).max(at)
    }

    /// Returns when the held write of `line` was accepted; 0 if none is held.
    pub fn accepted(&self, line: LineNumber, medium: &Medium) -> Cycle {
        match medium.held[line] {
            NOT_HELD => Cycle::ZERO,
            slot => self.held[usize::from(slot)].visible,
        }
    }

    /// Returns how far the newest write of `line` has progressed, at `now` or later. The caller is assumed to wait for it.
    pub fn progress(&mut self, line: LineNumber, medium: &Medium) -> Progress {
        match medium.held[line] {
            NOT_HELD => Progress::Durable,
            slot => match self.held[usize::from(slot)].done {
                NOT_BEGUN => {
                    self.want(slot, self.held[usize::from(slot)].local);
                    Progress::Waiting(self.next)
                }
                done => Progress::Until(done),
            },
        }
    }

    /// Gives the held write of `line`, if any, and those before it in its bank their times on the medium now, before any later read. Returns when the
    /// write is complete.
    pub fn hurry(&mut self, line: LineNumber, local: u64, at: Cycle, medium: &Medium) -> Cycle {
        let slot = medium.held[line];
        if slot == NOT_HELD {
            return at;
        }
        let bank = self.banks.bank_of(local);
        while self.held[usize::from(slot)].done == NOT_BEGUN {
            let begin = self.could_begin(bank).unwrap_or(at).max(at);
            self.begin(bank, begin);
        }
        self.find_next();
        self.held[usize::from(slot)].done.max(at)
    }

    /// Makes the cores in `waiters` wait for the held write of `line`, if any. Returns two things: the waiters that are new, if the write has not
    /// begun; and the time when it ends, if it is in progress.
    pub fn wait_for(&mut self, line: LineNumber, waiters: u64, medium: &Medium) -> (u64, Cycle) {
        match medium.held[line] {
            NOT_HELD => (0, Cycle::ZERO),
            slot => {
                let write = &mut self.held[usize::from(slot)];
                if write.done != NOT_BEGUN {
                    return (0, write.done);
                }
                let new = waiters & !write.waiters;
                write.waiters |= waiters;
                let local = write.local;
                self.want(slot, local);
                (new, Cycle::ZERO)
            }
        }
    }

    /// Makes core `core` wait for every write held. Returns for how many it newly waits, and when those in progress end.
    pub fn wait_for_all(&mut self, core: CoreId) -> (u32, Cycle) {
        let mut new = 0;
        for bank in 0..self.queues.len() {
            let mut slot = self.queues[bank].first;
            while slot != NONE {
                let write = &mut self.held[usize::from(slot)];
                new += u32::from(write.waiters & core.bit() == 0);
                write.waiters |= core.bit();
                let (local, next) = (write.local, write.next);
                self.want(slot, local);
                slot = next;
            }
        }
        let ends = self.in_flight.iter().map(|&slot| self.held[usize::from(slot)].done);
        (new, ends.max().unwrap_or(Cycle::ZERO))
    }

    /// Returns the newest words of a line that the queue or the medium has.
    pub fn newest(&self, line: LineNumber, medium: &Medium) -> Line {
        let mut data = medium.line(line);
        if medium.held[line] != NOT_HELD {
            let write = &self.held[usize::from(medium.held[line])];
            merge(&mut data, &write.data, write.mask);
        }
        data
    }

    /// Returns the writes held at `at`, oldest first: line, words and mask. With `None`, also those that have not arrived yet.
    pub fn contents(&self, at: Option<Cycle>) -> Vec<(LineNumber, Line, u8)> {
        let waiting = self.queues.iter().flat_map(|queue| {
            std::iter::successors((queue.first != NONE).then_some(queue.first), |&slot| {
                let next = self.held[usize::from(slot)].next;
                (next != NONE).then_some(next)
            })
        });
        let mut slots: Vec<u16> = self.in_flight.iter().copied().chain(waiting).collect();
        slots.sort_by_key(|&slot| self.held[usize::from(slot)].sequence);
        let there = |slot: u16| {
            let write = &self.held[usize::from(slot)];
            if at.is_none_or(|at| write.visible <= at) {
                return Some((write.line, write.data, write.mask));
            }
            let older = write.older.iter().rev().find(|older| at.is_some_and(|at| older.0 <= at));
            older.map(|&(_, data, mask)| (write.line, data, mask))
        };
        slots.into_iter().filter_map(there).collect()
    }

    /// Returns its counts, including those of its banks.
    pub fn all_statistics(&self) -> ChannelStatistics {
        ChannelStatistics { banks: self.banks.statistics(), ..self.statistics.clone() }
    }

    /// Sets all counts to zero: the region of interest begins.
    pub fn reset_statistics(&mut self) {
        self.statistics =
            ChannelStatistics { name: std::mem::take(&mut self.statistics.name), ..Default::default() };
        self.banks.reset_statistics();
    }
}
