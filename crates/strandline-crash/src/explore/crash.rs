//! The memory that a power failure leaves, decided as late as possible.
//!
//! Between the least and the greatest cut of a line (of a word, under `word`) lie several values of a word.
//! Which of them survived is decided when recovery or a judge first loads the word, and each decision narrows
//! the line's cuts, as in the Jaaru model checker. Running recovery again and again, each time with the
//! next choice at the last decision that has one, covers every surviving state that recovery and judge can
//! tell apart, and nothing else.
//!
//! A run begins without copying the pool: only the lines that the last run stored to are restored, and the
//! words that are not decided are marked again.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use fastrand::Rng;
use strandline::memory::{Operation, Space, Step, World};

use super::oracle::Recovered;
use super::trace::{Store, Trace};
use crate::Setting;

/// What may have survived of a line whose contents are not certain.
#[derive(Clone, Debug)]
pub(super) struct OpenLine {
    line: u32,
    /// Words that may have several values.
    differ: u8,
    possible: Possible,
}

/// What a line may hold, the oldest first.
#[derive(Clone, Debug)]
enum Possible {
    /// One of these, as a whole: a cut of the line for each. The bits say which the decisions so far leave.
    Lines(Vec<[u64; 8]>, Box<[Cell<u64>]>),
    /// Each word one of its values, whatever the other words hold: those of word `w` lie from `starts[w]` to
    /// `starts[w + 1]`.
    Words(Vec<u64>, [u32; 9]),
}

impl OpenLine {
    /// The line that may hold any of `states`; `None` if that is just one.
    fn of_lines(line: u32, states: Vec<[u64; 8]>) -> Option<Self> {
        let first = states.first()?;
        let differ = (0..8).filter(|&i| states.iter().any(|state| state[i] != first[i]));
        let differ = differ.fold(0u8, |differ, i| differ | 1 << i);
        let alive = vec![Cell::new(0); states.len().div_ceil(64)].into();
        let line = Self { line, differ, possible: Possible::Lines(states, alive) };
        line.reset();
        (differ != 0).then_some(line)
    }

    /// The line whose words may hold any of these values.
    fn of_words(line: u32, words: &[Vec<u64>; 8]) -> Option<Self> {
        let mut starts = [0; 9];
        let (mut values, mut differ) = (Vec::with_capacity(16), 0u8);
        for (i, word) in words.iter().enumerate() {
            values.extend_from_slice(word);
            starts[i + 1] = values.len() as u32;
            differ |= u8::from(word.len() > 1) << i;
        }
        (differ != 0).then_some(Self { line, differ, possible: Possible::Words(values, starts) })
    }

    /// Nothing is decided.
    fn reset(&self) {
        if let Possible::Lines(states, alive) = &self.possible {
            let mut left = states.len();
            for bits in alive {
                bits.set(if left >= 64 { u64::MAX } else { (1 << left) - 1 });
                left = left.saturating_sub(64);
            }
        }
    }

    /// The values that word `word` may have, the newest last.
    fn values(&self, word: usize, values: &mut Vec<u64>) {
        values.clear();
        match &self.possible {
            Possible::Words(all, starts) => {
                values.extend_from_slice(&all[starts[word] as usize..starts[word + 1] as usize]);
            }
            Possible::Lines(states, alive) => {
                // Where a value comes twice, its newest place counts.
                for (at, state) in states.iter().enumerate().rev() {
                    if alive[at / 64].get() >> (at % 64) & 1 == 1 && !values.contains(&state[word]) {
                        values.push(state[word]);
                    }
                }
                values.reverse();
            }
        }
    }

    /// Word `word` holds `value`.
    fn narrow(&self, word: usize, value: u64) {
        if let Possible::Lines(states, alive) = &self.possible {
            for (at, state) in states.iter().enumerate() {
                if state[word] != value {
                    let bits = &alive[at / 64];
                    bits.set(bits.get() & !(1 << (at % 64)));
                }
            }
        }
    }

