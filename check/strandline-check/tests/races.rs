//! Data races on persistent words: which accesses race, which do not, and that a race hides no finding.

use strandline_check::{Check, DataRace, FindingKind, Pmem, check};

const VALUE: u64 = 0;
const IS_READY: u64 = 64;

/// Returns the races of a program of two threads whose crashes are all right.
fn races(check: &Check<'_>) -> Vec<DataRace> {
    let outcome = check.exhaustive();
    assert!(outcome.finding.is_none() && outcome.is_complete(), "{:?}", outcome.finding);
    outcome.races
}

fn two<'a>(program: impl Fn(&Pmem) + 'a) -> Check<'a> {
    check(program).threads(2).label("value", VALUE).label("is ready", IS_READY)
}

/// Returns the lines of a race, the lesser first, and whether each stores.
fn lines(race: &DataRace) -> [(u32, bool); 2] {
    let mut lines = [race.first, race.second].map(|access| (access.site.at.line(), access.is_store));
    lines.sort_unstable();
    lines
}

#[test]
fn a_counter_without_a_lock_races() {
    let line = line!() + 2;
    let check = two(|pmem| {
        let value = pmem.load(VALUE);
        pmem.store(VALUE, value + 1);
    });
    let found = races(&check);
    let told: Vec<_> = found.iter().map(lines).collect();
    assert_eq!(told, [[(line, false), (line + 1, true)], [(line + 1, true), (line + 1, true)]]);
    for race in &found {
        assert_eq!((race.word.as_str(), race.at), ("value", VALUE));
        assert_ne!(race.first.thread, race.second.thread);
        // The replay line shows the race again.
        let again = check.replay(&race.replay).unwrap();
        assert!(again.finding.is_none());
        assert!(again.races.iter().any(|again| lines(again) == lines(race)), "{race}");
    }
    let text = found[0].to_string();
    assert!(text.contains("data race on value") && text.contains(&format!("races.rs:{line}")), "{text}");
    // A race makes `assert_clean` panic.
    let outcome = check.exhaustive();
    assert!(std::panic::catch_unwind(|| outcome.assert_clean()).is_err());
    // Sampling finds the race, too.
    assert_eq!(two(|pmem| pmem.store(VALUE, pmem.thread() as u64)).sampled(20).races.len(), 1);
}

#[test]
fn a_lock_orders() {
    let counts = |pmem: &Pmem| {
        pmem.lock(0);
        let value = pmem.load(VALUE);
        pmem.store(VALUE, value + 1);
        pmem.unlock(0);
    };
    two(counts).exhaustive().assert_clean();
    // Different locks do not order them.
    let line = line!() + 3;
    let found = races(&two(|pmem| {
        pmem.lock(pmem.thread() as u64);
        pmem.store(VALUE, 1);
        pmem.unlock(pmem.thread() as u64);
    }));
    assert_eq!(found.iter().map(lines).collect::<Vec<_>>(), [[(line, true), (line, true)]]);
}

#[test]
fn an_atomic_addition_orders() {
    two(|pmem| assert!(pmem.fetch_add(VALUE, 1) < 2)).exhaustive().assert_clean();
    // A plain load does not order them.
    let line = line!() + 2;
    let found = races(&two(|pmem| match pmem.thread() {
        0 => assert_eq!(pmem.fetch_add(VALUE, 1), 0),
        _ => assert!(pmem.load(VALUE) < 2),
    }));
    assert_eq!(found.iter().map(lines).collect::<Vec<_>>(), [[(line, true), (line + 1, false)]]);
    assert!(found[0].first.is_atomic != found[0].second.is_atomic);
}

/// Publishes a value; a reader waits for it.
fn publish(pmem: &Pmem, releases: bool, acquires: bool) {
    if pmem.thread() == 0 {
        pmem.store(VALUE, 42);
        if releases { pmem.store_release(IS_READY, 1) } else { pmem.store(IS_READY, 1) }
    } else {
        let is_ready = || if acquires { pmem.load_acquire(IS_READY) } else { pmem.load(IS_READY) };
        while is_ready() == 0 {
            pmem.pause();
        }
        assert_eq!(pmem.load(VALUE), 42);
    }
}

