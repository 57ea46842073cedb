//! Judging the crashes of a life, counting them, and telling a violation so that it can be understood.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Instant;

use fastrand::Rng;
use strandline_core::layout::Layout;
use strandline_core::log::RECORD_BLOCKS;
use strandline_core::memory::{Hosted, World};
use strandline_core::scheme::recover;
use strandline_structures::model::Contents;

use super::life::{Ground, Life, contents, in_recovery};
use super::oracle::Expectation;
use super::workload::apply;
use crate::x86::crash::{CrashMemory, Decision};
use crate::x86::missing::{Trial, missing};
use crate::x86::story;
use crate::x86::trace::Trace;
use crate::x86::{mix, panic_text};

/// What was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Histories: runs of the threads.
    pub histories: u64,
    /// States of a schedule, with who goes on in them, that differ (exhaustive).
    pub schedule_states: u64,
    /// Crash points tried.
    pub points: u64,
    /// Crash points left out because an equal one was tried before: the same words open to the same values,
    /// the same expectation.
    pub equal_points: u64,
    /// Crash points in recoveries, likewise.
    pub recovery_points: u64,
    /// As `equal_points`, of crash points in recoveries.
    pub equal_recovery_points: u64,
    /// Crash states judged: recoveries run to their end and judged.
    pub states: u64,
    /// Those of `states` in which power had failed during recovery too.
    pub nested: u64,
    /// Crash points with more states than the bound, of which only as many as the bound were judged.
    pub cut_short: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.histories += more.histories;
        self.schedule_states += more.schedule_states;
        self.points += more.points;
        self.equal_points += more.equal_points;
        self.recovery_points += more.recovery_points;
        self.equal_recovery_points += more.equal_recovery_points;
        self.states += more.states;
        self.nested += more.nested;
        self.cut_short += more.cut_short;
    }
}

/// A state that recovery does not repair.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Violation {
    /// What the oracle objects to, in a sentence.
    pub what: String,
    /// The history up to the crash, one operation to a line.
    pub history: Vec<String>,
    /// What did not survive although it had been stored, and what survived in its place.
    pub lost: Vec<String>,
    /// Which write-back and fence is missing in effect: the store, and what comes too early.
    pub missing: String,
    /// What recovery stored into the data, a line each.
    pub recovery: Vec<String>,
    /// Operations of the history, a measure of its size.
    pub length: usize,
}

/// Judges crashes on one ground.
pub struct Explorer<'a> {
    ground: &'a Ground,
    /// The memory after the first power failure, after one in its recovery, and so on.
    memories: Vec<(Rc<CrashMemory>, Rc<dyn World>)>,
    /// Of each further power failure under way, how many operations of recovery came before it.
    crashes: Vec<usize>,
    /// Sets S for which the structure has been checked.
    checked: HashSet<u64>,
    /// The structure's contents when threads began, and a number for the memory in which they are.
    began_with: Option<(u64, Contents)>,
    /// Crash points already explored, by everything that matters, with the number of further power failures
    /// that were allowed there.
    seen: HashMap<u64, usize>,
    fresh: bool,
    /// What is expected, while no transaction enters commit and nothing is acknowledged.
    expected: Option<([usize; 3], Rc<Expectation>)>,
    /// Sampled runs: their crashes and decisions.
    judged: HashSet<u64>,
    /// How often power might have failed in the last recovery in which it was to.
    recovery_crashes: u32,
    /// What was explored.
    pub counts: Counts,
}

/// How much is sampled at one crash.
struct Tries {
    /// Runs that begin with the oldest values, depth first.
    first: usize,
    /// Runs at random behind these, until [`REPEATED_RUNS`] of them have been there before.
    random: usize,
    /// Where power fails again: recoveries in which it does.
    recoveries: usize,
}

const TRIES: Tries = Tries { first: 128, random: 64, recoveries: 2 };
/// What recovery leaves out shows where power fails in it.
const RECOVERY_TRIES: Tries = Tries { first: 16, random: 16, recoveries: 9 };
const REPEATED_RUNS: usize = 4;
/// Runs at a crash in which something is torn.
const TORN_RUNS: usize = 12;
/// Power failures in each of these recoveries, and runs on what each of them leaves.
const RECOVERY_CRASHES: usize = 2;
const RECOVERED_RUNS: usize = 8;
/// Of the first recovery of a pool: its fences and its end.
const RECOVERY_CRASHES_GUESS: u32 = 4;

