//! Strandline beside the embedded stores that people use: the same keys, values and durability, in one run.
//!
//! ```text
//! cargo run --release --manifest-path benchmarks/Cargo.toml -- --folder /var/tmp
//! ```
//!
//! Puts: one put per transaction, durable when it is acknowledged, by 1, 8 and 32 committers. Gets: random keys that are all in memory. Between the
//! rows are the floors: the rate of the disk if every transaction is made durable by a write of its own (4 KB appended and flushed), or if committers
//! share such writes (without transactions; one leader at a time writes a block for all that wait). `--features rocksdb,pmemobj` adds those two where
//! they are installed.
//!
//! Each put is timed. With `--beside scan`, a thread reads the whole state of one moment again and again meanwhile; with `--beside backup`, a thread
//! makes copies, if a store can do that. Half of the puts are of new keys, so that stores grow and have to run their checkpoints or compactions.
//!
//! `--what` has more: `scans`, all rows in order and as of one moment; `ycsb`, its workloads A to F; `large`, puts and gets of large values by one
//! thread; `loads`, filling a store, and the disk space that it takes then; `transaction`, a transaction of many rows, and gets beside it; `cold`,
//! gets and scans when nothing is in memory; `restart`, opening a store whose program was killed amid a load. Each begins with new stores.
//!
//! `--page PAGE` writes the medians into a page of the documentation, between two comments that name what is measured.

mod engines;
mod floor;
mod loads;
mod page;
#[cfg(feature = "pmemobj")]
mod pmemobj;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod ycsb;

use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use clap::builder::PossibleValuesParser;
use engines::{BATCH, ENGINES, Engine, Size, Values};
use hdrhistogram::Histogram;
use serde_json::json;

/// Compare embedded stores
#[derive(Clone, Parser)]
struct Arguments {
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_value = "puts,gets")]
    what: Vec<What>,
    /// Where the stores are made, on the file system to be measured
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Seconds for each row of each round
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Keys that are there before anything is measured
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Bytes in a value
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Numbers of committers
    #[arg(long, value_delimiter = ',', default_value = "1,8,32")]
    committers: Vec<usize>,
    /// Numbers of threads that get or scan
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    readers: Vec<usize>,
    /// Numbers of threads of YCSB
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    threads: Vec<usize>,
    /// Bytes in large values
    #[arg(long, value_delimiter = ',', default_value = "100000,1000000")]
    large_bytes: Vec<usize>,
    /// Only these engines
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(ENGINES.iter().map(|(name, _)| *name)))]
    engines: Vec<String>,
    /// Measure everything so often, in turn; medians count, because disks are noisy
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// What goes on beside the puts; with anything, nothing is got
    #[arg(long, value_enum, default_value = "nothing")]
    beside: Beside,
    /// Print one JSON object
    #[arg(long, conflicts_with = "page")]
    json: bool,
    /// Write the medians into this page, instead of what stands between its two comments
    #[arg(long, value_name = "PAGE")]
    page: Option<PathBuf>,
    /// Fill the store in this folder, and end as if killed. The program runs itself with this for `restart`
    #[arg(long, hide = true)]
    fill: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    Puts,
    Gets,
    /// All rows in order, as of one moment: rows per second
    Scans,
    /// YCSB's workloads A to F
    Ycsb,
    /// Puts and gets of large values, by one thread
    Large,
    /// Rows in random order, the same in one transaction, rows in order, and sorted ones in the way that a store has for them: rows per second
    Loads,
    /// As many rows again in one transaction, and gets by another thread meanwhile
    Transaction,
    /// Gets and a scan by one thread, where nothing is in memory
    Cold,
    /// Opening a store whose program was killed at the end of a load in random order, and a get
    Restart,
}

/// Work that goes on beside puts.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Beside {
    Nothing,
    /// Everything is read at one moment, again and again
    Scan,
    /// Copies are made, again and again, by the stores that can
    Backup,
}

/// The durations of operations, in nanoseconds.
type Latencies = Histogram<u64>;

/// The measurement of some threads: operations, or rows for scans.
struct Measured {
    per_second: f64,
    /// Bytes that this process sent to the device for each operation.
    bytes_each: f64,
    /// Bytes that it read from the device for each operation.
    read_each: f64,
    /// Bytes of disk that a store takes afterwards for each row, if that is measured.
    disk_each: Option<f64>,
    latencies: Latencies,
}

/// One measured row of the table.
struct Row {
    what: String,
    engine: &'static str,
    threads: usize,
    measured: Measured,
}

/// Returns the number of bytes that this process has read from devices and written to them, as the system counts them.
fn device_bytes() -> [u64; 2] {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    ["read_bytes: ", "write_bytes: "]
        .map(|name| io.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap_or(0))
}

