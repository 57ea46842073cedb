//! Pools and schemes: which scheme's logs a pool has, which programs can recover them, and changing from one scheme to another.

use std::collections::BTreeSet;
use std::path::Path;

use strandline_core::file::{Options, Pool, inspect};
use strandline_core::layout::{Geometry, PoolState, SharedLayout};
use strandline_core::memory::Memory;
use strandline_core::{Concurrency, Domain, Error, Read, Result, Runner, Transaction};
use strandline_schemes::{ALL, BASE, NP, SchemeKind, laboratory};

fn options() -> Options {
    Options {
        geometry: Geometry { size: 1 << 20, logs: 2, log_bytes: 4096, chunk_bytes: 4096 },
        domain: Domain::Process,
        lock_bits: 8,
        ..Options::default()
    }
}

const WORDS: u64 = 20;

/// Writes `value` and its successors into words near the roots, in transactions that fill the log many times.
fn write(worker: &mut impl Runner, value: u64) -> Result<()> {
    for round in 0..100 {
        worker.run(|tx| {
            let at = tx.root(0).byte(256);
            (0..WORDS).try_for_each(|i| tx.write(at.word(i), value + round + i))
        })?;
    }
    Ok(())
}

fn found(pool: &Pool<Concurrency>) -> u64 {
    let mut worker = pool.worker().unwrap();
    let values: Vec<u64> = worker
        .view(|tx| {
            let mut values = vec![0; WORDS as usize];
            tx.read_range(tx.root(0).byte(256), &mut values)?;
            Ok(values)
        })
        .unwrap();
    assert!(values.windows(2).all(|two| two[1] == two[0] + 1), "half a transaction: {values:?}");
    values[0]
}

/// Copies the pool's file as a killed process would leave it.
fn killed(path: &Path, name: &str) -> std::path::PathBuf {
    let copy = path.with_file_name(name);
    std::fs::copy(path, &copy).unwrap();
    copy
}

/// Writes under BPPM and then under another scheme; a kill follows, and the pool is recovered and opened under BPPM. Then it is closed cleanly under
/// the other scheme, and opened under BPPM again.
fn leave_and_return(path: &Path, kind: SchemeKind, concurrency: Concurrency, value: u64) {
    let (options, setup) = (options(), laboratory(concurrency));
    let pool = setup.open(path, &options).unwrap();
    write(&mut pool.worker().unwrap(), value).unwrap();
    write(&mut pool.worker_of(kind).unwrap(), value + 1000).unwrap();
    let copy = killed(path, kind.name(concurrency));
    if kind.is_durable() {
        assert_eq!(inspect(&copy, ALL).unwrap().scheme, Some(kind.modes[0].name));
        assert_eq!(found(&setup.open(&copy, &options).unwrap()), value + 1099);
    } else {
        assert!(matches!(setup.open(&copy, &options), Err(Error::Unprotected { .. })));
    }
    write(&mut pool.worker_of(kind).unwrap(), value + 2000).unwrap();
    pool.close().unwrap();
    assert_eq!(inspect(path, ALL).unwrap().scheme, None);
    let pool = setup.open(path, &options).unwrap();
    assert_eq!(found(&pool), value + 2099);
    pool.close().unwrap();
}

#[test]
fn a_pool_goes_over_to_every_scheme_and_back() {
    for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        Pool::create(&path, &options()).unwrap().close().unwrap();
        for (number, kind) in ALL.iter().enumerate() {
            if kind.mode(concurrency).is_some() && kind.is_native {
                leave_and_return(&path, kind, concurrency, 10_000 * number as u64);
            }
        }
    }
}

#[test]
fn two_schemes_do_not_share_a_pool_and_sync_carries_bppm_alone() {
    let folder = tempfile::tempdir().unwrap();
    let setup = laboratory(Concurrency::Stm);
    let pool = setup.create(folder.path().join("pool"), &options()).unwrap();
    let worker = pool.worker().unwrap();
    assert!(matches!(pool.worker_of(&NP), Err(Error::Unsupported(_))));
    drop(worker);
    assert!(pool.worker_of(&NP).is_ok());
    let sync = Options { domain: Domain::Sync, ..options() };
    let pool = setup.create(folder.path().join("sync"), &sync).unwrap();
    for kind in ALL.iter() {
        let refused = matches!(pool.worker_of(kind), Err(Error::Unsupported(_)));
        assert_eq!(refused, !kind.in_sync, "{kind:?}");
    }
}

