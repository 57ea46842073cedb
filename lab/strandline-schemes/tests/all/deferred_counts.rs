//! SCT and DCT: golden counts of their write-backs and fences, lock sets, and the quiescent point.

use strandline_core::engine::{Over, Tx, Worker};
use strandline_core::example::TestPool;
use strandline_core::layout::Geometry;
use strandline_core::memory::recorder::Recorded;
use strandline_core::memory::{
    Counters, Event, Hosted, Memory, Operation, PersistentAddress, Step, coroutines,
};
use strandline_core::scheme::{Durability, SchemeKind};
use strandline_core::{Abort, Concurrency, Error, Lock, Read, Runner, Transaction};
use strandline_schemes::{UNDO_LOG_ENTRIES, UndoLog, laboratory, recover_undo};

const GEOMETRY: Geometry = Geometry { size: 1 << 20, logs: 4, log_bytes: 8192, chunk_bytes: 4096 };

fn pool() -> TestPool {
    TestPool::new(GEOMETRY, None, 0, 1, None)
}

fn worker(pool: &TestPool, kind: SchemeKind) -> Worker<Over<Concurrency, Hosted>> {
    pool.worker_of(kind, laboratory(Concurrency::Locks)).unwrap()
}

/// Returns word `i` under lock `i`, from the second page of the roots on; no two words share a granule.
fn word(tx: &impl Read, i: u64) -> PersistentAddress {
    tx.root(0).byte(256 * (1 + i))
}

fn add(worker: &mut impl Runner, words: std::ops::Range<u64>) {
    let at = worker.view(|tx| Ok(tx.root(0))).unwrap();
    let locks: Vec<Lock> = words.clone().map(|i| Lock::word(at.byte(256 * (1 + i)))).collect();
    worker
        .run_locked(&locks, |tx| {
            words.clone().try_for_each(|i| {
                let value = tx.read(word(tx, i))?;
                tx.write(word(tx, i), value + 1)
            })
        })
        .unwrap();
}

/// Returns how many lines `body` writes back, and how many fences it makes.
fn cost<R: Runner>(worker: &mut R, body: impl FnOnce(&mut R)) -> (u64, u64) {
    let before = worker.statistics().total;
    body(worker);
    let Counters { lines_written_back, fences, .. } = worker.statistics().total - before;
    (lines_written_back, fences)
}

#[test]
fn sct_waits_for_three_sync_barriers() {
    let pool = pool();
    let mut worker = worker(&pool, &strandline_schemes::SCT_EAGER_SYNC);
    // The entry of n words is 3 + 2n words long; there are n lines of data, and the line of the mark.
    for n in [1, 2, 3, 2, 1] {
        assert_eq!(cost(&mut worker, |w| add(w, 0..n)), ((3 + 2 * n).div_ceil(8) + n + 1, 3), "{n} words");
    }
    let statistics = worker.statistics();
    assert_eq!((statistics.commits, statistics.acknowledged - statistics.read_only), (5, 5));
}

#[test]
fn dct_waits_for_one_sync_barrier_in_steady_state() {
    let pool = pool();
    let mut worker = worker(&pool, &strandline_schemes::DCT_EAGER_SYNC);
    // Transactions on one thread, which conflict with the previous one or not.
    for distinct in [false, true] {
        for i in 0..40 {
            // There are more granules than entries, and each has one lock.
            let word = if distinct { i % 12 } else { 0 };
            let counted = cost(&mut worker, |w| add(w, word..word + 1));
            if i >= 2 {
                // The entry, the previous transaction's data, and the mark of the one before that.
                assert_eq!(counted, (3, 1), "transaction {i}");
            }
        }
        let statistics = worker.statistics();
        // The last transaction's data and the mark of the last but one may not be durable yet.
        assert_eq!(statistics.commits + statistics.read_only - statistics.acknowledged, 2);
        assert_eq!(cost(&mut worker, |w| w.drain().unwrap()), (3, 2));
        let statistics = worker.statistics();
        assert_eq!(statistics.commits + statistics.read_only, statistics.acknowledged);
        assert_eq!(cost(&mut worker, |w| w.drain().unwrap()), (0, 0));
    }
}

