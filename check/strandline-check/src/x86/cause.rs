//! Finds why a history goes wrong that no flush repairs, by trying histories that differ from it in one aspect.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::rc::Rc;

use strandline_core::memory::{Event, Operation, Space, Step, Window, World};

use super::crash::{CrashMemory, Decision};
use super::explorer::{Broken, Judge, Lived};
use super::site::{self, Site};
use super::trace::Trace;

/// The number of verdicts that one question may take.
const TRIALS: u32 = 256;
/// The number of stores and acknowledgements that may be reordered in the search for a right order, at most.
const MOST_STEPS: usize = 40;
/// The number of moments before and after the crash that are tried, at most.
const MOST_MOMENTS: usize = 64;
/// The number of words that are reset one by one, at most.
const MOST_WORDS: usize = 8;

/// The operations of a recovery, up to the power failure in it or to its end.
pub(crate) struct Recovery {
    /// The pool before it.
    pub image: Vec<u64>,
    pub done: Vec<Done>,
}

/// One operation of a recovery.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    pub what: What,
    pub site: Option<Site>,
}

#[derive(Clone, Copy)]
pub(crate) enum What {
    Store { word: u32, before: u64, after: u64 },
    WriteBack { line: u32 },
    Fence,
}

/// Passes the operations of a recovery on to its memory, and records them.
struct Watched {
    memory: Rc<CrashMemory>,
    done: RefCell<Vec<(Operation, Option<Site>)>>,
}

impl Watched {
    fn keep(&self, operation: Operation, site: Option<Site>) {
        self.done.borrow_mut().push((operation, site));
    }
}

impl World for Watched {
    fn perform(&self, thread: usize, operation: Operation) -> u64 {
        let site = site::take().0;
        let result = self.memory.perform(thread, operation);
        let store = |at, value| Operation::Store(Space::Persistent, at, value);
        match operation {
            Operation::Store(Space::Persistent, ..) | Operation::WriteBack(..) | Operation::Fence(_) => {
                self.keep(operation, site);
            }
            Operation::StoreNonTemporal(at, value) => {
                self.keep(store(at, value), site);
                self.keep(Operation::WriteBack(at, Step::CommitWriteBack), site);
            }
            Operation::CompareExchange(Space::Persistent, at, current, new) if result == current => {
                self.keep(store(at, new), site);
            }
            Operation::FetchAdd(Space::Persistent, at, by) => {
                self.keep(store(at, result.wrapping_add(by)), site);
            }
            _ => {}
        }
        result
    }

    fn window(&self) -> Option<Rc<Window>> {
        self.memory.window()
    }

    fn switches(&self, thread: usize) -> bool {
        self.memory.switches(thread)
    }

    fn omitted(&self, step: Step) -> bool {
        self.memory.omitted(step)
    }

    fn size(&self, space: Space) -> u64 {
        self.memory.size(space)
    }
}

impl Recovery {
    /// Creates the record of what recovery had done on `image` when power failed: the first `operations` of `kept`.
    fn new(image: Vec<u64>, kept: &[(Operation, Option<Site>)], operations: usize) -> Self {
        let mut now = image.clone();
        let (mut done, mut counted) = (Vec::new(), 0);
        for &(operation, site) in kept {
            counted += usize::from(!matches!(operation, Operation::WriteBack(..)));
            if counted > operations {
                break;
            }
            let what = match operation {
                Operation::Store(_, at, after) => {
                    let before = std::mem::replace(&mut now[at as usize / 8], after);
                    What::Store { word: (at / 8) as u32, before, after }
                }
                Operation::WriteBack(at, _) => What::WriteBack { line: (at / 64) as u32 },
                _ => What::Fence,
            };
            done.push(Done { what, site });
        }
        Self { image, done }
    }

