//! Snapshots while transactions run, on native memory.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::example::{durable_path_and_options, path_and_options};
use strandline_core::layout::Geometry;
use strandline_core::memory::{LINE_BYTES, Native, PersistentAddress};
use strandline_core::{Abort, Error, Pool, Read, Runner, Transaction};

const ACCOUNTS: u64 = 64;
const BALANCE: u64 = 1000;

/// Returns the address of an account's word. Each account has a line of its own.
fn account(first: PersistentAddress, number: u64) -> PersistentAddress {
    first.byte(number * LINE_BYTES)
}

/// Creates the accounts. Returns the address of the first one.
fn accounts(runner: &mut impl Runner) -> PersistentAddress {
    runner
        .run(|tx| {
            let first = tx.alloc(ACCOUNTS * LINE_BYTES)?;
            (0..ACCOUNTS).try_for_each(|number| tx.write(account(first, number), BALANCE))?;
            tx.write(tx.root(0), first.offset())?;
            Ok(first)
        })
        .unwrap()
}

fn sum(tx: &mut impl Read, first: PersistentAddress) -> Result<u64, Abort> {
    let mut sum = 0;
    for number in 0..ACCOUNTS {
        sum += tx.read(account(first, number))?;
    }
    Ok(sum)
}

/// Moves money until `stop` is set. Returns the number of transfers.
fn transfer(runner: &mut impl Runner, first: PersistentAddress, seed: u64, stop: &AtomicBool) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = (random.u64(..ACCOUNTS), random.u64(..ACCOUNTS));
        runner
            .run(|tx| {
                let balance = tx.read(account(first, from))?;
                tx.write(account(first, from), balance.wrapping_sub(1))?;
                let balance = tx.read(account(first, to))?;
                tx.write(account(first, to), balance.wrapping_add(1))
            })
            .unwrap();
        count += 1;
    }
    count
}

/// Reads snapshots of a pool whose accounts always have the same sum, while transfers run.
fn snapshots_are_consistent<C: Control<Memory = Native>>(pool: &Pool<C>)
where
    Pool<C>: Sync,
{
    let first = accounts(&mut pool.worker().unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| transfer(&mut pool.worker().unwrap(), first, 1, &stop));
        let (mut last, mut taken) = (0, 0);
        let begun = pool.snapshot().unwrap().time();
        while taken < 300 || last < begun + 100 {
            taken += 1;
            let mut snapshot = pool.snapshot().unwrap();
            assert!(snapshot.time() >= last);
            last = snapshot.time();
            let runs = Cell::new(0);
            for _ in 0..2 {
                let sum = snapshot.read(|tx| {
                    runs.set(runs.get() + 1);
                    sum(tx, first)
                });
                assert_eq!(sum.unwrap(), ACCOUNTS * BALANCE);
            }
            assert_eq!(runs.get(), 2, "what reads a snapshot runs once");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() >= 100);
    });
    assert_eq!(pool.snapshot_usage().unwrap().snapshots, 0);
}

#[test]
fn snapshots_are_consistent_beside_transactions() {
    for (path, options) in [path_and_options(), durable_path_and_options()] {
        snapshots_are_consistent(&Setup::from(Stm).create(path.with_extension("stm"), &options).unwrap());
        snapshots_are_consistent(&Setup::from(SingleWriter).create(&path, &options).unwrap());
    }
}

/// Runs a view while writers repeatedly change everything that it reads.
fn views_run_twice_at_most<C: Control<Memory = Native>>(pool: &Pool<C>) {
    let first = accounts(&mut pool.worker().unwrap());
    let (mut reader, mut writer) = (pool.worker().unwrap(), pool.worker().unwrap());
    let mut runs = 0;
    let sum = reader.view(|tx| {
        runs += 1;
        let mut sum = 0;
        for number in 0..ACCOUNTS {
            sum += tx.read(account(first, number))?;
            // Another worker writes in between, on another thread.
            std::thread::scope(|threads| {
                let moved = threads.spawn(|| {
                    writer.run(|tx| {
                        let (one, other) = (account(first, number), account(first, ACCOUNTS - 1 - number));
                        let balances = [tx.read(one)?, tx.read(other)?];
                        tx.write(one, balances[0] - 1)?;
                        tx.write(other, balances[1] + 1)
                    })
                });
                moved.join().unwrap().unwrap();
            });
        }
        Ok(sum)
    });
    assert_eq!((sum.unwrap(), runs), (ACCOUNTS * BALANCE, 2));
    assert_eq!(pool.snapshot_usage().unwrap().snapshots, 0);
}

#[test]
fn a_view_beside_a_writer_runs_twice_at_most() {
    let (path, options) = path_and_options();
    views_run_twice_at_most(&Setup::from(Stm).create(path.with_extension("stm"), &options).unwrap());
    views_run_twice_at_most(&Setup::from(SingleWriter).create(&path, &options).unwrap());
}

#[test]
fn a_line_written_again_and_again_has_one_version_for_each_snapshot() {
    let (path, options) = path_and_options();
    let pool = Pool::create(path, &options).unwrap();
    let mut worker = pool.worker().unwrap();
    let mut set = |value: u64| worker.run(|tx| tx.write(tx.root(0), value)).unwrap();
    set(1);
    let mut snapshots = Vec::new();
    for value in 2..6 {
        snapshots.push(pool.snapshot().unwrap());
        (0..10).for_each(|_| set(value));
    }
    assert_eq!(pool.snapshot_usage().unwrap().versions, 4);
    for (snapshot, value) in snapshots.iter_mut().zip(1..) {
        assert_eq!(snapshot.read(|tx| tx.read(tx.root(0))).unwrap(), value);
    }
    // Versions that the other snapshots need stay when one snapshot ends.
    snapshots.remove(1);
    set(7);
    let left: Vec<_> =
        snapshots.iter_mut().map(|snapshot| snapshot.read(|tx| tx.read(tx.root(0))).unwrap()).collect();
    assert_eq!(left, [1, 3, 4]);
}

