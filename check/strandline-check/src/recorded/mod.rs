//! Checks programs in other languages: records a run, and runs recovery in a process of its own on each image that a power failure can leave.
//! `docs/checking-c-programs.md` introduces it.

mod judge;
mod life;
mod places;
mod pmemcheck;
mod process;
mod recording;
mod server;
mod trial;
mod warnings;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::judge::{ProcessJudge, Processes, differing};
use self::places::Places;
use self::process::{End, Place};
use self::recording::{Recording, What};
use crate::check::Outcome;
use crate::coverage::Coverage;
use crate::finding::{Finding, FindingKind, Performance, Trials};
use crate::pmem::Repair;
use crate::x86::agenda::Agenda;
use crate::x86::cause::{Case, after_crashes};
use crate::x86::checked_program::Run;
use crate::x86::explorer::{Broken, Counts, Depth, Explorer, Violation};
use crate::x86::panics::Stopped;
use crate::x86::replay::Replay;
use crate::x86::story;
use crate::{BadReplay, Session, Setting};

/// The largest pool in bytes: exploring takes several times as much memory.
const LARGEST: usize = 256 << 20;

/// A command: a program and its arguments. `{pool}` in an argument stands for the path of the pool's file.
pub type Command = Vec<OsString>;

/// A program to record, the commands that recover from its crashes and judge them, and how far to explore. [`Program::new`] has the command's
/// defaults.
///
/// ```no_run
/// use std::path::Path;
///
/// use strandline_check::recorded::Program;
///
/// let command = |what: &str| vec!["./list".into(), what.into(), "{pool}".into()];
/// let recorder = Path::new("target/release/libstrandline_check_c.so");
/// let mut program = Program::new(command("run"), recorder, Path::new("/dev/shm/list"));
/// program.check = Some(command("check"));
/// println!("{}", program.check()?.outcome);
/// # Ok::<(), strandline_check::recorded::Unchecked>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Program {
    /// The command to record.
    pub run: Command,
    /// A recording to explore instead of running [`Program::run`]: the recorder's, or the log of valgrind's tool pmemcheck.
    pub recording: Option<PathBuf>,
    /// A command that creates the pool durably before the run; it is not recorded. Without it the pool is [`Program::pool`], or there is no file at
    /// first.
    pub set_up: Option<Command>,
    /// A file to copy as the pool before the run, instead of [`Program::set_up`].
    pub pool: Option<PathBuf>,
    /// A command that runs on each image, and must end with exit code 0. It is recorded, so that power may fail in it.
    pub recover: Option<Command>,
    /// A command that runs on each image after recovery. Any exit code other than 0 means that the image is wrong; the command's output is the
    /// reason. The environment variable `STRANDLINE_ACKNOWLEDGED` has the acknowledged numbers, separated by spaces.
    pub check: Option<Command>,
    /// The recording library.
    pub recorder: PathBuf,
    /// A folder for the pool and the recording. It should be in memory, and empty.
    pub folder: PathBuf,
    /// True to record only the stores that the program marks, and not those that ordinary instructions make.
    pub only_marked: bool,
    /// How long each process may take.
    pub process_limit: Duration,
    /// The parts of a cache line that may survive.
    pub setting: Setting,
    /// How often power may fail during recovery, at most; each further failure happens in the recovery from the one before.
    pub crashes_in_recovery: usize,
    /// States tried at one crash point, at most.
    pub states: u64,
    /// How long exploring may take.
    pub limit: Duration,
    /// The session that can end exploring early, and that receives its progress.
    pub session: Session,
}

/// The result of checking a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The counts of the exploration, and the first finding.
    pub outcome: Outcome,
    /// The number of operations that the recording has.
    pub operations: usize,
    /// The number of processes that ran recovery or check.
    pub processes: u64,
    /// The pool of the state that was found, before recovery.
    pub image: Option<Vec<u8>>,
}

/// Why a program cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unchecked {
    /// The request cannot be met: what is wrong, and what to do.
    Usage(String),
    /// A process cannot be run, or a file cannot be read or written.
    Failed(String),
}

