//! How states are distributed over crash points, and how reports mention the states that are left out.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use strandline_check::{Check, FindingKind, Session, Verdict, check};

const FLAG: u64 = 0;
const LATE: u64 = 64;
const MANY: u64 = 128;

/// Returns the sum of `lines` words, each on a line of its own, so that each state is distinguishable.
fn sum(pmem: &strandline_check::Pmem<'_>, lines: u64) -> u64 {
    (0..lines).map(|line| pmem.load(MANY + 64 * line)).sum()
}

/// Returns a check whose crash points have at least 2⁴⁰ states each. Unless `is_flushed`, its last crash points have a wrong state: the flag
/// survives without the late value.
fn with_a_late_bug<'a>(is_flushed: bool) -> Check<'a> {
    check(move |pmem| {
        (0..40).for_each(|line| pmem.store(MANY + 64 * line, 1));
        for number in 1..20 {
            pmem.store(LATE, number);
            if is_flushed || number < 19 {
                pmem.persist(LATE, 8);
            }
            pmem.store(FLAG, number);
            pmem.persist(FLAG, 8);
        }
    })
    .bytes(4096)
    .invariant(|pmem, _| {
        let (flag, late) = (pmem.load(FLAG), pmem.load(LATE));
        // All states of the many lines are right.
        if sum(pmem, 40) <= 40 && flag <= late { Ok(()) } else { Err(format!("{flag} without it: {late}")) }
    })
}

#[test]
fn a_late_point_is_visited_before_an_early_one_is_explored() {
    let outcome = with_a_late_bug(false).exhaustive();
    let finding = outcome.finding.as_ref().expect("the late bug");
    assert_eq!(finding.kind, FindingKind::MissingFlush);
    assert_eq!(outcome.verdict(), Verdict::Found);
    assert!(outcome.counts.states < 100_000, "{:?}", outcome.counts);
}

#[test]
fn a_bound_of_states_is_told() {
    let outcome = with_a_late_bug(true).states(2000).exhaustive();
    let counts = outcome.counts;
    assert!(outcome.finding.is_none() && !outcome.is_complete());
    assert_eq!(outcome.verdict(), Verdict::NothingFound, "{counts:?}");
    assert_eq!((counts.unvisited, counts.not_run), (0, 0));
    assert!(counts.cut_short > 10 && counts.states > 1000 * counts.cut_short, "{counts:?}");
    assert!(counts.possible > 1 << 40, "{counts:?}");
    let told = outcome.to_string();
    assert!(told.contains("of them with states left") && told.ends_with("nothing found"), "{told}");
    assert!(told.contains("78 stores, 38 flushes, 38 fences, 0 acknowledgements"), "{told}");
}

#[test]
fn every_state_counts_once_though_rounds_go_over_them_again() {
    for lines in [3, 9, 11, 13] {
        let program = check(|pmem| (0..lines).for_each(|line| pmem.store(MANY + 64 * line, 1)))
            .invariant(|pmem, _| if sum(pmem, lines) <= lines { Ok(()) } else { Err("more".into()) });
        let outcome = program.exhaustive();
        outcome.assert_clean();
        assert_eq!(outcome.counts.states, 1 << lines, "{lines} lines: {:?}", outcome.counts);
    }
}

/// Forty lines may be lost, but the invariant reads only two: four states are distinguished, and a bug in one of the two lines is found.
#[test]
fn states_that_differ_in_lines_that_are_not_read_are_one() {
    let program = |wrong: u64| {
        check(|pmem| (0..40).for_each(|line| pmem.store(MANY + 64 * line, 1))).invariant(move |pmem, _| {
            let read = (pmem.load(MANY), pmem.load(MANY + 64 * 39));
            if read == (1, wrong) { Err("the first line survives alone".into()) } else { Ok(()) }
        })
    };
    let outcome = program(7).exhaustive();
    outcome.assert_clean();
    let counts = outcome.counts;
    assert_eq!((counts.states, counts.equal_states), (4, (1 << 40) - 4), "{counts:?}");
    assert_eq!(counts.possible, 1 << 40);
    assert!(outcome.to_string().contains("states: 4 judged, 1099511627772 left out as equal;"), "{outcome}");
    let finding = program(0).exhaustive().finding.expect("the line that is read");
    assert_eq!(finding.lost.len(), 1, "{finding}");
    // With more lines the count saturates.
    let many = check(|pmem| (0..80).for_each(|line| pmem.store(64 * line, 1)))
        .bytes(8192)
        .invariant(|pmem, _| if pmem.load(0) < 2 { Ok(()) } else { Err("more".into()) });
    assert_eq!(many.exhaustive().counts.equal_states, u64::MAX);
}

