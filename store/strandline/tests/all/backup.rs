//! Copies of a pool that are made while transactions run.

use std::sync::atomic::{AtomicBool, Ordering};

use strandline::{Control, HashMap, Persist, SingleWriter, Stm, Store};
use strandline_core::file::{check, inspect, log_path};
use strandline_core::layout::Geometry;
use strandline_core::memory::Native;
use strandline_core::scheme::Schemes;
use strandline_core::sync::SyncParameters;
use strandline_core::{Domain, Error, Options, Result, Runner, Transaction};

#[derive(Persist)]
struct Bank<'p> {
    accounts: HashMap<'p, u64, u64>,
    transfers: u64,
}

/// The log is so small that checkpoints run all the time.
fn options() -> Options {
    Options {
        geometry: Geometry { size: 4 << 20, logs: 8, log_bytes: 1 << 16, chunk_bytes: 1 << 14 },
        sync: SyncParameters {
            ring_blocks: 64,
            initial_ring_blocks: 64,
            dirty_pages: 16,
            staging_blocks: 2,
            ..SyncParameters::default()
        },
        lock_bits: 14,
        ..Options::default()
    }
}

fn total<C: Control<Memory = Native>>(store: &Store<Bank, C>) -> Result<(u64, u64)> {
    store.read(|tx, root| {
        let Bank { accounts, transfers } = root.get(tx)?;
        let sum = accounts.iter(tx).map(|pair| Ok(pair?.1)).sum::<Result<u64>>()?;
        Ok((sum, transfers))
    })
}

#[test]
fn a_copy_is_consistent_while_transactions_run() {
    copy_while_transactions_run::<Stm>(&options());
}

#[test]
fn a_copy_of_memory_is_consistent_while_transactions_run() {
    let options = Options { domain: Domain::Process, ..options() };
    copy_while_transactions_run::<Stm>(&options);
    copy_while_transactions_run::<SingleWriter>(&options);
}

