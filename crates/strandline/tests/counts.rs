//! Golden counts: what each operation writes back and fences, to the line.

mod support;

use strandline::memory::Counters;
use strandline::pool::Geometry;
use strandline::scheme::{Blurred, NoPersistence, Scheme};
use strandline::transaction::{Statistics, Worker};
use strandline::{Abort, Concurrency, Read, Runner, Transaction};
use support::TestPool;

const GEOMETRY: Geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 64 << 10, chunk_bytes: 4096 };
const MODES: [Concurrency; 2] = [Concurrency::Stm, Concurrency::SingleWriter];

fn write_words<M: strandline::memory::Memory, S: Scheme>(
    worker: &mut Worker<M, S>,
    words: u64,
) -> strandline::Result<()> {
    worker.run(|tx| {
        let at = tx.root(0);
        (0..words).try_for_each(|i| tx.write(at.word(i), i))
    })
}

/// What `body` adds to lines, fences and log bytes, bulk persistence apart.
fn cost<S: Scheme>(
    worker: &mut Worker<strandline::memory::Hosted, S>,
    body: impl FnOnce(&mut Worker<strandline::memory::Hosted, S>),
) -> (u64, u64, u64) {
    let foreground = |s: Statistics| s.total - s.bulk;
    let before = worker.statistics();
    body(worker);
    let after = worker.statistics();
    let Counters { lines_written_back, fences, .. } = foreground(after) - foreground(before);
    (lines_written_back, fences, after.log_bytes - before.log_bytes)
}

#[test]
fn a_commit_waits_for_one_fence_of_its_log_lines() {
    for mode in MODES {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker::<Blurred>(mode).unwrap();
        // Records are 16 bytes, four to a line; a transaction of n words takes n + 1 records, and begins
        // a line.
        for words in [1u64, 2, 3, 4, 7, 8, 40, 1, 1, 100] {
            let lines = (words + 1).div_ceil(4);
            let counted = cost(&mut worker, |w| write_words(w, words).unwrap());
            assert_eq!(counted, (lines, 1, lines * 64), "{words} words, {mode:?}");
        }
    }
}

#[test]
fn empty_and_read_only_transactions_flush_and_fence_nothing() {
    for mode in MODES {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker::<Blurred>(mode).unwrap();
        assert_eq!(cost(&mut worker, |w| w.run(|_| Ok(())).unwrap()), (0, 0, 0));
        let read = |w: &mut Worker<_, Blurred>| {
            w.run(|tx| tx.read(tx.root(0))).unwrap();
            w.view(|tx| tx.read(tx.root(0))).unwrap();
        };
        assert_eq!(cost(&mut worker, read), (0, 0, 0));
        assert_eq!(worker.statistics().read_only, 3);
    }
}

#[test]
fn no_persistence_flushes_and_fences_nothing() {
    for mode in MODES {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker::<NoPersistence>(mode).unwrap();
        assert_eq!(cost(&mut worker, |w| write_words(w, 50).unwrap()), (0, 0, 0));
        assert_eq!(worker.view(|tx| tx.read(tx.root(0).word(49))).unwrap(), 49);
    }
}

/// An abort of 200 blocks (1,600 bytes, 100 records) leaves abort records over records 31, 63 and 95 and
/// after the last; the next commit's count includes their lines.
#[test]
fn a_commit_writes_back_abort_records_not_yet_durable() {
    for mode in MODES {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker::<Blurred>(mode).unwrap();
        let aborted = |w: &mut Worker<_, Blurred>| {
            let result = w.run(|tx| {
                let at = tx.root(0);
                (0..100).try_for_each(|i| tx.write(at.word(i), 7))?;
                Err::<(), _>(Abort::User)
            });
            assert!(matches!(result, Err(strandline::Error::Aborted)));
        };
        assert_eq!(cost(&mut worker, aborted), (0, 0, 0), "an abort waits for nothing");
        // Abort records: lines 7, 15, 23 and 25; data and commit records 101 and 102: line 25 again, which is
        // filled up.
        assert_eq!(cost(&mut worker, |w| write_words(w, 1).unwrap()), (4, 1, 3 * 16));
        // Durable now: not written back again.
        assert_eq!(cost(&mut worker, |w| write_words(w, 1).unwrap()), (1, 1, 64));
    }
}

#[test]
fn bulk_persistence_and_restart_are_counted_apart() {
    for mode in MODES {
        let pool = TestPool::new(GEOMETRY, None, 0, 1, None);
        let mut worker = pool.worker::<Blurred>(mode).unwrap();
        // 1,024 lines; a transaction of one word takes one.
        for _ in 0..1024 {
            write_words(&mut worker, 1).unwrap();
        }
        let before = worker.statistics();
        assert_eq!((before.bulk_persists, before.log_restarts), (0, 0));
        assert_eq!(cost(&mut worker, |w| write_words(w, 1).unwrap()), (1, 1, 64));
        let after = worker.statistics();
        assert_eq!((after.bulk_persists, after.log_restarts), (1, 1));
        // One home line, which all transactions wrote, and the watermark; nothing in the log was left to
        // write back.
        let bulk = after.bulk - before.bulk;
        assert_eq!((bulk.lines_written_back, bulk.fences), (2, 2));
    }
}

#[test]
fn a_transaction_larger_than_its_log_changes_nothing() {
    for mode in MODES {
        let pool = TestPool::new(support::SMALL, None, 0, 1, None);
        let mut worker = pool.worker::<Blurred>(mode).unwrap();
        write_words(&mut worker, 200).unwrap();
        for _ in 0..3 {
            let result = write_words(&mut worker, 256);
            assert!(
                matches!(result, Err(strandline::Error::TransactionTooLarge { records: 256 })),
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
