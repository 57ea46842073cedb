//! Full pools: threads allocate and free where there is no room left, while they compact, write large transactions, take snapshots and checkpoints.
//! No thread may wait for ever: the number of operations of each thread has to increase.
//!
//! The threads run in a process of their own, which the test kills when a count stops increasing, because a thread that hangs cannot be ended.
//! `STRANDLINE_SECONDS=3600 cargo test --release -p strandline --test processes full_pools -- --nocapture` runs for an hour.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::layout::Geometry;
use strandline_core::memory::{Native, PersistentAddress};
use strandline_core::scheme::Schemes;
use strandline_core::sync::SyncParameters;
use strandline_core::{Abort, Domain, Error, Options, Pool, Read, Runner, Transaction};

const CHILD: &str = "STRANDLINE_FULL_CHILD";
const THREADS: usize = 4;
/// The largest number of blocks of a thread.
const SLOTS: u64 = 64;
/// A thread that has done nothing for this long hangs. The slowest operation takes some hundredths of a second.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest time for which one pool is used.
const SLICE: Duration = Duration::from_secs(20);

/// Returns the time for which all pools together are used.
fn duration() -> Duration {
    let seconds = std::env::var("STRANDLINE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(6))
}

/// Pools of 4 MB, on any disk. A transaction of more than 64 KB is a large one.
fn options(domain: Domain) -> Options {
    Options {
        geometry: Geometry { size: 4 << 20, logs: 8, log_bytes: 1 << 16, chunk_bytes: 1 << 14 },
        sync: SyncParameters {
            ring_blocks: 32,
            initial_ring_blocks: 32,
            dirty_pages: 64,
            ..SyncParameters::default()
        },
        domain,
        assume_persistent: true,
        lock_bits: 10,
        snapshot_bytes: 1 << 20,
        ..Options::default()
    }
}

/// One thread of a pool.
struct Thread<'p, C: Control<Memory = Native>> {
    pool: &'p Pool<C>,
    number: u64,
    random: fastrand::Rng,
    /// Number of operations that have ended.
    done: &'p AtomicU64,
    /// Number of allocations that failed for lack of room.
    refused: u64,
}

/// Returns the positions of a block's words that identify its owner: its first and its last word, and some between.
fn marks(words: u64) -> impl Iterator<Item = u64> {
    (1..words).step_by(61).chain(words.checked_sub(1))
}

/// Frees the block in a slot, if there is one. Returns whether its words were those that were written to it.
fn free(tx: &mut impl Transaction, slot: PersistentAddress) -> Result<bool, Abort> {
    let block = PersistentAddress::new(tx.read(slot)?);
    if block.is_null() {
        return Ok(true);
    }
    let words = tx.read(block)?;
    let mut is_right = words > 0;
    for word in marks(words) {
        is_right &= tx.read(block.word(word))? == words ^ word;
    }
    tx.write(slot, 0)?;
    tx.free(block)?;
    Ok(is_right)
}