/// Returns the barriers and strands that `worker` records, by transaction.
fn barriers(kind: SchemeKind, transactions: u64) -> Vec<Vec<Event>> {
    let pool = pool();
    let mut worker = worker(&pool, kind);
    let at = worker.view(|tx| Ok(tx.root(0))).unwrap();
    let mut found = Vec::new();
    for i in 0..transactions {
        pool.recorder.take_stream();
        let lock = Lock::word(at.byte(256 * (1 + i)));
        worker.run_locked(&[lock], |tx| tx.write(word(tx, i), 7)).unwrap();
        let events =
            pool.recorder.take_stream().into_iter().filter_map(
                |Recorded { operation, .. }| match operation {
                    Operation::Event(event @ (Event::PersistBarrier(_) | Event::NewStrand(_))) => Some(event),
                    Operation::Fence(step) => Some(Event::PersistBarrier(step)),
                    _ => None,
                },
            );
        found.push(events.collect());
    }
    found
}

#[test]
fn every_model_has_the_papers_barriers() {
    use Event::{NewStrand, PersistBarrier};
    let locks = PersistBarrier(Step::SynchronousLockBarrier);
    let prepare = PersistBarrier(Step::SynchronousPrepareBarrier);
    let mutate = PersistBarrier(Step::SynchronousMutateBarrier);
    let commit = PersistBarrier(Step::SynchronousCommitBarrier);
    let (begin, end) = (NewStrand(Step::BeginStrand), NewStrand(Step::EndStrand));
    assert_eq!(barriers(&strandline_schemes::SCT_STRICT, 1)[0], []);
    assert_eq!(barriers(&strandline_schemes::SCT_EPOCH, 1)[0], [locks, prepare, mutate, commit]);
    assert_eq!(barriers(&strandline_schemes::SCT_EAGER_SYNC, 1)[0], [prepare, mutate, commit]);
    assert_eq!(barriers(&strandline_schemes::SCT_STRAND, 1)[0], [begin, locks, prepare, mutate, commit, end]);
    let locks = PersistBarrier(Step::DeferredLockBarrier);
    let prepare = PersistBarrier(Step::DeferredPrepareBarrier);
    let mutate = PersistBarrier(Step::DeferredMutateBarrier);
    let commit = PersistBarrier(Step::DeferredCommitBarrier);
    for number in 0..9 {
        assert_eq!(barriers(&strandline_schemes::DCT_STRICT, 9)[number], []);
        assert_eq!(barriers(&strandline_schemes::DCT_EPOCH, 9)[number], [locks, prepare]);
        assert_eq!(barriers(&strandline_schemes::DCT_EAGER_SYNC, 9)[number], [prepare]);
        let strand = [begin, locks, prepare, mutate, commit, end];
        assert_eq!(barriers(&strandline_schemes::DCT_STRAND, 9)[number], strand);
    }
}

/// Runs `body` under every scheme of this file.
fn under_all(body: impl Fn(SchemeKind)) {
    strandline_schemes::ALL.iter().filter(|kind| kind.mode(Concurrency::Locks).is_some()).for_each(body);
}

#[test]
fn a_write_outside_the_lock_set_is_an_error_and_changes_nothing() {
    under_all(|kind| {
        let pool = pool();
        let mut worker = worker(&pool, kind);
        let at = worker.view(|tx| Ok(word(tx, 0))).unwrap();
        let region = Lock::Region(3);
        let block = worker
            .run_locked(&[region], |tx| {
                let block = tx.alloc(64)?;
                tx.write(block, 5)?;
                Ok(block)
            })
            .unwrap();
        for outside in [at.byte(256), block] {
            let result = worker.run_locked(&[Lock::word(at)], |tx| {
                tx.write(at, 1)?;
                tx.write(outside, 1)
            });
            assert!(matches!(result, Err(Error::OutsideLockSet(found)) if found == outside.offset()));
        }
        assert_eq!(worker.view(|tx| tx.read(at)).unwrap(), 0);
        // Each word is covered: by the range, by the region, by having been allocated here, or because nothing is declared.
        worker
            .run_locked(&[region, Lock::Range { at, bytes: 257 }], |tx| {
                tx.write(at.byte(256), 1)?;
                tx.write(block.word(7), 1)?;
                let block = tx.alloc(200)?;
                tx.write(block.word(24), 1)?;
                tx.free(block)
            })
            .unwrap();
        worker.run(|tx| tx.write(at.byte(1024), 1)).unwrap();
        let read = worker.run_locked(&[], |tx| tx.read(block.word(7))).unwrap();
        assert_eq!(read, 1);
    });
}

