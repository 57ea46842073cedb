//! Golden counts: the exact number of lines that each operation writes back, and of its fences.

use strandline_core::engine::{SingleWriter, Stm, Worker};
use strandline_core::example::{SMALL, TestPool};
use strandline_core::layout::Geometry;
use strandline_core::memory::Counters;
use strandline_core::scheme::{CommitCost, PRODUCT, SchemeKind};
use strandline_core::transaction::Statistics;
use strandline_core::{Abort, Concurrency, Read, Runner, Transaction};

const GEOMETRY: Geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 64 << 10, chunk_bytes: 4096 };
const MODES: [Concurrency; 2] = [Concurrency::Stm, Concurrency::SingleWriter];

fn write_words(worker: &mut impl Runner, words: u64) -> strandline_core::Result<()> {
    worker.run(|tx| {
        let at = tx.root(0);
        (0..words).try_for_each(|i| tx.write(at.word(i), i))
    })
}

/// Returns how many lines, fences and log bytes `body` adds, without bulk persistence.
fn cost<R: Runner>(worker: &mut R, body: impl FnOnce(&mut R)) -> (u64, u64, u64) {
    let foreground = |s: Statistics| s.total - s.bulk;
    let before = worker.statistics();
    body(worker);
    let after = worker.statistics();
    let Counters { lines_written_back, fences, .. } = foreground(after) - foreground(before);
    (lines_written_back, fences, after.log_bytes - before.log_bytes)
}

/// Each transaction of 1 to 100 words costs as much as the descriptor says, in all its modes; four records fit a line.
#[test]
fn commits_cost_what_the_descriptors_say() {
    for kind in strandline_schemes::ALL.iter() {
        let Some(expected) = kind.commit_cost else { continue };
        for mode in kind.modes {
            let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
            let mut worker = pool.worker_of(kind, mode.concurrency).unwrap();
            commits_of_cost(&mut worker, mode.name, expected);
        }
    }
}

#[test]
fn the_products_path_costs_what_its_descriptor_says() {
    let expected = PRODUCT.commit_cost.expect("the product is counted");
    let pool = || TestPool::new(GEOMETRY, None, 0, 1, None);
    commits_of_cost(&mut pool().worker(Stm).unwrap(), "the product's path", expected);
    commits_of_cost(&mut pool().worker(SingleWriter).unwrap(), "the product's path", expected);
}

fn commits_of_cost(worker: &mut impl Runner, name: &str, expected: CommitCost) {
    for words in [1u64, 2, 3, 4, 7, 8, 40, 1, 1, 100] {
        let before = worker.statistics();
        write_words(worker, words).unwrap();
        let after = worker.statistics();
        let Counters { lines_written_back, fences, non_temporal_bytes } =
            after.total - after.bulk - (before.total - before.bulk);
        let log_lines = (words + 1).div_ceil(4);
        assert_eq!(
            (lines_written_back, fences, non_temporal_bytes),
            expected(words.div_ceil(8), words.div_ceil(4), log_lines),
            "{words} words under {name}"
        );
        // Every scheme fills a log line up with inert records; without persistence there is no log.
        let logged = if fences == 0 { 0 } else { 64 * log_lines };
        assert_eq!(after.log_bytes - before.log_bytes, logged, "{words} words under {name}");
        assert_eq!(worker.view(|tx| tx.read(tx.root(0).word(words - 1))).unwrap(), words - 1);
    }
}

/// The undo log writes for each word its record and its home line, with a fence; then it fences the data, and writes the mark with a fence. An abort
/// restores the old values at the same cost again.
#[test]
fn an_undo_log_waits_for_each_word() {
    for mode in [Concurrency::SingleWriter, Concurrency::Locks] {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker_of(&strandline_schemes::UNDO_LOG, mode).unwrap();
        for words in [1, 2, 8, 40] {
            let measured = cost(&mut worker, |w| write_words(w, words).unwrap());
            assert_eq!(measured, (2 * words + 1, words + 2, 32 * words + 16));
            let aborted = cost(&mut worker, |w| {
                let given_up = w.run(|tx| {
                    let at = tx.root(0);
                    (0..words).try_for_each(|i| tx.write(at.word(i), i))?;
                    Err::<(), _>(Abort::User)
                });
                assert!(given_up.is_err());
            });
            assert_eq!(aborted, (3 * words + 1, words + 2, 0));
        }
    }
}

