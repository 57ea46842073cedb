//! Explores the crashes of runs. A [`Judge`] recovers from each crash and judges the result. An [`Explorer`] chooses and counts crashes, and reduces
//! the violation that it finds to an understandable size.
//!
//! [`Explorer::some_states`] samples the crashes of one run, [`exhaust`] explores all schedules of some threads and all their crashes. The runs come
//! from an [`X86World`](super::X86World).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::time::Instant;

use fastrand::Rng;
use strandline_core::memory::{Step, World};

use super::crash::{CrashMemory, Decision, RecoveryCrash};
pub use super::exhaustion::{Bounds, exhaust};
use super::missing_flush::{Missing, Trial, missing};
use super::mix;
use super::panics::Stopped;
use super::schedule::ChoicePoint;
use super::story;
use super::trace::Trace;
pub use crate::counts::Counts;
use crate::{Session, Setting};

/// A run whose crashes are explored.
pub trait Lived {
    /// Returns the trace of the run.
    fn trace(&self) -> &Trace;
    /// Returns when the threads began.
    fn began(&self) -> u32;
    /// Returns the choice points of a guided run.
    fn choices(&self) -> &[ChoicePoint];
    /// Returns the lines that turned out to be shared between threads.
    fn found_shared(&self) -> &BTreeSet<u32>;
}

/// Recovers after a crash and judges the result. Implemented by a scheme with its oracle, and by checked programs.
pub trait Judge {
    /// The runs that it judges.
    type Life: Lived;
    /// The expected states after a crash at one point.
    type Expected;

    /// Creates memory for crashes of its runs.
    fn memory(&self) -> CrashMemory;

    /// Returns which parts of a line may survive.
    fn setting(&self) -> Setting;

    /// Returns the step that its recovery leaves out.
    fn omitted(&self) -> Option<Step> {
        None
    }

    /// Returns how much to sample at one crash.
    fn tries(&self) -> &'static Tries;

    /// Notes that the crashes of another run follow.
    fn begin_run(&mut self) {}

    /// Returns the expected states after a crash of `life` at `time`.
    fn expected(&mut self, life: &Self::Life, time: u32) -> Rc<Self::Expected> {
        Rc::new(self.expected_of(life, life.trace(), time))
    }

    /// Returns the expected states after a crash at `time` of `trace`, a changed history of `life`.
    fn expected_of(&self, life: &Self::Life, trace: &Trace, time: u32) -> Self::Expected;

    /// Returns a fingerprint of the expected states.
    fn fingerprint(expected: &Self::Expected) -> u64;

    /// Runs recovery on `world`.
    ///
    /// # Errors
    /// Returns an error if recovery fails or panics.
    fn recover(&self, world: &Rc<dyn World>) -> Result<(), String>;

    /// Checks the memory that recovery has left. It is passed both as itself and as a world.
    ///
    /// # Errors
    /// Returns what is wrong.
    fn verdict(
        &mut self,
        memory: &(Rc<CrashMemory>, Rc<dyn World>),
        life: &Self::Life,
        expected: &Self::Expected,
    ) -> Result<(), String>;

    /// Returns a description of a word of the pool.
    fn describe(&self, word: u32) -> String;

    /// Returns a judge of the same runs that has judged nothing yet, for changed histories that are tried to find a violation's cause.
    fn fresh(&self) -> Self;
}

/// A state that recovery does not repair.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Violation {
    /// The oracle's objection, in a sentence.
    pub what: String,
    /// The history up to the crash, one operation to a line.
    pub history: Vec<String>,
    /// The stores that did not survive, and the values that survived in their place.
    pub lost: Vec<String>,
    /// The write-back and the fence whose lack has this effect: the store, and the operation that comes too early.
    pub missing: String,
    /// The stores of recovery to the data, one line for each word.
    pub recovery: Vec<String>,
    /// The number of operations that the history has, a measure of its size.
    pub length: usize,
}

