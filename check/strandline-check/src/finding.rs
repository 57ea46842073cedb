//! Findings, in the terms of persistent-memory testing.

use std::collections::BTreeMap;
use std::fmt;

use strandline_core::memory::Operation;

use crate::Setting;
use crate::pmem::Repair;
use crate::x86::cause::{Case, Done, Recovery, Strict, What};
use crate::x86::crash::Decision;
use crate::x86::explorer::{Broken, Judge};
use crate::x86::missing_flush::Missing;
use crate::x86::panics::Stopped;
use crate::x86::replay::Replay;
use crate::x86::trace::{Mark, Store, Trace};
use crate::x86::{Site, Source, Waste};

macro_rules! kinds {
    ($($kind:ident, $name:literal, $meaning:literal, $remedy:literal;)+) => {
        /// The kinds of faults that a check finds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum FindingKind {
            $(#[doc = $meaning] $kind,)+
        }

        impl FindingKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// Returns the name, as reports print it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// Returns a sentence about what is wrong.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$kind => $meaning,)+ }
            }

            /// Returns a sentence about how to repair it.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$kind => $remedy,)+ }
            }
        }
    };
}

// `docs/checking-programs.md` has this table, and a test compares them.
kinds! {
    MissingFlush, "missing flush",
        "a line that must be durable before something else is not flushed",
        "flush it after the store, before the fence that follows";
    MissingFence, "missing fence",
        "a line is flushed, and no fence waits for that before something else that relies on it",
        "fence after the flush";
    WrongOrder, "wrong order",
        "what must be durable first is stored, or made durable, only afterwards",
        "make the element or the log entry durable first, and then store what refers to it";
    NotAtomic, "not atomic",
        "power fails between stores, or between transactions, that belong together, and no order of them is right",
        "put them into one transaction or behind one log entry, or publish all of them by one store of a word";
    TornValue, "torn value",
        "of a store of several words (or, under `Setting::Word`, of a line) some words survive and others do not",
        "keep the old value until the new one is complete, or store a checksum with it";
    CrossFailureRace, "cross-failure race",
        "a thread acts upon what another thread has stored and not made durable, and only the action survives",
        "make durable what is read before acting upon it, or publish it only when it is durable";
    NonIdempotentRecovery, "non-idempotent recovery",
        "power fails in recovery, and the next recovery does not repair what that leaves",
        "let recovery set values instead of changing them, and keep the log until all of them are durable";
    SumRedone, "sum redone",
        "recovery applies a relative change, such as `+=`, that had been applied before",
        "log the new value instead of the difference, or store with the sum how much of the log it contains";
    UnflushedRecovery, "unflushed recovery",
        "a store of recovery is not durable when recovery relies on it, and power fails again",
        "flush and fence what recovery stores before it clears the log";
    FailingRecovery, "failing recovery",
        "recovery panics, returns an error, or runs for ever",
        "let recovery accept every state that a power failure can leave, a held lock among them";
    UnrecoveredAllocation, "unrecovered allocation",
        "after recovery a block is allocated and nothing refers to it, or something refers to it and it is free: the invariant says so, in a \
         sentence that begins with `leaked:` or `dangling:`",
        "allocate and link in one transaction, or let recovery derive what is free from what is reachable";
    WrongResult, "wrong result",
        "the invariant refuses what is there before the program begins or when it has ended, though nothing is lost",
        "correct the program, its set-up or the invariant: no power failure is needed to see it";
    StoreOutside, "store outside",
        "an access lies outside the memory, or is not one to a word",
        "correct the address";
    Deadlock, "deadlock",
        "all threads that are left wait, or one runs for ever",
        "take locks in one order, and let loops that wait end";
    Race, "race on persistent words",
        "nothing is lost, and nothing is wrong if the threads run one after the other",
        "hold a lock, or use an atomic operation, from the load to the store";
    Panic, "panic",
        "the program panics, ends by a signal, or a closure over a database returns an error",
        "correct the program: no power failure is needed to see it";
    UnfencedRelease, "lock released before a fence",
        "a lock is released after a non-temporal store, and no fence comes between",
        "fence before the lock is released";
    NotDurable, "not durable when acknowledged",
        "a transaction of a database is acknowledged before it is durable",
        "wait for its ticket, or for a later one's, before acknowledging";
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The place where a program flushes a store, or should flush it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Flush {
    /// This line flushes the store.
    At(Source),
    /// The store is not flushed between this line and the power failure.
    MissingAfter(Source),
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => write!(f, "{at}"),
            Self::MissingAfter(at) => write!(f, "missing after {at}"),
        }
    }
}

