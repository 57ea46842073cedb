//! The memory side: maps lines to channels, and holds their contents.

use crate::addresses::{Addresses, PAGE_LINES};
use crate::description::{Controllers, Description, FenceKind, LINE_BYTES, Pages, PersistenceDomain};
use crate::host::{list, prefetch};
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::nvm::Banks;
use crate::statistics::{Origin, Region, Traffic};

use super::{Arrival, Channel, Line, Medium, Progress};

/// No channel holds a write of the line.
pub const NOT_HELD: u16 = u16::MAX;

/// The lines of the pool that are logs and metadata; all others are data.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Lines of the logs.
    pub logs: std::ops::Range<LineNumber>,
    /// Lines of header, watermark and directory.
    pub metadata: std::ops::Range<LineNumber>,
}

/// The writes that a core's persists still wait for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// The number of writes that have not begun on the medium.
    pub unresolved: u32,
    /// When everything else is durable.
    pub until: Cycle,
}

/// State of memory besides its words that a simulated power failure changes and that is restored afterwards.
pub struct Running {
    channels: Vec<Channel>,
    held: Vec<u16>,
    waits: Vec<Wait>,
}

/// Channels, media, and the cores that wait for them.
pub struct MemorySide {
    channels: Vec<Channel>,
    medium: Medium,
    /// The number of channels that the pool's memory has; those of the volatile words follow.
    nvm_channels: usize,
    per_controller: usize,
    interleave_shift: u32,
    addresses: Addresses,
    /// The number of bits of a page's number, if pages are scattered.
    page_bits: Option<u32>,
    /// The first reserved line, after the pool's.
    pool_end: LineNumber,
    /// The first volatile line, after the reserved ones.
    persistent_end: LineNumber,
    controllers: Controllers,
    own_dram: bool,
    domain: PersistenceDomain,
    fence: FenceKind,
    regions: Regions,
    match_latency: u64,
    queue_wait: u64,
    /// For each core what its fence or non-temporal store still waits for.
    pub waits: Vec<Wait>,
    /// Lines moved, by cause.
    pub traffic: Traffic,
    /// Bytes that the hardware scheme has written to the reserved lines, that is, to its log.
    pub hardware_log_bytes: u64,
}

/// Returns a line's place if the lines of each page are permuted.
fn turned(line: u64) -> u64 {
    let page = line / PAGE_LINES;
    line ^ (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PAGE_LINES.trailing_zeros()))
}

/// Returns the number of bits of a page's number for so many lines, if pages are scattered.
fn page_bits(controllers: &Controllers, lines: u64) -> Option<u32> {
    let bits = || lines.div_ceil(PAGE_LINES).next_power_of_two().trailing_zeros().max(2);
    (controllers.pages == Pages::Scattered).then(bits)
}

impl MemorySide {
    /// Creates the memory of `machine`: the pool's `persistent` words, then `reserved_bytes` of zeroed ones for a hardware scheme, then zeroed
    /// volatile ones.
    pub fn new(
        machine: &Description,
        persistent: Vec<u64>,
        reserved_bytes: u64,
        volatile_bytes: u64,
        regions: Regions,
    ) -> Self {
        let controllers = &machine.controllers;
        let mut channels = Vec::new();
        let kinds = [Some(&machine.nvm), machine.dram.as_ref()];
        for (device, kind) in kinds.into_iter().zip(["nvm", "dram"]) {
            let Some(device) = device else { continue };
            for controller in 0..controllers.count {
                for channel in 0..controllers.channels {
                    let name = format!("{controller}.{channel} {kind}");
                    channels.push(Channel::new(name, controllers, Banks::new(device, machine)));
                }
            }
        }
        let mut words = persistent;
        words.resize(words.len().next_multiple_of(8), 0);
        let pool_end = LineNumber::new((words.len() / 8) as u32);
        let persistent_end = pool_end + reserved_bytes.div_ceil(LINE_BYTES) as u32;
        let lines = u64::from(persistent_end.number()) + volatile_bytes.div_ceil(LINE_BYTES);
        words.resize(lines as usize * 8, 0);
        Self {
            channels,
            medium: Medium { words, held: list(NOT_HELD, lines as usize) },
            nvm_channels: controllers.count * controllers.channels,
            per_controller: controllers.channels,
            interleave_shift: (controllers.interleave_bytes / LINE_BYTES).trailing_zeros(),
            addresses: Addresses::default(),
            page_bits: page_bits(controllers, lines),
            pool_end,
            persistent_end,
            controllers: controllers.clone(),
            own_dram: machine.dram.is_some(),
            domain: machine.persistence.domain,
            fence: machine.persistence.fence,
            regions,
            match_latency: controllers.match_latency,
            queue_wait: 0,
            waits: vec![Wait::default(); machine.cores.count],
            traffic: Traffic::default(),
            hardware_log_bytes: 0,
        }
    }

