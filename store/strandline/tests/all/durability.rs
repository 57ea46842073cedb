//! Durability of each transaction, on real files in the `Sync` domain, measured by the device's counters.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use strandline::{HashMap, Persist, Store};
use strandline_core::Options;
use strandline_core::layout::Geometry;
use strandline_core::sync::{BLOCK_BYTES, DeviceCounters, SyncParameters};

#[derive(Persist)]
struct Root<'p> {
    map: HashMap<'p, u64, u64>,
    count: u64,
}

/// Options of a pool whose commits are only flushed by transactions that wait for them.
fn options() -> Options {
    Options {
        geometry: Geometry { size: 4 << 20, logs: 16, log_bytes: 1 << 16, chunk_bytes: 1 << 14 },
        sync: SyncParameters { ring_blocks: 4096, ..SyncParameters::default() },
        flush_interval: Duration::from_secs(3600),
        lock_bits: 16,
        ..Options::default()
    }
}

fn create(options: &Options) -> (tempfile::TempDir, Store<Root<'static>>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::<Root>::create_new(folder.path().join("pool"), options, |tx| {
        Ok(Root { map: HashMap::with_capacity(tx, 1000)?, count: 0 })
    });
    (folder, store.unwrap())
}

/// Returns the device's counts for the time while `body` ran.
fn counted(store: &Store<Root<'static>>, body: impl FnOnce()) -> DeviceCounters {
    let before = store.statistics().unwrap().device;
    body();
    let after = store.statistics().unwrap().device;
    DeviceCounters {
        log_writes: after.log_writes - before.log_writes,
        log_bytes: after.log_bytes - before.log_bytes,
        heap_writes: after.heap_writes - before.heap_writes,
        heap_bytes: after.heap_bytes - before.heap_bytes,
        heap_flushes: after.heap_flushes - before.heap_flushes,
    }
}

/// Returns the number of bytes that a block with this number of records takes: its sectors of 512 bytes, or the whole block if the device does not
/// write sectors. `seen` shows which.
fn of_block(records: u64, seen: u64) -> u64 {
    match (16 * (records + 2)).next_multiple_of(512) {
        sectors if seen.is_multiple_of(sectors) && !seen.is_multiple_of(BLOCK_BYTES) => sectors,
        _ => BLOCK_BYTES,
    }
}

#[test]
fn one_wait_makes_all_that_committed_before_durable() {
    let (_folder, store) = create(&options());
    let done = counted(&store, || {
        let mut tickets = Vec::new();
        for _ in 0..100 {
            let (count, ticket) = store
                .later()
                .write(|tx, root| {
                    root.update(tx, |root| {
                        root.count += 1;
                        root.count
                    })
                })
                .unwrap();
            assert_eq!(count, tickets.len() as u64 + 1);
            tickets.push(ticket);
        }
        assert!(tickets.iter().all(|ticket| !ticket.is_durable().unwrap()));
        tickets[99].wait().unwrap();
        assert!(tickets.iter().all(|ticket| ticket.is_durable().unwrap()));
    });
    // Each transaction has a changed word and a commit record, of 16 bytes each. Two hundred records fit into one block.
    let log_bytes = of_block(200, done.log_bytes);
    assert_eq!(done, DeviceCounters { log_writes: 1, log_bytes, ..DeviceCounters::default() });
}

/// A transaction that waits also makes durable all commits before it that did not wait, and those that it has read.
#[test]
fn a_later_commit_or_a_read_that_waits_covers_earlier_ones() {
    let (_folder, store) = create(&options());
    let later = || store.later().write(|tx, root| root.update(tx, |root| root.count += 1)).unwrap().1;
    let first = later();
    store.write(|tx, root| root.get(tx)?.map.insert(tx, &1, &1).map(drop)).unwrap();
    assert!(first.is_durable().unwrap());
    let second = later();
    assert!(!second.is_durable().unwrap());
    store.read(|tx, root| root.get(tx).map(drop)).unwrap();
    assert!(second.is_durable().unwrap());
    // A transaction that only reads needs no more than what it has read to be durable.
    let third = later();
    let (_, read) = store.later().write(|tx, root| root.get(tx).map(drop)).unwrap();
    assert_eq!(read.transaction(), third.transaction());
}

#[test]
fn committers_share_flushes_of_no_more_blocks_than_they_need() {
    let (_folder, store) = create(&options());
    let (threads, commits) = (8, 100);
    let done = counted(&store, || {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let store = &store;
                scope.spawn(move || {
                    for i in 0..commits {
                        store
                            .write(|tx, root| {
                                let map = root.get(tx)?.map;
                                map.insert(tx, &(thread * commits + i), &i).map(drop)
                            })
                            .unwrap();
                    }
                });
            }
        });
    });
    // A group has at most eight transactions of fewer than twenty records each, never more than a block of 254.
    assert!(done.log_bytes <= done.log_writes * BLOCK_BYTES);
    assert!(done.log_writes <= threads * commits);
    assert!(done.log_writes >= commits, "each of a thread's commits waits for a flush of its own: {done:?}");
}

