//! Compaction releases space to the file system while transactions and snapshots run, and keeps all contents.

use std::os::unix::fs::FileExt;

use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::layout::Geometry;
use strandline_core::memory::{Native, PersistentAddress};
use strandline_core::{Domain, Options, Pool, Read, Runner, Transaction};
use tempfile::TempDir;

fn options(domain: Domain) -> Options {
    let geometry = Geometry { size: 96 << 20, logs: 4, log_bytes: 256 << 10, chunk_bytes: 256 << 10 };
    Options { domain, geometry, ..Options::default() }
}

/// Allocates blocks of many sizes, each with its own address in its first and last word.
fn fill<C: Control<Memory = Native>>(pool: &Pool<C>, bytes: u64) -> Vec<(PersistentAddress, u64)> {
    let mut worker = pool.worker().unwrap();
    let (mut blocks, mut filled, mut number) = (Vec::new(), 0, 0);
    while filled < bytes {
        number += 1;
        let size = if number % 20 == 0 { 100_000 + number * 1000 % 700_000 } else { 16 + number * 37 % 9000 }
            / 8
            * 8;
        let block = worker
            .run_later(|tx| {
                let at = tx.alloc(size)?;
                tx.write(at, at.offset())?;
                tx.write(at.byte(size - 8), at.offset())?;
                Ok(at)
            })
            .unwrap()
            .0;
        blocks.push((block, size));
        filled += size;
    }
    blocks
}

fn are_whole<C: Control<Memory = Native>>(pool: &Pool<C>, blocks: &[(PersistentAddress, u64)]) {
    let mut worker = pool.worker().unwrap();
    for &(at, size) in blocks {
        let words = worker.view(|tx| Ok((tx.read(at)?, tx.read(at.byte(size - 8))?))).unwrap();
        assert_eq!(words, (at.offset(), at.offset()));
    }
}

fn empties<C: Control<Memory = Native>>(setup: impl Into<Setup<C>> + Copy, domain: Domain) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pool");
    let pool = setup.into().create(&path, &options(domain)).unwrap();
    for _ in 0..2 {
        let mut blocks = fill(&pool, 48 << 20);
        pool.checkpoint().unwrap();
        let kept = blocks.split_off(blocks.len() - 10);
        let mut worker = pool.worker().unwrap();
        for &(block, _) in &blocks {
            worker.run_later(|tx| tx.free(block)).unwrap();
        }
        drop(worker);
        let report = pool.compact().unwrap();
        let space = pool.space().unwrap();
        assert!(report.disk_bytes_before > 48 << 20, "{report:?}");
        assert!(space.disk_bytes < 12 << 20 && space.file_bytes <= 96 << 20, "{space:?}");
        assert_eq!((report.kept_bytes, report.disk_bytes), (0, space.disk_bytes));
        are_whole(&pool, &kept);
        let mut worker = pool.worker().unwrap();
        for (block, _) in kept {
            worker.run_later(|tx| tx.free(block)).unwrap();
        }
    }
    let usage = pool.usage().unwrap();
    assert_eq!(usage.free_chunks * pool.layout().geometry.chunk_bytes, usage.total_bytes);
    let report = pool.compact().unwrap();
    assert!(report.disk_bytes < 8 << 20, "{report:?}");
    let length = || std::fs::metadata(&path).unwrap().len();
    assert!(length() > 48 << 20, "it is cut off when nobody has it open");
    pool.close().unwrap();
    assert!(length() < 4 << 20, "{}", length());
    let pool = setup.into().open(&path, &options(domain)).unwrap();
    // Blocks that are allocated after the compaction are there when the pool is opened again.
    let blocks = fill(&pool, 20 << 20);
    pool.close().unwrap();
    let pool = setup.into().open(&path, &options(domain)).unwrap();
    are_whole(&pool, &blocks);
}

