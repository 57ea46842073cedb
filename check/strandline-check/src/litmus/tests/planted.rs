//! Tests of the differential tests: this breaks each rule of the model in turn, and the random programs of `differential.rs` must distinguish the
//! broken model from the right one.

use fastrand::Rng;

use super::differential::{PROGRAMS, crash_states};
use super::programs::random;
use super::{Setting, Test, naive};
use crate::litmus::view::{Late, Stamp, State};
use crate::litmus::{Operand, Operation};

/// An error in the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Error {
    StoreNotInCoherence,
    LoadIgnoresCoherence,
    LoadIgnoresReadView,
    LoadLeavesReadView,
    LoadLeavesPersistView,
    LoadOfOwnStoreRaisesViews,
    ModifyLeavesReadView,
    ModifyLeavesPersistView,
    ModifyCompletesNothing,
    ModifyReadsOldValue,
    FailedCompareExchangeCompletes,
    FailedCompareExchangeReadsLatest,
    MfenceLeavesReadView,
    MfenceLeavesPersistView,
    MfenceCompletesNothing,
    SfenceRaisesReadView,
    SfenceLeavesPersistView,
    SfenceCompletesNothing,
    SfenceCompletesForAllThreads,
    ClflushOnlyAsks,
    ClflushCoversItsLineOnly,
    WriteBackIgnoresCoherence,
    WriteBackIgnoresPersistView,
    WriteBackCoversAll,
    WriteBackCompletes,
    NonTemporalStoreIsAStore,
    NonTemporalStoreIsDurable,
    NonTemporalStoreIsVisible,
    LoadIgnoresLateStore,
    LateStoresOvertakeOnOneLine,
    SfenceLeavesLateStores,
    MfenceLeavesLateStores,
    ModifyLeavesLateStores,
    ClflushLeavesLateStores,
    StoreOvertakesLateStoreToItsLine,
    NonTemporalStoreStaysBehindStores,
    WriteBackIgnoresLateStore,
}

const ERRORS: [Error; 37] = [
    Error::StoreNotInCoherence,
    Error::LoadIgnoresCoherence,
    Error::LoadIgnoresReadView,
    Error::LoadLeavesReadView,
    Error::LoadLeavesPersistView,
    Error::LoadOfOwnStoreRaisesViews,
    Error::ModifyLeavesReadView,
    Error::ModifyLeavesPersistView,
    Error::ModifyCompletesNothing,
    Error::ModifyReadsOldValue,
    Error::FailedCompareExchangeCompletes,
    Error::FailedCompareExchangeReadsLatest,
    Error::MfenceLeavesReadView,
    Error::MfenceLeavesPersistView,
    Error::MfenceCompletesNothing,
    Error::SfenceRaisesReadView,
    Error::SfenceLeavesPersistView,
    Error::SfenceCompletesNothing,
    Error::SfenceCompletesForAllThreads,
    Error::ClflushOnlyAsks,
    Error::ClflushCoversItsLineOnly,
    Error::WriteBackIgnoresCoherence,
    Error::WriteBackIgnoresPersistView,
    Error::WriteBackCoversAll,
    Error::WriteBackCompletes,
    Error::NonTemporalStoreIsAStore,
    Error::NonTemporalStoreIsDurable,
    Error::NonTemporalStoreIsVisible,
    Error::LoadIgnoresLateStore,
    Error::LateStoresOvertakeOnOneLine,
    Error::SfenceLeavesLateStores,
    Error::MfenceLeavesLateStores,
    Error::ModifyLeavesLateStores,
    Error::ClflushLeavesLateStores,
    Error::StoreOvertakesLateStoreToItsLine,
    Error::NonTemporalStoreStaysBehindStores,
    Error::WriteBackIgnoresLateStore,
];

fn raise(view: &mut Stamp, to: Stamp) {
    *view = (*view).max(to);
}

/// Returns the steps of a thread with one rule broken, derived from those of the right model.
fn broken_steps(error: Error, test: &Test, state: &State, thread: usize) -> Vec<State> {
    let mut steps = broken_operation(error, test, state, thread);
    steps.extend(broken_late_steps(error, test, state, thread));
    if error == Error::NonTemporalStoreIsVisible {
        for next in &mut steps {
            while !next.threads[thread].late.is_empty() {
                let visible = next.late_steps(test, thread).next();
                *next = visible.unwrap();
            }
        }
    }
    steps
}

