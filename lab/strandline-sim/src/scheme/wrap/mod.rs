//! WrAP, write-aside persistence in hardware (Giles, Doshi, Varman: *Bridging the Programming Gap Between Persistent and Volatile Memory Using WrAP*,
//! 2013, sections 3 and 4.1).
//!
//! A transaction's stores go into the caches as usual, and additionally as log records past the caches into the bucket of its *wrap*. Lines that the
//! caches evict too early stay in the *victim persistence cache*. Only COPY writes home locations, from the buckets of closed wraps, in closing
//! order.
//!
//! | part | file |
//! |---|---|
//! | wraps, their boundaries, the paths of stores, reads and evictions | this one |
//! | the layout of buckets and the Log, and the channel of log records | `log.rs` |
//! | the victim persistence cache, and which wraps keep a line from going home | `victims.rs` |
//! | COPY | `copy.rs` |
//! | RESTORE | `restore.rs` |
//!
//! # The protocol
//!
//! *Open*: a token and a bucket. *Wrapped store*: the record joins the log buffer, and the store continues. *Close*: the remaining records are
//! written and become durable. Then an entry with the next number is appended to the Log, a ring of one-word entries. When it and all earlier ones
//! are durable, the wrap is acknowledged. *Abort*: the bucket is free again; the software has restored the old values.
//!
//! *Eviction*: a line to which a wrap has stored that is open, or closed and not copied, goes into the victim cache. Any other line is dropped, since
//! home has what COPY wrote. So a line evicted after its COPY, a case that the paper does not mention, leaves nothing behind, and a store outside any
//! wrap never reaches protected memory.
//!
//! *Miss*: searches the victim cache first, in the time of DRAM. If a line could not be kept because the victim cache was full, the machine is in the
//! degraded mode: a miss searches the log records first.
//!
//! *COPY*: reads the bucket, writes the words home, and drops victims that no other wrap needs. When the home writes of all wraps of its turn are
//! durable, it moves the Log's head; when that is durable, the buckets are free.
//!
//! # Overlapping wraps
//!
//! The paper leaves them for future work. Each has its own bucket; entries are numbered in closing order, and a wrap is acknowledged when all entries
//! before its own are durable too, since RESTORE stops at the first missing entry. The victim cache keeps lines, but isolation may be by words, so a
//! line stays until *no* wrap that stored to it remains to be copied. If only one wrap at a time stores to a line, this is the paper's rule that the
//! copying wrap was the last writer.

mod copy;
mod log;
mod restore;
mod victims;

use std::collections::{BTreeMap, VecDeque};

use self::copy::Copy;
use self::log::{Area, Buffered, LogChannel, RecordKey};
use self::victims::Victims;
use super::{
    Boundary, Entry, HardwareScheme, MemoryPort, Mutant, Parameter, Reply, Setup, StoredWord, WayHome,
    exhausted, named,
};
use crate::cache::Hierarchy;
use crate::controller::{Line, MemorySide};
use crate::numbers::{CoreId, Cycle, LineNumber};
use crate::statistics::{Origin, Region};

/// The properties of a variant of WrAP's hardware.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    /// True if four log records in a line are written together; otherwise each is a write of its own, as the paper simulates it.
    combined: bool,
    /// True if a closing wrap also waits until its victims are home, as the paper simulates it.
    flushes_victims: bool,
    /// The number of lines that the victim cache has.
    victim_lines: usize,
    /// COPY is invoked when so many wraps are closed, or when half of the buckets or of the victim cache are used.
    copy_after: usize,
    /// The number of log writes that the buffer holds, including those in flight to memory.
    log_buffer: usize,
    /// Bytes for Log and buckets, for each core.
    log_bytes: u64,
}

const SINGLE: Variant = Variant {
    name: "wrap",
    combined: false,
    flushes_victims: false,
    victim_lines: 1024,
    copy_after: 2,
    log_buffer: usize::MAX,
    log_bytes: 256 << 10,
};
const COMBINED: Variant = Variant { name: "wrap-combined", combined: true, ..SINGLE };
const EVALUATED: Variant = Variant {
    name: "wrap-evaluated",
    flushes_victims: true,
    victim_lines: 1 << 16,
    copy_after: usize::MAX,
    log_bytes: 8 << 20,
    ..SINGLE
};