#[test]
fn an_emptied_pool_takes_little_of_the_disk() {
    for domain in [Domain::Sync, Domain::Process] {
        empties(Stm, domain);
        empties(SingleWriter, domain);
    }
}

/// The state after a crash between lowering `reached` and truncating the file. The newest slot is lost too, so that recovery starts from the other
/// one. It must replay nothing, since a record could refer to an address behind the end of the file.
#[test]
fn a_file_that_was_about_to_be_cut_off_opens() {
    for domain in [Domain::Sync, Domain::Process] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("pool");
        let pool = Pool::create(&path, &options(domain)).unwrap();
        let kept = fill(&pool, 1 << 20);
        let blocks = fill(&pool, 20 << 20);
        let mut worker = pool.worker().unwrap();
        blocks.into_iter().for_each(|(block, _)| worker.run_later(|tx| tx.free(block)).unwrap().0);
        drop(worker);
        pool.compact().unwrap();
        pool.close().unwrap();
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let short = file.metadata().unwrap().len();
        assert!(short < 12 << 20, "{short}");
        file.set_len(short + (20 << 20)).unwrap();
        if domain == Domain::Sync {
            let generation = |slot: &u64| {
                let mut word = [0; 8];
                file.read_exact_at(&mut word, slot * 4096 + 8).unwrap();
                u64::from_le_bytes(word)
            };
            let newest = [1, 2].into_iter().max_by_key(generation).unwrap();
            file.write_all_at(&[0; 512], newest * 4096).unwrap();
        }
        let pool = Pool::open(&path, &options(domain)).unwrap();
        assert_eq!(pool.recovery().replayed(), 0);
        are_whole(&pool, &kept);
        pool.close().unwrap();
        assert_eq!(file.metadata().unwrap().len(), short);
    }
}

#[test]
fn compaction_beside_transactions() {
    for domain in [Domain::Sync, Domain::Process] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("pool");
        let pool = Pool::create(&path, &options(domain)).unwrap();
        let blocks = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut left = Vec::new();
                for _ in 0..30 {
                    let blocks = fill(&pool, 1 << 20);
                    are_whole(&pool, &blocks);
                    let mut worker = pool.worker().unwrap();
                    for (number, &(block, size)) in blocks.iter().enumerate() {
                        if number % 9 == 0 {
                            left.push((block, size));
                        } else {
                            worker.run_later(|tx| tx.free(block)).unwrap();
                        }
                    }
                }
                left
            });
            let mut punched = 0;
            while !worker.is_finished() {
                punched += pool.compact().unwrap().punched_bytes;
            }
            let left = worker.join().unwrap();
            assert!(punched > 0);
            left
        });
        are_whole(&pool, &blocks);
        pool.close().unwrap();
        are_whole(&Pool::open(&path, &options(domain)).unwrap(), &blocks);
    }
}

#[test]
fn a_snapshot_keeps_what_it_may_read() {
    for domain in [Domain::Sync, Domain::Process] {
        let folder = TempDir::new().unwrap();
        let pool = Pool::create(folder.path().join("pool"), &options(domain)).unwrap();
        let blocks = fill(&pool, 4 << 20);
        let mut snapshot = pool.snapshot().unwrap();
        let mut worker = pool.worker().unwrap();
        for &(block, _) in &blocks {
            worker.run_later(|tx| tx.free(block)).unwrap();
        }
        let report = pool.compact().unwrap();
        assert!(report.punched_bytes == 0 && report.kept_bytes >= 4 << 20, "{report:?}");
        for (at, size) in blocks {
            let word = |at| Read::read(&mut snapshot, at).unwrap();
            let words = [at, at.byte(size - 8)].map(word);
            assert_eq!(words, [at.offset(); 2]);
        }
        drop(snapshot);
        let report = pool.compact().unwrap();
        assert!(report.kept_bytes == 0 && report.disk_bytes < 8 << 20, "{report:?}");
    }
}
