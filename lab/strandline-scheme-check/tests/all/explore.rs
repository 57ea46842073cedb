//! Bounded runs of the crash checker; `strandline-lab check` is the long run.

use super::{HANG, campaigns, deferred, wrap};
use strandline_check::x86::{Options, check};
use strandline_check::{Session, Setting};
use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Step, VolatileAddress};
use strandline_scheme_check::explore::{
    Bounds, Case, CheckedScheme, Outcome, Sampling, Workload, exhaust, sample, schemes,
};

/// Returns the scheme that applications use, on the product's path.
fn product() -> CheckedScheme {
    schemes().into_iter().find(|scheme| scheme.name == "strandline").unwrap()
}

fn none_violated(case: Case, outcome: &Outcome) {
    println!(
        "{} {} {} {} threads: {:?}, {:.0} states/s",
        case.scheme.name,
        case.workload.name(),
        case.setting,
        case.threads,
        outcome.counts,
        outcome.states_per_second()
    );
    if let Some(violation) = &outcome.violation {
        panic!("{} (seed {}): {violation:#?}", violation.what, outcome.seed);
    }
}

fn bounds(preemptions: u32, transactions: u32, recovery_crashes: usize) -> Bounds {
    Bounds { preemptions, transactions, states: 1 << 20, recovery_crashes, reduced: true, limit: HANG }
}

fn exhausted(workload: Workload, setting: Setting, bounds: Bounds) -> Outcome {
    let case = Case { scheme: product(), workload, threads: 2, setting, omitted: None };
    let outcome = exhaust(case, bounds, &Session::new(), |_| ()).unwrap();
    none_violated(case, &outcome);
    assert_eq!(outcome.counts.cut_short, 0, "not exhausted within the bounds");
    outcome
}

/// Two threads run two conflicting swaps each, under every schedule with at most two preemptions.
#[test]
fn swaps_exhaustively() {
    exhausted(Workload::Sps, Setting::Line, bounds(2, 2, 0));
    exhausted(Workload::Sps, Setting::Word, bounds(2, 2, 0));
    exhausted(Workload::Sps, Setting::FlushOnFail, bounds(1, 2, 0));
}

/// The transactions insert, delete, and give up another insertion. `strandline-lab check` also explores the setting `word`, which takes some minutes.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn hash_table_exhaustively() {
    exhausted(Workload::Hash, Setting::Line, bounds(2, 2, 0));
}

/// Power fails everywhere in recovery, and in the recovery after that.
#[test]
fn crashes_in_recovery_exhaustively() {
    for (setting, transactions, crashes) in
        [(Setting::Line, 2, 1), (Setting::Line, 1, 2), (Setting::Word, 1, 1)]
    {
        let counts = exhausted(Workload::Sps, setting, bounds(0, transactions, crashes)).counts;
        assert!(counts.recovery_points > 50 && counts.nested > 1000, "{counts:?}");
    }
}

/// Cutting schedules off at known states loses no crash: the same crash points and states are found.
#[test]
fn the_reduction_loses_nothing() {
    for workload in [Workload::Sps, Workload::Hash] {
        let reduced = exhausted(workload, Setting::Line, bounds(1, 2, 0)).counts;
        let all = exhausted(workload, Setting::Line, Bounds { reduced: false, ..bounds(1, 2, 0) }).counts;
        assert_eq!((reduced.points, reduced.states), (all.points, all.states));
        assert!(reduced.equal_points < all.equal_points);
    }
}

/// The seed of a violation reproduces it in one history.
#[test]
fn a_violation_is_replayed_by_its_seed() {
    let omitted = Some(Step::BulkDataFenceLate);
    let case =
        Case { scheme: product(), workload: Workload::Sps, threads: 2, setting: Setting::Word, omitted };
    let limit = HANG;
    let found = sample(
        case,
        Sampling { histories: u64::MAX, seed: 9, transactions: 24, limit },
        &Session::new(),
        |_| (),
    )
    .unwrap();
    let again = Sampling { histories: 1, seed: found.seed, transactions: found.transactions, limit };
    let again = sample(case, again, &Session::new(), |_| ()).unwrap();
    let what = |outcome: &Outcome| outcome.violation.as_ref().map(|violation| violation.what.clone());
    assert!(what(&found).is_some());
    assert_eq!(what(&found), what(&again));
}

/// Schemes of `deferred` and `wrap` have longer campaigns there.
#[test]
fn no_sampled_crash_breaks_a_scheme() {
    let own = [deferred::schemes(), wrap::schemes()].concat();
    let others = campaigns::schemes(|name| own.iter().all(|scheme| scheme.name != name));
    campaigns::none_is_broken(&others, &Setting::ALL, 1);
}

/// Every omitted step is found, except for one that takes some seconds (`strandline-lab check --mutants`).
#[test]
fn missing_steps_are_found() {
    campaigns::missing_steps_are_found(&[product()], 2, &[Step::RestartPhaseEarly]);
}

const DATA: PersistentAddress = PersistentAddress::new(0);
const COMMIT: PersistentAddress = PersistentAddress::new(64);

fn commit_without_data(threads: usize, program: impl Fn(usize, &Hosted)) -> bool {
    let options = Options { threads, histories: 200, ..Options::default() };
    let judge = |memory: &Hosted, _: &_| {
        let found = memory.load(COMMIT) == 1 && memory.load(DATA) == 0;
        if found { Err("commit without data".to_owned()) } else { Ok(()) }
    };
    check(&options, program, judge).is_err()
}