/// The source lines of a finding that are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Places {
    /// The store that is lost or comes at the wrong time, of the program or of recovery. In a database: the transaction.
    pub store: Option<Source>,
    /// The store's flush, if the store is lost.
    pub flush: Option<Flush>,
    /// The last operation before power fails. If power also fails in recovery, before the last failure.
    pub crash: Option<Source>,
}

/// The smallest repair of a finding that adds flushes and fences.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// The source line after which to add them.
    pub behind: Source,
    /// True if the repair flushes the line that this operation stores to or loads from.
    pub flush: bool,
    /// True if the repair fences after this operation, and after the flush if it has one.
    pub fence: bool,
    /// True if the program with this flush and fence was explored again, as far as before, and nothing was found. If false, something else is
    /// missing, too.
    pub repairs: bool,
}

impl Advice {
    pub(crate) fn repair(&self) -> Repair {
        Repair { behind: self.behind, flush: self.flush, fence: self.fence }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.flush, self.fence) {
            (true, true) => "flush its line and fence",
            (true, false) => "flush its line (a fence that follows is there)",
            _ => "fence",
        };
        write!(f, "behind {}: {what}", self.behind)?;
        if self.repairs { Ok(()) } else { write!(f, " (something else is missing, too)") }
    }
}

/// A history that goes wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of fault.
    pub kind: FindingKind,
    /// The invariant's reason, or the panic's message.
    pub what: String,
    /// The source lines.
    pub places: Places,
    /// The history up to the crash or the end, one operation per line.
    pub history: Vec<String>,
    /// The stores that the crash lost, as few as show the fault.
    pub lost: Vec<String>,
    /// The stores and fences of the last recovery. In a database: the transactions of all recoveries.
    pub recovery: Vec<String>,
    /// The rows of the database that was refused, one per line; empty for programs over a [`Pmem`](crate::Pmem).
    pub tables: Vec<String>,
    /// The repair, if a flush or a fence repairs it.
    pub advice: Option<Advice>,
    /// The line from which [`Check::replay`](crate::Check::replay) repeats the history.
    pub replay: String,
    /// The seed of the sampled history that first showed the fault.
    pub seed: Option<u64>,
}

impl Finding {
    /// Creates the finding for the violation of `case`; `seed` is that of its history.
    pub(crate) fn new<J: Judge>(
        case: &Case<'_, J>,
        trials: &Trials<'_>,
        replay: &Replay,
        seed: Option<u64>,
    ) -> Self {
        let broken = case.broken;
        let Diagnosis { kind, places, advice } = diagnose(case, trials);
        let violation = &broken.violation;
        Self {
            kind: if is_of_allocation(kind, &violation.what)
                && advice.as_ref().is_none_or(|advice| !advice.repairs)
            {
                FindingKind::UnrecoveredAllocation
            } else {
                kind
            },
            what: violation.what.clone(),
            places,
            history: violation.history.clone(),
            lost: violation.lost.clone(),
            recovery: broken.recovery.clone(),
            tables: Vec::new(),
            advice,
            replay: replay.to_line(),
            seed,
        }
    }

