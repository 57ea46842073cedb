//! Recovers from each power failure, and judges the result with the oracle.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Instant;

use fastrand::Rng;
use strandline_core::Result;
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Event, Hosted, Operation, World};
use strandline_core::scheme::recover;
use strandline_sim::scheme::{Entry, Setup};
use strandline_sim::{Description, Note, Noted};
use strandline_structures::model::Contents;

use super::{Beginning, Left, trace};
use crate::explore::life::{Ground, contents, effects};
use crate::explore::oracle::{Expectation, Home, Survival};
use crate::explore::workload::{Effect, apply};
use crate::explore::{Counts, Violation};
use strandline_check::Session;
use strandline_check::x86::Recovered;
use strandline_check::x86::Trace;
use strandline_check::x86::mix;
use strandline_check::x86::panic_text;

/// A pool's words after recovery.
struct Image<'a> {
    words: &'a [u64],
    data: std::ops::Range<u32>,
}

impl Recovered for Image<'_> {
    fn load_word(&self, word: u32) -> u64 {
        self.words[word as usize]
    }

    /// Returns all words that transactions may write, since hardware writes whole lines.
    fn stored(&self) -> impl Iterator<Item = u32> {
        self.data.clone()
    }
}

/// A power failure to judge.
struct Failure<'a> {
    setup: &'a Setup<'a>,
    trace: &'a Trace,
    home: &'a Home,
    effects: &'a [Vec<Effect>],
    expected: &'a Expectation,
}

/// Judges the power failures of histories on one ground.
pub struct Judge<'a> {
    ground: &'a Ground,
    hardware: &'static Entry,
    /// The memory with which the present life began, and the structure's contents in it.
    began: (Beginning, Contents),
    /// Sets of transactions for which the structure has been checked.
    checked: HashSet<u64>,
    until: Cell<Option<Instant>>,
    session: Session,
    /// The counts of the crashes judged so far.
    pub counts: Counts,
}

/// Returns the indices of the notes of commits and acknowledgements.
fn commit_events(notes: &[Note]) -> Vec<usize> {
    notes
        .iter()
        .enumerate()
        .filter(|(_, note)| matches!(note.what, Noted::Event(Event::Commit(_) | Event::Acknowledged(_))))
        .map(|(index, _)| index)
        .collect()
}

/// Acknowledges the transactions of `trace` up to the one that the power failure left acknowledged, if that is known. Returns which sets of
/// transactions may have survived.
fn acknowledge(trace: &mut Trace, acknowledged: Option<u64>) -> Survival {
    match acknowledged {
        None => Survival::Closed,
        Some(upto) => {
            for update in &mut trace.updates {
                update.acknowledged = if update.id <= upto { update.entered } else { u32::MAX };
            }
            // Readers are acknowledged when the data that they read is durable, which is unknown here.
            trace.readers.clear();
            Survival::Prefix
        }
    }
}

impl<'a> Judge<'a> {
    /// Creates a judge on `ground`, with this hardware.
    ///
    /// # Errors
    /// Returns an error if the structure fails its own check before anything has happened.
    pub(super) fn new(ground: &'a Ground, hardware: &'static Entry) -> Result<Self> {
        let mut judge = Self {
            ground,
            hardware,
            began: (Beginning { pool: ground.image.clone(), reserved: Vec::new() }, Contents::default()),
            checked: HashSet::new(),
            until: Cell::new(None),
            session: Session::new(),
            counts: Counts::default(),
        };
        judge.begin(judge.began.0.clone()).map_err(strandline_core::Error::damaged)?;
        Ok(judge)
    }

    /// Begins a life with this memory.
    ///
    /// # Errors
    /// Returns an error if the structure fails its own check.
    pub(super) fn begin(&mut self, beginning: Beginning) -> Result<(), String> {
        let contents = self.contents(&beginning.pool)?;
        self.began = (beginning, contents);
        Ok(())
    }

    /// Returns the memory with which the next life begins after a power failure has left `image`: the hardware's recovery runs on it, then the
    /// software's.
    ///
    /// # Errors
    /// Returns an error if recovery failed.
    pub(super) fn recovered(&self, setup: &Setup<'_>, image: &[u64]) -> Result<Beginning, String> {
        let mut words = self.hardware_recovers(setup, image)?;
        let reserved = words.split_off(self.ground.image.len());
        Ok(Beginning { pool: self.software_recovers(&words)?, reserved })
    }

