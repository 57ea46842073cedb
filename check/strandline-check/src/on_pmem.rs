//! Checks of programs on persistent memory.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use strandline_core::memory::{Hosted, World};

use crate::Setting;
use crate::check::{Check, Histories, OnPmem, Outcome, Target};
use crate::coverage::Coverage;
use crate::data_race::DataRaces;
use crate::finding::{Finding, Performance, Trials};
use crate::pmem::{Pmem, PmemState, Repair, VOLATILE_BYTES};
use crate::x86::cause::Case;
use crate::x86::checked_program::{self, CheckedProgram, Explored, Interleaving, ProgramJudge, Reach, Run};
use crate::x86::invariant_coverage::{Object, uncovered};
use crate::x86::panics::catch_panic;
use crate::x86::replay::Replay;
use crate::x86::trace::Trace;
use crate::x86::world::X86World;

/// Options that exist only for programs on persistent memory.
pub struct PmemOptions {
    setting: Setting,
    states: u64,
    labels: Vec<(u64, u64, String)>,
    omitted: Option<String>,
}

/// Checks `program` on persistent memory of one page, initially zero. Each thread runs `program`, and [`Pmem::thread`] returns its number. The
/// defaults are one thread ([`Check::threads`]), two preemptions and the setting [`Setting::Line`].
pub fn check<'a>(program: impl Fn(&Pmem) + 'a) -> Check<'a> {
    let options = PmemOptions { setting: Setting::Line, states: 1 << 20, labels: Vec::new(), omitted: None };
    Check::new(Box::new(program), 4096, options)
}

impl Target for OnPmem {
    type View<'v> = Pmem<'v>;
    type Ended = ();
    type Refusal = String;
    type Options = PmemOptions;

    #[track_caller]
    fn explore(check: &Check<'_>, histories: Histories<'_>) -> Outcome {
        let replayed = histories.replayed();
        let setting = replayed.map_or(check.options.setting, |replay| replay.setting);
        let (began, mut seen) = (Instant::now(), Seen::default());
        let reach = &check.reach_on_pmem();
        let explored = check.with_program(&[], setting, |checked| {
            let each = &mut |run: &Run| check.look(&mut seen, run, setting);
            let mut explored = check.run(checked, reach, histories, each);
            if replayed.is_none() {
                checked_program::shrink(checked, reach, &mut explored);
            }
            explored
        });
        // That this one history passes now would prove little.
        let again = if replayed.is_some() { Histories::ALL } else { histories };
        // As far as before, and a little further.
        let reach = &Reach {
            total: explored.counts.states.saturating_mul(2).saturating_add(REPAIRED),
            limit: (2 * began.elapsed()).max(REPAIRED_TIME).min(reach.limit),
            ..reach.clone()
        };
        let repaired = |repair: Repair| {
            let run = |checked: &CheckedProgram<'_>| check.run(checked, reach, again, &mut |_| ());
            check.with_program(&[repair], setting, run).broken.is_none()
        };
        let finding = check.finding(&explored, setting, &repaired);
        let notes = match (&finding, replayed) {
            (None, None) => {
                check.with_program(&[], setting, |checked| uncovered(checked, |trace| check.objects(trace)))
            }
            _ => Vec::new(),
        };
        let (counts, time) = (explored.counts, began.elapsed());
        let (coverage, races) = (seen.coverage, seen.races.found());
        Outcome { counts, coverage, time, finding, races, performance: seen.performance.findings(), notes }
    }
}

/// The least number of states, and the least time, that the trial of a repair takes.
pub(crate) const REPAIRED: u64 = 1 << 12;
pub(crate) const REPAIRED_TIME: Duration = Duration::from_secs(2);

/// Results of an exploration's runs other than those of crashes.
#[derive(Default)]
struct Seen {
    coverage: Coverage,
    races: DataRaces,
    performance: Performance,
}

