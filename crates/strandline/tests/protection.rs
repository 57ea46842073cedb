//! Protection against stray writes. Where processor or system have no keys, opening says so, and that is all.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use strandline::{HashMap, Persist, Store, Tx};
use strandline_core::layout::Geometry;
use strandline_core::scheme::SchemeKind;
use strandline_core::{Concurrency, Domain, Error, Options, Pool, Read, Result, Runner, Transaction};

#[derive(Persist)]
struct Root<'p> {
    map: HashMap<'p, u64, String>,
}

fn make<'p>(tx: &Tx<'p>) -> Result<Root<'p>> {
    Ok(Root { map: HashMap::new(tx)? })
}

fn options(domain: Domain) -> Options {
    let geometry = Geometry { size: 16 << 20, logs: 4, log_bytes: 1 << 16, chunk_bytes: 1 << 14 };
    Options { domain, geometry, assume_persistent: true, protect: true, lock_bits: 10, ..Options::default() }
}

/// Whether this machine has keys; if it says so, opening has to work.
fn has_keys() -> bool {
    std::fs::read_to_string("/proc/cpuinfo")
        .is_ok_and(|cpus| cpus.split_whitespace().any(|flag| flag == "ospke"))
}

#[test]
fn without_keys_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options(Domain::Process));
    match pool {
        Ok(_) => assert!(has_keys()),
        Err(Error::NoProtectionKey { .. }) => assert!(!has_keys()),
        Err(error) => panic!("{error}"),
    }
}

/// Threads that are older than the pool and threads that are younger, in every domain, with a kill and a backup.
#[test]
fn every_thread_can_run_transactions() {
    if !has_keys() {
        return;
    }
    for domain in [Domain::Process, Domain::Sync, Domain::Flush, Domain::FlushOnFail] {
        let (to_old, from_main) = mpsc::channel::<std::sync::Arc<Store<Root<'static>>>>();
        let write = |store: &Store<Root>, from: u64| {
            for key in from..from + 50 {
                store.update(|tx, root| root.get(tx)?.map.insert(tx, &key, &format!("text {key}"))).unwrap();
            }
        };
        let old = std::thread::spawn(move || {
            let store = from_main.recv().unwrap();
            // Its first access is a read.
            assert_eq!(store.view(|tx, root| root.get(tx)?.map.count(tx)).unwrap(), 0);
            write(&store, 0);
            store.pool().usage().unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let store = std::sync::Arc::new(Store::<Root>::create(&path, &options(domain), make).unwrap());
        to_old.send(store.clone()).unwrap();
        old.join().unwrap();
        let young = store.clone();
        std::thread::spawn(move || write(&young, 100)).join().unwrap();
        let (_, ticket) =
            store.update_later(|tx, root| root.get(tx)?.map.insert(tx, &7, &"later".to_owned())).unwrap();
        ticket.wait().unwrap();
        store.pool().checkpoint().unwrap();
        if domain == Domain::Sync {
            store.pool().backup(folder.path().join("copy")).unwrap();
        }
        drop(store);
        let store = Store::<Root>::open(&path, &options(domain)).unwrap();
        let held = store.view(|tx, root| {
            let map = root.get(tx)?.map;
            Ok((map.count(tx)?, map.get(tx, &7)?, map.get(tx, &149)?))
        });
        assert_eq!(held.unwrap(), (100, Some("later".into()), Some("text 149".into())), "{domain:?}");
        store.close().unwrap();
    }
}

#[test]
fn other_schemes_store_through_the_window_too() {
    if !has_keys() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
        let options = Options { concurrency, ..options(Domain::Flush) };
        let pool = Pool::create(folder.path().join(format!("{concurrency:?}")), &options).unwrap();
        let mut worker = pool.worker_of(&strandline_schemes::MNE_SYNC).unwrap();
        // A worker may go to another thread.
        let mut worker = std::thread::spawn(move || {
            worker.run(|tx| tx.write(tx.root(3), 9)).unwrap();
            worker
        })
        .join()
        .unwrap();
        assert_eq!(worker.run(|tx| tx.read(tx.root(3))).unwrap(), 9);
        drop(worker);
        pool.close().unwrap();
    }
}

/// Where `path` is mapped in this process.
fn mapped_at(path: &Path) -> *mut u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with(path.to_str().unwrap())).unwrap();
    usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap() as *mut u64
}

