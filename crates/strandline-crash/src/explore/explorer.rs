//! Judging the crashes of a life, counting them, and telling a violation so that it can be understood.

use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use fastrand::Rng;
use strandline::log::RECORD_BLOCKS;
use strandline::memory::{Hosted, World};
use strandline::pool::Layout;

use super::crash::{CrashMemory, Decision};
use super::life::{Ground, Life};
use super::oracle::{Expectation, Home};
use super::story;
use super::trace::Trace;
use super::workload::{Model, apply};
use super::world::X86World;

/// What was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Histories: runs of the threads.
    pub histories: u64,
    /// Crash points tried.
    pub points: u64,
    /// Crash points left out because an equal one was tried before: the same words open to the same values,
    /// the same expectation.
    pub equal_points: u64,
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
        self.points += more.points;
        self.equal_points += more.equal_points;
        self.states += more.states;
        self.nested += more.nested;
        self.cut_short += more.cut_short;
    }
}

/// A state that recovery does not repair.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Violation {
    /// What is wrong.
    pub what: String,
    /// The history up to the crash, one operation to a line.
    pub history: Vec<String>,
    /// What did not survive although it had been stored, and what survived in its place.
    pub lost: Vec<String>,
    /// What recovery did.
    pub recovery: Vec<String>,
    /// Operations of the history, a measure of its size.
    pub length: usize,
}

/// The text of a panic.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// Judges crashes on one ground.
pub struct Explorer<'a> {
    ground: &'a Ground,
    memory: Rc<CrashMemory>,
    hosted: Rc<dyn World>,
    /// Sets S for which the structure has been checked, of the present life.
    checked: HashSet<u64>,
    /// The structure's contents when the present life's threads began.
    began_with: Option<Model>,
    /// Crash points already explored, by everything that matters.
    seen: HashSet<u64>,
    fresh: bool,
    /// What was explored.
    pub counts: Counts,
}

impl<'a> Explorer<'a> {
    /// On `ground`.
    pub fn new(ground: &'a Ground) -> Self {
        let memory =
            Rc::new(CrashMemory::new(ground.image.len(), ground.shared.bytes(), ground.data.clone()));
        let hosted = memory.clone();
        Self {
            ground,
            memory,
            hosted,
            checked: HashSet::new(),
            began_with: None,
            seen: HashSet::new(),
            fresh: true,
            counts: Counts::default(),
        }
    }

    /// Turns to another life.
    pub fn turn_to(&mut self) {
        self.checked.clear();
        self.began_with = None;
        self.fresh = true;
        self.counts.histories += 1;
    }

    /// One run: recovery on the memory as it decides, and the oracle.
    fn judge(&mut self, life: &Life, expected: &Expectation) -> Result<(), String> {
        let view = self.ground.view(Hosted::new(self.hosted.clone(), 0));
        let recover = self.ground.case.scheme.recover;
        let recovered = catch_unwind(AssertUnwindSafe(|| recover(&view)));
        match recovered {
            Err(panic) => return Err(format!("recovery panics: {}", panic_text(&*panic))),
            Ok(Err(error)) => return Err(format!("recovery fails: {error}")),
            Ok(Ok(())) => {}
        }
        let set = expected.judge(&life.home, &self.memory)?;
        self.counts.states += 1;
        // The words are those of S, so the structure is the same for each state that gives this S.
        if self.checked.insert(expected.key(set)) {
            self.check_structure(life, &expected.members(set))?;
        }
        Ok(())
    }