const BUFFER_OF_ONE: Variant = Variant { name: "wrap-buffer-of-one", log_buffer: 1, ..EVALUATED };

const VICTIM_LINES: Parameter = Parameter {
    name: "victim_lines",
    unit: "lines",
    range: 1..=1 << 20,
    default: SINGLE.victim_lines as u64,
    description: "what the victim persistence cache holds; COPY begins at half of it",
};
const COPY_AFTER: Parameter = Parameter {
    name: "copy_after",
    unit: "closed wraps",
    range: 1..=4096,
    default: SINGLE.copy_after as u64,
    description: "COPY begins when so many wraps wait for it",
};
const LOG_BYTES: Parameter = Parameter {
    name: "log_bytes",
    unit: "bytes",
    range: 1 << 16..=1 << 26,
    default: SINGLE.log_bytes,
    description: "what each core has in memory for the log and its buckets",
};
const EVALUATED_VICTIM_LINES: Parameter =
    Parameter { default: EVALUATED.victim_lines as u64, ..VICTIM_LINES };
const EVALUATED_LOG_BYTES: Parameter = Parameter { default: EVALUATED.log_bytes, ..LOG_BYTES };

impl Variant {
    /// Applies the parameters of the machine's description.
    fn on(self, machine: &crate::Description) -> Self {
        let said = |parameter: &Parameter, value: usize| {
            machine.scheme.get(parameter.name).map_or(value, |&said| said as usize)
        };
        Self {
            victim_lines: said(&VICTIM_LINES, self.victim_lines),
            copy_after: said(&COPY_AFTER, self.copy_after),
            log_bytes: said(&LOG_BYTES, self.log_bytes as usize) as u64,
            ..self
        }
    }
}

const SOURCE: &str = "Giles, Doshi, Varman: WrAP";

/// The mutants of all variants.
const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "record-fence",
        rule: "a closing wrap waits for its log records before it enters the Log",
        redundant: None,
    },
    Mutant { name: "entry-fence", rule: "a closing wrap waits for its entry in the Log", redundant: None },
    Mutant {
        name: "victim-cache",
        rule: "evicted lines of wraps that are not copied do not go home",
        redundant: None,
    },
    Mutant {
        name: "victim-last-writer",
        rule: "COPY deletes a victim only if no later wrap has written it",
        redundant: None,
    },
    Mutant {
        name: "victim-value-equality",
        rule: "and not because home has the same value now (the paper's alternative)",
        redundant: None,
    },
    Mutant { name: "copy-order", rule: "COPY takes wraps in closing order", redundant: None },
    Mutant {
        name: "head-fence",
        rule: "the Log's head moves when the home writes are durable",
        redundant: None,
    },
    Mutant {
        name: "bucket-fence",
        rule: "buckets are used again when the Log's head is durable",
        redundant: None,
    },
    Mutant {
        name: "stale-entries",
        rule: "RESTORE clears the places behind the first entry that is missing",
        redundant: None,
    },
    Mutant { name: "restore", rule: "RESTORE redoes the wraps in the Log", redundant: None },
];