const CHILD: &str = "STRANDLINE_STRAY_WRITE";

/// Run in a process of its own by the test below: writes past the library, within a transaction even.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let protect = std::env::var("STRANDLINE_PROTECT").is_ok();
    let pool = Pool::open(&path, &Options { protect, ..options(Domain::Process) }).unwrap();
    let mut worker = pool.worker().unwrap();
    let stray = mapped_at(Path::new(&path));
    worker
        .run(|tx| {
            tx.write(tx.root(0), 1)?;
            // SAFETY: none: this is the bug that the protection is for. The word is the header's, which nobody uses.
            unsafe { stray.add(300).write_volatile(1) };
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_stray_write_is_a_segmentation_fault() {
    if !has_keys() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("pool");
    Pool::create(&path, &options(Domain::Process)).unwrap().close().unwrap();
    let run = |protect: bool| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "child", "--test-threads=1"]).env(CHILD, &path);
        if protect {
            child.env("STRANDLINE_PROTECT", "1");
        }
        child.output().unwrap().status
    };
    assert_eq!(run(true).signal(), Some(11), "SIGSEGV");
    let pool = Pool::open(&path, &options(Domain::Process)).unwrap();
    assert_eq!(pool.worker().unwrap().run(|tx| tx.read(tx.root(0))).unwrap(), 0, "nothing was committed");
    pool.close().unwrap();
    // Without protection the same write goes unnoticed until the header is next read.
    assert!(run(false).success());
    assert!(matches!(Pool::open(&path, &options(Domain::Process)), Err(Error::DamagedHeader { .. })));
}

/// `cargo test --release -p strandline --test protection -- --ignored --nocapture cost`
#[test]
#[ignore = "a measurement"]
fn cost() {
    let folder =
        if Path::new("/dev/shm").is_dir() { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
    let folder = folder.unwrap();
    let mut medians = Vec::new();
    let mut pools = Vec::new();
    for domain in [Domain::Process, Domain::Flush] {
        for protect in [false, true] {
            let path = folder.path().join(format!("{domain:?}{protect}"));
            pools.push(Pool::create(path, &Options { protect, ..options(domain) }).unwrap());
        }
    }
    let mut times = vec![Vec::new(); pools.len()];
    // In turn, so that whatever else the machine does meets all alike.
    for round in 0..31 {
        for (pool, times) in pools.iter().zip(&mut times) {
            let mut worker = pool.worker().unwrap();
            let first = worker.run(|tx| tx.alloc(8 * 1024)).unwrap();
            let since = Instant::now();
            for i in 0..20_000u64 {
                let at = |n: u64| first.word((i * 7919 + n * 104_729 + round) % 1024);
                worker
                    .run(|tx| {
                        let (one, other) = (tx.read(at(0))?, tx.read(at(1))?);
                        tx.write(at(0), other + 1)?;
                        tx.write(at(1), one)
                    })
                    .unwrap();
            }
            times.push(since.elapsed().as_nanos() as f64 / 20_000.0);
            worker.run(|tx| tx.free(first)).unwrap();
        }
    }
    for mut times in times {
        times.sort_by(f64::total_cmp);
        medians.push(times[times.len() / 2]);
    }
    println!(
        "a swap of two words, ns: process {:.0}, protected {:.0}; flush {:.0}, protected {:.0}",
        medians[0], medians[1], medians[2], medians[3]
    );
}
