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

mod engines;
mod floor;
#[cfg(feature = "pmemobj")]
mod pmemobj;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use engines::{ENGINES, Engine};
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
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One measured row.
struct Row {
    what: &'static str,
    engine: &'static str,
    threads: usize,
    per_second: f64,
    /// Bytes that this process sent to the device, for each operation.
    bytes_each: f64,
}

/// Bytes that this process has caused to be written, by the system's account.
fn bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok()).unwrap_or(0)
}

/// Runs `threads` workers for a while; operations per second and bytes written for each.
fn measure<'e>(
    threads: usize,
    seconds: f64,
    worker: impl Fn(usize) -> Box<dyn FnMut() + 'e> + Sync,
) -> (f64, f64) {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let before = bytes_written();
    let (operations, elapsed) = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let (stop, ready, worker) = (&stop, &ready, &worker);
                scope.spawn(move || {
                    let mut operation = worker(number);
                    ready.wait();
                    let mut done = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        operation();
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        ready.wait();
        let since = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        let operations: u64 =
            running.into_iter().map(|thread| thread.join().expect("a worker panicked")).sum();
        (operations, since.elapsed())
    });
    let bytes = (bytes_written() - before) as f64;
    (operations as f64 / elapsed.as_secs_f64(), bytes / operations.max(1) as f64)
}

/// A key that is there, spread over all numbers.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn puts(engine: &dyn Engine, threads: usize, arguments: &Arguments) -> (f64, f64) {
    measure(threads, arguments.seconds, |number| {
        let mut random = fastrand::Rng::with_seed(number as u64);
        let mut value = vec![0; arguments.value_bytes];
        let mut worker = engine.worker();
        Box::new(move || {
            random.fill(&mut value);
            worker.put(key(random.u64(..2 * arguments.keys)), &value);
        })
    })
}

fn gets(engine: &dyn Engine, threads: usize, arguments: &Arguments) -> (f64, f64) {
    measure(threads, arguments.seconds, |number| {
        let mut random = fastrand::Rng::with_seed(number as u64);
        let mut worker = engine.worker();
        let length = arguments.value_bytes;
        Box::new(move || {
            assert_eq!(worker.get(key(random.u64(..arguments.keys))), Some(length), "a key is missing");
        })
    })
}

fn show(row: &Row, json: bool) {
    if !json {
        println!(
            "{:<6} {:<14} {:>3} {:>12.0} /s {:>10.0} bytes written each",
            row.what, row.engine, row.threads, row.per_second, row.bytes_each
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
    let mut add = |what, engine, threads, (per_second, bytes_each)| {
        let row = Row { what, engine, threads, per_second, bytes_each };
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

/// Medians over the rounds; puts also as a part of the floor, the mean of those before and after each row.
fn summarise(rows: &[Row], json: bool) {
    let mut seen: Vec<(&str, &str, usize)> = Vec::new();
    for row in rows {
        if !seen.contains(&(row.what, row.engine, row.threads)) {
            seen.push((row.what, row.engine, row.threads));
        }
    }
    let medians = |what: &str, engine: &str, threads: usize| {
        let (mut rates, mut bytes, mut parts) = (vec![], vec![], vec![]);
        for (at, row) in rows.iter().enumerate() {
            if (row.what, row.engine, row.threads) == (what, engine, threads) {
                rates.push(row.per_second);
                bytes.push(row.bytes_each);
                if what == "puts" && engine != "floor" {
                    parts.push(row.per_second / ((rows[at - 1].per_second + rows[at + 1].per_second) / 2.0));
                }
            }
        }
        (median(rates), median(bytes), (!parts.is_empty()).then(|| median(parts)))
    };
    let mut all = Vec::new();
    if !json {
        println!("\nmedians");
    }
    for (what, engine, threads) in seen {
        let (per_second, bytes_each, of_floor) = medians(what, engine, threads);
        if json {
            all.push(json!({
                "what": what, "engine": engine, "threads": threads, "per_second": per_second,
                "bytes_each": bytes_each, "of_floor": of_floor,
            }));
        } else {
            let of_floor = of_floor.map_or(String::new(), |part| format!("{part:>6.2} of the floor"));
            println!(
                "{what:<6} {engine:<14} {threads:>3} {per_second:>12.0} /s {bytes_each:>8.0} bytes {of_floor}"
            );
        }
    }
    if json {
        println!("{:#}", serde_json::Value::Array(all));
    }
}
