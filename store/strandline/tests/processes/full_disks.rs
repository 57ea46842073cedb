//! Small file systems that are filled up: pools, and copies of them that have holes or share their space with the original. Acknowledged data
//! survives, and a full disk is an error that passes. Mounting needs root; if a file system is not available, the test reports that and leaves it
//! out.

use std::ops::Range;
use std::path::Path;

use strandline_core::engine::Tx;
use strandline_core::file::log_path;
use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::sync::SyncParameters;
use strandline_core::{Abort, Domain, Error, Options, Pool, Read, Runner, Transaction};

use super::mounted::{Mounted, succeeds};

const PAGES: u64 = 256;
/// The number of pages with contents in a copy of a closed pool, and in one of an open pool, of whose pages the last ones are only in the log.
const STORED: u64 = 4;
const STORED_AND_LOGGED: u64 = 40;

fn options(domain: Domain) -> Options {
    Options {
        domain,
        geometry: Geometry { size: 64 << 20, logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 16 },
        sync: SyncParameters {
            ring_blocks: 64,
            initial_ring_blocks: 64,
            dirty_pages: 64,
            ..SyncParameters::default()
        },
        lock_bits: 10,
        ..Options::default()
    }
}

/// Opens the pool, for reading or for writing.
fn open(path: &Path, read_only: bool) -> Result<Pool, Error> {
    let open = if read_only { Pool::open_read_only } else { Pool::open };
    open(path, &options(Domain::Sync))
}

/// Creates and closes a pool with a block most of whose pages are zeros.
fn create(path: &Path) -> PersistentAddress {
    let pool = Pool::create(path, &options(Domain::Sync)).unwrap();
    let mut worker = pool.worker().unwrap();
    let block = worker.run(|tx| tx.alloc(PAGES * 4096)).unwrap();
    worker.run(|tx| store(tx, block, 0..STORED)).unwrap();
    drop(worker);
    pool.close().unwrap();
    block
}

fn store(tx: &mut Tx, block: PersistentAddress, mut pages: Range<u64>) -> Result<(), Abort> {
    pages.try_for_each(|page| tx.write(block.byte(4096 * page), 1000 + page))
}

/// Copies both files of a pool.
fn copy([heap, log]: [&str; 2], from: &Path, to: &Path) -> bool {
    let copy = |how: &str, from: &Path, to: &Path| {
        let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
        // Without the flag, `cp` would share the space where it can.
        let shares = if how.starts_with("--reflink") { how } else { "--reflink=never" };
        succeeds("cp", &[how, shares, from, to])
    };
    copy(heap, from, to) && copy(log, &log_path(from), &log_path(to))
}

/// While the disk is full, opens the pool for reading and for writing, changes its content and compares it, and does so again when there is room.
/// The first `stored` pages have contents. Returns the number of transactions that were refused. With `must_open`, opening for writing must succeed,
/// too.
fn use_full(mounted: &Mounted, path: &Path, block: PersistentAddress, stored: u64, must_open: bool) -> u64 {
    let what = path.display();
    let reader = open(path, true).unwrap_or_else(|error| panic!("{what}: {error}"));
    let last = block.byte(4096 * (stored - 1));
    assert_eq!(reader.worker().unwrap().view(|tx| tx.read(last)).unwrap(), 999 + stored);
    reader.close().unwrap();
    let mut expected: Vec<u64> = (0..PAGES).map(|page| if page < stored { 1000 + page } else { 0 }).collect();
    let mut refused = 0;
    match open(path, false) {
        Ok(pool) => {
            let mut worker = pool.worker().unwrap();
            for round in 0..3 {
                for page in 0..PAGES {
                    let value = 1 + round * PAGES + page;
                    match worker.run(|tx| tx.write(block.byte(4096 * page), value)) {
                        Ok(()) => expected[page as usize] = value,
                        Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::ENOSPC) => {
                            refused += 1
                        }
                        Err(error) => panic!("{what}: {error}"),
                    }
                }
                pool.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            drop(worker);
            pool.close().unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::ENOSPC) && !must_open => {
            refused = 1
        }
        Err(error) => panic!("{what}: {error}"),
    }
    mounted.make_room();
    let pool = open(path, false).unwrap();
    let mut worker = pool.worker().unwrap();
    for (page, &value) in (0..).zip(&expected) {
        assert_eq!(worker.view(|tx| tx.read(block.byte(4096 * page))).unwrap(), value, "{what}, page {page}");
    }
    worker.run(|tx| (0..PAGES).try_for_each(|page| tx.write(block.byte(4096 * page), 7))).unwrap();
    pool.checkpoint().unwrap();
    refused
}

