//! Strandline beside the embedded stores that people use: the same keys, values and durability, in one run.
//!
//! ```text
//! cargo run --release --manifest-path benchmarks/Cargo.toml -- --folder /var/tmp
//! ```
//!
//! Puts: one put per transaction, durable when it is acknowledged, by 1, 8 and 32 committers. Gets: random keys that are
//! all in memory. Between the rows stand the floors: what the disk allows whoever makes every transaction durable by a
//! write of its own (4 KB appended and flushed), or shares such writes among its committers (no transactions, one
//! leader at a time writes a block for all that wait). `--features rocksdb,pmemobj` adds those two where they are installed.
//!
//! Each put is timed. `--beside scan` has a thread that reads everything at one moment again and again meanwhile, `--beside backup` one
//! that makes copies, where a store can. Half of the puts are of new keys, so that stores grow, and they run through their checkpoints
//! or compactions.

mod engines;
mod floor;
#[cfg(feature = "pmemobj")]
mod pmemobj;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use engines::{ENGINES, Engine};
use hdrhistogram::Histogram;
use serde_json::json;

/// Compare embedded stores
#[derive(Parser)]
struct Arguments {
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
    /// Numbers of threads that get
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    readers: Vec<usize>,
    /// Only these engines
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Measure everything so often, in turn; medians count, because disks are noisy
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// What goes on beside the puts; with anything, nothing is got
    #[arg(long, value_enum, default_value = "nothing")]
    beside: Beside,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What goes on beside puts.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Beside {
    Nothing,
    /// Everything is read at one moment, again and again
    Scan,
    /// Copies are made, again and again, by the stores that can
    Backup,
}

/// What some operations took, in nanoseconds.
type Latencies = Histogram<u64>;

/// What was measured of some threads.
struct Measured {
    per_second: f64,
    /// Bytes that this process sent to the device, for each operation.
    bytes_each: f64,
    latencies: Latencies,
}

/// One measured row.
struct Row {
    what: &'static str,
    engine: &'static str,
    threads: usize,
    measured: Measured,
}

/// Bytes that this process has caused to be written, by the system's account.
fn bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok()).unwrap_or(0)
}

/// Runs `threads` workers for a while, and `beside` again and again.
fn measure<'e>(
    threads: usize,
    seconds: f64,
    worker: impl Fn() -> Box<dyn FnMut() + 'e> + Sync,
    beside: Option<&(dyn Fn() + Sync)>,
) -> Measured {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let before = bytes_written();
    let (latencies, elapsed) = std::thread::scope(|scope| {
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
                    let mut latencies = no_latencies();
                    ready.wait();
                    while !stop.load(Ordering::Relaxed) {
                        let since = Instant::now();
                        operation();
                        latencies.saturating_record(since.elapsed().as_nanos() as u64);
                    }
                    latencies
                })
            })
            .collect();
        ready.wait();
        let since = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        let mut all = no_latencies();
        for thread in running {
            all += thread.join().expect("a worker panicked");
        }
        (all, since.elapsed())
    });
    let (bytes, operations) = ((bytes_written() - before) as f64, latencies.len());
    Measured {
        per_second: operations as f64 / elapsed.as_secs_f64(),
        bytes_each: bytes / operations.max(1) as f64,
        latencies,
    }
}

/// Up to 100 seconds, to three digits.
fn no_latencies() -> Latencies {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("possible bounds")
}

/// Numbers that no other worker draws: a pair that is put again unchanged would cost nothing to write.
fn random() -> fastrand::Rng {
    static SEED: AtomicU64 = AtomicU64::new(0);
    fastrand::Rng::with_seed(SEED.fetch_add(1, Ordering::Relaxed))
}

/// A key that is there, spread over all numbers.
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
    let worker = || -> Box<dyn FnMut() + '_> {
        let mut random = random();
        let mut value = vec![0; arguments.value_bytes];
        let mut worker = engine.worker();
        Box::new(move || {
            random.fill(&mut value);
            worker.put(key(random.u64(..2 * arguments.keys)), &value);
        })
    };
    measure(threads, arguments.seconds, worker, beside)
}

fn gets(engine: &dyn Engine, threads: usize, arguments: &Arguments) -> Measured {
    let worker = || -> Box<dyn FnMut() + '_> {
        let mut random = random();
        let mut worker = engine.worker();
        let length = arguments.value_bytes;
        Box::new(move || {
            assert_eq!(worker.get(key(random.u64(..arguments.keys))), Some(length), "a key is missing");
        })
    };
    measure(threads, arguments.seconds, worker, None)
}