#[test]
fn past_its_memory_the_oldest_snapshot_ends_and_writers_go_on() {
    let (path, options) = path_and_options();
    let pool = Pool::create(path, &strandline_core::Options { snapshot_bytes: 4096, ..options }).unwrap();
    let first = accounts(&mut pool.worker().unwrap());
    let mut worker = pool.worker().unwrap();
    let most = pool.snapshot_usage().unwrap().most_versions;
    assert!((8..ACCOUNTS).contains(&most), "{most}");
    let mut old = pool.snapshot().unwrap();
    let mut set = |number: u64, value: u64| worker.run(|tx| tx.write(account(first, number), value)).unwrap();
    set(0, 1);
    let mut young = pool.snapshot().unwrap();
    // Every version that the young snapshot needs is also needed by the old one.
    (1..most).for_each(|number| set(number, 2));
    assert_eq!(old.read(|tx| tx.read(account(first, 1))).unwrap(), BALANCE);
    set(most, 3);
    let ended = old.read(|tx| tx.read(account(first, 1)));
    assert!(matches!(ended, Err(Error::SnapshotEnded { .. })), "{ended:?}");
    assert!(matches!(young.read(|tx| sum(tx, first)), Err(Error::SnapshotEnded { .. })), "it needs as many");
    assert_eq!(pool.snapshot_usage().unwrap().ended, 2);
    drop((old, young));
    // The memory of versions is used again.
    for round in 0..100 {
        let mut snapshot = pool.snapshot().unwrap();
        let before = snapshot.read(|tx| sum(tx, first)).unwrap();
        (0..4).for_each(|number| set(number, round));
        assert_eq!(snapshot.read(|tx| sum(tx, first)).unwrap(), before);
    }
    assert_eq!(pool.snapshot_usage().unwrap().ended, 2);
}

/// There are more chains than one ending snapshot scans, and each round adds entries to all of them.
#[test]
fn snapshots_that_end_reclaim_what_nobody_needs() {
    const LINES: u64 = 4096;
    const STRIDE: u64 = 2048;
    let (path, options) = path_and_options();
    let geometry = Geometry { size: 64 << 20, logs: 4, log_bytes: 1 << 20, chunk_bytes: 1 << 18 };
    let options = strandline_core::Options { geometry, snapshot_bytes: 32 << 20, ..options };
    let pool = Pool::create(path, &options).unwrap();
    let mut worker = pool.worker().unwrap();
    let first = worker.run(|tx| tx.alloc(LINES * STRIDE)).unwrap();
    // There is always a snapshot, so the memory of all versions is never released.
    let mut snapshot = pool.snapshot().unwrap();
    for round in 1..40 {
        worker
            .run(|tx| (0..LINES).try_for_each(|number| tx.write(first.byte(number * STRIDE), round)))
            .unwrap();
        let last = LINES - 1;
        let seen = snapshot.read(|tx| Ok([tx.read(first)?, tx.read(first.byte(last * STRIDE))?])).unwrap();
        assert_eq!(seen, [round - 1; 2]);
        // Two snapshots end, each of which scans half of the chains. No version is pushed in between.
        for _ in 0..2 {
            snapshot = pool.snapshot().unwrap();
        }
    }
    let usage = pool.snapshot_usage().unwrap();
    assert!(usage.versions < LINES + LINES / 4 && usage.most_versions > 4 * LINES, "{usage:?}");
}

#[test]
fn a_snapshot_reads_on_after_an_error_and_writes_nothing() {
    let (path, options) = path_and_options();
    let pool = Pool::create(path, &options).unwrap();
    let mut worker = pool.worker().unwrap();
    worker.run(|tx| tx.write(tx.root(0), 5)).unwrap();
    let mut snapshot = pool.snapshot().unwrap();
    assert!(matches!(snapshot.read(|tx| tx.write(tx.root(0), 6)), Err(Error::ReadOnly)));
    assert!(matches!(snapshot.read(|tx| tx.alloc(64)), Err(Error::ReadOnly)));
    let nowhere = PersistentAddress::new(1 << 40);
    assert!(matches!(snapshot.read(|tx| tx.read(nowhere)), Err(Error::InvalidAddress(_))));
    assert_eq!(snapshot.read(|tx| tx.read(tx.root(0))).unwrap(), 5);
    // A snapshot can also be read in a transaction's closure, since reads do not wait. Beginning a snapshot might.
    let seen = worker.run(|tx| {
        tx.write(tx.root(0), 7)?;
        assert!(matches!(pool.snapshot().err(), Some(Error::Nested)));
        Ok(snapshot.read(|tx| tx.read(tx.root(0))).unwrap())
    });
    assert_eq!(seen.unwrap(), 5, "the transaction has not committed");
}

#[test]
fn there_are_so_many_snapshots_and_none_without_memory() {
    let (path, options) = path_and_options();
    let pool = Pool::create(&path, &options).unwrap();
    let snapshots: Vec<_> = (0..64).map(|_| pool.snapshot().unwrap()).collect();
    assert!(matches!(pool.snapshot(), Err(Error::TooManySnapshots { most: 64 })));
    drop(snapshots);
    pool.snapshot().unwrap();
    pool.close().unwrap();
    let without = strandline_core::Options { snapshot_bytes: 0, ..options };
    let pool = Pool::open(&path, &without).unwrap();
    assert!(matches!(pool.snapshot(), Err(Error::Parameter(_))));
    assert_eq!(pool.worker().unwrap().view(|tx| tx.read(tx.root(0))).unwrap(), 0);
}