/// A violation, and the crash that shows it.
#[derive(Default)]
pub struct Broken {
    /// Its presentation for a report.
    pub violation: Violation,
    /// When power failed first.
    pub(crate) time: u32,
    /// For each power failure the decisions (for the last one, only the necessary losses), and after how many operations of recovery the next failure
    /// came.
    pub(crate) crashes: Vec<(Vec<Decision>, usize)>,
    /// The missing write-back and fence, if they were looked for and found.
    pub(crate) missing: Option<Missing>,
    /// The choices of its schedule, if the run is guided or can be.
    pub(crate) schedule: Vec<(u32, usize)>,
    /// Why the run stopped early, if that is the fault.
    pub(crate) stopped: Option<Stopped>,
    /// True if recovery itself fails.
    pub(crate) recovery_stopped: bool,
    /// The operations of the last recovery, one per line.
    pub(crate) recovery: Vec<String>,
}

/// Converts a violation that needs no crash: the run itself fails.
impl From<Box<Violation>> for Box<Broken> {
    fn from(violation: Box<Violation>) -> Self {
        Box::new(Broken { violation: *violation, ..Broken::default() })
    }
}

impl From<Box<Broken>> for Box<Violation> {
    fn from(broken: Box<Broken>) -> Self {
        Box::new(broken.violation)
    }
}

/// Explores crashes of runs of one judge.
pub struct Explorer<J: Judge> {
    /// The judge of the crashes.
    pub judge: J,
    /// The memory after the first power failure, after the one in its recovery, and so on.
    memories: Vec<(Rc<CrashMemory>, Rc<dyn World>)>,
    /// For each further power failure in progress, how many operations of recovery precede it.
    crashes: Vec<usize>,
    /// Fingerprints of everything that matters at the crash points already explored, with the number of further power failures that were allowed
    /// there.
    seen: HashMap<u64, usize>,
    fresh: bool,
    /// Fingerprints of the crashes and decisions of sampled runs.
    judged: HashSet<u64>,
    /// At how many points power could have failed in the last recovery with such failures.
    recovery_crashes: u32,
    /// The expected states after the present crash.
    expected: Option<Rc<J::Expected>>,
    /// The number of states that were judged, including repetitions.
    work: u64,
    /// The counts of the exploration.
    pub counts: Counts,
    /// The session that can end exploration early.
    pub session: Session,
    /// About how many states may be judged in total.
    pub(crate) most: u64,
}

/// How much is sampled at one crash.
pub struct Tries {
    /// The number of states of a crash point that are searched on its first visit, before other points are visited (exhaustive exploration).
    pub visit: u64,
    /// The number of runs that search depth first, beginning with the oldest values.
    pub first: usize,
    /// The number of random runs that follow, at most; they end earlier once a few of them have repeated earlier ones.
    pub random: usize,
    /// The number of recoveries that have a power failure themselves.
    pub recoveries: usize,
    /// The number of runs that try a repair, half of them random.
    pub repaired: usize,
}

/// Tries that suit most judges.
pub const TRIES: Tries = Tries { visit: 1024, first: 128, random: 64, recoveries: 2, repaired: 4000 };
const REPEATED_RUNS: usize = 4;
/// The number of runs with something torn that a crash gets.
const TORN_RUNS: usize = 12;
/// The number of power failures in each of these recoveries, and of runs after each failure.
const RECOVERY_CRASHES: usize = 2;
const RECOVERED_RUNS: usize = 8;
/// A guess for the first recovery of a pool: its fences and its end.
const RECOVERY_CRASHES_GUESS: u32 = 4;

/// The number of runs of recovery between two checks of the time.
const PATIENCE: u64 = 64;

/// How a search of a crash's states ended.
enum Searched {
    /// All states were searched.
    Whole,
    /// The search can continue where it stopped.
    Stopped,
    /// A crash in recovery has more states than were judged: the search has to restart.
    Cut,
}