/// The origin of a pool.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Made {
    ByTheLibrary,
    ByABackup,
    /// `cp` with these flags for the heap and for the log.
    Copied([&'static str; 2]),
    /// The same, while the pool is open.
    CopiedWhileOpen([&'static str; 2]),
}

/// Copies in `lacks` lack space for parts that are in use, but the pool must open for writing all the same.
fn explore(kind: &str, copies: &[Made], lacks: &[Made]) {
    let Some(mounted) = Mounted::new(kind) else { return };
    let original = mounted.at.join("pool");
    let block = create(&original);
    let mut pools = Vec::new();
    for (number, &made) in copies.iter().enumerate() {
        let to = mounted.at.join(format!("copy{number}"));
        if let Made::Copied(how) = made {
            assert!(copy(how, &original, &to), "{kind}: {made:?}");
            pools.push((made, to));
        }
    }
    let backup = mounted.at.join("backup");
    let pool = open(&original, false).unwrap();
    pool.backup(&backup).unwrap();
    let mut worker = pool.worker().unwrap();
    worker.run(|tx| store(tx, block, STORED..STORED_AND_LOGGED)).unwrap();
    drop(worker);
    for (number, &made) in copies.iter().enumerate() {
        let to = mounted.at.join(format!("crashed{number}"));
        if let Made::Copied(how) = made {
            assert!(copy(how, &original, &to), "{kind}: {made:?}");
            pools.push((Made::CopiedWhileOpen(how), to));
        }
    }
    assert!(!pool.recovery().overwriting_takes_space, "{kind}: new files are overwritten in place");
    pool.close().unwrap();
    // Opening gives the backup its log.
    open(&backup, false).unwrap().close().unwrap();
    // On tmpfs each access to a part that was never used takes space; in `Sync` also the accesses to the logs of threads.
    if kind != "tmpfs" {
        pools.extend([(Made::ByABackup, backup), (Made::ByTheLibrary, original)]);
    }
    for (made, path) in pools {
        mounted.fill();
        let is_own = matches!(made, Made::ByTheLibrary | Made::ByABackup);
        let is_logged = matches!(made, Made::ByTheLibrary | Made::CopiedWhileOpen(_));
        let stored = if is_logged { STORED_AND_LOGGED } else { STORED };
        let refused = use_full(&mounted, &path, block, stored, is_own || lacks.contains(&made));
        println!("{kind}, {made:?}: {refused} transactions refused");
        assert!(refused == 0 || !is_own, "{kind}, {made:?}: the pool has space for what it holds");
        assert!(refused > 0 || !lacks.contains(&made), "{kind}, {made:?}: it was to lack space");
    }
}

const WHOLE: Made = Made::Copied(["--sparse=never", "--sparse=never"]);
const HOLES: Made = Made::Copied(["--sparse=always", "--sparse=always"]);
const HOLES_IN_HEAP: Made = Made::Copied(["--sparse=always", "--sparse=never"]);
const SHARED: Made = Made::Copied(["--reflink=always", "--reflink=always"]);
const SHARED_HEAP: Made = Made::Copied(["--reflink=always", "--sparse=never"]);

#[test]
fn ext4() {
    explore("ext4", &[WHOLE, HOLES, HOLES_IN_HEAP], &[HOLES_IN_HEAP]);
}

/// An overlay behaves like the file system to which it writes.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn overlay() {
    explore("overlay", &[WHOLE, HOLES, HOLES_IN_HEAP], &[HOLES_IN_HEAP]);
}

#[test]
fn tmpfs() {
    // On a full tmpfs, holes cannot even be read.
    explore("tmpfs", &[WHOLE], &[]);
}

#[test]
fn xfs() {
    explore("xfs", &[WHOLE, HOLES, HOLES_IN_HEAP, SHARED, SHARED_HEAP], &[HOLES_IN_HEAP, SHARED_HEAP]);
}

#[test]
fn btrfs() {
    explore("btrfs", &[], &[]);
}

#[test]
fn ext3() {
    explore("ext3", &[WHOLE], &[]);
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn ext4_with_sectors_of_4_kb() {
    explore("ext4-4k", &[WHOLE, HOLES_IN_HEAP], &[HOLES_IN_HEAP]);
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn ext4_with_large_clusters() {
    explore("ext4-bigalloc", &[WHOLE], &[]);
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn ext4_with_a_journal_of_data() {
    explore("ext4-journal", &[WHOLE, HOLES_IN_HEAP], &[HOLES_IN_HEAP]);
}

#[test]
fn bindfs() {
    explore("bindfs", &[WHOLE], &[]);
}
