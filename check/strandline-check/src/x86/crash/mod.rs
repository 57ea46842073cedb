//! The memory that a power failure leaves, decided as late as possible.
//!
//! Between the least and the greatest cut of a line (of a word, under `word`) a word may have several values. Which of them survived is decided when
//! recovery or a judge first loads the word, and each decision narrows the line's cuts, as in the Jaaru model checker. Recovery runs repeatedly, each
//! time with the next choice at the last decision that has one. That covers exactly the surviving states that recovery and judge can distinguish.
//!
//! A run begins without copying the pool: only the lines that the last run stored to or decided are restored, and in a search only those on which the
//! next run does not make the same decisions.

mod access;
mod choice;
mod open_line;
mod recovery_crash;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use fastrand::Rng;
use strandline_core::memory::{Operation, Space, Step, Window};

pub use self::choice::Decision;
use self::choice::{Chooser, Mood, Path};
use self::open_line::{OpenLine, certain, push_new, push_newest};
use self::recovery_crash::Recorder;
pub(crate) use self::recovery_crash::RecoveryCrash;
use super::trace::{Store, Trace};
use crate::Setting;
use crate::x86::Recovered;

/// The lazily decided memory. It can be reused for many crashes of pools of one size.
pub struct CrashMemory {
    /// The pool before recovery, for words that are not open.
    base: Box<[Cell<u64>]>,
    /// The pool as the present run sees it. Undecided words are not readable through the window.
    window: Rc<Window>,
    /// For each line a bit for each undecided word.
    open: Box<[Cell<u8>]>,
    /// For each line how the present run has changed it.
    touched: Box<[Cell<Touched>]>,
    /// The lines that the present run touched.
    dirty: Box<[Cell<u32>]>,
    dirty_count: Cell<usize>,
    volatile: Box<[Cell<u64>]>,
    volatile_tags: Box<[Cell<u32>]>,
    run: Cell<u32>,
    data: Range<usize>,
    omitted: Cell<Option<Step>>,
    /// Open lines; and for each line of the pool one more than the index of its open line.
    lines: RefCell<Vec<OpenLine>>,
    line_index: Box<[Cell<u32>]>,
    per_word: Cell<bool>,
    /// The pool at the beginning, to which fingerprints are relative.
    reference: RefCell<Rc<[u64]>>,
    /// The fingerprint of everything but the present run's effects.
    fingerprint: Cell<u64>,
    /// True if every store survives.
    flush_on_fail: Cell<bool>,
    path: RefCell<Path>,
    /// The values of the word being decided.
    choices: RefCell<Vec<(u32, u64)>>,
    /// Words that recoveries before a further crash may have stored, and did not certainly store.
    unsettled: RefCell<Vec<u32>>,
    recorder: RefCell<Recorder>,
    recording: Cell<bool>,
    /// True if each run of the current search repeats every line's decisions explicitly, as it does while it is recorded.
    one_by_one: Cell<bool>,
    pauses: Cell<u64>,
}

/// How a run has changed a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Touched {
    #[default]
    Untouched,
    /// The run made decisions on it.
    Decided,
    /// The run stored to it, or made a decision that the next run does not repeat.
    Changed,
    /// Since it was restored, the run has made only repeated decisions on it.
    Restored,
}

fn cells<T: Copy + Default>(count: usize) -> Box<[Cell<T>]> {
    vec![Cell::new(T::default()); count].into()
}

impl CrashMemory {
    /// Creates a memory for pools of `words` words, of which those in `data` belong to transactions.
    pub fn new(words: usize, volatile_bytes: u64, data: Range<usize>) -> Self {
        let volatile = volatile_bytes.div_ceil(8) as usize;
        Self {
            base: cells(words),
            window: Rc::new(Window::new(words)),
            open: cells(words.div_ceil(8)),
            touched: cells(words.div_ceil(8)),
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
            reference: RefCell::new(Rc::from([])),
            fingerprint: Cell::new(0),
            flush_on_fail: Cell::new(false),
            path: RefCell::new(Path::new(Chooser::Search)),
            choices: RefCell::default(),
            unsettled: RefCell::default(),
            recorder: RefCell::new(Recorder::new(words.div_ceil(8))),
            recording: Cell::new(false),
            one_by_one: Cell::new(false),
            pauses: Cell::new(0),
        }
    }

