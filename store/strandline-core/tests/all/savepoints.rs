//! Returns to a savepoint while chunks change their use within the transaction, in small transactions and large ones.

use strandline_core::engine::Tx;
use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::{Abort, Domain, Error, Options, Pool, Read, Runner, Transaction};
use tempfile::TempDir;

const CHUNK: u64 = 64 << 10;

fn options() -> Options {
    let geometry = Geometry { size: 64 << 20, logs: 2, log_bytes: 64 << 10, chunk_bytes: CHUNK };
    Options { domain: Domain::Process, geometry, ..Options::default() }
}

fn fill(tx: &mut Tx, at: PersistentAddress, bytes: u64) -> Result<(), Abort> {
    let words: Vec<u64> = (0..bytes / 8).map(|word| at.word(word).offset()).collect();
    tx.write_range(at, &words)
}

#[track_caller]
fn is_whole(pool: &Pool, at: PersistentAddress, bytes: u64) {
    let mut words = vec![0; bytes as usize / 8];
    let mut worker = pool.worker().unwrap();
    worker.view(|tx| tx.read_range(at, &mut words)).unwrap();
    assert!((0..).zip(&words).all(|(word, &value)| value == at.word(word).offset()), "{at:?}");
    assert!(worker.view(|tx| tx.is_allocated(at)).unwrap());
}

#[test]
fn what_took_the_place_of_something_leaves_it_as_it_was() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::create(&path, &options()).unwrap();
    let sizes = [3 * CHUNK, CHUNK, 16 << 10, 16 << 10, 16 << 10, 4000, 64];
    let made = sizes.map(|bytes| {
        let at = pool.worker().unwrap().run(|tx| tx.alloc(bytes)).unwrap();
        pool.worker().unwrap().run(|tx| fill(tx, at, bytes)).unwrap();
        (at, bytes)
    });
    pool.close().unwrap();
    // A new worker, whose arena has no hints.
    let pool = Pool::open(&path, &options()).unwrap();
    let mut worker = pool.worker().unwrap();
    for other in [40, 1000, 4000, 10_000, CHUNK, 2 * CHUNK, 5 * CHUNK] {
        worker
            .run(|tx| {
                let savepoint = tx.set_savepoint();
                made.iter().try_for_each(|&(at, _)| tx.free(at))?;
                for _ in 0..6 {
                    let at = tx.alloc(other)?;
                    tx.write(at, 7)?;
                }
                assert!(tx.roll_back_to(savepoint)?);
                tx.release_savepoint(savepoint);
                Ok(())
            })
            .unwrap();
        for (at, bytes) in made {
            is_whole(&pool, at, bytes);
        }
    }
    assert_eq!(pool.usage().unwrap().objects, 7);
}

/// Changes so many granules that the journal of a large transaction takes chunk after chunk.
fn churn(tx: &mut Tx, big: PersistentAddress) -> Result<(), Abort> {
    (0..BIG / 512).try_for_each(|granule| tx.write(big.byte(512 * granule), granule))
}

const BIG: u64 = 4 << 20;

#[test]
fn the_journal_takes_nothing_that_comes_back() {
    let folder = TempDir::new().unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let mut worker = pool.worker().unwrap();
    let big = worker.run(|tx| {
        let big = tx.alloc(BIG)?;
        fill(tx, big, BIG)?;
        Ok(big)
    });
    let big = big.unwrap();
    for gives_up in [false, true] {
        let mut kept = Vec::new();
        let done = worker.run(|tx| {
            kept.clear();
            // One block that exists at the savepoint, and one that does not.
            let before = tx.alloc(CHUNK)?;
            fill(tx, before, CHUNK)?;
            let savepoint = tx.set_savepoint();
            tx.free(before)?;
            let between = tx.alloc(2 * CHUNK)?;
            tx.free(between)?;
            churn(tx, big)?;
            assert!(tx.roll_back_to(savepoint)?);
            kept.push(before);
            for _ in 0..8 {
                let at = tx.alloc(CHUNK)?;
                fill(tx, at, CHUNK)?;
                kept.push(at);
            }
            if gives_up { Err(Abort::User) } else { Ok(()) }
        });
        assert_eq!(matches!(done, Err(Error::Aborted)), gives_up, "{done:?}");
        is_whole(&pool, big, BIG);
        if !gives_up {
            kept.iter().for_each(|&at| is_whole(&pool, at, CHUNK));
        }
        assert_eq!(pool.usage().unwrap().objects, 10);
    }
}

#[test]
fn a_number_of_a_savepoint_is_used_once() {
    let folder = TempDir::new().unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let root = pool.layout().root(0);
    let written = pool.worker().unwrap().run(|tx| {
        let (first, second) = (tx.set_savepoint(), tx.set_savepoint());
        assert!(tx.roll_back_to(first)?);
        tx.release_savepoint(first);
        let _third = tx.set_savepoint();
        tx.write(root, 5)?;
        let _fourth = tx.set_savepoint();
        tx.write(root, 6)?;
        assert!(!tx.roll_back_to(second)?, "it is gone");
        tx.release_savepoint(second);
        tx.read(root)
    });
    assert_eq!(written.unwrap(), 6);
}