    /// Sets the reserved words on the medium, which an earlier life's recovery has left.
    pub fn set_reserved(&mut self, words: &[u64]) {
        let first = self.pool_end.first_word();
        let reserved = &mut self.medium.words[first..self.persistent_end.first_word()];
        let words = &words[..words.len().min(reserved.len())];
        reserved[..words.len()].copy_from_slice(words);
    }

    /// Maps lines to channels, banks and rows by these addresses.
    pub fn set_addresses(&mut self, addresses: &Addresses) {
        self.addresses = addresses.clone();
        if let Some(lines) = addresses.end() {
            self.page_bits = page_bits(&self.controllers, lines);
        }
    }

    /// Returns the address of a line, in units of lines.
    pub fn address(&self, line: LineNumber) -> u64 {
        self.addresses.of(line)
    }

    /// Returns the number of lines of both spaces.
    pub fn lines(&self) -> usize {
        self.medium.held.len()
    }

    /// Returns the first volatile line, after the pool's and the reserved ones.
    pub fn persistent_end(&self) -> LineNumber {
        self.persistent_end
    }

    /// Returns the first reserved line, after the pool's.
    pub fn pool_end(&self) -> LineNumber {
        self.pool_end
    }

    /// Returns how lines are distributed among controllers.
    pub fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// Returns line `index` of those reserved behind `controller`.
    pub fn reserved_line(&self, controller: usize, index: u64) -> LineNumber {
        self.pool_end + self.controllers.reserved_line(controller, index) as u32
    }