/// How far the exploration of one crash point goes.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// States judged, at most, for each power failure.
    pub states: u64,
    /// Power failures in recovery, one in the recovery after the other, at most.
    pub recovery_crashes: usize,
    /// Stop then.
    pub until: Instant,
}

impl<'a> Explorer<'a> {
    /// An explorer that has explored nothing yet.
    pub fn new(ground: &'a Ground) -> Self {
        Self {
            ground,
            memories: Vec::new(),
            crashes: Vec::new(),
            checked: HashSet::new(),
            began_with: None,
            seen: HashMap::new(),
            fresh: true,
            expected: None,
            judged: HashSet::new(),
            recovery_crashes: RECOVERY_CRASHES_GUESS,
            counts: Counts::default(),
        }
    }

    /// Forgets crash points: those of another pool are explored even if equal ones were.
    pub fn forget(&mut self) {
        self.seen.clear();
        self.judged.clear();
        // What a pool shows follows from its seed alone.
        self.recovery_crashes = RECOVERY_CRASHES_GUESS;
    }

    fn expected(&mut self, life: &Life, time: u32) -> Rc<Expectation> {
        let trace = &life.trace;
        let changes = [
            trace.updates.iter().filter(|update| update.entered <= time).count(),
            trace.updates.iter().filter(|update| update.acknowledged <= time).count(),
            trace.readers.iter().filter(|reader| reader.acknowledged <= time).count(),
        ];
        match &self.expected {
            Some((same, expected)) if *same == changes => expected.clone(),
            _ => {
                let expected = Rc::new(Expectation::at(trace, &life.home, &life.effects, time));
                self.expected = Some((changes, expected.clone()));
                expected
            }
        }
    }

    /// Turns to another life.
    pub fn turn_to(&mut self) {
        if self.checked.len() > 1 << 16 {
            self.checked.clear();
        }
        self.fresh = true;
        self.expected = None;
        self.counts.histories += 1;
    }

    fn memory(&mut self, level: usize) -> Rc<CrashMemory> {
        while self.memories.len() <= level {
            let ground = self.ground;
            let memory =
                Rc::new(CrashMemory::new(ground.image.len(), ground.shared.bytes(), ground.data.clone()));
            self.memories.push((memory.clone(), memory));
        }
        self.memories[level].0.clone()
    }

    /// Recovery on the memory of `level` as it decides.
    fn recover(&self, level: usize) -> Result<(), String> {
        let view = self.ground.view(Hosted::new(self.memories[level].1.clone(), 0));
        match catch_unwind(AssertUnwindSafe(|| recover(&view, self.ground.case.scheme.known, |_| ()))) {
            Err(panic) => Err(format!("recovery panics: {}", panic_text(&*panic))),
            Ok(Err(error)) => Err(format!("recovery fails: {error}")),
            Ok(Ok(_)) => Ok(()),
        }
    }

    /// The oracle on what recovery has left.
    fn verdict(&mut self, level: usize, life: &Life, expected: &Expectation) -> Result<(), String> {
        let set = expected.judge(&life.home, &*self.memories[level].0)?;
        self.counts.states += 1;
        self.counts.nested += u64::from(level > 0);
        // A TxID made up from what an old record holds may be near 2^64, and the ones after it begin at 0 again.
        let watermark = self.memories[level].0.load_word((Layout::WATERMARK.offset() / 8) as u32);
        if let Some(clock) = life.clock.filter(|&clock| watermark > clock) {
            return Err(format!(
                "recovery leaves the watermark {watermark:#x}, but TxIDs went up to {clock:#x} only"
            ));
        }
        // The words are those of S, so the structure is the same for each state that gives this S.
        if self.checked.insert(mix(expected.key(set), life.home.settled_key())) {
            self.check_structure(level, life, &expected.members(set))?;
        }
        Ok(())
    }