#[test]
fn publication_releases_and_acquires() {
    two(|pmem| publish(pmem, true, true)).exhaustive().assert_clean();
    for (releases, acquires) in [(false, false), (false, true), (true, false)] {
        let found = races(&two(|pmem| publish(pmem, releases, acquires)));
        let mut words: Vec<&str> = found.iter().map(|race| race.word.as_str()).collect();
        words.sort_unstable();
        assert_eq!(words, ["is ready", "value"], "{releases} {acquires}");
    }
}

#[test]
fn a_load_without_the_lock_races() {
    let first = line!() + 4;
    let found = races(&two(|pmem| {
        if pmem.thread() == 0 {
            pmem.lock(0);
            pmem.store(VALUE, 1);
            pmem.unlock(0);
        } else {
            pmem.load(VALUE);
        }
    }));
    assert_eq!(found.iter().map(lines).collect::<Vec<_>>(), [[(first, true), (first + 3, false)]]);
    // Two loads do not race.
    two(|pmem| assert_eq!(pmem.load(VALUE), 0)).exhaustive().assert_clean();
}

#[test]
fn volatile_words_order() {
    two(|pmem| {
        if pmem.thread() == 0 {
            pmem.store(VALUE, 1);
            pmem.store_volatile(3, 1);
        } else if pmem.load_volatile(3) == 1 {
            pmem.store(VALUE, 2);
        }
    })
    .exhaustive()
    .assert_clean();
}

/// The second thread reads the value only if it comes second. If the threads run in turn, its lock orders both accesses; only in other schedules
/// nothing does.
#[test]
fn a_race_of_one_schedule_alone_is_found() {
    let program = |pmem: &Pmem| {
        if pmem.thread() == 0 {
            pmem.store_volatile(1, 1);
            pmem.store(VALUE, 1);
            pmem.store_volatile(2, 1);
        } else if pmem.load_volatile(1) == 1 && pmem.load_volatile(2) == 0 {
            pmem.store(VALUE, 2);
        }
    };
    assert_eq!(races(&two(program).preemptions(0)), []);
    assert_eq!(races(&two(program).preemptions(1)).len(), 1);
}

#[test]
fn every_word_of_bytes_is_looked_at() {
    let found = races(&two(|pmem| {
        if pmem.thread() == 0 {
            pmem.store_bytes(VALUE, &[1; 24]);
        } else {
            pmem.store(VALUE + 16, 7);
        }
    }));
    assert_eq!((found.len(), found[0].at), (1, VALUE + 16));
    let found = races(&two(|pmem| {
        if pmem.thread() == 0 {
            pmem.load_bytes(VALUE, &mut [0; 24]);
        } else {
            pmem.store(VALUE + 16, 7);
        }
    }));
    assert_eq!((found.len(), found[0].at), (1, VALUE + 16));
}

/// The state that the invariant refuses is the finding, and the race that causes it is reported, too.
#[test]
fn a_race_hides_no_finding() {
    let outcome = two(|pmem| {
        let value = pmem.load(VALUE);
        pmem.store(VALUE, value + 1);
        pmem.persist(VALUE, 8);
        pmem.acknowledge(pmem.thread() as u64);
    })
    .invariant(|pmem, crashed| {
        let lost = pmem.load(VALUE) < crashed.acknowledged.len() as u64;
        if lost { Err("a count is lost".to_owned()) } else { Ok(()) }
    })
    .exhaustive();
    assert_eq!(outcome.finding.unwrap().kind, FindingKind::Race);
    assert!(!outcome.races.is_empty());
}

#[test]
fn one_thread_and_what_comes_before_do_not_race() {
    let outcome = check(|pmem| pmem.store(VALUE, pmem.load(VALUE) + 1)).exhaustive();
    outcome.assert_clean();
    // Set-up and recovery run without other threads.
    let both = two(|pmem| assert_eq!(pmem.load(VALUE), 5))
        .set_up(|pmem| pmem.store(VALUE, 5))
        .recovery(|pmem| pmem.store_release(VALUE, 6));
    both.exhaustive().assert_clean();
}
