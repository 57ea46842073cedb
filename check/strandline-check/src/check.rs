//! The builder of checks, and their results.

use std::fmt;
use std::time::Duration;

use crate::Session;
use crate::coverage::{Coverage, Verdict, explored};
use crate::data_race::DataRace;
use crate::finding::{Finding, PerformanceFinding};
use crate::x86::Crashed;
use crate::x86::checked_program::{self, CheckedProgram, Explored, Reach, Run};
use crate::x86::explorer::Counts;
use crate::x86::replay::{BadReplay, Replay};

/// The environment in which the code of a [`Check`] runs: persistent memory ([`OnPmem`]) or, with the feature `store`, a database (`OnDatabase`).
///
/// Sealed: `explore` uses private types of this crate.
pub trait Target: Sized {
    /// One thread's handle, which every closure of the check gets.
    type View<'v>;
    /// The return type of the program, its set-up and its recovery.
    type Ended;
    /// The type of the reason with which an invariant refuses a state.
    type Refusal;
    /// Options that exist only for checks on this target.
    #[doc(hidden)]
    type Options;

    #[doc(hidden)]
    fn explore(check: &Check<'_, Self>, histories: Histories<'_>) -> Outcome;
}

/// The target of [`check`](crate::check()): persistent memory. Each thread accesses it through a [`Pmem`](crate::Pmem).
#[derive(Debug)]
pub enum OnPmem {}

type Body<'a, T> = Box<dyn Fn(&<T as Target>::View<'_>) -> <T as Target>::Ended + 'a>;
type Invariant<'a, T> =
    Box<dyn Fn(&<T as Target>::View<'_>, &Crashed) -> Result<(), <T as Target>::Refusal> + 'a>;

/// A check of a program: the program, its recovery, the invariant that must hold afterwards, and how far to explore. [`check`](crate::check) creates
/// a check of a program on persistent memory, `store` one of code over a database.
///
/// ```
/// use strandline_check::{FindingKind, check};
///
/// const LENGTH: u64 = 0;
/// const ELEMENTS: u64 = 64;
///
/// // Appends an element, then makes it count by the length. There is no fence after the flush.
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
/// // The smallest repair: a fence after the flush. The line is flushed already.
/// let advice = finding.advice.as_ref().unwrap();
/// assert!(advice.fence && !advice.flush && advice.repairs);
/// // The report ends with a line from which the finding is replayed.
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
    /// This many random histories.
    Sampled(u64),
    Replayed(&'r Replay),
}

impl<'r> Histories<'r> {
    /// Every history within the bounds.
    pub(crate) const ALL: Self = Self(Choice::All);

    /// Returns the finding to replay, if any.
    pub(crate) fn replayed(self) -> Option<&'r Replay> {
        match self.0 {
            Choice::Replayed(replay) => Some(replay),
            Choice::All | Choice::Sampled(_) => None,
        }
    }
}