    /// Sets the time after which judging stops.
    pub(super) fn until(&mut self, instant: Instant, session: &Session) {
        self.until.set(Some(instant));
        self.session = session.clone();
    }

    /// Judges the power failures of a history, in the order of time; each leaves this many words.
    ///
    /// # Errors
    /// Returns the first failure that recovery does not repair.
    pub(super) fn judge(
        &mut self,
        setup: &Setup<'_>,
        description: &Description,
        notes: Vec<Note>,
        done: Vec<Vec<Vec<Effect>>>,
        (words, crashes): (usize, Vec<Left>),
        random: &mut Rng,
    ) -> Result<(), Box<Violation>> {
        let ground = self.ground;
        let mut trace = self.trace_of(&notes);
        let effects = effects(&trace, done);
        let home = Home::new(&trace, self.began.0.pool.clone(), &ground.data);
        let events = commit_events(&notes);
        let mut image = self.began.0.words();
        image.resize(words, 0);
        let mut before = None;
        for crash in crashes {
            for &(word, value) in &crash.changed {
                image[word as usize] = value;
            }
            let state = (events.partition_point(|&index| index < crash.notes), crash.acknowledged);
            if crash.changed.is_empty() && before == Some(state) {
                self.counts.equal_points += 1;
                continue;
            }
            before = Some(state);
            self.counts.points += 1;
            let survival = acknowledge(&mut trace, crash.acknowledged);
            let time = crash.notes as u32;
            let expected = Expectation::surviving(&trace, &home, &effects, time, survival);
            let failure =
                Failure { setup, trace: &trace, home: &home, effects: &effects, expected: &expected };
            if let Err(what) = self.one(&failure, &image, random) {
                let what = format!("{what} (power fails at cycle {} on {})", crash.at, description.name);
                return Err(self.violation(&trace, time, &image, what));
            }
            if self.counts.points.is_multiple_of(256) && self.is_over() {
                self.counts.cut_short += 1;
                break;
            }
        }
        Ok(())
    }

    /// Returns the trace of a history that noted `notes`.
    fn trace_of(&self, notes: &[Note]) -> Trace {
        let ground = self.ground;
        let threads = ground.case.threads + usize::from(ground.case.scheme.kind.scheme.has_helper());
        let began = self.began.0.pool.clone();
        let mut trace = trace::trace(began, notes, &ground.data, threads);
        if ground.case.scheme.acknowledges_when_drained() {
            // Data that a reader saw is durable, like a thread's own commits, when the thread has drained.
            trace.readers.clear();
        }
        trace
    }

    /// Returns whether judging should stop.
    fn is_over(&self) -> bool {
        self.session.is_stopped() || self.until.get().is_some_and(|until| Instant::now() > until)
    }

    /// Judges one power failure, and sometimes another one in the hardware's recovery.
    fn one(&mut self, failure: &Failure<'_>, image: &[u64], random: &mut Rng) -> Result<(), String> {
        let recovered = self.hardware_recovers(failure.setup, image)?;
        self.verdict(failure, &recovered)?;
        if self.hardware.make.is_some() && random.u8(..8) == 0 {
            self.counts.recovery_points += 1;
            let partial = self.partly(image, &recovered, random);
            let again = self.hardware_recovers(failure.setup, &partial)?;
            self.counts.nested += 1;
            self.verdict(failure, &again)
                .map_err(|what| format!("{what} (power failed once more in recovery)"))?;
        }
        Ok(())
    }

    /// Returns the words after the hardware's recovery.
    fn hardware_recovers(&self, setup: &Setup<'_>, image: &[u64]) -> Result<Vec<u64>, String> {
        let mut image = image.to_vec();
        let (pool, reserved) = image.split_at_mut(self.ground.image.len());
        match catch_unwind(AssertUnwindSafe(|| (self.hardware.recover)(setup, pool, reserved))) {
            Err(panic) => Err(format!("the hardware's recovery panics: {}", panic_text(&*panic))),
            Ok(Err(what)) => Err(format!("the hardware's recovery fails: {what}")),
            Ok(Ok(())) => Ok(image),
        }
    }