impl Measured {
    /// Returns the measurement of `count` operations that took `elapsed`. `before` is the system's count of bytes at the beginning.
    fn of(count: u64, elapsed: Duration, before: [u64; 2], latencies: Latencies) -> Self {
        let [read_each, bytes_each] =
            std::array::from_fn(|which| (device_bytes()[which] - before[which]) as f64 / count.max(1) as f64);
        let per_second = count as f64 / elapsed.as_secs_f64();
        Self { per_second, bytes_each, read_each, disk_each: None, latencies }
    }
}

/// One operation, which returns the number for which it counts.
type Operation<'e> = Box<dyn FnMut() -> u64 + 'e>;

/// Runs `threads` workers for a while, and `beside` again and again.
fn measure<'e>(
    threads: usize,
    seconds: f64,
    worker: impl Fn() -> Operation<'e> + Sync,
    beside: Option<&(dyn Fn() + Sync)>,
) -> Measured {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let before = device_bytes();
    let (latencies, count, elapsed) = std::thread::scope(|scope| {
        let stop = &stop;
        if let Some(beside) = beside {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    beside();
                }
            });
        }
        let running: Vec<_> = (0..threads)
            .map(|_| {
                let (ready, worker) = (&ready, &worker);
                scope.spawn(move || {
                    let mut operation = worker();
                    let (mut latencies, mut count) = (no_latencies(), 0);
                    ready.wait();
                    while !stop.load(Ordering::Relaxed) {
                        let since = Instant::now();
                        count += operation();
                        latencies.saturating_record(since.elapsed().as_nanos() as u64);
                    }
                    (latencies, count)
                })
            })
            .collect();
        ready.wait();
        let since = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        let (mut all, mut counted) = (no_latencies(), 0);
        for thread in running {
            let (latencies, count) = thread.join().expect("a worker panicked");
            all += latencies;
            counted += count;
        }
        (all, counted, since.elapsed())
    });
    Measured::of(count, elapsed, before, latencies)
}

/// Returns an empty histogram for up to 100 seconds, with three digits.
fn no_latencies() -> Latencies {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("possible bounds")
}

/// Returns random numbers that no other worker draws. If a pair were put again unchanged, nothing would be written.
fn random() -> fastrand::Rng {
    static SEED: AtomicU64 = AtomicU64::new(0);
    fastrand::Rng::with_seed(SEED.fetch_add(1, Ordering::Relaxed))
}

/// Returns an existing key. Keys are spread over all numbers.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn puts(engine: &dyn Engine, threads: usize, arguments: &Arguments) -> Measured {
    let nap = || std::thread::sleep(Duration::from_millis(1));
    let scan = || match engine.scan() {
        Some(rows) => assert!(rows >= arguments.keys, "rows are missing"),
        None => nap(),
    };
    let backup = || {
        let folder = tempfile::tempdir_in(&arguments.folder).expect("make a folder");
        if !engine.backup(&folder.path().join("copy")) {
            nap();
        }
    };
    let beside: Option<&(dyn Fn() + Sync)> = match arguments.beside {
        Beside::Nothing => None,
        Beside::Scan => Some(&scan),
        Beside::Backup => Some(&backup),
    };
    let worker = || -> Operation<'_> {
        let mut random = random();
        let mut value = vec![0; arguments.value_bytes];
        let mut worker = engine.worker();
        Box::new(move || {
            random.fill(&mut value);
            worker.put(key(random.u64(..2 * arguments.keys)), &value);
            1
        })
    };
    measure(threads, arguments.seconds, worker, beside)
}

fn gets(engine: &dyn Engine, threads: usize, arguments: &Arguments) -> Measured {
    measure(threads, arguments.seconds, || getter(engine, arguments), None)
}

/// Returns an operation that gets random existing keys.
fn getter<'e>(engine: &'e dyn Engine, arguments: &Arguments) -> Operation<'e> {
    let (mut random, mut worker) = (random(), engine.worker());
    let (keys, length) = (arguments.keys, arguments.value_bytes);
    Box::new(move || {
        assert_eq!(worker.get(key(random.u64(..keys))), Some(length), "a key is missing");
        1
    })
}

/// Measures scans. Returns `None` if the engine has no order.
fn scans(engine: &dyn Engine, threads: usize, arguments: &Arguments) -> Option<Measured> {
    engine.scan()?;
    let worker = || -> Operation<'_> {
        Box::new(|| {
            let rows = engine.scan().expect("it could before");
            assert_eq!(rows, arguments.keys, "rows are missing");
            rows
        })
    };
    Some(measure(threads, arguments.seconds, worker, None))
}

/// Returns the durations at some quantiles in microseconds. The last one is the longest.
fn quantiles(latencies: &Latencies) -> [f64; 4] {
    [0.5, 0.99, 0.999, 1.0].map(|quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0)
}

