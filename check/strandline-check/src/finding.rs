//! What a check finds, as testers of persistent memory know it.

use std::collections::BTreeMap;
use std::fmt;

use strandline_core::memory::Operation;

use crate::Setting;
use crate::pmem::Repair;
use crate::x86::caught::Stopped;
use crate::x86::crash::Decision;
use crate::x86::explorer::Broken;
use crate::x86::replay::Replay;
use crate::x86::trace::{Mark, Store, Trace};
use crate::x86::{Site, Source, Waste};

/// What is wrong with a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A line that must be durable before something else is not flushed.
    MissingFlush,
    /// A line is flushed, and nothing waits for that.
    MissingFence,
    /// What must be durable first is stored, or made durable, only afterwards.
    WrongOrder,
    /// Of a store of several words some survive and some do not.
    TornWord,
    /// An access outside the memory, or to what is not a word.
    StoreOutside,
    /// Power fails in recovery, and recovery does not repair what that leaves.
    NonIdempotentRecovery,
    /// Recovery panics, or runs for ever.
    FailingRecovery,
    /// All threads that are left wait, or one runs for ever.
    Deadlock,
    /// Threads get into one another's way in persistent words: nothing is lost, and nothing is wrong if they run one after the other.
    Race,
    /// The program panics, or a closure over a database returns an error.
    Panic,
    /// A lock is released over a non-temporal store that no fence has followed.
    UnfencedRelease,
    /// In a database: power fails between two transactions, and what belongs together is in both of them.
    NotAtomic,
    /// In a database: a transaction is acknowledged that is not durable yet.
    NotDurable,
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingFlush => "missing flush",
            Self::MissingFence => "missing fence",
            Self::WrongOrder => "wrong order",
            Self::TornWord => "torn word",
            Self::StoreOutside => "store outside",
            Self::NonIdempotentRecovery => "non-idempotent recovery",
            Self::FailingRecovery => "failing recovery",
            Self::Deadlock => "deadlock",
            Self::Race => "race on persistent words",
            Self::Panic => "panic",
            Self::UnfencedRelease => "lock released before a fence",
            Self::NotAtomic => "not atomic",
            Self::NotDurable => "not durable when acknowledged",
        })
    }
}

/// The least that repairs a finding, as far as flushes and fences do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Behind what this source line does.
    pub behind: Source,
    /// Flush the line that it stores to, or loads from.
    pub flush: bool,
    /// Fence, behind that flush if there is one.
    pub fence: bool,
    /// Whether the program with that flush and fence was explored again, as far as before, and nothing was found; otherwise
    /// something else is missing, too.
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
pub struct Finding {
    /// What is wrong with it.
    pub kind: FindingKind,
    /// What the invariant says, or the panic.
    pub what: String,
    /// The history up to the crash or the end, an operation a line.
    pub history: Vec<String>,
    /// What was stored and did not survive: as little as suffices.
    pub lost: Vec<String>,
    /// What the last recovery stored and fenced; in a database, the transactions of all recoveries.
    pub recovery: Vec<String>,
    /// What a database held that was refused, a row a line; nothing for programs over a [`Pmem`](crate::Pmem).
    pub tables: Vec<String>,
    /// What repairs it, if a flush or a fence does.
    pub advice: Option<Advice>,
    /// The line that shows it again: [`Check::replay`](crate::Check::replay).
    pub replay: String,
    /// The seed of the sampled history in which it was found first.
    pub seed: Option<u64>,
}

impl Finding {
    /// The finding that `broken` is, with the first advice of the diagnosis that repairs it, or else the least one.
    pub(crate) fn new(
        broken: &Broken,
        diagnosis: Diagnosis,
        repaired: &dyn Fn(Repair) -> bool,
        replay: &Replay,
        seed: Option<u64>,
    ) -> Self {
        let Diagnosis { kind, advice, otherwise } = diagnosis;
        let least = advice.first().cloned();
        let found = advice.into_iter().find(|advice| repaired(advice.repair()));
        let (kind, advice) = match (found, otherwise) {
            (Some(advice), _) => (kind, Some(Advice { repairs: true, ..advice })),
            (None, Some(otherwise)) => (otherwise, None),
            (None, None) => (kind, least),
        };
        let violation = &broken.violation;
        Self {
            kind,
            what: violation.what.clone(),
            history: violation.history.clone(),
            lost: violation.lost.clone(),
            recovery: broken.recovery.clone(),
            tables: Vec::new(),
            advice,
            replay: replay.to_line(),
            seed,
        }
    }