/// WrAP as in section 3: log records singly, COPY in the background.
pub const WRAP: Entry = Entry {
    name: SINGLE.name,
    source: SOURCE,
    description: "redo records past the caches, victim persistence cache, COPY in closing order",
    make: Some(|setup| Ok(Box::new(Wrap::new(setup, SINGLE)))),
    recover: |setup, pool, reserved| restore::restore(setup, &SINGLE, pool, reserved),
    software: &["hardware+single-writer", "hardware+locks"],
    is_durable: true,
    parameters: &[VICTIM_LINES, COPY_AFTER, LOG_BYTES],
    mutants: MUTANTS,
};
/// WrAP with log records combined by line.
pub const WRAP_COMBINED: Entry = Entry {
    name: COMBINED.name,
    description: "wrap with log records combined by line",
    make: Some(|setup| Ok(Box::new(Wrap::new(setup, COMBINED)))),
    recover: |setup, pool, reserved| restore::restore(setup, &COMBINED, pool, reserved),
    ..WRAP
};
/// As the paper's evaluation simulates it.
pub const WRAP_EVALUATED: Entry = Entry {
    name: EVALUATED.name,
    description: "wrap as section 4.1 simulates it: closing waits for the victims, no COPY while there is room",
    make: Some(|setup| Ok(Box::new(Wrap::new(setup, EVALUATED)))),
    recover: |setup, pool, reserved| restore::restore(setup, &EVALUATED, pool, reserved),
    software: &["hardware+single-writer"],
    parameters: &[EVALUATED_VICTIM_LINES, EVALUATED_LOG_BYTES],
    mutants: &[],
    ..WRAP
};
/// WrAP with the store buffer of one that the paper's closed forms assume.
pub const WRAP_BUFFER_OF_ONE: Entry = Entry {
    name: BUFFER_OF_ONE.name,
    description: "wrap-evaluated with a log buffer of one write, as the closed forms of section 4.2 assume",
    make: Some(|setup| Ok(Box::new(Wrap::new(setup, BUFFER_OF_ONE)))),
    recover: |setup, pool, reserved| restore::restore(setup, &BUFFER_OF_ONE, pool, reserved),
    software: &["hardware+single-writer"],
    parameters: &[EVALUATED_VICTIM_LINES, EVALUATED_LOG_BYTES],
    mutants: &[],
    ..WRAP
};

/// The rules that hold.
#[derive(Clone, Copy, Debug)]
struct Rules {
    record_fence: bool,
    entry_fence: bool,
    victim_cache: bool,
    last_writer: bool,
    not_value_equality: bool,
    copy_order: bool,
    head_fence: bool,
    bucket_fence: bool,
}

/// A wrap that is open or waits to be copied.
#[derive(Debug)]
struct OneWrap {
    token: u64,
    buckets: Vec<u32>,
    /// Its stores, oldest first.
    records: Vec<RecordKey>,
    /// Its number in the Log, once it is closed.
    number: u64,
    /// The line of its entry.
    entry: LineNumber,
    is_durable: bool,
    /// The words that it stored to, by line, with their last values.
    words: BTreeMap<LineNumber, (Line, u8)>,
}

/// How far closing a wrap has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    Not,
    Records,
    Entry(u64),
    Victims,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    wraps: u64,
    aborted: u64,
    records: u64,
    log_writes: u64,
    log_buffer_largest: u64,
    victim_lines_largest: u64,
    victim_hits: u64,
    victim_overflows: u64,
    log_searches: u64,
    victims_flushed: u64,
    stores_outside: u64,
    copied_wraps: u64,
    copied_lines: u64,
    copy_log_reads: u64,
    close_cycles: u64,
}

/// WrAP's hardware.
struct Wrap {
    variant: Variant,
    rules: Rules,
    area: Area,
    channel: LogChannel,
    victims: Victims,
    copy: Copy,
    /// The cycles of a look-up in the victim cache, which is in DRAM.
    victim_latency: u64,
    next_token: u64,
    /// The next number in the Log.
    tail: u64,
    /// Numbers below this are durably copied.
    head: u64,
    /// True if the area has been read.
    started: bool,
    /// The open wrap of each core.
    open: Vec<Option<OneWrap>>,
    closing: Vec<(Closing, Cycle)>,
    closed: VecDeque<OneWrap>,
    counts: Counts,
}

