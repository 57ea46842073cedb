//! Right and wrong programs: the finding, its advice, and that the advice repairs the program.

use std::time::Duration;

use strandline_check::{
    BadReplay, Check, Crashed, Finding, FindingKind, Flush, Places, Pmem, Setting, Waste, check,
};

const DATA: u64 = 0;
const COMMIT: u64 = 64;

/// Returns a check whose invariant is that committed data is there.
fn committed<'a>(program: impl Fn(&Pmem) + 'a) -> Check<'a> {
    check(program).label("data", DATA).label("commit", COMMIT).invariant(|pmem, _| {
        match (pmem.load(COMMIT), pmem.load(DATA)) {
            (1, 0) => Err("commit without data".to_owned()),
            _ => Ok(()),
        }
    })
}

fn found(check: &Check<'_>) -> Finding {
    let finding = check.exhaustive().finding.expect("nothing was found");
    let again = check.replay(&finding.replay).unwrap().finding.expect("the replay shows nothing");
    assert_eq!((again.kind, &again.what, &again.history), (finding.kind, &finding.what, &finding.history));
    assert_eq!((&again.lost, &again.replay), (&finding.lost, &finding.replay));
    assert_eq!(again.places, finding.places);
    finding
}

/// Asserts that the advice is for `line` of this file and repairs the program. Returns whether it advises a flush, and a fence.
fn advised(finding: &Finding, line: u32) -> (bool, bool) {
    let advice = finding.advice.as_ref().expect("no advice");
    assert_eq!((advice.behind.file(), advice.behind.line()), (file!(), line), "{finding}");
    assert!(advice.repairs, "{finding}");
    (advice.flush, advice.fence)
}

/// The line of [`write_data`]'s first store.
const FIRST: u32 = line!() + 4;

/// Writes the data with or without the necessary flush and fence.
fn write_data(pmem: &Pmem, flush: bool, fence: bool) {
    pmem.store(DATA, 7);
    if flush {
        pmem.flush(DATA);
    }
    if fence {
        pmem.fence();
    }
    pmem.store(COMMIT, 1);
    pmem.persist(COMMIT, 8);
}

#[test]
fn a_missing_flush_a_missing_fence_and_both() {
    let both = found(&committed(|pmem| write_data(pmem, false, false)));
    assert_eq!((both.kind, advised(&both, FIRST)), (FindingKind::MissingFlush, (true, true)));
    let flush = found(&committed(|pmem| write_data(pmem, false, true)));
    assert_eq!((flush.kind, advised(&flush, FIRST)), (FindingKind::MissingFlush, (true, false)));
    let fence = found(&committed(|pmem| write_data(pmem, true, false)));
    assert_eq!((fence.kind, advised(&fence, FIRST + 2)), (FindingKind::MissingFence, (false, true)));
    assert_eq!(fence.lost, ["data: 0x0 survived, not 0x7"]);
    assert!(fence.recovery.is_empty(), "nothing recovers, {:?}", fence.recovery);
    committed(|pmem| write_data(pmem, true, true)).exhaustive().assert_clean();
}

#[test]
fn a_non_temporal_store_lacks_a_fence() {
    let line = line!() + 2;
    let finding = found(&committed(|pmem| {
        pmem.store_non_temporal(DATA, 7);
        pmem.store(COMMIT, 1);
    }));
    assert_eq!((finding.kind, advised(&finding, line)), (FindingKind::MissingFence, (false, true)));
}

#[test]
fn a_compare_exchange_is_a_fence() {
    let line = line!() + 2;
    let finding = found(&committed(|pmem| {
        pmem.store(DATA, 7);
        assert_eq!(pmem.compare_exchange(COMMIT, 0, 1), Ok(0));
        assert_eq!(pmem.compare_exchange(COMMIT, 0, 1), Err(1));
    }));
    assert_eq!((finding.kind, advised(&finding, line)), (FindingKind::MissingFlush, (true, false)));
    // The operation's own store is late, too: the flushed data is durable before it.
    for publish in [
        |pmem: &Pmem| assert_eq!(pmem.compare_exchange(COMMIT, 0, 1), Ok(0)),
        |pmem: &Pmem| assert_eq!(pmem.fetch_add(COMMIT, 1), 0),
    ] {
        let program = move |pmem: &Pmem| {
            pmem.store(DATA, 7);
            pmem.flush(DATA);
            publish(pmem);
        };
        committed(program).exhaustive().assert_clean();
    }
}

