//! Judges the crashes of a recording: recovery and check run in separate processes, on the image that a crash leaves.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsString;
use std::rc::Rc;
use std::time::Duration;

use strandline_core::memory::{Operation, Space, Step, World};

use super::life::words;
use super::places::Places;
use super::process::{End, Place, Recorded};
use super::recording::{Recording, What};
use super::server::Repeated;
use crate::Setting;
use crate::x86::checked_program::Run;
use crate::x86::crash::CrashMemory;
use crate::x86::explorer::{Judge, Tries};
use crate::x86::site::{self, Site};
use crate::x86::trace::Trace;
use crate::x86::{Crashed, mix};

/// The initial value of a fingerprint.
const NOTHING: u64 = 17;

/// The tries at a crash with too many states: some random ones.
static SAMPLED: Tries = Tries { visit: 0, first: 1, random: 64, recoveries: 0, repaired: 256 };

/// The effect of a recovery on an image.
struct Recovery {
    operations: Vec<(Operation, Option<Site>)>,
    /// The reason why it failed, if it did.
    end: Result<(), String>,
}

/// State that all judges of one check share: processes, and the results on known images.
pub(super) struct Processes<'p> {
    pub place: &'p Place,
    recover: Option<Repeated<'p>>,
    /// The recovery command and the places of its operations, while places are requested.
    places: RefCell<Option<(Repeated<'p>, Places)>>,
    recover_command: Option<&'p [OsString]>,
    check: Option<Repeated<'p>>,
    pub setting: Setting,
    /// The length of the pool's file in bytes.
    pub bytes: usize,
    /// Returns the name of a word.
    pub name: &'p dyn Fn(u32) -> String,
    recoveries: RefCell<HashMap<u64, Rc<Recovery>>>,
    verdicts: RefCell<HashMap<(u64, u64), Result<(), String>>>,
    /// The number of processes that have run.
    pub runs: Cell<u64>,
    /// For each state at hand, whether a process ran to recover from it. A state that a crash in recovery left follows the state before that crash.
    at_hand: RefCell<Vec<bool>>,
    /// The number of accepted states that needed a process, since [`Processes::begin`] and before the first refusal.
    accepted: Cell<u64>,
    was_refused: Cell<bool>,
    /// The reason why no process can run any more.
    pub failure: RefCell<Option<String>>,
    /// The number of words that recoveries changed without a recorded store.
    pub unseen: Cell<u64>,
    /// How long a process may take.
    limit: Cell<Duration>,
    /// A buffer for an image.
    room: RefCell<Vec<u64>>,
    room_for_file: RefCell<Vec<u8>>,
}

impl<'p> Processes<'p> {
    /// Creates the state before any process has run.
    pub fn new(
        place: &'p Place,
        (recover, check): (Option<&'p [OsString]>, Option<&'p [OsString]>),
        setting: Setting,
        bytes: usize,
        name: &'p dyn Fn(u32) -> String,
    ) -> Self {
        Self {
            place,
            places: RefCell::default(),
            recover_command: recover,
            recover: recover.map(|command| Repeated::new(place, command, Recorded::Operations)),
            check: check.map(|command| Repeated::new(place, command, Recorded::No)),
            setting,
            bytes,
            name,
            recoveries: RefCell::default(),
            verdicts: RefCell::default(),
            runs: Cell::new(0),
            at_hand: RefCell::default(),
            accepted: Cell::new(0),
            was_refused: Cell::new(false),
            failure: RefCell::default(),
            unseen: Cell::new(0),
            limit: Cell::new(place.limit),
            room: RefCell::default(),
            room_for_file: RefCell::default(),
        }
    }

    /// Returns how many words the pool has, rounded up to whole lines.
    pub fn words(&self) -> usize {
        self.bytes.div_ceil(64) * 8
    }

    /// Starts counting states from zero.
    pub fn begin(&self) {
        self.at_hand.take();
        self.accepted.set(0);
        self.was_refused.set(false);
    }

    /// Returns how many of the `states` accepted since [`Processes::begin`] needed no process, because their images were known.
    pub fn equal(&self, states: u64) -> u64 {
        states.saturating_sub(self.accepted.get())
    }

    /// Counts the state at hand; `has_run` tells whether a process ran for it since its recovery.
    fn count(&self, is_accepted: bool, has_run: bool) {
        let has_run = self.at_hand.borrow_mut().pop() == Some(true) || has_run;
        // After a refusal, states are tried only to make the finding smaller.
        self.was_refused.set(self.was_refused.get() || !is_accepted);
        if has_run && !self.was_refused.get() {
            self.accepted.set(self.accepted.get() + 1);
        }
    }

    /// Notes the reason why nothing can run any more, and returns it.
    fn fails(&self, why: String) -> String {
        self.failure.borrow_mut().get_or_insert(why.clone());
        why
    }