/// How far the exploration of one crash point goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// The number of states that are judged at one crash point, at most.
    pub states: u64,
    /// How often power may fail during recovery, at most; each further failure happens in the recovery from the one before.
    pub recovery_crashes: usize,
    /// When to stop.
    pub until: Instant,
}

impl<J: Judge> Explorer<J> {
    /// Creates an explorer that has explored nothing yet.
    pub fn new(judge: J) -> Self {
        Self {
            judge,
            memories: Vec::new(),
            crashes: Vec::new(),
            seen: HashMap::new(),
            fresh: true,
            judged: HashSet::new(),
            recovery_crashes: RECOVERY_CRASHES_GUESS,
            expected: None,
            work: 0,
            counts: Counts::default(),
            session: Session::default(),
            most: u64::MAX,
        }
    }

    /// Forgets explored crash points, so that those of another pool are explored even if equal ones were.
    pub fn forget(&mut self) {
        self.seen.clear();
        self.judged.clear();
        // Results for a pool must depend on its seed alone.
        self.recovery_crashes = RECOVERY_CRASHES_GUESS;
    }

    /// Begins another run: the crashes that follow belong to it.
    pub fn begin_run(&mut self) {
        self.judge.begin_run();
        self.fresh = true;
        self.counts.histories += 1;
    }

    fn memory(&mut self, level: usize) -> Rc<CrashMemory> {
        while self.memories.len() <= level {
            let memory = Rc::new(self.judge.memory());
            self.memories.push((memory.clone(), memory));
        }
        self.memories[level].0.clone()
    }

    /// Runs recovery on the memory of `level`.
    fn recover(&self, level: usize) -> Result<(), String> {
        self.judge.recover(&self.memories[level].1)
    }

    /// Asks the oracle about the memory that recovery has left.
    fn verdict(&mut self, level: usize, life: &J::Life, expected: &J::Expected) -> Result<(), String> {
        self.judge.verdict(&self.memories[level], life, expected)?;
        self.work += 1;
        self.counts.states += 1;
        self.counts.nested += u64::from(level > 0);
        Ok(())
    }

    /// Runs recovery, then the oracle.
    fn judge_run(&mut self, level: usize, life: &J::Life, expected: &J::Expected) -> Result<(), String> {
        self.recover(level)?;
        self.verdict(level, life, expected)
    }

    fn crash(&mut self, trace: &Trace, time: u32) -> Rc<CrashMemory> {
        let memory = self.memory(0);
        memory.crash(trace, time, self.judge.setting(), self.judge.omitted(), self.fresh);
        self.fresh = false;
        self.counts.points += 1;
        memory
    }

    /// Goes to the crash of `life` at `time`, and returns how many states it may have. Returns `None` if an equal crash was explored with at least as
    /// many further crashes.
    pub(crate) fn arrive(&mut self, life: &J::Life, time: u32, depth: Depth) -> Option<u64> {
        let expected = self.judge.expected(life, time);
        let memory = self.crash(life.trace(), time);
        if !self.is_new(memory.fingerprint(), &expected, depth.recovery_crashes) {
            self.counts.points -= 1;
            self.counts.equal_points += 1;
            return None;
        }
        self.expected = Some(expected);
        let possible = u64::try_from(memory.possible_states()).unwrap_or(u64::MAX);
        self.counts.possible = self.counts.possible.saturating_add(possible);
        Some(possible)
    }

    /// Returns to a crash point of `life` that was explored before.
    pub(crate) fn return_to(&mut self, life: &J::Life, time: u32) {
        self.expected = Some(self.judge.expected(life, time));
        self.crash(life.trace(), time);
        self.counts.points -= 1;
    }

    /// Returns to a run that was explored before.
    pub(crate) fn rejoin(&mut self) {
        self.begin_run();
        self.counts.histories -= 1;
    }