#[test]
fn a_wrong_order_of_what_is_made_durable_and_of_what_is_stored() {
    let line = line!() + 2;
    let late = found(&committed(|pmem| {
        pmem.store(DATA, 7);
        pmem.store(COMMIT, 1);
        pmem.flush(DATA);
        pmem.flush(COMMIT);
        pmem.fence();
    }));
    assert_eq!((late.kind, advised(&late, line)), (FindingKind::WrongOrder, (true, true)));
    let backwards = found(&committed(|pmem| {
        pmem.store(COMMIT, 1);
        pmem.persist(COMMIT, 8);
        pmem.store(DATA, 7);
        pmem.persist(DATA, 8);
    }));
    // No flush or fence repairs that, so none is advised.
    assert_eq!((backwards.kind, backwards.advice, backwards.lost.len()), (FindingKind::WrongOrder, None, 0));
}

#[test]
fn where_two_things_are_missing_the_advice_says_so() {
    let program = |pmem: &Pmem| {
        pmem.store(DATA, 7);
        pmem.store(DATA + 128, 8);
        pmem.store(COMMIT, 1);
    };
    let finding = check(program)
        .invariant(|pmem, _| match pmem.load(COMMIT) {
            1 if pmem.load(DATA) == 0 || pmem.load(DATA + 128) == 0 => Err("commit without data".into()),
            _ => Ok(()),
        })
        .exhaustive()
        .finding
        .unwrap();
    assert!(!finding.advice.as_ref().unwrap().repairs, "{finding}");
    assert!(finding.to_string().contains("something else is missing, too"), "{finding}");
}

#[test]
fn a_finding_names_its_lines() {
    let first = line!() + 2;
    let finding = found(&committed(|pmem| {
        pmem.store(DATA, 7);
        pmem.fence();
        pmem.store(COMMIT, 1);
        pmem.persist(COMMIT, 8);
    }));
    let Places { store, flush, crash, .. } = finding.places;
    let Some(Flush::MissingAfter(missing)) = flush else { panic!("{finding}") };
    let lines = [store, Some(missing), crash].map(|place| place.unwrap().line());
    assert_eq!(lines, [first, first, first + 3], "{finding}");
    let said = finding.story();
    for (what, line) in
        [("store:", first), ("flush: missing after", first), ("power fails: after", first + 3)]
    {
        assert!(said.contains(&format!("{what} {}:{line}\n", file!())), "{said}");
    }
    // The flush is there, but too late.
    let late = found(&committed(|pmem| {
        pmem.store(DATA, 7);
        pmem.store(COMMIT, 1);
        pmem.flush(DATA);
        pmem.flush(COMMIT);
        pmem.fence();
    }));
    assert!(matches!(late.places.flush, Some(Flush::At(_))), "{late}");
}

#[test]
fn what_is_wrong_without_a_power_failure_is_a_wrong_result() {
    let is_seven = |pmem: &Pmem, _: &Crashed| match pmem.load(DATA) {
        7 => Ok(()),
        data => Err(format!("data is {data}")),
    };
    let at_first = found(&check(|pmem| pmem.store(DATA, 7)).invariant(is_seven));
    assert_eq!(at_first.kind, FindingKind::WrongResult, "{at_first}");
    let store = |data| {
        move |pmem: &Pmem| {
            pmem.store(DATA, data);
            pmem.persist(DATA, 8);
        }
    };
    let in_the_end = found(&check(store(8)).set_up(|pmem| pmem.store(DATA, 7)).invariant(is_seven));
    assert_eq!(in_the_end.kind, FindingKind::WrongResult, "{in_the_end}");
    assert!(in_the_end.story().contains("remedy: correct the program"), "{in_the_end}");
}

