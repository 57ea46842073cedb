//! Pools as files: the effects of power failures, kills, races between processes and links.
//!
//! The processes are this program again, which gets its commands line by line ([`child`]). [`trace`] stops a process at its system calls, to hold it
//! or to kill it there; [`errnos`] makes calls return errors; [`journal`] records all changes to the files of a folder, in order; [`image`] computes
//! from that the states that a power failure, or a failed write or flush, may leave. Each process reports on standard error what it was promised.
//! Whatever happens, the pool must open with everything that was promised, and with each transaction completely or not at all.
//!
//! Most tests run some dozens of cases. `STRANDLINE_CASES=20000 cargo test --release -p strandline --test processes power_failures_lose --
//! --nocapture` runs one for longer. It prints its seed, and `STRANDLINE_SEED` draws the same numbers again; the order of threads and processes still
//! depends on the system.

mod child;
mod errnos;
mod image;
mod journal;
mod kills;
mod links;
mod power;
mod races;
pub mod trace;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use child::{Counts, make};
pub use child::{Process, Root, contents, options};
use strandline::Store;
use strandline_core::layout::Layout;
use strandline_core::scheme::Schemes;
use strandline_core::{Domain, Error};

/// Returns the number of cases that a test runs.
pub fn cases(usual: usize) -> usize {
    std::env::var("STRANDLINE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// Returns random numbers that depend only on `STRANDLINE_SEED` and on the test's name.
pub fn random(test: &str) -> fastrand::Rng {
    let seed = std::env::var("STRANDLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("{test}: STRANDLINE_SEED={seed}");
    fastrand::Rng::with_seed(test.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31) + u64::from(byte)))
}

/// Returns a new folder, in memory if possible.
fn quick_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Returns the names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

/// The failures of many cases: the number of each kind, and the first of each kind.
pub struct Failures {
    test: String,
    cases: usize,
    wrong: BTreeMap<String, (usize, String)>,
}

impl Failures {
    pub fn new(test: &str) -> Self {
        Self { test: test.into(), cases: 0, wrong: BTreeMap::new() }
    }

    pub fn case<T>(&mut self, what: impl Display, result: Result<T, String>) {
        self.cases += 1;
        if let Err(error) = result {
            // Errors that differ only in numbers and paths are of the same kind.
            let words = error.split(' ').filter(|word| !word.contains('/'));
            let kind =
                words.flat_map(|word| word.chars().chain([' '])).filter(|letter| !letter.is_ascii_digit());
            let kind = kind.take(60).collect();
            let first = || (0, format!("case {}, {what}: {error}", self.cases));
            self.wrong.entry(kind).or_insert_with(first).0 += 1;
        }
    }

    /// # Panics
    /// Panics if there was a failure.
    pub fn end(self) {
        let wrong: usize = self.wrong.values().map(|(count, _)| count).sum();
        println!("{}: {} cases, {wrong} wrong", self.test, self.cases);
        let kinds: Vec<_> =
            self.wrong.values().map(|(count, first)| format!("{count} times: {first}")).collect();
        assert!(wrong == 0, "{}: {wrong} of {} cases wrong:\n{}", self.test, self.cases, kinds.join("\n"));
    }
}

/// Bounds for the content of a pool: the smallest and largest number of transactions of each process.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// True if a process has had the pool open.
    pub made: bool,
    least: Counts,
    most: Counts,
    /// True if its last process closed it.
    closed: bool,
}

impl Bounds {
    /// Adjusts the bounds by a mark of a process, which runs transactions one after the other.
    pub fn hear(&mut self, mark: &str) {
        let told = child::counts(mark);
        if mark.starts_with("opened") {
            (self.made, self.closed) = (true, false);
            self.least.clone_from(&told);
            self.most.clear();
        } else if mark.starts_with("ack") {
            self.least.extend(&told);
        } else if mark.starts_with("more") {
            for (key, more) in told {
                *self.most.entry(key).or_default() += more;
            }
        } else if mark.starts_with("done close") {
            self.closed = true;
        }
        if mark.starts_with("opened") || mark.starts_with("ack") {
            // One more transaction may be running.
            for (&key, &count) in &self.least {
                let most = self.most.entry(key).or_default();
                *most = (*most).max(count + 1);
            }
        }
    }

