//! The checker for programs of one's own.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use strandline_core::memory::{Hosted, World};

use crate::Setting;
use crate::data_race::{DataRace, DataRaces};
use crate::finding::{Diagnosis, Finding, Performance, PerformanceFinding, classify};
use crate::pmem::{Pmem, Repair, VOLATILE_BYTES};
use crate::replay::Replay;
use crate::x86::Crashed;
use crate::x86::caught::caught;
use crate::x86::explorer::{Broken, Counts};
use crate::x86::own::{self, Explored, Interleaving, Own, Reach, Run};
use crate::x86::world::X86World;

type Body<'a> = Box<dyn Fn(&Pmem) + 'a>;
/// Is shown every run.
type Each<'a> = &'a mut dyn FnMut(&Run);
type Invariant<'a> = Box<dyn Fn(&Pmem, &Crashed) -> Result<(), String> + 'a>;

/// A program to be checked: what it does, how it recovers, what must hold then, and how far it is explored.
///
/// ```
/// use strandline_check::{FindingKind, check};
///
/// const LENGTH: u64 = 0;
/// const ELEMENTS: u64 = 64;
///
/// // Appends an element; then the length makes it count. The element is not waited for.
/// let program = check(|pmem| {
///     pmem.store(ELEMENTS, 101);
///     pmem.flush(ELEMENTS);
///     pmem.store(LENGTH, 1);
///     pmem.persist(LENGTH, 8);
/// })
/// .label("length", LENGTH)
/// .label_range("elements", ELEMENTS, 512)
/// .invariant(|pmem, _| match pmem.load(LENGTH) {
///     1 if pmem.load(ELEMENTS) != 101 => Err("the element is lost".to_owned()),
///     _ => Ok(()),
/// });
/// let finding = program.exhaustive().finding.unwrap();
/// assert_eq!(finding.kind, FindingKind::MissingFence);
/// // The least that repairs it: a fence, behind the flush. The line is flushed already.
/// let advice = finding.advice.as_ref().unwrap();
/// assert!(advice.fence && !advice.flush && advice.repairs);
/// // The report ends with the line that shows it again.
/// let again = program.replay(&finding.replay)?.finding.unwrap();
/// assert_eq!((again.kind, &again.lost), (finding.kind, &finding.lost));
/// # Ok::<(), strandline_check::BadReplay>(())
/// ```
#[must_use = "nothing runs before `exhaustive`, `sampled` or `replay` is called"]
pub struct Check<'a> {
    program: Body<'a>,
    set_up: Body<'a>,
    recovery: Body<'a>,
    invariant: Invariant<'a>,
    bytes: u64,
    setting: Setting,
    threads: usize,
    preemptions: u32,
    crashes_in_recovery: usize,
    states: u64,
    limit: Duration,
    seed: u64,
    labels: Vec<(u64, u64, String)>,
    omitted: Option<String>,
}

/// Checks `program`, which each thread runs ([`Pmem::thread`] tells which one it is), on persistent memory of a page, zero at
/// the beginning. One thread, unless [`Check::threads`] says more; at most two preemptions; the setting [`Setting::Line`].
pub fn check<'a>(program: impl Fn(&Pmem) + 'a) -> Check<'a> {
    Check {
        program: Box::new(program),
        set_up: Box::new(|_| ()),
        recovery: Box::new(|_| ()),
        invariant: Box::new(|_, _| Ok(())),
        bytes: 4096,
        setting: Setting::Line,
        threads: 1,
        preemptions: 2,
        crashes_in_recovery: 1,
        states: 1 << 20,
        limit: Duration::from_secs(60),
        seed: 1,
        labels: Vec::new(),
        omitted: None,
    }
}

/// What a check has found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was explored.
    pub counts: Counts,
    /// The first finding, after which exploration has stopped.
    pub finding: Option<Finding>,
    /// Data races on persistent words, of all runs; also those from which nothing has come that the invariant refuses.
    pub races: Vec<DataRace>,
    /// Flushes and fences that were for nothing, of all runs. They lose nothing but time.
    pub performance: Vec<PerformanceFinding>,
}

/// What the runs of an exploration show, besides their crashes.
#[derive(Default)]
struct Seen {
    races: DataRaces,
    performance: Performance,
}

impl Seen {
    fn outcome(self, counts: Counts, finding: Option<Finding>) -> Outcome {
        Outcome { counts, finding, races: self.races.found(), performance: self.performance.findings() }
    }
}

impl Outcome {
    /// Whether nothing within the bounds was left out: neither for want of time, nor because a crash had too many states.
    pub fn is_complete(&self) -> bool {
        self.counts.cut_short == 0
    }

