//! Power failures during recovery: what the recovery has stored and written back, and what may have survived.

use strandline_core::memory::Operation;

use super::CrashMemory;
use super::open_line::{OpenLine, certain, push_new, push_newest};

/// The stores and write-backs of a recovery, so that power may fail in it. The rules are those of x86 persistency for one thread, where a write-back
/// covers all earlier stores to its line.
pub(super) struct Recorder {
    /// The stores to each line (word in the line, value), and how many of them are durable.
    lines: Vec<RecordedLine>,
    /// For each line of the pool one more than the index of its recorded line.
    index: Box<[u32]>,
    /// Recorded lines that the next fence makes durable, with the number of their stores.
    asked: Vec<(u32, usize)>,
    /// Words that were open and that recovery has decided since it began.
    pub decided: Vec<(u32, u64)>,
    /// The possible crashes in this run: all, or those whose numbers are wanted; and how many there were.
    crashes: Vec<RecoveryCrash>,
    wanted: Option<Vec<u32>>,
    count: u32,
    /// The operations, for reports.
    pub operations: Vec<Operation>,
}

struct RecordedLine {
    line: u32,
    stores: Vec<(u8, u64)>,
    durable: usize,
}

/// A power failure during a recovery: what may have survived, as far as it differs from the contents before recovery.
pub(crate) struct RecoveryCrash {
    /// The contents of lines that are not open.
    pub(super) certain: Vec<(u32, [u64; 8])>,
    pub(super) open: Vec<OpenLine>,
    /// Words that recovery stored.
    pub(super) stored: Vec<u32>,
    /// The future value of [`CrashMemory::fingerprint`].
    pub fingerprint: u64,
    /// The number of recovery's operations before it.
    pub operations: usize,
}

impl Recorder {
    pub fn new(lines: usize) -> Self {
        Self {
            lines: Vec::new(),
            index: vec![0; lines].into(),
            asked: Vec::new(),
            decided: Vec::new(),
            crashes: Vec::new(),
            wanted: None,
            count: 0,
            operations: Vec::new(),
        }
    }

    fn clear(&mut self) {
        for line in self.lines.drain(..) {
            self.index[line.line as usize] = 0;
        }
        self.asked.clear();
        self.decided.clear();
        self.crashes.clear();
        (self.wanted, self.count) = (None, 0);
        self.operations.clear();
    }

    pub fn store(&mut self, index: usize, value: u64) {
        let slot = &mut self.index[index / 8];
        if *slot == 0 {
            self.lines.push(RecordedLine {
                line: index as u32 / 8,
                stores: Vec::with_capacity(8),
                durable: 0,
            });
            *slot = self.lines.len() as u32;
        }
        self.lines[*slot as usize - 1].stores.push(((index % 8) as u8, value));
    }

    fn write_back(&mut self, line: usize) {
        let slot = self.index[line];
        if slot != 0 {
            self.asked.push((slot - 1, self.lines[slot as usize - 1].stores.len()));
        }
    }

    /// Returns whether a fence would make something durable.
    fn fence_matters(&self) -> bool {
        self.asked.iter().any(|&(line, upto)| self.lines[line as usize].durable < upto)
    }

    fn fence(&mut self) {
        for (line, upto) in self.asked.drain(..) {
            let line = &mut self.lines[line as usize];
            line.durable = line.durable.max(upto);
        }
    }
}

/// The stores of a recovery to a line, and the number of those that are durable.
struct Stores<'a> {
    line: u32,
    all: &'a [(u8, u64)],
    durable: usize,
}

impl Stores<'_> {
    /// Returns the line's possible contents if words survive independently: its first state, and all of them if it has several. Before the stores the
    /// line was `open`, with the decisions `decided`, or else held `before`.
    fn over_words(
        &self,
        open: Option<&OpenLine>,
        before: &[u64; 8],
        decided: &[(u32, u64)],
    ) -> ([u64; 8], Option<OpenLine>) {
        let open = open.and_then(OpenLine::words);
        let mut words = open.unwrap_or_else(|| before.map(|value| vec![value]));
        for &(word, value) in decided.iter().filter(|one| one.0 / 8 == self.line) {
            words[word as usize % 8] = vec![value];
        }
        for (number, &(word, value)) in self.all.iter().enumerate() {
            let word = &mut words[usize::from(word)];
            if number < self.durable {
                word.clear();
            }
            push_newest(word, value);
        }
        let now = OpenLine::of_words(self.line, &words);
        (words.map(|word| word[0]), now)
    }

    /// Like [`Stores::over_words`], if the stores to a line survive in order.
    fn over_lines(&self, open: Option<&OpenLine>, before: [u64; 8]) -> ([u64; 8], Option<OpenLine>) {
        let mut states = open.and_then(OpenLine::alive).unwrap_or_else(|| vec![before]);
        let overlay = |states: &mut Vec<[u64; 8]>, (word, value): (u8, u64)| {
            states.iter_mut().for_each(|state| state[usize::from(word)] = value);
        };
        let (durable, pending) = self.all.split_at(self.durable);
        durable.iter().for_each(|&store| overlay(&mut states, store));
        let mut all = states.clone();
        for &store in pending {
            overlay(&mut states, store);
            all.extend_from_slice(&states);
        }
        let mut distinct = Vec::with_capacity(all.len());
        if all.len() <= 64 {
            all.into_iter().for_each(|state| push_newest(&mut distinct, state));
        } else {
            // Duplicates in the list would do no harm.
            all.into_iter().for_each(|state| push_new(&mut distinct, state));
        }
        (distinct[0], OpenLine::of_lines(self.line, distinct))
    }
}

