//! The thread of a scheme that needs a helper beside its workers (`mne-async`, `wrap`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::layout::View;
use crate::memory::{Memory, Native};
use crate::scheme::{SchemeKind, SchemeMemory, wake_helper};
use crate::transaction::Concurrency;

/// A running helper.
pub(super) struct Helper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the helper of scheme `kind`.
    ///
    /// # Errors
    /// The system has no thread left.
    #[inline]
    pub(super) fn start(kind: SchemeKind, view: View<Native>, concurrency: Concurrency) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("strandline-helper".into())
            .spawn(move || Native::help(kind, &view, concurrency, &|| seen.load(Ordering::Acquire)))
            .map_err(|e| Error::io("start the helper thread", e))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stops it and waits for it.
    pub(super) fn stop<M: Memory>(mut self, memory: &M) {
        self.stop.store(true, Ordering::Release);
        wake_helper(memory);
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, what it left undone is done when the pool is closed.
            let _ = thread.join();
        }
    }
}