    /// All that there is to say, but for how it is replayed: lines, each with its end.
    pub fn story(&self) -> String {
        let mut text = format!("{}: {}\n", self.kind, self.what);
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
        if let Some(advice) = &self.advice {
            text += &format!("advice: {advice}\n");
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

/// A flush or a fence that made nothing durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerformanceFinding {
    /// Where it stands, in which step.
    pub site: Site,
    /// Why it was for nothing.
    pub waste: Waste,
    /// How often it was, in all runs.
    pub wasted: u64,
    /// How often it was carried out, in all runs.
    pub performed: u64,
}

impl PerformanceFinding {
    /// Whether it was for nothing each time: the program may do without it, as far as was explored.
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

/// Flushes and fences of all runs, by place.
#[derive(Default)]
pub(crate) struct Performance {
    performed: BTreeMap<Site, u64>,
    wasted: BTreeMap<(Site, Waste), u64>,
}

impl Performance {
    /// Takes in the flushes and fences of one run.
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

    /// Those that were for nothing.
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

/// What is wrong with a history, as far as it alone tells.
pub(crate) struct Diagnosis {
    pub kind: FindingKind,
    /// What may repair it, the least first.
    pub advice: Vec<Advice>,
    /// What is wrong if none of that repairs it, where that is something else.
    pub otherwise: Option<FindingKind>,
}

impl From<FindingKind> for Diagnosis {
    /// No flush and no fence repairs it.
    fn from(kind: FindingKind) -> Self {
        Self { kind, advice: Vec::new(), otherwise: None }
    }
}

/// What is wrong in `trace`, and what may repair it. `is_clean_by_line` says whether the same schedule shows nothing where
/// lines persist in order, `is_clean_in_turn` whether threads that run one after the other do.
pub(crate) fn classify(
    broken: &Broken,
    trace: &Trace,
    setting: Setting,
    is_clean_by_line: impl FnOnce() -> bool,
    is_clean_in_turn: impl FnOnce() -> bool,
) -> Diagnosis {
    if let Some(kind) = kind_without_loss(broken) {
        return kind.into();
    }
    let stores = |word: u32| trace.line(word / 8).map_or(&[][..], |line| &line.stores);
    let Some(missing) = &broken.missing else {
        let kind = match broken.recovery_stopped {
            true => FindingKind::FailingRecovery,
            false if is_clean_in_turn() => FindingKind::Race,
            false => FindingKind::WrongOrder,
        };
        return kind.into();
    };
    let made = stores(missing.word).iter().find(|store| store.time == missing.store);
    let Some(store) = made else { return FindingKind::WrongOrder.into() };
    let lost: &[Decision] = broken.crashes.last().map_or(&[], |(lost, _)| lost);
    if setting == Setting::Word && is_clean_by_line() {
        return FindingKind::TornWord.into();
    }
    // A store of several words that are all to be durable before something else is not torn for want of atomicity.
    let otherwise = is_torn(trace, store, lost, broken.time).then_some(FindingKind::TornWord);
    let Done { asked, fenced, asked_late } = done_about(trace, store, missing.before);
    let advice = |behind, flush, fence| Advice { behind, flush, fence, repairs: false };
    let both = store.source.map(|source| advice(source, true, true));
    let (kind, least) = match asked {
        Some(site) => (FindingKind::MissingFence, Some(advice(site.at, false, true))),
        None if fenced => (FindingKind::MissingFlush, store.source.map(|source| advice(source, true, false))),
        None if asked_late => (FindingKind::WrongOrder, None),
        None => (FindingKind::MissingFlush, None),
    };
    // Who acts upon what another thread has stored may have to make it durable first.
    let seen = trace.seen.iter().find(|seen| seen.store == store.time && seen.time < missing.before);
    let reader = seen.map(|seen| advice(seen.site.at, true, true));
    let kind = if broken.recovery_stopped { FindingKind::FailingRecovery } else { kind };
    Diagnosis { kind, advice: least.into_iter().chain(both).chain(reader).collect(), otherwise }
}

/// The kind of a finding that does not come from a single power failure.
fn kind_without_loss(broken: &Broken) -> Option<FindingKind> {
    match &broken.stopped {
        Some(Stopped::Panic(_)) => Some(FindingKind::Panic),
        Some(Stopped::Outside(_)) => Some(FindingKind::StoreOutside),
        Some(Stopped::Deadlock(_)) => Some(FindingKind::Deadlock),
        None if broken.crashes.is_empty() => Some(FindingKind::UnfencedRelease),
        None if broken.crashes.len() > 1 => Some(FindingKind::NonIdempotentRecovery),
        None => None,
    }
}

/// What a program did to make a store durable.
struct Done {
    /// Where its line was last written back in time.
    asked: Option<Site>,
    /// Its thread fenced in time.
    fenced: bool,
    /// Its line was written back too late.
    asked_late: bool,
}

/// What was done about `store`, which had to be durable at the time `before`.
fn done_about(trace: &Trace, store: &Store, before: u32) -> Done {
    let asks = |operation: Operation| match operation {
        Operation::WriteBack(at, _) | Operation::StoreNonTemporal(at, _) => {
            (at / 64) as u32 == store.word / 8
        }
        _ => false,
    };
    // What an atomic operation completes is durable before the value that it stores can be.
    let fences = |mark: &Mark| match mark.operation {
        Operation::Fence(_) => mark.time < before,
        Operation::CompareExchange(..) | Operation::FetchAdd(..) => mark.time <= before,
        _ => false,
    };
    let mut done = Done { asked: None, fenced: false, asked_late: false };
    for mark in trace.marks.iter().filter(|mark| mark.time >= store.time) {
        let in_time = mark.time < before;
        if asks(mark.operation) {
            done.asked_late |= !in_time;
            done.asked = if in_time { mark.site } else { done.asked };
        }
        done.fenced |= mark.thread == store.thread && fences(mark);
    }
    done
}

/// Whether `store` is a part of one of which another part has survived, or has been lost alone.
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