/// The result of a check. Its `Display` text states what was explored, and the verdict or the finding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The counts of the exploration.
    pub counts: Counts,
    /// Counts of the operations in all runs.
    pub coverage: Coverage,
    /// How long it took.
    pub time: Duration,
    /// The first finding. Exploration stops there.
    pub finding: Option<Finding>,
    /// Data races on persistent words in all runs, including races whose results the invariant accepts.
    pub races: Vec<DataRace>,
    /// Redundant flushes and fences in all runs. They cost only time.
    pub performance: Vec<PerformanceFinding>,
    /// Notes about the check itself: values that the invariant does not notice, stores that were not recorded.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Returns whether everything within the bounds was explored: time sufficed, and no crash had too many states.
    pub fn is_complete(&self) -> bool {
        self.counts.is_complete()
    }

    /// Returns the verdict on the program.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(&self.counts, self.finding.is_some())
    }

    /// Returns one line about what was explored.
    pub fn explored(&self) -> String {
        format!("{}; {}; {:.1} s", explored(&self.counts), self.coverage, self.time.as_secs_f64())
    }

    /// Asserts, for tests, that there is no finding and no data race, and that everything within the bounds was explored.
    ///
    /// # Panics
    /// Panics otherwise, with the finding or the races.
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

    /// Asserts, for tests, that no flush and no fence was redundant each time.
    ///
    /// # Panics
    /// Panics if one was.
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

    /// Sets the code that runs before the threads begin. Its stores are durable, and are all that memory or the database then holds.
    pub fn set_up(mut self, set_up: impl Fn(&T::View<'_>) -> T::Ended + 'a) -> Self {
        self.set_up = Some(Box::new(set_up));
        self
    }

    /// Sets the program's recovery. It runs after a power failure, before the [invariant](Check::invariant) is checked; a database has been reopened
    /// by then. Power may fail during recovery, too.
    pub fn recovery(mut self, recovery: impl Fn(&T::View<'_>) -> T::Ended + 'a) -> Self {
        self.recovery = Some(Box::new(recovery));
        self
    }

    /// Adds an invariant, which must hold after each power failure and recovery. It returns `Err` with the reason if the state is wrong; a panic
    /// counts as a refusal, too. It must not refuse with fewer [acknowledgements](Crashed::acknowledged) what it accepts with more. If there are
    /// several invariants, all must hold.
    pub fn invariant(
        mut self,
        invariant: impl Fn(&T::View<'_>, &Crashed) -> Result<(), T::Refusal> + 'a,
    ) -> Self {
        self.invariants.push(Box::new(invariant));
        self
    }

    /// Sets the bytes of persistent memory, rounded up to lines (default: a page), or the bytes that the database may take (default: 16 MB), of which
    /// one transaction may write a 128th.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets how many threads run the program, at least one.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets how often a thread may be preempted in one schedule. On persistent memory this can happen at every access, fence and acknowledgement;
    /// over a database between transactions, and between a commit and the end of the wait for its durability.
    pub fn preemptions(mut self, preemptions: u32) -> Self {
        self.preemptions = preemptions;
        self
    }

    /// Sets how often power may fail during recovery; each further failure happens in the recovery from the one before.
    pub fn crashes_in_recovery(mut self, crashes: usize) -> Self {
        self.crashes_in_recovery = crashes;
        self
    }

    /// Sets how long the check may take; the default is a minute.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the seed of the first [sampled](Check::sampled) run; the default is 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Makes the check a part of `session`, which can end it early and receives its progress.
    pub fn session(mut self, session: &Session) -> Self {
        self.session = session.clone();
        self
    }

    /// Explores every schedule with up to the permitted preemptions, every moment at which power can fail, and every state that the failure can
    /// leave; also in recovery.
    ///
    /// # Panics
    /// Panics if the set-up panics or fails, if there is no memory for a database, or if a model is to judge several threads.
    #[track_caller]
    pub fn exhaustive(&self) -> Outcome {
        T::explore(self, Histories::ALL)
    }

    /// Explores `runs` runs with random schedules, and in each run every moment at which power can fail. On persistent memory half of the runs with
    /// several threads use store buffers.
    ///
    /// # Panics
    /// Panics as [`exhaustive`](Check::exhaustive) does.
    #[track_caller]
    pub fn sampled(&self, runs: u64) -> Outcome {
        T::explore(self, Histories(Choice::Sampled(runs)))
    }

    /// Repeats the history of a finding: its schedule, its power failures, and what survived them. There is no finding if the program has changed so
    /// that the history does not occur any more.
    ///
    /// # Errors
    /// Returns an error if the line does not belong to this check.
    ///
    /// # Panics
    /// Panics as [`exhaustive`](Check::exhaustive) does.
    #[track_caller]
    pub fn replay(&self, line: &str) -> Result<Outcome, BadReplay> {
        let replay = Replay::of(line, self.threads)?;
        Ok(T::explore(self, Histories(Choice::Replayed(&replay))))
    }

    /// Returns the bounds of the exploration, with at most `states` states at one crash point.
    pub(crate) fn reach(&self, states: u64) -> Reach {
        Reach {
            states,
            total: u64::MAX,
            recovery_crashes: self.crashes_in_recovery,
            limit: self.limit,
            session: self.session.clone(),
        }
    }

    /// Runs `histories` of `own`, and calls `each` with each run.
    pub(crate) fn run(
        &self,
        checked: &CheckedProgram<'_>,
        reach: &Reach,
        histories: Histories<'_>,
        each: &mut dyn FnMut(&Run),
    ) -> Explored {
        match histories.0 {
            Choice::All => checked_program::exhaust(checked, reach, self.preemptions, each),
            Choice::Sampled(runs) => checked_program::sample(checked, reach, (self.seed, runs), each),
            Choice::Replayed(replay) => checked_program::replay(checked, replay, each),
        }
    }
}

impl<T: Target> fmt::Debug for Check<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("threads", &self.threads).finish_non_exhaustive()
    }
}
