//! Repair: pools that are damaged, repaired and compared, and pools that repair refuses.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use strandline::{Bytes, OrderedMap, Persist, Store, Tx};
use strandline_core::file::{check, inspect, log_path, repair};
use strandline_core::layout::{Geometry, Layout};
use strandline_core::scheme::Schemes;
use strandline_core::sync::SyncParameters;
use strandline_core::{Domain, Error, Options, Result};

#[derive(Persist)]
struct Root<'p> {
    map: OrderedMap<'p, u64, String>,
    /// Takes several chunks.
    large: Bytes<'p>,
}

const LARGE: usize = 100_000;

fn make<'p>(tx: &Tx<'p>) -> Result<Root<'p>> {
    Ok(Root { map: OrderedMap::new(tx)?, large: Bytes::new(tx, large())? })
}

fn large() -> Vec<u8> {
    (0..LARGE).map(|at| (at * 7 % 251) as u8).collect()
}

fn options(domain: Domain) -> Options {
    let geometry = Geometry { size: 2 << 20, logs: 2, log_bytes: 1 << 18, chunk_bytes: 1 << 13 };
    let sync = SyncParameters {
        ring_blocks: 128,
        initial_ring_blocks: 128,
        dirty_pages: 256,
        staging_blocks: 2,
        ..SyncParameters::default()
    };
    Options { domain, geometry, sync, lock_bits: 8, ..Options::default() }
}

type Contents = BTreeMap<u64, String>;

/// A pool that was opened twice, a copy of its files, closed or as a kill leaves them, and its content.
struct Made {
    folder: tempfile::TempDir,
    domain: Domain,
    contents: Contents,
}

impl Made {
    fn new(domain: Domain, clean: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("first");
        Store::<Root>::create_new(&first, &options(domain), make).unwrap().close().unwrap();
        let store = Store::<Root>::open_existing(&first, &options(domain)).unwrap();
        let mut contents = Contents::new();
        for key in 0..40 {
            // One value needs several blocks of the log, which one flush writes.
            let value = format!("value {key}").repeat(if key == 20 { 1500 } else { 1 });
            store.write(|tx, root| root.get(tx)?.map.insert(tx, &key, &value)).unwrap();
            contents.insert(key, value);
        }
        let made = Self { folder, domain, contents };
        let store = if clean {
            store.close().unwrap();
            None
        } else {
            Some(store)
        };
        std::fs::copy(&first, made.pool()).unwrap();
        if log_path(&first).exists() {
            std::fs::copy(log_path(&first), made.log()).unwrap();
        }
        drop(store);
        made
    }

    fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    fn log(&self) -> PathBuf {
        log_path(&self.pool())
    }

    fn layout(&self) -> Layout {
        Layout::new(options(self.domain).geometry).unwrap()
    }

    fn contents(&self) -> (Contents, Vec<u8>) {
        let store = Store::<Root>::open_existing(self.pool(), &options(self.domain)).unwrap();
        let found = store
            .read(|tx, root| {
                let root = root.get(tx)?;
                Ok((root.map.iter(tx).collect::<Result<_>>()?, root.large.get(tx)?))
            })
            .unwrap();
        store.close().unwrap();
        found
    }

    /// Checks that repair restores the pool, reports `count` repairs, and loses nothing.
    #[track_caller]
    fn is_repaired(&self, count: usize) {
        let before = self.files();
        let report = repair(self.pool(), Schemes::default()).unwrap();
        assert_eq!(report.repaired.len(), count, "{report:?}");
        assert!(check(self.pool(), Schemes::default()).unwrap().damage.is_empty());
        let kept: Vec<_> = report.kept.iter().map(|kept| std::fs::read(kept).unwrap()).collect();
        assert!(before.iter().all(|file| kept.contains(file)), "the files as they were are kept");
        assert_eq!(repair(self.pool(), Schemes::default()).unwrap().repaired, [""; 0], "once is enough");
        assert_eq!(self.contents(), (self.contents.clone(), large()));
    }