    /// One run: recovery, and the oracle.
    fn judge(&mut self, level: usize, life: &Life, expected: &Expectation) -> Result<(), String> {
        self.recover(level)?;
        self.verdict(level, life, expected)
    }

    /// The structure's own check, and its sequential model.
    fn check_structure(&mut self, level: usize, life: &Life, members: &[usize]) -> Result<(), String> {
        let found = self.contents(self.memories[level].1.clone())?;
        if self.began_with.as_ref().is_none_or(|(key, _)| *key != life.home.settled_key()) {
            // The set of no transaction: what the threads found.
            let before = Rc::new(CrashMemory::new(
                self.ground.image.len(),
                self.ground.shared.bytes(),
                self.ground.data.clone(),
            ));
            let settled = Trace::new(life.home.settled().to_vec());
            before.crash(&settled, 0, self.ground.case.setting, None, true);
            before.search();
            self.began_with = Some((life.home.settled_key(), self.contents(before)?));
        }
        let mut model = self.began_with.as_ref().map(|(_, model)| model.clone()).unwrap_or_default();
        let mut members: Vec<_> = members.to_vec();
        members.sort_by_key(|&index| life.trace.updates[index].id);
        for index in members {
            let id = life.trace.updates[index].id;
            apply(&mut model, &life.effects[index]).map_err(|what| format!("transaction {id}: {what}"))?;
        }
        if found != model {
            return Err(format!("the structure holds {found:x?} instead of {model:x?}"));
        }
        Ok(())
    }

    fn contents(&self, world: Rc<dyn World>) -> Result<Contents, String> {
        let view = Hosted::new(world, 0);
        catch_unwind(AssertUnwindSafe(|| contents(self.ground, &view)))
            .map_err(|panic| format!("the structure's check panics: {}", panic_text(&*panic)))?
            .map_err(|error| format!("the structure's check: {error}"))
    }

    fn crash(&mut self, trace: &Trace, time: u32) -> Rc<CrashMemory> {
        let case = &self.ground.case;
        let memory = self.memory(0);
        memory.crash(trace, time, case.setting, case.omitted, self.fresh);
        self.fresh = false;
        self.counts.points += 1;
        memory
    }

    /// Every state of a crash of `life` at `time`, and of further crashes in recovery, up to `depth`.
    ///
    /// # Errors
    /// A violation.
    pub fn all_states(&mut self, life: &Life, time: u32, depth: Depth) -> Result<(), Box<Violation>> {
        let expected = self.expected(life, time);
        let memory = self.crash(&life.trace, time);
        if !self.is_new(memory.fingerprint(), &expected, depth.recovery_crashes) {
            self.counts.points -= 1;
            self.counts.equal_points += 1;
            return Ok(());
        }
        self.crashes.clear();
        self.search(0, life, &expected, time, depth)
    }

    /// Whether this crash has not been explored yet with `left` further ones or more.
    fn is_new(&mut self, fingerprint: u64, expected: &Expectation, left: usize) -> bool {
        let before = self.seen.entry(mix(fingerprint, expected.fingerprint())).or_insert(0);
        let new = *before < left + 1;
        *before = (*before).max(left + 1);
        new
    }

    /// Every state of the memory of `level`.
    fn search(
        &mut self,
        level: usize,
        life: &Life,
        expected: &Expectation,
        time: u32,
        depth: Depth,
    ) -> Result<(), Box<Violation>> {
        let memory = self.memory(level);
        memory.search();
        let mut judged = 0;
        loop {
            let deeper = level < depth.recovery_crashes;
            if deeper {
                memory.record();
            }
            self.recover(level).map_err(|what| self.violation(level, life, expected, time, what))?;
            if deeper {
                for crash in memory.recorded() {
                    let left = depth.recovery_crashes - level - 1;
                    if !self.is_new(crash.fingerprint, expected, left) {
                        self.counts.equal_recovery_points += 1;
                        continue;
                    }
                    self.counts.recovery_points += 1;
                    self.crashes.push(crash.operations);
                    self.memory(level + 1).crash_again(&memory, crash);
                    self.search(level + 1, life, expected, time, depth)?;
                    self.crashes.pop();
                }
            }
            self.verdict(level, life, expected)
                .map_err(|what| self.violation(level, life, expected, time, what))?;
            judged += 1;
            if !memory.next() {
                return Ok(());
            }
            if judged >= depth.states
                || (judged % 256 == 0 && (crate::is_stopped() || Instant::now() > depth.until))
            {
                self.counts.cut_short += 1;
                return Ok(());
            }
        }
    }

