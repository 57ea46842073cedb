//! The simulated machine's world: power may fail at any cycle, and leaves the contents of memory, of the persistence domain and of the hardware
//! scheme's own storage. The hardware's recovery runs on that, then the software scheme's, and the oracle of [`explore`](crate::explore) judges the
//! result.
//!
//! A history is one life of the memory or, in half of the sampled histories, several. For the next life the machine restarts with empty caches and
//! idle hardware on the memory that recovery has left after one of the power failures, including the hardware's own words. The life often repeats
//! what the previous one ran, so that it reuses the same numbers and places. Each life runs twice, which is possible because the machine is
//! deterministic: first to learn how long it takes and when transactions commit and memory changes, and then with the power failures. These do not
//! affect the run.
//!
//! Power also fails in the hardware's recovery. Its contract is that words of the pool are durable before words of the hardware's own log. So when it
//! restarts, memory may have any part of the former, or all of them and any part of the latter.

mod judge;
mod mutants;
mod shapes;
mod trace;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use strandline_core::memory::{Event, Hosted, Step, World};
use strandline_core::scheme::{Durability, Schemes, recover};
use strandline_core::{Error, Result};
use strandline_sim::controller::Regions;
use strandline_sim::description::PersistenceDomain;
use strandline_sim::numbers::{Cycle, LineNumber};
use strandline_sim::scheme::{BETWEEN_LIVES, Entry, Exhausted, Mutant, Setup};
use strandline_sim::{Contents, Description, Machine, Note, Noted, Registry};

use crate::explore::campaign::cpu_seconds;
use crate::explore::life::{Cast, Ground, Script};
use crate::explore::workload::Effect;
use crate::explore::{CheckedScheme, Counts, Outcome, Plan, Violation, Workload, schemes_of};
use strandline_check::x86::panic_text;
use strandline_check::{Session, Setting};

use judge::Judge;
pub use mutants::{SHAPES, Shape, attempts};

/// The step that a mutant leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omitted {
    /// A step of the software scheme.
    Step(Step),
    /// A rule of the hardware scheme.
    Rule(&'static Mutant),
}

impl Omitted {
    /// Returns the name on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Step(step) => format!("{step:?}"),
            Self::Rule(mutant) => mutant.name.into(),
        }
    }
}

/// A software scheme, and the hardware beside it.
#[derive(Clone, Copy)]
pub struct Subject {
    /// The software scheme that runs beside the hardware.
    pub software: CheckedScheme,
    /// The hardware scheme; the scheme `none` stands for software alone.
    pub hardware: &'static Entry,
    /// The hardware scheme's parameters that differ from their defaults.
    pub parameters: &'static BTreeMap<String, u64>,
}

impl Subject {
    /// Returns the name on the command line: that of the hardware scheme, or of the software scheme if there is no hardware scheme.
    pub fn name(&self) -> String {
        match self.hardware.make {
            None => self.software.name.into(),
            Some(_) => format!("{}/{}", self.hardware.name, self.software.name),
        }
    }

    /// Returns what can be left out.
    pub fn omissions(&self) -> Vec<Omitted> {
        match self.hardware.make {
            None => self.software.steps().map(Omitted::Step).collect(),
            Some(_) => self.hardware.mutants.iter().map(Omitted::Rule).collect(),
        }
    }

    /// Returns the reason why nothing is lost without `omitted`, if known.
    pub fn redundant(&self, omitted: Omitted) -> Option<&'static str> {
        match omitted {
            Omitted::Step(step) => self.software.redundant(step),
            Omitted::Rule(mutant) => mutant.redundant,
        }
    }
}

/// Returns the software that runs beside hardware schemes: software that leaves durability to the hardware, and software for persistency models that
/// only the hardware implements.
fn beside(known: Schemes) -> impl Iterator<Item = CheckedScheme> {
    let kinds = known.iter().filter(|kind| {
        kind.durability == Durability::Hardware || kind.persistency.is_some() && !kind.is_native
    });
    kinds.flat_map(move |kind| kind.modes.iter().map(move |mode| CheckedScheme::new(kind, mode).among(known)))
}