impl<C: Control<Memory = Native>> Thread<'_, C> {
    /// Replaces the block in a slot by a new one of some size.
    fn replace(&mut self) -> Result<(), Error> {
        let (slot, number) = (self.random.u64(..SLOTS), self.number);
        let words = match self.random.u32(..10) {
            0 => self.random.u64(1 << 14..1 << 16),
            1..4 => self.random.u64(1 << 10..1 << 13),
            _ => self.random.u64(4..512),
        };
        // For some large blocks, writes all words, which makes a large transaction.
        let writes_all = words > 1 << 14 && self.random.u32(..4) == 0;
        let done = self.pool.worker()?.run(|tx| {
            let root = tx.root(number);
            let slot = PersistentAddress::new(tx.read(root)?).word(slot);
            let is_right = free(tx, slot)?;
            let block = tx.alloc(8 * words)?;
            tx.write(block, words)?;
            if writes_all {
                (1..words).try_for_each(|word| tx.write(block.word(word), words ^ word))?;
            } else {
                marks(words).try_for_each(|word| tx.write(block.word(word), words ^ word))?;
            }
            tx.write(slot, block.offset())?;
            Ok(is_right)
        });
        match done {
            Ok(is_right) => assert!(is_right, "a block has lost its content"),
            Err(Error::Full { .. }) => {
                self.refused += 1;
                // This makes room, so that the next allocations do not fail as well.
                for _ in 0..self.random.u32(1..4) {
                    self.remove()?;
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Error> {
        let (slot, number) = (self.random.u64(..SLOTS), self.number);
        let is_right = self.pool.worker()?.run(|tx| {
            let root = tx.root(number);
            let slot = PersistentAddress::new(tx.read(root)?).word(slot);
            free(tx, slot)
        })?;
        assert!(is_right, "a block has lost its content");
        Ok(())
    }

    /// Uses the pool until this time, and until it has been full.
    fn run(&mut self, until: Instant) -> Result<(), Error> {
        let number = self.number;
        self.pool.worker()?.run(|tx| {
            let slots = tx.alloc(8 * SLOTS)?;
            (0..SLOTS).try_for_each(|slot| tx.write(slots.word(slot), 0))?;
            let root = tx.root(number);
            tx.write(root, slots.offset())
        })?;
        while Instant::now() < until || self.refused == 0 {
            match self.random.u32(..40) {
                0..3 => drop(self.pool.compact()?),
                3 => self.pool.checkpoint()?,
                4 => {
                    let snapshot = self.pool.snapshot()?;
                    self.replace()?;
                    self.remove()?;
                    drop(snapshot);
                }
                _ => self.replace()?,
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Uses one pool with all threads, and prints the count of each thread meanwhile.
fn fill<C: Control<Memory = Native>>(control: C, domain: Domain, folder: &Path, time: Duration) {
    let path = folder.join("full");
    let setup = Setup { control, schemes: Schemes::default() };
    let pool = setup.create(&path, &options(domain)).unwrap();
    let counts: [AtomicU64; THREADS] = Default::default();
    let until = Instant::now() + time;
    std::thread::scope(|threads| {
        let running: Vec<_> = (0..)
            .zip(&counts)
            .map(|(number, done)| {
                let pool = &pool;
                threads.spawn(move || {
                    let random = fastrand::Rng::new();
                    let mut thread = Thread { pool, number, random, done, refused: 0 };
                    thread.run(until)
                })
            })
            .collect();
        while running.iter().any(|thread| !thread.is_finished()) {
            say(&counts);
            std::thread::sleep(Duration::from_millis(50));
        }
        for thread in running {
            thread.join().expect("no thread panics").unwrap();
        }
    });
    // All blocks can be freed, and no others exist.
    for number in 0..THREADS as u64 {
        let freed = pool.worker().unwrap().run(|tx| {
            let root = tx.root(number);
            let slots = PersistentAddress::new(tx.read(root)?);
            let mut is_right = true;
            for slot in 0..SLOTS {
                is_right &= free(tx, slots.word(slot))?;
            }
            tx.free(slots)?;
            Ok(is_right)
        });
        assert!(freed.unwrap(), "a block has lost its content");
    }
    let usage = pool.usage().unwrap();
    assert_eq!(usage.objects, 0, "{usage:?}");
    pool.close().unwrap();
    for name in std::fs::read_dir(folder).unwrap() {
        std::fs::remove_file(name.unwrap().path()).unwrap();
    }
}

/// Prints the counts in one line.
fn say(counts: &[AtomicU64; THREADS]) {
    let counts: Vec<_> = counts.iter().map(|count| count.load(Ordering::Relaxed).to_string()).collect();
    println!("counts {}", counts.join(" "));
}

/// Runs in the other process.
fn fill_pools(folder: &Path) {
    let until = Instant::now() + duration();
    let slice = (duration() / 6).min(SLICE);
    while Instant::now() < until {
        for domain in [Domain::Sync, Domain::Process, Domain::Flush] {
            println!("\npool {} STM", domain.name());
            fill(Stm, domain, folder, slice);
            println!("\npool {} single-writer", domain.name());
            fill(SingleWriter, domain, folder, slice);
        }
    }
}

#[test]
fn full_pools_let_every_thread_go_on() {
    if let Ok(folder) = std::env::var(CHILD) {
        return fill_pools(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "full::full_pools_let_every_thread_go_on", "--test-threads=1", "--nocapture"])
        .env(CHILD, folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, said) = mpsc::channel();
    let output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok).map(|line| lines.send(line));
        lines.take_while(Result::is_ok).for_each(drop);
    });
    let mut errors = child.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = std::io::Read::read_to_string(&mut errors, &mut text);
        text
    });
    let (mut pool, mut counts, mut operations) = (String::new(), Vec::<u64>::new(), 0);
    let mut moved = [Instant::now(); THREADS];
    let mut hangs = None;
    while hangs.is_none() {
        match said.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                if let Some(now) = line.strip_prefix("counts ") {
                    let now: Vec<u64> = now.split(' ').map(|count| count.parse().unwrap()).collect();
                    for (thread, &count) in now.iter().enumerate() {
                        let before = counts.get(thread).copied().unwrap_or(0);
                        if before != count {
                            operations += count.saturating_sub(before);
                            moved[thread] = Instant::now();
                        }
                    }
                    counts = now;
                } else if line.starts_with("pool ") {
                    pool = line;
                    counts.clear();
                    moved.fill(Instant::now());
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        hangs = moved.iter().position(|moved| moved.elapsed() > PATIENCE);
    }
    if hangs.is_some() {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    reader.join().unwrap();
    let errors = errors.join().unwrap();
    println!("full pools: {operations} operations, the last in {pool}");
    assert!(
        hangs.is_none(),
        "{pool}: thread {hangs:?} has done nothing for {PATIENCE:?}, after these operations of each: {counts:?}"
    );
    assert!(status.success(), "{pool}: {status}: {errors}");
}
