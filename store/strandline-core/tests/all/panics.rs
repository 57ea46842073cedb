//! Panics in the caller's code, while a lock is held or in a thread of the pool.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use strandline_core::engine::{Control, Setup, SingleWriter, Stm, Worker};
use strandline_core::example::{durable_path_and_options, path_and_options, recorded};
use strandline_core::layout::{SharedLayout, View};
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Event, Hosted, Memory, Operation, Space, Step, World};
use strandline_core::scheme::Product;
use strandline_core::{Pool, Read, Runner, Transaction};

struct PanicsWhenWoken;

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        panic!("the executor is broken");
    }
}

struct Unparks(std::thread::Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_waker_that_panics_ends_nothing() {
    let (path, options) = durable_path_and_options();
    let options = strandline_core::Options { flush_interval: Duration::from_secs(3600), ..options };
    let pool = Pool::create(&path, &options).unwrap();
    let mut worker = pool.worker().unwrap();
    let mut later = |value| {
        let (_, transaction) = worker.run_later(|tx| tx.write(tx.root(0), value)).unwrap();
        pool.ticket(transaction).unwrap()
    };
    let broken = Waker::from(Arc::new(PanicsWhenWoken));
    for value in 0..3 {
        let mut first = pin!(later(value));
        let _ = first.as_mut().poll(&mut Context::from_waker(&broken));
        // Only the thread that flushes wakes this task.
        let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
        let mut second = pin!(later(10 + value));
        while second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            std::thread::park();
        }
        assert!(matches!(first.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(()))));
    }
    drop(worker);
    pool.close().unwrap();
}

/// The result of a closure. Its drop panics if it is set to.
struct Bomb<'a>(&'a AtomicU32);

impl Drop for Bomb<'_> {
    fn drop(&mut self) {
        if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            panic!("dropped");
        }
    }
}

#[test]
fn a_result_that_panics_when_it_is_dropped_leaves_no_lock() {
    for (path, options) in [path_and_options(), durable_path_and_options()] {
        let pool = Setup::from(Stm).create(&path, &options).unwrap();
        let (mut first, mut second) = (pool.worker().unwrap(), pool.worker().unwrap());
        let block = first.run(|tx| tx.alloc(4096)).unwrap();
        let (read, written) = (block, block.byte(512));
        let drops = AtomicU32::new(0);
        let run = AssertUnwindSafe(|| {
            first.run(|tx| {
                let seen = tx.read(read)?;
                // A commit of the other worker in between makes this commit fail.
                std::thread::scope(|threads| {
                    let write = || second.run(|tx| tx.write(read, seen + 1));
                    threads.spawn(write).join().unwrap().unwrap();
                });
                tx.write(written, seen)?;
                Ok(Bomb(&drops))
            })
        });
        assert!(catch_unwind(run).is_err(), "the commit fails once");
        second.run(|tx| tx.write(written, 5)).unwrap();
        first.run(|tx| tx.write(written, 6)).unwrap();
        assert_eq!(second.view(|tx| tx.read(written)).unwrap(), 6);
        drop((first, second));
        pool.close().unwrap();
    }
}

#[test]
fn a_closure_that_panics_leaves_no_lock_with_a_single_writer() {
    let (path, options) = durable_path_and_options();
    let pool = Setup::from(SingleWriter).create(&path, &options).unwrap();
    let (mut first, mut second) = (pool.worker().unwrap(), pool.worker().unwrap());
    let run = AssertUnwindSafe(|| {
        first.run(|tx| {
            tx.write(tx.root(0), 5)?;
            if tx.read(tx.root(0))? == 5 {
                panic!("in the closure");
            }
            Ok(())
        })
    });
    assert!(catch_unwind(run).is_err());
    second.run(|tx| tx.write(tx.root(1), 6)).unwrap();
    assert_eq!(first.view(|tx| tx.read(tx.root(0))).unwrap(), 0);
}