/// Returns the steps by which a late store of the thread becomes visible.
fn broken_late_steps(error: Error, test: &Test, state: &State, thread: usize) -> Vec<State> {
    let mut state = state.clone();
    let late = &mut state.threads[thread].late;
    match error {
        Error::LateStoresOvertakeOnOneLine => late.reverse(),
        Error::NonTemporalStoreIsAStore => late.iter_mut().for_each(|late| late.write_back = false),
        Error::NonTemporalStoreStaysBehindStores => {
            late.iter_mut().for_each(|late| late.non_temporal = false)
        }
        _ => {}
    }
    let mut steps: Vec<State> = state.late_steps(test, thread).collect();
    for next in &mut steps {
        match (error, next.memory.last().map(|message| test.locations[message.location].line)) {
            (Error::LateStoresOvertakeOnOneLine, _) => next.threads[thread].late.reverse(),
            (Error::NonTemporalStoreIsDurable, Some(line)) => {
                let newest = next.memory.len() as Stamp;
                raise(&mut next.vpc[line], newest);
            }
            _ => {}
        }
    }
    steps
}

/// Returns the steps of a thread's next operation.
fn broken_operation(error: Error, test: &Test, state: &State, thread: usize) -> Vec<State> {
    let Some(&operation) = test.threads[thread].get(state.threads[thread].next) else { return Vec::new() };
    let before = &state.threads[thread];
    // `from` is what the rules read; they change the states after it.
    let mut from = state.clone();
    match (error, operation) {
        (Error::LoadIgnoresCoherence, Operation::Load { location, .. }) => {
            from.threads[thread].coh[location] = 0;
        }
        (Error::LoadIgnoresReadView, Operation::Load { .. }) => from.threads[thread].vrn = 0,
        (Error::WriteBackIgnoresPersistView, Operation::WriteBack { .. }) => from.threads[thread].vpr = 0,
        _ => {}
    }
    // Hides late stores from the rules.
    let on_line = |late: &Late, line: usize| test.locations[late.message.location].line == line;
    let mut ignored = Vec::new();
    match (error, operation) {
        (Error::LoadIgnoresLateStore, Operation::Load { .. })
        | (Error::SfenceLeavesLateStores, Operation::Sfence)
        | (Error::MfenceLeavesLateStores, Operation::Mfence)
        | (Error::ModifyLeavesLateStores, Operation::FetchAdd { .. })
        | (Error::WriteBackIgnoresLateStore, Operation::WriteBack { .. }) => {
            ignored = std::mem::take(&mut from.threads[thread].late);
        }
        (Error::ClflushLeavesLateStores, Operation::Clflush { .. }) => {
            let late = &mut from.threads[thread].late;
            ignored = late.extract_if(.., |late| !late.non_temporal).collect();
        }
        (Error::StoreOvertakesLateStoreToItsLine, Operation::Store { location, .. }) => {
            let (late, line) = (&mut from.threads[thread].late, test.locations[location].line);
            ignored = late.extract_if(.., |late| on_line(late, line)).collect();
        }
        _ => {}
    }
    let mut steps = from.operation_steps(test, thread);
    for next in &mut steps {
        next.threads[thread].late.extend(ignored.iter().copied());
    }
    if let (Error::FailedCompareExchangeReadsLatest, Operation::CompareExchange { location, .. }) =
        (error, operation)
    {
        let latest = state.last_store(location, Stamp::MAX);
        steps.retain(|next| stored(state, next) || next.threads[thread].coh[location] == latest);
    }
    for next in &mut steps {
        let modified = stored(state, next);
        let me = &mut next.threads[thread];
        match (error, operation) {
            (Error::StoreNotInCoherence, Operation::Store { location, non_temporal: false, .. }) => {
                me.coh[location] = before.coh[location];
            }
            (Error::LoadIgnoresCoherence, Operation::Load { location, .. }) => {
                raise(&mut me.coh[location], before.coh[location]);
            }
            (Error::LoadIgnoresReadView, Operation::Load { .. }) => raise(&mut me.vrn, before.vrn),
            (Error::LoadLeavesReadView, Operation::Load { .. }) => me.vrn = before.vrn,
            (Error::LoadLeavesPersistView, Operation::Load { .. }) => me.vpr = before.vpr,
            (Error::LoadOfOwnStoreRaisesViews, Operation::Load { location, .. }) => {
                let read = me.coh[location];
                raise(&mut me.vrn, read);
                raise(&mut me.vpr, read);
            }
            (
                Error::ModifyLeavesReadView
                | Error::ModifyLeavesPersistView
                | Error::ModifyCompletesNothing
                | Error::ModifyReadsOldValue,
                Operation::CompareExchange { .. } | Operation::FetchAdd { .. },
            ) if modified => match (error, operation) {
                (Error::ModifyLeavesReadView, _) => me.vrn = before.vrn,
                (Error::ModifyLeavesPersistView, _) => me.vpr = before.vpr,
                (Error::ModifyCompletesNothing, _) => next.vpc.clone_from(&state.vpc),
                (_, Operation::FetchAdd { register, location, amount: Operand::Number(amount) }) => {
                    let old = state.value(before.coh[location]);
                    me.registers[register] = old;
                    if let Some(message) = next.memory.last_mut() {
                        message.value = old + amount;
                    }
                }
                _ => {}
            },
            (Error::FailedCompareExchangeCompletes, Operation::CompareExchange { .. }) if !modified => {
                complete(next, thread);
            }
            (Error::MfenceLeavesReadView, Operation::Mfence) => me.vrn = before.vrn,
            (Error::MfenceLeavesPersistView, Operation::Mfence)
            | (Error::SfenceLeavesPersistView, Operation::Sfence) => me.vpr = before.vpr,
            (Error::MfenceCompletesNothing, Operation::Mfence)
            | (Error::SfenceCompletesNothing, Operation::Sfence)
            | (Error::ClflushOnlyAsks, Operation::Clflush { .. }) => next.vpc.clone_from(&state.vpc),
            (Error::SfenceRaisesReadView, Operation::Sfence) => {
                let cohmax = me.cohmax();
                raise(&mut me.vrn, cohmax);
            }
            (Error::SfenceCompletesForAllThreads, Operation::Sfence) => {
                (0..test.threads.len()).for_each(|other| complete(next, other));
            }
            (Error::ClflushCoversItsLineOnly, Operation::Clflush { line }) => {
                next.vpc[line] = state.vpc[line].max(coherence(test, state, thread, line));
            }
            (Error::WriteBackIgnoresCoherence, Operation::WriteBack { line }) => {
                me.vpa[line] = before.vpa[line].max(before.vpr);
            }
            (Error::WriteBackIgnoresPersistView, Operation::WriteBack { .. }) => me.vpr = before.vpr,
            (Error::WriteBackCoversAll, Operation::WriteBack { line }) => {
                let cohmax = me.cohmax();
                raise(&mut me.vpa[line], cohmax);
            }
            (Error::WriteBackCompletes, Operation::WriteBack { line }) => {
                let asked = me.vpa[line];
                raise(&mut next.vpc[line], asked);
            }
            _ => {}
        }
    }
    steps
}