    /// Returns the complete text of the finding, without the replay line. Each line has its end.
    pub fn story(&self) -> String {
        let mut text = format!("{}: {}\n", self.kind, self.what);
        let Places { store, flush, crash } = self.places;
        if let Some(store) = store {
            text += &format!("store: {store}\n");
        }
        if let Some(flush) = flush {
            text += &format!("flush: {flush}\n");
        }
        if let Some(crash) = crash {
            text += &format!("power fails: after {crash}\n");
        }
        let mut part = |title: &str, lines: &[String]| {
            if !lines.is_empty() {
                text += &format!("{title}:\n");
                lines.iter().for_each(|line| text += &format!("  {line}\n"));
            }
        };
        part("history", &self.history);
        part("stored, but lost", &self.lost);
        part("recovery", &self.recovery);
        part("tables", &self.tables);
        match &self.advice {
            Some(advice) => text += &format!("advice: {advice}\n"),
            None => text += &format!("remedy: {}\n", self.kind.remedy()),
        }
        if let Some(seed) = self.seed {
            text += &format!("seed: {seed}\n");
        }
        text
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}replay: .replay({:?})", self.story(), self.replay)
    }
}

impl std::error::Error for Finding {}

/// A redundant flush or fence: it made nothing durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PerformanceFinding {
    /// The place in the source, and the step.
    pub site: Site,
    /// Why it was redundant.
    pub waste: Waste,
    /// How often it was redundant, in all runs.
    pub wasted: u64,
    /// How often it was executed, in all runs.
    pub performed: u64,
}

impl PerformanceFinding {
    /// Returns whether it was redundant each time, so that the program does not need it as far as was explored.
    pub fn is_always(&self) -> bool {
        self.wasted == self.performed
    }
}

impl fmt::Display for PerformanceFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.waste {
            Waste::Redundant => "redundant flush: the line is flushed already",
            Waste::Clean => "flush of a clean line",
            Waste::NothingPending => "fence with nothing pending",
        };
        write!(f, "{what} ({}), {} times of {}", self.site, self.wasted, self.performed)
    }
}

/// The flushes and fences of all runs, by place.
#[derive(Default)]
pub(crate) struct Performance {
    performed: BTreeMap<Site, u64>,
    wasted: BTreeMap<(Site, Waste), u64>,
}

impl Performance {
    /// Adds the flushes and fences of one run.
    pub fn add(&mut self, trace: &Trace) {
        for mark in &trace.marks {
            if let (Some(site), Operation::WriteBack(..) | Operation::Fence(_)) = (mark.site, mark.operation)
            {
                *self.performed.entry(site).or_default() += 1;
                if let Some(waste) = mark.waste {
                    *self.wasted.entry((site, waste)).or_default() += 1;
                }
            }
        }
    }

    /// Returns those that were redundant.
    pub fn findings(&self) -> Vec<PerformanceFinding> {
        let found = self.wasted.iter().map(|(&(site, waste), &wasted)| PerformanceFinding {
            site,
            waste,
            wasted,
            performed: self.performed[&site],
        });
        found.collect()
    }
}

/// Experiments that distinguish the kinds of findings.
pub(crate) struct Trials<'t> {
    pub setting: Setting,
    /// Returns whether the same schedule has no finding where the stores to a line persist in order.
    pub is_clean_by_line: &'t dyn Fn() -> bool,
    /// Returns whether there is no finding if the threads run one after the other.
    pub is_clean_in_turn: &'t dyn Fn() -> bool,
    /// Returns whether the program with this repair has no finding.
    pub is_clean_with: &'t dyn Fn(Repair) -> bool,
    /// True if the run's loads are known. If not, a thread is assumed to have seen all stores of the others.
    pub knows_loads: bool,
    /// True if repairs also apply to recovery.
    pub repairs_recovery: bool,
}

/// The kind, place and repair of a finding.
struct Diagnosis {
    kind: FindingKind,
    places: Places,
    advice: Option<Advice>,
}

fn diagnose<J: Judge>(case: &Case<'_, J>, trials: &Trials<'_>) -> Diagnosis {
    let broken = case.broken;
    if let Some(kind) = kind_without_crash(broken) {
        return Diagnosis { kind, places: Places::default(), advice: None };
    }
    if broken.crashes.len() > 1 {
        return in_recovery(case, trials);
    }
    match &broken.missing {
        Some(missing) => with_loss(case, missing, trials),
        None => {
            let (kind, store) = without_loss(case, trials);
            let crash = last_site(case.trace(), broken.time);
            Diagnosis { kind, places: Places { store, flush: None, crash }, advice: None }
        }
    }
}