impl Check<'_> {
    /// Sets which parts of a cache line may survive.
    pub fn setting(mut self, setting: Setting) -> Self {
        self.options.setting = setting;
        self
    }

    /// Sets how many states are tried at one crash point, at most; the default is 2²⁰.
    pub fn states(mut self, states: u64) -> Self {
        self.options.states = states;
        self
    }

    /// Names the word at `at` in reports.
    pub fn label(self, name: &str, at: u64) -> Self {
        self.label_range(name, at, 8)
    }

    /// Names these bytes in reports; a word among them is called by this name and its distance from their beginning.
    pub fn label_range(mut self, name: &str, at: u64, bytes: u64) -> Self {
        self.options.labels.push((at, bytes, name.to_owned()));
        self
    }

    /// Leaves out the flushes and fences of the [step](Pmem::step) of this name. Lets a test show that the invariant notices a missing flush.
    pub fn omitting(mut self, step: &str) -> Self {
        self.options.omitted = Some(step.to_owned());
        self
    }

    /// Adds the races, counts and redundant operations of a run.
    fn look(&self, seen: &mut Seen, run: &Run, setting: Setting) {
        seen.coverage.add(&run.trace);
        seen.performance.add(&run.trace);
        seen.races.add(run, setting, self.threads, |word| self.name(word));
    }

    fn reach_on_pmem(&self) -> Reach {
        let reach = self.reach(self.options.states);
        // Power can fail in recovery only if the check has a recovery.
        let recovery_crashes = if self.recovery.is_some() { reach.recovery_crashes } else { 0 };
        Reach { recovery_crashes, ..reach }
    }

    /// Builds the finding for a report; tries advice with `repaired`.
    fn finding(
        &self,
        explored: &Explored,
        setting: Setting,
        repaired: &dyn Fn(Repair) -> bool,
    ) -> Option<Finding> {
        let (broken, delays) = (explored.broken.as_deref()?, explored.delays);
        let schedule = &broken.schedule;
        let is_clean_by_line = || {
            let by_line = |checked: &CheckedProgram<'_>| {
                checked_program::one_schedule(checked, &self.reach_on_pmem(), schedule, delays)
            };
            self.with_program(&[], Setting::Line, by_line).is_ok()
        };
        let is_clean_in_turn = || {
            let in_turn = |checked: &CheckedProgram<'_>| {
                checked_program::exhaust(checked, &self.reach_on_pmem(), 0, |_| ())
            };
            self.threads > 1 && self.with_program(&[], setting, in_turn).broken.is_none()
        };
        let trials = Trials {
            setting,
            is_clean_by_line: &is_clean_by_line,
            is_clean_in_turn: &is_clean_in_turn,
            is_clean_with: repaired,
            knows_loads: true,
            repairs_recovery: true,
        };
        let replay = Replay::new((setting, self.threads), broken, delays);
        Some(self.with_program(&[], setting, |checked| {
            let run = checked.run(Interleaving::guided(schedule, delays));
            Finding::new(&Case::new(ProgramJudge(checked), &run, broken), &trials, &replay, explored.seed)
        }))
    }

    /// Returns the name of a word.
    fn name(&self, word: u32) -> String {
        let at = 8 * u64::from(word);
        let label =
            self.options.labels.iter().rev().find(|(from, bytes, _)| (*from..from + bytes).contains(&at));
        match label {
            Some((from, _, name)) if *from == at => name.clone(),
            Some((from, _, name)) => format!("{name}+{:#x}", at - from),
            None => format!("[{at:#x}]"),
        }
    }

    /// Returns the objects that the program stores to: each label, and each word without one.
    fn objects(&self, trace: &Trace) -> Vec<Object> {
        let mut objects: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for store in trace.lines.iter().flat_map(|line| &line.stores) {
            let name = self.name(store.word);
            let label = name.split_once("+0x").map_or(&*name, |(label, _)| label);
            objects.entry(label.to_owned()).or_default().insert(store.word);
        }
        objects.into_iter().map(|(name, words)| (name, words.into_iter().collect())).collect()
    }

    /// Passes `body` the program with `repairs`.
    fn with_program<R>(
        &self,
        repairs: &[Repair],
        setting: Setting,
        body: impl FnOnce(&CheckedProgram<'_>) -> R,
    ) -> R {
        let how = (self.options.omitted.as_deref(), repairs);
        let alone = (None, &[][..]);
        let checked = CheckedProgram {
            image: self.image(),
            volatile_bytes: VOLATILE_BYTES,
            setting,
            threads: self.threads,
            begin: &|| (),
            program: &|thread, memory| {
                (self.program)(&Pmem::new(memory, thread, how, &PmemState::new(false)))
            },
            recovery: &|memory| {
                if let Some(recovery) = &self.recovery {
                    recovery(&Pmem::new(memory, 0, (how.0, repairs), &PmemState::new(true)));
                }
            },
            invariant: &|memory, crashed| {
                self.invariants.iter().try_for_each(|invariant| {
                    invariant(&Pmem::new(memory, 0, alone, &PmemState::new(true)), crashed)
                })
            },
            name: &|word| self.name(word),
            every_access: true,
        };
        body(&checked)
    }

    /// Returns the memory after the set-up.
    fn image(&self) -> Vec<u64> {
        let empty = vec![0; self.bytes.next_multiple_of(64) as usize / 8];
        let world = Rc::new(X86World::new(empty, VOLATILE_BYTES, 0..0, 1, self.options.setting, None));
        let hosted: Rc<dyn World> = world.clone();
        let memory = Hosted::new(hosted, 0);
        let set_up = self.set_up.as_ref();
        let ran = catch_panic(|| {
            set_up.map(|set_up| set_up(&Pmem::new(&memory, 0, (None, &[]), &PmemState::new(true))))
        });
        if let Err(stopped) = ran {
            panic!("the set-up of the program that is checked stops: {}", stopped.text());
        }
        world.contents()
    }
}