/// Fills a log of 1,024 lines with transactions of `words` words, each of which takes one line, and then runs one more, for which the log restarts.
/// Returns the bulk persistences, and the lines written back and the fences without those of commits.
fn a_full_log_costs(kind: SchemeKind, mode: Concurrency, words: u64) -> (u64, u64, u64) {
    let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
    let mut worker = pool.worker_of(kind, mode).unwrap();
    for _ in 0..1024 {
        write_words(&mut worker, words).unwrap();
    }
    let before = worker.statistics();
    assert_eq!((before.bulk.fences, before.bulk_persists, before.log_restarts), (0, 0, 0));
    assert_eq!(cost(&mut worker, |w| write_words(w, words).unwrap()), (1, 1, 64));
    let after = worker.statistics();
    assert_eq!(after.log_restarts, 1);
    let bulk = after.bulk - before.bulk;
    (after.bulk_persists, bulk.lines_written_back, bulk.fences)
}

/// COPY writes each home line of the closed wraps back once, and moves the watermark once; without a helper, a worker whose log is full does it.
#[test]
fn copy_costs_two_fences_for_many_wraps() {
    for mode in MODES {
        assert_eq!(a_full_log_costs(&strandline_schemes::WRAP, mode, 2), (1, 2, 2));
    }
}

/// The helper writes back each transaction's home lines and the watermark, with a fence after each; without a helper, a worker whose log is full does
/// it.
#[test]
fn asynchronous_truncation_costs_two_fences_for_each_transaction() {
    for mode in MODES {
        let (_, lines, fences) = a_full_log_costs(&strandline_schemes::MNE_ASYNC, mode, 2);
        assert_eq!((lines, fences), (2 * 1024, 2 * 1024));
    }
}

/// A word that is written many times is copied once from an execution area, but logged each time in the log.
#[test]
fn an_execution_area_keeps_the_newest_value_alone() {
    fn bytes(kind: SchemeKind) -> u64 {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker_of(kind, Concurrency::Stm).unwrap();
        worker.run(|tx| (0..11).try_for_each(|i| tx.write(tx.root(1), i))).unwrap();
        assert_eq!(worker.view(|tx| tx.read(tx.root(1))).unwrap(), 10);
        worker.statistics().log_bytes
    }
    assert_eq!(
        [
            bytes(&strandline_schemes::BASE),
            bytes(&strandline_schemes::VCBP),
            bytes(&strandline_schemes::VCBP_STREAMED),
            bytes(&strandline_schemes::MNE_SYNC)
        ],
        [64; 4]
    );
    assert_eq!(
        [
            bytes(&strandline_schemes::XIL),
            bytes(&strandline_schemes::BPPM),
            bytes(&strandline_schemes::BPPM_COUNTED),
            bytes(&strandline_schemes::WRAP)
        ],
        [192; 4]
    );
}

/// An application's transactions execute in their write sets: a word that is written repeatedly takes one record, and a transaction that gives up
/// costs nothing and leaves nothing.
#[test]
fn only_what_commits_is_in_an_applications_log() {
    fn check(worker: &mut impl Runner) {
        // More writes than the log has records.
        let again = |w: &mut _| write_again(w, 5000);
        fn write_again(worker: &mut impl Runner, times: u64) {
            fn set_and_get(tx: &mut impl Transaction, i: u64) -> Result<(), Abort> {
                let at = tx.root(i % 3);
                tx.write(at, i)?;
                assert_eq!(tx.read(at)?, i);
                Ok(())
            }
            worker.run(|tx| (0..times).try_for_each(|i| set_and_get(tx, i))).unwrap();
        }
        assert_eq!(cost(worker, again), (1, 1, 64));
        let given_up = cost(worker, |w| {
            let result = w.run(|tx| {
                let at = tx.root(0);
                (0..40).try_for_each(|i| tx.write(at.word(i), i))?;
                Err::<(), _>(Abort::User)
            });
            assert!(result.is_err());
        });
        assert_eq!(given_up, (0, 0, 0));
        assert_eq!(cost(worker, again), (1, 1, 64));
        assert_eq!(worker.view(|tx| tx.read(tx.root(0))).unwrap(), 4998);
        let ranges = |w: &mut _| write_ranges_again(w, 5000);
        fn write_ranges_again(worker: &mut impl Runner, times: u64) {
            worker.run(|tx| (0..times).try_for_each(|i| tx.write_range(tx.root(i % 2), &[i, i]))).unwrap();
        }
        assert_eq!(cost(worker, ranges), (1, 1, 64));
    }
    let pool = || TestPool::new(GEOMETRY, None, 0, 1, None);
    check(&mut pool().worker(Stm).unwrap());
    check(&mut pool().worker(SingleWriter).unwrap());
    check(&mut pool().worker_of(&PRODUCT, Concurrency::Stm).unwrap());
}

#[test]
fn empty_and_read_only_transactions_flush_and_fence_nothing() {
    for mode in MODES {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker(mode).unwrap();
        assert_eq!(cost(&mut worker, |w| w.run(|_| Ok(())).unwrap()), (0, 0, 0));
        let read = |w: &mut Worker<_>| {
            w.run(|tx| tx.read(tx.root(0))).unwrap();
            w.view(|tx| tx.read(tx.root(0))).unwrap();
        };
        assert_eq!(cost(&mut worker, read), (0, 0, 0));
        assert_eq!(worker.statistics().read_only, 3);
    }
}

