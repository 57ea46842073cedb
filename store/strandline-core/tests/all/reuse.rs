//! Freed space is used again before new chunks are taken: however long values are overwritten by values of other sizes, the heap's size stays
//! in proportion to the live values.

use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::{Domain, Options, Pool, Read, Runner, Transaction};
use tempfile::TempDir;

const CHUNK: u64 = 64 << 10;

fn pool() -> (Pool, TempDir) {
    let folder = TempDir::new().unwrap();
    let geometry = Geometry { size: 256 << 20, logs: 4, log_bytes: 1 << 20, chunk_bytes: CHUNK };
    let options = Options { geometry, domain: Domain::Process, initial_size: Some(0), ..Options::default() };
    (Pool::create(folder.path().join("pool"), &options).unwrap(), folder)
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}

/// A way to overwrite a pool's values.
struct Overwriting {
    values: u64,
    sizes: std::ops::Range<u64>,
    transactions: u64,
    /// The number of transactions after which the worker is dropped and another one leased.
    lease_after: u64,
    /// True if another worker frees the old value than the one that allocates the new one.
    two_workers: bool,
}

impl Overwriting {
    /// Returns the bytes in used chunks, and the bytes of values.
    fn run(&self) -> (u64, u64) {
        let (pool, _folder) = pool();
        let mut workers = [pool.worker().unwrap(), pool.worker().unwrap()];
        let table = workers[0].run(|tx| tx.alloc(8 * self.values)).unwrap();
        workers[0].run(|tx| (0..self.values).try_for_each(|slot| tx.write(table.word(slot), 0))).unwrap();
        let mut random = Random(7);
        let mut sizes = vec![0; self.values as usize];
        for number in 0..self.transactions {
            if number % self.lease_after == self.lease_after - 1 {
                drop(workers);
                workers = [pool.worker().unwrap(), pool.worker().unwrap()];
            }
            let slot = random.below(self.values);
            let bytes = self.sizes.start + random.below(self.sizes.end - self.sizes.start);
            sizes[slot as usize] = bytes;
            let old = workers[0]
                .run(|tx| {
                    let old = tx.read(table.word(slot))?;
                    if old != 0 && !self.two_workers {
                        tx.free(PersistentAddress::new(old))?;
                    }
                    let new = tx.alloc(bytes)?;
                    tx.write(new, number)?;
                    tx.write(table.word(slot), new.offset())?;
                    Ok(old)
                })
                .unwrap();
            if old != 0 && self.two_workers {
                workers[1].run(|tx| tx.free(PersistentAddress::new(old))).unwrap();
            }
        }
        drop(workers);
        let usage = pool.usage().unwrap();
        (usage.total_bytes - usage.free_chunks * CHUNK, sizes.iter().sum())
    }

    #[track_caller]
    fn stays_below(&self, times: u64) {
        let (used, live) = self.run();
        println!("{used} bytes of chunks for {live} bytes of values");
        assert!(used < times * live, "{used} bytes of chunks for {live} bytes of values");
    }
}

const MANY_SIZES: Overwriting = Overwriting {
    values: 1500,
    sizes: 20..3000,
    transactions: 200_000,
    lease_after: u64::MAX,
    two_workers: false,
};

#[test]
fn values_of_many_sizes() {
    MANY_SIZES.stays_below(3);
}

#[test]
fn workers_that_live_shortly() {
    Overwriting { lease_after: 50, transactions: 60_000, ..MANY_SIZES }.stays_below(3);
}

#[test]
fn what_another_worker_freed() {
    Overwriting { two_workers: true, transactions: 60_000, ..MANY_SIZES }.stays_below(3);
}

#[test]
fn objects_of_several_chunks() {
    let large = Overwriting { values: 60, sizes: CHUNK..8 * CHUNK, transactions: 20_000, ..MANY_SIZES };
    large.stays_below(3);
    Overwriting { two_workers: true, ..large }.stays_below(3);
}
