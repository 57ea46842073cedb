//! Pools and schemes: whose logs a pool has, who recovers them, and going over from one scheme to another.

use std::path::Path;

use strandline_core::file::{Options, Pool, inspect};
use strandline_core::layout::{Geometry, PoolState};
use strandline_core::scheme::SchemeKind;
use strandline_core::{Concurrency, Domain, Error, Read, Result, Runner, Transaction};

fn options(concurrency: Concurrency) -> Options {
    Options {
        geometry: Geometry { size: 1 << 20, logs: 2, log_bytes: 4096, chunk_bytes: 4096 },
        domain: Domain::Process,
        concurrency,
        lock_bits: 8,
        ..Options::default()
    }
}

const WORDS: u64 = 20;

/// Writes `value` and what follows it into the words at the roots, in transactions that fill the log many times.
fn write(worker: &mut impl Runner, value: u64) -> Result<()> {
    for round in 0..100 {
        worker.run(|tx| {
            let at = tx.root(0);
            (0..WORDS).try_for_each(|i| tx.write(at.word(i), value + round + i))
        })?;
    }
    Ok(())
}

fn found(pool: &Pool) -> u64 {
    let mut worker = pool.worker().unwrap();
    let values: Vec<u64> = worker
        .view(|tx| {
            let mut values = vec![0; WORDS as usize];
            tx.read_range(tx.root(0), &mut values)?;
            Ok(values)
        })
        .unwrap();
    assert!(values.windows(2).all(|two| two[1] == two[0] + 1), "half a transaction: {values:?}");
    values[0]
}

/// A copy of the pool's file as a killed process would leave it.
fn killed(path: &Path, name: &str) -> std::path::PathBuf {
    let copy = path.with_file_name(name);
    std::fs::copy(path, &copy).unwrap();
    copy
}

/// Writes under BPPM, then under another scheme, is killed, recovered and opened under BPPM; then closed cleanly under
/// the other, and opened under BPPM again.
fn leave_and_return(path: &Path, kind: SchemeKind, concurrency: Concurrency, value: u64) {
    let options = options(concurrency);
    let pool = Pool::open(path, &options).unwrap();
    write(&mut pool.worker().unwrap(), value).unwrap();
    write(&mut pool.worker_of(kind).unwrap(), value + 1000).unwrap();
    let copy = killed(path, kind.name(concurrency));
    if kind.is_durable() {
        assert_eq!(inspect(&copy).unwrap().scheme, Some(kind.name(kind.modes()[0])));
        assert_eq!(found(&Pool::open(&copy, &options).unwrap()), value + 1099);
    } else {
        assert!(matches!(Pool::open(&copy, &options), Err(Error::Unprotected { .. })));
    }
    write(&mut pool.worker_of(kind).unwrap(), value + 2000).unwrap();
    pool.close().unwrap();
    assert_eq!(inspect(path).unwrap().scheme, None);
    let pool = Pool::open(path, &options).unwrap();
    assert_eq!(found(&pool), value + 2099);
    pool.close().unwrap();
}

#[test]
fn a_pool_goes_over_to_every_scheme_and_back() {
    for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        Pool::create(&path, &options(concurrency)).unwrap().close().unwrap();
        for (number, &kind) in SchemeKind::ALL.iter().enumerate() {
            if kind.modes().contains(&concurrency) && kind.is_native() {
                leave_and_return(&path, kind, concurrency, 10_000 * number as u64);
            }
        }
    }
}

#[test]
fn two_schemes_do_not_share_a_pool_and_sync_carries_bppm_alone() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::create(folder.path().join("pool"), &options(Concurrency::Stm)).unwrap();
    let worker = pool.worker().unwrap();
    assert!(matches!(pool.worker_of(&strandline_schemes::NP), Err(Error::Unsupported(_))));
    drop(worker);
    assert!(pool.worker_of(&strandline_schemes::NP).is_ok());
    let sync = Options { domain: Domain::Sync, ..options(Concurrency::Stm) };
    let pool = Pool::create(folder.path().join("sync"), &sync).unwrap();
    for &kind in SchemeKind::ALL {
        let refused = matches!(pool.worker_of(kind), Err(Error::Unsupported(_)));
        assert_eq!(refused, !kind.in_sync(), "{kind:?}");
    }
}

#[test]
fn a_state_word_survives_encoding() {
    for word in [0, 1, 0x705, 0x1_0204, u64::MAX] {
        assert_eq!(PoolState::decode(word).encode(), word);
    }
}
