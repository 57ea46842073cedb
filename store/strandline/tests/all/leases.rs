//! Leases: a thread that waits for a worker continues whichever thread returns one, and a thread that would wait for itself gets an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use strandline::{Control, SingleWriter, Stm, Store};
use strandline_core::engine::{Over, Setup, Worker};
use strandline_core::example::{SMALL, TestPool};
use strandline_core::layout::{Geometry, SharedLayout};
use strandline_core::memory::{Hosted, Memory, Native, coroutines};
use strandline_core::transaction::Statistics;
use strandline_core::{Abort, Domain, Error, Options, Pool, Read, Result, Runner, Transaction};

fn options(logs: u64) -> Options {
    let geometry = Geometry { size: 4 << 20, logs, log_bytes: 1 << 15, chunk_bytes: 1 << 14 };
    Options { domain: Domain::Process, geometry, lock_bits: 10, ..Options::default() }
}

/// The options of every domain in which programs can nest transactions by mistake.
fn variants(logs: u64) -> impl Iterator<Item = Options> {
    [Domain::Process, Domain::Sync].map(|domain| Options { domain, ..options(logs) }).into_iter()
}

/// Tests `body` under each control.
macro_rules! under_both {
    ($body:ident) => {
        $body::<Stm>();
        $body::<SingleWriter>();
    };
}

fn store<C: Control<Memory = Native>>(options: &Options) -> (tempfile::TempDir, Store<u64, C>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create_new(folder.path().join("pool"), options, |_| Ok(0)).unwrap();
    (folder, store)
}

/// Returns the result of `body`. Fails if `body` does not return, which only a defect can cause.
fn returning<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(body()));
    result.recv_timeout(Duration::from_secs(600)).expect("it waits for ever, or has panicked")
}

fn increment<C: Control<Memory = Native>>(store: &Store<u64, C>) -> Result<()> {
    store.write(|tx, root| root.update(tx, |count| *count += 1))
}

fn is_nested<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Nested))
}

#[test]
fn a_transaction_within_a_transaction_is_an_error() {
    fn body<C: Control<Memory = Native> + 'static>() {
        for options in variants(4) {
            returning(move || {
                let (folder, store) = store::<C>(&options);
                store
                    .write(|tx, root| {
                        root.set(tx, &7)?;
                        assert!(is_nested(increment(&store)));
                        assert!(is_nested(store.read(|tx, root| root.get(tx))));
                        assert!(is_nested(store.later().write(|tx, root| root.set(tx, &8))));
                        assert!(is_nested(store.session()));
                        assert!(is_nested(store.pool().worker()));
                        assert!(is_nested(store.backup(folder.path().join("copy"))));
                        root.update(tx, |value| *value += 1)
                    })
                    .unwrap();
                assert!(!folder.path().join("copy").exists());
                assert!(store.read(|_, _| Ok(is_nested(increment(&store)))).unwrap());
                // The closure returns the error, which ends the outer transaction.
                assert!(is_nested(store.write(|tx, root| {
                    root.set(tx, &9)?;
                    increment(&store)
                })));
                increment(&store).unwrap();
                assert_eq!(store.read(|tx, root| root.get(tx)).unwrap(), 9);
                store.close().unwrap();
            });
        }
    }
    under_both!(body);
}

#[test]
fn two_workers_of_a_thread_do_not_nest() {
    fn body<C: Control<Memory = Native> + 'static>() {
        for options in variants(4) {
            returning(move || {
                let folder = tempfile::tempdir().unwrap();
                let pool = Setup::<C>::default().create(folder.path().join("pool"), &options).unwrap();
                let (mut outer, mut inner) = (pool.worker().unwrap(), pool.worker().unwrap());
                let nested = outer.run(|tx| {
                    tx.write(tx.root(0), 1)?;
                    Ok(is_nested(inner.view(|tx| tx.read(tx.root(0)))))
                });
                assert!(nested.unwrap());
                inner.run(|tx| tx.write(tx.root(1), 2)).unwrap();
                // On two threads side by side, these are two transactions.
                outer
                    .view(|tx| {
                        let inner = &mut inner;
                        std::thread::scope(|threads| {
                            threads.spawn(|| inner.view(|tx| tx.read(tx.root(1)))).join()
                        })
                        .unwrap()
                        .map_err(|_| Abort::User)
                        .and_then(|value| Ok((value, tx.read(tx.root(0))?)))
                    })
                    .map(|found| assert_eq!(found, (2, 1)))
                    .unwrap();
            });
        }
    }
    under_both!(body);
}