#[test]
fn two_words_that_belong_together_are_not_atomic() {
    let finding = found(
        &check(|pmem| {
            for word in [DATA, COMMIT] {
                pmem.store(word, 1);
            }
            pmem.flush(DATA);
            pmem.flush(COMMIT);
            pmem.fence();
        })
        .invariant(|pmem, _| match (pmem.load(DATA), pmem.load(COMMIT)) {
            (data, commit) if data != commit => Err(format!("one is {data}, and the other {commit}")),
            _ => Ok(()),
        }),
    );
    // A flush between them makes no difference.
    assert_eq!((finding.kind, &finding.advice), (FindingKind::NotAtomic, &None), "{finding}");
}

/// Allocates by setting a bit, and then stores a link to the block.
fn allocated<'a>(order: [u64; 2], flushes: bool) -> Check<'a> {
    check(move |pmem| {
        for word in order {
            pmem.store(word, 1);
            if flushes {
                pmem.persist(word, 8);
            }
        }
        pmem.acknowledge(1);
    })
    .invariant(|pmem, crashed| match (pmem.load(DATA), pmem.load(COMMIT)) {
        (1, 0) => Err("leaked: nothing refers to the block".to_owned()),
        (0, 1) => Err("dangling: the block is free".to_owned()),
        (0, 0) if !crashed.acknowledged.is_empty() => Err("the block is lost".to_owned()),
        _ => Ok(()),
    })
}

#[test]
fn an_allocation_that_is_not_recovered_has_its_own_kind() {
    for order in [[DATA, COMMIT], [COMMIT, DATA]] {
        let finding = found(&allocated(order, true));
        assert_eq!(finding.kind, FindingKind::UnrecoveredAllocation, "{finding}");
    }
    // If recovery frees unreferenced blocks, only a flush is missing.
    let collects = |pmem: &Pmem| {
        if pmem.load(COMMIT) == 0 && pmem.load(DATA) == 1 {
            pmem.store(DATA, 0);
            pmem.persist(DATA, 8);
        }
    };
    allocated([DATA, COMMIT], true).recovery(collects).exhaustive().assert_clean();
    let finding = found(&allocated([DATA, COMMIT], false).recovery(collects));
    assert_eq!(finding.kind, FindingKind::MissingFlush, "{finding}");
}

#[test]
fn words_of_one_line_are_torn_apart_under_word_alone() {
    let program = |pmem: &Pmem| {
        pmem.store(8, 7);
        pmem.store(16, 1);
        pmem.persist(8, 16);
    };
    let check = check(program).invariant(|pmem, _| {
        if pmem.load(16) == 1 && pmem.load(8) == 0 { Err("half a record".to_owned()) } else { Ok(()) }
    });
    check.exhaustive().assert_clean();
    let finding = check.setting(Setting::Word).exhaustive().finding.unwrap();
    assert_eq!(finding.kind, FindingKind::TornValue);
}

#[test]
fn bytes_are_stored_where_they_belong() {
    check(|pmem| {
        pmem.store(8, u64::MAX);
        pmem.store_bytes(13, &[1, 2, 3, 4, 5]);
        assert_eq!((pmem.load(8), pmem.load(16)), (0x0302_01ff_ffff_ffff, 0x0504));
        let mut found = [0; 7];
        pmem.load_bytes(12, &mut found);
        assert_eq!(found, [0xff, 1, 2, 3, 4, 5, 0]);
    })
    .exhaustive()
    .assert_clean();
}

#[test]
fn a_store_outside_has_its_history() {
    let line = line!() + 3;
    let check = committed(|pmem| {
        pmem.store(DATA, 7);
        pmem.store(4096, 1);
    });
    let finding = found(&check);
    assert_eq!(finding.kind, FindingKind::StoreOutside);
    assert!(
        finding.what.contains("0x1000") && finding.what.contains(&format!("programs.rs:{line}")),
        "{finding}"
    );
    assert!(finding.history.iter().any(|told| told.contains("data = 0x7")), "{finding}");
    for wild in [|pmem: &Pmem| pmem.store(4, 1), |pmem: &Pmem| pmem.store(u64::MAX - 7, 1)] {
        assert_eq!(found(&committed(wild)).kind, FindingKind::StoreOutside);
    }
    assert_eq!(found(&committed(|pmem| assert_eq!(pmem.load(1 << 40), 0))).kind, FindingKind::StoreOutside);
}