    /// Returns the open lines of the present crash, of `life` at `time`, beginning with the last one stored to.
    pub(crate) fn lines_by_time(&mut self, life: &J::Life, time: u32) -> Vec<u32> {
        let stored = |line: u32| {
            let stores = life.trace().line(line).map_or(&[][..], |line| &line.stores);
            stores.iter().rev().find(|store| store.time <= time).map_or(0, |store| store.time)
        };
        let mut lines = self.memory(0).open_lines();
        lines.sort_by_cached_key(|&line| (std::cmp::Reverse(stored(line)), line));
        lines
    }

    /// Judges the state of the present crash in which the lines of `set` survive or are lost, or a random state if there is no set. Returns whether
    /// it counts, which it does if no earlier run made the same decisions.
    ///
    /// # Errors
    /// Returns a violation.
    pub(crate) fn try_one(
        &mut self,
        life: &J::Life,
        time: u32,
        set: Option<(Vec<u32>, bool)>,
        random: &mut Rng,
    ) -> Result<bool, Box<Broken>> {
        let memory = self.memory(0);
        match set {
            Some((lines, survive)) => memory.lines(lines, survive),
            None => memory.random(random),
        }
        self.crashes.clear();
        let expected = self.at_hand(life, time);
        self.judge_once(0, life, &expected, time)
    }

    fn at_hand(&mut self, life: &J::Life, time: u32) -> Rc<J::Expected> {
        self.expected.clone().unwrap_or_else(|| self.judge.expected(life, time))
    }

    /// Searches the present crash, of `life` at `time`, and further crashes in recovery until about so many states are judged. Begins where an
    /// earlier search stopped, or at the beginning. Returns where it stopped, if it is not complete; an empty place means that it has to restart with
    /// more states.
    ///
    /// # Errors
    /// Returns a violation.
    pub(crate) fn search_on(
        &mut self,
        life: &J::Life,
        time: u32,
        from: Option<Vec<Decision>>,
        depth: Depth,
        states: u64,
    ) -> Result<Option<Vec<Decision>>, Box<Broken>> {
        let memory = self.memory(0);
        match from {
            Some(left) => memory.resume(left),
            None => memory.search(),
        }
        self.crashes.clear();
        let expected = self.at_hand(life, time);
        Ok(match self.search(0, life, &expected, time, (depth, states))? {
            Searched::Whole => None,
            Searched::Stopped => Some(memory.left()),
            Searched::Cut => Some(Vec::new()),
        })
    }

    /// Returns whether this crash has not been explored yet with at least `left` further crashes.
    fn is_new(&mut self, fingerprint: u64, expected: &J::Expected, left: usize) -> bool {
        let before = self.seen.entry(mix(fingerprint, J::fingerprint(expected))).or_insert(0);
        let new = *before < left + 1;
        *before = (*before).max(left + 1);
        new
    }

    /// Searches the states of the memory of `level`, beginning with its present state, until about so many are judged.
    fn search(
        &mut self,
        level: usize,
        life: &J::Life,
        expected: &J::Expected,
        time: u32,
        (depth, states): (Depth, u64),
    ) -> Result<Searched, Box<Broken>> {
        let memory = self.memory(level);
        let upto = self.work.saturating_add(states);
        let (mut judged, mut is_cut) = (0u64, false);
        loop {
            let deeper = level < depth.recovery_crashes;
            if deeper {
                memory.record();
            }
            self.recover(level).map_err(|what| self.violation(level, life, expected, time, what))?;
            if deeper {
                for crash in memory.recorded() {
                    let left = depth.recovery_crashes - level - 1;
                    let fingerprint = crash.fingerprint;
                    if !self.is_new(fingerprint, expected, left) {
                        self.counts.equal_recovery_points += 1;
                        continue;
                    }
                    let counts = self.counts;
                    self.counts.recovery_points += 1;
                    self.crashes.push(crash.operations);
                    let again = self.memory(level + 1);
                    again.crash_again(&memory, crash);
                    again.search();
                    let searched = self.search(level + 1, life, expected, time, (depth, states))?;
                    self.crashes.pop();
                    if !matches!(searched, Searched::Whole) {
                        // It will be searched again, and is counted then.
                        is_cut = true;
                        self.seen.remove(&mix(fingerprint, J::fingerprint(expected)));
                        self.counts = counts;
                    }
                }
            }
            self.verdict(level, life, expected)
                .map_err(|what| self.violation(level, life, expected, time, what))?;
            judged += 1;
            if !memory.next() {
                return Ok(if is_cut { Searched::Cut } else { Searched::Whole });
            }
            if self.work >= upto || (judged.is_multiple_of(PATIENCE) && self.is_over(depth)) {
                return Ok(if is_cut { Searched::Cut } else { Searched::Stopped });
            }
        }
    }