/// Returns all of a registry's subjects that promise durability: each hardware scheme with its software, and each software scheme alone.
pub fn subjects(registry: Registry) -> Vec<Subject> {
    static DEFAULTS: BTreeMap<String, u64> = BTreeMap::new();
    let (known, parameters) = (registry.schemes, &DEFAULTS);
    let hardware = registry.hardware.iter().filter(|entry| entry.is_durable).flat_map(|hardware| {
        let its = move |software: &CheckedScheme| hardware.software.contains(&software.name);
        // Plain programs of the hardware's paper, beside hardware that makes them atomic.
        let plain = CheckedScheme::plain().into_iter().filter(move |software| {
            beside(known).filter(its).any(|transactions| transactions.kind == software.kind)
        });
        let all = beside(known).filter(its).chain(plain);
        all.map(move |software| Subject { software: software.among(known), hardware, parameters })
    });
    let none = registry.hardware.iter().find(|entry| entry.make.is_none());
    let software = none.into_iter().flat_map(|hardware| {
        schemes_of(known).into_iter().map(move |software| Subject { software, hardware, parameters })
    });
    hardware.chain(software).collect()
}

/// A case to check: schemes, a workload, threads and a mutant.
#[derive(Clone, Copy)]
pub struct Case {
    /// The software scheme and the hardware scheme beside it.
    pub subject: Subject,
    /// The workload.
    pub workload: Workload,
    /// Threads that run transactions, each on a core of its own.
    pub threads: usize,
    /// The step that a mutant leaves out.
    pub omitted: Option<Omitted>,
}

impl Case {
    fn domains(&self) -> &'static [PersistenceDomain] {
        use PersistenceDomain::{Adr, FlushOnFail, Media};
        match self.subject.hardware.make {
            None => &[Media, Adr, FlushOnFail],
            Some(_) => &[Media, Adr],
        }
    }

    fn rule(&self) -> Option<&'static str> {
        match self.omitted {
            Some(Omitted::Rule(mutant)) => Some(mutant.name),
            _ => None,
        }
    }

    fn step(&self) -> Option<Step> {
        match self.omitted {
            Some(Omitted::Step(step)) => Some(step),
            _ => None,
        }
    }
}

/// How much to sample, or how far an exhaustive exploration goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of histories to try.
    pub histories: u64,
    /// The seed of the first history; each further one uses the next number.
    pub seed: u64,
    /// The number of transactions that a thread runs: at most, or exactly if every cycle is tried.
    pub transactions: u32,
    /// The time after which exploring stops.
    pub limit: Duration,
}

/// The number of cycles at which power failures are tried in a sampled history.
const CRASHES: usize = 64;
/// The number of cycles after which a history counts as endless.
const PATIENCE: Cycle = Cycle::new(200_000_000);
/// The number of cycles that are tried in one run of a history.
const BATCH: u64 = 1 << 20;

/// The words that a power failure has left, as differences from the previous failure.
struct Left {
    at: Cycle,
    notes: usize,
    acknowledged: Option<u64>,
    changed: Vec<(u32, u64)>,
}

/// Returns the words of `new`, with their numbers, that differ from those of `old`.
fn differences(old: &[u64], new: &[u64]) -> Vec<(u32, u64)> {
    // Compares several words at a time: there may be millions, and hardly any differ.
    const CHUNK: usize = 512;
    let chunks = old.chunks(CHUNK).zip(new.chunks(CHUNK)).enumerate().filter(|(_, (old, new))| old != new);
    let words = chunks.flat_map(|(chunk, (old, new))| {
        let words = old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new);
        words.map(move |(word, (_, &new))| ((chunk * CHUNK + word) as u32, new))
    });
    words.collect()
}

/// A finished run.
struct Run {
    notes: Vec<Note>,
    done: Vec<Vec<Vec<Effect>>>,
    /// The number of words that a power failure leaves, and the words that each failure has left.
    crashes: (usize, Vec<Left>),
    /// Cycles at which memory accepted a write or completed one on the medium, in a run without power failures.
    writes: Vec<Cycle>,
    end: Cycle,
}

/// The memory with which a life begins.
#[derive(Clone)]
struct Beginning {
    pool: Vec<u64>,
    /// The words reserved for the hardware; zeros follow.
    reserved: Vec<u64>,
}

/// A case on its ground.
struct Lab {
    case: Case,
    ground: Ground,
}

impl Lab {
    fn new(case: Case) -> Result<Self> {
        if case.subject.software.plain.is_some() && case.workload == Workload::Typed {
            return Err(Error::Unsupported("typed collections in a plain program".into()));
        }
        let explored = crate::explore::Case {
            scheme: case.subject.software,
            workload: case.workload,
            threads: case.threads,
            setting: Setting::FlushOnFail,
            omitted: case.step(),
        };
        Ok(Self { case, ground: Ground::new(explored)? })
    }