#[test]
fn a_panic_has_its_history() {
    let finding = found(&committed(|pmem| {
        pmem.store(DATA, 7);
        assert_eq!(pmem.load(DATA), 8, "told");
    }));
    assert_eq!(finding.kind, FindingKind::Panic);
    assert!(finding.what.contains("told") && finding.what.contains("programs.rs"), "{finding}");
    assert!(finding.history.iter().any(|told| told.contains("data = 0x7")), "{finding}");
}

#[test]
fn a_thread_that_waits_or_runs_for_ever_is_stopped() {
    let waits = |pmem: &Pmem| {
        while pmem.load(DATA) == 0 {
            pmem.pause();
        }
    };
    let alone = found(&committed(waits));
    assert_eq!(alone.kind, FindingKind::Deadlock);
    assert!(alone.what.contains("thread 0 waits"), "{alone}");
    let together = found(&committed(waits).threads(2).preemptions(1));
    assert!(together.what.contains("the threads 0, 1 wait"), "{together}");
    // Another thread ends the wait.
    let waits = |pmem: &Pmem| {
        while pmem.load_acquire(DATA) == 0 {
            pmem.pause();
        }
    };
    let wakes = move |pmem: &Pmem| if pmem.thread() == 0 { waits(pmem) } else { pmem.store_release(DATA, 1) };
    committed(wakes).threads(2).exhaustive().assert_clean();
    let runs = found(&committed(|pmem| while pmem.load(DATA) == 0 {}));
    assert_eq!(runs.kind, FindingKind::Deadlock);
    assert!(runs.what.contains("runs for ever"), "{runs}");
}

/// Recovery may load settled words without notifying the checker, but not forever.
#[test]
fn a_recovery_that_loads_for_ever_is_stopped_and_a_long_one_is_not() {
    let in_order = |pmem: &Pmem| (0..512).map(|word| pmem.load(8 * word)).sum::<u64>();
    let endless: [&dyn Fn(&Pmem); 3] = [
        &|pmem| while pmem.load(4088) == 0 {},
        &|pmem| while pmem.load(8) + pmem.load(4088) == 0 {},
        &|pmem| while in_order(pmem) == 0 {},
    ];
    for recovery in endless {
        let finding = check(|_| ()).recovery(recovery).exhaustive().finding.unwrap();
        assert!(finding.what.contains("runs for ever"), "{finding}");
    }
    let back_and_forth = |pmem: &Pmem| {
        (0..1 << 18).for_each(|_| assert_eq!(pmem.load(0) + pmem.load((1 << 20) - 8), 0));
    };
    check(|_| ()).bytes(1 << 20).recovery(back_and_forth).exhaustive().assert_clean();
}

/// Adds the log's amount to a total, and empties the log.
fn add(pmem: &Pmem) {
    let (total, log) = (DATA, COMMIT);
    if pmem.load(log) != 0 {
        pmem.store(total, pmem.load(total) + pmem.load(log));
        pmem.persist(total, 8);
        pmem.store(log, 0);
        pmem.persist(log, 8);
    }
}

#[test]
fn recovery_that_must_not_run_twice_is_found() {
    let check = || {
        check(|_| ()).set_up(|pmem| pmem.store(COMMIT, 5)).recovery(add).invariant(|pmem, _| {
            match pmem.load(DATA) {
                5 => Ok(()),
                total => Err(format!("the total is {total}")),
            }
        })
    };
    check().crashes_in_recovery(0).exhaustive().assert_clean();
    let finding = found(&check().crashes_in_recovery(1));
    assert_eq!(finding.kind, FindingKind::SumRedone);
    assert!(finding.what.contains("the total is 10"), "{finding}");
    assert!(finding.history.iter().any(|told| told.contains("power fails")), "{finding}");
    assert!(finding.recovery.iter().any(|told| told.contains("[0x0] = 0xa")), "{finding}");
}