    fn fingerprint(&self) -> u64 {
        let mut hash = u64::from(self.line);
        match &self.possible {
            Possible::Lines(states, _) => {
                let mut hashes: Vec<u64> =
                    states.iter().map(|state| state.iter().copied().fold(3, mix)).collect();
                hashes.sort_unstable();
                hashes.dedup();
                hash = hashes.into_iter().fold(hash, mix);
            }
            Possible::Words(values, starts) => {
                for word in starts.windows(2) {
                    let hashes =
                        values[word[0] as usize..word[1] as usize].iter().map(|&value| mix(4, value));
                    hash = mix(hash, hashes.fold(0, u64::wrapping_add));
                }
            }
        }
        mix(hash, 1)
    }
}

/// Pushes what is not the last one already.
fn push_new<T: PartialEq>(list: &mut Vec<T>, new: T) {
    if list.last() != Some(&new) {
        list.push(new);
    }
}

/// Pushes `value` as the newest, and nowhere else.
fn push_newest<T: PartialEq + Copy>(list: &mut Vec<T>, value: T) {
    list.retain(|&other| other != value);
    list.push(value);
}

/// What a line holds for certain, as a part of a fingerprint: none if it is what it was in the beginning.
fn certain(line: u32, words: &[u64; 8], reference: &[u64]) -> u64 {
    if words == reference {
        return 0;
    }
    mix(words.iter().copied().fold(line.into(), mix), 2)
}

/// A decision that a run made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The word's number in the pool.
    pub word: u32,
    /// Which of its values, 0 the oldest.
    pub chosen: u32,
    /// How many there were.
    pub of: u32,
    /// The value.
    pub value: u64,
    /// The newest value that it might have had.
    pub newest: u64,
}

/// How a random run decides.
#[derive(Clone, Copy, Debug)]
pub struct Mood {
    /// Of 65,535: how often the newest value survives.
    newest: u16,
    /// Of 256: how often the oldest does, where not the newest.
    oldest: u8,
    /// Whole lines go one way: half of them, by their number and this, the other way round.
    by_line: Option<u32>,
}

impl Mood {
    /// A mood at random; extreme ones are as frequent as even ones.
    pub fn random(random: &mut Rng) -> Self {
        // With the last but one a word or two of a log are lost.
        let newest = [0, 5_000, 32_000, 60_000, 65_300, u16::MAX][random.usize(..6)];
        let oldest = [0, 128, 255][random.usize(..3)];
        Self { newest, oldest, by_line: (random.u8(..3) == 0).then(|| random.u32(..)) }
    }

    fn choose(&self, random: &mut Rng, word: u32, of: u32) -> u32 {
        let turned = self
            .by_line
            .is_some_and(|salt| (word / 8).wrapping_add(salt).wrapping_mul(0x9e37_79b9) >> 31 == 1);
        let (newest, oldest) = (random.u16(..), random.u8(..));
        let take_newest = newest < self.newest || self.newest == u16::MAX;
        if take_newest != turned {
            of - 1
        } else if turned || oldest < self.oldest || self.oldest == 255 {
            0
        } else {
            random.u32(..of)
        }
    }
}

/// Who decides.
#[derive(Debug)]
enum Chooser {
    /// The path's choices, then the oldest values; the path goes on as a depth-first search.
    Search,
    /// At random.
    Random(Rng, Mood),
    /// By the values of these decisions on the same words; otherwise at random, or the newest.
    Given(Vec<Decision>, Option<(Rng, Mood)>),
}

/// The lazy memory. One serves many crashes of pools of one size.
pub struct CrashMemory {
    /// The pool before recovery, for words that are not open.
    base: Box<[Cell<u64>]>,
    /// The pool as the present run sees it.
    now: Box<[Cell<u64>]>,
    /// For each line its words that are not decided.
    open: Box<[Cell<u8>]>,
    /// For each line the run that stored to it last.
    dirty_run: Box<[Cell<u32>]>,
    /// The lines that the present run stored to.
    dirty: Box<[Cell<u32>]>,
    dirty_count: Cell<usize>,
    volatile: Box<[Cell<u64>]>,
    volatile_tags: Box<[Cell<u32>]>,
    run: Cell<u32>,
    data: Range<usize>,
    omitted: Cell<Option<Step>>,
    /// Open lines, and the open line of each line of the pool, plus one.
    lines: RefCell<Vec<OpenLine>>,
    line_index: Box<[Cell<u32>]>,
    /// Open lines of which the present run has decided words.
    narrowed: RefCell<Vec<u32>>,
    per_word: Cell<bool>,
    /// What fingerprints are relative to: the pool at the beginning.
    reference: RefCell<Rc<[u64]>>,
    /// Of everything but what the present run did.
    fingerprint: Cell<u64>,
    /// Whether every store survives.
    flush_on_fail: Cell<bool>,
    decisions: RefCell<Vec<Decision>>,
    /// How many of them a search has come to.
    depth: Cell<usize>,
    choices: RefCell<Vec<u64>>,
    chooser: RefCell<Chooser>,
    /// Words that recoveries before a further crash may have stored, and did not store for certain.
    unsettled: RefCell<Vec<u32>>,
    recorder: RefCell<Recorder>,
    recording: Cell<bool>,
    operations: Cell<u64>,
}

