//! A forked child cannot do anything with its parent's pool.
//!
//! Each test runs itself again in a process of its own, which has one thread besides those of the pools. This process forks and then ends as if it
//! was killed; the test checks the files that it leaves.

use std::path::{Path, PathBuf};
use std::process::Command;

use strandline::control::{Request, ask};
use strandline::{Database, Store};
use strandline_core::layout::{Geometry, Layout};
use strandline_core::{Concurrency, Domain, Error, Options, Pool, Read, Result, Runner, Transaction};
use strandline_schemes::laboratory;

const FOLDER: &str = "STRANDLINE_FORK_FOLDER";

fn options(domain: Domain) -> Options {
    let geometry = Geometry { size: 4 << 20, logs: 4, log_bytes: 1 << 15, chunk_bytes: 1 << 14 };
    Options { domain, geometry, assume_persistent: true, lock_bits: 10, ..Options::default() }
}

const DOMAINS: [Domain; 4] = [Domain::Process, Domain::Sync, Domain::Flush, Domain::FlushOnFail];

fn path(folder: &Path, domain: Domain) -> PathBuf {
    folder.join(domain.name())
}

/// Runs `forking` in a new process, which runs the test called `name` again, and then `look` in this one.
fn in_process(name: &str, forking: impl FnOnce(&Path), look: impl FnOnce(&Path)) {
    if let Ok(folder) = std::env::var(FOLDER) {
        forking(Path::new(&folder));
        // The process ends as if it was killed: nothing is closed. SAFETY: the call ends the process.
        unsafe { libc::_exit(0) }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("fork::{name}"), "--test-threads=1", "--nocapture"])
        .env(FOLDER, folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    look(folder.path());
}

/// Runs `body` in a forked child, which must return from it within five minutes and without a panic.
fn in_child(body: impl FnOnce()) {
    wait(fork(body));
}

fn fork(body: impl FnOnce()) -> i32 {
    // SAFETY: no other thread holds a lock that the child will need, except the pools' locks, which this test is about. The allocator takes care of
    // its own locks.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: the call kills the child if it waits for ever.
            unsafe { libc::alarm(300) };
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: the call ends the child, without dropping objects of the parent.
            unsafe { libc::_exit(i32::from(outcome.is_err())) }
        }
        child => {
            assert!(child > 0);
            child
        }
    }
}

fn wait(child: i32) {
    let mut status = 0;
    // SAFETY: this is a child of this process, and no other thread waits for it.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status:#x}");
}

fn refused<T>(result: Result<T>) {
    assert!(matches!(result, Err(Error::Forked)), "{:?}", result.err());
}

fn increment(store: &Store<u64>) -> Result<()> {
    store.write(|tx, root| root.update(tx, |count| *count += 1))
}

/// Checks that the pool was in use, and that it holds `value`.
fn recovers(path: &Path, domain: Domain, value: u64) {
    let state = Layout::STATE.offset() as usize;
    let state = &std::fs::read(path).unwrap()[state..state + 8];
    assert_ne!(state, [0; 8], "{domain:?}: nobody has closed it");
    let store = Store::<u64>::open_existing(path, &options(domain)).unwrap();
    assert_eq!(store.read(|tx, root| root.get(tx)).unwrap(), value, "{domain:?}");
    store.close().unwrap();
}

#[test]
fn everything_is_refused_and_nothing_closed() {
    let forking = |folder: &Path| {
        for domain in DOMAINS {
            let store = Store::<u64>::create_new(path(folder, domain), &options(domain), |_| Ok(0)).unwrap();
            increment(&store).unwrap();
            let mut session = store.session().unwrap();
            let pool = store.pool();
            let mut worker = pool.worker().unwrap();
            // This starts the thread that flushes.
            let (_, ticket) = store.later().write(|tx, root| root.update(tx, |count| *count += 1)).unwrap();
            for closes in [false, true] {
                // The child drops only its own copies of these.
                in_child(|| {
                    refused(increment(&store));
                    refused(store.read(|tx, root| root.get(tx)));
                    refused(store.later().write(|tx, root| root.set(tx, &9)));
                    refused(store.session());
                    refused(session.write(|tx, root| root.set(tx, &9)));
                    refused(session.read(|tx, root| root.get(tx)));
                    refused(worker.run(|_| Ok(())));
                    refused(worker.run_later(|_| Ok(())));
                    refused(worker.drain());
                    refused(pool.worker());
                    refused(pool.wait_for_worker());
                    if domain != Domain::Sync {
                        refused(strandline_schemes::PlainWorker::in_pool(&pool, 2));
                    }
                    refused(pool.checkpoint());
                    refused(pool.backup(folder.join("copy")));
                    refused(pool.usage());
                    refused(pool.ticket(2));
                    if domain == Domain::Sync {
                        refused(ticket.is_durable());
                        refused(ticket.wait());
                    }
                    // SAFETY: the child never returns to the code that owns the originals.
                    let (store, pool, session, worker, ticket) = unsafe {
                        use std::ptr::read;
                        (read(&store), read(&pool), read(&session), read(&worker), read(&ticket))
                    };
                    drop((session, worker, pool, ticket.clone(), ticket));
                    if closes {
                        refused(store.close());
                    } else {
                        drop(store);
                    }
                });
            }
            assert!(!folder.join("copy").exists());
            // The leases of the parent are unchanged.
            increment(&store).unwrap();
            session.write(|tx, root| root.update(tx, |count| *count += 1)).unwrap();
            ticket.wait().unwrap();
            // The process ends without closing the pool.
            std::mem::forget((session, worker, pool));
            std::mem::forget(store);
        }
    };
    in_process("everything_is_refused_and_nothing_closed", forking, |folder| {
        for domain in DOMAINS {
            recovers(&path(folder, domain), domain, 4);
        }
    });
}

