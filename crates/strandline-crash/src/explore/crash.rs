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

use fastrand::Rng;
use strandline::memory::{Operation, Space, Step, World};

use super::trace::Trace;
use crate::Setting;

/// One value that a word may have, and the cuts that give it.
#[derive(Clone, Copy, Debug)]
struct Choice {
    value: u64,
    cuts: (u32, u32),
}

/// A line with more than one cut. Its stores are those between the bounds.
#[derive(Clone, Debug, Default)]
struct OpenLine {
    line: u32,
    /// The words' values at the least cut.
    settled: [u64; 8],
    /// Words that may have several values.
    differ: u8,
    /// Word in the line and value.
    stores: Vec<(u8, u64)>,
    cuts: Cell<(u32, u32)>,
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
}

/// How a random run decides.
#[derive(Clone, Copy, Debug)]
pub struct Mood {
    /// Of 256: how often the newest value survives.
    newest: u8,
    /// Of 256: how often the oldest does, where not the newest.
    oldest: u8,
    /// Whole lines go one way: half of them, by their number and this, the other way round.
    by_line: Option<u32>,
}

impl Mood {
    /// A mood at random; extreme ones are as frequent as even ones.
    pub fn random(random: &mut Rng) -> Self {
        let newest = [0, 20, 128, 235, 255][random.usize(..5)];
        let oldest = [0, 128, 255][random.usize(..3)];
        Self { newest, oldest, by_line: (random.u8(..3) == 0).then(|| random.u32(..)) }
    }