/// A checkpoint writes each dirty page once, however often it has changed.
#[test]
fn a_checkpoint_writes_each_dirty_page_once() {
    let (_folder, store) = create(&options());
    store.checkpoint().unwrap();
    let done = counted(&store, || {
        for _ in 0..50 {
            store.write(|tx, root| root.update(tx, |root| root.count += 1)).unwrap();
        }
        store.checkpoint().unwrap();
    });
    // The page of the count, and the checkpoint slot.
    assert_eq!((done.heap_writes, done.heap_bytes), (2, 2 * 4096));
    // The checkpoint makes the log write a block, which says that the last one is durable.
    assert_eq!((done.log_writes, done.log_bytes), (51, 51 * of_block(2, done.log_bytes)));
}

/// Commits that do not wait fill the staging memory. When it is full, committers flush themselves.
#[test]
fn commits_that_nobody_waits_for_are_bounded_by_the_staging() {
    let options = Options {
        sync: SyncParameters {
            ring_blocks: 600,
            initial_ring_blocks: 600,
            staging_blocks: 2,
            dirty_pages: 64,
            ..SyncParameters::default()
        },
        ..options()
    };
    let (_folder, store) = create(&options);
    let done = counted(&store, || {
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let store = &store;
                scope.spawn(move || {
                    for i in 0..400 {
                        let (_, ticket) = store
                            .later()
                            .write(|tx, root| {
                                let map = root.get(tx)?.map;
                                for key in 0..20 {
                                    map.insert(tx, &(thread * 400 + 20 * i + key), &i)?;
                                }
                                Ok(())
                            })
                            .unwrap();
                        drop(ticket);
                    }
                });
            }
        });
    });
    assert!(done.log_writes > 1);
    store.close().unwrap();
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_ticket_can_be_awaited() {
    let (_folder, store) = create(&options());
    let store = &store;
    let commit = || async move {
        let (count, ticket) = store.later().write(|tx, root| {
            root.update(tx, |root| {
                root.count += 1;
                root.count
            })
        })?;
        ticket.await?;
        Ok::<_, strandline_core::Error>(count)
    };
    for expected in 1..=3 {
        assert_eq!(block_on(commit()).unwrap(), expected);
    }
}

/// A thread that finds its ticket durable does not flush what was committed since.
#[test]
fn who_awaits_a_ticket_flushes_once() {
    let (_folder, store) = create(&options());
    let later = || store.later().write(|tx, root| root.update(tx, |root| root.count += 1)).unwrap().1;
    let ticket = later();
    let mut awaited = pin!(ticket.clone());
    let mut context = Context::from_waker(Waker::noop());
    let _ = awaited.as_mut().poll(&mut context);
    while !ticket.is_durable().unwrap() {
        std::thread::yield_now();
    }
    let behind = later();
    assert!(awaited.as_mut().poll(&mut context).is_ready());
    std::thread::sleep(Duration::from_millis(50));
    assert!(!behind.is_durable().unwrap());
    store.close().unwrap();
}

#[test]
fn a_ticket_outlives_its_pool_and_knows_what_became_of_it() {
    let (folder, store) = create(&options());
    let later = |store: &Store<Root<'static>>| {
        store.later().write(|tx, root| root.update(tx, |root| root.count += 1)).unwrap().1
    };
    let ticket = later(&store);
    store.close().unwrap();
    ticket.wait().unwrap();
    block_on(ticket).unwrap();
    let store = Store::<Root>::open_existing(folder.path().join("pool"), &options()).unwrap();
    assert_eq!(store.read(|tx, root| Ok(root.get(tx)?.count)).unwrap(), 1);
}

/// If no thread waits, the pool's own thread flushes.
#[test]
fn a_commit_becomes_durable_by_itself() {
    let (_folder, store) = create(&Options { flush_interval: Duration::from_millis(1), ..options() });
    let ticket = store.later().write(|tx, root| root.update(tx, |root| root.count += 1)).unwrap().1;
    while !ticket.is_durable().unwrap() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Only in the `Sync` domain is there anything to wait for.
#[test]
fn in_other_domains_a_committed_transaction_needs_no_ticket() {
    let (_folder, store) = create(&Options { domain: strandline_core::Domain::Process, ..options() });
    let ticket = store.later().write(|tx, root| root.update(tx, |root| root.count += 1)).unwrap().1;
    assert!(ticket.is_durable().unwrap());
    block_on(ticket).unwrap();
}