    /// Checks that repair refuses the pool and changes nothing.
    #[track_caller]
    fn is_refused(&self) {
        let (before, names) = (self.files(), self.names());
        match repair(self.pool(), Schemes::default()) {
            Err(Error::Irreparable { .. }) => {}
            other => panic!("{other:?}"),
        }
        assert!(self.files() == before && self.names() == names, "nothing has changed");
    }

    fn files(&self) -> Vec<Vec<u8>> {
        [self.pool(), self.log()].iter().filter_map(|path| std::fs::read(path).ok()).collect()
    }

    fn names(&self) -> Vec<PathBuf> {
        let mut names: Vec<_> =
            std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    }

    /// Returns the words of the chunk table.
    fn table(&self) -> Vec<u64> {
        let pool = std::fs::read(self.pool()).unwrap();
        let at = self.layout().chunk_table.offset() as usize;
        let words = pool[at..].chunks_exact(8).take(self.layout().chunk_count as usize);
        words.map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

fn patch(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

const ALL: [(Domain, bool); 4] =
    [(Domain::Sync, false), (Domain::Sync, true), (Domain::Process, false), (Domain::Process, true)];

#[test]
fn a_pool_without_damage_is_left_alone() {
    for (domain, clean) in ALL {
        let made = Made::new(domain, clean);
        let (before, names) = (made.files(), made.names());
        assert_eq!(repair(made.pool(), Schemes::default()).unwrap(), Default::default());
        assert!(made.files() == before && made.names() == names);
    }
}

#[test]
fn a_header_is_repaired_where_it_is_known() {
    for (domain, clean) in ALL {
        for offset in [0, 8, 64, 200, 4080] {
            let made = Made::new(domain, clean);
            patch(&made.pool(), offset, b"damage!!");
            made.is_repaired(1);
        }
        // The name of the layout, and the number of logs.
        for offset in [33, 72] {
            let made = Made::new(domain, clean);
            patch(&made.pool(), offset, b"damage!!");
            made.is_refused();
        }
    }
    // The log has the UUID, too.
    let made = Made::new(Domain::Sync, false);
    patch(&made.pool(), 16, b"damage!!");
    made.is_repaired(1);
    let made = Made::new(Domain::Process, false);
    patch(&made.pool(), 16, b"damage!!");
    made.is_refused();
}

#[test]
fn other_files_are_told_apart() {
    let made = Made::new(Domain::Process, true);
    patch(&made.pool(), 0, &[7; 4096]);
    assert!(matches!(repair(made.pool(), Schemes::default()), Err(Error::NotAPool { .. })));
    let made = Made::new(Domain::Process, true);
    let store = Store::<Root>::open_existing(made.pool(), &options(made.domain)).unwrap();
    assert!(matches!(repair(made.pool(), Schemes::default()), Err(Error::Locked { .. })));
    drop(store);
}

#[test]
fn a_file_that_was_cut_short_where_nothing_was_is_extended() {
    for (domain, clean) in ALL {
        let made = Made::new(domain, clean);
        let size = std::fs::metadata(made.pool()).unwrap().len();
        let cut =
            |length: u64| File::options().write(true).open(made.pool()).unwrap().set_len(length).unwrap();
        let used = made.table().iter().rposition(|&word| word != 0).unwrap() as u64 + 1;
        let end = made.layout().chunks.offset() + used * made.layout().geometry.chunk_bytes;
        assert!(end < size - 8192);
        cut(size - 4096);
        made.is_repaired(1);
        let made = Made::new(domain, clean);
        let cut =
            |length: u64| File::options().write(true).open(made.pool()).unwrap().set_len(length).unwrap();
        cut(made.layout().chunks.offset() + 4096);
        made.is_refused();
    }
}

#[test]
fn the_log_of_a_clean_pool_is_made_anew() {
    for damage in 0..3 {
        let made = Made::new(Domain::Sync, true);
        match damage {
            0 => patch(&made.log(), 0, &[7; 4096]),
            1 => File::options().write(true).open(made.log()).unwrap().set_len(40 * 4096).unwrap(),
            _ => patch(&made.log(), 0, b""),
        }
        if damage == 2 {
            // Both slots are overwritten.
            patch(&made.pool(), Layout::CHECKPOINT_SLOTS.offset(), &[7; 8192]);
            made.is_repaired(2);
        } else {
            made.is_repaired(1);
        }
    }
}

#[test]
fn a_log_header_is_repaired_where_it_is_certain() {
    for (offset, bytes) in [(0, 8), (8, 8), (20, 4), (32, 8), (40, 8), (0, 64)] {
        let made = Made::new(Domain::Sync, false);
        patch(&made.log(), offset, &vec![0x55; bytes]);
        made.is_repaired(1);
    }
    // The file was made longer for a larger ring, but the header does not have the new size yet.
    let made = Made::new(Domain::Sync, false);
    File::options().write(true).open(made.log()).unwrap().set_len((1 + 256) * 4096).unwrap();
    patch(&made.log(), 0, &[0x55; 64]);
    made.is_repaired(1);
    let made = Made::new(Domain::Sync, false);
    File::options().write(true).open(made.log()).unwrap().set_len(40 * 4096).unwrap();
    made.is_refused();
    // Another pool's log.
    let other = Made::new(Domain::Sync, false);
    for clean in [false, true] {
        let made = Made::new(Domain::Sync, clean);
        std::fs::copy(other.log(), made.log()).unwrap();
        made.is_refused();
    }
}

/// Returns the number of the newer slot.
fn newer_slot(pool: &Path) -> u64 {
    let bytes = std::fs::read(pool).unwrap();
    let at = |slot: u64| Layout::CHECKPOINT_SLOTS.offset() as usize + 4096 * slot as usize + 8;
    let generation = |slot| u64::from_le_bytes(bytes[at(slot)..at(slot) + 8].try_into().unwrap());
    u64::from(generation(1) > generation(0))
}

/// One random block of those that recovery needs is damaged. The check must report it, and so must opening, unless it is the last block: this looks
/// like a commit that a power failure cut short.
#[test]
fn a_block_of_the_log_that_rots_is_found() {
    let cases: u64 = std::env::var("STRANDLINE_CASES").map_or(200, |cases| cases.parse().unwrap());
    let made = Made::new(Domain::Sync, false);
    let (heap, log) = (std::fs::read(made.pool()).unwrap(), std::fs::read(made.log()).unwrap());
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let slot = (Layout::CHECKPOINT_SLOTS.offset() + newer_slot(&made.pool()) * 4096) as usize;
    let (start, life) = (word(&heap, slot + 16), word(&heap, slot + 40));
    let is_needed = |at: &usize| word(&log, *at) >= start && word(&log, at + 8) >> 8 & 0xff_ffff == life;
    let mut blocks: Vec<usize> = (4096..log.len()).step_by(4096).filter(is_needed).collect();
    blocks.sort_by_key(|&at| word(&log, at));
    assert!(blocks.len() >= 40, "each transaction has a flush of its own: {}", blocks.len());
    let flushes: Vec<usize> = blocks
        .chunk_by(|&one, &next| word(&log, one + 16) == word(&log, next + 16))
        .map(<[_]>::len)
        .collect();
    assert!(
        flushes.iter().any(|&blocks| blocks > 2),
        "recovery looks behind a flush of many blocks: {flushes:?}"
    );
    let mut rng = fastrand::Rng::with_seed(56);
    let (mut found, mut last) = (0, 0);
    for case in 0..cases {
        let index = rng.usize(..blocks.len());
        let at = blocks[index];
        let used = 32 + 16 * usize::from(log[at + 8]);
        let rotten = if rng.bool() {
            vec![0; 4096]
        } else {
            let mut rotten = log[at..at + 4096].to_vec();
            rotten[rng.usize(..used)] ^= 1 << rng.u8(..8);
            rotten
        };
        patch(&made.log(), at as u64, &rotten);
        let damage = check(made.pool(), Schemes::default()).unwrap().damage;
        if index + 1 == blocks.len() {
            assert_eq!(damage, [""; 0], "case {case}");
            last += 1;
        } else {
            let number = format!("block {} of its log file is damaged", word(&log, at));
            assert!(damage.len() == 1 && damage[0].contains(&number), "case {case}: {damage:?}");
            found += 1;
        }
        if case < 10 && index + 1 < blocks.len() {
            let opened = Store::<Root>::open_existing(made.pool(), &options(Domain::Sync));
            assert!(matches!(opened.err(), Some(Error::Damaged { .. })), "case {case}");
            made.is_refused();
        }
        patch(&made.log(), at as u64, &log[at..at + 4096]);
    }
    println!("{cases} blocks rotted: {found} found, {last} in the last flush");
    assert_eq!(
        made.contents(),
        (made.contents.clone(), large()),
        "nothing that was refused has changed anything"
    );
}

/// Computes CRC-32C bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

/// The log has an older version. A closed pool gets a new log; any other pool is refused.
#[test]
fn a_log_of_an_older_version_is_replaced_where_nothing_needs_it() {
    for clean in [true, false] {
        let made = Made::new(Domain::Sync, clean);
        let mut header = std::fs::read(made.log()).unwrap()[..4096].to_vec();
        header[8] = 3;
        let checksum = u64::from(crc32c(&header[..48]));
        header[48..56].copy_from_slice(&checksum.to_le_bytes());
        patch(&made.log(), 0, &header);
        if clean {
            assert_eq!(made.contents(), (made.contents.clone(), large()));
        } else {
            let error = Store::<Root>::open_existing(made.pool(), &options(Domain::Sync)).err().unwrap();
            assert!(error.to_string().contains("with the Strandline that wrote it"), "{error}");
        }
    }
}

#[test]
fn one_checkpoint_slot_is_enough_only_if_it_is_the_right_one() {
    let slot = |number: u64| Layout::CHECKPOINT_SLOTS.offset() + number * 4096;
    let made = Made::new(Domain::Sync, false);
    patch(&made.pool(), slot(1 - newer_slot(&made.pool())), b"damage!!");
    assert_eq!(check(made.pool(), Schemes::default()).unwrap().damage.len(), 1);
    made.is_repaired(1);
    // The older slot does not refer to the blocks that were written since the pool was last opened.
    let made = Made::new(Domain::Sync, false);
    patch(&made.pool(), slot(newer_slot(&made.pool())), b"damage!!");
    let opened = Store::<Root>::open_existing(made.pool(), &options(Domain::Sync));
    assert!(matches!(opened.err(), Some(Error::Damaged { .. })), "opening it would lose all forty values");
    made.is_refused();
    // A cleanly closed pool needs neither slot.
    let made = Made::new(Domain::Sync, true);
    patch(&made.pool(), slot(newer_slot(&made.pool())), b"damage!!");
    made.is_repaired(1);
}

#[test]
fn directory_entries_are_repaired() {
    for (domain, clean) in ALL {
        let made = Made::new(domain, clean);
        patch(&made.pool(), Layout::LOG_DIRECTORY.offset() + 8, b"damage!!");
        patch(&made.pool(), Layout::LOG_DIRECTORY.offset(), &[1]);
        made.is_repaired(2);
    }
}

#[test]
fn large_objects_are_repaired() {
    let of_large = |word: &u64| word & 0xff == 2;
    for domain in [Domain::Sync, Domain::Process] {
        for damaged in [0, 1, 5, LARGE as u64 / 8192] {
            let made = Made::new(domain, true);
            let first = made.table().iter().position(of_large).unwrap() as u64;
            patch(&made.pool(), made.layout().chunk_table.word(first + damaged).offset(), &[0xee; 8]);
            assert!(!check(made.pool(), Schemes::default()).unwrap().damage.is_empty());
            made.is_repaired(1);
        }
        // The state of a small chunk is stored only in its own word.
        let made = Made::new(domain, true);
        let small = made.table().iter().position(|word| word & 0xff == 1).unwrap() as u64;
        patch(&made.pool(), made.layout().chunk_table.word(small).offset(), &[0xee; 8]);
        made.is_refused();
    }
}

#[test]
fn a_damaged_state_or_root_is_refused() {
    for (domain, clean) in ALL {
        let made = Made::new(domain, clean);
        patch(&made.pool(), Layout::STATE.offset() + 2, b"!!!!");
        made.is_refused();
    }
    let made = Made::new(Domain::Process, true);
    patch(&made.pool(), made.layout().root(0).offset(), &[3]);
    made.is_refused();
    assert!(inspect(made.pool(), Schemes::default()).is_ok());
}