#[test]
fn power_fails_in_the_recovery_from_a_failure_in_recovery() {
    let check = || {
        let recovery = |pmem: &Pmem| {
            pmem.fetch_add(DATA, 1);
            pmem.persist(DATA, 8);
        };
        check(|_| ()).recovery(recovery).invariant(|pmem, _| match pmem.load(DATA) {
            1..=2 => Ok(()),
            runs => Err(format!("recovery ran {runs} times")),
        })
    };
    check().crashes_in_recovery(1).exhaustive().assert_clean();
    let finding = found(&check().crashes_in_recovery(2));
    assert_eq!(finding.kind, FindingKind::SumRedone);
    assert!(finding.what.contains("recovery ran 3 times"), "{finding}");
}

#[test]
fn recovery_that_panics_is_found() {
    let finding = found(&committed(|pmem| write_data(pmem, false, false)).recovery(|pmem| {
        assert!(pmem.load(COMMIT) == 0 || pmem.load(DATA) == 7, "recovery finds no data");
    }));
    assert_eq!((finding.kind, advised(&finding, FIRST)), (FindingKind::FailingRecovery, (true, true)));
    assert!(finding.what.contains("recovery finds no data"), "{finding}");
}

/// Each thread adds one to a word, durably.
fn count<'a>(locked: bool) -> Check<'a> {
    check(move |pmem| {
        if locked {
            pmem.lock(0);
        }
        let value = pmem.load(DATA);
        pmem.store(DATA, value + 1);
        pmem.persist(DATA, 8);
        pmem.acknowledge(pmem.thread() as u64 + 1);
        if locked {
            pmem.unlock(0);
        }
    })
    .label("counter", DATA)
    .threads(2)
    .invariant(|pmem, crashed| {
        let (value, done) = (pmem.load(DATA), crashed.acknowledged.len() as u64);
        if value < done { Err(format!("{done} were counted, {value} are left")) } else { Ok(()) }
    })
}

#[test]
fn a_race_shows_where_one_thread_interrupts_the_other() {
    // If the threads run in turn nothing is lost, although nothing orders them there either.
    let in_turn = count(false).preemptions(0).exhaustive();
    assert!(in_turn.finding.is_none() && in_turn.is_complete());
    assert_eq!(in_turn.races.len(), 2);
    let finding = found(&count(false).preemptions(1));
    assert_eq!(finding.kind, FindingKind::Race);
    assert_eq!(finding.what, "2 were counted, 1 are left");
    count(true).preemptions(2).exhaustive().assert_clean();
}

#[test]
fn a_sampled_history_shrinks_and_replays() {
    let check = count(false);
    let outcome = check.sampled(500);
    let finding = outcome.finding.expect("the race is not found");
    assert!(finding.seed.is_some());
    // The schedule names the first thread, and one or two switches.
    let schedule = finding.replay.split("schedule=").nth(1).unwrap().split(' ').next().unwrap();
    assert!(schedule.split(',').count() <= 3, "{finding}");
    let again = check.replay(&finding.replay).unwrap().finding.unwrap();
    assert_eq!((again.what, again.history), (finding.what.clone(), finding.history.clone()));
    // The seed alone must also lead to the fault.
    let seeded = count(false).seed(finding.seed.unwrap()).sampled(1);
    assert_eq!(seeded.finding.unwrap().what, finding.what);
}

/// Each thread sets its flag and then reads the other's. Only with store buffers neither sees the other's flag.
#[test]
fn store_buffers_are_sampled_and_replayed() {
    let dekker = |pmem: &Pmem| {
        let me = pmem.thread() as u64;
        pmem.store_volatile(me, 1);
        if pmem.load_volatile(1 - me) == 0 {
            pmem.store(64 * me, 1);
        }
    };
    let check = check(dekker).threads(2).invariant(|pmem, _| {
        if pmem.load(0) + pmem.load(64) == 2 { Err("both are inside".to_owned()) } else { Ok(()) }
    });
    check.exhaustive().assert_clean();
    let finding = check.sampled(400).finding.expect("store buffers are not sampled");
    assert!(finding.replay.contains("delays="), "{finding}");
    assert_eq!(check.replay(&finding.replay).unwrap().finding.unwrap().what, "both are inside");
}