    /// Some states of a crash of `life` at `time`, each once, unless an equal crash was explored; then power fails
    /// `nested` times more in recovery. With `next`, returns what memory may hold before recovery at last,
    /// for the next life.
    ///
    /// # Errors
    /// A violation.
    pub fn some_states(
        &mut self,
        life: &Life,
        time: u32,
        nested: usize,
        next: bool,
        random: &mut Rng,
    ) -> Result<Option<Vec<u64>>, Box<Violation>> {
        let expected = self.expected(life, time);
        let mut memory = self.crash(&life.trace, time);
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
            for _ in 0..self.tries().recoveries {
                memory.random(random);
                // How often the last recovery might have failed is a guess of how often this one might.
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
            // That is where power fails once more, or the next life begins.
            self.crashes.push(last);
            memory = deeper;
        }
        Ok(next.then(|| memory.survivors(random)))
    }

    /// Some states of a crash of `life` at `time` in which a record is torn, if there are `least` words that records can have
    /// lost. Returns what memory may hold then before recovery, for the next life.
    ///
    /// # Errors
    /// A violation.
    pub fn torn_states(
        &mut self,
        life: &Life,
        time: u32,
        least: usize,
        random: &mut Rng,
    ) -> Result<Option<Vec<u64>>, Box<Violation>> {
        let expected = self.expected(life, time);
        let memory = self.crash(&life.trace, time);
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

    fn tries(&self) -> &'static Tries {
        if self.ground.case.omitted.is_some_and(in_recovery) { &RECOVERY_TRIES } else { &TRIES }
    }

    /// One run, which counts unless it has decided as another one on an equal crash; returns whether it does.
    fn judge_once(
        &mut self,
        level: usize,
        life: &Life,
        expected: &Expectation,
        time: u32,
    ) -> Result<bool, Box<Violation>> {
        self.judge(level, life, expected)
            .map_err(|what| self.violation(level, life, expected, time, what))?;
        let memory = &self.memories[level].0;
        let crash = mix(memory.fingerprint(), expected.fingerprint());
        let new = self.judged.insert(mix(mix(crash, memory.path()), level as u64));
        if !new {
            self.counts.states -= 1;
            self.counts.nested -= u64::from(level > 0);
        }
        Ok(new)
    }

    /// All states of the crash at hand, or some; each once.
    fn different_states(
        &mut self,
        life: &Life,
        expected: &Expectation,
        time: u32,
        random: &mut Rng,
    ) -> Result<(), Box<Violation>> {
        let memory = self.memory(0);
        memory.search();
        for _ in 0..self.tries().first {
            self.judge_once(0, life, expected, time)?;
            if !memory.next() {
                return Ok(());
            }
        }
        let mut repeated = 0;
        for _ in 0..self.tries().random {
            memory.random(random);
            repeated += usize::from(!self.judge_once(0, life, expected, time)?);
            if repeated > REPEATED_RUNS {
                break;
            }
        }
        self.counts.cut_short += 1;
        Ok(())
    }