#[test]
fn without_transactions_they_do_not_nest_either() {
    returning(|| {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::create(folder.path().join("pool"), &options(4)).unwrap();
        let (mut outer, mut inner) = (
            strandline_schemes::PlainWorker::in_pool(&pool, 0).unwrap(),
            strandline_schemes::PlainWorker::in_pool(&pool, 1).unwrap(),
        );
        assert!(outer.run(|_| Ok(is_nested(inner.run(|_| Ok(()))))).unwrap());
        assert!(catch_unwind(AssertUnwindSafe(|| outer.run::<()>(|_| panic!("in the closure")))).is_err());
        inner.run(|tx| tx.write(tx.root(0), 1)).unwrap();
    });
}

#[test]
fn a_session_beyond_the_logs_in_a_closure_is_an_error() {
    fn body<C: Control<Memory = Native> + 'static>() {
        for options in variants(2) {
            returning(move || {
                let (_folder, store) = store::<C>(&options);
                let (mut session, worker) = (store.session().unwrap(), store.pool().worker().unwrap());
                session
                    .write(|tx, root| {
                        assert!(is_nested(store.session()));
                        assert!(is_nested(increment(&store)));
                        assert!(is_nested(store.pool().wait_for_worker()));
                        assert!(is_nested(store.pool().worker()));
                        root.set(tx, &1)
                    })
                    .unwrap();
                drop((session, worker));
                increment(&store).unwrap();
                store.close().unwrap();
            });
        }
    }
    under_both!(body);
}

#[test]
fn transactions_on_different_pools_nest() {
    let stores = [(); 3].map(|()| store::<Stm>(&options(2)));
    let [first, second, third] = [0, 1, 2].map(|i| &stores[i].1);
    first
        .write(|tx, root| {
            second.write(|tx, root| {
                increment(third)?;
                increment(third)?;
                assert!(is_nested(increment(first)));
                assert!(is_nested(increment(second)));
                root.set(tx, &10)
            })?;
            increment(second)?;
            assert!(is_nested(increment(first)));
            root.set(tx, &20)
        })
        .unwrap();
    for (store, value) in [(first, 20), (second, 11), (third, 2)] {
        assert_eq!(store.read(|tx, root| root.get(tx)).unwrap(), value);
    }
}

#[test]
fn workers_and_sessions_move_between_threads() {
    let (_folder, store) = store::<Stm>(&options(2));
    let (mut session, mut worker) = (store.session().unwrap(), store.pool().worker().unwrap());
    let set = |session: &mut strandline::Session<u64>| session.write(|tx, root| root.set(tx, &1));
    set(&mut session).unwrap();
    worker.run(|tx| tx.write(tx.root(5), 1)).unwrap();
    std::thread::scope(|threads| {
        threads
            .spawn(move || {
                set(&mut session).unwrap();
                worker.run(|tx| tx.write(tx.root(5), 2)).unwrap();
            })
            .join()
            .unwrap();
    });
    increment(&store).unwrap();
}

#[test]
fn after_a_panic_the_thread_may_begin_again() {
    fn body<C: Control<Memory = Native> + 'static>() {
        for options in variants(2) {
            returning(move || {
                let (_folder, store) = store::<C>(&options);
                for _ in 0..3 {
                    let panicked = catch_unwind(AssertUnwindSafe(|| {
                        store.write(|tx, root| {
                            root.set(tx, &5)?;
                            if is_nested(increment(&store)) { panic!("in the closure") } else { Ok(()) }
                        })
                    }));
                    assert!(panicked.is_err());
                    increment(&store).unwrap();
                }
                assert_eq!(store.read(|tx, root| root.get(tx)).unwrap(), 3);
            });
        }
    }
    under_both!(body);
}

fn lease<'m>(pool: &TestPool, memory: &'m Hosted) -> Worker<Over<Stm, &'m Hosted>> {
    Worker::lease(pool.over(memory), Stm, None).unwrap()
}