    /// Returns how many cores the threads and a helper need.
    fn cores(&self) -> usize {
        self.case.threads + usize::from(self.case.subject.software.kind.scheme.has_helper())
    }

    fn setup<'a>(&self, machine: &'a Description) -> Setup<'a> {
        Setup { machine, omitted: self.case.rule() }
    }

    /// Returns the memory with which the first life begins.
    fn new_pool(&self) -> Beginning {
        Beginning { pool: self.ground.image.clone(), reserved: Vec::new() }
    }

    fn machine(&self, description: &Description, beginning: &Beginning) -> Result<Machine, String> {
        let ground = &self.ground;
        let line = LineNumber::containing;
        let logs = line(ground.layout.logs.offset())..line(ground.layout.data.offset());
        let regions = Regions { metadata: LineNumber::default()..logs.start, logs };
        let contents =
            Contents { persistent: beginning.pool.clone(), volatile_bytes: ground.shared.bytes(), regions };
        let setup = self.setup(description);
        let hardware = self.case.subject.hardware.build(&setup)?;
        let machine = Machine::new(description, contents, hardware, self.case.step());
        let machine = machine.map_err(|error| format!("{error:#}"))?;
        // It continues until no memory is left, and a critical section that finds none has stored something already.
        let fills_the_pool = self.case.workload == Workload::Allocator;
        if fills_the_pool && self.case.subject.software.plain.is_some() && !machine.takes_stores_back() {
            return Err(
                "a plain program that fills its pool, beside hardware that takes no stores back".into()
            );
        }
        machine.begin_with_reserved(&beginning.reserved);
        Ok(machine)
    }

    /// Runs `script` with power failures at `crash_at`.
    fn run(
        &self,
        (description, beginning): (&Description, &Beginning),
        script: &Script,
        seed: u64,
        crash_at: Vec<Cycle>,
    ) -> Result<Run, String> {
        let machine = Rc::new(self.machine(description, beginning)?);
        machine.record_notes();
        machine.limit(PATIENCE);
        if crash_at.is_empty() {
            machine.record_write_times();
        }
        machine.crash_at(crash_at);
        let kept = Rc::new(std::cell::RefCell::new((beginning.words(), Vec::new())));
        let keep = kept.clone();
        machine.on_crash(move |crash| {
            let (last, list) = &mut *keep.borrow_mut();
            // The hardware's own words follow the pool's.
            last.resize(crash.image.len(), 0);
            let changed = differences(last, &crash.image);
            changed.iter().for_each(|&(word, value)| last[word as usize] = value);
            let (at, notes, acknowledged) = (crash.at, crash.notes, crash.acknowledged);
            list.push(Left { at, notes, acknowledged, changed });
        });
        // Recovers like a program that opens a pool, without simulated time.
        let world: Rc<dyn World> = machine.clone();
        recover(&self.ground.view(&Hosted::new(world, 0)), self.case.subject.software.known, |_| ())
            .map_err(|error| format!("recovery fails: {error:#}"))?;
        let cast = Cast::new(&self.ground);
        machine.run(cast.threads(&self.ground, script, &mut Rng::with_seed(seed)));
        let done = cast.done()?;
        let notes = machine.take_notes();
        let end = (0..self.cores()).map(|core| machine.clock(core)).max().unwrap_or_default();
        // Power fails while threads run. The effects of their operations may still be in progress after that.
        let writes = machine.take_write_times().into_iter().filter(|&at| at <= end).collect();
        drop(machine);
        let (words, crashes) = std::mem::take(&mut *kept.borrow_mut());
        let crashes = (words.len(), crashes);
        Ok(Run { notes, done, crashes, writes, end })
    }

    /// Like [`Lab::run`], but converts a panic into a failure.
    fn live(
        &self,
        (description, beginning): (&Description, &Beginning),
        script: &Script,
        seed: u64,
        crash_at: Vec<Cycle>,
    ) -> Result<Run, Box<Violation>> {
        let run = || self.run((description, beginning), script, seed, crash_at);
        let run = catch_unwind(AssertUnwindSafe(run));
        let what = match run {
            Ok(Ok(run)) => return Ok(run),
            Ok(Err(what)) => what,
            Err(panic) => match panic.downcast::<Exhausted>() {
                Ok(exhausted) => exhausted.0,
                Err(panic) => format!("the program panics: {}", panic_text(&*panic)),
            },
        };
        let what = format!("{what} (on {})", description.name);
        Err(failure(what))
    }
}