/// The first worker's arena remembers a chunk that it tried to take in vain, and that went to another region.
#[test]
fn regions_keep_to_their_own_chunks() {
    under_all(|kind| {
        let pool = pool();
        let (mut first, mut second) = (worker(&pool, kind), worker(&pool, kind));
        let (one, two) = ([Lock::Region(1)], [Lock::Region(2)]);
        let in_vain = first.run_locked(&one, |tx| {
            tx.alloc(64)?;
            Err::<(), _>(Abort::User)
        });
        assert!(matches!(in_vain, Err(Error::Aborted)));
        let theirs = second.run_locked(&two, |tx| tx.alloc(64)).unwrap();
        let ours = first.run_locked(&one, |tx| tx.alloc(64)).unwrap();
        first.run_locked(&one, |tx| tx.write(ours, 1)).unwrap();
        second.run_locked(&two, |tx| tx.write(theirs, 2)).unwrap();
        let outside = second.run_locked(&two, |tx| tx.write(ours, 3));
        assert!(matches!(outside, Err(Error::OutsideLockSet(at)) if at == ours.offset()));
    });
}

/// Lock sets do not affect other kinds of isolation, but their regions determine where memory is allocated.
#[test]
fn a_pool_filled_without_locks_has_its_regions() {
    for mode in [Concurrency::Stm, Concurrency::SingleWriter] {
        let pool = pool();
        let region = [Lock::Region(1)];
        let block = pool
            .worker_of(&strandline_schemes::NP, mode)
            .unwrap()
            .run_locked(&region, |tx| tx.alloc(64))
            .unwrap();
        let mut worker = worker(&pool, &strandline_schemes::DCT_EAGER_SYNC);
        worker.run_locked(&region, |tx| tx.write(block, 1)).unwrap();
        assert!(worker.run_locked(&[Lock::Region(2)], |tx| tx.write(block, 1)).is_err());
    }
}

/// Returns how many locks a transaction holds that writes so many words from the first root on.
fn locks(worker: &mut Worker<Over<Concurrency, Hosted>>, words: u64) -> u64 {
    let from = worker.view(|tx| Ok(tx.root(0))).unwrap();
    let granules: std::collections::BTreeSet<_> = (0..words).map(|i| from.word(i).offset() / 256).collect();
    granules.len() as u64
}

#[test]
fn a_transaction_larger_than_its_log_entry_changes_nothing() {
    under_all(|kind| {
        if kind.durability != Durability::Software {
            return;
        }
        let pool = pool();
        let mut worker = worker(&pool, kind);
        let fill = |worker: &mut Worker<_>, words: u64| {
            worker.run(|tx| {
                let at = tx.root(0);
                (0..words).try_for_each(|i| tx.write(at.word(i), words))
            })
        };
        let capacity = if kind == &strandline_schemes::UNDO_LOG {
            // All of 8192 - 64 bytes, in records of 32 bytes.
            8128 / 32
        } else {
            // A quarter of them in whole lines, without the three words of the header: two for each word that is written and, under DCT, one for each
            // lock.
            let words = 8128 / 4 / 64 * 64 / 8 - 3;
            let is_deferred = kind.name(Concurrency::Locks).starts_with("dct");
            let locks = if is_deferred { locks(&mut worker, words / 2) } else { 0 };
            (words - locks) / 2
        };
        for _ in 0..6 {
            fill(&mut worker, capacity).unwrap();
            let result = fill(&mut worker, capacity + 1);
            assert!(
                matches!(result, Err(Error::TransactionTooLarge { records }) if records == capacity),
                "{result:?}, {capacity}"
            );
            assert_eq!(worker.view(|tx| tx.read(tx.root(0))).unwrap(), capacity);
        }
    });
}

/// Of two entries that share a lock, the one with its higher timestamp is undone first, wherever the entries are, and even if the logged half of the
/// timestamp has wrapped around to 0.
#[test]
fn entries_that_share_a_lock_are_undone_in_falling_order() {
    for (earlier, first) in [(0, 7), (1, 7), (0, u64::from(u32::MAX)), (1, u64::from(u32::MAX))] {
        let pool = pool();
        let view = pool.view();
        let (memory, at) = (&view.memory, view.layout.root(0));
        memory.store(at, 5);
        for (log, timestamp, value) in [(earlier, first, 6), (1 - earlier, first + 1, 7)] {
            let mut log = UndoLog::lease(&view, log, UNDO_LOG_ENTRIES);
            log.prepare_log_entry(&view, &[(at, value)], &[(3, timestamp)]);
            memory.store(at, value);
        }
        assert_eq!(recover_undo(&view, &mut |_| ()).unwrap().undone, 2);
        assert_eq!(memory.load(at), 5, "log {earlier} first, at {first}");
    }
}