    fn choose(&self, random: &mut Rng, word: u32, of: u32) -> u32 {
        let turned = self
            .by_line
            .is_some_and(|salt| (word / 8).wrapping_add(salt).wrapping_mul(0x9e37_79b9) >> 31 == 1);
        let (newest, oldest) = (random.u8(..), random.u8(..));
        let take_newest = newest < self.newest || self.newest == 255;
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
    per_word: Cell<bool>,
    decisions: RefCell<Vec<Decision>>,
    /// How many of them a search has come to.
    depth: Cell<usize>,
    choices: RefCell<Vec<Choice>>,
    chooser: RefCell<Chooser>,
    operations: Cell<u64>,
}

/// A hash of `hash` and `value`.
fn mix(hash: u64, value: u64) -> u64 {
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
            per_word: Cell::new(false),
            decisions: RefCell::default(),
            depth: Cell::new(0),
            choices: RefCell::default(),
            chooser: RefCell::new(Chooser::Search),
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
        }
        self.omitted.set(omitted);
        self.per_word.set(setting == Setting::Word);
        self.decisions.borrow_mut().clear();
        self.restore();
        let mut lines = self.lines.borrow_mut();
        for line in lines.drain(..) {
            self.line_index[line.line as usize].set(0);
            self.open[line.line as usize].set(0);
        }
        for history in &trace.lines {
            let first = 8 * history.line as usize;
            let (mut least, greatest) = history.cuts(time);
            if setting == Setting::FlushOnFail {
                least = greatest;
            }
            let mut settled: [u64; 8] = std::array::from_fn(|i| trace.initial[first + i]);
            for store in &history.stores[..least] {
                settled[store.word as usize % 8] = store.value;
            }
            for (i, &value) in settled.iter().enumerate() {
                self.base[first + i].set(value);
                self.now[first + i].set(value);
            }
            let pending = &history.stores[least..greatest];
            let mut differ = 0u8;
            for store in pending {
                let word = store.word % 8;
                differ |= u8::from(store.value != settled[word as usize]) << word;
            }
            if differ == 0 {
                continue;
            }
            let stores: Vec<_> = pending.iter().map(|store| ((store.word % 8) as u8, store.value)).collect();
            let cuts = Cell::new((0, stores.len() as u32));
            lines.push(OpenLine { line: history.line, settled, differ, stores, cuts });
            self.line_index[history.line as usize].set(lines.len() as u32);
        }
    }

    /// A number that is equal for crashes with the same words open to the same values, over the same rest.
    pub fn fingerprint(&self) -> u64 {
        let mut sum = 0u64;
        for line in &*self.lines.borrow() {
            let mut hash = u64::from(line.line);
            line.settled.iter().for_each(|&value| hash = mix(hash, value));
            for &(word, value) in &line.stores {
                hash = mix(mix(hash, value), word.into());
            }
            sum = sum.wrapping_add(mix(hash, 1));
        }
        sum
    }

    /// The settled contents, for fingerprints: of the lines that `trace` has.
    pub fn settled(&self, trace: &Trace) -> u64 {
        let mut sum = 0u64;
        for history in &trace.lines {
            let first = 8 * history.line as usize;
            let mut hash = u64::from(history.line);
            self.base[first..first + 8].iter().for_each(|word| hash = mix(hash, word.get()));
            sum = sum.wrapping_add(mix(hash, 2));
        }
        sum
    }

    /// Undoes what the last run stored.
    fn restore(&self) {
        for line in &self.dirty[..self.dirty_count.get()] {
            let words = 8 * line.get() as usize..8 * line.get() as usize + 8;
            for (now, base) in self.now[words.clone()].iter().zip(&self.base[words]) {
                now.set(base.get());
            }
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
        for line in &*self.lines.borrow() {
            line.cuts.set((0, line.stores.len() as u32));
            self.open[line.line as usize].set(line.differ);
        }
        *self.chooser.borrow_mut() = chooser;
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

    /// The decisions of this run.
    pub fn decisions(&self) -> Vec<Decision> {
        let decisions = self.decisions.borrow();
        match *self.chooser.borrow() {
            Chooser::Search => decisions[..self.depth.get().min(decisions.len())].to_vec(),
            _ => decisions.clone(),
        }
    }

    /// The value of word `word`, decided now if it was open.
    #[inline]
    pub fn load_word(&self, word: u32) -> u64 {
        let index = word as usize;
        if self.open[index / 8].get() >> (index % 8) & 1 == 1 {
            self.decide(index)
        } else {
            self.now[index].get()
        }
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

    #[cold]
    fn decide(&self, index: usize) -> u64 {
        let lines = self.lines.borrow();
        let line = &lines[self.line_index[index / 8].get() as usize - 1];
        let word = (index % 8) as u8;
        let (least, greatest) =
            if self.per_word.get() { (0, line.stores.len() as u32) } else { line.cuts.get() };
        let mut choices = self.choices.borrow_mut();
        choices.clear();
        let before = line.stores[..least as usize].iter().rev().find(|&&(other, _)| other == word);
        let value = before.map_or(line.settled[usize::from(word)], |&(_, value)| value);
        choices.push(Choice { value, cuts: (least, greatest) });
        for at in least..greatest {
            let (other, value) = line.stores[at as usize];
            if other == word && choices.last().is_some_and(|last| last.value != value) {
                if let Some(last) = choices.last_mut() {
                    last.cuts.1 = at;
                }
                choices.push(Choice { value, cuts: (at + 1, greatest) });
            }
        }
        let of = choices.len() as u32;
        let choice =
            if of == 1 { choices[0] } else { choices[self.choose(index as u32, of, &choices) as usize] };
        line.cuts.set(choice.cuts);
        self.touch(index / 8);
        let open = &self.open[index / 8];
        open.set(open.get() & !(1 << word));
        self.now[index].set(choice.value);
        choice.value
    }

    fn choose(&self, word: u32, of: u32, choices: &[Choice]) -> u32 {
        let mut decisions = self.decisions.borrow_mut();
        let chosen = match &mut *self.chooser.borrow_mut() {
            Chooser::Search => {
                let depth = self.depth.get();
                self.depth.set(depth + 1);
                if let Some(decision) = decisions.get_mut(depth) {
                    decision.value = choices[decision.chosen as usize].value;
                    return decision.chosen;
                }
                0
            }
            Chooser::Random(random, mood) => mood.choose(random, word, of),
            Chooser::Given(given, rest) => {
                let decided = given.iter().find(|decision| decision.word == word);
                let same = decided.and_then(|one| choices.iter().position(|c| c.value == one.value));
                match (same, rest) {
                    (Some(chosen), _) => chosen as u32,
                    (None, Some((random, mood))) => mood.choose(random, word, of),
                    (None, None) => of - 1,
                }
            }
        };
        let value = choices[chosen as usize].value;
        decisions.push(Decision { word, chosen, of, value });
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

    #[inline]
    fn access(&self, space: Space, offset: u64) -> usize {
        let index = offset.rotate_right(3) as usize;
        let words = match space {
            Space::Persistent => self.base.len(),
            Space::Volatile => self.volatile.len(),
        };
        assert!(index < words, "{space:?} access at offset {offset:#x} is outside its space");
        index
    }

    #[inline]
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
                self.touch(index / 8);
                let open = &self.open[index / 8];
                if open.get() != 0 {
                    open.set(open.get() & !(1 << (index % 8)));
                }
                self.now[index].set(value);
            }
            Space::Volatile => {
                self.volatile_tags[index].set(self.run.get());
                self.volatile[index].set(value);
            }
        }
    }
}

impl World for CrashMemory {
    fn perform(&self, _: usize, operation: Operation) -> u64 {
        match operation {
            Operation::Load(space, at) => self.load(space, at),
            Operation::Store(space, at, value) => {
                self.store(space, at, value);
                0
            }
            Operation::StoreNonTemporal(at, value) => {
                self.store(Space::Persistent, at, value);
                0
            }
            Operation::CompareExchange(space, at, current, new) => {
                let old = self.load(space, at);
                if old == current {
                    self.store(space, at, new);
                }
                old
            }
            Operation::FetchAdd(space, at, by) => {
                let old = self.load(space, at);
                self.store(space, at, old.wrapping_add(by));
                old
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
        let words = &self.now[first..first + into.len()];
        if first / 8 == (first + into.len()).saturating_sub(1) / 8 && self.open[first / 8].get() == 0 {
            for (into, word) in into.iter_mut().zip(words) {
                *into = word.get();
            }
            return;
        }
        for (i, word) in into.iter_mut().enumerate() {
            *word = self.load_word((first + i) as u32);
        }
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
