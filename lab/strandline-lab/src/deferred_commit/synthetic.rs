//! Transactions for Table 1, of one word each, which either all conflict or never do.

use std::cell::Cell;

use strandline_core::memory::PersistentAddress;
use strandline_core::{Error, Lock, Read, Result, Runner, Transaction};
use strandline_workloads::{Transactions, Workload};

/// The distance in bytes of words that have locks and lines of their own.
const APART_BYTES: u64 = 256;

/// Transactions that all write the same word, or in which each thread writes words of its own.
pub struct Synthetic {
    /// The number of transactions that all threads run together.
    pub transactions: u64,
    /// The number of threads.
    pub threads: u64,
    /// True if all write the same word.
    pub conflicting: bool,
    /// True if a thread commits what it has deferred after each transaction.
    pub drained: bool,
    /// The number of threads that have started.
    next_thread: Cell<u64>,
}

impl Synthetic {
    /// Creates so many transactions on so many threads.
    pub fn new(transactions: u64, threads: u64, conflicting: bool, drained: bool) -> Self {
        Self { transactions, threads, conflicting, drained, next_thread: Cell::new(0) }
    }
}

/// One thread.
pub struct Thread {
    words: PersistentAddress,
    next: u64,
    step: u64,
    value: u64,
    drained: bool,
}

impl Workload for Synthetic {
    type Thread = Thread;

    fn heap_bytes(&self) -> u64 {
        (self.transactions + 1) * APART_BYTES + (1 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        runner.run(|tx| {
            let words = tx.alloc((self.transactions + 1) * APART_BYTES)?;
            let root = tx.root(0);
            tx.write(root, words.offset())
        })
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        words(runner).map(|_| ())
    }

    fn thread<R: Runner>(&self, runner: &mut R, _: u64) -> Result<Thread> {
        let words = words(runner)?;
        let thread = self.next_thread.replace(self.next_thread.get() + 1);
        // Threads with their own words write one word after another.
        let (next, step) = if self.conflicting { (0, 0) } else { (thread, self.threads) };
        Ok(Thread { words, next, step, value: thread << 32, drained: self.drained })
    }
}

/// Returns the address of the words.
fn words<R: Runner>(runner: &mut R) -> Result<PersistentAddress> {
    let words = runner.view(|tx| {
        let root = tx.root(0);
        tx.read(root)
    })?;
    if words == 0 {
        return Err(Error::damaged("the synthetic workload was not prepared"));
    }
    Ok(PersistentAddress::new(words.next_multiple_of(APART_BYTES)))
}

impl Transactions for Thread {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let at = self.words.byte(APART_BYTES * self.next);
        self.next += self.step;
        self.value += 1;
        runner.run_locked(&[Lock::word(at)], |tx| tx.write(at, self.value))?;
        if self.drained { runner.drain() } else { Ok(()) }
    }
}