#[test]
fn a_user_abort_changes_nothing() {
    under_all(|kind| {
        let pool = pool();
        let mut worker = worker(&pool, kind);
        for _ in 0..6 {
            add(&mut worker, 0..2);
            let result = worker.run(|tx| {
                let block = tx.alloc(64)?;
                tx.write(block, 1)?;
                tx.write(word(tx, 0), 99)?;
                Err::<(), _>(Abort::User)
            });
            assert!(matches!(result, Err(Error::Aborted)));
        }
        assert_eq!(worker.view(|tx| tx.read(word(tx, 0))).unwrap(), 6);
    });
}

/// Threads move units between words, some with declared locks and some without, and allocate.
#[test]
fn transactions_of_several_threads_are_isolated() {
    under_all(|kind| {
        for seed in 1..=12 {
            let pool = TestPool::new(GEOMETRY, None, 5, seed * 77, None);
            pool.recorder.set_recording(false);
            let body = |thread: u64| {
                let pool = &pool;
                move |memory: &Hosted| {
                    let view = pool.over(memory);
                    let mut worker = Worker::lease_of(view, kind, Concurrency::Locks, None).unwrap();
                    let mut random = fastrand::Rng::with_seed(seed << 8 | thread);
                    for _ in 0..25 {
                        let (from, to) = (random.u64(..3), random.u64(..3));
                        let shift = |tx: &mut _, alloc: bool| {
                            let tx: &mut Tx<_> = tx;
                            let (from, to) = (word(tx, from), word(tx, to));
                            let left = tx.read(from)?;
                            tx.write(from, left.wrapping_sub(1))?;
                            let right = tx.read(to)?;
                            tx.write(to, right.wrapping_add(1))?;
                            if alloc {
                                let block = tx.alloc(40)?;
                                tx.write(block, right)?;
                                tx.free(block)?;
                            }
                            Ok(())
                        };
                        match random.u8(..4) {
                            0 => worker.run(|tx| shift(tx, false)).unwrap(),
                            1 => worker.run(|tx| shift(tx, true)).unwrap(),
                            2 => {
                                let sum = worker
                                    .view(|tx| {
                                        (0..3).try_fold(0u64, |sum, i| {
                                            Ok(sum.wrapping_add(tx.read(word(tx, i))?))
                                        })
                                    })
                                    .unwrap();
                                assert_eq!(sum, 0);
                            }
                            _ => {
                                let at = worker.view(|tx| Ok(word(tx, 0))).unwrap();
                                let locks = [from, to].map(|i| Lock::word(at.byte(256 * i)));
                                worker.run_locked(&locks, |tx| shift(tx, true)).unwrap();
                            }
                        }
                    }
                    worker.drain().unwrap();
                    let statistics = worker.statistics();
                    assert_eq!(statistics.commits + statistics.read_only, statistics.acknowledged);
                }
            };
            let threads = (0..4).map(|thread| Box::new(body(thread)) as coroutines::Thread<'_>).collect();
            let mut random = fastrand::Rng::with_seed(seed);
            coroutines::run(&pool.world(), threads, |running| random.usize(..running.len()));
            let mut worker = worker(&pool, kind);
            let sum =
                (0..3).fold(0u64, |sum, i| sum.wrapping_add(worker.view(|tx| tx.read(word(tx, i))).unwrap()));
            assert_eq!(sum, 0, "seed {seed}");
        }
    });
}

/// A thread that stops after its transaction delays no other: the reader completes the transaction.
#[test]
fn a_waiter_completes_the_commit_of_a_stalled_thread() {
    under_all(|kind| {
        let pool = pool();
        let mut stalled = worker(&pool, kind);
        let mut other = worker(&pool, kind);
        add(&mut stalled, 0..1);
        add(&mut stalled, 0..2);
        // More transactions than there are entries, all after the stalled thread's.
        for _ in 0..10 {
            add(&mut other, 0..2);
        }
        assert_eq!(other.view(|tx| tx.read(word(tx, 1))).unwrap(), 11);
        other.drain().unwrap();
        let statistics = other.statistics();
        assert_eq!(statistics.commits + statistics.read_only, statistics.acknowledged);
        // The stalled thread continues without noticing.
        for _ in 0..10 {
            add(&mut stalled, 0..2);
        }
        assert_eq!(stalled.view(|tx| tx.read(word(tx, 1))).unwrap(), 21);
    });
}
