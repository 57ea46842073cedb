//! A run whose writes are recorded. A power failure before each flush leaves one of the possible states.
#![cfg(target_os = "linux")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::disk::{self, Disk, Event, Survives};
use support::model::{check, work};
use support::open;

/// Number of steps of the run. Each appends, and some do more.
const STEPS: u64 = 150;

/// Returns a folder for many files that are read once.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn what_was_reported_as_durable_survives_a_power_failure() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    disk::record(folder.path());
    let (log, machine) = open(&folder.path().join("node.db"));
    runtime.block_on(work(log, machine, STEPS, disk::said));
    let events = disk::recorded();
    let flushes = cuts(&events).len() - 1;
    let said = |kind: &str| {
        events.iter().filter(|event| matches!(event, Event::Said { what, .. } if *what == kind)).count()
    };
    let said = ["log", "vote", "applied", "snapshot"].map(said);
    assert!(flushes as u64 >= STEPS && said.iter().all(|count| *count > 0), "too little was tried: {said:?}");

    let states = explore(&Arc::new(events.clone())).expect("every state is as it must be");
    println!("{flushes} flushes, {states} states");
    assert!(states > flushes + 1, "nothing was ever on its way to the disk");

    // A report that comes before the flush on which it relies.
    for kind in ["log", "vote", "snapshot"] {
        let found = explore(&Arc::new(reported_early(&events, kind)));
        assert!(found.is_err(), "it goes unnoticed that a {kind} is reported too early");
    }
}

/// Returns the same run, but with each report of this kind before the first of the flushes since the previous report. The report relies on one of
/// these flushes. It need not be the last one, since others flush what was left to them.
fn reported_early(events: &[Event], kind: &str) -> Vec<Event> {
    let mut events = events.to_vec();
    for at in 0..events.len() {
        if matches!(&events[at], Event::Said { what, .. } if *what == kind)
            && let Some(last) = events[..at].iter().rposition(disk::makes_durable)
        {
            let before = events[..last].iter().rposition(|event| matches!(event, Event::Said { .. }));
            let first =
                (before.unwrap_or(0)..last).find(|at| disk::makes_durable(&events[*at])).unwrap_or(last);
            events[first..=at].rotate_right(1);
        }
    }
    events
}

/// Returns the places before each flush, and the end.
fn cuts(events: &[Event]) -> Vec<usize> {
    let flushes = (0..events.len()).filter(|event| disk::makes_durable(&events[*event]));
    flushes.chain([events.len()]).collect()
}

/// Cuts the power before each flush, and checks the states that may be left. Returns the number of states.
///
/// # Errors
/// Returns an error if a state is wrong.
fn explore(events: &Arc<Vec<Event>>) -> std::thread::Result<usize> {
    // Each thread goes through the whole run, and cuts at its share of the places.
    let states = Arc::new(AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = |thread: usize| {
        let (events, cuts, states) = (events.clone(), cuts(events), states.clone());
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut random = fastrand::Rng::with_seed(thread as u64);
            let mut disk = Disk::default();
            let mut number = 0;
            for at in 0..=events.len() {
                if let Some(event) = events.get(at) {
                    disk.begin(event);
                }
                if cuts.get(number) == Some(&at) {
                    number += 1;
                    let kinds: &[Survives] = match disk.is_settled() {
                        true => &[Survives::Flushed],
                        false => &[Survives::Flushed, Survives::Everything, Survives::Some],
                    };
                    if number % threads == thread {
                        for survives in kinds {
                            let folder = in_memory();
                            disk.leave(*survives, &mut random, folder.path());
                            println!("cut at event {at} of {}, {survives:?}: {:?}", events.len(), disk.said);
                            runtime.block_on(check(&folder.path().join("node.db"), &disk.said));
                            states.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                if let Some(event) = events.get(at) {
                    disk.end(event);
                }
            }
        }
    };
    let running: Vec<_> = (0..threads).map(|thread| std::thread::spawn(share(thread))).collect();
    running.into_iter().try_for_each(std::thread::JoinHandle::join)?;
    Ok(states.load(Ordering::Relaxed))
}
