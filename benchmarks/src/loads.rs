//! Fills stores, reads them when nothing of them is in memory, and opens them after a kill.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::process::Signal;

use crate::engines::{BATCH, Engine, Values};
use crate::{Add, Arguments, Measured, device_bytes, gets, getter, key, no_latencies};

/// A way to fill a store. Returns whether the store has it.
type Load = fn(&dyn Engine, u64, &Values) -> bool;

const LOADS: [(&str, Load); 4] = [
    ("load-random", |engine, keys, values| {
        engine.load(&mut (0..keys).map(key), values, BATCH);
        true
    }),
    ("load-random-at-once", |engine, keys, values| {
        engine.load(&mut (0..keys).map(key), values, usize::MAX);
        true
    }),
    ("load-ordered", |engine, keys, values| {
        engine.load(&mut (0..keys), values, BATCH);
        true
    }),
    ("load-sorted", |engine, keys, values| engine.load_sorted(&mut (0..keys), values)),
];

/// Measures each way to fill each store. The writes include those of closing the store, and the space is measured after that.
pub fn loads(arguments: &Arguments, add: Add<'_>) {
    let values = Values::new(arguments.value_bytes);
    for _ in 0..arguments.rounds {
        for (what, load) in &LOADS {
            for (name, make) in arguments.wanted() {
                let folder = tempfile::tempdir_in(&arguments.folder).expect("make a folder");
                rustix::fs::sync();
                let engine = make(folder.path(), arguments.size());
                let (before, since) = (device_bytes(), Instant::now());
                if !load(&*engine, arguments.keys, &values) {
                    continue;
                }
                let elapsed = since.elapsed();
                drop(engine);
                rustix::fs::sync();
                let mut measured = Measured::of(arguments.keys, elapsed, before, no_latencies());
                measured.disk_each = Some(disk_bytes(folder.path()) as f64 / arguments.keys as f64);
                add(what, name, 1, measured);
            }
        }
    }
}

/// Measures a transaction that doubles the number of rows, in random order, and the gets of another thread meanwhile.
pub fn one_transaction(arguments: &Arguments, add: Add<'_>) {
    let values = Values::new(arguments.value_bytes);
    for _ in 0..arguments.rounds {
        for (name, make) in arguments.wanted() {
            let folder = tempfile::tempdir_in(&arguments.folder).expect("make a folder");
            let engine = make(folder.path(), arguments.size());
            engine.load(&mut (0..arguments.keys).map(key), &values, BATCH);
            engine.settle();
            rustix::fs::sync();
            let (before, since) = (device_bytes(), Instant::now());
            let is_over = AtomicBool::new(false);
            let (latencies, count) = std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let mut get = getter(&*engine, arguments);
                    let (mut latencies, mut count) = (no_latencies(), 0);
                    while !is_over.load(Ordering::Relaxed) {
                        let since = Instant::now();
                        count += get();
                        latencies.saturating_record(since.elapsed().as_nanos() as u64);
                    }
                    (latencies, count)
                });
                let new = arguments.keys..2 * arguments.keys;
                engine.load(&mut new.map(key), &values, usize::MAX);
                is_over.store(true, Ordering::Relaxed);
                reader.join().expect("the reader panicked")
            });
            let elapsed = since.elapsed();
            add("load-at-once", name, 1, Measured::of(arguments.keys, elapsed, before, no_latencies()));
            add("gets-beside", name, 1, Measured::of(count, elapsed, device_bytes(), latencies));
        }
    }
}

/// Measures gets of random keys, and a scan of all rows, each after the system's caches of the store's files were dropped.
pub fn cold(arguments: &Arguments, add: Add<'_>) {
    let values = Values::new(arguments.value_bytes);
    for (name, make) in arguments.wanted() {
        let folder = tempfile::tempdir_in(&arguments.folder).expect("make a folder");
        let open = || make(folder.path(), arguments.size());
        let engine = open();
        engine.load(&mut (0..arguments.keys).map(key), &values, BATCH);
        engine.settle();
        drop(engine);
        for _ in 0..arguments.rounds {
            forget(folder.path());
            add("cold-gets", name, 1, gets(&*open(), 1, arguments));
            forget(folder.path());
            let (engine, before, since) = (open(), device_bytes(), Instant::now());
            if let Some(rows) = engine.scan() {
                assert_eq!(rows, arguments.keys, "rows are missing");
                add("cold-scans", name, 1, Measured::of(rows, since.elapsed(), before, no_latencies()));
            }
        }
    }
}

/// Measures how long it takes to open a store whose program was killed, and to get a row.
pub fn restart(arguments: &Arguments, add: Add<'_>) {
    let program = std::env::current_exe().expect("the path of this program");
    for _ in 0..arguments.rounds {
        for (name, make) in arguments.wanted() {
            let folder = tempfile::tempdir_in(&arguments.folder).expect("make a folder");
            let mut fill = Command::new(&program);
            fill.args(["--engines", name, "--keys", &arguments.keys.to_string()]);
            fill.args(["--value-bytes", &arguments.value_bytes.to_string(), "--fill"]).arg(folder.path());
            let ended = fill.status().expect("run this program");
            assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()), "{name} was not filled");
            let (before, since) = (device_bytes(), Instant::now());
            let engine = make(folder.path(), arguments.size());
            assert_eq!(getter(&*engine, arguments)(), 1, "{name} has lost a row");
            let elapsed = since.elapsed();
            let mut latencies = no_latencies();
            latencies.saturating_record(elapsed.as_nanos() as u64);
            add("restart", name, 1, Measured::of(1, elapsed, before, latencies));
        }
    }
}

/// Fills the one wanted store in a folder, in random order, and ends as if this program had been killed after the last transaction.
pub fn fill_and_die(arguments: &Arguments, folder: &Path) {
    let values = Values::new(arguments.value_bytes);
    for (_, make) in arguments.wanted() {
        let engine = make(folder, arguments.size());
        engine.load(&mut (0..arguments.keys).map(key), &values, BATCH);
        rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).expect("end");
    }
}

/// Calls `visit` with each file below a folder.
fn for_each_file(folder: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).expect("read a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { for_each_file(&path, visit) } else { visit(&path) }
    }
}

/// Returns the number of bytes of disk that the files below a folder take.
fn disk_bytes(folder: &Path) -> u64 {
    let mut bytes = 0;
    for_each_file(folder, &mut |path| bytes += 512 * path.metadata().expect("a file").blocks());
    bytes
}

/// Drops the files below a folder, which must not be open, from the system's caches.
fn forget(folder: &Path) {
    rustix::fs::sync();
    for_each_file(folder, &mut |path| {
        let file = std::fs::File::open(path).expect("open a file");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("drop a cache");
    });
}