    /// Becomes the memory after a power failure at `time` of `trace`; recovery leaves `omitted` out. `fresh` means that the trace is another one than
    /// before.
    pub fn crash(&self, trace: &Trace, time: u32, setting: Setting, omitted: Option<Step>, fresh: bool) {
        self.close();
        if fresh {
            for ((base, now), &value) in self.base.iter().zip(self.now()).zip(&trace.initial) {
                base.set(value);
                now.set(value);
            }
            *self.reference.borrow_mut() = trace.initial.as_slice().into();
        }
        self.omitted.set(omitted);
        self.flush_on_fail.set(setting == Setting::FlushOnFail);
        self.per_word.set(setting == Setting::Word);
        let mut fingerprint = 0u64;
        let mut lines = self.lines.borrow_mut();
        let mut latest: Vec<(u32, u32)> = Vec::new();
        for history in &trace.lines {
            let first = 8 * history.line as usize;
            let (least, greatest) = history.cuts(time);
            let least = if setting == Setting::FlushOnFail { greatest } else { least };
            let initial = &trace.initial[first..first + 8];
            let mut settled: [u64; 8] = std::array::from_fn(|i| initial[i]);
            for store in &history.stores[..least] {
                settled[store.word as usize % 8] = store.value;
            }
            for (i, &value) in settled.iter().enumerate() {
                self.base[first + i].set(value);
                self.now()[first + i].set(value);
            }
            let pending = &history.stores[least..greatest];
            let changes = |store: &Store| store.value != settled[store.word as usize % 8];
            let open = match pending.iter().any(changes) {
                false => None,
                true => open_line(history.line, settled, pending, setting),
            };
            if let Some(open) = open {
                let last = pending.len().saturating_sub(8);
                latest.extend(pending[last..].iter().map(|store| (store.time, store.word)));
                fingerprint = fingerprint.wrapping_add(open.fingerprint());
                self.reopen(&open);
                lines.push(open);
                self.line_index[history.line as usize].set(lines.len() as u32);
            } else {
                fingerprint = fingerprint.wrapping_add(certain(history.line, &settled, initial));
            }
        }
        latest.sort_unstable_by_key(|&(time, _)| std::cmp::Reverse(time));
        self.path.borrow_mut().stored = latest.iter().take(16).map(|&(_, word)| word).collect();
        self.fingerprint.set(fingerprint);
    }

    /// Becomes the memory after a further power failure, during a recovery on `before`.
    pub(crate) fn crash_again(&self, before: &Self, crash: RecoveryCrash) {
        self.omitted.set(before.omitted.get());
        self.flush_on_fail.set(before.flush_on_fail.get());
        self.reference.borrow_mut().clone_from(&before.reference.borrow());
        self.per_word.set(before.per_word.get());
        self.close();
        for ((base, now), word) in self.base.iter().zip(self.now()).zip(&before.base) {
            base.set(word.get());
            now.set(word.get());
        }
        for (line, words) in crash.certain {
            for (i, &value) in words.iter().enumerate() {
                self.base[8 * line as usize + i].set(value);
                self.now()[8 * line as usize + i].set(value);
            }
        }
        let mut lines = self.lines.borrow_mut();
        *lines = crash.open;
        for (at, line) in lines.iter().enumerate() {
            self.line_index[line.line as usize].set(at as u32 + 1);
            self.reopen(line);
        }
        *self.unsettled.borrow_mut() = before.unsettled.borrow().clone();
        self.unsettled.borrow_mut().extend(crash.stored);
        self.fingerprint.set(crash.fingerprint);
    }

    /// Returns the pool as the present run sees it.
    fn now(&self) -> &[Cell<u64>] {
        self.window.words()
    }

    /// Makes every word certain.
    fn close(&self) {
        self.unsettled.borrow_mut().clear();
        self.path.borrow_mut().stored.clear();
        self.recording.set(false);
        self.restore(&[]);
        for line in self.lines.borrow_mut().drain(..) {
            let at = line.line as usize;
            self.line_index[at].set(0);
            self.open[at].set(0);
            (8 * at..8 * at + 8).for_each(|word| self.now()[word].set(self.base[word].get()));
        }
    }

