//! The thread of a scheme that needs a helper beside its workers (`mne-async`, `wrap`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::layout::View;
use crate::memory::threads::start;
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
    /// Returns an error if the system has no thread left.
    pub(super) fn start(kind: SchemeKind, view: View<Native>, concurrency: Concurrency) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let memory = view.memory.fork();
        let help = move || Native::help(kind, &view, concurrency, &|| seen.load(Ordering::Acquire));
        // The scheme's workers would wait for the helper for ever, so the pool cannot be opened without it.
        let thread =
            start("strandline-helper", help, move |panic| memory.set_poison("the helper thread", panic))
                .map_err(|e| Error::io("start the helper thread", e))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stops the helper and waits for it.
    pub(super) fn stop<M: Memory>(mut self, memory: &M) {
        self.stop.store(true, Ordering::Release);
        wake_helper(memory);
        if let Some(thread) = self.thread.take() {
            // The helper's panics are caught and have poisoned the pool.
            let _ = thread.join();
        }
    }
}