impl Beginning {
    /// Returns the pool's words, and the hardware's after them.
    fn words(&self) -> Vec<u64> {
        [&*self.pool, &*self.reserved].concat()
    }
}

/// Returns when transactions commit and are acknowledged.
fn boundaries(notes: &[Note]) -> Vec<Cycle> {
    let is_boundary = |note: &&Note| {
        matches!(note.what, Noted::Event(Event::Commit(1..) | Event::Acknowledged(_) | Event::Executed(_)))
    };
    notes.iter().filter(is_boundary).map(|note| note.at).collect()
}

/// Draws a random machine that supports the case's hardware.
fn draw(lab: &Lab, random: &mut Rng) -> Result<Description, String> {
    let mut why = String::new();
    for _ in 0..64 {
        let mut description = shapes::random(lab.cores(), lab.case.domains(), random);
        description.scheme = lab.case.subject.parameters.clone();
        match lab.machine(&description, &lab.new_pool()) {
            Ok(_) => return Ok(description),
            Err(refused) => why = refused,
        }
    }
    Err(why)
}

/// Samples histories, machines and cycles of `case`, and calls `progress` after each history.
///
/// # Errors
/// Returns an error if the workload does not fit its pool, or if no machine supports the hardware.
pub fn sample(
    case: Case,
    bounds: Bounds,
    session: &Session,
    mut progress: impl FnMut(&Counts),
) -> Result<Outcome> {
    let lab = Lab::new(case)?;
    let mut judge = Judge::new(&lab.ground, case.subject.hardware)?;
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut violation = None;
    for number in 0..bounds.histories {
        let seed = bounds.seed.wrapping_add(number);
        let random = &mut Rng::with_seed(seed);
        let description = draw(&lab, random).map_err(Error::Unsupported)?;
        judge.counts.histories += 1;
        if let Err(found) = sample_one(&lab, &mut judge, &description, bounds.transactions, random) {
            violation = Some((found, seed));
            break;
        }
        progress(&judge.counts);
        if started.elapsed() > bounds.limit || session.is_stopped() {
            break;
        }
    }
    Ok(outcome(judge.counts, violation, bounds, (started, cpu)))
}

/// Repeats the history that shows a mutant without the omission. A violation there is the scheme's own, and proves nothing about the mutant. Returns
/// `None` if there is no violation.
///
/// # Errors
/// As for [`sample`].
pub fn without_mutant(case: Case, found: &Outcome) -> Result<Option<(Case, Outcome)>> {
    if case.omitted.is_none() || found.violation.is_none() {
        return Ok(None);
    }
    let whole = Case { omitted: None, ..case };
    let bounds =
        Bounds { histories: 1, seed: found.seed, transactions: found.transactions, limit: Duration::MAX };
    let again = sample(whole, bounds, &Session::new(), |_| ())?;
    Ok(again.violation.is_some().then_some((whole, again)))
}

fn outcome(
    counts: Counts,
    violation: Option<(Box<Violation>, u64)>,
    bounds: Bounds,
    (started, cpu): (Instant, f64),
) -> Outcome {
    let seed = violation.as_ref().map_or(0, |&(_, seed)| seed);
    Outcome {
        counts,
        violation: violation.map(|(violation, _)| *violation),
        seed,
        transactions: bounds.transactions,
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu,
    }
}

fn sample_one(
    lab: &Lab,
    judge: &mut Judge<'_>,
    description: &Description,
    transactions: u32,
    random: &mut Rng,
) -> Result<(), Box<Violation>> {
    let transactions = 1 + random.u32(..transactions);
    let mut seed = random.u64(..);
    let mut beginning = lab.new_pool();
    judge.begin(beginning.clone()).map_err(failure)?;
    let mut lives = 1;
    let mut life = 0;
    while life < lives {
        life += 1;
        let script = Script::Shaped { transactions, life, together: None };
        let image = live_once(lab, judge, (description, &beginning), (&script, seed), random)?;
        if life == 1 && (random.bool() || lab.case.rule().is_some_and(|rule| BETWEEN_LIVES.contains(&rule))) {
            lives += random.u64(1..3);
        }
        if life < lives {
            beginning = judge.recovered(&lab.setup(description), &image).map_err(failure)?;
            judge.begin(beginning.clone()).map_err(failure)?;
            if random.u8(..3) == 0 {
                seed = random.u64(..);
            }
        }
    }
    Ok(())
}

