//! Canonical configurations. Configurations with the same crash states, present and future, have the same canonical form.
//!
//! A timestamp orders a store among all stores, but only a few of these orders still matter. So:
//!
//! - *Stores* are dropped if no remaining load may return them and no crash may leave them. The remaining stores of a location are always its latest
//!   ones.
//! - *Memory* is one list for each line, which gives the order of the line's stores (its cuts).
//! - *A view* is recorded as the number of each line's stores that it covers, and only for lines that the thread's future depends on.
//! - *A store* also orders the stores of other lines: a thread that reads it must have seen the stores before it. That order is recorded only for
//!   lines that matter to some thread which may still read the store and learn from it.
//! - *Late stores* are recorded as they are, since their effect depends on no view.
//!
//! `vrn` and `coh` are recorded as the oldest store that each remaining load may return. Nothing else of them matters: reading exactly that store
//! changes no view, since vrn ≤ vpr and vrn ≤ `cohmax` always, and reading a later one raises both views to it. A write-back of a line uses `coh`
//! only joined with `vpr`. A part of a view that can only become part of `vpc` is recorded as at least `vpc`.

use super::future::{Future, members};
use super::view::{Stamp, State, Thread};
use super::{Operation, Test};

/// A canonical configuration.
pub(super) type Key = Box<[u8]>;

/// Computes canonical configurations of one test.
pub(super) struct Canonical<'t> {
    test: &'t Test,
    futures: Vec<Vec<Future>>,
    /// True if stores may be late.
    has_late: bool,
}

impl<'t> Canonical<'t> {
    /// Creates the computation. With `keeps_registers`, configurations with different registers are different even if no operation reads the
    /// registers.
    pub fn new(test: &'t Test, keeps_registers: bool) -> Self {
        let has_late = test.threads.iter().flatten().any(Operation::is_non_temporal);
        Self { test, futures: Future::of(test, keeps_registers), has_late }
    }

    /// Returns for each thread what it may still do in `state`.
    pub fn futures(&self, state: &State) -> impl Iterator<Item = Future> {
        let future = move |(thread, futures): (&Thread, &Vec<Future>)| {
            let late = thread.late.iter().map(|late| late.message.location);
            late.fold(futures[thread.next], |future, location| future.with_store(self.test, location))
        };
        state.threads.iter().zip(&self.futures).map(future)
    }

    /// Returns the key of `state`. Each part's length follows from the parts before it, so that configurations which differ have different bytes.
    pub fn key(&self, state: &State) -> Key {
        let futures: Vec<Future> = self.futures(state).collect();
        let line = |location: usize| self.test.locations[location].line;
        let locations = self.test.locations.len();

        // For each thread and location the oldest store that a load may return.
        let floors: Vec<Vec<Stamp>> = std::iter::zip(&state.threads, &futures)
            .map(|(thread, future)| {
                let floor = |location: usize| {
                    if future.reads >> location & 1 == 0 {
                        return Stamp::MAX;
                    }
                    thread.coh[location].max(state.last_store(location, thread.vrn))
                };
                (0..locations).map(floor).collect()
            })
            .collect();
        let oldest: Vec<Stamp> = (0..locations)
            .map(|location| {
                let on_medium = state.last_store(location, state.vpc[line(location)]);
                floors.iter().map(|floors| floors[location]).fold(on_medium, Stamp::min)
            })
            .collect();
        let kept: Vec<(Stamp, usize, u64)> = state
            .stores()
            .filter(|&(stamp, message)| stamp >= oldest[message.location])
            .map(|(stamp, message)| (stamp, message.location, message.value))
            .collect();
        // Returns how many of a line's stores a view covers.
        let covered = |on: usize, view: Stamp| {
            kept.iter().filter(|&&(stamp, location, _)| line(location) == on && stamp <= view).count() as u8
        };

        let mut key: Vec<u8> = state.threads.iter().map(|thread| thread.next as u8).collect();
        key.extend(state.vpc.iter().enumerate().map(|(line, &complete)| covered(line, complete)));
        for ((thread, future), floors) in std::iter::zip(&state.threads, &futures).zip(&floors) {
            for register in members(future.registers) {
                push(&mut key, thread.registers[register]);
            }
            for location in members(future.reads) {
                key.push(covered(line(location), floors[location]));
            }
            for on in members(future.write_backs) {
                let coh =
                    (0..locations).filter(|&location| line(location) == on).map(|l| thread.coh[l]).max();
                key.push(covered(on, thread.vpr.max(coh.unwrap_or(0)).max(state.vpc[on])));
            }
            for on in members(future.cohmax) {
                key.push(covered(on, thread.cohmax()));
            }
            if future.fence {
                let asked = std::iter::zip(&thread.vpa, &state.vpc).enumerate();
                key.extend(asked.map(|(line, (&asked, &complete))| covered(line, asked.max(complete))));
            }
        }
        for thread in state.threads.iter().filter(|_| self.has_late) {
            key.push(thread.late.len() as u8);
            for late in &thread.late {
                key.push(late.message.location as u8);
                push(&mut key, late.message.value);
                key.push(u8::from(late.non_temporal) << 1 | u8::from(late.write_back));
            }
        }
        for on in 0..self.test.lines.len() {
            key.push(covered(on, Stamp::MAX));
            for &(stamp, location, value) in kept.iter().filter(|&&(_, location, _)| line(location) == on) {
                key.push(location as u8);
                push(&mut key, value);
                let readers =
                    std::iter::zip(&futures, &floors).filter(|(_, floors)| stamp > floors[location]);
                let asked_about = readers.fold(0, |lines, (future, _)| lines | future.lines());
                key.extend(members(asked_about & !(1 << on)).map(|other| covered(other, stamp)));
            }
        }
        key.into()
    }
}

/// Appends a value in as few bytes as its magnitude needs.
fn push(key: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(small) if small < u8::MAX => key.push(small),
        _ => {
            key.push(u8::MAX);
            key.extend(value.to_le_bytes());
        }
    }
}