    /// For tests: nothing was found, no data race either, and nothing within the bounds was left out.
    ///
    /// # Panics
    /// Otherwise, with the finding, or with the races.
    #[track_caller]
    pub fn assert_clean(&self) {
        if let Some(finding) = &self.finding {
            panic!("{finding}");
        }
        let races: Vec<String> = self.races.iter().map(ToString::to_string).collect();
        assert!(races.is_empty(), "{}", races.join("\n"));
        assert!(
            self.is_complete(),
            "no finding, but not everything was explored ({:?}): allow fewer preemptions, or a longer limit and more states",
            self.counts
        );
    }

    /// For tests: no flush and no fence was for nothing each time.
    ///
    /// # Panics
    /// One was.
    #[track_caller]
    pub fn assert_nothing_wasted(&self) {
        let wasted: Vec<String> =
            self.performance.iter().filter(|one| one.is_always()).map(ToString::to_string).collect();
        assert!(wasted.is_empty(), "{}", wasted.join("\n"));
    }
}

/// A line that [`Check::replay`] cannot read, or that belongs to another check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadReplay {
    /// It is no such line.
    Malformed(String),
    /// It has another number of threads.
    Threads {
        /// Those of the line.
        found: usize,
        /// Those of the check.
        threads: usize,
    },
}

impl fmt::Display for BadReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(line) => write!(
                f,
                "{line:?} is not the replay line of a finding: copy the text in quotation marks behind `replay:`"
            ),
            Self::Threads { found, threads } => {
                write!(f, "the finding has {found} threads, and this check {threads}: call threads({found})")
            }
        }
    }
}

impl std::error::Error for BadReplay {}

impl<'a> Check<'a> {
    /// What is in memory, durably, before the threads begin: nothing else, unless this stores it.
    pub fn set_up(mut self, set_up: impl Fn(&Pmem) + 'a) -> Self {
        self.set_up = Box::new(set_up);
        self
    }

    /// What runs after a power failure, before the [invariant](Check::invariant) is looked at.
    pub fn recovery(mut self, recovery: impl Fn(&Pmem) + 'a) -> Self {
        self.recovery = Box::new(recovery);
        self
    }

    /// What must hold after each power failure and the recovery from it; `Err` says what is wrong. It must not refuse after
    /// fewer [acknowledgements](Pmem::acknowledge) what it accepts after more.
    pub fn invariant(mut self, invariant: impl Fn(&Pmem, &Crashed) -> Result<(), String> + 'a) -> Self {
        self.invariant = Box::new(invariant);
        self
    }