/// Returns a violation with only this description.
fn failure(what: String) -> Box<Violation> {
    Box::new(Violation { what, ..Violation::default() })
}

/// Runs one life. Returns the memory after one of its power failures.
fn live_once(
    lab: &Lab,
    judge: &mut Judge<'_>,
    (description, beginning): (&Description, &Beginning),
    (script, seed): (&Script, u64),
    random: &mut Rng,
) -> Result<Vec<u64>, Box<Violation>> {
    let first = lab.live((description, beginning), script, seed, Vec::new())?;
    let boundaries = boundaries(&first.notes);
    let near = |random: &mut Rng| {
        let of = boundaries[random.usize(..boundaries.len())];
        // The messages between controllers at a commit take a few cycles.
        let at = if random.bool() { of + random.u64(..64) } else { (of + random.u64(..1000)).before(300) };
        at.min(first.end)
    };
    // At most other cycles a power failure leaves the same as a cycle earlier.
    let at_a_write = |random: &mut Rng| first.writes[random.usize(..first.writes.len())];
    let crash_at = (0..CRASHES).map(|_| match random.u8(..8) {
        0..5 if !first.writes.is_empty() => at_a_write(random),
        0..7 if !boundaries.is_empty() => near(random),
        _ => Cycle::new(random.u64(..=first.end.number())),
    });
    let crash_at = crash_at.collect();
    let run = lab.live((description, beginning), script, seed, crash_at)?;
    let (words, crashes) = run.crashes;
    let mut image = beginning.words();
    image.resize(words.max(image.len()), 0);
    let last = random.usize(..crashes.len().max(1));
    for &(word, value) in crashes.iter().take(last + 1).flat_map(|crash| &crash.changed) {
        image[word as usize] = value;
    }
    judge.judge(&lab.setup(description), description, run.notes, run.done, (words, crashes), random)?;
    Ok(image)
}

/// Tries every cycle of short histories of `case`, on a machine of each shape and in each persistence domain.
///
/// # Errors
/// As for [`sample`].
pub fn exhaust(
    case: Case,
    bounds: Bounds,
    session: &Session,
    mut progress: impl FnMut(&Counts),
) -> Result<Outcome> {
    let lab = Lab::new(case)?;
    let mut judge = Judge::new(&lab.ground, case.subject.hardware)?;
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut violation = None;
    let script = Script::Fixed(Plan::conflicting(case.workload, case.threads, bounds.transactions));
    let random = &mut Rng::with_seed(bounds.seed);
    let mut refused = None;
    let new_pool = lab.new_pool();
    'machines: for shape in shapes::Shape::ALL {
        for &domain in case.domains() {
            let mut description = shapes::machine(shape, domain, lab.cores(), 1);
            description.scheme = case.subject.parameters.clone();
            if let Err(why) = lab.machine(&description, &new_pool) {
                refused = Some(why);
                continue;
            }
            let found = (|| {
                let end = lab.live((&description, &new_pool), &script, 1, Vec::new())?.end.number();
                judge.counts.histories += 1;
                for from in (1..=end).step_by(BATCH as usize) {
                    let cycles = (from..=end.min(from + BATCH - 1)).map(Cycle::new);
                    let run = lab.live((&description, &new_pool), &script, 1, cycles.collect())?;
                    judge.until(started + bounds.limit, session);
                    judge.judge(
                        &lab.setup(&description),
                        &description,
                        run.notes,
                        run.done,
                        run.crashes,
                        random,
                    )?;
                    progress(&judge.counts);
                    if started.elapsed() > bounds.limit || session.is_stopped() {
                        return Ok(false);
                    }
                }
                Ok(true)
            })();
            match found {
                Err(found) => {
                    violation = Some((found, bounds.seed));
                    break 'machines;
                }
                Ok(false) => {
                    judge.counts.cut_short += 1;
                    break 'machines;
                }
                Ok(true) => {}
            }
        }
    }
    match refused {
        Some(why) if judge.counts.histories == 0 => Err(Error::Unsupported(why)),
        _ => Ok(outcome(judge.counts, violation, bounds, (started, cpu))),
    }
}
