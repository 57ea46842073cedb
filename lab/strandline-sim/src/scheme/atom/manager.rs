//! LogM, the log manager in a memory controller (section IV-C).
//!
//! An entry's old value is written to its record immediately; its address waits in the structure's header register. The header is written after the
//! seventh entry, or as soon as one of its lines is about to go home. When the header and all its values are durable, the current-record register
//! counts the record, the header register is free, and its lines are no longer locked. Until then a further entry of this structure waits, since
//! there is only one header register.

use crate::controller::{Line, MemorySide};
use crate::numbers::{Cycle, LineNumber};
use crate::scheme::exhausted;
use crate::statistics::Origin;

use super::record::{
    Critical, Current, ENTRIES, Header, Parameters, RECORD_LINES, encode_grant, grant_place, life,
};

/// The counts of a log manager.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub entries: u64,
    pub records: u64,
    /// Headers that were written before their record was full, because a line was on its way home.
    pub forced: u64,
    /// Lines that waited for a record on their way home.
    pub locked: u64,
    /// Pages that the OS has granted.
    pub grants: u64,
}

/// An atomic update structure.
#[derive(Clone)]
struct Structure {
    /// The bucket bit vector.
    buckets: Vec<usize>,
    /// The current bucket and record registers: the valid records of the current bucket.
    current: Option<(usize, u64)>,
    header: Header,
    /// True if the header was written and is not known to be durable.
    closing: bool,
    /// True if the update has ended and other controllers are being informed.
    ended: bool,
}

/// The log manager of one controller.
pub struct Manager {
    controller: usize,
    parameters: Parameters,
    structures: Vec<Structure>,
    /// Buckets that no structure owns.
    free: Vec<bool>,
    /// The granted pages of each bucket.
    pages: Vec<Vec<u64>>,
    granted: u64,
    /// Words of the table of grants.
    table: Vec<Line>,
    sequence: u64,
    pub counts: Counts,
}

impl Manager {
    /// Creates the log behind `controller`, with all buckets free.
    pub fn new(controller: usize, parameters: Parameters) -> Self {
        let structure = Structure {
            buckets: Vec::new(),
            current: None,
            header: Header::default(),
            closing: false,
            ended: false,
        };
        Self {
            controller,
            parameters,
            structures: vec![structure; parameters.structures],
            free: vec![true; parameters.buckets],
            pages: vec![Vec::new(); parameters.buckets],
            granted: 0,
            table: vec![[0; 8]; parameters.grants.div_ceil(8) as usize],
            sequence: 0,
            counts: Counts::default(),
        }
    }

    /// Returns line `index` of the record that `structure` writes.
    fn line(&self, memory: &MemorySide, structure: usize, index: u64) -> LineNumber {
        let (bucket, record) = self.structures[structure].current.expect("an entry has a bucket");
        let first = self.parameters.record_line(bucket, &self.pages[bucket], record);
        memory.reserved_line(self.controller, first + index)
    }

    /// Counts the record that `structure` has closed if it is durable at `now`. If not, returns when to try again.
    pub fn settle(&mut self, memory: &mut MemorySide, structure: usize, now: Cycle) -> Result<(), Cycle> {
        if self.structures[structure].closing {
            self.durable(memory, structure, now)?;
            self.finish(structure);
        }
        Ok(())
    }

    /// Checks that all lines of the record that `structure` has closed are durable at `now`. If not, returns when to try again.
    fn durable(&self, memory: &mut MemorySide, structure: usize, now: Cycle) -> Result<(), Cycle> {
        for index in 0..=self.structures[structure].header.count as u64 {
            let line = self.line(memory, structure, index);
            if let Some(again) = memory.durable_at(line, now) {
                return Err(again);
            }
        }
        Ok(())
    }

    /// Counts the closed record.
    fn finish(&mut self, structure: usize) {
        let structure = &mut self.structures[structure];
        structure.closing = false;
        structure.header = Header::default();
        if let Some((_, record)) = &mut structure.current {
            *record += 1;
        }
    }

    /// Logs the old value of `line` for `structure` at `now`. Returns when it was accepted.
    ///
    /// # Errors
    /// Returns when to try again, if the header register is not free or the OS has to grant a page.
    pub fn log(
        &mut self,
        memory: &mut MemorySide,
        structure: usize,
        line: LineNumber,
        old: &Line,
        now: Cycle,
    ) -> Result<Cycle, Cycle> {
        self.settle(memory, structure, now)?;
        self.find_record(memory, structure, now)?;
        let header = &mut self.structures[structure].header;
        header.lines[header.count] = line;
        header.count += 1;
        let count = header.count;
        self.counts.entries += 1;
        let place = self.line(memory, structure, count as u64);
        let accepted = memory.write(place, old, 0xff, now, Origin::Scheme, None);
        if count == ENTRIES {
            self.close(memory, structure, accepted);
        }
        Ok(accepted)
    }