#[test]
fn plain_stores_are_refused_too() {
    let forking = |folder: &Path| {
        let setup = laboratory(Concurrency::Stm);
        let pool = setup.create(folder.join("pool"), &options(Domain::Process)).unwrap();
        let mut worker = strandline_schemes::PlainWorker::in_pool(&pool, 0).unwrap();
        in_child(|| {
            refused(pool.worker_of(&strandline_schemes::BPPM_COUNTED));
            refused(worker.run(|tx| tx.write(tx.root(0), 1)));
            refused(worker.view(|_| Ok(())));
        });
        assert_eq!(worker.run(|tx| tx.read(tx.root(0))).unwrap(), 0);
    };
    in_process("plain_stores_are_refused_too", forking, |_| {});
}

/// A worker completes its deferred commits when it is dropped, but not in a child.
#[test]
fn dropping_in_a_child_writes_nothing() {
    let forking = |folder: &Path| {
        let setup = laboratory(Concurrency::Locks);
        let pool = setup.create(folder.join("pool"), &options(Domain::Flush)).unwrap();
        let mut worker = pool.worker_of(&strandline_schemes::DCT_EAGER_SYNC).unwrap();
        worker.run(|tx| tx.write(tx.root(0), 1)).unwrap();
        let contents = || std::fs::read(folder.join("pool")).unwrap();
        let before = contents();
        in_child(|| {
            // SAFETY: the child never returns to the code that owns the originals.
            drop(unsafe { (std::ptr::read(&worker), std::ptr::read(&pool)) });
        });
        assert!(before == contents());
        drop(worker);
        assert!(before != contents(), "it had something to write");
        pool.close().unwrap();
    };
    in_process("dropping_in_a_child_writes_nothing", forking, |_| {});
}

/// The socket belongs to the parent. A child that drops the database does not remove it.
#[test]
fn dropping_in_a_child_leaves_the_control_socket() {
    let name = "dropping_in_a_child_leaves_the_control_socket";
    let forking = |folder: &Path| {
        let path = folder.join("db");
        let db = Database::open(&path).unwrap();
        db.serve_control().unwrap();
        let mut db = Some(db);
        in_child(|| {
            let db = db.take().unwrap();
            refused(db.statistics());
            refused(db.serve_control());
            refused(db.close());
            drop(db);
        });
        ask(&path, &Request::Statistics, |_| Ok(())).expect("the parent answers");
        drop(db);
    };
    in_process(name, forking, |folder| assert!(!folder.join("db.control").exists()));
}

#[test]
fn a_child_of_a_closure_commits_nothing() {
    let forking = |folder: &Path| {
        for domain in DOMAINS {
            let store = Store::<u64>::create_new(path(folder, domain), &options(domain), |_| Ok(0)).unwrap();
            for ending in ["commits", "gives up", "panics"] {
                let mut child = None;
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    store.write(|tx, root| {
                        root.update(tx, |count| *count += 1)?;
                        // SAFETY: the conditions of `in_child` hold here, too; the child ends below.
                        let id = unsafe { libc::fork() };
                        child = Some(id);
                        match ending {
                            "panics" if id == 0 => panic!("the child's"),
                            "gives up" if id == 0 => Err(Error::Aborted),
                            _ => Ok(()),
                        }
                    })
                }));
                if child == Some(0) {
                    let right = match outcome {
                        Ok(result) => ending != "panics" && matches!(result, Err(Error::Forked)),
                        Err(_) => ending == "panics",
                    };
                    // SAFETY: the call ends the child.
                    unsafe { libc::_exit(i32::from(!right)) }
                }
                assert!(matches!(outcome, Ok(Ok(()))));
                wait(child.unwrap());
            }
            std::mem::forget(store);
        }
    };
    in_process("a_child_of_a_closure_commits_nothing", forking, |folder| {
        for domain in DOMAINS {
            recovers(&path(folder, domain), domain, 3);
        }
    });
}