    /// Writes the pool's file with this image into `bytes`.
    pub fn file(&self, image: &[u64], bytes: &mut Vec<u8>) {
        bytes.resize(8 * image.len(), 0);
        bytes.as_chunks_mut().0.iter_mut().zip(image).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        bytes.truncate(self.bytes);
    }

    fn write(&self, image: &[u64]) -> Result<(), String> {
        let bytes = &mut *self.room_for_file.borrow_mut();
        self.file(image, bytes);
        self.place.write_pool(bytes)
    }

    /// Passes `body` the pool as it is on `world`.
    fn with_image<R>(&self, world: &dyn World, body: impl FnOnce(&[u64]) -> R) -> R {
        // The buffer is reused, since allocating memory for each state would take most of the time.
        let mut image = self.room.take();
        image.resize(self.words(), 0);
        world.load_range(0, Space::Persistent, 0, &mut image);
        let result = body(&image);
        self.room.replace(image);
        result
    }

    /// Runs `body`, during which recoveries record the places of their operations.
    pub fn with_places<R>(&self, body: impl FnOnce() -> R) -> R {
        let recorded = |command| Repeated::new(self.place, command, Recorded::WithPlaces);
        let command = self.recover_command.map(recorded);
        *self.places.borrow_mut() = command.map(|command| (command, Places::default()));
        let result = body();
        *self.places.borrow_mut() = None;
        result
    }

    /// Returns the result of recovery on this image; runs it only if the image is new.
    fn recovery(&self, command: &Repeated<'_>, image: &[u64]) -> Result<Rc<Recovery>, String> {
        let number = fingerprint(image);
        if let Some((command, places)) = &mut *self.places.borrow_mut() {
            return self.run_recovery(command, image, Some(places)).map(|(recovery, _)| Rc::new(recovery));
        }
        if let Some(known) = self.recoveries.borrow().get(&number) {
            return Ok(known.clone());
        }
        let (recovery, is_final) = self.run_recovery(command, image, None)?;
        let recovery = Rc::new(recovery);
        if is_final {
            self.recoveries.borrow_mut().insert(number, recovery.clone());
        }
        Ok(recovery)
    }

    /// Runs recovery on this image. Also returns whether it would have done the same within the exploration's time limit.
    fn run_recovery(
        &self,
        command: &Repeated<'_>,
        image: &[u64],
        places: Option<&mut Places>,
    ) -> Result<(Recovery, bool), String> {
        command.prepare()?;
        self.write(image)?;
        self.runs.set(self.runs.get() + 1);
        let ended = command.run(&[], self.limit.get())?;
        let recording = Recording::parse(&self.place.recording()?, places)?;
        let mut after = image.to_vec();
        let mut operations = Vec::new();
        for recorded in &recording.operations {
            let site = recorded.site;
            match &recorded.what {
                What::Store { at, bytes } => {
                    let there = |at: u64| after.get(at as usize / 8).copied().unwrap_or(0);
                    for (at, value) in words(*at, bytes, there) {
                        if let Some(word) = after.get_mut(at as usize / 8) {
                            *word = value;
                            operations.push((Operation::Store(Space::Persistent, at, value), site));
                        }
                    }
                }
                What::Flush { at, bytes } => {
                    let end = at.saturating_add(*bytes).min(8 * after.len() as u64);
                    let lines = (at / 64 * 64..end).step_by(64);
                    operations
                        .extend(lines.map(|line| (Operation::WriteBack(line, Step::CommitWriteBack), site)));
                }
                What::Fence => operations.push((Operation::Fence(Step::CommitFence), site)),
                What::Acknowledge(_) | What::Outside(..) | What::Fault(_) => {}
            }
        }
        let unseen = differing(&after, &self.place.read_pool()?);
        if !unseen.is_empty() {
            self.unseen.set(self.unseen.get().max(unseen.len() as u64));
            for (at, value) in unseen {
                operations.push((Operation::Store(Space::Persistent, at, value), None));
                operations.push((Operation::WriteBack(at, Step::CommitWriteBack), None));
            }
            operations.push((Operation::Fence(Step::CommitFence), None));
        }
        let end = ended.check().map_err(|how| format!("recovery {how}"));
        Ok((Recovery { operations, end }, self.is_final(&ended.end)))
    }

    /// Returns the check's result for an image after recovery.
    fn check(&self, command: &Repeated<'_>, image: &[u64], crashed: &Crashed) -> Result<(), String> {
        let key = (fingerprint(image), numbers(crashed));
        if let Some(known) = self.verdicts.borrow().get(&key) {
            return known.clone();
        }
        let ran = command.prepare().and_then(|()| self.write(image));
        self.runs.set(self.runs.get() + 1);
        let ran = ran.and_then(|()| command.run(&crashed.acknowledged, self.limit.get()));
        let ended = ran.map_err(|why| self.fails(why))?;
        let verdict = match ended.end {
            End::Code(code) if !ended.said.is_empty() => {
                Err(format!("{} (the check ended with exit code {code})", ended.said))
            }
            _ => ended.check().map_err(|how| format!("the check {how}")),
        };
        if self.is_final(&ended.end) {
            self.verdicts.borrow_mut().insert(key, verdict.clone());
        }
        verdict
    }