    /// Judges some states of a crash of `life` at `time`, each once, unless an equal crash was explored; power then fails `nested` more times in
    /// recovery. With `next`, returns what memory may hold before the last recovery, for the next life.
    ///
    /// # Errors
    /// Returns a violation.
    pub fn some_states(
        &mut self,
        life: &J::Life,
        time: u32,
        nested: usize,
        next: bool,
        random: &mut Rng,
    ) -> Result<Option<Vec<u64>>, Box<Broken>> {
        let expected = self.judge.expected(life, time);
        let mut memory = self.crash(life.trace(), time);
        self.crashes.clear();
        if self.is_new(memory.fingerprint(), &expected, 0) {
            self.different_states(life, &expected, time, random)?;
        } else {
            self.counts.points -= 1;
            self.counts.equal_points += 1;
        }
        for level in 0..nested {
            let deeper = self.memory(level + 1);
            let mut last = 0;
            for _ in 0..self.judge.tries().recoveries {
                memory.random(random);
                // How often power might have failed in the last recovery is an estimate for this one.
                let wanted = (0..RECOVERY_CRASHES).map(|_| random.u32(..self.recovery_crashes));
                memory.record_some(wanted.collect());
                self.recover(level).map_err(|what| self.violation(level, life, &expected, time, what))?;
                let crashes = memory.recorded();
                self.recovery_crashes = memory.crashes_counted().max(1);
                for crash in crashes {
                    self.counts.recovery_points += 1;
                    last = crash.operations;
                    self.crashes.push(last);
                    deeper.crash_again(&memory, crash);
                    for _ in 0..RECOVERED_RUNS {
                        deeper.random(random);
                        if !self.judge_once(level + 1, life, &expected, time)? {
                            break;
                        }
                    }
                    self.crashes.pop();
                }
            }
            // The next power failure, or the next life, begins here.
            self.crashes.push(last);
            memory = deeper;
        }
        Ok(next.then(|| memory.survivors(random)))
    }

    /// Repeats the state that `crashes` leave of `life`, the first of them at `time` ([`Broken::crashes`]). Does nothing if the program does not
    /// reach these crashes any more.
    ///
    /// # Errors
    /// Returns a violation.
    pub(crate) fn replay(
        &mut self,
        life: &J::Life,
        time: u32,
        crashes: &[(Vec<Decision>, usize)],
    ) -> Result<(), Box<Broken>> {
        let expected = self.judge.expected(life, time);
        let mut memory = self.crash(life.trace(), time);
        self.crashes.clear();
        for (level, (decisions, operations)) in crashes.iter().enumerate() {
            memory.given(decisions.clone());
            if level + 1 == crashes.len() {
                return self
                    .judge_run(level, life, &expected)
                    .map_err(|what| self.violation(level, life, &expected, time, what));
            }
            memory.record();
            self.recover(level).map_err(|what| self.violation(level, life, &expected, time, what))?;
            let here = |crash: &RecoveryCrash| crash.operations == *operations;
            let Some(crash) = memory.recorded().into_iter().find(here) else { break };
            self.crashes.push(*operations);
            let deeper = self.memory(level + 1);
            deeper.crash_again(&memory, crash);
            memory = deeper;
        }
        Ok(())
    }

