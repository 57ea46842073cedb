//! Long work: the interpreter continues meanwhile, and Ctrl-C ends it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::raised;

/// The time between two checks for signals.
pub const PAUSE: Duration = Duration::from_millis(50);

/// Runs `work` on a thread of its own. If a signal raises an exception, such as `KeyboardInterrupt`, calls `stop` and returns the exception
/// immediately; the thread then ends by itself.
///
/// # Errors
/// Returns the signal's exception, and an error if the thread cannot be started or the work panicked.
pub fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    stop: impl FnOnce(),
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, doing) = sync_channel(1);
    let work = move || drop(done.send(catch_unwind(AssertUnwindSafe(work))));
    std::thread::Builder::new().name("strandline".into()).spawn(work)?;
    match receive(py, doing) {
        Ok(Some(Ok(found))) => Ok(found),
        Ok(Some(Err(panic))) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            Err(PyRuntimeError::new_err(format!("this is a mistake in Strandline: {text}")))
        }
        Ok(None) => Err(PyRuntimeError::new_err("this is a mistake in Strandline: its thread has gone")),
        Err(exception) => {
            stop();
            Err(exception)
        }
    }
}

/// Receives one message, or returns `None` if there is no sender any more.
///
/// # Errors
/// Returns a signal's exception, such as `KeyboardInterrupt`, if one arrives first.
pub fn receive<T: Send>(py: Python<'_>, from: Receiver<T>) -> PyResult<Option<T>> {
    let from = Mutex::new(from);
    loop {
        match py.detach(|| from.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PAUSE)) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// The flag that ends a run, which the run polls. Flags are reused, since the code that polls them keeps a `'static` reference.
pub struct Stop(&'static AtomicBool);

static IDLE: Mutex<Vec<&'static AtomicBool>> = Mutex::new(Vec::new());
static RUNNING: Mutex<Vec<&'static AtomicBool>> = Mutex::new(Vec::new());

fn locked(
    of: &'static Mutex<Vec<&'static AtomicBool>>,
) -> std::sync::MutexGuard<'static, Vec<&'static AtomicBool>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stop {
    /// Returns a flag for a new run.
    pub fn new() -> Self {
        let flag = locked(&IDLE).pop().unwrap_or_else(|| Box::leak(Box::new(AtomicBool::new(false))));
        flag.store(false, Relaxed);
        locked(&RUNNING).push(flag);
        Self(flag)
    }

    /// Returns the flag to poll.
    pub fn flag(&self) -> &'static AtomicBool {
        self.0
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        locked(&RUNNING).retain(|flag| !std::ptr::eq(*flag, self.0));
        locked(&IDLE).push(self.0);
    }
}

/// Runs `work`, which polls the flag that it gets. Like [`wait_for`] otherwise.
///
/// # Errors
/// Returns `Stopped` if [`stop_all`] ended the run, and the errors of [`wait_for`].
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&'static AtomicBool) -> T + Send + 'static,
) -> PyResult<T> {
    let stop = Stop::new();
    let flag = stop.flag();
    let work = move || {
        let found = work(stop.flag());
        (!stop.flag().load(Relaxed)).then_some(found)
    };
    wait_for(py, move || flag.store(true, Relaxed), work)?.ok_or_else(stopped)
}

/// Returns the error of a run that another thread has ended.
fn stopped() -> PyErr {
    raised("Stopped", "the run was ended".into())
}

/// Ends all runs.
pub fn stop_all() {
    locked(&RUNNING).iter().for_each(|flag| flag.store(true, Relaxed));
}