/// A world in which a commit panics if it is set to: one with writes, or one without.
struct Panicking {
    recorder: Rc<Recorder>,
    reads: bool,
    is_armed: Cell<bool>,
}

impl World for Panicking {
    fn perform(&self, thread: usize, operation: Operation) -> u64 {
        if let Operation::Event(Event::Commit(transaction)) = operation
            && self.reads == (transaction == 0)
            && self.is_armed.take()
        {
            panic!("in a commit");
        }
        self.recorder.perform(thread, operation)
    }
    fn switches(&self, thread: usize) -> bool {
        self.recorder.switches(thread)
    }
    fn omitted(&self, step: Step) -> bool {
        self.recorder.omitted(step)
    }
    fn size(&self, space: Space) -> u64 {
        self.recorder.size(space)
    }
}

#[test]
fn a_panic_in_a_commit_leaves_no_lock() {
    fn check<C: Control<Scheme = Product>>(control: C)
    where
        Setup<C>: From<C>,
    {
        let (recorder, view, _) = recorded();
        let world = Rc::new(Panicking { recorder, reads: false, is_armed: Cell::new(false) });
        let fork = |thread| View {
            memory: Hosted::new(world.clone(), thread),
            layout: view.layout,
            shared: view.shared,
        };
        let mut first = Worker::lease(fork(0), control, None).unwrap();
        let mut second = Worker::lease(fork(1), control, None).unwrap();
        world.is_armed.set(true);
        let run = AssertUnwindSafe(|| first.run(|tx| tx.write(tx.root(0), 5)));
        assert!(catch_unwind(run).is_err());
        assert!(!world.is_armed.get());
        // No transaction waits for a lock, or is refused because another one seems to run.
        second.run(|tx| tx.write(tx.root(0), 6)).unwrap();
        first.run(|tx| tx.write(tx.root(1), 7)).unwrap();
        assert_eq!(second.view(|tx| tx.read(tx.root(1))).unwrap(), 7);
    }
    check(Stm);
    check(SingleWriter);
}

#[test]
fn a_panic_while_a_view_ends_leaves_no_snapshot_registered() {
    fn check<C: Control<Scheme = Product>>(control: C)
    where
        Setup<C>: From<C>,
    {
        let (_, _, layout) = recorded();
        let shared = SharedLayout::new(&layout, 10, 1 << 16);
        let words = vec![0; layout.geometry.size as usize / 8];
        let recorder = Rc::new(Recorder::new(words, shared.bytes(), 0, 1, None));
        let world = Rc::new(Panicking { recorder, reads: true, is_armed: Cell::new(false) });
        let fork = |thread| View { memory: Hosted::new(world.clone(), thread), layout, shared };
        let mut first = Worker::lease(fork(0), control, None).unwrap();
        let mut second = Worker::lease(fork(1), control, None).unwrap();
        let memory = fork(1).memory;
        let mut runs = 0;
        let run = AssertUnwindSafe(|| {
            first.view(|tx| {
                runs += 1;
                tx.read(tx.root(0))?;
                if runs == 1 {
                    // Makes the view meet a conflict, so that it reads at a snapshot the second time.
                    second.run(|tx| tx.write(tx.root(0), 5)).unwrap();
                    second.run(|tx| tx.write(tx.root(1), 5)).unwrap();
                } else {
                    assert_eq!(memory.load(SharedLayout::SNAPSHOTS), 1);
                    world.is_armed.set(true);
                }
                tx.read(tx.root(1))
            })
        });
        assert!(catch_unwind(run).is_err());
        assert_eq!((runs, world.is_armed.get()), (2, false));
        assert_eq!(memory.load(SharedLayout::SNAPSHOTS), 0);
        assert_eq!(first.view(|tx| tx.read(tx.root(1))).unwrap(), 5);
    }
    check(Stm);
    check(SingleWriter);
}