/// What a recovery has stored and written back, so that power may fail in it: the rules of `PX86.md` for one
/// thread, where a write-back covers all that was stored to its line.
struct Recorder {
    /// The stores to each line (word in the line, value), and how many of them are durable.
    lines: Vec<RecordedLine>,
    /// The recorded line of each line of the pool, plus one.
    index: Box<[u32]>,
    /// Recorded lines to be durable at the next fence, with the number of their stores.
    asked: Vec<(u32, usize)>,
    /// Words that were open, as decided since recovery began.
    decided: Vec<(u32, u64)>,
    /// Crashes that this run has come to.
    crashes: Vec<RecoveryCrash>,
    /// What was done, for reports.
    operations: Vec<Operation>,
}

struct RecordedLine {
    line: u32,
    stores: Vec<(u8, u64)>,
    durable: usize,
}

/// A power failure during a recovery: what may have survived, as far as it differs from what was there before.
pub(super) struct RecoveryCrash {
    /// What lines hold where they are not open.
    certain: Vec<(u32, [u64; 8])>,
    open: Vec<OpenLine>,
    /// Words that recovery stored.
    stored: Vec<u32>,
    /// As [`CrashMemory::fingerprint`] will be.
    pub fingerprint: u64,
    /// How many operations of recovery came before.
    pub operations: usize,
}