    /// Writes the header of the record that `structure` is filling.
    pub fn close(&mut self, memory: &mut MemorySide, structure: usize, now: Cycle) {
        self.sequence += 1;
        self.counts.records += 1;
        self.structures[structure].closing = true;
        let header = self.structures[structure].header.encode(structure, self.sequence);
        let place = self.line(memory, structure, 0);
        memory.write(place, &header, 0xff, now, Origin::Scheme, None);
    }

    /// Closes the record that `structure` is filling, if any, and counts it immediately.
    pub fn finish_unsettled(&mut self, structure: usize) {
        if self.structures[structure].closing {
            self.finish(structure);
        }
    }

    /// Gives `structure` a record to fill. If the OS has to grant a page, returns when it will have done so.
    fn find_record(&mut self, memory: &mut MemorySide, structure: usize, now: Cycle) -> Result<(), Cycle> {
        if let Some((bucket, record)) = self.structures[structure].current
            && record < self.parameters.capacity(self.pages[bucket].len())
        {
            return Ok(());
        }
        // Every structure without a bucket can always get one, so that no structure waits for another's end.
        let without = self.structures.iter().filter(|other| other.buckets.is_empty()).count();
        let free = self.free.iter().filter(|free| **free).count();
        let first = self.structures[structure].buckets.is_empty();
        if first || free > without {
            let bucket = self.free.iter().position(|free| *free).expect("more buckets than structures");
            self.free[bucket] = false;
            let structure = &mut self.structures[structure];
            structure.buckets.push(bucket);
            structure.current = Some((bucket, 0));
            return Ok(());
        }
        Err(self.grant(memory, structure, now))
    }

    /// Handles a log overflow: the OS grants a page to the current bucket, whose records continue there. Returns from when on.
    fn grant(&mut self, memory: &mut MemorySide, structure: usize, now: Cycle) -> Cycle {
        let (bucket, _) = self.structures[structure].current.expect("it has buckets");
        let page = self.granted;
        if page >= self.parameters.grants {
            exhausted(format!(
                "the log behind memory controller {} is full: updates have filled {} buckets and the {page} pages that the \
                 operating system can grant; make transactions smaller, or let fewer run at a time",
                self.controller, self.parameters.buckets
            ));
        }
        self.granted += 1;
        self.counts.grants += 1;
        self.pages[bucket].push(page);
        let (line, word) = grant_place(page);
        let words = &mut self.table[(page / 8) as usize];
        words[word] = encode_grant(bucket, life(memory, self.parameters));
        let place = memory.reserved_line(self.controller, line);
        memory.write(place, words, 0xff, now, Origin::Scheme, None);
        memory.hurry(place, now) + self.parameters.grant_cycles
    }

    /// Handles a line that is about to go home at `now`. Returns when all records that log it are durable. Unwritten headers are considered only if
    /// `open`; they are written first.
    pub fn unlocked(&mut self, memory: &mut MemorySide, line: LineNumber, now: Cycle, open: bool) -> Cycle {
        let mut until = now;
        for structure in 0..self.structures.len() {
            let state = &self.structures[structure];
            if !state.header.holds(line) || !(open || state.closing) {
                continue;
            }
            if !state.closing {
                self.counts.forced += 1;
                self.close(memory, structure, now);
            }
            for index in 0..=self.structures[structure].header.count as u64 {
                let place = self.line(memory, structure, index);
                until = until.max(memory.hurry(place, now));
            }
            self.counts.locked += 1;
        }
        until
    }

    /// Frees all buckets of `structure` in one cycle (Atomic_End).
    pub fn clear(&mut self, structure: usize) {
        let structure = &mut self.structures[structure];
        for bucket in structure.buckets.drain(..) {
            self.free[bucket] = true;
        }
        structure.current = None;
        structure.header = Header::default();
        structure.closing = false;
        structure.ended = false;
    }

    /// Notes that the update of `structure` has ended, until [`Manager::clear`].
    pub fn end(&mut self, structure: usize) {
        self.structures[structure].ended = true;
    }

    /// Returns the registers that a power failure at `now` saves.
    pub fn critical(&self, memory: &mut MemorySide, now: Cycle) -> Critical {
        let mut taken = [0; 4];
        for bucket in (0..self.free.len()).filter(|&bucket| !self.free[bucket]) {
            taken[bucket / 64] |= 1 << (bucket % 64);
        }
        let current = self.structures.iter().enumerate().map(|(number, state)| {
            // A closed record counts as soon as it is durable.
            let counts = state.closing && self.durable(memory, number, now).is_ok();
            let bucket = state.current.map(|(bucket, records)| (bucket, records + u64::from(counts)));
            Current { bucket, ended: state.ended }
        });
        Critical { taken, current: current.collect() }
    }

    /// Frees all buckets of `structure` in saved registers.
    pub fn clear_saved(&self, saved: &mut Critical, structure: usize) {
        for bucket in &self.structures[structure].buckets {
            saved.taken[bucket / 64] &= !(1 << (bucket % 64));
        }
        saved.current[structure] = Current::default();
    }
}

const _: () = assert!(RECORD_LINES as usize == ENTRIES + 1);