fn show(row: &Row, json: bool) {
    if !json {
        let Measured { per_second, bytes_each, latencies, .. } = &row.measured;
        let [p50, p99, p99_9, longest] = quantiles(latencies);
        println!(
            "{:<12} {:<10} {:>3} {per_second:>12.0} /s {bytes_each:>10.0} bytes written each, \
             {p50:.0}, {p99:.0}, {p99_9:.0}, {longest:.0} us",
            row.what, row.engine, row.threads
        );
    }
}

/// The name of an engine, the engine, and its folder.
type Made = (&'static str, Box<dyn Engine>, tempfile::TempDir);

impl Arguments {
    /// Returns the selected engines, by name.
    fn wanted(&self) -> impl Iterator<Item = &'static (&'static str, engines::Make)> {
        ENGINES.iter().filter(|(name, _)| self.engines.is_empty() || self.engines.iter().any(|e| e == name))
    }

    /// Returns the number of bytes of a row: a key and a value.
    fn row_bytes(&self) -> usize {
        8 + self.value_bytes
    }

    fn size(&self) -> Size {
        let most_bytes = (4 * self.keys as usize * self.row_bytes()).next_power_of_two().max(1 << 30);
        Size { value_bytes: self.value_bytes, most_bytes }
    }
}

/// Returns all selected engines, filled and settled.
fn engines(arguments: &Arguments) -> Vec<Made> {
    let values = Values::new(arguments.value_bytes);
    let made = arguments.wanted().map(|(name, make)| {
        let folder = tempfile::tempdir_in(&arguments.folder).expect("make a folder");
        let engine = make(folder.path(), arguments.size());
        engine.load(&mut (0..arguments.keys).map(key), &values, BATCH);
        engine.settle();
        (*name, engine, folder)
    });
    let made = made.collect();
    // Data from loading is written from the system's caches now, and not during the measurement.
    rustix::fs::sync();
    made
}