    /// Returns the stores that changed something: word, value before, value after, and place.
    fn changes(&self) -> impl Iterator<Item = (u32, u64, u64, Option<Site>)> {
        self.done.iter().filter_map(|done| match done.what {
            What::Store { word, before, after } if before != after => Some((word, before, after, done.site)),
            _ => None,
        })
    }

    /// Returns by how much each word changed first, and where.
    fn first_differences(&self) -> Vec<(u32, u64, Option<Site>)> {
        let mut found: Vec<(u32, u64, Option<Site>)> = Vec::new();
        for (word, before, after, site) in self.changes() {
            if found.iter().all(|known| known.0 != word) {
                found.push((word, after.wrapping_sub(before), site));
            }
        }
        found
    }

    /// Returns the last operation whose place is known.
    pub fn last_site(&self) -> Option<Site> {
        self.done.iter().rev().find_map(|done| done.site)
    }
}

/// Returns the pool as it is on `memory` if `decisions` determine what survived. Ends the run.
fn settled(memory: &CrashMemory, decisions: &[Decision]) -> Vec<u64> {
    memory.given(decisions.to_vec());
    // Losses are decided before survivals, since a line's newest word settles the others.
    for decision in decisions {
        memory.load_word(decision.word);
    }
    memory.all_words()
}

/// Returns the memory that the last of the power failures `crashes` leaves, before recovery runs on it. The first failure comes at `time` of `trace`.
/// `each` receives the recoveries in which power failed. Returns `None` if the program does not reach these failures.
pub(crate) fn after_crashes<J: Judge>(
    judge: &J,
    (trace, time): (&Trace, u32),
    crashes: &[(Vec<Decision>, usize)],
    mut each: impl FnMut(Recovery),
) -> Option<Rc<CrashMemory>> {
    let (last, earlier) = crashes.split_last()?;
    let mut memory = Rc::new(judge.memory());
    memory.crash(trace, time, judge.setting(), judge.omitted(), true);
    for (decisions, operations) in earlier {
        let image = settled(&memory, decisions);
        memory.given(decisions.clone());
        memory.record();
        let watched = Rc::new(Watched { memory: memory.clone(), done: RefCell::default() });
        let world: Rc<dyn World> = watched.clone();
        judge.recover(&world).ok()?;
        let crash = memory.recorded().into_iter().find(|crash| crash.operations == *operations)?;
        each(Recovery::new(image, &watched.done.borrow(), *operations));
        let deeper = Rc::new(judge.memory());
        deeper.crash_again(&memory, crash);
        memory = deeper;
    }
    memory.given(last.0.clone());
    Some(memory)
}

/// A store or an acknowledgement of the history.
#[derive(Clone, Copy)]
enum Act {
    Store { word: u32, before: u64, value: u64, is_part: bool, site: Option<super::Source> },
    Acknowledge(u64),
}

/// The fault of a history in which every store is durable immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strict {
    /// The stores are right in another order.
    Order,
    /// The stores are right in no order.
    Atomicity,
    /// The history ends between the parts of one store.
    Torn,
    /// The memory is wrong before the program begins, or after its end.
    Result,
}

/// A relative change that was applied twice.
#[derive(Clone, Copy)]
pub(crate) struct Redone {
    /// The place at which recovery applies it again.
    pub again: Option<Site>,
}

/// A violation whose cause is to be found.
pub(crate) struct Case<'a, J: Judge> {
    judge: RefCell<J>,
    life: &'a J::Life,
    pub broken: &'a Broken,
    /// The memory for histories that are tried.
    memory: Rc<CrashMemory>,
    trials: Cell<u32>,
    /// All recoveries, including the last one; empty if they cannot be repeated.
    pub recoveries: Vec<Recovery>,
    acts: Vec<(u32, Act)>,
}