#[test]
fn a_state_word_survives_encoding() {
    for word in [0, 1, 0x705, 0x1_0204, u64::MAX] {
        assert_eq!(PoolState::decode(word).encode(), word);
    }
}

/// The names and numbers of schemes are unique, so that pools and commands are unambiguous.
#[test]
fn every_scheme_has_a_number_and_names_of_its_own() {
    let codes: BTreeSet<u64> = ALL.iter().map(|kind| kind.code).collect();
    assert_eq!(codes.len(), ALL.iter().count());
    assert!(codes.iter().all(|&code| code < 256), "a byte of the state word");
    let names: Vec<&str> = ALL.iter().flat_map(|kind| kind.modes).map(|mode| mode.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    for kind in ALL.iter() {
        assert_eq!(ALL.of_code(kind.code).unwrap(), kind);
        for mode in kind.modes {
            assert_eq!(ALL.of_name(mode.name), Some((kind, mode.concurrency)));
            assert_eq!(kind.name(mode.concurrency), mode.name);
        }
    }
    assert!(matches!(ALL.of_code(255), Err(Error::OtherScheme { code: 255, .. })));
    assert_eq!(ALL.of_name("nothing"), None);
}

/// An application knows one scheme: it refuses pools of the others, and changes nothing.
#[test]
fn an_application_refuses_the_pool_that_another_scheme_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = laboratory(Concurrency::Stm).create(&path, &options()).unwrap();
    write(&mut pool.worker_of(&BASE).unwrap(), 1).unwrap();
    let copy = killed(&path, "killed");
    let before = std::fs::read(&copy).unwrap();
    let refused = Pool::open(&copy, &options());
    assert!(matches!(refused, Err(Error::OtherScheme { code, .. }) if code == BASE.code));
    assert!(std::fs::read(&copy).unwrap() == before);
    assert_eq!(found(&laboratory(Concurrency::Stm).open(&copy, &options()).unwrap()), 100);
}

/// Creates a pool of the laboratory's for STM, with four logs.
fn stm_pool(folder: &Path) -> Pool<Concurrency> {
    let geometry = Geometry { size: 1 << 20, logs: 4, log_bytes: 4096, chunk_bytes: 4096 };
    laboratory(Concurrency::Stm).create(folder.join("pool"), &Options { geometry, ..options() }).unwrap()
}

/// Two workers that immediately retry take the same two lines in opposite orders: TinySTM's contention manager lets them abort each other, and every
/// transaction ends.
#[test]
fn transactions_that_retry_at_once_end() {
    const EACH: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let pool = stm_pool(folder.path());
    std::thread::scope(|scope| {
        for order in [[0, 1], [1, 0]] {
            let pool = &pool;
            scope.spawn(move || {
                let mut worker = pool.worker_of(&NP).unwrap();
                worker.retry_at_once();
                for _ in 0..EACH {
                    worker
                        .run(|tx| {
                            order.into_iter().try_for_each(|line| {
                                let at = tx.root(0).byte(256 + 64 * line);
                                let value = tx.read(at)?;
                                tx.write(at, value + 1)
                            })
                        })
                        .unwrap();
                }
                assert_eq!(worker.statistics().commits, EACH);
            });
        }
    });
    let mut worker = pool.worker_of(&NP).unwrap();
    let both =
        worker.view(|tx| Ok([tx.read(tx.root(0).byte(256))?, tx.read(tx.root(0).byte(320))?])).unwrap();
    assert_eq!(both, [2 * EACH; 2]);
}

/// A transaction ends only after another one has the serial token: the worker that immediately retries takes the token in the end.
#[test]
fn a_worker_that_retries_at_once_waits_after_very_many_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let pool = stm_pool(folder.path());
    let locked = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let observer = pool.worker_of(&NP).unwrap();
            let mut holder = pool.worker_of(&NP).unwrap();
            let mut is_first = true;
            holder
                .run(|tx| {
                    tx.write(tx.root(0).byte(256), 1)?;
                    if std::mem::take(&mut is_first) {
                        locked.wait();
                    }
                    while observer.memory().load(SharedLayout::SERIAL) == 0 {
                        std::thread::yield_now();
                    }
                    Ok(())
                })
                .unwrap();
        });
        let mut worker = pool.worker_of(&NP).unwrap();
        worker.retry_at_once();
        locked.wait();
        worker.run(|tx| tx.write(tx.root(0).byte(256), 2)).unwrap();
        assert!(worker.statistics().conflicts > 100_000, "{:?}", worker.statistics());
    });
}
