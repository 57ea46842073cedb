//! The floor on memory: the rate of swaps of two words that do only what durability requires. Each stores a line of log, writes it back and fences,
//! and stores two words at random places.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use strandline_core::Domain;
use strandline_core::memory::{
    LINE_BYTES, LINE_WORDS, Mapping, Memory, Native, PersistentAddress, Step, WriteBackInstruction,
};
use strandline_core::{Error, Result};

/// Number of words that are swapped, as in the array of `sps`.
const HOME_WORDS: u64 = 1_000_000;
/// Swaps between two looks at the flag that stops them.
const BETWEEN_LOOKS: u64 = 64;

/// The memory for the words and the logs.
pub struct MemoryFloor {
    memory: Native,
    log_bytes: u64,
}

impl MemoryFloor {
    /// Maps memory for the words and for `threads` logs of `log_bytes` bytes each.
    ///
    /// # Errors
    /// Like [`Mapping::anonymous`] and [`Native::new`].
    pub fn new(
        domain: Domain,
        instruction: Option<WriteBackInstruction>,
        threads: u64,
        log_bytes: u64,
    ) -> Result<Self> {
        let bytes = threads.checked_mul(log_bytes).and_then(|bytes| bytes.checked_add(8 * HOME_WORDS));
        let bytes = bytes.ok_or_else(|| Error::Parameter("the logs are too large".into()))?;
        let persistent = Mapping::anonymous(bytes.next_multiple_of(4096))?;
        persistent.map_ahead(u64::MAX);
        let volatile = Mapping::anonymous(4096)?;
        let memory = Native::new(Arc::new(persistent), Arc::new(volatile), domain, instruction, None)?;
        Ok(Self { memory, log_bytes })
    }

    /// Measures the swaps per second of `threads` threads, each with its own log.
    pub fn per_second(&self, threads: u64, duration: Duration, seed: u64) -> f64 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|index| {
                    // Each thread needs a view of its own.
                    let (memory, stop, bytes) = (self.memory.fork(), &stop, self.log_bytes);
                    scope.spawn(move || swap(&memory, (index, bytes), seed, stop))
                })
                .collect();
            std::thread::sleep(duration);
            stop.store(true, Ordering::Relaxed);
            let rates = running.into_iter().map(|thread| thread.join());
            rates.map(|rate| rate.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
        })
    }
}

/// Swaps until `stop` is set, with log number `index` of those of `log_bytes` bytes. Returns the swaps per second.
fn swap(memory: &Native, (index, log_bytes): (u64, u64), seed: u64, stop: &AtomicBool) -> f64 {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(index));
    let log = PersistentAddress::new(8 * HOME_WORDS).byte(index * log_bytes);
    let (since, mut swaps) = (Instant::now(), 0_u64);
    while swaps == 0 || !stop.load(Ordering::Relaxed) {
        for _ in 0..BETWEEN_LOOKS {
            let [one, other] = [(); 2].map(|()| PersistentAddress::new(8 * random.u64(..HOME_WORDS)));
            let (first, second) = (memory.load(one), memory.load(other));
            let line = log.byte(swaps * LINE_BYTES % log_bytes);
            let record: [u64; LINE_WORDS as usize] =
                [one.offset(), first, other.offset(), second, swaps, 0, 0, 0];
            memory.store_range(line, &record);
            memory.write_back(line, Step::CommitWriteBack);
            memory.fence(Step::CommitFence);
            memory.store(one, second);
            memory.store(other, first);
            swaps += 1;
        }
    }
    swaps as f64 / since.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gets_somewhere() {
        let floor = MemoryFloor::new(Domain::FlushOnFail, None, 2, 1 << 16).unwrap();
        assert!(floor.per_second(2, Duration::from_millis(1), 1) > 0.0);
    }
}