fn copy_while_transactions_run<C: Control<Memory = Native>>(options: &Options) {
    let folder = tempfile::tempdir().unwrap();
    let bank = Store::<Bank, C>::create_new(folder.path().join("pool"), options, |tx| {
        Ok(Bank { accounts: HashMap::new(tx)?, transfers: 0 })
    })
    .unwrap();
    for first in (0..500).step_by(50) {
        bank.write(|tx, root| {
            let accounts = root.get(tx)?.accounts;
            (first..first + 50).try_for_each(|account| accounts.insert(tx, &account, &100).map(|_| ()))
        })
        .unwrap();
    }
    let stop = AtomicBool::new(false);
    let copies: Vec<_> = (0..3).map(|i| folder.path().join(format!("copy-{i}"))).collect();
    let mut known = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (bank, stop) = (&bank, &stop);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                while !stop.load(Ordering::Relaxed) {
                    let (from, to) = (random.u64(..500), random.u64(..500));
                    bank.write(|tx, root| {
                        let accounts = root.get(tx)?.accounts;
                        let balance = accounts.get(tx, &from)?.unwrap_or(0);
                        if balance > 0 {
                            accounts.insert(tx, &from, &(balance - 1))?;
                            accounts.entry(tx, to)?.and_modify(|balance| *balance += 1)?;
                        }
                        root.update(tx, |bank| bank.transfers += 1)
                    })
                    .unwrap();
                }
            });
        }
        for copy in &copies {
            let before = total(&bank).unwrap().1;
            bank.backup(copy).unwrap();
            known.push(before);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(matches!(bank.backup(&copies[0]), Err(Error::Io { .. })), "it exists already");
    for (copy, before) in copies.iter().zip(known) {
        assert!(!log_path(copy).exists() && inspect(copy, Schemes::default()).unwrap().in_use.is_none());
        // The copy was closed cleanly, so that any domain opens it.
        let other = if options.domain == Domain::Sync { Domain::Process } else { Domain::Sync };
        let restored =
            Store::<Bank>::open_existing(copy, &Options { domain: other, ..options.clone() }).unwrap();
        let (sum, transfers) = total(&restored).unwrap();
        assert_eq!(sum, 500 * 100);
        assert!(transfers >= before, "writes that were acknowledged before the copy began are in it");
        restored.usage().unwrap();
        restored.write(|tx, root| root.update(tx, |bank| bank.transfers = 0)).unwrap();
    }
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("partial"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_check_tells_what_is_there_and_what_is_damaged() {
    use std::os::unix::fs::FileExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let bank = Store::<Bank>::create_new(&path, &options(), |tx| {
        Ok(Bank { accounts: HashMap::new(tx)?, transfers: 0 })
    })
    .unwrap();
    let layout = *bank.pool().layout();
    assert!(matches!(check(&path, Schemes::default()), Err(Error::Locked { .. })));
    bank.close().unwrap();

    let report = check(&path, Schemes::default()).unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    assert!(report.roots[0].what.contains("Bank, version 1"), "{}", report.roots[0].what);
    assert!(report.classes.iter().map(|class| class.allocated).sum::<u64>() > 0);

    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // An impossible size in the root's description (found by the fuzzer).
    let mut word = [0; 8];
    file.read_exact_at(&mut word, layout.root(0).offset()).unwrap();
    let size_at = u64::from_le_bytes(word) + 3 * 8;
    file.read_exact_at(&mut word, size_at).unwrap();
    for size in [u64::MAX, 1 << 20] {
        file.write_all_at(&size.to_le_bytes(), size_at).unwrap();
        let damage = check(&path, Schemes::default()).unwrap().damage;
        assert!(damage.len() == 1 && damage[0].contains("smaller than its description says"), "{damage:?}");
    }
    file.write_all_at(&word, size_at).unwrap();
    assert_eq!(check(&path, Schemes::default()).unwrap().damage, Vec::<String>::new());
    // A root whose address is outside of the pool.
    file.write_all_at(&u64::MAX.to_le_bytes(), layout.root(3).offset()).unwrap();
    let report = check(&path, Schemes::default()).unwrap();
    assert_eq!((report.damage.len(), report.roots.len()), (1, 2));
    // An impossible word in the chunk table.
    file.write_all_at(&[0xff; 8], layout.chunk_table.offset()).unwrap();
    let damage = check(&path, Schemes::default()).unwrap().damage;
    assert!(damage[0].contains("chunk 0"), "{damage:?}");
    // A header that does not have its checksum.
    file.write_all_at(&[1], 100).unwrap();
    let damage = check(&path, Schemes::default()).unwrap().damage;
    assert!(damage[0].contains("header"), "{damage:?}");
}

/// A pool that plain stores have written has no consistent state to copy.
#[test]
fn a_pool_without_isolation_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { domain: Domain::Process, ..options() };
    let pool = strandline_core::Pool::create(folder.path().join("pool"), &options).unwrap();
    let copy = folder.path().join("copy");
    let worker = strandline_schemes::PlainWorker::in_pool(&pool, 0).unwrap();
    assert!(matches!(pool.backup(&copy), Err(Error::Unprotected { .. })));
    assert!(!copy.exists());
    drop(worker);
}

/// A pool takes the disk space that it needs, up to the reserved size.
#[test]
fn a_pool_grows_on_demand() {
    use std::os::unix::fs::MetadataExt;

    for domain in [Domain::Sync, Domain::Process] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let geometry = Geometry { size: 1 << 30, logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 16 };
        let options = Options { geometry, domain, initial_size: Some(1 << 20), ..options() };
        let bank = Store::<Bank>::create_new(&path, &options, |tx| {
            Ok(Bank { accounts: HashMap::new(tx)?, transfers: 0 })
        })
        .unwrap();
        let on_disk = || std::fs::metadata(&path).unwrap().blocks() * 512;
        let (before, length) = (on_disk(), || std::fs::metadata(&path).unwrap().len());
        assert!(before < 4 << 20 && length() < 4 << 20, "{before}");
        for first in (0..20_000).step_by(200) {
            bank.write(|tx, root| {
                let accounts = root.get(tx)?.accounts;
                (first..first + 200).try_for_each(|account| accounts.insert(tx, &account, &1).map(drop))
            })
            .unwrap();
        }
        // The disk space was there before a checkpoint wrote to it, and even before anything was written.
        let mut worker = bank.pool().worker().unwrap();
        worker.run(|tx| tx.alloc(10 << 20)).unwrap();
        drop(worker);
        let allocated = bank.usage().unwrap();
        let taken = allocated.total_bytes - allocated.free_chunks * geometry.chunk_bytes;
        assert!(taken > 10 << 20 && on_disk() >= taken, "{taken} bytes of chunks in {} on disk", on_disk());
        assert!(on_disk() < before + taken + (8 << 20) && length() < before + taken + (8 << 20));
        bank.close().unwrap();
        let bank = Store::<Bank>::open_existing(&path, &options).unwrap();
        assert_eq!(total(&bank).unwrap().0, 20_000);
    }
}
