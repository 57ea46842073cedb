//! Pools on each file system: kills lose nothing, a full disk is an error that passes, and a pool on a read-only mount can be read.
//!
//! `STRANDLINE_CASES=1000 cargo test --release -p strandline --test processes file_systems -- --nocapture`, run as root, kills a process a thousand
//! times on each file system.

use std::path::Path;
use std::time::Duration;

use strandline_core::Domain;
use strandline_core::file::{OldFiles, backup_files, check, restore};
use strandline_core::scheme::Schemes;

use super::files::{Bounds, Failures, How, Process, cases, holds, leaves_nothing, pool_in, random};
use super::mounted::{Mounted, kinds};

/// Returns the commands for a process that will be killed: creation, growth, transactions of two threads, and compactions and snapshots beside them.
fn script(path: &Path, domain: Domain, life: u64) -> String {
    // Each life has its own keys.
    let key = 1 + 2 * life;
    format!("domain {}; roomy; open_or_create {}; work {key} 100000", domain.name(), path.display())
}

/// Runs lives of one pool that end in kills, and returns their number.
fn lives(folder: &Path, domain: Domain, most: usize, random: &mut fastrand::Rng) -> Result<usize, String> {
    let path = pool_in(folder);
    let mut bounds = Bounds::default();
    let lives = most.min(random.usize(1..6));
    for life in 0..lives {
        let mut process = Process::start(folder);
        process.tell(&script(&path, domain, life as u64));
        // Some kills are during creation and recovery, others in the middle of transactions.
        let mut marks = Vec::new();
        if random.bool() {
            marks.extend(process.marks_until(|mark| mark.starts_with("ack") || mark.starts_with("error")));
        }
        std::thread::sleep(Duration::from_micros(random.u64(..30_000)));
        process.kill();
        marks.extend(process.end());
        marks.iter().for_each(|mark| bounds.hear(mark));
        if let Some(wrong) = marks.iter().find(|mark| mark.starts_with("error") || mark.starts_with("wrong"))
        {
            return Err(format!("life {life}: {wrong}"));
        }
        // If the pool does not exist yet, the next life creates it: the pools that this test would create are too small for the work.
        if !bounds.made && !path.exists() {
            continue;
        }
        holds(&path, domain, How::Open, &bounds).map_err(|error| format!("life {life}: {error}"))?;
        bounds.made = true;
    }
    leaves_nothing(&path, domain)?;
    Ok(lives)
}

fn kills(kind: &str) {
    let Some(mounted) = Mounted::new(kind) else { return };
    let (mut random, mut failures) = (random(kind), Failures::new(&format!("kills on {kind}")));
    let (mut killed, most) = (0, cases(8));
    for number in 0.. {
        if killed >= most {
            break;
        }
        let folder = mounted.at.join(format!("kills{number}"));
        std::fs::create_dir(&folder).unwrap();
        let domain = if number % 4 == 3 { Domain::Process } else { Domain::Sync };
        let result = lives(&folder, domain, most - killed, &mut random);
        killed += *result.as_ref().unwrap_or(&1);
        let failed = result.is_err();
        failures.case(domain.name(), result);
        std::fs::remove_dir_all(&folder).unwrap();
        if failed && number > 20 {
            // The first failures are enough.
            break;
        }
    }
    println!("{kind}: {killed} kills");
    failures.end();
}