/// Returns whether the invariant's reason, for a finding of this kind, is a wrong allocation.
fn is_of_allocation(kind: FindingKind, what: &str) -> bool {
    use FindingKind as Kind;
    let may_be = matches!(
        kind,
        Kind::MissingFlush | Kind::MissingFence | Kind::WrongOrder | Kind::NotAtomic | Kind::WrongResult
    );
    may_be && ["leaked:", "dangling:"].iter().any(|word| what.starts_with(word))
}

/// Returns the first of `advice` that repairs the program, or else the smallest.
fn tried(advice: Vec<Advice>, trials: &Trials<'_>) -> Option<Advice> {
    let least = advice.first().cloned();
    let found = advice.into_iter().find(|advice| (trials.is_clean_with)(advice.repair()));
    found.map(|advice| Advice { repairs: true, ..advice }).or(least)
}

/// Diagnoses a power failure in recovery.
fn in_recovery<J: Judge>(case: &Case<'_, J>, trials: &Trials<'_>) -> Diagnosis {
    let source = |site: Option<Site>| site.map(|site| site.at);
    // The recovery in which power fails last. Its end is where the crash is.
    let cut = case.recoveries.iter().rev().nth(1);
    let crash = cut.and_then(Recovery::last_site).map(|site| site.at);
    let changed =
        cut.and_then(|cut| cut.done.iter().rev().find(|done| matches!(done.what, What::Store { .. })));
    let store = source(changed.and_then(|done| done.site));
    let plain = Places { store, flush: None, crash };
    if let Some(redone) = case.redone() {
        let places = Places { store: source(redone.again), ..plain };
        return Diagnosis { kind: FindingKind::SumRedone, places, advice: None };
    }
    let Some((recovery, at)) = case.lost_in_recovery() else {
        return Diagnosis { kind: FindingKind::NonIdempotentRecovery, places: plain, advice: None };
    };
    if let Some(store) = case.strictly_wrong_in_recovery(recovery) {
        let places = Places { store: source(store), ..plain };
        return Diagnosis { kind: FindingKind::NonIdempotentRecovery, places, advice: None };
    }
    let done = &case.recoveries[recovery].done;
    let What::Store { word, .. } = done[at].what else { unreachable!("a lost store is a store") };
    let is_flush = |done: &&Done| matches!(done.what, What::WriteBack { line } if line == word / 8);
    let flushed = done[at..].iter().find(is_flush);
    let store = source(done[at].site);
    let flush = match flushed {
        Some(flush) => source(flush.site).map(Flush::At),
        None => store.map(Flush::MissingAfter),
    };
    let places = Places { store, flush, crash };
    let advise = |behind: Option<Source>, flush, fence| {
        behind.map(|behind| Advice { behind, flush, fence, repairs: false })
    };
    let advice = match flushed {
        Some(flush) => vec![advise(source(flush.site), false, true)],
        None => vec![advise(store, true, false), advise(store, true, true)],
    };
    // A repair cannot be tried if recovery does not run with it.
    let advice =
        if trials.repairs_recovery { tried(advice.into_iter().flatten().collect(), trials) } else { None };
    let advice = advice.filter(|advice| advice.repairs);
    Diagnosis { kind: FindingKind::UnflushedRecovery, places, advice }
}

/// Diagnoses a single power failure that violates the invariant even with nothing lost. Returns the kind, and the store after which the failure must
/// not come.
fn without_loss<J: Judge>(case: &Case<'_, J>, trials: &Trials<'_>) -> (FindingKind, Option<Source>) {
    if case.broken.recovery_stopped {
        return (FindingKind::FailingRecovery, None);
    }
    if (trials.is_clean_in_turn)() {
        return (FindingKind::Race, None);
    }
    let time = case.broken.time;
    let found = in_any_order(case, time, time);
    found.unwrap_or((FindingKind::WrongOrder, None))
}