/// At points that are explored in several rounds, the equal states are those that the final search leaves out.
#[test]
fn equal_states_of_points_with_many_states_are_counted_once() {
    for read in [9, 12] {
        let program = check(|pmem| (0..20).for_each(|line| pmem.store(MANY + 64 * line, 1)))
            .invariant(|pmem, _| if sum(pmem, read) <= read { Ok(()) } else { Err("more".into()) });
        let outcome = program.exhaustive();
        outcome.assert_clean();
        let counts = outcome.counts;
        assert_eq!((counts.states, counts.equal_states), (1 << read, (1 << 20) - (1 << read)), "{counts:?}");
    }
}

#[test]
fn crashes_in_recovery_with_many_states_are_searched_to_their_end() {
    for lines in [5, 11, 12] {
        let program = check(|pmem| pmem.store(FLAG, 1))
            .recovery(|pmem| {
                if pmem.load(FLAG) == 1 && sum(pmem, lines) <= lines {
                    (0..lines).for_each(|line| pmem.store(MANY + 64 * line, 1));
                }
            })
            .invariant(|pmem, _| if sum(pmem, lines) <= lines { Ok(()) } else { Err("more".into()) });
        let outcome = program.exhaustive();
        outcome.assert_clean();
        let counts = outcome.counts;
        // The first two states are those of the flag. The others follow a recovery that has stored all the lines, some of them or none.
        assert_eq!(
            (counts.states - counts.nested, counts.nested),
            (2, 1 + (1 << lines)),
            "{lines} lines: {counts:?}"
        );
    }
}

#[test]
fn a_session_hears_and_stops() {
    static HEARD: AtomicU64 = AtomicU64::new(0);
    let session = Session::new().on_progress(|counts| {
        HEARD.fetch_max(counts.points, Relaxed);
    });
    let program = with_a_late_bug(true).states(100).session(&session);
    assert_eq!(program.exhaustive().verdict(), Verdict::NothingFound);
    assert!(HEARD.load(Relaxed) > 10);
    session.stop();
    let outcome = program.exhaustive();
    assert_eq!(outcome.verdict().to_string(), "nothing found in at most 0% of the crash points");
    assert_eq!((outcome.counts.points, outcome.counts.not_run), (0, 1), "{:?}", outcome.counts);
}

#[test]
fn points_that_time_does_not_suffice_for_are_told() {
    // The invariant, which is called at each point, stops the session in the middle of its one run.
    let session = Session::new();
    let program = with_a_late_bug(true).session(&session).states(10).invariant(|pmem, _| {
        if pmem.load(FLAG) > 5 {
            session.stop();
        }
        Ok(())
    });
    let outcome = program.exhaustive();
    let Verdict::Unfinished { percent, at_most } = outcome.verdict() else { panic!("{outcome}") };
    assert!(percent > 10.0 && percent < 90.0 && !at_most, "{outcome}");
    assert!(outcome.counts.unvisited > 0 && outcome.to_string().contains("nothing found in "), "{outcome}");
}

#[test]
fn a_limit_of_no_time_finds_nothing_and_says_so() {
    let outcome = with_a_late_bug(false).limit(Duration::ZERO).exhaustive();
    assert!(matches!(outcome.verdict(), Verdict::Unfinished { .. }), "{outcome}");
    let sampled = with_a_late_bug(false).limit(Duration::ZERO).sampled(5);
    assert!(matches!(sampled.verdict(), Verdict::Unfinished { .. }), "{sampled}");
}

#[test]
fn what_the_invariant_does_not_notice_is_told() {
    const A: u64 = 0;
    const B: u64 = 64;
    let program = || {
        check(|pmem| {
            pmem.store(A, 1);
            pmem.store(B, 2);
            pmem.persist(A, 72);
            pmem.acknowledge(1);
        })
        .label("a", A)
        .label_range("b", B, 16)
    };
    let blind = program().invariant(|_, _| Ok(())).exhaustive();
    assert_eq!(
        blind.notes,
        [
            "the invariant accepts what there was before the program, which has acknowledged 1 operations",
            "the invariant does not notice that words are spoiled (2 of 2 tried): a, b"
        ]
    );
    let half = program().invariant(|pmem, crashed| {
        if crashed.acknowledged.is_empty() || pmem.load(A) == 1 { Ok(()) } else { Err("a".into()) }
    });
    assert_eq!(
        half.exhaustive().notes,
        ["the invariant does not notice that words are spoiled (1 of 2 tried): b"]
    );
    let sees = program().invariant(|pmem, crashed| {
        let right = (pmem.load(A), pmem.load(B)) == (1, 2);
        if crashed.acknowledged.is_empty() || right { Ok(()) } else { Err("a or b".into()) }
    });
    assert!(sees.exhaustive().notes.is_empty());
}