impl Wrap {
    fn new(setup: &Setup<'_>, variant: Variant) -> Self {
        let machine = setup.machine;
        let variant = variant.on(machine);
        let dram = machine.dram.as_ref().unwrap_or(&machine.nvm);
        let cores = machine.cores.count;
        let banks = machine.nvm.banks * machine.controllers.channels * machine.controllers.count;
        let rule = |mutant| !setup.omits(mutant);
        Self {
            rules: Rules {
                record_fence: rule("record-fence"),
                entry_fence: rule("entry-fence"),
                victim_cache: rule("victim-cache"),
                last_writer: rule("victim-last-writer"),
                not_value_equality: rule("victim-value-equality"),
                copy_order: rule("copy-order"),
                head_fence: rule("head-fence"),
                bucket_fence: rule("bucket-fence"),
            },
            area: Area::new(variant.log_bytes * cores as u64),
            channel: LogChannel::new(banks.min(machine.controllers.low_watermark.max(1))),
            victims: Victims::new(variant.victim_lines),
            copy: Copy::default(),
            victim_latency: machine.cycles(dram.read_ns),
            next_token: 1,
            tail: 0,
            head: 0,
            started: false,
            open: (0..cores).map(|_| None).collect(),
            closing: vec![(Closing::Not, Cycle::ZERO); cores],
            closed: VecDeque::new(),
            counts: Counts::default(),
            variant,
        }
    }

    /// Returns whether only wraps may change the line.
    fn is_protected(memory: &MemorySide, line: LineNumber) -> bool {
        memory.region(line) == Region::Data
    }

    fn start(&mut self, memory: &MemorySide) {
        if !self.started {
            self.started = true;
            self.area.base = memory.pool_end();
            self.head = memory.peek(self.area.base.first_word());
            self.tail = self.head;
        }
    }

    /// Invokes COPY if necessary.
    fn invoke_copy(&mut self, now: Cycle) {
        let due = self.closed.len() >= self.variant.copy_after
            || self.area.free.len() < self.area.buckets / 2
            || self.closed.len() as u64 > self.area.entries / 2
            || self.victims.len() > self.variant.victim_lines / 2
            || self.victims.is_degraded();
        if due && !self.closed.is_empty() {
            self.copy.invoke(now);
        }
    }

    /// Makes COPY free room. Returns when to try again.
    fn wait_for_copy(&mut self, now: Cycle) -> Reply {
        if self.closed.is_empty() && self.copy.next() == Cycle::NEVER {
            exhausted(format!(
                "open wraps fill all {} buckets of the log area; make transactions smaller",
                self.area.buckets
            ));
        }
        self.copy.invoke(now);
        Reply::Wait(self.copy.next().max(now + 1))
    }

    fn close(&mut self, caches: &mut Hierarchy, core: CoreId, now: Cycle) -> Reply {
        let memory = &mut caches.memory;
        if self.closing[core].0 == Closing::Not {
            let stored = self.open[core].as_ref().filter(|wrap| !wrap.records.is_empty());
            let Some(token) = stored.map(|wrap| wrap.token) else {
                let wrap = self.open[core].take();
                self.discard(wrap);
                return Reply::Go(now);
            };
            self.channel.flush_partial(token);
            self.closing[core] = (Closing::Records, now);
        }
        if self.closing[core].0 == Closing::Records {
            let token = self.open[core].as_ref().map_or(0, |wrap| wrap.token);
            self.channel.pump(memory, now, &mut self.counts);
            if self.rules.record_fence
                && let Some(until) = self.channel.outstanding(token, now)
            {
                return Reply::Wait(until);
            }
            if self.tail - self.head >= self.area.entries {
                return self.wait_for_copy(now);
            }
            self.channel.forget_durable(now);
            let Some(wrap) = &mut self.open[core] else { return Reply::Go(now) };
            let (line, data, mask) = self.area.entry(self.tail, wrap.buckets[0], wrap.records.len() as u64);
            wrap.number = self.tail;
            wrap.entry = line;
            memory.write(line, &data, mask, now, Origin::Scheme, None);
            self.tail += 1;
            self.closing[core].0 = Closing::Entry(wrap.number);
            let closed = self.open[core].take();
            self.closed.extend(closed);
        }
        if let Closing::Entry(number) = self.closing[core].0 {
            if self.rules.entry_fence
                && let Some(until) = self.entries_durable(&mut caches.memory, number, now)
            {
                return Reply::Wait(until);
            }
            self.closing[core].0 = Closing::Victims;
            if self.variant.flushes_victims {
                self.flush_victims(&mut caches.memory, number, now);
            }
        }
        if let Some(until) = self.copy.unsettled(&mut caches.memory, now) {
            return Reply::Wait(until);
        }
        self.counts.wraps += 1;
        self.counts.close_cycles += now - self.closing[core].1;
        self.closing[core] = (Closing::Not, Cycle::ZERO);
        self.invoke_copy(now);
        Reply::Go(now)
    }

