//! Power failures at random points of recorded runs: what was not fenced is dropped at random, word by word;
//! recovery runs, and may fail itself; then the oracle judges. A killed process keeps its caches, so only
//! this sees a missing write-back.

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;

use strandline::memory::{Hosted, Operation, Step, hosted};
use strandline::scheme::{Blurred, recover};
use strandline::transaction::Worker;
use strandline::{Abort, Concurrency, Runner, Transaction};
use support::crash::{History, Survival, crash, judge};
use support::{SMALL, TestPool};

const WORDS: u64 = 20;

/// The words that transactions work on, four to a line.
fn offsets(pool: &TestPool) -> Vec<u64> {
    (0..WORDS).map(|i| pool.layout.root(0).byte(128 + i / 4 * 64 + i % 4 * 8).offset()).collect()
}

fn words(pool: &TestPool, image: &[u64]) -> BTreeMap<u64, u64> {
    offsets(pool).into_iter().map(|at| (at, image[(at / 8) as usize])).collect()
}

/// One life of a pool: `threads` run transactions on `image`, power fails somewhere, recovery runs (and may
/// be cut short), and what it leaves is judged. Returns it.
fn live(
    image: Vec<u64>,
    life: u64,
    concurrency: Concurrency,
    omitted: Option<Step>,
    random: &mut fastrand::Rng,
) -> Result<Vec<u64>, String> {
    let threads = random.usize(1..=3);
    // Enough for logs to fill and restart, more than once in the longer lives.
    let transactions = if random.bool() { random.usize(1..60) } else { random.usize(60..250) };
    let pool = TestPool::new(SMALL, Some(image.clone()), random.u32(2..40), random.u64(..), omitted);
    let view = pool.view();
    // What recovery stores is part of the life: it is durable only as far as recovery saw to it.
    recover(&view, |_| ()).map_err(|e| e.to_string())?;
    let initial = words(&pool, &pool.recorder.contents());

    let at = offsets(&pool);
    let histories = || (0..threads).map(|_| RefCell::new(Vec::new())).collect::<Vec<_>>();
    let (updates, reads) = (histories(), histories());
    let bodies: Vec<hosted::Thread<'_>> = (0..threads)
        .map(|thread| {
            let (pool, at, updates, reads) = (&pool, &at, &updates, &reads);
            let mut random = random.fork();
            Box::new(move |memory: &Hosted| {
                let lease = Worker::<_, Blurred>::lease(pool.over(memory), concurrency, None);
                let mut worker = lease.expect("as many logs as threads");
                for number in 0..transactions {
                    let kind = random.u32(..10);
                    let (picks, big) = (random.usize(1..5), random.u32(..12) == 0);
                    let seed = random.u64(..);
                    let mut history = History::default();
                    let body = |tx: &mut _| {
                        history = History::default();
                        let mut random = fastrand::Rng::with_seed(seed);
                        let count = if big { 70 } else { picks };
                        for i in 0..count {
                            let from = at[random.usize(..at.len())];
                            if !history.writes.contains_key(&from) {
                                history.reads.push((from, read(tx, from)?));
                            }
                            if kind != 0 {
                                let to = at[random.usize(..at.len())];
                                let value = life << 48
                                    | (thread as u64) << 40
                                    | (number as u64) << 16
                                    | i as u64
                                    | 1 << 15;
                                write(tx, to, value)?;
                                history.writes.insert(to, value);
                            }
                        }
                        if kind == 1 { Err(Abort::User) } else { Ok(()) }
                    };
                    let done = if kind == 0 { worker.view(body) } else { worker.run(body) };
                    if done.is_ok() {
                        let list = if history.writes.is_empty() { &reads[thread] } else { &updates[thread] };
                        list.borrow_mut().push(history);
                    }
                }
            }) as hosted::Thread<'_>
        })
        .collect();
    let mut scheduler = random.fork();
    hosted::run(&pool.world(), bodies, |running| scheduler.usize(..running.len()));

    let stream = pool.recorder.take_stream();
    // Half of the time just before something becomes durable or home is stored.
    let point = if random.bool() {
        random.usize(..=stream.len())
    } else {
        let near = random.usize(..stream.len());
        let fence = stream[near..].iter().position(|e| matches!(e.operation, Operation::Fence(_)));
        (near + fence.unwrap_or(0) + random.usize(..12)).saturating_sub(2).min(stream.len())
    };
    let survival = [Survival::Least, Survival::Most, Survival::Random, Survival::Random][random.usize(..4)];
    let mut failed = crash(&image, &stream, point, survival, random);
    // Recovery, cut short again and again, at last to its end.
    for attempt in 0.. {
        let again = TestPool::new(SMALL, Some(failed.clone()), 0, 1, omitted);
        recover(&again.view(), |_| ()).map_err(|e| e.to_string())?;
        if attempt == 3 || random.bool() {
            failed = again.recorder.contents();
            break;
        }
        let stream = again.recorder.take_stream();
        let point = random.usize(..=stream.len());
        failed = crash(&failed, &stream, point, Survival::Random, random);
    }
    let (updates, reads): (Vec<_>, Vec<_>) = (
        updates.into_iter().map(RefCell::into_inner).collect(),
        reads.into_iter().map(RefCell::into_inner).collect(),
    );
    judge(&initial, &words(&pool, &failed), &stream, point, &updates, &reads).map_err(|what| {
        format!("life {life}, {threads} threads, crash at {point} of {} ({survival:?}): {what}", stream.len())
    })?;
    Ok(failed)
}

fn read(tx: &mut impl Transaction, at: u64) -> Result<u64, Abort> {
    tx.read(strandline::memory::PersistentAddress::new(at))
}

fn write(tx: &mut impl Transaction, at: u64, value: u64) -> Result<(), Abort> {
    tx.write(strandline::memory::PersistentAddress::new(at), value)
}

/// Several lives of one pool.
fn lives(seed: u64, concurrency: Concurrency, omitted: Option<Step>) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut image = TestPool::new(SMALL, None, 0, 1, None).recorder.contents();
    for life in 1..=5 {
        image = live(image, life, concurrency, omitted, &mut random)
            .map_err(|what| format!("seed {seed}, {concurrency:?}: {what}"))?;
    }
    Ok(())
}

#[test]
fn no_power_failure_breaks_blurred_persistence() {
    for seed in 0..150 {
        for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
            if let Err(what) = lives(seed, concurrency, None) {
                panic!("{what}");
            }
        }
    }
}

/// A test that cannot fail proves nothing: without any one of these steps it does, soon. The other steps
/// (the wait of bulk persistence, what a restart leaves in the log, the fence after the watermark, the
/// durability of zeroed logs) matter only to rare histories; finding those is the crash checker's work.
#[test]
fn every_missing_step_is_found() {
    use Step::*;
    let steps = [
        CommitWriteBack,
        CommitFence,
        AbortRecord,
        AbortRecordWriteBack,
        BulkDataWriteBack,
        BulkDataFence,
        WatermarkWriteBack,
        RestartPhase,
        RecoveryWatermarkFilter,
        RecoverySort,
        RecoveryDataWriteBack,
        RecoveryWatermark,
        RecoveryWatermarkWriteBack,
        RecoveryWatermarkFence,
        RecoveryZero,
        NewLogDirectory,
    ];
    for step in steps {
        let found = (0..300).any(|seed| lives(seed, Concurrency::Stm, Some(step)).is_err());
        assert!(found, "{step:?} can be left out unnoticed");
    }
}