/// An abort of 200 blocks (1,600 bytes, 100 records) leaves abort records over records 31, 63 and 95 and after the last; the next commit's count
/// includes their lines.
#[test]
fn a_commit_writes_back_abort_records_not_yet_durable() {
    for mode in MODES {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker(mode).unwrap();
        let aborted = |w: &mut Worker<_>| {
            let result = w.run(|tx| {
                let at = tx.root(0);
                (0..100).try_for_each(|i| tx.write(at.word(i), 7))?;
                Err::<(), _>(Abort::User)
            });
            assert!(matches!(result, Err(strandline_core::Error::Aborted)));
        };
        assert_eq!(cost(&mut worker, aborted), (0, 0, 0), "an abort waits for nothing");
        // Abort records are in lines 7, 15, 23 and 25. Data and commit record are records 101 and 102, in line 25 again, which is filled up.
        assert_eq!(cost(&mut worker, |w| write_words(w, 1).unwrap()), (4, 1, 3 * 16));
        // The abort records are durable now, and are not written back again.
        assert_eq!(cost(&mut worker, |w| write_words(w, 1).unwrap()), (1, 1, 64));
    }
}

/// An abort leaves no trace in the log under schemes without abort records. Under `bppm-counted` its blocks are not reused, and the next commit only
/// pays for its own lines; copied transactions have nothing in the log until they commit.
#[test]
fn aborts_cost_later_commits_nothing_but_where_holes_are_bridged() {
    fn after_an_abort(kind: SchemeKind, mode: Concurrency) -> (u64, u64, u64) {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker_of(kind, mode).unwrap();
        let gives_up = |w: &mut Worker<_>| {
            let given_up: strandline_core::Result<()> = w.run(|tx| {
                let at = tx.root(0);
                (0..100).try_for_each(|i| tx.write(at.word(i), 7))?;
                Err(Abort::User)
            });
            assert!(given_up.is_err());
        };
        let (lines, fences, bytes) = cost(&mut worker, gives_up);
        // Stores past the cache are sent before the locks are released.
        assert_eq!(
            (lines, fences, bytes),
            if kind == &strandline_schemes::WRAP { (25, 1, 0) } else { (0, 0, 0) }
        );
        cost(&mut worker, |w| write_words(w, 1).unwrap())
    }
    for mode in MODES {
        // 100 blocks are skipped; two records follow from record 100 on, which begins line 25, and two inert ones.
        assert_eq!(after_an_abort(&strandline_schemes::BPPM_COUNTED, mode), (1, 1, 64));
        // Records 0 to 99 fill 25 lines past the cache, and the next transaction fills one.
        assert_eq!(after_an_abort(&strandline_schemes::WRAP, mode), (1, 1, 64));
        // As without the abort: one line each for record, commit record, home and mark.
        assert_eq!(after_an_abort(&strandline_schemes::BASE, mode), (4, 4, 64));
        assert_eq!(after_an_abort(&strandline_schemes::MNE_SYNC, mode), (3, 3, 64));
        // The abort records' three lines besides the one that the transaction shares.
        assert_eq!(after_an_abort(&strandline_schemes::XIL, mode), (4 + 2, 3, 48));
    }
}

#[test]
fn bulk_persistence_and_restart_are_counted_apart() {
    for mode in MODES {
        // One home line, which all transactions wrote, and the watermark; all log lines had been written back before.
        assert_eq!(a_full_log_costs(&strandline_schemes::BPPM, mode, 1), (1, 2, 2));
        assert_eq!(a_full_log_costs(&strandline_schemes::VCBP_STREAMED, mode, 1), (1, 2, 2));
    }
}

#[test]
fn a_transaction_larger_than_its_log_changes_nothing() {
    for mode in MODES {
        let pool = TestPool::new(SMALL, None, 0, 1, None);
        let mut worker = pool.worker(mode).unwrap();
        write_words(&mut worker, 200).unwrap();
        for _ in 0..3 {
            let result = write_words(&mut worker, 256);
            assert!(
                matches!(result, Err(strandline_core::Error::TransactionTooLarge { records: 256 })),
                "{result:?}"
            );
            assert_eq!(worker.view(|tx| tx.read(tx.root(0).word(199))).unwrap(), 199);
            assert_eq!(worker.view(|tx| tx.read(tx.root(0).word(250))).unwrap(), 0);
            // 255 data records and the commit record fill the log to its end.
            write_words(&mut worker, 255).unwrap();
            write_words(&mut worker, 1).unwrap();
            worker
                .run(|tx| {
                    let at = tx.root(0);
                    tx.write(at.word(250), 0)
                })
                .unwrap();
        }
    }
}