/// Fills the disk while a process makes its pool grow. The transaction that needs more space fails, acknowledged data can be read while the disk is
/// full, and writes succeed when there is room again.
fn full(kind: &str, domain: Domain) {
    if kind == "fuse2fs" && domain == Domain::Process {
        println!("left out: fuse2fs loses pages of a mapping that it cannot write while the disk is full");
        return;
    }
    let Some(mounted) = Mounted::new(kind) else { return };
    let (path, mut bounds) = (pool_in(&mounted.at), Bounds::default());
    let start = format!("domain {}; roomy", domain.name());
    let mut process = Process::start(&mounted.at);
    process.tell(&format!("{start}; create {}; pile 1 5", path.display()));
    let mut marks = process.marks_until(|mark| mark.starts_with("done pile") || mark.starts_with("error"));
    assert!(!marks.iter().any(|mark| mark.starts_with("error")), "{kind}: {marks:?}");
    mounted.fill_but(1 << 20);
    process.tell("pile 1 2000; kill");
    marks.extend(process.end());
    marks.iter().for_each(|mark| bounds.hear(mark));
    let error = marks.iter().find(|mark| mark.starts_with("error"));
    assert!(
        error.is_some_and(|error| error.contains("No space left")),
        "{kind}, {domain:?}: a full disk is an error: {:?}, {error:?}",
        marks.last()
    );
    let report =
        check(&path, Schemes::default()).unwrap_or_else(|error| panic!("{kind}, {domain:?}: {error}"));
    assert_eq!(report.damage, [""; 0], "{kind}, {domain:?}");
    let pool = strandline::Store::<super::files::Root>::open_read_only(&path, &super::files::options(domain));
    let pool = pool.unwrap_or_else(|error| panic!("{kind}, {domain:?}: the pool is read: {error}"));
    let found = super::files::contents(&pool).unwrap_or_else(|error| panic!("{kind}, {domain:?}: {error}"));
    bounds.admit(&found).unwrap_or_else(|error| panic!("{kind}, {domain:?}: {error}"));
    drop(pool);
    mounted.make_room();
    let marks = Process::run(&mounted.at, &format!("{start}; open {}; pile 1 20; close", path.display()));
    assert!(
        marks.iter().any(|mark| mark.starts_with("done close"))
            && !marks.iter().any(|mark| mark.starts_with("error")),
        "{kind}, {domain:?}: it is written again: {marks:?}"
    );
    marks.iter().for_each(|mark| bounds.hear(mark));
    holds(&path, domain, How::Open, &bounds).unwrap_or_else(|error| panic!("{kind}, {domain:?}: {error}"));
}

/// A pool that a kill has left is mounted for reading only, backed up from there, and restored.
fn read_only(kind: &str) {
    let Some(mounted) = Mounted::new(kind) else { return };
    for domain in [Domain::Sync, Domain::Process] {
        let folder = mounted.at.join(domain.name());
        std::fs::create_dir(&folder).unwrap();
        let (path, mut bounds) = (pool_in(&folder), Bounds::default());
        let script = format!("domain {}; create {}; update 1 9; kill", domain.name(), path.display());
        Process::run(&folder, &script).iter().for_each(|mark| bounds.hear(mark));
        let Some(protected) = mounted.read_only(&folder) else {
            println!("left out: {kind} cannot be mounted for reading only here");
            return;
        };
        let from = pool_in(protected.at.path());
        assert_eq!(check(&from, Schemes::default()).unwrap().damage, [""; 0]);
        let copy = mounted.at.join(format!("copy-{}", domain.name()));
        backup_files(&from, &copy, Schemes::default()).unwrap_or_else(|error| panic!("{kind}: {error}"));
        holds(&copy, domain, How::Open, &bounds).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let restored = mounted.at.join(format!("restored-{}", domain.name()));
        restore(&from, &restored, OldFiles::Keep, Schemes::default()).unwrap();
        holds(&restored, domain, How::Open, &bounds).unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

macro_rules! on_each {
    ($($(#[$campaign:meta])? $name:ident: $kind:literal,)*) => {
        const NAMED: &[&str] = &[$($kind),*];
        mod kills_lose_nothing { $(#[test] $(#[$campaign])? fn $name() { super::kills($kind); })* }
        mod full_disks_are_errors { $(#[test] $(#[$campaign])? fn $name() {
            super::full($kind, super::Domain::Sync);
            super::full($kind, super::Domain::Process);
        })* }
        mod read_only_mounts_are_read { $(#[test] $(#[$campaign])? fn $name() { super::read_only($kind); })* }
    };
}

on_each! {
    ext3: "ext3",
    ext4: "ext4",
    #[ignore = "a campaign, which `.ci/others --full` runs"]
    ext4_with_sectors_of_4_kb: "ext4-4k",
    #[ignore = "a campaign, which `.ci/others --full` runs"]
    ext4_with_large_clusters: "ext4-bigalloc",
    #[ignore = "a campaign, which `.ci/others --full` runs"]
    ext4_with_a_journal_of_data: "ext4-journal",
    xfs: "xfs",
    btrfs: "btrfs",
    tmpfs: "tmpfs",
    overlay: "overlay",
    fuse2fs: "fuse2fs",
    bindfs: "bindfs",
}

#[test]
fn each_file_system_has_its_tests() {
    assert!(kinds().eq(NAMED.iter().copied()));
}