    /// Returns when to check again whether the Log's entries up to `number` are durable; `None` if they are.
    fn entries_durable(&mut self, memory: &mut MemorySide, number: u64, now: Cycle) -> Option<Cycle> {
        let mut until = None;
        for wrap in self.closed.iter_mut().filter(|wrap| wrap.number <= number && !wrap.is_durable) {
            match memory.durable_at(wrap.entry, now) {
                None => wrap.is_durable = true,
                Some(at) => until = until.max(Some(at)),
            }
        }
        until
    }

    /// Writes the words of wrap `number` that are in the victim cache home, as in the paper's evaluation.
    fn flush_victims(&mut self, memory: &mut MemorySide, number: u64, now: Cycle) {
        let Some(wrap) = self.closed.iter().find(|wrap| wrap.number == number) else { return };
        for (&line, (data, mask)) in wrap.words.iter().filter(|(line, _)| self.victims.get(**line).is_some())
        {
            memory.write(line, data, *mask, now, Origin::Scheme, None);
            self.copy.flushed.push(line);
            self.counts.victims_flushed += 1;
        }
    }

    /// Discards a wrap, which ends without effect.
    fn discard(&mut self, wrap: Option<OneWrap>) {
        let Some(wrap) = wrap else { return };
        self.channel.forget(wrap.token);
        for &line in wrap.words.keys() {
            self.victims.release(line, wrap.token, true);
        }
        self.area.release(&wrap.buckets);
    }
}

impl MemoryPort for Wrap {
    fn read(&mut self, memory: &mut MemorySide, line: LineNumber, now: Cycle) -> Option<(Cycle, Line)> {
        if !Self::is_protected(memory, line) {
            return None;
        }
        if let Some(data) = self.victims.get(line) {
            self.counts.victim_hits += 1;
            return Some((now + self.victim_latency, data));
        }
        if !self.victims.is_degraded() {
            return None;
        }
        self.counts.log_searches += 1;
        // The wrap that is being copied is the oldest.
        let wraps = || self.copy.wrap.iter().chain(&self.closed).chain(self.open.iter().flatten());
        let mut at = now;
        for wrap in wraps() {
            for log_line in self.area.lines_of(wrap, self.variant.combined) {
                at = memory.read(log_line, at).0;
            }
        }
        let (at, mut data) = memory.read(line, at);
        for record in wraps().flat_map(|wrap| &wrap.records).filter(|record| record.line == line) {
            data[usize::from(record.word)] = record.value;
        }
        Some((at, data))
    }

    fn way_home(&mut self, memory: &mut MemorySide, line: LineNumber, data: &Line, now: Cycle) -> WayHome {
        if !Self::is_protected(memory, line) || !self.rules.victim_cache {
            return WayHome::Home(now);
        }
        if self.victims.is_held(line) {
            self.counts.victim_overflows += u64::from(!self.victims.keep(line, data));
            self.counts.victim_lines_largest =
                self.counts.victim_lines_largest.max(self.victims.len() as u64);
            self.invoke_copy(now);
        }
        WayHome::Taken(now)
    }
}