    /// Returns the place of a line of the program. Pages may be scattered, and the lines of each page permuted. The latter is what memory controllers
    /// do with an exclusive or, so that the first lines of pages are not all in one bank.
    fn frame(&self, line: LineNumber) -> u64 {
        let line = self.address(line);
        let Some(bits) = self.page_bits else { return line };
        // Each step is invertible within this number of bits.
        let mut page = line / PAGE_LINES;
        page ^= page >> (bits / 2);
        page = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) & ((1 << bits) - 1);
        page ^= page >> (bits / 2);
        turned((page * PAGE_LINES) | (line % PAGE_LINES))
    }

    /// Returns whether a line is one of the hardware scheme's own.
    fn is_reserved(&self, line: LineNumber) -> bool {
        line >= self.pool_end && line < self.persistent_end
    }

    /// Returns the channel of a line, and its number there.
    fn place(&self, line: LineNumber) -> (usize, u64) {
        let shift = self.interleave_shift;
        if self.is_reserved(line) {
            let index = u64::from(line - self.pool_end);
            let (chunk, controllers) = (index >> shift, self.controllers.count as u64);
            let (controller, chunk) = ((chunk % controllers) as usize, chunk / controllers);
            let channel = match self.controllers.log_channel {
                true => self.per_controller - 1,
                false => chunk as usize % self.per_controller,
            };
            let local = (chunk << shift) | (index & ((1 << shift) - 1));
            // Otherwise log records of a few lines, each at a multiple of eight, would all be in the same few banks.
            let local = if self.page_bits.is_some() { turned(local) } else { local };
            return (controller * self.per_controller + channel, self.address(self.pool_end) + local);
        }
        let frame = self.frame(line);
        let (chunk, within) = (frame >> shift, frame & ((1 << shift) - 1));
        if self.controllers.log_channel {
            let each = self.per_controller - 1;
            let channels = (self.controllers.count * each) as u64;
            let (channel, chunk) = ((chunk % channels) as usize, chunk / channels);
            let dram = if self.own_dram && line >= self.persistent_end { self.nvm_channels } else { 0 };
            return (dram + channel / each * self.per_controller + channel % each, chunk << shift | within);
        }
        let channels = self.nvm_channels as u64;
        let channel = (chunk % channels) as usize;
        let local = (chunk / channels) << shift | within;
        let dram = self.own_dram && line >= self.persistent_end;
        (channel + if dram { self.nvm_channels } else { 0 }, local)
    }

    /// Returns the controller of a line.
    pub fn controller(&self, line: LineNumber) -> usize {
        self.place(line).0 % self.nvm_channels / self.per_controller
    }

    /// Returns the part of memory to which a line belongs.
    pub fn region(&self, line: LineNumber) -> Region {
        if line >= self.persistent_end {
            Region::Volatile
        } else if line >= self.pool_end || self.regions.logs.contains(&line) {
            Region::Log
        } else if self.regions.metadata.contains(&line) {
            Region::Metadata
        } else {
            Region::Data
        }
    }

    fn settle(&mut self, channel: usize) {
        for begun in self.channels[channel].take_begun() {
            for core in CoreId::in_set(begun.waiters) {
                let wait = &mut self.waits[core];
                wait.unresolved -= 1;
                wait.until = wait.until.max(begun.done);
            }
        }
    }

    /// Reads a line that arrives at its controller at `at`. Returns when its words are available, and the words.
    pub fn read(&mut self, line: LineNumber, at: Cycle) -> (Cycle, Line) {
        *self.traffic.reads.of(self.region(line)) += 1;
        let (channel, local) = self.place(line);
        let result = self.channels[channel].read(line, local, at, &mut self.medium);
        self.settle(channel);
        result
    }

    /// Writes the words in `mask` of a line that arrives at its controller at `arrival`. Returns when it is accepted. If `core` is given, that core's
    /// next fence waits until the words are durable.
    pub fn write(
        &mut self,
        line: LineNumber,
        data: &Line,
        mask: u8,
        arrival: impl Into<Arrival>,
        origin: Origin,
        core: Option<CoreId>,
    ) -> Cycle {
        let arrival = arrival.into();
        self.traffic.count_write(origin, self.region(line));
        if self.is_reserved(line) {
            self.hardware_log_bytes += 8 * u64::from(mask.count_ones());
        }
        let (channel, local) = self.place(line);
        let waits_for_media = self.domain == PersistenceDomain::Media;
        let waiters = core.filter(|_| waits_for_media).map_or(0, CoreId::bit);
        let arrived = arrival.at + self.match_latency;
        let (accepted, already) =
            self.channels[channel].write((line, local), (data, mask), waiters, arrival, &mut self.medium);
        if let Some(core) = core {
            let wait = &mut self.waits[core];
            if waits_for_media {
                wait.unresolved += u32::from(already == 0);
            } else {
                wait.until = wait.until.max(accepted).max(arrival.earliest);
            }
        }
        self.settle(channel);
        self.queue_wait = accepted - arrived;
        accepted
    }

    /// Returns how far the newest write of a line has progressed towards the persistence domain at `now`.
    pub fn progress(&mut self, line: LineNumber, now: Cycle) -> Progress {
        let (channel, _) = self.place(line);
        self.channels[channel].advance(now, &mut self.medium);
        self.settle(channel);
        if self.domain != PersistenceDomain::Media {
            let accepted = self.channels[channel].accepted(line, &self.medium);
            return if accepted > now { Progress::Until(accepted) } else { Progress::Durable };
        }
        self.channels[channel].progress(line, &self.medium)
    }

    /// Returns when to check again whether the words written to a line are in the persistence domain; `None` if they are by `now`.
    pub fn durable_at(&mut self, line: LineNumber, now: Cycle) -> Option<Cycle> {
        match self.progress(line, now) {
            Progress::Durable => None,
            Progress::Until(at) => (at > now).then_some(at),
            Progress::Waiting(next) => Some(next.max(now) + 1),
        }
    }

    /// Lets the held write of a line, if any, begin as soon as its bank is free, before any later read. Returns when it will be in the persistence
    /// domain.
    pub fn hurry(&mut self, line: LineNumber, at: Cycle) -> Cycle {
        let (channel, local) = self.place(line);
        if self.domain != PersistenceDomain::Media {
            return self.channels[channel].accepted(line, &self.medium).max(at);
        }
        let done = self.channels[channel].hurry(line, local, at, &self.medium);
        self.settle(channel);
        done
    }

    /// Takes the cycles that the last write waited because the queue was full.
    pub fn take_queue_wait(&mut self) -> u64 {
        std::mem::take(&mut self.queue_wait)
    }

    /// Makes `core` wait for the held writes of a line that no cache has modified.
    pub fn wait_for(&mut self, line: LineNumber, core: CoreId, at: Cycle) {
        let (channel, _) = self.place(line);
        if self.domain != PersistenceDomain::Media {
            // A victim may still be on its way to the queue.
            let accepted = self.channels[channel].accepted(line, &self.medium);
            self.waits[core].until = self.waits[core].until.max(at).max(accepted);
            return;
        }
        let (new, until) = self.channels[channel].wait_for(line, core.bit(), &self.medium);
        let wait = &mut self.waits[core];
        wait.unresolved += new.count_ones();
        wait.until = wait.until.max(until);
    }

    /// Makes `core` wait for everything held, if a fence is a pcommit. If caches survive, held writes survive, too.
    pub fn pcommit(&mut self, core: CoreId, at: Cycle) {
        if self.fence == FenceKind::Pcommit && self.domain != PersistenceDomain::FlushOnFail {
            self.wait_for_all(core, at);
        }
    }

    /// Makes `core` wait for everything held: after wbinvd, also for victims that left the caches before it.
    pub fn wait_for_all(&mut self, core: CoreId, at: Cycle) {
        for channel in 0..self.nvm_channels {
            self.channels[channel].advance(at, &mut self.medium);
            self.settle(channel);
            let (new, until) = self.channels[channel].wait_for_all(core);
            self.waits[core].unresolved += new;
            self.waits[core].until = self.waits[core].until.max(until);
        }
    }

    /// Catches up with `to`. Returns when something can happen next, if some core waits for a write to begin.
    pub fn advance(&mut self, to: Cycle) -> Cycle {
        let mut next = Cycle::NEVER;
        for channel in 0..self.channels.len() {
            self.channels[channel].advance(to, &mut self.medium);
            self.settle(channel);
            next = next.min(self.channels[channel].next_event());
        }
        next
    }

    /// Makes the host fetch what is known of a line here.
    pub fn prefetch(&self, line: LineNumber) {
        self.medium.prefetch(line);
        self.prefetch_held(line);
    }

    /// Makes the host fetch which write of a line is held.
    pub fn prefetch_held(&self, line: LineNumber) {
        prefetch(&self.medium.held, line.number() as usize);
    }

    /// Loads a word as the medium holds it, without taking time.
    pub fn peek(&self, word: usize) -> u64 {
        self.medium.words[word]
    }

    /// Returns the newest words of a line that the medium or a queue has.
    pub fn newest(&self, line: LineNumber) -> Line {
        let (channel, _) = self.place(line);
        self.channels[channel].newest(line, &self.medium)
    }

    /// Stores a word without taking time. No cache or queue may hold its line.
    pub fn poke(&mut self, word: usize, value: u64) {
        self.medium.words[word] = value;
    }

    /// Fails the power at `at`, or at the latest time that a channel has caught up with: an access is performed at once with all its latencies, and
    /// what a channel has done by then cannot be undone. Brings all channels to that time. Returns the time, the surviving words of the pool and the
    /// reserved ones without the caches' part, and the state needed to continue as if power had not failed.
    pub fn fail(&mut self, at: Cycle) -> (Cycle, Vec<u64>, Running) {
        let at = self.channels.iter().map(Channel::now).fold(at, Cycle::max);
        let running = Running {
            channels: self.channels.clone(),
            held: self.medium.held.clone(),
            waits: self.waits.clone(),
        };
        let words = self.medium.words.clone();
        let before = std::mem::replace(&mut self.medium.words, words);
        self.advance(at + 1);
        let mut words = std::mem::replace(&mut self.medium.words, before);
        words.truncate(self.persistent_end.first_word());
        if self.domain != PersistenceDomain::Media {
            for channel in &self.channels {
                // Lines that have left a cache and are not accepted yet belong to the caches' domain.
                let at = (self.domain == PersistenceDomain::Adr).then_some(at);
                for (line, data, mask) in channel.contents(at) {
                    if line < self.persistent_end {
                        super::merge(&mut words[line.words()], &data, mask);
                    }
                }
            }
        }
        (at, words, running)
    }

    /// Continues after a [power failure](Self::fail) as if it had not happened.
    pub fn go_on(&mut self, running: Running) {
        let Running { channels, held, waits } = running;
        (self.channels, self.medium.held, self.waits) = (channels, held, waits);
    }

    /// Records from now on when writes are accepted, and when they are on the medium.
    pub fn record_times(&mut self) {
        self.channels.iter_mut().for_each(Channel::record_times);
    }

    /// Takes the recorded times, by channel.
    pub fn take_times(&mut self) -> Vec<Cycle> {
        self.channels.iter_mut().flat_map(Channel::take_times).collect()
    }

    /// Returns how many writes the channels hold.
    pub fn held(&self) -> usize {
        self.channels.iter().map(Channel::held).sum()
    }

    /// Returns the counts of each channel.
    pub fn statistics(&self) -> Vec<crate::statistics::ChannelStatistics> {
        self.channels.iter().map(Channel::all_statistics).collect()
    }

    /// Sets all counts to zero: the region of interest begins.
    pub fn reset_statistics(&mut self) {
        self.channels.iter_mut().for_each(Channel::reset_statistics);
        self.traffic = Traffic::default();
        self.hardware_log_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Different lines stay different, and chunks of the heap at distances of powers of two are not all in one bank.
    #[test]
    fn scattered_pages_are_a_permutation() {
        let mut machine = crate::support::mesh(32);
        machine.controllers.pages = Pages::Scattered;
        let memory = MemorySide::new(&machine, vec![0; 100_000 * 8], 0, 1 << 20, Regions::default());
        let places: HashSet<_> = (0..100_000).map(|line| memory.place(LineNumber::new(line))).collect();
        assert_eq!(places.len(), 100_000);
        let banks = Banks::new(&machine.nvm, &machine);
        let chunks = (0..24u32).map(|chunk| memory.place(LineNumber::new(chunk * 4096)));
        let met: HashSet<_> = chunks.map(|(channel, local)| (channel, banks.bank_of(local))).collect();
        assert!(met.len() > 12, "{} banks of 32", met.len());
    }
}