#[test]
fn a_child_has_pools_of_its_own() {
    let forking = |folder: &Path| {
        let parents =
            Store::<u64>::create_new(folder.join("parent's"), &options(Domain::Sync), |_| Ok(0)).unwrap();
        in_child(|| {
            let own =
                Store::<u64>::create_new(folder.join("child's"), &options(Domain::Sync), |_| Ok(0)).unwrap();
            increment(&own).unwrap();
            in_child(|| {
                refused(increment(&own));
                refused(increment(&parents));
            });
            refused(increment(&parents));
            increment(&own).unwrap();
            own.close().unwrap();
        });
        increment(&parents).unwrap();
        parents.close().unwrap();
    };
    in_process("a_child_has_pools_of_its_own", forking, |folder| {
        for (name, value) in [("parent's", 1), ("child's", 2)] {
            let store = Store::<u64>::open_existing(folder.join(name), &options(Domain::Sync)).unwrap();
            assert_eq!(store.read(|tx, root| root.get(tx)).unwrap(), value);
        }
    });
}

/// Forks a child that waits until no other process can write to the pipe any more, and then ends.
fn fork_to_wait([read, write]: [i32; 2]) -> i32 {
    fork(|| {
        let mut byte = 0u8;
        // SAFETY: the descriptor belongs to the child, and there is room for the byte.
        unsafe {
            libc::close(write);
            libc::read(read, (&raw mut byte).cast(), 1);
        }
    })
}

fn pipe() -> [i32; 2] {
    let mut ends = [0; 2];
    // SAFETY: the call writes two numbers to the array.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends
}

fn close([read, write]: [i32; 2]) {
    // SAFETY: both descriptors belong to this process.
    unsafe { (libc::close(write), libc::close(read)) };
}

/// Runs `body` while a child of this process exists, which has inherited all open files.
fn beside_a_child(body: impl FnOnce()) {
    let ends = pipe();
    let child = fork_to_wait(ends);
    body();
    close(ends);
    wait(child);
}

/// However a pool was closed, another process can then open it.
#[test]
fn a_pool_that_is_closed_is_unlocked_while_children_live() {
    let forking = |folder: &Path| {
        for domain in DOMAINS {
            let (path, options) = (path(folder, domain), options(domain));
            let opens = || in_child(|| Pool::open(&path, &options).unwrap().close().unwrap());
            let store = Store::<u64>::create_new(&path, &options, |_| Ok(0)).unwrap();
            beside_a_child(|| {
                store.close().unwrap();
                opens();
            });
            let pool = Pool::open(&path, &options).unwrap();
            beside_a_child(|| {
                drop(pool);
                opens();
            });
            // This creation fails after it has locked its files.
            let (ends, new) = (pipe(), path.with_extension("new"));
            let mut child = None;
            let failed = Store::<u64>::create_new(&new, &options, |_| {
                child.get_or_insert_with(|| fork_to_wait(ends));
                Err(Error::Aborted)
            });
            assert!(matches!(failed, Err(Error::Aborted)));
            in_child(|| Store::<u64>::create_new(&new, &options, |_| Ok(0)).unwrap().close().unwrap());
            close(ends);
            wait(child.unwrap());
        }
    };
    in_process("a_pool_that_is_closed_is_unlocked_while_children_live", forking, |_| {});
}

/// Checks what the documentation says of the lock.
#[test]
fn a_pool_whose_process_died_is_locked_while_a_child_of_it_lives() {
    let forking = |folder: &Path| {
        for domain in DOMAINS {
            let (path, options) = (path(folder, domain), options(domain));
            let ends = pipe();
            // The process ends without closing the pool.
            in_child(|| {
                std::mem::forget(Store::<u64>::create_new(&path, &options, |_| Ok(0)).unwrap());
                fork_to_wait(ends);
            });
            assert!(matches!(Pool::open(&path, &options), Err(Error::Locked { .. })));
            close(ends);
            // The grandchild is not a child of this process, so that the test cannot wait for it.
            let pool = loop {
                match Pool::open(&path, &options) {
                    Err(Error::Locked { .. }) => std::thread::yield_now(),
                    opened => break opened.unwrap(),
                }
            };
            pool.close().unwrap();
        }
    };
    in_process("a_pool_whose_process_died_is_locked_while_a_child_of_it_lives", forking, |_| {});
}
