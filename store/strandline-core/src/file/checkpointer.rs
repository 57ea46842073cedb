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

/// A ring is too small if checkpoints come at shorter intervals because it is half full: a page that changes all the time is written
/// at each.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// When the ring was half full last.
#[derive(Default)]
struct Pace(Option<Instant>);

impl Pace {
    /// Notes that it is half full now; whether that is too soon.
    fn is_too_fast(&mut self, now: Instant) -> bool {
        let last = self.0.replace(now);
        last.is_some_and(|last| now.duration_since(last) < SHORTEST_INTERVAL)
    }
}

/// Takes a checkpoint, and makes the ring larger if that is wanted.
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

/// The thread that runs checkpoints when they are asked for. Where the system has none left, whoever needs a checkpoint runs it.
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
            // Whoever stops the thread asks for a checkpoint afterwards, but the one that runs takes that request along.
            let mut pace = Pace::default();
            while !seen.load(Ordering::Acquire) {
                let is_checkpoint = log.wait_for_request(&view);
                if seen.load(Ordering::Acquire) {
                    break;
                }
                log.grow_ahead(&view);
                // A failed checkpoint has poisoned the pool: there will be no other.
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

    /// Has the thread stop, without waiting for it.
    pub(super) fn ask_to_stop<M: Memory>(&self, memory: &M, log: &SharedLog) {
        self.stop.store(true, Ordering::Release);
        log.request_checkpoint(memory);
    }

    /// Stops the thread and waits for it.
    pub(super) fn stop<M: Memory>(&mut self, memory: &M, log: &SharedLog) {
        self.ask_to_stop(memory, log);
        if let Some(thread) = self.thread.take() {
            // Its panics are caught, and have poisoned the pool.
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
        assert!(!pace.is_too_fast(begin), "there was none before");
        assert!(!pace.is_too_fast(after(1.0)));
        assert!(pace.is_too_fast(after(1.5)));
        assert!(pace.is_too_fast(after(2.4)));
        assert!(!pace.is_too_fast(after(3.5)));
    }
}