    /// Makes the violation that has just been found smaller, and tells it: as much as possible survives.
    fn violation(
        &mut self,
        level: usize,
        life: &Life,
        expected: &Expectation,
        time: u32,
        what: String,
    ) -> Box<Violation> {
        let counts = self.counts;
        let memory = self.memory(level);
        let mut kept: Vec<Decision> = memory.decisions().into_iter().filter(Decision::is_loss).collect();
        let mut what = what;
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.remove(at);
            memory.given(fewer.clone());
            match self.judge(level, life, expected) {
                Err(still) => (kept, what) = (fewer, still),
                Ok(()) => at += 1,
            }
        }
        memory.given(kept);
        if let Err(last) = self.judge(level, life, expected) {
            what = last;
        }
        let lost_words = memory.decisions();
        let lost_words: Vec<Decision> = lost_words.into_iter().filter(Decision::is_loss).collect();
        let mut history = story::history(&life.trace, life.began, time, |word| self.describe(word));
        let mut lost = Vec::new();
        let recovered = self.recovery_story(level);
        let mut told = story::lost(&memory.decisions(), |word| self.describe(word));
        let missing = if level == 0 {
            let mut trial = Trying { explorer: Explorer::new(self.ground), life };
            let missing = missing(&life.trace, time, &lost_words, &mut trial);
            story::missing(&life.trace, missing.as_ref(), |word| self.describe(word))
        } else {
            "not looked for where power fails in recovery".to_owned()
        };
        self.counts = counts;
        for (level, &operations) in self.crashes.iter().enumerate().take(level) {
            let memory = &self.memories[level].0;
            lost.extend(story::lost(&memory.decisions(), |word| self.describe(word)));
            history.push(format!("power fails; recovery number {} begins", level + 1));
            history.extend(story::recovery(&memory.recorded_operations()[..operations], |word| {
                self.describe(word)
            }));
        }
        if level > 0 {
            what += &format!(" (power failed {level} times more, in recovery)");
            lost.push("lost in recovery:".into());
        }
        lost.append(&mut told);
        Box::new(Violation { what, lost, missing, recovery: recovered, length: history.len(), history })
    }

    /// What a word of the pool is.
    fn describe(&self, word: u32) -> String {
        let (layout, at) = (&self.ground.layout, 8 * u64::from(word));
        if at == Layout::WATERMARK.offset() {
            return "watermark".into();
        }
        let directory = Layout::LOG_DIRECTORY.offset();
        if (directory..directory + 8 * layout.geometry.logs).contains(&at) {
            return format!("log directory [{}]", (at - directory) / 8);
        }
        if let Some(within) = at.checked_sub(layout.logs.offset()).filter(|_| at < layout.data.offset()) {
            let (log, record) = (
                within / layout.geometry.log_bytes,
                within % layout.geometry.log_bytes / (8 * RECORD_BLOCKS),
            );
            let part = if within / 8 % RECORD_BLOCKS == 0 { "data" } else { "meta" };
            return format!("log {log} record {record} {part}");
        }
        format!("home {at:#x}")
    }

    /// What recovery did in the present run: the words of transactions that it stored.
    fn recovery_story(&self, level: usize) -> Vec<String> {
        let memory = &self.memories[level].0;
        let mut story: Vec<String> = memory
            .stored()
            .filter(|&word| memory.load_word(word) != memory.before(word))
            .take(30)
            .map(|word| format!("stored {} = {:#x}", self.describe(word), memory.load_word(word)))
            .collect();
        if story.is_empty() {
            story.push("replayed nothing".into());
        }
        story
    }
}

/// Tries out what a violation lacks.
struct Trying<'a> {
    explorer: Explorer<'a>,
    life: &'a Life,
}

impl Trying<'_> {
    fn crash(&mut self, trace: &Trace, time: u32) -> (Rc<CrashMemory>, Expectation) {
        self.explorer.fresh = true;
        let expected = Expectation::at(trace, &self.life.home, &self.life.effects, time);
        (self.explorer.crash(trace, time), expected)
    }
}

impl Trial for Trying<'_> {
    fn violates(&mut self, trace: &Trace, time: u32, lost: &[Decision]) -> bool {
        let (memory, expected) = self.crash(trace, time);
        memory.given(lost.to_vec());
        self.explorer.judge(0, self.life, &expected).is_err()
    }

    fn any_violates(&mut self, trace: &Trace, time: u32) -> bool {
        let (memory, expected) = self.crash(trace, time);
        let mut random = Rng::with_seed(time.into());
        memory.search();
        for run in 0..4000 {
            if run >= 2000 {
                memory.random(&mut random);
            }
            if self.explorer.judge(0, self.life, &expected).is_err() {
                return true;
            }
            if run < 2000 && !memory.next() {
                return false;
            }
        }
        false
    }
}
