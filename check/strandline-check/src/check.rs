//! The builder of checks, and what they find.

use std::fmt;
use std::time::Duration;

use crate::Session;
use crate::coverage::{Coverage, Verdict, explored};
use crate::data_race::DataRace;
use crate::finding::{Finding, PerformanceFinding};
use crate::x86::Crashed;
use crate::x86::explorer::Counts;
use crate::x86::own::{self, Explored, Own, Reach, Run};
use crate::x86::replay::{BadReplay, Replay};

/// What the code of a [`Check`] runs on: persistent memory ([`OnPmem`]) or, with the feature `store`, a database (`OnDatabase`).
///
/// Sealed: `explore` works on types of this crate.
pub trait Target: Sized {
    /// One thread's handle, which every closure of the check gets.
    type View<'v>;
    /// What the program, its set-up and its recovery return.
    type Ended;
    /// Why an invariant refuses what a power failure has left.
    type Refusal;
    /// Options that only checks on this target have.
    #[doc(hidden)]
    type Options;

    #[doc(hidden)]
    fn explore(check: &Check<'_, Self>, histories: Histories<'_>) -> Outcome;
}

/// The target of [`check`](crate::check()): persistent memory, of which each thread has a [`Pmem`](crate::Pmem).
#[derive(Debug)]
pub enum OnPmem {}

type Body<'a, T> = Box<dyn Fn(&<T as Target>::View<'_>) -> <T as Target>::Ended + 'a>;
type Invariant<'a, T> =
    Box<dyn Fn(&<T as Target>::View<'_>, &Crashed) -> Result<(), <T as Target>::Refusal> + 'a>;

/// Code to be checked: what it does, how it recovers, what must hold then, and how far it is explored. [`check`](crate::check) makes one of a
/// program on persistent memory, `store` one of code over a database.
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
pub struct Check<'a, T: Target = OnPmem> {
    pub(crate) program: Body<'a, T>,
    pub(crate) set_up: Option<Body<'a, T>>,
    pub(crate) recovery: Option<Body<'a, T>>,
    pub(crate) invariants: Vec<Invariant<'a, T>>,
    pub(crate) bytes: u64,
    pub(crate) threads: usize,
    preemptions: u32,
    crashes_in_recovery: usize,
    limit: Duration,
    seed: u64,
    pub(crate) session: Session,
    pub(crate) options: T::Options,
}

/// The histories that an exploration runs.
#[derive(Clone, Copy)]
pub struct Histories<'r>(Choice<'r>);

#[derive(Clone, Copy)]
enum Choice<'r> {
    All,
    /// So many at random.
    Sampled(u64),
    Replayed(&'r Replay),
}

impl<'r> Histories<'r> {
    /// Every history within the bounds.
    pub(crate) const ALL: Self = Self(Choice::All);

    /// The finding that is replayed, if one is.
    pub(crate) fn replayed(self) -> Option<&'r Replay> {
        match self.0 {
            Choice::Replayed(replay) => Some(replay),
            Choice::All | Choice::Sampled(_) => None,
        }
    }
}

/// What a check has found. Printed, it says what was explored, and the verdict or the finding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What was explored.
    pub counts: Counts,
    /// Operations of the runs.
    pub coverage: Coverage,
    /// How long it took.
    pub time: Duration,
    /// The first finding, after which exploration has stopped.
    pub finding: Option<Finding>,
    /// Data races on persistent words, of all runs; also those from which nothing has come that the invariant refuses.
    pub races: Vec<DataRace>,
    /// Flushes and fences that were for nothing, of all runs. They lose nothing but time.
    pub performance: Vec<PerformanceFinding>,
    /// Sentences about the check itself: values that the invariant does not notice, stores that were not recorded.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Returns whether nothing within the bounds was left out: neither for want of time, nor because a crash had too many states.
    pub fn is_complete(&self) -> bool {
        self.counts.is_complete()
    }

    /// What that says about the program.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(&self.counts, self.finding.is_some())
    }

    /// What was explored, in a line.
    pub fn explored(&self) -> String {
        format!("{}; {}; {:.1} s", explored(&self.counts), self.coverage, self.time.as_secs_f64())
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
            "{}, and not everything was explored ({}): allow fewer preemptions, or a longer limit and more states",
            self.verdict(),
            self.explored()
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

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.explored())?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        self.races.iter().try_for_each(|race| writeln!(f, "{race}"))?;
        match &self.finding {
            Some(finding) => write!(f, "{finding}"),
            None => write!(f, "{}", self.verdict()),
        }
    }
}