    /// Returns an error if the content is not within the bounds.
    pub fn admit(&self, found: &Counts) -> Result<(), String> {
        for (key, &least) in &self.least {
            if found.get(key).copied().unwrap_or(0) < least {
                return Err(format!("LOST: {found:?}, and {:?} were acknowledged", self.least));
            }
        }
        for (key, &count) in found {
            if count > self.most.get(key).copied().unwrap_or(1) {
                return Err(format!("from nowhere: {found:?}, and no more than {:?} were begun", self.most));
            }
        }
        Ok(())
    }
}

/// The way in which a pool is opened.
#[derive(Clone, Copy, Debug)]
pub enum How {
    Open,
    OpenOrCreate,
}

/// Returns the chunks of a closed pool that cannot be allocated because a compaction has not released them (docs/pool-format.md).
fn held_chunks(path: &Path, layout: &Layout) -> Vec<u64> {
    const HELD: [u8; 8] = 4u64.to_le_bytes();
    let file = std::fs::read(path).unwrap();
    let table = &file[layout.chunk_table.offset() as usize..layout.chunks.offset() as usize];
    (0..).zip(table.chunks_exact(8)).filter(|(_, word)| *word == HELD).map(|(chunk, _)| chunk).collect()
}

/// Opens a pool in this process, reads it and closes it. A panic is reported as an error.
fn look(path: &Path, domain: Domain, how: How) -> Result<Result<Counts, Error>, String> {
    let open = || -> Result<Result<Counts, Error>, String> {
        let opened = match how {
            How::Open => Store::<Root>::open_existing(path, &options(domain)),
            How::OpenOrCreate => Store::<Root>::open(path, &options(domain), make),
        };
        let store = match opened {
            Ok(store) => store,
            Err(error) => return Ok(Err(error)),
        };
        let found = contents(&store)?;
        store.usage().map_err(|error| format!("usage: {error}"))?;
        let layout = *store.pool().layout();
        store.close().map_err(|error| format!("close: {error}"))?;
        let held = held_chunks(path, &layout);
        if !held.is_empty() {
            return Err(format!("chunks are held for a compaction that is over: {held:?}"));
        }
        match strandline_core::file::check(path, Schemes::default()) {
            Ok(report) if report.damage.is_empty() => {}
            Ok(report) => return Err(format!("pool check: {:?}", report.damage)),
            Err(error) => return Err(format!("pool check: {error}")),
        }
        Ok(Ok(found))
    };
    std::panic::catch_unwind(open).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("PANIC: {}", text.unwrap_or_else(|| "?".into())))
    })
}

/// Checks that the pool at `path` opens, with content within the bounds.
pub fn holds(path: &Path, domain: Domain, how: How, bounds: &Bounds) -> Result<Counts, String> {
    let found = look(path, domain, how)?.map_err(|error| format!("{how:?}: {error}"))?;
    bounds.admit(&found)?;
    Ok(found)
}

/// Checks that a new pool in the place of this one leaves no other file in the folder.
pub fn leaves_nothing(path: &Path, domain: Domain) -> Result<(), String> {
    let log = strandline_core::file::log_path(path);
    for name in [path, &log] {
        let _ = std::fs::remove_file(name);
    }
    look(path, domain, How::OpenOrCreate)?.map_err(|error| format!("creation: {error}"))?;
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let (found, expected) = (names(path.parent().unwrap()), [name(path), name(&log)]);
    // On FUSE, a file that was deleted while a process had it open keeps such a name until the file system learns that it is closed.
    let is_left = |name: &&String| !expected.contains(name) && !name.starts_with(".fuse_hidden");
    match found.iter().find(is_left) {
        Some(_) => Err(format!("files are left over: {found:?}")),
        None => Ok(()),
    }
}

/// After an interrupted repair, the pool must be as damaged as before and repairable, or complete. With `is_done` it must be complete.
fn repaired_or_repairable(path: &Path, domain: Domain, bounds: &Bounds, is_done: bool) -> Result<(), String> {
    match look(path, domain, How::Open)? {
        Ok(found) => return bounds.admit(&found),
        Err(error) if is_done => return Err(format!("after its repair: {error}")),
        Err(_) => {}
    }
    // The error of a repair that finds these files gives this advice.
    let folder = path.parent().unwrap();
    for name in names(folder).iter().map(|name| folder.join(name)) {
        if name != path && name != strandline_core::file::log_path(path) {
            std::fs::remove_file(name).unwrap();
        }
    }
    strandline_core::file::repair(path, Schemes::default())
        .map_err(|error| format!("a repair after one that was cut short: {error}"))?;
    holds(path, domain, How::Open, bounds).map(drop)
}

/// Returns the path of `pool` in the folder.
pub fn pool_in(folder: &Path) -> PathBuf {
    folder.join("pool")
}