    /// Judges some states of a crash of `life` at `time` in which a record is torn, if at least `least` words of records may be lost. Returns what
    /// memory may hold before recovery, for the next life.
    ///
    /// # Errors
    /// Returns a violation.
    pub fn torn_states(
        &mut self,
        life: &J::Life,
        time: u32,
        least: usize,
        random: &mut Rng,
    ) -> Result<Option<Vec<u64>>, Box<Broken>> {
        let expected = self.judge.expected(life, time);
        let memory = self.crash(life.trace(), time);
        self.crashes.clear();
        let logged = memory.logged_lately();
        if logged.len() < least {
            self.counts.points -= 1;
            return Ok(None);
        }
        for _ in 0..TORN_RUNS {
            memory.torn(&logged, random);
            self.judge_once(0, life, &expected, time)?;
        }
        memory.torn(&logged, random);
        Ok(Some(memory.all_words()))
    }

    /// Judges one run. It counts unless another run made the same decisions on an equal crash; returns whether it counts.
    fn judge_once(
        &mut self,
        level: usize,
        life: &J::Life,
        expected: &J::Expected,
        time: u32,
    ) -> Result<bool, Box<Broken>> {
        self.judge_run(level, life, expected)
            .map_err(|what| self.violation(level, life, expected, time, what))?;
        let memory = &self.memories[level].0;
        let crash = mix(memory.fingerprint(), J::fingerprint(expected));
        let new = self.judged.insert(mix(mix(crash, memory.path()), level as u64));
        if !new {
            self.counts.states -= 1;
            self.counts.nested -= u64::from(level > 0);
        }
        Ok(new)
    }

    /// Judges all states of the present crash, or some of them, each once.
    fn different_states(
        &mut self,
        life: &J::Life,
        expected: &J::Expected,
        time: u32,
        random: &mut Rng,
    ) -> Result<(), Box<Broken>> {
        let memory = self.memory(0);
        memory.search();
        for _ in 0..self.judge.tries().first {
            self.judge_once(0, life, expected, time)?;
            if !memory.next() {
                return Ok(());
            }
        }
        let mut repeated = 0;
        for _ in 0..self.judge.tries().random {
            memory.random(random);
            repeated += usize::from(!self.judge_once(0, life, expected, time)?);
            if repeated > REPEATED_RUNS {
                break;
            }
        }
        self.counts.cut_short += 1;
        Ok(())
    }

    /// Reduces the violation that has just been found until as much as possible survives, and builds its report.
    fn violation(
        &mut self,
        level: usize,
        life: &J::Life,
        expected: &J::Expected,
        time: u32,
        what: String,
    ) -> Box<Broken> {
        let counts = self.counts;
        let memory = self.memory(level);
        let (kept, mut what) = self.fewest_losses(level, life, expected, what);
        memory.given(kept.clone());
        memory.record();
        let recovery_stopped = self.recover(level).is_err();
        let recovery = story::recovery(&memory.recorded_operations(), |word| self.judge.describe(word));
        memory.given(kept);
        if let Err(last) = self.judge_run(level, life, expected) {
            what = last;
        }
        let lost_words = memory.decisions();
        let lost_words: Vec<Decision> = lost_words.into_iter().filter(Decision::is_loss).collect();
        let mut history = story::history(life.trace(), life.began(), time, |word| self.judge.describe(word));
        let mut lost = Vec::new();
        let recovered = self.recovery_story(level);
        let mut told = story::lost(&memory.decisions(), |word| self.judge.describe(word));
        let mut trial = Trying { explorer: Explorer::new(self.judge.fresh()), life };
        let missing = if level == 0 { missing(life.trace(), time, &lost_words, &mut trial) } else { None };
        let advice = if level == 0 {
            story::missing(life.trace(), missing.as_ref(), |word| self.judge.describe(word))
        } else {
            "not looked for where power fails in recovery".to_owned()
        };
        self.counts = counts;
        let mut crashes = self.earlier_crashes(level, &mut history, &mut lost);
        crashes.push((lost_words, 0));
        if level > 0 {
            what += &format!(" (power failed {level} times more, in recovery)");
            lost.push("lost in recovery:".into());
        }
        lost.append(&mut told);
        let length = history.len();
        let violation = Violation { what, lost, missing: advice, recovery: recovered, length, history };
        Box::new(Broken {
            violation,
            time,
            crashes,
            missing,
            recovery_stopped,
            recovery,
            ..Broken::default()
        })
    }

