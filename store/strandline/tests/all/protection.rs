//! Protection against stray writes. If the processor or the system has no protection keys, opening must report that, and nothing else is tested. The
//! stray writes themselves are in `tests/processes/stray_write.rs`.

use std::sync::mpsc;

use strandline::{HashMap, Persist, Store, Tx};
use strandline_core::layout::Geometry;
use strandline_core::{Concurrency, Domain, Error, Options, Pool, Read, Result, Runner, Transaction};
use strandline_schemes::laboratory;

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

/// Returns whether this machine has protection keys. If the system reports them, opening has to work.
pub fn has_keys() -> bool {
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

/// Threads that are older than the pool and threads that are younger run transactions, in every domain, with a kill and a backup.
#[test]
fn every_thread_can_run_transactions() {
    if !has_keys() {
        return;
    }
    for domain in [Domain::Process, Domain::Sync, Domain::Flush, Domain::FlushOnFail] {
        let (to_old, from_main) = mpsc::channel::<std::sync::Arc<Store<Root<'static>>>>();
        let write = |store: &Store<Root>, from: u64| {
            for key in from..from + 50 {
                store.write(|tx, root| root.get(tx)?.map.insert(tx, &key, &format!("text {key}"))).unwrap();
            }
        };
        let old = std::thread::spawn(move || {
            let store = from_main.recv().unwrap();
            // The first access of this thread is a read.
            assert_eq!(store.read(|tx, root| root.get(tx)?.map.len(tx)).unwrap(), 0);
            write(&store, 0);
            store.usage().unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let store = std::sync::Arc::new(Store::<Root>::create_new(&path, &options(domain), make).unwrap());
        to_old.send(store.clone()).unwrap();
        old.join().unwrap();
        let young = store.clone();
        std::thread::spawn(move || write(&young, 100)).join().unwrap();
        let (_, ticket) =
            store.later().write(|tx, root| root.get(tx)?.map.insert(tx, &7, &"later".to_owned())).unwrap();
        ticket.wait().unwrap();
        store.checkpoint().unwrap();
        if domain == Domain::Sync {
            store.backup(folder.path().join("copy")).unwrap();
        }
        drop(store);
        let store = Store::<Root>::open_existing(&path, &options(domain)).unwrap();
        let held = store.read(|tx, root| {
            let map = root.get(tx)?.map;
            Ok((map.len(tx)?, map.get(tx, &7)?, map.get(tx, &149)?))
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
        let path = folder.path().join(format!("{concurrency:?}"));
        let pool = laboratory(concurrency).create(path, &options(Domain::Flush)).unwrap();
        let mut worker = pool.worker_of(&strandline_schemes::MNE_SYNC).unwrap();
        // A worker may move to another thread.
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