impl std::fmt::Display for Unchecked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Usage(text) | Self::Failed(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Unchecked {}

/// A run, and the pool before it.
struct Recorded {
    recording: Recording,
    image: Vec<u64>,
    /// The pool after the run.
    finished: Vec<u64>,
    /// The length of the pool's file.
    bytes: usize,
    /// How the program ended, if it stopped early.
    stopped: Option<Stopped>,
    notes: Vec<String>,
}

impl Program {
    /// Creates a check of the program `run`, which the library `recorder` records, with its pool in `folder`. Nothing judges it yet: set
    /// [`check`](Program::check), [`recover`](Program::recover) or both.
    pub fn new(run: Command, recorder: impl Into<PathBuf>, folder: impl Into<PathBuf>) -> Self {
        Self {
            run,
            recording: None,
            set_up: None,
            pool: None,
            recover: None,
            check: None,
            recorder: recorder.into(),
            folder: folder.into(),
            only_marked: false,
            process_limit: Duration::from_secs(10),
            setting: Setting::Line,
            crashes_in_recovery: 1,
            states: 4096,
            limit: Duration::from_secs(60),
            session: Session::new(),
        }
    }

    /// Records a run and explores all its crashes.
    ///
    /// # Errors
    /// Returns an error if a command cannot be run, if it fails before there is anything to explore, or if nothing was recorded.
    pub fn check(&self) -> Result<Report, Unchecked> {
        self.explore(None)
    }

    /// Records a run, and tries the one crash that the [replay line](Finding::replay) of a finding describes. There is no finding if the program has
    /// changed so that it does not reach the crash any more.
    ///
    /// # Errors
    /// Returns the errors of [`Program::check`], and one if the line does not belong to a recording.
    pub fn replay(&self, line: &str) -> Result<Report, Unchecked> {
        let replay = Replay::parse(line).ok_or_else(|| BadReplay::Malformed(line.to_owned()).to_string());
        self.explore(Some(replay.map_err(Unchecked::Usage)?))
    }

    fn place(&self) -> Place {
        Place {
            pool: self.folder.join("pool"),
            recording: self.folder.join("recording"),
            said: self.folder.join("said"),
            recorder: self.recorder.clone(),
            only_marked: self.only_marked,
            limit: self.process_limit,
        }
    }

    /// Creates the pool that the program begins with.
    fn prepare(&self, place: &Place) -> Result<(), Unchecked> {
        if self.recover.is_none() && self.check.is_none() {
            let what =
                "nothing says whether a state is right: give a command that recovers, or one that checks";
            return Err(Unchecked::Usage(what.to_owned()));
        }
        place.remove_pool().map_err(Unchecked::Failed)?;
        if let Some(pool) = &self.pool {
            let read =
                std::fs::read(pool).map_err(|error| format!("cannot read {}: {error}", pool.display()));
            place.write_pool(&read.map_err(Unchecked::Usage)?).map_err(Unchecked::Failed)?;
        }
        if let Some(set_up) = &self.set_up {
            let ended = place.run(set_up, process::Recorded::No, &[]).map_err(Unchecked::Usage)?;
            ended.check().map_err(|how| Unchecked::Usage(format!("the set-up {how}")))?;
        }
        Ok(())
    }

    /// Returns a note that these words changed without a recorded store, if there are any.
    fn note_of_unseen(&self, unseen: &[(u64, u64)]) -> Option<String> {
        let (first, _) = unseen.first()?;
        Some(format!(
            "{} words of the pool have changed without being seen to be stored to, the first one at {first:#x}: \
             they are not explored{}",
            unseen.len(),
            if self.only_marked { " (only marked stores are seen)" } else { "" }
        ))
    }

    /// Runs the program, or reads its recording.
    fn record(&self, place: &Place) -> Result<Recorded, Unchecked> {
        self.prepare(place)?;
        let before = place.read_pool().map_err(Unchecked::Failed)?;
        match &self.recording {
            Some(file) => self.read_recording(file, &before),
            None => self.run_recorded(place, &before),
        }
    }

    /// Reads the recording of a run that has ended.
    fn read_recording(&self, file: &Path, before: &[u8]) -> Result<Recorded, Unchecked> {
        let name = file.display().to_string();
        let text =
            std::fs::read(file).map_err(|error| Unchecked::Usage(format!("cannot read {name}: {error}")))?;
        let text = String::from_utf8_lossy(&text);
        let mut places = Places::default();
        let recording = match pmemcheck::is_log(&text) {
            true => pmemcheck::parse(&text, &name, self.pool.as_deref(), &mut places),
            false => Recording::parse(&text, Some(&mut places)).map_err(|why| format!("{name}: {why}")),
        };
        let recording = recording.map_err(Unchecked::Usage)?;
        if !recording.has(|what| matches!(what, What::Store { .. })) {
            return Err(Unchecked::Usage(format!("no store to the pool is recorded in {name}")));
        }
        // A mapping has whole pages, but its file need not.
        let bytes = if before.is_empty() { recording.mapped } else { recording.stored_end() };
        let bytes = before.len().max(usize::try_from(bytes).unwrap_or(usize::MAX));
        let notes = warnings::notes(&recording, &mut places);
        self.recorded(recording, before, bytes, None, notes)
    }

    /// Runs the program.
    fn run_recorded(&self, place: &Place, before: &[u8]) -> Result<Recorded, Unchecked> {
        let ended = place.run(&self.run, process::Recorded::WithPlaces, &[]).map_err(Unchecked::Usage)?;
        let mut places = Places::default();
        let text = place.recording().map_err(Unchecked::Failed)?;
        let recording = Recording::parse(&text, Some(&mut places)).map_err(Unchecked::Failed)?;
        let name = self.run.first().map_or_else(String::new, |name| name.display().to_string());
        if let End::Code(_) = ended.end {
            let how = ended.check().err().unwrap_or_default();
            return Err(Unchecked::Usage(format!("{name} {how}; what is checked must end with exit code 0")));
        }
        let after = place.read_pool().map_err(Unchecked::Failed)?;
        let is_changed = (0..).zip(&after).any(|(at, byte)| *byte != before.get(at).copied().unwrap_or(0));
        if !recording.was_mapped {
            let why = warnings::why_nothing(&recording, is_changed);
            return Err(Unchecked::Usage(format!(
                "{name} has recorded nothing: it must be linked dynamically and map the pool at the path {{pool}}, shared and for writing ({}){why}",
                place.pool.display()
            )));
        }
        let how = ended.check().err();
        let stopped = how.map(|how| match ended.end {
            End::TimedOut(_) => Stopped::Deadlock(format!("the program {how}")),
            _ => Stopped::Panic(format!("the program {how}")),
        });
        let is_stopped =
            stopped.is_some() || recording.has(|what| matches!(what, What::Outside(..) | What::Fault(_)));
        if !is_stopped && !recording.has(|what| matches!(what, What::Store { .. })) {
            let why = warnings::why_no_store(&recording, is_changed, self.only_marked);
            return Err(Unchecked::Usage(format!("no store of {name} to the pool was recorded, {why}")));
        }
        let notes = warnings::notes(&recording, &mut places);
        let bytes = before.len().max(after.len());
        let mut recorded = self.recorded(recording, before, bytes, stopped, notes)?;
        if recorded.stopped.is_none() {
            let unseen = differing(&recorded.finished, &after);
            recorded.notes.extend(self.note_of_unseen(&unseen));
            unseen.into_iter().for_each(|(at, word)| recorded.finished[at as usize / 8] = word);
        }
        Ok(recorded)
    }

    /// Creates a run on a pool that has these bytes at the end.
    fn recorded(
        &self,
        recording: Recording,
        before: &[u8],
        bytes: usize,
        stopped: Option<Stopped>,
        notes: Vec<String>,
    ) -> Result<Recorded, Unchecked> {
        if bytes > LARGEST {
            return Err(Unchecked::Usage(format!(
                "the pool has {} MiB, and can have {} at most: make a smaller one to check",
                bytes >> 20,
                LARGEST >> 20
            )));
        }
        let mut image: Vec<u64> = vec![0; bytes.div_ceil(64) * 8];
        for (at, word) in differing(&image, before) {
            image[at as usize / 8] = word;
        }
        let (run, finished) = life::run(&recording, &image, self.setting, &[]);
        let stopped = run.stopped.or(stopped);
        Ok(Recorded { recording, image, finished, bytes, stopped, notes })
    }

    fn explore(&self, replay: Option<Replay>) -> Result<Report, Unchecked> {
        let began = Instant::now();
        let place = self.place();
        let mut recorded = self.record(&place)?;
        let setting = replay.as_ref().map_or(self.setting, |replay| replay.setting);
        let name = |word: u32| self::name(&recorded.recording.labels, word);
        let commands = (self.recover.as_deref(), self.check.as_deref());
        let processes = Processes::new(&place, commands, setting, recorded.bytes, &name);
        let run = |repairs: &[Repair]| life::run(&recorded.recording, &recorded.image, setting, repairs).0;
        let first = run(&[]);
        let (mut performance, mut coverage) = (Performance::default(), Coverage::default());
        performance.add(&first.trace);
        coverage.add(&first.trace);
        let reach = Bound { until: deadline(began, self.limit), most: u64::MAX };
        let stopped = recorded.stopped.clone().map(|stopped| broken_by(stopped, &first, &name));
        let is_for_crash = replay.as_ref().is_some_and(|replay| !replay.crashes.is_empty());
        let tried = match stopped.is_none() && !is_for_crash {
            true => {
                let labels = &recorded.recording.labels;
                trial::try_commands(
                    &processes,
                    &first,
                    &recorded.finished,
                    labels,
                    self.limit / 10,
                    &self.session,
                )
            }
            false => trial::Tried::default(),
        };
        let is_refused = tried.refusal.is_some();
        let stopped = stopped.or_else(|| Some(broken_by(Stopped::Panic(tried.refusal?), &first, &name)));
        recorded.notes.extend(tried.notes);
        let threads = recorded.recording.threads.max(1);
        let (counts, broken) = match (stopped, &replay) {
            (Some(broken), _) => (Counts { histories: 1, ..Counts::default() }, Some(broken)),
            (None, Some(replay)) => self.state(&processes, &first, replay),
            (None, None) => self.states(&processes, &first, reach),
        };
        let mut finding = None;
        let mut image = None;
        if let Some(broken) = &broken {
            let time = (!broken.crashes.is_empty()).then_some(broken.time);
            let crashes = broken.crashes.clone();
            let line = Replay { setting, threads, delays: None, schedule: Vec::new(), time, crashes };
            // The repaired program is explored as far as this one, and a little further.
            let time = (2 * began.elapsed()).max(REPAIRED_TIME).min(self.limit);
            let judged = counts.states + counts.equal_states;
            let most = judged.saturating_mul(2).saturating_add(REPAIRED);
            let again = || Bound { until: deadline(Instant::now(), time), most };
            let by_line = || {
                let by_line = Processes::new(&place, commands, Setting::Line, recorded.bytes, &name);
                self.states(&by_line, &run(&[]), again()).1.is_none()
            };
            let trials = Trials {
                setting,
                is_clean_by_line: &by_line,
                is_clean_in_turn: &|| false,
                is_clean_with: &|repair| self.states(&processes, &run(&[repair]), again()).1.is_none(),
                knows_loads: false,
                repairs_recovery: false,
            };
            let case = processes.with_places(|| Case::new(ProcessJudge(&processes), &first, broken));
            let mut found = Finding::new(&case, &trials, &line, None);
            image = match is_refused {
                true => {
                    found.kind = FindingKind::WrongResult;
                    let mut bytes = Vec::new();
                    processes.file(&recorded.finished, &mut bytes);
                    Some(bytes)
                }
                false => image_before_recovery(&processes, &first, &line),
            };
            finding = Some(found);
        }
        if let Some(failure) = processes.failure.take() {
            return Err(Unchecked::Failed(failure));
        }
        let unseen = processes.unseen.get();
        if unseen > 0 {
            recorded.notes.push(format!(
                "recovery has changed up to {unseen} words without being seen to store to them: they are taken to be durable when it ends"
            ));
        }
        Ok(Report {
            outcome: Outcome {
                counts,
                coverage,
                time: began.elapsed(),
                finding,
                performance: performance.findings(),
                races: Vec::new(),
                notes: recorded.notes,
            },
            operations: recorded.recording.operations.len(),
            processes: processes.runs.get(),
            image,
        })
    }

    /// Explores every crash of `run`, first without crashes in recovery, so that a fault that one power failure shows is found with one. The second
    /// pass reuses the first pass's results.
    fn states(&self, processes: &Processes<'_>, run: &Run, bound: Bound) -> (Counts, Option<Box<Broken>>) {
        let alone = self.states_to(processes, run, 0, bound);
        let power_fails_again = self.crashes_in_recovery > 0 && self.recover.is_some();
        if alone.1.is_some() || alone.0.unvisited > 0 || !power_fails_again {
            return alone;
        }
        let (again, broken) = self.states_to(processes, run, self.crashes_in_recovery, bound);
        // The second pass repeats the states of the first pass, each of which it counts as equal.
        let repeated = alone.0.states + alone.0.equal_states;
        let equal = again.equal_states.saturating_sub(repeated).min(again.nested);
        let nested = again.nested - equal;
        let counts = Counts {
            recovery_points: again.recovery_points,
            equal_recovery_points: again.equal_recovery_points,
            states: alone.0.states + nested,
            equal_states: alone.0.equal_states + equal,
            nested,
            cut_short: alone.0.cut_short.max(again.cut_short + again.unvisited),
            ..alone.0
        };
        (counts, broken)
    }

    /// Explores every crash of `run` with so many crashes in recovery.
    fn states_to(
        &self,
        processes: &Processes<'_>,
        run: &Run,
        recovery_crashes: usize,
        bound: Bound,
    ) -> (Counts, Option<Box<Broken>>) {
        let depth = Depth { states: self.states, recovery_crashes, until: bound.until };
        let mut explorer = Explorer::new(ProcessJudge(processes));
        (explorer.session, explorer.most) = (self.session.clone(), bound.most);
        processes.begin();
        explorer.begin_run();
        let mut agenda = Agenda::new();
        let visited = run.trace.points.iter().try_for_each(|&point| {
            let visited = agenda.visit(&mut explorer, (&(), run), point, depth);
            self.session.progress(&explorer.counts);
            visited
        });
        let finish = |()| agenda.finish(&mut explorer, |()| Some(run), depth).map_err(|((), broken)| broken);
        let broken = visited.and_then(finish).err();
        let equal = processes.equal(explorer.counts.states);
        let mut counts = explorer.counts;
        counts.states -= equal;
        counts.equal_states += equal;
        (counts, broken)
    }

    /// Tries the crash of `run` that `replay` describes.
    fn state(&self, processes: &Processes<'_>, run: &Run, replay: &Replay) -> (Counts, Option<Box<Broken>>) {
        let mut explorer = Explorer::new(ProcessJudge(processes));
        explorer.begin_run();
        let time = replay.time.filter(|&time| time <= run.trace.time);
        let found = time.map(|time| explorer.replay(run, time, &replay.crashes));
        (explorer.counts, found.and_then(Result::err))
    }
}

/// How long exploring may go on.
#[derive(Clone, Copy)]
struct Bound {
    until: Instant,
    /// The most states in total.
    most: u64,
}

/// The least number of states, and the least time, that the trial of a repair takes.
const REPAIRED: u64 = 256;
const REPAIRED_TIME: Duration = Duration::from_secs(2);

/// Returns the end of `limit` after `began`, or a time far away if that cannot be represented.
fn deadline(began: Instant, limit: Duration) -> Instant {
    began.checked_add(limit).unwrap_or(began + Duration::from_secs(1 << 32))
}

/// Returns the pool before the last recovery, in the state of `run` that `replay` describes.
fn image_before_recovery(processes: &Processes<'_>, run: &Run, replay: &Replay) -> Option<Vec<u8>> {
    let judge = ProcessJudge(processes);
    let memory = after_crashes(&judge, (&run.trace, replay.time?), &replay.crashes, |_| ())?;
    let mut image = Vec::new();
    processes.file(&memory.all_words(), &mut image);
    Some(image)
}

/// Returns the violation if the program stops early.
fn broken_by(stopped: Stopped, run: &Run, name: &dyn Fn(u32) -> String) -> Box<Broken> {
    let history = story::history(&run.trace, 0, run.trace.time, name);
    let what = stopped.text().to_owned();
    let violation = Violation { what, length: history.len(), history, ..Violation::default() };
    Box::new(Broken { violation, stopped: Some(stopped), time: u32::MAX, ..Broken::default() })
}

/// Returns the name of a word.
fn name(labels: &[(u64, u64, String)], word: u32) -> String {
    let at = 8 * u64::from(word);
    let label = labels.iter().rev().find(|(from, bytes, _)| *from < at + 8 && at < from + bytes);
    match label {
        Some((from, _, name)) if *from >= at => name.clone(),
        Some((from, _, name)) => format!("{name}+{:#x}", at - from),
        None => format!("[{at:#x}]"),
    }
}