/// Returns what is wrong even if every store becomes durable immediately and power fails between these times.
fn in_any_order<J: Judge>(case: &Case<'_, J>, from: u32, to: u32) -> Option<(FindingKind, Option<Source>)> {
    if let Some(redone) = case.redone() {
        return Some((FindingKind::SumRedone, redone.again.map(|site| site.at)));
    }
    let (cause, store) = case.strict(from..=to)?;
    let kind = match cause {
        Strict::Order => FindingKind::WrongOrder,
        Strict::Atomicity => FindingKind::NotAtomic,
        Strict::Torn => FindingKind::TornValue,
        Strict::Result => FindingKind::WrongResult,
    };
    Some((kind, store))
}

/// Diagnoses a single power failure that loses a store which had to be durable.
fn with_loss<J: Judge>(case: &Case<'_, J>, missing: &Missing, trials: &Trials<'_>) -> Diagnosis {
    let (broken, trace) = (case.broken, case.trace());
    let crash = last_site(trace, broken.time);
    let stores = trace.line(missing.word / 8).map_or(&[][..], |line| &line.stores);
    let Some(store) = stores.iter().find(|store| store.time == missing.store) else {
        let places = Places { crash, ..Places::default() };
        return Diagnosis { kind: FindingKind::WrongOrder, places, advice: None };
    };
    let MadeDurable { asked, fenced, late } = made_durable(trace, store, missing.before);
    // If no flush is in time, a later flush may belong to another store.
    let flush = match asked.or(late.filter(|_| !fenced)) {
        Some(site) => Some(Flush::At(site.at)),
        None => store.source.map(Flush::MissingAfter),
    };
    let places = Places { store: store.source, flush, crash };
    if trials.setting == Setting::Word && (trials.is_clean_by_line)() {
        return Diagnosis { kind: FindingKind::TornValue, places, advice: None };
    }
    let advice = |behind, flush, fence| Advice { behind, flush, fence, repairs: false };
    let both = store.source.map(|source| advice(source, true, true));
    let (kind, least) = match asked {
        Some(site) => (FindingKind::MissingFence, Some(advice(site.at, false, true))),
        None if fenced => (FindingKind::MissingFlush, store.source.map(|source| advice(source, true, false))),
        None if late.is_some() => (FindingKind::WrongOrder, None),
        None => (FindingKind::MissingFlush, None),
    };
    // If a thread acts upon a value that another thread has stored, it may have to make that store durable first.
    let seen = trace.seen.iter().find(|seen| seen.store == store.time && seen.time < missing.before);
    let reader = seen.map(|seen| advice(seen.site.at, true, true));
    let actor = thread_at(trace, missing.before);
    let is_of_another =
        actor.is_some_and(|actor| actor != store.thread) && (seen.is_some() || !trials.knows_loads);
    let kind = match kind {
        _ if broken.recovery_stopped => FindingKind::FailingRecovery,
        _ if is_of_another => FindingKind::CrossFailureRace,
        kind => kind,
    };
    let advice = tried(least.into_iter().chain(both).chain(reader).collect(), trials);
    if advice.as_ref().is_some_and(|advice| advice.repairs) || kind == FindingKind::FailingRecovery {
        return Diagnosis { kind, places, advice };
    }
    // If all words of a store have to be durable before something else, the fault is not that the store is torn.
    let lost: &[Decision] = broken.crashes.last().map_or(&[], |(lost, _)| lost);
    if is_torn(trace, store, lost, broken.time) {
        return Diagnosis { kind: FindingKind::TornValue, places, advice: None };
    }
    // Power may fail from just before the store on.
    match in_any_order(case, store.time.saturating_sub(1), broken.time) {
        Some((kind, at)) => {
            Diagnosis { kind, places: Places { store: at, flush: None, crash }, advice: None }
        }
        None => Diagnosis { kind, places, advice },
    }
}