    /// Returns whether a process would have ended in the same way within the exploration's time limit.
    fn is_final(&self, end: &End) -> bool {
        !matches!(end, End::TimedOut(_)) || self.limit.get() == self.place.limit
    }

    /// Runs recovery, and then the check, on `image`.
    ///
    /// # Errors
    /// Returns what is wrong, in a finding's words; or the reason why the processes cannot run, which is also in [`Processes::failure`].
    pub fn outcome(&self, image: &[u64], crashed: &Crashed) -> Result<(), String> {
        let mut image = image.to_vec();
        if let Some(command) = &self.recover {
            let recovery = self.recovery(command, &image).map_err(|why| self.fails(why))?;
            recovery.end.clone()?;
            for operation in &recovery.operations {
                if let (Operation::Store(_, at, value), _) = *operation {
                    image[at as usize / 8] = value;
                }
            }
        }
        self.check.as_ref().map_or(Ok(()), |command| self.check(command, &image, crashed))
    }

    /// Like [`Processes::outcome`], for an image that no crash has left: it has its own time limit, and ignores unseen stores.
    ///
    /// # Errors
    /// As for [`Processes::outcome`].
    pub fn outcome_within(&self, limit: Duration, image: &[u64], crashed: &Crashed) -> Result<(), String> {
        let unseen = self.unseen.get();
        self.limit.set(limit.min(self.place.limit));
        let outcome = self.outcome(image, crashed);
        self.limit.set(self.place.limit);
        self.unseen.set(unseen);
        outcome
    }

    /// Returns which command judges an image: the check, or recovery if there is no check.
    pub fn judge_name(&self) -> &'static str {
        if self.check.is_some() { "the check" } else { "recovery" }
    }
}

/// Returns the words in which a file differs from what it should hold.
pub(super) fn differing(expected: &[u64], file: &[u8]) -> Vec<(u64, u64)> {
    let word = |bytes: &[u8]| {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(whole)
    };
    let words = file.chunks(8).map(word).zip(expected).zip((0u64..).step_by(8));
    words.filter(|((now, expected), _)| now != *expected).map(|((now, _), at)| (at, now)).collect()
}

/// Returns a fingerprint of an image.
fn fingerprint(image: &[u64]) -> u64 {
    image.iter().copied().fold(NOTHING, mix)
}

fn numbers(crashed: &Crashed) -> u64 {
    crashed.acknowledged.iter().copied().fold(12, mix)
}

/// Judges the crashes of a recording.
pub(super) struct ProcessJudge<'a, 'p>(pub &'a Processes<'p>);

impl Judge for ProcessJudge<'_, '_> {
    type Life = Run;
    type Expected = Crashed;

    fn memory(&self) -> CrashMemory {
        CrashMemory::new(self.0.words(), 8, 0..self.0.words())
    }

    fn setting(&self) -> Setting {
        self.0.setting
    }

    fn tries(&self) -> &'static Tries {
        &SAMPLED
    }

    fn expected_of(&self, _: &Run, trace: &Trace, time: u32) -> Crashed {
        Crashed { acknowledged: trace.acknowledged(time) }
    }

    fn fingerprint(expected: &Crashed) -> u64 {
        numbers(expected)
    }

    fn recover(&self, world: &Rc<dyn World>) -> Result<(), String> {
        let Some(command) = &self.0.recover else { return Ok(()) };
        let before = self.0.runs.get();
        let recovery = self.0.with_image(&**world, |image| self.0.recovery(command, image));
        let recovery = recovery.map_err(|why| self.0.fails(why))?;
        self.0.at_hand.borrow_mut().push(self.0.runs.get() > before);
        for &(operation, site) in &recovery.operations {
            site.into_iter().for_each(site::set);
            world.perform(0, operation);
        }
        if recovery.end.is_err() {
            self.0.count(false, false);
        }
        recovery.end.clone()
    }

    fn verdict(
        &mut self,
        (_, world): &(Rc<CrashMemory>, Rc<dyn World>),
        _: &Run,
        crashed: &Crashed,
    ) -> Result<(), String> {
        let before = self.0.runs.get();
        let verdict = match &self.0.check {
            Some(command) => self.0.with_image(&**world, |image| self.0.check(command, image, crashed)),
            None => Ok(()),
        };
        self.0.count(verdict.is_ok(), self.0.runs.get() > before);
        verdict
    }

    fn describe(&self, word: u32) -> String {
        (self.0.name)(word)
    }

    fn fresh(&self) -> Self {
        Self(self.0)
    }
}
