//! The thread that takes the checkpoints of a `Sync` pool, and the pool's state in its file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::statistics::Observed;
use crate::error::{Error, Result};
use crate::layout::{Layout, PAGE_BYTES, View};
use crate::memory::threads::start;
use crate::memory::{AlignedBuffer, Device, DeviceFile};
use crate::memory::{Memory, Native};
use crate::sync::SharedLog;

/// Writes the pool's state durably, and its watermark if one is given.
pub(super) fn write_state(device: &dyn Device, state: u64, watermark: Option<u64>) -> Result<()> {
    let page_at = Layout::STATE.offset();
    let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
    let mut write = || {
        device.read(DeviceFile::Heap, page_at, &mut page)?;
        page[..8].copy_from_slice(&state.to_le_bytes());
        if let Some(watermark) = watermark {
            let at = (Layout::WATERMARK.offset() - page_at) as usize;
            page[at..at + 8].copy_from_slice(&watermark.to_le_bytes());
        }
        device.write(DeviceFile::Heap, page_at, &page)?;
        device.flush(DeviceFile::Heap)
    };
    write().map_err(|e| Error::io("write the pool's state", e))
}

/// If checkpoints that begin because the ring is half full follow each other faster than this, the ring is too small: each checkpoint
/// writes all pages that change all the time.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// The time at which the ring was last half full.
#[derive(Default)]
struct Pace(Option<Instant>);

impl Pace {
    /// Notes that the ring is half full now. Returns whether this is too soon after the last time.
    fn is_too_fast(&mut self, now: Instant) -> bool {
        let last = self.0.replace(now);
        last.is_some_and(|last| now.duration_since(last) < SHORTEST_INTERVAL)
    }
}

/// Takes a checkpoint, and enlarges the ring if that is necessary.
fn run(
    view: &View<Native>,
    log: &SharedLog,
    pace: &mut Pace,
    observed: &Observed,
    pool: &Path,
) -> Result<()> {
    let is_too_fast = log.is_half_full(view) && pace.is_too_fast(Instant::now());
    observed.checkpoint(pool, || log.checkpoint_calmly(view))?;
    match log.larger_ring(view, is_too_fast) {
        Some(blocks) => log.enlarge_ring(view, blocks).map(drop),
        None => Ok(()),
    }
}

/// The thread that takes the requested checkpoints. If the system has no thread left, the threads that need a checkpoint take it
/// themselves.
pub(super) struct Checkpointer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(super) fn start(view: View<Native>, log: SharedLog, observed: Arc<Observed>, pool: &Path) -> Self {
        let pool = pool.to_owned();
        let (memory, own) = (view.memory.fork(), view.memory.fork());
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let body = move || {
            // The thread that stops this one requests a checkpoint after it has set `stop`, but a running checkpoint takes that request
            // along. So `stop` is checked in both places.
            let mut pace = Pace::default();
            while !seen.load(Ordering::Acquire) {
                let is_checkpoint = log.wait_for_request(&view);
                if seen.load(Ordering::Acquire) {
                    break;
                }
                log.grow_ahead(&view);
                // A failed checkpoint has poisoned the pool, so there are no further ones.
                if is_checkpoint && run(&view, &log, &mut pace, &observed, &pool).is_err() {
                    break;
                }
            }
        };
        let panicked =
            move |panic: &std::io::Error| log.poison_by_panic(&memory, "the checkpoint thread", panic);
        let thread = start("strandline-checkpoint", body, panicked).ok();
        if thread.is_none() {
            log.run_unattended(&own);
        }
        Self { stop, thread }
    }

    /// Tells the thread to stop, without waiting for it.
    pub(super) fn ask_to_stop<M: Memory>(&self, memory: &M, log: &SharedLog) {
        self.stop.store(true, Ordering::Release);
        log.request_checkpoint(memory);
    }

    /// Stops the thread and waits for it.
    pub(super) fn stop<M: Memory>(&mut self, memory: &M, log: &SharedLog) {
        self.ask_to_stop(memory, log);
        if let Some(thread) = self.thread.take() {
            // The thread's panics are caught, and have poisoned the pool.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_that_come_too_soon_are_told() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let after = |seconds: f64| begin + SHORTEST_INTERVAL.mul_f64(seconds);
        assert!(!pace.is_too_fast(begin), "there was no earlier time");
        assert!(!pace.is_too_fast(after(1.0)));
        assert!(pace.is_too_fast(after(1.5)));
        assert!(pace.is_too_fast(after(2.4)));
        assert!(!pace.is_too_fast(after(3.5)));
    }
}