/// Returns the last operation up to `time` whose place is known.
fn last_site(trace: &Trace, time: u32) -> Option<Source> {
    let marks = trace.marks.iter().filter(|mark| mark.time <= time);
    let marked = marks.rev().find_map(|mark| Some((mark.time, mark.site?.at)));
    let stores = trace.lines.iter().filter_map(|line| {
        let upto = line.stores.partition_point(|store| store.time <= time);
        line.stores[..upto].iter().rev().find_map(|store| Some((store.time, store.source?)))
    });
    // Marks at a store's time come after the store.
    stores.chain(marked).max_by_key(|(time, _)| *time).map(|(_, at)| at)
}

/// Returns the thread that did something at `time`.
fn thread_at(trace: &Trace, time: u32) -> Option<u32> {
    let stored = trace.lines.iter().flat_map(|line| &line.stores).find(|store| store.time == time);
    let marked = || trace.marks.iter().find(|mark| mark.time == time).map(|mark| mark.thread);
    stored.map(|store| store.thread).or_else(marked)
}

/// Returns the kind of a finding that needs no power failure.
fn kind_without_crash(broken: &Broken) -> Option<FindingKind> {
    match &broken.stopped {
        Some(Stopped::Panic(_)) => Some(FindingKind::Panic),
        Some(Stopped::Outside(_)) => Some(FindingKind::StoreOutside),
        Some(Stopped::Deadlock(_)) => Some(FindingKind::Deadlock),
        None => broken.crashes.is_empty().then_some(FindingKind::UnfencedRelease),
    }
}

/// The operations that make a store durable.
struct MadeDurable {
    /// The last write-back of its line before the time in question.
    asked: Option<Site>,
    /// True if its thread fenced after that, before the time in question.
    fenced: bool,
    /// The first write-back of its line after the time in question.
    late: Option<Site>,
}

/// Returns what the program did to make `store` durable by the time `before`.
fn made_durable(trace: &Trace, store: &Store, before: u32) -> MadeDurable {
    let asks = |operation: Operation| match operation {
        Operation::WriteBack(at, _) | Operation::StoreNonTemporal(at, _) => {
            (at / 64) as u32 == store.word / 8
        }
        _ => false,
    };
    // A write-back that an atomic operation completes is durable before the value that the operation stores can be.
    let fences = |mark: &Mark| match mark.operation {
        Operation::Fence(_) => mark.time < before,
        Operation::CompareExchange(..) | Operation::FetchAdd(..) => mark.time <= before,
        _ => false,
    };
    let mut done = MadeDurable { asked: None, fenced: false, late: None };
    for mark in trace.marks.iter().filter(|mark| mark.time >= store.time) {
        let in_time = mark.time < before;
        if asks(mark.operation) {
            match in_time {
                true => done.asked = mark.site,
                false => done.late = done.late.or(mark.site),
            }
        }
        done.fenced |= mark.thread == store.thread && fences(mark);
    }
    done
}

/// Returns whether `store` is part of a store of several words, another part of which survived or was lost separately.
fn is_torn(trace: &Trace, store: &Store, lost: &[Decision], time: u32) -> bool {
    if !store.is_part {
        return false;
    }
    let all = trace.lines.iter().flat_map(|line| &line.stores);
    let mut others = all.filter(|other| {
        let is_same = other.is_part && other.thread == store.thread && other.source == store.source;
        is_same && other.word != store.word && other.word.abs_diff(store.word) == 1 && other.time <= time
    });
    others.any(|other| lost.iter().all(|lost| lost.word != other.word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_table_of_kinds() {
        let page = include_str!("../../../docs/checking-programs.md");
        let row = |kind: &FindingKind| format!("| {kind} | {} | {} |\n", kind.meaning(), kind.remedy());
        let rows: String = FindingKind::ALL.iter().map(row).collect();
        let table = format!("| kind | what it means | what repairs it |\n|---|---|---|\n{rows}");
        assert!(page.contains(&table), "docs/checking-programs.md should have:\n{table}");
    }
}