/// The examples of x86 persistency that a sequentially consistent execution can show.
#[test]
fn litmus() {
    let step = Step::CommitFence;
    assert!(commit_without_data(1, |_, m| {
        m.store(DATA, 1);
        m.store(COMMIT, 1);
    }));
    assert!(commit_without_data(1, |_, m| {
        m.store(DATA, 1);
        m.write_back(DATA, step);
        m.store(COMMIT, 1);
    }));
    assert!(commit_without_data(1, |_, m| {
        m.store(DATA, 1);
        m.fence(step);
        m.store(COMMIT, 1);
    }));
    assert!(!commit_without_data(1, |_, m| {
        m.store(DATA, 1);
        m.write_back(DATA, step);
        m.fence(step);
        m.store(COMMIT, 1);
    }));
    assert!(!commit_without_data(1, |_, m| {
        m.store_non_temporal(DATA, 1);
        m.fence(step);
        m.store(COMMIT, 1);
    }));
    // An atomic operation completes write-backs, too.
    assert!(!commit_without_data(1, |_, m| {
        m.store(DATA, 1);
        m.write_back(DATA, step);
        m.fetch_add(VolatileAddress::new(0), 1);
        m.store(COMMIT, 1);
    }));
    for fence in [true, false] {
        let allowed = commit_without_data(2, |thread, m| {
            if thread == 0 {
                m.store(DATA, 1);
                m.event(Event::Begin);
            } else {
                m.event(Event::Begin);
                if m.load(DATA) == 1 {
                    m.write_back(DATA, step);
                    if fence {
                        m.fence(step);
                    }
                    m.store(COMMIT, 1);
                }
            }
        });
        assert_eq!(allowed, !fence, "commit2 with fence: {fence}");
    }
    // A write-back covers another thread's stores if any word orders it after them.
    let flag = VolatileAddress::new(0);
    assert!(!commit_without_data(2, |thread, m| {
        if thread == 0 {
            m.store(DATA, 1);
            m.store(flag, 1);
        } else if m.load(flag) == 1 {
            m.write_back(DATA, step);
            m.fence(step);
            m.store(COMMIT, 1);
        }
    }));
}

/// Words of one line persist in order under `line`, and in any order under `word`.
#[test]
fn settings_differ_within_a_line() {
    let other = DATA.word(1);
    for (setting, allowed) in [(Setting::Line, false), (Setting::Word, true)] {
        let options = Options { setting, ..Options::default() };
        let program = |_, m: &Hosted| {
            m.store(DATA, 1);
            m.store(other, 1);
        };
        let judge = |m: &Hosted, _: &_| {
            if m.load(other) == 1 && m.load(DATA) == 0 { Err("reordered".to_owned()) } else { Ok(()) }
        };
        assert_eq!(check(&options, program, judge).is_err(), allowed, "{setting}");
    }
}

#[test]
fn a_lock_is_not_released_over_an_unfenced_non_temporal_store() {
    let lock = VolatileAddress::new(0);
    for fenced in [false, true] {
        let program = |_, m: &Hosted| {
            m.lock(lock);
            m.store_non_temporal(DATA, 1);
            if fenced {
                m.fence(Step::CommitFence);
            }
            m.unlock(lock);
        };
        assert_eq!(check(&Options::default(), program, |_, _| Ok(())).is_ok(), fenced);
    }
}

/// Dekker's handshake: only with store buffers do both threads miss the other's store.
#[test]
fn store_buffers_are_sampled() {
    let want = [VolatileAddress::new(0), VolatileAddress::new(64)];
    let inside = [DATA, COMMIT];
    for fenced in [false, true] {
        let options = Options { threads: 2, histories: 400, ..Options::default() };
        let program = |thread: usize, m: &Hosted| {
            m.store(want[thread], 1);
            if fenced {
                m.fetch_add(want[thread].word(1), 1);
            }
            if m.load(want[1 - thread]) == 0 {
                m.store(inside[thread], 1);
            }
        };
        let judge = |m: &Hosted, _: &_| {
            let both = inside.iter().all(|&at| m.load(at) == 1);
            if both { Err("both are inside".to_owned()) } else { Ok(()) }
        };
        assert_eq!(check(&options, program, judge).is_ok(), fenced);
    }
}

/// A refusal names the store's source line, and the missing write-back and fence.
#[test]
fn a_refusal_names_the_missing_write_back() {
    let line = line!() + 2;
    let program = |_, m: &Hosted| {
        m.store(DATA, 1);
        m.store(COMMIT, 1);
    };
    let judge = |m: &Hosted, _: &_| {
        if m.load(COMMIT) == 1 && m.load(DATA) == 0 { Err("commit without data".to_owned()) } else { Ok(()) }
    };
    let refused = check(&Options::default(), program, judge).unwrap_err();
    let (data, commit) =
        (format!("tests/all/explore.rs:{line})"), format!("tests/all/explore.rs:{})", line + 1));
    assert!(refused.history.iter().any(|told| told.contains(&data)), "{refused}");
    assert!(refused.missing.contains("[0x0]") && refused.missing.contains(&data), "{refused}");
    assert!(refused.missing.contains("before thread 0 stores to [0x40]"), "{refused}");
    assert!(refused.missing.contains(&commit), "{refused}");
}