/// Microseconds at quantiles, the last of which is the longest.
fn quantiles(latencies: &Latencies) -> [f64; 4] {
    [0.5, 0.99, 0.999, 1.0].map(|quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0)
}

fn show(row: &Row, json: bool) {
    if !json {
        let Measured { per_second, bytes_each, latencies } = &row.measured;
        let [p50, p99, p99_9, longest] = quantiles(latencies);
        println!(
            "{:<6} {:<14} {:>3} {per_second:>12.0} /s {bytes_each:>10.0} bytes written each, \
             {p50:.0}, {p99:.0}, {p99_9:.0}, {longest:.0} us",
            row.what, row.engine, row.threads
        );
    }
}

/// All engines wanted, each filled and at rest.
fn engines(arguments: &Arguments) -> Vec<(&'static str, Box<dyn Engine>, tempfile::TempDir)> {
    let wanted = |name: &str| arguments.engines.is_empty() || arguments.engines.iter().any(|e| e == name);
    let made = ENGINES.iter().filter(|(name, _)| wanted(name)).map(|(name, make)| {
        let folder = tempfile::tempdir_in(&arguments.folder).expect("make a folder");
        let engine = make(folder.path(), &arguments.keys);
        engine.load(&mut (0..arguments.keys).map(key), arguments.value_bytes);
        engine.settle();
        (*name, engine, folder)
    });
    made.collect()
}

fn main() {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    let mut add = |what, engine, threads, measured| {
        let row = Row { what, engine, threads, measured };
        show(&row, arguments.json);
        rows.push(row);
    };
    let engines = engines(&arguments);
    let floor = floor::Floor::new(&arguments.folder);
    // What loading has left in the system's caches is not written during what is measured.
    rustix::fs::sync();
    for _ in 0..arguments.rounds {
        for &threads in &arguments.committers {
            for (name, engine, _) in &engines {
                add("puts", "floor", threads, floor.measure(threads, arguments.seconds));
                add("puts", name, threads, puts(&**engine, threads, &arguments));
            }
            add("puts", "floor", threads, floor.measure(threads, arguments.seconds));
        }
        if arguments.beside != Beside::Nothing {
            continue;
        }
        for &threads in &arguments.readers {
            for (name, engine, _) in &engines {
                add("gets", name, threads, gets(&**engine, threads, &arguments));
            }
        }
    }
    summarise(&rows, arguments.json);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Medians over the rounds; puts also as a part of the floor, the mean of those before and after each row. Latencies are those of all
/// rounds together.
fn summarise(rows: &[Row], json: bool) {
    let mut seen: Vec<(&str, &str, usize)> = Vec::new();
    for row in rows {
        if !seen.contains(&(row.what, row.engine, row.threads)) {
            seen.push((row.what, row.engine, row.threads));
        }
    }
    let medians = |what: &str, engine: &str, threads: usize| {
        let (mut rates, mut bytes, mut parts, mut latencies) = (vec![], vec![], vec![], no_latencies());
        for (at, row) in rows.iter().enumerate() {
            if (row.what, row.engine, row.threads) == (what, engine, threads) {
                rates.push(row.measured.per_second);
                bytes.push(row.measured.bytes_each);
                latencies += &row.measured.latencies;
                if what == "puts" && engine != "floor" {
                    let floors = [&rows[at - 1], &rows[at + 1]].map(|row| row.measured.per_second);
                    parts.push(row.measured.per_second / (floors.iter().sum::<f64>() / 2.0));
                }
            }
        }
        let of_floor = (!parts.is_empty()).then(|| median(parts));
        (median(rates), median(bytes), of_floor, quantiles(&latencies))
    };
    let mut all = Vec::new();
    if !json {
        println!("\nmedians; latencies in us: p50, p99, p99.9, longest");
    }
    for (what, engine, threads) in seen {
        let (per_second, bytes_each, of_floor, [p50, p99, p99_9, longest]) = medians(what, engine, threads);
        if json {
            all.push(json!({
                "what": what, "engine": engine, "threads": threads, "per_second": per_second,
                "bytes_each": bytes_each, "of_floor": of_floor,
                "latency_us": { "p50": p50, "p99": p99, "p99_9": p99_9, "max": longest },
            }));
        } else {
            let of_floor = of_floor.map_or(String::new(), |part| format!("{part:>6.2} of the floor"));
            println!(
                "{what:<6} {engine:<14} {threads:>3} {per_second:>12.0} /s {bytes_each:>8.0} bytes \
                 {p50:>8.0} {p99:>8.0} {p99_9:>8.0} {longest:>8.0} {of_floor}"
            );
        }
    }
    if json {
        println!("{:#}", serde_json::Value::Array(all));
    }
}