impl HardwareScheme for Wrap {
    fn name(&self) -> &'static str {
        self.variant.name
    }

    fn reserved_bytes(&self) -> u64 {
        self.variant.log_bytes * self.open.len() as u64
    }

    fn boundary(&mut self, caches: &mut Hierarchy, core: CoreId, boundary: Boundary, now: Cycle) -> Reply {
        self.start(&caches.memory);
        match boundary {
            Boundary::Begin => {
                let Some(bucket) = self.area.free.pop_front() else { return self.wait_for_copy(now) };
                let token = self.next_token;
                self.next_token += 1;
                self.open[core] = Some(OneWrap {
                    token,
                    buckets: vec![bucket],
                    records: Vec::new(),
                    number: u64::MAX,
                    entry: LineNumber::default(),
                    is_durable: false,
                    words: BTreeMap::new(),
                });
                Reply::Go(now)
            }
            Boundary::Commit(_) => self.close(caches, core, now),
            Boundary::Abort => {
                let wrap = self.open[core].take();
                self.counts.aborted += u64::from(wrap.is_some());
                self.discard(wrap);
                Reply::Go(now)
            }
            // A closed wrap is already durable.
            Boundary::Flush => Reply::Go(now),
        }
    }

    fn store(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        stored: StoredWord,
        _: usize,
        now: Cycle,
    ) -> Reply {
        if !Self::is_protected(&caches.memory, stored.line) {
            return Reply::Go(now);
        }
        let Some(wrap) = &mut self.open[core] else {
            self.counts.stores_outside += 1;
            return Reply::Go(now);
        };
        if self.channel.len() >= self.variant.log_buffer {
            self.channel.pump(&mut caches.memory, now, &mut self.counts);
            if self.channel.len() >= self.variant.log_buffer {
                return Reply::Wait(self.channel.next().max(now + 1));
            }
        }
        let place = wrap.records.len() as u64;
        let per_bucket = log::records_per_bucket(self.variant.combined);
        if place > 0 && place.is_multiple_of(per_bucket) {
            let Some(bucket) = self.area.free.pop_front() else { return self.wait_for_copy(now) };
            let last = wrap.buckets[wrap.buckets.len() - 1];
            let (line, data, mask) = self.area.link(last, bucket);
            self.channel.push(Buffered { line, data, mask, token: wrap.token });
            wrap.buckets.push(bucket);
        }
        let record = RecordKey { line: stored.line, word: stored.word, value: stored.value };
        let bucket = wrap.buckets[wrap.buckets.len() - 1];
        self.channel.record(
            &self.area,
            self.variant.combined,
            bucket,
            place % per_bucket,
            wrap.token,
            record,
        );
        wrap.records.push(record);
        let (data, mask) = wrap.words.entry(stored.line).or_insert_with(|| {
            self.victims.hold(stored.line, wrap.token);
            ([0; 8], 0)
        });
        data[usize::from(stored.word)] = stored.value;
        *mask |= 1 << stored.word;
        self.counts.records += 1;
        self.channel.pump(&mut caches.memory, now, &mut self.counts);
        Reply::Go(now)
    }

    fn next_event(&self) -> Cycle {
        self.channel.next().min(self.copy.next())
    }

    fn act(&mut self, caches: &mut Hierarchy, now: Cycle) {
        if self.channel.next() <= now {
            self.channel.pump(&mut caches.memory, now, &mut self.counts);
        }
        if self.copy.next() <= now {
            self.act_copy(&mut caches.memory, now);
        }
    }

    fn copy(&self, line: LineNumber) -> Option<Line> {
        self.victims.get(line).or_else(|| self.victims.lost(line))
    }

    fn unreached(&self) -> Vec<String> {
        let copies = self.variant.copy_after != usize::MAX;
        let idle = copies && self.counts.copied_wraps == 0;
        idle.then(|| "COPY brought no wrap home".into()).into_iter().collect()
    }

    fn statistics(&self) -> Vec<(String, u64)> {
        let counts = &self.counts;
        named([
            ("wraps", counts.wraps),
            ("wraps aborted", counts.aborted),
            ("log records", counts.records),
            ("log writes", counts.log_writes),
            ("largest log buffer", counts.log_buffer_largest),
            ("largest victim cache, lines", counts.victim_lines_largest),
            ("victim cache hits", counts.victim_hits),
            ("victim cache overflows", counts.victim_overflows),
            ("searches of the log", counts.log_searches),
            ("victims flushed by closing", counts.victims_flushed),
            ("stores outside wraps", counts.stores_outside),
            ("wraps copied", counts.copied_wraps),
            ("lines copied", counts.copied_lines),
            ("log lines read by COPY", counts.copy_log_reads),
            ("cycles of closing", counts.close_cycles),
        ])
    }

    fn reset_statistics(&mut self) {
        self.counts = Counts::default();
    }
}
