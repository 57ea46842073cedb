//! Growth of pools: they begin small, their files become longer with their heaps, and addresses behind a file's end are never accessed.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use strandline_core::file::{check, log_path};
use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::{Domain, Error, Options, Pool, Read, Runner, Transaction};
use tempfile::TempDir;

const DOMAINS: [Domain; 2] = [Domain::Sync, Domain::Process];

/// Returns the default options, including the default size.
fn defaults(domain: Domain) -> Options {
    Options { domain, ..Options::default() }
}

/// Returns options with small chunks, and room for many.
fn small_chunks(domain: Domain) -> Options {
    let geometry = Geometry { size: 256 << 30, logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 16 };
    Options { geometry, lock_bits: 10, ..defaults(domain) }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

fn on_disk(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |about| 512 * about.blocks())
}

#[test]
fn a_new_pool_takes_little_and_grows_without_a_size_to_choose() {
    for domain in DOMAINS {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("pool");
        let pool = Pool::create(&path, &defaults(domain)).unwrap();
        let mut worker = pool.worker().unwrap();
        worker.run(|tx| tx.alloc(1000)).unwrap();
        let taken = on_disk(&path) + on_disk(&log_path(&path));
        assert!(taken < 8 << 20, "{domain:?}: {taken} bytes");
        let mut blocks = Vec::new();
        for number in 0..11 {
            let block = worker.run(|tx| {
                let block = tx.alloc(32 << 20)?;
                tx.write(block, number)?;
                // Accesses the end of the block, for which the disk has allocated all space.
                tx.write(block.byte((32 << 20) - 8), number)?;
                Ok(block)
            });
            blocks.push(block.unwrap());
            assert!(
                on_disk(&path) > (number + 1) * (32 << 20),
                "{domain:?}: space is taken before it is used"
            );
        }
        assert!(length(&path) > 352 << 20);
        // As a kill leaves it.
        drop(pool);
        drop(worker);
        let pool = Pool::open(&path, &defaults(domain)).unwrap();
        let mut worker = pool.worker().unwrap();
        for (number, &block) in (0..).zip(&blocks) {
            let ends = |tx: &mut dyn Read| Ok([tx.read(block)?, tx.read(block.byte((32 << 20) - 8))?]);
            assert_eq!(worker.view(|tx| ends(tx)).unwrap(), [number; 2]);
        }
        let before = length(&path);
        worker.run(|tx| blocks.iter().try_for_each(|&block| tx.free(block))).unwrap();
        worker.run(|tx| tx.alloc(300 << 20)).unwrap();
        assert_eq!(length(&path), before, "what is free is used first");
        drop(worker);
        pool.close().unwrap();
        assert!(check(&path, Default::default()).unwrap().damage.is_empty());
    }
}