fn stored(before: &State, after: &State) -> bool {
    after.memory.len() > before.memory.len()
}

/// Completes the write-backs that the thread has requested.
fn complete(state: &mut State, thread: usize) {
    for (complete, &asked) in state.vpc.iter_mut().zip(&state.threads[thread].vpa) {
        raise(complete, asked);
    }
}

fn coherence(test: &Test, state: &State, thread: usize, line: usize) -> Stamp {
    let on_line = test.locations.iter().zip(&state.threads[thread].coh).filter(|(l, _)| l.line == line);
    on_line.map(|(_, &coh)| coh).max().unwrap_or(0)
}

/// The factor by which more programs are tried than in the comparison of models: some errors show in few programs.
const TIMES: u64 = 8;
/// Programs of the first shape that show errors which most programs do not; they are tried first. If they stop showing them, the search only takes
/// longer.
const RARE: [u64; 10] = [743, 1127, 1179, 2359, 135, 153, 164, 205, 383, 408];

#[test]
fn random_programs_notice_every_broken_rule() {
    let mut unnoticed = ERRORS.to_vec();
    let mut programs = 0;
    for (shape, count) in PROGRAMS {
        for seed in RARE.into_iter().chain(0..TIMES * count) {
            let test = random(&mut Rng::with_seed(seed), shape);
            let right = crash_states(&test, &[Setting::Line]);
            programs += 1;
            unnoticed.retain(|&error| {
                let broken = naive::explore(&test, &[Setting::Line], |state, thread| {
                    broken_steps(error, &test, state, thread)
                });
                let noticed = broken != right;
                if noticed {
                    println!("{error:?}: program {programs}");
                }
                !noticed
            });
            if unnoticed.is_empty() {
                return;
            }
        }
    }
    panic!("unnoticed in {programs} programs: {unnoticed:?}");
}