impl CrashMemory {
    /// Records this run from now on, so that power may fail in it.
    pub(crate) fn record(&self) {
        self.decide_one_by_one();
        self.recorder.borrow_mut().clear();
        self.recording.set(true);
    }

    /// Records this run, but keeps only the crashes with these numbers. A number above the last crash stands for the last crash.
    pub(crate) fn record_some(&self, wanted: Vec<u32>) {
        self.record();
        self.recorder.borrow_mut().wanted = Some(wanted);
    }

    /// Ends the recovery, which is one more crash. Returns the recorded crashes.
    pub(crate) fn recorded(&self) -> Vec<RecoveryCrash> {
        let count = self.crashes_counted();
        if let Some(wanted) = &mut self.recorder.borrow_mut().wanted {
            wanted.iter_mut().for_each(|wanted| *wanted = (*wanted).min(count));
        }
        self.crash_here();
        self.recording.set(false);
        std::mem::take(&mut self.recorder.borrow_mut().crashes)
    }

    /// Returns at how many points power might have failed in the last recorded recovery.
    pub(crate) fn crashes_counted(&self) -> u32 {
        self.recorder.borrow().count
    }

    /// Returns the recorded operations, for reports.
    pub(crate) fn recorded_operations(&self) -> Vec<Operation> {
        self.recorder.borrow().operations.clone()
    }

    /// Adds a crash here. A crash that the search has visited before is left out: it follows the same decisions, and later decisions do not affect
    /// it.
    pub(super) fn crash_here(&self) {
        if self.path.borrow().was_here() {
            return;
        }
        let mut recorder = self.recorder.borrow_mut();
        recorder.count += 1;
        let number = recorder.count - 1;
        if recorder.wanted.as_ref().is_some_and(|wanted| !wanted.contains(&number)) {
            return;
        }
        let mut crash = RecoveryCrash {
            certain: Vec::new(),
            open: Vec::new(),
            stored: Vec::new(),
            fingerprint: self.fingerprint.get(),
            operations: recorder.operations.len(),
        };
        let lines = self.lines.borrow();
        for line in &recorder.lines {
            self.settle(&mut crash, &recorder, line.line, Some(line));
        }
        for line in lines.iter().filter(|line| recorder.index[line.line as usize] == 0) {
            self.settle(&mut crash, &recorder, line.line, None);
        }
        recorder.crashes.push(crash);
    }

    /// Adds to `crash` the possible contents of `line`, to which recovery has made the stores `recorded`.
    fn settle(
        &self,
        crash: &mut RecoveryCrash,
        recorder: &Recorder,
        line: u32,
        recorded: Option<&RecordedLine>,
    ) {
        let first = 8 * line as usize;
        let before: [u64; 8] = std::array::from_fn(|i| self.base[first + i].get());
        let lines = self.lines.borrow();
        let open = self.line_index[line as usize].get().checked_sub(1).map(|at| &lines[at as usize]);
        let (stores, durable) = recorded.map_or((&[][..], 0), |line| (&line.stores[..], line.durable));
        let durable = if self.flush_on_fail.get() { stores.len() } else { durable };
        let data = self.data.contains(&first);
        crash.stored.extend(stores.iter().filter(|_| data).map(|&(word, _)| first as u32 + u32::from(word)));
        // The line's old part of the fingerprint is removed, and the new one added.
        let reference = self.reference.borrow();
        let reference = &reference[first..first + 8];
        let mut change = match open {
            Some(open) => open.fingerprint().wrapping_neg(),
            None => certain(line, &before, reference).wrapping_neg(),
        };
        let stores = Stores { line, all: stores, durable };
        let (single, now) = match self.per_word.get() {
            true => stores.over_words(open, &before, &recorder.decided),
            false => stores.over_lines(open, before),
        };
        match now {
            Some(open) => {
                change = change.wrapping_add(open.fingerprint());
                crash.open.push(open);
            }
            None => {
                change = change.wrapping_add(certain(line, &single, reference));
            }
        }
        crash.certain.push((line, single));
        crash.fingerprint = crash.fingerprint.wrapping_add(change);
    }

    /// Notes an operation of recovery, for reports.
    pub(super) fn note(&self, operation: Operation) {
        if self.recording.get() {
            self.recorder.borrow_mut().operations.push(operation);
        }
    }

    pub(super) fn write_back(&self, offset: u64) {
        if self.recording.get() {
            self.recorder.borrow_mut().write_back((offset / 64) as usize);
        }
    }

    /// Completes all write-backs. Power may fail just before.
    pub(super) fn complete(&self) {
        if self.recording.get() {
            if self.recorder.borrow().fence_matters() {
                self.crash_here();
            }
            self.recorder.borrow_mut().fence();
        }
    }
}