impl<'a, T: Target> Check<'a, T> {
    pub(crate) fn new(program: Body<'a, T>, bytes: u64, options: T::Options) -> Self {
        Self {
            program,
            set_up: None,
            recovery: None,
            invariants: Vec::new(),
            bytes,
            threads: 1,
            preemptions: 2,
            crashes_in_recovery: 1,
            limit: Duration::from_secs(60),
            seed: 1,
            session: Session::new(),
            options,
        }
    }

    /// What memory or the database holds, durably, before the threads begin: nothing else, unless this stores it.
    pub fn set_up(mut self, set_up: impl Fn(&T::View<'_>) -> T::Ended + 'a) -> Self {
        self.set_up = Some(Box::new(set_up));
        self
    }

    /// What the program does after a power failure, before the [invariant](Check::invariant) is checked; a database has been opened again by
    /// then. Power may fail in it, too.
    pub fn recovery(mut self, recovery: impl Fn(&T::View<'_>) -> T::Ended + 'a) -> Self {
        self.recovery = Some(Box::new(recovery));
        self
    }

    /// What must hold after each power failure and the recovery from it; `Err` says what is wrong, and so does a panic. It must not
    /// refuse after fewer [acknowledgements](Crashed::acknowledged) what it accepts after more. Several must all hold.
    pub fn invariant(
        mut self,
        invariant: impl Fn(&T::View<'_>, &Crashed) -> Result<(), T::Refusal> + 'a,
    ) -> Self {
        self.invariants.push(Box::new(invariant));
        self
    }

    /// Bytes of persistent memory, rounded up to lines, a page unless said otherwise; or bytes that the database may take, 16 MB
    /// unless said otherwise, of which one transaction may write a 128th.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// How many threads run the program, at least one.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// How often a thread may be interrupted where it could go on, in one schedule: on persistent memory at every access, fence and
    /// acknowledgement; over a database between transactions, and between a commit and the end of its wait until that is durable.
    pub fn preemptions(mut self, preemptions: u32) -> Self {
        self.preemptions = preemptions;
        self
    }

    /// How often power may fail in recovery, one time in the recovery from the other.
    pub fn crashes_in_recovery(mut self, crashes: usize) -> Self {
        self.crashes_in_recovery = crashes;
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

    /// Makes the check a part of `session`, which can end it early and hears how far it is.
    pub fn session(mut self, session: &Session) -> Self {
        self.session = session.clone();
        self
    }

    /// Explores every schedule with so many preemptions, every moment at which power can fail and every state that may be left then; and
    /// the same in recovery.
    ///
    /// # Panics
    /// The set-up panics or fails, a database finds no memory, or its model is to judge several threads.
    #[track_caller]
    pub fn exhaustive(&self) -> Outcome {
        T::explore(self, Histories::ALL)
    }

    /// Explores so many runs with schedules at random, on persistent memory half of those of several threads with store buffers, and in each of
    /// them every moment at which power can fail.
    ///
    /// # Panics
    /// As [`exhaustive`](Check::exhaustive).
    #[track_caller]
    pub fn sampled(&self, runs: u64) -> Outcome {
        T::explore(self, Histories(Choice::Sampled(runs)))
    }

    /// Runs the history of a finding again: its schedule, its power failures and what survived them. Nothing is found if the program has
    /// changed so that it does not come to them any more.
    ///
    /// # Errors
    /// The line is not one of this check.
    ///
    /// # Panics
    /// As [`exhaustive`](Check::exhaustive).
    #[track_caller]
    pub fn replay(&self, line: &str) -> Result<Outcome, BadReplay> {
        let replay = Replay::of(line, self.threads)?;
        Ok(T::explore(self, Histories(Choice::Replayed(&replay))))
    }

    /// How far to explore, with at most `states` states at one crash point.
    pub(crate) fn reach(&self, states: u64) -> Reach {
        Reach {
            states,
            total: u64::MAX,
            recovery_crashes: self.crashes_in_recovery,
            limit: self.limit,
            session: self.session.clone(),
        }
    }

    /// Runs `histories` of `own`; `each` is shown the runs.
    pub(crate) fn run(
        &self,
        own: &Own<'_>,
        reach: &Reach,
        histories: Histories<'_>,
        each: &mut dyn FnMut(&Run),
    ) -> Explored {
        match histories.0 {
            Choice::All => own::exhaust(own, reach, self.preemptions, each),
            Choice::Sampled(runs) => own::sample(own, reach, (self.seed, runs), each),
            Choice::Replayed(replay) => own::replay(own, replay, each),
        }
    }
}

impl<T: Target> fmt::Debug for Check<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("threads", &self.threads).finish_non_exhaustive()
    }
}