    /// Returns losses that violate the expectation and of which none can be left out, and what is wrong then.
    fn fewest_losses(
        &mut self,
        level: usize,
        life: &J::Life,
        expected: &J::Expected,
        mut what: String,
    ) -> (Vec<Decision>, String) {
        let memory = self.memory(level);
        let mut kept: Vec<Decision> = memory.decisions().into_iter().filter(Decision::is_loss).collect();
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.remove(at);
            memory.given(fewer.clone());
            match self.judge_run(level, life, expected) {
                Err(still) => (kept, what) = (fewer, still),
                Ok(()) => at += 1,
            }
        }
        (kept, what)
    }

    /// Adds the power failures before the one at `level` to `history`, and their losses to `lost`. Returns them.
    fn earlier_crashes(
        &self,
        level: usize,
        history: &mut Vec<String>,
        lost: &mut Vec<String>,
    ) -> Vec<(Vec<Decision>, usize)> {
        let mut crashes = Vec::new();
        for (level, &operations) in self.crashes.iter().enumerate().take(level) {
            let memory = &self.memories[level].0;
            crashes.push((memory.decisions(), operations));
            lost.extend(story::lost(&memory.decisions(), |word| self.judge.describe(word)));
            history.push(format!("power fails; recovery number {} begins", level + 1));
            history.extend(story::recovery(&memory.recorded_operations()[..operations], |word| {
                self.judge.describe(word)
            }));
        }
        crashes
    }

    /// Returns the words of transactions that recovery stored in the present run.
    fn recovery_story(&self, level: usize) -> Vec<String> {
        let memory = &self.memories[level].0;
        let mut story: Vec<String> = memory
            .stored()
            .filter(|&word| memory.load_word(word) != memory.before(word))
            .take(30)
            .map(|word| format!("stored {} = {:#x}", self.judge.describe(word), memory.load_word(word)))
            .collect();
        if story.is_empty() {
            story.push("replayed nothing".into());
        }
        story
    }
}

/// Tries which operations would prevent a violation.
struct Trying<'a, J: Judge> {
    explorer: Explorer<J>,
    life: &'a J::Life,
}

impl<J: Judge> Trying<'_, J> {
    fn crash(&mut self, trace: &Trace, time: u32) -> (Rc<CrashMemory>, J::Expected) {
        self.explorer.fresh = true;
        let expected = self.explorer.judge.expected_of(self.life, trace, time);
        (self.explorer.crash(trace, time), expected)
    }
}

impl<J: Judge> Trial for Trying<'_, J> {
    fn violates(&mut self, trace: &Trace, time: u32, lost: &[Decision]) -> bool {
        let (memory, expected) = self.crash(trace, time);
        memory.given(lost.to_vec());
        self.explorer.judge_run(0, self.life, &expected).is_err()
    }

    fn any_violates(&mut self, trace: &Trace, time: u32) -> bool {
        let (memory, expected) = self.crash(trace, time);
        let mut random = Rng::with_seed(time.into());
        memory.search();
        let runs = self.explorer.judge.tries().repaired;
        for run in 0..runs {
            if run >= runs / 2 {
                memory.random(&mut random);
            }
            if self.explorer.judge_run(0, self.life, &expected).is_err() {
                return true;
            }
            if run < runs / 2 && !memory.next() {
                return false;
            }
        }
        false
    }
}