impl<'a, J: Judge> Case<'a, J> {
    /// Creates the case of the violation `broken` of `life`.
    pub fn new(judge: J, life: &'a J::Life, broken: &'a Broken) -> Self {
        let mut case = Self {
            memory: Rc::new(judge.memory()),
            judge: RefCell::new(judge),
            life,
            broken,
            trials: Cell::new(0),
            recoveries: Vec::new(),
            acts: acts(life.trace()),
        };
        case.recoveries = case.recover().unwrap_or_default();
        case
    }

    pub fn trace(&self) -> &'a Trace {
        self.life.trace()
    }

    fn recover(&self) -> Option<Vec<Recovery>> {
        let (judge, broken) = (&*self.judge.borrow(), self.broken);
        let mut recoveries = Vec::new();
        let each = |recovery| recoveries.push(recovery);
        let memory = after_crashes(judge, (self.trace(), broken.time), &broken.crashes, each)?;
        let image = settled(&memory, &broken.crashes.last()?.0);
        self.begin(&image);
        let watched = Rc::new(Watched { memory: self.memory.clone(), done: RefCell::default() });
        let world: Rc<dyn World> = watched.clone();
        // The failure of recovery may be the fault itself.
        let _ = judge.recover(&world);
        recoveries.push(Recovery::new(image, &watched.done.borrow(), usize::MAX));
        Some(recoveries)
    }

    /// Makes the memory for trials hold `image`, durably.
    fn begin(&self, image: &[u64]) {
        let judge = self.judge.borrow();
        self.memory.crash(&Trace::new(image.to_vec()), 0, judge.setting(), judge.omitted(), true);
        self.memory.given(Vec::new());
    }

    /// Returns whether recovery repairs `image`, if `expected` is right.
    fn accepts(&self, image: &[u64], expected: &J::Expected) -> bool {
        self.trials.set(self.trials.get() + 1);
        self.begin(image);
        let world: Rc<dyn World> = self.memory.clone();
        let mut judge = self.judge.borrow_mut();
        judge.recover(&world).is_ok()
            && judge.verdict(&(self.memory.clone(), world), self.life, expected).is_ok()
    }

    fn may_try(&self) -> bool {
        self.trials.get() < TRIALS
    }

    /// Returns the words whose value recovery changes by as much as it had been changed before, each with the value before the first change.
    fn repeated(&self) -> Vec<(u32, u64, Option<Site>)> {
        let Some((last, earlier)) = self.recoveries.split_last() else { return Vec::new() };
        let mut found = Vec::new();
        for (word, difference, site) in last.first_differences() {
            let now = last.image[word as usize];
            let in_recovery = earlier.iter().rev().find_map(|recovery| {
                let first =
                    recovery.first_differences().into_iter().find(|&(changed, ..)| changed == word)?;
                (first.1 == difference).then_some(recovery.image[word as usize])
            });
            let before = in_recovery.or_else(|| {
                self.acts.iter().rev().filter(|(time, _)| *time <= self.broken.time).find_map(|(_, act)| {
                    match *act {
                        Act::Store { word: changed, before, value, .. } if changed == word => {
                            (value.wrapping_sub(before) == difference).then_some(before)
                        }
                        _ => None,
                    }
                })
            });
            if let Some(before) = before.filter(|&before| before != now) {
                found.push((word, before, site));
            }
        }
        found
    }

    /// Returns whether recovery applies a relative change a second time: it does if undoing the first change lets recovery repair the pool.
    pub fn redone(&self) -> Option<Redone> {
        self.trials.set(0);
        let repeated = self.repeated();
        let last = self.recoveries.last()?;
        let expected = self.judge.borrow().expected_of(self.life, self.trace(), self.broken.time);
        let is_right = |words: &[(u32, u64, Option<Site>)]| {
            let mut image = last.image.clone();
            words.iter().for_each(|&(word, before, _)| image[word as usize] = before);
            self.accepts(&image, &expected)
        };
        let all = (repeated.len() > 1 && is_right(&repeated)).then(|| repeated[0]);
        let found = all.or_else(|| repeated.iter().take(MOST_WORDS).find(|one| is_right(&[**one])).copied());
        found.map(|(_, _, again)| Redone { again })
    }

    /// Returns the store of an earlier recovery whose loss in the last power failure the violation depends on.
    pub fn lost_in_recovery(&self) -> Option<(usize, usize)> {
        let (lost, _) = self.broken.crashes.last()?;
        let (_, earlier) = self.recoveries.split_last()?;
        earlier.iter().enumerate().rev().find_map(|(number, recovery)| {
            let is_lost = |done: &Done| match done.what {
                What::Store { word, before, after } if before != after => {
                    lost.iter().any(|lost| lost.word == word && lost.value != after)
                }
                _ => false,
            };
            Some((number, recovery.done.iter().rposition(is_lost)?))
        })
    }

    /// Returns the store of recovery number `number` after which power must not fail even if every store is durable immediately.
    pub fn strictly_wrong_in_recovery(&self, number: usize) -> Option<Option<Site>> {
        self.trials.set(0);
        let expected = self.judge.borrow().expected_of(self.life, self.trace(), self.broken.time);
        let recovery = &self.recoveries[number];
        let mut image = recovery.image.clone();
        for (word, _, after, site) in recovery.changes() {
            image[word as usize] = after;
            if !self.may_try() {
                return None;
            }
            if !self.accepts(&image, &expected) {
                return Some(site);
            }
        }
        None
    }

    /// Returns the pool with all stores up to act number `last`, and the acknowledgements up to then. `None` is the time before the first act.
    fn strictly(&self, last: Option<usize>) -> (Vec<u64>, Vec<u64>) {
        let mut image = self.trace().initial.clone();
        let mut acknowledged = Vec::new();
        for (_, act) in &self.acts[..last.map_or(0, |last| last + 1)] {
            apply(*act, &mut image, &mut acknowledged);
        }
        (image, acknowledged)
    }

    fn expected(&self, acknowledged: &[u64]) -> J::Expected {
        let mut trace = Trace::new(Vec::new());
        for &number in acknowledged {
            trace.tick();
            trace.mark(0, Operation::Event(Event::Acknowledged(number)));
        }
        self.judge.borrow().expected_of(self.life, &trace, u32::MAX)
    }

    fn is_strictly_right(&self, last: Option<usize>) -> bool {
        let (image, acknowledged) = self.strictly(last);
        self.accepts(&image, &self.expected(&acknowledged))
    }

    /// Returns what is wrong even if every store is durable immediately and power fails at these times; `None` if nothing is. Also returns the store
    /// after which it is wrong.
    pub fn strict(&self, times: RangeInclusive<u32>) -> Option<(Strict, Option<super::Source>)> {
        self.trials.set(0);
        let upto = |time| self.acts.partition_point(|(when, _)| *when <= time).checked_sub(1);
        let (first, last) = (upto(*times.start()), upto(*times.end()));
        let moments = (first.map_or(0, |first| first + 1)..last.map_or(0, |last| last + 1)).map(Some);
        let wrong = std::iter::once(first)
            .chain(moments)
            .take(MOST_MOMENTS)
            .find(|&moment| !self.is_strictly_right(moment))?;
        self.trials.set(0);
        let site = wrong.and_then(|wrong| {
            self.acts[..=wrong].iter().rev().find_map(|(_, act)| match act {
                Act::Store { site, .. } => Some(*site),
                Act::Acknowledge(_) => None,
            })
        });
        Some((self.strict_cause(wrong), site.flatten()))
    }

    fn strict_cause(&self, wrong: Option<usize>) -> Strict {
        let Some(wrong) = wrong else { return Strict::Result };
        let before = (0..wrong).rev().map(Some).chain([None]).take(MOST_MOMENTS);
        let mut right_before = before.filter(|&moment| self.is_strictly_right(moment));
        let Some(begin) = right_before.next() else { return Strict::Result };
        let mut after = (wrong + 1..self.acts.len()).take(MOST_MOMENTS);
        let Some(end) = after.find(|&moment| self.is_strictly_right(Some(moment))) else {
            let is_tried_to_the_end = self.acts.len() - wrong <= MOST_MOMENTS;
            return if is_tried_to_the_end { Strict::Result } else { Strict::Order };
        };
        let steps: Vec<Act> =
            self.acts[begin.map_or(0, |begin| begin + 1)..=end].iter().map(|(_, act)| *act).collect();
        let parts: HashSet<_> = steps
            .iter()
            .map(|act| match *act {
                Act::Store { is_part: true, site: Some(site), .. } => Some(site),
                _ => None,
            })
            .collect();
        if parts.len() == 1 && !parts.contains(&None) {
            return Strict::Torn;
        }
        match self.has_right_order(begin, &steps) {
            Some(false) => Strict::Atomicity,
            _ => Strict::Order,
        }
    }

    /// Returns whether the `steps` after `begin` have an order in which recovery repairs the state after each step; `None` if that is unknown.
    fn has_right_order(&self, begin: Option<usize>, steps: &[Act]) -> Option<bool> {
        if steps.len() > MOST_STEPS {
            return None;
        }
        self.trials.set(0);
        let (image, acknowledged) = self.strictly(begin);
        let word = |act: Act| match act {
            Act::Store { word, .. } => Some(word),
            Act::Acknowledge(_) => None,
        };
        let all = (1u64 << steps.len()) - 1;
        let (mut waiting, mut visited) = (vec![0u64], HashSet::from([0u64]));
        while let Some(done) = waiting.pop() {
            let is_done = |step: usize| done >> step & 1 == 1;
            // The loop pushes the first step last, so that it is popped first.
            for step in (0..steps.len()).rev().filter(|&step| !is_done(step)) {
                let mut earlier = (0..step).filter(|&earlier| !is_done(earlier));
                let overtakes = earlier
                    .any(|earlier| word(steps[earlier]).is_some_and(|at| word(steps[step]) == Some(at)));
                let next = done | 1 << step;
                if overtakes || !visited.insert(next) {
                    continue;
                }
                if next == all {
                    return Some(true);
                }
                if !self.may_try() {
                    return None;
                }
                let (mut image, mut acknowledged) = (image.clone(), acknowledged.clone());
                for (_, act) in steps.iter().enumerate().filter(|(step, _)| next >> step & 1 == 1) {
                    apply(*act, &mut image, &mut acknowledged);
                }
                if self.accepts(&image, &self.expected(&acknowledged)) {
                    waiting.push(next);
                }
            }
        }
        Some(false)
    }
}

fn apply(act: Act, image: &mut [u64], acknowledged: &mut Vec<u64>) {
    match act {
        Act::Store { word, value, .. } => image[word as usize] = value,
        Act::Acknowledge(number) => acknowledged.push(number),
    }
}

/// Returns the acknowledgements of `trace`, and its stores that change something, in the order of time.
fn acts(trace: &Trace) -> Vec<(u32, Act)> {
    let mut acts = Vec::new();
    for line in &trace.lines {
        let first = 8 * line.line as usize;
        let mut now: [u64; 8] = std::array::from_fn(|i| trace.initial[first + i]);
        for store in &line.stores {
            let before = std::mem::replace(&mut now[store.word as usize % 8], store.value);
            let (word, value) = (store.word, store.value);
            if before != value {
                let act = Act::Store { word, before, value, is_part: store.is_part, site: store.source };
                acts.push((store.time, act));
            }
        }
    }
    let acknowledged = trace.marks.iter().filter_map(|mark| match mark.operation {
        Operation::Event(Event::Acknowledged(number)) => Some((mark.time, Act::Acknowledge(number))),
        _ => None,
    });
    acts.extend(acknowledged);
    acts.sort_by_key(|act| act.0);
    acts
}