    /// Bytes of persistent memory, rounded up to lines.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes.next_multiple_of(64);
        self
    }

    /// What may survive of a cache line.
    pub fn setting(mut self, setting: Setting) -> Self {
        self.setting = setting;
        self
    }

    /// How many threads run the program, at least one.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// How often a thread may be interrupted where it could go on, in one schedule: at every access, fence and acknowledgement.
    pub fn preemptions(mut self, preemptions: u32) -> Self {
        self.preemptions = preemptions;
        self
    }

    /// How often power may fail in recovery, one time in the recovery from the other.
    pub fn crashes_in_recovery(mut self, crashes: usize) -> Self {
        self.crashes_in_recovery = crashes;
        self
    }

    /// States tried at one crash point, at most; 2²⁰ unless said otherwise.
    pub fn states(mut self, states: u64) -> Self {
        self.states = states;
        self
    }

    /// How long it may take; a minute unless said otherwise.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The seed of the first [sampled](Check::sampled) run; 1 unless said otherwise.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Reports call the word at `at` by this name.
    pub fn label(self, name: &str, at: u64) -> Self {
        self.label_range(name, at, 8)
    }

    /// Reports call words among these bytes by this name and their distance from its beginning.
    pub fn label_range(mut self, name: &str, at: u64, bytes: u64) -> Self {
        self.labels.push((at, bytes, name.to_owned()));
        self
    }

    /// Flushes and fences of the [step](Pmem::step) of this name are left out: an invariant that does not notice is worth little.
    pub fn omitting(mut self, step: &str) -> Self {
        self.omitted = Some(step.to_owned());
        self
    }

    /// Explores every schedule with so many preemptions, every moment at which power can fail and every state that may survive then; and
    /// the same in recovery.
    ///
    /// # Panics
    /// The set-up panics.
    pub fn exhaustive(&self) -> Outcome {
        self.explore(&|own, each| own::exhaust(own, self.reach(), self.preemptions, each))
    }

    /// Explores so many runs with schedules at random, half of those of several threads with store buffers, and in each of them every moment at
    /// which power can fail.
    ///
    /// # Panics
    /// The set-up panics.
    pub fn sampled(&self, runs: u64) -> Outcome {
        self.explore(&|own, each| own::sample(own, self.reach(), (self.seed, runs), each))
    }

    /// Runs the history of a finding again: its schedule, its power failures and what survived them. Nothing is found if the program has
    /// changed so that it does not come to them any more.
    ///
    /// # Errors
    /// The line is not one of this check.
    ///
    /// # Panics
    /// The set-up panics.
    pub fn replay(&self, line: &str) -> Result<Outcome, BadReplay> {
        let replay = Replay::of(line, self.threads)?;
        let mut seen = Seen::default();
        let explored = self.own(&[], replay.setting, |own| {
            own::replay(own, &replay, |run| self.look(&mut seen, run, replay.setting))
        });
        let repaired = |repair: Repair| {
            let all = |own: &Own<'_>| own::exhaust(own, self.reach(), self.preemptions, |_| ());
            self.own(&[repair], replay.setting, all).broken.is_none()
        };
        let finding = self.finding(&explored, replay.setting, &repaired);
        Ok(seen.outcome(explored.counts, finding))
    }

    /// Takes in what a run shows.
    fn look(&self, seen: &mut Seen, run: &Run, setting: Setting) {
        seen.performance.add(&run.trace);
        seen.races.add(run, setting, self.threads, |word| self.name(word));
    }

    fn reach(&self) -> Reach {
        Reach { states: self.states, recovery_crashes: self.crashes_in_recovery, limit: self.limit }
    }

    fn explore(&self, explorer: &dyn Fn(&Own<'_>, Each<'_>) -> Explored) -> Outcome {
        let mut seen = Seen::default();
        let explored = self.own(&[], self.setting, |own| {
            let mut explored = explorer(own, &mut |run| self.look(&mut seen, run, self.setting));
            own::shrink(own, self.reach(), &mut explored);
            explored
        });
        let repaired = |repair: Repair| {
            let again = self.own(&[repair], self.setting, |own| explorer(own, &mut |_| ()));
            again.broken.is_none()
        };
        let finding = self.finding(&explored, self.setting, &repaired);
        seen.outcome(explored.counts, finding)
    }

    /// What was found, as it is told; advice is tried with `repaired`.
    fn finding(
        &self,
        explored: &Explored,
        setting: Setting,
        repaired: &dyn Fn(Repair) -> bool,
    ) -> Option<Finding> {
        let broken = explored.broken.as_deref()?;
        let diagnosis = self.diagnosis(broken, explored.delays, setting);
        let replay = Replay::new((setting, self.threads), broken, explored.delays);
        Some(Finding::new(broken, diagnosis, repaired, &replay, explored.seed))
    }

    fn diagnosis(&self, broken: &Broken, delays: Option<u64>, setting: Setting) -> Diagnosis {
        let schedule = &broken.schedule;
        let run = self.own(&[], setting, |own| own.run(Interleaving::guided(schedule, delays)));
        let is_clean_by_line = || {
            let by_line = |own: &Own<'_>| own::one_schedule(own, self.reach(), schedule, delays);
            self.own(&[], Setting::Line, by_line).is_ok()
        };
        let is_clean_in_turn = || {
            let in_turn = |own: &Own<'_>| own::exhaust(own, self.reach(), 0, |_| ());
            self.threads > 1 && self.own(&[], setting, in_turn).broken.is_none()
        };
        classify(broken, &run.trace, setting, is_clean_by_line, is_clean_in_turn)
    }

    /// What a word is called.
    fn name(&self, word: u32) -> String {
        let at = 8 * u64::from(word);
        let label = self.labels.iter().rev().find(|(from, bytes, _)| (*from..from + bytes).contains(&at));
        match label {
            Some((from, _, name)) if *from == at => name.clone(),
            Some((from, _, name)) => format!("{name}+{:#x}", at - from),
            None => format!("[{at:#x}]"),
        }
    }

    /// The program with `repairs`.
    fn own<R>(&self, repairs: &[Repair], setting: Setting, body: impl FnOnce(&Own<'_>) -> R) -> R {
        let how = (self.omitted.as_deref(), repairs);
        let alone = (None, &[][..]);
        let own = Own {
            image: self.image(),
            volatile_bytes: VOLATILE_BYTES,
            setting,
            threads: self.threads,
            begin: &|| (),
            program: &|thread, memory| (self.program)(&Pmem::new(memory, thread, how, false)),
            recovery: &|memory| (self.recovery)(&Pmem::new(memory, 0, (how.0, repairs), true)),
            invariant: &|memory, crashed| (self.invariant)(&Pmem::new(memory, 0, alone, true), crashed),
            name: &|word| self.name(word),
            every_access: true,
        };
        body(&own)
    }

    /// Memory after the set-up.
    fn image(&self) -> Vec<u64> {
        let empty = vec![0; self.bytes as usize / 8];
        let world = Rc::new(X86World::new(empty, VOLATILE_BYTES, 0..0, 1, self.setting, None));
        let hosted: Rc<dyn World> = world.clone();
        let memory = Hosted::new(hosted, 0);
        let ran = caught(|| (self.set_up)(&Pmem::new(&memory, 0, (None, &[]), true)));
        if let Err(stopped) = ran {
            panic!("the set-up of the program that is checked stops: {}", stopped.text());
        }
        world.contents()
    }
}