impl Recorder {
    fn new(lines: usize) -> Self {
        Self {
            lines: Vec::new(),
            index: vec![0; lines].into(),
            asked: Vec::new(),
            decided: Vec::new(),
            crashes: Vec::new(),
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
        self.operations.clear();
    }

    fn store(&mut self, index: usize, value: u64) {
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

    /// Whether a fence would make something durable.
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

/// A hash of `hash` and `value`.
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let mixed = (hash.rotate_left(25) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

/// Operations of one recovery, above which it runs for ever.
const PATIENCE: u64 = 50_000_000;

fn cells<T: Copy + Default>(count: usize) -> Box<[Cell<T>]> {
    vec![Cell::new(T::default()); count].into()
}

impl CrashMemory {
    /// For pools of `words` words, of which those in `data` belong to transactions.
    pub fn new(words: usize, volatile_bytes: u64, data: Range<usize>) -> Self {
        let volatile = volatile_bytes.div_ceil(8) as usize;
        Self {
            base: cells(words),
            now: cells(words),
            open: cells(words.div_ceil(8)),
            dirty_run: cells(words.div_ceil(8)),
            dirty: cells(words.div_ceil(8)),
            dirty_count: Cell::new(0),
            volatile: cells(volatile),
            volatile_tags: cells(volatile),
            run: Cell::new(0),
            data,
            omitted: Cell::new(None),
            lines: RefCell::default(),
            line_index: cells(words.div_ceil(8)),
            narrowed: RefCell::default(),
            per_word: Cell::new(false),
            reference: RefCell::new(Rc::from([])),
            fingerprint: Cell::new(0),
            flush_on_fail: Cell::new(false),
            decisions: RefCell::default(),
            depth: Cell::new(0),
            choices: RefCell::default(),
            chooser: RefCell::new(Chooser::Search),
            unsettled: RefCell::default(),
            recorder: RefCell::new(Recorder::new(words.div_ceil(8))),
            recording: Cell::new(false),
            operations: Cell::new(0),
        }
    }

    /// Becomes the memory after a power failure at `time` of `trace`; recovery leaves `omitted` out. With
    /// `fresh` the trace is another one than before.
    pub fn crash(&self, trace: &Trace, time: u32, setting: Setting, omitted: Option<Step>, fresh: bool) {
        if fresh {
            for ((base, now), &value) in self.base.iter().zip(&self.now).zip(&trace.initial) {
                base.set(value);
                now.set(value);
            }
            self.dirty_count.set(0);
            *self.reference.borrow_mut() = trace.initial.as_slice().into();
        }
        self.omitted.set(omitted);
        self.flush_on_fail.set(setting == Setting::FlushOnFail);
        self.per_word.set(setting == Setting::Word);
        self.close();
        let mut fingerprint = 0u64;
        let mut lines = self.lines.borrow_mut();
        for history in &trace.lines {
            let first = 8 * history.line as usize;
            let (mut least, greatest) = history.cuts(time);
            if setting == Setting::FlushOnFail {
                least = greatest;
            }
            let initial = &trace.initial[first..first + 8];
            let mut settled: [u64; 8] = std::array::from_fn(|i| initial[i]);
            for store in &history.stores[..least] {
                settled[store.word as usize % 8] = store.value;
            }
            for (i, &value) in settled.iter().enumerate() {
                self.base[first + i].set(value);
                self.now[first + i].set(value);
            }
            let pending = &history.stores[least..greatest];
            let changes = |store: &&Store| store.value != settled[store.word as usize % 8];
            let open = if pending.iter().find(changes).is_none() {
                None
            } else if setting == Setting::Word {
                let mut words = settled.map(|value| vec![value]);
                pending
                    .iter()
                    .for_each(|store| push_newest(&mut words[store.word as usize % 8], store.value));
                OpenLine::of_words(history.line, &words)
            } else {
                let mut states = Vec::with_capacity(pending.len() + 1);
                let mut state = settled;
                states.push(state);
                for store in pending {
                    state[store.word as usize % 8] = store.value;
                    push_new(&mut states, state);
                }
                OpenLine::of_lines(history.line, states)
            };
            if let Some(open) = open {
                fingerprint = fingerprint.wrapping_add(open.fingerprint());
                lines.push(open);
                self.line_index[history.line as usize].set(lines.len() as u32);
            } else {
                fingerprint = fingerprint.wrapping_add(certain(history.line, &settled, initial));
            }
        }
        self.fingerprint.set(fingerprint);
    }

    /// Becomes the memory after a further power failure, during a recovery on `before`.
    pub(super) fn crash_again(&self, before: &Self, crash: &RecoveryCrash) {
        self.omitted.set(before.omitted.get());
        self.flush_on_fail.set(before.flush_on_fail.get());
        self.reference.borrow_mut().clone_from(&before.reference.borrow());
        self.per_word.set(before.per_word.get());
        self.close();
        for ((base, now), word) in self.base.iter().zip(&self.now).zip(&before.base) {
            base.set(word.get());
            now.set(word.get());
        }
        for (line, words) in &crash.certain {
            for (i, &value) in words.iter().enumerate() {
                self.base[8 * *line as usize + i].set(value);
                self.now[8 * *line as usize + i].set(value);
            }
        }
        let mut lines = self.lines.borrow_mut();
        lines.extend(crash.open.iter().cloned());
        for (at, line) in lines.iter().enumerate() {
            self.line_index[line.line as usize].set(at as u32 + 1);
        }
        *self.unsettled.borrow_mut() = before.unsettled.borrow().clone();
        self.unsettled.borrow_mut().extend(&crash.stored);
        self.fingerprint.set(crash.fingerprint);
    }

    /// Every word becomes certain.
    fn close(&self) {
        self.decisions.borrow_mut().clear();
        self.unsettled.borrow_mut().clear();
        self.recording.set(false);
        self.restore();
        self.narrowed.borrow_mut().clear();
        for line in self.lines.borrow_mut().drain(..) {
            self.line_index[line.line as usize].set(0);
            self.open[line.line as usize].set(0);
        }
    }

    /// A number that is equal for crashes with the same words open to the same values, over the same rest.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint.get()
    }

    /// Undoes what the last run stored.
    fn restore(&self) {
        for line in &self.dirty[..self.dirty_count.get()] {
            let line = line.get() as usize;
            let (now, base) = (&self.now.as_chunks::<8>().0[line], &self.base.as_chunks::<8>().0[line]);
            (0..8).for_each(|i| now[i].set(base[i].get()));
        }
        self.dirty_count.set(0);
        self.run.set(self.run.get().wrapping_add(1));
        if self.run.get() == 0 {
            self.dirty_run.iter().for_each(|run| run.set(0));
            self.run.set(1);
        }
    }

    fn begin(&self, chooser: Chooser) {
        self.restore();
        let lines = self.lines.borrow();
        self.narrowed.borrow_mut().drain(..).for_each(|at| lines[at as usize].reset());
        for line in &*lines {
            self.open[line.line as usize].set(line.differ);
        }
        *self.chooser.borrow_mut() = chooser;
        self.recording.set(false);
        self.operations.set(0);
    }

    /// Begins the first run of a depth-first search.
    pub fn search(&self) {
        self.decisions.borrow_mut().clear();
        self.begin(Chooser::Search);
        self.depth.set(0);
    }

    /// Begins the search's next run; `false`: there is none.
    pub fn next(&self) -> bool {
        let mut decisions = self.decisions.borrow_mut();
        decisions.truncate(self.depth.get());
        while let Some(last) = decisions.last_mut() {
            if last.chosen + 1 < last.of {
                last.chosen += 1;
                drop(decisions);
                self.begin(Chooser::Search);
                self.depth.set(0);
                return true;
            }
            decisions.pop();
        }
        false
    }

    /// Begins a run that decides at random.
    pub fn random(&self, random: &mut Rng) {
        self.decisions.borrow_mut().clear();
        let mood = Mood::random(random);
        self.begin(Chooser::Random(random.fork(), mood));
    }

    /// Begins a run that decides as `decisions` say, and for the newest otherwise.
    pub fn given(&self, decisions: Vec<Decision>) {
        self.decisions.borrow_mut().clear();
        self.begin(Chooser::Given(decisions, None));
    }

    /// From now on what this run does is recorded, so that power may fail in it.
    pub(super) fn record(&self) {
        self.recorder.borrow_mut().clear();
        self.recording.set(true);
    }

    /// Recovery ends: one crash more. Takes the crashes that were recorded.
    pub(super) fn recorded(&self) -> Vec<RecoveryCrash> {
        self.crash_here();
        self.recording.set(false);
        std::mem::take(&mut self.recorder.borrow_mut().crashes)
    }

    /// What was recorded, for reports.
    pub(super) fn recorded_operations(&self) -> Vec<Operation> {
        self.recorder.borrow().operations.clone()
    }

    /// Power may fail here. A crash that a search has been to before is left out: it comes after the same
    /// decisions, and those that are still to come do not matter to it.
    fn crash_here(&self) {
        if matches!(*self.chooser.borrow(), Chooser::Search)
            && self.decisions.borrow()[self.depth.get()..].iter().any(|later| later.chosen > 0)
        {
            return;
        }
        let mut recorder = self.recorder.borrow_mut();
        let mut crash = RecoveryCrash {
            certain: Vec::new(),
            open: Vec::new(),
            stored: Vec::new(),
            fingerprint: self.fingerprint.get(),
            operations: recorder.operations.len(),
        };
        let lines = self.lines.borrow();
        let reference = self.reference.borrow().clone();
        let settle = |crash: &mut RecoveryCrash, line: u32, recorded: Option<&RecordedLine>| {
            let first = 8 * line as usize;
            let before: [u64; 8] = std::array::from_fn(|i| self.base[first + i].get());
            let open = self.line_index[line as usize].get().checked_sub(1).map(|at| &lines[at as usize]);
            let (stores, durable) = recorded.map_or((&[][..], 0), |line| (&line.stores[..], line.durable));
            let durable = if self.flush_on_fail.get() { stores.len() } else { durable };
            let data = self.data.contains(&first);
            crash
                .stored
                .extend(stores.iter().filter(|_| data).map(|&(word, _)| first as u32 + u32::from(word)));
            // The line's part of the fingerprint is taken out, and what it is now put in.
            let reference = &reference[first..first + 8];
            let mut change = match open {
                Some(open) => open.fingerprint().wrapping_neg(),
                None => certain(line, &before, reference).wrapping_neg(),
            };
            let now;
            let single = match (open.map(|open| &open.possible), self.per_word.get()) {
                (_, true) => {
                    let mut words: [Vec<u64>; 8] = before.map(|value| vec![value]);
                    if let Some(OpenLine { possible: Possible::Words(values, starts), .. }) = open {
                        for (i, word) in words.iter_mut().enumerate() {
                            *word = values[starts[i] as usize..starts[i + 1] as usize].to_vec();
                        }
                        for &(word, value) in recorder.decided.iter().filter(|one| one.0 / 8 == line) {
                            words[word as usize % 8] = vec![value];
                        }
                    }
                    for (number, &(word, value)) in stores.iter().enumerate() {
                        let word = &mut words[usize::from(word)];
                        if number < durable {
                            word.clear();
                        }
                        push_newest(word, value);
                    }
                    now = OpenLine::of_words(line, &words);
                    words.map(|word| word[0])
                }
                (possible, false) => {
                    let mut states: Vec<[u64; 8]> = match possible {
                        Some(Possible::Lines(states, alive)) => {
                            let alive = |at: &usize| alive[at / 64].get() >> (at % 64) & 1 == 1;
                            (0..states.len()).filter(alive).map(|at| states[at]).collect()
                        }
                        _ => vec![before],
                    };
                    let overlay = |states: &mut Vec<[u64; 8]>, (word, value): (u8, u64)| {
                        states.iter_mut().for_each(|state| state[usize::from(word)] = value);
                    };
                    stores[..durable].iter().for_each(|&store| overlay(&mut states, store));
                    let mut all = states.clone();
                    for &store in &stores[durable..] {
                        overlay(&mut states, store);
                        all.extend_from_slice(&states);
                    }
                    let mut distinct = Vec::with_capacity(all.len());
                    if all.len() <= 64 {
                        all.into_iter().for_each(|state| push_newest(&mut distinct, state));
                    } else {
                        // What is twice in the list is no harm.
                        all.into_iter().for_each(|state| push_new(&mut distinct, state));
                    }
                    let single = distinct[0];
                    now = OpenLine::of_lines(line, distinct);
                    single
                }
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
        };
        for line in &recorder.lines {
            settle(&mut crash, line.line, Some(line));
        }
        for line in lines.iter().filter(|line| recorder.index[line.line as usize] == 0) {
            settle(&mut crash, line.line, None);
        }
        recorder.crashes.push(crash);
    }

    /// The decisions of this run.
    pub fn decisions(&self) -> Vec<Decision> {
        let decisions = self.decisions.borrow();
        match *self.chooser.borrow() {
            Chooser::Search => decisions[..self.depth.get().min(decisions.len())].to_vec(),
            _ => decisions.clone(),
        }
    }

    /// A number for the decisions of this run: runs of one crash that decide differently have different ones.
    pub fn path(&self) -> u64 {
        let decisions = self.decisions.borrow();
        let made = match *self.chooser.borrow() {
            Chooser::Search => self.depth.get().min(decisions.len()),
            _ => decisions.len(),
        };
        decisions[..made].iter().fold(6, |hash, made| mix(mix(hash, made.word.into()), made.value))
    }

    /// The value of word `word`, decided now if it was open.
    #[inline(always)]
    pub fn load_word(&self, word: u32) -> u64 {
        let index = word as usize;
        if self.open[index / 8].get() >> (index % 8) & 1 == 1 {
            self.decide(index)
        } else {
            self.now[index].get()
        }
    }

    /// Words of transactions that recoveries before a further crash stored.
    pub fn stored_before(&self) -> Vec<u32> {
        self.unsettled.borrow().clone()
    }

    /// Words of transactions in lines that this run stored to.
    pub fn stored(&self) -> impl Iterator<Item = u32> {
        let lines = self.dirty[..self.dirty_count.get()].iter().map(Cell::get);
        lines.filter(|&line| self.data.contains(&(8 * line as usize))).flat_map(|line| 8 * line..8 * line + 8)
    }

    /// The word before recovery, if it was settled.
    pub fn before(&self, word: u32) -> u64 {
        self.base[word as usize].get()
    }

    /// The pool before recovery, for the decisions of this run and random ones on what it did not load. Ends
    /// the run.
    pub fn survivors(&self, random: &mut Rng) -> Vec<u64> {
        let made = self.decisions();
        self.decisions.borrow_mut().clear();
        let mood = Mood::random(random);
        self.begin(Chooser::Given(made.clone(), Some((random.fork(), mood))));
        // First what was decided, in that order, so that each decision finds the choice that it found before.
        for decision in &made {
            self.load_word(decision.word);
        }
        (0..self.base.len() as u32).map(|word| self.load_word(word)).collect()
    }

    #[inline(never)]
    fn decide(&self, index: usize) -> u64 {
        let lines = self.lines.borrow();
        let at = self.line_index[index / 8].get() - 1;
        let (line, word) = (&lines[at as usize], index % 8);
        let mut choices = self.choices.borrow_mut();
        line.values(word, &mut choices);
        let value = match &choices[..] {
            [only] => *only,
            choices => {
                let value = choices[self.choose(index as u32, choices) as usize];
                line.narrow(word, value);
                self.narrowed.borrow_mut().push(at);
                value
            }
        };
        self.touch(index / 8);
        let open = &self.open[index / 8];
        open.set(open.get() & !(1 << word));
        self.now[index].set(value);
        if self.recording.get() {
            self.recorder.borrow_mut().decided.push((index as u32, value));
        }
        value
    }

    fn choose(&self, word: u32, choices: &[u64]) -> u32 {
        let of = choices.len() as u32;
        let newest = choices[choices.len() - 1];
        let mut decisions = self.decisions.borrow_mut();
        let chosen = match &mut *self.chooser.borrow_mut() {
            Chooser::Search => {
                let depth = self.depth.get();
                self.depth.set(depth + 1);
                if let Some(decision) = decisions.get_mut(depth) {
                    decision.value = choices[decision.chosen as usize];
                    decision.newest = newest;
                    return decision.chosen;
                }
                0
            }
            Chooser::Random(random, mood) => mood.choose(random, word, of),
            Chooser::Given(given, rest) => {
                let decided = given.iter().find(|decision| decision.word == word);
                let same = decided.and_then(|one| choices.iter().position(|&value| value == one.value));
                match (same, rest) {
                    (Some(chosen), _) => chosen as u32,
                    (None, Some((random, mood))) => mood.choose(random, word, of),
                    (None, None) => of - 1,
                }
            }
        };
        decisions.push(Decision { word, chosen, of, value: choices[chosen as usize], newest });
        chosen
    }

    #[inline]
    fn touch(&self, line: usize) {
        if self.dirty_run[line].replace(self.run.get()) != self.run.get() {
            let count = self.dirty_count.get();
            self.dirty[count].set(line as u32);
            self.dirty_count.set(count + 1);
        }
    }

    #[inline(always)]
    fn access(&self, space: Space, offset: u64) -> usize {
        let index = offset.rotate_right(3) as usize;
        let words = match space {
            Space::Persistent => self.base.len(),
            Space::Volatile => self.volatile.len(),
        };
        assert!(index < words, "{space:?} access at offset {offset:#x} is outside its space");
        index
    }

    #[inline(always)]
    fn load(&self, space: Space, offset: u64) -> u64 {
        let index = self.access(space, offset);
        match space {
            Space::Persistent => self.load_word(index as u32),
            Space::Volatile if self.volatile_tags[index].get() == self.run.get() => {
                self.volatile[index].get()
            }
            Space::Volatile => 0,
        }
    }

    #[inline]
    fn store(&self, space: Space, offset: u64, value: u64) {
        let index = self.access(space, offset);
        match space {
            Space::Persistent => {
                if self.recording.get() && self.flush_on_fail.get() && self.now[index].get() != value {
                    self.crash_here();
                }
                self.touch(index / 8);
                let open = &self.open[index / 8];
                if open.get() != 0 {
                    open.set(open.get() & !(1 << (index % 8)));
                }
                self.now[index].set(value);
                if self.recording.get() {
                    let mut recorder = self.recorder.borrow_mut();
                    recorder.store(index, value);
                    recorder.operations.push(Operation::Store(space, offset, value));
                }
            }
            Space::Volatile => {
                self.volatile_tags[index].set(self.run.get());
                self.volatile[index].set(value);
            }
        }
    }
}

impl CrashMemory {
    fn write_back(&self, offset: u64) {
        if self.recording.get() {
            self.recorder.borrow_mut().write_back((offset / 64) as usize);
        }
    }

    /// All write-backs complete: just before, power may fail.
    fn complete(&self) {
        if self.recording.get() {
            if self.recorder.borrow().fence_matters() {
                self.crash_here();
            }
            self.recorder.borrow_mut().fence();
        }
    }
}

impl Recovered for CrashMemory {
    fn load_word(&self, word: u32) -> u64 {
        Self::load_word(self, word)
    }

    fn stored(&self) -> impl Iterator<Item = u32> {
        Self::stored(self).chain(self.stored_before())
    }
}

impl World for CrashMemory {
    fn perform(&self, _: usize, operation: Operation) -> u64 {
        // Nearly all of them.
        if let Operation::Load(Space::Persistent, at) = operation {
            return self.load(Space::Persistent, at);
        }
        match operation {
            Operation::Load(space, at) => self.load(space, at),
            Operation::Store(space, at, value) => {
                self.store(space, at, value);
                0
            }
            Operation::StoreNonTemporal(at, value) => {
                self.store(Space::Persistent, at, value);
                self.write_back(at);
                0
            }
            Operation::CompareExchange(space, at, current, new) => {
                let old = self.load(space, at);
                if old == current {
                    self.store(space, at, new);
                    self.complete();
                }
                old
            }
            Operation::FetchAdd(space, at, by) => {
                let old = self.load(space, at);
                self.store(space, at, old.wrapping_add(by));
                self.complete();
                old
            }
            Operation::WriteBack(at, _) => {
                self.write_back(at);
                0
            }
            Operation::Fence(_) => {
                self.complete();
                if self.recording.get() {
                    self.recorder.borrow_mut().operations.push(operation);
                }
                0
            }
            Operation::Pause => {
                self.operations.set(self.operations.get() + 1);
                assert!(self.operations.get() < PATIENCE, "recovery or a judge waits for ever");
                0
            }
            _ => 0,
        }
    }

    fn load_range(&self, _: usize, space: Space, offset: u64, into: &mut [u64]) {
        let first = self.access(space, offset);
        if space == Space::Volatile {
            for (i, word) in into.iter_mut().enumerate() {
                *word = self.load(space, offset + 8 * i as u64);
            }
            return;
        }
        let mut at = first;
        let mut rest = into;
        while !rest.is_empty() {
            let here = (8 - at % 8).min(rest.len());
            let (now, later) = rest.split_at_mut(here);
            if self.open[at / 8].get() == 0 {
                for (into, word) in now.iter_mut().zip(&self.now[at..at + here]) {
                    *into = word.get();
                }
            } else {
                for (i, word) in now.iter_mut().enumerate() {
                    *word = self.load_word((at + i) as u32);
                }
            }
            rest = later;
            at += here;
        }
    }

    fn store_range(&self, _: usize, space: Space, offset: u64, from: &[u64]) -> bool {
        if space == Space::Volatile || self.recording.get() || from.is_empty() {
            return false;
        }
        let first = self.access(space, offset);
        for (now, &value) in self.now[first..first + from.len()].iter().zip(from) {
            now.set(value);
        }
        for line in first / 8..=(first + from.len() - 1) / 8 {
            self.touch(line);
            let open = &self.open[line];
            if open.get() != 0 {
                let stored =
                    (8 * line..8 * line + 8).filter(|word| (first..first + from.len()).contains(word));
                open.set(stored.fold(open.get(), |open, word| open & !(1 << (word % 8))));
            }
        }
        true
    }

    fn switches(&self, _: usize) -> bool {
        false
    }

    fn omitted(&self, step: Step) -> bool {
        self.omitted.get() == Some(step)
    }

    fn size(&self, space: Space) -> u64 {
        8 * match space {
            Space::Persistent => self.base.len(),
            Space::Volatile => self.volatile.len(),
        } as u64
    }
}