    /// Returns the pool's words after the software's recovery.
    fn software_recovers(&self, pool: &[u64]) -> Result<Vec<u64>, String> {
        let world = self.plain(pool);
        let hosted: Rc<dyn World> = world.clone();
        let memory = Hosted::new(hosted, 0);
        let view = self.ground.view(&memory);
        match catch_unwind(AssertUnwindSafe(|| recover(&view, self.ground.case.scheme.known, |_| ()))) {
            Err(panic) => Err(format!("recovery panics: {}", panic_text(&*panic))),
            Ok(Err(error)) => Err(format!("recovery fails: {error:#}")),
            Ok(Ok(_)) => Ok(world.contents()),
        }
    }

    /// Returns memory with only a part of what recovery has stored: some words of the pool, or all of them and some reserved words.
    fn partly(&self, image: &[u64], recovered: &[u64], random: &mut Rng) -> Vec<u64> {
        let words = self.ground.image.len();
        let in_pool = random.bool();
        let every = random.u32(1..4);
        let part = recovered.iter().enumerate().map(|(word, &new)| {
            let old = image.get(word).copied().unwrap_or(0);
            match (word < words, in_pool) {
                (true, true) | (false, false) if old != new => {
                    if random.u32(..=every) == 0 {
                        old
                    } else {
                        new
                    }
                }
                (true, false) => new,
                _ => old,
            }
        });
        part.collect()
    }

    /// Runs the software's recovery, and then the oracle.
    fn verdict(&mut self, failure: &Failure<'_>, recovered: &[u64]) -> Result<(), String> {
        let ground = self.ground;
        let words = self.software_recovers(&recovered[..ground.image.len()])?;
        let data = ground.data.start as u32..ground.data.end as u32;
        let set = failure.expected.judge(failure.home, &Image { words: &words, data })?;
        self.counts.states += 1;
        // The words are those of S, so the structure is the same for each state with this S.
        if self.checked.insert(mix(failure.expected.key(set), failure.home.settled_key())) {
            self.check_structure(failure, &words, failure.expected.members(set))?;
        }
        Ok(())
    }

    /// Runs the structure's own check, and compares it with its sequential model.
    fn check_structure(
        &mut self,
        failure: &Failure<'_>,
        words: &[u64],
        mut members: Vec<usize>,
    ) -> Result<(), String> {
        if self.checked.len() > 1 << 16 {
            self.checked.clear();
        }
        let found = self.contents(words)?;
        let mut model = self.began.1.clone();
        let updates = &failure.trace.updates;
        members.sort_by_key(|&index| updates[index].id);
        for index in members {
            let id = updates[index].id;
            apply(&mut model, &failure.effects[index]).map_err(|what| format!("transaction {id}: {what}"))?;
        }
        if found != model {
            return Err(format!("the structure holds {found:x?} instead of {model:x?}"));
        }
        Ok(())
    }

    fn contents(&self, words: &[u64]) -> Result<Contents, String> {
        let world: Rc<dyn World> = self.plain(words);
        let view = Hosted::new(world, 0);
        catch_unwind(AssertUnwindSafe(|| contents(self.ground, &view)))
            .map_err(|panic| format!("the structure's check panics: {}", panic_text(&*panic)))?
            .map_err(|error| format!("the structure's check: {error:#}"))
    }

    /// Returns memory with these words that simulates no time.
    fn plain(&self, words: &[u64]) -> Rc<Recorder> {
        let world = Recorder::new(words.to_vec(), self.ground.shared.bytes(), 0, 0, None);
        world.set_recording(false);
        Rc::new(world)
    }

    fn violation(&self, trace: &Trace, time: u32, image: &[u64], what: String) -> Box<Violation> {
        let name = |word: u32| format!("{:#x}", 8 * u64::from(word));
        let history = trace.story(0, time, name);
        let mut newest: std::collections::BTreeMap<u32, (u32, u64)> = Default::default();
        for store in trace.lines.iter().flat_map(|line| &line.stores).filter(|store| store.time <= time) {
            let slot = newest.entry(store.word).or_default();
            if store.time >= slot.0 {
                *slot = (store.time, store.value);
            }
        }
        let lost = newest.iter().filter(|&(&word, &(_, value))| image[word as usize] != value);
        let lost = lost.take(40).map(|(&word, &(_, value))| {
            format!("{}: {:#x} survived, not {value:#x}", name(word), image[word as usize])
        });
        let marks = trace.marks.iter().filter(|mark| matches!(mark.operation, Operation::Event(_)));
        let length = marks.take_while(|mark| mark.time <= time).count();
        Box::new(Violation {
            what,
            lost: lost.collect(),
            history,
            missing: String::new(),
            recovery: Vec::new(),
            length,
        })
    }
}