    /// The structure's own check, and its sequential model.
    fn check_structure(&mut self, life: &Life, members: &[usize]) -> Result<(), String> {
        let found = self.contents()?;
        if self.began_with.is_none() {
            // The set of no transaction: what the threads found.
            let before = Rc::new(CrashMemory::new(
                self.ground.image.len(),
                self.ground.shared.bytes(),
                self.ground.data.clone(),
            ));
            let settled = Trace::new(life.home.settled().to_vec());
            before.crash(&settled, 0, self.ground.case.setting, None, true);
            before.search();
            let other = std::mem::replace(&mut self.hosted, before);
            let contents = self.contents();
            self.hosted = other;
            self.began_with = Some(contents?);
        }
        let mut model = self.began_with.clone().unwrap_or_default();
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

    fn contents(&self) -> Result<Model, String> {
        let view = Hosted::new(self.hosted.clone(), 0);
        let contents = self.ground.case.scheme.code.contents;
        catch_unwind(AssertUnwindSafe(|| contents(self.ground, &view)))
            .map_err(|panic| format!("the structure's check panics: {}", panic_text(&*panic)))?
            .map_err(|error| format!("the structure's check: {error}"))
    }

    fn crash(&mut self, trace: &Trace, time: u32) {
        let case = &self.ground.case;
        self.memory.crash(trace, time, case.setting, case.omitted, self.fresh);
        self.fresh = false;
        self.counts.points += 1;
    }

    /// Every state of a crash of `life` at `time`, up to `bound` states.
    ///
    /// # Errors
    /// A violation.
    pub fn all_states(&mut self, life: &Life, time: u32, bound: u64) -> Result<(), Violation> {
        let expected = Expectation::at(&life.trace, &life.home, time);
        self.crash(&life.trace, time);
        let same = self.memory.fingerprint()
            ^ self.memory.settled(&life.trace).rotate_left(21)
            ^ expected.fingerprint().rotate_left(42);
        if !self.seen.insert(same) {
            self.counts.points -= 1;
            self.counts.equal_points += 1;
            return Ok(());
        }
        let first = self.counts.states;
        self.memory.search();
        loop {
            if let Err(what) = self.judge(life, &expected) {
                return Err(self.violation(life, &expected, time, what));
            }
            if !self.memory.next() {
                return Ok(());
            }
            if self.counts.states - first >= bound {
                self.counts.cut_short += 1;
                return Ok(());
            }
        }
    }

    /// `states` states of a crash of `life` at `time`, at random; of one of them also crashes in recovery.
    /// Returns what memory held before recovery, for the next life, and what it may be then.
    ///
    /// # Errors
    /// A violation.
    pub fn some_states(
        &mut self,
        life: &Life,
        time: u32,
        states: u32,
        nested: u32,
        random: &mut Rng,
    ) -> Result<Vec<u64>, Violation> {
        let expected = Expectation::at(&life.trace, &life.home, time);
        self.crash(&life.trace, time);
        for _ in 0..states {
            self.memory.random(random);
            if let Err(what) = self.judge(life, &expected) {
                return Err(self.violation(life, &expected, time, what));
            }
        }
        let mut image = self.memory.survivors(random);
        for depth in 0..nested {
            image =
                self.nested(life, &expected, image, 4, random).map_err(|(what, trace, recovery_time)| {
                    let mut history = self.history(&life.trace, time);
                    history.push(format!("-- power fails; recovery number {} begins", depth + 1));
                    history.extend(self.history(&trace, recovery_time));
                    let length = history.len();
                    Violation {
                        what: format!("{what} (power failed during recovery too)"),
                        lost: self.lost(&trace, recovery_time),
                        recovery: self.recovery_story(),
                        history,
                        length,
                    }
                })?;
        }
        Ok(image)
    }

    /// Recovery on `image`, power failing in it: judges `states` states at each of its crash points. Returns
    /// what one of them left.
    fn nested(
        &mut self,
        life: &Life,
        expected: &Expectation,
        image: Vec<u64>,
        states: u32,
        random: &mut Rng,
    ) -> Result<Vec<u64>, (String, Box<Trace>, u32)> {
        let case = &self.ground.case;
        let (bytes, data) = (self.ground.shared.bytes(), self.ground.data.clone());
        let world = Rc::new(X86World::new(image, bytes, data, 1, case.setting, case.omitted));
        let hosted: Rc<dyn World> = world.clone();
        let view = self.ground.view(Hosted::new(hosted, 0));
        let done = catch_unwind(AssertUnwindSafe(|| (case.scheme.recover)(&view)));
        let trace = Box::new(world.finish());
        if !matches!(done, Ok(Ok(()))) {
            let time = trace.time;
            return Err(("recovery fails the second time".into(), trace, time));
        }
        // Words that recovery stores and no transaction wrote must not change; the oracle sees those that the
        // last recovery stored, and those that only the first one stored are looked at here.
        let points = trace.points.clone();
        let mut left = None;
        self.fresh = true;
        let chosen = random.usize(..points.len());
        for (i, &time) in points.iter().enumerate() {
            self.crash(&trace, time);
            for _ in 0..states {
                self.memory.random(random);
                let result = self.judge(life, expected).and_then(|()| self.untouched(&trace, &life.home));
                if let Err(what) = result {
                    return Err((what, trace, time));
                }
                self.counts.nested += 1;
            }
            if i == chosen {
                left = Some(self.memory.survivors(random));
            }
        }
        self.fresh = true;
        Ok(left.unwrap_or_else(|| trace.initial.clone()))
    }

    /// Words outside every transaction's writes are what they were, though a recovery stored them.
    fn untouched(&self, trace: &Trace, home: &Home) -> Result<(), String> {
        let stores = trace.lines.iter().flat_map(|line| &line.stores);
        for store in stores.filter(|store| self.ground.data.contains(&(store.word as usize))) {
            let (found, expected) = (self.memory.load_word(store.word), home.settled()[store.word as usize]);
            if found != expected && !home.contains(store.word) {
                return Err(format!(
                    "word {:#x}, which no transaction wrote, holds {found:#x} instead of {expected:#x}",
                    8 * store.word
                ));
            }
        }
        Ok(())
    }

    /// Makes the violation that has just been found smaller, and tells it: as much as possible survives.
    fn violation(&mut self, life: &Life, expected: &Expectation, time: u32, what: String) -> Violation {
        let counts = self.counts;
        let mut kept: Vec<Decision> =
            self.memory.decisions().into_iter().filter(|d| d.chosen + 1 < d.of).collect();
        let mut what = what;
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.remove(at);
            self.memory.given(fewer.clone());
            match self.judge(life, expected) {
                Err(still) => (kept, what) = (fewer, still),
                Ok(()) => at += 1,
            }
        }
        self.memory.given(kept);
        if let Err(last) = self.judge(life, expected) {
            what = last;
        }
        self.counts = counts;
        let history = self.history(&life.trace, time);
        Violation {
            what,
            lost: self.lost(&life.trace, time),
            recovery: self.recovery_story(),
            length: history.len(),
            history,
        }
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

    fn history(&self, trace: &Trace, time: u32) -> Vec<String> {
        story::history(trace, time, |word| self.describe(word))
    }

    fn lost(&self, trace: &Trace, time: u32) -> Vec<String> {
        story::lost(trace, time, &self.memory.decisions(), |word| self.describe(word))
    }

    /// What recovery did in the present run: the words of transactions that it stored.
    fn recovery_story(&self) -> Vec<String> {
        let mut story: Vec<String> = self
            .memory
            .stored()
            .filter(|&word| self.memory.load_word(word) != self.memory.before(word))
            .take(30)
            .map(|word| format!("stored {} = {:#x}", self.describe(word), self.memory.load_word(word)))
            .collect();
        if story.is_empty() {
            story.push("replayed nothing".into());
        }
        story
    }
}