#[test]
fn what_lies_behind_the_end_of_the_file_is_an_error_until_it_is_there() {
    for domain in DOMAINS {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("pool");
        let pool = Pool::create(&path, &small_chunks(domain)).unwrap();
        let (mut worker, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
        let mut snapshot = pool.snapshot().unwrap();
        let end = length(&path);
        let wild = |result: Result<u64, Error>| assert!(matches!(result, Err(Error::InvalidAddress(_))));
        for offset in [end, end + 4096, 200 << 30, (256 << 30) - 4096, 256 << 30] {
            let at = PersistentAddress::new(offset);
            wild(worker.run(|tx| tx.read(at)));
            wild(worker.view(|tx| tx.read(at)));
            wild(worker.run(|tx| tx.write(at, 1).map(|()| 0)));
            wild(worker.run(|tx| tx.block(at)));
            wild(worker.view(|tx| tx.read_array(at).map(|[word, _]| word)));
            wild(snapshot.read(|tx| tx.read(at)));
            wild(snapshot.read(|tx| tx.read_range(at, &mut [0; 64]).map(|()| 0)));
            assert!(matches!(worker.run(|tx| tx.free(at)), Err(Error::InvalidFree(_))));
        }
        let last = PersistentAddress::new(end - 8);
        assert_eq!(worker.view(|tx| tx.read(last)).unwrap(), 0);
        wild(worker.view(|tx| tx.read_range(last, &mut [0; 2]).map(|()| 0)));
        // One worker makes the file grow, and workers that have checked its size before notice this.
        let block = other.run(|tx| {
            let block = tx.alloc(4 << 20)?;
            tx.write(block.byte((4 << 20) - 8), 7)?;
            Ok(block.byte((4 << 20) - 8))
        });
        let block = block.unwrap();
        assert!(block.offset() > end);
        assert_eq!(worker.view(|tx| tx.read(block)).unwrap(), 7);
        assert_eq!(worker.run(|tx| tx.read_array(block)).unwrap(), [7]);
        assert_eq!(snapshot.read(|tx| tx.read(block)).unwrap(), 0, "it was not there");
        assert_eq!(pool.snapshot().unwrap().read(|tx| tx.read(block)).unwrap(), 7);
        drop((worker, other, snapshot));
        pool.close().unwrap();
        // A reader maps the file with its present length.
        let pool = Pool::open_read_only(&path, &small_chunks(domain)).unwrap();
        let mut worker = pool.worker().unwrap();
        assert_eq!(worker.view(|tx| tx.read(block)).unwrap(), 7);
        wild(worker.view(|tx| tx.read(PersistentAddress::new(length(&path)))));
    }
}

/// Only a log records that the heap has grown.
#[test]
fn a_file_that_is_shorter_than_its_log_says_is_refused() {
    for domain in DOMAINS {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("pool");
        let pool = Pool::create(&path, &small_chunks(domain)).unwrap();
        let (before, layout) = (length(&path), *pool.layout());
        let mut worker = pool.worker().unwrap();
        worker.run(|tx| tx.alloc(4 << 20)).unwrap();
        let after = length(&path);
        assert!(before < after);
        // As a kill leaves it.
        drop(pool);
        drop(worker);
        let file = File::options().write(true).open(&path).unwrap();
        // Under `Sync` the new number of chunks is at home only in memory. This makes it so in the other domains.
        file.write_all_at(&layout.chunks_in(before).to_le_bytes(), layout.reached().offset()).unwrap();
        file.set_len(before).unwrap();
        let refused = Pool::open(&path, &small_chunks(domain)).err();
        assert!(matches!(refused, Some(Error::Truncated { found, .. }) if found == before), "{refused:?}");
        file.set_len(after).unwrap();
        let pool = Pool::open(&path, &small_chunks(domain)).unwrap();
        assert_eq!(pool.usage().unwrap().objects, 1);
        drop(pool);
        file.set_len(before).unwrap();
        let refused = Pool::open(&path, &small_chunks(domain)).err();
        assert!(matches!(refused, Some(Error::Truncated { found, .. }) if found == before), "{refused:?}");
        // The number of chunks is larger than any pool can have.
        file.set_len(after).unwrap();
        file.write_all_at(&(layout.chunk_count + 1).to_le_bytes(), layout.reached().offset()).unwrap();
        assert!(matches!(Pool::open(&path, &small_chunks(domain)), Err(Error::Damaged { .. })));
    }
}

#[test]
fn a_pool_of_a_given_size_does_not_grow_past_it() {
    for domain in DOMAINS {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("pool");
        let geometry = Geometry { size: 8 << 20, ..small_chunks(domain).geometry };
        let options = Options { geometry, ..small_chunks(domain) };
        let pool = Pool::create(&path, &options).unwrap();
        let mut worker = pool.worker().unwrap();
        let mut blocks = 0;
        let full = loop {
            match worker.run(|tx| tx.alloc(1 << 20)) {
                Ok(_) => blocks += 1,
                Err(full) => break full,
            }
        };
        assert!(matches!(full, Error::Full { .. }), "{full}");
        assert!(blocks == 7 && length(&path) <= 8 << 20, "{blocks}");
        drop(worker);
        pool.close().unwrap();
        // Another pool may grow, but not beyond its address space.
        let path = folder.path().join("other");
        Pool::create(&path, &small_chunks(domain)).unwrap().close().unwrap();
        let length_now = length(&path).next_multiple_of(4096);
        let with = |address_space| Options { address_space: Some(address_space), ..small_chunks(domain) };
        let pool = Pool::open(&path, &with(length_now + (2 << 20))).unwrap();
        let mut worker = pool.worker().unwrap();
        while worker.run(|tx| tx.alloc(1 << 18)).is_ok() {}
        assert!(matches!(worker.run(|tx| tx.alloc(1 << 18)), Err(Error::Full { .. })));
        assert!(length(&path) > length_now + (1 << 20) && length(&path) <= length_now + (2 << 20));
        drop(worker);
        pool.close().unwrap();
        let error = Pool::open(&path, &with(length_now)).err().unwrap();
        assert!(error.to_string().contains("address_space"), "{error}");
        let pool = Pool::open(&path, &small_chunks(domain)).unwrap();
        pool.worker().unwrap().run(|tx| tx.alloc(4 << 20)).unwrap();
    }
}

/// It is not damage if a copy's log refers to chunks that the copy's file does not have yet.
#[test]
fn copies_are_made_while_the_pool_grows() {
    for domain in DOMAINS {
        let folder = TempDir::new().unwrap();
        let pool = Pool::create(folder.path().join("pool"), &small_chunks(domain)).unwrap();
        let mut worker = pool.worker().unwrap();
        let done = AtomicBool::new(false);
        let most = std::thread::scope(|threads| {
            let grow = threads.spawn(|| {
                let mut blocks = 0;
                while blocks < 64 && !done.load(Ordering::Relaxed) {
                    blocks += 1;
                    // A list of blocks, each of which makes the file grow.
                    let linked = worker.run(|tx| {
                        let block = tx.alloc(1 << 20)?;
                        let next = tx.read(tx.root(0))?;
                        tx.write(block, next)?;
                        tx.write(tx.root(0), block.offset())?;
                        tx.write(tx.root(1), blocks)
                    });
                    linked.unwrap();
                }
                blocks
            });
            for number in 0..5 {
                let copy = folder.path().join(format!("copy {number}"));
                pool.backup(&copy).unwrap();
                let copied = Pool::open_read_only(&copy, &small_chunks(Domain::Process)).unwrap();
                let mut reader = copied.worker().unwrap();
                let (found, expected) = reader
                    .view(|tx| {
                        let (mut at, mut found) = (tx.read(tx.root(0))?, 0);
                        while at != 0 {
                            at = tx.read(PersistentAddress::new(at))?;
                            found += 1;
                        }
                        Ok((found, tx.read(tx.root(1))?))
                    })
                    .unwrap();
                assert_eq!(found, expected, "{domain:?}");
                assert_eq!(copied.usage().unwrap().objects, found);
                std::fs::remove_file(&copy).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            grow.join().unwrap()
        });
        assert!(most > 1);
    }
}