    /// Returns a fingerprint of the crash: it is equal if the same words are open to the same values and all else is equal.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint.get()
    }

    /// Returns how many different states this power failure may leave, or `u128::MAX` if there are more: the product over the open lines. A search
    /// has fewer runs if recovery and judge do not load all of them.
    pub fn possible_states(&self) -> u128 {
        self.lines.borrow().iter().map(OpenLine::possible).fold(1, u128::saturating_mul)
    }

    /// Makes all words of an open line undecided.
    fn reopen(&self, line: &OpenLine) {
        line.reset();
        let at = line.line as usize;
        self.open[at].set(line.differ);
        let mut left = line.differ;
        while left != 0 {
            self.now()[8 * at + left.trailing_zeros() as usize].set(Window::CLOSED);
            left &= left - 1;
        }
    }

    /// Undoes the last run's stores and decisions except for the decisions `repeated`, with which it began. A line on which it has made only these
    /// stays as it is.
    fn restore(&self, repeated: &[Decision]) {
        let lines = self.lines.borrow();
        let count = self.dirty_count.get();
        let mut kept = 0;
        for i in 0..count {
            let line = self.dirty[i].get() as usize;
            if !repeated.is_empty() && self.touched[line].get() == Touched::Decided {
                self.dirty[kept].swap(&self.dirty[i]);
                kept += 1;
                continue;
            }
            let (now, base) = (&self.now().as_chunks::<8>().0[line], &self.base.as_chunks::<8>().0[line]);
            (0..8).for_each(|i| now[i].set(base[i].get()));
            if let Some(at) = self.line_index[line].get().checked_sub(1) {
                self.reopen(&lines[at as usize]);
            }
            self.touched[line].set(Touched::Untouched);
        }
        // Some of the restored lines have repeated decisions.
        let touched = |made: &Decision| &self.touched[made.word as usize / 8];
        for made in repeated.iter().filter(|made| touched(made).get() != Touched::Decided) {
            touched(made).set(Touched::Restored);
            self.settle_word(&lines, made.word as usize, made.value, true);
        }
        let unkept = kept..count;
        for i in unkept {
            let line = self.dirty[i].get();
            if self.touched[line as usize].get() == Touched::Restored {
                self.touched[line as usize].set(Touched::Decided);
                self.dirty[kept].set(line);
                kept += 1;
            }
        }
        self.dirty_count.set(kept);
        self.run.set(self.run.get().wrapping_add(1));
        if self.run.get() == 0 {
            self.volatile_tags.iter().for_each(|run| run.set(0));
            self.run.set(1);
        }
    }

    fn begin(&self) {
        self.restore(&[]);
        self.one_by_one.set(false);
        self.recording.set(false);
        self.pauses.set(0);
    }

    /// Begins the first run of a depth-first search.
    pub fn search(&self) {
        self.path.borrow_mut().begin(Chooser::Search);
        self.begin();
    }

    /// Begins the search's next run, and returns whether there is one. The run keeps the decisions that it shares with the last run. If the last run
    /// was recorded, it makes all of them again.
    pub fn next(&self) -> bool {
        let mut path = self.path.borrow_mut();
        let another = path.next(|undone| self.touch(undone.word as usize / 8, Touched::Changed));
        if another {
            if self.one_by_one.get() {
                path.unmake();
                self.restore(&[]);
            } else {
                self.restore(path.repeated());
            }
            self.recording.set(false);
            self.pauses.set(0);
        }
        another
    }

    /// Lets the present and later runs of a search make all their decisions one by one.
    fn decide_one_by_one(&self) {
        if !self.one_by_one.replace(true) {
            self.path.borrow_mut().unmake();
            self.restore(&[]);
        }
    }

    /// Resumes a search on an equal crash, at the run that `left` ([`CrashMemory::left`]) describes.
    pub(crate) fn resume(&self, left: Vec<Decision>) {
        self.path.borrow_mut().resume(left);
        self.begin();
    }

    /// Returns where a search is, after [`next`](CrashMemory::next) has advanced.
    pub(crate) fn left(&self) -> Vec<Decision> {
        self.path.borrow().left().to_vec()
    }

    /// Begins a run in which the open lines `lines` survive and all others are lost, or the other way round.
    pub(crate) fn lines(&self, lines: Vec<u32>, survive: bool) {
        self.path.borrow_mut().begin(Chooser::Lines { lines, survive });
        self.begin();
    }

    /// Returns the lines whose contents are not certain.
    pub(crate) fn open_lines(&self) -> Vec<u32> {
        self.lines.borrow().iter().map(|line| line.line).collect()
    }

    /// Begins a run that decides at random.
    pub fn random(&self, random: &mut Rng) {
        let mood = Mood::random(random);
        self.path.borrow_mut().begin(Chooser::Random(random.fork(), mood));
        self.begin();
    }

    /// Returns words other than data that were stored recently and may be lost.
    pub fn logged_lately(&self) -> Vec<u32> {
        let outside = |word: &&u32| !self.data.contains(&(**word as usize));
        self.path.borrow().stored.iter().filter(outside).copied().collect()
    }

    /// Begins a run that decides at random, but in which a record is torn at one of the words `logged`.
    pub fn torn(&self, logged: &[u32], random: &mut Rng) {
        let mood = Mood::torn(random, logged);
        self.path.borrow_mut().begin(Chooser::Random(random.fork(), mood));
        self.begin();
    }

    /// Begins a run that makes these decisions, and that chooses the newest value wherever they do not apply.
    pub fn given(&self, decisions: Vec<Decision>) {
        self.path.borrow_mut().begin(Chooser::Given(decisions, None));
        self.begin();
    }

    /// Returns the decisions of this run.
    pub fn decisions(&self) -> Vec<Decision> {
        self.path.borrow().made().to_vec()
    }

    /// Returns a fingerprint of this run's decisions: runs of one crash that decide differently have different ones.
    pub fn path(&self) -> u64 {
        self.path.borrow().number()
    }

    /// Returns the value of word `word`, which is decided now if it was open.
    pub fn load_word(&self, word: u32) -> u64 {
        let index = word as usize;
        if self.open[index / 8].get() >> (index % 8) & 1 == 1 {
            self.decide(index)
        } else {
            self.now()[index].get()
        }
    }

    /// Returns the words of transactions that recoveries before a further crash stored.
    pub fn stored_before(&self) -> Vec<u32> {
        self.unsettled.borrow().clone()
    }

    /// Returns the words of transactions in lines that this run stored to.
    pub fn stored(&self) -> impl Iterator<Item = u32> {
        let lines = self.dirty[..self.dirty_count.get()].iter().map(Cell::get);
        lines.filter(|&line| self.data.contains(&(8 * line as usize))).flat_map(|line| 8 * line..8 * line + 8)
    }

    /// Returns the word before recovery, if it was settled.
    pub fn before(&self, word: u32) -> u64 {
        self.base[word as usize].get()
    }

    /// Returns the pool before recovery, with this run's decisions and random ones on words that it did not load. Ends the run.
    pub fn survivors(&self, random: &mut Rng) -> Vec<u64> {
        let made = self.decisions();
        let mood = Mood::random(random);
        self.path.borrow_mut().begin(Chooser::Given(made.clone(), Some((random.fork(), mood))));
        self.begin();
        // Repeats the run's decisions first, in their order, so that each finds the same choices.
        for decision in &made {
            self.load_word(decision.word);
        }
        self.all_words()
    }

    /// Returns the pool as this run sees it; all open words are decided now.
    pub fn all_words(&self) -> Vec<u64> {
        (0..self.base.len() as u32).map(|word| self.load_word(word)).collect()
    }

    #[inline(never)]
    fn decide(&self, index: usize) -> u64 {
        let lines = self.lines.borrow();
        let mut path = self.path.borrow_mut();
        let at = self.line_index[index / 8].get() - 1;
        let (line, word) = (&lines[at as usize], index % 8);
        let mut choices = self.choices.borrow_mut();
        let decided = path.repeat(index as u32).or_else(|| {
            line.values(word, &mut choices);
            (choices.len() > 1).then(|| path.choose(index as u32, &choices))
        });
        let value = decided.unwrap_or_else(|| choices[0].1);
        self.touch(index / 8, Touched::Decided);
        self.settle_word(&lines, index, value, decided.is_some());
        if self.recording.get() {
            self.recorder.borrow_mut().decided.push((index as u32, value));
        }
        value
    }

    /// Notes that the open word `index` holds `value` from now on: by a decision, which narrows its line, or because no other value is left.
    fn settle_word(&self, lines: &[OpenLine], index: usize, value: u64, is_decision: bool) {
        let at = self.line_index[index / 8].get() - 1;
        let (line, word) = (&lines[at as usize], index % 8);
        let open = &self.open[index / 8];
        let mut left = open.get() & !(1 << word);
        self.now()[index].set(value);
        if is_decision {
            line.narrow(word, value);
            // Notes the words that this settles, so that they need not be looked up later.
            if left != 0
                && let Some((state, certain)) = line.certain_words()
            {
                for i in (0..8).filter(|i| left & certain & 1 << i != 0) {
                    self.now()[index - word + i].set(state[i]);
                }
                left &= !certain;
            }
        }
        open.set(left);
    }

    fn touch(&self, line: usize, how: Touched) {
        let touched = &self.touched[line];
        if touched.get() == Touched::Untouched {
            let count = self.dirty_count.get();
            self.dirty[count].set(line as u32);
            self.dirty_count.set(count + 1);
        }
        if touched.get() != Touched::Changed {
            touched.set(how);
        }
    }

    fn access(&self, space: Space, offset: u64) -> usize {
        let index = offset.rotate_right(3) as usize;
        let words = match space {
            Space::Persistent => self.base.len(),
            Space::Volatile => self.volatile.len(),
        };
        assert!(index < words, "{space:?} access at offset {offset:#x} is outside its space");
        index
    }

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

    fn store(&self, space: Space, offset: u64, value: u64) {
        let index = self.access(space, offset);
        match space {
            Space::Persistent => {
                if self.recording.get() && self.flush_on_fail.get() && self.now()[index].get() != value {
                    self.crash_here();
                }
                self.touch(index / 8, Touched::Changed);
                let open = &self.open[index / 8];
                if open.get() != 0 {
                    open.set(open.get() & !(1 << (index % 8)));
                }
                self.now()[index].set(value);
                if self.recording.get() {
                    self.recorder.borrow_mut().store(index, value);
                    self.note(Operation::Store(space, offset, value));
                }
            }
            Space::Volatile => {
                self.volatile_tags[index].set(self.run.get());
                self.volatile[index].set(value);
            }
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

/// Returns the open line `line`, which durably holds `settled` and whose `pending` stores may survive or not.
fn open_line(line: u32, settled: [u64; 8], pending: &[Store], setting: Setting) -> Option<OpenLine> {
    if setting == Setting::Word {
        let mut words = settled.map(|value| vec![value]);
        pending.iter().for_each(|store| push_newest(&mut words[store.word as usize % 8], store.value));
        return OpenLine::of_words(line, &words);
    }
    let mut states = Vec::with_capacity(pending.len() + 1);
    let mut state = settled;
    states.push(state);
    for store in pending {
        state[store.word as usize % 8] = store.value;
        push_new(&mut states, state);
    }
    OpenLine::of_lines(line, states)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use strandline_core::memory::coroutines::Thread;
    use strandline_core::memory::{Hosted, Memory, PersistentAddress};

    use super::*;
    use crate::x86::{Policy, X86World};

    const WORDS: usize = 32;

    /// Returns the trace of a thread that makes these stores (word, value). It writes the line back after every third store, and sometimes fences.
    fn trace(stores: &[(u64, u64)], setting: Setting) -> Trace {
        let world = Rc::new(X86World::new(vec![0; WORDS], 64, 0..WORDS, 1, setting, None));
        let body: Thread<'_> = Box::new(|memory: &Hosted| {
            for (number, &(word, value)) in stores.iter().enumerate() {
                let at = PersistentAddress::new(8 * word);
                memory.store(at, value);
                if number % 3 == 2 {
                    memory.write_back(at, Step::CommitWriteBack);
                }
                if number % 5 == 4 {
                    memory.fence(Step::CommitFence);
                }
            }
        });
        world.run(vec![body], Policy::Random { every: 5 }, 1);
        world.finish()
    }

    /// Counts the different contents of the pool after a crash by enumeration.
    fn enumerated(memory: &CrashMemory) -> u128 {
        let mut states = BTreeSet::new();
        memory.search();
        loop {
            states.insert(memory.all_words());
            if !memory.next() {
                return states.len() as u128;
            }
        }
    }

    #[test]
    fn possible_states_are_those_that_an_enumeration_finds() {
        let random = &mut Rng::with_seed(7);
        let mut most = [1; 3];
        for _ in 0..200 {
            let mut store = || (random.u64(..WORDS as u64), random.u64(..3));
            let stores: Vec<_> = (0..8).map(|_| store()).collect();
            for (setting, most) in Setting::ALL.into_iter().zip(&mut most) {
                let trace = trace(&stores, setting);
                let memory = CrashMemory::new(WORDS, 64, 0..WORDS);
                for (number, &point) in trace.points.iter().enumerate() {
                    memory.crash(&trace, point, setting, None, number == 0);
                    let possible = memory.possible_states();
                    assert_eq!(possible, enumerated(&memory), "{setting} at {point}: {stores:?}");
                    assert_eq!(memory.possible_states(), possible, "decisions do not matter");
                    *most = possible.max(*most);
                }
            }
        }
        let of = |setting| most[Setting::ALL.iter().position(|&other| other == setting).unwrap()];
        assert!(of(Setting::Line) >= 32 && of(Setting::Word) >= of(Setting::Line), "{most:?}");
        assert_eq!(of(Setting::FlushOnFail), 1);
    }

    /// Runs a recovery that loads some words more than once, skips others, and stores between its loads.
    fn recover(memory: &Hosted, order: &[u64]) -> Vec<u64> {
        let loads = order.iter().enumerate().map(|(number, &word)| {
            let at = PersistentAddress::new(8 * word);
            if number % 4 == 3 {
                memory.store(PersistentAddress::new(8 * order[number / 2]), 100 + memory.load(at) % 2);
            }
            memory.load(at)
        });
        loads.collect()
    }

    /// A search has the same runs whether decisions are repeated all together or, if power may fail in recovery, one by one.
    #[test]
    fn a_search_repeats_the_same_decisions_at_once_or_one_by_one() {
        let random = &mut Rng::with_seed(8);
        let mut runs = 0;
        for number in 0..300 {
            let mut word = || random.u64(..WORDS as u64);
            let stores: Vec<_> = (0..8).map(|value| (word(), value % 3)).collect();
            let order: Vec<_> = (0..20).map(|_| word()).collect();
            let setting = if number % 2 == 0 { Setting::Line } else { Setting::Word };
            let trace = trace(&stores, setting);
            let runs_of = |records: bool| {
                let memory = Rc::new(CrashMemory::new(WORDS, 64, 0..WORDS));
                memory.crash(&trace, trace.time, setting, None, true);
                memory.search();
                let mut found = Vec::new();
                loop {
                    if records {
                        memory.record();
                    }
                    let loaded = recover(&Hosted::new(memory.clone(), 0), &order);
                    found.push((
                        loaded,
                        memory.decisions(),
                        memory.path(),
                        memory.stored().collect::<Vec<_>>(),
                    ));
                    if !memory.next() {
                        return found;
                    }
                }
            };
            let mut found = [runs_of(false), runs_of(true)];
            runs += found[0].len();
            // The lines that were stored to may come in any order.
            found.iter_mut().flatten().for_each(|run| run.3.sort_unstable());
            assert_eq!(found[0], found[1], "{stores:?} {order:?}");
        }
        assert!(runs > 1000, "{runs}");
    }

    #[test]
    fn more_states_than_can_be_counted_are_the_greatest_number() {
        let stores: Vec<_> = (0..2048).map(|word| (word, 1)).collect();
        let words = stores.len();
        let world = Rc::new(X86World::new(vec![0; words], 64, 0..words, 1, Setting::Word, None));
        let body: Thread<'_> = Box::new(|memory: &Hosted| {
            stores.iter().for_each(|&(word, value)| memory.store(PersistentAddress::new(8 * word), value));
        });
        world.run(vec![body], Policy::Random { every: 5 }, 1);
        let trace = world.finish();
        let memory = CrashMemory::new(words, 64, 0..words);
        memory.crash(&trace, trace.time, Setting::Word, None, true);
        assert_eq!(memory.possible_states(), u128::MAX);
    }
}