#[test]
fn what_another_thread_has_stored_must_be_durable_before_it_is_acted_upon() {
    let line = line!() + 5;
    let program = |persists: bool| {
        move |pmem: &Pmem| {
            if pmem.thread() == 0 {
                pmem.store_release(DATA, 7);
            } else if pmem.load_acquire(DATA) == 7 {
                if persists {
                    pmem.persist(DATA, 8);
                }
                pmem.store(COMMIT, 1);
            }
        }
    };
    let finding = found(&committed(program(false)).threads(2));
    // A fence after the store would be too late.
    assert_eq!((finding.kind, advised(&finding, line)), (FindingKind::CrossFailureRace, (true, true)));
    committed(program(true)).threads(2).exhaustive().assert_clean();
}

#[test]
fn flushes_and_fences_for_nothing_are_told_apart() {
    let first = line!() + 2;
    let outcome = check(|pmem| {
        pmem.fence();
        pmem.flush(DATA);
        pmem.store(DATA, 1);
        pmem.step("again");
        pmem.flush(DATA);
        pmem.flush(DATA);
        pmem.fence();
        for i in 0..2 {
            pmem.store(COMMIT * i, 2);
            pmem.flush(COMMIT);
            pmem.fence();
        }
    })
    .exhaustive();
    outcome.assert_clean();
    let told: Vec<_> = outcome
        .performance
        .iter()
        .map(|one| (one.site.at.line() - first, one.waste, one.site.step, one.is_always()))
        .collect();
    assert_eq!(
        told,
        [
            (0, Waste::NothingPending, "", true),
            (1, Waste::Clean, "", true),
            (5, Waste::Redundant, "again", true),
            (9, Waste::Clean, "again", false),
        ]
    );
}

#[test]
fn a_program_without_waste_passes() {
    let outcome = committed(|pmem| write_data(pmem, true, true)).exhaustive();
    outcome.assert_nothing_wasted();
    assert!(outcome.performance.is_empty(), "{:?}", outcome.performance);
}

#[test]
#[should_panic(expected = "fence with nothing pending")]
fn waste_can_be_asserted() {
    check(|pmem| pmem.fence()).exhaustive().assert_nothing_wasted();
}

#[test]
#[should_panic(expected = "missing fence: commit without data")]
fn a_finding_fails_a_test() {
    committed(|pmem| write_data(pmem, true, false)).exhaustive().assert_clean();
}

#[test]
fn what_a_bound_leaves_out_is_said() {
    let check = count(false).preemptions(0).limit(Duration::ZERO);
    let outcome = check.exhaustive();
    assert!(outcome.finding.is_none() && !outcome.is_complete());
    assert!(std::panic::catch_unwind(|| outcome.assert_clean()).is_err());
}

#[test]
fn reports_use_labels_and_steps() {
    let finding = check(|pmem| {
        pmem.step("fill the table");
        pmem.store(DATA + 8, 3);
        pmem.flush(DATA + 8);
        pmem.store(COMMIT, 1);
    })
    .label_range("table", DATA, 64)
    .label("is full", COMMIT)
    .invariant(|pmem, _| match pmem.load(COMMIT) {
        1 if pmem.load(DATA + 8) == 0 => Err("not full".to_owned()),
        _ => Ok(()),
    })
    .exhaustive()
    .finding
    .unwrap();
    assert_eq!(finding.lost, ["table+0x8: 0x0 survived, not 0x3"]);
    let told = finding.to_string();
    assert!(told.contains("is full = 0x1") && told.contains("\"fill the table\""), "{told}");
    assert!(told.ends_with(&format!("replay: .replay({:?})", finding.replay)), "{told}");
}

#[test]
fn lines_of_other_checks_are_refused() {
    let check = committed(|_| ());
    assert_eq!(check.replay("x").unwrap_err(), BadReplay::Malformed("x".to_owned()));
    let threads = check.replay("line 3 schedule=0:0").unwrap_err();
    assert_eq!(threads, BadReplay::Threads { found: 3, threads: 1 });
    assert!(threads.to_string().contains("threads(3)"));
    // The program has been repaired.
    assert!(check.replay("line 1 schedule=0:0 crash=2 0x0=0x0@0").unwrap().finding.is_none());
}
