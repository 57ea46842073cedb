//! Reads and snapshots beside everything that reuses freed memory: compaction, undo journals of large transactions, growth, and the replacement and
//! removal of values; under both controls and in each domain.
//!
//! A transaction that began earlier may read freed memory, and a snapshot may do so as long as it exists. So a store to a freed chunk outside of a
//! transaction must be noticed by such a transaction, and must wait for such a snapshot. Each row here shows by its own bytes whether it is intact:
//! all its bytes are the same, and a second table determines their number.
//!
//! `STRANDLINE_CASES=10000000 cargo test --release -p strandline --test all beside_everything -- --nocapture` checks this number of rows.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use strandline::{
    Control, Database, Domain, Error, Options, OrderedMap, Persist, Result, SingleWriter, Stm, Store, Tables,
    View,
};
use strandline_core::engine::{self, Setup};
use strandline_core::layout::Geometry;
use strandline_core::memory::{Native, PersistentAddress};
use strandline_core::scheme::Schemes;
use strandline_core::sync::SyncParameters;
use strandline_core::{Pool, Read, Runner, Transaction};

#[derive(Persist)]
struct Shelf<'p> {
    rows: OrderedMap<'p, u64, Vec<u8>>,
    /// The seed of each row, from which [`row`] makes the row.
    seeds: OrderedMap<'p, u64, u64>,
    /// The sum of all seeds.
    sum: u64,
}

const DOMAINS: [Domain; 3] = [Domain::Sync, Domain::Process, Domain::Flush];

/// The log has 256 KB, so that a large transaction is cheap. The file grows from its smallest size.
fn options(domain: Domain, size: u64) -> Options {
    Options {
        geometry: Geometry { size, logs: 16, log_bytes: 1 << 16, chunk_bytes: 1 << 16 },
        sync: SyncParameters {
            ring_blocks: 64,
            initial_ring_blocks: 64,
            dirty_pages: 256,
            ..SyncParameters::default()
        },
        domain,
        assume_persistent: true,
        lock_bits: 12,
        initial_size: Some(0),
        ..Options::default()
    }
}

fn create<C: Control<Memory = Native>>(path: &Path, options: &Options) -> Store<Shelf<'static>, C>
where
    Shelf<'static>: for<'p> strandline::Root<At<'p> = Shelf<'p>>,
{
    Store::create_new(path, options, |tx| {
        Ok(Shelf { rows: OrderedMap::new(tx)?, seeds: OrderedMap::new(tx)?, sum: 0 })
    })
    .unwrap()
}

/// More bytes than fit into a log with these options.
const LARGE: usize = 1 << 20;

/// Removes rows of 60 kB that a snapshot sees. Then a transaction needs an undo journal, which takes free chunks. Returns the problems that the
/// snapshot finds.
fn remove_rows_of_a_snapshot<C: Control<Memory = Native>>(domain: Domain) -> Result<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let store = create::<C>(&folder.path().join("pool"), &options(domain, 64 << 20));
    let rows = || (0..20u64).map(|key| (key, vec![key as u8 + 1; 60_000]));
    // The rows that the large transaction overwrites.
    let kept = || (100..130u64).map(|key| (key, vec![9; 60_000]));
    for (key, row) in rows().chain(kept()) {
        store.write(|tx, root| root.get(tx)?.rows.insert(tx, &key, &row).map(drop))?;
    }
    let snapshot = store.snapshot()?;
    for (key, _) in rows() {
        store.write(|tx, root| root.get(tx)?.rows.remove(tx, &key).map(drop))?;
    }
    store.write(|tx, root| {
        let rows = root.get(tx)?.rows;
        kept().try_for_each(|(key, _)| rows.insert(tx, &key, &vec![7; 60_000]).map(drop))?;
        rows.insert(tx, &1000, &vec![8; LARGE]).map(drop)
    })?;
    let mut wrong = Vec::new();
    {
        let (tx, root) = snapshot.read();
        let found = root.get(&tx)?.rows;
        let is_there =
            |(key, row): &(u64, Vec<u8>)| matches!(found.get(&tx, key), Ok(Some(found)) if found == *row);
        let missing = rows().filter(|row| !is_there(row)).count();
        if missing > 0 {
            wrong.push(format!("{missing} of 20 rows are not what they were at the snapshot"));
        }
        let all: Vec<_> = rows().chain(kept()).collect();
        match found.iter(&tx).collect::<Result<Vec<_>>>() {
            Ok(found) if found == all => {}
            Ok(found) => wrong.push(format!("the snapshot's iteration has {} rows", found.len())),
            Err(error) => wrong.push(format!("the snapshot's iteration: {error}")),
        }
    }
    wrong.extend(snapshot.check()?);
    drop(snapshot);
    wrong.extend(store.check()?);
    let lost = store.lost_memory()?.blocks;
    if lost > 0 {
        wrong.push(format!("{lost} leaked blocks"));
    }
    Ok(wrong)
}

