//! Stops the explorations of this process early, for example on Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Ends all explorations of this program, those under way and those to come, as if their time were up.
pub fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
}

/// Lets explorations go on again that begin from now on: for a program that goes on after one was ended.
pub fn resume() {
    STOPPED.store(false, Ordering::Relaxed);
}

/// Returns whether [`stop`] was called since the last [`resume`].
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}