/// A function that takes rows as they are measured: what was measured, the engine, the number of threads.
type Add<'a> = &'a mut dyn FnMut(&str, &'static str, usize, Measured);

fn puts_and_gets(arguments: &Arguments, add: Add<'_>) {
    let floor = floor::Floor::new(&arguments.folder);
    let engines = engines(arguments);
    for _ in 0..arguments.rounds {
        for &threads in arguments.committers.iter().filter(|_| arguments.what.contains(&What::Puts)) {
            for (name, engine, _) in &engines {
                add("puts", "floor", threads, floor.measure(threads, arguments.seconds));
                add("puts", name, threads, puts(&**engine, threads, arguments));
            }
            add("puts", "floor", threads, floor.measure(threads, arguments.seconds));
        }
        if arguments.beside != Beside::Nothing || !arguments.what.contains(&What::Gets) {
            continue;
        }
        for &threads in &arguments.readers {
            for (name, engine, _) in &engines {
                add("gets", name, threads, gets(&**engine, threads, arguments));
            }
        }
    }
}

fn ordered_scans(arguments: &Arguments, add: Add<'_>) {
    let engines = engines(arguments);
    for _ in 0..arguments.rounds {
        for &threads in &arguments.readers {
            for (name, engine, _) in &engines {
                if let Some(measured) = scans(&**engine, threads, arguments) {
                    add("scans", name, threads, measured);
                }
            }
        }
    }
}

fn ycsb(arguments: &Arguments, add: Add<'_>) {
    let engines = engines(arguments);
    let inserted: Vec<AtomicU64> = engines.iter().map(|_| AtomicU64::new(arguments.keys)).collect();
    for _ in 0..arguments.rounds {
        for workload in &ycsb::WORKLOADS {
            for &threads in &arguments.threads {
                for ((name, engine, _), inserted) in engines.iter().zip(&inserted) {
                    if let Some(measured) = workload.measure(&**engine, threads, inserted, arguments) {
                        add(workload.name, name, threads, measured);
                    }
                }
            }
        }
    }
}

/// Measures 64 MB of each size, and as much again with new keys.
fn large(arguments: &Arguments, add: Add<'_>) {
    for &value_bytes in &arguments.large_bytes {
        let keys = (64_000_000 / value_bytes as u64).max(1);
        let arguments = Arguments { keys, value_bytes, ..arguments.clone() };
        let engines = engines(&arguments);
        for _ in 0..arguments.rounds {
            for (name, engine, _) in &engines {
                add(&format!("puts-{value_bytes}"), name, 1, puts(&**engine, 1, &arguments));
            }
            for (name, engine, _) in &engines {
                add(&format!("gets-{value_bytes}"), name, 1, gets(&**engine, 1, &arguments));
            }
        }
    }
}

fn main() {
    let arguments = Arguments::parse();
    if let Some(folder) = &arguments.fill {
        loads::fill_and_die(&arguments, folder);
    }
    let page = arguments.page.as_deref().map(|page| page::Page::find(page, &arguments));
    let mut rows = Vec::new();
    let mut add = |what: &str, engine, threads, measured| {
        let row = Row { what: what.to_owned(), engine, threads, measured };
        show(&row, arguments.json);
        rows.push(row);
    };
    let wanted = |what| arguments.what.contains(&what);
    if wanted(What::Puts) || wanted(What::Gets) {
        puts_and_gets(&arguments, &mut add);
    }
    if wanted(What::Scans) {
        ordered_scans(&arguments, &mut add);
    }
    if wanted(What::Ycsb) {
        ycsb(&arguments, &mut add);
    }
    if wanted(What::Large) {
        large(&arguments, &mut add);
    }
    if wanted(What::Loads) {
        loads::loads(&arguments, &mut add);
    }
    if wanted(What::Transaction) {
        loads::one_transaction(&arguments, &mut add);
    }
    if wanted(What::Cold) {
        loads::cold(&arguments, &mut add);
    }
    if wanted(What::Restart) {
        loads::restart(&arguments, &mut add);
    }
    let medians = medians(&rows);
    print(&medians, arguments.json);
    if let Some(page) = page {
        page.write(&arguments, &medians);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// The medians of one row over the rounds.
struct Medians<'r> {
    what: &'r str,
    engine: &'static str,
    threads: usize,
    per_second: f64,
    bytes_each: f64,
    read_each: f64,
    disk_each: Option<f64>,
    /// For puts, the share of the floor: of the mean of the floors before and after each row.
    of_floor: Option<f64>,
    /// The durations in all rounds together.
    latencies_us: [f64; 4],
}

fn medians(rows: &[Row]) -> Vec<Medians<'_>> {
    let mut all: Vec<Medians<'_>> = Vec::new();
    for first in rows {
        let (what, engine, threads) = (&*first.what, first.engine, first.threads);
        if all.iter().any(|seen| (seen.what, seen.engine, seen.threads) == (what, engine, threads)) {
            continue;
        }
        let is_same = |row: &&Row| (&*row.what, row.engine, row.threads) == (what, engine, threads);
        let of = |part: &dyn Fn(&Measured) -> f64| {
            median(rows.iter().filter(is_same).map(|row| part(&row.measured)).collect())
        };
        let mut latencies = no_latencies();
        rows.iter().filter(is_same).for_each(|row| latencies += &row.measured.latencies);
        let parts = rows.windows(3).filter(|three| is_same(&&three[1])).map(|three| {
            let floors = three[0].measured.per_second + three[2].measured.per_second;
            three[1].measured.per_second / (floors / 2.0)
        });
        let has_floor = what == "puts" && engine != "floor";
        all.push(Medians {
            what,
            engine,
            threads,
            per_second: of(&|measured| measured.per_second),
            bytes_each: of(&|measured| measured.bytes_each),
            read_each: of(&|measured| measured.read_each),
            disk_each: first.measured.disk_each.map(|_| of(&|measured| measured.disk_each.unwrap_or(0.0))),
            of_floor: has_floor.then(|| median(parts.collect())),
            latencies_us: quantiles(&latencies),
        });
    }
    all
}

fn print(medians: &[Medians<'_>], json: bool) {
    if json {
        let rows = medians.iter().map(|row| {
            let [p50, p99, p99_9, longest] = row.latencies_us;
            json!({
                "what": row.what, "engine": row.engine, "threads": row.threads, "per_second": row.per_second,
                "bytes_each": row.bytes_each, "read_each": row.read_each, "disk_each": row.disk_each,
                "of_floor": row.of_floor,
                "latency_us": { "p50": p50, "p99": p99, "p99_9": p99_9, "max": longest },
            })
        });
        println!("{:#}", serde_json::Value::Array(rows.collect()));
        return;
    }
    println!("\nmedians; latencies in us: p50, p99, p99.9, longest");
    for row in medians {
        let Medians { what, engine, threads, per_second, bytes_each, read_each, .. } = row;
        let [p50, p99, p99_9, longest] = row.latencies_us;
        let disk = row.disk_each.map_or(String::new(), |bytes| format!(" {bytes:>6.0} bytes of disk"));
        let of_floor = row.of_floor.map_or(String::new(), |part| format!(" {part:>6.2} of the floor"));
        println!(
            "{what:<12} {engine:<10} {threads:>3} {per_second:>12.0} /s {bytes_each:>8.0} bytes written {read_each:>8.0} read \
             {p50:>8.0} {p99:>8.0} {p99_9:>8.0} {longest:>8.0}{disk}{of_floor}"
        );
    }
}