#[test]
fn snapshots_outlive_large_transactions() {
    let mut wrong = Vec::new();
    for domain in DOMAINS {
        let both: [(_, fn(_) -> _); 2] = [
            ("STM", remove_rows_of_a_snapshot::<Stm>),
            ("single writer", remove_rows_of_a_snapshot::<SingleWriter>),
        ];
        for (control, run) in both {
            let found = run(domain).unwrap_or_else(|error| vec![error.to_string()]);
            wrong.extend(found.first().map(|found| format!("{control}, {domain:?}: {found}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// In a read-only transaction that has read the first word of a block which is then freed, runs `meanwhile` and reads the rest. The words must be of
/// one moment; returns them if they are not.
fn reads_beside<C: engine::Control<Memory = Native>>(
    control: C,
    domain: Domain,
    meanwhile: impl Fn(&Pool<C>) + Sync,
) -> Option<String> {
    const WORDS: u64 = 1 << 15;
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { control, schemes: Schemes::default() };
    let pool = setup.create(folder.path().join("pool"), &options(domain, 64 << 20)).unwrap();
    pool.worker()
        .unwrap()
        .run(|tx| {
            let block = tx.alloc(8 * WORDS)?;
            (0..WORDS).try_for_each(|word| tx.write(block.word(word), 7))?;
            let at = tx.root(0);
            tx.write(at, block.offset())
        })
        .unwrap();
    let (begun, wait_for_begun) = mpsc::channel();
    let (freed, wait_for_freed) = mpsc::channel();
    std::thread::scope(|threads| {
        let (pool, meanwhile) = (&pool, &meanwhile);
        threads.spawn(move || {
            wait_for_begun.recv().unwrap();
            let freeing = pool.worker().unwrap().run(|tx| {
                let at = tx.root(0);
                let block = PersistentAddress::new(tx.read(at)?);
                tx.write(at, 0)?;
                tx.free(block)
            });
            freeing.unwrap();
            meanwhile(pool);
            freed.send(()).unwrap();
        });
        let mut waits = true;
        let read = pool.worker().unwrap().view(|tx| {
            let at = tx.root(0);
            let block = PersistentAddress::new(tx.read(at)?);
            if block.is_null() {
                return Ok(None);
            }
            let first = tx.read(block)?;
            if std::mem::take(&mut waits) {
                begun.send(()).unwrap();
                // A library that makes others wait for this transaction would be correct, too.
                let _ = wait_for_freed.recv_timeout(Duration::from_secs(20));
            }
            Ok(Some((first, tx.read(block.word(WORDS / 2))?, tx.read(block.word(WORDS - 1))?)))
        });
        let is_right = matches!(read, Ok(None | Some((7, 7, 7))));
        let control = control.concurrency();
        (!is_right).then(|| format!("{control:?}, {domain:?}: a block that is all 7 reads as {read:?}"))
    })
}

fn compact<C: engine::Control<Memory = Native>>(pool: &Pool<C>) {
    assert!(pool.compact().unwrap().punched_bytes > 0);
}

fn run_large<C: engine::Control<Memory = Native>>(pool: &Pool<C>) {
    let large = pool.worker().unwrap().run(|tx| {
        let block = tx.alloc(LARGE as u64)?;
        (0..LARGE as u64 / 8).try_for_each(|word| tx.write(block.word(word), 5))
    });
    large.unwrap();
}

#[test]
fn a_reader_beside_compaction_sees_one_time() {
    let both = |domain| [reads_beside(Stm, domain, compact), reads_beside(SingleWriter, domain, compact)];
    let wrong: Vec<_> = DOMAINS.into_iter().flat_map(both).flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_reader_beside_a_large_transaction_sees_one_time() {
    let both = |domain| [reads_beside(Stm, domain, run_large), reads_beside(SingleWriter, domain, run_large)];
    let wrong: Vec<_> = DOMAINS.into_iter().flat_map(both).flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Number of keys of rows.
const KEYS: u64 = 24;
/// The key with rows that are larger than a log.
const LARGE_KEY: u64 = 0;
/// If nothing happens for this long, threads hang.
const PATIENCE: Duration = Duration::from_secs(120);
/// The largest number of problems that a reader reports.
const MOST_WRONG: usize = 20;

/// Returns the length of the row that a seed makes for a key, and the byte that fills it, which is never zero. One key has rows that do not fit into
/// a log; some have rows that take whole chunks.
fn row(key: u64, seed: u64) -> (usize, u8) {
    let mut random = fastrand::Rng::with_seed(seed);
    let bytes = match key {
        LARGE_KEY => random.usize(1 << 20..8 << 20),
        1..4 => random.usize(16_000..300_000),
        _ => random.usize(100..6000),
    };
    (bytes, random.u8(1..))
}

fn is_row(found: &[u8], (bytes, byte): (usize, u8)) -> bool {
    // Two comparisons of memory are faster than one comparison for each byte.
    found.len() == bytes && found[0] == byte && found[1..] == found[..bytes - 1]
}

/// The state that all threads of one round share.
struct Shared<C: Control<Memory = Native>> {
    store: Store<Shelf<'static>, C>,
    stop: AtomicBool,
    /// Number of rows that were read and compared.
    rows: AtomicU64,
    /// Number of snapshots that were read to their end.
    snapshots: AtomicU64,
    /// Number of operations of all kinds.
    done: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl<C: Control<Memory = Native>> Shared<C> {
    fn goes_on(&self) -> bool {
        self.done.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }

    fn say(&self, wrong: String) {
        let mut all = self.wrong.lock().unwrap();
        if all.len() < MOST_WRONG {
            all.push(wrong);
        }
    }

    /// Reads a row and its seed.
    fn pair<'p>(tx: &View<'p, C>, shelf: &Shelf<'p>, key: u64) -> Result<(Option<u64>, Option<Vec<u8>>)> {
        Ok((shelf.seeds.get(tx, &key)?, shelf.rows.get(tx, &key)?))
    }

    fn compare(&self, what: &str, key: u64, pair: &(Option<u64>, Option<Vec<u8>>)) {
        self.rows.fetch_add(1, Ordering::Relaxed);
        match pair {
            (None, None) => {}
            (Some(seed), Some(found)) if is_row(found, row(key, *seed)) => {}
            (Some(seed), Some(found)) => {
                let (bytes, byte) = row(key, *seed);
                let differ = found.iter().filter(|&&found| found != byte).count();
                let length = found.len();
                self.say(format!(
                    "{what}: row {key} of {bytes} bytes has {length}, and {differ} are not {byte}"
                ));
            }
            (seed, found) => self.say(format!("{what}: row {key} is {}, its seed {seed:?}", found.is_some())),
        }
    }

    /// Reads some rows with their seeds in ordinary transactions.
    fn read(&self, mut random: fastrand::Rng) {
        while self.goes_on() {
            let mut keys: [u64; 4] = std::array::from_fn(|_| random.u64(1..KEYS));
            if random.u32(..40) == 0 {
                keys[0] = LARGE_KEY;
            }
            let read = self.store.read(|tx, root| {
                let shelf = root.get(tx)?;
                keys.iter().map(|&key| Self::pair(tx, &shelf, key)).collect::<Result<Vec<_>>>()
            });
            match read {
                Ok(pairs) => {
                    keys.iter().zip(&pairs).for_each(|(&key, pair)| self.compare("a read", key, pair))
                }
                Err(error) => self.say(format!("a read: {error}")),
            }
        }
    }

    /// Reads whole snapshots, and reads each again after others have made changes.
    fn take_snapshots(&self, mut random: fastrand::Rng) {
        while self.goes_on() {
            let snapshot = match self.store.snapshot() {
                Ok(snapshot) => snapshot,
                Err(error) => return self.say(format!("a snapshot: {error}")),
            };
            let mut before = None;
            for _ in 0..random.u32(1..4) {
                let (tx, root) = snapshot.read();
                match self.read_snapshot(&tx, root.get(&tx)) {
                    Ok(seeds) => {
                        if before.as_ref().is_some_and(|before| *before != seeds) {
                            self.say(format!("a snapshot has become another: {before:?}, {seeds:?}"));
                        }
                        before = Some(seeds);
                    }
                    // The snapshot took more memory than there is.
                    Err(Error::SnapshotEnded { .. }) => break,
                    Err(error) => self.say(format!("at a snapshot: {error}")),
                }
                let until = self.done.load(Ordering::Relaxed) + random.u64(..40);
                while self.done.load(Ordering::Relaxed) < until && !self.stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            self.snapshots.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read_snapshot<'p>(&self, tx: &View<'p, C>, shelf: Result<Shelf<'p>>) -> Result<Vec<(u64, u64)>> {
        let shelf = shelf?;
        let seeds: Vec<(u64, u64)> = shelf.seeds.iter(tx).collect::<Result<_>>()?;
        let sum = seeds.iter().fold(0u64, |sum, (_, seed)| sum.wrapping_add(*seed));
        if sum != shelf.sum {
            self.say(format!("at a snapshot: the seeds' sum is {sum}, not {}", shelf.sum));
        }
        for key in 0..KEYS {
            self.compare("at a snapshot", key, &Self::pair(tx, &shelf, key)?);
        }
        let rows: Vec<u64> = shelf.rows.iter(tx).map(|row| row.map(|(key, _)| key)).collect::<Result<_>>()?;
        if !rows.iter().eq(seeds.iter().map(|(key, _)| key)) {
            self.say(format!("at a snapshot: iteration finds {} rows of {}", rows.len(), seeds.len()));
        }
        Ok(seeds)
    }

    /// Replaces rows by other ones, and removes every fourth. If there are many, they do not fit into a log.
    fn change(&self, random: &mut fastrand::Rng, keys: &[u64]) {
        let seeds: Vec<Option<u64>> =
            keys.iter().map(|_| (random.u32(..4) > 0).then(|| random.u64(..))).collect();
        let changed = self.store.write(|tx, root| {
            let shelf = root.get(tx)?;
            let mut sum = shelf.sum;
            for (key, seed) in keys.iter().zip(&seeds) {
                let before = match seed {
                    Some(seed) => {
                        let (bytes, byte) = row(*key, *seed);
                        shelf.rows.insert(tx, key, &vec![byte; bytes])?;
                        shelf.seeds.insert(tx, key, seed)?
                    }
                    None => {
                        shelf.rows.remove(tx, key)?;
                        shelf.seeds.remove(tx, key)?
                    }
                };
                sum = sum.wrapping_sub(before.unwrap_or(0)).wrapping_add(seed.unwrap_or(0));
            }
            root.update(tx, |shelf| shelf.sum = sum)
        });
        match changed {
            Ok(()) | Err(Error::Full { .. }) => {}
            Err(error) => self.say(format!("a change of {} rows: {error}", keys.len())),
        }
    }

    fn write(&self, mut random: fastrand::Rng, most: u64) {
        while self.goes_on() {
            let keys: Vec<u64> = if most == 1 {
                vec![random.u64(1..KEYS)]
            } else {
                let first = random.u64(..KEYS);
                (0..random.u64(1..=most)).map(|at| (first + at) % KEYS).collect()
            };
            self.change(&mut random, &keys);
            if most > 1 {
                std::thread::sleep(Duration::from_millis(random.u64(..20)));
            }
        }
    }

    fn compact(&self, mut random: fastrand::Rng) {
        while self.goes_on() {
            if let Err(error) = self.store.compact() {
                self.say(format!("a compaction: {error}"));
            }
            if random.u32(..8) == 0
                && let Err(error) = self.store.checkpoint()
            {
                self.say(format!("a checkpoint: {error}"));
            }
            std::thread::sleep(Duration::from_micros(random.u64(..3000)));
        }
    }
}

/// Runs all of these threads side by side on a new pool, until this number of rows was read. Returns the number of snapshots that were read.
fn run_beside<C: Control<Memory = Native>>(
    domain: Domain,
    rows: u64,
    random: &mut fastrand::Rng,
) -> (u64, Vec<String>)
where
    Shared<C>: Sync,
{
    let folder = tempfile::tempdir().unwrap();
    let shared = Shared {
        store: create::<C>(&folder.path().join("pool"), &options(domain, 256 << 20)),
        stop: AtomicBool::new(false),
        rows: AtomicU64::new(0),
        snapshots: AtomicU64::new(0),
        done: AtomicU64::new(0),
        wrong: Mutex::new(Vec::new()),
    };
    std::thread::scope(|threads| {
        let shared = &shared;
        let mut fork = || random.fork();
        let [one, two, three, four, five, six, seven, eight] = std::array::from_fn(|_| fork());
        threads.spawn(move || shared.read(one));
        threads.spawn(move || shared.read(two));
        threads.spawn(move || shared.take_snapshots(three));
        threads.spawn(move || shared.write(four, 1));
        threads.spawn(move || shared.write(five, 1));
        threads.spawn(move || shared.write(six, KEYS));
        threads.spawn(move || shared.compact(seven));
        threads.spawn(move || shared.take_snapshots(eight));
        let (mut done, mut moved) = (0, Instant::now());
        while shared.rows.load(Ordering::Relaxed) < rows && shared.wrong.lock().unwrap().len() < MOST_WRONG {
            std::thread::sleep(Duration::from_millis(1));
            let now = shared.done.load(Ordering::Relaxed);
            if now != done {
                (done, moved) = (now, Instant::now());
            } else if moved.elapsed() > PATIENCE {
                // There is no other way to end threads that hang.
                eprintln!("reads beside everything: nothing has happened for {PATIENCE:?}, {domain:?}");
                std::process::abort();
            }
        }
        shared.stop.store(true, Ordering::Relaxed);
    });
    let (snapshots, mut wrong) = (shared.snapshots.into_inner(), shared.wrong.into_inner().unwrap());
    match shared.store.check() {
        Ok(damage) => wrong.extend(damage),
        Err(error) => wrong.push(format!("the check: {error}")),
    }
    match shared.store.lost_memory() {
        Ok(lost) if lost.blocks == 0 => {}
        lost => wrong.push(format!("leaked memory: {lost:?}")),
    }
    (snapshots, wrong)
}

#[test]
fn reads_and_snapshots_beside_everything_are_right() {
    let usual = 8_000u64;
    let cases = std::env::var("STRANDLINE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual);
    let seed = std::env::var("STRANDLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("beside everything: STRANDLINE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut rows, mut snapshots, mut wrong) = (0, 0, Vec::new());
    // Several pools are used, since a pool grows only once.
    let in_a_pool = cases.div_ceil(6).clamp(1, 100_000);
    while rows < cases && wrong.len() < MOST_WRONG {
        for domain in DOMAINS {
            for is_single_writer in [false, true] {
                let (read, found) = if is_single_writer {
                    run_beside::<SingleWriter>(domain, in_a_pool, &mut random)
                } else {
                    run_beside::<Stm>(domain, in_a_pool, &mut random)
                };
                rows += in_a_pool;
                snapshots += read;
                let what = if is_single_writer { "single writer" } else { "STM" };
                wrong.extend(found.into_iter().map(|wrong| format!("{what}, {domain:?}: {wrong}")));
            }
        }
    }
    println!("beside everything: {rows} rows, {snapshots} snapshots, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Writers that maintain three conditions at each moment: one of the tables is called `moving …`; `left` and `right` either both exist or neither
/// does; and each row of `rows` has its twin in `twins`.
fn write_tables<C: Control<Memory = Native>>(
    db: &Database<C>,
    writer: u64,
    is_over: &AtomicBool,
) -> Result<()> {
    let (rows, twins) = (db.table::<u64, Vec<u8>>("rows")?, db.table::<u64, Vec<u8>>("twins")?);
    let mut round = 0;
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        if writer == 0 {
            db.write(|tx| {
                let tables = db.catalogue(tx)?;
                tables.rename(tx, &format!("moving {}", round - 1), &format!("moving {round}"))?;
                if !tables.delete(tx, "left")? {
                    tables.table::<u64, u64>(tx, "left")?.insert(tx, &round, &round)?;
                    tables.queue::<String>(tx, "right")?.push(tx, &"right".to_string())?;
                } else {
                    tables.delete(tx, "right")?;
                }
                Ok(())
            })?;
        } else {
            let key = 1000 * writer + round % 50;
            let row = vec![round as u8; (round * 977 % 20_000) as usize];
            db.write(|tx| {
                rows.insert(tx, &key, &row)?;
                twins.insert(tx, &key, &row)?;
                rows.remove(tx, &(key + 7))?;
                twins.remove(tx, &(key + 7)).map(drop)
            })?;
        }
    }
    Ok(())
}

/// Checks the results of `list`, `check`, `space`, `usage` and `lost_memory` while writers work.
fn look_beside<C: Control<Memory = Native>>(domain: Domain, calls: u32) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let db = Database::from(
        Store::<Tables, C>::open(&path, &options(domain, 64 << 20), |tx| Tables::new(tx)).unwrap(),
    );
    db.table::<u64, u64>("moving 0").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                scope.spawn({
                    let (db, is_over) = (&db, &is_over);
                    move || write_tables(db, writer, is_over)
                })
            })
            .collect();
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut before = db.space().unwrap();
            for _ in 0..calls {
                let names: Vec<String> = db.list().unwrap().into_iter().map(|table| table.name).collect();
                let count = |is_one: fn(&str) -> bool| names.iter().filter(|name| is_one(name)).count();
                assert_eq!(count(|name| name.starts_with("moving ")), 1, "{names:?}");
                assert_eq!(count(|name| name == "left"), count(|name| name == "right"), "{names:?}");
                assert!(names.is_sorted(), "{names:?}");
                assert_eq!(db.check().unwrap(), [""; 0]);
                assert_eq!(db.lost_memory().unwrap().blocks, 0);
                // The file only grows, and is never shorter than its content.
                let used = db.usage().unwrap();
                let space = db.space().unwrap();
                assert!(
                    space.file_bytes >= before.file_bytes && space.file_bytes >= used.allocated_bytes,
                    "{space:?}"
                );
                assert!(space.disk_bytes > 0 && space.memory_bound == before.memory_bound, "{space:?}");
                assert_eq!(space.memory_bound.is_some(), domain == Domain::Sync);
                before = space;
            }
            assert_eq!(before.file_bytes, std::fs::metadata(&path).unwrap().len().min(before.file_bytes));
        }));
        is_over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().unwrap().unwrap();
        }
        looked.unwrap();
    });
    let (rows, twins) =
        (db.table::<u64, Vec<u8>>("rows").unwrap(), db.table::<u64, Vec<u8>>("twins").unwrap());
    let all = db.read(|tx| {
        Ok((rows.iter(tx)?.collect::<Result<Vec<_>>>()?, twins.iter(tx)?.collect::<Result<Vec<_>>>()?))
    });
    let (rows, twins) = all.unwrap();
    assert_eq!(rows, twins);
}

/// `STRANDLINE_CASES=1000` makes this number of calls of each function.
#[test]
fn list_check_and_space_beside_writers_are_right() {
    let calls = std::env::var("STRANDLINE_CASES").ok().and_then(|calls| calls.parse().ok()).unwrap_or(15);
    for domain in DOMAINS {
        look_beside::<Stm>(domain, calls);
        look_beside::<SingleWriter>(domain, calls);
    }
}