/// Coroutines on one thread of the operating system count as separate threads.
#[test]
fn coroutines_have_an_identity_too() {
    let pool = TestPool::new(SMALL, None, 1, 7, None);
    let overlaps = std::cell::Cell::new(0);
    let running = std::cell::Cell::new(0);
    let thread = |memory: &Hosted| {
        let mut outer = lease(&pool, memory);
        for _ in 0..20 {
            outer
                .run(|tx| {
                    running.set(running.get() + 1);
                    overlaps.set(overlaps.get() + u32::from(running.get() > 1));
                    let added = tx.read(tx.root(0)).and_then(|value| tx.write(tx.root(0), value + 1));
                    running.set(running.get() - 1);
                    added
                })
                .unwrap();
        }
    };
    let mut turn = 0;
    let threads = vec![Box::new(thread) as coroutines::Thread<'_>, Box::new(thread)];
    coroutines::run(&pool.world(), threads, |running| {
        turn += 1;
        turn % running.len()
    });
    assert!(overlaps.get() > 0);
    let nested = |memory: &Hosted| {
        let (mut outer, mut inner) = (lease(&pool, memory), lease(&pool, memory));
        let found =
            outer.run(|tx| Ok((is_nested(inner.run(|tx| tx.write(tx.root(0), 0))), tx.read(tx.root(0))?)));
        assert_eq!(found.unwrap(), (true, 40));
        inner.run(|tx| tx.read(tx.root(0))).unwrap();
    };
    coroutines::run(&pool.world(), vec![Box::new(nested) as coroutines::Thread<'_>], |_| 0);
}

/// Waits until this number of threads wait for a lease on the pool of `worker`.
fn until_waiting(worker: &Worker, threads: u64) {
    while worker.memory().load(SharedLayout::RETURNS.word(1)) != threads {
        std::thread::yield_now();
    }
}

#[test]
fn who_waits_goes_on_whoever_gives_a_worker_back() {
    type Take = fn(&Store<u64>) -> Result<u64>;
    let takes: [Take; 4] = [
        |store| store.read(|tx, root| root.get(tx)),
        |store| store.session()?.read(|tx, root| root.get(tx)),
        |store| store.pool().wait_for_worker()?.view(|tx| tx.read(tx.root(5))),
        |store| increment(store).map(|()| 0),
    ];
    for take in takes {
        for giver in ["worker", "session"] {
            returning(move || {
                let (_folder, store) = store::<Stm>(&options(2));
                let (session, worker) = (store.session().unwrap(), store.pool().worker().unwrap());
                std::thread::scope(|threads| {
                    let waiters = [threads.spawn(|| take(&store)), threads.spawn(|| take(&store))];
                    until_waiting(&worker, 2);
                    // One worker is enough for both threads, one after the other.
                    let _kept = match giver {
                        "worker" => {
                            drop(worker);
                            (Some(session), None)
                        }
                        _ => {
                            drop(session);
                            (None, Some(worker))
                        }
                    };
                    for waiter in waiters {
                        assert_eq!(waiter.join().unwrap().unwrap(), 0);
                    }
                });
                assert_eq!(store.pool().worker().unwrap().memory().load(SharedLayout::RETURNS.word(1)), 0);
                store.close().unwrap();
            });
        }
    }
}

#[test]
fn more_threads_than_logs_take_turns() {
    fn body<C: Control<Memory = Native> + 'static>() {
        const THREADS: u64 = 8;
        const EACH: u64 = 200;
        for options in variants(2).filter(|options| options.domain == Domain::Process) {
            returning(move || {
                let (_folder, store) = store::<C>(&options);
                std::thread::scope(|threads| {
                    for thread in 0..THREADS {
                        let store = &store;
                        threads.spawn(move || {
                            for turn in 0..EACH {
                                match (thread + turn) % 4 {
                                    0 => drop(store.pool().wait_for_worker().unwrap()),
                                    1 => drop(store.pool().worker()),
                                    _ => {}
                                }
                                increment(store).unwrap();
                            }
                        });
                    }
                });
                assert_eq!(store.read(|tx, root| root.get(tx)).unwrap(), THREADS * EACH);
                store.close().unwrap();
            });
        }
    }
    under_both!(body);
}

#[test]
fn idle_workers_give_up_their_logs() {
    let (_folder, store) = store::<Stm>(&options(2));
    drop((store.session().unwrap(), store.session().unwrap()));
    let workers = [store.pool().worker().unwrap(), store.pool().worker().unwrap()];
    // These are new workers.
    assert!(workers.iter().all(|worker| worker.statistics() == Statistics::default()));
    assert!(matches!(store.pool().worker(), Err(Error::NoFreeLog { logs: 2 })));
    drop(workers);
    store.close().unwrap();
}

#[test]
fn a_pool_is_not_closed_while_a_worker_exists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let store = Store::<u64>::create_new(&path, &options(2), |_| Ok(0)).unwrap();
    let worker = store.pool().worker().unwrap();
    assert!(matches!(store.close(), Err(Error::Parameter(_))));
    drop(worker);
    Store::<u64>::open_existing(&path, &options(2)).unwrap().close().unwrap();
}
